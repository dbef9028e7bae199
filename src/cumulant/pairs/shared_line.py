"""Lines of Gaussian noise of any width, sampled at one rate: all of them share their losses.

N(μ, 1) against N(0, 1) has u = μt - μ²/2, so nodes that are evenly spaced in u are so in t = u/μ + μ/2, whatever μ is,
and the loss, a function of u alone, is the same at each. The trapezoidal rule may begin anywhere and takes the step of
the narrowest law. So sines and exponentials of losses are formed once, and a law takes its masses and sums of products.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeGuard, final

import numpy as np

from cumulant.numerics.complex_plane import Complex, log1p_complex, sine_versine_of_multiples
from cumulant.numerics.logspace import Array, exp_excess
from cumulant.numerics.quadrature import shortened
from cumulant.pairs.cache import CACHE
from cumulant.pairs.coordinate import CoordinatePair
from cumulant.pairs.cut_law import CutLaw
from cumulant.pairs.discrete import LARGE, PHASE, ROUNDOFF, prefers_transform, shorter, with_error
from cumulant.pairs.maps import Join, Leave
from cumulant.pairs.noise import GaussianNoise
from cumulant.pairs.pair import DominatingPair

BANDS = 8  # per octave of μ: laws of one band share their nodes
REPRESENTATIVES = 3  # laws of a band, that its rule is made for: both ends are among them
FAR = 600.0  # exponents of masses and of tilts that are left to nodes of one law alone
MOST_SHARED_SINES = 1_000_000  # that are kept of one line: three arrays of them take 24 MB


@final
@dataclass(frozen=True, slots=True)
class Kind:
    """What pairs have in common that share their losses: how they are sampled and cut, and about how wide they are."""

    sampling: Leave | Join
    cut: tuple[float, float] | None
    band: int

    @staticmethod
    def of(pair: CoordinatePair) -> Kind:
        law = pair.law
        noise = law.law if isinstance(law, CutLaw) else law
        assert isinstance(noise, GaussianNoise)
        assert isinstance(pair.sampling, Leave | Join)
        cut = (law.at, law.sharpness) if isinstance(law, CutLaw) else None
        return Kind(pair.sampling, cut, math.floor(BANDS * math.log2(noise.mean)))

    @property
    def means(self) -> list[float]:
        return [2.0 ** ((self.band + share) / BANDS) for share in np.linspace(0.0, 1.0, REPRESENTATIVES)]

    def pair(self, mean: float) -> CoordinatePair:
        noise = GaussianNoise(mean)
        return CoordinatePair(noise if self.cut is None else CutLaw(noise, *self.cut), self.sampling)


class LineAt(NamedTuple):
    """Where a line is: θ and other tilts, of which the last is the largest, η, and how many points there are."""

    tilts: tuple[float, ...]
    eta: float
    points: int


def can_share(pair: DominatingPair) -> TypeGuard[CoordinatePair]:
    """Return whether a pair is one of Gaussian noise, sampled in one direction, and stands for itself.

    Where a record joins, a cut would leave out losses of Q as well, which `left_out` does not bound.
    """
    if not isinstance(pair, CoordinatePair) or not isinstance(pair.sampling, Leave | Join):
        return False
    if isinstance(pair.law, CutLaw) and isinstance(pair.sampling, Join):
        return False
    law = pair.law.law if isinstance(pair.law, CutLaw) else pair.law
    return isinstance(law, GaussianNoise) and isinstance(law.mean, float) and 0 < pair.sampling.rate < 1


def lines_together(pairs: Sequence[DominatingPair], at: LineAt, sines: float) -> list[tuple[Array, Array]] | None:
    """Return of each pair K along a line, with its error, and K at the other tilts; None where losses are not shared.

    Nodes may be too many as well.
    """
    alike = [pair for pair in pairs if can_share(pair)]
    if len(alike) < len(pairs):
        return None
    kinds = [Kind.of(pair) for pair in alike]
    shared = {kind: _shared_line(kind, at, sines) for kind in kinds}
    if not all(shared.values()):
        return None
    found = [shared[kind][0].of(pair) for kind, pair in zip(kinds, alike, strict=True)]
    known = [one for one in found if one is not None]
    return known if len(known) == len(found) else None


@final
@dataclass(frozen=True, slots=True, eq=False)
class Turns:
    """`sine_versine` of multiples of ηL for every loss L: those of the first few, and those of their number."""

    few: Array  # sin and 1 - cos, one after the other
    many: Array
    excess: Array  # sin x - x of both, one after the other

    @staticmethod
    def of(losses: Array, eta: float, count: int) -> Turns:
        short = shorter(count)
        many = sine_versine_of_multiples(eta * short * losses, -(-count // short))
        few = sine_versine_of_multiples(eta * losses, short)
        return Turns(np.concatenate(few[:2]), np.concatenate(many[:2]), np.concatenate((many[2], few[2])))

    def sums(self, masses: Array, count: int) -> tuple[Array, Array]:
        """Return Σ P(1 - cos ωL) and Σ P(sin ωL - ωL) along the line; see `DiscreteLosses._turned`."""
        short, long = len(self.few) // 2, len(self.many) // 2
        weighted = self.many * masses
        products, excess = weighted @ self.few.T, self.excess @ masses
        up, few_up = np.sum(weighted[long:], axis=1), self.few[short:] @ masses
        even = up[:, None] + few_up - products[long:, short:] + products[:long, :short]
        odd = excess[:long, None] + excess[long:] - products[:long, short:] - products[long:, :short]
        return even.reshape(-1)[:count], odd.reshape(-1)[:count]


@final
@dataclass(frozen=True, slots=True, eq=False)
class SharedLine:
    """Losses at nodes u, and what a line takes of them that does not depend on the width of the noise."""

    kind: Kind
    at: LineAt
    u: Array
    log_step: float  # of u
    losses: Array
    growth: Array  # e^{τL}, a row for each tilt
    excess: Array  # e^{τL} - 1 - τL likewise, and e^{-L} - 1 + L
    drift: Array  # (e^{θL} - 1)L, and L
    turns: Turns

    def of(self, pair: CoordinatePair) -> tuple[Array, Array] | None:
        """Return K along the line, with its error, and K at the other tilts; None where exponentials would vanish.

        What DiscreteLosses says of the same nodes, but for how t is rounded: see `_doubt_of_place`.
        """
        mean, theta, tilts = mean_of(pair), self.at.tilts[0], np.array(self.at.tilts)
        t = self.u / mean + mean / 2
        log_masses = (self.log_step - math.log(mean)) + pair.law.log_density(t)
        if self.kind.sampling.sign > 0:
            log_masses = log_masses + self.losses
        if np.min(log_masses) < -FAR:
            return None
        masses = np.exp(log_masses)
        *excess, divergence = self.excess @ masses
        k = np.log(self.growth @ masses)
        k = np.where(np.abs(k) < LARGE, np.log1p(np.clip(excess + tilts * divergence, -0.9, 1.0)), k)
        tilted = np.exp(log_masses + theta * self.losses - k[0])
        line = self._line(masses, tilted, (float(k[0]), float(divergence)))
        units = np.abs(log_masses) + (2 + theta) * np.abs(self.losses) + _doubt_of_place(pair, t, mean)
        values, error = self._with_error(line, tilted, units, (float(k[0]), float(divergence)), pair.left_out)
        return np.stack([values.real, values.imag, error]), k[1:]

    def _line(self, masses: Array, tilted: Array, known: tuple[float, float]) -> Complex:
        """Return log M(z)/M(θ), from masses and tilted ones, K(θ) and κ."""
        k, divergence = known
        even, odd = self.turns.sums(tilted, self.at.points)
        near = (divergence + float(self.drift[0] @ masses)) * math.exp(-k) if abs(k) < LARGE else None
        mean = float(self.drift[1] @ tilted) if near is None else near
        return log1p_complex(-even, mean * self._omega + odd)

    @property
    def _omega(self) -> Array:
        return np.asarray(self.at.eta * np.arange(float(self.at.points)))

    def _with_error(
        self, line: Complex, tilted: Array, units: Array, known: tuple[float, float], left_out: float
    ) -> tuple[Complex, Array]:
        """Return K along the line with a bound of log(1 + |ΔM/M|); see `DiscreteLosses.log_moment`."""
        (k, divergence), theta, omega = known, self.at.tilts[0], self._omega
        size, losses = float(tilted @ units), np.abs(self.losses)
        rounding, first, second = ROUNDOFF + 2.0**-52 * size, float(tilted @ losses), float(tilted @ losses**2)
        share = np.full(len(omega), np.inf)
        if abs(k) < LARGE:
            share = (max(math.expm1(k), 0.0) + 2 * theta * abs(divergence)) * (1 + (omega / theta) ** 2)
        error = rounding * np.minimum(share, 2.0) + PHASE * np.minimum(omega * first, omega * omega * second)
        error += left_out * (1 + np.hypot(theta, omega))
        values, error = with_error(error[None], line[None], np.array([k]))
        return values[0], error[0]


def mean_of(pair: CoordinatePair) -> float:
    """Return μ of Gaussian noise, cut off or not."""
    law = pair.law.law if isinstance(pair.law, CutLaw) else pair.law
    assert isinstance(law, GaussianNoise)
    return float(law.mean)


def _doubt_of_place(pair: CoordinatePair, t: Array, mean: float) -> Array:
    """Return how far a mass may be off because t was rounded, in units of 2^-52 of it.

    t is off by 2^-53 (2|t| + μ/2) at most, and -t²/2 by |t| times as much; log χ, χ = ½ erfc(x) with x = a(t - c), by
    a·g(x) times as much, where g = (2/√π) e^{-x²}/erfc(x) <= 2 max(x, 0) + 1.2.
    """
    slope = np.abs(t)
    if isinstance(pair.law, CutLaw):
        x = pair.law.sharpness * (t - pair.law.at)
        slope = slope + pair.law.sharpness * (2 * np.maximum(x, 0.0) + 1.2)
    return slope * (np.abs(t) + mean / 4)


@CACHE.remember
def _shared_line(kind: Kind, at: LineAt, sines: float) -> tuple[SharedLine, ...]:
    """Return the line of a kind; none where it is better transformed, takes too much memory, or goes beyond doubles."""
    means = kind.means
    together = CoordinatePair.stack([kind.pair(mean) for mean in means])
    (branch,) = together.branches
    t, _ = branch.rule(max(at.tilts), at.eta * (at.points - 1))
    if prefers_transform(len(t), at.points, sines) or 2 * shorter(at.points) * len(t) > MOST_SHARED_SINES:
        return ()
    # with t where the rule has them for all, u is the farthest of the widest law, and dt = du/μ of the narrowest h
    step = shortened(means[0] * float(t[1] - t[0]))
    first, last = (math.floor(means[-1] * (float(end) - means[-1] / 2) / step) for end in (t[0], t[-1]))
    u = step * np.arange(first, last + 2, dtype=float)  # exact: no node is off its place
    losses = kind.sampling.sign * kind.sampling.value(u)
    tilts = np.array(at.tilts)
    if max(at.tilts[-1], 1.0) * float(np.max(np.abs(losses))) > FAR:
        return ()
    x = np.append(tilts, -1.0)[:, None] * losses
    growth = np.exp(x[:-1])
    drift = np.stack([np.expm1(x[0]) * losses, losses])
    turns = Turns.of(losses, at.eta, at.points)
    return (SharedLine(kind, at, u, math.log(step), losses, growth, exp_excess(x), drift, turns),)
