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
    """Base of every error raised on purpose.

    >>> import cumulant as cm
    >>> try:
    ...     cm.Gaussian(noise_multiplier=-1.0)
    ... except CumulantError as error:
    ...     print(error)
    noise_multiplier must be a finite number > 0, got -1.0
    """


class InvalidParameter(CumulantError, ValueError):
    """An argument breaks a rule; the message names it, the rule and the value.

    >>> import cumulant as cm
    >>> cm.PureDP(epsilon=-0.5)
    Traceback (most recent call last):
    ...
    cumulant.errors.InvalidParameter: epsilon must be a finite number >= 0, got -0.5
    """


class MisnamedParameter(InvalidParameter, TypeError):
    """An argument has no name, one that is not known, or is missing; the message says how to write it."""


class UnprovenCombination(CumulantError, NotImplementedError):
    """No theorem covers what was asked, so no number is returned.

    >>> import cumulant as cm
    >>> cm.ZCDP(rho=0.1).epsilon(delta=1e-6, method="exact")
    Traceback (most recent call last):
    ...
    cumulant.errors.UnprovenCombination: ...
    """


class OutOfReach(CumulantError, ArithmeticError):
    """An exact answer would take more time or memory than allowed; `method="best"` gives a bound instead.

    >>> import cumulant as cm
    >>> issubclass(cm.OutOfReach, ArithmeticError)
    True
    """


class MixedNeighbors(CumulantError):
    """Guarantees for different neighbouring relations were combined.

    >>> import cumulant as cm
    >>> noise = cm.Gaussian(noise_multiplier=1.0)
    >>> noise.poisson(rate=0.01) + noise.without_replacement(batch=1, population=100)
    Traceback (most recent call last):
    ...
    cumulant.errors.MixedNeighbors: ...
    """


class BudgetExceeded(CumulantError):
    """A release would take an accountant or a ledger's account over its budget; nothing was recorded.

    `known` has as numbers and names what a ledger says in words, such as how often the release would fit.

    >>> import cumulant as cm
    >>> accountant = cm.Accountant(epsilon=1.0, delta=1e-6)
    >>> accountant.compose(cm.Laplace(scale=0.5))
    Traceback (most recent call last):
    ...
    cumulant.errors.BudgetExceeded: ...
    """

    def __init__(self, message: str, **known: Any) -> None:
        super().__init__(message)
        self.known = known


class LedgerUnavailable(CumulantError, ConnectionError):
    """The database of a ledger does not answer, or refuses; `dropped` says whether asking again may help.

    >>> issubclass(LedgerUnavailable, ConnectionError)
    True
    """

    def __init__(self, message: str, *, dropped: bool) -> None:
        super().__init__(message)
        self.dropped = dropped


class LedgerTampered(CumulantError):
    """A ledger's history has a broken hash, or its tables do not follow from it; the message names the first place.

    >>> issubclass(LedgerTampered, CumulantError)
    True
    """
