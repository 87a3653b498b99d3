"""The sums of parts, added in order: part after part, a thread for each vector of the output."""

from __future__ import annotations

from cellc_runtime.target import Target

from ...llvm.convert import memory_type
from ...llvm.math.lanes import X
from ...llvm.text import vector
from ..code import VECTOR_BYTES, KernelCode
from ..writer import THREADS, GpuFunction
from .operands import number
from .product import Epilogue, Product, StoresSums, stored


def sum_of_parts(
    product: Product, parts: int, target: Target, vectors: bool, epilogue: Epilogue | None = None,
    pitch: int = 0,
) -> KernelCode:
    """The kernel; its buffers are the partial sums, and the output or those of an epilogue.

    Args:
        pitch: sums from a row to the next, if not its columns.
    """
    f = GpuFunction(target, 1 + (1 if epilogue is None else epilogue.buffers), THREADS)
    put = stored(f, product.out.dtype, f.pointer(1)) if epilogue is None else epilogue.begin(f, 1)
    store = StoresSums(f, product, product.out, put, vectors)
    lanes, n = product.lanes, product.n
    pitch = pitch or n
    across, ty = -(-n // lanes), memory_type(product.sums)
    items = product.batch * product.m * across
    thread = X(f, f.global_thread())
    with f.given(thread.cmp("ult", items)):
        batch, i, c = (X(f, v) for v in f.split(thread.v, [product.batch, product.m, across]))
        j = c * lanes
        at = (batch * product.m + i) * pitch + j
        whole = vectors and n % lanes == 0 and pitch % lanes == 0
        total = f.const(vector(ty, lanes), 0.0)
        for p in range(parts):
            base = f.gep(f.pointer(0), (at + p * product.batch * product.m * pitch).v, ty)
            if whole:
                value = f.load(total.ty, base, VECTOR_BYTES)
            else:
                value = f.undef(total.ty)
                for lane in range(lanes):
                    # Past the last column the next row is read, or the element itself.
                    safe = f.select((j + lane).cmp("slt", n).v, number(f, lane).v, number(f, 0).v)
                    value = f.insert(value, f.load(ty, f.gep(base, safe, ty)), lane)
            total = value if p == 0 and not product.zero else total + value
        store.put(total, store.row(batch, i), store.column(j), j)
    return f.finished_for(items)
