"""Cases of the fast hunt: any mechanism, scheme and relation, with extremes, and a question about their composition."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, final

import numpy as np

from benchmarks.questions import Script
from benchmarks.runs import ADD_REMOVE, GAUSSIAN, LAPLACE, RANDOMIZED_RESPONSE, REPLACE_ONE, ZERO_OUT

PURE, APPROXIMATE, STATED, ZCDP, CURVE = "pure", "approximate", "stated", "zcdp", "curve"
POISSON, WITHOUT, SHARE, WITH, GROUP, TIMES = "poisson", "without", "share", "with", "group", "times"
EPSILON, DELTA, EPSILON_INTERVAL, DELTA_INTERVAL, RDP = "epsilon", "delta", "epsilon_interval", "delta_interval", "rdp"
AT_DELTA = (EPSILON, EPSILON_INTERVAL)
NAMES = {ADD_REMOVE: "cm.ADD_REMOVE", REPLACE_ONE: "cm.REPLACE_ONE", ZERO_OUT: "cm.ZERO_OUT"}
CONSTRUCTORS = {
    GAUSSIAN: "cm.Gaussian(noise_multiplier={})",
    LAPLACE: "cm.Laplace(scale={})",
    RANDOMIZED_RESPONSE: "cm.RandomizedResponse(p={})",
    PURE: "cm.PureDP(epsilon={})",
    APPROXIMATE: "cm.ApproximateDP(epsilon={}, delta={})",
    ZCDP: "cm.ZCDP(rho={}, xi={})",
}
FEW_OUTPUTS = 5  # of a table, whose masses may have few bits
Number = float | int


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """What becomes of a mechanism: sampled, grouped, or released several times on one sample."""

    word: str
    numbers: tuple[Number, ...]
    relation: str = ""

    @property
    def text(self) -> str:
        neighbors = f", neighbors={NAMES[self.relation]}" if self.relation else ""
        first = _text(self.numbers[0])
        match self.word:
            case "poisson":
                return f".poisson(rate={first}{neighbors})"
            case "without":
                return f".without_replacement(batch={first}, population={self.numbers[1]}{neighbors})"
            case "share":
                return f".without_replacement(rate={first}{neighbors})"
            case "with":
                return f".with_replacement(draws={first}, population={self.numbers[1]}{neighbors})"
            case "group":
                return f".group(size={first})"
            case _:
                return f" * {first}"


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """One mechanism, what becomes of it, and how often the result is released.

    `numbers` are its parameters; the two tables of a stated pair and the rows of a curve, one after the other.
    `relation` is that of a stated pair, empty if it has none.
    """

    kind: str
    numbers: tuple[float, ...]
    steps: tuple[Step, ...] = ()
    count: int = 1
    relation: str = ""

    @property
    def tables(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        half = len(self.numbers) // 2
        return self.numbers[:half], self.numbers[half:]

    @property
    def rows(self) -> list[tuple[float, float]]:
        return list(zip(self.numbers[::2], self.numbers[1::2], strict=True))

    @property
    def text(self) -> str:
        text = self._base()
        for step in self.steps:
            text = f"({text}{step.text})" if step.word == TIMES else text + step.text
        return text if self.count == 1 else f"{text} * {self.count}"

    def _base(self) -> str:
        if self.kind == CURVE:
            rows = ", ".join(f"({_text(order)}, {_text(value)})" for order, value in self.rows)
            return f"cm.RenyiCurve([{rows}])"
        if self.kind == STATED:
            p, q = self.tables
            relation = f", relation={NAMES[self.relation]}" if self.relation else ""
            return f"cm.StatedPair(probabilities={_row(p)}, neighbor_probabilities={_row(q)}{relation})"
        return CONSTRUCTORS[self.kind].format(*(_text(number) for number in self.numbers))


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """ε or its interval at δ = `value`, δ or its interval at ε = `value`, or Rényi DP at order `value`."""

    question: str
    parts: tuple[Part, ...]
    value: float
    method: str = "best"

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Case:
        return cls(**{**data, "parts": tuple(_part(part) for part in data["parts"])})

    @property
    def script(self) -> Script:
        """The question as Python: `answer` is (number or ends, whether it is called exact or certified)."""
        run = f"run = {' + '.join(part.text for part in self.parts)}"
        value = _text(self.value)
        match self.question:
            case "epsilon":
                asked = f"proof = run.guarantee(delta={value}, method={self.method!r})"
                answer = "answer = proof.epsilon, proof.exact"
            case "delta":
                asked = f"proof = run.guarantee(epsilon={value}, method={self.method!r})"
                answer = "answer = proof.delta, proof.exact"
            case "epsilon_interval" | "delta_interval":
                known = "delta" if self.question == EPSILON_INTERVAL else "epsilon"
                asked = f"interval = run.{self.question}({known}={value})"
                answer = 'answer = (interval.lower, interval.upper), getattr(interval, "certified", True)'
            case _:
                asked, answer = f"value = run.rdp(order={value})", "answer = value, False"
        return Script("import cumulant as cm", f"{run}\n{asked}\n{answer}")


def _part(data: dict[str, Any]) -> Part:
    steps = tuple(Step(**{**step, "numbers": tuple(step["numbers"])}) for step in data["steps"])
    return Part(**{**data, "numbers": tuple(data["numbers"]), "steps": steps})


def _text(number: Number) -> str:
    return 'float("inf")' if number == math.inf else repr(number)


def _row(table: Sequence[float]) -> str:
    return f"({', '.join(repr(mass) for mass in table)})"


# Drawing --------------------------------------------------------------------------------------------------------------


def drawn(seed: int, index: int) -> Case:
    """Return case number `index`: a function of seed and number."""
    return _Draw(np.random.default_rng([seed, index, 17])).case()


class _Draw:
    """Draws from one generator."""

    def __init__(self, generator: np.random.Generator) -> None:
        self._generator = generator

    def case(self) -> Case:
        question = self._one([EPSILON] * 12 + [DELTA] * 12 + [EPSILON_INTERVAL, DELTA_INTERVAL] + [RDP] * 3)
        relation = self._one([ADD_REMOVE] * 4 + [REPLACE_ONE] * 4 + [ZERO_OUT, ""])
        number = self._one([1, 1, 1, 1, 1, 2, 2, 3, 4])
        method = self._one(["best", "best", "exact", "rdp"]) if question in (EPSILON, DELTA) else "best"
        by_rdp = method == "rdp" or question == RDP
        parts = tuple(self._lighter(self._part(relation), relation, by_rdp=by_rdp) for _ in range(number))
        return Case(question=question, parts=parts, value=self._value(question), method=method)

    def _lighter(self, part: Part, relation: str, *, by_rdp: bool) -> Part:
        """Return another part, mostly, in place of one that takes seconds."""
        for _ in range(3):
            if not heavy(part, by_rdp=by_rdp) or self._chance(0.015):
                break
            part = self._part(relation)
        return part

    def _value(self, question: str) -> float:
        if question in AT_DELTA:
            deep = self._log(1e-300, 1e-20) if question == EPSILON or self._chance(0.2) else self._log(1e-15, 0.3)
            return float(self._one([0.0, deep, self._log(1e-20, 0.9), self._log(1e-9, 0.3)]))
        if question == RDP:
            next_to_one = 1 + self._log(1e-15, 1e-3)
            return float(
                self._one([1.0, next_to_one, math.inf, self._integer(2, 64), *[1 + self._log(1e-3, 300.0)] * 3])
            )
        return float(self._one([0.0, self._log(1e-9, 1e3), self._log(1e-2, 20.0), self._log(0.05, 5.0)]))

    def _part(self, relation: str) -> Part:
        kind = self._one(
            [GAUSSIAN] * 4
            + [LAPLACE] * 2
            + [RANDOMIZED_RESPONSE, PURE, PURE]
            + [APPROXIMATE] * 2
            + [STATED] * 4
            + [ZCDP, CURVE]
        )
        if self._chance(0.03):
            relation = self._one([ADD_REMOVE, REPLACE_ONE, ""])
        numbers = self._numbers(kind)
        stated = self._one(["", relation]) if kind == STATED else ""
        return Part(
            kind=kind,
            numbers=tuple(numbers),
            steps=self._steps(kind, relation),
            count=self._count(),
            relation=stated,
        )

    def _count(self) -> int:
        among = [(1, 1), (1, 1), (1, 1), (2, 6), (2, 6), (3, 20), (20, 300), (10, 10_000), (1000, 10**9)]
        low, high = among[self._generator.integers(len(among))]
        return self._integer(low, high)

    def _numbers(self, kind: str) -> Sequence[float]:
        if kind == STATED:
            p, q = self._tables()
            return [*p, *q]
        if kind == CURVE:
            return self._curve()
        among: dict[str, list[Sequence[float]]] = {
            GAUSSIAN: [[self._log(0.05, 1e4), self._log(0.3, 20.0), self._log(0.3, 20.0), 1.0]],
            LAPLACE: [[self._log(0.01, 1e4), self._log(0.3, 20.0), 1.0]],
            RANDOMIZED_RESPONSE: [[self._uniform(0.01, 0.99), 0.5 + self._log(1e-12, 0.4), 1 - self._log(1e-12, 0.1)]],
            PURE: [[self._epsilon()]],
            APPROXIMATE: [[self._epsilon()], [0.0, self._log(1e-300, 1.0), self._log(1e-12, 0.1), 1e-300, 0.5]],
            ZCDP: [[0.0, self._log(1e-6, 100.0)], [0.0, 0.0, self._log(1e-6, 10.0)]],
        }
        return [self._one(values) for values in among[kind]]

    def _epsilon(self) -> float:
        return float(self._one([self._log(1e-9, 2000.0), self._log(0.01, 5.0), self._log(0.01, 5.0), 0.0]))

    def _curve(self) -> list[float]:
        orders = sorted({1 + self._log(0.05, 200.0) for _ in range(self._integer(1, 5))})
        rows = [number for order in orders for number in (order, self._log(1e-6, 5.0))]
        return rows + ([math.inf, self._log(1e-3, 20.0)] if self._chance(0.2) else [])

    def _tables(self) -> tuple[list[float], list[float]]:
        """Return two tables of dyadic numbers that add up to 1 exactly; a rest below them is the exception."""
        shape = self._one(["any", "any", "near", "near", "zeros", "zeros", "denormal"])
        outputs = self._integer(2, 5) if self._chance(0.85) else self._integer(*self._one([(6, 40), (900, 4000)]))
        p = self._masses(outputs)
        if shape == "near":
            return _shifted(p, 2.0 ** -self._integer(3, 51))
        q = self._masses(outputs)
        if shape == "zeros":
            for table in (p, q)[: self._integer(1, 2)]:
                where, whereto = (int(i) for i in self._generator.permutation(outputs)[:2])
                table[whereto] += table[where]
                table[where] = 0.0
        if shape == "denormal":
            table = (p, q)[self._integer(0, 1)]
            table[1 if len(table) == 2 else 2] += table[0]
            table[0] = self._one([5e-324, 1e-320, 1e-310, 1e-300])
        return p, q

    def _masses(self, outputs: int) -> list[float]:
        bits = self._one([3, 10, 30, 50] if outputs <= FEW_OUTPUTS else [30, 50])
        parts = self._generator.dirichlet([0.7] * outputs)
        whole = [max(1, int(part * 2**bits)) for part in parts]
        largest = whole.index(max(whole))
        whole[largest] += 2**bits - sum(whole)
        if whole[largest] < 1:  # too many outputs for so few bits
            return [*[2.0**-k for k in range(1, outputs)], 2.0 ** (1 - outputs)]
        return [math.ldexp(part, -bits) for part in whole]

    def _steps(self, kind: str, relation: str) -> tuple[Step, ...]:
        steps: list[Step] = []
        schemes = self._one([0, 0, 1, 1, 1, 1, 2])
        if schemes and self._chance(0.06):
            steps.append(Step(word=TIMES, numbers=(self._integer(1, 4),)))
        outer = self._scheme(relation) if schemes else None
        if outer is not None and schemes > 1:
            steps.append(self._inner(outer.word))
        if outer is not None:
            steps.append(outer)
        if self._chance(0.12):
            steps.append(Step(word=GROUP, numbers=(self._one([1, 2, 3, self._integer(1, 50)]),)))
        return tuple(steps)

    def _scheme(self, relation: str) -> Step:
        word = self._one([POISSON] * 6 + [WITHOUT, SHARE] * 2 + [WITH])
        natural = ADD_REMOVE if word == POISSON else REPLACE_ONE
        return self._sampled(word, "" if relation == natural and self._chance(0.5) else relation)

    def _inner(self, outer: str) -> Step:
        """Return a scheme inside another: Poisson samples hold what is for add-or-remove-one, others replace-one."""
        if outer == POISSON:
            return self._sampled(POISSON, self._one(["", ADD_REMOVE]))
        return self._sampled(self._one([POISSON, WITHOUT, SHARE]), REPLACE_ONE)

    def _sampled(self, word: str, relation: str) -> Step:
        if word in (WITHOUT, WITH):
            population = self._one([self._integer(2, 20), int(self._log(2, 1e6))])
            most = min(population, 12) if word == WITH else population
            return Step(word=word, numbers=(self._integer(1, max(1, most)), population), relation=relation)
        rate = self._one([self._log(1e-4, 1.0), self._uniform(0.01, 0.99), self._log(1e-12, 1.0), 1 - 1e-12, 1.0, 0.5])
        return Step(word=word, numbers=(rate,), relation=relation)

    def _one(self, values: Sequence[Any]) -> Any:
        return values[int(self._generator.integers(len(values)))]

    def _chance(self, probability: float) -> bool:
        return bool(self._generator.random() < probability)

    def _integer(self, low: int, high: int) -> int:
        if high > 1000:
            return int(math.exp(self._generator.uniform(math.log(max(low, 1)), math.log(high))))
        return int(self._generator.integers(low, high + 1))

    def _uniform(self, low: float, high: float) -> float:
        return float(f"{self._generator.uniform(low, high):.5g}")

    def _log(self, low: float, high: float) -> float:
        return float(f"{math.exp(self._generator.uniform(math.log(low), math.log(high))):.5g}")


def heavy(part: Part, *, by_rdp: bool) -> bool:
    """Whether a bound by moments alone, of something with no formula for them, will be asked for."""
    schemes = [step for step in part.steps if step.word not in (GROUP, TIMES)]
    if not schemes:
        return False
    grouped = any(step.word == GROUP and step.numbers[0] > 1 for step in part.steps)
    nested = len(schemes) > 1 or any(step.word == TIMES for step in part.steps)
    replaced = schemes[-1].relation != ADD_REMOVE and (schemes[-1].relation or schemes[-1].word != POISSON)
    known = part.kind in (GAUSSIAN, LAPLACE, RANDOMIZED_RESPONSE, PURE)
    if part.kind == GAUSSIAN and schemes[-1].word == POISSON and not replaced:
        return False
    odd = schemes[-1].word == POISSON and part.kind != GAUSSIAN
    return grouped or bool(replaced and (nested or part.kind in (ZCDP, CURVE) or odd or (by_rdp and not known)))


def _shifted(p: list[float], by: float) -> tuple[list[float], list[float]]:
    """Return a table and one that differs from it by a power of two in two places, if doubles hold it."""
    first, second = p[0] + by, p[-1] - by
    if second > 0 and first - p[0] == by and p[-1] - second == by and first < 1:
        return [first, *p[1:-1], second], p
    return p, p


# Simpler cases --------------------------------------------------------------------------------------------------------


def simpler(case: Case) -> list[Case]:
    """Return cases with less in them: fewer parts, steps and times, rounder numbers."""
    parts = case.parts
    found = [replace(case, parts=parts[:i] + parts[i + 1 :]) for i in range(len(parts)) if len(parts) > 1]
    for i, part in enumerate(parts):
        found += [replace(case, parts=(*parts[:i], other, *parts[i + 1 :])) for other in _simpler_parts(part)]
    if case.method != "best":
        found.append(replace(case, method="best"))
    found += [replace(case, value=value) for value in _rounder(case.value) if value >= 1 or case.question != RDP]
    return [other for other in found if other != case]


def _simpler_parts(part: Part) -> list[Part]:
    some = [replace(part, count=count) for count in _smaller(part.count)]
    some += [replace(part, steps=part.steps[:i] + part.steps[i + 1 :]) for i in range(len(part.steps))]
    for i, step in enumerate(part.steps):
        some += [
            replace(part, steps=(*part.steps[:i], replace(step, numbers=numbers), *part.steps[i + 1 :]))
            for numbers in _simpler_numbers(step)
        ]
    if part.kind not in (STATED, CURVE):
        for i, number in enumerate(part.numbers):
            rounder = [1.0, 0.0, *_rounder(number)] if part.kind != RANDOMIZED_RESPONSE else [0.75, *_rounder(number)]
            some += [replace(part, numbers=(*part.numbers[:i], other, *part.numbers[i + 1 :])) for other in rounder]
        some = [other for other in some if _legal(other)]
    return some


def _legal(part: Part) -> bool:
    if part.kind in (GAUSSIAN, LAPLACE):
        return part.numbers[0] > 0
    if part.kind == RANDOMIZED_RESPONSE:
        return 0 < part.numbers[0] < 1
    return part.kind != APPROXIMATE or part.numbers[1] <= 1


def _simpler_numbers(step: Step) -> list[tuple[Number, ...]]:
    if step.word in (GROUP, TIMES):
        return [(number,) for number in _smaller(int(step.numbers[0]))]
    if step.word in (WITHOUT, WITH):
        batch, population = (int(number) for number in step.numbers)
        some = [(1, 2), (1, population), (max(1, round(10 * batch / population)), 10)]
        return [(m, n) for m, n in some if n <= population and (m, n) != (batch, population)]
    return [(rate,) for rate in (0.5, *_rounder(float(step.numbers[0]))) if rate <= 1 and rate != step.numbers[0]]


def _smaller(count: int) -> list[int]:
    return sorted({n for n in (1, 2, 3, 10, count // 10, count // 2, count - 1) if 0 < n < count})


def _rounder(value: float) -> list[float]:
    if not math.isfinite(value):
        return []
    return [rounded for digits in (1, 2, 3) if (rounded := float(f"{value:.{digits}g}")) != value]
