"""A mechanism of which only (ε, δ)-DP is known."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar, final

from cumulant.mechanisms.base import AbstractMechanism
from cumulant.mechanisms.known import Known
from cumulant.mechanisms.randomized_response import binary_loss
from cumulant.names import by_name
from cumulant.numerics.rounding import ULP, exp_above
from cumulant.numerics.scalar_logspace import log_expm1
from cumulant.pairs.atoms import Binary
from cumulant.pairs.noise import FiniteNoise
from cumulant.parameters import nonnegative, probability, product_above, whole_number
from cumulant.profiles.profile import approximate_profile

LARGEST_EXPONENT = 700.0  # e^700 is still a float


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
            profile=lambda: approximate_profile(self.bound, self.failure),
        )

    @by_name
    def group(self, *, size: int) -> ApproximateDP:
        """(kε, δ(e^{kε}-1)/(e^ε-1))-DP for k records (Vadhan 2017, Lemma 2.2)."""
        k = whole_number("size", size, at_least=1)
        total = product_above(k, self.bound)
        return ApproximateDP(epsilon=total, delta=_chained_failure(k, self.bound, total, self.failure))

    def __repr__(self) -> str:
        return f"ApproximateDP(epsilon={self.bound!r}, delta={self.failure!r})"

    def _plain(self) -> dict[str, Any]:
        return {"mechanism": "ApproximateDP", "epsilon": self.bound, "delta": self.failure}


def _chained_failure(size: int, epsilon: float, total: float, delta: float) -> float:
    """Return δ Σ_{i<k} e^{iε} = δ(e^{kε} - 1)/(e^ε - 1), rounded up, at most 1; `total` is kε, rounded up."""
    if size == 1 or delta in (0.0, 1.0):
        return delta
    if epsilon == 0:
        return min(1.0, product_above(size, delta))
    if total < LARGEST_EXPONENT:
        factor = math.expm1(total) / math.expm1(epsilon) * (1 + 8 * ULP)
        return min(1.0, product_above(Fraction(factor), delta))
    if math.isinf(total):
        return 1.0
    log_factor = total - log_expm1(epsilon)  # log(e^{kε} - 1) <= kε
    rounding = 4 * ULP * (1 + total + abs(math.log(delta)))
    return exp_above(min(0.0, math.log(delta) + log_factor + rounding))
