"""Primitive classes of statistics, bounds, blocks of images, boxes and window functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from cellc_compiler.ir.op import REQUIRED
from cellc_runtime.dtypes import DType, float32, int32, int64

from ...tensors.promotion import cast_to
from ...tensors.tensor import Tensor
from ..functional import (
    activation,
    arith,
    band,
    blocks,
    classes,
    creation,
    draws,
    elimination,
    loss,
    reductions,
    sampling,
    sorting,
    special,
    statistics,
    tapers,
    volume,
)
from ..primitive import Primitive
from .tables import make_primitives


def _renorm(input_x: Tensor, p: float, dim: int, maxnorm: float) -> Tensor:
    return statistics.renorm(input_x, p, dim, maxnorm)


def _bound(right: bool) -> Callable[..., Tensor]:
    def function(sorted_x: Tensor, values: Tensor, out_type: DType) -> Tensor:
        return cast_to(sorting.searchsorted(sorted_x, values, right=right), out_type)

    return function


def _logit(input: Tensor, eps: float) -> Tensor:
    return special.logit(input, None if eps < 0 else eps)


def _euclidean(x: Tensor, axes: Any = None, *, keep_dims: bool) -> Tensor:
    total = reductions.sum(arith.mul(x, x), axes, keep_dims, dtype=x.dtype)
    return cast_to(arith.sqrt(total), x.dtype)


def _triplet(x: Tensor, positive: Tensor, negative: Tensor, margin: Any, p: int, swap: bool,
             eps: float, reduction: str) -> Tensor:
    return loss.triplet_margin_loss(x, positive, negative, margin, p, eps, swap, reduction)


def _inverse(x: Tensor, adjoint: bool) -> Tensor:
    return elimination.inverse(x.swapaxes(-1, -2) if adjoint else x)


_PLAIN: dict[str, Callable[..., Any]] = {
    "ComplexAbs": arith.abs, "ConjugateTranspose": lambda x, perm: arith.conj(x.transpose(perm)),
    "Eps": special.eps, "FastGelu": activation.fast_gelu, "FastGeLU": activation.fast_gelu,
    "LerpScalar": special.lerp, "MatrixBandPart": band.matrix_band_part,
    "TruncateDiv": special.truncate_div, "IdentityN": lambda x: tuple(x),
    "MatrixDeterminant": elimination.det, "LogMatrixDeterminant": elimination.slogdet,
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
    "ApproximateEqual": (special.approximate_equal, {"tolerance": 1e-5}),
    "Bucketize": (lambda input, boundaries: statistics.bucketize(input, boundaries, right=True),
                  {"boundaries": REQUIRED}),
    "ChannelShuffle": (lambda x, group: blocks.channel_shuffle(x, group), {"group": REQUIRED}),
    "EuclideanNorm": (_euclidean, {"keep_dims": False}),
    "Histogram": (statistics.histc, {"bins": 100, "min": 0.0, "max": 0.0}),
    "IOU": (sampling.iou, {"mode": "iou"}), "InTopK": (statistics.intopk, {"k": REQUIRED}),
    "Logit": (_logit, {"eps": -1.0}),
    "LowerBound": (_bound(False), {"out_type": int32}),
    "UpperBound": (_bound(True), {"out_type": int32}),
    "Pdist": (statistics.pdist, {"p": 2.0}),
    "Renorm": (_renorm, {"p": REQUIRED, "dim": REQUIRED, "maxnorm": REQUIRED}),
    "TrilIndices": (creation.tril_indices, {"row": REQUIRED, "col": REQUIRED, "offset": 0,
                                    "dtype": int32}),
    "TriuIndices": (creation.triu_indices, {"row": REQUIRED, "col": REQUIRED, "offset": 0,
                                    "dtype": int32}),
    "UniqueConsecutive": (
        sorting.unique_consecutive, {"return_inverse": False, "return_counts": False,
                                                "dim": None}),
    "SpaceToBatchND": (lambda x, block_shape, paddings: blocks.space_to_batch_nd(
        x, block_shape, paddings), {"block_shape": REQUIRED, "paddings": REQUIRED}),
    "BatchToSpaceND": (lambda x, block_shape, crops: blocks.batch_to_space_nd(
        x, block_shape, crops), {"block_shape": REQUIRED, "crops": REQUIRED}),
    "SpaceToBatch": (lambda x, block_size, paddings: blocks.space_to_batch_nd(
        x, block_size, paddings), {"block_size": REQUIRED, "paddings": REQUIRED}),
    "BatchToSpace": (lambda x, block_size, crops: blocks.batch_to_space_nd(
        x, block_size, crops), {"block_size": REQUIRED, "crops": REQUIRED}),
    "AffineGrid": (sampling.affine_grid, {"align_corners": False}),
    "MultiMarginLoss": (
        lambda x, target, weight=None, *, p, margin, reduction: loss.multi_margin_loss(
            x, target, p, margin, weight, reduction),
        {"p": 1, "margin": 1.0, "reduction": "mean"}),
    "TripletMarginLoss": (_triplet, {"p": 2, "swap": False, "eps": 1e-06, "reduction": "mean"}),
    "BartlettWindow": (tapers.bartlett_window, {"periodic": True, "dtype": float32}),
    "BlackmanWindow": (tapers.blackman_window, {"periodic": True, "dtype": float32}),
    "HammingWindow": (tapers.hamming_window, {"periodic": True, "alpha": 0.54, "beta": 0.46,
                                            "dtype": float32}),
    "RandpermV2": (lambda n, seed, offset, dtype: draws.randperm(int(n), seed, offset, dtype),
                   {"seed": 0, "offset": 0, "dtype": int64}),
}

PRIMITIVES: Mapping[str, type[Primitive]] = make_primitives(_PLAIN, _WITH_INIT)
"""Every primitive class of this module by name."""
