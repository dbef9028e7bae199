"""How much noise, how many steps, how large a sample: the largest run that a budget allows.

Every answer has been asked itself: what is returned meets the budget, whatever the shape of the cost.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Protocol

from cumulant import parameters
from cumulant.answer import Method
from cumulant.budgets import Budget, budget_of, epsilon_budget
from cumulant.composition import Composed
from cumulant.crossing import FARTHEST, NOISE, RATE, Build, Search, whole_up_to
from cumulant.errors import BudgetExceeded, InvalidParameter
from cumulant.mechanisms.base import AbstractMechanism
from cumulant.mechanisms.online import best_order
from cumulant.parameters import MOST, by_name, require
from cumulant.printed import given, rounded_up

NORMAL_SHARE = 0.8  # of √(-2 log δ): standard deviations at which a normal loss has about that δ
LEAST_GUESS = 1e-9  # of a noise, and one over it


class Spent(Protocol):
    """What has spent before: an accountant, which knows its run."""

    @property
    def run(self) -> Composed: ...


@by_name
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
    or a `true_positive_rate` at a `false_positive_rate`. Rates are known to 1e-8, rounded to the safe side, so the
    parameter for rates is as near as that allows, and far too large for rates that are as small.

    The parameter is one that costs less the larger it is, like a noise multiplier or a scale. It is looked for from 1
    outwards, or from where a normal loss would be within the budget; the value returned was itself asked and is never
    an overshoot.

    >>> from cumulant import Gaussian
    >>> round(calibrate(lambda sigma: Gaussian(noise_multiplier=sigma) * 10, epsilon=1.0, delta=1e-5), 6)
    11.797...
    >>> round(calibrate(lambda sigma: Gaussian(noise_multiplier=sigma) * 10, advantage=0.1), 6)
    12.582...
    """
    rates = (true_positive_rate, false_positive_rate)
    budget = budget_of((epsilon, delta, log_delta), advantage, rates, method=method)
    search = Search(_builder(build), NOISE, budget)
    first = search.asked(_likely_noise(search.build, budget))
    found = search.best(first)
    if found is not None:
        return found.value
    if first.over:
        raise InvalidParameter(f"no parameter up to 2^{FARTHEST} meets {search.budget}")
    raise InvalidParameter(f"every parameter down to 2^-{FARTHEST} meets {budget.asked}: nothing to search")


@by_name
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
    search = Search(_builder(build), RATE, epsilon_budget(epsilon, delta, log_delta, method))
    first = search.asked(1.0)
    if not first.over:
        return 1.0
    found = search.best(first)
    if found is None:
        raise InvalidParameter(f"no rate down to 2^-{FARTHEST} meets {search.budget}")
    return found.value


@by_name
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
    log = parameters.log_of_delta(delta=delta, log_delta=log_delta)
    most = _room(before, step)
    start = 1 if spent is not None else _likely_count(step, epsilon, log, most)
    budget = epsilon_budget(epsilon, delta, log_delta, method)
    count = _most_within(lambda n: before + step * n, most, budget, start)
    if count == 0 and (already := budget.spent(before, method)[0]) > epsilon:
        cost = rounded_up(already, digits=4)
        raise BudgetExceeded(f"what was spent costs epsilon={cost} already, over the budget of {given(epsilon)}")
    if count == most:
        raise InvalidParameter(f"step must cost something, but {most} releases of it meet epsilon={epsilon!r}")
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
    return _most_within(build, most, epsilon_budget(epsilon, delta, log_delta, method), start)


def _most_within(build: Callable[[int], AbstractMechanism], most: int, budget: Budget, start: int) -> int:
    if parameters.whole_number("most", most) == 0:
        return 0
    search = Search(_builder(build), whole_up_to(most), budget)
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


def _likely_noise(build: Build, budget: Budget) -> float:
    """Return a noise at which a normal loss would be about within the budget, 1 where nothing is known: a start.

    A normal loss of variance v has about ε = v/2 + 0.8·√(-2v log δ), and v = nγ²(e^{μ²} - 1) on samples.
    """
    sampled = build(1.0)._known().sampled
    if budget.at is None or sampled is None or len(sampled.laws) != 1:
        return 1.0
    ((law, count),) = sampled.parts
    if not budget.most > 0 or not -math.inf < budget.at < 0:
        return 1.0
    steep = NORMAL_SHARE * math.sqrt(-2 * budget.at)
    deviation = 2 * budget.most / (steep + math.sqrt(steep * steep + 2 * budget.most))
    square = math.log1p((deviation / law.rate) ** 2 / count)
    noise = law.mean / math.sqrt(square) if square > 0 else math.inf
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
