"""Every result of every op, shown to whoever watches, in both modes.

While something is watched the eager engine runs within a `Taps`, which shows the results of each
op, and networks are compiled with taps (`cellc_compiler.passes.taps`) into entries of their own.
Native call sites go the long way. When nothing is watched none of this is there.
"""

from __future__ import annotations

import threading
import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any, Protocol

import numpy as np

from cellc_compiler.driver import compile_program
from cellc_compiler.ir.graph import Graph, Node, Value, join_scope
from cellc_compiler.ir.op import lookup
from cellc_compiler.passes import taps
from cellc_runtime.device import Device
from cellc_runtime.executable import Executable
from cellc_runtime.forks import renewed
from cellc_runtime.records import dataclass
from cellc_runtime.site import STATE

from ..calls.callbacks import host_callbacks
from ..core import device as devices
from ..core import dispatch, watching
from ..core.dispatch import Attrs, Body, Engine
from ..eager.loops import Loops
from ..eager.recorder import active_recordings
from ..eager.sites import Asked
from ..tensors.parameter import Parameter
from ..tensors.tensor import Tensor, Tensors, host_arrays_of
from ..tracing.exceptions import ERRORS
from .places import Spot, is_users, of_call, of_node, path_of, running

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Operand:
    """A floating-point operand: its position, its elements, and its Parameter or None."""

    place: int
    array: Array
    parameter: Parameter | None = None


@dataclass(frozen=True, slots=True)
class Seen:
    """An op that ran."""

    op: str  # its name; `origin` that of the op whose gradient it belongs to, or ""
    origin: str
    attrs: Attrs  # its attributes
    spot: Spot  # where it stands
    # operands, results: the floating-point ones
    operands: tuple[Operand, ...]
    results: tuple[Array, ...]
    run: int = 0  # how often it has run in this call, this time included; 0 where that is not known

    @property
    def elementwise(self) -> bool:
        """Whether an element of the result follows from those of the operands at its place."""
        return bool(self.op and lookup(self.op).elementwise)


class Observer(Protocol):
    """An observer of ops' results."""

    def saw(self, seen: Seen) -> None:
        """An op ran."""


class _Thread(threading.local):
    node: Node | None = None  # The node of a gradient that runs eagerly


class _Call:
    """A call of a compiled graph with taps.

    Attributes:
        path: of the Cell that its paths begin in.
    """

    def __init__(self, taps_: Taps, root: Any) -> None:
        self._taps, self._root, self.path = taps_, root, ""

    def begin(self) -> None:
        """A call begins: by itself, or in a Cell that runs eagerly, of which it is a part."""
        around = running()[0].cells
        inside = around if self._root is None else (*around, self._root)
        self.path = path_of(inside)
        if not around:
            self._taps.forget()


class Taps:
    """Stands before the eager engine, and gets the taps of compiled graphs."""

    whole = False

    def __init__(self, engine: Engine) -> None:
        self.observers: list[Observer] = []
        loops = Loops(Asked())
        self._scan, self._run_scan = loops.scan, loops.run
        self._thread = _Thread()
        self._runs: Counter[Any] = Counter()
        self._outermost: FrameType | None = None
        self._spots: dict[int, tuple[weakref.ref[Tensor], Spot]] = {}
        self.place_before(engine)

    def place_before(self, engine: Engine) -> None:
        """Stand before this engine from now on: that of another device, for example."""
        self.engine = engine
        self.assign, self.assign_part = engine.assign, engine.assign_part
        self.checked, self.same_value = engine.checked, engine.same_value
        self.elements_read = engine.elements_read
        self.stays, self.check = engine.stays, engine.check

    def follow(self, device: Device | None) -> None:
        """The device in use has changed, and with it the engine: stand before that, too."""
        if self.observers:
            self.place_before(dispatch.installed())
            dispatch.install(self)

    # --- PyNative mode --------------------------------------------------------------------------

    def run(self, op: str, operands: Tensors, attrs: Attrs) -> Any:
        """Run an op and show what it gave."""
        out = self.engine.run(op, operands, attrs)
        results = out if isinstance(out, tuple) else (out,)
        self._seen(op, attrs, operands, results)
        return out

    def gave(self, name: str, operands: Tensors, results: Tensors) -> None:
        """See `Watcher`."""
        self._seen("host_call", {"name": name}, operands, results)

    def _seen(self, op: str, attrs: Attrs, operands: Tensors, results: Tensors) -> None:
        floats = tuple(host_arrays_of([t for t in results if _is_float(t)]))
        if not floats:
            return
        node = self._thread.node
        if node is not None:
            spot, run, origin = of_node(node.span, node.scope), 0, node.origin
        else:
            spot, outermost = running()
            origin = ""
            run = self._run(outermost, (op, spot.key))
        if active_recordings():
            for t in results:
                self._place(t, spot)
        arrays = host_arrays_of(operands)
        given = tuple([Operand(i, a, t if isinstance(t, Parameter) else None)
                       for i, (a, t) in enumerate(zip(arrays, operands, strict=True))
                       if _is_float(t)])
        self._show(Seen(op, origin, attrs, spot, given, floats, run))

    def _run(self, outermost: FrameType | None, key: Any) -> int:
        """How often an op has run in the call of the outermost Cell."""
        if outermost is None:
            return 0
        if outermost is not self._outermost:
            self._outermost = outermost
            self._runs.clear()
        self._runs[key] += 1
        return self._runs[key]

    def _place(self, tensor: Tensor, spot: Spot) -> None:
        key = id(tensor)
        spots = self._spots
        spots[key] = weakref.ref(tensor, lambda _: spots.pop(key, None)), spot

    def scan(
        self, key: Any, init: Tensors, xs: Tensors, captures: Tensors, length: int, body: Body
    ) -> tuple[list[Tensor], list[Tensor]]:
        """See `cellc.core.dispatch.scan`."""
        out = self._scan(key, init, xs, captures, length, body)
        self._looped([*out[0], *out[1]])
        return out

    def run_scan(self, operands: Tensors, attrs: Attrs, body: Graph) -> list[Tensor]:
        """Run a `scan` node eagerly."""
        out = self._run_scan(operands, attrs, body)
        self._looped(out)
        return out

    def _looped(self, results: Tensors) -> None:
        if active_recordings() and self._thread.node is None:
            spot, _ = running()
            for t in results:
                self._place(t, spot)

    def placed(self, node: Node, result: Tensor) -> None:
        """See `Watcher`."""
        found = self._spots.get(id(result))
        if found is not None and found[0]() is result:
            node.span, node.scope = found[1].resolved()

    @contextmanager
    def at(self, node: Node) -> Iterator[None]:
        """See `Watcher`."""
        before, self._thread.node = self._thread.node, node
        try:
            yield
        finally:
            self._thread.node = before

    # --- graph mode -----------------------------------------------------------------------------

    def tapped(
        self, graph: Graph, bound: Sequence[Tensor], first: int, root: Any
    ) -> tuple[Graph, list[Callable[..., Any]]]:
        """See `Watcher`."""
        inputs = graph.inputs[len(graph.inputs) - len(bound):]
        names = dict(zip(inputs, bound, strict=True))
        call = _Call(self, root)
        functions: list[Callable[..., Any]] = [call.begin]

        def number(tap: taps.Tap) -> int:
            functions.append(self._tap(tap, names, call))
            return first + len(functions) - 1

        return taps.tapped(graph, number, first), functions

    def forget(self) -> None:
        """Count runs again."""
        self._outermost = None
        self._runs.clear()

    def _tap(
        self, tap: taps.Tap, names: Mapping[Value, Tensor], call: _Call
    ) -> Callable[..., None]:
        node = tap.node
        op, origin, attrs, span = node.op, node.origin, node.attrs, node.span
        users = is_users(span)
        bound = [(i, None if v is None else names.get(v)) for i, v in tap.inputs]
        inside = self._thread

        def show(*tensors: Tensor) -> None:
            scope = join_scope(call.path, node.scope)
            spot = of_node(span, scope) if users else of_call(scope) if inside.node is None \
                else of_node(inside.node.span, inside.node.scope)
            arrays = host_arrays_of(tensors)
            operands = tuple([
                Operand(i, a, p if isinstance(p, Parameter) else None)
                for (i, p), a in zip(bound, arrays[tap.results:], strict=True)])
            key = op, origin, spot.key
            self._runs[key] += 1
            results = tuple(arrays[: tap.results])
            run = 0 if origin else self._runs[key]
            self._show(Seen(op, origin, attrs, spot, operands, results, run))

        return show

    def executable(self, graph: Graph) -> Executable:
        """See `Watcher`."""
        shown, functions = self.tapped(graph, (), 0, None)
        functions[0] = lambda: None  # it is a part of a call, and its paths are whole
        return Executable(compile_program(shown), host_callbacks(shown, functions), ERRORS)

    def _show(self, seen: Seen) -> None:
        for observer in self.observers[:]:
            observer.saw(seen)


def _is_float(t: Tensor) -> bool:
    return t.dtype.is_float or t.dtype.is_complex


_lock = renewed(threading.Lock())
_taps: list[Taps] = []  # The one there is, once something was watched: compiled taps call it


def add(observer: Observer) -> None:
    """Show an observer what ops give from now on, in all threads."""
    with _lock:
        if not _taps:
            _taps.append(Taps(dispatch.installed()))
            devices.follow(_taps[0].follow)
        (taps_,) = _taps
        if not taps_.observers:
            taps_.place_before(dispatch.installed())
            dispatch.install(taps_)
            watching.active.append(taps_)
            STATE.begin()
            STATE.lend(None)  # a recording under way sees each op from now on
        taps_.observers.append(observer)


def remove(observer: Observer) -> None:
    """Show it no more; without observers everything is as if there had never been one."""
    with _lock:
        (taps_,) = _taps
        taps_.observers.remove(observer)
        if not taps_.observers:
            watching.active.clear()
            dispatch.install(taps_.engine)
            STATE.end()
            taps_.forget()
