"""Rules of the scalar back end: every op that does not fuse, as plain loops."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from cellc_compiler.backends.base import Rules
from cellc_compiler.ir.graph import Node
from cellc_compiler.ir.op import lookup
from cellc_compiler.ir.types import normalize_axis, prod
from cellc_runtime import dtypes

from .scalar_text import Buffer, Fn, V, Var, part_of, value_type

Rule = Callable[[Fn, Node, Sequence[Buffer], Sequence[Buffer]], None]
RULES: Rules[Rule] = Rules("scalar", "")
RULES._loaded = True
lowers = RULES.lowers


def zero(f: Fn, b: Buffer) -> V:
    return f.const(value_type(part_of(b.dtype)), 0)


def fused(f: Fn, acc: Var, a: V, b: V) -> None:
    """acc += a * b, in one rounding for floats."""
    acc.set(f.intrinsic("fma", a, b, acc.get()) if a.is_float else acc.get() + a * b)


@lowers("matmul")
def matmul(f: Fn, node: Node, ins: Sequence[Buffer], outs: Sequence[Buffer]) -> None:
    (a, b), (out,) = ins, outs
    ta, tb = node.attrs["transpose_a"], node.attrs["transpose_b"]
    steps = a.shape[-2 if ta else -1]

    def own(x: Buffer, batch: Sequence[V]) -> list[V | int]:
        rank = len(x.shape) - 2
        return [0 if n == 1 else i for n, i in zip(x.shape, batch[len(batch) - rank:],
                                                   strict=False)]

    parts = (0, 1) if out.dtype.is_complex else (0,)
    with f.loops(out.shape) as idx:
        *batch, i, j = idx
        sums = [f.var(zero(f, out)) for _ in parts]
        with f.loop(steps) as k:
            left, right = (k, i) if ta else (i, k), (j, k) if tb else (k, j)
            x = [a.get([*own(a, batch), *left], p) for p in parts]
            y = [b.get([*own(b, batch), *right], p) for p in parts]
            fused(f, sums[0], x[0], y[0])
            if len(parts) == 2:
                fused(f, sums[0], f.const(x[1].ty, 0) - x[1], y[1])
                fused(f, sums[1], x[0], y[1])
                fused(f, sums[1], x[1], y[0])
        for p in parts:
            out.set(idx, sums[p].get(), p)


def _taps(f: Fn, node: Node, kernel: Sequence[int], image: Sequence[int]) -> Callable[..., Any]:
    """`with tap(oy, ox, a, c) as (y, x):` the pixel under a tap, if it is in the image."""
    (sy, sx), (dy, dx), pads = (node.attrs[k] for k in ("stride", "dilation", "pads"))

    @contextmanager
    def tap(oy: V, ox: V, a: V, c: V) -> Iterator[tuple[V, V]]:
        y, x = oy * sy + a * dy - pads[0], ox * sx + c * dx - pads[2]
        with f.when(y.cmp("ult", image[0]) & x.cmp("ult", image[1])):
            yield y, x

    return tap


@lowers("conv2d")
def conv2d(f: Fn, node: Node, ins: Sequence[Buffer], outs: Sequence[Buffer]) -> None:
    (x, w), (out,) = ins, outs
    oc, ic, kh, kw = w.shape
    tap = _taps(f, node, (kh, kw), x.shape[2:])
    with f.loops(out.shape) as (n, o, oy, ox):
        acc = f.var(zero(f, out))
        first = o.op("udiv", oc // node.attrs["groups"]) * ic
        with f.loops((ic, kh, kw)) as (i, a, c), tap(oy, ox, a, c) as (y, z):
            fused(f, acc, w.get((o, i, a, c)), x.get((n, first + i, y, z)))
        out.set((n, o, oy, ox), acc.get())


@lowers("conv2d_backward_data")
def conv2d_backward_data(f: Fn, node: Node, ins: Sequence[Buffer], outs: Sequence[Buffer]) -> None:
    (dy, w), (out,) = ins, outs
    oc, ic, kh, kw = w.shape
    (sy, sx), (gy, gx), pads = (node.attrs[k] for k in ("stride", "dilation", "pads"))
    per = oc // node.attrs["groups"]
    with f.loops(out.shape) as (n, ch, y, x):
        acc = f.var(zero(f, out))
        group, i = ch.op("udiv", ic), ch.op("urem", ic)
        with f.loops((per, kh, kw)) as (o, a, c):
            ty, tx = y + pads[0] - a * gy, x + pads[2] - c * gx
            oy, ox = ty.op("sdiv", sy), tx.op("sdiv", sx)
            there = oy.cmp("ult", dy.shape[2]) & ox.cmp("ult", dy.shape[3])
            with f.when(there & (oy * sy).cmp("eq", ty) & (ox * sx).cmp("eq", tx)):
                channel = group * per + o
                fused(f, acc, w.get((channel, i, a, c)), dy.get((n, channel, oy, ox)))
        out.set((n, ch, y, x), acc.get())


@lowers("conv2d_backward_weight")
def conv2d_backward_weight(
    f: Fn, node: Node, ins: Sequence[Buffer], outs: Sequence[Buffer]
) -> None:
    (x, dy), (out,) = ins, outs
    oc, ic, kh, kw = out.shape
    tap = _taps(f, node, (kh, kw), x.shape[2:])
    with f.loops(out.shape) as (o, i, a, c):
        acc = f.var(zero(f, out))
        first = o.op("udiv", oc // node.attrs["groups"]) * ic
        with f.loops((dy.shape[0], *dy.shape[2:])) as (n, oy, ox), tap(oy, ox, a, c) as (y, z):
            fused(f, acc, dy.get((n, o, oy, ox)), x.get((n, first + i, y, z)))
        out.set((o, i, a, c), acc.get())


def _pool(kind: str) -> Rule:
    """Windows are known: their taps are written one after the other."""
    backward, average = kind.endswith("backward"), "avg" in kind

    def rule(f: Fn, node: Node, ins: Sequence[Buffer], outs: Sequence[Buffer]) -> None:
        op: Any = lookup(node.op)
        image = outs[0] if backward and average else ins[0]
        hw, width = image.shape[2:], image.shape[3]
        rows, columns = op.windows(hw, node.attrs)
        dy = ins[-1] if backward else outs[0]
        divisors = op.divisors(hw, node.attrs) if average else None
        with f.loops(image.shape[:2]) as (n, c):
            if backward:
                with f.loops(hw) as (y, x):
                    outs[0].set((n, c, y, x), zero(f, outs[0]))
            for i, ys in enumerate(rows):
                for j, xs in enumerate(columns):
                    taps = [(y, x) for y in ys for x in xs]
                    out = (n, c, i, j)
                    if average:
                        share = float(divisors if divisors.ndim == 0 else divisors[i, j])
                        if backward:
                            part = dy.get(out) / share
                            for y, x in taps:
                                outs[0].set((n, c, y, x), outs[0].get((n, c, y, x)) + part)
                            continue
                        total = f.const(value_type(image.dtype), 0)
                        for y, x in taps:
                            total = total + image.get((n, c, y, x))
                        outs[0].set(out, total / share)
                        continue
                    best, at = image.get((n, c, *taps[0])), f.i64(taps[0][0] * width + taps[0][1])
                    for y, x in taps[1:]:
                        new = image.get((n, c, y, x))
                        better = best.less(new) | (new.isnan() & (best.isnan() ^ 1))
                        best = better.where(new, best)
                        at = better.where(f.i64(y * width + x), at)
                    if backward:
                        place = (n * image.shape[1] + c) * prod(hw) + at
                        outs[0].set(place, outs[0].get(place) + dy.get(out))
                        continue
                    outs[0].set(out, best)
                    if len(outs) > 1:
                        outs[1].set(out, at)

    return rule


for _kind in ("max_pool2d", "avg_pool2d"):
    for _name in (_kind, f"adaptive_{_kind}"):
        for _end in ("", "_backward"):
            lowers(_name + _end)(_pool(_name + _end))


def _lines(b: Buffer, axis: int, lines: V, i: V) -> V:
    """The offset of element i of a line along an axis; lines count over all others."""
    inner = prod(b.shape[axis + 1:])
    outer, rest = lines.op("udiv", max(inner, 1)), lines.op("urem", max(inner, 1))
    return (outer * b.shape[axis] + i) * inner + rest


def _running(kind: str) -> Rule:
    def rule(f: Fn, node: Node, ins: Sequence[Buffer], outs: Sequence[Buffer]) -> None:
        (x,), a = ins, node.attrs
        axis = normalize_axis(a["axis"], len(x.shape))
        n = x.shape[axis]
        with f.loop(prod(x.shape) // max(n, 1)) as line:
            acc = f.var(f.const(value_type(x.dtype), kind == "prod"))
            place = f.var(f.i64(0))
            with f.loop(n) as t:
                i = f.i64(n - 1) - t if a.get("reverse") else t
                at = _lines(x, axis, line, i)
                new, old = x.get(at), acc.get()
                if kind in ("sum", "prod"):
                    acc.set(old + new if kind == "sum" else old * new)
                    outs[0].set(at, old if a["exclusive"] else acc.get())
                else:
                    low, high = (new, old) if kind == "max" else (old, new)
                    beaten = low.less(high, x.dtype.kind == "int")
                    take = t.cmp("eq", 0) | ((beaten ^ 1) & (old.isnan() ^ 1))
                    acc.set(take.where(new, old))
                    place.set(take.where(i, place.get()))
                    outs[0].set(at, acc.get())
                    outs[1].set(at, place.get().to("i32", "trunc"))

    return rule


@lowers("linear_recurrence")
def linear_recurrence(f: Fn, node: Node, ins: Sequence[Buffer], outs: Sequence[Buffer]) -> None:
    (x, factor), axis = ins, normalize_axis(node.attrs["axis"], len(ins[0].shape))
    n = x.shape[axis]
    with f.loop(prod(x.shape) // max(n, 1)) as line:
        held = f.var(zero(f, x))
        with f.loop(n) as t:
            at = _lines(x, axis, line, f.i64(n - 1) - t if node.attrs["reverse"] else t)
            held.set(held.get() * factor.get(at) + x.get(at))
            outs[0].set(at, held.get())


@lowers("logcumsumexp")
def logcumsumexp(f: Fn, node: Node, ins: Sequence[Buffer], outs: Sequence[Buffer]) -> None:
    """The largest so far, and the sum of exponentials less it."""
    (x,), axis = ins, normalize_axis(node.attrs["axis"], len(ins[0].shape))
    kind = dtypes.float32 if x.dtype.itemsize == 2 else x.dtype
    with f.loop(prod(x.shape) // max(x.shape[axis], 1)) as line:
        top, total = f.var(f.const(value_type(x.dtype), float("-inf"))), f.var(zero(f, x))
        with f.loop(x.shape[axis]) as t:
            at = _lines(x, axis, line, t)
            new, old = x.get(at), top.get()
            top.set((old.less(new) | new.isnan()).where(new, old))
            shift = (top.get() - top.get()).cmp("oeq", 0).where(top.get(), 0)
            parts = [f.function("exp", kind, [v - shift]) for v in (old, new)]
            total.set(total.get() * parts[0] + parts[1])
            outs[0].set(at, f.function("log", kind, [total.get()]) + shift)


for _kind in ("sum", "prod", "max", "min"):
    lowers(f"cum{_kind}")(_running(_kind))


@lowers("sort_lines")
def sort_lines(f: Fn, node: Node, ins: Sequence[Buffer], outs: Sequence[Buffer]) -> None:
    (x,), (values, positions), n = ins, outs, ins[0].shape[-1]
    signed = x.dtype.kind == "int"
    with f.loop(prod(x.shape[:-1])) as line, f.loop(n) as i:
        new, hole = x.get(line * n + i), f.var(i)

        def before() -> V:
            """Whether the new element belongs before the one in front of the hole."""
            safe = hole.get().cmp("sgt", 0).where(hole.get() - 1, 0)
            old = values.get(line * n + safe)
            first = old.less(new, signed) if node.attrs["descending"] else new.less(old, signed)
            return hole.get().cmp("sgt", 0) & (first | (old.isnan() & (new.isnan() ^ 1)))

        with f.repeat(before):
            at = line * n + hole.get()
            values.set(at, values.get(at - 1))
            positions.set(at, positions.get(at - 1))
            hole.set(hole.get() - 1)
        values.set(line * n + hole.get(), new)
        positions.set(line * n + hole.get(), i.to("i32", "trunc"))


def _scatter(per_element: bool) -> Rule:
    def rule(f: Fn, node: Node, ins: Sequence[Buffer], outs: Sequence[Buffer]) -> None:
        (x, indices, updates), (out,), mode = ins, outs, node.attrs["mode"]
        parts, part = (0, 1) if x.dtype.is_complex else (0,), part_of(x.dtype)
        axis = normalize_axis(node.attrs["axis"], len(x.shape))
        shared = 0 if per_element else node.attrs["batch_dims"]
        count = len(indices.shape) - shared if not per_element else 1
        with f.loop(prod(x.shape)) as i:
            for p in parts:
                out.set(i, x.get(i, p), p)
        with f.loops(updates.shape) as at:
            picked = at if per_element else [*at[:shared], *at[axis : axis + count]]
            given = f.convert(indices.get(picked), indices.dtype, dtypes.int64)
            index = given.less(0).where(given + x.shape[axis], given)
            with f.when(index.cmp("ult", x.shape[axis])):
                place = [*at[:axis], index, *at[axis + count:]]
                for p in parts:
                    new, old = updates.get(at, p), out.get(place, p)
                    name = {"max": "maximum", "min": "minimum"}.get(mode, mode)
                    out.set(place, new if mode == "update"
                            else f.arithmetic(name, part, [old, new]), p)

    return rule


lowers("scatter")(_scatter(False))
lowers("scatter_lines")(_scatter(True))


@lowers("join_copy")
def join_copy(f: Fn, node: Node, ins: Sequence[Buffer], outs: Sequence[Buffer]) -> None:
    (out,), axis, start = outs, normalize_axis(node.attrs["axis"], len(outs[0].shape)), 0
    for x in ins:
        with f.loops(x.shape) as at:
            for p in (0, 1) if x.dtype.is_complex else (0,):
                out.set([*at[:axis], at[axis] + start, *at[axis + 1:]], x.get(at, p), p)
        start += x.shape[axis]
