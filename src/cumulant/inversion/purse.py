"""What an interval may take: a purse of microseconds that every step in balls is paid from."""

from __future__ import annotations

from typing import final

from cumulant.errors import OutOfReach

MOST_MICROSECONDS = 6e6  # about, of ball arithmetic for a question


@final
class Purse:
    """About how many microseconds are left.

    Steps are priced by what they ask for, not by a clock, and not by what a cache remembers: the same question has the
    same answer, whatever was asked before it.
    """

    __slots__ = ("left",)

    def __init__(self, microseconds: float = MOST_MICROSECONDS) -> None:
        self.left = microseconds

    def pay(self, microseconds: float) -> None:
        """Take so much out; raise `OutOfReach` where it is not there, with nothing left for what follows."""
        self.left -= microseconds
        if self.left < 0:
            raise OutOfReach("a certificate would take longer than a few seconds")
