"""Products and convolutions: an element is one or several chains of fused multiply-adds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from cellc_runtime import dtypes

from ....ir.graph import Node
from ....ir.types import prod
from ....loops import order
from ...llvm.math.lanes import X
from ..writer import Buffer, Chains, PlainFunction, Var, sum_of_row
from .table import lowers


def fused(acc: Var, a: X, b: X) -> None:
    """acc += a * b, in one rounding for floats."""
    acc.set(X(a.f, a.f.multiply_add(a.v, b.v, acc.get().v)))


@lowers("matmul")
def matmul(f: PlainFunction, node: Node, ins: Sequence[Buffer], outs: Sequence[Buffer]) -> None:
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
    with f.items(*out.shape) as idx:
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


@lowers("dequantized_matmul")
def dequantized_matmul(
    f: PlainFunction, node: Node, ins: Sequence[Buffer], outs: Sequence[Buffer]
) -> None:
    (x, w, *scales), (out,) = ins, outs
    panels, steps = w.shape[0], x.shape[-1]
    segment = order.product_segment(panels * order.SMALL_COLUMNS, steps, 4) or steps
    group = node.attrs["group"] or steps

    def weight(k: X, j: X) -> X:
        panel, column = j.op("udiv", order.SMALL_COLUMNS), j.op("urem", order.SMALL_COLUMNS)
        if w.dtype.is_float:
            return w.get((panel, k, column))
        if w.dtype is dtypes.uint8:
            pair = w.get((panel, k.op("udiv", 2), column)).to("zext", "i64")
            q = pair.op("lshr", k.op("urem", 2) * 4) & 15
        else:
            q = w.get((panel, k, column)).to("sext", "i64")
        facts = [(s, s.get((panel, k.op("udiv", group), column))) for s in scales]
        wide = q.to("sitofp", "float")
        if len(facts) > 1:
            s, z = facts[1]
            wide -= z if s.dtype.is_float else z.to(
                "sitofp" if s.dtype is dtypes.int8 else "uitofp", "float")
        elif w.dtype is dtypes.uint8:
            wide -= 8.0
        return wide * facts[0][1] if facts else wide

    with f.items(prod(x.shape[:-1]), node.attrs["columns"]) as (i, j):
        total = f.var(f.number(out.dtype, 0))
        with f.each(-(-steps // segment)) as (s,):
            part = f.var(f.number(out.dtype, 0))
            with f.each(segment) as (t,):
                k = s * segment + t
                with f.given(k.cmp("slt", steps)):
                    fused(part, x.get(i * steps + k), weight(k, j))
            total.set(part.get() if segment == steps else total.get() + part.get())
        out.set(i * node.attrs["columns"] + j, total.get())


def _taps(f: PlainFunction, node: Node, image: Sequence[int]) -> Callable[..., Any]:
    """`with tap(oy, ox, a, c) as (y, x):` the pixel under a tap, if it is in the image."""
    (sy, sx), (dy, dx), pads = (node.attrs[k] for k in ("stride", "dilation", "pads"))

    @contextmanager
    def tap(oy: X, ox: X, a: X, c: X) -> Iterator[tuple[X, X]]:
        y, x = oy * sy + a * dy - pads[0], ox * sx + c * dx - pads[2]
        with f.given(y.cmp("ult", image[0]) & x.cmp("ult", image[1])):
            yield y, x

    return tap


@lowers("conv2d")
def conv2d(f: PlainFunction, node: Node, ins: Sequence[Buffer], outs: Sequence[Buffer]) -> None:
    (x, w), (out,) = ins, outs
    oc, ic, kh, kw = w.shape
    tap = _taps(f, node, x.shape[2:])
    with f.items(*out.shape) as (n, o, oy, ox):
        acc = f.var(f.number(out.part, 0))
        first = o.op("udiv", oc // node.attrs["groups"]) * ic
        with f.each(ic, kh, kw) as (i, a, c), tap(oy, ox, a, c) as (y, z):
            fused(acc, w.get((o, i, a, c)), x.get((n, first + i, y, z)))
        out.set((n, o, oy, ox), acc.get())


@lowers("conv2d_backward_data")
def conv2d_backward_data(
    f: PlainFunction, node: Node, ins: Sequence[Buffer], outs: Sequence[Buffer]
) -> None:
    (dy, w), (out,) = ins, outs
    oc, ic, kh, kw = w.shape
    (sy, sx), (gy, gx), pads = (node.attrs[k] for k in ("stride", "dilation", "pads"))
    per = oc // node.attrs["groups"]
    with f.items(*out.shape) as (n, ch, y, x):
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
    f: PlainFunction, node: Node, ins: Sequence[Buffer], outs: Sequence[Buffer]
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
    with f.items(*out.shape) as (o, i, a, c):
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
