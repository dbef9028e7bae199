"""How exact answers come about: the saddle-point line in the complex plane, and how few nodes it takes.

The question is the first one of the README: Gaussian noise of one sensitivity, one record in a hundred, 1000 steps.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np

from cumulant.inversion.composed import ComposedPairs
from cumulant.inversion.contour import Contour, log_chernoff
from cumulant.inversion.lines import enclosures_at
from cumulant.inversion.plan import plan_for, tilts_for_delta
from cumulant.mechanisms.base import AbstractMechanism
from cumulant.mechanisms.gaussian import Gaussian
from cumulant.numerics.complex_plane import Complex
from cumulant.numerics.logspace import Array
from cumulant.pairs.discrete import DiscreteLosses
from cumulant.papers.sheet import BLACK, BLUE, GREEN, GREY, ORANGE, PINK, RED, Sheet
from cumulant.report.chart import Chart, Series

STEP = Gaussian(noise_multiplier=1.0).poisson(rate=0.01)
DELTA = 1e-5
LEVELS = range(5, -7, -1)  # powers of ten, relative to the saddle
LEFT, RIGHT, TOP = 0.25, 7.6, 9.0  # of the complex plane
FARTHER = 3.0  # Re z of a line that is not a good one
ROUNDING = 1e-12  # what the rounding of sums leaves
NEGLIGIBLE = 32.0  # nats below the middle of the line
FEWEST, MOST = 6, 64  # nodes
QUESTIONS = ((1_000, 1e-5, RED), (100_000, 1e-5, GREEN), (1_000, 1e-15, PINK))  # releases and δ


@final
@dataclass(frozen=True, eq=False)
class Question:
    """δ(ε) of n releases of one pair whose record leaves, the line that the plan chose, and quadrature nodes."""

    count: int
    epsilon: float
    contour: Contour
    nodes: DiscreteLosses

    @staticmethod
    def of(step: AbstractMechanism, count: int, delta: float) -> Question:
        directions = (step * count)._known().directions(None)
        assert directions is not None  # STEP has a pair
        losses = ComposedPairs.of(directions[0])
        tilts = tilts_for_delta(losses, math.log(delta))
        assert tilts is not None  # its losses have no largest value
        contour = next(enclosures_at(losses, plan_for(tilts)))
        assert isinstance(contour, Contour)  # its characteristic function falls
        nodes = losses.parts[0][0].nodes(2.5 * contour.theta, 2 * contour.step * contour.points + TOP)
        return Question(count, (step * count).epsilon(delta=delta), contour, nodes)

    def log_integrand(self, theta: float, step: float, count: int) -> Complex:
        """Return log F(z) on the line Re z = θ at Im z = 0, η, 2η, …: F(z) = e^{K(z) - zε}/(z(z+1))."""
        z = theta + 1j * step * np.arange(count)
        k = self.nodes.log_moment(theta, step, count, self.nodes.cumulants(np.array([theta]))[0][:, 0])[0][0]
        return np.asarray(self.count * k - z * self.epsilon - np.log(z * (z + 1)))

    def log_sum(self, theta: float, points: int) -> float:
        """Return the logarithm of the trapezoidal rule with a number of points on the part of the line that matters."""
        step = self.reach / (points - 1)
        terms = np.exp(self.log_integrand(theta, step, points) - self.scale).real
        return self.scale + math.log((float(np.sum(terms)) - float(terms[0]) / 2) * step / math.pi)

    @cached_property
    def reach(self) -> float:
        """Where the integrand has become negligible on the plan's line, by looking: this is a drawing, not a proof."""
        step = self.contour.step * (self.contour.points - 1) / 4000
        heights = self.log_integrand(self.contour.theta, step, 4001).real
        return step * int(np.flatnonzero(heights > heights[0] - NEGLIGIBLE)[-1])

    @cached_property
    def saddle(self) -> float:
        """The θ at which F is least on the real axis."""
        theta = np.linspace(0.1, 2.5, 2401)[1:-1] * self.contour.theta
        k = self.count * self.nodes.cumulants(theta)[0][0]
        return float(theta[np.argmin(k - theta * self.epsilon - np.log(theta * (theta + 1)))])

    @cached_property
    def scale(self) -> float:
        """The logarithm of F at the saddle."""
        return float(self.log_integrand(self.saddle, 1.0, 1)[0].real)

    @property
    def lines(self) -> tuple[tuple[float, str, str], ...]:
        """Three values of Re z, on which integrals are equal: the plan's, the saddle's, and a bad one."""
        theta, saddle = self.contour.theta, self.saddle
        return (
            (theta, RED, f"Re z = {theta:.2f}, the plan"),
            (saddle, BLUE, f"Re z = {saddle:.2f}, the saddle"),
            (FARTHER, ORANGE, f"Re z = {FARTHER:g}"),
        )

    def log_alias(self, points: int) -> float:
        """Return the logarithm of the bound of what the trapezoidal rule adds, by Chernoff at any other tilt."""
        theta, step = self.contour.theta, self.reach / (points - 1)
        tilts = np.geomspace(theta / 8, 2.5 * theta, 400)
        gap = np.abs(tilts - theta) * (2 * math.pi / step)
        logs = log_chernoff(tilts) + self.count * self.nodes.cumulants(tilts)[0][0] - tilts * self.epsilon
        bounds = logs - gap - np.log(-np.expm1(-gap))
        return float(np.logaddexp(np.min(bounds[tilts > theta]), np.min(bounds[tilts < theta])))


def line(*, points: int = 80) -> Sheet:
    """Return the modulus of the integrand around its saddle, with the line and its nodes, and F along three lines."""
    question = Question.of(STEP, 1000, DELTA)
    title = "The saddle-point line: σ = 1, one record in 100, 1000 steps, δ = $10^{-5}$"
    return Sheet(title=title, rows=((_plane(question, points), _along(question, points)),))


def nodes(*, points: int = 40) -> Sheet:
    """Return the error of the trapezoidal rule against the number of its nodes."""
    few, many = (np.unique(np.geomspace(FEWEST, most, points).round()).astype(int) for most in (MOST, 16 * MOST))
    charts = _on_three_lines(Question.of(STEP, 1000, DELTA), few.tolist()), _questions(many.tolist())
    return Sheet(title="How few nodes are enough: the error against certified values", rows=(charts,))


def _plane(question: Question, points: int) -> Chart:
    thetas = np.linspace(LEFT, RIGHT, points)
    omega = np.linspace(0.0, TOP, 4 * points)
    logs = [question.log_integrand(theta, float(omega[1]), len(omega)).real for theta in thetas.tolist()]
    heights = np.asarray(logs, dtype=np.float64) - question.scale
    levels = [_level(thetas, omega, heights, power) for power in LEVELS]
    (theta, color, label), step = question.lines[0], question.contour.step
    marks = tuple(step * j for j in range(-math.floor(TOP / step), math.floor(TOP / step) + 1))
    return Chart(
        curves=(
            *levels,
            Series(label=label, x=(theta, theta), y=(-TOP, TOP), color=color),
            Series(label="its nodes", x=(theta,) * len(marks), y=marks, color=color, line="."),
            Series(label="the pole at 0 and the saddle", x=(0.0, question.saddle), y=(0.0, 0.0), color=BLACK, line="."),
        ),
        x_label="Re z",
        y_label="Im z",
        title="|F(z)| around the saddle",
    )


def _level(thetas: Array, omega: Array, heights: Array, power: int) -> Series:
    """Return where |F| first falls below a power of ten, on both sides of the real axis."""
    over = heights - power * math.log(10)
    first = np.argmax(over < 0, axis=1)
    known = np.flatnonzero(first > 0)
    a, b = over[known, first[known] - 1], over[known, first[known]]
    place = np.full(len(thetas), np.inf)  # a gap in the drawing
    place[known] = omega[first[known] - 1] + a / (a - b) * (omega[1] - omega[0])
    on_axis = over[:, 0]
    turns = np.flatnonzero(np.diff(np.sign(on_axis)))  # where a level above the saddle meets the real axis
    meets = thetas[turns] + np.diff(thetas)[turns] * on_axis[turns] / (on_axis[turns] - on_axis[turns + 1])
    x, y = np.append(thetas, meets), np.append(place, np.zeros(len(turns)))
    order = np.argsort(x)
    shade = round(60 + 140 * (LEVELS[0] - power) / (LEVELS[0] - LEVELS[-1]))
    return Series(
        label="levels of |F|, a factor of 10 apart",
        x=(*x[order].tolist(), RIGHT, *x[order].tolist()),
        y=(*y[order].tolist(), math.inf, *(-y[order]).tolist()),
        color=f"#{shade // 2:02x}{shade:02x}{min(shade + 60, 255):02x}",
        width=0.9,
    )


def _along(question: Question, points: int) -> Chart:
    """Return Re F/2πδ: the area under each line is 1."""
    omega = np.linspace(-TOP, TOP, 4 * points + 1)
    log_delta = question.log_sum(question.contour.theta, question.contour.points) + math.log(2 * math.pi)
    curves = []
    for theta, color, label in question.lines:
        half = np.exp(question.log_integrand(theta, TOP / (2 * points), 2 * points + 1) - log_delta).real
        values = np.append(half[:0:-1], half)  # the conjugate's is the same
        curves.append(Series(label=label, x=tuple(omega.tolist()), y=tuple(values.tolist()), color=color))
    return Chart(curves=tuple(curves), x_label="Im z", y_label="Re F/2πδ", title="F on three lines: every area is 1")


def _on_three_lines(question: Question, counts: list[int]) -> Chart:
    truth = _certified(1000, question.epsilon)
    bounds = [question.log_alias(count) - truth for count in counts]
    proven = Series(label="proven bound, the plan", x=_floats(counts), y=_exponents(bounds), color=GREY, line="--")
    curves = [
        Series(label=label, x=_floats(counts), y=_errors(question, theta, counts, truth), color=color)
        for theta, color, label in question.lines
    ]
    return _error_chart([proven, *curves], "1000 steps, δ = $10^{-5}$")


def _questions(counts: list[int]) -> Chart:
    curves = []
    for count, delta, color in QUESTIONS:
        question = Question.of(STEP, count, delta)
        truth = _certified(count, question.epsilon)
        errors = _errors(question, question.contour.theta, counts, truth)
        label = f"{count:,} steps, δ = $10^{{{round(math.log10(delta))}}}$"
        curves.append(Series(label=label, x=_floats(counts), y=errors, color=color))
    return _error_chart(curves, "each question on its own line", x_scale="log")


def _certified(count: int, epsilon: float) -> float:
    """Return log δ(ε), from the middle of its certified interval."""
    interval = (STEP * count).delta_interval(epsilon=epsilon)
    return math.log(interval.lower / 2 + interval.upper / 2)


def _errors(question: Question, theta: float, counts: list[int], truth: float) -> tuple[float, ...]:
    return _exponents([_log_distance(question.log_sum(theta, count) - truth) for count in counts])


def _log_distance(excess: float) -> float:
    """Return the logarithm of the relative error, not below what rounding leaves."""
    return math.log(max(abs(math.expm1(excess)), ROUNDING))


def _exponents(logs: list[float]) -> tuple[float, ...]:
    return tuple(max(log, math.log(ROUNDING)) / math.log(10) for log in logs)


def _floats(counts: list[int]) -> tuple[float, ...]:
    return tuple(map(float, counts))


def _error_chart(curves: list[Series], title: str, x_scale: str = "linear") -> Chart:
    return Chart(
        curves=tuple(curves),
        x_label="nodes with Im z >= 0",
        y_label="relative error of δ",
        x_scale=x_scale,
        y_scale="exponent",
        title=title,
    )
