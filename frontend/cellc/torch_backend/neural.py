"""Convolutions, pools, normalisations, resizing, and whole layers that torch has one operator for.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from cellc_runtime import dtypes

from ..core.dispatch import apply, apply_one
from ..ops.functional import sampling, shapes, volume, window
from ..tensors.tensor import Tensor
from .reductions import attended, parts
from .table import Call, Refused, like, reshaped, rule, rules, to, wide

A = apply_one
Ints = tuple[int, ...]


def _each(given: Any, n: int) -> Ints:
    """One int for each of n axes; torch has one for all."""
    found = (given,) if isinstance(given, int) else tuple(given)
    return found * n if len(found) == 1 else found


def _doubled(pads: Ints) -> Ints:
    return tuple(p for p in pads for _ in range(2))


@rule("convolution")
def _convolution(
    c: Call, x: Tensor, w: Tensor, bias: Tensor | None, stride: Any, padding: Any, dilation: Any,
    transposed: bool, output_padding: Any, groups: int,
) -> Tensor:
    n = w.ndim - 2
    s, p, d, extra = (_each(v, n) for v in (stride, padding, dilation, output_padding))
    if x.ndim != w.ndim:
        raise Refused("an input without a batch")
    if transposed:
        size = tuple((b - 1) * s[i] + d[i] * (k - 1) + 1 + extra[i] - 2 * p[i]
                     for i, (b, k) in enumerate(zip(x.shape[2:], w.shape[2:], strict=True)))
        y = volume.adjoint(x, w, size, s, _doubled(p), d, groups)
    else:
        y = volume.convolved(x, w, s, _doubled(p), d, groups)
    return y if bias is None else A("add", y, reshaped(bias, (bias.shape[0], *(1,) * n)))


# --- pools ----------------------------------------------------------------------------------------


@rule("max_pool2d_with_indices", "max_pool2d", "max_pool3d_with_indices")
def _max_pool(c: Call, x: Tensor, kernel: Any, stride: Any = (), padding: Any = 0,
              dilation: Any = 1, ceil: bool = False) -> Any:
    n = 3 if "3d" in c.name else 2
    if x.ndim == n + 1:
        found = _max_pool(c, shapes.expand_dims(x, 0), kernel, stride, padding, dilation, ceil)
        return [t if t is None else shapes.squeeze(t, 0) for t in found] \
            if isinstance(found, list) else shapes.squeeze(found, 0)
    k, p, d = (_each(v, n) for v in (kernel, padding, dilation))
    s = _each(stride, n) if stride else k
    used = len(c.values) > 1 and c.reads(1)
    if n == 3:
        found = volume.max_pool3d(x, k, s, p, d, ceil, used)
        return list(found) if used else [found, None]
    y = apply("max_pool2d", x, kernel=k, stride=s, pads=_doubled(p), ceil_mode=ceil, dilation=d,
              indices=used)
    return [y[0], to(y[1], dtypes.int64)] if used else [y, None] if len(c.values) > 1 else y


@rule("avg_pool1d", "avg_pool2d", "avg_pool3d")
def _avg_pool(c: Call, x: Tensor, kernel: Any, stride: Any = (), padding: Any = 0,
              ceil: bool = False, counted: bool = True, divisor: int | None = None) -> Tensor:
    n = int(c.name[-2])
    if x.ndim == n + 1:
        return shapes.squeeze(_avg_pool(c, shapes.expand_dims(x, 0), kernel, stride, padding, ceil,
                                        counted, divisor), 0)
    k, p = _each(kernel, n), _each(padding, n)
    s = _each(stride, n) if stride else k
    if n == 3:
        return volume.avg_pool3d(x, k, s, p, ceil, counted, divisor or 0)
    t = shapes.expand_dims(x, 2) if n == 1 else x
    one: Ints = (1,) if n == 1 else ()
    y = A("avg_pool2d", t, kernel=(*one, *k), stride=(*one, *s),
          pads=((0, 0) if n == 1 else ()) + _doubled(p), ceil_mode=ceil,
          count_include_pad=counted, divisor=divisor)
    return shapes.squeeze(y, 2) if n == 1 else y


@rule("_adaptive_avg_pool2d", "adaptive_avg_pool2d")
def _adaptive(c: Call, x: Tensor, size: Sequence[int]) -> Tensor:
    if tuple(size) == (1, 1):
        return A("reduce_mean", x, axes=(x.ndim - 2, x.ndim - 1), keepdims=True)
    return window.adaptive_avg_pool2d(x, tuple(size))


rules({
    "adaptive_avg_pool1d": lambda c, x, size: window.adaptive_avg_pool1d(x, size[0]),
    "_adaptive_avg_pool3d": lambda c, x, size: volume.adaptive_avg_pool3d(x, tuple(size)),
    "adaptive_max_pool2d": lambda c, x, size:
        list(window.adaptive_max_pool2d(x, tuple(size), True)),
})


# --- normalisations -------------------------------------------------------------------------------


@rule("_native_batch_norm_legit_no_training")
def _batch_norm(c: Call, x: Tensor, w: Tensor | None, b: Tensor | None, mean: Tensor,
                variance: Tensor, momentum: float, eps: float) -> list[Tensor]:
    ones = [like(1.0, mean.dtype) if w is None else w, like(0.0, mean.dtype) if b is None else b]
    given = [to(A("broadcast_to", p, shape=mean.shape), x.dtype) for p in (*ones, mean, variance)]
    y = A("batch_norm_inference", x, *given, axis=1, eps=float(eps))
    none = A("broadcast_to", like(0.0, dtypes.float32), shape=(0,))
    return [y, none, none]


@rule("native_batch_norm")
def _native_batch_norm(c: Call, x: Tensor, w: Any, b: Any, mean: Any, variance: Any,
                       training: bool, momentum: float, eps: float) -> list[Tensor]:
    if training:
        raise Refused("statistics that are updated")
    return _batch_norm(c, x, w, b, mean, variance, momentum, eps)


@rule("_native_batch_norm_legit.no_stats")
def _own_statistics(c: Call, x: Tensor, w: Tensor | None, b: Tensor | None, training: bool,
                    momentum: float, eps: float) -> list[Any]:
    if c.reads(1, 2):
        raise Refused("the statistics of a normalisation")
    axes = tuple(i for i in range(x.ndim) if i != 1)
    y = apply("normalize", x, axes=axes, eps=float(eps))[0]
    ends = (x.shape[1], *(1,) * (x.ndim - 2))
    return [_scaled(y, *(None if p is None else reshaped(p, ends) for p in (w, b))), None, None]


@rule("native_layer_norm")
def _layer_norm(c: Call, x: Tensor, shape: Sequence[int], w: Tensor | None, b: Tensor | None,
                eps: float) -> list[Any]:
    begin = x.ndim - len(shape)
    if c.reads(1, 2):
        raise Refused("the statistics of a normalisation")
    if w is not None and b is not None:
        return [apply("layer_norm", x, to(w, x.dtype), to(b, x.dtype), begin=begin,
                      eps=float(eps))[0], None, None]
    y = apply("normalize", x, axes=tuple(range(begin, x.ndim)), eps=float(eps))[0]
    return [_scaled(y, w, b), None, None]


def _scaled(y: Tensor, w: Tensor | None, b: Tensor | None) -> Tensor:
    y = y if w is None else A("mul", y, to(w, y.dtype))
    return y if b is None else A("add", y, to(b, y.dtype))


@rule("native_group_norm")
def _group_norm(c: Call, x: Tensor, w: Tensor | None, b: Tensor | None, n: Any, ch: Any, rest: Any,
                groups: int, eps: float) -> list[Any]:
    if c.reads(1, 2):
        raise Refused("the statistics of a normalisation")
    flat = reshaped(x, (x.shape[0], groups, math.prod(x.shape[1:]) // groups))
    y = reshaped(apply("normalize", flat, axes=(2,), eps=float(eps))[0], x.shape)
    ends = (x.shape[1], *(1,) * (x.ndim - 2))
    return [_scaled(y, None if w is None else reshaped(w, ends),
                    None if b is None else reshaped(b, ends)), None, None]


@rule("_fused_rms_norm", "rms_norm")
def _rms_norm(c: Call, x: Tensor, shape: Sequence[int], w: Tensor | None = None,
              eps: float | None = None) -> Any:
    if len(c.values) > 1 and c.reads(1):
        raise Refused("the statistics of a normalisation")
    least = float(_least_step(x)) if eps is None else float(eps)
    y = apply("rms_normalize", wide(x), axes=tuple(range(x.ndim - len(shape), x.ndim)), eps=least)
    out = to(_scaled(y[0], w, None), x.dtype)
    return [out, None] if len(c.values) > 1 else out


def _least_step(x: Tensor) -> float:
    """The least step of an element type, which torch adds where none is given."""
    return {2: 2.0**-10, 4: 2.0**-23, 8: 2.0**-52}[x.dtype.itemsize]


# --- images ---------------------------------------------------------------------------------------

@rule("upsample_nearest1d.vec", "upsample_nearest2d.vec", "upsample_nearest3d.vec",
      "upsample_linear1d.vec", "upsample_bilinear2d.vec", "upsample_trilinear3d.vec",
      "upsample_bicubic2d.vec", "_upsample_nearest_exact2d.vec")
def _upsample(c: Call, x: Tensor, size: Any, *given: Any) -> Tensor:
    *align, factors = given
    kind = c.name.removeprefix("_").removeprefix("upsample_")[:-2]
    mode = {"nearest_exact": "nearest-exact"}.get(kind, kind)
    target = tuple(c.values[0].shape[2:]) if size is None else tuple(size)
    if any(not isinstance(n, int) for n in (*target, *x.shape[2:])):
        raise Refused("images of open size that are resized")
    if factors is not None and mode != "nearest-exact" and kind != "nearest":
        return window.interpolate_ext(x, None, tuple(factors), mode, bool(align and align[0]))
    return window.interpolate(x, target, None, mode, bool(align and align[0]) if align else None)


@rule("grid_sampler_2d", "grid_sampler_3d", "grid_sampler")
def _grid_sample(c: Call, x: Tensor, grid: Tensor, mode: int, padding: int, align: bool) -> Tensor:
    if mode == 2:
        raise Refused("cubic samples")
    return sampling.grid_sample(x, grid, ("bilinear", "nearest")[mode],
                                ("zeros", "border", "reflection")[padding], align)


# --- whole layers ---------------------------------------------------------------------------------


@rule("_transformer_encoder_layer_fwd")
def _encoder_layer(
    c: Call, x: Tensor, width: int, heads: int, qkv_w: Tensor, qkv_b: Tensor, out_w: Tensor,
    out_b: Tensor, gelu: bool, first: bool, eps: float, w1: Tensor, b1: Tensor, w2: Tensor,
    b2: Tensor, wide_w: Tensor, wide_b: Tensor, back_w: Tensor, back_b: Tensor,
    mask: Tensor | None = None, kind: int | None = None,
) -> Tensor:
    if mask is not None:
        raise Refused("a layer with a mask")

    def normed(t: Tensor, w: Tensor, b: Tensor) -> Tensor:
        out: Tensor = apply("layer_norm", t, w, b, begin=t.ndim - 1, eps=float(eps))[0]
        return out

    def around(t: Tensor) -> Tensor:
        return _self_attention(t, heads, qkv_w, qkv_b, out_w, out_b)

    def forward(t: Tensor) -> Tensor:
        h = A("dense", t, wide_w, wide_b)
        h = A("gelu", h, approximate="none") if gelu else A("relu", h)
        return A("dense", h, back_w, back_b)

    if first:
        x = A("add", x, around(normed(x, w1, b1)))
        return A("add", x, forward(normed(x, w2, b2)))
    x = normed(A("add", x, around(x)), w1, b1)
    return normed(A("add", x, forward(x)), w2, b2)


def _self_attention(x: Tensor, heads: int, w: Tensor, b: Tensor, out_w: Tensor, out_b: Tensor
                    ) -> Tensor:
    n, s, width = x.shape
    q, k, v = (A("transpose", reshaped(t, (n, s, heads, width // heads)), perm=(0, 2, 1, 3))
               for t in parts(A("dense", x, w, b), 3))
    y = A("transpose", attended(q, k, v, None, False, None), perm=(0, 2, 1, 3))
    return A("dense", reshaped(y, (n, s, width)), out_w, out_b)


@rule("_native_multi_head_attention")
def _multi_head(
    c: Call, q: Tensor, k: Tensor, v: Tensor, width: int, heads: int, qkv_w: Tensor, qkv_b: Tensor,
    out_w: Tensor, out_b: Tensor, mask: Tensor | None = None, need_weights: bool = True,
    average: bool = True, kind: int | None = None,
) -> list[Any]:
    given = c.node.args[:3]
    if mask is not None or need_weights or len({id(a) for a in given}) > 1:
        raise Refused("attention with a mask, or over other values")
    return [_self_attention(q, heads, qkv_w, qkv_b, out_w, out_b), None]
