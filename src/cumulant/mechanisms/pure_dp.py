"""A mechanism of which only ε-DP is known."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
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
    multiple: tuple[int, float] | None  # (k, x), where the bound is kx rounded up

    def __init__(self, *, epsilon: float) -> None:
        object.__setattr__(self, "bound", nonnegative("epsilon", epsilon))
        object.__setattr__(self, "multiple", None)

    def _known(self) -> Known:
        return Known.by_noise(
            FiniteNoise(Binary(self.bound, multiple=self.multiple)),
            curve=lambda: replace(binary_loss(self.bound), exact=False),
            groups=binary_groups(self.bound),
        )

    @by_name
    def group(self, *, size: int) -> PureDP:
        """Pure DP adds up along a chain of neighbours; rounded up, of which intervals know."""
        times, each = self.multiple or (1, self.bound)
        times *= whole_number("size", size, at_least=1)
        found = PureDP(epsilon=product_above(times, each))
        if math.isfinite(found.bound) and Fraction(found.bound) != times * Fraction(each):
            object.__setattr__(found, "multiple", (times, each))
        return found

    def __repr__(self) -> str:
        if self.multiple is None:
            return f"PureDP(epsilon={self.bound!r})"
        return f"PureDP(epsilon={self.multiple[1]!r}).group(size={self.multiple[0]})"

    def _plain(self) -> dict[str, Any]:
        size, each = self.multiple or (1, self.bound)
        return {"mechanism": "PureDP", "epsilon": each} | ({"size": size} if size > 1 else {})

    @classmethod
    def _from_plain(cls, content: dict[str, Any]) -> PureDP:
        size = content.pop("size", 1)
        return cls(**content).group(size=size)
