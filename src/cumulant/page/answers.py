"""What the page is told: JSON in, JSON out, no server in here.

Each kind of question is one function, which asks the library as a command does.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from cumulant.errors import CumulantError
from cumulant.mechanisms.many import epsilons
from cumulant.page.account import account_answer, accounts_answer
from cumulant.page.code import command_of, python_of
from cumulant.page.question import READERS, Question, RefusedQuestion, finite
from cumulant.planning import max_whole
from cumulant.printed import given, rounded_down, rounded_up
from cumulant.report.intervals import epsilon_interval, interval_text
from cumulant.report.training_words import statement
from cumulant.training import TrainingRun
from cumulant.version import __version__

WARM_UP = json.dumps(
    {"ask": "epsilon", "noise_multiplier": 1, "batch_size": 1, "dataset_size": 100, "epochs": 1, "delta": "1e-5"}
)
"""A question that loads what every answer needs."""
DIGITS = 7  # of ε on the page
POINTS = 17  # of a curve
METHODS = {"best": "proven here", "rdp": "Rényi DP (the moments accountant)"}
FALSE_POSITIVE_RATES = np.geomspace(1e-6, 1.0, 25)
IN_SHORT = {
    "poisson": "own coins (Poisson)",
    "opacus": "Opacus's loader",
    "without_replacement": "fresh batch of fixed size",
    "random_allocation": "own batch each epoch",
    "shuffled": "shuffle and walk",
}
"""A loader in so few words that they stand beside a bar."""
MOST_EPOCHS = 10**6


def answer_text(text: str, *, ledger: str | None = None) -> str:
    """Return the JSON of an answer, or of `{"error": {"kind", "message", "field"}}`."""
    try:
        question = Question.of(text)
        ask = question.word("ask") or "epsilon"
        if ask in ("account", "accounts"):
            found = account_answer(question, ledger) if ask == "account" else accounts_answer(ledger)
        elif ask in ANSWERS:
            found = ANSWERS[ask](question)
        else:
            raise RefusedQuestion(f"ask must be one of {', '.join((*ANSWERS, 'account', 'accounts'))}", field="ask")
    except RefusedQuestion as error:
        return _refused(error.kind, str(error), error.field)
    except CumulantError as error:
        return _refused(type(error).__name__, str(error), _field_of(str(error)))
    return json.dumps({"version": __version__, **found}, allow_nan=False)


def epsilon_answer(question: Question) -> dict[str, Any]:
    """Return ε of a run, its proof, its statement, and how to ask for it elsewhere."""
    return _told(question, question.training, noise_text=given)


def noise_answer(question: Question) -> dict[str, Any]:
    """Return the least noise that keeps ε at most what is asked, and what it costs then."""
    sigma = question.plan.least_noise(epsilon=question.epsilon, log_delta=question.delta.log)
    noise = {"noise_multiplier": sigma, "noise_text": rounded_up(sigma, digits=DIGITS)}
    return {**_told(question, question.plan.with_noise(sigma), noise_text=rounded_up), **noise}


def interval_answer(question: Question) -> dict[str, Any]:
    """Return both proven ends of ε."""
    found = epsilon_interval(question.training.mechanism(), question.delta)
    if found is None:
        return {"text": interval_text(None)}
    ends = {"lower": finite(found.lower), "upper": finite(found.upper), "certified": found.certified}
    return {"text": interval_text(found), "epsilon": finite(found.upper), **ends}


def curve_answer(question: Question) -> dict[str, Any]:
    """Return ε against epochs, up to twice those that are asked about, by the methods that apply."""
    asked = float(question.read("epochs"))
    epochs = [2 * asked * i / (POINTS - 1) for i in range(1, POINTS)]
    if asked >= POINTS:
        epochs = sorted({float(round(one)) for one in epochs} | {asked})
    runs = [question.planned(epochs=one).with_noise(question.noise_multiplier).mechanism() for one in epochs]
    curves = []
    for method, label in METHODS.items():
        found = epsilons(runs, log_delta=question.delta.log, method=method)  # type: ignore[arg-type]  # a key of it
        curves.append({"label": label, "x": epochs, "y": [finite(float(one)) for one in found]})
    axes = {"x": {"label": "epochs", "scale": "linear"}, "y": {"label": "ε", "scale": "linear"}}
    return {"chart": {**axes, "curves": curves, "here": asked}}


def loader_answer(question: Question) -> dict[str, Any]:
    """Return ε of a run in so few words that loaders can be set side by side: a bound's lower end, too, if known."""
    run = question.training.mechanism()
    guarantee = run.guarantee(log_delta=question.delta.log)
    ends = None if guarantee.exact else epsilon_interval(run, question.delta)
    text = rounded_up(guarantee.epsilon, digits=4)
    if not guarantee.exact:
        text = f"≤ {text}" if ends is None or not ends.lower else f"{rounded_down(ends.lower, digits=4)} to {text}"
    return {
        "label": IN_SHORT.get(question.training.loader.name, question.sampling),
        "text": text,
        "epsilon": finite(guarantee.epsilon),
        "lower": None if ends is None else finite(ends.lower),
    }


def tradeoff_answer(question: Question) -> dict[str, Any]:
    """Return how many members the best attacker finds, against how many others he takes for members."""
    rates = FALSE_POSITIVE_RATES
    found = question.training.mechanism().true_positive_rate(false_positive_rate=rates)
    x = [float(one) for one in rates]
    curves = [
        {"label": "best attack, at most", "x": x, "y": [float(one) for one in found]},
        {"label": "guessing", "x": x, "y": x},
    ]
    axes = {
        "x": {"label": "share of others who are accused", "scale": "log"},
        "y": {"label": "share of members found", "scale": "log"},
    }
    return {"chart": {**axes, "curves": curves}}


def plan_answer(question: Question) -> dict[str, Any]:
    """Return what keeps ε within a budget: each time one number is changed, and the others stay."""
    rows = (("noise multiplier", _least_noise), ("epochs", _most_epochs), ("batch size", _largest_batch))
    return {"plan": [[label, _or_why(planned, question)] for label, planned in rows]}


ANSWERS: Mapping[str, Callable[[Question], dict[str, Any]]] = {
    "epsilon": epsilon_answer,
    "noise": noise_answer,
    "interval": interval_answer,
    "curve": curve_answer,
    "loader": loader_answer,
    "tradeoff": tradeoff_answer,
    "plan": plan_answer,
}


def _told(question: Question, training: TrainingRun, *, noise_text: Callable[[float], str]) -> dict[str, Any]:
    """Return what is said of a run: the number, its proof, its statement, how to ask for it elsewhere."""
    explanation = training.mechanism().explain(log_delta=question.delta.log)
    guarantee = explanation.guarantee
    words = statement(training, guarantee.epsilon, noise_text=noise_text, delta=question.delta)
    return {
        "epsilon": finite(guarantee.epsilon),
        "text": rounded_up(guarantee.epsilon, digits=DIGITS),
        "exact": guarantee.exact,
        "steps": training.schedule.steps,
        "rate": training.schedule.rate,
        "proof": [list(row) for row in explanation.rows],
        "statement": [list(row) for row in words.items()],
        "python": python_of(question),
        "command": command_of(question),
    }


def _least_noise(question: Question) -> str:
    sigma = question.plan.least_noise(epsilon=question.epsilon, log_delta=question.delta.log)
    return f"at least {rounded_up(sigma, digits=DIGITS)}"


def _most_epochs(question: Question) -> str:
    def of(epochs: int) -> Any:
        return question.planned(epochs=float(epochs)).with_noise(question.noise_multiplier).mechanism()

    most = max_whole(of, most=MOST_EPOCHS, epsilon=question.epsilon, log_delta=question.delta.log)
    return f"at most {most}" if most else "not even one"


def _largest_batch(question: Question) -> str:
    """Return a batch that is within the budget, and the next larger one is not: as ε is no monotone function of it."""
    n = int(question.read("dataset_size"))

    def of(batch: int) -> Any:
        return question.planned(batch_size=batch).with_noise(question.noise_multiplier).mechanism()

    most = max_whole(of, most=n, epsilon=question.epsilon, log_delta=question.delta.log)
    return f"{most}, and {most + 1} is over it" if 0 < most < n else f"up to all {n}" if most else "not even 1"


def _or_why(planned: Callable[[Question], str], question: Question) -> str:
    """Return a plan, or why there is none; what cannot be read is no plan at all."""
    try:
        return planned(question)
    except RefusedQuestion:
        raise
    except CumulantError as error:
        return f"none: {error}"


def _refused(kind: str, message: str, field: str | None) -> str:
    return json.dumps({"error": {"kind": kind, "message": message, "field": field}})


def _field_of(message: str) -> str | None:
    """Return which field an error of the library is about: the first that it names."""
    places = {message.find(name): name for name in READERS if name in message}
    return places[min(places)] if places else None
