"""Views, parts, joins, elements at positions, functional updates."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from cellc_runtime import dtypes

from ..ir.dims import Size, is_symbolic, surely_equal
from ..ir.graph import Node
from ..ir.types import normalize_axis
from .reductions import positions_of
from .table import maps
from .writer import Names, Writer, refuse

_LAST = np.iinfo(np.int64).max


def _rank(node: Node) -> int:
    return node.operands[0].type.rank


@maps("constant")
def _constant(w: Writer, node: Node) -> Names:
    return w.const(node.attrs["value"].array)


@maps("size_number")
def _number(w: Writer, node: Node) -> Names:
    return w.number(node.attrs["value"], node.attrs["dtype"])


@maps("measure")
def _measure(w: Writer, node: Node, x: str) -> Names:
    w.sources[node.attrs["symbol"]] = w.op("Unsqueeze", x, w.ints([0]))
    return x


@maps("true_positions")
def _true_positions(w: Writer, node: Node, x: str, count: str) -> Names | None:
    if not is_symbolic(node.attrs["size"]):
        return None
    return w.op("Squeeze", w.op("NonZero", x), w.ints([0]))


@maps("stop_gradient", "after", "micro_result")
def _as_it_is(w: Writer, node: Node, x: str, *others: str) -> Names:
    return x


# --- shapes ---------------------------------------------------------------------------------------


@maps("reshape")
def _reshape(w: Writer, node: Node, x: str) -> Names:
    return w.reshape(x, node.attrs["shape"])


@maps("transpose")
def _transpose(w: Writer, node: Node, x: str) -> Names:
    rank = _rank(node)
    perm = [normalize_axis(a, rank) for a in node.attrs["perm"]]
    return w.op("Transpose", x, perm=perm) if rank else x


@maps("broadcast_to")
def _broadcast(w: Writer, node: Node, x: str) -> Names:
    return w.op("Expand", x, w.shape(node.attrs["shape"]))


@maps("tile")
def _tile(w: Writer, node: Node, x: str) -> Names | None:
    reps = node.attrs["reps"]
    rank = max(len(reps), _rank(node))
    x = w.reshape(x, (1,) * (rank - _rank(node)) + node.operands[0].shape)
    return w.op("Tile", x, w.shape((1,) * (rank - len(reps)) + tuple(reps)))


@maps("iota")
def _iota(w: Writer, node: Node) -> Names:
    shape, dtype = node.attrs["shape"], node.attrs["dtype"]
    if not shape:
        return w.const(0, dtype)
    axis = normalize_axis(node.attrs["axis"], len(shape))
    steps = positions_of(w, shape[axis], axis, len(shape))
    return w.op("Expand", w.cast(steps, dtype), w.shape(shape))


@maps("eye")
def _eye(w: Writer, node: Node) -> Names:
    a, dtype = node.attrs, node.attrs["dtype"]
    rows, columns = (positions_of(w, a[k], i, 2) for i, k in enumerate("nm"))
    apart = w.op("Sub", columns, rows)
    return w.cast(w.op("Equal", apart, w.like(a["diagonal"], apart)), dtype)


@maps("one_hot")
def _one_hot(w: Writer, node: Node, x: str) -> Names:
    rank, dtype = _rank(node) + 1, node.attrs["dtype"]
    axis = normalize_axis(node.attrs["axis"], rank)
    at = w.op("Unsqueeze", w.cast(x, dtypes.int64), w.ints([axis]))
    hit = w.op("Equal", at, positions_of(w, node.attrs["depth"], axis, rank))
    return w.op("Where", hit, w.const(node.attrs["on"], dtype), w.const(node.attrs["off"], dtype))


@maps("tril", "triu")
def _triangle(w: Writer, node: Node, x: str) -> Names:
    by = w.const(node.attrs["diagonal"], dtypes.int64)
    return w.op("Trilu", x, by, upper=int(node.op == "triu"))


@maps("diagonal")
def _diagonal(w: Writer, node: Node, x: str) -> Names:
    *lead, n, m = node.operands[0].shape
    if is_symbolic(n) or is_symbolic(m):
        raise refuse(node, "the size of the matrices is open")
    offset, length = node.attrs["offset"], node.results[0].shape[-1]
    at = (np.arange(length) + max(-offset, 0)) * m + np.arange(length) + max(offset, 0)
    flat = w.reshape(x, (*lead, n * m))
    return w.op("Gather", flat, w.const(at.astype(np.int64)), axis=len(lead))


@maps("diag_embed")
def _diag_embed(w: Writer, node: Node, x: str) -> Names:
    """Write each element of the matrices as one of the diagonal's or the zero that follows them."""
    *lead, length = node.operands[0].shape
    n, m = node.results[0].shape[-2:]
    if is_symbolic(n) or is_symbolic(m):
        raise refuse(node, "the size of the matrices is open")
    offset = node.attrs["offset"]
    at = np.full((n, m), length, np.int64)
    i = np.arange(length)
    at[i + max(-offset, 0), i + max(offset, 0)] = i
    zero = w.op("Expand", w.like(0, x), w.shape((*lead, 1)))
    return w.op("Gather", w.op("Concat", x, zero, axis=len(lead)), w.const(at), axis=len(lead))


# --- parts and joins ------------------------------------------------------------------------------


@maps("concat", "join", "join_copy")
def _concat(w: Writer, node: Node, *parts: str) -> Names:
    return w.op("Concat", *parts, axis=normalize_axis(node.attrs["axis"], _rank(node)))


@maps("stack")
def _stack(w: Writer, node: Node, *parts: str) -> Names:
    axis = normalize_axis(node.attrs["axis"], _rank(node) + 1)
    return w.op("Concat", *(w.op("Unsqueeze", p, w.ints([axis])) for p in parts), axis=axis)


@maps("split")
def _split(w: Writer, node: Node, x: str) -> Names:
    sizes = node.attrs["sizes"]
    axis = normalize_axis(node.attrs["axis"], _rank(node))
    return tuple(w.ops("Split", [x, w.shape(sizes)], len(sizes), axis=axis))


def cut(w: Writer, x: str, axis: int, start: Size, stop: Size, step: int = 1) -> str:
    """x[start:stop:step] along an axis."""
    end = w.ints([-_LAST]) if step < 0 and not is_symbolic(stop) and stop < 0 else w.size(stop)
    return w.op("Slice", x, w.size(start), end, w.ints([axis]), w.ints([step]))


@maps("slice")
def _slice(w: Writer, node: Node, x: str) -> Names:
    attrs, dims = node.attrs, node.operands[0].shape
    steps = attrs["step"] or (1,) * len(dims)
    for k, (a, z, s) in enumerate(zip(attrs["start"], attrs["stop"], steps, strict=True)):
        whole = s == 1 and surely_equal(a, 0) and surely_equal(z, dims[k])
        if not whole:
            x = cut(w, x, k, a, z, s)
    return x


@maps("flip")
def _flip(w: Writer, node: Node, x: str) -> Names:
    for axis in node.attrs["axes"]:
        k = normalize_axis(axis, _rank(node))
        x = w.op("Slice", x, w.ints([-1]), w.ints([-_LAST]), w.ints([k]), w.ints([-1]))
    return x


@maps("pad")
def _pad(w: Writer, node: Node, x: str) -> Names:
    attrs, dims = node.attrs, list(node.operands[0].shape)
    value = w.like(attrs["value"], x)
    for k, gap in enumerate(attrs["interior"] or ()):
        if not gap or surely_equal(dims[k], 0):
            continue
        apart = w.reshape(x, (*dims[: k + 1], 1, *dims[k + 1:]))
        low, high = [0] * (len(dims) + 1), [0] * (len(dims) + 1)
        high[k + 1] = gap
        apart = w.op("Pad", apart, w.ints([*low, *high]), value)
        size = dims[k] * (gap + 1)
        dims[k] = size - gap
        x = cut(w, w.reshape(apart, (*dims[:k], size, *dims[k + 1:])), k, 0, dims[k])
    return w.op("Pad", x, w.shape((*attrs["low"], *attrs["high"])), value) if dims else x


@maps("pad_border")
def _pad_border(w: Writer, node: Node, x: str) -> Names | None:
    mode = {"reflect": "reflect", "replicate": "edge"}.get(node.attrs["mode"])
    widths = (*node.attrs["low"], *node.attrs["high"])
    if mode is None or any(is_symbolic(n) or n < 0 for n in widths):
        return None
    return w.op("Pad", x, w.ints(widths), mode=mode)


# --- updates of a part ----------------------------------------------------------------------------

Positions = Callable[[int], str]


def _replaced(w: Writer, x: str, update: str, dims: tuple[int, ...], sizes: tuple[int, ...],
              at: Positions, axis: int = 0) -> str:
    """x with the elements at a product of positions replaced, axis by axis."""
    while axis < len(dims) and surely_equal(sizes[axis], dims[axis]):
        axis += 1
    if axis == len(dims):
        return update
    positions = at(axis)
    inner = (*dims[:axis], sizes[axis], *dims[axis + 1:])
    part = w.op("Gather", x, positions, axis=axis)
    part = _replaced(w, part, update, inner, sizes, at, axis + 1)
    return _scattered(w, x, positions, part, inner, axis)


def _scattered(w: Writer, x: str, positions: str, update: str, sizes: tuple[int, ...],
               axis: int, **attrs: str) -> str:
    """Slices along an axis written at a vector of positions."""
    column = [-1 if k == axis else 1 for k in range(len(sizes))]
    spread = w.op("Expand", w.op("Reshape", positions, w.ints(column)), w.shape(sizes))
    return w.op("ScatterElements", x, spread, update, axis=axis, **attrs)


@maps("update_slice")
def _update_slice(w: Writer, node: Node, x: str, update: str) -> Names:
    dims, sizes, start = node.operands[0].shape, node.operands[1].shape, node.attrs["start"]
    steps = node.attrs["step"] or (1,) * len(dims)
    if any(surely_equal(n, 0) for n in sizes):
        return x
    # Where all of an axis is replaced in another order, put the update into the order of x.
    for k, s in enumerate(steps):
        if s < 0:
            update = w.op("Slice", update, w.ints([-1]), w.ints([-_LAST]), w.ints([k]),
                          w.ints([-1]))

    def at(k: int) -> str:
        first = start[k] if steps[k] > 0 else start[k] + (sizes[k] - 1) * steps[k]
        count = positions_of(w, sizes[k], 0, 1)
        return w.op("Add", w.op("Mul", count, w.ints([abs(steps[k])])), w.size(first))

    return _replaced(w, x, update, dims, sizes, at)


def _window(w: Writer, starts: str, dims: tuple[int, ...], sizes: tuple[int, ...]) -> str:
    """Positions of a window, moved so that it lies inside."""
    room = w.shape(tuple(d - n for d, n in zip(dims, sizes, strict=True)))
    return w.op("Max", w.op("Min", starts, room), w.ints([0]))


@maps("dynamic_slice")
def _dynamic_slice(w: Writer, node: Node, x: str, starts: str) -> Names:
    sizes = node.attrs["sizes"]
    if not sizes:
        return x
    low = _window(w, starts, node.operands[0].shape, sizes)
    return w.op("Slice", x, low, w.op("Add", low, w.shape(sizes)), w.ints(range(len(sizes))))


@maps("dynamic_update_slice")
def _dynamic_update(w: Writer, node: Node, x: str, update: str, starts: str) -> Names:
    dims, sizes = node.operands[0].shape, node.operands[1].shape
    if any(surely_equal(n, 0) for n in sizes):
        return x
    low = _window(w, starts, dims, sizes) if dims else starts

    def at(k: int) -> str:
        return w.op("Add", positions_of(w, sizes[k], 0, 1), cut(w, low, 0, k, k + 1))

    return _replaced(w, x, update, dims, sizes, at)


# --- positions ------------------------------------------------------------------------------------


@maps("gather")
def _gather(w: Writer, node: Node, x: str, indices: str) -> Names:
    rank, shared = _rank(node), node.attrs["batch_dims"]
    axis = normalize_axis(node.attrs["axis"], rank)
    if not shared:
        return w.op("Gather", x, _positions(w, indices), axis=axis)
    perm = [*range(shared), axis, *(k for k in range(shared, rank) if k != axis)]
    count = node.operands[1].type.rank - shared
    points = w.op("Unsqueeze", w.cast(indices, dtypes.int64), w.ints([shared + count]))
    out = w.op("GatherND", w.op("Transpose", x, perm=perm), points, batch_dims=shared)
    between = axis - shared  # axes of x that come before those of the positions
    total = shared + count + rank - shared - 1
    back = [*range(shared), *range(shared + count, shared + count + between),
            *range(shared, shared + count), *range(shared + count + between, total)]
    return w.op("Transpose", out, perm=back)


def _positions(w: Writer, indices: str) -> str:
    """Positions as ONNX takes them."""
    small = w.types[indices] in (dtypes.int32, dtypes.int64)
    return indices if small else w.cast(indices, dtypes.int64)


@maps("gather_elements")
def _gather_elements(w: Writer, node: Node, x: str, index: str) -> Names:
    return w.op("GatherElements", x, _positions(w, index),
                axis=normalize_axis(node.attrs["dim"], _rank(node)))


@maps("gather_nd")
def _gather_nd(w: Writer, node: Node, x: str, indices: str) -> Names:
    if node.operands[1].shape[-1] == 0:
        return w.op("Expand", x, w.shape(node.results[0].shape))
    return w.op("GatherND", x, w.cast(indices, dtypes.int64))


def _reduction(w: Writer, node: Node, updates: str) -> tuple[str, dict[str, str]]:
    """The updates and attributes of a mode."""
    mode = node.attrs["mode"]
    if mode == "sub":
        return w.op("Neg", updates), {"reduction": "add"}
    if mode == "div":
        if not w.types[updates].is_float:
            raise refuse(node, "ONNX's scatters do not divide integers")
        return w.op("Reciprocal", updates), {"reduction": "mul"}
    if mode in ("max", "min") and w.opset < 18:
        raise refuse(node, f"the mode {mode!r} needs op set 18 or later")
    return updates, {} if mode == "update" else {"reduction": mode}


@maps("scatter")
def _scatter(w: Writer, node: Node, x: str, indices: str, updates: str) -> Names:
    dims, where = node.operands[0].shape, node.operands[1].shape
    axis, shared = normalize_axis(node.attrs["axis"], len(dims)), node.attrs["batch_dims"]
    count: int = 1
    for d in where[shared:]:
        count = count * d
    updates, attrs = _reduction(w, node, updates)
    sizes = (*dims[:axis], count, *dims[axis + 1:])
    column = (*where[:shared], *(1,) * (axis - shared), count, *(1,) * (len(dims) - axis - 1))
    spread = w.reshape(_positions(w, indices), column)
    spread = w.op("Expand", spread, w.shape(sizes))
    return w.op("ScatterElements", x, spread, w.reshape(updates, sizes), axis=axis, **attrs)


@maps("scatter_elements", "scatter_lines")
def _scatter_elements(w: Writer, node: Node, x: str, indices: str, updates: str) -> Names:
    updates, attrs = _reduction(w, node, updates)
    axis = normalize_axis(node.attrs["axis"], _rank(node))
    return w.op("ScatterElements", x, _positions(w, indices), updates, axis=axis, **attrs)


@maps("scatter_nd")
def _scatter_nd(w: Writer, node: Node, x: str, indices: str, updates: str) -> Names | None:
    if node.operands[1].shape[-1] == 0:
        return None
    updates, attrs = _reduction(w, node, updates)
    return w.op("ScatterND", x, w.cast(indices, dtypes.int64), updates, **attrs)
