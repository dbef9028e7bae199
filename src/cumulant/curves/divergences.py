"""Divergences of the papers: on finite distributions, and the Pearson-Vajda moments of three noise mechanisms.

Wang, Balle and Kasiviswanathan (2019) need E_q|p/q-1|^l, and B(ε,l) = E_q[(p/q-1)^l], which is the l-th forward
difference of e^{(·-1)ε(·)} at 0. Evaluated as that alternating sum it loses l²/2σ² nats; they leave its computation
for large l as an open problem. The three pairs here are swapped by a symmetry that maps r = p/q to 1/r, so the part
with r < 1 folds onto r > 1 and

    E_q|r-1|^l = E_q[(r-1)^l (1 + r^{1-l}); r > 1],     B(ε,l) = E_q[(r-1)^l (1 + (-1)^l r^{1-l}); r > 1]:

one positive integrand for each, at any l. It also shows B >= 0 (the condition of Zhu and Wang's Theorem 8).

Erratum: B is printed with the sign (-1)^i; the forward difference has (-1)^{l-i}, which differs for odd l.
Logarithms of these moments are given with an absolute error of at most `moment_error`.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cumulant.curves.curve import Array, Curve
from cumulant.curves.finite_losses import log_moment_of_losses, losses_of, mean_loss
from cumulant.numerics.logspace import log_expm1
from cumulant.numerics.quadrature import nodes_on
from cumulant.numerics.rounding import LEAST
from cumulant.numerics.search import roots
from cumulant.parameters import positive, require, whole_number

LogMoment = Callable[[Array], Array]
"""Orders to logarithms of moments."""

PANELS, NODES = 10, 20  # composite Gauss-Legendre
REACH = 10.0  # standard deviations either side of a mode: e^{-50} is left out
DECAY = 80.0  # nats
CHUNK = 2_000  # orders at a time
LARGEST_TERM = 1e300  # of a sum of which the rest is at most 1


# Finite distributions -------------------------------------------------------------------------------------------------


def renyi_divergence(p: ArrayLike, q: ArrayLike, *, order: float) -> float:
    """Return D_α(p‖q) = log(Σ p^α q^{1-α})/(α-1) for α >= 0, its limits at 1, Σ p log p/q, and at ∞, log max p/q.

    Van Erven and Harremoës (2014), Definitions 2 and 3. It is -log q(p > 0) at 0, and inf from 1 on where p has mass
    that q lacks, below 1 only where the two have no output in common.

    >>> round(renyi_divergence([0.75, 0.25], [0.25, 0.75], order=2.0), 12) == round(math.log(7 / 3), 12)
    True
    >>> [round(renyi_divergence([0.5, 0.5], [0.25, 0.75], order=order), 4) for order in (0, 0.5, 1, math.inf)]
    [0.0, 0.0693, 0.1438, 0.6931]
    """
    require(order >= 0, "order must be a number >= 0", order)
    p, q = np.asarray(p, dtype=float), np.asarray(q, dtype=float)
    if math.isinf(order):
        with np.errstate(divide="ignore", invalid="ignore"):
            return float(np.nanmax(np.log(p) - np.log(q)))
    if order >= 1 and np.any((p > 0) & (q == 0)):
        return math.inf
    there = (p > 0) & (q > 0)
    at_one = mean_loss(p[there], losses_of(p[there], q[there])) + float(np.sum(q[p == 0])) if order >= 1 else 0.0
    # it grows with the order
    return at_one if order == 1 else max(at_one, cumulant_of_pair(p, q, tilt=order - 1) / (order - 1))


def cumulant_of_pair(p: ArrayLike, q: ArrayLike, *, tilt: float) -> float:
    """Return K(λ) = log E_p[(p/q)^λ] for any real λ: the CGF of the privacy loss.

    Wang et al. (2019), Lemma 31: convex, K(0) = 0, and K(-1) = log q(p > 0), 0 where both have the same outputs; its
    slope grows from the smallest loss to the largest. With L = log p/q and X(x) = e^x - 1 - x, for p and q that add
    up to 1, and where neither lacks outputs of the other,

        e^K - 1 = λ Σ p X(-L) + Σ p X(λL),

    which does not cancel next to λ = 0; next to -1 it is the same of q against p, K(λ) = K_{q,p}(-1-λ).
    """
    p, q = np.asarray(p, dtype=float), np.asarray(q, dtype=float)
    if tilt > 0 and np.any((p > 0) & (q == 0)):
        return math.inf
    there = (p > 0) & (q > 0)
    if not np.any(there):
        return -math.inf
    if tilt == 0:
        return 0.0
    one, other, lam = (p, q, tilt) if tilt >= -0.5 else (q, p, -1 - tilt)
    return log_moment_of_losses(one, other, there, lam)


def signed_pearson_vajda(p: ArrayLike, q: ArrayLike, *, order: int) -> float:
    """Return χ^α(p‖q) = E_q[(p/q - 1)^α] with its sign, at a whole order: (3.2) of Wang et al. (2019).

    Odd orders may be negative (Nielsen and Nock 2014), which is why Zhu and Wang's (2019) Theorem 8 asks for a sign.

    >>> signed_pearson_vajda([0.01, 0.99], [0.3, 0.7], order=3) < 0
    True
    """
    order = whole_number("order", order)
    p, q = np.asarray(p, dtype=float), np.asarray(q, dtype=float)
    if order > 1 and np.any((p > 0) & (q == 0)):
        return math.inf
    there = q > 0
    with np.errstate(divide="ignore", over="ignore"):  # logarithms: a power may overflow where its probability is tiny
        excess = p[there] / q[there] - 1
        sizes = np.exp(np.log(q[there]) + (order * np.log(np.abs(excess)) if order else 0.0))
    if np.any(sizes > LARGEST_TERM):
        return math.inf  # only ratios above 1 have such powers
    return math.fsum((np.sign(excess) ** order * sizes).tolist())


def pearson_vajda(p: ArrayLike, q: ArrayLike, *, order: float) -> float:
    """Return E_q|p/q - 1|^α, (3.1) of Wang et al. (2019): the total variation doubled at 1, χ² at 2."""
    return ternary_pearson_vajda(p, q, q, order=order)


def ternary_pearson_vajda(p: ArrayLike, q: ArrayLike, r: ArrayLike, *, order: float) -> float:
    """Return E_r|(p-q)/r|^α, the ternary divergence of Wang et al. (2019); it shrinks by γ^α under sampling."""
    p, q, r = np.asarray(p, dtype=float), np.asarray(q, dtype=float), np.asarray(r, dtype=float)
    gap = np.abs(p - q)
    if order > 1 and np.any((gap > 0) & (r == 0)):
        return math.inf
    there = gap > 0
    if not np.any(there):
        return 0.0
    logs = order * np.log(gap[there]) + (1 - order) * np.log(np.maximum(r[there], LEAST))
    with np.errstate(over="ignore"):
        return float(np.exp(np.logaddexp.reduce(logs)))


def hockey_stick(p: ArrayLike, q: ArrayLike, *, epsilon: float) -> float:
    """Return Σ (p - e^ε q)_+: the smallest δ for which p and q are (ε, δ)-close in this direction."""
    t = math.exp(min(epsilon, 700.0))  # finite; a smaller t is safe, as the divergence does not increase in it
    return math.fsum(np.maximum(np.asarray(p, dtype=float) - t * np.asarray(q, dtype=float), 0.0))


# B(ε,l) and E|r-1|^l --------------------------------------------------------------------------------------------------


def moment_error(orders: Array, log_moments: Array) -> Array:
    """Return the absolute error that logarithms of moments are allowed: 1e-12, or as many digits as a double has."""
    with np.errstate(invalid="ignore"):
        return np.where(np.isfinite(log_moments), 1e-12 + 1e-14 * (orders + np.abs(log_moments)), 1e-12)


def gaussian_log_difference(orders: ArrayLike, *, noise_multiplier: float) -> Array:
    """Return log B(ε,l) of N(1, σ²) against N(0, σ²) at whole l >= 0; -inf at l = 1, where B = 0.

    >>> round(float(gaussian_log_difference(50, noise_multiplier=10.0)), 1)
    -22.2
    """
    return _in_chunks(_gaussian, orders, positive("noise_multiplier", noise_multiplier), _parity(orders))


def gaussian_log_abs_moment(orders: ArrayLike, *, noise_multiplier: float) -> Array:
    """Return log E_q|p/q-1|^l of N(1, σ²) against N(0, σ²), at whole l >= 0."""
    return _in_chunks(_gaussian, orders, positive("noise_multiplier", noise_multiplier), _ones(orders))


def laplace_log_difference(orders: ArrayLike, *, scale: float) -> Array:
    """Return log B(ε,l) of Laplace(1, b) against Laplace(0, b) at whole l >= 0; -inf at l = 1, where B = 0."""
    return _in_chunks(_laplace, orders, positive("scale", scale), _parity(orders))


def laplace_log_abs_moment(orders: ArrayLike, *, scale: float) -> Array:
    """Return log E_q|p/q-1|^l of Laplace(1, b) against Laplace(0, b), at whole l >= 0."""
    return _in_chunks(_laplace, orders, positive("scale", scale), _ones(orders))


def binary_log_difference(orders: ArrayLike, *, epsilon: float) -> Array:
    """Return log B(ε,l) of randomized response with log-odds ε₀, at whole l >= 0; -inf at l = 1, where B = 0.

    B = (e^{ε₀}-1)^l (1 + (-1)^l e^{(1-l)ε₀}) / (1 + e^{ε₀})
    """
    return _in_chunks(_binary, orders, positive("epsilon", epsilon), _parity(orders))


def binary_log_abs_moment(orders: ArrayLike, *, epsilon: float) -> Array:
    """Return log E_q|p/q-1|^l of randomized response with log-odds ε₀, at whole l >= 0."""
    return _in_chunks(_binary, orders, positive("epsilon", epsilon), _ones(orders))


def log_difference_of_curve(cgf: Curve, *, off_by: float = 1e-13) -> LogMoment:
    """Return log of an upper bound of B(ε,l) = Σ_i (-1)^{l-i} C(l,i) e^{K(i-1)}, l >= 2, from a curve alone.

    The alternating sum loses digits as l grows: what the curve may be off by, a share of 2 + K, is added term by term.
    """

    def at(order: float) -> float:
        l = int(order)  # noqa: E741  the letter of the paper
        i = np.arange(l + 1.0)
        k = np.concatenate([[0.0], cgf(i[1:] - 1)])
        logs = k + np.array([math.lgamma(l + 1) - math.lgamma(x + 1) - math.lgamma(l - x + 1) for x in i.tolist()])
        peak = float(np.max(logs))
        if math.isinf(peak):
            return peak
        terms = np.exp(logs - peak)
        lost = float(np.sum(terms * (off_by * (2 + k) + 4e-15 * (1 + l))))
        return peak + math.log(max(math.fsum((terms * (-1.0) ** (l - i)).tolist()), 0.0) + lost)

    return lambda orders: np.array([0.0 if order == 0 else at(order) for order in orders.tolist()])


def cauchy_schwarz_log_abs_moment(log_difference: LogMoment) -> LogMoment:
    """Return a bound of log E|r-1|^j from log B at even orders: ½ log B(2⌊j/2⌋) + ½ log B(2⌈j/2⌉).

    Wang et al. (2019), the proof of Theorem 19. Equal to the moment at even j; at odd j `*_log_abs_moment` is smaller.
    """

    def bound(orders: Array) -> Array:
        return 0.5 * (log_difference(2 * np.floor(orders / 2)) + log_difference(2 * np.ceil(orders / 2)))

    return bound


def _whole(orders: ArrayLike) -> Array:
    """Return orders as an array; at fractional ones r^l is not smooth at r = 1, and the quadrature not as accurate."""
    ell = np.asarray(orders, dtype=float)
    require(bool(np.all((ell >= 0) & (ell == np.floor(ell)))), "orders must be whole numbers >= 0", orders)
    return ell


def _parity(orders: ArrayLike) -> Array:
    """Return (-1)^l."""
    return 1 - 2 * np.mod(_whole(orders), 2)


def _ones(orders: ArrayLike) -> Array:
    return np.ones_like(_whole(orders))


def _in_chunks(moment: Callable[[Array, float, Array], Array], orders: ArrayLike, scale: float, sign: Array) -> Array:
    """Evaluate one order per row, a limited number of rows at a time."""
    flat, signs = np.ravel(np.asarray(orders, dtype=float)), np.ravel(sign)
    starts = range(0, len(flat), CHUNK)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        parts = [moment(flat[i : i + CHUNK, None], scale, signs[i : i + CHUNK, None]) for i in starts]
    if not parts:
        return np.zeros(np.shape(orders))
    found = np.concatenate(parts)[:, 0]
    # safe side: nothing is known out of the range of doubles; only B(ε,1) is 0
    unknown = np.isnan(found) | (np.isneginf(found) & (flat != 1))
    return np.where(unknown, math.inf, found).reshape(np.shape(orders))


def _folded(ell: Array, u: Array, sign: Array) -> Array:
    """Return log of (r-1)^l (1 ± r^{1-l}) at r = e^u > 1."""
    back = (1 - ell) * u
    with np.errstate(divide="ignore"):
        # log(1 - e^back) by expm1: at small u the two sides of an odd moment nearly cancel
        minus = np.log(np.maximum(-np.expm1(np.minimum(back, 0.0)), 0.0))
        return np.where(ell == 0, 0.0, ell * log_expm1(u)) + np.where(sign > 0, np.logaddexp(0.0, back), minus)


def _gaussian(ell: Array, sigma: float, sign: Array) -> Array:
    """∫_0^∞ φ_σ(½ + σ²u) (e^u-1)^l (1 ± e^{(1-l)u}) σ² du: log-concave but for the last factor, between 1 and 2."""
    mode = _gaussian_mode(ell, sigma)
    low, high = np.maximum(mode - REACH / sigma, 0.0), mode + REACH / sigma  # the log falls at least as σ²(u-mode)²/2

    def log_integrand(u: Array) -> Array:
        return _folded(ell, u, sign) - 0.5 * (0.5 / sigma + sigma * u) ** 2

    return _log_integral(log_integrand, low, high) + math.log(sigma) - 0.5 * math.log(2 * math.pi)


def _gaussian_mode(ell: Array, sigma: float) -> Array:
    """Return about the u with l/(1-e^{-u}) = ½ + σ²u, the left of which is between l(1+1/u)/2 and l(1+1/u)."""

    def falls(u: Array, rows: NDArray[np.intp]) -> Array:
        return np.asarray(0.5 + sigma * sigma * u + ell[rows, 0] / np.expm1(-u))

    linear = (0.5 * ell[:, 0] - 0.5) / sigma
    least = (linear + np.sqrt(linear**2 + 2 * ell[:, 0])) / (2 * sigma)
    return roots(falls, np.maximum(least, 1e-300), 1 / sigma, relative=1e-9)[1][:, None]


def _laplace(ell: Array, scale: float, sign: Array) -> Array:
    """The atom r = e^θ of mass e^{-θ}/2, and ¼e^{-θ/2} ∫_0^θ e^{-u/2} (e^u-1)^l (1 ± e^{(1-l)u}) du; θ = 1/b."""
    theta = 1 / scale
    # r-1 <= e^θ-1 and the integrand's log rises at least as (l-½)·max(u, log u): below `low` it is e^{-80} of the top
    steep = DECAY / np.maximum(ell - 0.5, 0.5)
    low = np.maximum(theta - steep, theta * np.exp(-steep))
    integral = _log_integral(lambda u: _folded(ell, u, sign) - 0.5 * u, np.where(ell < 1, 0.0, low), theta)
    atom = _folded(ell, np.full_like(ell, theta), sign) - theta
    return np.asarray(np.logaddexp(atom - math.log(2), integral - 0.5 * theta - math.log(4)))


def _binary(ell: Array, epsilon: float, sign: Array) -> Array:
    return _folded(ell, np.full_like(ell, epsilon), sign) - float(np.logaddexp(0.0, epsilon))


def _log_integral(log_integrand: Callable[[Array], Array], low: Array, high: Array | float) -> Array:
    """Return log ∫ e^f over [low, high], one row per integral, by composite Gauss-Legendre."""
    ends = np.linspace(0.0, 1.0, PANELS + 1)
    fractions, log_weights = nodes_on(ends[:-1], ends[1:], NODES)
    width = high - low
    values = log_integrand(low + width * fractions) + log_weights
    return np.asarray(np.logaddexp.reduce(values, axis=1, keepdims=True) + np.log(width))


# From binary to ternary, and to (ε, δ) --------------------------------------------------------------------------------


def ternary_from_binary(log_binary: ArrayLike) -> Array:
    """Return log of a bound on ζ(j)^j, the ternary |χ|^j, from log of a bound on ξ(j)^j, the binary one: + log 4.

    Wang et al. (2019), Lemma 15: E_r|(p-q)/r|^j <= D(p‖r) + D(p‖q) + D(q‖r) + D(q‖p). Split by p >= q or not, and
    the smaller of the two >= r or not. Errata: E_4 is printed as E_3 (it is p < q, p < r), and the bounds that follow
    the lemma, "ζ(2) <= ..." and "ζ(j) <= ...", are of ζ(2)² and ζ(j)^j.

    Holds for:  three distributions whose six ordered divergences the binary bound covers.
    Tightness:  within a factor 4: ξ^j <= ζ^j <= 4ξ^j.
    """
    return np.asarray(log_binary, dtype=float) + math.log(4.0)


def difference_bound(log_x: ArrayLike, log_y: ArrayLike) -> Array:
    """Return log of E[X^j] + E[Y^j] >= E|X-Y|^j from the logarithms of the two moments.

    Wang et al. (2019), Lemma 16. With X = p/r, Y = q/r it gives ζ(j)^j <= 2e^{K(j-1)}.

    Holds for:  nonnegative X, Y and j >= 1.
    Tightness:  attained when X and Y are never positive together.
    """
    return np.asarray(np.logaddexp(log_x, log_y))


def multiplicative_bound(log_y: ArrayLike, *, epsilon: float, order: ArrayLike) -> Array:
    """Return log of E[Y^j] (e^ε - 1)^j >= E|X-Y|^j.

    Wang et al. (2019), Lemma 17. With ε = ε(∞) it gives ζ(j)^j <= e^{K(j-1)} (e^{ε(∞)} - 1)^j.

    Holds for:  nonnegative X, Y with e^{-ε}Y <= X <= e^ε Y, and j >= 1.
    Tightness:  attained by X = e^ε Y.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        bound = np.asarray(log_y, dtype=float) + np.asarray(order, dtype=float) * log_expm1(epsilon)
    return np.where(np.isnan(bound), math.inf, bound)  # of 0 times e^∞ nothing is known


def hoelder_bound(order: int, *, cgf: Curve, log_abs_moment: LogMoment, u: float) -> float:
    """Return log of e^{(j-1) D_{(j-1)v+1}(q‖r)} · D_{|χ|^{ju}}(p‖q)^{1/u} >= E_r|(p-q)/r|^j, where 1/u + 1/v = 1.

    Wang et al. (2019), Lemma 29: Hölder's inequality. u = 1, v = ∞ uses pure DP (Remark 30).

    Holds for:  j >= 2, u >= 1, ju a whole number; neighbours whose CGF and moments the arguments bound.
    Tightness:  none claimed; u balances a high Rényi order against a high moment.
    """
    require(u >= 1, "u must be >= 1", u)
    moment = float(log_abs_moment(np.array([order * u]))[0]) / u
    if u == 1:
        return (order - 1) * cgf.pure + moment
    v = u / (u - 1)
    return cgf.at((order - 1) * v) / v + moment


def pearson_vajda_log_delta(log_moment: float, *, order: float, epsilon: float) -> float:
    """Return log δ that a bound ξ^α of E_q|p/q-1|^α proves at ε > 0.

        δ = ξ^α (α-1)^{α-1} / (α^α (e^ε-1)^{α-1})

    Wang et al. (2019), Lemma 28, derived anew: δ <= E_q(r-e^ε)_+ with r-1 = x and t = e^ε-1, and
    (x-t)_+ <= x^α (α-1)^{α-1}/(α^α t^{α-1}), equal at x = tα/(α-1). Erratum: the lemma prints δ = (ξ/(e^ε-1))^α, from
    Markov's inequality under q; δ is a probability under p, and the printed δ is too small for some pairs when
    e^ε - 1 > (α-1)(α/(α-1))^α (at α = 2, when ε > log 5).

    Holds for:  α > 1 and both directions of the neighbours.
    Tightness:  attained by r that is 1 + tα/(α-1) on one set and about 1 elsewhere.
    """
    return log_moment + _log_touching(order) - (order - 1) * float(log_expm1(epsilon))


def pearson_vajda_epsilon(log_moment: float, *, order: float, log_delta: float) -> float:
    """Return the ε at which `pearson_vajda_log_delta` is log δ: log(1 + (ξ^α c/δ)^{1/(α-1)}).

    Erratum: Lemma 28 prints "log ξ(α) - 1 + log(1/δ)/α" for what its own δ inverts to, log(1 + ξ δ^{-1/α}).
    """
    if log_moment == -math.inf:  # equal distributions
        return 0.0
    return float(np.logaddexp(0.0, (log_moment + _log_touching(order) - log_delta) / (order - 1)))


def _log_touching(order: float) -> float:
    """Return log (α-1)^{α-1}/α^α."""
    require(order > 1, "order must be > 1", order)
    lam = order - 1
    return -lam * math.log1p(1 / lam) - math.log1p(lam)
