"""δ(ε) enclosed in balls: smoothed, closed forms, Chernoff's bound, the largest loss; a line is `ball_line.BallLine`.

And the largest loss and the failure probability themselves.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np

from cumulant.inversion.ball_line import BallLine, k_ball, left_out_of
from cumulant.inversion.composed import ComposedPairs
from cumulant.inversion.contour import log_chernoff
from cumulant.inversion.enclosure import Enclosure, WholeEnclosure, gaussian_epsilon
from cumulant.inversion.plan import Tilts
from cumulant.inversion.work_budget import WorkBudget
from cumulant.numerics.balls import as_ball, lower_float, precision, upper_float
from cumulant.numerics.search import smallest_true
from cumulant.pairs.certified import failure_ball, supremum_ball, top_mass_ball
from cumulant.pairs.coordinate import CoordinatePair
from cumulant.pairs.grid import tilt
from cumulant.pairs.maps import MixtureMap
from cumulant.pairs.noise import GaussianNoise
from cumulant.pairs.pair import MEAN_ROUNDED_UP, GaussianPair

if TYPE_CHECKING:
    from flint import arb

ENCLOSURE_BITS = 192  # of precision


@final
@dataclass(frozen=True, slots=True, eq=False)
class SmoothedBallLine(Enclosure):
    """The loss with one more Gaussian release of tiny mean s: D_s - e^{3s²/8}(D_2s - D_s) <= D <= D_s.

    A release more never costs less; and for fixed r = e^L the derivative of E(rR_s - t)_+ in s, R_s the ratio of that
    Gaussian, is √(rt/2π) exp(-x²/2s² - s²/8), x = log r/t, so that what (s, 2s] adds is at least e^{-3s²/8} times what
    (0, s] adds. Away from kinks of the profile both errors are of order s².
    """

    once: BallLine
    twice: BallLine
    variance: float

    def log_bounds(self, epsilon: float) -> tuple[float, float]:
        low, high = self.once.log_bounds(epsilon)
        if low == -math.inf:
            return low, high
        with precision(ENCLOSURE_BITS):
            upper = as_ball(self.twice.log_bounds(epsilon)[1])
            gain = (as_ball(self.variance) * 3 / 8).exp() * (upper - as_ball(low)).expm1()
            left = 1 - gain if gain > 0 else as_ball(1.0)
            return (lower_float(as_ball(low) + left.log()) if left > 0 else -math.inf), high

    def slope(self, epsilon: float) -> float:
        return self.once.slope(epsilon)


@final
@dataclass(frozen=True, slots=True, eq=False)
class GaussianInBalls(WholeEnclosure):
    """δ = Φ(μ/2 - ε/μ) - e^ε Φ(-μ/2 - ε/μ) (Balle and Wang 2018, Theorem 5), which grows with μ; μ was rounded up."""

    mean: float

    def start(self, log_delta: float) -> float:
        return gaussian_epsilon(GaussianPair(self.mean), log_delta)

    def log_bounds(self, epsilon: float) -> tuple[float, float]:
        if epsilon == math.inf:
            return -math.inf, -math.inf
        far = 2 * math.log2(1 + epsilon / self.mean) + 2 * math.log2(1 + 1 / self.mean)
        with precision(ENCLOSURE_BITS + math.ceil(far)):
            mean, at = as_ball(self.mean), as_ball(epsilon)
            low, high = _gaussian_delta(mean * (1 - as_ball(MEAN_ROUNDED_UP)), at), _gaussian_delta(mean, at)
            # what is no number says nothing: δ lies between 0 and 1
            log_high = min(upper_float(high.log()), 0.0) if high > 0 and high.is_finite() else 0.0
            return (lower_float(low.log()) if low > 0 else -math.inf), log_high

    def slope(self, epsilon: float) -> float:
        step = 1e-6 * epsilon + 1e-9 * self.mean
        here, there = self.log_bounds(epsilon)[1], self.log_bounds(epsilon + step)[1]
        return (there - here) / step


def _gaussian_delta(mean: arb, at: arb) -> arb:
    root = as_ball(2.0).sqrt()
    first, second = (at / mean - mean / 2) / root, (at / mean + mean / 2) / root
    return (first.erfc() - at.exp() * second.erfc()) / 2


@final
@dataclass(frozen=True, slots=True, eq=False)
class OneSampleInBalls(WholeEnclosure):
    """One release of Gaussian noise on a Poisson sample, from the profile δ_G of the noise alone.

    With M = (1-γ)Q + γP the integrand of ∫ (M - e^ε Q)_+ is γ(P - tQ)_+, t = 1 + (e^ε - 1)/γ, and that of
    ∫ (Q - e^ε M)_+ is c(Q - tP)_+, c = 1 - e^ε(1-γ), t = γe^ε/c, where c > 0, else 0. Both (P, Q) and (Q, P) have δ_G.
    """

    law: GaussianNoise
    sampling: MixtureMap

    @staticmethod
    def of(losses: ComposedPairs) -> OneSampleInBalls | None:
        if losses.releases != 1 or losses.variance > 0 or not isinstance(pair := losses.parts[0][0], CoordinatePair):
            return None
        law, sampling = pair.law, pair.sampling
        if isinstance(law, GaussianNoise) and isinstance(sampling, MixtureMap) and sampling.rate < 1:
            return OneSampleInBalls(law, sampling)
        return None

    def _delta(self, epsilon: float) -> arb:
        """Return δ; a ball around 0 where nothing is left of it, or may be left."""
        rate, more = as_ball(self.sampling.rate), as_ball(epsilon).expm1()
        share, ratio = rate, 1 + more / rate
        if self.sampling.sign < 0:
            share = rate - (1 - rate) * more
            if not share > 0:
                return as_ball(0.0).union(share.upper().max(as_ball(0.0)))  # at most Q's share
            ratio = rate * (1 + more) / share
        return share * _gaussian_delta(self.law.in_balls().mean, ratio.log())

    def log_bounds(self, epsilon: float) -> tuple[float, float]:
        if epsilon == math.inf:
            return -math.inf, -math.inf
        far = math.log2(2 + epsilon) - math.log2(self.sampling.rate) - math.log2(min(self.law.mean, 1.0))
        with precision(2 * ENCLOSURE_BITS + 4 * math.ceil(far)):
            delta = self._delta(epsilon)
            log_high = min(upper_float(delta.upper().log()), 0.0) if delta.upper() > 0 else -math.inf
            return (lower_float(delta.log()) if delta > 0 else -math.inf), log_high if delta.is_finite() else 0.0

    def slope(self, epsilon: float) -> float:
        step = 1e-6 * epsilon + 1e-300
        return (self.log_bounds(epsilon + step)[1] - self.log_bounds(epsilon)[1]) / step

    def start(self, log_delta: float) -> float:
        def is_enough(epsilon: float) -> bool:
            return self.log_bounds(epsilon)[1] <= log_delta

        high = 2.0**-60
        while not is_enough(high):
            high *= 4
        return smallest_true(is_enough, 0.0, high, relative=1e-12)


@final
@dataclass(frozen=True, slots=True, eq=False)
class ChernoffInBalls(Enclosure):
    """δ(ε) <= e^{K(τ) - τε}·τ^τ/(1+τ)^{1+τ} at one tilt τ > 0, plus what a cut left out; no bound from below."""

    tau: float
    log_scale: arb  # K(τ) + τ log τ - (1+τ) log(1+τ)
    left_out: arb

    @staticmethod
    def of(losses: ComposedPairs, around: Tilts, epsilon: float, budget: WorkBudget) -> ChernoffInBalls:
        """Return the bound of the tilt that is the best at ε, about."""
        index = around.index + int(np.argmin(log_chernoff(around.theta) + around.k - around.theta * epsilon))
        bits = 128 + math.ceil(1.5 * math.log2(losses.releases + 1))
        with precision(bits):
            return ChernoffInBalls.at(index, k_ball(losses, index, bits, budget), left_out_of(losses))

    @staticmethod
    def at(index: int, k: arb, left_out: arb) -> ChernoffInBalls:
        """Return the bound of one tilt, from K there."""
        t = as_ball(tilt(index))
        return ChernoffInBalls(tilt(index), k - t * (1 + 1 / t).log() - (1 + t).log(), left_out)

    def log_bounds(self, epsilon: float) -> tuple[float, float]:
        with precision(ENCLOSURE_BITS):
            high = self.bounds(as_ball(epsilon))[1]
            return -math.inf, min(upper_float(high.log()), 0.0) if high.is_finite() and high > 0 else 0.0

    def bounds(self, epsilon: arb) -> tuple[arb, arb]:
        """Return 0 and the bound."""
        return as_ball(0.0), (self.log_scale - as_ball(self.tau) * epsilon).exp() + self.left_out

    def slope(self, epsilon: float) -> float:
        return -self.tau


@final
@dataclass(frozen=True, slots=True, eq=False)
class LargestLossInBalls(WholeEnclosure):
    """P(L = sup L)(1 - e^{ε - sup L}) <= δ(ε) <= 1 - e^{ε - sup L}, where no line is affordable.

    Without a largest loss nothing is said but that δ is a probability.
    """

    top: arb | None
    log_mass: arb

    @staticmethod
    def of(losses: ComposedPairs) -> LargestLossInBalls:
        with precision(ENCLOSURE_BITS):
            masses = [(top_mass_ball(pair, ENCLOSURE_BITS), n) for pair, n in losses.parts]
            log_mass = sum((n * (p.log() if p > 0 else as_ball(-1e300)) for p, n in masses), as_ball(0.0))
            return LargestLossInBalls(largest_loss(losses), log_mass)

    def start(self, log_delta: float) -> float:
        return max(upper_float(self.top), 0.0) if self.top is not None else 0.0

    def log_bounds(self, epsilon: float) -> tuple[float, float]:
        if self.top is None:
            return -math.inf, 0.0
        with precision(ENCLOSURE_BITS):
            gap = -(as_ball(epsilon) - self.top).expm1()
            if not gap > 0:
                return -math.inf, -math.inf if gap <= 0 else min(upper_float(gap.upper().log()), 0.0)
            return lower_float(gap.log() + self.log_mass), min(upper_float(gap.log()), 0.0)

    def slope(self, epsilon: float) -> float:
        gap = max(float(self.top.mid()) - epsilon, 1e-300) if self.top is not None else 1.0
        return -1 / math.expm1(min(gap, 700.0))


def largest_loss(losses: ComposedPairs) -> arb | None:
    """Return the largest finite loss of all; None where there is none."""
    if losses.variance > 0:
        return None
    with precision(ENCLOSURE_BITS):
        tops = [(top, n) for pair, n in losses.parts if (top := supremum_ball(pair, ENCLOSURE_BITS)) is not None]
        return sum((n * top for top, n in tops), as_ball(0.0)) if len(tops) == len(losses.parts) else None


def failure_of(losses: ComposedPairs) -> arb:
    """Return P(L = ∞) = 1 - Π (1-p_i)^{n_i}; a single failure stays as it is."""
    failing = [(p, n) for pair, n in losses.parts if (p := failure_ball(pair)) > 0]
    if any(not p < 1 for p, _ in failing):
        return as_ball(1.0)
    if len(failing) == 1 and failing[0][1] == 1:
        failure = failing[0][0]
    else:
        failure = -sum((n * (-p).log1p() for p, n in failing), as_ball(0.0)).expm1()
    return failure.union(as_ball(1.0)) if losses.failure == 1 else failure  # doubles have no law of the rest


def log_left(p: arb, delta: arb) -> tuple[float, float]:
    """Return bounds of log (δ-p)/(1-p): -inf where nothing is left, NaN where p takes more than δ, or may do so."""
    if delta >= 1:
        return 0.0, 0.0
    if not p < 1:  # all of it, or so nearly all that balls do not tell
        return math.nan, math.nan if p == 1 else 0.0
    left = (delta - p) / (1 - p)
    if left > 0:
        return lower_float(left.log()), upper_float(left.log())
    if left == 0:
        return -math.inf, -math.inf
    most = left.upper()
    return math.nan, upper_float(most.log()) if most > 0 else math.nan
