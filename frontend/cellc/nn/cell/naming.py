"""Names of parameters in containers, by MindSpore's rule.

A container names a cell's parameters when the cell is put into it. The prefix of the cell's own
name follows from the names of the parameters that are there. In a container that was empty when it
became an attribute they begin with "0"; where such names hold that number twice, as those of
containers in containers do, the last one counts ("0.blocks.0.weight" is followed by
"0.blocks.1.weight"), unless the second cell's name decides. Published checkpoints have such names.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING

from ...core.dispatch import active_tracer

if TYPE_CHECKING:
    from . import Cell


def naming(cells: Iterable[tuple[str, Cell | None]]) -> tuple[str, int]:
    """Return the prefix before a cell's own name, and the own one's place among the parts."""
    named = ((key, parameter.name.split("."))
             for key, cell in cells if cell is not None
             for _, parameter in islice(cell.parameters_and_names(), 1))
    first, second = next(named, None), next(named, None)
    prefix, place = "", 0
    if first is None:
        return prefix, place
    key, parts = first
    for i, part in enumerate(parts):
        if part == key:
            prefix, place = "".join(f"{p}." for p in parts[:i]), i
            if second is not None and second[1][i : i + 1] == [second[0]]:
                break
    return prefix, place


def name(cell: Cell, prefix: str) -> None:
    """Name the parameters of a cell by their paths in it; in a graph they keep their names."""
    if active_tracer() is None:
        cell.update_parameters_name(prefix)


def rename(cell: Cell, prefix: str, place: int) -> None:
    """Put `prefix` in place of all parts of parameters' names up to a place."""
    for _, parameter in cell.parameters_and_names():
        parameter.name = prefix + ".".join(parameter.name.split(".")[place + 1 :])
