"""Who is asked: this library and its peers, each by the calls its own documentation shows."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

from benchmarks.contestants import autodp, cumulant, dp_accounting, opacus, prv_accountant
from benchmarks.contestants.base import Contestant

CONTESTANTS: tuple[Contestant, ...] = (
    cumulant.BEST,
    cumulant.RDP,
    dp_accounting.PLD,
    dp_accounting.RDP,
    prv_accountant.PRV,
    opacus.PRV,
    opacus.RDP,
    opacus.GDP,
    autodp.RDP,
    autodp.FOURIER,
)
FIRST = CONTESTANTS[0]
BY_NAME = {contestant.name: contestant for contestant in CONTESTANTS}


def installed(contestant: Contestant) -> bool:
    return find_spec(contestant.module) is not None


def versions() -> dict[str, str]:
    """Return the version of every package that takes part, or "missing"."""
    return {contestant.package: _version(contestant) for contestant in CONTESTANTS}


def _version(contestant: Contestant) -> str:
    try:
        return version(contestant.package)
    except PackageNotFoundError:
        return "from source" if installed(contestant) else "missing"
