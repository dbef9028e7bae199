"""(ε, δ)-DP composed as it stands: naive, strong, optimal, and the calibrated baseline of Wang et al. (2019).

These theorems know nothing of a mechanism but its (ε, δ), so they are what a moments accountant is compared with
(Wang et al. 2019, Section 5 and Appendix A), and what is left when (ε, δ) is all that is known. All hold for
mechanisms chosen adaptively, with the (ε, δ) of every round fixed beforehand, under either relation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import final

import numpy as np

from cumulant.answer import Interval
from cumulant.errors import InvalidParameter
from cumulant.numerics.logspace import Array, log1p_deficit, log_sum
from cumulant.numerics.search import root, smallest_true
from cumulant.parameters import log_of_delta, nonnegative, positive, probability, real, require, whole_number

ROUNDING = 2.0**-50  # 8 unit roundoffs
MOST_ROUNDS = 10**12  # the windows below hold O(√rounds) terms
LEAST_EPSILON, MOST_EPSILON = 1e-280, 1e100  # products with counts neither underflow nor overflow
WINDOW = 5.5  # terms kept: within 5.5 √k of the mean; Hoeffding bounds the others by 2 e^{-2·5.5²} = 1e-26
CELLS = 2**20  # of a lattice: 8 MB
WORK = 2**29  # multiplications in all convolutions: a second or two
BLOCK = 2**14  # cells convolved at a time, to stay in cache
NEGLIGIBLE = 1e-40  # cells below this times the peak are emptied, and their mass is accounted for
AT_LEAST_0 = "must be a number >= 0 (inf: no promise)"
LARGE = 600.0  # e^600 is still a float


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Rounds:
    """`count` releases, chosen adaptively, each (epsilon, delta)-DP.

    >>> Rounds(epsilon=0.1, count=100)
    Rounds(epsilon=0.1, delta=0.0, count=100)
    """

    epsilon: float
    delta: float = 0.0
    count: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", nonnegative("epsilon", self.epsilon))
        object.__setattr__(self, "delta", probability("delta", self.delta))
        object.__setattr__(self, "count", whole_number("count", self.count))
        sane = self.epsilon == 0 or LEAST_EPSILON <= self.epsilon <= MOST_EPSILON
        require(sane, "epsilon must be 0 or between 1e-280 and 1e100", self.epsilon)


def naive_composition(parts: Sequence[Rounds]) -> tuple[float, float]:
    """Return (Σ k_i ε_i, Σ k_i δ_i): Theorem 25, Dwork et al. (2006a).

    Holds for:  every adaptive composition.
    Tightness:  attained for δ = 0 at δ' = 0; otherwise never, as ε grows with k instead of √k.

    >>> naive_composition([Rounds(epsilon=0.5, delta=0.25, count=2), Rounds(epsilon=1.0)])
    (2.0, 0.5)
    """
    parts = _checked(parts)
    epsilon = sum((part.count * Fraction(part.epsilon) for part in parts), Fraction(0))
    delta = sum((part.count * Fraction(part.delta) for part in parts), Fraction(0))
    return _rounded_up(epsilon), _rounded_up(min(delta, Fraction(1)))


def strong_composition(rounds: Rounds, *, slack: float) -> tuple[float, float]:
    """Return (ε √(2k log 1/δ*) + k ε (e^ε - 1),  kδ + δ*): Dwork, Rothblum and Vadhan (2010), Theorem III.3.

    where k = rounds.count and δ* = slack. Theorem 26 of Wang et al. (2019) prints 2kε² for the second term and
    asks for ε <= 1; there e^ε - 1 <= 2ε, so the original is never worse, and it needs no such condition.

    Holds for:  every k-fold adaptive composition; every ε >= 0, δ* in (0, 1].
    Tightness:  right order in k for small ε, never attained; see `optimal_composition_epsilon`.
    """
    (rounds,) = _checked([rounds])
    slack = probability("slack", slack)
    require(slack > 0, "slack must be > 0", slack)
    e, k = rounds.epsilon, rounds.count
    drift = k * e * math.expm1(e) if e < LARGE else math.inf
    epsilon = e * math.sqrt(-2.0 * k * math.log(slack)) + drift
    delta = min(Fraction(1), k * Fraction(rounds.delta) + Fraction(slack))
    # Safe side: rounded up, past an underflow too.
    return math.nextafter(epsilon * (1 + ROUNDING), math.inf) if e * k > 0 else 0.0, _rounded_up(delta)


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
    rate, e, delta = probability("rate", rate), real("epsilon", epsilon, AT_LEAST_0), probability("delta", delta)
    require(e >= 0, f"epsilon {AT_LEAST_0}", epsilon)
    if rate == 0:
        return 0.0, 0.0
    if e < LARGE:
        amplified = math.nextafter(math.log1p(rate * math.expm1(e)) * (1 + ROUNDING), math.inf)
    else:  # e^ε would overflow; log(γ + (1-γ)e^{-ε}) <= 0
        amplified = e + math.log(rate + (1 - rate) * math.exp(-e)) + ROUNDING * e
    return min(e, amplified), _rounded_up(Fraction(rate) * Fraction(delta))  # safe side: rounded up


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
    (rounds,) = _checked([rounds])
    epsilon = nonnegative("epsilon", epsilon)
    tail = -math.inf
    if Fraction(epsilon) < rounds.count * Fraction(rounds.epsilon):  # beyond, naive composition proves the rest
        tail = _log_tail(rounds.epsilon, rounds.count, epsilon)
    return _Failure.of([rounds]).log_upper(tail)


def optimal_composition_delta(rounds: Rounds, *, epsilon: float) -> float:
    """Return δ' of `optimal_composition_log_delta`; never 0 by underflow."""
    return _exp_up(optimal_composition_log_delta(rounds, epsilon=epsilon))


def optimal_composition_epsilon(rounds: Rounds, *, delta: float | None = None, log_delta: float | None = None) -> float:
    """Return the smallest ε' with `optimal_composition_log_delta` <= log δ', rounded up.

    Infinity if the failures of the rounds alone take more than δ'. O(√k log(1/accuracy)).

    >>> optimal_composition_epsilon(Rounds(epsilon=0.5, delta=1e-5), delta=1e-5)
    0.5
    """
    return _optimal_epsilon(rounds, delta=delta, log_delta=log_delta, relative=1e-13)


def _optimal_epsilon(rounds: Rounds, *, delta: float | None, log_delta: float | None, relative: float) -> float:
    target = log_of_delta(delta=delta, log_delta=log_delta) * (1 + ROUNDING)  # safe side: log δ was rounded
    naive_epsilon, naive_delta = naive_composition([rounds])

    def proven(epsilon: float) -> bool:
        return optimal_composition_log_delta(rounds, epsilon=epsilon) <= target

    if not proven(naive_epsilon):  # compared without logarithms, so that kδ = δ' is met
        return naive_epsilon if delta is not None and naive_delta <= delta else math.inf
    # Safe side: the returned ε' has itself been proven.
    return 0.0 if proven(0.0) else smallest_true(proven, 0.0, naive_epsilon, relative=relative)


def optimal_composition_epsilon_interval(
    parts: Sequence[Rounds], *, delta: float | None = None, log_delta: float | None = None, accuracy: float = 1e-3
) -> Interval:
    """Return a lower and an upper bound of the smallest ε' at δ' for rounds with different (ε_i, δ_i).

    The exact value, Theorem 1.5 of Murtagh and Vadhan (2018), is #P-complete; see `_Lattice` for the bounds and
    why they hold. The width is at most `accuracy` wherever the lattice that takes fits CELLS and WORK; beyond
    that the interval is wider, and just as certain.

    Holds for:  every adaptive composition of (ε_i, δ_i)-DP mechanisms.
    Tightness:  both ends converge to the optimum as `accuracy` → 0.
    """
    parts, accuracy = _checked(parts), positive("accuracy", accuracy)
    log_delta_asked = log_of_delta(delta=delta, log_delta=log_delta)
    failure, (most, naive_delta) = _Failure.of(parts), naive_composition(parts)
    groups = _groups(parts)
    spread = _spread(groups, accuracy, _tilt_at_delta(groups, failure.log_left(log_delta_asked)))
    relative = min(0.01, 0.02 * accuracy / max(most, accuracy))

    def proven(epsilon: float) -> bool:  # safe side: log δ was rounded
        return failure.log_upper(spread.log_upper(epsilon)) <= log_delta_asked * (1 + ROUNDING)

    def refuted(below_most: float) -> bool:
        tail = spread.log_lower(most - below_most)
        return failure.log_lower(tail) > log_delta_asked * (1 - ROUNDING)

    if refuted(0.0):  # the failures alone take more than δ'
        return Interval(math.inf, math.inf)
    if proven(most):
        upper = 0.0 if proven(0.0) else smallest_true(proven, 0.0, most, relative=relative)
    else:  # compared without logarithms, so that Σδ_i = δ' is met
        upper = most if delta is not None and naive_delta <= delta else math.inf
    lower = most - smallest_true(refuted, 0.0, most, relative=relative) if refuted(most) else 0.0
    return Interval(lower, upper)


def optimal_composition_log_delta_interval(
    parts: Sequence[Rounds], *, epsilon: float, accuracy: float = 1e-3
) -> Interval:
    """Return a lower and an upper bound of log δ' at ε': the optimum is between δ'(ε' ± accuracy).

    As `optimal_composition_epsilon_interval`, read the other way.
    """
    parts, accuracy = _checked(parts), positive("accuracy", accuracy)
    epsilon = nonnegative("epsilon", epsilon)
    failure, groups = _Failure.of(parts), _groups(parts)
    spread = _spread(groups, accuracy, _tilt_at_epsilon(groups, epsilon))
    return Interval(failure.log_lower(spread.log_lower(epsilon)), failure.log_upper(spread.log_upper(epsilon)))


def optimal_composition_delta_interval(parts: Sequence[Rounds], *, epsilon: float, accuracy: float = 1e-3) -> Interval:
    """Return δ' of `optimal_composition_log_delta_interval`."""
    logs = optimal_composition_log_delta_interval(parts, epsilon=epsilon, accuracy=accuracy)
    return Interval(math.nextafter(math.exp(logs.lower), 0.0), _exp_up(logs.upper))


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
        return _optimal_epsilon(rounds, delta=total, log_delta=None, relative=relative), round_delta

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


# The homogeneous sum.


def _log_tail(e: float, k: int, epsilon: float) -> float:
    """Return log E(1 - e^{ε'-L})_+, L = (k-2l)ε, l ~ Binomial(k, 1/(1+e^ε)), rounded up, for ε' < kε."""
    steepness = e
    if epsilon > k * e * math.tanh(e / 2):  # tilt until the mean is ε'
        steepness = 2 * math.atanh(min(epsilon / (k * e), 1 - 1e-16))
    lies, rest = _window(k, steepness)
    loss = (k - 2 * lies) * e
    gap = loss * (1 + ROUNDING) - epsilon  # safe side: the loss rounded up
    lies, gap = lies[gap > 0], gap[gap > 0]
    log_mass, error = _log_binomial(lies, k, e)
    tilt = (steepness / e - 1) / 2
    # Safe side: a rest that has been cut off is added, times e for the rounding of its exponent.
    rest += _cgf(e, k, tilt) - tilt * epsilon + 1
    total = log_sum(np.append(log_mass + error + np.log(-np.expm1(-gap)), rest))
    return total + ROUNDING * abs(total)


def _window(k: int, steepness: float) -> tuple[Array, float]:
    """Return where Binomial(k, 1/(1+e^steepness)) has its mass, and the log of a bound on what is elsewhere."""
    odds = math.exp(-steepness)
    mean, half = k * odds / (1 + odds), math.ceil(WINDOW * math.sqrt(k)) + 1
    first, last = max(0, math.floor(mean) - half), min(k, math.ceil(mean) + half)
    everything = first == 0 and last == k
    return np.arange(first, last + 1, dtype=float), -math.inf if everything else math.log(2) - 2 * (half - 1) ** 2 / k


def _cgf(e: float, k: int, tilt: float) -> float:
    """Return K(λ) = log E e^{λL} of k randomized responses."""
    return k * (tilt * e + math.log1p(math.exp(-(2 * tilt + 1) * e)) - math.log1p(math.exp(-e)))


def _log_binomial(lies: Array, k: int, steepness: float) -> tuple[Array, Array]:
    """Return log of Binomial(k, q) at `lies`, q = 1/(1+e^steepness), and a bound on its rounding error.

    Loader (2000): Stirling's main terms cancel analytically and leave two deviances, each computed to relative
    accuracy, so the error grows with |log mass| and the distance from the mean, not with k log k.
    """
    log_p = -math.log1p(math.exp(-steepness))
    log_q = log_p - steepness
    log_mass = _stirling_rest(np.array([float(k)])) - _stirling_rest(lies) - _stirling_rest(k - lies)
    log_mass = log_mass - _deviance(lies, k, log_q) - _deviance(k - lies, k, log_p)
    return log_mass, ROUNDING * (32 + 16 * np.abs(log_mass) + 4 * np.abs(lies - k * math.exp(log_q)))


def _stirling_rest(n: Array) -> Array:
    """Return log n! - n log n + n."""
    from scipy.special import gammaln, xlogy

    x = np.maximum(n, 16.0)
    series = np.zeros_like(x)
    for coefficient in (1 / 1188, -1 / 1680, 1 / 1260, -1 / 360, 1 / 12):
        series = series / (x * x) + coefficient
    return np.where(n < 16, gammaln(n + 1) - xlogy(n, n) + n, 0.5 * np.log(2 * math.pi * x) + series / x)


def _deviance(x: Array, k: int, log_p: float) -> Array:
    """Return x log(x/m) + m - x, which is >= 0, for m = kp."""
    m, positive_x = k * math.exp(log_p), np.maximum(x, 0.5)
    ratio = np.where((x > 2 * m) | (x == 0), 0.0, (m - positive_x) / positive_x)
    near = x * log1p_deficit(ratio)
    far = x * (np.log(positive_x / k) - log_p) + m - x
    return np.where(x == 0, m, np.where(x > 2 * m, far, near))


# The heterogeneous sum.


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class _Lattice:
    """The loss of a composition of randomized responses, moved to a lattice.

    Rounds with equal ε form a group, whose loss (k-2l)ε is binomial. Within a group each loss is moved to the
    nearest point of a lattice of spacing h, which all groups share; the masses then convolve, as a sum of
    nonnegative terms that keeps its relative accuracy.

    Why that is sound: δ(ε') = E(1 - e^{ε'-L})_+ with L = Σ L_g never falls when L grows. The moved losses L' live
    on the same probability space, and L' - below <= L <= L' + above, where `above` and `below` sum the largest move
    of each group. So δ_{L'}(ε' + below) <= δ(ε') <= δ_{L'}(ε' - above), and above + below <= (number of groups) h.

    Masses are kept under the measure tilted by e^{λL'-K}, whose mean is where the question is asked; so a tail of
    1e-300 is a sum of ordinary numbers. Mass m that was cut off has true tail at most m e^{K-λε'}, since L' > ε'
    wherever it counts; the upper bound adds it, the lower bound goes without.

    Time is O(Σ_g √k_g · range/h), memory O(range/h), where range is Σ_g ε_g √k_g, up to constants.
    """

    log_mass: Array
    loss: Array
    above: float
    below: float
    error: float
    log_cut: float
    tilt: float
    most: float

    def log_upper(self, epsilon: float) -> float:
        if epsilon >= self.most:  # naive composition
            return -math.inf
        kept = self._log_tail(epsilon - self.above) + self.error
        return float(np.logaddexp(kept, self.log_cut - self.tilt * (epsilon - self.above)))

    def log_lower(self, epsilon: float) -> float:
        return self._log_tail(epsilon + self.below) - self.error

    def _log_tail(self, epsilon: float) -> float:
        inside = self.loss > epsilon
        return log_sum(self.log_mass[inside] + np.log(-np.expm1(epsilon - self.loss[inside])))


def _spread(groups: dict[float, int], accuracy: float, excess: Callable[[float], float]) -> _Lattice:
    """Return the lattice of these groups, tilted to where `excess` of λ changes sign; any λ >= 0 is sound."""
    h = _spacing(groups, accuracy)
    steepest = math.log1p(100 / (accuracy + len(groups) * h))  # e^{λh} stays an ordinary number
    tilt = math.expm1(root(lambda x: excess(math.expm1(x)), 0.0, steepest, tolerance=1e-3))
    most = naive_composition([Rounds(epsilon=e, count=k) for e, k in groups.items()])[0]
    mass: Array = np.ones(1)
    first, cut = 0, 0.0
    above = below = 4 * ROUNDING * most
    error = ROUNDING * (tilt * 4 * most + 2 * sum(groups.values()))  # of λL and of K
    moved = sorted((_moved(e, k, tilt, h) for e, k in groups.items()), key=lambda group: -len(group.mass))
    for group in moved:
        mass = _convolved(mass, group.mass)
        # What is below 1e-40 of the peak goes, so that no later product underflows; its sum is remembered.
        cut = cut * float(group.mass.sum()) + NEGLIGIBLE * float(mass.max()) * len(mass)
        present = mass >= NEGLIGIBLE * mass.max()
        kept = np.flatnonzero(present)
        mass = (mass * present)[kept[0] : kept[-1] + 1]
        first += group.first + int(kept[0])
        above, below = above + group.above, below + group.below
        error += group.error + ROUNDING * (4 + np.count_nonzero(group.mass))
    cut += sum(group.cut for group in moved)
    kept = np.flatnonzero(mass)
    loss: Array = np.asarray(most - h * (first + kept), dtype=float)
    log_k = sum(_cgf(e, k, tilt) for e, k in groups.items())
    return _Lattice(
        log_mass=np.log(mass[kept]) + log_k - tilt * loss,
        loss=loss,
        above=above,
        below=below,
        error=error,
        log_cut=math.log(cut) + log_k + 1 if groups else -math.inf,  # times e for rounding
        tilt=tilt,
        most=most,
    )


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class _Moved:
    """One group on the lattice: tilted masses from cell `first` on, largest moves, rounding error, mass cut off."""

    mass: Array
    first: int
    above: float
    below: float
    error: float
    cut: float


def _moved(e: float, k: int, tilt: float, h: float) -> _Moved:
    steepness = (2 * tilt + 1) * e
    lies, log_cut = _window(k, steepness)
    fall = 2 * e * lies  # from the largest loss, kε
    cell = np.rint(fall / h)
    move = fall - h * cell
    log_mass, error = _log_binomial(lies, k, steepness)
    mass: Array = np.bincount((cell - cell[0]).astype(np.int64), np.exp(log_mass + tilt * move)).astype(float)
    slop = 2 * ROUNDING * float(fall[-1])
    return _Moved(
        mass=mass,
        first=int(cell[0]),
        above=max(0.0, -float(move.min())) + slop,
        below=max(0.0, float(move.max())) + slop,
        error=float(error[log_mass > -300].max()) + tilt * slop + ROUNDING * len(lies),
        cut=math.exp(log_cut),
    )


def _convolved(a: Array, b: Array) -> Array:
    """Return the convolution, one shifted copy for each nonzero cell: no FFT, as its error is absolute."""
    wide, narrow = (a, b) if np.count_nonzero(a) > np.count_nonzero(b) else (b, a)
    result, cells = np.zeros(len(a) + len(b) - 1), np.flatnonzero(narrow)
    for start in range(0, len(wide), BLOCK):
        block = wide[start : start + BLOCK]
        for cell in cells:
            result[start + cell : start + cell + len(block)] += narrow[cell] * block
    return result


def _spacing(groups: dict[float, int], accuracy: float) -> float:
    """Return h, as wide as `accuracy` allows and at least as wide as CELLS and WORK demand.

    Dividing the smallest 2ε, it would not move multiples of one ε at all, so nearby divisors are tried too.
    """
    if not groups:
        return accuracy
    points = {e: min(k, 2 * math.ceil(WINDOW * math.sqrt(k)) + 4) for e, k in groups.items()}
    extent = min(
        sum(2 * e * n for e, n in points.items()),
        30 * math.sqrt(sum(k * e * e for e, k in groups.items())),  # what is not negligible, by Hoeffding
    )
    visits = 1 + sum(points.values()) - max(points.values())  # the first group has nothing to convolve with
    narrowest = extent / min(CELLS, WORK / visits)
    h, step = max(0.9 * accuracy / len(groups), narrowest), 2 * min(groups)
    divisors = [step / math.ceil(step / h), step / max(1, math.floor(step / h))]

    def moves(h: float) -> float:
        return sum(min(h, 2 * n * abs(2 * e - h * round(2 * e / h))) for e, n in points.items())

    return min((x for x in (h, *divisors) if x >= narrowest), key=moves)


def _tilt_at_epsilon(groups: dict[float, int], epsilon: float) -> Callable[[float], float]:
    """Return λ ↦ K'(λ) - ε': the tilted mean is at ε'."""
    return lambda tilt: _mean(groups, tilt) - epsilon


def _tilt_at_delta(groups: dict[float, int], log_delta: float) -> Callable[[float], float]:
    """Return λ ↦ λK'(λ) - K(λ) + log δ' + 20: the tilted mean is at Chernoff's ε' for e^20 δ'.

    For δ' itself, λ would be infinite once δ' is below the mass of the largest loss, and bury all other losses.
    """
    return lambda tilt: tilt * _mean(groups, tilt) - sum(_cgf(e, k, tilt) for e, k in groups.items()) + log_delta + 20


def _mean(groups: dict[float, int], tilt: float) -> float:
    return sum(k * e * math.tanh((tilt + 0.5) * e) for e, k in groups.items())


# Failures, and rounding.


@final
@dataclass(frozen=True, slots=True)
class _Failure:
    """1 - Π(1-δ_i)^k_i, the probability that some round fails: its log within an interval, and log of the rest."""

    log: Interval
    log_rest: float

    @classmethod
    def of(cls, parts: Sequence[Rounds]) -> _Failure:
        if any(part.delta == 1 and part.count for part in parts):
            return cls(Interval(0.0, 0.0), -math.inf)
        log_rest = math.fsum(part.count * math.log1p(-part.delta) for part in parts)
        if log_rest == 0:
            return cls(Interval(-math.inf, -math.inf), 0.0)
        log_fail = math.log(-math.expm1(log_rest))
        error = ROUNDING * (2 + abs(log_fail))
        return cls(Interval(log_fail - error, min(0.0, log_fail + error)), log_rest)

    def log_upper(self, log_tail: float) -> float:
        """Return log(p + (1-p) tail), rounded up."""
        total = float(np.logaddexp(self.log.upper, self.log_rest * (1 - ROUNDING) + log_tail))
        return min(0.0, total + ROUNDING * (1 + abs(total))) if total > -math.inf else total

    def log_lower(self, log_tail: float) -> float:
        """Return log(p + (1-p) tail), rounded down."""
        total = float(np.logaddexp(self.log.lower, self.log_rest * (1 + ROUNDING) + log_tail))
        return min(0.0, total - ROUNDING * (1 + abs(total))) if total > -math.inf else total

    def log_left(self, log_delta: float) -> float:
        """Return about log(δ' - p), a hint where to look; -inf if nothing is left."""
        if self.log.upper >= log_delta:
            return -math.inf
        return log_delta + math.log1p(-math.exp(self.log.upper - log_delta))


def _checked(parts: Sequence[Rounds]) -> Sequence[Rounds]:
    parts = tuple(parts)
    for part in parts:
        if not isinstance(part, Rounds):
            raise InvalidParameter(f"every part must be Rounds(epsilon=, delta=, count=), got {part!r}")
    require(sum(part.count for part in parts) <= MOST_ROUNDS, "rounds must be at most 10^12 in all", parts)
    return parts


def _groups(parts: Sequence[Rounds]) -> dict[float, int]:
    """Return ε with its number of rounds; ε = 0 loses nothing but its failures."""
    groups: dict[float, int] = {}
    for part in parts:
        if part.epsilon > 0 and part.count > 0:
            groups[part.epsilon] = groups.get(part.epsilon, 0) + part.count
    return groups


def _rounded_up(exact: Fraction) -> float:
    try:
        nearest = float(exact)
    except OverflowError:
        return math.inf
    return nearest if nearest >= exact else math.nextafter(nearest, math.inf)


def _exp_up(log_delta: float) -> float:
    return 0.0 if log_delta == -math.inf else min(1.0, math.nextafter(math.exp(log_delta), math.inf))
