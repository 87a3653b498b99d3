"""Reads the batches of CIFAR's Python version: pickles, read without running any code."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ..core.pickles import Name, PickleMachine

_EMPTY = {(f"numpy.{core}.multiarray", "_reconstruct") for core in ("core", "_core")}
_FILLED = {(f"numpy.{core}.numeric", "_frombuffer") for core in ("core", "_core")}
_CLASSES = {("numpy", "ndarray"), ("numpy", "dtype")}


class _Type:
    """An array's element type while the file describes it."""

    def __init__(self, code: Any, *_: Any) -> None:
        text = _text(code)
        if text not in {f"{kind}{size}" for kind in "iu" for size in (1, 2, 4, 8)}:
            raise ValueError(f"its arrays must have integers as elements, but one has {code!r}")
        self.dtype = np.dtype(text)

    def build(self, state: Any) -> None:
        """The byte order, and that it has no fields."""
        if not isinstance(state, tuple) or len(state) != 8 or any(
                x is not None for x in state[2:5]):
            raise ValueError("the type of an array must be a plain one")
        order = _text(state[1])
        if order not in ("<", ">", "|"):
            raise ValueError(f"{state[1]!r} is no byte order")
        self.dtype = np.dtype(order + self.dtype.str[1:])


class _Unfilled:
    """An array while the file describes it."""

    array: np.ndarray[Any, Any] | None = None

    def build(self, state: Any) -> None:
        """The shape and elements."""
        if not isinstance(state, tuple) or len(state) != 5:
            raise ValueError("an array must have a shape, a type and elements")
        _, shape, kind, by_columns, data = state
        if not isinstance(shape, tuple) or not 0 < len(shape) <= 2 or not all(
                type(n) is int and n >= 0 for n in shape):
            raise ValueError("an array must have one axis or two")
        if not isinstance(kind, _Type) or not isinstance(data, (bytes, bytearray)):
            raise ValueError("an array must have elements of integers")
        if math.prod(shape) * kind.dtype.itemsize != len(data):
            raise ValueError(f"an array of shape {shape} has {len(data)} bytes")
        order: Literal["F", "C"] = "F" if by_columns else "C"
        self.array = np.frombuffer(data, kind.dtype).reshape(shape, order=order)


def read_batch(path: Path, labels: tuple[bytes, ...]) -> dict[bytes, Any]:
    """The pictures (`b"data"`, rows of 3072 bytes) and labels of a batch.

    Raises:
        OSError: the file cannot be read.
    """
    try:
        found = _Machine().run(path.read_bytes())
    except TypeError as error:
        raise ValueError(f"it is damaged: {error}") from error
    if not isinstance(found, dict):
        raise ValueError(f"it holds no dict, but {type(found).__name__}")
    batch = {k.encode("latin-1") if isinstance(k, str) else k: _plain(v) for k, v in found.items()}
    data = batch.get(b"data")
    if not isinstance(data, np.ndarray) or data.dtype != np.uint8 or data.shape[1:] != (3072,):
        raise ValueError("b'data' must be an array of bytes with 3072 in a row")
    for key in labels:
        many = batch.get(key)
        if isinstance(many, np.ndarray):
            many = batch[key] = many.reshape(-1).tolist()
        if not isinstance(many, list) or not all(type(label) is int for label in many):
            raise ValueError(f"{key!r} must be a list of int")
        if len(many) != len(data):
            raise ValueError(f"it has {len(data)} pictures but {len(many)} of {key!r}")
    return {key: batch[key] for key in (b"data", *labels)}


def _text(value: Any) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


def _plain(value: Any) -> Any:
    return value.array if isinstance(value, _Unfilled) else value


class _Machine(PickleMachine):
    """Makes plain arrays of integers besides."""

    what = "batches of CIFAR"
    keys = (bytes, str)

    def named(self, name: Name) -> Name:
        """A function or class, if arrays need it."""
        return name if name in _EMPTY | _FILLED | _CLASSES else super().named(name)

    def called(self, function: Any, given: Any) -> Any:
        """An array or its type, begun."""
        if function == ("numpy", "dtype") and isinstance(given, tuple):
            return _Type(*given)
        if function in _EMPTY:
            return _Unfilled()
        if function in _FILLED and isinstance(given, tuple) and len(given) == 4:
            data, kind, shape, order = given
            array = _Unfilled()
            array.build((1, shape, kind, order == "F", data))
            return array
        return super().called(function, given)

    def build(self, target: Any, state: Any) -> None:
        """Give an array or its type its state."""
        if not isinstance(target, (_Type, _Unfilled)):
            raise ValueError("it sets the state of something that is no array")
        target.build(state)
