"""A mechanism of which only ε-DP is known."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, final

from cumulant.mechanisms.base import AbstractMechanism
from cumulant.mechanisms.known import Known
from cumulant.mechanisms.randomized_response import binary_loss
from cumulant.pairs.atoms import Binary
from cumulant.pairs.noise import FiniteNoise
from cumulant.parameters import by_name, nonnegative, product_above, whole_number
from cumulant.profiles.profile import binary_groups


@final
@dataclass(frozen=True, init=False, repr=False, slots=True)
class PureDP(AbstractMechanism):
    """Anything that is ε-DP; randomized response with that ε is the worst of them.

    The parameter is stored as `bound`, because `epsilon` is the question.

    >>> PureDP(epsilon=1.0).epsilon(delta=0.0)
    1.0
    """

    theorem: ClassVar[str] = "randomized response dominates pure DP (Kairouz, Oh and Viswanath 2017)"

    bound: float

    def __init__(self, *, epsilon: float) -> None:
        object.__setattr__(self, "bound", nonnegative("epsilon", epsilon))

    def _known(self) -> Known:
        return Known.by_noise(
            FiniteNoise(Binary(self.bound)),
            curve=lambda: replace(binary_loss(self.bound), exact=False),
            groups=binary_groups(self.bound),
        )

    @by_name
    def group(self, *, size: int) -> PureDP:
        """Pure DP adds up along a chain of neighbours; rounded up."""
        return PureDP(epsilon=product_above(whole_number("size", size, at_least=1), self.bound))

    def __repr__(self) -> str:
        return f"PureDP(epsilon={self.bound!r})"

    def _plain(self) -> dict[str, Any]:
        return {"mechanism": "PureDP", "epsilon": self.bound}
