"""Dominating pairs: two distributions at least as easy to tell apart as any neighbouring outputs.

A mechanism that has one is known exactly; one that has none is known by its CGF or its profile.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final


@final
@dataclass(frozen=True, slots=True)
class GaussianPair:
    """N(μ, 1) against N(0, 1). Products of such pairs are such a pair, with μ² = Σ μ_i²."""

    mean: float

    @staticmethod
    def product(pairs: Sequence[tuple[GaussianPair, int]]) -> GaussianPair:
        largest = max((pair.mean for pair, _ in pairs), default=0.0)
        if largest == 0 or math.isinf(largest):
            return GaussianPair(largest)
        squares = math.fsum(count * (pair.mean / largest) ** 2 for pair, count in pairs)
        # rounded up: a larger mean is easier to tell apart; a single release stays what it is
        return GaussianPair(largest * math.sqrt(squares) * (1 + 2.0**-50) if squares > 1 else largest)
