"""`cumulant plot`: curves instead of numbers."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import click

from cumulant.answer import Method
from cumulant.cli.hints import OneOf
from cumulant.cli.mechanism_options import Release, mechanism_options
from cumulant.cli.parameter_types import INCHES, NUMBER, Delta
from cumulant.cli.question_options import METHODS, delta_option, json_option, steps_option
from cumulant.cli.waiting import waiting
from cumulant.errors import InvalidParameter
from cumulant.printed import counted

if TYPE_CHECKING:
    from cumulant.mechanisms.base import AbstractMechanism
    from cumulant.report.chart import Chart

FORMATS = (".png", ".svg", ".pdf")
HELP = """Draw curves of one mechanism or several, by one method or several.

\b
Examples:
  cumulant plot epsilon --noise-multiplier 1 --rate 0.01 --steps 1000000 \\
      --delta 1e-5 --method best --method rdp --out epsilon.svg
  cumulant plot delta --noise-multiplier 20 --steps 1000 --out delta.png
  cumulant plot rdp --mechanism laplace --scale 2 --json
"""

EPSILON_HELP = """Draw epsilon at a delta against the number of releases.

\b
Example:
  cumulant plot epsilon --noise-multiplier 1 --rate 0.01 --delta 1e-5 \\
      --steps 1000000 --out epsilon.svg
"""
DELTA_HELP = """Draw delta against epsilon.

\b
Example:
  cumulant plot delta --noise-multiplier 20 --steps 1000 --method best \\
      --method rdp --out delta.png
"""
RDP_HELP = """Draw Rényi DP against the order and, as points, what is attained.

\b
Example:
  cumulant plot rdp --mechanism laplace --scale 2 --rate 0.01 \\
      --also "--noise-multiplier 5 --rate 0.01" --out rdp.svg
"""
TRADEOFF_HELP = """Draw the smallest false negative rate against the false positive rate.

\b
Example:
  cumulant plot tradeoff --noise-multiplier 1 --rate 0.01 --steps 1000 \\
      --also "--noise-multiplier 20" --out tradeoff.svg
"""


@final
@dataclass(frozen=True, slots=True)
class Output:
    """Where a chart goes: to a file, to standard output as JSON, or both."""

    file: Path | None
    as_json: bool
    title: str | None
    page: Mapping[str, Any]

    def deliver(self, chart: Chart, question: Mapping[str, Any], mechanisms: Sequence[AbstractMechanism]) -> None:
        chart = chart if self.title is None else replace(chart, title=self.title)
        if self.file is not None:
            from cumulant.report import draw

            draw.save_chart(chart, self.file, **self.page)
        if self.as_json:
            click.echo(json.dumps(_content(chart, question, mechanisms), indent=2, allow_nan=False))
        else:
            click.echo(f"{counted(len(chart.curves), 'curve')} in {self.file}")


def chart_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options of a release, more releases by --also, and where the chart goes."""

    @wraps(command)
    def with_releases(
        *, release: Release, also: tuple[str, ...], out: Path | None, as_json: bool, title: str | None, **rest: Any
    ) -> Any:
        page = {name: rest.pop(name) for name in PAGE}
        if out is None and not as_json:
            raise click.UsageError("say where the chart goes: --out FILE, or --json for its numbers")
        if out is not None and out.suffix not in FORMATS:
            raise click.UsageError(f"--out must end in {', '.join(FORMATS)}, got {str(out)!r}")
        releases = [release, *(_release_of(text) for text in also)]
        return command(releases=releases, output=Output(out, as_json, title, page), **rest)

    decorated: Callable[..., Any] = with_releases
    options: list[Any] = [json_option, *reversed(_page_options), _out_option, _also_option, mechanism_options]
    for option in options:
        decorated = option(decorated)
    return decorated


_also_option = click.option(
    "--also",
    metavar="'OPTIONS'",
    multiple=True,
    help="Another release on the same chart, by the options above in quotes; may be repeated.",
)
_out_option = click.option(
    "--out", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="A .png, .svg or .pdf file."
)
PAGE = ("width", "height", "font")
_page_options = (
    click.option("--title", metavar="TEXT", help="Above the chart."),
    click.option("--width", type=INCHES, metavar="INCHES", default="6.4", show_default=True, help="Of the picture."),
    click.option("--height", type=INCHES, metavar="INCHES", default="4.4", show_default=True, help="Of the picture."),
    click.option("--font", metavar="NAME", help="A font that is installed, or serif, sans-serif, monospace."),
)
_methods_option = click.option(
    "--method",
    "methods",
    type=OneOf(METHODS),
    multiple=True,
    default=("best",),
    show_default=True,
    help="The tightest proven, the exact one, or Rényi DP; may be repeated.",
)


@click.group(help=HELP, short_help="Curves of epsilon, delta, RDP or the trade-off function.")
def plot() -> None:
    """Hold the four kinds of chart."""


@plot.command(help=EPSILON_HELP, short_help="Epsilon against the number of releases.")
@chart_options
@click.option(
    "--steps",
    type=click.IntRange(min=1),
    metavar="COUNT",
    default=10_000,
    show_default=True,
    help="The most releases to draw.",
)
@delta_option
@_methods_option
def epsilon(releases: list[Release], steps: int, delta: Delta, methods: tuple[Method, ...], output: Output) -> None:
    from cumulant.report import chart as charts

    mechanisms = [release.build() for release in releases]
    with waiting():
        chart = charts.epsilon_against_count_chart(mechanisms, counts=steps, log_delta=delta.log, method=methods)
    question = {"asked": "epsilon", "delta": delta.text, "methods": methods, "steps": steps}
    output.deliver(chart, question, mechanisms)


@plot.command(help=DELTA_HELP, short_help="Delta against epsilon.")
@chart_options
@steps_option
@click.option(
    "--epsilon", type=NUMBER, metavar="NUMBER", help="The largest epsilon to draw.  [default: where delta is 1e-12]"
)
@_methods_option
def delta(
    releases: list[Release], steps: int, epsilon: float | None, methods: tuple[Method, ...], output: Output
) -> None:
    from cumulant.report import chart as charts

    mechanisms = [release.run(steps=steps) for release in releases]
    with waiting():
        chart = charts.delta_against_epsilon_chart(mechanisms, epsilons=epsilon, method=methods)
    question = {"asked": "delta", "epsilon": epsilon, "methods": methods, "steps": steps}
    output.deliver(chart, question, mechanisms)


@plot.command(help=RDP_HELP, short_help="Rényi DP against the order, with its lower bound.")
@chart_options
@steps_option
@click.option(
    "--order", type=NUMBER, metavar="NUMBER", default="512", show_default=True, help="The largest order to draw."
)
def rdp(releases: list[Release], steps: int, order: float, output: Output) -> None:
    from cumulant.report import chart as charts

    mechanisms = [release.run(steps=steps) for release in releases]
    with waiting():
        chart = charts.rdp_chart(mechanisms, orders=order)
    output.deliver(chart, {"asked": "rdp", "steps": steps}, mechanisms)


@plot.command(help=TRADEOFF_HELP, short_help="False negatives against false positives of an attacker.")
@chart_options
@steps_option
@_methods_option
def tradeoff(releases: list[Release], steps: int, methods: tuple[Method, ...], output: Output) -> None:
    from cumulant.report import chart as charts

    mechanisms = [release.run(steps=steps) for release in releases]
    with waiting():
        chart = charts.tradeoff_chart(mechanisms, method=methods)
    output.deliver(chart, {"asked": "tradeoff", "methods": methods, "steps": steps}, mechanisms)


@click.command(add_help_option=False)
@mechanism_options
def _release(release: Release) -> Release:
    return release


def _release_of(text: str) -> Release:
    """Return the release that quoted options describe."""
    try:
        found: Release = _release.main(shlex.split(text), prog_name="--also", standalone_mode=False)
    except (click.UsageError, ValueError) as error:
        message = error.message if isinstance(error, click.UsageError) else str(error)
        raise click.UsageError(f"--also {text!r}: {message}") from error
    return found


def _content(chart: Chart, question: Mapping[str, Any], mechanisms: Sequence[AbstractMechanism]) -> dict[str, Any]:
    from cumulant import __version__

    written = [_written(mechanism) for mechanism in mechanisms]
    return {"version": __version__, "question": question, "mechanisms": written, "chart": chart.to_dict()}


def _written(mechanism: AbstractMechanism) -> dict[str, Any] | None:
    try:
        return mechanism.to_dict()
    except InvalidParameter:  # a part that no data can describe
        return None
