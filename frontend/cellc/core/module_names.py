"""The modules that classes and functions come from, by name, also where Python knows none."""

from __future__ import annotations

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
