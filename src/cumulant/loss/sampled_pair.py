"""Pairs of sampled mechanisms: mixtures of Gaussian or Laplace distributions, made of branches and atoms."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cumulant.loss.coordinate import CoordinatePair
from cumulant.loss.gaussian_branch import Added, GaussianHalf, Mixture, Removed, Replaced
from cumulant.loss.laplace_branch import LaplaceStretch
from cumulant.loss.mixture_ratio import GaussianMixture, GroupedGaussianMixture, LaplaceMixture

ABOVE = 1 + 2.0**-50  # a largest loss, rounded up


def removed_gaussian(mean: float, rate: float, size: int = 1) -> CoordinatePair:
    """Return the mixture against N(0): a group of `size` records, each sampled at `rate`, leaves."""
    return CoordinatePair((Removed(_mixture(mean, rate, size)),))


def added_gaussian(mean: float, rate: float, size: int = 1) -> CoordinatePair:
    """Return N(0) against the mixture: the group joins."""
    top = -size * math.log1p(-rate) * ABOVE if rate < 1 else math.inf
    return CoordinatePair((Added(_mixture(mean, rate, size)),), supremum=top)


def replaced_gaussian(mean: float, rate: float) -> CoordinatePair:
    """Return the mixture with N(μ) against that with N(-μ)."""
    return CoordinatePair((Replaced(GaussianMixture(mean, rate)),))


def removed_laplace(theta: float, rate: float) -> CoordinatePair:
    mixture = LaplaceMixture(theta, rate)
    atoms = tuple((_number(mixture.log_ratio(t)), m + _number(mixture.log_ratio(t))) for t, m in mixture.ends)
    return CoordinatePair((LaplaceStretch(mixture, 1, -theta),), atoms, _raised(atoms[1][0], rate))


def added_laplace(theta: float, rate: float) -> CoordinatePair:
    mixture = LaplaceMixture(theta, rate)
    atoms = tuple((-_number(mixture.log_ratio(t)), m) for t, m in mixture.ends)
    return CoordinatePair((LaplaceStretch(mixture, -1, -theta),), atoms, _raised(atoms[0][0], rate))


def envelope_gaussian(mean: float, rate: float) -> CoordinatePair:
    """Return the envelope of sampling without replacement.

    Its atom at L = 0 has mass (1-γ)·TV, TV = 1 - 2Φ(-μ/2) = erf(μ/√8).
    """
    mixture = GaussianMixture(mean, rate)
    rest = math.log1p(-rate) + math.log(math.erf(mean / math.sqrt(8.0)))
    return CoordinatePair((GaussianHalf(mixture, -1), GaussianHalf(mixture, 1)), ((0.0, rest),))


def envelope_laplace(theta: float, rate: float) -> CoordinatePair:
    """Return the envelope; TV = 1 - e^{-θ/2}."""
    mixture = LaplaceMixture(theta, rate)
    top, log_mass = mixture.ends[1]
    loss = _number(mixture.log_ratio(top))
    rest = math.log1p(-rate) + math.log(-math.expm1(-theta / 2))
    atoms = ((-loss, log_mass), (0.0, rest), (loss, log_mass + loss))
    return CoordinatePair(
        (LaplaceStretch(mixture, -1, 0.0), LaplaceStretch(mixture, 1, 0.0)), atoms, _raised(loss, rate)
    )


def _mixture(mean: float, rate: float, size: int) -> Mixture:
    return GaussianMixture(mean, rate) if size == 1 else GroupedGaussianMixture(mean, rate, size)


def _number(value: Any) -> float:
    return float(np.real(value))


def _raised(loss: float, rate: float) -> float:
    """Return a largest loss rounded up; without sampling it is the parameter itself."""
    return loss * ABOVE if rate < 1 else loss
