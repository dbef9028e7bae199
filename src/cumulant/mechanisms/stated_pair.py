"""A mechanism given by its dominating pair: a table, a distribution of losses, or two densities."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from cumulant.loss.cgf import Array, Cgf
from cumulant.loss.finite_pair import FinitePair, table_pair
from cumulant.loss.pair_family import FiniteFamily
from cumulant.mechanisms.base import AbstractMechanism
from cumulant.numerics.quadrature import POINTS, nodes_on
from cumulant.parameters import probability, real, require

CELLS = 2000  # of a density
ROUNDED = 1e-12  # what may be missing of 1 by rounding
NEARLY_ONE = 1e-9  # how far a table may sum from 1

Table = tuple[float, ...]


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class StatedPair(AbstractMechanism):
    """A mechanism whose outputs on any neighbours are no easier to tell apart than P and Q, in either order.

    Give P, with the record, and Q, without it, as tables of probabilities, output by output. `from_losses` takes the
    distribution of the privacy loss instead, `from_densities` two densities on an interval. `inner_probabilities` is a
    pair that is attained, for the lower ends of intervals; by default the pair itself.

    Holds for:  what you state; the pair must dominate for every ratio t >= 0 (Zhu, Dong and Wang 2022, Definition 7).
    Tightness:  exact for mechanisms that attain it.

    >>> coin = StatedPair(probabilities=[0.75, 0.25], neighbor_probabilities=[0.25, 0.75])
    >>> round((coin * 10).epsilon(delta=1e-5), 6)
    10.985945
    """

    theorem: ClassVar[str] = "a dominating pair stated by the user"

    probabilities: Table
    neighbor_probabilities: Table
    inner_probabilities: tuple[Table, Table] | None = None

    def __post_init__(self) -> None:
        for name in ("probabilities", "neighbor_probabilities"):
            object.__setattr__(self, name, _checked_table(name, getattr(self, name)))
        same = len(self.probabilities) == len(self.neighbor_probabilities)
        if self.inner_probabilities is not None:
            p, q = self.inner_probabilities
            object.__setattr__(self, "inner_probabilities", (tuple(p), tuple(q)))
        require(same, "probabilities and neighbor_probabilities must have the same length", self.neighbor_probabilities)

    @staticmethod
    def from_losses(*, losses: Sequence[float], probabilities: Sequence[float]) -> StatedPair:
        """Return the pair of a privacy loss that takes finitely many values under P; an infinite loss is revelation.

        What is missing of E[e^-L] = 1 is what Q has and P lacks: in the other order it is revealed.

        >>> p = 1 / (1 + math.exp(-1.0))
        >>> round(StatedPair.from_losses(losses=[1.0, -1.0], probabilities=[p, 1 - p]).epsilon(delta=0.0), 12)
        1.0
        """
        p = _checked_table("probabilities", probabilities)
        require(len(losses) == len(p), "losses must be as many as probabilities", losses)
        values = [math.inf if loss == math.inf else real("losses", loss, "must be numbers or inf") for loss in losses]
        q = [mass * math.exp(-loss) for loss, mass in zip(values, p, strict=True)]
        rest = 1 - math.fsum(q)
        require(rest > -NEARLY_ONE, "losses must have E[e^-L] <= 1 under these probabilities", losses)
        missing = rest if rest > ROUNDED else 0.0
        return StatedPair(probabilities=(*p, 0.0), neighbor_probabilities=_scaled((*q, missing)))

    @staticmethod
    def from_densities(
        *,
        log_density: Callable[[Array], Array],
        neighbor_log_density: Callable[[Array], Array],
        support: tuple[float, float],
    ) -> StatedPair:
        """Return a pair that dominates two densities on an interval, cell by cell, and one that they dominate.

        Inside a cell the ratio lies between its smallest and largest value; putting the cell's masses there makes
        outputs easier to tell apart, merging the cell makes it harder. What P has outside counts as revealed.

        Holds for:  densities whose ratio is monotone between neighbouring nodes of a Gauss-Legendre rule.
        """
        low, high = (real("support", end, "must be two numbers") for end in support)
        require(low < high, "support must be an interval (low, high)", support)
        edges = np.linspace(low, high, CELLS + 1)
        t, log_weights = nodes_on(edges[:-1], edges[1:])
        masses = [np.exp(log_weights + f(t)).reshape(CELLS, POINTS) for f in (log_density, neighbor_log_density)]
        p, q = (np.sum(mass, axis=1) for mass in masses)
        ratios = log_density(t) - neighbor_log_density(t)
        ends = log_density(edges) - neighbor_log_density(edges)
        inside = ratios.reshape(CELLS, POINTS)
        least = np.minimum(np.min(inside, axis=1), np.minimum(ends[:-1], ends[1:]))
        most = np.maximum(np.max(inside, axis=1), np.maximum(ends[:-1], ends[1:]))
        outer = _split(p, q, np.exp(least), np.exp(most))
        return StatedPair(
            probabilities=_with_rest(outer[0], (1.0, 0.0)),
            neighbor_probabilities=_with_rest(outer[1], (0.0, 1.0)),
            inner_probabilities=(_scaled(p.tolist()), _scaled(q.tolist())),
        )

    def loss(self) -> Cgf:
        pairs = _both_orders(self.probabilities, self.neighbor_probabilities)
        nodes = [pair.nodes(1.0, 0.0) for pair in pairs]

        def log_moment(lam: Array) -> Array:
            return np.asarray(np.max([node.cumulants(lam)[0][0] for node in nodes], axis=0) * (1 + 1e-13))  # rounded up

        return Cgf(
            log_moment=log_moment,
            kl=max(0.0, *(float(node.divergence[0]) for node in nodes)),
            pure=max(0.0, *(pair.supremum for pair in pairs)),
            failure=max(pair.failure for pair in pairs),
        )

    def family(self) -> FiniteFamily:
        return FiniteFamily(_both_orders(self.probabilities, self.neighbor_probabilities))

    def attained_family(self) -> FiniteFamily:
        return (
            self.family() if self.inner_probabilities is None else FiniteFamily(_both_orders(*self.inner_probabilities))
        )

    @property
    def pairs_attained(self) -> bool:
        return self.inner_probabilities is None


def _both_orders(p: Table, q: Table) -> tuple[FinitePair, ...]:
    """Return the pair and its reverse, or one of them where an exchange of outputs makes them the same."""
    same = sorted(zip(p, q, strict=True)) == sorted(zip(q, p, strict=True))
    return (table_pair(p, q),) if same else (table_pair(p, q), table_pair(q, p))


def _split(p: Array, q: Array, least: Array, most: Array) -> tuple[Array, Array]:
    """Return masses of P and Q on the smallest and largest ratio of every cell, with the cell's sums."""
    gap = np.maximum(most - least, 1e-300)
    upper = np.clip((p - least * q) / gap, 0.0, q)
    lower = q - upper
    return np.concatenate([least * lower, most * upper]), np.concatenate([lower, upper])


def _with_rest(masses: Array, rest_at: tuple[float, float]) -> Table:
    """Return masses with what is missing of 1 on one of two more outputs."""
    rest = max(1 - float(np.sum(masses)), 0.0)
    return _scaled([*masses.tolist(), rest * rest_at[0], rest * rest_at[1]])


def _scaled(masses: Sequence[float]) -> Table:
    total = math.fsum(masses)
    return tuple(mass / total for mass in masses)


def _checked_table(name: str, table: Sequence[float]) -> Table:
    values = tuple(probability(name, value) for value in table)
    require(abs(math.fsum(values) - 1) < NEARLY_ONE, f"{name} must add up to 1", math.fsum(values))
    return values
