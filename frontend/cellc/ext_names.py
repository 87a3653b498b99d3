"""MindSpore's inner names of what `mint` shows: `amax_ext`, `chunk_view`, `transpose_ext_view`...

Its documentation calls some functions of `mint` by these names of `ops.function.*` and
`ops.auto_generate`, and some primitives by names of the latter; see `old_paths`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cellc_runtime.dtypes import DType, int8
from cellc_runtime.lazy import no_attribute

from . import mint, ops
from .mint.nn import functional
from .ops.functional.heads import multi_head_attention_forward as multi_head_attention_forward
from .ops.primitives.tables import make_primitives
from .tensors.tensor import Tensor

_ENDS = ("_ext_view", "_ext", "_view")
_OTHERS = {"clamp_scalar": "clamp", "clamp_tensor": "clamp"}


def add_ext(input: Any, other: Any, alpha: Any = 1) -> Tensor:
    """`mint.add`, whose factor may be given by position. Source: `ops.auto_generate.add_ext`."""
    out: Tensor = mint.add(input, other, alpha=alpha)
    return out


def sub_ext(input: Any, other: Any, alpha: Any = 1) -> Tensor:
    """`mint.sub`, whose factor may be given by position. Source: `ops.auto_generate.sub_ext`."""
    out: Tensor = mint.sub(input, other, alpha=alpha)
    return out


def contiguous(input: Tensor) -> Tensor:
    """The tensor laid out in the order of its axes. Source: `ops.auto_generate.contiguous`."""
    return input.contiguous()


def expand_dims_view(input: Tensor, dim: int) -> Tensor:
    """A view with one more axis of size 1. Source: `ops.auto_generate.expand_dims_view`."""
    return ops.expand_dims(input, dim)


def view(input: Tensor, shape: Any) -> Tensor:
    """A view of another shape. Source: `ops.auto_generate.view`."""
    return input.view(shape)


def _quantized(
    x: Tensor, scale: Tensor, offset: Tensor, sqrt_mode: bool = False, rounding_mode: str = "ROUND",
    dst_type: DType = int8,
) -> Tensor:
    """round(scale x + offset) in int8: the nearest that it has."""
    if sqrt_mode is not False or rounding_mode.upper() != "ROUND" or dst_type is not int8:
        raise ValueError("For 'QuantV2', 'sqrt_mode' must be False, 'rounding_mode' 'ROUND' and "
                         f"'dst_type' int8, but got {sqrt_mode}, {rounding_mode!r}, {dst_type}.")
    return ops.cast(ops.clamp(ops.round(x * scale + offset), -128, 127), int8)


def _sliced(input: Tensor, dim: int, start: int, end: int, step: int) -> Tensor:
    axis = dim % input.ndim
    return input[(slice(None),) * axis + (slice(start, end, step),)]


def _copied(x: Tensor, value: Tensor, begin: Any, end: Any, strides: Any) -> Tensor:
    """A copy of `x` with `value` written into slices of its leading axes."""
    out = x.copy()
    out[tuple(slice(*key) for key in zip(begin, end, strides, strict=True))] = value
    return out


def _nearest(x: Tensor, output_size: Any, scales: Any) -> Tensor:
    out: Tensor = functional.interpolate(
        x, tuple(output_size) if output_size else None, scales or None, mode="nearest")
    return out


PRIMITIVES = make_primitives({
    "Embedding": functional.embedding, "ExpandDimsView": ops.expand_dims, "ListToTuple": tuple,
    "MaxDim": lambda input, dim, keepdim=False: mint.max(input, dim, keepdim),
    "MinDim": lambda input, dim, keepdim=False: mint.min(input, dim, keepdim),
    "NewOnes": lambda input, size, dtype=None: input.new_ones(size, dtype=dtype),
    "NewZeros": lambda input, size, dtype=None: input.new_zeros(size, dtype=dtype),
    "QuantV2": _quantized,
    "SliceExtView": _sliced, "TensorCopySlices": _copied, "TupleToList": list,
    "UpsampleNearest1D": _nearest, "UpsampleNearest2D": _nearest,
}, {})
"""Primitives of `ops.auto_generate` by name."""

if not TYPE_CHECKING:
    def __getattr__(name: str) -> Any:
        if name in PRIMITIVES:
            return PRIMITIVES[name]
        stem = _OTHERS.get(name) or next(
            (name.removesuffix(end) for end in _ENDS if name.endswith(end)), "")
        for home in (functional, mint) if stem else ():
            if stem in home.__all__:
                return getattr(home, stem)
        ready = "".join(word.title() for word in name.split("_"))
        if name.endswith("_") and hasattr(ops, ready):
            return getattr(ops, ready)()
        raise no_attribute(__name__, name)
