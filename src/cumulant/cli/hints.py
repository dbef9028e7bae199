"""What was meant: a name that is not known is answered with the one that is, if one is near or used elsewhere."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

import click

NEAR = 0.75  # of a likeness up to 1: 'gausian' is near 'gaussian', 'version' is not near 'epsilon'
ELSEWHERE = {
    "--sigma": "--noise-multiplier",
    "--noise": "--noise-multiplier",
    "--loader": "--sampling",
    "--sample-rate": "--rate",
    "--database": "--ledger",
    "--db": "--ledger",
    "--url": "--ledger",
    "--eps": "--epsilon",
    "--target-epsilon": "--epsilon",
    "--target-delta": "--delta",
    "--output": "--out",
}
"""Options by the names that other tools, and other commands, have for them."""


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the one of the known names that was likely meant.

    >>> nearest("gausian", ["gaussian", "laplace"]), nearest("version", ["epsilon"])
    ('gaussian', None)
    """
    return next(iter(get_close_matches(name, list(known), n=1, cutoff=NEAR)), None)


def message_with_hint(error: click.ClickException) -> str:
    """Return what was wrong, and what was likely meant where a name is not known; it ends in a full stop or a '?'."""
    if isinstance(error, click.NoSuchOption) and error.ctx is not None:
        name = error.option_name
        options = [known for one in error.ctx.command.params for known in one.opts if known.startswith("--")]
        known = ELSEWHERE.get(name)
        return asked_back(error.message, known if known in options else nearest(name, options))
    name = str(getattr(error, "command_name", ""))  # of a command that does not exist
    if name and isinstance(error, click.UsageError) and error.ctx is not None:
        group: Any = error.ctx.command
        names = [*group.list_commands(error.ctx), *(f"--{known}" for known in ("help", "version"))]
        return asked_back(error.message, f"--{name}" if f"--{name}" in names else nearest(name, names))
    message = error.format_message()
    return message if message.endswith(("?", ".")) else f"{message}."


def asked_back(message: str, meant: str | None, *, end: str = ".") -> str:
    """Return a message, and what was likely meant if anything was."""
    said = message.rstrip(".")
    return f"{said}{end}" if meant is None else f"{said}. Did you mean {meant!r}?"


def as_typed(name: str) -> str:
    """Return a name of Python as commands spell it.

    >>> as_typed("random_allocation"), as_named("random-allocation")
    ('random-allocation', 'random_allocation')
    """
    return name.replace("_", "-")


def as_named(typed: str) -> str:
    """Return what was typed as Python spells it."""
    return typed.replace("-", "_")


def flag(name: str) -> str:
    """Return an option as it is typed."""
    return f"--{as_typed(name)}"


class OneOf(click.Choice):  # type: ignore[type-arg]  # before Click 8.2 it takes none
    """One of some names; capitals and _ for - do not matter, and other names for them are `also` read."""

    def __init__(self, names: Iterable[str], *, also: dict[str, str] | None = None) -> None:
        super().__init__(list(names), case_sensitive=False)
        self.also = also or {}

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        name = as_typed(str(value).lower())
        name = self.also.get(name, name)
        if name in self.choices:
            return name
        said, meant = f"{value!r} is not one of {', '.join(self.choices)}", nearest(name, [*self.choices, *self.also])
        return self.fail(asked_back(said, meant, end=""), param, ctx)
