"""The benchmarks: their independent reference against closed forms, their cases, and a run without peers."""

from __future__ import annotations

import json
import math
import sys
from dataclasses import replace
from itertools import pairwise, product
from pathlib import Path

import numpy as np
import pytest
from mpmath import mp, mpf

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks import cases, checks, hunt, runs
from benchmarks.__main__ import BEGIN, END, PAGE, main, with_table
from benchmarks.cases import Case, drawn, simpler
from benchmarks.contestants import CONTESTANTS, FIRST
from benchmarks.contestants.base import Contestant
from benchmarks.draws import measure as measure_draws
from benchmarks.growth import Axis, grown, write
from benchmarks.lattice import Lattice, dominated, dominating
from benchmarks.laws import GaussianLaw, LaplaceLaw, Law, NormalMixtures, Removed, TwoPointLaw
from benchmarks.measure import Limits, measured
from benchmarks.moments import renyi_divergence
from benchmarks.questions import Epsilon, NotOffered, Script
from benchmarks.reference import Bracket, epsilon_bracket, log_delta_bracket
from benchmarks.runs import Release, Run, dp_sgd
from benchmarks.truth import Truth, judged
from benchmarks.workloads import WORKLOADS, Workload

REGRESSIONS = sorted((PAGE.parent.parent / "benchmarks" / "regressions").glob("*.json"))
QUICK = Limits(processes=1, repetitions=1, timeout=60.0, budget=1.0)
SMALL = 2**14


def gaussian(noise: float, count: int = 1) -> Run:
    return Run(releases=(Release(kind=runs.GAUSSIAN, parameter=noise, count=count),), delta=1e-5)


def gaussian_log_delta(mu: float, epsilon: float) -> float:
    """Balle and Wang (2018), Theorem 5, in forty digits."""
    with mp.workdps(40):
        m, e = mpf(mu), mpf(epsilon)
        return float(mp.log(mp.ncdf(-e / m + m / 2) - mp.exp(e) * mp.ncdf(-e / m - m / 2)))


# The reference --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("noise", "count", "epsilon"), [(1.0, 1, 0.5), (20.0, 1000, 7.5), (3.0, 30, 40.0)])
def test_the_reference_brackets_composed_gaussians(noise: float, count: int, epsilon: float) -> None:
    bracket = log_delta_bracket(gaussian(noise, count), epsilon, size=SMALL)
    true = gaussian_log_delta(math.sqrt(count) / noise, epsilon)
    assert bracket.lower <= true <= bracket.upper
    assert bracket.upper - bracket.lower < 0.05


def test_the_reference_brackets_randomized_response() -> None:
    """Ten answers: a binomial number of them is true."""
    p, n, epsilon = 0.75, 10, 3.0
    run = Run(releases=(Release(kind=runs.RANDOMIZED_RESPONSE, parameter=p, count=n),), delta=1e-5)
    weights = [(math.comb(n, k), k) for k in range(n + 1)]
    true = sum(
        c * max(0.0, p**k * (1 - p) ** (n - k) - math.exp(epsilon) * p ** (n - k) * (1 - p) ** k) for c, k in weights
    )
    bracket = log_delta_bracket(run, epsilon, size=SMALL)
    assert bracket.lower <= math.log(true) <= bracket.upper
    assert bracket.upper - bracket.lower < 1e-6


def test_the_reference_brackets_one_sampled_release() -> None:
    """δ of the mixture is γδ(ε'), e^ε' = 1 + (e^ε - 1)/γ (Balle, Barthe and Gaboardi 2018)."""
    rate, epsilon = 0.2, 0.8
    run = dp_sgd(noise=1.0, rate=rate, steps=1, delta=1e-3)
    true = math.log(rate) + gaussian_log_delta(1.0, math.log1p(math.expm1(epsilon) / rate))
    bracket = log_delta_bracket(run, epsilon, size=SMALL)
    assert bracket.lower <= true <= bracket.upper
    assert bracket.upper - bracket.lower < 1e-2


def test_the_reference_brackets_epsilon() -> None:
    """91.817289624664: ten thousand Gaussians of noise 10, by the closed form."""
    bracket = epsilon_bracket(gaussian(10.0, 10_000), size=SMALL)
    assert bracket.lower <= 91.817289624664 <= bracket.upper
    assert bracket.upper / bracket.lower < 1.01


def test_fixed_batches_are_bounded_from_below_only() -> None:
    release = Release(
        kind=runs.LAPLACE, parameter=1.0, sampling=runs.WITHOUT, batch=1, population=9, relation=runs.REPLACE_ONE
    )
    bracket = log_delta_bracket(Run(releases=(release,), delta=1e-3), 0.01, size=SMALL)
    assert bracket.upper == math.inf
    assert -10 < bracket.lower < math.log(1 / 9)


STATED = Release(kind=runs.STATED, parameter=1.0, outputs=(0.125, 0.875, 0.5, 0.5), sampling=runs.POISSON, rate=0.25)


@pytest.mark.parametrize(
    ("release", "table"),
    [
        (STATED, [(0.40625, 0.5), (0.59375, 0.5)]),
        (replace(STATED, rate=0.5, inner_rate=0.5), [(0.40625, 0.5), (0.59375, 0.5)]),
        (
            Release(kind=runs.APPROXIMATE, parameter=math.log(3.0), failure=0.25),
            [(0.25, 0.0), (0.5625, 0.1875), (0.1875, 0.5625), (0.0, 0.25)],
        ),
    ],
)
def test_the_reference_brackets_tables(release: Release, table: list[tuple[float, float]]) -> None:
    """Three releases, enumerated, in the worse of both orders."""
    epsilon = 0.125
    true = max(
        sum(
            max(
                0.0, math.prod(w[order] for w in outputs) - math.exp(epsilon) * math.prod(w[1 - order] for w in outputs)
            )
            for outputs in product(table, repeat=3)
        )
        for order in (0, 1)
    )
    run = Run(releases=(replace(release, count=3),), delta=1e-3)
    bracket = log_delta_bracket(run, epsilon, size=SMALL)
    assert bracket.lower <= math.log(true) + 1e-9
    assert math.log(true) <= bracket.upper + 1e-9
    assert bracket.lower > math.log(true) - 0.01


def test_the_reference_knows_groups() -> None:
    """Noise on a group is noise of as many times the sensitivity; of a sampled group a binomial number is there."""
    grouped = Run(releases=(replace(gaussian(2.0).releases[0], group=2),), delta=1e-5)
    bracket = log_delta_bracket(grouped, 0.5, size=SMALL)
    assert bracket.lower <= gaussian_log_delta(1.0, 0.5) <= bracket.upper
    sampled = dp_sgd(noise=2.0, rate=0.25, steps=3, delta=1e-5)
    group = Run(releases=(replace(sampled.releases[0], group=2),), delta=1e-5)
    assert log_delta_bracket(group, 0.25, size=SMALL).lower > log_delta_bracket(sampled, 0.25, size=SMALL).upper


LAWS: list[Law] = [
    GaussianLaw(0.7),
    LaplaceLaw(1.5),
    TwoPointLaw(0.9),
    Removed(GaussianLaw(1.0), 0.1),
    Removed(LaplaceLaw(2.0), 0.3),
    NormalMixtures((0.8, 0.2), (0.0, 1.0), (0.8, 0.2), (0.0, -1.0)),
]


@pytest.mark.parametrize("law", LAWS, ids=lambda law: type(law).__name__)
def test_lattices_bound_every_hockey_stick_divergence(law: Law) -> None:
    """Against ten times narrower cells, whose own losses are known to a tenth of a step."""
    step, tail = 0.01, 1e-12
    low, high = law.ends(tail)
    edges = np.concatenate(([-math.inf], np.arange(low - step, high + step, step / 10), [math.inf]))
    p, q = law.masses(edges)
    for epsilon in (0.0, 0.05, 0.3):
        true = float(np.sum(np.maximum(p - math.exp(epsilon) * q, 0.0)))  # of the cells, so at most that of the law
        below, above = (_paid(lattice(law, step, tail), epsilon) for lattice in (dominated, dominating))
        assert below <= true * (1 + 1e-4) + 1e-12
        assert true <= above + 1e-12
        assert above - below <= 2e-2 * true + 1e-12


def _paid(lattice: Lattice, epsilon: float) -> float:
    return float(np.sum(lattice.masses * np.maximum(-np.expm1(epsilon - lattice.losses), 0.0))) + lattice.infinite


@pytest.mark.parametrize("law", LAWS, ids=lambda law: type(law).__name__)
def test_masses_are_probabilities_whose_losses_lie_in_their_cells(law: Law) -> None:
    edges = np.concatenate(([-math.inf], np.linspace(-1.0, 1.0, 21) + 0.013, [math.inf]))
    p, q = law.masses(edges)
    assert p.sum() == pytest.approx(1.0, abs=1e-14)
    assert q.sum() == pytest.approx(1.0, abs=1e-14)
    for (low, high), a, b in zip(pairwise(edges), p, q, strict=True):
        if a > 1e-12 and b > 1e-12:
            assert low - 1e-9 <= math.log(a / b) <= high + 1e-9


@pytest.mark.parametrize("order", [1.5, 4.0])
def test_divergences_of_plain_mechanisms_are_the_closed_forms(order: float) -> None:
    """Mironov (2017), Propositions 5 to 7."""
    value = renyi_divergence(Release(kind=runs.GAUSSIAN, parameter=2.0), order)
    assert value == pytest.approx(order / 8, rel=1e-14)
    theta = 1.25
    value = renyi_divergence(Release(kind=runs.LAPLACE, parameter=1 / theta), order)
    moment = order * math.exp((order - 1) * theta) + (order - 1) * math.exp(-order * theta)
    assert value == pytest.approx(math.log(moment / (2 * order - 1)) / (order - 1), rel=1e-12)
    p = 0.8
    moment = p**order * (1 - p) ** (1 - order) + (1 - p) ** order * p ** (1 - order)
    value = renyi_divergence(Release(kind=runs.RANDOMIZED_RESPONSE, parameter=p), order)
    assert value == pytest.approx(math.log(moment) / (order - 1), rel=1e-12)


# The hunt -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", REGRESSIONS, ids=lambda path: path.stem)
def test_what_was_found_once_stays_mended(path: Path) -> None:
    assert not checks.check_library(Case.from_dict(json.loads(path.read_text(encoding="utf-8")))).found


def test_cases_are_a_function_of_seed_and_number() -> None:
    questions = (cases.EPSILON, cases.DELTA, cases.RDP)
    some = [drawn(7, index, questions, least_delta=1e-20) for index in range(50)]
    assert some == [drawn(7, index, questions, least_delta=1e-20) for index in range(50)]
    assert len(set(some)) == 50
    assert [Case.from_dict(json.loads(json.dumps(case.to_dict()))) for case in some] == some


def test_wide_cases_are_read_back_and_asked() -> None:
    questions = (cases.EPSILON, cases.DELTA)
    some = [drawn(7, index, questions, least_delta=1e-20, wide=True) for index in range(100)]
    assert [Case.from_dict(json.loads(json.dumps(case.to_dict()))) for case in some] == some
    kinds = {release.kind for case in some for release in case.run.releases}
    assert {runs.STATED, runs.APPROXIMATE} < kinds
    assert any(release.group > 1 for case in some for release in case.run.releases)
    texts = [checks.library_script(case).text for case in some]
    for text in texts:
        compile(text, "case", "exec")
    assert any(".group(size=" in text for text in texts)


def test_an_answer_below_the_truth_is_found_and_shrunk() -> None:
    """A checker that calls every δ above 1e-4 a finding ends at a simple case, of the same kind."""

    def check(case: Case) -> checks.Outcome:
        return checks.Outcome(checks.BELOW if case.run.delta > 1e-4 else checks.SOUND)

    case = Case(question=cases.EPSILON, run=dp_sgd(noise=1.2345, rate=0.0321, steps=777, delta=0.0123))
    small, outcome = hunt.shrunk(case, check(case), check)
    assert outcome.word == checks.BELOW
    assert small.run.releases[0].count == 1
    assert small.run.delta == 0.01
    assert simpler(small) == [] or small != case


def test_a_hunt_is_resumed_where_it_stopped(tmp_path: Path) -> None:
    path = tmp_path / "hunt.json"
    state = hunt.run(hunt.Hunt(hunt.LIBRARY, seed=38), path, minutes=0.003)
    again = hunt.run(hunt.Hunt.resumed(path), path, minutes=0.003)
    assert again.cases > state.cases > 0
    assert sum(again.outcomes.values()) == again.cases
    assert f"{again.cases} cases" in hunt.summary(again)


def test_a_wrong_answer_is_below_the_truth() -> None:
    """ε of the README run is 1.828...: less is a finding, more is none, twice as much is loose."""
    run = dp_sgd(noise=1.0, rate=0.01, steps=1000, delta=1e-5)
    assert checks._peer_verdict(run, 1.82).word == checks.BELOW
    assert checks._peer_verdict(run, 1.83).word == checks.SOUND
    assert checks._peer_verdict(run, 4.0).word == checks.LOOSE_ANSWER
    assert checks._peer_verdict(run, math.nan).word == checks.NO_NUMBER


# Measurements ---------------------------------------------------------------------------------------------------------


def test_failures_are_reported_as_what_they_are() -> None:
    assert measured(Script("import math", "answer = math.inf"), QUICK).answer == "inf"
    assert (measured(Script("", "1 / 0"), QUICK).failure or "").startswith("ZeroDivisionError")
    assert measured(Script("import time", "time.sleep(9)"), Limits(processes=1, timeout=1.0)).failure == "timeout"
    assert "code 3" in (measured(Script("import os", "os._exit(3)"), QUICK).failure or "")


def test_verdicts() -> None:
    truth = Truth(brackets=(Bracket(1.0, 1.001),), source="reference")
    assert judged(0.9, truth).unsound
    assert judged(1.0005, truth).distance == pytest.approx(-0.0005, abs=1e-5)
    assert judged("inf", truth).word == "inf"
    assert not judged("inf", truth).unsound
    assert judged("nan", truth).unsound
    assert judged(2.0, Truth(brackets=(Bracket(1.0, math.inf),), source="reference")).at_most


@pytest.mark.parametrize("contestant", CONTESTANTS, ids=lambda contestant: contestant.name)
def test_scripts_are_python(contestant: Contestant) -> None:
    for workload in WORKLOADS:
        try:
            script = contestant.script(workload.question)
        except NotOffered:
            continue
        compile(script.text, workload.name, "exec")


@pytest.mark.slow
def test_a_run_writes_its_table_its_chart_and_its_data(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    arguments = ["--processes", "1", "--repetitions", "1", "--contestant", FIRST.name, "--out", str(tmp_path)]
    main(["run", "--only", "import", "--only", "curve", *arguments])
    assert "Rényi DP at 1000 orders" in capsys.readouterr().out
    data = json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))
    curve = next(result for result in data["results"] if result["workload"] == "curve")
    assert curve["failure"] is None
    assert not curve["unsound"]
    assert (tmp_path / "results.png").exists()


def test_growth_is_written(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    axis = Axis("steps", (10.0, 100.0), lambda n: Epsilon(gaussian(5.0, int(n))))
    points = grown([FIRST], [axis], QUICK, quiet=True)
    assert [point.measurement.failure for point in points] == [None, None]
    assert all(path.exists() for path in write(points, tmp_path))


def test_the_page_has_a_place_for_the_table() -> None:
    page = PAGE.read_text(encoding="utf-8")
    table = with_table(page, "| a |")
    assert f"{BEGIN}\n\n| a |\n\n{END}" in table
    assert with_table(table, "| a |") == table


def test_rows_that_were_not_measured_again_stay() -> None:
    head = "two cores.\n\n|  | one | two |\n| --- | --- | --- |\n"
    page = f"before\n{BEGIN}\n\n{head}| first | 1 s | ×2 |\n| second | 3 s | ×4 |\n\n{END}\nafter\n"
    renewed = with_table(page, f"{head}| second | 5 s | ×6 |")
    assert renewed == page.replace("| 3 s | ×4 |", "| 5 s | ×6 |")
    other = "two cores.\n\n|  | one |\n| --- | --- |\n| second | 5 s |"  # other columns: another table
    assert with_table(page, other) == f"before\n{BEGIN}\n\n{other}\n\n{END}\nafter\n"


def test_workloads_have_names_of_their_own() -> None:
    names = [workload.name for workload in WORKLOADS if isinstance(workload, Workload)]
    assert len(set(names)) == len(names)


def test_random_settings_are_measured_and_compared() -> None:
    first, ours, *rest = measure_draws(3, seed=2)
    assert first.startswith("3 settings, seed 2: ")
    assert ours.startswith("cumulant: median ")
    assert not rest or rest[1] == "above the peer's Rényi DP: 0"
