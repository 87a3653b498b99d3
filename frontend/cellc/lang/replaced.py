"""Members of Tensor that a program has replaced (`Tensor.__add__ = f`).

Where the user's code uses one, its function is interpreted as any other of the user's. Code of
cellc that the trace calls would have Python run it: once, not in each call. That is an error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from ..core.module_names import module_of
from ..tensors.parameter import Parameter
from ..tensors.tensor import Tensor
from ..tracing.reads import in_class
from .errors import CompileRuntimeError
from .trust import is_interpreted

if TYPE_CHECKING:
    from .frames import Frame


class Host(Protocol):
    """The interpreter at work.

    Attributes:
        replaced: the members of Tensor that a program has replaced, by name.
        frame: the function being interpreted; None before the first.
    """

    replaced: dict[str, Any]
    frame: Frame | None

    @property
    def error(self) -> Callable[..., Exception]:
        """Makes an error of the network, with its place."""


def is_replaced(vm: Host, value: object, name: str) -> bool:
    """Whether a program has replaced a member of Tensor that this value has."""
    return name in vm.replaced and isinstance(value, Tensor) and value._number is None


def replacement(vm: Host, value: Tensor, name: str) -> Any:
    """The member of a tensor's class by this name; None if Python may use it as it is: it is one
    of cellc, or there is none.

    Raises:
        CompileError: it is no function with a source (CE307).
    """
    found = in_class(Parameter if isinstance(value, Parameter) else Tensor, name, None)
    if found is None or found is not vm.replaced[name] or is_of_cellc(found):
        return None
    getter = found.fget if isinstance(found, property) else found
    if not is_interpreted(getter):
        raise error_of(vm, name, found)
    return found


def is_of_cellc(member: Any) -> bool:
    """Whether a member is one that cellc has set."""
    return str(module_of(member) or module_of(type(member))).partition(".")[0] in _OWN


_OWN = ("cellc", "cellc_runtime")


def error_of(vm: Host, name: str, member: Any) -> Exception:
    """The error of a replaced member that Python would run itself."""
    said = (f"Tensor.{name} has been replaced by a {type(member).__name__}, which Python would run "
            "only once, while the graph is compiled")
    if vm.frame is None:  # (before the first function)
        return CompileRuntimeError("CE307", said, None, hint=_HINT)
    return vm.error("CE307", RuntimeError, said, vm.frame, hint=_HINT)


_HINT = "call a function of your own instead, or replace it in PyNative mode only"
