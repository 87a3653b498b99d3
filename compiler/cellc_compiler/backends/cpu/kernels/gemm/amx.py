"""Matrix products of bfloat16 in AMX's tile registers (target `x86_64-amx`).

A tile register holds 16 rows of 64 bytes. `tdpbf16ps` adds to 16 x 16 float32 sums the products of
16 rows of 32 elements of A and 16 columns of as many of B, in pairs of k: sixteen times what the
FMA units do in that time. Its sums are float32, but in an order of its own and without subnormal
numbers, so the bits differ from the chain of `gemm`: a target of its own, which
`numerics="fast"` chooses.

Both operands are packed, in the order in which their tiles are read: panels of 32 rows of A, as
`[k / 32][2][16 rows][32]`, and of 32 columns of B, in pairs of k, as `[k / 32][2][16 pairs][16
columns][2]`; zeros where the matrix ends. (Read in place, the rows of a tile lie in few sets of the
first-level cache, and a product takes three times as long.) Four accumulators of a panel of each
take two tiles of A and two of B for every 32 k. Source: Intel, "Architecture Instruction Set
Extensions Programming Reference", 2023, chapter 3.
"""

from __future__ import annotations

from collections.abc import Callable

from cellc_runtime.records import dataclass
from cellc_runtime.target import Target

from .....lower.kernel import Kernel
from ....llvm.text import Function, V, kernel_function, module
from .arith import Arith, load_part
from .pack import ceil_div, transpose, with_tail
from .plan import Problem
from .tile import OUT_BUFFER, Epilogue, TileLayout, store_result

_ROWS = 16  # Rows of a tile register
_DEEP = 32  # k of a tile of A or B
_SIDE = 32  # Rows of A or columns of B of a panel: rows and columns of four accumulators
_TILE_BYTES = 1024
_BLOCK_BYTES = 1 << 20
"""Packed A of a task at most: it stays in the second-level cache while panels of B pass by."""
_TASK_CYCLES = 40_000.0
_MOST_TASKS = 64
_STEP_CYCLES = 96.0  # Cycles of four products of tiles, and of loading theirs
_STORE_CYCLES = 600.0


def fits(p: Problem, arith: Arith, target: Target) -> bool:
    """Whether a product is for tile registers: of bfloat16, and no single row or column."""
    return (target.tiles and arith.dtype.name == "bfloat16" and not p.swapped
            and p.m >= 2 and p.n >= 2 and p.k >= 2 and not p.b_pitch)


def packed_bytes(p: Problem, side: int) -> int:
    """Bytes of a packed matrix of A (side 0) or B (side 1)."""
    return ceil_div((p.m, p.n)[side], _SIDE) * _panel_bytes(p)


def matrices(p: Problem, side: int) -> int:
    """Distinct matrices of A or B."""
    strides = (p.a_strides, p.b_strides)[side]
    return 1 + sum((d - 1) * s for d, s in zip(p.batch, strides, strict=True))


def _panel_bytes(p: Problem) -> int:
    return ceil_div(p.k, _DEEP) * 2 * _TILE_BYTES


# --- packing ------------------------------------------------------------------------------------


def pack_kernel(p: Problem, side: int, target: Target) -> Kernel:
    """Kernel over (A or B, packed): a panel of a matrix is a task."""
    f, (source, packed) = kernel_function(target, 2)
    size = (p.m, p.n)[side]
    panels = ceil_div(size, _SIDE)
    writer = _Packer(f, p.k, size, (not p.trans_a, p.trans_b)[side], side == 1)

    def task(t: V, _: list[V]) -> None:
        matrix, panel = f.binary("udiv", t, f.i64(panels)), f.binary("urem", t, f.i64(panels))
        src = f.gep(source, f.mul(matrix, f.i64(p.k * size * 2)))
        dst = f.gep(packed, f.mul(t, f.i64(_panel_bytes(p))))
        full, last = divmod(size, _SIDE)
        if not last:
            writer.panel(src, dst, panel, _SIDE)
        else:
            f.when(f.cmp("eq", panel, f.i64(full)),
                   lambda: writer.panel(src, dst, panel, last),
                   (lambda: writer.panel(src, dst, panel, _SIDE)) if full else None)

    f.loop(f.arg("lo"), f.arg("hi"), 1, [], task)
    f.ret_()
    count = matrices(p, side)
    return Kernel(module([f]), count * panels, 2, count * p.k * size * 0.3)


@dataclass(frozen=True, slots=True)
class _Packer:
    """Writes the packing of panels."""

    f: Function
    # k, size: length of the reduced axis and of the other
    k: int
    size: int
    deep: bool  # whether the reduced axis is the contiguous one
    pairs: bool  # whether tiles hold pairs of k of 16 columns (B), not rows of 32 k (A)

    def panel(self, src: V, dst: V, panel: V, count: int) -> None:
        """Pack one panel of `count` rows or columns."""
        f = self.f
        first = f.mul(panel, f.i64(_SIDE))
        whole = self.k // _DEEP * _DEEP

        def block(k: V, deep: int) -> None:
            to = f.gep(dst, f.mul(k, f.i64(2 * _TILE_BYTES // _DEEP)))
            for half in range(2):
                here = max(0, min(_ROWS, count - half * _ROWS))
                at = f.add(first, f.i64(half * _ROWS))
                rows = (self._lines if self.deep else self._woven)(src, at, k, here, deep)
                if self.deep == self.pairs:
                    rows = transpose(f, rows)
                for r, row in enumerate(rows):
                    f.store(row, f.gep(to, half * _TILE_BYTES + r * 64), 64)

        f.loop(0, whole, _DEEP, [], lambda k, _: block(k, _DEEP))
        if self.k > whole:
            block(f.i64(whole), self.k - whole)

    def _lines(self, src: V, at: V, k: V, count: int, deep: int) -> list[V]:
        """16 rows of 16 pairs of k, of a matrix that has k contiguous."""
        f = self.f
        first = f.gep(src, f.mul(f.add(f.mul(at, f.i64(self.k)), k), f.i64(2)))
        rows = []
        for r in range(_ROWS):
            if r < count:
                row = load_part(f, "<32 x i16>", f.gep(first, r * self.k * 2), deep)
                rows.append(f.emit("<16 x i32>", f"bitcast {row} to <16 x i32>"))
            else:
                rows.append(f.zero("<16 x i32>"))
        return rows

    def _woven(self, src: V, at: V, k: V, count: int, deep: int) -> list[V]:
        """16 pairs of k, each of 16 neighbours on the other axis, which is contiguous."""
        f = self.f
        first = f.gep(src, f.mul(f.add(f.mul(k, f.i64(self.size)), at), f.i64(2)))
        weave = [lane for i in range(_ROWS) for lane in (i, _ROWS + i)]

        def row(i: int) -> V:
            if i >= deep or not count:
                return f.zero("<16 x i16>")
            return load_part(f, "<16 x i16>", f.gep(first, i * self.size * 2), count)

        woven = [f.shuffle(row(2 * i), row(2 * i + 1), weave) for i in range(_DEEP // 2)]
        return [f.emit("<16 x i32>", f"bitcast {v} to <16 x i32>") for v in woven]


# --- the product ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Grid:
    """How a product is shared out: panels of A and of B in groups, one of each to a task."""

    row_groups: int
    col_groups: int
    cycles: float

    @classmethod
    def of(cls, p: Problem) -> _Grid:
        """From the shape alone."""
        rows, columns = ceil_div(p.m, _SIDE), ceil_div(p.n, _SIDE)
        cycles = p.matrices * rows * columns * (ceil_div(p.k, _DEEP) * _STEP_CYCLES + _STORE_CYCLES)
        row_groups = ceil_div(rows, max(1, _BLOCK_BYTES // _panel_bytes(p)))
        wanted = min(_MOST_TASKS, int(cycles / _TASK_CYCLES))
        col_groups = max(1, min(columns, wanted // (row_groups * p.matrices)))
        return cls(row_groups, col_groups, cycles)


class TilesWriter:
    """Writes the kernel of one product; see the module."""

    def __init__(self, p: Problem, arith: Arith, target: Target, epilogue: Epilogue | None,
                 buffers: int) -> None:
        self.p, self.arith, self.buffers = p, arith, buffers
        self.grid = _Grid.of(p)
        self.layout = TileLayout(arith, target, 0, 0, 0, 0, True, p.n, False, False, 0, 1, epilogue)
        self.f, _ = kernel_function(target)
        self.stack = self.f.alloca(_SIDE * _SIDE * 4)

    def kernel(self, matrix_of: Callable[[Function, V, int], V]) -> Kernel:
        """The kernel over (packed A, packed B, out, ...).

        Args:
            matrix_of: `(f, matrix, side)`: the matrix of A or B that one of the output reads.
        """
        f, p, g = self.f, self.p, self.grid
        bases = [f.load("ptr", f.gep(f.arg("bufs"), i, "ptr")) for i in range(2)]
        self.out = f.load("ptr", f.gep(f.arg("bufs"), OUT_BUFFER, "ptr"))
        self._do("ldtilecfg", "ptr @SHAPE")

        def task(t: V, _: list[V]) -> None:
            rest, cols = _divided(f, t, g.col_groups)
            matrix, rows = _divided(f, rest, g.row_groups)
            a, b = (f.gep(base, f.mul(matrix_of(f, matrix, side), f.i64(packed_bytes(p, side))))
                    for side, base in enumerate(bases))
            self._panels(b, _share(f, cols, g.col_groups, ceil_div(p.n, _SIDE)), lambda b, j, n: (
                self._column(a, b, _share(f, rows, g.row_groups, ceil_div(p.m, _SIDE)),
                             f.mul(matrix, f.i64(p.m)), j, n)))

        f.loop(f.arg("lo"), f.arg("hi"), 1, [], task)
        self._do("tilerelease")
        f.ret_()
        shape = f'@SHAPE = private unnamed_addr constant [64 x i8] c"{_SHAPE}", align 64\n'
        ntasks = p.matrices * g.row_groups * g.col_groups
        return Kernel(module([f], shape), ntasks, self.buffers, g.cycles)

    def _panels(self, b: V, span: tuple[V, V], body: Callable[[V, V, int], None]) -> None:
        """`body(packed panel, its number, its columns)` for the panels of B of a task."""
        f, p = self.f, self.p
        full, last = divmod(p.n, _SIDE)

        def one(j: V, columns: int) -> None:
            body(f.gep(b, f.mul(j, f.i64(_panel_bytes(p)))), j, columns)

        with_tail(f, span, full, last, lambda j: one(j, _SIDE), lambda: one(f.i64(full), last))

    def _column(self, a: V, b: V, rows: tuple[V, V], first: V, panel: V, columns: int) -> None:
        """A panel of B with panels `rows` of A; row `first` is that of the matrix."""
        f, p = self.f, self.p

        def block(i: V, _: list[V]) -> None:
            row = f.mul(i, f.i64(_SIDE))
            self._block(f.gep(a, f.mul(i, f.i64(_panel_bytes(p)))), b, columns)
            left = f.sub(f.i64(p.m), row)
            count = f.i64(_SIDE) if p.m % _SIDE == 0 else f.intrinsic(
                "smin", "i64", left, f.i64(_SIDE))
            self._finish(f.add(first, row), panel, count, columns)

        f.loop(rows[0], rows[1], 1, [], block)

    def _block(self, a: V, b: V, columns: int) -> None:
        """The sums of a panel of each, to the stack."""
        f = self.f
        wide = range(2 if columns > _ROWS else 1)
        tall = range(2 if self.p.m > _ROWS else 1)
        for r in tall:
            for c in wide:
                self._do("tilezero", f"i8 {2 * r + c}")

        def step(at: V, _: list[V]) -> None:
            x, y = f.gep(a, at), f.gep(b, at)
            for r in tall:
                self._load(4 + r, f.gep(x, r * _TILE_BYTES))
            for c in wide:
                self._load(6 + c, f.gep(y, c * _TILE_BYTES))
            for r in tall:
                for c in wide:
                    self._do("tdpbf16ps", f"i8 {2 * r + c}", f"i8 {4 + r}", f"i8 {6 + c}")

        f.loop(0, _panel_bytes(self.p), 2 * _TILE_BYTES, [], step)
        for r in tall:
            for c in wide:
                place = f.gep(self.stack, r * _ROWS * 128 + c * 64)
                self._do("tilestored64", f"i8 {2 * r + c}", str(place), "i64 128")

    def _finish(self, row: V, panel: V, rows: V, columns: int) -> None:
        """Epilogue, rounding and stores of the sums on the stack."""
        f, p, size = self.f, self.p, self.arith.out.itemsize
        col = f.mul(panel, f.i64(_SIDE))

        def one(r: V, _: list[V]) -> None:
            here = f.add(row, r)
            line = f.gep(self.stack, f.mul(r, f.i64(128)))
            flat = f.add(f.mul(here, f.i64(p.n)), col)
            out = f.gep(self.out, f.mul(flat, f.i64(size)))
            for v in range(ceil_div(columns, _ROWS)):
                acc = f.load("<16 x float>", f.gep(line, v * 64), 64)
                store_result(f, self.layout, acc, f.gep(out, v * _ROWS * size), here,
                             f.add(col, f.i64(v * _ROWS)), min(_ROWS, columns - v * _ROWS))

        f.loop(0, rows, 1, [], one)

    # --- instructions ---------------------------------------------------------------------------

    def _do(self, name: str, *args: str) -> None:
        types = ", ".join("i8 immarg" if a.startswith("i8 ") else a.split()[0] for a in args)
        self.f.declares.add(f"declare void @llvm.x86.{name}({types})")
        self.f.line(f"call void @llvm.x86.{name}({', '.join(args)})")

    def _load(self, tile: int, ptr: V) -> None:
        self._do("tileloadd64", f"i8 {tile}", str(ptr), "i64 64")


def _divided(f: Function, value: V, by: int) -> tuple[V, V]:
    """Quotient and remainder."""
    if by == 1:
        return value, f.i64(0)
    return f.binary("udiv", value, f.i64(by)), f.binary("urem", value, f.i64(by))


def _share(f: Function, part: V, parts: int, total: int) -> tuple[V, V]:
    """Return the bounds of one of `parts` even parts."""
    if parts == 1:
        return f.i64(0), f.i64(total)
    start, stop = (f.binary("udiv", f.mul(f.add(part, f.i64(i)), f.i64(total)), f.i64(parts))
                   for i in range(2))
    return start, stop


_SHAPE = "".join(f"\\{byte:02X}" for byte in (
    1, *[0] * 15, *[64, 0] * 8, *[0] * 16, *[_ROWS] * 8, *[0] * 8))
"""The configuration of the tile registers: eight of 16 rows of 64 bytes, as an LLVM string."""
