"""Python functions called at run time.

Compiled code calls them back in the order of the program; see `calls/callbacks.py`.

Only in cellc; `mindspore.ops.PyFunc` is the Primitive.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from cellc_compiler.ir.types import TensorType
from cellc_runtime.dtypes import ALL, DType

from ...calls.bprop import Rule, bprop_grads
from ...calls.callbacks import host_call
from ...calls.hooks import is_compiled, written
from ...compiled.inline import call_here
from ...core.declared import misuse
from ...tensors.tensor import Tensor, elements_now
from ...tracing.pytree import put_together, take_apart

# --- calls with declared result types -------------------------------------------------------------


def plain_function(name: str, fn: Any) -> Callable[..., Any]:
    """Return the Python function that a compiled function passes to an op."""
    inner: Any = written(fn)
    found: Callable[..., Any] = inner.as_python() if is_compiled(inner) else inner
    if not callable(found):
        raise misuse(name, "the function must be callable", type(inner).__name__, TypeError)
    return found


def _shapes(what: str, shape: Any) -> tuple[bool, list[tuple[int, ...]]]:
    """Whether there is one result, and the shapes."""
    if not isinstance(shape, (tuple, list)):
        raise misuse(what, "'out_shape' must be a tuple or list of int, or a tuple of those",
                     type(shape).__name__, TypeError)
    single = all(isinstance(d, int) for d in shape)
    shapes = [tuple(shape)] if single else [tuple(s) for s in shape]
    for s in shapes:
        if not all(isinstance(d, int) and not isinstance(d, bool) and d >= 0 for d in s):
            raise misuse(what, "a shape must hold non-negative ints", s)
    return single, shapes


def result_types(what: str, shape: Any, dtype: Any) -> tuple[bool, list[TensorType]]:
    """Whether there is one result, and the declared types."""
    single, shapes = _shapes(what, shape)
    given = list(dtype) if isinstance(dtype, (tuple, list)) else [dtype]
    if single and isinstance(dtype, (tuple, list)) and len(given) == 1:
        single = False
    for d in given:
        if not isinstance(d, DType) or d not in ALL:
            raise misuse(what, "'out_dtype' must be a dtype or a tuple of dtypes", repr(d),
                         TypeError)
    if len(given) != len(shapes):
        raise misuse(what, f"{len(shapes)} shapes are declared but {len(given)} types")
    return single, [TensorType(s, d) for s, d in zip(shapes, given, strict=True)]


def call_python(
    what: str, function: Callable[..., Any], inputs: tuple[Any, ...], single: bool,
    types: Sequence[TensorType], bprop: Any = None,
) -> Any:
    """`function` on numpy arrays; a Tensor if `single`, else a tuple."""
    structure, leaves = take_apart(tuple(inputs))
    name = getattr(function, "__name__", what)

    def on_arrays(*given: Tensor) -> Any:
        return function(*put_together(structure, [elements_now(t) for t in given]))

    rule = None if bprop is None else bprop_rule(function, bprop, inputs, single)
    out = host_call(on_arrays, name, leaves, types, rule)
    if single:
        return out[0]
    return tuple(out) if types else None


def bprop_rule(function: Any, bprop: Any, inputs: tuple[Any, ...], single: bool) -> Rule:
    """The gradient of a function of the user's that has a `bprop(*inputs, out, dout)`.

    Args:
        function: whose it is, for messages.
        single: it gives one tensor, no tuple.
    """
    structure, _ = take_apart(tuple(inputs))
    own = written(bprop)

    def rule(
        operands: Sequence[Tensor], results: Sequence[Tensor], dys: Sequence[Tensor]
    ) -> Sequence[Tensor | None]:
        out, dout = (t[0] if single else tuple(t) for t in (results, dys))
        given = put_together(structure, list(operands))
        grads = call_here(own, (*given, out, dout))
        return bprop_grads(function, grads, structure, len(operands), operands)

    return rule


# --- functions ------------------------------------------------------------------------------------


def py_func(
    func: Callable[..., Any], *inputs: Any, out_shape: Any, out_dtype: Any,
    bprop: Callable[..., Any] | None = None,
) -> Any:
    """Call a Python function on the elements of tensors when the network runs.

    In a compiled function it is called in the order of the program, in branches and loops too, with
    copies of the elements. Its results must have exactly the declared types.

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

    Examples:
        >>> ops.py_func(np.sort, x, out_shape=x.shape, out_dtype=x.dtype)
    """
    function = plain_function("py_func", func)
    none = out_dtype in ((), [])
    single, types = (False, []) if none else result_types("py_func", out_shape, out_dtype)
    return call_python("py_func", function, inputs, single, types, bprop)


def print_(*input_x: Any) -> None:
    """Print values when the network runs, each on a line of its own.

    Args:
        input_x: Tensors, and values known at compile time.
    """
    structure, leaves = take_apart(tuple(input_x))

    def show(*given: Tensor) -> None:
        for value in put_together(structure, list(given)):
            print(value if isinstance(value, str) else repr(value), flush=True)

    host_call(show, "print_", leaves, [])
