"""The loss of a mixture (1-γ)Q + γP against Q, both orders: what one record's membership reveals.

It is the loss of Poisson sampling under add-or-remove-one, in units of the largest contribution of one record, and
of sampling a fixed number without replacement under add-or-remove-one, in units of the replace-one sensitivity.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import numpy as np

from cumulant.curves.curve import Curve, interpolated
from cumulant.errors import OutOfReach, UnprovenCombination
from cumulant.mechanisms.base import AbstractMechanism
from cumulant.mechanisms.randomized_response import binary_loss
from cumulant.neighbors import Neighbors
from cumulant.numerics.logspace import Array
from cumulant.pairs.coordinate import CoordinatePair
from cumulant.pairs.curve import divergence, log_moments
from cumulant.pairs.finite_pair import FinitePair, finite_loss
from cumulant.pairs.likelihood_ratio import LikelihoodRatio, gaussian_ratio, in_small_batches, moment_of_mixture
from cumulant.pairs.maps import Leave
from cumulant.pairs.noise import FiniteNoise, GaussianNoise, Pairs
from cumulant.parameters import product_above
from cumulant.profiles.sampling import amplified_epsilon
from cumulant.sampling.poisson_theorems import poisson_tight

QUADRATURE_ERROR = 2e-13  # relative, generous for rules that leave out e^-50 and sums of 1e4 terms
FARTHEST_PEAK = 2000.0  # standard deviations up to which a Gaussian mixture is followed on its trapezoidal rule
FARTHEST_ORDER = 1e8  # beyond it sums over integers are not attempted: they take as long as its square root
TINIEST_RATE = 1e-140  # its square is still a double; the loss grows with the rate, so a larger rate is safe
NO_LOSS = Curve(log_moment=np.zeros_like, kl=0.0, pure=0.0)


def mixture_loss(mechanism: AbstractMechanism, rate: float) -> Curve:
    """Return the CGF of the mixture: exact where the mechanism's pair is known, else the tight black-box bound."""
    family = mechanism.noise()
    if isinstance(family, GaussianNoise):
        return gaussian_mixture_loss(mechanism.loss(), family.mean, max(rate, TINIEST_RATE))
    return sampled_loss(mechanism, rate, known=known_mixture_loss, black_box=poisson_tight)


def finite_sampled_loss(
    mechanism: AbstractMechanism, rate: float, pairs: Callable[[Neighbors | None], Pairs | None]
) -> Curve | None:
    """Return the loss on a sample of a mechanism with finitely many outputs, from the pairs of the sample themselves.

    None where the mechanism has others, or a formula of its own.
    """
    if not 0 < rate < 1 or not isinstance(mechanism.noise(), FiniteNoise) or mechanism.likelihood_ratio() is not None:
        return None
    try:
        known = pairs(None)
        finite = [pair for pair in known or () if isinstance(pair, FinitePair)]
        if not known or len(finite) < len(known):
            return None
        loss = finite_loss(finite)
        return _not_above_amplified(loss, mechanism.loss(), rate) if mechanism.failure_probability > 0 else loss
    except OutOfReach:
        return None


def _not_above_amplified(loss: Curve, base: Curve, rate: float) -> Curve:
    """Return the smaller of two bounds with one failure probability, order by order.

    When a record joins, what the mechanism reveals is a loss of -log(1-γ) of the pair, which rules its high orders; as
    an (ε, δ)-DP mechanism on a sample it is a failure.
    """
    if math.isinf(base.pure):
        return loss
    amplified = amplified_failure(base, rate)
    return at_most(loss, amplified) if amplified.failure == loss.failure else loss


def sampled_loss(
    mechanism: AbstractMechanism,
    rate: float,
    *,
    known: Callable[[LikelihoodRatio, Curve, float], Curve],
    black_box: Callable[..., float],
) -> Curve:
    """Return the loss on a sample: by the mechanism's pair if it is known, else by a theorem for RDP curves."""
    base, rate = mechanism.loss(), max(rate, TINIEST_RATE)
    if base.failure > 0:
        return amplified_failure(base, rate)
    if base.pure == 0:
        return NO_LOSS  # nothing, sampled
    ratio = mechanism.likelihood_ratio()
    return black_box_loss(black_box, base, rate) if ratio is None else known(ratio, base, rate)


def gaussian_mixture_loss(base: Curve, mean: float, rate: float) -> Curve:
    """Return `known_mixture_loss` of N(μ, 1) against N(0, 1), by a trapezoidal rule: its error is exponentially small.

    The nodes are those of `pairs.maps.Leave`; orders that would take too many go the other way.
    """
    pair = CoordinatePair(GaussianNoise(mean), Leave(rate))

    def log_moment(lam: Array) -> Array:
        near = (lam + 1) * mean <= FARTHEST_PEAK
        values = np.empty(lam.shape)
        values[near] = log_moments(pair, lam[near]) * (1 + QUADRATURE_ERROR)  # rounded up
        if not np.all(near):
            values[~near] = known_mixture_loss(gaussian_ratio(mean), base, rate).log_moment(lam[~near])
        return values

    return Curve(log_moment=log_moment, kl=divergence(pair) * (1 + QUADRATURE_ERROR), pure=math.inf, exact=base.exact)


def known_mixture_loss(ratio: LikelihoodRatio, base: Curve, rate: float) -> Curve:
    """Return K(λ) = log E_Q[(1-γ+γr)^{λ+1}] at any real order, by quadrature of a positive integrand.

    The other order, Q against the mixture, never has the larger Rényi divergence where an involution exchanges P
    and Q (Mironov, Talwar and Zhang 2019, Theorem 5), as it does for every `LikelihoodRatio`.

    Holds for:  a dominating pair of the mechanism; the mixture dominates by joint convexity over the other records
                (Zhu, Dong and Wang 2022, Theorem 11).
    Tightness:  attained, so exact for mechanisms that attain their pair.
    """
    return loss_by_quadrature(moment_of_mixture, ratio, base, rate, exact=base.exact)


def loss_by_quadrature(
    log_excess: Callable[..., Array], ratio: LikelihoodRatio, base: Curve, rate: float, *, exact: bool
) -> Curve:
    """Return K(λ) = log(1 + e^{log_excess}) where doubles resolve the integral, the convex bound beyond."""

    def log_moment(lam: Array) -> Array:
        near = np.minimum(lam, ratio.farthest_order)
        orders, share = orders_above(near)
        excess = in_small_batches(lambda some: log_excess(ratio, rate=rate, orders=some), orders)
        values = share * np.logaddexp(0.0, excess) * (1 + QUADRATURE_ERROR)  # rounded up
        return np.where(near < lam, convex_bound(base, rate)(lam), values) if np.any(near < lam) else values

    pure = amplified_pure(base.pure, rate)
    return Curve(log_moment=log_moment, kl=slope_at_zero(log_moment), pure=pure, exact=exact, summed=True)


def orders_above(lam: Array) -> tuple[Array, Array]:
    """Return α >= 1 + λ as doubles, and λ/(α-1): K(λ) <= λ/(α-1)·K(α-1), as K is convex and K(0) = 0.

    For tiny λ the sum 1 + λ rounds by much of λ, and rounded down the moment would be too small.
    """
    orders = 1 + lam
    orders = np.where(orders - 1 < lam, np.nextafter(orders, np.inf), orders)
    return orders, lam / (orders - 1)


def black_box_loss(theorem: Callable[..., float], base: Curve, rate: float) -> Curve:
    """Return the bound for a mechanism known by its RDP curve: a theorem at integers, chords between.

    Of a curve that is such a bound itself, a sample of a sample, only the convex bound is taken: sums of sums over
    thousands of orders take minutes.
    """
    anyway = convex_bound(base, rate)
    if base.summed:
        return anyway

    def at_integers(lam: int) -> float:
        return anyway.at(float(lam)) if lam > FARTHEST_ORDER else theorem(lam + 1, rate=rate, cgf=base)

    return at_most(interpolated(at_integers, pure=anyway.pure), anyway)


def convex_bound(base: Curve, rate: float) -> Curve:
    """Return K'(λ) = log(1 - γ + γe^{K(λ)}): x ↦ x^α is convex, so E(1-γ+γr)^α <= 1 - γ + γE r^α."""

    def log_moment(lam: Array) -> Array:
        return moment_of_mixed(base.log_moment(lam), rate)

    kl = product_above(Fraction(rate), base.kl)
    return replace(base, log_moment=log_moment, kl=kl, pure=amplified_pure(base.pure, rate), exact=False)


def moment_of_mixed(k: Array, rate: float) -> Array:
    """Return log(1 - γ + γe^k), rounded up.

    E_q(p/q)^α is jointly convex in (p, q): both mixed at rate γ with one distribution, it is at most this.
    """
    far = np.logaddexp(math.log1p(-rate), math.log(rate) + k) if rate < 1 else k
    return np.asarray(np.where(k < 1, np.log1p(rate * np.expm1(np.minimum(k, 1.0))), far) * (1 + QUADRATURE_ERROR))


def at_most(cgf: Curve, other: Curve) -> Curve:
    """Return the smaller of two bounds at every order: chords between integers may be above what holds anyway.

    A loss of at most ε has K(λ) <= λε.
    """
    pure = min(cgf.pure, other.pure)

    def log_moment(lam: Array) -> Array:
        least = np.minimum(cgf.log_moment(lam), other.log_moment(lam))
        return np.minimum(least, lam * pure * (1 + 4e-16)) if math.isfinite(pure) else least  # rounded up

    return replace(cgf, log_moment=log_moment, kl=min(cgf.kl, other.kl, pure), pure=pure, summed=True)


def amplified_pure(pure: float, rate: float) -> float:
    """Return log(1 + γ(e^ε - 1)), rounded up: Balle, Barthe and Gaboardi (2018), Theorems 8 and 9 at δ = 0."""
    return amplified_epsilon(pure, rate)


def amplified_failure(base: Curve, rate: float) -> Curve:
    """Return the loss of an (ε, δ)-DP mechanism on a sample, which is (log(1 + γ(e^ε-1)), γδ)-DP.

    Balle, Barthe and Gaboardi (2018), Theorems 8 (Poisson, add-or-remove-one) and 9 (without replacement,
    replace-one); Lemma 3 of Wang et al. (2019).
    """
    if math.isinf(base.pure):
        raise UnprovenCombination(
            "sampling a composition in which one part may fail (approximate DP) and another has unbounded loss is not "
            "covered by a theorem here; sample the parts and compose the samples instead"
        )
    failure = product_above(Fraction(rate), base.failure)
    return replace(binary_loss(amplified_pure(base.pure, rate)), failure=failure, exact=False)


def slope_at_zero(log_moment: Callable[[Array], Array]) -> float:
    """Return a bound of K'(0) that is at most about 1e-6 high: K(λ)/λ does not decrease."""
    lam = 1e-6
    return float(log_moment(np.array([lam]))[0]) / lam
