"""From a privacy profile to a CGF: Balle, Barthe and Gaboardi (2018), Theorem 6."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from cumulant.curves.curve import Array, Curve
from cumulant.errors import UnprovenCombination
from cumulant.numerics.logspace import exp_excess, log_sum
from cumulant.numerics.rounding import ULP
from cumulant.numerics.scalar_logspace import log1p_exp

if TYPE_CHECKING:
    from cumulant.profiles.profile import PrivacyProfile

PRECISION = 3e-5  # of K: cells are split until the chords' excess is estimated to be less than this part of it
MOST_CELLS = 20_000  # of one integral of a profile
FURTHEST = 24  # the integral ends at 2^24 at the latest


def cgf_from_profile(profile: PrivacyProfile, *, ceiling: Curve | None = None) -> Curve:
    """Return a CGF that holds for every mechanism with this profile.

    Balle, Barthe and Gaboardi (2018), Theorem 6, where H <= δ in both directions:

        e^{K(λ)} <= 1 + λ(λ+1) ∫_0^∞ (e^{λε} + e^{-(λ+1)ε}) δ(ε) dε,   K'(0) <= ∫_0^∞ (1 + e^{-ε}) δ(ε) dε.

    H_t is convex in t = e^ε, so between knots it lies below the chord of upper bounds at the knots, which is
    integrated in closed form. The integral ends at `pure`; without pure DP, what is beyond its end is bounded by
    δ(ε) <= c(μ) e^{K̄(μ)-με} for the best μ > λ, where K̄ is the `ceiling`: a CGF that is known to hold.

    Holds for:  relations closed under swapping; `ceiling` without failure probability, same relation.
    Tightness:  exact for symmetric profiles but for the chords, whose excess of K is about 1e-5.
    """
    if math.isinf(profile.pure) if ceiling is None else ceiling.failure > 0:
        raise UnprovenCombination(
            "the moments of a profile that never reaches 0 may be infinite; "
            "give a ceiling: a CGF without failure probability that holds for the mechanism"
        )
    remembered = replace(profile, log_delta=lru_cache(2**17)(profile.log_delta))  # orders share most knots

    def at(lam: float) -> float:
        excess = _log_excess(lam, remembered, ceiling)
        known = math.inf if ceiling is None else ceiling.at(lam)
        return min(log1p_exp(excess + math.log(lam)), known, lam * profile.pure)

    log_kl = _log_excess(0.0, remembered, ceiling)
    kl = math.exp(log_kl) if log_kl < 700 else math.inf
    return Curve(
        log_moment=lambda lam: np.array([at(float(x)) for x in lam]),
        kl=min(kl, math.inf if ceiling is None else ceiling.kl, profile.pure),
        pure=profile.pure if ceiling is None else min(profile.pure, ceiling.pure),
        exact=False,
    )


def _log_excess(lam: float, profile: PrivacyProfile, ceiling: Curve | None) -> float:
    """Return the logarithm of an upper bound of (e^K - 1)/λ, or of K'(0) at λ = 0."""
    if profile.pure == 0:
        return -math.inf
    if ceiling is None:
        return _chord_integral(lam, profile, profile.pure, -math.inf)
    tail = _chernoff_tail(lam, ceiling)
    seen = -math.inf
    for exponent in range(-60, FURTHEST + 1):
        end = 2.0**exponent
        if end >= profile.pure:
            return _chord_integral(lam, profile, profile.pure, -math.inf)
        # What has been passed is at least δ(end) ∫_0^end; an end is far enough if the rest is less by e^-17.
        seen = max(seen, profile.log_delta(end) + math.log1p(lam) + lam * end / 2 + math.log(end))
        rest = tail(end)
        if rest <= seen - 17.0:
            return _chord_integral(lam, profile, end, rest)
    return math.inf


def _chernoff_tail(lam: float, ceiling: Curve) -> Callable[[float], float]:
    """Return end ↦ log (λ+1) ∫_end^∞ (e^{λε} + e^{-(λ+1)ε}) c(μ) e^{K̄(μ)-με} dε at the best of some μ > λ.

    c(μ) = μ^μ/(1+μ)^{1+μ} is the largest payoff (1 - e^{-x}) e^{-μx}.
    """
    gap = 2.0 ** np.arange(-20.0, 40.0)
    mu = lam + gap
    log_payoff = -mu * np.log1p(1 / mu) - np.log1p(mu)
    log_height = ceiling.log_moment(mu) * (1 + 2e-13) + log_payoff + math.log1p(lam) + 1e-13 * np.log1p(mu)

    def log_tail(end: float) -> float:
        # the second exponential is at most the first, and falls faster: twice the first is enough
        values = log_height - gap * end * (1 - 4 * ULP) - np.log(gap) + math.log(2.0)
        return float(np.min(values))

    return log_tail


def _chord_integral(lam: float, profile: PrivacyProfile, end: float, log_tail: float) -> float:
    """Return log (λ+1) ∫_0^end (e^{λε} + e^{-(λ+1)ε}) δ(ε) dε + e^tail, from above.

    Cells are split in two while the chord's gain by it, a third of which is what a further split would gain,
    matters for K.
    """
    dyadic = 2.0 ** np.arange(-60.0, FURTHEST)
    knots = np.concatenate([[0.0], dyadic[dyadic < end], [end]])

    def values(epsilon: Array) -> Array:
        return np.array([-math.inf if e >= profile.pure else profile.log_delta(e) for e in epsilon.tolist()])

    heights = values(knots)
    while True:
        low, high, middle = knots[:-1], knots[1:], 0.5 * (knots[:-1] + knots[1:])
        h_low, h_high, h_middle = heights[:-1], heights[1:], values(middle)
        whole = _chord_cells(lam, low, high, h_low, h_high)
        halves = np.logaddexp(
            _chord_cells(lam, low, middle, h_low, h_middle), _chord_cells(lam, middle, high, h_middle, h_high)
        )
        total = log_sum([log_sum(halves), log_tail])
        if total == -math.inf:
            return total
        with np.errstate(over="ignore"):
            gain = np.exp(whole - total) - np.exp(halves - total)
        split = gain / 3 > PRECISION * _sensitivity(total + math.log(lam) if lam > 0 else -math.inf) / len(gain)
        if not np.any(split) or len(knots) > MOST_CELLS:
            return total + 1e-13
        order = np.argsort(np.concatenate([knots, middle[split]]), kind="stable")
        knots = np.concatenate([knots, middle[split]])[order]
        heights = np.concatenate([heights, h_middle[split]])[order]


def _sensitivity(log_excess: float) -> float:
    """Return K e^K/(e^K - 1) at e^K - 1 = e^x: a relative change of e^K - 1 over that of K."""
    k = log1p_exp(log_excess)
    return k / -math.expm1(-k) if k > 0 else 1.0


def _chord_cells(lam: float, low: Array, high: Array, h_low: Array, h_high: Array) -> Array:
    """Return log (λ+1) ∫ (t^{λ-1} + t^{-λ-2}) chord(t) dt between t₀ = e^low and t₁ = e^high, for every cell, raised.

    With w = log t₁/t₀, κ = λ+1, X(x) = e^x - 1 - x, and H₀, H₁ the heights, λ times this is

        (H₀ [t₁^λ e^w S + t₀^{-κ} R] + H₁ [t₁^λ R + t₀^{-κ} S]) / (e^w - 1),
        S = 1 - κe^{-λw} + λe^{-κw},   R = λX(w) + X(-λw),

    and all terms are positive.
    """
    w, kappa = high - low, lam + 1.0
    with np.errstate(divide="ignore", over="ignore", under="ignore"):
        complement = -np.expm1(-w)  # 1 - e^{-w}
        s, r = _log_weights(lam, w, complement)
        left = np.logaddexp(lam * high + s - np.log(complement), r - kappa * low)
        right = np.logaddexp(lam * high + r, s - w - np.log(complement) - kappa * low)
        # up: the rounding of the exponents, whose size is that of their parts, and of the weights
        left += 4 * ULP * (np.abs(np.where(np.isfinite(h_low), h_low, 0.0)) + 2 * kappa * high) + 1e-13
        right += 4 * ULP * (np.abs(np.where(np.isfinite(h_high), h_high, 0.0)) + 2 * kappa * high) + 1e-13
        return np.logaddexp(h_low + left, h_high + right)


def _log_weights(lam: float, w: Array, complement: Array) -> tuple[Array, Array]:
    """Return log S/λ and log R/(λ(e^w - 1)), by forms that do not cancel; their limits at λ = 0."""
    kappa = lam + 1.0
    below = exp_excess(-lam * w) / lam if lam > 0 else np.zeros_like(w)
    ratio = np.where(w < 1, exp_excess(np.minimum(w, 1.0)) / np.expm1(np.minimum(w, 1.0)), 1 - w / np.expm1(w))
    r = ratio + below * np.exp(-w) / complement
    if lam <= 1:
        s = exp_excess(-kappa * w) - kappa * below
    else:
        near = np.minimum(w, 30.0 / kappa)
        small = np.exp(-kappa * near) * (exp_excess(kappa * near) - kappa * exp_excess(near)) / lam
        s = np.where(kappa * w < 30, small, (1 - kappa * np.exp(-lam * w)) / lam + np.exp(-kappa * w))
    return np.log(s), np.log(r)
