"""Loops over time in PyNative mode: a whole `scan` is one op.

The body is traced once per kind and types; the loop is compiled like any op, and its gradient is
the gradient of the one `scan` node, as in graph mode. While something is recorded the loop also
gives what its gradient reads.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from cellc_compiler.ir.graph import Builder, Graph
from cellc_compiler.ir.types import TensorType
from cellc_runtime.executable import Executable
from cellc_runtime.records import dataclass

from ..core import watching
from ..core.dispatch import Attrs, Body, tracing
from ..core.later import driver, loop_rules
from ..core.lru import LRU
from ..tensors.tensor import Tensor, Tensors, arrays_of, ir_type, result_of
from ..tracing.exceptions import ERRORS
from ..tracing.tracer import Tracer
from .recorder import active_recordings, applied
from .sites import Asked

_KEPT = 256  # Loops of certain types and lengths that are kept for certain


@dataclass(frozen=True, slots=True)
class Template:
    """A traced loop: its attributes and body, and which of the operands it takes, in order."""

    attrs: Attrs
    body: Graph
    order: tuple[int, ...]


class Loops:
    """Traces, compiles and runs loops.

    Args:
        asked: receives each loop that runs.
    """

    def __init__(self, asked: Asked) -> None:
        self.asked = asked
        self.templates: LRU[Hashable, Template] = LRU(_KEPT)
        self.grown: LRU[Graph, Graph] = LRU(_KEPT)
        self.elements: Callable[[Tensors], list[Any]] = arrays_of
        self.entries: LRU[Hashable, tuple[Callable[..., Any], Executable]] = LRU(_KEPT)

    def scan(
        self, key: Hashable, init: Tensors, xs: Tensors, captures: Tensors, length: int, body: Body
    ) -> tuple[list[Tensor], list[Tensor]]:
        """See `cellc.core.dispatch.scan`."""
        given = [*init, *xs, *captures]
        types = tuple([(a.shape, a.dtype) for a in arrays_of(given)])
        full = key, length, len(init), len(xs), types
        template = self.templates.get(full)
        if template is None:
            template = self.templates[full] = _trace(init, xs, captures, length, body)
        operands = [given[i] for i in template.order]
        out = self.run(operands, template.attrs, template.body)
        return out[: len(init)], out[len(init) :]

    def run(self, operands: Tensors, attrs: Attrs, body: Graph) -> list[Tensor]:
        """Run a scan; recordings note it."""
        self.asked.note(None)
        count = len(body.outputs)
        following = [r for r in active_recordings()
                     if any(r.value_of(t) is not None for t in operands)]
        if following and not attrs["saved"]:
            body, attrs = self._with_residuals(body, attrs), {**attrs, "saved": True}
        key = body, attrs["length"], attrs["reverse"], bool(watching.active)
        found = self.entries.get(key)
        if found is None:
            found = self.entries[key] = _compile(operands, attrs, body)
        out = found[0](*self.elements(operands))
        results = [result_of(a) for a in (out if isinstance(out, tuple) else (out,))]
        for r in following:
            r.note(applied("scan", attrs, (body,)), operands, tuple(results))
        return results[:count]

    def _with_residuals(self, body: Graph, attrs: Attrs) -> Graph:
        grown = self.grown.get(body)
        if grown is None:
            grown = loop_rules.with_residuals(body, attrs["carried"], attrs["sequences"])
            self.grown[body] = grown
        return grown


def _trace(init: Tensors, xs: Tensors, captures: Tensors, length: int, body: Body) -> Template:
    tracer = Tracer("scan")
    given = [tracer.input(ir_type(t), f"x{i}") for i, t in enumerate([*init, *xs, *captures])]
    n, k = len(init), len(xs)
    with tracing(tracer):
        tracer.scan(given[:n], given[n : n + k], length,
                    lambda carried, rows, i: body(carried, rows, i, given[n + k :]))
    node = tracer.graph.nodes[-1]
    place = {v: i for i, v in enumerate(tracer.graph.inputs)}
    return Template(node.attrs, node.regions[0], tuple(place[v] for v in node.operands))


def _compile(operands: Tensors, attrs: Attrs, body: Graph) -> tuple[Callable[..., Any], Executable]:
    graph = Graph("scan")
    types: list[TensorType] = [ir_type(t) for t in operands]
    inputs = [graph.add_input(t, f"x{i}") for i, t in enumerate(types)]
    graph.outputs = list(Builder(graph).node("scan", inputs, attrs, [body]).results)
    executable = watching.active[-1].executable(graph) if watching.active else \
        Executable(driver.compile_program(graph), errors=ERRORS)
    return executable.entry, executable
