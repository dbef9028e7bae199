"""The command line, through its real entry points and in process."""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from decimal import Decimal, localcontext
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from mpmath import mp, mpf

import cumulant as cm
from cli_runner import answered, call
from cumulant.cli.main import main
from cumulant.cli.mechanism_options import MECHANISM_NAMES, MECHANISMS, NAMES, SAMPLING_NAMES
from cumulant.cli.parameter_types import curve
from cumulant.cli.question_options import METHODS
from cumulant.mechanisms.answers import METHODS as LIBRARY_METHODS
from cumulant.mechanisms.base import AbstractMechanism
from cumulant.mechanisms.data import REGISTRY
from cumulant.printed import delta_rounded_up, rounded_up
from cumulant.report.release_words import release_words
from cumulant.report.typed import log_of, number

CURVE = "order,epsilon  # measured\n\n2, 0.1\n4\t0.9\n# a comment\n8 0.4\ninf,5\n"
# Options, and the mechanism that they must stand for.
EVERY_MECHANISM: list[tuple[str, AbstractMechanism]] = [
    ("--noise-multiplier 2", cm.Gaussian(noise_multiplier=2.0)),
    ("--mechanism gaussian --noise-multiplier 0.5", cm.Gaussian(noise_multiplier=0.5)),
    (
        "--mechanism gaussian-mixture --noise-multiplier 2 --sensitivities 0,1,3 --probabilities 0.5,0.25,0.25",
        cm.GaussianMixture(noise_multiplier=2.0, sensitivities=(0.0, 1.0, 3.0), probabilities=(0.5, 0.25, 0.25)),
    ),
    ("--mechanism laplace --scale 2", cm.Laplace(scale=2.0)),
    ("--mechanism laplace-vector --scale 2", cm.LaplaceVector(scale=2.0)),
    (
        "--mechanism family-pair --family gamma --natural 1,-2 --neighbor-natural 1.5,-2",
        cm.FamilyPair(family="gamma", natural=(1.0, -2.0), neighbor_natural=(1.5, -2.0)),
    ),
    ("--mechanism randomized-response --p 0.75", cm.RandomizedResponse(p=0.75)),
    ("--mechanism pure --release-epsilon 0.5", cm.PureDP(epsilon=0.5)),
    (
        "--mechanism approximate --release-epsilon 0.5 --release-delta 1e-6",
        cm.ApproximateDP(epsilon=0.5, delta=1e-6),
    ),
    ("--mechanism zcdp --rho 0.125", cm.ZCDP(rho=0.125)),
    ("--mechanism zcdp --rho 0.125 --xi 0.25", cm.ZCDP(rho=0.125, xi=0.25)),
    ("--mechanism tcdp --rho 0.125 --omega 10", cm.TruncatedCDP(rho=0.125, omega=10.0)),
    (
        "--mechanism exponential-family --distance 1 --smoothness 0.25",
        cm.ExponentialFamily(distance=1, smoothness=0.25),
    ),
    (
        "--mechanism exponential-family --distance 1 --smoothness 0.25 --lipschitz 3 --radius 7",
        cm.ExponentialFamily(distance=1, smoothness=0.25, lipschitz=3, radius=7),
    ),
    (
        "--mechanism multivariate-gaussian --shift -1,0.5 --covariance 1,0.5;0.5,2 --neighbor-covariance 2,0;0,3",
        cm.MultivariateGaussian(
            shift=(-1.0, 0.5), covariance=((1.0, 0.5), (0.5, 2.0)), neighbor_covariance=((2.0, 0.0), (0.0, 3.0))
        ),
    ),
    ("--mechanism curve --curve rdp.csv", cm.RenyiCurve([(2, 0.1), (4, 0.9), (8, 0.4), (math.inf, 5)])),
    ("--run run.json", cm.Gaussian(noise_multiplier=2.0) * 10 + cm.Laplace(scale=3.0)),
]
mechanisms = pytest.mark.parametrize(("options", "mechanism"), EVERY_MECHANISM)


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    run = cm.Gaussian(noise_multiplier=2.0) * 10 + cm.Laplace(scale=3.0)
    contents = {
        "rdp.csv": CURVE,
        "run.json": json.dumps(run.to_dict()),
        "words.csv": "2,0.1\n3,much\n",
        "wide.csv": "2,0.1,7\n",
        "empty.csv": "order,epsilon\n",
        "tiny.csv": "2,1e-400\n",
        "broken.json": "{",
        "deep.json": "[" * 100_000,
        "list.json": "[1, 2]",
        "old.json": '{"cumulant": 0, "mechanism": "Laplace", "scale": 1}',
        "unnamed.json": '{"cumulant": 1, "mechanism": []}',
        "partless.json": '{"cumulant": 1, "mechanism": "Composed"}',
        "fieldless.json": '{"cumulant": 1, "mechanism": "Laplace"}',
        "nan.json": '{"cumulant": 1, "mechanism": "Laplace", "scale": NaN}',
    }
    for name, content in contents.items():
        Path(name).write_text(content, encoding="utf-8")
    Path("latin.json").write_bytes(b'"\xe9"')


def started(command: Sequence[str], *, encoding: str = "utf-8") -> subprocess.CompletedProcess[str]:
    """Run the command as a user would."""
    source = str(Path(cm.__file__).parents[1])
    environment = {**os.environ, "COLUMNS": "80", "PYTHONPATH": source, "PYTHONIOENCODING": encoding}
    return subprocess.run(command, env=environment, capture_output=True, encoding=encoding, check=False)


# The answers ---------------------------------------------------------------------------------------


def gaussian_delta(mu: Any, epsilon: Any) -> Any:
    """Balle and Wang (2018), Theorem 8, for a composition with μ² = n/σ²."""
    return mp.ncdf(mu / 2 - epsilon / mu) - mp.exp(epsilon) * mp.ncdf(-mu / 2 - epsilon / mu)


@pytest.mark.parametrize("delta", ["1e-5", "0.1", "1e-300", "3.7e-400"])
def test_gaussian_epsilon_is_the_closed_form(delta: str) -> None:
    """The printed ε, as a decimal text, satisfies δ(ε) <= δ, and a slightly smaller one does not."""
    printed = call(f"epsilon --noise-multiplier 2 --steps 9 --delta {delta}").stdout.splitlines()[0]
    epsilon = printed.removeprefix("epsilon = ").removesuffix(f" at delta = {delta}")
    with mp.workdps(450):
        assert gaussian_delta(mpf(3) / 2, mpf(epsilon)) <= mpf(delta)
        assert gaussian_delta(mpf(3) / 2, mpf(epsilon) * (1 - mpf("2e-9"))) > mpf(delta)


@pytest.mark.parametrize("epsilon", ["0", "1", "2.5", "60"])
def test_gaussian_delta_is_the_closed_form(epsilon: str) -> None:
    printed = call(f"delta --noise-multiplier 2 --steps 9 --epsilon {epsilon}").stdout.splitlines()[0]
    delta = printed.removeprefix("delta = ").removesuffix(f" at epsilon = {epsilon}")
    with mp.workdps(900):
        exact = gaussian_delta(mpf(3) / 2, mpf(epsilon))
        assert exact <= mpf(delta) <= exact * (1 + mpf("1.1e-5"))


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("--mechanism laplace --scale 2 --steps 3", 1.5),
        ("--mechanism pure --release-epsilon 0.25 --steps 8", 2.0),
        ("--mechanism randomized-response --p 0.75", math.log(3)),
        ("--mechanism curve --curve rdp.csv", 5.0),
        ("--noise-multiplier 3", math.inf),
        ("--mechanism approximate --release-epsilon 1 --release-delta 1e-6", math.inf),
    ],
)
def test_delta_zero_is_pure_dp(options: str, expected: float) -> None:
    answer = float(answered(f"epsilon {options} --delta 0")["answer"]["epsilon"])
    assert answer == pytest.approx(expected, rel=1e-12)


def test_delta_of_one_release_is_not_the_delta_asked_for() -> None:
    """The same text read twice must be the same number: at its own δ the release keeps its own ε."""
    for text in ("1e-6", "0.1", "1e-300", "0.9"):
        options = f"--mechanism approximate --release-epsilon 1 --release-delta {text}"
        assert answered(f"epsilon {options} --delta {text}")["answer"]["epsilon"] == 1.0
        delta = answered(f"delta {options} --epsilon 1")["answer"]["delta"]
        assert float(text) <= delta <= float(text) * (1 + 1e-12)


@mechanisms
@pytest.mark.parametrize("steps", [1, 7])
def test_options_stand_for_the_mechanism(options: str, mechanism: AbstractMechanism, steps: int) -> None:
    run = mechanism if steps == 1 else mechanism * steps
    content = answered(f"epsilon {options} --steps {steps} --delta 1e-5 --method rdp")
    assert cm.from_dict(content["mechanism"]) == run
    assert content["answer"] == {"epsilon": run.epsilon(delta=1e-5, method="rdp")}
    assert content["version"] == cm.__version__
    assert content["question"] == {
        "asked": "epsilon",
        "delta": "1e-5",
        "log_delta": math.log(1e-5),
        "method": "rdp",
        "steps": steps,
    }
    assert content["explanation"]["epsilon"] == content["answer"]["epsilon"]
    assert sum(part["count"] for part in content["explanation"]["parts"]) == sum(n for _, n in run.releases())


@mechanisms
def test_delta_command_answers_as_the_library(options: str, mechanism: AbstractMechanism) -> None:
    content = answered(f"delta {options} --epsilon 0.75")
    log_delta = mechanism.log_delta(epsilon=0.75)
    assert content["answer"]["delta"] == mechanism.delta(epsilon=0.75)
    assert float(content["answer"]["log_delta"]) == log_delta
    assert float(content["explanation"]["log_delta"]) == log_delta
    assert content["explanation"]["epsilon"] == content["question"]["epsilon"] == 0.75


@mechanisms
@pytest.mark.parametrize("question", ["epsilon --delta 1e-400", "epsilon --delta 0", "delta --epsilon 1"])
def test_people_read_80_columns_and_a_proof(options: str, mechanism: AbstractMechanism, question: str) -> None:
    result = call(f"{question} {options} --steps 1000")
    assert result.exit_code == 0
    assert "\x1b" not in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80
    assert " ".join(result.stdout.split()).count("proven by ") == 1
    assert release_words(mechanism.releases()[0][0], 1) in " ".join(result.stdout.split())


def test_every_mechanism_of_the_library_is_covered() -> None:
    plain = {name for name, module in REGISTRY.items() if ".mechanisms." in module}
    plain -= {"Group", "StatedPair"}  # built from another mechanism, and from tables: by --run
    assert {choice.calls for choice in MECHANISMS.values()} == plain
    assert {type(mechanism).__name__ for _, mechanism in EVERY_MECHANISM} == plain | {"Composed"}
    assert METHODS == LIBRARY_METHODS


def test_a_long_table_is_cut_short_for_people_and_whole_for_programs() -> None:
    rows = [(2.0 + k, 0.5 + k) for k in range(300)]
    Path("long.csv").write_text("\n".join(f"{order} {value}" for order, value in rows), encoding="utf-8")
    assert len(call("epsilon --mechanism curve --curve long.csv --delta 1e-5").stdout.splitlines()) < 15
    content = answered("epsilon --mechanism curve --curve long.csv --delta 1e-5")
    assert content["mechanism"]["curve"] == [list(row) for row in rows]


def test_colour_is_for_terminals() -> None:
    arguments = ["epsilon", "--noise-multiplier", "1", "--delta", "0.1"]
    assert "\x1b[" in CliRunner().invoke(main, arguments, color=True).output


def test_a_run_may_come_from_standard_input() -> None:
    run = Path("run.json").read_text(encoding="utf-8")
    arguments = ["epsilon", "--run", "-", "--delta", "1e-5"]
    assert CliRunner().invoke(main, arguments, input=run).stdout == call("epsilon --run run.json --delta 1e-5").stdout


# Sampling ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("--rate 0.25", ("poisson", {"rate": 0.25})),
        (
            "--sampling poisson --rate 0.25 --neighbors replace-one",
            ("poisson", {"rate": 0.25, "neighbors": cm.REPLACE_ONE}),
        ),
        ("--sampling without-replacement --rate 0.25", ("without_replacement", {"rate": 0.25})),
        (
            "--sampling without-replacement --batch 2 --population 9 --neighbors add-remove",
            ("without_replacement", {"batch": 2, "population": 9, "neighbors": cm.ADD_REMOVE}),
        ),
        ("--sampling with-replacement --batch 2 --population 9", ("with_replacement", {"draws": 2, "population": 9})),
    ],
)
def test_sampling_options_reach_the_method(
    monkeypatch: pytest.MonkeyPatch, options: str, expected: tuple[str, dict[str, Any]]
) -> None:
    """Each scheme is replaced by a recorder that returns a mechanism known by sight."""
    called: list[tuple[str, dict[str, Any]]] = []

    def recorder(name: str) -> Any:
        def record(mechanism: AbstractMechanism, **arguments: Any) -> AbstractMechanism:
            assert mechanism == cm.Laplace(scale=2.0)
            called.append((name, arguments))
            return cm.PureDP(epsilon=0.25)

        return record

    for name in ("poisson", "without_replacement", "with_replacement"):
        monkeypatch.setattr(AbstractMechanism, name, recorder(name), raising=False)
    content = answered(f"epsilon --mechanism laplace --scale 2 {options} --steps 4 --delta 0")
    assert called == [expected]
    assert content["answer"]["epsilon"] == 1.0


# Refusals ------------------------------------------------------------------------------------------

REFUSED = [
    # the command itself
    ("nonsense", "No such command"),
    ("--nonsense", "No such option"),
    ("epsilon", "--delta"),
    ("delta --noise-multiplier 1", "--epsilon"),
    ("epsilon --delta 1e-5 extra", "extra"),
    # the question
    ("epsilon --noise-multiplier 1 --delta nan", "not a number"),
    ("epsilon --noise-multiplier 1 --delta small", "not a number"),
    ("epsilon --noise-multiplier 1 --delta -0.1", "between 0 and 1"),
    ("epsilon --noise-multiplier 1 --delta 1.0000000000000000000001", "between 0 and 1"),
    ("epsilon --noise-multiplier 1 --delta 1e-5 --steps -1", "--steps"),
    ("epsilon --noise-multiplier 1 --delta 1e-5 --steps 1.5", "--steps"),
    ("epsilon --noise-multiplier 1 --delta 1e-5 --method fast", "--method"),
    ("delta --noise-multiplier 1 --epsilon -1", "epsilon must be"),
    ("delta --noise-multiplier 1 --epsilon inf", "epsilon must be"),
    ("delta --noise-multiplier 1 --epsilon snan", "not a number"),
    # the mechanism
    ("epsilon --delta 1e-5", "--mechanism gaussian needs --noise-multiplier"),
    ("epsilon --mechanism unknown --delta 1e-5", "--mechanism"),
    ("epsilon --noise-multiplier 0 --delta 1e-5", "noise_multiplier must be"),
    ("epsilon --noise-multiplier 1e-400 --delta 1e-5", "beyond floating point"),
    ("epsilon --noise-multiplier 1e400 --delta 1e-5", "beyond floating point"),
    ("epsilon --noise-multiplier 1 --scale 1 --delta 1e-5", "--scale does not belong to --mechanism gaussian"),
    ("epsilon --mechanism laplace --noise-multiplier 1 --delta 1e-5", "--noise-multiplier does not belong"),
    ("epsilon --mechanism pure --delta 1e-5", "needs --release-epsilon"),
    ("epsilon --mechanism pure --release-epsilon -1 --delta 1e-5", "--mechanism pure: epsilon must be"),
    ("epsilon --mechanism pure --release-epsilon 1 --release-delta 0 --delta 0", "belong"),
    (
        "epsilon --mechanism approximate --release-epsilon 1 --release-delta 1e-400 --delta 1e-5",
        "beyond floating point",
    ),
    ("epsilon --mechanism tcdp --rho 1 --delta 1e-5", "needs --omega"),
    ("epsilon --mechanism zcdp --rho 1 --omega 3 --delta 1e-5", "--omega does not belong"),
    ("epsilon --mechanism exponential-family --distance 1 --delta 1e-5", "smoothness"),
    (
        "epsilon --mechanism multivariate-gaussian --shift 1;2 --covariance 1 --neighbor-covariance 1 --delta 0.1",
        "--shift",
    ),
    (
        "epsilon --mechanism multivariate-gaussian --shift 1 --covariance 1,2 --neighbor-covariance 1 --delta 0.1",
        "covariance must be",
    ),
    (
        "epsilon --mechanism multivariate-gaussian --shift 1,1 --covariance 1,2;3 --neighbor-covariance 1 --delta 0.1",
        "covariance must be",
    ),
    # files
    ("epsilon --mechanism curve --curve nowhere.csv --delta 1e-5", "No such file"),
    ("epsilon --mechanism curve --curve words.csv --delta 1e-5", "line 2: 'much' is not a number"),
    ("epsilon --mechanism curve --curve wide.csv --delta 1e-5", "line 1: two numbers"),
    ("epsilon --mechanism curve --curve empty.csv --delta 1e-5", "no rows"),
    ("epsilon --mechanism curve --curve tiny.csv --delta 1e-5", "line 1: '1e-400' is beyond"),
    ("epsilon --curve rdp.csv --delta 1e-5", "--curve does not belong to --mechanism gaussian, but to curve"),
    ("epsilon --run nowhere.json --delta 1e-5", "No such file"),
    ("epsilon --run . --delta 1e-5", "--run"),
    ("epsilon --run broken.json --delta 1e-5", "cannot be read as JSON"),
    ("epsilon --run deep.json --delta 1e-5", "cannot be read as JSON"),
    ("epsilon --run latin.json --delta 1e-5", "cannot be read as JSON"),
    ("epsilon --run list.json --delta 1e-5", "dictionary"),
    ("epsilon --run old.json --delta 1e-5", "dictionary"),
    ("epsilon --run unnamed.json --delta 1e-5", ""),
    ("epsilon --run partless.json --delta 1e-5", ""),
    ("epsilon --run fieldless.json --delta 1e-5", "scale"),
    ("epsilon --run nan.json --delta 1e-5", "scale must be"),
    ("epsilon --run run.json --noise-multiplier 1 --delta 1e-5", "--noise-multiplier cannot be added"),
    ("epsilon --run run.json --mechanism gaussian --delta 1e-5", "--mechanism cannot be added"),
    # sampling
    ("epsilon --noise-multiplier 1 --sampling poisson --delta 1e-5", "--sampling poisson needs --rate"),
    ("epsilon --noise-multiplier 1 --rate 0.1 --batch 3 --delta 1e-5", "--batch does not belong to --sampling poisson"),
    (
        "epsilon --noise-multiplier 1 --batch 3 --population 9 --delta 1e-5",
        "give --sampling poisson or without",
    ),
    ("epsilon --noise-multiplier 1 --neighbors replace-one --delta 1e-5", "give --sampling"),
    (
        "epsilon --noise-multiplier 1 --sampling with-replacement --rate 0.1 --batch 3 --population 9 --delta 1e-5",
        "--rate does not belong",
    ),
    ("epsilon --noise-multiplier 1 --sampling with-replacement --batch 3 --delta 1e-5", "needs --population"),
    ("epsilon --noise-multiplier 1 --sampling shuffle --delta 1e-5", "--sampling"),
]


@pytest.mark.parametrize(("text", "reason"), REFUSED)
def test_refusals_are_one_line_on_stderr_with_code_2(text: str, reason: str) -> None:
    result = call(text)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("Error: ")
    assert result.stderr.count("\n") == 1
    assert len(result.stderr) < 420
    assert reason in result.stderr


def test_every_stray_option_is_refused() -> None:
    """None of the options is ignored by a mechanism or a sampling that it does not belong to."""
    values = {"shift": "1", "covariance": "1", "neighbor_covariance": "1", "curve": "rdp.csv"}
    for chosen, choice in MECHANISMS.items():
        needed = " ".join(f"--{name.replace('_', '-')} {values.get(name, '0.5')}" for name in choice.needed)
        for name in set(MECHANISM_NAMES) - set(choice.names):
            stray = f"--{name.replace('_', '-')} {values.get(name, '0.5')}"
            result = call(f"epsilon --mechanism {chosen} {needed} {stray} --delta 0.1")
            assert (result.exit_code, "does not belong" in result.stderr) == (2, True), (chosen, name)
    assert set(NAMES) == {"mechanism", "run", "sampling", *MECHANISM_NAMES, *SAMPLING_NAMES}


# Help, and the real entry points -------------------------------------------------------------------


@pytest.mark.parametrize("command", ["", "epsilon", "delta"])
def test_help_has_examples_that_work_and_fits(command: str) -> None:
    text = call(f"{command} --help").stdout
    whole = text.replace("\\\n", " ")  # an example may go on in the next line
    examples = [line.strip() for line in whole.splitlines() if line.startswith("    cumulant ")]
    assert "Examples:" in text
    assert len(examples) >= 3
    assert max(map(len, text.splitlines())) <= 80
    for example in examples:
        assert call(example.removeprefix("cumulant ")).exit_code == 0, example


def test_without_arguments_it_shows_help() -> None:
    result = call("")
    assert (result.exit_code, result.stdout) == (0, call("--help").stdout)
    assert "_CUMULANT_COMPLETE=bash_source cumulant" in result.stdout


def test_entry_points() -> None:
    module = [sys.executable, "-m", "cumulant.cli.main"]
    version = started([*module, "--version"])
    assert (version.returncode, version.stdout) == (0, f"cumulant, version {cm.__version__}\n")
    package = started([sys.executable, "-m", "cumulant", "epsilon", "--noise-multiplier", "2", "--delta", "1e-400"])
    assert (package.returncode, package.stderr) == (0, "")
    assert package.stdout == call("epsilon --noise-multiplier 2 --delta 1e-400").stdout
    refused = started([*module, "epsilon", "--noise-multiplier", "nan", "--delta", "0"])
    assert (refused.returncode, refused.stdout, refused.stderr.count("\n")) == (2, "", 1)
    assert "Traceback" not in refused.stderr
    script = shutil.which("cumulant", path=str(Path(sys.executable).parent))
    if script is not None:
        assert started([script, "--version"]).stdout == version.stdout


def test_shell_completion(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_CUMULANT_COMPLETE", "bash_source")
    assert "_CUMULANT_COMPLETE=bash_complete" in started([sys.executable, "-m", "cumulant"]).stdout


def test_a_terminal_that_lacks_a_letter() -> None:
    command = [sys.executable, "-m", "cumulant", "delta", "--mechanism", "zcdp", "--rho", "0.1", "--epsilon", "1"]
    result = started(command, encoding="iso8859-5")  # Cyrillic, no é
    assert (result.returncode, "R?nyi" in result.stdout) == (0, True)


# Numbers and texts ---------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["1e-308", "9.99e-309", "1e-320", "1e-400", "7.5e-12345", "1e-999999999999999999"])
def test_log_of_a_tiny_delta_is_rounded_down_by_less_than_two_units(text: str) -> None:
    mantissa, exponent = text.split("e")
    with mp.workdps(60):
        exact = mp.log(mpf(mantissa)) + int(exponent) * mp.log(10)
        assert mpf(log_of(text)) <= exact
        assert exact <= mpf(log_of(text)) + 2 * mpf(math.ulp(log_of(text)))


def test_log_of_ordinary_deltas_is_that_of_the_double() -> None:
    for text in ("1e-5", "0.1", "1", "1e-300", " 0.5 "):
        assert log_of(text) == math.log(float(text))
    assert log_of("0") == log_of("0e-500") == -math.inf
    assert log_of("0.99999999999999999999") < 0  # not 1, where every promise holds


@pytest.mark.parametrize("value", [1 / 3, 0.1, 1.0, 1e-20 / 7, 12345678901.5, 1e300 / 3, 5e-324, 0.0])
def test_printed_numbers_are_never_below(value: float) -> None:
    printed = rounded_up(value)
    assert float(printed) >= value
    assert Decimal(printed) <= Decimal(repr(value)) * (1 + Decimal("1e-9"))


@pytest.mark.parametrize("log_delta", [0.0, -0.1, -11.512925464970229, -700.5, -1000.0, -1e6, -123456789.1])
def test_printed_deltas_are_never_below(log_delta: float) -> None:
    printed = mpf(delta_rounded_up(log_delta))
    with mp.workdps(50):
        assert mp.exp(mpf(log_delta)) <= printed <= mp.exp(mpf(log_delta)) * (1 + mpf("1.1e-5"))


@pytest.mark.parametrize("digits", [1, 4, 6])
def test_no_printed_delta_is_below_one_that_is_no_short_number(digits: int) -> None:
    """Doubles next to the logarithms of short numbers, where snapping to them would be wrong."""
    for exponent in range(1, 300, 7):
        short = float(f"{1 + exponent % 9}e-{exponent}")
        assert float(delta_rounded_up(math.log(short), digits=digits)) == short
        for steps in range(1, 30):
            log_delta = math.log(short)
            for _ in range(steps):
                log_delta = math.nextafter(log_delta, 0.0)
            with mp.workdps(50):
                assert mp.exp(mpf(log_delta)) <= mpf(delta_rounded_up(log_delta, digits=digits))


def test_a_delta_too_deep_for_digits_is_printed_as_a_power_of_e() -> None:
    with localcontext() as context:
        context.prec = 50
        inside = delta_rounded_up(-1e20 / 3).removeprefix("exp(").removesuffix(")")
        assert Decimal(-1e20 / 3) <= Decimal(inside) <= Decimal(-1e20 / 3) * (1 - Decimal("1e-9"))


def test_curve_tables() -> None:
    assert curve(CURVE.splitlines()) == ((2.0, 0.1), (4.0, 0.9), (8.0, 0.4), (math.inf, 5.0))
    assert curve(["2 1"]) == ((2.0, 1.0),)
    with pytest.raises(ValueError, match="line 3"):
        curve(["order epsilon", "2 1", "order epsilon"])
    assert number("-inf") == -math.inf
