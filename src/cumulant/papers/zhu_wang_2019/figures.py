"""Figure 5 of Zhu and Wang (2019), supplement: the τ-term approximation of Poisson sampling's RDP, γ = 0.001."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from cumulant.mechanisms.base import AbstractMechanism
from cumulant.papers.sheet import BLACK, BLUE, GREEN, ORANGE, Sheet, sampled
from cumulant.papers.wang_2019.figures import REGIMES
from cumulant.report.chart import Chart, Series, geometric_counts
from cumulant.sampling.poisson_theorems import poisson_fast, poisson_tight

RATE = 0.001
TERMS = {5: BLUE, 20: GREEN, 100: ORANGE}  # τ: the paper's text does not name its own
LAST_ORDER = 1000


def figure5(*, points: int = 56) -> Sheet:
    """Return the tight bound, Theorem 6, and above it Theorem 11 with several τ."""
    orders = [order for order in geometric_counts(LAST_ORDER, points=points) if order >= 2]
    rows = tuple(tuple(_chart(*named, orders) for named in regime.items()) for regime in REGIMES)
    return Sheet(title=f"Rényi DP after Poisson sampling, γ = {RATE:g}: τ terms of the sum", rows=rows)


def _chart(title: str, mechanism: AbstractMechanism, orders: list[int]) -> Chart:
    loss = mechanism._known().curve()

    def tight(order: int) -> float:
        return poisson_tight(order, rate=RATE, cgf=loss) / (order - 1)

    def fast(terms: int) -> Callable[[int], float]:
        return lambda order: poisson_fast(order, rate=RATE, cgf=loss, terms=terms) / (order - 1)

    curves = [sampled(orders, tight, "tight bound, Theorem 6", BLACK)]
    curves += [sampled(orders, fast(tau), f"Theorem 11, τ = {tau}", color, "--") for tau, color in TERMS.items()]
    real = np.geomspace(1.1, LAST_ORDER, 18)
    ours = mechanism.poisson(rate=RATE).rdp(order=real)
    curves.append(Series(label="cumulant, at real orders", x=tuple(real), y=tuple(ours), color=BLACK, line="."))
    return Chart(
        curves=tuple(curves), x_label="order α", y_label="ε(α), nats", x_scale="log", y_scale="log", title=title
    )
