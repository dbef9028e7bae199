"""What a data loader does: one loader, one file, which says its names, relations, unit of noise, steps and words.

The fields of a loader are the arguments of `dp_sgd` that it takes beside sizes. To add one, write its file, and name it
in `Sampling` and `LOADERS`: Python, the command line and statements read everything else from its class.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Literal

from cumulant.errors import InvalidParameter
from cumulant.loaders.loader import AbstractLoader
from cumulant.loaders.opacus import OpacusLoader
from cumulant.loaders.poisson import PoissonLoader
from cumulant.loaders.random_allocation import RandomAllocationLoader
from cumulant.loaders.shuffled import ShuffledLoader
from cumulant.loaders.without_replacement import WithoutReplacementLoader
from cumulant.parameters import require

Sampling = Literal[
    "poisson", "opacus", "without_replacement", "random_allocation", "balls_in_bins", "shuffled", "fixed", "allocation"
]
"""What a data loader does, by every name that it has."""

LOADERS: tuple[type[AbstractLoader], ...] = (
    PoissonLoader,
    OpacusLoader,
    WithoutReplacementLoader,
    RandomAllocationLoader,
    ShuffledLoader,
)
NAMES = {loader.name: loader for loader in LOADERS}
ALSO_CALLED = {alias: loader.name for loader in LOADERS for alias in loader.also_called}
ARGUMENTS = {field.name: None for loader in LOADERS for field in fields(loader)}
"""What some loader takes and others do not."""


def loader_named(sampling: Any, arguments: Mapping[str, Any]) -> AbstractLoader:
    """Return the loader of a name, with its arguments; refuse those of others."""
    name = ALSO_CALLED.get(sampling, sampling) if isinstance(sampling, str) else sampling
    if name not in list(NAMES):
        raise InvalidParameter(f"sampling must be {' or '.join(map(repr, NAMES))}, got {sampling!r}")
    kind = NAMES[name]
    said = {argument: value for argument, value in arguments.items() if value is not None}
    for argument, value in said.items():
        owners = " or ".join(f"sampling={owner!r}" for owner in takers(argument))
        require(name in takers(argument), f"{argument} belong{'s' * (argument != 'bins')} to {owners}", value)
    return kind(**said)


def takers(argument: str) -> list[str]:
    """Return the names of the loaders that take an argument.

    >>> takers("bins")
    ['random_allocation']
    """
    return [loader.name for loader in LOADERS if argument in [field.name for field in fields(loader)]]
