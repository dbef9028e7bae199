"""The options that make up a question: how many steps, at which δ or ε, by which method, printed how."""

from __future__ import annotations

import click

from cumulant.cli.hints import OneOf
from cumulant.cli.parameter_types import COUNT, NUMBER, PROBABILITY

METHODS = ("best", "exact", "rdp")

steps_option = click.option(
    "--steps",
    type=COUNT,
    metavar="COUNT",
    default="1",
    show_default=True,
    help="How many times it is released; 1e6 is a number, too.",
)
delta_option = click.option(
    "--delta",
    type=PROBABILITY,
    metavar="NUMBER",
    required=True,
    help="Any decimal from 0 to 1; 1e-400 does not underflow.",
)
epsilon_option = click.option("--epsilon", type=NUMBER, metavar="NUMBER", required=True, help="A number >= 0.")
method_option = click.option(
    "--method",
    type=OneOf(METHODS),
    default="best",
    show_default=True,
    help="The tightest proven, the exact one, or Rényi DP.",
)
budget_option = click.option(
    "--epsilon", type=NUMBER, metavar="NUMBER", required=True, help="The budget: a number >= 0."
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")

interval_option = click.option(
    "--interval", "with_interval", is_flag=True, help="Print both certified ends of epsilon, too."
)
