"""What a run promises, in words: for a model card, for a report, for programs."""

from __future__ import annotations

import json
import platform
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata
from typing import Any, final

from cumulant import parameters
from cumulant.answer import Explanation, Interval, order_text, relation_text, tightness_text
from cumulant.errors import OutOfReach, UnprovenCombination
from cumulant.mechanisms.base import AbstractMechanism
from cumulant.neighbors import ADD_REMOVE, REPLACE_ONE, ZERO_OUT, Neighbors
from cumulant.parameters import require
from cumulant.printed import factor_up, percent_up, rounded_up
from cumulant.report.assumptions import assumptions_of
from cumulant.report.document import plain_value, written
from cumulant.report.release_words import release_words
from cumulant.sampling.poisson_users import records_per_person
from cumulant.version import __version__

FORMATS = ("text", "markdown", "json")
ABOUT: Mapping[Neighbors | None, tuple[str, str]] = {
    ADD_REMOVE: (
        "whether one record was in the data",
        "whether one person's records, at most {k}, were in the data, all of them,",
    ),
    REPLACE_ONE: (
        "which of any two values one record had",
        "which of any two values each of one person's records, at most {k}, had",
    ),
    ZERO_OUT: (
        "whether one record was in the data or a null record, which adds nothing, in its place",
        "whether one person's records, at most {k}, were in the data or as many null records in their place",
    ),
    None: ("one change", "{k} changes"),
}
"""What a relation is about: for one record, and for k of them."""

FALSE_POSITIVE_RATE = 0.01  # of outsiders whom an attacker may call members
OUTSIDERS = "1 %"  # the same in words
LABEL_WIDTH = 14  # columns
WIDTH = 100  # columns of the text

NOT_COVERED = (
    "other runs on the same data, such as those that chose its settings, unless they are part of this account",
    "numbers that were measured on private data beside it, such as a validation loss",
    "a moment to stop that was chosen by looking at private data: state the run that was planned",
    "a random number generator that can be predicted, and what the last digits of noise in floating point reveal",
    "a program that samples, clips or adds noise in another way than is declared here",
)


def state(
    run: AbstractMechanism, *, delta: float | None = None, log_delta: float | None = None, user_records: int = 1
) -> Statement:
    """Return what a run promises at δ to whoever has at most `user_records` records in the data.

    A run on samples towards people with several records says itself how many: there it is no other number.
    """
    k = parameters.whole_number("user_records", user_records, at_least=1)
    of_run = records_per_person(release for release, _ in run.releases())
    rule = f"user_records must be left out, or be the {of_run} records_per_user of the run"
    require(of_run == 1 or k in (1, of_run), rule, user_records)
    towards = run if k in (1, of_run) else run.group(size=k)
    return Statement(
        run=run,
        user_records=max(k, of_run),
        explanation=towards.explain(delta=delta, log_delta=log_delta),
        interval=_interval(towards, delta, log_delta),
        advantage=towards.advantage(),
        true_positive_rate=towards.true_positive_rate(false_positive_rate=FALSE_POSITIVE_RATE),
    )


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Statement:
    """One number for the sampling that was declared, whom it protects, what proves it, and what it does not cover."""

    run: AbstractMechanism
    user_records: int
    explanation: Explanation
    interval: Interval | None
    advantage: float
    true_positive_rate: float

    def written(self, how: Any) -> str:
        """Return the statement as text, Markdown or JSON."""
        require(how in FORMATS, f"format must be one of {', '.join(FORMATS)}", how)
        if how == "json":
            return json.dumps(self.to_dict(), indent=2, allow_nan=False)
        return "\n".join(self._markdown() if how == "markdown" else self._text())

    @property
    def sentence(self) -> str:
        """What a model card can say in one sentence."""
        g = self.explanation.guarantee
        promise = f"({rounded_up(g.epsilon, digits=4)}, {g.delta_text})-differentially private"
        who = "" if self.user_records == 1 else f" for everyone with at most {self.user_records} records"
        return (
            f"This computation is {promise}{who} under {relation_text(self.explanation.neighbors)}: "
            f"{tightness_text(g)}, by {g.theorem}{order_text(g.order)}."
        )

    @property
    def rows(self) -> list[tuple[str, str]]:
        """The statement line by line, each with its label."""
        g = self.explanation.guarantee
        return [
            ("promise", self.promise),
            *g.rows,
            *([] if self.interval is None else [("interval", self.interval.words())]),
            *(("instead", text) for text in self.explanation.advice),
            ("attacker", self.attacker),
            *(("release", text) for text in self.releases),
            *(("assumes", text) for text in self.assumptions),
            *(("not covered", text) for text in NOT_COVERED),
            ("computed by", ", ".join(f"{name} {version}" for name, version in _versions().items())),
        ]

    @property
    def promise(self) -> str:
        """Whom the number protects, from whom, and how much."""
        factor = factor_up(self.explanation.guarantee.epsilon)
        return (
            f"for whoever sees everything that was released, {self._about()} changes the probability of anything they "
            f"may see by a factor of at most {factor} (e^epsilon), plus delta"
        )

    def _about(self) -> str:
        k, relation = self.user_records, self.explanation.neighbors
        return f"{ABOUT[relation][k > 1].format(k=k)} ({relation_text(relation)})"

    @property
    def attacker(self) -> str:
        """What the best attack on one record can do."""
        return _attacker(self.true_positive_rate, self.advantage)

    @property
    def releases(self) -> list[str]:
        """What was released, how often, on which sample."""
        return [release_words(release, count) for release, count in self.run.releases()]

    @property
    def assumptions(self) -> list[str]:
        """What must be true of the program, beside what was declared."""
        return assumptions_of(self.run)

    def _headline(self) -> str:
        g = self.explanation.guarantee
        return f"epsilon = {rounded_up(g.epsilon)} at delta = {g.delta_text}"

    def _text(self) -> Iterator[str]:
        yield self._headline()
        before = ""
        for label, text in self.rows:
            shown = "" if label == before else label
            indent = " " * (2 + LABEL_WIDTH)
            yield from textwrap.wrap(f"  {shown:<{LABEL_WIDTH}}{text}", WIDTH, subsequent_indent=indent)
            before = label

    def _markdown(self) -> Iterator[str]:
        yield from (self.sentence, "", f"| | {self._headline()} |", "| --- | --- |")
        for label, text in self.rows:
            yield f"| {label} | {text.replace('|', chr(92) + '|')} |"
        yield from ("", "```json", json.dumps(self.to_dict(), indent=2, allow_nan=False), "```")

    def to_dict(self) -> dict[str, Any]:
        """Return the statement as plain data."""
        g, i = self.explanation.guarantee, self.interval
        content = {
            "version": __version__,
            "sentence": self.sentence,
            "epsilon": g.epsilon,
            "delta": g.delta,
            "log_delta": g.log_delta,
            "neighbors": relation_text(self.explanation.neighbors),
            "user_records": self.user_records,
            "exact": g.exact,
            "at_most_above": g.at_most_above,
            "method": g.method,
            "theorem": g.theorem + order_text(g.order),
            "interval": None if i is None else i.to_dict(),
            **({"advice": list(self.explanation.advice)} if self.explanation.advice else {}),
            "attack": {
                "false_positive_rate": FALSE_POSITIVE_RATE,
                "true_positive_rate": self.true_positive_rate,
                "advantage": self.advantage,
            },
            "releases": self.releases,
            "assumes": self.assumptions,
            "not_covered": list(NOT_COVERED),
            "mechanism": written(self.run),
            "computed_by": _versions(),
        }
        plain: dict[str, Any] = plain_value(content)
        return plain


def attacker_words(run: AbstractMechanism) -> str:
    """Return what the best attack on one record can do, in words."""
    return _attacker(run.true_positive_rate(false_positive_rate=FALSE_POSITIVE_RATE), run.advantage())


def _attacker(true_positive_rate: float, advantage: float) -> str:
    found = percent_up(true_positive_rate)
    return (
        f"whoever accuses at most {OUTSIDERS} of outsiders finds at most {found} % of members; "
        f"true less false positives are at most {rounded_up(advantage, digits=3)} for every attack"
    )


def _versions() -> dict[str, str]:
    """Return what an answer was computed with."""
    packages = {name: metadata.version(name) for name in ("numpy", "scipy", "python-flint")}
    return {"cumulant": __version__, "Python": platform.python_version(), **packages}


def _interval(run: AbstractMechanism, delta: float | None, log_delta: float | None) -> Interval | None:
    """Return both ends, where some neighbours are known to attain the lower one."""
    try:
        return run.epsilon_interval(delta=delta, log_delta=log_delta)
    except (UnprovenCombination, OutOfReach):
        return None
