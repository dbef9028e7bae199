"""How much privacy did this computation spend, and how much may I still run?

>>> import cumulant as cm
>>> run = cm.Gaussian(noise_multiplier=20.0) * 1000
>>> round(run.epsilon(delta=1e-5), 4)
7.5113
"""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from cumulant.version import __version__ as __version__

if TYPE_CHECKING:
    from cumulant.names import *  # noqa: F403
    from cumulant.names import __all__ as __all__


def __getattr__(name: str) -> Any:
    """Open a room, or all public names when the first is asked for: `import cumulant` alone takes no time."""
    if name.startswith("_") and name != "__all__":
        raise AttributeError(f"module 'cumulant' has no attribute {name!r}")
    if find_spec(f"cumulant.{name}") is not None:
        return import_module(f"cumulant.{name}")
    found = getattr(import_module("cumulant.names"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__getattr__("__all__")})
