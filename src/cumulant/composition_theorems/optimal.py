"""The best (ε', δ') of equal rounds: Kairouz, Oh and Viswanath (2017)."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from cumulant.composition_theorems.naive_and_strong import naive_composition
from cumulant.composition_theorems.rounds import Failure, Rounds, checked
from cumulant.numerics.binomial import Binomial
from cumulant.numerics.logspace import Array, log_sum
from cumulant.numerics.rounding import ROUNDING, exp_above
from cumulant.numerics.search import smallest_true
from cumulant.parameters import log_of_delta, nonnegative


def optimal_composition_log_delta(rounds: Rounds, *, epsilon: float) -> float:
    """Return log δ' of the best (ε', δ') that holds for every composition of these rounds, rounded up.

    Kairouz, Oh and Viswanath (2017), Theorem 3.3, in the form of Murtagh and Vadhan (2018):

        δ' = 1 - (1-δ)^k + (1-δ)^k Σ_l C(k,l) p^{k-l} (1-p)^l (1 - e^{ε' - (k-2l)ε})_+,   p = e^ε/(1+e^ε)

    which is the hockey-stick divergence of k randomized responses that fail with probability δ. Only terms within
    5.5√k of the one that matters most are summed, O(√k) of them. For the others change the measure to the one
    under which the loss L has mean max(ε', E L), for some λ >= 0: (1 - e^{ε'-L})_+ <= e^{λ(L-ε')}, so they are at
    most e^{K(λ)-λε'} times a probability that Hoeffding's inequality bounds.

    Holds for:  every k-fold adaptive composition of (ε, δ)-DP mechanisms; ε' >= 0.
    Tightness:  exact: attained by randomized response.

    >>> round(math.exp(optimal_composition_log_delta(Rounds(epsilon=1.0, count=2), epsilon=1.0)), 12)
    0.337834712147
    """
    (rounds,) = checked([rounds])
    epsilon = nonnegative("epsilon", epsilon)
    tail = -math.inf
    if Fraction(epsilon) < rounds.count * Fraction(rounds.epsilon):  # beyond, naive composition proves the rest
        tail = _log_tail(rounds.epsilon, rounds.count, epsilon)
    return Failure.of([rounds]).log_upper(tail)


def optimal_composition_delta(rounds: Rounds, *, epsilon: float) -> float:
    """Return δ' of `optimal_composition_log_delta`; never 0 by underflow."""
    return exp_above(optimal_composition_log_delta(rounds, epsilon=epsilon))


def optimal_composition_epsilon(rounds: Rounds, *, delta: float | None = None, log_delta: float | None = None) -> float:
    """Return the smallest ε' with `optimal_composition_log_delta` <= log δ', rounded up.

    Infinity if the failures of the rounds alone take more than δ'. O(√k log(1/accuracy)).

    >>> optimal_composition_epsilon(Rounds(epsilon=0.5, delta=1e-5), delta=1e-5)
    0.5
    """
    return optimal_epsilon_within(rounds, delta=delta, log_delta=log_delta, relative=1e-13)


def optimal_epsilon_within(rounds: Rounds, *, delta: float | None, log_delta: float | None, relative: float) -> float:
    """Return `optimal_composition_epsilon` to within a relative width; the answer itself has been tested."""
    target = log_of_delta(delta=delta, log_delta=log_delta) * (1 + ROUNDING)  # safe side: log δ was rounded
    naive_epsilon, naive_delta = naive_composition([rounds])

    def proven(epsilon: float) -> bool:
        return optimal_composition_log_delta(rounds, epsilon=epsilon) <= target

    if not proven(naive_epsilon):  # compared without logarithms, so that kδ = δ' is met
        return naive_epsilon if delta is not None and naive_delta <= delta else math.inf
    # Safe side: the returned ε' has itself been proven.
    return 0.0 if proven(0.0) else smallest_true(proven, 0.0, naive_epsilon, relative=relative)


def _log_tail(e: float, k: int, epsilon: float) -> float:
    """Return log E(1 - e^{ε'-L})_+, L = (k-2l)ε, l ~ Binomial(k, 1/(1+e^ε)), rounded up, for ε' < kε."""
    steepness = e
    if epsilon > k * e * math.tanh(e / 2):  # tilt until the mean is ε'
        steepness = 2 * math.atanh(min(epsilon / (k * e), 1 - 1e-16))
    lies, rest = lies_told(k, steepness).window()
    loss = (k - 2 * lies) * e
    gap = loss * (1 + ROUNDING) - epsilon  # safe side: the loss rounded up
    lies, gap = lies[gap > 0], gap[gap > 0]
    log_mass, error = log_mass_of_lies(lies, lies_told(k, e))
    tilt = (steepness / e - 1) / 2
    # Safe side: a rest that has been cut off is added, times e for the rounding of its exponent.
    rest += randomized_response_cgf(e, k, tilt) - tilt * epsilon + 1
    total = log_sum(np.append(log_mass + error + np.log(-np.expm1(-gap)), rest))
    return total + ROUNDING * abs(total)


def lies_told(k: int, steepness: float) -> Binomial:
    """Return how many of k randomized responses lie: each with probability 1/(1+e^steepness)."""
    return Binomial.of_odds(k, log_odds=-steepness)


def log_mass_of_lies(lies: Array, told: Binomial) -> tuple[Array, Array]:
    """Return the log of the probability of a number of lies, and a bound on its error.

    Four times that of exact probabilities, as the odds of a lie, e^-steepness, were rounded themselves.
    """
    log_mass, error = told.log_pmf(lies)
    return log_mass, 4 * error


def randomized_response_cgf(e: float, k: int, tilt: float) -> float:
    """Return K(λ) = log E e^{λL} of k randomized responses."""
    return k * (tilt * e + math.log1p(math.exp(-(2 * tilt + 1) * e)) - math.log1p(math.exp(-e)))
