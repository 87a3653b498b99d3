"""Gradients of data-parallel training: summed over the processes, many in one collective.

Buckets are filled and sent from the last parameter to the first, as the backward pass makes their
gradients ready: what comes early is exchanged while the rest is computed. Source: `mindspore.nn`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Any

from cellc_runtime.dtypes import DType, bfloat16, float16, float32
from cellc_runtime.errors import counted
from cellc_runtime.world import world

from .. import context, ops
from ..core.declared import POSITIVE, misuse
from ..ops.functional import collectives
from ..ops.micro_batches import sums_of_all
from ..ranks import settings, strategies
from ..ranks.fusion import gradient_fusion
from ..ranks.groups import HCCL_WORLD_COMM_GROUP, ranks_of
from ..ranks.layouts import PartLayout, layout_of
from ..ranks.settings import ParallelMode, get_auto_parallel_context
from ..tensors.parameter import Parameter
from ..tensors.seed import get_seed
from ..tensors.tensor import Tensor
from .cell import Cell

BUCKET_BYTES = 4 << 20
"""Gradients are sent together up to this number of bytes by default: a collective has a cost of its
own, and the first of them may be sent while others are still computed."""
_CACHE_LINE = 64
Degree = Annotated[int, POSITIVE.always(ValueError)]


class DistributedGradReducer(Cell):
    """Gradients summed over the processes of a group, in the order of their numbers.

    Gradients of parameters with one `comm_fusion` number are sent together; without such numbers,
    from the last parameter to the first, up to 4 MiB at a time, or as `comm_fusion["allreduce"]` or
    `all_reduce_fusion_config` of `set_auto_parallel_context` says. 16-bit gradients are summed in
    float32 where `gradient_fp32_sync` is set, as it is at first.

    Args:
        parameters: the parameters.
        mean: sums are divided by `degree`; None: as `gradients_mean` says.
        degree: by what; None: the number of processes.
        fusion_type: of the `comm_fusion` numbers of parameters that have none (0: each for itself).
        group: the processes.
    """

    def __init__(
        self, parameters: Any, mean: bool | None = None, degree: Degree | None = None,
        fusion_type: int = 1, group: str = HCCL_WORLD_COMM_GROUP,
    ) -> None:
        super().__init__(auto_prefix=False)
        self.group = group
        self.size = len(ranks_of(group, self.cls_name))
        self.degree = 1.0 / (degree or self.size)
        self.mean = get_auto_parallel_context("gradients_mean") if mean is None else mean
        self.wide = get_auto_parallel_context("gradient_fp32_sync")
        given = list(parameters)
        self.apart = tuple(p.layerwise_parallel for p in given)
        self.fusions = tuple(_fusion(p, fusion_type) for p in given if not p.layerwise_parallel)
        self.scattered: tuple[bool, ...] = (False,) * len(self.fusions)
        self.stages = tuple(_stages(p) for p in given if not p.layerwise_parallel)
        self.limit, self.ends = gradient_fusion(
            get_auto_parallel_context("comm_fusion"),
            get_auto_parallel_context("all_reduce_fusion_config"), BUCKET_BYTES)
        if self.ends and self.ends[-1] >= len(self.fusions):
            raise misuse(self.cls_name, "gradients are to be sent together up to places "
                         f"{list(self.ends)} (all_reduce_fusion_config, or comm_fusion by index), "
                         f"but there are {counted(len(self.fusions), 'gradient')}")

    def construct(self, grads: Any) -> Any:
        """The sums, or means; the gradients of parameters with `layerwise_parallel` as they are."""
        if True not in self.apart:
            return self.reduced(grads)
        sums = list(self.reduced(tuple([g for g, a in zip(grads, self.apart, strict=True)
                                        if not a])))
        out = []
        for grad, apart in zip(grads, self.apart, strict=True):
            out.append(grad if apart else sums.pop(0))
        return tuple(out)

    def reduced(self, grads: Any) -> Any:
        """The sums, or means, of gradients that the processes share."""
        if self.size == 1:
            return _scale(grads, self.degree) if self.mean and self.degree != 1.0 else grads
        types = [g.dtype for g in grads]
        sent = [g.astype(float32) if self.wide and g.dtype in (float16, bfloat16) else g
                for g in grads]
        sums = list(sent)
        for bucket in buckets([g.dtype for g in sent], [g.size for g in sent], self.fusions,
                              list(zip(self.scattered, self.stages, strict=True)), self.limit,
                              self.ends):
            add_up = _scatter if self.scattered[bucket[0]] else summed
            for place, total in zip(bucket, add_up([sent[i] for i in bucket], self.group),
                                    strict=True):
                sums[place] = total
        if self.mean:
            sums = _scale(sums, self.degree)
        return tuple([s.astype(t) for s, t in zip(sums, types, strict=True)])


def _fusion(parameter: Parameter, fusion_type: int) -> int:
    own = parameter.comm_fusion
    return fusion_type if own == 1 else own


def _stages(parameter: Parameter) -> Any:
    """Return the key of gradients that are sent together: their stages, where those are set, else
    one of its own."""
    if get_auto_parallel_context("pipeline_stages") == 1:
        return ()
    return tuple(parameter.pipeline_stages) or id(parameter)


def _scale(grads: Any, factor: float) -> Any:
    return [g * factor for g in grads]


def buckets(
    types: Sequence[DType], sizes: Sequence[int], fusions: Sequence[int],
    kinds: Sequence[Any], limit: int = BUCKET_BYTES, ends: Sequence[int] = (),
) -> list[list[int]]:
    """Which gradients are sent together, in the order in which they are sent.

    Those of one type, one fusion number and one kind (whether they are summed in rows, which stages
    have them); of number 1 up to `limit` bytes, or, if there are `ends`, those up to one of these
    places; of number 0 each for itself.
    """
    out: list[list[int]] = []
    filled: dict[tuple[DType, int, Any, int], tuple[list[int], int]] = {}
    for i in reversed(range(len(types))):
        dtype, fusion, nbytes = types[i], fusions[i], types[i].itemsize * sizes[i]
        key = dtype, fusion, kinds[i], sum(i > end for end in ends) if fusion == 1 else 0
        bounded = fusion == 1 and not ends
        if fusion == 0 or (bounded and nbytes >= limit):
            out.append([i])  # (and those around it may still go together)
            continue
        bucket, held = filled.pop(key, ([], 0))
        if bounded and bucket and held + nbytes > limit:
            out.append(bucket)
            bucket, held = [], 0
        filled[key] = [*bucket, i], held + nbytes
    return out + [bucket for bucket, _ in filled.values()]


def summed(grads: Sequence[Tensor], group: str) -> list[Tensor]:
    """The sums of some gradients, by one collective."""
    if len(grads) == 1:
        return [collectives.all_reduce(grads[0], "sum", group)]
    # Those of whole cache lines first: each begins at one, so its kernel writes where it is sent.
    order = sorted(range(len(grads)), key=lambda i: grads[i].nbytes % _CACHE_LINE != 0)
    joined = ops.concat([grads[i].reshape(-1) for i in order])
    sums = _split(collectives.all_reduce(joined, "sum", group), [grads[i].shape for i in order])
    return [sums[order.index(i)] for i in range(len(grads))]


def _scatter(grads: Sequence[Tensor], group: str) -> list[Tensor]:
    """This rank's rows of the sums of some gradients, by one collective."""
    count = len(ranks_of(group, "DistributedGradReducer"))
    rows = ops.concat([g.reshape(count, -1) for g in grads], 1)
    total = collectives.reduce_scatter(rows, "sum", group).reshape(-1)
    return _split(total, [(g.shape[0] // count, *g.shape[1:]) for g in grads])


def _split(total: Tensor, shapes: Sequence[tuple[int, ...]]) -> list[Tensor]:
    """The tensors of these shapes that lie one after the other in a flat one."""
    out, start = [], 0
    for shape in shapes:
        size = math.prod(shape)
        out.append(total[start : start + size].reshape(shape))
        start += size
    return out


def reducer(
    parameters: Sequence[Parameter], optimizer: Any = None, rows: bool = False,
    broadcast: bool | None = None,
) -> DistributedGradReducer | None:
    """Return the layer that sums gradients in the present mode; None: every process is for itself.

    Args:
        parameters: the parameters.
        optimizer: takes the sums.
        rows: whether nobody else reads them, so that a rank needs only the rows whose state it has.
        broadcast: whether all start with the parameters of the first process; None: as
            `parameter_broadcast` says, or if no seed is set.

    Raises:
        RuntimeError: the mode cuts graphs over several processes, but graph mode is off; or the
            optimizer was made before the setting that shards its state.
    """
    mode = get_auto_parallel_context("parallel_mode")
    several = world().size > 1
    if get_auto_parallel_context("pipeline_stages") > 1:
        if several and get_auto_parallel_context("enable_parallel_optimizer"):
            raise RuntimeError("enable_parallel_optimizer=True parts the optimizer's state of "
                               "data-parallel training, not of a pipeline's stages: leave it out.")
        return stage_reducer(parameters)
    if several and mode in (ParallelMode.SEMI_AUTO_PARALLEL, ParallelMode.AUTO_PARALLEL):
        if not context.in_graph_mode():
            raise RuntimeError(f"parallel_mode={mode!r} cuts graphs over {world().size} processes: "
                               "use GRAPH_MODE, or 'data_parallel'.")
        return None  # the graph is that of all processes: its gradients are whole sums
    if mode not in (ParallelMode.DATA_PARALLEL, ParallelMode.HYBRID_PARALLEL):
        return None
    parted = getattr(optimizer, "sharded", False)
    if several and get_auto_parallel_context("enable_parallel_optimizer") and not parted:
        raise RuntimeError("enable_parallel_optimizer=True parts the optimizer's state, but this "
                           f"{type(optimizer).__name__} was made before it was set: call 'init' "
                           "and 'set_auto_parallel_context' first.")
    if broadcast is None:
        broadcast = get_auto_parallel_context("parameter_broadcast") or get_seed() is None
    if broadcast:
        broadcast_parameters(parameters)
    if parted and world().rank == 0:
        _write_strategy(parameters, optimizer)
    made = DistributedGradReducer(parameters)
    if rows and parted and optimizer.takes_rows:
        made.scattered = tuple([
            s is not None and len(s.ranks) == world().size
            for p, s in zip(parameters, optimizer.shares, strict=True) if not p.layerwise_parallel])
    return made


def _write_strategy(parameters: Sequence[Parameter], optimizer: Any) -> None:
    """The layouts of parameters and state, into the strategy file that is requested."""
    name = get_auto_parallel_context("strategy_ckpt_save_file") or \
        get_auto_parallel_context("strategy_ckpt_config")["save_file"]
    if name:
        size = world().size
        layouts = {p.name: PartLayout((size,), ((),) * p.ndim) for p in parameters}
        layouts |= {state: layout_of(given, state)
                    for state, given in optimizer.parameter_layout_dict.items()}
        strategies.write(name, strategies.made_of(layouts))


class _StageGradReducer(DistributedGradReducer):
    """Gradients summed over the ranks of a stage, each of which has those of its own rows; the
    graph of all ranks has whole sums."""

    def construct(self, grads: Any) -> Any:
        """The sums, or means."""
        if sums_of_all():
            return grads
        return super().construct(grads)


def stage_reducer(parameters: Sequence[Parameter]) -> DistributedGradReducer:
    """Return the layer that sums the gradients of a pipeline over the ranks of one stage."""
    if get_auto_parallel_context("parameter_broadcast") or get_seed() is None:
        broadcast_parameters(parameters)
    return _StageGradReducer(parameters, group=stage_group())


def stage_group() -> str:
    """The group of the ranks that work on this process's stage, made when it is first asked for."""
    ranks = settings.of_stage(settings.own_stage())
    name = f"pipeline stage of {settings.stages()}"
    world().groups[name] = ranks
    return name


def broadcast_parameters(
    parameters: Sequence[Parameter], group: str = HCCL_WORLD_COMM_GROUP
) -> None:
    """Give all processes of a group the parameters of its first one, but for those with
    `layerwise_parallel`."""
    ranks = ranks_of(group, "broadcast_parameters")
    if len(ranks) > 1:
        for parameter in (p for p in parameters if not p.layerwise_parallel):
            parameter.set_data(collectives.broadcast(parameter.value(), ranks[0], group))


__all__ = ["DistributedGradReducer"]
