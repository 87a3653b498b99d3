"""Graph mode over ranks: a call traced for whole tensors, and the part of it that this rank does.

In the modes `"semi_auto_parallel"` and `"auto_parallel"` a graph is traced as one process would run
it: with the data of all ranks, and whole parameters. `passes/sharding` makes of it what this rank
does; parameters become this rank's parts when the first graph that reads them is made.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from cellc_compiler.ir.graph import Graph, Value
from cellc_compiler.ir.printing import print_graph
from cellc_compiler.ir.sharding import Layout as Cuts
from cellc_compiler.ir.sharding import Mesh, whole
from cellc_compiler.ir.types import TensorType
from cellc_compiler.ops.control import Cotangent, MicroResult
from cellc_compiler.ops.slice import MicroBatch
from cellc_compiler.passes.sharding.plan import LAY_OUT
from cellc_compiler.passes.sharding.rewrite import (
    axes_of,
    batch_first,
    common_mesh,
    core_graph,
    input_layouts,
    shard,
)
from cellc_compiler.passes.sharding.search import searched
from cellc_runtime.errors import counted
from cellc_runtime.files import write_text
from cellc_runtime.world import world

from ..context import OPTIONS, get_context, in_graph_mode
from ..core.invalidation import watch
from ..ranks import online, settings, strategies
from ..ranks.layout import Placement, placements
from ..ranks.online import Laid
from ..ranks.parts import Cut, whole_shapes
from ..ranks.settings import ParallelMode, get_auto_parallel_context
from ..tensors.parameter import Parameter
from ..tensors.tensor import Tensor
from .found_sizes import is_staged
from .traced import Traced, trace

_MARKS = (Cotangent.name, MicroBatch.name, MicroResult.name)
"""The ops that mark the cut of a step into stages."""


def traced_part(fn: Any, args: Sequence[Any], kwargs: Mapping[str, Any],
                leaves: Sequence[Tensor]) -> Traced | None:
    """A call as the graph of this rank.

    With stages it is the graph of a rank that works on all of them: what its place in a stage does
    in each. Where nothing says how tensors lie there is none, and each rank of a stage trains on
    rows of its own.

    Raises:
        CompileError: an error in the network.
    """
    staged = settings.stages() > 1
    if staged and not in_graph_mode():
        return None
    data = _data_placements(leaves)
    traced = _traced_whole(fn, args, kwargs, leaves, data)
    if traced is None:
        return None
    ranks = settings.of_stage(settings.own_stage())
    size = len(ranks)
    graph = core_graph(traced.graph, _MARKS if staged else ())
    own = {i: found for i, p in enumerate(traced.parameters, traced.arguments)
           if (found := _known(p)) is not None}
    laid = [n.attrs["matrix"] for n in graph.nodes if n.op == LAY_OUT]
    matrices = [*laid, *(p[0] for p in (*own.values(), *data) if p is not None)]
    mesh = common_mesh(matrices if laid or own else [*matrices, _primes(size)], ranks)
    placed = own | {i: p for i, p in enumerate(data) if p is not None}
    free = {i for i, p in enumerate(traced.parameters, traced.arguments)
            if isinstance(p, Parameter)}
    given = {i: on_mesh(mesh, placed[i]) if i in placed else whole(v.type.rank)
             for i, v in enumerate(graph.inputs) if i in placed or i not in free}
    if get_auto_parallel_context("parallel_mode") == ParallelMode.AUTO_PARALLEL and \
            get_auto_parallel_context("search_mode") != "sharding_propagation":
        given = searched(graph, mesh, given)
    if get_auto_parallel_context("enable_parallel_optimizer"):
        given |= _parted_states(traced, graph, mesh, given)
    full = _full_batch()
    firsts = {i: given[i] for i in range(len(leaves)) if i in given and given[i][:1] != ((),)}
    batch = set() if full else batch_first(graph, size, firsts)
    along = next((layout[0] for layout in firsts.values() if layout), ())

    def outputs(i: int, v: Value, layout: Cuts) -> Cuts:
        rest = whole(max(v.type.rank - 1, 0))
        return (along, *rest) if i in batch else whole(v.type.rank)

    part = shard(graph, mesh, world().rank, given, outputs)
    lying = _plan_parameters(traced, graph, mesh, part.inputs)
    online.keep(fn, lying)
    if not staged:
        _write_strategy(lying)
        cut_parameters(traced.parameters)
    traced.graph = part.graph
    traced.attributes.append((OPTIONS, "ranks"))
    watch([(OPTIONS, "ranks")], traced.flag)
    traced.layouts = part.text
    if get_context("save_graphs"):
        _save(traced)
    return traced


def _plan_parameters(
    traced: Traced, graph: Graph, mesh: Mesh, inputs: Sequence[Cuts]
) -> dict[str, Laid]:
    """Parameters have the layouts of the graph's inputs; these by name."""
    out: dict[str, Laid] = {}
    for p, v, layout in zip(traced.parameters, graph.inputs[traced.arguments:],
                            inputs[traced.arguments:], strict=True):
        if isinstance(p, Parameter):
            p.planned = mesh.sizes, layout
            out[p.name] = Laid(p, v.type.dims, p.planned)
    return out


def keep_whole(fn: Any, traced: Traced) -> None:
    """Keep for who asks that each rank of a stage has all of the parameters that the stage has."""
    if get_auto_parallel_context("pipeline_stages") > 1:
        size = settings.ranks_of_a_stage()
        online.keep(fn, {p.name: Laid(p, p.shape, ((size,), whole(p.ndim)))
                         for p in traced.parameters if isinstance(p, Parameter)})


def _write_strategy(laid: Mapping[str, Laid]) -> None:
    """The layouts into the strategy file that is asked for, by the first rank."""
    config = get_auto_parallel_context("strategy_ckpt_config")
    name = get_auto_parallel_context("strategy_ckpt_save_file") or config["save_file"]
    if name and world().rank == 0:
        trained = config.get("only_trainable_params", True)
        strategies.write(name, strategies.made_of({
            key: online.part_layout(one) for key, one in laid.items()
            if one.parameter.requires_grad or not trained}))


def _traced_whole(
    fn: Any, args: Sequence[Any], kwargs: Mapping[str, Any], leaves: Sequence[Tensor],
    data: Sequence[Placement | None],
) -> Traced | None:
    """A call as the graph of all ranks; None: it is one of stages, and nothing says how tensors
    lie.

    Raises:
        CompileError: an error in the network.
    """
    types = [_whole(TensorType(t.shape, t.dtype), p) for t, p in zip(leaves, data, strict=True)]
    rows = [math.prod(p[0][a] for a in p[1][0]) for p in data if p is not None and p[1]]
    optional = settings.stages() > 1 and not _full_batch() and \
        not isinstance(get_auto_parallel_context("dataset_strategy"), tuple)
    try:
        with whole_shapes(max(rows, default=1)):
            traced = trace(fn, args, kwargs, types, called=True)
    except Exception:
        # (It may be written for the rows of one rank. If it says layouts, it was not.)
        if not optional or _is_laid_out(fn, args, kwargs):
            raise
        return None
    if optional and not _says_layouts(traced):
        return None
    if is_staged(traced.graph):
        raise RuntimeError("a network whose sizes follow from elements is not cut over ranks: "
                           f"{world().size} ranks may find different ones")
    return traced


def _is_laid_out(fn: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether a call says layouts, or fails as that of one rank too."""
    try:
        return _says_layouts(trace(fn, args, kwargs, called=True))
    except Exception:
        return True


def _says_layouts(traced: Traced) -> bool:
    """Whether something in a graph, or a parameter, is said to lie in some way."""
    return any(n.op == LAY_OUT for n in traced.graph.walk()) or \
        any(_known(p) is not None for p in traced.parameters)


def _save(traced: Traced) -> None:
    """Write the graph of this rank, and how its values lie, where `save_graphs` wants them."""
    folder = Path(get_context("save_graphs_path")) / f"rank_{world().rank}"
    folder.mkdir(parents=True, exist_ok=True)
    graph = traced.graph
    write_text(folder / f"{graph.name}.sharding.txt", traced.layouts)
    write_text(folder / f"{graph.name}.sharded.ir", print_graph(graph))


def _full_batch() -> bool:
    return bool(get_auto_parallel_context("full_batch")) or \
        get_auto_parallel_context("dataset_strategy") == "full_batch"


def _data_placements(leaves: Sequence[Tensor]) -> list[Placement | None]:
    """How the data lie of which each rank feeds a part; None: each has all of it."""
    strategy = get_auto_parallel_context("dataset_strategy")
    if isinstance(strategy, tuple):
        if len(strategy) != len(leaves):
            raise ValueError(f"'dataset_strategy' has {counted(len(strategy), 'entry')}, but "
                             f"the network takes {counted(len(leaves), 'tensor')}.")
        return list(placements(strategy, "dataset_strategy", settings.ranks_of_a_stage(),
                               leading=True))
    if _full_batch():
        return [None] * len(leaves)
    size = settings.ranks_of_a_stage()
    return [((size,), ((0,), *whole(t.ndim - 1))) if t.ndim else None for t in leaves]


def _whole(ty: TensorType, placement: Placement | None) -> TensorType:
    """The type of a whole tensor from that of a part."""
    if placement is None:
        return ty
    matrix, layout = placement
    if len(layout) != ty.rank:
        raise ValueError(f"'dataset_strategy' has {counted(len(layout), 'axis')} for {ty}.")
    return ty.with_shape(d * math.prod(matrix[a] for a in cut)
                         for d, cut in zip(ty.dims, layout, strict=True))


def _known(parameter: Tensor) -> Placement | None:
    """How a parameter lies, or was planned to."""
    if not isinstance(parameter, Parameter):
        return None
    found: Placement | None = \
        parameter.cut.placement if parameter.cut is not None else parameter.planned
    return found


def _primes(size: int) -> tuple[int, ...]:
    """A number as factors that have none, the largest last."""
    out, p = [], 2
    while size > 1:
        while size % p == 0:
            out.append(p)
            size //= p
        p += 1
    return tuple(out)


def on_mesh(mesh: Mesh, placement: Placement) -> Cuts:
    """A placement on a finer array of the same ranks."""
    matrix, layout = placement
    return tuple(tuple(m for a in cut for m in axes_of(mesh, matrix, a)) for cut in layout)


def _parted_states(
    traced: Traced, graph: Graph, mesh: Mesh, given: Mapping[int, Cuts]
) -> dict[int, Cuts]:
    """How optimizers' states are to lie, and the parameters that they are of: a state lies as its
    parameter, and is cut once more, along its first axis, by what does not cut that one."""
    number = {id(p): i for i, p in enumerate(traced.parameters, traced.arguments)}
    states = {i: number[id(p.state_of)]
              for i, p in enumerate(traced.parameters, traced.arguments)
              if isinstance(p, Parameter) and i not in given and id(p.state_of) in number
              and p.state_of is not None and p.state_of.parallel_optimizer}
    if not states:
        return {}
    layouts = input_layouts(graph, mesh, given)
    least = settings.optimizer_sharding("parallel_optimizer_threshold") * 1024
    out: dict[int, Cuts] = {}
    for i, of in states.items():
        ty, layout = graph.inputs[i].type, layouts[of]
        used = {m for cut in layout for m in cut}
        free = tuple(m for m in range(len(mesh.sizes)) if m not in used)
        if ty.dims != graph.inputs[of].type.dims or not ty.rank or \
                mesh.local(ty, layout).nbytes < least:
            continue
        cut = ((*layout[0], *free), *layout[1:])
        if mesh.fits(ty, cut):
            out |= {i: cut, of: layout}
    return out


def cut_parameters(parameters: Iterable[Tensor]) -> None:
    """Keep of each parameter this rank's part, as it is planned."""
    for p in parameters:
        if not isinstance(p, Parameter) or p.cut is not None or p.planned is None:
            continue
        p.init_data()
        sizes, layout = p.planned
        mesh = Mesh(sizes, settings.of_stage(settings.own_stage()))
        whole_type, rank = TensorType(p.shape, p.dtype), world().rank
        place = tuple(
            slice(n * mesh.part(rank, cut), n * (mesh.part(rank, cut) + 1))
            for cut, n in zip(layout, mesh.local(whole_type, layout).dims, strict=True))
        p.keep_part(place, Cut(p.shape, (sizes, layout)))
