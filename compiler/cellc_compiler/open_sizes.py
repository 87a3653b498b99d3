"""Programs for all sizes: a graph with symbolic sizes compiled once.

Passes, fusion, lowering and kernels are those of known sizes. Where they ask about a size, the
answer is assumed and becomes a guard (`ir/dims.py`); where they write one, the code reads it from a
table (`cellc_runtime.open_sizes`). So a program for certain sizes is the same code with another
table: nothing is compiled. Its bits are those of a program for known sizes, because the order of
additions follows from the same questions, or from numbers of the table.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cellc_runtime import cache
from cellc_runtime.dtypes import DType
from cellc_runtime.open_sizes import MOST, Number, Open, Plan
from cellc_runtime.program import Message, Program, Slot
from cellc_runtime.records import replace
from cellc_runtime.target import Target

from . import __version__, backends, driver
from .build.objects import CompilerBug
from .ir import printing
from .ir.dims import Applied, Ratio, Undecided, deciding, is_symbolic
from .ir.graph import Graph, Value
from .ir.shapes import Guard, Shapes
from .lower import memory
from .ops import shape
from .passes.instantiate import instantiate

LEAST = 2
"""The least size that a program for all sizes serves: 0 and 1 are compiled by themselves."""
SIZE = "size"
"""The kind of a graph's input that is a number which follows from sizes."""


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
    target = backends.under(target, numerics) if target else backends.target_of(graph, numerics)
    if target.accelerator:
        raise Undecided(f"{target.name} has programs of known sizes only")
    general, store = _general(shapes), cache.default()
    known = (general.symbols, general.hints, general.equal, general.answers, shapes.guards)
    key = cache.make_key(
        "open", printing.print_graph(graph, spans=False), *map(str, known), target.name,
        backends.backend_of(target).version(), __version__, driver.source_stamp(), numerics)
    found = driver.from_cache(store.get(key))
    if found is not None:
        return found
    with deciding(general):
        try:
            made = _compile(graph, general, shapes.guards, target, numerics)
        except (Undecided, CompilerBug):
            raise
        except Exception as e:  # code that was written for ints
            raise Undecided(f"there is no code for all sizes: {type(e).__name__}: {e}") from e
    store.put(key, made.to_bytes())
    return made


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
    graph: Graph, shapes: Shapes, assumed: Sequence[Guard], target: Target, numerics: str
) -> Program:
    symbols = {name: (info.low, -1 if info.high is None else info.high)
               for name, info in shapes.symbols.items()}
    backend = backends.backend_of(target)
    backend.prepare(len(graph.nodes))
    optimized = driver.optimize(instantiate(graph, shapes.equal), numerics=numerics,
                                target=target, in_place=True)
    numbers = _take_numbers(optimized)
    with backend.build(target) as build:
        lowered = driver.lower(optimized, target, build.add)
        arena = memory.plan_open((b for b in lowered.buffers if b.first >= 0), "arena_")
        ahead = memory.plan_open((b for b in lowered.precompute_buffers if b.first >= 0), "ahead_")
        lowered.sizes_at = -(-len(lowered.constants) // 64) * 64
        slots, messages = driver.program_slots(optimized, lowered), driver.messages_of(lowered)
        if not all(v.type.is_static for c in lowered.callbacks
                   for v in (*c.node.operands, *c.node.results)):
            raise Undecided("a function of the host is given a tensor of an open size")
        built = build.finish(lowered)
        if any(g.relation == "==" for g in shapes.guards):
            raise Undecided(f"the code serves one size: {', '.join(map(str, shapes.guards))}")
        scalars = tuple((lowered.scalars[v], dtype, number(x)) for v, (x, dtype) in numbers.items())
        opened = Open(
            symbols, tuple(_numbers(s.shape) for s in slots),
            tuple((g.relation, number(g.expr)) for g in (*assumed, *shapes.guards)),
            lowered.sizes_at, _numbers(shapes.table), scalars, _plan(arena), _plan(ahead),
            tuple(tuple((number(v.place), _numbers(v.shape)) for v in m.values) for m in messages))
        constants = bytes(lowered.constants) + bytes(
            lowered.sizes_at - len(lowered.constants) + 8 * len(shapes.table))
        return driver.program_of(
            graph.name, target, [_template(s) for s in slots], lowered, build, built,
            (constants, 0, 0), [_bare(m) for m in messages], opened)


def _take_numbers(graph: Graph) -> dict[Value, tuple[Any, DType]]:
    """Make an input of each number that follows from sizes; those numbers.

    Raises:
        Undecided: a branch or a loop has such a number.
    """
    number_op = shape.Number.name
    if any(n.op == number_op for node in graph.nodes for r in node.regions for n in r.walk()):
        raise Undecided("a branch or a loop computes with a size")
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
