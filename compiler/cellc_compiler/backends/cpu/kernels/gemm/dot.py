"""Matrix times vector where both run along k: `out[j] = sum_k w[j][k] * x[k]`.

Here lanes run along k, so the chain of an element is split by a fixed rule. With L lanes and
U = 2 accumulators, `acc[u][l]` is the FMA chain, from 0 and k ascending, over the k with
`k % (U * L) == u * L + l` (a k past the end adds `fma(0, 0, acc)`). The element is
`acc[0] + acc[1]` lane by lane, then halves are added (`lane[l] + lane[l + L/2]`, ...) until one
lane is left. L is the target's, U is fixed: the result follows from shape and target alone.
"""

from __future__ import annotations

from collections.abc import Sequence

from cellc_compiler.backends.cpu.kernels.gemm.arith import Arith, storage_type
from cellc_compiler.backends.cpu.kernels.gemm.tile import OUT_BUFFER, TileLayout, store_result
from cellc_compiler.backends.llvm.text import Function, V, lanes_of, sizeof

SPLIT = 2
"""Accumulators per element (U)."""
ROWS = 4
"""Elements computed together."""


def dot_function(name: str, lay: TileLayout, k: int, rows: int) -> Function:
    """`void name(ptr x, ptr w, ptr bufs, i64 row, i64 col)`: `rows` elements from column col."""
    params = [("ptr", "x"), ("ptr", "w"), ("ptr", "bufs"), ("i64", "row"), ("i64", "col")]
    f = Function(name, params, lay.target, "void", "internal")
    accs = _chains(f, lay.arith, k, rows)
    base = f.load("ptr", f.gep(f.arg("bufs"), OUT_BUFFER, "ptr"))
    at = f.add(f.mul(f.arg("row"), f.i64(lay.n)), f.arg("col"))
    size = sizeof(storage_type(lay.arith.out))
    base = f.gep(base, f.mul(at, f.i64(size)))
    for j in range(rows):
        whole = f.add(accs[SPLIT * j], accs[SPLIT * j + 1])
        where = f.gep(base, j * size)
        col = f.add(f.arg("col"), f.i64(j))
        store_result(f, lay, add_lanes(f, whole), where, f.arg("row"), col, 1)
    f.ret_()
    return f


def _chains(f: Function, arith: Arith, k: int, rows: int) -> list[V]:
    """The SPLIT accumulators of every element, element by element."""
    lanes, size = arith.lanes, arith.dtype.itemsize
    wide = lanes * SPLIT
    zeros = arith.zero(f, lanes) * (rows * SPLIT)

    def step(at: V, accs: Sequence[V], counts: Sequence[int]) -> list[V]:
        out = list(accs)
        for u, count in enumerate(counts):
            x = arith.load(f, f.gep(f.gep(f.arg("x"), at), u * lanes * size), lanes, count)
            for j in range(rows):
                ptr = f.gep(f.gep(f.arg("w"), at), j * k * size + u * lanes * size)
                i = j * SPLIT + u
                out[i : i + 1] = arith.mac(f, [out[i]], arith.load(f, ptr, lanes, count), x)
        return out

    full = k // wide * wide
    accs = f.loop(0, full * size, wide * size, zeros, lambda i, c: step(i, c, [lanes] * SPLIT))
    rest = [min(lanes, k - at) for at in range(full, k, lanes)]
    return step(f.i64(full * size), accs, rest) if rest else accs


def add_lanes(f: Function, v: V) -> V:
    """The sum of a vector's lanes by halves."""
    while lanes_of(v.ty) > 1:
        half = lanes_of(v.ty) // 2
        if half == 1:
            return f.add(f.extract(v, 0), f.extract(v, 1))
        v = f.add(f.shuffle(v, v, range(half)), f.shuffle(v, v, range(half, 2 * half)))
    return v
