"""δ(ε) enclosed in balls where no line is needed: closed forms, finite sums, and what the largest loss alone says.

And the largest loss and the failure probability themselves. A line is a `ball_line.BallLine`.

n releases with k outputs have C(n+k-1, k-1) sums of losses, each with a multinomial probability. Where these are few,
the profile of the composition is a finite sum, and nothing is left to bound but rounding:

    δ(ε) = Σ_{L > ε} P(L) (1 - e^{ε-L}) = P(L > ε) - e^ε Q(L > ε).

One release has as many as it has outputs; they are put in order and added up (`pairs.ordered`). Few releases of Laplace
noise have finitely many sums as well, each with a transform that inverts to a polynomial (`PiecesInBalls`).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, final

from cumulant.inversion.closed import is_plain_laplace
from cumulant.inversion.composed import ComposedPairs
from cumulant.inversion.enclosure import Enclosure, WholeEnclosure, gaussian_epsilon
from cumulant.numerics.balls import as_ball, lower_float, precision, upper_float
from cumulant.numerics.search import smallest_true
from cumulant.pairs.certified import ball_nodes, excess_of_pair, failure_ball, supremum_ball, top_mass_ball
from cumulant.pairs.coordinate import CoordinatePair
from cumulant.pairs.maps import MixtureMap
from cumulant.pairs.noise import GaussianNoise
from cumulant.pairs.ordered import Excess, of_losses
from cumulant.pairs.pair import MEAN_ROUNDED_UP, DominatingPair, GaussianPair

if TYPE_CHECKING:
    from flint import arb

Law = list[tuple["arb", "arb"]]

ENCLOSURE_BITS = 192  # of precision
MOST_SUMS = 4000  # of losses that are formed in balls
LARGEST_LOSS_NATS = 1e6  # beyond it e^ε takes more bits than there are
SUM_BITS = 256  # of precision
MOST_NATS_OF_PIECES = 300.0  # the largest loss of releases with Laplace noise that are summed
MOST_POWERS, POWERS_OF_TERM = 1e5, 30  # of all terms together, and what a term takes beside its own
BITS_PER_PIECE = 6  # of precision, for a release and for a nat of the largest loss: terms cancel
SETTLED_PIECES_NATS = 2e-11  # of slack, with which no line is planned
START = 1e-6  # how near to the answer a search begins
SLOPE_STEP_IN_BALLS = 2.0**-24  # of ε, at which a slope is looked for


class BallEnclosure(Enclosure):
    """δ(ε) between two balls, of which the lower end of the one and the upper end of the other count."""

    __slots__ = ()

    def bits_at(self, epsilon: float) -> int:
        """Return with how many bits the bounds are computed."""
        return ENCLOSURE_BITS

    @abstractmethod
    def bounds(self, epsilon: arb) -> tuple[arb, arb]:
        """Return a lower and an upper bound of δ(ε)."""

    def log_bounds(self, epsilon: float) -> tuple[float, float]:
        """Return logarithms: what is no number says nothing but that δ lies between 0 and 1."""
        if epsilon == math.inf:
            return -math.inf, -math.inf
        with precision(self.bits_at(epsilon)):
            low, high = self.bounds(as_ball(epsilon))
            log_low = lower_float(low.log()) if low > 0 and low.is_finite() else -math.inf
            if not high.is_finite():
                return log_low, 0.0
            most = high.upper()
            return log_low, min(upper_float(most.log()), 0.0) if most > 0 else -math.inf

    def slope(self, epsilon: float) -> float:
        beside = epsilon * (1 + SLOPE_STEP_IN_BALLS)
        if not epsilon < beside < math.inf:
            return math.nan
        with precision(self.bits_at(epsilon)):
            here, there = (self.bounds(as_ball(x))[1].log() for x in (epsilon, beside))
            return float((there - here).mid()) / (beside - epsilon)


class WholeInBalls(BallEnclosure, WholeEnclosure):
    """An enclosure in balls that needs no plan."""

    __slots__ = ()


@final
@dataclass(frozen=True, slots=True, eq=False)
class GaussianInBalls(WholeInBalls):
    """δ = Φ(μ/2 - ε/μ) - e^ε Φ(-μ/2 - ε/μ) (Balle and Wang 2018, Theorem 5), which grows with μ; μ was rounded up."""

    mean: float

    def start(self, log_delta: float) -> float:
        return gaussian_epsilon(GaussianPair(self.mean), log_delta)

    def bits_at(self, epsilon: float) -> int:
        return ENCLOSURE_BITS + math.ceil(2 * math.log2(1 + epsilon / self.mean) + 2 * math.log2(1 + 1 / self.mean))

    def bounds(self, epsilon: arb) -> tuple[arb, arb]:
        mean = as_ball(self.mean)
        return _gaussian_delta(mean * (1 - as_ball(MEAN_ROUNDED_UP)), epsilon), _gaussian_delta(mean, epsilon)


def _gaussian_delta(mean: arb, at: arb) -> arb:
    root = as_ball(2.0).sqrt()
    first, second = (at / mean - mean / 2) / root, (at / mean + mean / 2) / root
    return (first.erfc() - at.exp() * second.erfc()) / 2


@final
@dataclass(frozen=True, slots=True, eq=False)
class OneSampleInBalls(WholeInBalls):
    """One release of Gaussian noise on a Poisson sample, from the profile δ_G of the noise alone.

    With M = (1-γ)Q + γP the integrand of ∫ (M - e^ε Q)_+ is γ(P - tQ)_+, t = 1 + (e^ε - 1)/γ, and that of
    ∫ (Q - e^ε M)_+ is c(Q - tP)_+, c = 1 - e^ε(1-γ), t = γe^ε/c, where c > 0, else 0. Both (P, Q) and (Q, P) have δ_G.
    """

    law: GaussianNoise
    sampling: MixtureMap

    @staticmethod
    def of(losses: ComposedPairs) -> OneSampleInBalls | None:
        if losses.releases != 1 or losses.variance > 0 or not isinstance(pair := losses.parts[0][0], CoordinatePair):
            return None
        law, sampling = pair.law, pair.sampling
        if isinstance(law, GaussianNoise) and isinstance(sampling, MixtureMap) and sampling.rate < 1:
            return OneSampleInBalls(law, sampling)
        return None

    def bits_at(self, epsilon: float) -> int:
        far = math.log2(2 + epsilon) - math.log2(self.sampling.rate) - math.log2(min(self.law.mean, 1.0))
        return 2 * ENCLOSURE_BITS + 4 * math.ceil(far)

    def bounds(self, epsilon: arb) -> tuple[arb, arb]:
        rate, more = as_ball(self.sampling.rate), epsilon.expm1()
        share, ratio = rate, 1 + more / rate
        if self.sampling.sign < 0:
            share = rate - (1 - rate) * more
            if not share > 0:  # nothing is left of it, or what is left is at most Q's share
                nothing = as_ball(0.0).union(share.upper().max(as_ball(0.0)))
                return nothing, nothing
            ratio = rate * (1 + more) / share
        delta = share * _gaussian_delta(self.law.in_balls().mean, ratio.log())
        return delta, delta

    def start(self, log_delta: float) -> float:
        def is_enough(epsilon: float) -> bool:
            return self.log_bounds(epsilon)[1] <= log_delta

        high = 2.0**-60
        while not is_enough(high):
            high *= 4
        return smallest_true(is_enough, 0.0, high, relative=1e-12)


@final
@dataclass(frozen=True, slots=True, eq=False)
class LargestLossInBalls(WholeInBalls):
    """P(L = sup L)(1 - e^{ε - sup L}) <= δ(ε) <= 1 - e^{ε - sup L}, where no line is affordable.

    Without a largest loss nothing is said but that δ is a probability.
    """

    top: arb | None
    mass: arb

    @staticmethod
    def of(losses: ComposedPairs) -> LargestLossInBalls:
        with precision(ENCLOSURE_BITS):
            mass = as_ball(1.0)
            for pair, n in losses.parts:
                mass *= top_mass_ball(pair, ENCLOSURE_BITS) ** n
            return LargestLossInBalls(largest_loss(losses), mass)

    def start(self, log_delta: float) -> float:
        return max(upper_float(self.top), 0.0) if self.top is not None else 0.0

    def bounds(self, epsilon: arb) -> tuple[arb, arb]:
        if self.top is None:
            return as_ball(0.0), as_ball(1.0)
        gap = -(epsilon - self.top).expm1()
        return gap * self.mass, gap


# Finite sums ----------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=16)
def sum_one_release(losses: ComposedPairs) -> FiniteSum | None:
    """Return the profile of one release with finitely many outputs, however many; None where balls do not tell it."""
    pair = losses.one_table
    if pair is None or not losses.supremum <= LARGEST_LOSS_NATS:
        return None
    return FiniteSum(excess_of_pair(pair, SUM_BITS), losses.supremum)


@lru_cache(maxsize=8)
def enumerate_sums(losses: ComposedPairs) -> FiniteSum | PiecesInBalls | None:
    """Return the profile of all sums of losses, or None where they are too many or of other laws."""
    if losses.one_table is not None:
        return sum_one_release(losses)
    laplace = sum(n for pair, n in losses.parts if is_plain_laplace(pair))
    terms = _count_sums(losses)
    if not 0 < terms <= MOST_SUMS or not losses.supremum <= (MOST_NATS_OF_PIECES if laplace else LARGEST_LOSS_NATS):
        return None
    if laplace and not terms * (laplace + POWERS_OF_TERM) <= MOST_POWERS:
        return None
    bits = SUM_BITS + math.ceil(BITS_PER_PIECE * (laplace + losses.supremum if laplace else 0))
    with precision(bits):
        law: list[Term] = [Term(as_ball(0.0), as_ball(1.0), 0)]
        for pair, n in losses.parts:
            part = _terms_of(pair, n, bits)
            law = [Term(a.loss + b.loss, a.weight * b.weight, a.turned + b.turned) for a in law for b in part]
            if len(law) > MOST_SUMS:  # balls may tell more outputs apart
                return None
        if laplace:
            return PiecesInBalls(law, laplace, losses.supremum, bits)
        return FiniteSum(of_losses([(x, p) for x, p, _ in law], as_ball(0.0), as_ball(0.0)), losses.supremum)


def _count_sums(losses: ComposedPairs) -> float:
    """Return how many terms there are, at most; 0 if not finitely many. Of n equal Laplace releases there are n + 1."""
    finite = ComposedPairs.of([(pair, n) for pair, n in losses.parts if not is_plain_laplace(pair)])
    ways = math.prod(n + 1 for pair, n in losses.parts if is_plain_laplace(pair))
    return ways * (finite.sums if finite.parts else 1.0) if losses.variance == 0 else 0.0


class Term(NamedTuple):
    """A sum of losses, its weight, and how many releases of Laplace noise are turned: k of `pieces`."""

    loss: arb
    weight: arb
    turned: int


def _terms_of(pair: DominatingPair, n: int, bits: int) -> list[Term]:
    if is_plain_laplace(pair):
        theta = pair.in_balls().law.extremes[1]
        return [Term((n - 2 * k) * theta, math.comb(n, k) * (-k * theta).exp(), k) for k in range(n + 1)]
    nodes = ball_nodes(pair, 0.0, 0.0, 0.0, bits=bits)
    return [Term(x, p, 0) for x, p in _powers(list(zip(nodes.losses, nodes.weights, strict=True)), n)]


@final
@dataclass(frozen=True, slots=True, eq=False)
class PiecesInBalls(WholeInBalls):
    """δ(ε) = Σ w R_k(x - ε) over sums x of few losses, some of Laplace noise: see `pieces`, where R_k is a series.

    N of them have e^{zx} (z+1)^{N-k} z^k/(2z+1)^N in their transforms. R_k(y) is 0 for y <= 0, and else the residues of
    e^{zy} (z+1)^{N-k-1} z^{k-1}/(2z+1)^N at -½, at 0 for k = 0, and at -1 for k = N: with s = z + ½,

        R_k(y) = e^{-y/2} Σ_j [s^{N-1-j}] (½+s)^{N-k-1} (s-½)^{k-1} y^j/(2^N j!) + 1 (k = 0) - e^{-y} (k = N).
    """

    terms: list[Term]
    releases: int
    largest: float
    bits: int

    enough = SETTLED_PIECES_NATS

    def bits_at(self, epsilon: float) -> int:
        return self.bits

    def bounds(self, epsilon: arb) -> tuple[arb, arb]:
        nothing = as_ball(0.0)
        delta = sum((self._term(term, epsilon) for term in self.terms if not term.loss <= epsilon), nothing)
        return delta, delta

    def _term(self, term: Term, epsilon: arb) -> arb:
        y = term.loss - epsilon
        half = (-y / 2).exp()
        value = half * residue_at_half(self.releases, term.turned, self.bits)(y)
        if term.turned == 0:
            value += 1
        if term.turned == self.releases:
            value -= half * half
        return term.weight * (value if y > 0 else value.union(as_ball(0.0)))

    def start(self, log_delta: float) -> float:
        most = max(self.largest, 0.0)
        return smallest_true(lambda epsilon: self.log_bounds(epsilon)[1] <= log_delta, 0.0, most, relative=START)


@lru_cache(maxsize=1024)
def residue_at_half(releases: int, turned: int, bits: int) -> Any:
    """Return the polynomial in y of R_k beside e^{-y/2}: see `PiecesInBalls`."""
    from flint import arb, arb_poly, fmpq, fmpq_poly

    def power(root: Any, exponent: int) -> Any:
        """Return (root + s)^exponent; of the exponent -1 as many powers of s as count."""
        if exponent >= 0:
            return fmpq_poly([root, 1]) ** exponent
        return fmpq_poly([(-1 / root) ** m / root for m in range(releases)])

    half = fmpq(1, 2)
    product = power(half, releases - turned - 1) * power(-half, turned - 1)
    scaled = [product[releases - 1 - j] / (2**releases * math.factorial(j)) for j in range(releases)]
    with precision(bits):
        return arb_poly([arb(x) for x in scaled])


def _powers(atoms: Law, n: int) -> Iterator[tuple[arb, arb]]:
    """Yield the sums of n losses with their probabilities: output by output, those first that no release is left of."""
    unfinished = [(as_ball(0.0), as_ball(1.0), n)]
    *first, (last, last_mass) = atoms
    for loss, mass in first:
        further = []
        for total, probability, left in unfinished:
            for k in range(left + 1):
                share = probability * math.comb(left, k) * mass**k
                if k == left:
                    yield total + k * loss, share
                else:
                    further.append((total + k * loss, share, left - k))
        unfinished = further
    for total, probability, left in unfinished:
        yield total + left * last, probability * last_mass**left


@final
@dataclass(frozen=True, slots=True, eq=False)
class FiniteSum(WholeInBalls):
    """δ(ε) of a finite law, given that the loss is finite: Σ (p - e^ε q)_+ over 1 - P(L = ∞)."""

    gains: Excess
    largest: float

    route = "every sum"

    def bits_at(self, epsilon: float) -> int:
        return SUM_BITS

    def bounds(self, epsilon: arb) -> tuple[arb, arb]:
        delta = self.gains.at(epsilon.expm1()) / (1 - self.gains.failure)
        return delta, delta

    def start(self, log_delta: float) -> float:
        most = max(self.largest, 0.0)
        return smallest_true(lambda epsilon: self.log_bounds(epsilon)[1] <= log_delta, 0.0, most, relative=START)


# What is asked before anything else -----------------------------------------------------------------------------------


def largest_loss(losses: ComposedPairs) -> arb | None:
    """Return the largest finite loss of all; None where there is none."""
    if losses.variance > 0:
        return None
    with precision(ENCLOSURE_BITS):
        tops = [(top, n) for pair, n in losses.parts if (top := supremum_ball(pair, ENCLOSURE_BITS)) is not None]
        return sum((n * top for top, n in tops), as_ball(0.0)) if len(tops) == len(losses.parts) else None


def failure_of(losses: ComposedPairs) -> arb:
    """Return P(L = ∞) = 1 - Π (1-p_i)^{n_i}; a single failure stays as it is."""
    failing = [(p, n) for pair, n in losses.parts if (p := failure_ball(pair)) > 0]
    if any(not p < 1 for p, _ in failing):
        return as_ball(1.0)
    if len(failing) == 1 and failing[0][1] == 1:
        failure = failing[0][0]
    else:
        failure = -sum((n * (-p).log1p() for p, n in failing), as_ball(0.0)).expm1()
    return failure.union(as_ball(1.0)) if losses.failure == 1 else failure  # doubles have no law of the rest


def log_left(p: arb, delta: arb) -> tuple[float, float]:
    """Return bounds of log (δ-p)/(1-p): -inf where nothing is left, NaN where p takes more than δ, or may do so."""
    if delta >= 1:
        return 0.0, 0.0
    if not p < 1:  # all of it, or so nearly all that balls do not tell
        return math.nan, math.nan if p == 1 else 0.0
    left = (delta - p) / (1 - p)
    if left > 0:
        return lower_float(left.log()), upper_float(left.log())
    if left == 0:
        return -math.inf, -math.inf
    most = left.upper()
    return math.nan, upper_float(most.log()) if most > 0 else math.nan
