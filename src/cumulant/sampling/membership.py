"""Randomized membership, the mechanism for which the sampling theorems are equalities.

Balle, Barthe and Gaboardi (2018), Section 5: M_{v,p} tells whether record v is in its input, truthfully with
probability p. It shows that the bounds of `profiles.sampling` cannot be improved for all mechanisms at once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import final

from cumulant.numerics.rounding import ULP, log_above
from cumulant.parameters import probability, product_above, ratio_above, require, whole_number
from cumulant.profiles.multiplicity import Multiplicity
from cumulant.profiles.profile import PrivacyProfile


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class RandomizedMembership:
    """Answer "is v in the data?" truthfully with probability p.

    Erratum: ψ_p(ε) = (p - e^ε(1-p))_+ is the divergence for p >= ½ only. For p < ½ the answers swap their meaning,
    so p stands for max(p, 1-p) below.

    >>> RandomizedMembership(p=0.75).poisson(rate=0.5).delta(0.0)
    0.25...
    """

    p: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "p", probability("p", self.p))

    def profile(self) -> PrivacyProfile:
        """Return ψ_p, which is also every group's profile: v is in, or it is not."""
        return self.sampled(1.0)

    def group(self, size: int) -> PrivacyProfile:
        """Return the profile for datasets at distance <= size."""
        whole_number("size", size, at_least=1)
        return self.profile()

    def poisson(self, *, rate: float) -> PrivacyProfile:
        """Return the exact profile under Poisson sampling, add-or-remove-one."""
        return self.sampled(probability("rate", rate))

    def without_replacement(self, *, batch: int, population: int) -> PrivacyProfile:
        """Return the exact profile for m of n records, replace-one."""
        batch, population = whole_number("batch", batch), whole_number("population", population, at_least=1)
        require(batch <= population, f"batch must be at most the population of {population}", batch)
        return self.sampled(ratio_above(batch, population))

    def with_replacement(self, *, draws: int, population: int) -> PrivacyProfile:
        """Return the exact profile for m draws from n records, replace-one or (n >= 2) add-or-remove-one."""
        draws, population = whole_number("draws", draws), whole_number("population", population, at_least=1)
        return self.sampled(Multiplicity(draws, population).rate if draws else 0.0)

    def sampled(self, eta: float) -> PrivacyProfile:
        """Return the exact profile where v, if present, is sampled with probability η.

        Balle, Barthe and Gaboardi (2018), Lemma 12 and Theorem 13, from the two answers' probabilities: with v,
        "yes" has ηp + (1-η)(1-p), without it 1-p, so

            δ(ε') = (η(2p-1) - (e^{ε'} - 1)(1-p))_+ = η ψ_p(ε),   e^{ε'} = 1 + η(e^ε - 1).

        The lemma says η = sup TV between samples of neighbours, which is the chance to sample v in the three
        schemes above.

        Holds for:  neighbours of which only one contains v.
        Tightness:  exact.
        """
        p, eta = max(self.p, 1 - self.p), probability("eta", eta)
        gain = product_above(Fraction(eta), 2 * p - 1)  # exact differences: p >= ½
        pure = math.log1p(gain / (1 - p)) * (1 + 4 * ULP) if p < 1 else (math.inf if gain > 0 else 0.0)

        def log_delta(epsilon: float) -> float:
            if epsilon >= pure:
                return -math.inf
            if p == 1:
                return log_above(math.log(gain))
            paid = math.expm1(epsilon) * (1 - p)
            delta = gain - paid + 4 * ULP * gain  # up by the rounding of both, as paid <= gain
            return min(0.0, math.log(delta) + ULP) if delta > 0 else math.log(ULP * gain)

        return PrivacyProfile(log_delta, pure)
