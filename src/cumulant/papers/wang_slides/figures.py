"""Figures of Wang's slides: composition at σ = 5 and 0.5, b = 2 and 0.5; and Figure 2, divergences with a sign."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from cumulant.curves.curve import Array
from cumulant.curves.divergences import signed_pearson_vajda
from cumulant.mechanisms.base import AbstractMechanism
from cumulant.mechanisms.gaussian import Gaussian
from cumulant.mechanisms.laplace import Laplace
from cumulant.papers.sheet import BLACK, BLUE, GREEN, GREY, ORANGE, RED, Sheet, sampled
from cumulant.papers.wang_2019.figures import ROUNDS, composition_chart
from cumulant.report.chart import Chart, Series, geometric_counts

RATE = 0.001  # of the paper's Figure 4; the slides do not name theirs
PANELS: tuple[tuple[str, AbstractMechanism], ...] = (
    ("Gaussian, σ = 5", Gaussian(noise_multiplier=5.0)),
    ("Gaussian, σ = 0.5", Gaussian(noise_multiplier=0.5)),
    ("Laplace, b = 2", Laplace(scale=2.0)),
    ("Laplace, b = 0.5", Laplace(scale=0.5)),
)
ORDERS = {2: GREY, 3: RED, 4: BLUE, 5: ORANGE, 7: GREEN}
COUNTS = np.arange(100.0)  # outputs of a Poisson distribution that are summed: means are at most 2


def composition(*, rounds: int = ROUNDS, points: int = 16) -> Sheet:
    """Return ε at δ = 1e-8 against the number of rounds, four mechanisms."""
    counts = geometric_counts(rounds, points=points)
    charts = [composition_chart(title, mechanism, RATE, counts) for title, mechanism in PANELS]
    return Sheet(title=f"Rounds sampled without replacement, γ = {RATE:g}", rows=(tuple(charts[:2]), tuple(charts[2:])))


def figure2(*, points: int = 60) -> Sheet:
    """Return χ^α(p‖q) with its sign: Poisson distributions against one of mean 1, and a coin against one of 0.3."""
    means = np.linspace(0.6, 1.3, points).tolist()
    coins = np.linspace(0.02, 0.98, points).tolist()
    poisson = _chart(means, lambda mean: (poisson_law(mean), poisson_law(1.0)), "mean of p", "Poisson, q of mean 1")
    binary = _chart(coins, lambda x: (np.array([x, 1 - x]), np.array([0.3, 0.7])), "p(1)", "two outputs, q(1) = 0.3")
    return Sheet(title="Divergences of odd order may be negative: sign · |χ^α|^{1/α}", rows=((poisson, binary),))


def poisson_law(mean: float) -> Array:
    """Return the probabilities of the counts, which add up to 1 but for less than 1e-120."""
    log_factorials = np.array([math.lgamma(k + 1) for k in COUNTS.tolist()])
    return np.asarray(np.exp(COUNTS * math.log(mean) - mean - log_factorials))


def _chart(x: list[float], pair: Callable[[float], tuple[Array, Array]], x_label: str, title: str) -> Chart:
    def root(order: int) -> Callable[[float], float]:
        def at(value: float) -> float:
            chi = signed_pearson_vajda(*pair(value), order=order)
            return math.copysign(abs(chi) ** (1 / order), chi)

        return at

    curves = [sampled(x, root(order), f"α = {order}", color) for order, color in ORDERS.items()]
    zero = Series(label="0", x=(x[0], x[-1]), y=(0.0, 0.0), color=BLACK, line=":", width=0.8)
    return Chart(curves=(*curves, zero), x_label=x_label, y_label="sign · |χ^α|^{1/α}", title=title)
