"""Answers to many small questions, recorded as four letters of a hash each.

An answer is what is made, in words, or the error. Words of Python's and numpy's own errors change
from version to version, so of those only the kind counts.
"""

from __future__ import annotations

import hashlib
import json
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path

LETTERS = 4
Answers = Iterable[tuple[str, str]]
"""Questions, each with its answer."""


def mark(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:LETTERS]


def said(error: Exception) -> str:
    """The kind of an error, and its words where the product raises it, without its place."""
    line = traceback.extract_tb(error.__traceback__)[-1].line or ""
    words = str(error).partition("\n  File ")[0]
    return type(error).__name__ + (f": {words}" if line.startswith("raise ") else "")


def answered(question: Callable[[], str]) -> str:
    """What somebody is told who asks."""
    try:
        return question()
    except Exception as e:  # of any kind: which one is the answer
        return said(e)


def check(golden: Path, key: str, answers: Answers) -> None:
    """All at once, so that a difference is seen with those beside it."""
    marks = json.loads(golden.read_text()).get(key, "")
    found = list(answers)
    different = [f"{question}: {text}" for at, (question, text) in enumerate(found)
                 if marks[LETTERS * at : LETTERS * (at + 1)] != mark(text)]
    assert not different, "\n".join([f"{len(different)} of {len(found)}", *different[:20]])
    assert len(marks) == LETTERS * len(found)


def write(golden: Path, answers: dict[str, Answers]) -> None:
    """Record the answers, and print those that are not as before."""
    before = json.loads(golden.read_text()) if golden.exists() else {}
    after = {}
    for key, given in answers.items():
        old, after[key] = before.get(key, ""), ""
        for question, text in given:
            at = len(after[key])
            after[key] += mark(text)
            if old[at : at + LETTERS] != mark(text):
                print(f"{key}: {question}: {text}")
    golden.write_text(json.dumps(after, indent=0) + "\n")
