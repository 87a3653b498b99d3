"""The first op where a graph and PyNative differ, though every node of the graph is right.

Such a fault is made while tracing: a name resolved wrongly, the other branch, a cast left out. So
the values that the graph's nodes have are looked for among those that PyNative's ops give, in
order: the first one that is not there names the place, and so does the first of PyNative's that no
node has.
"""

from __future__ import annotations

import contextlib
import inspect
import io
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cellc_compiler.ir.graph import Node
from cellc_compiler.ir.op import lookup

from .. import context
from ..core.dispatch import apply, saving
from ..tensors.tensor import Tensor, Tensors, host_arrays_of
from .report import Report
from .runs import Stage, fresh, seeded
from .snapshot import Snapshot
from .values import digest, telling

Array = np.ndarray[Any, Any]
Steps = list[tuple[str, str, list[bytes]]]
"""The steps of PyNative: ops, places in the user's source, digests of the results."""

_OWN = str(Path(__file__).parents[1])


def report_parting(
    stage: Stage, seed: int, nodes: Sequence[tuple[Node, list[bytes]]], given: Sequence[Array],
    report: Report,
) -> None:
    """Say where the two part.

    Args:
        stage: what was verified; its results differ.
        seed: of the run.
        nodes: those of the graph with digests of their results, in the order of the run.
        given: inputs and parameters.
    """
    steps = _steps(stage, seed)
    eager = {d for _, _, digests in steps for d in digests} | {digest(a) for a in given}
    graph = {d for _, digests in nodes for d in digests} | {digest(a) for a in given}
    mine = next((n for n, digests in nodes if not _moves(n) and any(
        d not in eager for d in digests)), None)
    theirs = next(((op, place) for op, place, digests in steps
                   if any(d not in graph for d in digests)), None)
    where = f"{stage.name}: the first difference between the graph and PyNative"
    other = f"PyNative computes {theirs[0]} at {theirs[1]}" if theirs is not None else \
        "PyNative computes nothing else"
    other += ", which the graph lacks" if theirs is not None else ""
    if mine is not None:
        report.find("trace", where, f"PyNative has no such value; {other}", mine)
    elif theirs is not None:
        report.find("trace", where, other)


def _moves(node: Node) -> bool:
    """Whether a node only moves elements, which PyNative may do without an op."""
    return node.is_constant or lookup(node.op).cost == "free"


def _steps(stage: Stage, seed: int) -> Steps:
    """Run the stage in PyNative and note what each op gives."""
    steps: Steps = []

    def noted(op: str, operands: Tensors, attrs: Mapping[str, Any]) -> Any:
        with saving(None):
            out = apply(op, *operands, **attrs)
        many = out if isinstance(out, tuple) else (out,)
        results = host_arrays_of(t for t in many if isinstance(t, Tensor))
        digests = [digest(a) for a in results if telling(a)]
        steps.append((op, next(_places(), "?"), digests))
        return out

    args = fresh(stage.args)
    with Snapshot({**stage.roots, "arguments": args}):
        seeded(seed)
        with contextlib.redirect_stdout(io.StringIO()), context.running_op_by_op(), \
                saving(noted):
            stage.fn(*args)
    return steps


def _places() -> Iterator[str]:
    """Lines of the user that this call is under, innermost first."""
    frame = inspect.currentframe()
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith((_OWN, "<")) or f"{_OWN}/nn/layer" in name:
            yield f"{name}:{frame.f_lineno}"
        frame = frame.f_back
