"""How tensors of a network are to lie on the ranks: what `shard` and `reshard` say, in graphs.

A `lay_out` node says it; the pass that cuts the graph goes by it (`compiled/sharding.py`). Where no
graph is cut - one process, another parallel mode, PyNative mode - tensors stay as they are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cellc_runtime.errors import counted

from ..core.dispatch import active_tracer, apply
from ..ranks.layout import Layout, Placement, check_strategy, placements
from ..ranks.settings import cuts_networks, ranks_of_a_stage
from ..tensors.tensor import Tensor
from ..tracing.pytree import put_together, take_apart


def lay_out(x: Tensor, placement: Placement) -> Tensor:
    """`x`, to lie so."""
    matrix, layout = placement
    out: Tensor = apply("lay_out", x, matrix=matrix, layout=layout)
    return out


def laying_out() -> bool:
    """Whether a graph is traced that is cut over ranks."""
    return active_tracer() is not None and cuts_networks()


def check_strategies(what: str, in_strategy: Any, out_strategy: Any) -> None:
    """Whether these are strategies for operands and results."""
    if in_strategy is None and out_strategy is not None:
        raise ValueError(f"For '{what}', 'out_strategy' is {out_strategy}, which needs an "
                         "'in_strategy', but that is None.")
    for name, strategy in (("in_strategy", in_strategy), ("out_strategy", out_strategy)):
        if strategy is not None:
            check_strategy(strategy, name, what)


def attribute_of(name: str, strategy: Any) -> tuple[str, Any]:
    """The attribute that shows a strategy: `Layout`s as dicts, as `in_layout` or `out_layout`."""
    def as_dicts(part: Any) -> Any:
        if isinstance(part, tuple):
            return tuple(map(as_dicts, part))
        if not isinstance(part, Layout):
            return part
        return {k: v for k, v in part.to_dict().items() if k != "rank_list"}

    parts = [p for s in strategy for p in (s if isinstance(s, tuple) else (s,))]
    if not any(isinstance(p, Layout) for p in parts):
        return name, strategy
    return name.replace("strategy", "layout"), as_dicts(strategy)


def placements_of(primitive: Any, what: str) -> tuple[list[Placement], list[Placement]]:
    """How the operands and the results of a primitive are to lie that `shard` was called of."""
    given, made = primitive.sharded
    size = ranks_of_a_stage()
    flipped = bool(primitive.attrs.get("transpose_a")), bool(primitive.attrs.get("transpose_b"))
    operands = placements(given or (), what, size, primitive.name, flipped)
    results = placements(made, what, size, leading=True) if made else []
    if primitive.name == "OneHot" and operands and operands[0][1]:  # it is said of the result
        matrix, layout = operands[0]
        results = results or [operands[0]]
        axis = primitive.attrs["axis"] % len(layout)
        operands[0] = matrix, layout[:axis] + layout[axis + 1 :]
    return operands, results


def primitive_called(
    primitive: Any, run: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Any:
    """A primitive that `shard` was called of, its operands and results laid out."""
    what = primitive.name
    operands, results = placements_of(primitive, what)
    out = _called(run, what, args, kwargs, primitive.sharded, operands, results)
    check_rows(primitive, what, operands, out)
    return out


_SLIDES = frozenset(("AvgPool", "Conv2D", "Conv2DBackpropInput", "Conv2DTranspose", "MaxPool"))
"""Primitives whose windows slide over rows and columns of their first operand."""


def check_rows(primitive: Any, what: str, operands: Sequence[Placement], out: Any) -> None:
    """Whether a result has as many parts of rows and columns as its primitive's strategy cuts the
    image into."""
    if primitive.name not in _SLIDES or not operands or not isinstance(out, Tensor):
        return
    matrix, layout = operands[0]
    for axis, (cut, size) in enumerate(zip(layout, out.shape, strict=False)):
        parts = math.prod(matrix[a] for a in cut)
        if axis > 1 and size % parts:
            raise ValueError(f"For '{what}', 'in_strategy' cuts axis {axis} of the image into "
                             f"{parts} parts, but the result has the shape {out.shape}: its axis "
                             f"{axis} cannot be divided into {parts} equal parts.")


def called(
    fn: Callable[..., Any], what: str, args: Sequence[Any], kwargs: Mapping[str, Any],
    strategies: tuple[Any, Any],
) -> Any:
    """`fn` called with tensors that lie as a strategy says, and so do its results. `strategies`: of
    the tensors among the arguments, in order, and of the results."""
    given, made = strategies
    size = ranks_of_a_stage()
    return _called(fn, what, args, kwargs, strategies, placements(given or (), what, size),
                   placements(made, what, size, leading=True) if made else [])


def _called(
    fn: Callable[..., Any], what: str, args: Sequence[Any], kwargs: Mapping[str, Any],
    strategies: tuple[Any, Any], operands: Sequence[Placement], results: Sequence[Placement],
) -> Any:
    given, made = strategies
    structure, tensors = take_apart(tuple(args))
    if given:
        given, operands = _of_tensors(given, operands, args, len(tensors))
        if len(given) != len(tensors):
            raise ValueError(f"For '{what}', 'in_strategy' has {counted(len(given), 'entry')}, "
                             f"but the call has {counted(len(tensors), 'tensor')}.")
        args = put_together(structure, list(map(_laid_operand, tensors, operands)))
    out = fn(*args, **kwargs)
    if not results:
        return out
    several = out if isinstance(out, tuple) else (out,)
    if len(results) != len(several):
        raise ValueError(f"For '{what}', 'out_strategy' has "
                         f"{counted(len(made or given), 'entry')}, but the call has "
                         f"{counted(len(several), 'result')}.")
    laid = tuple(map(lay_out, several, results))
    return laid if isinstance(out, tuple) else laid[0]


def _of_tensors(
    given: tuple[Any, ...], operands: Sequence[Placement], args: Sequence[Any], count: int
) -> tuple[tuple[Any, ...], Sequence[Placement]]:
    """Return the entries of tensors, where numbers among the operands have entries `()`."""
    numbers = [i for i, a in enumerate(args) if isinstance(a, (bool, int, float))]
    if len(given) != count + len(numbers) or any(isinstance(a, (tuple, list)) for a in args) or \
            any(given[i] != () for i in numbers):
        return given, operands
    return (tuple(g for i, g in enumerate(given) if i not in numbers),
            [p for i, p in enumerate(operands) if i not in numbers])


def _laid_operand(x: Tensor, placement: Placement) -> Tensor:
    """An operand with its layout; a scalar has none."""
    return x if not x.ndim and not placement[1] else lay_out(x, placement)
