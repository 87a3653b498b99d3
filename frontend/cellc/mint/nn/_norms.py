"""Normalisation with PyTorch's parameters, and the parts of it that processes share.

Source: the same names in `mindspore.mint` and `mindspore.mint.nn.functional`.
"""

from __future__ import annotations

from typing import Any

from cellc_runtime.dtypes import float32

from ... import ops
from ...core.declared import misuse
from ...ops.arguments import boolean, tensor
from ...tensors.indexing import become
from ...tensors.tensor import Tensor


def batch_norm(
    input: Tensor, running_mean: Tensor | None, running_var: Tensor | None,
    weight: Tensor | None = None, bias: Tensor | None = None, training: bool = False,
    momentum: Any = 0.1, eps: float = 1e-05,
) -> Tensor:
    """(x - mean) / sqrt(var + eps) * weight + bias for each channel (axis 1).

    Args:
        input: (N, C, ...).
        running_mean, running_var: (C); the statistics when not training. When training those of
            the batch are used, and these are updated in place, if they are given.
        weight, bias: (C); ones and zeros if None.
        momentum: the share of the batch in an update.
        eps: added to the variance.
    """
    what = "batch_norm"
    tensor(input, what)
    boolean(training, what, "training")
    if input.ndim < 2:
        raise misuse(what, "'input' must have 2 axes or more", input.shape)
    given = running_mean is not None and running_var is not None
    if not training and not given:
        raise misuse(what, "'running_mean' and 'running_var' are needed when not training")
    shape = (input.shape[1],)
    w = ops.ones(shape, input.dtype) if weight is None else weight
    b = ops.zeros(shape, input.dtype) if bias is None else bias
    mean, var = running_mean, running_var
    if mean is None or var is None:
        mean, var = ops.zeros(shape, float32), ops.ones(shape, float32)
    return ops.batch_norm(input, mean, var, w, b, training, momentum if given else 0.0, eps)


def _by_channel(v: Tensor, x: Tensor) -> Tensor:
    return ops.reshape(v, (1, -1) + (1,) * (x.ndim - 2))


def batch_norm_stats(input: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """The mean and 1 / sqrt(var + eps) of each channel (axis 1), float32."""
    x = ops.cast(input, float32)
    axes = (0, *range(2, x.ndim))
    var, mean = ops.var_mean(x, axes, 0)
    return mean, ops.rsqrt(var + eps)


def batch_norm_gather_stats_with_counts(
    input: Tensor, mean: Tensor, invstd: Tensor, running_mean: Tensor | None = None,
    running_var: Tensor | None = None, momentum: float = 0.1, eps: float = 1e-05,
    counts: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """The statistics of all parts of a batch, from those of each part.

    Args:
        input: a part, for its type.
        mean, invstd: (parts, C), as `batch_norm_stats` gives them.
        running_mean, running_var: (C), updated in place if given.
        momentum: the share of the batch in an update.
        eps: as it was for the parts.
        counts: (parts), how many elements a channel of each part has; equal if None.

    Returns:
        Mean and 1 / sqrt(var + eps), (C).
    """
    means, inverses = ops.cast(mean, float32), ops.cast(invstd, float32)
    each = ops.ones((means.shape[0],), float32) if counts is None else ops.cast(counts, float32)
    share = ops.reshape(each, (-1, 1))
    total = ops.sum(share)
    whole = ops.sum(means * share, 0) / total
    squares = (1.0 / ops.square(inverses) - eps + ops.square(means - whole)) * share
    var = ops.sum(squares, 0) / total
    if running_mean is not None:
        new = running_mean * (1.0 - momentum) + ops.cast(whole, running_mean.dtype) * momentum
        become(running_mean, new)
    if running_var is not None:
        unbiased = var if counts is None else var * (total / (total - 1.0))
        new = running_var * (1.0 - momentum) + ops.cast(unbiased, running_var.dtype) * momentum
        become(running_var, new)
    return whole, ops.rsqrt(var + eps)


def batch_norm_elemt(
    input: Tensor, weight: Tensor | None = None, bias: Tensor | None = None,
    mean: Tensor | None = None, invstd: Tensor | None = None, eps: float = 1e-05,
) -> Tensor:
    """(x - mean) * invstd * weight + bias for each channel (axis 1).

    Args:
        weight, bias: (C); ones and zeros if None.
        mean, invstd: (C); those of the input if None.
        eps: for those of the input.
    """
    if mean is None or invstd is None:
        own, inverse = batch_norm_stats(input, eps)
        mean = own if mean is None else mean
        invstd = inverse if invstd is None else invstd
    x = ops.cast(input, float32)
    out = (x - _by_channel(mean, x)) * _by_channel(invstd, x)
    if weight is not None:
        out = out * _by_channel(weight, x)
    if bias is not None:
        out = out + _by_channel(bias, x)
    return ops.cast(out, input.dtype)
