"""The line that tells of a long compilation: on a terminal, and nowhere else."""

from __future__ import annotations

import io
import sys
import threading
from collections.abc import Callable

import pytest

from cellc.core import progress


class Screen(io.StringIO):
    """A terminal, or a file; `wait_for` returns once a text has been written to it."""

    def __init__(self, terminal: bool) -> None:
        super().__init__()
        self.terminal = terminal
        self.changed = threading.Condition()

    def isatty(self) -> bool:
        return self.terminal

    def write(self, text: str) -> int:
        with self.changed:
            self.changed.notify_all()
            return super().write(text)

    def wait_for(self, text: str) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: text in self.getvalue(), 300)


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> Callable[[bool], Screen]:
    """Makes what messages go to."""
    def make(terminal: bool) -> Screen:
        found = Screen(terminal)
        monkeypatch.setattr(sys, "stderr", found)
        return found

    monkeypatch.setattr(progress, "_TICK", 0.001)
    return make


def test_a_line_follows_the_work_and_goes_with_it(
    screen: Callable[[bool], Screen], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "DELAY", 0.0)
    shown = screen(True)
    before = threading.active_count()
    with progress.stage("Net") as say:
        shown.wait_for("compiling Net (")
        say("tracing")
        shown.wait_for("compiling Net: tracing (")
        with progress.stage("Part") as inner:  # one line for both
            inner("native code, 1 of 9 kernels")
            shown.wait_for("compiling Net: native code, 1 of 9 kernels (")
    text = shown.getvalue()
    assert text.endswith("\r\x1b[K") and "Part" not in text and "\n" not in text
    assert threading.active_count() == before and not progress._present


def test_a_long_line_is_cut(screen: Callable[[bool], Screen]) -> None:
    screen(True)
    work = progress._Stage("N" * 500, "compiling")
    assert len(work.line("|")) < 500


def test_no_terminal_no_line(
    screen: Callable[[bool], Screen], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "DELAY", 0.0)
    pipe = screen(False)
    for shown in (pipe, None):
        monkeypatch.setattr(sys, "stderr", shown)
        with progress.stage("Net") as say:
            say("tracing")
            assert not progress._present[0].thread.is_alive()  # it would have nothing to do
    assert pipe.getvalue() == ""


def test_a_notebook_has_the_line_without_escapes(
    screen: Callable[[bool], Screen], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "DELAY", 0.0)
    monkeypatch.setattr(progress, "_SLOW", 0.001)
    monkeypatch.setattr(Screen, "__module__", "ipykernel.iostream")
    shown = screen(False)
    with progress.stage("Net") as say:
        shown.wait_for("compiling Net (")
        say("tracing")
        shown.wait_for("compiling Net: tracing (")
    text = shown.getvalue()
    assert "\x1b" not in text and "\n" not in text
    assert text.endswith(" \r") and not text.rstrip(" \r").endswith("\r")


def test_short_work_shows_nothing(screen: Callable[[bool], Screen]) -> None:
    shown = screen(True)
    with pytest.raises(KeyError, match="the user's error"), progress.stage("Net"):
        raise KeyError("the user's error")
    assert shown.getvalue() == "" and not progress._present
