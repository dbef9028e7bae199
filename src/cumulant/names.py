"""Parameters have names: an argument without one is refused with the line that was meant."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import cache, wraps
from typing import Any, TypeVar, cast

from cumulant.errors import MisnamedParameter

AnyMethod = TypeVar("AnyMethod", bound=Callable[..., Any])


def by_name(method: AnyMethod) -> AnyMethod:
    """Refuse arguments without names, which the method does not take, and say how to write them.

    >>> import cumulant as cm
    >>> cm.Gaussian(noise_multiplier=1.0).epsilon(1e-5)
    Traceback (most recent call last):
    ...
    cumulant.errors.MisnamedParameter: epsilon takes its arguments by name: epsilon(delta=1e-05)
    """

    @wraps(method)
    def asked(self: Any, *unnamed: Any, **named: Any) -> Any:
        if unnamed:
            known = [name for name in inspect.signature(method).parameters if name != "self" and name not in named]
            raise MisnamedParameter(_by_name(method.__name__, known, unnamed))
        return method(self, **named)

    return cast(AnyMethod, asked)


def check_names(kind: type, unnamed: Sequence[Any], named: Mapping[str, Any]) -> None:
    """Refuse arguments of a class that have no name, or one that it does not know.

    >>> import cumulant as cm
    >>> cm.Gaussian(sigma=1.0)
    Traceback (most recent call last):
    ...
    cumulant.errors.MisnamedParameter: Gaussian has no parameter 'sigma', it takes noise_multiplier. Add N(0, σ²) ...
    """
    known = _named_parameters(kind)
    if known is None:
        return
    if unnamed:
        raise MisnamedParameter(_by_name(kind.__name__, known, unnamed))
    for name in named:
        if name not in known:
            about = (inspect.getdoc(kind) or "").partition("\n")[0]
            raise MisnamedParameter(f"{kind.__name__} has no parameter {name!r}, it takes {', '.join(known)}. {about}")


@cache
def _named_parameters(kind: type) -> list[str] | None:
    """Return the parameters of a class; None if it takes some without a name."""
    _, *parameters = inspect.signature(kind.__init__).parameters.values()  # type: ignore[misc]
    named = all(parameter.kind is parameter.KEYWORD_ONLY for parameter in parameters)
    return [parameter.name for parameter in parameters] if named else None


def _by_name(what: str, known: Sequence[str], unnamed: Sequence[Any]) -> str:
    if len(unnamed) > len(known):
        return f"{what} takes its arguments by name: {', '.join(known) or 'none'}"
    meant = ", ".join(f"{name}={value!r}" for name, value in zip(known, unnamed, strict=False))
    return f"{what} takes its arguments by name: {what}({meant})"
