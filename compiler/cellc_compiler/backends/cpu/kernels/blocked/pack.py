"""Weights of convolutions over channel-blocked images, packed: `[O / ov][I][kh][kw][ov][B]`."""

from __future__ import annotations

import functools

from cellc_compiler.backends.llvm.text import (
    Function,
    V,
    first_lanes,
    kernel_function,
    module,
    transpose,
    vector,
)
from cellc_compiler.lower.kernel import Kernel
from cellc_runtime.dtypes import DType
from cellc_runtime.target import Target

from ..vectors import (
    acc_size,
    acc_type,
    divmod_const,
    elem_ptr,
    load_acc,
    minimum,
    task_kernel,
    units_per_task,
)
from .tile import BlockConv


def pack_kernel(p: BlockConv, ov: int, given: DType, target: Target) -> Kernel:
    """Kernel over (w, packed): `[oc, chain]` of type `given` to `[oc / (ov * B)][chain][ov][B]`,
    missing output channels as zeros."""
    cycles = 3.0 * p.chain * p.bo / 4 + 50.0
    if p.bo > 1 and p.oc % p.bo == 0 and p.chain >= p.bo:
        per = units_per_task(p.out_blocks, cycles)
        numbers = (p.chain, ov, p.out_blocks, per)
        return Kernel(_pack_text(p.dtype, given, p.bo, target), -(-p.out_blocks // per), 2,
                      p.out_blocks * cycles, numbers)
    return _pack_ragged(p, ov, given, cycles, target)


@functools.cache
def _pack_text(dtype: DType, given: DType, b: int, target: Target) -> str:
    """The kernel for whole blocks and chains of a block or more, whatever their number: LLVM
    takes as long for a transposition as for a tile, and most layers need one.

    Its numbers are the chain, the vectors of a group, the blocks, and how many a task does.
    """
    size = acc_size(dtype)
    f, (source, packed) = kernel_function(target, 2)
    k, ov, blocks, per = (f.load("i64", f.gep(f.arg("bufs"), i, "ptr"), align=8)
                          for i in range(2, 6))
    row_bytes = f.mul(k, f.i64(given.itemsize))
    line_bytes = f.mul(ov, f.i64(b * size))
    last = f.sub(k, f.i64(b))

    def one(block: V, _: list[V]) -> None:
        group = f.binary("udiv", block, ov)
        j = f.sub(block, f.mul(group, ov))
        out = f.gep(packed, f.mul(f.mul(group, k), line_bytes))
        out = f.gep(out, f.mul(j, f.i64(b * size)))
        rows = f.gep(source, f.mul(block, f.mul(row_bytes, f.i64(b))))

        def square(at: V, _: list[V]) -> None:
            # The last square overlaps the one before it, and writes the same values again.
            at = minimum(f, at, last)
            row, lines = elem_ptr(f, rows, at, given), []
            for i in range(b):
                lines.append(load_acc(f, row, given, b, None))
                row = f.gep(row, row_bytes) if i < b - 1 else row
            line = f.gep(out, f.mul(at, line_bytes))
            for i, column in enumerate(transpose(f, lines)):
                f.store(column, line)
                line = f.gep(line, line_bytes) if i < b - 1 else line

        f.loop(0, k, b, [], square)

    until = minimum(f, f.mul(f.arg("hi"), per), blocks)
    f.loop(f.mul(f.arg("lo"), per), until, 1, [], one)
    f.ret_()
    return module([f])


def _pack_ragged(
    p: BlockConv, ov: int, given: DType, cycles: float, target: Target
) -> Kernel:
    """The kernel for a last block that is not full, and for short chains."""
    b, k, ty = p.bo, p.chain, acc_type(p.dtype)
    vec = vector(ty, b)
    full = k // b * b

    def body(f: Function, bufs: list[V], block: V) -> None:
        group, j = divmod_const(f, block, ov)
        out = f.gep(bufs[1], f.mul(group, f.i64(ov * k * b)), ty)
        out = f.gep(out, f.mul(j, f.i64(b)), ty)
        first = f.mul(block, f.i64(b))
        rows = []
        live = []
        for i in range(b):
            # A row past the last channel reads the last one and is replaced by zeros.
            row = f.add(first, f.i64(i))
            live.append(f.cmp("slt", row, f.i64(p.oc)))
            row = minimum(f, row, f.i64(p.oc - 1))
            rows.append(elem_ptr(f, bufs[0], f.mul(row, f.i64(k)), given))

        def columns(at: V, count: int) -> None:
            lines = []
            for ptr, alive in zip(rows, live, strict=True):
                line = load_acc(f, elem_ptr(f, ptr, at, given), given, b, first_lanes(count, b))
                if p.oc % b:
                    line = f.select(alive, line, f.zero(vec))
                lines.append(line)
            for i, column in enumerate(transpose(f, lines)[:count]):
                f.store(column, f.gep(out, f.mul(f.add(at, f.i64(i)), f.i64(ov * b)), ty))

        f.loop(0, full, b, [], lambda at, _: columns(at, b))
        if k > full:
            columns(f.i64(full), k - full)

    return task_kernel(target, 2, p.out_blocks, cycles, body)
