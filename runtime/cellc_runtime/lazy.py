"""Modules that load at their first use, so that importing cellc stays fast.

    if TYPE_CHECKING:
        from cellc_compiler import driver
    else:
        driver = lazy_module("cellc_compiler.driver")

Importers see an ordinary module; what it costs to load is paid by the first attribute access.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any


class _Lazy(ModuleType):
    """Stands for a module until an attribute of it is asked for."""

    def __getattr__(self, name: str) -> Any:
        module = import_module(self.__name__)
        value = getattr(module, name)
        # The next access finds it here, without this call.
        self.__dict__[name] = value
        return value


def lazy_module(name: str) -> Any:
    """The module called `name`, imported when it is first used."""
    return sys.modules.get(name) or _Lazy(name)
