"""From the shape of a matmul to its schedule: tile, blocking, packing and task grid.

Everything here is a pure function of shape, dtype and target, so that results never depend on
the machine that ran them or on its number of threads.
"""

from __future__ import annotations

import math
from typing import Literal

from cellc_runtime.records import dataclass, replace
from cellc_runtime.target import Target

from .....ir.dims import estimate, is_symbolic
from ....llvm.text import is_float
from .arith import Arith
from .pack import ceil_div, odd_pitch

Pack = Literal["none", "local", "shared"]


@dataclass(frozen=True, slots=True)
class Problem:
    """A matmul in canonical form: few batch dimensions, no one-column output."""

    batch: tuple[int, ...]  # batch dimensions, merged where strides allow
    a_strides: tuple[int, ...]  # matrices of A per step of each batch dimension (0: broadcast)
    b_strides: tuple[int, ...]  # the same of B
    m: int  # rows of the output
    n: int  # columns of the output
    k: int  # length of the reduced axis
    trans_a: bool  # A is stored `[k][m]`
    trans_b: bool  # B is stored `[n][k]`
    # this is the transposed problem: A is the caller's B and the other way round
    swapped: bool = False
    segment: int = 0  # k per segment of an element's sum; 0 if there is one
    # a_pitch, b_pitch: elements from one matrix to the next; 0: they lie one after the other
    a_pitch: int = 0
    b_pitch: int = 0

    @property
    def matrices(self) -> int:
        """Matrices of the output."""
        return math.prod(self.batch)

    @property
    def b_matrices(self) -> int:
        """Distinct matrices of B."""
        return 1 + sum((d - 1) * s for d, s in zip(self.batch, self.b_strides, strict=True))

    @property
    def is_static(self) -> bool:
        """Whether all sizes are known."""
        return not any(is_symbolic(d) for d in (self.m, self.n, self.k, *self.batch))

    @property
    def is_dot(self) -> bool:
        """Whether k is the contiguous axis of both operands of a one-row output."""
        return self.m == 1 and self.trans_b


def canonical(p: Problem) -> Problem:
    """The same elements, computed the same way, in canonical form."""
    p = _drop_trivial_transposes(_merge_batch(p))
    if (p.a_strides, p.b_strides) == ((1,), (0,)) and not p.trans_a:
        p = replace(p, batch=(), a_strides=(), b_strides=(), m=p.m * p.batch[0])
    if p.n == 1 and p.m > 1:
        p = replace(p, a_strides=p.b_strides, b_strides=p.a_strides, m=1, n=p.m, trans_a=False,
                    trans_b=not p.trans_a, swapped=True, a_pitch=p.b_pitch, b_pitch=p.a_pitch)
    return _drop_trivial_transposes(p)


def join_rows(p: Problem) -> Problem:
    """Few rows of several matrices by one matrix of B, as the rows of one: queries in groups."""
    count = p.batch[-1] if p.batch else 0
    if not (type(count) is type(p.m) is int and 1 < count * p.m <= _MOST_JOINED):
        return p
    if (p.a_strides[-1], p.b_strides[-1]) != (1, 0) or p.trans_a or p.swapped or p.a_pitch \
            or p.n == 1 or any(a % count != 0 for a in p.a_strides[:-1]):
        return p
    return replace(p, batch=p.batch[:-1], b_strides=p.b_strides[:-1], m=p.m * count,
                   a_strides=tuple(a // count for a in p.a_strides[:-1]))


def _drop_trivial_transposes(p: Problem) -> Problem:
    """A matrix of one row or column is its own transpose in memory."""
    if p.k == 1:
        return replace(p, trans_a=False, trans_b=False)
    trans_b = p.trans_b or (p.n == 1 and p.m == 1)
    return replace(p, trans_a=p.trans_a and p.m > 1, trans_b=trans_b)


def _merge_batch(p: Problem) -> Problem:
    """Drop dimensions of one, merge neighbours that step evenly in both operands."""
    dims: list[tuple[int, int, int]] = []
    for d, a, b in zip(p.batch, p.a_strides, p.b_strides, strict=True):
        if d == 1:
            continue
        if dims and dims[-1][1] == a * d and dims[-1][2] == b * d:
            dims[-1] = (dims[-1][0] * d, a, b)
        else:
            dims.append((d, a, b))
    return replace(p, batch=tuple(d for d, _, _ in dims), a_strides=tuple(a for _, a, _ in dims),
                   b_strides=tuple(b for _, _, b in dims))


@dataclass(frozen=True, slots=True)
class Schedule:
    """How a problem is computed."""

    rows: int  # rows of a register tile
    width: int  # columns of a register tile and of a panel, a multiple of the vector length
    kc: int  # k per block; a multiple of the unrolling when there are several blocks
    row_groups: int  # parts the row tiles are cut into, one per task
    col_groups: int  # parts the panels are cut into, one per task
    ntasks: int  # tasks; each computes one or more (matrix, row group, column group)
    pack_a: Pack  # `local` copies blocks of A to the task's stack
    pack_b: Pack  # `local` packs panels on the task's stack, `shared` in a kernel of its own
    cycles: float  # estimated cycles on one core
    transposing: bool = False  # B, stored `[n][k]`, is read in place and transposed in registers


UNROLL = 4  # Most k per iteration of a tile's loop
_PACK_FROM = 24  # B stored `[k][n]` is read in place for at most this many rows of the output
STACK_BYTES = 240 << 10  # Bytes of stack a task may use for packed blocks
_K_BLOCK_BYTES = {64: 192 << 10, 32: 24 << 10, 16: 24 << 10}
"""Bytes of a panel's block of k, by the bytes of a vector."""
_PREPACKED_BYTES = {64: 384 << 10, 32: 24 << 10, 16: 24 << 10}
"""The same of panels that are packed ahead, and so need no stack."""
_CLASH_ROWS = 8  # Rows of A a tile may read at once that lie in one set of the first-level cache
_TASK_CYCLES = 40_000.0
_MAX_TASKS = 64
_UNIT_CYCLES = 400.0
_SERIAL_CYCLES = 40_000.0
"""A problem of less work is not worth waking threads for."""
_FEW_ROWS = 3
"""Rows beside which packing B costs more than transposing it wherever it is read."""
_MOST_JOINED = 8
"""The same of matrices that change from call to call, caches, if the registers suffice."""
_NEAR_BYTES = 512 << 10
FAR_BYTES = 1 << 20  # Matrices of more bytes come from beyond the second-level cache
_FAR_PER_CYCLE = 6  # Bytes of them that a core reads in a cycle


def _tile_cycles(arith: Arith, rows: int, vecs: int) -> float:
    """Cycles per k of a register tile on a core with two FMA units and two load ports."""
    p = arith.parts
    work = rows * vecs * p * p * (1.0 if is_float(arith.acc) else 2.0)
    loads = (rows + vecs) * p
    return max(work / 2, loads / 2, 4.0) + 0.02 * loads


def _fits(arith: Arith, target: Target, rows: int, vecs: int, converted: bool) -> bool:
    """Whether a tile's accumulators, a row of B (converted at its load?) and temporaries fit."""
    p = arith.parts
    temporaries = 1 if target.vector_registers == 16 else 4
    if p == 2:
        temporaries += 4
    if not is_float(arith.acc):
        temporaries += target.vector_registers // 4
    if converted:
        temporaries += 3
    return rows * vecs * p + vecs * p + temporaries <= target.vector_registers


def sweep_cycles(arith: Arith, m: int, n: int, k: int, rows: int, vecs: int) -> float:
    """Cycles of all tiles of one matrix."""
    total = 0.0
    width = vecs * arith.lanes
    tail_vecs = ceil_div(n % width, arith.lanes)
    for count_m, r in ((m // rows, rows), (1, m % rows)):
        for count_n, v in ((n // width, vecs), (1, tail_vecs)):
            if r and v:
                total += count_m * count_n * (_tile_cycles(arith, r, v) * k + 20 + 2 * r * v)
    return total


def choose_tile(
    arith: Arith, target: Target, m: int, n: int, k: int, height: int | None = None
) -> tuple[int, int]:
    """(rows, vectors) of the register tile with the least estimated cycles; of `height` rows
    where that is given."""
    best: tuple[float, int, int] | None = None
    for vecs in range(1, min(8, ceil_div(n, arith.lanes)) + 1):
        for rows in range(1, min(m, 28) + 1):
            if not _fits(arith, target, rows, vecs, arith.right.converts and m <= _PACK_FROM):
                break
            if height is not None and rows != height:
                continue
            key = (sweep_cycles(arith, m, n, k, rows, vecs), rows + vecs, vecs)
            best = min(best or key, key)
    if best is None:
        return height or 1, 1
    return best[1] - best[2], best[2]


_LEAST_ROWS, _LEAST_COLUMNS = 32, 64  # A schedule for all sizes suits products of at least these


def schedule(p: Problem, arith: Arith, target: Target, b_constant: bool) -> Schedule:
    """The schedule of a canonical, non-empty problem that does not go to `gemm/dot.py`."""
    if p.is_static:
        return _schedule(p, arith, target, b_constant)
    like = at_least(p)
    return _opened(p, like, _schedule(like, arith, target, b_constant), arith)


def is_widened(p: Problem, arith: Arith) -> bool:
    """Whether A is widened by a kernel of its own: the block on the stack into which it is copied
    otherwise has a known size."""
    return arith.converts and (is_symbolic(p.k) or is_symbolic(p.m))


def at_least(p: Problem) -> Problem:
    """The problem of the sizes that costs are estimated for, with some rows and columns at least
    where their number is open."""
    if p.is_static:
        return p
    return replace(
        p, batch=tuple(map(estimate, p.batch)), a_strides=tuple(map(estimate, p.a_strides)),
        b_strides=tuple(map(estimate, p.b_strides)), k=estimate(p.k), segment=estimate(p.segment),
        m=max(estimate(p.m), _LEAST_ROWS) if is_symbolic(p.m) else p.m,
        n=max(estimate(p.n), _LEAST_COLUMNS) if is_symbolic(p.n) else p.n)


def _opened(p: Problem, like: Problem, s: Schedule, arith: Arith) -> Schedule:
    """The schedule of one problem for all like it: groups of as many tiles, and as many groups as
    there are."""
    each = ceil_div(ceil_div(like.m, s.rows), s.row_groups)
    row_groups = ceil_div(ceil_div(p.m, s.rows), each) if is_symbolic(p.m) else s.row_groups
    wide = ceil_div(ceil_div(like.n, s.width), s.col_groups)
    col_groups = ceil_div(ceil_div(p.n, s.width), wide) if is_symbolic(p.n) else s.col_groups
    units = like.matrices * s.row_groups * s.col_groups
    # A call decides by its own sizes whether threads share the tasks, so there may be many.
    together = 1 if units <= _MAX_TASKS else ceil_div(units, s.ntasks)
    kc, pack_a, pack_b = s.kc, s.pack_a, s.pack_b
    if is_symbolic(p.k) or is_symbolic(p.m):  # (a block on the stack has a known size)
        assert not arith.converts, "widened before: see `is_widened`"
        pack_a = "none"
    if is_symbolic(p.k) or is_symbolic(p.segment):  # (a block is a whole number of segments)
        kc, pack_a = p.k, pack_a if arith.converts else "none"
    if pack_b == "local" and (kc is not s.kc or is_symbolic(p.n)):
        pack_b = "shared"
    transposing = s.transposing and type(p.k) is int
    if transposing:
        pack_b = "none"
    elif s.transposing or is_symbolic(p.n):  # (else `[n][k]` would be read as `[k][n]`)
        pack_b = "shared"
    work = p.matrices * p.m * p.n * p.k
    cycles = work * (s.cycles / max(estimate(work), 1)) if is_symbolic(work) else s.cycles
    return replace(
        s, kc=kc, row_groups=row_groups, col_groups=col_groups, pack_a=pack_a, pack_b=pack_b,
        ntasks=ceil_div(p.matrices * row_groups * col_groups, together), cycles=cycles,
        transposing=transposing)


def _schedule(p: Problem, arith: Arith, target: Target, b_constant: bool) -> Schedule:
    if _transposes(p, arith, target, b_constant):
        return _transposing(p, arith)
    rows, vecs = choose_tile(arith, target, p.m, p.n, max(p.k, 1))
    width = vecs * arith.lanes
    row_tiles, panels = ceil_div(p.m, rows), ceil_div(p.n, width)
    cycles = sweep_cycles(arith, p.m, p.n, p.k, rows, vecs)
    packs_b = p.k > 0 and (p.trans_b or arith.parts > 1 or b_constant or
                           (row_tiles > 3 and p.m > _PACK_FROM))
    pack_a = _pack_a(p, arith, rows, panels)
    prepacked = b_constant or p.b_matrices < p.matrices
    if b_constant:  # Other layers' weights took its place in the cache since the last call
        cycles = max(cycles, streaming_cycles(p, arith, _NEAR_BYTES) / p.matrices)
    kc = _block_k(p, arith, target, width, packs_b, prepacked, pack_a)
    least = _least_row_groups(p, arith, rows, kc, width) if pack_a == "local" else 1
    grid = _Grid(p, arith, rows, width, cycles, pack_a == "local", packs_b, prepacked)
    row_groups, col_groups = grid.best(least)
    shared = prepacked or grid.repack(row_groups) > grid.pack_once() \
        or panel_bytes(arith, width, kc) > STACK_BYTES
    pack_b: Pack = "none" if not packs_b else "shared" if shared else "local"
    if pack_b == "local":
        cycles += grid.repack(row_groups)
    units = p.matrices * row_groups * col_groups
    cycles *= p.matrices
    if p.m <= _FEW_ROWS and not packs_b:
        cycles = max(cycles, streaming_cycles(p, arith))
    wanted = max(1, min(_MAX_TASKS, round(cycles / _TASK_CYCLES)))
    ntasks = ceil_div(units, max(1, units // max(wanted, row_groups * col_groups)))
    return Schedule(rows, width, kc, row_groups, col_groups, ntasks, pack_a, pack_b, cycles)


def streaming_cycles(p: Problem, arith: Arith, far: int = FAR_BYTES) -> float:
    """Cycles in which B is read from far memory, however little is computed; 0 if it is near: of
    at most `far` bytes."""
    nbytes = estimate(p.b_matrices * p.k * p.n) * arith.right.dtype.itemsize
    return nbytes / _FAR_PER_CYCLE if nbytes > far else 0.0


def _transposes(p: Problem, arith: Arith, target: Target, b_constant: bool) -> bool:
    """Whether B is transposed in registers: it is stored along k, and read once."""
    packed = b_constant or p.b_matrices < p.matrices
    fits = not arith.converts or block_bytes(p, arith, p.m, p.k)[0] <= STACK_BYTES
    most = min(_MOST_JOINED, target.vector_registers - arith.lanes - 4) if p.b_pitch else _FEW_ROWS
    return p.trans_b and p.m <= most and arith.parts == 1 and p.k > 0 and fits and not packed


def _transposing(p: Problem, arith: Arith) -> Schedule:
    """The schedule of few rows by a matrix that is transposed in registers."""
    panels = ceil_div(p.n, arith.lanes)
    cycles = p.matrices * panels * (p.k * (5.0 + 0.5 * p.m) + 30.0)
    cycles = max(cycles, streaming_cycles(p, arith))
    wanted = max(1, min(_MAX_TASKS, round(cycles / _TASK_CYCLES)))
    groups = min(panels, ceil_div(wanted, p.matrices))
    units = p.matrices * groups
    return Schedule(p.m, arith.lanes, p.k, 1, groups, ceil_div(units, max(1, units // wanted)),
                    "local" if arith.converts else "none", "none", cycles, transposing=True)


@dataclass(frozen=True, slots=True)
class _Grid:
    """The choice of row groups and column groups: balance on 1..16 threads against the cost of
    packing and reading an operand once per group. Costs are cycles of one matrix."""

    p: Problem
    arith: Arith
    rows: int
    width: int
    cycles: float
    packs_a: bool
    packs_b: bool
    prepacked: bool

    def best(self, least: int) -> tuple[int, int]:
        """(row groups, column groups), at least `least` row groups."""
        row_tiles, panels = ceil_div(self.p.m, self.rows), ceil_div(self.p.n, self.width)
        pairs = [(r, c) for r in _group_counts(row_tiles) if r >= least
                 for c in _group_counts(panels)]
        return min(pairs, key=lambda pair: (self.cost(row_tiles, panels, *pair), pair))

    def cost(self, row_tiles: int, panels: int, row_groups: int, col_groups: int) -> float:
        """Cycles, averaged over some numbers of threads with a weight for one."""
        tall, wide = ceil_div(row_tiles, row_groups), ceil_div(panels, col_groups)
        line = self.p.k * self.arith.acc_size
        near_b = 1.0 if wide * self.width * line <= 2 * _NEAR_BYTES else 5.0
        near_a = 1.0 if self.p.m * line <= 2 * _NEAR_BYTES else 5.0
        reading = near_b / (tall * self.rows) + near_a / (wide * self.width)
        reading *= self.arith.lanes / 16
        total = self.cycles * (1 + reading)
        if not self.packs_b:
            total = max(total, self.stream_b(wide) * row_groups)
        total += self.copy_a() * col_groups
        if self.packs_b and not self.prepacked:
            total += min(self.repack(row_groups), self.pack_once())
        matrices = self.p.matrices
        units = matrices * row_groups * col_groups
        largest = total * tall * wide / (row_tiles * panels) + _UNIT_CYCLES
        total = matrices * (total + _UNIT_CYCLES * row_groups * col_groups)
        if total < _SERIAL_CYCLES:
            return total
        times = [min(-(-units // t) * largest, total / t + largest / 2) * t * weight
                 for t, weight in ((2, 1.0), (4, 0.5), (8, 0.5), (16, 0.25))]
        return 3 * total + sum(times)

    def stream_b(self, wide: int) -> float:
        """Reading B in place from far memory, in strips of `wide` tiles: short runs are slow."""
        size = self.arith.right.dtype.itemsize
        nbytes = self.p.n * self.p.k * size
        if nbytes <= 2 * _NEAR_BYTES:
            return 0.0
        return nbytes / 12 * (1 + 280 / (wide * self.width * size))

    def copy_a(self) -> float:
        """Copying A once."""
        return self.p.m * self.p.k * 1.5 / self.arith.lanes if self.packs_a else 0.0

    def repack(self, row_groups: int) -> float:
        """Packing B in every row group, close to its use."""
        per_element = 0.3 if self.p.trans_b else 3.0 / self.arith.lanes
        elements = self.p.n * self.p.k
        if elements * self.arith.acc_size > _NEAR_BYTES:
            per_element += 0.03 * self.arith.right.dtype.itemsize
        return elements * per_element * row_groups

    def pack_once(self) -> float:
        """Packing B by a kernel of its own: a copy in memory, and one more region."""
        elements = self.p.n * self.p.k
        near = elements * self.arith.acc_size <= _NEAR_BYTES
        per_byte = 0.1 if near else 0.35 if self.p.trans_b else 0.24
        return elements * self.arith.acc_size * per_byte + 2000


def _group_counts(tiles: int) -> list[int]:
    """Group counts that differ in the size of their largest group; few for large sizes."""
    sizes, size = [tiles], 1
    while size < tiles:
        sizes.append(size)
        size += max(1, size // 6)
    return sorted({ceil_div(tiles, size) for size in sizes})


def _pack_a(p: Problem, arith: Arith, rows: int, panels: int) -> Pack:
    """Copy A where reading it in place costs: conversion, rows of a tile that share cache sets,
    or columns (A stored `[k][m]`) that are a page apart."""
    if p.k == 0:
        return "none"
    if arith.converts:
        return "local"
    pitch = (p.m if p.trans_a else p.k) * arith.dtype.itemsize
    clash = pitch % 4096 == 0 and p.m > 32 and p.k > 8 and (p.trans_a or rows > _CLASH_ROWS)
    far = p.trans_a and pitch > 1024 and p.k > 64
    return "local" if panels > 2 and (clash or far) else "none"


def _block_k(p: Problem, arith: Arith, target: Target, width: int, packs_b: bool, prepacked: bool,
             pack_a: Pack) -> int:
    """k per block, even over the blocks."""
    size = p.n * p.k * arith.right.dtype.itemsize
    if not packs_b and arith.carries_in_out and size > 2 * _NEAR_BYTES:
        # B is read once, in few pages at a time, and a strip stays near for all row tiles.
        limit = min(96, (24 << 10) // (width * arith.acc_size))
    elif not packs_b and p.k <= 4096:
        return max(p.k, 1)
    else:
        nbytes = (_PREPACKED_BYTES if prepacked else _K_BLOCK_BYTES)[target.vector_bytes]
        if pack_a == "local" and not prepacked:
            nbytes = min(nbytes, STACK_BYTES // 2)  # both share the stack
        limit = nbytes // (width * arith.acc_size * arith.parts)
    whole_a = STACK_BYTES // 2 // (p.m * arith.acc_size * arith.parts)
    if pack_a == "local":
        # Either all of A's rows fit the stack, and one row group can serve, or a few tiles do.
        limit = min(limit, whole_a if whole_a >= 128 else 512)
    blocks = max(1, ceil_div(p.k, limit))
    if blocks == 1:
        return max(p.k, 1)
    if p.segment:
        return max(1, limit // p.segment) * p.segment
    return ceil_div(ceil_div(p.k, blocks), UNROLL) * UNROLL


def _least_row_groups(p: Problem, arith: Arith, rows: int, kc: int, width: int) -> int:
    """Row groups enough for a block of A, and a panel, to fit the stack."""
    room = STACK_BYTES - panel_bytes(arith, width, kc)
    row_tiles = groups = ceil_div(p.m, rows)
    for groups in range(1, row_tiles):
        if block_bytes(p, arith, ceil_div(row_tiles, groups) * rows, kc)[0] <= room:
            return groups
    return row_tiles


def panel_bytes(arith: Arith, width: int, kc: int) -> int:
    """Bytes of kc rows of a packed panel."""
    return width * arith.acc_size * arith.parts * kc


def block_bytes(p: Problem, arith: Arith, rows: int, kc: int) -> tuple[int, int]:
    """(bytes, row pitch in bytes) of a packed block of A: `rows` rows of the output, kc deep."""
    outer, inner = (kc, rows) if p.trans_a else (rows, kc)
    pitch = odd_pitch(inner * arith.acc_size * arith.parts)
    return outer * pitch, pitch
