"""Every number that a command prints is read back, and the library is asked what it costs: it keeps its promise.

CUMULANT_SLOW=1 draws fifty times as many command lines, and rare samples of Laplace noise, whose
certificates take seconds. A number that no reader here knows is a failure, too.
"""

from __future__ import annotations

import math
import os
import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache

import pytest

import cumulant as cm
from cli_runner import answered, call
from cumulant.answer import Interval
from cumulant.mechanisms.base import AbstractMechanism
from cumulant.training import torch_coin

SLOW = bool(os.environ.get("CUMULANT_SLOW"))
LINES_A_SEED = 20
SEEDS = range(100 if SLOW else 2)
NUMBER = r"\d+(?:\.\d+)?(?:e[-+]?\d+)?"
# What is no answer: theorems and their years, what torch.rand has, the sum of no records.
CITED = re.compile(
    r"\([^()]*\b(?:19|20)\d\d[^()]*\)|(?:Theorem|Proposition|Corollary|Remark|Lemma)s? [\d., and]+|2\^-24"
    r"|1/len\(loader\)|\b(?:19|20)\d\d\b|at most 1 % of outsiders|at an order near [\d.e+]+|at order [\d.e+]+"
)
NOISES = {"gaussian": "noise-multiplier", "laplace": "scale", "randomized-response": "p"}
LOADERS = {"opacus": "poisson", "poisson": "poisson", "fixed": "without_replacement", "allocation": "random_allocation"}
LOADERS |= {"shuffled": "shuffled"}


@dataclass(frozen=True)
class Line:
    """A command line, what it runs once the number that it searches is put in, and its question."""

    text: str
    run: Callable[..., AbstractMechanism]
    delta: str = "1e-05"
    epsilon: float = 1.0


class Draw:
    """Numbers with few digits and with many."""

    def __init__(self, seed: int) -> None:
        self.of = random.Random(seed)

    def number(self, low: float, high: float) -> float:
        value = math.exp(self.of.uniform(math.log(low), math.log(high)))
        return float(f"{value:.{self.of.choice((1, 3, 6, 16))}e}")

    def delta(self) -> str:
        return repr(self.number(1e-9, 1e-2))

    def release(
        self, *, searched: bool = False, sampled: bool = False
    ) -> tuple[str, Callable[[float], AbstractMechanism]]:
        """Return options and a mechanism; with `searched` its noise is left out."""
        kinds = ("gaussian", "randomized-response") if sampled and not SLOW else tuple(NOISES)
        kind = self.of.choice(kinds)
        value = self.number(0.6, 0.95) if kind == "randomized-response" else self.number(0.8, 20.0)
        name = NOISES[kind]
        build: Callable[[float], AbstractMechanism] = {
            "gaussian": lambda x: cm.Gaussian(noise_multiplier=x),
            "laplace": lambda x: cm.Laplace(scale=x),
            "randomized-response": lambda x: cm.RandomizedResponse(p=x),
        }[kind]
        options = f"--mechanism {kind}"
        return (options, build) if searched else (f"{options} --{name} {value!r}", lambda _: build(value))

    def sampling(self, release: str) -> tuple[str, Callable[[AbstractMechanism], AbstractMechanism]]:
        """Return options and what they make of a release."""
        rate = self.number(1e-3 if SLOW else 0.03, 0.5)
        if "laplace" in release and not SLOW:
            return "", lambda one: one
        return self.of.choice(
            (
                ("", lambda one: one),
                (f"--rate {rate!r}", lambda one: one.poisson(rate=rate)),
                (f"--sampling without-replacement --rate {rate!r}", lambda one: one.without_replacement(rate=rate)),
            )
        )


# The command lines ------------------------------------------------------------------------------------------------


def asked_epsilon(draw: Draw) -> Line:
    release, build = draw.release()
    (sampling, drawn), n = draw.sampling(release), draw.of.randint(1, 20)
    delta = draw.delta()
    return Line(f"epsilon {release} {sampling} --steps {n} --delta {delta}", lambda: drawn(build(0)) * n, delta)


def asked_delta(draw: Draw) -> Line:
    release, build = draw.release()
    (sampling, drawn), n = draw.sampling(release), draw.of.randint(1, 20)
    epsilon = draw.number(0.01, 5.0)
    text = f"delta {release} {sampling} --steps {n} --epsilon {epsilon!r}"
    return Line(text, lambda: drawn(build(0)) * n, epsilon=epsilon)


def asked_noise(draw: Draw) -> Line:
    release, build = draw.release(searched=True)
    (sampling, drawn), n = draw.sampling(release), draw.of.randint(1, 20)
    epsilon, delta = draw.number(0.2, 5.0), draw.delta()
    text = f"noise {release} {sampling} --steps {n} --epsilon {epsilon!r} --delta {delta}"
    return Line(text, lambda x: drawn(build(x)) * n, delta, epsilon)


def asked_steps(draw: Draw) -> Line:
    release, build = draw.release()
    (sampling, drawn) = draw.sampling(release)
    epsilon, delta = draw.number(0.5, 5.0), draw.delta()
    text = f"steps {release} {sampling} --epsilon {epsilon!r} --delta {delta}"
    return Line(text, lambda n: drawn(build(0)) * n, delta, epsilon)


def asked_rate(draw: Draw) -> Line:
    (release, build), n = draw.release(sampled=True), draw.of.randint(1, 20)
    epsilon, delta = draw.number(0.5, 5.0), draw.delta()
    text = f"rate {release} --steps {n} --epsilon {epsilon!r} --delta {delta}"
    return Line(text, lambda q: build(0).poisson(rate=q) * n, delta, epsilon)


def asked_compare(draw: Draw) -> Line:
    (release, build), n, delta = draw.release(), draw.of.randint(1, 10), draw.delta()
    return Line(f"compare {release} --steps {n} --delta {delta}", lambda: build(0) * n, delta)


def asked_sgd(draw: Draw) -> Line:
    loader, delta, n = draw.of.choice(list(LOADERS)), draw.delta(), draw.of.randint(100, 60_000)
    b, epochs = draw.of.randint(max(1, n // 200), max(1, n // 4)), draw.of.randint(1, 5)
    sizes = {"batch_size": b, "dataset_size": n, "epochs": epochs}
    plan = f"--batch-size {b} --dataset-size {n} --epochs {epochs} --delta {delta} --loader {loader}"
    bins = "fresh" if loader == "allocation" else None
    plan += " --bins fresh" if bins else ""

    def run(x: float) -> AbstractMechanism:
        if loader == "opacus":
            batches = math.ceil(n / b)
            return cm.dp_sgd(noise_multiplier=x, sample_rate=torch_coin(1 / batches), steps=epochs * batches)
        return cm.dp_sgd(noise_multiplier=x, **sizes, sampling=LOADERS[loader], bins=bins)  # type: ignore[arg-type]

    if draw.of.random() < 0.5:
        epsilon = draw.number(0.3, 5.0)
        return Line(f"sgd --epsilon {epsilon!r} {plan}", run, delta, epsilon)
    noise = draw.number(0.5, 10.0)
    return Line(f"sgd --noise-multiplier {noise!r} {plan}", lambda x=noise: run(x), delta)


COMMANDS = (asked_epsilon, asked_delta, asked_noise, asked_steps, asked_rate, asked_compare, asked_sgd)


# Reading them back ------------------------------------------------------------------------------------------------


class Reading:
    """A printed text from which numbers are taken until none is left."""

    def __init__(self, text: str, line: Line) -> None:
        self.text, self.line = " ".join(text.split()), line
        self.left = CITED.sub(" ", self.text)

    def taken(self, pattern: str) -> list[str]:
        """Return the numbers at a place and take them, with what else the pattern reads, from what is left."""
        whole = pattern.replace("#", f"({NUMBER}|inf)")
        found = re.findall(whole, self.left)
        self.left = re.sub(whole, " ", self.left)
        return [one if isinstance(one, str) else one[0] for one in found]

    def all_pairs(self, pattern: str) -> list[tuple[str, ...]]:
        whole = pattern.replace("#", f"({NUMBER}|inf)")
        found = re.findall(whole, self.left)
        self.left = re.sub(whole, " ", self.left)
        return found

    def forget_what_was_typed(self) -> None:
        typed = {float(word) for word in re.findall(NUMBER, self.line.text)}
        self.left = re.sub(NUMBER, lambda one: " " if float(one[0]) in typed else one[0], self.left)


@lru_cache(maxsize=8)
def certified(run: AbstractMechanism, delta: str) -> Interval:
    """Return ε from both sides; where no pair is known, what Rényi DP proves."""
    try:
        return run.epsilon_interval(delta=float(delta))
    except (cm.UnprovenCombination, cm.OutOfReach):
        return Interval(0.0, run.epsilon(delta=float(delta)))


def keeps_budget(run: AbstractMechanism, line: Line) -> bool:
    """Return whether a searched run, with the digits that are printed, is within what is printed beside them."""
    return bool(min(run.epsilon(delta=float(line.delta)), certified(run, line.delta).upper) <= line.epsilon)


def words_cost(reading: Reading) -> None:
    """Take the release as it is described: it is the run, or one with no less noise."""
    reading.taken(r"(?<![\d.])# x (?:Gaussian|Laplace|a rand|an epoch)")
    for word in ("noise of # x", "probability #", "fixed size, #", "true with probability #"):
        reading.taken(word)


def check_people(command: Callable[[Draw], Line], line: Line) -> None:
    reading = Reading(call(line.text).stdout, line)
    read_attack(reading, line, command)
    if command is asked_epsilon:
        (epsilon,) = reading.taken(r"^epsilon = #")
        assert Decimal(certified(line.run(), line.delta).lower) <= Decimal(epsilon)
    elif command is asked_delta:
        (delta,) = reading.taken(r"^delta = #")
        run = line.run()
        assert delta == "0" or run.log_delta(epsilon=line.epsilon) <= Decimal(delta).ln() + Decimal("1e-14")
        assert Decimal(run.delta_interval(epsilon=line.epsilon).lower) <= Decimal(delta)
    elif command is asked_noise:
        ((_, value),) = reading.all_pairs(r"^(noise multiplier|scale|p) = #")
        run = line.run(float(value))
        assert keeps_budget(run, line), value
        (spent,) = reading.taken(r"spends epsilon = #")
        assert certified(run, line.delta).lower <= float(spent)
    elif command is asked_steps:
        (count,) = reading.taken(r"^steps = #")
        assert keeps_budget(line.run(int(count)), line)
        (spent,) = reading.taken(r"spends epsilon = #")
        assert certified(line.run(int(count)), line.delta).lower <= float(spent)
        (more,) = reading.taken(r"one more epsilon = #")
        assert certified(line.run(int(count) + 1), line.delta).lower <= float(more)
        assert line.epsilon < float(more)
    elif command is asked_rate:
        (rate,) = reading.taken(r"^rate = #")
        assert keeps_budget(line.run(float(rate)), line), rate
        (spent,) = reading.taken(r"spends epsilon = #")
        assert certified(line.run(float(rate)), line.delta).lower <= float(spent)
    elif command is asked_compare:
        read_table(reading, line)
    elif command is asked_sgd:
        read_training(reading, line)
    reading.taken(r"at most # % above")
    words_cost(reading)
    reading.forget_what_was_typed()
    assert re.findall(NUMBER, reading.left) == [], reading.text


def read_attack(reading: Reading, line: Line, command: Callable[[Draw], Line]) -> None:
    percents, advantages = reading.taken(r"finds at most # % of members"), reading.taken(r"positives are at most #")
    assert len(percents) == len(advantages) == (command is asked_sgd)
    if command is not asked_sgd or "--epsilon" in line.text:
        return
    run = line.run()
    assert 100 * run.true_positive_rate(false_positive_rate=0.01) * (1 - 1e-15) <= float(percents[0]) <= 100
    assert run.advantage() <= float(advantages[0]) <= 1


def read_table(reading: Reading, line: Line) -> None:
    truth = certified(line.run(), line.delta)
    rows = reading.taken(r"(?:composition|by Mironov|et al\.|optimal conversion|exact) #")
    assert len(rows) == 7
    for row in rows:
        assert truth.lower <= float(row)
    for lower in reading.taken(r"certified: not below #"):
        assert float(lower) <= truth.lower
    (best,) = reading.taken(r"best proven: epsilon = #")
    assert truth.lower <= float(best)


def read_training(reading: Reading, line: Line) -> None:
    (noise,) = reading.taken(r"noise # x the clipping norm")
    (effective,) = reading.taken(r"effective noise multiplier is #(?=\.)")
    factors = reading.taken(r"e\^epsilon = #(?=, plus)")
    run = line.run(float(noise))
    halved = run.parts[0][0].mechanism.noise_multiplier  # type: ignore[attr-defined]
    if "shuffled" in line.text:
        halved /= 2
        reading.taken(r"to have epsilon = # \(add-or-remove-one\)")
    assert float(effective) == pytest.approx(halved, rel=1.1e-9)  # rounded up apart
    assert "--epsilon" in line.text or float(effective) == halved
    cost = certified(run, line.delta)
    if "--epsilon" in line.text:
        (headline,) = reading.taken(r"^noise multiplier = #")
        assert headline == noise
        assert keeps_budget(run, line), noise
    else:
        (epsilon,) = reading.taken(r"^epsilon = #")
        assert cost.lower <= float(epsilon)
    for factor in factors:
        assert Decimal(cost.lower).exp() <= Decimal(factor)
    reading.taken(r"(?:Poisson|replacement), # steps")
    reading.taken(r"# epochs? begun, ")
    for records in reading.taken(r"not below 1/#(?=:)"):
        assert float(line.delta) >= 1 / int(records)
    reading.taken(r"^| # steps")


def check_programs(command: Callable[[Draw], Line], line: Line) -> None:
    """The document has doubles, which need no rounding; texts in it are those that people read."""
    content = answered(line.text)
    answer = content["answer"]
    run = cm.from_dict(content["mechanism"])
    assert run.to_dict() == content["mechanism"]
    if "epsilon" in answer:
        assert certified(run, line.delta).lower <= float(answer["epsilon"])
    searched: dict[Callable[[Draw], Line], tuple[str, ...]] = {
        asked_noise: ("noise_multiplier", "scale", "p"),
        asked_rate: ("rate",),
        asked_steps: ("steps",),
    }
    for name in searched.get(command, ()):
        if name in answer:
            assert keeps_budget(line.run(answer[name]), line)
    if command is asked_delta:
        assert run.delta_interval(epsilon=line.epsilon).lower <= answer["delta"]
    if command is asked_sgd:
        printed = Reading(" ".join(f"{label} {text}" for label, text in content["statement"].items()), line)
        (noise,) = printed.taken(r"noise # x the clipping norm")
        assert "--epsilon" not in line.text or keeps_budget(line.run(float(noise)), line)


@pytest.mark.parametrize("seed", SEEDS)
def test_printed_numbers_keep_their_promise(seed: int) -> None:
    for place in range(LINES_A_SEED):
        draw = Draw(1000 * seed + place)
        command = COMMANDS[place % len(COMMANDS)]
        line = command(draw)
        try:
            (check_programs if draw.of.random() < 0.25 else check_people)(command, line)
        except AssertionError as error:
            raise AssertionError(f"cumulant {line.text}") from error
