"""Graph mode: calls of Cells and functions, compiled once per signature.

The signature is the structure of the arguments, the types of their tensors and the values known
at compile time. An entry holds what was compiled for one signature and the parameters bound to
it; it goes stale when an attribute or global that was read while compiling changes.
"""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from cellc_compiler.driver import callback_name, compile_program
from cellc_compiler.ir.dims import Guard, Met, Shapes, deciding
from cellc_compiler.ir.graph import Graph
from cellc_compiler.ir.types import TensorType
from cellc_runtime.executable import Executable
from cellc_runtime.forks import in_child, renewed
from cellc_runtime.lazy import lazy_module
from cellc_runtime.prepacking import Source
from cellc_runtime.records import dataclass, field
from cellc_runtime.world import world

from .. import context
from ..calls import budget as budgets
from ..calls.callbacks import host_callbacks
from ..core import device as devices
from ..core import observers, timeline, watching
from ..core.dispatch import tracing
from ..core.invalidation import Stale, watch
from ..core.lru import LRU
from ..core.module_names import function_name, plain
from ..storage import device as on_device
from ..storage import storage_of, writes
from ..tensors import views
from ..tensors.tensor import OpenTensor, Tensor, arrays_of, elements_of, result_of, tensor_of
from ..tracing import guards
from ..tracing.arguments import copied, shared
from ..tracing.exceptions import ERRORS
from ..tracing.numbers import input_of
from ..tracing.pytree import (
    Box,
    Leaf,
    Structure,
    made_anew,
    put_together,
    take_apart,
    take_apart_call,
)
from ..tracing.reads import Read, Reads, same
from ..tracing.tracer import Tracer
from . import sites
from .batches import OWN, BatchedEntry
from .causes import Cause, Facet, called_at, facets, of_call, of_function, of_read
from .dynamic import Dynamic, closed_instead, open_key, parameter_names
from .entry import Entry
from .signatures import describe_call, form_of
from .staged import StagedEntry, is_staged

if TYPE_CHECKING:
    import logging

    from .. import lang
    from ..calls import pieces
    from ..calls.pieces import CallLog
    from ..core import progress
    from ..ranks import settings
    from ..storage import prepacked
    from ..tracing.python_state import PythonState
    from . import pieces as python_entries
    from . import pipelines, sharding
else:  # the construct compiler loads with the first network it compiles
    prepacked = lazy_module("cellc.storage.prepacked")
    logging = lazy_module("logging")
    lang = lazy_module("cellc.lang")
    progress = lazy_module("cellc.core.progress")
    pieces = lazy_module("cellc.calls.pieces")
    python_entries = lazy_module("cellc.compiled.pieces")
    pipelines = lazy_module("cellc.compiled.pipelines")
    sharding = lazy_module("cellc.compiled.sharding")
    settings = lazy_module("cellc.ranks.settings")

_compiling = renewed(threading.RLock())


@contextmanager
def _uncollected() -> Iterator[None]:
    """In the block cyclic garbage is not looked for: a compilation makes millions of objects that
    live about as long as it does, and going over them again and again is a quarter of its time."""
    enabled = gc.isenabled()
    gc.disable()
    if enabled:
        _collected_later.append(threading.get_ident())
    try:
        yield
    finally:
        if enabled:
            _collected_later.pop()
            gc.enable()


_collected_later: list[int] = []
"""The thread for which cyclic garbage is not looked for."""


def _collect_in_child() -> None:
    """The thread that would look for garbage again is not in a child made by fork."""
    if _collected_later and threading.get_ident() not in _collected_later:
        _collected_later.clear()
        gc.enable()


in_child(_collect_in_child)


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
    state: PythonState | None = None
    """Its effects on Python objects."""
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
    returned: bool = False
    """Whether its result has containers of the arguments in it."""

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
    state = lang.State()
    first = None if shapes is None else shapes.copy()
    while True:
        try:
            traced = _traced_once(
                fn, args, kwargs, types, shapes, state, called, call, known, arrays)
            again = state.retraced(None)
            if again is None:
                return traced
        except Exception as e:
            again = state.retraced(e)
            if again is None:
                raise
        except pieces.Failed as e:
            raise e.error from None
        state = again
        if shapes is not None and first is not None:
            shapes.restore(first)


def _traced_once(
    fn: Any, args: Sequence[Any], kwargs: Mapping[str, Any],
    types: Sequence[TensorType] | None, shapes: Shapes | None, state: lang.State, called: bool,
    call: CallLog | None, known: lang.Known | None, arrays: Sequence[Any] | None,
) -> Traced:
    structure, leaves = take_apart_call(args, kwargs)
    tracer = Tracer(_name_of(fn))
    names = _argument_names(fn, structure)
    given = types or [t._type for t in leaves]
    inputs = [tracer.input(ty, names[i]) for i, ty in enumerate(given)]
    before = [t.ir_value for t in inputs]
    shapes = shapes if shapes is not None else Shapes()
    shapes.where, shapes.expression = tracer.place, tracer.expression
    outside = Reads(lang.position)
    with tracing(tracer):
        call_args, call_kwargs = copied(structure, inputs, shared((args, kwargs)))
    state.argument((call_args, call_kwargs))
    try:
        places = state.begin(tracer)
        python = _pieces(tracer, leaves, state, call, known)
        hooks = lang.Hooks(
            on_attribute_read=outside.of_attribute,
            on_global_read=outside.of_globals,
            on_captured_read=outside.of_closure,
            on_function_read=outside.of_function,
            on_partial_read=outside.of_partial,
            on_result_read=outside.of_result,
            state=state, pieces=python,
            elements=None if not arrays and any(isinstance(t, OpenTensor) for t in leaves) else
            lambda: [*(arrays or map(elements_of, leaves)), *map(elements_of, state.first_values)],
        )
        with deciding(shapes), nullcontext() if call is None else pieces.running(call):
            result = lang.interpret_call(tracer, fn, call_args, call_kwargs, hooks)
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
    attributes = state.own_attributes(list(outside.attributes.values()))
    traced = Traced(graph, len(leaves) + len(places), parameters, out, attributes, reads,
                    tracer.functions, guards=shapes.guards, state=changed, budget=tracer.budget,
                    root=tracer.root, roots=tracer.roots, asked=shapes.asked, written=written,
                    returned=state.returned_arguments)
    if python is not None:
        traced.pieces, traced.changes = tuple(python.found), state.changes()
    watch(traced.attributes, traced.flag)
    return traced


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


def _name_of(fn: Any) -> str:
    return function_name(fn)


def _argument_names(fn: Any, structure: Structure) -> list[str]:
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


# --- entries -------------------------------------------------------------------------------------


class CompiledEntry(Entry):
    """A program for one signature."""

    def __init__(self, traced: Traced, name: str) -> None:
        super().__init__(traced)
        graph, functions = traced.graph, traced.functions
        budget = budgets.least(traced.budget, budgets.active())
        if watching.active:
            budget = None  # every value is looked at once: none is worth computing again
            graph, taps = watching.active[-1].tapped(
                graph, traced.parameters, len(functions), traced.root)
            functions = [*functions, *taps]
        with progress.stage(name) as say:
            program = compile_program(
                graph, report=self.report, progress=say, numerics=context.numerics(),
                budget=budget,
            )
        self.report.seconds["total"] = time.perf_counter() - self.made
        self.callbacks = host_callbacks(graph, functions)
        if traced.pieces:
            self.callbacks = pieces.logged(
                graph, self.callbacks, traced.functions, traced.changes, callback_name)
        self.executable = Executable(program, self.callbacks, ERRORS)
        guards.use(self.executable)
        self.bound: list[tuple[Any, int, int]] = []
        device = self.executable.device
        self.on = device if device.own_memory else None
        """The device, if it has memory of its own; parameters are there then."""
        self.result = tensor_of if self.on is None else result_of
        self.weights: list[Source] = [
            prepacked.Weight(p) if self.on is None else prepacked.WeightOnDevice(p, self.on)
            for p in traced.parameters]
        unread = set(program.unread)
        slots = (i for i, s in enumerate(program.slots) if s.kind == "param")
        self.read = [i not in unread for i in slots]
        self.weights_version = -1
        self.learnt = 0
        updated = {old for old, _ in traced.graph.updates}
        self.updated = [p for p, v in zip(traced.parameters, traced.graph.inputs[traced.arguments:],
                                          strict=True) if v in updated]
        self.writes_tensors = any(type(p) is Tensor for p in self.updated)
        self.single = isinstance(traced.out, Leaf) and traced.out.kind is None
        self.bind()

    def bind(self) -> None:
        """Give the executable the parameters' present buffers and contents."""
        self.weights_version = writes.weights_version
        parameters = self.traced.parameters
        for p in parameters:
            if p.init is not None:
                p.init_data()
        # A value that no call reads is not held here, so that it can be freed.
        self.bound = [(self._held(p) if read else None, s.version, s.unpacked) for p, s, read
                      in zip(parameters, map(storage_of, parameters), self.read, strict=True)]
        if self.executable.program.precomputed_bytes > 0 and any(p._is_lent for p in parameters):
            self.weights_version = -1  # lent memory may be written before any call
        self.executable.bind(self.weights)

    def _held(self, p: Tensor) -> Any:
        """The elements of a parameter where the program reads them; it moves there."""
        return p._data if self.on is None else on_device.to_device(p, self.on)

    def _catch_up(self) -> None:
        """Some parameter somewhere has changed: bind again if it is one of these."""
        weights_version, lent = writes.weights_version, self.weights_version < 0
        keeps = bool(self.executable.program.precomputed_bytes)
        for p, (array, version, unpacked) in zip(self.traced.parameters, self.bound, strict=True):
            storage = p._storage or storage_of(p)
            # (No name for its array: it would be somebody's.)
            if (array is not None and array is not (
                p._host if self.on is None else on_device.elements_of(p)
            )) or (keeps and (
                lent or storage.version != version or storage.unpacked != unpacked or p._is_lent
            )):
                self.bind()
                return
        self.weights_version = weights_version

    def run(self, arrays: Sequence[Any]) -> Any:
        """The result for arrays of the signature's types."""
        self.calls += 1
        if writes.weights_version != self.weights_version:
            self._catch_up()
        if self.updated:
            writes.before()
        out = self.executable.entry(*arrays)
        if self.updated:
            same = writes.weights_version == self.weights_version
            weights_version = writes.written(self.updated)
            if views.of_parameters or self.writes_tensors:
                views.settle(self.updated)
            if same:
                self.weights_version = weights_version
        if self.single:
            return self.result(out)
        many = out if isinstance(out, tuple) else (out,) if out is not None else ()
        return put_together(self.traced.out, [self.result(a) for a in many])


class _PipelineEntry(CompiledEntry):
    """The program of this process's stage."""

    def __init__(self, traced: Traced, name: str) -> None:
        part, self.agreement = pipelines.part_of(traced)
        super().__init__(part, name)
        self.agreed = False

    def run(self, arrays: Sequence[Any]) -> Any:
        """See `CompiledEntry.run`; before the first one all ranks say what they have compiled."""
        if not self.agreed:
            pipelines.agree(self.agreement)
            self.agreed = True
        return super().run(arrays)


STATES = 32
"""Entries of one signature, for different state, that are kept besides the latest."""
OFTEN = 8
"""Compilations of one network after which it is said so."""
_REMEMBERED = 1000
"""Compilations of one network that are remembered: the first, and the latest."""


@dataclass(frozen=True, slots=True)
class Compilation:
    """One compilation of a Cell or function.

    Attributes:
        key: of the signature.
        signature: in words.
        cause: why it was not served by what was compiled before; "" for the first.
        seconds: it took.
        instance: of a trace with open sizes that served this call too: it was not traced again.
        kind: of cause; a key of `causes.REMEDIES`, or "".
        remedy: what helps against it.
        parts: of the call, by path: what another one may differ in.
    """

    key: Any
    signature: str
    cause: str
    seconds: float
    instance: bool
    kind: str
    remedy: str
    parts: Mapping[str, Facet]


@dataclass(frozen=True, slots=True)
class _Within:
    """The key of an entry that was compiled within a budget."""

    budget: int
    key: Any


_ENTRIES = 512
"""Signatures of one Cell or function whose entries are kept for certain."""


@dataclass(slots=True)
class EntryTable:
    """The compiled entries of one Cell or function."""

    entries: LRU[Any, Entry] = field(default_factory=lambda: LRU(_ENTRIES))
    dynamic: Dynamic | None = None
    history: list[Compilation] = field(default_factory=list)
    others: LRU[Any, list[Entry]] = field(default_factory=lambda: LRU(_ENTRIES))
    """Entries for other state of Python objects, the latest last."""
    watched: EntryTable | None = None
    strict: bool = False
    """Python may do no part of it: `jit_syntax_level` is STRICT."""
    alike: int = 1
    """How many functions of this one's code had been compiled when it was."""
    reopened: bool = False
    closed: set[Any] = field(default_factory=set)
    """Calls with open sizes that no graph with open sizes serves: each is traced for itself."""

    def open(self, spec: Any = None, automatic: bool = False) -> None:
        """From now on sizes may differ from call to call: see `compiled.dynamic`."""
        if self.dynamic is None or (self.dynamic.spec, self.dynamic.automatic) != (spec, automatic):
            self.dynamic = Dynamic(spec, automatic) if spec is not None or automatic else None
            self.entries.clear()
            self.others.clear()
            self.closed.clear()
            self.watched = None
            self.reopened = bool(self.history)

    @property
    def causes(self) -> list[str]:
        """Why entries were compiled again, in order."""
        return [c.cause for i, c in enumerate(self.history)
                if any(c.key == earlier.key for earlier in self.history[:i])]

    def call(self, fn: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Run the entry of this signature, compiled if need be."""
        if timeline.running:
            return timeline.running[-1].timed(_name_of(fn), "network", self._call, fn, args, kwargs)
        return self._call(fn, args, kwargs)

    def _call(self, fn: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """See `call`."""
        if budgets.active() is not None or watching.active:
            table = self._watched() if watching.active else self
            entry = table.prepare(fn, args, kwargs, runs=True)
            return entry.answer(take_apart_call(args, kwargs)[1], args, kwargs)
        if not kwargs:
            key: list[Any] = []
            for a in args:
                if type(a) is not Tensor:
                    break
                data = a._layout if (array := a._host) is None else array
                key.append(data.shape)
                key.append(data.dtype)
            else:
                entry = self.entries.get(tuple(key))
                if entry is not None and entry.fresh():
                    if entry.apart:
                        return entry.answer(args, args, kwargs)
                    out = entry.run(arrays_of(args))
                    if isinstance(entry, CompiledEntry):
                        sites.learn(fn, args, entry)
                    return out
                return self._compiled(tuple(key), fn, args, kwargs).answer(args, args, kwargs)
        structure, leaves = take_apart_call(args, kwargs)
        general = (form_of(structure, args, kwargs), tuple(t._type for t in leaves))
        entry = self.entries.get(general)
        if entry is None or not entry.fresh():
            entry = self._compiled(general, fn, args, kwargs)
        return entry.answer(leaves, args, kwargs)

    def _watched(self) -> EntryTable:
        """The entries that are used while results are watched: compiled with taps."""
        if self.watched is None:
            self.watched = EntryTable()
            if self.dynamic is not None:
                self.watched.open(self.dynamic.spec, self.dynamic.automatic)
        return self.watched

    def prepare(
        self, fn: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], runs: bool = False
    ) -> Any:
        """Compile for these arguments; `runs`: to run next."""
        structure, leaves = take_apart_call(args, kwargs)
        if not kwargs and all(type(a) is Tensor for a in args):
            key: Any = tuple(x for a in args for x in (a._layout.shape, a._layout.dtype))
        else:
            key = (form_of(structure, args, kwargs), tuple(t._type for t in leaves))
        budget = budgets.active()
        entry = self.entries.get(key)
        if budget is not None and (entry is None or entry.gradient):
            key = _Within(budget, key)
            entry = self.entries.get(key)
        return entry if entry is not None and entry.fresh() else self._compiled(
            key, fn, args, kwargs, runs
        )

    def _compiled(
        self, key: Any, fn: Any, args: Sequence[Any], kwargs: Mapping[str, Any], runs: bool = True
    ) -> Entry:
        with _compiling:
            entry = self.entries.get(key)
            if entry is not None and entry.fresh():
                return entry
            kept = self._kept(key, entry)
            if kept is not None:
                return kept
            signature = describe_call(fn, args, kwargs)
            start = time.perf_counter()
            with progress.stage(_name_of(fn)) as say:
                say("tracing")
                with _uncollected():
                    made, again = self._made(key, fn, args, kwargs, runs)
            seconds = time.perf_counter() - start
            if timeline.running:
                now = time.perf_counter_ns()
                timeline.running[-1].add(f"compile {_name_of(fn)}", "compile",
                                         now - int(seconds * 1e9), now, signature=signature)
            # (A new signature: only now, for the trace may have failed.)
            given = facets(parameter_names(fn), args, kwargs)
            cause = self._cause(entry, fn, key, signature, given)
            if isinstance(key, _Within):
                if not made.gradient:
                    key = key.key  # there is nothing to recompute: it serves any budget
                else:
                    signature += f" within {key.budget} bytes"
            self.history.append(Compilation(key, signature, cause.text, seconds, not again,
                                            cause.kind, cause.remedy, given))
            if len(self.history) > _REMEMBERED:
                del self.history[1]
            self.entries[key] = made
            for told in observers.compilations:
                told(_name_of(fn), self.history[-1])
            self._warn(_name_of(fn))
            return made

    def _cause(
        self, entry: Entry | None, fn: Any, key: Any, signature: str,
        given: Mapping[str, Facet],
    ) -> Cause:
        """Why a call was compiled that had no entry, or this one, which is out of date."""
        refused = self.dynamic.refused if self.dynamic is not None else None
        if entry is not None:
            return entry.why()
        if not self.history:
            cause, self.alike = of_function(fn, _name_of(fn))
            return cause
        if refused is not None:
            return refused
        if self.reopened:
            self.reopened = False
            return Cause("opened", f"set_inputs described other arguments{called_at()}")
        if isinstance(key, _Within):
            return Cause("budget", f"a budget of {key.budget} bytes{called_at()}")
        cause = of_call(self.history, signature, given, called_at())
        if cause.kind == "shape" and self.dynamic is not None and not self.dynamic.automatic:
            return Cause("fixed", cause.text)
        return cause

    def _kept(self, key: Any, entry: Entry | None) -> Entry | None:
        """An entry that was compiled for other state of Python objects and serves this call."""
        if entry is None or entry.state is None or entry.flag.stale:
            return None
        others = self.others.setdefault(key, [])
        others.append(entry)
        del others[:-STATES]
        found = next((e for e in reversed(others) if e.fresh()), None)
        if found is not None:
            others.remove(found)
            self.entries[key] = found
        return found

    def _made(
        self, key: Any, fn: Any, args: Sequence[Any], kwargs: Mapping[str, Any], runs: bool
    ) -> tuple[Entry, bool]:
        """An entry for a call, and whether the call was traced for it."""
        if world().size > 1 and settings.cuts_networks():
            part = sharding.traced_part(fn, args, kwargs, take_apart_call(args, kwargs)[1])
            if part is not None:
                return _plain(part, fn, args, kwargs), True
        call, known = (pieces.CallLog(), lang.Known(self.strict or _is_strict(fn))) \
            if runs else (None, None)
        traced, again = self._traced(key, fn, args, kwargs, call, known)
        if isinstance(traced, Entry):
            return traced, again
        if world().size > 1:
            sharding.keep_whole(fn, traced)
        if traced.pieces and call is not None and known is not None:
            return _with_pieces(traced, fn, args, kwargs, call, known), again
        return _plain(traced, fn, args, kwargs), again

    def _warn(self, name: str) -> None:
        """Say that a network is compiled over and over, once in a while."""
        last = self.history[-1]
        if last.instance:
            return
        count = sum(not c.instance for c in self.history)
        if count == 1:
            count = self.alike
        if count % OFTEN or count & (count - 1):  # 8, 16, 32, ...
            return
        logging.getLogger("cellc").warning(
            "%s has been compiled %d times, in %.1f s; the last time because %s. To avoid it, %s. "
            "cellc.explain() lists all of them.",
            name, count, sum(c.seconds for c in self.history), last.cause, last.remedy,
        )

    def _traced(
        self, key: Any, fn: Any, args: Sequence[Any], kwargs: Mapping[str, Any],
        call: CallLog | None, known: lang.Known | None,
    ) -> tuple[Traced | Entry, bool]:
        """A call as a graph: from a trace with symbols where sizes are left open.

        Returns:
            The graph, or an entry that serves the call already; and whether it was traced now.
        """
        if self.dynamic is None:
            return trace(fn, args, kwargs, called=True, call=call, known=known), True
        self.dynamic.refused = None
        structure, leaves = take_apart_call(args, kwargs)
        types = [t._type for t in leaves]
        form = open_key(form_of(structure, args, kwargs),
                        [t.with_shape((0,) * t.rank) for t in types], {})
        axes = self.dynamic.axes(structure, leaves, parameter_names(fn), form)
        if not axes:
            return trace(fn, args, kwargs, called=True, call=call, known=known), True
        self.dynamic.used(key, self.entries)
        now: list[Traced] = []
        open_form = open_key(form[0], types, axes)

        def trace_open(t: Sequence[TensorType], s: Shapes) -> Traced:
            now.append(trace(fn, args, kwargs, t, s, True))
            return now[-1]

        def trace_closed() -> Traced:
            return trace(fn, args, kwargs, called=True, call=call, known=known)

        if open_form in self.closed:
            return trace_closed(), True
        try:
            once, sizes = self.dynamic.find(
                open_form, axes, types, _argument_names(fn, structure), trace_open, _still_fresh)
        except lang.CompileError as error:
            if call is None:
                raise
            closed = closed_instead(error, trace_closed)
            self.closed.add(open_form)
            return closed, True
        if once.windows and not once.windows.fresh():
            once.windows = None
        if once.instances >= OWN and once.windows is None and not watching.active \
                and devices.current() is None \
                and settings.get_auto_parallel_context("pipeline_stages") == 1:
            few = once.batch_sizes()
            once.windows = few and BatchedEntry(
                once, few, lambda t: CompiledEntry(t, _name_of(fn)))
        return once.windows or once.at(sizes), bool(now)


def _is_strict(fn: Any) -> bool:
    """Whether a Cell's `set_jit_config` says that Python may do no part of it."""
    config: Mapping[str, Any] = plain(fn, "jit_config_dict", {})
    return config.get("jit_syntax_level") == "STRICT"


def _plain(traced: Traced, fn: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Entry:
    """The entry that runs a graph."""
    if settings.get_auto_parallel_context("pipeline_stages") > 1 and context.in_graph_mode():
        return _PipelineEntry(traced, _name_of(fn))
    if is_staged(traced.graph):
        return _staged(traced, fn, args, kwargs)
    return CompiledEntry(traced, _name_of(fn))


def _with_pieces(
    traced: Traced, fn: Any, args: Sequence[Any], kwargs: Mapping[str, Any], call: CallLog,
    known: lang.Known,
) -> Entry:
    """The entry of a call in which Python does a part."""
    structure, leaves = take_apart_call(args, kwargs)

    def again(call: CallLog, arrays: Sequence[Any]) -> Any:
        given = [tensor_of(a) for a in arrays[:len(leaves)]]
        like_args, like_kwargs = put_together(structure, given, input_of)
        with _compiling:
            made = trace(fn, like_args, like_kwargs, called=True, call=call, known=known)
            return entry(made, call)

    def entry(traced: Traced, call: CallLog) -> Any:
        part = _plain(traced, fn, args, kwargs)
        return python_entries.PiecesEntry(part, known.given, again, call)

    made: Entry = entry(traced, call)
    return made


def _staged(traced: Traced, fn: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> StagedEntry:
    """The entry of a call that finds sizes as it runs."""
    structure, leaves = take_apart_call(args, kwargs)
    types = [t._type for t in leaves]
    like_args, like_kwargs = copied(structure, [OpenTensor.of(ty) for ty in types],
                                    shared((args, kwargs)), input_of)

    def entry(traced: Traced, answered: Mapping[Met, int], trusted: bool) -> StagedEntry:
        return StagedEntry(traced, traced.guards, lambda t: CompiledEntry(t, _name_of(fn)), again,
                           answered, trusted)

    def again(
        found: Sequence[int], answered: Mapping[Met, int], trusted: bool, arrays: Sequence[Any]
    ) -> StagedEntry:
        shapes = Shapes(measured=list(found), answered=answered if trusted else {})
        made = trace(fn, like_args, like_kwargs, types, shapes, True, arrays=arrays)
        return entry(made, answered, trusted)

    return entry(traced, {}, False)


def _still_fresh(traced: Traced) -> bool:
    return not (traced.flag.stale or any(r.compared and r.changed() for r in traced.reads)
                or (traced.state is not None and not traced.state.holds()))
