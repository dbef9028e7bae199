"""Which release may use which slot."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

from cumulant.ledger.charge import squared_mean
from cumulant.mechanisms.approximate_dp import ApproximateDP
from cumulant.mechanisms.base import AbstractMechanism
from cumulant.mechanisms.gaussian import Gaussian
from cumulant.mechanisms.laplace import Laplace
from cumulant.mechanisms.pure_dp import PureDP
from cumulant.mechanisms.randomized_response import RandomizedResponse
from cumulant.mechanisms.renyi_curve import RenyiCurve
from cumulant.mechanisms.truncated_cdp import TruncatedCDP
from cumulant.mechanisms.zcdp import ZCDP
from cumulant.sampling.poisson import PoissonSampled
from cumulant.sampling.with_replacement import SampledWithReplacement
from cumulant.sampling.without_replacement import SampledWithoutReplacement


def dominates(slot: AbstractMechanism, release: AbstractMechanism) -> bool:
    """Return whether what is known of a slot is proven to hold for a release: its pair for all t >= 0, or its curve.

    - The same kind with more noise: `is_noisier`.
    - A class takes what belongs to it: PureDP what is ε-DP, ApproximateDP what is (ε, δ)-DP. Their pairs dominate the
      class (Kairouz, Oh and Viswanath 2017).
    - Gaussian noise takes what its pair dominates: `charge.squared_mean`.
    - A sample takes a sample of the same scheme and relation, of a rate that is not larger and a release that is
      noisier. Poisson: thin the dataset first, which both neighbours share but for the record; where it is left out
      they are equal. Without replacement: γ h(1 + (t-1)/γ) grows with γ. With replacement: the same draws only. A
      Poisson sample under add-or-remove-one or zero-out also takes what is drawn for any release that its own
      dominates, as the pair of the sample is a growing function of the pair.
    - What is not sampled takes Poisson samples of what it takes.

    Both mechanisms must be about the account's relation, which is checked elsewhere.

    Holds for:  the cases named; a no may be a proof that is not known.
    """
    if is_noisier(release, slot):
        return True
    if type(slot) in SMALLER:
        return _sample_dominates(slot, release)
    if _belongs_to(slot, release):
        return True
    return isinstance(release, PoissonSampled) and release.relation.joins and dominates(slot, release.mechanism)


def _belongs_to(slot: AbstractMechanism, release: AbstractMechanism) -> bool:
    """Return whether a release belongs to the class that a slot stands for."""
    if isinstance(slot, PureDP):
        return bool(release.epsilon(delta=0.0) <= slot.bound)
    if isinstance(slot, ApproximateDP):
        return bool(release.delta(epsilon=slot.bound) <= slot.failure)
    if isinstance(slot, Gaussian) and release._known().failure() == 0:
        charge = squared_mean(release)
        return charge is not None and charge <= 1 / Fraction(slot.noise_multiplier) ** 2
    return False


def _sample_dominates(slot: Any, release: Any) -> bool:
    """Return whether the scheme of a sample takes another of its kind, and its mechanism the other's."""
    if type(release) is not type(slot) or not SMALLER[type(slot)](release, slot) or release.relation != slot.relation:
        return False
    if isinstance(slot, PoissonSampled) and slot.relation.joins:
        return dominates(slot.mechanism, release.mechanism)
    return is_noisier(release.mechanism, slot.mechanism)


def is_noisier(release: AbstractMechanism, slot: AbstractMechanism) -> bool:
    """Return whether a release is of the kind of a slot with no less noise: so it is under every sampling.

    Gaussian, Laplace and randomized response with more noise are the ones with less, and independent noise on their
    outputs (a Laplace law of scale b' is one of scale b and, with probability 1 - b²/b'², one of scale b' more). Of
    the others the parameters are bounds, and what obeys the smaller obeys the larger.
    """
    rule = NOISIER.get(type(slot))
    return release == slot or (rule is not None and type(release) is type(slot) and rule(release, slot))


def _is_below(release: RenyiCurve, slot: RenyiCurve) -> bool:
    """Return whether the orders of two tables are equal, and one is nowhere above the other."""
    if callable(release.curve) or callable(slot.curve) or len(release.curve) != len(slot.curve):
        return False
    rows = zip(release.curve, slot.curve, strict=True)
    return all(order == other and value <= most for (order, value), (other, most) in rows)


def _is_closer_to_a_coin(release: RandomizedResponse, slot: RandomizedResponse) -> bool:
    half = Fraction(1, 2)
    return abs(Fraction(release.p) - half) <= abs(Fraction(slot.p) - half)


NOISIER: Mapping[type, Callable[[Any, Any], bool]] = {
    Gaussian: lambda release, slot: release.noise_multiplier >= slot.noise_multiplier,
    Laplace: lambda release, slot: release.scale >= slot.scale,
    RandomizedResponse: _is_closer_to_a_coin,
    PureDP: lambda release, slot: release.bound <= slot.bound,
    ApproximateDP: lambda release, slot: release.bound <= slot.bound and release.failure <= slot.failure,
    ZCDP: lambda release, slot: release.rho <= slot.rho and release.xi <= slot.xi,
    TruncatedCDP: lambda release, slot: release.rho <= slot.rho and release.omega >= slot.omega,
    RenyiCurve: _is_below,
}
"""How a release compares with a slot of its kind."""

SMALLER: Mapping[type, Callable[[Any, Any], bool]] = {
    PoissonSampled: lambda release, slot: release.rate <= slot.rate,
    SampledWithoutReplacement: lambda release, slot: release.rate <= slot.rate,
    SampledWithReplacement: lambda release, slot: (release.draws, release.population) == (slot.draws, slot.population),
}
"""How a sample compares with that of a slot of its kind."""
