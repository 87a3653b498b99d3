"""Consoles of rich, which print tables."""

from __future__ import annotations

from io import StringIO
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console


def output(width: int) -> Console:
    """Standard output: coloured and as wide as it is on a terminal, `width` columns elsewhere.

    rich ends the process with status 1 when the reader of a pipe has gone. This one raises
    BrokenPipeError, as `print` does.
    """
    from rich import console  # of use only to those who look at a table

    class Output(console.Console):
        def on_broken_pipe(self) -> None:
            """Let the error pass: rich calls this where it has caught it."""
            raise

    found = Output()
    return found if found.is_terminal else Output(width=width)


def in_text(width: int) -> tuple[Console, StringIO]:
    """A console that writes text without colours, and where it writes."""
    from rich import console  # as above

    out = StringIO()
    return console.Console(file=out, width=width, no_color=True, force_jupyter=False,
                           force_terminal=False), out
