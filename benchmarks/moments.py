"""Rényi divergences of the pairs in `laws`, by mpmath's quadrature of their definition."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from mpmath import mp, mpf

from benchmarks import runs
from benchmarks.runs import Release

Real = Any  # an mpf; mpmath carries no types
DIGITS = 50  # 1 is subtracted from moments that a small rate leaves at 1 + 1e-20
FARTHEST = 200.0  # α/σ beyond it would need more panels than are worth waiting for


def renyi_divergence(release: Release, order: float) -> float:
    """Return the larger Rényi divergence of the two orders of the neighbours of `laws.laws_of`, at order > 1."""
    with mp.workdps(DIGITS):
        alpha = mpf(order)
        moments = [_log_moment(release, alpha), _log_moment(release, 1 - alpha)]
        return float(max(moments) / (alpha - 1))


def _log_moment(release: Release, power: Real) -> Real:
    """Return log E_Q[r^power] for the likelihood ratio r of the pair: power α is one order, 1 - α the other."""
    if release.relation == runs.REPLACE_ONE and release.sampling == runs.POISSON and release.kind in OPPOSITE:
        return OPPOSITE[release.kind](release, power)
    gamma = mpf(release.batch) / release.population if release.batch else mpf(release.rate)

    def moment(loss: Real) -> Real:
        return (1 - gamma + gamma * mp.exp(loss)) ** power

    return mp.log(_mean_under_q(release, moment, power))


def _mean_under_q(release: Release, function: Callable[[Real], Real], power: Real) -> Real:
    """Return E_Q of a function of the loss of the mechanism itself."""
    if release.kind == runs.GAUSSIAN:
        mu = 1 / mpf(release.parameter)
        return _normal_mean(lambda x: function(mu * x - mu * mu / 2), mu, power)
    if release.kind == runs.LAPLACE:
        theta = 1 / mpf(release.parameter)
        atoms = function(theta) * mp.exp(-theta) / 2 + function(-theta) / 2
        return atoms + _integral(lambda t: function(t) * mp.exp((-t - theta) / 2) / 4, _panels(-theta, theta, power))
    p = mpf(release.parameter)
    loss = mp.log(p / (1 - p))
    return (1 - p) * function(loss) + p * function(-loss)


def _opposite_gaussians(release: Release, power: Real) -> Real:
    """Poisson sampling, replace-one: (1-γ)N(0) + γN(μ) against (1-γ)N(0) + γN(-μ)."""
    mu, gamma = 1 / mpf(release.parameter), mpf(release.rate)

    def weight(x: Real) -> Real:
        return 1 - gamma + gamma * mp.exp(mu * x - mu * mu / 2)

    return mp.log(_normal_mean(lambda x: weight(-x) * (weight(x) / weight(-x)) ** power, 2 * mu, power))


def _opposite_laplace(release: Release, power: Real) -> Real:
    """The same of Laplace noise of scale b: beyond ±1 the likelihood ratio is constant."""
    theta, gamma = 1 / mpf(release.parameter), mpf(release.rate)

    def density(x: Real) -> Real:
        return ((1 - gamma) * mp.exp(-theta * abs(x)) + gamma * mp.exp(-theta * abs(x - 1))) * theta / 2

    def moment(x: Real) -> Real:
        return density(-x) * (density(x) / density(-x)) ** power

    tails = (moment(mpf(1)) + moment(mpf(-1))) / theta
    inside = [*_panels(mpf(-1), mpf(0), power * theta), *_panels(mpf(0), mpf(1), power * theta)[1:]]
    return mp.log(tails + _integral(moment, inside))


def _normal_mean(function: Callable[[Real], Real], mu: Real, power: Real) -> Real:
    reach = abs(power) * mu
    if reach > FARTHEST:
        raise OverflowError(f"order {power} at noise {1 / mu} is too large for this reference")
    low, high = (-14 - reach, 14 + reach)
    points = [low + (high - low) * mpf(k) / 60 for k in range(61)]
    return _integral(lambda x: function(x) * mp.npdf(x), points)


def _panels(low: Real, high: Real, power: Real) -> list[Real]:
    """Return a few points per e-fold of a power of e^loss."""
    count = 2 + math.ceil(float(abs(power) * (high - low)) / 8)
    return [low + (high - low) * mpf(k) / count for k in range(count + 1)]


def _integral(function: Callable[[Real], Real], points: Sequence[Real]) -> Real:
    return mp.fsum(mp.quad(function, [a, b], method="gauss-legendre") for a, b in pairwise(points))


OPPOSITE = {runs.GAUSSIAN: _opposite_gaussians, runs.LAPLACE: _opposite_laplace}  # what two records are to each other
