"""`cumulant ledger` and its reports, tried as a new user would."""

from __future__ import annotations

import json
import random
import re
import shlex
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from fractions import Fraction
from pathlib import Path
from typing import Any

import click
import mpmath
import pytest
from click.testing import Result
from hypothesis import given, settings

import cumulant as cm
from cli_runner import runner
from cumulant.cli.ledger import ledger as ledger_command
from cumulant.cli.main import main
from cumulant.ledger import Stage
from cumulant.ledger.allocation import Block
from cumulant.ledger.lines import UNITS, FailureReserve, GaussianReserve, PureBeyond, RenyiReserve, Slot
from cumulant.ledger.report import clock_of, html_of, make_report, markdown_of, write_report
from cumulant.ledger.report_pages import WIDTH, pages_of
from cumulant.mechanisms.base import AbstractMechanism
from strategies import simple_mechanisms

ROOT = Path(__file__).parents[2]
STEP = cm.Gaussian(noise_multiplier=1.0).poisson(rate=0.01)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty directory, and no ledger in the environment."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CUMULANT_LEDGER", raising=False)
    return tmp_path


def call(text: str) -> Result:
    result = runner().invoke(main, shlex.split(text))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def done(text: str) -> str:
    result = call(text)
    assert result.exit_code == 0, result.output
    return result.stdout


def answered(text: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(done(text + " --json"), parse_constant=pytest.fail)
    assert content["version"] == cm.__version__
    return content


def five_commands() -> list[str]:
    """The commands that the page shows to a new user."""
    page = (ROOT / "docs" / "ledger.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"<!-- five commands -->\n```sh\n(.*?)```", page, re.DOTALL)
    return [line.removeprefix("cumulant ") for line in block.replace("\\\n", " ").splitlines()]


def test_from_an_empty_directory_to_a_refusal_and_a_report_in_five_commands(home: Path) -> None:
    commands = five_commands()
    assert len(commands) == 5
    results = [call(command) for command in commands]
    assert [result.exit_code for result in results] == [0, 0, 0, 3, 0]
    assert "over the budget" in results[3].stderr
    assert results[3].stderr.count("\n") == 1
    page = (home / "report.html").read_text(encoding="utf-8")
    assert "Privacy budget of customers" in page
    assert "<svg" in page
    assert all(command in ledger_command.help.replace("\\\n", "") for command in commands)  # type: ignore[union-attr]


def test_every_command_has_help_with_examples_and_json() -> None:
    for name, command in ledger_command.commands.items():
        text = done(f"ledger {name} --help")
        assert "Example" in text, name
        assert f"cumulant ledger {name}" in text
        assert any("--json" in option.opts for option in command.params), name


def commands_of(command: click.Command, name: str = "") -> Iterator[tuple[str, click.Command]]:
    yield name.strip(), command
    for below, inner in getattr(command, "commands", {}).items():
        yield from commands_of(inner, f"{name} {below}")


def test_the_shell_completes_accounts_wherever_one_is_named(home: Path) -> None:
    done("ledger open customers --epsilon 1 --delta 1e-6 --unit u --ledger sqlite:///one.db")
    found = []
    for name, command in commands_of(main):
        for parameter in command.params:
            if parameter.name == "account":
                found.append(name)
                for address, expected in (("sqlite:///one.db", ["customers"]), ("sqlite:///none.db", [])):
                    context = click.Context(command, info_name=name)
                    context.params["address"] = address
                    items = parameter.shell_complete(context, "cu")
                    assert [item.value for item in items] == expected, name
    assert {"check", "ledger spend", "ledger status", "ledger verify", "ledger report", "ledger settle"} <= set(found)
    assert not (home / "none.db").exists()


def test_a_life_on_the_command_line(home: Path) -> None:
    plan = "--noise-multiplier 1 --rate 0.01"
    unit = '--unit "one customer"'
    done(f"ledger open customers --epsilon 3 --delta 1e-6 {unit} {plan} --steps 1000 --reserve 0.1 --failure 1e-8")
    spent = answered("ledger spend customers --mechanism laplace --scale 20 --by team-a --key job --label weekly")
    assert spent["receipt"]["entry"]["version"] == 2
    assert answered("ledger spend customers --mechanism laplace --scale 20 --by team-a --key job --label weekly")[
        "receipt"
    ]["again"]
    done(f"ledger reserve customers {plan} --steps 900 --key train --expires 2h")
    done("ledger start customers train")
    done(f"ledger settle customers train {plan} --steps 812")
    done(f"ledger reserve customers {plan} --steps 10 --key other")
    done("ledger cancel customers other")
    status = answered(f"ledger status customers {plan}")
    assert status["fits"] == 188
    assert status["status"]["version"] == 7
    assert "188 more like this one" in done(f"ledger status customers {plan}")
    assert answered("ledger status")["accounts"] == ["customers"]
    assert len(answered("ledger history customers --after 2")["entries"]) == 5
    assert "weekly" in done("ledger history customers")
    assert "7 entries" in done("ledger verify customers")
    (home / "heads.json").write_text(json.dumps(answered("ledger verify")))
    done("ledger verify --heads heads.json")
    (home / "customers.jsonl").write_text(done("ledger export customers"))
    done("ledger export customers --out again.jsonl")
    assert (home / "again.jsonl").read_text() == (home / "customers.jsonl").read_text()
    assert answered("ledger verify --export customers.jsonl")["verified"] == answered("ledger verify")["verified"]
    assert len(answered("ledger export customers")["entries"]) == 7


def test_blocks_and_stages_on_the_command_line(home: Path) -> None:
    (home / "plan.json").write_text(json.dumps((cm.Laplace(scale=9.0) * 2).to_dict()))
    done('ledger open visits --epsilon 1 --delta 1e-6 --unit "one visit" --plan plan.json --reserve 0 --divide w1')
    done("ledger blocks visits w2 w3")
    done("ledger spend visits --mechanism laplace --scale 9 --steps 2 --block w1 --block w2")
    refused = call("ledger spend visits --mechanism laplace --scale 9 --note-refusal")
    assert refused.exit_code == 3
    assert "in block 'w1'" in refused.stderr
    assert "refused" in done("ledger history visits")
    assert call("ledger advance visits").exit_code == 2
    done(
        'ledger open study --epsilon 1 --delta 1e-6 --unit "one visit" --stage plan.json --stage plan.json --reserve 0'
    )
    assert "1 (now): epsilon" in done("ledger status study")
    assert call("ledger spend study --mechanism laplace --scale 9 --steps 3").exit_code == 3
    done("ledger advance study")
    done("ledger spend study --mechanism laplace --scale 9 --steps 3")
    assert answered("ledger status study")["status"]["stage"] == 1
    assert call("ledger open x --epsilon 1 --delta 1e-6 --unit u --plan plan.json --stage plan.json").exit_code == 2


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("ledger status customers", "there is no ledger"),
        ("ledger spend customers --noise-multiplier 1", "there is no ledger"),
        ("ledger report customers --out report.html", "there is no ledger"),
        ("ledger verify --export nothing.jsonl", "No such file"),
        ("ledger open customers --epsilon 1 --delta 1e-6", "--unit"),
        ("ledger open c --epsilon 1 --delta 1e-6 --unit u --ledger sqlite://", "name a file"),
        ("ledger open c --epsilon 1 --delta 1e-6 --unit u --ledger nothing://x", "address"),
        ("ledger open c --epsilon nan --delta 1e-6 --unit u", "nan"),
        ("ledger open c --epsilon 0.1 --delta 1e-6 --unit u --noise-multiplier 1", "over the budget"),
    ],
)
def test_errors_are_one_line(home: Path, command: str, said: str) -> None:
    result = call(command)
    assert result.exit_code == (3 if said == "over the budget" else 2)
    assert result.stderr.count("\n") == 1
    assert said.lower() in result.stderr.lower()
    assert not (home / "budget.db").exists() or "open" in command


# Numbers in text ------------------------------------------------------------------------------------------------------


def numbers(text: str) -> list[Fraction]:
    return [Fraction(match) for match in re.findall(r"\d+(?:\.\d+)?(?:e[-+]?\d+)?", text)]


def test_what_is_left_is_rounded_down() -> None:
    """Amounts and percentages, of every line, for drawn budgets and drawn amounts; what is stated stays as it is."""
    draw = random.Random(4)
    for _ in range(300):
        sigma, units = draw.uniform(0.1, 50.0), draw.choice([0, 1, UNITS, draw.randrange(UNITS)])
        gaussian = GaussianReserve(stage=0, noise_multiplier=sigma)
        percent, part, whole = numbers(gaussian.show(units))
        share = Fraction(units, UNITS)
        assert share * 100 * Fraction(99, 100) <= percent <= share * 100
        assert part <= share / Fraction(sigma) ** 2
        assert part >= share / Fraction(sigma) ** 2 * (1 - Fraction(1, 10**5))
        assert whole <= 1 / Fraction(sigma) ** 2

        delta = draw.uniform(1e-12, 0.5)
        percent, part, whole = numbers(FailureReserve(stage=0, delta=delta).show(units))
        with mpmath.workdps(50):
            truth = -mpmath.expm1(mpmath.log1p(-mpmath.mpf(delta)) * units / UNITS)
            assert units == UNITS or mpmath.mpf(part.numerator) / part.denominator <= truth
        assert whole == Fraction(repr(delta))
        assert part == whole or units < UNITS

        budget = draw.uniform(1e-3, 5.0)
        percent, order, part, whole = numbers(RenyiReserve(stage=0, order=8.0, budget=budget).show(units))
        assert order == 8
        assert percent <= 100 * share
        assert part <= share * Fraction(budget) or units == UNITS
        assert whole == Fraction(repr(budget))

        count = draw.randrange(1, 10**6)
        left = draw.randrange(count + 1)
        *first, percent = numbers(Slot(stage=0, mechanism=STEP, count=count).show(left))
        assert first[:2] == [left, count]
        assert percent <= Fraction(100 * left, count)

        epsilon = draw.choice([round(draw.uniform(0.1, 5.0), 3), draw.uniform(0.1, 5.0)])
        beyond = PureBeyond(stage=0, epsilon=epsilon)
        amount = Fraction(draw.randrange(1001), 1000) * Fraction(repr(epsilon))
        percent, part, whole = numbers(beyond.show_left(amount))
        assert percent <= 100 * amount / whole
        assert part <= amount
        assert whole == Fraction(repr(epsilon))
    assert PureBeyond(stage=0, epsilon=0.3).show_left(Fraction(1, 10)) == "33.3 % of epsilon for pure DP (0.1 of 0.3)"
    renyi = RenyiReserve(stage=0, order=8.0, budget=0.3)
    assert renyi.show(UNITS) == "100 % of the Rényi DP of order 8 (0.3 of 0.3)"


def test_what_is_needed_is_rounded_up() -> None:
    draw = random.Random(5)
    for _ in range(100):
        lines = (GaussianReserve(stage=0, noise_multiplier=draw.uniform(1.0, 5.0)),)
        sigma = lines[0].noise_multiplier * draw.uniform(0.1, 0.99)
        with pytest.raises(cm.BudgetExceeded) as caught:
            Block(lines, (0,), 0).allocate(cm.Gaussian(noise_multiplier=sigma))
        needed = numbers(str(caught.value).split("over the budget: ")[1])[0]
        assert 1 / Fraction(sigma) ** 2 <= needed <= 1 / Fraction(sigma) ** 2 * (1 + Fraction(1, 10**5))


def test_delta_is_printed_as_it_was_given(home: Path) -> None:
    for place, delta in enumerate(("1.234564e-6", "1e-05", "0.010000000004999", "3.3333333333333335e-07")):
        done(f"ledger open a{place} --epsilon 0.7654321987654321 --delta {delta} --unit u")
        headline = done(f"ledger status a{place}").splitlines()[0]
        assert numbers(headline.partition(": ")[2]) == [Fraction("0.7654321987654321"), Fraction(delta)]
        done(f"ledger report a{place} --out report.md")
        page = (home / "report.md").read_text(encoding="utf-8")
        assert all(Fraction(number) == Fraction(delta) for number in re.findall(r"δ = ([0-9.e-]*[0-9])", page))
        assert page.count("δ = ") == 3
    refused = call("ledger open b --epsilon 0.1 --delta 1.234564e-6 --unit u --noise-multiplier 1")
    assert "at delta=1.234564e-06, over the budget of 0.1" in refused.stderr


def test_words_that_an_office_understands(home: Path) -> None:
    opened = done('ledger open a --epsilon 1 --delta 1e-6 --unit "one customer" --expect laplace --scale 20 --count 20')
    assert "20 like the one expected: enough for the 20 in mind" in opened
    assert "fewer than the 25" in done(
        "ledger open b --epsilon 1 --delta 1e-6 --unit u --expect laplace --scale 20 --count 25"
    )
    assert "5 of scale 5, or 20 of scale 20, or 358" in done("ledger open c --epsilon 1 --delta 1e-6 --unit u")
    assert "100 % of epsilon for pure DP (1 of 1)" in opened
    spent = done("ledger spend a --mechanism laplace --scale 20")
    assert "93.1 % of the Gaussian reserve (0.0521975 of 0.0560289)" in spent
    assert "95 % of epsilon for pure DP (0.95 of 1)" in spent
    assert "fits        19 more like this one" in spent
    assert answered("ledger spend a --mechanism laplace --scale 20 --steps 2")["fits"] == 17
    refused = call("ledger spend a --mechanism laplace --scale 1")
    assert "as pure DP it needs 1 of epsilon, left are 85 % of epsilon for pure DP (0.85 of 1)" in refused.stderr
    assert "0 of this release would fit; nothing was recorded" in refused.stderr
    assert answered("ledger status a")["status"]["shares_left"][1] == 0.85
    done("ledger open only --epsilon 1 --delta 1e-6 --unit u --ledger sqlite:///one.db")
    assert "1 account\n" in done("ledger status --ledger sqlite:///one.db")
    assert "1 entry, head" in done("ledger verify --ledger sqlite:///one.db")
    assert answered("ledger verify")["warnings"] == []
    assert call("ledger open d --epsilon 1 --delta 1e-6 --unit u --count 3").exit_code == 2
    both = call("ledger open d --epsilon 1 --delta 1e-6 --unit u --expect laplace --mechanism laplace --scale 2")
    assert "leave out --mechanism" in both.stderr


CODE = re.compile(r"\w\(\w+=|\bcumulant\.[A-Z]|\w_\w+=")


@pytest.mark.slow
@given(simple_mechanisms())
@settings(deadline=None, max_examples=60)
def test_releases_are_told_in_words(release: AbstractMechanism) -> None:
    """Of a slot, and of every refusal: no code, and of a table of thousands of outputs no table."""
    said = [Slot(stage=0, mechanism=release, count=3).show(2)]
    for lines, spent in (
        ((Slot(stage=0, mechanism=release, count=3),), (3,)),
        ((GaussianReserve(stage=0, noise_multiplier=1e6), PureBeyond(stage=0, epsilon=1e-9)), (UNITS, 0)),
        ((FailureReserve(stage=0, delta=1e-9),), (0,)),
    ):
        try:
            Block(lines, spent, 0, list).allocate(release * 2)
        except (cm.BudgetExceeded, cm.UnprovenCombination) as refused:
            said.append(str(refused))
    assert len(said) > 2 or release.rdp(order=2.0) < 1e-3  # what costs next to nothing may fit
    for text in said:
        assert CODE.search(text) is None, text
        assert len(text) < 700


def test_commands_tell_releases_in_words(home: Path) -> None:
    step, other = "--noise-multiplier 1 --rate 0.01", "--noise-multiplier 2 --rate 0.01"
    lines = [
        f"ledger open a --epsilon 3 --delta 1e-6 --unit u {step} --steps 100",
        f"ledger status a {step}",
        f"ledger reserve a {step} --steps 10 --key k",
        "ledger start a k",
        f"ledger settle a k {step} --steps 11",
        f"ledger settle a k {other} --steps 1",
        f"ledger spend a {step} --steps 101",
        "ledger spend a --mechanism zcdp --rho 1",
        "ledger history a",
        "ledger verify a",
        "ledger report a --out a.md",
    ]
    results = [call(line) for line in lines]
    assert [result.exit_code for result in results] == [0, 0, 0, 0, 2, 2, 3, 4, 0, 0, 0]
    texts = [result.stdout + result.stderr for result in results] + [(home / "a.md").read_text(encoding="utf-8")]
    assert [text for text in texts if CODE.search(text.replace("\\", ""))] == []
    assert "slots of Gaussian (noise multiplier 1), Poisson sampled (rate 0.01)" in " ".join(texts[1].split())


def busy(directory: Path) -> cm.Ledger:
    """Months of work of several teams, with names that would like to be markup."""
    clock = [datetime(2026, 1, 5, tzinfo=timezone.utc)]
    ledger = cm.Ledger(f"sqlite:///{directory}/budget.db", clock=lambda: clock[0])
    ledger.open(
        "customers",
        epsilon=3.0,
        delta=1e-6,
        neighbors=cm.ADD_REMOVE,
        unit="one <customer> | household",
        stages=[Stage(plan=STEP * 500, reserve=0.05), Stage(plan=STEP * 500)],
        reserve=0.05,
        blocks=["north", "south"],
    )
    for week in range(6):
        clock[0] += timedelta(days=7)
        ledger.spend(
            "customers", cm.Laplace(scale=60.0), by=f"team-{week % 3}", label="<script>alert(1)</script> | *x*"
        )
    ledger.reserve("customers", STEP * 400, key="train", by="ml", blocks=["north"]).started()
    return ledger


def test_a_report_tells_everything_and_escapes_it(tmp_path: Path) -> None:
    with busy(tmp_path) as ledger:
        report = make_report(ledger, "customers")
        page, text = html_of(report, picture=None), markdown_of(report, picture="report.svg")
        head = ledger.status("customers").head
    for content in (page, text):
        assert "<script>" not in content
        assert head in content
        assert "team-1" in content
        assert "train" in content
        assert "started" in content
        assert "north" in content
        assert "not the guarantee" in content
    assert "&lt;script&gt;" in page
    assert "\\|" in text
    ET.fromstring(page.split("\n", 1)[1].replace('<meta charset="utf-8">', ""))  # every tag is closed
    assert json.loads(json.dumps(report.to_dict(), allow_nan=False))["title"] == "Privacy budget of customers"
    reserve = report.chart.curves[1]
    assert reserve.x[-1] == 42.0
    assert list(reserve.y) == sorted(reserve.y)
    assert 0 < reserve.y[-1] < 1


def test_reports_are_files(tmp_path: Path) -> None:
    with busy(tmp_path) as ledger:
        report = make_report(ledger, "customers")
    assert write_report(report, tmp_path / "new" / "report.md") == [
        tmp_path / "new" / "report.md",
        tmp_path / "new" / "report.svg",
    ]
    assert "](report.svg)" in (tmp_path / "new" / "report.md").read_text(encoding="utf-8")
    assert write_report(report, tmp_path / "report.html") == [tmp_path / "report.html"]
    assert write_report(report, tmp_path / "report.pdf") == [tmp_path / "report.pdf"]
    with pytest.raises(cm.InvalidParameter, match=r"\.html, \.md or \.pdf"):
        write_report(report, tmp_path / "report.docx")
    with pytest.raises(cm.CumulantError, match="cannot be written"):
        write_report(report, tmp_path / "budget.db" / "report.md")


def test_pages_have_whatever_the_report_has(tmp_path: Path) -> None:
    with busy(tmp_path) as ledger:
        for turn in range(60):
            ledger.spend(
                "customers", cm.Laplace(scale=900.0), by=f"person-{turn}", label="$x$ \N{SNOWMAN} " + "word " * turn
            )
        report = make_report(ledger, "customers")
    pages = pages_of(report)
    assert len(pages) > 2
    assert max(len(page.lines) for page in pages) < 70
    assert [page.picture_at is None for page in pages] == [False] + [True] * (len(pages) - 1)
    lines = [line.text for page in pages for line in page.lines]
    assert max(map(len, lines)) <= WIDTH
    words = " ".join(lines)
    for section in report.sections:
        assert section.title in words
        for text in (*section.sentences, *(cell for row in section.table for cell in row)):
            assert set(text.split()) <= set(words.split()) | {word for word in text.split() if len(word) > 10}
            assert all(number in words for number in re.findall(r"[0-9.e-]+", text) if len(number) < 10)
    first, second = tmp_path / "1.pdf", tmp_path / "2.pdf"
    for file in (first, second):
        write_report(report, file)
    assert first.read_bytes() == second.read_bytes()
    assert first.read_bytes().count(b"/Type /Page ") == len(pages)
    assert b"/Type3" not in first.read_bytes()


@pytest.mark.parametrize("span", [0.0, 0.4, 30.0, 600.0, 9000.0, 86_400.0, 2e5, 1e9])
def test_time_is_told_in_what_fits_it(span: float, tmp_path: Path) -> None:
    clock = [datetime(2026, 1, 5, tzinfo=timezone.utc)]
    with cm.Ledger(f"sqlite:///{tmp_path}/budget.db", clock=lambda: clock[0]) as ledger:
        ledger.open("a", epsilon=1.0, delta=1e-6, neighbors=cm.ADD_REMOVE, unit="u")
        clock[0] += timedelta(seconds=span)
        ledger.spend("a", cm.Laplace(scale=20.0))
        chart = make_report(ledger, "a").chart
    name, unit = clock_of(span)
    assert chart.x_label == f"{name} since the opening"
    assert chart.curves[0].x[-1] * unit == pytest.approx(span)
    assert span < 2 or chart.curves[0].x[-1] >= 2


def test_without_matplotlib_a_report_has_no_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with busy(tmp_path) as ledger:
        assert write_report(make_report(ledger, "customers"), tmp_path / "r.md") == [tmp_path / "r.md"]
    assert "svg" not in (tmp_path / "r.md").read_text(encoding="utf-8")
