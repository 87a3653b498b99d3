"""Python functions called at run time.

Compiled code calls them back in the order of the program; see `calls/callbacks.py`.

Only in cellc; `mindspore.ops.PyFunc` is the Primitive.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..calls.callbacks import host_call
from ..tensors.tensor import Tensor
from ..tracing.pytree import put_together, take_apart
from ._host import call_python, plain_function, result_types


def py_func(
    func: Callable[..., Any], *inputs: Any, out_shape: Any, out_dtype: Any,
    bprop: Callable[..., Any] | None = None,
) -> Any:
    """Call a Python function on the elements of tensors when the network runs.

    In a compiled function it is called in the order of the program, in branches and loops too,
    with copies of the elements. What it returns must have exactly the declared types.

    Args:
        func: called with a numpy array for each tensor of `inputs`; gives an array or number, or
            a tuple of them.
        inputs: Tensors (or lists and tuples of them, or values that are handed on as they are).
        out_shape: the shape of the result, or a tuple of shapes (`()` with a tuple of no dtypes:
            no result).
        out_dtype: its dtype, or a tuple of dtypes.
        bprop: `bprop(*inputs, out, dout)` on Tensors gives the gradients of the inputs, as the
            `bprop` of a Cell does. Without it, to ask for a gradient is an error.

    Returns:
        A Tensor, or a tuple of Tensors if `out_shape` and `out_dtype` are tuples of several.

    Raises:
        TypeError: `func` is not callable; it returned another element type or number of results.
        ValueError: it returned another shape.

    Examples:
        >>> ops.py_func(np.sort, x, out_shape=x.shape, out_dtype=x.dtype)
    """
    function = plain_function("py_func", func)
    none = out_dtype in ((), [])
    single, types = (False, []) if none else result_types("py_func", out_shape, out_dtype)
    return call_python("py_func", function, inputs, single, types, bprop)


def print_(*input_x: Any) -> None:
    """Print values when the network runs, each on a line of its own.

    Source: `mindspore.ops.print_`.

    Args:
        input_x: Tensors, and values known at compile time.
    """
    structure, leaves = take_apart(tuple(input_x))

    def show(*given: Tensor) -> None:
        for value in put_together(structure, list(given)):
            print(value if isinstance(value, str) else repr(value), flush=True)

    host_call(show, "print_", leaves, [])


__all__ = [
    "print_", "py_func",
]
