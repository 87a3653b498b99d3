"""Hints for the errors of a program: types of the values involved, and alternatives."""

from __future__ import annotations

import ast
import builtins
import inspect
import linecache
import re
import sys
import textwrap
from collections.abc import Iterable
from itertools import islice
from types import FrameType, FunctionType
from typing import TYPE_CHECKING, Any

import numpy as np

from cellc_compiler.ir.graph import Span
from cellc_runtime.errors import counted
from cellc_runtime.records import dataclass

from ..core.advice import advise, closest
from ..core.advice import for_call as for_call
from ..core.later import other_names
from ..core.module_names import function_name, module_of, plain
from ..tensors.tensor import Tensor, ir_type
from . import _model
from .errors import Place
from .origins import operand_notes
from .values import MISSING

if TYPE_CHECKING:
    from .frames import Frame

_MOST = 4  # Operands whose types are shown


# --- types ---------------------------------------------------------------------------------------


def operand_types(frame: Frame) -> str:
    """`x: float32[2, 3], self.w: float32[3]`: the tensors that the expression at fault names."""
    node = frame.node
    if node is None or isinstance(node, (ast.Raise, ast.Assert, ast.FunctionDef)):
        return ""
    found: dict[str, str] = {}
    for part in _expressions(node):
        for name in _named(part):
            value = _peek(name, frame)
            if isinstance(value, Tensor):
                found.setdefault(ast.unparse(name), str(ir_type(value)))
    return ", ".join(f"{name}: {ty}" for name, ty in list(found.items())[:_MOST])


def _expressions(node: ast.AST) -> Iterable[ast.AST]:
    """A node's own expressions, not the statements inside it."""
    if isinstance(node, (ast.If, ast.While)):
        return (node.test,)
    if isinstance(node, ast.For):
        return (node.iter,)
    if isinstance(node, ast.Assign):
        return (node.value, *node.targets)
    return () if isinstance(node, (ast.With, ast.Try, ast.Match)) else (node,)


def _named(node: ast.AST) -> Iterable[ast.expr]:
    """Names and attributes of names, each as a whole, in the order of the source."""
    if isinstance(node, (ast.Name, ast.Attribute)):
        inner: ast.expr = node
        while isinstance(inner, ast.Attribute):
            inner = inner.value
        if isinstance(inner, ast.Name):
            yield node
            if isinstance(node, ast.Attribute):
                yield inner  # x of x.missing
            return
    if isinstance(node, (ast.Lambda, ast.ListComp, ast.GeneratorExp, ast.SetComp, ast.DictComp)):
        return
    for child in ast.iter_child_nodes(node):
        yield from _named(child)


def _peek(node: ast.expr, frame: Frame) -> Any:
    """The value of a name, or of an attribute of a Cell, without running anything."""
    if isinstance(node, ast.Name):
        scope: Frame | None = frame
        while scope is not None:
            if node.id in scope.table:
                return scope.table[node.id]
            scope = scope.outer
        return frame.globals.get(node.id, MISSING)
    if isinstance(node, ast.Attribute):
        owner = _peek(node.value, frame)
        if _model.is_cell(owner) and not isinstance(
            inspect.getattr_static(type(owner), node.attr, None), property
        ):
            return getattr(owner, node.attr, MISSING)
        if inspect.ismodule(owner):
            return vars(owner).get(node.attr, MISSING)
    return MISSING


# --- names ---------------------------------------------------------------------------------------


def for_name(name: str, frame: Frame) -> str:
    """Return similar names for one that is not defined."""
    known: dict[str, None] = {}
    scope: Frame | None = frame
    while scope is not None:
        known.update(dict.fromkeys((*scope.table, *scope.closure)))
        scope = scope.outer
    like = closest(name, [*known, *frame.globals, *vars(builtins)])
    if like:
        return f"did you mean '{like}'?"
    for module in ("cellc.ops", "cellc.nn", "cellc"):
        if hasattr(sys.modules.get(module), name):
            short = module.rpartition(".")[2].replace("cellc", "ms")
            return f"did you mean {short}.{name}?"
    if name in sys.stdlib_module_names or name in ("np", "numpy"):
        full = "numpy as np" if name in ("np", "numpy") else name
        return f"import {full} at the top of the file"
    return "define it before, or pass it as an argument"


def for_attribute(error: AttributeError, frame: Frame) -> str:
    """Return similar names for an attribute that does not exist."""
    owner: Any = error.obj
    name = error.name
    noted = next(iter(getattr(error, "__notes__", ())), "")
    if noted.startswith("hint: "):
        return noted.removeprefix("hint: ")
    if name is None or owner is None:
        match = re.search(r"attribute '(\w+)'", str(error))
        if match is None:
            return ""
        name = match.group(1)
        node = frame.node
        owner = _peek(node.value, frame) if isinstance(node, ast.Attribute) else MISSING
        owner = None if owner is MISSING else owner
    if name in other_names.ATTRIBUTES and (isinstance(owner, Tensor) or _model.is_cell(owner)):
        return other_names.advice(name)
    known = [] if owner is None else dir(owner)
    if _model.is_cell(owner):
        held = owner.__dict__
        known = [*known, *held.get("_cells", ()), *held.get("_params", ())]
    like = closest(name, known)
    if like:
        return f"did you mean '{like}'?"
    if isinstance(owner, Tensor) or _model.is_cell(owner):
        if isinstance(owner, Tensor):
            ops = sys.modules.get("cellc.ops")
            return f"use ops.{name}(x)" if hasattr(ops, name) else ""
        return f"set self.{name} in __init__"
    return ""


# --- the rest ------------------------------------------------------------------------------------

@dataclass(frozen=True, slots=True)
class Fault:
    """An exception of the program, with where it came from and what is known about it."""

    error: BaseException
    place: Place | None
    calls: list[Place]
    notes: list[str]
    hint: str
    # in which statement or expression of its frame
    node: tuple[Frame, ast.AST | None] | None = None


def explain(error: BaseException, frame: Frame, callee: Any) -> tuple[list[str], str]:
    """Notes and a hint for an exception that the program did not raise by a statement."""
    if not isinstance(error, Exception) or isinstance(frame.node, (ast.Raise, ast.Assert)):
        return [], ""
    about, hint = for_call(str(error), callee)
    if isinstance(error, UnboundLocalError):
        return [], "assign it before, on every path that leads here"
    if isinstance(error, NameError):
        match = re.search(r"'(\w+)' is not defined", str(error))
        return [], for_name(match.group(1), frame) if match else ""
    if isinstance(error, AttributeError):
        hint = for_attribute(error, frame)
    if isinstance(error, LookupError):
        about, hint = _of_container(error, frame)
    if about or "cannot be called" in str(error) or isinstance(error, (KeyError, AssertionError)):
        return [about] if about else [], hint or advise(error)
    return operand_notes(frame), hint or advise(error)


def in_layer(frame: Frame) -> str:
    """Which layer of cellc an error comes from, and the tensors there."""
    types = operand_types(frame)
    cell = f" (cell {frame.scope})" if frame.scope else ""
    while frame.name.rpartition(".")[2].startswith("_") and frame.caller is not None and \
            frame.caller.depth and frame.site is not None:
        frame = frame.caller  # a private function says nothing to users
    owner = type(frame.first_argument)
    name = f"{owner.__name__}.construct" if _model.is_cell(frame.first_argument) and \
        frame.name.endswith(".construct") else frame.name  # not of a private base class
    return f"raised in {name}{cell}" + (f", with {types}" if types else "")


_INNER = ("cellc", "contextlib", "functools")
"""Packages whose frames lie between a user's line and a layer: decorators are of Python's own."""


def calling_place() -> Place | None:
    """The user's line that calls a layer of cellc; None where a command of cellc does."""
    frame: FrameType | None = inspect.currentframe()
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in _INNER:
        if frame.f_globals["__name__"] == "cellc.cli":
            return None
        frame = frame.f_back
    if frame is None:
        return None
    code = frame.f_code
    line, end, column, end_column = next(islice(code.co_positions(), frame.f_lasti // 2, None))
    span = Span(file=code.co_filename, line=line or frame.f_lineno, column=column or 0,
                end_line=end, end_column=end_column)
    return Place(span, linecache.getline(span.file, span.line).rstrip(), code.co_qualname)


def note_maker(cell: Any, function: FunctionType) -> None:
    """Note on a Cell which function of the user made it, for errors of calls without a line of
    the user's: those of commands."""
    cell.__dict__["_made_by"] = function


def place_of_maker(cell: Any) -> Place | None:
    """The line of the user's function that returns a Cell; None for other objects."""
    function = (plain(cell, "__dict__") or {}).get("_made_by")
    if function is None:
        return None
    code = function.__code__
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError):
        return None
    returns = [n.lineno for n in ast.walk(tree) if isinstance(n, ast.Return)]
    line = code.co_firstlineno + max(returns, default=1) - 1
    text = linecache.getline(code.co_filename, line).rstrip()
    span = Span(file=code.co_filename, line=line, column=len(text) - len(text.lstrip()),
                end_line=line, end_column=len(text.encode()))
    return Place(span, text, function.__qualname__)


def _of_container(error: LookupError, frame: Frame) -> tuple[str, str]:
    """The length or the keys of a container that lacks what was asked for."""
    node = frame.node
    held = _peek(node.value, frame) if isinstance(node, ast.Subscript) else MISSING
    if isinstance(error, KeyError) and isinstance(held, dict) and error.args:
        keys = ", ".join(repr(k) for k in list(held)[:8]) + ", ..." * (len(held) > 8)
        like = closest(error.args[0], filter(_is_text, held)) if _is_text(error.args[0]) else ""
        return f"its keys are {keys}", f"did you mean {like!r}?" if like else ""
    if isinstance(held, (list, tuple, str)) and isinstance(node, ast.Subscript):
        name, count = ast.unparse(node.value), len(held)
        return f"{name} has {counted(count, 'element')}", ""
    return "", ""


def _is_text(value: object) -> bool:
    return isinstance(value, str)


# --- functions of Python that need elements -------------------------------------------------------

_SAME_IN_OPS = {
    "absolute": "abs", "concatenate": "cat", "arctan": "atan", "arcsin": "asin",
    "arccos": "acos", "power": "pow", "amax": "max", "amin": "min", "fabs": "abs",
    "arcsinh": "asinh", "arccosh": "acosh", "arctanh": "atanh", "hstack": "hstack",
    "divide": "div", "true_divide": "div", "multiply": "mul", "subtract": "sub",
    "negative": "neg", "remainder": "remainder", "mod": "remainder", "invert": "invert",
    "append": "cat", "take_along_axis": "gather_elements",
    "greater_equal": "ge", "less_equal": "le", "not_equal": "ne", "equal": "equal",
    "tensordot": "tensor_dot", "expand_dims": "expand_dims", "swapaxes": "swapaxes",
    "transpose": "permute",
}


def python_instead(fn: Any) -> tuple[str, str]:
    """Return the full name of a function of Python that needs elements, and what to use instead."""
    name, module = function_name(fn), module_of(fn) or module_of(type(fn))
    shown = "numpy.ndarray" if isinstance(plain(fn, "__self__"), np.ndarray) else _shown(module)
    full = f"{shown}.{name}" if shown else name
    return full, _instead(full, name)


def _shown(module: str) -> str:
    """A module's name as programs write it: without its private parts."""
    parts = [p for p in module.split(".") if not p.startswith("_")]
    if parts[:1] == ["numpy"]:  # what numpy.linalg gives comes from numpy.linalg._linalg, ...
        parts = [p for p in parts if p not in ("core", "lib", "mtrand", "fromnumeric", "ufunc")]
    return "" if parts in ([], ["builtins"]) else ".".join(parts)


def _instead(full: str, name: str) -> str:
    """Return the advice for a function that needs elements."""
    if full in ("numpy.array", "numpy.asarray", "numpy.ascontiguousarray"):
        return "it is a Tensor already; to change its type use x.astype(...)"
    ops = sys.modules.get("cellc.ops")
    same = _SAME_IN_OPS.get(name, name)
    there = same if not same.startswith("_") and callable(getattr(ops, same, None)) else None
    call = f"ops.py_func({full}, ...) to call it when the network runs"
    return f"use ops.{there}, or {call}" if there else f"use functions of cellc.ops, or {call}"
