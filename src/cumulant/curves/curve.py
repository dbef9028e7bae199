"""The cumulant generating function of the privacy loss: the one object everything reads from or adds to.

For neighbouring datasets X, X' with loss L = log M(X)/M(X'), Wang, Balle and Kasiviswanathan (2019), (2.1):

    K(λ) = sup_{X, X'} log E[e^{λL}],   and   RDP(α) = K(α-1)/(α-1)   (Remark 7).

K is convex, K(0) = 0, and K(λ)/λ does not decrease (Lemma 31). Two orders are carried apart because K cannot
be divided there: order 1 (`kl`, the slope at 0) and order ∞ (`pure`, the slope at infinity, which is pure DP).
Mass where the loss is infinite is carried apart too: with probability `failure` the release may reveal
everything, and K describes the rest.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cumulant import parameters
from cumulant.errors import InvalidParameter
from cumulant.numerics.rounding import ULP, sum_above

Array = NDArray[np.float64]

KNOTS_PER_OCTAVE = 16_384  # integers at which a bound that is known at integers is asked for
SAMPLED = tuple(2.0 ** (k / 4) for k in range(-40, 81))  # λ at which the shape of a function is looked at


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Curve:
    """K(λ) at any real λ > 0: an exact curve, or an upper bound of one.

    `log_moment` maps an array of λ > 0 to K(λ), +inf where nothing is known; relative error at most 1e-13.
    """

    log_moment: Callable[[Array], Array]
    kl: float
    pure: float = math.inf
    failure: float = 0.0
    exact: bool = True
    summed: bool = False  # whether every value is a long sum, or an integral, of another curve or ratio
    knots: tuple[float, ...] = ()  # λ between which K is linear, where a bound may have a valley of its own

    def __post_init__(self) -> None:
        """Safe side: where numbers overflow into what is not a number nothing is known, and inf says so."""
        for name in ("kl", "pure"):
            if math.isnan(getattr(self, name)):
                object.__setattr__(self, name, math.inf)
        if not isinstance(self.log_moment, Guarded):
            object.__setattr__(self, "log_moment", Guarded(self.log_moment))

    def __call__(self, lam: ArrayLike) -> Array:
        """Return K(λ) for λ >= 0, with the shape of λ."""
        lam = np.asarray(lam, dtype=float)
        flat = np.atleast_1d(lam)
        values = np.zeros(flat.shape)
        if np.any(flat > 0):
            values[flat > 0] = self.log_moment(flat[flat > 0])
        return values.reshape(lam.shape)

    def at(self, lam: float) -> float:
        """Return K at one λ > 0."""
        return float(self.log_moment(np.array([lam]))[0])

    def __add__(self, other: Curve) -> Curve:
        return total([(self, 1), (other, 1)])

    def __mul__(self, count: int) -> Curve:
        return total([(self, count)])

    __rmul__ = __mul__


@final
@dataclass(frozen=True, slots=True)
class Guarded:
    """A function of λ that overflows to inf without a warning, and is inf where it is not a number."""

    function: Callable[[Array], Array]

    def __call__(self, lam: Array) -> Array:
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            values = self.function(lam)
        unknown = np.isnan(values)
        return np.where(unknown, math.inf, values) if np.any(unknown) else values


def total(parts: Sequence[tuple[Curve, int]]) -> Curve:
    """Return the CGF of an adaptive composition: K = Σ n_i K_i.

    Lemma 5 of Wang et al. (Mironov 2017, Proposition 1), for any sequence of mechanisms chosen adaptively.
    This is the only place where a count multiplies a cost.
    """
    parts = [(cgf, count) for cgf, count in parts if count]

    def log_moment(lam: Array) -> Array:
        result = np.zeros_like(lam)
        for cgf, count in parts:
            result += float(count) * cgf.log_moment(lam)
        return result

    return Curve(
        log_moment=log_moment,
        kl=sum_above([(count, cgf.kl) for cgf, count in parts]),
        pure=sum_above([(count, cgf.pure) for cgf, count in parts]),
        failure=combined_failure((cgf.failure, count) for cgf, count in parts),
        exact=all(cgf.exact for cgf, _ in parts),
        summed=any(cgf.summed for cgf, _ in parts),
        knots=tuple(sorted({lam for cgf, _ in parts for lam in cgf.knots})),
    )


def combined_failure(failures: Iterable[tuple[float, int]]) -> float:
    """Return 1 - Π (1-p_i)^{n_i}, rounded up; a single failure stays as it is."""
    failing = [(p, count) for p, count in failures if p]
    if not failing:
        return 0.0
    if len(failing) == 1 and failing[0][1] == 1:
        return failing[0][0]
    log_survival = math.fsum(count * math.log1p(-p) if p < 1 else -math.inf for p, count in failing)
    return min(1.0, math.nextafter(-math.expm1(log_survival) * (1 + 4 * ULP), 2.0))


def interpolated(at_integers: Callable[[int], float], *, pure: float = math.inf) -> Curve:
    """Return the CGF bound for real λ from one that is known at integers.

    Wang et al. (2019), Corollary 10, with v = λ - ⌊λ⌋ (K is convex, so a chord lies above it):

        K(λ) <= (1 - v) K(⌊λ⌋) + v K(⌈λ⌉)

    From KNOTS_PER_OCTAVE on only multiples of a power of 2 are asked, so many in each octave: where K grows like λ²,
    a chord is above it by 2^-30 of it at most, and a search meets the same knots again.

    Holds for:  every upper bound of a CGF at integers; K(0) = 0.
    Tightness:  the least upper bound that convexity gives from two neighbouring knots.
    """
    at_integers = cache(at_integers)  # neighbouring λ share their knots

    def at_real(lam: float) -> float:
        width = max(1, 2 ** math.floor(math.log2(lam)) // KNOTS_PER_OCTAVE) if lam >= 1 else 1
        low = math.floor(lam / width) * width
        v = (lam - low) / width
        below = at_integers(low) if low else 0.0
        return below if v == 0 else (1 - v) * below + v * at_integers(low + width)

    return Curve(
        log_moment=lambda lam: np.array([at_real(float(x)) for x in lam]),
        kl=at_integers(1),  # the first chord's slope: K convex gives K'(0) <= K(1)
        pure=pure,
        exact=False,
    )


def projected(points: Iterable[tuple[float, float]], *, pure: float = math.inf) -> Curve:
    """Return the largest convex K with K(0) = 0 below the bounds K(λ_i) <= k_i, linear in between.

    Wang et al. (2019), Proposition 24: g is the convex hull of the bound, βλ the steepest line through the
    origin below g, and F = βλ up to where they touch, g beyond. Adding the origin to the points and taking
    one lower hull is the same thing. Beyond the last λ_i the slope of any CGF is at most `pure`.

    Erratum: the proposition is printed as F[K̄] <= K; it is K <= F[K̄] <= K̄.

    Holds for:  any upper bounds k_i of a CGF, however bumpy.
    Tightness:  the least bound that follows from the k_i, convexity, K(0) = 0 and `pure`.
    """
    if math.isfinite(pure):
        points = [(lam, min(k, lam * pure)) for lam, k in points]
    knots, values = _lower_hull(sorted([(0.0, 0.0), *points]), last_slope=pure)

    def log_moment(lam: Array) -> Array:
        inside = np.interp(lam, knots, values)
        with np.errstate(invalid="ignore"):
            outside = values[-1] + np.where(lam > knots[-1], lam - knots[-1], 0.0) * pure
        return np.where(lam > knots[-1], outside, inside)

    first_slope = float(values[1]) / float(knots[1]) if len(knots) > 1 else pure  # from the origin
    bends = tuple(float(knot) for knot in knots[1:])
    return Curve(log_moment=log_moment, kl=first_slope, pure=pure, exact=False, knots=bends)


def curve_loss(rdp: Callable[[float], float]) -> Curve:
    """Return the CGF of an RDP curve given as a function α ↦ ε(α) of every order, inf where nothing is known.

    A function whose samples are convex is taken as it stands; any other is replaced by the projection of its
    samples, which is a bound too.
    """
    points = [(lam, lam * rdp(1.0 + lam)) for lam in SAMPLED]
    finite = [(lam, k) for lam, k in points if k < math.inf]
    if not finite:
        return Curve(log_moment=lambda lam: np.full(lam.shape, math.inf), kl=math.inf, exact=False)
    hull = projected(finite)
    lam, k = np.array(finite).T
    if np.any(hull(lam) < k * (1 - 1e-9)):
        return hull
    return Curve(
        log_moment=lambda lam: np.array([x * rdp(1.0 + x) for x in lam.tolist()]), kl=_near_order_one(rdp), exact=False
    )


def _near_order_one(rdp: Callable[[float], float]) -> float:
    """Return a bound of ε(1): the curve does not decrease. Many formulas divide by α - 1, and fail close to 1."""
    try:
        return min(rdp(1.0 + 2.0**-30), rdp(1.0 + SAMPLED[0]))
    except InvalidParameter:
        return rdp(1.0 + SAMPLED[0])


def _lower_hull(points: Sequence[tuple[float, float]], *, last_slope: float) -> tuple[Array, Array]:
    """Return the knots and values of the lower convex hull of points, the ray of `last_slope` included."""
    hull: list[tuple[float, float]] = []
    for x, y in points:
        if hull and hull[-1][0] == x:  # sorted: the first value at an x is the smallest
            continue
        while len(hull) > 1 and _slope(hull[-2], hull[-1]) >= _slope(hull[-1], (x, y)):
            hull.pop()
        hull.append((x, y))
    while len(hull) > 1 and _slope(hull[-2], hull[-1]) > last_slope:
        hull.pop()
    knots, values = np.array(hull).T
    return knots, values


def _slope(a: tuple[float, float], b: tuple[float, float]) -> float:
    return (b[1] - a[1]) / (b[0] - a[0])


def at_most(curve: Curve, other: Curve) -> Curve:
    """Return the smaller of two bounds at every order: chords between integers may be above what holds anyway.

    A loss of at most ε has K(λ) <= λε.
    """
    pure = min(curve.pure, other.pure)

    def log_moment(lam: Array) -> Array:
        least = np.minimum(curve.log_moment(lam), other.log_moment(lam))
        return np.minimum(least, lam * pure * (1 + 4e-16)) if math.isfinite(pure) else least  # rounded up

    return replace(curve, log_moment=log_moment, kl=min(curve.kl, other.kl, pure), pure=pure, summed=True)


def at_least(curve: Curve, other: Curve, *, pure: float = math.inf) -> Curve:
    """Return the larger of two curves at every order: those of the two directions of a pair."""

    def log_moment(lam: Array) -> Array:
        return np.maximum(curve.log_moment(lam), other.log_moment(lam))

    return replace(curve, log_moment=log_moment, kl=max(curve.kl, other.kl), pure=pure)


def remembered(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """Return a function of arrays that asks another one for every number once."""
    known: dict[float, float] = {}

    def at(x: Array) -> Array:
        asked: list[float] = x.tolist()
        missing = [one for one in dict.fromkeys(asked) if one not in known]
        if missing:
            known.update(zip(missing, function(np.array(missing)).tolist(), strict=True))
        return np.array([known[one] for one in asked])

    return at


def cgf_at(curve: Curve, order: ArrayLike) -> Any:
    """Return K(λ) at λ = order - 1."""

    def at(orders: Array) -> Array:
        values: Array = np.full(orders.shape, math.inf)
        finite = np.isfinite(orders)
        values[finite] = curve(orders[finite] - 1.0)
        if curve.pure == 0:
            values[~finite] = 0.0
        return values if curve.failure == 0 else np.where(orders > 1, math.inf, values)

    return _at_orders(at, order)


def rdp_at(curve: Curve, order: ArrayLike) -> Any:
    """Return the Rényi DP of any real order >= 1, infinity included."""

    def at(orders: Array) -> Array:
        values: Array = np.empty(orders.shape)
        inner = (orders > 1) & np.isfinite(orders)
        with np.errstate(over="ignore"):  # safe side: infinity beyond the largest double
            values[inner] = curve(orders[inner] - 1.0) / (orders[inner] - 1.0)
        values[orders == 1] = curve.kl
        values[np.isinf(orders)] = curve.pure
        return values if curve.failure == 0 else np.full(orders.shape, math.inf)

    return _at_orders(at, order)


def _at_orders(evaluate: Callable[[Array], Array], order: ArrayLike) -> Any:
    """Check orders, evaluate, and give scalars back for scalars."""
    try:
        dimensions = np.ndim(order)
    except ValueError:
        raise InvalidParameter(f"order must be a number or a rectangular array of numbers, got {order!r}") from None
    if dimensions == 0:
        return float(evaluate(np.array([parameters.order(order)]))[0])
    orders = np.ravel(order)
    if orders.dtype != np.float64 or not np.all(orders >= 1):  # look closer, and say which one is wrong
        orders = np.array([parameters.order(value) for value in orders])
    return evaluate(orders).reshape(np.shape(order))
