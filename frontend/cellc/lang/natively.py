"""The user's code that Python itself runs while a graph is compiled.

A class of the standard library or a class written in C calls methods of the user's (`_missing_` of
an enum), and a `constexpr` function is called as it is. The interpreter does not see such code. A
hook of Python sees each of its functions begin; what these can read (their globals, captured
variables, and the attributes of their arguments) is compared before each call of the program.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from types import CodeType, FrameType, FunctionType
from typing import TYPE_CHECKING, Any, TypeVar

from ..core.console_source import all_codes
from ..tracing.reads import in_class, own_attributes
from .replaced import error_of, is_of_cellc
from .structure import names_in
from .trust import is_own_class, is_users
from .values import MISSING

if TYPE_CHECKING:
    from .interpreter import Interpreter

_Result = TypeVar("_Result")
_DEPTH = 3
"""Attributes of attributes up to which objects are followed."""
_MOST_GIVEN = 20_000  # Arguments of one function that are looked at (docs/limits/modes.md)


def watched(vm: Interpreter, run: Callable[[], _Result]) -> _Result:
    """The result of `run`; what the user's functions in it can read is reported."""
    if vm.reads is None:
        return run()
    began: dict[CodeType, tuple[dict[str, Any], list[Any]]] = {}

    def hook(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and is_users(frame.f_globals.get("__name__")):
            given = began.setdefault(frame.f_code, (frame.f_globals, []))[1]
            if len(given) < _MOST_GIVEN:
                given += frame.f_locals.values()

    try:
        with hooked(hook):
            return run()
    finally:
        if began:
            _report(vm, began)


@contextmanager
def hooked(hook: Callable[[FrameType, str, Any], None]) -> Iterator[None]:
    """Have Python call a hook where functions begin."""
    # A profiler written in C (cProfile) cannot be set again, so its place stays as it is.
    free = sys.getprofile() is None
    place: Callable[[Any], None] = sys.setprofile if free else sys.settrace
    before = None if free else sys.gettrace()
    place(hook)
    try:
        yield
    finally:
        place(before)


def _report(vm: Interpreter, began: dict[CodeType, tuple[dict[str, Any], list[Any]]]) -> None:
    """Report what functions of the user can have read."""
    outer = [c for c in began if not any(c in all_codes(o) and c is not o for o in began)]
    for fn in _functions_of(outer):
        vm.report_function(fn)
        if vm.reads is not None:
            for name, cell in zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True):
                vm.reads.of_closure(cell, name)
    for code in outer:
        names, given = began[code]
        used = {*names_in(code)}
        for name in used & names.keys():
            vm.report_global(names, name)
        _report_attributes(vm, given, {*used, code.co_name}, _DEPTH)


def _functions_of(codes: Iterable[CodeType]) -> list[FunctionType]:
    """The functions that have one of these codes."""
    codes = [*codes]
    return [f for f in gc.get_referrers(*codes)
            if isinstance(f, FunctionType) and any(f.__code__ is c for c in codes)]


def _report_attributes(vm: Interpreter, values: Iterable[Any], names: set[str], depth: int) -> None:
    """Report the attributes of these names that objects and classes of the user have."""
    for value in values:
        kind = value if isinstance(value, type) else type(value)
        if not is_own_class(kind) or not (kind is value or vm.state.is_outside(value)):
            continue
        held = own_attributes(value) or {}
        inner = []
        for name in names:
            if name in held or in_class(kind, name, MISSING) is not MISSING:
                vm.report(value, name)
                inner.append(held.get(name))
                if kind is not value:
                    vm.state.mark(inner[-1])
        if depth > 1:
            _report_attributes(vm, inner, names, depth - 1)


@contextmanager
def refused_natively(vm: Interpreter) -> Iterator[None]:
    """Raise an error (CE307) where Python runs a replaced member of Tensor itself."""
    members = {name: m for name, m in vm.replaced.items() if m is not None and not is_of_cellc(m)}
    if not members:
        yield
        return
    for name in members.keys() & _PROTOCOLS:
        raise error_of(vm, name, members[name])
    codes = {code: (name, m) for name, m in members.items() for code in _codes(m)}
    found: list[Exception] = []

    def hook(frame: FrameType, event: str, _: Any) -> None:
        if event != "call" or frame.f_code not in codes:
            return
        name, member = codes[frame.f_code]
        first = next(iter(frame.f_locals.values()), None)
        if isinstance(member, _FUNCTIONS) or first is member:
            found.append(error_of(vm, name, member))
            raise found[-1]

    with hooked(hook):
        yield
    if found:  # (the library has caught it)
        raise found[0]


_PROTOCOLS = frozenset((
    "__len__", "__bool__", "__iter__", "__contains__", "__reversed__", "__index__", "__int__",
    "__float__", "__complex__", "__setitem__", "__delitem__"))
"""Special methods that the language does for a tensor of the graph without a call."""
_FUNCTIONS = (FunctionType, property, staticmethod, classmethod, partial)


def _codes(member: Any) -> list[CodeType]:
    """The codes of the functions of Python's that a use of a member runs first."""
    while isinstance(member, (property, staticmethod, classmethod, partial)):
        member = member.fget if isinstance(member, property) else (
            member.func if isinstance(member, partial) else member.__func__)
    if not isinstance(member, FunctionType):
        call: Callable[..., Any] | None = in_class(type(member), "__call__", None)
        member = call
    return [member.__code__] if isinstance(member, FunctionType) else []
