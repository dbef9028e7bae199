"""A record that joins k of t releases on finitely many outputs, drawn uniformly: its dominating pair, exactly.

With (A, B) the pair of one release and r_i = dA/dB of the output of step i under B, the pair of all is

    dP/dQ = e_k(r_1, …, r_t)/C(t, k),

the mean over the k-subsets of products of ratios. It depends on how often each output came alone: there are
C(t+m-1, m-1) such counts of m ratios, multinomial under Q. What A alone reveals is revealed if one of k releases does.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, final

import numpy as np

from cumulant.errors import OutOfReach
from cumulant.numerics.balls import as_ball, ball_of_fraction, current_bits, precision, upper_float
from cumulant.pairs.atoms import Atoms, BallColumns, Columns, Table

if TYPE_CHECKING:
    from flint import arb

MOST_COUNTS = 20_000  # outputs of all steps together
BITS = 256  # of sums whose logarithms become doubles


@final
@dataclass(frozen=True, slots=True)
class AllocatedAtoms(Atoms):
    """(P, Q) of a record that leaves; every bin that it joins releases `epochs` times.

    Holds for:  (A, B) that dominates one release with the record against one without it, for all t >= 0; see
                `sampling.random_allocation.RandomAllocation`.
    Tightness:  attained if (A, B) is, by one dataset for all releases.
    """

    of: Atoms
    steps: int
    chosen: int = 1
    epochs: int = 1

    def columns(self) -> Columns:
        with precision(BITS):
            balls = self.balls()
            pairs = zip(balls.losses, balls.masses, strict=True)
            rows = [(float(x.mid()), float(p.log().mid()), float((p.log() - x).mid())) for x, p in pairs]
            losses, log_p, log_q = np.array(rows).reshape(-1, 3).T
            return Columns(losses, log_p, log_q, _float_above(balls.failure), _float_above(balls.absent))

    def balls(self) -> BallColumns:
        return _allocated(self, current_bits())


def followed_by_counts(base: Atoms, steps: int, chosen: int, epochs: int) -> int:
    """Return of how many steps all counts are formed, at most these; fewer dominate, `chosen` of them."""
    with precision(BITS):
        ratios = len(_of_epochs(base, epochs))
    at_most = steps
    while math.comb(at_most + ratios - 1, ratios - 1) > MOST_COUNTS and at_most > chosen:
        at_most -= 1 + (at_most - chosen) // 16
    return at_most


class _Ratio(NamedTuple):
    """A likelihood ratio, 0 where A has nothing, and its mass under B."""

    ratio: arb
    mass: arb
    is_zero: bool = False


@lru_cache(maxsize=32)
def _allocated(atoms: AllocatedAtoms, bits: int) -> BallColumns:
    with precision(bits):
        ratios = _of_epochs(atoms.of, atoms.epochs)
        losses, masses, absent = [], [], as_ball(0.0)
        for mass, ratio, is_zero in _counts(ratios, atoms.steps, atoms.chosen):
            if is_zero:
                absent += mass
            else:
                losses.append(ratio.log())
                masses.append(mass * ratio)
        revealed = atoms.of.balls().failure
        failure = 1 - (1 - revealed) ** (atoms.chosen * atoms.epochs) if revealed > 0 else revealed
        return BallColumns(losses, masses, failure, absent)


def _of_epochs(base: Atoms, epochs: int) -> list[_Ratio]:
    """Return the ratios of several releases together: of counts, each a product."""
    one = _ratios(base)
    if epochs == 1:
        return one
    if math.comb(epochs + len(one) - 1, len(one) - 1) > MOST_COUNTS:
        raise OutOfReach(f"{epochs} releases of {len(one)} likelihood ratios have more than {MOST_COUNTS} products")
    return [_Ratio(ratio, mass, is_zero) for mass, ratio, is_zero in _counts(one, epochs, epochs)]


def _counts(ratios: list[_Ratio], steps: int, chosen: int) -> list[tuple[arb, arb, bool]]:
    """Return of all counts the mass under Q and e_k(r)/C(t, k), and whether that is 0."""
    one, nothing = as_ball(1.0), as_ball(0.0)
    found = [(steps, 0, one, [one] + [nothing] * chosen)]  # steps left, ratios above 0, mass, and Σ e_j x^j
    for i, (ratio, mass, is_zero) in enumerate(ratios):
        masses, powers = [one], [one]
        for n in range(1, steps + 1):
            masses.append(masses[-1] * mass / n)
        for _ in range(0 if is_zero else chosen):
            powers.append(powers[-1] * ratio)
        rows = [[math.comb(n, j) * x for j, x in enumerate(powers[: n + 1])] for n in range(steps + 1)]
        found = [
            (left - n, above + (0 if is_zero else n), weight * masses[n], _product(sums, rows[n]))
            for left, above, weight, sums in found
            for n in (range(left + 1) if i + 1 < len(ratios) else (left,))
        ]
    ways, orders = math.comb(steps, chosen), math.factorial(steps)
    return [(weight * orders, sums[chosen] / ways, above < chosen) for _, above, weight, sums in found]


def _product(a: list[arb], b: list[arb]) -> list[arb]:
    """Return as many coefficients of a product as the first factor has."""
    return [sum((a[k - j] * b[j] for j in range(1, min(k + 1, len(b)))), a[k] * b[0]) for k in range(len(a))]


def _ratios(base: Atoms) -> list[_Ratio]:
    """Return the ratios of one release; equal ones of a table are one."""
    if not isinstance(base, Table):
        columns = base.balls()
        found = [_Ratio(x.exp(), p * (-x).exp()) for x, p in zip(columns.losses, columns.masses, strict=True)]
        return [*found, _Ratio(as_ball(0.0), columns.absent, True)] if columns.absent > 0 else found
    masses: dict[Fraction, Fraction] = {}
    for a, b in zip(*base.fractions(), strict=True):
        if b > 0:
            masses[a / b] = masses.get(a / b, Fraction(0)) + b
    return [_Ratio(ball_of_fraction(x), ball_of_fraction(b), x == 0) for x, b in sorted(masses.items())]


def _float_above(ball: arb) -> float:
    return 0.0 if ball == 0 else min(upper_float(ball), 1.0)
