"""Pipelines: of a step that is compiled, this process keeps the part of its stage.

The step is traced as a whole on each process. `cellc_compiler.passes.stages` places its nodes,
orders them by the schedule and cuts out one stage; the rest of it, and the parameters of other
stages, this process does without.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cellc_compiler.ir.graph import Graph, Value
from cellc_compiler.ir.op import lookup
from cellc_compiler.ops.control import Cotangent
from cellc_compiler.passes.expand import Inline
from cellc_compiler.passes.stages import cutting, ordering, placing, schedule
from cellc_runtime import collectives
from cellc_runtime.lazy import lazy_imports
from cellc_runtime.records import dataclass, replace
from cellc_runtime.world import Step, world

from ..lang import error_at, scope_paths
from ..ranks import settings
from ..storage import elsewhere, writes
from ..tensors.parameter import Parameter
from .program_entry import CompiledEntry
from .sharding import cut_parameters
from .traced import Traced

with lazy_imports(__name__):
    from cellc_runtime.cuda import on_stream


@dataclass(frozen=True, slots=True)
class Plan:
    """How a step is cut, before anything of it runs.

    Attributes:
        graphs: of each stage, in its order.
        table: when it works on which micro-batch.
        crossings: the values that stages give each other.
    """

    placement: placing.Placement
    table: schedule.Timetable
    crossings: list[cutting.Crossing]
    graphs: list[Graph]


def planned(traced: Traced, stages: int, peer: Callable[[int], int] = lambda stage: stage) -> Plan:
    """Return the cut of a traced step into `stages` stages.

    Args:
        peer: the rank that works together with this one in another stage.

    Raises:
        CompileError: it cannot be, with the line; of the kind ValueError.
    """
    graph = traced.graph
    if traced.pieces:
        what, where = traced.pieces[0]
        raise error_at("CE801", f"Python does a part of a pipeline's step: {what}{where}", None)
    if stray := next((n for n in graph.nodes if n.op == "measure"), None):
        raise error_at("CE801", "a pipeline's sizes must be known before it runs", stray)
    Inline().run(graph)  # (Cells in what is computed again say stages, too)
    inputs = dict(zip(graph.inputs[traced.arguments:], traced.parameters, strict=True))
    trains = any(n.op == Cotangent.name for n in graph.nodes)
    updated = {old for old, _ in graph.updates}
    trained = {v for v, p in inputs.items()
               if isinstance(p, Parameter) and p.requires_grad and (v in updated or not trains)}
    setting = settings.get_auto_parallel_context
    request = placing.Request(stages, _said(traced), trained, setting("pipeline_interleave"))
    try:
        placement = placing.place(graph, request)
        shape = schedule.Shape(stages, placement.micro_batches, placement.parts, trains)
        if trains and shape.micro_batches < stages:
            raise placing.StageError(
                f"a pipeline of {stages} stages needs at least {stages} micro-batches, but got "
                f"{shape.micro_batches}: give nn.PipelineCell a larger micro_size")
        table = schedule.timetable(shape, setting("pipeline_scheduler"))
    except ValueError as e:
        raise error_at("CE801", str(e), getattr(e, "node", None)) from None
    due = ordering.times(graph, placement, table)
    cutter = cutting.Cutter(graph, placement, due, stages, setting("pipeline_result_broadcast"))
    return Plan(placement, table, cutter.crossings,
                [cutter.cut(s, peer) for s in range(stages)])


def part_of(traced: Traced) -> tuple[Traced, str]:
    """This process's part of a traced step, and what all processes must agree about.

    Parameters that other stages hold give up their memory.

    Raises:
        CompileError: the step cannot be cut.
    """
    stages, stage = settings.stages(), settings.own_stage()
    place = world().rank - settings.of_stage(stage)[0]
    plan = planned(traced, stages, lambda other: settings.of_stage(other)[place])
    _check_groups(traced.graph, plan.placement, settings.of_stage(stage))
    graph = plan.graphs[stage]
    names = {v.name: p for v, p in zip(traced.graph.inputs[traced.arguments:], traced.parameters,
                                       strict=True)}
    kept = [names[v.name] for v in graph.inputs[traced.arguments:]]
    _leave(traced, plan.placement.home, kept, stage)
    if traced.layouts:
        cut_parameters(kept)
    return replace(traced, graph=graph, parameters=kept), _digest(traced, plan)


def _check_groups(
    graph: Graph, placement: placing.Placement, here: tuple[int, ...]
) -> None:
    """Refuse collectives for which ranks of other stages would be waited for."""
    for node in graph.nodes:
        ranks = node.attrs.get("ranks")
        if lookup(node.op).collective and ranks and placement.stage[node] is not None \
                and not set(ranks) <= set(here):
            raise error_at(
                "CE801", f"{node.op} takes part in the group of the ranks {list(ranks)}, but a "
                f"stage of a pipeline runs on {list(here)} alone: give it a group of these", node)


def _digest(traced: Traced, plan: Plan) -> str:
    """Return the digest that all ranks must share: the ops and their places, and the values that
    cross, with their times. (How often a constant is written down may differ between traces, and
    where ops are cut, what a rank does for its own part.)"""
    graph = traced.graph
    parts: list[Any] = [
        traced.layouts or
        [(n.op, plan.placement.stage[n]) for n in graph.nodes if not n.is_constant],
        [(v.name, str(v.type), plan.placement.home.get(v)) for v in graph.inputs],
        [(c.tag, str(c.value.type), c.source, c.target) for c in plan.crossings],
        [list(map(str, order)) for order in plan.table.orders],
    ]
    return hashlib.sha256(str(parts).encode()).hexdigest()[:16]


def agree(plan: str) -> None:
    """Wait until all processes have cut their steps; they must have cut them alike. They tell each
    other what connects their GPUs.

    Raises:
        CollectiveError: they have not.
    """
    everyone = tuple(range(world().size))
    collectives.barrier(Step(f"a pipeline's step cut as {plan}", everyone))
    on_stream.introduce(everyone)


def _said(traced: Traced) -> Callable[[str], int | None]:
    """The stage that a Cell says, or the nearest one around it, by its path."""
    said: dict[str, int] = {}
    for prefix, root in traced.roots:
        paths = scope_paths(root, prefix)
        for _, cell in root.cells_and_names():
            stage = getattr(cell, "pipeline_stage", None)
            if stage is not None:
                said.setdefault(paths[id(cell)], stage)

    def of_scope(scope: str) -> int | None:
        while scope not in said:
            if not scope:
                return None
            scope = scope.rpartition(".")[0]
        return said[scope]

    return of_scope


def _leave(
    traced: Traced, home: Mapping[Value, int | None], kept: list[Any], stage: int
) -> None:
    """Give up the memory of the parameters that other stages hold."""
    held = {id(p) for p in kept}
    gone = []
    inputs = zip(traced.graph.inputs[traced.arguments:], traced.parameters, strict=True)
    for v, p in inputs:
        other = home.get(v)
        if other in (None, stage) or id(p) in held or not isinstance(p, Parameter):
            continue
        if p.init is None:
            elsewhere.leave(p, elsewhere.Elsewhere(
                p.shape, p.dtype.numpy,
                f"the parameter {p.name} is held by stage {other} of the pipeline (ranks "
                f"{list(settings.of_stage(other))}), and this is rank {world().rank} of stage "
                f"{stage}: read it there", other))
            gone.append(p)
    writes.written(gone)


__all__ = ["Plan", "agree", "part_of", "planned"]


class PipelineEntry(CompiledEntry):
    """The program of this process's stage."""

    def __init__(self, traced: Traced, name: str) -> None:
        part, self.agreement = part_of(traced)
        super().__init__(part, name)
        self.agreed = False

    def run(self, arrays: Sequence[Any]) -> Any:
        """See `CompiledEntry.run`; before the first one all ranks say what they have compiled."""
        if not self.agreed:
            agree(self.agreement)
            self.agreed = True
        return super().run(arrays)
