"""Answers from what is known: a formula if there is one, else the dominating pairs, else Rényi DP, else refuse."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from cumulant.answer import CLOSELY, EXACTLY, Guarantee, Interval, Method, above_of
from cumulant.curves.best_order import epsilon_from_cgf, log_delta_from_cgf
from cumulant.errors import InvalidParameter, OutOfReach, UnprovenCombination
from cumulant.inversion.batch import rough_epsilon, rough_log_delta
from cumulant.inversion.choose import sampled_epsilon, sampled_log_delta
from cumulant.inversion.enclosure import EXACT_AT_ZERO, EXACT_SHARE
from cumulant.inversion.solve import Directions, Inversion, epsilon_of_pairs, log_delta_of_pairs
from cumulant.mechanisms.known import Known, Relation
from cumulant.neighbors import ADD_REMOVE
from cumulant.numerics.logspace import Array
from cumulant.numerics.rounding import SPARSE, exp_above, less_rounding, more_rounding
from cumulant.profiles.profile import PrivacyProfile

METHODS = ("best", "exact", "rdp")
ROUGH_NATS = 1e-3  # slack in log δ from which Rényi DP is asked as well
NO_PAIRS = (
    "an exact answer needs the dominating pair of every release, and one of these has none; "
    'use method="best" for the tightest bound that is proven'
)
FAR_BELOW = 0.6  # of the upper end: a lower end there is not found from above
FARTHEST_ASKED = 1e40  # ε: δ of unbounded losses at larger ones is at most that at this one, far below doubles


def guarantee_at_delta(
    known: Known, relation: Relation, log_delta: float, method: Method, *, accuracy: float = EXACTLY
) -> Guarantee:
    """Return the smallest proven ε at δ; it may be above by a share `accuracy` of it where that comes sooner."""
    profile = _profile(known, relation, method)
    if profile is not None and (by_profile := profile.epsilon(less_rounding(log_delta))) < math.inf:
        share = _share_above(profile, by_profile, log_delta) if _is_attained(known, relation) else None
        return Guarantee.by_profile(by_profile, log_delta, theorem=profile.theorem, at_most_above=share)
    if method != "rdp" and known.sampled is not None:
        short = sampled_epsilon(known.sampled, log_delta)
        if short is not None:
            return Guarantee.by_pairs(short, log_delta, "contour", excess=CLOSELY)
    inverted = _invert(known, relation, lambda pairs: _epsilon(pairs, log_delta, accuracy), method)
    # next to the largest loss ε is exact while δ drowns in rounding
    is_settled = inverted is not None and inverted.excess <= EXACTLY and not known.may_be_sharper
    if inverted is None or (method != "exact" and not is_settled and _is_doubtful(known, inverted)):
        epsilon, order = epsilon_from_cgf(known.curve(), log_delta)
        if inverted is None or inverted.value > epsilon:
            return _by_profiles(known, relation, method, Guarantee.by_rdp(epsilon, log_delta, order))
    return Guarantee.by_pairs(inverted.value, log_delta, inverted.route, excess=_excess(known, relation, inverted))


def _share_above(profile: PrivacyProfile, epsilon: float, log_delta: float) -> float:
    """Return a share of ε by which it is above what is needed, at most: where a profile is flat, rounding goes far."""
    shares = (CLOSELY, EXACTLY, 1e-3)
    larger = (share for share in shares if profile.log_delta(epsilon * (1 - share)) > more_rounding(log_delta))
    share = CLOSELY if epsilon <= EXACT_AT_ZERO else next(larger, 1.0)
    return share if share == CLOSELY else above_of(share)


def _epsilon(pairs: Directions, log_delta: float, accuracy: float) -> Inversion:
    """Return ε of pairs: by a shorter line where that is accurate enough."""
    if accuracy > EXACTLY and (rough := rough_epsilon(pairs, log_delta, accuracy)) is not None:
        return rough
    return epsilon_of_pairs(pairs, log_delta)


def _log_delta(pairs: Directions, epsilon: float, accuracy: float) -> Inversion:
    """Return log δ of pairs: by a shorter line where that is accurate enough."""
    if accuracy > EXACTLY and (rough := rough_log_delta(pairs, epsilon, accuracy)) is not None:
        return rough
    return log_delta_of_pairs(pairs, epsilon)


def log_asked(known: Known, delta: Any, log_delta: float) -> float:
    """Return log δ, less than that of the failure probability where δ is: their logarithms may be one double."""
    failure = _failure_beside(known, delta)
    return min(log_delta, math.nextafter(math.log(failure), -math.inf)) if failure > (delta or 0) else log_delta


def logs_asked(known: Known, delta: ArrayLike | None, log_delta: Array) -> Array:
    """Return log δ of many δ, each less than that of the failure probability where it is."""
    if _failure_beside(known, delta) == 0:
        return log_delta
    deltas = np.broadcast_to(np.asarray(delta, dtype=float), log_delta.shape)
    some = [log_asked(known, one, log) for one, log in zip(deltas.flat, log_delta.flat, strict=True)]
    return np.array(some).reshape(log_delta.shape)


def _failure_beside(known: Known, delta: ArrayLike | None) -> float:
    """Return the failure probability where δ was given as a number; Gaussian noise on samples has none."""
    return known.failure() if delta is not None and known.sampled is None else 0.0


def nearer_epsilon(known: Known, epsilon: float) -> float:
    """Return ε, or less where it is so large that its products are no doubles and losses have no largest value."""
    return epsilon if epsilon <= FARTHEST_ASKED or known.curve().pure < math.inf else FARTHEST_ASKED


def guarantee_at_epsilon(
    known: Known, relation: Relation, epsilon: float, method: Method, *, accuracy: float = EXACTLY
) -> Guarantee:
    """Return the smallest proven δ at ε."""
    profile = _profile(known, relation, method)
    if profile is not None:
        log_delta = profile.log_delta(epsilon)
        share = CLOSELY if _is_attained(known, relation) else None
        found = Guarantee.by_profile(epsilon, log_delta, theorem=profile.theorem, at_most_above=share)
    else:
        nearer = nearer_epsilon(known, epsilon)
        found = _guarantee_at_epsilon(known, relation, nearer, method, accuracy)
        if nearer < epsilon:
            found = replace(found, epsilon=epsilon, exact=False, at_most_above=None)
    return replace(found, stated_delta=_stated_failure(known, epsilon))


def _guarantee_at_epsilon(
    known: Known, relation: Relation, epsilon: float, method: Method, accuracy: float
) -> Guarantee:
    if method != "rdp" and known.sampled is not None:
        short = sampled_log_delta(known.sampled, epsilon)
        if short is not None:
            return Guarantee.by_pairs(epsilon, short, "contour", excess=CLOSELY)
    inverted = _invert(known, relation, lambda pairs: _log_delta(pairs, epsilon, accuracy), method)
    if inverted is None or (method != "exact" and _is_doubtful(known, inverted)):
        log_delta, order = log_delta_from_cgf(known.curve(), epsilon)
        if inverted is None or inverted.value > log_delta:
            return _by_profiles(known, relation, method, Guarantee.by_rdp(epsilon, log_delta, order), at_epsilon=True)
    return Guarantee.by_pairs(epsilon, inverted.value, inverted.route, excess=_excess(known, relation, inverted))


def _by_profiles(
    known: Known, relation: Relation, method: Method, by_rdp: Guarantee, *, at_epsilon: bool = False
) -> Guarantee:
    """Return what profiles of parts without pairs say, composed with the pairs of the others, if that is less.

    At δ = 0 they say no more than that largest losses add up.
    """
    if by_rdp.log_delta == -math.inf:
        return by_rdp
    directions = known.by_profiles(relation) if method == "best" and known.directions(relation) is None else None
    if directions is None:
        return by_rdp
    try:
        if at_epsilon:
            log_delta = log_delta_of_pairs(directions, by_rdp.epsilon).value
            found = Guarantee.by_pairs(by_rdp.epsilon, log_delta, "profiles", excess=None)
        else:
            epsilon = epsilon_of_pairs(directions, by_rdp.log_delta).value
            found = Guarantee.by_pairs(epsilon, by_rdp.log_delta, "profiles", excess=None)
    except OutOfReach:
        return by_rdp
    return min(by_rdp, found, key=lambda one: (one.log_delta, one.epsilon))


def bound_from_below(known: Known, relation: Relation, guarantee: Guarantee) -> Guarantee:
    """Return the guarantee with how far it can be above what attained pairs need, if such are known."""
    lower = known.attained(relation)
    if guarantee.at_most_above is not None or lower is None or not 0 < guarantee.epsilon < math.inf:
        return guarantee
    try:
        needed = epsilon_of_pairs(lower, guarantee.log_delta)
    except OutOfReach:
        return guarantee
    share = 1 - _at_least(needed, guarantee.log_delta) / guarantee.epsilon
    return replace(guarantee, at_most_above=above_of(min(max(share * (1 + 1e-9), CLOSELY), 1.0)))


def epsilon_interval(known: Known, relation: Relation, delta: float | None, log_delta: float) -> Interval:
    """Return bounds of ε at δ from both sides: of balls, or of doubles where those are nearer."""
    from cumulant.inversion.certified import certified_epsilon, delta_ball

    pairs = _pairs_of_both_ends(known, relation)
    asked = log_asked(known, delta, log_delta)
    best = guarantee_at_delta(known, relation, asked, "best")
    if known.lower_in_doubles:
        return _in_doubles(_least_epsilon(pairs[1], best), best.epsilon)
    least = best.epsilon if best.exact else _least_epsilon(pairs[1], best)
    lower = least if 0 < least < best.epsilon * FAR_BELOW else None
    ball = delta_ball(delta=delta, log_delta=log_delta)
    found = _if_balls_can(lambda: certified_epsilon(*pairs, ball, best.epsilon, lower))
    return _or_doubles(found, best.epsilon, lambda: _least_epsilon(pairs[1], best))


def delta_interval(known: Known, relation: Relation, epsilon: float) -> Interval:
    """Return bounds of δ at ε from both sides: of balls, or of doubles where those are nearer."""
    from cumulant.inversion.certified import certified_delta

    if (nearer := nearer_epsilon(known, epsilon)) < epsilon:
        return replace(delta_interval(known, relation, nearer), lower=0.0)
    pairs = _pairs_of_both_ends(known, relation)
    best = guarantee_at_epsilon(known, relation, epsilon, "best")
    if known.lower_in_doubles:
        return _in_doubles(_least_delta(pairs[1], best), best.delta)
    found = _if_balls_can(lambda: certified_delta(*pairs, epsilon, best.log_delta))
    return _or_doubles(found, exp_above(best.log_delta), lambda: _least_delta(pairs[1], best))


def _if_balls_can(certified: Callable[[], Interval]) -> Interval:
    """Return what balls prove: nothing of a pair that is known in doubles only."""
    try:
        return certified()
    except OutOfReach:
        return Interval(0.0, math.inf)


def _in_doubles(lower: float, upper: float) -> Interval:
    """Return ends of which the lower one rests on pairs in doubles: it is moved down by far more than these lose."""
    least = min(max(lower * (1 - CLOSELY), 0.0), upper)
    return Interval(least, upper, unproven=CLOSELY * (least + upper) if least < math.inf else 0.0)


def _or_doubles(found: Interval, most: float, least: Callable[[], float]) -> Interval:
    """Return what balls prove, or bounds in doubles where only these are exact, or balls prove nothing."""
    says_all = found.upper < math.inf or most == math.inf
    if found.certified and says_all and (found.lower == found.upper or found.width <= EXACTLY * found.upper):
        return found
    upper = min(found.upper, most)
    lower = max(found.lower, least())
    if found.certified and found.upper < math.inf and not 0 <= upper - lower <= EXACTLY * upper:  # balls may refute it
        return found
    lower = min(lower, upper)
    return Interval(lower, upper, unproven=upper - lower)


def _least_epsilon(attained: Directions, best: Guarantee) -> float:
    """Return what some neighbours need at least, by the bounds of doubles."""
    if best.exact and (above := best.at_most_above) is not None:
        return max(min(best.epsilon / (1 + above), best.epsilon - above * EXACT_AT_ZERO / EXACT_SHARE), 0.0)
    try:
        needed = epsilon_of_pairs(attained, best.log_delta)
    except OutOfReach:
        return 0.0
    return _at_least(needed, best.log_delta)


def _at_least(needed: Inversion, log_delta: float) -> float:
    """Return the least that an ε of attained pairs can be; an infinite one is meant at δ = 0 alone: a largest loss."""
    if needed.value == math.inf:
        return math.inf if log_delta == -math.inf else 0.0
    return max(needed.value * (1 - needed.excess), 0.0)


def _least_delta(attained: Directions, best: Guarantee) -> float:
    """Return the δ that some neighbours attain at least, by the bounds of doubles.

    An exact answer δ is no more than what they attain at an ε that is smaller by x, and that is no more than x above
    what they attain at ε: |δ'| = e^ε Q(L > ε) is at most P(L > ε).
    """
    least = 0.0
    if best.exact and (above := best.at_most_above) is not None:
        share = max(above, CLOSELY)  # δ itself is rounded up
        least = best.delta * (1 - share) - share * max(best.epsilon, EXACT_AT_ZERO / EXACT_SHARE) * (1 + 1e-9)
    if least > (1 - ROUGH_NATS / 2) * best.delta and best.delta > SPARSE:
        return least
    try:
        found = log_delta_of_pairs(attained, best.epsilon)
    except OutOfReach:
        return 0.0
    return math.exp(found.value - found.slack) * (1 - 1e-15)


def _pairs_of_both_ends(known: Known, relation: Relation) -> tuple[Directions, Directions]:
    upper, lower = known.pairs(relation), known.attained(relation)
    if upper is None or lower is None:
        raise UnprovenCombination(
            "certified intervals need the dominating pair of every release, and one of these has none; "
            'method="best" gives the tightest bound that is proven'
        )
    return upper, lower


def _profile(known: Known, relation: Relation, method: Method) -> PrivacyProfile | None:
    """Return the profile of a single release, which needs no inversion."""
    check_method(method)
    if method == "rdp" or not known.single:
        return None
    return known.profile() if method == "best" or known.directions(relation) is not None else None


def ways(known: Known, relation: Relation, method: Method) -> tuple[PrivacyProfile | None, Directions | None]:
    """Return the formula of a single release, or else the dominating pairs; neither where Rényi DP has to do."""
    profile = _profile(known, relation, method)
    directions = None if profile is not None or method == "rdp" else known.pairs(relation)
    if method == "exact" and profile is None and directions is None:
        raise UnprovenCombination(NO_PAIRS)
    return profile, directions


def check_method(method: Method) -> None:
    if method not in METHODS:
        raise InvalidParameter(f"method must be one of {', '.join(METHODS)}, got {method!r}")


def _invert(
    known: Known, relation: Relation, invert: Callable[[Directions], Inversion], method: Method
) -> Inversion | None:
    """Return the answer of the dominating pairs; None if Rényi DP has to do."""
    directions = None if method == "rdp" else known.pairs(relation)
    if directions is None:
        if method == "exact":
            raise UnprovenCombination(NO_PAIRS)
        return None
    try:
        return invert(directions)
    except OutOfReach:
        if method == "exact":
            raise
        return None


def _stated_failure(known: Known, epsilon: float) -> float | None:
    """Return the failure probability as it was stated where it is all of δ, from the largest finite loss on.

    The logarithm of it rounds.
    """
    failure = known.failure() if known.single else 0.0
    return failure if failure > 0 and epsilon >= known.curve().pure else None


def _is_attained(known: Known, relation: Relation) -> bool:
    """Whether some neighbours attain the pairs; in a single release no directions can be mixed."""
    return known.tight(relation or (ADD_REMOVE if known.single else None))


def _is_doubtful(known: Known, inverted: Inversion) -> bool:
    """Whether Rényi DP could be the tighter one."""
    return not inverted.slack <= ROUGH_NATS or known.may_be_sharper  # slack may be nan


def _excess(known: Known, relation: Relation, inverted: Inversion) -> float | None:
    """Return how far above the truth the answer can be, if some neighbours attain the pairs."""
    return inverted.excess if _is_attained(known, relation) else None
