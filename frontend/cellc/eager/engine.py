"""The eager engine: each op is a graph of one node, compiled once per types and attributes.

The kernels are those of graph mode (chosen by op, shapes, dtypes and target alone), which is
what makes the two modes equal to the bit. An elementwise op is compiled once for all shapes
(`cellc_compiler.backends.cpu.host.shape_polymorphic`): an element's arithmetic is the same for
each.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cellc_compiler.ir.op import lookup
from cellc_runtime import shape_polymorphic
from cellc_runtime.executable import Executable
from cellc_runtime.forks import renewed
from cellc_runtime.lazy import lazy_imports
from cellc_runtime.program import Program
from cellc_runtime.records import dataclass

from ..core import journal
from ..core.dispatch import Attrs, Window
from ..core.later import driver
from ..core.lru import LRU
from ..storage import writes
from ..tensors.parameter import Parameter
from ..tensors.tensor import (
    Array,
    Elements,
    Tensor,
    Tensors,
    arrays_of,
    copy_of,
    elements_of,
    tensor_of,
)
from . import prepacking, sites
from .loops import Loops
from .recorder import Applied, active_recordings, applied, attrs_key, stand_for

with lazy_imports(__name__):
    from ..storage import transposed
    from . import functions

Entry = Callable[..., Any]

_KEPT = 2048
"""Ops of certain types whose programs are kept for certain (in memory one takes about 40 KiB and 3
of the 65,530 mappings that Linux gives a process)."""


@dataclass(frozen=True, slots=True)
class _Compiled:
    """An op for certain types: its native entry, and its record for recordings."""

    entry: Entry
    executable: Executable
    info: Applied
    single: bool


class EagerEngine:
    """Runs ops at once: `cellc.core.dispatch` sends them here."""

    whole = True

    def __init__(self) -> None:
        self.entries: LRU[Any, _Compiled] = LRU(_KEPT)
        self.sized: LRU[Any, _Compiled | None] = LRU(_KEPT)
        self.prepacking = prepacking.Prepacking(self._learn_bound)
        self.asked = sites.Asked()
        self.loops = loops = Loops(self.asked)
        self.scan, self.run_scan = loops.scan, loops.run
        self.site: sites.OpSite | None = None
        self._lock = renewed(threading.Lock())
        self._connected = False

    def run(self, op: str, operands: Tensors, attrs: Attrs) -> Any:
        """Run one op: a Tensor, or a tuple of them."""
        if list in map(type, attrs.values()):
            attrs = {k: frozen(v) for k, v in attrs.items()}
        if op in _APART:
            out = self._apart(op, operands, attrs)
            if out is not None:
                self.asked.note(None)
                return out
        else:
            prepacking.read_as_given(operands)
        arrays = [t._data if (array := t._host) is None else array for t in operands]
        found = self._found(op, operands, arrays, attrs)
        out = found.entry(*arrays)
        if not found.single:
            many = tuple([tensor_of(a) for a in out])
            for r in active_recordings():
                r.note(found.info, operands, many)
            self._learn(op, operands, attrs, found, many)
            return many
        result = tensor_of(out)
        for r in active_recordings():
            r.note(found.info, operands, result)
        self._learn(op, operands, attrs, found, result)
        return result

    def _found(
        self, op: str, operands: Tensors, arrays: Sequence[Elements], attrs: Attrs
    ) -> _Compiled:
        """Return the program for an op on operands like these."""
        key = (op, attrs_key(attrs), tuple([(a.shape, a.dtype) for a in arrays]))
        try:
            found = self.entries.get(key)
        except TypeError:  # it has no hash
            raise TypeError(_no_attribute(op, attrs)) from None
        if found is None:
            found = self._any_size(op, operands, attrs) if lookup(op).elementwise else None
            found = self.entries[key] = found or self._build(op, operands, attrs)
        return found

    def _apart(self, op: str, operands: Tensors, attrs: Attrs) -> Tensor | None:
        """The result of an op that reads a large Parameter, if there is a better way than the
        usual one: a transpose is put off, a product reads the transposed, packed weights stay."""
        if op == "transpose":
            result = self._put_off(operands[0], attrs["perm"])
            if result is None:
                prepacking.read_as_given(operands)
                return None
        else:
            out = self.prepacking.repeated(op, operands, attrs)
            if out is not None:
                return tensor_of(out)
            given, how = _straight(op, operands, attrs)
            concerned = prepacking.concerns(op, given)
            if not concerned:
                prepacking.read_as_given(given)
                if given is operands:
                    return None
            out = self.prepacking.run(op, given, how) if concerned else None
            if out is None:
                arrays = arrays_of(given)
                out = self._found(op, given, arrays, how).entry(*arrays)
            result = tensor_of(out)
        for r in active_recordings():
            r.note(applied(op, attrs), operands, result)
        return result

    def _put_off(self, x: Tensor, perm: Sequence[int]) -> Tensor | None:
        """The transpose of a Parameter in its last two axes, to be made when it is needed."""
        if type(x) is not Parameter or not transposed.may_wait(x) or not _turns(perm):
            return None
        attrs = {"perm": tuple(perm)}

        def make() -> Array:
            prepacking.read_as_given((x,))
            array = elements_of(x)
            made: Array = self._found("transpose", (x,), (array,), attrs).entry(array)
            return made

        out = object.__new__(Tensor)
        transposed.transpose_later(out, x, make)
        return out

    def _learn_bound(
        self, op: str, operands: Tensors, attrs: Attrs,
        executable: Executable, place: int, weights_version: int,
    ) -> None:
        """Let a native site answer calls like this one of the same Parameter, of this weights
        version."""
        if self.site is not None:
            self.site.learn(op, operands, attrs, executable, applied(op, attrs),
                            (place, weights_version))

    def _learn(
        self, op: str, operands: Tensors, attrs: Attrs, found: _Compiled,
        result: Tensor | tuple[Tensor, ...],
    ) -> None:
        """Let native sites answer the next call like this one."""
        if op in _APART and (
            prepacking.suits(op, operands) if op in prepacking.OPS else
            operands[0]._type.nbytes >= transposed.LEAST and _turns(attrs["perm"])
        ):
            self.asked.note(None)
            return  # (sites do not tell Parameters from other tensors)
        if self.asked.asking:
            self.asked.note(sites.Call(operands, found.executable, found.info, result))
        elif self.site is not None:
            self.site.learn(op, operands, attrs, found.executable, found.info)

    def _build(self, op: str, operands: Tensors, attrs: Attrs) -> _Compiled:
        graph = prepacking.graph_of(op, operands, attrs)
        return self._loaded(driver.compile_program(graph), op, attrs, len(graph.outputs) == 1)

    def _any_size(self, op: str, operands: Tensors, attrs: Attrs) -> _Compiled | None:
        """The program for these shapes and all that broadcast alike, if there is one."""
        arrays = arrays_of(operands)
        ways = shape_polymorphic.broadcasts([a.shape for a in arrays])
        if ways is None or max(a.size for a in arrays) >= shape_polymorphic.LIMIT:
            return None
        key = op, attrs_key(attrs), tuple([a.dtype for a in arrays]), ways
        if key not in self.sized:
            try:
                program = driver.compile_shape_polymorphic(
                    op, [t.dtype for t in operands], ways, attrs)
            except (TypeError, ValueError):
                return None  # the error is that of the operands as they are
            found = None if program is None else self._loaded(program, op, attrs, True)
            return self.sized.setdefault(key, found)
        return self.sized.get(key)

    def _loaded(self, program: Program, op: str, attrs: Attrs, single: bool) -> _Compiled:
        executable = Executable(program)
        if not self._connected:
            self._connect(executable)
        return _Compiled(executable.entry, executable, applied(op, attrs), single)

    def _connect(self, executable: Executable) -> None:
        """Put native sites before what runs ops, once, where they can be used."""
        with self._lock:
            if self._connected:
                return
            self._connected = True
            installed = sites.install(executable, self.asked) if executable.native else None
            if installed is not None:
                self.site = installed[1]
                functions.install(installed[0], self.asked)

    def assign(self, parameter: Tensor, value: Tensor) -> None:
        """Overwrite a parameter's buffer; recordings keep the elements it had."""
        if parameter._type != value._type:
            name = getattr(parameter, "name", "")  # a Tensor that is changed in place has none
            what = f"the parameter {name}" if name else "a Tensor"
            raise ValueError(f"cannot assign {value._type} to {what} of type {parameter._type}")
        self.asked.note(None)
        journal.before_write(parameter)
        followed = [r for r in active_recordings() if r.value_of(parameter) is not None]
        kept = copy_of(parameter) if followed else parameter
        for r in followed:
            r.before_overwrite(parameter, kept)
        held = self._overwrite(parameter, value)  # until the new version says that it has changed
        writes.written((parameter,))
        del held
        for r in active_recordings():
            r.rebind(parameter, value)

    def _overwrite(self, parameter: Tensor, value: Tensor) -> Any:
        """Write all elements; what holds them now."""
        return parameter._overwrite(value._data)

    def assign_part(
        self, tensor: Tensor, where: tuple[slice, ...], array: Array, window: Window | None
    ) -> None:
        """Overwrite a part of a tensor's buffer; nothing is recorded now."""
        if self.asked.asking:
            self.asked.note(None)
        journal.before_write(tensor)
        held = tensor._data  # until the new version says that it has changed
        (held if window is None else window(held))[where] = array
        writes.written((tensor,))
        del held

    def checked(self, index: Tensor, low: int, high: int, parts: tuple[str | int, ...]) -> None:
        """See `cellc.core.dispatch.checked`."""
        if self.asked.asking:
            attrs = {"low": low, "high": high, "error": "IndexError", "parts": parts}
            self.asked.note(sites.Call((index,), None, applied("check", attrs), ()))

    def stays(self, tensor: Tensor) -> bool:
        """See `cellc.core.dispatch.stays`: this machine's memory is read at once."""
        return False

    def check(self, index: Tensor, low: int, high: int, parts: tuple[str | int, ...]) -> None:
        """See `cellc.core.dispatch.check_there`."""
        raise RuntimeError("elements in this machine's memory are checked by whoever reads them")

    def same_value(self, tensor: Tensor, source: Tensor) -> None:
        """See `cellc.core.dispatch.same_value`."""
        self.asked.note(None)
        stand_for(tensor, source)

    def elements_read(self) -> None:
        """See `cellc.core.dispatch.elements_read`."""
        if self.asked.asking:
            self.asked.note(None)


_APART = frozenset({"transpose", *prepacking.OPS})  # Ops that `_apart` looks at


def _turns(perm: Sequence[int]) -> bool:
    """Whether a permutation exchanges the last two axes and leaves the others."""
    n = len(perm)
    return n >= 2 and tuple(perm) == (*range(n - 2), n - 1, n - 2)


def _straight(op: str, operands: Tensors, attrs: Attrs) -> tuple[Tensors, Mapping[str, Any]]:
    """A matrix product of what its operands are transposes of, where those are not made yet.

    That has the bits of the product as it is written, unless one side is a vector: its sums are
    taken in an order that depends on how the matrix lies in memory.
    """
    if op != "matmul":
        return operands, attrs
    for place, flag in enumerate(("transpose_a", "transpose_b")):
        if operands[place]._host is not None:
            continue  # it has elements already
        source = transposed.source_of(operands[place])
        if source is None:
            continue
        x, y = operands
        rows = x.shape[-1 if attrs.get("transpose_a") else -2]
        columns = y.shape[-2 if attrs.get("transpose_b") else -1]
        if rows == 1 or columns == 1:
            break
        operands = (source, y) if place == 0 else (x, source)
        attrs = {"transpose_a": False, "transpose_b": False, **attrs}
        attrs[flag] = not attrs[flag]
    return operands, attrs


def _no_attribute(op: str, attrs: Attrs) -> str:
    """Return the error text of attributes that are no key."""
    wrong = {k: type(v).__name__ for k, v in attrs.items() if not _hashable(v)}
    return "; ".join(f"For '{op}', '{k}' must be a number, a string, an element type or a tuple of "
                     f"them, but got {kind}" for k, kind in wrong.items()) + "."


def _hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def frozen(value: Any) -> Any:
    """An attribute's value with tuples for lists."""
    return tuple(frozen(v) for v in value) if isinstance(value, list) else value
