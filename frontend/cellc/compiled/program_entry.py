"""Entries that run one program."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from cellc_compiler import driver
from cellc_compiler.driver import callback_name, compile_program
from cellc_runtime.executable import Executable
from cellc_runtime.lazy import lazy_imports
from cellc_runtime.prepacking import Source

from .. import context
from ..calls import budget as budgets
from ..calls.callbacks import host_callbacks
from ..core import watching
from ..storage import device as on_device
from ..storage import storage_of, writes
from ..tensors import views
from ..tensors.tensor import Tensor, result_of, tensor_of
from ..tracing import guards
from ..tracing.exceptions import ERRORS
from ..tracing.pytree import Leaf, put_together
from .entry import Entry

if TYPE_CHECKING:
    from .traced import Traced
with lazy_imports(__name__):
    from ..calls import pieces
    from ..core import progress
    from ..storage import prepacked


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
            if traced.program is not None and budget is None and not watching.active:
                program = traced.program
                driver.fill_report_from_program(self.report, program)
            else:
                program = compile_program(
                    graph, report=self.report, progress=say, numerics=context.numerics(),
                    budget=budget,
                )
        self.report.seconds["total"] = time.perf_counter() - self.made
        self.callbacks = host_callbacks(graph, functions) if program.callbacks else {}
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
        form = traced.graph.template
        updated = {old for old, _ in form.updates}
        self.updated = [p for p, v in zip(traced.parameters, form.inputs[traced.arguments:],
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
