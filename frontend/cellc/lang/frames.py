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
    """One call being interpreted (or a comprehension, which has its own names)."""

    source: FunctionSource
    facts: Facts  # the names it has (those of the source, or of a comprehension in it)
    name: str
    globals: dict[str, Any]
    closure: Mapping[str, CellType]  # the captured variables of a Python function
    scope: str
    class_name: str
    caller: Frame | None = None  # the frame that made the call
    outer: Frame | None = None  # the frame a nested function was defined in
    # local variables; `lines` where each was last assigned
    table: dict[str, Any] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)
    node: ast.AST | None = None  # the syntax being evaluated
    depth: int = 0  # nested calls; 0 outside all functions
    first_argument: Any = MISSING  # for `super()`
    comprehension: bool = False
    # in a layer of cellc itself, the user's line that called it: its nodes belong there
    site: Span | None = None
    # the builtin names of a function that has its own (`exec` with `__builtins__`)
    builtins: dict[str, Any] | None = None
    sent: Any = MISSING  # the value of the `yield` that a generator continues from
    finals: int = 0  # `try` statements around what is evaluated whose `finally` is yet to run
