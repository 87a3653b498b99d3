"""PyNative calls of Cells: `construct` run by Python, a Cell's own `bprop` recorded."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from .. import context
from ..core.dispatch import auto_precision
from ..core.dispatch import precision as computing
from ..core.later import naming
from ..eager import implicit_recording
from ..eager.recorder import active_recordings
from . import recompute
from .bprop import call_with_bprop
from .hooks import Within, call_around, hooks_of


def call_cell(cell: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Run a Cell's construct eagerly."""
    if _usual(cell):
        try:
            return cell.construct(*args, **kwargs)
        except Exception as error:
            naming.raise_told_of_cell(error, cell, args, kwargs)
    if cell.requires_grad and not active_recordings() and implicit_recording.wanted(cell):
        return implicit_recording.call(cell, partial(_call_wrapped, cell), args, kwargs)
    return _call_wrapped(cell, args, kwargs)


def _usual(cell: Any) -> bool:
    """Whether a call is that of `construct` and nothing else (the rest asks one by one)."""
    own = cell.__dict__
    return not (
        own.get("requires_grad") or own.get("_hooks") or own.get("_flags") or cell._whole
        or cell._recompute_options is not None or computing() is not None
        or (active_recordings() and getattr(type(cell), "bprop", None) is not None)
    )


def _call_wrapped(cell: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    recomputed = None if cell._recompute_options is None else partial(_call_recomputed, cell)
    return call_around(cell, args, kwargs, partial(_run_construct, cell), recomputed)


def _call_recomputed(cell: Any, call: Within, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if not active_recordings():
        return call(args, kwargs)
    return recompute.recorded(call, args, kwargs, list(cell.get_parameters()))


def _run_construct(cell: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    if active_recordings():
        if getattr(type(cell), "bprop", None) is not None:
            return call_with_bprop(cell, args)
    elif cell._whole and auto_precision() is None and not context.op_by_op() and \
            _own_throughout(cell):
        return cell._entries.call(cell, args, kwargs)  # the same bits, in one program
    return cell.construct(*args, **kwargs)


def _own_throughout(cell: Any) -> bool:
    """Whether all Cells below are cellc's: their effects besides results are known."""
    return context.numerics() == "strict" and all(
        type(c).__module__.startswith("cellc.") and hooks_of(c) is None
        for _, c in cell.cells_and_names()
    )
