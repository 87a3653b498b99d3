"""Deferred initialization: values that are drawn when somebody asks for them.

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


class Deferred(State):
    """Initial values that nobody has asked for.

    Args:
        shape, dtype: of the array.
        fill: fills an array of zeros. It gives the same numbers whenever it is called: the key of
            the generator was taken when this was made.
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
