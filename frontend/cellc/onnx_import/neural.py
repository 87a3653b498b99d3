"""Convolutions, pools and normalisations."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from cellc_runtime import dtypes

from ..core.dispatch import apply, apply_one
from ..ops.functional import shapes, volume
from ..ops.functional import window as windows
from ..tensors.promotion import constant
from ..tensors.tensor import Tensor
from .reductions import mean_and_variance
from .shaping import reshaped, sliced, transposed
from .table import Array, Call, Known, counted, like, rule, rules, sizes, to, wide
from .wire import OnnxError

A = apply_one
Ints = tuple[int, ...]
_MOST_TAPS = 1 << 12  # Elements of a kernel that are read one by one


class Window:
    """The attributes of a sliding window over the axes after the first two.

    Attributes:
        kernel, stride, dilation: one int for each axis.
        pads: before and after each axis, in pairs.
    """

    def __init__(self, c: Call, size: Ints, kernel: Ints) -> None:
        n = self.n = len(size)
        if n == 3 and math.prod(kernel) > _MOST_TAPS:
            raise c.refuse(f"its kernel {list(kernel)} has more than {_MOST_TAPS} elements")
        self.kernel = kernel
        self.stride = self._each(c, "strides", n)
        self.dilation = self._each(c, "dilations", n)
        mode = c.text("auto_pad", "NOTSET")
        if mode in ("SAME_UPPER", "SAME_LOWER"):
            same = windows.same_pads(size, kernel, self.stride, self.dilation)
            pairs = list(zip(same[::2], same[1::2], strict=True))
            self.pads = [(b, a) if mode == "SAME_LOWER" else (a, b) for a, b in pairs]
        else:
            given = c.ints("pads", (0,) * (2 * n)) if mode == "NOTSET" else (0,) * (2 * n)
            if given is None or len(given) != 2 * n:
                raise c.refuse(f"its 'pads' {given} do not fit {n} spatial axes")
            self.pads = list(zip(given[:n], given[n:], strict=True))

    @staticmethod
    def _each(c: Call, name: str, n: int) -> Ints:
        found = c.ints(name, (1,) * n) or (1,) * n
        if len(found) != n or min(found, default=1) < 1:
            raise c.refuse(f"its {name!r} {list(found)} must be {n} positive ints")
        return found

    def flat(self) -> Ints:
        """The pads in one row."""
        return tuple(p for pair in self.pads for p in pair)

    def reach(self, axis: int) -> int:
        """Elements that the kernel spans."""
        return self.dilation[axis] * (self.kernel[axis] - 1) + 1


def _kernel(c: Call, w: Any) -> Ints:
    shape = tuple(w.shape[2:])
    given = c.ints("kernel_shape", shape)
    if given != shape:
        raise c.refuse(f"its 'kernel_shape' {given} is not that of its weights, {shape}")
    return shape


def _biased(y: Tensor, bias: Tensor | None) -> Tensor:
    if bias is None:
        return y
    return A("add", y, reshaped(bias, (bias.shape[0], *(1,) * (y.ndim - 2))))


def _spatial(c: Call, x: Tensor, w: Tensor | None = None) -> None:
    if not 3 <= x.ndim <= 5:
        raise c.refuse(f"its input of shape {list(x.shape)} must have 1 to 3 spatial axes")
    if w is not None and w.ndim != x.ndim:
        raise c.refuse(f"weights of shape {list(w.shape)} do not fit an input of shape "
                       f"{list(x.shape)}")


@rule("Conv")
def _conv(c: Call, x: Tensor, w: Tensor, bias: Tensor | None = None) -> Tensor:
    _spatial(c, x, w)
    window = Window(c, x.shape[2:], _kernel(c, w))
    return _biased(convolved(x, w, window, c.whole("group", 1)), bias)


def convolved(x: Tensor, w: Tensor, window: Window, groups: int) -> Tensor:
    """A convolution over one to three spatial axes."""
    return volume.convolved(x, w, window.stride, window.flat(), window.dilation, groups)


@rule("ConvTranspose")
def _conv_transpose(c: Call, x: Tensor, w: Tensor, bias: Tensor | None = None) -> Tensor:
    _spatial(c, x, w)
    auto = c.text("auto_pad", "NOTSET")
    window = Window(c, x.shape[2:], _kernel(c, w))
    n, groups = window.n, c.whole("group", 1)
    extra = c.ints("output_padding", (0,) * n) or (0,) * n
    wanted = c.ints("output_shape")
    if wanted is None and auto.startswith("SAME"):
        wanted = tuple(d * s for d, s in zip(x.shape[2:], window.stride, strict=True))
    full = [(d - 1) * s + window.reach(i) + extra[i]
            for i, (d, s) in enumerate(zip(x.shape[2:], window.stride, strict=True))]
    if wanted is not None:
        room = [max(f - d, 0) for f, d in zip(full, wanted[-n:], strict=True)]
        pads = [(r // 2, r - r // 2) if auto == "SAME_UPPER" else (r - r // 2, r // 2)
                for r in room]
        size = tuple(wanted[-n:])
    else:
        pads = window.pads
        size = tuple(f - a - b for f, (a, b) in zip(full, pads, strict=True))
    flat = tuple(p for pair in pads for p in pair)
    y = volume.adjoint(x, w, size, window.stride, flat, window.dilation, groups)
    return _biased(y, bias)


# --- pools ----------------------------------------------------------------------------------------


def _pool_window(c: Call, x: Tensor) -> Window:
    kernel = c.ints("kernel_shape", ())
    if not kernel or len(kernel) != x.ndim - 2 or min(kernel) < 1:
        raise c.refuse(f"its 'kernel_shape' {kernel} does not fit an input of shape "
                       f"{list(x.shape)}")
    window = Window(c, x.shape[2:], kernel)
    if c.opset < 10 and "dilations" not in c.attrs:
        window.dilation = (1,) * window.n
    return window


def _in_planes(
    x: Tensor, window: Window, pool: Callable[[Tensor, Ints, Ints, Ints, Ints], Tensor]
) -> Tensor:
    """A pool whose axes are independent: the last two, then the first of three."""
    k, s, g, p = window.kernel, window.stride, window.dilation, window.pads
    if window.n == 1:
        y = pool(shapes.expand_dims(x, 2), (1, *k), (1, *s), (0, 0, *p[0]), (1, *g))
        return shapes.squeeze(y, 2)
    if window.n == 2:
        return pool(x, k, s, window.flat(), g)
    b, ch, depth, h, w = x.shape
    y = pool(reshaped(x, (b, ch * depth, h, w)), k[1:], s[1:], (*p[1], *p[2]), g[1:])
    rows, columns = y.shape[2:]
    y = pool(reshaped(y, (b, ch, depth, rows * columns)), (k[0], 1), (s[0], 1), (*p[0], 0, 0),
             (g[0], 1))
    return reshaped(y, (b, ch, y.shape[2], rows, columns))


@rule("MaxPool")
def _max_pool(c: Call, x: Tensor) -> list[Tensor] | Tensor:
    _spatial(c, x)
    window, ceil, dtype = _pool_window(c, x), c.flag("ceil_mode"), x.dtype
    t = to(x, dtypes.float32) if dtype.is_integer else x
    if not c.wants(1):
        return to(_in_planes(t, window, lambda t, k, s, p, g: A(
            "max_pool2d", t, kernel=k, stride=s, pads=p, ceil_mode=ceil, dilation=g,
            indices=False)), dtype)
    if window.n == 3:
        raise c.refuse("positions of a pool over 3 axes are not computed")
    one = window.n == 1
    image = shapes.expand_dims(t, 2) if one else t
    head = (1,) if one else ()
    y, at = apply(
        "max_pool2d", image, kernel=(*head, *window.kernel), stride=(*head, *window.stride),
        pads=((0, 0) if one else ()) + window.flat(), ceil_mode=ceil,
        dilation=(*head, *window.dilation), indices=True)
    b, ch, h, w = image.shape
    at = to(at, dtypes.int64)
    if c.flag("storage_order"):
        width = constant(w, dtypes.int64)
        at = A("add", A("mul", A("mod", at, width), constant(h, dtypes.int64)),
               A("floor_div", at, width))
    plane = A("mul", A("iota", shape=(b * ch,), axis=0, dtype=dtypes.int64),
              constant(h * w, dtypes.int64))
    at = A("add", at, reshaped(plane, (b, ch, 1, 1)))
    out = [to(y, dtype), at]
    return [shapes.squeeze(v, 2) for v in out] if one else out


def _count(size: Any, window: Window, axis: int, ceil: bool) -> Any:
    """Windows along an axis; the last one starts in the image or in the pads before it."""
    before, after = window.pads[axis]
    stride = window.stride[axis]
    room = size + before + after - window.reach(axis)
    count = room // stride + 1
    if ceil and room % stride and count * stride < size + before:
        count += 1
    return count


def summed(x: Tensor, window: Window, ceil: bool) -> Tensor:
    """The sum over each window, axis by axis; pads are zeros."""
    if sum(window.kernel) > _MOST_TAPS:
        raise OnnxError(f"its kernel {list(window.kernel)} spans more than {_MOST_TAPS} elements")
    for i in range(window.n):
        axis, stride, gap = i + 2, window.stride[i], window.dilation[i]
        count = _count(x.shape[axis], window, i, ceil)
        low, high = [0] * x.ndim, [0] * x.ndim
        low[axis] = window.pads[i][0]
        last = (count - 1) * stride + window.reach(i)
        high[axis] = last - x.shape[axis] - low[axis]
        x = A("pad", x, low=tuple(low), high=tuple(high), value=0.0)
        taps = [sliced(x, axis, k * gap, k * gap + (count - 1) * stride + 1, stride)
                for k in range(window.kernel[i])]
        x = reduce(lambda a, b: A("add", a, b), taps)
    return x


def _inside(x: Tensor, window: Window, ceil: bool, padded: bool) -> Array:
    """How many elements of each window count."""
    out = np.ones((), np.int64)
    for i in range(window.n):
        size, (before, after) = x.shape[i + 2], window.pads[i]
        count = counted(_count(size, window, i, ceil), "the number of windows")
        counted(count * window.kernel[i], "the elements of all windows")
        at = np.arange(count)[:, None] * window.stride[i] + \
            np.arange(window.kernel[i]) * window.dilation[i] - before
        low, high = (-before, size + after) if padded else (0, size)
        out = out[..., None] * ((at >= low) & (at < high)).sum(1)
    return out


@rule("AveragePool")
def average_pool(c: Call, x: Tensor) -> Tensor:
    """The mean of each window, as the attributes of a node say."""
    _spatial(c, x)
    window, ceil = _pool_window(c, x), c.flag("ceil_mode")
    padded = c.flag("count_include_pad")
    if window.n < 3 and set(window.dilation) == {1}:
        return _in_planes(x, window, lambda t, k, s, p, g: A(
            "avg_pool2d", t, kernel=k, stride=s, pads=p, ceil_mode=ceil,
            count_include_pad=padded, divisor=None))
    total = summed(wide(x), window, ceil)
    counts = _inside(x, window, ceil, padded).astype(total.dtype.numpy)
    return to(A("div", total, Known(counts).tensor()), x.dtype)


@rule("LpPool")
def _lp_pool(c: Call, x: Tensor) -> Tensor:
    window, p = _pool_window(c, x), c.whole("p", 2)
    powers = A("square", x) if p == 2 else A("pow", A("abs", x), like(p, x))
    total = summed(powers, window, c.flag("ceil_mode"))
    return A("sqrt", total) if p == 2 else A("pow", total, like(1 / p, x))


rules({
    "GlobalAveragePool": lambda c, x:
        A("reduce_mean", x, axes=tuple(range(2, x.ndim)), keepdims=True),
    "GlobalMaxPool": lambda c, x: A("reduce_max", x, axes=tuple(range(2, x.ndim)), keepdims=True),
})


@rule("GlobalLpPool")
def _global_lp(c: Call, x: Tensor) -> Tensor:
    p, axes = c.whole("p", 2), tuple(range(2, x.ndim))
    total = A("reduce_sum", A("pow", A("abs", x), like(p, x)), axes=axes, keepdims=True)
    return A("pow", total, like(1 / p, x))


@rule("MaxUnpool", known=(2,))
def _max_unpool(c: Call, x: Tensor, at: Tensor, shape: Array | None = None) -> Tensor:
    window = _pool_window(c, x)
    size = tuple((d - 1) * s - a - b + k for d, s, (a, b), k in zip(
        x.shape[2:], window.stride, window.pads, window.kernel, strict=True))
    inner = (*x.shape[:2], *size)  # positions count through this shape
    full = sizes(shape) if shape is not None else inner
    empty = A("broadcast_to", like(0, x), shape=(math.prod(inner),))
    flat = A("scatter_elements", empty, reshaped(at, (at.size,)), reshaped(x, (x.size,)), axis=0,
             mode="update")
    y = reshaped(flat, inner)
    high = tuple(a - b for a, b in zip(full, inner, strict=True))
    return A("pad", y, low=(0,) * x.ndim, high=high, value=0.0) if any(high) else y


# --- normalisations -------------------------------------------------------------------------------


def _per_channel(p: Tensor, x: Tensor) -> Tensor:
    return reshaped(to(p, x.dtype), (p.shape[0], *(1,) * (x.ndim - 2))) if x.ndim > 1 else p


@rule("BatchNormalization", frozen=(3, 4))
def _batch_norm(c: Call, x: Tensor, scale: Tensor, bias: Tensor, mean: Tensor, variance: Tensor
                ) -> list[Tensor] | Tensor:
    eps = c.real("epsilon", 1e-5)
    # Versions before 14 train if they give more than y.
    if not (c.flag("training_mode") if c.opset >= 14 else any(c.node.outputs[1:])):
        if x.ndim < 2:
            raise c.refuse("its input must have at least 2 axes")
        given = [to(p, x.dtype) for p in (scale, bias, mean, variance)]
        return A("batch_norm_inference", x, *given, axis=1, eps=eps)
    axes = tuple(i for i in range(x.ndim) if i != 1)
    now, spread = mean_and_variance(x, axes)
    y = A("div", A("sub", wide(x), now), A("sqrt", A("add", spread, like(eps, spread))))
    y = to(A("add", A("mul", y, _per_channel(scale, y)), _per_channel(bias, y)), x.dtype)
    keep = c.real("momentum", 0.9)

    def moved(old: Tensor, new: Tensor) -> Tensor:
        flat = to(reshaped(new, old.shape), old.dtype)
        return A("add", A("mul", old, like(keep, old)), A("mul", flat, like(1 - keep, old)))

    saved = [] if c.opset >= 14 else [reshaped(t, mean.shape) for t in (now, spread)]
    return [y, moved(mean, now), moved(variance, spread), *saved]


@rule("InstanceNormalization")
def _instance_norm(c: Call, x: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
    axes = tuple(range(2, x.ndim))
    y = apply("normalize", x, axes=axes, eps=c.real("epsilon", 1e-5))[0]
    return A("add", A("mul", y, _per_channel(scale, x)), _per_channel(bias, x))


@rule("GroupNormalization")
def _group_norm(c: Call, x: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
    groups = c.count("num_groups")
    n, ch, rest = x.shape[0], x.shape[1], math.prod(x.shape[2:])
    parts = reshaped(x, (n, groups, ch // groups * rest))
    y = apply("normalize", parts, axes=(2,), eps=c.real("epsilon", 1e-5))[0]
    if scale.shape[0] == groups != ch or c.opset < 21:
        y = A("add", A("mul", y, reshaped(scale, (groups, 1))), reshaped(bias, (groups, 1)))
        return reshaped(y, x.shape)
    y = reshaped(y, x.shape)
    return A("add", A("mul", y, _per_channel(scale, x)), _per_channel(bias, x))


def _stashed(c: Call, x: Tensor) -> Tensor:
    """The input in the type that the statistics are computed in."""
    return wide(x) if c.whole("stash_type", 1) == 1 else x


@rule("LayerNormalization")
def _layer_norm(c: Call, x: Tensor, scale: Tensor, bias: Tensor | None = None
                ) -> list[Tensor] | Tensor:
    axis, eps = c.axis(x.ndim, -1), c.real("epsilon", 1e-5)
    if not c.wants(1) and not c.wants(2) and bias is not None and \
            scale.shape == bias.shape == x.shape[axis:]:
        fused: Tensor = apply("layer_norm", x, to(scale, x.dtype), to(bias, x.dtype), begin=axis,
                              eps=eps)[0]
        return fused
    t = _stashed(c, x)
    mean, variance = mean_and_variance(t, tuple(range(axis, x.ndim)))
    inverse = A("reciprocal", A("sqrt", A("add", variance, like(eps, variance))))
    y = A("mul", to(A("mul", A("sub", t, mean), inverse), x.dtype), to(scale, x.dtype))
    return [y if bias is None else A("add", y, to(bias, x.dtype)), mean, inverse]


@rule("RMSNormalization", "com.microsoft::SimplifiedLayerNormalization",
      "SimplifiedLayerNormalization")
def _rms_norm(c: Call, x: Tensor, scale: Tensor) -> list[Tensor]:
    axis, eps = c.axis(x.ndim, -1), c.real("epsilon", 1e-5)
    t = _stashed(c, x)
    y, inverse = apply("rms_normalize", t, axes=tuple(range(axis, x.ndim)), eps=eps)
    return [A("mul", to(y, scale.dtype), scale), inverse]


@rule("com.microsoft::SkipLayerNormalization", "com.microsoft::SkipSimplifiedLayerNormalization")
def _skip_layer_norm(c: Call, x: Tensor, skip: Tensor, gamma: Tensor, beta: Tensor | None = None,
                     bias: Tensor | None = None) -> list[Any]:
    plain = c.node.op == "SkipSimplifiedLayerNormalization"
    if plain:  # it has no beta
        beta, bias = None, beta if bias is None else bias
    total = A("add", x, skip)
    total = total if bias is None else A("add", total, bias)
    axis, eps = total.ndim - 1, c.real("epsilon", 1e-12 if not plain else 1e-5)
    if plain:
        y = A("mul", apply("rms_normalize", total, axes=(axis,), eps=eps)[0], gamma)
        return [y, None, None, total]
    zero = A("broadcast_to", like(0, gamma), shape=gamma.shape) if beta is None else beta
    y = apply("layer_norm", total, gamma, zero, begin=axis, eps=eps)[0]
    return [y, None, None, total]


@rule("LRN")
def _lrn(c: Call, x: Tensor) -> Tensor:
    size, alpha = c.count("size"), c.real("alpha", 1e-4)
    if not 0 < size <= _MOST_TAPS:
        raise c.refuse(f"its 'size' must be from 1 to {_MOST_TAPS}, but is {size}")
    low, high = [0] * x.ndim, [0] * x.ndim
    low[1], high[1] = (size - 1) // 2, size // 2
    squares = A("pad", A("mul", x, x), low=tuple(low), high=tuple(high), value=0.0)
    total = reduce(lambda a, b: A("add", a, b),
                   [sliced(squares, 1, k, k + x.shape[1]) for k in range(size)])
    scale = A("add", A("mul", total, like(alpha / size, x)), like(c.real("bias", 1.0), x))
    return A("div", x, A("pow", scale, like(c.real("beta", 0.75), x)))


def heads_apart(x: Tensor, heads: int) -> Tensor:
    """(B, S, heads * D) as (B, heads, S, D)."""
    b, s, width = x.shape
    return transposed(reshaped(x, (b, s, heads, width // heads)), 0, 2, 1, 3)


def heads_together(x: Tensor) -> Tensor:
    """(B, heads, S, D) as (B, S, heads * D)."""
    b, heads, s, width = x.shape
    return reshaped(transposed(x, 0, 2, 1, 3), (b, s, heads * width))

