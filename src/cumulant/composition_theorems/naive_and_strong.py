"""(ε, δ)-DP composed, or sampled, as it stands: naive and strong composition, and the subsampling lemma.

These theorems know nothing of a mechanism but its (ε, δ), so they are what a moments accountant is compared with
(Wang et al. 2019, Section 5 and Appendix A), and what is left when (ε, δ) is all that is known. The composition
theorems, here and in `optimal`, `unequal` and `calibrated`, hold for
mechanisms chosen adaptively, with the (ε, δ) of every round fixed beforehand, under either relation.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from cumulant.composition_theorems.rounds import Rounds, checked
from cumulant.numerics.rounding import ROUNDING, float_above
from cumulant.parameters import probability, real, require

LARGE = 600.0  # e^600 is still a float


def naive_composition(parts: Sequence[Rounds]) -> tuple[float, float]:
    """Return (Σ k_i ε_i, Σ k_i δ_i): Theorem 25, Dwork et al. (2006a).

    Holds for:  every adaptive composition.
    Tightness:  attained for δ = 0 at δ' = 0; otherwise never, as ε grows with k instead of √k.

    >>> naive_composition([Rounds(epsilon=0.5, delta=0.25, count=2), Rounds(epsilon=1.0)])
    (2.0, 0.5)
    """
    parts = checked(parts)
    epsilon = sum((part.count * Fraction(part.epsilon) for part in parts), Fraction(0))
    delta = sum((part.count * Fraction(part.delta) for part in parts), Fraction(0))
    return float_above(epsilon), float_above(min(delta, Fraction(1)))


def strong_composition(rounds: Rounds, *, slack: float) -> tuple[float, float]:
    """Return (ε √(2k log 1/δ*) + k ε (e^ε - 1),  kδ + δ*): Dwork, Rothblum and Vadhan (2010), Theorem III.3.

    where k = rounds.count and δ* = slack. Theorem 26 of Wang et al. (2019) prints 2kε² for the second term and
    asks for ε <= 1; there e^ε - 1 <= 2ε, so the original is never worse, and it needs no such condition.

    Holds for:  every k-fold adaptive composition; every ε >= 0, δ* in (0, 1].
    Tightness:  right order in k for small ε, never attained; see `optimal`.
    """
    (rounds,) = checked([rounds])
    slack = probability("slack", slack)
    require(slack > 0, "slack must be > 0", slack)
    e, k = rounds.epsilon, rounds.count
    drift = k * e * math.expm1(e) if e < LARGE else math.inf
    epsilon = e * math.sqrt(-2.0 * k * math.log(slack)) + drift
    delta = min(Fraction(1), k * Fraction(rounds.delta) + Fraction(slack))
    # Safe side: rounded up, past an underflow too.
    return math.nextafter(epsilon * (1 + ROUNDING), math.inf) if e * k > 0 else 0.0, float_above(delta)


def subsampling_lemma(*, rate: float, epsilon: float, delta: float = 0.0) -> tuple[float, float]:
    """Return (log(1 + γ(e^ε - 1)), γδ): Lemma 3 of Wang et al. (2019), after Ullman (2017).

    where γ = rate. An infinite ε, which is what a curve returns where it promises nothing, stays infinite.

    Holds for:  a random subset of a fixed share γ under replace-one, Poisson sampling under add-or-remove-one
                (Balle, Barthe and Gaboardi 2018, Theorems 8 and 9).
    Tightness:  attained, if (ε, δ) at this one point is all that is known of the mechanism.

    >>> epsilon, delta = subsampling_lemma(rate=0.01, epsilon=1.0, delta=1e-6)
    >>> round(epsilon, 6), round(delta, 12)
    (0.017037, 1e-08)
    """
    rate, delta = probability("rate", rate), probability("delta", delta)
    e = real("epsilon", epsilon, "must be a number >= 0 (inf: no promise)", lambda number: number >= 0)
    if rate == 0:
        return 0.0, 0.0
    if e < LARGE:
        amplified = math.nextafter(math.log1p(rate * math.expm1(e)) * (1 + ROUNDING), math.inf)
    else:  # e^ε would overflow; log(γ + (1-γ)e^{-ε}) <= 0
        amplified = e + math.log(rate + (1 - rate) * math.exp(-e)) + ROUNDING * e
    return min(e, amplified), float_above(Fraction(rate) * Fraction(delta))  # safe side: rounded up
