"""Matrix products: from a `MatmulSpec` to the kernels that compute it.

    out[batch, i, j] = epilogue(sum over k of a[batch, i, k] * b[batch, k, j])

**Order of arithmetic** (`loops/order.py`). An element is one chain over k ascending, from 0:
`acc = fma(a, b, acc)` (see `gemm/arith.py` for the other element types), or the sum of one per
segment, whatever the tile, the blocking and the packing. A product of one column whose operands are
both stored along k is reduced along k (`gemm/dot.py`; k at least its chains; not complex).

**Blocking.** After Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication"
(2008): register tiles of rows x vectors (`gemm/tile.py`), panels of B packed once (`gemm/pack.py`),
blocks of A in the second-level cache. A and B are read in place where packing does not pay.
`gemm/plan.py` chooses.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from cellc_runtime.dtypes import DType
from cellc_runtime.packing import Packing
from cellc_runtime.records import dataclass, replace
from cellc_runtime.target import Target

from .....ir.dims import Undecided, estimate, is_symbolic
from .....loops.order import CHAIN_BYTES
from .....lower.kernel import Kernel
from .....lower.plan import Role, epilogue_operand, packed
from ....llvm.text import Function, V, is_float, kernel_function, module
from ..gemm import amx as gemm_tiles
from ..vectors import Plan
from .arith import Arith
from .dot import dot_function, rows_together
from .pack import LINE, Panels, block_copier, ceil_div, panel_packer, with_tail
from .plan import (
    UNROLL,
    Problem,
    Schedule,
    block_bytes,
    canonical,
    is_widened,
    join_rows,
    panel_bytes,
    schedule,
    streaming_cycles,
)
from .tile import OUT_BUFFER, Prefetch, TileLayout, square_steps, tile_function
from .tile import (
    Epilogue as Epilogue,
)
from .widened import wide_type, widened


@dataclass(frozen=True, slots=True)
class MatmulSpec:
    """A matrix product."""

    m: int  # rows of each output matrix
    n: int  # columns of each output matrix
    k: int  # length of the reduced axis
    dtype: DType  # element type of both inputs
    batch: tuple[int, ...] = ()  # leading dimensions of the output
    # matrices of A per step of each batch dimension, 0 where A is broadcast
    a_batch_strides: tuple[int, ...] = ()
    b_batch_strides: tuple[int, ...] = ()  # the same of B
    trans_a: bool = False  # A's matrices are stored `[k][m]`
    trans_b: bool = False  # B's matrices are stored `[n][k]`
    out_dtype: DType | None = None  # element type of the output; None for `dtype`
    epilogue: Epilogue | None = None  # applied to accumulators before the store
    segment: int = 0  # k per segment of a chain; 0 if there is one
    # B will not change from call to call, so packing it is worth it even once; never changes a
    # result
    b_constant: bool = False
    b_pitch: int = 0  # elements from one matrix of B to the next; 0: they lie one after the other
    stored: DType | None = None  # element type of B in memory, if that is narrower than `dtype`

    def __post_init__(self) -> None:
        """Raises ValueError for negative sizes or strides that do not match the batch."""
        if any(type(d) is int and d < 0 for d in (self.m, self.n, self.k, *self.batch)):
            raise ValueError(f"matmul sizes must not be negative: {self}")
        if not len(self.batch) == len(self.a_batch_strides) == len(self.b_batch_strides):
            raise ValueError(f"matmul needs one stride of A and of B per batch dimension: {self}")


def matmul_kernels(spec: MatmulSpec, target: Target) -> Plan:
    """The kernels of a matrix product on a target.

    Roles are `a`, `b`, `out`, `accumulator`, operands of the epilogue and `b` packed (`a` when the
    product is computed transposed). A step that packs reads one input only and can be done ahead
    of time.

    Raises:
        TypeError: dtypes without a product (see `Arith.of`).
    """
    arith = Arith.of(spec.dtype, spec.out_dtype or spec.dtype, target, spec.stored)
    p = problem_of(spec)
    if spec.b_pitch:
        p = join_rows(p)
    assert not (p.swapped and spec.stored), "only B is widened"
    if 0 in (p.m, p.n, p.matrices):
        return Plan()
    if spec.n == 1 and p.is_dot and p.k >= CHAIN_BYTES // arith.acc_size and arith.parts == 1:
        return _DotWriter(p, arith, target, spec.epilogue).plan()
    if gemm_tiles.fits(p, arith, target):
        return _tiles_plan(p, arith, target, spec.epilogue)
    if is_widened(p, arith):
        return _widened_plan(spec, p, arith, target)
    s = schedule(p, arith, target, spec.b_constant)
    return GemmWriter(p, s, arith, target, spec.epilogue).plan()


def _widened_plan(spec: MatmulSpec, p: Problem, arith: Arith, target: Target) -> Plan:
    """The product of widened elements; B is widened where it is packed, unless the problem is the
    transposed one.

    Raises:
        Undecided: a part of a larger tensor is not widened.
    """
    if p.swapped and spec.b_pitch:
        raise Undecided("elements of a part of a tensor that are converted have a known size")
    inner = matmul_kernels(replace(
        spec, dtype=wide_type(arith), out_dtype=spec.out_dtype or spec.dtype,
        stored=None if p.swapped else spec.stored or spec.dtype), target)
    sides = {"a": (spec.m, spec.a_batch_strides), "b": (spec.n, spec.b_batch_strides)}
    return widened(inner, {
        side: rows * spec.k * (1 + sum((d - 1) * s
                                       for d, s in zip(spec.batch, strides, strict=True)))
        for side, (rows, strides) in sides.items() if side == "a" or p.swapped}, arith, target)


def _tiles_plan(p: Problem, arith: Arith, target: Target, epilogue: Epilogue | None) -> Plan:
    """Packing of both operands and the product, in tile registers."""
    first, second, *others = _roles(p, epilogue)
    writer = gemm_tiles.TilesWriter(p, arith, target, epilogue, 2 + len(others))
    kernel = writer.kernel(lambda f, matrix, side: _matrix(
        f, p, matrix, (p.a_strides, p.b_strides)[side]))
    plan = Plan()
    for side, role in enumerate((first, second)):
        packing = packed(str(role))
        plan.add(gemm_tiles.pack_kernel(p, side, target), role, packing)
        count = gemm_tiles.matrices(p, side)
        plan.scratch[packing] = count * gemm_tiles.packed_bytes(p, side)
    plan.add(kernel, packed("a"), packed("b"), *others)
    return plan


def problem_of(spec: MatmulSpec) -> Problem:
    """The canonical problem of a product."""
    return canonical(Problem(spec.batch, spec.a_batch_strides, spec.b_batch_strides, spec.m,
                             spec.n, spec.k, spec.trans_a, spec.trans_b, segment=spec.segment,
                             b_pitch=spec.b_pitch))


_DOT_TASKS = 64
_PACK_ROWS = 16  # Rows of B stored `[k][n]` that one task packs
_PACK_ELEMENTS = 16384  # Elements that one task packs


def _share(f: Function, index: V, parts: int, total: int) -> V:
    """Where part `index` of `parts` even parts of `total` begins."""
    if parts == total:
        return index
    return f.binary("udiv", f.mul(index, f.i64(total)), f.i64(parts))


def _matrix(f: Function, p: Problem, index: V, strides: tuple[int, ...]) -> V:
    """The operand's matrix that output matrix `index` reads."""
    at = f.i64(0)
    for d, s in zip(reversed(p.batch), reversed(strides), strict=True):
        if s:
            at = f.add(at, f.mul(f.binary("urem", index, f.i64(d)), f.i64(s)))
        index = f.binary("udiv", index, f.i64(d))
    return at


def _roles(p: Problem, epilogue: Epilogue | None) -> list[str | Role]:
    extra = map(epilogue_operand, range(epilogue.buffers if epilogue else 0))
    return [*(("b", "a") if p.swapped else ("a", "b")), "out", *extra]


class GemmWriter:
    """Writes the kernels of one scheduled problem."""

    def __init__(self, p: Problem, s: Schedule, arith: Arith, target: Target,
                 epilogue: Epilogue | None) -> None:
        self.p, self.s, self.arith, self.target = p, s, arith, target
        self.roles = _roles(p, epilogue)
        self.panels = Panels(arith.right, p.n, p.k, s.width, p.trans_b)
        self.blocks = ceil_div(p.k, s.kc)
        self.row_tiles = ceil_div(p.m, s.rows)
        self.block = (0, 0) if s.pack_a == "none" else block_bytes(
            p, arith, ceil_div(self.row_tiles, s.row_groups) * s.rows, s.kc)
        in_place = epilogue is not None and epilogue.in_place
        self.carries_in_out = arith.carries_in_out and not in_place
        self.layout = self._layout(epilogue)
        self.f, _ = kernel_function(target)
        self.prefix = ""
        self.stack_a: V | None = None
        self.stack_b: V | None = None
        self.helpers: dict[str, Function] = {}

    def _layout(self, epilogue: Epilogue | None) -> TileLayout:
        p, arith, packed = self.p, self.arith, self.s.pack_b != "none"
        size = arith.dtype.itemsize
        pitch, item = (p.m if p.trans_a else p.k) * size, size
        if self.s.pack_a == "local":
            pitch, item = self.block[1], arith.acc_size * arith.parts
        a_row, a_k = (item, pitch) if p.trans_a else (pitch, item)
        return TileLayout(
            arith, self.target, a_row, a_k,
            b_k=self.panels.k_bytes if packed else self.panels.k_stride,
            b_part=self.s.width * arith.acc_size,
            b_packed=packed,
            n=p.n,
            m_last=p.swapped,
            blocked=self.blocks > 1,
            carry=OUT_BUFFER if self.carries_in_out else len(self.roles),
            unroll=self._unroll(),
            epilogue=epilogue,
            prefetch=self._prefetch(),
            steps=estimate(self.s.kc) // self._unroll(),
            segment=p.segment,
            transposing=(self.panels.n_stride, p.k % square_steps(arith, p.segment))
            if self.s.transposing else None,
        )

    def _unroll(self) -> int:
        return UNROLL if self.target.vector_bytes > 16 and is_float(self.arith.acc) else 2

    def _prefetch(self) -> Prefetch | None:
        """Row tiles of one panel share the fetching of the next; few tiles leave it to the
        hardware, which follows long runs by itself. Short runs of a stored B `[k][n]` would
        push each other out of the cache where they are a page apart."""
        p, s, panels = self.p, self.s, self.panels
        if is_symbolic(p.k) or is_symbolic(p.n):
            return None
        tiles = estimate(ceil_div(self.row_tiles, s.row_groups))
        unroll = self._unroll()
        iterations = s.kc // unroll
        if tiles < 4 or not iterations or s.pack_b == "none":
            return None
        if s.pack_b == "shared":
            total = ceil_div(s.kc * panels.k_bytes, LINE)
            lines = ceil_div(ceil_div(total, tiles), iterations)
            return Prefetch(lines, LINE, lines * LINE, lines * iterations * LINE)
        if not p.trans_b:
            return None
        rows = ceil_div(s.width, tiles)
        advance = unroll * panels.arith.dtype.itemsize
        return Prefetch(rows, panels.n_stride, advance, rows * panels.n_stride)

    # --- the plan ---------------------------------------------------------------------------

    def plan(self) -> Plan:
        """All steps and the scratch they need."""
        plan = Plan()
        roles = list(self.roles)
        if self.s.pack_b == "shared":
            source, role = roles[1], packed(str(roles[1]))
            packer = PackWriter(self.p, self.panels, self.target)
            plan.scratch[role] = self.p.b_matrices * self.matrix_bytes()
            plan.add(packer.kernel(), source, role)
            layout = self._packing()
            if layout is not None:
                plan.packing[role] = layout
            roles[1] = role
        if self.blocks > 1 and not self.carries_in_out:
            roles.append("accumulator")
            elements = self.p.matrices * self.p.m * self.p.n
            plan.scratch["accumulator"] = elements * self.arith.acc_size * self.arith.parts
        self._write()
        body = module([*self.helpers.values(), self.f])
        kernel = Kernel(body, self.s.ntasks, len(roles), self.s.cycles)
        plan.add(kernel, *roles)
        return plan

    def _packing(self) -> Packing | None:
        """The layout of the packed B, unless its elements are widened or split."""
        arith, size = self.panels.arith, self.panels.arith.dtype.itemsize
        if arith.parts != 1 or arith.acc_size != size:
            return None
        p = self.p
        if not p.is_static:
            return None
        return Packing(p.b_matrices, p.n, p.k, self.panels.width, p.trans_b, size)

    def matrix_bytes(self) -> int:
        return self.panels.count * panel_bytes(self.arith, self.s.width, self.p.k)

    def _helper(self, name: str, make: Function) -> str:
        self.helpers[name] = make
        return name

    # --- the kernel -------------------------------------------------------------------------

    def _write(self) -> None:
        """Tasks, and in each its (matrix, row group, column group) units."""
        f, s = self.f, self.s
        self.load_operands()
        self.stack_a = f.alloca(self.block[0]) if s.pack_a == "local" else None
        size = panel_bytes(self.arith, s.width, s.kc)
        self.stack_b = f.alloca(size) if s.pack_b == "local" else None
        units = self.p.matrices * s.row_groups * s.col_groups
        lo = _share(f, f.arg("lo"), s.ntasks, units)
        hi = _share(f, f.arg("hi"), s.ntasks, units)
        f.loop(lo, hi, 1, [], lambda u, _: self._unit(u))
        f.ret_()

    def load_operands(self) -> None:
        """The base pointers of A and B."""
        f = self.f
        self.a, self.b = (f.load("ptr", f.gep(f.arg("bufs"), i, "ptr")) for i in range(2))

    def _unit(self, unit: V) -> None:
        """One unit: rows innermost, so that neighbouring units share panels of B."""
        f, s = self.f, self.s
        grid = s.row_groups * s.col_groups
        matrix = f.binary("udiv", unit, f.i64(grid)) if grid != 1 else unit
        rest = f.binary("urem", unit, f.i64(grid))
        row_group = f.binary("urem", rest, f.i64(s.row_groups))
        col_group = f.binary("udiv", rest, f.i64(s.row_groups))
        self.part(matrix, self._span(row_group, s.row_groups, self.row_tiles),
                  self._span(col_group, s.col_groups, self.panels.count))

    def part(self, matrix: V, rows: tuple[V, V], cols: tuple[V, V]) -> None:
        """Row tiles `rows` of the panels `cols` of one matrix of the output."""
        f, s, p = self.f, self.s, self.p
        size = self.arith.dtype.itemsize
        a_at = f.mul(_matrix(f, p, matrix, p.a_strides), f.i64((p.a_pitch or p.m * p.k) * size))
        b_index = _matrix(f, p, matrix, p.b_strides)
        shared = s.pack_b == "shared"
        b_at = f.mul(b_index, f.i64(
            self.matrix_bytes() if shared
            else (p.b_pitch or p.k * p.n) * self.panels.arith.dtype.itemsize))
        a, b = f.gep(self.a, a_at), f.gep(self.b, b_at)
        first_row = f.mul(matrix, f.i64(p.m))

        def block(i: V, _: list[V]) -> None:
            self._block(i, a, b, rows, cols, first_row)

        f.loop(0, max(1, self.blocks), 1, [], block)

    def _span(self, group: V, groups: int, total: int) -> tuple[V, V]:
        f = self.f
        if groups == 1:
            return f.i64(0), f.i64(total)
        return (_share(f, group, groups, total), _share(f, f.add(group, f.i64(1)), groups, total))

    def _block(self, index: V, a: V, b: V, rows: tuple[V, V], cols: tuple[V, V],
               first_row: V) -> None:
        """One block of k: copy A where wanted, then panel by panel."""
        f, p, s = self.f, self.p, self.s
        k0 = f.mul(index, f.i64(s.kc))
        kc = f.i64(p.k)
        if self.blocks > 1:
            kc = f.intrinsic("smin", "i64", f.i64(s.kc), f.sub(f.i64(p.k), k0))
        a = self._block_of_a(a, k0, kc, rows)
        flags = [f.cast("zext", f.cmp("eq", index, f.i64(i)), "i64")
                 for i in ((0, self.blocks - 1) if self.blocks > 1 else ())]

        def panel(j: V, columns: int, valid: V | None = None) -> None:
            ptr = self._panel_of_b(b, j, k0, kc, columns)
            col = f.mul(j, f.i64(s.width))
            after = [self._source_of_b(b, f.add(j, f.i64(1)), k0)] if self.layout.prefetch else []
            self._column(a, ptr, rows, first_row, col, columns, [kc, *flags], after, valid)

        full = p.n // s.width
        if is_symbolic(p.n):
            f.loop(cols[0], f.intrinsic("smin", "i64", cols[1], f.i64(full)), 1, [],
                   lambda j, _: panel(j, s.width))
            f.when(f.cmp("sgt", cols[1], f.i64(full)), lambda: self._last_columns(
                f.i64(self.panels.tail), functools.partial(panel, f.i64(full))))
            return
        with_tail(f, cols, full, self.panels.tail, lambda j: panel(j, s.width),
                        lambda: panel(f.i64(full), self.panels.tail))

    def _block_of_a(self, a: V, k0: V, kc: V, rows: tuple[V, V]) -> V:
        """Where row tile `rows[0]` of this block of A begins, less its own offset."""
        f, p, s, arith = self.f, self.p, self.s, self.arith
        size = arith.dtype.itemsize
        pitch = (p.m if p.trans_a else p.k) * size
        row_step, k_step = (size, pitch) if p.trans_a else (pitch, size)
        at = f.gep(a, f.mul(k0, f.i64(k_step)))
        first = f.mul(rows[0], f.i64(s.rows))
        if self.stack_a is None:
            return f.gep(at, f.mul(first, f.i64(row_step)))
        at = f.gep(at, f.mul(first, f.i64(row_step)))
        end = f.intrinsic("smin", "i64", f.mul(rows[1], f.i64(s.rows)), f.i64(p.m))
        count = f.sub(end, first)
        outer, inner = (kc, count) if p.trans_a else (count, kc)
        name = f"{self.prefix}copy_a"
        self._helper(name, block_copier(name, arith, pitch, self.block[1], self.target))
        f.call(name, "void", at, self.stack_a, outer, f.mul(inner, f.i64(arith.parts)))
        return self.stack_a

    def _panel_of_b(self, b: V, j: V, k0: V, kc: V, columns: int) -> V:
        """Where panel j of this block begins; packs it first where that is the task's job."""
        f = self.f
        src = self._source_of_b(b, j, k0)
        if self.stack_b is None:
            return src
        name = f"pack_{columns}"
        self._helper(name, panel_packer(name, self.panels, columns, self.target))
        f.call(name, "void", src, self.stack_b, kc, *self.panels.given(f))
        return self.stack_b

    def _source_of_b(self, b: V, j: V, k0: V) -> V:
        """Where panel j begins at k0, in the packed or the stored B."""
        f, s, panels = self.f, self.s, self.panels
        if s.pack_b == "shared":
            at = f.mul(j, f.i64(panel_bytes(self.arith, s.width, self.p.k)))
            return f.gep(b, f.add(at, f.mul(k0, f.i64(panels.k_bytes))))
        at = f.mul(j, f.i64(s.width * panels.n_stride))
        return f.gep(b, f.add(at, f.mul(k0, f.i64(panels.k_stride))))

    def _last_columns(self, valid: V, panel: Callable[[int, V], None]) -> None:
        """The last panel, of which some columns are there: by as few vectors as hold them."""
        f, lanes = self.f, self.arith.lanes
        for columns in range(lanes, self.s.width + 1, lanes):
            fits = f.binary("and", f.cmp("sgt", valid, f.i64(columns - lanes)),
                            f.cmp("sle", valid, f.i64(columns)))
            f.when(fits, functools.partial(panel, columns, valid))

    def _column(self, a: V, b: V, rows: tuple[V, V], first_row: V, col: V, columns: int,
                rest: list[V], after: list[V], valid: V | None = None) -> None:
        """All row tiles of one panel; `after` is the panel that comes next, to fetch ahead."""
        f, p, s, ahead = self.f, self.p, self.s, self.layout.prefetch

        def tile(i: V, height: int, first: V | None = None) -> None:
            masked = valid is not None
            name = f"{self.prefix}tile_{height}x{columns}{'_masked' * masked}"
            self._helper(name, tile_function(name, self.layout, height, columns, masked))
            number = f.sub(i, rows[0])
            at = f.gep(a, f.mul(number, f.i64(s.rows * self.layout.a_row)))
            row = f.add(first_row, f.mul(i, f.i64(s.rows)))
            if first is not None:
                at = f.gep(at, f.mul(first, f.i64(self.layout.a_row)))
                row = f.add(row, first)
            share = [f.gep(x, f.mul(number, f.i64(ahead.share))) for x in after] if ahead else []
            last = [] if valid is None else [valid]
            f.call(name, "void", at, b, f.arg("bufs"), row, col, *rest, *share, *last)

        full = p.m // s.rows
        if is_symbolic(p.m):
            f.loop(rows[0], f.intrinsic("smin", "i64", rows[1], f.i64(full)), 1, [],
                   lambda i, _: tile(i, s.rows))
            f.when(f.cmp("sgt", rows[1], f.i64(full)),
                   lambda: self._last_rows(p.m - full * s.rows, lambda first, height: tile(
                       f.i64(full), height, first)))
            return
        with_tail(f, rows, full, p.m % s.rows, lambda i: tile(i, s.rows),
                        lambda: tile(f.i64(full), p.m % s.rows))

    def _last_rows(self, left: int, tile: Callable[[V, int], None]) -> None:
        """The last rows, whose number is known when the code runs: by tiles of 8, 4, 2 and 1."""
        f, count = self.f, self.f.i64(left)
        height = 1 << (self.s.rows - 1).bit_length() >> 1
        while height:
            first = f.binary("and", count, f.i64(-2 * height))
            there = f.cmp("ne", f.binary("and", count, f.i64(height)), f.i64(0))
            f.when(there, functools.partial(tile, first, height))
            height //= 2


class PackWriter:
    """Writes the kernel that packs every panel of every matrix of B.

    A task is a range of k of a few panels. Where B is stored `[k][n]` the range is short and
    the panels many, so that reading stays in few pages; else it is the other way round.
    """

    def __init__(self, p: Problem, panels: Panels, target: Target) -> None:
        self.p, self.panels, self.target = p, panels, target
        lanes = panels.arith.lanes
        deep = max(lanes, _PACK_ELEMENTS // panels.width) if p.trans_b else _PACK_ROWS
        self.step = min(ceil_div(deep, lanes), max(ceil_div(estimate(p.k), lanes), 1)) * lanes
        most = _PACK_ELEMENTS // (panels.width * self.step)
        self.group = max(1, min(estimate(panels.count), most))
        self.chunks = ceil_div(p.k, self.step)
        self.groups = ceil_div(panels.count, self.group)
        self.f, (self.src, self.dst) = kernel_function(target, 2)
        self.helpers: dict[str, Function] = {}

    def kernel(self) -> Kernel:
        """The kernel over (B, packed B)."""
        f, p = self.f, self.p
        f.loop(f.arg("lo"), f.arg("hi"), 1, [], lambda t, _: self._task(t))
        f.ret_()
        each = 0.4 if p.trans_b else 3.0 / self.panels.arith.lanes
        cost = estimate(p.b_matrices * p.k * p.n) * each
        ntasks = p.b_matrices * self.chunks * self.groups
        return Kernel(module([*self.helpers.values(), f]), ntasks, 2, cost)

    def _task(self, task: V) -> None:
        f, panels = self.f, self.panels
        group = f.binary("urem", task, f.i64(self.groups))
        rest = f.binary("udiv", task, f.i64(self.groups))
        k0 = f.mul(f.binary("urem", rest, f.i64(self.chunks)), f.i64(self.step))
        matrix = f.binary("udiv", rest, f.i64(self.chunks))
        lo = f.mul(group, f.i64(self.group))
        hi = f.intrinsic("smin", "i64", f.add(lo, f.i64(self.group)), f.i64(panels.count))
        full = self.p.n // panels.width
        if full:
            whole = f.intrinsic("smin", "i64", hi, f.i64(full))
            f.loop(lo, whole, 1, [], lambda j, _: self._pack(matrix, j, k0, panels.width))
        if panels.tail:
            last, tail = f.i64(full), panels.tail
            f.when(f.cmp("sgt", hi, last), lambda: self._pack(
                matrix, last, k0, None if is_symbolic(tail) else tail))

    def _pack(self, matrix: V, j: V, k0: V, columns: int | None) -> None:
        """A panel of this number of columns, or of the last ones."""
        f, p, panels = self.f, self.p, self.panels
        name = f"pack_{'last' if columns is None else columns}"
        self.helpers[name] = panel_packer(name, panels, columns, self.target)
        pitch = p.b_pitch or p.k * p.n
        at = f.mul(matrix, f.i64(pitch * panels.arith.dtype.itemsize))
        at = f.add(at, f.mul(j, f.i64(panels.width * panels.n_stride)))
        at = f.add(at, f.mul(k0, f.i64(panels.k_stride)))
        panel = f.add(f.mul(matrix, f.i64(panels.count)), j)
        to = f.mul(panel, f.i64(panel_bytes(panels.arith, panels.width, p.k)))
        to = f.add(to, f.mul(k0, f.i64(panels.k_bytes)))
        kc = f.intrinsic("smin", "i64", f.i64(self.step), f.sub(f.i64(p.k), k0))
        f.call(name, "void", f.gep(self.src, at), f.gep(self.dst, to), kc, *panels.given(f))


class _DotWriter:
    """Writes the kernel of `gemm/dot.py`: units of rows of the matrix, the vector shared."""

    def __init__(self, p: Problem, arith: Arith, target: Target, epilogue: Epilogue | None) -> None:
        self.p, self.arith, self.target = p, arith, target
        self.rows = rows_together(arith)
        self.roles = _roles(p, epilogue)
        self.layout = TileLayout(arith, target, 0, 0, 0, 0, False, p.n, p.swapped, False, 0, 1,
                                 epilogue)

    def plan(self) -> Plan:
        """One kernel, no scratch."""
        p, (f, bases) = self.p, kernel_function(self.target, 2)
        cycles = estimate(p.matrices * p.n) * (estimate(p.k) / self.arith.lanes + 12)
        # (Where the bandwidth decides: tasks of that length, not of a few more.)
        cycles = max(cycles, streaming_cycles(p, self.arith))
        groups = ceil_div(p.n, self.rows)
        wanted = max(1, min(_DOT_TASKS, round(cycles / 20_000)))
        per_matrix = min(estimate(groups), ceil_div(wanted, estimate(p.matrices)))
        units = p.matrices * per_matrix
        ntasks = units if is_symbolic(units) else min(units, max(wanted, per_matrix))
        full = p.n // self.rows * self.rows
        helpers = [dot_function(f"dot{r}", self.layout, p.k, r) for r in (self.rows, 1)
                   if (full if r == self.rows else p.n != full)]

        def unit(u: V, _: list[V]) -> None:
            matrix = f.binary("udiv", u, f.i64(per_matrix))
            part = f.binary("urem", u, f.i64(per_matrix))
            lo = f.mul(_share(f, part, per_matrix, groups), f.i64(self.rows))
            hi = f.mul(_share(f, f.add(part, f.i64(1)), per_matrix, groups), f.i64(self.rows))
            self._rows(f, bases, matrix, lo, f.intrinsic("smin", "i64", hi, f.i64(p.n)), full)

        lo = _share(f, f.arg("lo"), ntasks, units)
        f.loop(lo, _share(f, f.arg("hi"), ntasks, units), 1, [], unit)
        f.ret_()
        kernel = Kernel(module([*helpers, f]), ntasks, len(self.roles), cycles)
        return Plan([(kernel, tuple(self.roles))])

    def _rows(self, f: Function, bases: list[V], matrix: V, lo: V, hi: V, full: int) -> None:
        """Rows lo..hi-1 of one matrix: groups of `rows`, then one by one."""
        p, size = self.p, self.arith.dtype.itemsize
        x_at = f.mul(_matrix(f, p, matrix, p.a_strides), f.i64((p.a_pitch or p.k) * size))
        w_at = f.mul(_matrix(f, p, matrix, p.b_strides), f.i64((p.b_pitch or p.k * p.n) * size))
        x, w = f.gep(bases[0], x_at), f.gep(bases[1], w_at)

        def group(j: V, rows: int) -> None:
            at = f.gep(w, f.mul(j, f.i64(p.k * size)))
            f.call(f"dot{rows}", "void", x, at, f.arg("bufs"), matrix, j)

        if full:
            whole = f.intrinsic("smin", "i64", hi, f.i64(full))
            f.loop(lo, whole, self.rows, [], lambda j, _: group(j, self.rows))
        if full != p.n:
            start = f.intrinsic("smax", "i64", lo, f.i64(full))
            f.loop(start, hi, 1, [], lambda j, _: group(j, 1))
