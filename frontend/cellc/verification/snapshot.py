"""What a run of a network can change, noted before it and put back after it.

Everything that can be reached from the network is noted: elements of Parameters and Tensors,
attributes, lists, dicts and sets, what its functions close over and read of their module, and the
states of all random generators (cellc's, numpy's, Python's).
"""

from __future__ import annotations

import os
import random
import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from types import CellType, CodeType, FunctionType, MethodType
from typing import Any

import numpy as np

from cellc_runtime.device_array import on_host

from ..core.invalidation import changed
from ..lang.trust import is_user_function, root
from ..storage import writes
from ..storage.device import elements_of
from ..tensors import seed as seeds
from ..tensors.parameter import Parameter
from ..tensors.tensor import OpenTensor, Tensor, arrays_of
from .values import Table, attributes, parts_of, same_bits, table_of

Array = np.ndarray[Any, Any]
Undo = Callable[[], None]
_MISSING: Any = object()
_FOREIGN = frozenset(("cellc", "cellc_compiler", "cellc_runtime", "numpy", "ml_dtypes"))


class Snapshot:
    """The state of everything that `roots` lead to.

    Args:
        roots: what is looked at, by the names that messages use.

    Attributes:
        unknown: paths of what cannot be put back: iterators.
    """

    def __init__(self, roots: Mapping[str, Any]) -> None:
        self.unknown: list[str] = []
        self._random = _Random()
        self._undo: list[Undo] = []
        self._places: dict[str, Callable[[], Any]] = {}
        self._seen: dict[int, Any] = {}
        for name, value in roots.items():
            self._places[name] = _constant(value)
            self._note(value, name)

    def restore(self) -> None:
        """Put everything back that has changed."""
        for undo in self._undo:
            undo()
        self._random.restore()

    def table(self) -> Table:
        """What is there now, by path."""
        out = Table()
        for name, read in self._places.items():
            out.update(table_of(read(), name))
        return out

    # --- noting -----------------------------------------------------------------------------------

    def _first(self, x: Any) -> bool:
        """Whether this is the first time to come here (kept, so that identities last)."""
        if id(x) in self._seen:
            return False
        self._seen[id(x)] = x
        return True

    def _note(self, x: Any, path: str) -> None:
        if not self._first(x) or isinstance(x, OpenTensor):
            return
        if isinstance(x, (MethodType, FunctionType)):
            self._callable(x, path)
        elif isinstance(x, (Tensor, np.ndarray, np.random.Generator)):
            self._undo.append(_elements_undo(x))
        elif isinstance(x, Iterator):
            self.unknown.append(path)
        elif isinstance(x, (list, dict, set, deque, tuple)):
            if not isinstance(x, tuple):
                self._undo.append(_container_undo(x))
            for name, part in parts_of(x)[1]:
                self._note(part, path + name)
        else:
            self._object(x, path)

    def _callable(self, x: Any, path: str) -> None:
        if isinstance(x, MethodType):
            self._note(x.__self__, path)
            self._note(x.__func__, path)
        else:
            self._function(x)

    def _object(self, x: Any, path: str) -> None:
        own = dict(attributes(x))
        if own or _is_data(x):
            self._undo.append(_object_undo(x, own))
        for name, value in own.items():
            self._note(value, f"{path}.{name}")
        wrapped = getattr(x, "fn", None)
        if isinstance(wrapped, (FunctionType, MethodType)):  # of `jit`
            self._note(wrapped, path)
        self._class(x if isinstance(x, type) else type(x))

    def _class(self, kind: type) -> None:
        """The functions and the data of a user's class."""
        for base in kind.__mro__:
            module = root(base.__module__)
            if module in _FOREIGN or (module in sys.stdlib_module_names and module != "__main__"):
                continue
            if not self._first(base):
                continue
            for name, value in list(vars(base).items()):
                value = getattr(value, "__func__", value)  # of static and class methods
                if isinstance(value, FunctionType):
                    self._note(value, name)
                elif not name.startswith("__") and _is_data(value):
                    self._place(f"{base.__qualname__}.{name}", _of_class(base, name), value)

    def _function(self, fn: FunctionType) -> None:
        for name, cell in zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True):
            value = _content(cell)
            if self._first(cell) and value is not _MISSING:
                self._variable(f"{fn.__name__}'s {name}", _of_cell(cell), value)
        for value in (*(fn.__defaults__ or ()), *(fn.__kwdefaults__ or {}).values()):
            if _is_data(value):
                self._place(f"a default of {fn.__name__}", (_constant(value), _unset), value)
        if not is_user_function(fn):
            return
        for name in dict.fromkeys(_names(fn.__code__)):
            value = fn.__globals__.get(name, _MISSING)
            if value is not _MISSING and f"global {name}" not in self._places:
                self._variable(f"global {name}", _of_globals(fn.__globals__, name), value)

    def _variable(self, label: str, place: _Place, value: Any) -> None:
        if _is_data(value):
            self._place(label, place, value)
        elif isinstance(value, (FunctionType, MethodType)) or \
                root(type(value).__module__) == "cellc":  # gradients, Primitives with seeds
            self._note(value, label)

    def _place(self, label: str, place: _Place, value: Any) -> None:
        read, write = place
        self._places[label] = read

        def undo() -> None:
            if read() is not value:
                write(value)

        self._undo.append(undo)
        self._note(value, label)


# --- places of values -----------------------------------------------------------------------------

_Place = tuple[Callable[[], Any], Callable[[Any], None]]
"""How a variable is read, and how it is set."""


def _constant(value: Any) -> Callable[[], Any]:
    return lambda: value


def _unset(value: Any) -> None:
    """A value that no run replaces by another."""


def _of_class(kind: type, name: str) -> _Place:
    return lambda: vars(kind).get(name), lambda value: setattr(kind, name, value)


def _of_globals(space: dict[str, Any], name: str) -> _Place:
    return lambda: space.get(name), lambda value: space.__setitem__(name, value)


def _of_cell(cell: CellType) -> _Place:
    return lambda: _content(cell), lambda value: setattr(cell, "cell_contents", value)


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # the variable has no value yet
        return _MISSING


def _names(code: CodeType) -> Iterator[str]:
    """The global names that a function's code reads, those of functions inside it included."""
    yield from code.co_names
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _names(inner)


def _is_data(value: Any) -> bool:
    """Whether a variable holds data that a network may change, not code."""
    if isinstance(value, (int, float, complex, str, list, dict, set, deque, Tensor, np.ndarray,
                          np.random.Generator, type(None))):
        return True
    if isinstance(value, (type, FunctionType, MethodType)):
        return False
    if hasattr(type(value), "construct"):
        return True
    module = root(type(value).__module__)
    holds = hasattr(value, "__dict__") or hasattr(type(value), "__slots__")
    return holds and module not in _FOREIGN and not (
        module in sys.stdlib_module_names and module != "__main__")


# --- putting back ---------------------------------------------------------------------------------


def _array(x: Any) -> Array:
    array: Array = on_host(arrays_of([x])[0]) if isinstance(x, Tensor) else x
    return array


def _elements_undo(x: Any) -> Undo:
    """Of a Tensor, an array or numpy's generator."""
    if isinstance(x, np.random.Generator):
        state = x.bit_generator.state
        return lambda: setattr(x.bit_generator, "state", state)
    saved = np.array(_array(x))
    flag = x.requires_grad if isinstance(x, Parameter) else None

    def undo() -> None:
        if isinstance(x, Parameter) and x.requires_grad != flag:
            x.requires_grad = flag
        now = _array(x)
        if same_bits(now, saved):
            return
        if isinstance(x, Tensor):
            writes.before()
        held = elements_of(x) if isinstance(x, Tensor) else None
        if now.shape == saved.shape and now.dtype == saved.dtype:
            np.copyto(now, saved) if held is None else held.fill(saved)
        elif isinstance(x, Tensor):
            x._set_data(saved.copy())
        if isinstance(x, Tensor):
            writes.written((x,))

    return undo


def _container_undo(x: Any) -> Undo:
    if isinstance(x, dict):
        return _dict_undo(x)
    saved = list(x)

    def undo() -> None:
        if len(x) != len(saved) or any(a is not b for a, b in zip(x, saved, strict=True)):
            x.clear()
            x.update(saved) if isinstance(x, set) else x.extend(saved)

    return undo


def _dict_undo(x: dict[Any, Any]) -> Undo:
    saved = dict(x)

    def undo() -> None:
        if list(x) != list(saved) or any(x[k] is not v for k, v in saved.items()):
            x.clear()
            x.update(saved)

    return undo


def _object_undo(x: Any, saved: dict[str, Any]) -> Undo:
    def undo() -> None:
        now = dict(attributes(x))
        for name in now.keys() - saved.keys():
            object.__delattr__(x, name)
            changed(x, name)
        for name, value in saved.items():
            if now.get(name, _MISSING) is not value:
                object.__setattr__(x, name, value)
                changed(x, name)

    return undo


class _Random:
    """What belongs to no network: the states of random generators, the environment."""

    def __init__(self) -> None:
        self.seed = seeds.get_seed()
        self.state = seeds.default_generator().get_state()
        self.streams = {k: g.get_state() for k, g in seeds.streams().items()}
        self.numpy = np.random.get_state()
        self.environment = dict(os.environ)
        self.python = random.getstate()

    def restore(self) -> None:
        """Put them back."""
        seeds.restore_seed(self.seed)
        seeds.default_generator().set_state(self.state)
        for k, stream in seeds.streams().items():
            if k in self.streams:
                stream.set_state(self.streams[k])
        np.random.set_state(self.numpy)
        random.setstate(self.python)
        if os.environ != self.environment:
            os.environ.clear()
            os.environ.update(self.environment)


def random_table() -> Table:
    """Where all random generators are now."""
    out = Table()
    out["the global generator"] = _array(seeds.default_generator().state).copy()
    for k, stream in seeds.streams().items():
        out[f"the stream of seed {k}"] = _array(stream.state).copy()
    out["numpy.random"] = repr(np.random.get_state())
    out["random"] = random.getstate()
    return out
