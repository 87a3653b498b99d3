"""The emulated GPU with every access of memory recorded; `tests/cuda/accesses.py` looks at them."""

from __future__ import annotations

import numpy as np

from ..abi import EMULATOR_STRUCTURES
from ..target import CHECKED, Target
from .emulated import EmulatedDevice

_KINDS = {"i64": np.int64, "i32": np.int32}
ACCESS = np.dtype([(name, _KINDS[kind]) for name, kind in EMULATOR_STRUCTURES["access"]])


class CheckedDevice(EmulatedDevice):
    """An emulated GPU that records what kernels do with memory.

    Args:
        seed: the order in which warps and lanes run.
        capacity: accesses that are recorded at most.
    """

    name = "checked"

    def __init__(
        self, target: Target = CHECKED["checked-sm_90a"], seed: int = 0, capacity: int = 1 << 20
    ) -> None:
        self._blocks: list[tuple[int, int]] = []
        super().__init__(target, seed)
        self._records = np.zeros(capacity, ACCESS)
        self.set_state("records", self._records.ctypes.data)
        self.set_state("capacity", capacity)

    def enter(self, address: int, nbytes: int) -> None:
        super().enter(address, nbytes)
        self._blocks.append((address, nbytes))
