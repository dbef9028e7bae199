"""How often one record comes in draws with replacement, and the profile that is mixed over it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import final

import numpy as np
from numpy.typing import NDArray

from cumulant.numerics.binomial import Binomial
from cumulant.numerics.logspace import Array, log_expm1, log_mean, log_sum
from cumulant.numerics.rounding import ULP, log_above, logs_above
from cumulant.numerics.search import largest_true
from cumulant.parameters import whole_number
from cumulant.profiles.profile import GroupProfiles

BLOCK = 256  # multiplicities whose weights are computed at once
NEGLIGIBLE = math.log(1e-9)  # multiplicities are summed until the rest can add this part at most
MANY = 10**4  # a mean multiplicity from which on they are summed in blocks
PIECES, TOGETHER = 4096, 32  # pieces of multiplicities, and how many of them make a block
NEVER_NATS = -700.0  # log-probability of multiplicities that are charged as if they revealed everything
WIDER = 1.2  # ratio of large multiplicities that are charged together
MOST_TERMS = 10**5  # of a sum over multiplicities, one by one
EXTRA = 200  # terms beyond the half-way point of a geometric fall: e^-138 is left
LARGEST_TILT = 600.0  # e^600 is still a float
NUDGES = tuple(2.0**k for k in range(-50, -10))  # relative, by which a ratio is raised until it is enough
LEAST_SHARE = -600.0  # log-probability of no draw from which on it is of no use
FAR = 30.0  # in units of √mean: how far from the mean they reach; e^-450 is left

Mixture = Callable[[float], float]
Mixtures = Callable[[Array], Array]


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

    def log_weights(self, k: Array) -> Array:
        """Return log C(m,k) n^{-k} (1-1/n)^{m-k} for whole 0 <= k <= m, raised by its rounding error."""
        p = 1.0 / self.population
        values, error = Binomial.of(self.draws, p, 1 - p).log_pmf(k)
        return np.minimum(0.0, values + 4 * error)

    def log_above(self, k: int, log_next: float) -> float:
        """Return log Pr[multiplicity > k] from the weight of k+1: weights fall faster than a geometric series."""
        if k >= self.draws:
            return -math.inf
        ratio = (self.draws - k - 1) / ((k + 2) * (self.population - 1.0))
        return min(0.0, log_next - math.log1p(-ratio) + 4 * ULP) if ratio < 1 - 1e-9 else 0.0

    def log_below(self, k: int) -> float:
        """Return log Pr[multiplicity < k] for k below the mode: a geometric series downwards."""
        if k <= 0:
            return -math.inf
        ratio = (k - 1) * (self.population - 1.0) / (self.draws - k + 2)
        last = float(self.log_weights(np.array([k - 1.0]))[0])
        return min(0.0, last - math.log1p(-ratio) + 4 * ULP) if ratio < 1 - 1e-9 else 0.0

    def log_from(self, k: float) -> float:
        """Return Chernoff's bound -m KL(k/m ‖ 1/n) of log Pr[multiplicity >= k], k > mean, rounded up."""
        m, mean = float(self.draws), self.draws / self.population
        if k >= m:
            return -m * math.log(self.population) * (1 - 1e-14)
        more, fewer = math.log(k / mean), math.log1p(-(k - mean) / (m - mean))
        return min(0.0, -k * more - (m - k) * fewer + 1e-14 * (k * (1 + more) + (m - k) * -fewer))

    def pieces(self) -> tuple[Array, Array]:
        """Return the last multiplicity of each piece, and log Pr[it is in the piece] from above.

        The first begins at 1 or about FAR standard deviations below the mean, where it takes in all before; the last
        ends as far above. Weights rise up to a mode and fall from there, so in a piece they are at most the larger of
        those at its ends, or those around the mode.
        """
        mean = self.draws / self.population
        half = FAR * (math.sqrt(mean) + 1)
        edges = np.floor(np.linspace(mean - half, mean + half, PIECES + 1))
        whole = np.unique(np.clip(edges, 0.0, float(self.draws)))
        low, high = whole[:-1] + 1, whole[1:]  # multiplicities low..high
        around = np.clip(math.floor(mean) + np.arange(-3.0, 4.0), 1.0, float(self.draws))
        peak = float(np.max(self.log_weights(around)))
        at_ends = np.maximum(self.log_weights(low), self.log_weights(high))
        at_peak = (low < high) & (low <= around[-1]) & (high >= around[0])
        log_weights = np.where(at_peak, peak, at_ends) + np.log(high - low + 1)
        if low[0] > 1:
            log_weights[0] = np.logaddexp(log_weights[0], -FAR * FAR / 2)  # Chernoff's bound of fewer
        return high, log_weights + 1e-14

    @property
    def enough(self) -> int:
        """How many multiplicities are summed one by one at most; the rest is charged as if all draws were one."""
        return 500 + math.ceil(60 * math.sqrt(self.draws / self.population))

    def log_none(self) -> float:
        """Return log (1-1/n)^m, rounded down."""
        if self.population == 1:
            return -math.inf
        log_none = self.draws * math.log1p(-1 / self.population)
        return log_none - 8 * ULP * (1 + abs(log_none))

    def charged_together(self) -> tuple[list[int], list[float], float]:
        """Return multiplicities, the logarithms of the probabilities that each stands for, and that of all above.

        A multiplicity stands for those below it, too, down to the one before. All are upper bounds.
        """
        ends: list[int] = []
        log_weights: list[float] = []
        last, log_rest = 0, 0.0
        while last < self.draws and log_rest > NEVER_NATS:
            end = min(max(last + 1, math.floor(last * WIDER)), self.draws)
            weights = self.log_weights(np.arange(last + 1.0, end + 1.0))
            ends.append(end)
            log_weights.append(float(np.logaddexp.reduce(weights)) + 1e-14)
            beyond = float(self.log_weights(np.array([end + 1.0]))[0]) if end < self.draws else -math.inf
            last, log_rest = end, self.log_above(end, beyond)
        return ends, log_weights, log_rest

    def first(self) -> int:
        """Return a multiplicity far below the mean: what is less adds less than e^-60."""
        mean = self.draws / self.population
        return max(1, math.floor(mean - 12 * math.sqrt(mean) - 12))


def mixture_of_groups(groups: GroupProfiles, law: Multiplicity) -> tuple[Mixture, Mixtures | None]:
    """Return ε ↦ log Σ_k Pr[multiplicity = k] δ_k(ε), from above, and for many ε together where groups know of many."""
    if law.population == 1:
        return groups(law.draws).log_delta, groups(law.draws).of_many
    if law.draws > MANY * law.population:
        return _coarse_mixture(groups, law), None

    @cache
    def block(index: int) -> list[float]:
        k = np.arange(index * BLOCK, min((index + 1) * BLOCK, law.draws + 1), dtype=float)
        return [float(value) for value in law.log_weights(k)]

    def weight(k: int) -> float:
        return block(k // BLOCK)[k % BLOCK] if k <= law.draws else -math.inf

    def log_mixture(epsilon: float) -> float:
        harmless = largest_true(lambda k: k <= law.draws and groups(k).pure <= epsilon) or 0
        start = max(harmless + 1, law.first())
        if start > law.draws:
            return -math.inf
        # δ_k does not decrease with k: fewer than `start` cost at most δ_start, more than the last at most δ_m
        below = law.log_below(start) if start > harmless + 1 else -math.inf
        total = below + groups(start).log_delta(epsilon)
        least = _least_that_counts(start, law.draws, lambda k: groups(k).log_delta(epsilon), weight)
        if least > start:
            total = float(np.logaddexp(total, groups(least).log_delta(epsilon)))  # all from start to below the least
        most = groups(law.draws).log_delta(epsilon)
        for k in range(least, min(law.draws, least + law.enough) + 1):
            total = float(np.logaddexp(total, weight(k) + groups(k).log_delta(epsilon)))
            rest = law.log_above(k, weight(k + 1)) + most
            if rest <= total + NEGLIGIBLE:
                break
        return log_above(float(np.logaddexp(total, rest)) + 1e-13)

    def log_mixtures(epsilons: Array) -> Array:
        """The mixture at many ε: one multiplicity after the other, for those ε at which the rest still counts."""
        start, values, left = law.first(), np.empty(len(epsilons)), np.arange(len(epsilons))
        if start > 1:
            total = law.log_below(start) + groups(start).log_deltas(epsilons)
        else:
            total = np.full(len(epsilons), -np.inf)
        most = groups(law.draws).log_deltas(epsilons)
        for k in range(start, min(law.draws, start + law.enough) + 1):
            total = np.logaddexp(total, weight(k) + groups(k).log_deltas(epsilons[left]))
            rest = law.log_above(k, weight(k + 1)) + most[left]
            done = rest <= total + NEGLIGIBLE
            values[left[done]] = logs_above(np.logaddexp(total[done], rest[done]) + 1e-13)
            left, total = left[~done], total[~done]
            if len(left) == 0:
                break
        values[left] = [log_mixture(epsilon) for epsilon in epsilons[left].tolist()]
        return values

    return log_mixture, log_mixtures if groups(1).of_many is not None else None


def _least_that_counts(
    start: int, draws: int, log_cost: Callable[[int], float], log_weight: Callable[[int], float]
) -> int:
    """Return a multiplicity so small that all below it together add a negligible part, even if they were certain."""
    if draws - start < BLOCK // 4:
        return start
    some = [start, *(start + 2**i for i in range((draws - start).bit_length()))]
    seen = max(log_weight(k) + log_cost(k) for k in some)
    more = largest_true(lambda n: start + n <= draws and log_cost(start + n) <= seen + NEGLIGIBLE) or 0
    return start + more


def _coarse_mixture(groups: GroupProfiles, law: Multiplicity) -> Mixture:
    """Return the mixture where a record comes up very often: blocks of multiplicities, each at the cost of its last."""
    ends, weights = law.pieces()
    starts = range(0, len(ends), TOGETHER)
    log_weights = [log_sum(weights[start : start + TOGETHER]) for start in starts]
    profiles = [groups(int(ends[min(start + TOGETHER, len(ends)) - 1])) for start in starts]
    far = law.log_from(float(ends[-1]) + 1) if ends[-1] < law.draws else -math.inf

    def log_mixture(epsilon: float) -> float:
        terms = [w + profile.log_delta(epsilon) for w, profile in zip(log_weights, profiles, strict=True)]
        return log_above(log_sum([*terms, far]) + 1e-13)

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
