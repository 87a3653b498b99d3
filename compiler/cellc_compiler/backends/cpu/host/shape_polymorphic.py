"""Shape-polymorphic programs: an elementwise op of PyNative compiled once, for all shapes.

The op is laid out for placeholder sizes, and the one nest it becomes is written with sizes that are
read from `consts`: rows and columns. The arithmetic of an element is that of the nest for any
certain shape, so the bits are too.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

from cellc_runtime.abi import MAIN
from cellc_runtime.target import Target

from ....build import objects
from ....ir.graph import Graph, Value
from ....ir.op import lookup
from ....loops.build import Domain, Group, Incompatible, build_nest
from ....loops.index import Index, Var
from ....loops.nest import Nest, walk
from ....lower.placeholder_sizes import COLUMNS, ROWS
from ...base import ShapePolymorphic
from ...llvm.expressions import Scope
from ...llvm.main import MAIN_PARAMS
from ...llvm.text import Function, V, module
from ..nests.flat import FlatEmitter
from .entry import support_text
from .main import PARALLEL_CYCLES

_HEAD = 3  # Words before the pointers of a kernel: rows, columns, rows of a task


def emit(graph: Graph, target: Target) -> ShapePolymorphic | None:
    """The code of an optimized graph of placeholder sizes; None if it is not one nest over them."""
    nest = _nest(graph)
    if nest is None:
        return None
    emitter = _ShapePolymorphicEmitter(nest, target)
    kernel = emitter.body()
    slots = {v: i for i, v in enumerate([*graph.inputs, graph.outputs[0]])}
    main = _main(emitter, [slots[b] for b in emitter.buffers], target)
    image = objects.build_image(main, [(_KERNEL, kernel)], target, support=(support_text(target),))
    sizes = struct.pack("<qq", ROWS if nest.rows else 1, COLUMNS)
    return ShapePolymorphic(image, sizes, emitter.cycles())


_KERNEL = "k_sized"


def _nest(graph: Graph) -> Nest | None:
    """The nest that computes the only output at the index it is stored at."""
    if len(graph.outputs) != 1 or graph.updates or graph.outputs[0].node is None:
        return None
    out = graph.outputs[0]
    nodes = [n for n in graph.nodes if not n.is_constant]
    if any(lookup(n.op).value is None for n in nodes) or out.node not in nodes:
        return None
    inline: set[Value] = {r for n in nodes if n is not out.node for r in n.results}
    try:
        nest = build_nest(Group(Domain(out.shape), [out.node]), inline, {out})
    except Incompatible:
        return None
    return nest if _suits(nest, set(graph.inputs) | {out}) else None


def _suits(nest: Nest, known: set[Value]) -> bool:
    """Whether every index is that of an element, a row or a column, or 0."""
    if len(nest.rows) > 1 or len(nest.phases) != 1 or len(nest.phases[0].loops) != 1:
        return False
    phase = nest.phases[0]
    here = Index.of(phase.loops[0])
    allowed = [here, Index.of(0)]
    if nest.rows:
        row = Index.of(nest.rows[0])
        allowed += [row, row * COLUMNS + here]
    if any(s.offset != allowed[-1 if nest.rows else 0] or s.part is not None
           for s in phase.stores):
        return False
    for e in walk(list(nest.roots())):
        if e.op == "index" or (e.op == "load" and (
            e.payload.part is not None or e.payload.offset not in allowed
            or e.payload.buffer not in known
        )):
            return False
    return True


class _ShapePolymorphicEmitter(FlatEmitter):
    """Writes the kernel of a nest whose rows and columns its buffers begin with."""

    columns: V

    def body(self) -> str:
        """The text of the kernel: tasks are chunks of the elements, or of the rows."""
        f = self.f
        self._collect()
        rows, self.columns, per = (f.load("i64", f.gep(f.arg("bufs"), 8 * k)) for k in range(_HEAD))
        for k, b in enumerate(self.buffers):
            self.pointers[b] = f.load("ptr", f.gep(f.arg("bufs"), 8 * (_HEAD + k)))
        task = self._rows_task(rows, per) if self.nest.rows else self._chunk
        f.loop(f.arg("lo"), f.arg("hi"), 1, [], task)
        f.ret_()
        return module([f])

    def _chunk(self, task: V, _: list[V]) -> None:
        f = self.f
        lo = task * self.chunk
        hi = f.intrinsic("smin", "i64", lo + self.chunk, self.columns)
        self._elements(lo, hi)

    def _rows_task(self, rows: V, per: V) -> Callable[[V, list[V]], None]:
        f = self.f

        def row(i: V, _: list[V]) -> None:
            self.vars[self.nest.rows[0]] = i
            self._elements(f.i64(0), self.columns)

        def task(number: V, _: list[V]) -> None:
            lo = number * per
            f.loop(lo, f.intrinsic("smin", "i64", lo + per, rows), 1, [], row)

        return task

    def _elements(self, lo: V, hi: V) -> None:
        (phase,) = self.nest.phases
        scope = Scope(1, None, None, None)
        self._hoist(phase, scope)
        self._bounded_loop(phase, scope, (lo, hi), whole=False)

    def _index(self, index: Index, scope: Scope) -> V:
        """As for certain sizes, but rows are as long as the call says."""
        f = self.f
        total = f.i64(index.const)
        for atom, c in index.terms:
            assert isinstance(atom, Var)
            v = scope.base if atom == scope.lane and scope.base is not None else self.vars[atom]
            total = total + (v * self.columns if c == COLUMNS else v)
        return total


def _main(emitter: _ShapePolymorphicEmitter, slots: Sequence[int], target: Target) -> str:
    """`cellc_main`: the tasks of a call from its sizes."""
    f = Function(MAIN, list(MAIN_PARAMS), target, ret="i32")
    rows, columns = (f.load("i64", f.gep(f.arg("consts"), 8 * k)) for k in range(2))
    one, chunk = f.i64(1), f.i64(emitter.chunk)
    if emitter.nest.rows:
        width = f.intrinsic("smax", "i64", columns, one)
        per = f.intrinsic("smax", "i64", chunk // width, one)
        tasks = _ceil(rows, per)
    else:
        per, tasks = one, _ceil(columns, chunk)
    bufs = f.alloca(8 * (_HEAD + len(slots)))
    pointers = [f.load("ptr", f.gep(f.arg("slots"), s, "ptr")) for s in slots]
    for k, word in enumerate((rows, columns, per, *pointers)):
        f.store(word, f.gep(bufs, 8 * k))
    least = f.i64(int(PARALLEL_CYCLES / max(emitter.cycles(), 0.1)))
    shared = f.cmp("ugt", rows * columns, least) & f.cmp("ugt", tasks, one)
    f.when(
        shared,
        lambda: f.line(
            f"call void @cellc_parallel_for(ptr @{_KERNEL}, {bufs}, {tasks}, i64 1)"),
        lambda: f.line(f"call void @{_KERNEL}({bufs}, i64 0, {tasks})"),
    )
    f.ret_(V("i32", "0"))
    declares = (f"declare hidden void @{_KERNEL}(ptr, i64, i64)\n"
                "declare hidden void @cellc_parallel_for(ptr, ptr, i64, i64)")
    return module([f], declares)


def _ceil(a: V, b: V) -> V:
    return (a + (b - 1)) // b
