"""Few releases, or rare ones: δ from the losses that can make it up, without the many small ones.

With M = Π M_i^{n_i} the moments of all losses and S those of the quiet ones, which are what `pairs.jumps` leaves,

    δ(ε) - δ_S(ε) = (1/2π) ∫ (M(z) - S(z)) e^{-zε}/(z(z+1)) dω,     M - S = M·(1 - Π (1 - J_i/M_i)^{n_i}),

and |M - S| <= Π (S_i(θ) + |J_i|)^{n_i} - Π S_i(θ)^{n_i} falls as fast as the jumps do, while M and S alone need hardly
fall at all. Quiet losses are so small that Chernoff's bound of δ_S is nothing beside δ. The sum with step 2π/W is
Σ_k e^{θkW} D(ε + kW), where 0 <= D(x) = δ(x) - δ_S(x) <= c(τ) e^{K_D(τ) - τx}, K_D = log(M - S), as quiet losses are
part of all. A line is planned from K_D alone, which is far below K.
"""

from __future__ import annotations

import contextlib
import math
from dataclasses import dataclass, replace
from typing import final

import numpy as np

from cumulant.errors import OutOfReach
from cumulant.inversion.composed import FINE_LINES, LINES, ComposedPairs
from cumulant.inversion.contour import ROUNDOFF, Contour, log_chernoff
from cumulant.inversion.cut import round_count
from cumulant.inversion.enclosure import CLOSE_NATS, IN_DOUBLES, Effort, Enclosure
from cumulant.inversion.plan import Plan, Tilts, plan_for
from cumulant.numerics.complex_plane import Complex, log1p_complex
from cumulant.numerics.logspace import Array
from cumulant.pairs.grid import PER_OCTAVE, tilts
from cumulant.pairs.jumps import Jumps, TiltedJumps, cut_far, has_jumps, log_delta_of_one

SHARES = tuple(0.8 * 0.8**k for k in range(16))  # of ε, from which a loss is a jump
OCTAVES = range(-3, 9)  # of tilts, beside the first guess, at which quiet losses are bounded
PLANNED_OCTAVES = 8  # of those, the first ones, in which lines are planned
NATS_PER_TILT = 8.0  # of δ, where a tilt of 1/ε is too small
FARTHEST_TILT = 4.0  # beside the first guess, that far cuts are made for
LOG_SHARE = math.log(1e-12)  # of δ, that far cuts may leave out
DEEPEST_LOG_DELTA = -600.0  # below which what far cuts may leave out underflows
QUIET_NATS = 25.0  # below δ, where δ_S is nothing beside it
FREQUENCY_RATIO, FREQUENCIES = 1.15, 70  # at which jumps are bounded
FIRST_POINT = 8  # of a line, that may be its last
FEW_RELEASES = 1000  # whose errors add up to little
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
    """What bounds δ_S: K of quiet losses but for a rest, at tilts τ, and the mass of that rest."""

    tau: Array
    k: Array
    rest: float

    def log_delta(self, epsilon: float) -> float:
        """Return Chernoff's bound of log δ_S(ε)."""
        logs = [float(np.min(log_chernoff(self.tau) + self.k - self.tau * epsilon)) + 1e-9]
        logs += [math.log(self.rest)] if self.rest > 0 else []
        return float(np.logaddexp.reduce(logs))


@final
@dataclass(frozen=True, slots=True, eq=False)
class JumpsInDoubles(Enclosure):
    """The sum over a line of M - S, with what quiet losses may add; its rounding is estimated, not enclosed."""

    contour: Contour  # of M - S
    quiet: Quiet
    left_out: float = 0.0  # of P, by which δ may be larger
    route: str = "contour"
    proven: bool = False
    enough: float = CLOSE_NATS
    effort: Effort = IN_DOUBLES

    def log_upper(self, epsilon: float) -> tuple[float, float]:
        high, slope = self.contour.log_upper(epsilon)
        logs = [high, self.quiet.log_delta(epsilon)]
        logs += [math.log(self.left_out)] if self.left_out > 0 else []
        return min(float(np.logaddexp.reduce(logs)) * (1 - 1e-15), 0.0), slope

    def log_bounds(self, epsilon: float) -> tuple[float, float]:
        if epsilon == math.inf:
            return -math.inf, 0.0
        return self.contour.log_bounds(epsilon)[0], self.log_upper(epsilon)[0]

    def estimated(self, epsilon: float) -> float:
        return self.contour.estimated(epsilon)


def line_of_jumps(losses: ComposedPairs, epsilon: float, log_delta: float) -> JumpsInDoubles | None:
    """Return the line of the largest jumps that make up about this δ, if there is such a line."""
    if not 0 < epsilon < math.inf or not any(has_jumps(pair) for pair, _ in losses.parts):
        return None
    if log_delta < DEEPEST_LOG_DELTA:
        return None
    tilt, most = (1 - log_delta / NATS_PER_TILT) / epsilon, log_delta - QUIET_NATS
    losses = _cut_far(losses, FARTHEST_TILT * tilt, log_delta + LOG_SHARE)
    try:
        found = None
        first, last = 0, len(SHARES)
        while first < last:  # the largest share whose quiet losses are nothing beside δ
            middle = (first + last) // 2
            split = _Split.of(losses, tilt, SHARES[middle] * epsilon, most)
            if split.quiet.log_delta(epsilon) <= most:
                found, last = split, middle
            else:
                first = middle + 1
        return found and found.line(epsilon, log_delta)
    except OutOfReach:
        return None


def _cut_far(losses: ComposedPairs, tilt: float, log_share: float) -> ComposedPairs:
    """Return the same with losses cut off that δ cannot see, more sharply than for lines of all losses."""
    log_each = log_share - math.log(losses.releases)
    parts = ((cut_far(pair, tilt, log_each) if has_jumps(pair) else pair, n) for pair, n in losses.parts)
    return replace(losses, parts=tuple(parts))


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Split:
    """Losses in two parts, quiet ones and jumps."""

    losses: ComposedPairs
    jumps: list[Jumps | None]  # of each part, None where all of it is quiet
    index: int  # of the first tilt
    quiet: Quiet
    others: Array  # K of all that is quiet as a whole, at the same tilts

    @staticmethod
    def of(losses: ComposedPairs, tilt: float, largest: float, log_rest: float) -> _Split:
        jumps = [Jumps.of(pair, largest) if has_jumps(pair) else None for pair, _ in losses.parts]
        octaves = [math.floor(math.log2(tilt)) + octave for octave in OCTAVES]
        theta = np.concatenate([tilts(octave) for octave in octaves])
        others = losses.variance * theta * (theta + 1) / 2
        if None in jumps:
            each = np.concatenate([losses.cumulants_of_each(octave)[:, 0, :] for octave in octaves], axis=1)
            others = (
                others + np.array([0.0 if jump else n for (_, n), jump in zip(losses.parts, jumps, strict=True)]) @ each
            )
        k, rest, log_share = others, 0.0, log_rest - math.log(losses.releases)
        for (_, n), jump in zip(losses.parts, jumps, strict=True):
            if jump is not None:
                log_moments, left = jump.bound_quiet(theta, log_share)
                k, rest = k + n * log_moments, rest + n * left
        return _Split(losses, jumps, octaves[0] * PER_OCTAVE, Quiet(theta, k, rest), others)

    def line(self, epsilon: float, log_delta: float) -> JumpsInDoubles | None:
        theta, k = self._k_of_jumps()
        plan = plan_for(Tilts(self.index, theta, k, np.ones(len(k)), epsilon, log_delta))
        scale = float(k[plan.index - self.index])
        tilted = [jump and jump.tilted_by(plan.theta) for jump in self.jumps]
        end = self._end(plan, tilted, scale)
        if end is None:
            return None
        omega, tail = end
        count = round_count(omega / plan.eta)
        weights, astray = _less_quiet(self.losses, tilted, plan, count, scale)
        contour = Contour.of_weights((plan.theta, plan.eta), scale, (weights, astray), tail, (theta, k))
        return JumpsInDoubles(contour, self.quiet, self.losses.left_out)

    def _k_of_jumps(self) -> tuple[Array, Array]:
        """Return tilts, as far as jumps are cut off sharply enough, with K_D there, at most."""
        for octaves in range(PLANNED_OCTAVES, 1, -1):
            with contextlib.suppress(OutOfReach):
                theta = self.quiet.tau[: octaves * PER_OCTAVE]
                return theta, self._k_at(theta)
        raise OutOfReach("jumps are nowhere cut off sharply enough")

    def _k_at(self, theta: Array) -> Array:
        """Return K_D, at most: K_S + log(Π (1 + J/S)^n - 1), which grows with S."""
        k_quiet, grown = self.others[: len(theta)], np.zeros(len(theta))
        for (_, n), jump in zip(self.losses.parts, self.jumps, strict=True):
            if jump is not None:
                log_s = jump.log_quiet(theta)
                k_quiet = k_quiet + n * log_s
                grown += n * np.logaddexp(0.0, jump.log_moments(theta) - log_s)
        return k_quiet + _log_expm1(grown)

    def _end(self, plan: Plan, tilted: list[TiltedJumps | None], scale: float) -> tuple[float, float] | None:
        """Return (ω, tail): where the line may end, and a bound of Σ |M-S|/|z(z+1)|·η/π beyond, over e^scale."""
        eta = plan.eta
        at = FIRST_POINT * eta * FREQUENCY_RATIO ** np.arange(float(FREQUENCIES))
        grown, k_quiet = np.zeros(FREQUENCIES), float(self.others[plan.index - self.index])
        for (_, n), jump in zip(self.losses.parts, tilted, strict=True):
            if jump is not None:
                log_s = float(jump.jumps.log_quiet(np.array([plan.theta]))[0])
                grown += n * np.logaddexp(0.0, jump.log_moduli(at) - log_s)
                k_quiet += n * log_s
        bounds = np.exp(np.minimum(k_quiet - scale + _log_expm1(grown) + 1e-6, 700.0))
        pieces = bounds * (1 / at - np.append(1 / at[1:], 0.0) + eta / at**2) / math.pi
        tails = np.cumsum(pieces[::-1])[::-1]
        fine = np.flatnonzero(tails <= plan.negligible)
        if not len(fine) or at[fine[0]] / eta > MOST_JUMP_POINTS:
            return None
        return float(at[fine[0]]), float(tails[fine[0]])


def _log_expm1(x: Array) -> Array:
    """Return log(e^x - 1) for x > 0."""
    with np.errstate(over="ignore", divide="ignore"):
        return np.asarray(np.where(x > 30, x, np.log(np.expm1(np.minimum(x, 30.0)))))


def _less_quiet(
    losses: ComposedPairs, jumps: list[TiltedJumps | None], plan: Plan, count: int, scale: float
) -> tuple[Complex, Array]:
    """Return (M - S)/e^scale along a line, and a bound of its error: M times 1 - Π (1 - r_i)^{n_i}, r_i = J_i/M_i.

    r_i is off by what J_i and M_i are; a product is off by at most what it is off by if all errors add up.
    """
    points = plan.index, plan.eta, count
    each, errors = losses.line_of_each(points, FINE_LINES if losses.releases > FEW_RELEASES else LINES)
    k, error = losses.add_up(points, each, errors)
    g, modulus, farther = np.zeros(count, dtype=complex), np.zeros(count), np.zeros(count)
    for (_, n), jump, k_part, off_part in zip(losses.parts, jumps, each, errors, strict=True):
        if jump is None:
            continue
        log_j, values, doubt = jump.line(plan.eta, count)
        r = values * np.exp(log_j - k_part)
        size = np.maximum(np.abs(1 - r), 1e-300)
        off = doubt * np.exp(log_j - k_part.real) + np.abs(r) * (
            np.expm1(np.minimum(off_part, LARGEST_NATS)) + 4 * ROUNDOFF
        )
        g += n * log1p_complex(-r.real, -r.imag)
        modulus += n * np.log(size)
        farther += n * np.log1p(off / size)
    log_m = np.minimum(k.real - scale, LARGEST_NATS)
    off = np.expm1(np.minimum(error, LARGEST_NATS)) + ROUNDOFF * (8 + np.abs(k) + abs(scale))
    with np.errstate(over="ignore", under="ignore"):
        # M times 1 - e^g, or S times e^{-g} - 1: whichever is larger
        few, many = -np.exp(k - scale) * np.expm1(np.minimum(g.real, 0.0) + 1j * g.imag), np.exp(k - scale + g)
        values = np.where(g.real <= 0, few, many * np.expm1(np.minimum(-g.real, 0.0) - 1j * g.imag))
        astray = np.exp(np.minimum(log_m + modulus + farther, LARGEST_NATS)) * -np.expm1(-farther)
        astray += ROUNDOFF * (np.abs(values) + np.abs(g * many))
        return values, np.abs(values) * off + astray * (1 + off)
