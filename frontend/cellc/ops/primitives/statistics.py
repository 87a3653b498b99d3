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


def _bound(right: bool) -> Callable[..., Tensor]:
    def function(sorted_x: Tensor, values: Tensor, *, out_type: DType = int32) -> Tensor:
        return cast_to(sorting.searchsorted(sorted_x, values, right=right), out_type)

    return function


def _euclidean(x: Tensor, axes: Any = None, *, keep_dims: bool = False) -> Tensor:
    total = reductions.sum(arith.mul(x, x), axes, keep_dims, dtype=x.dtype)
    return cast_to(arith.sqrt(total), x.dtype)


_PLAIN: dict[str, Callable[..., Any]] = {
    "ComplexAbs": arith.abs,
    "ConjugateTranspose": lambda x, perm: arith.conj(x.transpose(perm)),
    "Eps": special.eps, "FastGelu": activation.fast_gelu, "FastGeLU": activation.fast_gelu,
    "LerpScalar": special.lerp, "MatrixBandPart": band.matrix_band_part,
    "TruncateDiv": special.truncate_div,
    "IdentityN": lambda x: tuple(x),
    "MatrixDeterminant": elimination.det, "LogMatrixDeterminant": elimination.slogdet,
    "Igamma": classes.igamma, "Igammac": classes.igammac,
}

_WITH_INIT: dict[str, tuple[Callable[..., Any], Mapping[str, Any]]] = {
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
}

_OWN: dict[str, Callable[..., Any]] = {
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
