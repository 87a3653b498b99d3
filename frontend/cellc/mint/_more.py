"""Functions of `mint` that are more than another name for one of `ops`.

Source: the same names in `mindspore.mint`.
"""

from __future__ import annotations

from typing import Any

from cellc_runtime.dtypes import DType, float32, float64, int64

from .. import ops
from ..core.declared import BOOL, misuse
from ..core.dispatch import active_tracer
from ..ops.arguments import boolean, integer, is_int, tensor
from ..ops.functional import sorting
from ..ops.functional.distinct import unique
from ..ops.functional.linalg import einsum_ext as einsum
from ..ops.functional.sorting import bins
from ..tensors.promotion import cast_to
from ..tensors.tensor import Tensor
from ._random import _on, _place


def _unpinned(pin_memory: Any, what: str) -> None:
    BOOL(pin_memory, what, "pin_memory")


def empty(
    *size: Any, dtype: DType | None = None, device: str | None = None, pin_memory: bool = False
) -> Tensor:
    """A tensor whose elements say nothing (they are zeros).

    Args:
        size: ints, or one tuple or list of them.
        dtype: element type; float32 if None.
        device: `"CPU"` or `"GPU"`, where the result is; None leaves that open.
        pin_memory: accepted for compatibility.
    """
    _place(device, "empty")
    _unpinned(pin_memory, "empty")
    shape = size[0] if len(size) == 1 and not is_int(size[0]) else size
    if not isinstance(shape, (tuple, list)) or not all(is_int(d) for d in shape):
        raise misuse("empty", "'size' must be ints", repr(shape), TypeError)
    return _on(device, ops.zeros(tuple(shape), dtype or float32))


def empty_like(
    input: Tensor, *, dtype: DType | None = None, device: str | None = None,
    pin_memory: bool = False,
) -> Tensor:
    """`empty` of the shape, and type, of `input`."""
    x = tensor(input, "empty_like")
    _place(device, "empty_like")
    _unpinned(pin_memory, "empty_like")
    return _on(device, ops.zeros(x.shape, dtype or x.dtype))


def addr_(
    input: Tensor, vec1: Tensor, vec2: Tensor, beta: float = 1, alpha: float = 1
) -> Tensor:
    """`input` becomes beta * input + alpha * outer(vec1, vec2)."""
    return input.copy_(ops.addr(input, vec1, vec2, beta=beta, alpha=alpha))


def bincount(input: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    """How often each integer from 0 to the largest occurs, or the sums of their weights.

    Args:
        input: (n), non-negative ints.
        weights: (n); the result has their type if that is float, else float64.
        minlength: the result has at least as many elements.

    Returns:
        int64 without weights. In a graph the largest integer is not known: TypeError.
    """
    what = "bincount"
    x = tensor(input, what)
    if x.ndim != 1 or not x.dtype.is_integer:
        raise (ValueError if x.dtype.is_integer else TypeError)(
            f"For '{what}', 'input' must be ints with one axis, but is {x.dtype} of {x.shape}.")
    if weights is not None and tensor(weights, what, "weights").shape != x.shape:
        raise misuse(what,
                     f"'weights' must have the shape of 'input' {x.shape}, but has {weights.shape}")
    least = integer(minlength, what, "minlength")
    if least < 0:
        raise misuse(what, f"'minlength' must not be negative, but is {least}")
    size = bins(x, least, what)
    if weights is None:
        values, to = ops.ones((x.size,), int64), int64
    else:
        to = weights.dtype if weights.dtype.is_float else float64
        values = cast_to(weights, to)
    return ops.index_add(ops.zeros((size,), to), x, values, 0)


def kthvalue(input: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    """The k-th smallest element along an axis (k from 1), and its position (int64)."""
    x = tensor(input, "kthvalue")
    boolean(keepdim, "kthvalue", "keepdim")
    if not x.size:
        raise misuse("kthvalue", f"'input' must not be empty, but has shape {x.shape}")
    return sorting.kthvalue(x, k, dim, keepdim)


def item(input: Tensor) -> Any:
    """The only element as a number.

    Raises:
        RuntimeError: several elements, or none.
    """
    x = tensor(input, "item")
    if x.size != 1:
        raise RuntimeError(
            f"For 'item', 'input' must have one element, but has {x.size}: {x.shape}.")
    return x.item()


def npu_gelu(input: Tensor, approximate: str = "none") -> Tensor:
    """The same as `nn.functional.gelu`."""
    return ops.gelu(input, approximate)


def equal(input: Tensor, other: Tensor) -> Any:
    """Whether two tensors of a type have one shape and equal elements. Source: `mint.equal`.

    Returns:
        A bool; in a graph a Tensor of one bool where the elements decide.
    """
    x, y = tensor(input, "equal"), tensor(other, "equal", "other")
    if x.dtype is not y.dtype:
        raise misuse("equal", "both must have one type", f"{x.dtype} and {y.dtype}", TypeError)
    if x.shape != y.shape:
        return False
    same = ops.all(ops.equal(x, y))
    return same if active_tracer() is not None else bool(same)


TABLE = {f.__name__: f for f in (
    empty, empty_like, addr_, bincount, kthvalue, unique, item, npu_gelu, equal)} | {
        "einsum": einsum}
"""The functions of this module by name."""
