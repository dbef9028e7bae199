"""Which relation a sampling scheme answers for, and what is attained under it."""

from __future__ import annotations

import math
from typing import Any

from cumulant import parameters
from cumulant.curves.curve import rdp_at
from cumulant.errors import MixedNeighbors, UnprovenCombination
from cumulant.mechanisms.base import AbstractMechanism
from cumulant.mechanisms.group import Group
from cumulant.mechanisms.known import Known
from cumulant.neighbors import ADD_REMOVE, NAMED, ZERO_OUT, Neighbors
from cumulant.parameters import require
from cumulant.sampling.without_replacement_theorems import proposition20

ROUNDED_ODDS = 1e-11  # what may be lost of γ or 1 - γ in an answer that is called exact


def checked_relation(scheme: str, relation: Any, mechanism: Any, *, needs: Neighbors) -> None:
    """Refuse what no theorem covers: a base mechanism whose guarantee is for another relation."""
    require(isinstance(relation, Neighbors), f"neighbors must be {NAMED}", relation)
    require(isinstance(mechanism, AbstractMechanism), "mechanism must be a cumulant mechanism", mechanism)
    if isinstance(mechanism, Group):
        raise UnprovenCombination("records of a group are sampled one by one; sample first, then ask for the group")
    if mechanism._known().alternatives:
        raise UnprovenCombination(
            "a sample of parallel releases has no rule; sample every part, then put them together"
        )
    for release, _ in mechanism.releases():
        if reason := release._known().no_samples:
            raise UnprovenCombination(reason)
    if relation is ZERO_OUT and needs is not ADD_REMOVE:
        raise UnprovenCombination(
            f"{scheme} has no theorem here for zero-out: a null record takes the place of another one in a sample of "
            "fixed size; draw by Poisson sampling, or ask under replace-one"
        )
    if mechanism.neighbors is ZERO_OUT:
        raise UnprovenCombination(
            "what is proven for zero-out may use the number of records, which is private in a sample; give the inner "
            "release neighbors=cumulant.ADD_REMOVE if it does not, and the sample neighbors=cumulant.ZERO_OUT"
        )
    if mechanism.neighbors not in (None, needs):
        raise MixedNeighbors(
            f"{scheme} needs a mechanism proven for {needs.value}, this one is for {mechanism.neighbors.value}; "
            "give the inner sampling the same `neighbors=`"
        )


def rate_is_close(rate: float, rounded_up_by: float) -> bool:
    """Whether a rate that was rounded up costs no more than one within 1e-11 of it, odds included.

    A record that joins loses up to -log(1-γ), which hangs on every digit of 1 - γ.
    """
    return rounded_up_by <= ROUNDED_ODDS * min(rate, 1 - rate)


def lower_moment(base: Known, rate: float, order: float) -> float:
    """Return the RDP that a dataset of equal records but one attains, at an integer order.

    Wang et al. (2019), Proposition 20; Zhu and Wang (2019), Theorem 6: the same expression for both schemes.
    """
    if not base.self_consistent:
        raise UnprovenCombination("a lower bound needs a mechanism whose RDP is attained at one pair of outputs")
    order = parameters.order(order)
    require(order >= 2 and order.is_integer(), "order must be a whole number >= 2", order)
    if math.isinf(base.curve().at(order - 1)) and not base.curve().exact:
        raise UnprovenCombination(f"nothing is known of the mechanism at order {order:g}, so nothing is known below")
    if rate in (0.0, 1.0):
        return float(rdp_at(base.curve(), order)) * rate
    return proposition20(int(order), rate=rate, cgf=base.curve()) / (order - 1)
