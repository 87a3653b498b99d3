"""Shapes, parts, joins, gathers and scatters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cellc_compiler.ir.dims import is_symbolic, surely_equal
from cellc_runtime import dtypes

from ..core.dispatch import apply_one
from ..ops.functional import indexing, joining, shapes, window
from ..tensors.tensor import Tensor
from .table import Call, Refused, axes_of, axis_of, hint, like, reshaped, rule, rules, to

A = apply_one
_FAR = 1 << 62


@rule("expand")
def _expand(c: Call, x: Tensor, shape: Sequence[int], **ignored: Any) -> Tensor:
    dims = [1] * (len(shape) - x.ndim) + list(x.shape)
    return A("broadcast_to", x, shape=tuple(
        d if not is_symbolic(s) and s == -1 else s for d, s in zip(dims, shape, strict=True)))


@rule("squeeze")
def _squeeze(c: Call, x: Tensor, axes: Any = None) -> Tensor:
    given = axes_of(axes, x.ndim)
    gone = {a for a in given if x.ndim and not is_symbolic(x.shape[a]) and x.shape[a] == 1}
    return reshaped(x, [d for i, d in enumerate(x.shape) if i not in gone])


@rule("unsqueeze")
def _unsqueeze(c: Call, x: Tensor, axis: int) -> Tensor:
    a = axis_of(axis, x.ndim + 1)
    return reshaped(x, [*x.shape[:a], 1, *x.shape[a:]])


@rule("cat")
def _cat(c: Call, xs: Sequence[Tensor], axis: int = 0) -> Tensor:
    kept = [to(x, c.dtype) for x in xs if not (x.ndim == 1 and x.shape == (0,))] or [xs[0]]
    return kept[0] if len(kept) == 1 else A("concat", *kept, axis=axis_of(axis, kept[0].ndim))


def sliced(x: Tensor, axis: int, start: Any, stop: Any, step: int = 1) -> Tensor:
    """x[start:stop:step] along an axis; positions lie inside."""
    starts, stops, steps = [0] * x.ndim, list(x.shape), [1] * x.ndim
    starts[axis], stops[axis], steps[axis] = start, stop, step
    return A("slice", x, start=tuple(starts), stop=tuple(stops), step=tuple(steps))


def _inside(at: Any, size: Any, default: Any) -> Any:
    """A position of a slice in [0, size]."""
    if at is None or (not is_symbolic(at) and at >= _FAR) or surely_equal(at, size):
        return default if at is None else size
    if at < 0:
        at = at + size
        return at if at >= 0 else 0
    return at if at <= size else size


def _range(x: Tensor, axis: int, start: Any, stop: Any) -> tuple[Any, Any]:
    size = x.shape[axis]
    a, z = _inside(start, size, 0), _inside(stop, size, size)
    return a, (z if z >= a else a)


@rule("slice.Tensor")
def _slice(c: Call, x: Tensor, axis: int = 0, start: Any = None, stop: Any = None, step: int = 1
           ) -> Tensor:
    a = axis_of(axis, x.ndim)
    return sliced(x, a, *_range(x, a, start, stop), step)


@rule("slice_scatter")
def _slice_scatter(c: Call, x: Tensor, new: Tensor, axis: int = 0, start: Any = None,
                   stop: Any = None, step: int = 1) -> Tensor:
    a = axis_of(axis, x.ndim)
    first, _ = _range(x, a, start, stop)
    starts, steps = [0] * x.ndim, [1] * x.ndim
    starts[a], steps[a] = first, step
    return A("update_slice", x, to(new, x.dtype), start=tuple(starts), step=tuple(steps))


@rule("select.int")
def _select(c: Call, x: Tensor, axis: int, index: Any) -> Tensor:
    a = axis_of(axis, x.ndim)
    at = index if index >= 0 else index + x.shape[a]
    part = sliced(x, a, at, at + 1)
    return reshaped(part, [d for i, d in enumerate(x.shape) if i != a])


@rule("select_scatter")
def _select_scatter(c: Call, x: Tensor, new: Tensor, axis: int, index: Any) -> Tensor:
    a = axis_of(axis, x.ndim)
    at = index if index >= 0 else index + x.shape[a]
    return _slice_scatter(c, x, shapes.expand_dims(new, a), a, at, at + 1)


@rule("split.Tensor", "split_with_sizes")
def _split(c: Call, x: Tensor, lengths: Any, axis: int = 0) -> list[Tensor]:
    a = axis_of(axis, x.ndim)
    if not isinstance(lengths, (list, tuple)):
        count, size = len(c.values), x.shape[a]
        lengths = [*[lengths] * (count - 1), size - lengths * (count - 1)]
    out, at = [], 0
    for n in lengths:
        out.append(sliced(x, a, at, at + n))
        at = at + n
    return out


@rule("constant_pad_nd")
def _pad(c: Call, x: Tensor, pads: Sequence[int], value: Any = 0) -> Tensor:
    low, high = _pads(x, pads)
    number = float(value) if x.dtype.is_float else int(value)
    return A("pad", x, low=low, high=high, value=bool(value) if x.dtype is dtypes.bool_ else number)


@rule("reflection_pad1d", "reflection_pad2d", "reflection_pad3d", "replication_pad1d",
      "replication_pad2d", "replication_pad3d")
def _pad_border(c: Call, x: Tensor, pads: Sequence[int]) -> Tensor:
    low, high = _pads(x, pads)
    mode = "reflect" if c.name.startswith("refl") else "replicate"
    return A("pad_border", x, low=low, high=high, mode=mode)


def _pads(x: Tensor, pads: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The pads of all axes; torch lists them from the last axis on."""
    low, high = [0] * x.ndim, [0] * x.ndim
    for i in range(len(pads) // 2):
        low[x.ndim - 1 - i], high[x.ndim - 1 - i] = pads[2 * i], pads[2 * i + 1]
    return tuple(low), tuple(high)


rules({
    "view.default _unsafe_view reshape _reshape_copy view_copy.default": lambda c, x, shape:
        shapes.reshape(x, tuple(shape)),
    "permute": lambda c, x, perm: A("transpose", x, perm=tuple(axis_of(a, x.ndim) for a in perm)),
    "transpose.int": lambda c, x, a, b: shapes.swapaxes(x, a, b) if x.ndim else x,
    "t numpy_T mT": lambda c, x: shapes.swapaxes(x, -1, -2) if x.ndim > 1 else x,
    "stack": lambda c, xs, axis=0:
        A("stack", *(to(x, c.dtype) for x in xs), axis=axis_of(axis, xs[0].ndim + 1)),
    "unbind": lambda c, x, axis=0:
        [_select(c, x, axis, i) for i in range(x.shape[axis_of(axis, x.ndim)])],
    "flip": lambda c, x, axes: A("flip", x, axes=axes_of(axes, x.ndim)),
    "roll": lambda c, x, shifts, axes=():
        joining.roll(x, shifts if isinstance(shifts, int) else tuple(shifts),
                     tuple(axes) if axes else None),
    "repeat": lambda c, x, times:
        joining.tile(reshaped(x, [1] * (len(times) - x.ndim) + list(x.shape)), tuple(times)),
    "pixel_shuffle": lambda c, x, factor: window.pixel_shuffle(x, factor),
    "pixel_unshuffle": lambda c, x, factor: window.pixel_unshuffle(x, factor),
    "tril triu": lambda c, x, diagonal=0: A(c.name, x, diagonal=diagonal),
})


@rule("diagonal")
def _diagonal(c: Call, x: Tensor, offset: int = 0, a: int = 0, b: int = 1) -> Tensor:
    first, second = axis_of(a, x.ndim), axis_of(b, x.ndim)
    rest = [i for i in range(x.ndim) if i not in (first, second)]
    return A("diagonal", A("transpose", x, perm=(*rest, first, second)), offset=offset)


@rule("unfold")
def _unfold(c: Call, x: Tensor, axis: int, size: int, step: int) -> Tensor:
    if not x.ndim:
        raise Refused("windows of a number")
    a = axis_of(axis, x.ndim)
    count = (x.shape[a] - size) // step + 1
    if step == size:
        flat = sliced(x, a, 0, count * size)
    else:
        first = A("mul", A("iota", shape=(count, 1), axis=0, dtype=dtypes.int64),
                  like(step, dtypes.int64))
        places = A("add", first, A("iota", shape=(1, size), axis=1, dtype=dtypes.int64))
        flat = indexing.gather(x, reshaped(places, (count * size,)), a)
    windows = reshaped(flat, (*x.shape[:a], count, size, *x.shape[a + 1:]))
    return A("transpose", windows, perm=(*(i for i in range(x.ndim + 1) if i != a + 1), a + 1))


# --- gathers and scatters -------------------------------------------------------------------------


rules({
    "embedding": lambda c, table, index, *ignored: indexing.gather(table, index, 0),
    "index_select": lambda c, x, axis, index:
        indexing.gather(x, reshaped(index, (index.size,)), axis_of(axis, x.ndim)),
})


@rule("gather")
def _gather(c: Call, x: Tensor, axis: int, index: Tensor, **ignored: Any) -> Tensor:
    if not x.ndim:
        return x
    return indexing.gather_elements(x, axis_of(axis, x.ndim), index)


@rule("scatter.src", "scatter.value", "scatter_add")
def _scatter(c: Call, x: Tensor, axis: int, index: Tensor, source: Any) -> Tensor:
    a = axis_of(axis, x.ndim)
    if not isinstance(source, Tensor):
        new = A("broadcast_to", like(source, x.dtype), shape=index.shape)
    else:
        new = source
        for i, n in enumerate(index.shape):
            new = new if surely_equal(new.shape[i], n) else sliced(new, i, 0, n)
    return indexing.tensor_scatter_elements(x, index, to(new, x.dtype), a,
                                            "add" if c.name == "scatter_add" else "none")


@rule("scatter_reduce.two")
def _scatter_reduce(c: Call, x: Tensor, axis: int, index: Tensor, source: Tensor, how: str, *,
                    include_self: bool = True) -> Tensor:
    op = {"sum": "add", "prod": "mul", "amax": "max", "amin": "min"}.get(how)
    if op is None or not include_self or not x.ndim:
        raise Refused(f"the reduction {how!r}, with include_self={include_self}")
    for i, n in enumerate(index.shape):
        source = source if surely_equal(source.shape[i], n) else sliced(source, i, 0, n)
    return indexing.tensor_scatter_elements(x, index, to(source, x.dtype), axis_of(axis, x.ndim),
                                            op)


@rule("index.Tensor", "_unsafe_index")
def _index(c: Call, x: Tensor, given: Sequence[Tensor | None]) -> Tensor:
    axes = [i for i, t in enumerate(given) if t is not None]
    index = [t for t in given if t is not None]
    if any(t.dtype is dtypes.bool_ or t.dtype is dtypes.uint8 for t in index):
        raise Refused("masks, whose number of elements only the run knows")
    if len(axes) == 1:
        return indexing.gather(x, to(index[0], dtypes.int64), axes[0])
    rank = max(t.ndim for t in index)
    front = axes != list(range(axes[0], axes[0] + len(axes)))
    rest = [i for i in range(x.ndim) if i not in axes]
    moved = A("transpose", x, perm=(*axes, *rest))
    shape = c.values[0].shape
    at = 0 if front else axes[0]
    ends = _broadcast([t.shape for t in index])
    assert len(shape) == rank + len(rest)
    points = A("stack", *(A("broadcast_to", _counted(to(t, dtypes.int64), x.shape[a]), shape=ends)
                          for t, a in zip(index, axes, strict=True)), axis=rank)
    found = indexing.gather_nd(moved, points)
    if at == 0:
        return found
    perm = (*range(rank, rank + at), *range(rank), *range(rank + at, found.ndim))
    return A("transpose", found, perm=perm)


def _broadcast(given: list[Any]) -> tuple[Any, ...]:
    """The shape that these have together."""
    rank = max(map(len, given))
    padded = [(1,) * (rank - len(s)) + tuple(s) for s in given]
    return tuple(next((d for d in dims if is_symbolic(d) or d != 1), 1)
                 for dims in zip(*padded, strict=True))


def _counted(index: Tensor, size: Any) -> Tensor:
    """Positions counted from the start."""
    return A("where", A("lt", index, like(0, index.dtype)),
             A("add", index, like(size, index.dtype)), index)


@rule("index_put")
def _index_put(c: Call, x: Tensor, given: Sequence[Tensor | None], values: Tensor,
               accumulate: bool = False) -> Tensor:
    index = [t for t in given if t is not None]
    if len(index) == 1 and index[0].dtype is dtypes.bool_ and values.size == 1:
        mask = reshaped(index[0], (*index[0].shape, *(1,) * (x.ndim - index[0].ndim)))
        return A("where", mask, reshaped(values, ()), x)
    if any(not t.dtype.is_integer or t.dtype is dtypes.uint8 for t in index):
        raise Refused("places that are masks")
    axes = [i for i, t in enumerate(given) if t is not None]
    rest = [i for i in range(x.ndim) if i not in axes]
    ends = _broadcast([t.shape for t in index])
    points = A("stack", *(A("broadcast_to", _counted(to(t, dtypes.int64), x.shape[a]), shape=ends)
                          for t, a in zip(index, axes, strict=True)), axis=len(ends))
    new = _placed_first(to(values, x.dtype), ends, axes, [x.shape[i] for i in rest])
    moved = A("transpose", x, perm=(*axes, *rest))
    found = A("scatter_nd", moved, points, new, mode="add" if accumulate else "update")
    return A("transpose", found, perm=tuple((*axes, *rest).index(i) for i in range(x.ndim)))


def _placed_first(values: Tensor, ends: tuple[Any, ...], axes: list[int], rest: list[Any]
                  ) -> Tensor:
    """Values for indexed places, in the shape of the places and then that of the other axes. torch
    has the places where the indexed axes are, and first where those do not lie side by side."""
    at = axes[0] if axes == list(range(axes[0], axes[0] + len(axes))) else 0
    new = A("broadcast_to", values, shape=(*rest[:at], *ends, *rest[at:]))
    places = range(at, at + len(ends))
    return A("transpose", new, perm=(*places, *(i for i in range(new.ndim) if i not in places)))


@rule("as_strided")
def _as_strided(c: Call, x: Tensor, size: Sequence[int], stride: Sequence[int],
                offset: int | None = None) -> Tensor:
    source, wanted = c.node.args[0].meta["val"], c.values[0]
    if source.storage_offset():
        raise Refused("a view that does not begin where its memory does")
    flat = reshaped(A("transpose", x, perm=_memory_order(source)), (x.size,))
    axes = [i for i in _memory_order(wanted) if hint(wanted.shape[i]) != 1]
    step = 1
    for i in reversed(axes):
        if not surely_equal(stride[i], step):
            raise Refused("strides that depend on sizes")
        step = step * size[i]
    part = sliced(flat, 0, offset or 0, step + (offset or 0))
    ordered = reshaped(part, [size[i] for i in axes])
    return reshaped(A("transpose", ordered, perm=tuple(axes.index(i) for i in sorted(axes))), size)


def _memory_order(meta: Any) -> tuple[int, ...]:
    """The order of axes in memory, whose elements must lie side by side."""
    shape, stride = [*map(hint, meta.shape)], [*map(hint, meta.stride())]
    axes = sorted(range(len(shape)), key=lambda i: (-stride[i], shape[i] != 1, i))
    step = 1
    for i in reversed(axes):
        if shape[i] != 1 and stride[i] != step:
            raise Refused("strides that leave elements out or repeat them")
        step *= shape[i]
    return tuple(axes)
