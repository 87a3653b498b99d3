"""From the shape of a matmul to its schedule: tile, blocking, packing and task grid.

Everything here is a pure function of shape, dtype and target, so that results never depend on
the machine that ran them or on its number of threads.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

from cellc_compiler.codegen.llvm.kernels.gemm_arith import Arith
from cellc_compiler.codegen.llvm.kernels.gemm_pack import ceil_div, odd_pitch
from cellc_compiler.codegen.llvm.text import is_float
from cellc_runtime.target import Target

Pack = Literal["none", "local", "shared"]


@dataclass(frozen=True, slots=True)
class Problem:
    """A matmul in canonical form: few batch dimensions, no one-column output.

    Attributes:
        batch: batch dimensions, merged where strides allow.
        a_strides: matrices of A per step of each batch dimension (0: broadcast).
        b_strides: the same of B.
        m: rows of the output.
        n: columns of the output.
        k: length of the reduced axis.
        trans_a: A is stored `[k][m]`.
        trans_b: B is stored `[n][k]`.
        swapped: this is the transposed problem: A is the caller's B and the other way round.
    """

    batch: tuple[int, ...]
    a_strides: tuple[int, ...]
    b_strides: tuple[int, ...]
    m: int
    n: int
    k: int
    trans_a: bool
    trans_b: bool
    swapped: bool = False

    @property
    def matrices(self) -> int:
        """Matrices of the output."""
        return math.prod(self.batch)

    @property
    def b_matrices(self) -> int:
        """Distinct matrices of B."""
        return 1 + sum((d - 1) * s for d, s in zip(self.batch, self.b_strides, strict=True))

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
                    trans_b=not p.trans_a, swapped=True)
    return _drop_trivial_transposes(p)


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
    """How a problem is computed.

    Attributes:
        rows: rows of a register tile.
        width: columns of a register tile and of a panel, a multiple of the vector length.
        kc: k per block; a multiple of the unrolling when there are several blocks.
        row_groups: parts the row tiles are cut into, one per task.
        col_groups: parts the panels are cut into, one per task.
        ntasks: tasks; each computes one or more (matrix, row group, column group).
        pack_a: `local` copies blocks of A to the task's stack.
        pack_b: `local` packs panels on the task's stack, `shared` in a kernel of its own.
        cycles: estimated cycles on one core.
    """

    rows: int
    width: int
    kc: int
    row_groups: int
    col_groups: int
    ntasks: int
    pack_a: Pack
    pack_b: Pack
    cycles: float


UNROLL = 4
_STACK = 192 << 10
"""Bytes of stack a task may use for packed blocks."""
_TASK_CYCLES = 60_000.0
_MAX_TASKS = 64


def _tile_cycles(arith: Arith, rows: int, vecs: int) -> float:
    """Cycles per k of a register tile on a core with two FMA units and two load ports."""
    p = arith.parts
    work = rows * vecs * p * p * (1.0 if is_float(arith.acc) else 2.0)
    loads = (rows + vecs) * p
    return max(work / 2, loads / 2, 4.0) + 0.02 * loads


def _fits(arith: Arith, target: Target, rows: int, vecs: int) -> bool:
    """Whether a tile's accumulators, a row of B and temporaries fit the registers."""
    p = arith.parts
    temporaries = 1 if target.vector_registers == 16 else 4
    if p == 2 or not is_float(arith.acc):
        temporaries += 2
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


def choose_tile(arith: Arith, target: Target, m: int, n: int, k: int) -> tuple[int, int]:
    """(rows, vectors) of the register tile with the least estimated cycles."""
    best: tuple[float, int, int] | None = None
    for vecs in range(1, min(8, ceil_div(n, arith.lanes)) + 1):
        for rows in range(1, min(m, 28) + 1):
            if not _fits(arith, target, rows, vecs):
                break
            key = (sweep_cycles(arith, m, n, k, rows, vecs), rows + vecs, vecs)
            best = min(best or key, key)
    if best is None:
        return 1, 1
    return best[1] - best[2], best[2]


def schedule(p: Problem, arith: Arith, target: Target, b_constant: bool) -> Schedule:
    """The schedule of a canonical, non-empty problem that is not `is_dot`-shaped."""
    rows, vecs = choose_tile(arith, target, p.m, p.n, max(p.k, 1))
    width = vecs * arith.lanes
    row_tiles, panels = ceil_div(p.m, rows), ceil_div(p.n, width)
    must_pack = p.trans_b or arith.parts > 1
    cycles = p.matrices * sweep_cycles(arith, p.m, p.n, p.k, rows, vecs)
    packs_b = p.k > 0 and (must_pack or b_constant or row_tiles > 3)
    pack_a = _pack_a(p, arith, panels)
    wanted = max(1, min(_MAX_TASKS, round(cycles / _TASK_CYCLES)))
    pack_cost = _packing(p, arith)
    row_groups, col_groups = _grid(row_tiles, panels, ceil_div(wanted, p.matrices), *pack_cost)
    repacked = row_groups > 1 or p.b_matrices < p.matrices
    pack_b: Pack = "none" if not packs_b else "shared" if repacked or b_constant else "local"
    units = p.matrices * row_groups * col_groups
    kc = _block_k(p, arith, target, width, pack_b)
    if pack_a == "local":
        row_groups = _limit_rows(p, arith, rows, row_tiles, row_groups, kc, width, pack_b)
        units = p.matrices * row_groups * col_groups
    ntasks = min(units, max(wanted, row_groups * col_groups))
    if pack_b == "local":
        cycles *= 1 + pack_cost[1]
    return Schedule(rows, width, kc, row_groups, col_groups, ntasks, pack_a, pack_b, cycles)


def _packing(p: Problem, arith: Arith) -> tuple[float, float]:
    """Cost of packing A once per column group and B once per row group, relative to the work."""
    work = p.m * p.n * max(p.k, 1) / (2 * arith.lanes)
    per_b = 0.3 if p.trans_b else 2.0 / arith.lanes
    return p.m * p.k * 1.5 / arith.lanes / work, p.n * p.k * per_b / work


def _grid(row_tiles: int, panels: int, wanted: int, cost_a: float,
          cost_b: float) -> tuple[int, int]:
    """(row groups, column groups) of about `wanted` parts, even and cheap to pack."""

    def score(rg: int) -> tuple[float, int]:
        cg = min(panels, ceil_div(wanted, rg))
        uneven = (ceil_div(row_tiles, rg) * rg / row_tiles) * (ceil_div(panels, cg) * cg / panels)
        short = max(1.0, wanted / (rg * cg)) ** 0.5
        return uneven * short * (1 + cost_a * cg + cost_b * min(rg, 2)), rg

    rg = min(range(1, min(row_tiles, wanted) + 1), key=score)
    return rg, min(panels, ceil_div(wanted, rg))


def _pack_a(p: Problem, arith: Arith, panels: int) -> Pack:
    """Copy A where reading it in place costs: conversion, or rows that share cache sets."""
    if p.k == 0:
        return "none"
    if arith.converts:
        return "local"
    pitch = (p.m if p.trans_a else p.k) * arith.dtype.itemsize
    clash = pitch % 2048 == 0 and p.m > 8 and p.k > 8
    far = p.trans_a and pitch > 1024 and p.k > 64
    return "local" if panels > 2 and (clash or far) else "none"


def _block_k(p: Problem, arith: Arith, target: Target, width: int, pack_b: Pack) -> int:
    """k per block, even over the blocks."""
    limit = 512 if target.vector_bytes == 64 else 384
    if pack_b == "local":
        limit = min(limit, max(64, (48 << 10) // (width * arith.acc_size * arith.parts)))
    if pack_b == "none" and not arith.converts and p.k <= 4096:
        limit = max(p.k, 1)
    blocks = max(1, ceil_div(p.k, limit))
    if blocks == 1:
        return max(p.k, 1)
    return ceil_div(ceil_div(p.k, blocks), UNROLL) * UNROLL


def _limit_rows(p: Problem, arith: Arith, rows: int, row_tiles: int, row_groups: int, kc: int,
                width: int, pack_b: Pack) -> int:
    """Row groups enough for a block of A to fit the stack."""
    room = _STACK - (panel_bytes(arith, width, kc) if pack_b == "local" else 0)
    while row_groups < row_tiles:
        if block_bytes(p, arith, ceil_div(row_tiles, row_groups) * rows, kc)[0] <= room:
            break
        row_groups += 1
    return row_groups


def panel_bytes(arith: Arith, width: int, kc: int) -> int:
    """Bytes of kc rows of a packed panel."""
    return width * arith.acc_size * arith.parts * kc


def block_bytes(p: Problem, arith: Arith, rows: int, kc: int) -> tuple[int, int]:
    """(bytes, row pitch in bytes) of a packed block of A: `rows` rows of the output, kc deep."""
    outer, inner = (kc, rows) if p.trans_a else (rows, kc)
    pitch = odd_pitch(inner * arith.acc_size * arith.parts)
    return outer * pitch, pitch
