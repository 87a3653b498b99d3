"""Names of operations among several devices that one device has a meaning for.

Source: `mindspore.ops.operations.comm_ops`.
"""

from __future__ import annotations

from typing import Any

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

__all__ = ["ReduceOp"]
