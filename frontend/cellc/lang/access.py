"""Attributes and subscripts: reading."""

from __future__ import annotations

import ast
import functools
import operator
import os
from collections.abc import Callable, Sequence
from functools import partial
from threading import local
from types import FunctionType, MemberDescriptorType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from cellc_compiler.ir.dims import is_symbolic
from cellc_runtime import dtypes

from ..calls.pieces import itself
from ..core.dispatch import apply
from ..core.module_names import is_exactly, module_of
from ..tensors.parameter import Parameter
from ..tensors.tensor import Tensor
from ..tracing.mutables import with_open_length
from ..tracing.numbers import GraphNumber, kind_of
from ..tracing.pytree import RunObject
from ..tracing.reads import in_class, own_attributes, remains
from ..tracing.tracer import GraphTensor
from . import _model
from .asking import asked_index
from .control import choose, truth
from .iteration import VIEWS
from .iteration import items as elements_of
from .journal import BOXES
from .lengths import carried
from .pieces import operations
from .places import Stored
from .protocols import as_index, of_method, run_by_python
from .replaced import is_replaced, replacement
from .state import insert_missing
from .trust import is_interpreted, is_library, is_own_class, is_user_function
from .values import MISSING, Text, as_key, as_known, holds_runtime, is_runtime
from .world import refuse_proxy

if TYPE_CHECKING:
    from .frames import Frame
    from .interpreter import Interpreter


def mangle(name: str, frame: Frame) -> str:
    """A private name as Python stores it in a class."""
    if name.startswith("__") and not name.endswith("__") and frame.class_name:
        return f"_{frame.class_name.lstrip('_')}{name}"
    return name


_PLAIN = (Tensor, ModuleType, type, FunctionType, str, int, float, list, tuple, dict, set,
          np.ndarray)
_METHODS = {"has_key": "__contains__"}
"""Methods of dicts in MindSpore's graph mode besides Python's."""


_TEXTS = frozenset(("__name__", "__qualname__", "__module__", "__doc__", "__bases__", "__mro__",
                    "__annotations__", "__defaults__", "__kwdefaults__", "__code__",
                    "__type_params__"))
"""Attributes of classes and functions of whose change Python keeps no word."""
_OF_PARAMETERS = {
    "requires_grad": "requires_grad", "name": "name",
    **dict.fromkeys(("shape", "dtype", "ndim", "size", "nbytes", "itemsize", "strides"), "shape")}
"""Attributes of a Parameter that users change -> the name under which a change is reported."""


def read_attribute(vm: Interpreter, target: Any, name: str, frame: Frame) -> Any:
    """`target.name`; what a class of the user says of it is interpreted, the read is reported."""
    if vm.pieces is not None and (type(target) is RunObject or type(target) is Text):
        return operations.attribute(vm, target, name, frame)
    refuse_proxy(vm, target, frame)
    if isinstance(target, ModuleType):
        if vm.reads is not None:
            vm.reads.of_module(target)
        if not is_own_class(type(target)):
            return _of_module(vm, target, name, frame)
    if isinstance(target, local) or (
            name in _TEXTS and isinstance(target, (type, FunctionType)) and not is_library(
                module_of(target))):
        found = vm.guarded(target, name, lambda: getattr(target, name))
        vm.state.mark(found)
        return found
    if name == "__dict__" and isinstance(target, type) and is_own_class(target):
        vm.guarded(target, name, lambda: dict(target.__dict__))  # (a new view at each read)
    if type(target) is FunctionType and not name.startswith("__"):
        vm.report(target, name)
    if isinstance(target, _PLAIN) and not isinstance(target, type) and \
            not is_own_class(type(target)):
        return _of_plain(vm, target, name, frame)
    found = in_class(type(target), name, MISSING)
    if isinstance(found, property) and isinstance(found.fget, FunctionType) \
            and is_user_function(found.fget):
        vm.report(target, name)
        return _or_fallback(vm, target, name, found.fget, [target], frame)
    return _found(vm, target, name, found, frame)


def _replaced_attribute(vm: Interpreter, value: Tensor, name: str, frame: Frame) -> Any:
    """`value.name`, where a program has replaced that member of Tensor."""
    found = replacement(vm, value, name)
    if found is None:
        return getattr(value, name)
    if isinstance(found, property):
        return vm.call(found.fget, [value], {}, frame)
    return MethodType(found, value)


def _or_fallback(
    vm: Interpreter, target: Any, name: str, getter: Any, args: list[Any], frame: Frame
) -> Any:
    """The result of a getter; without such an attribute, that of the class's `__getattr__`."""
    fallback = vm.special(target, "__getattr__")
    if fallback is None:
        return vm.call(getter, args, {}, frame)
    try:
        return vm.call(getter, args, {}, frame)
    except AttributeError:
        vm.frame = frame
        return vm.call(fallback, [target, name], {}, frame)


def _of_module(vm: Interpreter, target: ModuleType, name: str, frame: Frame) -> Any:
    names, report = target.__dict__, vm.report_global
    getter = MISSING if name in names else names.get("__getattr__")
    if isinstance(getter, FunctionType) and is_user_function(getter):
        report(names, name)
        report(names, "__getattr__")
        return vm.call(getter, [name], {}, frame)
    try:
        value = getattr(target, name)  # a module that loads names when they are read keeps it
    finally:
        report(names, name)
    vm.state.mark(value)
    return value


def _found(vm: Interpreter, target: Any, name: str, found: Any, frame: Frame) -> Any:
    """An attribute of an object; `found`: what its class has under that name."""
    own = vm.special(target, "__getattribute__")
    if own is not None:
        return _or_fallback(vm, target, name, own, [target, name], frame)
    getter = vm.special(found, "__get__") if found is not MISSING else None
    if getter is not None and (vm.special(found, "__set__") is not None
                               or in_class(type(found), "__set__", MISSING) is not MISSING
                               or name not in (own_attributes(target) or {})):
        vm.report(target, name)
        return _or_fallback(vm, target, name, getter, [found, target, type(target)], frame)
    if isinstance(found, functools.partialmethod):
        for part in ("func", "args", "keywords"):
            vm.report(found, part)
    held = in_class(target, name, MISSING) if isinstance(target, type) else MISSING
    getter = vm.special(held, "__get__") if held is not MISSING else None
    if getter is not None and not hasattr(type(found), "__set__"):
        vm.report(target, name)
        return vm.call(getter, [held, None, target], {}, frame)
    if isinstance(found, functools.cached_property) and not vm.state.is_outside(target) \
            and is_interpreted(found.func) and name not in (own_attributes(target) or {}):
        vm.note_attribute(target, name)
        return target.__dict__.setdefault(name, vm.call(found.func, [target], {}, frame))
    fallback = vm.special(target, "__getattr__") if found is held is MISSING else None
    if fallback is not None and name not in (own_attributes(target) or {}):
        vm.report(target, name)
        return vm.call(fallback, [target, name], {}, frame)
    return _of_state(vm, target, name, found) if vm.state.is_outside(target) \
        else getattr(target, name)


def _of_state(vm: Interpreter, target: Any, name: str, found: Any) -> Any:
    """An attribute of an object that was there before the trace, which may have changed it."""
    outside = vm.state.note_read(target, name)
    if not outside and name not in (own_attributes(target) or {}):
        vm.report(type(target), name)  # (the trace has deleted its own)
    try:
        value = getattr(target, name)
    finally:
        if outside:
            vm.report(target, name)
    if outside:
        if hasattr(type(found), "__set__") and not isinstance(found, MemberDescriptorType):
            _guard_result(vm, target, name, value)
        if not isinstance(target, super):  # (a method of an object that the trace may have made)
            vm.state.mark(value)
        return value
    return vm.state.current(vm, Stored(target, name), value)


def _guard_result(vm: Interpreter, target: Any, name: str, value: Any) -> None:
    """Compare what a descriptor that is not interpreted gives (of C, of an installed package)
    before each call, unless each read makes another object."""
    if not module_of(type(target)).startswith("cellc.") and remains(value, getattr(target, name)):
        vm.note_result(target, name, lambda: getattr(target, name), value)


_WITH_ATTRIBUTES = (FunctionType, MethodType, functools.partial)
"""Values of Python's own that programs give attributes, or that lead to containers."""
_BY_VALUE = {"__hash__", "__str__", "__repr__", "__format__"}
"""Methods of numbers that an open size has for itself."""


def _of_plain(vm: Interpreter, target: Any, name: str, frame: Frame) -> Any:
    """An attribute of a value of Python's own, of numpy's or of a tensor."""
    if vm.replaced and is_replaced(vm, target, name):
        return _replaced_attribute(vm, target, name, frame)
    if isinstance(target, GraphNumber) and name[:1] != "_" and hasattr(kind_of(target), name):
        return operations.attribute_of_number(vm, target, name, frame)
    if name in _BY_VALUE and is_symbolic(target):
        target = as_known(target)
    if isinstance(target, Parameter) and name in _OF_PARAMETERS:
        vm.report(target, _OF_PARAMETERS[name])
    elif isinstance(target, GraphTensor):
        vm.report(Tensor, name)  # (a program may give the class another method)
    elif isinstance(target, Tensor) and in_class(type(target), name, MISSING) is MISSING:
        vm.report(target, name)
    value = getattr(target, _METHODS.get(name, name) if type(target) is dict else name)
    if isinstance(target, _WITH_ATTRIBUTES) and vm.state.is_outside(target):
        vm.state.mark(value)
    return value


def _lacks(vm: Interpreter, target: dict[Any, Any], key: Any) -> bool:
    """Whether a dict has no such key."""
    if not isinstance(key, (str, int)):
        run_by_python(vm, (key, list(target)))
    return not dict.__contains__(target, key)


def subscript(vm: Interpreter, target: Any, index: Any, frame: Frame) -> Any:
    """`target[index]`."""
    given = target
    if vm.pieces is not None and operations.needs_python(target, index):
        return operations.subscript(vm, target, index, frame)
    if vm.pieces is not None and operations.holds_object(index):
        index = operations.index_of_tensor(vm, index, frame)
    if isinstance(target, (dict, *VIEWS)):
        vm.templates.look_at(index)
        index = as_key(index)
        target = target if isinstance(target, dict) else elements_of(vm, target)
    if is_runtime(index) and isinstance(target, (list, tuple)) and not isinstance(target, Tensor):
        return pick(vm, target, index, frame)
    if holds_runtime(index):
        if isinstance(target, np.ndarray):
            target = Tensor(target)
        elif isinstance(target, (list, tuple, str, range, bytes, dict)):
            known = asked_index(vm, index)
            if isinstance(known, slice) and is_exactly(target, (list, tuple)):
                return with_open_length(vm.tracer, target[known])
            index = known
    found = vm.special(target, "__getitem__")
    if found is not None:
        return vm.call(found, [target, index], {}, frame)
    if isinstance(target, (*BOXES, tuple, str)) and is_own_class(type(target)) and \
            type(in_class(type(target), "__getitem__")) is FunctionType:  # it has no source
        return of_method(vm, target, "__getitem__", [index], lambda: given[index], frame)
    if not isinstance(target, dict):
        index = as_index(vm, index, frame)
    return _item(vm, target, index, frame)


def _item(vm: Interpreter, target: Any, index: Any, frame: Frame) -> Any:
    """`target[index]` where no method of the user gives it."""
    if _model.is_cell(target) and not isinstance(index, Tensor):
        vm.report(target, "_cells")
    if isinstance(target, dict) and _lacks(vm, target, index):
        return insert_missing(vm, target, index, frame)
    if target is os.environ:
        vm.state.environment(index, vm)
    if isinstance(target, (*BOXES, tuple, str, range, Tensor)) or _model.is_cell(target):
        return carried(vm, target[index], target) if isinstance(index, slice) else target[index]
    return vm.state.whole(vm, operator.getitem, (target,), frame, lambda: target[index])


def pairs_of(vm: Interpreter, mapping: Any, frame: Frame) -> list[tuple[Any, Any]]:
    """The items of `**mapping`: Python asks for the keys, then for the value of each. Of a dict it
    takes what the dict holds, unless its class has an `__iter__` of its own."""
    if isinstance(mapping, dict) and vm.special(mapping, "__iter__") is None and \
            in_class(type(mapping), "__iter__") is dict.__iter__:
        return [*dict.items(mapping)]
    if not hasattr(mapping, "keys"):
        return [*mapping.items()]
    keys = vm.call(read_attribute(vm, mapping, "keys", frame), [], {}, frame)
    return [(key, subscript(vm, mapping, key, frame)) for key in elements_of(vm, keys)]


def pick(vm: Interpreter, target: Sequence[Any], index: Tensor, frame: Frame) -> Any:
    """An element of a list chosen by a run-time index: a chain of selections."""
    assert frame.node is not None
    node = frame.node
    if not target:
        raise IndexError("an empty list has no elements")
    if index.dtype is dtypes.bool_:
        index = apply("cast", index, dtype=dtypes.int64)
    if any(_model.is_cell(t) or callable(t) for t in target):
        raise vm.error(
            "CE404", TypeError, "functions and Cells cannot be stored by a run-time index",
            frame, hint="call it at once: self.layers[i](x)",
        )

    check_choice(vm, target, len(target), index)
    return switch(vm, node, index, [partial(itself, t) for t in target], frame)


def check_choice(vm: Interpreter, target: Any, count: int, index: Tensor) -> None:
    """An IndexError when the network runs, unless a run-time index chooses one of `count`."""
    kind = type(target).__name__
    parts: tuple[str | int, ...] = (f"{kind} index out of range",)
    if _model.is_cell(target):
        parts = (f"For '{kind}', the value of 'index' must be a number in range [{-count}, "
                 f"{count}), but got ", 0, ".")
    vm.tracer.check(index, "IndexError", parts, low=-count, high=count)


def switch(
    vm: Interpreter, node: ast.AST, index: Tensor, cases: Sequence[Callable[[], Any]],
    frame: Frame,
) -> Any:
    """The value of the case a run-time index chooses; negative ones count from the end. The
    caller has `check_choice` end the call for one out of range.

    Halves are chosen between, so a hundred cases are seven conditions deep.
    """
    count = len(cases)
    less: Any = operator.lt
    if count > 1:
        negative = less(index, 0)
        index = apply("where", negative, index + count, index)

    def among(lo: int, hi: int) -> Any:
        if hi - lo == 1:
            return cases[lo]()
        middle = (lo + hi) // 2
        lower = truth(vm, less(index, middle), frame)
        return choose(vm, node, lower, frame, lambda: among(lo, middle),
                      lambda: among(middle, hi))

    return among(0, count)
