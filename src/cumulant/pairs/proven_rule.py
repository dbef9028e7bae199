"""Quadrature with a proven error, for the moment integrals of a coordinate, in balls.

M(z) is the integral of F(t) = base(t)·Π w(±t)^{a}, with complex exponents a. Two rules:

- on the whole line the trapezoidal rule. If F is analytic for |Im t| <= d and ∫ |F(x+iy)| dx <= B for |y| <= d, step h
  errs by at most 2B/(e^{2πd/h} - 1) (Trefethen and Weideman 2014, Theorem 5.1);
- on half-lines and intervals Gauss-Legendre on pieces. On a piece of half-width c, if |F| <= B on the ellipse around it
  with semi-axes c(ρ ± 1/ρ)/2, n points err by at most c·(64/15)·B·ρ^{-2n}/(1 - ρ^{-2}) (Trefethen 2008, Theorem 4.5).

B comes from bounds of |F| on rectangles, `Moment.log_modulus_bound`, summed. What is left out is part of the error.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple, final

import numpy as np

from cumulant.errors import OutOfReach
from cumulant.numerics.balls import as_ball, legendre_balls, log_sum_ball, pi_ball, upper_float
from cumulant.numerics.logspace import Array
from cumulant.pairs.coordinate import Branch, CoordinatePair, Line
from cumulant.pairs.cut_law import CutLaw
from cumulant.pairs.law import NormalLaw

if TYPE_CHECKING:
    from flint import arb

DEPTH_NATS, DEPTH_BITS, BITS_PER_NAT = 66.0, 160, 1.5  # below M(θ) to which the trapezoidal rule goes with so many bits
LESS_NATS = 4.0  # below that, from which a rectangle is left out
NEGLIGIBLE_NATS = -70.0  # nats, relative to M(θ), of a piece that is left out
MOST_PROVEN_NODES = 50_000  # of a trapezoidal rule
PAD = 3.5  # standard deviations, or widths of a cut, beyond the span of the float path
RECTANGLE = 1 / 64  # wide; narrower ones are not halved
MOST_RECTANGLES = 400  # of one integral
PROVEN_STRIPS = 0.85 * 0.8 ** np.arange(46.0)  # candidates for d, in units of the widest allowed
PROVEN_LOOKS = 300  # points at which an integrand is looked at to choose among them
MOVED_GAIN = 6.0  # in the step, for which nodes are moved: real ones have faster transforms
FIRST_RECTANGLES = 12  # of the inner stretch
CLOSE_NATS = 0.5  # below what is likely of an integral, from which a rectangle is not halved
WIDEST_STRIP = 9.0  # of the coordinate

POINTS = 24  # of a Gauss-Legendre rule
RHO = 4.0  # half axes of the ellipse in which an integrand is bounded, summed, in half widths of a piece
MOST_PIECES = 6_000  # of a stretch
ELLIPSE_NATS = 20.0  # by which an integrand may grow on the ellipse around a piece, about

BEFORE_INNER = 6.0  # over the sharpness, before the inner cut
STEPS_DOWN, FARTHER = 6, 1.1  # halvings of a path's height, each farther than so many heights from what is unseen
NEAR_LIKELY_NATS = 3.0  # above what is likely, of a path that is good enough
PATH_HEIGHTS = 1.0, 0.5, 0.25, 0.125  # of the highest path beside the real line, 4 units of t or 1.2 radians of e^u
HIGHEST, HIGHEST_TURN, HIGHEST_SOFT = 4.0, 1.2, 4.0  # of such a path: y, μy and ay


@final
@dataclass(frozen=True, slots=True, eq=False)
class ProvenRule:
    """Nodes t with weights, the error of the rule relative to M(θ), and how many rectangles its proof took.

    Nodes are to be moved by iy; then the rule holds for Im z >= 0 alone.
    """

    nodes: list[tuple[arb, arb]]
    log_error: arb
    rectangles: int
    y: float = 0.0


def proven_rule(branch: Branch, theta: float, omega: float, k_theta: float, bits: int) -> ProvenRule:
    """Return nodes for all 0 <= Im z <= ω at Re z = θ."""
    moment = Moment(branch, as_ball(theta), as_ball(omega), as_ball(k_theta))
    if isinstance(branch, Line):
        return _trapezoidal(branch, moment, theta, DEPTH_NATS + (bits - DEPTH_BITS) / BITS_PER_NAT)
    return _by_pieces(branch, moment, _edges(branch, theta, omega), bits)


@final
@dataclass(frozen=True, slots=True, eq=False)
class Moment:
    """|F| relative to M(θ), for |Im z| <= ω at Re z = θ."""

    branch: Branch
    theta: arb
    omega: arb
    k_theta: arb
    exact: Branch = field(init=False)  # in balls

    def __post_init__(self) -> None:
        object.__setattr__(self, "exact", self.branch.in_balls())

    def log_modulus_bound(self, low: arb, high: arb, y: arb) -> arb:
        """Return log of a bound of |F| where low <= Re t <= high and |Im t| <= y."""
        law = self.exact.law
        total = law.log_density_bound(low, high, y) - self.k_theta
        for side, sampling in self.exact.factors:
            power = sampling.power(self.theta)
            if side == 0:
                total += power * sampling.value(law.extremes[0])
                continue
            ends = (low, high) if side > 0 else (-high, -low)
            least, most, angle = sampling.bound_on_rectangle(*law.bound_on_rectangle(*ends, y))
            total += self.omega * angle + power * (most if power >= 0 else least)
        return total

    def log_tails(self, low: arb, high: arb, y: arb) -> arb:
        """Return log of a bound of ∫ |F| outside [low, high], on the whole span or beyond, for |Im t| <= y."""
        law = self.exact.law
        if not isinstance(law, NormalLaw):
            return log_sum_ball([])
        growth = law.steepest * sum(map(abs, self.exact.powers(self.theta)), 0 * self.theta)
        return law.log_tails((low, high), y, growth, lambda end: self._log_factors(end, y)) - self.k_theta

    def _log_factors(self, t: arb, y: arb) -> arb:
        """Return a bound of log Π|w^a| at Re t that holds with slope `growth` from there on: the whole angle counts."""
        law, factors = self.exact.law, self.exact.factors
        angle = law.steepest * y
        total = len(factors) * self.omega * angle
        for side, sampling in factors:
            power = sampling.power(self.theta)
            value = power * sampling.value(law.log_ratio(side * t))
            total += value if power >= 0 else value + power * (angle / 2).cos().log()
        return total


def whole_span(branch: Branch, theta: float) -> tuple[float, float]:
    """Return a stretch outside which the tails are small, whatever the other parameters."""
    if not isinstance(branch.law, NormalLaw):
        return branch.span(theta)
    far = max(map(abs, branch.powers(theta))) * branch.steepest
    low, high = branch.law.whole_span(far)
    return (branch.law.even, high + branch.law.even) if branch.above else (low, high)


# The whole line -------------------------------------------------------------------------------------------------------


def _trapezoidal(branch: Line, moment: Moment, theta: float, depth: float) -> ProvenRule:
    """Return the rule that is off by about e^-depth: on the real line, or moved by y where that allows a wider step.

    For 0 <= Im t <= 2y, 2y·steepest < π, the imaginary part of w is not negative, so |w^{iω}| <= 1 for ω >= 0: a rule
    at Im t = y, with half-widths of strips of y, does not see ω at all. Of a falling loss y is negative.
    """
    (low, high), whole = branch.span(theta), whole_span(branch, theta)
    deeper = max(math.sqrt(2 * depth) - math.sqrt(2 * DEPTH_NATS), 0.0)
    before, behind = branch.law.widths
    low, high = low - (PAD + deeper) * before, high + (PAD + deeper) * behind
    if not low < high:
        raise OutOfReach("a law between two cuts has fallen before it begins")
    whole = min(whole[0] - deeper, low), max(whole[1] + deeper, high)
    still = Moment(branch, moment.theta, as_ball(0.0), moment.k_theta)
    looks = whole[0], low, high, whole[1]
    strip = _likely_strip(moment, theta, depth, looks)
    y = 0.0
    if moment.omega > 0:
        wider = _likely_strip(still, theta, depth, looks)
        if wider.width / (depth + wider.log_b) > 2 * MOVED_GAIN * strip.width / (depth + strip.log_b):
            moment, strip, y = still, wider, wider.width / 2
    # beyond the ends every factor counts as turned by its whole angle: the density must have fallen by as much
    farther = math.sqrt(2 * len(branch.factors) * float(moment.omega) * branch.law.steepest * strip.width)
    edges = [whole[0] - farther, *np.linspace(low, high, FIRST_RECTANGLES + 1).tolist(), whole[1] + farther]
    top, d = as_ball(strip.width), strip.width - y
    log_b, rectangles = log_integral(lambda a, b: moment.log_modulus_bound(a, b, top), sorted(set(edges)), strip.log_b)
    log_b = log_sum_ball([log_b, moment.log_tails(as_ball(edges[0]), as_ball(edges[-1]), top)])
    h = 2 * math.pi * d / (depth + max(upper_float(log_b), 0.0))
    if (high - low) / h > MOST_PROVEN_NODES:
        raise OutOfReach(f"a certificate would take {(high - low) / h:.0f} nodes")
    first, last, step = math.floor(low / h), math.ceil(high / h), as_ball(h)
    aliased = as_ball(2.0).log() + log_b - _log_expm1(2 * pi_ball() * as_ball(d) / step)
    cut = _outer(still, as_ball(y), ((whole[0], first * h), (last * h, whole[1])), h, -depth - LESS_NATS)
    # a sum beyond b is at most its first term and the integral: 1 + h times the fall there, times the integral's bound
    farthest = max(abs(whole[0]), abs(whole[1])) * max(branch.law.curvature, 1.0)
    cut.append(still.log_tails(as_ball(whole[0]), as_ball(whole[1]), as_ball(y)) + (1 + step * farthest).log())
    nodes = [(k * step, step) for k in range(first, last + 1)]
    return ProvenRule(nodes, log_sum_ball([aliased, *cut]), rectangles + len(cut), y if branch.rises else -y)


class _Strip(NamedTuple):
    """A strip |Im t| <= width, and about log B of it."""

    width: float
    log_b: float


def _likely_strip(moment: Moment, theta: float, depth: float, edges: tuple[float, float, float, float]) -> _Strip:
    """Return a strip that allows a wide step: what doubles see of it."""
    branch, law, omega = moment.branch, moment.branch.law, float(moment.omega)
    assert isinstance(law, NormalLaw)
    d = min(law.strip, WIDEST_STRIP) * PROVEN_STRIPS[:, None]
    angle, t = law.steepest * d, _looks(*edges)
    logs = branch.log_tilted_density(t, theta) - float(moment.k_theta) + law.log_swell(t, d)
    for side, sampling in branch.moving:
        share = np.exp(sampling.log_share(law.log_ratio(side * t)))
        turned = np.where(share < 0.5, share / (1 - np.minimum(share, 0.5)), 1.0)
        shrunk = np.log1p(-2 * share * (1 - share) * (1 - np.cos(angle))) / 2
        logs = logs + omega * np.minimum(turned, 1.0) * angle + min(sampling.power(theta), 0.0) * shrunk
    log_b = np.maximum(np.logaddexp.reduce(logs + np.log(np.gradient(t)), axis=1), 0.0)
    best = int(np.argmax(d[:, 0] / (depth + log_b)))
    return _Strip(float(d[best, 0]), float(log_b[best]))


def _looks(first: float, low: float, high: float, last: float) -> Array:
    """Return points between two ends, evenly spaced in the inner stretch and ever wider outside."""
    outside = 2.0 ** -np.arange(0.0, 16.0, 1 / 32)
    below, above = low - max(low - first, 1.0) * outside, high + max(last - high, 1.0) * outside[::-1]
    return np.concatenate([below, np.linspace(low, high, PROVEN_LOOKS), above])


def log_integral(log_bound: Callable[[arb, arb], arb], edges: list[float], likely: float) -> tuple[arb, int]:
    """Return log of a bound of an integral, from bounds of its integrand, and how many rectangles were formed for it.

    The largest of them is halved until each is below what is likely of their sum.
    """
    waiting: list[tuple[float, float, float, arb]] = []

    def add(a: float, b: float) -> None:
        low, high = as_ball(a), as_ball(b)
        log = log_bound(low, high) + (high - low).log()
        heappush(waiting, (-upper_float(log), a, b, log))

    for a, b in pairwise(edges):
        add(a, b)
    while -waiting[0][0] > likely - CLOSE_NATS and len(waiting) < MOST_RECTANGLES:
        _, a, b, _ = heappop(waiting)
        add(a, (a + b) / 2)
        add((a + b) / 2, b)
    return log_sum_ball([log for *_, log in waiting]), 2 * len(waiting)


def _outer(moment: Moment, y: arb, sides: Iterable[tuple[float, float]], h: float, negligible: float) -> list[arb]:
    """Return logs of bounds of the sum with step h at Im t = y on both sides of the inner stretch."""
    waiting = [(a, b) for a, b in sides if a < b]
    logs: list[arb] = []
    while waiting:
        a, b = waiting.pop()
        low, high = as_ball(a), as_ball(b)
        log = moment.log_modulus_bound(low, high, y) + (high - low + h).log()
        if log < negligible or b - a < RECTANGLE or len(logs) + len(waiting) > MOST_RECTANGLES:
            logs.append(log)
        else:
            waiting += [(a, (a + b) / 2), ((a + b) / 2, b)]
    return logs


def _log_expm1(x: arb) -> arb:
    return x + (-((-x).exp())).log1p()


# Half-lines and intervals ---------------------------------------------------------------------------------------------


def _by_pieces(branch: Branch, moment: Moment, edges: list[arb], bits: int) -> ProvenRule:
    constant = (as_ball(64.0) / 15).log() - 2 * POINTS * as_ball(RHO).log() - (1 - as_ball(RHO) ** -2).log()
    rule = legendre_balls(POINTS, bits)
    still = Moment(branch, moment.theta, 0 * moment.omega, moment.k_theta)
    # nothing is left out where the pieces begin; as much as beyond their end is counted there all the same
    pieces = [(a, b, still.log_modulus_bound(a, b, 0 * a) + (b - a).log()) for a, b in pairwise(edges)]
    seen = [(a, b) for a, b, plain in pieces if not plain < NEGLIGIBLE_NATS]
    if len(seen) * POINTS > MOST_PROVEN_NODES:
        raise OutOfReach(f"a certificate would take more than {MOST_PROVEN_NODES} nodes")
    nodes, errors = [], [moment.log_tails(-edges[-1], edges[-1], 0 * edges[0])]
    errors += [plain for *_, plain in pieces if plain < NEGLIGIBLE_NATS]
    for a, b in seen:
        half, middle = (b - a) / 2, (a + b) / 2
        reach, y = half * (RHO + 1 / RHO) / 2, half * (RHO - 1 / RHO) / 2
        errors.append(moment.log_modulus_bound(middle - reach, middle + reach, y) + half.log() + constant)
        nodes += [(a + 2 * half * node, 2 * half * weight) for node, weight in rule]
    return ProvenRule(nodes, log_sum_ball(errors), 2 * len(edges))


def _edges(branch: Branch, theta: float, omega: float) -> list[arb]:
    """Return the ends of pieces: doubles, but for the ends of the branch itself.

    The ellipse around a piece costs about e^20 against the e^-66 of the rule where the loss turns by no more than that:
    pieces are as wide as its slope allows, where they are.
    """
    low, high = whole_span(branch, theta)
    t = np.linspace(low, high, PROVEN_LOOKS)
    slope = np.minimum(np.exp(np.broadcast_to(branch.log_slope(t), t.shape)), branch.steepest_on(theta))
    turn = abs(theta + 1 + 1j * omega) * slope / ELLIPSE_NATS
    each = np.maximum(turn, max(1 / min(0.9, 0.9 * branch.law.resolved), branch.steepest / 0.7))
    pieces = np.concatenate(([0.0], np.cumsum(np.maximum(each[1:], each[:-1]) * np.diff(t))))
    count = max(math.ceil(pieces[-1]), 1)
    if count > MOST_PIECES:
        raise OutOfReach(f"a certificate would take {count} pieces of the coordinate")
    inner = [as_ball(x) for x in np.interp(np.arange(1, count) * (pieces[-1] / count), pieces, t).tolist()]
    exact = branch.in_balls()
    # a law on the whole line is integrated by pieces where u > 0: only that end is not a double
    first, last = (exact.law.even, as_ball(high)) if isinstance(branch.law, NormalLaw) else exact.span(theta)
    return [first, *inner, last]


# Beyond a frequency ---------------------------------------------------------------------------------------------------


def log_bound_beyond(pair: CoordinatePair, theta: arb, omega: arb, likely: float) -> arb:
    """Return log of a bound of |E_P[X e^{(θ+iω')L}]| for all ω' >= ω, X the share of a size, L = log w or -log w.

    On a path Im t = y(t), where y does not rise and 0 <= μy < π/2, with s = γe^u/w and a = 1+θ or -θ,

        |J(θ+iω)| <= ∫ |φX| |w(t+iy)|^a e^{-ω·arg w(t+iy)} dt,     tan arg w = s sin μy/(1 - s + s cos μy),

    and w(t)(1 - s(1 - cos μy)) <= |w(t+iy)| <= w(t), both of which grow with t. The integrand falls with ω, and arg w
    grows with s, so with t.

    Holds for:  Gaussian noise in a Poisson sample; `likely`, about what it is, says when it is good enough.
    Tightness:  the best of some y; a few nats above the integral, of which losses near the inner cut are what is left.
    """
    law = pair.law
    assert isinstance(law, CutLaw)
    soft = HIGHEST_SOFT / law.sharpness if isinstance(law.law, CutLaw) else math.inf
    highest, found = min(HIGHEST, HIGHEST_TURN / law.steepest, soft), as_ball(math.inf)
    for share in PATH_HEIGHTS:
        found = found.min(_log_bound_on_path(pair, law, (theta, omega), share * highest, likely))
        if found < likely + NEAR_LIKELY_NATS:
            break
    return found


def _log_bound_on_path(pair: CoordinatePair, law: CutLaw, z: tuple[arb, arb], y: float, likely: float) -> arb:
    branch, nothing, (theta, omega) = pair.branches[0], as_ball(0.0), z
    exact = branch.in_balls()
    noise, ((_, sampling),) = exact.law, exact.factors
    power, outer = sampling.power(theta), law.law if isinstance(law.law, CutLaw) else law
    # the path has each height up to its place: there the outer cut, whose sharpness is large, does not yet grow
    steps = [(outer.at - FARTHER * y * 2.0**-k, y * 2.0**-k) for k in range(STEPS_DOWN)]

    def log_bound(low: arb, high: arb, omega: arb = omega) -> arb:
        height = as_ball(next((height for place, height in steps if low < place), 0.0))
        sine, cosine = (noise.steepest * height).sin_cos()
        share = np.exp(sampling.log_share(noise.log_ratio(low)))
        turned = (share * sine / (1 - share + share * cosine)).atan()
        if power > 0:
            grown = power * sampling.value(noise.log_ratio(high))
        else:
            grown = power * (sampling.value(noise.log_ratio(low)) + (-share * (1 - cosine)).log1p())
        return noise.log_density_bound(low, high, height) + grown - omega * turned

    first, last = whole_span(branch, float(theta))
    places = [law.near - BEFORE_INNER / law.sharpness, law.near, law.at, *(place for place, _ in steps)]
    edges = [first, *sorted(place for place in places if first < place < last), last]
    inside = log_integral(log_bound, edges, likely)[0]
    # on each way down to the next height, which is shorter than the one before, and beyond both ends nothing may turn
    ways = [
        log_bound(as_ball(math.nextafter(place, -math.inf)), as_ball(place), nothing) + as_ball(height).log()
        for place, height in steps
        if place > first
    ]
    tails = Moment(branch, theta, nothing, nothing).log_tails(as_ball(first), as_ball(last), as_ball(y))
    return log_sum_ball([inside, *ways, tails])
