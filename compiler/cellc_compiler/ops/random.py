"""Random draws as functions of a key: uint64[2] = (seed, offset).

Element i of a draw comes from word i (or a few words) of the Philox4x32-10 stream of the key
(Salmon, Moraes, Dror & Shaw, 2011), so a draw does not depend on threads, on vector width or on
the mode, and can be computed again rather than kept. Values differ from MindSpore's generator.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from cellc_runtime import dtypes
from cellc_runtime.dtypes import DType
from cellc_runtime.lazy import lazy_imports

from ..ir import attributes as attr
from ..ir.graph import Builder, Value
from ..ir.op import FLOATS, INTS, Array, Op, Sample
from ..ir.types import Shape, TensorType, prod
from ..loops import expr as E
from ..loops.expr import Expr, Reader
from ..loops.index import Index, ravel
from ._members import case, no_gradient
from ._views import Composite

with lazy_imports(__name__):
    from cellc_runtime import philox

_KEY = np.array([0x9E3779B97F4A7C15, 3], np.uint64)
_PRECISION = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}


def philox_words(key: Array, index: Array) -> Array:
    """Reference: the 32-bit words at element positions of a key's stream."""
    seed, offset = (int(k) for k in key)
    low = np.uint64(0xFFFFFFFF)
    block = np.asarray(index, np.uint64) >> np.uint64(2)
    counter = [block & low, block >> np.uint64(32),
               np.full(block.shape, offset & 0xFFFFFFFF, np.uint64),
               np.full(block.shape, offset >> 32, np.uint64)]
    c = philox.philox(counter, (seed & 0xFFFFFFFF, seed >> 32))
    lane = np.asarray(index, np.uint64) & np.uint64(3)
    return np.choose(lane.astype(np.int64), c).astype(np.uint32)


def _elements(shape: Shape) -> Array:
    return np.arange(prod(tuple(shape)), dtype=np.uint64).reshape(shape)  # type: ignore[arg-type]  # known


def _fraction(key: Array, index: Array, bits: int) -> Array:
    """Reference: multiples of 2**-bits in [0, 1); more than 32 bits take words 2i and 2i+1."""
    if bits <= 32:
        words = philox_words(key, index) >> np.uint32(32 - bits)
        return words.astype(np.float64) * 2.0**-bits
    two = np.asarray(index, np.uint64) * np.uint64(2)
    high = philox_words(key, two) >> np.uint32(5)
    low = philox_words(key, two + np.uint64(1)) >> np.uint32(6)
    return (high.astype(np.float64) * 2.0**26 + low.astype(np.float64)) * 2.0**-53


def _check_key(op: str, key: TensorType) -> None:
    """Raises TypeError unless the key is uint64[2]."""
    if key != TensorType((2,), dtypes.uint64):
        raise TypeError(f"{op} needs a key of uint64[2], got {key}")


class _Draw(Op):
    """Base of the draws."""

    operands = ("key",)
    dtypes = (dtypes.uint64,)
    differentiable = False
    amp = "promote"
    gradient = no_gradient

    def check_key(self, key: TensorType) -> None:
        """Raises TypeError unless the key is uint64[2]."""
        _check_key(self.name, key)

    def check_dtype(self, dtype: DType, allowed: Sequence[DType]) -> None:
        """Raises TypeError for an element type that cannot be drawn."""
        if dtype not in allowed:
            names = ", ".join(d.name for d in allowed)
            raise TypeError(f"{self.name} draws {names}, got {dtype}")

    def word(self, r: Reader, index: Index) -> Expr:
        """The 32-bit word at a position of the key's stream."""
        seed, offset = (E.bitcast(r.read(0, (Index.of(k),)), dtypes.int64) for k in range(2))
        return Expr("philox", (E.index_value(index), seed, offset), dtypes.uint32)

    def fraction(self, r: Reader, index: Index, bits: int) -> Expr:
        """A multiple of 2**-bits in [0, 1), in float32 up to 24 bits, else in float64."""
        if bits > 24:
            high, low = (self._shifted(r, index * 2 + k, 5 + k, dtypes.float64) for k in range(2))
            return (high * 2.0**26 + low) * 2.0**-53
        return self._shifted(r, index, 32 - bits, dtypes.float32) * 2.0**-bits

    def _shifted(self, r: Reader, index: Index, by: int, dtype: DType) -> Expr:
        word = self.word(r, index)
        kept = E.call("shr", word, E.const(by, dtypes.uint32))
        # Below 2**31 a signed conversion is exact and one instruction.
        return E.cast(E.bitcast(kept, dtypes.int32), dtype)

    def positive(self, r: Reader, index: Index, wide: bool) -> Expr:
        """A fraction in (0, 1], whose logarithm is finite; `wide` in float64."""
        if wide:
            return self.fraction(r, index, 53) + 2.0**-54
        return (E.cast(self.word(r, index), dtypes.float32) + 0.5) * 2.0**-32


def _positive(key: Array, index: Array, wide: bool) -> Array:
    """Reference of `_Draw.positive`."""
    if wide:
        return _fraction(key, index, 53) + 2.0**-54
    words = philox_words(key, index).astype(np.float32)
    return ((words + np.float32(0.5)) * np.float32(2.0**-32)).astype(np.float64)


def _shapes(**attrs: Any) -> tuple[Sample, ...]:
    """Samples of the usual shapes."""
    shapes: tuple[tuple[int, ...], ...] = ((3, 5), (67,), (), (2, 0))
    return tuple(Sample((_KEY,), {"shape": s, **attrs}, False) for s in shapes)


class RandomBits(_Draw):
    """32 random bits per element (uint32).

    Attributes:
        shape: result shape.
    """

    name = "random_bits"
    attrs = {"shape": attr.shape()}

    def infer(self, key: TensorType, *, shape: Shape) -> TensorType:
        self.check_key(key)
        return TensorType(tuple(shape), dtypes.uint32)

    def reference(self, key: Array, *, shape: Shape) -> Array:
        return philox_words(key, _elements(shape))

    def value(self, r: Reader, idx: tuple[Index, ...]) -> Expr:
        return self.word(r, ravel(idx, r.out[0].dims))

    def samples(self) -> Sequence[Sample]:
        return _shapes()


class _FloatDraw(_Draw):
    """Base of floating-point draws.

    Attributes:
        shape: result shape.
        dtype: element type; 16-bit floats are drawn in float32 and rounded.
    """

    attrs = {"shape": attr.shape(), "dtype": attr.element_type(dtypes.float32)}
    tolerance = 16.0

    def infer(self, key: TensorType, *, shape: Shape, dtype: DType, **rest: Any) -> TensorType:
        self.check_key(key)
        self.check_dtype(dtype, FLOATS)
        return TensorType(tuple(shape), dtype)

    def drawn(self, key: Array, index: Array, dtype: DType, **rest: Any) -> Array:
        """Reference: the draws at positions."""
        raise TypeError(f"{self.name} draws nothing")

    def draw(self, r: Reader, at: Index, dtype: DType) -> Expr:
        """The draw at a position, in float32 or float64."""
        raise TypeError(f"{self.name} draws nothing")

    def reference(self, key: Array, *, shape: Shape, dtype: DType, **rest: Any) -> Array:
        return self.drawn(key, _elements(shape), dtype, **rest).astype(dtype.numpy)

    def value(self, r: Reader, idx: tuple[Index, ...]) -> Expr:
        dtype = r.attrs["dtype"]
        return E.cast(self.draw(r, ravel(idx, r.out[0].dims), dtype), dtype)

    def samples(self) -> Sequence[Sample]:
        return (*_shapes(), *_shapes(dtype=dtypes.float64)[:2], _shapes(dtype=dtypes.float16)[1])


class RandomUniform(_FloatDraw):
    """Uniform in [0, 1): multiples of 2**-24 (float32), 2**-53, 2**-11 (float16), 2**-8 (bfloat16).

    Attributes:
        shape: result shape.
        dtype: element type.
    """

    name = "random_uniform"

    def drawn(self, key: Array, index: Array, dtype: DType) -> Array:
        return _fraction(key, index, _PRECISION[dtype.name])

    def draw(self, r: Reader, at: Index, dtype: DType) -> Expr:
        return self.fraction(r, at, _PRECISION[dtype.name])


class RandomNormal(_FloatDraw):
    """Standard normal, by the cosine half of Box & Muller (1958) on words 2i and 2i + 1.

    Attributes:
        shape: result shape.
        dtype: element type.
    """

    name = "random_normal"

    def drawn(self, key: Array, index: Array, dtype: DType) -> Array:
        wide, two = dtype is dtypes.float64, index * np.uint64(2)
        radius = np.sqrt(-2.0 * np.log(_positive(key, two, wide)))
        angle = _fraction(key, two + np.uint64(1), 53 if wide else 24) * (2 * math.pi)
        return radius * np.cos(angle)

    def draw(self, r: Reader, at: Index, dtype: DType) -> Expr:
        wide = dtype is dtypes.float64
        radius = E.call("sqrt", E.call("log", self.positive(r, at * 2, wide)) * -2.0)
        turn = self.fraction(r, at * 2 + 1, 53 if wide else 24)
        return radius * E.call("cos", turn * (2 * math.pi))


class RandomExponential(_FloatDraw):
    """Exponential of rate 1: minus the logarithm of a uniform draw from (0, 1].

    Attributes:
        shape: result shape.
        dtype: element type.
    """

    name = "random_exponential"

    def drawn(self, key: Array, index: Array, dtype: DType) -> Array:
        return -np.log(_positive(key, index, dtype is dtypes.float64))

    def draw(self, r: Reader, at: Index, dtype: DType) -> Expr:
        return -E.call("log", self.positive(r, at, dtype is dtypes.float64))


class RandomTruncatedNormal(_FloatDraw):
    """Standard normal restricted to [low, high], by inversion of the distribution function.

    Attributes:
        shape: result shape.
        dtype: element type.
        low, high: the bounds, low < high.
    """

    name = "random_truncated_normal"
    attrs = {"shape": attr.shape(), "dtype": attr.element_type(dtypes.float32),
             "low": attr.real(-2.0), "high": attr.real(2.0)}
    tolerance = 64.0

    def infer(self, key: TensorType, *, shape: Shape, dtype: DType, low: float,
              high: float) -> TensorType:
        if not low < high:
            raise ValueError(f"{self.name} needs low < high, got {low} and {high}")
        return super().infer(key, shape=shape, dtype=dtype)

    def drawn(self, key: Array, index: Array, dtype: DType, *, low: float, high: float) -> Array:
        a, b = (math.erf(v / math.sqrt(2)) for v in (low, high))
        u = _positive(key, index, dtype is dtypes.float64)
        return np.clip(math.sqrt(2) * _erfinv(a + u * (b - a)), low, high)

    def draw(self, r: Reader, at: Index, dtype: DType) -> Expr:
        low, high = r.attrs["low"], r.attrs["high"]
        u = self.positive(r, at, dtype is dtypes.float64)
        a, b = (math.erf(v / math.sqrt(2)) for v in (low, high))
        z = E.call("erfinv", u * (b - a) + a) * math.sqrt(2)
        above = E.call("maximum", z, E.const(low, z.dtype))
        return E.call("minimum", above, E.const(high, z.dtype))


def _erfinv(y: Array) -> Array:
    """Reference by bisection on math.erf."""
    def one(v: float) -> float:
        if abs(v) >= 1:
            return math.copysign(math.inf, v)
        lo, hi = -6.0, 6.0
        for _ in range(80):
            mid = (lo + hi) / 2
            lo, hi = (mid, hi) if math.erf(mid) < v else (lo, mid)
        return (lo + hi) / 2

    flat = [one(float(v)) for v in np.ravel(y)]
    return np.array(flat, np.float64).reshape(np.shape(y))


class RandomInt(_Draw):
    """Uniform integers in [low, high). Source: `mindspore.ops.randint`.

    A range up to 2**32 scales one word (Lemire 2019, without rejection: the bias is below
    range / 2**32); a larger one takes the remainder of two words.

    Attributes:
        shape: result shape.
        low, high: bounds, low < high.
        dtype: an integer type that holds them.
    """

    name = "random_int"
    attrs = {"shape": attr.shape(), "low": attr.whole(), "high": attr.whole(),
             "dtype": attr.element_type(dtypes.int64)}

    def infer(self, key: TensorType, *, shape: Shape, low: int, high: int,
              dtype: DType) -> TensorType:
        self.check_key(key)
        self.check_dtype(dtype, INTS)
        info = np.iinfo(dtype.numpy)
        if not info.min <= low < high <= int(info.max) + 1:
            raise ValueError(f"random_int needs low < high within {dtype}, got {low} and {high}")
        return TensorType(tuple(shape), dtype)

    def reference(self, key: Array, *, shape: Shape, low: int, high: int, dtype: DType) -> Array:
        index, span = _elements(shape), high - low
        if span <= 1 << 32:
            drawn = philox_words(key, index).astype(np.uint64) * np.uint64(span) >> np.uint64(32)
        else:
            two = index * np.uint64(2)
            upper = philox_words(key, two).astype(np.uint64) << np.uint64(32)
            drawn = upper | philox_words(key, two + np.uint64(1)).astype(np.uint64)
            drawn = drawn % np.uint64(span) if span < 1 << 64 else drawn
        return (drawn + np.uint64(low % 2**64)).astype(dtype.numpy)

    def value(self, r: Reader, idx: tuple[Index, ...]) -> Expr:
        low, span = r.attrs["low"], r.attrs["high"] - r.attrs["low"]
        element, wide = ravel(idx, r.out[0].dims), dtypes.uint64
        half = E.const(32, wide)
        if span <= 1 << 32:
            drawn = E.call("shr", E.cast(self.word(r, element), wide) * span, half)
        else:
            upper, lower = (E.cast(self.word(r, element * 2 + k), wide) for k in range(2))
            drawn = E.call("or", E.call("shl", upper, half), lower)
            if span < 1 << 64:
                drawn = E.call("floor_mod", drawn, E.const(span, wide))
        start = E.const(low % 2**64, wide)
        return E.cast(E.call("add", drawn, start), r.attrs["dtype"])

    def samples(self) -> Sequence[Sample]:
        return (*_shapes(low=-5, high=7), _shapes(low=0, high=1 << 40)[1],
                _shapes(low=0, high=256, dtype=dtypes.uint8)[1],
                _shapes(low=-(1 << 63), high=1 << 63)[1])


class RandomBernoulli(_Draw):
    """True with probability p (to 2**-32). Source: `mindspore.ops.bernoulli`.

    Attributes:
        shape: result shape.
        p: the probability, 0 to 1.
    """

    name = "random_bernoulli"
    attrs = {"shape": attr.shape(), "p": attr.real(0.5, 0, 1)}

    def infer(self, key: TensorType, *, shape: Shape, p: float) -> TensorType:
        self.check_key(key)
        return TensorType(tuple(shape), dtypes.bool_)

    def reference(self, key: Array, *, shape: Shape, p: float) -> Array:
        return philox_words(key, _elements(shape)).astype(np.float64) < round(p * 2.0**32)

    def value(self, r: Reader, idx: tuple[Index, ...]) -> Expr:
        limit = round(r.attrs["p"] * 2.0**32)
        if limit >= 1 << 32:
            return E.const(True, dtypes.bool_)
        return self.word(r, ravel(idx, r.out[0].dims)).lt(limit)

    def samples(self) -> Sequence[Sample]:
        return (*_shapes(p=0.3), _shapes(p=1.0)[1], _shapes(p=0.0)[1])


class Dropout(Composite):
    """Elements zeroed with probability p, the others scaled by 1 / (1 - p).

    Source: `mindspore.ops.dropout`; Srivastava et al. (2014).

    Attributes:
        p: probability of a zero, 0 to 1.
    """

    name = "dropout"
    operands = ("input", "key")
    attrs = {"p": attr.real(0.5, 0, 1)}
    dtypes = FLOATS

    def expand(self, b: Builder, x: Value, key: Value, *, p: float) -> Value:
        if x.dtype not in FLOATS:
            raise TypeError(f"dropout takes floating-point tensors, got {x.type}")
        _check_key(self.name, key.type)  # (some probabilities draw nothing)
        if p == 0:
            return x
        if p == 1:
            return b.zeros_like(x)
        keep = b.random_bernoulli(key, shape=x.shape, p=1 - p)
        return b.where(keep, b.mul(x, b.scalar(1 / (1 - p), like=x)), b.zeros_like(x))

    def reference(self, x: Array, key: Array, *, p: float) -> Array:
        if p == 1:
            return np.zeros_like(x)
        words = philox_words(key, _elements(x.shape)).astype(np.float64)
        keep = (words < round((1 - p) * 2.0**32)) | (p == 0)
        return np.where(keep, x * np.asarray(1 / (1 - p), x.dtype), np.zeros((), x.dtype))

    def samples(self) -> Sequence[Sample]:
        return (case((4, 17), _KEY, p=0.25), case((5,), _KEY, p=0.0), case((5,), _KEY, p=1.0),
                case((0, 2), _KEY))


class RandomPermutation(Composite):
    """A random permutation of 0..n-1 (int32): positions that sort random words.

    Source: `mindspore.ops.randperm`.

    Attributes:
        n: how many.
    """

    name = "random_permutation"
    operands = ("key",)
    attrs = {"n": attr.size()}
    dtypes = (dtypes.uint64,)
    differentiable = False

    def expand(self, b: Builder, key: Value, *, n: int) -> Value:
        if n < 0:
            raise ValueError(f"random_permutation needs n of at least 0, got {n}")
        words: Value = b.random_bits(key, shape=(n,))
        return b.emit("sort_lines", words)[1]

    def reference(self, key: Array, *, n: int) -> Array:
        return np.argsort(philox_words(key, _elements((n,))), kind="stable").astype(np.int32)

    def samples(self) -> Sequence[Sample]:
        return tuple(case(_KEY, n=n, grad=False) for n in (9, 100, 1, 0))
