"""Jumps: the losses of a release that are large enough to make up an answer, without the many small ones.

When a record leaves a sample of Gaussian noise its loss is mostly next to log(1-γ), and rarely large. Near that least
loss its law is log-normal over many octaves, so that |φ| hardly falls. What a second, nearer cut χ_q takes off a law
that was cut at χ, or not at all, is smooth, though: its moments J(z) = E[χ(1-χ_q) e^{zL}] fall exponentially along a
line. With w = 1-γ+γe^u, u = μt - μ²/2, the share s = γe^u/w, and any path t + iy(t), y >= 0 falling,

    |J(θ+iω)| <= ∫ φ(t) e^{y²/2} X(t) w(t)^{θ+1} e^{-ω·arg w(t+iy)} |1 + iy'| dt,

    X = min{e^{a²y²} χ, 1 + e^{a²y²} (1-χ)}·e^{a_q²y²} (1-χ_q),

as |w(t+iy)| <= w(t), |erfc(x+iy)| <= e^{y²} erfc(x), and the integrand is analytic where μ|y| < π. The argument of
w(t+iy), which is that of 1 - s + se^{iμy}, grows with s, so with t, and with y as long as μy <= π/2.

J itself comes from the trapezoidal rule, whose error the same bound gives, with ω turned the other way. What is left,
the quiet losses, is only bounded: S(θ) = E[χχ_q e^{θL}] = E[χχ_q] + E[χχ_q (e^{θL} - 1)], cell by cell.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TypeGuard, final

import numpy as np

from cumulant.errors import OutOfReach
from cumulant.numerics.complex_plane import Complex
from cumulant.numerics.logspace import Array
from cumulant.pairs.coordinate import CoordinatePair
from cumulant.pairs.cut_law import CutLaw, log_half_erfc, place_of_cut
from cumulant.pairs.maps import Leave
from cumulant.pairs.noise import GaussianNoise
from cumulant.pairs.normal_law import LOG_ROOT
from cumulant.pairs.pair import DominatingPair

RADIANS = 0.5  # μy, by which the coordinate is moved where jumps begin
HIGHEST = 4.0  # y: e^{y²/2} is what it costs
SOFT_RADIANS = 4.0  # a·y: e^{a²y²} is what it costs
SHIFTS = 1.0, 0.5  # times the largest y: each path gives a bound
STRIPS = 2.0 ** -np.arange(7.0)  # times the widest strip of the trapezoidal rule
LARGE_LOSS = 700.0  # where e^L is next to the largest double
PLACES = 16  # of a near cut, per 1/μ
SOFTEST, SHARPEST = 1.5, 1024.0  # a of a far cut
LEVEL_NATS = 4.0  # by which a tilted density may still rise beyond a cut
MOST_PRODUCTS = 3e7  # of nodes and frequencies
CELLS_PER_LENGTH = 12  # of a path: 1/a next to a cut, elsewhere 1/μ or 1
FAR_RATIO = 1.2  # of cells beyond a far cut
FAR_LEFT = 9.0  # deviations, beyond which quiet losses are least, and count for nothing
MOST_JUMP_CELLS = 8000  # of a path, and of the quiet losses before it
DEEP = 10.0  # x, at which erfc(x) is below e^-100
DEPTH_NATS = 60.0  # below J(θ), to which the trapezoidal rule goes
MOST_JUMP_NODES = 100_000  # of a trapezoidal rule
IRRELEVANT_NATS = 140.0  # below the largest cell, of cells that are counted together
UNSEEN_NATS = 100.0  # below the largest node, of nodes that are left out
ROUNDING = 2.0**-51  # of a few elementary steps
BLOCK = 128  # nodes that are added up before others
MARGIN_NATS = 1e-9  # on sums of doubles that bound an integral

Cut = tuple[float, float]
"""Where χ(t) = ½ erfc(a(t - c)) falls, c, and how sharply, a."""


def has_jumps(pair: DominatingPair) -> TypeGuard[CoordinatePair]:
    """Return whether jumps are known of a pair: one of Gaussian noise, when a record leaves."""
    if not isinstance(pair, CoordinatePair) or not isinstance(pair.sampling, Leave) or not pair.sampling.rate < 1:
        return False
    law = pair.law.law if isinstance(pair.law, CutLaw) else pair.law
    return isinstance(law, GaussianNoise) and not law.several


def log_delta_of_one(pair: CoordinatePair, epsilon: float) -> float:
    """Return about log δ(ε) of one release, far losses included: γφ(t-μ)·(m(t-μ) - m(t)), m Mills' ratio, L(t) = ε."""
    law = pair.law.law if isinstance(pair.law, CutLaw) else pair.law
    assert isinstance(law, GaussianNoise)
    t = _coordinate_of(epsilon, law.mean, pair.sampling.rate)
    ends = np.array([t - law.mean, t])
    near, far = np.exp(log_half_erfc(ends / math.sqrt(2.0)) + ends**2 / 2)
    return math.log(pair.sampling.rate) - float(ends[0]) ** 2 / 2 + math.log(max(near - far, 1e-300))


def _coordinate_of(loss: float, mean: float, rate: float) -> float:
    u = (math.log(math.expm1(loss) + rate) if loss < LARGE_LOSS else loss) - math.log(rate)
    return u / mean + mean / 2


def cut_far(pair: CoordinatePair, tilt: float, log_share: float) -> CoordinatePair:
    """Return the pair cut where that leaves out at most e^log_share, so sharply that tilts up to this one allow it.

    Where φw^{θ+1} rises by g a unit, times χ it still rises by g²/4a² beyond c.
    """
    law, rate = pair.law.law if isinstance(pair.law, CutLaw) else pair.law, pair.sampling.rate
    assert isinstance(law, GaussianNoise)
    components = list(law.components(rate))
    at, sharpness = 0.0, SOFTEST
    for _ in range(2):  # the place depends on the sharpness a little
        at = place_of_cut(components, sharpness, log_share)
        u = math.log(rate) + law.mean * (at - law.mean / 2)
        rising = (tilt + 1) * law.mean / (1 + math.exp(min(math.log1p(-rate) - u, LARGE_LOSS))) - at
        sharpness = 2.0 ** math.ceil(math.log2(max(rising / (2 * math.sqrt(LEVEL_NATS)), SOFTEST)))
    return CoordinatePair(CutLaw(law, at, min(sharpness, SHARPEST)), pair.sampling)


@final
@dataclass(frozen=True, slots=True)
class Jumps:
    """What a near cut takes off N(0, 1) with w = 1 - γ + γe^{μt - μ²/2}, which may itself be cut farther out."""

    mean: float
    rate: float
    near: Cut
    far: Cut | None

    @staticmethod
    def of(pair: CoordinatePair, largest: float) -> Jumps:
        """Return losses from about the largest quiet one on; any cut is sound."""
        far = pair.law
        law = far.law if isinstance(far, CutLaw) else far
        assert isinstance(law, GaussianNoise)
        mean, rate = law.mean, pair.sampling.rate
        spacing = 2.0 ** math.floor(-math.log2(PLACES * mean))
        at = math.floor(_coordinate_of(largest, mean, rate) / spacing) * spacing
        if isinstance(far, CutLaw) and not at < far.at:
            raise OutOfReach("losses as large as that are cut off")
        sharpness = 2.0 ** math.ceil(math.log2(SOFT_RADIANS / min(RADIANS / mean, HIGHEST)) - 0.5)
        return Jumps(mean, rate, (at, sharpness), (far.at, far.sharpness) if isinstance(far, CutLaw) else None)

    def log_w(self, t: Array) -> Array:
        return np.asarray(np.logaddexp(math.log1p(-self.rate), math.log(self.rate) + self.mean * (t - self.mean / 2)))

    # Quiet losses -----------------------------------------------------------------------------------------------------

    def log_quiet(self, theta: Array) -> Array:
        """Return log E[χχ_q e^{θL}], at most, at rising tilts θ > 0."""
        tilted = self.tilted_by(float(theta[-1]))
        beyond = [replace(tilted, theta=one).log_above(0.0, of_jumps=False) for one in theta.tolist()]
        return np.asarray(np.logaddexp(self._log_quiet_before(theta, self._with_left(tilted.edges)), beyond))

    def bound_quiet(self, theta: Array, log_share: float) -> tuple[Array, float]:
        """Return log E[χχ_q e^{θL}; t <= b], at most, and P(t > b)·χ_q(b), which is at most e^log_share.

        Large tilts would see nothing but the few losses beyond b.
        """
        c, a = self.near
        edges = self._with_left(np.linspace(c - DEEP / a, c + DEEP / a, 2 * math.ceil(DEEP) * CELLS_PER_LENGTH + 1))
        left = self._log_tail(edges) + log_half_erfc(a * (edges - c))
        ends = np.flatnonzero((left <= log_share) & (edges > c - DEEP / a))
        if not len(ends):
            raise OutOfReach("quiet losses have no end")
        return self._log_quiet_before(theta, edges[: ends[0] + 1]), math.exp(float(left[ends[0]])) * (1 + 1e-9)

    def _with_left(self, edges: Array) -> Array:
        """Return the ends of cells from the left on."""
        width = min(1.0, 1 / self.mean) / (4 * CELLS_PER_LENGTH)
        return _limited(np.append(np.arange(-FAR_LEFT, float(edges[0]), width), edges))

    def _log_quiet_before(self, theta: Array, edges: Array) -> Array:
        """Return log(E[χχ_q] + E[χχ_q (e^{θL} - 1)]), at most: in a cell e^{θL} is at most what it is at its end."""
        c, a = self.near
        tail = self._log_tail(edges)
        log_mass = tail[:-1] + np.log(-np.expm1(np.minimum(np.diff(tail), -1e-300)))
        kept = log_half_erfc(a * (edges - c))
        if self.far is not None:
            kept = kept + log_half_erfc(self.far[1] * (edges - self.far[0]))
        # at least so much is missing of all: what the near cut takes off, and what lies beyond the cells
        missing = np.sum(np.exp(log_mass + log_half_erfc(-a * (edges[:-1] - c)))) + math.exp(float(tail[-1]))
        x = theta[:, None] * self.log_w(edges[1:])
        above = x + log_mass + kept[:-1]
        peak = np.max(above, axis=1)
        most = np.sum(np.where(x > 0, np.exp(above - peak[:, None]) * -np.expm1(-np.maximum(x, 0.0)), 0.0), axis=1)
        least = np.expm1(np.minimum(x, 0.0)) @ np.exp(log_mass + kept[1:])
        with np.errstate(over="ignore", divide="ignore"):
            fewer = (least - missing) * (1 - 1e-10)
            near = np.log1p(np.maximum(most * np.exp(np.minimum(peak, 100.0)) * (1 + 1e-10) + fewer, -1 + 1e-15))
            far = np.logaddexp(0.0, peak + np.log(most) + 1e-10)
        return np.asarray(np.where(peak < 100, near, far) + 100 * ROUNDING)

    def _log_tail(self, t: Array) -> Array:
        """Return log P(t, ∞)."""
        logs = np.logaddexp(
            math.log1p(-self.rate) + log_half_erfc(t / math.sqrt(2.0)),
            math.log(self.rate) + log_half_erfc((t - self.mean) / math.sqrt(2.0)),
        )
        return np.asarray(logs)

    # Jumps ------------------------------------------------------------------------------------------------------------

    def log_moments(self, theta: Array) -> Array:
        """Return log J(θ), at most, at rising tilts."""
        return self.tilted_by(float(theta[-1])).log_totals(theta)

    def tilted_by(self, theta: float) -> TiltedJumps:
        edges = self._edges(theta)
        log_w = self.log_w(edges)
        share = np.exp(math.log(self.rate) + self.mean * (edges - self.mean / 2) - log_w)
        (c, a), (c_far, a_far) = self.near, self.far or (math.inf, 0.0)
        nothing = np.full(len(edges), -np.inf)
        taken = log_half_erfc(-a * (edges - c))
        lost = log_half_erfc(-a_far * (edges - c_far)) if self.far else nothing
        kept = log_half_erfc(a_far * (edges - c_far)) if self.far else np.zeros(len(edges))
        return TiltedJumps(self, theta, edges, log_w, share, taken, kept, lost)

    def _edges(self, theta: float) -> Array:
        """Return the ends of cells, beyond which jumps tilted by θ fall: narrow next to cuts, wide far out."""
        (c, a), tilted = self.near, (theta + 1) * self.mean
        width = min(1.0, 1 / self.mean) / CELLS_PER_LENGTH
        near = np.linspace(c - DEEP / a, c + DEEP / a, 2 * math.ceil(DEEP) * CELLS_PER_LENGTH + 1)
        if self.far is None:
            last = max(tilted + DEEP, c + 2 * DEEP / a)
            return _limited(np.append(near[:-1], np.arange(near[-1], last + width, width)))
        c_far, a_far = self.far
        end = c_far + DEEP / a_far
        far = np.linspace(c_far - DEEP / a_far, end, 2 * math.ceil(DEEP) * CELLS_PER_LENGTH + 1)
        last = (tilted + 2 * a_far**2 * c_far) / (1 + 2 * a_far**2) + DEEP / a_far
        blocks = max(math.ceil(math.log(max((last - c_far) / (end - c_far), 1.0)) / math.log(FAR_RATIO)), 0)
        beyond = c_far + (end - c_far) * FAR_RATIO ** np.arange(1.0, blocks + 1)
        edges = np.unique(np.concatenate([near, np.arange(near[0], end, width), far, beyond]))
        return _limited(edges[edges >= near[0]])


def _limited(edges: Array) -> Array:
    if not 1 < len(edges) <= MOST_JUMP_CELLS:
        raise OutOfReach(f"jumps take {len(edges)} cells")
    return edges


@final
@dataclass(frozen=True, slots=True, eq=False)
class TiltedJumps:
    """Jumps tilted by θ, in cells between edges: log w, s, log(1-χ_q), log χ and log(1-χ) there."""

    jumps: Jumps
    theta: float
    edges: Array
    log_w: Array
    share: Array
    taken: Array
    kept: Array
    lost: Array

    # A bound of |J| along a line --------------------------------------------------------------------------------------

    def log_totals(self, theta: Array) -> Array:
        """Return log J(θ), at most, at tilts up to that of these cells."""
        still = np.zeros(len(self.edges))
        logs = replace(self, theta=-1.0)._log_cells(still) + (theta[:, None] + 1) * self.log_w[1:]
        peak = np.max(logs, axis=1)
        total = peak + np.log(np.sum(np.exp(logs - peak[:, None]), axis=1))
        ends = [replace(self, theta=one) for one in theta.tolist()]
        beyond = [np.logaddexp(end._log_below(0.0), end.log_above(0.0)) for end in ends]
        return np.asarray(np.logaddexp(total, beyond) + MARGIN_NATS)

    def log_moduli(self, omega: Array) -> Array:
        """Return bounds of log|J(θ+iω)|, each of which holds for all larger ω."""
        jumps, edges = self.jumps, self.edges
        (c, a), found = jumps.near, []
        for shift in SHIFTS:
            highest = shift * min(SOFT_RADIANS / a, RADIANS / jumps.mean, HIGHEST)
            y = np.full(len(edges), highest)
            if jumps.far is not None:  # where the other cut is sharper the path comes nearer
                c_far, a_far = jumps.far
                start = (c + c_far) / 2
                lowest = min(shift * SOFT_RADIANS / a_far, highest)
                y = np.interp(edges, [start, max(c_far - DEEP / a_far, start)], [highest, lowest])
            found.append(self._log_integral(y, -omega))
        return np.asarray(np.min(found, axis=0))

    def _log_integral(self, y: Array, omega: Array) -> Array:
        """Return log of a bound of ∫ φ e^{y²/2} X w^{θ+1} e^{ω·arg w} |1 + iy'| dt on a path; y does not rise."""
        logs, before, after = self._log_cells(y), y[:-1], y[1:]
        most = np.max(logs)
        relevant = logs > most - IRRELEVANT_NATS
        rest = np.log(np.sum(~relevant) + 1e-300) + most - IRRELEVANT_NATS
        turned = self._turn(self.share[:-1], after) if omega[0] < 0 else self._turn(self.share[1:], before)
        exponents = logs[relevant] + omega[:, None] * turned[relevant]
        peak = np.max(exponents, axis=1)
        total = peak + np.log(np.sum(np.exp(exponents - peak[:, None]), axis=1))
        growth = np.maximum(omega, 0.0) * self.jumps.mean * float(y[0])  # the argument is at most μy
        beyond = np.logaddexp(np.logaddexp(self._log_below(float(y[0])), self.log_above(float(y[-1]))), rest)
        return np.asarray(np.logaddexp(total, beyond + growth) + MARGIN_NATS)

    def _log_cells(self, y: Array) -> Array:
        """Return the same in each cell, but for arg w.

        Every factor is at most what it is at an end: w, s and 1 - χ rise, y, φ beyond 0 and χ fall.
        """
        a, b, before, after = self.edges[:-1], self.edges[1:], y[:-1], y[1:]
        nearest = np.where(a > 0, a, np.where(b < 0, b, 0.0))
        logs = (before**2 - nearest**2) / 2 - LOG_ROOT + self._log_kept(before) + (self.theta + 1) * self.log_w[1:]
        return np.asarray(logs + np.log(b - a) + 0.5 * np.log1p(((before - after) / (b - a)) ** 2))

    def _turn(self, share: Array, y: Array) -> Array:
        """Return arg w(t + iy)."""
        angle = self.jumps.mean * y
        return np.asarray(np.arctan2(share * np.sin(angle), 1 - share + share * np.cos(angle)))

    def _log_kept(self, y: Array) -> Array:
        """Return log X, at most, in each cell."""
        near = (self.jumps.near[1] * y) ** 2 + self.taken[1:]
        if self.jumps.far is None:
            return near
        grown = (self.jumps.far[1] * y) ** 2
        return np.asarray(near + np.minimum(grown + self.kept[:-1], np.logaddexp(0.0, grown + self.lost[1:])))

    def _log_below(self, y: float) -> float:
        """Return log of a bound of what lies below the cells, but for arg w: 1 - χ falls to the left, and so does w."""
        a_far = self.jumps.far[1] if self.jumps.far else 0.0
        left = (self.jumps.near[1] * y) ** 2 + self.taken[0] + np.logaddexp(0.0, (a_far * y) ** 2 + self.lost[0])
        return float(left + y * y / 2 + (self.theta + 1) * self.log_w[0])

    def log_above(self, y: float, *, of_jumps: bool = True) -> float:
        """Return log of a bound of what lies above the cells, but for arg w, of jumps or of quiet losses.

        φ falls by t a unit, χ by 2a²(t-c), as erfc(u+v) <= erfc(u) e^{-2uv} for u, v >= 0; w^{θ+1} grows by (θ+1)μ.
        """
        high, jumps = float(self.edges[-1]), self.jumps
        (c, a), (c_far, a_far) = jumps.near, jumps.far or (0.0, 0.0)
        quiet = (a * y) ** 2 + float(log_half_erfc(a * (self.edges[-1:] - c))[0])
        fall = high - (self.theta + 1) * jumps.mean + 2 * a_far**2 * (high - c_far)
        fall += 0.0 if of_jumps else 2 * a * a * (high - c)
        if not fall > 0:
            raise OutOfReach(f"jumps tilted by {self.theta:g} are not cut off sharply enough")
        factors = (y * y - high * high) / 2 - LOG_ROOT + (self.theta + 1) * float(self.log_w[-1]) - math.log(fall)
        left = (a_far * y) ** 2 + float(self.kept[-1])
        return float(factors + left + (np.logaddexp(0.0, quiet) if of_jumps else quiet))

    # Moments ----------------------------------------------------------------------------------------------------------

    def line(self, eta: float, count: int) -> tuple[float, Complex, Array]:
        """Return a scale, about log J(θ), J at θ + ijη over e^scale, j < count, and a bound of its error."""
        t, step, log_error = self._rule(eta * (count - 1))
        losses = self.jumps.log_w(t)
        logs, exponents = self._log_masses(t, step, losses)
        scale = float(np.max(logs))
        seen = logs > scale - UNSEEN_NATS
        unseen = float(np.sum(np.exp(logs[~seen] - scale)))
        t, losses, masses, exponents = t[seen], losses[seen], np.exp(logs[seen] - scale), exponents[seen]
        if len(t) * count > MOST_PRODUCTS:
            raise OutOfReach(f"jumps tilted by {self.theta:g} take {len(t)} nodes at {count} frequencies")
        short = math.isqrt(max(count - 1, 0)) + 1
        rows = np.exp(1j * (eta * short) * np.outer(np.arange(-(-count // short)), losses))
        columns = np.exp(1j * eta * np.outer(np.arange(short), losses)) * masses
        blocks = range(0, len(t), BLOCK)  # sums of sums: a term is rounded a few times less often
        values = np.sum([rows[:, i : i + BLOCK] @ columns[:, i : i + BLOCK].T for i in blocks], axis=0)
        units = masses @ (8 + BLOCK + len(blocks) + exponents + abs(scale))
        units = units + 2 * (masses @ np.abs(losses)) * eta * np.arange(count)
        error = np.asarray(ROUNDING * units + math.exp(log_error - scale) + unseen)
        return scale, np.asarray(values.reshape(-1)[:count]), error

    def _log_masses(self, t: Array, step: float, losses: Array) -> tuple[Array, Array]:
        """Return log of the tilted mass of each node, and how large the exponents are that it is made of."""
        (c, a), far = self.jumps.near, self.jumps.far
        cuts = log_half_erfc(-a * (t - c)), log_half_erfc(far[1] * (t - far[0])) if far else np.zeros(len(t))
        logs = -t * t / 2 - LOG_ROOT + math.log(step) + (self.theta + 1) * losses + cuts[0] + cuts[1]
        return logs, t * t / 2 + np.abs(cuts[0]) + np.abs(cuts[1]) + (self.theta + 1) * np.abs(losses)

    def _rule(self, omega: float) -> tuple[Array, float, float]:
        """Return nodes, their step h, and log of its error, 2B/(e^{2πd/h} - 1), and of what is beyond the nodes."""
        jumps, (_, a) = self.jumps, self.jumps.near
        widest = min(SOFT_RADIANS / a, 0.5 * math.pi / jumps.mean, HIGHEST)
        level, found = float(self.log_totals(np.array([self.theta]))[0]), []
        for d in (widest * STRIPS).tolist():
            log_b = float(self._log_integral(np.full(len(self.edges), d), np.array([omega]))[0])
            found.append((2 * math.pi * d / (DEPTH_NATS + max(log_b - level, 0.0)), d, log_b))
        step, d, log_b = max(found)
        low, high = float(self.edges[0]), float(self.edges[-1])
        if (high - low) / step > MOST_JUMP_NODES:
            raise OutOfReach(f"jumps tilted by {self.theta:g} take {(high - low) / step:.0f} nodes")
        t = step * np.arange(math.floor(low / step), math.ceil(high / step) + 1, dtype=float)
        aliased = math.log(2.0) + log_b - 2 * math.pi * d / step + MARGIN_NATS
        # a sum beyond an end is at most its integral and its first term, at most h times the fall there more
        falls = abs(low) + abs(high) + (self.theta + 1) * jumps.mean + 2 * a * (DEEP + a * (high - low))
        falls += 2 * jumps.far[1] * (DEEP + jumps.far[1] * (high - low)) if jumps.far else 0.0
        beyond = np.logaddexp(self._log_below(0.0), self.log_above(0.0)) + math.log1p(step * falls)
        return t, step, float(np.logaddexp(aliased, beyond))
