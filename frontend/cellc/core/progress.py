"""Progress of long compilations: a live line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

DELAY = 1.0
"""Seconds before anything is shown."""


class _Stage:
    """Shows a line once a compilation has taken longer than `DELAY`."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.start = time.perf_counter()
        self.what = "tracing"
        self.shown = False
        self.timer = threading.Timer(DELAY, self.show)
        self.timer.daemon = True

    def show(self) -> None:
        """Write the present stage."""
        self.shown = True
        seconds = time.perf_counter() - self.start
        text = f"cellc: compiling {self.name}: {self.what} ({seconds:.1f} s)"
        end = "" if sys.stderr.isatty() else "\n"
        sys.stderr.write(("\r\x1b[K" if sys.stderr.isatty() else "") + text + end)
        sys.stderr.flush()

    def say(self, what: str) -> None:
        """The next stage begins."""
        self.what = what
        if self.shown:
            self.show()

    def finish(self) -> None:
        """Clear or close the line."""
        self.timer.cancel()
        if self.shown and sys.stderr.isatty():
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


@contextmanager
def stage(name: str) -> Iterator[Callable[[str], None]]:
    """Report on the compilation of `name` if it takes over a second."""
    s = _Stage(name)
    s.timer.start()
    try:
        yield s.say
    finally:
        s.finish()
