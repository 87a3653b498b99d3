"""Attributes and subscripts: reading."""

from __future__ import annotations

import ast
import operator
import os
from collections.abc import Callable, Sequence
from functools import partial
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from cellc_runtime import dtypes

from ..core.dispatch import apply
from ..tensors.parameter import Parameter
from ..tensors.tensor import Tensor
from ..tracing.numbers import GraphNumber, kind_of
from ..tracing.pytree import RunObject
from . import _model
from .asking import asked_index
from .control import choose, truth
from .iteration import VIEWS
from .iteration import items as elements_of
from .pieces import operations
from .state import Stored, insert_missing
from .trust import is_user_function, own_method
from .values import MISSING, Text, holds_runtime, is_runtime

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
"""What MindSpore's graph mode has of dicts beside Python's methods."""


def read_attribute(vm: Interpreter, target: Any, name: str, frame: Frame) -> Any:
    """`target.name`; properties of user classes are interpreted, reads of Cells reported."""
    if vm.pieces is not None and type(target) in (RunObject, Text):
        return operations.attribute(vm, target, name, frame)
    if isinstance(target, ModuleType):
        if vm.hooks.on_global_read is not None and not target.__name__.startswith("cellc"):
            vm.hooks.on_global_read(target.__dict__, name)
        value = getattr(target, name)
        vm.state.mark(value)
        return value
    if isinstance(target, _PLAIN) and not isinstance(target, type):
        return _of_plain(vm, target, name, frame)
    found = static_attribute(type(target), name)
    if isinstance(found, property) and isinstance(found.fget, FunctionType) \
            and is_user_function(found.fget):
        if vm.hooks.on_attribute_read is not None:
            vm.hooks.on_attribute_read(target, name)
        return vm.call(found.fget, [target], {}, frame)
    if not vm.state.is_outside(target):
        return getattr(target, name)
    if name == "__dict__":
        raise vm.error("CE303", RuntimeError, "__dict__ is not available in a compiled function",
                       frame, hint="use getattr and setattr")
    outside = vm.state.note_read(target, name)
    if outside and vm.hooks.on_attribute_read is not None:
        vm.hooks.on_attribute_read(target, name)
    value = getattr(target, name)
    if outside:
        vm.state.mark(value)
        return value
    return vm.state.current(vm, Stored(target, name), value)


def _of_plain(vm: Interpreter, target: Any, name: str, frame: Frame) -> Any:
    """An attribute of a value of Python's own, of numpy's or of a tensor."""
    if isinstance(target, GraphNumber) and name[:1] != "_" and hasattr(kind_of(target), name):
        return operations.attribute_of_number(vm, target, name, frame)
    if name == "requires_grad" and isinstance(target, Parameter) \
            and vm.hooks.on_attribute_read is not None:
        vm.hooks.on_attribute_read(target, name)
    return getattr(target, _METHODS.get(name, name) if type(target) is dict else name)


def static_attribute(cls: type, name: str) -> Any:
    """A class attribute without running descriptors; MISSING if there is none."""
    for base in cls.__mro__:
        found = base.__dict__.get(name, MISSING)
        if found is not MISSING:
            return found
    return MISSING


def subscript(vm: Interpreter, target: Any, index: Any, frame: Frame) -> Any:
    """`target[index]`."""
    if vm.pieces is not None and operations.needs_python(target, index):
        return operations.subscript(vm, target, index, frame)
    if vm.pieces is not None and operations.holds_object(index):
        index = operations.index_of_tensor(vm, index, frame)
    if isinstance(target, (dict, *VIEWS)):
        vm.templates.look_at(index)
        target = target if isinstance(target, dict) else elements_of(vm, target)
    if is_runtime(index) and isinstance(target, (list, tuple)) and not isinstance(target, Tensor):
        return pick(vm, target, index, frame)
    if holds_runtime(index):
        if isinstance(target, np.ndarray):
            target = Tensor(target)
        elif isinstance(target, (list, tuple, str, range, bytes, dict)):
            index = asked_index(vm, index)
    if _model.is_cell(target) and not isinstance(index, Tensor) and \
            vm.hooks.on_attribute_read is not None:
        vm.hooks.on_attribute_read(target, "_cells")
    found = own_method(target, "__getitem__")
    if found is not None:
        return vm.call(found, [target, index], {}, frame)
    if isinstance(target, dict) and not dict.__contains__(target, index):
        return insert_missing(vm, target, index, frame)
    if target is os.environ:
        vm.state.environment(index, vm)
    return target[index]


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
    return switch(vm, node, index, [partial(_itself, t) for t in target], frame)


def check_choice(vm: Interpreter, target: Any, count: int, index: Tensor) -> None:
    """An IndexError when the network runs, unless a run-time index chooses one of `count`."""
    kind = type(target).__name__
    parts: tuple[str | int, ...] = (f"{kind} index out of range",)
    if _model.is_cell(target):
        parts = (f"For '{kind}', the value of 'index' must be a number in range [{-count}, "
                 f"{count}), but got ", 0, ".")
    vm.tracer.check(index, "IndexError", parts, low=-count, high=count)


def _itself(value: Any) -> Any:
    return value


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
