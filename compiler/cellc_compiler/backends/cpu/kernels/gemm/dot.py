"""Matrix times vector where both run along k: `out[j] = sum_k w[j][k] * x[k]`.

Lanes run along k, so an element is as many chains as a reduction along a row has
(`loops/order.py`), in as many accumulators as hold them: chain c is the FMA chain, from 0 and k
ascending, over the k with `k % chains == c` (a k past the end adds `fma(0, 0, acc)`). They are
folded by halves.
"""

from __future__ import annotations

from collections.abc import Sequence

from .....ir.dims import is_symbolic
from .....loops.order import CHAIN_BYTES, kernel_parts
from ....llvm.reduction import row_of_parts, total
from ....llvm.text import Function, V, sizeof
from .arith import Arith, storage_type
from .tile import OUT_BUFFER, TileLayout, store_result


def rows_together(arith: Arith) -> int:
    """Elements computed together: they share what is read of the vector."""
    return max(1, 8 // _accumulators(arith))


def _accumulators(arith: Arith) -> int:
    """Vectors that hold the chains of an element."""
    return CHAIN_BYTES // (arith.acc_size * arith.lanes)


def dot_function(name: str, lay: TileLayout, k: int, rows: int) -> Function:
    """`void name(ptr x, ptr w, ptr bufs, i64 row, i64 col)`: `rows` elements from column col."""
    params = [("ptr", "x"), ("ptr", "w"), ("ptr", "bufs"), ("i64", "row"), ("i64", "col")]
    f = Function(name, params, lay.target, "void", "internal")
    totals = _totals(f, lay.arith, k, rows)
    base = f.load("ptr", f.gep(f.arg("bufs"), OUT_BUFFER, "ptr"))
    at = f.add(f.mul(f.arg("row"), f.i64(lay.n)), f.arg("col"))
    size = sizeof(storage_type(lay.arith.out))
    base = f.gep(base, f.mul(at, f.i64(size)))
    for j in range(rows):
        where = f.gep(base, j * size)
        col = f.add(f.arg("col"), f.i64(j))
        store_result(f, lay, totals[j], where, f.arg("row"), col, 1)
    f.ret_()
    return f


def _totals(f: Function, arith: Arith, k: int, rows: int) -> list[V]:
    """Every element: the chains of k, or of each part of it."""
    parts, count = kernel_parts(k), _accumulators(arith)
    size, x, w = k // parts, f.arg("x"), f.arg("w")
    if parts == 1:
        accs = _chains(f, arith, x, w, k, size, rows)
        return [total(f, accs[count * j : count * (j + 1)]) for j in range(rows)]
    tables = [f.alloca(parts * arith.acc_size) for _ in range(rows)]

    def part(p: V, _: list[V]) -> None:
        at = f.mul(p, f.i64(size * arith.dtype.itemsize))
        accs = _chains(f, arith, f.gep(x, at), f.gep(w, at), k, size, rows)
        for j, table in enumerate(tables):
            f.store(total(f, accs[count * j : count * (j + 1)]), f.gep(table, p, arith.acc))

    f.loop(0, parts, 1, [], part)
    start = arith.zero(f, arith.lanes)
    return [row_of_parts(f, "sum", arith.dtype, [t], parts, start)[0] for t in tables]


def _chains(f: Function, arith: Arith, x: V, w: V, pitch: int, k: int, rows: int) -> list[V]:
    """The accumulators of every element, element by element: k steps from x and w on, whose rows
    are `pitch` elements apart."""
    lanes, size, split = arith.lanes, arith.dtype.itemsize, _accumulators(arith)
    wide = lanes * split
    zeros = arith.zero(f, lanes) * (rows * split)

    def step(at: V, accs: Sequence[V], counts: Sequence[int | V]) -> list[V]:
        out = list(accs)
        for u, count in enumerate(counts):
            v = arith.load(f, f.gep(f.gep(x, at), u * lanes * size), lanes, count)
            for j in range(rows):
                ptr = f.gep(f.gep(w, at), j * pitch * size + u * lanes * size)
                i = j * split + u
                out[i : i + 1] = arith.mac(f, [out[i]], arith.load(f, ptr, lanes, count), v)
        return out

    full = k // wide * wide
    accs = f.loop(0, full * size, wide * size, zeros, lambda i, c: step(i, c, [lanes] * split))
    if is_symbolic(k):
        left = [f.i64(k - full - u * lanes) for u in range(split)]
        found = step(f.i64(full * size), accs, left)
        some = [f.cmp("sgt", count, 0) for count in left] * rows  # (`fma(0, 0, -0.0)` is 0.0)
        return [f.select(c, new, old) for c, new, old in zip(some, found, accs, strict=True)]
    rest = [min(lanes, k - at) for at in range(full, k, lanes)]
    return step(f.i64(full * size), accs, rest) if rest else accs
