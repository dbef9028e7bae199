"""Bounds of the best (ε', δ') of rounds that differ: Murtagh and Vadhan (2018)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from cumulant.answer import Interval
from cumulant.composition_theorems.naive_and_strong import naive_composition
from cumulant.composition_theorems.optimal import lies_told, log_mass_of_lies, randomized_response_cgf
from cumulant.composition_theorems.rounds import Failure, Rounds, checked
from cumulant.numerics.binomial import WINDOW
from cumulant.numerics.logspace import Array, log_sum
from cumulant.numerics.rounding import ROUNDING, exp_above
from cumulant.numerics.scalar_logspace import log_add
from cumulant.numerics.search import root, smallest_true
from cumulant.parameters import log_of_delta, nonnegative, positive

CELLS = 2**20  # of a lattice: 8 MB
WORK = 2**29  # multiplications in all convolutions: a second or two
BLOCK = 2**14  # cells convolved at a time, to stay in cache
NEGLIGIBLE = 1e-40  # cells below this times the peak are emptied, and their mass is accounted for


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
    parts, accuracy = checked(parts), positive("accuracy", accuracy)
    log_delta_asked = log_of_delta(delta=delta, log_delta=log_delta)
    failure, (most, naive_delta) = Failure.of(parts), naive_composition(parts)
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
    parts, accuracy = checked(parts), positive("accuracy", accuracy)
    epsilon = nonnegative("epsilon", epsilon)
    failure, groups = Failure.of(parts), _groups(parts)
    spread = _spread(groups, accuracy, _tilt_at_epsilon(groups, epsilon))
    return Interval(failure.log_lower(spread.log_lower(epsilon)), failure.log_upper(spread.log_upper(epsilon)))


def optimal_composition_delta_interval(parts: Sequence[Rounds], *, epsilon: float, accuracy: float = 1e-3) -> Interval:
    """Return δ' of `optimal_composition_log_delta_interval`."""
    logs = optimal_composition_log_delta_interval(parts, epsilon=epsilon, accuracy=accuracy)
    return Interval(math.nextafter(math.exp(logs.lower), 0.0), exp_above(logs.upper))


def _groups(parts: Sequence[Rounds]) -> dict[float, int]:
    """Return ε with its number of rounds; ε = 0 loses nothing but its failures."""
    groups: dict[float, int] = {}
    for part in parts:
        if part.epsilon > 0 and part.count > 0:
            groups[part.epsilon] = groups.get(part.epsilon, 0) + part.count
    return groups


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
        return log_add(kept, self.log_cut - self.tilt * (epsilon - self.above))

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
    log_k = _log_moment(groups, tilt)
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
    told = lies_told(k, (2 * tilt + 1) * e)
    lies, log_cut = told.window()
    fall = 2 * e * lies  # from the largest loss, kε
    cell = np.rint(fall / h)
    move = fall - h * cell
    log_mass, error = log_mass_of_lies(lies, told)
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
    return lambda tilt: tilt * _mean(groups, tilt) - _log_moment(groups, tilt) + log_delta + 20


def _log_moment(groups: dict[float, int], tilt: float) -> float:
    return sum(randomized_response_cgf(e, k, tilt) for e, k in groups.items())


def _mean(groups: dict[float, int], tilt: float) -> float:
    return sum(k * e * math.tanh((tilt + 0.5) * e) for e, k in groups.items())
