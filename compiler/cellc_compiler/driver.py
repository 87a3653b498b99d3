"""The compile driver: a graph in, a `Program` out, through the pipeline and the caches.

A program is cached whole by the text of its graph, so compiling the same network again is a
look-up that needs neither the passes nor LLVM.
"""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cellc_runtime import cache, dtypes
from cellc_runtime.errors import ArtifactError
from cellc_runtime.executable import Executable
from cellc_runtime.lazy import lazy_module
from cellc_runtime.platform import release_code, trim_memory
from cellc_runtime.program import Ahead, Callback, Program, Slot
from cellc_runtime.records import dataclass, field
from cellc_runtime.target import AMX, AVX512, Target, host_target, tiles_usable

from . import __version__
from .ir.graph import Graph, Node
from .ir.text import print_graph
from .lower.sizes import stand_in

if TYPE_CHECKING:
    import hashlib

    from .backends.cpu.host import main, recording, sized
    from .build import llvm_version, objects, workers
    from .loops import nest
    from .lower import budget as budgets
    from .lower import checks, instructions, lowering, memory
    from .lower.lowered import KeptBlock, Lowered
    from .passes import base, pipeline
else:  # a program found in the cache needs none of these
    hashlib = lazy_module("hashlib")
    llvm_version = lazy_module("cellc_compiler.build.llvm_version")
    objects, workers, budgets, checks, memory, instructions, lowering, main, recording, sized, \
            nest, base, pipeline = (
        lazy_module(f"cellc_compiler.{name}")
        for name in ("build.objects", "build.workers", "lower.budget", "lower.checks",
                     "lower.memory", "lower.instructions", "lower.lowering",
                     "backends.cpu.host.main", "backends.cpu.host.recording",
                     "backends.cpu.host.sized", "loops.nest", "passes.base", "passes.pipeline")
    )

Array = np.ndarray[Any, Any]


@dataclass(slots=True)
class Report:
    """What a compilation did.

    Attributes:
        cached: the whole program came from the cache.
        seconds: wall time by stage.
        kernels: distinct kernels; `calls` how often kernels are called in one run.
        arena_bytes: peak of temporaries, known before the run.
        kept_bytes: what is computed from parameters once and kept (packed weights, say);
            `spare_bytes` of the parameters need not be kept beside it.
        nests: text of every loop nest, where `keep_nests` asks for it.
        recomputed: what was chosen to be kept and computed again, if there is a budget.
    """

    cached: bool = False
    seconds: dict[str, float] = field(default_factory=dict)
    kernels: int = 0
    calls: int = 0
    arena_bytes: int = 0
    kept_bytes: int = 0
    spare_bytes: int = 0
    keep_nests: bool = False
    nests: list[str] = field(default_factory=list)
    recomputed: budgets.Plan | None = None


@dataclass(frozen=True, slots=True)
class Recorded:
    """A program that records when its kernels run, and what is needed to read the records.

    Attributes:
        calls: what was called, by the number in a record.
        start: offset in the arena of the records, of which there may be `capacity`.
        buffers: the temporaries, with their lifetimes.
    """

    program: Program
    calls: list[instructions.Call | instructions.Copy | instructions.Callback]
    start: int
    capacity: int
    buffers: list[memory.Buffer]


def optimize(
    graph: Graph, observe: pipeline.Observer | None = None, numerics: str = "strict",
    target: Target | None = None,
) -> Graph:
    """A copy of the graph after the pipeline of `numerics` and, if one is given, of a target."""
    passes = pipeline.NUMERICS[numerics] + (pipeline.for_target(target) if target else ())
    return pipeline.run_pipeline(base.copy_graph(graph), passes, observe)


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
    """Compile a graph for a target (default: this machine).

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
    target = target or _target_of(graph, numerics)
    report = report if report is not None else Report()
    say = progress or (lambda stage: None)
    if budget is not None and not has_gradient(graph):
        budget = None
    key = cache.make_key(
        "program", print_graph(graph, spans=False), target.name, llvm_version.llvm_version(),
        __version__, _source_stamp(), numerics, *(() if budget is None else (str(budget),)),
    )
    store = cache.default()
    if use_cache:
        found = _from_cache(store.get(key))
        if found is not None and budget is not None:
            plan = store.get(cache.make_key("recomputed", key))
            report.recomputed = budgets.plan_from_bytes(plan) if plan is not None else None
            found = found if plan is not None else None
        if found is not None:
            report.cached, report.arena_bytes = True, found.arena_bytes
            report.kept_bytes, report.spare_bytes = found.kept_bytes, found.spare_bytes
            return found
    workers.prepare(1 if len(graph.nodes) < _MANY else 2)
    say("passes")
    start = time.perf_counter()
    optimized, report.recomputed = _optimized(graph, target, numerics, budget)
    report.seconds["passes"] = time.perf_counter() - start
    program = _generate(optimized, target, report, say)
    if use_cache:
        store.put(key, program.to_bytes())
        if report.recomputed is not None:
            store.put(cache.make_key("recomputed", key), report.recomputed.to_bytes())
    return program


def _target_of(graph: Graph, numerics: str) -> Target:
    """What to compile for on this machine: tile registers only where `numerics` leaves the order
    of sums open and something is bfloat16."""
    target = host_target()
    if numerics == "fast" and target is AVX512 and tiles_usable() and any(
            v.dtype is dtypes.bfloat16 for n in graph.walk() for v in n.operands):
        return AMX
    return target


def compile_sized(
    op: str, given: Sequence[dtypes.DType], ways: Sequence[int], attrs: Mapping[str, Any]
) -> Program | None:
    """The program of an elementwise op for any sizes, or None if there is none (complex numbers).

    Args:
        op, attrs: an op that is `elementwise`.
        given: the element types of the operands.
        ways: how each lies over the result (`cellc_runtime.sized`).

    Raises:
        TypeError, ValueError: the op does not take such operands.
    """
    target = host_target()
    graph = stand_in(op, given, ways, attrs)
    key = cache.make_key(
        "sized", print_graph(graph, spans=False), target.name, llvm_version.llvm_version(),
        __version__, _source_stamp(),
    )
    store = cache.default()
    payload = store.get(key)
    found = _from_cache(payload)
    if found is not None or payload == _NO_PROGRAM:
        return found
    workers.prepare(1)
    code = sized.sized(optimize(graph, target=target), target)
    if code is None:
        store.put(key, _NO_PROGRAM)
        return None
    image = objects.build_image(code.main, [(code.name, code.kernel)], target)
    program = Program(op, target.name, tuple(graph_slots(graph)), image, constants=code.sizes,
                      cost=code.cost, sized=tuple(ways))
    store.put(key, program.to_bytes())
    return program


_NO_PROGRAM = b"none"


def _optimized(
    graph: Graph, target: Target, numerics: str, budget: int | None
) -> tuple[Graph, budgets.Plan | None]:
    if budget is None:
        return optimize(graph, numerics=numerics, target=target), None
    return budgets.choose(graph, target, numerics, budget)


@functools.cache
def _source_stamp() -> str:
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


def _from_cache(payload: bytes | None) -> Program | None:
    if payload is None:
        return None
    try:
        return Program.from_bytes(payload)
    except ArtifactError:
        return None


def compile_recorded(
    graph: Graph, numerics: str = "strict", budget: int | None = None
) -> Recorded:
    """Compile a graph for this machine into a program that records; the kernels are the same."""
    target = _target_of(graph, numerics)
    if budget is not None and not has_gradient(graph):
        budget = None
    optimized, _ = _optimized(graph, target, numerics, budget)
    with objects.Builder(target) as builder:
        lowered = lowering.lower(optimized, target, lambda kernel: builder.add(kernel.body))
        arena = memory.plan(b for b in lowered.buffers if b.first >= 0)
        kernels = main.Kernels()
        writer = recording.RecordingWriter(lowered.instructions, arena, target, kernels)
        program = _assemble(optimized, target, Report(), builder, lowered, kernels, writer)
    return Recorded(program, writer.calls, writer.start, writer.capacity, lowered.buffers)


def _generate(
    graph: Graph, target: Target, report: Report, say: Callable[[str], None]
) -> Program:
    """Lower a graph, with kernels compiled as they come, and put everything together."""
    say("code generation")
    start = time.perf_counter()
    with objects.Builder(target) as builder:
        builder.add_support()
        lowered = lowering.lower(graph, target, lambda kernel: builder.add(kernel.body))
        report.seconds["lowering"] = time.perf_counter() - start
        builder.watch(lambda made, of: say(f"native code, {made} of {of} kernels"))
        start = time.perf_counter()
        report.arena_bytes = memory.plan(b for b in lowered.buffers if b.first >= 0)
        program = _assemble(graph, target, report, builder, lowered, main.Kernels(), None)
    report.spare_bytes = program.spare_bytes
    report.seconds["llvm"] = time.perf_counter() - start
    if sum(program.memory().values()) >= _MUCH:
        # LLVM is done for now, and what it holds would add to the peak of the calls.
        release_code("llvmlite")
        trim_memory()
    return program


_MUCH = 8 << 20
"""Bytes of a program's memory from which on those of LLVM count."""


_MANY = 24
"""Nodes of a graph that will have kernels enough for more than one process that compiles them."""


def _assemble(
    graph: Graph, target: Target, report: Report, builder: objects.Builder,
    lowered: Lowered, kernels: main.Kernels, writer: recording.RecordingWriter | None,
) -> Program:
    """The program of a lowered graph whose temporaries have their places."""
    ahead_arena = memory.plan(b for b in lowered.ahead_buffers if b.first >= 0)
    slots = graph_slots(graph)
    first = len(slots)
    slots += [Slot(f"kept{i}", dtypes.uint8, (block.nbytes,), "kept")
              for i, block in enumerate(lowered.kept)]
    text = main.write_main(
        lowered.instructions, [b.instructions for b in lowered.kept], target, kernels, writer)
    image = objects.build_image(
        text, [(n, k.body) for n, k in kernels.named.items()], target,
        callbacks=len(lowered.callbacks), builder=builder,
    )
    _fill_report(report, lowered, len(kernels.named))
    return Program(
        name=graph.name,
        target=target.name,
        slots=tuple(slots),
        image=image,
        arena_bytes=writer.arena if writer is not None else report.arena_bytes,
        ahead_arena_bytes=ahead_arena,
        ahead=tuple(_ahead(b, first + i, slots, lowered, target)
                    for i, b in enumerate(lowered.kept)),
        unread=_unread(slots, lowered),
        constants=bytes(lowered.constants),
        messages=tuple(checks.message(c.node, c.shown.offset) for c in lowered.checks),
        callbacks=tuple(_callback(c.node) for c in lowered.callbacks),
        cost=sum(i.kernel.cost for i in instructions.walk(lowered.instructions)
                 if isinstance(i, instructions.Call)),
    )


def _ahead(
    block: KeptBlock, slot: int, slots: Sequence[Slot], lowered: Lowered, target: Target
) -> Ahead:
    """How a block is filled, and a key that names it whatever else the program does."""
    sources = tuple(block.sources(slot))
    if len(block.instructions) == 1 and isinstance(block.instructions[0], instructions.Call):
        call = block.instructions[0]  # no slot numbers: they differ from program to program
        order = [(sources.index(p.base) if p.base in sources else "block", p.offset)
                 for p in call.places]
        text = f"{call.kernel.body}\n{call.kernel.numbers}\n{order}"
        constant = any(p.base == "const" for p in call.places)
    else:
        text = main.block_text(block.instructions, target)
        constant = "%consts" in text.split("{", 1)[1]
    parts = (text.encode(), bytes(lowered.constants) if constant else b"")
    packing = block.packing
    if packing is not None and (len(sources) != 1 or slots[sources[0]].kind != "param"
                                or slots[sources[0]].nbytes != packing.stored_bytes):
        packing = None
    return Ahead(hashlib.sha256(b"\0".join(parts)).hexdigest(), sources, packing)


def _unread(slots: Sequence[Slot], lowered: Lowered) -> tuple[int, ...]:
    """The parameters that calls do not touch: what is kept stands for them."""
    used = {*instructions.slots_of(lowered.instructions), *(s.alias for s in slots)}
    return tuple(i for i, s in enumerate(slots) if s.kind == "param" and i not in used)


def _callback(node: Node) -> Callback:
    inputs, outputs = (tuple((v.dtype, v.shape) for v in values)
                       for values in (node.operands, node.results))
    return Callback(callback_name(node), inputs, outputs)


def callback_name(node: Node) -> str:
    """The name of a host callback: what it does follows from it (and from the types)."""
    if node.op == "host_call":
        return f"call {node.attrs['number']} ({node.attrs['name']})"
    return "print " + hashlib.sha256(repr(node.attrs["parts"]).encode()).hexdigest()[:16]


def _fill_report(report: Report, lowered: Lowered, kernels: int) -> None:
    report.kernels = kernels
    report.kept_bytes = lowered.kept_bytes
    report.calls = len(lowered.instructions)
    if report.keep_nests:
        report.nests = [f"{label}\n{nest.print_nest(n)}" for label, n in lowered.nests]


def graph_slots(graph: Graph) -> list[Slot]:
    """The slots of a graph's program: its inputs, its outputs, and its updates over inputs."""
    number = {v: i for i, v in enumerate(graph.inputs)}
    slots = [
        Slot(v.name, v.dtype, v.shape, "input" if v.kind == "input" else "param")
        for v in graph.inputs
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
    executable = Executable(compile_program(graph, target), callbacks or {})
    replaced = [graph.inputs.index(old) for old, _ in graph.updates]
    params = [i for i, v in enumerate(graph.inputs) if v.kind != "input"]

    def run(arrays: Sequence[Array]) -> list[Array]:
        given = [np.array(a) if i in replaced else np.asarray(a) for i, a in enumerate(arrays)]
        if params:
            executable.bind([given[i] for i in params])
        out = executable.call([a for i, a in enumerate(given) if i not in params])
        return [*out, *(given[i] for i in replaced)]

    return run
