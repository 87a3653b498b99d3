"""Facts about Cells and Primitives for the interpreter, without importing them.

`cellc.nn.cell` stands on this package, so its classes are looked up once it is loaded: before
that no instance can exist.
"""

from __future__ import annotations

import sys
from typing import Any

from ..core.module_names import module_of


def _cell_class() -> type | None:
    """The class Cell, if it is loaded."""
    found: type | None = getattr(sys.modules.get("cellc.nn.cell"), "Cell", None)
    return found


def is_cell(value: object) -> bool:
    """Whether `value` is a Cell."""
    cls = _cell_class()
    return cls is not None and isinstance(value, cls)


def is_cell_class(value: object) -> bool:
    """Whether `value` is Cell or a subclass."""
    cls = _cell_class()
    return cls is not None and isinstance(value, type) and issubclass(value, cls)


def scope_paths(root: Any, prefix: str = "") -> dict[int, str]:
    """Attribute path of every Cell from `root` down, by identity; the first of a shared one."""
    paths = {id(root): prefix}
    stack = [(prefix, root)]
    while stack:
        base, cell = stack.pop()
        for name, child in cell._cells.items():
            if child is not None and id(child) not in paths:
                path = f"{base}.{name}" if base else name
                paths[id(child)] = path
                stack.append((path, child))
    return paths


def own_bprop(cell: Any) -> bool:
    """Whether a Cell's class defines its own gradient."""
    found = getattr(type(cell), "bprop", None)
    return found is not None and found is not getattr(_cell_class(), "bprop", None)


def unwrap_jit(value: Any) -> Any:
    """The Python function inside an object that `jit` made, else the value itself."""
    own = module_of(type(value)).startswith("cellc.")
    if own and hasattr(value, "__wrapped__") and not is_cell(value):
        return value.__wrapped__
    return value
