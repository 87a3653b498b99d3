"""Methods and attributes of tensors, and functions of ops, in small programs."""
# The programs use Python in every way, good style or not.
# ruff: noqa

from __future__ import annotations

from typing import Any

import numpy as np

import cellc as ms
from cellc import Tensor, ops

from .table import X, Y, Table

M = np.arange(6, dtype=np.float32).reshape(2, 3) - 2
T = np.arange(24, dtype=np.float32).reshape(2, 3, 4) / 4 - 2
I = np.array([[7, -8, 3], [1, 0, 5]], np.int32)
case = Table(M)


@case.on(M, T)
def attributes(x: Any) -> Any:
    return x.shape, x.ndim, x.size, x.T, x.itemsize, x.nbytes


@case.on(M, I, python=False)
def dtype_attribute(x: Any) -> Any:
    return x.dtype == ms.float32, str(x.dtype), x.dtype, x.astype(ms.float16).dtype, x.strides


@case
def reductions(x: Any) -> Any:
    return x.sum(), x.sum(axis=0), x.sum(axis=1, keepdims=True), x.max(), x.min(axis=1), x.mean(), x.mean(axis=0), \
        x.prod(), x.argmax(axis=1), x.all(), x.any(axis=0)


@case
def shapes(x: Any) -> Any:
    return x.reshape(3, 2), x.reshape((6,)), x.reshape(-1), x.reshape(-1, 2), x.flatten(), x.ravel(), x.T, \
        x.swapaxes(0, 1), x.squeeze(), x[None].squeeze(0)


@case.on(T)
def transposes(x: Any) -> Any:
    return x.transpose(2, 0, 1), x.transpose((1, 0, 2)), x.swapaxes(0, 2), x.T.shape


@case.on(M, python=False)
def shape_methods_of_mindspore(x: Any) -> Any:
    return x.view(3, 2), x.expand_dims(0), x.unsqueeze(1), x.permute(1, 0), x.broadcast_to((2, 2, 3)), x.tile((1, 2)), \
        x.repeat(2, 0), x.expand_as(x[None]), x.split(1), x.chunk(3, axis=1), x.unbind(0), x.flip(0), x.roll(1, 0), x.t()


@case.on(M, python=False)
def elementwise_methods(x: Any) -> Any:
    return x.abs(), x.exp(), x.square(), (x * x).sqrt(), x.tanh(), x.sigmoid(), x.sin(), x.floor(), x.round(), x.sign(), \
        x.clip(-1, 1), x.clamp(min=0), x.pow(2), x.neg(), x.relu() if hasattr(x, "relu") else x


@case.on(M, python=False)
def arithmetic_methods(x: Any) -> Any:
    return x.add(1), x.sub(x), x.mul(2.0), x.div(2), x.matmul(x.T), x.maximum(x * 0), x.minimum(Tensor(0.5)), x.eq(x), \
        x.greater(0), x.logical_not() if x.dtype == ms.bool_ else x, x.isnan(), x.masked_fill(x > 1, 9.0)


@case.on(M, I, python=False)
def conversions(x: Any) -> Any:
    return x.astype(ms.float32), x.to(ms.int32), x.float(), x.int(), x.bool(), x.half(), x.long(), x.astype("float32")


@case.on(M, python=False)
def statistics(x: Any) -> Any:
    return x.var(), x.std(), x.norm(), x.cumsum(0), x.argmin(axis=0), x.topk(2), x.sort(), x.median() if False else x

@case.on(M, python=False)
def creation_like(x: Any) -> Any:
    return x.new_zeros((2,)), x.new_ones((1, 2)), ops.zeros_like(x), ops.ones_like(x), ops.full_like(x, 3.0), x.copy()


@case.on(M, python=False)
def chained_methods(x: Any) -> Any:
    return (x.reshape(3, 2)
            .transpose(1, 0)
            .astype(ms.float16)
            .sum(axis=0)
            .astype(ms.float32) * 2).max()


@case.on(M, python=False)
def functions_of_ops(x: Any) -> Any:
    return ops.relu(x), ops.softmax(x, axis=-1), ops.concat((x, x), axis=1), ops.stack([x, x]), ops.where(x > 0, x, -x), \
        ops.matmul(x, x.T), ops.reduce_sum(x, 1) if hasattr(ops, "reduce_sum") else x, ops.transpose(x, (1, 0)), \
        ops.cast(x, ms.int32), ops.split(x, 1, axis=0), ops.gelu(x), ops.layer_norm(x, (3,)) if False else x


@case.on(M, python=False)
def functions_with_keywords(x: Any) -> Any:
    return ops.softmax(input=x, axis=0), ops.clamp(x, max=1), ops.sum(x, dim=0, keepdim=True), ops.mean(x, axis=1), \
        ops.pad(x, (1, 1)), ops.cat(tensors=[x, x], axis=0), ops.arange(0, 6, 2), ops.one_hot(Tensor([0, 1]), 3, 1.0, 0.0)


@case.on(M, python=False)
def computed_shapes(x: Any) -> Any:
    b, n = x.shape
    h = n // 3
    return x.reshape(b, h, n // h), ops.zeros((b, n * 2), x.dtype), x.reshape(x.shape[::-1]), ops.ones(x.shape + (1,)), \
        x.broadcast_to((4,) + x.shape), x.reshape([b * n])


@case.on(M, python=False)
def lists_of_tensors_to_ops(x: Any) -> Any:
    rows = [r * i for i, r in enumerate(x)]
    return ops.stack(rows), ops.concat([r[None] for r in rows]), ops.stack(tuple(rows), axis=1), sum(rows)


@case.on(M, python=False)
def attention_like(x: Any) -> Any:
    q, k, v = x, x + 1, x * 2
    scores = ops.matmul(q, k.T) / (q.shape[-1] ** 0.5)
    mask = Tensor(np.triu(np.ones((2, 2), bool), 1))
    return ops.matmul(ops.softmax(scores.masked_fill(mask, -1e9), -1), v)


@case.on(T, python=False)
def heads_split_and_merged(x: Any) -> Any:
    b, s, d = x.shape
    heads = 2
    y = x.reshape(b, s, heads, d // heads).transpose(0, 2, 1, 3)
    return y, y.transpose(0, 2, 1, 3).reshape(b, s, d) - x


@case.on(M, python=False)
def results_unpacked(x: Any) -> Any:
    values, indices = ops.topk(x, 2)
    a, b = x
    c, (d, e) = ops.split(x, 1)[0], x.chunk(2)
    m, i = x.max(axis=1, return_indices=True) if False else (x.max(axis=1), 0)
    return values, indices, a + b, c, d, e, m, i


@case.on(M, python=False)
def optional_arguments(x: Any) -> Any:
    def norm(v: Any, weight: Any = None, eps: float = 1e-5, axis: Any = -1) -> Any:
        out = (v - v.mean(axis, keep_dims=True)) / ops.sqrt(v.var(axis, keepdims=True) + eps)
        return out if weight is None else out * weight

    return norm(x), norm(x, Tensor([1.0, 2.0, 3.0])), norm(x, axis=0)


@case.on(M, python=False)
def in_place_style(x: Any) -> Any:
    y = x * 1
    y[0] = 0
    z = y.add(1)
    y += 1
    return y, z, (y == z).all()


@case.on((M, 0), (M, 1), python=False)
def axis_as_argument(x: Any, axis: Any) -> Any:
    return x.sum(axis), ops.softmax(x, axis), ops.concat([x, x], axis), x.shape[axis]
