"""Quantised operators, exact: products of ints are sums of ints, and scales are applied once."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from cellc_compiler.loops.order import SMALL_COLUMNS
from cellc_runtime import dtypes
from cellc_runtime.dtypes import DType

from ..core.dispatch import apply_one
from ..ops.functional import indexing, linalg, shapes
from ..quantization.weights import panels
from ..tensors.tensor import Tensor, tensor_of
from .arrays import HALVES
from .neural import Window, average_pool, convolved
from .recurrent import Narrow, recurrent
from .shaping import reshaped, sliced
from .table import Array, Call, axis_of, like, rule, to

A = apply_one


def _along(c: Call, p: Tensor, x: Tensor, axis: int) -> Tensor:
    """A scale or zero point in a shape that meets that of the input."""
    if p.size == 1 and p.ndim < 2:
        return reshaped(p, ())
    if p.ndim == 1:
        shape = [1] * x.ndim
        shape[axis_of(axis, x.ndim)] = p.shape[0]
        return reshaped(p, shape)
    a, block = axis_of(axis, x.ndim), c.whole("block_size", 0)
    if block < 1:
        raise c.refuse(f"scales of shape {list(p.shape)} need a 'block_size'")
    parts = A("broadcast_to", shapes.expand_dims(p, a + 1),
              shape=(*p.shape[: a + 1], block, *p.shape[a + 1 :]))
    whole = reshaped(parts, (*p.shape[:a], p.shape[a] * block, *p.shape[a + 1 :]))
    return sliced(whole, a, 0, x.shape[a])


def _limits(dtype: DType) -> tuple[int, int]:
    if not dtype.is_integer:
        raise TypeError(f"elements are quantised to ints, but the type is {dtype.name}")
    found = np.iinfo(dtype.numpy)
    return int(found.min), int(found.max)


def _saturated(rounded: Tensor, zero: Tensor | None, dtype: DType) -> Tensor:
    """Whole floats with the zero point added, kept in the range of the type."""
    low, high = _limits(dtype)
    if rounded.dtype.itemsize == 2:
        rounded = to(rounded, dtypes.float32)
    y = rounded if zero is None else A("add", rounded, to(zero, rounded.dtype))
    return to(A("clamp", y, min=float(low), max=float(high)), dtype)


@rule("QuantizeLinear", "com.microsoft::QuantizeLinear", frozen=(1, 2))
def _quantize(c: Call, x: Tensor, scale: Tensor, zero: Tensor | None = None) -> Tensor:
    axis = c.whole("axis", 1)
    dtype = c.dtype("output_dtype", dtypes.uint8) if zero is None else zero.dtype
    if c.attrs.get("output_dtype", 0) in (21, 22):
        raise c.refuse("4-bit results have no type here")
    kind = c.dtype("precision", scale.dtype if x.dtype.is_integer else x.dtype) \
        if c.attrs.get("precision") else scale.dtype if x.dtype.is_integer else x.dtype
    ratio = A("div", to(x, kind), to(_along(c, scale, x, axis), kind))
    return _saturated(A("round", ratio), None if zero is None else _along(c, zero, x, axis), dtype)


@rule("DequantizeLinear", "com.microsoft::DequantizeLinear", frozen=(0, 1, 2))
def _dequantize(c: Call, x: Tensor, scale: Tensor, zero: Tensor | None = None) -> Tensor:
    axis, kind = c.whole("axis", 1), scale.dtype
    wide = to(x, dtypes.int32)
    if zero is not None:
        wide = A("sub", wide, to(_along(c, zero, x, axis), dtypes.int32))
    y = A("mul", to(wide, kind), _along(c, scale, x, axis))
    return to(y, c.dtype("output_dtype", kind)) if c.attrs.get("output_dtype") else y


@rule("DynamicQuantizeLinear")
def _dynamic(c: Call, x: Tensor) -> list[Tensor]:
    axes, zero = tuple(range(x.ndim)), like(0, x)
    high = A("maximum", A("reduce_max", x, axes=axes, keepdims=False), zero)
    low = A("minimum", A("reduce_min", x, axes=axes, keepdims=False), zero)
    scale = A("div", A("sub", high, low), like(255, x))
    safe = A("where", A("eq", scale, zero), like(1, x), scale)
    point = A("clamp", A("round", A("neg", A("div", low, safe))), min=0.0, max=255.0)
    y = A("add", A("round", A("div", x, safe)), point)
    y = A("clamp", y, min=0.0, max=255.0)
    return [to(y, dtypes.uint8), scale, to(point, dtypes.uint8)]


def _shifted(x: Tensor, zero: Tensor | None, dtype: DType, axis: int | None = None) -> Tensor:
    """Ints less their zero point, in a wider type."""
    x = to(x, dtype)
    if zero is None:
        return x
    if axis is not None and zero.ndim == 1 and zero.size > 1:
        shape = [1] * x.ndim
        shape[axis] = zero.shape[0]
        zero = reshaped(zero, shape)
    elif zero.size == 1:
        zero = reshaped(zero, ())
    return A("sub", x, to(zero, dtype))


_EXACT = 1 << 24
"""Sums of ints whose magnitudes add up to no more are exact in float32, in any order."""
_FARTHEST = 255
"""The most that an int of 8 bits differs from its zero point."""


def _less_zero(c: Call, at: int, zero_at: int, axis: int) -> tuple[Array, bool] | None:
    """The ints of a weight less their zero points, if these are the same in each call, and whether
    its products with ints of 8 bits are exact in float32.

    Args:
        at, zero_at: positions of the weight and its zero points.
        axis: that of the outputs.
    """
    w, zero = c.stored(at), c.stored(zero_at)
    if w is None or w.dtype.itemsize > 1 or (zero is None and zero_at < len(c.given)
                                             and c.given[zero_at] is not None):
        return None
    if zero is not None and zero.size not in (1, w.shape[axis]):
        return None  # (the operators say what does not fit)
    wide = w.astype(np.int32)
    if zero is not None and zero.size == 1:
        wide -= int(zero.item())
    elif zero is not None:
        wide -= zero.astype(np.int32).reshape(
            [-1 if i == axis else 1 for i in range(w.ndim)] if zero.ndim == 1 else zero.shape)
    others = tuple(i for i in range(w.ndim) if i != axis)
    return wide, int(np.abs(wide).sum(axis=others).max(initial=0)) * _FARTHEST <= _EXACT


def _stored_panels(c: Call, at: int, zero_at: int) -> list[Tensor] | None:
    """A weight (k, n) for `dequantized_matmul`, whose products are exact."""
    w = c.stored(at)
    if w is None or w.ndim != 2 or not w.size:
        return None
    found = _less_zero(c, at, zero_at, 1)
    if found is None or not found[1]:
        return None
    wide = found[0]
    low, high = wide.min(axis=0, initial=0), wide.max(axis=0, initial=0)
    # int8 holds most columns as they are. Others are moved there, by a zero point of their own.
    zero = np.where((low >= -128) & (high <= 127), 0, -128 - low)
    if (high + zero > 127).any():
        return None
    parts = [(wide + zero).astype(np.int8)]
    if zero.any():
        parts += [np.ones((1, w.shape[1]), np.float32), zero[None].astype(np.float32)]
    return [tensor_of(panels(p.T)) for p in parts]


def _product_of_ints(c: Call, a: Tensor, b: Tensor, a_zero: Tensor | None, b_zero: Tensor | None,
                     b_at: int, zero_at: int) -> Tensor:
    """The sums, int32: of floats where these are exact, which machines multiply faster."""
    axis, k = max(a.ndim - 2, 0), a.shape[-1]
    panels = c.once_for((c.stored(b_at), c.stored(zero_at)),
                        lambda: _stored_panels(c, b_at, zero_at))
    if panels is not None and a.dtype.itemsize == 1 and k == b.shape[0]:
        y = A("dequantized_matmul", _shifted(a, a_zero, dtypes.float32, axis), *panels,
              columns=b.shape[1], group=0)
        return to(y, dtypes.int32)
    exact = isinstance(k, int) and a.dtype.itemsize == b.dtype.itemsize == 1 \
        and k * _FARTHEST ** 2 <= _EXACT
    kind = dtypes.float32 if exact else dtypes.int32
    return to(linalg.matmul(_shifted(a, a_zero, kind, axis),
                            _shifted(b, b_zero, kind, max(b.ndim - 1, 0))), dtypes.int32)


@rule("MatMulInteger", stored=(1, 3))
def _matmul_integer(c: Call, a: Tensor, b: Tensor, a_zero: Tensor | None = None,
                    b_zero: Tensor | None = None) -> Tensor:
    return _product_of_ints(c, a, b, a_zero, b_zero, 1, 3)


def _to_float(product: Tensor, a_scale: Tensor, b_scale: Tensor, bias: Tensor | None) -> Tensor:
    y = A("mul", to(product, a_scale.dtype), A("mul", a_scale, b_scale))
    return y if bias is None else A("add", y, bias)


@rule("com.microsoft::MatMulIntegerToFloat", stored=(1, 5))
def _matmul_to_float(c: Call, a: Tensor, b: Tensor, a_scale: Tensor, b_scale: Tensor,
                     a_zero: Tensor | None = None, b_zero: Tensor | None = None,
                     bias: Tensor | None = None) -> Tensor:
    return _to_float(_product_of_ints(c, a, b, a_zero, b_zero, 1, 5), a_scale, b_scale, bias)


@rule("com.microsoft::DynamicQuantizeMatMul", stored=(1, 3))
def _dynamic_matmul(c: Call, a: Tensor, b: Tensor, b_scale: Tensor, b_zero: Tensor | None = None,
                    bias: Tensor | None = None) -> Tensor:
    quantised, scale, zero = _dynamic(c, a)
    return _to_float(_product_of_ints(c, quantised, b, zero, b_zero, 1, 3), scale, b_scale, bias)


def _requantised(product: Tensor, factor: Tensor, zero: Tensor) -> Tensor:
    """Sums of ints scaled to the output's type."""
    kind = dtypes.float32 if factor.dtype.itemsize == 2 else factor.dtype
    return _saturated(A("round", A("mul", to(product, kind), to(factor, kind))),
                      reshaped(zero, ()) if zero.size == 1 else zero, zero.dtype)


@rule("QLinearMatMul", stored=(3, 5))
def _qlinear_matmul(c: Call, a: Tensor, a_scale: Tensor, a_zero: Tensor, b: Tensor,
                    b_scale: Tensor, b_zero: Tensor, y_scale: Tensor, y_zero: Tensor) -> Tensor:
    product = _product_of_ints(c, a, b, a_zero, b_zero, 3, 5)
    rows, columns = (_side(s, n) for s, n in ((a_scale, 1), (b_scale, 0)))
    return _requantised(product, A("div", A("mul", rows, columns), _side(y_scale, 0)), y_zero)


def _side(scale: Tensor, after: int) -> Tensor:
    if scale.size == 1:
        return reshaped(scale, ())
    return reshaped(scale, (*scale.shape, *(1,) * after)) if scale.ndim == 1 else scale


def _convolved(c: Call, x: Tensor, w: Tensor, x_zero: Tensor | None, w_zero: Tensor | None,
               w_at: int, zero_at: int) -> Tensor:
    """A convolution of ints: in floats, which hold the sums exactly."""
    def prepared() -> tuple[Tensor, bool] | None:
        found = _less_zero(c, w_at, zero_at, 0)
        if found is None:
            return None
        fits = -128 <= found[0].min(initial=0) <= found[0].max(initial=0) <= 127
        return tensor_of(found[0].astype(np.int8 if fits else np.int16)), found[1]

    known = c.once_for((c.stored(w_at), c.stored(zero_at)), prepared)
    if known is not None and x.dtype.itemsize == 1:
        w, exact = known
        w_zero = None
    else:
        exact = math.prod(w.shape[1:]) * _FARTHEST ** 2 <= _EXACT
    wide = dtypes.float32 if exact else dtypes.float64
    window = Window(c, x.shape[2:], tuple(w.shape[2:]))
    # (Zeros that are padded stand for the zero point, which is subtracted before.)
    y = convolved(_shifted(x, x_zero, wide), _shifted(w, w_zero, wide, 0), window,
                  c.whole("group", 1))
    return to(y, dtypes.int32)


@rule("ConvInteger", stored=(1, 3))
def _conv_integer(c: Call, x: Tensor, w: Tensor, x_zero: Tensor | None = None,
                  w_zero: Tensor | None = None) -> Tensor:
    return _convolved(c, x, w, x_zero, w_zero, 1, 3)


@rule("QLinearConv", stored=(3, 5))
def _qlinear_conv(c: Call, x: Tensor, x_scale: Tensor, x_zero: Tensor, w: Tensor, w_scale: Tensor,
                  w_zero: Tensor, y_scale: Tensor, y_zero: Tensor, bias: Tensor | None = None
                  ) -> Tensor:
    total = _convolved(c, x, w, x_zero, w_zero, 3, 5)
    channels = (-1, *(1,) * (x.ndim - 2))
    if bias is not None:
        total = A("add", total, reshaped(bias, (bias.shape[0], *channels[1:])))
    scale = reshaped(w_scale, ()) if w_scale.size == 1 else \
        reshaped(w_scale, (w_scale.shape[0], *channels[1:]))
    factor = A("div", A("mul", reshaped(x_scale, ()), scale), reshaped(y_scale, ()))
    return _requantised(total, factor, y_zero)


# --- contributed operators: dequantised, computed, quantised again --------------------------------


def _real(x: Tensor, scale: Tensor, zero: Tensor | None) -> Tensor:
    return A("mul", to(_shifted(x, zero, dtypes.int32), scale.dtype), reshaped(scale, ()))


def _again(y: Tensor, scale: Tensor, zero: Tensor | None) -> Tensor:
    dtype = dtypes.uint8 if zero is None else zero.dtype
    point = None if zero is None else reshaped(zero, ())
    return _saturated(A("round", A("div", y, reshaped(scale, ()))), point, dtype)


def _of_two(op: str) -> Callable[..., Tensor]:
    def function(c: Call, a: Tensor, a_scale: Tensor, a_zero: Tensor | None, b: Tensor,
                 b_scale: Tensor, b_zero: Tensor | None, y_scale: Tensor,
                 y_zero: Tensor | None = None) -> Tensor:
        return _again(A(op, _real(a, a_scale, a_zero), _real(b, b_scale, b_zero)), y_scale, y_zero)

    return function


def _of_one(op: Callable[[Call, Tensor], Tensor]) -> Callable[..., Tensor]:
    def function(c: Call, x: Tensor, x_scale: Tensor, x_zero: Tensor | None, y_scale: Tensor,
                 y_zero: Tensor | None = None) -> Tensor:
        return _again(op(c, _real(x, x_scale, x_zero)), y_scale, y_zero)

    return function


for _name, _op in {"Add": "add", "Mul": "mul"}.items():
    rule(f"com.microsoft::QLinear{_name}")(_of_two(_op))


def _average(c: Call, x: Tensor) -> Tensor:
    if c.flag("channels_last"):
        raise c.refuse("pools of images with channels last are not read")
    return average_pool(c, x)


_ONE: dict[str, Callable[[Call, Tensor], Tensor]] = {
    "Sigmoid": lambda c, x: A("sigmoid", x),
    "LeakyRelu": lambda c, x: A("leaky_relu", x, alpha=c.real("alpha", 0.01)),
    "Softmax": lambda c, x: A("softmax", x, axis=c.axis(x.ndim, -1)),
    "AveragePool": _average,
    "GlobalAveragePool": lambda c, x: A("reduce_mean", x, axes=(1, 2) if c.flag("channels_last")
                                        else tuple(range(2, x.ndim)), keepdims=True),
}
for _name, _function in _ONE.items():
    rule(f"com.microsoft::QLinear{_name}")(_of_one(_function))


@rule("com.microsoft::QLinearConcat")
def _qlinear_concat(c: Call, y_scale: Tensor, y_zero: Tensor, *xs: Tensor) -> Tensor:
    parts = [_real(*xs[i : i + 3]) for i in range(0, len(xs), 3)]
    axis = c.axis(parts[0].ndim, 1)
    return _again(A("concat", *parts, axis=axis), y_scale, y_zero)


@rule("com.microsoft::QGemm", frozen=(1, 2, 3, 4, 5, 6, 7, 8))
def _qgemm(c: Call, a: Tensor, a_scale: Tensor, a_zero: Tensor, b: Tensor, b_scale: Tensor,
           b_zero: Tensor, bias: Tensor | None = None, y_scale: Tensor | None = None,
           y_zero: Tensor | None = None) -> Tensor:
    turned = c.flag("transB")
    product = A("matmul", _shifted(a, a_zero, dtypes.int32),
                _shifted(b, b_zero, dtypes.int32, 0 if turned else 1),
                transpose_a=c.flag("transA"), transpose_b=turned)
    product = product if bias is None else A("add", product, bias)
    factor = A("mul", A("mul", reshaped(a_scale, ()), _side(b_scale, 0)),
               like(c.real("alpha", 1.0), a_scale))
    if y_scale is None or y_zero is None:
        return A("mul", to(product, factor.dtype), factor)
    return _requantised(product, A("div", factor, reshaped(y_scale, ())), y_zero)


@rule("com.microsoft::DynamicQuantizeLSTM", frozen=(1, 2, 8, 9, 10, 11))
def _dynamic_lstm(
    c: Call, x: Tensor, w: Tensor, r: Tensor, bias: Tensor | None, lengths: Tensor | None,
    h0: Tensor | None, c0: Tensor | None, peephole: Tensor | None, w_scale: Tensor,
    w_zero: Tensor, r_scale: Tensor, r_zero: Tensor,
) -> list[Any]:
    """An LSTM of small weights; what they are multiplied with stays as it is."""
    def narrow(at: int, q: Tensor, scale: Tensor, zero: Tensor) -> Narrow:
        """From (directions, inputs, gates); the zero points are the input at a position."""
        count, k, n = q.shape
        zeros = c.stored(at)
        if q.dtype is dtypes.int8 and zeros is not None and not zeros.any():
            factor = A("broadcast_to", reshaped(scale, (count, scale.size // count)),
                       shape=(count, n))
            return Narrow((count, n, k), (_panels(q, turned=True),), factor)
        point = to(zero, dtypes.float32)
        if q.dtype is dtypes.uint8:  # ints from 0 to 255 as those from -128 to 127
            q = to(A("bitwise_xor", q, tensor_of(np.array(128, np.uint8))), dtypes.int8)
            point = A("sub", point, like(128, point))
        facts = [A("broadcast_to", reshaped(f, (count, 1, f.size // count)), shape=(count, 1, n))
                 for f in (scale, point)]
        return Narrow((count, n, k), tuple(_panels(p, turned=True) for p in (q, *facts)))

    return recurrent(c, x, narrow(9, w, w_scale, w_zero), narrow(11, r, r_scale, r_zero), bias,
                     lengths, h0, c0, peephole)


@rule("com.microsoft::GatherBlockQuantized", frozen=(0, 2, 3))
def _gather_blocks(c: Call, x: Tensor, index: Tensor, scales: Tensor, zeros: Tensor | None = None
                   ) -> Tensor:
    """Rows of a table of ints in blocks of the last axis, each with a scale."""
    block, bits = c.whole("block_size", 128), c.whole("bits", 4)
    axis = c.axis(x.ndim, 0, "gather_axis")
    if c.axis(x.ndim, 1, "quantize_axis") != x.ndim - 1 or axis == x.ndim - 1 or \
            bits not in (2, 4, 8) or block < 1:
        raise c.refuse(f"ints of {bits} bits in blocks of {block}, in an axis that is not the last "
                       "or is gathered, are not read")
    raw = c.run.network.model.graph.initializers.get(c.node.inputs[0])
    packed = x.dtype is dtypes.uint8 and not (raw is not None and raw.code in HALVES)
    q, scale, *points = (indexing.gather(t, index, axis) for t in (x, scales, zeros)
                         if t is not None)
    if packed:
        q, points = _unpacked(q, bits), [_unpacked(p, bits) for p in points]
    last = q.ndim - 1
    parts = [to(q, scale.dtype), *(to(sliced(p, last, 0, scale.shape[last]), scale.dtype)
                                   for p in points)]
    if packed and not points:
        parts.append(like(1 << (bits - 1), scale))
    q, *points = parts
    spread = [p if not p.ndim else _spread(p, block, q.shape[last]) for p in (scale, *points)]
    return A("mul", q if len(spread) == 1 else A("sub", q, spread[1]), spread[0])


def _spread(x: Tensor, times: int, size: int) -> Tensor:
    """Each element of the last axis `times` in turn, `size` in all."""
    last = x.ndim - 1
    whole = A("broadcast_to", shapes.expand_dims(x, x.ndim), shape=(*x.shape, times))
    return sliced(reshaped(whole, (*x.shape[:last], x.shape[last] * times)), last, 0, size)


@rule("com.microsoft::MatMulNBits", frozen=(1, 2, 3, 4, 5))
def _matmul_nbits(c: Call, a: Tensor, b: Tensor, scales: Tensor, zeros: Tensor | None = None,
                  order: Tensor | None = None, bias: Tensor | None = None) -> Tensor:
    """A @ W.T with W (N, K) in blocks of `bits`-bit ints, each with a scale."""
    k, n, bits = c.count("K"), c.count("N"), c.whole("bits", 4)
    block = c.count("block_size")
    if bits not in (2, 4, 8) or block < 1 or order is not None:
        raise c.refuse(f"weights of {bits} bits in blocks of {block}"
                       f"{' with an order of their own' if order is not None else ''} are not read")
    blocks = -(-k // block)
    if zeros is not None and zeros.dtype is dtypes.uint8:
        packed = reshaped(zeros, (n, -(-blocks * bits // 8)))
        zeros = sliced(_unpacked(packed, bits), 1, 0, blocks)
    facts = [reshaped(f, (n, blocks)) for f in (scales, zeros) if f is not None]
    if bits > 2 and (blocks == 1 or block % 32 == 0):
        y = _widened_product(a, reshaped(b, (n, blocks * block * bits // 8)), facts, bits, block)
        return y if bias is None else A("add", y, bias)
    scale, *point = (reshaped(to(f, a.dtype), (n, blocks, 1)) for f in facts)
    q = to(_unpacked(reshaped(b, (n, blocks, block * bits // 8)), bits), a.dtype)
    w = A("mul", A("sub", q, *(point or [like(1 << (bits - 1), a)])), scale)
    w = sliced(reshaped(w, (n, blocks * block)), 1, 0, k)
    flat = reshaped(a, (math.prod(a.shape[:-1]), k))
    y = A("matmul", flat, w, transpose_a=False, transpose_b=True)
    y = y if bias is None else A("add", y, bias)
    return reshaped(y, (*a.shape[:-1], n))


def _widened_product(a: Tensor, q: Tensor, facts: list[Tensor], bits: int, block: int) -> Tensor:
    """The product by rows of ints that are widened in registers. A graph computes once, when they
    are bound, all that depends on weights alone."""
    n, k = q.shape[0], a.shape[-1]
    q, (scales, *zeros) = sliced(q, 1, 0, -(-k * bits // 8)), facts
    if bits == 8:  # ints from 0 to 255 as those from -128 to 127
        q = to(A("bitwise_xor", q, tensor_of(np.array(128, np.uint8))), dtypes.int8)
        zeros = [A("sub", to(z, dtypes.float32), tensor_of(np.array(128, np.float32)))
                 for z in zeros]
    elif zeros and zeros[0].dtype is not dtypes.uint8:
        zeros = [to(zeros[0], dtypes.float32)]
    kind = scales.dtype if scales.dtype is dtypes.float16 else dtypes.float32
    parts = [q, to(scales, kind), *zeros]
    y = A("dequantized_matmul", to(a, dtypes.float32), *(_panels(p) for p in parts), columns=n,
          group=block if scales.shape[1] > 1 else 0)
    return to(y, a.dtype)


def _panels(x: Tensor, turned: bool = False) -> Tensor:
    """(..., n, m), or turned (..., m, n), as panels of 64 of the n, (..., panels, m, 64)."""
    front, at = x.ndim - 2, x.ndim - 1 if turned else x.ndim - 2
    m, n = x.shape[2 * front + 1 - at], x.shape[at]
    count, none = -(-n // SMALL_COLUMNS), (0,) * x.ndim
    high = tuple(count * SMALL_COLUMNS - n if i == at else 0 for i in range(x.ndim))
    padded = A("pad", x, low=none, high=high, interior=none)
    parts, order = ((m, count, SMALL_COLUMNS), (1, 0, 2)) if turned else \
        ((count, SMALL_COLUMNS, m), (0, 2, 1))
    return A("transpose", reshaped(padded, (*x.shape[:front], *parts)),
             perm=(*range(front), *(front + i for i in order)))


def _unpacked(x: Tensor, bits: int) -> Tensor:
    """The ints in the last axis of bytes, the low bits first."""
    if bits == 8:
        return x
    mask = tensor_of(np.array((1 << bits) - 1, np.uint8))
    parts = [A("bitwise_and", A("shift_right", x, tensor_of(np.array(s, np.uint8))), mask)
             for s in range(0, 8, bits)]
    joined: Any = A("concat", *(shapes.expand_dims(p, -1) for p in parts), axis=x.ndim)
    return reshaped(joined, (*x.shape[:-1], x.shape[-1] * len(parts)))
