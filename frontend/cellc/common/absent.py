"""Parameters without an array: their elements are elsewhere, or not made yet.

While it has no array a Parameter is of a class of its own, so that others pay nothing: there
`_data` is a property that makes the array the moment somebody asks for elements. Types are known
without it. Weights that inference holds packed (`packed.py`) are such parameters, and so are those
whose initial values nobody has asked for: most networks get trained weights before their first
call, and drawing what these replace took longer than all the rest of a start.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np

from cellc_compiler.ir.types import TensorType
from cellc_runtime import dtypes
from cellc_runtime.dtypes import DType

from ..core.dispatch import precision
from .parameter import Parameter
from .tensor import Array, Tensor, aligned_empty, aligned_zeros

LEAST = 1 << 16
"""Bytes from which on it is worth it to do without an array."""

LOCK = threading.RLock()
"""Held while a Parameter gets an array or gives one up."""
ARRAY: Any = Tensor.__dict__["_data"]
CLASS: Any = object.__dict__["__class__"]
"""The slots of array and class, which `Absent` hides."""


class Elements(ABC):
    """What stands for the array.

    Attributes:
        shape, dtype: of the array.
    """

    __slots__ = ()
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @abstractmethod
    def array(self) -> Array:
        """A new array of them."""

    def look(self, p: Parameter) -> Array:
        """An array for someone who reads them now and keeps nothing."""
        found: Array = p._data
        return found

    def arrived(self, p: Parameter) -> None:  # noqa: B027 (most have nothing to do)
        """The parameter has an array of them now."""


class Undrawn(Elements):
    """Initial values that are drawn when they are asked for.

    Args:
        shape, dtype: of the array.
        fill: fills an array of zeros. It gives the same numbers whenever it is called.
    """

    __slots__ = ("dtype", "fill", "shape")

    def __init__(
        self, shape: tuple[int, ...], dtype: np.dtype[Any], fill: Callable[[Array], None]
    ) -> None:
        self.shape, self.dtype, self.fill = shape, dtype, fill

    def array(self) -> Array:
        """The values, drawn."""
        out = aligned_zeros(self.shape, self.dtype)
        self.fill(out)
        return out


def _take_class(p: Parameter, cls: type[Any]) -> None:
    """`p.__class__ = cls` of a Parameter without an array."""
    present(p)
    CLASS.__set__(p, cls)


class Absent(Parameter):
    """A Parameter without an array."""

    __slots__ = ()
    __hash__ = object.__hash__
    _elements: Elements

    __class__ = property(lambda self: Parameter, _take_class)

    @property
    def _data(self) -> Array:
        return present(self)

    @_data.setter
    def _data(self, value: Array) -> None:
        with LOCK:
            become_plain(self, value)

    @property
    def _type(self) -> TensorType:
        own = self._elements
        return TensorType(own.shape, dtypes.from_numpy(own.dtype))

    @property
    def shape(self) -> tuple[int, ...]:
        """Length of each axis."""
        return self._elements.shape

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self._elements.shape)

    @property
    def dtype(self) -> DType:
        """Element type; within a Cell under `to_float`, the one it is read in there."""
        return self._read_as(dtypes.from_numpy(self._elements.dtype), precision())

    def _snapshot(self) -> Array:
        with LOCK:
            elements = self.__dict__.get("_elements")
            if elements is None:  # another thread has asked for the array meanwhile
                found: Array = ARRAY.__get__(self)
                return found
        seen: Array = elements.look(self)
        return seen

    def _overwritten(self) -> Array:
        with LOCK:
            if type(self) is Absent:
                own = self._elements
                become_plain(self, aligned_empty(own.shape, own.dtype))
            found: Array = ARRAY.__get__(self)
            return found


Absent.__name__, Absent.__qualname__ = Parameter.__name__, Parameter.__qualname__
Absent.__module__ = Parameter.__module__


def become_absent(p: Parameter, elements: Elements) -> None:
    """Make a Parameter one without an array; what it has of one stays in its slot."""
    p.__dict__["_elements"] = elements
    CLASS.__set__(p, Absent)


def become_plain(p: Parameter, array: Array) -> None:
    """Give a Parameter an array again; the lock is held."""
    ARRAY.__set__(p, array)
    CLASS.__set__(p, Parameter)
    p.__dict__.pop("_elements", None)


def present(p: Parameter) -> Array:
    """The array of a Parameter that may be without one; from now on it has it."""
    with LOCK:
        if type(p) is Absent:
            elements = p._elements
            become_plain(p, elements.array())
            elements.arrived(p)
        found: Array = ARRAY.__get__(p)
        return found
