"""How much noise, how many steps: the largest run that a budget allows.

Both answers have been tested themselves: what is returned meets the budget, whatever the shape of the search.
"""

from __future__ import annotations

from collections.abc import Callable

from cumulant import parameters
from cumulant.errors import InvalidParameter
from cumulant.mechanisms.base import AbstractMechanism
from cumulant.numerics.search import largest_true, smallest_true

FARTHEST = 100  # octaves from 1 in which a parameter is looked for


def calibrate(
    build: Callable[[float], AbstractMechanism],
    *,
    epsilon: float,
    delta: float | None = None,
    log_delta: float | None = None,
    method: str = "best",
) -> float:
    """Return the smallest parameter, to 1e-9 relative, for which build(parameter) is within (ε, δ).

    The parameter is one that costs less the larger it is, like a noise multiplier or a scale. It is bracketed from 1
    by doubling and halving; the value returned was itself asked and is never an overshoot.

    >>> from cumulant import Gaussian
    >>> round(calibrate(lambda sigma: Gaussian(noise_multiplier=sigma) * 10, epsilon=1.0, delta=1e-5), 6)
    11.797...
    """
    within = _within(build, epsilon, parameters.log_of_delta(delta=delta, log_delta=log_delta), method)
    high = 1.0
    if within(high):
        while within(high / 2):
            high /= 2
            if high < 2.0**-FARTHEST:
                raise InvalidParameter(f"every parameter down to {high:g} meets epsilon={epsilon!r}: nothing to search")
        return smallest_true(within, high / 2, high, relative=1e-9)
    while not within(high):
        high *= 2
        if high > 2.0**FARTHEST:
            raise InvalidParameter(
                f"no parameter up to {high:g} meets epsilon={epsilon!r} at this delta: "
                "the budget is below what the rest of the run costs"
            )
    return smallest_true(within, high / 2, high, relative=1e-9)


def max_count(
    step: AbstractMechanism,
    *,
    epsilon: float,
    delta: float | None = None,
    log_delta: float | None = None,
    method: str = "best",
) -> int:
    """Return the most releases of a step within (ε, δ): n with ε(n) <= ε < ε(n+1).

    "Question Two" of Asoodeh et al. (2020), for every mechanism. Doubling, then bisection.

    >>> from cumulant import Gaussian
    >>> max_count(Gaussian(noise_multiplier=20.0), epsilon=6.0, delta=1e-5)
    685
    """
    log_delta = parameters.log_of_delta(delta=delta, log_delta=log_delta)
    epsilon = parameters.nonnegative("epsilon", epsilon)
    count = largest_true(lambda n: (step * n).epsilon(log_delta=log_delta, method=method) <= epsilon)
    if count is None:
        raise InvalidParameter(f"step must cost something, but 2^62 releases of {step!r} meet epsilon={epsilon!r}")
    return count


def _within(
    build: Callable[[float], AbstractMechanism], epsilon: float, log_delta: float, method: str
) -> Callable[[float], bool]:
    epsilon = parameters.nonnegative("epsilon", epsilon)
    return lambda value: build(value).epsilon(log_delta=log_delta, method=method) <= epsilon
