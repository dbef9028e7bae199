"""Losses that δ cannot see, cut off smoothly.

When a record leaves a sample of Gaussian noise the loss has no largest value, and E e^{θL} has a second peak so far out
that no δ sees it; the line of an inversion would have to follow it. With 0 <= χ_i <= 1, p_i = E_{P_i}[1 - χ_i] and
L = Σ L_i of the pairs as they are,

    δ_χ(ε) <= δ(ε) <= δ_χ(ε) + 1 - Π (1-p_i)^{n_i},     δ_χ(ε) = E_P[Πχ_i · (1 - e^{ε-L})_+],

as (1 - e^{ε-L})_+ lies between 0 and 1 and releases are independent. δ_χ is inverted like δ, from E_P[χe^{zL}].

Here χ(t) = ½ erfc(a(t - c)): |erfc(x + iy)| <= e^{y²} erfc(x), since erfc(z) = (2/√π) ∫_0^∞ e^{-(z+s)²} ds, so the
trapezoidal rule stays exponentially good, and (log χ)'' lies between -2a² and 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, final

import numpy as np

from cumulant.errors import OutOfReach
from cumulant.numerics.balls import as_ball, constant, erfc, is_ball, log_sum_ball
from cumulant.numerics.logspace import Array
from cumulant.pairs.coordinate import Branch
from cumulant.pairs.law import NormalLaw, NormalMixture, evenly

if TYPE_CHECKING:
    from flint import arb

LOG_ROOT_PI = 0.5 * math.log(math.pi)
MOST_SOFT = 96.0  # times 1/a, beyond the cut, to which a tilted density is followed
STEEP, KNEE = 3.0, 3.0  # x from which -(log erfc)'' is taken as 2, and before which it is small
PLACES_PER_UNIT = 4  # of the coordinate, where a cut may be
LEFT_OUT_MARGIN = 1 + 1e-9  # of what is left out, for rounding
WINDOW_SOFT = 9.0  # over the sharpness, beyond an end of a window: there erfc is e^-81
WINDOW_FALLEN_NATS = 100.0  # below the largest density, from which it is not followed
LOOKED_AT = 1000  # places at which a tilted density in a window is looked at
LEAST = -1e-15  # of a logarithm, that is told from 0


@final
@dataclass(frozen=True, slots=True)
class CutLaw(NormalLaw):
    """A law whose density under Q is multiplied by χ; or a *window* of such a law, multiplied by X = χ_c - χ_b, b < c.

    Its loss stays what it is. Either end of a window may be missing: χ_c = 1, or χ_b = 0. As erfc falls, X lies between
    0 and 1. It is (1-χ_b) - (1-χ_c) and 1 - (1-χ_c) - χ_b as well, so at Im t = y

        |X| <= min{e^{a²y²} (χ_c + χ_b), e^{a²y²} ((1-χ_b) + (1-χ_c)), 1 + e^{a²y²} ((1-χ_c) + χ_b)}

    at Re t, where χ falls and 1-χ grows. Far from both ends, that is, a window does not grow beside the real line.
    """

    law: NormalMixture | CutLaw
    at: Any  # c
    sharpness: Any  # a
    near: Any = -math.inf  # b
    curvature: Any = field(init=False, repr=False, compare=False)
    resolved: Any = field(init=False, repr=False, compare=False)
    extremes: tuple[Any, Any] = field(init=False, repr=False, compare=False)
    terms: int = field(init=False, repr=False, compare=False)
    steepest: Any = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "curvature", self.law.curvature + 2 * self.sharpness**2)
        object.__setattr__(self, "resolved", 1 / self.sharpness)
        for name in ("extremes", "terms", "steepest"):  # its loss stays what it is
            object.__setattr__(self, name, getattr(self.law, name))

    def in_balls(self) -> CutLaw:
        law = self.law.in_balls()
        assert isinstance(law, NormalMixture | CutLaw)
        return CutLaw(law, *map(as_ball, (self.at, self.sharpness, self.near)))

    @property
    def strip(self) -> float:
        return self.law.strip

    @property
    def log_square(self) -> Any:
        return self.law.log_square

    @property
    def is_cut(self) -> bool:
        return True

    @property
    def widths(self) -> tuple[float, float]:
        soft = min(self.resolved, 1.0)
        return soft if self.near > -math.inf else 1.0, soft

    @property
    def several(self) -> bool:
        return self.law.several

    @property
    def even(self) -> Any:
        return self.law.even

    @property
    def log_variation(self) -> Any:
        return self.law.log_variation

    def batch_key(self, closeness: float) -> Hashable:
        of_law = self.law.batch_key(closeness)
        return None if of_law is None else (of_law, self.at, self.sharpness)

    def stack(self, laws: Sequence[CutLaw]) -> CutLaw:
        """Return laws that are cut at one place as one."""
        together = self.law.stack([law.law for law in laws])  # type: ignore[misc]
        assert isinstance(together, NormalMixture)  # of one kind
        return CutLaw(together, self.at, self.sharpness)

    def log_ratio(self, t: Any) -> Any:
        return self.law.log_ratio(t)

    def log_slope(self, t: Any) -> Any:
        return self.law.log_slope(t)

    def bend_on(self, low: float, high: float, largest_spread: Callable[[Array], Array]) -> float:
        return self.law.bend_on(low, high, largest_spread)

    def log_density(self, t: Any) -> Any:
        return self.law.log_density(t) + self.log_share(np.asarray(t))

    def log_share(self, t: Array) -> Array:
        """Return log X, from the difference that does not cancel."""
        x = self.sharpness * (t - self.at)
        if self.near == -math.inf:
            return log_half_erfc(x)
        y = self.sharpness * (t - self.near)
        with np.errstate(divide="ignore", invalid="ignore"):
            above = log_half_erfc(x) + _log_less(log_half_erfc(y) - log_half_erfc(x))
            below = log_half_erfc(-y) + _log_less(log_half_erfc(-x) - log_half_erfc(-y))
        return np.where(t > (self.at + self.near) / 2, above, below)

    def left_out(self, rate: Any) -> Any:
        """Return p; of a window 1, as who looks through it counts what lies outside."""
        if isinstance(self.law, CutLaw):
            return 1 + 0 * rate
        return left_out_by_cut(self.law.components(rate), self.at, self.sharpness)

    def span_start(self, branch: Branch, theta: float) -> float:
        if self.near > -math.inf:
            return float(self.near - WINDOW_SOFT / self.sharpness)
        return NormalLaw.span_start(self, branch, theta)

    def span_end(self, branch: Branch, theta: float) -> float:
        if isinstance(self.law, CutLaw):
            return self._end_of_window(branch, theta, self.law)
        last = NormalLaw.span_end(self, branch, theta)
        if branch.rises and last > self.at + MOST_SOFT / self.sharpness:
            raise OutOfReach(f"a loss tilted by {theta:g} is not cut off sharply enough")
        return last

    def _end_of_window(self, branch: Branch, theta: float, law: CutLaw) -> float:
        """Return where the tilted density has fallen for good: its last peak is not far beyond the law's own cut."""
        growth = float(sum(map(abs, branch.powers(theta)))) * self.steepest
        farthest = law.at + growth / law.sharpness**2 + WINDOW_SOFT / law.sharpness
        t = np.linspace(self.span_start(branch, theta), farthest, LOOKED_AT)
        values = branch.log_tilted_density(t, theta)
        within = np.flatnonzero(values > np.max(values) - WINDOW_FALLEN_NATS)
        if not len(within):  # doubles do not hold what is there
            raise OutOfReach(f"a window that begins at {self.near:g} standard deviations cannot be followed")
        return float(t[min(int(within[-1]) + 1, len(t) - 1)])

    def last_peak(self, growth: float) -> float:
        """The slope of log χφ is -t - 2a²(t-c) at most, for t >= c; c is not negative."""
        return float(max((growth + 2 * self.sharpness**2 * self.at) / self.curvature, self.at))

    def whole_span(self, far: float) -> tuple[float, float]:
        """Begin as much earlier as a window does later, where little of the law is left."""
        if not isinstance(self.law, CutLaw):
            return NormalLaw.whole_span(self, far)
        first, last = self.law.whole_span(far)
        return first - (max(self.near, 0.0) if self.near > -math.inf else 0.0), last

    def log_swell(self, t: Array, d: Array) -> Array:
        grown, (x, y) = (self.sharpness * d) ** 2, (self.sharpness * (t - end) for end in (self.at, self.near))
        with np.errstate(divide="ignore"):
            kept, cut = (np.logaddexp(log_half_erfc(s * x), log_half_erfc(s * y)) for s in (1, -1))
            whole = np.logaddexp(0.0, grown + np.logaddexp(log_half_erfc(-x), log_half_erfc(y)))
        swell = np.minimum(np.minimum(kept, cut) + grown, whole) - self.log_share(t)
        return np.asarray(self.law.log_swell(t, d) + swell)

    def curvature_up_to(self, t: Array) -> Array:
        """-(log erfc)'' grows with x from 0 to 2: it is g(g - 2x), g = (2/√π) e^{-x²}/erfc(x)."""
        x = np.minimum(self.sharpness * (t - self.at), STEEP)
        g = np.exp(-x * x - LOG_ROOT_PI - log_half_erfc(x))
        bend = np.where(x < STEEP, g * (g - 2 * x) * LEFT_OUT_MARGIN, 2.0)
        return np.asarray(1 + self.sharpness**2 * np.minimum(bend, 2.0))

    def cell_ends(self, low: float, high: float, width: Callable[[float], float]) -> Array:
        knee = min(max(self.at - KNEE / self.sharpness, low), high)
        gentle = float(self.curvature_up_to(np.array([knee]))[0])
        flat, steep = evenly(low, knee, width(gentle)), evenly(knee, high, width(self.curvature))
        return np.append(flat[:-1], steep) if knee > low else steep

    # In balls ---------------------------------------------------------------------------------------------------------

    def density(self, t: Any) -> Any:
        """A product: the logarithm of X at complex t may lie on either side of its cut."""
        return self.law.density(t) * np.frompyfunc(self.share_at, 1, 1)(t)

    def share_at(self, t: Any) -> Any:
        """Return χ, or X, of a ball: of two differences that are right the one that does not cancel."""
        turn = 1 if t.real > (self.at + self.near) / 2 else -1
        return (self._kept(t, self.at, turn) - self._kept(t, self.near, turn)) * turn

    def _kept(self, t: Any, end: arb, turn: int = 1) -> Any:
        """Return χ of an end, which may be missing, or 1 - χ turned by -1."""
        if not end.is_finite():
            return as_ball(1.0 if end * turn > 0 else 0.0)
        return (turn * self.sharpness * (t - end)).erfc() / 2

    def log_density_bound(self, low: arb, high: arb, y: arb) -> arb:
        grown = ((self.sharpness * y) ** 2).exp()
        far, near = (self._kept(low, end) for end in (self.at, self.near))
        beyond_far, beyond_near = (self._kept(high, end, -1) for end in (self.at, self.near))
        bound = (grown * (far + near)).min(grown * (beyond_far + beyond_near)).min(1 + grown * (beyond_far + near))
        return self.law.log_density_bound(low, high, y) + bound.log()

    def log_tails(self, ends: tuple[arb, arb], y: arb, growth: arb, log_factor: Callable[[arb], arb]) -> arb:
        """Below, 1 - χ is less than there; above, erfc(u+v) <= erfc(u) e^{-2uv}, so χ falls by 2a²(t-c) a unit at t.

        That holds for all real u, as -(log erfc)' >= 2u, and for e^{a²y²} times it. A window is at most 2e^{a²y²}.
        """
        (low, high), square = ends, (self.sharpness * y) ** 2
        if isinstance(self.law, CutLaw):
            return self.law.log_tails(ends, y, growth, log_factor) + as_ball(2.0).log() + square
        fall = high + 2 * self.sharpness**2 * (high - self.at) - growth
        if not (high > 0 and fall > 0):
            raise OutOfReach("a certificate would end its sums where a density that is cut off need not fall")
        below = self.law.log_tail(low, -low, y, growth, log_factor)
        below += (1 + square.exp() * self._kept(low, self.at, -1)).log()
        above = self.law.log_density_bound(high, high, y) + self._kept(high, self.at).log() + square
        return log_sum_ball([below, above + log_factor(high) - fall.log()])


def log_half_erfc(x: Array) -> Array:
    """Return log ½ erfc(x): from e^{x²} erfc(x) above 0, and as log(1 - ½ erfc(-x)) below."""
    from scipy.special import erfc, erfcx

    above = np.log(erfcx(np.maximum(x, 0.0)) / 2) - np.maximum(x, 0.0) ** 2
    return np.asarray(np.where(x > 0, above, np.log1p(-erfc(np.maximum(-x, 0.0)) / 2)))


def _log_less(log: Array) -> Array:
    """Return log(1 - e^x) for x < 0."""
    return np.asarray(np.log1p(-np.exp(np.minimum(log, LEAST))))


def left_out_by_cut(components: Iterable[tuple[Any, Any]], at: Any, sharpness: Any) -> Any:
    """Return p = E_P[1 - χ] of a mixture of normal laws, rounded up: of N(m, 1) it is Φ((m-c)/κ), κ² = 1 + 1/2a²."""
    width = np.sqrt(2 + 1 / (sharpness * sharpness))
    shares = [share * erfc((at - mean) / width) / 2 for share, mean in components]
    return sum(shares, constant(0.0, at)) if is_ball(at) else math.fsum(shares) * LEFT_OUT_MARGIN + 5e-324


def place_of_cut(components: Sequence[tuple[float, float]], sharpness: float, log_share: float) -> float:
    """Return the first place, of a grid, that leaves out at most e^log_share."""
    share, first, last = math.exp(log_share), 0, 32
    if share == 0:
        raise OutOfReach(f"no cut leaves out as little as e^{log_share:.0f}")
    width = math.sqrt(2 + 1 / (sharpness * sharpness))

    def is_too_near(at: float) -> bool:
        left = math.fsum(part * math.erfc((at - mean) / width) for part, mean in components)
        return left / 2 * LEFT_OUT_MARGIN + 5e-324 > share  # as `left_out_by_cut` says

    while is_too_near(last / PLACES_PER_UNIT):
        first, last = last, 2 * last
    while last - first > 1:
        middle = (first + last) // 2
        first, last = (middle, last) if is_too_near(middle / PLACES_PER_UNIT) else (first, middle)
    return last / PLACES_PER_UNIT
