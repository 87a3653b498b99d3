"""Cells in plain lists, tuples and dicts, which their owner does not know of.

Python cannot tell a Cell when a list of its attributes grows, so what is in one has no place in the
network: its Parameters are not trained, saved, loaded or moved. MindSpore says nothing; here a
warning does, once for each class and attribute, when such a list is assigned and when the
Parameters of a network are collected.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

from cellc_runtime.lazy import logging

from ...core.module_names import module_of

if TYPE_CHECKING:
    from .attributes import Attributes

_FIRST = 1000  # Elements that are looked at: long lists hold numbers
_told: set[tuple[type, str]] = set()


def look_through(root: Any) -> None:
    """Warn of what is in plain lists of a Cell or of those below it."""
    known = {id(cell) for _, cell in root.cells_and_names()}
    for _, cell in root.cells_and_names():
        for name, value in cell.__dict__.items():
            kind = type(value)
            if kind is list or kind is tuple or kind is dict:
                look_at(cell, name, value, known)


def look_at(cell: Attributes, name: str, value: Any, known: set[int]) -> None:
    """Warn if an attribute holds Cells with Parameters that are not `known`, by identity."""
    kind = type(cell)
    if not value or module_of(kind).startswith("cellc.") or (kind, name) in _told:
        return
    lost = [c for c in _cells(value)
            if id(c) not in known and next(c.get_parameters(), None) is not None]
    if not lost:
        return
    _told.add((kind, name))
    instead = "nn.CellDict" if isinstance(value, dict) else "nn.CellList or nn.SequentialCell"
    logging.getLogger("cellc").warning(
        "the attribute %r of %s is a plain %s that holds %d Cell%s: unless other attributes hold "
        "them too, their Parameters are not part of the network (not trained, saved or loaded). "
        "Use %s.", name, kind.__name__, type(value).__name__, len(lost), "s" * (len(lost) != 1),
        instead)


def _cells(value: Any) -> Iterator[Any]:
    for v in islice(value.values() if isinstance(value, dict) else value, _FIRST):
        if hasattr(type(v), "construct") and hasattr(v, "get_parameters"):
            yield v
