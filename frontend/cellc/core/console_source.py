"""The sources that an `InteractiveConsole` executes, kept while it is at hand.

The console forgets a text once it has run it, and linecache does not know it. So where functions
are handed over (a Cell class is made, a function jitted) the text is looked for on the stack.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import CodeType, FrameType
from typing import Any

from .lru import LRU

kept: LRU[tuple[Any, ...], list[str]] = LRU(4096)
"""The lines of texts that consoles have executed, by the marks of the codes in them."""


_NESTED = 0x10
"""The flag of codes within a function (`inspect.CO_NESTED`): `%%timeit` puts its text into one."""


def code_mark(code: CodeType) -> tuple[Any, ...]:
    """Everything that tells the behavior of two codes apart: all but their file and qualified name
    (IPython's autoreload compiles methods in a class of another name)."""
    return (code.co_name, code.co_firstlineno, code.co_code, code.co_names,
            code.co_varnames, code.co_freevars, code.co_cellvars, code.co_argcount,
            code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags & ~_NESTED,
            tuple(code.co_lines()), code.co_exceptiontable,
            tuple([_constant_mark(c) for c in code.co_consts]))


def _constant_mark(value: Any) -> Any:
    if isinstance(value, CodeType):
        return code_mark(value)
    if isinstance(value, (tuple, frozenset)):
        marks = [_constant_mark(v) for v in value]
        return type(value), tuple(marks if isinstance(value, tuple) else sorted(marks, key=repr))
    return type(value), repr(value)  # repr also tells -0.0 from 0.0, and NaN equals NaN


def all_codes(code: CodeType) -> Iterator[CodeType]:
    """A code and those in it."""
    yield code
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield from all_codes(const)


def hold_console_source() -> None:
    """Remember the text that an `InteractiveConsole` is executing, if one is.

    Called where functions are handed over while their text is still at hand.
    """
    if "code" not in sys.modules:
        return
    frame: FrameType | None = sys._getframe(1)
    steps = 0
    while frame is not None and steps < 40:
        code = frame.f_code
        if code.co_name == "runsource" and code.co_filename.endswith("code.py"):
            text = frame.f_locals.get("source")
            if isinstance(text, str):
                _keep(text)
            return
        frame, steps = frame.f_back, steps + 1


def _keep(text: str) -> None:
    try:
        whole = compile(text + "\n", "<console>", "exec", 0, True)
    except (SyntaxError, ValueError):
        return
    lines = text.splitlines(keepends=True)
    for code in all_codes(whole):
        kept[code_mark(code)] = lines
