"""Help that fits narrow terminals: Click's own is never below 50 columns, and leaves examples as long as they are."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterator

import click

NARROWEST = 40  # columns
WIDEST = 80
OPTION_COLUMNS = 30  # at most, of the names of options, as Click has it


class NarrowHelp(click.HelpFormatter):
    """Wrap to the terminal's width; examples go on in the next line as a shell reads them."""

    def __init__(self, indent_increment: int = 2, width: int | None = None, max_width: int | None = None) -> None:
        width = width or max(NARROWEST, min(max_width or WIDEST, shutil.get_terminal_size().columns) - 2)
        super().__init__(indent_increment, width, max_width)

    def write_dl(self, rows: object, col_max: int = OPTION_COLUMNS, col_spacing: int = 2) -> None:
        super().write_dl(rows, min(col_max, self.width // 3), col_spacing)  # type: ignore[arg-type]

    def getvalue(self) -> str:
        return "\n".join(short for line in super().getvalue().split("\n") for short in self._shortened(line))

    def _shortened(self, line: str) -> Iterator[str]:
        if len(line) <= self.width + 2:
            yield line
            return
        indent = " " * (len(line) - len(line.lstrip()))
        goes_on = " \\" if line.lstrip().startswith("cumulant ") else ""
        room = self.width + 2 - len(goes_on)
        broken = textwrap.wrap(line, room, subsequent_indent=f"{indent}    ", break_on_hyphens=False)
        yield from (f"{short}{goes_on}" for short in broken[:-1])
        yield broken[-1]


class NarrowContext(click.Context):
    """A context whose help is a `NarrowHelp`."""

    formatter_class = NarrowHelp


def narrowed(command: click.Command) -> click.Command:
    """Return a command, with all below it, whose help fits."""
    command.context_class = NarrowContext
    for below in command.commands.values() if isinstance(command, click.Group) else ():
        narrowed(below)
    return command
