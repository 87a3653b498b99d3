"""Sequences whose length counts as unknown (`tracing.mutables`): what follows from them in a graph.

Each function returns at once where a program has no such sequence.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ..tracing.mutables import (
    check_elements,
    has_open_length,
    in_graph,
    mutable,
    with_open_length,
)
from ..tracing.numbers import MutableInt, kind_of

if TYPE_CHECKING:
    from .interpreter import Interpreter


def carried(vm: Interpreter, result: Any, *sources: Any) -> Any:
    """A sequence that follows from others: its length is unknown where one of theirs is."""
    opened = vm.tracer.lengths and any(map(has_open_length, sources))
    return with_open_length(vm.tracer, result) if opened else result


def joined(vm: Interpreter, name: str, a: Any, b: Any, result: Any) -> Any:
    """Two sequences as one.

    Raises:
        TypeError: the length of one is unknown, and their elements are of two types.
    """
    if vm.tracer.lengths and (has_open_length(a) or has_open_length(b)):
        check_elements(name, a, b)
        return with_open_length(vm.tracer, result)
    return result


def measured(vm: Interpreter, sequence: Any, number: Any) -> Any:
    """A number that a sequence gives (its length, a place in it): it counts as unknown, too."""
    opened = vm.tracer.lengths and type(number) is int and has_open_length(sequence)
    return MutableInt(number) if opened else number


def added(vm: Interpreter, name: str, box: Any, values: Iterable[Any]) -> list[Any]:
    """The values that a method or an assignment puts into a list: unknown where its length is.

    Raises:
        TypeError: the length of the list is unknown, and this is of another type than its elements.
    """
    values = list(values)
    if not (vm.tracer.lengths and has_open_length(box)):
        return values
    check_elements(name, box, values)
    return [in_graph(mutable(v)) if kind_of(v) else v for v in values]


def arguments(vm: Interpreter, name: str, box: Any, args: list[Any]) -> list[Any]:
    """The arguments of a method of a list, with what it adds as `added` gives it."""
    if name == "extend" and args and isinstance(args[0], (list, tuple)):
        return [added(vm, name, box, args[0])]
    if name in ("append", "insert"):
        return [*args[:-1], *added(vm, name, box, args[-1:])]
    return args
