"""Recomputation: what a marked Cell or op computes is not kept for its gradient.

In a graph it is a `recompute` node, whose gradient computes the nested graph again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .structure import Structure, put_together, take_apart
from .tracer import GraphTensor, Tracer


def traced(tracer: Tracer, given: Any, call: Callable[[], Any]) -> Any:
    """The result of `call`, traced into a graph that its gradient computes again.

    Args:
        given: the arguments; what `call` writes in place into one of them is seen outside too.
    """
    mine = [t for t in take_apart(given)[1] if isinstance(t, GraphTensor)]
    before = [t._value for t in mine]
    shape: list[tuple[Structure, list[GraphTensor]]] = []

    def run() -> list[Any]:
        structure, results = take_apart(call())
        written = [t for t, v in zip(mine, before, strict=True) if t._value is not v]
        shape.append((structure, written))
        return [*results, *written]

    results = tracer.recomputed(run)
    for t, v in zip(mine, before, strict=True):
        t._value = v
    structure, written = shape[-1]
    count = len(results) - len(written)
    for t, new in zip(written, results[count:], strict=True):
        t._value = tracer.lift(new)
    return put_together(structure, results[:count])
