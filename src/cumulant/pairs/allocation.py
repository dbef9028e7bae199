"""A record that joins one of t steps of Gaussian noise, drawn uniformly: its dominating pair in both directions.

With r_i = e^{μx_i - μ²/2}, x_i ~ N(0, 1) under Q, and S = r_1 + … + r_t: dP/dQ = S/t. The loss is ℓ = log(S/t) where
the record leaves, and -ℓ where it joins. ℓ is a sum of μ times the mean of the x_i, of variance τ² = μ²/t, and
something independent (`numerics.lognormal_sum`), so that for every a = x + iω

    |E_Q (S/t)^a| <= e^{-ω²τ²/2} E_Q (S/t)^x,

which ends lines in both directions, and makes sums over points of step h equal to integrals: by Poisson's summation
they are apart by what is left of M beyond the frequency 2π/h - ω. The same says that the density of ℓ is at most
e^{-xℓ} E(S/t)^x/(τ√2π): so much is beyond the points. The density at the points comes from balls.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple, final

import numpy as np

from cumulant.errors import OutOfReach
from cumulant.numerics.balls import (
    as_ball,
    ball_of_fraction,
    pi_ball,
    precision,
    upper_float,
)
from cumulant.numerics.decay import Cells
from cumulant.numerics.lognormal_sum import LARGEST_ORDER, BallDensity, density_of_sum, log_moments_of_mean
from cumulant.numerics.logspace import Array
from cumulant.numerics.search import smallest_true
from cumulant.pairs.cache import CACHE
from cumulant.pairs.discrete import DiscreteLosses
from cumulant.pairs.pair import DominatingPair

if TYPE_CHECKING:
    from flint import arb

LEAST_RATIO_MEAN, LARGEST_RATIO_MEAN = 1 / 150, 12.0  # 1/σ beyond which the law of a sum takes too long
LEAST_SPREAD, MOST_STEPS = 1e-3, 100_000  # beyond: more than ten seconds
ORDERS = tuple(2**k for k in range(LARGEST_ORDER.bit_length()))  # of moments by which tails are bounded
ALIAS_NATS = 37.0  # below M(θ), where frequencies may be aliases
DEEPEST, DEEPEST_NATS = 17.0, 150.0  # standard deviations of one x, and nats, beyond which losses are left out
SOFT, WIDEST_CUT = 1.5, 1.0  # width of the cut: of that of the Gaussian part, and at most
BEYOND_CUT = DEEPEST  # widths of the cut, from where losses are left out to its middle
STEEPEST, FEWEST_TILTS = 16.0, 8.0  # tilts that are followed: over the width of the Gaussian part, and at least
BEYOND = 9.0  # standard deviations after which a normal law is over
MOST_DOUBTED = 1e-9  # share of a tilted law by which its masses may be off
MOST_SHARE_NATS = 690.0  # of what is beyond an end, beside the last mass: that is less than e^-745 where it underflows
TILTS = np.linspace(0.0, 1.0, 5)  # of the largest, where that is looked at
PLACE_ROUNDING = 2.0**-51  # relative, of places and of log t
MASS_ROUNDING = 1e-15  # relative, of masses that were rounded to doubles; and of sums of aliases
BOUND_BITS = 64  # of bounds


@final
@dataclass(frozen=True, slots=True, eq=False)
class RatioLaw:
    """ℓ = log(S/t) at points, log of the masses there under Q, and how far each may be off, relatively."""

    ratios: Array
    log_masses: Array
    doubts: Array
    slip: float
    step: float


class LossRange(NamedTuple):
    """Where ℓ begins to count, where it ends, ℓ that next to nothing of P exceeds, and the place c of the cut."""

    low: float
    high: float
    farthest: float
    cut: float


class BallLosses(NamedTuple):
    """Losses at points, and their masses under the neighbour that comes first, in balls."""

    losses: list[arb]
    masses: list[arb]


class AllocatedPair(DominatingPair):
    """What both directions share: μ² = `variance`, and t >= 2."""

    __slots__ = ()

    variance: Fraction
    steps: int
    supremum = math.inf
    octaves = 1

    @property
    def _spread(self) -> float:
        """The width τ of the Gaussian part of the loss."""
        return math.sqrt(self.variance / self.steps)

    @abstractmethod
    def _seen(self, law: RatioLaw) -> tuple[Array, Array]:
        """Return losses and the logarithms of their masses under the neighbour that comes first."""

    @abstractmethod
    def beyond(self, theta: arb, end: arb, step: arb, above: bool) -> arb:
        """Return a bound of Σ e^{θL} over the points whose loss is above, or below, an end: with masses, in balls."""

    def nodes(self, theta: float, omega: float) -> DiscreteLosses:
        """Return points on which M is right to where the Gaussian part ends every line, and beyond.

        Tilts for which the law ends too soon, or masses are not known well enough, are out of reach.
        """
        law = ratio_law(self.variance, self.steps)
        if omega > 2 * math.pi / law.step - math.sqrt(2 * ALIAS_NATS / self.gaussian_variance):
            raise OutOfReach(f"the law of {self.steps} steps is not followed to a frequency of {omega:g}")
        losses, log_masses = self._seen(law)
        doubts = law.doubts + self._beyond_ends(theta, losses, log_masses, law.step)
        tilted = log_masses + theta * TILTS[:, None] * losses
        shares = np.exp(tilted - np.max(tilted, axis=1, keepdims=True))
        if not float(np.max(shares @ doubts / np.sum(shares, axis=1))) <= MOST_DOUBTED:
            raise OutOfReach(f"the law of {self.steps} steps is not followed to a tilt of {theta:g}")
        return DiscreteLosses.of(
            losses, log_masses, loss_units=2.0, slip=law.slip, missing=self.left_out, uncertainty=doubts
        )

    def _beyond_ends(self, theta: float, losses: Array, log_masses: Array, step: float) -> Array:
        """Return what is beyond the ends, as shares of the points there, at all tilts up to θ.

        Σ e^{θ'L} beyond an end E is at most e^{θ'E} times Σ e^{θ(L-E)} above, and times Σ 1 below.
        """
        doubts = np.zeros(len(losses))
        with precision(BOUND_BITS):
            for i, tilt, above in ((int(np.argmax(losses)), theta, True), (int(np.argmin(losses)), 0.0, False)):
                end, slope = as_ball(float(losses[i])), as_ball(tilt)
                bound = self.beyond(slope, end, as_ball(step), above)
                log_share = bound.log() - slope * end - float(log_masses[i])
                if not log_share < MOST_SHARE_NATS:
                    raise OutOfReach(f"the law of {self.steps} steps is not followed to a tilt of {theta:g}")
                doubts[i] = upper_float(log_share.exp())
        return doubts

    def cells(self, theta: float, k_theta: float | Array) -> Cells:
        """Return none: the Gaussian part says it all."""
        return Cells.of_atoms(np.zeros(0), np.zeros(0))

    def count_nodes(self, theta: float, omega: float) -> float:
        return float(len(ratio_law(self.variance, self.steps).ratios))

    def waves(self, theta: float) -> float:
        return 0.0

    # in balls

    @abstractmethod
    def losses_in_balls(self) -> BallLosses:
        """Return all points of the law, with masses."""

    def error_in_balls(self, moment: arb, theta: float, omega: float, scale: arb) -> arb:
        """Return how far sums over the points may be from M(z)·`scale`, Re z = θ, 0 <= Im z <= ω.

        `moment` is the sum at θ, times `scale`.
        """
        law = _density(self.variance, self.steps)
        step, ends = as_ball(law.step), [_place(law, self.steps, i) for i in (0, len(law.values) - 1)]
        low, high = ends if self.rises else (-ends[1], -ends[0])
        rest = scale * sum(self.beyond(as_ball(theta), *end) for end in ((low, step, False), (high, step, True)))
        gap = 2 * pi_ball() / step - omega
        if not gap > 0:
            raise OutOfReach(f"the law of {self.steps} steps is not followed to a frequency of {omega:g}")
        fall = (-gap * gap * as_ball(self.gaussian_variance) / 2).exp()  # at the k-th alias, at most its k-th power
        alias = 2 * fall / (1 - fall)
        return rest + (moment + rest) * alias / (1 - alias)

    rises = True
    """Whether the loss is ℓ, not -ℓ."""


@final
@dataclass(frozen=True, slots=True)
class LeavesOneOf(AllocatedPair):
    """(P, Q): the record leaves. Far losses are cut off softly: what is left is P where ℓ + wg < c, g ~ N(0, 1).

    Given ℓ + wg and all else, the Gaussian part of ℓ, of variance τ², is a Gaussian of variance τ²w²/(τ²+w²).
    """

    variance: Fraction
    steps: int

    @property
    def gaussian_variance(self) -> float:  # type: ignore[override]
        w2 = self._width**2
        return self._spread**2 * w2 / (self._spread**2 + w2) * (1 - 1e-12)

    @property
    def left_out(self) -> float:  # type: ignore[override]
        return _left_out(self.variance, self.steps)

    @property
    def _width(self) -> float:
        return width_of_cut(self.variance, self.steps)

    def _seen(self, law: RatioLaw) -> tuple[Array, Array]:
        from scipy.special import log_ndtr

        kept = log_ndtr((range_of_losses(self.variance, self.steps).cut - law.ratios) / self._width)
        return law.ratios, law.log_masses + law.ratios + kept

    def losses_in_balls(self) -> BallLosses:
        law, cut = _density(self.variance, self.steps), range_of_losses(self.variance, self.steps).cut
        places = [_place(law, self.steps, i) for i in range(len(law.values))]
        deviations = [(x - cut) / (as_ball(self._width) * as_ball(2.0).sqrt()) for x in places]
        step = as_ball(law.step) / 2
        masses = [step * f * x.exp() * d.erfc() for f, x, d in zip(law.values, places, deviations, strict=True)]
        return BallLosses(places, masses)

    def beyond(self, theta: arb, end: arb, step: arb, above: bool) -> arb:
        """Above: of the density of P, e^{-(ℓ-c)²/2w²}/2 is kept beyond the cut c."""
        if not above:
            return _below(self, theta + 1, end, step)
        cut, w2 = range_of_losses(self.variance, self.steps).cut, as_ball(self._width) ** 2
        if not end > cut:
            return as_ball(math.inf)
        kept = (-((end - cut) ** 2) / (2 * w2)).exp() / 2
        return kept * _above(self, theta + 1, end, step, (end - cut) / w2)


@final
@dataclass(frozen=True, slots=True)
class JoinsOneOf(AllocatedPair):
    """(Q, P): the record joins. The losses are those of Q, negative: no far ones."""

    variance: Fraction
    steps: int
    rises = False

    @property
    def gaussian_variance(self) -> float:  # type: ignore[override]
        return self._spread**2 * (1 - 1e-12)

    def _seen(self, law: RatioLaw) -> tuple[Array, Array]:
        return -law.ratios, law.log_masses

    def losses_in_balls(self) -> BallLosses:
        law = _density(self.variance, self.steps)
        step = as_ball(law.step)
        return BallLosses([-_place(law, self.steps, i) for i in range(len(law.values))], [step * f for f in law.values])

    def beyond(self, theta: arb, end: arb, step: arb, above: bool) -> arb:
        """Below: ℓ is large."""
        if above:
            return _below(self, -theta, -end, step)
        return _above(self, -theta, -end, step, as_ball(0.0))


# The law --------------------------------------------------------------------------------------------------------------


def _density(variance: Fraction, steps: int) -> BallDensity:
    reach, log_count, mean = range_of_losses(variance, steps), math.log(steps), math.sqrt(variance)
    # where no mass is seen, of one large r under P, or of all together
    one, all_together = mean**2 / 2 + (STEEPEST + BEYOND) * mean - log_count, (STEEPEST + BEYOND) * mean / steps**0.5
    right = min(reach.cut, max(one, all_together)) + log_count
    return density_of_sum(variance, steps, reach.low + log_count, reach.high + log_count, right)


def _place(law: BallDensity, steps: int, i: int) -> arb:
    """Return ℓ at a point."""
    return as_ball(law.step) * (law.first + i) - as_ball(float(steps)).log()


@CACHE.remember
def ratio_law(variance: Fraction, steps: int) -> RatioLaw:
    """Return the law in doubles; where balls do not know a density, half of the largest that it may be."""
    law = _density(variance, steps)
    with precision(law.bits):
        ends = [(f.lower().max(as_ball(0.0)), f.upper()) for f in law.values]
        logs = np.array([float(((low + high) / 2).log()) for low, high in ends])
        doubts = np.array([upper_float((high - low) / (high + low)) for low, high in ends])
    places = law.step * (law.first + np.arange(float(len(ends))))
    slip = PLACE_ROUNDING * (float(np.max(np.abs(places))) + math.log(steps))
    return RatioLaw(places - math.log(steps), logs + math.log(law.step), 2 * doubts + MASS_ROUNDING, slip, law.step)


# What is beyond the points, and the cut -------------------------------------------------------------------------------


def _peak(pair: AllocatedPair) -> arb:
    """Return 1/(τ√2π)."""
    return (pair.steps / (2 * pi_ball() * ball_of_fraction(pair.variance))).sqrt()


def _below(pair: AllocatedPair, a: arb, end: arb, step: arb) -> arb:
    """Return a bound of Σ h f(ℓ) e^{aℓ} below an end: E(S/t)^{-b} <= e^{bμ²/2 + b²τ²/2}, b > -a."""
    square, steps = ball_of_fraction(pair.variance), pair.steps
    b = as_ball(max(-float((end + square / 2) * steps / square), 0.0))
    if not a + b > 0:
        return as_ball(math.inf)
    first = (b * square / 2 + b * b * square / (2 * steps) + (a + b) * end).exp()
    return _peak(pair) * step * first / ((a + b) * step).expm1()


def followed_steps(mean: float, steps: int) -> int:
    """Return how many steps are followed, at most these: 1, noise on everyone, where the law of more takes too long.

    Fewer steps dominate. One of t + 1, drawn uniformly, is one of t that are left when a step is struck out at random,
    and that step tells nothing; H_t is jointly convex, so it is at most the mean over the step that is struck out.
    """
    if not LEAST_RATIO_MEAN <= mean <= LARGEST_RATIO_MEAN:
        return 1
    return max(int(min(steps, MOST_STEPS, (mean / LEAST_SPREAD) ** 2)), 1)


@CACHE.remember
def range_of_losses(variance: Fraction, steps: int) -> LossRange:
    """Return where losses count.

    From below S/t is at least the geometric mean of the r_i, whose logarithm is N(-μ²/2, μ²/t). From above, under P one
    x_i has the mean μ. All x_i are at most X = μ + DEEPEST, so all r_i at most R, but for t·Φ(-DEEPEST) of P; then S is
    at most R + t - 1 + y but for exp(-(v/b²) h(by/v)), b = R - 1, v = (t-1)(e^{μ²}-1), h(x) = (1+x) log(1+x) - x
    (Bennett's inequality for the min{r_i, R} - 1, which have no positive mean, and are at most b).
    """
    mean, spread = math.sqrt(variance), math.sqrt(variance / steps)
    if followed_steps(mean, steps) < steps:
        raise OutOfReach(f"the likelihood ratios of {steps} steps at 1/σ = {mean:g} are not followed")
    largest = math.exp(mean * (mean + DEEPEST) - mean * mean / 2)
    b, v = largest - 1, (steps - 1) * math.expm1(mean * mean)

    def is_deep(y: float) -> bool:
        x = b * y / v
        return (v / b**2) * ((1 + x) * math.log1p(x) - x) >= DEEPEST_NATS

    above = smallest_true(is_deep, 0.0, 2 * DEEPEST_NATS * b + 2 * math.sqrt(DEEPEST_NATS * v), relative=1e-3)
    farthest, width = math.log((steps - 1 + above + largest) / steps), width_of_cut(variance, steps)
    together = mean * mean / 2 + math.sqrt(2 * DEEPEST_NATS * (mean * mean + width * width))
    cut = min(farthest + BEYOND_CUT * width, together)
    low = -mean * mean / 2 - (STEEPEST + BEYOND) * spread
    steepest = max(STEEPEST / spread, FEWEST_TILTS) * width * width  # how far a tilt moves a normal law
    return LossRange(low, cut + steepest + BEYOND * width, farthest, cut)


def width_of_cut(variance: Fraction, steps: int) -> float:
    """Return w: any is right."""
    return min(SOFT * math.sqrt(variance / steps), WIDEST_CUT)


def _above(pair: AllocatedPair, a: arb, end: arb, step: arb, fall: arb) -> arb:
    """Return a bound of Σ h f(ℓ) e^{aℓ - fall·(ℓ - end)} above an end, by a moment E(S/t)^x, x >= 1.

    It is known for integers, and at most e^{x(x-1)μ²/2}, as if all were in one step.
    """
    square, moments = ball_of_fraction(pair.variance), log_moments_of_mean(pair.variance, pair.steps)
    x = as_ball(max(float(end / square) + 0.5, 1.0))
    choices = [(x, x * (x - 1) * square / 2), *((as_ball(float(m)), moments[m]) for m in ORDERS)]
    least = as_ball(math.inf)
    for x, log_moment in choices:
        rate = x - a + fall
        if rate > 0:
            least = least.min((log_moment + (a - x) * end).exp() / (rate * step).expm1())
    return _peak(pair) * step * least


@CACHE.remember
def _left_out(variance: Fraction, steps: int) -> float:
    """Return a bound of P(ℓ + wg >= c), rounded up: the smaller of two.

    - ℓ is beyond `farthest`, or wg is the rest. One x_i is beyond μ + DEEPEST, of which P makes at most t·Φ(-DEEPEST);
      or all r_i are at most R, and S is beyond R + t - 1 + y of Bennett's inequality (`range_of_losses`).
    - E_P e^{xℓ} <= e^{x(x+1)μ²/2}, as if all were in one step: at most e^{-(c-μ²/2)²/2(μ²+w²)}.
    """
    reach = range_of_losses(variance, steps)
    with precision(BOUND_BITS):
        square, cut = ball_of_fraction(variance), as_ball(reach.cut)
        width = as_ball(width_of_cut(variance, steps))
        together = (-((cut - square / 2) ** 2) / (2 * (square + width**2))).exp()
        mean = square.sqrt()
        largest = (mean * (mean + DEEPEST) - square / 2).exp()
        y = steps * as_ball(reach.farthest).exp() - (steps - 1) - largest
        b, v = largest - 1, (steps - 1) * square.expm1()
        x = b * y / v
        deep = (-(v / b**2) * ((1 + x) * x.log1p() - x)).exp() if y > 0 else as_ball(1.0)
        root = as_ball(2.0).sqrt()
        apart = steps * (DEEPEST / root).erfc() / 2 + deep + ((cut - reach.farthest) / (width * root)).erfc() / 2
        return upper_float(together.min(apart))
