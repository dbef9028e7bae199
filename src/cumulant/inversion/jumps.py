"""Few releases, or rare ones: δ from the losses that can make it up, neither the many small ones nor those far beyond.

Far losses are counted by themselves (`cumulant.inversion.far`). With M = Π M_i^{n_i} the moments of all losses that are
left, M_i = S_i + J_i, and S = Π S_i^{n_i},

    δ_X(ε) - δ_S(ε) = (1/2π) ∫ (M(z) - S(z)) e^{-zε}/(z(z+1)) dω,     M - S = S·(Π (1 + J_i/S_i)^{n_i} - 1),

and |M - S| <= Π (S_i(θ) + |J_i|)^{n_i} - Π S_i(θ)^{n_i} falls as fast as the jumps do, while M and S alone need hardly
fall at all. Quiet losses are so small that Chernoff's bound of δ_S is nothing beside δ. The sum with step 2π/W is
Σ_k e^{θkW} D(ε + kW), where 0 <= D(x) = δ_X(x) - δ_S(x) <= c(τ) e^{K_D(τ) - τx}, K_D = log(M - S), as quiet losses are
part of all. A line is planned from K_D alone, which is far below K. Where no loss is quiet, all are jumps: S = 0.
"""

from __future__ import annotations

import contextlib
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import NamedTuple, final

import numpy as np

from cumulant.errors import OutOfReach
from cumulant.inversion.composed import FINE_LINES, ComposedPairs
from cumulant.inversion.contour import ROUNDOFF, Contour, log_chernoff
from cumulant.inversion.cut import round_count
from cumulant.inversion.enclosure import CLOSE_NATS, IN_DOUBLES, Effort, Enclosure
from cumulant.inversion.far import Far, cut_far_losses
from cumulant.inversion.plan import Plan, Tilts, plan_for
from cumulant.inversion.unseen import LOG_SHARE
from cumulant.numerics.complex_plane import Complex, log1p_complex
from cumulant.numerics.logspace import Array, log_expm1
from cumulant.pairs.grid import PER_OCTAVE, tilts
from cumulant.pairs.jump_law import (
    JumpLaw,
    Jumps,
    has_jumps,
    log_delta_of_one,
)
from cumulant.pairs.jump_line import TiltedJumps

SHARES = tuple(0.8 * 0.8**k for k in range(16))  # of ε, from which a loss is a jump
OCTAVES_ABOVE = 9  # of tilts, above the first guess, at which quiet losses are bounded
UNPLANNED_OCTAVES = 4  # of those, the last ones, in which no line is planned
LEAST_TILT = 0.2  # over the largest jump; smaller ones are of no use
LEAST_LOSS = 1e-12  # of all that are followed: there are no tilts for smaller ones
LARGEST_TILT = 1e12  # that is asked for: doubles end far beyond
NATS_PER_TILT = 8.0  # of δ, where a tilt of 1/ε is too small
FARTHEST_TILT = 4.0  # beside the first guess, that far cuts are made for
LARGEST_EPSILON = 300.0  # e^ε and e^{2ε} are doubles
QUIET_NATS = 25.0  # below δ, where δ_S is nothing beside it
FREQUENCY_RATIO, FREQUENCIES = 1.15, 70  # at which jumps are bounded
FIRST_POINT = 8  # of a line, that may be its last
MOST_WHOLE_RELEASES = 20_000  # whose errors add up to little
MOST_JUMP_POINTS = 20_000  # of a line
LARGEST_NATS = 600.0  # of an error, or of a size: larger ones are as useless
MOST_GUESSED = 20  # distinct releases whose jumps are added up
GUESSES, WIDEST_GUESS_NATS = 30, 12.0  # halvings of a stretch of log ε


def guess_by_jumps(losses: ComposedPairs, around: Tilts, *, of_epsilon: bool) -> Tilts:
    """Return the same tilts with a better guess for few jumps: about δ of each, added up."""
    pairs = [(pair, n) for pair, n in losses.parts if has_jumps(pair)]
    known = len(pairs) == len(losses.parts) <= MOST_GUESSED and losses.variance == 0
    if not known or not 0 < around.epsilon < math.inf:
        return around

    def log_delta(epsilon: float) -> float:
        return float(np.logaddexp.reduce([math.log(n) + log_delta_of_one(pair, epsilon) for pair, n in pairs]))

    if not of_epsilon:
        return around.ask(around.epsilon, min(log_delta(around.epsilon), -1e-9))
    low, high = math.log(around.epsilon) - WIDEST_GUESS_NATS, math.log(around.epsilon)
    for _ in range(GUESSES):
        middle = (low + high) / 2
        low, high = (middle, high) if log_delta(math.exp(middle)) > around.log_delta else (low, middle)
    return around.ask(math.exp(high), around.log_delta)


@final
@dataclass(frozen=True, slots=True, eq=False)
class Quiet:
    """What bounds δ_S: K of quiet losses but for a rest, at tilts τ, and the mass of that rest; nothing without one."""

    tau: Array | None = None
    k: Array | None = None
    rest: float = 1.0

    def log_delta(self, epsilon: float) -> float:
        """Return Chernoff's bound of log δ_S(ε)."""
        if self.tau is None or self.k is None:
            return -math.inf
        chernoff = float(np.min(log_chernoff(self.tau) + self.k - self.tau * epsilon))
        return float(np.logaddexp(chernoff, math.log(self.rest))) + 1e-9


@final
@dataclass(frozen=True, slots=True, eq=False)
class JumpsInDoubles(Enclosure):
    """The sum over a line of M - S, with far losses and what quiet ones may add; its rounding is estimated."""

    contour: Contour  # of M - S
    quiet: Quiet
    far: Far
    left_out: float = 0.0  # of P, by what has no jumps
    route: str = "contour"
    proven: bool = False
    enough: float = CLOSE_NATS
    effort: Effort = IN_DOUBLES

    @property
    def points(self) -> int:
        """How many frequencies were looked at."""
        return len(self.contour.z)

    def log_upper(self, epsilon: float) -> tuple[float, float]:
        if epsilon > LARGEST_EPSILON:
            return 0.0, math.nan
        high, slope = self.contour.log_upper(epsilon)
        logs = [high, self.quiet.log_delta(epsilon), self.far.log_bounds(epsilon)[1]]
        logs += [math.log(self.left_out)] if self.left_out > 0 else []
        return min(float(np.logaddexp.reduce(logs)) * (1 - 1e-15), 0.0), slope

    def log_bounds(self, epsilon: float) -> tuple[float, float]:
        if epsilon > LARGEST_EPSILON:
            return -math.inf, 0.0
        low = np.logaddexp(self.contour.log_lower(epsilon), self.far.log_bounds(epsilon)[0])
        return float(low) * (1 + 1e-15), self.log_upper(epsilon)[0]

    def estimated(self, epsilon: float) -> float:
        return self.contour.estimated(epsilon)


def line_of_jumps(losses: ComposedPairs, epsilon: float, log_delta: float) -> JumpsInDoubles | None:
    """Return the line of the largest jumps that make up about this δ, if there is such a line."""
    tilt = (1 - log_delta / NATS_PER_TILT) / epsilon if 0 < epsilon < LARGEST_EPSILON else math.inf
    if not LEAST_TILT < tilt < LARGEST_TILT or not any(has_jumps(pair) for pair, _ in losses.parts):
        return None
    try:
        cut = CutLosses.of(cut_far_losses(losses, epsilon, FARTHEST_TILT * tilt, log_delta + LOG_SHARE), epsilon, tilt)
    except OutOfReach:
        return None
    best = None
    for split in (cut.split_quietly, cut.leave_whole):
        # what is beyond doubles, or no number, makes bounds that say nothing
        with contextlib.suppress(OutOfReach), np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            found = split(log_delta)
            line = found and found.line(log_delta)
            if line and (best is None or line.slack(epsilon) < best.slack(epsilon)):
                best = line
        if best is not None and best.slack(epsilon) <= CLOSE_NATS:
            break
    return best


@final
@dataclass(frozen=True, slots=True, eq=False)
class CutLosses:
    """Losses that are cut far out, at tilts τ: exponents τL of those with jumps, and K of all others."""

    losses: ComposedPairs
    epsilon: float
    index: int  # of the first tilt
    tau: Array
    laws: list[tuple[JumpLaw, int, Array]]
    others: Array

    @staticmethod
    def of(losses: ComposedPairs, epsilon: float, tilt: float) -> CutLosses:
        laws = [(JumpLaw.of(pair), n) for pair, n in losses.parts if has_jumps(pair)]
        first, farthest = math.floor(math.log2(tilt)), max(law.largest_loss for law, _ in laws)
        if not farthest > LEAST_LOSS:
            raise OutOfReach(f"no loss is larger than {farthest:g}")
        octaves = range(min(first - 3, math.floor(math.log2(LEAST_TILT / farthest))), first + OCTAVES_ABOVE)
        tau = np.concatenate([tilts(octave) for octave in octaves])
        others = losses.variance * tau * (tau + 1) / 2
        if len(laws) < len(losses.parts):
            each = np.concatenate([losses.cumulants_of_each(octave)[:, 0, :] for octave in octaves], axis=1)
            others = others + np.array([0.0 if has_jumps(pair) else n for pair, n in losses.parts]) @ each
        exponents = [(law, n, law.tilt(tau)) for law, n in laws]
        return CutLosses(losses, epsilon, octaves[0] * PER_OCTAVE, tau, exponents, others)

    def split_quietly(self, log_delta: float) -> SplitLosses | None:
        """Return the split at the largest share of ε whose quiet losses are nothing beside δ."""
        found, first, last = None, 0, len(SHARES)
        while first < last:
            middle = (first + last) // 2
            split = self._split(SHARES[middle] * self.epsilon, log_delta - QUIET_NATS)
            if split.quiet.log_delta(self.epsilon) <= log_delta - QUIET_NATS:
                found, last = split, middle
            else:
                first = middle + 1
        return found

    def leave_whole(self, log_delta: float) -> _Whole | None:
        """Return all losses as jumps: of many releases, K would have to keep its own digits."""
        if self.losses.releases > MOST_WHOLE_RELEASES:
            return None
        return _Whole(self, [(Jumps(law), n) for law, n, _ in self.laws], Quiet())

    def _split(self, largest: float, log_rest: float) -> SplitLosses:
        k, rest, jumps, log_share = self.others, 0.0, [], log_rest - 1 - math.log(self.losses.releases)
        for law, n, exponents in self.laws:
            jump = law.split(largest)
            log_s, left = jump.bound_quiet(exponents, log_share)
            k, rest = k + n * log_s, rest + n * max(left, 5e-324)  # what underflows is not nothing
            jumps.append((jump, n))
        return SplitLosses(self, jumps, Quiet(self.tau, k, rest))


def frequencies_of_jumps(eta: float) -> Array:
    """Return the frequencies at which a line of this spacing is bounded."""
    return np.asarray(FIRST_POINT * eta * FREQUENCY_RATIO ** np.arange(float(FREQUENCIES)))


def tails_of_jumps(log_bounds: Array, eta: float) -> Array:
    """Return bounds of Σ |M-S|/|z(z+1)|·η/π beyond each of those frequencies, from log |M-S|, at most, over a scale."""
    at, bounds = frequencies_of_jumps(eta), np.exp(np.minimum(log_bounds + 1e-6, LARGEST_NATS))
    pieces = bounds * (1 / at - np.append(1 / at[1:], 0.0) + eta / at**2) / math.pi
    return np.asarray(np.cumsum(pieces[::-1])[::-1])


@dataclass(frozen=True, slots=True, eq=False)
class _Lines(ABC):
    """Jumps of all releases, of which a line is planned and followed."""

    cut: CutLosses
    jumps: list[tuple[Jumps, int]]
    quiet: Quiet

    @abstractmethod
    def _compose(self, theta: Array, others: Array, moments: list[tuple[Array, Array]]) -> Array:
        """Return K_D, at most, from K of all others, and log S and log J of each."""

    @abstractmethod
    def _follow(self, tilted: list[TiltedJumps], plan: Plan, count: int, scale: float) -> tuple[Complex, Array]:
        """Return (M - S)/e^scale along a line, and a bound of its error."""

    def line(self, log_delta: float) -> JumpsInDoubles | None:
        cut, count = self.cut, len(self.cut.tau) - UNPLANNED_OCTAVES * PER_OCTAVE
        theta, others = cut.tau[:count], cut.others[:count]
        moments = [
            jump.log_moments(theta, exponents[:count])
            for (jump, _), (_, _, exponents) in zip(self.jumps, cut.laws, strict=True)
        ]
        k = self._compose(theta, others, moments)
        plan = plan_for(Tilts(cut.index, theta, k, np.ones(count), cut.epsilon, log_delta))
        place = plan.index - cut.index
        scale = float(k[place])
        tilted = [TiltedJumps.of(jump, plan.theta) for jump, _ in self.jumps]
        end = self._end(plan, tilted, float(others[place]) - scale, [log_s[place] for log_s, _ in moments])
        if end is None:
            return None
        omega, tail = end
        line = self._follow(tilted, plan, round_count(omega / plan.eta), scale)
        contour = Contour.of_weights((plan.theta, plan.eta), scale, line, tail, (theta, k))
        plain = replace(cut.losses, parts=tuple(part for part in cut.losses.parts if not has_jumps(part[0])))
        return JumpsInDoubles(contour, self.quiet, Far.of(cut.losses, cut.epsilon), plain.left_out)

    def _end(
        self, plan: Plan, tilted: list[TiltedJumps], others: float, log_s: list[float]
    ) -> tuple[float, float] | None:
        """Return (ω, tail): where the line may end, and a bound of Σ |M-S|/|z(z+1)|·η/π beyond, over e^scale."""
        at = frequencies_of_jumps(plan.eta)
        moduli = [(np.full(FREQUENCIES, s), jump.log_moduli(at)) for s, jump in zip(log_s, tilted, strict=True)]
        tails = tails_of_jumps(self._compose(at, np.full(FREQUENCIES, others), moduli), plan.eta)
        fine = np.flatnonzero(tails <= plan.negligible)
        if not len(fine) or at[fine[0]] / plan.eta > MOST_JUMP_POINTS:
            return None
        return float(at[fine[0]]), float(tails[fine[0]])

    def _follow_others(self, plan: Plan, count: int) -> tuple[Complex, Array]:
        """Return K of all that has no jumps, and a bound of its error."""
        losses = self.cut.losses
        others = replace(losses, parts=tuple((pair, n) for pair, n in losses.parts if not has_jumps(pair)))
        return others.line((plan.index, plan.eta, count), FINE_LINES)


@final
@dataclass(frozen=True, slots=True, eq=False)
class SplitLosses(_Lines):
    """Losses in two parts, quiet ones and jumps."""

    def _compose(self, theta: Array, others: Array, moments: list[tuple[Array, Array]]) -> Array:
        """Return K_S + log(Π (1 + J/S)^n - 1), which grows with S."""
        k, grown = others, np.zeros(len(theta))
        for (log_s, log_j), (_, n) in zip(moments, self.jumps, strict=True):
            k, grown = k + n * log_s, grown + n * np.logaddexp(0.0, log_j - log_s)
        return np.asarray(k + log_expm1(grown))

    def _follow(self, tilted: list[TiltedJumps], plan: Plan, count: int, scale: float) -> tuple[Complex, Array]:
        """Return S·(Π (1 + r_i)^{n_i} - 1)/e^scale, r_i = J_i/S_i.

        r_i is off by what J_i and S_i are; a product is off by at most what it is off by if all errors add up.
        """
        k, error = self._follow_others(plan, count)
        g, farther = np.zeros(count, dtype=complex), np.zeros(count)
        for jump, (_, n) in zip(tilted, self.jumps, strict=True):
            each = follow_release(jump, (plan.eta, count))
            k, error = k + n * each.log_s, error + n * each.error
            g, farther = g + n * each.growth, farther + n * each.farther
        return subtract_quiet(FollowedRelease(k, error, g, farther), scale)


class FollowedRelease(NamedTuple):
    """Of one release, or added up, along a line: log S and its error, log(1 + J/S) and its error, all in nats."""

    log_s: Complex
    error: Array
    growth: Complex
    farther: Array


def follow_release(jump: TiltedJumps, line: tuple[float, int]) -> FollowedRelease:
    """Return log S and log(1 + r), r = J/S, at θ + ijη, j < count."""
    log_s, off_s = jump.quiet_line(*line)
    if not np.all(np.isfinite(log_s.real)):
        raise OutOfReach("quiet losses vanish to rounding along this line")
    log_j = jump.log_size
    values, off_j = jump.line(*line, log_j)
    r = values * np.exp(log_j - log_s)
    size = np.maximum(np.abs(1 + r), 1e-300)
    off = off_j * np.exp(log_j - log_s.real) + np.abs(r) * (off_s + 4 * ROUNDOFF)
    return FollowedRelease(
        log_s, off_s + ROUNDOFF * np.abs(log_s), log1p_complex(r.real, r.imag), np.asarray(np.log1p(off / size))
    )


def subtract_quiet(line: FollowedRelease, scale: float) -> tuple[Complex, Array]:
    """Return (M - S)/e^scale = S·(e^g - 1)/e^scale of all releases together, and a bound of its error."""
    k, error, g, farther = line
    off = np.expm1(np.minimum(error, LARGEST_NATS)) + ROUNDOFF * (8 + np.abs(k) + abs(scale))
    with np.errstate(over="ignore", under="ignore"):
        quiet, loud = np.exp(k - scale), np.exp(k + g - scale)
        # S times e^g - 1, or M times 1 - e^{-g}: whichever is larger
        few, many = quiet * np.expm1(np.minimum(g.real, 0.0) + 1j * g.imag), -loud * np.expm1(-g)
        values = np.where(g.real <= 0, few, many)
        astray = np.abs(loud) * np.expm1(np.minimum(farther, LARGEST_NATS))
        astray += ROUNDOFF * (np.abs(values) + np.abs(g * loud))
        lost = np.maximum(error, farther) > LARGEST_NATS  # nothing is known
        return values, np.where(lost, np.inf, np.abs(values) * off + astray * (1 + off))


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Whole(_Lines):
    """All losses are jumps."""

    def _compose(self, theta: Array, others: Array, moments: list[tuple[Array, Array]]) -> Array:
        return np.asarray(sum((n * log_j for (_, log_j), (_, n) in zip(moments, self.jumps, strict=True)), others))

    def _follow(self, tilted: list[TiltedJumps], plan: Plan, count: int, scale: float) -> tuple[Complex, Array]:
        """Return Π J_i^{n_i}/e^scale: |(J + Δ)^n - J^n| <= (|J| + |Δ|)^n - |J|^n."""
        k, error = self._follow_others(plan, count)
        log_most = k.real + error
        for jump, (_, n) in zip(tilted, self.jumps, strict=True):
            log_j = jump.log_size
            values, off = jump.line(plan.eta, count, log_j)
            with np.errstate(divide="ignore"):
                k = k + n * (np.log(values) + log_j)
                log_most = log_most + n * (np.log(np.abs(values) + off) + log_j)
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            values = np.where(np.isfinite(k.real), np.exp(k - scale), 0.0)
            units = 8 + 0.25 * self.cut.losses.releases + np.where(np.isfinite(k.real), np.abs(k), 0.0) + abs(scale)
            most = np.where(log_most - scale > LARGEST_NATS, np.inf, np.exp(np.minimum(log_most - scale, LARGEST_NATS)))
            return values, most - np.abs(values) + ROUNDOFF * most * units
