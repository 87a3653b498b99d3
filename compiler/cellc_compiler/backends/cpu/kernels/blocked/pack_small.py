"""Weights of convolutions that are stored in 4, 8 or 16 bits, widened while they are packed.

A row of the weight is an output channel, its steps are the chain (`ops/blocked.py: SmallKernel`).
An int q stands for `(q - zero) * scale`, each operation rounded to float32, as in `dequantized`.
The packed weights are those of `blocked/pack.py`.
"""

from __future__ import annotations

import functools

from cellc_runtime.dtypes import DType, uint8
from cellc_runtime.records import dataclass
from cellc_runtime.target import Target

from .....lower.kernel import Kernel
from ....llvm.convert import from_memory, memory_type
from ....llvm.text import Function, V, first_lanes, kernel_function, module, transpose, vector
from ..vectors import minimum, units_per_task
from .tile import BlockConv

_NUMBERS = ("chain", "ov", "blocks", "per", "channels", "group", "groups", "row_bytes")


@dataclass(frozen=True, slots=True)
class Form:
    """The facts on which the text of a kernel depends."""

    weight: DType  # element type; `uint8` holds two steps
    scales: tuple[DType, ...]  # element types of the scales and zeros that there are
    block: int  # channels of a block
    short: int  # the chain, where a vector has more lanes; else 0
    ragged: bool  # whether the last block is not full
    odd: bool  # whether the last element of a row holds one step of the two
    grouped: bool  # whether a row has several scales

    @property
    def together(self) -> int:
        """Steps in an element of memory."""
        return 2 if self.weight is uint8 else 1


def pack_kernel(
    p: BlockConv, ov: int, weight: DType, scales: tuple[DType, ...], group: int, target: Target
) -> Kernel:
    """Kernel over (w, scales and zeros that there are, packed): rows of few bits to
    `[oc / (ov * B)][chain][ov][B]` of float32, missing output channels as zeros."""
    k, together = p.chain, 2 if weight is uint8 else 1
    stored = -(-k // together)
    form = Form(weight, scales, p.bo, k if stored * together < p.bo else 0, p.oc % p.bo != 0,
                k % together != 0, 0 < group < k)
    cycles = 1.5 * k * p.bo + 100.0
    per = units_per_task(p.out_blocks, cycles)
    group = group or k
    numbers = (k, ov, p.out_blocks, per, p.oc, group, -(-k // group), stored * weight.itemsize)
    return Kernel(_text(form, target), -(-p.out_blocks // per), 2 + len(scales),
                  p.out_blocks * cycles, numbers)


@functools.cache
def _text(form: Form, target: Target) -> str:
    """The kernel of a form, whatever its numbers (see `pack_kernel`)."""
    b, count = form.block, 2 + len(form.scales)
    f, (source, *scales, packed) = kernel_function(target, count)
    n = {name: f.load("i64", f.gep(f.arg("bufs"), count + i, "ptr"), align=8)
         for i, name in enumerate(_NUMBERS)}
    line_bytes = n["ov"] * (4 * b)
    # of a row with an odd number of steps the last element has one more, which is not stored
    steps = n["chain"] + form.odd if form.odd else n["chain"]

    def one(block: V, _: list[V]) -> None:
        group = block // n["ov"]
        j = block - group * n["ov"]
        out = f.gep(f.gep(packed, group * n["chain"] * line_bytes), j * (4 * b))
        rows = [minimum(f, block * b + i, n["channels"] - 1) for i in range(b)]
        starts = [f.gep(source, row * n["row_bytes"]) for row in rows]

        def square(at: V, _: list[V]) -> None:
            # The last square overlaps the one before it, and writes the same values again.
            at = f.i64(0) if form.short else minimum(f, at, steps - b)
            spots = _Spots(f, form, at, n)
            lines = []
            for i, (row, start) in enumerate(zip(rows, starts, strict=True)):
                facts = [spots.number(base, row, s)
                         for base, s in zip(scales, form.scales, strict=True)]
                line = _widened(f, form, _steps(f, form, start, at), facts)
                if form.ragged:
                    live = f.splat(f.cmp("slt", block * b + i, n["channels"]), b)
                    line = f.select(live, line, f.zero(line.ty))
                lines.append(line)
            _store(f, form, lines, f.gep(out, at * line_bytes), line_bytes, at, n["chain"])

        if form.short:
            square(f.i64(0), [])
        else:
            f.loop(0, steps, b, [], square)

    until = minimum(f, f.arg("hi") * n["per"], n["blocks"])
    f.loop(f.arg("lo") * n["per"], until, 1, [], one)
    f.ret_()
    return module([f])


class _Spots:
    """Where the scales of a square of steps, from `at` on, are: they lie in a group, or two."""

    def __init__(self, f: Function, form: Form, at: V, n: dict[str, V]) -> None:
        self.f, self.form, self.groups = f, form, n["groups"]
        if not form.grouped:
            return
        self.first = f.binary("udiv", at, n["group"])
        self.second = minimum(f, self.first + 1, n["groups"] - 1)
        border = f.cast("trunc", (self.first + 1) * n["group"] - at, "i32")
        self.beyond = f.cmp("sge", f.iota(vector("i32", form.block)), f.splat(border, form.block))

    def number(self, base: V, row: V, dtype: DType) -> V:
        """The scale or zero of each step of a row, in float32."""
        f = self.f
        if not self.form.grouped:
            return f.splat(self._load(base, row, dtype), self.form.block)
        start = row * self.groups
        a, b = (f.splat(self._load(base, start + g, dtype), self.form.block)
                for g in (self.first, self.second))
        return f.select(self.beyond, b, a)

    def _load(self, base: V, index: V, dtype: DType) -> V:
        f = self.f
        raw = f.load(memory_type(dtype), f.gep(base, index * dtype.itemsize), dtype.itemsize)
        if dtype.is_float:
            return from_memory(f, raw, dtype)
        return f.cast("sitofp" if dtype.kind == "int" else "uitofp", raw, "float")


def _steps(f: Function, form: Form, row: V, at: V) -> V:
    """The elements of a row from step `at` (of two together, an even one) on, as stored."""
    count = form.block // form.together
    live = -(-form.short // form.together) if form.short else count
    place = f.binary("lshr", at, f.i64(1)) if form.together == 2 else at
    ty = vector(memory_type(form.weight), count)
    ptr = f.gep(row, place * form.weight.itemsize)
    mask = first_lanes(live, count)
    raw = f.load(ty, ptr, form.weight.itemsize) if mask is None else f.masked_load(ty, ptr, mask)
    if form.together == 1:
        return raw
    low, high = f.binary("and", raw, f.const(ty, 15)), f.binary("lshr", raw, f.const(ty, 4))
    return f.shuffle(low, high, [i // 2 + i % 2 * count for i in range(form.block)])


def _widened(f: Function, form: Form, raw: V, facts: list[V]) -> V:
    """The values of stored elements, from their scales and zeros."""
    if form.weight.is_float:
        return from_memory(f, raw, form.weight)
    wide = f.cast("zext" if form.weight is uint8 else "sext", raw, "i32")
    x = f.cast("sitofp", wide, "float")
    if len(facts) > 1:
        x = f.sub(x, facts[1])
    elif form.weight is uint8:
        x = f.sub(x, f.const(x.ty, 8.0))
    return f.mul(x, facts[0]) if facts else x


def _store(f: Function, form: Form, lines: list[V], out: V, line_bytes: V, at: V, chain: V
           ) -> None:
    """The rows as columns, one below the other."""
    columns = transpose(f, lines)
    last = len(columns) - 1
    for i, column in enumerate(columns[: form.short or None]):
        line = f.gep(out, line_bytes * i) if i else out

        def store(column: V = column, line: V = line) -> None:
            f.store(column, line)

        if i == last and form.odd:
            f.when(f.cmp("slt", at + i, chain), store)
        else:
            store()
