"""Special methods of users' classes that builtins and operators call.

They are interpreted, so that what they read is known. A method without a source (of a dataclass,
say) is called by Python, now and before each call of the program: its result must be what it was.
Where Python itself compares, hashes or writes what a container holds, all attributes of the users'
objects in it are guarded instead (`run_by_python`).
"""

from __future__ import annotations

import math
import operator
import sys
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from types import FunctionType, SimpleNamespace, WrapperDescriptorType
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.module_names import is_exactly, module_of
from ..tensors.tensor import Tensor
from ..tracing.reads import in_class, own_attributes
from .budget import check_length
from .replaced import is_replaced
from .structure import names_in
from .trust import is_foreign_class, is_own_class, is_user_function
from .values import MISSING, any_runtime, as_key, held_in, holds, is_runtime, refuse_open

if TYPE_CHECKING:
    from .frames import Frame
    from .interpreter import Interpreter

_OF_BUILTIN: dict[Any, tuple[str, ...]] = {
    int: ("__int__", "__index__", "__trunc__"), float: ("__float__", "__index__"),
    complex: ("__complex__", "__float__", "__index__"), str: ("__str__", "__repr__"),
    repr: ("__repr__",), bytes: ("__bytes__", "__index__"),
    abs: ("__abs__",), round: ("__round__",),
    hash: ("__hash__",), reversed: ("__reversed__",), divmod: ("__divmod__",),
    format: ("__format__", "__str__", "__repr__"), operator.index: ("__index__",),
    math.floor: ("__floor__",), math.ceil: ("__ceil__",),
    math.trunc: ("__trunc__",),
}
"""Builtin -> the special methods that it looks for, in order."""
_SHOWS = frozenset(("__hash__", "__str__", "__repr__", "__format__"))
_RESULTS = (bool, int, float, complex, str, bytes, type(None))


def of_builtin(vm: Interpreter, fn: Any, args: list[Any], frame: Frame) -> Any:
    """Return a builtin's result for an object of the user; MISSING if it calls no method of it."""
    if fn.__name__ == "extend" and isinstance(args[0], (list, tuple)):
        check_length(len(fn.__self__) + len(held_in(args[0])))
    names = _OF_BUILTIN.get(fn)
    if fn is operator.index and isinstance(args[0], int):
        return MISSING  # Python asks no int, whatever its class
    if names is None or not (is_own_class(type(args[0])) or (
            vm.replaced and any(is_replaced(vm, args[0], name) for name in names))):
        return MISSING
    for name in names:
        if fn is format and name != "__format__" and args[1:] not in ([], [""]):
            return MISSING
        more = [*args[1:], ""][:1] if name == "__format__" else \
            args[1:] if name in ("__round__", "__divmod__") else []
        result = of_method(vm, args[0], name, more, lambda: fn(*args), frame)
        if result is not MISSING:
            return fn(result) if fn in (float, bytes) and type(result) is int else result
    return MISSING


def of_method(
    vm: Interpreter, value: Any, name: str, args: list[Any], run: Callable[[], Any], frame: Frame
) -> Any:
    """The result of a special method; MISSING if the class of `value` has none of its own.

    Args:
        run: has Python call it.
    """
    own = is_own_class(type(value))
    if not (own or (vm.replaced and is_replaced(vm, value, name))):
        return MISSING
    found = vm.special(value, name)
    if found is not None:
        return checked(name, vm.call(found, [value, *args], {}, frame))
    if not own:
        return MISSING
    if in_class(type(value), name, MISSING) in (MISSING, in_class(object, name, MISSING)) \
            or any_runtime([value, *args]):
        return MISSING
    if name in _SHOWS:
        refuse_open(value)
    if type(in_class(type(value), name)) is WrapperDescriptorType and \
            isinstance(value, (int, float, str)) and not any(is_own_class(type(a)) for a in args):
        return run()  # a number's or a string's own: no code of the user runs
    _is_decimal(vm, value)
    guard_extended(vm, (value, *args))
    result = vm.state.whole(vm, in_class(type(value), name), [value, *args], frame, run)
    if isinstance(result, _RESULTS):
        vm.note_result(value, name, run, result)
    return result


_CHECKED: dict[str, tuple[Any, Callable[[Any], Any]]] = {
    "__len__": (int, len), "__bool__": (bool, bool), "__str__": (str, str),
    "__repr__": (str, repr), "__format__": (str, format), "__hash__": (int, hash),
    "__index__": (int, operator.index), "__int__": (int, int), "__float__": (float, float),
    "__complex__": (complex, complex), "__bytes__": (bytes, bytes)}
"""Special methods whose results Python checks: the type that they must have, and who checks it."""
_KNOWN = (*_RESULTS, list, tuple, dict, set)


def checked(name: str, result: Any) -> Any:
    """The result of a special method of a user's class, as Python takes it.

    Raises:
        TypeError, ValueError: it is none that Python takes; with Python's words.
    """
    kind, check = _CHECKED.get(name, (int, None))
    if check is None or not is_exactly(result, _KNOWN):
        return result
    if type(result) is kind and (name != "__len__" or result >= 0):
        return result
    return check(type("Checked", (), {name: lambda *_: result})())


def as_index(vm: Interpreter, value: Any, frame: Frame) -> Any:
    """An int for an object of the user that has `__index__`, also in a slice; else the value."""
    if type(value) is slice:
        return slice(*(as_index(vm, part, frame) for part in
                       (value.start, value.stop, value.step)))
    found = of_builtin(vm, operator.index, [value], frame) if is_own_class(type(value)) else MISSING
    return value if found is MISSING else found


def is_in_class(vm: Interpreter, check: Callable[[Any, Any], bool], value: Any, kinds: Any) -> bool:
    """`isinstance` or `issubclass`; a metaclass of Python may answer otherwise later."""
    kind = value if isinstance(value, type) else type(value)
    own = is_own_class(kind)
    if own:
        vm.report(kind, "__mro__")
    flat = kinds if isinstance(kinds, tuple) else (kinds,)
    if is_runtime(value) or not any(
            isinstance(k, type) and type(k) is not type and (own or not is_foreign_class(k))
            for k in flat):
        return check(value, kinds)
    answer: bool = vm.guarded(kinds, check.__name__, lambda: check(value, kinds))
    return answer


def of_operator(
    vm: Interpreter, operate: Callable[[Any, Any], Any], a: Any, b: Any, frame: Frame
) -> Any:
    """`a op b` by a special method of either; MISSING if no class of the user has one."""
    name = operate.__name__.strip("_")
    reflected = _MIRRORED.get(name, f"r{name}")
    order = [(a, f"__{name}__", b), (b, f"__{reflected}__", a)]
    if type(b) is not type(a) and isinstance(b, type(a)):
        order.reverse()
    tried = False
    for value, method, other in order:
        result = of_method(vm, value, method, [other],
                           lambda: operate(a, b), frame)
        if result is not MISSING and result is not NotImplemented:
            return result
        tried = tried or result is NotImplemented
    return operate(a, b) if tried else MISSING


_MIRRORED = {"eq": "eq", "ne": "ne", "lt": "gt", "gt": "lt", "le": "ge", "ge": "le"}

_BY_PYTHON = ("__eq__", "__ne__", "__hash__", "__lt__", "__le__", "__gt__", "__ge__", "__str__",
              "__repr__", "__format__", "__bool__", "__len__", "__iter__", "__getitem__",
              "__contains__", "__reversed__", "__length_hint__", "__index__", "__int__",
              "__float__")
"""Special methods that Python calls for what a container holds."""


def _is_decimal(vm: Interpreter, value: Any) -> bool:
    """Whether a value is a `Decimal`; the context that it computes in is guarded then."""
    if module_of(type(value)) != "decimal":
        return False
    context = sys.modules["decimal"].getcontext
    vm.guarded(context, "the precision", lambda: (context().prec, context().rounding))
    return True


def run_by_python(vm: Interpreter, values: Iterable[Any], depth: int = 4) -> None:
    """Guard the attributes of users' objects whose special methods Python is about to run: of the
    values, and of what containers among them and the attributes hold."""
    parts: list[Any]
    for value in values:
        guard_extended(vm, (value,), depth)
        if isinstance(value, (Tensor, str, int, float, type(None), type)):
            continue
        if _is_decimal(vm, value):
            continue
        if is_own_class(type(value)):
            refuse_open(value)
        if isinstance(value, dict):
            parts = [*dict.keys(value), *dict.values(value)]
        elif isinstance(value, (list, tuple, set, frozenset, deque)):
            parts = [*value] if not is_own_class(type(value)) else []
        elif isinstance(value, SimpleNamespace):
            vm.report(value, "__dict__")
            parts = _marked(vm, value, [*value.__dict__.values()])
        elif is_own_class(type(value)) and not hasattr(type(value), "construct"):
            parts = _marked(vm, value, _attributes(vm, value))
        else:
            continue
        if depth:
            run_by_python(vm, parts, depth - 1)


def guard_extended(vm: Interpreter, values: Iterable[Any], depth: int = 4) -> None:
    """Guard where the methods of users' classes that extend a builtin one are found: Python itself
    is about to walk through, index or write such values."""
    for value in values:
        if isinstance(value, _EXTENDED) and is_own_class(type(value)):
            parts = _marked(vm, value, _members(vm, value))
            if depth:
                run_by_python(vm, parts, depth - 1)


_EXTENDED = (dict, list, tuple, set, frozenset, deque, str, int, float)
"""Builtin classes that users' classes extend: where these define a method, Python calls it."""
_OF_EXTENDED = (*_BY_PYTHON, "__missing__", "keys", "items", "values")


def _members(vm: Interpreter, value: Any) -> list[Any]:
    """Guard where the methods of a class that extends a builtin one are found, the missing ones
    too. Returns the attributes that those in Python may read."""
    kind = type(value)
    for name in _OF_EXTENDED:
        vm.report(kind, name)
    own = any(isinstance(m, FunctionType) and is_user_function(m)
              for m in (in_class(kind, n) for n in _OF_EXTENDED))
    return _attributes(vm, value) if own and not isinstance(value, Enum) else []


def written_by_python(vm: Interpreter, values: Iterable[Any]) -> None:
    """Guard what Python reads to write values as text, numpy's settings included."""
    values = [*values]
    run_by_python(vm, values)
    if holds(values, lambda v: isinstance(v, (np.ndarray, np.generic)), 4):
        vm.guarded(np, "get_printoptions", lambda: repr(np.get_printoptions()))


def _marked(vm: Interpreter, value: Any, parts: list[Any]) -> list[Any]:
    """The parts of an object; Python looks into those that were there before the trace."""
    if vm.state.is_outside(value):
        for part in parts:
            vm.state.mark(part)
    return parts


def _attributes(vm: Interpreter, value: Any) -> list[Any]:
    """The attributes of an object that special methods in Python of its class may read; each is
    reported, and what they change is looked at."""
    kind = type(value)
    for name in _BY_PYTHON:
        vm.report(kind, name)
    methods = [f for f in (in_class(kind, n) for n in _BY_PYTHON) if isinstance(f, FunctionType)]
    if not methods:
        return []
    vm.state.of_python(methods[0].__qualname__, value, vm)
    parts = dict(own_attributes(value) or {})
    for base in kind.__mro__:
        slots = base.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            part = in_class(kind, name)
            if not name.startswith("__") and hasattr(type(part), "__get__"):
                try:
                    parts[name] = part.__get__(value, kind)
                except AttributeError:  # it holds nothing yet
                    vm.report(value, name)
    used = _names_used(vm, kind, methods)
    parts = {n: p for n, p in parts.items() if used & _ANY or n in used}
    for name in parts:
        vm.report(value, name)
    return list(parts.values())


_ANY = frozenset(("__dict__", "__getattribute__", "attrgetter", "dir", "eval", "exec", "getattr",
                  "hasattr", "vars", "asdict", "astuple", "fields", "__slots__"))
"""Names by which code reads attributes that it does not name."""


def _names_used(vm: Interpreter, kind: type, methods: list[FunctionType]) -> set[str]:
    """All names in methods of a class and in the user's functions that these name, whose globals
    are reported."""
    used: set[str] = set()
    seen: set[int] = set()
    while methods:
        fn = methods.pop()
        if id(fn) in seen:
            continue
        seen.add(id(fn))
        for name in names_in(fn.__code__):
            used.add(name)
            if name in fn.__globals__:
                vm.report_global(fn.__globals__, name)
            found = in_class(kind, name, MISSING)
            if found is not MISSING:
                vm.report(kind, name)
            for part in (found, getattr(found, "fget", None), getattr(found, "func", None),
                         getattr(found, "__func__", None), fn.__globals__.get(name)):
                if isinstance(part, FunctionType) and is_user_function(part):
                    methods.append(part)
    return used


LISTS = frozenset(
    ("cells", "cells_and_names", "name_cells", "get_parameters", "parameters_and_names",
     "parameters_dict", "trainable_params", "untrainable_params", "named_parameters",
     "parameters", "named_modules", "modules", "children", "buffers", "named_buffers",
     "state_dict", "get_buffer", "get_parameter", "get_sub_cell"))
"""Methods of Cells that list what they hold."""


def report_parts(vm: Interpreter, cell: Any) -> None:
    """Report what a Cell and those below it hold."""
    for below in cell.cells_and_names():
        for table in ("_cells", "_params", "_buffers"):
            vm.report(below[1], table)
    for parameter in cell.get_parameters():
        vm.report(parameter, "requires_grad")
        vm.report(parameter, "name")


_SEARCHES = frozenset(("index", "count", "remove", "extend"))
"""Methods of sequences that have Python compare or walk through what they are given."""
_PUTS = frozenset(("append", "extend", "insert"))  # Methods that do not compare what they are given


def compared(
    vm: Interpreter, fn: Any, args: list[Any], kwargs: Mapping[str, Any]
) -> list[Any]:
    """The arguments of a container's method, which Python may compare with what it holds."""
    owner = fn.__self__
    if fn.__name__ not in _PUTS:
        vm.templates.look_at(*args)
    if args and isinstance(owner, (dict, set, frozenset)):
        args = [as_key(args[0]), *args[1:]]
    if isinstance(owner, (dict, set, frozenset, str)) or fn.__name__ in _SEARCHES:
        keys = isinstance(owner, dict) and bool(args) and not isinstance(args[0], (str, int))
        held = () if isinstance(owner, dict) and not keys else list(owner)
        run_by_python(vm, (held, *args, *kwargs.values()))
    return args
