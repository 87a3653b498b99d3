"""Targets of assignments: names, tuples, attributes, subscripts, and `del`."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..common._indexing import ancestors, is_open, write_update
from ..common.parameter import Parameter
from ..common.tensor import Tensor
from ..core.dispatch import assign
from ..core.tracer import GraphTensor
from . import _model
from .access import mangle, read_attribute, subscript
from .iteration import items
from .operators import IN_PLACE
from .per_trip import PerTrip, in_place
from .values import MISSING, holds_runtime, is_number, is_runtime, scalar

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
    present = getattr(holder, name, MISSING)
    if isinstance(present, Parameter) and not isinstance(value, Parameter):
        set_parameter(vm, present, value, frame)
        return
    if _model.is_cell(holder):
        if holds_runtime(value):
            raise vm.error(
                "CE501", TypeError,
                f"the attribute '{name}' of {type(holder).__name__} cannot hold a tensor computed "
                "in construct", frame,
                hint=f"make it a Parameter (self.{name} = Parameter(...) in __init__), "
                "or return the tensor",
            )
        if vm.region_depth:
            raise vm.error(
                "CE502", TypeError,
                f"the attribute '{name}' of {type(holder).__name__} is changed under a condition "
                "known only at run time", frame, hint="keep state in a Parameter",
            )
    vm.note_attribute(holder, name)
    setattr(holder, name, value)


def set_parameter(vm: Interpreter, parameter: Parameter, value: Any, frame: Frame) -> None:
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
    assign(parameter, value)


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
        holder = GraphTensor(vm.tracer.lift(holder))
        if isinstance(owner, ast.Subscript):
            set_item(vm, box, where, holder)
        else:
            assign_to(vm, owner, holder, frame)
        vm.at(owner, frame)
    return holder


def set_item(vm: Interpreter, holder: Any, index: Any, value: Any) -> None:
    """`holder[index] = value`; a tensor gets a new value that later reads see."""
    if isinstance(holder, Tensor):
        _note_tensors(vm, holder)
    elif is_runtime(index):
        raise TypeError(
            f"a {type(holder).__name__} cannot be assigned at an index known only at run time"
        )
    vm.note_object(holder)
    holder[index] = value


def _note_tensors(vm: Interpreter, holder: Tensor) -> None:
    """The tensors that a part was taken from change with it."""
    for whole, _ in ancestors(holder):
        vm.note_object(whole)


def augment(vm: Interpreter, node: ast.AugAssign, frame: Frame) -> None:
    """`target op= value`."""
    operate = IN_PLACE[type(node.op)]
    match node.target:
        case ast.Name(id=name):
            old = vm.load(name, frame)
            new = _operate(vm, operate, node, old, frame)
            if isinstance(old, Parameter) and not isinstance(new, Parameter):
                set_parameter(vm, old, new, frame)
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
    if type(value) is PerTrip:
        return in_place(type(node.op), operate, old, value)
    return operate(old, value)


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
            vm.note_object(holder)
            del holder[where]
        case ast.Attribute(value=owner, attr=attr):
            holder = vm.eval(owner, frame)
            vm.at(target, frame)
            if _model.is_cell(holder):
                raise vm.error("CE501", TypeError, f"the attribute '{attr}' of a Cell cannot be "
                               "deleted in construct", frame)
            vm.note_attribute(holder, attr)
            delattr(holder, attr)
        case _:
            vm.unsupported(target, frame, "CE101")
