"""Matrix products of bfloat16 in AMX's tile registers (target `x86_64-amx`).

A tile register holds 16 rows of 64 bytes. `tdpbf16ps` adds to 16 x 16 float32 sums the products of
16 rows of 32 elements of A and 16 columns of as many of B, in pairs of k: sixteen times what the
FMA units do in that time. Its sums are float32, but in an order of its own and without subnormal
numbers, so the bits differ from the chain of `gemm`: a target of its own, which
`numerics="fast"` chooses.

A task has a range of rows and of panels of B. A panel is 32 columns over all k, packed in pairs:
`[k / 32][2][16 pairs][16 columns][2]`, zeros where B ends. Four accumulators (32 rows, 32 columns)
take two tiles of A and two of B for each 32 k. A is read in place; where k is no multiple of 32 its
last columns are copied and padded once for the rows of a task. Source: Intel, "Architecture
Instruction Set Extensions Programming Reference", 2023, chapter 3.
"""

from __future__ import annotations

from collections.abc import Callable

from cellc_compiler.codegen.kernel import PLACEHOLDER, Kernel
from cellc_compiler.codegen.llvm.kernels.gemm_arith import Arith, load_part
from cellc_compiler.codegen.llvm.kernels.gemm_pack import ceil_div, transpose
from cellc_compiler.codegen.llvm.kernels.gemm_plan import Problem
from cellc_compiler.codegen.llvm.kernels.gemm_tile import (
    OUT_BUFFER,
    Epilogue,
    TileLayout,
    store_result,
)
from cellc_compiler.codegen.llvm.text import Function, V, module
from cellc_runtime.records import dataclass
from cellc_runtime.target import Target

_ROWS = 16
"""Rows of a tile register."""
_DEEP = 32
"""k of a tile of A or B."""
_SIDE = 32
"""Rows and columns of four accumulators."""
_TILE_BYTES = 1024
_BLOCK_ROWS = 256
"""Rows of a task at most: A's stay in the second-level cache while panels pass by."""
_TASK_CYCLES = 40_000.0
_MOST_TASKS = 64
_STEP_CYCLES = 64.0
"""Cycles of four products of tiles."""
_STORE_CYCLES = 256.0


def fits(p: Problem, arith: Arith, target: Target) -> bool:
    """Whether a product is for tile registers: bfloat16, A stored by rows, no single row or column.
    """
    return (target.tiles and arith.dtype.name == "bfloat16" and not p.trans_a and not p.swapped
            and p.m >= 2 and p.n >= 2 and p.k >= 2)


def packed_bytes(p: Problem) -> int:
    """Bytes of a packed matrix of B."""
    return ceil_div(p.n, _SIDE) * _panel_bytes(p)


def _panel_bytes(p: Problem) -> int:
    return ceil_div(p.k, _DEEP) * 2 * _TILE_BYTES


# --- B ------------------------------------------------------------------------------------------


def pack_kernel(p: Problem, target: Target) -> Kernel:
    """Kernel over (B, packed B): a panel of a matrix is a task."""
    f = _entry(target)
    panels = ceil_div(p.n, _SIDE)
    source = f.load("ptr", f.arg("bufs"))
    packed = f.load("ptr", f.gep(f.arg("bufs"), 1, "ptr"))

    def task(t: V, _: list[V]) -> None:
        matrix, panel = f.binary("udiv", t, f.i64(panels)), f.binary("urem", t, f.i64(panels))
        src = f.gep(source, f.mul(matrix, f.i64(p.k * p.n * 2)))
        dst = f.gep(packed, f.mul(t, f.i64(_panel_bytes(p))))
        full = p.n // _SIDE
        last = p.n % _SIDE
        if not last:
            _pack_panel(f, p, src, dst, panel, _SIDE)
        else:
            f.when(f.cmp("eq", panel, f.i64(full)),
                   lambda: _pack_panel(f, p, src, dst, panel, last),
                   (lambda: _pack_panel(f, p, src, dst, panel, _SIDE)) if full else None)

    f.loop(f.arg("lo"), f.arg("hi"), 1, [], task)
    f.ret_()
    cost = p.b_matrices * p.k * p.n * (0.4 if p.trans_b else 0.2)
    return Kernel(module([f]), p.b_matrices * panels, 2, cost)


def _pack_panel(f: Function, p: Problem, src: V, dst: V, panel: V, columns: int) -> None:
    """One panel, of so many columns of B."""
    column = f.mul(panel, f.i64(_SIDE))
    whole = p.k // _DEEP * _DEEP
    pack = _pack_columns if p.trans_b else _pack_rows

    def block(k: V, deep: int) -> None:
        to = f.gep(dst, f.mul(k, f.i64(2 * _TILE_BYTES // _DEEP)))
        for half in range(2):
            count = max(0, min(_ROWS, columns - half * _ROWS))
            at = f.add(column, f.i64(half * _ROWS))
            pack(f, p, src, f.gep(to, half * _TILE_BYTES), at, k, count, deep)

    f.loop(0, whole, _DEEP, [], lambda k, _: block(k, _DEEP))
    if p.k > whole:
        block(f.i64(whole), p.k - whole)


def _pack_columns(f: Function, p: Problem, src: V, dst: V, column: V, k: V, count: int,
                  deep: int) -> None:
    """A tile of B stored `[n][k]`: pairs of k lie together, so it is a transposition of pairs."""
    first = f.gep(src, f.mul(f.add(f.mul(column, f.i64(p.k)), k), f.i64(2)))
    rows = []
    for c in range(_ROWS):
        if c < count:
            row = load_part(f, "<32 x i16>", f.gep(first, c * p.k * 2), deep)
            rows.append(f.emit("<16 x i32>", f"bitcast {row} to <16 x i32>"))
        else:
            rows.append(f.zero("<16 x i32>"))
    for r, row in enumerate(transpose(f, rows)):
        f.store(row, f.gep(dst, r * 64), 64)


def _pack_rows(f: Function, p: Problem, src: V, dst: V, column: V, k: V, count: int,
               deep: int) -> None:
    """A tile of B stored `[k][n]`: two rows are woven into one of pairs."""
    first = f.gep(src, f.mul(f.add(f.mul(k, f.i64(p.n)), column), f.i64(2)))
    weave = [lane for i in range(_ROWS) for lane in (i, _ROWS + i)]
    ty = "<16 x i16>"

    def row(i: int) -> V:
        if i >= deep or not count:
            return f.zero(ty)
        return load_part(f, ty, f.gep(first, i * p.n * 2), count)

    for pair in range(_DEEP // 2):
        woven = f.shuffle(row(2 * pair), row(2 * pair + 1), weave)
        f.store(woven, f.gep(dst, pair * 64), 64)


# --- the product ---------------------------------------------------------------------------------


def _entry(target: Target) -> Function:
    return Function(PLACEHOLDER, [("ptr", "bufs"), ("i64", "lo"), ("i64", "hi")], target)


@dataclass(frozen=True, slots=True)
class _Grid:
    """How a product is shared out: rows in blocks, panels in groups, one of each to a task."""

    row_groups: int
    col_groups: int
    cycles: float

    @classmethod
    def of(cls, p: Problem) -> _Grid:
        """From the shape alone."""
        blocks, panels = ceil_div(p.m, _SIDE), ceil_div(p.n, _SIDE)
        cycles = blocks * panels * (ceil_div(p.k, _DEEP) * _STEP_CYCLES + 4 * _STORE_CYCLES)
        row_groups = ceil_div(p.m, _BLOCK_ROWS)
        wanted = min(_MOST_TASKS, int(p.matrices * cycles / _TASK_CYCLES))
        col_groups = max(1, min(panels, wanted // (row_groups * p.matrices)))
        return cls(row_groups, col_groups, cycles * p.matrices)


class TilesWriter:
    """Writes the kernel of one product; see the module."""

    def __init__(self, p: Problem, arith: Arith, target: Target, epilogue: Epilogue | None,
                 buffers: int) -> None:
        self.p, self.arith, self.target, self.buffers = p, arith, target, buffers
        self.grid = _Grid.of(p)
        self.layout = TileLayout(arith, target, 0, 0, 0, 0, True, p.n, False, False, 0, 1, epilogue)
        self.f = _entry(target)
        self.shapes: dict[tuple[int, int], str] = {}
        self.stack = self.f.alloca(_SIDE * _SIDE * 4)
        self.tail = p.k % _DEEP
        self.rest = self.f.alloca(min(_BLOCK_ROWS, p.m) * 64) if self.tail else None

    def kernel(self, matrix_of: Callable[[Function, V, bool], V]) -> Kernel:
        """The kernel over (A, packed B, out, ...).

        Args:
            matrix_of: `(f, matrix, of_b)`: the matrix of an operand that one of the output reads.
        """
        f, p, g = self.f, self.p, self.grid
        self.a, self.b, self.out = (f.load("ptr", f.gep(f.arg("bufs"), i, "ptr"))
                                    for i in (0, 1, OUT_BUFFER))
        panels = ceil_div(p.n, _SIDE)

        def task(t: V, _: list[V]) -> None:
            rest, cols = f.binary("udiv", t, f.i64(g.col_groups)), f.binary(
                "urem", t, f.i64(g.col_groups))
            matrix = f.binary("udiv", rest, f.i64(g.row_groups))
            first = f.mul(f.binary("urem", rest, f.i64(g.row_groups)), f.i64(_BLOCK_ROWS))
            span = [f.binary("udiv", f.mul(f.add(cols, f.i64(i)), f.i64(panels)),
                             f.i64(g.col_groups)) for i in range(2)]
            a = f.gep(self.a, f.mul(f.add(f.mul(matrix_of(f, matrix, False), f.i64(p.m)), first),
                                    f.i64(p.k * 2)))
            b = f.gep(self.b, f.mul(matrix_of(f, matrix, True), f.i64(packed_bytes(p))))
            self._rows(a, b, f.mul(matrix, f.i64(p.m)), first, (span[0], span[1]))

        f.loop(f.arg("lo"), f.arg("hi"), 1, [], task)
        self._do("tilerelease")
        f.ret_()
        body = module([f], "".join(f"@{name} = private unnamed_addr constant [64 x i8] "
                                   f'c"{_shape(*rows)}", align 64\n'
                                   for rows, name in self.shapes.items()))
        ntasks = p.matrices * g.row_groups * g.col_groups
        return Kernel(body, ntasks, self.buffers, g.cycles)

    def _rows(self, a: V, b: V, base: V, first: V, span: tuple[V, V]) -> None:
        """The rows of a task from `first` on: blocks of 32, then what is left of the matrix."""
        f, p = self.f, self.p
        last = f.intrinsic("smin", "i64", f.add(first, f.i64(_BLOCK_ROWS)), f.i64(p.m))
        count = f.sub(last, first)
        if self.rest is not None:
            self._copy_rest(a, count)
        whole = f.binary("and", count, f.i64(-_SIDE))
        if p.m >= _SIDE:
            self._configure(_ROWS, _ROWS)
            self._panels(b, span, lambda b, j, columns: f.loop(
                0, whole, _SIDE, [], lambda i, _: self._block(
                    a, b, i, f.add(base, f.add(first, i)), j, (_ROWS, _ROWS), columns)))
        left = p.m % _SIDE
        if left:
            rows = min(left, _ROWS), max(0, left - _ROWS)

            def short() -> None:
                self._configure(*rows)
                self._panels(b, span, lambda b, j, columns: self._block(
                    a, b, whole, f.add(base, f.add(first, whole)), j, rows, columns))

            f.when(f.cmp("slt", whole, count), short)

    def _panels(self, b: V, span: tuple[V, V], body: Callable[[V, V, int], object]) -> None:
        """`body(packed panel, its number, its columns)` for the panels of a task."""
        f, p = self.f, self.p
        full, last = divmod(p.n, _SIDE)

        def one(j: V, columns: int) -> None:
            body(f.gep(b, f.mul(j, f.i64(_panel_bytes(p)))), j, columns)

        stop = f.intrinsic("smin", "i64", span[1], f.i64(full)) if last else span[1]
        if full:
            f.loop(span[0], stop, 1, [], lambda j, _: one(j, _SIDE))
        if last:
            f.when(f.cmp("sgt", span[1], f.i64(full)), lambda: one(f.i64(full), last))

    def _copy_rest(self, a: V, count: V) -> None:
        """The last columns of A's rows, padded with zeros to a whole tile."""
        f, p, rest = self.f, self.p, self.rest
        assert rest is not None
        start = f.gep(a, (p.k - self.tail) * 2)

        def row(i: V, _: list[V]) -> None:
            value = load_part(f, "<32 x i16>", f.gep(start, f.mul(i, f.i64(p.k * 2))), self.tail)
            f.store(value, f.gep(rest, f.mul(i, f.i64(64))), 64)

        f.loop(0, count, 1, [], row)

    def _block(self, a: V, b: V, i: V, row: V, panel: V, rows: tuple[int, int],
               columns: int) -> None:
        """Four accumulators: `rows` of A from `i` on by the columns of a panel."""
        f, p = self.f, self.p
        wide = 2 if columns > _ROWS else 1
        tall = 2 if rows[1] else 1
        for r in range(tall):
            for c in range(wide):
                self._do("tilezero", f"i8 {2 * r + c}")
        whole = p.k // _DEEP * _DEEP
        start = f.gep(a, f.mul(i, f.i64(p.k * 2)))

        def step(x: V, pitch: int, y: V) -> None:
            for r in range(tall):
                self._load(4 + r, f.gep(x, r * _ROWS * pitch), pitch)
            for c in range(wide):
                self._load(6 + c, f.gep(y, c * _TILE_BYTES), 64)
            for r in range(tall):
                for c in range(wide):
                    self._do("tdpbf16ps", f"i8 {2 * r + c}", f"i8 {4 + r}", f"i8 {6 + c}")

        f.loop(0, whole, _DEEP, [], lambda k, _: step(
            f.gep(start, f.mul(k, f.i64(2))), p.k * 2,
            f.gep(b, f.mul(k, f.i64(2 * _TILE_BYTES // _DEEP)))))
        if self.rest is not None:
            step(f.gep(self.rest, f.mul(i, f.i64(64))), 64,
                 f.gep(b, whole * 2 * _TILE_BYTES // _DEEP))
        for r in range(tall):
            for c in range(wide):
                self._store(2 * r + c, f.gep(self.stack, r * _ROWS * 128 + c * 64))
        self._finish(row, panel, rows[0] + rows[1], columns)

    def _finish(self, row: V, panel: V, rows: int, columns: int) -> None:
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

    def _load(self, tile: int, ptr: V, pitch: int) -> None:
        self._do("tileloadd64", f"i8 {tile}", str(ptr), f"i64 {pitch}")

    def _store(self, tile: int, ptr: V) -> None:
        self._do("tilestored64", f"i8 {tile}", str(ptr), "i64 128")

    def _configure(self, upper: int, lower: int) -> None:
        """Rows of the tiles of A and of the accumulators; it clears all tiles."""
        name = self.shapes.setdefault((upper, lower), f"shape{len(self.shapes)}")
        self._do("ldtilecfg", f"ptr @{name}")


def _shape(upper: int, lower: int) -> str:
    """The 64 bytes of a configuration as an LLVM string: bytes of a row and rows of each tile."""
    rows = [upper, upper, lower, lower, upper, lower, _ROWS, _ROWS]
    image = bytearray(64)
    image[0] = 1
    for tile, count in enumerate(rows):
        if count:
            image[16 + 2 * tile] = 64
            image[48 + tile] = count
    return "".join(f"\\{byte:02X}" for byte in image)
