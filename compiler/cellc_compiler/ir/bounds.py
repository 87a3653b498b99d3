"""What numbers an op's attributes may hold and how large tensors may be, for every op alike.

Graphs come from files, too. An op's inference may compute with an attribute only what does not take
longer or more memory the larger the number is; an attribute that it counts along has a bound in the
op's `bounds`. All other numbers fit 64 bits, so that arithmetic on them is cheap, and a result has
no more bytes than a process can address.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .dims import Dim
from .types import TensorType

LEAST, MOST = -(1 << 63), (1 << 64) - 1
"""The integers that some element type holds."""
MOST_BYTES = 1 << 47
"""What a process can address on the machines there are."""
MOST_PARTS = 1 << 16
"""Into how many parts, or how often, a function or layer does what it does one by one."""
DEEPEST = 8
"""How deep tuples of an attribute may be nested."""


_KINDS: Mapping[type, tuple[tuple[type, ...], str]] = {
    bool: ((int,), "a bool"), int: ((int, float, complex, Dim), "a number"),
    float: ((int, float, Dim), "a number"), str: ((str,), "a string"),
    tuple: ((tuple,), "a tuple"),
}
"""What an attribute takes, by the type of its default."""


def check_attributes(
    op: str, attrs: Mapping[str, Any], bounds: Mapping[str, int], defaults: Mapping[str, Any]
) -> None:
    """Every attribute of the kind of its default (a tuple of numbers has as many), every number
    within its bound.

    Args:
        op: the op's name.
        attrs: its attributes.
        bounds: of some of them, the most that a number may be in magnitude.
        defaults: what they are where nothing is said.

    Raises:
        TypeError: an attribute of another kind; it says which.
        ValueError: a number beyond its bound, too many or few of them, or tuples nested too deeply;
            it says which.
    """
    for name, value in attrs.items():
        kind, default = type(value), defaults.get(name)
        allowed = _KINDS.get(type(default))
        if allowed is not None and not isinstance(value, allowed[0]):
            raise TypeError(
                f"the attribute {name!r} of {op} must be {allowed[1]}, but got {kind.__name__}")
        if kind is tuple and isinstance(default, tuple) and default and len(value) != len(default):
            raise ValueError(f"the attribute {name!r} of {op} must hold {len(default)} numbers, "
                             f"but got {len(value)}")
        if kind is int or kind is tuple:
            most = bounds.get(name)
            limits = (LEAST, MOST) if most is None else (-most, most)
            _check(value, limits, f"the attribute {name!r} of {op}", 0)


def _check(value: Any, limits: tuple[int, int], what: str, depth: int) -> None:
    kind = type(value)
    if kind is int:
        if not limits[0] <= value <= limits[1]:
            raise ValueError(f"{what} must be from {limits[0]} to {limits[1]}, got {_short(value)}")
    elif kind is tuple:
        if depth == DEEPEST:
            raise ValueError(f"{what} is nested more than {DEEPEST} deep")
        for part in value:
            _check(part, limits, what, depth + 1)


def _short(number: int) -> str:
    return str(number) if number.bit_length() < 200 else f"a number of {number.bit_length()} bits"


def check_size(what: str, ty: TensorType) -> None:
    """A tensor that a process could address. Symbolic sizes are known later.

    Raises:
        ValueError: it is larger, or a size is negative.
    """
    nbytes = ty.dtype.itemsize
    for n in ty.shape:
        if type(n) is int:
            if n < 0:
                raise ValueError(f"{what} would have the negative size {n}")
            nbytes *= n or 1
            if nbytes > MOST_BYTES:
                raise ValueError(f"{what} would be a tensor {_shape(ty)}, which is more than "
                                 f"{MOST_BYTES >> 40} TiB")


def _shape(ty: TensorType) -> str:
    text = str(ty)
    return text if len(text) <= 100 else text[:97] + "..."
