"""Native functions as methods: read from a class, they are what can be set there again.

A builtin function does not bind to instances. Python's own wrapper, `instancemethod`, does, but a
class gives the function in it when it is read (`before = Tensor.__add__`), and that no longer binds
when a program sets it back (`Tensor.__add__ = before`). So the function gets a type with the layout
of builtin functions that binds as functions written in Python do. `_works` tries it once; where the
interpreter differs, `instancemethod` serves.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from types import BuiltinFunctionType, FunctionType
from typing import Any

from .platform import address_of

_CALL, _DESCR_GET, _REPR, _MEMBERS, _GETSET = 50, 54, 66, 72, 73
"""Slots of types, by the numbers of the stable ABI."""
_VECTORCALL, _METHOD_DESCRIPTOR = 1 << 11, 1 << 17  # Flags of types
_HEAD, _WEAK_REFERENCES, _VECTORCALL_AT = 16, 40, 48
"""Places in a builtin function: the end of an object's head, and two fields."""
_SIZE_TYPE, _READ_ONLY = 19, 1  # Of the member that says where the function to call is


class _Slot(ctypes.Structure):
    """C's `PyType_Slot`."""

    _fields_ = [("slot", ctypes.c_int), ("value", ctypes.c_void_p)]


class _Member(ctypes.Structure):
    """C's `PyMemberDef`."""

    _fields_ = [("name", ctypes.c_char_p), ("type", ctypes.c_int), ("offset", ctypes.c_ssize_t),
                ("flags", ctypes.c_int), ("doc", ctypes.c_char_p)]


class _Spec(ctypes.Structure):
    """C's `PyType_Spec`."""

    _fields_ = [("name", ctypes.c_char_p), ("basicsize", ctypes.c_int), ("itemsize", ctypes.c_int),
                ("flags", ctypes.c_uint), ("slots", ctypes.c_void_p)]


def bindable(function: Any) -> Any:
    """A builtin function as a member of a class. It stays as long as the process."""
    kind = native_method_type()
    if kind is not None:
        return _as_kind(function, kind)
    new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)(
        address_of(ctypes.pythonapi.PyInstanceMethod_New))
    return new(function)


@cache
def native_method_type() -> type | None:
    """The type of native methods; None where the interpreter has no such functions."""
    try:
        kind = _make_type()
        return kind if _works(kind) else None
    except (AttributeError, SystemError, TypeError):
        return None


def _make_type() -> type:
    api, pointer, anything = ctypes.pythonapi, ctypes.c_void_p, ctypes.py_object
    slot_of = ctypes.PYFUNCTYPE(pointer, anything, ctypes.c_int)(address_of(api.PyType_GetSlot))
    members = (_Member * 2)(
        _Member(b"__vectorcalloffset__", _SIZE_TYPE, _VECTORCALL_AT, _READ_ONLY, None))
    slots = (_Slot * 6)(
        _Slot(_DESCR_GET, slot_of(FunctionType, _DESCR_GET)),
        _Slot(_CALL, address_of(api.PyVectorcall_Call)),
        _Slot(_MEMBERS, ctypes.addressof(members)),
        *(_Slot(n, slot_of(BuiltinFunctionType, n)) for n in (_GETSET, _REPR)))
    spec = _Spec(b"cellc_runtime.methods.NativeMethod", BuiltinFunctionType.__basicsize__, 0,
                 _VECTORCALL | _METHOD_DESCRIPTOR, ctypes.addressof(slots))
    new = ctypes.PYFUNCTYPE(anything, pointer)(address_of(api.PyType_FromSpec))
    kind: type = new(ctypes.addressof(spec))
    _kept.append((members, spec))
    return kind


_kept: list[object] = []  # The names in these are the type's


def _as_kind(function: Any, kind: type) -> Any:
    """An object of the type with what a builtin function holds."""
    made: Any = object.__new__(kind)
    ctypes.memmove(id(made) + _HEAD, id(function) + _HEAD, kind.__basicsize__ - _HEAD)
    ctypes.c_uint64.from_address(id(made) + _WEAK_REFERENCES).value = 0
    for each in (made, function):  # both hold what neither of them releases
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(each))
    return made


def _works(kind: type) -> bool:
    """Whether such a method binds, is called with its instance, and can be set again."""
    if BuiltinFunctionType.__basicsize__ != _VECTORCALL_AT + 8:
        return False
    method = _as_kind(sorted, kind)  # (takes arguments as native functions do)
    holder: Any = type("Holder", (list,), {"__add__": method, "ordered": method})
    for name in ("__add__", "ordered"):
        setattr(holder, name, getattr(holder, name))
    call: Callable[..., Any] = holder([2, 1]).ordered
    return (holder.ordered is method and method.__name__ == "sorted"
            and call(reverse=True) == holder.ordered([1, 2], reverse=True) == [2, 1])
