"""Programs of the CUDA back end on the stand-in: what the host's half asks of the driver.

The kernels are those of ptxas (or PTX where there is none); the stand-in launches them and does
nothing, so values are no matter here.
"""

from __future__ import annotations

import ctypes
import gc
from typing import Any

import numpy as np
import pytest

from cellc_compiler.build import ptxas
from cellc_compiler.driver import compile_program
from cellc_compiler.ir.text import parse_graph
from cellc_runtime import knobs
from cellc_runtime.cuda.device import CudaDevice
from cellc_runtime.cuda.driver import Driver
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
    assert program.kernels and all(k.is_cubin for k in program.kernels)
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
    assert program.kernels and not any(k.is_cubin for k in program.kernels)
    assert all(b".target sm_80" in k.code for k in program.kernels)
    fake, device = opened((12, 0))
    device.check(program)
    assert device.load(program, ()) and fake.log.count("cuModuleLoadDataEx") >= 2


def test_later_gpus_take_the_ptx_beside_a_cubin() -> None:
    """Cubins of sm_80 serve GPUs of that generation; beside them is what others run."""
    program = network("cuda-sm_80")
    assert all(k.is_cubin and b".target sm_80" in k.ptx for k in program.kernels)
    again = Program.from_bytes(program.to_bytes())
    assert again.kernels == program.kernels
    for capability in ((8, 6), (12, 0)):
        _, device = opened(capability)
        device.check(again)
        assert device.load(again, ())
    assert not any(k.ptx for k in network("cuda-sm_90a").kernels)


def test_another_gpu_is_told() -> None:
    _, device = opened((12, 0))
    with pytest.raises(ValueError, match=r"compiled for cuda-sm_90a.*sm_120\) and runs cuda-sm_80"):
        device.check(network("cuda-sm_90a"))


WAITING = """
graph waiting(%x: float32[64,32] input, %n: int64[] input) {
  %0: float32[64,32] = softmax(%x) {axis=1}
  %1: float32[64,32] = cumsum(%0) {axis=0, exclusive=False, reverse=False}
  %2: float32[64,32] = softmax(%1) {axis=0}
  %3: int64[], %4: float32[64,32] = while(%n, %2) {carried=2} [
    graph test(%i: int64[] input, %v: float32[64,32] input) {
      %0: int64[] = constant() {value=lit<int64[]>[5]}
      %1: bool_[] = lt(%i, %0) {}
      return %1
    }
    graph body(%i: int64[] input, %v: float32[64,32] input) {
      %0: int64[] = constant() {value=lit<int64[]>[1]}
      %1: int64[] = add(%i, %0) {}
      %2: float32[64,32] = softmax(%v) {axis=1}
      %3: float32[64,32] = cumsum(%2) {axis=0, exclusive=False, reverse=False}
      %4: float32[64,32] = softmax(%3) {axis=0}
      return %1, %4
    }
  ]
  %5: float32[64,32] = softmax(%4) {axis=1}
  %6: float32[64,32] = cumsum(%5) {axis=0, exclusive=False, reverse=False}
  %7: float32[64,32] = softmax(%6) {axis=0}
  return %7
}
"""


class Trips(FakeDriver):
    """A GPU whose loops make three trips, by what main reads."""

    trips = 3

    def _cuMemcpyAsync(self, to: int, source: int, nbytes: int, stream: int) -> None:
        if nbytes != 1 or self._is_device(to, 1):
            super()._cuMemcpyAsync(to, source, nbytes, stream)
            return
        ctypes.memset(to, int(self.trips > 0), 1)
        self.trips = self.trips - 1 if self.trips else 3


@pytest.mark.skipif(ptxas.find() is None, reason="such a machine has no ptxas")
def test_between_waits_there_is_one_graph_launch() -> None:
    """A program that loops by a value: a trip's kernels are one launch."""
    net = compile_program(parse_graph(WAITING), CUDA["cuda-sm_90a"], use_cache=False)
    fake = Trips()
    device = CudaDevice(Driver(fake))
    code: Any = device.load(net, ())
    memory = [device.allocate(s.nbytes) for s in net.slots]
    arena, consts = device.allocate(net.arena_bytes), device.allocate(len(net.constants))
    slots = addresses(*(m.address for m in memory))

    def asked(code: Any) -> list[str]:
        before = len(fake.log)
        assert code.launch(ctypes.addressof(slots), arena.address, consts.address) == 0
        return [n for n in fake.log[before:] if n in ("cuLaunchKernel", "cuGraphLaunch")]

    first = asked(code)
    assert set(first) == {"cuLaunchKernel"}
    device.wait()
    run = len(fake.done)
    asked(code)
    assert code.parts.captures == 3
    third = asked(code)
    assert third.count("cuGraphLaunch") == 5  # before, three trips, behind
    assert third.count("cuLaunchKernel") == 4  # the tests, of one kernel each
    device.wait()
    assert len(fake.done) == 3 * run, "as many kernels as without graphs"
    others = addresses(*(m.address for m in [*memory[:-1], device.allocate(memory[-1].nbytes)]))
    with code.parts.of_call(ctypes.addressof(others), arena.address, consts.address):
        assert "cuGraphLaunch" not in asked(code), "two calls at once: kernel by kernel"
    with knobs.override(gpu_graphs=False):
        plain: Any = device.load(net, ())
    assert plain.parts is None
    del code, plain
    gc.collect()
    device.wait()
    assert fake.count(GraphExec) == 0


def test_arrays_go_there_and_back() -> None:
    """What `np.ascontiguousarray` gives for views and 16-bit floats can be copied."""
    _, device = opened((9, 0))
    given = np.arange(60, dtype=np.float16).reshape(6, 10)[::2].copy()
    memory = device.allocate(given.nbytes)
    device.copy(memory.address, given.reshape(-1).view(np.uint8).data)
    out = np.empty_like(given)
    device.read(memory.address, out.reshape(-1).view(np.uint8).data)
    assert np.array_equal(out, given)
