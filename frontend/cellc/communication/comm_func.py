"""Collectives among the processes of a group. Source: `mindspore.communication.comm_func`.

An operation started without waiting (`async_op`) runs in PyNative while this process computes: its
result holds zeros until the handle was waited for. In a graph, and where a gradient is recorded, it
is there as soon as anything reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..ops.arguments import shape_of, tensors
from ..ops.arguments import tensor as as_tensor
from ..ops.communication import (
    CommHandle,
    P2POp,
    all_to_all_v_c,
    begin,
    goes_on,
    handle,
    row_counts,
    send_all,
)
from ..ops.functional import collectives
from ..ops.functional.collectives import checked_reduction
from ..ops.functional.creation import zeros, zeros_like
from ..ranks.groups import HCCL_WORLD_COMM_GROUP, ranks_of
from ..tensors.tensor import Tensor


def _exchange(
    what: str, async_op: Any, tensor: Tensor, exchange: Callable[[Tensor], Tensor],
    place: Callable[[], Tensor],
) -> tuple[Tensor, CommHandle | None]:
    """A collective of a tensor, done now; or `place()`, which gets its result by the handle."""
    if not goes_on(async_op, what):
        return exchange(tensor), handle(async_op, what)
    out = place()
    return out, begin(what, [tensor], exchange, out.assign_value)


def _reduced(
    x: Tensor, shape: tuple[int, ...], op: str, group: str | None, what: str
) -> Tensor:
    """Zeros of the type of a sum (an average divides)."""
    ranks_of(group, what)
    average = checked_reduction(op, what) == "avg"
    return zeros(shape, dtype=(zeros((), dtype=x.dtype) / 1).dtype if average else x.dtype)


def _rows(x: Tensor, count: int) -> Tensor:
    return zeros((count, *x.shape[1:]), dtype=x.dtype)


def all_reduce(
    tensor: Tensor, op: str = "sum", group: str = HCCL_WORLD_COMM_GROUP, async_op: bool = False
) -> tuple[Tensor, CommHandle | None]:
    """The sum (or `op`) over the processes, and a handle; see `ops.functional.collectives`."""
    what = "all_reduce"
    return _exchange(what, async_op, tensor, lambda x: collectives.all_reduce(x, op, group),
                     lambda: _reduced(tensor, tensor.shape, op, group, what))


def all_gather_into_tensor(
    tensor: Tensor, group: str = HCCL_WORLD_COMM_GROUP, async_op: bool = False
) -> tuple[Tensor, CommHandle | None]:
    """The tensors of the processes along the first axis, and a handle."""
    what = "all_gather_into_tensor"
    return _exchange(what, async_op, tensor, lambda x: collectives.all_gather(x, group),
                     lambda: _rows(tensor, tensor.shape[0] * len(ranks_of(group, what))))


def reduce_scatter_tensor(
    tensor: Tensor, op: str = "sum", group: str = HCCL_WORLD_COMM_GROUP, async_op: bool = False
) -> tuple[Tensor, CommHandle | None]:
    """This process's rows of the sum (or `op`) over the processes, and a handle."""
    what = "reduce_scatter_tensor"
    return _exchange(
        what, async_op, tensor, lambda x: collectives.reduce_scatter(x, op, group),
        lambda: _reduced(tensor, (tensor.shape[0] // len(ranks_of(group, what)),
                                  *tensor.shape[1:]), op, group, what))


def reduce(tensor: Tensor, dst: int, op: str = "sum", group: str = HCCL_WORLD_COMM_GROUP) -> Tensor:
    """The sum (or `op`) over the processes, for the process `dst`; zeros for the others."""
    return collectives.reduce(tensor, dst, op, group)


def broadcast(tensor: Tensor, src: int = 0, group: str = HCCL_WORLD_COMM_GROUP) -> Tensor:
    """The tensor of the process `src`."""
    return collectives.broadcast(tensor, src, group)


def gather_into_tensor(tensor: Tensor, dst: int = 0, group: str = HCCL_WORLD_COMM_GROUP) -> Tensor:
    """The tensors of the processes along the first axis, for the process `dst`; zeros else."""
    return collectives.gather(tensor, dst, group)


def scatter_tensor(tensor: Tensor, src: int = 0, group: str = HCCL_WORLD_COMM_GROUP) -> Tensor:
    """This process's rows of the tensor of the process `src`."""
    return collectives.scatter(tensor, src, group)


def all_to_all_with_output_shape(
    output_shape_list: Sequence[Any], input_tensor_list: Sequence[Tensor],
    group: str | None = None, async_op: bool = False,
) -> tuple[tuple[Tensor, ...], CommHandle | None]:
    """A tensor for each process; what each sends, of these shapes (or the shapes of tensors).

    Raises:
        TypeError: no list of tensors, or of shapes.
        ValueError: not one for each process.
    """
    what = "all_to_all_with_output_shape"
    given = tensors(input_tensor_list, what, "input_tensor_list")
    if not isinstance(output_shape_list, (list, tuple)):
        raise TypeError(f"For '{what}', 'output_shape_list' must be a list of shapes or Tensors, "
                        f"but got {type(output_shape_list).__name__}.")
    shapes = [s.shape if isinstance(s, Tensor) else shape_of(s, what, "output_shape_list")
              for s in output_shape_list]
    count = len(ranks_of(group, what))
    if len(given) != count or len(shapes) != count:
        raise ValueError(f"For '{what}', 'input_tensor_list' and 'output_shape_list' must be as "
                         f"long as there are processes, {count}, but have {len(given)} and "
                         f"{len(shapes)} entries.")
    return (collectives.all_to_all_tensors(given, shapes, group), handle(async_op, what))


def _nonempty(sizes: Any) -> Any:
    """An empty list says nothing."""
    return None if isinstance(sizes, (list, tuple)) and not sizes else sizes


def all_to_all_single_with_output_shape(
    output_shape: Any, tensor: Tensor, output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None, group: str | None = None,
    async_op: bool = False,
) -> tuple[Tensor, CommHandle | None]:
    """Rows for each process; the rows of each, one after the other.

    Args:
        output_shape: the shape of what comes, or a tensor that has it.
        output_split_sizes, input_split_sizes: how many rows each process sends and gets; equal
            parts if None.
    """
    what = "all_to_all_single_with_output_shape"
    as_tensor(tensor, what, "tensor")
    shape = output_shape.shape if isinstance(output_shape, Tensor) else \
        shape_of(output_shape, what, "output_shape")
    send = row_counts(tensor.shape, _nonempty(input_split_sizes), "input_split_sizes", what, group)
    receive = row_counts(shape, _nonempty(output_split_sizes), "output_split_sizes", what, group)
    return _exchange(
        what, async_op, tensor, lambda x: collectives.all_to_all_rows(x, send, receive, group),
        lambda: _rows(tensor, sum(receive)))


def barrier(group: str = HCCL_WORLD_COMM_GROUP) -> None:
    """Wait for all processes of a group."""
    collectives.barrier(group)


def send(tensor: Tensor, dst: int = 0, group: str = HCCL_WORLD_COMM_GROUP, tag: int = 0) -> None:
    """Give a tensor to another process.

    Raises:
        ValueError: this process itself, or none of the group.
    """
    collectives.send(tensor, dst, tag, group)


def recv(tensor: Tensor, src: int = 0, group: str = HCCL_WORLD_COMM_GROUP, tag: int = 0) -> Tensor:
    """Return a tensor that another process sends, of the type and shape of `tensor`."""
    as_tensor(tensor, "recv", "tensor")
    return collectives.receive(tensor.shape, tensor.dtype, src, tag, group)


def isend(
    tensor: Tensor, dst: int = 0, group: str = HCCL_WORLD_COMM_GROUP, tag: int = 0
) -> CommHandle:
    """`send`; a handle."""
    collectives.send(tensor, dst, tag, group)
    return CommHandle()


def irecv(
    tensor: Tensor, src: int = 0, group: str = HCCL_WORLD_COMM_GROUP, tag: int = 0
) -> tuple[Tensor, CommHandle]:
    """A tensor of the type and shape of `tensor` that has what another process sends once its
    handle was waited for."""
    as_tensor(tensor, "irecv", "tensor")
    collectives.a_tag(tag, "irecv")
    collectives.another_rank(src, "src", "irecv", group)
    out = zeros_like(tensor)

    def finish() -> None:
        out.assign_value(collectives.receive(tensor.shape, tensor.dtype, src, tag, group))

    return out, CommHandle(finish)


def batch_isend_irecv(p2p_op_list: Sequence[P2POp]) -> tuple[Tensor, ...]:
    """Messages to and from other processes; what came, in the list's order."""
    send_all(p2p_op_list)
    return tuple(
        p.tensor if p.op == "isend" else collectives.receive(
            p.tensor.shape if isinstance(p.tensor, Tensor) else p.tensor,
            p.recv_dtype or p.tensor.dtype, p.peer, p.tag, p.group)
        for p in p2p_op_list)


__all__ = [
    "P2POp", "all_gather_into_tensor", "all_reduce", "all_to_all_single_with_output_shape",
    "all_to_all_v_c", "all_to_all_with_output_shape", "barrier", "batch_isend_irecv", "broadcast",
    "gather_into_tensor", "irecv", "isend", "recv", "reduce", "reduce_scatter_tensor",
    "scatter_tensor", "send",
]
