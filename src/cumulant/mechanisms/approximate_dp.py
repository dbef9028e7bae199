"""A mechanism of which only (ε, δ)-DP is known."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, final

from cumulant.loss.cgf import Cgf
from cumulant.loss.finite_pair import binary_pair
from cumulant.loss.pair_family import FiniteFamily
from cumulant.loss.profile import PrivacyProfile, approximate_profile
from cumulant.mechanisms.base import AbstractMechanism
from cumulant.mechanisms.randomized_response import binary_loss
from cumulant.parameters import nonnegative, probability, whole_number


@final
@dataclass(frozen=True, init=False, repr=False, slots=True)
class ApproximateDP(AbstractMechanism):
    """Anything that is (ε, δ)-DP: with probability δ everything is revealed, else it is ε-DP.

    That pair dominates (Kairouz, Oh and Viswanath 2017, Theorem 3.1). Its RDP is infinite at every order, so
    the failure is carried beside the CGF of the rest. The parameters are stored as `bound` and `failure`.

    >>> ApproximateDP(epsilon=1.0, delta=1e-6).epsilon(delta=1e-6)
    1.0
    """

    theorem: ClassVar[str] = "failure beside randomized response dominates (Kairouz, Oh and Viswanath 2017)"

    bound: float
    failure: float

    def __init__(self, *, epsilon: float, delta: float) -> None:
        object.__setattr__(self, "bound", nonnegative("epsilon", epsilon))
        object.__setattr__(self, "failure", probability("delta", delta))

    def loss(self) -> Cgf:
        return replace(binary_loss(self.bound), failure=self.failure, exact=False)

    def family(self) -> FiniteFamily:
        return FiniteFamily((binary_pair(self.bound, self.failure),))

    def known_profile(self) -> PrivacyProfile:
        return approximate_profile(self.bound, self.failure)

    def group(self, *, size: int) -> ApproximateDP:
        """(kε, δ(e^{kε}-1)/(e^ε-1))-DP for k records (Vadhan 2017, Lemma 2.2)."""
        k = whole_number("size", size, at_least=1)
        factor = sum(math.exp(min(i * self.bound, 700.0)) for i in range(k)) if self.failure else 0.0
        rounded_up = self.failure * factor * (1 + 1e-15 * k) if k > 1 else self.failure
        return ApproximateDP(epsilon=k * self.bound, delta=min(1.0, rounded_up))

    def __repr__(self) -> str:
        return f"ApproximateDP(epsilon={self.bound!r}, delta={self.failure!r})"

    def _plain(self) -> dict[str, Any]:
        return {"mechanism": "ApproximateDP", "epsilon": self.bound, "delta": self.failure}
