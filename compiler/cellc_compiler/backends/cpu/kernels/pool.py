"""Pooling kernels: maximum and average, sliding and adaptive, forward and backward (NCHW).

Maximum: the first of equal maxima wins, in row-major order of the window; the first NaN of a
window wins over everything. Average: the sum in row-major order of the window, from 0, then one
division. Exception, an average over the whole plane (global pooling): a reduction along the plane
in the order of `loops/order.py`. float16 and bfloat16 are computed in float32 and rounded once.

Backward: windows in row-major order add to the gradient, each element accumulated in order from 0.
Sliding windows of stride up to 4 run in vectors over the output columns; the rest in scalars over
tables of window bounds.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from cellc_runtime.dtypes import DType
from cellc_runtime.records import dataclass
from cellc_runtime.target import Target

from ....ir.dims import is_symbolic
from ....loops.order import accumulators
from ....lower.kernel import Kernel
from ...llvm.convert import register_type
from ...llvm.reduction import total
from ...llvm.text import Function, V, first_lanes, vector
from .pool_axes import AnyAxis, adaptive_axis, average_axes, sliding_axes
from .vectors import (
    Plan,
    Window,
    acc_ptr,
    acc_size,
    beats,
    elem_ptr,
    in_vectors,
    is_half,
    lanes,
    lanes_below,
    load_acc,
    split_index,
    store_acc,
    task_kernel,
)


@dataclass(frozen=True)
class PoolSpec:
    """Pooling of `x[n, c, h, w]` (1-d: `h = kernel[0] = 1`)."""

    n: int
    c: int
    h: int
    w: int
    # kernel, stride, dilation: (rows, columns)
    kernel: tuple[int, int]
    stride: tuple[int, int]
    dilation: tuple[int, int]
    # elements added (top, bottom, left, right); they never win a maximum
    pads: tuple[int, int, int, int]
    ceil_mode: bool  # whether a window may start inside and end outside the padded input
    dtype: DType

    def axes(self, include_pad: bool) -> tuple[AnyAxis, AnyAxis]:
        """Row and column windows."""
        given = {name: getattr(self, name) for name in
                 ("kernel", "stride", "dilation", "pads", "ceil_mode")}
        return sliding_axes((self.h, self.w), given, include_pad)

    @property
    def oh(self) -> int:
        """Output rows."""
        return self.axes(False)[0].windows

    @property
    def ow(self) -> int:
        """Output columns."""
        return self.axes(False)[1].windows


@dataclass(frozen=True)
class AdaptiveSpec:
    """Adaptive pooling of `x[n, c, h, w]` to `[n, c, oh, ow]`."""

    n: int
    c: int
    h: int
    w: int
    oh: int
    ow: int
    dtype: DType

    def axes(self, include_pad: bool = False) -> tuple[AnyAxis, AnyAxis]:
        """Row and column windows (there is no padding to include)."""
        del include_pad
        return adaptive_axis(self.h, self.oh), adaptive_axis(self.w, self.ow)


_MAX_SHUFFLED_STRIDE = 4
_UNROLLED_COLUMNS = 8
Spec = PoolSpec | AdaptiveSpec
_Fold = Callable[[V, V, V, V, list[V]], list[V]]
"""`(value, iy, ix, bound, carried) -> carried`: one tap of a vector of windows."""
_Tap = Callable[[V, list[V]], list[V]]
"""`(flat index, carried) -> carried`: one element of a window."""


# --- maximum ---------------------------------------------------------------------------------


def _take(f: Function, v: V, at: V, live: V | None, c: list[V]) -> list[V]:
    """Fold an element with its index into the running `[best]` or `[best, index]`.

    Without an index an element outside the input is a fill of -inf, which never wins; with one,
    `live` says which lanes are inside, and the first of those is taken whatever it is.
    """
    better = beats(f, v, c[0])
    if live is None:
        return [f.select(better, v, c[0])]
    first = f.cmp("slt", c[1], f.zero(c[1].ty))
    better = live & (better | first)
    return [f.select(better, v, c[0]), f.select(better, at, c[1])]


def _row_windows(
    f: Function, spec: PoolSpec, plane: V, oy: V, ox: V, width: int, fill: float,
    start: list[V], fold: _Fold,
) -> list[V]:
    """Fold the taps of `width` windows from `(oy, ox)` in row-major order."""
    (sy, sx), (dy, dx) = spec.stride, spec.dilation
    window = Window(spec.dtype, sx, width, fill) if width > 1 else Window(spec.dtype, 1, 1, fill)
    y0 = oy * sy + -spec.pads[0]
    x0 = ox * sx + -spec.pads[2]

    def row(ky: V, c: list[V]) -> list[V]:
        iy = y0 + ky * dy
        inside = f.cmp("ult", iy, spec.h)
        bound = f.select(inside, f.i64(spec.w), f.i64(0))
        line = elem_ptr(f, plane, iy * spec.w, spec.dtype)

        def tap(kx: V, c: list[V]) -> list[V]:
            ix = x0 + kx * dx
            return fold(window.load(f, line, ix, bound), iy, ix, bound, c)

        if spec.kernel[1] > _UNROLLED_COLUMNS:
            return f.loop(0, spec.kernel[1], 1, c, tap)
        for kx in range(spec.kernel[1]):
            c = tap(f.i64(kx), c)
        return c

    return f.loop(0, spec.kernel[0], 1, start, row)


def _fold_max(f: Function, spec: PoolSpec, width: int, indices: bool) -> _Fold:
    def fold(v: V, iy: V, ix: V, bound: V, c: list[V]) -> list[V]:
        if not indices:
            return _take(f, v, v, None, c)
        i32 = vector("i32", width)
        col = f.splat(f.cast("trunc", ix, "i32"), width)
        if width > 1:
            steps = f.iota(i32) * f.const(i32, spec.stride[1])
            col = col + steps
        live = f.cmp("ult", col, f.splat(f.cast("trunc", bound, "i32"), width))
        at = f.splat(f.cast("trunc", iy * spec.w, "i32"), width)
        return _take(f, v, at + col, live, c)

    return fold


def _width(spec: PoolSpec, target: Target) -> int:
    if any(map(is_symbolic, (*spec.kernel, *spec.stride))):  # (columns of a window are unrolled)
        return 1
    return lanes(target, spec.dtype) if spec.stride[1] <= _MAX_SHUFFLED_STRIDE else 1


def _sliding_max(spec: PoolSpec, target: Target, value: bool, indices: bool) -> Kernel:
    """Kernel over (x, then out if `value`, then indices if `indices`)."""
    width = _width(spec, target)
    oh, ow = spec.oh, spec.ow
    planes = spec.n * spec.c

    def body(f: Function, bufs: list[V], unit: V) -> None:
        plane, oy = split_index(f, unit, [planes, oh])
        x = elem_ptr(f, bufs[0], plane * (spec.h * spec.w), spec.dtype)
        start = [f.const(vector(register_type(spec.dtype), width), -math.inf)]
        if indices:
            start.append(f.const(vector("i32", width), -1))

        def column(ox: V, mask: V | None) -> None:
            got = _row_windows(f, spec, x, oy, ox, width, -math.inf, start,
                               _fold_max(f, spec, width, indices))
            at = unit * ow + ox
            if value:
                store_acc(f, got[0], elem_ptr(f, bufs[1], at, spec.dtype), spec.dtype, mask)
            if indices:
                wide = f.cast("sext", got[1], "i64")
                f.masked_store(wide, f.gep(bufs[1 + value], at, "i64"), mask)

        in_vectors(f, ow, width, column)

    cycles = 8.0 + -(-ow // width) * spec.kernel[0] * spec.kernel[1] * (4.0 + 3.0 * indices)
    return task_kernel(target, 1 + value + indices, planes * oh, cycles, body)


def _table_max(spec: Spec, target: Target, value: bool, indices: bool) -> Kernel:
    """The same over tables of window bounds, in scalars."""
    rows, cols = spec.axes(False)
    planes = spec.n * spec.c

    def body(f: Function, bufs: list[V], unit: V) -> str:
        plane, oy = split_index(f, unit, [planes, rows.windows])
        x = elem_ptr(f, bufs[0], plane * (rows.size * cols.size), spec.dtype)
        start = [f.const(register_type(spec.dtype), -math.inf), f.i64(-1)]

        def column(ox: V, _: list[V]) -> None:
            def tap(at: V, c: list[V]) -> list[V]:
                v = load_acc(f, elem_ptr(f, x, at, spec.dtype), spec.dtype, 1)
                return _take(f, v, at, V("i1", "true"), c)

            best, index = _table_taps(f, rows, cols, oy, ox, start, tap)
            at = unit * cols.windows + ox
            if value:
                store_acc(f, best, elem_ptr(f, bufs[1], at, spec.dtype), spec.dtype)
            if indices:
                f.store(index, f.gep(bufs[1 + value], at, "i64"))

        f.loop(0, cols.windows, 1, [], column)
        return rows.tables("WIN_Y") + cols.tables("WIN_X")

    cycles = cols.windows * (12.0 + 5.0 * rows.longest * cols.longest)
    return task_kernel(target, 1 + value + indices, planes * rows.windows, cycles, body)


def _table_taps(
    f: Function, rows: AnyAxis, cols: AnyAxis, oy: V, ox: V, start: list[V], tap: _Tap
) -> list[V]:
    """Fold the elements of one window (flat plane index) in row-major order."""
    y0, y1 = rows.bounds(f, "WIN_Y", oy)
    x0, x1 = cols.bounds(f, "WIN_X", ox)

    def row(iy: V, c: list[V]) -> list[V]:
        line = iy * cols.size
        return f.loop(x0, x1, cols.step, c, lambda ix, c: tap(line + ix, c))

    return f.loop(y0, y1, rows.step, start, row)


def _max_kernel(spec: Spec, target: Target, value: bool, indices: bool) -> Kernel:
    if isinstance(spec, PoolSpec) and _width(spec, target) > 1:
        return _sliding_max(spec, target, value, indices)
    return _table_max(spec, target, value, indices)


def max_pool(spec: Spec, target: Target, indices: bool = False) -> Plan:
    """`out` from `x`; with `indices`, also the int64 position of each maximum in its plane."""
    plan = Plan()
    plan.add(_max_kernel(spec, target, True, indices), "x", "out",
             *(("indices",) if indices else ()))
    return plan


def _scatter_scratch(plan: Plan, spec: Spec) -> tuple[str, ...]:
    """Half-precision gradients are accumulated in a float32 scratch."""
    if not is_half(spec.dtype):
        return ("out",)
    plan.scratch["acc"] = spec.n * spec.c * spec.h * spec.w * acc_size(spec.dtype)
    return ("out", "acc")


def _clear(f: Function, plane: V, size: int, ty: str, width: int) -> None:
    full = size // width * width
    zero = f.zero(vector(ty, width))
    f.loop(0, full, width, [], lambda i, _: f.store(zero, f.gep(plane, i, ty)))
    f.loop(full, size, 1, [], lambda i, _: f.store(f.zero(ty), f.gep(plane, i, ty)))


def _finish(f: Function, spec: Spec, acc: V, out: V) -> None:
    """Round an accumulated plane into the output."""
    width = lanes(f.target, spec.dtype)

    def column(i: V, mask: V | None) -> None:
        ty = vector(register_type(spec.dtype), width)
        v = f.masked_load(ty, acc_ptr(f, acc, i, spec.dtype), mask)
        store_acc(f, v, elem_ptr(f, out, i, spec.dtype), spec.dtype, mask)

    in_vectors(f, spec.h * spec.w, width, column)


_Scatter = Callable[[Function, list[V], V, V, V], None]
"""`(f, buffers, plane, window, gradient)`: adds what a window gives to the gradient of a plane."""


def _scatter(
    spec: Spec, target: Target, sources: int, windows: int, cycles: float, window: _Scatter,
    tables: str = "",
) -> Kernel:
    """Kernel over (`sources` buffers, out[, acc]) that does each window of each plane in order."""
    size, half, width = spec.h * spec.w, is_half(spec.dtype), lanes(target, spec.dtype)

    def body(f: Function, bufs: list[V], plane: V) -> str:
        at = plane * size
        dx = acc_ptr(f, bufs[sources + half], at, spec.dtype)
        _clear(f, dx, size, register_type(spec.dtype), width)
        f.loop(0, windows, 1, [], lambda o, _: window(f, bufs, plane, o, dx))
        if half:
            _finish(f, spec, dx, elem_ptr(f, bufs[sources], at, spec.dtype))
        return tables

    return task_kernel(target, sources + 1 + half, spec.n * spec.c,
                       size / width + windows * cycles, body)


def _scatter_max(spec: Spec, target: Target) -> Kernel:
    """Kernel over (indices, dy, out[, acc]): adds every dy at its index."""
    rows, cols = spec.axes(False)
    windows, ty = rows.windows * cols.windows, register_type(spec.dtype)

    def window(f: Function, bufs: list[V], plane: V, o: V, dx: V) -> None:
        src = plane * windows + o
        g = load_acc(f, elem_ptr(f, bufs[1], src, spec.dtype), spec.dtype, 1)
        ptr = f.gep(dx, f.load("i64", f.gep(bufs[0], src, "i64")), ty)
        f.store(f.load(ty, ptr) + g, ptr)

    return _scatter(spec, target, 2, windows, 5.0, window)


def max_pool_backward(spec: Spec, target: Target) -> Plan:
    """`out`, the gradient of `x`, from `dy` and `x`."""
    plan = Plan()
    rows, cols = spec.axes(False)
    plan.scratch["indices"] = spec.n * spec.c * rows.windows * cols.windows * 8
    plan.add(_max_kernel(spec, target, False, True), "x", "indices")
    plan.add(_scatter_max(spec, target), "indices", "dy", *_scatter_scratch(plan, spec))
    return plan


# --- average ---------------------------------------------------------------------------------


def _sliding_avg(spec: PoolSpec, rows: AnyAxis, cols: AnyAxis, target: Target) -> Kernel:
    """Kernel over (x, out), in vectors over output columns."""
    width = _width(spec, target)
    planes = spec.n * spec.c
    ty = vector(register_type(spec.dtype), width)

    def body(f: Function, bufs: list[V], unit: V) -> str:
        plane, oy = split_index(f, unit, [planes, rows.windows])
        x = elem_ptr(f, bufs[0], plane * (spec.h * spec.w), spec.dtype)
        high = f.splat(f.cast("trunc", rows.count(f, "WIN_Y", oy), "i32"), width)

        def column(ox: V, mask: V | None) -> None:
            total = _row_windows(f, spec, x, oy, ox, width, 0.0, [f.zero(ty)],
                                 lambda v, _y, _x, _b, c: [c[0] + v])[0]
            wide = cols.counts(f, "COUNT32", ox, width)
            count = f.cast("sitofp", high * wide, register_type(spec.dtype))
            at = unit * cols.windows + ox
            store_acc(f, f.fdiv(total, count), elem_ptr(f, bufs[1], at, spec.dtype),
                      spec.dtype, mask)

        in_vectors(f, cols.windows, width, column)
        return rows.tables("WIN_Y") + cols.count_table("COUNT32", width)

    cycles = 8.0 + -(-cols.windows // width) * (8.0 + spec.kernel[0] * spec.kernel[1] * 3.0)
    return task_kernel(target, 2, planes * rows.windows, cycles, body)


def _count(f: Function, rows: AnyAxis, cols: AnyAxis, oy: V, ox: V, ty: str) -> V:
    """The divisor of one window."""
    return f.cast("sitofp", rows.count(f, "WIN_Y", oy) * cols.count(f, "WIN_X", ox), ty)


def _table_avg(spec: Spec, rows: AnyAxis, cols: AnyAxis, target: Target) -> Kernel:
    """Kernel over (x, out), in scalars over tables of window bounds."""
    planes = spec.n * spec.c
    ty = register_type(spec.dtype)

    def body(f: Function, bufs: list[V], unit: V) -> str:
        plane, oy = split_index(f, unit, [planes, rows.windows])
        x = elem_ptr(f, bufs[0], plane * (rows.size * cols.size), spec.dtype)

        def column(ox: V, _: list[V]) -> None:
            def tap(at: V, c: list[V]) -> list[V]:
                return [c[0] + load_acc(f, elem_ptr(f, x, at, spec.dtype), spec.dtype, 1)]

            total = _table_taps(f, rows, cols, oy, ox, [f.zero(ty)], tap)[0]
            at = unit * cols.windows + ox
            value = f.fdiv(total, _count(f, rows, cols, oy, ox, ty))
            store_acc(f, value, elem_ptr(f, bufs[1], at, spec.dtype), spec.dtype)

        f.loop(0, cols.windows, 1, [], column)
        return rows.tables("WIN_Y") + cols.tables("WIN_X")

    cycles = cols.windows * (16.0 + 4.5 * rows.longest * cols.longest)
    return task_kernel(target, 2, planes * rows.windows, cycles, body)


def _plane_avg(spec: Spec, rows: AnyAxis, cols: AnyAxis, target: Target) -> Kernel:
    """Kernel over (x, out): one window that covers the plane, in vectors over it."""
    width = lanes(target, spec.dtype)
    size = spec.h * spec.w
    count = accumulators(acc_size(spec.dtype), size, width)
    full = size // (count * width) * count * width

    def body(f: Function, bufs: list[V], plane: V) -> str:
        x = elem_ptr(f, bufs[0], plane * size, spec.dtype)

        def add(acc: V, i: V, mask: V | None) -> V:
            return acc + load_acc(f, elem_ptr(f, x, i, spec.dtype), spec.dtype, width, mask)

        zeros = [f.zero(vector(register_type(spec.dtype), width))] * count
        sums = f.loop(0, full, count * width, zeros, lambda i, c: [
            add(acc, i + u * width, None) for u, acc in enumerate(c)])
        for u, start in enumerate(_tails(full, size, width, count)):
            sums[u] = add(sums[u], f.i64(start), _tail_mask(f, size - start, width))
        value = total(f, sums)
        value = f.fdiv(value, _count(f, rows, cols, f.i64(0), f.i64(0), value.ty))
        store_acc(f, value, elem_ptr(f, bufs[1], plane, spec.dtype), spec.dtype)
        return rows.tables("WIN_Y") + cols.tables("WIN_X")

    return task_kernel(target, 2, spec.n * spec.c, 30.0 + 4.0 * size / width, body)


def _tails(full: int, size: int, width: int, count: int) -> list[int]:
    """The starts of the vectors after the last whole round of `count` of them."""
    if is_symbolic(size):
        return [full + u * width for u in range(count)]
    return list(range(full, size, width))


def _tail_mask(f: Function, count: int, width: int) -> V | None:
    """The mask of the first `count` lanes, which may be fewer than one."""
    if is_symbolic(count):
        return lanes_below(f, f.i64(count), width)
    return first_lanes(count, width) if count < width else None


def avg_pool(
    spec: Spec, target: Target, count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Plan:
    """`out` from `x`: the sum of each window over its count (or `divisor_override`)."""
    plan = Plan()
    rows, cols = average_axes(spec.axes(count_include_pad), divisor_override)
    if rows.whole and cols.whole:
        kernel = _plane_avg(spec, rows, cols, target)
    elif isinstance(spec, PoolSpec) and _width(spec, target) > 1:
        kernel = _sliding_avg(spec, rows, cols, target)
    else:
        kernel = _table_avg(spec, rows, cols, target)
    plan.add(kernel, "x", "out")
    return plan


def _scatter_avg(spec: Spec, rows: AnyAxis, cols: AnyAxis, target: Target) -> Kernel:
    """Kernel over (dy, out[, acc]): adds every dy / count to the elements of its window."""
    windows, ty = rows.windows * cols.windows, register_type(spec.dtype)

    def window(f: Function, bufs: list[V], plane: V, o: V, dx: V) -> None:
        oy, ox = split_index(f, o, [rows.windows, cols.windows])
        src = elem_ptr(f, bufs[0], plane * windows + o, spec.dtype)
        g = f.fdiv(load_acc(f, src, spec.dtype, 1), _count(f, rows, cols, oy, ox, ty))

        def tap(i: V, _: list[V]) -> list[V]:
            ptr = f.gep(dx, i, ty)
            f.store(f.load(ty, ptr) + g, ptr)
            return []

        _table_taps(f, rows, cols, oy, ox, [], tap)

    return _scatter(spec, target, 1, windows, 20.0 + 2.0 * rows.longest * cols.longest, window,
                    rows.tables("WIN_Y") + cols.tables("WIN_X"))


def _spread(spec: Spec, rows: AnyAxis, cols: AnyAxis, target: Target) -> Kernel:
    """Kernel over (dy, out): one window that covers the plane."""
    size, width = spec.h * spec.w, lanes(target, spec.dtype)

    def body(f: Function, bufs: list[V], plane: V) -> str:
        g = load_acc(f, elem_ptr(f, bufs[0], plane, spec.dtype), spec.dtype, 1)
        # A sum from 0, as in every other case: turns -0 into 0.
        g = f.const(g.ty, 0.0) + f.fdiv(g, _count(f, rows, cols, f.i64(0), f.i64(0), g.ty))
        wide = f.splat(g, width)
        out = elem_ptr(f, bufs[1], plane * size, spec.dtype)
        in_vectors(f, size, width, lambda i, mask: store_acc(
            f, wide, elem_ptr(f, out, i, spec.dtype), spec.dtype, mask))
        return rows.tables("WIN_Y") + cols.tables("WIN_X")

    return task_kernel(target, 2, spec.n * spec.c, 30.0 + 2.0 * size / width, body)


def avg_pool_backward(
    spec: Spec, target: Target, count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Plan:
    """`out`, the gradient of `x`, from `dy`."""
    plan = Plan()
    rows, cols = average_axes(spec.axes(count_include_pad), divisor_override)
    if rows.whole and cols.whole:
        plan.add(_spread(spec, rows, cols, target), "dy", "out")
    else:
        kernel = _scatter_avg(spec, rows, cols, target)
        plan.add(kernel, "dy", *_scatter_scratch(plan, spec))
    return plan
