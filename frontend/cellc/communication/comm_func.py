"""Collectives among the processes of a group, which is this one: sums, copies and gatherings of
one tensor are that tensor. Source: `mindspore.communication.comm_func`.
"""

from __future__ import annotations

from typing import Any

from .. import ops
from ..tensors.tensor import Tensor
from .management import HCCL_WORLD_COMM_GROUP, _known, _zero

_REDUCTIONS = ("sum", "max", "min", "prod")


def _one(tensor: Any, group: str, what: str) -> Tensor:
    _known(group, what)
    if not isinstance(tensor, Tensor):
        raise TypeError(f"For '{what}', the input must be a Tensor, but got {type(tensor)}.")
    return tensor * 1 if tensor.dtype.kind != "b" else ops.logical_or(tensor, tensor)


def _reduction(op: Any, what: str) -> None:
    if not isinstance(op, str):
        raise TypeError(f"For '{what}', the argument 'op' must be str, but got {type(op)}.")
    if op not in _REDUCTIONS:
        raise ValueError(f"For '{what}', 'op' must be one of {_REDUCTIONS}, but got {op!r}.")


def all_reduce(
    tensor: Tensor, op: str = "sum", group: str = HCCL_WORLD_COMM_GROUP, async_op: bool = False
) -> tuple[Tensor, None]:
    """The sum (or `op`) over the processes, and no handle: of one process, a copy.

    Raises:
        TypeError, ValueError: no tensor, no reduction, or no group.
    """
    _reduction(op, "all_reduce")
    return _one(tensor, group, "all_reduce"), None


def all_gather_into_tensor(
    tensor: Tensor, group: str = HCCL_WORLD_COMM_GROUP, async_op: bool = False
) -> tuple[Tensor, None]:
    """The tensors of the processes along the first axis, and no handle."""
    return _one(tensor, group, "all_gather_into_tensor"), None


def reduce_scatter_tensor(
    tensor: Tensor, op: str = "sum", group: str = HCCL_WORLD_COMM_GROUP, async_op: bool = False
) -> tuple[Tensor, None]:
    """This process's part of the sum (or `op`) over the processes, and no handle."""
    _reduction(op, "reduce_scatter_tensor")
    return _one(tensor, group, "reduce_scatter_tensor"), None


def reduce(tensor: Tensor, dst: int, op: str = "sum", group: str = HCCL_WORLD_COMM_GROUP) -> Tensor:
    """The sum (or `op`) over the processes, for the process `dst`."""
    _reduction(op, "reduce")
    _zero(dst, "dst", "reduce")
    return _one(tensor, group, "reduce")


def broadcast(tensor: Tensor, src: int = 0, group: str = HCCL_WORLD_COMM_GROUP) -> Tensor:
    """The tensor of the process `src`."""
    _zero(src, "src", "broadcast")
    return _one(tensor, group, "broadcast")


def gather_into_tensor(tensor: Tensor, dst: int = 0, group: str = HCCL_WORLD_COMM_GROUP) -> Tensor:
    """The tensors of the processes along the first axis, for the process `dst`."""
    _zero(dst, "dst", "gather_into_tensor")
    return _one(tensor, group, "gather_into_tensor")


def scatter_tensor(tensor: Tensor, src: int = 0, group: str = HCCL_WORLD_COMM_GROUP) -> Tensor:
    """This process's part of the tensor of the process `src`."""
    _zero(src, "src", "scatter_tensor")
    return _one(tensor, group, "scatter_tensor")


def barrier(group: str = HCCL_WORLD_COMM_GROUP) -> None:
    """Wait for all processes of a group: there is no other."""
    _known(group, "barrier")


def _to_another(what: str, group: str) -> None:
    _known(group, what)
    raise RuntimeError(
        f"For '{what}', another process is wanted, but cellc runs in one process."
    )


def send(tensor: Tensor, dst: int = 0, group: str = HCCL_WORLD_COMM_GROUP, tag: int = 0) -> None:
    """Send to another process: there is none.

    Raises:
        RuntimeError: always.
    """
    _to_another("send", group)


def recv(tensor: Tensor, src: int = 0, group: str = HCCL_WORLD_COMM_GROUP, tag: int = 0) -> None:
    """Receive from another process: there is none.

    Raises:
        RuntimeError: always.
    """
    _to_another("recv", group)


def isend(tensor: Tensor, dst: int = 0, group: str = HCCL_WORLD_COMM_GROUP, tag: int = 0) -> None:
    """Send to another process without waiting: there is none.

    Raises:
        RuntimeError: always.
    """
    _to_another("isend", group)


def irecv(tensor: Tensor, src: int = 0, group: str = HCCL_WORLD_COMM_GROUP, tag: int = 0) -> None:
    """Receive from another process without waiting: there is none.

    Raises:
        RuntimeError: always.
    """
    _to_another("irecv", group)


__all__ = [
    "all_gather_into_tensor", "all_reduce", "barrier", "broadcast", "gather_into_tensor", "irecv",
    "isend", "recv", "reduce", "reduce_scatter_tensor", "scatter_tensor", "send",
]
