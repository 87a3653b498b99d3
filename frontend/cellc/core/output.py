"""Standard output whose reader may have gone, as in `python train.py | head`."""

from __future__ import annotations

import os
import sys


def drop_output() -> None:
    """Drop the rest of standard output, which cannot be written: Python would fail on it again
    when it exits."""
    out = sys.__stdout__
    if out is None or sys.stdout is not out:
        return
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, out.fileno())
    os.close(null)


def say(text: str) -> None:
    """Print a line at once. Where nobody reads it any more, the program goes on without output: a
    training must not end because `head` has seen enough."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        drop_output()
