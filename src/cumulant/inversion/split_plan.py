"""Which losses are quiet, middle, far and unseen, and which lines these take: doubles choose, `ball_split` proves."""

from __future__ import annotations

import contextlib
import math
from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np

from cumulant.errors import OutOfReach
from cumulant.inversion.ball_line import chernoff_tilts
from cumulant.inversion.composed import ComposedPairs
from cumulant.inversion.contour import log_chernoff
from cumulant.inversion.out_of_sight import LOG_SHARE
from cumulant.inversion.plan import Plan, Tilts, plan_for
from cumulant.numerics.logspace import Array, log_expm1
from cumulant.pairs.coordinate import CoordinatePair
from cumulant.pairs.curve import PER_OCTAVE, tilts
from cumulant.pairs.cut_law import CutLaw, WindowLaw, log_half_erfc, place_of_cut
from cumulant.pairs.maps import Join, Leave, MixtureMap
from cumulant.pairs.noise import GaussianNoise

RARE_SHARE, FARTHEST_RARE = 0.1, 11.0  # of ε, the spread of all losses; t of one that makes up ε
SPLIT_QUIET_NATS = 26.0  # below δ, where quiet losses are nothing beside it
SPLIT_QUIET_SHARES = tuple(0.9 * 0.85**k for k in range(24))  # of ε, up to which losses are quiet
SPLIT_SHARPNESS = tuple(2.0 ** (k / 2) for k in range(13))  # of the window's ends
LEAST_HARDNESS, LARGEST_SPLIT_TILT = 64.0, 1000.0  # sharpness of the cut beyond which all is unseen; over ε
NATS_PER_SPLIT_TILT = 8.0  # of δ, where a tilt of 1/ε is too small
SPLIT_OCTAVES_BELOW, SPLIT_OCTAVES_ABOVE = 4, 8  # of tilts, around that of one loss
OCTAVES_FOR_QUIET = 3  # of those, the last, which serve quiet losses alone
SPLIT_FIRST, SPLIT_POINTS = -12.0, 400  # of the coordinate, where losses are looked at
SPLIT_SOFT = 8.0  # over the sharpness, how far beyond a cut
SPLIT_SHIFTS = 1.0, 0.7, 0.5, 0.35, 0.25  # times the largest y
MOST_RADIANS, MOST_SOFT, MOST_SHIFT = 1.4, 4.5, 5.0  # of μy, ay and y
STEPS_DOWN, STEEP = 6, 1.1  # halvings of a path's height, each farther than so many heights from what is unseen
SPLIT_RATIO, SPLIT_FREQUENCIES, FIRST_SPLIT_POINT = 1.1, 90, 8  # of the frequencies at which a line may end
MOST_SPLIT_POINTS = 4000  # of a line
SPLIT_BITS, SPLIT_BITS_PER_NAT = 128, 1.5  # of precision, and more for each nat that cancels
SHARPNESS_OF_NODES = 3.0  # added to the sharpness: the nodes of a rule are about as many as that


@final
@dataclass(frozen=True, slots=True, eq=False)
class Between:
    """What lies between an inner and an outer cut: a line, tilts of Chernoff's bounds, and how its end is proven."""

    pairs: tuple[CoordinatePair, CoordinatePair]  # between the cuts, and below the inner one
    line: Plan
    count: int  # of points; 0 where Chernoff's bound is next to nothing
    y: float
    likely: float  # log |J| at the end
    chernoff: tuple[int, ...]
    first: int  # index of the first tilt
    logs: tuple[Array, Array]  # of the moments of both pairs at tilts, about

    @property
    def inner(self) -> CoordinatePair:
        return self.pairs[1]

    @property
    def theta(self) -> float:
        return self.line.theta

    @property
    def eta(self) -> float:
        return self.line.eta

    def log_moment(self, pair: CoordinatePair, index: int) -> float:
        """Return about K of one release."""
        return float(self.logs[0 if pair is self.pairs[0] else 1][index - self.first])


@final
@dataclass(frozen=True, slots=True, eq=False)
class SplitPlan:
    """Where losses are split, and the lines of middle and of far ones."""

    middle: Between
    mirror: Between | None
    far: CutLaw
    unseen: CutLaw
    rate: float
    releases: int
    epsilon: float
    quiet_index: int  # of the tilt of Chernoff's bound of quiet losses
    log_quiet: float  # log S there, about
    bits: int

    @property
    def price(self) -> float:
        """About how much longer than another both lines take."""
        points = self.middle.count + (0 if self.mirror is None else self.mirror.count)
        return float(points * (self.far.sharpness + SHARPNESS_OF_NODES))


@final
class Steps(NamedTuple):
    """Gaussian noise on a Poisson sample, released `times` times, when a record leaves."""

    noise: GaussianNoise
    rate: float
    times: int

    @staticmethod
    def of(losses: ComposedPairs) -> Steps:
        """Return what losses are of, cut off or not; raise `OutOfReach` where they are of something else."""
        if len(losses.parts) == 1 and losses.variance == 0:
            ((pair, n),) = losses.parts
            law = pair.law if isinstance(pair, CoordinatePair) and isinstance(pair.sampling, Leave) else None
            noise = law.law if isinstance(law, CutLaw) else law
            if isinstance(pair, CoordinatePair) and isinstance(noise, GaussianNoise) and pair.sampling.rate < 1:
                return Steps(noise, pair.sampling.rate, n)
        raise OutOfReach("losses are split of Gaussian noise on one kind of sample, when a record leaves")

    def is_rare(self, epsilon: float) -> bool:
        """Return whether all but a few losses together are far from ε, and one as large is not out of sight."""
        if not 0 < epsilon < math.inf:
            return False
        spread = math.sqrt(self.times) * self.rate * math.exp(min(float(self.noise.log_square) / 2, 300.0))
        return spread < RARE_SHARE * epsilon and place_of_loss(epsilon, self.noise.mean, self.rate) < FARTHEST_RARE


def plan_ball_split(steps: Steps, epsilon: float, log_delta: float) -> SplitPlan:
    """Return the plan whose lines are the shortest; raise `OutOfReach` where there is none."""
    if not (0 < epsilon < math.inf and -math.inf < log_delta < 0):
        raise OutOfReach("losses are split about a point of the profile")
    _Split(steps, epsilon, log_delta, SPLIT_SHARPNESS[-1]).quiet_at(SPLIT_QUIET_SHARES[-1])
    found: list[SplitPlan] = []
    for sharpness in SPLIT_SHARPNESS:
        with contextlib.suppress(OutOfReach):
            found.append(_Split(steps, epsilon, log_delta, sharpness).plan())
            if found[-1].price > found[0].price:  # sharper ends have longer lines from here on
                break
    if not found:
        raise OutOfReach("no split is known for this δ")
    return min(found, key=lambda plan: plan.price)


@final
class _Split:
    """Losses on points t, cut with one sharpness."""

    def __init__(self, steps: Steps, epsilon: float, log_delta: float, sharpness: float) -> None:
        noise, rate, n = steps
        self.noise, self.rate, self.n, self.a = noise, rate, n, sharpness
        self.epsilon, self.log_delta = epsilon, log_delta
        log_each = log_delta + LOG_SHARE - math.log(n)
        # at no tilt of use does the cut leave a peak where losses grow with t itself, which they do from there on
        straight = max((1 - math.log(epsilon)) / noise.mean, 1.0)
        hardness = max(LEAST_HARDNESS, math.sqrt(LARGEST_SPLIT_TILT / epsilon) / straight)
        self.unseen = place_of_cut(list(noise.components(rate)), hardness, log_each)
        self.cut = CutLaw(noise, self.unseen, hardness)
        self.far = min(place_of_loss(epsilon, noise.mean, rate), self.unseen)
        self.t = np.linspace(SPLIT_FIRST, self.unseen + SPLIT_SOFT / hardness, SPLIT_POINTS)
        ratio = noise.log_ratio(self.t)
        self.log_w, self.share = Leave(rate).value(ratio), np.exp(Leave(rate).log_share(ratio))
        self.log_q, self.width = self.cut.log_density(self.t), float(self.t[1] - self.t[0])
        middle = math.floor(math.log2((1 - log_delta / NATS_PER_SPLIT_TILT) / epsilon))
        self.first = (middle - SPLIT_OCTAVES_BELOW) * PER_OCTAVE
        self.tau = np.concatenate([tilts(middle + k) for k in range(-SPLIT_OCTAVES_BELOW, SPLIT_OCTAVES_ABOVE)])
        self.leaving = self.log_q + math.log(self.width) + (1 + self.tau)[:, None] * self.log_w

    def plan(self) -> SplitPlan:
        """Return the plan; raise `OutOfReach` without one."""
        near, quiet = self._quiet()
        # the least tilt that shows it: larger ones take more nodes
        place = int(np.argmax(self._chernoff(quiet) <= self.log_delta - SPLIT_QUIET_NATS))
        middle, mirror = self._between(Leave(self.rate), near, self._outer, (self.epsilon, self.log_delta)), None
        if self.far < self.unseen:
            at = -self.epsilon, self.log_delta - self.epsilon
            mirror = self._between(Join(self.rate), self.far, math.inf, at)
        height = max(part.line.height for part in (middle, mirror) if part is not None)
        return SplitPlan(
            middle,
            mirror,
            CutLaw(self.noise, self.far, self.a),
            self.cut,
            self.rate,
            self.n,
            self.epsilon,
            self.first + place,
            float(quiet[place]),
            SPLIT_BITS + math.ceil(SPLIT_BITS_PER_NAT * (height + 2 * math.log2(self.n + 1))),
        )

    @property
    def _outer(self) -> float:
        """Where far losses begin; inf where that is where they are unseen."""
        return self.far if self.far < self.unseen else math.inf

    def _quiet(self) -> tuple[float, Array]:
        """Return the farthest place below which losses are quiet, and K of those."""
        found, first, last = self.quiet_at(SPLIT_QUIET_SHARES[-1]), 0, len(SPLIT_QUIET_SHARES) - 1
        while first < last:
            middle = (first + last) // 2
            try:
                found, last = self.quiet_at(SPLIT_QUIET_SHARES[middle]), middle
            except OutOfReach:
                first = middle + 1
        return found

    def quiet_at(self, share: float) -> tuple[float, Array]:
        """Return the place of a share of ε, and K of losses below it; raise `OutOfReach` where those are not quiet."""
        near = place_of_loss(share * self.epsilon, self.noise.mean, self.rate)
        quiet = _log_row_sums(self.leaving + log_half_erfc(self.a * (self.t - near)))
        if not near < self._outer or not float(np.min(self._chernoff(quiet))) <= self.log_delta - SPLIT_QUIET_NATS:
            raise OutOfReach("losses that are so small make up some of this δ")
        return near, quiet

    def _chernoff(self, k: Array) -> Array:
        return np.asarray(log_chernoff(self.tau) + self.n * k - self.tau * self.epsilon)

    def _between(self, sampling: MixtureMap, inner: float, outer: float, at: tuple[float, float]) -> Between:
        """Return the line of what lies between two cuts, for an ε and a log δ."""
        law, below = (WindowLaw(self.cut, at, self.a, near) for at, near in ((outer, inner), (inner, -math.inf)))
        pairs = CoordinatePair(law, sampling), CoordinatePair(below, sampling)
        tau = self.tau[: -OCTAVES_FOR_QUIET * PER_OCTAVE]
        exponents = self.log_q + math.log(self.width) + sampling.power(tau)[:, None] * self.log_w
        between = law.log_window(self.t)
        log_j = _log_row_sums(exponents + between)
        log_s = _log_row_sums(exponents + log_half_erfc(self.a * (self.t - inner)))
        k = self.n * log_s + log_expm1(self.n * np.logaddexp(0.0, log_j - log_s))
        tilts_known = Tilts(self.first, tau, k, np.ones(len(tau)), *at)
        settled = np.flatnonzero(log_chernoff(tau) + k - tau * at[0] <= at[1] - SPLIT_QUIET_NATS)
        if len(settled):
            place = int(settled[0])
            line = Plan(self.first + place, float(tau[place]), 0.0, 0.0, 1.0, tilts_known)
            return Between(pairs, line, 0, 0.0, 0.0, (), self.first, (log_j, log_s))
        line = plan_for(tilts_known)
        place = line.index - self.first
        omega, y, likely = self._end(line, sampling, between, (float(log_s[place]), float(k[place])))
        points = math.ceil(omega / line.eta) + 1
        return Between(
            pairs,
            line,
            points,
            y,
            likely,
            tuple(chernoff_tilts(tilts_known, line.index, line.eta)),
            self.first,
            (log_j, log_s),
        )

    def _end(
        self, line: Plan, sampling: MixtureMap, between: Array, logs: tuple[float, float]
    ) -> tuple[float, float, float]:
        """Return where the line may end, by which y, and log |J| there."""
        log_s, scale = logs
        mean, power, best = self.noise.mean, sampling.power(line.theta), None
        omega = FIRST_SPLIT_POINT * line.eta * SPLIT_RATIO ** np.arange(float(SPLIT_FREQUENCIES))

        def modulus(height: Array) -> Array:
            shrunk = min(power, 0.0) * np.log1p(-self.share * (1 - np.cos(mean * height)))
            grown = (0.5 + self.a**2) * height**2 + math.log(2.0)
            return np.asarray(self.log_q + between + power * self.log_w + shrunk + grown)

        for shift in SPLIT_SHIFTS:
            y = shift * min(MOST_RADIANS / mean, MOST_SOFT / self.a, MOST_SHIFT)
            path, ways = np.zeros(len(self.t)), [-math.inf]
            for place, height in reversed(steps_down(self.unseen, y)):
                path[self.t < place] = height
                ways.append(float(np.interp(place, self.t, modulus(np.full(len(self.t), height))) + math.log(height)))
            turned = np.arctan2(self.share * np.sin(mean * path), 1 - self.share + self.share * np.cos(mean * path))
            log_j = _log_row_sums(modulus(path) + math.log(self.width) - omega[:, None] * turned)
            log_j = np.logaddexp(log_j, np.logaddexp.reduce(ways))  # on which nothing may turn
            fallen = self.n * log_s + log_expm1(self.n * np.logaddexp(0.0, log_j - log_s)) - scale - np.log(omega)
            done = np.flatnonzero(fallen <= -line.height - line.accuracy)
            if len(done) and (best is None or omega[done[0]] < best[0]):
                best = float(omega[done[0]]), y, float(log_j[done[0]])
        if best is None or best[0] > MOST_SPLIT_POINTS * line.eta:
            raise OutOfReach("a line takes too many points")
        return best


def steps_down(unseen: float, y: float) -> list[tuple[float, float]]:
    """Return (place, height) of a path at Im t = y that comes down to the real line before losses are unseen.

    The path has each height up to its place: there the cut, whose sharpness is large, does not yet grow.
    """
    return [(unseen - STEEP * y * 2.0**-k, y * 2.0**-k) for k in range(STEPS_DOWN)]


def place_of_loss(loss: float, mean: float, rate: float) -> float:
    """Return t with log w(t) = loss."""
    return (loss + math.log(-math.expm1(-loss) + rate * math.exp(-loss)) - math.log(rate)) / mean + mean / 2


def _log_row_sums(exponents: Array) -> Array:
    """Return the logarithm of the sum of e^x over each row."""
    peak = np.max(exponents, axis=1)
    return np.asarray(peak + np.log(np.sum(np.exp(exponents - peak[:, None]), axis=1)))
