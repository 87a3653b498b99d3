"""`mint.nn.functional`: functions of networks with the parameters of PyTorch."""

from __future__ import annotations

from typing import Any

from ... import ops
from ...common.tensor import Tensor
from .._names import Table, named


def _softmax(input: Tensor, dim: Any = None, dtype: Any = None) -> Tensor:
    return ops.softmax(input, _last(input, dim), dtype=dtype)  # type: ignore[no-any-return]


def _last(x: Tensor, dim: Any) -> int:
    """The axis a softmax without `dim` takes: 0 of up to one or three axes, else 1."""
    if dim is not None:
        return int(dim)
    return 0 if x.ndim in (0, 1, 3) else 1


def _into(input: Tensor, out: Tensor, inplace: bool) -> Tensor:
    """The result, written into the tensor if that is asked for."""
    return input.copy_(out) if inplace else out


def _table() -> Table:
    shared = {n: getattr(ops, n) for n in (
        "hardsigmoid", "hardswish", "hardshrink", "gelu", "l1_loss", "mse_loss",
        "normalize", "pixel_shuffle", "prelu", "sigmoid", "softplus", "tanh",
        "soft_margin_loss", "conv1d", "adaptive_avg_pool1d", "adaptive_avg_pool2d",
        "grid_sample", "relu")}
    return {
        **shared,
        "relu6": lambda input, inplace=False: _into(input, ops.relu6(input), inplace),
        "silu": lambda input, inplace=False: _into(input, ops.silu(input), inplace),
        "elu": lambda input, alpha=1.0, inplace=False: _into(
            input, ops.elu(input, alpha), inplace),
        "hardtanh": lambda input, min_val=-1.0, max_val=1.0, inplace=False: _into(
            input, ops.hardtanh(input, min_val, max_val), inplace),
        "threshold": lambda input, threshold, value, inplace=False: _into(
            input, ops.threshold(input, threshold, value), inplace),
        "mish": lambda input: ops.mish(input), "selu": lambda input: ops.selu(input),
        "clamp": lambda input, min=None, max=None: ops.clamp(input, min, max),
        "flatten": lambda input, start_dim=0, end_dim=-1: ops.flatten(
            input, start_dim=start_dim, end_dim=end_dim),
        "leaky_relu": lambda input, negative_slope=0.01: ops.leaky_relu(input, negative_slope),
        "logsigmoid": lambda input: ops.logsigmoid(input),
        "softshrink": lambda input, lambd=0.5: ops.softshrink(input, lambd),
        "glu": lambda input, dim=-1: ops.glu(input, dim),
        "softmax": _softmax,
        "log_softmax": lambda input, dim=None, *, dtype=None: ops.log_softmax(
            input if dtype is None else ops.cast(input, dtype), _last(input, dim)),
        "linear": lambda input, weight, bias=None: ops.dense(input, weight, bias),
        "embedding": lambda input, weight, padding_idx=None, max_norm=None, norm_type=2.0,
        scale_grad_by_freq=False: ops.embedding(
            input, weight, padding_idx, max_norm, norm_type, scale_grad_by_freq),
        "dropout": lambda input, p=0.5, training=True, inplace=False: _into(
            input, ops.dropout(input, p, training), inplace),
        "dropout2d": lambda input, p=0.5, training=True, inplace=False: _into(
            input, ops.dropout2d(input, p, training), inplace),
        "layer_norm": lambda input, normalized_shape, weight=None, bias=None, eps=1e-05:
            ops.layer_norm(input, normalized_shape,
                           ops.ones(normalized_shape, input.dtype) if weight is None else weight,
                           ops.zeros(normalized_shape, input.dtype) if bias is None else bias,
                           eps),
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
        "one_hot": lambda tensor, num_classes: ops.one_hot(
            tensor, num_classes, ops.cast(1, tensor.dtype), ops.cast(0, tensor.dtype)),
        "pad": lambda input, pad, mode="constant", value=None: ops.pad(input, pad, mode, value),
        "unfold": lambda input, kernel_size, dilation=1, padding=0, stride=1: ops.unfold(
            input, kernel_size, dilation, padding, stride),
        "fold": lambda input, output_size, kernel_size, dilation=1, padding=0, stride=1: ops.fold(
            input, output_size, kernel_size, dilation, padding, stride),
        "interpolate": ops.interpolate,
        "conv2d": lambda input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1:
            ops.conv2d(input, weight, bias, stride, *_padding(padding), dilation, groups),
        "max_pool2d": lambda input, kernel_size, stride=None, padding=0, dilation=1,
        ceil_mode=False, return_indices=False: ops.max_pool2d(
            input, kernel_size, stride, padding, dilation, return_indices, ceil_mode),
        "avg_pool1d": lambda input, kernel_size, stride=None, padding=0, ceil_mode=False,
        count_include_pad=True: ops.avg_pool1d(
            input, kernel_size, kernel_size if stride is None else stride, padding, ceil_mode,
            count_include_pad),
        "avg_pool2d": lambda input, kernel_size, stride=None, padding=0, ceil_mode=False,
        count_include_pad=True, divisor_override=None: ops.avg_pool2d(
            input, kernel_size, kernel_size if stride is None else stride, padding, ceil_mode,
            count_include_pad, divisor_override or 0),
    }


def _padding(padding: Any) -> tuple[str, Any]:
    """MindSpore's mode and amount of a padding."""
    return (padding, 0) if isinstance(padding, str) else ("pad", padding)


FUNCTIONS = named(_table(), __name__, "mint.nn.functional")
globals().update(FUNCTIONS)

__all__ = sorted(FUNCTIONS)
