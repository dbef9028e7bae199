"""Pairs of distributions on finitely many outputs: randomized response, pure and approximate DP, tables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import final

import numpy as np

from cumulant.curves.curve import Curve
from cumulant.errors import OutOfReach
from cumulant.numerics.decay import Cells
from cumulant.numerics.logspace import Array
from cumulant.numerics.rounding import float_above
from cumulant.pairs.atoms import Atoms, Binary, ChordAtoms, TruthfulAnswer
from cumulant.pairs.cache import CACHE
from cumulant.pairs.discrete import DiscreteLosses
from cumulant.pairs.pair import DominatingPair, LatticeOfLosses

SUM_ERROR = 1e-12  # how far the masses of a pair may be from 1 by rounding, and a little for every output
LOSS_ROUNDING = 2.0**-50  # relative error of a loss
LARGEST_LOSS = 1e150  # beyond which sums of losses may overflow
MOSTLY = 0.5  # a failure probability from which the finite losses are the smaller part
EVEN = 4e-15  # how far losses may be from a lattice, relative to the largest


@final
@dataclass(frozen=True, slots=True)
class FinitePair(DominatingPair):
    """Finite losses with the logarithms of their probabilities under P; `failure` is P(Q = 0), `absent` Q(P = 0)."""

    atoms: Atoms
    losses: Array = field(init=False, repr=False, compare=False)
    log_masses: Array = field(init=False, repr=False, compare=False)
    failure: float = field(init=False, repr=False, compare=False)
    absent: float = field(init=False, repr=False, compare=False)
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Check what every pair must be: masses are numbers and add up to 1 under P and under Q; losses are sorted."""
        columns = self.atoms.columns()
        there = columns.log_masses > -math.inf
        order = np.argsort(columns.losses[there], kind="stable")
        losses, log_masses, log_q = (
            column[there][order] for column in (columns.losses, columns.log_masses, columns.log_q)
        )
        with np.errstate(under="ignore", over="ignore"):
            p = float(np.sum(np.exp(log_masses))) + columns.failure + self.left_out
            q = float(np.sum(np.exp(log_q))) + columns.absent
        allowed = (
            SUM_ERROR * (1 + math.log2(1 + len(losses)))
            + self.left_out
            + float(np.max(np.abs(log_masses), initial=0.0)) * 1e-14
        )
        if not (abs(p - 1) <= allowed and abs(q - 1) <= allowed and np.all(np.isfinite(losses))):
            raise OutOfReach(f"doubles do not hold this pair: its probabilities add up to {p!r} and {q!r}")
        values = (losses, log_masses, columns.failure, columns.absent, hash(self.atoms))
        for name, value in zip(("losses", "log_masses", "failure", "absent", "_hash"), values, strict=True):
            object.__setattr__(self, name, value)

    def __hash__(self) -> int:
        return self._hash

    @property
    def outputs(self) -> int:
        return 0 if self.of_chords else len(self.losses)

    @property
    def supremum(self) -> float:
        """The largest loss, rounded up where it is not a parameter."""
        if not len(self.losses):
            return -math.inf
        if self.left_out > 0:
            return math.inf
        top = float(self.losses[-1])
        return top if isinstance(self.atoms, Binary | TruthfulAnswer) else top + abs(top) * LOSS_ROUNDING

    @property
    def log_top_mass(self) -> float:
        return float(self.log_masses[-1]) - math.log1p(-self.failure)

    def nodes(self, theta: float, omega: float) -> DiscreteLosses:
        if len(self.losses) and max(-self.losses[0], self.losses[-1]) > LARGEST_LOSS:
            raise OutOfReach(f"squares of a loss of {float(np.max(np.abs(self.losses))):g} overflow")
        lattice = self.lattice
        slip = 0.0 if lattice is None else lattice.slip
        missing = self.left_out / (1 - self.failure)
        return DiscreteLosses.of(self.losses, self._log_finite(), self._lost(), slip=slip, missing=missing)

    def _lost(self) -> float | None:
        """Return 1 - Q(P > 0)/P(Q > 0); None where `failure` is MOSTLY or more: nothing small is left to keep."""
        if self.failure == self.absent:
            return 0.0
        return (self.absent - self.failure) / (1 - self.failure) if self.failure < MOSTLY else None

    def _log_finite(self) -> Array:
        """Return the logarithms of the masses given that the loss is finite."""
        return self.log_masses - math.log1p(-self.failure) if self.failure else self.log_masses

    @property
    def log_excess_of_q(self) -> float:
        """Log of how much more mass than P the rest of Q has, given that the loss is finite; rounded up, at least 0."""
        if self.absent >= self.failure:
            return 0.0
        return (math.log1p(-self.absent) - math.log1p(-self.failure)) * (1 + 1e-12)

    def cells(self, theta: float, k_theta: float | Array) -> Cells:
        with np.errstate(under="ignore"):
            return Cells.of_atoms(self.losses, np.exp(self._log_finite() + theta * self.losses - k_theta))

    @property
    def reveals_nothing(self) -> bool:
        return self.failure == 0 and self.absent == 0 and not np.any(self.losses)

    @property
    def has_atoms(self) -> bool:
        return True

    @property
    def left_out(self) -> float:  # type: ignore[override]
        return self.atoms.left_out if isinstance(self.atoms, ChordAtoms) else 0.0

    @property
    def of_chords(self) -> bool:  # type: ignore[override]
        return isinstance(self.atoms, ChordAtoms)

    def count_nodes(self, theta: float, omega: float) -> float:
        return float(len(self.losses))

    def waves(self, theta: float) -> float:
        return 0.0

    @property
    def lattice(self) -> LatticeOfLosses | None:
        """The lattice that the losses lie on within `error`: two points always do, more of them if they are even."""
        points = np.unique(self.losses)
        if len(points) < 2 or np.max(np.abs(points)) > LARGEST_LOSS:
            return None
        span = (Fraction(points[-1]) - Fraction(points[0])) / (len(points) - 1)
        offset, step = float(points[0]), float(span)
        if np.any(np.abs(np.diff(points) - step) > 2 * EVEN * np.max(np.abs(points))):  # a quick no
            return None
        # exact differences: a lattice of doubles is not where its losses are, by up to this
        apart = max(abs(Fraction(x) - Fraction(offset) - k * Fraction(step)) for k, x in enumerate(points.tolist()))
        largest = float(np.max(np.abs(points)))
        if apart > EVEN * largest:
            return None
        rounding = 0.0 if isinstance(self.atoms, Binary | TruthfulAnswer) else LOSS_ROUNDING * largest
        slip = float_above(apart)
        return LatticeOfLosses(offset, step, slip, slip + rounding)


def finite_loss(pairs: Sequence[FinitePair]) -> Curve:
    """Return the CGF of releases that each of some pairs, or one of them, dominates: the largest K at every order.

    Given that the loss is finite, Q has the mass c = Q(P > 0)/P(Q > 0). Conversions from Rényi DP are about two
    probabilities: where c > 1, L + log c is taken for L, which is the loss against Q/c, and costs more.
    """
    known = [(pair.nodes(1.0, 0.0), pair.log_excess_of_q) for pair in pairs if pair.failure < 1]

    def log_moment(lam: Array) -> Array:
        if not known:
            return np.zeros(lam.shape)
        values = [nodes.cumulants(lam)[0][0] * (1 + 1e-13) + lam * more for nodes, more in known]  # rounded up
        return np.asarray(np.max(values, axis=0))

    return Curve(
        log_moment=log_moment,
        kl=max([0.0, *(float(nodes.divergence[0]) * (1 + 1e-13) + more for nodes, more in known)]),  # rounded up
        pure=max([0.0, *(pair.supremum + pair.log_excess_of_q for pair in pairs if pair.failure < 1)]),
        failure=max(pair.failure for pair in pairs),
    )


@CACHE.remember
def finite_pair(atoms: Atoms) -> FinitePair:
    """Return the pair of some atoms, built and checked once."""
    return FinitePair(atoms)


def binary_pair(epsilon: float, failure: float = 0.0) -> FinitePair:
    """Return the pair of (ε, δ)-DP: everything is revealed with probability δ, else randomized response.

    Holds for:  every (ε, δ)-DP mechanism (Kairouz, Oh and Viswanath 2017, Theorem 3.1).
    Tightness:  attained by that mechanism; composing the pair is optimal composition.
    """
    return FinitePair(Binary(epsilon, failure))
