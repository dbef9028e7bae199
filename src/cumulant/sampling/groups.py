"""What a mechanism reveals of several records at once, as a profile: for sampling with replacement.

Where a mechanism does not say it itself (`Known.groups`), it follows from the profile of one record, and from what
the mechanism makes of groups (`AbstractMechanism.group`); the smaller of the two holds.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, lru_cache

from cumulant.curves.curve import Curve
from cumulant.errors import UnprovenCombination
from cumulant.mechanisms.approximate_dp import ApproximateDP
from cumulant.mechanisms.base import AbstractMechanism
from cumulant.pairs.finite_pair import FinitePair
from cumulant.pairs.noise import FiniteNoise
from cumulant.parameters import product_above
from cumulant.profiles.finite import finite_profile
from cumulant.profiles.from_curve import profile_from_knots, profile_from_orders
from cumulant.profiles.profile import GroupProfiles, PrivacyProfile, group_profile, smaller_profile

LARGEST_RULED_GROUP = 64  # records whose own rule is asked; beyond it the rule for black boxes has to do


def group_profiles(mechanism: AbstractMechanism) -> GroupProfiles:
    """Return k ↦ the profile of groups of k under replace-one, of any mechanism."""
    known = mechanism._known()
    return cache(known.groups) if known.groups is not None else _from_one_record(mechanism)


@lru_cache(maxsize=64)
def _from_one_record(mechanism: AbstractMechanism) -> GroupProfiles:
    """Return the smaller of Balle, Barthe and Gaboardi's (2018) footnote 5 and what the mechanism says of groups."""
    one = _profile_of(mechanism, profile_from_knots)

    @cache
    def of_size(size: int) -> PrivacyProfile:
        chained = group_profile(one, size)
        if size == 1 or size > LARGEST_RULED_GROUP:
            return chained
        try:
            own = _profile_of(group_of(mechanism, size), profile_from_knots if size == 2 else profile_from_orders)
        except UnprovenCombination:
            return chained
        return smaller_profile(chained, own)

    return of_size


def _profile_of(mechanism: AbstractMechanism, from_curve: Callable[[Curve], PrivacyProfile]) -> PrivacyProfile:
    """Return the profile as a formula, of finitely many outputs as a sum, else what Rényi DP proves.

    Inverting pairs, or searching the best order, would take seconds for a whole profile.
    """
    known = mechanism._known()
    formula = known.profile() if known.single else None
    if formula is not None:
        return formula
    if isinstance(known.noise, FiniteNoise):
        pairs = known.noise.both_directions()
        return finite_profile([pair for pair in pairs if isinstance(pair, FinitePair)])
    return from_curve(known.curve())


def group_of(mechanism: AbstractMechanism, size: int) -> AbstractMechanism:
    """Return the mechanism for groups; where it may fail and has no rule for them, that of (ε, δ)-DP.

    A mechanism whose loss is at most ε but for a failure of probability δ is (ε, δ)-DP.
    """
    try:
        return mechanism.group(size=size)
    except UnprovenCombination:
        loss = mechanism._known().curve()
        if math.isinf(loss.pure) or loss.failure == 0:
            raise
        return ApproximateDP(epsilon=product_above(1, loss.pure), delta=loss.failure).group(size=size)
