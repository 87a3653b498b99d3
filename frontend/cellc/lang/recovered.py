"""The source of functions that linecache does not know: typed, piped, or given as a string.

Each place where the text may be is tried, and a text is believed only if compiling it gives the
very code of the function. Places: `__source__` among the function's globals, the text of
`python -c`, a file on standard input, the rest of a cell or line after a magic of IPython, the line
history of the interactive prompt (readline), and what an `InteractiveConsole` is executing while
a function is jitted or a Cell class is made.
"""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Iterator, Sequence
from types import CodeType
from typing import Any

from ..core.console_source import code_mark, kept
from .proved import gives, lines_of

_SEARCHED = 2000  # Lines of history that are searched, and of a block in it at most
_BLOCK = 400
_CELLS = 100  # Cells of a notebook in which texts of magics are searched
_OPTIONS = re.compile(r"%%?\w+(?:\s+-\w+(?:\s*\d+)?)*\s*")  # The name of a magic and its options


def recovered_lines(code: CodeType, names: dict[str, Any]) -> list[str]:
    """The lines of the text that a function was compiled from; empty if they are not to be had.

    Args:
        code: of the function.
        names: its globals.
    """
    known = kept.get(code_mark(code))
    if known is not None:
        return known
    for text in _texts(names):
        if gives(text, code):
            return lines_of(text)
    if code.co_filename.startswith(("<stdin>", "<console>")):
        return _typed(code, _history())
    return []


def _texts(names: dict[str, Any]) -> Iterator[str]:
    source = names.get("__source__")
    if isinstance(source, str):
        yield source
    arguments = sys.orig_argv
    if "-c" in arguments[:-1]:
        yield arguments[arguments.index("-c") + 1]
    yield from _standard_input()
    yield from _given_to_magics()


def _given_to_magics() -> Iterator[str]:
    """The rest of cells and lines after a magic of IPython, the latest first."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    cells = getattr(getattr(shell, "history_manager", None), "input_hist_raw", [])
    for cell in cells[:-_CELLS - 1:-1]:
        if "%" not in cell:
            continue
        first, _, rest = cell.partition("\n")
        if first.startswith("%%"):
            yield rest
        for line in cell.splitlines():
            if line.lstrip().startswith("%"):
                yield _OPTIONS.sub("", line.lstrip())


def _standard_input() -> Iterator[str]:
    """Yield the text that Python reads from standard input, if that is a file."""
    try:
        found = os.fstat(0)
        if stat.S_ISREG(found.st_mode) and found.st_size < 1 << 24:
            text = os.pread(0, found.st_size, 0).decode()
            yield text
            yield from _statements(text.splitlines())
    except (OSError, ValueError):
        return


def _statements(lines: Sequence[str]) -> Iterator[str]:
    """The blocks of a text, as a prompt executes them: each counts its lines from 1."""
    start = 0
    for i, line in enumerate(lines):
        if not line.strip() or line[0] not in " \t)]}#":
            if i > start and lines[i - 1][:1] == "@":
                continue  # a decorator belongs to what follows it
            if i > start:
                yield from _ended(lines[start:i])
            start = i
    yield from _ended(lines[start:])


def _ended(block: Sequence[str]) -> Iterator[str]:
    yield "\n".join(block) + "\n"


def _history() -> list[str]:
    """The lines typed at the prompt, the latest last."""
    readline = sys.modules.get("readline")
    if readline is None:
        return []
    count = readline.get_current_history_length()
    first = max(1, count - _SEARCHED)
    return [readline.get_history_item(i) or "" for i in range(first, count + 1)]


def _typed(code: CodeType, lines: Sequence[str]) -> list[str]:
    """The latest block of typed lines that gives a code."""
    for start in range(len(lines) - 1, -1, -1):
        first = lines[start]
        if not first or first[0] in " \t":
            continue
        end = start + 1
        while end < len(lines) and end - start < _BLOCK:
            text = "\n".join(lines[start:end]) + "\n"
            if gives(text, code):
                return lines_of(text)
            if lines[end][:1] not in (" ", "\t", "") and not first.startswith("@") \
                    and not _opens(text):
                break
            end += 1
        text = "\n".join(lines[start:end]) + "\n"
        if gives(text, code):
            return lines_of(text)
    return []


def _opens(text: str) -> bool:
    """Whether a bracket or string is open at the end of a text."""
    try:
        compile(text, "<typed>", "exec")
    except SyntaxError as e:
        return "was never closed" in str(e) or "unterminated" in str(e)
    return False
