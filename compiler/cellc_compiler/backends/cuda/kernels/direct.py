"""Products of few rows and few steps, as depthwise convolutions are: a thread for each column.

A tile would be mostly empty. A thread has the sums of all rows of its column in registers and goes
along k once; adjacent threads read adjacent columns, and the same weights. Nothing passes through
shared memory.
"""

from __future__ import annotations

from cellc_runtime.target import Target

from ...llvm.convert import memory_type
from ...llvm.math.lanes import X
from ..code import KernelCode
from ..writer import THREADS, GpuFunction
from .chains import element
from .operands import Operand, Spot, low_bits, number, spot
from .product import Epilogue, Product, stored

_MOST_ROWS = 4
_MOST_STEPS = 64  # Steps of k at most: the code is there for each


def is_direct(p: Product) -> bool:
    """Whether a product is computed so."""
    return p.m <= _MOST_ROWS and 0 < p.k <= _MOST_STEPS and p.segments == 1 \
        and p.b.nearest == "free"


def direct(p: Product, target: Target, epilogue: Epilogue | None = None) -> KernelCode:
    """The kernel; its buffers are the operands, and the output or those of an epilogue."""
    f = GpuFunction(target, 2 + (1 if epilogue is None else epilogue.buffers), THREADS)
    put = stored(f, p.out.dtype, f.pointer(2)) if epilogue is None else epilogue.begin(f, 2)
    thread, items = X(f, f.global_thread()), p.batch * p.n
    with f.given(thread.cmp("ult", items)):
        batch, j = thread.op("udiv", p.n), thread.op("urem", p.n)
        rows = [p.a.begin(f, batch, number(f, i)) for i in range(p.m)]
        column = p.b.begin(f, batch, j)
        sums = [X(f, f.const(memory_type(p.sums), 0.0))] * p.m
        for k in range(p.k):
            x = _value(f, p.b, 1, column + spot(f, number(f, k), p.b.steps))
            step = spot(f, number(f, k), p.a.steps)
            sums = [X(f, f.multiply_add(_value(f, p.a, 0, row + step).v, x.v, acc.v))
                    for row, acc in zip(rows, sums, strict=True)]
        at = spot(f, batch, p.out.batch) + spot(f, j, p.out.columns)
        for i, value in enumerate(sums):
            row = spot(f, number(f, i), p.out.rows).offset + p.out.start
            put(low_bits(f, value.v, p.out.dtype), at.offset + row)
    return f.finished_for(items)


def _value(f: GpuFunction, operand: Operand, buffer: int, at: Spot) -> X:
    """An element; 0 outside of an image."""
    inside = operand.inside(at)
    if inside is None:
        return element(f, f.pointer(buffer), operand.dtype, at.offset)
    x = element(f, f.pointer(buffer), operand.dtype, inside.where(at.offset, 0))
    return inside.where(x, 0.0)
