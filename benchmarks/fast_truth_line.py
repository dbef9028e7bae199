"""δ of composed laws by the inversion integral, in doubles: a few milliseconds, and an error that is shown, not proven.

    δ(ε) = (1/2πi) ∫ e^{K(z) - zε} / (z(z+1)) dz over Re z = θ,   K(z) = Σ n_i log E e^{zL_i}.

The tilt, the nodes and the step are chosen here; the same sum with half the steps says how far it is to be believed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import final

import numpy as np
from numpy.typing import NDArray

from benchmarks.fast_truth_laws import AnyLaw, Law, Mixtures, Normal, log_of

Array = NDArray[np.float64]
Complex = NDArray[np.complex128]
LEGENDRE = np.polynomial.legendre.leggauss(16)

LEAST_ERROR = 1e-9  # relative, of δ: nothing closer to the truth is called below it
AGREEMENT = 1e-10  # of two step lengths
GIVEN_UP = 1e-6  # error from which there is no answer
REACH = 10.0  # standard deviations
LARGEST = 600.0  # exponents beyond it would overflow
MOST_WORK = 3_000_000  # nodes times frequencies of one sum
MOST_NODES = 20_000
CANCELLED = 1e-3
BLOCK = 64
TILTS = [2.0 ** (k / 2) for k in range(-30, 31)]


class Beyond(Exception):
    """The integral does not converge in the time that is given to it."""


@final
@dataclass(frozen=True, slots=True)
class Estimate:
    """The logarithm of δ and a relative error of δ that two computations agree to."""

    log_value: float
    error: float


@final
@dataclass(frozen=True, slots=True)
class Nodes:
    """Losses ℓ = log dA/dQ with masses of Q, and whether (Q, A) is meant: E_P e^{zL} = E_Q e^{aℓ}, a = z+1 or -z.

    M - 1 = E_Q (e^{aℓ} - 1) is summed, so that a small loss keeps its digits.
    """

    losses: Array
    masses: Array
    joins: bool
    smooth: bool = True

    @property
    def size(self) -> int:
        return len(self.losses)

    def at(self, theta: float) -> tuple[float, Array]:
        """Return M(θ) - 1 and the tilted masses."""
        a = -theta if self.joins else theta + 1
        exponents = a * self.losses
        if float(np.max(exponents)) > LARGEST:
            raise Beyond
        return float(self.masses @ np.expm1(exponents)), self.masses * np.exp(exponents)

    def line(self, theta: float, first: float, eta: float) -> Complex:
        """Return K at θ + i(first + jη) for the j of a block; e^{i(a+b)} - 1 = A + B + AB for A = e^{ia} - 1."""
        excess, tilted = self.at(theta)
        turning = -self.losses if self.joins else self.losses
        start = np.expm1(1j * first * turning)
        steps = np.zeros((BLOCK, self.size), dtype=complex)
        steps[1] = np.expm1(1j * eta * turning)
        known = 2
        while known < BLOCK:
            jump = steps[known - 1] + steps[1] + steps[known - 1] * steps[1]
            steps[known : 2 * known] = steps[:known] + jump + steps[:known] * jump
            known *= 2
        return _log1p(excess + tilted @ start + steps @ (tilted * (1 + start)))

    def log_moment(self, theta: float) -> float:
        return math.log1p(self.at(theta)[0])


@final
@dataclass(frozen=True, slots=True)
class Atoms:
    """Finitely many outputs: losses, and logarithms of masses of P where both are positive."""

    losses: Array
    log_masses: Array
    smooth = False

    @property
    def size(self) -> int:
        return len(self.losses)

    def line(self, theta: float, first: float, eta: float) -> Complex:
        z = theta + 1j * (first + eta * np.arange(BLOCK))
        exponents = z[:, None] * self.losses + self.log_masses
        peak = float(np.max(exponents.real))
        return np.asarray(peak + np.log(np.sum(np.exp(exponents - peak), axis=1)))

    def log_moment(self, theta: float) -> float:
        exponents = theta * self.losses + self.log_masses
        peak = float(np.max(exponents))
        return peak + math.log(float(np.sum(np.exp(exponents - peak))))


@final
@dataclass(frozen=True, slots=True)
class Gauss:
    """K(z) = μ²z(z+1)/2."""

    square: float
    size = 1
    smooth = True

    def line(self, theta: float, first: float, eta: float) -> Complex:
        z = theta + 1j * (first + eta * np.arange(BLOCK))
        return np.asarray(self.square * z * (z + 1) / 2)

    def log_moment(self, theta: float) -> float:
        return self.square * theta * (theta + 1) / 2


Transform = Nodes | Atoms | Gauss
Counted = Sequence[tuple[AnyLaw, int]]


def estimated(parts: Counted, epsilon: float) -> Estimate:
    """Return δ(ε) of the finite losses of a run, or raise `Beyond`.

    The sum is Σ_k e^{θkW} δ(ε + kW), W = 2π/η: with k < 0 it adds less than e^{-θW}, which is made nothing beside δ.
    Steps are compared that have no multiple in common, or both might see the same neighbour of ε.
    """
    with np.errstate(all="ignore"):
        theta, spread, height = _tilt(parts, epsilon)
        eta = 2 * math.pi / max(24 * spread, (35 - height) / theta)
        last = _sum(parts, epsilon, theta, eta, 1.0)
        for finer in (1.37, 1.91, 2.83):
            value = _sum(parts, epsilon, theta, eta / finer, 0.8 + 0.2 * finer)
            difference = abs(math.expm1(min(abs(value - last), 1.0)))
            if difference < AGREEMENT and -theta * 2 * math.pi / eta < value - 25:
                rounding = 2e-15 * math.fsum(n * _roughness(law, theta) for law, n in parts)
                if max(difference, rounding) > GIVEN_UP:
                    raise Beyond
                return Estimate(value, max(LEAST_ERROR, 2 * difference, rounding))
            last = value
    raise Beyond


def _roughness(law: AnyLaw, theta: float) -> float:
    """Return the size of what is rounded in K of one release, in units of the rounding of 1."""
    one = transform(law, theta, 0.0, 1.0)
    if not isinstance(one, Nodes):
        return abs(one.log_moment(theta)) + (1.0 if isinstance(one, Atoms) else 0.0)
    excess, tilted = one.at(theta)
    return abs(excess) + (theta + 1) * float(tilted @ np.abs(one.losses))


def _sum(parts: Counted, epsilon: float, theta: float, eta: float, fineness: float) -> float:
    """Return the logarithm of the trapezoidal sum, up to where its terms have vanished."""
    k_theta = math.fsum(n * transform(law, theta, 0.0, fineness).log_moment(theta) for law, n in parts)
    peak, total, absolute, work, j, reach = k_theta - theta * epsilon, 0.0, 0.0, 0, 0, 0
    transforms: list[tuple[Transform, int]] = []
    while True:
        if j >= reach:  # higher frequencies take finer nodes
            reach = max(2 * reach, 2 * BLOCK)
            transforms = [(transform(law, theta, eta * reach, fineness), n) for law, n in parts]
        terms, bounds = _terms(transforms, theta, eta * j, eta, epsilon=epsilon, peak=peak)
        total += float(np.sum(terms.real)) - (float(terms[0].real) / 2 if j == 0 else 0.0)
        absolute += float(np.sum(np.abs(terms)))
        work += BLOCK * sum(one.size for one, _ in transforms)
        j += BLOCK
        if not math.isfinite(total) or work > MOST_WORK:
            raise Beyond
        if float(np.max(bounds[-BLOCK // 2 :])) < 1e-14 * abs(total):
            break
    if total < CANCELLED * absolute:  # digits are lost: the line is far from the saddle
        raise Beyond
    if not total > 0 or _beyond_the_end(parts, theta, eta * j, epsilon=epsilon, peak=peak) > 1e-13 * total:
        raise Beyond
    return peak + math.log(total * eta / math.pi)


def _terms(
    transforms: Sequence[tuple[Transform, int]], theta: float, first: float, eta: float, *, epsilon: float, peak: float
) -> tuple[Complex, Array]:
    """Return F(z)/e^peak at a block of nodes, and bounds of it in which laws with atoms do not fall.

    Those come back where their waves meet again, for so short a while that it could be missed.
    """
    z = theta + 1j * (first + eta * np.arange(BLOCK))
    exponent = -z * epsilon - peak
    size = np.full(BLOCK, -theta * epsilon - peak)
    for one, n in transforms:
        k = n * one.line(theta, first, eta)
        exponent = exponent + k
        size = size + (k.real if one.smooth else n * one.log_moment(theta))
    payoff = z * (z + 1)
    return np.asarray(np.exp(exponent) / payoff), np.asarray(np.exp(size) / np.abs(payoff))


def _beyond_the_end(parts: Counted, theta: float, end: float, *, epsilon: float, peak: float) -> float:
    """Return the largest bound between the end of the line and four times as far."""
    transforms = [(transform(law, theta, 4 * end, 1.0), n) for law, n in parts]
    return float(np.max(_terms(transforms, theta, end, 3 * end / BLOCK, epsilon=epsilon, peak=peak)[1]))


def _tilt(parts: Counted, epsilon: float) -> tuple[float, float, float]:
    """Return about the θ that minimises K(θ) - θε - log θ(θ+1), the standard deviation there, and the minimum."""
    best, least = 0.0, math.inf
    for theta in TILTS:
        value = _height(parts, theta, epsilon)
        if value < least:
            best, least = theta, value
        elif value > least + 3 or math.isinf(value):
            break
    if not math.isfinite(least):
        raise Beyond
    for factor in (2**0.25, 2**0.125):
        for theta in (best * factor, best / factor):
            if (value := _height(parts, theta, epsilon)) < least:
                best, least = theta, value
    h = best / 8
    bend = (_height(parts, best - h, epsilon) - 2 * least + _height(parts, best + h, epsilon)) / (h * h)
    return best, math.sqrt(max(bend, 1 / best**2)) if math.isfinite(bend) else 4 / best, least


def _height(parts: Counted, theta: float, epsilon: float) -> float:
    try:
        k = math.fsum(n * transform(law, theta, 0.0, 0.5).log_moment(theta) for law, n in parts)
    except (Beyond, OverflowError, ValueError):
        return math.inf
    value = k - theta * epsilon - math.log(theta) - math.log1p(theta)
    return value if math.isfinite(value) else math.inf


# Nodes ----------------------------------------------------------------------------------------------------------------


def transform(law: AnyLaw, theta: float, omega: float, fineness: float) -> Transform:
    """Return nodes that hold the law up to the tilt θ and the frequency ω."""
    if isinstance(law, Mixtures):
        return _mixture_nodes(law, theta, omega, fineness)
    if law.finite:
        return _atoms(law)
    if isinstance(law.base, Normal):
        if law.rate == 1:
            return Gauss(float(law.base.square))
        return _normal_nodes(law, theta, omega, fineness)
    return _laplace_nodes(law, theta, omega, fineness)


@lru_cache(maxsize=64)
def _atoms(law: Law) -> Atoms:
    pairs = [(a, b) for a, b in law.masses() if not (a.is_zero() or b.is_zero())]
    losses = np.array([float((a / b).log().mid()) for a, b in pairs])
    return Atoms(losses, np.array([float(a.log().mid()) for a, _ in pairs]))


def _normal_nodes(law: Law, theta: float, omega: float, fineness: float) -> Nodes:
    mu = math.sqrt(float(law.base.square))  # type: ignore[union-attr]
    x, masses = _normal_grid(mu, -REACH, REACH + mu * (1 if law.joins else theta + 1), omega, fineness)
    return Nodes(_log_mixture(x, [(mu, log_of(law.rate)), (0.0, log_of(1 - law.rate))]), masses, law.joins)


def _mixture_nodes(law: Mixtures, theta: float, omega: float, fineness: float) -> Nodes:
    mu = math.sqrt(float(law.square))
    p, q = ([(j * mu, log_of(w)) for j, w in mixture if w] for mixture in (law.weights, law.others))
    apart = max(m for m, _ in p) - min(m for m, _ in q)
    low = -REACH + min(m for m, _ in p + q)
    top = REACH + max(m for m, _ in p) + (0.0 if law.joins else theta * apart)
    x, masses = _normal_grid(mu, low, top, omega * apart / mu, fineness)
    below = _log_mixture(x, q)
    return Nodes(_log_mixture(x, p) - below, masses * np.exp(below), law.joins)


def _normal_grid(mu: float, low: float, top: float, omega: float, fineness: float) -> tuple[Array, Array]:
    """Return the trapezoidal rule for N(0, 1), as fine as waves e^{iωℓ} and bends of the mixture ask for."""
    h = min(0.4, 0.6 / mu, 2 * math.pi / (omega * mu + 12)) / fineness
    if (top - low) / h > MOST_NODES:
        raise Beyond
    x = np.asarray(h * np.arange(math.floor(low / h), math.ceil(top / h) + 1), dtype=np.float64)
    return x, h * np.exp(-x * x / 2) / math.sqrt(2 * math.pi)


def _laplace_nodes(law: Law, theta: float, omega: float, fineness: float) -> Nodes:
    """Return the law of the loss of Laplace noise: atoms at its ends, e^{-(t+θ)/2}/4 under Q between them."""
    width, rate = float(law.base.theta), float(law.rate)  # type: ignore[union-attr]
    panels = math.ceil((1 + width * (theta + 1 + omega) / 4) * fineness)
    if panels * len(LEGENDRE[0]) > MOST_NODES or width > LARGEST:
        raise Beyond
    edges = np.linspace(-width, width, panels + 1)
    half = (edges[1:] - edges[:-1]) / 2
    t = ((edges[1:] + edges[:-1]) / 2)[:, None] + half[:, None] * LEGENDRE[0]
    masses = (half[:, None] * LEGENDRE[1] * np.exp((-t - width) / 2) / 4).ravel()
    losses = np.log1p(rate * np.expm1(np.concatenate([t.ravel(), [width, -width]])))
    return Nodes(losses, np.concatenate([masses, [math.exp(-width) / 2, 0.5]]), law.joins, smooth=False)


def _log1p(x: Complex) -> Complex:
    """Return log(1 + x) with the digits of x; numpy's takes the logarithm of a rounded |1 + x|."""
    near = np.abs(x) < 1.0
    small = np.where(near, x, 0.0)
    modulus = np.where(near, np.log1p(small.real * (2 + small.real) + small.imag**2) / 2, np.log(np.abs(1 + x)))
    return np.asarray(modulus + 1j * np.arctan2(x.imag, 1 + x.real))


def _log_mixture(x: Array, parts: Sequence[tuple[float, float]]) -> Array:
    """Return the logarithm of a mixture of N(m, 1) over N(0, 1); where it is near 0, with all its digits."""
    exponents = [m * (x - m / 2) for m, _ in parts]
    far = np.logaddexp.reduce([log_weight + e for e, (_, log_weight) in zip(exponents, parts, strict=True)])
    tame = np.max(exponents, axis=0) < 30.0
    excess = np.zeros(x.shape)
    for e, (_, log_weight) in zip(exponents, parts, strict=True):
        excess += math.exp(log_weight) * np.expm1(np.where(tame, e, 0.0))  # the weights add up to 1
    near = tame & (excess > -0.5)
    return np.asarray(np.where(near, np.log1p(np.where(near, excess, 0.0)), far))
