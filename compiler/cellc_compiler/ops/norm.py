"""Normalisation layers, compositions around one op that has a gradient of its own.

`normalize` centres and scales over axes; layer, group, instance and batch normalisation are views
of it with a scale and shift. Everything is computed in float32 for half floats; gamma, beta and
statistics may be float32 while the input is a half float. Variances are biased and two-pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cellc_runtime.dtypes import DType, float64
from cellc_runtime.records import dataclass

from ..ir import attributes as attr
from ..ir.graph import Builder, Node, Value
from ..ir.op import Array, Op, Sample, Spec
from ..ir.types import Shape, TensorType, normalize_axis, prod
from ._members import Grads, case
from .elementwise import check_dtype, compute_dtype, to_dtype, widen
from .reduce import count_of, mean_and_centered, reduced_shape

Axes = tuple[int, ...]


def _mean(x: Array, axes: Axes) -> Array:
    """The mean with dims kept; NaN of none without a warning (reference)."""
    total = np.sum(x, axis=axes, keepdims=True)
    return total / np.float64(prod(x.shape[i] for i in axes))


def _stats_type(x: TensorType, axes: Axes) -> TensorType:
    return TensorType(reduced_shape(x, axes, True), compute_dtype(x.dtype))


class Normalize(Op):
    """(x - mean) / sqrt(var + eps) over axes, and the mean and biased variance (dims kept).

    Attributes:
        axes: axes the statistics are taken over, sorted.
        eps: added to the variance.

    The results have the compute dtype (float32 for half floats). Source: Ioffe & Szegedy 2015;
    Ba et al. 2016.
    """

    name = "normalize"
    attrs = {"axes": attr.axes(), "eps": attr.real(1e-5)}
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
        return (case(x, axes=(2,)), case(x, axes=(0, 2), eps=0.1), case((0, 3), axes=(1,)))


def _rstd(b: Builder, var: Value, eps: float) -> Value:
    return b.rsqrt(b.add(var, b.scalar(eps, like=var)))


class RmsNormalize(Op):
    """x / sqrt(mean(x*x) + eps) over axes, and 1/sqrt(...) (dims kept), in the compute dtype.

    Attributes:
        axes: axes the mean is taken over, sorted.
        eps: added to the mean square.

    Source: Zhang & Sennrich 2019.
    """

    name = "rms_normalize"
    attrs = {"axes": attr.axes(), "eps": attr.real(1e-6)}
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
        return (case(x, axes=(2,)), case(x, axes=(1, 2), eps=0.1), case((0, 3), axes=(1,)))


def _check_affine(op: Op, x: TensorType, shape: Shape, *params: TensorType) -> None:
    """Scale, shift and statistics must have `shape`, and the input's or the compute dtype. Raises
    TypeError or ValueError if they do not."""
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


@dataclass(frozen=True, slots=True)
class _Layout:
    """How a normalisation is one `normalize`."""

    params: Shape  # shape of gamma and beta; `spread` the one in which they meet x
    spread: Shape
    axes: Axes  # those normalised, of `split` if x is reshaped to it
    split: Shape | None = None
    # shape of mean and variance; None for that of x with these axes as size 1
    stats: Shape | None = None


class _Affine(Op):
    """Base: normalised by a layout, then scaled and shifted."""

    operands = ("input", "gamma", "beta")
    amp = "high"
    tolerance = 64.0

    def layout(self, x: TensorType, **attrs: Any) -> _Layout:
        """Return the axes that are normalised together. Raises ValueError if an input or attribute
        does not fit."""
        raise TypeError(f"{self.name} has no layout")

    def infer(self, x: TensorType, gamma: TensorType, beta: TensorType, *, eps: float,
              **attrs: Any) -> tuple[TensorType, ...]:
        at = self.layout(x, **attrs)
        _check_affine(self, x, at.params, gamma, beta)
        stats = _stats_type(x, at.axes) if at.stats is None else TensorType(
            at.stats, compute_dtype(x.dtype))
        return x, stats, stats

    def expand(self, b: Builder, x: Value, gamma: Value, beta: Value, *, eps: float,
               **attrs: Any) -> tuple[Value, ...]:
        at = self.layout(x.type, **attrs)
        parts = x if at.split is None else b.reshape(x, shape=at.split)
        xhat, mean, var = b.emit("normalize", parts, axes=at.axes, eps=eps)
        xhat = xhat if at.split is None else b.reshape(xhat, shape=x.shape)
        y = _affine(b, xhat, gamma, beta, at.spread, x.dtype)
        if at.stats is None:
            return y, mean, var
        return y, b.reshape(mean, shape=at.stats), b.reshape(var, shape=at.stats)

    def reference(self, x: Array, gamma: Array, beta: Array, *, eps: float,
                  **attrs: Any) -> tuple[Array, ...]:
        at = self.layout(TensorType(x.shape, float64), **attrs)
        parts = x if at.split is None else x.reshape(at.split)
        xhat, mean, var = Normalize().reference(parts, axes=at.axes, eps=eps)
        g, s = (a.reshape(at.spread) for a in _wide(gamma, beta))
        stats = mean.shape if at.stats is None else at.stats
        return xhat.reshape(x.shape) * g + s, mean.reshape(stats), var.reshape(stats)


class LayerNorm(_Affine):
    """Normalise over the axes from `begin` on, then scale and shift. Source: Ba et al. 2016.

    Operands: x; gamma and beta of shape x.shape[begin:].
    Results: y of x's type, and mean and biased variance (dims kept, compute dtype).

    Attributes:
        begin: first normalised axis.
        eps: added to the variance.
    """

    name = "layer_norm"
    attrs = {"begin": attr.axis(-1), "eps": attr.real(1e-5)}

    def layout(self, x: TensorType, *, begin: int) -> _Layout:
        axes = _tail(x, begin)
        tail = tuple(x.shape[i] for i in axes)
        return _Layout(tail, tail, axes)

    def samples(self) -> Sequence[Sample]:
        return (case((3, 4, 5), (5,), (5,), begin=2), case((2, 3, 4), (3, 4), (3, 4), begin=1),
                case((3, 1), (1,), (1,), begin=1, grad=False), case((0, 3), (3,), (3,), begin=1))


class RmsNorm(Op):
    """x / sqrt(mean(x*x) + eps) * gamma over the last axes. Source: `mindspore.ops.rms_norm`.

    Operands: x; gamma of the shape of x's last axes.
    Results: y of x's type, and 1/sqrt(...) (dims kept, compute dtype).

    Attributes:
        eps: added to the mean square.
    """

    name = "rms_norm"
    operands = ("input", "gamma")
    attrs = {"eps": attr.real(1e-6)}
    amp = "high"
    tolerance = 64.0

    def infer(self, x: TensorType, gamma: TensorType, *, eps: float) -> tuple[TensorType, ...]:
        if not 0 < gamma.rank <= x.rank:
            raise ValueError(f"rms_norm of {x} cannot take gamma of type {gamma}")
        axes = _tail(x, -gamma.rank)
        _check_affine(self, x, tuple(x.shape[i] for i in axes), gamma)
        return x, _stats_type(x, axes)

    def expand(self, b: Builder, x: Value, gamma: Value, *, eps: float) -> tuple[Value, ...]:
        xhat, r = b.emit("rms_normalize", x, axes=_tail(x.type, -gamma.type.rank), eps=eps)
        return _affine(b, xhat, gamma, None, gamma.type.shape, x.dtype), r

    def reference(self, x: Array, gamma: Array, *, eps: float) -> tuple[Array, ...]:
        axes = tuple(range(x.ndim - gamma.ndim, x.ndim))
        xhat, r = RmsNormalize().reference(x, axes=axes, eps=eps)
        return xhat * gamma.astype(np.float64), r

    def samples(self) -> Sequence[Sample]:
        return (case((3, 4, 5), (5,)), case((2, 3, 4), (3, 4)), case((0, 3), (3,)))


class BatchNorm(_Affine):
    """Normalise each channel over the batch, then scale and shift. Source: Ioffe & Szegedy 2015.

    Operands: x; gamma and beta of shape (C,), C the size of the channel axis.
    Results: y of x's type; mean and biased variance of shape (C,), compute dtype.

    Attributes:
        axis: channel axis.
        eps: added to the variance.
    """

    name = "batch_norm"
    attrs = {"axis": attr.axis(1), "eps": attr.real(1e-5)}

    def layout(self, x: TensorType, *, axis: int) -> _Layout:
        axis = normalize_axis(axis, x.rank)
        flat = (x.shape[axis],)
        axes = tuple(i for i in range(x.rank) if i != axis)
        return _Layout(flat, _channel_shape(x.rank, axis, x.shape[axis]), axes, stats=flat)

    def samples(self) -> Sequence[Sample]:
        c = (3,)
        return (case((4, 3), c, c), case((2, 3, 4, 5), c, c), case((2, 5, 3), c, c, axis=2),
                case((0, 3), c, c, grad=False))


class BatchNormInference(Op):
    """(x - mean) * (gamma / sqrt(var + eps)) + beta per channel. Source: Ioffe & Szegedy 2015.

    Operands: x; gamma, beta, mean and variance of shape (C,).

    Attributes:
        axis: channel axis.
        eps: added to the variance.
    """

    name = "batch_norm_inference"
    operands = ("input", "gamma", "beta", "mean", "variance")
    attrs = {"axis": attr.axis(1), "eps": attr.real(1e-5)}
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
        c, v = ((3,), Spec((3,), 0.5, 2))
        return (case((4, 3), c, c, c, v), case((2, 3, 4, 5), c, c, c, v),
                case((2, 5, 3), c, c, c, v, axis=2), case((0, 3), c, c, c, v))


class GroupNorm(_Affine):
    """Normalise groups of channels of each sample, scale and shift. Source: Wu & He 2018.

    Operands: x of shape (N, C, ...); gamma and beta of shape (C,).
    Results: y of x's type; mean and biased variance of shape (N, groups), compute dtype.

    Attributes:
        groups: divides C; C groups give instance normalisation.
        eps: added to the variance.
    """

    name = "group_norm"
    attrs = {"groups": attr.size(least=1), "eps": attr.real(1e-5)}

    def layout(self, x: TensorType, *, groups: int) -> _Layout:
        if x.rank < 2:
            raise ValueError(f"group_norm needs an input (N, C, ...), got {x}")
        if x.dims[1] % groups:
            raise ValueError(f"group_norm cannot part {x.dims[1]} channels into {groups} groups")
        n, channels = x.shape[:2]
        split = (n, groups, channels // groups, *x.shape[2:])
        return _Layout((channels,), _channel_shape(x.rank, 1, channels),
                       tuple(range(2, len(split))), split, (n, groups))

    def samples(self) -> Sequence[Sample]:
        c = (4,)
        return (case((2, 4, 5), c, c, groups=2), case((2, 4, 3, 2), c, c, groups=4),
                case((3, 4), c, c, groups=1), case((0, 4, 2), c, c, groups=2))


class InstanceNorm(_Affine):
    """Group normalisation with one channel a group. Source: Ulyanov et al. 2016.

    Operands, results and `eps` as `group_norm`'s.
    """

    name = "instance_norm"
    attrs = {"eps": attr.real(1e-5)}

    def layout(self, x: TensorType) -> _Layout:
        if x.rank < 2:
            raise ValueError(f"instance_norm needs an input (N, C, ...), got {x}")
        return _Layout((x.shape[1],), _channel_shape(x.rank, 1, x.shape[1]),
                       tuple(range(2, x.rank)), stats=x.shape[:2])

    def samples(self) -> Sequence[Sample]:
        c = (3,)
        return (case((2, 3, 5), c, c), case((2, 3, 4, 2), c, c), case((0, 3, 2), c, c))
