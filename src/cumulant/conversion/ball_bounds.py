"""What encloses δ(ε) of one scenario, whichever way."""

from __future__ import annotations

from abc import ABC, abstractmethod


class Bounds(ABC):
    """log δ(ε) of one scenario given that the loss is finite, enclosed; `proven` if by balls."""

    proven = True

    @abstractmethod
    def log_bounds(self, epsilon: float) -> tuple[float, float]:
        """Return a lower and an upper bound."""

    @abstractmethod
    def slope(self, epsilon: float) -> float:
        """Return about d log δ/dε."""

    def estimated(self, epsilon: float) -> float:
        """Return how much of the distance of the bounds rests on estimates of rounding, in nats."""
        return 0.0
