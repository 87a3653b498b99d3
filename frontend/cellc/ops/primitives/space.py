"""Primitive classes of windows, volumes, images, matrices, statistics and sparse tensors:
`ops.Conv3D`, `ops.Qr`, `ops.Histogram`, ..."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from cellc_compiler.ir.op import REQUIRED
from cellc_runtime.dtypes import DType, float32, int32, int64

from ...core.declared import misuse
from ...tensors.promotion import cast_to
from ...tensors.tensor import Tensor
from ..arguments import choice, ints, is_int, tensor
from ..functional import (
    activation,
    arith,
    band,
    blocks,
    classes,
    creation,
    decompositions,
    draws,
    elimination,
    joining,
    linalg,
    loss,
    orthogonal,
    reductions,
    sampling,
    shapes,
    sorting,
    sparse,
    special,
    statistics,
    tapers,
    volume,
    window,
)
from ..primitive import Primitive
from .tables import make_primitives

Pair = tuple[Tensor, Tensor]


# --- windows --------------------------------------------------------------------------------------


def _pads(given: Any, what: str) -> tuple[int, ...]:
    """Zeros before and after depth, rows and columns."""
    pads = (int(given),) * 6 if is_int(given) else ints(given, what, "pad")
    if len(pads) != 6 or min(pads) < 0:
        raise misuse(what, "'pad' must be an int or 6 ints of 0 or more", given)
    return pads


def _same_on_both_sides(given: Any, what: str) -> tuple[int, int, int]:
    p = _pads(given, what)
    if p[::2] != p[1::2]:
        raise misuse(what, "zeros must be as many before as after an axis", given)
    return p[0], p[2], p[4]


def _mode(pad_mode: Any, what: str) -> str:
    return choice(str(pad_mode).lower(), ("same", "valid", "pad"), what, "pad_mode")


def _volume_pool(kind: str, what: str) -> Callable[..., Tensor]:
    def max_pool(
        x: Tensor, *, kernel_size: Any = 1, strides: Any = 1, pad_mode: str = "VALID",
        pad_list: Any = 0, ceil_mode: bool | None = None, data_format: str = "NCDHW",
    ) -> Tensor:
        if _mode(pad_mode, what) != "pad":
            return volume.pool3d(kind, x, kernel_size, strides, pad_mode)
        out: Tensor = volume.max_pool3d(
            x, kernel_size, strides, _same_on_both_sides(pad_list, what), 1, bool(ceil_mode))
        return out

    def mean_pool(
        x: Tensor, *, kernel_size: Any = 1, strides: Any = 1, pad_mode: str = "valid",
        pad: Any = 0, ceil_mode: bool = False, count_include_pad: bool = True,
        divisor_override: int = 0, data_format: str = "NCDHW",
    ) -> Tensor:
        if _mode(pad_mode, what) == "same":
            return volume.pool3d(kind, x, kernel_size, strides, pad_mode, count_include_pad)
        zeros = _same_on_both_sides(pad, what)
        return volume.avg_pool3d(x, kernel_size, strides, zeros, ceil_mode, count_include_pad,
                                 divisor_override)

    return max_pool if kind == "max" else mean_pool


def _max_pool_argmax(
    x: Tensor, *, ksize: Any, strides: Any, pads: Any, dilation: Any = (1, 1, 1),
    ceil_mode: bool = False, data_format: str = "NCDHW", argmax_type: DType = int64,
) -> Pair:
    values, index = volume.max_pool3d(x, ksize, strides, pads, dilation, ceil_mode, True)
    return values, cast_to(index, argmax_type)


def _unpooled(spatial: int) -> Callable[..., Tensor]:
    function = volume.max_unpool2d if spatial == 2 else volume.max_unpool3d

    def unpool(
        x: Tensor, argmax: Tensor, *, ksize: Any, strides: Any = 0, pads: Any = 0,
        output_shape: Any = (), data_format: str = "NCHW" if spatial == 2 else "NCDHW",
    ) -> Tensor:
        stride = None if strides in (0, (0,) * spatial) else strides
        return function(x, argmax, ksize, stride, pads, tuple(output_shape) or None)

    return unpool


def _conv3d(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, *, out_channel: int, kernel_size: Any,
    mode: int = 1, pad_mode: str = "valid", pad: Any = 0, stride: Any = 1, dilation: Any = 1,
    group: int = 1, data_format: str = "NCDHW",
) -> Tensor:
    five = tuple(v[-3:] if isinstance(v, (list, tuple)) else v for v in (stride, dilation))
    return window.conv3d(x, weight, bias, five[0], pad_mode, pad, five[1], group)


def _conv3d_transpose(
    dout: Tensor, weight: Tensor, bias: None = None, *, in_channel: int, out_channel: int,
    kernel_size: Any, mode: int = 1, pad_mode: str = "valid", pad: Any = 0, stride: Any = 1,
    dilation: Any = 1, group: int = 1, output_padding: Any = 0, data_format: str = "NCDHW",
) -> Tensor:
    if bias is not None:
        raise misuse("Conv3DTranspose", "'bias' must be None; add it to the result")
    return volume.conv3d_transpose(dout, weight, pad_mode, pad, stride, dilation, group,
                                   output_padding)


def _columns(
    x: Tensor, *, ksizes: Any, strides: Any = 1, dilations: Any = 1, pads: Any = 0
) -> Tensor:
    """Sliding blocks (N, C, elements of a block, blocks)."""
    out = window.unfold(x, ksizes, dilations, pads, strides)
    return shapes.reshape(out, (out.shape[0], x.shape[1], -1, out.shape[-1]))


def _drop(x: Tensor, *, keep_prob: float = 0.5) -> Pair:
    ones = creation.ones((*x.shape[:2], 1, 1, 1), x.dtype)
    mask = draws.dropout3d(ones, 1.0 - keep_prob)
    return x * mask, shapes.broadcast_to(mask != 0, x.shape)


# --- images ---------------------------------------------------------------------------------------


def _sample(
    input_x: Tensor, grid: Tensor, *, interpolation_mode: str = "bilinear",
    padding_mode: str = "zeros", align_corners: bool = False,
) -> Tensor:
    return sampling.grid_sample(input_x, grid, interpolation_mode, padding_mode, align_corners)


def _make_resize(mode: str, what: str) -> Callable[..., Tensor]:
    """An image (N, C, H, W) of another size, by where MindSpore's options put the pixels."""
    def resize(
        image: Tensor, size: Any, *, align_corners: bool = False, half_pixel_centers: bool = False
    ) -> Tensor:
        x, new = window.image_of(image, 2, what), ints(size, what, "size")
        if len(new) != 2 or min(new) < 1:
            raise misuse(what, "'size' must be 2 positive ints", size)
        if align_corners and half_pixel_centers:
            raise misuse(what, "only one of 'align_corners' and 'half_pixel_centers' can be True")
        x = x if mode == "nearest" or x.dtype.is_float else cast_to(x, float32)
        for axis, n in zip((2, 3), new, strict=True):
            x = window.resize_axis(x, axis, n, mode, align_corners, None, half_pixel_centers)
        return x

    return resize


def _resized_line(
    x: Tensor, size: Any, *, coordinate_transformation_mode: str = "align_corners"
) -> Tensor:
    align = choice(coordinate_transformation_mode, ("align_corners", "half_pixel"),
                   "ResizeLinear1D", "coordinate_transformation_mode") == "align_corners"
    return window.interpolate(x, ints(size, "ResizeLinear1D", "size")[0], None, "linear", align)


def _upsample(x: Tensor, output_size: Any = None, scales: Any = None, *, mode: str,
              align_corners: bool | None = None) -> Tensor:
    return window.interpolate(x, output_size, None if scales is None else tuple(scales), mode,
                              align_corners)


# --- matrices -------------------------------------------------------------------------------------


def _median(
    x: Tensor, *, global_median: bool = False, axis: int = 0, keep_dims: bool = False,
    ignore_nan: bool = False,
) -> Pair:
    if ignore_nan:
        raise misuse("Median", "'ignore_nan' must be False on a CPU")
    if not global_median:
        return sorting.median(x, axis, keep_dims)
    value = sorting.median(shapes.reshape(x, (-1,)), 0)[0]
    return value, creation.zeros((), int64)  # (MindSpore gives no position there)


def _cumulative(x: Tensor, axis: Any, *, exclusive: bool = False, reverse: bool = False) -> Tensor:
    """log of the running sums of exponentials."""
    a = int(axis)
    line = shapes.flip(x, (a % x.ndim,)) if reverse else x
    out = reductions.logcumsumexp(line, a)
    if exclusive:
        n = x.shape[a]
        first = creation.full_like(
            joining.part(out, a % x.ndim, 0, 1), -float(arith.largest(x.dtype)))
        out = joining.concat((first, joining.part(out, a % x.ndim, 0, n - 1)), a)
    return shapes.flip(out, (a % x.ndim,)) if reverse else out


def _invert(input_x: Any) -> tuple[int, ...]:
    """The permutation that undoes one given as a tuple of ints."""
    p = ints(input_x, "InvertPermutation", "input_x")
    if sorted(p) != list(range(len(p))):
        raise misuse("InvertPermutation", f"'input_x' must hold each of 0 to {len(p) - 1} once", p)
    return tuple(p.index(i) for i in range(len(p)))


# --- statistics ----------------------------------------------------------------------------------


def _bound(right: bool) -> Callable[..., Tensor]:
    def function(sorted_x: Tensor, values: Tensor, *, out_type: DType = int32) -> Tensor:
        return cast_to(sorting.searchsorted(sorted_x, values, right=right), out_type)

    return function


def _euclidean(x: Tensor, axes: Any = None, *, keep_dims: bool = False) -> Tensor:
    total = reductions.sum(x * x, axes, keep_dims, dtype=x.dtype)
    return cast_to(arith.sqrt(total), x.dtype)


_PLAIN: dict[str, Callable[..., Any]] = {
    "AdaptiveMaxPool3D": lambda x, output_size: volume.adaptive_max_pool3d(
        x, ints(output_size, "AdaptiveMaxPool3D", "output_size"), True),
    "EqualCount": lambda x, y:
        shapes.reshape(cast_to(reductions.sum(cast_to(arith.eq(x, y), int64)), x.dtype), (1,)),
    "FillV2": lambda shape, value: shapes.broadcast_to(
        tensor(value, "FillV2", "value"), ints(shape, "FillV2", "shape")),
    "InvertPermutation": _invert,
    "UpsampleNearest3D": lambda x, output_size=None, scales=None:
        _upsample(x, output_size, scales, mode="nearest"),
    "ComplexAbs": arith.abs,
    "ConjugateTranspose": lambda x, perm: arith.conj(x.transpose(perm)),
    "Eps": special.eps, "FastGelu": activation.fast_gelu, "FastGeLU": activation.fast_gelu,
    "LerpScalar": special.lerp, "MatrixBandPart": band.matrix_band_part,
    "TruncateDiv": special.truncate_div,
    "IdentityN": lambda x: tuple(x),
    "MatrixDeterminant": elimination.det, "LogMatrixDeterminant": elimination.slogdet,
    "Igamma": classes.igamma, "Igammac": classes.igammac,
    "Geqrf": decompositions.geqrf, "LuSolve": decompositions.lu_solve,
    "MatrixExp": decompositions.matrix_exp,
    "MatrixLogarithm": decompositions.matrix_logarithm, "Orgqr": decompositions.orgqr,
    "Coalesce": sparse.coalesce, "SparseSlice": sparse.sparse_slice,
    "SparseTensorDenseAdd": sparse.sparse_dense_add, "SparseToDense": sparse.sparse_to_dense,
}

_WITH_INIT: dict[str, tuple[Callable[..., Any], Mapping[str, Any]]] = {
    "Cholesky": (elimination.cholesky, {"upper": False}),
    "CholeskyInverse": (elimination.cholesky_inverse, {"upper": False}),
    "CholeskySolve": (elimination.cholesky_solve, {"upper": False}),
    "MatrixPower": (linalg.matrix_power, {"n": REQUIRED}),
    "MatrixSolve": (elimination.matrix_solve, {"adjoint": False}),
    "Mvlgamma": (classes.mvlgamma, {"p": REQUIRED}),
    "Svd": (orthogonal.svd, {"full_matrices": False, "compute_uv": True}),
    "AdaptiveAvgPool3D": (volume.adaptive_avg_pool3d, {"output_size": REQUIRED}),
    "CTCGreedyDecoder": (classes.ctc_greedy_decoder, {"merge_repeated": True}),
    "MatrixDiagPartV3": (band.matrix_diag_part, {"align": "RIGHT_LEFT"}),
    "MatrixDiagV3": (band.matrix_diag, {"align": "RIGHT_LEFT"}),
    "MatrixSetDiagV3": (band.matrix_set_diag, {"align": "RIGHT_LEFT"}),
    "Padding": (band.padding, {"pad_dim_size": 8}),
    "ApproximateEqual": (special.approximate_equal, {"tolerance": 1e-5}),
    "Histogram": (statistics.histc, {"bins": 100, "min": 0.0, "max": 0.0}),
    "IOU": (sampling.iou, {"mode": "iou"}), "InTopK": (statistics.intopk, {"k": REQUIRED}),
    "Pdist": (statistics.pdist, {"p": 2.0}),
    "TrilIndices": (creation.tril_indices, {"row": REQUIRED, "col": REQUIRED, "offset": 0,
                                    "dtype": int32}),
    "TriuIndices": (creation.triu_indices, {"row": REQUIRED, "col": REQUIRED, "offset": 0,
                                    "dtype": int32}),
    "UniqueConsecutive": (
        sorting.unique_consecutive, {"return_inverse": False, "return_counts": False,
                                                "dim": None}),
    "AffineGrid": (sampling.affine_grid, {"align_corners": False}),
    "BartlettWindow": (tapers.bartlett_window, {"periodic": True, "dtype": float32}),
    "BlackmanWindow": (tapers.blackman_window, {"periodic": True, "dtype": float32}),
    "HammingWindow": (tapers.hamming_window, {"periodic": True, "alpha": 0.54, "beta": 0.46,
                                            "dtype": float32}),
    "Eig": (decompositions.eig_primitive, {"compute_v": False}),
    "Lstsq": (decompositions.lstsq_fast, {"fast": True, "l2_regularizer": 0.0}),
    "LuUnpack": (decompositions.lu_unpack, {"unpack_data": True, "unpack_pivots": True}),
    "MatrixSolveLs": (decompositions.matrix_solve_ls, {"fast": True}),
    "NuclearNorm": (decompositions.nuclear_norm, {"dim": None, "keepdim": False}),
    "Ormqr": (decompositions.ormqr, {"left": True, "transpose": False}),
    "SparseTensorDenseMatmul": (sparse.sparse_dense_matmul,
                                {"adjoint_st": False, "adjoint_dt": False}),
}

_OWN: dict[str, Callable[..., Any]] = {
    "AvgPool3D": _volume_pool("avg", "AvgPool3D"), "MaxPool3D": _volume_pool("max", "MaxPool3D"),
    "Conv3D": _conv3d, "Conv3DTranspose": _conv3d_transpose,
    "GridSampler2D": _sample, "GridSampler3D": _sample,
    "MaxUnpool2D": _unpooled(2), "MaxUnpool3D": _unpooled(3),
    "ResizeBicubic": _make_resize("bicubic", "ResizeBicubic"),
    "ResizeBilinearV2": _make_resize("bilinear", "ResizeBilinearV2"),
    "ResizeNearestNeighborV2": _make_resize("nearest", "ResizeNearestNeighborV2"),
    "Col2Im": lambda x, output_size, *, kernel_size, dilation=1, padding=0, stride=1:
        band.col2im(x, output_size, kernel_size, dilation, padding, stride),
    "CumulativeLogsumexp": _cumulative, "Dropout3D": _drop, "Im2Col": _columns,
    "LogSpace": lambda start, end, *, steps=10, base=10, dtype=float32:
        cast_to(arith.pow(float(base), creation.linspace(start, end, int(steps))), dtype),
    "MatrixTriangularSolve": lambda matrix, rhs, *, lower=True, adjoint=False:
        orthogonal.triangular_solve(rhs, matrix, not lower, adjoint)[0],
    "MaxPool3DWithArgmax": _max_pool_argmax, "Median": _median,
    "Qr": lambda x, *, full_matrices=False:
        orthogonal.qr(x, "complete" if full_matrices else "reduced"),
    "ResizeLinear1D": _resized_line,
    "UpsampleTrilinear3D": lambda x, output_size=None, scales=None, *, align_corners=False:
        _upsample(x, output_size, scales, mode="trilinear", align_corners=align_corners),
    "LowerBound": _bound(False), "UpperBound": _bound(True),
    "MatrixInverse": lambda x, *, adjoint=False:
        elimination.inverse(x.swapaxes(-1, -2) if adjoint else x),
    "Bucketize": lambda input, *, boundaries: statistics.bucketize(input, boundaries, right=True),
    "ChannelShuffle": lambda x, *, group: blocks.channel_shuffle(x, group),
    "EuclideanNorm": _euclidean,
    "Logit": lambda input, *, eps=-1.0: special.logit(input, None if eps < 0 else eps),
    "Renorm": lambda input_x, *, p, dim, maxnorm: statistics.renorm(input_x, p, dim, maxnorm),
    "SpaceToBatchND": lambda x, *, block_shape, paddings:
        blocks.space_to_batch_nd(x, block_shape, paddings),
    "BatchToSpaceND": lambda x, *, block_shape, crops:
        blocks.batch_to_space_nd(x, block_shape, crops),
    "SpaceToBatch": lambda x, *, block_size, paddings:
        blocks.space_to_batch_nd(x, block_size, paddings),
    "BatchToSpace": lambda x, *, block_size, crops: blocks.batch_to_space_nd(x, block_size, crops),
    "MultiMarginLoss": lambda x, target, weight=None, *, p=1, margin=1.0, reduction="mean":
        loss.multi_margin_loss(x, target, p, margin, weight, reduction),
    "TripletMarginLoss": lambda x, positive, negative, margin, *, p=2, swap=False, eps=1e-06,
    reduction="mean": loss.triplet_margin_loss(
        x, positive, negative, margin, p, eps, swap, reduction),
    "RandpermV2": lambda n, *, seed=0, offset=0, dtype=int64:
        draws.randperm(int(n), seed, offset, dtype),
}

PRIMITIVES: Mapping[str, type[Primitive]] = make_primitives(_PLAIN, _WITH_INIT, _OWN)
"""Every primitive class of this module by name."""
