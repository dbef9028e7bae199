"""E_Q w^-τ of a sampled Gaussian at real τ > 0: for a record that joins, and where far losses weigh nothing."""

from __future__ import annotations

import math

import numpy as np

from cumulant.numerics.logspace import Array
from cumulant.pairs.cut_law import log_half_erfc
from cumulant.pairs.jump_law import bound_negative_moments
from cumulant.pairs.normal_law import LOG_ROOT
from cumulant.pairs.sampled_gaussian import EXPONENT_AT_MOST, ROUNDING, SampledGaussian

NEGATIVE_NATS = 30.0  # below 1, and for each release, to which the rule goes
NEGATIVE_STRIPS = np.array([0.06, 0.12, 0.25, 0.5, 1.0])  # of the widest
WIDEST_NEGATIVE_STRIP, WIDEST_NEGATIVE_RADIANS = 5.0, 1.2  # d and μd
MOST_NEGATIVE_NODES = 1000  # of the rule


def log_negative_moments(law: SampledGaussian, tau: Array) -> Array:
    """Return a bound of log E_Q w^-τ at rising τ > 0; where few nodes do, it is next to what it bounds.

    It is the trapezoidal rule with step h of φ(w^-τ - 1 + τ(w-1)), as E_Q w = 1. On t ± id, μd < π/2, |w^-τ| is at most
    w(t-a)^-τ, a = κ/μ, κ = -log cos μd, because |w(t+id)| >= 1 - γ + γe^u cos μd. The integral of φ(t)w(t-a)^-τ over
    M(τ) = E_Q w^-τ is the mean of e^{-at-a²/2} under φw^-τ/M, which is more log-concave than φ: at most e^{-am} at its
    mean m = -τμE[p], and E[p] <= E_Q[p] <= min{1, γ/(1-γ)}, as p rises with t and w^-τ falls. So the rule is off by at
    most eM + e'(1 + 2τγ), e < ½,

        e = 2e^{d²/2 + κτ min{1, γ/(1-γ)}}/(e^{2πd/h} - 1),   e' = 2e^{d²/2}/(e^{2πd/h} - 1);

    before its nodes w^-τ is at most (1-γ)^-τ, beyond them the term is at most τγe^u: normal tails.

    Holds for:  Gaussian noise on Poisson samples; rounding is estimated as on every line in doubles.
    Tightness:  within e^-30 over the number of releases and a few roundings; else that of a second moment.
    """
    coarse, rule = bound_negative_moments(law.mean, law.rate, tau), _place_rule(law, float(tau[-1]))
    if rule is None:
        return coarse
    (first, last), step, strip = rule
    t = step * np.arange(math.floor(first / step), math.ceil(last / step) + 1.0)
    x = law.rate * np.expm1(law.mean * t - law.mean**2 / 2)
    masses = np.exp(math.log(step) - LOG_ROOT - t * t / 2)
    before, beyond = np.exp(log_half_erfc(np.array([-t[0], t[-1] - law.mean]) / math.sqrt(2.0))).tolist()
    off = 2 * math.exp(strip**2 / 2) / math.expm1(2 * math.pi * strip / step)
    with np.errstate(over="ignore", invalid="ignore"):  # what is no number says nothing
        powers, linear = np.expm1(np.multiply.outer(-tau, np.log1p(x))), np.multiply.outer(tau, x)
        rounded = 4 * ROUNDING * ((np.abs(powers) + np.abs(linear)) @ (masses * (4 + t * t / 2)))
        missed = before * np.exp(-tau * math.log1p(-law.rate)) + tau * law.rate * beyond
        share = off * np.exp(-tau * _bound_p(law) * math.log(math.cos(law.mean * strip)))
        total = (powers + linear) @ masses + rounded + missed + off * (1 + 2 * tau * law.rate)
        fine = (np.log1p(total) - np.log1p(-np.minimum(share, 0.5))) * (1 + 1e-12)
    return np.asarray(np.where(np.isfinite(fine) & (share < 0.5), np.minimum(coarse, fine), coarse))


def _bound_p(law: SampledGaussian) -> float:
    """Return at least E_Q[p]."""
    return min(1.0, law.rate / (1 - law.rate))


def _place_rule(law: SampledGaussian, most: float) -> tuple[tuple[float, float], float, float] | None:
    """Return between which places nodes lie for τ up to the largest, their step and d; None where they are many."""
    nats = NEGATIVE_NATS + math.log(law.count)
    d = NEGATIVE_STRIPS * min(WIDEST_NEGATIVE_STRIP, WIDEST_NEGATIVE_RADIANS / law.mean)
    needed = nats + d * d / 2 - most * _bound_p(law) * np.log(np.cos(law.mean * d))
    best = int(np.argmax(d / needed))
    step = float(2 * math.pi * d[best] / needed[best])
    reach = math.sqrt(2 * (nats + min(-most * math.log1p(-law.rate), EXPONENT_AT_MOST)))
    if not 2 * reach + law.mean < MOST_NEGATIVE_NODES * step:
        return None
    return (-reach, reach + law.mean), step, float(d[best])
