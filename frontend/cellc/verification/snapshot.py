"""The state that a run of a network can change, saved before it and restored after it.

Everything that can be reached from the network is noted: elements of Parameters and Tensors,
attributes, containers, the data of classes, what functions close over, the globals that they read
or set, also those of modules that they name, and the states of all random generators (cellc's,
numpy's, Python's).
"""

from __future__ import annotations

import builtins
import dis
import os
import random
import sys
from array import array
from collections import ChainMap, OrderedDict, UserDict, UserList, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from types import CodeType, FunctionType, MethodType, ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from cellc_runtime.device_array import on_host

from ..core.console_source import all_codes
from ..core.invalidation import changed
from ..core.module_names import module_of, plain
from ..lang.journal import Content, differs
from ..lang.places import CapturedName, GlobalName, Stored
from ..lang.structure import names_in
from ..lang.trust import is_user_function, root
from ..lang.values import MISSING
from ..storage import writes
from ..storage.device import elements_of
from ..tensors import seed as seeds
from ..tensors.parameter import Parameter
from ..tensors.tensor import OpenTensor, Tensor, arrays_of, use_elements
from ..tracing.reads import in_class, is_iterator
from .values import Table, attributes, parts_of, same_bits, table_of

Array = np.ndarray[Any, Any]
Undo = Callable[[], None]
_FOREIGN = frozenset(("cellc", "cellc_compiler", "cellc_runtime", "numpy", "ml_dtypes"))


class Snapshot:
    """The state of everything that `roots` lead to; the end of a `with` block puts it back.

    Args:
        roots: what is looked at, by the names that messages use.
    """

    def __init__(self, roots: Mapping[str, Any]) -> None:
        self.unknown: list[str] = []  # paths of iterators, which cannot be put back
        self._random = _Random()
        self._undo: list[Undo] = []
        self._places: dict[str, Callable[[], Any]] = {}
        self._seen: dict[int, Any] = {}
        self._variables: set[tuple[int, str]] = set()
        for name, value in roots.items():
            self._places[name] = _constant(value)
            self._note(value, name)

    def restore(self) -> None:
        """Put everything back that has changed."""
        for undo in self._undo:
            undo()
        self._random.restore()

    def __enter__(self) -> Snapshot:
        return self

    def __exit__(self, *_: object) -> None:
        self.restore()

    def table(self) -> Table:
        """Return the present state, by path."""
        out = Table()
        for name, read in self._places.items():
            value = read()
            if value is not MISSING:
                out.update(table_of(value, name))
        return out

    # --- noting -----------------------------------------------------------------------------------

    def _first(self, x: Any) -> bool:
        """Whether this is the first time to come here (kept, so that identities last)."""
        if id(x) in self._seen:
            return False
        self._seen[id(x)] = x
        return True

    def _note(self, x: Any, path: str) -> None:
        if isinstance(x, type):
            self._class(x)
        if isinstance(x, (type, OpenTensor)) or not self._first(x):
            return
        if isinstance(x, (MethodType, FunctionType)):
            self._callable(x, path)
        elif isinstance(x, (Tensor, np.ndarray, np.random.Generator)):
            self._undo.append(_elements_undo(x))
        elif is_iterator(x):
            self.unknown.append(path)
        else:
            self._object(x, path)

    def _callable(self, x: Any, path: str) -> None:
        if isinstance(x, MethodType):
            self._note(x.__self__, path)
            self._note(x.__func__, path)
        else:
            self._function(x)

    def _object(self, x: Any, path: str) -> None:
        """A container, or anything with attributes."""
        if isinstance(x, _CONTAINERS):
            self._undo.append(_container_undo(x))
        elif isinstance(x, random.Random):
            state = x.getstate()
            self._undo.append(lambda: x.setstate(state))
        own = dict(attributes(x))
        if own or isinstance(plain(x, "__dict__"), dict):
            self._undo.append(_object_undo(x, own))
        for name, part in parts_of(x)[1]:
            self._note(part, path + name)
        for value in own.values():  # of them, `_params` and `_cells` are no part
            self._note(value, path)
        wrapped = plain(x, "fn")
        if isinstance(wrapped, (FunctionType, MethodType)):  # of `jit`
            self._note(wrapped, path)
        self._class(type(x))

    def _class(self, kind: type) -> None:
        """The functions and the data of a user's class."""
        for base in kind.__mro__:
            if _is_foreign(module_of(base)) or not self._first(base):
                continue
            before = dict(vars(base))
            for name, value in before.items():
                value = getattr(value, "__func__", value)  # of static and class methods
                if isinstance(value, FunctionType):
                    self._note(value, name)
                elif not name.startswith("__") and _is_data(value):
                    self._place(f"{base.__qualname__}.{name}", Stored(base, name), value)
            self._additions(base, base.__qualname__, before)

    def _additions(self, owner: type | ModuleType, label: str, before: dict[str, Any]) -> None:
        """Data that are set in a class or module where no such name was."""
        def added() -> dict[str, Any]:
            return {n: v for n, v in vars(owner).items()
                    if n not in before and not n.startswith("__")}

        def undo() -> None:
            for name in added():
                delattr(owner, name)

        self._undo.append(undo)
        self._places[f"new names of {label}"] = lambda: added() or MISSING

    def _function(self, fn: FunctionType) -> None:
        for name, cell in zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True):
            if self._first(cell):
                place = CapturedName(cell, name)
                value = place.get()
                self._variable(f"{fn.__name__}'s {name}", place, value)
                if isinstance(value, ModuleType):
                    self._module(value, [*names_in(fn.__code__)])
        for value in (*(fn.__defaults__ or ()), *(fn.__kwdefaults__ or {}).values()):
            if _is_data(value):
                label = f"a default of {fn.__name__}"
                self._places[label] = _constant(value)
                self._note(value, label)
        if not is_user_function(fn):
            return
        self._attributes_of(fn)
        names = list(dict.fromkeys(names_in(fn.__code__)))
        unset = [n for n in names if n not in fn.__globals__ and not hasattr(builtins, n)]
        stored = set(_stored(fn.__code__)) if unset else set()
        for name in names:
            value = fn.__globals__.get(name, MISSING)
            if isinstance(value, ModuleType):
                self._module(value, names)
            elif value is not MISSING or name in stored:
                self._global(fn.__globals__, name, value)

    def _attributes_of(self, fn: FunctionType) -> None:
        """The data in the attributes of a function."""
        own, label = fn.__dict__, f"attributes of {fn.__name__}"

        def data() -> dict[str, Any]:
            return {name: value for name, value in own.items() if _is_data(value)}

        def undo() -> None:
            for name in data().keys() - before.keys():
                del own[name]
            own.update(before)

        before = data()
        self._undo.append(undo)
        self._places[label] = lambda: data() or MISSING
        for value in before.values():
            self._note(value, label)

    def _module(self, module: ModuleType, names: Sequence[str]) -> None:
        """Save the attributes that a function reads or sets of a user's module that it names."""
        if _is_foreign(module.__name__):
            return
        if self._first(module):
            self._additions(module, module.__name__, dict(vars(module)))
        for name in names:
            value = vars(module).get(name, MISSING)
            if isinstance(value, ModuleType):
                if self._first((module.__name__, name)):
                    self._module(value, names)
            elif value is not MISSING:
                self._global(vars(module), name, value)

    def _global(self, space: dict[str, Any], name: str, value: Any) -> None:
        if (id(space), name) in self._variables:
            return
        self._variables.add((id(space), name))
        label = f"global {name}"
        if label in self._places:  # one of another module
            label = f"global {space.get('__name__')}.{name}"
        self._variable(label, GlobalName(space, name), value)

    def _variable(self, label: str, place: Stored, value: Any) -> None:
        if value is MISSING or _is_data(value):
            self._place(label, place, value)
        elif isinstance(value, (FunctionType, MethodType, partial, type)) or \
                root(module_of(type(value))) == "cellc":  # gradients, Primitives with seeds
            self._note(value, label)

    def _place(self, label: str, place: Stored, value: Any) -> None:
        self._places[label] = place.get

        def undo() -> None:
            if place.get() is not value:
                place.put(value)

        self._undo.append(undo)
        self._note(value, label)


# --- what a function names ------------------------------------------------------------------------


def _constant(value: Any) -> Callable[[], Any]:
    return lambda: value


def _stored(code: CodeType) -> Iterator[str]:
    """The global names that a function's code sets, those of functions inside it included."""
    return (i.argval for each in all_codes(code) for i in dis.get_instructions(each)
            if i.opname in ("STORE_GLOBAL", "DELETE_GLOBAL"))


_CONTAINERS = (list, OrderedDict, dict, set, deque, bytearray, array)
_DATA = (int, float, complex, str, bytes, tuple, frozenset, type(None), *_CONTAINERS, Tensor,
         np.ndarray, np.random.Generator, random.Random, UserDict, UserList, ChainMap,
         SimpleNamespace)


def _is_foreign(module: str) -> bool:
    """Whether a module is of a library that networks do not change."""
    name = root(module)
    return name in _FOREIGN or (name in sys.stdlib_module_names and name != "__main__")


def _is_data(value: Any) -> bool:
    """Whether a variable holds data that a network may change, not code."""
    if isinstance(value, _DATA) or is_iterator(value):
        return True
    if isinstance(value, (type, FunctionType, MethodType, ModuleType)):
        return False
    if hasattr(type(value), "construct"):
        return True
    holds = in_class(type(value), "__slots__", None) is not None or \
        plain(value, "__dict__") is not None
    return holds and not _is_foreign(module_of(type(value)))


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
            use_elements(x, saved.copy())
        if isinstance(x, Tensor):
            writes.written((x,))

    return undo


def _container_undo(x: Any) -> Undo:
    place = Content(x)
    saved = place.get()
    return lambda: place.put(saved) if differs(x, saved) else None


def _object_undo(x: Any, saved: dict[str, Any]) -> Undo:
    def undo() -> None:
        now = dict(attributes(x))
        for name in now.keys() - saved.keys():
            object.__delattr__(x, name)
            changed(x, name)
        for name, value in saved.items():
            if now.get(name, MISSING) is not value:
                object.__setattr__(x, name, value)
                changed(x, name)

    return undo


class _Random:
    """State of no network: the random generators, the environment."""

    def __init__(self) -> None:
        self.seed = seeds.get_seed()
        self.state = seeds.default_generator.get_state()
        self.streams = {k: g.get_state() for k, g in seeds.streams().items()}
        self.numpy = np.random.get_state()
        self.environment = dict(os.environ)
        self.python = random.getstate()

    def restore(self) -> None:
        """Put them back."""
        seeds.restore_seed(self.seed)
        seeds.default_generator.set_state(self.state)
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
    out["the global generator"] = _array(seeds.default_generator.state).copy()
    for k, stream in seeds.streams().items():
        out[f"the stream of seed {k}"] = _array(stream.state).copy()
    out["numpy.random"] = repr(np.random.get_state())
    out["random"] = random.getstate()
    return out
