"""Few releases of Laplace noise, and of few outputs: δ(ε) as the finite sum that it is.

N releases of Laplace noise with parameters θ_i have (see `closed`)

    M(z) = Σ_S e^{-Θ_S} e^{z x_S} (z+1)^{N-k} z^k / (2z+1)^N,   k = |S|,  Θ_S = Σ_{i in S} θ_i,  x_S = Σ θ_i - 2Θ_S,

over all sets S of releases; outputs of other releases add their losses to x and multiply by their masses. The inverse
transform of one term over z(z+1) vanishes where x <= ε (close the line to the right), and is else, with y = x - ε, the
sum of the residues at -½, at 0 for k = 0 and at -1 for k = N. With v = 2z + 1, and 0 < k < N in the first line,

    R_k(y) = 2^{1-N} e^{-y/2} Σ_{j=1}^{N-1} κ_{kj} (y/2)^j/j!,   κ_{kj} = [v^{N-1-j}] (v+1)^{N-k-1} (v-1)^{k-1},
    R_0(y) = e^{-y/2} Σ_{j>=1} (y/2)^j/j! · P(Bin(N-1, ½) < j),
    R_N(y) = -e^{-y/2} Σ_{j>=1} (-y/2)^j/j! · P(Bin(N-1, ½) < j),

the last two with what their second residues, 1 and -e^{-y}, have as series. For N = 0 it is 1 - e^{-y}. So

    δ(ε) = Σ_{x_S > ε} e^{-Θ_S} R_{|S|}(x_S - ε):

nothing is left but rounding, and that is bounded by the sum of the absolute terms. Equal releases share their sets.

Of many releases there are too many sets, but next to the largest loss few are above ε (`sum_top`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from typing import NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from cumulant.inversion.closed import (
    LONGEST_SERIES,
    MOST_AT_TOP,
    MOST_OUTPUTS,
    ClosedLosses,
    Outputs,
    least_distance,
)
from cumulant.inversion.composed import ComposedPairs
from cumulant.inversion.enclosure import CLOSE_NATS, IN_DOUBLES, Effort, WholeEnclosure
from cumulant.numerics.logspace import Array
from cumulant.numerics.rounding import HALF_ULP, log_above, log_below

FEW_SUMS = 1000  # of losses, up to which all are formed in balls
MOST_TERMS = 20_000  # of the sum
MOST_LAPLACE = 40  # releases, beyond which terms cancel
MOST_TERMS_AT_TOP, MOST_TURNED = 2000, 12  # of that sum, and the largest k in it
SHARES_OF_TOP = 1 / 4, 1 / 2, 1.0  # of that distance to the largest loss, one after the other
TOP_MARGIN = 1e-6  # of the largest loss, and 1 % of the distance to it, by which terms are summed farther than needed
TERM_UNITS, POWER_UNITS = 2.0**-48, 2.0**-51  # by which a term may be off, relatively, and for each of its powers
LOG_SCALED = -10.0  # of the first weight, below which all are taken beside it
LOG_WEIGHTS = (-600.0, 300.0)  # smaller ones are charged whole, of larger ones is no sum
UNDERFLOW = 1e-300  # more than all products lose by underflow
DROWNED = 1e6  # slips: nearer to the largest loss no line says more
MOST_AT_ONCE = 20_000  # terms times powers that are formed at once
HALVINGS = 4  # of the stretch on which a first ε is looked for
UNSEEN_SHARE = math.exp(-45.0)  # of the first term of a series
STEP_OF_SERIES = 32  # lengths are multiples, so that questions next to each other share their coefficients
SERIES = 60  # powers of y/2 beyond N, and two for each unit of y


class Terms(NamedTuple):
    """How far losses are below the largest one, with logarithms of weights and with k."""

    below: Array
    log_weights: Array
    k: NDArray[np.int64]

    def with_one_more(self, below: Array, log_weights: Array, k: NDArray[np.int64], reach: float) -> Terms:
        """Return the terms with one more release, or n equal ones, if they are within reach."""
        farther = np.add.outer(self.below, below).ravel()
        seen = farther < reach
        heavier, more = np.add.outer(self.log_weights, log_weights).ravel(), np.add.outer(self.k, k).ravel()
        return Terms(farther[seen], heavier[seen], more[seen])


class Sum(NamedTuple):
    """δ(ε), a bound of its rounding, and about dδ/dε."""

    delta: float
    doubt: float
    slope: float


@final
@dataclass(frozen=True, slots=True, eq=False)
class PiecewiseSum(WholeEnclosure):
    """Places x, the largest first, with weights and k; coefficients of (y/2)^j/j! beside 2^{1-N}, a row for each k.

    Weights include that, and are beside e^`log_scale`, which is small where all are.
    """

    x: Array
    log_scale: float
    weights: Array
    k: NDArray[np.int64]
    coefficients: Array
    releases: int  # N, of Laplace noise
    slip: float  # by which a loss may be off
    weight_slip: float  # by which a weight may be off, relatively
    floor: float = 0.0  # the least ε of which all terms are there
    underflown: float = 0.0  # more than what all weights that underflow make
    route: str = "pieces"
    proven: bool = False
    enough: float = CLOSE_NATS
    effort: Effort = IN_DOUBLES

    def log_bounds(self, epsilon: float) -> tuple[float, float]:
        return self.log_lower(epsilon), self.log_upper(epsilon)[0]

    def log_lower(self, epsilon: float) -> float:
        if epsilon < self.floor:
            return -math.inf
        slip = self.slip + 2 * HALF_ULP * epsilon
        here = self._sum(epsilon, slip, slip)
        low = here.delta - here.doubt
        return log_below(self.log_scale + math.log(low)) if low > 0 else -math.inf

    def log_upper(self, epsilon: float) -> tuple[float, float]:
        if epsilon < self.floor:
            return 0.0, math.nan
        # losses are rounded: from above δ is taken where no loss next to ε is missed; terms that rise with y are then
        # no less than they should be, others may be off by twice as much
        slip = self.slip + 2 * HALF_ULP * epsilon
        delta, doubt, slope = self._sum(max(epsilon - slip, 0.0), 0.0, 2 * slip)
        high = delta + doubt
        return (log_above(self.log_scale + math.log(high)), slope / high) if high > 0 else (-math.inf, math.nan)

    def says_all(self, epsilon: float) -> bool:
        return float(self.x[0]) - epsilon < DROWNED * self.slip

    def start(self, log_delta: float) -> float:
        """Return about the ε of a δ: δ(ε) is at least what the largest loss makes of it."""
        log_top_mass = self.log_scale + math.log(self.weights[0] / 2 if self.coefficients.size else self.weights[0])
        share = math.exp(min(log_delta - log_top_mass, 0.0))
        if share < 0.5 and self.x[0] + math.log1p(-share) > max(self.x[1:2], default=0.0):
            return max(float(self.x[0]) + math.log1p(-share), self.floor)
        low, high = self.floor, max(float(self.x[0]), self.floor)
        if self.coefficients.size:
            log_mass = self.log_scale + math.log(self.weights[0]) + (self.releases - 1) * math.log(2.0)
            distance = least_distance(self.releases, log_delta - log_mass)
            return low if distance is None else max(high - distance, low)
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            low, high = (middle, high) if self.log_upper(middle)[0] > log_delta else (low, middle)
        return (low + high) / 2

    def _sum(self, epsilon: float, off_rising: float, off: float) -> Sum:
        """Return the sum, with y that may be off: where all terms rise with it, and else."""
        if not len(self.x) or self.x[0] <= epsilon:
            return Sum(0.0, 0.0, 0.0)
        last = 1 if len(self.x) == 1 or self.x[1] <= epsilon else int((self.x > epsilon).sum())
        y, weights = self.x[:last] - epsilon, self.weights[:last]
        weight = float(weights.sum())
        lost = self.underflown + UNDERFLOW * (1 + weight)
        if not self.coefficients.size:
            doubt = float(weights @ (off_rising + (8 * HALF_ULP + self.weight_slip) * y)) + lost
            return Sum(math.fsum((weights * -np.expm1(-y)).tolist()), doubt, -float(weights @ np.exp(-y)))
        powers, rest = self._powers(float(y[0]) / 2)
        some = max(MOST_AT_ONCE // powers, 1)
        parts = [
            self._some(slice(first, min(first + some, last)), epsilon, powers, off_rising, off)
            for first in range(0, last, some)
        ]
        delta, doubt, slope = (math.fsum(column) for column in zip(*parts, strict=True))
        added = HALF_ULP * last * math.fsum(abs(part.delta) for part in parts)
        return Sum(delta, doubt + added + lost + rest * weight, slope)

    def _some(self, places: slice, epsilon: float, powers: int, off_rising: float, off: float) -> Sum:
        """Return the sum of some terms."""
        k, half = self.k[places], (self.x[places] - epsilon) / 2
        ends = np.exp(-half) * self.weights[places]
        moved = np.where(k > 0, off, off_rising)
        delta, doubt, slope = _series(self.coefficients[k, 1:powers], half, moved, self.weight_slip + HALF_ULP * len(k))
        doubt += UNDERFLOW * 2.0**self.releases  # of powers
        return Sum(*(float(ends @ column) for column in (delta, doubt, slope)))

    def _powers(self, half: float) -> tuple[int, float]:
        """Return how many powers of y/2 are seen beside the first one, and a bound of what the others add up to.

        No coefficient is above 2^{N-1}, and from j = y on terms halve.
        """
        term, j, most = 2.0 ** (self.releases - 1), 1, self.coefficients.shape[1]  # 2^{N-1} (y/2)^{j-1}/j!
        while j < most and (term > UNSEEN_SHARE or j < 2 * half):
            j += 1
            term *= half / j
        return j, 2 * half * term if j >= 2 * half else math.inf


def _series(rising: Array, half: Array, off: Array, weight_off: float) -> tuple[Array, Array, Array]:
    """Return Σ c_j (y/2)^j/j!, a bound of its rounding, and what it falls by with ε, without e^{-y/2}.

    There is a row for each term, the lowest power first. y can be off by `off`, the weight of the series, relatively,
    by `weight_off`. The j-th power is off by 2j roundings, which half times the slope counts, as Σ |c_j| j (y/2)^j/j!;
    a term by a few more, and a sum by one for each of sixteen numbers and of its halvings: sums are pairwise.
    """
    j = np.arange(1.0, rising.shape[1] + 1)
    powers = np.multiply.accumulate(half[:, None] / j, axis=1)
    before = np.concatenate((np.ones((len(half), 1)), powers[:, :-1]), axis=1)
    sizes = np.abs(rising)
    value, size = (rising * powers).sum(axis=1), (sizes * powers).sum(axis=1)
    rise, slope = (rising * before).sum(axis=1), (sizes * before).sum(axis=1)
    doubt = (TERM_UNITS + weight_off) * size + POWER_UNITS * half * slope + off * (size + slope)
    return value, doubt, (value - rise) / 2


def sum_few(losses: ComposedPairs) -> WholeEnclosure | None:
    """Return δ(ε) as a sum over few terms, in pieces or output by output; None where there are too many."""
    if losses.closed is not None and (pieces := sum_pieces(losses)) is not None:
        return pieces
    if losses.one_table is None and not 0 < losses.sums <= FEW_SUMS:
        return None
    from cumulant.inversion.ball_whole import enumerate_sums

    return enumerate_sums(losses)


def sum_one(losses: ComposedPairs) -> WholeEnclosure | None:
    """Return δ(ε) of one release with finitely many outputs, more than a line would take; else None."""
    if losses.one_table is None or losses.one_table.outputs <= MOST_OUTPUTS:
        return None
    from cumulant.inversion.ball_whole import sum_one_release

    return sum_one_release(losses)


@lru_cache(maxsize=16)
def sum_pieces(losses: ComposedPairs) -> PiecewiseSum | None:
    """Return the sum, or None where it has too many terms or is not known."""
    closed = losses.closed
    if closed is None or losses.variance > 0 or _count_terms(closed) > MOST_TERMS:
        return None
    if closed.laplace_releases > MOST_LAPLACE or closed.largest > LONGEST_SERIES:
        return None
    return _sum_above(closed, 0.0, MOST_TERMS)


def sum_top(losses: ComposedPairs, epsilon: float) -> PiecewiseSum | None:
    """Return the sum of what is above ε, or None where it has too many terms or is not known."""
    closed = losses.closed
    if closed is None or losses.variance > 0 or not 0 < closed.laplace_releases <= MOST_AT_TOP:
        return None
    top = closed.top
    floor = epsilon - (TOP_MARGIN * abs(top) + 0.01 * (top - epsilon))
    return _sum_above(closed, floor, MOST_TERMS_AT_TOP) if floor > 0 and top - floor <= LONGEST_SERIES else None


def sum_top_at_delta(losses: ComposedPairs, log_delta: float) -> PiecewiseSum | None:
    """Return the sum of what is above the ε of a δ, or None where it has too many terms or is not known.

    The largest loss alone puts ε rather too far from itself: nearer places are tried first.
    """
    closed = losses.closed
    least = None if closed is None else closed.least_epsilon(log_delta)
    if closed is None or least is None:
        return None
    for share in SHARES_OF_TOP:
        found = sum_top(losses, closed.top - share * (closed.top - least))
        if found is None or share == 1 or found.log_lower(found.floor) >= log_delta:
            return found
    return None


def _sum_above(closed: ClosedLosses, floor: float, most: int) -> PiecewiseSum | None:
    """Return the sum of terms with losses above ε = floor; None if there are none, over `most`, or too large ones."""
    top = closed.top
    if not top > floor:
        return None
    terms: Terms | None = None
    # the top, its difference to x and that to ε are off by 4 units, losses of tables by 8; each release adds to what a
    # loss lacks of the top
    releases = len(closed.thetas) + sum(part.count for part in closed.finite)
    slip = HALF_ULP * ((12 if closed.finite else 4) * closed.largest + releases * (closed.largest - floor))
    reach = top - floor + 2 * slip
    for more in _each(closed, reach):
        terms = more if terms is None else terms.with_one_more(*more, reach)
        if len(terms.below) > most:
            return None
    terms = terms or Terms(np.zeros(1), np.zeros(1), np.zeros(1, dtype=np.int64))  # the largest loss alone
    if floor > 0 and terms.k.max() > MOST_TURNED:
        return None
    if len(terms.below) > 1:
        order = np.argsort(terms.below, kind="stable")
        terms = Terms(terms.below[order], terms.log_weights[order], terms.k[order])
    x, log_weights, k = top - terms.below, terms.log_weights, terms.k
    n, coefficients, log_scale = closed.laplace_releases, np.empty((0, 0)), 0.0
    halvings = max(n - 1, 0)
    if log_weights[0] - halvings * math.log(2.0) < LOG_SCALED:
        log_scale, log_weights = float(log_weights[0]) - halvings * math.log(2.0), log_weights - log_weights[0]
        halvings = 0
    if log_weights.max() > LOG_WEIGHTS[1]:
        return None
    weights = np.ldexp(np.exp(log_weights), -halvings)
    weight_slip = HALF_ULP * (releases + 1) * _largest_log_weight(closed, floor)
    # R is at most 1, or 2^{N-1} beside 2^{1-N}: what underflows is charged whole
    underflown = int((log_weights < LOG_WEIGHTS[0]).sum()) * math.exp(LOG_WEIGHTS[0]) * 2.0 ** max(n - 1, 0)
    if n:
        powers = SERIES + STEP_OF_SERIES * math.ceil((2 * (closed.top - floor) + n) / STEP_OF_SERIES)
        coefficients = _coefficients(n, int(k.max()) + 1, powers)
    return PiecewiseSum(x, log_scale, weights, k, coefficients, n, slip, weight_slip, floor, underflown)


def _each(closed: ClosedLosses, reach: float) -> Iterator[Terms]:
    """Yield what each release, or n equal ones, can lack of its largest loss, as far as that is within reach."""
    for theta, n in zip(closed.thetas.tolist(), closed.counts.astype(int).tolist(), strict=True):
        most = math.floor(min(reach / theta / 2, n))
        if most > 0:
            i = np.arange(most + 1)
            log_ways = np.array([math.log(math.comb(n, m)) for m in i.tolist()]) if n > 1 else 0.0
            yield Terms(2.0 * theta * i, log_ways - i * theta, i)
    for part in closed.finite:
        below, ways = float(np.max(part.losses)) - part.losses, np.zeros(len(part.losses), dtype=np.int64)
        for _ in range(part.count):
            yield Terms(below, part.log_masses, ways)


def _largest_log_weight(closed: ClosedLosses, floor: float) -> float:
    """Return more than what sums of logarithms of weights grow to: of ways, of e^{-Θ} and of masses."""
    ways = math.log(2.0) * float(sum(n for n in closed.counts.tolist() if n > 1))
    turned = min(float(closed.counts @ closed.thetas), closed.largest - max(floor, 0.0))
    return ways + turned + sum(part.count * float(-np.min(part.log_masses)) for part in closed.finite)


def _count_terms(closed: ClosedLosses) -> float:
    return float(math.prod(n + 1 for n in closed.counts.tolist()) * math.prod(_size(part) for part in closed.finite))


def _size(part: Outputs) -> float:
    return float(len(part.losses)) ** min(part.count, 100)


@lru_cache(maxsize=64)
def _coefficients(n: int, rows: int, powers: int) -> Array:
    """Return the factors of (y/2)^j/j! in 2^{N-1} e^{y/2} R_k(y), a row for each k.

    The polynomials are read from their highest power on: κ_{kj} = [v^{j-1}] (1+v)^{N-k-1} (1-v)^{k-1}.
    """
    found = np.zeros((rows, powers))
    shares = [0, *accumulate(math.comb(n - 1, i) for i in range(n))]  # 2^{N-1} P(Bin(N-1, ½) < j)
    found[0] = [float(shares[min(j, n)]) for j in range(powers)]
    if rows > n:
        found[n] = -found[0] * (-1.0) ** np.arange(powers)
    for k in range(1, min(rows, n)):
        polynomial = [math.comb(n - k - 1, i) for i in range(min(n - 1, powers - 1))]
        for _ in range(k - 1):
            polynomial = [a - b for a, b in zip(polynomial, [0, *polynomial], strict=False)]
        found[k, 1 : len(polynomial) + 1] = [float(a) for a in polynomial]
    return found
