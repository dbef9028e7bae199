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
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import final

import numpy as np
from numpy.typing import NDArray

from cumulant.inversion.closed import ClosedLosses, Outputs
from cumulant.inversion.composed import ComposedPairs
from cumulant.inversion.enclosure import CLOSE_NATS, IN_DOUBLES, Effort, WholeEnclosure
from cumulant.numerics.logspace import Array

FEW_SUMS = 1000  # of losses, up to which all are formed in balls
MOST_TERMS = 20_000  # of the sum
MOST_LAPLACE = 40  # releases, beyond which terms cancel
LARGEST_LOSS = 60.0  # of all releases together, beyond which series are long
LOSS_SLIP = 2.0**-50  # relative, by which losses may be off
TERM_UNITS = 2.0**-49  # by which a term may be off, relatively, for each of its powers
LEAST_LOG_WEIGHT = -600.0  # of a term: products with smaller ones underflow
HALVINGS = 12  # of the stretch on which a first ε is looked for
UNSEEN_NATS = 45.0  # below the first term of a series
SERIES = 60  # terms of R_0 and R_N beyond N, and two for each unit of y: what is left is below 1e-20


@final
@dataclass(frozen=True, slots=True, eq=False)
class PiecewiseSum(WholeEnclosure):
    """Places x, the largest first, with weights and k; coefficients of the powers of y/2, one row for each k."""

    x: Array
    weights: Array
    k: NDArray[np.int64]
    coefficients: Array
    underflown: float = 0.0  # more than all weights together that underflow
    route: str = "pieces"
    proven: bool = False
    enough: float = CLOSE_NATS
    effort: Effort = IN_DOUBLES

    def log_bounds(self, epsilon: float) -> tuple[float, float]:
        total, doubt = self._sum(epsilon)
        low = total - doubt
        # δ falls with ε, and losses are rounded: from above it is taken where no loss next to ε is missed
        high = sum(self._sum(max(epsilon - LOSS_SLIP * (abs(float(self.x[0])) + epsilon), 0.0)))
        return math.log(low) if low > 0 else -math.inf, min(math.log(high), 0.0) if high > 0 else -math.inf

    def slope(self, epsilon: float) -> float:
        """Return about d log δ/dε, from a difference."""
        step = 1e-6 * max(epsilon, 1e-9)
        here, before = self._sum(epsilon)[0], self._sum(epsilon - step)[0]
        return (math.log(here) - math.log(before)) / step if here > 0 and before > here else -1.0

    def start(self, log_delta: float) -> float:
        """Return about the ε of a δ: δ(ε) is at least what the largest loss makes of it."""
        top_mass = self.weights[0] * self._top_mass
        share = math.exp(min(log_delta - math.log(top_mass), 0.0)) if top_mass > 0 else 1.0
        if share < 0.5 and self.x[0] + math.log1p(-share) > max(self.x[1:2], default=0.0):
            return max(float(self.x[0]) + math.log1p(-share), 0.0)
        low, high = 0.0, max(float(self.x[0]), 0.0)
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            low, high = (middle, high) if self.log_bounds(middle)[1] > log_delta else (low, middle)
        return (low + high) / 2

    @property
    def _top_mass(self) -> float:
        """2^{-N}, which R_0(y)/y tends to."""
        return float(self.coefficients[0, 1]) / 2 if self.coefficients.shape[1] > 1 else 1.0

    def _sum(self, epsilon: float) -> tuple[float, float]:
        """Return δ(ε), and a bound of its rounding."""
        last = int(np.searchsorted(-self.x, -epsilon))
        if last == 0:
            return 0.0, 0.0
        y, weights, k = self.x[:last] - epsilon, self.weights[:last], self.k[:last]
        off = 2.0**-51 * (np.abs(self.x[:last]) + epsilon)
        if not self.coefficients.size:
            return float(weights @ -np.expm1(-y)), float(weights @ (off + TERM_UNITS * y)) + self.underflown
        total, doubt = 0.0, self.underflown
        inner = (k > 0) & (k < len(self.coefficients) - 1)  # residues at -½ alone
        for some, powers in ((inner, len(self.coefficients) - 1), (~inner, self._powers(float(y[0]) / 2))):
            if np.any(some):
                value, error = self._part(y[some], weights[some], k[some], off[some], powers)
                total, doubt = total + value, doubt + error
        return total, doubt

    def _powers(self, half: float) -> int:
        """Return how many powers of y/2 are seen beside the first one."""
        log_term, j, most = math.log(half), 1, self.coefficients.shape[1]
        unseen = log_term + math.log(self.coefficients[0, 1]) - UNSEEN_NATS
        while j < most and (log_term > unseen or j < 2 * half):
            j += 1
            log_term += math.log(half / j)
        return j

    def _part(self, y: Array, weights: Array, k: NDArray[np.int64], off: Array, powers: int) -> tuple[float, float]:
        """Return the sum of some terms, Horner's way, and a bound of its rounding."""
        rows, half = self.coefficients, y / 2
        value, size, slope = np.zeros(len(y)), np.zeros(len(y)), np.zeros(len(y))
        for j in range(powers - 1, -1, -1):
            row = rows[:, j][k]
            slope = slope * half + size
            value, size = value * half + row, size * half + np.abs(row)
        ends = np.exp(-half) * weights
        return float(ends @ value), float(ends @ (TERM_UNITS * (size + half * slope) + off * (size + slope)))


def sum_few(losses: ComposedPairs) -> WholeEnclosure | None:
    """Return δ(ε) as a sum over few terms, in pieces or output by output; None where there are too many."""
    if losses.closed is not None and (pieces := sum_pieces(losses)) is not None:
        return pieces
    if not 0 < losses.sums <= FEW_SUMS:
        return None
    from cumulant.inversion.enumeration import enumerate_sums

    return enumerate_sums(losses)


@lru_cache(maxsize=16)
def sum_pieces(losses: ComposedPairs) -> PiecewiseSum | None:
    """Return the sum, or None where it has too many terms or is not known."""
    closed = losses.closed
    if closed is None or losses.variance > 0 or _count_terms(closed) > MOST_TERMS:
        return None
    total = int(np.sum(closed.counts))
    if total > MOST_LAPLACE or closed.largest > LARGEST_LOSS:
        return None
    x, log_weights, k = np.zeros(1), np.zeros(1), np.zeros(1, dtype=np.int64)
    for theta, n in zip(closed.thetas.tolist(), closed.counts.astype(int).tolist(), strict=True):
        i = np.arange(n + 1)
        log_ways = np.array([math.log(math.comb(n, m)) for m in range(n + 1)])
        x = np.add.outer(x, theta * (n - 2.0 * i)).ravel()
        log_weights = np.add.outer(log_weights, log_ways - i * theta).ravel()
        k = np.add.outer(k, i).ravel()
    for part in closed.finite:
        for _ in range(part.count):
            x = np.add.outer(x, part.losses).ravel()
            log_weights = np.add.outer(log_weights, part.log_masses).ravel()
            k = np.repeat(k, len(part.losses))
    seen = x > 0  # of ε >= 0
    order = np.argsort(-x[seen], kind="stable")
    coefficients = _coefficients(total, closed.largest) if total else np.empty((0, 0))
    log_weights = log_weights[seen][order]
    # R is at most 1: what underflows is charged whole
    underflown = int(np.sum(log_weights < LEAST_LOG_WEIGHT)) * math.exp(LEAST_LOG_WEIGHT)
    return PiecewiseSum(x[seen][order], np.exp(log_weights), k[seen][order], coefficients, underflown)


def _count_terms(closed: ClosedLosses) -> float:
    return float(np.prod(closed.counts + 1)) * math.prod(_size(part) for part in closed.finite)


def _size(part: Outputs) -> float:
    return float(len(part.losses)) ** min(part.count, 100)


@lru_cache(maxsize=64)
def _coefficients(n: int, largest: float) -> Array:
    """Return the factors of (y/2)^j in e^{y/2} R_k(y), a row for each k; those of 0 and N end where they are small."""
    powers = n + SERIES + math.ceil(2 * largest)
    rows = np.zeros((n + 1, powers))
    below = np.cumsum([math.comb(n - 1, i) for i in range(n)], dtype=object)  # 2^{N-1} P(Bin(N-1, ½) <= i)
    for j in range(1, powers):
        share = int(below[min(j, n) - 1]) / 2 ** (n - 1)
        rows[0, j] = share / float(math.factorial(min(j, 170)))
        rows[n, j] = -share * (-1.0) ** j / float(math.factorial(min(j, 170)))
    for k in range(1, n):
        polynomial = [1]
        for sign in [1] * (n - k - 1) + [-1] * (k - 1):
            polynomial = [a + sign * b for a, b in zip([0, *polynomial], [*polynomial, 0], strict=True)]
        for j in range(1, n):
            rows[k, j] = polynomial[n - 1 - j] / 2 ** (n - 1) / math.factorial(j)
    return rows
