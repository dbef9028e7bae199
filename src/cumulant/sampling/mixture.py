"""K of a sample at real orders: of its dominating pairs where they are known, else by a theorem for Rényi curves.

The mixture (1-γ)Q + γP against Q is what one record's membership reveals: of Poisson sampling under add-or-remove-one,
in units of the largest contribution of one record, and of sampling a fixed number without replacement under
add-or-remove-one, in units of the replace-one sensitivity. The envelope is that of replace-one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import cache, partial

import numpy as np

from cumulant.curves.curve import Curve, at_most, interpolated, remembered
from cumulant.errors import OutOfReach, UnprovenCombination
from cumulant.mechanisms.known import LINE_REACH, QUADRATURE_ERROR, Known, curve_of_pair
from cumulant.mechanisms.randomized_response import binary_loss
from cumulant.numerics.logspace import Array, log_expm1
from cumulant.pairs.finite_pair import FinitePair, finite_loss
from cumulant.pairs.noise import FiniteNoise, Noise, Pair, Pairs
from cumulant.pairs.pair import DominatingPair
from cumulant.parameters import product_above
from cumulant.profiles.sampling import amplified_epsilon
from cumulant.sampling.poisson_theorems import poisson_tight
from cumulant.sampling.without_replacement_theorems import best_black_box

HALF_LINE_REACH = 100.0  # standard deviations up to which peaks of halves are followed
FARTHEST_ORDER = 1e8  # beyond it sums over integers are not attempted: they take as long as its square root
NESTED_ORDER = 256  # the same for samples of samples
TINIEST_RATE = 1e-140  # its square is still a double; the loss grows with the rate, so a larger rate is safe
NO_LOSS = Curve(log_moment=np.zeros_like, kl=0.0, pure=0.0)

Sample = Callable[[Noise, float], Pairs]
"""What a scheme makes of a noise: its pairs at a rate."""


def mixture_curve(base: Known, rate: float) -> Curve:
    """Return K(λ) = log E_Q[(1-γ+γr)^{λ+1}] of a sample, r = dP/dQ, from its pairs, or the tight black-box bound.

    Of noise that an involution turns around, P into Q and Q into P, the record that leaves costs at least as much at
    every order as the one that joins (Mironov, Talwar and Zhang 2019, Theorem 5).

    Holds for:  a dominating pair of the mechanism; the mixture dominates by joint convexity over the other records
                (Zhu, Dong and Wang 2022, Theorem 11).
    Tightness:  attained, so exact for mechanisms that attain their pair.
    """
    return _mixture_curve(base, rate, lambda noise, rate: noise.poisson(rate))


def displaced_curve(base: Known, rate: float) -> Curve:
    """Return the curve of a sample of fixed size, where the record takes the place of another one."""
    curve = _mixture_curve(base, rate, lambda noise, rate: noise.displaced(rate))
    dominates_only = base.noise is not None and not base.noise.symmetric
    return replace(curve, exact=False) if dominates_only else curve


def _mixture_curve(base: Known, rate: float, sample: Sample) -> Curve:
    curve = base.curve()
    known = _curve_of_pairs(base, rate, sample, LINE_REACH, lambda rate: poisson_bound(curve, rate))
    return poisson_bound(curve, rate) if known is None else replace(known, exact=curve.exact)


def envelope_curve(base: Known, rate: float) -> Curve:
    """Return K(λ) of the envelope under replace-one, from its pair, or the best black-box bound.

    Coupling the sampled sets makes the two outputs mixtures that share a part, (1-γ)μ₀ + γμ₁ and (1-γ)μ₀ + γμ₁', over
    mutually neighbouring μ₀, μ₁, μ₁'. Advanced joint convexity bounds H_t for t >= 1 by γH_a(P‖Q), a = 1 + (t-1)/γ,
    which is H_t of the mixture against Q; t <= 1 follows by exchanging the two (Zhu, Dong and Wang 2022, Proposition
    30). An f-divergence is the integral of H_t against f'' >= 0, so with w = 1 - γ + γr and f_β(w) = w^β - 1 - β(w-1)

        e^{K(λ)} = 1 + E_Q[f_α(w); r > 1] + E_Q[f_{1-α}(w); r > 1],   α = λ + 1.

    Holds for:  replace-one, subsets of fixed size; adaptive composition.
    Tightness:  each half is attained, by different datasets; for small γ about twice what is attained.
    """
    beyond = partial(_envelope_beyond, base)
    known = _curve_of_pairs(base, rate, lambda noise, rate: noise.envelope(rate), HALF_LINE_REACH, beyond)
    return replace_one_bound(base.curve(), rate) if known is None else replace(known, exact=False)


def _curve_of_pairs(
    base: Known, rate: float, sample: Sample, reach: float, beyond: Callable[[float], Curve]
) -> Curve | None:
    """Return K of the pairs of a sample, and a bound for orders that are too far; None where the pairs do not tell."""
    noise, curve = base.noise, base.curve()
    if noise is None or curve.pure == 0 == curve.failure:
        return None
    if isinstance(noise, FiniteNoise):
        return _curve_of_finite(sample, noise, curve, rate)
    rate = max(rate, TINIEST_RATE)
    leaving = sample(noise, rate)[0]
    if not isinstance(leaving, DominatingPair):
        return None
    far = cache(partial(beyond, rate))  # few orders are so far
    pure = amplified_epsilon(curve.pure, rate)
    return curve_of_pair(leaving, noise.farthest_tilt(reach), far, pure=pure)


def _curve_of_finite(sample: Sample, noise: FiniteNoise, base: Curve, rate: float) -> Curve | None:
    """Return the largest K of the pairs of a sample with finitely many outputs, unless these are too many."""
    try:
        loss = finite_loss([pair for pair in sample(noise, rate) if isinstance(pair, FinitePair)])
    except OutOfReach:
        return None
    if base.failure > 0:
        return _not_above_amplified(loss, base, rate)
    return replace(loss, summed=noise.symmetric)  # sums of sums over its orders, which reach far, take seconds


def antithetic_curve(pair: Pair, base: Known, envelope: Curve) -> Curve:
    """Return K of the antithetic pair of a Poisson sample under replace-one, at most that of the envelope.

    See `Noise.antithetic`.
    """
    if isinstance(pair, FinitePair):
        return at_most(finite_loss([pair]), envelope)
    assert isinstance(pair, DominatingPair)
    assert base.noise is not None
    near = curve_of_pair(pair, base.noise.farthest_tilt(LINE_REACH), lambda: envelope, pure=pair.supremum)
    return at_most(near, envelope)


def _envelope_beyond(base: Known, rate: float) -> Curve:
    """Return a bound of the envelope at far orders: e^K <= E_Q[w^α] + min{(α-1)γ, α(α-1)γ²χ²/2}.

    f_α >= 0, so E_Q[f_α(w); r > 1] <= E_Q[w^α] - 1. For w >= 1 the other half has f_{1-α}(w) <= (α-1)(w-1), as
    w^{1-α} <= 1, and f_{1-α}(w) <= α(α-1)(w-1)²/2, as f'' falls; E_Q[(r-1)_+] <= 1, and E_Q[(r-1)²] = χ² = e^{K(1)} - 1
    of the mechanism. Divided by λ, at λ = 0, that bounds the divergence of order 1 as well.
    """
    mixture = mixture_curve(base, rate)
    log_rate, log_square = math.log(rate), float(log_expm1(np.array([base.curve().at(1.0)]))[0])
    other_half = rate * math.exp(min(0.0, log_rate + log_square - math.log(2.0)))

    def log_moment(lam: Array) -> Array:
        k = mixture.log_moment(lam)
        more = np.log(lam) + log_rate + np.minimum(0.0, np.log1p(lam) + log_rate + log_square - math.log(2.0))
        small = np.log1p(np.expm1(np.minimum(k, 1.0)) + np.exp(np.minimum(more, 1.0)))
        values = np.where((k < 1) & (more < 1), small, np.logaddexp(k, more))
        return np.asarray(values * (1 + QUADRATURE_ERROR))  # rounded up

    kl = (mixture.kl + other_half) * (1 + QUADRATURE_ERROR)  # rounded up
    return at_most(Curve(log_moment=log_moment, kl=kl), convex_bound(base.curve(), rate))


def poisson_bound(curve: Curve, rate: float) -> Curve:
    """Return the bound for Poisson sampling of a mechanism known by its Rényi curve."""
    return _bound_of_curve(curve, rate, poisson_tight)


def replace_one_bound(curve: Curve, rate: float) -> Curve:
    """Return the bound for samples under replace-one of a mechanism known by its Rényi curve."""
    return _bound_of_curve(curve, rate, best_black_box)


def _bound_of_curve(curve: Curve, rate: float, theorem: Callable[..., float]) -> Curve:
    if curve.failure > 0:
        return amplified_failure(curve, rate)
    return NO_LOSS if curve.pure == 0 else black_box_loss(theorem, curve, max(rate, TINIEST_RATE))


def _not_above_amplified(loss: Curve, base: Curve, rate: float) -> Curve:
    """Return the smaller of two bounds with one failure probability, order by order.

    When a record joins, what the mechanism reveals is a loss of -log(1-γ) of the pair, which rules its high orders; as
    an (ε, δ)-DP mechanism on a sample it is a failure.
    """
    if math.isinf(base.pure):
        return loss
    amplified = amplified_failure(base, rate)
    return at_most(loss, amplified) if amplified.failure == loss.failure else loss


def black_box_loss(theorem: Callable[..., float], base: Curve, rate: float) -> Curve:
    """Return the bound for a mechanism known by its RDP curve: a theorem at integers, chords between.

    Of a curve that is a sum or an integral itself, a sample of a sample, it is asked up to `NESTED_ORDER`: sums of sums
    over thousands of orders take minutes. The convex bound holds everywhere.
    """
    anyway, curve = convex_bound(base, rate), base
    if base.summed:  # a term of one order is one of the next, too
        curve = replace(base, log_moment=remembered(base.log_moment))
    farthest = NESTED_ORDER if base.summed else FARTHEST_ORDER

    def at_integers(lam: int) -> float:
        return anyway.at(float(lam)) if lam > farthest else theorem(lam + 1, rate=rate, cgf=curve)

    return at_most(interpolated(at_integers, pure=anyway.pure), anyway)


def convex_bound(base: Curve, rate: float) -> Curve:
    """Return K'(λ) = log(1 - γ + γe^{K(λ)}): x ↦ x^α is convex, so E(1-γ+γr)^α <= 1 - γ + γE r^α."""

    def log_moment(lam: Array) -> Array:
        return moment_of_mixed(base.log_moment(lam), rate)

    kl = product_above(Fraction(rate), base.kl)
    return replace(base, log_moment=log_moment, kl=kl, pure=amplified_epsilon(base.pure, rate), exact=False)


def moment_of_mixed(k: Array, rate: float) -> Array:
    """Return log(1 - γ + γe^k), rounded up.

    E_q(p/q)^α is jointly convex in (p, q): both mixed at rate γ with one distribution, it is at most this.
    """
    far = np.logaddexp(math.log1p(-rate), math.log(rate) + k) if rate < 1 else k
    return np.asarray(np.where(k < 1, np.log1p(rate * np.expm1(np.minimum(k, 1.0))), far) * (1 + QUADRATURE_ERROR))


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
    return replace(binary_loss(amplified_epsilon(base.pure, rate)), failure=failure, exact=False)
