"""One (ε, δ) per round, chosen best and composed: the baseline of Wang et al. (2019), Section 5."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from cumulant.composition_theorems.optimal import optimal_epsilon_within
from cumulant.composition_theorems.rounds import MOST_EPSILON, Rounds
from cumulant.numerics.logspace import Array
from cumulant.numerics.rounding import ROUNDING
from cumulant.numerics.search import minimise_positive
from cumulant.parameters import log_of_delta, whole_number


def calibrated_composition(
    curve: Callable[[float], float], *, count: int, delta: float | None = None, log_delta: float | None = None
) -> tuple[float, float]:
    """Return (ε', δ~): the least ε' by optimal composition at δ', and the δ of one round that gives it.

    `curve` maps log δ~ of one round, -inf included, to an ε~ such that the round is (ε~, δ~)-DP; infinity where
    there is none. This is the baseline of Wang et al. (2019), Section 5, where ε~ comes from (2.2) and, for a
    sampled round, from `subsampling_lemma`. Every δ~ proves its ε', so the search decides tightness alone: octaves of
    the odds of δ~ within δ'/k, then ever finer parts of them around the best; δ~ = 0 and δ~ = δ'/k are tried too.

    Holds for:  whatever `curve` holds for; δ' >= 1e-300, below which floats run out of δ~.
    Tightness:  the best of one (ε, δ) per round; what keeps the whole curve is better.
    """
    count = whole_number("count", count, at_least=1)
    # Safe side: log δ' was rounded, by up to 700 units if δ' is 1e-300.
    total = math.exp(log_of_delta(delta=delta, log_delta=log_delta)) * (1 - 700 * ROUNDING)
    share = total / count * (1 - ROUNDING)

    def outcome(round_delta: float, relative: float = 1e-4) -> tuple[float, float]:
        log_round = math.log(round_delta) * (1 + ROUNDING) if round_delta else -math.inf  # safe side: less δ~
        epsilon = curve(log_round)
        if epsilon > MOST_EPSILON:
            return math.inf, round_delta
        rounds = Rounds(epsilon=epsilon, delta=round_delta, count=count)
        return optimal_epsilon_within(rounds, delta=total, log_delta=None, relative=relative), round_delta

    def at_odds(odds: Array) -> Array:  # of δ~ against δ'/k - δ~
        return np.array([outcome(share * (x / (1 + x)))[0] for x in odds.tolist()])

    tried = [0.0, share]
    if share > 0:
        best, _ = minimise_positive(at_odds, turns=2)
        tried.append(share * (best / (1 + best)))
    return min(outcome(round_delta, 1e-13) for round_delta in tried)
