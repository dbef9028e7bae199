"""Amplification theorems against the papers' formulas in many digits, closed forms, and brute force."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest
from flint import arb, ctx
from mpmath import mp, mpf

from cumulant import Gaussian, Laplace, RandomizedResponse
from cumulant.curves import divergences as dv
from cumulant.curves.best_order import epsilon_from_cgf
from cumulant.curves.curve import Array, Curve, interpolated, total
from cumulant.errors import InvalidParameter, UnprovenCombination
from cumulant.papers.wang_2019 import asymptotics as asym
from cumulant.papers.wang_2019 import theorems as wang
from cumulant.sampling import poisson_theorems as poisson
from cumulant.sampling import without_replacement_theorems as wor
from stored import stored

MpCurve = Callable[[int], Any]  # K(l-1) at an integer order l


def gaussian_curve(sigma: float) -> MpCurve:
    return lambda order: mpf(order) * (order - 1) / (2 * mpf(sigma) ** 2)


def laplace_curve(scale: float) -> MpCurve:
    theta = 1 / mpf(scale)
    return lambda a: mp.log((a * mp.exp((a - 1) * theta) + (a - 1) * mp.exp(-a * theta)) / (2 * a - 1))


def weight(alpha: int, j: int, gamma: Any) -> Any:
    return mp.binomial(alpha, j) * (1 - gamma) ** (alpha - j) * gamma**j


def theorem_8(alpha: int, gamma: Any, curve: MpCurve, factor: int = 1) -> Any:
    """Return log of Theorem 8 as printed; with factor 3, of Theorem 5."""
    a, g = alpha, mpf(gamma)
    first = (1 - g) ** (a - 1) * (a * g - g + 1) + weight(a, 2, g) * mp.exp(curve(2))
    return mp.log(first + factor * mp.fsum(weight(a, j, g) * mp.exp(curve(j)) for j in range(3, a + 1)))


def theorem_11(alpha: int, gamma: Any, curve: MpCurve, tau: int) -> Any:
    a, g, eps = alpha, mpf(gamma), curve(alpha) / (alpha - 1)
    terms = (weight(a, j, g) * (mp.exp((j - 1) * eps) - mp.exp(curve(j))) for j in range(2, tau + 1))
    closed = (1 - g) ** a * (1 - mp.exp(-eps)) + mp.exp(-eps) * (1 - g + g * mp.exp(eps)) ** a
    return mp.log(closed - mp.fsum(terms))


def theorem_20(alpha: int, gamma: Any, curve: MpCurve, tau: int) -> Any:
    a, g, eps = alpha, mpf(gamma), curve(alpha) / (alpha - 1)
    terms = (weight(a, j, g) * (mp.exp((j - 1) * eps) - mp.exp(curve(j))) for j in range(3, tau + 1))
    closed = (1 - g) ** a * (1 - 3 * mp.exp(-eps)) + 3 * mp.exp(-eps) * (1 - g + g * mp.exp(eps)) ** a
    second = weight(a, 2, g) * (mp.exp(curve(2)) - 3 * mp.exp(eps))
    return mp.log(closed - 3 * mp.fsum(terms) - 2 * g * a * (1 - g) ** (a - 1) + second)


def alternating_sum(order: int, moment: Callable[[int], Any], bits: float) -> Any:
    """Return log B(ε,l) by its definition, in enough bits for the cancellation; `moment` is E_q[r^i] as a ball."""
    ctx.prec = int(bits) + 40 * order + 200
    result, binomial = arb(0), 1
    for i in range(order + 1):
        result += (-1) ** (order - i) * binomial * (moment(i) if i > 1 else arb(1))
        binomial = binomial * (order - i) // (i + 1)
    return mpf(result.log().str(40, radius=False))


def gaussian_difference(order: int, sigma: float) -> Any:
    top, bottom = (2 * Fraction(sigma) ** 2).as_integer_ratio()

    def moment(i: int) -> Any:
        return (arb(i * (i - 1) * bottom) / top).exp()

    return alternating_sum(order, moment, 1.5 * order**2 * bottom / top)


def laplace_difference(order: int, theta: int | Fraction) -> Any:
    top, bottom = Fraction(theta).as_integer_ratio()

    def moment(a: int) -> Any:
        up, down = (arb((a - 1) * top) / bottom).exp(), (arb(-a * top) / bottom).exp()
        return (a * up + (a - 1) * down) / (2 * a - 1)

    return alternating_sum(order, moment, 1.5 * order * float(theta))


def binary_difference(order: int, theta: int | Fraction) -> Any:
    top, bottom = Fraction(theta).as_integer_ratio()

    def moment(a: int) -> Any:
        return (arb((2 * a - 1) * top) / (2 * bottom)).cosh() / (arb(top) / (2 * bottom)).cosh()

    return alternating_sum(order, moment, 1.5 * order * float(theta))


def above(value: float, reference: Any, *, relative: float) -> bool:
    """Whether a value is at least the reference, and by no more than a relative amount."""
    excess = float(mpf(value) / reference - 1)
    return 0 <= excess <= relative


@pytest.fixture(autouse=True)
def _digits() -> Iterator[None]:
    with mp.workdps(60):
        yield


# Poisson --------------------------------------------------------------------------------------------------------------


def test_orientation_theorem_pointwise() -> None:
    """D(r) >= 0 with its derivative 0 at r = 1: what the docstring of `poisson_tight` proves."""
    for alpha, gamma in itertools.product([2, 2.5, 3, 5, 17, 100], ["1e-6", "0.01", "0.3", "0.75", "0.999"]):
        a, g = mpf(alpha), mpf(gamma)
        lam = 3 * (1 - g) / (3 + 2 * (a - 2) * g)
        assert 0 < lam < 1
        kappa = lam * a * g + (1 - lam) * (1 - a * g) + (a - 1) * g
        for x in [mpf(k) / 8 for k in range(-160, 161) if k] + [mpf("1e-6"), mpf("-1e-6")]:
            r = mp.exp(x)
            w, v = 1 - g + g * r, 1 - g + g / r
            assert lam * w**a + (1 - lam) * r * v**a - w ** (1 - a) - kappa * (r - 1) >= 0


CASES = [
    (2, 1e-7, 1.0),
    (3, 1e-12, 0.5),
    (8, 0.01, 1.0),
    (24, 0.01, 1.0),
    (64, 1e-7, 2.0),
    (100, 0.3, 5.0),
    (300, 0.9, 9.0),
]


@pytest.mark.parametrize(("alpha", "gamma", "sigma"), CASES)
def test_poisson_bounds_are_the_printed_formulas(alpha: int, gamma: float, sigma: float) -> None:
    cgf, curve = Gaussian(noise_multiplier=sigma)._known().curve(), gaussian_curve(sigma)
    slack = 1e-12 * (1 + float(curve(alpha)))
    assert above(poisson.poisson_tight(alpha, rate=gamma, cgf=cgf), theorem_8(alpha, gamma, curve), relative=slack)
    assert above(poisson.poisson_general(alpha, rate=gamma, cgf=cgf), theorem_8(alpha, gamma, curve, 3), relative=slack)
    for tau in {2, min(3, alpha), min(7, alpha)}:
        fast = poisson.poisson_fast(alpha, rate=gamma, cgf=cgf, terms=tau)
        assert above(fast, theorem_11(alpha, gamma, curve, tau), relative=slack)
        general = poisson.poisson_general_fast(alpha, rate=gamma, cgf=cgf, terms=tau)
        assert above(general, theorem_20(alpha, gamma, curve, tau), relative=slack)


def test_relative_accuracy_where_the_amplification_is_extreme() -> None:
    """K' is about C(α,2)γ²(e^{K(1)} - 1), down to the smallest double."""
    cgf = Gaussian(noise_multiplier=1.0)._known().curve()
    assert above(poisson.poisson_tight(5, rate=1e-30, cgf=cgf), 10 * mpf(1e-30) ** 2 * mp.expm1(1), relative=1e-12)
    assert poisson.poisson_tight(5, rate=1e-200, cgf=cgf) > 0
    assert wor.theorem9(5, rate=1e-200, cgf=cgf) > 0


def randomized_response_moment(alpha: int, gamma: float, p: float) -> Any:
    """Return log E_q(1-γ+γr)^α for two outputs: a closed form at any order."""
    p_, g = mpf(p), mpf(gamma)
    return mp.log((1 - p_) * (1 - g + g * p_ / (1 - p_)) ** alpha + p_ * (1 - g + g * (1 - p_) / p_) ** alpha)


@pytest.mark.parametrize("alpha", [19_999, 20_002, 20_003, 10**6, 10**9])
@pytest.mark.parametrize(("gamma", "p"), [(0.01, 0.6), (1e-7, 0.9), (0.5, 0.501), (0.2, 0.500001)])
def test_large_orders_are_bounded_tightly(alpha: int, gamma: float, p: float) -> None:
    """Beyond 20 000 terms the sum is a bound, within 1e-11 of the closed form and never below it."""
    exact = randomized_response_moment(alpha, gamma, p)
    cgf = RandomizedResponse(p=p)._known().curve()
    assert above(poisson.poisson_tight(alpha, rate=gamma, cgf=cgf), exact, relative=1e-11 + 1e-15 * alpha)
    lower = float(wor.proposition20(alpha, rate=gamma, cgf=cgf) / exact - 1)
    assert (-1e-11 - 1e-15 * alpha if alpha <= 10**6 else -1e-3) <= lower <= 0  # at 10^9 not every term is visited


@stored
def gaussian_sum(alpha: int, gamma: float, sigma: float) -> Any:
    with mp.workdps(30):
        g, term, terms = mpf(gamma), (1 - mpf(gamma)) ** alpha, []
        for j in range(alpha + 1):
            terms.append(term * mp.exp(mpf(j) * (j - 1) / (2 * mpf(sigma) ** 2)))
            term *= mpf(alpha - j) / (j + 1) * g / (1 - g)
        return mp.log(mp.fsum(terms))


@pytest.mark.parametrize(("gamma", "sigma"), [(0.01, 300.0), (0.3, 100.0), (1e-4, 20.0)])
def test_large_orders_of_a_gaussian(gamma: float, sigma: float) -> None:
    """A curve whose terms have two peaks, against the full sum."""
    bound = poisson.poisson_tight(30_000, rate=gamma, cgf=Gaussian(noise_multiplier=sigma)._known().curve())
    assert above(bound, gaussian_sum(30_000, gamma, sigma), relative=1e-10)


@pytest.mark.parametrize("alpha", [5, 500, 50_000])
def test_fast_bounds_are_above_the_full_sums(alpha: int) -> None:
    cgf = Laplace(scale=3.0)._known().curve()
    for gamma in (1e-5, 0.02, 0.6):
        tight = poisson.poisson_tight(alpha, rate=gamma, cgf=cgf)
        general = poisson.poisson_general(alpha, rate=gamma, cgf=cgf)
        assert tight <= general
        assert tight <= poisson.poisson_fast(alpha, rate=gamma, cgf=cgf, terms=4) * (1 + 1e-12)
        assert general <= poisson.poisson_general_fast(alpha, rate=gamma, cgf=cgf, terms=4) * (1 + 1e-12)


# Without replacement --------------------------------------------------------------------------------------------------


def theorem_9(alpha: int, gamma: Any, curve: MpCurve, pure: Any, zeta: MpCurve | None = None) -> Any:
    """Return log of Theorem 9 as printed; `zeta` may give smaller bounds of the terms from j = 3 on."""
    g, c = mpf(gamma), mp.expm1(pure)
    k = mp.exp(curve(2))
    result = 1 + g**2 * mp.binomial(alpha, 2) * min(4 * (k - 1), k * min(mpf(2), c**2))
    for j in range(3, alpha + 1):
        term = mp.exp(curve(j)) * min(mpf(2), c**j)
        result += g**j * mp.binomial(alpha, j) * (term if zeta is None else min(term, zeta(j)))
    return mp.log(result)


def theorem_19(alpha: int, gamma: Any, curve: MpCurve, zeta: MpCurve) -> Any:
    """Return log of Theorem 19 as printed, of a mechanism without pure DP."""
    g, k = mpf(gamma), mp.exp(curve(2))
    second = g**2 * mp.binomial(alpha, 2) * min(4 * (k - 1), 2 * k)
    return mp.log(1 + second + mp.fsum(g**j * mp.binomial(alpha, j) * zeta(j) for j in range(3, alpha + 1)))


def even_orders(sigma: float) -> MpCurve:
    return lambda j: 4 * mp.exp((gaussian_difference(j - j % 2, sigma) + gaussian_difference(j + j % 2, sigma)) / 2)


# rate, σ, order: RDP by Theorem 9, Theorem 19 and Proposition 20
TABLE = [
    (0.001, 5.0, 8, ("6.710e-07", "6.535e-07", "1.633e-07")),
    (0.001, 1.0, 3, ("8.175e-06", "8.175e-06", "2.584e-06")),
    (0.01, 2.0, 16, ("1.070e-03", "9.730e-04", "2.376e-04")),
    (0.1, 2.0, 4, ("2.750e-02", "2.432e-02", "6.00e-03")),
    (0.5, 4.0, 8, ("5.330e-01", "2.035e-01", "7.066e-02")),
    (0.01, 1.0, 24, ("7.225e+00", "7.225e+00", "7.195e+00")),
]


@pytest.mark.parametrize(("gamma", "sigma", "alpha", "figures"), TABLE)
def test_without_replacement_table(gamma: float, sigma: float, alpha: int, figures: tuple[str, str, str]) -> None:
    nine, nineteen, twenty = figures

    def printed(value: Any, like: str) -> str:
        return f"{float(value) / (alpha - 1):.{len(like.split('e', maxsplit=1)[0].split('.')[1])}e}"

    cgf, curve = Gaussian(noise_multiplier=sigma)._known().curve(), gaussian_curve(sigma)
    reference9 = theorem_9(alpha, gamma, curve, mp.inf)
    reference19 = theorem_9(alpha, gamma, curve, mp.inf, even_orders(sigma))
    assert printed(reference9, nine) == nine
    assert printed(reference19, nineteen) == nineteen
    assert above(wor.theorem9(alpha, rate=gamma, cgf=cgf), reference9, relative=1e-10)
    even = dv.cauchy_schwarz_log_abs_moment(partial(dv.gaussian_log_difference, noise_multiplier=sigma))
    moment = partial(dv.gaussian_log_abs_moment, noise_multiplier=sigma)
    bound = wor.smallest_terms(alpha, rate=gamma, cgf=cgf, log_abs_moment=even)
    assert above(bound, reference19, relative=1e-10)
    assert wor.smallest_terms(alpha, rate=gamma, cgf=cgf, log_abs_moment=moment) <= bound * (1 + 1e-11)
    as_printed = theorem_19(alpha, gamma, curve, even_orders(sigma))
    bound = wor.theorem19(alpha, rate=gamma, cgf=cgf, log_abs_moment=even)
    assert above(bound, as_printed, relative=1e-10)
    assert wor.theorem19(alpha, rate=gamma, cgf=cgf, log_abs_moment=moment) <= bound * (1 + 1e-11)
    lower = wor.proposition20(alpha, rate=gamma, cgf=cgf)
    assert printed(lower, twenty) == twenty
    assert lower <= theorem_8(alpha, gamma, curve)


@pytest.mark.parametrize(("scale", "alpha"), [(1.0, 12), (2.0, 40), (20.0, 7)])
def test_theorem_9_of_a_pure_mechanism(scale: float, alpha: int) -> None:
    """1/b on either side of log 2, where (e^{ε(∞)} - 1)^j takes over from 2."""
    cgf, curve, gamma = Laplace(scale=scale)._known().curve(), laplace_curve(scale), 0.01
    pure, k = 1 / mpf(scale), curve(alpha)
    reference = theorem_9(alpha, gamma, curve, pure)
    assert above(wor.theorem9(alpha, rate=gamma, cgf=cgf), reference, relative=1e-11)
    closed = alpha * mp.log(1 + gamma * mp.exp(k / (alpha - 1)) * mp.expm1(pure))
    assert above(wang.pure_dp(alpha, rate=gamma, cgf=cgf), closed, relative=1e-11)


@pytest.mark.parametrize("alpha", [19_999, 20_004, 10**6])
@pytest.mark.parametrize("gamma", [1e-6, 0.003])
def test_theorem_9_at_large_orders(alpha: int, gamma: float) -> None:
    """Randomized response with ε₀ < log 2: the terms from j = 3 on are a binomial expansion with a closed form."""
    p, g = mpf(0.55), mpf(gamma)
    r = p / (1 - p)
    c, curve = r - 1, [p**j * (1 - p) ** (1 - j) + (1 - p) ** j * p ** (1 - j) for j in range(3)]
    whole = (1 - p) * (1 + g * c * r) ** alpha + p * (1 + g * c / r) ** alpha
    trailing = whole - 1 - alpha * g * c - mp.binomial(alpha, 2) * (g * c) ** 2 * curve[2]
    second = g**2 * mp.binomial(alpha, 2) * min(4 * (curve[2] - 1), curve[2] * c**2)
    bound = wor.theorem9(alpha, rate=gamma, cgf=RandomizedResponse(p=0.55)._known().curve())
    assert above(bound, mp.log(1 + second + trailing), relative=1e-10)


def compositions() -> list[tuple[float, int, Curve, Callable[[Array], Array], float]]:
    """Return rows of (rate, steps, curve, moments, the ε at δ = 1e-5 that Theorem 19 must not exceed)."""

    def gaussian(sigma: float) -> tuple[Curve, Callable[[Array], Array]]:
        return Gaussian(noise_multiplier=sigma)._known().curve(), partial(
            dv.gaussian_log_abs_moment, noise_multiplier=sigma
        )

    laplace = Laplace(scale=1.0)._known().curve(), partial(dv.laplace_log_abs_moment, scale=1.0)
    return [
        (0.01, 1000, *gaussian(1.0), 3.5762),
        (0.01, 1000, *gaussian(5.0), 0.4983),
        (0.01, 1000, *laplace, 2.6196),
        (0.01, 100, *gaussian(50.0), 0.01195),
    ]


@pytest.mark.parametrize(("gamma", "steps", "cgf", "moments", "figure"), compositions())
def test_composed_epsilon(
    gamma: float, steps: int, cgf: Curve, moments: Callable[[Array], Array], figure: float
) -> None:
    def upper(lam: int) -> float:
        return wor.smallest_terms(lam + 1, rate=gamma, cgf=cgf, log_abs_moment=moments)

    def lower(lam: int) -> float:
        return wor.proposition20(lam + 1, rate=gamma, cgf=cgf)

    epsilon = epsilon_from_cgf(total([(interpolated(upper), steps)]), math.log(1e-5))[0]
    assert epsilon_from_cgf(total([(interpolated(lower), steps)]), math.log(1e-5))[0] <= epsilon <= figure


@pytest.mark.parametrize("alpha", [2, 3, 10, 100, 3000, 40_000])
@pytest.mark.parametrize("gamma", [1e-7, 0.01, 0.5, 0.99])
def test_lower_bounds_stay_below_upper_bounds(alpha: int, gamma: float) -> None:
    for scale in (0.3, 2.0, 30.0):
        gauss, laplace = Gaussian(noise_multiplier=scale)._known().curve(), Laplace(scale=scale)._known().curve()
        for cgf, moment in (
            (gauss, partial(dv.gaussian_log_abs_moment, noise_multiplier=scale)),
            (laplace, partial(dv.laplace_log_abs_moment, scale=scale)),
        ):
            arguments: dict[str, Any] = {"rate": gamma, "cgf": cgf}
            lower, unsampled = wor.proposition20(alpha, **arguments), cgf.at(alpha - 1.0) * (1 + 1e-12)
            uppers = [wor.theorem9, wor.black_box, wor.joint_convexity, wor.best_black_box]
            values = [bound(alpha, **arguments) for bound in uppers]
            values.append(wor.theorem19(alpha, log_abs_moment=moment, **arguments))
            values.append(wor.smallest_terms(alpha, log_abs_moment=moment, **arguments))
            assert lower <= min(values)
            assert wor.best_black_box(alpha, **arguments) <= unsampled
        assert wor.proposition20(alpha, rate=gamma, cgf=laplace) <= wang.pure_dp(alpha, rate=gamma, cgf=laplace)


# Brute force ----------------------------------------------------------------------------------------------------------

Batch = tuple[int, ...]
Mechanism = dict[Batch, Array]
ORDERS = (2, 3, 4, 7)


def random_mechanism(generator: np.random.Generator, sizes: list[int], symbols: int) -> Mechanism:
    """Return an output distribution for every multiset of records of the given sizes; some nearly reveal theirs."""
    outputs, spread = int(generator.integers(2, 5)), float(generator.choice([0.2, 1.0, 5.0]))
    batches = [b for size in sizes for b in itertools.combinations_with_replacement(range(symbols), size)]
    raw = {batch: generator.dirichlet(np.full(outputs, spread)) + 1e-4 for batch in batches}
    return {batch: mass / mass.sum() for batch, mass in raw.items()}


def exact_curve(pairs: list[tuple[Array, Array]]) -> Curve:
    """Return the CGF of the worst of the pairs."""
    log_p = np.log(np.array([p for p, _ in pairs]))
    log_q = np.log(np.array([q for _, q in pairs]))

    def log_moment(lam: Array) -> Array:
        exponents = log_p + lam[:, None, None] * (log_p - log_q)
        return np.asarray(np.logaddexp.reduce(exponents, axis=2).max(axis=1))

    return Curve(log_moment=log_moment, kl=math.inf, pure=float((log_p - log_q).max()))


def true_moment(p: Array, q: Array, order: int) -> float:
    return math.log(math.fsum((p**order * q ** (1.0 - order)).tolist()))


def replaced(batch: Batch, symbols: int) -> Iterator[Batch]:
    for i, x in itertools.product(range(len(batch)), range(symbols)):
        if x != batch[i]:
            yield tuple(sorted((*batch[:i], x, *batch[i + 1 :])))


@pytest.mark.parametrize("seed", range(30))
def test_without_replacement_by_enumeration(seed: int) -> None:
    generator = np.random.default_rng(seed)
    n, symbols = int(generator.integers(2, 5)), 3
    m = int(generator.integers(1, n))
    mechanism = random_mechanism(generator, [m], symbols)
    cgf = exact_curve([(mechanism[a], mechanism[b]) for a in mechanism for b in set(replaced(a, symbols))])

    def sampled(data: Batch) -> Array:
        return np.asarray(np.mean([mechanism[batch] for batch in itertools.combinations(data, m)], axis=0))

    datasets = list(itertools.combinations_with_replacement(range(symbols), n))
    for order in ORDERS:
        truth = max(
            true_moment(sampled(data), sampled(other), order) for data in datasets for other in replaced(data, symbols)
        )
        for bound in (wor.theorem9, wor.black_box, wor.joint_convexity, wang.pure_dp):
            assert truth <= bound(order, rate=m / n, cgf=cgf) + 1e-13


@pytest.mark.parametrize("seed", range(30))
def test_poisson_by_enumeration(seed: int) -> None:
    generator = np.random.default_rng(1000 + seed)
    n, symbols = int(generator.integers(1, 4)), 2
    gamma = float(generator.choice([0.05, 0.3, 0.7, 0.95]))
    mechanism = random_mechanism(generator, list(range(n + 1)), symbols)

    def grown(batch: Batch) -> list[Batch]:
        return [tuple(sorted((*batch, x))) for x in range(symbols)] if len(batch) < n else []

    def sampled(data: Batch) -> Array:
        result = np.zeros_like(mechanism[()])
        for chosen in itertools.product([False, True], repeat=len(data)):
            batch = tuple(x for x, taken in zip(data, chosen, strict=True) if taken)
            result += gamma ** len(batch) * (1 - gamma) ** (len(data) - len(batch)) * mechanism[batch]
        return result

    ordered = [(mechanism[a], mechanism[b]) for a in mechanism for b in grown(a)]
    cgf = exact_curve(ordered + [(q, p) for p, q in ordered])
    for order in ORDERS:
        bound = poisson.poisson_tight(order, rate=gamma, cgf=cgf) + 1e-13
        for data in mechanism:
            for other in grown(data):
                p, q = sampled(data), sampled(other)
                assert max(true_moment(p, q, order), true_moment(q, p, order)) <= bound


def test_the_curve_must_be_symmetric() -> None:
    """With one direction's curve alone the formula is refuted by the other direction."""
    small, large = np.array([0.99, 0.01]), np.array([1 - 1e-9, 1e-9])
    one_sided = poisson.poisson_tight(5, rate=0.9, cgf=exact_curve([(large, small)]))
    sampled = 0.1 * small + 0.9 * large
    assert true_moment(small, sampled, 5) > one_sided
    both = poisson.poisson_tight(5, rate=0.9, cgf=exact_curve([(large, small), (small, large)]))
    assert true_moment(small, sampled, 5) <= both


# Divergences ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sigma", [0.5, 1.0, 5.0, 10.0, 50.0, 1000.0])
@pytest.mark.parametrize("order", [2, 3, 4, 7, 50, 101])
def test_gaussian_difference_is_the_alternating_sum(sigma: float, order: int) -> None:
    log_b = float(dv.gaussian_log_difference(order, noise_multiplier=sigma))
    exact = gaussian_difference(order, sigma)
    assert abs(float(log_b - exact)) <= float(dv.moment_error(np.array(order), np.array(log_b))) / 2


@pytest.mark.parametrize("theta", [10, 1, Fraction(1, 32)])
@pytest.mark.parametrize("order", [2, 3, 8, 51, 400])
def test_laplace_and_binary_differences_are_alternating_sums(theta: int | Fraction, order: int) -> None:
    for log_b, exact in (
        (dv.laplace_log_difference(order, scale=1 / float(theta)), laplace_difference(order, theta)),
        (dv.binary_log_difference(order, epsilon=float(theta)), binary_difference(order, theta)),
    ):
        assert abs(float(log_b - exact)) <= float(dv.moment_error(np.array(order), log_b))


@pytest.mark.slow
def test_difference_at_an_order_of_a_thousand_and_a_million() -> None:
    assert float(dv.gaussian_log_difference(50, noise_multiplier=10.0)) == pytest.approx(-22.2, abs=0.05)
    exact = gaussian_difference(1000, 100.0)
    assert float(dv.gaussian_log_difference(1000, noise_multiplier=100.0) - exact) == pytest.approx(0, abs=1e-11)
    exact = difference_around(1_000_000, 2000.0, 0.5727)
    assert float(dv.gaussian_log_difference(10**6, noise_multiplier=2000.0) - exact) == pytest.approx(0, abs=1e-8)


@stored
def difference_around(order: int, noise: float, mode: float) -> Any:
    """Integrate in u = log r, around the mode."""
    with mp.workdps(30):
        sigma, center = mpf(noise), mpf(mode)

        def log_integrand(u: Any) -> Any:
            return order * mp.log(mp.expm1(u)) - (1 / (2 * sigma) + sigma * u) ** 2 / 2

        top = log_integrand(center)
        steps = [center + k / sigma for k in range(-16, 17)]
        integral = mp.quad(lambda u: mp.exp(log_integrand(u) - top), steps)
        return top + mp.log(integral * sigma / mp.sqrt(2 * mp.pi))


LOG_DENSITIES: dict[str, Callable[[Any, float], Any]] = {
    "Gaussian": lambda x, s: -(x**2) / (2 * s**2) - mp.log(s * mp.sqrt(2 * mp.pi)),
    "Laplace": lambda x, s: -abs(x) / s - mp.log(2 * s),
}


@stored
def log_abs_moment(noise: str, order: int, s: float) -> Any:
    with mp.workdps(25):

        def integrand(x: Any) -> Any:
            there, here = LOG_DENSITIES[noise](x - 1, s), LOG_DENSITIES[noise](x, s)
            return mp.exp(here) * abs(mp.expm1(there - here)) ** order

        knots = [mpf(k) for k in (0, 0.25, 0.5, 0.75, 1, order / 2, order, order + 1)]
        tails = [sign * s * k + shift for k in (1, 3, 7, 15, 30, 60) for sign, shift in ((-1, 0), (1, order + 1))]
        return mp.log(mp.quad(integrand, sorted({*knots, *map(mpf, tails)})))


@pytest.mark.parametrize("order", [1, 3, 6])
def test_absolute_moments_by_quadrature(order: int) -> None:
    for s in (0.5, 3.0):
        gaussian, laplace = (log_abs_moment(noise, order, s) for noise in LOG_DENSITIES)
        found = dv.gaussian_log_abs_moment(order, noise_multiplier=s), dv.laplace_log_abs_moment(order, scale=s)
        assert float(found[0] - gaussian) == pytest.approx(0, abs=1e-12)
        assert float(found[1] - laplace) == pytest.approx(0, abs=1e-12)


def test_moments_at_orders_zero_and_one() -> None:
    for difference in (
        partial(dv.gaussian_log_difference, noise_multiplier=3.0),
        partial(dv.laplace_log_difference, scale=3.0),
        partial(dv.binary_log_difference, epsilon=0.4),
    ):
        np.testing.assert_allclose(difference([0, 1]), [0.0, -math.inf], atol=1e-13)
    total_variation = mp.erf(1 / (2 * mp.sqrt(2) * 3))
    assert float(dv.gaussian_log_abs_moment(1, noise_multiplier=3.0) - mp.log(2 * total_variation)) == pytest.approx(
        0, abs=1e-13
    )


@pytest.mark.parametrize("seed", range(20))
def test_lemmas_on_random_triples(seed: int) -> None:
    generator = np.random.default_rng(seed)
    p, q, r = (x / x.sum() for x in generator.dirichlet(np.full(4, 0.5), size=3) + 1e-3)
    cgf = exact_curve(list(itertools.permutations([p, q, r], 2)))
    for j in (2, 3, 4, 5):
        ternary = math.log(dv.ternary_pearson_vajda(p, q, r, order=j))
        binary = max(dv.pearson_vajda(a, b, order=j) for a, b in itertools.permutations([p, q, r], 2))
        assert ternary <= dv.ternary_from_binary(math.log(binary)) + 1e-12
        log_x, log_y = ((j - 1) * dv.renyi_divergence(a, r, order=j) for a in (p, q))
        assert ternary <= dv.difference_bound(log_x, log_y) + 1e-12
        pure = float(np.abs(np.log(p / q)).max())
        assert ternary <= dv.multiplicative_bound(log_y, epsilon=pure, order=j) + 1e-12

        def moment(orders: Array) -> Array:
            return np.array([math.log(dv.pearson_vajda(p, q, order=x)) for x in orders])

        for u in (1, 1.5, 2, 6):
            assert ternary <= dv.hoelder_bound(j, cgf=cgf, log_abs_moment=moment, u=u) + 1e-12
        for epsilon in (0.01, 0.5, 3.0):
            log_delta = dv.pearson_vajda_log_delta(math.log(dv.pearson_vajda(p, q, order=j)), order=j, epsilon=epsilon)
            assert dv.hockey_stick(p, q, epsilon=epsilon) <= math.exp(log_delta) * (1 + 1e-12)


def test_lemma_28_as_printed_is_refuted_and_as_derived_is_attained() -> None:
    epsilon, order = math.log(41.0), 2  # e^ε - 1 = 40 > 4
    q = np.array([1e-4, 1 - 1e-4])
    p = np.array([81e-4, 1 - 81e-4])  # r = 1 + tα/(α-1) = 81
    moment = max(dv.pearson_vajda(p, q, order=order), dv.pearson_vajda(q, p, order=order))
    delta = dv.hockey_stick(p, q, epsilon=epsilon)
    assert delta > (math.sqrt(moment) / math.expm1(epsilon)) ** order
    log_delta = dv.pearson_vajda_log_delta(math.log(moment), order=order, epsilon=epsilon)
    assert delta <= math.exp(log_delta) <= delta * (1 + 1e-3)
    assert dv.pearson_vajda_epsilon(math.log(moment), order=order, log_delta=log_delta) == pytest.approx(
        epsilon, rel=1e-12
    )


# Approximations, and arguments ----------------------------------------------------------------------------------------


def renyi_of_normals(alpha: Any, mean: Any, variance_p: Any, variance_q: Any) -> Any:
    def log_density(x: Any, m: Any, v: Any) -> Any:
        return -((x - m) ** 2) / (2 * v) - mp.log(2 * mp.pi * v) / 2

    spread = mp.sqrt(max(variance_p, variance_q))
    knots = [k * spread for k in range(-40, 41, 4)]
    moment = mp.quad(
        lambda x: mp.exp(alpha * log_density(x, mean, variance_p) + (1 - alpha) * log_density(x, 0, variance_q)), knots
    )
    return mp.log(moment) / (alpha - 1)


@pytest.mark.parametrize("alpha", [1.5, 2, 6])
def test_asymptotic_examples_are_divergences_of_their_normals(alpha: float) -> None:
    n, gamma, sigma = 1001, mpf("0.1"), mpf(2)
    arguments: dict[str, Any] = {"noise_multiplier": 2.0, "rate": 0.1, "population": n}
    batch = gamma * n
    with mp.workdps(25):
        noise = sigma**2 / batch**2
        bad = renyi_of_normals(mpf(alpha), mpf(1) / n, noise + (1 - gamma) * (n - 1) / (n**2 * batch), noise)
        both = noise + (1 - gamma) / (4 * batch) * (1 - 1 / mpf(n) ** 2)
        good = renyi_of_normals(mpf(alpha), mpf(1) / n, both, both)
    assert asym.approximate_divergence_of_constant_data(alpha, **arguments) == pytest.approx(float(bad), rel=1e-10)
    assert asym.approximate_divergence_of_balanced_data(alpha, **arguments) == pytest.approx(float(good), rel=1e-10)
    assert asym.approximate_divergence_of_constant_data(46.0, **arguments) == math.inf  # α* = 45.5


def test_arguments_are_checked() -> None:
    cgf = Gaussian(noise_multiplier=1.0)._known().curve()
    for bound in (
        poisson.poisson_tight,
        poisson.poisson_general,
        poisson.poisson_fast,
        wor.theorem9,
        wor.proposition20,
    ):
        for order, rate in ((1, 0.1), (2.5, 0.1), (3, 0.0), (3, 1.0), (3, math.nan)):
            with pytest.raises(InvalidParameter):
                bound(order, rate=rate, cgf=cgf)  # type: ignore[arg-type]
    with pytest.raises(UnprovenCombination):
        wang.pure_dp(3, rate=0.1, cgf=cgf)
    with pytest.raises(UnprovenCombination):
        wor.theorem9(3, rate=0.1, cgf=Curve(log_moment=cgf.log_moment, kl=cgf.kl, failure=1e-6))
    with pytest.raises(InvalidParameter):
        dv.gaussian_log_abs_moment(2.5, noise_multiplier=1.0)


def test_unknown_orders_give_infinity_and_no_loss_gives_zero() -> None:
    unknown = Curve(log_moment=lambda lam: np.where(lam > 4, math.inf, lam), kl=1.0)
    nothing = Curve(log_moment=np.zeros_like, kl=0.0, pure=0.0)
    bounds = [poisson.poisson_tight, poisson.poisson_general, poisson.poisson_fast, poisson.poisson_general_fast]
    bounds += [wor.theorem9, wor.black_box, wor.joint_convexity]
    for bound in bounds:
        assert bound(9, rate=0.1, cgf=unknown) == math.inf
        assert math.isfinite(bound(5, rate=0.1, cgf=unknown))
    for bound in (poisson.poisson_tight, poisson.poisson_fast, wor.theorem9, wor.black_box, wor.joint_convexity):
        assert bound(9, rate=0.1, cgf=nothing) == 0
