"""What an accountant keeps between questions: ε as releases come, and how much of a budget is left.

Everything here is a shorter way to an answer that `answers` would give as well; where it is not open, None says so.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, final

import numpy as np

from cumulant.inversion.contour import log_chernoff
from cumulant.inversion.growing import GrowingEpsilon
from cumulant.inversion.solve import Directions
from cumulant.mechanisms.known import Relation
from cumulant.pairs.noise import Pair
from cumulant.pairs.pair import GaussianPair

if TYPE_CHECKING:
    from cumulant.mechanisms.base import AbstractMechanism

MOST_DELTAS = 4  # at which ε is followed; others are asked anew
LAMBDAS = 2.0 ** (np.arange(-12, 41) / 4)  # orders less 1, at which a budget may be reckoned
SAFE_SHARE = 1 - 1e-9  # of a budget at one order: more than rounding of sums takes


@final
class Followed:
    """ε of a run at the δ that are asked for again and again, while releases are added."""

    __slots__ = ("_answers", "_closed", "_new", "_releases", "_running", "_sides", "relation", "run")

    def __init__(self, run: Mapping[AbstractMechanism, int], relation: Relation) -> None:
        self.run, self.relation = run, relation  # the counts of the accountant, to know them by
        self._new: dict[AbstractMechanism, int] = {}
        self._releases: dict[AbstractMechanism, tuple[Directions, int]] = {}  # to follow another δ
        self._running: dict[float, list[GrowingEpsilon]] = {}
        self._answers: dict[float, float] = {}
        self._sides = 1  # directions of the neighbours
        self._closed = False
        for mechanism, count in run.items():
            self.add(mechanism, count)

    def add(self, mechanism: AbstractMechanism, count: int) -> None:
        self._answers.clear()
        if not self._closed:
            self._new[mechanism] = self._new.get(mechanism, 0) + count

    def remember(self, log_delta: float, epsilon: float) -> None:
        """Keep an answer until something is added; the next one is near it."""
        self._answers[log_delta] = epsilon
        for side in self._running.get(log_delta, []):
            side.hear(epsilon)

    def epsilon(self, log_delta: float) -> float | None:
        """Return ε, rounded up; None where it has to be asked for anew: at first, and where no line settles it."""
        self._take_new()
        if log_delta in self._answers:
            return self._answers[log_delta]
        if self._closed or not -math.inf < log_delta < 0:
            return None
        running = self._running.get(log_delta)
        if running is None:  # followed from the next question on
            if len(self._running) < MOST_DELTAS:
                self._running[log_delta] = [GrowingEpsilon(log_delta) for _ in range(self._sides)]
                for directions, count in self._releases.values():
                    _add_to(self._running[log_delta], directions, count)
            return None
        if len(self._releases) == 1 and [count for _, count in self._releases.values()] == [1]:  # it has a formula
            return None
        worst = -math.inf
        for side in sorted(running, key=lambda side: -side.last):  # others need no line where Chernoff's bound is less
            if not side.is_at_most(worst):
                epsilon = side.epsilon()
                if math.isnan(epsilon):
                    return None
                worst = max(worst, epsilon)
        self._answers[log_delta] = worst
        return worst

    def _take_new(self) -> None:
        new, self._new = self._new, {}
        for mechanism, count in new.items():
            directions, before = self._releases.get(mechanism) or (self._directions(mechanism), 0)
            if not directions:
                self._closed = True
                return
            if len(directions) > self._sides:  # all that was added has to be turned both ways
                self._sides = len(directions)
                self._running.clear()
            self._releases[mechanism] = directions, before + count
            for running in self._running.values():
                _add_to(running, directions, count)

    def _directions(self, mechanism: AbstractMechanism) -> Directions:
        """Return the pairs of a release; none where it cannot be followed."""
        known = mechanism._known()
        # of alternatives, one record may be in the dearer of every release: directions may not be paired
        directions = None if known.sharper_curve or known.alternatives else known.directions(self.relation)
        pairs = [pair for direction in directions or () for pair, _ in direction]
        return () if directions is None or any(_may_fail(pair) for pair in pairs) else directions


def _may_fail(pair: Pair) -> bool:
    return not isinstance(pair, GaussianPair) and pair.failure > 0


def _add_to(running: list[GrowingEpsilon], directions: Directions, count: int) -> None:
    for side, one in enumerate(running):
        for pair, n in directions[side % len(directions)]:
            if isinstance(pair, GaussianPair):
                one.add_gaussian(pair.mean, n * count)
            else:
                one.add(pair, n * count)


@final
class Allowance:
    """What a budget still allows, as far as one number for each release says so: K at one order.

    While Σ K(λ) <= λε + log δ - log c(λ), Chernoff's bound of δ(ε), which is the conversion of Canonne, Kamath and
    Steinke (2020), is within the budget; so a release costs a number that is taken off. The order is the one at which
    the first release could be made most often. Beyond that, releases that were asked for ahead are counted down.
    """

    __slots__ = ("_ahead", "_asked_ahead", "_epsilon", "_lam", "_log_delta", "_prices", "_room", "run")

    def __init__(self, run: Mapping[AbstractMechanism, int], epsilon: float, log_delta: float) -> None:
        self.run = run  # the counts of the accountant: what is in them was released before
        self._epsilon, self._log_delta = epsilon, log_delta
        self._lam: float | None = None
        self._room = -math.inf
        self._prices: dict[AbstractMechanism, float] = {}
        self._asked_ahead: tuple[AbstractMechanism | None, int] = None, 0
        self._ahead = 1

    def takes(self, mechanism: AbstractMechanism, count: int) -> bool:
        """Return whether a release is proven to be within the budget, and take it off if so."""
        if count == 0:
            return True
        price = self._price_of(mechanism)
        rest = self._room - count * price
        known, left = self._asked_ahead
        is_asked = left >= count and known == mechanism
        if not rest >= 0 and not is_asked:
            return False
        # whatever else is released, what was asked for ahead is no longer known
        self._room, self._asked_ahead = rest, (mechanism, left - count) if is_asked else (None, 0)
        return True

    def numbers_ahead(self, count: int) -> Iterator[int]:
        """Yield how many releases to ask for at once, at last the one that is made: more each time that goes well."""
        while self._ahead > count:
            yield self._ahead
            self._ahead //= 4
        yield count

    def found_ahead(self, mechanism: AbstractMechanism, number: int, count: int) -> None:
        """Keep how many releases are within the budget, `count` of which are made now."""
        self._room -= count * self._price_of(mechanism)
        self._asked_ahead = mechanism, number - count
        self._ahead = 2 * number

    def _price_of(self, mechanism: AbstractMechanism) -> float:
        price = self._prices.get(mechanism)
        if price is None:
            if self._lam is None:
                self._choose_order(mechanism)
            price = self._prices[mechanism] = self._price(mechanism)
        return price

    def _choose_order(self, mechanism: AbstractMechanism) -> None:
        self._lam, limit, _ = best_order(mechanism, self._epsilon, self._log_delta)
        spent = math.fsum(count * self._price(release) for release, count in self.run.items())
        self._room = limit * SAFE_SHARE - spent if limit > 0 else -math.inf

    def _price(self, mechanism: AbstractMechanism) -> float:
        """Return K at the order, raised by the error it is allowed; inf where nothing is proven."""
        assert self._lam is not None
        curve = mechanism._known().curve()
        price = curve.at(self._lam) * (1 + 1e-12) if curve.failure == 0 else math.inf
        return price if price >= 0 else math.inf


def best_order(mechanism: AbstractMechanism, epsilon: float, log_delta: float) -> tuple[float, float, float]:
    """Return (λ, limit, n): the order at which a budget allows most releases, what K may add up to there, and how many.

    Holds for:  mechanisms that cannot fail: n releases, rounded down, are within (ε, δ) by Chernoff's bound.
    Tightness:  of one order, and of the conversion of Canonne, Kamath and Steinke (2020).
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):  # what is beyond doubles is more than enough
        limits = LAMBDAS * epsilon + log_delta - log_chernoff(LAMBDAS)
        often = np.nan_to_num(limits / np.maximum(mechanism._known().curve().log_moment(LAMBDAS), 1e-300), nan=-np.inf)
    best = int(np.argmax(often))
    return float(LAMBDAS[best]), float(limits[best]), float(often[best])
