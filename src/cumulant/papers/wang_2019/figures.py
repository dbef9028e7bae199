"""Figures 3 to 10 of Wang, Balle and Kasiviswanathan (2019): sampling without replacement under replace-one.

Section 5 and Appendix G: three mechanisms, at high privacy (σ = 5, b = 2, p = 0.6) and at low privacy (σ = 1, b = 0.5,
p = 0.9); Figures 3, 5, 6, 7 draw the RDP against the order for γ = 0.001, 0.01, 0.1, 0.5, and Figures 4, 8, 9, 10 what
600 000 rounds cost at δ = 1e-8.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, final

import numpy as np

from cumulant.composition_theorems.naive_and_strong import subsampling_lemma
from cumulant.composition_theorems.optimal import optimal_epsilon_within
from cumulant.composition_theorems.rounds import Rounds
from cumulant.curves.best_order import epsilon_from_cgf
from cumulant.curves.conversion import mironov_epsilon
from cumulant.curves.curve import Array, Curve, projected
from cumulant.mechanisms.base import AbstractMechanism
from cumulant.mechanisms.gaussian import Gaussian
from cumulant.mechanisms.laplace import Laplace
from cumulant.mechanisms.randomized_response import RandomizedResponse
from cumulant.papers.sheet import BLACK, BLUE, GREEN, GREY, ORANGE, PINK, RED, SKY, VIOLET, Sheet, proven, sampled
from cumulant.papers.wang_2019.asymptotics import (
    approximate_divergence_of_balanced_data,
    approximate_divergence_of_constant_data,
)
from cumulant.papers.wang_2019.theorems import theorem19_of, theorem26
from cumulant.profiles.sampling import amplified_epsilon
from cumulant.report.chart import Chart, Series, geometric_counts
from cumulant.sampling.without_replacement_theorems import proposition20, theorem9

REGIMES: tuple[Mapping[str, AbstractMechanism], ...] = (
    {
        "Gaussian, σ = 5": Gaussian(noise_multiplier=5.0),
        "Laplace, b = 2": Laplace(scale=2.0),
        "randomized response, p = 0.6": RandomizedResponse(p=0.6),
    },
    {
        "Gaussian, σ = 1": Gaussian(noise_multiplier=1.0),
        "Laplace, b = 0.5": Laplace(scale=0.5),
        "randomized response, p = 0.9": RandomizedResponse(p=0.9),
    },
)
DELTA = 1e-8
ROUNDS = 600_000
LAST_ORDER = 100_000  # bounded losses have flattened there
ORDERS = tuple(order for order in geometric_counts(LAST_ORDER, points=150) if order >= 2)  # all to 13, then 8 % apart
FEWER_ORDERS = ORDERS[:12] + ORDERS[12::2]  # of Theorem 19, whose moments are integrals
LOGITS = (-math.inf, -24.0, -12.0, -6.0, -3.0, -1.0, 1.0, 3.0, 6.0)  # of δ~/(δ/k), one of which is near the best

Divergence = Callable[[float], float]
"""An RDP curve: order ↦ ε(order)."""


def rdp_sheet(*, rate: float, last_order: int = LAST_ORDER, points: int = 48) -> Sheet:
    """Return Figures 3, 5, 6 and 7: upper and lower bounds of the RDP against the order."""
    orders = [order for order in geometric_counts(last_order, points=points) if order >= 2]
    rows = tuple(tuple(_rdp_chart(*named, rate, orders) for named in regime.items()) for regime in REGIMES)
    return Sheet(title=f"Rényi DP after sampling without replacement, γ = {rate:g}", rows=rows)


def composition_sheet(*, rate: float, rounds: int = ROUNDS, points: int = 16) -> Sheet:
    """Return Figures 4, 8, 9 and 10: ε at δ = 1e-8 against the number of rounds."""
    counts = geometric_counts(rounds, points=points)
    rows = tuple(tuple(composition_chart(*named, rate, counts) for named in regime.items()) for regime in REGIMES)
    return Sheet(title=f"Rounds sampled without replacement, γ = {rate:g}", rows=rows)


def _rdp_chart(title: str, mechanism: AbstractMechanism, rate: float, orders: list[int]) -> Chart:
    loss = mechanism._known().curve()

    def upper(order: int) -> float:
        return theorem9(order, rate=rate, cgf=loss) / (order - 1)

    def lower(order: int) -> float:
        return proposition20(order, rate=rate, cgf=loss) / (order - 1)

    def tighter(order: int) -> float:
        return theorem19_of(mechanism, order, rate=rate) / (order - 1)

    ours = mechanism.without_replacement(rate=rate).rdp(order=np.array(orders, dtype=float))
    curves = [
        sampled(orders, lambda order: mechanism.rdp(order=order), "not sampled", GREY, ":"),
        sampled(orders, upper, "upper bound, Theorem 9", BLUE),
        sampled(orders, tighter, "Theorem 19, self-consistent", SKY),
        Series(label="upper bound of cumulant", x=tuple(map(float, orders)), y=tuple(ours), color=BLACK),
        sampled(orders, lower, "lower bound, Proposition 20", RED, "--"),
    ]
    curves += [sampled(orders, d, label, color, "-.") for d, label, color in _approximations(mechanism, rate)]
    return Chart(
        curves=tuple(curves), x_label="order α", y_label="ε(α), nats", x_scale="log", y_scale="log", title=title
    )


def composition_chart(title: str, mechanism: AbstractMechanism, rate: float, counts: tuple[int, ...]) -> Chart:
    baseline, step = Baseline(mechanism, rate), mechanism.without_replacement(rate=rate)
    upper, tighter = theorem9_loss(mechanism._known().curve(), rate), theorem19_loss(mechanism, rate)
    # Proposition 20 is the moment of the mixture against one of its parts, which is Poisson sampling's, at any order
    lower = mechanism.poisson(rate=rate)._known().curve()
    curves = [
        sampled(counts, baseline.naive, "naive composition", GREY, ":"),
        sampled(counts, baseline.theorem26, "Theorem 26 as printed", SKY, ":"),
        sampled(counts, baseline.strong, "strong composition (Kairouz et al.)", PINK, "-."),
        sampled(counts, _moments_accountant(upper), "RDP, upper bound of Theorem 9", BLUE),
        sampled(counts, _moments_accountant(tighter), "RDP, Theorem 19, self-consistent", VIOLET),
        sampled(counts, _moments_accountant(lower), "RDP, lower bound of Proposition 20", RED, "--"),
        proven(counts, [(step * count).guarantee(delta=DELTA) for count in counts]),
    ]
    for divergence, label, color in _approximations(mechanism, rate):
        curves.append(sampled(counts, _moments_accountant(_approximate_loss(divergence)), label, color, "-."))
    return Chart(
        curves=tuple(curves),
        x_label="number of rounds k",
        y_label="ε, nats, at δ = $10^{-8}$",
        x_scale="log",
        y_scale="log",
        title=title,
    )


@final
@dataclass(frozen=True)
class Baseline:
    """What the (ε, δ) of one round is worth after k of them: the subsampling lemma, then composition."""

    mechanism: AbstractMechanism
    rate: float

    @cached_property
    def loss(self) -> Curve:
        return self.mechanism._known().curve()

    def round_epsilon(self, round_delta: float) -> float:
        """Return ε of a sampled round at δ~: (2.2) at δ~/γ, then Lemma 3."""
        log_delta = math.log(round_delta / self.rate) if round_delta else -math.inf
        epsilon = epsilon_from_cgf(self.loss, min(0.0, log_delta), mironov_epsilon)[0]
        return subsampling_lemma(rate=self.rate, epsilon=epsilon)[0]

    def naive(self, count: int) -> float:
        return count * self.round_epsilon(DELTA / count)

    def theorem26(self, count: int) -> float:
        """Return Theorem 26 as printed, δ halved between the rounds and δ*; inf where a round has more than ε = 1."""
        round_delta = DELTA / (2 * count)
        epsilon = self.round_epsilon(round_delta)
        if epsilon > 1:
            return math.inf
        return theorem26(Rounds(epsilon=epsilon, delta=round_delta, count=count), slack=DELTA / 2)[0]

    def strong(self, count: int) -> float:
        """Return the least ε of the optimal composition over a few δ~; `calibrated_composition` searches them all."""
        shares = [DELTA / count / (1 + math.exp(-logit)) for logit in LOGITS[1:]]
        outcomes = [self._composed(count, round_delta) for round_delta in (0.0, *shares)]
        return min([*outcomes, self.naive(count)])

    def _composed(self, count: int, round_delta: float) -> float:
        epsilon = self.round_epsilon(round_delta)
        if math.isinf(epsilon):
            return math.inf
        rounds = Rounds(epsilon=epsilon, delta=round_delta, count=count)
        return optimal_epsilon_within(rounds, delta=DELTA, log_delta=None, relative=1e-3)


def theorem9_loss(loss: Curve, rate: float) -> Curve:
    """Return Theorem 9 at chosen integer orders and, in between, the bound that follows by convexity."""
    points = [(order - 1.0, theorem9(order, rate=rate, cgf=loss)) for order in ORDERS]
    return projected(points, pure=amplified_epsilon(loss.pure, rate))


def theorem19_loss(mechanism: AbstractMechanism, rate: float) -> Curve:
    """Return the curve of Theorem 19 as printed."""
    points = [(order - 1.0, theorem19_of(mechanism, order, rate=rate)) for order in FEWER_ORDERS]
    return projected(points, pure=amplified_epsilon(mechanism._known().curve().pure, rate))


def _moments_accountant(loss: Curve) -> Callable[[int], float]:
    """Return k ↦ ε of k rounds by (2.2)."""
    return lambda count: epsilon_from_cgf(loss * count, math.log(DELTA), mironov_epsilon)[0]


def _approximations(mechanism: AbstractMechanism, rate: float) -> list[tuple[Divergence, str, str]]:
    """Return Section 3.4's curves for Gaussian noise, with n = 100/γ + 1 records, an odd number as it must be."""
    if not isinstance(mechanism, Gaussian):
        return []
    data: dict[str, Any] = {
        "noise_multiplier": mechanism.noise_multiplier,
        "rate": rate,
        "population": round(100 / rate) + 1,
    }
    return [
        (partial(approximate_divergence_of_constant_data, **data), 'Example 21, "bad" data: no guarantee', ORANGE),
        (partial(approximate_divergence_of_balanced_data, **data), 'Example 22, "good" data: no guarantee', GREEN),
    ]


def _approximate_loss(divergence: Divergence) -> Curve:
    def log_moment(lam: Array) -> Array:
        return np.array([x * divergence(1.0 + x) for x in lam.tolist()])

    return Curve(log_moment=log_moment, kl=divergence(1.0 + 1e-6), exact=False)
