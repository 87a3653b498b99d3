"""Names of operations among several devices that one device has a meaning for.

Source: `mindspore.ops.operations.comm_ops`.
"""

from __future__ import annotations

from typing import Any

from ..tensors.tensor import Tensor
from .primitive import Primitive


class ReduceOp:
    """Names of the reductions among devices. Source: `mindspore.ops.ReduceOp`."""

    SUM = "sum"
    MAX = "max"
    MIN = "min"
    PROD = "prod"
    AVG = "avg"


class VirtualDataset(Primitive):
    """Its operands: one device reads all of the data."""

    def __init__(self) -> None:
        super().__init__("_VirtualDataset")  # MindSpore's name

    def _run(self, *operands: Any, **kwargs: Any) -> Any:
        return operands


_VirtualDataset = VirtualDataset


def reshard(tensor: Tensor, layout: Any) -> Tensor:
    """A tensor laid out over devices in another way: itself, as one device has all of it.

    Source: `mindspore.ops.reshard`.
    """
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
        return tensor

__all__ = ["ReduceOp", "Reshard", "reshard"]
