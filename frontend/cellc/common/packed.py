"""Parameters whose elements are held by compiled programs, packed, and nowhere else.

Inference reads most weights packed. Keeping them as they were given too would double the memory,
so a Parameter whose array nobody else holds gives it up once a program has packed it
(`absent.py`), and unpacks an array of its own the moment somebody asks for its elements. Packing
is a permutation: no bit changes.
"""

from __future__ import annotations

import sys
from collections.abc import Hashable
from typing import Any

import numpy as np

from cellc_runtime import fastcall
from cellc_runtime.kept import Source
from cellc_runtime.packing import Packing
from cellc_runtime.platform import Scratch

from ..core import writes
from .absent import ARRAY, LEAST, LOCK, Elements, become_absent, become_plain
from .parameter import Parameter
from .tensor import Array, Tensor, aligned_empty, aligned_zeros

OFTEN = 4
"""How many times a Parameter is unpacked before it keeps its array: it is read again and again."""


class Packed(Elements):
    """Elements in a block of a compiled program, which is kept alive.

    Args:
        block: where they are; `packing` says how.
        shape, dtype: of the array.
    """

    __slots__ = ("block", "dtype", "packing", "shape")

    def __init__(
        self, block: Scratch, packing: Packing, shape: tuple[int, ...], dtype: np.dtype[Any]
    ) -> None:
        self.block, self.packing, self.shape, self.dtype = block, packing, shape, dtype

    def array(self) -> Array:
        """An array of them."""
        out = aligned_empty(self.shape, self.dtype)
        self.packing.unpack(self.block.address, out)
        return out

    def look(self, p: Parameter) -> Array:
        """An array of them; the parameter stays without one."""
        return self.array()

    def arrived(self, p: Parameter) -> None:
        """Until a program that holds it packed is called again the parameter has the array."""
        p.__dict__["_unpacked"] = times_unpacked(p) + 1
        if times_unpacked(p) < OFTEN:
            writes.advance()


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

    def settle(self, key: Hashable, block: Scratch, packing: Packing) -> Array | None:
        """Give the array up if nobody else has it and it still holds what was packed."""
        p = self.tensor
        if _ALONE is None or type(p) is not Parameter or p.__dict__.get("_pinned") \
                or times_unpacked(p) >= OFTEN:
            return None
        with LOCK:
            return _give_up(p, self, key, block, packing) if type(p) is Parameter else None


def _give_up(
    p: Parameter, weight: Weight, key: Hashable, block: Scratch, packing: Packing
) -> Array | None:
    """`Weight.settle`, with the lock held.

    First nobody can get at the array any more, then its holders are counted. Who writes it holds
    it until the parameter's version has grown, so a write that began earlier is seen either way.
    """
    array: Array = ARRAY.__get__(p)
    if array.nbytes < LEAST or type(array) is not np.ndarray or array.base is None:
        return None
    elements = Packed(block, packing, array.shape, array.dtype)
    become_absent(p, elements)
    ARRAY.__delete__(p)
    if p.__dict__.get("_elements") is not elements:
        return None  # a finaliser of this thread has asked for it meanwhile
    if _references(array) == _ALONE and weight.key() == key:
        return array
    become_plain(p, array)
    return None
