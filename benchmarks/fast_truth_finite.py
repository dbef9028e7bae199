"""Composed laws with finitely many outputs, by enumeration in ball arithmetic: every term of the product law."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import final

from flint import arb, ctx

from benchmarks.fast_truth_laws import Ball, Law, Masses, arb_sum

MOST_TERMS = 20_000
WINDOW = 8_000  # terms of a long two-point law, on either side of where it is largest

Counted = Sequence[tuple[Law, int]]


@final
@dataclass(frozen=True, slots=True)
class Enclosed:
    """Balls around a lower and an upper bound of δ; no upper bound where terms were left out."""

    lower: Ball
    upper: Ball | None


def terms_of(parts: Counted) -> int:
    """Return how many terms the product law has."""
    return math.prod(math.comb(n + max(_common(law), 1) - 1, n) for law, n in parts)


def enumerated(parts: Counted, t: Ball) -> Ball:
    """Return δ at log t of a product law."""
    common = [[pair for pair in law.masses() if not (pair[0].is_zero() or pair[1].is_zero())] for law, _ in parts]
    factors = [_powers(masses, n) for masses, (_, n) in zip(common, parts, strict=True)]
    return failure(parts) + _paid(factors, t)


def failure(parts: Counted) -> Ball:
    """Return the probability that some output has an infinite loss: 1 - Π (1-f)^n without cancellation."""
    exponent = arb(0)
    for law, n in parts:
        lost = arb_sum(a for a, b in law.masses() if b.is_zero())
        if lost >= 1:
            return arb(1)
        if not lost.is_zero():
            exponent += n * (-lost).log1p()
    return -exponent.expm1()


def windowed(law: Law, n: int, t: Ball) -> Enclosed | None:
    """Return δ of n releases of a law with two outputs: terms around the largest; more would add next to nothing.

    Ordered so that the first output has the larger loss, k of n outputs are the first; the terms rise to a mode and
    fall from there, faster and faster, so what is beyond the window is less than a geometric series.
    """
    pairs = [pair for pair in law.masses() if not (pair[0].is_zero() or pair[1].is_zero())]
    if len(pairs) != 2:
        return None
    (p1, q1), (p2, q2) = sorted(pairs, key=lambda pair: float((pair[0] / pair[1]).log().mid()), reverse=True)
    gains = [float((p / q).log().mid()) for p, q in ((p1, q1), (p2, q2))]
    if gains[0] == gains[1]:
        return None
    least = math.floor((float(t.log().mid()) - n * gains[1]) / (gains[0] - gains[1])) - 1
    least = min(max(least, 0), n)
    start = min(max(least, math.floor(float((n + 1) * p1 / (p1 + p2)))), n)
    p, q = (_binomial_term(n, start, *pair) for pair in ((p1, p2), (q1, q2)))
    total = (p - t * q).nonnegative_part()
    upper_ok = True
    for step in (1, -1):
        a, b, k, taken = p, q, start, 0
        up, up_q = (p1 / p2, q1 / q2) if step > 0 else (p2 / p1, q2 / q1)
        while (least <= k + step <= n) and taken < WINDOW:
            share = arb(n - k) / (k + 1) if step > 0 else arb(k) / (n - k + 1)
            a, b, k, taken = a * share * up, b * share * up_q, k + step, taken + 1
            total += (a - t * b).nonnegative_part()
            if a < total * arb(2) ** (-ctx.prec):
                break
        if least <= k + step <= n:
            ratio = (arb(n - k) / (k + 1) if step > 0 else arb(k) / (n - k + 1)) * up
            upper_ok = upper_ok and bool(ratio < 1)
            rest = a * ratio / (1 - ratio) if ratio < 1 else arb(0)
            total = total.union(total + rest) if upper_ok else total
    lost = failure([(law, n)])
    return Enclosed(lost + total.lower(), lost + total.upper() if upper_ok else None)


def _binomial_term(n: int, k: int, first: Ball, second: Ball) -> Ball:
    old = ctx.prec
    ctx.prec = old + 2 * n.bit_length() + 32
    try:
        choose = arb(n + 1).lgamma() - arb(k + 1).lgamma() - arb(n - k + 1).lgamma()
        return (choose + k * first.log() + (n - k) * second.log()).exp()
    finally:
        ctx.prec = old


def _common(law: Law) -> int:
    return sum(1 for a, b in law.masses() if not (a.is_zero() or b.is_zero()))


def _powers(masses: Masses, n: int) -> Masses:
    """Return the terms of the n-fold product, by how often each output came up."""
    if not masses:
        return [] if n else [(arb(1), arb(1))]
    if n == 1:  # of tables of thousands of outputs, too
        return list(masses)
    (p, q), *rest = masses
    if not rest:
        return [(p**n, q**n)]
    ps, qs = _powers_of(p, n), _powers_of(q, n)
    found: Masses = []
    ways = 1
    for k in range(n + 1):
        a, b = ways * ps[k], ways * qs[k]
        ways = ways * (n - k) // (k + 1)
        found += [(a * c, b * d) for c, d in _powers(rest, n - k)]
    return found


def _powers_of(x: Ball, n: int) -> list[Ball]:
    powers = [arb(1)]
    for _ in range(n):
        powers.append(powers[-1] * x)
    return powers


def _paid(factors: Sequence[Masses], t: Ball) -> Ball:
    """Return Σ (P - tQ)_+ over the products of one term of each factor."""
    *others, last = factors
    total = arb(0)
    for chosen in product(*others):
        a, b = arb(1), t
        for p, q in chosen:
            a, b = a * p, b * q
        for p, q in last:
            gain = a * p - b * q
            if gain > 0:
                total += gain
            elif not gain <= 0:  # undecided: between 0 and what the ball reaches
                total += gain.nonnegative_part()
    return total
