"""Names of classes and functions, found without a method of the user's."""

from __future__ import annotations

from types import MethodType
from typing import Any


def module_of(value: Any) -> str:
    """The module of a class or function, "" where it has none.

    `exec` in a namespace without `__name__` gives functions the module None, and classes the
    `__name__` that Python then finds: that of `builtins`.
    """
    module = getattr(value, "__module__", None)
    if not isinstance(module, str):
        return ""
    executed = module == "builtins" and isinstance(value, type) and "__module__" in vars(value)
    return "" if executed else module


def plain(value: Any, name: str, missing: Any = None) -> Any:
    """An attribute of any object, without the `__getattr__` and `__getattribute__` of its class;
    a method has those of its function."""
    if type(value) is MethodType and name not in ("__self__", "__func__"):
        value = value.__func__
    try:
        return object.__getattribute__(value, name)
    except AttributeError:
        return missing


def function_name(value: Any) -> str:
    """The name of a function or class; of other objects that of their class."""
    name = plain(value, "__name__")
    return name if isinstance(name, str) and name else type(value).__name__
