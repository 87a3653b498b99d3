"""Moving matrices into the layouts the tiles read: panels of B, blocks of A.

A *panel* of B is `NR` columns over all k: `[k][part][NR]` scalars in accumulator precision,
columns past the matrix zero. A *block* of A is a copy of a few rows (of the stored matrix) with
a row pitch of an odd number of cache lines, which keeps rows out of each other's cache sets.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cellc_runtime.records import dataclass
from cellc_runtime.target import Target

from .....ir.dims import is_symbolic
from ....llvm import text
from ....llvm.text import Function, V, element, lanes_of, sizeof
from .arith import Arith

LINE = 64  # Bytes of a cache line


def ceil_div(a: int, b: int) -> int:
    """a / b rounded up."""
    return -(-a // b)


def odd_pitch(nbytes: int) -> int:
    """The least pitch of an odd number of cache lines that holds `nbytes`."""
    lines = ceil_div(nbytes, LINE)
    return LINE * (lines | 1)


def with_tail(
    f: Function, span: tuple[V, V], full: int, tail: int, body: Callable[[V], None],
    last: Callable[[], None],
) -> None:
    """A loop over a span of tiles, of which the one numbered `full` is a smaller one, if any."""
    lo, hi = span
    whole = f.intrinsic("smin", "i64", hi, f.i64(full)) if tail else hi
    if full:
        f.loop(lo, whole, 1, [], lambda i, _: body(i))
    if tail:
        f.when(f.cmp("sgt", hi, f.i64(full)), last)


# --- transposition ------------------------------------------------------------------------------


def transpose(f: Function, rows: Sequence[V]) -> list[V]:
    """L vectors of L lanes as the L vectors of the transposed matrix.

    First inside 128-bit lanes (unpack instructions), then those lanes among each other.
    """
    size = sizeof(element(rows[0].ty))
    quad = max(1, 16 // size)
    groups = [_transpose_in_lanes(f, rows[g : g + quad], quad) for g in range(0, len(rows), quad)]
    out: list[V] = [rows[0]] * len(rows)
    for c in range(quad):
        for p, v in enumerate(text.transpose(f, [g[c] for g in groups], chunk=quad)):
            out[p * quad + c] = v
    return out


def _transpose_in_lanes(f: Function, rows: Sequence[V], quad: int) -> list[V]:
    """A quad x quad transposition inside every 128-bit lane; quad is 1, 2 or 4."""
    if quad == 1:
        return list(rows)
    if quad == 2:
        return [_unpack(f, rows[0], rows[1], quad, 1, half) for half in range(2)]
    low = [_unpack(f, rows[0], rows[1], quad, 1, half) for half in range(2)]
    high = [_unpack(f, rows[2], rows[3], quad, 1, half) for half in range(2)]
    return [_unpack(f, low[i], high[i], quad, 2, half) for i in range(2) for half in range(2)]


def _unpack(f: Function, a: V, b: V, quad: int, chunk: int, half: int) -> V:
    """Interleave chunks of one half of every 128-bit lane of `a` and `b`."""
    total = lanes_of(a.ty)
    mask: list[int] = []
    for lane in range(0, total, quad):
        for at in range(lane + half * quad // 2, lane + (half + 1) * quad // 2, chunk):
            mask += [*range(at, at + chunk), *range(total + at, total + at + chunk)]
    return f.shuffle(a, b, mask)


# --- panels of B --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Panels:
    """How B is cut into panels."""

    arith: Arith  # element arithmetic
    n: int  # columns of B
    k: int  # rows of B (the reduced axis)
    width: int  # columns of a panel (NR), a multiple of the vector length
    transposed: bool  # whether B is stored `[n][k]`

    @property
    def count(self) -> int:
        """Panels of one matrix."""
        return ceil_div(self.n, self.width)

    @property
    def tail(self) -> int:
        """Columns of the last panel when it is not full, else 0."""
        return self.n % self.width

    @property
    def k_bytes(self) -> int:
        """Bytes of one k of a packed panel."""
        return self.arith.parts * self.width * self.arith.acc_size

    def given(self, f: Function) -> list[V]:
        """Further arguments of a packer: where sizes are, if strides follow from them."""
        return [f.arg("bufs")] if self.reads_sizes else []

    @property
    def reads_sizes(self) -> bool:
        """Whether packers read sizes."""
        return any(is_symbolic(n) for n in (self.n, self.k))

    @property
    def k_stride(self) -> int:
        """Bytes from one k to the next in stored B."""
        return self.arith.dtype.itemsize * (1 if self.transposed else self.n)

    @property
    def n_stride(self) -> int:
        """Bytes from one column to the next in stored B."""
        return self.arith.dtype.itemsize * (self.k if self.transposed else 1)


def panel_packer(name: str, p: Panels, columns: int | None, target: Target) -> Function:
    """`void name(ptr src, ptr dst, i64 kc)`: pack kc rows of `columns` columns at `src`; None for
    those of the last panel, whose number is known when the code runs. (Its vectors hold anything
    after them.)"""
    params = [("ptr", "src"), ("ptr", "dst"), ("i64", "kc")] + [("ptr", "bufs")] * p.reads_sizes
    f = Function(name, params, target, "void", "internal")
    lanes = p.arith.lanes
    if columns is None:
        _pack_last(f, p, f.i64(p.tail))
    elif not p.transposed:
        _pack_rows(f, p, columns)
    elif p.arith.parts == 1:
        full = columns // lanes
        f.loop(0, full, 1, [], lambda v, _: _pack_columns(f, p, v, lanes))
        if columns % lanes:
            _pack_columns(f, p, f.i64(full), columns % lanes)
    else:
        _pack_scalars(f, p, columns)
    f.ret_()
    return f


def _pack_last(f: Function, p: Panels, columns: V) -> None:
    """A panel of a number of columns that is known when the code runs."""
    lanes = p.arith.lanes
    if not p.transposed:
        _pack_rows(f, p, columns)
        return
    if p.arith.parts != 1:
        _pack_scalars(f, p, columns)
        return

    def vec(v: V, _: list[V]) -> None:
        left = f.sub(columns, f.mul(v, f.i64(lanes)))
        f.when(f.cmp("sge", left, f.i64(lanes)), lambda: _pack_columns(f, p, v, lanes),
               lambda: _pack_columns(f, p, v, left))

    whole = f.binary("udiv", f.add(columns, f.i64(lanes - 1)), f.i64(lanes))
    f.loop(0, whole, 1, [], vec)


def _column(f: Function, p: Panels, at: V, column: int, valid: int | V) -> V:
    """Where a column begins: one that is there, for those after the last."""
    if isinstance(valid, int):
        return f.gep(at, column * p.n_stride)
    there = f.intrinsic("smin", "i64", f.i64(column), f.sub(valid, f.i64(1)))
    return f.gep(at, f.mul(there, f.i64(p.n_stride)))


def _pack_rows(f: Function, p: Panels, columns: int | V) -> None:
    """B stored `[k][n]`: copy vectors, k by k."""
    lanes = p.arith.lanes
    width = columns if isinstance(columns, int) else p.width

    def count(at: int) -> int | V:
        if isinstance(columns, int):
            return min(lanes, columns - at)
        return f.sub(columns, f.i64(at))

    def row(k: V, _: list[V]) -> None:
        src = f.gep(f.arg("src"), f.mul(k, f.i64(p.k_stride)))
        dst = f.gep(f.arg("dst"), f.mul(k, f.i64(p.k_bytes)))
        loads = [
            p.arith.load(f, f.gep(src, at * p.n_stride), lanes, count(at))
            for at in range(0, width, lanes)
        ]
        for v, parts in enumerate(loads):
            _store_parts(f, p, dst, parts, v * lanes)

    f.loop(0, f.arg("kc"), 1, [], row)


def _store_parts(f: Function, p: Panels, dst: V, parts: list[V], column: int) -> None:
    size = p.arith.acc_size
    for i, part in enumerate(parts):
        f.store(part, f.gep(dst, (i * p.width + column) * size), f.target.vector_bytes)


def _pack_columns(f: Function, p: Panels, vec: V, valid: int | V) -> None:
    """B stored `[n][k]`: `valid` columns of one vector, by transposed squares over k.

    The last square overlaps the one before it (and writes the same values again), so that only
    blocks of fewer than L rows go element by element.
    """
    lanes, size = p.arith.lanes, p.arith.acc_size
    src = f.gep(f.arg("src"), f.mul(vec, f.i64(lanes * p.n_stride)))
    dst = f.gep(f.arg("dst"), f.mul(vec, f.i64(lanes * size)))
    kc = f.arg("kc")
    last = f.sub(kc, f.i64(lanes))

    def square(i: V, _: list[V]) -> None:
        k = f.intrinsic("smin", "i64", i, last)
        at = f.gep(src, f.mul(k, f.i64(p.k_stride)))
        count = valid if isinstance(valid, int) else lanes
        rows = [p.arith.load(f, _column(f, p, at, c, valid), lanes)[0] for c in range(count)]
        rows += [f.zero(rows[0].ty)] * (lanes - count)
        to = f.gep(dst, f.mul(k, f.i64(p.k_bytes)))
        for i_, v in enumerate(transpose(f, rows)):
            f.store(v, f.gep(to, i_ * p.k_bytes), f.target.vector_bytes)

    def short() -> None:
        _pack_short(f, p, src, dst, valid)

    f.when(f.cmp("sge", kc, f.i64(lanes)), lambda: f.loop(0, kc, lanes, [], square), short)


def _pack_short(f: Function, p: Panels, src: V, dst: V, valid: int | V) -> None:
    """Fewer k than lanes: one vector per k, gathered lane by lane."""
    arith = p.arith

    def row(k: V, _: list[V]) -> None:
        to = f.gep(dst, f.mul(k, f.i64(p.k_bytes)))
        at = f.gep(src, f.mul(k, f.i64(p.k_stride)))
        v = arith.zero(f, arith.lanes)[0]
        for c in range(valid if isinstance(valid, int) else arith.lanes):
            v = f.insert(v, arith.load(f, _column(f, p, at, c, valid), 1)[0], c)
        f.store(v, to, f.target.vector_bytes)

    f.loop(0, f.arg("kc"), 1, [], row)


def _pack_scalars(f: Function, p: Panels, columns: int | V) -> None:
    """Complex B stored `[n][k]`: element by element, zeros after the last of known columns."""
    padded = columns
    if isinstance(columns, int):
        padded = ceil_div(columns, p.arith.lanes) * p.arith.lanes

    def write(k: V, c: V, parts: list[V]) -> None:
        at = f.add(f.mul(k, f.i64(p.k_bytes)), f.mul(c, f.i64(p.arith.acc_size)))
        for i, part in enumerate(parts):
            f.store(part, f.gep(f.gep(f.arg("dst"), at), i * p.width * p.arith.acc_size))

    def row(k: V, _: list[V]) -> None:
        def copy(c: V, _: list[V]) -> None:
            at = f.add(f.mul(k, f.i64(p.k_stride)), f.mul(c, f.i64(p.n_stride)))
            write(k, c, p.arith.load(f, f.gep(f.arg("src"), at), 1))

        f.loop(0, columns, 1, [], copy)
        f.loop(columns, padded, 1, [], lambda c, _: write(k, c, p.arith.zero(f, 1)))

    f.loop(0, f.arg("kc"), 1, [], row)


# --- blocks of A --------------------------------------------------------------------------------


def block_copier(name: str, arith: Arith, src_pitch: int, dst_pitch: int,
                 target: Target) -> Function:
    """`void name(ptr src, ptr dst, i64 rows, i64 cols)`: copy rows of stored scalars, widened.

    `cols` counts scalars (two per complex element); pitches are bytes.
    """
    params = [("ptr", "src"), ("ptr", "dst"), ("i64", "rows"), ("i64", "cols")]
    f = Function(name, params, target, "void", "internal")
    lanes, size = arith.lanes, sizeof(arith.storage)
    cols = f.arg("cols")
    whole = f.binary("and", cols, f.i64(-lanes))

    def row(r: V, _: list[V]) -> None:
        src = f.gep(f.arg("src"), f.mul(r, f.i64(src_pitch)))
        dst = f.gep(f.arg("dst"), f.mul(r, f.i64(dst_pitch)))

        def move(count: int, c: V) -> None:
            ty = arith.storage if count == 1 else f"<{count} x {arith.storage}>"
            value = arith.widen(f, f.load(ty, f.gep(src, f.mul(c, f.i64(size)))))
            f.store(value, f.gep(dst, f.mul(c, f.i64(arith.acc_size))))

        f.loop(0, whole, lanes, [], lambda c, _: move(lanes, c))
        f.loop(whole, cols, 1, [], lambda c, _: move(1, c))

    f.loop(0, f.arg("rows"), 1, [], row)
    f.ret_()
    return f
