"""How tensors of a network are to lie on the ranks: what `shard` and `reshard` say, in graphs.

A `lay_out` node says it; the pass that cuts the graph goes by it (`compiled/sharding.py`). Where no
graph is cut - one process, another parallel mode, PyNative mode - tensors stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..core.dispatch import active_tracer, apply
from ..ranks.layout import Placement, check_strategy, placements
from ..ranks.settings import cuts_networks, ranks_of_a_stage
from ..tensors.tensor import Tensor


def lay_out(x: Tensor, placement: Placement) -> Tensor:
    """`x`, to lie so.

    Raises:
        ValueError: the layout is of another number of axes, or does not divide them.
    """
    matrix, layout = placement
    out: Tensor = apply("lay_out", x, matrix=matrix, layout=layout)
    return out


def laying_out() -> bool:
    """Whether a graph is traced that is cut over ranks."""
    return active_tracer() is not None and cuts_networks()


def check_strategies(what: str, in_strategy: Any, out_strategy: Any) -> None:
    """Whether these are strategies for operands and results.

    Raises:
        TypeError: one is not.
        ValueError: there is one for results alone.
    """
    if in_strategy is None and out_strategy is not None:
        raise ValueError(f"For '{what}', 'out_strategy' is {out_strategy}, which needs an "
                         "'in_strategy', but that is None.")
    for name, strategy in (("in_strategy", in_strategy), ("out_strategy", out_strategy)):
        if strategy is not None:
            check_strategy(strategy, name, what)


def called(
    fn: Callable[..., Any], what: str, args: Sequence[Any], kwargs: Mapping[str, Any],
    strategies: tuple[Any, Any], op: str = "", flipped: tuple[bool, bool] = (False, False),
) -> Any:
    """`fn` called with tensors that lie as a strategy says, and so do its results.

    Args:
        strategies: of the tensors among the arguments, in order, and of the results.
        op, flipped: see `placements`.

    Raises:
        ValueError: not as many strategies as tensors, or they do not fit.
    """
    given, made = strategies
    places = iter(placements(given or (), what, ranks_of_a_stage(), op, flipped))
    tensors = [a for a in args if isinstance(a, Tensor)]
    if given and len(given) != len(tensors):
        raise ValueError(f"For '{what}', 'in_strategy' has {len(given)} entries, but there are "
                         f"{len(tensors)} tensors.")
    out = fn(*(lay_out(a, next(places)) if given and isinstance(a, Tensor) else a for a in args),
             **kwargs)
    if not made:
        return out
    results = out if isinstance(out, tuple) else (out,)
    if len(made) != len(results):
        raise ValueError(f"For '{what}', 'out_strategy' has {len(made)} entries, but there are "
                         f"{len(results)} results.")
    laid = tuple(map(lay_out, results, placements(made, what, ranks_of_a_stage(), leading=True)))
    return laid if isinstance(out, tuple) else laid[0]
