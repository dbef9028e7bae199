"""The fast hunt: its truth against enumeration, mpmath and closed forms, its verdicts on known holes, its processes."""

from __future__ import annotations

import json
import math
import sys
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flint import ctx
from mpmath import mp, mpf

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks import fast_cases as fc
from benchmarks import fast_hunt, fast_worker
from benchmarks.__main__ import main
from benchmarks.checks import BELOW, BEYOND, CRASH, NOT_EXACT, SOUND, TIMEOUT, Outcome
from benchmarks.fast_cases import Case, Part, Step, drawn, simpler
from benchmarks.fast_checks import BARELY, BESIDE, verdict
from benchmarks.fast_truth import Run, _on_lattice
from benchmarks.fast_truth_finite import enumerated, terms_of, windowed
from benchmarks.fast_truth_laws import AnyLaw, Binary, Laplace, Law, Normal, Table, binomial, opposite
from benchmarks.fast_truth_line import Beyond, estimated
from benchmarks.fast_truth_renyi import divergence
from benchmarks.moments import renyi_divergence
from benchmarks.reference import _bounds as lattice_bounds
from benchmarks.runs import ADD_REMOVE, GAUSSIAN, LAPLACE, POISSON, RANDOMIZED_RESPONSE, REPLACE_ONE, Release

F = Fraction
ONE = F(1)
SKEW = Table((F(1, 8), F(7, 8)), (F(1, 2), F(1, 2)))
HALVES = (0.125, 0.875, 0.5, 0.5)


@pytest.fixture(autouse=True)
def _precision() -> Any:
    old, ctx.prec = ctx.prec, 128
    yield
    ctx.prec = old


def step(word: str, *numbers: float, relation: str = "") -> Step:
    return Step(word=word, numbers=numbers, relation=relation)


def part(kind: str, *numbers: float, steps: tuple[Step, ...] = (), count: int = 1, relation: str = "") -> Part:
    return Part(kind=kind, numbers=numbers, steps=steps, count=count, relation=relation)


def brute(laws: list[list[tuple[Fraction, Fraction]]], t: Fraction) -> Fraction:
    """δ of a product by its definition: every sequence of outputs."""
    terms = product(*laws)
    return sum((max(F(0), math.prod(a for a, _ in w) - t * math.prod(b for _, b in w)) for w in terms), F(0))


def pairs(table: Table, rate: Fraction = ONE, *, joins: bool = False) -> list[tuple[Fraction, Fraction]]:
    mixed = [((1 - rate) * q + rate * p, q) for p, q in zip(table.p, table.q, strict=True)]
    return [(b, a) for a, b in mixed] if joins else mixed


def close(value: Any, true: Any, relative: float = 1e-15) -> None:
    assert abs(float(value) - float(true)) <= relative * abs(float(true)) + 1e-300


# The truth ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("joins", [False, True])
def test_products_of_tables_are_enumerated(joins: bool) -> None:
    three = Table((F(1, 2), F(1, 4), F(1, 4)), (F(0), F(3, 4), F(1, 4)))
    rate, t = F(1, 3), F(5, 4)
    laws = [(Law(SKEW, rate, joins=joins), 3), (Law(three, joins=joins), 2)]
    true = brute([pairs(SKEW, rate, joins=joins)] * 3 + [pairs(three, joins=joins)] * 2, t)
    close(enumerated(laws, _ball(t)), true)
    assert terms_of(laws) <= 4 * 6


def test_long_sums_of_two_outputs_are_the_whole_sum() -> None:
    law, n = Law(Binary(F(1, 4))), 400
    found = windowed(law, n, _ball(F(3)))
    assert found is not None
    assert found.upper is not None
    whole = enumerated([(law, n)], _ball(F(3)))
    assert not found.lower > whole
    assert not found.upper < whole
    close(found.lower, whole)
    close(found.upper, whole)


def _ball(number: Fraction) -> Any:
    from benchmarks.fast_truth_laws import ball

    return ball(number)


def normal_mixture(parts: list[tuple[float, float]], others: list[tuple[float, float]], t: float) -> float:
    """H_t of two mixtures of N(m, 1), by a sum over a fine grid."""
    x = np.linspace(-12.0, 16.0, 2_000_001)
    p, q = (sum(w * np.exp(-((x - m) ** 2) / 2) for m, w in some) for some in (parts, others))
    return float(np.sum(np.maximum(p - t * q, 0.0))) * 28.0 / 2_000_000 / math.sqrt(2 * math.pi)


@pytest.mark.parametrize("t", [1.0, 1.25, 2.0])
def test_one_release_of_sampled_noise(t: float) -> None:
    mu, rate = 0.75, 0.25
    sampled, none = [(0.0, 1 - rate), (mu, rate)], [(0.0, 1.0)]
    base, ball = Normal(F(mu) ** 2), _ball(F(t))
    close(Law(base, F(rate)).hockey_stick(ball), normal_mixture(sampled, none, t), 1e-8)
    close(Law(base, F(rate), joins=True).hockey_stick(ball), normal_mixture(none, sampled, t), 1e-8)
    close(
        opposite(F(mu) ** 2, F(rate)).hockey_stick(ball), normal_mixture(sampled, [(0.0, 0.75), (-mu, 0.25)], t), 1e-5
    )
    pair = binomial(F(mu) ** 2, F(rate), 2)
    grouped = [(0.0, 0.5625), (mu, 0.375), (2 * mu, 0.0625)]
    close(pair[0].hockey_stick(ball), normal_mixture(grouped, none, t), 1e-8)
    close(pair[1].hockey_stick(ball), normal_mixture(none, grouped, t), 1e-8)
    theta, x = 1.5, F(1.5)
    close(Law(Laplace(x)).hockey_stick(ball), max(0.0, 1 - math.sqrt(t) * math.exp(-theta / 2)))


def test_mixtures_of_one_record_are_the_closed_form() -> None:
    ball = _ball(F(9, 8))
    for mixture, joins in zip(binomial(F(1), F(1, 4), 1), (False, True), strict=True):
        close(mixture.hockey_stick(ball), Law(Normal(F(1)), F(1, 4), joins=joins).hockey_stick(ball))


def test_the_integral_agrees_with_a_mixture_of_closed_forms() -> None:
    """Randomized response three times and a Gaussian: a binomial mixture of shifted profiles."""
    theta, epsilon, n = 0.5, 1.0, 3
    law, noise = Law(Binary(F(theta))), Normal(F(1, 2))
    estimate = estimated([(Law(noise), 1), (law, n)], epsilon)
    p = 1 / (1 + math.exp(-theta))
    true = mpf(0)
    for k in range(n + 1):
        weight, loss = math.comb(n, k) * p**k * (1 - p) ** (n - k), (2 * k - n) * theta
        true += weight * _gaussian_delta(math.sqrt(0.5), epsilon - loss)
    close(math.exp(estimate.log_value), true, 1e-9)
    assert estimate.error <= 1e-8


def _gaussian_delta(mu: float, epsilon: float) -> Any:
    with mp.workdps(40):
        m, e = mpf(mu), mpf(epsilon)
        return mp.ncdf(-e / m + m / 2) - mp.exp(e) * mp.ncdf(-e / m - m / 2)


def test_the_integral_of_the_documented_run() -> None:
    """2.66557192476e-6 in docs/exact.md."""
    law = Law(Normal(F(1)), F(0.01))
    close(math.exp(estimated([(law, 1000)], 2.0).log_value), 2.66557192476e-6, 1e-10)


def test_the_integral_is_not_taken_for_its_aliases() -> None:
    """Its logarithm is -245.28, summed over both outputs; a step and its half both saw -194.76."""
    law = Law(Normal(F(1, 16)), F(0.02))
    with pytest.raises(Beyond):
        estimated([(law, 2)], 1.718169067134473)


def test_the_integral_lies_between_the_bounds_of_a_lattice() -> None:
    generator = np.random.default_rng(5)
    found = 0
    for _ in range(12):
        mu, rate, epsilon = (float(np.exp(generator.uniform(*ends))) for ends in ((-3, 0), (-4, -0.1), (-2, 2)))
        law = Law(Normal(F(mu) ** 2), F(rate), joins=bool(generator.random() < 0.5))
        parts: list[tuple[AnyLaw, int]] = [(law, int(generator.integers(20, 2000))), (Law(Binary(F(1, 3))), 2)]
        try:
            value = estimated(parts, epsilon).log_value
        except Beyond:
            continue
        bracket = lattice_bounds([(_on_lattice(one), n) for one, n in parts], epsilon, 2**12)
        assert bracket.lower - 1e-8 * abs(value) <= value <= bracket.upper + 1e-8 * abs(value)
        found += 1
    assert found >= 4


@pytest.mark.parametrize(("kind", "number"), [(GAUSSIAN, 2.0), (LAPLACE, 0.8), (RANDOMIZED_RESPONSE, 0.75)])
def test_divergences(kind: str, number: float) -> None:
    release = Release(kind=kind, parameter=number, sampling=POISSON, rate=0.25)
    run = Run([part(kind, number, steps=(step(fc.POISSON, 0.25),))])
    for order in (1.04, 1.5, 4.0):
        close(run.renyi(order), renyi_divergence(release, order), 2e-11)
    assert divergence(Law(Binary(F(2), F(1, 8))), 2.0) == math.inf


# What may happen ------------------------------------------------------------------------------------------------------


def test_every_release_may_turn_its_pair_where_no_relation_forbids_it() -> None:
    """δ of n asymmetric releases is the largest over how many are turned, each by brute force."""
    n, t = 4, F(2)
    turned = [brute([pairs(SKEW)] * (n - k) + [pairs(SKEW, joins=True)] * k, t) for k in range(n + 1)]
    epsilon = math.log(2)
    free = Run([part(fc.STATED, *HALVES, count=n)])
    close(free.delta(epsilon).lower, max(turned), 1e-14)
    assert not free.tight
    bound = Run([part(fc.STATED, *HALVES, count=n, relation=ADD_REMOVE)])
    close(bound.delta(epsilon).lower, max(turned[0], turned[-1]), 1e-14)
    assert bound.tight


def test_a_batch_of_fixed_size_holds_mechanisms_for_replace_one() -> None:
    """Data {x, a} against {x}: the worst of both orders, log 5/2 for P, Q as they are and log 1.25+... reversed."""
    sampled = (step(fc.WITHOUT, 1, 2, relation=ADD_REMOVE),)
    run = Run([part(fc.STATED, *HALVES, steps=sampled)])
    ratios = [a / b for table in (SKEW, Table(SKEW.q, SKEW.p)) for a, b in pairs(table, F(1, 2))]
    largest = max(math.log(ratio) for ratio in [*ratios, *(1 / ratio for ratio in ratios)])
    close(run.largest_loss()[0], largest)


def test_nested_poisson_samples_are_one() -> None:
    twice = part(GAUSSIAN, 1.0, steps=(step(fc.POISSON, 0.5), step(fc.POISSON, 0.25, relation=REPLACE_ONE)))
    once = part(GAUSSIAN, 1.0, steps=(step(fc.POISSON, 0.125, relation=REPLACE_ONE),))
    assert float(Run([twice]).delta(0.5).lower) == float(Run([once]).delta(0.5).lower)


def test_more_tells_more() -> None:
    """Groups, rates, counts and further parts never lower the truth."""
    noise = part(GAUSSIAN, 2.0, steps=(step(fc.POISSON, 0.25),), count=20)
    more = [
        [part(GAUSSIAN, 2.0, steps=(step(fc.POISSON, 0.5),), count=20)],
        [part(GAUSSIAN, 2.0, steps=(step(fc.POISSON, 0.25), step(fc.GROUP, 2)), count=20)],
        [part(GAUSSIAN, 2.0, steps=(step(fc.POISSON, 0.25),), count=21)],
        [noise, part(fc.PURE, 0.1)],
    ]
    least = Run([noise]).delta(1.0)
    assert all(Run(parts).delta(1.0).lower > least.lower for parts in more)


# Verdicts -------------------------------------------------------------------------------------------------------------

C, D = 0.3125, 2.0**-40
SAMPLED = (step(fc.POISSON, 0.1),)
BATCH = (step(fc.WITHOUT, 1, 2, relation=ADD_REMOVE),)
REPLACED = (step(fc.POISSON, 0.1), step(fc.POISSON, 1.0, relation=REPLACE_ONE))
HOLES: list[tuple[str, Part, float, Any, Any, str]] = [
    (fc.DELTA, part(fc.APPROXIMATE, 800.0, 1e-3, steps=SAMPLED, count=5), 10.0, 0.00049990, 0.4095101, BELOW),
    (fc.EPSILON, part(fc.STATED, *HALVES, steps=BATCH), 0.0, 0.5108, 0.917, BELOW),
    (fc.DELTA, part(fc.STATED, C + D, 1 - C - D, C, 1 - C), 0.0, 9.094828e-13, D, BELOW),
    (fc.EPSILON, part(fc.PURE, 0.0013051, count=6490), 0.0, 8.470099, 8.470099000000002, BARELY),
    (fc.DELTA, part(fc.APPROXIMATE, 100.0, 1e-16, steps=(step(fc.GROUP, 10),)), 1.0, 1e-16, 1.0, BELOW),
    (fc.EPSILON_INTERVAL, part(GAUSSIAN, 1.0, steps=REPLACED), 0.05, (0.6332003, 0.6332008), (0.0, 0.64), BESIDE),
    (fc.EPSILON, part(GAUSSIAN, 1.0), 1e-5, 4.3772, 4.3771781, NOT_EXACT),
    (fc.RDP, part(GAUSSIAN, 1.0, steps=SAMPLED), 8.0, 0.5, 2.0, BELOW),
]


@pytest.mark.parametrize("hole", HOLES, ids=lambda hole: f"{hole[0]} of {hole[1].kind}")
def test_known_holes_are_found(hole: tuple[str, Part, float, Any, Any, str]) -> None:
    question, asked, value, wrong, right, word = hole
    case = Case(question=question, parts=(asked,), value=value)
    assert verdict(case, wrong, True).word == word
    assert verdict(case, right, True).word in (SOUND, NOT_EXACT)


# Cases ----------------------------------------------------------------------------------------------------------------


def test_fast_cases_are_a_function_of_seed_and_number() -> None:
    some = [drawn(7, index) for index in range(200)]
    assert some == [drawn(7, index) for index in range(200)]
    assert len(set(some)) == 200
    assert [Case.from_dict(json.loads(json.dumps(case.to_dict()))) for case in some] == some
    for case in some:
        compile(case.script.text, "case", "exec")
        assert case not in simpler(case)


def test_drawn_tables_are_distributions() -> None:
    for index in range(500):
        for one in drawn(11, index).parts:
            if one.kind == fc.STATED:
                for table in one.tables:
                    assert min(table) >= 0
                    assert abs(sum((F(mass) for mass in table), F(0)) - 1) < F(1, 10**299)


@pytest.mark.slow
def test_the_truth_has_an_answer_for_every_case() -> None:
    """Bounds in the right order; no exception, whatever is drawn."""
    for index in range(60):
        case = drawn(13, index)
        truth = Run(case.parts).delta(0.5)
        assert truth.upper is None or not truth.upper < truth.lower
        assert not truth.lower < 0
        assert not Run(case.parts).renyi(2.5) < 0


# Processes ------------------------------------------------------------------------------------------------------------


def test_a_worker_says_what_came_instead_of_an_answer() -> None:
    legal = Case(question=fc.EPSILON, parts=(part(GAUSSIAN, 1.0),), value=1e-5)
    assert fast_worker.checked(legal).word in (SOUND, NOT_EXACT)
    illegal = Case(question=fc.EPSILON, parts=(part(GAUSSIAN, -1.0),), value=1e-5)
    assert fast_worker.checked(illegal).word == fast_worker.INVALID
    crash = fast_worker.judged(legal, Outcome(CRASH, "ValueError in loss.py nodes: no"))
    assert fast_worker.kind_of(legal, crash) == "exception: ValueError in loss.py nodes"
    assert (
        fast_worker.judged(legal, (4.377178096, False, "RuntimeWarning in a.py line 1: b")).word == fast_worker.WARNING
    )


@pytest.mark.slow
def test_a_fast_hunt_runs_and_is_resumed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "hunt.json"
    with pytest.raises(SystemExit):
        main(["hunt", "--fast", "--cases", "6", "--seed", "2", "--jobs", "2", "--out", str(path)])
    assert "6 fast cases" in capsys.readouterr().out
    first = fast_hunt.FastHunt.resumed(path)
    assert (first.cases, first.following, first.pending) == (6, 6, [])
    with pytest.raises(SystemExit):
        main(["hunt", "--cases", "9", "--resume", str(path)])
    again = fast_hunt.FastHunt.resumed(path)
    assert again.cases == sum(again.outcomes.values()) == 9


def test_what_was_under_way_is_done_again(tmp_path: Path) -> None:
    hunt = fast_hunt.FastHunt(seed=2, cases=3, following=5, pending=[1, 4])
    fast_hunt.run(hunt, tmp_path / "hunt.json", cases=5, quiet=True)
    assert (hunt.cases, hunt.pending) == (5, [])


def test_what_takes_too_long_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fast_hunt, "SECONDS", -1.0)
    hunt = fast_hunt.run(fast_hunt.FastHunt(seed=2), tmp_path / "hunt.json", cases=2, quiet=True)
    assert hunt.outcomes == {TIMEOUT: 2}
    assert [finding["kind"] for finding in hunt.findings] == [TIMEOUT, TIMEOUT]
    assert "cm." in hunt.findings[0]["call"]


# What it found --------------------------------------------------------------------------------------------------------

FOUND = sorted((Path(fast_worker.__file__).parent / "regressions" / "fast").glob("*.json"))


@pytest.mark.slow
@pytest.mark.parametrize("path", FOUND, ids=lambda path: path.stem)
def test_findings_stay_mended(path: Path) -> None:
    outcome = fast_worker.checked(Case.from_dict(json.loads(path.read_text(encoding="utf-8"))))
    assert outcome.word in (SOUND, BEYOND), outcome
