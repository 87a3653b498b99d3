"""Programs for a few batch sizes that together serve a batch of any size.

The network treats the rows of a batch each on their own (the compiler has shown that). A batch is
walked in windows of the sizes there are programs for; the last window is moved back so that it
ends where the batch does, and computes some rows again, to the same bits. A batch smaller than the
least window of its kind has a program of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .executable import Executable
from .program import Slot

Array = np.ndarray[Any, np.dtype[Any]]


def windows(n: int, sizes: Sequence[int]) -> list[tuple[int, int]]:
    """`(start, size)` of windows that cover n rows, the largest first.

    `sizes` ascend and begin with 1, 2, ..., k: so few rows have programs of their own. No window of
    a larger batch is smaller than k.
    """
    if n in sizes:
        return [(0, n)]
    k = next(i for i, s in enumerate((*sizes, 0), 1) if s != i) - 1
    fit = [s for s in sizes if k <= s <= n]
    out: list[tuple[int, int]] = []
    at = 0
    while at < n:
        rest = n - at
        size = next((s for s in reversed(fit) if s <= rest), fit[0])
        out.append((min(at, n - size), size))
        at += size
    return out


class Batched:
    """A network for batches of any size.

    Args:
        executables: by batch size, their parameters bound.
        open_inputs: which inputs have the batch as their first axis.

    Attributes:
        entry: the same as calling it.
    """

    def __init__(self, executables: Mapping[int, Executable], open_inputs: Sequence[int]) -> None:
        self.executables = dict(sorted(executables.items()))
        self.sizes = tuple(self.executables)
        self.open_inputs = tuple(open_inputs)
        first = self.executables[self.sizes[0]].program
        self.inputs: tuple[Slot, ...] = first.of_kind("input")
        self.outputs: tuple[Slot, ...] = first.of_kind("output")
        self.entry = self.__call__

    def __call__(self, *arrays: Array) -> Any:
        """Run: one array, or a tuple."""
        out = self.call(arrays)
        return out[0] if len(out) == 1 else tuple(out)

    def call(self, arrays: Sequence[Array]) -> list[Array]:
        """Run on these inputs; the outputs, as a list.

        Raises:
            TypeError, ValueError: which argument is wrong, what was expected and what came.
        """
        n = self._batch(arrays)
        exact = self.executables.get(n)
        if exact is not None:
            return exact.call(arrays)
        out = [np.empty((n, *s.shape[1:]), s.dtype.numpy) for s in self.outputs]
        if n == 0:
            return out
        for start, size in windows(n, self.sizes):
            part = [a[start : start + size] if i in self.open_inputs else a
                    for i, a in enumerate(arrays)]
            for whole, piece in zip(out, self.executables[size].call(part), strict=True):
                whole[start : start + size] = piece
        return out

    def _batch(self, arrays: Sequence[Array]) -> int:
        """The size of the batch; the inputs must agree on it."""
        if len(arrays) != len(self.inputs):
            raise TypeError(f"expected {len(self.inputs)} inputs, got {len(arrays)}")
        found: dict[int, str] = {}
        for i in self.open_inputs:
            shape = np.shape(arrays[i])
            slot = self.inputs[i]
            if len(shape) != len(slot.shape) or shape[1:] != slot.shape[1:]:
                rest = ", ".join(["any", *map(str, slot.shape[1:])])
                raise ValueError(
                    f"argument {i + 1} ({slot.name!r}): expected {slot.dtype.name}[{rest}], got "
                    f"the shape {shape}"
                )
            found.setdefault(shape[0], slot.name)
        if len(found) > 1:
            (a, x), (b, y) = list(found.items())[:2]
            raise ValueError(
                f"the inputs must have one batch size: axis 0 of {x!r} is {a}, that of {y!r} is {b}"
            )
        return next(iter(found))
