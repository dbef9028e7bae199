"""Bounds of δ(ε) from a stretch of the line alone, where the characteristic function need not fall: atoms.

Let G(x) = e^{-θx} (1 - e^{-x})_+, the payoff tilted by θ > 0, so that δ(ε) = e^{K(θ)-θε} E G(L - ε) under the tilted
law. Functions T₋ <= G <= T₊ whose Fourier transforms vanish beyond |ω| = 2π/h give

    δ(ε) <= e^{K(θ)-θε} (1/2π) ∫ T̂₊(ω) φ(ω) e^{-iωε} dω,   φ(ω) = M(θ+iω)/M(θ),

over |ω| < 2π/h only, and the same from below; no atom of L need be resolved. The sum with step η = 2π/W instead of the
integral is that of Σ_k T(x + kW), which lies on the same side of Σ_k G(x + kW): from above nothing is lost, from below
the aliases of `contour`. The best such T for jumps are Beurling's and Selberg's, for exponentials those of Graham and
Vaaler (1981). Here the payoff has a kink, so T₊ - T₋ is of order h: with f the density of the tilted losses near ε the
bounds are f·h²/8 apart, the least possible for that stretch of φ. An atom a distance y from ε adds about h³/y² of its
mass.

*Construction.* In units of h, with a = θh and b = (θ+1)h, let T interpolate G and G' at the points n + g, n integer:

    T(x) = (sin π(x-g)/π)² Σ_n [G(n+g)/(x-n-g)² + G'(n+g)/(x-n-g)].

By Vaaler's formula, T̂(ω) = (1 - t) Σ G(n+g) e^{-2πi(n+g)t} + (1/2πi) Σ G'(n+g) e^{-2πi(n+g)t} for 0 < t = ωh/2π < 1:
with z = θ + iω, e^{-θx} has Σ_{n>=0} e^{-zh(n+g)} = e^{-zhg}/(1 - e^{-zh}), and its derivative -a times that, so that

    T̂ = h [(1 + izh/2π) e^{-zhg}/(1 - e^{-zh}) - (1 + i(z+1)h/2π) e^{-(z+1)hg}/(1 - e^{-(z+1)h})].

*From above.* Let C(w) = w e^{-wg}/(1 - e^{-w}). As 1/(n-x)² = ∫ s e^{-s(n-x)} ds over s > 0, for x < 0, where G = 0,
T - G = (sin²/π²) ∫ e^{sx} [C(a+s) - C(b+s)] ds. For x > 0 the sum over all integers would be e^{-λx} π²/sin²; that over
the negative ones, continued from λ < 0, is ∫ e^{-sx} C(λ-s) ds, so T - G = (sin²/π²) ∫ e^{-sx} [C(b-s) - C(a-s)] ds.
Take g with C(a) = C(b): g = log(B(b)/B(a))/h, B(w) = w/(1 - e^{-w}). log C is concave, as w/(2 sinh(w/2)) is
log-concave; so C(a+s) >= C(b+s) and C(b-s) >= C(a-s) for s >= 0, and T >= G.

*From below.* Take g = 0, and some d between 0 and h for G' at the kink, which has h from the right: T̂ changes by
(d-h)h/2πi. C is B for g = 0, and the brackets become, for x < 0 and x > 0,

    h - d - [B(b+s) - B(a+s)]   and   d - h + [B(b-s) - B(a-s)].

B is convex, so the first is at most h - d - [B(b) - B(a)], the second at most d - h + [B(b) - B(a)]: both are <= 0 for
d = h - [B(b) - B(a)], and T <= G.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np

from cumulant.errors import OutOfReach
from cumulant.inversion.composed import LINES, ComposedPairs
from cumulant.inversion.contour import EXACT_SHARE, LARGEST_ERROR_NATS, ROUNDOFF, is_lost, log_chernoff
from cumulant.inversion.cut import round_count
from cumulant.inversion.enclosure import CLOSE_NATS, IN_DOUBLES, Effort, Enclosure
from cumulant.inversion.plan import Plan, Tilts
from cumulant.numerics.complex_plane import Complex, turns
from cumulant.pairs.cache import CACHE
from cumulant.pairs.grid import tilt

SMALL_TILT = 0.05  # of (θ+1)h, up to which the series of log B and B are exact to rounding
FINER_BAND = 2.0  # by how much h falls where bounds are too far apart
MOST_BAND_POINTS = 1_000_000  # of a line of closed losses
MOST_PRODUCTS = 6e7  # points times releases
NARROW = 1e-7  # of (θ+1)h, where h costs nothing
CHORD_NATS = 1e-5  # slack that is as good as none where losses are made of chords
GAUSSIAN_NATS = 45.0  # below δ, where Gaussian releases end a line
SHARE_OF_EXACT = 1.0  # of what an exact answer allows, that a band is planned for: about 0.75 is used
EPSILON_SLIP = 2.0**-47  # relative, of ε
KERNEL_UNITS = 24.0  # roundings by which a kernel may be off
LESS_THAN_ALL = 0.999 * 2 * math.pi  # of hω, where a line is shorter than its band
COLUMNS = 512  # of the matrix that a line is kept as
SLOPE_STEP = 1e-4  # of ε, in units of 1/θ


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Nodes:
    """z = θ + iω at ω = 0, η, 2η, …, with e^{-zh}, and 1 - e^{-zh} and 1 - e^{-(z+1)h} without a difference."""

    theta: float
    eta: float
    h: float
    z: Complex
    turned: Complex
    first: Complex
    second: Complex

    @staticmethod
    def of(theta: float, eta: float, count: int, h: float) -> _Nodes:
        half = turns(-eta * h / 2, count)
        # 1 - e^{-a}e^{-iφ} = (1 - e^{-a}) + e^{-a}(1 - e^{-iφ}), and 1 - e^{-iφ} = 2i sin(φ/2) e^{-iφ/2}
        versine = -2j * half.imag * half
        first, second = (-math.expm1(-a) + math.exp(-a) * versine for a in (theta * h, (theta + 1) * h))
        z = theta + 1j * eta * np.arange(count, dtype=float)
        return _Nodes(theta, eta, h, z, math.exp(-theta * h) * half * half, first, second)

    def above(self) -> Complex:
        """Return T̂₊.

        Holds for:  any law of losses; θ > 0, 0 <= ω < 2π/h.
        Tightness:  ∫ (T₊ - G) = h²/24, the least for this stretch.
        """
        h, turn = self.h, 1j * self.h / (2 * math.pi)
        g = _log_ratio(self.theta * h, h) / h
        apart = -math.expm1(-h * g) - (math.exp(-h * g) * math.expm1(-h * (1 - g))) * self.turned
        bracket = (1 + turn * self.z) * apart / self.first - turn * math.exp(-h * g)
        shift = h * math.exp(-self.theta * h * g) * turns(-self.eta * h * g, len(self.z))
        return np.asarray(shift * bracket / self.second)

    def below(self) -> Complex:
        """Return T̂₋.

        Holds for:  any law of losses; θ > 0, 0 <= ω < 2π/h.
        Tightness:  ∫ (G - T₋) = h²/12, the least for this stretch.
        """
        h, turn = self.h, 1j * self.h / (2 * math.pi)
        risen = _difference(self.theta * h, h)
        bracket = (1 + turn * self.z) * (-math.expm1(-h) * self.turned) / self.first - turn
        return np.asarray(h * (bracket / self.second + 1j * risen / (2 * math.pi)))


def _log_ratio(a: float, h: float) -> float:
    """Return log(B(a+h)/B(a)) from log B(w) = w/2 - w²/24 + w⁴/2880 - w⁶/181440 + …"""
    second, fourth, sixth = _even_powers(a, h)
    return h / 2 - second / 24 + fourth / 2880 - sixth / 181440


def _difference(a: float, h: float) -> float:
    """Return B(a+h) - B(a) from B(w) = 1 + w/2 + w²/12 - w⁴/720 + w⁶/30240 - …"""
    second, fourth, sixth = _even_powers(a, h)
    return h / 2 + second / 12 - fourth / 720 + sixth / 30240


def _even_powers(a: float, h: float) -> tuple[float, float, float]:
    """Return b² - a², b⁴ - a⁴ and b⁶ - a⁶, b = a + h, from h."""
    b = a + h
    second = h * (a + b)
    return second, second * (a * a + b * b), second * (a**4 + a * a * b * b + b**4)


class _Side(NamedTuple):
    """One bound: weights of the terms as a matrix, whose rows are stretches of the line, and what they are off by."""

    weights: Complex
    doubt: float
    phase_doubt: float  # for a unit of ε

    @staticmethod
    def of(kernel: Complex, values: Complex, doubt: float, phase_doubt: float) -> _Side:
        rows = -(-len(values) // COLUMNS)
        weights = np.zeros(rows * COLUMNS, dtype=complex)
        np.multiply(kernel, values, out=weights[: len(values)])
        weights[0] /= 2
        return _Side(weights.reshape(rows, COLUMNS), doubt, phase_doubt)


@final
@dataclass(frozen=True, slots=True, eq=False)
class BandInDoubles(Enclosure):
    """Bounds from both sides by a band of frequencies; their rounding is estimated, not enclosed."""

    theta: float
    eta: float
    k: float  # K(θ)
    above: _Side
    below: _Side
    tilts: Tilts
    left_out: float = 0.0  # of P, by which δ may be larger
    route: str = "band"
    proven: bool = False
    enough: float = CLOSE_NATS
    effort: Effort = IN_DOUBLES

    @property
    def points(self) -> int:
        """How many frequencies were looked at."""
        return self.above.weights.size

    def log_upper(self, epsilon: float) -> tuple[float, float]:
        if epsilon == math.inf or is_lost(self.k, self.theta, epsilon):
            return 0.0, math.nan
        epsilon *= 1 - EPSILON_SLIP  # δ falls with ε: phases next to the largest loss are off by as much
        high = self._sum(self.above.weights, epsilon) + self.above.doubt + epsilon * self.above.phase_doubt
        if not high > 0:
            return 0.0, math.nan
        log_high = self._scale(epsilon) + math.log(high)
        if self.left_out > 0:
            log_high = float(np.logaddexp(log_high, math.log(self.left_out))) + 1e-15
        return min(log_high, 0.0), math.nan

    def slope(self, epsilon: float) -> float:
        """Return about d log δ/dε, from a difference."""
        step = SLOPE_STEP / self.theta
        return (self.log_upper(epsilon + step)[0] - self.log_upper(epsilon)[0]) / step

    def log_bounds(self, epsilon: float) -> tuple[float, float]:
        if epsilon == math.inf or is_lost(self.k, self.theta, epsilon):
            return -math.inf, 0.0
        total = self._sum(self.below.weights, epsilon)
        low = total - self.below.doubt - epsilon * self.below.phase_doubt - self._alias(epsilon)
        log_low = self._scale(epsilon) + math.log(low) if low > 0 else -math.inf
        return log_low, self.log_upper(epsilon)[0]

    def estimated(self, epsilon: float) -> float:
        total = self._sum(self.above.weights, epsilon)
        doubt = self.above.doubt + epsilon * self.above.phase_doubt
        return 2 * math.log1p(doubt / total) if total > 0 else math.inf

    def _scale(self, epsilon: float) -> float:
        return self.k - self.theta * epsilon

    def _sum(self, weights: Complex, epsilon: float) -> float:
        """Return Re Σ w_j e^{-iεω_j}: a vector times a matrix times a vector."""
        rows, columns = weights.shape
        across, down = self.eta * np.arange(columns), self.eta * columns * np.arange(rows)
        # no thread is worth starting for this product, as a library for matrices would
        stretches = np.einsum("ij,j->i", weights, np.exp(-1j * epsilon * across))
        return float(np.einsum("i,i", np.exp(-1j * epsilon * down), stretches).real)

    def _alias(self, epsilon: float) -> float:
        """Return a bound of Σ_{k≠0} e^{θkW} δ(ε + kW) over e^{K(θ)-θε}: Chernoff's, or δ <= 1, as in `contour`."""
        scale, window = self._scale(epsilon), 2 * math.pi / self.eta
        tau, gap = self.tilts.theta, np.abs(self.tilts.theta - self.theta) * window
        logs = log_chernoff(tau) + self.tilts.k - tau * epsilon - scale + 1e-9
        apart = gap > 0.01 * self.theta * window
        with np.errstate(divide="ignore", invalid="ignore"):  # a tilt equal to θ is left out
            bounds = np.where(apart, np.exp(np.minimum(logs - gap, 700.0)) / -np.expm1(-gap), np.inf)
        above, below = (float(np.min(bounds[side], initial=np.inf)) for side in (tau > self.theta, tau < self.theta))
        whole = math.exp(min(-scale - self.theta * window, 700.0)) / -math.expm1(-self.theta * window)
        return above + min(below, whole)


def closed_bands(losses: ComposedPairs, plan: Plan) -> Iterator[BandInDoubles]:
    """Yield bands of losses in closed form, ever wider ones, until that takes too long."""
    closed, releases = losses.closed, len(losses.parts)
    assert closed is not None
    enough = EXACT_SHARE * max(plan.tilts.epsilon, 1e-3) * plan.theta
    # both bounds of ε are about (θ+1)h²/8 apart
    h = math.sqrt(8 * SHARE_OF_EXACT * enough / plan.theta / (plan.theta + 1))
    h = min(h, SMALL_TILT / (plan.theta + 1))
    most = min(MOST_BAND_POINTS, MOST_PRODUCTS / releases)
    end = math.inf
    if losses.variance > 0:
        end = math.sqrt(2 * (plan.height + GAUSSIAN_NATS) / losses.variance) / plan.eta + 1
    first = True
    while first or 2 * math.pi / (h * plan.eta) <= most:
        points = min(2 * math.pi / (h * plan.eta), most)
        if end < points:
            yield _band(losses, plan, round_count(end), NARROW / (plan.theta + 1), math.inf)
            return
        count = _round_points(points)
        h = 2 * math.pi / (plan.eta * count)
        if not (plan.theta + 1) * h <= SMALL_TILT:
            raise OutOfReach(f"a line of {count} points is too short for a tilt of {plan.theta:g}")
        yield _band(losses, plan, count, h, max(enough, CLOSE_NATS))
        first, h = False, h / FINER_BAND


def _round_points(count: float) -> int:
    """Return at least this count, 2^k in eighths, so that later questions meet the same points."""
    eighth: int = max(2 ** math.floor(math.log2(max(count, 8.0))) // 8, COLUMNS)
    return eighth * math.ceil(count / eighth)


def band_on(losses: ComposedPairs, plan: Plan, omega: float) -> BandInDoubles | None:
    """Return the band up to a frequency, of any losses; None where it is too narrow for its tilt."""
    count = round_count(omega / plan.eta)
    h = 2 * math.pi / (plan.eta * count)
    if (plan.theta + 1) * h > SMALL_TILT:
        return None
    rough = any(pair.of_chords for pair, _ in losses.parts)
    enough = EXACT_SHARE * max(plan.tilts.epsilon, 1e-3) * plan.theta
    return _band(losses, plan, count, h, CHORD_NATS if rough else max(enough, CLOSE_NATS))


def _band(losses: ComposedPairs, plan: Plan, count: int, h: float, enough: float) -> BandInDoubles:
    k, above, below = _sides(losses, plan.index, plan.eta, count, h)
    return BandInDoubles(plan.theta, plan.eta, k, above, below, plan.tilts, losses.left_out, enough=enough)


@CACHE.remember
def _sides(losses: ComposedPairs, index: int, eta: float, count: int, h: float) -> tuple[float, _Side, _Side]:
    """Return K(θ) and both bounds on a line.

    Terms are |T̂| <= 1/|z|² + h²/12 times |φ| <= 1, so their errors a + b|z| add up to what an integral bounds.
    """
    theta = tilt(index)
    k, values, (a, b) = _characteristic_function(losses, index, eta, count)
    nodes = _Nodes.of(theta, eta, count, h)
    end = eta * count
    flat = (eta / theta**2 + math.pi / (2 * theta) + end * h * h / 12) / math.pi  # Σ |T̂|·η/π
    rising = (eta / theta + math.log(2 + 2 * end / theta) + (end * h) ** 2 / 24) / math.pi  # Σ |T̂ z|·η/π
    # what Gaussians end is nothing beside what is summed
    beyond = math.exp(-losses.variance * end**2 / 2) if h * end < LESS_THAN_ALL else 0.0
    # near 2π/h, where e^{-zh} is 1 again, phases make kernels uncertain by units of (h/|1 - e^{-zh}|)²
    off = ROUNDOFF * KERNEL_UNITS * (flat + h * rising + 1 / (12 * eta))
    scale_error = ROUNDOFF * abs(k)  # of log M(θ), in nats
    if not scale_error <= LARGEST_ERROR_NATS:
        raise OutOfReach(f"K is known to {scale_error:.3g} nats only: too many releases for doubles")
    doubt = (a + math.expm1(scale_error)) * flat + b * rising + off + beyond
    values *= eta / math.pi
    above, below = (
        _Side.of(kernel, values, doubt, 10 * ROUNDOFF * rising) for kernel in (nodes.above(), nodes.below())
    )
    return k, above, below


def _characteristic_function(
    losses: ComposedPairs, index: int, eta: float, count: int
) -> tuple[float, Complex, tuple[float, float]]:
    """Return K(θ), M(z)/M(θ) along a line, and (a, b): it is off by at most a + b|z|."""
    theta = tilt(index)
    if losses.closed is None:
        k, error = losses.line((index, eta, count), LINES)
        if not error[0] <= LARGEST_ERROR_NATS:  # the scale itself is not known
            raise OutOfReach(f"K is known to {error[0]:.3g} nats only: too many releases for doubles")
        top = float(k[0].real)
        lost = error > LARGEST_ERROR_NATS  # nothing is known but |M(z)| <= M(θ)
        values = np.where(lost, 0.0, np.exp(np.minimum(k.real - top, 0.0) + 1j * k.imag))
        off = np.abs(values) * np.expm1(np.minimum(error, LARGEST_ERROR_NATS)) + ROUNDOFF * np.abs(k)
        off = np.where(lost, math.exp(float(error[0])), off)
        return top, values, (0.0, float(np.max(off / (theta + eta * np.arange(count)))))
    top, values, (a, b) = losses.closed.line((theta, eta, count))
    if losses.variance > 0:
        omega, mean = eta * np.arange(count, dtype=float), losses.variance * (theta + 0.5)
        values *= np.exp(-losses.variance / 2 * omega**2 + 1j * mean * omega)
        a, b = a + 4 * ROUNDOFF, b + 4 * ROUNDOFF * mean
    return top + losses.variance * theta * (theta + 1) / 2, values, (a, b)
