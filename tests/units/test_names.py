"""Arguments without names, or with wrong ones: the error says what to write."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import cumulant as cm
import cumulant.ledger
from cumulant.errors import MisnamedParameter
from cumulant.parameters import by_name

STEP = cm.Gaussian(noise_multiplier=1.0)

MEANT: dict[str, Callable[..., Any]] = {
    "Gaussian(noise_multiplier=1.0)": lambda: cm.Gaussian(1.0),  # type: ignore[call-arg]
    "ApproximateDP(epsilon=1.0, delta=1e-05)": lambda: cm.ApproximateDP(1.0, 1e-5),  # type: ignore[call-arg]
    "PureDP(epsilon=0.5)": lambda: cm.PureDP(0.5),  # type: ignore[call-arg]
    "epsilon(delta=1e-05)": lambda: STEP.epsilon(1e-5),  # type: ignore[call-arg]
    "delta(epsilon=1.0, method='rdp')": lambda: STEP.delta(1.0, "rdp"),  # type: ignore[call-arg]
    "rdp(order=2)": lambda: STEP.rdp(2),  # type: ignore[call-arg]
    "poisson(rate=0.01)": lambda: STEP.poisson(0.01),  # type: ignore[call-arg]
    "group(size=3)": lambda: STEP.group(3),  # type: ignore[call-arg]
    "epsilon_interval(delta=0.1)": lambda: (STEP * 2).epsilon_interval(0.1),  # type: ignore[call-arg]
    "tradeoff(false_positive_rate=0.1)": lambda: STEP.tradeoff(0.1),  # type: ignore[call-arg]
    "calibrate(build, epsilon=1.0, delta=1e-05)": lambda: cm.calibrate(cm.PureDP, 1.0, 1e-5),  # type: ignore
    "compare(run, delta=1e-05)": lambda: cm.compare(STEP, 1e-5),  # type: ignore[call-arg]
    "Accountant(epsilon=1.0, delta=1e-05)": lambda: cm.Accountant(1.0, 1e-5),  # type: ignore[call-arg]
    "of(std=2.0, sensitivity=1.0)": lambda: cm.Gaussian.of(2.0, 1.0),  # type: ignore[call-arg]
}


@pytest.mark.parametrize("line", MEANT)
def test_the_error_is_the_line_that_was_meant(line: str) -> None:
    with pytest.raises(cm.InvalidParameter) as caught:
        MEANT[line]()
    assert line in str(caught.value)
    assert isinstance(caught.value, TypeError)


def test_the_accountant_says_the_same() -> None:
    with pytest.raises(cm.InvalidParameter, match=r"epsilon\(delta=1e-05\)"):
        cm.Accountant().epsilon(1e-5)  # type: ignore[call-arg]


@pytest.mark.parametrize(("wrong", "known"), [({"sigma": 1.0}, "noise_multiplier"), ({"std": 2.0}, "noise_multiplier")])
def test_an_unknown_name_is_answered_with_the_known_ones(wrong: dict[str, Any], known: str) -> None:
    with pytest.raises(cm.InvalidParameter, match=known):
        cm.Gaussian(**wrong)


def public_calls() -> Iterator[tuple[str, Callable[..., Any], list[Any]]]:
    """Yield whatever a user calls that has arguments by name, and how many it takes without."""
    pages: list[tuple[str, Any]] = [("cumulant", cm), ("plot", cm.plot), ("ledger", cumulant.ledger)]
    made_here = ("Declaration", "Entry", "Receipt", "Status", "Verification")
    answers: list[type] = [Exception, cm.Guarantee, cm.Interval, cm.Explanation, cm.Comparison]
    answers += [cm.plot.Chart, cm.plot.Series, *(getattr(cumulant.ledger, name) for name in made_here)]
    for page, module in pages:
        for name in module.__all__:
            thing = getattr(module, name)
            if not isinstance(thing, type):
                yield from _with_names(f"{page}.{name}", thing)
            elif not issubclass(thing, tuple(answers)):
                yield from _with_names(name, thing)
                for method in dir(thing):
                    if method[0] != "_":
                        yield from _with_names(f"{name}.{method}", getattr(thing, method))


def _with_names(name: str, thing: Any) -> Iterator[tuple[str, Callable[..., Any], list[Any]]]:
    if not callable(thing) or name in ("Hold", "plot.save"):  # made by a ledger; not by name
        return
    parameters = list(inspect.signature(thing).parameters.values())
    if any(one.kind is one.KEYWORD_ONLY for one in parameters):
        asked = cm.Accountant() if name.startswith("Accountant.") else None  # which asks its run
        yield name, thing, [asked for one in parameters if one.kind is one.POSITIONAL_OR_KEYWORD]


CALLS = {name: (thing, places) for name, thing, places in public_calls()}


@pytest.mark.parametrize("name", CALLS)
def test_whatever_is_called_answers_a_wrong_name(name: str) -> None:
    thing, places = CALLS[name]
    known = [one for one in inspect.signature(thing).parameters if one != "self"]
    with pytest.raises(MisnamedParameter, match="has no parameter 'nonsense', it takes ") as caught:
        thing(*places, nonsense=1)
    assert f"{', '.join(known)}." in str(caught.value)
    with pytest.raises(MisnamedParameter, match="takes its arguments by name"):
        thing(*places, *([None] * (len(known) + 1)))


def test_many_are_called() -> None:
    assert len(CALLS) > 100
    assert {"cumulant.calibrate", "Accountant.compose", "Ledger.spend", "Laplace.of", "plot.rdp"} <= set(CALLS)


def test_what_is_missing_is_named() -> None:
    with pytest.raises(MisnamedParameter, match="open needs epsilon and delta and neighbors and unit"):
        cm.Ledger.open(None, "a")  # type: ignore[call-arg,arg-type]


def test_errors_from_within_stay_what_they_are() -> None:
    """A TypeError that is raised inside was not about the names of arguments."""

    @by_name
    def asked(*, number: Any) -> Any:
        return number + "1"

    with pytest.raises(TypeError) as caught:
        asked(number=1)
    assert type(caught.value) is TypeError


def test_too_many_arguments() -> None:
    with pytest.raises(cm.InvalidParameter, match="by name: delta, log_delta, method, accuracy"):
        STEP.epsilon(1, 2, "rdp", 4, 5)  # type: ignore[call-arg]


def test_notebooks_show_tables() -> None:
    run = STEP.poisson(rate=0.01) * 1000 + cm.Laplace(scale=2.0)
    html = run._repr_html_()
    assert html.count("<tr>") == 3
    assert "<td>1000</td>" in html
    assert "add-or-remove-one" in html
    explained = run.explain(delta=1e-5)._repr_html_()
    assert "ε = 2.24390" in explained
    assert "proven by" in explained
    assert "<td>exact</td>" in cm.compare(run, delta=1e-5)._repr_html_()


def test_the_tab_key_shows_questions_and_no_hooks() -> None:
    """What implementers need is in `_known`."""
    asked = {
        "epsilon",
        "delta",
        "log_delta",
        "guarantee",
        "explain",
        "epsilon_curve",
        "epsilon_interval",
        "delta_interval",
        "cgf",
        "rdp",
    }
    asked |= {
        "rdp_interval",
        "profile",
        "tradeoff",
        "true_positive_rate",
        "advantage",
        "statement",
        "neighbors",
        "releases",
    }
    becoming = {"poisson", "without_replacement", "with_replacement"}
    becoming |= {"random_allocation", "shuffled", "group", "sharpened", "to_dict"}
    fields = {"mechanism", "rate", "relation", "rounded_up_by", "theorem"}
    step = cm.Gaussian(noise_multiplier=1.0).poisson(rate=0.01)
    assert {name for name in dir(step) if not name.startswith("_")} == asked | becoming | fields
