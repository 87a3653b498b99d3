"""`recompute`: a call that is computed again for gradients instead of kept, or a budget of bytes
for which the compiler chooses what is. Source: `mindspore`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from ..calls.budget import Budget, parse
from ..calls.recompute import recorded, traced
from ..core.dispatch import active_tracer
from ..eager.recorder import active_recordings
from ..tensors.parameter import Parameter
from ..tracing.pytree import take_apart
from .cell import Cell

Contexts = tuple[AbstractContextManager[Any], AbstractContextManager[Any]]


_MISSING: Any = object()


def recompute(
    block: Any = _MISSING, *args: Any, use_reentrant: bool = True, output_recompute: bool = False,
    early_stop: bool = True, context_fn: Callable[[], Contexts] | None = None, **kwargs: Any,
) -> Any:
    """`block(*args, **kwargs)`, which gradients compute again instead of keeping what is in it.

    With `budget` and no further arguments nothing is called. In graph mode, what gradients need of
    the forward part is then kept or computed again as the compiler chooses, with the least work
    with which the temporaries of a program can be planned in that many bytes (parameters,
    arguments and results are not counted); no bit changes:

    - `recompute(budget="256MiB")` is a block (`with`) within which programs are compiled so, and
      a decorator of functions, Cells and classes of Cells;
    - `recompute(net, budget="256MiB")` marks a Cell and returns it: every program that computes
      gradients and that it is part of keeps to the budget, the least one if there are several;
    - `recompute(step, budget="256MiB")` of a function (jitted, or of `value_and_grad`) gives one
      that runs within the budget.

    Where even that is not enough, compiling is a ValueError that says the least possible.
    `cellc.explain` shows what was chosen. PyNative mode knows no budget.

    Args:
        block: a Cell; with `use_reentrant=False`, any function of tensors.
        args, kwargs: what it is called with; `budget` is bytes, or a str with a unit.
        use_reentrant: whether only Cells are taken; what is computed is the same.
        output_recompute, early_stop: accepted; the results are kept, and all is computed again.
        context_fn: with `use_reentrant=False` in PyNative mode: gives two context managers, one
            for the first run and one for each run for a gradient.
    """
    if "budget" in kwargs and not args and len(kwargs) == 1:
        within = Budget(parse(kwargs["budget"]))
        return within if block is _MISSING else within(block)
    if block is _MISSING:
        raise TypeError("recompute() takes a block to call, or a budget: recompute(budget='1GiB')")
    if use_reentrant and not isinstance(block, Cell):
        raise TypeError("Recompute function now only support block which inherited from Cell when "
                        f"use_reentrant=True! But got {type(block).__name__}.")
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
    return recorded(call, args, kwargs, [*tensors, *_parameters((args, kwargs))],
                    python=context_fn is not None and not use_reentrant)


def _parameters(given: Any) -> list[Any]:
    return [t for t in take_apart(given)[1] if isinstance(t, Parameter)]
