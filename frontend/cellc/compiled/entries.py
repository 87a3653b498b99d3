"""Graph mode: calls of Cells and functions, compiled once per signature.

The signature is the structure of the arguments, the types of their tensors and the values known
at compile time. An entry holds what was compiled for one signature and the parameters bound to
it; it goes stale when an attribute or global that was read while compiling changes.
"""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from cellc_compiler.ir.dims import Met
from cellc_compiler.ir.shapes import Shapes
from cellc_compiler.ir.types import TensorType
from cellc_runtime.forks import in_child, renewed
from cellc_runtime.lazy import lazy_imports, logging
from cellc_runtime.records import dataclass, field
from cellc_runtime.world import world

from .. import context
from ..calls import budget as budgets
from ..core import device as devices
from ..core import observers, timeline, watching
from ..core.lru import LRU
from ..core.module_names import function_name, plain
from ..tensors.tensor import OpenTensor, Tensor, arrays_of, tensor_of
from ..tracing.arguments import copied, shared
from ..tracing.numbers import input_of
from ..tracing.pytree import put_together, take_apart_call
from . import sites
from .causes import Cause, Compilation, Facet, called_at, facets, of_call, of_function
from .dynamic import Dynamic, closed_instead, open_key, parameter_names
from .entry import Entry
from .program_entry import CompiledEntry
from .signatures import describe_call, form_of

if TYPE_CHECKING:
    from ..calls.pieces import CallLog
    from .staged import StagedEntry
    from .traced import Traced
with lazy_imports(__name__):  # the construct compiler loads with the first network it compiles
    from cellc_compiler import driver

    from .. import lang
    from ..calls import pieces
    from ..core import progress
    from ..ranks import settings
    from . import found_sizes, pipelines, sharding, staged
    from . import pieces as python_entries
    from . import traced as graphs

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
            if not _compiled_before and not gc.get_freeze_count():
                # All that there is counts as old, as after a collection. To look for garbage in the
                # objects of the first compilation and of its imports took 40 ms for 5 MB.
                gc.freeze()
                gc.unfreeze()
            _compiled_before.append(True)
            gc.enable()


_compiled_before: list[bool] = []
_collected_later: list[int] = []  # The thread for which cyclic garbage is not looked for


def _collect_in_child() -> None:
    """The thread that would look for garbage again is not in a child made by fork."""
    if _collected_later and threading.get_ident() not in _collected_later:
        _collected_later.clear()
        gc.enable()


in_child(_collect_in_child)


STATES = 32  # Entries of one signature, for different state, that are kept besides the latest
OFTEN = 8  # Compilations of one network after which it is said so
_REMEMBERED = 1000  # Compilations of one network that are remembered: the first, and the latest


@dataclass(frozen=True, slots=True)
class _Within:
    """The key of an entry that was compiled within a budget."""

    budget: int
    key: Any


_ENTRIES = 512  # Signatures of one Cell or function whose entries are kept for certain


@dataclass(slots=True)
class EntryTable:
    """The compiled entries of one Cell or function."""

    entries: LRU[Any, Entry] = field(default_factory=lambda: LRU(_ENTRIES))
    dynamic: Dynamic = field(default_factory=Dynamic)
    history: list[Compilation] = field(default_factory=list)
    others: LRU[Any, list[Entry]] = field(default_factory=lambda: LRU(_ENTRIES))
    """Entries for other state of Python objects, the latest last."""
    watched: EntryTable | None = None
    strict: bool = False  # Python may do no part of it: `jit_syntax_level` is STRICT
    alike: int = 1  # How many functions of this one's code had been compiled when it was
    reopened: bool = False
    closed: set[Any] = field(default_factory=set)
    """Calls with open sizes that no graph with open sizes serves: each is traced for itself."""

    def open(self, spec: Any = None) -> None:
        """From now on these sizes are open; None: those that differ from call to call."""
        if self.dynamic.spec != spec:
            self.dynamic = Dynamic(spec)
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
            return timeline.running[-1].timed(
                function_name(fn), "network", self._call, fn, args, kwargs)
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
            self.watched.open(self.dynamic.spec)
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
            with progress.stage(function_name(fn)) as say:
                say("tracing")
                try:
                    with _uncollected(), driver.ahead():
                        made, again = self._made(key, fn, args, kwargs, runs)
                except KeyboardInterrupt as e:  # the compiler's own calls would hide the program's
                    said = e.args or (f"{function_name(fn)} was being compiled",)
                    raise KeyboardInterrupt(*said) from None
            seconds = time.perf_counter() - start
            if timeline.running:
                now = time.perf_counter_ns()
                timeline.running[-1].add(f"compile {function_name(fn)}", "compile",
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
                told(function_name(fn), self.history[-1], made)
            self._warn(function_name(fn))
            return made

    def _cause(
        self, entry: Entry | None, fn: Any, key: Any, signature: str,
        given: Mapping[str, Facet],
    ) -> Cause:
        """Why a call was compiled that had no entry, or this one, which is out of date."""
        refused = self.dynamic.refused
        if entry is not None:
            return entry.why()
        if not self.history:
            cause, self.alike = of_function(fn, function_name(fn))
            return cause
        if refused is not None:
            return refused
        if self.reopened:
            self.reopened = False
            return Cause("opened", f"set_inputs described other arguments{called_at()}")
        if isinstance(key, _Within):
            return Cause("budget", f"a budget of {key.budget} bytes{called_at()}")
        cause = of_call(self.history, signature, given, called_at())
        if cause.kind != "shape":
            return cause
        if self.dynamic.spec is not None:
            return Cause("fixed", cause.text)
        if self.dynamic.per_size:
            return Cause("shape", f"{cause.text}; code for all sizes could not be made: "
                                  f"{self.dynamic.per_size}")
        return Cause("size", cause.text)

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
        self.dynamic.refused, self.dynamic.per_size = None, ""
        structure, leaves = take_apart_call(args, kwargs)
        types = [t._type for t in leaves]
        form = open_key(form_of(structure, args, kwargs),
                        [t.with_shape((0,) * t.rank) for t in types], {})
        axes = self.dynamic.axes(structure, leaves, parameter_names(fn), form)
        if not axes:
            return graphs.trace(fn, args, kwargs, called=True, call=call, known=known), True
        self.dynamic.used(key, self.entries)
        now: list[Traced] = []
        open_form = open_key(form[0], types, axes)

        def trace_open(t: Sequence[TensorType], s: Shapes) -> Traced:
            now.append(graphs.trace(fn, args, kwargs, t, s, True))
            return now[-1]

        def trace_closed() -> Traced:
            return graphs.trace(fn, args, kwargs, called=True, call=call, known=known)

        if open_form in self.closed:
            return trace_closed(), True
        try:
            once, sizes = self.dynamic.find(
                open_form, axes, types, graphs.argument_names(fn, structure), trace_open,
                _still_fresh)
        except lang.CompileError as error:
            if self.dynamic.spec is None:
                closed = trace_closed()
            elif call is None:
                raise
            else:
                closed = closed_instead(error, trace_closed)
            self.closed.add(open_form)
            return closed, True
        may_open = devices.current() is None and not watching.active
        traced = once.at(sizes, may_open, self.dynamic.spec is None)
        self.dynamic.per_size = once.per_size
        return traced, bool(now)


def _is_strict(fn: Any) -> bool:
    """Whether a Cell's `set_jit_config` says that Python may do no part of it."""
    config: Mapping[str, Any] = plain(fn, "jit_config_dict", {})
    return config.get("jit_syntax_level") == "STRICT"


def _plain(traced: Traced, fn: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Entry:
    """The entry that runs a graph."""
    if settings.get_auto_parallel_context("pipeline_stages") > 1 and context.in_graph_mode():
        return pipelines.PipelineEntry(traced, function_name(fn))
    if found_sizes.is_staged(traced.graph.template):
        return _staged(traced, fn, args, kwargs)
    return CompiledEntry(traced, function_name(fn))


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
            made = graphs.trace(fn, like_args, like_kwargs, called=True, call=call, known=known)
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
        name = function_name(fn)
        return staged.StagedEntry(traced, traced.guards, lambda t: CompiledEntry(t, name), again,
                           answered, trusted)

    def again(
        found: Sequence[int], answered: Mapping[Met, int], trusted: bool, arrays: Sequence[Any]
    ) -> StagedEntry:
        shapes = Shapes(measured=list(found), answered=answered if trusted else {})
        made = graphs.trace(fn, like_args, like_kwargs, types, shapes, True, arrays=arrays)
        return entry(made, answered, trusted)

    return entry(traced, {}, False)


def _still_fresh(traced: Traced) -> bool:
    return not (traced.flag.stale or any(r.compared and r.changed() for r in traced.reads)
                or (traced.state is not None and not traced.state.holds()))
