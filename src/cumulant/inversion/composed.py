"""Composed pairs: the sum of independent losses of one composition, and many of them as rows."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import final

import numpy as np
from numpy.typing import NDArray

from cumulant.curves.curve import combined_failure
from cumulant.errors import OutOfReach
from cumulant.inversion.closed import ClosedLosses
from cumulant.inversion.contour import Lattice
from cumulant.inversion.rows import Rows
from cumulant.numerics.logspace import Array
from cumulant.numerics.rounding import HALF_ULP, LEAST, float_above, sum_above
from cumulant.pairs.coordinate import CoordinatePair
from cumulant.pairs.curve import divergences_of, log_affinity
from cumulant.pairs.finite_pair import FinitePair
from cumulant.pairs.maps import Leave
from cumulant.pairs.noise import GaussianNoise, Pair
from cumulant.pairs.pair import DominatingPair, GaussianPair

MANY_PARTS = 6  # distinct ones, whose nodes together take longer than closed formulas
MANY_SUMS = 1000  # of losses, up to which they are formed one by one
LARGEST_LOG_SUMS = 40.0  # whose number is counted
MOST_COUNTED = 10_000  # releases, or outputs, whose sums are counted
ALMOST_ALL = 1 - HALF_ULP  # a total variation of 1, but for a double's width: 1 - Π is then within 2^-53 of 1
UNSEEN_NATS, SEEN_DEVIATIONS = 28.0, 8.0  # below δ, and of N(0, 1): what lies beyond counts for nothing
UNDERFLOWN_KL = 1e-290  # more than squares of losses that underflow can take off a divergence: 1e18·1e7 of 5e-324

Direction = Sequence[tuple[Pair, int]]
"""The pairs of all releases with counts, one neighbour coming first."""
Parts = tuple[tuple[DominatingPair, int], ...]


@final
@dataclass(frozen=True)
class ComposedPairs:
    """Pairs with counts; composed Gaussians are one more pair, N(μ, 1) against N(0, 1)."""

    parts: Parts
    mean: float
    variance: float = field(compare=False)  # μ², of the loss of the Gaussians; not rounded to 0
    failure: float = field(compare=False)  # P(L = ∞) = 1 - Π (1-p_i)^{n_i}, rounded up
    supremum: float = field(compare=False)  # the largest finite loss of all, rounded up unless the sum is a double
    lattice: Lattice | None = field(compare=False)  # that all losses lie on together, if they do
    closed: ClosedLosses | None = field(
        compare=False, default=None
    )  # the parts, where their moments are closed formulas

    @staticmethod
    def of(releases: Direction) -> ComposedPairs:
        """Return the composition; equal pairs, of whatever mechanisms, are kept once."""
        gaussians = [(pair, count) for pair, count in releases if isinstance(pair, GaussianPair)]
        counts: Counter[DominatingPair] = Counter()
        for pair, count in releases:
            if isinstance(pair, DominatingPair) and not pair.reveals_nothing:
                counts[pair] += count
        parts = tuple(counts.items())
        mean = GaussianPair.product(gaussians).mean if gaussians else 0.0
        failing = [(pair.failure, n) for pair, n in parts if pair.failure > 0]
        failure = combined_failure(failing) if failing else 0.0
        if mean > 0:
            variance = max(mean * mean, 5e-324)
            # of few parts nodes are quick, and Gaussians end their lines
            closed = _closed(parts) if len(parts) >= MANY_PARTS else None
            return ComposedPairs(parts, mean, variance, failure, math.inf, None, closed)
        lattice = _lattice(parts)
        closed = _closed(parts) if lattice is None else None
        return ComposedPairs(parts, 0.0, 0.0, failure, _supremum(parts), lattice, closed)

    @cached_property
    def row(self) -> Rows:
        """K of all releases together, as a single row."""
        counts = np.array([[float(n) for _, n in self.parts]])
        return Rows(tuple(pair for pair, _ in self.parts), counts, np.array([self.variance]), self.closed)

    @property
    def tells_nothing(self) -> bool:
        """Whether all losses are 0: nothing was released, or on samples of nobody."""
        return not self.parts and self.variance == 0

    @property
    def one_table(self) -> FinitePair | None:
        """The pair of a single release with finitely many outputs, whose profile is a sum over them."""
        if self.variance > 0 or len(self.parts) != 1 or self.parts[0][1] != 1:
            return None
        pair = self.parts[0][0]
        return pair if isinstance(pair, FinitePair) and pair.outputs > 0 else None

    @property
    def sums(self) -> float:
        """How many sums of losses there are, counted as if all were different; 0 if not finitely many."""
        if self.variance > 0:
            return 0.0
        sums = 1.0
        for pair, n in self.parts:
            k = pair.outputs
            if k == 0:
                return 0.0
            if n > MOST_COUNTED or k > MOST_COUNTED:
                return math.inf if k > 1 else sums
            log_ways = math.lgamma(n + k) - math.lgamma(n + 1) - math.lgamma(k)
            sums *= math.comb(n + k - 1, n) if log_ways < LARGEST_LOG_SUMS else math.inf
        return sums

    @property
    def log_joint_variation(self) -> float:
        """Log(1 - Π (1 - TV_i)^{n_i}), which is at least log TV, rounded up: couplings of all releases, side by side.

        The total variation of a Gaussian is erf(μ/√8); next to the smallest doubles it must not be rounded down.
        """
        gaussian = math.erf(self.mean / math.sqrt(8.0)) + LEAST if self.mean > 0 else 0.0
        kept = math.log1p(-min(gaussian, ALMOST_ALL))
        kept += math.fsum(n * math.log1p(-min(pair.total_variation, ALMOST_ALL)) for pair, n in self.parts)
        return math.log(max(-math.expm1(kept), LEAST)) + 1e-9

    def reveals_samples(self, epsilon: float) -> bool:
        """Return whether noise is so small that outputs show who is in a sample: δ(ε) is about the chance of that.

        With A, some t is above c, δ(ε) >= P(A) - e^ε Q(A). Where n e^ε Q(t > c) is nothing beside 1 - Π (1 - γ_i)^{n_i}
        and N(μ, 1) lies above c, that is the bound of `log_joint_variation`.
        """
        if self.mean > 0 or self.failure > 0 or not self.parts:
            return False
        c = math.sqrt(2 * (min(epsilon, 1e300) + math.log(self.releases) - self.log_joint_variation + UNSEEN_NATS))
        return all(
            isinstance(pair, CoordinatePair)
            and isinstance(pair.sampling, Leave)
            and isinstance(pair.law, GaussianNoise)
            and pair.law.mean > c + SEEN_DEVIATIONS
            for pair, _ in self.parts
        )

    @property
    def log_pinsker(self) -> float:
        """Log √(KL/2), which is at least log TV (Pinsker's inequality), rounded up; 0 where KL is out of reach.

        KL = E_P[L] is the divergence of P from Q where the loss is finite.
        """
        try:
            return 0.5 * (math.log(self._divergence + UNDERFLOWN_KL) - math.log(2.0)) + 1e-9
        except OutOfReach:
            return 0.0

    @property
    def _divergence(self) -> float:
        if self.closed is not None and not self.closed.finite:
            return self.variance / 2 + self.closed.divergence
        each = zip(divergences_of(self.row.pairs), self.parts, strict=True)
        return self.variance / 2 + math.fsum(n * kappa for kappa, (_, n) in each)

    @property
    def left_out(self) -> float:
        """How much of P the parts lack together, rounded up: 1 - Π (1-p_i)^{n_i} <= Σ n_i p_i."""
        return sum(n * pair.left_out for pair, n in self.parts) * (1 + 1e-12)

    def log_overlap(self, epsilon: float) -> float:
        """Return log of a bound of 1 - δ(ε): e^{ε/2} Σ √(pq), as (1 - x)_+ >= 1 - √x; 0 where it says nothing.

        Half of E_P[L] is at least -log Σ √(pq), by Jensen's inequality.
        """
        if not self.parts or self._divergence <= epsilon:
            return 0.0
        return epsilon / 2 - self.variance / 8 + math.fsum(n * log_affinity(pair) for pair, n in self.parts)

    @property
    def log_top_mass(self) -> float:
        """Log P(L = sup L); -inf where the largest loss is not attained."""
        return math.fsum(n * pair.log_top_mass for pair, n in self.parts) if self.variance == 0 else -math.inf

    @property
    def releases(self) -> int:
        """How many there are beside the Gaussians."""
        return sum(n for _, n in self.parts)

    def is_line(self, sums: float | None = None) -> bool:
        """Return whether lines may answer: nothing fails, no lattice holds the losses, and their sums are many."""
        if not self.parts or self.failure > 0 or self.supremum <= 0 or self.lattice is not None:
            return False
        return not 0 < (self.sums if sums is None else sums) <= MANY_SUMS


def _closed(parts: Parts) -> ClosedLosses | None:
    """Return losses in closed form, if they are."""
    return ClosedLosses.of(parts) if all(pair.has_atoms for pair, _ in parts) else None


def _supremum(parts: Parts) -> float:
    tops = [(n, pair.supremum) for pair, n in parts]
    if math.inf in [top for _, top in tops]:
        return math.inf
    if -math.inf in [top for _, top in tops]:
        return -math.inf
    return sum_above(tops)


def _lattice(parts: Parts) -> Lattice | None:
    found = [(lattice, n) for pair, n in parts if (lattice := pair.lattice) is not None]
    if not found or len(found) < len(parts) or len({lattice.span for lattice, _ in found}) > 1:
        return None
    offset = sum((n * Fraction(lattice.offset) for lattice, n in found), Fraction(0))
    apart = sum((n * Fraction(lattice.error) for lattice, n in found), abs(offset - Fraction(float(offset))))
    return Lattice(float(offset), found[0][0].span, float_above(apart))


# Many compositions ----------------------------------------------------------------------------------------------------


def rows_of(compositions: Sequence[Direction]) -> tuple[Rows, NDArray[np.bool_]]:
    """Return compositions as rows, and which of them may be asked together: others are left empty."""
    places: dict[DominatingPair, int] = {}
    entries: list[tuple[int, int, int]] = []
    variance, fit = np.zeros(len(compositions)), np.zeros(len(compositions), dtype=bool)
    for row, releases in enumerate(compositions):
        losses = ComposedPairs.of(releases)
        fit[row] = losses.is_line()
        if fit[row]:
            variance[row] = losses.variance
            entries += [(row, places.setdefault(pair, len(places)), n) for pair, n in losses.parts]
    counts = np.zeros((len(compositions), len(places)))
    for row, column, n in entries:
        counts[row, column] = n
    return Rows(tuple(places), counts, variance), fit


def multiples_of(releases: Direction, counts: Array) -> tuple[Rows, NDArray[np.bool_]]:
    """Return a row for each count, of a composition released that often, and which rows may be asked together."""
    once = ComposedPairs.of(releases)
    # with k >= 2 outputs, n releases have more than n sums
    fit = counts >= (1 if once.is_line() else MANY_SUMS if once.is_line(sums=math.inf) else math.inf)
    each = np.array([float(n) for _, n in once.parts])
    gaussians = any(isinstance(pair, GaussianPair) for pair, _ in releases)
    # a product of Gaussians is rounded up once more for every count but one
    variance = once.variance * (1 + 2.0**-48) if gaussians else 0.0
    return Rows(tuple(pair for pair, _ in once.parts), counts[:, None] * each, counts * variance), fit
