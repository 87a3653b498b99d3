"""What Python can edit between calls is never stale, and a guard that is missing is found."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import cellc as ms
from cellc_runtime import words

from ..campaigns.fuzz import edits
from ..campaigns.fuzz.edits import SOURCES, Program


@pytest.fixture(autouse=True)
def mode() -> Iterator[None]:
    before = ms.get_context("mode")
    yield
    ms.set_context(mode=before)


@pytest.mark.parametrize("number", range(len(SOURCES)), ids=[s.read for s in SOURCES])
def test_every_edit_is_seen(number: int) -> None:
    for statement in range(len(SOURCES[number].edits)):
        told = edits.told_by(Program((number,), ((0, statement), (0, statement))))
        assert told == ""


@pytest.mark.parametrize("kind", ["instance", "class", "dict"])
def test_what_has_no_words_is_compared(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = words._supported() - {kind}
    monkeypatch.setattr(words, "_supported", lambda: kinds)
    for number, source in enumerate(SOURCES):
        if len(source.edits) > 1 or number % 4 == 0:
            assert edits.told_by(Program((number,), ((0, 0), (0, -1)))) == ""


def _number(read: str, edit: str) -> Program:
    """The program of the source that is read and edited so."""
    number, place = next((n, s.edits.index(edit)) for n, s in enumerate(SOURCES)
                         if s.read == read and edit in s.edits)
    return Program((number,), ((0, place),) * 3)


PLANTED = {
    "class": ("type(self).c$", "Net.c$ = #"), "dict": ("self.d$['k'] + len(self.d$)",
                                                       "net.d$['k'] = #"),
    "instance": ("o$.k", "o$.k = #"), "name": ("g$", "g$ = #"),
    "function": ("f$()", "f$.__defaults__ = (#,)"), "cell": ("f$()", "s$(#)"),
}


@pytest.mark.parametrize("kind", PLANTED)
def test_a_guard_that_is_missing_is_found(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program = _number(*PLANTED[kind])
    assert edits.told_by(program) == ""

    def nothing(*_: Any) -> list[words.Word]:
        return []

    monkeypatch.setattr(words, f"of_{kind}", nothing)
    assert edits.told_by(program).startswith("Stale: call ")


def test_this_interpreter_has_words() -> None:
    """Without them every call compares in Python: right, but slower."""
    assert words._supported() == set(words._TRIALS)
