"""Independent references for exact answers: enumeration, quadrature in mpmath, and brackets on a lattice of losses.

Nothing here comes from the library. A bracket cuts the line of losses into cells [x_k, x_{k+1}) and knows what P and Q
put on each. Spreading a cell over its ends, so that both masses stay, dominates (Doroshenko et al. 2022); merging it
into one output is dominated, and so is rounding that output's loss down.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from typing import Any

import numpy as np
from mpmath import mp, mpf
from numpy.typing import NDArray
from scipy.special import ndtr

Real = Any
Array = NDArray[np.float64]

RULE = [(mpf(float(x)), mpf(float(w))) for x, w in zip(*np.polynomial.legendre.leggauss(20), strict=True)]


# Finitely many outputs ---------------------------------------------------------------------------------------------


def composed_delta(parts: Sequence[tuple[float, float, int]], epsilon: Real) -> Real:
    """Return δ of randomized responses (ε_i, failure δ_i, count n_i), summed over every number of lies.

    Kairouz, Oh and Viswanath (2017), Theorem 3.3; Murtagh and Vadhan (2018), Theorem 1.5, for unequal parts.
    """
    epsilon = mpf(epsilon)
    kept = mp.fprod((1 - mpf(d)) ** n for _, d, n in parts)
    total = mpf(0)
    for lies in product(*(range(n + 1) for _, _, n in parts)):
        loss = mp.fsum((n - 2 * lie) * mpf(e) for (e, _, n), lie in zip(parts, lies, strict=True))
        if loss > epsilon:
            mass = mp.fprod(
                mp.binomial(n, lie) * mp.exp((n - lie) * mpf(e)) / (1 + mp.exp(mpf(e))) ** n
                for (e, _, n), lie in zip(parts, lies, strict=True)
            )
            total += mass * -mp.expm1(epsilon - loss)
    return 1 - kept + kept * total


# One coordinate ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Loss:
    """A loss on a coordinate: density of P and loss at t, points between which both are smooth, atoms, δ(ε) of one."""

    density: Callable[[Real], Real]
    loss: Callable[[Real], Real]
    points: Callable[[Real], list[Real]]
    once: Callable[[Real], Real]
    atoms: tuple[tuple[Real, Real], ...] = ()

    def twice(self, epsilon: Real) -> Real:
        """Return δ of two releases: E δ(ε - L)."""
        epsilon = mpf(epsilon)
        line = mp.fsum(
            (b - a) / 2 * w * self.density(t) * self.once(epsilon - self.loss(t))
            for a, b in pairwise(self.points(epsilon))
            for w, t in ((w, (a + b) / 2 + (b - a) / 2 * x) for x, w in RULE)
        )
        return line + mp.fsum(mass * self.once(epsilon - loss) for loss, mass in self.atoms)


def normal_profile(mean: Real, a: Real) -> Real:
    """Return ∫ (N(μ) - a N(0))_+, as 1 - a where a <= 0."""
    if a <= 0:
        return 1 - a
    x = mp.log(a) / mean
    return (mp.erfc((x - mean / 2) / mp.sqrt(2)) - a * mp.erfc((x + mean / 2) / mp.sqrt(2))) / 2


def laplace_profile(theta: Real, a: Real) -> Real:
    """Return ∫ (Laplace(θ) - a Laplace(0))_+."""
    if a <= 0 or mp.log(a) <= -theta:
        return 1 - a
    return -mp.expm1((mp.log(a) - theta) / 2) if mp.log(a) < theta else mpf(0)


def leaving(profile: Callable[[Real], Real], rate: Real, epsilon: Real) -> Real:
    """Return δ of ((1-γ)Q + γP, Q) from that of (P, Q) at a = e^ε."""
    return rate * profile(1 + mp.expm1(epsilon) / rate)


def joining(profile: Callable[[Real], Real], rate: Real, epsilon: Real) -> Real:
    """Return δ of (Q, (1-γ)Q + γP) for a symmetric (P, Q): 1 - t + t·δ of the other order at 1/t."""
    return -mp.expm1(epsilon) + mp.exp(epsilon) * leaving(profile, rate, -epsilon)


def _normal_points(kink: Real | None = None) -> list[Real]:
    """Return panels of the line, finer and finer towards a point near which the integrand is not analytic."""
    near = set() if kink is None else {kink} | {kink + side * mpf(2) ** -j for j in range(12) for side in (-1, 1)}
    return sorted({mpf(j) / 2 for j in range(-20, 25)} | near)


def removed_gaussian(sigma: float, rate: float) -> Loss:
    mean, rate = 1 / mpf(sigma), mpf(rate)

    def ratio(t: Real) -> Real:
        return 1 - rate + rate * mp.exp(mean * t - mean**2 / 2)

    return Loss(
        density=lambda t: mp.npdf(t) * ratio(t),
        loss=lambda t: mp.log(ratio(t)),
        points=lambda epsilon: _normal_points(_where(mean, rate, mp.exp(epsilon) / (1 - rate))),
        once=lambda epsilon: leaving(lambda a: normal_profile(mean, a), rate, epsilon),
    )


def _where(mean: Real, rate: Real, ratio: Real) -> Real:
    """Return t at which 1 - γ + γe^{μt - μ²/2} is a ratio; the largest of the panels if it is never so small."""
    inner = (ratio - 1 + rate) / rate
    return mp.log(inner) / mean + mean / 2 if inner > 0 else mpf(12)


def added_gaussian(sigma: float, rate: float) -> Loss:
    mean, rate = 1 / mpf(sigma), mpf(rate)
    return Loss(
        density=mp.npdf,
        loss=lambda t: -mp.log(1 - rate + rate * mp.exp(mean * t - mean**2 / 2)),
        points=lambda epsilon: _normal_points(_where(mean, rate, mp.exp(-epsilon) / (1 - rate))),
        once=lambda epsilon: joining(lambda a: normal_profile(mean, a), rate, epsilon),
    )


def replaced_gaussian(sigma: float, rate: float) -> Loss:
    """Return (1-γ)N(0) + γN(1) against (1-γ)N(0) + γN(-1): the ratio grows with t, so δ is a difference of tails."""
    mean, rate = 1 / mpf(sigma), mpf(rate)

    def tail(t: Real, side: int) -> Real:
        return (1 - rate) * mp.erfc(t / mp.sqrt(2)) / 2 + rate * mp.erfc((t - side * mean) / mp.sqrt(2)) / 2

    def where(epsilon: Real) -> Real:
        """Return t with ratio e^ε: x/σ² = asinh(sinh(ε/2) e^{1/2σ²} (1-γ)/γ) + ε/2."""
        return (mp.asinh(mp.sinh(epsilon / 2) * mp.exp(mean**2 / 2) * (1 - rate) / rate) + epsilon / 2) / mean

    def once(epsilon: Real) -> Real:
        t = where(epsilon)
        return tail(t, 1) - mp.exp(epsilon) * tail(t, -1)

    def ratio(t: Real, side: int) -> Real:
        return 1 - rate + rate * mp.exp(side * mean * t - mean**2 / 2)

    return Loss(
        density=lambda t: mp.npdf(t) * ratio(t, 1),
        loss=lambda t: mp.log(ratio(t, 1) / ratio(t, -1)),
        points=lambda epsilon: _normal_points(where(epsilon)),  # near it ε - L changes sign, within about γ
        once=once,
    )


def grouped_gaussian(sigma: float, rate: float, size: int, *, joins: bool) -> Loss:
    """Return Σ_j Bin(k,γ)(j) N(j) against N(0), or the other way round."""
    mean, rate = 1 / mpf(sigma), mpf(rate)
    shares = [mp.binomial(size, j) * rate**j * (1 - rate) ** (size - j) for j in range(size + 1)]

    def ratio(t: Real) -> Real:
        return mp.fsum(b * mp.exp(j * mean * t - (j * mean) ** 2 / 2) for j, b in enumerate(shares))

    def where(goal: Real) -> Real:
        """Return t at which log Σ_{j>=1} is the goal: Newton's method on a convex, increasing function."""
        t = goal
        for _ in range(200):
            terms = [b * mp.exp(j * mean * t - (j * mean) ** 2 / 2) for j, b in enumerate(shares) if j]
            total = mp.fsum(terms)
            step = (mp.log(total) - goal) * total / mp.fsum(j * mean * term for j, term in enumerate(terms, start=1))
            t -= step
            if abs(step) < mpf(10) ** -20:
                return t
        raise ArithmeticError("no convergence")

    def leaves(epsilon: Real) -> Real:
        if epsilon <= mp.log(shares[0]):
            return -mp.expm1(epsilon)
        t = where(mp.log(mp.exp(epsilon) - shares[0]))
        above = mp.fsum(b * mp.erfc((t - j * mean) / mp.sqrt(2)) for j, b in enumerate(shares)) / 2
        return above - mp.exp(epsilon) * mp.erfc(t / mp.sqrt(2)) / 2

    def points(sign: int, epsilon: Real) -> list[Real]:
        """Refine where ε - L is the end of the loss's range, -log Bin(0) or its opposite."""
        inner = mp.exp(sign * epsilon) / shares[0] - shares[0]
        return _normal_points(where(mp.log(inner)) if inner > 0 else None)

    if joins:
        return Loss(
            density=mp.npdf,
            loss=lambda t: -mp.log(ratio(t)),
            points=lambda epsilon: points(-1, epsilon),
            once=lambda epsilon: -mp.expm1(epsilon) + mp.exp(epsilon) * leaves(-epsilon),
        )
    return Loss(
        density=lambda t: mp.npdf(t) * ratio(t),
        loss=lambda t: mp.log(ratio(t)),
        points=lambda epsilon: points(1, epsilon),
        once=leaves,
    )


def gaussian_envelope(sigma: float, rate: float) -> Loss:
    """Return the pair whose profile is that of leaving for ε >= 0 and of joining for ε < 0.

    With Q(r > t) = -H'(t): where the ratio is above 1 it is the first pair, where it is below 1 the second, and the
    rest of P is an atom at 0.
    """
    mean, rate = 1 / mpf(sigma), mpf(rate)
    out, into = removed_gaussian(sigma, rate), added_gaussian(sigma, rate)
    middle = mean / 2
    above = (1 - rate) * mp.erfc(middle / mp.sqrt(2)) / 2 + rate * mp.erfc(-middle / mp.sqrt(2)) / 2
    below = mp.erfc(middle / mp.sqrt(2)) / 2  # both orders have their ratio on this side of 1 where t > μ/2

    def density(u: Real) -> Real:  # u > 0: leaving at t = μ/2 + u; u < 0: joining at t = μ/2 - u
        return out.density(middle + u) if u > 0 else into.density(middle - u)

    def loss(u: Real) -> Real:
        return out.loss(middle + u) if u > 0 else into.loss(middle - u)

    def once(epsilon: Real) -> Real:
        return out.once(epsilon) if epsilon >= 0 else into.once(epsilon)

    def points(epsilon: Real) -> list[Real]:
        """Return where δ(ε - L(u)) changes its formula: L(u) = ε."""
        kink = (mp.log(1 + mp.expm1(epsilon) / rate) + mean**2 / 2) / mean - middle if epsilon > 0 else mpf(0)
        return sorted({mpf(j) for j in range(-12, 13)} | {kink})

    return Loss(density, loss, points, once, ((mpf(0), 1 - above - below),))


def laplace(scale: float, rate: float = 1.0, *, joins: bool = False) -> Loss:
    """Return Laplace noise, sampled: t = log dP/dQ of the noise has atoms at ±θ and density e^{-(t+θ)/2}/4 under Q."""
    theta, rate = 1 / mpf(scale), mpf(rate)

    def ratio(t: Real) -> Real:
        return 1 - rate + rate * mp.exp(t)

    def coordinate(loss: Real) -> Real:
        """Return t with L(t) = loss, or an end."""
        inner = 1 + mp.expm1(-loss if joins else loss) / rate
        return min(max(mp.log(inner), -theta), theta) if inner > 0 else -theta

    def loss(t: Real) -> Real:
        return -mp.log(ratio(t)) if joins else mp.log(ratio(t))

    def share(t: Real) -> Real:
        return mpf(1) if joins else ratio(t)

    ends = ((-theta, mpf(1) / 2), (theta, mp.exp(-theta) / 2))
    profile, sampled = (lambda a: laplace_profile(theta, a)), joining if joins else leaving

    def points(epsilon: Real) -> list[Real]:
        kinks = {coordinate(epsilon - loss(end)) for end, _ in ends}
        return sorted({-theta + theta * mpf(j) / 8 for j in range(17)} | kinks)

    return Loss(
        density=lambda t: mp.exp(-(t + theta) / 2) / 4 * share(t),
        loss=loss,
        points=points,
        once=lambda epsilon: sampled(profile, rate, epsilon),
        atoms=tuple((loss(t), mass * share(t)) for t, mass in ends),
    )


# Brackets ----------------------------------------------------------------------------------------------------------

Masses = Callable[[Array], tuple[Array, Array]]
"""Boundaries x_0 < … < x_n -> what P and Q put below x_0, between neighbours, and from x_n on."""


def _between(low_tails: Array, high_tails: Array) -> Array:
    """Return masses of cells from the lower and the upper tails at their boundaries, without cancellation."""
    inner = np.where(low_tails[1:] < 0.5, np.diff(low_tails), -np.diff(high_tails))
    return np.concatenate([low_tails[:1], inner, high_tails[-1:]])


def _normal(t: Array) -> Array:
    return _between(ndtr(t), ndtr(-t))


def removed_masses(sigma: float, rate: float) -> Masses:
    mean = 1 / sigma

    def masses(x: Array) -> tuple[Array, Array]:
        with np.errstate(invalid="ignore", divide="ignore"):
            inner = 1 + np.expm1(x) / rate
            t = np.where(inner > 0, np.log(np.maximum(inner, 1e-300)) / mean + mean / 2, -np.inf)
        q = _normal(t)
        return (1 - rate) * q + rate * _normal(t - mean), q

    return masses


def added_masses(sigma: float, rate: float) -> Masses:
    def masses(x: Array) -> tuple[Array, Array]:
        mixed, plain = removed_masses(sigma, rate)(-x[::-1])
        return plain[::-1], mixed[::-1]

    return masses


def replaced_masses(sigma: float, rate: float) -> Masses:
    mean = 1 / sigma

    def masses(x: Array) -> tuple[Array, Array]:
        t = (np.arcsinh(np.sinh(x / 2) * np.exp(mean**2 / 2) * (1 - rate) / rate) + x / 2) / mean
        shared = (1 - rate) * _normal(t)
        return shared + rate * _normal(t - mean), shared + rate * _normal(t + mean)

    return masses


def grouped_masses(sigma: float, rate: float, size: int) -> Masses:
    mean, j = 1 / sigma, np.arange(size + 1.0)
    log_shares = np.array(
        [float(mp.log(mp.binomial(size, i) * mpf(rate) ** i * (1 - mpf(rate)) ** (size - i))) for i in range(size + 1)]
    )

    def log_ratio(t: Array) -> Array:
        return np.asarray(np.logaddexp.reduce(log_shares + mean * t[:, None] * j - (j * mean) ** 2 / 2, axis=1))

    def masses(x: Array) -> tuple[Array, Array]:
        low, high = np.full(len(x), -60.0), np.full(len(x), 60.0)
        for _ in range(70):
            middle = (low + high) / 2
            below = log_ratio(middle) < x
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        t = np.where(x > log_shares[0], high, -np.inf)
        parts = [np.exp(b) * _normal(t - i * mean) for i, b in enumerate(log_shares)]
        return np.sum(parts, axis=0), _normal(t)

    return masses


def envelope_masses(sigma: float, rate: float) -> Masses:
    """Return the first pair above 0, the second below, and the rest in the cell that holds 0."""

    def masses(x: Array) -> tuple[Array, Array]:
        zero = int(np.searchsorted(x, 0.0))
        sides = zip(removed_masses(sigma, rate)(x), added_masses(sigma, rate)(x), strict=True)
        p, q = (np.concatenate([down[:zero], [0.0], up[zero + 1 :]]) for up, down in sides)
        p[zero], q[zero] = 1 - np.sum(p), 1 - np.sum(q)
        return p, q

    return masses


@dataclass(frozen=True)
class Bracket:
    """Losses on a lattice, composed by fast Fourier transform: δ from above and from below.

    Sums beyond the lattice wrap around: the caller takes `reach` so large that they are below 1e-12.
    """

    parts: Sequence[tuple[Masses, int]]
    width: float
    reach: float

    def above(self, epsilon: float) -> float:
        """Spread every cell over its two ends; what lies beyond the last boundary reveals everything."""
        laws, finite = [], 1.0
        for masses, count in self.parts:
            x, p, q = self._cells(masses)
            up = np.clip((p[1:-1] - q[1:-1] * np.exp(x[:-1])) / -np.expm1(-self.width), 0.0, p[1:-1])
            law = np.append(p[1:-1] - up, 0.0) + np.append(0.0, up)
            law[0] += p[0]
            laws.append((law, count))
            finite *= (1 - p[-1]) ** count
        start = self._boundaries()[0]
        return 1 - finite + self._expected(laws, start, epsilon)

    def below(self, epsilon: float) -> float:
        """Merge every cell into one output; its loss, near the middle of the cell, is rounded down to a lattice."""
        cells = [(*self._merged(masses), count) for masses, count in self.parts]
        offset = self._offset(cells)
        laws = []
        for p, inner, count in cells:
            fine = inner >= offset
            law = np.where(fine, p, 0.0) + np.append(np.where(fine, 0.0, p)[1:], 0.0)
            laws.append((np.append(law, 0.0), count))
        return self._expected(laws, self._boundaries()[0] + offset, epsilon)

    def _merged(self, masses: Masses) -> tuple[Array, Array]:
        """Return the masses of cells and by how much their loss is above the lower end; what is below is dropped."""
        x, p, q = self._cells(masses)
        p[-2] += p[-1]  # the last cell takes what lies beyond, at a loss that is not larger
        with np.errstate(divide="ignore", invalid="ignore"):
            inner = np.log(p[1:-1] / q[1:-1]) - x[:-1]
        inner[-1] = 0.0
        return p[1:-1], np.where(np.isfinite(inner), inner, 0.0)

    def _offset(self, cells: Sequence[tuple[Array, Array, int]]) -> float:
        """Return the offset of the lattice at which rounding down takes the least off."""

        def lost(offset: float) -> float:
            return sum(n * float(p @ (inner - offset + self.width * (inner < offset))) for p, inner, n in cells)

        return min((self.width * share for share in np.arange(0.3, 0.5, 0.002)), key=lost)

    def _boundaries(self) -> Array:
        half = int(self.reach / self.width)
        return np.asarray((np.arange(-half, half) + 0.5) * self.width)

    def _cells(self, masses: Masses) -> tuple[Array, Array, Array]:
        x = self._boundaries()
        p, q = masses(x)
        return x, p, q

    def _expected(self, laws: Sequence[tuple[Array, int]], start: float, epsilon: float) -> float:
        """Return E(1 - e^{ε-L})_+ of the sum; entry 0 of each law is a loss of `start`."""
        size = 1 << (len(laws[0][0]) - 1).bit_length()
        transform, releases = np.ones(size // 2 + 1, dtype=complex), 0
        for law, count in laws:
            shifted = np.roll(np.append(law, np.zeros(size - len(law))), -(len(law) // 2))
            transform = transform * np.fft.rfft(shifted) ** count
            releases += count
        middle = start + (len(laws[0][0]) // 2) * self.width  # the loss of entry 0 after the shift
        law = np.roll(np.fft.irfft(transform, size), size // 2)
        losses = middle * releases + (np.arange(size) - size // 2) * self.width
        return float(np.sum(law * -np.expm1(np.minimum(epsilon - losses, 0.0))))
