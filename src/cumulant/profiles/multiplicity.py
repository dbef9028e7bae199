"""How often one record comes in draws with replacement, and the profile that is mixed over it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from cumulant.numerics.binomial import Binomial
from cumulant.numerics.logspace import Array, log_expm1, log_mean
from cumulant.numerics.rounding import ULP
from cumulant.numerics.search import smallest_true
from cumulant.parameters import whole_number
from cumulant.profiles.profile import GroupProfiles

NEGLIGIBLE = math.log(1e-9)  # multiplicities are summed until the rest can add this part at most
NEVER_NATS = -700.0  # log-probability of multiplicities that are charged as if they revealed everything
WIDER = 1.2  # ratio of large multiplicities that are charged together
FINE, FINEST = 1 / 32, 1 / 128  # of a standard deviation, and of themselves: a finer width of those
FEWER = 12.0  # standard deviations, and draws, below the mean, up to which all are charged together
MOST_WEIGHTS = 10**4  # that are added up; beyond, a block has its largest weight times their number
MOST_TERMS = 10**5  # of a sum over multiplicities, one by one
EXTRA = 200  # terms beyond the half-way point of a geometric fall: e^-138 is left
LARGEST_TILT = 600.0  # e^600 is still a float
NUDGES = tuple(2.0**k for k in range(-50, -10))  # relative, by which a ratio is raised until it is enough
LEAST_SHARE = -600.0  # log-probability of no draw from which on it is of no use


@final
@dataclass(frozen=True, slots=True)
class Blocks:
    """Multiplicities in blocks, each charged at its `ends`, which is its largest, and the rest beyond the last.

    The probabilities of blocks, and of the rest, are logarithms of upper bounds.
    """

    ends: Array
    log_weights: Array
    log_rest: float

    def up_to(self, draws: int) -> Blocks:
        """Return blocks without a rest: twice as large each, and all as likely as the rest."""
        ends = self.ends.tolist()
        while ends[-1] < draws:
            ends.append(min(2 * ends[-1], float(draws)))
        more = np.full(len(ends) - len(self.ends), self.log_rest)
        return Blocks(np.array(ends), np.concatenate([self.log_weights, more]), -math.inf)


@final
@dataclass(frozen=True, slots=True)
class Multiplicity:
    """How often one of n records comes in m draws: binomial with p = 1/n. Logarithms of upper bounds."""

    draws: int
    population: int

    @staticmethod
    def checked(draws: int, population: int) -> Multiplicity:
        return Multiplicity(whole_number("draws", draws), whole_number("population", population, at_least=1))

    @property
    def rate(self) -> float:
        """1 - (1-1/n)^m, rounded up: the chance to be drawn at all."""
        if self.population == 1:
            return 1.0
        return min(1.0, -math.expm1(self.draws * math.log1p(-1 / self.population)) * (1 + 8 * ULP))

    @property
    def mean(self) -> float:
        return self.draws / self.population

    def log_weights(self, k: Array) -> Array:
        """Return log C(m,k) n^{-k} (1-1/n)^{m-k} for whole 0 <= k <= m, raised by its rounding error."""
        p = 1.0 / self.population
        values, error = Binomial.of(self.draws, p, 1 - p).log_pmf(k)
        return np.minimum(0.0, values + 4 * error)

    def log_from(self, k: float) -> float:
        """Return log of a bound of Pr[multiplicity >= k] above the mean, of Pr[multiplicity <= k] below, rounded up.

        Chernoff's, -m KL(k/m ‖ 1/n).
        """
        m, mean = float(self.draws), self.mean
        if k >= m:
            return -m * math.log(self.population) * (1 - 1e-14)
        more, fewer = math.log(k / mean), math.log1p(-(k - mean) / (m - mean))
        return min(0.0, -k * more - (m - k) * fewer + 1e-14 * (k * (1 + abs(more)) + (m - k) * abs(fewer)))

    def log_none(self) -> float:
        """Return log (1-1/n)^m, rounded down."""
        if self.population == 1:
            return -math.inf
        log_none = self.draws * math.log1p(-1 / self.population)
        return log_none - 8 * ULP * (1 + abs(log_none))

    def blocks(self) -> Blocks:
        """Return blocks of which the last is so large that a larger multiplicity never comes."""
        return self._blocks(WIDER, self._last())

    def fine_blocks(self) -> Blocks:
        """Return blocks up to all draws, one multiplicity wide where a record comes less than thousands of times."""
        return self._blocks(1 + min(FINE / math.sqrt(self.mean), FINEST), self.draws)

    def _last(self) -> int:
        """Return a multiplicity above which none ever comes, or all draws."""
        above, draws = self.mean + 1, float(self.draws)
        if self.population == 1 or above >= draws or self.log_from(draws) > NEVER_NATS:
            return self.draws
        return math.ceil(smallest_true(lambda k: self.log_from(k) <= NEVER_NATS, above, draws, relative=1e-3))

    def _blocks(self, ratio: float, last: int) -> Blocks:
        """Return blocks whose last multiplicity is at most `ratio` times that of the one before, or one more.

        The first holds all that are far below the mean; those that never come are taken less finely.
        """
        if self.population == 1:
            return Blocks(np.array([float(self.draws)]), np.zeros(1), -math.inf)
        first = min(max(1, math.floor(self.mean - FEWER * (math.sqrt(self.mean) + 1))), self.draws)
        ends, never = [first], self._last()
        while ends[-1] < last:
            wider = ratio if ends[-1] < never else max(ratio, 1 + FINEST)
            ends.append(min(max(ends[-1] + 1, math.floor(ends[-1] * wider)), last))
        at = np.array(ends, dtype=float)
        near = int(np.searchsorted(at, first + MOST_WEIGHTS))
        below = self.log_from(float(first)) if first > 1 else float(self.log_weights(at[:1])[0])
        parts = [np.array([below]), self._added_up(at[:near]), self._at_most(at[max(near - 1, 0) :])]
        rest = self.log_from(last + 1.0) if last < self.draws else -math.inf
        return Blocks(at, np.minimum(0.0, np.concatenate(parts) + 1e-14), rest)

    def _added_up(self, at: Array) -> Array:
        """Return log Pr[multiplicity in a block] of blocks between neighbouring ends."""
        if len(at) < 2:
            return np.empty(0)
        weights = self.log_weights(np.arange(at[0] + 1, at[-1] + 1))
        return np.asarray(np.logaddexp.reduceat(weights, (at[:-1] - at[0]).astype(np.intp)))

    def _at_most(self, at: Array) -> Array:
        """Return a bound of these logarithms from the ends: weights rise up to a mode and fall from there.

        So in a block they are at most the larger of those at its ends, or those around the mode.
        """
        low, high = at[:-1] + 1, at[1:]
        around = np.clip(math.floor(self.mean) + np.arange(-3.0, 4.0), 1.0, float(self.draws))
        at_ends = np.maximum(self.log_weights(low), self.log_weights(high))
        at_peak = (low < high) & (low <= around[-1]) & (high >= around[0])
        return np.where(at_peak, float(np.max(self.log_weights(around))), at_ends) + np.log(high - low + 1)


def mixture_of_groups(groups: GroupProfiles, blocks: Blocks) -> Callable[[Array], Array]:
    """Return ε ↦ log Σ_k Pr[multiplicity = k] δ_k(ε), from above.

    δ_k does not decrease with k: a block costs at most what its last does, and what is left what the last of all
    does. Blocks, which leave no rest, are added up for those ε at which what is left still counts.
    """
    log_left = np.logaddexp.accumulate(np.append(blocks.log_rest, blocks.log_weights[:0:-1]))[::-1]

    def log_mixture(epsilons: Array) -> Array:
        total, left = np.full(len(epsilons), -np.inf), np.arange(len(epsilons))
        most = groups(int(blocks.ends[-1])).log_deltas(epsilons)
        for size, weight, log_more in zip(blocks.ends.tolist(), blocks.log_weights, log_left, strict=True):
            total[left] = np.logaddexp(total[left], weight + groups(int(size)).log_deltas(epsilons[left]))
            settled = log_more + most[left] <= total[left] + NEGLIGIBLE
            total[left[settled]] = np.logaddexp(total[left], log_more + most[left])[settled]
            left = left[~settled]
            if not len(left):
                break
        return total + 1e-13

    return log_mixture


def least_shared_ratio(log_a: Array, log_weights: Array, log_rest: float, law: Multiplicity) -> Array:
    """Return, for each row, a little more than the least s >= 0 with Σ_k w_k (a_k - e^s)_+ + rest <= w_0 (e^s - 1).

    Infinity where that is too large. The left side falls with s and the right side grows, so what the inequality was
    tested at is safe.
    """
    log_none = law.log_none()
    if not log_none > LEAST_SHARE:
        return np.full(len(log_a), np.inf)

    def raised_by(s: Array) -> Array:
        """More than what rounding makes of either side, in nats."""
        return 1e-12 * (1 + s)

    def is_enough(s: Array, log_a: Array) -> NDArray[np.bool_]:
        terms = log_weights + s[:, None] + log_expm1(np.maximum(log_a - s[:, None], 0.0))
        left = log_mean(np.column_stack([terms, np.full(len(s), log_rest)]), np.zeros(1))
        return np.asarray(left + raised_by(s) <= log_none + log_expm1(s))

    order = np.argsort(-log_a, axis=1)
    log_gains = log_weights[order] + log_expm1(np.maximum(np.take_along_axis(log_a, order, axis=1), 0.0))
    log_shares = log_weights[order]

    def crossing(raised: Array) -> Array:
        """As (a - x)_+ >= a - x and 0, each k gives a line below the left side: they meet at the last zero of all."""
        first = np.ones(len(log_a))
        gains = np.logaddexp.accumulate(np.column_stack([first * log_rest, log_gains]) + raised[:, None], axis=1)
        shares = np.column_stack([first * log_none, log_shares + raised[:, None]])
        return np.asarray(np.max(np.logaddexp(0.0, gains - np.logaddexp.accumulate(shares, axis=1)), axis=1))

    s = crossing(raised_by(crossing(np.zeros(len(log_a)))))
    found = np.full(len(log_a), np.inf)
    if log_rest == -math.inf:
        found[np.max(log_a, axis=1, initial=-np.inf) <= 0] = 0.0
    left = np.flatnonzero((found > 0) & np.isfinite(s))
    for nudge in NUDGES:
        if len(left) == 0:
            break
        tried = s[left] * (1 + nudge)
        enough = is_enough(tried, log_a[left])
        found[left[enough]], left = tried[enough], left[~enough]
    return found


def tilted_weights(theta: float, law: Multiplicity) -> tuple[Array, Array, float]:
    """Return k >= 1, log w_k, and the logarithm of a bound of Σ w_k e^{kθ} over all larger k; nothing if k are many.

    Terms w_k e^{kθ} fall faster than a geometric series from where their ratio is below 1.
    """
    odds = math.exp(min(theta, LARGEST_TILT)) / (law.population - 1.0)
    last = math.ceil(2 * (law.draws + 1.0) * odds / (1 + 2 * odds)) + EXTRA  # beyond it the ratio is at most ½
    if theta > LARGEST_TILT or last > MOST_TERMS:
        return np.empty(0), np.empty(0), math.inf
    k = np.arange(1.0, min(last, law.draws) + 1)
    log_weights = law.log_weights(k)
    if last >= law.draws:
        return k, log_weights, -math.inf
    return k, log_weights, float(log_weights[-1]) + float(k[-1]) * theta + 1e-12 * float(k[-1])
