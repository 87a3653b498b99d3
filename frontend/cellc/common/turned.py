"""Transposes of Parameters that are not made yet.

A matrix product reads a transposed operand as well as a straight one, so `x @ w.T` needs no
transpose: large ones are made when somebody asks for their elements, and most often nobody does.
Until then such a Tensor is of a class of its own (as in `absent.py`), which stands for its source
as it was when it was transposed: before a Parameter changes, `writes.before` makes those that are
left.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from cellc_compiler.ir.types import TensorType
from cellc_runtime.dtypes import DType

from ..core import writes
from .absent import ARRAY, CLASS, LOCK, Absent
from .parameter import Parameter
from .tensor import Array, Tensor

LEAST = 1 << 18
"""Bytes from which on it is worth it to wait."""


class Turned(Tensor):
    """The transpose of a Parameter in its last two axes.

    Attributes:
        source: the Parameter.
        make: gives the array.
    """

    __slots__ = ()
    __hash__ = object.__hash__
    __class__ = property(lambda self: Tensor, lambda self, cls: _take_class(self, cls))

    @property
    def _data(self) -> Array:
        return made(self)

    @_data.setter
    def _data(self, value: Array) -> None:
        with LOCK:
            _become_plain(self, value)

    @property
    def _type(self) -> TensorType:
        source = self.__dict__["_source"]._type
        *batch, rows, columns = source.shape
        return TensorType((*batch, columns, rows), source.dtype)

    @property
    def shape(self) -> tuple[int, ...]:
        """Length of each axis."""
        return self._type.dims

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self._type.shape)

    @property
    def dtype(self) -> DType:
        """Element type."""
        return self._type.dtype


Turned.__name__, Turned.__qualname__ = Tensor.__name__, Tensor.__qualname__
Turned.__module__ = Tensor.__module__


def _take_class(t: Tensor, cls: type[Any]) -> None:
    made(t)
    CLASS.__set__(t, cls)


def turned(source: Parameter, make: Callable[[], Array]) -> Tensor:
    """The transpose of a Parameter in its last two axes, made when somebody wants its elements.

    Args:
        make: gives the array, while the Parameter is as it is now.
    """
    t = object.__new__(Turned)
    t.__dict__["_source"], t.__dict__["_make"] = source, make
    key = id(t)
    writes.waiting[key] = weakref.ref(t, lambda _: writes.waiting.pop(key, None))
    return t


def may_wait(p: Tensor) -> bool:
    """Whether the transpose of a tensor may be made later: who changes it says so before."""
    return (type(p) is Parameter or type(p) is Absent) and p.init is None \
        and p._type.nbytes >= LEAST and not p._is_lent


def source_of(t: Tensor) -> Parameter | None:
    """What a tensor is the transpose of, if that is still to be made."""
    if type(t) is not Turned:
        return None
    source: Parameter | None = t.__dict__.get("_source")
    return source


def made(t: Tensor) -> Array:
    """The array of a tensor that may be still to be made."""
    with LOCK:
        if type(t) is Turned:
            _become_plain(t, t.__dict__["_make"]())
        found: Array = ARRAY.__get__(t)
        return found


def _become_plain(t: Tensor, array: Array) -> None:
    """Give a tensor its array; the lock is held."""
    writes.waiting.pop(id(t), None)
    ARRAY.__set__(t, array)
    CLASS.__set__(t, Tensor)
    for name in ("_source", "_make"):
        t.__dict__.pop(name, None)
