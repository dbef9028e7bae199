"""What a run of a fast case can be: pairs of distributions that some neighbours and some mechanisms attain.

An answer must cover every mechanism that fits its description, so a lower bound of the truth is any one of them. Under
add-or-remove-one the record leaves in all releases, or joins in all of them. Under replace-one, and where no relation
is named, every release may be any of its pairs: one query sees the old record, the next the new one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import final

from benchmarks import fast_cases as fc
from benchmarks.fast_cases import Part, Step
from benchmarks.fast_truth_laws import (
    ONE,
    AnyLaw,
    Base,
    Binary,
    Laplace,
    Law,
    Normal,
    Revealed,
    Several,
    Table,
    binomial,
    opposite,
)
from benchmarks.runs import ADD_REMOVE, GAUSSIAN, LAPLACE, RANDOMIZED_RESPONSE, REPLACE_ONE, ZERO_OUT

MOST_OUTPUTS = 64
EXPONENTIAL = 40.0  # beyond which e^x - 1 is e^x
BARELY_LESS = 1 - Fraction(1, 10**9)  # of a loss that was found by halving in doubles
BASES: dict[str, Callable[..., Base]] = {
    GAUSSIAN: lambda sigma: Normal(1 / sigma**2),
    LAPLACE: lambda scale: Laplace(1 / scale),
    RANDOMIZED_RESPONSE: lambda p: Table((p, 1 - p), (1 - p, p)),
    fc.PURE: Binary,
    fc.APPROXIMATE: Binary,
    fc.ZCDP: lambda rho, xi: Normal(2 * rho),  # it is ρ-zCDP, whatever ξ is
}


@final
@dataclass(frozen=True, slots=True)
class Choices:
    """Laws that a release may have when a record leaves, and when it joins.

    `tight`: there is one law for each, and it dominates; also in compositions. `tight_once`: the worst of them is the
    worst there is, for a single release.
    """

    leaves: tuple[AnyLaw, ...]
    joins: tuple[AnyLaw, ...]
    tight: bool
    tight_once: bool


@final
@dataclass(frozen=True, slots=True)
class _Sampled:
    """A rate, the relation, and whether the mechanism inside is for replace-one, so that P and Q may change places."""

    rate: Fraction = ONE
    word: str = ""
    relation: str = ""
    flips: bool = False
    numbers: tuple[int, ...] = ()
    known: bool = True


def with_plain_relations(part: Part) -> Part:
    """Return a part with add-or-remove-one for zero-out: a null record contributes what an absent one does."""
    steps = tuple(replace(step, relation=ADD_REMOVE) if step.relation == ZERO_OUT else step for step in part.steps)
    return replace(part, steps=steps, relation=ADD_REMOVE if part.relation == ZERO_OUT else part.relation)


def relation_of(parts: Iterable[Part]) -> str:
    """Return the relation of a run, empty if no part names one."""
    for part in parts:
        for step in reversed(part.steps):
            if step.word in (fc.POISSON, fc.WITHOUT, fc.SHARE, fc.WITH):
                return step.relation or (ADD_REMOVE if step.word == fc.POISSON else REPLACE_ONE)
        if part.relation:
            return part.relation
    return ""


def choices(part: Part, relation: str) -> Choices | None:
    """Return the laws of one part of a run in a relation, None if none is known."""
    if part.kind in (fc.CURVE, fc.ZCDP) and not part.steps:
        return _below_a_curve(part)
    base, attained = _base(part)
    if isinstance(base, Normal) and base.square == 0:
        return None
    sampled = _Sampled()
    for step in part.steps:
        if step.word == fc.TIMES:
            base, whole = _several(base, int(step.numbers[0]))
            attained = attained and whole
        elif step.word != fc.GROUP:
            sampled = _nested(sampled, step)
    if part.relation == ADD_REMOVE:  # which of the two is with the record is then stated
        sampled = replace(sampled, flips=False)
    size = math.prod(int(step.numbers[0]) for step in part.steps if step.word == fc.GROUP)
    if sampled.rate == 0:
        return Choices((), (), True, True)
    if not sampled.word:
        return _unsampled(part, base, size, relation, attained)
    return _of_samples(base, sampled, size, attained)


# Mechanisms -----------------------------------------------------------------------------------------------------------


def _base(part: Part) -> tuple[Base, bool]:
    """Return a mechanism that fits the description, and whether it is the worst that does."""
    if part.kind == fc.CURVE:  # the largest Gaussian below the curve
        rho = min((Fraction(value) / Fraction(order) for order, value in part.rows if order < math.inf), default=None)
        pure = min((value for order, value in part.rows if order == math.inf), default=None)
        return (Normal(2 * rho), False) if pure is None and rho is not None else (Normal(Fraction(0)), False)
    numbers = [Fraction(number) for number in part.numbers]
    if part.kind == fc.STATED:
        half = len(numbers) // 2
        table = Table(tuple(numbers[:half]), tuple(numbers[half:]))
        return table, table.whole
    return BASES[part.kind](*numbers), part.kind != fc.ZCDP


def _below_a_curve(part: Part) -> Choices | None:
    """Return mechanisms below a Rényi curve in both directions: a Gaussian one, and randomized response.

    Where δ is large the second comes nearer: of one order 2 it attains the best bound at ε = 0.
    """
    if part.kind == fc.ZCDP:  # randomized response of e is e²/2-zCDP (Bun and Steinke 2016, Proposition 3.3)
        loss = math.sqrt(2 * part.numbers[0])
    else:
        loss = min(_loss_of_response(order, value) for order, value in part.rows)
    gaussian, _ = _base(part)
    laws = [Law(base) for base in (gaussian, Binary(Fraction(loss) * BARELY_LESS)) if not _tells_nothing(base)]
    return _free(laws, False, False) if laws else None


def _tells_nothing(base: Base) -> bool:
    return (base.square if isinstance(base, Normal) else base.epsilon) == 0  # type: ignore[union-attr]


def _loss_of_response(order: float, value: float) -> float:
    """Return e of randomized response whose Rényi divergence of this order is the value, by halving."""
    low, high = 0.0, value  # its divergence is at most e
    if order == math.inf:
        return high
    while _divergence_of_response(order, high) < value:
        high *= 2
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if _divergence_of_response(order, middle) <= value else (low, middle)
    return low


def _divergence_of_response(order: float, loss: float) -> float:
    """Return D_α of randomized response, log M / (α-1), M = 1 + (e^{(α-1)l} - 1)(1 - e^{-αl}) / (1 + e^{-l})."""
    tilt = (order - 1) * loss
    if tilt > EXPONENTIAL:  # M is as good as what it is without its 1
        return (tilt - math.log1p(math.exp(-loss))) / (order - 1)
    return math.log1p(math.expm1(tilt) * -math.expm1(-order * loss) / (1 + math.exp(-loss))) / (order - 1)


def _several(base: Base, times: int) -> tuple[Base, bool]:
    if times == 1:
        return base, True
    if isinstance(base, Normal):
        return Normal(base.square * times), True
    if isinstance(base, Table | Binary) and base.outputs**times <= MOST_OUTPUTS:
        return Several(base, times), base.symmetric
    return base, False  # fewer releases are a lower bound


def _symmetric(base: Base) -> bool:
    return isinstance(base, Normal | Laplace) or base.symmetric


# Without sampling -----------------------------------------------------------------------------------------------------


def _unsampled(part: Part, base: Base, size: int, relation: str, attained: bool) -> Choices:
    if size > 1:
        grouped, tight = _grouped(part, base, size)
        return _free([law for one in grouped for law in _both(one)], tight and attained, tight and attained)
    if _symmetric(base):
        return _free([Law(base)], attained, attained)
    if relation == ADD_REMOVE:
        return Choices((Law(base),), (Law(base, joins=True),), attained, attained)
    return _free([Law(base), Law(base, flipped=True)], False, attained)


def _grouped(part: Part, base: Base, size: int) -> tuple[list[Base], bool]:
    """Return what groups of records can have: the sensitivity of noise grows, others at least keep what they are."""
    if isinstance(base, Normal):
        return [Normal(base.square * size * size)], True
    if isinstance(base, Laplace):
        return [Laplace(base.theta * size)], True
    if part.kind == RANDOMIZED_RESPONSE:
        return [base], True
    if isinstance(base, Binary) and base.failure:
        return [base, Revealed(base.epsilon, base.failure, size)], False
    if isinstance(base, Binary):
        return [base, Laplace(base.epsilon * size)], False
    return [base], False


def _both(base: Base) -> list[AnyLaw]:
    return [Law(base)] if _symmetric(base) else [Law(base), Law(base, flipped=True)]


def _free(laws: Sequence[AnyLaw], tight: bool, tight_once: bool) -> Choices:
    return Choices(tuple(laws), tuple(laws), tight and len(laws) == 1, tight_once)


# Samples --------------------------------------------------------------------------------------------------------------


def _nested(inner: _Sampled, step: Step) -> _Sampled:
    """Return one scheme in another: a record is in the inner sample with the product of the probabilities."""
    first = not inner.word
    if step.word == fc.POISSON:
        known = first or (inner.word == fc.POISSON and inner.relation == ADD_REMOVE and inner.known)
        rate = Fraction(step.numbers[0])
        return _Sampled(
            inner.rate * rate, fc.POISSON, step.relation or ADD_REMOVE, inner.flips and not first, (), known
        )
    relation = step.relation or REPLACE_ONE
    flips = inner.flips or first
    if step.word == fc.SHARE:
        return _Sampled(inner.rate * Fraction(step.numbers[0]), fc.WITHOUT, relation, flips, (), first)
    drawn, population = (int(number) for number in step.numbers)
    if step.word == fc.WITHOUT:
        numbers = (drawn, population) if first else ()
        return _Sampled(inner.rate * Fraction(drawn, population), fc.WITHOUT, relation, flips, numbers, first)
    population += relation == ADD_REMOVE  # the smaller probability, whichever size is meant
    rate = 1 - (1 - Fraction(1, population)) ** drawn
    return _Sampled(inner.rate * rate, fc.WITH, relation, flips, (drawn, population) if first else (), False)


def _of_samples(base: Base, sampled: _Sampled, size: int, attained: bool) -> Choices:
    if isinstance(base, Normal) and (found := _normal_samples(base, sampled, size, attained)) is not None:
        return found
    present = _with_some_of(sampled, size) if size > 1 else sampled
    if sampled.word == fc.POISSON and sampled.rate == 1 and sampled.relation == REPLACE_ONE and size == 1:
        return _replaced(base, attained)
    flips = (False, True) if present.flips and not _symmetric(base) else (False,)
    leaves = tuple(Law(base, present.rate, flipped=flipped) for flipped in flips)
    joins = tuple(Law(base, present.rate, joins=True, flipped=flipped) for flipped in flips)
    known = attained and present.known and size == 1
    if present.relation == ADD_REMOVE:
        whole = known and present.rate < 1 if present.word != fc.POISSON else known
        return Choices(leaves, joins, whole and len(flips) == 1, whole)
    return _free(leaves + joins, False, known and present.word == fc.WITHOUT)


def _replaced(base: Base, attained: bool) -> Choices:
    """Return a record that is always sampled and replaced: opposite contributions are twice as far apart."""
    if isinstance(base, Laplace):
        return _free([Law(Laplace(2 * base.theta))], attained, attained)
    return _free(_both(base) if _symmetric(base) else [Law(base), Law(base, joins=True)], False, False)


def _normal_samples(base: Normal, sampled: _Sampled, size: int, attained: bool) -> Choices | None:
    if sampled.word == fc.POISSON and sampled.relation == REPLACE_ONE and size == 1:
        if sampled.rate == 1:
            return _free([Law(Normal(4 * base.square))], attained, attained)
        known = attained and sampled.known
        return _free([opposite(base.square, sampled.rate)], known, known)
    if sampled.word == fc.POISSON and sampled.relation == ADD_REMOVE and size > 1 and sampled.rate < 1:
        leaves, joins = binomial(base.square, sampled.rate, size)
        return Choices((leaves,), (joins,), attained, attained)
    if sampled.word == fc.WITH and sampled.relation == REPLACE_ONE and size == 1 and sampled.numbers:
        drawn, population = sampled.numbers
        if population > 1:
            return _free(binomial(base.square, Fraction(1, population), drawn), False, False)
    return None


def _with_some_of(sampled: _Sampled, size: int) -> _Sampled:
    """Return the sample as one that holds some of a group: a query may answer just that."""
    if sampled.word == fc.POISSON:
        return replace(sampled, rate=1 - (1 - sampled.rate) ** size)
    if sampled.word == fc.WITHOUT and sampled.numbers:
        batch, population = sampled.numbers
        if size < population < 5000:
            without = Fraction(math.comb(population - size, batch), math.comb(population, batch))
            return replace(sampled, rate=1 - without)
    if sampled.word == fc.WITH and sampled.numbers and size < sampled.numbers[1]:
        drawn, population = sampled.numbers
        return replace(sampled, rate=1 - (1 - Fraction(size, population)) ** drawn)
    return sampled
