"""How much noise, how many steps, how large a sample: the largest run that a budget allows.

Every answer has been asked itself: what is returned meets the budget, whatever the shape of the cost.

A search costs what its questions cost, so it asks few: log ε is close to linear in the logarithm of a noise, a rate
or a count, and interpolation there needs six or so. The scale is laid so that cost falls along it. Where the dominating
pairs are out of reach, which takes seconds to find out, Rényi DP leads the search. The pairs are asked again near its
end: where they prove more, they end it, else they are asked once more when it is over.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, final

from cumulant import parameters
from cumulant.answer import Method
from cumulant.budgets import AbstractBudget, EpsilonBudget, budget_of
from cumulant.composition import Composed
from cumulant.errors import BudgetExceeded, InvalidParameter
from cumulant.mechanisms.base import AbstractMechanism
from cumulant.mechanisms.online import best_order
from cumulant.parameters import MOST, require

FARTHEST = 100  # octaves from 1 in which a parameter is looked for
RELATIVE = 1e-9  # how far a parameter may be from the best one
LEAST_STEP = 0.02  # of the logarithm of a parameter, in which the first bracket is looked for
MOST_POINTS = 5  # that are interpolated through
NORMAL_SHARE = 0.8  # of √(-2 log δ): standard deviations at which a normal loss has about that δ
LEAST_GUESS = 1e-9  # of a noise, and one over it
PATIENCE = 3  # questions in which a bracket must halve
ROUGHLY = 0.01  # how far a parameter may be from the best one by Rényi DP before the pairs are asked, relatively

Build = Callable[[Any], AbstractMechanism]


class Spent(Protocol):
    """What has spent before: an accountant, which knows its run."""

    @property
    def run(self) -> Composed: ...


def calibrate(
    build: Callable[[float], AbstractMechanism],
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    log_delta: float | None = None,
    advantage: float | None = None,
    true_positive_rate: float | None = None,
    false_positive_rate: float | None = None,
    method: Method = "best",
) -> float:
    """Return the smallest parameter, to 1e-9 relative, for which build(parameter) is within a budget.

    The budget is (ε, δ), or what the best attacker may have: an `advantage`, the true positive rate less the false one,
    or a `true_positive_rate` at a `false_positive_rate`.

    The parameter is one that costs less the larger it is, like a noise multiplier or a scale. It is looked for from 1
    outwards, or from where a normal loss would be within the budget; the value returned was itself asked and is never
    an overshoot.

    >>> from cumulant import Gaussian
    >>> round(calibrate(lambda sigma: Gaussian(noise_multiplier=sigma) * 10, epsilon=1.0, delta=1e-5), 6)
    11.797...
    >>> round(calibrate(lambda sigma: Gaussian(noise_multiplier=sigma) * 10, advantage=0.1), 6)
    12.582...
    """
    budget = budget_of(
        epsilon=epsilon,
        delta=delta,
        log_delta=log_delta,
        advantage=advantage,
        true_positive_rate=true_positive_rate,
        false_positive_rate=false_positive_rate,
        method=method,
    )
    search = _Search(_builder(build), _NOISE, budget)
    first = search.asked(_likely_noise(search.build, budget))
    found = search.best(first)
    if found is not None:
        return found.value
    if first.over:
        raise InvalidParameter(f"no parameter up to 2^{FARTHEST} meets {search.budget}")
    raise InvalidParameter(f"every parameter down to 2^-{FARTHEST} meets {budget.asked}: nothing to search")


def max_rate(
    build: Callable[[float], AbstractMechanism],
    *,
    epsilon: float,
    delta: float | None = None,
    log_delta: float | None = None,
    method: Method = "best",
) -> float:
    """Return the largest sampling rate in (0, 1], to 1e-9 relative, for which build(rate) is within (ε, δ).

    1 if the run fits without sampling. The rate returned was itself asked and is never an overshoot.

    >>> from cumulant import Gaussian
    >>> step = Gaussian(noise_multiplier=1.0)
    >>> rate = max_rate(lambda rate: step.poisson(rate=rate) * 1000, epsilon=2.0, delta=1e-5, method="rdp")
    >>> round(rate, 5)
    0.0095
    """
    search = _Search(_builder(build), _RATE, EpsilonBudget.of(epsilon, delta, log_delta, method))
    first = search.asked(1.0)
    if not first.over:
        return 1.0
    found = search.best(first)
    if found is None:
        raise InvalidParameter(f"no rate down to 2^-{FARTHEST} meets {search.budget}")
    return found.value


def max_count(
    step: AbstractMechanism,
    *,
    epsilon: float,
    delta: float | None = None,
    log_delta: float | None = None,
    spent: AbstractMechanism | Spent | None = None,
    method: Method = "best",
) -> int:
    """Return the most releases of a step within (ε, δ): n with ε(n) <= ε < ε(n+1), both of which were asked.

    "Question Two" of Asoodeh et al. (2020), for every mechanism. What was already released about the same data is
    `spent`, a mechanism or an accountant; if that alone is over the budget, `BudgetExceeded`.

    >>> from cumulant import Gaussian
    >>> max_count(Gaussian(noise_multiplier=20.0), epsilon=6.0, delta=1e-5)
    685
    """
    step = _mechanism("step", step)
    before = Composed(()) if spent is None else _mechanism("spent", getattr(spent, "run", spent))
    log_delta = parameters.log_of_delta(delta=delta, log_delta=log_delta)
    most = _room(before, step)
    start = 1 if spent is not None else _likely_count(step, epsilon, log_delta, most)
    count = max_whole(
        lambda n: before + step * n, most=most, epsilon=epsilon, log_delta=log_delta, method=method, start=start
    )
    if count == 0 and (already := before.epsilon(log_delta=log_delta, method=method)) > epsilon:
        raise BudgetExceeded(f"what was spent costs epsilon={already:.4g} already, over the budget of {epsilon:g}")
    if count == most:
        raise InvalidParameter(f"step must cost something, but {most} releases of {step!r} meet epsilon={epsilon!r}")
    return count


def max_whole(
    build: Callable[[int], AbstractMechanism],
    *,
    most: int,
    epsilon: float,
    delta: float | None = None,
    log_delta: float | None = None,
    method: Method = "best",
    start: int = 1,
) -> int:
    """Return the largest n <= most for which build(n) is within (ε, δ), 0 if not even build(1) is.

    For what costs more the larger it is. n was asked itself, and so was n + 1 unless it is beyond `most`. The search
    begins at `start`, if that is within the budget, else at 1.
    """
    budget = EpsilonBudget.of(epsilon, delta, log_delta, method)
    if parameters.whole_number("most", most) == 0:
        return 0
    search = _Search(_builder(build), _whole_up_to(most), budget)
    first = search.asked(min(start, most))
    if first.over and start > 1:
        first = search.asked(1)
    if first.over:
        return 0
    found = search.best(first)
    return most if found is None else int(found.value)


def _likely_count(step: AbstractMechanism, epsilon: float, log_delta: float, most: int) -> int:
    """Return how many releases Chernoff's bound allows, at least 1: few questions then find how many there are."""
    if not -math.inf < log_delta < 0 or not parameters.nonnegative("epsilon", epsilon) > 0:
        return 1
    _, _, often = best_order(step, epsilon, log_delta)
    return int(min(max(often, 1.0), float(most)))


def _likely_noise(build: Build, budget: AbstractBudget) -> float:
    """Return a noise at which a normal loss would be about within the budget, 1 where nothing is known: a start.

    A normal loss of variance v has about ε = v/2 + 0.8·√(-2v log δ), and v = nγ²(e^{μ²} - 1) on samples.
    """
    sampled = build(1.0)._known().sampled
    if not isinstance(budget, EpsilonBudget) or sampled is None or not sampled.is_ordinary:
        return 1.0
    if not budget.epsilon > 0 or not -math.inf < budget.log_delta < 0:
        return 1.0
    steep = NORMAL_SHARE * math.sqrt(-2 * budget.log_delta)
    deviation = 2 * budget.epsilon / (steep + math.sqrt(steep * steep + 2 * budget.epsilon))
    square = math.log1p((deviation / sampled.rate) ** 2 / sampled.count)
    noise = sampled.mean / math.sqrt(square) if square > 0 else math.inf
    return noise if LEAST_GUESS < noise < 1 / LEAST_GUESS else 1.0


def _builder(build: Any) -> Build:
    """Return a function that builds mechanisms, and says so where it does not."""
    require(callable(build), "build must be a function from the parameter to a mechanism", build)
    return lambda value: _mechanism("what build returns", build(value))


def _mechanism(name: str, value: Any) -> AbstractMechanism:
    """Return a mechanism; an accountant is none, but its run is."""
    require(isinstance(value, AbstractMechanism), f"{name} must be a cumulant mechanism, such as accountant.run", value)
    return value  # type: ignore[no-any-return]


def _room(before: AbstractMechanism, step: AbstractMechanism) -> int:
    """Return how many steps more can be counted."""
    known = dict(before.releases())
    return min(((MOST - known.get(release, 0)) // times for release, times in step.releases()), default=MOST)


@final
@dataclass(frozen=True, slots=True)
class _Scale:
    """Where a parameter lies on the line that is searched: cost falls along it.

    `value` is the parameter at a place, `middle` the one between two, `fine` how far one may be from the best, `dearer`
    the next that costs more.
    """

    place: Callable[[float], float]
    value: Callable[[float], float]
    middle: Callable[[float, float], float]
    fine: Callable[[float], float]
    dearer: Callable[[float], float]
    farthest: float = FARTHEST * math.log(2)


_NOISE = _Scale(
    math.log,
    math.exp,
    lambda a, b: math.sqrt(a) * math.sqrt(b),
    lambda value: RELATIVE * value,
    lambda noise: noise * (1 - RELATIVE),
)
_RATE = _Scale(
    lambda rate: -math.log(rate),
    lambda x: min(1.0, math.exp(-x)),
    _NOISE.middle,
    _NOISE.fine,
    lambda rate: min(1.0, rate * (1 + RELATIVE)),
)


def _whole_up_to(most: int) -> _Scale:
    return _Scale(
        lambda n: -math.log(n),
        lambda x: min(most, max(1, round(math.exp(-x)))),
        lambda a, b: (int(a) + int(b)) // 2,
        lambda n: 1,
        lambda n: n + 1,
        farthest=math.log(most),
    )


@final
@dataclass(frozen=True, slots=True)
class _Tried:
    """A parameter that was asked, its place on the scale, log(spent ε / budget) there, and what proves it."""

    value: float
    place: float
    excess: float
    over: bool
    proven_by: str


@final
@dataclass(frozen=True, slots=True)
class _Ends:
    """A parameter within the budget, one over it, and others, the newest first."""

    safe: _Tried
    over: _Tried
    older: list[_Tried]


@final
@dataclass(slots=True)
class _Search:
    """`method` is that of the next question: the budget's, or "rdp" since the pairs have been out of reach."""

    build: Build
    scale: _Scale
    budget: AbstractBudget
    method: Method | None = None

    def asked(self, value: float) -> _Tried:
        budget, method = self.budget, self.method or self.budget.method
        spent, proven_by = budget.spent(self.build(value), method)
        if proven_by == "rdp" and not self.method:
            self.method = "rdp"  # safe: never less than the best
        # Safe side: whether the budget is met is compared without logarithms; what is not a number does not meet it.
        over = not spent <= budget.most
        return _Tried(value, self.scale.place(value), _log_ratio(spent, budget.most), over, proven_by)

    def best(self, first: _Tried) -> _Tried | None:
        """Return the dearest parameter within the budget, None if there is no crossing on the scale."""
        ends = self.enclosed(first)
        near = self.narrowed(ends, by_rdp=ROUGHLY if self.budget.method != "rdp" else 0.0) if ends else None
        if self.method != "rdp" or self.budget.method == "rdp":
            return near.safe if near else None
        self.method = self.budget.method  # from now on, whatever it takes
        if near is None:
            return self._crossed(self.asked(first.value))
        there = self.asked(near.safe.value)
        if there.proven_by != "rdp":
            return self._crossed(there)
        self.method = "rdp"
        found = self.narrowed(near).safe
        self.method = self.budget.method
        beyond = self.asked(self.scale.dearer(found.value))
        return found if beyond.over else self._crossed(beyond)

    def _crossed(self, first: _Tried) -> _Tried | None:
        ends = self.enclosed(first)
        return None if ends is None else self.narrowed(ends).safe

    def enclosed(self, first: _Tried) -> _Ends | None:
        """Return two parameters between which the budget is crossed, None if there are none on the scale.

        The first step believes that ε is inversely proportional to the parameter; the next ones extrapolate, and
        reach further each time.
        """
        farthest, direction = self.scale.farthest, 1 if first.over else -1
        here, older, stretch = first, list[_Tried](), 1.5
        step = max(abs(first.excess), LEAST_STEP) if math.isfinite(first.excess) else 1.0
        while direction * here.place < farthest * (1 - 1e-15):
            # At least a whole number further, and the last of them where the scale ends.
            least = math.log1p(self.scale.fine(here.value) / here.value)
            place = here.place + direction * max(step, least)
            there = self.asked(self.scale.value(min(max(place, -farthest), farthest)))
            if there.over != first.over:
                return _Ends(there, here, older) if first.over else _Ends(here, there, older)
            rise = abs(here.excess - there.excess)
            reach = abs(there.excess) * abs(there.place - here.place) / rise if 0 < rise < math.inf else math.inf
            step = min(max(stretch * reach, 0.01), 8 * step)
            older, here, stretch = [here, *older], there, 2 * stretch
        return None

    def narrowed(self, ends: _Ends, *, by_rdp: float = 0.0) -> _Ends:
        """Return a bracket that no longer matters, or one of a share `by_rdp` of the parameter since Rényi DP leads.

        Interpolates, and halves whenever that is slow.
        """
        safe, over, older, width, asked = ends.safe, ends.over, ends.older, math.inf, 0
        while abs(safe.value - over.value) > (fine := self.scale.fine(min(safe.value, over.value))):
            low, high = sorted((safe.value, over.value))
            if self.method == "rdp" and high - low <= by_rdp * low:
                break
            slow = asked % PATIENCE == 0 and math.log1p((high - low) / low) > 0.5 * width
            if asked % PATIENCE == 0:
                width = math.log1p((high - low) / low)
            value = self.scale.value(_aim(safe, over, older, math.log1p(fine / low)))
            new = self.asked(value if low < value < high and not slow else self.scale.middle(low, high))
            safe, over, older = (safe, new, [over, *older]) if new.over else (new, over, [safe, *older])
            asked += 1
        return _Ends(safe, over, older)


def _log_ratio(spent: float, budget: float) -> float:
    if spent == 0:
        return -math.inf
    return math.log(spent / budget) if budget > 0 and 0 < spent / budget < math.inf else math.inf


def _aim(safe: _Tried, over: _Tried, older: list[_Tried], fine: float) -> float:
    """Return where to ask next: beyond the estimated crossing, seen from the nearer end, by what that is in doubt.

    So both ends of the bracket come in, where interpolation alone would move one of them.
    """
    x, doubt = _crossing(safe, over, older)
    near, far = (safe, over) if abs(x - safe.place) <= abs(x - over.place) else (over, safe)
    reach, width = abs(x - near.place), abs(far.place - near.place)
    if not 0 < width < math.inf or not 0 <= reach < width:
        return 0.5 * (safe.place + over.place)
    way = max(reach + max(doubt, 0.45 * fine), 0.9 * fine)
    return near.place + math.copysign(min(way, 0.5 * (reach + width)), far.place - near.place)


def _crossing(safe: _Tried, over: _Tried, older: list[_Tried]) -> tuple[float, float]:
    """Return the estimated place of excess 0, and by about how much one more point would change it.

    It is inverse interpolation by Neville's scheme, through as many points as keep it in the bracket.
    """
    low, high = sorted((safe.place, over.place))
    middle, doubt = 0.5 * (low + high), 0.0
    if not -math.inf < safe.excess < over.excess < math.inf:
        return middle, doubt
    points = [safe, over, *(one for one in older if math.isfinite(one.excess))][:MOST_POINTS]
    if len({one.excess for one in points}) < len(points):
        points = points[:2]
    column = [one.place for one in points]
    x, change = column[0], math.inf
    for size in range(1, len(points)):
        for i in range(len(points) - size):
            a, b = points[i].excess, points[i + size].excess
            column[i] = (b * column[i] - a * column[i + 1]) / (b - a)
        if size > 1 and not low < column[0] < high:
            break
        before, change, x = change, abs(column[0] - x), column[0]
        doubt = change * min(change / before, 1.0) if before > 0 else change
    return x, doubt
