"""`recompute`: a call that is computed again for gradients instead of kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from ..common.parameter import Parameter
from ..core.dispatch import active_tracer
from ..core.recomputation import recorded, traced
from ..core.structure import take_apart
from ..pynative.recorder import active_recordings
from .cell import Cell

Contexts = tuple[AbstractContextManager[Any], AbstractContextManager[Any]]


def recompute(
    block: Any, *args: Any, use_reentrant: bool = True, output_recompute: bool = False,
    early_stop: bool = True, context_fn: Callable[[], Contexts] | None = None, **kwargs: Any,
) -> Any:
    """`block(*args, **kwargs)`, which gradients compute again instead of keeping what is in it.

    Args:
        block: a Cell; with `use_reentrant=False`, any function of tensors.
        args, kwargs: what it is called with.
        use_reentrant: whether only Cells are taken; what is computed is the same.
        output_recompute, early_stop: accepted; the results are kept, and all is computed again.
        context_fn: with `use_reentrant=False` in PyNative mode: gives two context managers, one
            for the first run and one for each run for a gradient.

    Raises:
        TypeError: `block` is no Cell (or cannot be called).

    Source: `mindspore.recompute`.
    """
    if use_reentrant and not isinstance(block, Cell):
        raise TypeError(
            "Recompute function now only support block which inherited from Cell when "
            f"use_reentrant=True! But got {type(block).__name__}."
        )
    if not callable(block):
        raise TypeError(f"'{type(block).__name__}' object is not callable")
    tracer = active_tracer()
    if tracer is not None:
        return traced(tracer, (args, kwargs), lambda: block(*args, **kwargs))
    if not active_recordings():
        return block(*args, **kwargs)
    first, later = context_fn() if context_fn is not None and not use_reentrant else (
        nullcontext(), nullcontext())
    runs = iter([first])

    def call(given: tuple[Any, ...], named: Mapping[str, Any]) -> Any:
        with next(runs, later):
            return block(*given, **named)

    tensors = list(block.get_parameters()) if isinstance(block, Cell) else []
    return recorded(call, args, kwargs, [*tensors, *_parameters((args, kwargs))])


def _parameters(given: Any) -> list[Any]:
    return [t for t in take_apart(given)[1] if isinstance(t, Parameter)]
