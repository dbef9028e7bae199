"""Groups: what a mechanism reveals of several records at once, when only its CGF is known."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import ClassVar, final

import numpy as np

from cumulant.curves.curve import Curve, projected
from cumulant.errors import UnprovenCombination
from cumulant.mechanisms.base import AbstractMechanism
from cumulant.mechanisms.known import Known
from cumulant.neighbors import ADD_REMOVE, Neighbors
from cumulant.numerics.logspace import Array
from cumulant.parameters import product_above, require, whole_number

KNOTS: Array = 2.0 ** (np.arange(-16, 61) / 4)  # λ at which the bound is computed; chords between (Corollary 10)
EXPONENTS: Array = 1 + 2.0 ** np.arange(-3.0, 3.5, 0.5)  # Hölder's p: each gives a bound, the least is taken
FEW_EXPONENTS: Array = 1 + 2.0 ** np.arange(-1.0, 1.5, 0.5)  # the same for large λ, where K of a sample takes a while
LARGE_TILT = 64.0  # λ from which fewer exponents do


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Group(AbstractMechanism):
    """A mechanism towards groups of `size` records: neighbours at distance `size` in its relation.

    Where the pair of a group is known (`Known.together`) the group joins or leaves together; `method="rdp"`
    covers every change at that distance.

    Mechanisms with a better rule of their own (`Gaussian.group` and others) do not come here.

    >>> from cumulant import RenyiCurve
    >>> curve = RenyiCurve(lambda order: 0.005 * order)
    >>> round(curve.group(size=2).rdp(order=4), 2)
    0.08
    """

    theorem: ClassVar[str] = "weak triangle inequality of Rényi divergences (Mironov 2017, Proposition 11)"

    mechanism: AbstractMechanism
    size: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", whole_number("size", self.size, at_least=1))
        require(isinstance(self.mechanism, AbstractMechanism), "mechanism must be a cumulant mechanism", self.mechanism)
        known = self.mechanism._known()
        if known.failure() > 0:
            raise UnprovenCombination("a group bound needs a mechanism that cannot fail; use ApproximateDP(...).group")
        if known.fixed_size and self.mechanism.neighbors is ADD_REMOVE:
            raise UnprovenCombination(
                "adding records one after another changes the size, and with it the rate of a fixed batch; "
                "ask for groups under replace-one"
            )

    @property
    def neighbors(self) -> Neighbors | None:
        return self.mechanism.neighbors

    def _known(self) -> Known:
        one = self.mechanism._known()
        together, attained = one.together(self.size), one.attained_together(self.size)
        return replace(
            Known.by_curve(lambda: group_loss(_curve_of(self.mechanism), self.size), fixed_size=one.fixed_size),
            directions=lambda relation: together,
            attained=lambda relation: attained,
            tight=lambda relation: together is not None and one.tight(relation),
        )


@lru_cache(maxsize=64)
def _curve_of(mechanism: AbstractMechanism) -> Curve:
    """Return the curve of one record, whose values groups of all sizes share."""
    return mechanism._known().curve()


def group_loss(cgf: Curve, size: int) -> Curve:
    """Return the CGF towards groups: split the chain of neighbours in halves and join them by Hölder's inequality.

    For P, R at distance a, R, Q at distance b and conjugate exponents p, q (Mironov 2017, Proposition 11):

        K_{a+b}(λ) <= K_a(p(λ+1) - 1)/p + K_b(qλ)/q.

    Holds for:  every mechanism, either relation.
    Tightness:  attained by the Gaussian at the best p; here the best of a grid, at knots, with chords between.
    """
    if size == 1:
        return cgf

    def joined(a: Curve, b: Curve, together: int) -> Curve:
        return _join(a, b, product_above(together, cgf.pure))

    here, next_one = cgf, joined(cgf, cgf, 2)  # of groups of n and n + 1, from n = 1 up by the binary digits of `size`
    for shift in reversed(range(size.bit_length() - 1)):
        n = size >> shift
        middle = joined(next_one, here, n | 1)
        here, next_one = (middle, joined(next_one, next_one, n + 1)) if n % 2 else (joined(here, here, n), middle)
    return here


@lru_cache(maxsize=256)  # groups of all sizes share their halves
def _join(first: Curve, second: Curve, pure: float) -> Curve:
    """Return the best bound K_{a+b} <= k at the knots, where it is finite, with chords between."""
    low, high = KNOTS[KNOTS <= LARGE_TILT], KNOTS[KNOTS > LARGE_TILT]
    best = np.concatenate([_best(first, second, low, EXPONENTS), _best(first, second, high, FEW_EXPONENTS)])
    points = [(lam, k) for lam, k in zip(KNOTS.tolist(), best.tolist(), strict=True) if math.isfinite(k)]
    return projected(points, pure=pure)


def _best(first: Curve, second: Curve, knots: Array, exponents: Array) -> Array:
    p = exponents[:, None]
    q = p / (p - 1)
    bounds = first(p * (knots + 1) - 1) / p + second(q * knots) / q
    return np.asarray(np.min(bounds, axis=0) * (1 + 1e-14))  # rounded up
