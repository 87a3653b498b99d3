"""`mutable`: data that a graph takes at run time, and sequences whose length it leaves open.

In PyNative the numbers and sequences are Python's own with a class that says so. A graph knows the
length of each sequence it is traced for: another length is another program. That a length counts
as unknown is a mark (`Tracer.lengths`) on the list or tuple; what follows from it has the mark too,
and all its elements are of one type, as in MindSpore.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ..core.dispatch import active_tracer
from ..core.module_names import contained, is_exactly
from ..tensors.tensor import Tensor
from .numbers import MUTABLE, MutableBool, MutableFloat, MutableInt, as_kind, kind_of
from .tracer import GraphTensor, Tracer, is_variable


class DynamicList(list[Any]):
    """A list whose length a graph leaves open."""


class DynamicTuple(tuple[Any, ...]):
    """A tuple whose length a graph leaves open."""


def mutable(input_data: Any, dynamic_len: bool = False) -> Any:
    """The data, its numbers marked as run-time values: another number does not compile again.

    Args:
        input_data: a bool, int, float, Tensor, or tuple, list or dict of them. Tensors are
            run-time values in any case.
        dynamic_len: the length counts as unknown, too: in a graph the elements are of one type.
            (A list of any length can be given in any case. A program is made for each length.)

    Raises:
        TypeError: `input_data` is of another kind, or `dynamic_len` no bool or set for what has no
            length.
    """
    if not isinstance(dynamic_len, bool):
        raise TypeError(
            f"For 'mutable', 'dynamic_len' must be a bool, but got {type(dynamic_len).__name__}.")
    if dynamic_len and not isinstance(input_data, (tuple, list)):
        raise TypeError(
            "For 'mutable', when 'dynamic_len' is True, 'input_data' must be a list or tuple, but "
            f"got {type(input_data).__name__}."
        )
    if isinstance(input_data, (Tensor, *MUTABLE)):
        return input_data
    if isinstance(input_data, (bool, int, float)) and not isinstance(input_data, np.generic):
        return _NUMBERS[kind_of(input_data)](input_data)
    if isinstance(input_data, (tuple, list)):
        kind: Any = type(input_data) if not dynamic_len else \
            DynamicTuple if isinstance(input_data, tuple) else DynamicList
        return kind(mutable(x) for x in input_data)
    if isinstance(input_data, dict):
        return {k: mutable(v) for k, v in input_data.items()}
    raise TypeError(
        "For 'mutable', the 'input_data' should be one of (bool, int, float, Tensor, tuple, list, "
        f"dict) or nested ones of them, but got {input_data!r}."
    )


_NUMBERS: dict[Any, Any] = {bool: MutableBool, int: MutableInt, float: MutableFloat}


def has_open_length(value: object) -> bool:
    """Whether the length of a sequence counts as unknown."""
    tracer = active_tracer()
    return isinstance(value, (DynamicList, DynamicTuple)) or (
        tracer is not None and id(value) in tracer.lengths)


def with_open_length(tracer: Tracer, value: Any) -> Any:
    """The sequence, its length marked as unknown. (There is one empty tuple: it becomes one of a
    class of its own.)"""
    if isinstance(value, (list, tuple)):
        value = DynamicTuple() if value == () else value
        tracer.lengths[id(value)] = value
    return value


def opened(kind: type, elements: Iterable[Any]) -> Any:
    """A sequence of open length; in a graph one of Python's with the mark. Raises ValueError if the
    elements are of several kinds (in a graph); TypeError if they are tensors of several element
    types (in a graph)."""
    tracer = active_tracer()
    if tracer is None:
        return kind(elements)
    made = list(elements) if issubclass(kind, list) else tuple(elements)
    _check_kinds(made)
    return with_open_length(tracer, made)


def in_graph(value: Any) -> Any:
    """A result of `mutable` as a value of a graph: its numbers are the graph's, and its tensors,
    the same objects, count as unknown."""
    tracer = active_tracer()
    if isinstance(value, Tensor):
        if tracer is not None:
            tracer.mutables[id(value)] = value
        return value
    if is_exactly(value, MUTABLE):
        return as_kind(value, MUTABLE[type(value)])
    if isinstance(value, dict):
        return {k: in_graph(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        parts = [in_graph(v) for v in value]
        return opened(type(value), parts) if has_open_length(value) else type(value)(parts)
    return value


def element_type(value: Any) -> str:
    """The type of an element, with its size: what all elements of a sequence of open length have
    in common."""
    kind = kind_of(value)
    if kind is not None:
        return kind.__name__
    if isinstance(value, Tensor):
        return f"Tensor {value.dtype}{[*value.shape]}"
    if isinstance(value, (list, tuple)):
        return f"{type(value).__name__} ({', '.join(map(element_type, value))})"
    return type(value).__name__


def check_elements(name: str, sequence: Iterable[Any], values: Iterable[Any]) -> None:
    """Check what joins a sequence of open length. Raises TypeError if it is of another type than
    the elements that are there."""
    found = [element_type(v) for v in sequence]
    for value in map(element_type, values) if found else ():
        if value not in found:
            raise TypeError(f"For '{name}', the elements of a sequence of dynamic length must be "
                            f"of one type, {found[0]}, but got {value}.")


def _check_kinds(elements: Any) -> None:
    kinds = list(dict.fromkeys(element_type(v).split(" ")[0] for v in elements))
    if len(kinds) > 1:
        raise ValueError("For 'mutable', the elements of a sequence of dynamic length must be of "
                         f"one type, but got {' and '.join(kinds)}.")
    dtypes = list(dict.fromkeys(v.dtype for v in elements)) if kinds == ["Tensor"] else ()
    if len(dtypes) > 1:
        raise TypeError("For 'mutable', the tensors of a sequence of dynamic length must have one "
                        f"dtype, but got {' and '.join(map(str, dtypes))}.")


def is_known(value: Any) -> bool:
    """Whether a graph knows a value while it is made."""
    if isinstance(value, Tensor):
        tracer = active_tracer()
        return tracer is not None and id(value) not in tracer.mutables and not (
            isinstance(value, GraphTensor) or is_variable(value))
    if is_exactly(value, MUTABLE) or has_open_length(value):
        return False
    return not isinstance(value, (list, tuple, dict)) or all(map(is_known, contained(value)))
