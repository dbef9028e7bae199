"""`cumulant check`: a verdict is never more than what is proven; both ends of ε on the command line."""

from __future__ import annotations

import json
import math
import re
import shlex
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf

import cumulant as cm
from cumulant.cli.main import main

CODES = {"holds": 0, "refuted": 3, "not proven": 4}


def call(text: str) -> Result:
    result = CliRunner().invoke(main, shlex.split(text))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def checked(text: str) -> tuple[str, dict[str, Any]]:
    """Return the verdict and the answer, after a look at the code and at what is printed for people."""
    result = call(f"check {text} --json")
    answer: dict[str, Any] = json.loads(result.stdout, parse_constant=pytest.fail)["answer"]
    verdict: str = answer["verdict"]
    assert result.exit_code == answer["exit_code"] == CODES[verdict]
    shown = call(f"check {text}")
    assert (shown.exit_code, shown.stderr) == (result.exit_code, "")
    assert shown.stdout.startswith(f"{verdict}: epsilon <= ")
    claim = float(re.findall(r"epsilon <= (\S+) at", shown.stdout)[0])
    for at_most in re.findall(r"at most +epsilon = (\S+)", shown.stdout):
        assert (float(at_most) <= claim) == (verdict == "holds")
    if verdict == "refuted":
        assert claim < float(re.findall(r"interval +(\S+) <=", shown.stdout)[0])
    return verdict, answer


# Against closed forms -------------------------------------------------------------------------------------------------


def gaussian_delta(mu: mpf, epsilon: mpf) -> mpf:
    """Balle and Wang (2018): δ(ε) of N(μ, 1) against N(0, 1)."""
    return mp.ncdf(mu / 2 - epsilon / mu) - mp.exp(epsilon) * mp.ncdf(-mu / 2 - epsilon / mu)


@settings(max_examples=40)
@given(
    sigma=st.floats(0.5, 20.0),
    steps=st.integers(1, 300),
    log_delta=st.floats(-40.0, -1.0),
    off=st.sampled_from([0.0, 1e-15, -1e-15, 1e-13, -1e-13, 1e-11, -1e-11, 1e-8, -1e-8, 1e-3, -1e-3, 0.5, -0.5]),
)
def test_a_verdict_on_gaussians_is_true(sigma: float, steps: int, log_delta: float, off: float) -> None:
    """At 60 digits, of the numbers as they were typed: claims beside the truth, at it, and far away."""
    run, delta = cm.Gaussian(noise_multiplier=sigma) * steps, math.exp(log_delta)
    claim = run.epsilon(delta=delta) * (1 + off)
    verdict, _ = checked(f"--noise-multiplier {sigma!r} --steps {steps} --delta {delta!r} --epsilon {claim!r}")
    with mp.workdps(60):
        truth = gaussian_delta(mp.sqrt(steps) / mpf(sigma), mpf(claim))
        for read in (mpf(delta), mpf(repr(delta))):  # the double, and the decimal that was typed
            assert verdict != "holds" or truth <= read
            assert verdict != "refuted" or truth > read
    if abs(off) >= 1e-8 and claim > 1e-3:  # an answer is exact to 1e-9 of itself, or to 1e-12
        assert verdict == ("holds" if off > 0 else "refuted")


@pytest.mark.parametrize("p", [0.6, 0.75, 0.9])
@pytest.mark.parametrize("off", [1e-12, -1e-12])
def test_a_verdict_on_pure_privacy_is_true(p: float, off: float) -> None:
    """One randomized response at δ = 0 costs log p/(1-p), all of it."""
    with mp.workdps(40):
        exact = mp.log(mpf(p) / (1 - mpf(p)))
        claim = float(exact * (1 + mpf(off)))
        verdict, _ = checked(f"--mechanism randomized-response --p {p} --delta 0 --epsilon {claim!r}")
        assert verdict != "holds" or exact <= claim
        assert verdict != "refuted" or exact > claim
        assert verdict == ("holds" if off > 0 else "refuted")


# At the edges ---------------------------------------------------------------------------------------------------------

RUN = "--noise-multiplier 1 --rate 0.01 --steps 1000 --delta 1e-5"


def test_between_the_ends_nothing_is_proven() -> None:
    _, answer = checked(f"{RUN} --epsilon 2")
    ends = answer["interval"]
    assert ends["lower"] < ends["upper"]
    assert checked(f"{RUN} --epsilon {ends['upper']!r}")[0] == "holds"
    assert checked(f"{RUN} --epsilon {math.nextafter(ends['upper'], 0)!r}")[0] == "not proven"
    assert checked(f"{RUN} --epsilon {ends['lower']!r}")[0] == "not proven"
    assert checked(f"{RUN} --epsilon {math.nextafter(ends['lower'], 0)!r}")[0] == "refuted"


@pytest.mark.parametrize(
    "run",
    [
        RUN,
        "--mechanism laplace --scale 2 --steps 10 --delta 1e-5",
        "--mechanism zcdp --rho 0.1 --steps 7 --delta 1e-6",
        "--mechanism pure --release-epsilon 0.1 --delta 0",
        "--mechanism approximate --release-epsilon 0.1 --release-delta 1e-7 --steps 3 --delta 1e-6",
        "--noise-multiplier 3 --steps 0 --delta 1e-5",
        "--noise-multiplier 3 --delta 1e-400",
        "--noise-multiplier 3 --delta 0.99999999999999999999999",
        "--noise-multiplier 3 --delta 1",
        "--noise-multiplier 4 --batch-size 256 --dataset-size 60000 --epochs 2 --loader shuffled --delta 1e-5",
    ],
)
def test_what_epsilon_prints_is_a_claim_that_holds(run: str) -> None:
    """And whoever claims less than nine tenths of it is never believed."""
    words = "sgd" if "--epochs" in run else "epsilon"
    epsilon = float(re.findall(r"epsilon = (\S+) at", call(f"{words} {run}").stdout)[0])
    assert checked(f"{run} --epsilon {epsilon!r}")[0] == "holds"
    if epsilon > 0:
        assert checked(f"{run} --epsilon {0.9 * epsilon!r}")[0] != "holds"


def test_where_nothing_finite_is_proven_nothing_holds() -> None:
    verdict, answer = checked("--noise-multiplier 1 --delta 0 --epsilon 1e300")
    assert (verdict == "holds", answer["epsilon"]) == (False, "inf")
    assert "nothing finite is proven" in call("check --noise-multiplier 1 --delta 0 --epsilon 1e300").stdout


def test_an_end_that_is_not_certified_refutes_nothing() -> None:
    """Ten Laplace releases: both ends rest on estimates of rounding, far above the claim."""
    verdict, answer = checked("--mechanism laplace --scale 2 --steps 10 --delta 1e-5 --epsilon 1")
    assert answer["interval"]["lower"] > 4
    assert verdict == ("refuted" if answer["interval"]["certified"] else "not proven")


def test_without_a_lower_end_nothing_is_refuted() -> None:
    verdict, answer = checked("--mechanism zcdp --rho 1 --delta 1e-5 --epsilon 0.001")
    assert (verdict, answer["interval"]) == ("not proven", None)


# Runs in other words --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [
        "--noise-multiplier 1 --batch-size 256 --dataset-size 60000 --epochs 3",
        "--noise-multiplier 1 --rate 256/50000 --steps 300 --loader poisson",
        "--noise-multiplier 1 --batch-size 256 --dataset-size 50000 --epochs 3 --loader opacus --drop-last",
        "--noise-multiplier 4 --batch-size 256 --dataset-size 60000 --steps 100 --loader fixed",
        "--noise-multiplier 4 --batch-size 256 --dataset-size 60000 --epochs 2 --loader allocation --bins kept",
    ],
)
def test_words_of_training_are_those_of_sgd(words: str) -> None:
    there = json.loads(call(f"sgd {words} --delta 1e-5 --json").stdout)
    here = json.loads(call(f"check {words} --delta 1e-5 --epsilon 50 --json").stdout)
    assert here["mechanism"] == there["mechanism"]
    assert here["answer"]["verdict"] == "holds"


def test_a_run_from_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run = cm.Gaussian(noise_multiplier=1.0).poisson(rate=0.01) * 1000 + cm.Laplace(scale=2.0)
    Path("run.json").write_text(json.dumps(run.to_dict()), encoding="utf-8")
    epsilon = run.epsilon(delta=1e-5)
    assert checked(f"--run run.json --delta 1e-5 --epsilon {epsilon!r}")[0] == "holds"
    assert checked(f"--run run.json --delta 1e-5 --epsilon {0.999 * epsilon!r}")[0] == "refuted"


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ("--epsilon -1 --delta 1e-5 --noise-multiplier 1", "epsilon must be"),
        ("--epsilon inf --delta 1e-5 --noise-multiplier 1", "epsilon must be"),
        ("--epsilon 1 --delta 1e-5", "needs --noise-multiplier"),
        ("--delta 1e-5 --noise-multiplier 1", "--epsilon"),
        ("--epsilon 1 --delta 1e-5 --epochs 3", "--noise-multiplier"),
        ("--epsilon 1 --delta 1e-5 --noise-multiplier 1 --epochs 3", "--batch-size"),
        ("--epsilon 1 --delta 1e-5 --noise-multiplier 1 --rate 0.1 --loader poisson", "--epochs or --steps"),
        ("--epsilon 1 --delta 1e-5 --scale 2 --rate 0.1 --epochs 3", "--scale cannot be added"),
        ("--epsilon 1 --delta 1e-5 --noise-multiplier 1 --account customers", "leave out"),
        ("--epsilon 1 --delta 1e-5 --account customers", "there is no ledger"),
        ("--epsilon 1 --delta 1e-5 --noise-multiplier 1 --ledger sqlite:///x.db", "--ledger needs --account"),
    ],
)
def test_wrong_use_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: str, reason: str) -> None:
    monkeypatch.chdir(tmp_path)
    result = call(f"check {options}")
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert reason in result.stderr


# Accounts -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with a ledger: one account, from which something was spent."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CUMULANT_LEDGER", raising=False)
    step = "--noise-multiplier 1 --rate 0.01 --steps 100"
    opened = call(f'ledger open customers --epsilon 3 --delta 1e-6 --unit "one customer" {step} --reserve 0.1')
    assert opened.exit_code == 0
    assert call("ledger spend customers --noise-multiplier 9 --key job").exit_code == 0
    return tmp_path


def test_the_price_of_an_account_is_a_claim_that_holds(home: Path) -> None:
    declared = cm.Gaussian(noise_multiplier=1.0).poisson(rate=0.01) * 100 + cm.Gaussian(noise_multiplier=0.1**-0.5)
    for delta in (1e-6, 1e-3, 1e-9):
        price = declared.epsilon(delta=delta)
        account = f"--account customers --delta {delta!r}"
        verdict, answer = checked(f"{account} --epsilon {price * (1 + 1e-9)!r}")
        assert (verdict, answer["interval"]["upper"] >= answer["epsilon"] >= price) == ("holds", True)
        assert checked(f"{account} --epsilon {price * (1 - 1e-6)!r}")[0] == "refuted"
    result = call("check --account customers --delta 1e-6 --epsilon 3")
    assert result.exit_code == 0
    assert "one customer, add-or-remove-one" in " ".join(result.stdout.split())
    assert "2 entries" in result.stdout
    content = json.loads(call("check --account customers --delta 1e-6 --epsilon 3 --json").stdout)
    assert content["account"]["name"] == "customers"
    assert content["account"]["head"] == cm.Ledger("sqlite:///budget.db").status("customers").head


def test_a_budget_that_was_declared_holds_at_its_own_delta(home: Path) -> None:
    """What the plan leaves is the reserve: the price is the budget, as close as a search takes it."""
    for delta in ("1e-6", "1.1e-7", "3e-5"):
        name = f"at-{delta}"
        assert call(f"ledger open {name} --epsilon 1.7 --delta {delta} --unit u").exit_code == 0
        assert checked(f"--account {name} --delta {delta} --epsilon 1.7")[0] == "holds"
        assert checked(f"--account {name} --delta {float(delta) / 2!r} --epsilon 1.7")[0] != "holds"


def test_a_delta_beyond_doubles_never_holds_by_rounding(home: Path) -> None:
    verdict, answer = checked("--account customers --delta 1e-400 --epsilon 3")
    assert verdict == "refuted"
    assert answer["epsilon"] == "inf"  # at zero, below what was asked


def test_a_changed_history_is_no_verdict(home: Path) -> None:
    with sqlite3.connect("budget.db") as connection:
        connection.execute("UPDATE cumulant_block SET spent = '[0, 0]'")
    connection.close()
    result = call("check --account customers --delta 1e-6 --epsilon 3")
    assert (result.exit_code, result.stdout) == (5, "")


@pytest.mark.parametrize("command", ["check", "statement"])
def test_help_has_examples_that_work_and_fits(home: Path, command: str) -> None:
    Path("run.json").write_text(json.dumps((cm.Laplace(scale=2.0) * 10).to_dict()), encoding="utf-8")
    assert call("ledger open others --epsilon 1 --delta 1e-6 --unit u").exit_code == 0
    text = call(f"{command} --help").stdout
    examples = [line.strip() for line in text.replace("\\\n", " ").splitlines() if line.startswith("    cumulant ")]
    assert len(examples) >= 4
    assert max(map(len, text.splitlines())) <= 80
    for example in examples:
        line = example.removeprefix("cumulant ").replace("--account customers", "--account others")
        assert call(line).exit_code == 0, example


def test_a_ledger_in_the_environment_is_no_option(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUMULANT_LEDGER", "sqlite:///budget.db")
    assert checked(f"{RUN} --epsilon 2")[0] == "holds"
    assert checked("--account customers --delta 1e-6 --epsilon 3")[0] == "holds"


# Both ends beside an answer -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [
        f"epsilon {RUN}",
        "sgd --noise-multiplier 1 --batch-size 256 --dataset-size 60000 --epochs 3 --delta 1e-5",
        "sgd --epsilon 2 --batch-size 256 --dataset-size 60000 --epochs 3 --delta 1e-5",
        "epsilon --noise-multiplier 2 --delta 1e-400",
        "epsilon --noise-multiplier 2 --delta 1",
    ],
)
def test_both_ends_beside_an_answer(line: str) -> None:
    answer = json.loads(call(f"{line} --interval --json").stdout)["answer"]
    ends = answer["interval"]
    assert ends["certified"]
    assert ends["lower"] <= answer["epsilon"] <= ends["upper"] * (1 + 1e-9) + 1e-9
    text = " ".join(call(f"{line} --interval").stdout.split())
    low, high = map(float, re.findall(r"interval (\S+) <= epsilon <= (\S+) \(certified, rounding", text)[0])
    assert low <= ends["lower"] <= ends["upper"] <= high
    assert "interval" not in json.loads(call(f"{line} --json").stdout)["answer"]


def test_where_no_lower_end_is_known_that_is_said() -> None:
    line = "epsilon --mechanism zcdp --rho 1 --delta 1e-5 --interval"
    assert json.loads(call(f"{line} --json").stdout)["answer"]["interval"] is None
    assert "none: no neighbours are known" in call(line).stdout
