"""Pairs of sampled mechanisms: mixtures of Gaussian or Laplace distributions, made of branches and atoms.

A mean that is 1/σ rounded up, or θ that is 1/b, comes with σ or b, from which balls are made.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from cumulant.numerics.balls import as_ball
from cumulant.pairs.coordinate import CoordinatePair
from cumulant.pairs.gaussian_branch import Added, GaussianHalf, Mixture, Removed, Replaced
from cumulant.pairs.laplace_branch import LaplaceStretch
from cumulant.pairs.mixture_ratio import GaussianMixture, GroupedGaussianMixture, LaplaceMixture

if TYPE_CHECKING:
    from flint import arb

ABOVE = 1 + 2.0**-50  # a largest loss, rounded up


def removed_gaussian(mean: float, rate: float, size: int = 1, *, noise: float | None = None) -> CoordinatePair:
    """Return the mixture against N(0): a group of `size` records, each sampled at `rate`, leaves."""
    return CoordinatePair((Removed(_mixture(mean, rate, size, noise)),))


def added_gaussian(mean: float, rate: float, size: int = 1, *, noise: float | None = None) -> CoordinatePair:
    """Return N(0) against the mixture: the group joins."""
    top = -size * math.log1p(-rate) * ABOVE if rate < 1 else math.inf
    return CoordinatePair((Added(_mixture(mean, rate, size, noise)),), supremum=top)


def replaced_gaussian(mean: float, rate: float, *, noise: float | None = None) -> CoordinatePair:
    """Return the mixture with N(μ) against that with N(-μ)."""
    return CoordinatePair((Replaced(GaussianMixture(mean, rate, noise)),))


def removed_laplace(theta: float, rate: float, *, scale: float | None = None) -> CoordinatePair:
    mixture = LaplaceMixture(theta, rate, scale)
    atoms = tuple((_number(mixture.log_ratio(t)), m + _number(mixture.log_ratio(t))) for t, m in mixture.ends)

    def ball_atoms() -> list[tuple[arb, arb]]:
        losses = [(mixture.log_ball(t), mass) for t, mass in mixture.end_balls()]
        return [(loss, mass * loss.exp()) for loss, mass in losses]

    return CoordinatePair((LaplaceStretch(mixture, 1, -theta),), atoms, _raised(atoms[1][0], mixture), ball_atoms)


def added_laplace(theta: float, rate: float, *, scale: float | None = None) -> CoordinatePair:
    mixture = LaplaceMixture(theta, rate, scale)
    atoms = tuple((-_number(mixture.log_ratio(t)), m) for t, m in mixture.ends)

    def ball_atoms() -> list[tuple[arb, arb]]:
        return [(-mixture.log_ball(t), mass) for t, mass in mixture.end_balls()]

    return CoordinatePair((LaplaceStretch(mixture, -1, -theta),), atoms, _raised(atoms[0][0], mixture), ball_atoms)


def envelope_gaussian(mean: float, rate: float, *, noise: float | None = None) -> CoordinatePair:
    """Return the envelope of sampling without replacement.

    Its atom at L = 0 has mass (1-γ)·TV, TV = 1 - 2Φ(-μ/2) = erf(μ/√8).
    """
    mixture = GaussianMixture(mean, rate, noise)
    rest = math.log1p(-rate) + math.log(math.erf(mean / math.sqrt(8.0)))

    def ball_atoms() -> list[tuple[arb, arb]]:
        variation = (mixture.mean_ball() / as_ball(8.0).sqrt()).erf()
        return [(as_ball(0.0), (1 - mixture.rate_ball()) * variation)]

    branches = (GaussianHalf(mixture, -1), GaussianHalf(mixture, 1))
    return CoordinatePair(branches, ((0.0, rest),), ball_atoms=ball_atoms)


def envelope_laplace(theta: float, rate: float, *, scale: float | None = None) -> CoordinatePair:
    """Return the envelope; TV = 1 - e^{-θ/2}."""
    mixture = LaplaceMixture(theta, rate, scale)
    top, log_mass = mixture.ends[1]
    loss = _number(mixture.log_ratio(top))
    rest = math.log1p(-rate) + math.log(-math.expm1(-theta / 2))
    atoms = ((-loss, log_mass), (0.0, rest), (loss, log_mass + loss))

    def ball_atoms() -> list[tuple[arb, arb]]:
        top, mass = mixture.end_balls()[1]
        largest, variation = mixture.log_ball(top), -(-mixture.theta_ball() / 2).expm1()
        return [
            (-largest, mass),
            (as_ball(0.0), (1 - mixture.rate_ball()) * variation),
            (largest, mass * largest.exp()),
        ]

    branches = (LaplaceStretch(mixture, -1, 0.0), LaplaceStretch(mixture, 1, 0.0))
    return CoordinatePair(branches, atoms, _raised(loss, mixture), ball_atoms)


def _mixture(mean: float, rate: float, size: int, noise: float | None) -> Mixture:
    return GaussianMixture(mean, rate, noise) if size == 1 else GroupedGaussianMixture(mean, rate, size, noise)


def _number(value: Any) -> float:
    return float(np.real(value))


def _raised(loss: float, mixture: LaplaceMixture) -> float:
    """Return a largest loss rounded up; without sampling it is the parameter itself."""
    return loss * ABOVE if mixture.rate < 1 else mixture.theta
