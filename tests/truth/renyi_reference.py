"""The law of the likelihood ratio of a dominating pair, and expectations of convex functions of it.

r = dP/dQ under Q. All pairs here are symmetric: an involution of the outputs exchanges P and Q (Gaussian and
Laplace noise, randomized response), so one law describes both orders. Sampling at rate γ turns r into the mixture
ratio w = 1 - γ + γr, and every moment that amplification needs is an expectation of

    f_β(w) = w^β - 1 - β(w - 1) >= 0,    β > 1 or β < 0:

E_Q[f_α(w)] is the α-th moment, less 1, of the mixture against Q, and E_Q[f_{1-α}(w)] that of Q against the
mixture. The integrand is positive and no terms cancel, so the excess over 1 keeps its relative accuracy.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from cumulant.numerics.logspace import Array, exp_excess, log1p_deficit, log_expm1, log_mean
from cumulant.numerics.quadrature import nodes_on

BATCH = 24  # orders whose integrals are taken on the same nodes

NEGLIGIBLE_NATS = 50.0  # nats below the peak that may be left out: e^-50 is 2e-22
STEEP = 10.0  # nats of growth that one piece resolves to 1e-17
CAPPED = 550.0  # log w beyond which w - 1 is not kept


@dataclass(frozen=True, kw_only=True)
class Integrands:
    """Several positive integrands e^{rising(x) + weight(x)}, one row each, and what is known of their shape.

    `rising` does not decrease and is at most `growth`, which is convex; `weight` is concave, largest at 0, with second
    derivative at least -`curvature`; `widest(a, b)` is how wide a piece the rule resolves on [a, b].
    """

    rising: Callable[[Array], Array]
    growth: Callable[[Array], Array]
    weight: Callable[[Array], Array]
    curvature: float
    widest: Callable[[Array, Array], Array]

    def ceiling(self, a: Array, b: Array) -> Array:
        """Return an upper bound of the log-integrands on each [a, b]."""
        by_monotony = self.rising(b) + self.weight(np.clip(0.0, a, b))
        # growth lies below its chord and weight below its tangent at the middle: the sum is largest at an end
        at_ends = np.maximum(self.growth(a) + self.weight(a), self.growth(b) + self.weight(b))
        return np.minimum(by_monotony, at_ends + self.curvature * (b - a) ** 2 / 8)

    def too_coarse(self, a: Array, b: Array, relevant: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Whether the rule cannot resolve [a, b]: too wide, or too steep for an integrand that is relevant there."""
        rise = np.abs(self.growth(b) + self.weight(b) - self.growth(a) - self.weight(a))
        steep = np.any((rise > STEEP) & relevant, axis=0) & (b - a > 1e-12 * np.abs(b))
        coarse: NDArray[np.bool_] = (b - a > self.widest(a, b)) | steep
        return coarse


def relevant_pieces(low: float, high: float, integrands: Integrands) -> tuple[Array, Array]:
    """Return pieces of [low, high] that carry the integrals, fine enough for the rule.

    Pieces whose ceiling is far below what the peak attains are dropped, coarse ones are halved, in O(log of the
    range) rounds.
    """
    edges = np.linspace(low, high, 17)
    a, b = edges[:-1], edges[1:]
    for _ in range(100):
        attained = np.max(integrands.rising(b) + integrands.weight(b), axis=1, keepdims=True)
        relevant = integrands.ceiling(a, b) > attained - NEGLIGIBLE_NATS
        keep = np.any(relevant, axis=0)
        a, b = a[keep], b[keep]
        coarse = integrands.too_coarse(a, b, relevant[:, keep])
        if not np.any(coarse):
            break
        a, b = _halved(a, b, coarse)
    return a, b


def fine_pieces(low: float, high: float, widest: Callable[[Array, Array], Array]) -> tuple[Array, Array]:
    """Return pieces of [low, high], none wider than the rule resolves."""
    a, b = np.array([low]), np.array([high])
    while np.any(coarse := b - a > widest(a, b)):
        a, b = _halved(a, b, coarse)
    return a, b


def _halved(a: Array, b: Array, coarse: NDArray[np.bool_]) -> tuple[Array, Array]:
    middle = (a[coarse] + b[coarse]) / 2
    return np.concatenate([a[~coarse], a[coarse], middle]), np.concatenate([b[~coarse], middle, b[coarse]])


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class LikelihoodRatio:
    """The law of log r under Q: atoms, and a density in t where log r = slope·t + offset.

    `log_density` is concave and largest at t = 0, with second derivative at least -`curvature`; `upper(α)` is where
    nothing of order α is left; `widest` is the widest piece on which the density is resolved; beyond `farthest_order`
    doubles do not resolve the peak.
    """

    atoms: tuple[tuple[float, float], ...] = ()
    slope: float = 1.0
    offset: float = 0.0
    log_density: Callable[[Array], Array] | None = None
    curvature: float = 0.0
    lower: float = 0.0
    upper: Callable[[float], float] = lambda order: 0.0
    widest: float = 1.0
    farthest_order: float = 1e300

    def below_one(self, *, rate: float) -> tuple[Array, Array]:
        """Return log r < 0 and log-masses, of atoms and of quadrature nodes."""
        atoms = self._atoms(lambda log_ratio: log_ratio < 0)
        if self.log_density is None:
            return atoms
        top = min(-self.offset / self.slope, -self.lower)  # beyond -lower the density is negligible
        return self._joined(atoms, self.log_density, fine_pieces(self.lower, top, self._resolved(rate)))

    def above_one(self, *, rate: float, orders: Array) -> tuple[Array, Array]:
        """Return log r > 0 and log-masses that carry w^α for every order in `orders`."""
        atoms = self._atoms(lambda log_ratio: log_ratio > 0)
        if self.log_density is None:
            return atoms

        def mixture(t: Array) -> tuple[Array, Array]:
            return mixture_ratio(self.slope * t + self.offset, rate)

        integrands = Integrands(
            rising=lambda t: log_bregman(orders[:, None], *mixture(t)),
            growth=lambda t: orders[:, None] * mixture(t)[1],
            weight=self.log_density,
            curvature=self.curvature,
            widest=self._resolved(rate),
        )
        one, top = -self.offset / self.slope, self.upper(float(np.max(orders)))
        return self._joined(atoms, self.log_density, relevant_pieces(one, top, integrands))

    def _resolved(self, rate: float) -> Callable[[Array, Array], Array]:
        """Return how wide a piece [a, b] may be: the mixture w vanishes at log r = log((1-γ)/γ) ± iπ."""
        bend = (math.log1p(-rate) - math.log(rate) - self.offset) / self.slope if rate < 1 else -math.inf

        def widest(a: Array, b: Array) -> Array:
            distance = np.maximum(np.maximum(a - bend, bend - b), 0.0)
            return np.minimum(self.widest, np.maximum(2.0 / self.slope, 0.7 * distance))

        return widest

    def _atoms(self, chosen: Callable[[float], bool]) -> tuple[Array, Array]:
        picked = [atom for atom in self.atoms if chosen(atom[0])]
        return np.array([log_ratio for log_ratio, _ in picked]), np.array([mass for _, mass in picked])

    def _joined(
        self, atoms: tuple[Array, Array], log_density: Callable[[Array], Array], pieces: tuple[Array, Array]
    ) -> tuple[Array, Array]:
        t, log_weights = nodes_on(*pieces)
        return (
            np.concatenate([atoms[0], self.slope * t + self.offset]),
            np.concatenate([atoms[1], log_weights + log_density(t)]),
        )


def gaussian_ratio(mean: float) -> LikelihoodRatio:
    """Return the ratio of N(μ,1) to N(0,1): log r = μt - μ²/2 with t standard normal under Q."""
    return LikelihoodRatio(
        slope=mean,
        offset=-mean * mean / 2,
        log_density=lambda t: -t * t / 2 - math.log(2 * math.pi) / 2,
        curvature=1.0,
        lower=-12.0,
        upper=lambda order: max(order, 2.0) * mean + 12.0,  # w^α e^{-t²/2} peaks below t = αμ, f at 2μ for small u
        farthest_order=1e6 / mean,  # there t²/2 is known to 1e-4
    )


def laplace_ratio(theta: float) -> LikelihoodRatio:
    """Return the ratio of Laplace(1, b) to Laplace(0, b), θ = 1/b: atoms at ±θ, density e^{-(t+θ)/2}/4 between."""
    return LikelihoodRatio(
        atoms=((-theta, -math.log(2.0)), (theta, -theta - math.log(2.0))),
        log_density=lambda t: -(t + theta) / 2 - math.log(4.0),
        lower=-theta,
        upper=lambda order: theta,
        widest=4.0,
        farthest_order=1e9 / max(theta, 1.0),
    )


def binary_ratio(epsilon: float) -> LikelihoodRatio:
    """Return the ratio of randomized response: e^ε with mass 1/(1+e^ε) under Q, e^-ε with the rest."""
    log_rare = -epsilon - math.log1p(math.exp(-epsilon))
    return LikelihoodRatio(atoms=((-epsilon, log_rare + epsilon), (epsilon, log_rare)))


def mixture_ratio(log_ratio: Array, rate: float) -> tuple[Array, Array]:
    """Return (w - 1, log w) of w = 1 - γ + γr; w - 1 is capped where it would overflow."""
    excess = rate * np.expm1(np.minimum(log_ratio, CAPPED + 50))
    # away from w = 1 the logarithms of the two parts are added: 1 + excess would have lost the digits of 1 - γ
    apart = np.logaddexp(math.log1p(-rate), math.log(rate) + log_ratio)
    return excess, np.where(np.abs(excess) < 0.5, np.log1p(np.clip(excess, -0.5, 0.5)), apart)


def log_bregman(beta: Array, excess: Array, log_w: Array) -> Array:
    """Return log f_β(w), f_β(w) = w^β - 1 - β(w-1), from w - 1 and log w."""
    x = beta * log_w
    deficit = np.where(np.abs(excess) < 0.1, log1p_deficit(np.clip(excess, -0.1, 0.1)), excess - log_w)
    # All terms are positive: for β < 0,  f = (e^x - 1 - x) + |β|(w - 1 - log w);
    # for β = 1 + h,                      f = h(w log w - (w-1)) + w(e^{h log w} - 1 - h log w).
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        falling = exp_excess(np.minimum(x, 30.0)) - beta * deficit
        h = beta - 1
        rising = h * (excess * log_w - deficit) + np.exp(log_w) * exp_excess(np.where(x < 30.0, h * log_w, 0.0))
        near = np.log(np.maximum(np.where(beta > 1, rising, falling), 0.0))
        # w - 1 is capped out there: for β < 0, f <= |β|w, which is as good as equal
        near = np.where((log_w > CAPPED) & (beta < 0), np.log(np.abs(beta)) + log_w, near)
        return near if np.all(x < 30.0) else np.where(x < 30.0, near, _far_log_bregman(beta, excess, log_w))


def _far_log_bregman(beta: Array, excess: Array, log_w: Array) -> Array:
    """Return the same for w^β > e^30. For β = 1 + h, f = w(e^{h log w} - 1 - h(1 - 1/w)), to all digits of h."""
    x, h = beta * log_w, np.maximum(beta - 1, 0.0)
    growth = log_expm1(np.where(beta > 1, np.maximum(h * log_w, 0.0), 1.0))  # log(w^h - 1)
    rising = log_w + growth + np.log1p(h * np.expm1(-np.maximum(log_w, 0.0)) * np.exp(-growth))
    falling = x + np.log1p(-(1 + beta * excess) * np.exp(-np.maximum(x, 30.0)))
    return np.where(beta > 1, rising, falling)


def moment_of_mixture(ratio: LikelihoodRatio, *, rate: float, orders: Array) -> Array:
    """Return log(A - 1), A = E_Q[w^α]: the moment of (1-γ)Q + γP against Q, at any real order α > 1."""
    return np.logaddexp(
        _log_mean_bregman(ratio.below_one(rate=rate), rate, orders),
        _log_mean_bregman(ratio.above_one(rate=rate, orders=orders), rate, orders),
    )


def moment_of_envelope(ratio: LikelihoodRatio, *, rate: float, orders: Array) -> Array:
    """Return log(E_Q[f_α(w); r > 1] + E_Q[f_{1-α}(w); r > 1]): see `sampling.without_replacement`."""
    nodes = ratio.above_one(rate=rate, orders=orders)
    return np.logaddexp(_log_mean_bregman(nodes, rate, orders), _log_mean_bregman(nodes, rate, 1 - orders))


def in_small_batches(evaluate: Callable[[Array], Array], orders: Array) -> Array:
    """Evaluate a moment at many orders, a few neighbouring ones at a time: they share nodes, distant ones do not."""
    if orders.size <= BATCH:
        return evaluate(orders)
    ranks = np.argsort(orders)
    values = np.empty(orders.shape)
    for start in range(0, orders.size, BATCH):
        chosen = ranks[start : start + BATCH]
        values[chosen] = evaluate(orders[chosen])
    return values


def _log_mean_bregman(nodes: tuple[Array, Array], rate: float, betas: Array) -> Array:
    log_ratio, log_masses = nodes
    return log_mean(log_bregman(betas[:, None], *mixture_ratio(log_ratio, rate)), log_masses)
