"""Pure or priced: what an account admits beyond its lines, as long as everything it has released is pure DP.

**Lemma.** Let R be the product of an account's lines, and δ(·) its profile. Let every release be labelled, before its
output, *priced*, if the lines that are left pay for it, or *beyond*, if not. An account that at every moment has, of
all that was released or is held,

    nothing beyond its lines,    or    only pure releases, with Σ ε_i <= ε,

is (ε', δ(ε'))-DP for every ε' >= ε, whatever is chosen by looking. For ε' < ε that is not so, as all of it may be pure
DP of ε; there it is what follows from (ε, δ(ε)): (ε', δ(ε) + (1-δ(ε))(e^ε - e^{ε'})/(1+e^ε))-DP.

**Proof.** Fix an ordered pair of neighbours, let P and Q be the laws of the transcript, and F the transcripts in which
nothing that was released is beyond. A label is fixed before its release and never changes, so F is known to fail at the
first release beyond, and until then the process is, for both neighbours, the one that stops before that release and
says so. That one uses the lines alone: by the theorem of slots and reserves (`declaration`) R dominates it, and F lies
in it. So

    P(S ∩ F) <= e^{ε'} Q(S ∩ F) + δ(ε')    for every set S of transcripts.

Off F something beyond was released. It stays: only what was not released is ever returned. So the first condition fails
at the end, and the second one holds: all that was released is pure, and the likelihood ratio of the transcript, a
product of ratios of at most e^{ε_i} each, is at most e^ε <= e^{ε'}. So P(S - F) <= e^{ε'} Q(S - F). Add. The bound
does not depend on the number of rounds; sets that are seen after finitely many approximate all others. ∎

One δ pays for both, as the second rule spends none: two rules with failures δ₁ and δ₂ would need their sum. Each
direction of add-or-remove-one has its own R; pure DP is the same in both.

Holds for:  what the theorem of slots and reserves holds for, whose releases are fresh and chosen before their outputs.
            A hold counts as released in full while it stands; both conditions stay true when some of it is returned.
            Releases about other blocks have the same law on both neighbours: each block has its own labels and its own
            sum. A release of several blocks is admitted if every one of them admits it.
            A release goes into both: what the lines pay for counts in Σ ε_i, and what goes beyond them closes them.
Tightness:  attained: by releases of the lines alone, or by pure ones with Σ ε_i = ε.

What this costs is that lines which were overdrawn pay for nothing any more: once something beyond them was released,
the account is pure for good. So slots are kept: those that were not used count in Σ ε_i, and where they are not pure
nothing goes beyond the lines before they are used. And once something that is not pure was released, only the lines are
left.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import final

from cumulant.errors import CumulantError
from cumulant.mechanisms.approximate_dp import ApproximateDP
from cumulant.mechanisms.base import AbstractMechanism
from cumulant.mechanisms.laplace import Laplace
from cumulant.mechanisms.laplace_vector import LaplaceVector
from cumulant.mechanisms.pure_dp import PureDP

COMPUTED_UP = Fraction(1, 2**44)  # relative and absolute: logarithms of ratios of masses are doubles to 2^-51
GRID = 160  # bits after the point of sums that are only compared
WRITTEN = 15  # digits up to which a double is the decimal that somebody wrote


def stated(value: float) -> Fraction:
    """Return the number that somebody stated: the decimal they wrote, or of what was computed the double itself.

    >>> stated(0.1), stated(20.0), stated(1 / 3) == Fraction(1 / 3)
    (Fraction(1, 10), Fraction(20, 1), True)
    """
    written = Decimal(repr(float(value)))
    return Fraction(written) if len(written.as_tuple().digits) <= WRITTEN else Fraction(value)


@lru_cache(maxsize=4096)
def pure_cost(release: AbstractMechanism) -> Fraction | None:
    """Return ε of a release that is ε-DP, None of one that is not.

    It is exact where ε or 1/ε is stated, so that five counts of scale 5 are 1; else a double, raised by more than it
    lacks. Of a scale that no double holds the smaller of the decimal and its double is taken: noise is drawn with it.

    >>> from cumulant import Gaussian, RandomizedResponse
    >>> 5 * pure_cost(Laplace(scale=5.0)), pure_cost(Gaussian(noise_multiplier=9.0))
    (Fraction(1, 1), None)
    >>> round(float(pure_cost(RandomizedResponse(p=0.75))), 10)
    1.0986122887
    """
    if isinstance(release, Laplace | LaplaceVector):
        return 1 / min(stated(release.scale), Fraction(release.scale))
    if isinstance(release, PureDP) or (isinstance(release, ApproximateDP) and release.failure == 0):
        return stated(release.bound)
    try:
        epsilon = math.inf if release._known().failure() > 0 else float(release.epsilon(delta=0.0))
    except CumulantError:  # what nothing is proven of is not known to be pure
        return None
    return Fraction(epsilon) + COMPUTED_UP * (1 + Fraction(epsilon)) if epsilon < math.inf else None


@final
class PureSum:
    """Σ n_i ε_i of releases with counts, of which some may be taken back; `impure` counts those that are not pure."""

    __slots__ = ("_counts", "_most", "impure")

    def __init__(self, releases: Iterable[tuple[AbstractMechanism, int]] = ()) -> None:
        self._counts: dict[Fraction, int] = {}  # by ε
        self._most = self.impure = 0
        for release, times in releases:
            self.add(release, times)

    def add(self, release: AbstractMechanism, times: int) -> None:
        """Take a release into the sum, with its count."""
        cost = pure_cost(release)
        if cost is None:
            self.impure += times
        else:
            self._counts[cost] = self._counts.get(cost, 0) + times
            self._most += times * _on_grid(cost)

    def total(self) -> Fraction | None:
        """Return the sum exactly, None if one of the releases is not pure."""
        return None if self.impure else _sum([cost * count for cost, count in self._counts.items()])

    def is_within(self, budget: Fraction) -> bool:
        """Return whether all is pure and adds up to no more than ε: exactly, but fractions are added if it is close."""
        wanted, least = budget * 2**GRID, self._most - sum(self._counts.values())
        if self.impure or least > wanted:
            return False
        return self._most <= wanted or _sum([cost * count for cost, count in self._counts.items()]) <= budget


def _on_grid(cost: Fraction) -> int:
    return -((-cost.numerator << GRID) // cost.denominator)  # up


def _sum(terms: list[Fraction]) -> Fraction:
    """Return the sum by halves: denominators that have nothing in common grow as slowly as they can."""
    if len(terms) < 3:
        return sum(terms, Fraction(0))
    middle = len(terms) // 2
    return _sum(terms[:middle]) + _sum(terms[middle:])
