"""Primitive classes of statistics, bounds, blocks of images, boxes and window functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from cellc_compiler.ir.op import REQUIRED
from cellc_runtime.dtypes import DType, float32, int32, int64

from ..tensors.promotion import cast_to
from ..tensors.tensor import Tensor
from . import functional_blocks as bl
from . import functional_loss as loss
from . import functional_sampling as sa
from . import functional_tapers as ta
from . import functional_volume as volume
from .families import band, classes, fc, fn, fo, fr, fx, m, rnd, solve, st
from .primitive import Primitive
from .primitives import make_primitives


def _renorm(input_x: Tensor, p: float, dim: int, maxnorm: float) -> Tensor:
    return st.renorm(input_x, p, dim, maxnorm)


def _bound(right: bool) -> Callable[..., Tensor]:
    def function(sorted_x: Tensor, values: Tensor, out_type: DType) -> Tensor:
        return cast_to(fo.searchsorted(sorted_x, values, right=right), out_type)

    return function


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
    "Eps": fx.eps, "FastGelu": fn.fast_gelu, "FastGeLU": fn.fast_gelu,
    "LerpScalar": fx.lerp, "MatrixBandPart": band.matrix_band_part,
    "TruncateDiv": fx.truncate_div, "IdentityN": lambda x: tuple(x),
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
    "ApproximateEqual": (fx.approximate_equal, {"tolerance": 1e-5}),
    "Bucketize": (lambda input, boundaries: st.bucketize(input, boundaries, right=True),
                  {"boundaries": REQUIRED}),
    "ChannelShuffle": (lambda x, group: bl.channel_shuffle(x, group), {"group": REQUIRED}),
    "EuclideanNorm": (_euclidean, {"keep_dims": False}),
    "Histogram": (st.histc, {"bins": 100, "min": 0.0, "max": 0.0}),
    "IOU": (sa.iou, {"mode": "iou"}), "InTopK": (st.intopk, {"k": REQUIRED}),
    "Logit": (_logit, {"eps": -1.0}),
    "LowerBound": (_bound(False), {"out_type": int32}),
    "UpperBound": (_bound(True), {"out_type": int32}),
    "Pdist": (st.pdist, {"p": 2.0}),
    "Renorm": (_renorm, {"p": REQUIRED, "dim": REQUIRED, "maxnorm": REQUIRED}),
    "TrilIndices": (fc.tril_indices, {"row": REQUIRED, "col": REQUIRED, "offset": 0,
                                    "dtype": int32}),
    "TriuIndices": (fc.triu_indices, {"row": REQUIRED, "col": REQUIRED, "offset": 0,
                                    "dtype": int32}),
    "UniqueConsecutive": (fo.unique_consecutive, {"return_inverse": False, "return_counts": False,
                                                "dim": None}),
    "SpaceToBatchND": (lambda x, block_shape, paddings: bl.space_to_batch_nd(
        x, block_shape, paddings), {"block_shape": REQUIRED, "paddings": REQUIRED}),
    "BatchToSpaceND": (lambda x, block_shape, crops: bl.batch_to_space_nd(
        x, block_shape, crops), {"block_shape": REQUIRED, "crops": REQUIRED}),
    "SpaceToBatch": (lambda x, block_size, paddings: bl.space_to_batch_nd(
        x, block_size, paddings), {"block_size": REQUIRED, "paddings": REQUIRED}),
    "BatchToSpace": (lambda x, block_size, crops: bl.batch_to_space_nd(
        x, block_size, crops), {"block_size": REQUIRED, "crops": REQUIRED}),
    "AffineGrid": (sa.affine_grid, {"align_corners": False}),
    "MultiMarginLoss": (
        lambda x, target, weight=None, *, p, margin, reduction: loss.multi_margin_loss(
            x, target, p, margin, weight, reduction),
        {"p": 1, "margin": 1.0, "reduction": "mean"}),
    "TripletMarginLoss": (_triplet, {"p": 2, "swap": False, "eps": 1e-06, "reduction": "mean"}),
    "BartlettWindow": (ta.bartlett_window, {"periodic": True, "dtype": float32}),
    "BlackmanWindow": (ta.blackman_window, {"periodic": True, "dtype": float32}),
    "HammingWindow": (ta.hamming_window, {"periodic": True, "alpha": 0.54, "beta": 0.46,
                                            "dtype": float32}),
    "RandpermV2": (lambda n, seed, offset, dtype: rnd.randperm(int(n), seed, offset, dtype),
                   {"seed": 0, "offset": 0, "dtype": int64}),
}

PRIMITIVES: Mapping[str, type[Primitive]] = make_primitives(_PLAIN, _WITH_INIT)
"""Every primitive class of this module by name."""
