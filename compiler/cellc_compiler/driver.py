"""The compile driver: a graph in, a `Program` out, through the pipeline and the caches.

A program is cached whole by the text of its graph, so compiling the same network again is a
look-up that needs neither the passes nor LLVM.
"""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from cellc_runtime import cache, dtypes
from cellc_runtime.device_array import on_host
from cellc_runtime.dtypes import Array
from cellc_runtime.errors import ArtifactError
from cellc_runtime.executable import Errors, Executable
from cellc_runtime.lazy import hashlib, lazy_imports
from cellc_runtime.program import Callback, Message, Precomputed, Program, Slot
from cellc_runtime.records import dataclass, field
from cellc_runtime.target import Target

from . import __version__, backends
from .ir.dims import estimate, evaluate_number
from .ir.graph import Graph, Node, Value
from .ir.op import lookup

if TYPE_CHECKING:
    from cellc_runtime.open_sizes import Open

    from .backends.base import Build, Built
    from .lower.kernel import Kernel
    from .lower.lowered import HostCallback, Lowered, PrecomputedBlock, ShownNest
with lazy_imports(__name__):  # a program found in the cache needs few of these
    from cellc_runtime import collectives

    from .ir import printing
    from .lower import budget as budgets
    from .lower import checks, instructions, lowering, memory, placeholder_sizes
    from .lower import machine as machines
    from .passes import base, pipeline


@dataclass(slots=True)
class Report:
    """The outcome of a compilation."""

    cached: bool = False  # the whole program came from the cache
    seconds: dict[str, float] = field(default_factory=dict)  # wall time by stage
    kernels: int = 0  # distinct kernels; `calls` how often kernels are called in one run
    calls: int = 0
    arena_bytes: int = 0  # peak of temporaries, known before the run
    # what is computed from parameters once (packed weights, say); `released_bytes` of the
    # parameters need not be kept beside it
    precomputed_bytes: int = 0
    released_bytes: int = 0
    keep_nests: bool = False
    # every loop nest, where `keep_nests` asks for them
    nests: list[ShownNest] = field(default_factory=list)
    inlined: dict[Value, Node] = field(default_factory=dict)  # as `Lowered.inlined`, with them
    # what was chosen to be kept and computed again, if there is a budget
    recomputed: budgets.Plan | None = None


@dataclass(frozen=True, slots=True)
class Profiled:
    """A program that records when its kernels run, and what is needed to read the records."""

    program: Program
    # what was called, by the number in a record
    calls: list[instructions.Call | instructions.Copy | instructions.Callback]
    start: int  # offset in the arena of the records, of which there may be `capacity`
    capacity: int
    buffers: list[memory.Buffer]  # the temporaries, with their lifetimes
    sizes: Mapping[str, int] = field(default_factory=dict)
    """Of open sizes, and places of the temporaries of a program that has some."""

    def known(self, number: Any) -> Any:
        """A number that may follow from open sizes."""
        return evaluate_number(number, self.sizes)


def optimize(
    graph: Graph, observe: pipeline.Observer | None = None, numerics: str = "strict",
    target: Target | None = None, in_place: bool = False,
) -> Graph:
    """A copy of the graph, or the graph itself, after the pipeline of `numerics` and, if one is
    given, of a target."""
    given = graph if in_place else base.copy_graph(graph)
    return pipeline.run_pipeline(given, passes(numerics, target), observe)


def passes(numerics: str = "strict", target: Target | None = None) -> tuple[base.Pass, ...]:
    """The passes of `numerics`, then those of a target if one is given, in order."""
    backend = backends.backend_of(target) if target else backends.backend()
    general = pipeline.passes_of(numerics, backend.fast_passes())
    if target is None:
        return general
    return (*backend.first_passes(), *general, *backend.passes(target))


def compile_optimized(graph: Graph, target: Target) -> Program:
    """The program of a graph that has been through passes, past the cache; the graph is used up.

    Raises: as `compile_program`.
    """
    backends.backend_of(target).prepare(len(graph.nodes))
    return _generate(graph, target, Report(), lambda stage: None)[0]


def lower(
    graph: Graph, target: Target, on_kernel: Callable[[Kernel], None] | None = None
) -> Lowered:
    """An optimized graph, which is used up, as instructions for a target; see `lower.lowering`.

    Raises:
        NoRule: the target's back end cannot compute an op.
    """
    return lowering.lower(graph, backends.backend_of(target).machine(target), on_kernel)


def has_gradient(graph: Graph) -> bool:
    """Whether a traced graph computes a gradient, so that a budget has something to choose."""
    return any(node.op == "cotangent" for node in graph.walk())


def compile_program(
    graph: Graph,
    target: Target | None = None,
    *,
    report: Report | None = None,
    progress: Callable[[str], None] | None = None,
    use_cache: bool = True,
    numerics: str = "strict",
    budget: int | None = None,
) -> Program:
    """Compile a graph for a target (default: the device of the context).

    Args:
        graph: any verified graph; it is not changed.
        target: what to compile for.
        report: filled in if given.
        progress: called with the name of each stage as it begins.
        use_cache: look the program up in the cache and store it there.
        numerics: `"strict"` (the bits of PyNative) or `"fast"` (rewrites that change rounding).
        budget: bytes of temporaries that gradients may be planned in: forward values are computed
            again, as few as are needed (`lower/budget.py`). A graph without one has none.

    Raises:
        TypeError: an op cannot be lowered.
        ValueError: no recomputation is enough for the budget.
        CompilerBug: LLVM refused what was generated.
    """
    target = backends.under(target, numerics) if target else backends.target_of(graph, numerics)
    backend = backends.backend_of(target)
    report = report if report is not None else Report()
    say = progress or (lambda stage: None)
    if budget is not None and not has_gradient(graph):
        budget = None
    text = printing.print_graph(graph, spans=target.accelerator)  # (its kernels' names have lines)
    key = cache.make_key(
        "program", text, target.name, backend.version(),
        __version__, source_stamp(), numerics, *(() if budget is None else (str(budget),)),
    )
    store = cache.default()
    if use_cache:
        found = from_cache(store.get(key))
        if found is not None and budget is not None:
            plan = store.get(cache.make_key("recomputed", key))
            report.recomputed = budgets.plan_from_bytes(plan) if plan is not None else None
            found = found if plan is not None else None
        if found is not None:
            report.cached = True
            fill_report_from_program(report, found)
            return found
    backend.prepare(len(graph.nodes))
    say("passes")
    start = time.perf_counter()
    optimized, report.recomputed = optimize_within(graph, target, numerics, budget)
    report.seconds["passes"] = time.perf_counter() - start
    program, _ = _generate(optimized, target, report, say)
    if use_cache:
        store.put(key, program.to_bytes())
        if report.recomputed is not None:
            store.put(cache.make_key("recomputed", key), report.recomputed.to_bytes())
    return program


@contextmanager
def ahead() -> Iterator[None]:
    """In the block a graph is traced and compiled. If this compiler has compiled nothing yet, for
    all that the cache knows, its back end begins meanwhile (`Backend.ahead`)."""
    backend = backends.backend()
    store = cache.default()
    key = cache.make_key("begun", backend.name, backend.version(), __version__, source_stamp())
    if store.get(key) is not None:
        yield
        return
    with backend.ahead():
        yield
    store.put(key, b"")


def compile_objects(
    graph: Graph, target: Target, *, report: Report | None = None,
    progress: Callable[[str], None] | None = None, numerics: str = "strict",
    budget: int | None = None,
) -> tuple[Program, Built]:
    """As `compile_program`, with the objects that its code was linked from (`Built.objects`), which
    the cache of programs does not hold."""
    target, report = backends.under(target, numerics), report or Report()
    budget = budget if has_gradient(graph) else None
    backends.backend_of(target).prepare(len(graph.nodes))
    optimized, report.recomputed = optimize_within(graph, target, numerics, budget)
    return _generate(optimized, target, report, progress or (lambda stage: None))


def compile_shape_polymorphic(
    op: str, given: Sequence[dtypes.DType], broadcasts: Sequence[int], attrs: Mapping[str, Any]
) -> Program | None:
    """The program of an elementwise op for any sizes, or None if there is none (complex numbers).

    Args:
        op, attrs: an op that is `elementwise`.
        given: the element types of the operands.
        broadcasts: how each is broadcast to the result (`cellc_runtime.shape_polymorphic`).

    Raises:
        TypeError, ValueError: the op does not take such operands.
    """
    target = backends.default_target()
    backend = backends.backend_of(target)
    graph = placeholder_sizes.placeholder_graph(op, given, broadcasts, attrs)
    key = cache.make_key(
        "sized", printing.print_graph(graph, spans=False), target.name, backend.version(),
        __version__, source_stamp(),
    )
    store = cache.default()
    payload = store.get(key)
    found = from_cache(payload)
    if found is not None or payload == _NO_PROGRAM:
        return found
    backend.prepare(1)
    code = backend.shape_polymorphic(optimize(graph, target=target), target)
    if code is None:
        store.put(key, _NO_PROGRAM)
        return None
    program = Program(op, target.name, tuple(graph_slots(graph)), code.image, constants=code.sizes,
                      cost=code.cost, broadcasts=tuple(broadcasts))
    store.put(key, program.to_bytes())
    return program


_NO_PROGRAM = b"none"


def optimize_within(
    graph: Graph, target: Target, numerics: str, budget: int | None
) -> tuple[Graph, budgets.Plan | None]:
    """A copy of the graph after all passes, with what is recomputed for a budget, if there is one.

    Raises:
        ValueError: no recomputation is enough for the budget.
    """
    if budget is None:
        return optimize(graph, numerics=numerics, target=target), None
    backend = backends.backend_of(target)
    before = pipeline.keeping_cotangents(numerics, backend.fast_passes())
    return budgets.choose(graph, budget, before, backend.passes(target), backend.machine(target))


@functools.cache
def source_stamp() -> str:
    """Sizes and times of the compiler's own files: other code generation, other programs."""
    return str(sorted(_files(os.path.dirname(os.path.abspath(__file__)))))


def _files(folder: str) -> Iterator[tuple[str, int, int]]:
    with os.scandir(folder) as entries:  # pathlib takes ten times as long
        for entry in entries:
            if entry.name.endswith(".py"):
                info = entry.stat()
                yield entry.name, info.st_size, info.st_mtime_ns
            elif entry.is_dir() and entry.name != "__pycache__":
                yield from _files(entry.path)


def from_cache(payload: bytes | None) -> Program | None:
    """The program of these bytes; None if there is none, or they are damaged."""
    if payload is None:
        return None
    try:
        return Program.from_bytes(payload)
    except ArtifactError:
        return None


def compile_profiled(graph: Graph, numerics: str = "strict", budget: int | None = None) -> Profiled:
    """Compile a graph for this machine into a program that records; the kernels are the same."""
    target = backends.target_of(graph, numerics)
    backend = backends.backend_of(target)
    if budget is not None and not has_gradient(graph):
        budget = None
    optimized, _ = optimize_within(graph, target, numerics, budget)
    with backend.build(target) as build:
        lowered = lower(optimized, target, build.add)
        arena = memory.plan(b for b in lowered.buffers if b.first >= 0)
        program, built = _assemble(optimized, target, Report(arena_bytes=arena), build, lowered,
                                   record=True)
    how = built.profile
    assert how is not None
    return Profiled(program, how.calls, how.start, how.capacity, lowered.buffers)


def _generate(
    graph: Graph, target: Target, report: Report, say: Callable[[str], None]
) -> tuple[Program, Built]:
    """Lower a graph, with kernels compiled as they come, and put everything together.

    The graph is used up.
    """
    say("code generation")
    start = time.perf_counter()
    backend = backends.backend_of(target)
    with backend.build(target) as build:
        lowered = lower(graph, target, build.add)
        report.seconds["lowering"] = time.perf_counter() - start
        build.watch(lambda made, of: say(f"native code, {made} of {of} kernels"))
        start = time.perf_counter()
        report.arena_bytes = memory.plan(b for b in lowered.buffers if b.first >= 0)
        program, built = _assemble(graph, target, report, build, lowered)
    for done in (graph, *lowered.graphs):
        done.dissolve()
    report.released_bytes = program.released_bytes
    report.seconds["llvm"] = time.perf_counter() - start
    if sum(program.memory().values()) >= _MUCH:
        backend.release()
    return program, built


_MUCH = 8 << 20  # Bytes of a program's memory from which on those of the compiler count


def _assemble(
    graph: Graph, target: Target, report: Report, build: Build, lowered: Lowered,
    record: bool = False,
) -> tuple[Program, Built]:
    """The program of a lowered graph whose temporaries have their places, and its code."""
    precompute_arena = memory.plan(b for b in lowered.precompute_buffers if b.first >= 0)
    slots = program_slots(graph, lowered)
    _check_memory(graph, target, slots,
                  report.arena_bytes + precompute_arena + len(lowered.constants))
    built = build.finish(lowered, report.arena_bytes if record else None)
    fill_report(report, lowered, built.kernels)
    how = built.profile
    arena = how.arena if how is not None else report.arena_bytes
    return program_of(graph.name, target, slots, lowered, build, built,
                      (bytes(lowered.constants), arena, precompute_arena)), built


def program_slots(graph: Graph, lowered: Lowered) -> list[Slot]:
    """The slots of a lowered graph's program, those of precomputed blocks last."""
    return graph_slots(graph) + [Slot(f"kept{i}", dtypes.uint8, (block.nbytes,), "kept")
                                 for i, block in enumerate(lowered.precomputed)]


def program_of(
    name: str, target: Target, slots: Sequence[Slot], lowered: Lowered, build: Build, built: Built,
    memory: tuple[bytes, int, int], messages: Sequence[Message] | None = None,
    opened: Open | None = None,
) -> Program:
    """The program of a lowered graph and its code.

    Args:
        memory: the constants, bytes of the arena, and of that of what is precomputed.
        messages: of its checks, if not as `messages_of` has them.
        opened: how it follows from sizes that are open.
    """
    constants, arena, precompute_arena = memory
    first = len(slots) - len(lowered.precomputed)
    return Program(
        name=name,
        target=target.name,
        slots=tuple(slots),
        image=built.image,
        arena_bytes=arena,
        precompute_arena_bytes=precompute_arena,
        precomputed=tuple(_precomputed(b, first + i, slots, lowered, build)
                          for i, b in enumerate(lowered.precomputed)),
        unread=_unread(slots, lowered),
        constants=constants,
        messages=tuple(messages_of(lowered) if messages is None else messages),
        callbacks=tuple(map(_callback, lowered.callbacks)),
        cost=float(estimate(sum(i.kernel.cost for i in instructions.walk(lowered.instructions)
                                if isinstance(i, instructions.Call)))),
        kernels=built.device_kernels,
        open=opened,
        compiled_kernels=built.kernels,
    )


def messages_of(lowered: Lowered) -> list[Message]:
    """The messages of a program's checks."""
    return [checks.message(c.node, c.shown.offset) for c in lowered.checks]


def _check_memory(graph: Graph, target: Target, slots: Sequence[Slot], temporaries: int) -> None:
    """Refuse what does not fit.

    Raises:
        TooLarge: it names the largest value, its op and where that comes from.
    """
    backend = backends.backend_of(target)
    room = backend.machine(target).memory
    needed = temporaries + sum(s.nbytes for s in slots if s.alias is None)
    if needed <= room.capacity:
        return
    made = [v for n in graph.walk() for v in n.results if not n.regions]
    largest = max(made, key=lambda v: v.type.nbytes, default=None)
    what = ""
    if largest is not None and largest.node is not None:
        what = (f"; the largest value, {largest.type}, is that of the op {largest.node.op!r}"
                + machines.where(largest.node))
    raise machines.TooLarge(
        f"{graph.name} needs {needed} bytes, and the {room.space} of {target.name} (back end "
        f"{backend.name!r}) has {room.capacity}{what}")


def _precomputed(
    block: PrecomputedBlock, slot: int, slots: Sequence[Slot], lowered: Lowered, build: Build
) -> Precomputed:
    """How a block is filled, and a key that names it whatever else the program does."""
    sources = tuple(block.sources(slot))
    text, constant = build.block_key(block, slot)
    parts = (text, bytes(lowered.constants) if constant else b"")
    packing = block.packing
    if packing is not None and (len(sources) != 1 or slots[sources[0]].kind != "param"
                                or slots[sources[0]].nbytes != packing.stored_bytes):
        packing = None
    return Precomputed(hashlib.sha256(b"\0".join(parts)).hexdigest(), sources, packing)


def _unread(slots: Sequence[Slot], lowered: Lowered) -> tuple[int, ...]:
    """The parameters that calls do not touch: precomputed blocks stand for them."""
    used = {*instructions.slots_of(lowered.instructions), *(s.alias for s in slots)}
    return tuple(i for i, s in enumerate(slots) if s.kind == "param" and i not in used)


def _callback(callback: HostCallback) -> Callback:
    node, phase, name = callback.node, callback.phase, callback_name(callback.node)
    read = () if phase == collectives.WAIT else node.operands
    inputs, outputs = (tuple((v.dtype, v.shape) for v in values) for values in (read, node.results))
    return Callback(collectives.phased(name, phase) if phase else name, inputs, outputs)


def callback_name(node: Node) -> str:
    """The name of a host callback: what it does follows from it (and from the types)."""
    return lookup(node.op).callback_name(node)


def fill_report(report: Report, lowered: Lowered, kernels: int) -> None:
    """Note what a lowered graph has become."""
    report.kernels = kernels
    report.precomputed_bytes = lowered.precomputed_bytes
    report.calls = len(lowered.instructions)
    if report.keep_nests:
        report.nests, report.inlined = lowered.nests, lowered.inlined


def fill_report_from_program(report: Report, program: Program) -> None:
    """Note what a program is that was compiled before."""
    report.kernels, report.arena_bytes = program.compiled_kernels, program.arena_bytes
    report.precomputed_bytes = program.precomputed_bytes
    report.released_bytes = program.released_bytes


def graph_slots(graph: Graph) -> list[Slot]:
    """The slots of a graph's program: its inputs, its outputs, and its updates over inputs."""
    number = {v: i for i, v in enumerate(graph.inputs)}
    slots = [
        Slot(v.name, v.dtype, v.shape, "input" if v.kind == "input" else "param")
        for v in graph.inputs if v.kind != "size"
    ]
    slots += [Slot(f"out{i}", v.dtype, v.shape, "output") for i, v in enumerate(graph.outputs)]
    slots += [
        Slot(f"new {old.name}", old.dtype, old.shape, "update", number[old])
        for old, _ in graph.updates
    ]
    return slots


def compile_graph(
    graph: Graph, target: Target | None = None,
    callbacks: Mapping[str, Callable[..., None]] | None = None,
) -> Callable[[Sequence[Array]], list[Array]]:
    """Compile and load a graph: a function from inputs to outputs, then updated values.

    Inputs that the graph updates are copied first, so the caller's arrays stay as they are.
    """
    return loaded(compile_program(graph, target), graph, callbacks or {})


def loaded(
    program: Program, graph: Graph, callbacks: Mapping[str, Callable[..., None]],
    errors: Errors | None = None,
) -> Callable[[Sequence[Array]], list[Array]]:
    """The program of a graph as a function, as `compile_graph` gives it; `errors` are the kinds
    that its checks may raise."""
    executable = Executable(program, callbacks, errors)
    replaced = [graph.inputs.index(old) for old, _ in graph.updates]
    params = [i for i, v in enumerate(graph.inputs) if v.kind != "input"]

    def run(arrays: Sequence[Array]) -> list[Array]:
        given = [np.array(a) if i in replaced else np.ascontiguousarray(a).reshape(np.shape(a))
                 for i, a in enumerate(arrays)]
        if params:
            executable.bind([given[i] for i in params])
        out = executable.call([a for i, a in enumerate(given) if i not in params])
        for i, bound in zip(params, executable.params, strict=True):
            if i in replaced:
                given[i] = on_host(bound)
        return [*map(on_host, out), *(given[i] for i in replaced)]

    return run
