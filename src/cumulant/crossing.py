"""Where a run crosses a budget: a search that asks few questions.

A search costs what its questions cost, so it asks few: log ε is close to linear in the logarithm of a noise, a rate
or a count, and interpolation there needs six or so. The scale is laid so that cost falls along it. Where the dominating
pairs are out of reach, which takes seconds to find out, Rényi DP leads the search. The pairs are asked again near its
end: where they prove more, they end it, else they are asked once more when it is over.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

from cumulant.answer import Method
from cumulant.budgets import Budget
from cumulant.mechanisms.base import AbstractMechanism

FARTHEST = 100  # octaves from 1 in which a parameter is looked for
RELATIVE = 1e-9  # how far a parameter may be from the best one
LEAST_STEP = 0.02  # of the logarithm of a parameter, in which the first bracket is looked for
MOST_POINTS = 5  # that are interpolated through
PATIENCE = 3  # questions in which a bracket must halve
ROUGHLY = 0.01  # how far a parameter may be from the best one by Rényi DP before the pairs are asked, relatively

Build = Callable[[Any], AbstractMechanism]


@final
@dataclass(frozen=True, slots=True)
class Scale:
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


NOISE = Scale(
    math.log,
    math.exp,
    lambda a, b: math.sqrt(a) * math.sqrt(b),
    lambda value: RELATIVE * value,
    lambda noise: noise * (1 - RELATIVE),
)
RATE = Scale(
    lambda rate: -math.log(rate),
    lambda x: min(1.0, math.exp(-x)),
    NOISE.middle,
    NOISE.fine,
    lambda rate: min(1.0, rate * (1 + RELATIVE)),
)


def whole_up_to(most: int) -> Scale:
    return Scale(
        lambda n: -math.log(n),
        lambda x: min(most, max(1, round(math.exp(-x)))),
        lambda a, b: (int(a) + int(b)) // 2,
        lambda n: 1,
        lambda n: n + 1,
        farthest=math.log(most),
    )


@final
@dataclass(frozen=True, slots=True)
class Tried:
    """A parameter that was asked, its place on the scale, log(spent ε / budget) there, and what proves it."""

    value: float
    place: float
    excess: float
    over: bool
    proven_by: str


@final
@dataclass(frozen=True, slots=True)
class Ends:
    """A parameter within the budget, one over it, and others, the newest first."""

    safe: Tried
    over: Tried
    older: list[Tried]


@final
@dataclass(slots=True)
class Search:
    """`method` is that of the next question: the budget's, or "rdp" since the pairs have been out of reach."""

    build: Build
    scale: Scale
    budget: Budget
    method: Method | None = None

    def asked(self, value: float) -> Tried:
        budget, method = self.budget, self.method or self.budget.method
        spent, proven_by = budget.spent(self.build(value), method)
        if proven_by == "rdp" and not self.method:
            self.method = "rdp"  # safe: never less than the best
        # Safe side: whether the budget is met is compared without logarithms; what is not a number does not meet it.
        over = not spent <= budget.most
        return Tried(value, self.scale.place(value), _log_ratio(spent, budget.most), over, proven_by)

    def best(self, first: Tried) -> Tried | None:
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

    def _crossed(self, first: Tried) -> Tried | None:
        ends = self.enclosed(first)
        return None if ends is None else self.narrowed(ends).safe

    def enclosed(self, first: Tried) -> Ends | None:
        """Return two parameters between which the budget is crossed, None if there are none on the scale.

        The first step believes that ε is inversely proportional to the parameter; the next ones extrapolate, and
        reach further each time.
        """
        farthest, direction = self.scale.farthest, 1 if first.over else -1
        here, older, stretch = first, list[Tried](), 1.5
        step = max(abs(first.excess), LEAST_STEP) if math.isfinite(first.excess) else 1.0
        while direction * here.place < farthest * (1 - 1e-15):
            # At least a whole number further, and the last of them where the scale ends.
            least = math.log1p(self.scale.fine(here.value) / here.value)
            place = here.place + direction * max(step, least)
            there = self.asked(self.scale.value(min(max(place, -farthest), farthest)))
            if there.over != first.over:
                return Ends(there, here, older) if first.over else Ends(here, there, older)
            rise = abs(here.excess - there.excess)
            reach = abs(there.excess) * abs(there.place - here.place) / rise if 0 < rise < math.inf else math.inf
            step = min(max(stretch * reach, 0.01), 8 * step)
            older, here, stretch = [here, *older], there, 2 * stretch
        return None

    def narrowed(self, ends: Ends, *, by_rdp: float = 0.0) -> Ends:
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
        return Ends(safe, over, older)


def _log_ratio(spent: float, budget: float) -> float:
    if spent == 0:
        return -math.inf
    return math.log(spent / budget) if budget > 0 and 0 < spent / budget < math.inf else math.inf


def _aim(safe: Tried, over: Tried, older: list[Tried], fine: float) -> float:
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


def _crossing(safe: Tried, over: Tried, older: list[Tried]) -> tuple[float, float]:
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
