"""Deferred initialization: values that are made when somebody asks for them.

Most networks get trained weights before their first call, and drawing what these replace took
longer than all the rest of a start.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .memory import Array, aligned_zeros
from .state import State

LEAST = 1 << 16
"""Bytes from which on it is worth it."""


class _Filled(State):
    """Values that a function fills in.

    Args:
        shape, dtype: of the array.
        fill: fills an array of zeros.
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


class Deferred(_Filled):
    """Initial values of a Parameter that nobody has asked for. They are the same whenever they are
    made: the key of the generator was taken before."""

    __slots__ = ()


class Pending(_Filled):
    """Values that the initializer of a Tensor, `fill`, is still to give."""

    __slots__ = ()
