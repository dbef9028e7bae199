"""The profile of pairs on finitely many outputs: a sum."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from cumulant.numerics.logspace import Array
from cumulant.numerics.rounding import ULP
from cumulant.pairs.finite_pair import LOSS_ROUNDING, SUM_ERROR, FinitePair
from cumulant.profiles.profile import NOTHING, PrivacyProfile

TERMS = 10**5  # of sums, at once


def finite_profile(pairs: Sequence[FinitePair]) -> PrivacyProfile:
    """Return δ(ε) = P(L = ∞) + Σ P(l) (1 - e^{ε-l})_+, the largest over the pairs.

    (2) of Balle, Barthe and Gaboardi (2018), the last expression. A loss is raised by its rounding error.

    Holds for:  mechanisms that the pairs dominate, each in its direction.
    Tightness:  exact for those that attain one.
    """
    pure = max((pair.supremum for pair in pairs), default=0.0) if all(pair.failure == 0 for pair in pairs) else math.inf

    def log_deltas(epsilons: Array) -> Array:
        return np.asarray(np.max([_log_deltas(pair, epsilons) for pair in pairs], axis=0))

    return PrivacyProfile.of(log_deltas, max(pure, 0.0)) if pairs else NOTHING


def _log_deltas(pair: FinitePair, epsilons: Array) -> Array:
    """Return log δ at many ε, raised by what plain sums of positive terms can lose."""
    losses, masses = pair.losses + np.abs(pair.losses) * LOSS_ROUNDING, np.exp(pair.log_masses)
    rows = max(1, TERMS // max(len(losses), 1))
    sums = [
        np.sum(masses * -np.expm1(-np.maximum(losses - epsilons[i : i + rows, None], 0.0)), axis=1)
        for i in range(0, len(epsilons), rows)
    ]
    delta = np.concatenate([*sums, np.empty(0)]) * (1 + len(losses) * ULP) + pair.failure
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(delta * (1 + SUM_ERROR)))
