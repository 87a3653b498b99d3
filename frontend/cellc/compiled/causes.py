"""Why a network was compiled again: what differed, which line asked for it, and what helps.

Each cause is of a kind, and each kind has its remedy. A call that no entry fits is held against
the call compiled before that is most like it; an entry that is out of date says what it read and
what that is now; a trace with open sizes says which expression needed a size as a number.
"""

from __future__ import annotations

import inspect
import re
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from types import CodeType, FrameType, FunctionType
from typing import Any
from weakref import ref

import numpy as np

from cellc_compiler.ir.dims import symbols_of
from cellc_compiler.ir.graph import Literal
from cellc_compiler.ir.shapes import Guard, Shapes
from cellc_compiler.ir.types import TensorType
from cellc_runtime.errors import short_name
from cellc_runtime.forks import renewed
from cellc_runtime.records import dataclass

from ..core.lru import LRU
from ..core.module_names import plain
from ..tensors.parameter import Parameter
from ..tensors.tensor import Tensor
from ..tracing.reads import Read, short

REMEDIES = {
    "shape": "pad arguments to few shapes",
    "size": "do nothing: the new program serves other sizes of this axis, too",
    "dtype": "give the argument one element type before the call (astype)",
    "value": "pass a number as a Tensor if it only takes part in arithmetic (a Python number is "
             "compiled in); give other arguments few different values",
    "structure": "give lists, tuples and dicts of arguments one length and one set of keys, or "
                 "stack them into one Tensor",
    "function": "define the function once, before the loop: each 'def' or 'lambda' that runs makes "
                "another one",
    "transform": "make it once, before the loop: each call of jit, grad, value_and_grad or vmap "
                 "gives a function that is compiled for itself",
    "attribute": "make it an argument or a Parameter: a number or string in an attribute is "
                 "compiled in",
    "training": "call set_train once: let training and evaluation have a Cell each over the same "
                "Parameters",
    "hooks": "register hooks before the first call and leave them",
    "parameter": "keep the Parameter and give it another value (set_data, ops.assign)",
    "frozen": "choose which Parameters are trained before the first call",
    "cells": "build the network before its first call; to choose between Cells at run time, hold "
             "them in a CellList and index it",
    "tensor": "hold it in a Parameter and assign that, or pass it as an argument: elements of "
              "small Tensors and arrays are compiled in",
    "container": "fill it before the first call: what is in a list, dict or set is compiled in. "
                 "Pass as an argument what changes, or hold it in a Parameter",
    "variable": "pass it as an argument, or hold it in a Parameter: what variables and attributes "
                "hold is compiled in",
    "option": "set options once, before the first call",
    "number": "keep the size open where it is used (ops.arange for np.arange, no int() or range() "
              "of it), or pad to few sizes",
    "question": "take the question away, or give sizes that answer it alike: each answer is "
                "compiled once",
    "state": "let a Tensor or Parameter decide instead of a Python number, or let it take few "
             "values",
    "fixed": "describe the size that differs as open too (None in set_inputs); a size of 0 is "
             "never open",
    "opened": "call set_inputs once, before the first call",
    "budget": "call it under one budget of recompute",
    "dropped": "call it with fewer signatures: those used last are kept",
}
"""The remedy for each kind of cause."""


@dataclass(frozen=True, slots=True)
class Cause:
    """Why something was compiled again."""

    kind: str = ""  # a key of `REMEDIES`; "" of a first compilation
    text: str = ""  # what differed, from what to what, and which line asked

    @property
    def remedy(self) -> str:
        """The remedy for this cause."""
        return REMEDIES.get(self.kind, "")


FIRST = Cause()


# --- arguments -----------------------------------------------------------------------------------

_MOST = 256  # Parts of a call that are compared, and characters of a value

_COMPARED = 16  # The latest compilations with which a call is compared

Facet = tuple[str, str, str]
"""A part of a call: its kind, its distinction besides its shape, and it in words."""


def facets(
    names: Sequence[str], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> dict[str, Facet]:
    """The parts of a call's arguments by path: what one call may differ in from another."""
    out: dict[str, Facet] = {}

    def walk(path: str, value: Any) -> None:  # (kinds as `tracing.pytree` has them)
        if len(out) >= _MOST:
            return
        if isinstance(value, Tensor):
            ty = TensorType(value.shape, value.dtype)
            out[path] = "tensor", str(ty.dtype), str(ty)
        elif isinstance(value, dict):
            out[path] = "box", "", f"a dict of {len(value)}"
            for key, inner in value.items():
                walk(f"{path}[{key!r}]", inner)
        elif isinstance(value, (list, tuple)):
            out[path] = "box", "", f"a {type(value).__name__} of {len(value)}"
            for i, inner in enumerate(value):
                walk(f"{path}[{i}]", inner)
        elif callable(value) and not isinstance(value, type):
            out[path] = "function", str(id(value)), short(value)
        else:
            out[path] = "value", _identity(value), short(value)

    for i, a in enumerate(args):
        walk(names[i] if i < len(names) else f"argument {i}", a)
    for key, a in kwargs.items():
        walk(str(key), a)
    return out


def _identity(value: Any) -> str:
    """Return a text that identifies a value: by its contents, or as an object if it has no hash."""
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        return Literal(value).digest.hex()
    try:
        hash(value)
    except TypeError:
        return str(id(value))
    return repr(value)[:_MOST]


def of_call(
    history: Sequence[Compilation], signature: str, now: Mapping[str, Facet], where: str
) -> Cause:
    """Why a call that no entry fits was compiled: how it differs from the one most like it."""
    before = min(reversed(history[-_COMPARED:]), key=lambda c: len(_differing(c.parts, now)))
    differing = _differing(before.parts, now)
    if not differing:  # it was compiled, and let go since
        return Cause("dropped", f"what was compiled for {signature} had been let go{where}")
    kinds = [_kind(before.parts.get(path), now.get(path)) for path in differing]
    kind = next((k for k in REMEDIES if k in kinds), "value")
    if "structure" in kinds:
        kind = "structure"  # what is in a box differs with it
    text = f"{before.signature} -> {signature}"
    if len(differing) < len(now) or len(now) > 1:
        parts = [_difference(path, before.parts.get(path), now.get(path))
                 for path in differing[:3]]
        more = f" and {len(differing) - 3} more" if len(differing) > 3 else ""
        text = f"{text}: {', '.join(parts)}{more}"
    return Cause(kind, text + where)


def _differing(before: Mapping[str, Facet], now: Mapping[str, Facet]) -> list[str]:
    return [path for path in dict.fromkeys([*before, *now]) if before.get(path) != now.get(path)]


def _kind(before: Facet | None, now: Facet | None) -> str:
    if before is None or now is None or before[0] != now[0] or now[0] == "box":
        return "structure"
    if now[0] == "tensor":
        return "dtype" if before[1] != now[1] else "shape"
    return now[0]


def _difference(path: str, before: Facet | None, now: Facet | None) -> str:
    if before is None or now is None:
        return f"{path} is {'new' if before is None else 'gone'}"
    if before[2] == now[2]:
        return f"{path} is another {'function' if now[0] == 'function' else 'object'}, {now[2]}"
    return f"{path} is {now[2]}, was {before[2]}"


def called_at() -> str:
    """The line of the user's that is calling, as ` (called at file:line)`; "" if there is none."""
    frame: FrameType | None = inspect.currentframe()
    while frame is not None:
        if str(frame.f_globals.get("__name__")).partition(".")[0] != "cellc":
            return f" (called at {short_name(frame.f_code.co_filename)}:{frame.f_lineno})"
        frame = frame.f_back
    return ""


# --- functions -----------------------------------------------------------------------------------


@dataclass(slots=True)
class Made:
    """The compilations of functions of one code by one transformation."""

    last: Callable[[], Any]  # the function compiled last
    count: int = 1  # of function objects, or of transformations of one


_made: LRU[tuple[CodeType, str], Made] = LRU(1024)
_lock = renewed(threading.Lock())


def of_function(fn: Any, name: str) -> tuple[Cause, int]:
    """Why the first call of something was compiled, if its code was before, and how often it was.

    Args:
        fn: what was called: a Cell is each time one of its own, and so is a method.
        name: what it is called; "grad_forward", say.
    """
    inner = fn if _is_cell(fn) else plain(fn, "transformed", fn)
    if not isinstance(inner, FunctionType):
        return FIRST, 1
    key = inner.__code__, name
    with _lock:
        found = _made.get(key)
        if found is None:
            _made[key] = Made(ref(inner))
            return FIRST, 1
        found.count += 1
        same = found.last() is inner
        found.last = ref(inner)
    code = inner.__code__
    place = f"{short_name(code.co_filename)}:{code.co_firstlineno}"
    if same:
        return Cause("transform", f"{name} was called again on the same function, at {place}"
                     + called_at()), found.count
    return Cause("function", f"{inner.__name__} is another function object, made at {place}"
                 + called_at()), found.count


# --- what was read -------------------------------------------------------------------------------


def of_read(read: Read) -> Cause:
    """Why an entry is out of date that read something which is another now."""
    return Cause(_read_kind(read), read.describe())


def _read_kind(read: Read) -> str:
    now, before, name = read.now(), read.value, read.key[1]
    for kind, found in (
        ("hooks", name == "_hooks"),
        ("training", name == "training"),
        ("frozen", name == "requires_grad"),
        ("cells", name in ("_cells", "_params", "_buffers") or _is_cell(now) or _is_cell(before)),
        ("parameter", isinstance(now, Parameter) or isinstance(before, Parameter)),
        ("tensor", isinstance(now, (Tensor, np.ndarray))),
        ("container", isinstance(now, (list, dict, set, tuple, deque, bytearray))),
        ("function", isinstance(now, FunctionType) and isinstance(before, FunctionType)
         and now.__code__ is before.__code__),
        ("attribute", read.watched),
    ):
        if found:
            return kind
    return "variable"


def _is_cell(value: Any) -> bool:
    return hasattr(type(value), "construct")


_NAME = re.compile(r"[A-Za-z_]\w*")

# --- open sizes ----------------------------------------------------------------------------------


def of_sizes(
    guards: Sequence[Guard], shapes: Shapes, sizes: Mapping[str, int], where: str
) -> Cause:
    """Why a trace with open sizes does not serve others: what it asked about them."""
    known = (g for g in guards if symbols_of(g.expr) <= set(sizes))
    guard = next((g for g in known if not g.holds(sizes)), None)
    if guard is None:
        out = next((f"{info.origin} is {sizes[name]}, which what was traced does not take"
                    for name, info in shapes.symbols.items() if name in sizes
                    and not info.low <= sizes[name] <= (info.high or sizes[name])),
                   "sizes that were equal are not, or the other way round")
        return Cause("shape", out + where)
    names = sorted(symbols_of(guard.expr))
    about = " and ".join(f"{shapes.symbols[n].origin or n} is {sizes[n]}" for n in names
                         if n in shapes.symbols)
    line = guard.where.replace("\\", "/").rpartition("/")[2]
    asked = f"'{guard.expression}' at {line}" if guard.expression else line
    holds = _NAME.sub(lambda m: shapes.symbols[m[0]].origin or m[0] if m[0] in shapes.symbols
                      else m[0], str(Guard(guard.relation, guard.expr)))
    return Cause("number" if guard.relation == "==" and len(names) == 1 else "question",
                 f"{asked or 'the trace'} made it serve {holds} alone, and {about} now{where}")


@dataclass(frozen=True, slots=True)
class Compilation:
    """One compilation of a Cell or function."""

    key: Any  # of the signature
    signature: str  # in words
    cause: str  # why it was not served by what was compiled before; "" for the first
    seconds: float  # it took
    instance: bool  # of a trace with open sizes that served this call too: it was not traced again
    kind: str  # of cause; a key of `causes.REMEDIES`, or ""
    remedy: str  # what helps against it
    parts: Mapping[str, Facet]  # of the call, by path: what another one may differ in
