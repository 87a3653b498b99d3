"""Targets of assignments: names, tuples, attributes, subscripts, and `del`."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Sequence
from threading import local
from types import FunctionType, MemberDescriptorType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.dispatch import apply
from ..core.module_names import is_exactly
from ..tensors.indexing import become, involved, is_open, write_update
from ..tensors.parameter import Parameter
from ..tensors.tensor import Tensor
from ..tensors.views import family, hand_on
from ..tracing.mutables import with_open_length
from ..tracing.numbers import GraphNumber, as_kind, as_number, kind_of
from ..tracing.pytree import RunObject
from ..tracing.reads import in_class
from ..tracing.tracer import GraphTensor, is_variable
from . import _model
from .access import mangle, read_attribute, subscript
from .asking import asked_index
from .budget import GROWING, check_growth
from .iteration import in_list, items
from .journal import BOXES
from .lengths import added, joined
from .operators import BINARY, IN_PLACE, operated
from .per_trip import PerTrip, in_place, refuse_in
from .pieces import operations
from .pieces.operations import is_piece
from .places import PlainlyStored, Stored, plain_method, raise_if_frozen
from .recipes import recipe_of
from .trust import is_own_class, is_user_function, may_change, own_method
from .values import MISSING, as_key, describe, holds_runtime, is_number, is_runtime, scalar

if TYPE_CHECKING:
    from .frames import Frame
    from .interpreter import Interpreter


def assign_to(vm: Interpreter, target: ast.expr, value: Any, frame: Frame) -> None:
    """Assign a value to a target."""
    match target:
        case ast.Name(id=name):
            frame.node = target
            vm.store(frame, name, value)
        case ast.Tuple(elts=elts) | ast.List(elts=elts):
            vm.at(target, frame)
            unpack(vm, elts, items(vm, value), frame)
        case ast.Attribute(value=owner, attr=attr):
            holder = vm.eval(owner, frame)
            vm.at(target, frame)
            set_attribute(vm, holder, mangle(attr, frame), value, frame)
        case ast.Subscript(value=owner, slice=index):
            holder = holder_of(vm, owner, frame)
            where = vm.eval(index, frame)
            vm.at(target, frame)
            set_item(vm, holder, where, value)
        case _:
            vm.unsupported(target, frame, "CE102")


def unpack(
    vm: Interpreter, targets: Sequence[ast.expr], values: Sequence[Any], frame: Frame
) -> None:
    """Assign a sequence to several targets, one of which may be starred.

    Raises:
        ValueError: their numbers differ.
    """
    stars = [i for i, t in enumerate(targets) if isinstance(t, ast.Starred)]
    count = len(targets)
    if not stars:
        if len(values) != count:
            few = len(values) < count
            raise ValueError(
                f"not enough values to unpack (expected {count}, got {len(values)})" if few
                else f"too many values to unpack (expected {count}, got {len(values)})"
            )
        for target, value in zip(targets, values, strict=True):
            assign_to(vm, target, value, frame)
        return
    at, after = stars[0], count - stars[0] - 1
    if len(values) < count - 1:
        raise ValueError(
            f"not enough values to unpack (expected at least {count - 1}, got {len(values)})"
        )
    star = targets[at]
    assert isinstance(star, ast.Starred)
    unpack(vm, targets[:at], values[:at], frame)
    assign_to(vm, star.value, list(values[at : len(values) - after]), frame)
    unpack(vm, targets[at + 1 :], values[len(values) - after :], frame)


def set_attribute(vm: Interpreter, holder: Any, name: str, value: Any, frame: Frame) -> None:
    """`holder.name = value`.

    A Parameter gets a new value; another attribute of a Cell takes compile-time values only.
    """
    if type(holder) is RunObject:
        operations.set_attribute(vm, holder, name, value, frame)
        return
    own = vm.special(holder, "__setattr__")
    if own is not None:
        vm.call(own, [holder, name, value], {}, frame)
    else:
        raise_if_frozen(holder, name, "assign to")
        put_attribute(vm, holder, name, value, frame)


def put_attribute(
    vm: Interpreter, holder: Any, name: str, value: Any, frame: Frame,
    put: Callable[..., None] | None = None,
) -> None:
    """The same without the user's `__setattr__`, by `put` or by what the class has besides."""
    found = in_class(type(holder), name, MISSING)
    if isinstance(found, property) and isinstance(found.fset, FunctionType) \
            and is_user_function(found.fset):
        vm.call(found.fset, [holder, value], {}, frame)
        return
    setter = vm.special(found, "__set__") if found is not MISSING else None
    if setter is not None:
        vm.call(setter, [found, holder, value], {}, frame)
        return
    present = getattr(holder, name, MISSING)
    if isinstance(present, Parameter) and not isinstance(value, Parameter):
        set_parameter(present, value)
        return
    if not vm.state.is_outside(holder):
        vm.note_attribute(holder, name)
        (put or plain_method(holder, "__setattr__"))(holder, name, value)
        return
    _refuse_attribute(vm, holder, name, value, frame)
    own = own_method(holder, "__setattr__") is not None
    store_outside(vm, (PlainlyStored if own else Stored)(holder, name), value, frame)


def store_outside(vm: Interpreter, slot: Stored, value: Any, frame: Frame) -> None:
    """Set a place that was there before the trace: the run does it too."""
    if vm.region_depth and not (isinstance(value, Tensor) or is_number(value)):
        raise vm.error(
            "CE502", TypeError, f"{slot.label()} is changed under a condition known only at run "
            f"time, to {describe(value)}", frame,
            hint="only numbers and tensors can be chosen at run time",
        )
    if vm.rolling:
        refuse_in([value], {})
    vm.state.write(vm, slot, value, recipe_of(vm, [value], slot.label(), frame))


def _refuse_attribute(vm: Interpreter, holder: Any, name: str, value: Any, frame: Frame) -> None:
    """Refuse an attribute that a compiled call cannot set, because a run could not do the same."""
    what = f"the attribute '{name}' of {type(holder).__name__}"
    if isinstance(value, Parameter) or _model.is_cell(value):
        raise vm.error("CE501", TypeError, f"{what} cannot be set to a {type(value).__name__} in a "
                       "compiled function", frame, hint="set it in __init__")
    described = in_class(type(holder), name, MISSING)
    own = hasattr(type(described), "__set__") and \
        not isinstance(described, MemberDescriptorType)
    if own or isinstance(holder, (MethodType, local)) or (
            isinstance(holder, (ModuleType, FunctionType)) and not may_change(holder)):
        raise vm.error("CE501", TypeError, f"{what} cannot be set in a compiled function", frame,
                       hint="keep state in an attribute of a Cell or of a plain object")


def set_parameter(parameter: Parameter, value: Any) -> None:
    """Give a Parameter a new value, converted to its element type.

    Raises:
        TypeError: the value is no tensor or number.
        ValueError: its shape is another one.
    """
    if is_number(value):
        value = scalar(value, parameter.dtype)
    if not isinstance(value, Tensor):
        raise TypeError(
            f"the parameter '{parameter.name}' takes a tensor, got a {type(value).__name__}"
        )
    if value.dtype != parameter.dtype:
        value = value.astype(parameter.dtype)
    become(parameter, value)


def holder_of(vm: Interpreter, owner: ast.expr, frame: Frame) -> Any:
    """The value of an expression whose elements are about to be assigned.

    A constant tensor becomes a value of the graph, which takes the constant's place, so that it
    can be written and later reads see it.
    """
    where: Any = None
    if isinstance(owner, ast.Subscript):
        box = holder_of(vm, owner.value, frame)
        where = vm.eval(owner.slice, frame)
        vm.at(owner, frame)
        holder = subscript(vm, box, where, frame)
    else:
        holder = vm.eval(owner, frame)
    if isinstance(holder, Tensor) and not is_runtime(holder):
        _refuse_write(vm, holder, frame)
        vm.state.change(holder)
        constant, holder = holder, GraphTensor(vm.tracer.lift(holder))
        hand_on(constant, holder)
        if isinstance(owner, ast.Subscript):
            set_item(vm, box, where, holder)
        else:
            assign_to(vm, owner, holder, frame)
        vm.at(owner, frame)
    return holder


def set_item(vm: Interpreter, holder: Any, index: Any, value: Any) -> None:
    """`holder[index] = value`; a tensor gets a new value that later reads see."""
    if vm.pieces is not None and vm.frame is not None \
            and operations.needs_run(holder, index, value):
        holder = operations.handed_over(vm, holder, vm.frame)
    if type(holder) is RunObject and vm.frame is not None:
        operations.set_item(vm, holder, index, value, vm.frame)
        return
    assert vm.frame is not None
    if isinstance(holder, Tensor):
        _note_tensors(vm, holder)
        vm.note_object(holder)
        holder[index] = value
    else:
        _change(vm, holder, operator.setitem, [index, value], vm.frame)


def _change(
    vm: Interpreter, holder: Any, function: Callable[..., Any], args: Sequence[Any], frame: Frame
) -> None:
    """`holder[...] = value` or `del holder[...]`, by the class's method if the user wrote it."""
    if isinstance(holder, (list, bytearray, np.ndarray)):
        args = _settled(vm, holder, *args)
    elif isinstance(holder, dict):
        args = [as_key(args[0]), *args[1:]]
    vm.note_object(holder)
    found = vm.special(holder, f"__{function.__name__}__")
    if found is not None:
        vm.call(found, [holder, *args], {}, frame)
        return
    if not isinstance(holder, BOXES) and vm.state.is_outside(holder) \
            and not _model.is_cell(holder):
        raise vm.error(
            "CE501", TypeError, f"elements of a {type(holder).__name__} that was made outside are "
            "changed in a compiled function", frame, hint="keep them in a list, dict or array",
        )
    vm.state.mutate(vm, [holder], function, [holder, *args], {}, frame)


def _settled(vm: Interpreter, holder: Any, index: Any, *value: Any) -> list[Any]:
    """The arguments of an assignment or a `del`: the index is asked, and elements of a list whose
    length counts as unknown stay of one type."""
    values = list(value)
    if isinstance(holder, list) and type(index) is GraphNumber and kind_of(index) is int and values:
        kinds = {kind_of(v) for v in (*holder, *values)}
        if len(kinds) == 1 and None not in kinds:
            return [slice(None), _selected(vm, holder, index, values[0])]
    known = asked_index(vm, index) if holds_runtime(index) else index
    if isinstance(holder, list) and isinstance(known, slice):
        if known is not index:
            with_open_length(vm.tracer, holder)
        values = [items(vm, v) if is_own_class(type(v)) else v for v in values]
        if values and isinstance(values[0], (list, tuple)):
            joined(vm, "[...] = ", holder, values[0], holder)
    elif isinstance(holder, list):
        values = added(vm, "[...] = ", holder, values)
    return [known, *values]


def _selected(vm: Interpreter, numbers: list[Any], index: Any, value: Any) -> list[Any]:
    """Numbers of one kind, the one at an index that only the run knows replaced."""
    count, kind = len(numbers), kind_of(value) or int
    vm.tracer.check(index, "IndexError", ("list assignment index out of range",), low=-count,
                    high=count)
    place = apply("where", index < 0, as_kind(index + count, int), index)
    return [as_number(apply("where", place == i, as_kind(value, kind), as_kind(old, kind)), kind)
            for i, old in enumerate(numbers)]


def delete_item(vm: Interpreter, holder: Any, index: Any, frame: Frame) -> None:
    """`del holder[index]`."""
    if type(holder) is RunObject:
        operations.delete_item(vm, holder, index, frame)
    else:
        _change(vm, holder, operator.delitem, [index], frame)


def _note_tensors(vm: Interpreter, holder: Tensor) -> None:
    """The tensors that share elements with one change with it."""
    assert vm.frame is not None
    for tensor in involved(holder):
        if id(tensor) in vm.state.entered:
            _refuse_write(vm, tensor, vm.frame)


def _refuse_write(vm: Interpreter, holder: Tensor, frame: Frame) -> None:
    """A Tensor from outside is an object that others may hold: its elements are not the run's."""
    if vm.state.is_outside(holder) and not is_variable(holder):
        root = family(holder)[0]
        vm.tracer.wanted[id(root)] = root
        raise vm.error(
            "CE501", TypeError, "a Tensor that was made outside is written in place by a compiled "
            "function", frame,
            hint="make it a Parameter, or set a new one: t = self.t * 1, t[i] = v, self.t = t",
        )


def augment(vm: Interpreter, node: ast.AugAssign, frame: Frame) -> None:
    """`target op= value`."""
    operate = IN_PLACE[type(node.op)]
    match node.target:
        case ast.Name(id=name):
            old = vm.load(name, frame)
            new = _operate(vm, operate, node, old, frame)
            if isinstance(old, Parameter) and not isinstance(new, Parameter):
                set_parameter(old, new)
                return
            frame.node = node.target
            vm.store(frame, name, new)
        case ast.Attribute(value=owner, attr=attr):
            holder, name = vm.eval(owner, frame), mangle(attr, frame)
            vm.at(node.target, frame)
            old = read_attribute(vm, holder, name, frame)
            new = _operate(vm, operate, node, old, frame)
            if new is not old or not isinstance(old, Tensor):
                set_attribute(vm, holder, name, new, frame)
        case ast.Subscript(value=owner, slice=index):
            holder, where = holder_of(vm, owner, frame), vm.eval(index, frame)
            vm.at(node.target, frame)
            if isinstance(holder, Tensor) and is_open(holder, where):
                _augment_open(vm, node, holder, where, frame)
                return
            old = subscript(vm, holder, where, frame)
            new = _operate(vm, operate, node, old, frame)
            set_item(vm, holder, where, new)


def _augment_open(
    vm: Interpreter, node: ast.AugAssign, holder: Tensor, where: Any, frame: Frame
) -> None:
    """`holder[where] op= value` where run-time values decide how much that is."""
    value = vm.eval(node.value, frame)
    vm.at(node, frame)
    _note_tensors(vm, holder)
    vm.note_object(holder)
    write_update(holder, where, IN_PLACE[type(node.op)], value)


def _operate(vm: Interpreter, operate: Any, node: ast.AugAssign, old: Any, frame: Frame) -> Any:
    value = vm.eval(node.value, frame)
    vm.at(node, frame)
    vm.note_object(old)
    if is_piece(value) or is_piece(old):
        return operations.operated(vm, operate, [old, value], frame)
    if type(value) is PerTrip:
        return in_place(type(node.op), operate, old, value)
    if operate is operator.iadd and vm.special(old, "__iadd__") is None:
        value = in_list(vm, old, value)
    if is_exactly(old, GROWING):
        check_growth(operate, old, value)
    found = vm.special(old, f"__{operate.__name__}__")
    if found is not None:
        result = vm.call(found, [old, value], {}, frame)
        if result is not NotImplemented:
            return result
    elif isinstance(old, BOXES):
        return vm.state.mutate(vm, [old], operate, [old, value], {}, frame)
    elif vm.special(old, f"__{BINARY[type(node.op)].__name__.strip('_')}__") is None:
        return operate(old, value)
    return operated(vm, BINARY[type(node.op)], old, value, frame)


def _delete_outside(vm: Interpreter, slot: Stored, frame: Frame) -> None:
    if vm.region_depth or slot.get() is MISSING:
        raise vm.error("CE501", TypeError, f"{slot.label()} cannot be deleted here", frame)
    vm.state.note_read(slot.target, slot.name)
    vm.state.remove(vm, slot)


def delete_attribute(
    vm: Interpreter, holder: Any, name: str, frame: Frame, plainly: bool = False
) -> None:
    """`del holder.name`; `plainly` without the user's `__delattr__`."""
    if _model.is_cell(holder):
        raise vm.error("CE501", TypeError, f"the attribute '{name}' of a Cell cannot be "
                       "deleted in construct", frame)
    own = None if plainly else vm.special(holder, "__delattr__")
    if own is not None:
        vm.call(own, [holder, name], {}, frame)
        return
    if not plainly:
        raise_if_frozen(holder, name, "delete")
    if vm.state.is_outside(holder):
        own = own_method(holder, "__delattr__")
        _delete_outside(vm, (Stored if own is None else PlainlyStored)(holder, name), frame)
    else:
        vm.note_attribute(holder, name)
        plain_method(holder, "__delattr__")(holder, name)


def of_attribute(vm: Interpreter, name: str, args: Sequence[Any], frame: Frame) -> None:
    """`Cell.__setattr__(cell, attribute, value)` or `Cell.__delattr__(cell, attribute)`."""
    if name == "__setattr__":
        holder, attribute, value = args
        put_attribute(vm, holder, attribute, value, frame)
    else:
        holder, attribute = args
        delete_attribute(vm, holder, attribute, frame, plainly=True)


def delete(vm: Interpreter, target: ast.expr, frame: Frame) -> None:
    """`del target`."""
    match target:
        case ast.Name(id=name):
            frame.node = target
            vm.delete(frame, name)
        case ast.Tuple(elts=elts) | ast.List(elts=elts):
            for t in elts:
                delete(vm, t, frame)
        case ast.Subscript(value=owner, slice=index):
            holder, where = vm.eval(owner, frame), vm.eval(index, frame)
            vm.at(target, frame)
            delete_item(vm, holder, where, frame)
        case ast.Attribute(value=owner, attr=attr):
            holder = vm.eval(owner, frame)
            vm.at(target, frame)
            delete_attribute(vm, holder, attr, frame)
        case _:
            vm.unsupported(target, frame, "CE101")
