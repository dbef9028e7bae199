"""What a command answers, and how that is printed: in words for people, as one JSON object for programs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, final

import click

from cumulant.answer import Explanation
from cumulant.cli.exit_codes import ExitCode
from cumulant.cli.output import print_explanation, print_plain
from cumulant.cli.question_options import json_option
from cumulant.cli.waiting import waiting
from cumulant.mechanisms.base import AbstractMechanism


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """An answer about a run: as data what was asked and what was found, as text a headline and labelled rows.

    `more` stands beside the proof in the document, `code` is what the command ends with.
    """

    asked: Mapping[str, Any]
    found: Mapping[str, Any]
    run: AbstractMechanism
    explanation: Explanation
    headline: str
    rows: Mapping[str, str] = field(default_factory=dict)
    more: Mapping[str, Any] = field(default_factory=dict)
    colour: str = "green"
    code: ExitCode = ExitCode.HOLDS

    def show(self, *, as_json: bool) -> None:
        """Print it, and end with its exit code."""
        if as_json:
            from cumulant.report.document import document

            print_plain(document(self.asked, self.found, self.run, self.explanation, **self.more))
        else:
            print_explanation(self.headline, self.explanation, rows=self.rows, colour=self.colour)
        click.get_current_context().exit(int(self.code))


def answered(command: Callable[..., Answer]) -> Callable[..., None]:
    """Give a command --json, show how long it takes, and print the answer that it returns."""

    @wraps(command)
    def shown(*, as_json: bool, **parameters: Any) -> None:
        with waiting():
            answer = command(**parameters)
        answer.show(as_json=as_json)

    return json_option(shown)
