"""MindSpore's inner names of what `mint` shows: `amax_ext`, `chunk_view`, `transpose_ext_view`...

Its documentation calls some functions of `mint` by these names of `ops.function.*` and
`ops.auto_generate`, and some primitives by names of the latter; see `old_paths`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cellc_runtime.dtypes import DType, int8
from cellc_runtime.lazy import no_attribute

from . import mint, ops
from .mint import linalg
from .mint.nn import functional
from .ops.functional import decompositions
from .ops.functional.heads import multi_head_attention_forward as multi_head_attention_forward
from .ops.primitives.tables import make_primitives
from .tensors.tensor import Tensor

_ENDS = ("_ext_view", "_ext", "_view")
_OTHERS = {"clamp_scalar": "clamp", "clamp_tensor": "clamp", "clone": "clone",
           "inplace_elu": "elu_", "inplace_hardtanh": "hardtanh_", "kthvalue": "kthvalue",
           "linalg_qr": "qr"}


def add_ext(input: Any, other: Any, alpha: Any = 1) -> Tensor:
    """`mint.add`, whose factor may be given by position. Source: `ops.auto_generate.add_ext`."""
    out: Tensor = mint.add(input, other, alpha=alpha)
    return out


def sub_ext(input: Any, other: Any, alpha: Any = 1) -> Tensor:
    """`mint.sub`, whose factor may be given by position. Source: `ops.auto_generate.sub_ext`."""
    out: Tensor = mint.sub(input, other, alpha=alpha)
    return out


def mean_ext(
    input: Any, axis: Any = None, keep_dims: bool = False, dtype: Any = None, *, dim: Any = None,
    keepdim: bool = False,
) -> Tensor:
    """`mint.mean` by the names of `ops.function.math_func.mean_ext`, or by its own (`dim`,
    `keepdim`), as in `ops.auto_generate`."""
    out: Tensor = mint.mean(input, dim if axis is None else axis, keep_dims or keepdim, dtype=dtype)
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


def new_ones(input: Tensor, size: Any, dtype: DType | None = None) -> Tensor:
    """Ones, of the tensor's type unless it is given. Source: `ops.function.array_func.new_ones`."""
    return input.new_ones(size, dtype=dtype)


def new_zeros(input: Tensor, size: Any, dtype: DType | None = None) -> Tensor:
    """Zeros, of the tensor's type unless it is given. Source:
    `ops.function.array_func.new_zeros`."""
    return input.new_zeros(size, dtype=dtype)


def index(input: Tensor, indices: Any) -> Tensor:
    """Elements by tensors of positions, one for each axis. Source: `ops.auto_generate.index`."""
    out: Tensor = input[tuple(indices)]
    return out


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


def _upsampled(x: Tensor, output_size: Any, scales: Any, mode: str, **options: Any) -> Tensor:
    out: Tensor = functional.interpolate(
        x, tuple(output_size) if output_size else None, scales or None, mode=mode, **options)
    return out


def _nearest(x: Tensor, output_size: Any, scales: Any) -> Tensor:
    return _upsampled(x, output_size, scales, "nearest")


def _bilinear(x: Tensor, output_size: Any, scales: Any, align_corners: bool = False) -> Tensor:
    return _upsampled(x, output_size, scales, "bilinear", align_corners=align_corners)


def _eigenvalues(x: Tensor, compute_v: bool = True) -> tuple[Tensor, Tensor]:
    """Eigenvalues and vectors of symmetric matrices; no vectors unless they are requested."""
    values, vectors = decompositions.eigh(x)
    return values, vectors if compute_v else ops.zeros((0,), x.dtype)


PRIMITIVES = make_primitives({
    "AddV2": ops.add, "AvgPool2D": functional.avg_pool2d, "InnerIndex": index,
    "LinSpaceExt": lambda start, end, steps, dtype=None: mint.linspace(
        start, end, steps, dtype=dtype),
    "ScatterAddExt": lambda input, dim, index, src: mint.scatter_add(input, dim, index, src),
    "UpsampleBilinear2D": _bilinear, "XLogYScalarOther": mint.xlogy,
    "XLogYScalarSelf": mint.xlogy,
    "Embedding": functional.embedding, "ExpandDimsView": ops.expand_dims, "ListToTuple": tuple,
    "MaxDim": lambda input, dim, keepdim=False: mint.max(input, dim, keepdim),
    "MinDim": lambda input, dim, keepdim=False: mint.min(input, dim, keepdim),
    "NewOnes": new_ones, "NewZeros": new_zeros,
    "QuantV2": _quantized,
    "SliceExtView": _sliced, "SparseSegmentMean": ops.sparse_segment_mean,
    "TensorCopySlices": _copied, "TupleToList": list,
    "UpsampleNearest1D": _nearest, "UpsampleNearest2D": _nearest,
}, {"SelfAdjointEig": (_eigenvalues, {"compute_v": True})})
"""Primitives of `ops.auto_generate` by name."""

if not TYPE_CHECKING:
    def __getattr__(name: str) -> Any:
        if name in PRIMITIVES:
            return PRIMITIVES[name]
        stem = _OTHERS.get(name) or next(
            (name.removesuffix(end) for end in _ENDS if name.endswith(end)), "")
        for home in (functional, mint, linalg) if stem else ():
            if stem in home.__all__:
                return getattr(home, stem)
        ready = "".join(word.title() for word in name.split("_"))
        if name.endswith("_") and hasattr(ops, ready):
            return getattr(ops, ready)()
        raise no_attribute(__name__, name)
