"""One (ε, δ) per round, chosen best and composed: the baseline of Wang et al. (2019), Section 5."""

from __future__ import annotations

import math
from collections.abc import Callable

from cumulant.composition_theorems.optimal import optimal_epsilon_within
from cumulant.composition_theorems.rounds import MOST_EPSILON, Rounds
from cumulant.numerics.rounding import ROUNDING
from cumulant.parameters import log_of_delta, whole_number


def calibrated_composition(
    curve: Callable[[float], float], *, count: int, delta: float | None = None, log_delta: float | None = None
) -> tuple[float, float]:
    """Return (ε', δ~): the least ε' by optimal composition at δ', and the δ of one round that gives it.

    `curve` maps log δ~ of one round, -inf included, to an ε~ such that the round is (ε~, δ~)-DP; infinity where
    there is none. This is the baseline of Wang et al. (2019), Section 5, where ε~ comes from (2.2) and, for a
    sampled round, from `subsampling_lemma`. Every δ~ proves its ε', so the search decides tightness alone: strides
    in the logit of δ~/(δ'/k), then golden section around the best; δ~ = 0 and δ~ = δ'/k are tried too.

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

    tried = [outcome(0.0), outcome(share)]
    if share > 0:
        tried += _golden_section(lambda logit: outcome(share / (1 + math.exp(-logit))))
    return min(outcome(round_delta, 1e-13) for round_delta in (min(tried)[1], share))


def _golden_section(outcome: Callable[[float], tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the outcomes met on the way to the lowest."""
    strides = [4.0 * i for i in range(-10, 4)]
    seen = {x: outcome(x) for x in strides}
    middle = min(strides, key=lambda x: seen[x])
    low, high, shrink = middle - 4.0, middle + 4.0, (math.sqrt(5) - 1) / 2
    a, b = high - shrink * (high - low), low + shrink * (high - low)
    seen[a], seen[b] = outcome(a), outcome(b)
    for _ in range(12):  # 8 -> 0.025 in the logit
        if seen[a] <= seen[b]:
            high, b = b, a
            a = new = high - shrink * (high - low)
        else:
            low, a = a, b
            b = new = low + shrink * (high - low)
        seen[new] = outcome(new)
    return list(seen.values())
