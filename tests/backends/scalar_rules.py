"""Rules of the scalar back end: every op that does not fuse, as plain loops."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from cellc_compiler.backends.base import Rules
from cellc_compiler.backends.llvm import reduction
from cellc_compiler.backends.llvm.convert import convert, register_type
from cellc_compiler.backends.llvm.math import functions as math
from cellc_compiler.backends.llvm.math.lanes import X
from cellc_compiler.backends.llvm.text import is_float
from cellc_compiler.ir.graph import Node
from cellc_compiler.ir.op import lookup
from cellc_compiler.ir.types import normalize_axis, prod
from cellc_compiler.loops import order
from cellc_runtime import dtypes

from .scalar_text import Buffer, Chains, Fn, Var, sum_of_row

Rule = Callable[[Fn, Node, Sequence[Buffer], Sequence[Buffer]], None]
RULES: Rules[Rule] = Rules("scalar")
lowers = RULES.lowers


def fused(acc: Var, a: X, b: X) -> None:
    """acc += a * b, in one rounding for floats."""
    acc.set(a.fma(b, acc.get()) if is_float(a.v.ty) else acc.get() + a * b)


@lowers("matmul")
def matmul(f: Fn, node: Node, ins: Sequence[Buffer], outs: Sequence[Buffer]) -> None:
    (a, b), (out,) = ins, outs
    ta, tb = node.attrs["transpose_a"], node.attrs["transpose_b"]
    steps = a.shape[-2 if ta else -1]

    def own(x: Buffer, batch: Sequence[X]) -> list[X | int]:
        rank = len(x.shape) - 2
        return [0 if n == 1 else i for n, i in zip(x.shape, batch[len(batch) - rank:],
                                                   strict=False)]

    parts = (0, 1) if out.dtype.is_complex else (0,)
    size = max(out.part.itemsize, 4)
    exact = out.dtype.is_integer
    along = out.shape[-1] == 1 and not exact and len(parts) == 1 and steps >= 128 // size and (
        not ta or out.shape[-2] == 1)
    segment = 0 if exact else order.product_segment(
        out.shape[-1], steps, max(out.dtype.itemsize, 4))
    with f.each(*out.shape) as idx:
        *batch, i, j = idx

        def factors(k: X, i: X = i, j: X = j, batch: Sequence[X] = batch) -> list[list[X]]:
            left, right = (k, i) if ta else (i, k), (j, k) if tb else (k, j)
            return [[a.get([*own(a, batch), *left], p) for p in parts],
                    [b.get([*own(b, batch), *right], p) for p in parts]]

        if along:
            wide = dtypes.float32 if size == 4 else dtypes.float64

            def take(held: Chains, k: X, at: X, of: Any = factors) -> None:
                x, y = of(k)
                held.multiply(x[0], y[0], at)

            out.set(idx, sum_of_row(f, wide, steps, take))
            return
        sums = [f.var(f.number(out.part, 0)) for _ in parts]
        with f.each(-(-steps // segment) if segment else 1) as (s,):
            own_sums = [f.var(f.number(out.part, 0)) for _ in parts] if segment else sums
            with f.each(segment or steps) as (t,):
                k = s * segment + t
                with f.given(k.cmp("slt", steps)):
                    x, y = factors(k)
                    fused(own_sums[0], x[0], y[0])
                    if len(parts) == 2:
                        fused(own_sums[0], -x[1], y[1])
                        fused(own_sums[1], x[0], y[1])
                        fused(own_sums[1], x[1], y[0])
            for p in parts if segment else ():
                sums[p].set(sums[p].get() + own_sums[p].get())
        for p in parts:
            out.set(idx, sums[p].get(), p)


def _taps(f: Fn, node: Node, image: Sequence[int]) -> Callable[..., Any]:
    """`with tap(oy, ox, a, c) as (y, x):` the pixel under a tap, if it is in the image."""
    (sy, sx), (dy, dx), pads = (node.attrs[k] for k in ("stride", "dilation", "pads"))

    @contextmanager
    def tap(oy: X, ox: X, a: X, c: X) -> Iterator[tuple[X, X]]:
        y, x = oy * sy + a * dy - pads[0], ox * sx + c * dx - pads[2]
        with f.given(y.cmp("ult", image[0]) & x.cmp("ult", image[1])):
            yield y, x

    return tap


@lowers("conv2d")
def conv2d(f: Fn, node: Node, ins: Sequence[Buffer], outs: Sequence[Buffer]) -> None:
    (x, w), (out,) = ins, outs
    oc, ic, kh, kw = w.shape
    tap = _taps(f, node, x.shape[2:])
    with f.each(*out.shape) as (n, o, oy, ox):
        acc = f.var(f.number(out.part, 0))
        first = o.op("udiv", oc // node.attrs["groups"]) * ic
        with f.each(ic, kh, kw) as (i, a, c), tap(oy, ox, a, c) as (y, z):
            fused(acc, w.get((o, i, a, c)), x.get((n, first + i, y, z)))
        out.set((n, o, oy, ox), acc.get())


@lowers("conv2d_backward_data")
def conv2d_backward_data(f: Fn, node: Node, ins: Sequence[Buffer], outs: Sequence[Buffer]) -> None:
    (dy, w), (out,) = ins, outs
    oc, ic, kh, kw = w.shape
    (sy, sx), (gy, gx), pads = (node.attrs[k] for k in ("stride", "dilation", "pads"))
    per = oc // node.attrs["groups"]
    with f.each(*out.shape) as (n, ch, y, x):
        acc = f.var(f.number(out.part, 0))
        group, i = ch.op("udiv", ic), ch.op("urem", ic)
        with f.each(per, kh, kw) as (o, a, c):
            ty, tx = y + pads[0] - a * gy, x + pads[2] - c * gx
            oy, ox = ty.op("sdiv", sy), tx.op("sdiv", sx)
            there = oy.cmp("ult", dy.shape[2]) & ox.cmp("ult", dy.shape[3])
            with f.given(there & (oy * sy).cmp("eq", ty) & (ox * sx).cmp("eq", tx)):
                channel = group * per + o
                fused(acc, w.get((channel, i, a, c)), dy.get((n, channel, oy, ox)))
        out.set((n, ch, y, x), acc.get())


@lowers("conv2d_backward_weight")
def conv2d_backward_weight(
    f: Fn, node: Node, ins: Sequence[Buffer], outs: Sequence[Buffer]
) -> None:
    (x, dy), (out,) = ins, outs
    oc, ic = out.shape[:2]
    tap = _taps(f, node, x.shape[2:])
    images, pixels = dy.shape[0], prod(dy.shape[2:])
    groups = node.attrs["groups"]
    runs = order.image_runs(images, prod(out.shape), images * pixels * prod(out.shape))
    few = oc // groups <= order.FEW_CHANNELS
    wide = dtypes.float64 if out.dtype is dtypes.float64 else dtypes.float32
    chains = order.PIXEL_CHAINS * 4 // wide.itemsize if few else 1
    each = -(-images // runs)
    with f.each(*out.shape) as (o, i, a, c):
        first, total = o.op("udiv", oc // groups) * ic, f.var(f.number(out.part, 0))
        with f.each(runs) as (run,):
            held = Chains(f, "sum", wide, chains)
            with f.each(each, *dy.shape[2:]) as (m, oy, ox), tap(oy, ox, a, c) as (y, z):
                n = run * each + m
                with f.given(n.cmp("slt", images)):
                    pixel = oy * dy.shape[3] + ox
                    held.multiply(dy.get((n, o, oy, ox)), x.get((n, first + i, y, z)), pixel)
            one, begun = X(f, held.total()[0]), run.cmp("ne", 0)
            total.set(X(f, f.select(begun.v, (total.get() + one).v, one.v)))
        out.set((o, i, a, c), total.get())


def _average(f: Fn, node: Node, ins: Sequence[Buffer], outs: Sequence[Buffer]) -> None:
    """Windows are known: their taps are written one after the other."""
    op: Any = lookup(node.op)
    (x,), (out,) = ins, outs
    divisors = op.divisors(x.shape[2:], node.attrs)
    with f.each(*x.shape[:2]) as channel:
        for place, taps in _windows(op, node, x.shape[2:]):
            if len(taps) == prod(x.shape[2:]):  # the whole image: a row
                def take(held: Chains, k: X, at: X, c: Any = channel) -> None:
                    plane = c[0] * x.shape[1] + c[1]
                    held.take([x.get(plane * prod(x.shape[2:]) + k).v,], at)

                wide = dtypes.float64 if x.dtype is dtypes.float64 else dtypes.float32
                total = sum_of_row(f, wide, len(taps), take)
            else:
                total = f.number(x.dtype, 0)
                for tap in taps:
                    total = total + x.get((*channel, *tap))
            share = float(np.broadcast_to(divisors, out.shape[2:])[place])
            out.set((*channel, *place), total / share)


def _average_backward(f: Fn, node: Node, ins: Sequence[Buffer], outs: Sequence[Buffer]) -> None:
    op: Any = lookup(node.op)
    dy, out = ins[-1], outs[0]
    divisors = op.divisors(out.shape[2:], node.attrs)
    with f.each(*out.shape[:2]) as channel:
        clear(f, out, channel)
        for place, taps in _windows(op, node, out.shape[2:]):
            share = float(np.broadcast_to(divisors, dy.shape[2:])[place])
            part = dy.get((*channel, *place)) / share
            for tap in taps:
                out.set((*channel, *tap), out.get((*channel, *tap)) + part)


def clear(f: Fn, out: Buffer, channel: Sequence[X]) -> None:
    """Zeros in an image."""
    with f.each(*out.shape[2:]) as at:
        out.set((*channel, *at), f.number(out.dtype, 0))


def _windows(op: Any, node: Node, hw: Sequence[int]) -> Iterator[tuple[Any, list[Any]]]:
    """Each result's place, and the pixels of its window."""
    rows, columns = op.windows(hw, node.attrs)
    for i, ys in enumerate(rows):
        for j, xs in enumerate(columns):
            yield (i, j), [(y, x) for y in ys for x in xs]


def _largest(f: Fn, node: Node, ins: Sequence[Buffer], outs: Sequence[Buffer]) -> None:
    """The largest element of each window, and where it is; or dy, given to where that was."""
    image, hw, dtype = ins[0], ins[0].shape[2:], ins[0].dtype
    with f.each(*image.shape[:2]) as channel:
        if len(ins) > 1:
            clear(f, outs[0], channel)
        for place, taps in _windows(lookup(node.op), node, hw):
            held = reduction.identity(f, "argmax", register_type(dtype), dtype)
            for y, x in taps:
                new = [image.get((*channel, y, x)).v, f.i64(y * hw[1] + x)]
                held = reduction.combine(f, "argmax", dtype, held, new)
            best, at = (X(f, v) for v in held)
            if len(ins) > 1:
                to = (channel[0] * image.shape[1] + channel[1]) * prod(hw) + at
                outs[0].set(to, outs[0].get(to) + ins[-1].get((*channel, *place)))
            else:
                for out, value in zip(outs, (best, at), strict=False):
                    out.set((*channel, *place), value)


for _prefix in ("", "adaptive_"):
    lowers(f"{_prefix}avg_pool2d")(_average)
    lowers(f"{_prefix}avg_pool2d_backward")(_average_backward)
    lowers(f"{_prefix}max_pool2d")(_largest)
    lowers(f"{_prefix}max_pool2d_backward")(_largest)


@contextmanager
def _lines(f: Fn, node: Node) -> Iterator[tuple[Callable[..., X], int]]:
    """For each line along the axis, the offset of its element i, and how many there are."""
    shape = node.operands[0].shape
    axis = normalize_axis(node.attrs["axis"], len(shape))
    inner, n = prod(shape[axis + 1:]), shape[axis]
    with f.each(prod(shape[:axis]), inner) as (outer, rest):
        yield lambda i: (outer * n + i) * inner + rest, n


def _running(kind: str) -> Rule:
    """Sums (of what is held times a factor, if there is one) and products."""
    def rule(f: Fn, node: Node, ins: Sequence[Buffer], outs: Sequence[Buffer]) -> None:
        x, a = ins[0], node.attrs
        with _lines(f, node) as (at, n):
            acc = f.var(f.number(x.dtype, kind == "prod"))
            with f.each(n) as (t,):
                i = at(f.i(n - 1) - t if a.get("reverse") else t)
                new, old = x.get(i), acc.get()
                held = old * ins[1].get(i) if len(ins) > 1 else old
                acc.set(held + new if kind == "sum" else held * new)
                outs[0].set(i, old if a.get("exclusive") else acc.get())

    return rule


def _extreme(kind: str) -> Rule:
    def rule(f: Fn, node: Node, ins: Sequence[Buffer], outs: Sequence[Buffer]) -> None:
        x, dtype = ins[0], ins[0].dtype
        (start,) = reduction.identity(f, kind, register_type(dtype), dtype)
        with _lines(f, node) as (at, n):
            acc, place = f.var(X(f, start)), f.var(f.i(0))
            with f.each(n) as (t,):
                new, old = x.get(at(t)), acc.get()
                low, high = (new, old) if kind == "max" else (old, new)
                take = ~(f.compare("lt", dtype, low, high) | f.compare("ne", dtype, old, old))
                acc.set(take.where(new, old))
                place.set(take.where(t, place.get()))
                outs[0].set(at(t), acc.get())
                outs[1].set(at(t), place.get().to("trunc", "i32"))

    return rule


for _kind in ("sum", "prod"):
    lowers(f"cum{_kind}")(_running(_kind))
for _kind in ("max", "min"):
    lowers(f"cum{_kind}")(_extreme(_kind))
lowers("linear_recurrence")(_running("sum"))


@lowers("logcumsumexp")
def logcumsumexp(f: Fn, node: Node, ins: Sequence[Buffer], outs: Sequence[Buffer]) -> None:
    """The largest so far, and the sum of exponentials less it."""
    dtype = ins[0].dtype

    def call(name: str, x: X) -> X:
        return X(f, math.emit(f, name, x.v))

    with _lines(f, node) as (at, n):
        top, total = f.var(f.number(dtype, float("-inf"))), f.var(f.number(dtype, 0))
        with f.each(n) as (t,):
            new, old = ins[0].get(at(t)), top.get()
            top.set(new.cmp("ugt", old).where(new, old))
            shift = (top.get() - top.get()).eq(0).where(top.get(), 0)
            total.set(total.get() * call("exp", old - shift) + call("exp", new - shift))
            outs[0].set(at(t), shift + call("log", total.get()))


@lowers("sort_lines")
def sort_lines(f: Fn, node: Node, ins: Sequence[Buffer], outs: Sequence[Buffer]) -> None:
    (x,), (values, positions), n, dtype = ins, outs, ins[0].shape[-1], ins[0].dtype
    with f.each(prod(x.shape[:-1]), n) as (line, i):
        new, hole = x.get(line * n + i), f.var(i)

        def before() -> X:
            """Whether the new element belongs before the one in front of the hole."""
            there = hole.get().cmp("sgt", 0)
            old = values.get(line * n + there.where(hole.get() - 1, 0))
            low, high = (old, new) if node.attrs["descending"] else (new, old)
            last = f.compare("ne", dtype, old, old) & f.compare("eq", dtype, new, new)
            return there & (f.compare("lt", dtype, low, high) | last)

        with f.repeat(before):
            at = line * n + hole.get()
            values.set(at, values.get(at - 1))
            positions.set(at, positions.get(at - 1))
            hole.set(hole.get() - 1)
        values.set(line * n + hole.get(), new)
        positions.set(line * n + hole.get(), i.to("trunc", "i32"))


_MODES = {"max": "maximum", "min": "minimum"}


def _scatter(per_element: bool) -> Rule:
    def rule(f: Fn, node: Node, ins: Sequence[Buffer], outs: Sequence[Buffer]) -> None:
        (x, indices, updates), (out,), mode = ins, outs, node.attrs["mode"]
        axis = normalize_axis(node.attrs["axis"], len(x.shape))
        shared = 0 if per_element else node.attrs["batch_dims"]
        count = 1 if per_element else len(indices.shape) - shared
        with f.each(prod(x.shape)) as (i,):
            for p in x.parts:
                out.set(i, x.get(i, p), p)
        with f.each(*updates.shape) as at:
            picked = at if per_element else [*at[:shared], *at[axis : axis + count]]
            given = X(f, convert(f, indices.get(picked).v, indices.dtype, dtypes.int64))
            index = given.cmp("slt", 0).where(given + x.shape[axis], given)
            with f.given(index.cmp("ult", x.shape[axis])):
                place = [*at[:axis], index, *at[axis + count:]]
                for p in x.parts:
                    new = updates.get(at, p)
                    out.set(place, new if mode == "update" else f.compute(
                        _MODES.get(mode, mode), x.part, out.get(place, p), new), p)

    return rule


lowers("scatter")(_scatter(False))
lowers("scatter_lines")(_scatter(True))


@lowers("join_copy")
def join_copy(f: Fn, node: Node, ins: Sequence[Buffer], outs: Sequence[Buffer]) -> None:
    (out,), axis, start = outs, normalize_axis(node.attrs["axis"], len(outs[0].shape)), 0
    for x in ins:
        with f.each(*x.shape) as at:
            for p in x.parts:
                out.set([*at[:axis], at[axis] + start, *at[axis + 1:]], x.get(at, p), p)
        start += x.shape[axis]
