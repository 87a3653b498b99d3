"""Functions collected from tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..core.native import entry

Table = Mapping[str, Callable[..., Any]]


def named(
    table: Table, module: str, place: str, texts: Mapping[str, str] | None = None
) -> dict[str, Callable[..., Any]]:
    """The functions of a table under their names: those of `ops` as they are, and one-line ones,
    whose call is all that they do, without an entry of their own. `texts`: docstrings of one-line
    functions that do not do what the function of `ops` with their name does."""
    out: dict[str, Callable[..., Any]] = {}
    for name, function in table.items():
        thin = function.__name__ == "<lambda>" or function.__module__.startswith("cellc.ops.")
        if function.__name__ == "<lambda>":
            function.__name__ = function.__qualname__ = name
            function.__module__ = module
        if function.__doc__ is None:
            function.__doc__ = (texts or {}).get(
                name, f"`ops.{name}` with the parameters of `mindspore.{place}.{name}`.")
        out[name] = function if thin else entry(function, name, module)
    return out
