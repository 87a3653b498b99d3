"""Attention by rows: scores, softmax and the mix of values, a block of rows at a time.

    scores[b, i, j] = sum over k of q[b, i, k] * k[b, k, j]
    weights[b, i, :] = what a row nest makes of scores[b, i, :] (scale, mask, softmax)
    out[b, i, c] = sum over j of weights[b, i, j] * v[b, j, c]

A task does a block of rows of one matrix: its scores live on the stack, and so do its weights
unless something else reads them. The products are the register tiles of `gemm/tile.py` and the
softmax is the nest of the separate ops, so every element is computed by the arithmetic of those:
the chain over k, the order of the row's reductions. Blocks of 16-bit floats are widened on the
stack before a product reads them, as they are in `gemm`.

Each block reads both right matrices again. Keys and values of a head are small; weights of two
dense layers with a normalisation between them may be larger than the second-level cache, and would
come from beyond it for every block. Such products run by themselves (`_pays`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from cellc_runtime.records import dataclass
from cellc_runtime.target import Target

from ....ir.dims import choose, estimate, is_symbolic
from ....loops.nest import Nest
from ....lower.kernel import Kernel
from ....lower.plan import KernelPlan, Role, Step, nest_operand, operand, packed, result
from ....lower.plan import scratch as scratch_role
from ...llvm.text import Function, V, buffer_table, kernel_function, module
from ..nests.emitter import rows_function
from .gemm.arith import Arith
from .gemm.pack import LINE, ceil_div
from .gemm.plan import (
    FAR_BYTES,
    STACK_BYTES,
    Pack,
    Problem,
    Schedule,
    at_least,
    choose_tile,
    sweep_cycles,
)
from .gemm.product import GemmWriter, MatmulSpec, PackWriter, problem_of
from .gemm.tile import Prefetch

_BLOCK_ROWS = 96
_TASKS = 32
_OPEN_COLUMNS = 1024
"""Columns of scores that a block has room for at least, where their number is open."""
_FAR = scratch_role("scores")
"""The blocks of all tasks, where an open length turns out to be too long for their stacks."""
_LONGEST = 4096
"""Longest reduced axis whose matrix is read in place."""


@dataclass(frozen=True, slots=True)
class AttentionSpec:
    """The fused operation."""

    scores: MatmulSpec  # the first product
    nest: Nest  # the row nest between the products; it reads `source` and stores `weights`
    mix: MatmulSpec  # the second product, whose left operand is `weights`
    source: Any  # the scores, as the nest's loads name them
    weights: Any  # the value the nest's store names
    local: bool  # whether nothing else reads the weights


def attention_kernels(
    spec: AttentionSpec, target: Target, memo: dict[Any, Any]
) -> tuple[KernelPlan, list[Any]] | None:
    """The kernels, and the values that are operands of the nest; None if they do not fit.

    The operands 0 and 1 are those of the scores, 2 the values. `memo` keeps plans by
    their parts: the layers of a network ask for the same.
    """
    arith = Arith.of(spec.scores.dtype, spec.scores.dtype, target)
    first, second = problem_of(spec.scores), problem_of(spec.mix)
    if (first.matrices, first.m, first.n) != (second.matrices, second.m, second.k):
        return None
    if _is_open(first) and (arith.converts or arith.parts != 1):
        return None  # (a block that is widened on the stack has a known size)
    if not _plain(first, spec.scores) or not _plain(second, spec.mix):
        return None
    if not _pays(first, second, arith):
        return None
    nest = rows_function(spec.nest, target, "softmax")
    roles = tuple((b is spec.source, b is spec.weights) for b in nest[1])
    key = ("attention", spec.scores, spec.mix, spec.local, roles, nest[0].text())
    if key not in memo:
        writer = _AttentionWriter(spec, first, second, arith, target)
        memo[key] = writer.plan(*nest) if writer.rows else None
    plan: KernelPlan | None = memo[key]
    return None if plan is None else (plan, [b for b in nest[1] if not on_stack(spec, b)])


def on_stack(spec: AttentionSpec, buffer: Any) -> bool:
    """Whether a block of a buffer of the nest lives on a task's stack."""
    return buffer is spec.source or (spec.local and buffer is spec.weights)


def _plain(p: Problem, spec: MatmulSpec) -> bool:
    """Whether the canonical problem still has the rows of the written one."""
    return (not p.swapped and not p.trans_a and p.m == spec.m and p.n == spec.n
            and p.matrices == math.prod(spec.batch) and p.m > 1 and p.n > 1
            and 0 < estimate(p.k) <= _LONGEST and estimate(p.n) <= 4 * _LONGEST)


def _pays(first: Problem, second: Problem, arith: Arith) -> bool:
    """Whether blocks of rows cost no more than the products by themselves.

    They do where the right matrices are near for every block, or where the scores are much larger
    than all else, so that they should not be in memory.
    """
    right = estimate(first.k * first.n + second.k * second.n)
    if right * arith.acc_size <= FAR_BYTES:
        return True
    scores, others = estimate(first.m * first.n), estimate(first.m * (first.k + second.n))
    return scores > others + right


def _is_open(p: Problem) -> bool:
    """Whether some size of each matrix is known when the code runs."""
    return any(map(is_symbolic, (p.m, p.n, p.k)))


def _schedule(p: Problem, arith: Arith, target: Target, height: int | None) -> Schedule:
    like = at_least(p)
    rows, vecs = choose_tile(arith, target, like.m, like.n, like.k, height)
    cycles = sweep_cycles(arith, like.m, like.n, like.k, rows, vecs) * like.matrices
    pack: Pack = "shared" if p.trans_b or arith.converts or is_symbolic(p.n) else "none"
    copy: Pack = "local" if arith.converts else "none"
    return Schedule(rows, vecs * arith.lanes, p.k, 1, 1, 1, copy, pack, cycles)


class _Rows(GemmWriter):
    """A product as a function `void name(ptr bufs, i64 matrix, i64 lo, i64 hi)` of row tiles."""

    def __init__(self, name: str, p: Problem, arith: Arith, target: Target,
                 height: int | None = None) -> None:
        super().__init__(p, _schedule(p, arith, target, height), arith, target, None)
        self.prefix = f"{name}_"
        params = [("ptr", "bufs"), ("i64", "matrix"), ("i64", "lo"), ("i64", "hi")]
        self.f = Function(name, params, target, "void", "internal")

    def _prefetch(self) -> Prefetch | None:
        return None

    def functions(self, most: int) -> list[Function]:
        """Return the function for at most this number of rows, and its tiles."""
        f = self.f
        self.load_operands()
        if self.s.pack_a == "local":
            self.stack_a = f.alloca(most * self.block[1])
        columns = (f.i64(0), f.i64(self.panels.count))
        self.part(f.arg("matrix"), (f.arg("lo"), f.arg("hi")), columns)
        f.ret_()
        return [*self.helpers.values(), f]


class _AttentionWriter:
    """Writes the kernel; `rows` is the height of a block, 0 if none fits."""

    def __init__(self, spec: AttentionSpec, first: Problem, second: Problem, arith: Arith,
                 target: Target) -> None:
        self.spec, self.arith, self.target = spec, arith, target
        self.scores = _Rows("scores", first, arith, target)
        self.mix = _Rows("mix", second, arith, target)
        self.pitch = first.n * arith.dtype.itemsize
        if not self._block_rows(first):  # no whole tiles of both: the same height for both
            self.mix = _Rows("mix", second, arith, target, self.scores.s.rows)
        self.rows = self._block_rows(first)
        self.nbytes = self.rows * self.pitch
        self.open = is_symbolic(self.nbytes)
        self.f, _ = kernel_function(target)

    def _block_rows(self, p: Problem) -> int:
        """Rows of a block: whole tiles of both products, some tasks for every thread."""
        step, columns = math.lcm(self.scores.s.rows, self.mix.s.rows), estimate(p.n)
        if _is_open(p):
            columns = max(2 * columns, _OPEN_COLUMNS)
        each = columns * self.arith.dtype.itemsize
        if self.arith.converts:  # copies of the rows of both left matrices, one after the other
            each += max(p.n, p.k) * self.arith.acc_size
        most = min(STACK_BYTES // each, max(_BLOCK_ROWS, step))
        wanted = max(1, estimate(p.matrices * p.m) // _TASKS)
        return min(most, max(step, wanted)) // step * step

    def plan(self, softmax: Function, buffers: Sequence[Any], cost: float) -> KernelPlan:
        """The steps, given the nest's function, buffers and cycles."""
        real = [b for b in buffers if not on_stack(self.spec, b)]
        steps: list[Step] = []
        scratch: dict[Role, int] = {}
        roles = [operand(0), self._packed(self.scores, 1, steps, scratch),
                 self._packed(self.mix, 2, steps, scratch), result(0),
                 *map(nest_operand, range(len(real)))]
        p = self.scores.p
        blocks = ceil_div(p.m, self.rows)
        if self.open:
            rest = p.matrices * blocks * self.nbytes
            scratch[_FAR] = choose(self.nbytes, STACK_BYTES + 1, rest, LINE)
            roles.insert(3, _FAR)
        self._write(buffers, real, blocks)
        functions = [*self.scores.functions(self.rows), softmax,
                     *self.mix.functions(self.rows), self.f]
        cycles = self.scores.s.cycles + self.mix.s.cycles + cost
        kernel = Kernel(module(functions), p.matrices * blocks, len(roles), cycles)
        return KernelPlan((*steps, Step(kernel, tuple(roles))), scratch)

    def _packed(
        self, writer: _Rows, number: int, steps: list[Step], scratch: dict[Role, int]
    ) -> Role:
        """The role of a product's right operand, packed by a step of its own if transposed or to
        be widened."""
        if writer.s.pack_b != "shared":
            return operand(number)
        role = packed(str(operand(number)))
        scratch[role] = writer.p.b_matrices * writer.matrix_bytes()
        kernel = PackWriter(writer.p, writer.panels, self.target).kernel()
        steps.append(Step(kernel, (operand(number), role)))
        return role

    def _write(self, buffers: Sequence[Any], real: Sequence[Any], blocks: int) -> None:
        """The entry: per task the three functions, with buffers moved so that the block's part
        of the scores (and weights) falls on the stack."""
        f = self.f
        stack = f.alloca(STACK_BYTES if self.open else self.nbytes)
        tables = [buffer_table(f, count) for count in (3, len(buffers), 3)]
        given = [f.load("ptr", f.gep(f.arg("bufs"), i, "ptr"))
                 for i in range(4 + len(real) + self.open)]
        query, key, value = given[:3]
        far = given.pop(3) if self.open else None
        out, *others = given[3:]
        places = dict(zip(map(id, real), others, strict=True))

        def fill(table: V, pointers: Sequence[V]) -> None:
            for i, pointer in enumerate(pointers):
                f.store(pointer, f.gep(table, i, "ptr"))

        def task(t: V, _: list[V]) -> None:
            matrix = t // blocks if blocks != 1 else t
            block = t % blocks if blocks != 1 else f.i64(0)
            low = block * self.rows
            m = self.scores.p.m
            high = f.intrinsic("smin", "i64", low + self.rows, m)
            first = matrix * m + low
            moved = f.gep(self._room(stack, far, t), first * -self.pitch)
            weights = moved if self.spec.local else places[id(self.spec.weights)]
            fill(tables[0], (query, key, moved))
            fill(tables[1], [moved if on_stack(self.spec, b) else places[id(b)] for b in buffers])
            fill(tables[2], (weights, value, out))
            for name, table, writer in (("scores", tables[0], self.scores),
                                        ("mix", tables[2], self.mix)):
                if name == "mix":
                    last = first + (high - low)
                    f.call("softmax", "void", tables[1], first, last)
                tall = writer.s.rows
                upper = (high + (tall - 1)) // tall
                f.call(name, "void", table, matrix, low // tall, upper)

        f.loop(f.arg("lo"), f.arg("hi"), 1, [], task)
        f.ret_()

    def _room(self, stack: V, far: V | None, task: V) -> V:
        """Where a task has its block of scores: on the stack, unless an open length is too long."""
        if far is None:
            return stack
        f = self.f
        there = f.gep(far, task * self.nbytes)
        return f.select(f.cmp("sle", f.i64(self.nbytes), STACK_BYTES), stack, there)
