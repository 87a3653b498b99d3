"""Results of calls, where tensors in the trace's own containers do not say all of it.

An object that the network makes is a new one in each call, and one that it has also put somewhere
is that very one.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict, defaultdict, deque
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.module_names import elements, is_exactly, module_of, plain
from ..tensors.tensor import Tensor
from ..tracing.pytree import Remade
from ..tracing.reads import is_iterator
from . import _model
from .functions import Callback, InterpretedFunction
from .journal import BOXES
from .per_trip import PerTrip
from .recipes import members, recipe_of
from .trust import is_own_class
from .values import Poison, RuntimeRange, Text

if TYPE_CHECKING:
    from .frames import Frame
    from .interpreter import Interpreter

_OF_THE_TRACE = (InterpretedFunction, Callback, PerTrip, Poison, RuntimeRange, Text)
_ARRAYS = (np.ndarray, bytearray, array)
_PLAIN = (list, tuple, dict, set, frozenset, deque, OrderedDict, defaultdict)


def remade(vm: Interpreter, result: Any, frame: Frame) -> Any:
    """The result of a call, or how each call makes it."""
    if not _is_made(vm, result):
        return result
    recipe = recipe_of(vm, [result], "the result", frame)
    return Remade(recipe.leaves, lambda tensors: recipe.values(tensors)[0])


def _is_made(vm: Interpreter, result: Any) -> bool:
    """Whether there are objects or arrays of the trace in a result, or what it has put somewhere;
    nothing in it is only the trace's, or of the call's arguments."""
    found, seen, rest = False, set[int](), [result]
    while rest:
        value = rest.pop()
        if id(value) in seen or isinstance(value, (type, Tensor)):
            continue
        seen.add(id(value))
        if isinstance(value, _OF_THE_TRACE) or is_iterator(value) \
                or id(value) in vm.state.arguments:
            return False
        if id(value) in vm.state.escaped:
            found = True
        elif not vm.state.is_outside(value) or is_exactly(value, (tuple, frozenset)):
            inside = _inside(value)
            found = found or _is_remade(value, inside)
            rest += inside
    return found


def _is_remade(value: Any, inside: list[Any]) -> bool:
    """Whether a value of the trace is none of the containers that structures describe."""
    kind = type(value)
    if isinstance(value, BOXES) and not isinstance(value, _ARRAYS):
        return not is_exactly(value, _PLAIN) and not module_of(kind).startswith("cellc.")
    return isinstance(value, _ARRAYS) or (_is_object(value) and bool(inside or members(value) or (
        plain(value, "__dict__") is not None)))


def _inside(value: Any) -> list[Any]:
    """The values that a container or an object of a user's class holds."""
    if isinstance(value, (list, tuple, set, frozenset, deque)):
        return [*elements(value)]
    if isinstance(value, dict):
        return [v for _, v in elements(value)]
    if not _is_object(value):
        return []
    slots = [getattr(value, m.__name__, None) for m in members(value)]
    return [*plain(value, "__dict__", {}).values(), *slots]


def _is_object(value: Any) -> bool:
    return is_own_class(type(value)) and not _model.is_cell(value)
