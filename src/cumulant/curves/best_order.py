"""The analytical moments accountant's queries: the best order for a δ or an ε.

Wang, Balle and Kasiviswanathan (2019), Section 4, Algorithm 5 and Proposition 23: double λ until the minimum is
enclosed, then shrink the bracket; O(log(λ*/τ)) evaluations of K, at any real order, with no list of orders.
Corollary 32 makes the classical objectives unimodal; the walk is patient enough for the optimal conversion,
which is not known to be. Every order gives a valid bound, so a missed optimum would cost tightness only.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from cumulant.curves.both_orders import (
    both_orders_epsilon,
    both_orders_log_delta,
    epsilon_of_odds,
    log_delta_of_odds,
    order_one_epsilon,
    order_one_log_delta,
)
from cumulant.curves.conversion import (
    canonne_kamath_steinke_epsilon,
    canonne_kamath_steinke_log_delta,
    log_delta_below_pure,
    optimal_epsilon,
    optimal_log_delta,
)
from cumulant.curves.curve import Array, Curve
from cumulant.curves.failure import log_delta_left, log_delta_with
from cumulant.numerics.rounding import ROUNDING, less_rounding
from cumulant.numerics.search import TO_TWELVE_DIGITS, minimise_positive

Rule = Callable[[float, float, float], float]
DEEP_NATS = 1e4  # of log δ, beyond which the best order next to a wall is found to a share of 1e-10
KNOTS_ASKED = 16  # of a curve, the best by the classical bound
K_ERROR = 1e-13  # the relative error a Curve is allowed; K is raised by it


def epsilon_from_cgf(cgf: Curve, log_delta: float, rule: Rule = both_orders_epsilon) -> tuple[float, float | None]:
    """Return (ε, α): the smallest ε that a conversion proves at δ, and the order that proves it.

    δ = 1 needs no order and gives (0, None); pure DP is order ∞. A curve bounds both orders of the neighbours, as all
    relations are symmetric; what is left beside a failure probability is taken to have one order bounded.
    """
    has_both = rule is both_orders_epsilon and cgf.failure == 0
    rule = optimal_epsilon if rule is both_orders_epsilon and not has_both else rule
    log_delta = log_delta_left(cgf.failure, log_delta)
    if math.isnan(log_delta):
        return math.inf, None
    if log_delta >= 0 or cgf.pure == 0:
        return 0.0, None
    log_delta = less_rounding(log_delta)
    if log_delta == -math.inf:
        return cgf.pure, math.inf
    at_infinity = (_epsilon_below_odds if has_both else _epsilon_below_pure)(cgf.pure, log_delta)
    proven = _at_every_order(cgf, rule, log_delta)
    lam, epsilon = _or_at_a_knot(cgf, proven, canonne_kamath_steinke_epsilon, log_delta, minimise_positive(proven))
    at_one = order_one_epsilon(cgf.kl * (1 + K_ERROR), log_delta) if has_both else math.inf
    lam, epsilon = (0.0, at_one) if at_one < epsilon else (lam, epsilon)
    # Safe side: what beats pure DP by rounding only does not beat it, and δ(ε) is asked of pure DP as well.
    if at_infinity <= epsilon + (16 * ROUNDING * (1 + cgf.pure) if cgf.pure < math.inf else 0.0):
        return max(0.0, at_infinity), math.inf
    # Safe side: log δ came from a rounded δ, and ε(δ) must not undercut δ(ε) by a rounding error.
    raised = 1e-13 if abs(log_delta) < DEEP_NATS else 1e-10
    return max(0.0, epsilon + 4e-14 * (1 + abs(log_delta)) / max(lam, 1.0) + raised * epsilon), 1 + lam


def _epsilon_below_pure(pure: float, log_delta: float) -> float:
    """Return ε + log(1-δ), rounded up: Asoodeh et al. (2020), (19) at α = ∞."""
    raised = pure * (1 + K_ERROR)
    epsilon = raised + math.log1p(-math.exp(log_delta) * (1 - 1e-15))  # safe side: less of δ is subtracted
    undercuts = 0 < epsilon < pure < math.inf and log_delta_below_pure(epsilon, pure) > log_delta
    return min(epsilon + 4 * ROUNDING * (1 + raised), pure) if undercuts else epsilon  # so that δ(ε(δ)) <= δ


def _epsilon_below_odds(pure: float, log_delta: float) -> float:
    """Return ε of randomized response, the worst of all pure DP in both orders, rounded up."""
    return min(pure, epsilon_of_odds(log_delta, pure * (1 + K_ERROR))) if pure < math.inf else math.inf


def log_delta_from_cgf(cgf: Curve, epsilon: float, *, turns: int = TO_TWELVE_DIGITS) -> tuple[float, float | None]:
    """Return (log δ, α): the smallest δ that the optimal conversion proves at ε, and the order.

    `turns` are those of `minimise_positive`: fewer look at fewer orders.
    """
    if epsilon >= cgf.pure:
        return log_delta_with(cgf.failure, -math.inf), math.inf
    has_both = cgf.failure == 0
    rule = both_orders_log_delta if has_both else optimal_log_delta
    # The classical bound is convex in λ and never flat, so it finds the right octave.
    start, _ = minimise_positive(_at_every_order(cgf, canonne_kamath_steinke_log_delta, epsilon), turns=0)
    proven = _at_every_order(cgf, rule, epsilon)
    found = minimise_positive(proven, start=start, turns=turns)
    lam, log_delta = _or_at_a_knot(cgf, proven, canonne_kamath_steinke_log_delta, epsilon, found)
    at_one = order_one_log_delta(cgf.kl * (1 + K_ERROR), epsilon) if has_both else 0.0
    lam, log_delta = (0.0, at_one) if at_one < log_delta else (lam, log_delta)
    if math.isfinite(cgf.pure):
        at_infinity = (log_delta_of_odds if has_both else log_delta_below_pure)(epsilon, cgf.pure)
        if at_infinity <= log_delta:
            return log_delta_with(cgf.failure, at_infinity), math.inf
    return log_delta_with(cgf.failure, min(0.0, log_delta)), 1 + lam


def _or_at_a_knot(
    cgf: Curve, proven: Callable[[Array], Array], classical: Rule, target: float, found: tuple[float, float]
) -> tuple[float, float]:
    """Return the best order found, or a knot of the curve that is better: next to one there may be a narrow valley."""
    if not cgf.knots:
        return found
    heights = _at_every_order(cgf, classical, target)(np.array(cgf.knots))
    some = np.array(cgf.knots)[np.argsort(heights, kind="stable")[:KNOTS_ASKED]]
    values = proven(some)
    best = int(np.argmin(values))
    return (float(some[best]), float(values[best])) if values[best] < found[1] else found


def _at_every_order(cgf: Curve, rule: Rule, target: float) -> Callable[[Array], Array]:
    """Return λ ↦ what a conversion proves at order λ + 1, with K raised by the error it is allowed."""

    def proven(lam: Array) -> Array:
        k = cgf.log_moment(lam) * (1 + K_ERROR)
        return np.array([rule(x, y, target) for x, y in zip(lam.tolist(), k.tolist(), strict=True)])

    return proven
