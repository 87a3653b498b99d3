"""Warnings for a `construct` that runs, but hardly does what is meant, in PyNative mode.

Graph mode warns of the same when it compiles (`compiled.traced`). Nothing here runs in a call of a
Cell: `warn_without_return` looks at the code before the first one, `warn_of_numpy` runs where numpy
reads a Tensor.
"""

from __future__ import annotations

import dis
import linecache
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_GENERATOR
from itertools import islice, pairwise
from types import CodeType, FrameType, FunctionType

from cellc_runtime.errors import short_name
from cellc_runtime.lazy import logging

from .module_names import module_of

NO_RETURN = "%s computes values and gives None: does it end without return?"
RUN_BY_NUMPY = "%s: %s, %s, is run by numpy in each call, and no gradient passes through it%s"
"""The warnings of both modes."""
_EFFECTS = ("STORE_ATTR", "STORE_SUBSCR", "STORE_SLICE", "STORE_GLOBAL", "STORE_DEREF", "DELETE_",
            "RAISE_VARARGS", "YIELD_VALUE")
_COMPUTES = ("BINARY_", "CALL", "COMPARE_OP", "UNARY_")
_LATER = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR
_told: set[CodeType | tuple[CodeType, int]] = set()


def warn_without_return(cell: type) -> None:
    """Warn, once, if the `construct` of a class computes values, keeps none and returns none."""
    construct = getattr(cell, "construct", None)
    if not isinstance(construct, FunctionType) or module_of(construct).startswith("cellc."):
        return
    code = construct.__code__
    if code in _told or not _computes_for_nothing(code):
        return
    _told.add(code)
    logging.getLogger("cellc").warning(NO_RETURN, cell.__name__)


def _computes_for_nothing(code: CodeType) -> bool:
    """Whether values go to local variables alone, and None is returned.

    A call whose result is dropped may have effects, so a function with one is not judged.
    """
    if code.co_flags & _LATER:
        return False
    computes = False
    for before, step in pairwise(dis.get_instructions(code)):
        name = step.opname
        if name.startswith(_EFFECTS) or (name == "POP_TOP" and before.opname.startswith("CALL")):
            return False
        if name == "RETURN_VALUE" and not (before.opname == "LOAD_CONST" and before.argval is None):
            return False
        if name == "RETURN_CONST" and step.argval is not None:
            return False
        computes = computes or name.startswith(_COMPUTES)
    return computes


def warn_of_numpy(frame: FrameType | None) -> None:
    """Warn, once for each place, if numpy reads a Tensor for a call in a `construct`.

    Args:
        frame: of the method that numpy calls.
    """
    frame = frame.f_back if frame is not None else None
    while frame is not None and frame.f_globals.get("__name__", "").startswith("numpy."):
        frame = frame.f_back
    if frame is None or frame.f_code.co_name != "construct":
        return
    code, at = frame.f_code, frame.f_lasti
    if (code, at) in _told or frame.f_globals.get("__name__", "").startswith("cellc."):
        return
    _told.add((code, at))
    name = code.co_qualname.removesuffix(".construct").rpartition(".")[2]
    logging.getLogger("cellc").warning(
        RUN_BY_NUMPY, name, _source(frame),
        f"{short_name(code.co_filename)}:{frame.f_lineno}", "; use functions of ops")


def _source(frame: FrameType) -> str:
    """The expression that a frame runs, as it is written; a word for it where that is not known."""
    first, last, start, end = next(islice(
        frame.f_code.co_positions(), frame.f_lasti // 2, None))
    if first is None or first != last or start is None or end is None:
        return "this call"
    line = linecache.getline(frame.f_code.co_filename, first).encode()
    return line[start:end].decode(errors="replace") or "this call"
