"""Shapes, parts, joins, gathers and scatters."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from cellc_compiler.ir.dims import is_symbolic, smallest, surely_equal
from cellc_runtime import dtypes

from ..core.dispatch import apply_one
from ..ops.functional import creation, indexing, joining, shapes, sorting
from ..ops.functional import distinct as distinct_
from ..tensors.promotion import constant
from ..tensors.tensor import Tensor
from .table import (
    Array,
    Call,
    Known,
    axes_of,
    axis_of,
    border_of,
    counted,
    elements,
    like,
    rule,
    rules,
    sizes,
    to,
)

A = apply_one
_FAR = 10**9  # An end of a slice that is at least this stands for the end of an axis of open size


def reshaped(x: Tensor, shape: Sequence[int]) -> Tensor:
    """A tensor in another shape."""
    return A("reshape", x, shape=tuple(shape))


def transposed(x: Tensor, *perm: int) -> Tensor:
    """A tensor with its axes in this order."""
    return A("transpose", x, perm=perm)


@rule("Shape", "Size", raw=True)
def _shape(c: Call, x: Any) -> Any:
    raise c.refuse("its input was left out")  # `folding` answers all others


@rule("Reshape", known=(1,))
def _reshape(c: Call, x: Tensor, shape: Array | None = None) -> Tensor:
    wanted = list(sizes(shape) if shape is not None else c.ints("shape", ()) or ())
    if not c.flag("allowzero"):
        if any(not is_symbolic(d) and d == 0 and i >= x.ndim for i, d in enumerate(wanted)):
            raise c.refuse(f"its shape {wanted} takes over an axis that {x.shape} does not have")
        wanted = [x.shape[i] if not is_symbolic(d) and d == 0 else d for i, d in enumerate(wanted)]
    return shapes.reshape(x, tuple(wanted))


@rule("Flatten")
def _flatten(c: Call, x: Tensor) -> Tensor:
    axis = border_of(c.whole("axis", 1), x.ndim)
    return reshaped(x, (math.prod(x.shape[:axis]), math.prod(x.shape[axis:])))


@rule("Squeeze", known=(1,))
def _squeeze(c: Call, x: Tensor, axes: Array | None = None) -> Tensor:
    given = sizes(axes) if axes is not None else c.ints("axes")
    dims = x.shape
    gone = axes_of(given, x.ndim) if given is not None else [
        i for i, d in enumerate(dims) if not is_symbolic(d) and d == 1]
    for a in gone:
        if dims[a] != 1:
            raise c.refuse(f"axis {a} of the shape {list(dims)} is not 1")
    return reshaped(x, [d for i, d in enumerate(dims) if i not in gone])


@rule("Unsqueeze", known=(1,))
def _unsqueeze(c: Call, x: Tensor, axes: Array | None = None) -> Tensor:
    given = (sizes(axes) if axes is not None else c.ints("axes")) or ()
    new = axes_of(given, x.ndim + len(given))
    rest = iter(x.shape)
    return reshaped(x, [1 if i in new else next(rest) for i in range(x.ndim + len(new))])


@rule("Transpose")
def _transpose(c: Call, x: Tensor) -> Tensor:
    perm = c.ints("perm") or tuple(range(x.ndim))[::-1]
    return transposed(x, *perm)


@rule("Concat")
def _concat(c: Call, *xs: Tensor) -> Tensor:
    axis = c.axis(xs[0].ndim, 1)
    return xs[0] if len(xs) == 1 else A("concat", *xs, axis=axis)


@rule("Split", known=(1,))
def _split(c: Call, x: Tensor, parts: Array | None = None) -> list[Tensor]:
    axis = c.axis(x.ndim)
    size, count = x.shape[axis], c.whole("num_outputs", len(c.node.outputs))
    lengths = sizes(parts) if parts is not None else c.ints("split")
    if lengths is None:
        if count != len(c.node.outputs):
            raise c.refuse(f"its 'num_outputs' is {count}, but it has {len(c.node.outputs)}")
        step = -(-size // count)
        lengths = (*(step,) * (count - 1), size - step * (count - 1))
    if sum(lengths) != size:
        raise c.refuse(f"its parts {list(lengths)} do not add up to the {size} of axis {axis}")
    out, at = [], 0
    for n in lengths:
        out.append(sliced(x, axis, at, at + n))
        at += n
    return out


def sliced(x: Tensor, axis: int, start: int, stop: int, step: int = 1) -> Tensor:
    """x[start:stop:step] along an axis; positions lie inside."""
    starts, stops, steps = [0] * x.ndim, list(x.shape), [1] * x.ndim
    starts[axis], stops[axis], steps[axis] = start, stop, step
    return A("slice", x, start=tuple(starts), stop=tuple(stops), step=tuple(steps))


@rule("Slice", known=(1, 2, 3, 4))
def _slice(c: Call, x: Tensor, starts: Any = None, ends: Any = None, axes: Any = None,
           steps: Any = None) -> Tensor:
    if c.opset < 10:
        first, last, where = c.ints("starts", ()), c.ints("ends", ()), c.ints("axes")
    else:
        first, last, where = (None if v is None else sizes(v) for v in (starts, ends, axes))
    assert first is not None and last is not None
    where = tuple(range(len(first))) if where is None else where
    by = (1,) * len(first) if steps is None else sizes(steps)
    if not len(first) == len(last) == len(where) == len(by):
        raise c.refuse("its starts, ends, axes and steps differ in number")
    start, stop, step = [0] * x.ndim, list(x.shape), [1] * x.ndim
    for a, z, axis, s in zip(first, last, where, by, strict=True):
        i = axis_of(axis, x.ndim)
        if s == 0:
            raise c.refuse("a step is 0")
        start[i], stop[i] = _bounds(a, z, s, x.shape[i])
        step[i] = s
    return A("slice", x, start=tuple(start), stop=tuple(stop), step=tuple(step))


def _bounds(start: Any, stop: Any, step: int, size: Any) -> tuple[Any, Any]:
    """Start and stop as `slice.indices` gives them, for sizes that may be open."""
    if not any(is_symbolic(v) for v in (start, stop, size)):
        return slice(start, stop if step > 0 or stop >= -size else None, step).indices(size)[:2]
    low, high = (0, size) if step > 0 else (-1, size - 1)

    def inside(v: Any) -> Any:
        if (not is_symbolic(v) and v >= _FAR) or surely_equal(v, size):
            return high
        if not is_symbolic(v) and v <= -_FAR:
            return low
        if v < 0:
            v = v + size
            return v if v >= low else low
        return smallest(v, high) if v != 0 or step < 0 else v

    first, last = inside(start), inside(stop)
    return (first, last) if step < 0 or last >= first else (first, first)


@rule("Expand", known=(1,))
def _expand(c: Call, x: Tensor, shape: Array) -> Tensor:
    wanted = list(sizes(shape))
    dims = [1] * (len(wanted) - x.ndim) + list(x.shape)
    wanted = [1] * (len(dims) - len(wanted)) + wanted
    full = tuple(d if not is_symbolic(w) and w == 1 else w
                 for d, w in zip(dims, wanted, strict=True))
    return A("broadcast_to", x, shape=full)


@rule("Tile", known=(1, 2))
def _tile(c: Call, x: Tensor, repeats: Array, axis: Array | None = None) -> Tensor:
    if axis is not None:  # version 1: how often along which axis
        many = [1] * x.ndim
        many[axis_of(axis, x.ndim)] = int(repeats)
        return joining.tile(x, tuple(many))
    return joining.tile(x, sizes(repeats)) if x.ndim else x


@rule("ConstantOfShape", known=(0,), raw=False)
def _constant_of_shape(c: Call, shape: Array) -> Tensor:
    value = c.attrs.get("value")
    one = Known(np.zeros((), np.float32) if value is None else c.array(value).reshape(-1)[:1]
                .reshape(()))
    return A("broadcast_to", one.tensor(), shape=sizes(shape))


@rule("Range", raw=True)
def _range(c: Call, *given: Known | Tensor) -> Tensor:
    if len(given) != 3:
        raise c.refuse(f"it has {len(given)} inputs, but its op takes 3")
    kind = given[0].dtype
    start, limit, delta = (elements(v, "Range").reshape(-1)[0] for v in given)
    if not is_symbolic(delta) and not delta:
        raise c.refuse("the step of the range is 0")
    if kind.is_float and not any(map(is_symbolic, (start, limit, delta))):
        count = counted(max(0, math.ceil((float(limit) - float(start)) / float(delta))),
                        "the length of the range")
        numbers = start + np.arange(count).astype(kind.numpy) * delta
        return Known(numbers.astype(kind.numpy).reshape(-1)).tensor()
    a, z, s = (v if is_symbolic(v) or float(v) % 1 else int(v) for v in (start, limit, delta))
    if float in (type(a), type(s)):
        raise c.refuse(f"from {a} to an open size {z} in steps of {s} is not read")
    count = -((a - z) // s)
    if not is_symbolic(count):
        count = max(count, 0)
    steps = A("iota", shape=(count,), axis=0, dtype=dtypes.int64)
    steps = steps if not is_symbolic(s) and s == 1 else A("mul", steps, constant(s, dtypes.int64))
    whole = steps if not is_symbolic(a) and a == 0 else \
        A("add", steps, constant(a, dtypes.int64))
    return to(whole, kind)


@rule("EyeLike")
def _eye(c: Call, x: Tensor) -> Tensor:
    n, m = x.shape
    return A("eye", n=n, m=m, diagonal=c.whole("k", 0), dtype=c.dtype("dtype", x.dtype))


@rule("Trilu", known=(1,))
def _trilu(c: Call, x: Tensor, k: Array | None = None) -> Tensor:
    diagonal = 0 if k is None else sizes(k)[0]
    return A("triu" if c.flag("upper", 1) else "tril", x, diagonal=diagonal)


@rule("Pad", known=(1, 3))
def _pad(c: Call, x: Tensor, pads: Any = None, value: Tensor | None = None, axes: Any = None
         ) -> Tensor:
    given = sizes(pads) if pads is not None else c.ints("pads", c.ints("paddings", ())) or ()
    where = range(x.ndim) if axes is None else [axis_of(a, x.ndim) for a in sizes(axes)]
    if len(given) != 2 * len(where):
        raise c.refuse(f"{len(given)} 'pads' do not fit {len(where)} axes")
    low, high = [0] * x.ndim, [0] * x.ndim
    for i, a in enumerate(where):
        low[a], high[a] = given[i], given[len(where) + i]
    mode = c.text("mode", "constant")
    border = {"reflect": "reflect", "edge": "replicate", "wrap": "circular"}.get(mode)
    if border is not None:
        return A("pad_border", x, low=tuple(low), high=tuple(high), mode=border)
    fill = c.real("value", 0.0) if value is None else elements(value, "Pad").reshape(())[()]
    number = bool(fill) if x.dtype is dtypes.bool_ else \
        int(fill) if x.dtype.is_integer else float(fill)
    return A("pad", x, low=tuple(low), high=tuple(high), value=number)


@rule("CenterCropPad", known=(1,))
def _center(c: Call, x: Tensor, shape: Array) -> Tensor:
    given = c.ints("axes")
    axes = range(x.ndim) if given is None else [axis_of(a, x.ndim) for a in given]
    for a, n in zip(axes, sizes(shape), strict=True):
        size = x.shape[a]
        if n < size:
            x = sliced(x, a, (size - n) // 2, (size - n) // 2 + n)
        elif n > size:
            low, high = [0] * x.ndim, [0] * x.ndim
            low[a] = (n - size) // 2
            high[a] = n - size - low[a]
            x = A("pad", x, low=tuple(low), high=tuple(high), value=0)
    return x


@rule("DepthToSpace")
def _depth_to_space(c: Call, x: Tensor) -> Tensor:
    b, (n, ch, h, w) = c.whole("blocksize", 1), x.shape
    if c.text("mode", "DCR") == "DCR":
        parts = transposed(reshaped(x, (n, b, b, ch // (b * b), h, w)), 0, 3, 4, 1, 5, 2)
    else:
        parts = transposed(reshaped(x, (n, ch // (b * b), b, b, h, w)), 0, 1, 4, 2, 5, 3)
    return reshaped(parts, (n, ch // (b * b), h * b, w * b))


@rule("SpaceToDepth")
def _space_to_depth(c: Call, x: Tensor) -> Tensor:
    b, (n, ch, h, w) = c.whole("blocksize", 1), x.shape
    parts = reshaped(x, (n, ch, h // b, b, w // b, b))
    perm = (0, 3, 5, 1, 2, 4) if c.text("mode", "DCR") == "DCR" else (0, 1, 3, 5, 2, 4)
    return reshaped(transposed(parts, *perm), (n, ch * b * b, h // b, w // b))


# --- gathers and scatters -------------------------------------------------------------------------


@rule("ArrayFeatureExtractor", "ai.onnx.ml::ArrayFeatureExtractor")
def _features(c: Call, x: Tensor, index: Tensor) -> Tensor:
    x = x if x.ndim > 1 else reshaped(x, (1, x.size))
    return indexing.gather(x, reshaped(index, (index.size,)), x.ndim - 1)


@rule("GatherND")
def _gather_nd(c: Call, x: Tensor, index: Tensor) -> Tensor:
    batch = c.whole("batch_dims", 0)
    if batch:
        lead = x.shape[:batch]
        parts = [to(A("iota", shape=(*index.shape[:-1], 1), axis=i, dtype=dtypes.int64),
                    index.dtype) for i in range(len(lead))]
        index = A("concat", *parts, index, axis=index.ndim - 1)
    return indexing.gather_nd(x, index)


_REDUCTIONS = {"none": "update", "add": "add", "mul": "mul", "max": "max", "min": "min"}


def _reduction(c: Call) -> str:
    given = c.text("reduction", "none")
    if given not in _REDUCTIONS:
        raise c.refuse(f"its 'reduction' is {given!r}")
    return given


rules({
    "Gather": lambda c, x, index: indexing.gather(x, index, c.axis(x.ndim)),
    "GatherElements": lambda c, x, index: indexing.gather_elements(x, c.axis(x.ndim), index),
    "ScatterElements Scatter": lambda c, x, index, updates:
        indexing.tensor_scatter_elements(x, index, updates, c.axis(x.ndim), _reduction(c)),
})


@rule("ScatterND")
def _scatter_nd(c: Call, x: Tensor, index: Tensor, updates: Tensor) -> Tensor:
    name = f"tensor_scatter_{_REDUCTIONS[_reduction(c)]}"
    out: Tensor = getattr(indexing, name)(x, index, updates)
    return out


@rule("TensorScatter")
def _tensor_scatter(c: Call, x: Tensor, update: Tensor, at: Tensor | None = None) -> Tensor:
    axis = c.axis(x.ndim, -2)
    batch, many, size = x.shape[0], update.shape[axis], x.shape[axis]
    start = creation.zeros((batch,), dtypes.int64) if at is None else to(at, dtypes.int64)
    places = A("add", reshaped(start, (batch, 1)),
               A("iota", shape=(1, many), axis=1, dtype=dtypes.int64))
    if c.text("mode", "linear") == "circular":
        places = A("mod", places, constant(size, dtypes.int64))
    shape = [1] * x.ndim
    shape[0], shape[axis] = batch, many
    index = A("broadcast_to", reshaped(places, shape), shape=update.shape)
    return indexing.tensor_scatter_elements(x, index, update, axis)


@rule("OneHot", known=(1,))
def _one_hot(c: Call, index: Tensor, depth: Array, values: Tensor) -> Tensor:
    axis, n = c.axis(index.ndim, -1, more=1), sizes(depth)[0]
    index = to(index, dtypes.int64)
    index = A("where", A("lt", index, like(0, index)), A("add", index, constant(n, dtypes.int64)),
              index)
    shape = [1] * (index.ndim + 1)
    shape[axis] = n
    line = A("iota", shape=tuple(shape), axis=axis, dtype=dtypes.int64)
    hot = A("eq", shapes.expand_dims(index, axis), line)
    off, on = (reshaped(sliced(values, 0, i, i + 1), ()) for i in (0, 1))
    return A("where", hot, on, off)


@rule("NonZero")
def _nonzero(c: Call, x: Tensor) -> Tensor:
    if not x.ndim:
        found = sorting.nonzero(reshaped(x, (1,)))
        return reshaped(sliced(found, 1, 0, 0), (0, found.shape[0]))
    return transposed(sorting.nonzero(x), 1, 0)


@rule("Compress")
def _compress(c: Call, x: Tensor, condition: Tensor) -> Tensor:
    if "axis" not in c.attrs:
        x = reshaped(x, (x.size,))
    axis = c.axis(x.ndim)
    if condition.shape[0] < x.shape[axis]:
        x = sliced(x, axis, 0, condition.shape[0])
    places = sorting.nonzero(condition)
    return indexing.gather(x, reshaped(places, (places.shape[0],)), axis)


@rule("Unique")
def _unique(c: Call, x: Tensor) -> list[Tensor]:
    axis = None if "axis" not in c.attrs else c.axis(x.ndim)
    y, inverse, counts = distinct_.unique(x, sorted=True, return_inverse=True, return_counts=True,
                                          dim=axis)
    many = y.shape[0 if axis is None else axis]
    inverse = reshaped(inverse, (inverse.size,))
    # The first place of each: the least position whose value it is.
    line = A("iota", shape=inverse.shape, axis=0, dtype=dtypes.int64)
    start = A("broadcast_to", constant(inverse.shape[0], dtypes.int64), shape=(many,))
    first = indexing.tensor_scatter_elements(start, inverse, line, 0, "min")
    if not c.flag("sorted", 1):
        order = sorting.argsort(first)
        rank = indexing.tensor_scatter_elements(
            A("iota", shape=(many,), axis=0, dtype=dtypes.int64), order,
            A("iota", shape=(many,), axis=0, dtype=dtypes.int64), 0)
        y = indexing.gather(y, order, 0 if axis is None else axis)
        first, counts = indexing.gather(first, order, 0), indexing.gather(counts, order, 0)
        inverse = indexing.gather(rank, inverse, 0)
    return [y, first, to(inverse, dtypes.int64), to(counts, dtypes.int64)]


@rule("ReverseSequence")
def _reverse_sequence(c: Call, x: Tensor, lengths: Tensor) -> Tensor:
    if {c.whole("time_axis", 0), c.whole("batch_axis", 1)} != {0, 1}:
        raise c.refuse("its axes of time and batch must be 0 and 1")
    first = c.whole("batch_axis", 1) == 0
    rows = x if first else shapes.swapaxes(x, 0, 1)
    at = A("iota", shape=(1, rows.shape[1]), axis=1, dtype=dtypes.int64)
    ends = to(reshaped(lengths, (rows.shape[0], 1)), dtypes.int64)
    at = A("where", A("lt", at, ends), A("sub", A("sub", ends, like(1, at)), at), at)
    rows = indexing.gather(rows, at, 1, 1)
    return rows if first else shapes.swapaxes(rows, 0, 1)


@rule("TopK", known=(1,))
def _topk(c: Call, x: Tensor, k: Array | None = None) -> list[Tensor]:
    many = sizes(k)[0] if k is not None else c.whole("k", 1)
    axis, largest = c.axis(x.ndim, -1), c.flag("largest", 1)
    values, places = sorting.topk(x, many, axis, largest, True)
    return [values, to(places, dtypes.int64)]
