"""Branches and loop bodies under construction, built in two steps.

`Tracer.cond` asks a callable for its outputs at once. The interpreter can name the outputs of a
branch only when it knows both branches, so it traces the bodies first and closes them afterwards.
This is the one module that handles the tracer's regions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from cellc_compiler.ir.graph import Value
from cellc_compiler.ir.types import TensorType
from cellc_runtime import dtypes
from cellc_runtime.records import dataclass

from ..tensors.tensor import Tensor
from ..tracing.tracer import Entered, GraphTensor, Region, Tracer


def close_while(
    tracer: Tracer,
    init: Sequence[Tensor],
    assigned: Sequence[Tensor],
    test: tuple[Region, Tensor],
    body: tuple[Region, Sequence[Tensor]],
) -> list[Tensor]:
    """The `while` node of a traced test and body; the final values of `init`."""
    with tracer.reopened(test[0]):
        test[0].graph.outputs = [tracer.lift(test[1])]
    with tracer.reopened(body[0]):
        body[0].graph.outputs = [tracer.lift(t) for t in [*body[1], *assigned]]
    carried = len(init) + len(assigned)
    results = tracer.close("while", [*init, *assigned], {"carried": carried}, [test[0], body[0]],
                           carried)
    return tracer._adopt(results, assigned)


def close_scan(
    tracer: Tracer,
    init: Sequence[Tensor],
    assigned: Sequence[Tensor],
    sequences: Sequence[Tensor],
    rows: Sequence[GraphTensor],
    length: int,
    body: tuple[Region, Sequence[Tensor]],
) -> list[Tensor]:
    """The `scan` node of a traced body; the final values of `init`.

    Args:
        sequences, rows: tensors outside, and the inputs of the body that are their rows.
    """
    region, tensors = body
    with tracer.reopened(region):
        region.graph.outputs = [tracer.lift(t) for t in [*tensors, *assigned]]
    carried = len(init) + len(assigned)
    index = Value(TensorType((), dtypes.int64), name="step", kind="input")
    for i, row in enumerate(rows):
        row.ir_value.name = f"row{i}"
    region.graph.inputs = [*region.graph.inputs[:carried], *(r.ir_value for r in rows), index]
    results = tracer.close(
        "scan", [*init, *assigned, *sequences],
        {"carried": carried, "sequences": len(rows), "length": length, "stepwise": True}, [region],
        carried + len(rows) + 1)
    return tracer._adopt(results, assigned)


@contextmanager
def opened(
    tracer: Tracer, name: str, types: Sequence[TensorType] = (), entered: Entered | None = None
) -> Iterator[tuple[Region, list[Tensor]]]:
    """Trace into a new region with inputs of the given types."""
    with tracer._open(name, types, entered) as (region, inputs):
        yield region, inputs


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state of all open regions, so that a trial trace leaves no mark."""

    regions: tuple[tuple[Region, dict[str, Any]], ...]
    parameters: dict[Tensor, Value]


_TABLES = ("captures", "env", "assigned", "lifted")


def snapshot(tracer: Tracer) -> Snapshot:
    """Save the open regions."""
    saved = []
    for region in tracer.regions:
        state: dict[str, Any] = {name: dict(getattr(region, name)) for name in _TABLES}
        state["owned"] = set(region.owned)
        state["inputs"] = list(region.graph.inputs)
        state["nodes"] = list(region.graph.nodes)
        saved.append((region, state))
    return Snapshot(tuple(saved), dict(tracer.parameters))


def restore(tracer: Tracer, saved: Snapshot) -> None:
    """Forget everything traced since the snapshot."""
    for region, state in saved.regions:
        for name in (*_TABLES, "owned"):
            setattr(region, name, state[name])
        region.graph.inputs, region.graph.nodes = state["inputs"], state["nodes"]
    tracer.parameters = dict(saved.parameters)


@dataclass(frozen=True, slots=True)
class Mark:
    """How far the innermost region had come."""

    nodes: int
    lifted: int
    env: dict[Tensor, Value]
    assigned: dict[Tensor, None]


def mark(tracer: Tracer) -> Mark:
    """Note how far the innermost region has come."""
    region = tracer.regions[-1]
    return Mark(
        len(region.graph.nodes), len(region.lifted), dict(region.env), dict(region.assigned)
    )


def rewind(tracer: Tracer, to: Mark) -> None:
    """Drop what was traced into the innermost region since the mark.

    Values that outer regions captured for it stay: an input that is not read costs nothing.
    """
    region = tracer.regions[-1]
    del region.graph.nodes[to.nodes :]
    for key in list(region.lifted)[to.lifted :]:
        del region.lifted[key]
    region.assigned = dict(to.assigned)
    # Reads of parameters stay known; only what was assigned since is taken back.
    region.env = {p: to.env.get(p, v) for p, v in region.env.items()
                  if p in to.env or v.node is None}
