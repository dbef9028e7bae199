"""Two members of an exponential family."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, final

import numpy as np

from cumulant.curves.curve import Array, Curve, at_least
from cumulant.curves.families import FAMILIES, STEPS, Family, checked_natural, family_divergence
from cumulant.mechanisms.base import AbstractMechanism
from cumulant.mechanisms.known import Known
from cumulant.numerics.rounding import LEAST, ULP
from cumulant.parameters import require

Natural = tuple[float, ...]


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class FamilyPair(AbstractMechanism):
    """Release a draw from p_η on one dataset and from p_η' on its neighbour: a pair stated by natural parameters.

    Families: bernoulli (log-odds), categorical (log p_i/p_0), poisson (log mean), gamma (shape - 1, -rate), normal
    (Σ⁻¹μ, then -½Σ⁻¹ row by row). The RDP is the larger of the two directions, infinite where αη + (1-α)η' leaves the
    natural space (Wang et al. 2019, Appendix F; `family_divergence`).

    Holds for:  the one pair of outputs described, in both directions; state the worst pair of your mechanism.
    Tightness:  exact for that pair.

    >>> FamilyPair(family="normal", natural=(0.0, -0.125), neighbor_natural=(0.25, -0.125)).rdp(order=8)
    1.00000...
    """

    theorem: ClassVar[str] = "Rényi divergence of exponential families (Wang et al. 2019, Appendix F)"

    family: str
    natural: Natural
    neighbor_natural: Natural

    def __post_init__(self) -> None:
        known = isinstance(self.family, str) and self.family in FAMILIES
        require(known, f"family must be one of {', '.join(FAMILIES)}", self.family)
        for name in ("natural", "neighbor_natural"):
            values: Any = checked_natural(self._family, name, getattr(self, name))
            object.__setattr__(self, name, tuple(values.tolist()))
        same = len(self.natural) == len(self.neighbor_natural)
        require(same, "neighbor_natural must have as many numbers as natural", self.neighbor_natural)

    @property
    def _family(self) -> Family:
        return FAMILIES[self.family]

    def _known(self) -> Known:
        return Known.by_curve(self._curve)

    def directed_curves(self) -> tuple[Curve, Curve]:
        """Return K of each direction of the pair."""

        def curve(one: Natural, other: Natural) -> Curve:
            def log_moment(lam: Array) -> Array:
                orders = (1 + lam).tolist()
                found = [family_divergence(self._family, one, other, order=order) for order in orders]
                return np.asarray(lam * np.array(found))

            return Curve(log_moment=log_moment, kl=family_divergence(self._family, one, other, order=1.0))

        return curve(self.natural, self.neighbor_natural), curve(self.neighbor_natural, self.natural)

    def rounding_of_moments(self, order: int) -> float:
        """Return how far K may be off at orders up to this one, as a share of 2 + K."""
        sizes = [abs(self._family.log_partition(np.array(one))) for one in (self.natural, self.neighbor_natural)]
        return 4 * STEPS * ULP * (1 + order * sum(sizes))

    def _curve(self) -> Curve:
        if self.natural == self.neighbor_natural:
            return Curve(log_moment=np.zeros_like, kl=0.0, pure=0.0)
        one, other = np.array(self.natural), np.array(self.neighbor_natural)
        pure = max(self._family.largest_loss(one, other), self._family.largest_loss(other, one))
        both = at_least(*self.directed_curves(), pure=pure)

        def log_moment(lam: Array) -> Array:
            return np.asarray(np.minimum(np.maximum(both.log_moment(lam), LEAST), lam * pure))

        return replace(both, log_moment=log_moment, kl=min(max(both.kl, LEAST), pure))
