"""The truth about a run in milliseconds, between two bounds: nothing here is taken from the library.

By closed forms for Gaussians and single releases, by enumeration for finitely many outputs, by the inversion integral
for sampled Gaussians, by a coarse lattice for what is left, and if all fails by fewer releases, which tell less.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import product
from typing import final

import numpy as np
from flint import arb, ctx

from benchmarks.fast_cases import Part
from benchmarks.fast_truth_finite import MOST_TERMS, enumerated, failure, terms_of, windowed
from benchmarks.fast_truth_laws import AnyLaw, Ball, Laplace, Law, Mixtures, Normal, arb_max, arb_sum
from benchmarks.fast_truth_line import Beyond, estimated
from benchmarks.fast_truth_meaning import Choices, choices, relation_of, with_plain_relations
from benchmarks.fast_truth_renyi import divergence
from benchmarks.laws import Exchanged, GaussianLaw, LaplaceLaw, NormalMixtures, Removed, TableLaw
from benchmarks.laws import Law as LatticeLaw
from benchmarks.reference import _bounds as lattice_bounds

LONG = 150  # releases from which two outputs are summed over a window
LATTICE = 2**12
LATTICE_ERROR = 1e-9  # relative, of δ
MOST_SPLITS = 24  # of the releases of one part among its pairs
FEW_SPLITS = 4  # where each takes milliseconds
MOST_PRODUCTS = 16
MOST_LATTICES = 2
ENOUGH = 0.1  # seconds, where more laws can only raise a lower bound
PRECISIONS = (128, 320, 1100)

Counted = list[tuple[AnyLaw, int]]


@final
@dataclass(frozen=True, slots=True)
class Truth:
    """Balls around a lower and an upper bound of δ; `refined` by more bits of precision or not."""

    lower: Ball
    upper: Ball | None
    refined: bool
    source: str


class Run:
    """A composition, and what is true of it."""

    def __init__(self, parts: Sequence[Part]) -> None:
        parts = [with_plain_relations(part) for part in parts]
        relation = relation_of(parts)
        known = [(choices(part, relation), part.count) for part in parts]
        self._parts: list[tuple[Choices, int]] = [(one, n) for one, n in known if one is not None]
        once = len(known) == 1 and known[0][1] == 1
        self.tight = len(self._parts) == len(known) and all(
            one.tight or (once and one.tight_once) for one, _ in self._parts
        )

    @cached_property
    def _assignments(self) -> list[Counted]:
        orders = [[(getattr(one, name), n) for one, n in self._parts] for name in ("leaves", "joins")]
        found: list[Counted] = []
        for order in orders:
            for assigned in _assignments([(laws, n) for laws, n in order if laws]):
                merged = _merged(assigned)
                if merged and merged not in found:
                    found.append(merged)
        return found

    def delta(self, epsilon: float) -> Truth:
        """Return bounds of δ at ε >= 0."""
        found: list[Truth] = []
        start, lattices = time.process_time(), 0
        for parts in self._assignments:
            found.append(_delta(parts, epsilon, lattice=lattices < MOST_LATTICES))
            lattices += found[-1].source == "lattice"
            if time.process_time() - start > ENOUGH and not self.tight:
                break  # a lower bound by fewer of them
        found = found or [Truth(arb(0), arb(0), True, "nothing")]
        best = found[0]
        for other in found[1:]:
            best = other if float(other.lower.mid()) > float(best.lower.mid()) else best
        uppers = [truth.upper for truth in found]
        known = self.tight and all(upper is not None for upper in uppers)
        return Truth(
            arb_max(truth.lower for truth in found),
            arb_max(uppers) if known else None,
            all(truth.refined for truth in found),
            best.source,
        )

    def largest_loss(self) -> tuple[Ball, Ball | None]:
        """Return bounds of ε at δ = 0."""
        sums = [arb_sum(n * law.largest_loss() for law, n in parts) for parts in self._assignments]
        most = arb_max(sums) if sums else arb(0)
        return most, most if self.tight else None

    def renyi(self, order: float) -> Ball:
        """Return a lower bound of the Rényi divergence."""
        totals = []
        for name in ("leaves", "joins"):
            known = [(getattr(one, name), n) for one, n in self._parts]
            totals.append(arb_sum(n * arb_max(divergence(law, order) for law in laws) for laws, n in known if laws))
        return arb_max(totals)


def _assignments(parts: Sequence[tuple[tuple[AnyLaw, ...], int]]) -> Iterator[Counted]:
    """Return choices of one law for every release: one for all of a part, then two laws of one part in all shares."""
    for number, chosen in enumerate(product(*(laws for laws, _ in parts))):
        if number == MOST_PRODUCTS:
            break
        yield [(law, n) for law, (_, n) in zip(chosen, parts, strict=True)]
    for i, (laws, n) in enumerate(parts):
        others = [(some[0], m) for j, (some, m) in enumerate(parts) if j != i]
        many = MOST_SPLITS if all(law.finite for law in laws) else FEW_SPLITS
        for a, first in enumerate(laws):
            for second in laws[a + 1 :]:
                for k in _splits(n, many):
                    yield [*others, (first, n - k), (second, k)]


def _splits(n: int, many: int) -> list[int]:
    if n <= many:
        return list(range(1, n))
    return sorted({max(1, round(n * share)) for share in (0.25, 0.5, 0.75)} | {1})


def _merged(parts: Counted) -> Counted:
    """Return the same product with equal laws once, and all plain Gaussians as one."""
    square, counts = Fraction(0), dict[AnyLaw, int]()
    for law, n in parts:
        if isinstance(law, Law) and isinstance(law.base, Normal) and law.rate == 1:
            square += n * law.base.square
        elif not (isinstance(law, Law) and (law.rate == 0 or getattr(law.base, "square", 1) == 0)):
            counts[law] = counts.get(law, 0) + n
    return [*([(Law(Normal(square)), 1)] if square else []), *counts.items()]


def _delta(parts: Counted, epsilon: float, *, lattice: bool) -> Truth:
    t = arb(epsilon).exp()
    if len(parts) == 1 and parts[0][1] == 1:
        value = parts[0][0].hockey_stick(t)
        slack = arb(2) ** (-ctx.prec // 2) if isinstance(parts[0][0], Mixtures) else arb(0)
        return Truth(value, value * (1 + slack), True, "one release")
    if all(law.finite for law, _ in parts):
        found = _finite([(law, n) for law, n in parts if isinstance(law, Law)], t)
        if found is not None:
            return found
    elif not all(law.finite or _atomic(law) for law, _ in parts):
        try:
            estimate = estimated(parts, epsilon)
        except (Beyond, OverflowError, ValueError, ZeroDivisionError):
            pass
        else:
            lost, value = failure(_finite_parts(parts)), arb(estimate.log_value).exp()
            return Truth(
                lost + value * (1 - estimate.error), lost + value * (1 + estimate.error), False, "inversion integral"
            )
    return _less(parts, epsilon, t, lattice=lattice)


def _finite(parts: Sequence[tuple[Law, int]], t: Ball) -> Truth | None:
    if len(parts) == 1 and parts[0][1] > LONG:
        enclosed = windowed(*parts[0], t)
        if enclosed is not None:
            return Truth(enclosed.lower, enclosed.upper, enclosed.upper is not None, "binomial sum")
    if terms_of(parts) > MOST_TERMS:
        return None
    value = enumerated(parts, t)
    return Truth(value, value, True, "enumeration")


def _less(parts: Counted, epsilon: float, t: Ball, *, lattice: bool) -> Truth:
    """Return the best of a coarse lattice and of single releases."""
    single = arb_max(law.hockey_stick(t) for law, _ in parts)
    if not lattice:
        return Truth(single, None, False, "one of its releases")
    try:
        with np.errstate(all="ignore"):
            bracket = lattice_bounds([(_on_lattice(law), n) for law, n in parts], epsilon, LATTICE)
    except (OverflowError, ValueError, ZeroDivisionError, IndexError, FloatingPointError):
        return Truth(single, None, False, "one of its releases")
    lost = failure(_finite_parts(parts))
    if not math.isfinite(bracket.lower):
        return Truth(single, None, False, "one of its releases")
    lower = lost + arb(bracket.lower).exp() * (1 - LATTICE_ERROR)
    upper = lost + arb(bracket.upper).exp() * (1 + LATTICE_ERROR)
    return Truth(lower.max(single), upper if lost.is_zero() else None, False, "lattice")


def _finite_parts(parts: Counted) -> list[tuple[Law, int]]:
    return [(law, n) for law, n in parts if isinstance(law, Law) and law.finite]


def _atomic(law: AnyLaw) -> bool:
    """Whether the loss has atoms, so that its transform never falls."""
    return isinstance(law, Law) and isinstance(law.base, Laplace)


def _on_lattice(law: AnyLaw) -> LatticeLaw:
    if isinstance(law, Mixtures):
        mean = float(law.mean)
        sides = [[(float(w), j * mean) for j, w in side if float(w) > 0] for side in (law.weights, law.others)]
        (w, m), (v, o) = (tuple(zip(*side, strict=True)) for side in sides)
        mixtures = NormalMixtures(w, m, v, o)
        return Exchanged(mixtures) if law.joins else mixtures
    if law.finite:
        pairs = [(a, b) for a, b in law.masses() if not (a.is_zero() or b.is_zero())]
        columns = [(float((a / b).log()), float(a), float(b)) for a, b in pairs]
        if any(min(p, q) < 1e-250 for _, p, q in columns):
            raise OverflowError("masses that are too small for this reference")
        losses, p, q = (tuple(column) for column in zip(*columns, strict=True))
        return TableLaw(losses, p, q)
    base: LatticeLaw
    base = GaussianLaw(float(law.base.mean)) if isinstance(law.base, Normal) else LaplaceLaw(float(law.base.theta))  # type: ignore[union-attr]
    if law.rate < 1:
        base = Removed(base, float(law.rate))
    return Exchanged(base) if law.joins else base
