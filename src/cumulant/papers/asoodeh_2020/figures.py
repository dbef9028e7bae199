"""Figures 1 to 3 of Asoodeh, Liao, Calmon, Kosut and Sankar (2020): from Rényi DP to (ε, δ), and Gaussian noise."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from cumulant.curves.conversion import asoodeh_rdp_lower_bound, optimal_rdp
from cumulant.mechanisms.base import AbstractMechanism
from cumulant.mechanisms.gaussian import Gaussian
from cumulant.papers.asoodeh_2020.gaussian_composition import (
    classical_epsilon,
    gaussian_optimal_epsilon,
    lemma2_epsilon,
)
from cumulant.papers.sheet import BLUE, GREEN, ORANGE, RED, Sheet, proven, sampled
from cumulant.report.chart import Chart, Series

DELTA = 1e-5
PAIRS = ((2.0, 0.5, BLUE), (4.0, 1.0, RED), (10.0, 2.0, GREEN))  # (α, ε): the paper's text does not name its own
SGD_RATE, SGD_SIGMA = 0.001, 4.0


def figure1(*, points: int = 80) -> Sheet:
    """Return the largest RDP that implies (ε, δ)-DP, exactly (Theorem 3) and from below (Theorem 4)."""
    deltas = np.concatenate([np.geomspace(1e-4, 0.02, points // 4), np.linspace(0.025, 0.95, points)])
    curves: list[Series] = []
    for alpha, epsilon, color in PAIRS:
        lam, name = alpha - 1, f"α = {alpha:g}, ε = {epsilon:g}"

        def exact(delta: float, lam: float = lam, epsilon: float = epsilon) -> float:
            return optimal_rdp(lam, epsilon, delta)

        def below(delta: float, lam: float = lam, epsilon: float = epsilon) -> float:
            return asoodeh_rdp_lower_bound(lam, epsilon, math.log(delta))

        curves.append(sampled(deltas, exact, f"{name}: Theorem 3", color))
        curves.append(sampled(deltas, below, f"{name}: Theorem 4", color, ":"))
    chart = Chart(curves=tuple(curves), x_label="δ", y_label="largest γ that implies (ε, δ)-DP, nats")
    return Sheet(title="Which (α, γ)-Rényi DP implies (ε, δ)-DP", rows=((chart,),))


def figure2(*, points: int = 40) -> Sheet:
    """Return ε of up to 1000 Gaussian releases, σ = 20, δ = 1e-5."""
    step = Gaussian(noise_multiplier=20.0)
    chart = _epsilon_chart(_whole(1000, points), step.noise_multiplier, step, "number of releases T", per_tick=1)
    return Sheet(title="Gaussian releases, σ = 20, δ = $10^{-5}$", rows=((chart,),))


def figure3(*, points: int = 30) -> Sheet:
    """Return ε of noisy SGD, σ = 4, one record in a thousand, δ = 1e-5, by epochs of 1000 steps.

    The paper puts ρ = q²/((1-q)σ²) for the RDP of a step, from Lemma 3 of Abadi et al. (2016), where it is the leading
    term and holds for orders up to σ² log 1/(qσ): these two curves are not guarantees.
    """
    q, sigma = SGD_RATE, SGD_SIGMA
    effective = math.sqrt((1 - q) * sigma**2 / (2 * q**2))  # of which 1/(2σ²) is the paper's ρ
    step = Gaussian(noise_multiplier=sigma).poisson(rate=q)
    chart = _epsilon_chart(_whole(1000, points), effective, step, "epochs", per_tick=round(1 / q))
    return Sheet(title="Noisy SGD, σ = 4, sampling rate 0.001, δ = $10^{-5}$", rows=((chart,),))


def _whole(last: int, points: int) -> list[int]:
    """Return whole numbers up to the last, dense where ε grows like the root."""
    return sorted({max(1, round(last * (i / points) ** 2)) for i in range(points + 1)})


def _epsilon_chart(
    ticks: list[int], noise_multiplier: float, step: AbstractMechanism, x_label: str, *, per_tick: int
) -> Chart:
    """Return the bounds of the paper for the noise multiplier, and the answer of this library for the step."""

    def by(bound: Callable[..., float]) -> Callable[[int], float]:
        return lambda tick: bound(noise_multiplier=noise_multiplier, count=per_tick * tick, delta=DELTA)

    guarantees = [(step * (per_tick * tick)).guarantee(delta=DELTA) for tick in ticks]
    curves = (
        sampled(ticks, by(classical_epsilon), "moments accountant, (23)", RED, "--"),
        sampled(ticks, by(lemma2_epsilon), "Lemma 2", BLUE),
        sampled(ticks, by(gaussian_optimal_epsilon), "optimal conversion, (24)", ORANGE, ":"),
        proven(ticks, guarantees),
    )
    return Chart(curves=curves, x_label=x_label, y_label="ε, nats, at δ = $10^{-5}$")
