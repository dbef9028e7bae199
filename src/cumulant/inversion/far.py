"""Losses far beyond ε, counted without a line.

With χ_i as in `cumulant.pairs.cut_law`, X = Πχ_i over all releases and δ_X from E_P[X e^{zL}],

    δ(ε) = δ_X(ε) + P(1-X) - e^ε Q(1-X) + e^ε E_Q[(1-X)(1 - e^{L-ε})_+],

as (x)_+ = x + (-x)_+. The last term is at most e^ε Σ n_i E_Q[1-χ_i; L < ε], and L < ε only if L_i is at most ε less the
least that all others can lose, or are likely to: where χ_i is cut beyond that, far losses are counted exactly, and no
line follows them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import final

import numpy as np

from cumulant.inversion.composed import ComposedPairs
from cumulant.pairs.coordinate import CoordinatePair
from cumulant.pairs.jump_law import bound_leak, bound_negative_cgf, cut_far, cut_masses, has_jumps

SURE = 1.25  # times ε, beyond which losses count as larger than any ε that is asked of a line
UNLIKELY_NATS = 30.0  # what makes far losses up under Q may happen with a probability of e^-30·ε
LEVELS, MOST_LEVELS = 60, 1e3  # tilts at which that is bounded, over the least loss
LEAST_MADE_UP = 1e-280  # a loss so small that tilts for it are no doubles
DOUBT = 1e-12  # relative error of a normal law's tail, as far as e^-700


def cut_far_losses(losses: ComposedPairs, epsilon: float, tilt: float, log_share: float) -> ComposedPairs:
    """Return the same with losses cut off that δ cannot see, or that are surely larger than ε."""
    log_each, (sure, _) = log_share - math.log(losses.releases), sure_loss(losses, SURE * epsilon)

    def cut(pair: CoordinatePair) -> CoordinatePair:
        return cut_far(pair, tilt, log_each, sure, log_each - epsilon)  # e^ε times what leaks is in doubt

    return replace(losses, parts=tuple((cut(pair) if has_jumps(pair) else pair, n) for pair, n in losses.parts))


@final
@dataclass(frozen=True, slots=True, eq=False)
class Far:
    """What far cuts take off, E_P[(1 - Πχ_i)(1 - e^{ε-L})_+]: P(far) - e^ε Q(far), and e^ε E_Q[1 - Πχ_i; L < ε] more.

    Where a loss is beyond a cut that is larger than ε and all other losses can make up for, L > ε, and nothing is more.
    """

    log_near: float  # log Π (1-q_i)^{n_i}: no far loss under Q
    log_nearer: float  # log Π ((1-p_i)/(1-q_i))^{n_i}
    sizes: tuple[float, float]  # Σ n_i p_i and Σ n_i q_i, of which a few units are in doubt
    reach: float  # the largest ε for which the leak holds
    leak: float  # a bound of E_Q[1 - Πχ_i; L < ε]

    @staticmethod
    def of(losses: ComposedPairs, epsilon: float) -> Far:
        """Return far losses of what `cut_far_losses` cut for about this ε."""
        reach = SURE * epsilon
        cut, (sure, unlikely) = [(pair, n) for pair, n in losses.parts if has_jumps(pair)], sure_loss(losses, reach)
        masses = [(*cut_masses(pair), pair.sampling.rate, n) for pair, n in cut]
        return Far(
            math.fsum(n * math.log1p(-q) for q, _, _, n in masses),
            math.fsum(n * math.log1p((rate * q - more) / (1 - q)) for q, more, rate, n in masses),
            (math.fsum(n * (q + more) for q, more, _, n in masses), math.fsum(n * q for q, _, _, n in masses)),
            reach,
            math.fsum(
                n * (bound_leak(pair, sure) + unlikely * mass[0]) for (pair, n), mass in zip(cut, masses, strict=True)
            ),
        )

    def log_bounds(self, epsilon: float) -> tuple[float, float]:
        more, less = -math.exp(self.log_near) * math.expm1(self.log_nearer), -math.expm1(self.log_near)
        gain = more - math.expm1(epsilon) * less
        doubt = DOUBT * (self.sizes[0] + math.exp(epsilon) * self.sizes[1])
        leak = self.leak if epsilon <= self.reach else self.sizes[1] * (1 + 1e-9)
        low, high = gain - doubt, gain + doubt + math.exp(epsilon) * leak
        return math.log(low) if low > 0 else -math.inf, math.log(high) if high > 0 else -math.inf


def sure_loss(losses: ComposedPairs, epsilon: float) -> tuple[float, float]:
    """Return a loss that makes ε up whatever all others lose, but for what under Q happens with a probability.

    Others lose Σ log(1-γ_i) at least, and less than -r with a probability of at most e^{K(-τ) - τr}, for any τ > 0.
    """
    cut = [(pair, n) for pair, n in losses.parts if has_jumps(pair)]
    if losses.variance > 0 or len(cut) < len(losses.parts):
        return math.inf, 0.0  # other losses may be as low as they like
    least = -math.fsum(n * math.log1p(-pair.sampling.rate) for pair, n in cut) * (1 + 1e-12)
    if least < LEAST_MADE_UP:
        return epsilon + least, 0.0
    level = UNLIKELY_NATS - math.log(min(epsilon, 1.0))
    tau = np.geomspace(1.0, MOST_LEVELS, LEVELS) * level / least
    k = np.sum([n * bound_negative_cgf(pair, tau) for pair, n in cut], axis=0)
    likely = float(np.min((k + level) / tau)) * (1 + 1e-9)
    return (epsilon + likely, math.exp(-level)) if likely < least else (epsilon + least, 0.0)
