"""Which calls on objects of the run Python makes, and which the language."""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import TYPE_CHECKING, Any

from ...core.module_names import function_name, module_of, plain
from ...tensors.tensor import Tensor
from ...tracing.numbers import GraphNumber
from ...tracing.pytree import RunObject
from ..trust import is_foreign_class, is_library, is_user_function
from ..values import MISSING, Text, holds, is_runtime
from .operations import (
    called,
    holds_object,
    instance,
    is_key_of_run,
    is_piece,
    number_of,
    of_container,
    of_run,
    python,
    string,
    type_of,
)

if TYPE_CHECKING:
    from ..frames import Frame
    from ..interpreter import Interpreter

Args = list[Any]
Kwargs = dict[str, Any]

_WALKS = (enumerate, zip, map, filter, reversed, iter, callable, slice, getattr, setattr, super,
          property, functools.partial, functools.reduce)
"""Builtins that the language understands for objects of the run, too."""
_OF_TEXT = (print, str, repr, format, isinstance, type, callable)
"""Builtins that the language understands for strings that hold values of the run."""
_OF_ELEMENTS = (sum, min, max, any, all, sorted)  # Builtins that look at what a container holds
_OF_NUMBERS = {round: 2, pow: 3, complex: 1, bytes: 1, bytearray: 1}
"""Builtins that Python runs for numbers that only the run knows, with their number of arguments."""
_OF_DICTS = frozenset(("update", "fromkeys"))  # Methods of dicts that take no key
_PUTS = frozenset(("append", "extend", "insert", "update", "setdefault", "appendleft", "add"))
"""Methods of containers by which they come to hold a value."""
_BOXES = (list, dict, set, tuple, frozenset)


def call_of_python(vm: Interpreter, fn: Any, args: Args, kwargs: Kwargs, frame: Frame) -> Any:
    """The result of a call that a piece makes; MISSING where it is the language's."""
    if is_piece(fn):
        return called(vm, fn, args, kwargs, frame)
    values = [*args, *kwargs.values()]
    if _is_of_numbers(fn, values) and any(map(of_run, values)):
        return called(vm, fn, args, kwargs, frame)
    if isinstance(plain(fn, "__self__"), dict) and args and fn.__name__ not in _OF_DICTS \
            and (is_key_of_run(args[0]) or type(args[0]) is Text):
        return of_container(vm, fn, args, kwargs, frame)
    if any(type(v) is Text for v in values) and _measures_text(fn):
        args = [string(vm, a, frame) if type(a) is Text else a for a in args]
        values = [*args, *kwargs.values()]
    assert vm.pieces is not None
    if not vm.pieces.found or not any(map(holds_object, values)):
        return MISSING
    if (fn is isinstance or fn is type) and type(args[0]) is RunObject:
        return instance(vm, args[0], args[1], frame) if fn is isinstance else \
            type_of(vm, args[0], frame)
    if fn is getattr and len(args) > 2 and type(args[0]) is RunObject:
        return called(vm, fn, args, kwargs, frame)
    if isinstance(fn, type):
        return _made(vm, fn, args, kwargs, frame)
    if isinstance(fn, (BuiltinFunctionType, MethodType)):
        return _bound(vm, fn, args, kwargs, frame)
    if isinstance(fn, FunctionType) and is_library(fn.__globals__.get("__name__")):
        return _of_library(vm, fn, args, kwargs, frame)
    return MISSING


def _is_of_numbers(fn: Any, values: Sequence[Any]) -> bool:
    return (isinstance(fn, BuiltinFunctionType) or type(fn) is type) and \
        len(values) >= _OF_NUMBERS.get(fn, len(values) + 1)


def _measures_text(fn: Any) -> bool:
    """Whether a function looks into strings."""
    if isinstance(fn, type):
        return module_of(fn) == "builtins" and fn not in _OF_TEXT and \
            not issubclass(fn, BaseException)
    return isinstance(fn, BuiltinFunctionType) and fn not in _OF_TEXT and \
        not isinstance(plain(fn, "__self__"), (*_BOXES, str))


def _made(vm: Interpreter, cls: type, args: Args, kwargs: Kwargs, frame: Frame) -> Any:
    """An object of a class: containers of the language and of the user stay what they are."""
    direct = any(map(is_piece, [*args, *kwargs.values()]))
    if issubclass(cls, Tensor):
        return _of_library(vm, cls, args, kwargs, frame)
    if module_of(cls) == "builtins" and cls not in _WALKS and not issubclass(cls, BaseException):
        if cls is range:
            whole = [called(vm, operator.index, [a], {}, frame) if type(a) is RunObject else a
                     for a in args]
            return vm.call(range, whole, kwargs, frame)
        return called(vm, cls, args, kwargs, frame) if direct else MISSING
    if direct and module_of(cls) != "builtins" and is_foreign_class(cls) \
            and not hasattr(cls, "_fields"):
        return called(vm, cls, args, kwargs, frame)
    return MISSING


def _bound(vm: Interpreter, fn: Any, args: Args, kwargs: Kwargs, frame: Frame) -> Any:
    """A builtin function, or a method."""
    owner = plain(fn, "__self__")
    if isinstance(owner, _BOXES):
        if fn.__name__ in _PUTS or not any(map(is_piece, args)):
            return MISSING
        return of_container(vm, fn, args, kwargs, frame)
    of_python = plain(fn, "__module__") == "builtins" and fn not in _WALKS
    if isinstance(owner, str) or fn in _OF_ELEMENTS or (of_python and any(map(is_piece, args))):
        return called(vm, fn, args, kwargs, frame)
    function = plain(fn, "__func__")
    if isinstance(function, FunctionType) and not is_user_function(function) and \
            is_library(function.__globals__.get("__name__", "")):
        return _of_library(vm, fn, args, kwargs, frame)
    return MISSING


def _of_library(vm: Interpreter, fn: Any, args: Args, kwargs: Kwargs, frame: Frame) -> Any:
    """A function of cellc: with tensors of the graph it is the graph's, and takes numbers."""
    owner = plain(fn, "__self__")
    if not any(map(_holds_tensor, (owner, *args, *kwargs.values()))):
        return python(vm, f"{function_name(fn)}()", fn, args, kwargs,
                      frame)
    given = [number_of(vm, a, frame) for a in args]
    named = {k: number_of(vm, v, frame) for k, v in kwargs.items()}
    if any(map(holds_object, (*given, *named.values()))):
        return MISSING
    return vm.call(fn, given, named, frame)


def _holds_tensor(value: Any) -> bool:
    return holds(value, lambda v: is_runtime(v) and not isinstance(v, GraphNumber))

