"""Tables of probabilities against exact fractions: doubles are taken as the numbers they are.

Sums of (p - tq)_+ are fractions where t is one (ε = 0), else balls. Truth and answer are compared without a tolerance.
`CUMULANT_SLOW=1` draws five times as many tables.
"""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from flint import arb
from mpmath import mp, mpf

import cumulant as cm
from cumulant.mechanisms.base import AbstractMechanism
from cumulant.neighbors import Neighbors
from cumulant.pairs.atoms import Atoms, Binary, Reversed, Sampled
from cumulant.pairs.atoms import Table as TableAtoms
from cumulant.pairs.maps import Join, Leave
from high_precision import Direction, Row, Table, ball, binary, delta, hockey, joining, leaving, precision, symmetrised
from strategies import SLOW

ON_GRID = round(0.3 * 2**53) / 2**53  # 1 - c and c + 2^-k are doubles, too
MANY = 5 if SLOW else 1
BASES = [0.3125, 0.5, 2.0**-20, ON_GRID]


def nearby(c: float, k: int) -> Table:
    p, q = Fraction(c) + Fraction(1, 2**k), Fraction(c)
    return Table(((p, q), (1 - p, 1 - q)))


def stated(table: Table, relation: Neighbors | None = None) -> cm.StatedPair:
    p, q = ([float(x) for x in column] for column in zip(*table.rows, strict=True))
    assert [Fraction(x) for x in p + q] == [x for column in zip(*table.rows, strict=True) for x in column]
    return cm.StatedPair(probabilities=tuple(p), neighbor_probabilities=tuple(q), relation=relation)


def powers(rows: tuple[Row, ...], count: int) -> list[Row]:
    """Return the rows of independent copies, each kind of sequence once, with its multiplicity."""
    sums: dict[tuple[int, ...], int] = {}
    for choice in product(range(len(rows)), repeat=count):
        kind = tuple(sorted(choice))
        sums[kind] = sums.get(kind, 0) + 1
    return [
        (many * math.prod(rows[i][0] for i in kind), many * math.prod(rows[i][1] for i in kind))
        for kind, many in sums.items()
    ]


def assert_inside(interval: cm.Interval, truth: Fraction) -> None:
    assert interval.certified
    assert Fraction(interval.lower) <= truth <= Fraction(interval.upper)


# Nearby probabilities -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("c", BASES)
@pytest.mark.parametrize("k", range(10, 51, 4 if SLOW else 8))
def test_the_difference_of_nearby_probabilities_is_not_lost(c: float, k: int) -> None:
    """δ(0) of (c + 2^-k, 1 - c - 2^-k) against (c, 1 - c) is 2^-k."""
    for relation in (None, cm.ADD_REMOVE, cm.REPLACE_ONE):
        pair = stated(nearby(c, k), relation)
        assert_inside(pair.delta_interval(epsilon=0.0), Fraction(1, 2**k))
        assert Fraction(pair.delta(epsilon=0.0)) >= Fraction(1, 2**k)
        assert pair.log_delta(epsilon=0.0) >= -k * math.log(2) * (1 + 2**-50)


@pytest.mark.parametrize("c", BASES)
@pytest.mark.parametrize("k", range(10, 51, 8 if SLOW else 20))
@pytest.mark.parametrize("count", [2, 3, 6])
def test_composed_differences_are_not_lost(c: float, k: int, count: int) -> None:
    table = nearby(c, k)
    truth = hockey(powers(table.rows, count), 1)
    run = stated(table, cm.ADD_REMOVE) * count
    assert_inside(run.delta_interval(epsilon=0.0), truth)
    assert Fraction(run.delta(epsilon=0.0)) >= truth
    any_order = stated(table, None) * count
    both = hockey(powers(symmetrised(table).rows, count), 1)
    assert Fraction(any_order.delta(epsilon=0.0)) >= both >= truth
    assert Fraction(any_order.delta_interval(epsilon=0.0).upper) >= both


@pytest.mark.parametrize("c", BASES)
@pytest.mark.parametrize("k", range(10, 51, 8 if SLOW else 20))
@pytest.mark.parametrize("rate", [0.5, 0.125, 2.0**-20, 1 - 2.0**-10])
def test_sampled_differences_are_not_lost(c: float, k: int, rate: float) -> None:
    table = nearby(c, k)
    for count in (1, 3):
        truth = hockey(powers(leaving(table, Fraction(rate)).rows, count), 1)
        run = stated(table).poisson(rate=rate) * count
        assert_inside(run.delta_interval(epsilon=0.0), truth)
        assert Fraction(run.delta(epsilon=0.0)) >= truth


@pytest.mark.parametrize("c", BASES)
@pytest.mark.parametrize("k", range(10, 51, 8 if SLOW else 20))
def test_nearby_probabilities_at_a_small_epsilon(c: float, k: int) -> None:
    """ε of half the loss of the likelier output: what is left is of the size of 2^-k as well."""
    table = nearby(c, k)
    epsilon = 2.0**-k / c / 2
    for count in (1, 4):
        orders: list[Direction] = [[(table, count)], [(table.reverse, count)]]
        check(stated(table, cm.ADD_REMOVE) * count, orders, [epsilon])


# Any table ------------------------------------------------------------------------------------------------------------


def check(run: AbstractMechanism, orders: list[Direction], epsilons: list[float], *, certified: bool = False) -> None:
    """Both questions at every ε, against the larger δ of the two orders."""
    for epsilon in epsilons:
        truth = max((delta(order, epsilon) for order in orders), key=float)
        answer, interval = run.delta(epsilon=epsilon), run.delta_interval(epsilon=epsilon)
        assert not truth > answer, f"{answer} is below {truth} at {epsilon} for {run}"
        assert not truth > interval.upper, f"{interval} is below {truth} at {epsilon} for {run}"
        assert interval.certified or not certified
        assert not (interval.certified and truth < interval.lower), f"{interval} is above {truth} at {epsilon} of {run}"


def check_epsilon(run: AbstractMechanism, orders: list[Direction], target: float) -> None:
    answer, interval = run.epsilon(delta=target), run.epsilon_interval(delta=target)
    for upper in {answer, interval.upper}:
        if upper < math.inf:
            truth = max((delta(order, upper) for order in orders), key=float)
            assert not truth > target, f"{upper} is below the truth: {truth} > {target} for {run}"
    if interval.certified and 0 < interval.lower < math.inf:
        truth = max((delta(order, interval.lower) for order in orders), key=float)
        assert not truth < target, f"{interval} is above the truth: {truth} < {target} for {run}"


def random_table(generator: np.random.Generator, outputs: int) -> Table:
    """Return large masses on a grid, which add up to 1, beside next to nothing: down to the smallest double."""
    columns = []
    for _ in range(2):
        tiny = [Fraction(float(generator.choice([0.0, 5e-324, 1e-310, 1e-300, 1e-100, 2.0**-200])))] * (outputs - 2)
        first = Fraction(int(generator.integers(0, 2**40, endpoint=True)), 2**40)
        columns.append([first, 1 - first, *tiny])
    generator.shuffle(columns[1])
    return Table(tuple((p, q) for p, q in zip(*columns, strict=True) if p or q))


@pytest.mark.parametrize("seed", range(8 * MANY))
def test_tables_with_next_to_nothing(seed: int) -> None:
    """A column may exceed 1 by next to nothing, that is, a large mass is as much too large; no more is certain."""
    generator = np.random.default_rng(seed)
    table = random_table(generator, int(generator.integers(2, 6)))
    for count in (1, 3):
        check_extremes(stated(table, cm.ADD_REMOVE) * count, powers(table.rows, count), [0.0, 1e-9, 0.5, 1000.0])


def check_extremes(run: AbstractMechanism, rows: list[Row], epsilons: list[float]) -> None:
    orders = [rows, [(q, p) for p, q in rows]]
    for epsilon in epsilons:
        answer, interval = run.delta(epsilon=epsilon), run.delta_interval(epsilon=epsilon)
        with precision(6000):
            t = arb(epsilon).exp()
            least = max((excess(order, t) - beyond(order, 0) for order in orders), key=lambda x: x.mid())
            most = max((excess(order, t) + t * beyond(order, 1) for order in orders), key=lambda x: x.mid())
            assert not least > arb(answer), f"{answer} is below the truth at {epsilon} for {run}"
            assert not least > arb(interval.upper), f"{interval} is below the truth at {epsilon} for {run}"
            inside = not interval.certified or not most < arb(interval.lower)
            assert inside, f"{interval} is above the truth at {epsilon} for {run}"


def beyond(rows: list[Row], column: int) -> Any:
    """Return by how much a column exceeds 1."""
    return ball(max(sum(row[column] for row in rows) - 1, Fraction(0)))


def excess(rows: list[Row], t: Any) -> Any:
    return sum((ball(p) - t * ball(q) for p, q in rows if ball(p) > t * ball(q)), arb(0))


@pytest.mark.parametrize("seed", range(5 * MANY))
def test_sampled_tables_with_next_to_nothing(seed: int) -> None:
    generator = np.random.default_rng(1000 + seed)
    table, rate = random_table(generator, 3), float(generator.choice([0.5, 2.0**-30, 1e-3, 1 - 2.0**-20]))
    for count in (1, 3):
        run = stated(table).poisson(rate=rate) * count
        check_extremes(run, powers(leaving(table, Fraction(rate)).rows, count), [0.0, 1e-9, 0.5])


@pytest.mark.parametrize("seed", range(6 * MANY))
def test_random_tables(seed: int) -> None:
    """Two to five outputs, masses on a grid of 2^-30; either relation, and sampled."""
    generator = np.random.default_rng(seed)
    outputs = int(generator.integers(2, 6))
    columns = []
    for _ in range(2):
        cuts = sorted(int(x) for x in generator.integers(0, 2**30, outputs - 1))
        columns.append([Fraction(b - a, 2**30) for a, b in zip([0, *cuts], [*cuts, 2**30], strict=True)])
    table, count = Table(tuple(zip(*columns, strict=True))), int(generator.integers(1, 5))
    fixed: list[Direction] = [[(table, count)], [(table.reverse, count)]]
    run = stated(table, cm.ADD_REMOVE) * count
    check(run, fixed, [0.0, 0.3, 2.0])
    check_epsilon(run, fixed, 1e-6)
    rate = float(generator.uniform(0.01, 0.99))
    sampled: list[Direction] = [[(order(table, Fraction(rate)), count)] for order in (leaving, joining)]
    run = stated(table).poisson(rate=rate) * count
    check(run, sampled, [0.0, 0.3, 2.0])
    check_epsilon(run, sampled, 1e-6)
    mixed: Direction = [(symmetrised(table), count)]
    run = stated(table) * count
    for epsilon in (0.0, 0.3, 2.0):
        truth = delta(mixed, epsilon)
        interval = run.delta_interval(epsilon=epsilon)
        assert not truth > run.delta(epsilon=epsilon)
        assert not truth > interval.upper
        assert not truth < interval.lower


# Large ε inside sampling ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bound", [1.0, 10.0, 100.0, 690.0, 708.0, 712.0, 744.0, 746.0, 800.0, 2000.0])
@pytest.mark.parametrize("failure", [0.0, 1e-3])
def test_sampled_guarantees_with_a_large_epsilon(bound: float, failure: float) -> None:
    """Nearly everything is revealed where the record is sampled, whatever e^ε does to doubles."""
    rate = 0.1
    with precision():
        table = binary(arb(bound).exp(), Fraction(failure))
        both = [leaving(table, Fraction(rate)), joining(table, Fraction(rate))]
    mechanism = cm.ApproximateDP(epsilon=bound, delta=failure) if failure else cm.PureDP(epsilon=bound)
    for count in (1, 5):
        run = mechanism.poisson(rate=rate) * count
        orders: list[Direction] = [[(law, count)] for law in both]
        check(run, orders, [0.0, 0.5, 10.0])
        check_epsilon(run, orders, 0.1)


# Pure DP --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(40 * MANY))
def test_pure_guarantees_add_up(seed: int) -> None:
    """At δ = 0 n releases cost n·ε: a product of fractions, which a double may only round up."""
    generator = np.random.default_rng(seed)
    bounds = [float(x) for x in np.exp(generator.uniform(-9, 5, 2))]
    counts = [int(x) for x in np.exp(generator.uniform(0, 12, 2))]
    for parts in (1, 2):
        run = cm.Composed.of((cm.PureDP(epsilon=e), n) for e, n in list(zip(bounds, counts, strict=True))[:parts])
        truth = sum(n * Fraction(e) for e, n in list(zip(bounds, counts, strict=True))[:parts])
        answer, interval = run.epsilon(delta=0.0), run.epsilon_interval(delta=0.0)
        assert Fraction(answer) >= truth
        assert Fraction(answer) <= truth * (1 + Fraction(1, 2**48))
        assert Fraction(interval.upper) >= truth
        assert Fraction(interval.lower) <= truth


@pytest.mark.parametrize("p", [0.5000001, 0.51, 0.6, 0.75, 0.9, 0.999, 1 - 1e-9])
@pytest.mark.parametrize("count", [1, 3, 1000])
def test_randomized_responses_add_up(p: float, count: int) -> None:
    with precision():
        truth = count * ball(Fraction(p) / (1 - Fraction(p))).log()
        run = cm.RandomizedResponse(p=p) * count
        assert not truth > arb(run.epsilon(delta=0.0))
        interval = run.epsilon_interval(delta=0.0)
        assert not truth > arb(interval.upper)
        assert not truth < arb(interval.lower)


# What is missing ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("missing", [1e-9, 1e-11, 1e-12, 4e-13, 1e-13, 2e-14])
def test_what_losses_leave_out_is_revealed(missing: float) -> None:
    """E[e^-L] = 1 - r: with probability r the other order shows an output that P does not have."""
    losses, probabilities = [math.log(2) + 4 * missing, -math.log(1.5)], [0.5, 0.5]
    check_revealed(losses, probabilities)


def check_revealed(losses: list[float], probabilities: list[float]) -> None:
    with precision():
        rest = 1 - sum((ball(p) * (-ball(x)).exp() for p, x in zip(probabilities, losses, strict=True)), arb(0))
        count = 10**6
        revealed = -(count * (-rest).log1p()).expm1()
    pair = cm.StatedPair.from_losses(losses=losses, probabilities=probabilities)
    run = pair * count
    assert not revealed > arb(run.delta(epsilon=1e6))
    assert run.epsilon(delta=float(revealed) / 2) == math.inf


@pytest.mark.parametrize("missing", [5e-10, 1e-11, 1e-13])
def test_what_a_table_leaves_out_is_not_forgotten(missing: float) -> None:
    """Refused, or at least what the table divided by its sum costs; revealed, it costs more."""
    p, q = (0.5, 0.5 - missing), (0.25, 0.75)
    try:
        run = cm.StatedPair(probabilities=p, neighbor_probabilities=q, relation=cm.ADD_REMOVE) * 20
    except cm.InvalidParameter:
        return
    total = sum(Fraction(x) for x in p)
    table = Table(tuple((Fraction(a) / total, Fraction(b)) for a, b in zip(p, q, strict=True)))
    for epsilon in (0.0, 1.0, 5.0):
        truth = max((delta([(order, 20)], epsilon) for order in (table, table.reverse)), key=float)
        assert not truth > run.delta(epsilon=epsilon)
        assert not truth > run.delta_interval(epsilon=epsilon).upper


# Masses under both distributions --------------------------------------------------------------------------------------


def exact_columns(pair: Atoms) -> list[tuple[Any, Any]]:
    """Return (p, q) of every output of a sampled answer to a bit, in many digits."""
    if isinstance(pair, Binary):
        common = 1 / (1 + mp.exp(-mpf(pair.epsilon)))
        rare = mp.exp(-mpf(pair.epsilon)) * common
        return [(rare, common), (common, rare)]
    if isinstance(pair, Reversed):
        return [(q, p) for p, q in exact_columns(pair.of)]
    assert isinstance(pair, Sampled)
    g = mpf(pair.sampling.rate)
    if isinstance(pair.sampling, Leave):
        return [((1 - g) * q + g * p, q) for p, q in exact_columns(pair.of)]
    return [(q, (1 - g) * q + g * p) for p, q in exact_columns(pair.of)]


@pytest.mark.parametrize("seed", range(40))
def test_masses_of_large_losses_keep_their_digits(seed: int) -> None:
    """The logarithm of q is not log p - L: a loss of a thousand would take three digits of it."""
    generator = np.random.default_rng(seed)
    epsilon = float(10.0 ** generator.uniform(-3, 3.2))
    pair: Atoms = Binary(epsilon)
    even = math.exp(-min(max(epsilon, 1.0), 690.0))  # a rate at which γe^ε is about 1
    for _ in range(int(generator.integers(1, 3))):
        wrap = generator.choice(["leave", "join", "reverse"])
        rate = float(generator.choice([0.5, 1 - 1e-12, 10.0 ** generator.uniform(-300, -1), even]))
        if wrap == "leave":
            pair = Sampled(pair, Leave(rate))
        else:
            pair = Reversed(pair) if wrap == "reverse" else Sampled(Reversed(pair), Join(rate))
    with mp.workdps(1600):
        columns = pair.columns()
        there = columns.log_masses > -math.inf
        found = zip(columns.losses[there], columns.log_masses[there], columns.log_q[there], strict=True)
        for (loss, log_p, log_q), (p, q) in zip(found, exact_columns(pair), strict=True):
            assert abs(mpf(float(log_p)) - mp.log(p)) <= 4e-15 * (1 + abs(mp.log(p)))
            assert abs(mpf(float(log_q)) - mp.log(q)) <= 4e-15 * (1 + abs(mp.log(q)))
            assert abs(mpf(float(loss)) - mp.log(p / q)) <= 4e-15 * abs(mp.log(p / q)) + mpf(10) ** -300


@pytest.mark.parametrize("seed", range(60))
def test_losses_of_tables_that_add_up_to_almost_one(seed: int) -> None:
    """Sums that differ by units in the last place move every loss: what is left of it where p is nearly q is exact."""
    generator = np.random.default_rng(seed)
    p = generator.dirichlet(np.ones(int(generator.integers(2, 5))))
    q = p * (1 + 2.0**-52 * generator.integers(-4, 5, size=len(p)))
    table = TableAtoms(tuple(p.tolist()), tuple(q.tolist()))
    with mp.workdps(60):
        total_p, total_q = (mp.fsum(map(mpf, column.tolist())) for column in (p, q))
        exact = [mp.log(mpf(a) * total_q / (mpf(b) * total_p)) for a, b in zip(p.tolist(), q.tolist(), strict=True)]
        for loss, truth in zip(table.columns().losses, exact, strict=True):
            assert abs(mpf(float(loss)) - truth) <= 4e-16 * abs(truth)


@pytest.mark.parametrize("seed", range(80))
def test_renyi_dp_of_tables_that_reveal_something(seed: int) -> None:
    """What is left of Q beside a failure may have more mass than P: conversions from Rényi DP must know it."""
    generator = np.random.default_rng(seed)
    outputs, count = int(generator.integers(2, 5)), int(generator.integers(1, 4))
    tables = [generator.dirichlet(np.full(outputs, 0.5)) for _ in range(2)]
    for table in tables:
        if generator.random() < 0.7:
            table[generator.integers(outputs)] = 0.0
    p, q = ((table / table.sum()).tolist() for table in tables)
    rate = float(generator.choice([0.1, 0.5, 0.9, 1.0]))
    epsilon = float(generator.choice([0.0, 0.01, 0.3, 1.0, 2.2, 4.0]))
    run = cm.StatedPair(probabilities=tuple(p), neighbor_probabilities=tuple(q)).poisson(rate=rate) * count
    with mp.workdps(40):
        whole = [mp.fsum(map(mpf, table)) for table in (p, q)]
        exact = [[mpf(x) / total for x in table] for table, total in zip((p, q), whole, strict=True)]
        mixed = [(1 - mpf(rate)) * b + mpf(rate) * a for a, b in zip(*exact, strict=True)]
        truth = max(_product_delta(*pair, count, epsilon) for pair in ((mixed, exact[1]), (exact[1], mixed)))
        for method in ("rdp", "best"):
            assert run.delta(epsilon=epsilon, method=method) >= truth * (1 - mpf(10) ** -15)


def _product_delta(p: list[Any], q: list[Any], count: int, epsilon: float) -> Any:
    """Return δ(ε) of several releases, output by output."""
    rows = [(mp.fprod(a), mp.fprod(b)) for a, b in zip(product(p, repeat=count), product(q, repeat=count), strict=True)]
    return mp.fsum(max(a - mp.exp(mpf(epsilon)) * b, mpf(0)) for a, b in rows)
