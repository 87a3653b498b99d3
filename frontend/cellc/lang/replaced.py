"""Members of Tensor that a program has replaced (`Tensor.__add__ = f`).

Where the user's code uses one, its function is interpreted as any other of the user's. Code of
cellc that the trace calls would have Python run it: once, not in each call. That is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import CodeType, FrameType, FunctionType, MethodType
from typing import TYPE_CHECKING, Any

from ..core.module_names import module_of
from ..tensors.parameter import Parameter
from ..tensors.tensor import Tensor
from ..tracing.reads import in_class
from .errors import CompileRuntimeError
from .natively import hooked
from .trust import is_interpreted

if TYPE_CHECKING:
    from .frames import Frame
    from .interpreter import Interpreter


def is_replaced(vm: Interpreter, value: object, name: str) -> bool:
    """Whether a program has replaced a member of Tensor that this value has."""
    return name in vm.replaced and isinstance(value, Tensor) and value._number is None


def replacement(vm: Interpreter, value: Tensor, name: str) -> Any:
    """The member of a tensor's class by this name; None if Python may use it as it is: it is one
    of cellc, or there is none.

    Raises:
        CompileError: it is no function with a source (CE307).
    """
    found = in_class(Parameter if isinstance(value, Parameter) else Tensor, name, None)
    if found is None or found is not vm.replaced[name] or _is_of_cellc(found):
        return None
    getter = found.fget if isinstance(found, property) else found
    if not is_interpreted(getter):
        raise _error(vm, name, found)
    return found


def attribute(vm: Interpreter, value: Tensor, name: str, frame: Frame) -> Any:
    """`value.name`, where a program has replaced that member of Tensor."""
    found = replacement(vm, value, name)
    if found is None:
        return getattr(value, name)
    if isinstance(found, property):
        return vm.call(found.fget, [value], {}, frame)
    return MethodType(found, value)


def _is_of_cellc(member: Any) -> bool:
    return str(module_of(member) or module_of(type(member))).partition(".")[0] in _OWN


_OWN = ("cellc", "cellc_runtime")


def _error(vm: Interpreter, name: str, member: Any) -> Exception:
    said = (f"Tensor.{name} has been replaced by a {type(member).__name__}, which Python would run "
            "only once, while the graph is compiled")
    if vm.frame is None:  # (before the first function)
        return CompileRuntimeError("CE307", said, None, hint=_HINT)
    return vm.error("CE307", RuntimeError, said, vm.frame, hint=_HINT)


_HINT = "call a function of your own instead, or replace it in PyNative mode only"


@contextmanager
def refused_natively(vm: Interpreter) -> Iterator[None]:
    """Raise an error (CE307) where Python runs a replaced member of Tensor itself."""
    members = {name: m for name, m in vm.replaced.items() if m is not None and not _is_of_cellc(m)}
    if not members:
        yield
        return
    for name in members.keys() & _PROTOCOLS:
        raise _error(vm, name, members[name])
    codes = {code: (name, m) for name, m in members.items() for code in _codes(m)}
    found: list[Exception] = []

    def hook(frame: FrameType, event: str, _: Any) -> None:
        if event != "call" or frame.f_code not in codes:
            return
        name, member = codes[frame.f_code]
        first = next(iter(frame.f_locals.values()), None)
        if isinstance(member, _FUNCTIONS) or first is member:
            found.append(_error(vm, name, member))
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
