"""Steps of Zhu and Wang's (2019) proofs, as printed: no answer uses them, as the orientation theorem replaces them.

A record joins a Poisson sample at rate γ; μ0 and μ1 are the outputs without it and with it, r = μ1/μ0, and A₂ is the
moment of the direction in which it joins, E_{μ0}[(1-γ+γr)^{1-α}].
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from cumulant.curves.curve import Curve
from cumulant.curves.divergences import signed_pearson_vajda
from cumulant.numerics.logspace import Array, log_sum
from cumulant.parameters import nonnegative, real, require, whole_number


def trivial_bound(order: int, *, rate: float) -> float:
    """Return log of (1-γ)^{-(α-1)} >= A₂: Zhu and Wang (2019), (5), its first line."""
    alpha, gamma = _checked(order, rate)
    return -(alpha - 1) * math.log1p(-gamma)


def trivial_bound_of_pure(order: int, *, rate: float, epsilon: float) -> float:
    """Return log of (1 - γ(1-e^{-ε}))^{-(α-1)} >= A₂ of an ε-DP mechanism: Zhu and Wang (2019), below (5)."""
    alpha, gamma = _checked(order, rate)
    return -(alpha - 1) * math.log1p(gamma * math.expm1(-nonnegative("epsilon", epsilon)))


def decomposition(mu0: ArrayLike, mu1: ArrayLike, *, order: int, rate: float) -> float:
    """Return γE_{μ1}[(1-γ+γ/r)^α] + (1-γ)E_{μ0}[(1-γ+γ(2-r))^α]: Zhu and Wang (2019), (6).

    Holds for:  distributions with the same outputs.
    Tightness:  a value for plots and comparison; that it bounds A₂ is shown by Jensen's inequality for x^α/y^{α-1}
                where x may be negative, which odd orders do not allow; see the errata.
    """
    alpha, gamma = _checked(order, rate)
    p, q = _positive(mu0, mu1)
    there, back = (1 - gamma + gamma * p / q) ** alpha, (1 - gamma + gamma * (2 - q / p)) ** alpha
    return gamma * math.fsum((q * there).tolist()) + (1 - gamma) * math.fsum((p * back).tolist())


def decomposition_by_terms(mu0: ArrayLike, mu1: ArrayLike, *, order: int, rate: float) -> float:
    """Return Σ_l C(α,l)(1-γ)^{α-l} γ^l {γE_{μ1}(1/r)^l + (1-γ)E_{μ0}(2-r)^l}: Zhu and Wang (2019), (7)."""
    alpha, gamma = _checked(order, rate)
    p, q = _positive(mu0, mu1)
    moments = [
        gamma * math.fsum((q * (p / q) ** l).tolist()) + (1 - gamma) * math.fsum((p * (2 - q / p) ** l).tolist())
        for l in range(alpha + 1)  # noqa: E741  the letter of the paper
    ]
    weights = [math.comb(alpha, l) * (1 - gamma) ** (alpha - l) * gamma**l for l in range(alpha + 1)]  # noqa: E741
    return math.fsum(weight * moment for weight, moment in zip(weights, moments, strict=True))


def lemma13(mu0: ArrayLike, mu1: ArrayLike, *, order: int) -> float:
    """Return E_{μ0} r^l - 2 Σ_{j odd, j <= l} C(l,j) E_{μ0}(r-1)^j = E_{μ0}(2-r)^l: Zhu and Wang (2019), Lemma 13."""
    ell = whole_number("order", order)
    p, q = _positive(mu0, mu1)
    odd = [math.comb(ell, j) * signed_pearson_vajda(q, p, order=j) for j in range(1, ell + 1, 2)]
    return math.fsum((p * (q / p) ** ell).tolist()) - 2 * math.fsum(odd)


def lemma14(order: int, *, cgf: Curve) -> float:
    """Return log of e^{lε(l+1)} at odd l, of e^{(l-1)ε(l)} + e^{lε(l+1)} at even l: Zhu and Wang (2019), Lemma 14.

    Holds for:  E_{μ0}(2-r)^l, if the curve bounds both orders of the neighbours; l >= 2.
    Tightness:  an order more than `lemma15` needs.
    """
    ell = whole_number("order", order, at_least=2)
    relaxed = cgf.at(float(ell))
    return relaxed if ell % 2 else log_sum([cgf.at(ell - 1.0), relaxed])


def lemma15(order: int, *, cgf: Curve) -> float:
    """Return log of 2e^{(l-1)ε(l)} at odd l, of 3e^{(l-1)ε(l)} at even l: Zhu and Wang (2019), Lemma 15.

    Holds for:  E_{μ0}(2-r)^l, if the curve bounds both orders of the neighbours; l >= 2.
    Tightness:  it gives Theorem 5 its factor 3.
    """
    ell = whole_number("order", order, at_least=2)
    return cgf.at(ell - 1.0) + math.log(2.0 if ell % 2 else 3.0)


def _checked(order: int, rate: float) -> tuple[int, float]:
    gamma = real("rate", rate, "must be a number in [0, 1)", lambda number: 0 <= number < 1)
    return whole_number("order", order, at_least=2), gamma


def _positive(*tables: ArrayLike) -> list[Array]:
    arrays = [np.asarray(table, dtype=float) for table in tables]
    require(all(bool(np.all(array > 0)) for array in arrays), "both distributions must have all outputs", tables)
    return arrays
