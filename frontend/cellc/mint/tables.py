"""Functions collected from tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..core.native import entry

Table = Mapping[str, Callable[..., Any]]


def named(table: Table, module: str, place: str) -> dict[str, Callable[..., Any]]:
    """The functions of a table under their names; functions of `ops` as they are."""
    out: dict[str, Callable[..., Any]] = {}
    for name, function in table.items():
        if function.__name__ == "<lambda>":
            function.__name__ = function.__qualname__ = name
            function.__module__ = module
        if function.__doc__ is None:
            function.__doc__ = f"`ops.{name}` with the parameters of `mindspore.{place}.{name}`."
        out[name] = entry(function, name)
    return out
