"""Normalisation layers, compositions around one op that has a gradient of its own.

`normalize` centres and scales over axes; layer, group, instance and batch normalisation are views
of it with a scale and shift. Everything is computed in float32 for half floats; gamma, beta and
statistics may be float32 while the input is a half float. Variances are biased and two-pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cellc_runtime.dtypes import DType

from ..ir.graph import Builder, Node, Value
from ..ir.op import REQUIRED, Array, Op, Sample, Spec, register
from ..ir.types import Shape, TensorType, normalize_axis, prod
from .elementwise import Grads, check_dtype, compute_dtype, to_dtype, widen
from .reduce import count_of, mean_and_centered, reduced_shape

Axes = tuple[int, ...]


def _mean(x: Array, axes: Axes) -> Array:
    """The mean with dims kept; NaN of none without a warning (reference)."""
    total = np.sum(x, axis=axes, keepdims=True)
    return total / np.float64(prod(x.shape[i] for i in axes))


def _stats_type(x: TensorType, axes: Axes) -> TensorType:
    return TensorType(reduced_shape(x, axes, True), compute_dtype(x.dtype))


@register
class Normalize(Op):
    """(x - mean) / sqrt(var + eps) over axes, and the mean and biased variance (dims kept).

    Attributes:
        axes: axes the statistics are taken over, sorted.
        eps: added to the variance.

    The results have the compute dtype (float32 for half floats). Source: Ioffe & Szegedy 2015;
    Ba et al. 2016.
    """

    name = "normalize"
    attrs = {"axes": REQUIRED, "eps": 1e-5}
    amp = "high"
    tolerance = 64.0

    def infer(self, x: TensorType, *, axes: Axes, eps: float) -> tuple[TensorType, ...]:
        check_dtype(self, x)
        stats = _stats_type(x, axes)
        return x.with_dtype(compute_dtype(x.dtype)), stats, stats

    def expand(self, b: Builder, x: Value, *, axes: Axes, eps: float) -> tuple[Value, ...]:
        mean, centered = mean_and_centered(b, widen(b, x), axes)
        var = b.reduce_mean(b.mul(centered, centered), axes=axes, keepdims=True)
        return b.mul(centered, _rstd(b, var, eps)), mean, var

    def reference(self, x: Array, *, axes: Axes, eps: float) -> tuple[Array, ...]:
        wide = x.astype(np.float64)
        mean = _mean(wide, axes)
        var = _mean((wide - mean) ** 2, axes)
        return (wide - mean) / np.sqrt(var + eps), mean, var

    def gradient(self, b: Builder, node: Node, dys: Grads) -> Grads:
        """dx = rstd (d - mean(d) - xhat mean(d xhat)), plus what comes through mean and var."""
        (x,), (xhat, _, var) = node.operands, node.results
        axes, eps = node.attrs["axes"], node.attrs["eps"]
        d, dmean, dvar = dys
        rstd, n = _rstd(b, var, eps), count_of(x.type, axes)
        parts: list[Value] = []
        if d is not None:
            along = b.reduce_mean(b.mul(d, xhat), axes=axes, keepdims=True)
            inner = b.sub(b.sub(d, b.reduce_mean(d, axes=axes, keepdims=True)), b.mul(xhat, along))
            parts.append(b.mul(rstd, inner))
        if dmean is not None:
            parts.append(b.div(dmean, b.scalar(n, like=dmean)))
        if dvar is not None:
            # var' = 2 (x - mean) / n, and x - mean = xhat / rstd
            parts.append(b.mul(xhat, b.div(b.mul(dvar, b.scalar(2 / max(n, 1), like=dvar)), rstd)))
        total = parts[0]
        for part in parts[1:]:
            total = b.add(total, part)
        if total.type.shape != x.type.shape:
            total = b.broadcast_to(total, shape=x.type.shape)
        return [to_dtype(b, total, x.dtype)]

    def samples(self) -> Sequence[Sample]:
        x = Spec((3, 4, 5), -2, 3)
        return (Sample((x,), {"axes": (2,)}), Sample((x,), {"axes": (0, 2), "eps": 0.1}),
                Sample((Spec((0, 3)),), {"axes": (1,)}))


def _rstd(b: Builder, var: Value, eps: float) -> Value:
    out: Value = b.rsqrt(b.add(var, b.scalar(eps, like=var)))
    return out


@register
class RmsNormalize(Op):
    """x / sqrt(mean(x*x) + eps) over axes, and 1/sqrt(...) (dims kept), in the compute dtype.

    Attributes:
        axes: axes the mean is taken over, sorted.
        eps: added to the mean square.

    Source: Zhang & Sennrich 2019.
    """

    name = "rms_normalize"
    attrs = {"axes": REQUIRED, "eps": 1e-6}
    amp = "high"
    tolerance = 64.0

    def infer(self, x: TensorType, *, axes: Axes, eps: float) -> tuple[TensorType, ...]:
        check_dtype(self, x)
        return x.with_dtype(compute_dtype(x.dtype)), _stats_type(x, axes)

    def expand(self, b: Builder, x: Value, *, axes: Axes, eps: float) -> tuple[Value, ...]:
        wide = widen(b, x)
        r = _rstd(b, b.reduce_mean(b.mul(wide, wide), axes=axes, keepdims=True), eps)
        return b.mul(wide, r), r

    def reference(self, x: Array, *, axes: Axes, eps: float) -> tuple[Array, ...]:
        wide = x.astype(np.float64)
        r = 1 / np.sqrt(_mean(wide * wide, axes) + eps)
        return wide * r, r

    def gradient(self, b: Builder, node: Node, dys: Grads) -> Grads:
        """dx = r (d - xhat mean(d xhat)) - dr r^2 xhat / n."""
        (x,), (xhat, r), axes = node.operands, node.results, node.attrs["axes"]
        d, dr = dys
        total: Value | None = None
        if d is not None:
            along = b.reduce_mean(b.mul(d, xhat), axes=axes, keepdims=True)
            total = b.mul(r, b.sub(d, b.mul(xhat, along)))
        if dr is not None:
            scale = b.scalar(-1 / max(count_of(x.type, axes), 1), like=dr)
            through = b.mul(xhat, b.mul(b.mul(dr, scale), b.mul(r, r)))
            total = through if total is None else b.add(total, through)
        assert total is not None
        return [to_dtype(b, total, x.dtype)]

    def samples(self) -> Sequence[Sample]:
        x = Spec((3, 4, 5), -2, 3)
        return (Sample((x,), {"axes": (2,)}), Sample((x,), {"axes": (1, 2), "eps": 0.1}),
                Sample((Spec((0, 3)),), {"axes": (1,)}))


def _check_affine(op: Op, x: TensorType, shape: Shape, *params: TensorType) -> None:
    """Scale, shift and statistics must have `shape`, and the input's or the compute dtype.

    Raises:
        TypeError, ValueError: they do not.
    """
    check_dtype(op, x)
    names = op.operands[1:]
    for name, p in zip(names, params, strict=True):
        if p.shape != shape:
            raise ValueError(f"{op.name} of {x} needs {name} of shape {shape}, got {p}")
        if p.dtype not in (x.dtype, compute_dtype(x.dtype)):
            raise TypeError(f"{op.name} of {x} cannot take {name} of type {p}")


def _affine(
    b: Builder, xhat: Value, gamma: Value, beta: Value | None, shape: Shape, dtype: DType
) -> Value:
    """xhat * gamma + beta, the parameters reshaped to `shape`, rounded once to `dtype`."""
    y = b.mul(xhat, b.reshape(to_dtype(b, gamma, xhat.dtype), shape=shape))
    if beta is not None:
        y = b.add(y, b.reshape(to_dtype(b, beta, xhat.dtype), shape=shape))
    return to_dtype(b, y, dtype)


def _wide(*arrays: Array) -> list[Array]:
    return [a.astype(np.float64) for a in arrays]


def _channel_shape(rank: int, axis: int, count: int | Any) -> Shape:
    return tuple(count if i == axis else 1 for i in range(rank))


def _tail(x: TensorType, begin: int) -> Axes:
    return tuple(range(normalize_axis(begin, x.rank), x.rank))


@register
class LayerNorm(Op):
    """Normalise over the axes from `begin` on, then scale and shift. Source: Ba et al. 2016.

    Operands: x; gamma and beta of shape x.shape[begin:].
    Results: y of x's type, and mean and biased variance (dims kept, compute dtype).

    Attributes:
        begin: first normalised axis.
        eps: added to the variance.
    """

    name = "layer_norm"
    operands = ("input", "gamma", "beta")
    attrs = {"begin": -1, "eps": 1e-5}
    amp = "high"
    tolerance = 64.0

    def infer(self, x: TensorType, gamma: TensorType, beta: TensorType, *, begin: int,
              eps: float) -> tuple[TensorType, ...]:
        axes = _tail(x, begin)
        _check_affine(self, x, tuple(x.shape[i] for i in axes), gamma, beta)
        stats = _stats_type(x, axes)
        return x, stats, stats

    def expand(self, b: Builder, x: Value, gamma: Value, beta: Value, *, begin: int,
               eps: float) -> tuple[Value, ...]:
        xhat, mean, var = b.normalize(x, axes=_tail(x.type, begin), eps=eps)
        return _affine(b, xhat, gamma, beta, gamma.type.shape, x.dtype), mean, var

    def reference(self, x: Array, gamma: Array, beta: Array, *, begin: int,
                  eps: float) -> tuple[Array, ...]:
        axes = tuple(range(begin % x.ndim, x.ndim))
        xhat, mean, var = Normalize().reference(x, axes=axes, eps=eps)
        g, s = _wide(gamma, beta)
        return xhat * g + s, mean, var

    def samples(self) -> Sequence[Sample]:
        return (Sample((Spec((3, 4, 5)), Spec((5,)), Spec((5,))), {"begin": 2}),
                Sample((Spec((2, 3, 4)), Spec((3, 4)), Spec((3, 4))), {"begin": 1}),
                Sample((Spec((3, 1)), Spec((1,)), Spec((1,))), {"begin": 1}, grad=False),
                Sample((Spec((0, 3)), Spec((3,)), Spec((3,))), {"begin": 1}))


@register
class RmsNorm(Op):
    """x / sqrt(mean(x*x) + eps) * gamma over the last axes. Source: `mindspore.ops.rms_norm`.

    Operands: x; gamma of the shape of x's last axes.
    Results: y of x's type, and 1/sqrt(...) (dims kept, compute dtype).

    Attributes:
        eps: added to the mean square.
    """

    name = "rms_norm"
    operands = ("input", "gamma")
    attrs = {"eps": 1e-6}
    amp = "high"
    tolerance = 64.0

    def infer(self, x: TensorType, gamma: TensorType, *, eps: float) -> tuple[TensorType, ...]:
        if not 0 < gamma.rank <= x.rank:
            raise ValueError(f"rms_norm of {x} cannot take gamma of type {gamma}")
        axes = _tail(x, -gamma.rank)
        _check_affine(self, x, tuple(x.shape[i] for i in axes), gamma)
        return x, _stats_type(x, axes)

    def expand(self, b: Builder, x: Value, gamma: Value, *, eps: float) -> tuple[Value, ...]:
        xhat, r = b.rms_normalize(x, axes=_tail(x.type, -gamma.type.rank), eps=eps)
        return _affine(b, xhat, gamma, None, gamma.type.shape, x.dtype), r

    def reference(self, x: Array, gamma: Array, *, eps: float) -> tuple[Array, ...]:
        axes = tuple(range(x.ndim - gamma.ndim, x.ndim))
        xhat, r = RmsNormalize().reference(x, axes=axes, eps=eps)
        return xhat * gamma.astype(np.float64), r

    def samples(self) -> Sequence[Sample]:
        return (Sample((Spec((3, 4, 5)), Spec((5,)))), Sample((Spec((2, 3, 4)), Spec((3, 4)))),
                Sample((Spec((0, 3)), Spec((3,)))))


@register
class BatchNorm(Op):
    """Normalise each channel over the batch, then scale and shift. Source: Ioffe & Szegedy 2015.

    Operands: x; gamma and beta of shape (C,), C the size of the channel axis.
    Results: y of x's type; mean and biased variance of shape (C,), compute dtype.

    Attributes:
        axis: channel axis.
        eps: added to the variance.
    """

    name = "batch_norm"
    operands = ("input", "gamma", "beta")
    attrs = {"axis": 1, "eps": 1e-5}
    amp = "high"
    tolerance = 64.0

    def infer(self, x: TensorType, gamma: TensorType, beta: TensorType, *, axis: int,
              eps: float) -> tuple[TensorType, ...]:
        channels = (x.shape[normalize_axis(axis, x.rank)],)
        _check_affine(self, x, channels, gamma, beta)
        stats = TensorType(channels, compute_dtype(x.dtype))
        return x, stats, stats

    def expand(self, b: Builder, x: Value, gamma: Value, beta: Value, *, axis: int,
               eps: float) -> tuple[Value, ...]:
        rank = x.type.rank
        axis = normalize_axis(axis, rank)
        axes = tuple(i for i in range(rank) if i != axis)
        xhat, mean, var = b.normalize(x, axes=axes, eps=eps)
        shape = _channel_shape(rank, axis, x.shape[axis])
        flat = (x.shape[axis],)
        return (_affine(b, xhat, gamma, beta, shape, x.dtype),
                b.reshape(mean, shape=flat), b.reshape(var, shape=flat))

    def reference(self, x: Array, gamma: Array, beta: Array, *, axis: int,
                  eps: float) -> tuple[Array, ...]:
        axes = tuple(i for i in range(x.ndim) if i != axis % x.ndim)
        xhat, mean, var = Normalize().reference(x, axes=axes, eps=eps)
        g, s = (np.expand_dims(a, axes) for a in _wide(gamma, beta))
        return xhat * g + s, mean.squeeze(axes), var.squeeze(axes)

    def samples(self) -> Sequence[Sample]:
        c = Spec((3,))
        return (Sample((Spec((4, 3)), c, c)), Sample((Spec((2, 3, 4, 5)), c, c)),
                Sample((Spec((2, 5, 3)), c, c), {"axis": 2}),
                Sample((Spec((0, 3)), c, c), grad=False))


@register
class BatchNormInference(Op):
    """(x - mean) * (gamma / sqrt(var + eps)) + beta per channel. Source: Ioffe & Szegedy 2015.

    Operands: x; gamma, beta, mean and variance of shape (C,).

    Attributes:
        axis: channel axis.
        eps: added to the variance.
    """

    name = "batch_norm_inference"
    operands = ("input", "gamma", "beta", "mean", "variance")
    attrs = {"axis": 1, "eps": 1e-5}
    amp = "high"
    tolerance = 16.0

    def infer(self, x: TensorType, *params: TensorType, axis: int, eps: float) -> TensorType:
        _check_affine(self, x, (x.shape[normalize_axis(axis, x.rank)],), *params)
        return x

    def expand(self, b: Builder, x: Value, gamma: Value, beta: Value, mean: Value, var: Value,
               *, axis: int, eps: float) -> Value:
        wide = widen(b, x)
        axis = normalize_axis(axis, x.type.rank)
        shape = _channel_shape(x.type.rank, axis, x.shape[axis])
        gamma, mean, var = (to_dtype(b, v, wide.dtype) for v in (gamma, mean, var))
        scale = b.mul(gamma, _rstd(b, var, eps))
        return _affine(b, b.sub(wide, b.reshape(mean, shape=shape)), scale, beta, shape, x.dtype)

    def reference(self, x: Array, *params: Array, axis: int, eps: float) -> Array:
        axes = tuple(i for i in range(x.ndim) if i != axis % x.ndim)
        g, s, m, v = (np.expand_dims(a, axes) for a in _wide(*params))
        return (x.astype(np.float64) - m) * (g / np.sqrt(v + eps)) + s

    def samples(self) -> Sequence[Sample]:
        c, v = Spec((3,)), Spec((3,), 0.5, 2)
        return (Sample((Spec((4, 3)), c, c, c, v)), Sample((Spec((2, 3, 4, 5)), c, c, c, v)),
                Sample((Spec((2, 5, 3)), c, c, c, v), {"axis": 2}),
                Sample((Spec((0, 3)), c, c, c, v)))


@register
class GroupNorm(Op):
    """Normalise groups of channels of each sample, scale and shift. Source: Wu & He 2018.

    Operands: x of shape (N, C, ...); gamma and beta of shape (C,).
    Results: y of x's type; mean and biased variance of shape (N, groups), compute dtype.

    Attributes:
        groups: divides C; C groups give instance normalisation.
        eps: added to the variance.
    """

    name = "group_norm"
    operands = ("input", "gamma", "beta")
    attrs = {"groups": REQUIRED, "eps": 1e-5}
    amp = "high"
    tolerance = 64.0

    def infer(self, x: TensorType, gamma: TensorType, beta: TensorType, *, groups: int,
              eps: float) -> tuple[TensorType, ...]:
        if x.rank < 2:
            raise ValueError(f"group_norm needs an input (N, C, ...), got {x}")
        if groups < 1 or x.dims[1] % groups:
            raise ValueError(f"group_norm cannot part {x.dims[1]} channels into {groups} groups")
        _check_affine(self, x, (x.shape[1],), gamma, beta)
        stats = TensorType((x.shape[0], groups), compute_dtype(x.dtype))
        return x, stats, stats

    def expand(self, b: Builder, x: Value, gamma: Value, beta: Value, *, groups: int,
               eps: float) -> tuple[Value, ...]:
        n, channels = x.shape[:2]
        split = (n, groups, channels // groups, *x.shape[2:])
        axes = tuple(range(2, len(split)))
        xhat, mean, var = b.normalize(b.reshape(x, shape=split), axes=axes, eps=eps)
        xhat = b.reshape(xhat, shape=x.shape)
        shape = _channel_shape(x.type.rank, 1, channels)
        flat = (n, groups)
        return (_affine(b, xhat, gamma, beta, shape, x.dtype),
                b.reshape(mean, shape=flat), b.reshape(var, shape=flat))

    def reference(self, x: Array, gamma: Array, beta: Array, *, groups: int,
                  eps: float) -> tuple[Array, ...]:
        n, channels = x.shape[:2]
        split = x.reshape((n, groups, channels // groups, *x.shape[2:]))
        axes = tuple(range(2, split.ndim))
        xhat, mean, var = Normalize().reference(split, axes=axes, eps=eps)
        tail = tuple(range(1, x.ndim - 1))
        g, s = (np.expand_dims(a, tail) for a in _wide(gamma, beta))
        return xhat.reshape(x.shape) * g + s, mean.squeeze(axes), var.squeeze(axes)

    def samples(self) -> Sequence[Sample]:
        c = Spec((4,))
        return (Sample((Spec((2, 4, 5)), c, c), {"groups": 2}),
                Sample((Spec((2, 4, 3, 2)), c, c), {"groups": 4}),
                Sample((Spec((3, 4)), c, c), {"groups": 1}),
                Sample((Spec((0, 4, 2)), c, c), {"groups": 2}))


@register
class InstanceNorm(Op):
    """Group normalisation with one channel a group. Source: Ulyanov et al. 2016.

    Operands, results and `eps` as `group_norm`'s.
    """

    name = "instance_norm"
    operands = ("input", "gamma", "beta")
    attrs = {"eps": 1e-5}
    amp = "high"
    tolerance = 64.0

    def infer(self, x: TensorType, gamma: TensorType, beta: TensorType, *,
              eps: float) -> tuple[TensorType, ...]:
        if x.rank < 2:
            raise ValueError(f"instance_norm needs an input (N, C, ...), got {x}")
        _check_affine(self, x, (x.shape[1],), gamma, beta)
        stats = TensorType(x.shape[:2], compute_dtype(x.dtype))
        return x, stats, stats

    def expand(self, b: Builder, x: Value, gamma: Value, beta: Value, *,
               eps: float) -> tuple[Value, ...]:
        axes = tuple(range(2, x.type.rank))
        xhat, mean, var = b.normalize(x, axes=axes, eps=eps)
        shape, flat = _channel_shape(x.type.rank, 1, x.shape[1]), x.shape[:2]
        return (_affine(b, xhat, gamma, beta, shape, x.dtype),
                b.reshape(mean, shape=flat), b.reshape(var, shape=flat))

    def reference(self, x: Array, gamma: Array, beta: Array, *, eps: float) -> tuple[Array, ...]:
        axes = tuple(range(2, x.ndim))
        xhat, mean, var = Normalize().reference(x, axes=axes, eps=eps)
        tail = tuple(range(1, x.ndim - 1))
        g, s = (np.expand_dims(a, tail) for a in _wide(gamma, beta))
        return xhat * g + s, mean.squeeze(axes), var.squeeze(axes)

    def samples(self) -> Sequence[Sample]:
        c = Spec((3,))
        return (Sample((Spec((2, 3, 5)), c, c)), Sample((Spec((2, 3, 4, 2)), c, c)),
                Sample((Spec((0, 3, 2)), c, c)))
