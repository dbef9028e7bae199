"""A statement says one number, for whom it holds, what proves it, and what it does not cover."""

from __future__ import annotations

import json
import math
import re

import pytest

import cumulant as cm
from cumulant.report.release_words import release_words
from cumulant.report.statement import NOT_COVERED

RUN = cm.dp_sgd(noise_multiplier=1.0, sample_rate=0.004, epochs=5)
RUNS = {
    "poisson": RUN,
    "fixed": cm.dp_sgd(noise_multiplier=4.0, sample_rate=0.004, epochs=5, sampling="without_replacement"),
    "shuffled": cm.dp_sgd(noise_multiplier=9.0, sample_rate=0.004, epochs=5, sampling="shuffled"),
    "with a query": RUN + cm.Laplace(scale=10.0),
    "a curve": cm.ZCDP(rho=0.1) * 3,
}


@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)
def test_the_numbers_are_those_of_the_run(run: cm.Composed) -> None:
    content = json.loads(run.statement(delta=1e-5, format="json"), parse_constant=pytest.fail)
    assert content["epsilon"] == run.epsilon(delta=1e-5)
    assert content["attack"]["advantage"] == run.advantage()
    assert content["attack"]["true_positive_rate"] == run.true_positive_rate(false_positive_rate=0.01)
    assert cm.from_dict(content["mechanism"]) == run
    assert content["exact"] == run.explain(delta=1e-5).guarantee.exact
    interval = content["interval"]
    assert interval is None or interval["lower"] <= content["epsilon"] * (1 + 1e-9)


@pytest.mark.parametrize("form", ["text", "markdown", "json"])
def test_every_form_says_what_is_not_covered(form: str) -> None:
    text = " ".join(RUN.statement(delta=1e-5, format=form).split())  # type: ignore[arg-type]
    for said in (*NOT_COVERED, "add-or-remove-one", "its own coin", "1 % of outsiders" if form != "json" else "attack"):
        assert said in text
    assert "believed" not in text


def test_printed_numbers_are_not_below() -> None:
    text = " ".join(RUN.statement(delta=1e-5).split())
    epsilon = RUN.epsilon(delta=1e-5)
    factor = float(re.search(r"factor of at most ([\d.e+]+) ", text)[1])  # type: ignore[index]
    assert math.exp(epsilon) <= factor <= math.exp(epsilon) * 1.01
    percent = float(re.search(r"finds at most ([\d.]+) %", text)[1])  # type: ignore[index]
    assert 100 * RUN.true_positive_rate(false_positive_rate=0.01) <= percent
    lower, upper = map(float, re.search(r"([\d.]+) <= epsilon <= ([\d.]+) ", text).groups())  # type: ignore[union-attr]
    certified = RUN.epsilon_interval(delta=1e-5)
    assert lower <= certified.lower
    assert certified.upper <= upper


def test_users_have_several_records() -> None:
    content = json.loads(RUN.statement(delta=1e-5, format="json", user_records=3))
    assert content["epsilon"] == RUN.group(size=3).epsilon(delta=1e-5)
    assert "at most 3 records" in content["sentence"]
    assert "one person's records, at most 3," in " ".join(RUN.statement(delta=1e-5, user_records=3).split())


def test_a_shuffled_run_is_never_called_exact() -> None:
    text = RUNS["shuffled"].statement(delta=1e-5)
    assert "an upper bound" in text
    assert "exact" not in text
    assert "not a bound for a shuffled loader" in " ".join(text.split())
    content = json.loads(RUNS["shuffled"].statement(delta=1e-5, format="json"))
    assert content["interval"]["lower"] < content["interval"]["upper"] <= content["epsilon"]
    assert content["advice"][0].startswith("a number for Poisson samples")


def test_the_markdown_has_a_sentence_a_table_and_data() -> None:
    sentence, _, head, rule, *rest = RUN.statement(delta=1e-5, format="markdown").splitlines()
    assert sentence.startswith("This computation is (")
    assert (head.count("|"), rule) == (3, "| --- | --- |")
    block = "\n".join(rest).partition("```json\n")[2].removesuffix("\n```")
    assert json.loads(block)["epsilon"] == RUN.epsilon(delta=1e-5)


def test_nothing_finite_is_said_so() -> None:
    text = cm.Gaussian(noise_multiplier=1.0).statement(delta=0.0)
    assert text.startswith("epsilon = inf at delta = 0")
    assert json.loads(cm.Gaussian(noise_multiplier=1.0).statement(delta=0.0, format="json"))["epsilon"] == "inf"


def test_the_accountant_says_the_same() -> None:
    accountant = cm.Accountant()
    accountant.compose(cm.Laplace(scale=2.0), count=3)
    assert accountant.statement(delta=1e-5) == accountant.run.statement(delta=1e-5)


def test_refusals() -> None:
    with pytest.raises(cm.InvalidParameter, match="format must be one of text, markdown, json"):
        RUN.statement(delta=1e-5, format="html")  # type: ignore[arg-type]
    with pytest.raises(cm.InvalidParameter, match="user_records must be"):
        RUN.statement(delta=1e-5, user_records=0)
    with pytest.raises(cm.InvalidParameter, match="give either delta or log_delta"):
        RUN.statement()


def test_every_sampling_has_its_words() -> None:
    noise = cm.Gaussian(noise_multiplier=2.0)
    assert "5 independent draws from 50 records" in release_words(noise.with_replacement(draws=5, population=50), 1)
    assert "fresh random subset" in release_words(noise.without_replacement(rate=0.1), 1)
    assert release_words(cm.Laplace(scale=3.0), 2) == "2 x Laplace noise of 3 x the sensitivity"
    assert release_words(cm.PureDP(epsilon=1.0), 1) == "a release that is 1-DP"
    allocated = cm.dp_sgd(noise_multiplier=2.0, sample_rate=0.1, epochs=1, sampling="random_allocation")
    assert "10 steps of which every record draws one for itself" in release_words(*allocated.parts[0])
