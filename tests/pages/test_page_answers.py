"""What the page is told: the numbers of the command line, in its words; a sentence for whatever else is typed."""

from __future__ import annotations

import json
import re
import shlex
from contextlib import redirect_stdout
from importlib.resources import files
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import cumulant as cm
from cli_runner import answered
from cumulant.loaders import NAMES
from cumulant.page.answers import ANSWERS, answer_text

SIZES = {"batch_size": "256", "dataset_size": "25600", "epochs": "3", "delta": "1e-5"}
ASKED = {"noise_multiplier": "1.5", **SIZES}
BINS = {"random_allocation": {"bins": "fresh"}}


def told(**question: Any) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(answer_text(json.dumps(question)))
    assert "error" not in answer, answer["error"]
    return answer


def typed_line(command: str) -> str:
    """Return the words of a command after its name."""
    return " ".join(shlex.split(command.replace("\\\n", " "))[1:])


def refused(**question: Any) -> dict[str, Any]:
    error: dict[str, Any] = json.loads(answer_text(json.dumps(question)))["error"]
    assert set(error) == {"kind", "message", "field"}
    return error


@pytest.mark.parametrize("sampling", NAMES)
def test_the_page_and_the_command_say_the_same(sampling: str) -> None:
    answer = told(ask="epsilon", sampling=sampling, **ASKED, **BINS.get(sampling, {}))
    document = answered(typed_line(answer["command"]))
    assert answer["epsilon"] == document["answer"]["epsilon"]
    assert dict(answer["statement"]) == document["statement"]
    printed = StringIO()
    with redirect_stdout(printed):
        exec(answer["python"], {})
    assert float(printed.getvalue().splitlines()[0]) == answer["epsilon"]


@pytest.mark.parametrize("sampling", ["poisson", "shuffled"])
def test_noise_for_a_budget_keeps_it_and_the_code_finds_it_again(sampling: str) -> None:
    answer = told(ask="noise", sampling=sampling, epsilon="2", **SIZES)
    assert answer["epsilon"] <= 2
    assert float(answer["noise_text"]) >= answer["noise_multiplier"]
    printed = StringIO()
    with redirect_stdout(printed):
        exec(answer["python"], {})
    assert float(printed.getvalue()) == answer["noise_multiplier"]
    document = answered(typed_line(answer["command"]))
    assert document["answer"]["noise_multiplier"] == answer["noise_multiplier"]


def test_an_interval_holds_the_answer() -> None:
    answer, ends = told(ask="epsilon", **ASKED), told(ask="interval", **ASKED)
    assert ends["certified"]
    assert ends["lower"] <= answer["epsilon"]
    assert "certified" in ends["text"]


def test_a_curve_has_every_method_and_passes_through_the_answer() -> None:
    chart = told(ask="curve", **ASKED)["chart"]
    best, renyi = chart["curves"]
    at = best["x"].index(chart["here"])
    assert best["y"][at] == pytest.approx(told(ask="epsilon", **ASKED)["epsilon"], rel=1e-6)
    assert all(one <= other for one, other in zip(best["y"], renyi["y"], strict=True))
    assert best["y"] == sorted(best["y"])


def test_beside_others_an_exact_number_stands_alone_and_a_bound_says_that_it_is_one() -> None:
    exact, bound = told(ask="loader", **ASKED), told(ask="loader", sampling="shuffled", **ASKED)
    assert exact["epsilon"] <= float(exact["text"]) <= exact["epsilon"] * 1.001
    assert bound["text"].startswith("≤") or " to " in bound["text"]


def test_attacks_are_those_of_the_run() -> None:
    attack, guess = told(ask="tradeoff", **ASKED)["chart"]["curves"]
    run = cm.dp_sgd(noise_multiplier=1.5, batch_size=256, dataset_size=25600, epochs=3)
    for rate, found in list(zip(attack["x"], attack["y"], strict=True))[::8]:
        assert found == pytest.approx(run.true_positive_rate(false_positive_rate=rate), rel=1e-6)
    assert all(one >= other * (1 - 1e-12) for one, other in zip(attack["y"], guess["y"], strict=True))


def test_a_plan_is_within_the_budget_and_the_next_is_over_it() -> None:
    plan = dict(told(ask="plan", epsilon="1", **ASKED)["plan"])
    noise = float(plan["noise multiplier"].removeprefix("at least "))
    epochs = int(plan["epochs"].removeprefix("at most "))
    batch = int(plan["batch size"].split(",")[0])

    def epsilon(**changed: Any) -> float:
        return float(told(ask="epsilon", **{**ASKED, **changed})["epsilon"])

    assert epsilon(noise_multiplier=noise) <= 1 < epsilon(noise_multiplier=noise * 0.9999)
    assert epsilon(epochs=epochs) <= 1 < epsilon(epochs=epochs + 1)
    assert epsilon(batch_size=batch) <= 1 < epsilon(batch_size=batch + 1)


@pytest.mark.parametrize(
    ("changed", "field", "words"),
    [
        ({"noise_multiplier": "0"}, "noise_multiplier", "must be a finite number > 0"),
        ({"noise_multiplier": ""}, "noise_multiplier", "must be a number"),
        ({"noise_multiplier": None}, "noise_multiplier", "must be a number"),
        ({"noise_multiplier": [1]}, "noise_multiplier", "must be a number"),
        ({"noise_multiplier": "1" * 61}, "noise_multiplier", "must be a number"),
        ({"noise_multiplier": "<script>alert(1)</script>"}, "noise_multiplier", "is not a number"),
        ({"batch_size": "60,000"}, "batch_size", "write 60000"),
        ({"batch_size": "30k"}, "batch_size", "at most the dataset_size"),
        ({"batch_size": "2.5"}, "batch_size", "not a whole number"),
        ({"delta": "2"}, "delta", "between 0 and 1"),
        ({"epochs": "-1"}, "epochs", ">= 0"),
        ({"sampling": "shufled"}, None, "sampling must be"),
        ({"sampling": "random_allocation"}, "epochs", "bins"),
        ({"ask": "rm -rf"}, "ask", "ask must be one of"),
        ({"colour": "red"}, None, "a question has no 'colour'"),
    ],
)
def test_errors_are_sentences_about_a_field(changed: dict[str, Any], field: str | None, words: str) -> None:
    error = refused(**{"ask": "epsilon", **ASKED, **changed})
    assert words in error["message"]
    assert error["field"] == field


HOSTILE = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=80),
    st.sampled_from(["1e999999999", "-0", "inf", "nan", "1/0", "1e400", "9" * 60, "1e-400", "100%", "0x10", "１２"]),
    st.lists(st.integers(), max_size=3),
    st.dictionaries(st.text(max_size=5), st.integers(), max_size=2),
)


@given(st.sampled_from(["epsilon", "noise"]), st.dictionaries(st.sampled_from([*SIZES, "sampling", "bins"]), HOSTILE))
def test_whatever_is_typed_has_an_answer_or_a_sentence(ask: str, typed: dict[str, Any]) -> None:
    answer = json.loads(
        answer_text(json.dumps({"ask": ask, "noise_multiplier": "40", "epsilon": "1", **SIZES, **typed}))
    )
    assert "epsilon" in answer or answer["error"]["message"]


@given(st.text())
def test_no_text_is_too_strange(text: str) -> None:
    assert "error" in json.loads(answer_text(text))


def test_what_nests_deeply_is_refused() -> None:
    assert json.loads(answer_text("[" * 1900))["error"]["kind"] == "Malformed"
    assert json.loads(answer_text('{"ask": "epsilon", "ask": "noise"}'))["error"]["kind"] == "Malformed"
    assert json.loads(answer_text(" " * 2001))["error"]["kind"] == "TooLong"


def test_an_account_is_read_and_nothing_is_written(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/budget.db"
    with cm.Ledger(url) as ledger:
        ledger.open("customers", epsilon=1.0, delta=1e-6, neighbors=cm.ADD_REMOVE, unit="one <customer>")
        ledger.spend("customers", cm.Laplace(scale=20.0), by="team-a", key="1")
    before = (tmp_path / "budget.db").read_bytes()
    assert json.loads(answer_text('{"ask": "accounts"}', ledger=url))["accounts"] == ["customers"]
    answer = json.loads(answer_text('{"ask": "account", "account": "customers"}', ledger=url))
    assert ["protects", "one <customer>"] in answer["status"]
    assert [part["title"] for part in answer["tables"]][:1] == ["What is left"]
    assert answer["chart"]["curves"]
    assert (tmp_path / "budget.db").read_bytes() == before
    unknown = json.loads(answer_text('{"ask": "account", "account": "nobody"}', ledger=url))["error"]
    assert "nobody" in unknown["message"]
    assert json.loads(answer_text('{"ask": "accounts"}'))["error"]["kind"] == "NoLedger"


def test_the_page_offers_every_loader_and_loads_nothing_from_elsewhere() -> None:
    static = files("cumulant.page") / "static"
    page = (static / "index.html").read_text(encoding="utf-8")
    assert set(re.findall(r'name="sampling" value="(\w+)"', page)) == set(NAMES)
    asked = re.findall(r'"(\w+)", \(found\)|ask: "(\w+)"', (static / "page.js").read_text(encoding="utf-8"))
    assert {one or other for one, other in asked} <= {*ANSWERS, "account", "accounts"}
    for file in static.iterdir():
        links = set(re.findall(r"https?://[^\s\"'`)]+", file.read_text(encoding="utf-8")))
        assert links <= {"http://www.w3.org/2000/svg"}  # a name, not an address that is fetched
    assert not re.search(r"\son\w+=|<script>|style=", page)  # the policy forbids what stands in the page itself
