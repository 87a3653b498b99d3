"""Progress of long work, such as compilation: a live line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

DELAY = 1.0
"""Seconds before anything is shown."""


class _Stage:
    """Shows a line once the work has taken longer than `DELAY`."""

    def __init__(self, name: str, verb: str) -> None:
        self.name, self.verb = name, verb
        self.start = time.perf_counter()
        self.what = "tracing"
        self.shown = False
        self.timer = threading.Timer(DELAY, self.show)
        self.timer.daemon = True
        self.status: Any = None

    def show(self) -> None:
        """Show the present stage."""
        self.shown = True
        if sys.stderr.isatty():
            self._live()
            return
        seconds = time.perf_counter() - self.start
        print(f"cellc: {self.verb} {self.name}: {self.what} ({seconds:.1f} s)", file=sys.stderr)

    def _live(self) -> None:
        """A spinner with the stage's name, alive until the compilation ends."""
        text = f"{self.verb} {self.name}: {self.what}"
        if self.status is None:
            # rich takes a while to load and is of use only to a person at a terminal.
            from rich.console import Console

            self.status = Console(stderr=True, force_jupyter=False).status(text)
            self.status.start()
        else:
            self.status.update(text)

    def say(self, what: str) -> None:
        """The next stage begins."""
        self.what = what
        if self.shown:
            self.show()

    def finish(self) -> None:
        """Clear or close the line."""
        self.timer.cancel()
        if self.status is not None:
            self.status.stop()


@contextmanager
def stage(name: str, verb: str = "compiling") -> Iterator[Callable[[str], None]]:
    """Report on the work on `name` if it takes over a second."""
    s = _Stage(name, verb)
    s.timer.start()
    try:
        yield s.say
    finally:
        s.finish()
