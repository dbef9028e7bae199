"""Trade-off functions of Rényi curves: the test of two outcomes that all orders leave, by data processing.

A test with false positive rate x and true positive rate p makes of any pair two coins, and no divergence grows:

    D_α(p ‖ x) <= γ(α)  and  D_α(x ‖ p) <= γ(α)  at every order α >= 1,

where D_α is that of coins, and both orders of the neighbours are bounded, as all relations are symmetric. The
divergences grow with p >= x, so a p at which one of them is more than γ, but for rounding, is out of reach of every
test. For each order the p that are left are those that its δ at all ε leave (`both_orders`), by convexity.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cumulant.curves.best_order import K_ERROR
from cumulant.curves.curve import Array, Curve
from cumulant.numerics.search import roots

FIRST_OCTAVES = (-4, 6)  # of λ that are looked at first
LEAST_OCTAVE, LAST_OCTAVE = -16, 60  # beyond which they never are
OCTAVES_MORE = 4  # that are looked at next
FINER = np.linspace(-1.0, 1.0, 9)  # of the way to the next λ on either side, where it is looked nearer
CLOSE_LAMBDA = 1e-5  # of log λ, at which that ends: errors count by their squares
LEAST_FALSE = 1e-300  # a rate of false positives, to whose logarithm smaller ones are raised
STILL, FARTHEST_ODDS = 1e-12, 1e15  # of log-odds, where a root is near enough, and the largest that are looked at
ROUNDED = 2e-15  # a few units, of each logarithm


def false_negative_rates_of_curve(curve: Curve, rates: Array) -> Array:
    """Return the least false negative rate that a curve leaves at every false positive rate, rounded down.

    Holds for:  every mechanism with this curve, which bounds both orders of the neighbours, without failure
                probability.
    Tightness:  exact of what each order alone says: no pair needs to attain all orders.

    >>> from cumulant import ZCDP
    >>> false_negative_rates_of_curve(ZCDP(rho=0.5)._known().curve(), np.array([0.05, 0.5])).round(6).tolist()
    [0.664422, 0.107016]
    """
    assert curve.failure == 0
    x = np.clip(rates, LEAST_FALSE, 1 - 2.0**-53)
    q = np.log(x) - np.log1p(-x)
    lam = np.append(0.0, 2.0 ** np.arange(*FIRST_OCTAVES))
    lam = np.unique(np.append(lam, curve.knots))
    p, places = _least_odds(lam, _divergence_bounds(curve, lam), q)
    while (up := bool(np.any(places == len(lam) - 1)) and lam[-1] < 2.0**LAST_OCTAVE) or (
        bool(np.any(places <= 1)) and lam[1] > 2.0**LEAST_OCTAVE
    ):
        octaves = np.arange(1, OCTAVES_MORE + 1)
        lam = np.unique(np.append(lam, lam[-1] * 2.0**octaves if up else lam[1] / 2.0**octaves))
        p, places = _least_odds(lam, _divergence_bounds(curve, lam), q)
    best = lam[places]
    apart = math.log(2.0)
    while apart > CLOSE_LAMBDA:
        nearer = best[:, None] * np.exp(apart * FINER)
        unique, where = np.unique(nearer, return_inverse=True)
        nearer_p, places = _least_odds(nearer, _divergence_bounds(curve, unique)[where.reshape(nearer.shape)], q)
        better = nearer_p < p
        p = np.where(better, nearer_p, p)
        best = np.where(better, nearer[np.arange(len(q)), places], best)
        apart /= 4
    missed = np.exp(-np.logaddexp(0.0, p)) * (1 - 1e-14)
    by_pure = np.maximum(1 - math.exp(min(curve.pure, 700.0)) * rates, math.exp(-curve.pure) * (1 - rates))
    return np.where(rates >= 1, 0.0, np.maximum(np.maximum(missed, by_pure * (1 - 1e-14) - 1e-15), 0.0))


def _divergence_bounds(curve: Curve, lam: Array) -> Array:
    """Return γ at orders 1 + λ, raised by its error; KL privacy at 0."""
    positive = np.where(lam > 0, lam, 1.0)
    return np.asarray(np.where(lam > 0, curve(positive) / positive, curve.kl) * (1 + 2 * K_ERROR))


def _least_odds(lam: Array, gamma: Array, q: Array) -> tuple[Array, NDArray[np.intp]]:
    """Return log-odds of the least p that some order is proven to exclude, for each x, and the place of that order.

    Infinity where none was found.
    """

    def excess(p: Array, rows: NDArray[np.intp]) -> Array:
        with np.errstate(all="ignore"):
            coin, other = Coin.of(p[:, None]), Coin.of(q[rows, None])
            orders = lam if lam.ndim == 1 else lam[rows]
            worse = np.maximum(_divergence(orders, coin, other), _divergence(orders, other, coin))
            bounds = gamma if gamma.ndim == 1 else gamma[rows]
            return np.nan_to_num(worse / bounds - 1, nan=-1.0, posinf=1e300)

    upper, _ = roots(lambda p, rows: np.max(excess(p, rows), axis=1), q, 1.0, tolerance=STILL, relative=STILL)
    return upper, np.argmax(excess(np.minimum(upper, FARTHEST_ODDS), np.arange(len(q))), axis=1)


class Coin(NamedTuple):
    """Logarithms of the probabilities of both sides."""

    yes: Array
    no: Array

    @staticmethod
    def of(odds: Array) -> Coin:
        return Coin(-np.logaddexp(0.0, -odds), -np.logaddexp(0.0, odds))


def _divergence(lam: Array, p: Coin, q: Coin) -> Array:
    """Return D_α(p ‖ q) = (1/λ) log E_p e^{λL}, or E_p L at λ = 0, less its rounding."""
    losses = p.yes - q.yes, p.no - q.no
    masses, sizes = (np.exp(p.yes), np.exp(p.no)), (np.abs(p.yes) + np.abs(q.yes), np.abs(p.no) + np.abs(q.no))
    rate = np.where(lam > 0, lam, 1.0)
    is_near = lam * np.maximum(*map(np.abs, losses)) < 1
    growth = sum(m * np.expm1(rate * np.where(is_near, loss, 0.0)) for m, loss in zip(masses, losses, strict=True))
    mean = sum(m * loss for m, loss in zip(masses, losses, strict=True))
    near = np.where(lam > 0, np.log1p(growth) / rate, mean)
    near = near - 8 * ROUNDED * sum(m * size for m, size in zip(masses, sizes, strict=True))
    yes, no = p.yes + rate * losses[0], p.no + rate * losses[1]
    far = np.logaddexp(yes, no) - ROUNDED * (4 + (1 + rate) * np.where(yes > no, *sizes))
    return np.asarray(np.where(is_near, near, far / rate))
