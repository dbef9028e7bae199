"""Mixtures of normal laws of one width against one of them: u(t) = log Σ p_i e^{m_i t - m_i²/2}, all m_i >= 0."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any, final

import numpy as np

from cumulant.neighbors import Neighbors
from cumulant.numerics.balls import as_ball, current_bits, precision, reciprocal_ball
from cumulant.numerics.logspace import Array, reciprocal_up
from cumulant.numerics.rounding import float_above
from cumulant.pairs.coordinate import CoordinatePair
from cumulant.pairs.maps import ABOVE, Join, Leave, SamplingMap
from cumulant.pairs.noise import Noise, Pair, Pairs
from cumulant.pairs.normal_law import NormalMixture

if TYPE_CHECKING:
    from flint import arb

MOST_TERMS = 250_000  # of mixtures at a time: they stay in the cache
UNDERFLOW_NATS = 600.0  # below 1, from which a probability is kept as its logarithm


class GaussianMixtureLaw(NormalMixture):
    """A mixture by its means and the logarithms of its shares, in doubles and in balls, and what follows from them."""

    __slots__ = ()

    @property
    @abstractmethod
    def means(self) -> Array:
        """The m_i, rounded up where they are no parameters."""

    @property
    @abstractmethod
    def log_shares(self) -> Array:
        """The logarithms of the p_i."""

    @property
    def steepest(self) -> float:
        return float(np.max(self.means)) * (1 + 2.0**-50)  # rounded up

    @abstractmethod
    def mean_balls(self) -> Sequence[arb]:
        """Return the m_i as balls."""

    @abstractmethod
    def share_balls(self) -> Sequence[arb]:
        """Return the p_i as balls."""

    def growth_balls(self, t: arb) -> Iterable[arb]:
        """Return e^{m_i t}."""
        return [(mean * t).exp() for mean in self.mean_balls()]

    @property
    def terms(self) -> int:
        return len(self.means)

    def components(self, rate: float) -> Iterable[tuple[float, float]]:
        """The rate is that of a map on top of this mixture: 0 for Q, 1 for P."""
        return (1 - rate, 0.0), *zip((rate * np.exp(self.log_shares)).tolist(), self.means.tolist(), strict=True)

    def component_balls(self, rate: arb) -> Iterable[tuple[arb, arb]]:
        shares = zip(self.share_balls(), self.mean_balls(), strict=True)
        return (1 - rate, 0 * rate), *((rate * share, mean) for share, mean in shares)

    def log_ratio(self, t: Any) -> Any:
        return self._in_chunks(self._log_ratio, np.asarray(t))

    def log_slope(self, t: Array) -> Array:
        return self._in_chunks(self._log_slope, np.asarray(t))

    def _in_chunks(self, evaluate: Callable[[Array], Array], t: Array) -> Array:
        """Evaluate at some nodes at a time: each takes a number for every term."""
        some = max(1, MOST_TERMS // self.terms)
        if t.ndim == 0 or len(t) <= some:
            return evaluate(t)
        return np.concatenate([evaluate(t[i : i + some]) for i in range(0, len(t), some)])

    def _log_ratio(self, t: Array) -> Array:
        terms = self.means * (t[..., None] - self.means / 2) + self.log_shares
        peak = np.max(terms, axis=-1, keepdims=True)
        terms -= peak
        with np.errstate(under="ignore"):
            ratio = np.asarray(np.log(np.sum(np.exp(terms, out=terms), axis=-1)) + peak[..., 0])
        close = np.abs(ratio) < 1
        ratio[close] = self._near_ratio(t[close], ratio[close])
        return ratio

    def _near_ratio(self, t: Array, far: Array) -> Array:
        """Return u where w is next to 1, from w - 1 term by term.

        A probability that underflows meets an exponential that may make up for it.
        """
        exponent = self.means * (t[..., None] - self.means / 2)
        with np.errstate(under="ignore", over="ignore", invalid="ignore"):
            kept = np.exp(self.log_shares) * np.expm1(exponent)
            near = np.sum(
                np.where(self.log_shares > -UNDERFLOW_NATS, kept, np.exp(self.log_shares + exponent)), axis=-1
            )
        close = (near > -0.5) & (near < 1.0)
        return np.where(close, np.log1p(np.where(close, near, 0.0)), far)

    def _log_slope(self, t: Array) -> Array:
        exponent = self.log_shares + self.means * (t[..., None] - self.means / 2)
        share = np.exp(exponent - np.max(exponent, axis=-1, keepdims=True))
        unit = float(np.max(self.means))
        mean = np.maximum(share @ (self.means / unit) / np.sum(share, axis=-1), 1e-300)  # where only Q's own counts
        return np.asarray(math.log(unit) + np.log(mean))

    def bend_on(self, low: float, high: float, largest_spread: Callable[[Array], Array]) -> float:
        return 2 * self.steepest**2

    @property
    def strip(self) -> float:
        """Within m|Im t| < π/2, m the largest mean, all terms have positive real part."""
        return 0.475 * math.pi / self.steepest

    def terms_ball(self, t: arb) -> list[arb]:
        """Return p_i e^{m_i t - m_i²/2}: what grows with t, times what does not depend on it."""
        constants = _constants(self, current_bits())
        return [constant * growth for constant, growth in zip(constants, self.growth_balls(t), strict=True)]

    def ratio_ball(self, t: arb) -> arb:
        return sum(self.terms_ball(t), as_ball(0.0)).log()

    def slope_ball(self, t: arb) -> arb:
        terms = self.terms_ball(t)
        weighted = sum((mean * term for mean, term in zip(self.mean_balls(), terms, strict=True)), as_ball(0.0))
        return weighted / sum(terms, as_ball(0.0))

    def bound_on_rectangle(self, low: arb, high: arb, y: arb) -> tuple[arb, arb, arb]:
        """All terms turn by angles between 0 and my, which is below π/2."""
        angle = as_ball(self.steepest) * y
        return self.ratio_ball(low) + (angle / 2).cos().log(), self.ratio_ball(high), angle


@lru_cache(maxsize=64)
def _constants(law: GaussianMixtureLaw, bits: int) -> list[arb]:
    """Return p_i e^{-m_i²/2}."""
    with precision(bits):
        return [p * (-(m**2) / 2).exp() for p, m in zip(law.share_balls(), law.mean_balls(), strict=True)]


@final
@dataclass(frozen=True, slots=True)
class StatedMixture(Noise, GaussianMixtureLaw):
    """Σ p_i N(s_i/σ, 1) against N(0, 1): a query to which a record adds s_i with probability p_i, of noise σ."""

    noise: float
    sensitivities: tuple[float, ...]  # >= 0, some above 0
    probabilities: tuple[float, ...]  # above 0; their shares of the sum count

    may_fail = False

    @property
    def means(self) -> Array:
        return _means(self)

    @property
    def log_shares(self) -> Array:
        return _log_shares(self)

    def mean_balls(self) -> Sequence[arb]:
        unit = reciprocal_ball(reciprocal_up(self.noise), self.noise)
        return [as_ball(s) * unit for s in self.sensitivities]

    def share_balls(self) -> Sequence[arb]:
        total = sum(map(as_ball, self.probabilities), as_ball(0.0))
        return [as_ball(p) / total for p in self.probabilities]

    @property
    def extremes(self) -> tuple[float, float]:
        """Far to the left only what adds nothing is left of P."""
        nothing = math.fsum(p for s, p in zip(self.sensitivities, self.probabilities, strict=True) if s == 0)
        least = math.log(nothing / math.fsum(self.probabilities)) * ABOVE if nothing > 0 else -math.inf
        return least, math.inf

    @property
    def log_square(self) -> float:
        """Of Σ p_i p_j (e^{m_i m_j} - 1), means above 1 taken as 1."""
        near, shares = np.minimum(self.means, 1.0), np.exp(self.log_shares)
        return math.log(max(float(shares @ np.expm1(near[:, None] * near) @ shares), 1e-300))

    def farthest_tilt(self, reach: float) -> float:
        return reach / self.steepest - 1

    def unsampled(self, relation: Neighbors | None) -> Pairs:
        return self.sampled(Leave(1.0)), self.sampled(Join(1.0))

    def sampled(self, sampling: SamplingMap) -> Pair:
        return CoordinatePair(self, sampling)

    @property
    def symmetric(self) -> bool:
        return False


@lru_cache(maxsize=1024)
def _means(law: StatedMixture) -> Array:
    """Return s_i/σ, rounded up."""
    unit = Fraction(law.noise)
    return np.array([float_above(Fraction(s) / unit) for s in law.sensitivities])


@lru_cache(maxsize=1024)
def _log_shares(law: StatedMixture) -> Array:
    return np.log(np.array(law.probabilities) / math.fsum(law.probabilities))
