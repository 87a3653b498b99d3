"""Structures of tensors: nested tuples, lists, dicts, dataclasses taken apart and put together.

Tensors are leaves, and so are the numbers that only a run knows. Everything else that is not a
container is known at compile time and is part of the structure itself.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

from cellc_runtime.records import dataclass

from ..core.module_names import contained, is_exactly, plain
from ..tensors.parameter import Parameter, ParameterTuple
from ..tensors.tensor import Tensor, number_kind
from .mutables import DynamicList, DynamicTuple, opened
from .numbers import MUTABLE, Kind, as_input, as_number
from .tracer import GraphTensor


@dataclass(frozen=True, slots=True)
class ObjectKind:
    """Python objects that only a run knows: their exact type; `held` gives one by its place."""

    cls: type
    held: Callable[[int], Any]

    def of(self, leaf: Tensor) -> Any:
        """The object at a place; while a graph is traced, what stands for it."""
        if isinstance(leaf, GraphTensor):
            return RunObject(leaf, self)
        return self.held(int(leaf.item()))


class RunObject:
    """A Python object that only the run knows: its place in the table of the call, and its type.

    (Whoever does something with one without knowing what it is must fail, hence the last two.)
    """

    __slots__ = ("handle", "kind")

    def __init__(self, handle: GraphTensor, kind: ObjectKind) -> None:
        self.handle, self.kind = handle, kind

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        raise TypeError(f"a {self.kind.cls.__name__} that only the run knows is compared here")

    def __bool__(self) -> bool:
        raise TypeError(f"a {self.kind.cls.__name__} that only the run knows is a condition here")


@dataclass(frozen=True, slots=True)
class Leaf:
    """The place of a tensor: its number; `kind` if it stands for a Python number or object."""

    number: int
    kind: Kind | ObjectKind | None = None


@dataclass(frozen=True, slots=True)
class Known:
    """A value known at compile time."""

    value: Any


@dataclass(frozen=True, slots=True)
class Box:
    """A container: its type, its keys (of a dict, or the fields of an object) and its parts.

    Attributes:
        made_with: the default factory of a defaultdict, the length of a deque.
        origin: finds the very object, which was there before; None where no call is at hand.
    """

    kind: type
    keys: tuple[Any, ...]
    parts: tuple[Any, ...]
    made_with: Any = None
    origin: Callable[[], Any] | None = None


@dataclass(frozen=True, slots=True)
class Built:
    """A value that `build` makes of tensors."""

    parts: tuple[Leaf, ...]
    build: Callable[[Sequence[Tensor]], Any]


@dataclass(frozen=True, slots=True, eq=False)
class Remade:
    """Stands for a value that `build` makes of the tensors that `leaves` are in a run."""

    leaves: Sequence[Tensor]
    build: Callable[[Sequence[Tensor]], Any]


Structure = Leaf | Known | Box | Built
_ALONE = Leaf(0)


def made_anew(value: Any) -> None:
    """Return no origin: each container is a new one."""


def take_apart(
    value: Any, whole: tuple[type, ...] = (),
    origin: Callable[[Any], Callable[[], Any] | None] = made_anew,
) -> tuple[Structure, list[Tensor]]:
    """The structure of a value and its tensors in order; tensors of types `whole` stay whole.
    `origin` says of a list, dict, set or deque how the very object is found (`Box.origin`)."""
    if type(value) is Tensor and value._number is None:
        return _ALONE, [value]  # the usual case
    leaves: list[Tensor] = []

    def walk(x: Any) -> Structure:
        if isinstance(x, Tensor) and not isinstance(x, whole):
            leaves.append(x)
            return Leaf(len(leaves) - 1, number_kind(x))
        if type(x) is RunObject:
            leaves.append(x.handle)
            return Leaf(len(leaves) - 1, x.kind)
        if is_exactly(x, MUTABLE):
            leaves.append(as_input(x))
            return Leaf(len(leaves) - 1, MUTABLE[type(x)])
        if isinstance(x, dict):
            if any(isinstance(k, GraphTensor) for k in x):
                raise TypeError(
                    "a tensor is the key of a dict that a compiled function returns; only values "
                    "can be tensors"
                )
            made_with = x.default_factory if isinstance(x, defaultdict) else None
            return Box(type(x), tuple(x), tuple(walk(v) for v in x.values()), made_with, origin(x))
        if isinstance(x, (tuple, list, set, frozenset)):
            return Box(type(x), (), tuple(walk(v) for v in x), None, origin(x))
        if isinstance(x, deque):
            return Box(type(x), (), tuple(walk(v) for v in x), x.maxlen, origin(x))
        if type(x) is Remade:
            first = len(leaves)
            leaves.extend(x.leaves)
            return Built(tuple(map(Leaf, range(first, len(leaves)))), x.build)
        found = _fields(x)
        if found:
            return Box(type(x), tuple(found), tuple(walk(v) for v in found.values()))
        return Known(x)

    return walk(value), leaves


def parts_of(value: Any) -> dict[str, Any]:
    """The attributes of an object of a dataclass with tensors in it; empty for all others."""
    if isinstance(value, type) or not is_dataclass(value):
        return {}
    found = {f.name: getattr(value, f.name) for f in fields(value) if hasattr(value, f.name)}
    found.update(plain(value, "__dict__", {}))
    return found if _holds(found, Tensor) else {}


def _fields(value: Any) -> dict[str, Any]:
    """The attributes of an object that is a container too: a dataclass with tensors in it, or any
    object made while compiling that holds what only the graph knows. Empty for all others."""
    if isinstance(value, type):
        return {}
    if is_dataclass(value):
        return parts_of(value)
    own = plain(value, "__dict__")
    return own if type(own) is dict and _holds(own, GraphTensor) else {}


def _holds(value: Any, kind: type, depth: int = 4) -> bool:
    if isinstance(value, (kind, RunObject)):
        return True
    if not depth:
        return False
    if isinstance(value, (tuple, list, dict)):
        return any(_holds(v, kind, depth - 1) for v in contained(value))
    return is_dataclass(value) and not isinstance(value, type) and any(
        _holds(getattr(value, f.name, None), kind, depth - 1) for f in fields(value)
    )


def take_apart_call(
    args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[Structure, list[Tensor]]:
    """The structure of a call's arguments and their tensors in order.

    A Parameter stays whole: it may be assigned, so which one it is belongs to the structure.
    """
    return take_apart((tuple(args), dict(kwargs)), (Parameter,))


def put_together(
    structure: Structure, leaves: Sequence[Any], number: Callable[[Any, Kind], Any] = as_number
) -> Any:
    """The value of a structure with its tensors filled in; `number` makes a number of one."""
    if isinstance(structure, Leaf):
        leaf, kind_of_leaf = leaves[structure.number], structure.kind
        if kind_of_leaf is None:
            return leaf
        return kind_of_leaf.of(leaf) if isinstance(kind_of_leaf, ObjectKind) else \
            number(leaf, kind_of_leaf)
    if isinstance(structure, Known):
        return structure.value
    if isinstance(structure, Built):
        return structure.build([leaves[part.number] for part in structure.parts])
    if structure.origin is not None and (found := structure.origin()) is not None:
        return found
    parts = [put_together(p, leaves, number) for p in structure.parts]
    kind = structure.kind
    if kind is list:
        return parts
    if kind is tuple:
        return tuple(parts)
    if kind is dict:
        return dict(zip(structure.keys, parts, strict=True))
    return _special(kind, structure, parts)


def _special(kind: Any, box: Box, parts: list[Any]) -> Any:
    """A container of another type, or an object with its attributes set (not initialised)."""
    if issubclass(kind, dict):
        made = kind(box.made_with) if issubclass(kind, defaultdict) else kind()
        made.update(zip(box.keys, parts, strict=True))
        return made
    if issubclass(kind, deque):
        return kind(parts, box.made_with)
    if issubclass(kind, (DynamicList, DynamicTuple)):
        return opened(kind, parts)
    if issubclass(kind, ParameterTuple) and not all(isinstance(p, Parameter) for p in parts):
        return tuple(parts)  # results of a graph, which are plain tensors
    if issubclass(kind, tuple):
        return kind(*parts) if hasattr(kind, "_fields") else kind(parts)
    if issubclass(kind, (list, set, frozenset)):
        return kind(parts)
    made = object.__new__(kind)
    for name, value in zip(box.keys, parts, strict=True):
        object.__setattr__(made, name, value)
    return made


def tensors(value: Any) -> Iterator[Tensor]:
    """The tensors of a structure in order."""
    yield from take_apart(value)[1]


def places_in(part: Structure) -> set[int]:
    """The leaves that say where others stand (`PLACES` of a class): they have no gradient."""
    if not isinstance(part, Box):
        return set()
    own = getattr(part.kind, "PLACES", ())
    inner = [x for p in part.parts for x in places_in(p)]
    return {*inner, *(p.number for k, p in zip(part.keys, part.parts, strict=False)
                      if k in own and isinstance(p, Leaf))}


def leaves_of(part: Structure) -> list[Leaf]:
    """The leaves of a structure, in order."""
    if isinstance(part, Leaf):
        return [part]
    return [x for p in part.parts for x in leaves_of(p)] if isinstance(part, Box) else []
