"""Parts of tensors and their joins: slice, concat, stack, split, pad, functional slice update."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from ..ir import attributes as attr
from ..ir.dims import Dim, is_symbolic
from ..ir.graph import Builder, Node, Value
from ..ir.op import ANY, Array, Op, Sample, Spec
from ..ir.types import TensorType, normalize_axis, own_axis, show_shape
from ..loops import expr as E
from ..loops.expr import Expr, Reader
from ..loops.index import Index
from . import _batch_axis
from ._members import Grads, case, sharding
from ._views import Composite, Element, between, both, crop, fill, select, updated
from .batching import WHOLE, along, prefixed
from .elementwise import same_dtype

Ints = tuple[int, ...]

_FUSED_PARTS = 4  # Beyond this, choosing a part per element costs more than copying (measured)


def _steps(step: Ints | None, rank: int) -> Ints:
    return (1,) * rank if step is None else tuple(step)


def _count(start: int | Dim, stop: int | Dim, step: int) -> int | Dim:
    """Number of elements of start, start + step, ... before stop."""
    n = (stop - start + step - 1) // step if step > 0 else (start - stop - step - 1) // -step
    return n if is_symbolic(n) else max(n, 0)


def slice_shape(name: str, x: TensorType, start: Ints, stop: Ints, step: Ints | None) -> Ints:
    """The shape of `x[start:stop:step]`, all bounds checked. Raises ValueError if the number of
    entries is wrong, a step is 0, or a position is out of range."""
    steps = _steps(step, x.rank)
    if not len(start) == len(stop) == len(steps) == x.rank:
        raise ValueError(f"{name} needs start, stop and step for each of the {x.rank} axes of {x}")
    out = []
    for k, (a, z, s, d) in enumerate(zip(start, stop, steps, x.shape, strict=True)):
        if s == 0:
            raise ValueError(f"{name} got a step of 0 on axis {k}")
        n = _count(a, z, s)
        known = not any(is_symbolic(v) for v in (a, n, d))  # if not, seen when it is known
        if known and n:
            last = a + (n - 1) * s
            if not (0 <= a < d and 0 <= last < d):
                raise ValueError(f"{name} reads positions {a}..{last} of axis {k} of {x}")
        out.append(n)
    return tuple(out)  # type: ignore[arg-type]  # a Dim behaves as an int


def _np_slices(start: Ints, stop: Ints, step: Ints | None) -> tuple[slice, ...]:
    """numpy slices; a stop below 0 of a negative step means "past the first element", and nothing
    counts from the end."""
    return tuple(slice(a, None if s < 0 and z < 0 else z, s) if _count(a, z, s) else slice(0)
                 for a, z, s in zip(start, stop, _steps(step, len(start)), strict=True))


class Slice(Op):
    """input[start:stop:step] on every axis. Source: `mindspore.ops.strided_slice`.

    Attributes:
        start, stop, step: per axis, as Python's `slice.indices` gives them: start is inside,
            stop of a negative step may be -1 (past the first element); step None means 1.
    """

    name = "slice"
    leading_size = "stop"
    batch_axis = _batch_axis.sliced
    exact = True
    attrs = {"start": attr.wholes(), "stop": attr.wholes(), "step": attr.optional(attr.wholes())}
    dtypes = ANY
    cost = "free"
    batch = prefixed(start=0, stop=WHOLE, step=1)

    def factors(self, node: Node) -> sharding.Factors:
        """Each axis that is read forwards."""
        x, y, start = node.operands[0].type, node.result.type.dims, node.attrs["start"]
        steps = _steps(node.attrs["step"], x.rank)
        axes = tuple((a,) if s > 0 else () for a, s in enumerate(steps))
        return sharding.Factors(
            tuple(map(math.gcd, x.dims, y)), (axes,), (axes,), windows={
                (0, a): sharding.Sliding(x.dims[a], y[a], s, -start[a]).covered_window()
                for a, s in enumerate(steps) if s > 0})

    def part(self, b: Builder, node: Node, operands: Sequence[Value], part: sharding.Part) -> Value:
        """Every `step`-th of the elements that this rank's part needs."""
        start, stop = list(node.attrs["start"]), list(node.attrs["stop"])
        for (_, axis), (begin, end) in part.windows.items():
            start[axis], stop[axis] = 0, end - begin
        out: Value = b.emit(self.name, *operands, **{
            **node.attrs, "start": tuple(start), "stop": tuple(stop)})
        return out

    def infer(self, x: TensorType, *, start: Ints, stop: Ints, step: Ints | None) -> TensorType:
        return x.with_shape(slice_shape("slice", x, start, stop, step))

    def reference(self, x: Array, *, start: Ints, stop: Ints, step: Ints | None) -> Array:
        return x[_np_slices(start, stop, step)]

    def gradient(self, b: Builder, node: Node, dys: Grads) -> Grads:
        x, dy = node.operands[0], dys[0]
        start, steps = node.attrs["start"], _steps(node.attrs["step"], x.type.rank)
        back = tuple(k for k, s in enumerate(steps) if s < 0)
        if back:
            dy = b.flip(dy, axes=back)
        # After the flip, position a of x is the first one read on each axis.
        first = tuple(a + (n - 1) * s if s < 0 else a
                      for a, s, n in zip(start, steps, dy.shape, strict=True))
        gaps = tuple(abs(s) - 1 for s in steps)
        spans = tuple(max((n - 1) * (g + 1) + 1, 0) if n else 0
                      for n, g in zip(dy.shape, gaps, strict=True))
        low = tuple(a if n else d for a, n, d in zip(first, dy.shape, x.shape, strict=True))
        high = tuple(d - a - n for d, a, n in zip(x.shape, low, spans, strict=True))
        return [b.pad(dy, low=low, high=high, interior=gaps)]

    def value(self, r: Reader, idx: tuple[Index, ...]) -> Expr:
        start, steps = r.attrs["start"], _steps(r.attrs["step"], len(idx))
        return r.read(0, tuple(i * s + a for i, a, s in zip(idx, start, steps, strict=True)))

    def samples(self) -> Sequence[Sample]:
        x = (5, 7)
        return (case(x, start=(1, 2), stop=(4, 7)), case(x, start=(0, 1), stop=(5, 7), step=(2, 3)),
                case(x, start=(4, 5), stop=(-1, 0), step=(-1, -2)),
                case(x, start=(2, 0), stop=(2, 7)), case((40,), start=(3,), stop=(40,)),
                case((), start=(), stop=()))


class Part(Composite):
    """A slice under another shape: what `x[1, :3]` reads, as one op of PyNative.

    Attributes:
        start, stop, step: as those of `slice`.
        shape: of the result, with as many elements.
    """

    name = "part"
    attrs = {"start": attr.wholes(), "stop": attr.wholes(), "step": attr.optional(attr.wholes()),
             "shape": attr.shape()}
    dtypes = ANY
    cost = "free"

    def expand(self, b: Builder, x: Value, *, start: Ints, stop: Ints, step: Ints | None,
               shape: Ints) -> Value:
        return b.reshape(b.slice(x, start=start, stop=stop, step=step), shape=shape)

    def reference(self, x: Array, *, start: Ints, stop: Ints, step: Ints | None,
                  shape: Ints) -> Array:
        return x[_np_slices(start, stop, step)].reshape(shape)

    def samples(self) -> Sequence[Sample]:
        x = (5, 7)
        return (case(x, start=(1, 2), stop=(2, 7), shape=(5,)),
                case(x, start=(4, 3), stop=(-1, 4), step=(-2, 1), shape=(1, 3)),
                case(x, start=(2, 3), stop=(3, 4), shape=()),
                case((0, 3), start=(0, 1), stop=(0, 2), shape=(0,)))


class _Join(Op):
    """Base of concat and the two ops it becomes."""

    batch_axis = _batch_axis.whole_along("axis")
    exact = True
    operands = ("input", "*others")
    attrs = {"axis": attr.axis(0)}
    dtypes = ANY
    batch = along("axis")

    def infer(self, *types: TensorType, axis: int) -> TensorType:
        same_dtype("concat", *types)
        first = types[0]
        if first.rank == 0:
            raise ValueError("concat needs tensors of at least 1 dimension, got scalars")
        k = normalize_axis(axis, first.rank)
        total: int | Dim = 0
        for t in types:
            if t.rank != first.rank or (t.shape[:k], t.shape[k + 1:]) != (
                    first.shape[:k], first.shape[k + 1:]):
                raise ValueError(f"concat along axis {k} needs equal other dimensions, got "
                                 f"{show_shape(first.shape)} and {show_shape(t.shape)}")
            total = total + t.shape[k]
        return first.with_shape((*first.shape[:k], total, *first.shape[k + 1:]))

    def reference(self, *arrays: Array, axis: int) -> Array:
        return np.concatenate(arrays, axis)

    def gradient(self, b: Builder, node: Node, dys: Grads) -> Grads:
        axis = normalize_axis(node.attrs["axis"], node.result.type.rank)
        dy = dys[0]
        out, at = [], 0
        for v in node.operands:
            out.append(crop(b, dy, axis, at, at + v.shape[axis]))
            at += v.shape[axis]
        return out

    def samples(self) -> Sequence[Sample]:
        return (case((2, 3), (4, 3), axis=0), case((2, 3), (2, 0), (2, 17), axis=1),
                case((5,), axis=0), case((0, 2), (0, 2), axis=0),
                case((1, 1, 1), (1, 1, 1), axis=-1))


class MicroBatch(Composite):
    """One of the equal parts of a batch, along the first axis.

    Values computed from it belong to a micro-batch: a pipeline of stages works on one after the
    other (`passes/stages`).

    Attributes:
        index: which part, counted from 0.
        count: how many there are.
        batches: the rows are the batches of that number of ranks, one after the other; a part has
            that part of each.
    """

    name = "micro_batch"
    attrs = {"index": attr.size(), "count": attr.size(least=1), "batches": attr.size(1, least=1)}
    dtypes = ANY
    cost = "free"

    def factors(self, node: Node) -> sharding.Factors:
        """A rank has the parts of whole batches, or all."""
        ty, batches = node.operands[0].type, node.attrs["batches"]
        given, made = ty.dims[0] // batches, node.result.type.dims[0] // batches
        rest = tuple((3 + a,) for a in range(ty.rank - 1))
        return sharding.Factors(
            (batches, given, made, *ty.dims[1:]), (((0, 1), *rest),), (((0, 2), *rest),),
            allowed=lambda parts: max(parts.get(1, 1), parts.get(2, 1)) == 1)

    def part(self, b: Builder, node: Node, operands: Sequence[Value], part: sharding.Part) -> Value:
        """The same of the batches that this rank has."""
        mine = node.attrs["batches"] * part.operand[0][1] // node.operands[0].type.dims[0]
        out: Value = b.emit(self.name, *operands, **{**node.attrs, "batches": mine})
        return out

    def reference(self, x: Array, *, index: int, count: int, batches: int) -> Array:
        each = x.reshape(batches, count, len(x) // (batches * count), *x.shape[1:])
        return each[:, index].reshape(len(x) // count, *x.shape[1:])

    def expand(self, b: Builder, x: Value, *, index: int, count: int, batches: int) -> Value:
        if not 0 <= index < count:
            raise ValueError(f"micro_batch: there is no part {index} of {count}")
        if not x.type.rank or x.shape[0] % (count * batches):
            of = f" of each of {batches} batches" if batches > 1 else ""
            raise ValueError(
                f"micro_batch: the first axis of {x.type} is not divided by {count} parts{of}")
        rows, rest = x.shape[0] // (count * batches), x.shape[1:]
        each = x if batches == 1 else b.reshape(x, shape=(batches, count * rows, *rest))
        axis = each.type.rank - x.type.rank
        low, high = [0] * each.type.rank, list(each.shape)
        low[axis], high[axis] = index * rows, (index + 1) * rows
        part = b.slice(each, start=tuple(low), stop=tuple(high))
        return part if batches == 1 else b.reshape(part, shape=(batches * rows, *rest))

    def samples(self) -> Sequence[Sample]:
        return (case((6, 5), index=1, count=3), case((4,), index=0, count=1),
                case((0, 3), index=1, count=2), case((6, 0), index=2, count=3),
                case((12, 2), index=1, count=3, batches=2))


class Concat(_Join):
    """Tensors joined along an axis. Source: `mindspore.ops.cat`.

    Attributes:
        axis: the axis; the other axes must agree.
    """

    name = "concat"

    def expand(self, b: Builder, *xs: Value, axis: int) -> Value:
        few = len(xs) <= _FUSED_PARTS
        return b.emit("join" if few else "join_copy", *xs, axis=axis)


class Join(_Join):
    """`concat` of a few tensors: fuses with its neighbours, choosing the part per element.

    Attributes:
        axis: the axis.
    """

    name = "join"

    def value(self, r: Reader, idx: tuple[Index, ...]) -> Element:
        axis = normalize_axis(r.attrs["axis"], len(idx))
        i = idx[axis]
        least, most = i.bounds
        out: Element | None = None
        at = sum(t.dims[axis] for t in r.types)
        for k in reversed(range(len(r.types))):
            end, at = at, at - r.types[k].dims[axis]
            if end == at or least >= end or most < at:
                continue
            inside = between(i, at, end)
            own = (*idx[:axis], i - at, *idx[axis + 1:])
            part = r.read(k, own) if inside is None else r.read(k, own, where=inside)
            # The parts built before cover elements beyond `end`.
            out = part if out is None else select(E.index_value(i).lt(end), part, out)
        return out if out is not None else fill(r.types[0].dtype)


class JoinCopy(_Join):
    """`concat` of many tensors: copies them.

    Attributes:
        axis: the axis.
    """

    name = "join_copy"
    opaque = True

    def samples(self) -> Sequence[Sample]:
        parts = tuple(Spec((3, n)) for n in (4, 1, 0, 70, 2))
        tall = tuple(Spec((n, 3)) for n in (1, 5, 2, 40, 3))
        rows = tuple(Spec((21, n)) for n in (1, 1, 1, 17, 2))
        return (Sample(parts, {"axis": 1}), Sample(tall, {"axis": 0}),
                Sample(rows, {"axis": 1}), Sample((Spec((0, 2)),) * 5, {"axis": 0}))


class Stack(Composite):
    """Tensors of one shape joined along a new axis. Source: `mindspore.ops.stack`.

    Attributes:
        axis: where the new axis goes (-1: last).
    """

    name = "stack"
    exact = True
    operands = ("input", "*others")
    attrs = {"axis": attr.axis(0)}
    dtypes = ANY

    def expand(self, b: Builder, *xs: Value, axis: int) -> Value:
        for x in xs:
            if x.type.shape != xs[0].type.shape:
                raise ValueError(f"stack needs tensors of one shape, got {xs[0].type} and {x.type}")
        k = normalize_axis(axis, xs[0].type.rank + 1)
        shape = (*xs[0].shape[:k], 1, *xs[0].shape[k:])
        return b.concat(*(b.reshape(x, shape=shape) for x in xs), axis=k)

    def reference(self, *arrays: Array, axis: int) -> Array:
        return np.stack(arrays, axis)

    def samples(self) -> Sequence[Sample]:
        x = (3, 5)
        return (case(x, x, x, axis=1), case(x, x, axis=-1), case((), (), axis=0),
                case((0, 2), axis=0))


class Split(Composite):
    """Consecutive parts along an axis, one result each. Source: `mindspore.ops.split`.

    Attributes:
        sizes: lengths of the parts; they sum to the axis.
        axis: the axis.
    """

    name = "split"
    exact = True
    attrs = {"sizes": attr.shape(), "axis": attr.axis(0)}
    dtypes = ANY

    def expand(self, b: Builder, x: Value, *, sizes: Ints, axis: int) -> tuple[Value, ...]:
        k = own_axis(axis, x.type.rank, self.name)
        if sum(sizes) != x.shape[k]:
            raise ValueError(f"split sizes {tuple(sizes)} do not sum to axis {k} of {x.type}")
        ends = np.cumsum((0, *sizes)).tolist()
        return tuple(crop(b, x, k, a, z) for a, z in pairwise(ends))

    def reference(self, x: Array, *, sizes: Ints, axis: int) -> tuple[Array, ...]:
        return tuple(np.split(x, np.cumsum(sizes[:-1], dtype=np.int64).tolist(), axis))

    def gradient(self, b: Builder, node: Node, dys: Grads) -> Grads:
        """The parts' cotangents joined; no sums of padded parts."""
        axis = normalize_axis(node.attrs["axis"], node.operands[0].type.rank)
        parts = [b.zeros_like(r) if dy is None else dy
                 for r, dy in zip(node.results, dys, strict=True)]
        return [b.concat(*parts, axis=axis)]

    def samples(self) -> Sequence[Sample]:
        return (case((5, 3), sizes=(2, 3)), case((2, 9), sizes=(4, 0, 5), axis=1),
                case((4,), sizes=(4,)))


class Pad(Op):
    """Constant elements added around (or, with negative numbers, removed) and in between.

    Source: `mindspore.ops.pad` (mode constant); the gaps are those of XLA's Pad.

    Attributes:
        low, high: elements added before and after, per axis; negative ones crop.
        interior: elements put between neighbours, per axis (None: none).
        value: the element added.
    """

    name = "pad"
    batch_axis = _batch_axis.padded
    exact = True
    attrs = {"low": attr.wholes(), "high": attr.wholes(), "interior": attr.optional(attr.shape()),
             "value": attr.number(0)}
    dtypes = ANY
    batch = prefixed(low=0, high=0, interior=0)

    def factors(self, node: Node) -> sharding.Factors:
        """Each axis between whose elements nothing is put."""
        x, y = node.operands[0].type.dims, node.result.type.dims
        gaps, low = node.attrs["interior"] or (0,) * len(x), node.attrs["low"]
        axes = tuple((a,) if not gap else () for a, gap in enumerate(gaps))
        slides = {(0, a): sharding.Sliding(d, n, before=low[a])
                  for a, (d, n) in enumerate(zip(x, y, strict=True)) if axes[a]}
        return sharding.Factors(
            tuple(map(math.gcd, x, y)), (axes,), (axes,),
            windows={at: s.covered_window() for at, s in slides.items()})

    def part(self, b: Builder, node: Node, operands: Sequence[Value], part: sharding.Part) -> Value:
        """The same of the elements that this rank has of the operand, of which none is left out."""
        low, high = (list(node.attrs[side]) for side in ("low", "high"))
        for (_, axis), (begin, end) in part.windows.items():
            low[axis] = max(-begin, 0)
            high[axis] = max(end - node.operands[0].type.dims[axis], 0)
        out: Value = b.emit(self.name, *operands,
                            **{**node.attrs, "low": tuple(low), "high": tuple(high)})
        return out

    def infer(self, x: TensorType, *, low: Ints, high: Ints, interior: Ints | None,
              value: float) -> TensorType:
        gaps = (0,) * x.rank if interior is None else interior
        if not len(low) == len(high) == len(gaps) == x.rank:
            raise ValueError(f"pad needs low, high and interior for each of the {x.rank} axes of "
                             f"{x}")
        dims = []
        for k, (d, a, z, g) in enumerate(zip(x.shape, low, high, gaps, strict=True)):
            span = d if g == 0 or d == 0 else (d - 1) * (g + 1) + 1
            n = span + a + z
            if isinstance(n, int) and n < 0:
                raise ValueError(f"pad by {a} and {z} leaves {n} elements of axis {k} of {x}")
            dims.append(n)
        return x.with_shape(dims)

    def reference(self, x: Array, *, low: Ints, high: Ints, interior: Ints | None,
                  value: float) -> Array:
        number = np.asarray(value).astype(x.dtype)  # (what is out of range wraps, as code does)
        for k in range(x.ndim):
            g = interior[k] if interior else 0
            y = np.moveaxis(x, k, 0)
            span = (len(y) - 1) * (g + 1) + 1 if len(y) else 0
            wide = np.full((max(low[k], 0) + span + max(high[k], 0), *y.shape[1:]), number)
            wide[max(low[k], 0): max(low[k], 0) + span: g + 1] = y
            wide = wide[max(-low[k], 0): len(wide) - max(-high[k], 0)]
            x = np.moveaxis(wide, 0, k)
        return x

    def gradient(self, b: Builder, node: Node, dys: Grads) -> Grads:
        low, high = node.attrs["low"], node.attrs["high"]
        dims = node.operands[0].shape
        gaps = node.attrs["interior"] or (0,) * len(dims)
        # Undo the outer padding (a crop comes back as zeros), then drop what lies between.
        dy = b.pad(dys[0], low=tuple(-a for a in low), high=tuple(-z for z in high))
        if any(gaps):
            dy = b.slice(dy, start=(0,) * len(dims), stop=dy.shape, step=tuple(g + 1 for g in gaps))
        return [dy]

    def value(self, r: Reader, idx: tuple[Index, ...]) -> Element:
        dims = r.types[0].dims
        gaps = r.attrs["interior"] or (0,) * len(dims)
        own: list[Index] = []
        conds: list[Expr | None] = []
        for i, d, a, g in zip(idx, dims, r.attrs["low"], gaps, strict=True):
            at = i - a
            if g:
                at, rest = at.split(g + 1)
                conds.append(None if rest == Index((), 0) else E.index_value(rest).eq(0))
            conds.append(between(at, 0, d))
            own.append(at)
        cond = both(conds)
        if cond is None:
            return r.read(0, tuple(own))
        if 0 in dims:
            return fill(r.types[0].dtype, r.attrs["value"])
        inside = r.read(0, tuple(own), where=cond)
        return select(cond, inside, fill(r.types[0].dtype, r.attrs["value"]))

    def samples(self) -> Sequence[Sample]:
        x = (3, 5)
        return (case(x, low=(1, 2), high=(0, 3)), case(x, low=(-1, 2), high=(2, -3), value=1),
                case(x, low=(0, 1), high=(1, 0), interior=(1, 2)),
                case(x, low=(-1, -2), high=(-1, 1), interior=(2, 1)),
                case((0, 2), low=(2, 0), high=(1, 0)), case((37,), low=(3,), high=(0,)),
                case((), low=(), high=()))


class PadBorder(Composite):
    """Elements added around that repeat the tensor's own. Source: `mindspore.ops.pad`.

    Attributes:
        low, high: elements added before and after, per axis; negative ones crop.
        mode: `"reflect"` (mirror without the edge), `"symmetric"` (mirror with it),
            `"replicate"` (the edge element), `"circular"` (from the other end).
    """

    name = "pad_border"
    attrs = {"low": attr.wholes(), "high": attr.wholes(), "mode": attr.choice("reflect",
             "symmetric", "circular", "replicate")}
    dtypes = ANY

    def expand(self, b: Builder, x: Value, *, low: Ints, high: Ints, mode: str) -> Value:
        if not len(low) == len(high) == x.type.rank:
            raise ValueError(f"pad needs low and high for each of the {x.type.rank} axes")
        for k in range(x.type.rank):
            x = crop(b, x, k, max(-low[k], 0), x.shape[k] - max(-high[k], 0))
            self._check(x.shape[k], max(low[k], high[k]), k, mode)
            parts = [x]
            if low[k] > 0:
                parts.insert(0, self._border(b, x, k, low[k], mode, before=True))
            if high[k] > 0:
                parts.append(self._border(b, x, k, high[k], mode, before=False))
            x = b.concat(*parts, axis=k) if len(parts) > 1 else x
        return x

    def _check(self, size: int, width: int, axis: int, mode: str) -> None:
        limits = {"reflect": size - 1, "symmetric": size, "circular": size,
                  "replicate": width if size else 0}
        if width > 0 and width > limits[mode]:
            raise ValueError(f"{mode} padding of an axis of {size} elements goes up to "
                             f"{limits[mode]}, got {width} on axis {axis}")

    def _border(self, b: Builder, x: Value, k: int, width: int, mode: str, *,
                before: bool) -> Value:
        n = x.shape[k]
        if mode == "circular":
            return crop(b, x, k, n - width, n) if before else crop(b, x, k, 0, width)
        if mode == "replicate":
            edge = crop(b, x, k, 0, 1) if before else crop(b, x, k, n - 1, n)
            shape = (*x.shape[:k], width, *x.shape[k + 1:])
            return b.broadcast_to(edge, shape=shape)
        skip = 1 if mode == "reflect" else 0
        part = crop(b, x, k, skip, skip + width) if before else crop(
            b, x, k, n - skip - width, n - skip)
        return b.flip(part, axes=(k,))

    def reference(self, x: Array, *, low: Ints, high: Ints, mode: str) -> Array:
        for k in range(x.ndim):
            x = np.take(x, range(max(-low[k], 0), x.shape[k] - max(-high[k], 0)), k)
        kinds: dict[str, Any] = {"replicate": "edge", "circular": "wrap"}
        widths = [(max(a, 0), max(z, 0)) for a, z in zip(low, high, strict=True)]
        return np.pad(x, widths, kinds.get(mode, mode))

    def samples(self) -> Sequence[Sample]:
        x = (4, 5)
        low, high = (1, 3), (2, 0)
        return (case(x, low=low, high=high, mode="reflect"),
                case(x, low=low, high=high, mode="symmetric"),
                case(x, low=(6, -1), high=(1, 2), mode="replicate"),
                case(x, low=low, high=high, mode="circular"),
                case((1, 1), low=(0, 2), high=(0, 0), mode="replicate"))


class UpdateSlice(Op):
    """input with the elements at start, start + step, ... of each axis replaced.

    Attributes:
        start: first position per axis.
        step: distance per axis (None: 1; negative goes downwards).
    """

    name = "update_slice"
    window = True
    batch_axis = _batch_axis.updated
    operands = ("input", "update")
    attrs = {"start": attr.wholes(), "step": attr.optional(attr.wholes())}
    dtypes = ANY
    batch = prefixed(start=0, step=1)

    def infer(self, x: TensorType, update: TensorType, *, start: Ints,
              step: Ints | None) -> TensorType:
        same_dtype("update_slice", x, update)
        if update.rank != x.rank:
            raise ValueError(f"update_slice needs an update of {x.rank} dimensions, got {update}")
        slice_shape("update_slice", x, start, self._stop(update.dims, start, step), step)
        return x

    def _stop(self, dims: Ints, start: Ints, step: Ints | None) -> Ints:
        steps = _steps(step, len(dims))
        return tuple(a + n * s for a, n, s in zip(start, dims, steps, strict=False))

    def reference(self, x: Array, update: Array, *, start: Ints, step: Ints | None) -> Array:
        out = np.array(x)
        if update.size:
            out[_np_slices(start, self._stop(update.shape, start, step), step)] = update
        return out

    def gradient(self, b: Builder, node: Node, dys: Grads) -> Grads:
        dy, update = dys[0], node.operands[1]
        start, step = node.attrs["start"], node.attrs["step"]
        dx = b.update_slice(dy, b.zeros_like(update), start=start, step=step)
        stop = self._stop(update.shape, start, step)
        return [dx, b.slice(dy, start=start, stop=stop, step=step)]

    def value(self, r: Reader, idx: tuple[Index, ...]) -> Element:
        dims = r.types[1].dims
        if 0 in dims:
            return r.read(0, idx)
        own: list[Index] = []
        conds: list[Expr | None] = []
        steps = _steps(r.attrs["step"], len(idx))
        for i, n, a, s in zip(idx, dims, r.attrs["start"], steps, strict=True):
            first = a if s > 0 else a + (n - 1) * s
            at, rest = (i - first).split(abs(s))
            if rest != Index((), 0):
                conds.append(E.index_value(rest).eq(0))
            conds.append(between(at, 0, n))
            own.append(at if s > 0 else n - 1 - at)
        return updated(r, idx, own, conds)

    def samples(self) -> Sequence[Sample]:
        x = (5, 7)
        return (case(x, (2, 3), start=(1, 2)), case(x, (2, 3), start=(0, 6), step=(3, -2)),
                case(x, x, start=(0, 0)), case(x, (0, 3), start=(2, 1)), case((), (), start=()),
                case((40,), (1,), start=(39,)))
