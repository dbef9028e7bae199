"""Many questions together: arrays of δ, of ε, of counts, or of runs.

What `inversion.batch` settles comes from there; every other question is asked by itself (`answers`). Either way an
answer is what a single question would be told, to 1e-9, and on the safe side.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cumulant import parameters
from cumulant.answer import EXACTLY, Method, delta_from_log
from cumulant.errors import OutOfReach
from cumulant.inversion.batch import epsilon_of_rows, log_delta_of_rows, profile_of_rows
from cumulant.inversion.row_ceilings import are_within
from cumulant.inversion.rows import Rows
from cumulant.mechanisms import answers
from cumulant.mechanisms.known import Known, Relation
from cumulant.profiles.legendre import false_negative_rates
from cumulant.profiles.tradeoff import false_negative_rate

if TYPE_CHECKING:
    from cumulant.mechanisms.base import AbstractMechanism

Array = NDArray[np.float64]
Directed = Sequence[tuple[Rows, NDArray[np.bool_]]]
"""For each direction of the neighbours, runs as rows, and which of them may be asked together."""


class Answer(NamedTuple):
    """What is asked of rows, and which of them are proven to have an answer that is at most another."""

    of: Callable[[Rows, Array, float], Array]
    is_at_most: Callable[[Rows, Array, Array], NDArray[np.bool_]]


EPSILON = Answer(epsilon_of_rows, lambda rows, log_delta, epsilon: are_within(rows, epsilon, log_delta))
LOG_DELTA = Answer(log_delta_of_rows, are_within)

CLOSE_RATES = 1e-8  # share of ε: δ is known better than the rates that are read off it
MOST_NUMBERS = 2_000_000  # of a matrix of counts: more runs are asked in parts


def epsilons_at(known: Known, relation: Relation, log_delta: Array, method: Method, accuracy: float) -> Array:
    """Return ε of one run at every δ."""
    found = _together(_one_run(known, relation, log_delta.size, method), EPSILON, log_delta.ravel(), accuracy)
    for i in np.flatnonzero(np.isnan(found)):
        found[i] = answers.guarantee_at_delta(
            known, relation, float(log_delta.flat[i]), method, accuracy=accuracy
        ).epsilon
    return found.reshape(log_delta.shape)


def deltas_at(known: Known, relation: Relation, epsilon: Array, method: Method, accuracy: float) -> Array:
    """Return δ of one run at every ε."""
    asked = _nearer(known, epsilon.ravel())
    found = _together(_one_run(known, relation, asked.size, method), LOG_DELTA, asked, accuracy)
    values = np.array([math.nan if math.isnan(one) else delta_from_log(one) for one in found])
    for i in np.flatnonzero(np.isnan(values)):
        values[i] = answers.guarantee_at_epsilon(known, relation, float(asked[i]), method, accuracy=accuracy).delta
    return values.reshape(epsilon.shape)


def log_deltas_at(known: Known, relation: Relation, epsilon: Array, method: Method, accuracy: float) -> Array:
    """Return log δ of one run at every ε."""
    asked = _nearer(known, epsilon.ravel())
    found = _together(_one_run(known, relation, asked.size, method), LOG_DELTA, asked, accuracy)
    for i in np.flatnonzero(np.isnan(found)):
        found[i] = answers.guarantee_at_epsilon(known, relation, float(asked[i]), method, accuracy=accuracy).log_delta
    return found.reshape(epsilon.shape)


def _nearer(known: Known, epsilon: Array) -> Array:
    """Return ε, none so large that its products are no doubles; see `answers.nearer_epsilon`."""
    most = answers.nearer_epsilon(known, float(np.max(epsilon, initial=0.0)))
    return np.minimum(epsilon, most)


def tradeoffs_at(known: Known, relation: Relation, rate: Array, method: Method, accuracy: float) -> Array:
    """Return the smallest false negative rate of one run at every false positive rate, rounded down."""
    found = np.full(rate.size, np.nan)
    directions = known.directions(relation) if rate.size and _goes_by_pairs(known, method) else None
    rows = [Rows.multiples(direction, np.ones(1)) for direction in directions or ()]
    if rows and all(fit[0] for _, fit in rows):

        def profile(row: Rows) -> Callable[[Array], tuple[Array, Array, Array]]:
            return lambda epsilon: profile_of_rows(row.repeated(len(epsilon)), epsilon, max(accuracy, CLOSE_RATES))

        def last(log_delta: float) -> float:
            """Return an ε at about this δ, or more; NaN where that is not settled."""
            values = [float(epsilon_of_rows(row, np.array([log_delta]), 1e-3)[0]) for row, _ in rows]
            return max(values) if not any(map(math.isnan, values)) else math.nan

        with contextlib.suppress(OutOfReach):
            found = false_negative_rates([profile(row) for row, _ in rows], last, rate.ravel())

    def delta(epsilon: float) -> float:
        return answers.guarantee_at_epsilon(known, relation, epsilon, method, accuracy=accuracy).delta

    asked: dict[float, float] = {}
    for i in np.flatnonzero(np.isnan(found)):
        found[i] = false_negative_rate(delta, float(rate.flat[i]), asked)
    return found.reshape(rate.shape)


def epsilons_of_counts(
    step: AbstractMechanism, counts: Array, log_delta: Array, method: Method, accuracy: float
) -> Array:
    """Return ε of `step * n` for every n, each at its δ."""
    known, relation = step._known(), step.neighbors
    directed: Directed = []
    if not known.alternatives and _goes_by_pairs(known, method, single=False):  # alternatives mix under composition
        directed = [Rows.multiples(direction, counts) for direction in known.directions(relation) or ()]
        if known.single:  # one release is what its profile says
            directed = [(rows, fit & (counts > 1)) for rows, fit in directed]
    found = _together(directed, EPSILON, log_delta, accuracy)
    for i in np.flatnonzero(np.isnan(found)):
        run = step * int(counts[i])
        found[i] = run.epsilon(log_delta=float(log_delta[i]), method=method, accuracy=accuracy)
    return found


@parameters.by_name
def epsilons(
    runs: Sequence[AbstractMechanism],
    *,
    delta: ArrayLike | None = None,
    log_delta: ArrayLike | None = None,
    method: Method = "best",
    accuracy: float = EXACTLY,
) -> Array:
    """Return ε of many runs at δ, evaluated together: an array as long as `runs`. δ is one number, or one for each run.

    >>> import cumulant as cm
    >>> runs = [cm.Gaussian(noise_multiplier=sigma).poisson(rate=0.01) * 1000 for sigma in (0.8, 1.0, 1.2)]
    >>> cm.epsilons(runs, delta=1e-5).round(4)
    array([3.141 , 1.8282, 1.2986])
    """
    parameters.require(isinstance(runs, Iterable), "runs must be a sequence of cumulant mechanisms", runs)
    runs = list(runs)
    for run in runs:
        parameters.require(hasattr(run, "_known"), "runs must be cumulant mechanisms, such as accountant.run", run)
    share = parameters.accuracy(accuracy)
    logs = parameters.logs_of_deltas(delta=delta, log_delta=log_delta)
    parameters.require(logs.shape in ((), (1,), (len(runs),)), f"delta must be one number, or {len(runs)}", logs.shape)
    asked = np.broadcast_to(logs, (len(runs),))
    found = np.full(len(runs), np.nan)
    knowns = [run._known() for run in runs]
    if delta is not None:
        each = np.broadcast_to(np.asarray(delta, dtype=float), asked.shape)
        asked = np.array([answers.log_asked(*one) for one in zip(knowns, each.tolist(), asked.tolist(), strict=True)])
    several = [
        directions if _goes_by_pairs(known, method) and (directions := known.directions(run.neighbors)) else ()
        for run, known in zip(runs, knowns, strict=True)
    ]
    for number in {len(directions) for directions in several} - {0}:
        chosen = np.array([i for i, directions in enumerate(several) if len(directions) == number])
        for part in np.array_split(chosen, math.ceil(len(chosen) ** 2 / MOST_NUMBERS)):
            directed = [Rows.of([several[i][side] for i in part]) for side in range(number)]
            found[part] = _together(directed, EPSILON, asked[part], share)
    for i in np.flatnonzero(np.isnan(found)):
        found[i] = runs[i].epsilon(log_delta=float(asked[i]), method=method, accuracy=share)
    return found


def _goes_by_pairs(known: Known, method: Method, *, single: bool = True) -> bool:
    """Return whether the pairs answer, not a formula or Rényi DP; `single` says that one release may be asked for."""
    answers.check_method(method)
    if method == "rdp" or known.sharper_curve:
        return False
    return not (single and known.single and known.profile() is not None)


def _one_run(known: Known, relation: Relation, questions: int, method: Method) -> Directed:
    """Return one run as many rows."""
    if not questions or not _goes_by_pairs(known, method):
        return []
    return [Rows.multiples(direction, np.ones(questions)) for direction in known.directions(relation) or ()]


def _together(directed: Directed, answer: Answer, asked: Array, accuracy: float) -> Array:
    """Return the largest answer over directions in every row; NaN where one of them is not settled.

    A direction is not asked where Chernoff's bound says that its answer is no larger than that of another.
    """
    found = np.full(len(asked), np.nan if not directed else -np.inf)
    for rows, fit in directed:
        there = np.flatnonzero(fit & ~np.isnan(found))
        here = np.full(len(asked), np.nan)
        some = rows.of_rows(there)
        is_less = answer.is_at_most(some, asked[there], found[there])
        here[there[is_less]] = found[there[is_less]]
        open_still = np.flatnonzero(~is_less)
        if len(open_still):
            with contextlib.suppress(OutOfReach):
                here[there[open_still]] = answer.of(some.of_rows(open_still), asked[there[open_still]], accuracy)
        found = np.maximum(found, here)  # NaN stays
    return found
