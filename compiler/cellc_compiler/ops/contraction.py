"""Matrix products."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cellc_runtime import dtypes
from cellc_runtime.dtypes import DType

from ..ir import attributes as attr
from ..ir.graph import Builder, Node, Value
from ..ir.op import NUMBERS, Array, Op, Sample
from ..ir.types import TensorType, broadcast_shapes, prod
from ..loops.order import SMALL_COLUMNS, product_segment
from . import _batch_axis, _identities
from ._complex import conj
from ._members import Grads, case, sharding
from ._views import widened
from .batching import pointwise
from .elementwise import same_dtype, unbroadcast

Ints = tuple[int, ...]


class Matmul(Op):
    """input @ other over the last two axes, the leading ones broadcast. `(..., m, k)` by
    `(..., k, n)` gives `(..., m, n)`. Source: `mindspore.ops.matmul`, `BatchMatMul`.

    16-bit floats are summed in float32 and rounded once.

    Attributes:
        transpose_a: input is stored `(..., k, m)`.
        transpose_b: other is stored `(..., n, k)`.
    """

    name = "matmul"
    opaque = True
    simplify = _identities.transposed_factors
    batch_axis = _batch_axis.multiplied
    sums = True
    operands = ("input", "other")
    attrs = {"transpose_a": attr.flag(False), "transpose_b": attr.flag(False)}
    dtypes = NUMBERS
    amp = "low"
    cost = "heavy"
    primitive = "BatchMatMul"
    tolerance = 16.0
    batch = pointwise

    def infer(self, a: TensorType, c: TensorType, *, transpose_a: bool,
              transpose_b: bool) -> TensorType:
        dtype = same_dtype("matmul", a, c)
        if dtype not in self.dtypes:
            raise TypeError(f"matmul takes numbers, got {a}; cast to an integer type first")
        if a.rank < 2 or c.rank < 2:
            raise ValueError(f"matmul needs operands of at least 2 dimensions, got {a} and {c}")
        m, ka = (a.shape[-1], a.shape[-2]) if transpose_a else a.shape[-2:]
        kb, n = (c.shape[-1], c.shape[-2]) if transpose_b else c.shape[-2:]
        if ka != kb:
            marks = [" transposed" if t else "" for t in (transpose_a, transpose_b)]
            raise ValueError(f"matmul of {a}{marks[0]} and {c}{marks[1]}: the inner dimensions "
                             f"{ka} and {kb} differ")
        batch = broadcast_shapes(a.shape[:-2], c.shape[:-2], "batch dimensions of matmul")
        return TensorType((*batch, m, n), dtype)

    def weight_axes(self, node: Node) -> tuple[int, int] | None:
        rank = node.result.type.rank
        if node.operands[1].type.rank != 2 or rank < 2:
            return None
        return rank - 1, 0 if node.attrs["transpose_b"] else 1

    def factors(self, node: Node) -> sharding.Factors:
        """Rows, columns, and what is summed over; columns only where their number does not decide
        in which order that is."""
        x, y = (v.type for v in node.operands)
        rank = node.result.type.rank
        flipped = node.attrs["transpose_a"], node.attrs["transpose_b"]
        k, size = x.dims[-2 if flipped[0] else -1], max(x.dtype.itemsize, 4)
        last = ((rank - 2, rank), (rank, rank - 1))  # factors of rows, of columns; `rank` is k

        def axes(v: TensorType, which: int) -> sharding.Axes:
            batch = tuple((a + rank - v.rank,) if d > 1 else () for a, d in enumerate(v.dims[:-2]))
            own = last[which][::-1] if flipped[which] else last[which]
            return (*batch, *((a,) for a in own))

        columns = node.result.type.dims[-1]

        def allowed(parts: Mapping[int, int]) -> bool:
            steps = k // parts.get(rank, 1)
            return product_segment(columns // parts.get(rank - 1, 1), steps, size) == \
                product_segment(columns, steps, size)

        return sharding.Factors(
            (*node.result.type.dims, k), (axes(x, 0), axes(y, 1)),
            (tuple((a,) for a in range(rank)),), frozenset({rank}), allowed=allowed)

    def flops(self, node: Node) -> int:
        a = node.operands[0].shape
        k = a[-2] if node.attrs["transpose_a"] and len(a) > 1 else a[-1]
        return 2 * k * prod(node.result.shape)

    def reference(self, a: Array, c: Array, *, transpose_a: bool, transpose_b: bool) -> Array:
        dtype = a.dtype
        a, c = widened(a, c)
        left = np.swapaxes(a, -1, -2) if transpose_a else a
        right = np.swapaxes(c, -1, -2) if transpose_b else c
        return np.matmul(left, right).astype(dtype)

    def gradient(self, b: Builder, node: Node, dys: Grads) -> Grads:
        x, y = node.operands
        dy = dys[0]
        ta, tb = node.attrs["transpose_a"], node.attrs["transpose_b"]
        x, y = conj(b, x), conj(b, y)  # the identity but for complex operands
        if ta:
            dx = b.matmul(y, dy, transpose_a=tb, transpose_b=True)
        else:
            dx = b.matmul(dy, y, transpose_b=not tb)
        return [unbroadcast(b, dx, x.type), self._right(b, x, y, dy, ta, tb)]

    def _right(self, b: Builder, x: Value, y: Value, dy: Value, ta: bool, tb: bool) -> Value:
        if y.type.rank == 2 and x.type.rank > 2 and not ta:
            # One product over all rows sums the batch on the way.
            x = b.reshape(x, shape=(prod(x.shape[:-1]), x.shape[-1]))
            dy = b.reshape(dy, shape=(prod(dy.shape[:-1]), dy.shape[-1]))
        if tb:
            dw = b.matmul(dy, x, transpose_a=True, transpose_b=ta)
        else:
            dw = b.matmul(x, dy, transpose_a=not ta)
        return unbroadcast(b, dw, y.type)

    def samples(self) -> Sequence[Sample]:
        return (case((4, 5), (5, 3)), case((5, 4), (3, 5), transpose_a=True, transpose_b=True),
                case((17, 33), (33, 19)), case((2, 3, 4), (4, 5)),
                case((4, 2), (3, 4, 5), transpose_a=True),
                case((2, 1, 3, 4), (5, 6, 4), transpose_b=True), case((1, 1), (1, 1)),
                case((0, 3), (3, 4)), case((2, 0), (0, 3)))


def widens(dtype: DType, wide: DType) -> bool:
    """Whether elements of a type are exact in a wider float that they may be read as."""
    return wide is dtypes.float32 and dtype in (dtypes.float16, dtypes.bfloat16)


class MatmulPrefix(Op):
    """`matmul` whose other operand has only its first `rows` rows taken: those of a cache that are
    filled. They lie where they are, so nothing is copied. A cache of 16-bit floats is widened to
    the float32 of the input as it is read. The pass `Prefixes` makes it.

    Attributes:
        rows: rows of each matrix of `other`, as it is stored.
        batch: the leading axes of `other`, with axes of one where it is broadcast.
    """

    name = "matmul_prefix"
    opaque = True
    sums = True
    operands = ("input", "other")
    dtypes = NUMBERS
    cost = "heavy"
    tolerance = 16.0
    differentiable = False
    attrs = {**Matmul.attrs, "rows": attr.size(), "batch": attr.shape()}

    def infer(self, a: TensorType, c: TensorType, *, rows: int, batch: Ints,
              **flags: bool) -> TensorType:
        if c.rank < 2 or not 0 <= rows <= c.dims[-2] or prod(batch) != prod(c.dims[:-2]):
            raise ValueError(f"matmul_prefix cannot take {rows} rows of {batch} matrices of {c}")
        dtype = a.dtype if widens(c.dtype, a.dtype) else c.dtype
        return Matmul().infer(a, TensorType((*batch, rows, c.dims[-1]), dtype), **flags)

    def flops(self, node: Node) -> int:
        return Matmul().flops(node)

    def reference(self, a: Array, c: Array, *, rows: int, batch: Ints, **flags: bool) -> Array:
        first = c[..., :rows, :].reshape(*batch, rows, c.shape[-1])
        return Matmul().reference(a, first.astype(a.dtype), **flags)

    def composition(self, b: Builder, x: Value, y: Value, *, rows: int, batch: Ints,
                    **flags: bool) -> Value:
        dims = (*y.shape[:-2], rows, y.shape[-1])
        first = b.slice(y, start=(0,) * len(dims), stop=dims)
        if y.dtype is not x.dtype:
            first = b.cast(first, dtype=x.dtype)
        out: Value = b.matmul(x, b.reshape(first, shape=(*batch, *dims[-2:])), **flags)
        return out

    def samples(self) -> Sequence[Sample]:
        def sample(a: Ints, c: Ints, rows: int, batch: Ints, flipped: bool = False) -> Sample:
            return case(a, c, rows=rows, batch=batch, transpose_b=flipped, grad=False)

        return (sample((2, 1, 5), (2, 9, 5), 4, (2,), True),
                sample((3, 2, 1, 6), (3, 16, 5), 6, (3, 1)), sample((1, 40), (64, 33), 40, ()),
                sample((2, 1, 5), (2, 9, 5), 0, (2,), True))


class Dense(Op):
    """input @ weight.T + bias over the last axis: a product with what is added in its stores.
    `(..., k)` by `(n, k)` and `(n,)` gives `(..., n)`. Source: `mindspore.ops.dense`.

    PyNative calls it; graphs are traced with the ops it is made of.
    """

    name = "dense"
    sums = True
    operands = ("input", "weight", "*bias")
    dtypes = NUMBERS
    amp = "low"
    cost = "heavy"
    tolerance = 16.0

    def infer(self, x: TensorType, w: TensorType, *bias: TensorType) -> TensorType:
        dtype = same_dtype("dense", x, w, *bias)
        if dtype not in self.dtypes:
            raise TypeError(f"dense takes numbers, got {x}; cast to an integer type first")
        if x.rank < 1 or w.rank != 2 or x.shape[-1] != w.shape[1]:
            raise ValueError("dense needs a matrix of weights with rows as long as the last axis "
                             f"of the input, got {w} for {x}")
        if len(bias) > 1 or any(c.shape != w.shape[:1] for c in bias):
            raise ValueError(f"dense needs one bias of {w.shape[0]} elements at most, got "
                             + ", ".join(map(str, bias)))
        return x.with_shape((*x.shape[:-1], w.shape[0]))

    def expand(self, b: Builder, x: Value, w: Value, *bias: Value) -> Value:
        rows = x if x.type.rank == 2 else b.reshape(x, shape=(prod(x.shape[:-1]), x.shape[-1]))
        out: Value = b.matmul(rows, w, transpose_b=True)
        if x.type.rank != 2:
            out = b.reshape(out, shape=(*x.shape[:-1], w.shape[0]))
        return b.add(out, bias[0]) if bias else out

    def reference(self, x: Array, w: Array, *bias: Array) -> Array:
        dtype = x.dtype
        x, w = widened(x, w)
        out: Array = np.matmul(x, w.T).astype(dtype)
        return (out + bias[0]).astype(dtype) if bias else out

    def samples(self) -> Sequence[Sample]:
        return (case((4, 5), (3, 5), (3,)), case((2, 3, 5), (4, 5), (4,)), case((5,), (3, 5)),
                case((17, 33), (19, 33), (19,)), case((2, 0, 3), (4, 3), (4,)),
                case((1, 40), (2, 40), (2,)))


SMALL = (dtypes.bfloat16, dtypes.float16, dtypes.int8, dtypes.uint8)
_SCALES = ((dtypes.float16, dtypes.float32), (dtypes.int8, dtypes.uint8, dtypes.float32))
"""Element types of scales, of zeros."""


def stored_steps(w: TensorType, k: Any) -> Any:
    """Elements that hold k steps."""
    return -(-k // 2) if w.dtype is dtypes.uint8 else k


def check_scales(
    op: Op, w: TensorType, scales: Sequence[TensorType], k: Any, group: int
) -> None:
    """Raise unless scales and zeros are of the groups that a weight (a, k, b) has."""
    if group % 32:
        raise ValueError(f"{op.name} needs a group of a multiple of 32, got {group}")
    shape = (w.shape[0], -(-k // group) if group else 1, w.shape[2])
    most = 2 * w.dtype.is_integer
    least = int(w.dtype is dtypes.uint8)  # (ints of 8 bits may stand for themselves)
    if not least <= len(scales) <= most or any(s.shape != shape for s in scales):
        needed = f"scales and at most zeros of shape {shape}" if most else "no scales"
        raise ValueError(f"{op.name} by {w} needs {needed}, got "
                         + (", ".join(map(str, scales)) or "none"))
    if any(s.dtype not in kinds for s, kinds in zip(scales, _SCALES, strict=False)):
        raise TypeError(f"{op.name} takes scales of float16 or float32 and zeros of "
                        "int8, uint8 or float32, got " + ", ".join(map(str, scales)))


def dequantize(
    w: Array, scales: Sequence[Array], k: int, group: int, dtype: np.dtype[Any]
) -> Array:
    """The elements (a, k, b) that stored ones stand for."""
    zero = 0
    if w.dtype == np.uint8:
        w = np.stack((w & 15, w >> 4), axis=2).reshape(w.shape[0], -1, w.shape[2])
        zero = 8
    given = [np.repeat(s, group or k, axis=1)[:, :k].astype(dtype) for s in scales]
    wide = w[:, :k].astype(dtype) - (given[1] if len(given) > 1 else dtype.type(zero))
    out: Array = wide * given[0] if given else wide
    return out


def small_sample(kind: DType, a: int, k: int, width: int, group: int, zeros: DType | None,
                 scales: DType | None) -> list[Array]:
    """A weight (a, k, width) with its scales and zeros; without them if `scales` is None."""
    rng = np.random.default_rng(5)
    steps = -(-k // 2) if kind is dtypes.uint8 else k
    low, high = (0, 256) if kind is dtypes.uint8 else (-128, 128)
    w = rng.integers(low, high, (a, steps, width))
    parts = [(w if kind.is_integer else w / 64).astype(kind.numpy)]
    shape = a, -(-k // group) if group else 1, width
    if kind.is_integer and scales is not None:
        parts.append(rng.uniform(0.01, 0.02, shape).astype(scales.numpy))
    if zeros is not None:
        parts.append(rng.integers(0, 15, shape).astype(zeros.numpy))
    return parts


class DequantizedMatmul(Op):
    """input @ weight.T in float32, by a weight stored in 4, 8 or 16 bits and widened in registers.
    `(..., k)` by n columns gives `(..., n)`. Only in cellc.

    The weight lies in panels of 64 columns, `(panels, k, 64)`: bfloat16 and float16 as they are,
    int8, or uint8 `(panels, ceil(k / 2), 64)`, whose low four bits are of an even step of k and
    whose high ones of the step after it. An int q stands for `(q - zero) * scale`, computed in
    float32 and rounded after each operation. Scales and zeros are `(panels, groups, 64)`, a group
    is `group` steps of k (the last one may be shorter). Without zeros, zero is 0 for int8 and 8 for
    four bits. Without scales, an int8 stands for itself. Columns from n on are padding.

    Attributes:
        columns: n.
        group: steps of k that share a scale, a multiple of 32; 0: all of them.
    """

    name = "dequantized_matmul"
    opaque = True
    operands = ("input", "weight", "*scales")
    first_constant = 1
    attrs = {"columns": attr.size(least=1), "group": attr.size(0)}
    dtypes = (dtypes.float32,)
    cost = "heavy"
    tolerance = 16.0

    def infer(self, x: TensorType, w: TensorType, *scales: TensorType, columns: int,
              group: int) -> TensorType:
        if x.dtype is not dtypes.float32 or w.dtype not in SMALL:
            raise TypeError("dequantized_matmul takes an input of float32 and a weight of "
                            f"bfloat16, float16, int8 or uint8, got {x} and {w}")
        k = x.shape[-1] if x.rank else 0
        panels = -(-columns // SMALL_COLUMNS)
        shape = panels, stored_steps(w, k), SMALL_COLUMNS
        if not x.rank or w.shape != shape:
            raise ValueError(f"dequantized_matmul of {x} to {columns} columns needs a weight of "
                             f"shape {shape}, got {w}")
        check_scales(self, w, scales, k, group)
        return x.with_shape((*x.shape[:-1], columns))

    def flops(self, node: Node) -> int:
        return 2 * node.operands[0].shape[-1] * node.result.type.size

    def reference(self, x: Array, w: Array, *scales: Array, columns: int, group: int) -> Array:
        k = x.shape[-1]
        wide = dequantize(w, scales, k, group, x.dtype)
        out: Array = np.matmul(x, np.moveaxis(wide, 1, 2).reshape(-1, k)[:columns].T)
        return out

    def composition(self, b: Builder, x: Value, w: Value, *scales: Value, columns: int,
                    group: int) -> Value:
        wide = self._matrix(b, x, w, scales, columns, group)
        rows = b.reshape(x, shape=(prod(x.shape[:-1]), x.shape[-1]))
        out: Value = b.reshape(b.matmul(rows, wide, transpose_b=True),
                               shape=(*x.shape[:-1], columns))
        return out

    def _matrix(self, b: Builder, x: Value, w: Value, scales: Sequence[Value], columns: int,
                group: int) -> Value:
        """The weight in float32, (n, k)."""
        k = x.shape[-1]
        wide = b.transpose(b.dequantized(w, *scales, steps=k, group=group), perm=(0, 2, 1))
        wide = b.reshape(wide, shape=(w.shape[0] * SMALL_COLUMNS, k))
        out: Value = b.slice(wide, start=(0, 0), stop=(columns, k))
        return out

    def gradient(self, b: Builder, node: Node, dys: Grads) -> Grads:
        """That of the input, by the weight in float32."""
        x, w, *scales = node.operands
        wide = self._matrix(b, x, w, scales, **node.attrs)
        dy = b.reshape(dys[0], shape=(prod(x.shape[:-1]), wide.shape[0]))
        return [b.reshape(b.matmul(dy, wide), shape=x.shape), None, *[None] * len(scales)]

    def why_no_gradient(self, node: Node) -> str:
        return _NO_GRADIENT

    def batch(self, b: Builder, node: Node, xs: Sequence[Value], mapped: Sequence[bool],
              n: int) -> Sequence[Value] | None:
        """More rows; None where weights differ between examples."""
        return b.node(node.op, xs, node.attrs).results if not any(mapped[1:]) else None

    def samples(self) -> Sequence[Sample]:
        def weight(kind: DType, columns: int, k: int, group: int = 0, zeros: DType | None = None,
                   scales: DType | None = dtypes.float16, x: tuple[int, ...] = (3,)) -> Sample:
            parts = small_sample(kind, -(-columns // SMALL_COLUMNS), k, SMALL_COLUMNS, group, zeros,
                            scales)
            return case((*x, k), *parts, grad=False, columns=columns, group=group)

        f32 = dtypes.float32
        return (
            weight(dtypes.int8, 5, 7), weight(dtypes.uint8, 70, 33, 32),
            weight(dtypes.int8, 64, 200, 64, dtypes.int8, x=(1,)),
            weight(dtypes.uint8, 3, 800, 128, dtypes.uint8, x=(2, 9)),
            weight(dtypes.uint8, 130, 65, 32, f32, f32, x=()),
            weight(dtypes.bfloat16, 65, 40), weight(dtypes.float16, 2, 130, x=(17,)),
            weight(dtypes.int8, 3, 40, scales=f32, x=(0,)),
            weight(dtypes.int8, 70, 37, scales=None),
            weight(dtypes.int8, 66, 520, scales=None, x=(1,)))


class Dequantized(Op):
    """A weight in float32 that is stored in 4, 8 or 16 bits. `(a, k, b)` gives `(a, k, b)`. Only in
    cellc.

    The weight is bfloat16, float16 or int8, or uint8 `(a, ceil(k / 2), b)`, whose low four bits are
    of an even step of k and whose high ones of the step after it. An int q stands for `(q - zero) *
    scale`, computed in float32 and rounded after each operation. Scales and zeros are `(a, groups,
    b)`. Without zeros, zero is 0 for int8 and 8 for four bits. Without scales, an int8 stands for
    itself.

    Attributes:
        steps: k.
        group: steps of k that share a scale, a multiple of 32; 0: all of them.
    """

    name = "dequantized"
    operands = ("weight", "*scales")
    first_constant = 0
    attrs = {"steps": attr.size(), "group": attr.size(0)}
    dtypes = (dtypes.bfloat16, dtypes.float16, dtypes.int8, dtypes.uint8)

    def infer(self, w: TensorType, *scales: TensorType, steps: int, group: int) -> TensorType:
        if w.dtype not in SMALL:
            raise TypeError(f"dequantized takes a weight of bfloat16, float16, int8 or uint8, got "
                            f"{w}")
        if w.rank != 3 or w.shape[1] != stored_steps(w, steps):
            raise ValueError(f"dequantized to {steps} steps needs a weight of shape "
                             f"(a, {stored_steps(w, steps)}, b), got {w}")
        check_scales(self, w, scales, steps, group)
        return TensorType((w.shape[0], steps, w.shape[2]), dtypes.float32)

    def expand(self, b: Builder, w: Value, *scales: Value, steps: int, group: int) -> Value:
        shape, four = (w.shape[0], steps, w.shape[2]), w.dtype is dtypes.uint8

        def first(v: Value) -> Value:
            """The first steps of some."""
            out: Value = b.slice(v, start=(0, 0, 0), stop=shape)
            return out

        if four:  # (not two halves put together, which would be kept from call to call)
            pairs = b.reshape(w, shape=(*w.shape[:2], 1, w.shape[2]))
            shifts = b.literal(np.array([0, 4], np.uint8).reshape(1, 1, 2, 1), dtypes.uint8)
            halves = b.bitwise_and(b.shift_right(pairs, shifts), b.scalar(15, like=w))
            w = b.reshape(halves, shape=(w.shape[0], 2 * w.shape[1], w.shape[2]))
        w = first(w)
        wide: Value = b.cast(w, dtype=dtypes.float32)
        if scales:
            scale, *zero = (b.cast(first(b.repeat(s, repeats=group or steps, axis=1)),
                                   dtype=dtypes.float32) for s in scales)
            if not zero and four:
                zero = [b.scalar(8, like=wide)]
            wide = b.mul(b.sub(wide, *zero) if zero else wide, scale)
        return wide

    def reference(self, w: Array, *scales: Array, steps: int, group: int) -> Array:
        kind = np.float64 if w.dtype == np.float64 or any(
            s.dtype == np.float64 for s in scales) else np.float32
        return dequantize(w, scales, steps, group, np.dtype(kind))

    def gradient(self, b: Builder, node: Node, dys: Grads) -> Grads:
        return [None] * len(node.operands)

    def why_no_gradient(self, node: Node) -> str:
        return _NO_GRADIENT

    def samples(self) -> Sequence[Sample]:
        return tuple(
            case(*small_sample(kind, a, k, c, group, zeros, scales), grad=False, steps=k,
                 group=group)
            for kind, (a, k, c), group, zeros, scales in (
                (dtypes.int8, (5, 7, 1), 0, None, dtypes.float16),
                (dtypes.uint8, (2, 33, 3), 32, None, dtypes.float16),
                (dtypes.int8, (3, 200, 1), 64, dtypes.int8, dtypes.float32),
                (dtypes.uint8, (4, 65, 1), 32, dtypes.float32, dtypes.float32),
                (dtypes.uint8, (1, 9, 2), 0, dtypes.uint8, dtypes.float16),
                (dtypes.bfloat16, (2, 40, 1), 0, None, dtypes.float16),
                (dtypes.float16, (17, 3, 2), 0, None, dtypes.float16),
                (dtypes.int8, (0, 40, 1), 0, None, dtypes.float16),
                (dtypes.int8, (2, 7, 3), 0, None, None)))


_NO_GRADIENT = ("weights stored in few bits, and their scales, have no gradient; train the network "
                "before cellc.quantize, or leave its layer out (skip)")
