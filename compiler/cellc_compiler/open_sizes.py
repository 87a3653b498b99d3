"""Programs for all sizes: a graph with symbolic sizes compiled once.

Passes, fusion, lowering and kernels are those of known sizes. Where they ask about a size, the
answer is assumed and becomes a guard (`ir/dims.py`); where they write one, the code reads it from a
table (`cellc_runtime.open_sizes`). So a program for certain sizes is the same code with another
table: nothing is compiled. Its bits are those of a program for known sizes, because the order of
additions follows from the same questions, or from numbers of the table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from cellc_runtime import cache
from cellc_runtime.dtypes import DType
from cellc_runtime.open_sizes import MOST, Number, Open, Plan, Sizes
from cellc_runtime.program import Message, Program, Slot
from cellc_runtime.records import replace
from cellc_runtime.target import Target

from . import __version__, backends, driver
from .backends.base import Built
from .build.objects import CompilerBug
from .ir import printing
from .ir.dims import (
    Applied,
    Dim,
    Ratio,
    Undecided,
    applied,
    compute,
    deciding,
    divide,
    is_symbolic,
)
from .ir.graph import Builder, Graph, Node, Value, clone_into
from .ir.shapes import Guard, Shapes
from .lower import memory
from .lower.lowered import Lowered
from .ops import shape
from .passes.instantiate import instantiate
from .passes.pipeline import Observer

Symbols = dict[str, tuple[int, int]]
LEAST = 2  # The least size that a program for all sizes serves: 0 and 1 are compiled by themselves
SIZE = "size"  # The kind of a graph's input that is a number which follows from sizes


def compile_open(
    graph: Graph, shapes: Shapes, target: Target | None = None, numerics: str = "strict",
) -> Program:
    """Compile a graph with symbolic sizes.

    Args:
        graph: it is not changed.
        shapes: its symbols, and what was assumed about them; their hints are the sizes that costs
            are estimated for.

    Raises:
        Undecided: something must know a size.
    """
    target, general = _open_target(graph, target, numerics), _general(shapes)
    store = cache.default()
    known = (general.symbols, general.hints, general.equal, general.answers, shapes.guards)
    key = cache.make_key(
        "open", printing.print_graph(graph, spans=False), *map(str, known), target.name,
        backends.backend_of(target).version(), __version__, driver.source_stamp(), numerics)
    found = driver.from_cache(store.get(key))
    if found is not None:
        return found
    with _deciding(general):
        optimized = _optimized(graph, general, target, numerics)
        made = _compile(optimized, general, shapes.guards, target, driver.Report())[0]
    store.put(key, made.to_bytes())
    return made


def compile_open_observed(
    graph: Graph, shapes: Shapes, observe: Observer, report: driver.Report,
    numerics: str = "strict",
) -> Program:
    """Compile a graph with symbolic sizes for this machine, past the cache.

    Args:
        observe: called with the name of each pass and the graph after it.

    Raises:
        Undecided: something must know a size.
    """
    target, general = _open_target(graph, None, numerics), _general(shapes)
    with _deciding(general):
        optimized = _optimized(graph, general, target, numerics, observe)
        return _compile(optimized, general, shapes.guards, target, report)[0]


def compile_open_objects(
    graph: Graph, shapes: Shapes, target: Target, numerics: str = "strict"
) -> tuple[Program, Built]:
    """As `compile_open`, with the objects that its code was linked from (`Built.objects`)."""
    target, general = _open_target(graph, target, numerics), _general(shapes)
    with _deciding(general):
        optimized = _optimized(graph, general, target, numerics)
        return _compile(optimized, general, shapes.guards, target, driver.Report())[:2]


def compile_open_profiled(
    graph: Graph, shapes: Shapes, sizes: Sizes, numerics: str = "strict"
) -> driver.Profiled:
    """Compile a graph with symbolic sizes into a program that records; its records are read at
    these sizes. Raises Undecided if something must know a size, or the program does not serve
    these."""
    target, general = _open_target(graph, None, numerics), _general(shapes)
    with _deciding(general):
        optimized = _optimized(graph, general, target, numerics)
        program, built, lowered = _compile(
            optimized, general, shapes.guards, target, driver.Report(), sizes)
    assert program.open is not None
    refusal = program.open.refusal(sizes)
    if refusal:
        raise Undecided(refusal)
    how = built.profile
    assert how is not None
    places, _ = program.open.arena.places(sizes)
    return driver.Profiled(
        replace(program.at(sizes), arena_bytes=how.arena), how.calls, how.start, how.capacity,
        lowered.buffers, {**sizes, **places})


def _open_target(graph: Graph, target: Target | None, numerics: str) -> Target:
    """The target of a program for all sizes. Raises Undecided if it has none."""
    target = backends.under(target, numerics) if target else backends.target_of(graph, numerics)
    if target.accelerator:
        raise Undecided(f"{target.name} has programs of known sizes only")
    return target


@contextmanager
def _deciding(shapes: Shapes) -> Iterator[None]:
    """Within the block code is made for all sizes. Raises Undecided: there is none."""
    with deciding(shapes):
        try:
            yield
        except (Undecided, CompilerBug):
            raise
        except Exception as e:  # code that was written for ints
            raise Undecided(f"there is no code for all sizes: {type(e).__name__}: {e}") from e


def _optimized(
    graph: Graph, shapes: Shapes, target: Target, numerics: str, observe: Observer | None = None
) -> tuple[Graph, Symbols]:
    """A copy of the graph after all passes, and the bounds of its symbols before that."""
    symbols = {name: (info.low, -1 if info.high is None else info.high)
               for name, info in shapes.symbols.items()}
    backends.backend_of(target).prepare(len(graph.nodes))
    given = instantiate(graph, shapes.equal)
    return driver.optimize(given, observe, numerics, target, in_place=True), symbols


def _general(shapes: Shapes) -> Shapes:
    """The facts about sizes, for code: what a trace assumed stays with the trace."""
    general = shapes.copy()
    general.general, general.guards = True, []
    for name, info in list(general.symbols.items()):
        if general.hints[name] < LEAST:
            raise Undecided(f"{name} is {general.hints[name]}")
        general.symbols[name] = replace(info, low=max(info.low, LEAST))
    return general


def _compile(
    made: tuple[Graph, Symbols], shapes: Shapes, assumed: Sequence[Guard], target: Target,
    report: driver.Report, recorded: Sizes | None = None,
) -> tuple[Program, Built, Lowered]:
    """The program of an optimized graph; with `recorded`, one that records when kernels ran, for
    these sizes."""
    optimized, symbols = made
    numbers = _take_numbers(optimized)
    with backends.backend_of(target).build(target) as build:
        lowered = driver.lower(optimized, target, build.add)
        arena = memory.plan_open((b for b in lowered.buffers if b.first >= 0), "arena_")
        ahead = memory.plan_open((b for b in lowered.precompute_buffers if b.first >= 0), "ahead_")
        lowered.sizes_at = -(-len(lowered.constants) // 64) * 64
        slots, messages = driver.program_slots(optimized, lowered), driver.messages_of(lowered)
        if not all(v.type.is_static for c in lowered.callbacks
                   for v in (*c.node.operands, *c.node.results)):
            raise Undecided("a function of the host is given a tensor of an open size")
        place = None if recorded is None else _plan(arena).places(recorded)[1]
        built = build.finish(lowered, place)
        driver.fill_report(report, lowered, built.kernels)
        if any(g.relation == "==" for g in shapes.guards) and any(map(shapes.known, symbols)):
            raise Undecided(f"the code serves one size: {', '.join(map(str, shapes.guards))}")
        scalars = tuple((lowered.scalars[v], dtype, number(x)) for v, (x, dtype) in numbers.items())
        opened = Open(
            symbols, tuple(_numbers(s.shape) for s in slots),
            tuple((g.relation, number(g.expr)) for g in (*assumed, *shapes.guards)),
            lowered.sizes_at, _numbers(shapes.table), scalars, _plan(arena), _plan(ahead),
            tuple(tuple((number(v.place), _numbers(v.shape)) for v in m.values) for m in messages))
        constants = bytes(lowered.constants) + bytes(
            lowered.sizes_at - len(lowered.constants) + 8 * len(shapes.table))
        program = driver.program_of(
            optimized.name, target, [_template(s) for s in slots], lowered, build, built,
            (constants, 0, 0), [_bare(m) for m in messages], opened)
        return program, built, lowered


def _take_numbers(graph: Graph) -> dict[Value, tuple[Any, DType]]:
    """Make an input of each number that follows from sizes; those numbers."""
    number_op = shape.Number.name
    graph.nodes = [made for node in graph.nodes for made in (*_lift_numbers(node), node)]
    numbers: dict[Value, tuple[Any, DType]] = {}
    table: dict[Value, Value] = {}
    for node in graph.nodes:
        if node.op == number_op:
            made = graph.add_input(node.result.type, f"number {len(numbers)}", SIZE)
            numbers[made] = node.attrs["value"], node.attrs["dtype"]
            table[node.result] = made
    for node in graph.nodes:
        node.operands = [table.get(v, v) for v in node.operands]
    graph.nodes = [n for n in graph.nodes if n.op != number_op]
    graph.outputs = [table.get(v, v) for v in graph.outputs]
    graph.updates = [(old, table.get(new, new)) for old, new in graph.updates]
    return numbers


def _lift_numbers(node: Node) -> list[Node]:
    """Let the graphs of a branch or a loop capture the numbers that they compute from sizes; the
    nodes that compute these, for the graph around."""
    if not any(n.op == shape.Number.name for region in node.regions for n in region.walk()):
        return []
    lifted: list[Node] = []
    regions = []
    for region in node.regions:
        copy = Graph(region.name)
        copy.outputs, _ = clone_into(
            Builder(copy), region, [copy.add_input(v.type, v.name, v.kind) for v in region.inputs])
        nodes = [made for n in copy.nodes for made in (*_lift_numbers(n), n)]
        lifted += [n for n in nodes if n.op == shape.Number.name]
        copy.nodes = [n for n in nodes if n.op != shape.Number.name]
        regions.append(copy)
    for copy in regions:
        table = {n.result: copy.add_input(n.result.type, f"size {i}") for i, n in enumerate(lifted)}
        for n in copy.nodes:
            n.operands = [table.get(v, v) for v in n.operands]
        copy.outputs = [table.get(v, v) for v in copy.outputs]
    node.operands = [*node.operands, *(n.result for n in lifted)]
    node.regions = tuple(regions)
    return lifted


def _template(slot: Slot) -> Slot:
    """A slot with a placeholder for each open size."""
    return replace(slot, shape=tuple(1 if is_symbolic(d) else d for d in slot.shape))


def _bare(message: Message) -> Message:
    """A message with placeholders for places and open sizes."""
    return replace(message, values=tuple(
        replace(v, place=0, shape=tuple(1 if is_symbolic(d) else d for d in v.shape))
        for v in message.values))


def _plan(plan: memory.OpenPlan) -> Plan:
    return Plan(plan.names, _numbers(plan.sizes), plan.below)


def _numbers(values: Sequence[Any] | dict[Any, int]) -> tuple[Number, ...]:
    return tuple(map(number, values))


def number(x: Any) -> Number:
    """A size, or a number that follows from sizes, as the runtime has it."""
    if type(x) is Ratio:
        return (x.op, *map(number, x.args))
    if not is_symbolic(x):
        return _within(x)
    return ("sum", *[(_within(factor), *map(_atom, monomial)) for monomial, factor in x.terms])


def size_of(x: Number) -> Any:
    """The inverse of `number`."""
    if type(x) is not tuple:
        return x
    if x[0] != "sum":
        return compute(x[0], *map(size_of, x[1:]))
    total: Any = 0
    for factor, *atoms in x[1:]:
        part: Any = factor
        for atom in atoms:
            part = part * _size_of_atom(atom)
        total = total + part
    return total


def _size_of_atom(atom: Any) -> Any:
    if type(atom) is str:
        return Dim.symbol(atom)
    args = tuple(map(size_of, atom[1:]))
    return divide(*args) if atom[0] == "//" else applied(atom[0], *args)


def _within(x: Any) -> Any:
    """A number that a file may hold."""
    if not -MOST <= x <= MOST:
        raise Undecided(f"the number {x} is too large")
    return x


def _atom(atom: Any) -> Any:
    if isinstance(atom, str):
        return atom
    if isinstance(atom, Applied):
        return (atom.function, *map(number, atom.args))
    return "//", number(atom.numerator), number(atom.divisor)
