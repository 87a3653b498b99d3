"""The signature by which two calls are traced alike; see `call_templates`."""

from __future__ import annotations

from collections.abc import Hashable
from functools import cache
from itertools import starmap
from types import (
    BuiltinFunctionType,
    FunctionType,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
)
from typing import Any

import numpy as np

from cellc_runtime.dtypes import DType

from ..calls import inner_primitives
from ..core.module_names import class_key, is_exactly, module_of
from ..tensors.parameter import Parameter
from ..tensors.tensor import Tensor
from ..tracing.reads import is_iterator
from ..tracing.tracer import GraphTensor, is_variable
from . import _model
from .journal import BOXES, differs, shallow
from .state import State
from .trust import is_user_function

MOST_PARTS = 4000  # Parts of a signature; larger arguments are not compared
LARGEST_CONSTANT = 1 << 16  # Bytes of a tensor from outside up to which its elements are compared

PLAIN = (bool, int, str, bytes, type(None), type(Ellipsis), DType)
_MAY_DIFFER = frozenset((bool, int, float, str, type(None)))
_FIXED = (type, FunctionType, BuiltinFunctionType, ModuleType)
_SEEN = (FunctionType, staticmethod, classmethod, GetSetDescriptorType, MemberDescriptorType)
_READ_BY_PYTHON = frozenset(
    {"__getattr__", "__getattribute__", "__repr__", "__str__", "__format__", "extend_repr"})
"""Methods that Python calls, so that what they read is not seen."""
_UNLIKE_IN_CELLS = frozenset({"_create_time", "_entries", "_inner", "_param_prefix"})
"""Attributes of Cells that a trace does not depend on."""
_OF_EVERY_CELL = frozenset({"training", "requires_grad", "cls_name"})
_UNLIKE_IN_PARAMETERS = frozenset(
    {"_serial", "_storage", "_name", "auto_named", "_waited"})


@cache
def _is_of_the_user(kind: type) -> bool:
    """Whether all that a Cell's class reads is seen: its own code is interpreted."""
    own = [c for c in kind.__mro__ if not f"{module_of(c)}.".startswith("cellc.nn.cell.")]
    return not any(module_of(c).startswith("cellc.") for c in own) and all(
        name not in _READ_BY_PYTHON and _is_seen(value)
        for c in own if c is not object for name, value in vars(c).items())


def _is_seen(member: Any) -> bool:
    """Whether a member of a class is plain, or code that is interpreted when it is asked for."""
    if isinstance(member, property):
        return isinstance(member.fget, FunctionType) and is_user_function(member.fget)
    return isinstance(member, _SEEN) or not hasattr(type(member), "__get__")


class Unlike(Exception):
    """A value that nothing is like, or that is too large to compare."""


class Signature:
    """The common part of two calls, in `key`, and the own part of each.

    Args:
        state: what the trace made and changed. Objects that it made may change unseen, but for
            lists, dicts and arrays, whose contents are compared: others must have been there
            before.
    """

    def __init__(self, state: State, *values: Any) -> None:
        self._state = state
        self.boxes: list[tuple[Any, Any]] = []  # lists, dicts and arrays, with what is in them
        self.tensors: list[Tensor] = []  # in the places that the key numbers, each once
        self.objects: list[Any] = []  # Cells and Parameters, in the order of the key
        # numbers and strings that Cells of the user hold, by the number of the object and the name:
        # they count where they are read
        self.plain: dict[tuple[int, str], Hashable] = {}
        # others that the key names by identity, which must not be used again
        self.held: list[Any] = []
        self._numbers: dict[int, int] = {}
        self._parts = 0
        self.key: Hashable = tuple([self._of(v) for v in values])

    def _of(self, value: Any) -> Hashable:
        self._parts += 1
        if self._parts > MOST_PARTS:
            raise Unlike
        kind = type(value)
        if type(kind) is type and kind in PLAIN:  # (`is_exactly`, without a call)
            return kind, value
        if kind is float or kind is complex:
            return kind, repr(value)  # (0.0 is not -0.0, and NaN is NaN)
        if isinstance(value, Tensor):
            return self._tensor(kind, value)
        if isinstance(value, (tuple, list, dict)):
            return self._box(kind, value)
        if _model.is_cell(value):
            return self._cell(kind, value)
        if kind is MethodType:
            return kind, self._of(value.__self__), self._of(value.__func__)
        if isinstance(value, np.ndarray) and value.nbytes <= LARGEST_CONSTANT \
                and value.dtype != object:
            self.boxes.append((value, shallow(value)))
            return kind, value.dtype.str, value.shape, value.tobytes()
        return self._object(value)

    def _box(self, kind: type, value: Any) -> Hashable:
        if not isinstance(value, tuple):
            self.boxes.append((value, shallow(value)))
        if isinstance(value, dict):
            return class_key(kind), tuple([(self._of(k), self._of(v)) for k, v in value.items()])
        return class_key(kind), tuple([self._of(v) for v in value])

    def _object(self, value: Any) -> Hashable:
        """An object whose changes in a trace `State` always sees."""
        if not isinstance(value, _FIXED) and (
                isinstance(value, BOXES) or is_iterator(value) or not self._state.is_outside(value)
                or type(value).__module__.startswith(("cellc.lang.", "cellc.tracing."))):
            raise Unlike
        self.held.append(value)
        return "object", id(value)

    def unchanged(self) -> bool:
        """Whether lists, dicts and arrays hold what they held."""
        return not any(starmap(differs, self.boxes))

    def _number(self, value: Any) -> int | None:
        """The number of an object that came before; else it gets the next one."""
        found = self._numbers.get(id(value))
        if found is None:
            self._numbers[id(value)] = len(self._numbers)
            self.held.append(value)
        return found

    def _cell(self, kind: type, cell: Any) -> Hashable:
        before = self._number(cell)
        if before is not None:
            return "before", before
        if not self._state.is_outside(cell):
            raise Unlike
        number = len(self.objects)
        self.objects.append(cell)
        if inner_primitives.marked(cell):
            raise Unlike  # primitives within it are laid out, each in its own way
        own = _is_of_the_user(kind)
        parts: list[Hashable] = [class_key(kind)]
        for name, value in cell.__dict__.items():
            if own and name[0] != "_" and name not in _OF_EVERY_CELL \
                    and is_exactly(value, _MAY_DIFFER):
                self.plain[number, name] = self._of(value)
                parts.append(name)
            elif name not in _UNLIKE_IN_CELLS:
                parts.append((name, self._of(value)))
        return tuple(parts)

    def _tensor(self, kind: type, tensor: Tensor) -> Hashable:
        graph = isinstance(tensor, GraphTensor)
        if graph and kind is not GraphTensor:
            raise Unlike  # a number of Python's that only the run knows
        before = self._number(tensor)
        if before is not None:
            return "before", before
        self.tensors.append(tensor)
        if tensor.__dict__.get("_hooks"):
            raise Unlike
        of = kind, tensor.dtype, tensor.shape
        if graph:
            return of
        if is_variable(tensor) and not isinstance(tensor, Parameter):
            raise Unlike
        if isinstance(tensor, Parameter):
            self.objects.append(tensor)
            return of, tuple([
                (k, self._of(v)) for k, v in tensor.__dict__.items()
                if k not in _UNLIKE_IN_PARAMETERS])
        if tensor.nbytes > LARGEST_CONSTANT:
            self.held.append(tensor)
            return "object", id(tensor)
        return of, tensor.asnumpy().tobytes()
