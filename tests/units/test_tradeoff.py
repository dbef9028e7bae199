"""Trade-off functions: of lines against certified profiles, of curves against two coins, of Gaussians and tables."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable

import numpy as np
import pytest
from mpmath import mp, mpf
from scipy.optimize import minimize_scalar

import cumulant as cm
from cumulant.inversion import shared_profile
from cumulant.inversion.shared_profile import SharedProfile
from cumulant.profiles.tradeoff import false_negative_rates

SAMPLED = cm.Gaussian(noise_multiplier=1.0).poisson(rate=0.01) * 1000
FEW = cm.Gaussian(noise_multiplier=1.0).poisson(rate=0.5) * 3
LAPLACE = cm.Laplace(scale=1.0).poisson(rate=0.2)
RATES = np.array([1e-6, 0.01, 0.2, 0.6, 0.95, 1 - 1e-6])


def by_search(delta: Callable[[float], float], x: float, last: float = 8.0, near: float = 1e-6) -> float:
    """Return the supremum over ε of both terms by SciPy, each concave in e^ε or e^-ε."""

    def best(term: Callable[[float], float]) -> float:
        inner = minimize_scalar(lambda e: -term(e), bounds=(0.0, last), method="bounded", options={"xatol": near})
        return max(term(0.0), term(last), float(-inner.fun))

    first = best(lambda e: 1 - delta(e) - math.exp(e) * x)
    return max(0.0, first, best(lambda e: math.exp(-e) * (1 - delta(e) - x)))


@pytest.mark.parametrize(("run", "x"), [(SAMPLED, 0.01), (SAMPLED, 0.9)])
def test_tradeoffs_lie_between_those_of_certified_profiles(run: cm.Composed, x: float) -> None:
    """Every ε bounds f: what certified upper δ prove is reached, and what lower δ prove is not surpassed."""
    found = run.tradeoff(false_positive_rate=x)
    assert found >= by_search(lambda e: run.delta_interval(epsilon=e).upper, x, 3.0, 1e-2) - 1e-6
    assert found <= by_search(lambda e: run.delta_interval(epsilon=e).lower, x, 3.0, 1e-4) + 1e-7


@pytest.mark.parametrize("count", [2, 5, 30])
def test_tradeoffs_of_randomized_responses_are_binomial_tests(count: int) -> None:
    """Neyman and Pearson: reject where most answers say so, at random at the last number."""
    with mp.workdps(30):
        p = mpf(0.625)
        ones = [mp.binomial(count, k) * p**k * (1 - p) ** (count - k) for k in range(count, -1, -1)]
        found = (cm.RandomizedResponse(p=float(p)) * count).tradeoff(false_positive_rate=RATES)
        for x, misses in zip(RATES.tolist(), found.tolist(), strict=True):
            level, power = mpf(0), mpf(0)
            for under, over in zip(ones[::-1], ones, strict=True):
                share = min(mpf(1), (mpf(x) - level) / under)
                level, power = level + share * under, power + share * over
                if share < 1:
                    break
            assert 1 - power - mpf("1e-7") <= misses <= 1 - power


@pytest.mark.parametrize("noise", [0.5, 2.0, 30.0])
def test_tradeoffs_of_a_gaussian_limit(noise: float) -> None:
    """One Gaussian beside a next to nothing of another release: f(x) = Φ(Φ⁻¹(1-x) - μ), by mpmath."""
    run = cm.Gaussian(noise_multiplier=noise) + cm.Gaussian(noise_multiplier=1e6).poisson(rate=0.5)
    rates = np.array([0.0, 1e-6, 0.01, 0.3, 0.9, 1 - 1e-6, 1.0])
    found = run.tradeoff(false_positive_rate=rates)
    for rate, misses in zip(rates[1:-1], found[1:-1], strict=True):
        quantile = mp.sqrt(2) * mp.erfinv(1 - 2 * mpf(float(rate)))
        exact = mp.ncdf(quantile - 1 / mpf(noise))
        # that other release takes about a millionth
        assert exact - 1e-5 <= misses <= exact
    assert found[0] == pytest.approx(1.0)
    assert found[-1] == 0


@pytest.mark.parametrize("mean", [0.1, 1.0, 4.0])
def test_the_tradeoff_of_gaussians_is_known(mean: float) -> None:
    """Φ(Φ^{-1}(1-α) - μ) (Dong, Roth and Su 2022), from δ(ε) alone, never above it, and near it as a share of both."""

    def bounds(epsilons: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        e, m = epsilons.tolist(), mpf(mean)
        delta = [mp.ncdf(m / 2 - mpf(x) / m) - mp.exp(x) * mp.ncdf(-m / 2 - mpf(x) / m) for x in e]
        return np.array([float(mp.log(one) + mpf("1e-15")) for one in delta]), np.zeros(len(e))

    rates = np.array([1e-9, 1e-6, 0.01, 0.3, 0.9, 1 - 1e-6])
    with mp.workdps(40):
        found, doubt = false_negative_rates(bounds, 40 * mean, rates)
        for rate, misses in zip(rates.tolist(), found.tolist(), strict=True):
            truth = mp.ncdf(mp.sqrt(2) * mp.erfinv(1 - 2 * mpf(rate)) - mean)
            assert truth - 2e-8 * min(truth, 1 - truth) - 1e-14 <= misses <= truth + mpf("1e-16")
    assert np.all(doubt == 0)


def test_tradeoffs_where_directions_cross() -> None:
    """Laplace noise in samples: which direction is the dearer depends on ε, and f has its best ε where they meet."""
    run = LAPLACE * 200
    for x in (0.001, 0.05, 0.5):
        slow = by_search(lambda e: run.delta(epsilon=e), x)
        assert run.tradeoff(false_positive_rate=x) == pytest.approx(slow, rel=0, abs=2e-8)


def test_true_positive_rates_are_rounded_up() -> None:
    rates = np.linspace(0.0, 1.0, 7)
    misses = SAMPLED.tradeoff(false_positive_rate=rates)
    assert np.all(SAMPLED.true_positive_rate(false_positive_rate=rates) >= 1 - misses)
    assert np.all(np.diff(misses) <= 0)


@pytest.mark.parametrize("run", [FEW, SAMPLED, cm.Laplace(scale=2.0) * 10], ids=["few", "many", "Laplace"])
def test_many_rates_share_few_lines(run: cm.Composed, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two hundred rates cost a few lines, and each of them is what it is alone."""
    planned = 0
    plan = shared_profile.Side._on_new_line

    def counted(self: shared_profile.Side, epsilon: float) -> shared_profile.Bound:
        nonlocal planned
        planned += 1
        return plan(self, epsilon)

    monkeypatch.setattr(shared_profile.Side, "_on_new_line", counted)
    rates = np.linspace(1e-6, 1 - 1e-6, 200)
    found = run.tradeoff(false_positive_rate=rates)
    assert planned <= 20
    for i in (1, 60, 150):
        alone = run.tradeoff(false_positive_rate=float(rates[i]))
        assert found[i] == pytest.approx(alone, rel=1e-6)


def test_a_shared_profile_is_that_of_single_questions() -> None:
    """Against the answers of one ε at a time, in any order; bounds of either lie above the same truth."""
    for run in (FEW, LAPLACE * 30, SAMPLED):
        directions = run._known().pairs(run.neighbors)
        assert directions is not None
        epsilons = np.random.default_rng(5).permutation(np.linspace(0.0, 3.0, 31))
        found, slack = SharedProfile(directions).bounds(epsilons)
        alone = np.array([run.log_delta(epsilon=float(e)) for e in epsilons])
        seen = alone > -np.inf
        assert np.all(found[seen] - slack[seen] <= alone[seen] + 1e-9)
        np.testing.assert_allclose(found[seen], alone[seen], rtol=0, atol=1e-5)
        assert np.all(found[~seen] == -np.inf)


# Curves ---------------------------------------------------------------------------------------------------------------


def coins(lam: mpf, p: mpf, q: mpf) -> mpf:
    """Return D_α of two coins, α = 1 + λ; KL at λ = 0."""
    if lam == 0:
        return p * mp.log(p / q) + (1 - p) * mp.log((1 - p) / (1 - q))
    return mp.log(p ** (1 + lam) * q**-lam + (1 - p) ** (1 + lam) * (1 - q) ** -lam) / lam


CURVES: dict[str, tuple[cm.AbstractMechanism, Callable[[mpf], mpf]]] = {
    "zCDP": (cm.ZCDP(rho=0.5), lambda lam: (1 + lam) / 2),
    "zCDP, little": (cm.ZCDP(rho=1e-4), lambda lam: (1 + lam) / 10**4),
    "zCDP, much": (cm.ZCDP(rho=6.0, xi=0.5), lambda lam: mpf("0.5") + 6 * (1 + lam)),
    "function": (cm.RenyiCurve(lambda order: 0.1 * order**1.5), lambda lam: (1 + lam) ** mpf("1.5") / 10),
}


@pytest.mark.parametrize("name", CURVES)
@pytest.mark.parametrize("x", [1e-5, 0.05, 0.5, 0.93])
def test_the_tradeoff_of_a_curve_is_that_of_two_coins(name: str, x: float) -> None:
    """By mpmath: at the rate found some order is exceeded, and a little above it none is."""
    mechanism, gamma = CURVES[name]
    y = mechanism.tradeoff(false_positive_rate=x)
    with mp.workdps(40):
        lams = [mpf(0), *(mpf(2) ** (mpf(k) / 16) for k in range(-16 * 8, 16 * 12))]
        p, q = 1 - mpf(y), mpf(x)
        more = 1 - mpf(y) - mpf("1e-7") * min(mpf(y), 1 - mpf(y))  # a smaller true positive rate
        excess = [max(coins(lam, p, q), coins(lam, q, p)) / gamma(lam) - 1 for lam in lams]
        assert max(excess) > mpf("-1e-3")  # near the best of these orders
        best = lams[excess.index(max(excess))]
        low, high = (0, mpf(1) / 128) if best == 0 else (best / mpf("1.05"), best * mpf("1.05"))
        for _ in range(100):
            a, b = low + (high - low) / 3, high - (high - low) / 3
            worse = max(coins(a, p, q), coins(a, q, p)) / gamma(a) > max(coins(b, p, q), coins(b, q, p)) / gamma(b)
            low, high = (low, b) if worse else (a, high)
        assert max(coins(low, p, q), coins(low, q, p)) >= gamma(low)
        assert all(max(coins(lam, more, q), coins(lam, q, more)) <= gamma(lam) for lam in (*lams, low))


@pytest.mark.parametrize("x", [0.0, 1e-4, 0.2, 0.7, 1.0])
def test_pure_dp_in_a_curve_is_randomized_response(x: float) -> None:
    found = cm.RenyiCurve([(math.inf, 1.0)]).tradeoff(false_positive_rate=x)
    truth = max(1 - math.e * x, (1 - x) / math.e)
    assert truth - 1e-12 <= found <= truth


def test_a_table_says_at_least_what_its_orders_say() -> None:
    """Each order alone, between its row and the next the chord of K, and no more than all of them on a fine grid."""
    table = [(2.0, 0.5), (4.0, 0.9), (8.0, 1.5)]
    mechanism = cm.RenyiCurve(table)
    lams = np.unique(np.concatenate([np.geomspace(1e-3, 7.0, 4001), [1.0, 3.0, 7.0]]))
    gamma = mechanism._known().curve()(lams) / lams
    for x in (0.01, 0.3, 0.8):
        y = mechanism.tradeoff(false_positive_rate=x)

        def worst(y: float, x: float = x) -> float:
            p = 1 - y
            both = [
                np.log(a ** (1 + lams) * b**-lams + (1 - a) ** (1 + lams) * (1 - b) ** -lams) / lams
                for a, b in ((p, x), (x, p))
            ]
            return float(np.max(np.maximum(*both) - gamma))

        assert worst(y - 1e-7) > 0 > worst(y + 1e-6)


def test_a_failure_is_counted_beside_a_curve() -> None:
    """With probability δ₀ all is revealed: the rate of the rest, from δ(ε) of the whole."""
    run = cm.ApproximateDP(epsilon=0.3, delta=1e-3) + cm.ZCDP(rho=0.1)
    slow = by_search(lambda e: run.delta(epsilon=e, method="rdp"), 0.1, near=1e-4)
    found = run.tradeoff(false_positive_rate=0.1, method="rdp")
    assert found == pytest.approx(slow, rel=0, abs=1e-7)
    assert run.tradeoff(false_positive_rate=0.1) >= found


def test_exact_tradeoffs_need_pairs() -> None:
    with pytest.raises(cm.UnprovenCombination, match="dominating pair"):
        cm.ZCDP(rho=0.5).tradeoff(false_positive_rate=0.1, method="exact")
    same = pickle.loads(pickle.dumps(FEW))
    assert same.tradeoff(false_positive_rate=0.1, method="exact") == FEW.tradeoff(false_positive_rate=0.1)
