"""A question of the page, in Python and on the command line."""

from __future__ import annotations

from collections.abc import Iterator

from cumulant.page.question import SAMPLING, SIZES, Question
from cumulant.printed import given


def python_of(question: Question) -> str:
    """Return lines of Python that ask a question; every value was read as a number before."""
    words = ", ".join(_arguments(question))
    delta = _delta(question)
    if _asks_for_noise(question):
        return (
            "import cumulant as cm\n\n"
            f"sigma = cm.dp_sgd_noise(epsilon={given(question.epsilon)}, {delta}, {words})\nprint(sigma)"
        )
    return (
        "import cumulant as cm\n\n"
        f"run = cm.dp_sgd(noise_multiplier={given(question.noise_multiplier)}, {words})\n"
        f"print(run.epsilon({delta}))\nprint(run.statement({delta}))"
    )


def command_of(question: Question) -> str:
    """Return a line for a shell that asks a question."""
    asked = _asks_for_noise(question)
    first = ("epsilon", given(question.epsilon)) if asked else ("noise_multiplier", given(question.noise_multiplier))
    sizes = [(name, given(float(question.read(name)))) for name in SIZES]
    sampling = [("sampling", question.sampling.replace("_", "-"))] if question.sampling != SAMPLING else []
    options = [first, *sizes, ("delta", question.delta.text), *sampling]
    lines = [f"--{name.replace('_', '-')} {value}" for name, value in options]
    return " \\\n    ".join(["cumulant sgd", *lines, *_loader_options(question)])


def _asks_for_noise(question: Question) -> bool:
    return question.word("ask") == "noise"


def _arguments(question: Question) -> Iterator[str]:
    for name in SIZES:
        yield f"{name}={given(float(question.read(name)))}"
    if question.sampling != SAMPLING:
        yield f"sampling={question.sampling!r}".replace("'", '"')
    for name, value in question.of_loader.items():
        yield f"{name}={value!r}".replace("'", '"')


def _loader_options(question: Question) -> Iterator[str]:
    for name, value in question.of_loader.items():
        option = f"--{name.replace('_', '-')}"
        yield option if value is True else f"{option} {value}"


def _delta(question: Question) -> str:
    """Return δ as an argument: as a double where it is one, and else its logarithm."""
    text, log = question.delta.text, question.delta.log
    return f"delta={text}" if float(text) > 0 or log == float("-inf") else f"log_delta={log!r}"
