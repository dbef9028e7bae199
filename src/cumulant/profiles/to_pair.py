"""A finite dominating pair from a privacy profile or a Rényi curve: the profile on knots, and chords between.

h is the profile t ↦ H_t of a pair iff h is convex, does not increase, h(0) = 1 and h(t) >= (1 - t)_+. Then P puts mass
t·q where the slope of h rises by q at t, and lim h at infinity is the mass that reveals everything. So upper bounds of
a convex H_t at some t_k give one pair that dominates: the greatest convex function below those points lies above H_t
between the first and the last of them, and beyond the last H_t does not increase. A bound δ(ε) for both orders of all
neighbours bounds H_t for t = e^ε >= 1, and for t < 1 by H_t(P ‖ Q) = 1 - t + t·H_{1/t}(Q ‖ P).
"""

from __future__ import annotations

import math

import numpy as np

from cumulant.curves.curve import Curve
from cumulant.errors import OutOfReach
from cumulant.numerics.logspace import Array
from cumulant.pairs.atoms import ChordAtoms
from cumulant.pairs.finite_pair import FinitePair, finite_pair
from cumulant.profiles.from_curve import profile_from_orders
from cumulant.profiles.profile import PrivacyProfile, binary_profile, smaller_profile

KNOTS = 240  # of ε, and as many of -ε
DEEPEST_NATS = -90.0  # log δ at the last knot, what is revealed at most
LEAST_LOG_DELTA = -600.0  # log δ below the largest loss, at least: no mass that is there may underflow
FARTHEST_KNOT = 300.0  # ε of the last knot: e^ε must be a double with its square
FAR_KNOTS = np.append(1e-3 * 1.25 ** np.arange(57), FARTHEST_KNOT)  # where it may be
LEAST_DELTA = 1e-6  # δ(0) from which rounding is nothing beside it
RAISED = 1e-9  # by which a profile is raised, relatively: more than doubles round masses by
KNOT_TILTS = 2.0 ** (np.arange(-32, 97) / 8)  # λ at which a curve is read


def pair_of_profile(profile: PrivacyProfile) -> FinitePair | None:
    """Return a pair that dominates what the profile bounds; None where doubles do not hold one."""
    last = _last_knot(profile)
    if last is None:
        return None
    knots = last * (np.arange(KNOTS + 1) / KNOTS) ** 1.5
    log_delta = profile.log_deltas(knots)
    # below the largest loss δ is not 0, even if it underflows; where there is none, something is revealed
    return pair_at_knots(knots, np.where(knots < profile.pure, np.maximum(log_delta, LEAST_LOG_DELTA), log_delta))


def pair_of_curve(curve: Curve) -> FinitePair | None:
    """Return a pair that dominates mechanisms with this CGF, alone or among others; None where doubles hold none.

    For a fixed order α let S be the largest H_t of pairs with D_α <= B: the profile of a pair. If D_α(M) <= e, then
    M ⊗ S_{B-e} is dominated by S_B, as moments of products multiply; so releases with D_α <= e_i each, Σ e_i <= B, may
    stand anywhere among others, adaptively, and the whole is dominated by the product of the others' pairs with S_B.
    The same holds for S under all orders at once, which is at most the smallest bound of any order, here
    δ <= c(λ) e^{K(λ)-λε} (Canonne, Kamath and Steinke 2020), and so at most the convex minorant of these.

    Holds for:  any mechanisms whose CGFs add up to `curve` in both orders of the neighbours.
    Tightness:  what a curve says of a profile, up to chords; products with it beat adding CGFs where the others gain.
    """
    if curve.failure > 0 or not np.any(np.isfinite(curve(KNOT_TILTS))):
        return None
    profile = profile_from_orders(curve)
    if curve.pure < math.inf:
        profile = smaller_profile(profile, binary_profile(curve.pure))
    if 0 < curve.kl < math.inf:  # Bretagnolle and Huber's inequality
        variation = 0.5 * math.log(-math.expm1(-curve.kl))
        profile = smaller_profile(profile, PrivacyProfile.of(lambda epsilons: np.full(len(epsilons), variation)))
    return pair_of_profile(profile)


def _last_knot(profile: PrivacyProfile) -> float | None:
    """Return an ε from which on δ is next to nothing, or falls no more; None where δ(0) is next to nothing."""
    if not profile.log_delta(0.0) >= math.log(LEAST_DELTA):
        return None
    if profile.pure < math.inf:
        return profile.pure if profile.pure <= FARTHEST_KNOT else None
    low = max(DEEPEST_NATS, profile.log_delta(FARTHEST_KNOT) + 1e-9)
    return float(FAR_KNOTS[np.argmax(profile.log_deltas(FAR_KNOTS) <= low)])


def pair_at_knots(knots: Array, log_delta: Array) -> FinitePair | None:
    """Return the symmetric pair of the greatest convex function below a profile at ε and -ε; the first ε is 0.

    Its masses at t > 1 follow from slopes there, those at 1/t are the same with P and Q exchanged, the rest is at 1.
    Where that would be negative the points next to 1 are above a chord from 1/t to t, of slope (h(t)-1)/(t+1). Slopes
    are multiplied by t: a difference of δ over one of ε, which neither overflows nor underflows before δ does.
    """
    h = np.minimum(np.exp(np.maximum.accumulate(log_delta[::-1])[::-1]) * (1 + RAISED), 1.0)
    kept = _lower_hull(knots, h)
    losses, h = knots[kept], h[kept]
    rising = np.append(np.diff(h) / np.expm1(np.diff(losses)), 0.0)  # t·slope to the right of t, and to its left
    falling = np.diff(h) / -np.expm1(-np.diff(losses))
    chords = (h - 1) / (1 + np.exp(-losses))
    first = int(np.argmax(rising >= chords))
    losses, h, rising = losses[first:], h[first:], rising[first:]
    p = rising - np.append(chords[first], falling[first:])
    even = 0.0
    if first == 0:
        even, losses, p = max(1 - float(h[0]) + 2 * float(rising[0]), 0.0), losses[1:], p[1:]
    there = p > 0
    losses, log_p = losses[there], np.log(p[there])
    middle = ([0.0], [math.log(even)]) if even > 0 else ([], [])
    rows = (
        np.concatenate([-losses[::-1], middle[0], losses]),
        np.concatenate([(log_p - losses)[::-1], middle[1], log_p]),
    )
    try:
        return finite_pair(ChordAtoms(rows[0].tobytes(), rows[1].tobytes(), float(h[-1])))
    except OutOfReach:
        return None


def _lower_hull(losses: Array, h: Array) -> list[int]:
    """Return which points lie on the greatest convex function of t = e^ε below all of them."""
    hull: list[int] = []
    for i in range(len(losses)):
        while len(hull) > 1:
            a, b = hull[-2], hull[-1]
            before = (h[b] - h[a]) / -math.expm1(losses[a] - losses[b])
            if before < (h[i] - h[b]) / math.expm1(losses[i] - losses[b]):
                break
            hull.pop()
        hull.append(i)
    return hull
