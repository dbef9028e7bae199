"""The commands that plan, compare and speak of training runs, through their real entry points."""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from mpmath import mp, mpf

import cumulant as cm
from cli_runner import answered, call
from cumulant.answer import Interval
from cumulant.comparison import Parts, Row, converted, naive, optimal, strong, table
from cumulant.curves.conversion import mironov_epsilon, optimal_epsilon
from cumulant.mechanisms.base import AbstractMechanism
from cumulant.parameters import Bins
from cumulant.printed import rounded_down
from cumulant.training import Sampling

SGD = "sgd --noise-multiplier 1 --batch-size 256 --dataset-size 60000 --epochs 2 --delta 1e-5"
RUN = {
    "sgd": SGD,
    "noise": "noise --epsilon 1 --delta 1e-5 --rate 0.01 --steps 100",
    "steps": "steps --noise-multiplier 1 --rate 0.01 --epsilon 2 --delta 1e-5",
    "rate": "rate --noise-multiplier 1 --steps 100 --epsilon 2 --delta 1e-5",
    "compare": "compare --noise-multiplier 5 --steps 20 --delta 1e-5",
}
# Once the questions with certified answers exist, these run as well.
certified = pytest.mark.skipif(
    not hasattr(AbstractMechanism, "epsilon_interval"), reason="this version has no epsilon_interval"
)
commands = pytest.mark.parametrize(
    "command", [name if name != "compare" else pytest.param(name, marks=certified) for name in RUN]
)


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    run = cm.Gaussian(noise_multiplier=2.0) * 10 + cm.Laplace(scale=3.0)
    Path("run.json").write_text(json.dumps(run.to_dict()), encoding="utf-8")


def started(arguments: list[str], **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the installed script as a user would; `python -m cumulant` where the package is not installed."""
    script = shutil.which("cumulant", path=str(Path(sys.executable).parent))
    command = [script] if script else [sys.executable, "-m", "cumulant"]
    source = str(Path(cm.__file__).parents[1])
    variables = {**os.environ, "COLUMNS": "80", "PYTHONPATH": source, "PYTHONIOENCODING": "utf-8", **environment}
    return subprocess.run([*command, *arguments], env=variables, capture_output=True, encoding="utf-8", check=False)


# The real entry point -------------------------------------------------------------------------------------------------


@commands
def test_every_command_as_a_user_runs_it(command: str) -> None:
    result = started(RUN[command].split())
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == call(RUN[command]).stdout
    assert "\x1b" not in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80
    assert " ".join(result.stdout.split()).count("proven by ") == 1


@commands
def test_every_command_has_json(command: str) -> None:
    content = json.loads(call(f"{RUN[command]} --json").stdout)
    assert content["version"] == cm.__version__
    assert content["question"]["asked"] == command
    assert content["answer"]["epsilon"] == content["explanation"]["epsilon"]
    assert isinstance(cm.from_dict(content["mechanism"]), AbstractMechanism)


@commands
def test_every_help_has_examples_that_work_and_fits(command: str) -> None:
    text = started([command, "--help"]).stdout
    whole = text.replace("\\\n", " ")  # an example may go on in the next line
    examples = [line.strip() for line in whole.splitlines() if line.startswith("    cumulant ")]
    assert len(examples) >= 3
    assert max(map(len, text.splitlines())) <= 80
    for example in examples:
        result = call(example.removeprefix("cumulant "))
        assert result.exit_code == 0, example
        if "--json" not in example:
            assert max(map(len, result.stdout.splitlines())) <= 80


@commands
def test_narrow_terminals(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "50")
    if command != "compare":  # a table keeps its columns
        assert max(map(len, call(RUN[command]).stdout.splitlines())) <= 50


def test_completion_knows_the_commands_and_their_values() -> None:
    begun = started([], _CUMULANT_COMPLETE="bash_complete", COMP_WORDS="cumulant s", COMP_CWORD="1")
    assert {line.split(",")[1] for line in begun.stdout.splitlines()} == {"sgd", "statement", "steps"}
    values = started([], _CUMULANT_COMPLETE="bash_complete", COMP_WORDS="cumulant sgd --sampling ", COMP_CWORD="3")
    loaders = {"poisson", "opacus", "without-replacement", "random-allocation", "shuffled"}
    assert {line.split(",")[1] for line in values.stdout.splitlines()} == loaders
    files = started([], _CUMULANT_COMPLETE="bash_complete", COMP_WORDS="cumulant steps --run r", COMP_CWORD="3")
    assert files.stdout.strip() == "file,r"


def test_colour_on_a_terminal_only() -> None:
    pty = pytest.importorskip("pty")
    main_end, terminal = pty.openpty()
    source = str(Path(cm.__file__).parents[1])
    arguments = [sys.executable, "-m", "cumulant", "steps", "--mechanism", "laplace", "--scale", "2"]
    arguments += ["--epsilon", "2", "--delta", "0"]
    subprocess.run(arguments, env={**os.environ, "PYTHONPATH": source, "COLUMNS": "80"}, stdout=terminal, check=True)
    os.close(terminal)
    shown = os.read(main_end, 10_000).decode()
    os.close(main_end)
    assert shown.startswith("\x1b[32m\x1b[1msteps = 4 within epsilon = 2 at delta = 0\x1b[0m")


# Training runs --------------------------------------------------------------------------------------------------------


LOADERS: dict[str, Sampling] = {
    "poisson": "poisson",
    "fixed": "without_replacement",
    "allocation": "random_allocation",
    "shuffled": "shuffled",
}


@pytest.mark.parametrize(("loader", "sampling"), LOADERS.items())
def test_sgd_answers_as_the_library(loader: str, sampling: Sampling) -> None:
    allocates = loader == "allocation"
    content = answered(f"{SGD} --loader {loader}" + (" --bins fresh" if allocates else ""))
    bins: Bins = "fresh" if allocates else None
    run = cm.dp_sgd(noise_multiplier=1.0, batch_size=256, dataset_size=60_000, epochs=2, sampling=sampling, bins=bins)
    assert cm.from_dict(content["mechanism"]) == run
    assert content["answer"]["epsilon"] == run.epsilon(delta=1e-5)
    assert content["training"]["steps"] == (2 * (60_000 // 256) if allocates else math.ceil(2 * 60_000 / 256))
    joins = sampling in ("poisson", "random_allocation")
    assert content["training"]["effective_noise_multiplier"] == (1.0 if joins else 0.5)
    assert content["training"]["neighbors"] == ("add-or-remove-one" if joins else "replace-one")


@pytest.mark.parametrize(
    ("loader", "said"),
    [
        ("poisson", ["add-or-remove-one", "its own coin", "may be empty", "effective noise multiplier is 1."]),
        (
            "fixed",
            ["replace-one", "twice the clipping norm", "effective noise multiplier is 0.5", "exactly 256 of the 60000"],
        ),
        (
            "opacus",
            ["probability 0.004255354404449463 (1/len(loader)", "neither Poisson sampling nor a fresh random batch"],
        ),
        ("shuffled", ["2 epochs begun, 469 steps", "No amplification is counted", "which is an upper bound, at most"]),
        ("allocation --bins kept", ["draw its batch by itself", "keeps in every epoch", "2 epochs begun of 234 steps"]),
    ],
)
def test_sgd_says_what_it_protects_and_assumes(loader: str, said: list[str]) -> None:
    text = " ".join(call(f"{SGD} --loader {loader}").stdout.split())
    warned = [] if loader == "shuffled" else ["shuffles the data", "this number does not hold for it"]
    for part in [*said, *warned, "clipped by itself", "at most 1 % of outsiders", "measured on private data"]:
        assert part in text


def test_sgd_says_when_accumulated_gradients_are_covered() -> None:
    asked = "sgd --noise-multiplier 1 --dataset-size 60000 --epochs 2 --delta 1e-5"
    at_once = answered(f"{asked} --batch-size 256")
    content = answered(f"{asked} --batch-size 64 --accumulation-steps 4")
    assert content["mechanism"] == at_once["mechanism"]
    assert (content["training"]["batch_size"], content["training"]["accumulation_steps"]) == (64, 4)
    said = content["statement"]["sampling"]
    assert said.startswith(at_once["statement"]["sampling"])
    assert "drawn at once for a whole step" in said
    assert "noise is added once" in said
    shuffled = answered(f"{asked} --batch-size 64 --accumulation-steps 4 --sampling shuffled")
    assert "A step never takes batches of two epochs." in shuffled["statement"]["sampling"]


def test_sgd_finds_the_noise_of_a_budget() -> None:
    asked = "sgd --epsilon 3 --batch-size 256 --dataset-size 50000 --epochs 60 --delta 1e-5"
    content = answered(asked)
    plan: dict[str, Any] = {"batch_size": 256, "dataset_size": 50_000, "epochs": 60}
    sigma = content["answer"]["noise_multiplier"]
    assert sigma == cm.dp_sgd_noise(epsilon=3.0, delta=1e-5, **plan)
    assert content["answer"]["epsilon"] == cm.dp_sgd(noise_multiplier=sigma, **plan).epsilon(delta=1e-5) <= 3.0
    text = call(asked).stdout
    assert text.startswith("noise multiplier = 1.024368763 for epsilon = 3 at delta = 1e-5")
    assert float(text.split()[3]) >= sigma


@pytest.mark.parametrize(("flag", "batches"), [("", 196), (" --drop-last", 195)])
def test_the_loader_of_opacus(flag: str, batches: int) -> None:
    """Its rate is 1/len(loader), its coin a multiple of 2^-24, its epoch len(loader) steps."""
    asked = "sgd --noise-multiplier 1 --batch-size 256 --dataset-size 50000 --epochs 60 --delta 1e-5 --loader opacus"
    training = answered(asked + flag)["training"]
    assert training["steps"] == 60 * batches
    assert training["rate"] == math.ceil(2**24 / batches) / 2**24


def test_ratios_and_powers_of_ten_are_numbers() -> None:
    by_ratio = answered("sgd --noise-multiplier 1 --rate 256/50000 --steps 1e4 --delta 1e-5")
    assert by_ratio["training"]["rate"] == 256 / 50_000
    assert by_ratio["training"]["steps"] == 10_000
    run = cm.Gaussian(noise_multiplier=1.0).poisson(rate=256 / 50_000) * 1_000_000
    content = answered("epsilon --noise-multiplier 1 --rate 256/50000 --steps 1e6 --delta 1e-5")
    assert cm.from_dict(content["mechanism"]) == run


def test_sgd_says_the_factor_never_too_low() -> None:
    content = answered(SGD)
    factor = float(content["statement"]["promise"].split("e^epsilon = ")[1].split(",")[0])
    assert math.exp(content["answer"]["epsilon"]) <= factor <= math.exp(content["answer"]["epsilon"]) * 1.01


# Plans ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ("--rate 0.01 --steps 100", "noise_multiplier"),
        ("--mechanism laplace --steps 3", "scale"),
        ("--mechanism randomized-response --steps 3", "p"),
        ("--mechanism randomized-response --sampling without-replacement --batch 5 --population 50", "p"),
    ],
)
def test_noise_fits_and_is_least(options: str, name: str) -> None:
    content = answered(f"noise {options} --epsilon 1 --delta 1e-6")
    value = content["answer"][name]
    assert content["answer"]["epsilon"] <= 1
    less = 0.5 + (value - 0.5) * (1 + 1e-6) if name == "p" else value * (1 - 1e-6)
    flag = name.replace("_", "-")
    assert answered(f"epsilon {options} --{flag} {less!r} --delta 1e-6")["answer"]["epsilon"] > 1


@pytest.mark.parametrize(("epsilon", "least"), [("1e-6", 0.5), ("2", 0.5), ("20", 0.5), ("30", 0.5), ("50", 0.5)])
def test_truth_probability_is_the_closed_form(epsilon: str, least: float) -> None:
    """At δ = 0 the odds of truth are e^ε; beyond the largest double below 1 there is nothing to choose."""
    p = answered(f"noise --mechanism randomized-response --epsilon {epsilon} --delta 0")["answer"]["p"]
    with mp.workdps(40):
        exact = 1 / (1 + mp.exp(-mpf(epsilon)))
        assert least < p <= min(exact, mpf(math.nextafter(1.0, 0.0)))
        assert (1 - mpf(p)) <= (1 - exact) * (1 + mpf("1e-7")) * (1 + 2 * mpf(epsilon)) + mpf(2) ** -52


def test_printed_plans_are_on_the_safe_side() -> None:
    """The digits that are printed, typed back in, keep the budget."""
    noise = call(RUN["noise"]).stdout.split()[3]
    assert (
        answered(f"epsilon --noise-multiplier {noise} --rate 0.01 --steps 100 --delta 1e-5")["answer"]["epsilon"] <= 1
    )
    rate = call(RUN["rate"]).stdout.split()[2]
    assert answered(f"epsilon --noise-multiplier 1 --rate {rate} --steps 100 --delta 1e-5")["answer"]["epsilon"] <= 2
    text = call("noise --mechanism randomized-response --epsilon 0.3 --delta 0").stdout.split()[2]
    assert answered(f"epsilon --mechanism randomized-response --p {text} --delta 0")["answer"]["epsilon"] <= 0.3


def test_steps_is_the_last_that_fits() -> None:
    content = answered("steps --run run.json --epsilon 20 --delta 1e-5")
    run = cm.from_dict(json.loads(Path("run.json").read_text(encoding="utf-8")))
    n = content["answer"]["steps"]
    assert n > 1
    assert (run * n).epsilon(delta=1e-5) == content["answer"]["epsilon"] <= 20
    assert (run * (n + 1)).epsilon(delta=1e-5) == content["answer"]["epsilon_of_one_more"] > 20


def test_steps_that_are_left() -> None:
    run = cm.from_dict(json.loads(Path("run.json").read_text(encoding="utf-8")))
    step = cm.Gaussian(noise_multiplier=50.0)
    content = answered("steps --noise-multiplier 50 --spent run.json --epsilon 10 --delta 1e-5")
    n = content["answer"]["steps"]
    assert cm.from_dict(content["mechanism"]) == run + step * n
    assert (run + step * n).epsilon(delta=1e-5) <= 10 < (run + step * (n + 1)).epsilon(delta=1e-5)


def test_no_step_fits() -> None:
    content = answered("steps --noise-multiplier 0.1 --epsilon 1 --delta 1e-5")
    assert (content["answer"]["steps"], content["answer"]["epsilon"]) == (0, 0.0)
    assert "one more" in call("steps --noise-multiplier 0.1 --epsilon 1 --delta 1e-5").stdout


@pytest.mark.parametrize("scheme", ["without-replacement", "with-replacement"])
def test_batches_are_whole_and_largest(scheme: str) -> None:
    options = f"--mechanism randomized-response --p 0.75 --sampling {scheme} --population 500 --steps 40"
    batch = answered(f"rate {options} --epsilon 1 --delta 1e-5")["answer"]["batch"]
    spent = [answered(f"epsilon {options} --batch {m} --delta 1e-5")["answer"]["epsilon"] for m in (batch, batch + 1)]
    assert spent[0] <= 1 < spent[1]


def test_a_run_that_needs_no_sampling() -> None:
    assert answered("rate --mechanism laplace --scale 2 --epsilon 1 --delta 0")["answer"]["rate"] == 1.0


# Refusals -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("sgd --noise-multiplier 1 --batch-size 2 --dataset-size 9 --delta 0.1", "either --epochs or --steps"),
        (f"{SGD} --steps 3", "either --epochs or --steps"),
        ("sgd --noise-multiplier 1 --batch-size 10 --dataset-size 9 --steps 1 --delta 0.1", "at most the dataset_size"),
        ("sgd --noise-multiplier 0 --batch-size 1 --dataset-size 9 --steps 1 --delta 0.1", "noise_multiplier must be"),
        ("sgd --noise-multiplier 1 --batch-size 0 --dataset-size 9 --steps 1 --delta 0.1", "--batch-size"),
        (f"{SGD} --loader shuffle", "--loader"),
        (f"{SGD} --drop-last", "--drop-last belongs to --sampling opacus"),
        (f"{SGD} --epsilon 3", "give either --noise-multiplier or --epsilon"),
        (f"{SGD} --rate 0.1", "give batch_size and dataset_size, or sample_rate"),
        (f"{SGD} --rate 1/0", "is not a ratio"),
        ("sgd --noise-multiplier 1 --batch-size 9 --steps 1 --delta 0.1", "--batch-size and --dataset-size, or --rate"),
        ("sgd --noise-multiplier 1 --rate 0.1 --steps 1.5 --delta 0.1", "is not a whole number"),
        ("sgd --noise-multiplier 1 --rate 0.1 --steps -1 --delta 0.1", "is not in the range x>=0"),
        ("sgd --noise-multiplier 1 --rate 0.1 --steps 1 --delta 0.1 --loader opacus", "needs batch_size"),
        ("sgd --batch-size 1 --dataset-size 9 --steps 1 --delta 0.1", "--noise-multiplier"),
        ("noise --noise-multiplier 1 --epsilon 1 --delta 1e-5", "--noise-multiplier is what this command searches for"),
        ("noise --mechanism pure --epsilon 1 --delta 1e-5", "noise is searched for --mechanism gaussian"),
        ("noise --run run.json --epsilon 1 --delta 1e-5", "noise is searched for"),
        (
            "noise --mechanism laplace --noise-multiplier 1 --epsilon 1 --delta 1e-5",
            "--noise-multiplier does not belong",
        ),
        ("noise --epsilon 1 --delta 0", "no finite epsilon is proven"),
        ("noise --delta 1e-5", "--epsilon"),
        ("noise --epsilon -1 --delta 1e-5", "epsilon must be"),
        ("noise --epsilon 1 --delta 1", "nothing to search"),
        ("steps --epsilon 1 --delta 1e-5", "needs --noise-multiplier"),
        ("steps --noise-multiplier 1 --rate 0 --epsilon 1 --delta 1e-5", "must cost something"),
        ("steps --noise-multiplier 1 --steps 3 --epsilon 1 --delta 1e-5", "No such option"),
        ("steps --noise-multiplier 1 --epsilon inf --delta 1e-5", "epsilon must be"),
        ("steps --noise-multiplier 1 --spent nowhere.json --epsilon 1 --delta 1e-5", "No such file"),
        ("rate --noise-multiplier 1 --rate 0.1 --epsilon 1 --delta 1e-5", "--rate is what this command searches for"),
        ("rate --noise-multiplier 1 --batch 3 --epsilon 1 --delta 1e-5", "--batch is what this command searches for"),
        ("rate --noise-multiplier 1 --population 9 --epsilon 1 --delta 1e-5", "population belongs to max_batch"),
        ("rate --noise-multiplier 1 --sampling with-replacement --epsilon 1 --delta 1e-5", "needs --population"),
        ("rate --noise-multiplier 1 --epsilon 1 --delta 0", "no rate down to"),
        ("compare --noise-multiplier 1 --delta 1e-5 --out chart.gif", "must end in .png, .svg, .pdf"),
        ("compare --delta 1e-5", "needs --noise-multiplier"),
    ],
)
def test_refusals_are_one_line_on_stderr_with_code_2(text: str, reason: str) -> None:
    result = call(text)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("Error: ")
    assert result.stderr.count("\n") == 1
    assert reason in result.stderr


def test_a_budget_that_is_spent_has_a_code_of_its_own() -> None:
    result = call("steps --noise-multiplier 1 --spent run.json --epsilon 1 --delta 1e-5")
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (3, "", 1)
    assert "what was spent costs" in result.stderr


def test_a_refusal_as_a_user_sees_it() -> None:
    result = started(["noise", "--epsilon", "1", "--delta", "2"])
    assert (result.returncode, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert "Traceback" not in result.stderr


# Comparison -----------------------------------------------------------------------------------------------------------


def pure_rounds(epsilon: float, count: int) -> Parts:
    return ((lambda log_delta: epsilon, count),)


def test_naive_composition_adds_up() -> None:
    assert naive(pure_rounds(0.25, 12), 1e-5) == 3.0
    assert naive((*pure_rounds(0.25, 12), *pure_rounds(1.5, 2)), 1e-5) == 6.0


def test_naive_composition_shares_delta() -> None:
    """Rounds that cost -log₁₀ δ each: 10 of them at δ = 1e-5 cost 6 each."""
    assert naive(((lambda log_delta: -log_delta / math.log(10), 10),), 1e-5) == pytest.approx(60.0, rel=1e-12)


def test_strong_composition_is_its_formula() -> None:
    """Pure rounds leave all of δ to the theorem: ε √(2k log 1/δ) + kε(e^ε - 1)."""
    expected = 0.1 * math.sqrt(200 * math.log(1e5)) + 100 * 0.1 * math.expm1(0.1)
    assert strong(pure_rounds(0.1, 100), 1e-5) == pytest.approx(expected, rel=1e-12)


def test_strong_composition_is_about_equal_rounds() -> None:
    with pytest.raises(cm.UnprovenCombination):
        strong((*pure_rounds(0.25, 12), *pure_rounds(1.5, 2)), 1e-5)


@pytest.mark.parametrize("parts", [pure_rounds(0.25, 12), (*pure_rounds(0.25, 8), *pure_rounds(0.5, 4))])
def test_optimal_composition_is_that_of_randomized_response(parts: Parts) -> None:
    """δ(ε) over all 2^12 outcomes of coins with odds e^ε_i, one by one: δ at the ε found, above it before."""
    losses = [curve(0.0) for curve, count in parts for _ in range(count)]
    epsilon = optimal(parts, 1e-3)

    def delta(at: float) -> float:
        total = [(0.0, 1.0)]
        for loss in losses:
            truth = 1 / (1 + math.exp(-loss))
            total = [
                (sum_ + sign * loss, mass * chance)
                for sum_, mass in total
                for sign, chance in ((1, truth), (-1, 1 - truth))
            ]
        return math.fsum(mass * -math.expm1(at - sum_) for sum_, mass in total if sum_ > at)

    assert delta(epsilon) <= 1e-3 * (1 + 1e-12)
    assert delta(epsilon - 3e-4) > 1e-3


def test_conversions_have_closed_forms_for_gaussians() -> None:
    """Mironov at his best order: ρ + 2 √(ρ log 1/δ), ρ = 20/(2·5²)."""
    run, rho = cm.Gaussian(noise_multiplier=5.0) * 20, 0.4
    expected = rho + 2 * math.sqrt(rho * math.log(1e5))
    found = converted(run, math.log(1e-5), mironov_epsilon)
    assert expected * (1 - 1e-12) <= found <= expected * (1 + 1e-6)
    assert converted(run, math.log(1e-5), optimal_epsilon) == run.epsilon(delta=1e-5, method="rdp")


def test_the_table_fits_and_shows_both_ends() -> None:
    found = [
        Row(method="exact", theorem="the pair itself, certified", interval=Interval(1 / 3, 2 / 3)),
        Row(method="strong composition", theorem="x", interval=None, reason="because " * 30),
    ]
    lines = list(table(found))
    assert max(map(len, lines)) <= 80
    assert "0.66666667" in lines[0]
    assert "0.33333333" in lines[1]
    assert rounded_down(2 / 3, digits=3) == "0.666"


@certified
def test_a_wide_interval_is_not_called_exact() -> None:
    """A loader that shuffles is known between two ends; a bound that doubles know is not certified."""
    shuffled = cm.Gaussian(noise_multiplier=2.0).shuffled(batches=10, neighbors=cm.ZERO_OUT)
    last = cm.compare(shuffled, delta=1e-5).rows[-1]
    assert last.method == "both ends"
    assert last.interval is not None
    assert last.interval.width > 0.1
    assert cm.compare(cm.Laplace(scale=2.0) * 3, delta=1e-5).rows[-1].method == "exact"


def test_compare_shows_every_method_and_a_chart() -> None:
    for ending in ("png", "svg"):
        content = answered(f"{RUN['compare']} --out chart.{ending}")
        assert Path(f"chart.{ending}").stat().st_size > 5000
    rows = {row["method"]: row for row in content["answer"]["rows"]}
    assert len(rows) == 7
    exact = rows["exact"]
    assert all(row["epsilon"] >= exact["certified_lower"] for row in rows.values())
    with mp.workdps(30):  # Balle and Wang (2018): δ(ε) with μ = √20/5
        mu, e = mp.sqrt(20) / 5, mpf(exact["epsilon"])
        assert mp.ncdf(mu / 2 - e / mu) - mp.exp(e) * mp.ncdf(-mu / 2 - e / mu) <= mpf("1e-5")
        e = mpf(exact["certified_lower"])
        assert mp.ncdf(mu / 2 - e / mu) - mp.exp(e) * mp.ncdf(-mu / 2 - e / mu) >= mpf("1e-5")


@certified
@pytest.mark.parametrize(
    "options",
    [
        "--run run.json --delta 1e-5",
        "--noise-multiplier 2 --delta 0",
        "--noise-multiplier 2 --delta 1e-400",
        "--noise-multiplier 2 --steps 0 --delta 1e-5",
        "--mechanism zcdp --rho 0.1 --steps 3 --delta 1e-5",
        "--mechanism pure --release-epsilon 0.1 --steps 30 --delta 0",
        "--mechanism approximate --release-epsilon 0.1 --release-delta 1e-7 --steps 30 --delta 1e-5",
    ],
)
def test_compare_answers_whatever_it_can(options: str) -> None:
    result = call(f"compare {options}")
    assert result.exit_code == 0
    assert max(map(len, result.stdout.splitlines())) <= 80
    rows = answered(f"compare {options}")["answer"]["rows"]
    assert all((row["epsilon"] is None) == (row["reason"] is not None) for row in rows)


@certified
def test_a_chart_that_cannot_be_written() -> None:
    result = call(f"{RUN['compare']} --out nowhere/chart.png")
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert "cannot be written" in result.stderr
