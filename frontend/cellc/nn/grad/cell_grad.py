"""Products with Jacobians as Cells."""

from __future__ import annotations

from typing import Any

from ...transforms.jacobian import jvp, vjp
from ..cell import Cell


class Jvp(Cell):
    """The results of a function and its Jacobian times a vector. Source: `mindspore.nn.Jvp`.

    Args:
        fn: a function or Cell of Tensors.
    """

    def __init__(self, fn: Any) -> None:
        super().__init__()
        self.fn = fn

    def construct(self, *args: Any) -> Any:
        """The arguments of the function, then the vector: a Tensor, or one for each argument."""
        inputs = args[0] if len(args) == 2 else args[:-1]
        return jvp(self.fn, inputs, args[-1])


class Vjp(Cell):
    """The results of a function and a vector times its Jacobian. Source: `mindspore.nn.Vjp`.

    Args:
        fn: a function or Cell of Tensors.
    """

    def __init__(self, fn: Any) -> None:
        super().__init__()
        self.fn = fn

    def construct(self, *args: Any) -> Any:
        """The arguments of the function, then the vector: a Tensor, or one for each result."""
        outputs, pull = vjp(self.fn, *args[:-1])
        last = args[-1]
        pulled = pull(*last) if isinstance(last, tuple) else pull(last)
        return outputs, pulled[0] if len(args) == 2 else pulled
