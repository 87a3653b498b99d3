"""Gradients of data-parallel training: summed over the processes, many in one collective."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cellc_runtime.dtypes import DType, bfloat16, float16, float32
from cellc_runtime.world import world

from .. import ops
from ..core import checks
from ..ops import functional_collectives as collectives
from ..ranks.groups import HCCL_WORLD_COMM_GROUP, ranks_of
from ..ranks.settings import ParallelMode, get_auto_parallel_context
from ..tensors.parameter import Parameter
from ..tensors.seed import get_seed
from ..tensors.tensor import Tensor
from .cell import Cell

BUCKET_BYTES = 4 << 20
"""Gradients are sent together up to so many bytes: a collective costs time for itself, and the
first of them may be sent while others are still computed."""


class DistributedGradReducer(Cell):
    """Gradients summed over the processes of a group, in the order of their numbers.

    Gradients of parameters with one `comm_fusion` number are sent together; without such numbers,
    in the order of the parameters, up to 4 MiB at a time. 16-bit gradients are summed in float32
    where `gradient_fp32_sync` is set, as it is at first.

    Args:
        parameters: the parameters.
        mean: sums are divided by `degree`; None: as `gradients_mean` says.
        degree: by what; None: the number of processes.
        fusion_type: of the `comm_fusion` numbers of parameters that have none (0: each for itself).
        group: the processes.

    Raises:
        ValueError: `degree` is no positive int.

    Source: `mindspore.nn.DistributedGradReducer`.
    """

    def __init__(
        self, parameters: Any, mean: bool | None = None, degree: int | None = None,
        fusion_type: int = 1, group: str = HCCL_WORLD_COMM_GROUP,
    ) -> None:
        super().__init__(auto_prefix=False)
        if degree is not None and (not checks.is_int(degree) or degree <= 0):
            raise ValueError("For 'DistributedGradReducer', 'degree' must be a positive int, but "
                             f"got {degree}.")
        self.group = group
        self.size = len(ranks_of(group, self.cls_name))
        self.degree = 1.0 / (degree or self.size)
        self.mean = get_auto_parallel_context("gradients_mean") if mean is None else mean
        self.wide = get_auto_parallel_context("gradient_fp32_sync")
        self.fusions = tuple(_fusion(p, fusion_type) for p in parameters)

    def construct(self, grads: Any) -> Any:
        """The sums, or means."""
        if self.size == 1:
            return _scaled(grads, self.degree) if self.mean and self.degree != 1.0 else grads
        types = [g.dtype for g in grads]
        sent = [g.astype(float32) if self.wide and g.dtype in (float16, bfloat16) else g
                for g in grads]
        sums = list(sent)
        for bucket in buckets([g.dtype for g in sent], [g.size for g in sent], self.fusions):
            for place, total in zip(bucket, _summed([sent[i] for i in bucket], self.group),
                                    strict=True):
                sums[place] = total
        if self.mean:
            sums = _scaled(sums, self.degree)
        return tuple([s.astype(t) for s, t in zip(sums, types, strict=True)])


def _fusion(parameter: Parameter, fusion_type: int) -> int:
    own = parameter.comm_fusion
    return fusion_type if own == 1 else own


def _scaled(grads: Any, factor: float) -> Any:
    return [g * factor for g in grads]


def buckets(
    types: Sequence[DType], sizes: Sequence[int], fusions: Sequence[int]
) -> list[list[int]]:
    """Which gradients are sent together: of one type and one fusion number, those of number 1 up
    to `BUCKET_BYTES`, those of 0 each for itself."""
    out: list[list[int]] = []
    filled: dict[tuple[DType, int], tuple[list[int], int]] = {}
    for i, (dtype, size, fusion) in enumerate(zip(types, sizes, fusions, strict=True)):
        nbytes = dtype.itemsize * size
        bucket, held = filled.get((dtype, fusion), ([], 0))
        if fusion == 0 or not bucket or (fusion == 1 and held + nbytes > BUCKET_BYTES):
            bucket, held = [], 0
            out.append(bucket)
        bucket.append(i)
        filled[dtype, fusion] = bucket, held + nbytes
    return out


def _summed(grads: Sequence[Tensor], group: str) -> list[Tensor]:
    """The sums of some gradients, by one collective."""
    if len(grads) == 1:
        return [collectives.all_reduce(grads[0], "sum", group)]
    total = collectives.all_reduce(ops.concat([g.reshape(-1) for g in grads]), "sum", group)
    out, start = [], 0
    for g in grads:
        out.append(total[start : start + g.size].reshape(g.shape))
        start += g.size
    return out


def reducer(parameters: Sequence[Parameter]) -> DistributedGradReducer | None:
    """What sums gradients in the mode that is set; None: every process is for itself.

    Raises:
        RuntimeError: the mode cuts networks over several processes, which is not there.
    """
    mode = get_auto_parallel_context("parallel_mode")
    if world().size > 1 and get_auto_parallel_context("enable_parallel_optimizer"):
        raise RuntimeError("enable_parallel_optimizer=True parts the optimizer's state among "
                           f"{world().size} processes, which cellc does not do: leave it out.")
    if world().size > 1 and mode in (ParallelMode.SEMI_AUTO_PARALLEL, ParallelMode.AUTO_PARALLEL):
        raise RuntimeError(f"parallel_mode={mode!r} cuts a network over {world().size} processes, "
                           "which cellc does not do: use 'data_parallel'.")
    if mode not in (ParallelMode.DATA_PARALLEL, ParallelMode.HYBRID_PARALLEL):
        return None
    if get_auto_parallel_context("parameter_broadcast") or get_seed() is None:
        broadcast_parameters(parameters)
    return DistributedGradReducer(parameters)


def broadcast_parameters(
    parameters: Sequence[Parameter], group: str = HCCL_WORLD_COMM_GROUP
) -> None:
    """Give all processes of a group the parameters of its first one."""
    ranks = ranks_of(group, "broadcast_parameters")
    if len(ranks) > 1:
        for parameter in parameters:
            parameter.set_data(collectives.broadcast(parameter.value(), ranks[0], group))


__all__ = ["DistributedGradReducer"]
