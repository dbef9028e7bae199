"""Pairs of samples by their parameters: noise, and what sampling makes of it."""

from __future__ import annotations

from cumulant.pairs.coordinate import CoordinatePair
from cumulant.pairs.gaussian_mixture import GroupedGaussian
from cumulant.pairs.maps import Envelope, Join, Leave, Replace
from cumulant.pairs.noise import GaussianNoise, LaplaceNoise


def removed_gaussian(mean: float, rate: float, size: int = 1) -> CoordinatePair:
    if size > 1:
        return CoordinatePair(GroupedGaussian(mean, rate, size), Leave(1.0))
    return CoordinatePair(GaussianNoise(mean), Leave(rate))


def added_gaussian(mean: float, rate: float, size: int = 1) -> CoordinatePair:
    if size > 1:
        return CoordinatePair(GroupedGaussian(mean, rate, size), Join(1.0))
    return CoordinatePair(GaussianNoise(mean), Join(rate))


def replaced_gaussian(mean: float, rate: float) -> CoordinatePair:
    return CoordinatePair(GaussianNoise(mean), Replace(rate))


def envelope_gaussian(mean: float, rate: float) -> CoordinatePair:
    return CoordinatePair(GaussianNoise(mean), Envelope(rate))


def removed_laplace(theta: float, rate: float) -> CoordinatePair:
    return CoordinatePair(LaplaceNoise(theta), Leave(rate))


def added_laplace(theta: float, rate: float) -> CoordinatePair:
    return CoordinatePair(LaplaceNoise(theta), Join(rate))


def envelope_laplace(theta: float, rate: float) -> CoordinatePair:
    return CoordinatePair(LaplaceNoise(theta), Envelope(rate))
