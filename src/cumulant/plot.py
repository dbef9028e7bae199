"""Curves people would rather look at: needs the extra `cumulant[plot]`.

`rdp`, `epsilon_against_count`, `delta_against_epsilon`, `tradeoff` and `attack` draw on the given matplotlib axes, or
on new ones, and return them. Each draws a `Chart`, the numbers alone, which the function of the same name with `_chart`
computes without matplotlib. All take one mechanism, several, or a mapping from labels to mechanisms; the questions that
take a `method` take several methods, too.

>>> from cumulant import Gaussian
>>> step = Gaussian(noise_multiplier=1.0).poisson(rate=0.01)
>>> chart = epsilon_against_count_chart(step, counts=1_000_000, delta=1e-5, method="rdp")
>>> chart.curves[0].label
'Gaussian (noise multiplier 1), Poisson sampled (rate 0.01)'
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from cumulant.parameters import by_name
from cumulant.report.chart import (
    Chart,
    Mechanisms,
    Methods,
    Series,
    attack_chart,
    delta_against_epsilon_chart,
    epsilon_against_count_chart,
    rdp_chart,
    tradeoff_chart,
)
from cumulant.report.draw import draw, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "Chart",
    "Series",
    "attack",
    "attack_chart",
    "delta_against_epsilon",
    "delta_against_epsilon_chart",
    "draw",
    "epsilon_against_count",
    "epsilon_against_count_chart",
    "rdp",
    "rdp_chart",
    "save",
    "tradeoff",
    "tradeoff_chart",
]


@by_name
def rdp(mechanisms: Mechanisms, *, orders: float | Sequence[float] = 512.0, axes: Axes | None = None) -> Axes:
    """Draw `rdp_chart`."""
    return draw(rdp_chart(mechanisms, orders=orders), axes=axes)


@by_name
def epsilon_against_count(
    mechanisms: Mechanisms,
    *,
    counts: int | Sequence[int],
    delta: float | None = None,
    log_delta: float | None = None,
    method: Methods = "best",
    axes: Axes | None = None,
) -> Axes:
    """Draw `epsilon_against_count_chart`."""
    chart = epsilon_against_count_chart(mechanisms, counts=counts, delta=delta, log_delta=log_delta, method=method)
    return draw(chart, axes=axes)


@by_name
def delta_against_epsilon(
    mechanisms: Mechanisms,
    *,
    epsilons: float | Sequence[float] | None = None,
    method: Methods = "best",
    axes: Axes | None = None,
) -> Axes:
    """Draw `delta_against_epsilon_chart`."""
    return draw(delta_against_epsilon_chart(mechanisms, epsilons=epsilons, method=method), axes=axes)


@by_name
def tradeoff(
    mechanisms: Mechanisms,
    *,
    false_positive_rates: Sequence[float] | None = None,
    method: Methods = "best",
    axes: Axes | None = None,
) -> Axes:
    """Draw `tradeoff_chart`."""
    chart = tradeoff_chart(mechanisms, false_positive_rates=false_positive_rates, method=method)
    return draw(chart, axes=axes)


@by_name
def attack(
    mechanisms: Mechanisms,
    *,
    false_positive_rates: Sequence[float] | None = None,
    method: Methods = "best",
    axes: Axes | None = None,
) -> Axes:
    """Draw `attack_chart`."""
    return draw(attack_chart(mechanisms, false_positive_rates=false_positive_rates, method=method), axes=axes)
