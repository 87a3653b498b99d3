"""Primitive classes of collectives. Source: `mindspore.ops.operations.comm_ops`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from cellc_compiler.ir.op import REQUIRED
from cellc_runtime.world import world

from ..ranks.groups import HCCL_WORLD_COMM_GROUP, a_rank, rank_in, ranks_of
from ..tensors.tensor import Tensor
from . import functional_collectives as c
from .primitive import Primitive
from .primitives import make_primitives
from .virtual_dataset import VirtualDataset as VirtualDataset


class ReduceOp:
    """Names of the reductions among devices. Source: `mindspore.ops.ReduceOp`."""

    SUM = "sum"
    MAX = "max"
    MIN = "min"
    PROD = "prod"
    AVG = "avg"


def _broadcast(input_x: Any, root_rank: int, group: str) -> Any:
    given = input_x if isinstance(input_x, (tuple, list)) else (input_x,)
    return tuple(c.broadcast(x, root_rank, group) for x in given)


def _reduce(input_x: Tensor, dest_rank: int, op: str, group: str) -> Tensor:
    ranks = ranks_of(group, "Reduce")
    place = a_rank(dest_rank, "dest_rank", "Reduce", range(len(ranks)))
    return c.reduce(input_x, ranks[place], op, group)


def _all_to_all_v(input_x: Tensor, send_numel_list: Any, recv_numel_list: Any, group: str,
                  block_size: int) -> Tensor:
    send, receive = ([n * block_size for n in _counts(v)]
                     for v in (send_numel_list, recv_numel_list))
    return c.all_to_all_rows(input_x, send, receive, group)


def _counts(given: Any) -> list[int]:
    return [int(n) for n in (given.asnumpy() if isinstance(given, Tensor) else given)]


def _all_to_all_vc(input_x: Tensor, send_count_matrix: Any, group: str, block_size: int,
                   transpose: bool) -> Tensor:
    n, here = len(ranks_of(group, "AlltoAllVC")), rank_in(group, "AlltoAllVC")
    flat = _counts(send_count_matrix)
    rows = [flat[i * n : (i + 1) * n] for i in range(n)]
    columns = [list(column) for column in zip(*rows, strict=True)]
    send, receive = (columns, rows) if transpose else (rows, columns)
    return _all_to_all_v(input_x, send[here], receive[here], group, block_size)


def _neighbor_exchange(
    input_x: Sequence[Tensor], send_rank_ids: Sequence[int], recv_rank_ids: Sequence[int],
    recv_shapes: Sequence[Sequence[int]], send_shapes: Sequence[Sequence[int]], recv_type: Any,
    group: str,
) -> tuple[Tensor, ...]:
    shapes = [tuple(x.shape) for x in input_x]
    if shapes != [tuple(s) for s in send_shapes] or len(shapes) != len(send_rank_ids):
        raise ValueError(f"For 'NeighborExchange', tensors of the shapes {list(send_shapes)} for "
                         f"the ranks {list(send_rank_ids)} are needed, but got {shapes}.")
    for x, rank in zip(input_x, send_rank_ids, strict=True):
        c.send(x, rank, 0, group)
    return tuple(c.receive(s, recv_type, rank, 0, group)
                 for s, rank in zip(recv_shapes, recv_rank_ids, strict=True))


def _send(input_x: Tensor, sr_tag: int, dest_rank: int, group: str, group_back: str) -> Tensor:
    c.send(input_x, ranks_of(group, "Send")[dest_rank], sr_tag, group)
    return input_x


def _receive(sr_tag: int, src_rank: int, shape: Any, dtype: Any, group: str, group_back: str
             ) -> Tensor:
    return c.receive(shape, dtype, ranks_of(group, "Receive")[src_rank], sr_tag, group)


_VirtualDataset = VirtualDataset
_GROUP = {"group": HCCL_WORLD_COMM_GROUP}
_REDUCED = {"op": "sum", **_GROUP}
_WITH_INIT: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "AllGather": (lambda input_x, group: c.all_gather(input_x, group), _GROUP),
    "AllReduce": (lambda input_x, op, group: c.all_reduce(input_x, op, group), _REDUCED),
    "AlltoAll": (
        lambda input_x, split_count, split_dim, concat_dim, group: c.all_to_all(
            input_x, split_count, split_dim, concat_dim, group),
        {"split_count": REQUIRED, "split_dim": REQUIRED, "concat_dim": REQUIRED, **_GROUP}),
    "AlltoAllV": (_all_to_all_v, {**_GROUP, "block_size": 1}),
    "AlltoAllVC": (_all_to_all_vc, {**_GROUP, "block_size": 1, "transpose": False}),
    "Barrier": (lambda group: c.barrier(group), _GROUP),
    "Broadcast": (_broadcast, {"root_rank": REQUIRED, **_GROUP}),
    "CollectiveGather": (lambda input_x, dest_rank, group: c.gather(input_x, dest_rank, group),
                         {"dest_rank": REQUIRED, **_GROUP}),
    "CollectiveScatter": (lambda input_x, src_rank, group: c.scatter(input_x, src_rank, group),
                          {"src_rank": 0, **_GROUP}),
    "NeighborExchange": (_neighbor_exchange, {
        "send_rank_ids": REQUIRED, "recv_rank_ids": REQUIRED, "recv_shapes": REQUIRED,
        "send_shapes": REQUIRED, "recv_type": REQUIRED, **_GROUP}),
    "Receive": (_receive, {
        "sr_tag": REQUIRED, "src_rank": REQUIRED, "shape": REQUIRED, "dtype": REQUIRED, **_GROUP,
        "group_back": HCCL_WORLD_COMM_GROUP}),
    "Reduce": (_reduce, {"dest_rank": REQUIRED, **_REDUCED}),
    "ReduceScatter": (lambda input_x, op, group: c.reduce_scatter(input_x, op, group), _REDUCED),
    "Send": (_send, {"sr_tag": REQUIRED, "dest_rank": REQUIRED, **_GROUP,
                     "group_back": HCCL_WORLD_COMM_GROUP}),
}

PRIMITIVES = make_primitives({}, _WITH_INIT)
"""Every primitive class of this module by name."""


def reshard(tensor: Tensor, layout: Any) -> Tensor:
    """A tensor laid out over devices in another way: itself, as one device has all of it.

    Raises:
        RuntimeError: several processes run.

    Source: `mindspore.ops.reshard`.
    """
    if world().size > 1:
        raise RuntimeError(f"For 'reshard', tensors are not cut over processes, of which "
                           f"{world().size} run: exchange parts by collectives.")
    return tensor


class Reshard(Primitive):
    """A tensor laid out over devices in another way: itself, as one device has all of it.

    Args:
        in_layout, out_layout, in_strategy: how it is laid out; without effect.

    Source: `mindspore.ops.Reshard`.
    """

    def __init__(self, in_layout: Any, out_layout: Any, in_strategy: Any) -> None:
        super().__init__("Reshard")

    def __call__(self, tensor: Tensor) -> Tensor:
        """The tensor."""
        return reshard(tensor, None)


__all__ = ["ReduceOp", "Reshard", "reshard"]
