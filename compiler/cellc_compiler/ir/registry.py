"""The registry of all op definitions (`ir/op.py`), by name.

It knows nothing of the definitions, so that the graph's builder can look one up: definitions are
written in terms of the builder.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

from cellc_runtime.lazy import imported

WHEN_USED = ("blocked", "collective", "winograd")
"""Modules of ops that only passes write, or only programs of several processes have."""


class _Registry(dict[str, Any]):
    """The ops by name."""

    def __missing__(self, name: str) -> Any:
        load_all()
        if name not in self:
            raise KeyError(f"unknown op {name!r}")
        return self[name]


_REGISTRY = _Registry()
lookup: Callable[[str], Any] = _REGISTRY.__getitem__


def register(name: str, op: Any) -> None:
    """Add an op. Raises ValueError if there is one of this name."""
    if name in _REGISTRY:
        raise ValueError(f"the op {name} is defined twice")
    _REGISTRY[name] = op


def load_all() -> None:
    """Import every module of `cellc_compiler.ops`; the registry is complete afterwards."""
    _load(())


@cache
def _load(but: tuple[str, ...]) -> None:
    """Import the modules of `cellc_compiler.ops`, some excepted; those of a name with an underscore
    define no op."""
    package = imported("cellc_compiler.ops")
    for info in pkgutil.iter_modules(package.__path__):
        if info.name not in but and not info.name.startswith("_"):
            imported("cellc_compiler.ops." + info.name)


def every_op(but: tuple[str, ...] = ()) -> Iterator[Any]:
    """Every registered op, by name; the modules `but` are not loaded for it."""
    _load(but)
    for name in sorted(_REGISTRY):
        yield _REGISTRY[name]
