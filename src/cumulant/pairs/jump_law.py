"""Jumps: the losses of a release that are large enough to make up an answer, without the many small ones.

When a record leaves a sample of Gaussian noise its loss is mostly next to log(1-γ), and rarely large. Near that least
loss its law is log-normal over many octaves, so that |φ| hardly falls. With w = 1-γ+γe^u, u = μt - μ²/2, and two cuts,
χ far out and χ_q near, χ(t) = ½ erfc(a(t-c)), the moments fall apart into those of jumps and of quiet losses,

    J(z) = E[χ(1-χ_q) e^{zL}],     S(z) = E[χχ_q e^{zL}],     E e^{zL} = ∫ φ w^{z+1} dt.

Here they are bounded at real tilts, by the trapezoidal rule; `cumulant.pairs.jump_line` follows them along a line. The
error of the rule is relative: a path moved by d multiplies every integrand by at most e^{qd²}, q = ½ + a² + a_q², as
|erfc(x+iy)| <= e^{y²} erfc(x) and |w(t+iy)| <= w(t), so a step h leaves 2e^{-π²/(qh²)} at most.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeGuard, final

import numpy as np

from cumulant.errors import OutOfReach
from cumulant.numerics.complex_plane import Complex, log1p_complex
from cumulant.numerics.logspace import Array
from cumulant.pairs.coordinate import CoordinatePair
from cumulant.pairs.cut_law import CutLaw, log_half_erfc, place_of_cut
from cumulant.pairs.maps import Leave, log_mixture
from cumulant.pairs.noise import GaussianNoise
from cumulant.pairs.normal_law import LOG_ROOT
from cumulant.pairs.pair import DominatingPair
from cumulant.pairs.sampled_gaussian import coordinate_of
from cumulant.pairs.size_moments import bound_negative_moments, log_delta_of_sample

NEAR_RADIANS = 0.5  # μy: near cuts let paths be moved by so much
HIGHEST = 4.0  # y: e^{y²/2} is what it costs
SOFT_RADIANS = 4.0  # a·y: e^{a²y²} is what it costs
LARGEST_EXPONENT = 700.0  # nats: its exponential is next to the largest double
SOFTEST, SHARPEST = 1.5, 1024.0  # a of a far cut
SHORTEST_WAY = 2.0  # times 1/a, between a sure loss and a cut
LEVEL_NATS = 4.0  # by which a tilted density may still rise beyond a cut
FAR_LOOKS = 120  # places beyond a cut at which that is looked at
FAR_LEFT = -12.0  # of the coordinate, where φ is e^-73
DEEP = 10.0  # x, at which erfc(x) is below e^-100
RULE_NATS = 60.0  # below the integral, to which a trapezoidal rule goes
FAR_RATIO = 1.04  # of the ends of blocks beyond a far cut
MOST_RULE_NODES = 60_000  # of a trapezoidal rule
UNIT = 2.0**-51  # relative error of a few elementary steps
MARGIN_NATS = 1e-9  # on sums of doubles that bound an integral

Cut = tuple[float, float]
"""Where χ(t) = ½ erfc(a(t - c)) falls, c, and how sharply, a."""


def has_jumps(pair: DominatingPair) -> TypeGuard[CoordinatePair]:
    """Return whether jumps are known of a pair: one of Gaussian noise, when a record leaves."""
    if not isinstance(pair, CoordinatePair) or not isinstance(pair.sampling, Leave) or not pair.sampling.rate < 1:
        return False
    law = pair.law.law if isinstance(pair.law, CutLaw) else pair.law
    return isinstance(law, GaussianNoise) and not law.several


def noise_of(pair: CoordinatePair) -> GaussianNoise:
    law = pair.law.law if isinstance(pair.law, CutLaw) else pair.law
    assert isinstance(law, GaussianNoise)
    return law


def log_delta_of_one(pair: CoordinatePair, epsilon: float) -> float:
    """Return about log δ(ε) of one release, far losses included."""
    return log_delta_of_sample(noise_of(pair).mean, pair.sampling.rate, epsilon)


def log_w(t: Array, mean: float, rate: float) -> Array:
    return log_mixture(mean * (t - mean / 2), rate)


def log_w_beside(z: Complex, mean: float, rate: float) -> Complex:
    """Return log w(t + iy) to full relative accuracy, like `log_mixture`: γ(e^u - 1) is formed as a product."""
    u = mean * (z - mean / 2)
    real = np.minimum(u.real, LARGEST_EXPONENT)
    excess = np.expm1(real) * np.cos(u.imag) - 2 * np.sin(u.imag / 2) ** 2
    losses = log1p_complex(rate * excess, rate * np.exp(real) * np.sin(u.imag))
    near = rate * excess > -0.5
    if np.all(near):
        return losses
    rare = np.exp(real + math.log(rate) - math.log1p(-rate) + 1j * u.imag)  # next to 0, 1 + excess has lost its digits
    return np.where(near, losses, math.log1p(-rate) + log1p_complex(rare.real, rare.imag))


def units_of_losses(z: Array | Complex, losses: Array | Complex, mean: float, rate: float) -> Array:
    """Return |L| + |s·u|/2, s = γe^u/w: a loss is rounded as often as UNIT says, u half as often, and moves it by s."""
    u = mean * (z - mean / 2)
    share = np.exp(np.minimum(math.log(rate) + u.real - losses.real, LARGEST_EXPONENT))
    return np.asarray(np.abs(losses) + share * np.abs(u) / 2)


def log_sums(exponents: Array) -> Array:
    """Return the logarithm of the sum of e^x over each row."""
    peak = np.max(exponents, axis=1)
    return np.asarray(peak + np.log(np.sum(np.exp(exponents - peak[:, None]), axis=1)))


# Far losses -----------------------------------------------------------------------------------------------------------


def cut_far(pair: CoordinatePair, tilt: float, log_share: float, sure: float, log_leak: float) -> CoordinatePair:
    """Return the pair cut as softly as tilts up to this one allow: φχw^{θ+1} may rise by little beyond the cut.

    The cut lies where it leaves out at most e^log_share, or sooner, if all that is cut below the loss `sure` is about
    e^log_leak under Q.
    """
    law, rate, sharpness = noise_of(pair), pair.sampling.rate, SOFTEST
    components = list(law.components(rate))
    enough = coordinate_of(sure, law.mean, rate) if sure < LARGEST_EXPONENT else math.inf
    away = math.sqrt(max(-log_leak - max(min(enough, -log_leak), 0.0) ** 2 / 2, SHORTEST_WAY**2))
    near = coordinate_of(min(sure, LARGEST_EXPONENT), law.mean, rate)
    while True:
        at = min(place_of_cut(components, sharpness, log_share), enough + away / sharpness)
        beyond = min(near, at) + np.append(0.0, np.geomspace(0.05, 2 * tilt * law.mean + DEEP, FAR_LOOKS))
        kept = np.maximum(sharpness * (beyond - at), 0.0) ** 2
        logs = (tilt + 1) * log_w(beyond, law.mean, rate) - beyond**2 / 2 - kept
        if float(np.max(logs)) <= float(logs[0]) + LEVEL_NATS or sharpness >= SHARPEST:
            return CoordinatePair(CutLaw(law, at, sharpness), pair.sampling)
        sharpness *= 2


def cut_masses(pair: CoordinatePair) -> tuple[float, float]:
    """Return E_Q[1 - χ], and γ times what it is of N(μ, 1), each within a few units of its exponents."""
    law = pair.law
    assert isinstance(law, CutLaw)
    within, without = _log_masses_beyond(np.array([law.at - noise_of(pair).mean, law.at]), law.sharpness)
    return math.exp(without), pair.sampling.rate * math.exp(within)


def _log_masses_beyond(at: Array, sharpness: float) -> list[float]:
    """Return log E[1 - χ] of N(0, 1): it is log Φ(-c/κ), κ² = 1 + 1/2a²."""
    return log_half_erfc(at / (math.sqrt(2.0) * math.sqrt(1 + 0.5 / sharpness**2))).tolist()  # type: ignore[no-any-return]


def bound_leak(pair: CoordinatePair, sure: float) -> float:
    """Return a bound of E_Q[1 - χ; L <= sure].

    With x = a(c - t) at the coordinate t of that loss, 1 - χ(t-v) <= ½ erfc(x) e^{-2axv} and φ(t-v) <= φ(t) e^{tv}.
    """
    law, noise = pair.law, noise_of(pair)
    assert isinstance(law, CutLaw)
    whole = cut_masses(pair)[0] * (1 + 1e-9)
    if not sure < LARGEST_EXPONENT:
        return whole
    t = coordinate_of(sure, noise.mean, pair.sampling.rate)
    t += 1e-12 * (1 + abs(t))  # rounded up
    x = law.sharpness * (law.at - t)
    if not x > 0:
        return whole
    kept = math.erfc(x) / 2 * (1 + 1e-9) + 5e-324
    fall = 2 * law.sharpness * x - t
    return min(whole, kept, kept * math.exp(-t * t / 2 - LOG_ROOT) / fall if fall > 0 else math.inf)


def bound_negative_cgf(pair: CoordinatePair, tau: Array) -> Array:
    """Return a bound of log E_Q e^{-τL} for τ > 0."""
    return bound_negative_moments(noise_of(pair).mean, pair.sampling.rate, tau)


# One release ----------------------------------------------------------------------------------------------------------


@final
@dataclass(frozen=True, slots=True, eq=False)
class JumpLaw:
    """N(0, 1) with w = 1 - γ + γe^{μt - μ²/2}, cut far out, on nodes of a trapezoidal rule for real tilts."""

    mean: float
    rate: float
    far: Cut
    sharpness: float  # of near cuts
    t: Array
    losses: Array
    log_masses: Array  # of P, times χ and the step
    log_kept: Array  # log χ
    log_tail: Array  # log P(t, ∞)

    @staticmethod
    def of(pair: CoordinatePair) -> JumpLaw:
        law = pair.law
        assert isinstance(law, CutLaw)
        mean, rate, (at, sharpness) = noise_of(pair).mean, pair.sampling.rate, (law.at, law.sharpness)
        near = 2.0 ** math.ceil(math.log2(SOFT_RADIANS / min(NEAR_RADIANS / mean, HIGHEST)) - 0.5)
        step = math.pi / math.sqrt(RULE_NATS * (0.5 + sharpness**2 + near**2))
        end = at + DEEP / sharpness
        if (end - FAR_LEFT) / step > MOST_RULE_NODES:
            raise OutOfReach(f"losses of a rate of {rate:g} take {(end - FAR_LEFT) / step:.0f} nodes")
        t = step * np.arange(math.floor(FAR_LEFT / step), math.ceil(end / step) + 1, dtype=float)
        losses, kept = log_w(t, mean, rate), log_half_erfc(sharpness * (t - at))
        tails = log_half_erfc(np.array([t, t - mean]) / math.sqrt(2.0))
        log_tail = np.logaddexp(math.log1p(-rate) + tails[0], math.log(rate) + tails[1])
        log_masses = -t * t / 2 - LOG_ROOT + losses + kept + math.log(step)
        return JumpLaw(mean, rate, (at, sharpness), near, t, losses, log_masses, kept, log_tail)

    @property
    def largest_loss(self) -> float:
        """About the largest loss that the far cut leaves."""
        return float(log_w(np.array([self.far[0]]), self.mean, self.rate)[0])

    def split(self, largest: float) -> Jumps:
        """Return jumps from about the largest quiet loss on; any cut is sound."""
        at = coordinate_of(largest, self.mean, self.rate)
        if not at < self.far[0]:
            raise OutOfReach("losses as large as that are cut off")
        return Jumps(self, (at, self.sharpness))

    def mass_beyond(self, cut: Cut) -> float:
        """Return E_P[1 - χ]."""
        within, without = _log_masses_beyond(np.array([cut[0] - self.mean, cut[0]]), cut[1])
        return (1 - self.rate) * math.exp(without) + self.rate * math.exp(within)

    def tilt(self, theta: Array) -> Array:
        """Return the exponents θL: a row for each tilt."""
        return np.asarray(theta[:, None] * self.losses)

    def log_beyond(self, theta: Array, near: Cut | None = None) -> Array:
        """Return log of a bound of ∫ φ χ w^{θ+1} beyond the nodes, with χ_q if there is a near cut.

        In blocks, as long as w^{θ+1} may rise; then φ falls by t a unit, χ by 2a²(t-c), as erfc(u+v) <=
        erfc(u) e^{-2uv} for u, v >= 0, and w^{θ+1} grows by (θ+1)μ at most.
        """
        high, (c, a), most = float(self.t[-1]), self.far, (float(theta[-1]) + 1) * self.mean
        last = max((most + 2 * a * a * c) / (1 + 2 * a * a) + DEEP / a, high + DEEP / a)
        blocks = max(math.ceil(math.log((last - c) / (high - c)) / math.log(FAR_RATIO)), 1)
        edges = c + (high - c) * np.geomspace(1.0, (last - c) / (high - c), blocks + 1)
        falling = -edges * edges / 2 - LOG_ROOT + log_half_erfc(a * (edges - c))
        falling += log_half_erfc(near[1] * (edges - near[0])) if near else 0.0
        losses = log_w(edges, self.mean, self.rate)
        inside = log_sums(falling[:-1] + np.log(np.diff(edges)) + (theta[:, None] + 1) * losses[1:])
        fall = float(edges[-1]) - most + 2 * a * a * float(edges[-1] - c)
        rest = falling[-1] + (theta + 1) * losses[-1] - math.log(fall)
        return np.asarray(np.logaddexp(inside, rest) + MARGIN_NATS)


@final
@dataclass(frozen=True, slots=True, eq=False)
class Jumps:
    """A law with a near cut: jumps beyond it, quiet losses before it. Without one, all losses are jumps."""

    law: JumpLaw
    near: Cut | None = None

    def log_moments(self, theta: Array, exponents: Array) -> tuple[Array, Array]:
        """Return log S(θ) and log J(θ), at most, at rising tilts, from the law's exponents θL."""
        law = self.law
        quiet, taken = self.log_cuts(law.t)
        jumps = np.logaddexp(log_sums(exponents + (law.log_masses + taken)), law.log_beyond(theta)) + MARGIN_NATS
        if self.near is None:
            return np.full(len(theta), -np.inf), np.asarray(jumps)
        with np.errstate(over="ignore"):
            small = np.expm1(np.minimum(exponents, LARGEST_EXPONENT)) @ np.exp(law.log_masses + quiet) - self.missing
            near = np.log1p(np.maximum(small, -0.5)) + 64 * UNIT * (1 + np.abs(small))
            far = log_sums(exponents + (law.log_masses + quiet)) + MARGIN_NATS
        log_s = np.where(np.abs(small) < 0.5, near, far)
        return np.logaddexp(log_s, law.log_beyond(theta, self.near)), np.asarray(jumps)

    def log_cuts(self, t: Array) -> tuple[Array, Array]:
        """Return log χ_q and log(1 - χ_q)."""
        if self.near is None:
            return np.full(len(t), -np.inf), np.zeros(len(t))
        x = self.near[1] * (t - self.near[0])
        return log_half_erfc(x), log_half_erfc(-x)

    @property
    def sharpness(self) -> float:
        return self.near[1] if self.near else 0.0

    @property
    def missing(self) -> float:
        """E_P[1 - χ_q], which is what quiet losses lack of 1, but for what is cut far out of them."""
        return self.law.mass_beyond(self.near) if self.near else 1.0

    def bound_quiet(self, exponents: Array, log_share: float) -> tuple[Array, float]:
        """Return log E[χχ_q e^{θL}; t <= b], at most, and P(t > b)·χ_q(b), which is at most e^log_share.

        Large tilts would see nothing but the few losses beyond b. The ends of cells are the nodes of the law: every
        factor is at most what it is at an end, in E[χχ_q] + E[χχ_q (e^{θL} - 1)].
        """
        law, quiet = self.law, self.log_cuts(self.law.t)[0]
        rest = law.log_tail + quiet
        ends = np.flatnonzero(rest <= log_share)
        if not len(ends):
            raise OutOfReach("quiet losses have no end")
        end = int(ends[0]) + 1
        tail, kept = law.log_tail[:end], np.exp(quiet[:end] + law.log_kept[:end])
        cells = np.exp(tail[:-1]) * -np.expm1(np.minimum(np.diff(tail), 0.0))
        masses = np.where(law.losses[1:end] > 0, kept[:-1] * (1 + 1e-12), kept[1:] * (1 - 1e-12)) * cells
        some = exponents[:, 1:end]
        grown = np.expm1(np.minimum(some, LARGEST_EXPONENT)) @ masses - self.missing
        logs = np.log1p(np.maximum(grown, -0.5)) + 64 * UNIT
        logs = np.where(np.max(some, axis=1) < LARGEST_EXPONENT, logs, np.inf)  # where doubles end nothing is said
        return logs, math.exp(float(rest[ends[0]]) + 1e-9)
