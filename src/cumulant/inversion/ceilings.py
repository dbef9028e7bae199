"""Chernoff's bounds, by which a direction of the neighbours is settled without a line of its own."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from cumulant.curves.failure import log_delta_with
from cumulant.errors import OutOfReach
from cumulant.inversion.contour import bound_epsilon, bound_log_delta
from cumulant.numerics.logspace import Array
from cumulant.pairs.grid import PER_OCTAVE

if TYPE_CHECKING:
    from cumulant.inversion.question import Question


def epsilon_ceilings(questions: Sequence[Question]) -> list[float]:
    """Return Chernoff's bounds of ε, all at the tilts of the octave that is best for the first question."""
    first = questions[0]
    if len(questions) == 1 or first.losses.one_table is not None or not first.needs_tilts or first.around is None:
        return [math.inf] * len(questions)
    bounds = _epsilons(first, first.around.theta, first.around.k)
    octave = (first.around.index + int(np.argmin(bounds))) // PER_OCTAVE
    return [float(np.min(bounds)), *(_epsilon_ceiling(question, octave) for question in questions[1:])]


def _epsilon_ceiling(question: Question, octave: int) -> float:
    if math.isnan(question.asked):
        return math.inf
    if question.losses.supremum <= 0:
        return 0.0
    theta, k, _, _ = question.seen.cumulants(octave)
    return min(max(float(np.min(_epsilons(question, theta, k))), 0.0), question.losses.supremum)


def own_epsilon_ceiling(question: Question) -> float:
    """Return Chernoff's bound of ε at the question's own tilts; inf where there are none."""
    try:
        around = question.around if question.needs_tilts else None
    except OutOfReach:
        around = None
    return math.inf if around is None else float(np.min(_epsilons(question, around.theta, around.k)))


def _epsilons(question: Question, theta: Array, k: Array) -> Array:
    """Return Chernoff's bounds of ε at what is left out of sight less than δ, rounded up."""
    left_out = question.seen.left_out
    share = math.exp(math.log(left_out) - question.asked) if left_out > 0 else 0.0  # of δ
    less = -math.log1p(-share) if share < 1 else math.inf
    return bound_epsilon(theta, k, question.asked - less)


def log_delta_ceilings(questions: Sequence[Question]) -> list[float]:
    """Return Chernoff's bounds of log δ, with what is out of sight and with the failure, rounded up."""
    if len(questions) == 1:
        return [math.inf]
    return [_log_delta_ceiling(question) for question in questions]


def _log_delta_ceiling(question: Question) -> float:
    losses, epsilon = question.losses, question.asked
    if not losses.parts or losses.failure == 1 or not 0 <= epsilon < losses.supremum or losses.one_table is not None:
        return math.inf
    if question.road.is_certain(losses, epsilon):
        return 0.0
    try:
        around = question.around
    except OutOfReach:
        return math.inf
    if around is None:
        return math.inf
    bound = float(np.min(bound_log_delta(around.theta, around.k, epsilon)))
    left_out = question.seen.left_out
    bound = bound if left_out == 0 else float(np.logaddexp(bound, math.log(left_out))) + 1e-9
    return log_delta_with(losses.failure, bound) if losses.failure > 0 else bound
