"""Parameters whose elements are held by compiled programs, packed, and nowhere else.

Inference reads most weights packed. Keeping them as they were given too would double the memory,
so a Parameter whose array nobody else holds gives it up once a program has packed it, and unpacks
an array of its own the moment somebody asks for its elements. Packing is a permutation: no bit
changes.

While it has no array a Parameter is of a class of its own, so that others pay nothing: there
`_data` is a property that unpacks. Types are known without it.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Hashable
from typing import Any

import numpy as np

from cellc_compiler.ir.types import TensorType
from cellc_runtime import dtypes, fastcall
from cellc_runtime.dtypes import DType
from cellc_runtime.kept import Source
from cellc_runtime.packing import Packing
from cellc_runtime.platform import Scratch
from cellc_runtime.records import dataclass

from ..core import writes
from ..core.dispatch import precision
from .parameter import Parameter
from .tensor import Array, Tensor, aligned_empty, aligned_zeros

LEAST = 1 << 16
"""Bytes from which on an array is worth giving up."""
_OFTEN = 4
"""How many times a Parameter is unpacked before it keeps its array: it is read again and again."""

_lock = threading.RLock()
_array_slot: Any = Tensor.__dict__["_data"]
_class_slot: Any = object.__dict__["__class__"]


@dataclass(frozen=True, slots=True)
class Elements:
    """Where the elements are, and of what type: `block` is kept alive."""

    block: Scratch
    packing: Packing
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    def unpacked(self) -> Array:
        """An array of them."""
        out = aligned_empty(self.shape, self.dtype)
        self.packing.unpack(self.block.address, out)
        return out


def _take_class(p: Parameter, cls: type[Any]) -> None:
    """`p.__class__ = cls` of a Parameter without an array."""
    _unpack(p)
    _class_slot.__set__(p, cls)


class _Packed(Parameter):
    """A Parameter without an array."""

    __slots__ = ()
    __hash__ = object.__hash__
    _elements: Elements

    __class__ = property(lambda self: Parameter, _take_class)

    @property
    def _data(self) -> Array:
        return _unpack(self)

    @_data.setter
    def _data(self, value: Array) -> None:
        with _lock:
            _become_plain(self, value)

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
        return self._elements.unpacked()


_Packed.__name__, _Packed.__qualname__ = Parameter.__name__, Parameter.__qualname__
_Packed.__module__ = Parameter.__module__


def _become_plain(p: Parameter, array: Array) -> None:
    """Give a Parameter an array again; the lock is held."""
    _array_slot.__set__(p, array)
    _class_slot.__set__(p, Parameter)
    p.__dict__.pop("_elements", None)


def _unpack(p: Parameter) -> Array:
    """The array of a Parameter that may be without one; until a program that holds it packed is
    called again it has it."""
    with _lock:
        if type(p) is _Packed:
            p.__dict__["_unpacked"] = times_unpacked(p) + 1
            _become_plain(p, p._elements.unpacked())
            if times_unpacked(p) < _OFTEN:
                writes.advance()
        found: Array = _array_slot.__get__(p)
        return found


def times_unpacked(tensor: Tensor) -> int:
    """How many times a Parameter that had given its array up has got one again."""
    found: int = tensor.__dict__.get("_unpacked", 0)
    return found


def _references(array: Array) -> tuple[int, int]:
    return sys.getrefcount(array), sys.getrefcount(array.base)


def _unshared() -> tuple[int, int]:
    """What `_references` counts for an array that only a local variable holds."""
    array = aligned_zeros((LEAST,), np.dtype(np.uint8))
    return _references(array)


_ALONE = _unshared() if hasattr(sys, "getrefcount") and fastcall.supported() else None
"""None where references cannot be counted: no array is given up there."""


class Weight(Source):
    """A parameter (or large constant) of a compiled network.

    Args:
        tensor: the parameter.
    """

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor
        self.shape, self.dtype = tensor.shape, tensor._type.dtype.numpy

    def key(self) -> Hashable | None:
        """Its number and version; None while someone holds an array that shares the memory."""
        tensor = self.tensor
        if getattr(tensor, "_is_lent", False):
            return None
        return tensor._number_of(), tensor._version

    def array(self) -> Array:
        """The array, unpacked if need be."""
        data: Array = self.tensor._data
        return data

    def settle(self, key: Hashable, block: Scratch, packing: Packing) -> int:
        """Give the array up if nobody else has it and it still holds what was packed."""
        p = self.tensor
        if _ALONE is None or type(p) is not Parameter or p.__dict__.get("_pinned") \
                or times_unpacked(p) >= _OFTEN:
            return 0
        with _lock:
            return _give_up(p, self, key, block, packing) if type(p) is Parameter else 0


def _give_up(p: Parameter, weight: Weight, key: Hashable, block: Scratch, packing: Packing) -> int:
    """`Weight.settle`, with the lock held.

    First nobody can get at the array any more, then its holders are counted. Who writes it holds
    it until the parameter's version has grown, so a write that began earlier is seen either way.
    """
    array: Array = _array_slot.__get__(p)
    if array.nbytes < LEAST or type(array) is not np.ndarray or array.base is None:
        return 0
    elements = Elements(block, packing, array.shape, array.dtype)
    p.__dict__["_elements"] = elements
    _class_slot.__set__(p, _Packed)
    _array_slot.__delete__(p)
    if p.__dict__.get("_elements") is not elements:
        return 0  # a finaliser of this thread has asked for it meanwhile
    if _references(array) == _ALONE and weight.key() == key:
        return int(array.nbytes)
    _become_plain(p, array)
    return 0
