"""Sizes that are not fixed when a network is compiled: `Symbol`, and tensors that only say a type.

Source: `mindspore.Symbol`, and `mindspore.Tensor(shape=[None, ...], dtype=...)`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cellc_runtime.dtypes import DType

from ..core.declared import BOOL
from ..core.native import names_itself

ANY_RANK = (-2,)  # The shape that a tensor of unknown rank shows


@names_itself
class Symbol:
    """The known facts about a size that differs from call to call.

    Args:
        max: the greatest size; no limit if it is less than `min`.
        min: the least size.
        divisor: the size is `divisor * n + remainder` for some n of at least 1 (at least 0 where
            there is a remainder).
        remainder: see `divisor`; below it.
        unique: all places that hold this object have the same size.
    """

    __module__ = "cellc.common.symbol"  # MindSpore's import path, which printed forms show

    def __init__(
        self, max: int = 0, min: int = 1, divisor: int = 1, remainder: int = 0,
        unique: bool = False, **kwargs: Any,
    ) -> None:
        given = {"max": max, "min": min, "divisor": divisor, "remainder": remainder}
        for name, value in given.items():
            if not isinstance(value, int) or isinstance(value, bool):
                raise TypeError(f"For 'Symbol', the argument '{name}' must be int, but got "
                                f"{type(value)}")
        BOOL(unique, "Symbol", "unique")
        for name in ("min", "divisor"):
            if given[name] <= 0:
                raise ValueError(f"For 'Symbol', the '{name}' value should be positive, but got "
                                 f"{given[name]}")
        if not 0 <= remainder < divisor:
            raise ValueError("For 'Symbol', the 'remainder' value should be in the range '[0, "
                             f"{divisor})', but got {remainder}")
        least = -(-(min - remainder) // divisor) * divisor + remainder
        if min <= max < least:
            raise ValueError(f"For 'Symbol', no size from {min} (min) to {max} (max) is {divisor} "
                             f"* n + {remainder} (divisor, remainder)")
        self.max, self.min, self.divisor, self.remainder = max, min, divisor, remainder
        self.unique = unique
        self.id = id(self)

    def to_dict(self) -> dict[str, Any]:
        """Return the values that differ from the defaults."""
        told = {"max": self.max >= self.min and self.max > 0, "min": self.min > 1,
                "divisor": self.divisor != 1, "remainder": self.remainder != 0, "id": self.unique}
        return {name: getattr(self, name) for name, differs in told.items() if differs}

    def __str__(self) -> str:
        return str(self.to_dict())


Axis = int | None | Symbol


class Described:
    """Mixed into a Tensor that has a type and no elements, as `set_inputs` takes it."""

    # the sizes: an int, None or a Symbol each; None for any number of axes
    axes: tuple[Axis, ...] | None
    element: DType


def describes(shape: Any) -> bool:
    """Whether a shape leaves sizes open."""
    return isinstance(shape, (list, tuple)) and any(
        d is None or isinstance(d, Symbol) for d in shape
    )


def checked_axes(shape: Sequence[Any]) -> tuple[Axis, ...]:
    """The axes of an open shape."""
    for d in shape:
        if d is None or isinstance(d, Symbol):
            continue
        if not isinstance(d, int) or isinstance(d, bool):
            raise TypeError("For Tensor, each axis of 'shape' must be an int, None or a Symbol, "
                            f"but got {d!r}")
        if d < 0:
            raise ValueError(f"For Tensor, the 'shape' must hold non-negative ints, but got {d}")
    return tuple(shape)
