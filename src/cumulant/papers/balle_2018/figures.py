"""Figure 1 of Balle, Barthe and Gaboardi (2018), as their text describes it: what sampling does to privacy profiles.

Section 2 says that Figure 1 illustrates the bounds of Table 1, and Section 3 that white-box and black-box group privacy
are compared numerically. The figure and its parameters are in a supplement, so those here are chosen: noise of one
sensitivity, one record in ten, groups of three.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import final

import numpy as np

from cumulant.mechanisms.gaussian import Gaussian
from cumulant.mechanisms.laplace import Laplace
from cumulant.papers.sheet import BLACK, BLUE, GREEN, GREY, ORANGE, PINK, RED, SKY, Sheet, sampled
from cumulant.profiles.profile import GroupProfiles, PrivacyProfile, black_box_groups, gaussian_groups, laplace_groups
from cumulant.profiles.sampling import poisson_profile, with_replacement_profile, without_replacement_profile
from cumulant.profiles.weighted_draws import weighted_with_replacement_profile
from cumulant.report.chart import Chart, Series
from cumulant.sampling.membership import RandomizedMembership

BATCH, POPULATION = 100, 1000
RATE = BATCH / POPULATION
GROUP = 3
SMALLEST = -12.0  # log₁₀ δ below which nothing is drawn

LogDelta = Callable[[float], float]


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """A mechanism: its group profiles, the exact log δ of its Poisson sample, and the largest ε to draw."""

    title: str
    groups: GroupProfiles
    exact: LogDelta
    last: float


def figure1(*, points: int = 60) -> Sheet:
    """Return sampled profiles of three mechanisms (top), and what knowing their groups is worth (bottom)."""
    cases = _cases()
    sampling = tuple(_sampling_chart(case, points) for case in cases)
    groups = tuple(_group_chart(case, points) for case in cases)
    title = f"Privacy profiles: one record in ten is sampled (top), groups of {GROUP} (bottom)"
    return Sheet(title=title, rows=(sampling, groups))


def _cases() -> tuple[Case, ...]:
    laplace, gaussian = Laplace(scale=1.0), Gaussian(noise_multiplier=1.0)
    membership = RandomizedMembership(p=math.e / (1 + math.e))  # pure DP of 1, as this Laplace noise has
    return (
        Case(
            title="Laplace, b = 1",
            groups=laplace_groups(1.0),
            exact=lambda epsilon: laplace.poisson(rate=RATE).log_delta(epsilon=epsilon),
            last=1.0,
        ),
        Case(
            title="Gaussian, σ = 1",
            groups=gaussian_groups(1.0),
            exact=lambda epsilon: gaussian.poisson(rate=RATE).log_delta(epsilon=epsilon),
            last=4.0,
        ),
        Case(
            title="membership, p = 0.73",
            groups=membership.group,
            exact=membership.poisson(rate=RATE).log_delta,
            last=1.0,
        ),
    )


def _sampling_chart(case: Case, points: int) -> Chart:
    one, epsilons = case.groups(1), np.linspace(0.0, case.last, points)
    draws = {"draws": BATCH, "population": POPULATION}
    without = without_replacement_profile(one, batch=BATCH, population=POPULATION)
    known = with_replacement_profile(case.groups, **draws)
    weighted = weighted_with_replacement_profile(case.groups, **draws)
    unknown = with_replacement_profile(black_box_groups(one), **draws)
    curves = [
        _profile_curve(epsilons, one, "not sampled", GREY, ":"),
        _profile_curve(epsilons, poisson_profile(one, rate=RATE), "Theorem 8, Poisson", BLUE, "-"),
        _profile_curve(epsilons, without, "Theorem 9, without replacement", ORANGE, "--"),
        _profile_curve(epsilons, unknown, "Theorem 10, with replacement, black-box groups", PINK, "-."),
        _profile_curve(epsilons, known, "Theorem 10, with replacement, white-box groups", RED, "-."),
        _profile_curve(epsilons, weighted, "with replacement, weighted draws (cumulant)", SKY, "-"),
    ]
    last = min(case.last, poisson_profile(one, rate=RATE).pure)
    exact = sampled(np.linspace(0.0, last, 14), _exponent(case.exact), "Poisson, exact or best proven", BLACK, ".")
    return _chart(case.title, [*curves, exact])


def _group_chart(case: Case, points: int) -> Chart:
    epsilons = np.linspace(0.0, GROUP * case.last, points)
    curves = [
        _profile_curve(epsilons, case.groups(1), "not sampled", GREY, ":"),
        _profile_curve(epsilons, black_box_groups(case.groups(1))(GROUP), f"group of {GROUP}, black box", GREEN, "--"),
        _profile_curve(epsilons, case.groups(GROUP), f"group of {GROUP}, white box", GREEN, "-"),
    ]
    return _chart(f"{case.title}: groups", curves)


def _profile_curve(epsilons: Iterable[float], profile: PrivacyProfile, label: str, color: str, line: str) -> Series:
    return sampled(epsilons, _exponent(profile.log_delta), label, color, line)


def _exponent(log_delta: LogDelta) -> Callable[[float], float]:
    """Return log₁₀ δ, nothing where δ is too small to draw."""

    def at(epsilon: float) -> float:
        exponent = min(0.0, log_delta(float(epsilon))) / math.log(10)
        return exponent if exponent > SMALLEST else -math.inf

    return at


def _chart(title: str, curves: list[Series]) -> Chart:
    return Chart(curves=tuple(curves), x_label="ε, nats", y_label="δ", y_scale="exponent", title=title)
