"""Gaussian noise on a query to which a record adds a random amount."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, final

import numpy as np

from cumulant.curves.curve import Array, Curve, at_least, at_most
from cumulant.errors import InvalidParameter
from cumulant.mechanisms.base import AbstractMechanism
from cumulant.mechanisms.known import Known, curve_of_pair
from cumulant.neighbors import ADD_REMOVE, Neighbors
from cumulant.numerics.balls import LOG_ROOT
from cumulant.numerics.logspace import log_mean
from cumulant.numerics.quadrature import nodes_on
from cumulant.numerics.rounding import LEAST, ULP
from cumulant.numerics.search import roots
from cumulant.pairs.gaussian_mixture import StatedMixture
from cumulant.parameters import nonnegative, positive, probability, require
from cumulant.profiles.profile import PrivacyProfile

ADDED_UP = 1e-12  # how far probabilities may add up from 1 before they are refused
LEAST_MEAN, LARGEST_MEAN = 1e-100, 1e4  # over the noise, beyond which a bound by moments does
STEEPEST_PROFILE = 50.0  # of the means, up to which a profile is integrated
FARTHEST_THRESHOLD = 300.0  # standard deviations of a threshold, beyond which it is not
REACH_NATS = 40.0  # below the integrand's first value, where integrals end
FINEST_PIECE = 0.5  # of the coordinate, or one over the largest mean
FEWEST_PIECES = 10  # of an integral: on each the integrand falls by a few nats
PROFILE_ERROR = 1e-11  # in nats, of an integral of 16 nodes on each piece
EXPONENT_ERROR = 4e-15  # relative, of what is exponentiated: a few units of each term
FARTHEST_PEAK = 2e5  # standard deviations up to which the peak of an order is followed
K_ERROR = 1e-13  # of K, relatively


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class GaussianMixture(AbstractMechanism):
    """Add N(0, σ²) noise to a query to which a record adds s_i with probability p_i, drawn afresh and kept secret.

    With the record an output is Σ p_i N(s_i, σ²), without it N(0, σ²); all s_i >= 0. So does a group whose records are
    sampled one by one, a record that joins several summed batches, or a matrix mechanism on samples (Choquette-Choo et
    al. 2024, who show that vectors of these norms, in any directions, are no easier to tell apart).

    Holds for:  add-or-remove-one and zero-out; the probabilities do not depend on what was released before.
    Tightness:  attained: a dominating pair of its own in either direction, with an exact profile for one release.

    >>> step = GaussianMixture(noise_multiplier=2.0, sensitivities=[0.0, 1.0, 2.0], probabilities=[0.9, 0.09, 0.01])
    >>> round(step.epsilon(delta=1e-6), 6), round((step * 100).epsilon(delta=1e-6), 6)
    (0.76062, 3.177084)
    """

    theorem: ClassVar[str] = "a mixture of Gaussians by its dominating pair (Choquette-Choo et al. 2024)"

    noise_multiplier: float
    sensitivities: Sequence[float]
    probabilities: Sequence[float]
    relation: Neighbors = ADD_REMOVE

    def __post_init__(self) -> None:
        object.__setattr__(self, "noise_multiplier", positive("noise_multiplier", self.noise_multiplier))
        for name, check in (("sensitivities", nonnegative), ("probabilities", probability)):
            given = _values_of(name, getattr(self, name))
            object.__setattr__(self, name, tuple(check(name, value) for value in given))
        same = len(self.sensitivities) == len(self.probabilities)
        require(same, "sensitivities must be as many as probabilities", self.sensitivities)
        require(math.inf not in self.sensitivities, "sensitivities must be finite", self.sensitivities)
        total = math.fsum(self.probabilities)
        require(abs(total - 1) <= ADDED_UP, "probabilities must add up to 1", self.probabilities)
        joins = isinstance(self.relation, Neighbors) and self.relation.joins
        require(joins, "relation must be cumulant.ADD_REMOVE or cumulant.ZERO_OUT", self.relation)
        adds = any(s > 0 and p > 0 for s, p in self._parts)
        require(adds, "sensitivities must be above 0 for some probability above 0", self.sensitivities)

    @property
    def _parts(self) -> list[tuple[float, float]]:
        return list(zip(self.sensitivities, self.probabilities, strict=True))

    @property
    def neighbors(self) -> Neighbors:
        return self.relation

    def _known(self) -> Known:
        there = [(s, p) for s, p in self._parts if p > 0]
        law = StatedMixture(self.noise_multiplier, tuple(s for s, _ in there), tuple(p for _, p in there))
        with np.errstate(over="ignore", under="ignore"):
            means = np.maximum(np.array([s for s, _ in there]) / self.noise_multiplier, LEAST)
        if not LEAST_MEAN < np.max(means) < LARGEST_MEAN:
            return Known.by_curve(lambda: mean_of_curves(means, np.log([p for _, p in there])))
        return Known.by_noise(law, curve=lambda: _curve_of_mixture(law), profile=lambda: _profile_of_mixture(law))


def _values_of(name: str, values: Any) -> list[Any]:
    try:
        column = list(values)
    except TypeError:
        raise InvalidParameter(f"{name} must be a sequence of numbers, got {values!r}") from None
    require(len(column) > 0, f"{name} must have at least one number", values)
    return column


# One release ----------------------------------------------------------------------------------------------------------


def _profile_of_mixture(law: StatedMixture) -> PrivacyProfile | None:
    """Return δ(ε), the larger of ∫ (w - e^ε)_+ dQ and ∫ (1 - e^ε w)_+ dQ with w = e^u; None where noise is little.

    u grows with t, so each is an integral beyond the point where u is ε, or -ε: of positive terms, which keep digits.

    Holds for:  means of at most STEEPEST_PROFILE; the bound of a tail where the threshold is beyond FARTHEST_THRESHOLD.
    Tightness:  exact.
    """
    if law.steepest > STEEPEST_PROFILE:
        return None
    largest, least = law.steepest, law.extremes[0]

    def log_delta(epsilon: float) -> float:
        leaves = _log_tail(law, epsilon, 1)
        return leaves if -epsilon <= least else max(leaves, _log_tail(law, epsilon, -1))

    # beyond that threshold a profile would be integrated over nothing that doubles hold
    return PrivacyProfile(lambda epsilon: max(log_delta(epsilon), -0.5 * (FARTHEST_THRESHOLD + largest) ** 2))


def _log_tail(law: StatedMixture, epsilon: float, side: int) -> float:
    """Return log ∫ φ (e^{±u} - ...)_+ beyond the threshold of u = ±ε on that side of it, rounded up."""
    start = _threshold(law, side * epsilon, side)
    if (side > 0 and start >= FARTHEST_THRESHOLD) or (side < 0 and start <= -FARTHEST_THRESHOLD):
        # w <= e^{mt - m²/2} for the largest mean m, so its tail bounds this one
        return min(0.0, -0.5 * max(abs(start) - (law.steepest if side > 0 else 0.0), 0.0) ** 2)
    above = side * start - (law.steepest if side > 0 else 0.0)  # how far beyond the last peak it begins
    reach = 2 * REACH_NATS / (above + math.sqrt(above * above + 2 * REACH_NATS))
    pieces = max(FEWEST_PIECES, math.ceil(reach * max(1 / FINEST_PIECE, law.steepest)))
    edges = reach * np.linspace(0.0, 1.0, pieces + 1)
    x, log_weights = nodes_on(edges[:-1], edges[1:])
    t = start + side * x
    gap = np.maximum(side * np.asarray(law.log_ratio(t)) - epsilon, 0.0)  # of the loss over ε
    # w - e^ε = w(1 - e^{-gap}), and 1 - e^ε w = 1 - e^{-gap}
    weight = -t * t / 2 - LOG_ROOT + log_weights + (np.asarray(law.log_ratio(t)) if side > 0 else 0.0)
    with np.errstate(divide="ignore"):
        logs = weight + np.log(-np.expm1(-gap))
    found = float(np.logaddexp.reduce(logs))
    return min(0.0, found + PROFILE_ERROR + EXPONENT_ERROR * (abs(found) + start * start))


def _threshold(law: StatedMixture, u: float, side: int) -> float:
    """Return t with u(t) = u, a little outside the tail on that side, or ±FARTHEST_THRESHOLD where it lies beyond."""
    start = np.array([-FARTHEST_THRESHOLD - 1])
    (above,), (below,) = roots(lambda t, _: np.asarray(law.log_ratio(t)) - u, start, 1.0, relative=4e-16)
    return float(np.clip(below if side > 0 else above, -FARTHEST_THRESHOLD, FARTHEST_THRESHOLD))


# Rényi divergences ----------------------------------------------------------------------------------------------------


def mean_of_curves(means: Array, log_shares: Array) -> Curve:
    """Return a bound of K of either direction: x^{1+λ} and x^{-λ} are convex, so it is log Σ p_i e^{λ(λ+1)m_i²/2}.

    It is convex in λ and 0 at 0, so at least λ times its slope there: next to 0, where the sum loses all digits, that
    is what is left of it.
    """
    log_shares = log_shares - np.logaddexp.reduce(log_shares)
    with np.errstate(over="ignore", under="ignore"):
        kl = max(float(np.exp(log_shares) @ (means * means / 2)) * (1 + 2 * K_ERROR), LEAST)

    def log_moment(lam: Array) -> Array:
        with np.errstate(over="ignore", under="ignore"):
            parts = (lam[:, None] * means) * ((lam[:, None] + 1) * means) / 2
            mean = log_mean(parts, log_shares) * (1 + 2 * K_ERROR) + 4 * ULP  # up: the rounding of a sum next to 1
            return np.asarray(np.maximum(np.maximum(mean, lam * kl), LEAST))

    return Curve(log_moment=log_moment, kl=kl, exact=False)


def _curve_of_mixture(law: StatedMixture) -> Curve:
    """Return K of both directions by quadrature, and a bound of them where that would take too long."""
    bound, farthest = mean_of_curves(law.means, law.log_shares), law.farthest_tilt(FARTHEST_PEAK)
    pairs: Sequence[Any] = law.unsampled(None)
    found = at_least(*(curve_of_pair(pair, farthest, lambda: bound) for pair in pairs))
    return replace(at_most(found, bound), summed=False)
