"""Where micro-batches begin and end."""

from __future__ import annotations

from typing import Any

from ..context import in_graph_mode
from ..core.dispatch import apply
from ..ranks.parts import batches_in_trace
from ..ranks.settings import get_auto_parallel_context
from ..tensors.tensor import Tensor


def micro_batch(x: Tensor, index: int, count: int) -> Any:
    """One of `count` equal parts of a batch, along the first axis."""
    for_graph_mode("micro-batches")
    return apply("micro_batch", x, index=index, count=count, batches=max(batches_in_trace(), 1))


def micro_result(x: Tensor, index: int) -> Any:
    """Return a network's result for a micro-batch, as it is."""
    return apply("micro_result", x, index=index)


def sums_of_all() -> bool:
    """Whether a graph of all ranks is traced, whose gradients are the sums over them."""
    return batches_in_trace() > 0


def for_graph_mode(what: str) -> None:
    """Raise RuntimeError if the process is to work on a stage, but not in graph mode."""
    stages = get_auto_parallel_context("pipeline_stages")
    if stages > 1 and not in_graph_mode():
        raise RuntimeError(
            f"{what} with pipeline_stages={stages} are for graph mode, which cuts a network into "
            "stages: PyNative mode runs one op after the other. Use "
            "set_context(mode=ms.GRAPH_MODE).")
