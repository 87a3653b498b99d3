"""Primitive classes: `ops.ReLU()`, `ops.MatMul(transpose_b=True)`, ...

They load when one is requested. Type checkers read their arguments in `stubs/primitives.pyi`.

Source: the classes of the same names in `mindspore.ops`.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from cellc_runtime.lazy import imported, no_attribute

from ..primitive import Primitive

_PARTS = (
    (".tables", ".space", ".optimizer_steps", ".collectives", ".host", "..kernels",
     "..register_info", ".summary", "..mapping", ".user"),
    (".boxes", ".rare", ".draws", ".sparse_steps", ".other_devices", ".instances"))
"""The modules that load together. Few programs need the second part."""
_MODULES = {home[1:] for part in _PARTS for home in part}


@cache
def names_of_part(number: int) -> dict[str, Any]:
    """Classes, functions over structures and ready-made primitives of a part, by name."""
    found: dict[str, Any] = {} if number else {"Primitive": Primitive}
    for home in _PARTS[number]:
        module = imported(home, __name__)
        found |= getattr(module, "PRIMITIVES", {})
        found |= {name: getattr(module, name) for name in getattr(module, "__all__", ())}
    return found


def find(name: str) -> Any:
    """A class or ready-made primitive; None if there is none of this name."""
    parts = map(names_of_part, range(len(_PARTS)))
    return next((names[name] for names in parts if name in names), None)


def __dir__() -> list[str]:
    return sorted(name for number in range(len(_PARTS)) for name in names_of_part(number))


if not TYPE_CHECKING:
    def __getattr__(name: str) -> Any:
        if name == "__all__":
            return __dir__()
        if name in _MODULES:
            return imported("." + name, __name__)
        found = None if name.startswith("_") else find(name)
        if found is None:
            raise no_attribute(__name__, name)
        return found
