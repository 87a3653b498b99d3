"""Kernels run as plain Python, over numpy arrays: what a kernel means, and its reference."""

from __future__ import annotations

import ast
import operator
import traceback
from collections.abc import Callable, Sequence
from copy import deepcopy
from functools import lru_cache
from types import CodeType
from typing import Any

import numpy as np

from cellc_runtime.dtypes import Array
from cellc_runtime.lazy import imported

from .functions import PYTHON
from .language import RESERVED, KernelError, Source, Typed, read

MOST_TRIPS = 1 << 24
MOST_BITS = 4096
_TRIP, _GROWN = RESERVED + "trip", RESERVED + "grown_"
_GROWING: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Mult: operator.mul, ast.Pow: operator.pow, ast.LShift: operator.lshift}


def call(typed: Typed, arrays: Sequence[Array]) -> tuple[Array, ...]:
    """The results of a kernel on arrays, which it may write to.

    Raises:
        IndexError: a position is out of bounds.
        KernelError: a number that is written down is none of the type that it meets, or the loops
            make more than `MOST_TRIPS` trips.
    """
    source = typed.kernel.source
    try:
        with np.errstate(all="ignore"):  # compiled code computes on with NaN and infinity, too
            made = _function(source)(*arrays)
    except OverflowError as error:
        raise KernelError(f"the kernel {typed.kernel.name}() cannot be run: {error} "
                          f"({source.file}, from line {source.line})") from error
    except UnboundLocalError as error:
        frames = traceback.extract_tb(error.__traceback__)
        line = next((f.lineno for f in frames if f.filename == source.file), source.line)
        raise UnboundLocalError(f"the kernel {typed.kernel.name}() reads a variable before it is "
                                f"assigned ({source.file}:{line})") from error
    results = made if isinstance(made, tuple) else (made,)
    return tuple(np.array(r, t.dtype.numpy) for r, t in zip(results, typed.outputs, strict=True))


def _numpy(name: str, *_: Any) -> Any:
    if name.partition(".")[0] != "numpy":
        raise ImportError(f"a kernel cannot import {name}")
    return imported(name)


def _trips(source: Source) -> Callable[[int], None]:
    """Counts the trips of all loops: a kernel from a file may loop for ever."""
    left = MOST_TRIPS

    def trip(line: int) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            source.fail(line, f"the reference of a kernel makes at most {MOST_TRIPS} trips of "
                        "loops: use smaller inputs, or check the kernel's loops")

    return trip


class _Counting(ast.NodeTransformer):
    """Each trip of a loop calls `_TRIP` with the loop's line."""

    def visit_loop(self, node: ast.For | ast.While) -> ast.AST:
        self.generic_visit(node)
        call = ast.Call(ast.Name(_TRIP, ast.Load()), [ast.Constant(node.lineno)], [])
        node.body.insert(0, ast.copy_location(ast.Expr(call), node))
        return ast.fix_missing_locations(node)

    visit_For = visit_While = visit_loop

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        return _bounded(node.op, node.left, node.right, node)

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        self.generic_visit(node)
        if type(node.op) not in _GROWING or not isinstance(node.target, ast.Name):
            return node
        old = ast.copy_location(ast.Name(node.target.id, ast.Load()), node)
        made = ast.Assign([node.target], _bounded(node.op, old, node.value, node))
        return ast.copy_location(made, node)


def _bounded(op: ast.operator, a: ast.expr, b: ast.expr, node: Any) -> ast.expr:
    """`a op b`, by a call where Python's ints would grow without end."""
    made: ast.expr = ast.BinOp(a, op, b)
    if type(op) in _GROWING:
        number = ast.Constant(node.lineno)
        made = ast.Call(ast.Name(_GROWN + type(op).__name__, ast.Load()), [a, b, number], [])
    return ast.fix_missing_locations(ast.copy_location(made, node))


def _grown(source: Source, kind: type[ast.operator]) -> Callable[[Any, Any, int], Any]:
    operate = _GROWING[kind]

    def compute(a: Any, b: Any, line: int) -> Any:
        if type(a) is int and type(b) is int:
            bits = {ast.Mult: a.bit_length() + b.bit_length(), ast.LShift: a.bit_length() + b}.get(
                kind, a.bit_length() * b if abs(a) > 1 else 0)
            if bits > MOST_BITS:
                source.fail(line, f"an int of a kernel must have at most {MOST_BITS} bits")
        return operate(a, b)

    return compute


def _function(source: Source) -> Any:
    space: dict[str, Any] = {**PYTHON, **dict(source.constants), _TRIP: _trips(source),
                             "__builtins__": {"__import__": _numpy},
                             **{_GROWN + k.__name__: _grown(source, k) for k in _GROWING}}
    made: dict[str, Any] = {}
    exec(_code(source), space, made)
    return made[read(source).name]


@lru_cache(64)
def _code(source: Source) -> CodeType:
    # The text may come from a file. `read` accepts its language and nothing else of Python; without
    # builtins, nothing else could be reached either. (numpy imports its errors when it warns.)
    tree = ast.Module([_Counting().visit(deepcopy(read(source).function))], [])
    return compile(ast.increment_lineno(tree, source.line - 1), source.file, "exec")
