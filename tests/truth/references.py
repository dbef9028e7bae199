"""Independent references: the papers' formulas in many digits, written from the statements and not from the library."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

from mpmath import mp, mpf

Real = Any  # an mpf; mpmath carries no types
MpCgf = Callable[[Any], Any]


# The optimal conversion (Asoodeh et al. 2020) ----------------------------------------------------------------


def theorem_3_rdp(lam: Real, epsilon: Real, delta: Real) -> Real:
    """Return γ of Theorem 3 as printed: a ternary search for p, in the logit of p between δ and 1."""
    lam, epsilon, delta = mpf(lam), mpf(epsilon), mpf(delta)

    def objective(z: Real) -> Real:
        p = delta + (1 - delta) / (1 + mp.exp(-z))
        alpha = 1 + lam
        return p**alpha * (p - delta) ** -lam + (1 - p) ** alpha * (mp.exp(epsilon) - p + delta) ** -lam

    z = ternary_minimum(objective, mp.log(delta) - 60 / lam, mpf(mp.dps) * 3, steps=4 * mp.dps)
    return epsilon + mp.log(objective(z)) / lam


def ternary_minimum(objective: Callable[[Real], Real], low: Real, high: Real, *, steps: int) -> Real:
    low, high = mpf(low), mpf(high)
    for _ in range(steps):
        a, b = low + (high - low) / 3, high - (high - low) / 3
        if objective(a) < objective(b):
            high = b
        else:
            low = a
    return (low + high) / 2


def both_orders_delta(lam: Real, k: Real, epsilon: Real, *, digits: int = 18) -> Real:
    """Return max p - e^ε q over Bernoulli pairs with D_α <= K/λ in both orders: p from q by bisection, q by thirds."""
    with mp.workdps(digits + 12):
        alpha, m, t = 1 + mpf(lam), mp.exp(mpf(k)), mp.exp(mpf(epsilon))

        def moment(p: Real, q: Real) -> Real:
            return p**alpha * q ** (1 - alpha) + (1 - p) ** alpha * (1 - q) ** (1 - alpha)

        def largest_p(q: Real) -> Real:
            low, high = q, mpf(1) - mpf(10) ** -(digits + 10)
            for _ in range(int(3.4 * digits) + 10):
                p = (low + high) / 2
                low, high = (p, high) if moment(p, q) <= m and moment(q, p) <= m else (low, p)
            return low

        q = ternary_minimum(lambda q: t * q - largest_p(q), mpf(10) ** -digits, mpf(1) / 2, steps=3 * digits)
        return largest_p(q) - t * q


def optimal_epsilon(lam: Real, k: Real, log_delta: Real, *, digits: int = 40) -> Real:
    """Return the ε >= 0 at which Theorem 3's γ equals K/λ.

    The minimiser p is where ψ(x) = ψ(y), ψ(r) = αr^λ - λr^α, for the likelihood ratios (over e^ε) of the two points
    x = p/(p-δ) > 1 and y = (1-p)/(e^ε-p+δ) < 1. So x fixes y, p and ε, and with them K, which increases with x.
    """
    with mp.workdps(120):  # enough where x - 1 > 1e-20/α, which is where a small δ puts it unless K is tiny
        log_odds = (mp.log(mpf(10) ** -20 / (1 + mpf(lam))) - mpf(log_delta)) / (20 * mp.log(10))
        start = mp.log(max(log_odds, mpf(0.1)))
        if log_delta < -100 and _two_points(mpf(lam), mp.exp(mpf(log_delta)), start)[1] < k:
            return _solve(mpf(lam), mpf(k), mp.exp(mpf(log_delta)), start, digits)
    with mp.workdps(int(70 - 2 * log_delta / 2.302)):  # tells 1 from 1 + δ², and keeps fifty digits
        return _solve(mpf(lam), mpf(k), mp.exp(mpf(log_delta)), mpf(-1), digits)


def _solve(lam: Real, k: Real, delta: Real, start: Real, digits: int) -> Real:
    if (1 + lam) * delta >= 1:
        return max(mpf(0), k / lam + mp.log(1 - delta))
    z = _increasing_root(lambda z: _two_points(lam, delta, z)[1] - k, start, tolerance=mpf(10) ** -digits)
    return max(mpf(0), _two_points(lam, delta, z)[0])


def _two_points(lam: Real, delta: Real, z: Real) -> tuple[Real, Real]:
    """Return (ε, K) of the optimal pair whose x lies at the logit z between its ends 1/(1-δ) and α/λ (logs)."""
    low, high = mp.log(delta / (1 - delta)), -mp.log(lam)
    weight, rest = 1 / (1 + mp.exp(-z)), 1 / (1 + mp.exp(z))
    x_less_1 = mp.exp(rest * low + weight * high)
    x = 1 + x_less_1
    log_psi = lam * mp.log(x) + mp.log(lam * (mp.expm1(rest * (high - low)) * x_less_1))  # α - λx = λ(e^high - (x-1))
    log_y = _lower_branch(lam, log_psi, x_less_1)
    y = mp.exp(log_y)
    p = x * delta / x_less_1
    big = delta / x_less_1 + (1 - p) / y
    log_moment = mp.log(p * mp.exp(lam * mp.log(x)) + (1 - p) * mp.exp(lam * log_y))
    return mp.log(big), lam * mp.log(big) + log_moment


def _lower_branch(lam: Real, log_psi: Real, x_less_1: Real) -> Real:
    """Return log y < 0 with λ log y + log(α - λy) = log ψ: Newton's method, for an increasing concave function."""
    alpha = 1 + lam
    v = (log_psi - mp.log(alpha)) / lam
    if (1 + lam) * x_less_1 < 0.1:
        v = -x_less_1  # near 1 the two branches are mirror images
    for _ in range(400):
        y = mp.exp(v)
        step = (lam * v + mp.log(alpha - lam * y) - log_psi) * (alpha - lam * y) / (lam * alpha * -mp.expm1(v))
        v -= step
        if abs(step) <= abs(v) * mpf(10) ** -45:  # convergence is quadratic, unless the digits end near a double root
            return v
    raise ArithmeticError("no convergence")


def _increasing_root(function: Callable[[Real], Real], start: Real, *, tolerance: Real) -> Real:
    """Return the root of an increasing function on the line: doubling, then false position with bisection."""
    low, high, step = start, start + 1, mpf(1)
    while function(low) > 0:
        low, high, step = low - step, low, 2 * step
    while function(high) < 0:
        low, high, step = high, high + step, 2 * step
    f_low, f_high, side = function(low), function(high), 0
    for turn in range(2000):
        if high - low <= tolerance * (1 + abs(high)) or f_low == 0 or f_high == 0:
            break
        x = (low + high) / 2 if turn % 3 == 0 else (low * f_high - high * f_low) / (f_high - f_low)
        f = function(x)
        if f < 0:
            low, f_low, f_high, side = x, f, f_high / 2 if side < 0 else f_high, -1
        else:
            high, f_high, f_low, side = x, f, f_low / 2 if side > 0 else f_low, 1
    return low if abs(f_low) < abs(f_high) else high


def best_epsilon(cgf: MpCgf, log_delta: Real) -> Real:
    """Return the least Theorem 3 ε over all real orders.

    A scan of λ from 1e-13 to 1e13, a golden section on twelve digits, and the vertex of a parabola on thirty: its
    order is good to eight digits, and the minimum is flat there. Orders 1 and ∞ and the kink at αδ = 1 are tried too.
    """

    def objective(u: Real, digits: int = 12) -> Real:
        lam = mp.exp(u)
        return optimal_epsilon(lam, cgf(lam), log_delta, digits=digits)

    grid = [mpf(j) * 3 for j in range(-10, 11)]
    values = [objective(u) for u in grid]
    lowest = min(max(values.index(min(values)), 1), len(grid) - 2)
    u, h = golden_section(objective, grid[lowest - 1], grid[lowest + 1]), mpf(10) ** -4
    below, here, above = (objective(x, 30) for x in (u - h, u, u + h))
    bend = below - 2 * here + above
    vertex = objective(u + h * (below - above) / (2 * bend), 30) if bend > 0 else here
    ends = [objective(mpf(x), 30) for x in (-45, 45)]
    lam = mp.expm1(-mpf(log_delta))  # α = 1/δ
    kink = max(mpf(0), cgf(lam) / lam + mp.log1p(-mp.exp(log_delta)))
    return min(below, here, above, vertex, kink, *ends)


def golden_section(objective: Callable[[Real], Real], low: Real, high: Real) -> Real:
    """Return the place of a minimum to 1e-4."""
    ratio = (mp.sqrt(5) - 1) / 2
    a, b = high - ratio * (high - low), low + ratio * (high - low)
    f_a, f_b = objective(a), objective(b)
    while high - low > 1e-4:
        if f_a <= f_b:
            high, b, f_b = b, a, f_a
            a = high - ratio * (high - low)
            f_a = objective(a)
        else:
            low, a, f_a = a, b, f_b
            b = low + ratio * (high - low)
            f_b = objective(b)
    return (low + high) / 2


# The privacy loss by its definition --------------------------------------------------------------------------


def log_moment(exponent: Callable[[Real], Real], points: list[Real]) -> Real:
    """Return log ∫ e^exponent over [points[0], points[-1]], panel by panel between the points."""
    peak = max(exponent(x) for x in points)
    total = mp.fsum(
        mp.quad(lambda x: mp.exp(exponent(x) - peak), [a, b], method="gauss-legendre") for a, b in pairwise(points)
    )
    return peak + mp.log(total)


def normal_log_density(x: Real, mean: Real, variance: Real) -> Real:
    return -((x - mean) ** 2) / (2 * variance) - mp.log(2 * mp.pi * variance) / 2


def normal_cgf(lam: Real, shift: Real, variance: Real, neighbor_variance: Real) -> Real:
    """Return log ∫ p^α q^{-λ} for p = N(0, variance), q = N(shift, neighbor_variance); inf where it diverges."""
    lam, shift, v, w = mpf(lam), mpf(shift), mpf(variance), mpf(neighbor_variance)
    precision = (1 + lam) / v - lam / w
    if precision <= 0:
        return mp.inf
    centre, width = -lam * shift / w / precision, 1 / mp.sqrt(precision)
    points = [centre + width * mpf(j) for j in range(-20, 21, 4)]
    return log_moment(lambda x: (1 + lam) * normal_log_density(x, 0, v) - lam * normal_log_density(x, shift, w), points)


def laplace_cgf_by_quadrature(lam: Real, scale: Real) -> Real:
    """Return log ∫ p^α q^{-λ} for Laplace densities around 0 and 1."""
    lam, b = mpf(lam), mpf(scale)
    tail = [b * j for j in range(0, 141, 10)]
    inner = [x * b / (2 * lam + 1) for x in range(10, 141, 10)]
    points = [-x for x in reversed(tail)] + [x for x in inner if x < 1] + [1 + x for x in tail]
    return log_moment(lambda x: -((1 + lam) * abs(x) - lam * abs(x - 1)) / b - mp.log(2 * b), points)


def randomized_response_cgf(lam: Real, p: Real) -> Real:
    """Return log Σ p^α q^{-λ} over the two answers."""
    lam, p = mpf(lam), mpf(p)
    q = 1 - p
    return mp.log(p ** (1 + lam) * q**-lam + q ** (1 + lam) * p**-lam)


def gaussian_cgf(lam: Real, sigma: Real) -> Real:
    """Return λ(λ+1)/(2σ²), which `normal_cgf` confirms."""
    return mpf(lam) * (mpf(lam) + 1) / (2 * mpf(sigma) ** 2)


def laplace_cgf(lam: Real, scale: Real) -> Real:
    """Return the three exponential integrals of `laplace_cgf_by_quadrature`, added up."""
    lam, b = mpf(lam), mpf(scale)
    return mp.log(((lam + 1) * mp.exp(lam / b) + lam * mp.exp(-(lam + 1) / b)) / (2 * lam + 1))


# Gaussian differential privacy -------------------------------------------------------------------------------


def gaussian_log_delta(mu: Real, epsilon: Real) -> Real:
    """Return log of δ = Φ(-ε/μ+μ/2) - e^ε Φ(-ε/μ-μ/2) (Balle and Wang 2018, Theorem 5)."""
    mu, epsilon = mpf(mu), mpf(epsilon)
    return mp.log(mp.ncdf(-epsilon / mu + mu / 2) - mp.exp(epsilon) * mp.ncdf(-epsilon / mu - mu / 2))


# Curves ------------------------------------------------------------------------------------------------------


def least_chord(points: list[tuple[float, float]], lam: float, pure: float = float("inf")) -> float:
    """Return the least value at λ over all chords of the points, the origin and rays of slope `pure`: O(n²)."""
    points = [(0.0, 0.0), *points]
    candidates = [k for x, k in points if x == lam]
    candidates += [k + (lam - x) * pure for x, k in points if x < lam and pure < float("inf")]
    for x, k in points:
        for y, m in points:
            if x < lam < y:
                candidates.append(k + (m - k) * (lam - x) / (y - x))
    return min(candidates, default=float("inf"))
