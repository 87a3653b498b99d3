"""Flat nests of any length, and many of them as one kernel.

A nest is *flat* if it is one loop without reductions that reads and writes every buffer at the
loop's own index, or reads one element for all. The update of a parameter by an optimizer is: its
kernel does not depend on the parameter's shape, so one serves all parameters, and one call.

The buffers of such a kernel are a table: for each entry the number of its first task, its length
and its pointers, and after the last entry a number that no task has. A task is a chunk of an entry;
all have the same length but the last ones of entries.
"""

from __future__ import annotations

from collections.abc import Sequence

from cellc_runtime.target import Target

from ....loops.expr import Expr
from ....loops.index import Index
from ....loops.nest import Nest, walk
from ....lower.kernel import Kernel
from ....lower.machine import Flat
from ...llvm.expressions import Scope
from ...llvm.text import V, module
from .emitter import GRAIN_CYCLES, NestEmitter

HEAD = 2  # Words of an entry before its pointers: its first task and its length


def flat(nest: Nest, target: Target) -> Flat | None:
    """The kernel of a nest for any length; None if it is not flat."""
    if nest.rows or len(nest.phases) != 1 or nest.phases[0].reduces \
            or len(nest.phases[0].loops) != 1:
        return None
    (phase,), lane = nest.phases, nest.phases[0].loops[0]
    here = Index.of(lane)
    if any(s.offset != here or s.part is not None for s in phase.stores):
        return None
    if not all(_is_flat(e, here) for e in walk(list(nest.roots()))):
        return None
    emitter = FlatEmitter(nest, target)
    body = emitter.body()
    return Flat(body, tuple(emitter.buffers), lane.extent, emitter.chunk, emitter.cycles())


def _is_flat(e: Expr, here: Index) -> bool:
    if e.op == "load":
        access = e.payload
        return access.part is None and (access.offset == here or not access.offset.terms)
    return e.op != "index"


def many(kernels: Sequence[Flat]) -> tuple[Kernel, tuple[tuple[int, int], ...]]:
    """One kernel for nests of one body, and the head of the entry of each."""
    first, heads = 0, []
    for k in kernels:
        heads.append((first, k.length))
        first += k.tasks
    cost = sum(k.cost * k.length for k in kernels)
    words = len(kernels) * (HEAD + len(kernels[0].buffers)) + 1
    return Kernel(kernels[0].code, first, words, cost), tuple(heads)


class FlatEmitter(NestEmitter):
    """Writes the kernel of a flat nest over a table of entries."""

    def __init__(self, nest: Nest, target: Target) -> None:
        super().__init__(nest, target)
        step = 4 * self.lanes
        self.chunk = max(int(GRAIN_CYCLES / max(self.cycles(), 0.1)) // step, 1) * step

    def body(self) -> str:
        """The text of the kernel."""
        f = self.f
        self._collect()
        words = HEAD + len(self.buffers)
        f.loop(f.arg("lo"), f.arg("hi"), 1, [f.arg("bufs")],
               lambda t, carried: [self._task(t, carried[0], words)])
        f.ret_()
        return module([f])

    def _task(self, task: V, entry: V, words: int) -> V:
        """One chunk; the entry it belongs to, from which the search for the next one starts."""
        f = self.f

        def later(carried: list[V]) -> V:
            return f.cmp("sle", f.load("i64", f.gep(carried[0], 8 * words)), task)

        (entry,) = f.while_([entry], later, lambda carried: [f.gep(carried[0], 8 * words)])
        first, length = (f.load("i64", f.gep(entry, 8 * k)) for k in range(HEAD))
        for k, b in enumerate(self.buffers):
            self.pointers[b] = f.load("ptr", f.gep(entry, 8 * (HEAD + k)))
        lo = (task - first) * self.chunk
        hi = f.intrinsic("smin", "i64", lo + self.chunk, length)
        (phase,) = self.nest.phases
        row = Scope(1, None, None, None)
        self._hoist(phase, row)
        self._bounded_loop(phase, row, (lo, hi), whole=False)
        return entry
