"""Which losses are jumps, which line they take, and how long it is: doubles choose, `ball_jumps` proves."""

from __future__ import annotations

import contextlib
import math
from dataclasses import dataclass
from typing import final

import numpy as np

from cumulant.errors import OutOfReach
from cumulant.inversion.ball_line import chernoff_tilts
from cumulant.inversion.composed import ComposedPairs
from cumulant.inversion.contour import log_chernoff
from cumulant.inversion.plan import Plan, Tilts, plan_for
from cumulant.inversion.unseen import LOG_SHARE
from cumulant.numerics.logspace import Array, log_expm1
from cumulant.pairs.band_law import BandLaw
from cumulant.pairs.coordinate import CoordinatePair
from cumulant.pairs.cut_law import CutLaw, log_half_erfc, place_of_cut
from cumulant.pairs.grid import PER_OCTAVE, tilts
from cumulant.pairs.jump_law import has_jumps, log_sums, noise_of
from cumulant.pairs.maps import Leave
from cumulant.pairs.normal_law import LOG_ROOT
from cumulant.pairs.sampled_gaussian import coordinate_of

PLANNED_SHARPNESS = tuple(2.0 ** (k / 2) for k in range(13))  # of both cuts
PLANNED_SHARES = tuple(0.9 * 0.85**k for k in range(24))  # of ε, from which a loss is a jump
PLANNED_QUIET_NATS = 26.0  # below δ, where quiet losses are nothing beside it
PLANNED_NATS_PER_TILT = 8.0  # of δ, where a tilt of 1/ε is too small
PLANNED_OCTAVES_BELOW, PLANNED_OCTAVES_ABOVE = 3, 10  # of tilts, around that of one loss
OCTAVES_FOR_QUIET = 5  # of those, the last, which serve quiet losses alone
FIRST, POINTS = -12.0, 700  # of the coordinate, where losses are looked at
SOFT = 8.0  # over the sharpness, how far beyond a cut
FARTHER = 1.1 ** np.arange(1.0, 70.0)  # times that, where a far peak would be
SHIFTS = 1.0, 0.7, 0.5, 0.35, 0.25  # times the largest y
MOST_RADIANS, MOST_SOFT, MOST_SHIFT = 1.4, 4.5, 5.0  # of μy, ay and y
PLANNED_FREQUENCY_RATIO, PLANNED_FREQUENCIES, PLANNED_FIRST_POINT = 1.1, 90, 8  # at which jumps are bounded
PLANNED_MOST_JUMP_POINTS = 4000  # of a line
BEYOND, FAR_NATS = 40.0, 70.0  # over the sharpness, and below the largest: no peak may be there
BITS, BITS_PER_NAT = 128, 1.5  # of precision, and more for each nat that cancels


@final
@dataclass(frozen=True, slots=True, eq=False)
class JumpPlan:
    """Jumps, and quiet losses; a line, its tilts of Chernoff's bounds, and how its end is proven."""

    pairs: tuple[CoordinatePair, CoordinatePair]
    far: CutLaw
    rate: float
    releases: int
    line: Plan
    count: int
    y: float
    likely: float  # log |J| at the end
    chernoff: tuple[int, ...]
    quiet_index: int
    bits: int
    first: int  # index of the first tilt
    logs: tuple[Array, Array]  # of the moments of both pairs at tilts, about

    @property
    def index(self) -> int:
        return self.line.index

    @property
    def theta(self) -> float:
        return self.line.theta

    @property
    def eta(self) -> float:
        return self.line.eta

    def log_moment(self, pair: CoordinatePair, index: int) -> float:
        """Return about K of one release."""
        return float(self.logs[0 if pair is self.pairs[0] else 1][index - self.first])


def plan_jumps(losses: ComposedPairs, epsilon: float, log_delta: float) -> JumpPlan:
    """Return the plan whose line is the shortest; raise `OutOfReach` where there is none."""
    if len(losses.parts) != 1 or losses.variance > 0 or not 0 < epsilon < math.inf:
        raise OutOfReach("jumps are followed of one kind of release alone")
    (pair, n), found = losses.parts[0], []
    if not has_jumps(pair):
        raise OutOfReach("jumps are known of Gaussian noise on samples, when a record leaves")
    for sharpness in PLANNED_SHARPNESS:
        with contextlib.suppress(OutOfReach):
            found.append(_JumpSplit(pair, n, epsilon, log_delta, sharpness).plan())
            if found[-1].count > found[0].count:  # sharper cuts have longer lines from here on
                break
    if not found:
        raise OutOfReach("no line of jumps is known for this δ")
    return min(found, key=lambda plan: plan.count)


@final
class _JumpSplit:
    """Losses on points t, cut with one sharpness."""

    def __init__(self, pair: CoordinatePair, n: int, epsilon: float, log_delta: float, sharpness: float) -> None:
        self.n, self.epsilon, self.log_delta, self.a = n, epsilon, log_delta, sharpness
        self.noise, self.rate = noise_of(pair), pair.sampling.rate
        log_each = log_delta + LOG_SHARE - math.log(n)
        self.far = place_of_cut(list(self.noise.components(self.rate)), sharpness, log_each)
        near = np.linspace(FIRST, self.far + SOFT / sharpness, POINTS)
        self.t = np.append(near, self.far + SOFT / sharpness * FARTHER)
        assert isinstance(pair.sampling, Leave)  # it has jumps
        self.sampling = pair.sampling
        self.losses = self.sampling.value(self.noise.log_ratio(self.t))
        self.log_p = -self.t * self.t / 2 - LOG_ROOT + self.losses + np.log(np.gradient(self.t))
        tilt = (1 - log_delta / PLANNED_NATS_PER_TILT) / epsilon
        first = math.floor(math.log2(tilt)) - PLANNED_OCTAVES_BELOW
        self.tau = np.concatenate([tilts(first + k) for k in range(PLANNED_OCTAVES_BELOW + PLANNED_OCTAVES_ABOVE)])
        self.first, self.exponents = first * PER_OCTAVE, self.tau[:, None] * self.losses
        spread = 2 * math.log(self.rate) + float(self.noise.log_square)
        self.log_excess = np.minimum(spread + np.log(self.tau) + np.log1p(self.tau) - math.log(2.0), 0.0)
        self.k = self._cumulants(self.far)

    def _chernoff(self, k: Array) -> Array:
        return log_chernoff(self.tau) + self.n * k - self.tau * self.epsilon

    def plan(self) -> JumpPlan:
        """Return the plan of the farthest near cut below which losses are quiet; raise `OutOfReach` without one."""
        found, first, last = self._at_share(PLANNED_SHARES[-1]), 0, len(PLANNED_SHARES) - 1
        while found is not None and first < last:
            middle = (first + last) // 2
            nearer = self._at_share(PLANNED_SHARES[middle])
            found, first, last = (found, middle + 1, last) if nearer is None else (nearer, first, middle)
        if found is None:
            raise OutOfReach("no losses are so small that they make up nothing of this δ")
        return self._with(*found)

    def _at_share(self, share: float) -> tuple[float, Array] | None:
        """Return the place of this share of ε, and K of losses below it, if those are quiet."""
        near = coordinate_of(share * self.epsilon, self.noise.mean, self.rate)
        if not near < self.far:
            return None
        quiet = self._cumulants(near)
        return (near, quiet) if float(np.min(self._chernoff(quiet))) <= self.log_delta - PLANNED_QUIET_NATS else None

    def _cuts(self, near: float) -> tuple[CutLaw, CutLaw]:
        return CutLaw(self.noise, self.far, self.a), CutLaw(self.noise, near, self.a)

    def _cumulants(self, at: float) -> Array:
        """Return K of losses that are cut off here, infinite at tilts where what is far beyond matters."""
        logs = self.log_p + log_half_erfc(self.a * (self.t - at)) + self.exponents
        beyond = self.t > at + BEYOND / self.a
        far = np.max(logs[:, beyond], axis=1) > np.max(logs, axis=1) + self.log_excess - FAR_NATS
        return np.where(far, math.inf, log_sums(logs))

    def _with(self, near: float, quiet: Array) -> JumpPlan:
        count = min(len(self.tau) - OCTAVES_FOR_QUIET * PER_OCTAVE, int(np.argmax(np.append(self.k + quiet, math.inf))))
        if count < PER_OCTAVE:
            raise OutOfReach("far losses matter at all tilts")
        n, jumps = self.n, self.log_p + BandLaw(*self._cuts(near)).log_between(self.t)
        log_j = log_sums(jumps + self.exponents[:count])
        k = n * quiet[:count] + log_expm1(n * np.logaddexp(0.0, log_j - quiet[:count]))
        line = plan_for(Tilts(self.first, self.tau[:count], k, np.ones(count), self.epsilon, self.log_delta))
        place = line.index - self.first
        omega, y, likely = self._end(line, jumps, (float(quiet[place]), float(k[place])))
        bits = BITS + math.ceil(BITS_PER_NAT * (line.height + 2 * math.log2(n + 1)))
        cuts = self._cuts(near)
        pairs = tuple(CoordinatePair(law, self.sampling) for law in (BandLaw(*cuts), cuts[1]))
        quiet_place = int(np.argmin(self._chernoff(quiet)))
        pairs[1].branches[0].span(float(self.tau[quiet_place]))  # which may be out of reach
        return JumpPlan(
            (pairs[0], pairs[1]),
            cuts[0],
            self.rate,
            n,
            line,
            math.ceil(omega / line.eta) + 1,
            y,
            likely,
            tuple(chernoff_tilts(line, line.eta)),
            self.first + quiet_place,
            bits,
            self.first,
            (log_j, quiet),
        )

    def _end(self, line: Plan, jumps: Array, logs: tuple[float, float]) -> tuple[float, float, float]:
        """Return where the line may end, by which y, and log |J| there."""
        quiet, scale = logs
        mean, best = self.noise.mean, None
        omega = PLANNED_FIRST_POINT * line.eta * PLANNED_FREQUENCY_RATIO ** np.arange(float(PLANNED_FREQUENCIES))
        share = np.exp(self.sampling.log_share(self.noise.log_ratio(self.t)))
        for shift in SHIFTS:
            y = shift * min(MOST_RADIANS / mean, MOST_SOFT / self.a, MOST_SHIFT)
            turned = np.arctan2(share * math.sin(mean * y), 1 - share + share * math.cos(mean * y))
            still = jumps + line.theta * self.losses + (0.5 + self.a**2) * y * y + math.log(2.0)
            log_j = log_sums(still - omega[:, None] * turned)
            fallen = self.n * quiet + log_expm1(self.n * np.logaddexp(0.0, log_j - quiet)) - scale - np.log(omega)
            done = np.flatnonzero(fallen <= -line.height - line.accuracy)
            if len(done) and (best is None or omega[done[0]] < best[0]):
                best = float(omega[done[0]]), y, float(log_j[done[0]])
        if best is None or best[0] > PLANNED_MOST_JUMP_POINTS * line.eta:
            raise OutOfReach("a line of jumps takes too many points")
        return best
