"""Pure DP beyond the lines: the lemma against enumeration, exact sums, and what an account then admits."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from fractions import Fraction
from itertools import product
from typing import Any

import mpmath
import numpy as np
import pytest

import cumulant as cm
from cumulant.ledger import Stage
from cumulant.ledger.allocation import Block, Taken, units_of, unused
from cumulant.ledger.declaration import Declaration, declare
from cumulant.ledger.lines import FailureReserve, GaussianReserve, Lines, PureBeyond, RenyiReserve
from cumulant.ledger.pure import PureSum, pure_cost, stated
from cumulant.mechanisms.base import AbstractMechanism

STEP = cm.Gaussian(noise_multiplier=1.0).poisson(rate=0.01)
Law = tuple[tuple[float, float], ...]  # (p, q) of each output


# The lemma, by enumeration --------------------------------------------------------------------------------------------


def table(draw: np.random.Generator) -> Law:
    size = int(draw.integers(2, 4))
    p, q = draw.dirichlet(np.full(size, 0.6)), draw.dirichlet(np.full(size, 0.6))
    return tuple(zip(p.tolist(), q.tolist(), strict=True))


def without_an_output(law: Law) -> Law:
    """One that is not pure: under the second neighbour its first output never comes."""
    (p, _), *rest = law
    whole = sum(q for _, q in rest)
    return (p, 0.0), *((a, b / whole) for a, b in rest)


def swapped(law: Law) -> Law:
    return tuple((q, p) for p, q in law)


def pure_of(law: Law) -> float:
    return max(abs(math.log(p / q)) if p > 0 and q > 0 else math.inf for p, q in law)


def hockey_stick(laws: list[Law], ratio: float) -> float:
    """H of a product, by enumeration."""
    return sum(
        max(math.prod(p for p, _ in outputs) - ratio * math.prod(q for _, q in outputs), 0.0)
        for outputs in product(*laws)
    )


def worst_of_policies(laws: list[Law], slots: list[int], pure: list[float], epsilon: float, ratio: float) -> float:
    """Sup P(S) - λQ(S) over all that a policy may choose by looking; holds may be made and given back meanwhile.

    A state is what was released, and what is held beside it; an account admits what leaves it within its slots, or
    pure and within ε.
    """
    allowed = {}

    def admits(counts: tuple[int, ...]) -> bool:
        if counts not in allowed:
            within = all(n <= most for n, most in zip(counts, slots, strict=True))
            sums = sum(n * e for n, e in zip(counts, pure, strict=True) if n)
            allowed[counts] = within or sums <= epsilon
        return allowed[counts]

    def best(counts: tuple[int, ...], held: int | None, p: float, q: float, rounds: int) -> float:
        value = max(p - ratio * q, 0.0)
        if rounds == 0:
            return value
        for kind, law in enumerate(laws):
            more = tuple(n + (place == kind) for place, n in enumerate(counts))
            standing = more if held is None else tuple(n + (place == held) for place, n in enumerate(more))
            if not admits(standing):
                continue
            value = max(value, sum(best(more, held, p * x, q * y, rounds - 1) for x, y in law))
            if held is None and rounds > 2:  # held, and perhaps given back after the next release
                value = max(value, best(counts, kind, p, q, rounds - 1))
        if held is not None:
            value = max(value, best(counts, None, p, q, rounds - 1))
        return value

    return best((0,) * len(laws), None, 1.0, 1.0, 4)


def test_slots_or_pure_dp_on_thousands_of_tiny_accounts() -> None:
    """Slots that anything may overdraw, which is more than the ledger admits; tables that are pure and others."""
    draw = np.random.default_rng(27)
    attained = beyond = 0
    for _ in range(1500):
        laws = [table(draw), table(draw)]
        if draw.random() < 0.3:
            laws[1] = without_an_output(laws[1])
        slots, pure = draw.integers(0, 3, 2).tolist(), [pure_of(law) for law in laws]
        epsilon = float(draw.uniform(0.8, 2.2)) * min(e for e in pure if e < math.inf)
        for other in (0.0, 0.3):  # at the budget, and what is promised at a larger ε
            ratio = math.exp(epsilon + other)
            for seen in (laws, [swapped(law) for law in laws]):
                declared = [law for law, n in zip(seen, slots, strict=True) for _ in range(n)]
                price = hockey_stick(declared, ratio)
                worst = worst_of_policies(seen, slots, pure, epsilon, ratio)
                assert worst <= price + 1e-12
                attained += price > 0 and worst >= price - 1e-12
                beyond += worst > 0
    assert attained > 1000  # so the enumeration reaches what is promised


def test_what_is_promised_at_a_smaller_epsilon() -> None:
    """What follows from (ε, δ): tables that are pure and within ε, and a slot that fails."""
    draw, over = np.random.default_rng(28), 0
    for _ in range(300):
        laws = [table(draw), without_an_output(table(draw))]
        pure = [pure_of(law) for law in laws]
        epsilon = float(draw.uniform(1.0, 2.2)) * pure[0]
        smaller = epsilon * float(draw.uniform(0.0, 1.0))
        delta = max(hockey_stick([law], math.exp(epsilon)) for law in (laws[1], swapped(laws[1])))
        more = (math.exp(epsilon) - math.exp(smaller)) / (1 + math.exp(epsilon))
        for seen in (laws, [swapped(law) for law in laws]):
            worst = worst_of_policies(seen, [0, 1], pure, epsilon, math.exp(smaller))
            assert worst <= delta + (1 - delta) * more + 1e-12
            alone = hockey_stick([seen[1]], math.exp(smaller))
            over += worst > alone + 1e-9
    assert over > 100  # so what the slot alone would promise does not hold there


def test_a_sum_of_pure_budgets_beside_a_failure_would_be_too_much() -> None:
    """Two rules that both spend δ need the sum of them: the larger of the two is exceeded."""
    fails: Law = ((0.1, 0.0), (0.9, 0.9), (0.0, 0.1))
    other: Law = ((0.1, 0.0), (0.9, 0.9), (0.0, 0.1))
    once = hockey_stick([fails], 1.0)
    both = hockey_stick([fails, other], 1.0)
    assert both > once  # an account that admits by one rule or by the other admits both


# The code that admits, by enumeration ---------------------------------------------------------------------------------


def law_of(release: AbstractMechanism) -> Law:
    """The worst pair of a class."""
    assert isinstance(release, cm.PureDP | cm.ApproximateDP)
    failure = release.failure if isinstance(release, cm.ApproximateDP) else 0.0
    p = (1 - failure) / (1 + math.exp(-release.bound))
    coin = ((p, 1 - failure - p), (1 - failure - p, p))
    return (*coin, (failure, 0.0), (0.0, failure)) if failure else coin


def price_at(lines: Lines, epsilon: float) -> float:
    """δ of a Gaussian reserve beside a failure, by formulas written down here."""
    delta = failure = 0.0
    for line in lines:
        if isinstance(line, GaussianReserve):
            mean = mpmath.mpf(1) / line.noise_multiplier
            a = mean / 2 - epsilon / mean
            delta = float(mpmath.ncdf(a) - mpmath.exp(epsilon) * mpmath.ncdf(a - mean))
        if isinstance(line, FailureReserve):
            failure = line.delta
    return failure + (1 - failure) * delta


class Policies:
    """Every policy against `allocate`: spend, or hold, and settle with nothing."""

    def __init__(self, lines: Lines, menu: list[AbstractMechanism], ratio: float) -> None:
        self.lines, self.menu, self.ratio = lines, menu, ratio
        self.laws = [law_of(release) for release in menu]
        self.seen: dict[Any, Any] = {}
        self.beyond = 0

    def after(self, spent: tuple[int, ...], standing: tuple[int, ...], kind: int) -> Any:
        """What is spent once a release was charged, and how; None if it is refused."""
        if (spent, standing, kind) not in self.seen:
            there = list(zip(self.menu, standing, strict=True))
            try:
                taken = Block(self.lines, spent, 0, lambda: there).allocate(self.menu[kind])
            except (cm.BudgetExceeded, cm.UnprovenCombination):
                taken = None
            total = None if taken is None else tuple(map(sum, zip(spent, units_of(taken, self.lines), strict=True)))
            self.beyond += total is not None and total[-1] > 0
            self.seen[spent, standing, kind] = total, taken
        return self.seen[spent, standing, kind]

    def best(self, state: Any, p: float, q: float, rounds: int) -> float:
        """Sup P(S) - λQ(S) from a state on: units, releases that stand, and what may be given back."""
        spent, standing, held = state
        value = max(p - self.ratio * q, 0.0)
        if rounds == 0:
            return value
        for kind, law in enumerate(self.laws):
            total, taken = self.after(spent, standing, kind)
            if total is None:
                continue
            more = tuple(n + (place == kind) for place, n in enumerate(standing))
            value = max(value, sum(self.best((total, more, held), p * x, q * y, rounds - 1) for x, y in law))
            if held is None and rounds > 2:
                value = max(value, self.best((total, more, (kind, taken)), p, q, rounds - 1))
        if held is not None:
            kind, taken = held
            back = units_of(unused(taken, [0]), self.lines)
            total = tuple(a - b for a, b in zip(spent, back, strict=True))
            less = tuple(n - (place == kind) for place, n in enumerate(standing))
            value = max(value, self.best((total, less, None), p, q, rounds - 1))
        return value


def test_what_an_account_admits_on_tiny_accounts() -> None:
    """Reserves of every size beside pure coins and coins that fail, with holds; none is over its promise."""
    draw = np.random.default_rng(29)
    beyond = worst_share = 0.0
    for _ in range(120):
        epsilon = round(float(draw.uniform(0.3, 2.0)), 3)
        lines: Lines = (
            GaussianReserve(stage=0, noise_multiplier=round(float(draw.uniform(0.7, 4.0)), 3)),
            FailureReserve(stage=0, delta=round(float(draw.uniform(0.001, 0.2)), 4)),
            PureBeyond(stage=0, epsilon=epsilon),
        )
        small, large = sorted(round(epsilon * float(x), 4) for x in draw.uniform(0.2, 1.0, 2))
        failing = cm.ApproximateDP(epsilon=small, delta=lines[1].delta / 2)  # type: ignore[attr-defined]
        menu = [cm.PureDP(epsilon=small), cm.PureDP(epsilon=large), failing]
        for other in (epsilon, 1.2 * epsilon):
            policies = Policies(lines, menu, math.exp(other))
            worst = policies.best(((0, 0, 0), (0, 0, 0), None), 1.0, 1.0, 4)
            promised = price_at(lines, other)
            assert worst <= promised + 1e-12
            beyond += policies.beyond > 0
            worst_share = max(worst_share, worst / promised)
    assert beyond > 100
    assert worst_share > 0.5


# Sums -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("release", "count"),
    [
        *((cm.Laplace(scale=float(scale)), scale) for scale in (1, 2, 3, 5, 7, 10, 20, 49, 100, 997, 12345)),
        (cm.Laplace(scale=2.5), Fraction(5, 2)),
        (cm.LaplaceVector(scale=5.0), 5),
        (cm.Laplace(scale=2.2), Fraction(22, 10)),
        (cm.Laplace(scale=3.3), Fraction(3.3)),  # its double is the smaller one
        (cm.PureDP(epsilon=0.1), 10),
        (cm.PureDP(epsilon=0.07), Fraction(100, 7)),
        (cm.ApproximateDP(epsilon=0.05, delta=0.0), 20),
    ],
    ids=str,
)
def test_what_is_stated_adds_up_exactly(release: AbstractMechanism, count: Fraction | int) -> None:
    assert pure_cost(release) == 1 / Fraction(count)
    for delta in (0.0, 1e-9):
        account = opened_at(delta)
        spent, most = (0,) * len(account.lines), math.floor(count)
        assert Block(account.lines, spent, 0, tuple).most_that_fit(release) >= most
        if delta == 0:
            assert Block(account.lines, spent, 0, tuple).most_that_fit(release) == most


def test_what_is_computed_is_rounded_up() -> None:
    with mpmath.workdps(40):
        for p in (0.6, 0.75, 0.9):
            cost, truth = pure_cost(cm.RandomizedResponse(p=p)), mpmath.log(mpmath.mpf(p) / (1 - mpmath.mpf(p)))
            assert cost is not None
            assert truth <= mpmath.mpf(cost.numerator) / cost.denominator <= truth * (1 + 1e-11)
        for scale, rate in ((5.0, 0.1), (0.5, 0.3)):
            cost = pure_cost(cm.Laplace(scale=scale).poisson(rate=rate))
            truth = mpmath.log1p(mpmath.mpf(rate) * mpmath.expm1(1 / mpmath.mpf(scale)))
            assert cost is not None
            assert truth <= mpmath.mpf(cost.numerator) / cost.denominator <= truth * (1 + 1e-11)
    assert stated(1 / 3) == Fraction(1 / 3)


def test_a_table_is_not_charged_less_than_its_largest_ratio() -> None:
    """Also where both laws are nearly the same, and the logarithm of a ratio has few digits."""
    for seed in range(200):
        draw = np.random.default_rng(seed)
        p = draw.dirichlet(np.ones(4))
        q = p * (1 + draw.uniform(-1, 1, 4) * 10.0 ** draw.uniform(-9, 0))
        pair = cm.StatedPair(probabilities=tuple(p), neighbor_probabilities=tuple(q / q.sum()))
        assert pair.neighbor_probabilities is not None
        with mpmath.workdps(40):
            ratios = [mpmath.mpf(a) / b for a, b in zip(pair.probabilities, pair.neighbor_probabilities, strict=True)]
            truth = max(abs(mpmath.log(ratio)) for ratio in ratios)
            cost = pure_cost(pair)
            assert cost is not None
            assert truth <= mpmath.mpf(cost.numerator) / cost.denominator <= truth * (1 + 1e-12) + 1e-12


@pytest.mark.parametrize(
    "release",
    [
        cm.Gaussian(noise_multiplier=9.0),
        STEP,
        cm.ZCDP(rho=0.1),
        cm.RenyiCurve([(2, 0.1)]),
        cm.ApproximateDP(epsilon=0.1, delta=1e-12),
        cm.StatedPair(probabilities=(0.5, 0.5, 0.0), neighbor_probabilities=(0.5, 0.4, 0.1)),
    ],
    ids=str,
)
def test_what_is_not_pure_has_no_sum(release: AbstractMechanism) -> None:
    assert pure_cost(release) is None
    assert PureSum([(release, 1)]).total() is None
    assert PureSum([(release, 0)]).total() == 0


def test_a_sum_next_to_its_budget_is_compared_exactly() -> None:
    """Thousands of scales that have nothing in common, and one that ends exactly at 1, or just beyond."""
    draw = np.random.default_rng(30)
    scales = [round(float(x), 9) for x in draw.uniform(9000.0, 10000.0, 3000)]
    total = PureSum((cm.Laplace(scale=scale), 1) for scale in scales)
    costs = [1 / min(Fraction(repr(scale)), Fraction(scale)) for scale in scales]
    whole, summed = sum(costs, Fraction(0)), total.total()
    assert summed is not None
    assert summed - whole == 0
    assert total.is_within(whole)
    assert not total.is_within(whole - Fraction(1, 10**200))
    total.add(cm.Laplace(scale=scales[0]), -1)
    assert total.is_within(whole - costs[0])
    assert not total.is_within(whole - costs[0] - Fraction(1, 10**200))


# Accounts -------------------------------------------------------------------------------------------------------------


def opened_at(delta: float, **changes: Any) -> Declaration:
    whole: dict[str, Any] = {"neighbors": cm.ADD_REMOVE, "unit": "u", "stages": [Stage()], "reserve": None}
    return declare(**{**whole, "epsilon": 1.0, "delta": delta, "failure": 0.0, "renyi": None, **changes})


TABLE = {  # docs/ledger.md prints it; measured, but for the columns of basic composition
    0.0: (2, 5, 10, 20, 50, 100),
    1e-9: (2, 5, 10, 20, 53, 211),
    1e-6: (2, 5, 10, 20, 90, 358),
    1e-4: (2, 5, 10, 25, 158, 630),
}
SCALES = (2.0, 5.0, 10.0, 20.0, 50.0, 100.0)


@pytest.mark.parametrize("delta", TABLE)
def test_never_fewer_than_basic_composition(delta: float) -> None:
    account = opened_at(delta)
    fits = [
        Block(account.lines, (0,) * len(account.lines), 0, tuple).most_that_fit(cm.Laplace(scale=scale))
        for scale in SCALES
    ]
    assert all(n >= scale for n, scale in zip(fits, SCALES, strict=True))
    assert tuple(fits) == TABLE[delta]
    assert account.price() == 1.0


@pytest.fixture
def ledger(address: str) -> Iterator[cm.Ledger]:
    with cm.Ledger(address) as ledger:
        yield ledger


def open_account(ledger: cm.Ledger, **changes: Any) -> None:
    whole: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6, "neighbors": cm.ADD_REMOVE, "unit": "one customer"}
    ledger.open("a", **{**whole, **changes})


def test_one_count_after_another(ledger: cm.Ledger) -> None:
    """Twenty of scale 20, one by one, and then nothing at all; what is promised stays."""
    open_account(ledger)
    for place in range(20):
        assert ledger.status("a").fits(cm.Laplace(scale=20.0)) == 20 - place
        ledger.spend("a", cm.Laplace(scale=20.0))
    with pytest.raises(cm.BudgetExceeded, match="0 of this release would fit"):
        ledger.spend("a", cm.Laplace(scale=1e9))
    status = ledger.status("a")
    assert status.price == 1.0
    assert status.shares_left() == (0.0, 0.0)
    assert status.left()[1] == "0 % of epsilon for pure DP (0 of 1)"
    assert (cm.Laplace(scale=20.0) * 20).epsilon(delta=0.0) <= status.price * (1 + 1e-15)
    assert ledger.verify().warnings == ()


def test_no_basic_sum_is_refused(ledger: cm.Ledger) -> None:
    """Pure releases of all kinds and sizes, up to 1 in all, in the order in which they come."""
    open_account(ledger, delta=1e-9)
    menu = [cm.Laplace(scale=8.0), cm.PureDP(epsilon=0.125), cm.Laplace(scale=4.0), cm.PureDP(epsilon=0.25)]
    for release in (menu[0], menu[2], menu[1], menu[3], menu[0], menu[1]):
        ledger.spend("a", release)
    with pytest.raises(cm.BudgetExceeded):
        ledger.spend("a", cm.PureDP(epsilon=1e-6))
    ledger.verify()


def test_after_something_else_only_the_lines_are_left(ledger: cm.Ledger) -> None:
    open_account(ledger)
    ledger.spend("a", cm.Gaussian(noise_multiplier=100.0))
    assert ledger.status("a").fits(cm.Laplace(scale=20.0)) == 14
    with pytest.raises(cm.BudgetExceeded, match="beside releases or slots that are not pure DP nothing goes beyond"):
        ledger.spend("a", cm.Laplace(scale=20.0) * 15)


def test_beyond_the_lines_everything_is_pure(ledger: cm.Ledger) -> None:
    open_account(ledger)
    assert ledger.status("a").fits(cm.Gaussian(noise_multiplier=100.0)) == 560
    ledger.spend("a", cm.Laplace(scale=5.0))
    assert ledger.status("a").fits(cm.Gaussian(noise_multiplier=1e6)) == 0
    with pytest.raises(cm.BudgetExceeded, match=r"pure DP went beyond the lines.*this one is not pure DP"):
        ledger.spend("a", cm.Gaussian(noise_multiplier=1e6))
    assert "pure DP went beyond it" in ledger.status("a").left()[0]
    assert ledger.status("a").fits(cm.Laplace(scale=5.0)) == 4


def test_what_is_settled_returns_and_the_lines_open_again(ledger: cm.Ledger) -> None:
    open_account(ledger)
    count = cm.Laplace(scale=20.0)
    hold = ledger.reserve("a", count * 20)
    assert ledger.status("a").fits(cm.Gaussian(noise_multiplier=1e6)) == 0
    assert ledger.status("a").fits(count) == 0
    hold.started()
    hold.settle(used=count * 14)  # what went beyond the lines goes back first
    assert ledger.status("a").fits(count) == 6
    assert ledger.status("a").fits(cm.Gaussian(noise_multiplier=1e6)) > 0
    ledger.reserve("a", count * 6).cancel()
    ledger.spend("a", cm.Gaussian(noise_multiplier=1e6))
    assert ledger.status("a").fits(count) == 0
    ledger.verify()


def test_a_hold_that_is_not_pure_keeps_pure_dp_within_the_lines_while_it_stands(ledger: cm.Ledger) -> None:
    open_account(ledger)
    count = cm.Laplace(scale=20.0)
    hold = ledger.reserve("a", cm.Gaussian(noise_multiplier=100.0))
    assert ledger.status("a").fits(count) == 14
    hold.cancel()
    assert ledger.status("a").fits(count) == 20


def test_each_block_has_its_own_sum(ledger: cm.Ledger) -> None:
    open_account(ledger, blocks=["x", "y"])
    count = cm.Laplace(scale=20.0)
    ledger.spend("a", count * 20, blocks=["x"])
    ledger.spend("a", cm.Gaussian(noise_multiplier=100.0), blocks=["y"])
    status = ledger.status("a")
    assert (status.fits(count, block="x"), status.fits(count, block="y"), status.fits(count)) == (0, 14, 0)
    with pytest.raises(cm.BudgetExceeded, match="in block 'x'"):
        ledger.spend("a", count)
    ledger.add_blocks("a", ["z"])
    assert ledger.status("a").fits(count, block="z") == 20
    ledger.verify()


def test_pure_dp_goes_beyond_in_the_last_stage_only(ledger: cm.Ledger) -> None:
    """What is claimed at the end of an earlier stage is the price of its lines."""
    open_account(ledger, stages=[Stage(reserve=0.01), Stage()])
    first, last = ledger.status("a").claims
    assert first < 0.5
    assert last == 1.0
    count = cm.Laplace(scale=20.0)
    assert ledger.status("a").fits(count) == 2
    ledger.spend("a", count * 2)
    ledger.advance("a")
    assert ledger.status("a").fits(count) == 18
    ledger.spend("a", count * 18)
    ledger.verify()


def test_slots_are_kept(ledger: cm.Ledger) -> None:
    """Pure DP beyond the lines would close them: not before slots were used, unless they are pure and fit beside."""
    open_account(ledger, epsilon=3.0, plan=STEP * 100)
    with pytest.raises(cm.BudgetExceeded, match="beside releases or slots that are not pure DP"):
        ledger.spend("a", cm.PureDP(epsilon=2.9))
    assert ledger.status("a").fits(STEP) >= 100

    account = opened_at(1e-9, stages=[Stage(plan=cm.Laplace(scale=4.0) * 2)])
    spent = (0,) * len(account.lines)
    assert Block(account.lines, spent, 0, tuple).most_that_fit(cm.PureDP(epsilon=0.5)) == 1
    assert Block(account.lines, spent, 0, tuple).most_that_fit(cm.Laplace(scale=4.0)) == 4


def test_at_delta_zero_a_plan_may_take_all_of_it(ledger: cm.Ledger) -> None:
    open_account(ledger, delta=0.0, plan=cm.Laplace(scale=5.0) * 5)
    assert ledger.status("a").price == 1.0
    assert ledger.status("a").fits(cm.Laplace(scale=5.0)) == 5
    ledger.spend("a", cm.Laplace(scale=10.0) * 5)  # in slots that were declared for less noise
    assert ledger.status("a").fits(cm.Laplace(scale=10.0)) == 5
    with pytest.raises(cm.BudgetExceeded):
        ledger.spend("a", cm.Laplace(scale=10.0) * 6)


def test_a_reserve_that_is_stated_is_all_there_is() -> None:
    """Then the price is that of what is declared, and may lie below the budget: nothing goes beyond."""
    account = opened_at(1e-6, reserve=0.01)
    assert account.price() < 0.5
    assert not [line for line in account.lines if isinstance(line, PureBeyond)]


def test_the_promise_at_another_epsilon() -> None:
    account = opened_at(1e-6)
    lines = account.priced()
    assert account.promised_delta(epsilon=1.0) == lines.delta(epsilon=1.0) <= 1e-6
    assert account.promised_delta(epsilon=1.5) == lines.delta(epsilon=1.5)
    for epsilon in (0.0, 0.5, 0.999):
        with mpmath.workdps(30):
            delta = mpmath.mpf(lines.delta(epsilon=1.0))
            least = delta + (1 - delta) * (mpmath.e - mpmath.exp(epsilon)) / (1 + mpmath.e)
        assert least * (1 - 1e-15) <= account.promised_delta(epsilon=epsilon) <= least * (1 + 1e-12)
    assert (cm.Laplace(scale=20.0) * 20).delta(epsilon=0.5) <= account.promised_delta(epsilon=0.5)


def test_a_declaration_with_pure_dp_beyond_is_written_and_read() -> None:
    from cumulant.ledger.declaration import declaration_from_dict

    for account in (opened_at(1e-6), opened_at(0.0), opened_at(1e-6, renyi=(math.inf, 0.1))):
        assert declaration_from_dict(json.loads(json.dumps(account.to_dict()))) == account
    assert [type(line) for line in opened_at(0.0, renyi=(math.inf, 0.1)).lines] == [RenyiReserve, PureBeyond]


def test_without_knowing_what_is_standing_nothing_goes_beyond() -> None:
    account = opened_at(1e-9)
    with pytest.raises(cm.BudgetExceeded):
        Block(account.lines, (0, 0), 0).allocate(cm.Laplace(scale=5.0))
    taken = Block(account.lines, (0, 0), 0, tuple).allocate(cm.Laplace(scale=5.0))
    assert taken == (Taken(0, 1, ((1, 1),)),)
