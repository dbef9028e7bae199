"""Many questions together: arrays of δ, of ε, of counts, or of runs.

What `inversion.batch` settles comes from there; every other question is asked by itself (`answers`). Either way an
answer is what a single question would be told, to 1e-9, and on the safe side.
"""

from __future__ import annotations

import contextlib
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cumulant import parameters
from cumulant.answer import EXACTLY, Guarantee, Method, delta_from_log
from cumulant.curves.best_order import epsilon_from_cgf, log_delta_from_cgf
from cumulant.curves.curve import Curve
from cumulant.curves.tradeoff import false_negative_rates_of_curve
from cumulant.errors import InvalidParameter, OutOfReach
from cumulant.inversion.batch import epsilon_of_rows, log_delta_of_rows
from cumulant.inversion.composed import multiples_of, rows_of
from cumulant.inversion.rows import Rows
from cumulant.inversion.shared_profile import SharedProfile
from cumulant.inversion.solve import Directions
from cumulant.mechanisms import answers
from cumulant.mechanisms.known import Known, Relation
from cumulant.pairs.sampled_gaussian import SampledGaussian
from cumulant.profiles.tradeoff import Bounds, false_negative_rates, last_epsilon

if TYPE_CHECKING:
    from cumulant.mechanisms.base import AbstractMechanism

Array = NDArray[np.float64]
Directed = Sequence[tuple[Rows, NDArray[np.bool_]]]
"""For each direction of the neighbours, runs as rows, and which of them may be asked together."""


class Answer(NamedTuple):
    """What is asked of rows, and which of them are proven to have an answer that is at most another."""

    of: Callable[[Rows, Array, float], Array]
    is_at_most: Callable[[Rows, Array, Array], NDArray[np.bool_]]


EPSILON = Answer(epsilon_of_rows, lambda rows, log_delta, epsilon: rows.are_within(epsilon, log_delta))
LOG_DELTA = Answer(log_delta_of_rows, Rows.are_within)

FEW_RUNS = 4  # of the same pairs: fewer are asked one by one
CLOSE_RATES = 1e-9  # nats of δ, from which rates are read
MOST_NUMBERS = 2_000_000  # of a matrix of counts: more runs are asked in parts


def epsilons_at(known: Known, relation: Relation, log_delta: Array, method: Method, accuracy: float) -> Array:
    """Return ε of one run at every δ."""
    asked = log_delta.ravel()
    found = _together(_one_run(known, relation, asked.size, method), EPSILON, asked, accuracy)
    for i in np.flatnonzero(np.isnan(found)):
        found[i] = answers.guarantee_at_delta(known, relation, float(asked[i]), method, accuracy=accuracy).epsilon
    return found.reshape(log_delta.shape)


def deltas_at(known: Known, relation: Relation, epsilon: Array, method: Method, accuracy: float) -> Array:
    """Return δ of one run at every ε."""
    found, others = _logs_at(known, relation, epsilon, method, accuracy)
    values = np.array([math.nan if math.isnan(one) else delta_from_log(one) for one in found])
    for i, one in others.items():
        values[i] = one.delta
    return values.reshape(epsilon.shape)


def log_deltas_at(known: Known, relation: Relation, epsilon: Array, method: Method, accuracy: float) -> Array:
    """Return log δ of one run at every ε."""
    found, others = _logs_at(known, relation, epsilon, method, accuracy)
    for i, one in others.items():
        found[i] = one.log_delta
    return found.reshape(epsilon.shape)


def _logs_at(
    known: Known, relation: Relation, epsilon: Array, method: Method, accuracy: float
) -> tuple[Array, dict[int, Guarantee]]:
    """Return log δ that rows settle, NaN elsewhere, and what single questions say there.

    No ε is so large that its products are no doubles; see `answers.nearer_epsilon`.
    """
    asked = np.minimum(epsilon.ravel(), answers.nearer_epsilon(known, float(np.max(epsilon, initial=0.0))))
    found = _together(_one_run(known, relation, asked.size, method), LOG_DELTA, asked, accuracy)
    return found, {
        int(i): answers.guarantee_at_epsilon(known, relation, float(asked[i]), method, accuracy=accuracy)
        for i in np.flatnonzero(np.isnan(found))
    }


def tradeoffs_at(known: Known, relation: Relation, rate: Array, method: Method, accuracy: float) -> Array:
    """Return the smallest false negative rate of one run at every false positive rate, rounded down.

    A formula says it, or else pairs; where these are in doubt, or not known, the largest of what is proven.
    """
    x = rate.ravel()
    if not len(x):
        return np.zeros(rate.shape)
    formula, directions = answers.ways(known, relation, method)
    if formula is not None:
        end = last_epsilon(formula.epsilon, x)
        found, _ = false_negative_rates(_without_slack(formula.log_deltas), end, x)
        return found.reshape(rate.shape)
    is_open = np.full(len(x), directions is None or known.may_be_sharper)
    if directions is None and method == "best":
        directions = known.by_profiles(relation)
    found = np.zeros(len(x))
    if directions is not None:
        profile = SharedProfile(directions, max(accuracy, CLOSE_RATES))
        found, doubt = false_negative_rates(profile.bounds, last_epsilon(profile.last, x), x)
        is_open |= doubt > answers.ROUGH_NATS * np.minimum(found, 1 - found)
    if method != "exact" and np.any(is_open):
        found[is_open] = np.maximum(found[is_open], _by_curve(known.curve(), x[is_open]))
    return found.reshape(rate.shape)


def _by_curve(curve: Curve, rates: Array) -> Array:
    if curve.failure == 0:
        return false_negative_rates_of_curve(curve, rates)

    def log_deltas(epsilon: Array) -> Array:
        return np.array([log_delta_from_cgf(curve, one)[0] for one in epsilon.tolist()])

    end = last_epsilon(lambda log_delta: epsilon_from_cgf(curve, log_delta)[0], rates)
    return false_negative_rates(_without_slack(log_deltas), end, rates)[0]


def _without_slack(log_deltas: Callable[[Array], Array]) -> Bounds:
    return lambda epsilon: (log_deltas(epsilon), np.zeros(len(epsilon)))


def epsilons_of_counts(
    step: AbstractMechanism, counts: Array, log_delta: Array, method: Method, accuracy: float
) -> Array:
    """Return ε of `step * n` for every n, each at its δ."""
    known, relation = step._known(), step.neighbors
    directed: Directed = []
    if not known.alternatives and _goes_by_pairs(known, method, single=False):  # alternatives mix under composition
        directed = [multiples_of(direction, counts) for direction in known.directions(relation) or ()]
        if known.single:  # one release is what its profile says
            directed = [(rows, fit & (counts > 1)) for rows, fit in directed]
    found = _together(directed, EPSILON, log_delta, accuracy)
    for i in np.flatnonzero(np.isnan(found)):
        run = step * int(counts[i])
        found[i] = run.epsilon(log_delta=float(log_delta[i]), method=method, accuracy=accuracy)
    return found


def epsilon_curve_of(
    step: AbstractMechanism,
    counts: Array,
    *,
    delta: ArrayLike | None,
    log_delta: ArrayLike | None,
    method: Method,
    accuracy: float,
) -> Array:
    """Return ε of `step * n` for every n, at one δ or each at its own."""
    asked = parameters.logs_of_deltas(delta=delta, log_delta=log_delta)
    if asked.size != 1 and asked.shape != counts.shape:
        raise InvalidParameter(f"delta must be one number or as many as counts, got {asked.size} for {counts.size}")
    counts, asked = np.broadcast_arrays(counts, asked)
    if delta is not None and step._known().failure() > 0:
        stated = np.broadcast_to(np.asarray(delta, dtype=float), counts.shape)
        each = zip(counts.flat, stated.flat, asked.flat, strict=True)
        runs = [answers.log_asked((step * int(n))._known(), one, log) for n, one, log in each]
        asked = np.array(runs).reshape(counts.shape)
    return epsilons_of_counts(step, counts.ravel(), asked.ravel(), method, accuracy).reshape(counts.shape)


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
    # rows share what is kept of a pair: a run whose pairs hardly any other has is asked by itself
    kinds = Counter(law for known in knowns if known.sampled is not None for law in set(known.sampled.laws))
    several = [_shared_directions(run, known, method, kinds) for run, known in zip(runs, knowns, strict=True)]
    number_of_runs = Counter(pair for directions in several for pair in {pair for one in directions for pair, _ in one})
    for number in {len(directions) for directions in several} - {0}:
        alike = [i for i, directions in enumerate(several) if len(directions) == number]
        shared = [i for i in alike if min(number_of_runs[pair] for one in several[i] for pair, _ in one) >= FEW_RUNS]
        for part in np.array_split(np.array(shared, dtype=np.intp), 1 + len(shared) ** 2 // MOST_NUMBERS):
            directed = [rows_of([several[i][side] for i in part]) for side in range(number)]
            found[part] = _together(directed, EPSILON, asked[part], share)
    for i in np.flatnonzero(np.isnan(found)):
        found[i] = runs[i].epsilon(log_delta=float(asked[i]), method=method, accuracy=share)
    return found


def _shared_directions(
    run: AbstractMechanism, known: Known, method: Method, kinds: Mapping[SampledGaussian, int]
) -> Directions:
    """Return the pairs of a run that rows may answer; none where it has none, or hardly any other has its laws."""
    laws = () if known.sampled is None else known.sampled.laws
    if any(kinds[law] < FEW_RUNS for law in laws) or not _goes_by_pairs(known, method):
        return ()
    directions = known.directions(run.neighbors)
    return directions if directions is not None and all(directions) else ()


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
    return [multiples_of(direction, np.ones(questions)) for direction in known.directions(relation) or ()]


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
