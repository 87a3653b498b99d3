"""Programs of the CUDA back end on the stand-in: what the host's half asks of the driver.

The kernels are those of ptxas (or PTX where there is none); the stand-in launches them and does
nothing, so values are no matter here.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

from cellc_compiler.build import ptxas
from cellc_compiler.driver import compile_program
from cellc_compiler.ir.text import parse_graph
from cellc_runtime import knobs
from cellc_runtime.cuda.device import CudaDevice
from cellc_runtime.cuda.driver import Driver
from cellc_runtime.cuda.modules import is_cubin
from cellc_runtime.program import Program
from cellc_runtime.target import CUDA

from .fake_driver import FakeDriver, GraphExec
from .programs import addresses

NETWORK = """
graph net(%x: float32[64,96] input, %w: float32[96,80] param) {
  %0: float32[64,80] = matmul(%x, %w) {transpose_a=False, transpose_b=False}
  %1: float32[64,80] = softmax(%0) {axis=1}
  %2: float32[80] = reduce_sum(%1) {axes=(0,), keepdims=False}
  return %1, %2
}
"""


def network(target: str) -> Program:
    """The program of a small network."""
    return compile_program(parse_graph(NETWORK), CUDA[target])


def opened(capability: tuple[int, int]) -> tuple[FakeDriver, CudaDevice]:
    """A GPU over the stand-in."""
    fake = FakeDriver(capability=capability)
    return fake, CudaDevice(Driver(fake))


@pytest.mark.skipif(ptxas.find() is None, reason="such a machine has no ptxas")
@pytest.mark.parametrize("target, capability", [
    ("cuda-sm_80", (8, 6)), ("cuda-sm_90a", (9, 0)), ("cuda-sm_100a", (10, 0))])  # fmt: skip
def test_a_network(target: str, capability: tuple[int, int]) -> None:
    program = network(target)
    assert program.kernels and all(map(is_cubin, program.kernels))
    assert "matmul" in " ".join(k.name for k in program.kernels), "errors name the ops"
    program = Program.from_bytes(program.to_bytes())
    fake, device = opened(capability)
    device.check(program)
    code: Any = device.load(program, ())
    memory = [device.allocate(s.nbytes) for s in program.slots]
    arena = device.allocate(program.arena_bytes)
    consts = device.allocate(len(program.constants))
    device.copy(consts.address, program.constants)
    slots = addresses(*(m.address for m in memory))
    for _ in range(5):
        assert code.launch(ctypes.addressof(slots), arena.address, consts.address) == 0
    device.wait()
    first = len(fake.launches) // 2
    assert first >= 2 and fake.launches[:first] == fake.launches[first:]
    assert all(launch.block[0] % 32 == 0 for launch in fake.launches)
    assert code.graphs.launches == 4 and fake.count(GraphExec) == 1
    assert len(fake.done) == 5 * first


def test_without_ptxas_programs_carry_ptx() -> None:
    with knobs.override(ptxas="none"):
        program = network("cuda-sm_80")
    assert program.kernels and not any(map(is_cubin, program.kernels))
    assert all(b".target sm_80" in k.code for k in program.kernels)
    fake, device = opened((12, 0))
    device.check(program)
    assert device.load(program, ()) and fake.log.count("cuModuleLoadDataEx") >= 2


def test_another_gpu_is_told() -> None:
    _, device = opened((12, 0))
    with pytest.raises(ValueError, match=r"compiled for cuda-sm_90a.*sm_120\) and runs cuda-sm_80"):
        device.check(network("cuda-sm_90a"))


def test_arrays_go_there_and_back() -> None:
    """What `np.ascontiguousarray` gives for views and 16-bit floats can be copied."""
    _, device = opened((9, 0))
    given = np.arange(60, dtype=np.float16).reshape(6, 10)[::2].copy()
    memory = device.allocate(given.nbytes)
    device.copy(memory.address, given.reshape(-1).view(np.uint8).data)
    out = np.empty_like(given)
    device.read(memory.address, out.reshape(-1).view(np.uint8).data)
    assert np.array_equal(out, given)
