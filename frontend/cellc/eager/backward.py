"""The gradient of a recording as one compiled program.

A training step records the same ops again and again. Their backward pass is built once for a
structure (ops, attributes, types, what is wanted) and compiled whole: the bits are those of the
ops run one by one, by the law of two modes. A structure that comes for the first time is compiled
at once if it is long, unless others of its kind were compiled and never came back.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from cellc_compiler.ir.graph import Builder, Graph, Node, Value
from cellc_compiler.ir.op import lookup
from cellc_compiler.ir.types import seedable
from cellc_runtime.executable import Executable
from cellc_runtime.forks import renewed
from cellc_runtime.lazy import lazy_imports
from cellc_runtime.records import dataclass

from ..core import device as devices
from ..core import watching
from ..core.later import autodiff, driver
from ..core.lru import LRU
from ..tensors.tensor import Tensor, Tensors, arrays_of, result_of
from ..tracing.tracer import Tracer

if TYPE_CHECKING:
    from .recorder import Recording
    from .reductions import Reduction
with lazy_imports(__name__):  # what trains on several processes asks
    from . import reductions

_LONG = 6  # Steps from which a structure is compiled when it comes for the first time
_MUCH = 64 << 20
"""Bytes of what was recorded from which on a short one is too: op by op, each cotangent is an array
of its own."""
_UNPROVEN = 3  # Structures that may be compiled without any of them having come twice
_KEPT = 128  # Structures that are kept for certain
_NEW: Any = object()


@dataclass(slots=True)
class _Plan:
    """A compiled backward pass."""

    executable: Executable | None
    reads: list[int]  # numbers of the recorded values that it reads, after the cotangents given
    # for each value wanted, which output is its cotangent; None if there is no path
    places: list[int | None]
    count: int


class _Plans:
    """Compiled passes by structure; None for one that came once and was not compiled."""

    def __init__(self) -> None:
        self._lock = renewed(threading.Lock())
        self._plans: LRU[Any, _Plan | None] = LRU(_KEPT)
        self._unproven: set[Any] = set()

    def find(self, key: Any, recording: Recording) -> tuple[_Plan | None, bool]:
        """The plan of a structure, and whether one should be made now."""
        with self._lock:
            plan = self._plans.get(key, _NEW)
            if plan is not _NEW:
                self._unproven.discard(key)
                return plan, plan is None
            self._plans[key] = None
            self._unproven = {k for k in self._unproven if k in self._plans}
            if not _worth_it(recording) or len(self._unproven) >= _UNPROVEN:
                return None, False
            self._unproven.add(key)
            return None, True

    def put(self, key: Any, plan: _Plan) -> None:
        """Keep a plan."""
        with self._lock:
            self._plans[key] = plan


def _worth_it(recording: Recording) -> bool:
    """Whether a structure is compiled when it comes for the first time."""
    return recording.size() >= _LONG or \
        sum(t._type.nbytes for t in recording.tensors) >= _MUCH


_plans = _Plans()


def run(
    recording: Recording, seeds: Sequence[int | None], sens: Tensors | None,
    wanted: Sequence[int], last: bool = False, passing: Sequence[Reduction] = (),
) -> list[Tensor | None] | None:
    """The cotangents of the wanted values by a compiled pass, or None to run it op by op.

    Args:
        last: nobody needs the recording any more.
        passing: what happens to cotangents before they are given.
    """
    key: Any = _key(recording, seeds, sens, wanted)
    if passing:
        state = arrays_of(reductions.states_of(passing))
        key = *key, *[r.key for r in passing], *[(a.shape, a.dtype) for a in state]
    plan, make = _plans.find(key, recording)
    if plan is None:
        if not make:
            return None
        plan = _make(recording, seeds, sens, wanted, passing)
        _plans.put(key, plan)
    if plan.executable is None:
        return None if plan.count < 0 else [None] * len(wanted)
    given = arrays_of(sens or ())
    if passing:
        given += arrays_of(reductions.states_of(passing))
    arrays = arrays_of(map(recording.tensors.__getitem__, plan.reads))
    if last:
        recording.release()
    out = plan.executable.entry(*given, *arrays)
    results = [result_of(a) for a in (out if plan.count > 1 else (out,))]
    return [results[p] if p is not None else None for p in plan.places]


def _key(
    recording: Recording, seeds: Sequence[int | None], sens: Tensors | None, wanted: Sequence[int]
) -> Any:
    tensors = recording.tensors
    steps = [
        (s.applied.number if s.applied is not None else -1, *s.operands, s.results[0])
        for s in recording.steps
    ]
    inputs = arrays_of(map(tensors.__getitem__, recording.inputs))
    types = [(n, a.shape, a.dtype) for n, a in zip(recording.inputs, inputs, strict=True)]
    given = None if sens is None else tuple([(a.shape, a.dtype) for a in arrays_of(sens)])
    return tuple(steps), tuple(types), tuple(seeds), given, tuple(wanted), devices.current()


def _make(
    recording: Recording, seeds: Sequence[int | None], sens: Tensors | None, wanted: Sequence[int],
    passing: Sequence[Reduction],
) -> _Plan:
    nodes, values, _ = recording.graph()
    tracer = Tracer("backward")
    graph, b = tracer.graph, tracer.regions[0].builder
    cotangents: autodiff.Cotangents = {}
    for i, number in enumerate(seeds):
        given = None if sens is None else graph.add_input(sens[i]._type, f"sens{i}")
        if number is not None and seedable(values[number].type):
            value = values[number]
            seed = given if given is not None else b.full(value.type, 1)
            autodiff.accumulate(b, cotangents, value, seed)
    asked = [values[n] for n in wanted]
    found = autodiff.reverse(b, nodes, cotangents, asked)
    if any(lookup(node.op).effect for node in graph.walk()):
        return _Plan(None, [], [], -1)
    if passing:
        found = reductions.traced(tracer, passing, found)
    outputs, places = distinct(found)
    reads = closed(graph, values, outputs)
    if not outputs:
        return _Plan(None, [], places, 0)
    executable = Executable(driver.compile_program(graph))
    return _Plan(executable, reads, places, len(outputs))


# --- other derivatives ---------------------------------------------------------------------------

Build = Callable[[Builder, Sequence[Node], Sequence[Value], Sequence[Value], Sequence[Value]],
                 list[Value]]
"""(builder, recorded nodes, values asked for, results to start from, given values) -> outputs."""


@dataclass(slots=True)
class Derived:
    """A graph made of a recording."""

    graph: Graph
    reads: list[int]  # numbers of the recorded values that it reads, after those given
    executable: Executable | None = None

    def run(self, recording: Recording, given: Tensors) -> list[Tensor]:
        """The outputs, by a compiled program."""
        if self.executable is None:
            self.executable = watching.active[-1].executable(self.graph) if watching.active else \
                Executable(driver.compile_program(self.graph))
        arrays = arrays_of(self.operands(recording, given))
        return [result_of(a) for a in self.executable.call(arrays)]

    def operands(self, recording: Recording, given: Tensors) -> list[Tensor]:
        """Return the tensors for the inputs of the graph."""
        return [*given, *(recording.tensors[n] for n in self.reads)]


_derived: LRU[Any, Derived] = LRU(_KEPT)


def derived(
    kind: str, recording: Recording, seeds: Sequence[int], given: Tensors,
    wanted: Sequence[int], build: Build,
) -> Derived:
    """A graph made of a recording without custom rules, once for each structure.

    Args:
        kind: of what is made: with the structure it says all that `build` depends on.
        seeds, wanted: numbers of results to start from and of values asked for.
        given: inputs of the graph besides recorded values.
        build: gives the outputs.
    """
    recording.absorb()
    key = kind, _key(recording, seeds, given, wanted)
    found = None if watching.active else _derived.get(key)
    if found is None:
        nodes, values, _ = recording.graph()
        graph = Graph(kind)
        more = [graph.add_input(t._type, f"given{i}") for i, t in enumerate(given)]
        outputs = build(Builder(graph), nodes, [values[n] for n in wanted],
                        [values[n] for n in seeds], more)
        found = Derived(graph, closed(graph, values, outputs))
        if not watching.active:  # (what is compiled with taps names the lines of this call)
            _derived[key] = found
    return found


def distinct(grads: Sequence[Value | None]) -> tuple[list[Value], list[int | None]]:
    """The distinct ones of some cotangents, and the place of each of all."""
    found: dict[Value, int] = {}
    places: list[int | None] = []
    for grad in grads:
        places.append(None if grad is None else found.setdefault(grad, len(found)))
    return list(found), places


def closed(graph: Graph, values: Sequence[Value], outputs: Sequence[Value]) -> list[int]:
    """Complete a backward graph: its outputs, and inputs for what it reads of these values.

    Returns:
        The numbers of the values it reads, in the order of its inputs.
    """
    numbers = {v: n for n, v in enumerate(values)}
    needed: set[Value] = set(outputs)
    for node in reversed(graph.nodes):
        if any(r in needed for r in node.results):
            needed.update(node.operands)
    table: dict[Value, Value] = {}
    reads: list[int] = []
    first: list[Node] = []

    def inside(v: Value) -> Value:
        number = numbers.get(v)
        if number is None:
            return v
        if v in table:
            return table[v]
        if _turns_an_input(v.node):
            assert v.node is not None
            copy = Node(v.node.op, [inside(v.node.operands[0])], v.node.attrs)
            table[v] = Value(v.type, copy, 0)
            copy.results = (table[v],)
            first.append(copy)
        else:
            table[v] = graph.add_input(v.type, f"x{number}")
            reads.append(number)
        return table[v]

    graph.nodes = [n for n in graph.nodes if any(r in needed for r in n.results)]
    for node in graph.nodes:
        node.operands = [inside(v) for v in node.operands]
    graph.outputs = [inside(v) for v in outputs]
    graph.nodes = first + graph.nodes
    return reads


def _turns_an_input(node: Node | None) -> bool:
    """Whether a recorded node is the transpose of what was there before, most likely a weight:
    products read that as well as its transpose, which may not be made yet."""
    return node is not None and node.op == "transpose" and node.operands[0].node is None
