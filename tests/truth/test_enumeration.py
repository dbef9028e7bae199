"""Sampling and adaptive composition of asymmetric pairs, against every mechanism of tiny worlds.

The base mechanism gives each batch P, Q or their mean R, in any way that the stated pair allows. An adversary picks a
new one after every output; what it gains is a recursion in fractions (`brute_force.adaptive_excess`). No answer may be
below that, for the relation it is for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import pytest
from flint import arb

import brute_force as bf
import cumulant as cm
from brute_force import Batch, Kernel, Law
from cumulant.mechanisms.base import AbstractMechanism
from cumulant.neighbors import Neighbors
from high_precision import ball, precision


def eighths(*counts: int) -> Law:
    return tuple(Fraction(count, 8) for count in counts)


PAIRS: dict[str, tuple[Law, Law]] = {
    "rare, half": (eighths(1, 7), eighths(4, 4)),
    "half, rare": (eighths(4, 4), eighths(1, 7)),
    "strong": (eighths(7, 1), eighths(2, 6)),
    "three outputs": (eighths(1, 4, 3), eighths(5, 2, 1)),
    "one lacks an output": (eighths(0, 4, 4), eighths(2, 2, 4)),
    "both lack one": (eighths(0, 5, 3), eighths(1, 7, 0)),
}
TWO_OUTPUTS = ["rare, half", "half, rare", "strong"]
EPSILONS = [0.0, 0.05, 0.3, 1.0, 2.5]

Worlds = list[frozenset[Kernel]]  # for each pair of neighbouring datasets, in each order


def laws(name: str, values: int) -> tuple[Law, ...]:
    """Return Q, P, or Q, (P+Q)/2, P."""
    p, q = PAIRS[name]
    middle = tuple((a + b) / 2 for a, b in zip(p, q, strict=True))
    return (q, p) if values == 2 else (q, middle, p)


def stated(name: str, relation: Neighbors | None = None) -> cm.StatedPair:
    p, q = PAIRS[name]
    return cm.StatedPair(
        probabilities=tuple(float(x) for x in p), neighbor_probabilities=tuple(float(x) for x in q), relation=relation
    )


def never_below(run: AbstractMechanism, worlds: Worlds, rounds: int, epsilons: list[float]) -> None:
    """Compare δ at every ε, and ε at δ = 0, of `rounds` releases."""
    composed = run * rounds
    for epsilon in epsilons:
        above = threshold(epsilon)
        truth = max(bf.adaptive_excess(world, rounds, above) for world in worlds)
        answer = composed.delta(epsilon=epsilon)
        assert Fraction(answer) >= truth, f"{answer} is below {float(truth)} at {epsilon} for {composed}"
        if composed._known().directions(None) is not None:
            interval = composed.delta_interval(epsilon=epsilon)
            assert Fraction(interval.upper) >= truth, f"{interval} is below {float(truth)} at {epsilon} for {composed}"
    never_below_pure(composed, worlds, rounds)


def threshold(epsilon: float) -> Fraction:
    """Return a fraction just above e^ε: δ there is not above the truth."""
    with precision(200):
        upper: Any = arb(epsilon).exp().upper()
        mantissa, exponent = upper.man_exp()
    return Fraction(int(mantissa)) * Fraction(2) ** int(exponent)


def never_below_pure(run: AbstractMechanism, worlds: Worlds, rounds: int) -> None:
    ratios = [bf.largest_ratio(world) for world in worlds]
    answer = run.epsilon(delta=0.0)
    if None in ratios:
        assert answer == math.inf
        return
    with precision():
        truth = rounds * ball(max(ratio for ratio in ratios if ratio is not None)).log()
        assert not truth > arb(answer), f"{answer} is below {truth} for {run}"


# Without sampling -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("rounds", [1, 2, 3])
def test_orders_are_kept_under_add_or_remove(name: str, rounds: int) -> None:
    q, p = laws(name, 2)
    never_below(stated(name, cm.ADD_REMOVE), [frozenset({(p, q)}), frozenset({(q, p)})], rounds, EPSILONS)


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("rounds", [1, 2, 3])
@pytest.mark.parametrize("relation", [None, cm.REPLACE_ONE])
def test_orders_may_change_otherwise(name: str, rounds: int, relation: Neighbors | None) -> None:
    """Which of the two datasets looks like P is for the adversary to choose, round by round."""
    some = laws(name, 3)
    world = frozenset((a, b) for a in some for b in some)
    never_below(stated(name, relation), [world], rounds, EPSILONS)


@pytest.mark.parametrize("name", TWO_OUTPUTS[:2])
def test_changing_orders_costs_more(name: str) -> None:
    """So the test above can fail: an answer for one order in all rounds is below the truth."""
    q, p = laws(name, 2)
    mixed = frozenset({(p, q), (q, p)})
    gains = [
        bf.adaptive_excess(mixed, 2, threshold(e))
        - max(bf.adaptive_excess(frozenset({k}), 2, threshold(e)) for k in mixed)
        for e in EPSILONS
    ]
    assert max(gains) > Fraction(1, 100)


# Sampling -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Scheme:
    """How to sample in the library, and what it does to datasets of two kinds of records."""

    of: Callable[[cm.StatedPair], AbstractMechanism]
    shares: Callable[[Batch], bf.Shares]
    neighbours: list[tuple[Batch, Batch]]
    in_order: bool
    relation: Neighbors | None = None

    def worlds(self, some: tuple[Law, ...]) -> Worlds:
        found: Worlds = []
        for one, other in self.neighbours:
            forward = bf.kernels(self.shares(one), self.shares(other), some, in_order=self.in_order)
            found += [forward, bf.reverse(forward)]
        return found


def schemes() -> Iterator[Any]:
    added = [(batch, other) for batch, other in bf.added(2, [0, 1])]
    replaced_pairs = [(one, other) for one, other in bf.replaced(2, 2) if one < other]
    triples: list[tuple[Batch, Batch]] = [((0, 1, 1), (1, 1, 1)), ((0, 0, 1), (0, 1, 1)), ((0, 0, 0), (0, 0, 1))]
    for rate in (Fraction(1, 8), Fraction(3, 4)):
        yield pytest.param(
            Scheme(
                lambda pair, rate=rate: pair.poisson(rate=float(rate)),  # type: ignore[misc]
                lambda data, rate=rate: bf.poisson_shares(data, rate),  # type: ignore[misc]
                added,
                in_order=True,
            ),
            id=f"Poisson {rate}",
        )
    yield pytest.param(
        Scheme(
            lambda pair: pair.poisson(rate=0.125, neighbors=cm.REPLACE_ONE),
            lambda data: bf.poisson_shares(data, Fraction(1, 8)),
            replaced_pairs,
            in_order=True,
        ),
        id="Poisson 1/8, replace-one",
    )
    sizes: list[tuple[int, int, list[tuple[Batch, Batch]]]]
    sizes = [(1, 2, replaced_pairs), (1, 3, triples), (2, 3, triples)]
    for batch, population, pairs in sizes:
        yield pytest.param(
            Scheme(
                lambda pair, m=batch, n=population: pair.without_replacement(batch=m, population=n),  # type: ignore[misc]
                lambda data, m=batch: bf.without_replacement_shares(data, m),  # type: ignore[misc]
                pairs,
                in_order=False,
            ),
            id=f"{batch} of {population}, replace-one",
        )
        smaller = [
            (one[:i] + one[i + 1 :], one) for one in {d for both in pairs for d in both} for i in range(len(one))
        ]
        yield pytest.param(
            Scheme(
                lambda pair, m=batch, n=population: pair.without_replacement(  # type: ignore[misc]
                    batch=m, population=n, neighbors=cm.ADD_REMOVE
                ),
                lambda data, m=batch: bf.without_replacement_shares(data, m),  # type: ignore[misc]
                sorted(set(smaller)),
                in_order=False,
            ),
            id=f"{batch} of {population}, add-or-remove",
        )
    yield pytest.param(
        Scheme(
            lambda pair: pair.with_replacement(draws=2, population=2),
            lambda data: bf.with_replacement_shares(data, 2),
            replaced_pairs,
            in_order=False,
        ),
        id="2 draws of 2, replace-one",
    )


@pytest.mark.parametrize("scheme", list(schemes()))
@pytest.mark.parametrize("name", PAIRS)
def test_samples(scheme: Scheme, name: str) -> None:
    """One round with three laws, two rounds with two; what the library refuses is no answer."""
    try:
        mechanism = scheme.of(stated(name))
        mechanism.delta(epsilon=1.0)
    except cm.UnprovenCombination:
        pytest.skip("refused")
    never_below(mechanism, scheme.worlds(laws(name, 3)), 1, EPSILONS)
    never_below(mechanism, scheme.worlds(laws(name, 2)), 2, EPSILONS)


@pytest.mark.parametrize("scheme", list(schemes()))
@pytest.mark.parametrize("name", TWO_OUTPUTS[:2])
def test_samples_in_three_rounds(scheme: Scheme, name: str) -> None:
    try:
        mechanism = scheme.of(stated(name))
        mechanism.delta(epsilon=1.0)
    except cm.UnprovenCombination:
        pytest.skip("refused")
    never_below(mechanism, scheme.worlds(laws(name, 2)), 3, [0.0, 0.3, 1.0])


def test_a_displaced_record() -> None:
    """Data {x, a} against {x}, "P if x is sampled, else Q": (P+Q)/2 against P has the ratio 3 where P is rare."""
    pair = cm.StatedPair(probabilities=(0.1, 0.9), neighbor_probabilities=(0.5, 0.5))
    sampled = pair.without_replacement(batch=1, population=2, neighbors=cm.ADD_REMOVE)
    ratio = (Fraction(0.1) + Fraction(0.5)) / 2 / Fraction(0.1)
    with precision():
        answer, interval = sampled.epsilon(delta=0.0), sampled.epsilon_interval(delta=0.0)
        for upper in (answer, interval.upper):
            assert not ball(ratio).log() > arb(upper)


def test_a_batch_of_everyone_cannot_lose_a_record() -> None:
    """A batch as large as the population does not exist once a record is gone."""
    pair = stated("rare, half")
    with pytest.raises(cm.UnprovenCombination):
        pair.without_replacement(batch=2, population=2, neighbors=cm.ADD_REMOVE)
