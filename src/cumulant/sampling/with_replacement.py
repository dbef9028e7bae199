"""Sampling with replacement: m records drawn independently from n, a record may come up several times."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import ClassVar, final

import numpy as np

from cumulant.curves.curve import Array, Curve, at_most, projected
from cumulant.inversion.solve import Directions
from cumulant.mechanisms.approximate_dp import ApproximateDP
from cumulant.mechanisms.base import AbstractMechanism
from cumulant.mechanisms.known import Known, one_release
from cumulant.mechanisms.pure_dp import PureDP
from cumulant.mechanisms.randomized_response import binary_loss
from cumulant.neighbors import REPLACE_ONE, Neighbors
from cumulant.numerics.logspace import log_expm1, log_mean
from cumulant.numerics.rounding import LEAST
from cumulant.pairs.atoms import Binary
from cumulant.pairs.finite_pair import FinitePair
from cumulant.pairs.mixed import MixedPair
from cumulant.pairs.noise import NO_PAIRS, FiniteNoise, GaussianNoise, Pairs
from cumulant.pairs.pair import DominatingPair
from cumulant.parameters import MOST, require, whole_number
from cumulant.profiles.multiplicity import Multiplicity, mixture_of_groups
from cumulant.profiles.profile import PrivacyProfile, gaussian_groups, smaller_profile
from cumulant.profiles.sampling import base_epsilon, hybrid_with_replacement_profile, with_replacement_profile
from cumulant.profiles.to_curve import cgf_from_profile
from cumulant.profiles.to_pair import pair_at_knots
from cumulant.profiles.weighted_draws import pure_with_replacement, weighted_with_replacement_profile
from cumulant.sampling.groups import group_of, group_profiles
from cumulant.sampling.mixture import NO_LOSS, black_box_loss, replace_one_bound
from cumulant.sampling.relation import checked_relation
from cumulant.sampling.without_replacement_theorems import by_profiles

PROFILE_TILTS = tuple(2.0 ** (k / 4) for k in range(-40, 41))  # λ at which the moment is bounded; chords between
LEAST_REVEALED = 1e-290  # δ at the last knot, that is charged as if everything were revealed
LAST_KNOT = 600.0  # of ε
KNOT_ROUNDS, PLACES_AT_ONCE = 5, 65  # of the search for that, each of which narrows it 64 times
EVEN_KNOTS = 800  # for a typical loss, up to four of them
FURTHER = 1e-3  # of log ε, between knots beyond
LEAST_MEAN_TOLD = 1e-3  # of Gaussian noise whose pair is made of knots: of more noise they are many
RARELY = 1e-3  # a rate below which few losses make up δ, and chords are not near enough
FEW_TIMES = 4  # mean multiplicity up to which each has its pair
OFTEN = 10  # mean multiplicity from which on moments are mixed: hardly any sample lacks the record
USELESS_CGF = 1000.0  # beyond this K no order is worth a quadrature, and the cost of a group bounds it as well


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class SampledWithReplacement(AbstractMechanism):
    """A mechanism on m records drawn with replacement from n; a bootstrap draws as many as there are.

    The unit of noise is the replace-one sensitivity of the query on the sample. Profiles carry the theorems (Balle,
    Barthe and Gaboardi 2018): Theorem 10 for replace-one, Theorem 11 for add-or-remove-one, from the profiles of groups
    (`groups.group_profiles`), which every mechanism has. A bounded loss stays bounded by `pure_with_replacement`.

    Runs compose by the pair of `_directions`, or by a curve: of the profile (Theorem 6) where groups have formulas,
    else `told_curve`.

    >>> from cumulant import Laplace
    >>> step = Laplace(scale=1.0).with_replacement(draws=10, population=1000)
    >>> round(step.epsilon(delta=1e-3), 4)
    0.0119
    """

    theorem: ClassVar[str] = "sampling with replacement (Balle, Barthe and Gaboardi 2018, Theorems 6, 10, 11, weighted)"

    mechanism: AbstractMechanism
    draws: int
    population: int
    relation: Neighbors = REPLACE_ONE

    def __post_init__(self) -> None:
        object.__setattr__(self, "draws", whole_number("draws", self.draws))
        require(self.draws <= MOST, "draws must be at most 1e18", self.draws)
        checked_relation("sampling with replacement", self.relation, self.mechanism, needs=REPLACE_ONE)
        least = 1 if self.relation is REPLACE_ONE else 2  # one record fewer must leave something to draw from
        object.__setattr__(self, "population", whole_number("population", self.population, at_least=least))

    @property
    def neighbors(self) -> Neighbors:
        return self.relation

    def _known(self) -> Known:
        return replace(
            Known.by_curve(self._curve, fixed_size=True),
            profile=lambda: _profile_of_draws(self),
            directions=lambda _: self._directions(),
            failure=lambda: self._failure,
            sharper_curve=self.draws > 1 and self._pure < math.inf,  # weighted draws may say more than the pairs
        )

    @property
    def _law(self) -> Multiplicity:
        return Multiplicity(self.draws, self.population)

    @property
    def _pure(self) -> float:
        """The largest loss but for failures: with them, this and their probability is an (ε, δ) of the sample."""
        pure = self.mechanism._known().curve().pure
        if math.isinf(pure):
            return pure
        return pure_with_replacement(pure, draws=self.draws, population=self.population)

    @property
    def _failure(self) -> float:
        """The probability that all is revealed: Σ_k w_k f_k, f_k <= 1 that of groups of k, rounded up.

        Blocks of k are charged at their largest.
        """
        if self.draws == 0 or self.mechanism._known().failure() == 0:
            return 0.0
        blocks = self._law.blocks()
        failures = np.array([group_of(self.mechanism, int(size))._known().failure() for size in blocks.ends])
        terms = np.exp(blocks.log_weights) * np.maximum.accumulate(failures)
        return min(1.0, (float(np.sum(terms)) + math.exp(blocks.log_rest)) * (1 + 1e-12))

    def _directions(self) -> Directions | None:
        """Return the envelope of groups whose size, how often the record was drawn, is told; only under replace-one.

        Theorem 10 of Balle, Barthe and Gaboardi (2018) reads H_t <= Σ_j w_j δ_j(1 + (t-1)/γ) for t >= 1, with w_j the
        probability of j draws, γ = 1 - w_0 and δ_j the profile of groups of j. That is γH_{1+(t-1)/γ} of the pair that
        tells j, of probability w_j/γ, so H_t of its envelope; t < 1 follows, as the relation is symmetric. A larger γ,
        larger w_j, and larger groups in their place only add.

        Of (ε, δ)-DP, groups of j fail with a probability f_j that grows with j, or else are jε-DP. Given that nothing
        failed, few draws are more likely than before, so the pair of ε-DP beside a failure of Σ w_j f_j dominates.

        Holds for:  replace-one; symmetric group profiles; adaptive composition.
        Tightness:  each multiplicity has that of the envelope, and telling it costs more.
        """
        if self.relation is not REPLACE_ONE or self.draws > FEW_TIMES * self.population or self.population == 1:
            return None
        if self.draws == 0:
            return one_release(NO_PAIRS)
        if self._failure == 0:
            return one_release(_told_multiplicity(self))
        if not isinstance(self.mechanism, ApproximateDP):
            return None
        told = one_release(_told_multiplicity(self._without_failure()))
        (revealed,) = FiniteNoise(Binary(0.0, self._failure)).unsampled(REPLACE_ONE)
        return None if told is None else tuple((*direction, (revealed, 1)) for direction in told)

    def _without_failure(self) -> SampledWithReplacement:
        assert isinstance(self.mechanism, ApproximateDP)
        return replace(self, mechanism=PureDP(epsilon=self.mechanism.bound))

    def _curve(self) -> Curve:
        if self.draws == 0:
            return NO_LOSS
        if isinstance(self.mechanism, ApproximateDP):
            return replace(self._without_failure()._curve(), failure=self._failure)
        curve = _moments(self) if self.mechanism._known().groups is not None else told_curve(self)
        return at_most(curve, binary_loss(self._pure)) if self._pure < math.inf else curve


@lru_cache(maxsize=64)
def _profile_of_draws(sampled: SampledWithReplacement) -> PrivacyProfile:
    """Return the smaller of Theorem 10, or 11, and weighted draws, which keeps the knots that it has found."""
    amplify = with_replacement_profile if sampled.relation is REPLACE_ONE else hybrid_with_replacement_profile
    groups, drawn = group_profiles(sampled.mechanism), {"draws": sampled.draws, "population": sampled.population}
    theorem = amplify(groups, **drawn)
    if sampled.draws <= 1 or sampled.draws > FEW_TIMES * sampled.population or sampled.population == 1:
        return theorem  # one draw has one multiplicity to weigh
    return smaller_profile(theorem, weighted_with_replacement_profile(groups, **drawn))


@lru_cache(maxsize=64)
def told_curve(sampled: SampledWithReplacement) -> Curve:
    """Return K of draws with replacement of a mechanism that is known by the curves of its groups.

    With u_k = w_k/η the law of how often the record was drawn if it was, and K_k the curve of groups of k, the
    mechanism that tells k has K(λ) = log Σ u_k e^{K_k(λ)}. Theorem 10 (Balle, Barthe and Gaboardi 2018) makes of its
    profile what Theorem 9 there makes of a mechanism on a batch of rate η, and so do the bounds for curves: the joint
    convexity that they rest on is applied to each k, for which the three outputs involved are at distance k.

    What may fail is counted apart. With f_k the failure of groups of k, H_t <= Σ w_k f_k + Σ w_k (1-f_k) h_k, h_k of
    pairs that K_k bounds; given that nothing failed few draws are more likely, so the law of k may stay. Theorem 9
    of Wang et al. (2019), which is not about h_k, is left out then.

    Holds for:  as `with_replacement_profile`, any mechanism; K_k and failures are made to grow with k.
    Tightness:  that of `best_black_box`.
    """
    blocks, rate = sampled._law.blocks().up_to(sampled.draws), sampled._law.rate
    shares = blocks.log_weights - math.log(rate)
    losses = [group_of(sampled.mechanism, int(size))._known().curve() for size in blocks.ends]

    def log_moment(lam: Array) -> Array:
        rows = np.array([loss.log_moment(lam) for loss in losses])
        return _log_mixed(np.maximum.accumulate(rows), shares)  # larger groups reveal more

    slopes = math.fsum(math.exp(share) * loss.kl for share, loss in zip(shares.tolist(), losses, strict=True))
    told = Curve(log_moment=log_moment, kl=slopes * (1 + 1e-13), pure=losses[-1].pure, exact=False, summed=True)
    if rate == 1:
        return replace(told, failure=sampled._failure)
    if sampled._failure > 0:
        return replace(black_box_loss(by_profiles, told, rate), failure=sampled._failure)
    return replace_one_bound(told, rate)


def _log_mixed(rows: Array, log_weights: Array) -> Array:
    """Return log(1 + Σ_k w_k (e^{K_k} - 1)) for rows K_k, rounded up."""
    with np.errstate(over="ignore"):
        terms = log_expm1(rows * (1 + 4e-13)).T  # up: what K is known to
        return np.maximum(np.logaddexp(0.0, log_mean(terms, log_weights)) * (1 + 4e-13), LEAST)


@lru_cache(maxsize=8)
def _told_multiplicity(sampled: SampledWithReplacement) -> Pairs | None:
    law, blocks = sampled._law, sampled._law.blocks()
    weights, rest = np.exp(blocks.log_weights), math.exp(blocks.log_rest)
    rate = max(law.rate, math.fsum([*weights.tolist(), rest]) * (1 + 1e-14))
    base = sampled.mechanism._known().noise
    if isinstance(base, GaussianNoise) and RARELY <= rate < 1 and base.mean >= LEAST_MEAN_TOLD:
        mixed = PrivacyProfile.of(mixture_of_groups(gaussian_groups(base.mean), blocks.up_to(law.draws)))
        envelope = PrivacyProfile.of(lambda epsilons: mixed.log_deltas(base_epsilon(epsilons, rate)))
        found = _pair_at_close_knots(envelope, 2 * envelope.delta(0.0))
        if found is not None:
            return (found,)
    parts: list[tuple[float, DominatingPair]] = []
    for size, weight in zip(blocks.ends.tolist(), weights.tolist(), strict=True):
        noise = sampled.mechanism.group(size=int(size))._known().noise
        pair = None if noise is None or not rate < 1 else noise.envelope(rate)[0]
        if not isinstance(pair, DominatingPair):
            return None
        parts.append((weight / rate, pair))
    return (MixedPair(tuple(parts), rest),)


def _pair_at_close_knots(profile: PrivacyProfile, typical: float) -> FinitePair | None:
    """Return the pair of a profile on knots so near one another that chords cost less than 1e-5 of ε.

    They are at most 1/800 of a `typical` loss apart, or 1/1000 of themselves.
    """
    last = _last_knot(profile)
    even = typical * np.arange(EVEN_KNOTS * 4) / EVEN_KNOTS
    apart = np.geomspace(even[-1], max(last, even[-1]), 1 + math.ceil(max(math.log(last / even[-1]), 0.0) / FURTHER))
    knots = np.concatenate([even, apart[1:]])
    return pair_at_knots(knots, np.maximum(profile.log_deltas(knots), math.log(LEAST_REVEALED)))


def _last_knot(profile: PrivacyProfile) -> float:
    """Return about where δ is LEAST_REVEALED, at most LAST_KNOT: what lies beyond any last knot is charged.

    A profile takes about as long at many places as at one.
    """
    low, high = 0.0, LAST_KNOT
    for _ in range(KNOT_ROUNDS):
        places = np.linspace(low, high, PLACES_AT_ONCE)
        above = np.flatnonzero(profile.log_deltas(places) > math.log(LEAST_REVEALED))
        last = int(above[-1]) if len(above) else 0
        if last == PLACES_AT_ONCE - 1:
            break
        low, high = float(places[last]), float(places[last + 1])
    return high


@lru_cache(maxsize=256)
def _moments(sampled: SampledWithReplacement) -> Curve:
    """Return the CGF of a profile: Balle, Barthe and Gaboardi (2018), Theorem 6, at knots, with chords between.

    Integrating a profile takes a while, so it is done once; every knot is an upper bound, and the projection of
    Proposition 24 (Wang et al. 2019) keeps it one in between.
    """
    profile = _profile_of_draws(sampled)
    ceiling = sampled.mechanism.group(size=sampled.draws)._known().curve()  # all m draws may be the one record
    if sampled.population > 1:
        always, mixed = ceiling.log_moment, mixed_moments(sampled)
        ceiling = replace(ceiling, log_moment=lambda lam: np.minimum(mixed(lam), always(lam)))
    if sampled.draws > OFTEN * sampled.population:
        return projected(zip(PROFILE_TILTS, ceiling(PROFILE_TILTS).tolist(), strict=True), pure=profile.pure)
    moments = cgf_from_profile(profile, ceiling=ceiling)
    points: list[tuple[float, float]] = []
    for lam in PROFILE_TILTS:
        is_useful = not points or points[-1][1] < USELESS_CGF
        points.append((lam, (moments if is_useful else ceiling).at(lam)))
    return projected(points, pure=profile.pure)


def mixed_moments(sampled: SampledWithReplacement) -> Callable[[Array], Array]:
    """Return K(λ) = log(1 + Σ_k Pr[the record comes k times] (e^{K_k(λ)} - 1)), K_k that of groups of k, from above.

    Moments of likelihood ratios are jointly convex, so those of two mixtures are at most the mixture of those of the
    parts; a sample with the record k times is at distance k from the one with the other record in its place.

    Holds for:  both relations, as `with_replacement_profile`.
    Tightness:  that of Theorem 10 where every sample has the record; it does not profit from samples without.
    """
    blocks = sampled._law.fine_blocks().up_to(sampled.draws)
    losses = [sampled.mechanism.group(size=int(k))._known().curve() for k in blocks.ends]
    return lambda lam: _log_mixed(np.array([loss.log_moment(lam) for loss in losses]), blocks.log_weights)
