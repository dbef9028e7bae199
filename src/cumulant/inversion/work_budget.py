"""What a question may take: a budget that steps are paid from, microseconds of balls or sines of doubles."""

from __future__ import annotations

from typing import final

from cumulant.errors import OutOfReach

MOST_MICROSECONDS = 6e6  # about, of ball arithmetic for a question
MOST_SINES = 2e8  # pairs of sine and cosine that lines in doubles may take for one direction: a few seconds


@final
class WorkBudget:
    """Work budget of one question, in estimated microseconds of balls or pairs of sine and cosine.

    Steps are priced by what they ask for, not by a clock, and not by what a cache remembers: a question has one answer,
    whatever was asked before it.
    """

    __slots__ = ("left",)

    def __init__(self, much: float = MOST_MICROSECONDS) -> None:
        self.left = much

    def pay(self, price: float) -> None:
        """Take a price out before the work; raise `OutOfReach` if it is not there: then nothing is left for later."""
        self.left -= price
        if self.left < 0:
            raise OutOfReach("the answer would take longer than a few seconds")

    def owe(self, price: float) -> None:
        """Take a price out for work that is done: what follows may find nothing left."""
        self.left -= price
