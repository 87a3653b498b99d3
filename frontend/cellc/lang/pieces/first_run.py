"""A call run while it is traced, as far as a piece needs it.

The result of a piece is known when it has run, so the first call runs its pieces while it is
traced: the graph's earlier part is computed op by op, with the elements of this call, and prints
and other calls of Python happen in their order. In a branch that this call does not take nothing
runs; of a loop the first trip runs while its body is traced.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import contextmanager

from cellc_compiler.ir.graph import Node, Value
from cellc_compiler.ir.op import has_effect
from cellc_runtime.records import dataclass, field

from ...calls.callbacks import checked, print_parts
from ...calls.pieces import CallLog, Piece, label
from ...calls.replay import run_node
from ...core.dispatch import Scope, like, tracing
from ...eager.recorder import paused
from ...tensors.tensor import Tensor, Tensors, copy_of, tensor_of
from ...tracing.tracer import Entered, GraphTensor, Region, Tracer

_PLAIN = Scope(None, None, None, None)


class NotAhead(Exception):
    """The traced part cannot run ahead; `hint` says what to do."""

    def __init__(self, reason: str, hint: str) -> None:
        super().__init__(reason)
        self.hint = hint


@dataclass(slots=True)
class _Level:
    """How far a graph under construction has been run."""

    region: Region
    runs: bool  # whether this call comes here
    start: int  # in the log of the call; `place`: how far it has come
    place: int = 0
    # nodes that have run, and the place after them
    done: dict[Node, int] = field(default_factory=dict)


class FirstRun:
    """The values of a trace in the call that it is made for.

    Args:
        inputs: the tensors of the graph's inputs, so far.
        changes: gives the numbers of the functions that do what the trace itself has done to Python
            objects: the program will do it.
    """

    def __init__(
        self, tracer: Tracer, call: CallLog, inputs: Tensors,
        changes: Callable[[], Container[int]],
    ) -> None:
        self.tracer, self.call, self.changes = tracer, call, changes
        self.values: dict[Value, Tensor] = dict(zip(tracer.graph.inputs, inputs, strict=True))
        self.levels: dict[int, _Level] = {}

    def here(self) -> bool:
        """Run all that was traced so far; whether the call comes here.

        Raises:
            NotAhead: that cannot be said.
        """
        with self._eagerly():
            level = None
            for depth in range(len(self.tracer.regions)):
                level = self._level(depth, level.place if level is not None else 0)
                if not level.runs:
                    return False
                self._advance(level)
        return True

    def result(self, piece: Piece, operands: Sequence[Tensor]) -> object:
        """Return a piece's result at the present place; `here` was true for these operands."""
        level = self.levels[id(self.tracer.regions[-1])]
        self.call.place = level.place
        values = [self.values[self.tracer.lift(t)] for t in operands]
        with self._eagerly():
            found = piece.result(values)
        level.place = self.call.place
        return found

    def gave(self, node: Node, leaves: Tensors) -> None:
        """A node that has run gave these."""
        level = self.levels[id(self.tracer.regions[-1])]
        level.done[node] = level.place
        self.values.update(zip(node.results, leaves, strict=True))

    @contextmanager
    def _eagerly(self) -> Iterator[None]:
        with tracing(None), like(_PLAIN), paused():
            yield

    # --- graphs under construction ----------------------------------------------------------------

    def _level(self, depth: int, place: int) -> _Level:
        region = self.tracer.regions[depth]
        level = self.levels.get(id(region))
        if level is None or level.region is not region:
            runs = True if depth == 0 else self._entered(region, depth - 1, place)
            level = self.levels[id(region)] = _Level(region, runs, place)
            beside = region.entered.beside if region.entered is not None else None
            if beside is not None and runs:
                level.start = self.levels[id(beside)].place
        return level

    def _entered(self, region: Region, around: int, place: int) -> bool:
        """Whether a run reaches a nested graph, whose inputs then have values."""
        how = region.entered
        if how is None:
            raise NotAhead("it stands in a function that an op calls in a way of its own",
                           "call it outside of the function that the op is given")
        self._give(region, how.given, around)
        test = how.test
        if test is None:
            return True
        if how.beside is None:
            known = self._outer([test], around)[0]
        else:
            self._beside(how, around, place)
            known = self.values[test.ir_value] if isinstance(test, GraphTensor) else test
        return bool(known.item()) == how.wanted

    def _beside(self, how: Entered, around: int, place: int) -> None:
        """Run the test of a loop."""
        region = how.beside
        assert region is not None
        level = self.levels.get(id(region))
        if level is None or level.region is not region:
            self._give(region, how.given, around)
            level = self.levels[id(region)] = _Level(region, True, place)
        self._advance(level)

    def _outer(self, tensors: Tensors, around: int) -> list[Tensor]:
        """The values of tensors in the graph around."""
        found = [self.tracer.lift(t, around) for t in tensors]
        self._advance(self.levels[id(self.tracer.regions[around])])
        return [self.values[v] for v in found]

    def _give(self, region: Region, given: Tensors, around: int) -> None:
        """Set the inputs of a graph to what the graph around it gives for them."""
        self.values.update(zip(region.graph.inputs, self._outer(given, around), strict=False))

    def _advance(self, level: _Level) -> None:
        """Run what was added to a graph since it was last run."""
        for tensor, value in self.tracer.parameters.items():
            self.values.setdefault(value, tensor)
        for outer, inner in level.region.captures.items():
            self.values.setdefault(inner, self.values[outer])
        self.call.place = level.start  # (nodes may have been taken back since)
        for node in list(level.region.graph.nodes):
            if node in level.done:
                self.call.place = level.done[node]
            else:
                if node.op == "measure" or (node.op == "scan" and has_effect(node)):
                    raise _cannot(node)
                results = run_node(node, [self.values[v] for v in node.operands], self._effect)
                self.values.update(zip(node.results, results, strict=True))
                level.done[node] = self.call.place
        level.place = self.call.place

    def _effect(self, node: Node, operands: list[Tensor]) -> Tensors:
        """A node that calls Python."""
        if node.op == "print":
            self.call.once(label(node), lambda: print_parts(node.attrs["parts"], operands))
            return []
        if node.attrs["number"] in self.changes():
            return []
        function = self.tracer.functions[node.attrs["number"]]
        if isinstance(function, Piece):
            return list(function(*operands))
        types = [r.type for r in node.results]
        copies = [copy_of(t) for t in operands]
        made = self.call.once(label(node), lambda: [
            a.copy() for a in checked(label(node), function(*copies), types)])
        return [tensor_of(a) for a in made]


def _cannot(node: Node) -> NotAhead:
    """The error for a node that cannot be run ahead."""
    if node.op == "measure":
        return NotAhead("a size follows from elements before it",
                        "use a form of fixed shape (where, masked_fill), or numpy for both")
    return NotAhead("a loop of known length calls Python before it",
                    "print or call Python after it")
