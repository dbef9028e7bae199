"""What a secret order of batches hides under replace-one: a bound of the privacy profile of one shuffled epoch.

The notation: t batches of Gaussian noise σ, in clipping norms, m = t - 1, μ = 2/σ; X and Y are lognormal of mean 1 and
log-variance μ²; H_λ = E(X - λ)_+ is the profile of N(μ, 1) against N(0, 1) at λ = e^ε.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from cumulant.numerics.logspace import Array

Places = NDArray[np.int64]

LARGEST_SUM = 64  # steps that are added up; more of them are bounded by so many, or by their variance
ADDED = 2.0**-48  # to a sum of terms that cancel, relative to them
MANY = 200  # blocks of more of them
CELL = 1 / 32  # width of the lattice that steps are put on, in units of λ
DEEP = 4.0  # how far below 0 a step is followed, in units of λ: what is deeper is raised to there
SEEN = 1e-5  # of H_λ: what may lie above the highest point of the lattice, or 100/λ⁴ as much
HIGHER = 1.1  # factor between two places where that may be
MOST_POINTS = 2**18  # of a transform: beyond it fewer steps are added up
FFT_ROUNDING = 16 * 2.0**-52  # of a transform, relative to its 2-norm, for each doubling of its length


def shuffled_delta(sigma: float, steps: int, epsilon: float) -> float:
    """Return a bound of H_λ of one epoch of t batches, λ = e^ε >= 1, under replace-one.

        H_λ <= H_λ(μ)/t + (1 - 1/t) Σ_{k=1}^m [T(k/m) - T((k-1)/m)] Φ_k(λ),   T(u) = Φ(Φ⁻¹(u) + 1/σ),

    Φ_k of `mean_of_sums`. *Proof.* Put x in the first batch, all others at random; choose one record y_b in each other
    batch b, then b uniformly of all t, and exchange x and y_b: the order is uniform. Tell all but b; H_λ is jointly
    convex. If b = 1, one batch changes: H_λ(μ). Else the first batch holds y_b, whether the record is x or x', so its
    output o has one law under both, and what follows is a mixture with weights π_b = P(b | o) of the case that x
    takes the place of y_b in batch b. Against the case that it takes no place, step b has ratios X_b and Y_b for x and
    x': H_λ = E(Σ_b π_b (X_b - λY_b))_+. Sort π, π = Σ_k c_k (uniform on the k largest), c_k = k (π_(k) - π_(k+1)):
    convexity leaves Σ_k c_k Φ_k, if Φ_k bounds E(mean of the X_b - λY_b of any k steps)_+. And c_1 + … + c_k is at most
    the weight of the k largest, on average the chance to name b in a list of k: as y_b adds at most one clipping norm,
    m⁻¹ Σ_b T(u_b) <= T(k/m), with u_b how often b is on the list if nobody were added, Σ u_b = k (Neyman and Pearson;
    T is concave). Φ_k falls with k, so all of this adds up by parts.

    Holds for:  replace-one, a uniform order, t batches of one size that use the record, or drop it; Gaussian noise of
                any dimension, adaptive steps. λ < 1 by exchange of the two, as the relation is symmetric.
    Tightness:  not attained; above random allocation at noise σ/2, which is.
    """
    m = steps - 1
    few = mean_of_sums(2 / sigma, epsilon, min(m, LARGEST_SUM))
    ends = np.geomspace(len(few), m, MANY).astype(np.int64)
    blocks = np.unique(np.clip(np.append(ends, [len(few), m]), len(few), m))
    many = np.minimum(few[-1], mean_by_variance(2 / sigma, epsilon, blocks[:-1] + 1))  # of a block the first is largest
    listed = _power(np.concatenate([np.arange(len(few)), blocks]) / m, 1 / sigma)
    hidden = float(np.diff(listed) @ np.append(few, many))
    first = float(few[0])
    return min((first + m * hidden) / steps * (1 + 1e-12), first)


def _power(level: Array, mean: float) -> Array:
    from scipy.special import ndtr, ndtri

    return np.asarray(ndtr(ndtri(level) + mean))


def mean_by_variance(mean: float, epsilon: float, counts: Array) -> Array:
    """Return a bound of Φ_k(λ) from the variance of Z, of `mean_of_sums`: cruder, for any k.

    E(S)_+ = (E S + E|S|)/2 <= k/2 · (√((λ-1)² + Var Z/k) - (λ-1)).
    """
    lam = math.exp(epsilon)
    with np.errstate(over="ignore"):
        square = _square_call(mean, lam) + lam * lam * _square_call(mean, 1 / lam)
    spread = max(square - (lam - 1) ** 2, 0.0) * (1 + 1e-9) / counts
    return np.asarray(0.5 * spread / (np.sqrt((lam - 1) ** 2 + spread) + (lam - 1)) * (1 + 1e-9))


def _square_call(mean: float, strike: float) -> float:
    """Return E(X - K)_+² for X lognormal of mean 1 and log-variance μ², rounded up."""
    from scipy.special import ndtr

    a = math.log(strike) / mean
    first, second = ndtr(mean / 2 - a), ndtr(-mean / 2 - a)
    terms = np.exp(mean * mean) * ndtr(1.5 * mean - a), -2 * strike * first, strike * strike * second
    return float(sum(terms) + ADDED * sum(map(abs, terms)))


def mean_of_sums(mean: float, epsilon: float, most: int) -> Array:
    """Return upper bounds of Φ_k(λ) = E(Z_1 + … + Z_k)_+/k for k = 1, 2, …: what k steps hide together.

    Given the past, step b has X_b - λY_b with Var log X_b = |x-y_b|²/σ², Var log Y_b = |x'-y_b|²/σ², both at most
    D = μ², and a covariance for which |x-x'|² <= 4: some (s, t, ρ). For convex φ, E φ(X - λY) grows with s and t, falls
    with ρ, and grows if all three grow alike, d/dρ = E (X-λY)² φ''/2. So only (D, τ, τ/2) and (τ, D, τ/2) are left, and
    along them, for φ(z) = (z - c)_+,

        d/dτ = -λc/2 · E Y δ(X - λY - c)   and   d/dτ = c/2 · E X δ(X - λY - c):

    the supremum is at τ = 0 of the first for c >= 0, at τ = 0 of the second for c <= 0:

        π(c) = E(X - λ - c)_+ for c >= 0,   E(1 - λY - c)_+ for c <= 0.

    That is the stop-loss function of one law Z, of mean 1 - λ, which every step is below in the convex order, whatever
    was seen before. Taking the last step first, E(Σ (X_b - λY_b))_+ of any k steps is at most that of k independent Z.

    Z is put on a lattice by chords of π, which only widens it; cut at M, by E(ΣZ)_+ <= E(Σ min(Z, M))_+ + kπ(M); and
    raised to -L where it is lower. With g(w) = E(w + Z)_+ - w_+, E(S_k)_+ = g(0) + E g(S_1) + … + E g(S_{k-1}), each
    term by Parseval's identity from the transforms of Z and g. For w > 0 g falls: beyond M it is at most g(M), for
    which L is chosen; so it is left out there, and g(M)_+ is added. In the 2-norm transforms err by
    γ = FFT_ROUNDING·log₂ N relative to their length, so E g(S_j) by at most (2j + 2) γ |Z||g|, which is added.
    """
    lam = math.exp(epsilon)
    law = StepLaw.of(mean, lam)
    low, high = law.low, law.high
    most = max(min(most, MOST_POINTS // (low + high) - 1), 1)
    points = 1 << math.ceil(math.log2((most + 1) * (low + high)))
    z, g = np.zeros(points), np.zeros(points)
    z[np.arange(-low, high + 1) % points] = law.masses()
    w: Places = np.arange(-most * low, high + 1)
    gains = law.gains(w)
    g[w % points] = gains
    transform, other = np.fft.rfft(z).conj(), np.fft.rfft(g)
    other[1:-1] *= 2  # conjugates
    rounding = FFT_ROUNDING * math.log2(points) * float(np.linalg.norm(z)) * float(np.linalg.norm(gains))
    beyond = max(float(gains[-1]), 0.0)
    terms = [float(gains[most * low])]  # g(0)
    for j in range(1, most):
        other = other * transform
        terms.append(float(np.sum(other.real)) / points + (2 * j + 2) * rounding + beyond)
    k = np.arange(1, most + 1)
    means = np.cumsum(terms) / k + law.above
    means[0] = law.first
    return np.minimum.accumulate(means) * (1 + 1e-12)  # Φ_k falls


@final
@dataclass(frozen=True, slots=True)
class StepLaw:
    """Z between -L and M on the lattice of width h = λ·CELL: L = low·h, M = high·h; `above` is π(M), `first` π(0)."""

    mean: float
    lam: float
    low: int
    high: int
    above: float
    first: float

    @classmethod
    def of(cls, mean: float, lam: float) -> StepLaw:
        first, highest = float(_call(mean, np.array(lam))), 1.0
        while (
            float(_call(mean, np.array(lam * (1 + highest)))) > SEEN * max(1.0, 10 / lam**2) * first
            and highest < MOST_POINTS * CELL / 4
        ):
            highest *= HIGHER
        high = math.ceil(highest / CELL)
        above = float(_call(mean, np.array(lam * (1 + high * CELL))))
        deep = DEEP
        while lam * float(_call(mean, np.array(1 / lam + deep))) > lam - 1 + above and deep < high * CELL:
            deep *= HIGHER  # until what is raised leaves a mean that is not positive
        return cls(mean, lam, math.ceil(deep / CELL), high, above * (1 + 1e-12), first)

    def stop_loss(self, places: Places) -> Array:
        """Return E(Z - jh)_+ of the law that is cut at M and raised to -L, for places j up to M."""
        c = np.maximum(places, -self.low) * (self.lam * CELL)
        up = _call(self.mean, self.lam + np.maximum(c, 0.0))
        ratio = (1 - np.minimum(c, 0.0)) / self.lam
        down = self.lam * (_call(self.mean, ratio) + ratio - 1)
        deeper = np.maximum(-self.low - places, 0) * (self.lam * CELL)
        return np.asarray(np.maximum(np.where(c >= 0, up, down) - self.above, 0.0) + deeper)

    def masses(self) -> Array:
        """Return the masses at -L, …, M: second differences of the stop-loss function."""
        values = self.stop_loss(np.arange(-self.low, self.high + 1))
        beyond = -np.diff(values) / (self.lam * CELL)  # P(Z > jh), on the lattice
        tails = np.concatenate([[1.0], np.clip(beyond, 0.0, 1.0), [0.0]])
        return np.maximum(-np.diff(tails), 0.0)

    def gains(self, places: Places) -> Array:
        """Return g(w) = E(w + Z)_+ - w_+ at w = jh."""
        h = self.lam * CELL
        held = np.where(-places > self.high, 0.0, self.stop_loss(np.minimum(-places, self.high)))
        return held - np.maximum(places, 0) * h


def _call(mean: float, strike: Array) -> Array:
    """Return E(X - K)_+ for X lognormal of mean 1 and log-variance μ²."""
    from scipy.special import ndtr

    a = np.log(strike) / mean
    return np.asarray(ndtr(mean / 2 - a) - strike * ndtr(-mean / 2 - a))
