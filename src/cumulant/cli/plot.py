"""`cumulant plot`: curves instead of numbers."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import Any

import click

from cumulant.answer import Method
from cumulant.cli.headings import HeadedCommand
from cumulant.cli.hints import OneOf
from cumulant.cli.mechanism_options import Release, mechanism_options
from cumulant.cli.output import print_data
from cumulant.cli.parameter_types import CHART_ENDINGS, INCHES, NUMBER
from cumulant.cli.question_options import METHODS, delta_option, json_option, steps_option
from cumulant.cli.waiting import waiting
from cumulant.mechanisms.base import AbstractMechanism
from cumulant.printed import counted
from cumulant.report.chart import (
    Chart,
    attack_chart,
    delta_against_epsilon_chart,
    epsilon_against_count_chart,
    rdp_chart,
    tradeoff_chart,
)
from cumulant.report.document import written
from cumulant.report.typed import Delta

Drawn = tuple[Chart, Mapping[str, Any], Sequence[AbstractMechanism]]
"""A chart, what was asked about it, and of which mechanisms."""

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
ATTACK_HELP = """Draw how many members the best attacker finds, against how many others he accuses.

\b
Example:
  cumulant plot attack --noise-multiplier 1 --rate 0.01 --steps 1000 \\
      --also "--noise-multiplier 20" --out attack.png --dpi 300
"""


_also_option = click.option(
    "--also",
    metavar="'OPTIONS'",
    multiple=True,
    help="Another release on the same chart, by the options above in quotes; may be repeated.",
)
_out_option = click.option(
    "--out", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="A .png, .svg or .pdf file."
)
PAGE = ("width", "height", "font", "dpi")
_page_options = (
    click.option("--title", metavar="TEXT", help="Above the chart."),
    click.option("--width", type=INCHES, metavar="INCHES", default="6.4", show_default=True, help="Of the picture."),
    click.option("--height", type=INCHES, metavar="INCHES", default="4.4", show_default=True, help="Of the picture."),
    click.option("--dpi", type=click.IntRange(10, 2400), default=110, show_default=True, help="Of a .png, per inch."),
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


def charted(command: Callable[..., Drawn]) -> Callable[..., None]:
    """Give a command the options of a release, more releases by --also, and where its chart goes."""

    @wraps(command)
    def with_releases(
        *, release: Release, also: tuple[str, ...], out: Path | None, as_json: bool, title: str | None, **rest: Any
    ) -> None:
        page = {name: rest.pop(name) for name in PAGE}
        if out is None and not as_json:
            raise click.UsageError("say where the chart goes: --out FILE, or --json for its numbers")
        if out is not None and out.suffix not in CHART_ENDINGS:
            raise click.UsageError(f"--out must end in {', '.join(CHART_ENDINGS)}, got {str(out)!r}")
        releases = [release, *(_release_of(text) for text in also)]
        with waiting():
            chart, question, mechanisms = command(releases, **rest)
        chart = chart if title is None else replace(chart, title=title)
        if out is not None:
            from cumulant.report.draw import save_chart

            save_chart(chart, out, **page)
        if as_json:
            asked = {"asked": command.__name__, **question}
            described = {"question": asked, "mechanisms": [written(each) for each in mechanisms]}
            print_data({**described, "chart": chart.to_dict()})
        else:
            click.echo(f"{counted(len(chart.curves), 'curve')} in {out}")

    decorated: Callable[..., None] = json_option(with_releases)
    options: list[Any] = [*reversed(_page_options), _out_option, _also_option, mechanism_options]
    for option in options:
        decorated = option(decorated)
    return decorated


@click.group(help=HELP, short_help="Curves of epsilon, delta, RDP or the trade-off function.")
def plot() -> None:
    """Hold the four kinds of chart."""


plot.command_class = HeadedCommand


@plot.command(help=EPSILON_HELP, short_help="Epsilon against the number of releases.")
@charted
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
def epsilon(releases: list[Release], *, steps: int, delta: Delta, methods: tuple[Method, ...]) -> Drawn:
    mechanisms = [release.build() for release in releases]
    chart = epsilon_against_count_chart(mechanisms, counts=steps, log_delta=delta.log, method=methods)
    return chart, {"delta": delta.text, "methods": methods, "steps": steps}, mechanisms


@plot.command(help=DELTA_HELP, short_help="Delta against epsilon.")
@charted
@steps_option
@click.option(
    "--epsilon", type=NUMBER, metavar="NUMBER", help="The largest epsilon to draw.  [default: where delta is 1e-12]"
)
@_methods_option
def delta(releases: list[Release], *, steps: int, epsilon: float | None, methods: tuple[Method, ...]) -> Drawn:
    mechanisms = [release.run(steps=steps) for release in releases]
    chart = delta_against_epsilon_chart(mechanisms, epsilons=epsilon, method=methods)
    return chart, {"epsilon": epsilon, "methods": methods, "steps": steps}, mechanisms


@plot.command(help=RDP_HELP, short_help="Rényi DP against the order, with its lower bound.")
@charted
@steps_option
@click.option(
    "--order", type=NUMBER, metavar="NUMBER", default="512", show_default=True, help="The largest order to draw."
)
def rdp(releases: list[Release], *, steps: int, order: float) -> Drawn:
    mechanisms = [release.run(steps=steps) for release in releases]
    return rdp_chart(mechanisms, orders=order), {"steps": steps}, mechanisms


@plot.command(help=TRADEOFF_HELP, short_help="False negatives against false positives of an attacker.")
@charted
@steps_option
@_methods_option
def tradeoff(releases: list[Release], *, steps: int, methods: tuple[Method, ...]) -> Drawn:
    mechanisms = [release.run(steps=steps) for release in releases]
    return tradeoff_chart(mechanisms, method=methods), {"methods": methods, "steps": steps}, mechanisms


@plot.command(help=ATTACK_HELP, short_help="Members found against others accused, on log axes.")
@charted
@steps_option
@_methods_option
def attack(releases: list[Release], *, steps: int, methods: tuple[Method, ...]) -> Drawn:
    mechanisms = [release.run(steps=steps) for release in releases]
    return attack_chart(mechanisms, method=methods), {"methods": methods, "steps": steps}, mechanisms


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
