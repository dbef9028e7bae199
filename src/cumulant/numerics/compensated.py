"""Sums of many arrays that keep what rounding takes off."""

from __future__ import annotations

from typing import final

import numpy as np

from cumulant.numerics.logspace import Array

ADDED_UP = 6 * 2.0**-53  # relative error of a compensated sum, of its products, and of a unit for good measure


@final
class CompensatedSum:
    """Σ x of arrays, with what rounding took off kept beside it (Kahan): off by two units of Σ |x|, however many."""

    __slots__ = ("lost", "size", "total")

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.total, self.lost, self.size = np.zeros(shape), np.zeros(shape), np.zeros(shape)

    def add(self, values: Array) -> None:
        values_left = values - self.lost
        total = self.total + values_left
        self.lost = (total - self.total) - values_left
        self.total = total
        self.size += np.abs(values)

    def copy(self) -> CompensatedSum:
        other = CompensatedSum(self.total.shape)
        other.total, other.lost, other.size = self.total.copy(), self.lost.copy(), self.size.copy()
        return other
