"""The profile of pairs on finitely many outputs: a sum."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from cumulant.numerics.rounding import log_above
from cumulant.pairs.finite_pair import LOSS_ROUNDING, SUM_ERROR, FinitePair
from cumulant.profiles.profile import PrivacyProfile


def finite_profile(pairs: Sequence[FinitePair]) -> PrivacyProfile:
    """Return δ(ε) = P(L = ∞) + Σ P(l) (1 - e^{ε-l})_+, the largest over the pairs.

    (2) of Balle, Barthe and Gaboardi (2018), the last expression. A loss is raised by its rounding error.

    Holds for:  mechanisms that the pairs dominate, each in its direction.
    Tightness:  exact for those that attain one.
    """
    pure = max((pair.supremum for pair in pairs), default=0.0) if all(pair.failure == 0 for pair in pairs) else math.inf

    def log_delta(epsilon: float) -> float:
        return -math.inf if epsilon >= pure else max(_log_delta(pair, epsilon) for pair in pairs)

    return PrivacyProfile(log_delta, max(pure, 0.0))


def _log_delta(pair: FinitePair, epsilon: float) -> float:
    gaps = pair.losses + np.abs(pair.losses) * LOSS_ROUNDING - epsilon
    seen = gaps > 0
    delta = math.fsum((np.exp(pair.log_masses[seen]) * -np.expm1(-gaps[seen])).tolist()) + pair.failure
    return log_above(math.log(delta * (1 + SUM_ERROR))) if delta > 0 else -math.inf
