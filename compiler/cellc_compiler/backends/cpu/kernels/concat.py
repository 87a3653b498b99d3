"""Copying many tensors into one: the kernel of a concatenation of more than a few operands."""

from __future__ import annotations

from collections.abc import Sequence

from cellc_runtime.target import Target

from ....lower.kernel import Kernel
from ....lower.plan import KernelPlan, Step, operand, result
from ...llvm.text import Function, V, kernel_function, module, vector
from .vectors import lookup, table

_MAX_TASKS = 64
_FEW_ROWS = 16


def concat_kernels(outer: int, runs: Sequence[int], itemsize: int, target: Target) -> KernelPlan:
    """Kernels from roles in0, in1, ... to out0: row after row, a run of each operand in turn.

    Args:
        outer: rows.
        runs: elements of each operand in a row (operand k is `outer` such runs).
        itemsize: bytes per element.
    """
    if not all(type(d) is int for d in (outer, *runs)):
        return _open_join(outer, runs, itemsize, target)
    total = sum(runs)
    unit = min(itemsize, 8)
    counts = [r * (itemsize // unit) for r in runs]
    starts = [sum(counts[:k]) for k in range(len(counts))]
    ty = f"i{8 * unit}"
    f, _ = kernel_function(target)
    by_row = outer >= _FEW_ROWS
    tasks = min(outer, _MAX_TASKS) if by_row else len(runs)

    def task(t: V, _: list[V]) -> None:
        if not by_row:
            f.loop(0, f.i64(outer), 1, [], lambda o, _: copy(o, t))
            return
        first = t * outer // tasks
        last = (t + 1) * outer // tasks
        f.loop(first, last, 1, [], lambda o, _: each(o))

    def each(row: V) -> None:
        f.loop(0, f.i64(len(runs)), 1, [], lambda k, _: copy(row, k))

    def copy(row: V, k: V) -> None:
        count, start = (lookup(f, n, k) for n in ("JOIN_COUNTS", "JOIN_STARTS"))
        source = f.gep(f.load("ptr", f.gep(f.arg("bufs"), k, "ptr")), row * count, ty)
        out = f.load("ptr", f.gep(f.arg("bufs"), len(runs), "ptr"))
        at = row * sum(counts) + start
        _copy_run(f, source, f.gep(out, at, ty), count, ty, target.lanes(unit))

    f.loop(f.arg("lo"), f.arg("hi"), 1, [], task)
    f.ret_()
    tables = table("JOIN_COUNTS", counts) + table("JOIN_STARTS", starts)
    cost = outer * (len(runs) * 10.0 + total * itemsize / 16)
    roles = (*map(operand, range(len(runs))), result(0))
    return KernelPlan((Step(Kernel(module([f], tables), tasks, len(roles), cost), roles),))


def _open_join(outer: int, runs: Sequence[int], itemsize: int, target: Target) -> KernelPlan:
    """The same for sizes that are known when the code runs: a task is a row."""
    unit = min(itemsize, 8)
    counts, ty = [r * (itemsize // unit) for r in runs], f"i{8 * unit}"
    f, pointers = kernel_function(target, len(runs) + 1)

    def row(o: V, _: list[V]) -> None:
        at = o * sum(counts)
        for source, count in zip(pointers, counts, strict=False):
            from_ = f.gep(source, o * count, ty)
            _copy_run(f, from_, f.gep(pointers[-1], at, ty), f.i64(count), ty, target.lanes(unit))
            at = at + count

    f.loop(f.arg("lo"), f.arg("hi"), 1, [], row)
    f.ret_()
    roles = (*map(operand, range(len(runs))), result(0))
    cost = outer * (sum(runs) * (itemsize / 16) + len(runs) * 10.0)
    return KernelPlan((Step(Kernel(module([f]), outer, len(roles), cost), roles),))


def _copy_run(f: Function, source: V, to: V, count: V, ty: str, lanes: int) -> None:
    """`count` elements, a vector at a time, the rest singly."""
    def copy(i: V, part: str) -> None:
        f.store(f.load(part, f.gep(source, i, ty)), f.gep(to, i, ty))

    whole = count - count % lanes
    f.loop(0, whole, lanes, [], lambda i, _: copy(i, vector(ty, lanes)))
    f.loop(whole, count, 1, [], lambda i, _: copy(i, ty))
