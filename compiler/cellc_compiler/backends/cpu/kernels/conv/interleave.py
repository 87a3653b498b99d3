"""Interleaving the phases of a strided backward-data convolution into the image."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from cellc_compiler.backends.llvm.text import Function, V, first_lanes, lanes_of, vector
from cellc_compiler.lower.kernel import Kernel
from cellc_runtime.dtypes import DType
from cellc_runtime.target import Target

from ..vectors import (
    acc_ptr,
    acc_type,
    divmod_const,
    elem_ptr,
    lanes,
    lookup,
    store_acc,
    table,
    task_kernel,
)

_MAX_SHUFFLED_STRIDE = 4


def interleave(f: Function, parts: Sequence[V], which: int) -> V:
    """Vector `which` of the element-wise interleaving of equal vectors."""
    width, count = lanes_of(parts[0].ty), len(parts)
    if count == 1:
        return parts[0]
    source = [divmod(which * width + i, count) for i in range(width)]
    out = f.shuffle(parts[0], parts[1],
                    [at if p == 0 else width + at if p == 1 else -1 for at, p in source])
    for k in range(2, count):
        out = f.shuffle(out, parts[k],
                        [width + at if p == k else i for i, (at, p) in enumerate(source)])
    return out


def interleave_kernel(
    dtype: DType, planes: int, h: int, w: int, sy: int, sx: int,
    phases: Sequence[tuple[int, int]], target: Target,
) -> Kernel:
    """Kernel over buffers (phases, out).

    `phases[f]` is the residue (row, column) whose pixels are stored in
    `[f][planes][ceil(h / sy)][ceil(w / sx)]` accumulators; a residue not listed is zero. The
    phase buffer has slack for a vector past its end, and room for at least one phase.
    """
    th, tw = -(-h // sy), -(-w // sx)
    width = lanes(target, dtype)
    index = {p: i for i, p in enumerate(phases)}
    known = [index.get(p, -1) for p in product(range(sy), range(sx))]

    def source(f: Function, bufs: list[V], plane: V, iy: V, px: V, ix: V) -> tuple[V, V]:
        """Whether the phase exists, and the pointer to its element for grid column `ix`."""
        j, py = divmod_const(f, iy, sy)
        at = lookup(f, "PHASE", f.add(f.mul(py, f.i64(sx)), px))
        there = f.cmp("sge", at, f.i64(0))
        slot = f.add(f.mul(f.select(there, at, f.i64(0)), f.i64(planes)), plane)
        row = f.mul(f.add(f.mul(slot, f.i64(th)), j), f.i64(tw))
        return there, acc_ptr(f, bufs[0], f.add(row, ix), dtype)

    def block(f: Function, bufs: list[V], plane: V, iy: V, out: V, ix: V, count: int) -> None:
        ty = vector(acc_type(dtype), width)
        parts = []
        for px in range(sx):
            there, ptr = source(f, bufs, plane, iy, f.i64(px), ix)
            parts.append(f.select(there, f.load(ty, ptr), f.zero(ty)))
        for o in range(-(-count // width)):
            mask = first_lanes(count - o * width, width)
            at = f.add(f.mul(ix, f.i64(sx)), f.i64(o * width))
            store_acc(f, interleave(f, parts, o), elem_ptr(f, out, at, dtype), dtype, mask)

    def pixel(f: Function, bufs: list[V], plane: V, iy: V, out: V, x: V) -> None:
        ix, px = divmod_const(f, x, sx)
        there, ptr = source(f, bufs, plane, iy, px, ix)
        ty = acc_type(dtype)
        value = f.select(there, f.load(ty, ptr), f.zero(ty))
        store_acc(f, value, elem_ptr(f, out, x, dtype), dtype)

    def body(f: Function, bufs: list[V], plane: V) -> str:
        def row(iy: V, _: list[V]) -> None:
            at = f.mul(f.add(f.mul(plane, f.i64(h)), iy), f.i64(w))
            out = elem_ptr(f, bufs[1], at, dtype)
            if sx > _MAX_SHUFFLED_STRIDE:
                f.loop(0, w, 1, [], lambda x, _: pixel(f, bufs, plane, iy, out, x))
                return
            step = width * sx
            full = w // step
            f.loop(0, full * width, width, [],
                   lambda ix, _: block(f, bufs, plane, iy, out, ix, step))
            if w > full * step:
                block(f, bufs, plane, iy, out, f.i64(full * width), w - full * step)

        f.loop(0, h, 1, [], row)
        return table("PHASE", known)

    cycles = h * (10.0 + w * (6.0 if sx > _MAX_SHUFFLED_STRIDE else 6.0 / width))
    return task_kernel(target, 2, planes, cycles, body)
