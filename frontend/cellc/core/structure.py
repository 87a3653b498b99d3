"""Structures of tensors: nested tuples, lists and dicts taken apart into leaves and put together.

Tensors are leaves. Everything else that is not a container is known at compile time and is part
of the structure itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ..common.tensor import Tensor
from .numbers import MUTABLE, Kind, as_input, as_number


@dataclass(frozen=True, slots=True)
class Leaf:
    """The place of a tensor: its number; `kind` if it stands for a Python number."""

    number: int
    kind: Kind | None = None


@dataclass(frozen=True, slots=True)
class Known:
    """A value known at compile time."""

    value: Any


@dataclass(frozen=True, slots=True)
class Box:
    """A container: its type, its keys (for a dict) and its parts."""

    kind: type
    keys: tuple[Any, ...]
    parts: tuple[Any, ...]


Structure = Leaf | Known | Box


def take_apart(value: Any) -> tuple[Structure, list[Tensor]]:
    """The structure of a value and its tensors in order."""
    leaves: list[Tensor] = []

    def walk(x: Any) -> Structure:
        if isinstance(x, Tensor):
            leaves.append(x)
            return Leaf(len(leaves) - 1, x._number)
        if type(x) in MUTABLE:
            leaves.append(as_input(x))
            return Leaf(len(leaves) - 1, MUTABLE[type(x)])
        if isinstance(x, dict):
            return Box(dict, tuple(x), tuple(walk(v) for v in x.values()))
        if isinstance(x, (tuple, list)):
            return Box(type(x), (), tuple(walk(v) for v in x))
        return Known(x)

    return walk(value), leaves


def put_together(structure: Structure, leaves: Sequence[Any]) -> Any:
    """The value of a structure with its tensors filled in."""
    if isinstance(structure, Leaf):
        leaf = leaves[structure.number]
        return leaf if structure.kind is None else as_number(leaf, structure.kind)
    if isinstance(structure, Known):
        return structure.value
    parts = [put_together(p, leaves) for p in structure.parts]
    if structure.kind is dict:
        return dict(zip(structure.keys, parts, strict=True))
    if structure.kind is list:
        return parts
    if hasattr(structure.kind, "_fields"):
        return structure.kind(*parts)
    return tuple(parts)


def tensors(value: Any) -> Iterator[Tensor]:
    """The tensors of a structure in order."""
    yield from take_apart(value)[1]
