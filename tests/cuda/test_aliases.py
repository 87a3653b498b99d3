"""An argument in the memory of what the program writes is read as it was before the call."""

from __future__ import annotations

import numpy as np
import pytest

from cellc_compiler.driver import compile_program
from cellc_compiler.ir.text import parse_graph
from cellc_runtime.cuda.emulated import EmulatedDevice
from cellc_runtime.device_array import DeviceArray
from cellc_runtime.executable import Executable

from .emulation import using

STEP = """
graph step(%x: float32[64] input, %p: float32[64] param) {
  %0: float32[64] = flip(%x) {axes=(0,)}
  %1: float32[64] = add(%0, %p) {}
  %2: float32[64] = add(%x, %1) {}
  return %2
  update %p = %1
}"""


@pytest.mark.parametrize("first", [0, 16])
def test_an_argument_that_is_a_parameter(first: int) -> None:
    """All of it, or bytes from further on, whoever holds the memory."""
    device = EmulatedDevice()
    (target,) = device.targets.values()
    found = []
    with using(device):
        for alias in (False, True):
            executable = Executable(compile_program(parse_graph(STEP), target))
            room = device.allocate(4 * 128)
            p = DeviceArray.over(device, (64,), np.dtype(np.float32), room, room.address)
            p.fill(np.arange(64, dtype=np.float32))
            at = room.address + 4 * first
            x = DeviceArray.over(
                device, (64,), np.dtype(np.float32),
                device.adopt(room, at, 4 * 64), at)
            executable.bind([p])
            (out,) = executable.call([x if alias else x.copy()])
            found.append((out.numpy(), p.numpy()))
    for plain, aliased in zip(*found, strict=True):
        np.testing.assert_array_equal(plain, aliased)
