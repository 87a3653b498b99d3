"""Where an op stands: its line and Cell, as a graph knows them or as a running frame tells.

In PyNative mode the place of an op is that of the innermost frame outside of cellc, and its Cells
are those whose `construct` is on the stack. Both modes give the same text for the same op.
"""

from __future__ import annotations

import inspect
import linecache
import os
from collections.abc import Hashable, Sequence
from itertools import islice
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from cellc_compiler.ir.graph import NOWHERE, Span, join_scope
from cellc_runtime.errors import long_name
from cellc_runtime.records import dataclass

from ..lang import scope_paths
from ..lang.errors import Place
from ..nn.cell import Cell

_LIBRARY = str(Path(__file__).resolve().parents[1]) + os.sep


@dataclass(frozen=True, slots=True)
class Spot:
    """A place of an op."""

    key: Hashable  # equal for ops of one place
    span: Span | None = None  # where in the source; None where `frame` has it
    scope: str = ""  # the path of the Cell, its class first
    frame: tuple[CodeType, int] | None = None  # the code that was running, and how far
    cells: tuple[Any, ...] = ()  # the Cells that were running, outermost first

    def resolved(self) -> tuple[Span, str]:
        """The place in the source, and the path of the Cell."""
        span = _span(*self.frame) if self.frame is not None else self.span or NOWHERE
        return span, self.scope or path_of(self.cells)


def of_node(span: Span, scope: str) -> Spot:
    """The place of a node of a graph."""
    return Spot((span, scope), span, scope)


def of_call(scope: str) -> Spot:
    """The place of a node that stands in no line of the user's: the call that runs now."""
    spot, _ = running()
    return spot if not scope else Spot((spot.key, scope), None, scope, spot.frame, spot.cells)


def is_users(span: Span) -> bool:
    """Whether a place is in a file of the user's."""
    return span.line > 0 and not span.file.startswith(_LIBRARY)


def running() -> tuple[Spot, FrameType | None]:
    """The place that is running now, and the frame of the outermost Cell there."""
    frame: FrameType | None = inspect.currentframe()
    user: tuple[CodeType, int] | None = None
    outermost: FrameType | None = None
    cells: list[Any] = []
    while frame is not None:
        code = frame.f_code
        if user is None and not _is_own(frame):
            user = code, frame.f_lasti
        if code.co_name in ("construct", "bprop") and code.co_argcount:
            owner = frame.f_locals.get(code.co_varnames[0])
            if isinstance(owner, Cell):
                cells.append(owner)
                outermost = frame
        frame = frame.f_back
    cells.reverse()
    return Spot((user, tuple(map(id, cells))), None, "", user, tuple(cells)), outermost


def _is_own(frame: FrameType) -> bool:
    """Whether a frame says nothing to a user: cellc's, or what calls through."""
    module = str(frame.f_globals.get("__name__", ""))
    return module.partition(".")[0] in (
        "cellc", "cellc_compiler", "cellc_runtime", "contextlib", "functools")


def _span(code: CodeType, at: int) -> Span:
    found = next(islice(code.co_positions(), at // 2, None), (None, None, None, None))
    line, end_line, column, end_column = found
    return Span(file=code.co_filename, line=line or code.co_firstlineno, column=column or 0,
                end_line=end_line, end_column=end_column)


def path_of(cells: Sequence[Any]) -> str:
    """The path of the last of some Cells that run one in another, as a trace names it."""
    paths: dict[int, str] = {}
    path = ""
    for cell in cells:
        if id(cell) not in paths:
            for key, below in scope_paths(cell, join_scope(path, type(cell).__name__)).items():
                paths.setdefault(key, below)
        path = paths[id(cell)]
    return path


def lines(span: Span, scope: str) -> list[str]:
    """A place as lines of a message: file, line and Cell, then the source with a caret."""
    cell = f" (cell {scope})" if scope else ""
    if not span.line:
        return [f"  in no line of the source{cell}"]
    text = linecache.getline(span.file, span.line).rstrip("\n")
    shown = Place(span, text, "").caret().splitlines() if text else []
    return [f"  {long_name(span.file)}, line {span.line}{cell}", *(f"    {part}" for part in shown)]
