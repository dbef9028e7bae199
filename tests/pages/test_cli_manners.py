"""How the command treats people: what is understood, what is asked back, and what fits where it is shown."""

from __future__ import annotations

import io
import math
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

import cumulant as cm
from cli_runner import answered, call
from cumulant.cli import waiting
from cumulant.cli.main import main
from cumulant.cli.manual import commands, root_of
from cumulant.errors import MisnamedParameter

GAUSSIAN = "--noise-multiplier 2"
SGD = "sgd --noise-multiplier 1 --batch-size 256 --dataset-size 60000 --epochs 1 --delta 1e-5"


def names() -> list[str]:
    """Return every command with all below it, as it is typed."""
    return [context.command_path.removeprefix("cumulant").strip() for context in commands(root_of(main))]


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        (f"epsilon {GAUSSIAN} --delta 1/100000", f"epsilon {GAUSSIAN} --delta 1e-05"),
        (f"epsilon {GAUSSIAN} --delta 0.001%", f"epsilon {GAUSSIAN} --delta 0.00001"),
        (f"epsilon {GAUSSIAN} --rate 3% --delta 1e-5", f"epsilon {GAUSSIAN} --rate 0.03 --delta 1e-5"),
        (f"epsilon --mechanism Gaussian {GAUSSIAN} --delta 1e-5", f"epsilon {GAUSSIAN} --delta 1e-5"),
        (
            f"epsilon {GAUSSIAN} --sampling WITHOUT_REPLACEMENT --rate 0.1 --delta 1e-5",
            f"epsilon {GAUSSIAN} --sampling without-replacement --rate 0.1 --delta 1e-5",
        ),
        (f"{SGD} --loader fixed", f"{SGD} --sampling without_replacement"),
        (f"{SGD} --loader allocation --bins kept", f"{SGD} --sampling balls-in-bins --bins kept"),
        (
            f"statement {GAUSSIAN} --batch-size 9 --dataset-size 99 --epochs 2 --delta 1e-5 --loader shuffled",
            f"statement {GAUSSIAN} --batch-size 9 --dataset-size 99 --epochs 2 --delta 1e-5 --sampling shuffled",
        ),
        (
            f"check {GAUSSIAN} --rate 0.1 --epsilon 9 --delta 1e-5 --steps 2 --loader opacus",
            f"check {GAUSSIAN} --rate 0.1 --epsilon 9 --delta 1e-5 --steps 2 --sampling opacus",
        ),
        ("epsilon -h", "epsilon --help"),
        ("-h", "--help"),
    ],
)
def test_what_is_understood(typed: str, meant: str) -> None:
    assert call(typed).output == call(meant).output != ""


@pytest.mark.parametrize(
    ("typed", "asked_back"),
    [
        ("epsilon --sigma 1", "Did you mean '--noise-multiplier'? Try"),
        ("epsilon --loader poisson", "Did you mean '--sampling'? Try"),
        (f"epsilon {GAUSSIAN} --deltaa 1", "Did you mean '--delta'? Try"),
        (f"epsilon {GAUSSIAN} --delta 1e-5 --mechanism gausian", "Did you mean 'gaussian'? Try"),
        (f"epsilon {GAUSSIAN} --delta 1e-5 --method bset", "Did you mean 'best'? Try"),
        ("ledger status --database x", "Did you mean '--ledger'? Try"),
        ("version", "Did you mean '--version'? Try"),
        ("epsilno", "Did you mean 'epsilon'? Try"),
        (f"epsilon {GAUSSIAN} --delta 1e-5 --steps 60m", "write 60e6, or 60e-3. Try"),
        (f"epsilon {GAUSSIAN} --delta 1e-5 --steps 60,000", "write 60000, without commas"),
        ("epsilon --noise-multiplier 150% --delta 1e-5", "write 1.50. Try"),
        ("figures --only balle-2 --out nowhere", "Did you mean 'balle-1'? Try"),
    ],
)
def test_what_is_asked_back(typed: str, asked_back: str) -> None:
    result = call(typed)
    assert result.exit_code == 2
    assert asked_back in result.stderr


@pytest.mark.parametrize("typed", ["epsilon --frobnicate 1", "frobnicate", f"epsilon {GAUSSIAN} --delta 1e999999999/3"])
def test_nothing_is_asked_back_where_nothing_is_near(typed: str) -> None:
    result = call(typed)
    assert result.exit_code == 2
    assert "Did you mean" not in result.stderr


@pytest.mark.parametrize("name", names())
@pytest.mark.parametrize("columns", [45, 80])
def test_help_fits(name: str, columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    assert max(map(len, call(f"{name} --help").stdout.splitlines())) <= columns


@pytest.mark.parametrize(
    "text", [f"compare {GAUSSIAN} --rate 0.1 --delta 1e-5", f"epsilon {GAUSSIAN} --delta 1e-5", SGD]
)
def test_answers_fit(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "45")
    lines = call(text).stdout.splitlines()
    assert max(map(len, lines)) <= 45
    assert not any(line.endswith("...") for line in lines)


def test_the_manual_page_has_every_command() -> None:
    lines = call("man").stdout.splitlines()
    assert lines[0].startswith(".TH CUMULANT 1")
    for name in names():
        assert f".SH {f'cumulant {name}'.strip().upper()}".replace("-", r"\-") in lines
    assert {line.split()[0] for line in lines if line.startswith(".")} == {".TH", ".SH", ".nf", ".fi"}


def test_no_color_is_heeded(monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = ["epsilon", "--noise-multiplier", "1", "--delta", "0.1"]
    assert "\x1b[" in CliRunner().invoke(main, arguments, color=True).output
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[" not in CliRunner().invoke(main, arguments, color=True).output


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
@pytest.mark.parametrize("arguments", ["epsilon --noise-multiplier 1 --delta 0.1", "--help", "man"])
def test_a_full_disk_is_one_line(arguments: str) -> None:
    source = str(Path(cm.__file__).parents[1])
    with Path("/dev/full").open("w") as full:
        run = subprocess.run(
            [sys.executable, "-m", "cumulant", *arguments.split()],
            stdout=full,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": source},
            text=True,
            check=False,
        )
    assert run.returncode not in (0, 120)
    assert run.stderr == "Error: the output cannot be written: No space left on device\n"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_shows_that_something_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "PATIENCE", 0.01)
    for stream, shown in ((Terminal(), True), (io.StringIO(), False)):
        monkeypatch.setattr(sys, "stderr", stream)
        with waiting.waiting():
            time.sleep(0.2)
        assert ("computing, 1 s" in stream.getvalue()) == shown
        assert stream.getvalue().endswith("\r\x1b[K" if shown else "")


def test_a_quick_answer_shows_nothing_on_the_way(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with waiting.waiting():
        pass
    assert terminal.getvalue() == ""


@pytest.mark.parametrize(
    ("delta", "remarked"), [("1e-5", False), ("1/60001", False), ("1/60000", True), ("0.01", True)]
)
def test_a_large_delta_is_remarked_upon(delta: str, remarked: bool) -> None:
    text = SGD.replace("--delta 1e-5", f"--delta {delta}")
    assert ("remark" in answered(text)["statement"]) == remarked
    assert ("delta is not below 1/60000" in " ".join(call(text).stdout.split())) == remarked


def test_nothing_was_released() -> None:
    text = call(f"epsilon {GAUSSIAN} --steps 0 --delta 1e-5").stdout
    assert text.startswith("epsilon = 0 at")
    assert "no release" in text
    assert "Pinsker" not in text


@pytest.mark.parametrize("arguments", ["", "--width 3.3 --height 2.5 --title Hello --font serif"])
def test_pictures_have_fonts_that_publishers_take(arguments: str, tmp_path: Path) -> None:
    file = tmp_path / "chart.pdf"
    assert call(f"plot tradeoff {GAUSSIAN} {arguments} --out {file}").exit_code == 0
    content = file.read_bytes()
    assert b"/Type3" not in content
    assert b"/CIDFontType2" in content
    box = content.split(b"/MediaBox [")[1].split(b"]")[0].split()
    if arguments:
        assert [float(side) for side in box[2:]] == pytest.approx([3.3 * 72, 2.5 * 72])


def test_a_font_that_is_not_there(tmp_path: Path) -> None:
    result = call(f"plot tradeoff {GAUSSIAN} --font Nowhere --out {tmp_path / 'chart.png'}")
    assert (result.exit_code, "there is no font 'Nowhere'" in result.stderr) == (2, True)


# The same in Python -----------------------------------------------------------------------------------------------


def test_names_from_elsewhere_are_answered() -> None:
    with pytest.raises(MisnamedParameter, match="dp_sgd has no parameter 'batches', it takes noise_multiplier, batch"):
        cm.dp_sgd(noise_multiplier=1.0, batches=256)  # type: ignore[call-arg]
    with pytest.raises(MisnamedParameter, match="epsilon has no parameter 'epsilon', it takes delta, log_delta"):
        cm.Gaussian(noise_multiplier=1.0).epsilon(epsilon=1.0)  # type: ignore[call-arg]
    with pytest.raises(MisnamedParameter, match="dp_sgd takes its arguments by name"):
        cm.dp_sgd(1.0)  # type: ignore[call-arg]
    with pytest.raises(cm.InvalidParameter, match="torch_coin"):
        cm.dp_sgd(noise_multiplier=1.0, sample_rate=0.1, steps=1, sampling="opacus")


@pytest.mark.parametrize(("here", "there"), [("fixed", "without_replacement"), ("allocation", "random_allocation")])
def test_loaders_have_both_names(here: str, there: str) -> None:
    plan = {"noise_multiplier": 4.0, "sample_rate": 0.1, "steps": 10}
    assert cm.dp_sgd(**plan, sampling=here) == cm.dp_sgd(**plan, sampling=there)  # type: ignore[arg-type]


def test_steps_can_be_summed() -> None:
    step = cm.Gaussian(noise_multiplier=2.0)
    assert (step * 3 == sum([step, step, step])) is True  # type: ignore[comparison-overlap]
    with pytest.raises(TypeError):
        1 + step


def test_what_notebooks_show() -> None:
    accountant = cm.Accountant(epsilon=1.0, delta=1e-6)
    assert repr(accountant) == "<Accountant(epsilon=1.0, delta=1e-06)>"
    assert repr(cm.Accountant()) == "<Accountant()>"
    accountant.compose(cm.Gaussian(noise_multiplier=20.0), count=2, label="a < b")
    for part in ("1 entry", "ε = 1 at δ = 1e-06", "2 x Gaussian noise of 20 x the sensitivity", "a &lt; b"):
        assert part in accountant._repr_html_()
    guarantee = accountant.run.guarantee(delta=1.234567891e-6)
    assert "δ = 1.234567891e-06" in guarantee._repr_html_()
    interval = accountant.epsilon_interval(delta=1e-6)
    lower, upper = (float(cell.split("</td>")[0]) for cell in interval._repr_html_().split("<td>")[1:])
    assert lower <= interval.lower <= interval.upper <= upper <= interval.upper * (1 + math.ldexp(1, -30))


@pytest.mark.parametrize("sampling", ["without_replacement", "shuffled"])
def test_what_is_not_exact_is_not_called_so(sampling: str) -> None:
    run = cm.dp_sgd(noise_multiplier=4.0, sample_rate=0.1, steps=10, sampling=sampling)  # type: ignore[arg-type]
    for found in (run.guarantee(delta=1e-5), run.guarantee(delta=1e-5, method="exact"), run.guarantee(epsilon=0.1)):
        assert found.exact or found.method != "exact"
