"""Progress of long work, such as compilation: a live line on a terminal and in a notebook, nothing
elsewhere."""

from __future__ import annotations

import itertools
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from cellc_runtime.forks import renewed
from cellc_runtime.platform import started

DELAY = 1.0  # Seconds before anything is shown
_TICK = 0.1
_SLOW = 0.5  # Seconds between two lines in a notebook, each of which is a message to the browser
_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_CLEAR = "\r\x1b[K"


class _Stage:
    """Shows a line once the work has taken longer than `DELAY`."""

    def __init__(self, name: str, verb: str) -> None:
        self.name, self.verb = name, verb
        self.start = time.perf_counter()
        self.what = ""
        self.done = renewed(threading.Event())
        self.thread = threading.Thread(target=self.run, daemon=True)

    def run(self) -> None:
        """Draw the line until the work is done."""
        if self.done.wait(DELAY):
            return
        notebook, last = not _is_terminal(), 0
        for frame in itertools.cycle(_frames()):
            line = self.line(frame)
            sys.stderr.write("\r" + line.ljust(last) if notebook else _CLEAR + line)
            sys.stderr.flush()
            last = len(line)
            if self.done.wait(_SLOW if notebook else _TICK):
                break
        sys.stderr.write(f"\r{' ' * last}\r" if notebook else _CLEAR)
        sys.stderr.flush()

    def line(self, frame: str) -> str:
        """Return the present activity with its time, cut to the terminal's width."""
        what = f": {self.what}" if self.what else ""
        text = f"{frame} {self.verb} {self.name}{what} ({time.perf_counter() - self.start:.1f} s)"
        return text[: _columns() - 1]

    def say(self, what: str) -> None:
        """The next stage begins."""
        self.what = what

    def finish(self) -> None:
        """Clear the line."""
        self.done.set()
        if self.thread.is_alive():
            self.thread.join()


def _is_terminal() -> bool:
    try:
        return sys.stderr is not None and sys.stderr.isatty()
    except ValueError:  # it has been closed
        return False


def _is_notebook() -> bool:
    """Whether messages go to a notebook, which knows a carriage return but no escape sequences."""
    return type(sys.stderr).__module__.partition(".")[0] == "ipykernel"


def _frames() -> str:
    encoding = (getattr(sys.stderr, "encoding", None) or "").lower()
    return _FRAMES if encoding.startswith("utf") else "|/-\\"


def _columns() -> int:
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or 80
    except (OSError, ValueError):
        return 80


_present: list[_Stage] = []  # The present stages: work within one shows its stages there


@contextmanager
def stage(name: str, verb: str = "compiling") -> Iterator[Callable[[str], None]]:
    """Report on the work on `name` if it takes over a second.

    Within another stage there is one line, that of the outer one.
    """
    if _present:
        yield _present[0].say
        return
    s = _Stage(name, verb)
    _present.append(s)
    try:
        if _is_terminal() or _is_notebook():
            started(s.thread)  # without a thread nothing is shown
        yield s.say
    finally:
        _present.remove(s)
        s.finish()
