"""A mechanism given by its dominating pair: a table, a distribution of losses, or two densities."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, final

import numpy as np

from cumulant.curves.curve import Array
from cumulant.errors import InvalidParameter
from cumulant.mechanisms.base import AbstractMechanism
from cumulant.mechanisms.known import Known
from cumulant.neighbors import NAMED, Neighbors
from cumulant.numerics.quadrature import POINTS, nodes_on
from cumulant.pairs.atoms import Atoms, LossTable, Reversed, Table
from cumulant.pairs.finite_pair import finite_loss, finite_pair
from cumulant.pairs.noise import FiniteNoise
from cumulant.parameters import by_name, probability, real, require, shown

CELLS = 2000  # of a density
UNIT = 2.0**-52  # in the last place of 1
NEARLY_ONE = 1e-9  # how far a table may sum from 1: what is missing is revealed, and too much is refused

DENSITIES = "log_density", "neighbor_log_density"
KINKED = 1e-4  # by which a rule may exceed 1 where a density bends or ends inside a cell; it is scaled
LEAST_CELL = 1e-300  # whose width has a logarithm to all digits

Values = tuple[float, ...]


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class StatedPair(AbstractMechanism):
    """A mechanism whose outputs on neighbours are no easier to tell apart than P and Q, in either direction.

    Give P, with the record, and Q, without it, as tables of probabilities, output by output. `from_losses` takes the
    distribution of the privacy loss instead, `from_densities` two densities on an interval. `inner_probabilities` is a
    pair that is attained, for the lower ends of intervals; by default the pair itself.

    Under add-or-remove-one and zero-out the record is in all releases or in none, so P and Q keep their places in a
    run. Under replace-one nothing tells which neighbour comes first: every release may be (P, Q) or (Q, P), and a run
    of a pair that is not symmetric costs more. `relation=` says for which relation the pair holds; without it an
    unsampled run is answered for all, that is, as under replace-one.

    What a table lacks of 1, beyond rounding, counts as revealed: P's rest in one direction, Q's in the other.

    Holds for:  what you state; the pair must dominate for every ratio t >= 0 (Zhu, Dong and Wang 2022, Definition 7).
    Tightness:  exact for mechanisms that attain it.

    >>> coin = StatedPair(probabilities=[0.75, 0.25], neighbor_probabilities=[0.25, 0.75])
    >>> round((coin * 10).epsilon(delta=1e-5), 6)
    10.985945
    """

    theorem: ClassVar[str] = "a dominating pair stated by the user"

    probabilities: Values
    neighbor_probabilities: Values
    inner_probabilities: tuple[Values, Values] | None = None
    losses: Values | None = None
    relation: Neighbors | None = None

    def __post_init__(self) -> None:
        p, q = _checked_tables("", self.probabilities, self.neighbor_probabilities)
        object.__setattr__(self, "probabilities", p)
        object.__setattr__(self, "neighbor_probabilities", q)
        if self.inner_probabilities is not None:
            inner = _column("inner_probabilities", self.inner_probabilities)
            require(len(inner) == 2, "inner_probabilities must be two tables", inner)
            object.__setattr__(self, "inner_probabilities", _checked_tables("inner ", *inner))
        if self.losses is not None:
            object.__setattr__(self, "losses", _checked_losses(self.losses, p, q))
        require(
            self.relation is None or isinstance(self.relation, Neighbors),
            f"relation must be None, {NAMED}",
            self.relation,
        )

    @property
    def neighbors(self) -> Neighbors | None:
        return self.relation

    @staticmethod
    @by_name
    def from_losses(
        *, losses: Sequence[float], probabilities: Sequence[float], relation: Neighbors | None = None
    ) -> StatedPair:
        """Return the pair of a privacy loss that takes finitely many values under P; an infinite loss is revelation.

        What is missing of E[e^-L] = 1, beyond rounding, is what Q has and P lacks: the other way round it is revealed.

        >>> p = 1 / (1 + math.exp(-1.0))
        >>> round(StatedPair.from_losses(losses=[1.0, -1.0], probabilities=[p, 1 - p]).epsilon(delta=0.0), 12)
        1.0
        """
        given, masses = _column("losses", losses), _column("probabilities", probabilities)
        require(len(given) == len(masses), "losses must be as many as probabilities", given)
        table = _checked_table("probabilities", masses)
        stated = [real("losses", loss, "must be numbers or inf") for loss in given]
        stated += [math.inf] * (len(table) - len(stated))  # what is missing of P is revealed
        # a loss that P does not have is none
        values, p = zip(*(row for row in zip(stated, table, strict=True) if row[1] > 0), strict=True)
        require(min(values) > -math.inf, "losses must be numbers or inf", given)
        log_q = [math.log(mass) - loss for loss, mass in zip(values, p, strict=True)]
        require(max(log_q) < 1.0, "losses must have E[e^-L] <= 1 under these probabilities", given)
        q = [math.exp(log) for log in log_q]
        rest = _missing(values, p)
        rounding = UNIT * (4 * len(q) + math.fsum(m * abs(x) for m, x in zip(q, values, strict=True) if m > 0))
        require(rest >= -rounding, "losses must have E[e^-L] <= 1 under these probabilities", given)
        return StatedPair(
            probabilities=(*p, 0.0),
            neighbor_probabilities=(*q, min(rest, 1.0) if rest > rounding else 0.0),
            losses=(*values, -math.inf),
            relation=relation,
        )

    @staticmethod
    @by_name
    def from_densities(
        *,
        log_density: Callable[[Array], Array],
        neighbor_log_density: Callable[[Array], Array],
        support: tuple[float, float],
        relation: Neighbors | None = None,
    ) -> StatedPair:
        """Return a pair that dominates two densities on an interval, cell by cell, and one that they dominate.

        Inside a cell the ratio lies between its smallest and largest value; putting the cell's masses there makes
        outputs easier to tell apart, merging the cell makes it harder. What P has outside counts as revealed, and so
        does what Q has outside, the other way round. A density may vanish, log 0 = -inf, but at the ends of cells only.

        Holds for:  densities whose ratio is monotone between neighbouring nodes of a Gauss-Legendre rule.
        """
        edges = _edges(_column("support", support))
        t, log_weights = nodes_on(edges[:-1], edges[1:])
        named = list(zip(DENSITIES, (log_density, neighbor_log_density), strict=True))
        inside, ends = ([_densities(name, f, x) for name, f in named] for x in (t, edges))
        with np.errstate(under="ignore"):
            p, q = (_masses(name, logs, log_weights) for name, logs in zip(DENSITIES, inside, strict=True))
        least, most = _ratios(_log_ratio(*inside).reshape(CELLS, POINTS), _log_ratio(*ends))
        outer = _split(p, q, least, most)
        return StatedPair(
            probabilities=_with_rest(outer[0], (1.0, 0.0)),
            neighbor_probabilities=_with_rest(outer[1], (0.0, 1.0)),
            inner_probabilities=(_with_rest(p, (1.0,)), _with_rest(q, (1.0,))),  # what is outside is one output
            relation=relation,
        )

    def _known(self) -> Known:
        """Some neighbours attain the pair in one direction for all releases; what mixes directions dominates only.

        Mixing directions may cost more than the worse direction's Rényi DP.
        """
        atoms, inner = self._atoms(), self.inner_probabilities
        directions = (atoms,) if atoms.symmetric else (atoms, Reversed(atoms))
        joins = self.relation is not None and self.relation.joins
        noise = FiniteNoise(atoms)
        found = Known.by_noise(
            noise,
            curve=lambda: finite_loss([finite_pair(one) for one in directions]),
            attained=None if inner is None else FiniteNoise(Table(*inner)),
            relation=self.relation,
            tight=lambda relation: inner is None and (atoms.symmetric or (relation is not None and relation.joins)),
            sharper_curve=not joins and not atoms.symmetric,
        )
        return replace(found, alone=lambda: tuple(((pair, 1),) for pair in noise.both_directions()))

    def _atoms(self) -> Atoms:
        if self.losses is None:
            return Table(self.probabilities, self.neighbor_probabilities)
        rows = [(x, p) for x, p in zip(self.losses, self.probabilities, strict=True) if p > 0]
        finite = [(x, p) for x, p in rows if x < math.inf]
        missing = math.fsum(q for q, p in zip(self.neighbor_probabilities, self.probabilities, strict=True) if p == 0)
        revealed = math.fsum(p for x, p in rows if x == math.inf)
        return LossTable(tuple(x for x, _ in finite), tuple(p for _, p in finite), revealed, missing)

    def _plain(self) -> dict[str, Any]:
        """Losses and relation are left out where there are none."""
        content = AbstractMechanism._plain(self)
        return {name: value for name, value in content.items() if value is not None or name == "inner_probabilities"}


# Tables ---------------------------------------------------------------------------------------------------------------


def _column(name: str, values: Any) -> tuple[Any, ...]:
    """Return what an iterable yields, once."""
    require(isinstance(values, Iterable) and not isinstance(values, str | bytes), f"{name} must be a table", values)
    try:
        return tuple(values)
    except TypeError:  # an array without a dimension
        raise InvalidParameter(f"{name} must be a table, got {shown(values)}") from None


def _checked_tables(kind: str, p: Any, q: Any) -> tuple[Values, Values]:
    """Return two tables of one length that add up to 1: what one lacks stands on an output that the other has not."""
    p, q = _column(f"{kind}probabilities", p), _column(f"{kind}neighbor_probabilities", q)
    first, second = (
        _checked_table(f"{kind}{name}", table) for name, table in (("probabilities", p), ("neighbor_probabilities", q))
    )
    require(len(p) == len(q), "probabilities and neighbor_probabilities must have the same length", q)
    if len(first) == len(second) == len(p):
        return first, second
    rest_p, rest_q = (table[-1] if len(table) > len(p) else 0.0 for table in (first, second))
    return (*first[: len(p)], rest_p, 0.0), (*second[: len(p)], 0.0, rest_q)


def _checked_table(name: str, table: tuple[Any, ...]) -> Values:
    """Return probabilities; what is missing of 1, beyond rounding, is one output more.

    A sum of n numbers that were rounded is within n units of 1; such a table is scaled (`atoms.Table`).
    """
    values = tuple(probability(name, value) for value in table)
    require(len(values) > 0, f"{name} must have at least one entry", table)
    rest = math.fsum([1.0, *(-value for value in values)])
    rounding = UNIT * max(4, len(values))
    require(-rounding <= rest < NEARLY_ONE, f"{name} must add up to 1", math.fsum(values))
    return values if rest <= rounding else (*values, rest)


def _checked_losses(losses: Any, p: Values, q: Values) -> Values:
    """Return the losses of each output, checked against the tables that belong to them."""
    values = tuple(real("losses", loss, "must be numbers, inf or -inf") for loss in _column("losses", losses))
    require(len(values) == len(p), "losses must be as many as probabilities", values)
    for loss, a, b in zip(values, p, q, strict=True):
        if a > 0:
            there = (math.inf if b == 0 else math.log(a) - math.log(b)) if b < 1e-290 else math.log(a / b)
            fine = abs(loss - there) <= 1e-9 * (1 + abs(loss)) or (b < 1e-290 and loss > 600)
            require(fine or loss == there, "losses must be log P/Q of these tables", loss)
        else:
            require(loss == -math.inf, "losses must be -inf where P is 0", loss)
    return values


def _missing(losses: Sequence[float], p: Values) -> float:
    """Return 1 - E[e^-L], rounded up."""
    from cumulant.numerics.balls import as_ball, precision, upper_float

    with precision(128):
        total = sum((as_ball(mass) for mass in p), as_ball(0.0))
        rows = [(x, mass) for x, mass in zip(losses, p, strict=True) if mass > 0 and x < math.inf]
        return upper_float(1 - sum((as_ball(mass) * (-as_ball(x)).exp() for x, mass in rows), as_ball(0.0)) / total)


def _scaled(masses: Sequence[float]) -> Values:
    total = math.fsum(masses)
    return tuple(mass / total for mass in masses)


# Densities ------------------------------------------------------------------------------------------------------------


def _edges(support: tuple[Any, ...]) -> Array:
    """Return the ends of all cells of an interval."""
    rule = "support must be an interval (low, high) of finite numbers"
    require(len(support) == 2, rule, support)
    low, high = (real("support", end, "must be two numbers") for end in support)
    require(low < high and high - low < math.inf, rule, support)
    edges = np.linspace(low, high, CELLS + 1)
    require(bool(np.all(np.diff(edges) > LEAST_CELL)), f"support must be wide enough for {CELLS} cells", support)
    return edges


def _masses(name: str, logs: Array, log_weights: Array) -> Array:
    """Return the mass of each cell."""
    with np.errstate(under="ignore", over="ignore"):
        masses: Array = np.sum(np.exp(log_weights + logs).reshape(CELLS, POINTS), axis=1)
    total = float(np.sum(masses))
    places = f"at {CELLS * POINTS} places of the support"
    require(total > 0, f"{name} must not vanish {places}", total)
    require(total <= 1 + KINKED, f"{name} must add up to at most 1 {places}", total)
    return masses


def _densities(name: str, function: Callable[[Array], Array], t: Array) -> Array:
    """Return a user's log-densities, checked: numbers, or -inf where there is nothing."""
    try:
        values = np.asarray(function(t), dtype=float)
    except Exception as error:
        raise InvalidParameter(f"{name} must map an array to an array of numbers, it raised {error!r}") from error
    require(values.shape == t.shape, f"{name} must map an array to an array of the same shape", values.shape)
    require(not bool(np.any(np.isnan(values) | np.isposinf(values))), f"{name} must not be nan or inf", name)
    return values


def _log_ratio(p: Array, q: Array) -> Array:
    """Return log p/q, ±inf where one is 0; NaN where neither is there."""
    with np.errstate(invalid="ignore"):
        return np.asarray(p - q)


def _ratios(inside: Array, ends: Array) -> tuple[Array, Array]:
    """Return the smallest and the largest log-ratio of every cell; where there is nothing, 0 and 0."""
    all_of_it = np.concatenate([inside, ends[:-1, None], ends[1:, None]], axis=1)
    nothing = np.all(np.isnan(all_of_it), axis=1)
    filled = np.where(nothing[:, None], 0.0, all_of_it)
    return np.nanmin(filled, axis=1), np.nanmax(filled, axis=1)


def _split(p: Array, q: Array, least: Array, most: Array) -> tuple[Array, Array]:
    """Return masses of P and Q on the smallest and largest ratio of every cell, with the cell's sums.

    With q₁ + q₂ = q and e^{least} q₁ + e^{most} q₂ = p, all ratios taken relative to the largest, so that none
    overflows. Where the smallest ratio is 0 and the largest infinite the cell is revealed.
    """
    with np.errstate(over="ignore", under="ignore", invalid="ignore", divide="ignore"):
        gap = least - most
        share = np.exp(np.where(np.isnan(gap), 0.0, gap))  # e^{least - most}, in [0, 1]
        scaled = np.where(np.isposinf(most) | (p == 0), 0.0, p * np.exp(-np.where(np.isfinite(most), most, 0.0)))
        upper = np.clip((scaled - share * q) / np.maximum(1 - share, 1e-300), 0.0, q)
        upper = np.where(share == 1, q, np.where(np.isneginf(most), 0.0, upper))
        lower = q - upper
        small = np.where(np.isfinite(least), np.exp(least + np.log(lower)), 0.0)
    return np.concatenate([np.minimum(small, p), np.maximum(p - small, 0.0)]), np.concatenate([lower, upper])


def _with_rest(masses: Array, rest_at: tuple[float, ...]) -> Values:
    """Return masses with what is missing of 1 on one of more outputs."""
    rest = max(1 - float(np.sum(masses)), 0.0)
    return _scaled([*masses.tolist(), *(rest * share for share in rest_at)])
