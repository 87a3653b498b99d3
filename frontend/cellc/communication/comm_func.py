"""Collectives among the processes of a group. Source: `mindspore.communication.comm_func`.

What is asked for without waiting (`async_op`) is done when the call returns; its handle says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..ops import functional_collectives as collectives
from ..ops.communication import CommHandle, P2POp, handle, send_all
from ..ops.functional_create import zeros_like
from ..ranks.groups import HCCL_WORLD_COMM_GROUP, ranks_of
from ..tensors.tensor import Tensor


def all_reduce(
    tensor: Tensor, op: str = "sum", group: str = HCCL_WORLD_COMM_GROUP, async_op: bool = False
) -> tuple[Tensor, CommHandle | None]:
    """The sum (or `op`) over the processes, and a handle; see `ops.functional_collectives`.

    Raises:
        TypeError, ValueError: no tensor, no reduction, or no group.
    """
    return collectives.all_reduce(tensor, op, group), handle(async_op, "all_reduce")


def all_gather_into_tensor(
    tensor: Tensor, group: str = HCCL_WORLD_COMM_GROUP, async_op: bool = False
) -> tuple[Tensor, CommHandle | None]:
    """The tensors of the processes along the first axis, and a handle."""
    return collectives.all_gather(tensor, group), handle(async_op, "all_gather_into_tensor")


def reduce_scatter_tensor(
    tensor: Tensor, op: str = "sum", group: str = HCCL_WORLD_COMM_GROUP, async_op: bool = False
) -> tuple[Tensor, CommHandle | None]:
    """This process's rows of the sum (or `op`) over the processes, and a handle."""
    return (collectives.reduce_scatter(tensor, op, group),
            handle(async_op, "reduce_scatter_tensor"))


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
    """A tensor for each process; what each sends, of these shapes (or the shapes of tensors)."""
    shapes = [s.shape if isinstance(s, Tensor) else s for s in output_shape_list]
    return (collectives.all_to_all_tensors(input_tensor_list, shapes, group),
            handle(async_op, "all_to_all_with_output_shape"))


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
    shape = output_shape.shape if isinstance(output_shape, Tensor) else tuple(output_shape)
    count = len(ranks_of(group, what))
    send = input_split_sizes or [tensor.shape[0] // count] * count
    receive = output_split_sizes or [shape[0] // count] * count
    return (collectives.all_to_all_rows(tensor, send, receive, group), handle(async_op, what))


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
    """What another process sends, of the type and shape of `tensor`."""
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
    collectives.another_rank(src, "src", "irecv", group)
    out = zeros_like(tensor)

    def finish() -> None:
        out.assign_value(collectives.receive(tensor.shape, tensor.dtype, src, tag, group))

    return out, CommHandle(finish)


def batch_isend_irecv(p2p_op_list: Sequence[P2POp]) -> tuple[Tensor, ...]:
    """Messages to and from other processes; what came, in the list's order.

    Raises:
        TypeError: no list of P2POp.
    """
    send_all(p2p_op_list)
    return tuple(
        p.tensor if p.op == "isend" else collectives.receive(
            p.tensor.shape if isinstance(p.tensor, Tensor) else p.tensor,
            p.recv_dtype or p.tensor.dtype, p.peer, p.tag, p.group)
        for p in p2p_op_list)


__all__ = [
    "P2POp", "all_gather_into_tensor", "all_reduce", "all_to_all_single_with_output_shape",
    "all_to_all_with_output_shape", "barrier", "batch_isend_irecv", "broadcast",
    "gather_into_tensor", "irecv", "isend", "recv", "reduce", "reduce_scatter_tensor",
    "scatter_tensor", "send",
]
