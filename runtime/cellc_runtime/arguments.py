"""The arguments of an artifact's calls: by position, by name or in a dict, as arrays or as anything
that converts to the type of its input without loss."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from . import dtypes
from .abi import LARGE
from .device_array import DeviceArray
from .dtypes import Array, DType
from .errors import counted
from .records import dataclass
from .variants import OpenSizes

Type = tuple[str, str, tuple[int, ...]]
"""A name, the name of an element type, and a shape in which -1 is an open size."""

_KINDS = ("bool", "uint", "int", "float", "complex")
_PYTHON = (bool, int, float, complex, list, tuple)
"""Values whose floats have no type of their own: they are rounded to that of the input."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """The inputs of an entry.

    Attributes:
        sizes: names for those that are open.
    """

    entry: str
    types: Sequence[Type]
    sizes: OpenSizes

    def bind(self, given: Sequence[Any], named: Mapping[str, Any]) -> list[Any]:
        """The arguments in the order of the inputs, each converted to its type.

        Raises:
            TypeError: unknown, missing or double names, or a type that does not fit.
            ValueError: a shape that does not fit.
        """
        if len(given) == 1 and isinstance(given[0], Mapping):
            twice = next((n for n in given[0] if n in named), None)
            if twice is not None:
                raise self._wrong(f"{twice!r} is given twice")
            given, named = [], {**given[0], **named}
        if len(given) > len(self.types):
            raise self._wrong(f"got {counted(len(given), 'argument')}")
        names = [name for name, _, _ in self.types]
        for name in named:
            if name not in names:
                raise self._wrong(f"got {name!r}")
            if name in names[: len(given)]:
                raise self._wrong(f"{name!r} is given twice")
        missing = [repr(n) for n in names[len(given):] if n not in named]
        if missing:
            raise self._wrong(f"{' and '.join(missing)} {'are' if missing[1:] else 'is'} missing")
        values = [*given, *(named[name] for name in names[len(given):])]
        return [self._array(number, value) for number, value in enumerate(values)]

    def __str__(self) -> str:
        """Return the names and types: `x: float32[N, 3] and y: int32[N]`."""
        shown = [f"{name}: {self._type(i)}" for i, (name, _, _) in enumerate(self.types)]
        return " and ".join(filter(None, [", ".join(shown[:-1]), *shown[-1:]])) or "none"

    def _type(self, number: int) -> str:
        _, dtype, shape = self.types[number]
        return f"{dtype}[{', '.join(map(str, self.sizes.shown(number, shape)))}]"

    def _wrong(self, what: str) -> TypeError:
        return TypeError(f"For {self.entry!r}, the inputs must be {self}, but {what}.")

    def _array(self, number: int, value: Any) -> Any:
        """An argument as an array of the input's type."""
        name, dtype, shape = self.types[number]
        must = f"For {self.entry!r}, {name!r} must be {self._type(number)}, but got"
        array = value if isinstance(value, DeviceArray) else _as_array(value, must)
        if array.dtype != dtypes.by_name(dtype).numpy:
            array = _converted(array, dtypes.by_name(dtype), isinstance(value, _PYTHON), must)
        if len(array.shape) != len(shape) or any(
                want not in (-1, d) for want, d in zip(shape, array.shape, strict=True)):
            raise ValueError(f"{must} {dtypes.typed(array)}.")
        return array


def _as_array(value: Any, must: str) -> Array:
    """A value as an array; arrays, numbers, lists of them, and what offers itself as an array."""
    if isinstance(value, np.ndarray):
        if type(value) is not np.ndarray and np.any(getattr(value, "mask", False)):
            raise TypeError(f"{must} {type(value).__name__} with masked elements.")
        return value
    try:
        array = np.from_dlpack(value) if hasattr(value, "__dlpack__") \
            and not hasattr(value, "__array__") else np.asarray(value)
    except (TypeError, ValueError, RuntimeError, BufferError) as error:
        raise TypeError(f"{must} {type(value).__name__}, which does not convert to an array: "
                        f"{str(error)[:200].rstrip('.')}.") from None
    if array.dtype.kind == "O":
        big = next((e for e in array.flat if type(e) is int and not -2**63 <= e < 2**64), None)
        if big is not None:
            raise TypeError(f"{must} {type(value).__name__} with {big}, which no element type "
                            "holds.")
    if array.dtype.kind in "OSU":
        raise TypeError(f"{must} {type(value).__name__}{' of other objects' * (array.ndim > 0)}.")
    return array


def _converted(array: Any, to: DType, python: bool, must: str) -> Array:
    """The elements as another type, which holds all of them."""
    try:
        kind = dtypes.from_numpy(array.dtype).kind
    except TypeError:
        raise TypeError(f"{must} {dtypes.typed(array)}.") from None
    fits = not array.size or _KINDS.index(kind) <= _KINDS.index(to.kind) or (
        kind == "int" and to.is_integer)
    if not fits or isinstance(array, DeviceArray) or to.numpy.type is np.void:
        raise TypeError(f"{must} {dtypes.typed(array)}.")
    native = array.astype(array.dtype.newbyteorder("="), copy=False)
    lost = np.zeros(array.shape, np.bool_)
    for part in (native.real, native.imag) if kind == "complex" else (native,):
        real = dtypes.part_dtype(to).numpy
        lost |= (dtypes.out_of_range if python and part.dtype.kind == "f" else dtypes.inexact)(
            part, real) if part.dtype != real and kind != "bool" else False
    if lost.any():
        element = native[lost].reshape(-1)[0]
        raise TypeError(f"{must} {dtypes.typed(array)} with {element}, which {to.name} does not "
                        "hold.")
    converted: Array = native.astype(to.numpy)
    return converted


def refuse_weights(
    entry: str, donated: Sequence[tuple[str, Array]], weights: Sequence[tuple[str, Array]]
) -> None:
    """Raise ValueError for a donated input in the memory of a weight: the call would change that
    weight of the session."""
    for name, array in donated:
        weight = next((w for w, a in weights if np.may_share_memory(array, a)), None)
        if weight is not None:
            raise ValueError(f"For {entry!r}, {name!r} is written over, so it must be in memory of "
                             f"its own, but got that of the weight {weight!r}: give a copy.")


def accept_outputs(
    entry: str, out: Any, types: Sequence[Type], written: Sequence[tuple[str, Array]],
    donated: Sequence[int] = (),
) -> tuple[list[Array | None], list[Array | None]]:
    """The caller's array for each output (None for a new one), and those that a program can write
    itself.

    Args:
        entry: what is called.
        out: as the caller gave it.
        written: weights and inputs that calls update, with what errors call them.
        donated: outputs that are written over inputs: a list has None there.

    Raises:
        TypeError, ValueError: arrays of another number, type or layout, or that share memory.
    """
    shown = ", ".join(f"{name}: {dtype}{list(shape)}" for name, dtype, shape in types)
    kinds = "an array for the output" if len(types) == 1 else "arrays for the outputs"
    must = f"For {entry!r}, 'out' must be {kinds} {shown or 'none'}, but"
    given = _in_order(out, [name for name, _, _ in types], donated, must)
    there = list(written)
    for array, (name, dtype, shape) in zip(given, types, strict=True):
        if array is None:
            continue
        if not isinstance(array, np.ndarray):
            raise TypeError(f"{must} got {type(array).__name__} for {name!r}.")
        wrong = _wrong_output(array, name, dtypes.by_name(dtype).numpy, shape)
        shared = next((other for other, a in there if np.may_share_memory(array, a)), None)
        if wrong or shared:
            raise ValueError(f"{must} {wrong or f'that for {name!r} shares memory with {shared}.'}")
        there.append((f"that for {name!r}", array))
    taken = [a if a is None or a.nbytes < LARGE or a.ctypes.data % 64 == 0 else None
             for a in given]
    return given, taken


def _in_order(
    out: Any, names: Sequence[str], donated: Sequence[int], must: str
) -> list[Any]:
    """Return the caller's value for each output.

    Raises:
        TypeError: another number, or an unknown name.
        ValueError: something for an output that is written over an input.
    """
    if isinstance(out, Mapping):
        unknown = next((n for n in out if n not in names), None)
        if unknown is not None:
            raise TypeError(f"{must} got {unknown!r}.")
        return [out.get(name) for name in names]
    given = list(out) if isinstance(out, (list, tuple)) else [out]
    for k in reversed(donated if len(given) == len(names) + len(donated) else ()):
        if given.pop(k) is not None:
            raise ValueError(f"{must} got one for output {k}, which is written over an input.")
    if len(given) != len(names):
        found = f"a {type(out).__name__} of {len(given)}" if isinstance(out, (list, tuple)) else \
            f"one array, {dtypes.typed(out)}" if isinstance(out, np.ndarray) else \
            f"one {type(out).__name__}"
        wanted = "one array" if len(names) == 1 else \
            f"a list of {len(names)}, each an array or None"
        raise TypeError(f"{must} got {found}: give {wanted}.")
    return given


def _wrong_output(array: Array, name: str, dtype: Any, shape: tuple[int, ...]) -> str:
    """Return why a program cannot write an output to this array, and what to give; "" if it
    can."""
    if array.dtype.newbyteorder("=") != dtype or array.shape != shape:
        return f"got {dtypes.typed(array)} for {name!r}."
    if array.dtype != dtype:
        return (f"got {dtypes.typed(array)} in the byte order of other machines for {name!r}: give "
                "one in that of this machine.")
    flags = array.flags
    fault = "read-only" if not flags.writeable else \
        f"not contiguous (its strides are {array.strides})" if not flags.c_contiguous else \
        f"not aligned (it does not begin at a multiple of {dtype.alignment})" \
        if not flags.aligned else ""
    new = f"numpy.empty({shape}, {dtype.name!r})"
    return f"that for {name!r} is {fault}: give {new} and copy from it." if fault else ""
