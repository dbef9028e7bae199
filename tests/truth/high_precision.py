"""The truth in many digits: δ(ε) of products of known pairs, from plain parameters and by ways of its own.

Nothing here comes from the library. A *direction* is a list of (law, count); a law is one ordered pair (P, Q).
Parameters are fractions, so that doubles are what they are. δ is a ball (Arb, by python-flint): a proven enclosure for
finitely many outputs, for Gaussians and for one release; else an integral whose radius is the change when its step is
halved, at most 1e-20 of δ (1e-16 for two or three releases) and usually far less.

- tables: every sum of losses, by multinomial masses; what is pruned is in the radius;
- Gaussians: Balle and Wang's formula;
- plain Laplace noise: residues;
- one, two or three sampled releases: the profile of one, integrated over the losses of the others;
- more: (1/2π) ∫ e^{K(z)-zε}/(z(z+1)) dω on the line Re z = θ, by the trapezoidal rule.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, cached_property
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from flint import acb, acb_mat, arb, arb_poly, arb_series, ctx, fmpq
from mpmath import mpf
from numpy.typing import NDArray

from stored import DIGITS, stored

Ball = Any
Number = Any  # a Fraction, or a ball where it is transcendental
Array = NDArray[np.float64]
View = Literal["leaving", "joining", "envelope", "replaced"]
Row = tuple[Number, Number]

BITS = 256
PRUNED = 1e-75  # masses of tables below it are left out, and counted in the radius
NODES = 3e7  # terms of one line: about two seconds
CUT = 60.0  # nats below δ at which a line ends: 1e-26
ALIASES = 50.0  # nats below δ of what twice the step adds: 1e-21; the step itself adds far less
MOST_SUMS = 100_000  # of losses of tables
LONGEST = 40_000  # steps of a line


class OutOfReach(ArithmeticError):
    """The reference would take too long here."""


@contextmanager
def precision(bits: int = BITS) -> Iterator[None]:
    before = ctx.prec
    ctx.prec = bits
    try:
        yield
    finally:
        ctx.prec = before


def ball(value: Number) -> Ball:
    """Return the ball of a fraction or a float, which are exact."""
    if isinstance(value, Fraction):
        return arb(fmpq(value.numerator, value.denominator))
    return value if isinstance(value, arb) else arb(value)


def alike(*numbers: Number) -> tuple[Number, ...]:
    """Return fractions as they are, or balls of all where one is a ball."""
    return numbers if all(isinstance(x, Fraction) for x in numbers) else tuple(ball(x) for x in numbers)


def within(value: Ball, radius: Ball) -> Ball:
    """Return a ball that is wider by a radius."""
    return value.union(value + radius).union(value - radius)


# Laws -----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Table:
    """Finitely many outputs, (P, Q) row by row; `steps` are the losses in units of a span, if they have one."""

    rows: tuple[Row, ...]
    steps: tuple[int, ...] | None = None

    @property
    def finite(self) -> list[tuple[Ball, Ball]]:
        """Masses under P and losses, where both have the output."""
        return [(ball(p), (ball(p) / ball(q)).log()) for p, q in self.rows if not _zero(p) and not _zero(q)]

    @property
    def reverse(self) -> Table:
        steps = None if self.steps is None else tuple(-step for step in self.steps)
        return Table(tuple((q, p) for p, q in self.rows), steps)


def _zero(value: Number) -> bool:
    return bool(value == 0)


@dataclass(frozen=True)
class Normal:
    """N(μ, 1) against N(0, 1), given μ²."""

    square: Number


@dataclass(frozen=True)
class Sampled:
    """Noise on a sample: with w = 1 - γ + γ dP/dQ at the coordinate t, in one of four views.

    leaving   ((1-γ)Q + γP, Q): mass wQ, loss log w         joining   (Q, (1-γ)Q + γP): mass Q, loss -log w
    envelope  both, where w > 1, and the rest at loss 0      replaced  w(t)Q, log w(t)/w(-t)

    Gaussian: Q = N(0, 1), dP/dQ = e^{μt - μ²/2}; a group of k records has w = Σ_j Bin(k,γ)(j) e^{jμt - (jμ)²/2}.
    Laplace, θ = 1/b: t = log dP/dQ has the density e^{-(t+θ)/2}/4 under Q on (-θ, θ), and atoms at the ends.
    """

    noise: Literal["gaussian", "laplace"]
    mean: Fraction  # μ or θ
    rate: Fraction
    view: View
    size: int = 1

    @cached_property
    def shares(self) -> list[Fraction]:
        g, k = self.rate, self.size
        return [math.comb(k, j) * g**j * (1 - g) ** (k - j) for j in range(k + 1)]

    @cached_property
    def exponents(self) -> list[tuple[Ball, Ball, Ball]]:
        """(share, slope, offset) of the parts of w."""
        m, gaussian = ball(self.mean), self.noise == "gaussian"
        return [
            (ball(b), j * (m if gaussian else 1), (j * m) ** 2 / 2 if gaussian else arb(0))
            for j, b in enumerate(self.shares)
            if b
        ]

    def middle(self) -> Fraction:
        """Return t at which dP/dQ = 1."""
        return self.mean / 2 if self.noise == "gaussian" else Fraction(0)

    def interval(self) -> tuple[float, float]:
        low, high = (-math.inf, math.inf) if self.noise == "gaussian" else (-float(self.mean), float(self.mean))
        return (float(self.middle()) if self.view == "envelope" else low), high

    def weight(self, t: Ball) -> Ball:
        return sum((b * (slope * t - offset).exp() for b, slope, offset in self.exponents), arb(0))

    def density(self, t: Ball) -> Ball:
        """Of Q."""
        if self.noise == "gaussian":
            return (-t * t / 2).exp() / (2 * arb.pi()).sqrt()
        return (-(t + ball(self.mean)) / 2).exp() / 4

    def at(self, t: Ball, q: Ball) -> list[tuple[Ball, Ball]]:
        """Return (mass, loss) of the output t to which Q gives the mass q."""
        w = self.weight(t)
        if self.view == "replaced":
            return [(q * w, (w / self.weight(-t)).log())]
        leaving, joining = (q * w, w.log()), (q, -w.log())
        return [*([leaving] * (self.view != "joining")), *([joining] * (self.view != "leaving"))]

    def atoms(self) -> list[tuple[Ball, Ball]]:
        """Return (mass, loss) of single outputs."""
        found = []
        if self.noise == "laplace":
            theta = ball(self.mean)
            found += self.at(theta, (-theta).exp() / 2)
            found += self.at(-theta, arb(1) / 2) if self.view != "envelope" else []
        if self.view == "envelope":
            found.append((1 - self._above(leaving=True) - self._above(leaving=False), arb(0)))
        return found

    def _above(self, *, leaving: bool) -> Ball:
        """Return the mass of w > 1 under (1-γ)Q + γP, or under Q."""
        m = ball(self.mean)
        q, p = (
            ((m / 2 / arb(2).sqrt()).erfc() / 2, (-m / 2 / arb(2).sqrt()).erfc() / 2)
            if self.noise == "gaussian"
            else ((-m / 2).exp() / 2, 1 - (-m / 2).exp() / 2)
        )
        return q + ball(self.rate) * (p - q) if leaving else q

    # The profile of one release

    def once(self, epsilon: Ball) -> Ball:
        if self.view == "replaced":
            return self._replaced(epsilon)
        if self.view == "joining" or (self.view == "envelope" and epsilon < 0):
            return -epsilon.expm1() + epsilon.exp() * self._leaving(-epsilon)
        return self._leaving(epsilon)

    def _leaving(self, epsilon: Ball) -> Ball:
        if self.size > 1:
            return self._group_leaving(epsilon)
        g, m = ball(self.rate), ball(self.mean)
        a = 1 + epsilon.expm1() / g
        if not a > 0:
            return -epsilon.expm1()
        if self.noise == "gaussian":
            x, root = a.log() / m, arb(2).sqrt()
            return g * (((x - m / 2) / root).erfc() - a * ((x + m / 2) / root).erfc()) / 2
        x = a.log()
        return -epsilon.expm1() if x <= -m else -g * ((x - m) / 2).expm1() if x < m else arb(0)

    def _group_leaving(self, epsilon: Ball) -> Ball:
        if not epsilon > ball(self.shares[0]).log():
            return -epsilon.expm1()
        t, root, m = self.where(epsilon), arb(2).sqrt(), ball(self.mean)
        above = sum((ball(b) * ((t - j * m) / root).erfc() for j, b in enumerate(self.shares)), arb(0))
        return (above - epsilon.exp() * (t / root).erfc()) / 2

    def _replaced(self, epsilon: Ball) -> Ball:
        g, m, root = ball(self.rate), ball(self.mean), arb(2).sqrt()
        t = self._where_replaced(epsilon)

        def tail(side: int) -> Ball:
            return ((1 - g) * (t / root).erfc() + g * ((t - side * m) / root).erfc()) / 2

        return tail(1) - epsilon.exp() * tail(-1)

    def _where_replaced(self, loss: Ball) -> Ball:
        """Return t with w(t) = e^x w(-t):  μt = asinh(sinh(x/2) e^{μ²/2} (1-γ)/γ) + x/2."""
        g, m = ball(self.rate), ball(self.mean)
        return (((loss / 2).sinh() * (m * m / 2).exp() * (1 - g) / g).asinh() + loss / 2) / m

    def where(self, log_w: Ball) -> Ball:
        """Return t with log w(t) given, above the least that it takes."""
        g, m = ball(self.rate), ball(self.mean)
        if self.size == 1:
            x = (1 + log_w.expm1() / g).log()
            return x if self.noise == "laplace" else x / m + m / 2
        exponents, goal = self.exponents, log_w.exp() - ball(self.shares[0])
        rest = [(math.log(b), float(s), float(o)) for b, s, o in exponents if s > 0]
        aim, t = float(goal.log()), 0.0
        for _ in range(60):  # Newton's method for log(w - (1-γ)^k), which is convex and increases
            logs = [b + slope * t - offset for b, slope, offset in rest]
            top = max(logs)
            terms = [math.exp(x - top) for x in logs]
            change = (top + math.log(sum(terms)) - aim) * sum(terms)
            change /= sum(x * slope for x, (_, slope, _) in zip(terms, rest, strict=True))
            t -= change
            if abs(change) < 1e-13:
                break
        near = arb(t)
        for _ in range(3):  # δ does not change with t to first order
            parts = [(b * (slope * near - offset).exp(), slope) for b, slope, offset in exponents if slope > 0]
            w, slope = sum((x for x, _ in parts), arb(0)), sum((x * s for x, s in parts), arb(0))
            near = (near - ((w / goal).log()) * w / slope).mid()
        return near

    def coordinates(self, loss: Ball) -> list[Ball]:
        """Return the t inside the interval at which the loss is given."""
        if self.view == "replaced":
            return [self._where_replaced(loss)]
        signs = {"leaving": (1,), "joining": (-1,), "envelope": (1, -1)}[self.view]
        least = ball(self.shares[0]).log() if self.shares[0] else -math.inf
        found = [self.where(sign * loss) for sign in signs if sign * loss > least]
        low, high = self.interval()
        return [t for t in found if t > low and t < high]

    def special(self) -> list[Ball]:
        """Return losses at which the profile of one release is not analytic."""
        ends = [-ball(self.mean), ball(self.mean)] if self.noise == "laplace" else []
        losses = [self.weight(t).log() for t in ends] or [ball(self.shares[0]).log()]
        if self.view == "replaced":  # analytic, and steep near 0
            return [arb(0)]
        if self.view == "envelope":
            return [arb(0), *(s * x for x in losses for s in (1, -1))]
        return [x if self.view == "leaving" else -x for x in losses]

    def supremum(self) -> Ball:
        """Return the largest loss."""
        if self.noise == "gaussian":
            return -ball(self.shares[0]).log() if self.view == "joining" and self.rate < 1 else arb("inf")
        return max((x for _, x in self.atoms()), key=float)

    # In doubles, to choose lines

    def log_w(self, t: Array) -> Array:
        terms = [math.log(b) + float(s) * t - float(o) for b, s, o in self.exponents]
        return np.asarray(np.logaddexp.reduce(terms, axis=0))

    def rough(self, theta: float, omega: float) -> tuple[Array, Array, Array, int]:
        """Return coordinates, log masses and losses in doubles, and how many atoms are at their end."""
        low, high = self.interval()
        reach = 16 + float(self.mean) * self.size * (2 * theta + 2)
        low, high = max(low, -reach), min(high, reach)
        cells = min(int(2000 + 2 * omega * float(self.mean) * self.size * (high - low)), 60_000)
        t = low + (high - low) * (np.arange(cells) + 0.5) / cells
        log_q = -t * t / 2 - math.log(2 * math.pi) / 2
        if self.noise == "laplace":
            log_q = -(t + float(self.mean)) / 2 - math.log(4)
        log_q, w = log_q + math.log((high - low) / cells), self.log_w(t)
        views = {"leaving": [(log_q + w, w)], "joining": [(log_q, -w)], "replaced": [(log_q + w, w - self.log_w(-t))]}
        views["envelope"] = views["leaving"] + views["joining"]
        parts = views[self.view]
        atoms = [(max(float(p.log()), -1e4), float(x)) for p, x in self.atoms() if p > 0]
        masses = np.concatenate([*(p for p, _ in parts), [p for p, _ in atoms]])
        losses = np.concatenate([*(x for _, x in parts), [x for _, x in atoms]])
        return t, masses, losses, len(atoms)

    # Nodes for moments

    def nodes(self, theta: float, low: float, high: float, fineness: float) -> list[tuple[Ball, Ball]]:
        """Return masses and losses with M(z) = Σ mass e^{z loss}: trapezoidal on the line, else Gauss on pieces."""
        if self.noise == "gaussian" and self.view != "envelope":
            step = Fraction(1, math.ceil(6 * fineness))
            points = [(ball(step * j), ball(step)) for j in range(math.floor(low / step), math.ceil(high / step) + 1)]
        else:
            ends = [ball(self.middle()) if self.view == "envelope" else arb(low)]
            last = min(arb(high), ball(self.mean)) if self.noise == "laplace" else arb(high)
            ends[0] = -ball(self.mean) if self.noise == "laplace" and self.view != "envelope" else ends[0]
            count = math.ceil(float(last - ends[0]) * fineness)
            points = list(gauss([ends[0] + (last - ends[0]) * j / count for j in range(count + 1)], 20))
        return [pair for t, h in points for pair in self.at(t, self.density(t) * h)] + self.atoms()


@cache
def _gauss(count: int, bits: int) -> tuple[tuple[Ball, Ball], ...]:
    roots = [arb.legendre_p_root(count, k, weight=True) for k in range(count)]
    return tuple(((1 + x) / 2, w / 2) for x, w in roots)


def gauss(ends: Sequence[Ball], count: int) -> Iterator[tuple[Ball, Ball]]:
    """Return nodes and weights on the pieces between neighbouring ends."""
    for a, b in pairwise(ends):
        for x, w in _gauss(count, ctx.prec):
            yield (a + (b - a) * x).mid(), (b - a) * w


Law = Table | Normal | Sampled
Direction = Sequence[tuple[Law, int]]


# Tables of probabilities ----------------------------------------------------------------------------------------------


def binary(odds: Number, failure: Number = Fraction(0)) -> Table:
    """Return (ε, δ)-DP at its worst, given e^ε: with probability δ all is revealed, else randomized response."""
    odds, failure = alike(odds, failure)
    true, lie = (1 - failure) * odds / (1 + odds), (1 - failure) / (1 + odds)
    revealed = () if _zero(failure) else ((failure, 0 * failure), (0 * failure, failure))
    return Table(((true, lie), (lie, true), *revealed), None if revealed else (1, -1))


def leaving(table: Table, rate: Fraction) -> Table:
    g, _ = alike(rate, table.rows[0][0])
    return Table(tuple(((1 - g) * q + g * p, q) for p, q in table.rows))


def joining(table: Table, rate: Fraction) -> Table:
    return leaving(table, rate).reverse


def envelope(table: Table, rate: Fraction) -> Table:
    """Return the pair of H_t of leaving for t >= 1 and of joining for t <= 1, for a symmetric table."""
    g, _ = alike(rate, table.rows[0][0])
    above = [(p, q) for p, q in table.rows if p > q]
    up = [((1 - g) * q + g * p, q) for p, q in above]
    left = 1 - sum(p for p, _ in up) - sum(q for _, q in up)
    rows = [*up, *((q, p) for p, q in up), (left, left)]
    return Table(tuple(rows), (1, -1, 0) if len(above) == 1 and not _zero(above[0][1]) else None)


def hockey(rows: Sequence[Row], t: Number) -> Number:
    """Return H_t = Σ (p - tq)_+."""
    return sum((p - t * q for p, q in rows if p > t * q), start=Fraction(0))


def symmetrised(table: Table) -> Table:
    """Return the pair with the profile max(H_t(P‖Q), H_t(Q‖P)), from the corners of that function of t.

    Between corners H is a straight line; Q puts on the ratio t what the slope jumps by, P t times that. Rows are
    fractions.
    """
    rows, back = table.rows, table.reverse.rows
    ratios = {p / q for p, q in rows if q} | {q / p for p, q in rows if p} | {Fraction(0), Fraction(1)}
    corners = sorted(ratios)
    for a, b in pairwise([*corners, corners[-1] + 1]):
        first, second = (hockey(rows, a) - hockey(back, a)), (hockey(rows, b) - hockey(back, b))
        if first * second < 0:
            ratios.add(a + (b - a) * first / (first - second))
    corners = sorted(ratios)
    values = [max(hockey(rows, t), hockey(back, t)) for t in corners]
    slopes = [(v - u) / (b - a) for (a, b), (u, v) in zip(pairwise(corners), pairwise(values), strict=True)]
    jumps = [y - x for x, y in pairwise([Fraction(-1), *slopes, Fraction(0)])]
    pairs = [(t * jump, jump) for t, jump in zip(corners, jumps, strict=True) if jump]
    return Table((*pairs, *(((values[-1], Fraction(0)),) if values[-1] else ())))


def _sums(table: Table, count: int) -> list[tuple[Ball, Ball]]:
    """Return (mass, loss) of the sum of `count` losses; masses below `PRUNED` are left out."""
    if table.steps is not None and len(table.steps) == 3:
        return _lattice_sums(table, count)
    rows = table.finite
    found: list[tuple[Ball, Ball]] = []

    def visit(i: int, left: int, mass: Ball, loss: Ball) -> None:
        if len(found) > 400_000:
            raise OutOfReach("too many sums")
        p, x = rows[i]
        if i == len(rows) - 1:
            found.append((mass, loss + left * x))
            return
        share = p / sum((q for q, _ in rows[i:]), arb(0))
        for j, chance in _binomial(left, share, PRUNED / float(mass)):
            visit(i + 1, left - j, mass * chance, loss + j * x)

    if rows:
        visit(0, count, sum((p for p, _ in rows), arb(0)) ** count, arb(0))
    return found


def _binomial(n: int, share: Ball, least: float) -> list[tuple[int, Ball]]:
    """Return the binomial masses that are not below `least`, from the mode outwards."""
    mode = min(n, math.floor(float(share) * (n + 1)))
    odds = share / (1 - share) if n else arb(0)
    top = arb.bin_uiui(n, mode) * share**mode * (1 - share) ** (n - mode)
    found = [(mode, top)]
    mass = top
    for j in range(mode, n):
        mass = mass * (n - j) / (j + 1) * odds
        if mass < least:
            break
        found.append((j + 1, mass))
    mass = top
    for j in range(mode, 0, -1):
        mass = mass * j / (n - j + 1) / odds
        if mass < least:
            break
        found.append((j - 1, mass))
    return found


def _lattice_sums(table: Table, count: int) -> list[tuple[Ball, Ball]]:
    """Return the masses of a power of a polynomial, for steps of +1, 0 and -1."""
    if count > 5000:
        raise OutOfReach("too many sums")
    by_step = dict(zip(table.steps or (), table.rows, strict=True))
    span = (ball(by_step[1][0]) / ball(by_step[1][1])).log()
    power = arb_poly([1])
    base = arb_poly([ball(by_step[step][0]) for step in (-1, 0, 1)])
    for bit in bin(count)[2:]:
        power = power * power * (base if bit == "1" else 1)
    return [(p, span * (j - count)) for j, p in enumerate(power.coeffs()) if p > PRUNED]


# Answers --------------------------------------------------------------------------------------------------------------


def delta(direction: Direction, epsilon: float | Fraction) -> Ball:
    """Return δ(ε) of a direction, as a ball; raise `OutOfReach` where that would take long."""
    with precision():
        return _Question(direction).delta(ball(epsilon))


@stored
def log_delta_of_samples(
    samples: Sequence[tuple[float | Fraction, float]], epsilon: float, *, leaves: bool = True, beside: float = 0.0
) -> Any:
    """Return log δ of Gaussian noise on samples (μ, γ), when a record leaves or joins, beside noise on all data."""
    view: View = "leaving" if leaves else "joining"
    direction: list[tuple[Law, int]] = [
        (Sampled("gaussian", Fraction(mean), Fraction(rate), view), 1) for mean, rate in samples
    ]
    with precision():
        value = delta([*direction, (Normal(Fraction(beside) ** 2), 1)] if beside else direction, epsilon).log()
        return mpf(value.mid().str(DIGITS, radius=False))


def within_reach(direction: Direction) -> None:
    """Raise `OutOfReach` where the sums of tables are too many, without adding them up."""
    lines = sum(n for law, n in direction if isinstance(law, Sampled))
    sums = 1.0
    for law, n in direction:
        if isinstance(law, Table):
            rows = sum(not _zero(p) and not _zero(q) for p, q in law.rows)
            wide = min(n + 1, 40 * math.sqrt(n) + 10)
            sums *= 2 * n + 1 if law.steps is not None and rows == 3 else wide ** (rows - 1) / math.factorial(rows - 1)
    if lines == 0 and sums > MOST_SUMS:
        raise OutOfReach("too many sums")


def normal_delta(square: Ball, epsilon: Ball) -> Ball:
    """Return δ of N(μ) against N(0), or (1 - e^ε)_+ for μ = 0."""
    if square == 0:
        return max(-epsilon.expm1(), arb(0)) if epsilon != 0 else arb(0)
    mean, root = square.sqrt(), arb(2).sqrt()
    x = epsilon / mean
    return (((x - mean / 2) / root).erfc() - epsilon.exp() * ((x + mean / 2) / root).erfc()) / 2


class _Question:
    """One direction: what belongs together, and which way to go."""

    def __init__(self, direction: Direction) -> None:
        parts = [(law, count) for law, count in direction if count]
        self.square = sum((n * ball(law.square) for law, n in parts if isinstance(law, Normal)), arb(0))
        self.tables = [(law, n) for law, n in parts if isinstance(law, Table)]
        self.lines = [(law, n) for law, n in parts if isinstance(law, Sampled)]

    def delta(self, epsilon: Ball) -> Ball:
        finite = arb(1)
        for table, count in self.tables:
            finite *= sum((p for p, _ in table.finite), arb(0)) ** count
        return 1 - finite + self._rest(epsilon, finite)

    def _rest(self, epsilon: Ball, finite: Ball) -> Ball:
        """Return what finite losses contribute; they have the mass `finite`."""
        top = sum((n * law.supremum() for law, n in self.lines), arb("inf") if self.square > 0 else arb(0))
        top += sum((n * max((x for _, x in table.finite), key=float, default=0) for table, n in self.tables), arb(0))
        if top <= epsilon:
            return arb(0)
        if not self.lines:
            return self._over_sums(epsilon, finite, lambda x: normal_delta(self.square, x))
        plain = [law for law, _ in self.lines if law.noise == "laplace" and law.rate == 1]
        if len(self.lines) == len(plain) == 1 and self.square == 0 and self.lines[0][1] > 1:
            (law, count), *_ = self.lines
            return self._over_sums(epsilon, finite, lambda x: laplace_delta(law.mean, count, x))
        laws = [law for law, n in self.lines for _ in range(min(n, 4))]
        smooth = sum(law.noise == "gaussian" for law in laws)
        if len(laws) <= (3 if smooth == 0 else 2) - (self.square > 0):
            return self._over_sums(epsilon, finite, lambda x: few(laws, self.square, x))
        return Line(self.square, self.tables, self.lines, epsilon).delta()

    def _most_sums(self) -> int:
        """Return how many sums of losses there is time for: with a formula for the rest many, with integrals few."""
        releases = sum(n for _, n in self.lines)
        return MOST_SUMS if not releases else 10_000 if releases == 1 and self.square == 0 else 60

    def _over_sums(self, epsilon: Ball, finite: Ball, rest: Callable[[Ball], Ball]) -> Ball:
        """Return the expectation of rest(ε - L) over the sums of the tables' losses."""
        sums = [(arb(1), arb(0))]
        for table, count in self.tables:
            more = _sums(table, count)
            if len(sums) * len(more) > self._most_sums():
                raise OutOfReach("too many sums")
            sums = [(p * q, x + y) for p, x in sums for q, y in more]
        total = sum((p * rest(epsilon - x) for p, x in sums), arb(0))
        pruned = finite - sum((p for p, _ in sums), arb(0))
        return total.union(total + pruned)


def laplace_delta(theta: Fraction, count: int, epsilon: Ball) -> Ball:
    """Return δ of composed Laplace noise by residues.

    With s = z + ½:  M(z) = e^{-θ/2} (e^{sθ}(½ + 1/4s) + e^{-sθ}(½ - 1/4s)). Expanding the n-th power, a term with
    e^{sx}, x = (2k-n)θ - ε > 0, contributes its residue at s = 0, and the last also that at s = ½, which is 1.
    """
    if count > 300:
        raise OutOfReach("too many residues")
    n = count
    with precision(BITS + 12 * n):
        m, total = ball(theta), arb(0)
        before = ctx.cap
        ctx.cap = n + 1
        try:
            inner = 1 / arb_series([arb(-1) / 4, 0, 1])
            for k in range(n + 1):
                x = (2 * k - n) * m - epsilon
                if x > 0:
                    powers = arb_series([1, 2]) ** k * arb_series([-1, 2]) ** (n - k)
                    residue = (arb_series([0, x]).exp() * powers * inner)[n - 1]
                    total += arb.bin_uiui(n, k) * residue * ((epsilon - n * m) / 2).exp() / arb(4) ** n
                    total += 1 if k == n else 0
        finally:
            ctx.cap = before
        return total


def few(laws: Sequence[Sampled], square: Ball, epsilon: Ball) -> Ball:
    """Return δ of a few releases and a Gaussian: the profile of one, integrated over the losses of the others."""
    if len(laws) == 1 and square == 0:
        return laws[0].once(epsilon)
    fine = _nested(laws, square, epsilon, 2.0)
    for fineness in (3.0, 6.0, 12.0, 24.0)[: None if len(laws) == 2 else 2]:
        coarse, fine = fine, _nested(laws, square, epsilon, fineness)
        if abs(coarse - fine) < abs(fine) * 1e-18:
            break
    if not abs(coarse - fine) < abs(fine) * 1e-16:
        raise OutOfReach("nested integrals do not agree")
    return within(fine, abs(coarse - fine))


def _nested(laws: Sequence[Sampled], square: Ball, epsilon: Ball, fineness: float) -> Ball:
    if not laws:
        return normal_delta(square, epsilon)
    if len(laws) == 1 and square == 0:
        return laws[0].once(epsilon)
    law, rest = laws[0], laws[1:]
    kinks = [arb(0)]
    for other in rest:
        kinks = [x + y for x in kinks for y in other.special()]
    corners = [] if square > 0 else [t for x in kinks for t in law.coordinates(epsilon - x)]
    ends = _pieces(law, corners, fineness)
    total = arb(0)
    for t, h in gauss(ends, 20 if law.noise == "gaussian" else 16):
        for mass, loss in law.at(t, law.density(t) * h):
            total += mass * _nested(rest, square, epsilon - loss, fineness)
    return total + sum((mass * _nested(rest, square, epsilon - loss, fineness) for mass, loss in law.atoms()), arb(0))


def _pieces(law: Sampled, corners: Sequence[Ball], fineness: float) -> list[Ball]:
    """Return ends of pieces: corners among them, and for Gaussian noise finer and finer towards them."""
    gaussian = law.noise == "gaussian"
    reach = 15 + float(law.mean) * law.size
    a = ball(law.middle()) if law.view == "envelope" else arb(-reach) if gaussian else -ball(law.mean)
    b = arb(reach) if gaussian else ball(law.mean)
    width = 1 / (fineness / 2 * (1 + float(law.mean) * law.size / 2)) if gaussian else 2 / fineness
    count = max(1, math.ceil(float(b - a) / width))
    ends = [a + (b - a) * j / count for j in range(count + 1)]
    near = [arb(2) ** -j for j in range(40)] if gaussian else []
    for corner in corners:
        ends += [corner, *(corner + side * x for x in near for side in (-1, 1))]
    inside = sorted((x.mid() for x in ends if x > a and x < b), key=float)
    points = [a, *inside, b]
    return [x for i, x in enumerate(points) if i == 0 or x - points[i - 1] > 1e-30]


# The line -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Rough:
    """K of all parts in doubles."""

    square: float
    parts: Sequence[tuple[Array, Array, int, int]]  # log masses, losses, how many of them are atoms, count

    def k(self, theta: float) -> float:
        total = self.square * theta * (theta + 1) / 2
        return total + sum(n * float(np.logaddexp.reduce(p + theta * x)) for p, x, _, n in self.parts)

    def log_size(self, theta: float, omega: Array) -> Array:
        """Return log|e^{K(θ+iω) - K(θ)}| as if atoms never cancelled: between frequencies they may meet again."""
        total = -self.square * omega**2 / 2
        for p, x, atoms, n in self.parts:
            tilted = np.exp(p + theta * x - np.logaddexp.reduce(p + theta * x))
            single, inner = float(np.sum(tilted[len(x) - atoms :])), slice(len(x) - atoms)
            for i, w in enumerate(omega):
                waves = abs(complex(np.sum(tilted[inner] * np.exp(1j * w * x[inner])))) if atoms < len(x) else 0.0
                total[i] += n * math.log(min(single + waves + 1e-17, 1.0))
        return np.asarray(total)


class Line:
    """δ(ε) by the trapezoidal rule on one line; doubles choose it, balls evaluate it."""

    def __init__(
        self, square: Ball, tables: Sequence[tuple[Table, int]], lines: Sequence[tuple[Sampled, int]], epsilon: Ball
    ) -> None:
        self.square, self.tables, self.lines, self.epsilon = square, tables, lines, epsilon
        self.theta = self._saddle()
        self.log_delta = self._estimate(self.theta)
        self.step = self._step()
        self.last = self._last()

    def _rough(self, theta: float, omega: float = 0.0) -> _Rough:
        parts: list[tuple[Array, Array, int, int]] = []
        for law, n in self.lines:
            _, masses, losses, atoms = law.rough(theta, omega)
            parts.append((masses, losses, atoms, n))
        for table, n in self.tables:
            rows = table.finite
            log_masses = np.array([float(p.log()) for p, _ in rows])
            parts.append((log_masses, np.array([float(x) for _, x in rows]), len(rows), n))
        return _Rough(float(self.square), parts)

    def _saddle(self) -> float:
        eps = float(self.epsilon)
        low, high = math.log(1e-3), math.log(2e3)
        for _ in range(20):
            middle = (low + high) / 2
            theta = math.exp(middle)
            rough, d = self._rough(theta * 1.01), 1e-4
            slope = (rough.k(theta * (1 + d)) - rough.k(theta * (1 - d))) / (2 * d * theta)
            low, high = (middle, high) if slope < eps + 1 / theta + 1 / (theta + 1) else (low, middle)
        return round(math.exp(low), 3) or 0.001

    def _log_f(self, rough: _Rough, theta: float) -> float:
        return rough.k(theta) - theta * float(self.epsilon) - math.log(theta * (theta + 1))

    def _estimate(self, theta: float) -> float:
        """Return log δ by the saddle-point formula."""
        rough, d = self._rough(theta * 1.1), theta / 50
        values = [self._log_f(rough, theta + s * d) for s in (-1, 0, 1)]
        curvature = max((values[0] - 2 * values[1] + values[2]) / d**2, 1e-12)
        return values[1] - math.log(2 * math.pi * curvature) / 2

    def _step(self) -> float:
        """Return η for which the aliases of 2η are e^-50 of δ, by Chernoff's bound: δ(x) <= e^{K(τ) - τx}."""
        eps, theta = float(self.epsilon), self.theta
        above: list[float] = []
        below = [(ALIASES - self.log_delta) / theta]
        for factor in np.geomspace(1.03, 16, 16).tolist():
            for tau in (theta * factor, theta / factor):
                excess = self._rough(tau).k(tau) - tau * eps - self.log_delta + ALIASES
                (above if tau > theta else below).append(excess / abs(tau - theta))
        finest = math.pi / max(min(above), min(below))
        return float(2.0 ** (math.floor(8 * math.log2(finest)) / 8))  # a grid, so that questions nearby share moments

    def _last(self) -> int:
        """Return the number of steps after which the line is below e^-60 of δ, up to three times as far."""
        steps = 16
        while not self._ends(steps * self.step):
            steps *= 2
            if steps > LONGEST:
                raise OutOfReach("the line is too long")
        shorter = math.ceil(steps / 1.4)
        return 2 * ((shorter if self._ends(shorter * self.step) else steps) // 2)

    def _ends(self, omega: float) -> bool:
        rough = self._rough(self.theta, 3 * omega)
        sizes = rough.log_size(self.theta, np.linspace(omega, 3 * omega, 60))
        peak = rough.k(self.theta) - self.theta * float(self.epsilon) - self.log_delta
        return bool(np.max(sizes) + peak - math.log(omega) < -CUT)

    def delta(self) -> Ball:
        steps, theta, step = self.last, arb(self.theta), arb(self.step)
        values = [acb(1)] * (steps + 1)
        for law, count in self.lines:
            moments = _moments(law, self.theta, self.step, steps)
            values = [v * m**count for v, m in zip(values, moments, strict=True)]
        for table, count in self.tables:
            moments = transform(table.finite, self.theta, self.step, steps)
            values = [v * m**count for v, m in zip(values, moments, strict=True)]
        terms = []
        for j, value in enumerate(values):
            z = acb(theta, step * j)
            terms.append((value * (self.square * z * (z + 1) / 2 - z * self.epsilon).exp() / (z * (z + 1))).real)
        fine = step / arb.pi() * (sum(terms[1:], arb(0)) + terms[0] / 2)
        coarse = 2 * step / arb.pi() * (sum(terms[2::2], arb(0)) + terms[0] / 2)
        tail = step / arb.pi() * max((abs(t) for t in terms[-(len(terms) // 8) :]), key=float) * steps
        if abs(terms[0]) * step > 1e8 * abs(fine):  # errors of M would be magnified as much
            raise OutOfReach("the line is far from the saddle")
        if not abs(fine - coarse) + tail < 1e-20 * fine:
            raise OutOfReach(f"the line is not resolved: {fine}, {coarse}, {tail}")
        return within(fine, abs(fine - coarse) + tail)


@cache
def _moments(law: Sampled, theta: float, step: float, steps: int) -> list[Ball]:
    """Return M(θ + ijη), j = 0..steps; nodes are made finer until it no longer changes."""
    low, high = _range(law, theta)
    probes = [acb(theta, step * steps * share) for share in (0, 0.5, 1)]
    before: list[Ball] = []
    fineness = 1.0
    while True:
        nodes = law.nodes(theta, low, high, fineness)
        if len(nodes) * steps > NODES:
            raise OutOfReach("too many nodes")
        now = [sum((p * (z * x).exp() for p, x in nodes), acb(0)) for z in probes]
        if before and all(abs(a - b) < abs(now[0]) * 1e-32 for a, b in zip(before, now, strict=True)):
            return transform(nodes, theta, step, steps)
        before, fineness = now, fineness * 1.4


def _range(law: Sampled, theta: float) -> tuple[float, float]:
    """Return the range of t outside which the tilted law has less than 1e-32."""
    t, masses, losses, _ = law.rough(theta, 0.0)
    tilted = (masses + theta * losses)[: len(t)]
    if law.view == "envelope":
        tilted = np.maximum(tilted, (masses + theta * losses)[len(t) : 2 * len(t)])
    kept = t[tilted > np.max(tilted) - 80]
    return float(kept[0]) - 0.1, float(kept[-1]) + 0.1


def transform(nodes: Sequence[tuple[Ball, Ball]], theta: float, step: float, steps: int) -> list[Ball]:
    """Return Σ p e^{(θ + ijη)x}, j = 0..steps, as a product of two matrices: j = few·block + rest."""
    block = math.isqrt(steps) + 1
    turns = [acb(0, arb(step) * x).exp() for _, x in nodes]
    start = [acb((theta * x).exp() * p) for p, x in nodes]
    wide = [turn**block for turn in turns]
    right = [[acb(1)] * len(nodes)]
    left = [start]
    for _ in range(block - 1):
        right.append([a * b for a, b in zip(right[-1], turns, strict=True)])
    for _ in range(steps // block):
        left.append([a * b for a, b in zip(left[-1], wide, strict=True)])
    product = acb_mat(left) * acb_mat(right).transpose()
    return [x.mid() for x in product.entries()][: steps + 1]
