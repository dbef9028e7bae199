"""What the exit code of a command says: one table, by the classes of errors."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

import click

from cumulant.errors import (
    BudgetExceeded,
    CumulantError,
    LedgerTampered,
    LedgerUnavailable,
    MixedNeighbors,
    OutOfReach,
    UnprovenCombination,
)


class ExitCode(IntEnum):
    """The code that a command ends with."""

    HOLDS = 0
    BROKEN_OFF = 1
    WRONG_USE = 2
    EXCEEDED = 3
    UNPROVEN = 4
    STORAGE = 5


MEANINGS: Mapping[ExitCode, str] = {
    ExitCode.HOLDS: "the question was answered; a claim that was checked holds",
    ExitCode.BROKEN_OFF: "interrupted; or a bug of this library, with its traceback",
    ExitCode.WRONG_USE: "wrong use: an option, a value, or a file that cannot be used",
    ExitCode.EXCEEDED: "over budget, or a claim that is refuted",
    ExitCode.UNPROVEN: "no theorem covers the question, or decides a claim",
    ExitCode.STORAGE: "a ledger's database or the output fails, or a history was changed",
}

CODES: Mapping[type[BaseException], ExitCode] = {
    click.ClickException: ExitCode.WRONG_USE,
    click.Abort: ExitCode.BROKEN_OFF,
    CumulantError: ExitCode.WRONG_USE,  # and all below it that have no row of their own
    BudgetExceeded: ExitCode.EXCEEDED,
    UnprovenCombination: ExitCode.UNPROVEN,
    OutOfReach: ExitCode.UNPROVEN,
    MixedNeighbors: ExitCode.UNPROVEN,  # no theorem composes guarantees for two relations
    LedgerUnavailable: ExitCode.STORAGE,
    LedgerTampered: ExitCode.STORAGE,
    OSError: ExitCode.STORAGE,  # what the library does not put into words of its own: a full disk, for output
}


def exit_code_of(kind: type[BaseException]) -> ExitCode:
    """Return the code for a class of errors: that of the nearest class above it in the table.

    >>> from cumulant.errors import MisnamedParameter
    >>> exit_code_of(MisnamedParameter), exit_code_of(RecursionError)
    (<ExitCode.WRONG_USE: 2>, <ExitCode.BROKEN_OFF: 1>)
    """
    return next((CODES[base] for base in kind.__mro__ if base in CODES), ExitCode.BROKEN_OFF)


def table_for_help() -> str:
    """Return the table as lines of a help text."""
    return "\n".join(f"  {code}  {MEANINGS[code]}" for code in ExitCode)
