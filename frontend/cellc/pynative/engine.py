"""The eager engine: each op is a graph of one node, compiled once per types and attributes.

The kernels are those of graph mode (chosen by op, shapes, dtypes and target alone), which is
what makes the two modes equal to the bit. An elementwise op is compiled once for all shapes
(`cellc_compiler.codegen.sized`): an element's arithmetic is the same for each.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cellc_compiler.ir.graph import Builder, Graph
from cellc_compiler.ir.op import lookup
from cellc_runtime import sized
from cellc_runtime.executable import Executable
from cellc_runtime.lazy import lazy_module
from cellc_runtime.program import Program
from cellc_runtime.records import dataclass

from ..common.parameter import Parameter
from ..common.tensor import Array, Tensor
from ..core import journal, writes
from ..core.dispatch import Body
from ..core.recent import Recent
from . import sites
from .loops import Loops
from .recorder import Applied, active_recordings, applied, attrs_key

if TYPE_CHECKING:
    from cellc_compiler import driver
else:
    driver = lazy_module("cellc_compiler.driver")

Entry = Callable[..., Any]

_KEPT = 2048
"""Ops of certain types whose programs are kept for certain (a program in memory takes about 60 KiB
and a few of the 65,000 mappings that Linux gives a process)."""


@dataclass(frozen=True, slots=True)
class _Compiled:
    """An op for certain types: its native entry, and what recordings are told."""

    entry: Entry
    executable: Executable
    info: Applied
    single: bool


class EagerEngine:
    """Runs ops at once; see `cellc.core.dispatch.Engine`."""

    def __init__(self) -> None:
        self.entries: Recent[Any, _Compiled] = Recent(_KEPT)
        self.sized: Recent[Any, _Compiled | None] = Recent(_KEPT)
        self.loops = Loops()
        self.last = sites.Last()
        self.site: sites.OpSite | None = None

    def run(self, op: str, operands: Sequence[Tensor], attrs: Mapping[str, Any]) -> Any:
        """Run one op: a Tensor, or a tuple of them."""
        arrays = [t._data for t in operands]
        key = (op, attrs_key(attrs), tuple([(a.shape, a.dtype) for a in arrays]))
        try:
            found = self.entries.get(key)
        except TypeError:  # an attribute given as a list
            attrs = {k: _frozen(v) for k, v in attrs.items()}
            return self.run(op, operands, attrs)
        if found is None:
            found = self._any_size(op, operands, attrs) if lookup(op).elementwise else None
            found = self.entries[key] = found or self._build(op, operands, attrs)
        out = found.entry(*arrays)
        if not found.single:
            many = tuple([Tensor._from_array(a) for a in out])
            for r in active_recordings():
                r.note(found.info, operands, many)
            if not self.last.asking and self.site is not None:
                self.site.learn(op, operands, attrs, found.executable, found.info)
            return many
        result = Tensor._from_array(out)
        for r in active_recordings():
            r.note(found.info, operands, result)
        self._learn(op, operands, attrs, found, result)
        return result

    def _learn(
        self, op: str, operands: Sequence[Tensor], attrs: Mapping[str, Any], found: _Compiled,
        result: Tensor,
    ) -> None:
        """Let native sites answer the next call like this one."""
        if self.last.asking:
            if found.executable.native is not None:
                self.last.call = sites.Call(operands, found.executable, found.info, result)
        elif self.site is not None:
            self.site.learn(op, operands, attrs, found.executable, found.info)

    def _build(
        self, op: str, operands: Sequence[Tensor], attrs: Mapping[str, Any]
    ) -> _Compiled:
        graph = Graph(op)
        inputs = [graph.add_input(t._type, f"x{i}") for i, t in enumerate(operands)]
        out = Builder(graph).emit(op, *inputs, **attrs)
        graph.outputs = list(out) if isinstance(out, tuple) else [out]
        return self._loaded(driver.compile_program(graph), op, attrs, len(graph.outputs) == 1)

    def _any_size(
        self, op: str, operands: Sequence[Tensor], attrs: Mapping[str, Any]
    ) -> _Compiled | None:
        """The program that serves these shapes and all that lie alike, if there is one."""
        arrays = [t._data for t in operands]
        ways = sized.ways([a.shape for a in arrays])
        if ways is None or max(a.size for a in arrays) >= sized.LIMIT:
            return None
        key = op, attrs_key(attrs), tuple([a.dtype for a in arrays]), ways
        if key not in self.sized:
            try:
                program = driver.compile_sized(op, [t.dtype for t in operands], ways, attrs)
            except (TypeError, ValueError):
                return None  # the error is that of the operands as they are
            found = None if program is None else self._loaded(program, op, attrs, True)
            return self.sized.setdefault(key, found)
        return self.sized.get(key)

    def _loaded(
        self, program: Program, op: str, attrs: Mapping[str, Any], single: bool
    ) -> _Compiled:
        executable = Executable(program)
        if self.site is None and not self.entries and executable.native is not None:
            self.site = sites.install(executable, self.last)
        return _Compiled(executable.entry, executable, applied(op, attrs), single)

    def scan(
        self, key: Hashable, init: Sequence[Tensor], xs: Sequence[Tensor],
        captures: Sequence[Tensor], length: int, body: Body,
    ) -> tuple[list[Tensor], list[Tensor]]:
        """See `cellc.core.dispatch.scan`."""
        return self.loops.scan(key, init, xs, captures, length, body)

    def run_scan(
        self, operands: Sequence[Tensor], attrs: Mapping[str, Any], body: Graph
    ) -> list[Tensor]:
        """Run a `scan` node."""
        return self.loops.run(operands, attrs, body)

    def assign(self, parameter: Parameter, value: Tensor) -> None:
        """Overwrite a parameter's buffer; recordings keep the elements it had."""
        if parameter._type != value._type:
            raise ValueError(
                f"cannot assign {value._type} to the parameter {parameter.name} of type "
                f"{parameter._type}"
            )
        journal.before_write(parameter)
        for r in active_recordings():
            r.before_overwrite(parameter)
        given = value._data  # first: it may be the parameter itself
        array = parameter._overwritten()  # held until the new version says that it has changed
        np.copyto(array, given)
        writes.written((parameter,))
        del array
        for r in active_recordings():
            r.rebind(parameter, value)


    def assign_part(self, tensor: Tensor, where: tuple[slice, ...], array: Array) -> None:
        """Overwrite a part of a tensor's buffer; nothing is recorded now."""
        journal.before_write(tensor)
        held = tensor._data  # until the new version says that it has changed
        held[where] = array
        writes.written((tensor,))
        del held


def _frozen(value: Any) -> Any:
    return tuple(_frozen(v) for v in value) if isinstance(value, list) else value
