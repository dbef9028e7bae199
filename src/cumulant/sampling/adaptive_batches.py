"""Many Gaussian batches without replacement under replace-one, chosen adaptively: the recursion over triples."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import final

import numpy as np
from numpy.typing import NDArray

from cumulant.curves.best_order import epsilon_from_cgf
from cumulant.curves.curve import Curve, total
from cumulant.mechanisms.gaussian import Gaussian
from cumulant.numerics.logspace import Array
from cumulant.numerics.rounding import HALF_ULP
from cumulant.profiles.profile import PrivacyProfile
from cumulant.sampling.mixture import envelope_curve
from cumulant.sampling.triple_cells import Step, lattice_places, steps_of, triple_profile

THEOREM = "adaptive Gaussian batches without replacement, by recursion over triples (Kahane's comparison)"

POINTS = 2**14  # of the lattice, both margins included: a power of 2
LEAST_LOG_DELTA = math.log(1e-16)  # down to which δ the window reaches, by Rényi DP
LOG_DELTA_ABOVE = math.log(1e-4)  # as far as ε at this δ it reaches up: what is beyond counts as told
UNSEEN = 1e-18  # H_x from which on losses of a step count as infinite
TILT = 20.0  # nats by which one end of the window is weighed up, as V falls about as much
FINEST = 0.5  # of a step's standard deviation: a coarser lattice would add a tenth to the variance, and more
LARGEST_VARIANCE = 100.0  # D, up to which the recursion is tried
PAD_TILTS: Array = 2.0 ** (np.arange(-8, 41) / 4)  # λ of Rényi bounds below the window
FFT_ERROR = 16 * HALF_ULP * math.log2(POINTS)  # of one transform, relative in the 2-norm: twice Higham's constant
ELEMENTARY = 2.0**-45  # relative, of the few products and exponentials in a value


@final
@dataclass(frozen=True, slots=True)
class Lattice:
    """Losses kh, first <= k < first + count, of a window that holds 0, with room for the farthest step either side."""

    step: float
    first: int
    count: int
    margin: int

    @property
    def tilt(self) -> float:
        """θ: values are kept as V(ℓ)e^{-θℓ}."""
        return TILT / (-self.first * self.step)

    def losses(self) -> Array:
        """Return the losses of the window with its margins."""
        return self.step * np.arange(self.first - self.margin, self.first + self.count + self.margin, dtype=float)


@lru_cache(maxsize=32)
def adaptive_profile(noise_multiplier: float, rate: float, steps: int) -> PrivacyProfile | None:
    """Return δ(ε) of adaptive batches, both orders of the neighbours; None where the lattice would be too coarse.

    W_T(x) = (x - 1)_+ and W_j(x) = max over triples of E_q W_{j+1}(xp/q) are convex, and e^ε W_0(e^{-ε}) is the largest
    H_{e^ε} that T batches attain, each query being chosen by what was released before: induction from the last batch
    on, the batches that do not have the record being revealed. E_q W(xp/q) grows if the pair is replaced by one that
    dominates it. So with V(ℓ) = W(e^ℓ)e^{-ℓ}, which is at most 1 and at most what Rényi DP says,

        V_j(kh) <= max_i Σ_m P_i(mh) V_{j+1}((k+m)h) + P_i(∞),

    over the finitely many pairs of `triple_cells.steps_of`, whose losses lie on the lattice, so that nothing is
    interpolated. One recursion has all ε. Between lattice points the chord in e^ℓ is above W_0.

    Holds for:  replace-one, batches of a fixed size drawn anew, isotropic Gaussian noise, any dimension, queries chosen
                adaptively. Everything is an upper bound: the pairs, what is outside the window (1 above it, Rényi DP
                below), the transforms' rounding (Higham 2002, Theorem 24.2) and that of products.
    Tightness:  the recursion is exact for generic queries in two dimensions or more, but for the widths of stretches
                and of the lattice; clipped sums may attain less.
    """
    lattice = _lattice(noise_multiplier, rate, steps)
    if lattice is None:
        return None
    farthest = lattice.margin * lattice.step * (1 - 1e-12)
    pairs = steps_of(rate=rate, variance=_variance(noise_multiplier), step=lattice.step, farthest=farthest)
    curve = total([(_envelope(noise_multiplier, rate), steps)])
    return _as_profile(lattice, worst_values(lattice, pairs, steps, curve))


def _variance(noise_multiplier: float) -> float:
    return 1 / noise_multiplier / noise_multiplier * (1 + 4 * HALF_ULP)


def _envelope(noise_multiplier: float, rate: float) -> Curve:
    return envelope_curve(Gaussian(noise_multiplier=noise_multiplier)._known(), rate)


def _lattice(noise_multiplier: float, rate: float, steps: int) -> Lattice | None:
    """Return a window that reaches as far as δ can see, and margins as far as the losses of a step."""
    variance = _variance(noise_multiplier)
    if variance > LARGEST_VARIANCE:
        return None
    curve = total([(_envelope(noise_multiplier, rate), steps)])
    low, high = (epsilon_from_cgf(curve, log_delta)[0] for log_delta in (LEAST_LOG_DELTA, LOG_DELTA_ABOVE))
    margin = _farthest(rate, variance)
    step = (low + high + 2 * margin) / (POINTS - 8)
    if not 0 < step <= FINEST * rate * math.sqrt(math.expm1(variance)):
        return None
    places = lattice_places(step, margin)[-1]
    first = math.ceil(low / step)
    count = POINTS - 2 * places
    return Lattice(step, -first, count, places) if count > first + 1 else None


def _farthest(rate: float, variance: float) -> float:
    """Return a loss beyond which H_x is next to nothing."""
    losses = np.linspace(0.0, variance / 2 + 9 * math.sqrt(variance) + 1, 512)
    found = triple_profile(losses, rate=rate, s=variance, t=0.0, rho=0.0)
    return float(losses[min(int(np.argmax(found <= UNSEEN)) or len(losses) - 1, len(losses) - 1)])


def worst_values(lattice: Lattice, pairs: Sequence[Step], steps: int, curve: Curve) -> Array:
    """Return V_0 on the window, above the truth: `steps` times the largest of what the pairs make of V.

    Values are kept times e^{-θℓ}, which changes neither their order nor, with masses times e^{θmh}, the sums. Each sum
    is off by at most (2e + 4u)|a||b| + e|a|‖b‖₁ <= 4e|a|‖b‖₁ for vectors a, b and an error e of a transform.
    """
    losses, tilt, inside = lattice.losses(), lattice.tilt, slice(lattice.margin, lattice.margin + lattice.count)
    transforms, sums = _transforms(lattice, pairs)
    with np.errstate(over="ignore"):
        most = np.exp(-tilt * losses) * (1 + ELEMENTARY)  # V <= 1
    revealed = np.max([pair.revealed for pair in pairs]) * most[inside]
    values = np.where(losses > 0, -np.expm1(-losses) * most, 0.0)
    below = _renyi_bounds(losses[: lattice.margin], tilt, curve)
    values[: lattice.margin] = np.minimum(below, most[: lattice.margin])
    values[inside.stop :] = most[inside.stop :]
    for _ in range(steps):
        transformed = np.fft.rfft(values, POINTS)
        best = np.max([np.fft.irfft(one * transformed, POINTS)[inside] for one in transforms], axis=0)
        error = 4 * FFT_ERROR * float(np.linalg.norm(values)) * sums
        values[inside] = np.minimum((best + error + revealed) * (1 + ELEMENTARY), most[inside])
    found = np.minimum(values[inside] * np.exp(tilt * losses[inside]) * (1 + ELEMENTARY), 1.0)
    return np.minimum.accumulate(found[::-1])[::-1]  # V does not decrease


def _transforms(lattice: Lattice, pairs: Sequence[Step]) -> tuple[list[NDArray[np.complex128]], float]:
    """Return the transforms of tilted masses, each at its loss's negative, and the largest of their sums."""
    found, most = [], 0.0
    for pair in pairs:
        row = np.zeros(POINTS)
        places = np.array(pair.places)
        row[-places % POINTS] = np.array(pair.masses) * np.exp(lattice.tilt * lattice.step * places) * (1 + ELEMENTARY)
        found.append(np.fft.rfft(row))
        most = max(most, float(np.sum(row)))
    return found, most * (1 + ELEMENTARY)


def _renyi_bounds(losses: Array, tilt: float, curve: Curve) -> Array:
    """Return V(ℓ)e^{-θℓ} <= e^{K(λ)+(λ-θ)ℓ} at ℓ < 0, by the best of some λ: δ(ε) <= e^{K(λ)-λε}."""
    k = curve(PAD_TILTS)
    known = np.isfinite(k)
    exponents = k[known, None] + (PAD_TILTS[known, None] - tilt) * losses
    with np.errstate(over="ignore", under="ignore"):
        return np.asarray(np.exp(np.min(exponents, axis=0)) * (1 + ELEMENTARY) + 1e-300)


def _as_profile(lattice: Lattice, values: Array) -> PrivacyProfile:
    """Return δ(ε) = V(-ε), chords of W(x) = xV(log x) between lattice points; below the window it falls no more."""
    losses = lattice.losses()[lattice.margin : lattice.margin + lattice.count]

    def log_deltas(epsilons: Array) -> Array:
        at = np.maximum(-epsilons, losses[0])
        right = np.clip(np.searchsorted(losses, at), 1, len(losses) - 1)
        left = right - 1
        # W(e^ℓ)/e^ℓ: a chord's weight of the right point is (e^ℓ - e^a)/(e^b - e^a), and W there is e^{b-ℓ}V
        share = np.expm1(at - losses[left]) / np.expm1(losses[right] - losses[left])
        chords = (1 - share) * values[left] * np.exp(losses[left] - at)
        chords += share * values[right] * np.exp(losses[right] - at)
        return np.asarray(np.log(np.minimum(chords * (1 + ELEMENTARY), 1.0)))

    return replace(PrivacyProfile.of(log_deltas), theorem=THEOREM)
