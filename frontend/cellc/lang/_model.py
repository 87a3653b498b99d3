"""Facts about Cells and Primitives for the interpreter, without importing them.

`cellc.nn.cell` stands on this package, so its classes are looked up once it is loaded: before
that no instance can exist.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any, cast

from ..core.module_names import module_of


def _class(module: str, name: str) -> type | None:
    found = sys.modules.get(module)
    return cast("type | None", getattr(found, name, None)) if found is not None else None


def cell_class() -> type | None:
    """The class Cell, if it is loaded."""
    return _class("cellc.nn.cell", "Cell")


def is_cell(value: object) -> bool:
    """Whether `value` is a Cell."""
    cls = _class("cellc.nn.cell", "Cell")
    return cls is not None and isinstance(value, cls)


def is_cell_class(value: object) -> bool:
    """Whether `value` is Cell or a subclass."""
    cls = _class("cellc.nn.cell", "Cell")
    return cls is not None and isinstance(value, type) and issubclass(value, cls)


def children(cell: Any) -> Iterator[tuple[str, Any]]:
    """Direct child Cells by attribute name."""
    for name, child in cell._cells.items():
        if child is not None:
            yield name, child


def scope_paths(root: Any, prefix: str = "") -> dict[int, str]:
    """Attribute path of every Cell from `root` down, by identity; the first of a shared one."""
    paths = {id(root): prefix}
    stack = [(prefix, root)]
    while stack:
        base, cell = stack.pop()
        for name, child in children(cell):
            if id(child) not in paths:
                path = f"{base}.{name}" if base else name
                paths[id(child)] = path
                stack.append((path, child))
    return paths


def own_bprop(cell: Any) -> bool:
    """Whether a Cell's class defines its own gradient."""
    base = cell_class()
    found = getattr(type(cell), "bprop", None)
    return found is not None and found is not getattr(base, "bprop", None)


def unwrap_jit(value: Any) -> Any:
    """The Python function inside an object that `jit` made, else the value itself."""
    own = module_of(type(value)).startswith("cellc.")
    if own and hasattr(value, "__wrapped__") and not is_cell(value):
        return value.__wrapped__
    return value
