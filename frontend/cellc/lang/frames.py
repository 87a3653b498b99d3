"""Frames: the state of the calls being interpreted."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from types import CellType
from typing import Any

from cellc_compiler.ir.graph import Span
from cellc_runtime.records import dataclass, field

from .analysis import Facts
from .source import FunctionSource
from .values import MISSING


@dataclass(slots=True, eq=False)
class Frame:
    """One call being interpreted (or a comprehension, which has its own names).

    Attributes:
        facts: the names it has (those of the source, or of a comprehension in it).
        table: local variables; `lines` where each was last assigned.
        outer: the frame a nested function was defined in.
        closure: the captured variables of a Python function.
        caller: the frame that made the call.
        node: the syntax being evaluated.
        depth: nested calls; 0 outside all functions.
        first_argument: for `super()`.
        site: in a layer of cellc itself, the user's line that called it: its nodes belong there.
        sent: the value of the `yield` that a generator continues from.
        finals: `try` statements around what is evaluated whose `finally` is yet to run.
    """

    source: FunctionSource
    facts: Facts
    name: str
    globals: dict[str, Any]
    closure: Mapping[str, CellType]
    scope: str
    class_name: str
    caller: Frame | None = None
    outer: Frame | None = None
    table: dict[str, Any] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)
    node: ast.AST | None = None
    depth: int = 0
    first_argument: Any = MISSING
    comprehension: bool = False
    site: Span | None = None
    sent: Any = MISSING
    finals: int = 0
