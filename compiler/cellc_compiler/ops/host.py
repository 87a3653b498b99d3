"""Calls of Python functions from compiled code."""

from __future__ import annotations

from typing import Any

from cellc_runtime.dtypes import DType

from ..ir.op import ANY, REQUIRED, Array, Op, register
from ..ir.types import TensorType


@register
class HostCall(Op):
    """Call a Python function at run time, in program order.

    The function is not part of the graph: it is known to who traced it, by number.

    Attributes:
        number: of the function.
        name: of the function, for messages.
        results: (dtype, shape) of each result.
    """

    name = "host_call"
    may_fail = True
    operands = ("*tensors",)
    attrs = {"number": REQUIRED, "name": REQUIRED, "results": REQUIRED}
    dtypes = ANY
    effect = True
    differentiable = False
    no_gradient_reason = ("the gradient of the Python function {name}() is not known: "
                          "give it a bprop")

    def infer(
        self, *types: TensorType, number: int, name: str,
        results: tuple[tuple[DType, tuple[int, ...]], ...],
    ) -> tuple[TensorType, ...]:
        return tuple(TensorType(shape, dtype) for dtype, shape in results)

    def reference(self, *arrays: Array, number: int, name: str, results: Any) -> Any:
        raise TypeError(f"the Python function {name}() is not part of the graph")
