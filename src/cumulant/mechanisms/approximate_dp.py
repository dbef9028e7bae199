"""A mechanism of which only (ε, δ)-DP is known."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, final

from cumulant.mechanisms.base import AbstractMechanism
from cumulant.mechanisms.known import Known
from cumulant.mechanisms.randomized_response import binary_loss
from cumulant.pairs.atoms import Binary
from cumulant.pairs.noise import FiniteNoise
from cumulant.parameters import by_name, nonnegative, probability
from cumulant.profiles.profile import approximate_groups, chained_guarantee


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

    def _known(self) -> Known:
        return Known.by_noise(
            FiniteNoise(Binary(self.bound, self.failure)),
            curve=lambda: replace(binary_loss(self.bound), failure=self.failure, exact=False),
            groups=approximate_groups(self.bound, self.failure),
        )

    @by_name
    def group(self, *, size: int) -> ApproximateDP:
        """(kε, δ(e^{kε}-1)/(e^ε-1))-DP for k records (Vadhan 2017, Lemma 2.2)."""
        total, failure = chained_guarantee(size, self.bound, self.failure)
        return ApproximateDP(epsilon=total, delta=failure)

    def __repr__(self) -> str:
        return f"ApproximateDP(epsilon={self.bound!r}, delta={self.failure!r})"

    def _plain(self) -> dict[str, Any]:
        return {"mechanism": "ApproximateDP", "epsilon": self.bound, "delta": self.failure}
