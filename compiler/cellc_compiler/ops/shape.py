"""Shape ops: constants and views (reshape, transpose, broadcast, flip, tile, diagonals, ...).

A view is a map of indices; it costs nothing when it fuses into its reader.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from cellc_runtime import dtypes
from cellc_runtime.dtypes import DType
from cellc_runtime.lazy import lazy_imports

from ..ir import attributes as attr
from ..ir.graph import Builder, Literal, Node, Value
from ..ir.op import ANY, INTS, NUMBERS, Array, Op, Sample, Spec
from ..ir.types import (
    Shape,
    TensorType,
    broadcast_shapes,
    normalize_axes,
    normalize_axis,
    own_axis,
)
from ..loops import expr as E
from ..loops.expr import ComplexExpr, Expr, Reader
from ..loops.index import Index, ravel, unravel
from . import _batch_axis, _identities
from ._members import Grads, case, define, no_gradient, sharding
from ._views import Composite, Element, between, crop, fill, select
from .batching import WHOLE, along, broadcasted, hot, pointwise, prefixed, turned
from .elementwise import unbroadcast

with lazy_imports(__name__):  # most programs have known sizes
    from cellc_runtime import open_sizes


class Constant(Op):
    """A literal array. Attribute `value` is a `Literal`."""

    name = "constant"
    batch_axis = _batch_axis.none
    operands = ()
    attrs = {"value": attr.literal()}
    dtypes = ANY
    cost = "free"
    gradient = no_gradient

    def infer(self, *, value: Literal) -> TensorType:
        return value.type

    def reference(self, *, value: Literal) -> Array:
        return value.array


class Number(Composite):
    """A rank-0 constant worked out from symbolic sizes; a literal where these are known.

    Attributes:
        value: an int, a float, or a number made of sizes (`ir/dims.py`).
        dtype: element type.
    """

    name = "size_number"
    operands = ()
    attrs = {"value": attr.number(), "dtype": attr.element_type()}
    dtypes = ANY
    differentiable = False
    gradient = no_gradient

    def infer(self, *, value: Any, dtype: DType) -> TensorType:
        return TensorType((), dtype)

    def expand(self, b: Builder, *, value: Any, dtype: DType) -> Value:
        return b.literal(open_sizes.scalar(value, dtype))

    def reference(self, *, value: Any, dtype: DType) -> Array:
        return open_sizes.scalar(value, dtype)

    def samples(self) -> Sequence[Sample]:
        return (case(value=3, dtype=dtypes.float32, grad=False),
                case(value=-0.5, dtype=dtypes.float64, grad=False))


class Reshape(Op):
    """The same elements in row-major order under another shape. Source: `mindspore.ops.reshape`.

    Attributes:
        shape: result shape, all non-negative (the frontend resolves -1).
    """

    name = "reshape"
    leading_size = "shape"
    may_alias = True
    simplify = _identities.same_view
    batch_axis = _batch_axis.reshaped
    exact = True
    attrs = {"shape": attr.shape()}
    dtypes = ANY
    cost = "free"
    batch = prefixed(shape=WHOLE)

    def factors(self, node: Node) -> sharding.Factors:
        return sharding.reshaped_factors(node)

    def part(self, b: Builder, node: Node, operands: Sequence[Value], part: sharding.Part) -> Value:
        return sharding.reshaped_part(b, node, operands, part)

    def infer(self, x: TensorType, *, shape: Shape) -> TensorType:
        out = x.with_shape(shape)
        if out.size != x.size:
            raise ValueError(f"cannot reshape {x} of {x.size} elements to {tuple(shape)} of "
                             f"{out.size}")
        return out

    def reference(self, x: Array, *, shape: tuple[int, ...]) -> Array:
        return np.reshape(x, shape)

    def gradient(self, b: Builder, node: Node, dys: Grads) -> Grads:
        return [b.reshape(dys[0], shape=node.operands[0].type.shape)]

    def value(self, r: Reader, idx: tuple[Index, ...]) -> Expr:
        return r.read(0, unravel(ravel(idx, r.out[0].dims), r.types[0].dims))

    def samples(self) -> Sequence[Sample]:
        return (case((4, 6), shape=(3, 8)), case((5,), shape=(1, 5)), case((), shape=(1, 1)),
                case((0, 3), shape=(3, 0)))


class BroadcastTo(Op):
    """Repeat along axes of size 1 and new leading axes. Source: `mindspore.ops.broadcast_to`.

    Attributes:
        shape: result shape.
    """

    name = "broadcast_to"
    leading_size = "shape"
    simplify = _identities.same_view
    batch_axis = _batch_axis.broadcast
    exact = True
    attrs = {"shape": attr.shape()}
    dtypes = ANY
    cost = "free"
    batch = broadcasted

    def factors(self, node: Node) -> sharding.Factors:
        return sharding.aligned_factors(node)

    def part(self, b: Builder, node: Node, operands: Sequence[Value], part: sharding.Part) -> Value:
        return sharding.reshaped_part(b, node, operands, part)

    def infer(self, x: TensorType, *, shape: Shape) -> TensorType:
        if broadcast_shapes(x.shape, tuple(shape), "broadcast_to") != tuple(shape):
            raise ValueError(f"cannot broadcast {x} to {tuple(shape)}")
        return x.with_shape(shape)

    def reference(self, x: Array, *, shape: tuple[int, ...]) -> Array:
        return np.broadcast_to(x, shape)

    def gradient(self, b: Builder, node: Node, dys: Grads) -> Grads:
        return [unbroadcast(b, dys[0], node.operands[0].type)]

    def value(self, r: Reader, idx: tuple[Index, ...]) -> Expr:
        return r.broadcast(0, idx)

    def samples(self) -> Sequence[Sample]:
        return (case((4, 1), shape=(3, 4, 5)), case((), shape=(7,)))


class Transpose(Op):
    """Axes permuted. Source: `mindspore.ops.transpose`.

    Attributes:
        perm: axis `i` of the result is axis `perm[i]` of the input.
    """

    name = "transpose"
    simplify = _identities.merged_permutation
    batch_axis = _batch_axis.permuted
    exact = True
    attrs = {"perm": attr.axes()}
    dtypes = ANY
    cost = "free"
    batch = turned

    def infer(self, x: TensorType, *, perm: tuple[int, ...]) -> TensorType:
        if sorted(perm) != list(range(x.rank)):
            raise ValueError(f"perm {tuple(perm)} is no permutation of the {x.rank} axes of {x}")
        return x.with_shape(x.shape[p] for p in perm)

    def reference(self, x: Array, *, perm: tuple[int, ...]) -> Array:
        return np.transpose(x, perm)

    def gradient(self, b: Builder, node: Node, dys: Grads) -> Grads:
        perm = node.attrs["perm"]
        return [b.transpose(dys[0], perm=tuple(perm.index(i) for i in range(len(perm))))]

    def value(self, r: Reader, idx: tuple[Index, ...]) -> Expr:
        perm = r.attrs["perm"]
        return r.read(0, tuple(idx[perm.index(i)] for i in range(len(perm))))

    def samples(self) -> Sequence[Sample]:
        return (case((3, 4, 5), perm=(2, 0, 1)), case((17, 33), perm=(1, 0)))


class Flip(Op):
    """Elements in reverse order along axes. Source: `mindspore.ops.flip`.

    Attributes:
        axes: axes to reverse.
    """

    name = "flip"
    batch_axis = _batch_axis.whole_along("axes")
    exact = True
    attrs = {"axes": attr.axes()}
    dtypes = ANY
    cost = "free"
    batch = along("axes")

    def infer(self, x: TensorType, *, axes: tuple[int, ...]) -> TensorType:
        if axes:
            normalize_axes(axes, x.rank)
        return x

    def reference(self, x: Array, *, axes: tuple[int, ...]) -> Array:
        return np.flip(x, axes) if axes and x.ndim else x

    def gradient(self, b: Builder, node: Node, dys: Grads) -> Grads:
        return [b.flip(dys[0], axes=node.attrs["axes"])]

    def value(self, r: Reader, idx: tuple[Index, ...]) -> Expr:
        dims, axes = r.types[0].dims, r.attrs["axes"]
        gone = normalize_axes(axes, len(dims)) if axes else ()
        return r.read(0, tuple(d - 1 - i if k in gone else i
                               for k, (i, d) in enumerate(zip(idx, dims, strict=True))))

    def samples(self) -> Sequence[Sample]:
        return (case((3, 4, 5), axes=(0, 2)), case((37,), axes=(0,)), case((1, 0), axes=(1,)),
                case((2, 3), axes=()))


class Roll(Composite):
    """Elements shifted along axes, those leaving one end entering at the other.

    Source: `mindspore.ops.roll`.

    Attributes:
        shifts: how far towards higher indices, one number per axis of `axes` (any sign).
        axes: axes to shift along; an axis may come up several times.
    """

    name = "roll"
    attrs = {"shifts": attr.wholes(), "axes": attr.axes()}
    dtypes = ANY

    def expand(self, b: Builder, x: Value, *, shifts: tuple[int, ...],
               axes: tuple[int, ...]) -> Value:
        if len(shifts) != len(axes):
            raise ValueError(f"roll needs one shift per axis, got {shifts} for the axes {axes}")
        for shift, axis in zip(shifts, axes, strict=True):
            k = own_axis(axis, x.type.rank, self.name)
            d = x.shape[k]
            s = shift % d if d else 0
            if s:
                x = b.concat(crop(b, x, k, d - s, d), crop(b, x, k, 0, d - s), axis=k)
        return x

    def reference(self, x: Array, *, shifts: Any, axes: Any) -> Array:
        return np.roll(x, shifts, axes)

    def samples(self) -> Sequence[Sample]:
        return (case((3, 5), shifts=(1, -2), axes=(0, 1)), case((17,), shifts=(40,), axes=(0,)),
                case((0, 2), shifts=(1,), axes=(0,)))


class Tile(Composite):
    """The tensor repeated whole along each axis. Source: `mindspore.ops.tile`.

    Attributes:
        reps: repetitions per axis, aligned to the last axes; more of them than axes adds axes.
    """

    name = "tile"
    attrs = {"reps": attr.shape()}
    dtypes = ANY

    def expand(self, b: Builder, x: Value, *, reps: tuple[int, ...]) -> Value:
        rank = max(len(reps), x.type.rank)
        times = (1,) * (rank - len(reps)) + tuple(reps)
        dims = (1,) * (rank - x.type.rank) + x.shape
        split = tuple(n for d in dims for n in (1, d))
        wide = tuple(n for t, d in zip(times, dims, strict=True) for n in (t, d))
        out = b.broadcast_to(b.reshape(x, shape=split), shape=wide)
        shape = tuple(t * d for t, d in zip(times, dims, strict=True))
        return b.reshape(out, shape=shape)

    def reference(self, x: Array, *, reps: tuple[int, ...]) -> Array:
        return np.tile(x, reps)

    def samples(self) -> Sequence[Sample]:
        return (case((2, 3), reps=(3, 2)), case((5,), reps=(2, 1, 3)), case((2, 1, 2), reps=(4,)),
                case((2,), reps=(0,)))


class Repeat(Composite):
    """Each element repeated along an axis. Source: `mindspore.ops.repeat_interleave`.

    Attributes:
        repeats: how many times (at least 0).
        axis: the axis.
    """

    name = "repeat"
    attrs = {"repeats": attr.size(), "axis": attr.axis()}
    dtypes = ANY

    def expand(self, b: Builder, x: Value, *, repeats: int, axis: int) -> Value:
        k = own_axis(axis, x.type.rank, self.name)
        dims = x.shape
        thin = b.reshape(x, shape=(*dims[: k + 1], 1, *dims[k + 1:]))
        wide = b.broadcast_to(thin, shape=(*dims[: k + 1], repeats, *dims[k + 1:]))
        return b.reshape(wide, shape=(*dims[:k], dims[k] * repeats, *dims[k + 1:]))

    def reference(self, x: Array, *, repeats: int, axis: int) -> Array:
        return np.repeat(x, repeats, axis)

    def samples(self) -> Sequence[Sample]:
        return (case((2, 3), repeats=3, axis=1), case((5, 2), repeats=2, axis=0),
                case((3,), repeats=0, axis=0))


class Iota(Op):
    """Positions along an axis: element `[..., i, ...]` is `i`.

    Attributes:
        shape: result shape.
        axis: the axis counted along.
        dtype: element type of the result.
    """

    name = "iota"
    batch_axis = _batch_axis.counted
    exact = True
    operands = ()
    attrs = {"shape": attr.shape(), "axis": attr.axis(0), "dtype": attr.element_type(dtypes.int64)}
    dtypes = NUMBERS
    cost = "free"
    gradient = no_gradient

    def factors(self, node: Node) -> sharding.Factors:
        return sharding.aligned_factors(node)

    def part(self, b: Builder, node: Node, operands: Sequence[Value], part: sharding.Part) -> Value:
        out = sharding.reshaped_part(b, node, operands, part)
        start, _ = part.result[node.attrs["axis"]] if part.result else (0, 0)
        return b.add(out, b.scalar(start, out)) if start else out

    def infer(self, *, shape: Shape, axis: int, dtype: DType) -> TensorType:
        normalize_axis(axis, len(shape))
        return TensorType(tuple(shape), dtype)

    def reference(self, *, shape: tuple[int, ...], axis: int, dtype: DType) -> Array:
        if not shape:
            return np.zeros((), dtype.numpy)
        steps = np.arange(shape[axis]).astype(dtype.numpy)
        column = [-1 if k == axis % len(shape) else 1 for k in range(len(shape))]
        return np.broadcast_to(steps.reshape(column), shape)

    def value(self, r: Reader, idx: tuple[Index, ...]) -> Element:
        i = E.index_value(idx[r.attrs["axis"]] if idx else 0)
        return _convert(i, r.attrs["dtype"])

    def samples(self) -> Sequence[Sample]:
        return (case(shape=(3, 5), axis=1), case(shape=(19, 2), axis=0, dtype=dtypes.float32),
                case(shape=(0,), axis=0), case(shape=()))


def _convert(e: Expr, dtype: DType) -> Element:
    """An integer element as any dtype."""
    if dtype.is_complex:
        part = dtypes.float32 if dtype is dtypes.complex64 else dtypes.float64
        return ComplexExpr(E.cast(e, part), E.const(0, part))
    return E.cast(e, dtype)


class Eye(Op):
    """Ones on a diagonal, zeros elsewhere: shape (n, m). Source: `mindspore.ops.eye`.

    Attributes:
        n, m: rows and columns.
        diagonal: 0 for the main diagonal, positive above it.
        dtype: element type of the result.
    """

    name = "eye"
    operands = ()
    attrs = {"n": attr.size(), "m": attr.size(), "diagonal": attr.whole(default=0),
             "dtype": attr.element_type(dtypes.float32)}
    dtypes = ANY
    cost = "free"
    gradient = no_gradient

    def infer(self, *, n: int, m: int, diagonal: int, dtype: DType) -> TensorType:
        return TensorType((n, m), dtype)

    def reference(self, *, n: int, m: int, diagonal: int, dtype: DType) -> Array:
        return np.eye(n, m, diagonal).astype(dtype.numpy)

    def value(self, r: Reader, idx: tuple[Index, ...]) -> Element:
        hit = E.index_value(idx[1] - idx[0]).eq(r.attrs["diagonal"])
        dtype = r.attrs["dtype"]
        return select(hit, fill(dtype, 1), fill(dtype, 0))

    def samples(self) -> Sequence[Sample]:
        return (case(n=3, m=5), case(n=17, m=18, diagonal=-2), case(n=0, m=4),
                case(n=1, m=1, dtype=dtypes.bool_))


class _Triangle(Op):
    """Base of tril and triu: the last two axes are a matrix.

    An element stays where column minus row compares so (`kept`) with the diagonal.
    """

    kept: ClassVar[str]
    batch_axis = _batch_axis.whole_last(2)
    attrs = {"diagonal": attr.whole(default=0)}
    dtypes = ANY
    batch = pointwise

    def infer(self, x: TensorType, *, diagonal: int) -> TensorType:
        if x.rank < 2:
            raise ValueError(f"{self.name} needs a tensor of at least 2 dimensions, got {x}")
        return x

    def gradient(self, b: Builder, node: Node, dys: Grads) -> Grads:
        return [b.emit(self.name, dys[0], **node.attrs)]

    def reference(self, x: Array, *, diagonal: int) -> Array:
        out: Array = getattr(np, self.name)(x, diagonal).astype(x.dtype)
        return out

    def value(self, r: Reader, idx: tuple[Index, ...]) -> Element:
        keep = getattr(E.index_value(idx[-1] - idx[-2]), self.kept)(r.attrs["diagonal"])
        return select(keep, r.read(0, idx), fill(r.types[0].dtype))

    def samples(self) -> Sequence[Sample]:
        return (case((5, 4)), case((2, 3, 17), diagonal=2), case((4, 4), diagonal=-1), case((0, 3)),
                case((1, 1), diagonal=1))


define(_Triangle, "tril",
       """Zero above a diagonal of the last two axes. Source: `mindspore.ops.tril`.

    Attributes:
        diagonal: the last diagonal kept; 0 is the main one, positive above it.
    """, kept="le")
define(_Triangle, "triu",
       """Zero below a diagonal of the last two axes. Source: `mindspore.ops.triu`.

    Attributes:
        diagonal: the first diagonal kept; 0 is the main one, positive above it.
    """, kept="ge")


class Diagonal(Op):
    """A diagonal of the last two axes: (..., n, m) to (..., length).

    Attributes:
        offset: 0 for the main diagonal, positive above it.
    """

    name = "diagonal"
    batch_axis = _batch_axis.whole_last(2)
    attrs = {"offset": attr.whole(default=0)}
    dtypes = ANY
    cost = "free"
    batch = pointwise

    def infer(self, x: TensorType, *, offset: int) -> TensorType:
        if x.rank < 2:
            raise ValueError(f"diagonal needs a tensor of at least 2 dimensions, got {x}")
        n, m = x.dims[-2:]
        length = min(n, m - offset) if offset >= 0 else min(n + offset, m)
        return x.with_shape((*x.shape[:-2], max(length, 0)))

    def reference(self, x: Array, *, offset: int) -> Array:
        return np.diagonal(x, offset, -2, -1)

    def gradient(self, b: Builder, node: Node, dys: Grads) -> Grads:
        rows, columns = node.operands[0].shape[-2:]
        return [b.diag_embed(dys[0], offset=node.attrs["offset"], rows=rows, columns=columns)]

    def value(self, r: Reader, idx: tuple[Index, ...]) -> Expr:
        offset = r.attrs["offset"]
        i = idx[-1]
        return r.read(0, (*idx[:-1], i + max(-offset, 0), i + max(offset, 0)))

    def samples(self) -> Sequence[Sample]:
        return (case((4, 5)), case((2, 5, 3), offset=-1), case((3, 3), offset=2),
                case((2, 2), offset=5))


class DiagEmbed(Op):
    """Matrices with the last axis on a diagonal: (..., length) to (..., rows, columns).

    Source: `mindspore.ops.diag_embed`.

    Attributes:
        offset: 0 for the main diagonal, positive above it.
        rows, columns: size of the matrices; the smallest square that holds the diagonal if None.
    """

    name = "diag_embed"
    batch_axis = _batch_axis.whole_last(1)
    attrs = {"offset": attr.whole(default=0), "rows": attr.optional(attr.size()),
             "columns": attr.optional(attr.size())}
    dtypes = ANY
    batch = pointwise

    def infer(self, x: TensorType, *, offset: int, rows: int | None,
              columns: int | None) -> TensorType:
        if x.rank < 1:
            raise ValueError(f"diag_embed needs a tensor of at least 1 dimension, got {x}")
        side = x.dims[-1] + abs(offset)
        n = side if rows is None else rows
        m = side if columns is None else columns
        held = max(min(n, m - offset) if offset >= 0 else min(n + offset, m), 0)
        if held != x.dims[-1]:
            raise ValueError(f"diag_embed cannot place {x.dims[-1]} elements on diagonal {offset} "
                             f"of {n} rows and {m} columns, which has {held}")
        return x.with_shape((*x.shape[:-1], n, m))

    def reference(self, x: Array, *, offset: int, rows: int | None, columns: int | None) -> Array:
        side = x.shape[-1] + abs(offset)
        out = np.zeros((*x.shape[:-1], side if rows is None else rows,
                        side if columns is None else columns), x.dtype)
        i = np.arange(x.shape[-1])
        out[..., i + max(-offset, 0), i + max(offset, 0)] = x
        return out

    def gradient(self, b: Builder, node: Node, dys: Grads) -> Grads:
        return [b.diagonal(dys[0], offset=node.attrs["offset"])]

    def value(self, r: Reader, idx: tuple[Index, ...]) -> Element:
        offset = r.attrs["offset"]
        row, column = idx[-2], idx[-1]
        on = E.index_value(column - row).eq(offset)
        i = row if offset >= 0 else column
        inside = between(i, 0, r.types[0].dims[-1])
        cond = on if inside is None else on & inside
        return select(cond, r.read(0, (*idx[:-2], i), where=cond), fill(r.types[0].dtype))

    def samples(self) -> Sequence[Sample]:
        return (case((4,)), case((2, 3), offset=-2), case((3,), offset=1, rows=3, columns=9),
                case((0,)), case((1, 1), offset=1))


class OneHot(Op):
    """`on` where a new axis's position equals the index, `off` elsewhere.

    An index outside 0..depth-1 gives a row of `off`. Source: `mindspore.ops.one_hot`.

    Attributes:
        depth: length of the new axis.
        on, off: the two values.
        axis: where the new axis goes (-1: last).
        dtype: element type of the result.
    """

    name = "one_hot"
    batch_axis = _batch_axis.hot
    exact = True
    operands = ("indices",)
    attrs = {"depth": attr.size(), "on": attr.number(1.0), "off": attr.number(0.0),
             "axis": attr.axis(-1), "dtype": attr.element_type(dtypes.float32)}
    dtypes = INTS
    differentiable = False
    batch = hot
    gradient = no_gradient

    def infer(self, indices: TensorType, *, depth: int, on: float, off: float, axis: int,
              dtype: DType) -> TensorType:
        if indices.dtype not in INTS:
            raise TypeError(f"one_hot needs indices of an integer dtype, got {indices}")
        k = normalize_axis(axis, indices.rank + 1)
        return TensorType((*indices.shape[:k], depth, *indices.shape[k:]), dtype)

    def reference(self, indices: Array, *, depth: int, on: float, off: float, axis: int,
                  dtype: DType) -> Array:
        hit = np.asarray(indices)[..., None].astype(np.float64) == np.arange(depth)
        return np.moveaxis(np.where(hit, on, off), -1, axis).astype(dtype.numpy)

    def value(self, r: Reader, idx: tuple[Index, ...]) -> Element:
        k = normalize_axis(r.attrs["axis"], len(idx))
        index = E.cast(r.read(0, (*idx[:k], *idx[k + 1:])), dtypes.int64)
        dtype = r.attrs["dtype"]
        hit = E.compare("eq", index, E.index_value(idx[k]))
        return select(hit, fill(dtype, r.attrs["on"]), fill(dtype, r.attrs["off"]))

    def samples(self) -> Sequence[Sample]:
        i = Spec((3, 4), 0, 5)
        return (case(i, depth=5, grad=False),
                case(i, depth=3, axis=0, on=2.0, off=-1.0, grad=False),
                case(Spec((), 0, 2), depth=17, dtype=dtypes.int32, grad=False),
                case(Spec((0,), 0, 2), depth=2, grad=False))
