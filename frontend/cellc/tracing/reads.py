"""The reads of a trace from outside, and whether Python would find the same now.

A read is the path by which Python found a value: the object's own dictionary, the class along its
MRO, a name that is missing there, a global, a builtin, a captured variable, the code and defaults
of a function. Variables and attributes count by identity (numbers and strings by value), lists,
dicts, sets, small tensors and arrays by a copy of their contents. `guards` compares them.
"""

from __future__ import annotations

import ctypes
import types
from array import array
from collections import OrderedDict, deque
from collections.abc import Callable
from copy import copy
from functools import partial
from mmap import mmap
from typing import Any

import numpy as np

from cellc_runtime import words
from cellc_runtime.errors import counted
from cellc_runtime.lazy import lazy_imports
from cellc_runtime.records import dataclass

from ..core.invalidation import replaced_members
from ..core.module_names import elements, is_exactly, module_of
from ..tensors.parameter import Parameter
from ..tensors.tensor import Tensor, elements_now, ir_type
from .tracer import BAKED, GraphTensor, is_variable

with lazy_imports(__name__):  # numbers of the network that lie on another rank
    from ..storage import elsewhere

LARGEST_ARRAY = 1 << 20  # Bytes of a numpy array up to which a change in place is noticed
_BOOKS = frozenset(
    {"_flags", "_hooks", "_cells", "_params", "_buffers", "_inner", "_recompute_options",
     "_recompute_budget"}
)
"""Attributes of Cells that their own methods change, with a notification."""
_OFFERED = frozenset({"param_groups", "attrs"})
"""Attributes of cellc's own objects that users may change in place."""
_GONE = object()
_NAMED = (type, types.FunctionType, types.BuiltinFunctionType, types.MethodType)
_FIXED = (type, types.FunctionType, types.MethodType, types.NoneType)
_METHODS = (types.BuiltinMethodType, types.MethodWrapperType)
_VIEWS: tuple[Any, ...] = (type({}.keys()), type({}.values()), type({}.items()))
_BUFFERS = (ctypes.Array, ctypes.Structure, ctypes.Union, mmap)
_PLAIN = (bool, int, float, complex, str, bytes)


def same(a: Any, b: Any) -> bool:
    """Whether a value still is what it was."""
    if a is b:
        return True
    if type(a) is not type(b) or not isinstance(a, _PLAIN):
        return False
    if _has_attributes(a) or _has_attributes(b):
        return False  # equal numbers may have other attributes
    kind = _builtin(a)  # (a class derived from it may have an `__eq__` of its own)
    return bool(kind.__repr__(a) == kind.__repr__(b) if kind in (float, complex)
                else kind.__eq__(a, b))


def _builtin(value: Any) -> Any:
    """The class of Python that a plain value is of, or is derived from."""
    if is_exactly(value, _PLAIN):
        return type(value)
    return next(k for k in _PLAIN if isinstance(value, k))


def _has_attributes(value: Any) -> bool:
    """Whether a plain value is of a derived class and holds attributes of its own."""
    return not is_exactly(value, _PLAIN) and bool(
        own_attributes(value) or any(c.__dict__.get("__slots__") for c in type(value).__mro__))


def remains(a: Any, b: Any) -> bool:
    """Whether two values are the same, or containers of the same."""
    if type(a) is type(b) and is_exactly(a, (list, tuple)):
        return len(a) == len(b) and all(map(remains, a, b))
    if type(a) is type(b) is dict:
        return len(a) == len(b) and all(map(remains, a, b)) and all(
            map(remains, a.values(), b.values()))
    return same(a, b)


def short(value: Any, depth: int = 4) -> str:
    """A value in a few words; `depth` of containers in each other are written."""
    if not depth:
        text = "..."
    elif value is None or issubclass(type(value), _PLAIN):  # (an open size says it is an int)
        text = "None" if value is None else _builtin(value).__repr__(value)
    elif value is _GONE or isinstance(value, _NAMED):
        text = getattr(value, "__qualname__", "nothing")
    elif isinstance(value, GraphTensor):
        text = f"a tensor {ir_type(value)}"
    elif isinstance(value, Tensor):
        text = f"Tensor {ir_type(value)}"
        if ir_type(value).size <= 4 and not elsewhere.is_elsewhere(value):
            text += f" {elements_now(value).tolist()}"
    elif isinstance(value, np.ndarray):
        text = f"array {value.dtype}{list(value.shape)}"
        if value.size <= 4:
            text += f" {value.tolist()}"
    elif isinstance(value, (list, tuple)):
        text = ", ".join(short(v, depth - 1) for v in elements(value))
        text = f"[{text}]" if isinstance(value, list) else f"({text})"
    elif isinstance(value, dict):
        text = ", ".join(f"{short(k)}: {short(v, depth - 1)}" for k, v in elements(value))
        text = f"{{{text}}}"
    elif type(value).__name__ == "CellHooks":
        text = counted(len(value), 'hook')
    else:
        text = repr(value) if isinstance(value, _Members) else f"a {type(value).__name__}"
    return text if len(text) <= 60 else text[:57] + "..."


@dataclass(frozen=True, slots=True)
class Stamp:
    """Something by which Python goes that has words of its own (`cellc_runtime.words`)."""

    key: tuple[str, int, str]  # equal for equal stamps
    words: Callable[[], list[words.Word] | None]  # as they are now; None if it has none


def class_stamp(cls: type) -> Stamp:
    """A class and its bases."""
    return Stamp(("class", id(cls), ""), lambda: words.of_class(cls))


def dict_stamp(table: dict[Any, Any]) -> Stamp:
    """A dictionary."""
    return Stamp(("dict", id(table), ""), lambda: words.of_dict(table))


def instance_stamp(owner: Any, table: dict[str, Any]) -> Stamp:
    """The own attributes of an object."""
    return Stamp(("instance", id(owner), ""), lambda: words.of_instance(owner, table))


def type_stamp(owner: Any) -> Stamp:
    """The class of an object."""
    return Stamp(("type", id(owner), ""), lambda: words.of_type(owner))


def name_stamp(table: dict[str, Any], name: str) -> Stamp:
    """A name of a module."""
    return Stamp(("name", id(table), name), lambda: words.of_name(table, name))


def function_stamp(fn: types.FunctionType) -> Stamp:
    """The code and the defaults of a function."""
    return Stamp(("function", id(fn), ""), lambda: words.of_function(fn))


def cell_stamp(cell: types.CellType) -> Stamp:
    """A captured variable."""
    return Stamp(("cell", id(cell), ""), lambda: words.of_cell(cell))


@dataclass(slots=True, eq=False)
class Read:
    """Something read while compiling.

    Attributes:
        label: what messages call it.
        where: the place in the source, `file:line`, or "".
        now: reads it again.
        before: `value` in words.
        content: a copy of what was in it, for what can change in place; None for the rest.
        watched: only stamps and `watch` tell of it; where it has no words, no call looks at it.
        key: the identity of what holds it, and its name.
        stamps: while these are what they were, `now` gives `value`.
    """

    label: str
    where: str
    now: Callable[[], Any]
    value: Any
    before: str = ""
    content: Any = None
    watched: bool = False
    key: tuple[int, str] = (0, "")
    stamps: tuple[Stamp, ...] = ()

    @property
    def compared(self) -> bool:
        """Whether a call must look at it where it has no words."""
        return not self.watched or self.content is not None

    @property
    def in_place(self) -> bool:
        """Whether what is in it may change while its stamps stay what they are."""
        return self.content is not None and not (
            (type(self.value) is dict or self.key[1] in _TABLES)
            and all(c is None for c in self.content[1]))

    @property
    def finds_nothing(self) -> bool:
        """Whether it looks for members that a program has replaced, and there are none."""
        return isinstance(self.value, _Members) and not self.value.found

    def changed(self) -> bool:
        """Whether it is another value, or another content, now."""
        if not self.watched and not same(self.now(), self.value):
            return True
        return self.content is not None and not holds_content(self.value, self.content)

    def moved(self) -> bool:
        """The same, where `watch` does not count."""
        return not same(self.now(), self.value) or (
            self.content is not None and not holds_content(self.value, self.content))

    def describe(self) -> str:
        """Describe the old and the new value, and the place of the read."""
        where = f" (read at {self.where})" if self.where else ""
        now = self.now()
        if now is self.value and self.content is not None and short(now) == self.before:
            return f"{self.label} was changed in place{where}"
        return f"{self.label}: {self.before} -> {short(now)}{where}"


def _held(value: Any) -> Any:
    """The container of a view or of a bound method of Python; else the value."""
    if isinstance(value, _VIEWS):
        return value.mapping
    return value.__self__ if is_exactly(value, _METHODS) else value


def content(value: Any, outer: tuple[int, ...] = ()) -> Any:
    """A copy of what can change in a value in place; None if nothing can. `outer`: identities of
    the containers that it is in."""
    if isinstance(value, _FIXED) or id(value) in outer:  # (a container that contains itself)
        return None
    value = _held(value)
    if isinstance(value, (list, tuple, deque)):
        parts, outer = [*elements(value)], (*outer, id(value))
        inner = [content(v, outer) for v in parts]
        if isinstance(value, tuple) and all(c is None for c in inner):
            return None
        return parts, inner
    if isinstance(value, (dict, types.MappingProxyType)):
        parts, outer = [*elements(value)], (*outer, id(value))
        return parts, [content(v, outer) for _, v in parts]
    if isinstance(value, set):
        return ({*elements(value)},)
    if isinstance(value, (bytearray, array)):
        return (copy(value),)
    if isinstance(value, (memoryview, *_BUFFERS)):
        return _raw(value)
    if isinstance(value, Tensor):
        if isinstance(value, GraphTensor) or is_variable(value) or value._layout.size > BAKED:
            return None
        return value._data, value._data.tobytes()
    if isinstance(value, np.ndarray) and value.nbytes <= LARGEST_ARRAY:
        if not value.dtype.hasobject:
            return value.shape, value.dtype, value.tobytes()
        parts, outer = [*value.flat], (*outer, id(value))
        return value.shape, value.dtype, (parts, [content(v, outer) for v in parts])
    return None


def _raw(value: Any) -> tuple[bytes | None] | None:
    """The bytes of a buffer; None if they are too many to be compared."""
    try:
        return (bytes(value),) if memoryview(value).nbytes <= LARGEST_ARRAY else None
    except (ValueError, BufferError):  # it is closed, or released
        return (None,)


def holds_content(value: Any, kept: Any) -> bool:
    """Whether what is in a value still is what was."""
    value = _held(value)
    if isinstance(value, Tensor):
        data, raw = kept
        return value._data is data and bool(data.tobytes() == raw)
    if isinstance(value, np.ndarray):
        shape, dtype, raw = kept
        if value.shape != shape or value.dtype != dtype:
            return False
        return holds_content([*value.flat], raw) if dtype.hasobject else bool(
            value.tobytes() == raw)
    if isinstance(value, set):
        return bool(set.__eq__(value, kept[0]))
    if isinstance(value, (bytearray, array)):
        return bool(value == kept[0])
    if isinstance(value, (memoryview, *_BUFFERS)):
        return bool(_raw(value) == kept)
    old, inner = kept
    values = [*elements(value)]
    if len(values) != len(old):
        return False
    if isinstance(value, (dict, types.MappingProxyType)):
        for (k, v), (old_k, old_v) in zip(values, old, strict=True):
            if not same(k, old_k) or not same(v, old_v):
                return False
        values = [v for _, v in values]
    elif not all(map(same, values, old)):
        return False
    return all(c is None or holds_content(v, c) for v, c in zip(values, inner, strict=True))


class _Members:
    """Members of classes by name, which count as the same while each is the same object."""

    def __init__(self, found: dict[str, Any]) -> None:
        self.found = found

    def __repr__(self) -> str:
        return ", ".join(sorted(self.found)) or "none"

    def again(self) -> _Members:
        """The replaced members of now: this object if they are the same."""
        now = replaced_members()
        alike = now.keys() == self.found.keys() and all(
            now[name] is value for name, value in self.found.items())
        return self if alike else _Members(now)


class Reads:
    """Collects what a trace reads from outside.

    Args:
        place: the place in the source that is being compiled, `file:line`.
    """

    def __init__(self, place: Callable[[], str]) -> None:
        self.place = place
        self.found: dict[tuple[int, str], Read] = {}
        self.attributes: dict[tuple[int, str], tuple[Any, str]] = {}

    def of_attribute(self, target: Any, name: str) -> None:
        """An attribute of a Cell, a Parameter, a class or a user's object, as Python finds it."""
        key = id(target), name
        if key in self.attributes:
            return
        self.attributes[key] = target, name
        if isinstance(target, super):
            self._of_bases(target, name)
            return
        kind = type(target)
        if isinstance(target, type):
            if name == "__mro__":
                self._note(key, f"the bases of {target.__name__}", lambda: target.__mro__,
                           target.__mro__, False, class_stamp(target))
                return
            self._of_class(target, name)
            if kind is not type:
                self._of_class(kind, name)
            return
        cell, table = _is_cell(kind), own_attributes(target)
        of_class = key[0], "__class__"
        if kind.__flags__ & _CHANGEABLE_TYPE and of_class not in self.found and (
                cell or not module_of(kind).startswith("cellc.")):
            self._note(of_class, f"the class of a {kind.__name__}",
                       lambda: type(target), kind, table is not None,
                       *(() if table is None else (instance_stamp(target, table),)))
        found = self._of_class(kind, name)
        if isinstance(found, types.MemberDescriptorType):
            self._note(key, f"{name} of {kind.__name__}", lambda: _slot(found, target, kind),
                       _slot(found, target, kind))
            return
        told = cell or (issubclass(kind, Tensor) and found is not _GONE)
        if table is None or (name not in table and name != "__dict__"
                             and hasattr(type(found), "__set__")):
            return  # a data descriptor comes before what the object has itself
        if name == "__dict__":
            self._note(key, f"the attributes of {kind.__name__}", lambda: own_attributes(target),
                       table, False, instance_stamp(target, table))
            return
        label = f"{'the hooks' if name == '_hooks' else name} of {kind.__name__}"
        value = table.get(name, _GONE)
        self._note(key, label, lambda: (own_attributes(target) or {}).get(name, _GONE), value,
                   told or (value is _GONE and callable(found)), instance_stamp(target, table))
        if value is _GONE and found is _GONE and cell:
            self._of_member(target, name, label)

    def _of_member(self, cell: Any, name: str, label: str) -> None:
        """A Parameter or Cell that a Cell holds in its tables."""
        tables = [t for t in map(cell.__dict__.get, _TABLES) if type(t) is OrderedDict]
        self._note((id(cell), f"{name} in its tables"), label, lambda: _member(cell, name),
                   _member(cell, name), True, *map(dict_stamp, tables))

    def _of_class(self, cls: type, name: str) -> Any:
        """Note and return Python's attribute of a class along its MRO."""
        now = partial(_own_call if name == "__call__" and _is_cell(cls) else in_class, cls, name)
        value = now()
        if not cls.__flags__ & _CHANGEABLE_TYPE or (id(cls), name) in self.found:
            return value
        owner = next((c for c in cls.__mro__ if name in c.__dict__), cls)
        own = module_of(owner).startswith("cellc.")
        if not (own and name.startswith("_") and name[:2] + name[-2:] != "____"):
            fixed = own or value is _GONE or callable(value) or hasattr(type(value), "__get__")
            self._note((id(cls), name), f"{name} of the class {cls.__name__}",
                       now, value, fixed, class_stamp(cls))
        return value

    def _of_bases(self, target: Any, name: str) -> None:
        """Note the attribute that `super()` finds: in the classes after one of the MRO."""
        cls, after = target.__self_class__, target.__thisclass__

        def now() -> Any:
            mro = cls.__mro__
            bases = mro[mro.index(after) + 1:] if after in mro else ()
            return next((b.__dict__[name] for b in bases if name in b.__dict__), _GONE)

        self._note((id(cls), f"{name} after {id(after)}"), f"{name} of a base of {cls.__name__}",
                   now, now(), True, class_stamp(cls))

    def of_globals(self, table: dict[str, Any], name: str) -> None:
        """A name of a module, or of the builtins; it may be missing there."""
        value = table.get(name, _GONE)
        self._note((id(table), name), f"the variable {name}", lambda: table.get(name, _GONE), value,
                   value is _GONE or _fixed(value), name_stamp(table, name))

    def of_module(self, module: types.ModuleType) -> None:
        """The class of a module, which may get properties."""
        if not module_of(type(module)).startswith("cellc.") and not str(
                module.__dict__.get("__name__")).startswith("cellc"):
            self._note((id(module), "__class__"), "the class of a module", lambda: type(module),
                       type(module), True, type_stamp(module))

    def of_closure(self, cell: types.CellType, name: str) -> None:
        """A captured variable; it may have no value."""
        value = _contents(cell)
        self._note((id(cell), name), f"the variable {name}", lambda: _contents(cell),
                   value, value is not _GONE and _fixed(value), cell_stamp(cell))

    def of_function(self, fn: types.FunctionType) -> None:
        """The code and the defaults of a function whose source is read."""
        stamp = function_stamp(fn)
        for name, what in _PARTS_OF_FUNCTIONS.items():
            value = getattr(fn, name)
            self._note((id(fn), name), f"{what} of {fn.__qualname__}()", partial(getattr, fn, name),
                       value, type(value) is not dict, stamp)

    def of_members(self) -> dict[str, Any]:
        """The members of Tensor and Parameter that the program has replaced, by name."""
        kept = _Members(replaced_members())
        self._note((id(Parameter), "*"), "replaced members of Tensor", kept.again, kept, False,
                   class_stamp(Parameter))
        return kept.found

    def of_partial(self, fn: Any) -> None:
        """The arguments that a `functools.partial` holds."""
        for name in ("func", "args", "keywords"):
            self._note((id(fn), name), f"{name} of the partial", partial(getattr, fn, name),
                       getattr(fn, name))

    def of_result(self, target: Any, method: str, call: Callable[[], Any], result: Any) -> None:
        """Note the result of an object's special method, which Python calls again to compare."""
        kept = copy(result) if is_exactly(result, (list, dict)) else result

        def now() -> Any:
            try:
                found = call()
            except Exception:
                return _GONE  # the call that is made then raises it
            return result if remains(found, kept) else found

        self._note((id(call), method), f"{method} of {type(target).__name__}", now, result)

    def _note(
        self, key: tuple[int, str], label: str, now: Callable[[], Any], value: Any,
        watched: bool = False, *stamps: Stamp,
    ) -> None:
        if key not in self.found:
            self.found[key] = Read(label, self.place(), now, value, "", None, watched, key, stamps)
            if value is not _GONE and _is_cell(type(value)) and hasattr(type(value), "__iter__"):
                self.of_attribute(value, "_cells")

    def finish(self) -> list[Read]:
        """All reads, with what is in them now, at the end of the trace."""
        for (owner, name), read in self.found.items():
            target = self.attributes.get((owner, name))
            own = target is not None and (
                name in _BOOKS or (name not in _OFFERED
                and module_of(type(target[0])).startswith("cellc."))
            )  # what a layer of cellc holds does not change in place
            read.content = None if own else content(read.value)
            if name in _TABLES and isinstance(read.value, OrderedDict):
                read.content = list(read.value.items()), [None] * len(read.value)
            if read.stamps and isinstance(read.value, dict) and read.content is not None \
                    and not read.in_place:
                read.stamps = (*read.stamps, dict_stamp(read.value))
            read.before = short(read.value)
        return list(self.found.values())


_TABLES = ("_params", "_cells", "_inner")
"""Where Cells hold what is no attribute of their own, in the order in which it is looked for."""
_PARTS_OF_FUNCTIONS = {"__code__": "the code", "__defaults__": "the defaults",
                       "__kwdefaults__": "the keyword defaults"}
_CHANGEABLE_TYPE = 1 << 9  # The flag of classes that a program has made (`Py_TPFLAGS_HEAPTYPE`)


def is_iterator(value: Any) -> bool:
    """Whether a value is an iterator, as `collections.abc` says it: no metaclass is asked."""
    kind = type(value)
    return in_class(kind, "__next__") is not _GONE and in_class(kind, "__iter__") is not _GONE


def in_class(cls: type, name: str, missing: Any = _GONE) -> Any:
    """Return a class's attribute along its MRO, without running descriptors."""
    for base in cls.__mro__:
        if name in base.__dict__:
            return base.__dict__[name]
    return missing


def _own_call(cls: type, name: str) -> Any:
    """The `__call__` that users gave to a class of Cells; cellc's may be one for speed."""
    found = in_class(cls, name)
    own = isinstance(found, types.FunctionType) and not module_of(found).startswith("cellc.")
    return found if own else _GONE


def own_attributes(target: Any) -> dict[str, Any] | None:
    """The `__dict__` of an object, without a method of its class; None if it has none."""
    for base in type(target).__mro__:
        if "__dict__" not in base.__dict__:
            continue  # (most classes: this is checked for each read)
        found = base.__dict__["__dict__"]
        if isinstance(found, (types.GetSetDescriptorType, types.MemberDescriptorType)):
            table = found.__get__(target)
            return table if isinstance(table, dict) else None
    return None


def _slot(descriptor: types.MemberDescriptorType, target: Any, kind: type) -> Any:
    try:
        return descriptor.__get__(target, kind)
    except AttributeError:
        return _GONE


def _member(cell: Any, name: str) -> Any:
    tables = map(cell.__dict__.get, _TABLES)
    return next((t[name] for t in tables if t is not None and name in t), _GONE)


def _is_cell(kind: type) -> bool:
    return ("Cell", "cellc.nn.cell") in [(c.__name__, c.__module__) for c in kind.__mro__]


def _fixed(value: Any) -> bool:
    module = getattr(value, "__module__", None) if callable(value) else None
    return isinstance(value, types.ModuleType) or (
        isinstance(module, str) and module.split(".")[0] == "cellc"
    )


def _contents(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # emptied by `del`
        return _GONE

