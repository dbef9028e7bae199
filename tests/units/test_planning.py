"""Planning never overshoots a budget, leaves nothing on the table, and asks little."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest
from mpmath import exp, expm1, findroot, log, mp, mpf, ncdf, sqrt

import cumulant as cm
from cumulant.mechanisms.base import AbstractMechanism
from cumulant.planning import max_whole

Build = Callable[[float], AbstractMechanism]


def exact_noise(count: int, epsilon: float, delta: float) -> float:
    """Return σ with Φ(-ε/μ+μ/2) - e^ε Φ(-ε/μ-μ/2) = δ, μ = √count/σ, in mpmath."""
    with mp.workdps(40):
        e, d = mpf(epsilon), mpf(delta)

        def excess(mu: mpf) -> mpf:
            return log(ncdf(-e / mu + mu / 2) - exp(e) * ncdf(-e / mu - mu / 2)) - log(d)

        mu = findroot(excess, (mpf("0.01"), mpf(5)), solver="anderson", tol=mpf(10) ** -30)
        return float(sqrt(count) / mu)


@pytest.mark.parametrize(
    ("count", "epsilon", "delta"), [(1, 1.0, 1e-5), (1000, 1.0, 1e-5), (10, 0.1, 1e-3), (7, 20.0, 1e-12)]
)
def test_gaussian_noise_is_the_exact_one(count: int, epsilon: float, delta: float) -> None:
    noise = cm.calibrate(lambda sigma: cm.Gaussian(noise_multiplier=sigma) * count, epsilon=epsilon, delta=delta)
    reference = exact_noise(count, epsilon, delta)
    assert reference * (1 - 1e-12) <= noise <= reference * (1 + 2e-9)


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 50.0])
def test_pure_dp_has_closed_forms(epsilon: float) -> None:
    """At δ = 0: k Laplace releases of scale b cost k/b, a coin of odds e^x costs x."""
    scale = cm.calibrate(lambda b: cm.Laplace(scale=b) * 7, epsilon=epsilon, delta=0.0)
    assert 7 / epsilon * (1 - 1e-12) <= scale <= 7 / epsilon * (1 + 2e-9)
    inverse = cm.calibrate(lambda s: cm.RandomizedResponse(p=lie(s)), epsilon=epsilon, delta=0.0)
    assert 1 / epsilon * (1 - 1e-12) <= inverse <= 1 / epsilon * (1 + 2e-9)


def lie(scale: float) -> float:
    """Return the p < 1/2 whose log-odds are -1/scale; as a probability of truth it costs what 1 - p costs."""
    return 1 / (1 + math.exp(min(1 / scale, 700.0)))


# Every mechanism on every sampling scheme -----------------------------------------------------------------------------

MECHANISMS: dict[str, Build] = {
    "Gaussian": lambda x: cm.Gaussian(noise_multiplier=x),
    "Laplace": lambda x: cm.Laplace(scale=x),
    "RandomizedResponse": lambda x: cm.RandomizedResponse(p=lie(x)),
}
SCHEMES: dict[str, Callable[[AbstractMechanism], AbstractMechanism]] = {
    "whole data": lambda mechanism: mechanism * 100,
    "Poisson": lambda mechanism: mechanism.poisson(rate=0.01) * 1000,
    "without replacement": lambda mechanism: mechanism.without_replacement(rate=0.01) * 1000,
    "Poisson, once": lambda mechanism: mechanism.poisson(rate=0.1),
}
BUDGETS = [(0.01, 1e-3), (0.5, 1e-30), (8.0, 1e-6), (50.0, 1e-3), (50.0, 1e-30)]
MOST_QUESTIONS = 15


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Count the questions that reach a mechanism."""
    counted: list[int] = []
    original = AbstractMechanism.guarantee

    def guarantee(self: AbstractMechanism, **arguments: Any) -> cm.Guarantee:
        counted.append(1)
        return original(self, **arguments)

    monkeypatch.setattr(AbstractMechanism, "guarantee", guarantee)
    return counted


def check_calibrated(build: Build, epsilon: float, delta: float, asked: list[int]) -> None:
    value = cm.calibrate(build, epsilon=epsilon, delta=delta)
    assert len(asked) <= MOST_QUESTIONS
    found = build(value).guarantee(delta=delta)
    assert found.epsilon <= epsilon
    # an answer may be above the truth by as much as it says, and the next one by less
    above = found.at_most_above if found.exact else None
    assert build(value * (1 - max(2e-9, 2 * (above or 0.0)))).epsilon(delta=delta) > epsilon


@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_noise_is_least_and_found_in_few_questions(
    mechanism: str, scheme: str, epsilon: float, delta: float, asked: list[int]
) -> None:
    check_calibrated(lambda x: SCHEMES[scheme](MECHANISMS[mechanism](x)), epsilon, delta, asked)


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", ["Laplace", "RandomizedResponse"])
def test_noise_of_draws_with_replacement(mechanism: str, asked: list[int]) -> None:
    def build(x: float) -> AbstractMechanism:
        return MECHANISMS[mechanism](x).with_replacement(draws=3, population=1000) * 50

    check_calibrated(build, 1.0, 1e-6, asked)


BUILDERS: dict[str, Build] = {
    "poisson": lambda x: cm.Gaussian(noise_multiplier=x).poisson(rate=0.01) * 1000,
    "laplace": lambda x: cm.Laplace(scale=x) * 20,
    "laplace and more": lambda x: cm.Laplace(scale=x) * 20 + cm.Gaussian(noise_multiplier=100.0),
    "training": lambda x: cm.dp_sgd(noise_multiplier=x, batch_size=100, dataset_size=10_000, epochs=3),
}


@pytest.mark.parametrize("name", BUILDERS)
@pytest.mark.parametrize("epsilon", [0.5, 8.0])
def test_the_method_is_the_one_asked_for(name: str, epsilon: float) -> None:
    build = BUILDERS[name]
    value = cm.calibrate(build, epsilon=epsilon, delta=1e-6, method="rdp")
    assert build(value).epsilon(delta=1e-6, method="rdp") <= epsilon
    assert build(value * (1 - 2e-9)).epsilon(delta=1e-6, method="rdp") > epsilon


def test_dp_sgd_noise_by_renyi_dp() -> None:
    """Another accountant's Rényi path, on its grid of orders, finds 1.51312."""
    noise = cm.calibrate(BUILDERS["poisson"], epsilon=1.0, delta=1e-5, method="rdp")
    assert 1.41462 <= noise <= 1.51312  # the exact value is 1.41462


def test_a_budget_of_zero() -> None:
    """ε = 0 at δ is a total variation of δ: 2Φ(1/(2σ)) - 1 = δ."""
    noise = cm.calibrate(lambda sigma: cm.Gaussian(noise_multiplier=sigma), epsilon=0.0, delta=1e-3)
    with mp.workdps(30):
        exact = 1 / (2 * findroot(lambda z: 2 * ncdf(z) - 1 - mpf("1e-3"), mpf("1e-3")))
    assert float(exact) * (1 - 1e-12) <= noise <= float(exact) * (1 + 2e-9)


def test_a_cost_with_jumps() -> None:
    """A search that interpolates must not depend on what it interpolates: here ε is a staircase."""

    def build(x: float) -> AbstractMechanism:
        return cm.PureDP(epsilon=math.ceil(100 / x) / 10)

    value = cm.calibrate(build, epsilon=2.0, delta=0.0)
    assert value == pytest.approx(5.0, rel=2e-9)
    assert build(value).epsilon(delta=0.0) <= 2.0


@pytest.mark.parametrize("reach", [0.3, 0.9, 3.0])
def test_a_rough_search_leads_to_where_the_pairs_are_in_reach(reach: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rényi DP costs 1.3/x here and jumps at 0.66; the pairs cost 1/x, and say nothing at x = 1 and below `reach`."""
    asked: list[str] = []

    def guarantee(self: cm.Laplace, *, delta: float, method: str) -> cm.Guarantee:
        log_delta = math.log(delta)
        asked.append(method)
        if method != "rdp" and self.scale > reach and self.scale != 1:
            return cm.Guarantee.by_pairs(1 / self.scale, log_delta, "contour", excess=None)
        return cm.Guarantee.by_rdp(1.3 / self.scale + (self.scale < 0.66) / 2, log_delta, 2.0)

    monkeypatch.setattr(cm.Laplace, "guarantee", guarantee)
    value = cm.calibrate(lambda x: cm.Laplace(scale=x), epsilon=2.0, delta=1e-6)
    least = 0.5 if reach < 0.5 else 0.66
    assert least * (1 - 1e-12) <= value <= least * (1 + 2e-9)
    assert asked.count("best") <= (MOST_QUESTIONS if reach < 0.5 else 3)  # in vain at first, near the end, and after it
    assert reach > 0.5 or len(asked) <= MOST_QUESTIONS


# Rates ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [0.001, 0.1, 1.0])
def test_rate_of_one_pure_release(epsilon: float) -> None:
    """A sampled ε₀-DP release costs log(1 + γ(e^ε₀ - 1)) at δ = 0: γ = (e^ε - 1)/(e^ε₀ - 1), ε₀ = log 3."""
    step = cm.RandomizedResponse(p=0.75)
    rate = cm.max_rate(lambda rate: step.poisson(rate=rate), epsilon=epsilon, delta=0.0)
    exact = float(expm1(mpf(epsilon)) / 2)
    assert exact * (1 - 2e-9) <= rate <= exact * (1 + 1e-12)


@pytest.mark.parametrize("scheme", ["poisson", "without_replacement"])
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_rate_is_the_largest_that_fits(mechanism: str, scheme: str, asked: list[int]) -> None:
    def build(rate: float) -> AbstractMechanism:
        sampled: AbstractMechanism = getattr(MECHANISMS[mechanism](1.0), scheme)(rate=rate)
        return sampled * 1000

    rate = cm.max_rate(build, epsilon=2.0, delta=1e-6)
    assert len(asked) <= MOST_QUESTIONS
    assert build(rate).epsilon(delta=1e-6) <= 2.0 < build(rate * (1 + 2e-9)).epsilon(delta=1e-6)


def test_a_run_that_needs_no_sampling() -> None:
    assert cm.max_rate(lambda rate: cm.Laplace(scale=2.0).poisson(rate=rate), epsilon=0.51, delta=0.0) == 1.0


def test_no_rate_pays_for_the_rest() -> None:
    step, rest = cm.Laplace(scale=2.0), cm.Laplace(scale=1.0)
    with pytest.raises(cm.InvalidParameter, match="no rate down to"):
        cm.max_rate(lambda rate: step.poisson(rate=rate) + rest, epsilon=0.5, delta=0.0)


# Counts ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [0.01, 2.0, 50.0])
@pytest.mark.parametrize(
    "step",
    [
        cm.Gaussian(noise_multiplier=20.0),
        cm.Gaussian(noise_multiplier=1e6),
        cm.Laplace(scale=5.0),
        cm.Gaussian(noise_multiplier=1.0).poisson(rate=0.01),
        cm.RandomizedResponse(p=0.51).without_replacement(rate=0.1),
    ],
    ids=repr,
)
def test_max_count_is_the_last_that_fits(step: AbstractMechanism, epsilon: float, asked: list[int]) -> None:
    count = cm.max_count(step, epsilon=epsilon, delta=1e-5)
    assert len(asked) <= MOST_QUESTIONS
    assert (step * count).epsilon(delta=1e-5) <= epsilon < (step * (count + 1)).epsilon(delta=1e-5)


@pytest.mark.parametrize(("epsilon", "count"), [(0.24, 0), (0.25, 1), (0.5, 2), (0.9, 3), (1e15, 4 * 10**15)])
def test_count_of_pure_releases(epsilon: float, count: int) -> None:
    assert cm.max_count(cm.PureDP(epsilon=0.25), epsilon=epsilon * (1 + 1e-12), delta=0.0) >= count
    assert cm.max_count(cm.PureDP(epsilon=0.25), epsilon=epsilon * (1 - 1e-12), delta=0.0) <= count


@pytest.mark.parametrize(("spent", "count"), [(0.0, 8), (0.5, 6), (1.75, 1), (1.9, 0), (2.0, 0)])
def test_what_was_spent_counts(spent: float, count: int) -> None:
    """Pure DP at δ = 0 adds up."""
    before = cm.PureDP(epsilon=spent)
    assert cm.max_count(cm.PureDP(epsilon=0.25), spent=before, epsilon=2 + 1e-9, delta=0.0) == count


def test_nothing_is_left() -> None:
    step = cm.PureDP(epsilon=0.25)
    with pytest.raises(cm.BudgetExceeded, match=r"what was spent costs epsilon=2\.5 already"):
        cm.max_count(step, spent=step * 10, epsilon=2.0, delta=0.0)
    with pytest.raises(cm.InvalidParameter, match="spent must be a cumulant mechanism"):
        cm.max_count(step, spent="nothing", epsilon=2.0, delta=0.0)  # type: ignore[arg-type]


def test_an_accountant_says_what_was_spent() -> None:
    step, accountant = cm.PureDP(epsilon=0.25), cm.Accountant()
    accountant.compose(step, count=3)
    assert cm.max_count(step, spent=accountant, epsilon=2.0, delta=0.0) == 5


@pytest.mark.parametrize("most", [1, 2, 3, 1000])
@pytest.mark.parametrize("fits", [0, 1, 2, 7, 999, 1000])
def test_whole_numbers_up_to_the_most(most: int, fits: int) -> None:
    answer = max_whole(lambda n: cm.PureDP(epsilon=float(n)), most=most, epsilon=fits + 0.5, delta=0.0)
    assert answer == min(most, fits)


# What cannot be met ---------------------------------------------------------------------------------------------------


def test_a_budget_that_nothing_meets() -> None:
    expensive = cm.Gaussian(noise_multiplier=0.1)
    with pytest.raises(cm.InvalidParameter, match=r"no parameter up to .* costs more than the budget"):
        cm.calibrate(lambda scale: cm.Laplace(scale=scale) + expensive, epsilon=0.1, delta=1e-5)
    with pytest.raises(cm.InvalidParameter, match=r"no parameter up to .* no finite epsilon is proven"):
        cm.calibrate(lambda sigma: cm.Gaussian(noise_multiplier=sigma), epsilon=1.0, delta=0.0)
    assert cm.max_count(expensive, epsilon=0.1, delta=1e-5) == 0


def test_a_budget_that_everything_meets() -> None:
    with pytest.raises(cm.InvalidParameter, match="nothing to search"):
        cm.calibrate(lambda sigma: cm.Gaussian(noise_multiplier=sigma), epsilon=1.0, delta=1.0)


def test_a_step_that_costs_nothing() -> None:
    with pytest.raises(cm.InvalidParameter, match="must cost something"):
        cm.max_count(cm.Gaussian(noise_multiplier=1.0).poisson(rate=0.0), epsilon=1.0, delta=1e-5)


@pytest.mark.parametrize("epsilon", [math.nan, -1.0, math.inf])
def test_bad_budgets(epsilon: float) -> None:
    with pytest.raises(cm.InvalidParameter, match="epsilon"):
        cm.max_count(cm.Laplace(scale=1.0), epsilon=epsilon, delta=1e-5)
    with pytest.raises(cm.InvalidParameter, match="epsilon"):
        cm.calibrate(lambda scale: cm.Laplace(scale=scale), epsilon=epsilon, delta=1e-5)
    with pytest.raises(cm.InvalidParameter, match="epsilon"):
        cm.max_rate(lambda rate: cm.Laplace(scale=1.0).poisson(rate=rate), epsilon=epsilon, delta=1e-5)


# Attack risk ----------------------------------------------------------------------------------------------------------


def test_noise_for_an_advantage_is_the_closed_form() -> None:
    """Of a Gaussian of mean μ the total variation is 2Φ(μ/2) - 1."""
    from scipy.stats import norm

    for advantage in (0.01, 0.1, 0.5, 0.99):
        exact = 1 / (2 * norm.ppf((1 + advantage) / 2))
        found = cm.calibrate(lambda s: cm.Gaussian(noise_multiplier=s), advantage=advantage)
        assert exact * (1 - 1e-12) <= found <= exact * (1 + 1e-8)


def test_noise_for_a_power_is_the_closed_form() -> None:
    """Of a Gaussian of mean μ the best test of level α has power Φ(Φ⁻¹(α) + μ)."""
    from scipy.stats import norm

    for level, power in ((0.01, 0.02), (0.01, 0.5), (0.1, 0.9)):
        exact = 1 / (norm.ppf(power) - norm.ppf(level))
        found = cm.calibrate(
            lambda s: cm.Gaussian(noise_multiplier=s), true_positive_rate=power, false_positive_rate=level
        )
        assert exact * (1 - 1e-9) <= found <= exact * (1 + 1e-6)


@pytest.mark.parametrize(
    ("budget", "said"),
    [
        ({}, "give one budget"),
        ({"epsilon": 1.0, "delta": 1e-5, "advantage": 0.1}, "give one budget"),
        ({"advantage": 0.1, "false_positive_rate": 0.1}, "give one budget"),
        ({"advantage": 0.0}, "advantage must be above 0"),
        ({"advantage": 1.0}, "advantage must be above 0"),
        ({"true_positive_rate": 0.1}, "false_positive_rate must be"),
        ({"true_positive_rate": 0.01, "false_positive_rate": 0.01}, "which guessing has"),
        ({"true_positive_rate": 1.0, "false_positive_rate": 0.01}, "below 1"),
        ({"epsilon": 1.0}, "give either delta or log_delta"),
    ],
)
def test_a_budget_is_one_thing(budget: dict[str, Any], said: str) -> None:
    with pytest.raises(cm.InvalidParameter, match=said):
        cm.calibrate(lambda s: cm.Gaussian(noise_multiplier=s), **budget)


def test_what_no_noise_hides_is_out_of_a_budget_of_attacks() -> None:
    with pytest.raises(cm.InvalidParameter, match=r"no parameter up to 2\^100 meets advantage=0\.1"):
        cm.calibrate(lambda s: cm.Gaussian(noise_multiplier=s) + cm.PureDP(epsilon=3.0), advantage=0.1)


@pytest.mark.parametrize(("std", "sensitivity"), [(3.0, 2.0), (1.0, 3.0), (0.1, 0.3), (1e300, 1e-5), (1e-5, 7.0)])
def test_noise_in_the_unit_of_the_query_is_rounded_down(std: float, sensitivity: float) -> None:
    exact = Fraction(std) / Fraction(sensitivity)
    for found in (
        cm.Gaussian.of(std=std, sensitivity=sensitivity).noise_multiplier,
        cm.Laplace.of(scale=std, sensitivity=sensitivity).scale,
    ):
        assert Fraction(found) <= exact < Fraction(math.nextafter(found, math.inf))


@pytest.mark.parametrize(("std", "sensitivity"), [(0.0, 1.0), (1.0, 0.0), (1.0, -1.0), (1e308, 1e-10), (1e-300, 1e300)])
def test_noise_that_no_double_holds_is_refused(std: float, sensitivity: float) -> None:
    with pytest.raises(cm.InvalidParameter):
        cm.Gaussian.of(std=std, sensitivity=sensitivity)
