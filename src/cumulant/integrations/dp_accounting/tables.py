"""Events that are tables here: discrete Laplace noise, answers in buckets."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, final

from cumulant.mechanisms.base import AbstractMechanism
from cumulant.mechanisms.known import Known
from cumulant.mechanisms.stated_pair import StatedPair
from cumulant.neighbors import REPLACE_ONE, ZERO_OUT, Neighbors
from cumulant.numerics.rounding import ULP
from cumulant.parameters import positive, probability, require, whole_number

MARGIN = 8 * ULP  # relative, for what entries of a table round
LARGEST_TABLE = 10_000  # outputs


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class FromEvent(AbstractMechanism):
    """A table that stands for an event, and remembers for which: its class and its arguments."""

    theorem: ClassVar[str] = "the dominating pair that an event of dp_accounting describes"

    pair: StatedPair
    event: str
    arguments: tuple[tuple[str, Any], ...]

    @property
    def neighbors(self) -> Neighbors | None:
        return self.pair.neighbors

    def _known(self) -> Known:
        return self.pair._known()

    def _plain(self) -> dict[str, Any]:
        """As data it is its table."""
        return self.pair._plain()


def discrete_laplace(parameter: float, distance: int, relation: Neighbors | None) -> StatedPair:
    """Return discrete Laplace noise of P(x) ∝ e^{-a|x|} on whole numbers, moved by at most `distance`.

    At x <= 0 the loss of P against P moved by k is ak, at x >= k it is -ak, between a(k - 2x). A larger move dominates
    a smaller one, as the noise is symmetric and log-concave.

    Holds for:  one whole number; for vectors the table is not known to dominate.
    """
    a = positive("noise_parameter", parameter) * (1 + MARGIN)  # safe side: less noise
    k = whole_number("sensitivity", distance, at_least=1)
    require(k < LARGEST_TABLE, f"sensitivity must be below {LARGEST_TABLE}, for a table of that size", k)
    centre = math.tanh(a / 2)
    losses = [a * (k - 2 * x) for x in range(k + 1)]
    between = [centre * math.exp(-a * x) for x in range(1, k)]
    masses = [1 / (1 + math.exp(-a)), *between, math.exp(-a * k) / (1 + math.exp(-a))]
    return StatedPair.from_losses(losses=losses, probabilities=_scaled(masses), relation=relation)


def buckets(parameter: float, count: int) -> StatedPair:
    """Return the answer of someone whose bucket is replaced: true, that of the neighbour, or one of the others."""
    p = probability("noise_parameter", parameter) * (1 - MARGIN)  # safe side: less noise
    k = whole_number("num_buckets", count, at_least=2)
    other = p / k
    rest = [other * (k - 2)] if k > 2 else []
    mine = 1 - other * (k - 1)
    return StatedPair(
        probabilities=_scaled([mine, other, *rest]),
        neighbor_probabilities=_scaled([other, mine, *rest]),
        relation=REPLACE_ONE,
    )


def special_bucket(parameter: float, count: int) -> StatedPair:
    """Return the answer of someone who may have no bucket, and then answers one drawn uniformly."""
    p = probability("noise_parameter", parameter) * (1 - MARGIN)
    k = whole_number("num_buckets", count, at_least=2)
    mine = 1 - p / k * (k - 1)
    return StatedPair(
        probabilities=_scaled([mine, p / k * (k - 1)]),
        neighbor_probabilities=_scaled([1 / k, (k - 1) / k]),
        relation=ZERO_OUT,
    )


def _scaled(masses: Sequence[float]) -> tuple[float, ...]:
    total = math.fsum(masses)
    return tuple(mass / total for mass in masses)
