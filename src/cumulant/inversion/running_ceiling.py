"""Chernoff's bound of a composition that grows: which direction of the neighbours needs no line of its own."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import final

import numpy as np

from cumulant.errors import OutOfReach
from cumulant.inversion.contour import log_chernoff
from cumulant.numerics.compensated import CompensatedSum
from cumulant.numerics.logspace import Array
from cumulant.pairs.cache import BatchedTable
from cumulant.pairs.coordinate import CoordinatePair
from cumulant.pairs.curve import nodes_together
from cumulant.pairs.grid import PER_OCTAVE, tilts
from cumulant.pairs.maps import Join
from cumulant.pairs.noise import GaussianNoise
from cumulant.pairs.pair import DominatingPair
from cumulant.pairs.size_moments import bound_negative_moments

LOWEST_CEILING_OCTAVE, HIGHEST_CEILING_OCTAVE = -20, 20  # of tilts that are looked at
CEILING_SHARE = 1e-12  # relative, by which K is raised: more than its rounding
CEILING_NATS = 1e-9  # the same of a bound
ROUNDED_CEILING = 1e-10  # relative error of a plain sum of a hundred thousand positive numbers, and more

Release = tuple[DominatingPair, int]


def _at_tilts(pairs: Sequence[DominatingPair], octave: int) -> list[Array]:
    """Return K at the tilts of an octave."""
    return list(nodes_together(pairs, 2.0 ** (octave + 1), 0.0).cumulants(tilts(octave))[0])


AT_TILTS = BatchedTable("ceilings", _at_tilts)


@final
class RunningCeiling:
    """Σ K at the tilts of an octave, as releases come; of others only where a bound is at the end of that one.

    K of the last ones is a bound in closed form as long as that is enough; then it is computed, of all of them at once.
    """

    __slots__ = ("_left_out", "_octave", "_releases", "_sums")

    def __init__(self) -> None:
        self._releases: list[Release] = []
        self._left_out = 0.0
        self._octave = 0
        self._sums: dict[int, _Sums] = {}

    def add(self, pair: DominatingPair, count: int) -> None:
        self._releases.append((pair, count))
        self._left_out += count * pair.left_out * (1 + 1e-12)

    def is_within(self, epsilon: float, log_delta: float, variance: float) -> bool:
        """Return whether Chernoff's bound of δ(ε) is at most δ, with Gaussians whose losses have this variance.

        δ(ε) <= c(τ) e^{K(τ)-τε} + left_out for every τ > 0, c(τ) = τ^τ/(1+τ)^{1+τ}: tilts that were not looked at, or
        are out of reach, only leave open what a line will say.

        Holds for:  pairs that cannot fail.
        Tightness:  that of the best tilt of one octave; δ is often a tenth of it.
        """
        direction = 0
        try:
            while LOWEST_CEILING_OCTAVE <= self._octave <= HIGHEST_CEILING_OCTAVE:
                sums = self._sums.setdefault(self._octave, _Sums())
                for added_up in (sums.bound, sums.compute):
                    theta = tilts(self._octave)
                    k = added_up(self._releases, self._octave) + variance * theta * (theta + 1) / 2
                    bounds = log_bounds_of_delta(theta, k, epsilon)
                    best = int(np.argmin(bounds))
                    if float(np.logaddexp(bounds[best], self._log_left_out)) <= log_delta:
                        return True
                turn = {0: -1, PER_OCTAVE - 1: 1}.get(best, 0)
                if turn in (0, -direction):  # the best tilt is here, or where it was come from
                    return False
                direction = turn
                self._octave += turn
        except OutOfReach:
            pass
        self._octave -= direction
        return False

    def is_within_ahead(self, pair: DominatingPair, count: int, asked: tuple[float, float, float]) -> bool:
        """Return whether (ε, log δ, variance) hold with so many releases more, as far as bounds in closed form say."""
        if not LOWEST_CEILING_OCTAVE <= self._octave <= HIGHEST_CEILING_OCTAVE:
            return False
        (epsilon, log_delta, variance), theta = asked, tilts(self._octave)
        k = self._sums.setdefault(self._octave, _Sums()).bound(self._releases, self._octave)
        k = k + count * _bound_k(pair, theta) * (1 + ROUNDED_CEILING) + variance * theta * (theta + 1) / 2
        bound = float(np.min(log_bounds_of_delta(theta, k, epsilon)))
        return pair.left_out == 0 and float(np.logaddexp(bound, self._log_left_out)) <= log_delta

    @property
    def _log_left_out(self) -> float:
        return math.log(self._left_out) + CEILING_NATS if self._left_out > 0 else -math.inf


def log_bounds_of_delta(theta: Array, k: Array, epsilon: float | Array) -> Array:
    """Return Chernoff's bounds of log δ(ε) at tilts, from K there, rounded up."""
    return np.asarray(log_chernoff(theta) + k + CEILING_SHARE * np.abs(k) - theta * epsilon + CEILING_NATS)


@final
class _Sums:
    """Σ K at the tilts of an octave, of releases whose K was computed, and bounds of those that came after them."""

    __slots__ = ("k", "known", "later", "seen")

    def __init__(self) -> None:
        self.k, self.known = CompensatedSum((PER_OCTAVE,)), 0
        self.later, self.seen = np.zeros(PER_OCTAVE), 0  # bounds may be inf

    def bound(self, releases: list[Release], octave: int) -> Array:
        """Return a bound of Σ K of all releases, without computing more of them."""
        for pair, n in releases[self.seen :]:
            self.later = self.later + n * _bound_k(pair, tilts(octave))
        self.seen = len(releases)
        return self.k.total + self.later * (1 + ROUNDED_CEILING)

    def compute(self, releases: list[Release], octave: int) -> Array:
        """Return Σ K of all releases."""
        new = releases[self.known :]
        pairs = [pair for pair, _ in new]
        for (_, n), k in zip(new, AT_TILTS.of(pairs, [(octave,)] * len(pairs)), strict=True):
            self.k.add(n * k)
        self.known = self.seen = len(releases)
        self.later = np.zeros(PER_OCTAVE)
        return self.k.total


def _bound_k(pair: DominatingPair, theta: Array) -> Array:
    """Return a bound of K in closed form: of a record that joins a sample of Gaussian noise; inf of others."""
    if not isinstance(pair, CoordinatePair) or not isinstance(pair.law, GaussianNoise):
        return np.full(len(theta), np.inf)
    if not isinstance(pair.sampling, Join) or not pair.sampling.rate < 1:
        return np.full(len(theta), np.inf)
    return bound_negative_moments(pair.law.mean, pair.sampling.rate, theta)
