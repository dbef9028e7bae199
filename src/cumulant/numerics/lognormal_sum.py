"""The law of log(r_1 + … + r_n) of independent lognormal r_i = e^{sx_i - s²/2}, x_i ~ N(0, 1), in balls.

Let S be the sum, f the density of u = log S, G(u) = f(u) e^{-pu} with some p > 0, and Ĝ(ω) = E S^{-p+iω}. Along the
ray of angle -φ, 0 < φ < π/2, Laplace's transform of S has a Mellin transform that says it all:

    g(v) = e^{p(v-iφ)} E exp(-S e^{v-iφ}),     ∫ g(v) e^{-iωv} dv = ĝ(ω) = e^{φω} Γ(p - iω) Ĝ(ω).         (1)

For one r all of this is known, E r^{-p+iω} in closed form; and E e^{-λS} = (E e^{-λr})^n. So three Fourier transforms
find f: from ĝ of one r its g, hence g of the sum, its ĝ, hence Ĝ by a division, and G. Nothing is iterated.

What sums over points leave out is bounded by four facts, of which `_Bounds` is made:

- the mean of the x_i is independent of their differences, and u is s times it plus something independent. So f is a
  normal density of width τ = s/√n, smeared: |Ĝ(ω)| <= e^{-ω²τ²/2} Ĝ(0), and f(u) <= e^{-xu} E S^x/(τ√2π) for real x;
- |Γ(p - iω)| <= Γ(p) (cos φ)^{-p} e^{-φ|ω|}, as the integral of Γ along a ray of angle φ shows;
- E (S/n)^x <= e^{x(x-1)s²/2} for x >= 1, a mean of powers; for x < 0 it is at most e^{-xs²/2 + x²τ²/2}, as S/n is at
  least the geometric mean; and E S^{-p} >= n^{-p} (Jensen);
- |E e^{-λS}| <= E e^{-|λ|S cos φ} <= (b/e)^b E S^{-b} (|λ| cos φ)^{-b} for b > 0.

Sums over all points of a step are sums of aliases (Poisson): of ĝ at ω + 2πk/h, of G at u + kV, of g at v + kV.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, final

from cumulant.errors import OutOfReach
from cumulant.numerics.balls import as_ball, ball_of_fraction, pi_ball, precision
from cumulant.numerics.search import smallest_true

if TYPE_CHECKING:
    from flint import arb

STEEP, LEAST_P, MOST_P = 130.0, 0.5, 20.0  # nats by which e^{-pu} falls over the law, about; and ends of p
LEAST_ANGLE = 0.8  # radians, of φ: the aliases of Γ fall with it
SPARE_NATS, SPARE_BITS = 50.0, 64  # of f, and of the precision beside it
MARGIN = 0.02  # of the width of the law, by which a period grows until its aliases are small
MOST_BITS_OF_POINTS = 8e8  # of a transform: half a minute
PLANNING_BITS = 64  # of bounds by which is planned
LARGEST_ORDER, MOMENT_BITS = 256, 128  # of moments in closed form
LONGEST, FARTHEST = 20.0, 20.0  # of a period, in widths of the law, and of v beside it: none is as long
PERIODS = 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512  # of which one is enough for g of one r


@final
@dataclass(frozen=True, slots=True, eq=False)
class BallDensity:
    """f at u = step·(first + i), in balls of a number of bits."""

    step: float
    first: int
    values: list[arb]
    bits: int


class _Plan(NamedTuple):
    """p, φ, the step h; n points make up a period V = nh, and `periods` of these one of g of one r."""

    p: float
    phi: float
    step: float
    points: int
    periods: int
    frequencies: int  # how many multiples of 2π/V are followed
    lowest: int  # j of the first v = hj, and the last
    highest: int
    bits: int


@lru_cache(maxsize=32)
def density_of_sum(variance: Fraction, count: int, low: float, high: float, reach: float) -> BallDensity:
    """Return f from `low` to `high`, s² = `variance`, right to about e^-SPARE_NATS of what it is at `reach` > log n.

    Below `reach` it is as right, beside e^{p(u - reach)}. Every number is a ball around what is true: doubles plan, and
    where they plan badly balls are wide.

    Holds for:  count >= 2.
    """
    from flint import acb

    with precision(PLANNING_BITS):
        plan = _plan(variance, count, low, high, reach)
    with precision(plan.bits):
        bounds = _Bounds.of(plan, variance, count)
        first, last = math.floor(low / plan.step), math.ceil(high / plan.step)
        spectrum, mean = _spectrum_of_sum(plan, bounds)
        error = _around(mean * bounds.beyond_frequencies() + bounds.aliases_of_places(first, last))
        values = acb.dft(spectrum)
        found = [
            (values[j % plan.points].real / bounds.period + error) * (bounds.p * bounds.step * j).exp()
            for j in range(first, last + 1)
        ]
    return BallDensity(plan.step, first, found, plan.bits)


def _spectrum_of_sum(plan: _Plan, bounds: _Bounds) -> tuple[list[Any], arb]:
    """Return Ĝ at multiples of 2π/V, folded onto n of them, and Ĝ(0)."""
    from flint import acb

    n, h, p = plan.points, bounds.step, bounds.p
    folded, turn = [acb(0)] * n, (acb(0, -1) * bounds.phi * p).exp()
    for j, (scale, g) in enumerate(_transform_of_one(plan, bounds), plan.lowest):
        folded[j % n] += (g / (scale * turn)) ** bounds.count * scale
    sums = [value * turn * h for value in acb.dft(folded)]
    left_out, aliases = h * bounds.beyond_points(plan.lowest, plan.highest), bounds.aliases_of_frequencies()
    whole = (sums[0].real + _around(left_out)) / (1 + _around(aliases))  # ĝ(0) = Γ(p) Ĝ(0)
    doubt = _around(whole * aliases + left_out)
    spectrum = [acb(0)] * n
    for k in range(plan.frequencies + 1):
        omega = bounds.eta * k
        value = (sums[k % n] + acb(doubt, doubt)) * (-bounds.phi * omega).exp() / acb(p, -omega).gamma()
        spectrum[k % n] += value
        if k > 0:  # G is real
            spectrum[-k % n] += value.conjugate()
    return spectrum, whole / p.gamma()


def _transform_of_one(plan: _Plan, bounds: _Bounds) -> list[tuple[arb, Any]]:
    """Return e^{pv} and g of one r at the points v."""
    from flint import acb

    n, p = plan.points * plan.periods, bounds.p
    period = bounds.period * plan.periods
    eta = 2 * pi_ball() / period
    top, spectrum = bounds.frequencies_of_one(eta, plan), [acb(0)] * n
    for k in range(top + 1):
        omega, gamma = eta * k, acb(p, -eta * k).gamma()
        power = acb(-p, omega)
        value = gamma * (power * (power - 1) * bounds.variance / 2).exp()
        spectrum[k % n] += value * (bounds.phi * omega).exp()
        if k > 0:
            spectrum[-k % n] += value.conjugate() * (-bounds.phi * omega).exp()
    values = acb.dft(spectrum, inverse=True)  # divided by n
    error = _around(
        bounds.beyond_frequencies_of_one(eta, top) + bounds.aliases_above(bounds.step * plan.lowest, period)
    )
    below, scaled, found = _around(bounds.aliases_below(period)), p * bounds.step, []
    for j in range(plan.lowest, plan.highest + 1):
        scale = (scaled * j).exp()
        ball = error + below * scale
        found.append((scale, values[j % n] / bounds.step + acb(ball, ball)))
    return found


def _around(size: arb) -> arb:
    """Return the ball around 0 that reaches as far as `size` may."""
    return size.union(-size)


@lru_cache(maxsize=64)
def log_moments_of_mean(variance: Fraction, count: int) -> tuple[arb, ...]:
    """Return log E (S/n)^m, m = 0, 1, …, LARGEST_ORDER: m! n^{-m} [x^m] (Σ_k e^{k(k-1)s²/2} x^k/k!)^n."""
    from flint import arb_poly

    with precision(MOMENT_BITS):
        half, shortest = ball_of_fraction(variance) / 2, LARGEST_ORDER + 1
        factorials = [as_ball(1.0)]
        for k in range(1, shortest):
            factorials.append(factorials[-1] * k)
        one = arb_poly([(half * (k * (k - 1))).exp() / factorials[k] for k in range(shortest)])
        power = one
        for bit in f"{count:b}"[1:]:
            for factor in (power, one)[: 1 + int(bit)]:
                power = arb_poly((power * factor).coeffs()[:shortest])
        return tuple((power[m] * factorials[m]).log() - m * as_ball(count).log() for m in range(shortest))


# What is left out -----------------------------------------------------------------------------------------------------


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Bounds:
    """The four facts, applied. Whatever orders of moments are chosen, they are right."""

    p: arb
    phi: arb
    step: arb
    period: arb
    variance: arb
    count: int
    eta: arb  # 2π/V
    omega: arb  # the largest frequency that is followed

    @staticmethod
    def of(plan: _Plan, variance: Fraction, count: int) -> _Bounds:
        step = as_ball(plan.step)
        eta = 2 * pi_ball() / (plan.points * step)
        values = as_ball(plan.p), as_ball(plan.phi), step, plan.points * step, ball_of_fraction(variance), count
        return _Bounds(*values, eta, plan.frequencies * eta)

    @property
    def tau2(self) -> arb:
        return self.variance / self.count

    @property
    def _lift(self) -> arb:
        return self.phi.cos() ** -self.p

    def aliases_of_frequencies(self) -> arb:
        """Return a bound of Σ_{k≠0} |ĝ(ω + 2πk/h)|/ĝ(0), 0 <= ω <= Ω: above by the Gaussian part, below by Γ."""
        w = 2 * pi_ball() / self.step
        above, below = (-w * w * self.tau2 / 2).exp(), (-2 * self.phi * (w - self.omega)).exp()
        return self._lift * (above / (1 - above) + below / (1 - (-2 * self.phi * w).exp()))

    def beyond_frequencies(self) -> arb:
        """Return a bound of (1/V) Σ |Ĝ(kη)|/Ĝ(0) over |kη| > Ω: (kη)² >= Ω² + 2Ω(kη - Ω)."""
        return 2 * _gaussian_tail(self.omega, self.eta, self.tau2) / self.period

    def beyond_points(self, lowest: int, highest: int) -> arb:
        """Return a bound of Σ |g(v)| over the points below the first and above the last."""
        below = (self.p * self.step * lowest).exp() / ((self.p * self.step).exp() - 1)
        return below + self.upper_points(highest)

    def upper_points(self, highest: int) -> arb:
        """Return a bound of Σ |g(v)| over the points above the last."""
        return self._above(self.step * (highest + 1), self.step, self.count)

    def aliases_of_places(self, first: int, last: int) -> arb:
        """Return a bound of Σ_{k≠0} G(u + kV) from the first to the last u."""
        p, tau2, log_count, v = self.p, self.tau2, as_ball(self.count).log(), self.period
        upper, lower = self.step * first - log_count + v, self.step * last - log_count - v
        x = as_ball(max(float(upper / self.variance), 1.0))
        y = as_ball(max(-float((lower + self.variance / 2) / tau2), 2 * float(p)))
        above = (x * (x - 1) * self.variance / 2 - (p + x) * upper).exp() / (1 - (-(p + x) * v).exp())
        below = (y * self.variance / 2 + y * y * tau2 / 2 + (y - p) * lower).exp() / (1 - (-(y - p) * v).exp())
        return (above + below) * (-p * log_count).exp() / (2 * pi_ball() * tau2).sqrt()

    # of one r

    def frequencies_of_one(self, eta: arb, plan: _Plan) -> int:
        nats = 2 * math.log(2) * plan.bits / float(self.variance)
        return math.ceil(math.sqrt(nats) / float(eta))

    def beyond_frequencies_of_one(self, eta: arb, top: int) -> arb:
        moment = (self.p * (self.p + 1) * self.variance / 2).exp()
        rest = _gaussian_tail(top * eta, eta, self.variance)
        return rest * eta / pi_ball() * self.p.gamma() * self._lift * moment

    def aliases_above(self, v: arb, period: arb) -> arb:
        """Return a bound of Σ_{k>0} |g(v' + k·period)| of one r, v' >= v."""
        return self._above(v + period, period, 1)

    def aliases_below(self, period: arb) -> arb:
        """Return a bound of e^{-pv} Σ_{k>0} |g(v - k·period)| of one r."""
        return 1 / (self.p * period).expm1()

    def _above(self, v: arb, step: arb, count: int) -> arb:
        """Return a bound of Σ_{k>=0} |g(v + k·step)| of a sum of t variables r."""
        tau2, log_count, cosine = self.variance / count, as_ball(count).log(), self.phi.cos()
        b = as_ball(_order(float(v + log_count + cosine.log() - self.variance / 2), float(tau2), 2 * float(self.p)))
        first = b * ((b / cosine).log() - 1 - log_count + self.variance / 2 + b * tau2 / 2) - (b - self.p) * v
        return first.exp() / (1 - (-(b - self.p) * step).exp())


def _gaussian_tail(omega: arb, eta: arb, variance: arb) -> arb:
    """Return a bound of Σ_{k>0} e^{-(ω + kη)²v/2}."""
    ratio = (-omega * eta * variance).exp()
    return (-omega * omega * variance / 2).exp() * ratio / (1 - ratio)


def smooth_size(least: float) -> int:
    """Return a power of 2, or three of them, of at least a number of points: quick to transform."""
    power: int = 2 ** math.ceil(math.log2(least))
    return power * 3 // 4 if power * 3 // 4 >= least else power


def _order(target: float, tau2: float, least: float) -> float:
    """Return about b with log b + bτ² = target, at least `least`."""
    most = max(target, 1.0) / tau2 + 2 * least
    return smallest_true(lambda b: math.log(b) + b * tau2 >= target, least, most, relative=0.01)


# The plan -------------------------------------------------------------------------------------------------------------


def _plan(variance: Fraction, count: int, low: float, high: float, reach: float) -> _Plan:
    s2, log_count = float(variance), math.log(count)
    tau, width = math.sqrt(s2 / count), high - low
    p = min(max(STEEP / width, LEAST_P), MOST_P)
    log_gamma = math.lgamma(p)
    # f at `reach` is made of one large r, or of all together
    depth = min((reach + s2 / 2) ** 2 / s2, (reach - log_count + s2 / 2) ** 2 / tau**2) / 2
    nats = SPARE_NATS + depth + p * (reach - log_count)
    omega = math.sqrt(2 * nats) / tau
    # so large that ĝ(Ω) is ĝ(0) without the Gaussian part: log |Γ(p - iΩ)| by Stirling's formula
    fallen = (p - 0.5) * math.log(math.hypot(p, omega)) - omega * math.atan2(omega, p) - p + 0.92 - log_gamma
    phi = min(max(-fallen / omega, LEAST_ANGLE), math.pi / 2 - min(1 / omega, 0.5))
    lift = -p * math.log(math.cos(phi))
    widest = 2 * math.pi / max(omega + (nats + lift) / (2 * phi), math.sqrt(2 * (nats + lift)) / tau)
    enough = as_ball(-nats - p * log_count).exp()
    plan = _Plan(p, phi, widest, 1, 1, 0, 0, 0, 0)

    def found(**changes: Any) -> _Bounds:
        return _Bounds.of(plan._replace(**changes), variance, count)

    def is_long(period: float) -> bool:
        ends = math.floor(low / widest), math.ceil(high / widest)
        return bool(found(points=math.ceil(period / widest)).aliases_of_places(*ends) < enough)

    period = smallest_true(is_long, width, LONGEST * width, relative=MARGIN)
    points = smooth_size(period / widest)
    plan = plan._replace(step=period / points, points=points)
    enough *= as_ball(log_gamma).exp()  # ĝ is larger than Ĝ by Γ(p)
    lowest = -log_count - (nats - log_gamma) / p

    def is_high(length: float) -> bool:
        return bool(found().upper_points(math.floor((lowest + length) / plan.step)) < enough)

    highest = lowest + smallest_true(is_high, 0.0, LONGEST * (width + FARTHEST), relative=MARGIN)
    plan = plan._replace(lowest=math.floor(lowest / plan.step), highest=math.ceil(highest / plan.step))
    enough /= count

    def is_enough(periods: int) -> bool:
        bounds, longer = found(), periods * found().period
        above = bounds.aliases_above(bounds.step * plan.lowest, longer)
        return bool(above + bounds.aliases_below(longer) * (p * bounds.step * plan.highest).exp() < enough)

    periods = next((m for m in PERIODS if is_enough(m)), 0)
    nats += lift + p * log_count + p * (p + 1) * s2 / 2 + SPARE_NATS
    bits = math.ceil(nats / math.log(2)) + SPARE_BITS
    if not 0 < periods * points * bits <= MOST_BITS_OF_POINTS:
        raise OutOfReach(f"the law of a sum of {count} lognormal variables takes too long: s is {math.sqrt(s2):g}")
    return plan._replace(periods=periods, frequencies=math.ceil(omega * period / (2 * math.pi)), bits=bits)
