"""Functions and Cells laid out over ranks. Source: `mindspore.parallel.shard`.

The package has the function under the name of this module, as MindSpore's has.
"""

from __future__ import annotations

from typing import Any

from ..core.declared import FUNCTION
from ..nn.cell.parallel import sharded
from ..ranks.layout import Layout


def shard(fn: Any, in_strategy: Any, out_strategy: Any = None, parameter_plan: Any = None) -> Any:
    """The function or Cell, its operands and results laid out over ranks as strategies say.

    In one process, and in modes that cut no graphs, it is the function or Cell itself. Otherwise a
    call of what is returned is compiled; what strategies do not say follows from them.

    Args:
        fn: a function or Cell of Tensors.
        in_strategy: for each of its tensors the numbers of parts of its axes, or a `Layout`.
        out_strategy: the same for its results.
        parameter_plan: the same for parameters of a Cell, by name.

    Raises:
        TypeError: `fn` is not callable, or a strategy is of a wrong kind.
        ValueError: a strategy that does not fit.
    """
    FUNCTION(fn, "shard", "fn")
    return sharded(fn, in_strategy, out_strategy, parameter_plan)


__all__ = ["Layout", "shard"]
