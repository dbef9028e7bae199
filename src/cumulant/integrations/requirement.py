"""Tools that an integration needs: there, and new enough, or a message that says what to install."""

from __future__ import annotations

import re
from importlib import metadata, util


def require_package(module: str, *, distribution: str, at_least: str, extra: str) -> None:
    """Raise `ImportError` with the way out unless a package is installed in a version that is new enough.

    >>> require_package("no_such", distribution="no-such", at_least="1.0", extra="opacus")
    Traceback (most recent call last):
    ...
    ImportError: this integration needs no-such >= 1.0, which is not installed; from a checkout: pip install '.[opacus]'
    """
    way_out = f"from a checkout: pip install '.[{extra}]'"
    if util.find_spec(module) is None:
        raise ImportError(f"this integration needs {distribution} >= {at_least}, which is not installed; {way_out}")
    try:
        found = metadata.version(distribution)
    except metadata.PackageNotFoundError:  # on the path, but not installed: its version is unknown
        return
    if _numbers(found) < _numbers(at_least):
        raise ImportError(f"this integration needs {distribution} >= {at_least}, found {found}; {way_out}")


def _numbers(version: str) -> tuple[int, ...]:
    """Return the leading numbers of a version.

    >>> _numbers("1.10.0rc1") > _numbers("1.9")
    True
    """
    return tuple(int(number) for number in re.match(r"[\d.]*", version)[0].strip(".").split(".") if number)  # type: ignore[index]
