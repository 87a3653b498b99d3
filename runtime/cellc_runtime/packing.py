"""Matrices cut into panels of columns, as the kernels read weights, and back again.

Packing is a permutation with zeros in the gaps, so nothing is lost by it: a weight that a program
reads packed need not be kept as it was given too.
"""

from __future__ import annotations

import ctypes

import numpy as np

from .dtypes import Array
from .records import dataclass

_UNITS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64, 16: np.complex128}


@dataclass(frozen=True, slots=True)
class Packing:
    """`matrices` matrices of `k` rows and `n` columns as panels of `width` columns.

    A panel is `[k][width]`; what is past the last column is no element.
    """

    matrices: int
    n: int
    k: int
    width: int
    transposed: bool  # the matrices are stored `[n][k]`, not `[k][n]`
    itemsize: int  # bytes of an element, the same in both layouts

    @property
    def count(self) -> int:
        """Panels of one matrix."""
        return -(-self.n // self.width)

    @property
    def stored_bytes(self) -> int:
        """Bytes of the matrices as they are given."""
        return self.matrices * self.n * self.k * self.itemsize

    @property
    def packed_bytes(self) -> int:
        """Bytes of all panels."""
        return self.matrices * self.count * self.width * self.k * self.itemsize

    def holds(self) -> bool:
        """Whether these are numbers of a layout: read from a file they may be anything."""
        sizes = (self.matrices, self.n, self.k, self.width)
        return all(1 <= s <= 1 << 40 for s in sizes) and self.itemsize in _UNITS

    def unpack(self, address: int, out: Array) -> None:
        """Write the matrices whose panels are at an address to contiguous memory, bit by bit."""
        unit = np.dtype(_UNITS[self.itemsize])
        raw = (ctypes.c_char * self.packed_bytes).from_address(address)
        packed = np.frombuffer(memoryview(raw), unit).reshape(
            self.matrices, self.count, self.k, self.width)
        full = self.n // self.width
        flat = out.reshape(-1).view(unit)
        if self.transposed:
            stored = flat.reshape(self.matrices, self.n, self.k)
            for j in range(self.count):
                lo, hi = j * self.width, min((j + 1) * self.width, self.n)
                stored[:, lo:hi] = packed[:, j, :, : hi - lo].transpose(0, 2, 1)
            return
        stored = flat.reshape(self.matrices, self.k, self.n)
        if full:
            whole = stored[:, :, : full * self.width]
            whole.reshape(self.matrices, self.k, full, self.width)[...] = (
                packed[:, :full].transpose(0, 2, 1, 3))
        if full < self.count:
            stored[:, :, full * self.width :] = packed[:, full, :, : self.n - full * self.width]
