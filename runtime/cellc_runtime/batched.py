"""Programs for a few batch sizes that together serve a batch of any size.

The network treats the rows of a batch each on their own (the compiler has shown that). A batch is
walked in windows of the sizes there are programs for; the last window is moved back so that it
ends where the batch does, and computes some rows again, to the same bits. A batch of few rows has a
program of its own, because kernels may sum it in another order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from .device_array import on_host
from .dtypes import Array
from .program import Program


def windows(n: int, sizes: Sequence[int]) -> list[tuple[int, int]]:
    """`(start, size)` of windows that cover n rows, the largest first.

    `sizes` ascend and begin with a, a + 1, ..., k, where a is the least batch that comes. No window
    of a larger batch than k is smaller than k.
    """
    if n in sizes:
        return [(0, n)]
    k = next(s for s in sizes if s + 1 not in sizes)
    fit = [s for s in sizes if k <= s <= n]
    out: list[tuple[int, int]] = []
    at = 0
    while at < n:
        rest = n - at
        size = next((s for s in reversed(fit) if s <= rest), fit[0])
        out.append((min(at, n - size), size))
        at += size
    return out


class Part(Protocol):
    """The parts of an executable that `Batched` uses for one size."""

    program: Program
    entry: Callable[..., Any]

    def call(self, arrays: Sequence[Array], out: Sequence[Array | None] = ()) -> list[Array]:
        """Run on these inputs; the outputs, as a list."""


class Batched:
    """A network for batches of any size.

    Args:
        executables: by batch size, their parameters bound.
        open_inputs: which inputs have the batch as their first axis. They must agree on it.
    """

    def __init__(self, executables: Mapping[int, Part], open_inputs: Sequence[int]) -> None:
        self.executables = dict(sorted(executables.items()))
        self.sizes = tuple(self.executables)
        self.open_inputs = tuple(open_inputs)
        self.outputs = self.executables[self.sizes[0]].program.of_kind("output")

    def __call__(self, *arrays: Array) -> Any:
        """Run: one array, or a tuple."""
        exact = self.executables.get(arrays[self.open_inputs[0]].shape[0])
        if exact is not None:
            return exact.entry(*arrays)
        out = self.call(arrays)
        return out[0] if len(out) == 1 else tuple(out)

    def call(self, arrays: Sequence[Array], out: Sequence[Array | None] = ()) -> list[Array]:
        """Run on these inputs; the outputs, as a list.

        Args:
            out: arrays for them (None: a new one), apart from the inputs.

        Raises:
            TypeError, ValueError: which argument is wrong, what was expected and what came.
        """
        arrays = [on_host(a) for a in arrays]  # windows are cut there
        n = arrays[self.open_inputs[0]].shape[0]
        if n in self.executables:
            return self.executables[n].call(arrays, out)
        results = [np.empty((n, *s.shape[1:]), s.dtype.numpy) if o is None else o
                   for s, o in zip(self.outputs, out or [None] * len(self.outputs), strict=True)]
        for start, size in windows(n, self.sizes) if n else ():
            part = [a[start : start + size] if i in self.open_inputs else a
                    for i, a in enumerate(arrays)]
            pieces = self.executables[size].call(part)
            for whole, piece in zip(results, pieces, strict=True):
                whole[start : start + size] = piece
        return results
