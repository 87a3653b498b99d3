"""Products with Jacobians as Cells. Source: `mindspore.nn`."""

from __future__ import annotations

from typing import Any

from ...core.declared import misuse
from ...tensors.tensor import Tensor
from ...transforms.jacobian import jvp
from ...transforms.vjp import vjp
from ..layer.base import Layer


def _check_vector(what: str, v: Any, beside: tuple[Any, ...], kind: str) -> None:
    """TypeError unless `v` is a Tensor, or a tuple of one for each of several tensors."""
    if isinstance(v, Tensor) if len(beside) == 1 else \
            isinstance(v, tuple) and len(v) == len(beside):
        return
    wanted = "a Tensor" if len(beside) == 1 else \
        f"a tuple of {len(beside)} Tensors, one for each {kind}"
    given = f"a tuple of {len(v)}" if isinstance(v, tuple) else type(v).__name__
    raise misuse(what, f"the last argument must be {wanted}", given, TypeError)


class Jvp(Layer):
    """The results of a function and its Jacobian times a vector.

    Args:
        fn: a function or Cell of Tensors.
    """

    fn: Any

    def construct(self, *args: Any) -> Any:
        """The arguments of the function, then the vector: a Tensor, or one for each argument."""
        _check_vector("Jvp", args[-1], args[:-1], "argument")
        return jvp(self.fn, args[0] if len(args) == 2 else args[:-1], args[-1])


class Vjp(Layer):
    """The results of a function and a vector times its Jacobian.

    Args:
        fn: a function or Cell of Tensors.
    """

    fn: Any

    def construct(self, *args: Any) -> Any:
        """The arguments of the function, then the vector: a Tensor, or one for each result."""
        outputs, pull = vjp(self.fn, *args[:-1])
        last = args[-1]
        _check_vector("Vjp", last, outputs if isinstance(outputs, tuple) else (outputs,), "result")
        pulled = pull(*last) if isinstance(last, tuple) else pull(last)
        return outputs, pulled[0] if len(args) == 2 else pulled
