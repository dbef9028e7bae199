"""Bounds of δ(ε) from a stretch of the line alone, where the characteristic function need not fall: atoms.

Let G(x) = e^{-θx} (1 - e^{-x})_+, the payoff tilted by θ > 0, so that δ(ε) = e^{K(θ)-θε} E G(L - ε) under the tilted
law. Functions T₋ <= G <= T₊ whose Fourier transforms vanish beyond |ω| = 2π/h give

    δ(ε) <= e^{K(θ)-θε} (1/2π) ∫ T̂₊(ω) φ(ω) e^{-iωε} dω,   φ(ω) = M(θ+iω)/M(θ),

over |ω| < 2π/h only, and the same from below; no atom of L need be resolved. The sum with step η = 2π/W instead of the
integral is that of Σ_k T(x + kW), which lies on the same side of Σ_k G(x + kW): from above nothing is lost, from below
the aliases of `contour`. So nothing is asked of the losses but nodes that are good to |ω| < 2π/h. The best such T for
jumps are Beurling's and Selberg's, for exponentials those of Graham and Vaaler (1981). Here the payoff has a kink, so
T₊ - T₋ is of order h: with f the density of the tilted losses near ε the bounds are f·h²/8 apart, the least possible
for that stretch of φ: about (θ+1)h²/8 in ε. An atom a distance y from ε adds about h³/y² of its mass.

What T is, and why it stays on its side, is in `kernels`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, final

import numpy as np

from cumulant.errors import OutOfReach
from cumulant.inversion.composed import ComposedPairs
from cumulant.inversion.contour import LARGEST_ERROR_NATS, ROUNDOFF, is_lost, log_chernoff
from cumulant.inversion.enclosure import CLOSE_NATS, Effort, Enclosure
from cumulant.inversion.kernels import BandKernels
from cumulant.inversion.plan import DROWNING_NATS, NODES_PER_DROWNED_NAT, NODES_PER_NAT, Tilts, round_count, spacing
from cumulant.inversion.rows import LINES, LinePoints, LineTable
from cumulant.numerics.complex_plane import Complex
from cumulant.numerics.logspace import Array
from cumulant.pairs.cache import CACHE, BatchedTable
from cumulant.pairs.curve import k_of_each, tilt
from cumulant.pairs.pair import DominatingPair

MOST_PLANNED, MOST_TILTED = 0.5, 8.0  # of (θ+1)h, up to which the gap is about (θ+1)h²/8, and kernels are computed
NEARLY = 1.7  # times as far apart is as good
FREE_EVALUATIONS = 8192.0  # nodes and frequencies of a fine line, which cost nothing beside what is planned
ROUGHER = 200.0  # times as far apart they are planned where ε and δ are but guessed
FINER_BANDS = 3  # that are tried where bounds are too far apart, one after the other
NARROWER, FINEST_STEP = 0.8, 1 / 8  # by which h falls beyond what is missing, and at most
ALIAS_SHARE = 0.01  # of what bounds may be apart, for aliases
TRANSFORM_UNITS, ROUNDING_SHARE = 6e-15, 0.2  # by which a transform is off, and of what bounds may be apart
DROWNED_NATS = 1e-2  # that rounding of transforms takes of log δ, from which few points without it say more
TOO_LONG = 10.0  # nats that a line beyond that counts as longer, for each that it is
MOST_BAND_POINTS = 400_000  # of one line
MOST_PRODUCTS = 6e7  # points times releases of closed losses
MOST_TOGETHER = 3e5  # nodes and frequencies of other losses
NARROW = 1e-7  # of (θ+1)h, where h costs nothing
CHORD_NATS = 1e-6  # slack that is as good as none where losses are made of chords
GAUSSIAN_NATS = 45.0  # below δ, where Gaussian releases end a line
SEARCHED_FOR_BANDS = Effort(rounds=4, turns=80, still=1e-11)
EPSILON_SLIP = 2.0**-47  # relative, of ε
KERNEL_UNITS = 24.0  # roundings by which a kernel may be off
LESS_THAN_ALL = 0.999 * 2 * math.pi  # of hω, where a line is shorter than its band
COLUMNS = 64  # of the matrix that a line is kept as
SLOPE_STEP = 1e-4  # of ε, in units of 1/θ


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
    effort: Effort = SEARCHED_FOR_BANDS
    is_rough: bool = False

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
            log_high = float(np.logaddexp(log_high, math.log(self.left_out))) * (1 - 1e-15) + 1e-15
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


@final
@dataclass(frozen=True, slots=True)
class BandPlan:
    """A line at the tilt of an index, of step η and `points` points: h = 2π/(η·points)."""

    index: int
    eta: float
    points: int
    height: float  # of Chernoff's bound there above the answer, in nats
    apart: float  # how far bounds of ε are planned to be apart

    @staticmethod
    def of(t: Tilts, apart: float) -> BandPlan:
        """Return the line that takes the fewest points to have bounds of ε so far apart, about (θ+1)h²/8."""
        excess = t.k - t.theta * t.epsilon - t.log_delta
        aliases = -np.log(np.minimum(ALIAS_SHARE * apart * t.theta, 0.1))
        chernoff = excess + log_chernoff(t.theta) + aliases[:, None]
        gaps = t.theta - t.theta[:, None]  # row: the line, column: the tilt of the bound
        with np.errstate(divide="ignore", invalid="ignore"):
            windows = np.maximum(chernoff, 1.0) / np.abs(gaps)
            above = np.where(gaps > 0, windows, np.inf).min(axis=1)
            below = np.where(gaps < 0, windows, np.inf).min(axis=1)
        window = np.maximum(np.maximum(above, np.minimum(below, (aliases - t.log_delta) / t.theta)), 1 / t.theta)
        h = np.minimum(np.sqrt(8 * apart / (t.theta + 1)), MOST_PLANNED / (t.theta + 1))
        cost = np.log(window / h) + NODES_PER_NAT * np.maximum(excess, 0.0)
        cost += NODES_PER_DROWNED_NAT * np.maximum(excess - DROWNING_NATS, 0.0)
        cost += np.maximum(np.log(window / h / MOST_BAND_POINTS), 0.0) * TOO_LONG
        best = int(np.argmin(np.where(np.isfinite(cost), cost, np.inf)))
        if not math.isfinite(cost[best]):
            raise OutOfReach("no tilt that is known bounds what a line would miss")
        eta = spacing(math.floor(4 * math.log2(2 * math.pi / max(float(window[best]), 1e-250))))
        points = _round_points(2 * math.pi / (float(h[best]) * eta))
        return BandPlan(t.index + best, eta, points, max(float(excess[best]), 0.0), apart)

    @property
    def theta(self) -> float:
        return tilt(self.index)

    @property
    def h(self) -> float:
        return 2 * math.pi / (self.eta * self.points)

    def rounding(self, releases: int) -> float:
        """Return about how much of ε rounding takes where each release is off by units of M."""
        return releases * TRANSFORM_UNITS * math.exp(min(self.height, 600.0)) / (2 * self.theta**2)

    def with_points(self, points: float) -> BandPlan:
        return replace(self, points=_round_points(points))


def bands(losses: ComposedPairs, tilts: Tilts) -> Iterator[BandInDoubles]:
    """Yield a rough band where ε and δ are but guessed, else fine ones until their bounds are near, or too long.

    Bounds of ε within a share of it cost points like one over the root of that share, so a rough band that says where
    to plan a fine one is cheap beside it.
    """
    plan = BandPlan.of(tilts, tilts.epsilon_apart * (ROUGHER if tilts.is_guess else 1.0))
    table, most = _table(losses, plan)
    if not tilts.is_guess:
        plan = plan.with_points(max(plan.points, most * FREE_EVALUATIONS / MOST_TOGETHER))
    for _ in range(1 if tilts.is_guess else FINER_BANDS):
        if plan.points > most:
            plan = plan.with_points(most / 2)
        band = _band(losses, plan, tilts, table)
        yield band
        slack = band.slack(tilts.epsilon)
        if slack <= band.enough or plan.points > most / 2:
            return
        share = NARROWER * math.sqrt(band.enough / slack)
        plan = plan.with_points(plan.points / min(max(share, FINEST_STEP), NARROWER))


def _table(losses: ComposedPairs, plan: BandPlan) -> tuple[LineTable, float]:
    """Return where K comes from, and how many points a line may have: what they and its nodes cost grows with them.

    Nodes for one tilt alone are few, and transformed; all nodes keep what is small, where that shows and they are not
    too many.
    """
    if losses.closed is not None:
        return BAND_LINES, min(MOST_BAND_POINTS, MOST_PRODUCTS / len(losses.parts))
    budget = MOST_TOGETHER * (1 + sum(pair.components for pair, _ in losses.parts) / 4)

    def most(waves: float) -> float:
        return min(MOST_BAND_POINTS, max(budget / (1 + waves * plan.eta), COLUMNS))

    every = most(sum(pair.waves(plan.theta) for pair, _ in losses.parts))
    rounding = plan.rounding(losses.releases)
    if rounding > (ROUNDING_SHARE * plan.apart if every >= plan.points else DROWNED_NATS / plan.theta):
        return LINES, every
    return BAND_LINES, most(sum(pair.waves_at(plan.theta) for pair, _ in losses.parts))


def _round_points(count: float) -> int:
    """Round a count up to 2^k in eighths, so that later questions meet these points again."""
    eighth: int = max(2 ** math.floor(math.log2(max(count, 8.0))) // 8, COLUMNS)
    return eighth * math.ceil(count / eighth)


def _band(losses: ComposedPairs, plan: BandPlan, tilts: Tilts, table: LineTable) -> BandInDoubles:
    theta, points, h = plan.theta, plan.points, plan.h
    if losses.variance > 0:
        end = math.sqrt(2 * (plan.height + GAUSSIAN_NATS) / losses.variance) / plan.eta + 1
        if end < points:
            points, h = round_count(end), NARROW / (theta + 1)
    if not (theta + 1) * h <= MOST_TILTED:
        raise OutOfReach(f"a line of {points} points is too short for a tilt of {theta:g}")
    k, above, below = _sides(losses, (plan.index, plan.eta, points), h, table)
    band = BandInDoubles(theta, plan.eta, k, above, below, tilts, losses.left_out, is_rough=tilts.is_guess)
    if tilts.is_guess:
        return band
    near = NEARLY * tilts.epsilon_apart * max(-band.slope(tilts.epsilon), 0.0)
    return replace(band, enough=max(near, CHORD_NATS if any(pair.of_chords for pair, _ in losses.parts) else 0.0))


@CACHE.remember
def _sides(losses: ComposedPairs, points: LinePoints, h: float, table: LineTable) -> tuple[float, _Side, _Side]:
    """Return K(θ) and both bounds on a line.

    Kernels are |T̂| <= 1/|z|² + h²/12: what an error of a kernel, or of a phase, adds up to is bounded by an integral.
    """
    index, eta, count = points
    theta = tilt(index)
    k, values, error = _characteristic_function(losses, points, table)
    nodes = BandKernels.of(theta, eta, count, h)
    end = eta * count
    flat = (eta / theta**2 + math.pi / (2 * theta) + end * h * h / 12) / math.pi  # Σ |T̂|·η/π
    rising = (eta / theta + math.log(2 + 2 * end / theta) + (end * h) ** 2 / 24) / math.pi  # Σ |T̂ z|·η/π
    # what Gaussians end is nothing beside what is summed
    beyond = math.exp(-losses.variance * end**2 / 2) if h * end < LESS_THAN_ALL else 0.0
    beyond *= max((1 / end + eta / end**2) / math.pi, 1.0)
    # near 2π/h, where e^{-zh} is 1 again, phases make kernels uncertain by units of (h/|1 - e^{-zh}|)²
    off = ROUNDOFF * KERNEL_UNITS * (flat + h * rising + 1 / (12 * eta))
    scale_error = ROUNDOFF * abs(k)  # of log M(θ), in nats
    if not scale_error <= LARGEST_ERROR_NATS:
        raise OutOfReach(f"K is known to {scale_error:.3g} nats only: too many releases for doubles")
    off += math.expm1(scale_error) * flat + beyond
    values *= eta / math.pi
    error *= eta / math.pi
    above, below = (
        _Side.of(kernel, values, float(np.abs(kernel) @ error) + off, 10 * ROUNDOFF * rising)
        for kernel in (nodes.above(), nodes.below())
    )
    return k, above, below


def _characteristic_function(
    losses: ComposedPairs, points: LinePoints, table: LineTable
) -> tuple[float, Complex, Array]:
    """Return K(θ), M(z)/M(θ) along a line, and a bound of its error at each point."""
    index, eta, count = points
    theta = tilt(index)
    if losses.closed is None:
        k, error = (one[0] for one in losses.row.line(points, table))
        if not error[0] <= LARGEST_ERROR_NATS:  # the scale itself is not known
            raise OutOfReach(f"K is known to {error[0]:.3g} nats only: too many releases for doubles")
        top = float(k[0].real)
        lost = error > LARGEST_ERROR_NATS  # nothing is known but |M(z)| <= M(θ)
        size = np.exp(np.minimum(k.real - top, 0.0))
        with np.errstate(over="ignore", invalid="ignore"):
            off = size * np.expm1(np.minimum(error, LARGEST_ERROR_NATS)) + ROUNDOFF * size * np.abs(k)
        return top, np.where(lost, 0.0, size * np.exp(1j * k.imag)), np.where(lost, math.exp(float(error[0])), off)
    top, values, (a, b) = losses.closed.line((theta, eta, count))
    omega = eta * np.arange(count, dtype=float)
    if losses.variance > 0:
        mean = losses.variance * (theta + 0.5)
        values *= np.exp(-losses.variance / 2 * omega**2 + 1j * mean * omega)
        a, b = a + 4 * ROUNDOFF, b + 4 * ROUNDOFF * mean
    return top + losses.variance * theta * (theta + 1) / 2, values, a + b * np.hypot(theta, omega)


def _k_on_bands(pairs: Sequence[DominatingPair], index: int, eta: float, count: int) -> list[tuple[Complex, Array]]:
    known = zip(pairs, k_of_each(pairs, index).tolist(), strict=True)
    return [_k_on_band(pair, tilt(index), eta, count, k) for pair, k in known]


def _k_on_band(pair: DominatingPair, theta: float, eta: float, count: int, k: float) -> tuple[Complex, Array]:
    """Return K(θ + ijη) of one release for j < count, and a bound of its error."""
    values, error = pair.nodes_at(theta, eta * (count - 1), k).log_moment(eta, count)
    return k + values, error


BAND_LINES = BatchedTable("band lines", _k_on_bands)
