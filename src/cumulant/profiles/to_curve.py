"""From a privacy profile to a CGF: Balle, Barthe and Gaboardi (2018), Theorem 6."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from cumulant.curves.curve import Array, Curve, remembered
from cumulant.errors import UnprovenCombination
from cumulant.numerics.logspace import exp_excess, log_sum
from cumulant.numerics.rounding import ULP
from cumulant.numerics.scalar_logspace import log1p_exp

if TYPE_CHECKING:
    from cumulant.profiles.profile import PrivacyProfile

PRECISION = 3e-5  # of K: cells are split until the chords' excess is estimated to be less than this part of it
MOST_CELLS = 20_000  # of one integral of a profile
FURTHEST = 24  # the integral ends at 2^24 at the latest
DYADIC = 2.0 ** np.arange(-60.0, FURTHEST + 1)  # ε where all integrals have knots


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
    shared = replace(profile, of_many=remembered(profile.log_deltas))  # by orders, which have most knots in common

    def at(lam: float) -> float:
        excess = _log_excess(lam, shared, ceiling)
        known = math.inf if ceiling is None else ceiling.at(lam)
        return min(log1p_exp(excess + math.log(lam)), known, lam * profile.pure)

    log_kl = _log_excess(0.0, shared, ceiling)
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
    ends = DYADIC[profile.pure > DYADIC]
    rest = _chernoff_tail(lam, ceiling)(ends)
    # What has been passed is at least δ(end) ∫_0^end; an end is far enough if the rest is less by e^-17.
    passed = np.maximum.accumulate(profile.log_deltas(ends) + math.log1p(lam) + lam * ends / 2 + np.log(ends))
    enough = np.flatnonzero(rest <= passed - 17.0)
    if len(enough):
        return _chord_integral(lam, profile, float(ends[enough[0]]), float(rest[enough[0]]))
    return _chord_integral(lam, profile, profile.pure, -math.inf) if len(ends) < len(DYADIC) else math.inf


def _chernoff_tail(lam: float, ceiling: Curve) -> Callable[[Array], Array]:
    """Return ends ↦ log (λ+1) ∫_end^∞ (e^{λε} + e^{-(λ+1)ε}) c(μ) e^{K̄(μ)-με} dε at the best of some μ > λ.

    c(μ) = μ^μ/(1+μ)^{1+μ} is the largest payoff (1 - e^{-x}) e^{-μx}.
    """
    gap = 2.0 ** np.arange(-20.0, 40.0)
    mu = lam + gap
    log_payoff = -mu * np.log1p(1 / mu) - np.log1p(mu)
    log_height = ceiling.log_moment(mu) * (1 + 2e-13) + log_payoff + math.log1p(lam) + 1e-13 * np.log1p(mu)

    def log_tail(ends: Array) -> Array:
        # the second exponential is at most the first, and falls faster: twice the first is enough
        values = log_height - gap * ends[:, None] * (1 - 4 * ULP) - np.log(gap) + math.log(2.0)
        return np.asarray(np.min(values, axis=1))

    return log_tail


def _chord_integral(lam: float, profile: PrivacyProfile, end: float, log_tail: float) -> float:
    """Return log (λ+1) ∫_0^end (e^{λε} + e^{-(λ+1)ε}) δ(ε) dε + e^tail, from above.

    Cells are split in two while the chord's gain by it, a third of which is what a further split would gain,
    matters for K.
    """
    knots = np.concatenate([[0.0], DYADIC[end > DYADIC], [end]])
    heights = _heights(profile, knots)
    ends = np.array([knots[:-1], knots[1:], heights[:-1], heights[1:]])
    cells = _halved(lam, profile, ends, _chord_cells(lam, *ends))
    while True:
        whole, halves = cells[0], np.logaddexp(cells[1], cells[2])
        total = log_sum([log_sum(halves), log_tail])
        if total == -math.inf:
            return total
        with np.errstate(over="ignore"):
            gain = np.exp(whole - total) - np.exp(halves - total)
        split = gain / 3 > PRECISION * _sensitivity(total + math.log(lam) if lam > 0 else -math.inf) / len(gain)
        if not np.any(split) or len(gain) >= MOST_CELLS:
            return total + 1e-13
        _, left, right, low, high, middle, h_low, h_high, h_middle = cells[:, split]
        children = np.hstack([[low, middle, h_low, h_middle], [middle, high, h_middle, h_high]])
        new = _halved(lam, profile, children, np.concatenate([left, right]))
        cells = np.hstack([cells[:, ~split], new])


def _heights(profile: PrivacyProfile, epsilons: Array) -> Array:
    """Return log δ, -inf from the largest loss on."""
    heights, below = np.full(len(epsilons), -np.inf), epsilons < profile.pure
    heights[below] = profile.log_deltas(epsilons[below])
    return heights


def _halved(lam: float, profile: PrivacyProfile, ends: Array, whole: Array) -> Array:
    """Return for cells their integrals whole, of both halves, and the ends, middles and heights they have."""
    low, high, h_low, h_high = ends
    middle = 0.5 * (low + high)
    h_middle = _heights(profile, middle)
    halves = np.hstack([[low, middle, h_low, h_middle], [middle, high, h_middle, h_high]])
    left, right = np.split(_chord_cells(lam, *halves), 2)
    return np.array([whole, left, right, low, high, middle, h_low, h_high, h_middle])


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
