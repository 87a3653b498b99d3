"""A program's replacements of primitives in graphs, and its notes about their results.

Source: `mindspore.graph`.
"""

from __future__ import annotations

import enum
import warnings
from collections.abc import Callable
from typing import Any

from ..compiled.inline import call_here
from ..core.declared import misuse
from ..core.dispatch import active_tracer
from . import primitive

Function = Callable[..., Any]


class CustomPassType(enum.Enum):
    """The subject of a custom pass."""

    PATTERN = 0
    FULL_GRAPH = 1


class _Customs:
    """Wrappers by op, and by op the functions of attributes; primitives ask it in each call."""

    def __init__(self) -> None:
        self.wrappers: dict[str, Function] = {}
        self.infers: dict[str, dict[str, Function]] = {}

    def __call__(self, name: str, run: Function, operands: tuple[Any, ...]) -> Any:
        if active_tracer() is None:
            return run()
        wrapper = self.wrappers.get(name)
        out = run() if wrapper is None else call_here(wrapper(*operands), operands)
        for attribute, infer in self.infers.get(name, {}).items():
            setattr(out, attribute, infer(*operands))
        return out

    def changed(self) -> None:
        """Have primitives ask, as long as there is something to say."""
        primitive.Primitive.customs = self if self.wrappers or self.infers else None


_CUSTOMS = _Customs()


def _check(**names: Any) -> None:
    for name, value in names.items():
        if not isinstance(value, str) or not value:
            raise ValueError(f"{name} must be a non-empty string")


def register_op_wrapper(op_name: str) -> Callable[[Function], Function]:
    """A decorator: in graphs compiled from now on, primitives of a name do something else.

    The decorated function gets the operands and returns the function that is called with them in
    place of the primitive. Ops written as functions or signs (`x + y`) remain.

    Args:
        op_name: the primitive's name (`"Add"`).

    Raises:
        RuntimeError: the primitive has a wrapper already.
    """
    _check(op_name=op_name)

    def register(wrapper: Function) -> Function:
        if op_name in _CUSTOMS.wrappers:
            raise RuntimeError(f"Registering op wrapper for op: {op_name} multiple times.")
        _CUSTOMS.wrappers[op_name] = wrapper
        _CUSTOMS.changed()
        return wrapper

    return register


def register_op_infer(op_name: str, infer_name: str) -> Callable[[Function], Function]:
    """A decorator: in graphs, results of a primitive get an attribute that a function computes.

    The function gets the operands, with the attributes that they have got so, when the graph is
    traced (MindSpore calls it once more, or several times).

    Args:
        op_name: the primitive's name (`"Add"`).
        infer_name: the attribute.

    Raises:
        RuntimeError: the primitive has such a function already.
    """
    _check(op_name=op_name, infer_name=infer_name)

    def register(infer: Function) -> Function:
        known = _CUSTOMS.infers.setdefault(op_name, {})
        if infer_name in known:
            raise RuntimeError(
                f"Registering function: {infer_name} for op: {op_name} multiple times.")
        known[infer_name] = infer
        _CUSTOMS.changed()
        return infer

    return register


def clear_op_wrapper() -> None:
    """Forget all wrappers."""
    _CUSTOMS.wrappers.clear()
    _CUSTOMS.changed()


def clear_op_infer() -> None:
    """Forget all functions of attributes."""
    _CUSTOMS.infers.clear()
    _CUSTOMS.changed()


def register_custom_pass(
    pass_name: str, plugin_so_path: str, device: str = "all",
    pass_type: CustomPassType = CustomPassType.PATTERN,
) -> bool:
    """False, with a warning: plugins are built for MindSpore's own graphs.

    Args:
        pass_name, plugin_so_path, device: which pass, of which library, on which device.
        pass_type: what it looks at.
    """
    for value in (pass_name, plugin_so_path, device):
        if not isinstance(value, str):
            raise misuse("register_custom_pass", "strings are wanted", repr(value), TypeError)
    if not isinstance(pass_type, CustomPassType):
        raise TypeError(f"pass_type must be of type CustomPassType, got {type(pass_type).__name__}")
    warnings.warn(f"register_custom_pass: {pass_name} of {plugin_so_path} is not loaded: it is "
                  "built for MindSpore's graphs.", stacklevel=2)
    return False


__all__ = [
    "CustomPassType", "clear_op_infer", "clear_op_wrapper", "register_custom_pass",
    "register_op_infer", "register_op_wrapper",
]
