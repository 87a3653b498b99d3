"""Whether the graph of a network is what its `construct` does in PyNative.

`construct` is run by Python, and every op that runs is noted with its bits. A value of PyNative
that no node of the traced graph has is where the two part; the first one is named.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import cellc

from cellc_compiler.ir.graph import CONSTANT
from cellc_compiler.ir.op import lookup
from cellc_runtime.records import dataclass

from .. import context
from ..compiled.entries import Traced
from ..core import dispatch
from ..tensors.tensor import Tensor, Tensors
from ..tracing.pytree import take_apart
from ..verification.runs import fresh
from ..verification.snapshot import Snapshot
from ..verification.values import difference, same_bits
from .judging import Array, Symptom, Values

_OWN = Path(cellc.__file__).parent


@dataclass(frozen=True, slots=True)
class _Ran:
    """An op that PyNative ran: its results, and the user's line."""

    op: str
    results: list[Array]
    where: str


def against_pynative(
    function: Any, args: Sequence[Any], traced: Traced, values: Values
) -> Symptom | None:
    """How a traced call differs from the same call in PyNative; None if it does not.

    Args:
        function, args: the call; nothing is changed by it.
        traced: its graph.
        values: of the nodes of the graph, each run alone.
    """
    ran: list[_Ran] = []
    saved = Snapshot({"network": function, "arguments": args})
    try:
        with context.running_op_by_op(), dispatch.saving(_noting(ran)):
            returned = function(*fresh(args))
        leaves = [np.array(t._data) for t in take_apart(returned)[1]]
    finally:
        saved.restore()
    graph = traced.graph
    told = ""
    if len(leaves) != len(graph.outputs):
        told = f"PyNative gives {len(leaves)} tensors, the graph {len(graph.outputs)}"
    else:
        for i, (a, v) in enumerate(zip(leaves, graph.outputs, strict=True)):
            if not same_bits(a, values[v]):
                told = f"output {i}: {difference(a, values[v], ('PyNative', 'in the graph'))}"
                break
    if not told:
        return None
    op = _first_apart(ran, traced, values)
    if op is not None:
        told += f"; the first op of PyNative that the graph does not have: {op.op} at {op.where}"
    return Symptom("tracing", told, _without_counterpart(ran, traced, values))


def _noting(ran: list[_Ran]) -> dispatch.Around:
    def around(op: str, operands: Tensors, attrs: Mapping[str, Any]) -> Any:
        with dispatch.saving(None):
            out = dispatch.apply(op, *operands, **attrs)
        if dispatch.active_tracer() is None:
            results = out if isinstance(out, tuple) else (out,)
            ran.append(_Ran(op, [np.array(t._data) for t in results if isinstance(t, Tensor)],
                            _line()))
        return out

    return around


def _line() -> str:
    """The line of the user's that is running."""
    frame = sys._getframe(1)
    while frame.f_back is not None and _OWN in Path(frame.f_code.co_filename).parents:
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def _key(a: Array) -> tuple[Any, ...]:
    return a.dtype.name, a.shape, np.ascontiguousarray(a).tobytes()


def _first_apart(ran: list[_Ran], traced: Traced, values: Values) -> _Ran | None:
    """The first op of PyNative a result of which no value of the graph is."""
    known = {_key(a) for a in values.values()}
    return next((r for r in ran if any(_key(a) not in known for a in r.results)), None)


def _without_counterpart(ran: list[_Ran], traced: Traced, values: Values) -> int:
    """The first node a result of which PyNative never had; -1 if there is none."""
    had: Counter[Any] = Counter(_key(a) for r in ran for a in r.results)
    for position, node in enumerate(traced.graph.nodes):
        if node.op == CONSTANT or node.regions or lookup(node.op).effect:
            continue
        if any(_key(values[r]) not in had for r in node.results):
            return position
    return -1
