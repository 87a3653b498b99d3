"""Rows put together, whatever Python's containers they are of."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, MutableMapping, MutableSequence, Sequence
from typing import Any

import numpy as np

from ...tensors import dtype as dtypes
from ...tensors.tensor import Tensor

Collate = Callable[..., Any]
Kinds = type | tuple[type, ...]


def _mapping(like: Mapping[Any, Any], items: dict[Any, Any]) -> Any:
    """Items as a mapping of the kind of another; a dict where none can be made."""
    try:
        if isinstance(like, MutableMapping):
            made: Any = copy.copy(like)
            made.update(items)
            return made
        return type(like)(items)  # type: ignore[call-arg]  # a class of the user's
    except TypeError:
        return items


def _sequence(like: Any, values: list[Any]) -> Any:
    """Values as a sequence of the kind of another; a list for a tuple, and where none can be
    made."""
    if isinstance(like, tuple):
        return type(like)(*values) if hasattr(like, "_fields") else values
    try:
        if isinstance(like, MutableSequence):
            made = copy.copy(like)
            for i, value in enumerate(values):
                made[i] = value
            return made
        return type(like)(values)
    except TypeError:
        return values


def default_convert(data: Any) -> Any:
    """A row without a batch: numpy's numbers and arrays of them become Tensors, in containers too.
    """
    if isinstance(data, (np.number, np.bool_)):
        return Tensor(data)
    if isinstance(data, np.ndarray):
        return data if data.dtype.kind in "SUO" else Tensor.from_numpy(data)
    if isinstance(data, Mapping):
        return _mapping(data, {k: default_convert(v) for k, v in data.items()})
    if isinstance(data, Sequence) and not isinstance(data, (str, bytes)):
        return _sequence(data, [default_convert(v) for v in data])
    return data


def collate(batch: Sequence[Any], *, collate_fn_map: Mapping[Kinds, Collate] | None = None) -> Any:
    """Rows of one form put together: leaves by a function of their class, mappings by their keys,
    sequences by position.

    Args:
        collate_fn_map: by class (or classes): a function of the leaves and `collate_fn_map`.
    """
    first, functions = batch[0], collate_fn_map or {}
    function = functions.get(type(first)) or next(
        (f for kinds, f in functions.items() if isinstance(first, kinds)), None)
    if function is not None:
        return function(batch, collate_fn_map=collate_fn_map)
    if isinstance(first, Mapping):
        return _mapping(first, {
            k: collate([each[k] for each in batch], collate_fn_map=collate_fn_map) for k in first})
    if isinstance(first, Sequence):
        if len({len(each) for each in batch}) > 1:
            raise RuntimeError("Each element in list of batch must be of equal size, but there are "
                               f"lengths {sorted({len(each) for each in batch})}.")
        columns = zip(*batch, strict=True)
        return _sequence(first, [collate(c, collate_fn_map=collate_fn_map) for c in columns])
    raise TypeError(f"Cannot find the appropriate collate function for type {type(first)} in "
                    "collate_fn_map.")


def _tensors(batch: Sequence[Tensor], **_: Any) -> Tensor:
    return Tensor(np.stack([each.asnumpy() for each in batch]))


def _arrays(batch: Sequence[np.ndarray[Any, Any]], **_: Any) -> Tensor:
    if batch[0].dtype.kind in "SUO":
        raise TypeError(f"NumPy arrays with dtype {batch[0].dtype} are not supported for "
                        "collation.")
    return Tensor(np.stack(batch))


def _floats(batch: Sequence[float], **_: Any) -> Tensor:
    return Tensor(list(batch), dtype=dtypes.float64)


def _numbers(batch: Sequence[Any], **_: Any) -> Tensor:
    return Tensor(list(batch))


def _as_it_is(batch: Sequence[Any], **_: Any) -> Any:
    return batch


default_collate_fn_map: dict[Kinds, Collate] = {
    Tensor: _tensors, np.ndarray: _arrays, (np.bool_, np.number): _numbers, float: _floats,
    int: _numbers, str: _as_it_is, bytes: _as_it_is,
}


def default_collate(batch: Sequence[Any]) -> Any:
    """A batch of rows: numbers, arrays and Tensors along a new first axis; strings in a list.

    Raises:
        TypeError: something of another class is in a row.
        RuntimeError, ValueError: lengths or shapes differ.
    """
    return collate(batch, collate_fn_map=default_collate_fn_map)
