"""Which functions are interpreted and which are called.

Library functions of cellc are ordinary Python over tensors and are called. The bodies of Cells,
also those of `cellc.nn`, and the user's functions are interpreted from their source. Everything
else is third-party: it may run, but only on values known at compile time.
"""

from __future__ import annotations

import _collections_abc
import sys
from collections import deque
from functools import lru_cache
from types import FunctionType, MethodWrapperType, ModuleType
from typing import Any

from ..core.module_names import module_of, plain
from .errors import CompileError
from .source import function_source, has_source, register_source

_FOREIGN = frozenset(
    ("numpy", "scipy", "torch", "pandas", "sklearn", "jax", "ml_dtypes", "PIL", "matplotlib",
     "networkx", "llvmlite", "numba", "cellc_compiler", "cellc_runtime", "_pytest", "pluggy")
)


_INTERPRETED = frozenset(("collections", "collections.abc", "contextlib"))


def root(module: str) -> str:
    """The first part of a module's name."""
    return module.partition(".")[0]


def is_library(module: str | None) -> bool:
    """Whether functions of a module are cellc's own and called directly."""
    if module is None or root(module) != "cellc":
        return False
    return f"{module}.".startswith("cellc.nn.cell.") or not module.startswith(
        ("cellc.nn.", "cellc.train.", "cellc.experimental.", "cellc.mint.nn.layer.",
         "cellc.mint.optim.", "cellc.ops.functional.control_source",
         "cellc.ops.optimizer_rules.", "cellc.numpy.applied")
    )


@lru_cache(maxsize=4096)
def _foreign_module(module: str) -> bool:
    name = root(module)
    return name in _FOREIGN or (name in sys.stdlib_module_names and name != "__main__")


def may_change(holder: Any) -> bool:
    """Whether a compiled network may set attributes of a module or function: the user's own, whose
    attributes nothing reads but the user's code."""
    return is_users(holder.__name__ if isinstance(holder, ModuleType) else holder.__module__)


_NOT_THE_USERS = frozenset(("builtins", "numpy", "cellc", "cellc_compiler", "cellc_runtime"))


def is_own_class(kind: type) -> bool:
    """Whether a class is neither Python's, numpy's nor cellc's."""
    stated = kind.__dict__.get("__module__")  # (a descriptor, or none, in classes written in C)
    return isinstance(stated, str) and (  # (`builtins`: see `module_of`)
        stated == "builtins" or stated.partition(".")[0] not in _NOT_THE_USERS)


def own_method(value: object, name: str) -> FunctionType | None:
    """A special method that a class of the user defines in Python, to be interpreted."""
    kind = type(value)
    if not is_own_class(kind):
        return None
    for base in kind.__mro__:
        if name in base.__dict__:  # (None hides that of a base)
            found = base.__dict__[name]
            return found if is_interpreted(found) else None
    return None


def _is_interpreted(fn: FunctionType, module: str) -> bool:
    """Whether a function of the standard library is interpreted: methods of containers and context
    managers written in Python, whose objects are the program's state."""
    if module not in _INTERPRETED or "." not in fn.__code__.co_qualname:
        return False
    if module == "collections.abc" and not has_source(fn):  # a frozen module
        with open(_collections_abc.__file__, encoding="utf-8") as file:
            register_source(fn.__code__.co_filename, file.read())
    return True


def is_user_function(fn: FunctionType) -> bool:
    """Whether a Python function is to be interpreted from its source."""
    module = fn.__globals__.get("__name__") or ""
    if _is_interpreted(fn, module):
        return True
    if is_library(module) or _foreign_module(module):
        return False
    return not fn.__code__.co_filename.startswith("<frozen") or has_source(fn)


def is_users(module: object) -> bool:
    """Whether a module of this name is neither cellc's, Python's nor one of the libraries that
    cellc knows."""
    return isinstance(module, str) and root(module) != "cellc" and not _foreign_module(module)


def is_interpreted(value: object) -> bool:
    """Whether something is a Python function that is interpreted, its source at hand."""
    return isinstance(value, FunctionType) and is_user_function(value) and is_readable(value)


def is_readable(fn: FunctionType) -> bool:
    """Whether the source of a function can be had: that of generated methods cannot."""
    try:
        function_source(fn)
    except CompileError:
        return False
    return True


_STRUCTURAL = frozenset(
    ("_collections", "_functools", "_operator", "collections", "contextlib", "copy",
     "dataclasses", "enum", "functools", "itertools", "operator", "types", "typing")
)
"""Standard modules whose functions move values about and do not look into them."""


def is_structural(fn: Any) -> bool:
    """Whether a function moves values about and does not look into them."""
    owner = plain(fn, "__self__")
    if type(fn) is MethodWrapperType and isinstance(owner, (list, dict, set, deque)):
        return True  # of `super()`
    return root(module_of(fn) or module_of(type(owner))) in _STRUCTURAL


def is_foreign_class(cls: type) -> bool:
    """Whether a class comes from the standard library or an installed package."""
    module = module_of(cls)
    if root(module) in sys.stdlib_module_names and module != "__main__":
        return True
    file = getattr(sys.modules.get(module), "__file__", None) or ""
    return "site-packages" in file or "dist-packages" in file
