"""Inversion of a Laplace transform along the saddle-point line, with its error bound on either side.

For a random L with K(z) = log E e^{zL} and any θ > 0,

    δ(ε) = E(1 - e^{ε-L})_+ = (1/2π) ∫ e^{K(z) - zε} / (z(z+1)) dω,    z = θ + iω,

because 1/(z(z+1)) is the Laplace transform of (1 - e^{-x})_+. The trapezoidal rule with step η = 2π/W is, by Poisson
summation, exactly Σ_k e^{θkW} δ(ε + kW): every term is >= 0, so the full sum is an upper bound, and its excess is at
most what Chernoff's bound δ(x) <= c(τ) e^{K(τ) - τx}, c(τ) = τ^τ/(1+τ)^{1+τ}, gives at any τ > θ for k > 0 and at any
τ < θ for k < 0. The sum is cut where |e^{K}| is proven to have fallen.

Where all losses lie on a lattice the payoff's transform is a geometric series, and one period is the whole line.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, NamedTuple, Protocol, final

import numpy as np
from numpy.typing import NDArray

from cumulant.errors import OutOfReach
from cumulant.inversion.enclosure import CLOSE_NATS, EXACT_SHARE, IN_DOUBLES, Effort, Enclosure
from cumulant.numerics.complex_plane import Complex, turns
from cumulant.numerics.logspace import Array

Indices = NDArray[np.intp]

ROUNDOFF = 4e-16  # relative error of an elementary function, and of products
LARGEST_ERROR_NATS = 600.0  # of K at a node: a larger one is as useless
FIRST_ORDER_NATS = 0.1  # of K(θ) - θε, up to which its rounding may be counted to first order
EXACT_NATS = 1e-8  # slack in log δ beyond which no answer is exact
AGREED_SLACKS = 4.0  # times the slack by which δ is lowered, so that δ(ε), on a line of its own, agrees
APART_NATS, APART_SHARE = 1e-9, 0.25  # nats, and of 1e-9 of ε: the same where δ(ε) is planned by itself, at least
SMALLEST_LOG_DELTA = -650.0  # whose shares are doubles
FARTHEST_MET = 2.0  # times ε, or less, from where Newton's method begins
NEWTON_TURNS = 30  # of Newton's method
MET_NATS = 0.1  # of log δ, within which the slack at an answer is taken
MET_SHARE = 0.1  # of the slack, within which Newton's method ends: rounding goes as far
NUDGES = tuple(2.0**k for k in range(-50, -30))  # relative, by which ε is raised until δ is reached
MANY_POINTS = 2048  # of a line, whose phases are products of few
SAME_TILT = 1.01  # ratio of tilts that are taken as the same
CHERNOFF_SHARE, CHERNOFF_NATS = 1e-12, 1e-9  # of K, and more, by which Chernoff's bound is raised for its rounding


@final
@dataclass(frozen=True, slots=True)
class Lattice:
    """Losses at offset + multiples of span, each within `error` of its point.

    With δ' the profile of the points themselves, δ'(ε + error) <= δ(ε) <= δ'(ε - error).
    """

    offset: float
    span: float
    error: float = 0.0

    def payoff(self, z: Complex, epsilon: float) -> Complex:
        """Return span·Σ (1 - e^{-x}) e^{-zx} over the points x > 0 of the lattice, seen from ε: geometric series.

        With g the way from ε to the next point and h the span, that is, without a difference of two large sums,

            h e^{-zg} [(1 - e^{-g}) + e^{-zh-g} (1 - e^{g-h})] / ((1 - e^{-zh}) (1 - e^{-(z+1)h})).
        """
        h = self.span
        g = self._gap(epsilon)
        weight = -math.expm1(-g) - np.exp(-z * h) * (math.exp(-g) * math.expm1(g - h))
        return np.asarray(h * np.exp(-z * g) * weight / (np.expm1(-z * h) * np.expm1(-(z + 1) * h)))

    def _gap(self, epsilon: float) -> float:
        """Return the way to the next point above ε, in (0, h], formed exactly: a point next to ε must not be missed."""
        offset, span = Fraction(self.offset), Fraction(self.span)
        above = math.floor((Fraction(epsilon) - offset) / span) + 1
        return float(offset + above * span - Fraction(epsilon))


class Sums(NamedTuple):
    """Sums over a line in units of e^{K(θ)-θε}: Re Σ t and Re Σ zt of its terms t, and a bound of the error."""

    total: Array
    first: Array
    doubt: Array
    terms: Complex


@final
@dataclass(frozen=True, slots=True, eq=False)
class Contour(Enclosure):
    """K at the nodes θ + ijη, j >= 0, of one composition or of one in each row, and what bounds the error for every ε.

    `tail` is the sum of |e^{K-K(θ)} kernel|·η/π over nodes that were left out; `known` are real τ with K(τ), for
    Chernoff's bound. It encloses δ near the question that it was planned for; its rounding is estimated.
    """

    theta: float
    step: float
    z: Complex
    scale: Array  # K(θ)
    weights: Complex  # e^{K-K(θ)} η/π, the first halved, times the kernel where it does not depend on ε
    doubts: tuple[Array, Array]  # bounds of the error, and of what a unit of ε adds; on a lattice for each node
    tail: float | Array
    known: tuple[Array, Array]
    lattice: Lattice | None = None
    common: float = 0.0  # error of all K together, in nats: it changes the sum by a factor
    log_left_out: float | Array = -math.inf  # of P, by which δ may be larger
    route: str = "contour"
    proven: bool = False
    enough: float = CLOSE_NATS
    effort: Effort = IN_DOUBLES

    @staticmethod
    def of(
        at: tuple[float, float],
        line: tuple[Complex, Array],
        tail: float | Array,
        known: tuple[Array, Array],
        lattice: Lattice | None = None,
    ) -> Contour:
        """Return the contour at (θ, η) of K on that line, off by `error` nats at most, and of (τ, K(τ))."""
        (theta, step), (k, error) = at, line
        if not np.any(error[..., 0] <= LARGEST_ERROR_NATS):  # the scale itself is not known
            raise OutOfReach(f"K is known to {np.min(error):.3g} nats only: too many releases for doubles")
        z = theta + 1j * step * np.arange(float(k.shape[-1]))
        shares = shares_of_nodes(len(z), step)
        size, turned, astray = weigh_nodes(k, error)
        if lattice is None:
            weights = turned * (kernel := shares / (z * (z + 1)))
            doubts = astray @ np.abs(kernel), ROUNDOFF * (size @ np.abs(kernel * z))
        else:
            weights = turned * shares
            astray += ROUNDOFF * size * (np.abs(z) + 1 / lattice.span) * abs(lattice.offset)  # of the way g
            doubts = astray * shares, ROUNDOFF * size * shares * np.abs(z)
        return Contour(theta, step, z, np.asarray(k[..., 0].real), weights, doubts, tail, known, lattice)

    @staticmethod
    def of_weights(
        at: tuple[float, float], scale: float, line: tuple[Complex, Array], tail: float, known: tuple[Array, Array]
    ) -> Contour:
        """Return the contour at (θ, η) of a transform over e^scale, with its error, and of (τ, K(τ)) that bounds it."""
        (theta, step), (values, error) = at, line
        z = theta + 1j * step * np.arange(len(values))
        kernel = shares_of_nodes(len(values), step) / (z * (z + 1))
        doubt = np.abs(kernel) @ (error + ROUNDOFF * np.abs(values))
        doubts = doubt, ROUNDOFF * (np.abs(values) @ np.abs(kernel * z))
        return Contour(theta, step, z, np.asarray(scale), values * kernel, doubts, tail, known)

    def less_certain(self, common: float, log_left_out: float | Array = -math.inf) -> Contour:
        """Return the contour where all K share one error, at most `common` nats; e^log_left_out of P is left out."""
        return replace(self, common=common, log_left_out=log_left_out)

    def of_rows(self, rows: Indices) -> Contour:
        """Return some of the rows."""
        (doubt, more), (tau, k) = self.doubts, self.known
        some = self.scale[rows], self.weights[rows], (doubt[rows], more[rows])
        tail, left_out = (np.broadcast_to(one, self.scale.shape)[rows] for one in (self.tail, self.log_left_out))
        return Contour(self.theta, self.step, self.z, *some, tail, (tau, k[rows]), None, self.common, left_out)

    @property
    def points(self) -> int:
        """How many nodes there are."""
        return len(self.z)

    def log_upper(self, epsilon: float) -> tuple[float, float]:
        """Return the upper bound of log δ(ε), and its slope, approximately: that of the scale where errors rule."""
        below = self._move(epsilon, -1)
        sums = self.sums(below)
        is_known = sums.total > sums.doubt and sums.first > 0
        slope = float(sums.first / sums.total) if is_known else self.theta
        return float(self.upper(below, sums)), -slope

    def log_lower(self, epsilon: float) -> float:
        """Return the lower bound of log δ(ε); -inf where the error eats the value."""
        above = self._move(epsilon, 1)
        return float(self.lower(above, self.sums(above)))

    def log_bounds(self, epsilon: float) -> tuple[float, float]:
        """Return both, the upper one at most 0."""
        if epsilon == math.inf:
            return -math.inf, 0.0
        above, below = self._move(epsilon, 1), self._move(epsilon, -1)
        sums = self.sums(above)
        high = self.upper(below, sums if below == above else self.sums(below))
        return float(self.lower(above, sums)), min(float(high), 0.0)

    def upper(self, epsilon: float | Array, sums: Sums) -> Array:
        """Return the upper bound of log δ(ε) in every row from the sums there; 0 where that is nothing."""
        high = sums.total + sums.doubt + self.tail * math.exp(self.common)
        value = self._logs(epsilon, high, self.common, 0.0)
        if isinstance(self.log_left_out, float) and self.log_left_out == -math.inf:
            return value
        value = np.logaddexp(value, self.log_left_out)
        return value + 1e-15 * (1 + np.abs(value))

    def lower(self, epsilon: float | Array, sums: Sums) -> Array:
        """Return the lower bound of log δ(ε) in every row; -inf where the error eats the value."""
        alias = self.alias(epsilon) * math.exp(2 * self.common)  # over a scale that may be smaller than it seems
        tail = self.tail * math.exp(self.common)  # over a scale that may be smaller than it seems, as aliases are
        return self._logs(epsilon, sums.total - sums.doubt - tail - alias, -self.common, -math.inf)

    def _logs(self, epsilon: float | Array, sums: Array, more: float, otherwise: float) -> Array:
        """Return log δ of sums in units of the scale; what is not positive, not a number, or lost, says nothing."""
        fine = (sums > 0) & (sums < math.inf) & ~is_lost(self.scale, self.theta, epsilon)
        return np.where(fine, self._scale(epsilon) + np.log(np.where(fine, sums, 1.0)) + more, otherwise)

    def slope_of(self, sums: Sums) -> Array:
        """Return about -d log δ/dε, positive; NaN where errors rule."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where((sums.total > sums.doubt) & (sums.first > 0), sums.first / sums.total, np.nan)

    def bend(self, sums: Sums, slope: Array) -> Array:
        """Return about the second derivative of log δ."""
        second = self.theta * (2 * sums.first - self.theta * sums.total) - sums.terms.real @ self.z.imag**2  # Re Σ z²t
        return np.asarray(second / np.where(sums.total > 0, sums.total, 1.0) - slope**2)

    def slack_of(self, sums: Sums) -> Array:
        """Return about how far apart the bounds of log δ are, but for aliases."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(2 * (sums.doubt + self.tail) / sums.total)

    def estimated(self, epsilon: float) -> float:
        """Return how much of the distance of the bounds rests on estimates of rounding, in nats."""
        sums = self.sums(epsilon)
        return 2 * math.log1p(sums.doubt / sums.total) if sums.total > 0 else math.inf

    def sums(self, epsilon: float | Array) -> Sums:
        """Return the sums over the line at ε, or at one ε in each row."""
        terms, doubt = self.weights * self._phases(epsilon), self.doubts[0] + np.abs(epsilon) * self.doubts[1]
        if self.lattice is not None:
            assert isinstance(epsilon, float)
            kernel = self.lattice.payoff(self.z, epsilon)
            terms, doubt = terms * kernel, np.abs(kernel) @ doubt
        total = terms.real.sum(axis=-1)
        return Sums(total, self.theta * total - terms.imag @ self.z.imag, doubt, terms)

    def _phases(self, epsilon: float | Array) -> Complex:
        """Return e^{-iωε} at the nodes."""
        if isinstance(epsilon, np.ndarray):
            angles = epsilon[:, None] * self.z.imag
            phases = np.empty(angles.shape, dtype=complex)
            np.cos(angles, out=phases.real)
            np.negative(np.sin(angles, out=angles), out=phases.imag)
            return phases
        many = len(self.z) > MANY_POINTS
        return turns(-epsilon * self.step, len(self.z)) if many else np.exp(-1j * epsilon * self.z.imag)

    def _move(self, epsilon: float, side: int) -> float:
        """Return ε moved to one side by what the losses are off their lattice, and to the next double for rounding."""
        if self.lattice is None or self.lattice.error == 0:
            return epsilon
        return math.nextafter(epsilon + side * self.lattice.error, side * math.inf)

    def _scale(self, epsilon: float | Array) -> Array:
        """Return K(θ) - θε, the logarithm of what the terms were divided by."""
        return self.scale - self.theta * epsilon

    def alias(self, epsilon: float | Array) -> Array:
        """Return a bound of Σ_{k≠0} e^{θkW} δ(ε + kW), divided by e^{K(θ)-θε}."""
        off = 0.0 if self.lattice is None else self.lattice.error
        return bound_aliases((self.theta, self.step), self.known, epsilon - off, self._scale(epsilon))


def shares_of_nodes(count: int, step: float) -> Array:
    """Return η/π for each node of a line, half of it for the first, which stands for itself alone."""
    shares = np.full(count, step / math.pi)
    shares[0] /= 2
    return shares


def weigh_nodes(k: Complex, error: Array) -> tuple[Array, Complex, Array]:
    """Return |M(z)/M(θ)|, M(z)/M(θ) and bounds of its error at the nodes z of a line, from K there: the last axis.

    K is off by at most `error`; where that is too large to be of use, nothing but |M(z)| <= M(θ) is known.
    """
    scale = k[..., :1].real
    error = np.where(error[..., :1] <= LARGEST_ERROR_NATS, np.minimum(error, LARGEST_ERROR_NATS), LARGEST_ERROR_NATS)
    # |M(z)| <= M(θ), whatever rounding says
    real = np.where(error < LARGEST_ERROR_NATS, np.minimum(k.real - scale, 0.0), 0.0)
    with np.errstate(under="ignore", over="ignore"):
        size = np.exp(real)
        # |(M + Δ)^n - M^n| <= (|M| + |Δ|)^n - |M|^n, expanded by the binomial theorem
        astray = size * (np.expm1(error) + ROUNDOFF * (8 + np.abs(k)))
        return size, size * (np.cos(k.imag) + 1j * np.sin(k.imag)), astray


def bound_aliases(
    at: tuple[float, float], known: tuple[Array, Array], epsilon: float | Array, scale: float | Array
) -> Array:
    """Return a bound of Σ_{k≠0} e^{θkW} δ(ε + kW) over e^scale, W = 2π/η, from K at tilts τ: of one line, or of rows.

    Chernoff's bound at any τ > θ holds for k > 0, that at any τ < θ for k < 0, where δ <= 1 is another one.
    """
    (theta, step), (tau, k), scale = at, known, np.asarray(scale)
    window, gap = 2 * math.pi / step, np.abs(tau - theta) * (2 * math.pi / step)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = log_chernoff(tau) + k - tau * np.asarray(epsilon)[..., None] - gap - np.log(-np.expm1(-gap))
    above = np.min(logs, axis=-1, initial=np.inf, where=tau > theta * SAME_TILT)
    below = np.min(logs, axis=-1, initial=np.inf, where=tau < theta / SAME_TILT)
    below = np.minimum(below, -theta * window - math.log(-math.expm1(-theta * window)))
    return np.asarray(np.exp(np.minimum(above - scale, 700.0)) + np.exp(np.minimum(below - scale, 700.0)))


def is_lost(k: float | Array, theta: float, epsilon: float | Array) -> NDArray[np.bool_]:
    """Return where K(θ) - θε has lost its digits: its rounding is no small number, as errors of weights count it.

    Next to a largest loss tilts are as large as 1 over what is left to it.
    """
    return np.asarray(~(ROUNDOFF * (np.abs(k) + theta * np.abs(epsilon)) <= FIRST_ORDER_NATS))


def log_chernoff(tau: Any) -> Any:
    """Return log c(τ), c(τ) = max_x (1 - e^{-x}) e^{-τx} = τ^τ/(1+τ)^{1+τ}, in doubles or in balls."""
    return -tau * np.log1p(1 / tau) - np.log1p(tau)


def bound_log_delta(tau: Array, k: Array, epsilon: float | Array) -> Array:
    """Return Chernoff's bound of log δ(ε), log c(τ) + K(τ) - τε, at every tilt, rounded up."""
    return np.asarray(log_chernoff(tau) + k + CHERNOFF_SHARE * np.abs(k) - tau * epsilon + CHERNOFF_NATS)


def bound_epsilon(tau: Array, k: Array, log_delta: float) -> Array:
    """Return the ε at which Chernoff's bound is log δ, at every tilt, rounded up."""
    return bound_log_delta(tau, k, 0.0) / tau - log_delta / tau


# The ε of a δ, exactly or not at all ----------------------------------------------------------------------------------


class Bounds(Protocol):
    """Bounds of log δ(ε)."""

    def log_upper(self, epsilon: float) -> tuple[float, float]:
        """Return the upper one, and about its slope."""

    def log_bounds(self, epsilon: float) -> tuple[float, float]:
        """Return both."""

    def log_lower(self, epsilon: float) -> float:
        """Return the lower one."""


def nats_apart(bounds: Bounds, epsilon: float) -> float:
    """Return by how much less than δ an ε is asked for, so that δ(ε), planned by itself, agrees."""
    return min(APART_NATS, APART_SHARE * EXACT_SHARE * abs(bounds.log_upper(epsilon)[1]) * epsilon)


def meet_exactly(bounds: Bounds, start: float, log_delta: float, apart: float, *, at_zero: float = 0.0) -> float | None:
    """Return the least ε whose bound is a little less than log δ; None if it may be above the truth.

    Above it by EXACT_SHARE of ε, or by `at_zero`, is near enough.
    """
    rounded = 2 * ROUNDOFF * abs(log_delta)  # as the logarithm of δ was, and more
    # the slack is that at the answer, or at the start where δ(ε) will be planned by itself, too
    near = start
    if not apart > 0:
        near, _, step = _meet(bounds, (start, bounds.log_upper(start)), log_delta - rounded, MET_NATS, at_zero)
        near += step
    if math.isnan(near):
        return None
    first = bounds.log_upper(near)
    slack = min(first[0], 0.0) - bounds.log_lower(near)
    if not slack <= EXACT_NATS:
        return None
    aim, spare = log_delta - rounded - max(AGREED_SLACKS * slack, apart), MET_SHARE * slack
    epsilon, value, _ = _meet(bounds, (near, first), aim - spare, spare, at_zero)
    for nudge in NUDGES:
        if not value > aim:  # only what was tested is returned
            break
        epsilon *= 1 + nudge
        value = bounds.log_upper(epsilon)[0]
    below = min(epsilon * (1 - EXACT_SHARE), epsilon - at_zero)
    is_exact = value <= aim and bounds.log_lower(below) >= log_delta
    return epsilon if is_exact else None


def _meet(
    bounds: Bounds, at: tuple[float, tuple[float, float]], aim: float, off: float, at_zero: float
) -> tuple[float, float, float]:
    """Solve log_upper(x) = aim to `off` nats by Newton's method, from x with its bound and slope.

    Return (x, value, next step), NaN if x goes far.
    """
    start, (value, slope) = at
    x = start
    for _ in range(NEWTON_TURNS):
        step = (value - aim) / -slope
        if abs(value - aim) <= off or abs(step) <= 1e-15 * x:
            return x, value, step
        x += step
        # bounds say little so far from where they were planned
        if not start / FARTHEST_MET - at_zero < x < FARTHEST_MET * start + at_zero:
            break
        value, slope = bounds.log_upper(x)
    return math.nan, math.nan, math.nan
