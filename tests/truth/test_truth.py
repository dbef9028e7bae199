"""Answers to random questions against the truth in many digits (`high_precision`), and that reference against others.

`CUMULANT_SLOW=1` asks 300 questions in place of 20.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from flint import arb
from mpmath import mp, mpf

import cumulant as cm
import exact_references as other
from cumulant.mechanisms.base import AbstractMechanism
from cumulant.neighbors import Neighbors
from high_precision import (
    Direction,
    Law,
    Line,
    Normal,
    OutOfReach,
    Sampled,
    Table,
    View,
    ball,
    binary,
    delta,
    envelope,
    few,
    hockey,
    joining,
    leaving,
    precision,
    symmetrised,
    within_reach,
)
from stored import stored

stored_delta = stored(delta)
SEEDS = range(300 if os.environ.get("CUMULANT_SLOW") else 20)
Laws = tuple[Law, ...]  # one for both orders of the neighbours, or one for each
Generator = np.random.Generator


# The reference itself -------------------------------------------------------------------------------------------------


def gaussian(sigma: float, rate: float, view: View, size: int = 1) -> Sampled:
    return Sampled("gaussian", 1 / Fraction(sigma), Fraction(rate), view, size)


def laplace(scale: float, rate: float, view: View) -> Sampled:
    return Sampled("laplace", 1 / Fraction(scale), Fraction(rate), view)


def as_mpf(value: Any) -> Any:
    return mpf(value.mid().str(40, radius=False))


@pytest.mark.parametrize("epsilon", [0.0, 0.3, 2.5])
def test_tables_against_sums_over_lies(epsilon: float) -> None:
    parts = [(0.5, 0.0, 30), (1.25, 1e-3, 7)]
    with precision():
        tables = [(binary(arb(e).exp(), Fraction(d)), n) for e, d, n in parts]
    with mp.workdps(40):
        expected = other.composed_delta(parts, epsilon)
        assert abs(as_mpf(delta(tables, epsilon)) / expected - 1) < mpf(10) ** -35


@pytest.mark.slow
@pytest.mark.parametrize(
    ("law", "loss"),
    [
        (gaussian(1.3, 0.2, "leaving"), other.removed_gaussian(1.3, 0.2)),
        (gaussian(1.3, 0.2, "joining"), other.added_gaussian(1.3, 0.2)),
        (gaussian(1.3, 0.2, "replaced"), other.replaced_gaussian(1.3, 0.2)),
        (gaussian(1.3, 0.2, "envelope"), other.gaussian_envelope(1.3, 0.2)),
        (gaussian(1.3, 0.2, "leaving", 3), other.grouped_gaussian(1.3, 0.2, 3, joins=False)),
        (gaussian(1.3, 0.2, "joining", 3), other.grouped_gaussian(1.3, 0.2, 3, joins=True)),
        (laplace(0.7, 0.2, "leaving"), other.laplace(0.7, 0.2)),
        (laplace(0.7, 0.2, "joining"), other.laplace(0.7, 0.2, joins=True)),
        (laplace(0.7, 1.0, "leaving"), other.laplace(0.7)),
    ],
)
def test_one_and_two_releases_against_another_quadrature(law: Sampled, loss: other.Loss) -> None:
    for epsilon in (0.05, 0.12):
        with mp.workdps(30):
            once, twice = loss.once(mpf(epsilon)), loss.twice(epsilon)
            one, two = (as_mpf(stored_delta([(law, count)], epsilon)) for count in (1, 2))
            assert abs(one / once - 1) < mpf(10) ** -13
            assert abs(two / twice - 1) < mpf(10) ** -9  # what the other one reaches


@pytest.mark.parametrize(
    ("law", "masses", "width"),
    [
        (gaussian(1.0, 0.1, "leaving"), other.removed_masses(1.0, 0.1), 3e-4),
        (gaussian(1.0, 0.1, "joining"), other.added_masses(1.0, 0.1), 3e-4),
        (gaussian(1.0, 0.1, "replaced"), other.replaced_masses(1.0, 0.1), 3e-4),
        (gaussian(1.0, 0.1, "envelope"), other.envelope_masses(1.0, 0.1), 3e-4),
        (gaussian(2.0, 0.1, "leaving", 3), other.grouped_masses(2.0, 0.1, 3), 1e-3),
    ],
)
def test_lines_against_brackets(law: Sampled, masses: other.Masses, width: float) -> None:
    bracket = other.Bracket([(masses, 100)], width, 30.0)
    value = float(delta([(law, 100)], 2.0))
    assert bracket.below(2.0) - 1e-12 <= value <= bracket.above(2.0) + 1e-12
    assert bracket.above(2.0) - bracket.below(2.0) < 1e-3 * value


def same(one: Any, two: Any, digits: float) -> bool:
    return bool(abs(one - two) < abs(one) * 10.0**-digits)


def test_lines_against_formulas() -> None:
    """Sampling everyone is not sampling: Gaussians have a formula, Laplace noise residues."""
    everyone = [(Sampled("gaussian", Fraction(1, 10), Fraction(1), "leaving"), 400)]
    assert same(delta(everyone, 5.0), delta([(Normal(Fraction(4)), 1)], 5.0), 20)
    some = [(Sampled("laplace", Fraction(3), Fraction(1), "leaving"), 150)]
    nearly_none = (Table(((Fraction(1), Fraction(1)),)), 1)
    slow = [*some, (gaussian(1e9, 0.5, "leaving"), 1)]  # next to nothing, but no residues
    assert same(delta([*some, nearly_none], 300.0), delta(slow, 300.0), 8)


def test_residues_against_nested_integrals() -> None:
    law = laplace(0.8, 1.0, "leaving")
    with precision():
        for count in (2, 3):
            nested = few([law] * count, arb(0), arb("0.9"))
            assert same(nested, delta([(law, count)], 0.9), 13)


def test_nested_integrals_against_lines() -> None:
    """A Gaussian beside a sample ends the line soon, and is no obstacle to the other way."""
    for law in (gaussian(1.0, 0.3, "leaving"), gaussian(1.0, 0.3, "envelope"), laplace(0.5, 0.3, "joining")):
        with precision():
            line = Line(arb(1), [], [(law, 1)], arb(1.5)).delta()
        assert same(line, delta([(law, 1), (Normal(Fraction(1)), 1)], 1.5), 17)


@pytest.mark.parametrize("seed", range(5))
def test_profiles_of_tables_are_what_they_say(seed: int) -> None:
    generator = np.random.default_rng(seed)
    table, rate = dyadic_table(generator, 4), Fraction(3, 8)
    both, mixed = symmetrised(table), leaving(symmetrised(table), rate)
    for t in [Fraction(int(k), 64) for k in generator.integers(0, 300, 50)]:
        highest = max(hockey(table.rows, t), hockey(table.reverse.rows, t))
        assert hockey(both.rows, t) == highest
        order = mixed if t >= 1 else mixed.reverse
        assert hockey(envelope(both, rate).rows, t) == hockey(order.rows, t)


# Random questions -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Release:
    """A mechanism, what dominates it and what is attained; both are what the two ends of an interval must respect."""

    mechanism: AbstractMechanism
    dominating: tuple[Laws, ...]
    attained: tuple[Laws, ...]
    relation: Neighbors | None = None
    in_order: tuple[Laws, ...] | None = None  # what dominates where the run is for add-or-remove-one


@dataclass(frozen=True)
class Base:
    """A mechanism and its pair: a table, or noise."""

    mechanism: AbstractMechanism
    table: Table | None = None
    noise: Callable[[Fraction, View], Law] | None = None
    plain: Law | None = None
    symmetric: bool = True


def log_uniform(generator: Generator, low: float, high: float) -> float:
    return float(np.exp(generator.uniform(math.log(low), math.log(high))))


def dyadic_table(generator: Generator, outputs: int) -> Table:
    """Return two laws of multiples of 1/1024, which add up to 1."""
    columns = []
    for _ in range(2):
        cuts = sorted(int(x) for x in generator.choice(np.arange(1, 1024), outputs - 1, replace=False))
        columns.append([Fraction(b - a, 1024) for a, b in zip([0, *cuts], [*cuts, 1024], strict=True)])
    return Table(tuple(zip(*columns, strict=True)))


def draw_base(generator: Generator, kind: str) -> Base:
    with precision():
        if kind == "Gaussian":
            sigma = log_uniform(generator, 0.4, 20)
            mean = 1 / Fraction(sigma)
            return Base(
                cm.Gaussian(noise_multiplier=sigma),
                noise=lambda rate, view: Sampled("gaussian", mean, rate, view),
                plain=Normal(mean**2),
            )
        if kind == "Laplace":
            scale = log_uniform(generator, 0.3, 10)
            theta = 1 / Fraction(scale)
            return Base(
                cm.Laplace(scale=scale),
                noise=lambda rate, view: Sampled("laplace", theta, rate, view),
                plain=Sampled("laplace", theta, Fraction(1), "leaving"),
            )
        if kind == "RandomizedResponse":
            p = float(generator.uniform(0.5, 0.99))
            return Base(cm.RandomizedResponse(p=p), binary(Fraction(p) / (1 - Fraction(p))))
        if kind == "PureDP":
            bound = log_uniform(generator, 0.01, 3)
            return Base(cm.PureDP(epsilon=bound), binary(arb(bound).exp()))
        if kind == "ApproximateDP":
            bound, failure = log_uniform(generator, 0.01, 3), log_uniform(generator, 1e-25, 1e-6)
            return Base(
                cm.ApproximateDP(epsilon=bound, delta=failure), binary(arb(bound).exp(), ball(Fraction(failure)))
            )
        return Base(cm.PureDP(epsilon=0.0), dyadic_table(generator, int(generator.integers(2, 4))), symmetric=False)


def stated(table: Table, relation: Neighbors | None) -> AbstractMechanism:
    return cm.StatedPair(
        probabilities=tuple(float(p) for p, _ in table.rows),
        neighbor_probabilities=tuple(float(q) for _, q in table.rows),
        relation=relation,
    )


KINDS = ("Gaussian", "Laplace", "RandomizedResponse", "PureDP", "ApproximateDP", "StatedPair")


def both_directions(base: Base, rate: Fraction) -> tuple[Laws, ...]:
    """Return leaving and joining."""
    if base.noise is not None:
        return ((base.noise(rate, "leaving"), base.noise(rate, "joining")),)
    assert base.table is not None
    return ((leaving(base.table, rate), joining(base.table, rate)),)


def unsampled(generator: Generator, kind: str) -> Release:
    base = draw_base(generator, kind)
    if base.symmetric:
        law = base.plain or base.table
        assert law is not None
        return Release(base.mechanism, ((law,),), ((law,),))
    assert base.table is not None
    orders: Laws = (base.table, base.table.reverse)
    if generator.integers(2):
        return Release(stated(base.table, cm.ADD_REMOVE), (orders,), (orders,), cm.ADD_REMOVE)
    return Release(stated(base.table, None), ((symmetrised(base.table),),), (orders,), None, (orders,))


def poisson(generator: Generator, kind: str) -> Release:
    base, rate = draw_base(generator, kind), log_uniform(generator, 0.003, 0.9)
    mechanism = base.mechanism if base.symmetric or base.table is None else stated(base.table, None)
    laws = both_directions(base, Fraction(rate))
    return Release(mechanism.poisson(rate=rate), laws, laws, cm.ADD_REMOVE)


def replaced(generator: Generator, kind: str) -> Release:
    """Poisson samples under replace-one; the pair is known for Gaussian noise only."""
    base, rate = draw_base(generator, kind), log_uniform(generator, 0.003, 0.9)
    if base.noise is None or kind != "Gaussian":
        return without_replacement(generator, kind)
    laws: tuple[Laws, ...] = ((base.noise(Fraction(rate), "replaced"),),)
    if generator.integers(2):
        first = float(generator.uniform(rate, 1))
        laws = ((base.noise(Fraction(first) * Fraction(rate), "replaced"),),)
        nested = base.mechanism.poisson(rate=first).poisson(rate=rate, neighbors=cm.REPLACE_ONE)
        return Release(nested, laws, laws, cm.REPLACE_ONE)
    return Release(base.mechanism.poisson(rate=rate, neighbors=cm.REPLACE_ONE), laws, laws, cm.REPLACE_ONE)


def without_replacement(generator: Generator, kind: str) -> Release:
    base = draw_base(generator, kind)
    population = int(generator.integers(2, 2000))
    batch = int(generator.integers(1, population))
    rate = Fraction(batch, population)
    relation = cm.ADD_REMOVE if generator.integers(2) else cm.REPLACE_ONE
    mechanism = base.mechanism if base.symmetric or base.table is None else stated(base.table, None)
    sampled = mechanism.without_replacement(batch=batch, population=population, neighbors=relation)
    attained = both_directions(base, rate)
    if not base.symmetric and base.table is not None:
        attained += both_directions(Base(base.mechanism, base.table.reverse), rate)
        base = Base(base.mechanism, symmetrised(base.table))
    if relation is cm.ADD_REMOVE:
        return Release(sampled, both_directions(base, rate), attained, relation)
    if base.noise is not None:
        return Release(sampled, ((base.noise(rate, "envelope"),),), attained, relation)
    assert base.table is not None
    return Release(sampled, ((envelope(base.table, rate),),), attained, relation)


def group(generator: Generator, kind: str) -> Release:
    sigma, rate, size = (
        log_uniform(generator, 0.8, 20),
        log_uniform(generator, 0.003, 0.5),
        int(generator.integers(2, 6)),
    )
    mechanism = cm.Gaussian(noise_multiplier=sigma).poisson(rate=rate).group(size=size)
    laws: Laws = (gaussian(sigma, rate, "leaving", size), gaussian(sigma, rate, "joining", size))
    return Release(mechanism, (laws,), (laws,), cm.ADD_REMOVE)


SCHEMES = (unsampled, poisson, poisson, replaced, without_replacement, without_replacement, group)


@dataclass(frozen=True)
class Question:
    run: AbstractMechanism
    dominating: list[Direction]
    attained: list[Direction]
    log_delta: float

    @property
    def delta(self) -> float:
        return float(10.0**self.log_delta)


def directions(choices: Sequence[tuple[tuple[Laws, ...], int]]) -> list[Direction]:
    """Return what may happen: each part in each of its readings, both orders of the neighbours."""
    found: list[Direction] = []
    for reading in range(max(len(readings) for readings, _ in choices)):
        parts = [(readings[reading % len(readings)], n) for readings, n in choices]
        for order in range(max(len(laws) for laws, _ in parts)):
            found.append([(laws[order % len(laws)], n) for laws, n in parts])
    return found


def draw(generator: Generator) -> Question:
    """Return a random question; parts of a mix share a relation."""
    releases: list[tuple[Release, int]] = []
    for _ in range(int(generator.choice([1, 1, 1, 2, 3]))):
        while True:
            scheme, kind = SCHEMES[generator.integers(len(SCHEMES))], KINDS[generator.integers(len(KINDS))]
            release = scheme(generator, kind)
            relations = {r.relation for r, _ in releases} | {release.relation}
            if len(relations - {None}) < 2:
                break
        releases.append((release, max(1, int(log_uniform(generator, 0.5, 1e5)))))
    run = cm.Composed.of((release.mechanism, n) for release, n in releases)
    in_order = run.neighbors is cm.ADD_REMOVE
    return Question(
        run,
        directions([((in_order and release.in_order) or release.dominating, n) for release, n in releases]),
        directions([(release.attained, n) for release, n in releases]),
        float(generator.uniform(-20, -2)),
    )


def largest(choices: Sequence[Direction], epsilon: float, of: Callable[[Direction, float], Any] = delta) -> Any:
    values = [of(direction, epsilon) for direction in choices]
    return max(values, key=float)


def check_epsilon(question: Question) -> None:
    """The truth of δ at both ends says where the target lies; a ball is compared as a whole."""
    run, target = question.run, question.delta
    answer, interval = run.epsilon(delta=target), run.epsilon_interval(delta=target)
    for upper in {answer, interval.upper}:
        if upper < math.inf:
            truth = largest(question.dominating, upper)
            assert not truth > target, f"{upper} is below the truth: {truth} > {target} for {run}"
    if interval.certified and interval.lower > 0:
        truth = largest(question.attained, interval.lower)
        assert not truth < target, f"{interval} is above the truth: {truth} < {target} for {run}"


def check_delta(question: Question, share: float) -> None:
    run = question.run
    epsilon = float(f"{share * min(run.epsilon(delta=question.delta), 1e3):.6g}")
    answer, interval = run.delta(epsilon=epsilon), run.delta_interval(epsilon=epsilon)
    truth = largest(question.dominating, epsilon, stored_delta)
    for upper in {answer, interval.upper}:
        assert not truth > upper, f"{upper} is below the truth {truth} at {epsilon} for {run}"
    if interval.certified:
        truth = largest(question.attained, epsilon, stored_delta)
        assert not truth < interval.lower, f"{interval} is above the truth {truth} at {epsilon} for {run}"


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_random_questions(seed: int) -> None:
    generator = np.random.default_rng(seed)
    for _ in range(100):
        with precision():
            question = draw(generator)
        try:
            for direction in question.dominating + question.attained:
                within_reach(direction)
            if seed % 2:
                check_epsilon(question)
            else:
                check_delta(question, float(generator.uniform(0.5, 1)))
        except (OutOfReach, cm.OutOfReach):
            continue
        return
    raise AssertionError("no question within reach")
