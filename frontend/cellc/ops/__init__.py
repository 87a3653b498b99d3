"""The functional API: `cellc.ops`, under MindSpore's names.

Functions that map one to one onto an op are generated from its definition; the others are
written by family in `functional_*`, which takes precedence.
"""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING, Any

from . import (
    functional_array,
    functional_create,
    functional_index,
    functional_linalg,
    functional_loss,
    functional_math,
    functional_nn,
    functional_random,
    functional_reduce,
    functional_window,
    primitives,
)
from ._generated import generated_functions
from .methods import install

_FAMILIES: tuple[ModuleType, ...] = (
    functional_create, functional_array, functional_index, functional_linalg, functional_loss,
    functional_math, functional_nn, functional_random, functional_reduce, functional_window,
    primitives,
)


def _public(module: ModuleType) -> dict[str, Any]:
    """What a family defines itself (not what it imports)."""
    return {
        name: value for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", "") == module.__name__
    }


def _collect() -> dict[str, Any]:
    names: dict[str, Any] = dict(generated_functions())
    for family in _FAMILIES:
        names.update(_public(family))
    names.update(primitives.PRIMITIVES)
    names.update(functional_math.ALIASES)
    names.update({a: names[n] for a, n in functional_math.GENERATED_ALIASES.items()})
    return names


_NAMES = _collect()
globals().update(_NAMES)
install()

if TYPE_CHECKING:
    def __getattr__(name: str) -> Any: ...

__all__ = sorted(_NAMES)
