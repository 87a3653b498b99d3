"""Reads the batches of CIFAR's Python version, which are pickles, without Python's unpickler.

A pickle is a program for a stack machine, and Python's machine calls what the program names; even
`numpy.dtype` alone, given a crafted state, reads beyond its arrays. The machine here knows the few
instructions that make dicts, lists, numbers, texts and plain arrays of integers. It refuses every
other one. Format: PEP 307, PEP 3154 and the comments of `pickletools`.
"""

from __future__ import annotations

import math
import pickletools
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

_MOST_STEPS = 1 << 20
"""Instructions of a file; a batch of CIFAR has 40,000."""
_SHOWN = 64
"""Characters of a name that an error shows."""
_EMPTY = {(f"numpy.{core}.multiarray", "_reconstruct") for core in ("core", "_core")}
_FILLED = {(f"numpy.{core}.numeric", "_frombuffer") for core in ("core", "_core")}
_CLASSES = {("numpy", "ndarray"), ("numpy", "dtype")}


class _Name(NamedTuple):
    """A function or class that the file names; it stands for itself and is never called."""

    module: str
    name: str


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
    found = _Machine().run(path)
    if not isinstance(found, dict):
        raise ValueError(f"it holds no dict, but {type(found).__name__}")
    batch = {k.encode("latin-1") if isinstance(k, str) else k: _plain(v)
             for k, v in found.items()}
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


class _Machine:
    """Runs the instructions of one file.

    Attributes:
        stack: the values.
        marks: the heights of the stack at which marks were set.
        memo: values that the file may use again, by its numbers.
    """

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.marks: list[int] = []
        self.memo: dict[int, Any] = {}

    def run(self, path: Path) -> Any:
        """Return the contents of the file.

        Raises:
            OSError: the file cannot be read.
        """
        data = path.read_bytes()  # (a stream would allocate the lengths that the file states)
        try:
            for step, (code, value, _) in enumerate(pickletools.genops(data)):
                if step >= _MOST_STEPS:
                    raise ValueError(f"it has more than {_MOST_STEPS} instructions")
                if code.name == "STOP":
                    return self._pop()
                self._step(code.name, value)
        except (IndexError, KeyError, TypeError, OverflowError, UnicodeError) as error:
            raise ValueError(f"it is damaged: {error}") from error
        raise ValueError("it is cut short")

    def _pop(self) -> Any:
        if self.marks and len(self.stack) <= self.marks[-1]:
            raise IndexError("an instruction lacks a value")
        return self.stack.pop()

    def _above(self) -> list[Any]:
        """The values since the last mark."""
        height = self.marks.pop()
        found, self.stack[height:] = self.stack[height:], []
        return found

    def _step(self, name: str, value: Any) -> None:
        if name in _LITERALS:
            # Texts of Python 2 are bytes; pickletools gives them as str.
            is_bytes = name in _OLD_TEXTS and isinstance(value, str)
            self.stack.append(value.encode("latin-1") if is_bytes else value)
        elif name in _CONSTANTS:
            self.stack.append(_CONSTANTS[name]())
        elif name in _TUPLES:
            many = [self._pop() for _ in range(_TUPLES[name])]
            self.stack.append(tuple(many[::-1]))
        elif name in _ACTIONS:
            _ACTIONS[name](self, value)
        else:
            raise ValueError(f"it has the instruction {name}, which no batch of CIFAR needs")

    def put(self, key: Any) -> None:
        """Note the top of the stack; without a key (MEMOIZE) under the next number."""
        self.memo[len(self.memo) if key is None else key] = self.stack[-1]

    def collect(self, make: Callable[[list[Any]], Any]) -> None:
        """A tuple, list or dict of the values since the last mark."""
        self.stack.append(make(self._above()))

    def extend(self, many: list[Any]) -> None:
        """Append values to the list below them."""
        target = self.stack[-1]
        if not isinstance(target, list):
            raise TypeError("values are appended to something that is no list")
        target.extend(map(_plain, many))

    def update(self, many: list[Any]) -> None:
        """Enter keys and values into the dict below them."""
        target = self.stack[-1]
        if not isinstance(target, dict):
            raise TypeError("values are entered into something that is no dict")
        target.update(_pairs(many))

    def name(self, module: Any, name: Any) -> None:
        """A function or class, if arrays need it."""
        found = _Name(str(module), str(name))
        if found not in _EMPTY | _FILLED | _CLASSES:
            raise ValueError(f"it asks for {found.module[:_SHOWN]}.{found.name[:_SHOWN]}, which "
                             "no batch of CIFAR needs")
        self.stack.append(found)

    def call(self) -> None:
        """Begin an array or its type."""
        given, called = self._pop(), self._pop()
        if called == ("numpy", "dtype") and isinstance(given, tuple):
            self.stack.append(_Type(*given))
        elif called in _EMPTY:
            self.stack.append(_Unfilled())
        elif called in _FILLED and isinstance(given, tuple) and len(given) == 4:
            data, kind, shape, order = given
            self.stack.append(array := _Unfilled())
            array.build((1, shape, kind, order == "F", data))
        else:
            raise ValueError("it calls something that no batch of CIFAR needs")

    def build(self) -> None:
        """Give an array or its type its state."""
        state, target = self._pop(), self.stack[-1]
        if not isinstance(target, (_Type, _Unfilled)):
            raise ValueError("it sets the state of something that is no array")
        target.build(state)


def _pairs(many: list[Any]) -> dict[Any, Any]:
    keys = many[::2]
    if not all(isinstance(k, (bytes, str)) for k in keys):
        raise TypeError("a key must be a text")
    return dict(zip(keys, many[1::2], strict=True))


_OLD_TEXTS = {"STRING", "BINSTRING", "SHORT_BINSTRING"}
_LITERALS = _OLD_TEXTS | {
    "INT", "BININT", "BININT1", "BININT2", "LONG1", "UNICODE", "BINUNICODE", "SHORT_BINUNICODE",
    "BINUNICODE8", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8"}
_CONSTANTS: dict[str, Callable[[], Any]] = {
    "NONE": lambda: None, "NEWTRUE": lambda: True, "NEWFALSE": lambda: False,
    "EMPTY_DICT": dict, "EMPTY_LIST": list}
_TUPLES = {"EMPTY_TUPLE": 0, "TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
_ACTIONS: dict[str, Callable[[_Machine, Any], Any]] = {
    "PROTO": lambda m, _: None, "FRAME": lambda m, _: None,
    "MARK": lambda m, _: m.marks.append(len(m.stack)),
    "DICT": lambda m, _: m.collect(_pairs), "LIST": lambda m, _: m.collect(list),
    "TUPLE": lambda m, _: m.collect(tuple),
    "APPEND": lambda m, _: m.extend([m._pop()]), "APPENDS": lambda m, _: m.extend(m._above()),
    "SETITEM": lambda m, _: m.update([m._pop(), m._pop()][::-1]),
    "SETITEMS": lambda m, _: m.update(m._above()),
    **dict.fromkeys(("PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE"), lambda m, key: m.put(key)),
    **dict.fromkeys(("GET", "BINGET", "LONG_BINGET"), lambda m, key: m.stack.append(m.memo[key])),
    "GLOBAL": lambda m, names: m.name(*str(names).split(" ", 1)),
    "STACK_GLOBAL": lambda m, _: m.name(*[m._pop(), m._pop()][::-1]),
    "REDUCE": lambda m, _: m.call(), "BUILD": lambda m, _: m.build(),
}
