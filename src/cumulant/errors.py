"""What this library raises.

CumulantError
├── InvalidParameter      (also ValueError)           an argument breaks a rule
│   └── MisnamedParameter (also TypeError)            an argument has no name, one that is not known, or is missing
├── UnprovenCombination   (also NotImplementedError)  no theorem covers what was asked
├── OutOfReach            (also ArithmeticError)      no accuracy within bounded time and memory
├── MixedNeighbors                                    two relations in one composition
├── BudgetExceeded                                    a release would overspend
├── LedgerUnavailable     (also ConnectionError)      the database of a ledger does not answer
└── LedgerTampered                                    a ledger's history and its tables do not agree
"""

from __future__ import annotations

from typing import Any


class CumulantError(Exception):
    """Base of every error raised on purpose."""


class InvalidParameter(CumulantError, ValueError):
    """An argument breaks a rule; the message names it, the rule and the value."""


class MisnamedParameter(InvalidParameter, TypeError):
    """An argument has no name, one that is not known, or is missing; the message says how to write it."""


class UnprovenCombination(CumulantError, NotImplementedError):
    """No theorem covers what was asked, so no number is returned."""


class OutOfReach(CumulantError, ArithmeticError):
    """An exact answer would take more time or memory than allowed; `method="best"` gives a bound instead."""


class MixedNeighbors(CumulantError):
    """Guarantees for different neighbouring relations were combined."""


class BudgetExceeded(CumulantError):
    """A release would take an accountant or a ledger's account over its budget; nothing was recorded.

    `known` has as numbers and names what a ledger says in words, such as how often the release would fit.
    """

    def __init__(self, message: str, **known: Any) -> None:
        super().__init__(message)
        self.known = known


class LedgerUnavailable(CumulantError, ConnectionError):
    """The database of a ledger does not answer, or refuses; `dropped` says whether asking again may help."""

    def __init__(self, message: str, *, dropped: bool) -> None:
        super().__init__(message)
        self.dropped = dropped


class LedgerTampered(CumulantError):
    """A ledger's history has a broken hash, or its tables do not follow from it; the message names the first place."""
