"""Sorted lines: tiles of blocks, merged."""

from __future__ import annotations

from cellc_runtime.target import Target

from ....ir.graph import Node
from ....ir.types import prod
from ....lower.plan import KernelPlan, operand, result
from ...llvm.math.lanes import X
from ...llvm.sort_keys import sort_key
from ..kernels.sort import Sorting
from ..writer import GpuFunction
from .table import lowers

_POSITION = 32  # Bits of a position, below the key


@lowers("sort_lines")
def sort_lines(node: Node, target: Target) -> KernelPlan:
    """The last axis in order, with positions."""
    x = node.operands[0]
    dtype, n, raw = x.dtype, x.shape[-1], f"i{8 * x.dtype.itemsize}"
    first = node.results[0].shape[-1]
    ty = "i64" if dtype.itemsize <= 4 else "i128"

    def element(f: GpuFunction, line: X, i: X) -> X:
        return X(f, f.load(raw, f.gep(f.pointer(0), (line * n + i).v, raw)))

    def entry(f: GpuFunction, line: X, i: X) -> X:
        key = X(f, sort_key(f, element(f, line, i).v, dtype, node.attrs["descending"]))
        position = i if ty == "i64" else i.to("zext", ty)
        return (key.to("zext", ty) << _POSITION) | position

    def store(f: GpuFunction, line: X, i: X, entry: X, out: int) -> None:
        position = entry.to("trunc", "i32")
        to = line * first + i

        def write() -> None:
            value = element(f, line, position.to("zext", "i64"))
            f.store(value.v, f.gep(f.pointer(out), to.v, raw))
            f.store(position.v, f.gep(f.pointer(out + 1), to.v, "i32"))

        if not node.attrs.get("first"):
            write()
        else:
            f.when(i.cmp("slt", first).v, write)

    return Sorting(prod(x.shape[:-1]), n, ty, entry, store, (operand(0),),
                   (result(0), result(1))).plan(target)
