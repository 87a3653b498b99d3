"""Primitive classes of `functional_more`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from cellc_compiler.ir.op import REQUIRED
from cellc_runtime.dtypes import DType, float32, int32, int64

from ..tensors.promotion import cast_to
from ..tensors.tensor import Tensor
from . import functional_band as band
from . import functional_classes as classes
from . import functional_create as fc
from . import functional_loss as loss
from . import functional_math as m
from . import functional_more as more
from . import functional_nn as fn
from . import functional_random as rnd
from . import functional_reduce as fr
from . import functional_solve as solve
from . import functional_sort as fo
from . import functional_special as fx
from . import functional_volume as volume
from .primitive import Primitive
from .primitives import make_primitive


def _renorm(input_x: Tensor, p: float, dim: int, maxnorm: float) -> Tensor:
    return more.renorm(input_x, p, dim, maxnorm)


def _bound(right: bool) -> Callable[..., Tensor]:
    def function(sorted_x: Tensor, values: Tensor, out_type: DType) -> Tensor:
        return cast_to(fo.searchsorted(sorted_x, values, right=right), out_type)

    return function


def _tril_indices(row: int, col: int, offset: int, dtype: DType) -> Tensor:
    return fc.tril_indices(row, col, offset, dtype=dtype)


def _triu_indices(row: int, col: int, offset: int, dtype: DType) -> Tensor:
    return fc.triu_indices(row, col, offset, dtype=dtype)


def _unique_consecutive(
    input: Tensor, return_inverse: bool, return_counts: bool, dim: int | None
) -> Any:
    return fo.unique_consecutive(input, return_inverse, return_counts, dim)


def _logit(input: Tensor, eps: float) -> Tensor:
    return fx.logit(input, None if eps < 0 else eps)


def _euclidean(x: Tensor, axes: Any = None, *, keep_dims: bool) -> Tensor:
    total = fr.sum(m.mul(x, x), axes, keep_dims, dtype=x.dtype)
    return cast_to(m.sqrt(total), x.dtype)


def _triplet(x: Tensor, positive: Tensor, negative: Tensor, margin: Any, p: int, swap: bool,
             eps: float, reduction: str) -> Tensor:
    return loss.triplet_margin_loss(x, positive, negative, margin, p, eps, swap, reduction)


def _inverse(x: Tensor, adjoint: bool) -> Tensor:
    return solve.inverse(x.swapaxes(-1, -2) if adjoint else x)


_PLAIN: dict[str, Callable[..., Any]] = {
    "ComplexAbs": m.abs, "ConjugateTranspose": lambda x, perm: m.conj(x.transpose(perm)),
    "Eps": more.eps, "FastGelu": fn.fast_gelu, "FastGeLU": fn.fast_gelu,
    "LerpScalar": fx.lerp, "MatrixBandPart": more.matrix_band_part,
    "TruncateDiv": more.truncate_div, "IdentityN": lambda x: tuple(x),
    "MatrixDeterminant": solve.det, "LogMatrixDeterminant": solve.slogdet,
    "Igamma": classes.igamma, "Igammac": classes.igammac,
}

_WITH_INIT: dict[str, tuple[Callable[..., Any], Mapping[str, Any]]] = {
    "AdaptiveAvgPool3D": (volume.adaptive_avg_pool3d, {"output_size": REQUIRED}),
    "CTCGreedyDecoder": (classes.ctc_greedy_decoder, {"merge_repeated": True}),
    "MatrixDiagPartV3": (band.matrix_diag_part, {"align": "RIGHT_LEFT"}),
    "MatrixDiagV3": (band.matrix_diag, {"align": "RIGHT_LEFT"}),
    "MatrixInverse": (_inverse, {"adjoint": False}),
    "MatrixSetDiagV3": (band.matrix_set_diag, {"align": "RIGHT_LEFT"}),
    "Padding": (band.padding, {"pad_dim_size": 8}),
    "ApproximateEqual": (more.approximate_equal, {"tolerance": 1e-5}),
    "Bucketize": (lambda input, boundaries: more.bucketize(input, boundaries, right=True),
                  {"boundaries": REQUIRED}),
    "ChannelShuffle": (lambda x, group: more.channel_shuffle(x, group), {"group": REQUIRED}),
    "EuclideanNorm": (_euclidean, {"keep_dims": False}),
    "Histogram": (more.histc, {"bins": 100, "min": 0.0, "max": 0.0}),
    "IOU": (more.iou, {"mode": "iou"}), "InTopK": (more.intopk, {"k": REQUIRED}),
    "Logit": (_logit, {"eps": -1.0}),
    "LowerBound": (_bound(False), {"out_type": int32}),
    "UpperBound": (_bound(True), {"out_type": int32}),
    "Pdist": (more.pdist, {"p": 2.0}),
    "Renorm": (_renorm, {"p": REQUIRED, "dim": REQUIRED, "maxnorm": REQUIRED}),
    "TrilIndices": (_tril_indices, {"row": REQUIRED, "col": REQUIRED, "offset": 0,
                                    "dtype": int32}),
    "TriuIndices": (_triu_indices, {"row": REQUIRED, "col": REQUIRED, "offset": 0,
                                    "dtype": int32}),
    "UniqueConsecutive": (_unique_consecutive, {"return_inverse": False, "return_counts": False,
                                                "dim": None}),
    "SpaceToBatchND": (lambda x, block_shape, paddings: more.space_to_batch_nd(
        x, block_shape, paddings), {"block_shape": REQUIRED, "paddings": REQUIRED}),
    "BatchToSpaceND": (lambda x, block_shape, crops: more.batch_to_space_nd(
        x, block_shape, crops), {"block_shape": REQUIRED, "crops": REQUIRED}),
    "SpaceToBatch": (lambda x, block_size, paddings: more.space_to_batch_nd(
        x, block_size, paddings), {"block_size": REQUIRED, "paddings": REQUIRED}),
    "BatchToSpace": (lambda x, block_size, crops: more.batch_to_space_nd(
        x, block_size, crops), {"block_size": REQUIRED, "crops": REQUIRED}),
    "AffineGrid": (more.affine_grid, {"align_corners": False}),
    "MultiMarginLoss": (
        lambda x, target, weight=None, *, p, margin, reduction: more.multi_margin_loss(
            x, target, p, margin, weight, reduction),
        {"p": 1, "margin": 1.0, "reduction": "mean"}),
    "TripletMarginLoss": (_triplet, {"p": 2, "swap": False, "eps": 1e-06, "reduction": "mean"}),
    "BartlettWindow": (more.bartlett_window, {"periodic": True, "dtype": float32}),
    "BlackmanWindow": (more.blackman_window, {"periodic": True, "dtype": float32}),
    "HammingWindow": (more.hamming_window, {"periodic": True, "alpha": 0.54, "beta": 0.46,
                                            "dtype": float32}),
    "RandpermV2": (lambda n, seed, offset, dtype: rnd.randperm(int(n), seed, offset, dtype),
                   {"seed": 0, "offset": 0, "dtype": int64}),
}

PRIMITIVES: Mapping[str, type[Primitive]] = {
    **{name: make_primitive(name, f) for name, f in _PLAIN.items()},
    **{name: make_primitive(name, f, p) for name, (f, p) in _WITH_INIT.items()},
}
"""Every primitive class of this module by name."""
