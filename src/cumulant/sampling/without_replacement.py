"""Sampling without replacement: a uniformly random subset of m of n records, γ = m/n."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from cumulant.answer import Interval
from cumulant.curves.curve import Curve
from cumulant.errors import UnprovenCombination
from cumulant.mechanisms.base import AbstractMechanism
from cumulant.mechanisms.gaussian import Gaussian
from cumulant.neighbors import ADD_REMOVE, REPLACE_ONE, Neighbors
from cumulant.numerics.logspace import Array
from cumulant.pairs.likelihood_ratio import LikelihoodRatio, moment_of_distance, moment_of_envelope
from cumulant.pairs.noise import NO_PAIRS, Pairs
from cumulant.parameters import probability, require
from cumulant.profiles.profile import PrivacyProfile
from cumulant.profiles.sampling import amplified_profile
from cumulant.sampling.mixture import (
    NO_LOSS,
    QUADRATURE_ERROR,
    finite_sampled_loss,
    loss_by_quadrature,
    mixture_loss,
    sampled_loss,
)
from cumulant.sampling.relation import checked_relation, lower_moment
from cumulant.sampling.without_replacement_theorems import black_box, theorem9


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class SampledWithoutReplacement(AbstractMechanism):
    """A mechanism on a random subset of fixed size.

    The unit of noise is the replace-one sensitivity of the query, for both relations: for a sum of clipped vectors
    that is twice the clipping norm.

    Replace-one (the default): the envelope of `known_envelope_loss` where the mechanism's pair is known, else the
    better of `theorem9` and `black_box` at integer orders. Add-or-remove-one, with γ = m/n for the larger n: the record
    added displaces another, so the loss is that of the mixture with a replaced record (`mixture.mixture_loss`).

    >>> from cumulant import Gaussian
    >>> step = Gaussian(noise_multiplier=5.0).without_replacement(batch=256, population=25600)
    >>> round((step * 1000).epsilon(delta=1e-5), 4)
    0.2264
    """

    theorem: ClassVar[str] = "sampling without replacement (Wang et al. 2019; envelope of Zhu, Dong and Wang 2022)"

    mechanism: AbstractMechanism
    rate: float
    relation: Neighbors = REPLACE_ONE

    def __post_init__(self) -> None:
        object.__setattr__(self, "rate", probability("rate", self.rate))
        checked_relation("sampling without replacement", self.relation, self.mechanism, needs=REPLACE_ONE)

    @property
    def neighbors(self) -> Neighbors:
        return self.relation

    @property
    def fixed_size(self) -> bool:
        return True

    def loss(self) -> Curve:
        if self.rate == 0:
            return NO_LOSS
        if self.rate == 1:
            return self.mechanism.loss()
        known = finite_sampled_loss(self.mechanism, self.rate, self.pairs)
        if known is not None:
            return known
        lossy = mixture_loss if self.relation is ADD_REMOVE else envelope_loss
        return lossy(self.mechanism, self.rate)

    def pairs(self, relation: Neighbors | None) -> Pairs | None:
        """The envelope (Zhu, Dong and Wang 2022, Proposition 30); under add-or-remove-one the mixture, both orders."""
        if self.rate == 0:
            return NO_PAIRS
        if self.rate == 1:
            return self.mechanism.pairs(REPLACE_ONE)
        family = self.mechanism.noise()
        if family is None:
            return None
        return family.displaced(self.rate) if self.relation is ADD_REMOVE else family.envelope(self.rate)

    def attained_pairs(self, relation: Neighbors | None) -> Pairs | None:
        """All other records equal to one of the two that are exchanged: the mixture, in both orders."""
        if self.rate == 1:
            return self.mechanism.attained_pairs(REPLACE_ONE)
        family = self.mechanism.attained_noise()
        if self.rate == 0 or family is None:
            return self.pairs(relation)
        return family.poisson(math.nextafter(self.rate, 0.0))  # m/n was rounded up

    def pairs_attained(self, relation: Neighbors | None) -> bool:
        known = self.relation is ADD_REMOVE or self.rate in (0.0, 1.0)
        return known and self.mechanism.pairs_attained(REPLACE_ONE)

    @property
    def failure_probability(self) -> float:
        return self.loss().failure if self.mechanism.failure_probability > 0 else 0.0

    def sharpened(self) -> AbstractMechanism:
        """For Gaussian noise under replace-one, search the worst triple: about 15 % less ε, in seconds."""
        from cumulant.sampling.gaussian_triples import SharpenedGaussianBatch

        if isinstance(self.mechanism, Gaussian) and self.relation is REPLACE_ONE and 0 < self.rate < 1:
            return SharpenedGaussianBatch(noise_multiplier=self.mechanism.noise_multiplier, rate=self.rate)
        return self

    def known_profile(self) -> PrivacyProfile | None:
        """Theorem 9 of Balle, Barthe and Gaboardi (2018); under add-or-remove-one the same bound, by `mixture`."""
        profile = self.mechanism.known_profile()
        return None if profile is None else amplified_profile(profile, self.rate)

    def rdp_interval(self, *, order: float) -> Interval:
        """Return the RDP bound and what is attained: Wang et al. (2019), Proposition 20, at integer orders."""
        if self.relation is ADD_REMOVE:
            raise UnprovenCombination("Proposition 20 is stated for replace-one")
        return Interval(lower_moment(self.mechanism, self.rate, order), self.rdp(order=order))


def envelope_loss(mechanism: AbstractMechanism, rate: float) -> Curve:
    """Return the loss under replace-one: the envelope where the pair is known, else the best black-box bound."""
    return sampled_loss(mechanism, rate, known=known_envelope_loss, black_box=best_black_box)


def known_envelope_loss(ratio: LikelihoodRatio, base: Curve, rate: float) -> Curve:
    """Return K(λ) of the envelope pair, at any real order α = λ + 1 > 1.

    With r = dP/dQ of a symmetric pair that dominates the mechanism under replace-one, w = 1 - γ + γr and
    f_β(w) = w^β - 1 - β(w-1):

        e^{K(λ)} <= 1 + E_Q[f_α(w); r > 1] + E_Q[f_{1-α}(w); r > 1].

    Coupling the sampled sets makes the two outputs mixtures that share a part, (1-γ)μ₀ + γμ₁ and (1-γ)μ₀ + γμ₁', over
    mutually neighbouring μ₀, μ₁, μ₁'. Advanced joint convexity bounds H_t for t >= 1 by γH_a(P‖Q), a = 1 + (t-1)/γ,
    which is H_t of the mixture against Q; t <= 1 follows by exchanging the two. An f-divergence is the integral of H_t
    against f'' >= 0 (Zhu, Dong and Wang 2022, Proposition 30), so splitting it at t = 1 gives the two terms.

    Holds for:  replace-one, subsets of fixed size; adaptive composition.
    Tightness:  each half is attained, by different datasets; for small γ about twice what is attained.
    """
    return loss_by_quadrature(moment_of_envelope, ratio, base, rate, exact=False)


def collapsed_moment(ratio: LikelihoodRatio, *, rate: float, orders: Array) -> Array:
    """Return log(1 + (4-3γ) E_Q[f_α(1 + γ|r-1|)]): the sums of Theorems 9 and 19 in one expectation.

    Σ_{j>=2} C(α,j) γ^j |r-1|^j = f_α(1 + γ|r-1|), and y ↦ f_α(1+y) is convex and increasing, so Lemma 15's four sets
    bound the ternary expectation by four binary ones, three of which are not needed when the record is sampled.
    It needs neither the Cauchy-Schwarz step for odd j nor integer orders.

    Holds for:  replace-one, a pair that dominates the mechanism, real orders α >= 2.
    Tightness:  about four times what is attained; `known_envelope_loss` is tighter and holds for all α > 1.
    """
    require(bool(np.all(orders >= 2)), "orders must be >= 2", orders)
    log_factor = math.log(4 - 3 * rate) + QUADRATURE_ERROR
    return np.logaddexp(0.0, log_factor + moment_of_distance(ratio, rate=rate, orders=orders))


def best_black_box(order: int, *, rate: float, cgf: Curve) -> float:
    """Return the smaller of `theorem9` and `black_box`: neither is always below the other."""
    return min(theorem9(order, rate=rate, cgf=cgf), black_box(order, rate=rate, cgf=cgf))
