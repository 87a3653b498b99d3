"""Calls of Cells and functions as graphs."""

from __future__ import annotations

import functools
import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from cellc_compiler.ir.dims import Met, deciding
from cellc_compiler.ir.graph import Graph
from cellc_compiler.ir.op import has_effect
from cellc_compiler.ir.shapes import Guard, Shapes
from cellc_compiler.ir.types import TensorType
from cellc_runtime.lazy import lazy_imports
from cellc_runtime.records import dataclass, field

from ..core.dispatch import tracing
from ..core.invalidation import Stale, watch
from ..core.later import construct_checks
from ..core.module_names import function_name, module_of, plain
from ..tensors import views
from ..tensors.parameter import Parameter
from ..tensors.tensor import OpenTensor, Tensor, elements_of, ir_type
from ..tracing.arguments import copied, shared
from ..tracing.pytree import Box, Leaf, Structure, made_anew, take_apart, take_apart_call
from ..tracing.reads import Read, Reads, same
from ..tracing.tracer import Tracer
from .causes import Cause, of_read
from .dynamic import parameter_names

if TYPE_CHECKING:
    from cellc_runtime.program import Program

    from ..calls.pieces import CallLog
    from ..tracing.guards import Guards
    from ..tracing.python_state import PythonState
    from .found_sizes import OpenStages
with lazy_imports(__name__):  # the construct compiler loads with the first network it compiles
    from .. import lang
    from ..calls import pieces


@dataclass(slots=True)
class Traced:
    """A call as a graph.

    Attributes:
        graph: inputs are the tensors of the arguments, then parameters and state.
        inputs: positions among the graph's inputs of the arguments' tensors.
        parameters: the parameter (or large constant) of each other input, in order.
        out: the structure of the result.
        attributes: what was read of objects; `reads` all that was read from outside.
        functions: the Python functions that the graph calls, by number.
    """

    graph: Graph
    arguments: int
    parameters: list[Tensor]
    out: Structure
    attributes: list[tuple[Any, str]]
    reads: list[Read]
    functions: list[Callable[..., Any]] = field(default_factory=list)
    flag: Stale = field(default_factory=Stale)
    guards: list[Guard] = field(default_factory=list)
    state: PythonState | None = None  # Its effects on Python objects
    budget: int | None = None
    """Bytes for temporaries where gradients are computed: the least that a Cell in it asks for."""
    pieces: tuple[tuple[str, str], ...] = ()
    """The parts of each call that Python runs, and their places."""
    changes: frozenset[int] = frozenset()
    """The numbers of the functions that make its changes of Python objects."""
    root: Any = None
    """The Cell that the paths of nodes begin in, which they leave out; None without one."""
    roots: list[tuple[str, Any]] = field(default_factory=list)
    """The Cells that no other one owns, with what the paths of their nodes begin with."""
    asked: Mapping[str, Met] = field(default_factory=dict)
    """Where sizes that follow from elements are asked for, by symbol."""
    written: tuple[int, ...] = ()
    """Which tensors of the arguments it changes in place: their new values are results, too."""
    layouts: str = ""
    """How its values lie on the ranks, and what moves between them; empty: it is not cut."""
    returned: bool = False  # Whether its result has containers of the arguments in it
    program: Program | None = None  # A program for all sizes, at the sizes of this call
    read_guards: Guards | None = None  # Those of `reads` that all sizes share; None: its own
    shapes: Shapes = field(default_factory=Shapes)  # The symbols of the trace
    sizes: Mapping[str, int] = field(default_factory=dict)
    """The open sizes of this call, of a trace with symbols for them."""
    stages: OpenStages | None = None
    """The stages of all such calls, if sizes follow from elements."""

    def out_of_date(self) -> Cause | None:
        """Why what was traced does not hold any more, as far as that is known."""
        for read in self.reads:
            if read.changed() or (read.watched and not same(read.now(), read.value)):
                return of_read(read)
        if self.flag.cause:
            return Cause("attribute", self.flag.cause)
        moved = self.state.moved if self.state is not None else ""
        return Cause("state", moved) if moved else None

    def fed(self, arrays: list[Any]) -> list[Any]:
        """Return the program's inputs for the arrays of a call's arguments."""
        return arrays if self.state is None else [*arrays, *self.state.arrays()]

    def of_arguments(self, fed: Sequence[Any]) -> list[Any]:
        """The arrays of a call's arguments among those that the program takes."""
        return list(fed[: len(fed) - (0 if self.state is None else len(self.state.inputs))])


def trace(
    fn: Any, args: Sequence[Any], kwargs: Mapping[str, Any],
    types: Sequence[TensorType] | None = None, shapes: Shapes | None = None, called: bool = False,
    call: CallLog | None = None, known: lang.Known | None = None,
    arrays: Sequence[Any] | None = None,
) -> Traced:
    """Trace a call of a Cell or function into a graph.

    Args:
        types: instead of those of the arguments' tensors: with symbols of `shapes`.
        called: arguments that are changed in place become results, for the caller's tensors.
        call: is made for these arguments: what only Python can do is done while it is traced, and
            by Python in each call of the program. Without it, that is an error.
        known: what is known of that from earlier calls.
        arrays: the elements of the arguments' tensors, where these have none.

    Raises:
        CompileError: an error in the network (of the builtin kind it is of).
    """
    state, shapes = lang.State(), shapes or Shapes()
    first, refuted = shapes.copy(), set[int]()
    while True:
        try:
            traced = _traced_once(
                fn, args, kwargs, types, shapes, state, called, call, known, arrays)
            again = state.retraced(None)
            if again is None:
                return traced
        except Exception as e:
            again = state.retraced(e) or _with_found_sizes(shapes) or _guessed_alike(shapes) \
                or _otherwise(shapes, refuted)
            if again is None:
                raise
        except pieces.Failed as e:
            raise e.error from None
        state = again
        shapes.restore(first)


def _with_found_sizes(shapes: Shapes) -> lang.State | None:
    """The state to trace with once more, if sizes that the run finds were guessed wrong: an error
    may follow from that (`ops.masked_select(x, mask) + y`)."""
    with deciding(shapes):
        shapes.foreseen = shapes.foresee()
    guesses = [shapes.hints[s] for s in shapes.asked]
    if shapes.foreseen in ([], guesses, shapes.measured):
        return None
    shapes.measured = shapes.foreseen
    return lang.State()


def _guessed_alike(shapes: Shapes) -> lang.State | None:
    """The state to trace with once more, if sizes that the run finds were guessed to differ: they
    may have to be equal (`x[mask, other]`)."""
    guesses = [shapes.hints[s] for s in shapes.asked]
    least = max(min(guesses, default=0), 1)
    if len(set(guesses)) < 2 or least >= shapes.largest_guess:
        return None
    shapes.largest_guess = least
    return lang.State()


def _otherwise(shapes: Shapes, refuted: set[int]) -> lang.State | None:
    """The state to trace with once more, if a condition that nobody can work out now was guessed:
    the branch that was taken may not fit the inputs, and the other one may.

    Args:
        refuted: numbers of the conditions that were answered otherwise before.
    """
    if shapes.foreseen:
        return None
    infos = [shapes.symbols[s] for s in shapes.asked]
    last = max((i for i, info in enumerate(infos)
                if (info.low, info.high) == (0, 1) and i not in refuted), default=None)
    if last is None:
        return None
    refuted.add(last)
    guesses = [shapes.hints[s] for s in shapes.asked]
    shapes.measured = [*guesses[:last], 1 - guesses[last]]
    return lang.State()


def _traced_once(
    fn: Any, args: Sequence[Any], kwargs: Mapping[str, Any],
    types: Sequence[TensorType] | None, shapes: Shapes, state: lang.State, called: bool,
    call: CallLog | None, known: lang.Known | None, arrays: Sequence[Any] | None,
) -> Traced:
    structure, leaves = take_apart_call(args, kwargs)
    tracer = Tracer(function_name(fn))
    # (Of a gradient itself, or of a training step of the library.)
    tracer.ends_with_gradient = plain(fn, "transformed") is not None or \
        module_of(type(fn)).startswith("cellc.")
    names = argument_names(fn, structure)
    given = types or [ir_type(t) for t in leaves]
    inputs = [tracer.input(ty, names[i]) for i, ty in enumerate(given)]
    before = [t.ir_value for t in inputs]
    shapes.where, shapes.expression = tracer.place, tracer.expression
    outside = Reads(lang.position)
    with tracing(tracer):
        call_args, call_kwargs = copied(structure, inputs, shared((args, kwargs)))
    state.argument((call_args, call_kwargs))
    try:
        places = state.begin(tracer)
        python = _pieces(tracer, leaves, state, call, known)
        hooks = lang.Hooks(
            reads=outside, state=state, pieces=python, called=called,
            elements=None if not arrays and any(isinstance(t, OpenTensor) for t in leaves) else
            lambda: [*(arrays or map(elements_of, leaves)), *map(elements_of, state.first_values)],
        )
        with deciding(shapes), nullcontext() if call is None else pieces.running(call):
            # (It computes by the reference interpreter: only for an error that nothing else mends.)
            shapes.foresee = lambda: lang.foresee(tracer, hooks.elements, shapes.asked)
            result = lang.interpret_call(tracer, fn, call_args, call_kwargs, hooks)
            shapes.foresee = list  # (the program must not hold the arguments)
            written = tuple(i for i, (t, value) in enumerate(zip(inputs, before, strict=True))
                            if called and t.ir_value is not value)
            if written:
                result = views.Written(result, {i: inputs[i] for i in written})
            out, outputs = take_apart(result, (), state.origin if called else made_anew)
            with tracing(tracer):
                graph = tracer.finish(outputs)
    finally:
        state.undo()
    reads = outside.finish()
    changed = state.finish(places, reads)
    order = {v: p for p, v in tracer.parameters.items()}
    parameters = [order[v] for v in graph.inputs if v in order]
    shaped = [(p, "shape") for p in parameters if isinstance(p, Parameter)]
    attributes = [*state.own_attributes(list(outside.attributes.values())), *shaped]
    traced = Traced(graph, len(leaves) + len(places), parameters, out, attributes, reads,
                    tracer.functions, guards=shapes.guards, shapes=shapes, state=changed,
                    budget=tracer.budget, root=tracer.root, roots=tracer.roots, asked=shapes.asked,
                    written=written, returned=state.returned_arguments)
    if python is not None:
        traced.pieces, traced.changes = tuple(python.found), state.changes()
        _warn_of_numpy(function_name(fn), traced.pieces)
    if result is None and not (graph.results() or changed) and graph.nodes and not any(
            map(has_effect, graph.nodes)):
        logging.getLogger("cellc").warning(construct_checks.NO_RETURN, function_name(fn))
    watch(traced.attributes, traced.flag)
    return traced


@functools.cache  # once: a call that meets Python is traced again
def _warn_of_numpy(network: str, pieces: tuple[tuple[str, str], ...]) -> None:
    """Say that numpy computes with tensors, and what to write if gradients are to pass."""
    for what, where in pieces:
        if what.startswith("numpy."):
            name = what.removeprefix("numpy.").removesuffix("()")
            known = hasattr(sys.modules.get("cellc.ops"), name)
            logging.getLogger("cellc").warning(
                construct_checks.RUN_BY_NUMPY, network, what, where,
                f"; ops.{name} is compiled" if known else "")


def _pieces(
    tracer: Tracer, leaves: Sequence[Tensor], state: lang.State, call: CallLog | None,
    known: lang.Known | None,
) -> lang.Pieces | None:
    """Return the pieces that let Python do its part, for a call that is made."""
    if call is None:
        return None
    call.again()
    first = lang.FirstRun(tracer, call, [*leaves, *state.first_values], state.changes)
    return lang.Pieces(first, known if known is not None else lang.Known())


def argument_names(fn: Any, structure: Structure) -> list[str]:
    """Readable names of the inputs: those of `construct` where an argument is one tensor."""
    names = parameter_names(fn)
    out: list[str] = []

    def walk(part: Structure, name: str) -> None:
        if isinstance(part, Leaf):
            out.append(name if name not in out else f"{name}.{part.number}")
        elif isinstance(part, Box):
            for i, p in enumerate(part.parts):
                walk(p, f"{name}.{part.keys[i] if part.keys else i}")

    assert isinstance(structure, Box)
    positional, keyword = structure.parts
    assert isinstance(positional, Box) and isinstance(keyword, Box)
    for i, part in enumerate(positional.parts):
        walk(part, names[i] if i < len(names) else f"x{i}")
    for key, part in zip(keyword.keys, keyword.parts, strict=True):
        walk(part, str(key))
    return out
