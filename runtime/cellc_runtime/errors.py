"""Errors a compiled program raises, each with the place in the user's source it stands for."""

from __future__ import annotations


class ArtifactError(ValueError):
    """A file is corrupt, truncated, of another version, or not ours."""


class RunError(RuntimeError):
    """A compiled program stopped with an error.

    Attributes:
        file: the user's source file, or `""`.
        line: line in it, or 0.
    """

    file: str = ""
    line: int = 0


class RunIndexError(RunError, IndexError):
    """An index was out of range."""


class RunValueError(RunError, ValueError):
    """A value was not acceptable."""


class RunTypeError(RunError, TypeError):
    """A type was not acceptable."""


class RunZeroDivisionError(RunError, ZeroDivisionError):
    """An integer was divided by zero."""


class RunOverflowError(RunError, OverflowError):
    """A number did not fit."""


class RunAssertionError(RunError, AssertionError):
    """A condition the program asserts did not hold."""


RUN_ERRORS: dict[str, type[RunError]] = {
    "RuntimeError": RunError,
    "IndexError": RunIndexError,
    "ValueError": RunValueError,
    "TypeError": RunTypeError,
    "ZeroDivisionError": RunZeroDivisionError,
    "OverflowError": RunOverflowError,
    "AssertionError": RunAssertionError,
}
"""Message kinds a program may name, and what is raised for each."""


def run_error(kind: str, text: str, file: str, line: int) -> RunError:
    """The exception for one run-time error, its text ending in the user's file and line."""
    where = f"\n  at {file}:{line}" if file else ""
    error = RUN_ERRORS.get(kind, RunError)(text + where)
    error.file, error.line = file, line
    return error
