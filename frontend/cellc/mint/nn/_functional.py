"""The functions of `mint.nn.functional`, in tables.

Source: the functions of the same names in `mindspore.mint.nn.functional`.
"""

from __future__ import annotations

from typing import Any

from cellc_runtime.lazy import names_of

from ... import ops
from ...core.declared import misuse
from ...core.dispatch import apply
from ...ops.arguments import integer
from ...ops.functional import activation, window
from ...ops.functional.sorting import bins
from ...tensors.promotion import operands
from ...tensors.tensor import Tensor
from ..tables import Table, named
from . import _norms, _windows


def _softmax(input: Tensor, dim: Any = None, dtype: Any = None) -> Tensor:
    return ops.softmax(input, _last(input, dim), dtype=dtype)


def _last(x: Tensor, dim: Any) -> int:
    """The axis a softmax without `dim` takes: 0 of up to one or three axes, else 1."""
    if dim is not None:
        return int(dim)
    return 0 if x.ndim in (0, 1, 3) else 1


def _into(input: Tensor, out: Tensor, inplace: bool) -> Tensor:
    """The result, written into the tensor if that is requested."""
    return input.copy_(out) if inplace else out


def _activations() -> Table:
    """Activations, and those that write into their operand."""
    return {
        "relu6": lambda input, inplace=False: _into(input, ops.relu6(input), inplace),
        "silu": lambda input, inplace=False: _into(input, ops.silu(input), inplace),
        "elu": lambda input, alpha=1.0, inplace=False: _into(
            input, ops.elu(input, alpha), inplace),
        "hardtanh": lambda input, min_val=-1.0, max_val=1.0, inplace=False: _into(
            input, ops.hardtanh(input, min_val, max_val), inplace),
        "threshold": lambda input, threshold, value, inplace=False: _into(
            input, ops.threshold(input, threshold, value), inplace),
        "mish": lambda input: ops.mish(input), "selu": lambda input: ops.selu(input),
        "leaky_relu": lambda input, negative_slope=0.01: ops.leaky_relu(input, negative_slope),
        "logsigmoid": lambda input: ops.logsigmoid(input),
        "softshrink": lambda input, lambd=0.5: ops.softshrink(input, lambd),
        "glu": lambda input, dim=-1: ops.glu(input, dim),
        "softmax": _softmax,
        "log_softmax": lambda input, dim=None, *, dtype=None: ops.log_softmax(
            input if dtype is None else ops.cast(input, dtype), _last(input, dim)),
        "gelu": lambda input, *, approximate="none": ops.gelu(input, approximate),
        "relu_": lambda input: input.copy_(ops.relu(input)),
        "sigmoid_": lambda input: input.copy_(ops.sigmoid(input)),
        "elu_": lambda input, alpha=1.0: input.copy_(ops.elu(input, alpha)),
        "hardtanh_": lambda input, min_val=-1, max_val=1: input.copy_(
            ops.hardtanh(input, min_val, max_val)),
        "threshold_": lambda input, threshold, value: input.copy_(
            ops.threshold(input, threshold, value)),
    }


def _losses() -> Table:
    """Losses."""
    return {
        "cross_entropy": ops.cross_entropy,
        "nll_loss": lambda input, target, weight=None, ignore_index=-100, reduction="mean":
            ops.nll_loss(input, target, weight, ignore_index, reduction),
        "binary_cross_entropy": lambda input, target, weight=None, reduction="mean":
            ops.binary_cross_entropy(input, target, weight, reduction),
        "binary_cross_entropy_with_logits": lambda input, target, weight=None, reduction="mean",
        pos_weight=None: ops.binary_cross_entropy_with_logits(
            input, target, weight, pos_weight, reduction),
        "smooth_l1_loss": lambda input, target, reduction="mean", beta=1.0: ops.smooth_l1_loss(
            input, target, beta, reduction),
        "kl_div": _kl_div,
    }


def _pools() -> Table:
    """Pools with the kernel size as the default stride."""
    return {
        "avg_pool1d": lambda input, kernel_size, stride=None, padding=0, ceil_mode=False,
        count_include_pad=True: ops.avg_pool1d(
            input, kernel_size, kernel_size if stride is None else stride, padding, ceil_mode,
            count_include_pad),
        "avg_pool2d": lambda input, kernel_size, stride=None, padding=0, ceil_mode=False,
        count_include_pad=True, divisor_override=None: ops.avg_pool2d(
            input, kernel_size, kernel_size if stride is None else stride, padding, ceil_mode,
            count_include_pad, divisor_override or 0),
        "avg_pool3d": lambda input, kernel_size, stride=None, padding=0, ceil_mode=False,
        count_include_pad=True, divisor_override=None: ops.avg_pool3d(
            input, kernel_size, kernel_size if stride is None else stride, padding, ceil_mode,
            count_include_pad, divisor_override or 0),
        "max_pool2d": lambda input, kernel_size, stride=None, padding=0, dilation=1,
        ceil_mode=False, return_indices=False: ops.max_pool2d(
            input, kernel_size, stride, padding, dilation, return_indices, ceil_mode),
        "max_unpool2d": lambda input, indices, kernel_size, stride=None, padding=0,
        output_size=None: ops.max_unpool2d(
            input, indices, kernel_size, stride, padding, output_size),
    }


def _table() -> Table:
    shared = {n: getattr(ops, n) for n in (
        "hardsigmoid", "hardswish", "hardshrink", "l1_loss", "mse_loss",
        "pixel_shuffle", "prelu", "sigmoid", "softplus", "tanh",
        "soft_margin_loss", "adaptive_avg_pool1d", "adaptive_avg_pool2d",
        "adaptive_avg_pool3d", "adaptive_max_pool2d", "cosine_embedding_loss", "group_norm",
        "grid_sample", "relu")}
    return {
        **shared, **_activations(), **_losses(), **_pools(),
        "clamp": lambda input, min=None, max=None: ops.clamp(input, min, max),
        "flatten": lambda input, start_dim=0, end_dim=-1: ops.flatten(
            input, start_dim=start_dim, end_dim=end_dim),
        "linear": lambda input, weight, bias=None: ops.dense(input, weight, bias),
        "embedding": lambda input, weight, padding_idx=None, max_norm=None, norm_type=2.0,
        scale_grad_by_freq=False: ops.embedding(
            input, weight, padding_idx, max_norm, norm_type, scale_grad_by_freq),
        "dropout": lambda input, p=0.5, training=True, inplace=False: _into(
            input, ops.dropout(input, p, training and p != 0), inplace),
        "dropout2d": lambda input, p=0.5, training=True, inplace=False: _into(
            input, ops.dropout2d(input, p, training), inplace),
        "layer_norm": lambda input, normalized_shape, weight=None, bias=None, eps=1e-05:
            ops.layer_norm(input, normalized_shape,
                           ops.ones(normalized_shape, input.dtype) if weight is None else weight,
                           ops.zeros(normalized_shape, input.dtype) if bias is None else bias,
                           eps),
        "pad": lambda input, pad, mode="constant", value=None: ops.pad(input, pad, mode, value),
        "unfold": _unfold, "fold": _fold,
        "interpolate": window.interpolate_ext, "normalize": activation.normalize,
        "conv1d": _windows.conv1d, "conv2d": _windows.conv2d, "conv3d": _windows.conv3d,
        "conv_transpose2d": _windows.conv_transpose2d,
        "adaptive_max_pool1d": _windows.adaptive_max_pool1d,
        "batch_norm": _norms.batch_norm,
        "one_hot": _one_hot,
        "upsample": lambda input, size=None, scale_factor=None, mode="nearest",
        align_corners=None: window.interpolate_ext(
            input, size, scale_factor, mode, align_corners),
    }


def _unfold(
    input: Tensor, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
) -> Tensor:
    """The windows of (N, C, H, W) or (C, H, W) as columns (N, C kH kW, positions)."""
    if input.ndim != 3:
        return ops.unfold(input, kernel_size, dilation, padding, stride)
    return ops.squeeze(ops.unfold(
        ops.unsqueeze(input, 0), kernel_size, dilation, padding, stride), 0)


def _fold(
    input: Tensor, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0,
    stride: Any = 1,
) -> Tensor:
    """Columns (N, C kH kW, positions), or without N, summed into images (N, C, H, W)."""
    if input.ndim != 2:
        return ops.fold(input, output_size, kernel_size, dilation, padding, stride)
    return ops.squeeze(ops.fold(
        ops.unsqueeze(input, 0), output_size, kernel_size, dilation, padding, stride), 0)


def _kl_div(
    input: Tensor, target: Tensor, reduction: str = "mean", log_target: bool = False
) -> Tensor:
    """target (log target - input) of log-probabilities and probabilities, reduced.

    Args:
        reduction: `"mean"`, `"sum"`, `"none"` or `"batchmean"`, the sum over the number of rows.
        log_target: the target is log-probabilities too.
    """
    loss = ops.exp(target) * (target - input) if log_target else apply("kl_div", *operands(
        "kl_div", input, target))
    if reduction == "batchmean":
        rows = float(input.shape[0] if input.ndim else 1)
        return ops.sum(loss) / rows
    if reduction not in ("mean", "sum", "none"):
        raise misuse("kl_div",
                     "the 'reduction' must be one of ['mean', 'sum', 'none', 'batchmean']",
                     repr(reduction))
    if reduction == "none":
        return loss
    return ops.mean(loss) if reduction == "mean" else ops.sum(loss)


def _one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """Indices as vectors of `num_classes` with a one at the index; of the largest + 1 if -1."""
    if not isinstance(tensor, Tensor) or not tensor.dtype.is_integer:
        raise misuse("one_hot", "'tensor' must be a Tensor of int32 or int64",
                     tensor.dtype if isinstance(tensor, Tensor) else type(tensor), TypeError)
    count = integer(num_classes, "one_hot", "num_classes")
    if count < -1:
        raise misuse("one_hot", "'num_classes' must be -1 or more", count)
    if count == -1:
        count = bins(tensor, 0, "one_hot")
    return ops.one_hot(tensor, count, ops.cast(1, tensor.dtype), ops.cast(0, tensor.dtype))


FUNCTIONS = named(_table(), __name__.replace("._", "."), "mint.nn.functional")
"""Every function by name."""
__all__ = sorted(FUNCTIONS)
__getattr__ = names_of(__name__, FUNCTIONS)
