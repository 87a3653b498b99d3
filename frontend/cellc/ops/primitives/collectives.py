"""Primitive classes of collectives. Source: `mindspore.ops.operations.comm_ops`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from ...calls import sharding
from ...core.declared import instance, misuse
from ...ranks.groups import HCCL_WORLD_COMM_GROUP, MCCL_WORLD_COMM_GROUP, a_rank, rank_in, ranks_of
from ...ranks.layout import Layout, check_strategy
from ...ranks.settings import ranks_of_a_stage
from ...tensors.tensor import Tensor
from ..functional import collectives, creation, joining
from ..primitive import Primitive
from .tables import make_primitives
from .virtual_dataset import VirtualDataset as VirtualDataset


class ReduceOp:
    """The names of reductions between processes, for `op` of `AllReduce`, `Reduce` and others:
    `ReduceOp.SUM` is "sum"."""

    SUM = "sum"
    MAX = "max"
    MIN = "min"
    PROD = "prod"
    AVG = "avg"


_WORLD = HCCL_WORLD_COMM_GROUP


def _broadcast(input_x: Any, *, root_rank: int, group: str = _WORLD) -> Any:
    given = input_x if isinstance(input_x, (tuple, list)) else (input_x,)
    return tuple(collectives.broadcast(x, root_rank, group) for x in given)


def _reduce(
    input_x: Tensor, *, dest_rank: int, op: str = "sum", group: str = _WORLD
) -> Tensor:
    ranks = ranks_of(group, "Reduce")
    place = a_rank(dest_rank, "dest_rank", "Reduce", range(len(ranks)))
    return collectives.reduce(input_x, ranks[place], op, group)


def _all_to_all_v(
    input_x: Tensor, send_numel_list: Any, recv_numel_list: Any, *, group: str = _WORLD,
    block_size: int = 1,
) -> Tensor:
    send, receive = ([n * block_size for n in collectives.counts(v)]
                     for v in (send_numel_list, recv_numel_list))
    rows = collectives.all_to_all_rows(input_x, send, receive, group)
    return rows if sum(receive) else creation.zeros(
        (), input_x.dtype)  # MindSpore gives a scalar, too


def _all_to_all_vc(
    input_x: Tensor, send_count_matrix: Any, *, group: str = _WORLD, block_size: int = 1,
    transpose: bool = False,
) -> Tensor:
    send, receive = collectives.matrix_sizes(send_count_matrix, group, "AlltoAllVC")
    if transpose:
        send, receive = receive, send
    return _all_to_all_v(input_x, send, receive, group=group, block_size=block_size)


def _sizes(given: Any, name: str, what: str, group: str) -> list[int]:
    """A number of elements for each process of a group."""
    found, count = collectives.counts(given), len(ranks_of(group, what))
    if len(found) != count or min(found) < 0:
        raise misuse(what, f"'{name}' must hold a size for each of {count} processes", found)
    return found


def _batch_isend_irecv(
    input_x: Sequence[Tensor], *, op_types: Sequence[str], remote_ranks: Sequence[int],
    receive_shapes: Any = None, receive_dtypes: Any = None, group: str = _WORLD,
) -> tuple[Tensor, ...]:
    what = "BatchISendIRecv"
    ranks, given = ranks_of(group, what), list(input_x)
    coming = list(zip(receive_shapes or (), receive_dtypes or (), strict=True))
    counts = [list(op_types).count(kind) for kind in ("isend", "irecv")]
    if sum(counts) != len(op_types) or len(op_types) != len(remote_ranks):
        raise misuse(what, "'op_types' must hold isend and irecv, one for each of 'remote_ranks'",
                     f"{op_types} and {remote_ranks}")
    if counts != [len(given), len(coming)]:
        raise misuse(what, f"{counts[0]} tensors to send and {counts[1]} shapes and types to "
                     "receive are needed", f"{len(given)} and {len(coming)}")
    peers = [ranks[a_rank(r, "remote_ranks", what, range(len(ranks)))] for r in remote_ranks]
    for kind, peer in zip(op_types, peers, strict=True):
        if kind == "isend":
            collectives.send(given.pop(0), peer, 0, group)
    return tuple(creation.zeros(()) if kind == "isend"
                 else collectives.receive(*coming.pop(0), peer, 0, group)
                 for kind, peer in zip(op_types, peers, strict=True))


_CORNERS = ((0, None), (0, 1), (None, 1), (1, 1), (1, None), (1, 0), (None, 0), (0, 0))
"""The eight neighbours of an image, clockwise from above: which end of its rows and of its columns
(0 the first, 1 the last) lies at each; None: all of them."""


def _end(x: Tensor, axis: int, end: int | None, length: int) -> Tensor:
    """The first or last entries along an axis; all of them if None."""
    if end is None:
        return x
    return x.narrow(axis, x.shape[axis] - length if end else 0, length)


def _neighbor_exchange_v2(
    x: Tensor, *, send_rank_ids: Sequence[int], send_lens: Sequence[int],
    recv_rank_ids: Sequence[int], recv_lens: Sequence[int], data_format: str, group: str = _WORLD,
) -> Tensor:
    """Borders of images to the neighbours, and theirs around this one, by one collective."""
    what = "NeighborExchangeV2"
    for name, value, count in (("send_rank_ids", send_rank_ids, 8), ("send_lens", send_lens, 4),
                               ("recv_rank_ids", recv_rank_ids, 8), ("recv_lens", recv_lens, 4)):
        if not isinstance(value, (list, tuple)) or len(value) != count:
            raise misuse(what, f"'{name}' must be a list of {count} ints", value)
    if data_format != "NCHW" or x.ndim != 4:
        raise misuse(what, "a tensor of NCHW is needed", f"{data_format} and the shape {x.shape}")
    ranks = ranks_of(group, what)
    n, channels, height, width = x.shape
    parts: list[list[Tensor]] = [[] for _ in ranks]
    for place, (row, column) in zip(send_rank_ids, _CORNERS, strict=True):
        if place != -1:
            cut = _end(x, 2, row, send_lens[row or 0])
            parts[place].append(_end(cut, 3, column, send_lens[2 + (column or 0)]).reshape(-1))
    shapes = [(n, channels, height if row is None else recv_lens[row],
               width if column is None else recv_lens[2 + column]) for row, column in _CORNERS]
    # A neighbour sends in the order of its own directions, which are the opposite ones.
    order = sorted((d for d in range(8) if recv_rank_ids[d] != -1),
                   key=lambda d: (recv_rank_ids[d], (d + 4) % 8))
    counts = [sum(math.prod(shapes[d]) for d in order if recv_rank_ids[d] == r)
              for r in range(len(ranks))]
    sent = [p for part in parts for p in part]
    rows = collectives.all_to_all_rows(
        joining.concat(sent, 0) if sent else creation.zeros((0,), x.dtype),
        [sum(p.size for p in part) for part in parts], counts, group)
    around, at = {}, 0
    for d in order:
        size = math.prod(shapes[d])
        around[d] = rows[at : at + size].reshape(shapes[d])
        at += size
    return _add_borders(x, [around.get(d, creation.zeros(shapes[d], x.dtype)) for d in range(8)])


def _add_borders(x: Tensor, around: Sequence[Tensor]) -> Tensor:
    """An image in its borders, given clockwise from above; nowhere is nothing."""
    rows = ((7, 0, 1), (6, None, 2), (5, 4, 3))
    return joining.concat([joining.concat([x if d is None else around[d] for d in row], 3)
                           for row in rows], 2)


def _neighbor_exchange(
    input_x: Sequence[Tensor], *, send_rank_ids: Sequence[int], recv_rank_ids: Sequence[int],
    recv_shapes: Sequence[Sequence[int]], send_shapes: Sequence[Sequence[int]], recv_type: Any,
    group: str = _WORLD,
) -> tuple[Tensor, ...]:
    """Tensors to some ranks, and theirs, by one collective of the group."""
    what = "NeighborExchange"
    ranks, shapes = ranks_of(group, what), [tuple(x.shape) for x in input_x]
    if shapes != [tuple(s) for s in send_shapes] or len(shapes) != len(send_rank_ids):
        raise misuse(what, f"tensors of the shapes {list(send_shapes)} for the ranks "
                     f"{list(send_rank_ids)} are needed", shapes)
    if len(recv_shapes) != len(recv_rank_ids):
        raise misuse(what, f"a shape for each of the ranks {list(recv_rank_ids)} is needed",
                     list(recv_shapes))
    if any(x.dtype != recv_type for x in input_x):
        raise misuse(what, "'recv_type' must be the type of what all ranks send",
                     f"{recv_type} and {[x.dtype for x in input_x]}", TypeError)
    for rank in (*send_rank_ids, *recv_rank_ids):
        a_rank(rank, "send_rank_ids' and 'recv_rank_ids", what, range(len(ranks)))
    sent = [x.reshape(-1) for rank in range(len(ranks))
            for x, to in zip(input_x, send_rank_ids, strict=True) if to == rank]
    sizes = [math.prod(s) for s in recv_shapes]
    rows = collectives.all_to_all_rows(
        joining.concat(sent, 0) if sent else creation.zeros((0,), recv_type),
        [sum(math.prod(s) for s, to in zip(shapes, send_rank_ids, strict=True) if to == rank)
         for rank in range(len(ranks))],
        [sum(n for n, of in zip(sizes, recv_rank_ids, strict=True) if of == rank)
         for rank in range(len(ranks))], group)
    found, at = {}, 0
    for i in sorted(range(len(sizes)), key=lambda i: recv_rank_ids[i]):
        found[i] = rows[at : at + sizes[i]].reshape(tuple(recv_shapes[i]))
        at += sizes[i]
    return tuple(found[i] for i in range(len(sizes)))


def _send(
    input_x: Tensor, *, sr_tag: int, dest_rank: int, group: str = _WORLD, group_back: str = _WORLD
) -> Tensor:
    collectives.send(input_x, ranks_of(group, "Send")[dest_rank], sr_tag, group)
    return input_x


_VirtualDataset = VirtualDataset
_OWN: dict[str, Callable[..., Any]] = {
    "AllGather": lambda input_x, *, group=_WORLD: collectives.all_gather(input_x, group),
    "AllGatherV": lambda input_x, output_split_sizes, *, group=_WORLD: collectives.all_gather_rows(
        input_x, _sizes(output_split_sizes, "output_split_sizes", "AllGatherV", group), group),
    "AllReduce": lambda input_x, *, op="sum", group=_WORLD:
        collectives.all_reduce(input_x, op, group),
    "AlltoAll": lambda input_x, *, split_count, split_dim, concat_dim, group=_WORLD:
        collectives.all_to_all(input_x, split_count, split_dim, concat_dim, group),
    "AlltoAllV": _all_to_all_v, "AlltoAllVC": _all_to_all_vc,
    "Barrier": lambda *, group=_WORLD: collectives.barrier(group),
    "BatchISendIRecv": _batch_isend_irecv, "Broadcast": _broadcast,
    "CollectiveGather": lambda input_x, *, dest_rank, group=_WORLD:
        collectives.gather(input_x, dest_rank, group),
    "CollectiveScatter": lambda input_x, *, src_rank=0, group=_WORLD:
        collectives.scatter(input_x, src_rank, group),
    "NeighborExchange": _neighbor_exchange, "NeighborExchangeV2": _neighbor_exchange_v2,
    "Receive": lambda *, sr_tag, src_rank, shape, dtype, group=_WORLD, group_back=_WORLD:
        collectives.receive(shape, dtype, ranks_of(group, "Receive")[src_rank], sr_tag, group),
    "Reduce": _reduce,
    "ReduceScatter": lambda input_x, *, op="sum", group=_WORLD:
        collectives.reduce_scatter(input_x, op, group),
    "ReduceScatterV": lambda input_x, input_split_sizes, *, op="sum", group=_WORLD:
        collectives.reduce_scatter_rows(input_x, _sizes(
            input_split_sizes, "input_split_sizes", "ReduceScatterV", group), op, group),
    "Send": _send,
}

_KINDS = {"group": str, "group_back": str, "op": str, "root_rank": int, "dest_rank": int,
          "src_rank": int, "sr_tag": int, "split_count": int, "split_dim": int, "concat_dim": int}
_KEPT: dict[str, Any] = {"no_eliminate": True}
_SIZE, _PLACE = "rank_size", "rank_id"
_ADDED: dict[str, dict[str, Any]] = {
    "AllGather": {_SIZE: None, "fusion": 0, "mean_flag": False, **_KEPT},
    "AllGatherV": {_SIZE: None, "mean_flag": False, _PLACE: None},
    "AllReduce": {"fusion": 0, "index": 0, **_KEPT},
    "AlltoAll": {**_KEPT, _SIZE: None},
    "Barrier": {"side_effect_mem": True},
    "Broadcast": _KEPT,
    "CollectiveGather": {_SIZE: None, _PLACE: None},
    "CollectiveScatter": {_PLACE: None, _SIZE: None},
    "NeighborExchange": _KEPT,
    "NeighborExchangeV2": _KEPT,
    "Receive": _KEPT,
    "ReduceScatter": {_SIZE: None, "fusion": 0, **_KEPT},
    "ReduceScatterV": {_SIZE: None, _PLACE: None},
    "Send": _KEPT,
}
"""Attributes that MindSpore's have besides, which scripts read and printed forms show; None: what
follows from the group."""
_UNRESOLVED = ("Barrier", "Send", "Receive")
"""Those that keep the name of the group of all that they are given."""


class Collective(Primitive):
    """A Primitive of several processes. A group of all has the name that `GlobalComm` says.

    Raises:
        GroupError: its size is requested, and there is no group of that name.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        name, attrs = type(self).__name__, self.attrs
        if attrs["group"] is None and name == "AlltoAllV":
            attrs["group"] = HCCL_WORLD_COMM_GROUP
        for key, kind in _KINDS.items():
            value = attrs.get(key, kind())
            if not isinstance(value, kind) or isinstance(value, bool):
                raise misuse(name, f"the type of '{key}' should be '{kind.__name__}'",
                             f"type '{type(value).__name__}'", TypeError)
        if name not in _UNRESOLVED and attrs["group"] == HCCL_WORLD_COMM_GROUP:
            attrs["group"] = MCCL_WORLD_COMM_GROUP
        found = {_SIZE: lambda: len(ranks_of(attrs["group"], name)),
                 _PLACE: lambda: rank_in(attrs["group"], name)}
        for key, value in _ADDED.get(name, {}).items():
            self.add_prim_attr(key, found[key]() if value is None else value)


PRIMITIVES = make_primitives({}, {}, _OWN, Collective)
"""Every primitive class of this module by name."""


def reshard(tensor: Tensor, layout: Layout) -> Tensor:
    """A tensor laid out over ranks as a layout says, in a graph that is cut; else itself.

    Source: `mindspore.ops.reshard`, `mindspore.parallel.reshard`.
    """
    instance(Tensor)(tensor, "reshard", "tensor")
    instance(Layout)(layout, "reshard", "layout")
    if not sharding.laying_out():
        return tensor
    return sharding.lay_out(tensor, layout.placement("reshard", ranks_of_a_stage()))


class Reshard(Primitive):
    """A tensor laid out over ranks in another way, in a graph that is cut; else itself.

    Args:
        in_layout: how it lies, a tuple of one `Layout`; it follows from the graph anyway.
        out_layout: how it is to lie, a tuple of one `Layout`.
        in_strategy: the numbers of parts of its axes before, in place of `in_layout`.
    """

    def __init__(self, in_layout: Any, out_layout: Any, in_strategy: Any) -> None:
        super().__init__("Reshard")
        check_strategy(out_layout, "out_layout", "Reshard")
        self.out_layout = out_layout

    def __call__(self, tensor: Tensor) -> Tensor:
        """The tensor."""
        return reshard(tensor, self.out_layout[0])


__all__ = ["ReduceOp", "Reshard", "reshard"]
