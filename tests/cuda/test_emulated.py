"""The CUDA back end under the emulator: the CPU's bits, and nothing that a GPU would not do."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc_compiler.backends.cuda import emulator
from cellc_compiler.driver import compile_graph, compile_program
from cellc_compiler.ir.op import Op
from cellc_compiler.ir.text import parse_graph
from cellc_runtime import knobs
from cellc_runtime.abi import PARTS
from cellc_runtime.cuda import emulated
from cellc_runtime.cuda.emulated import EmulatedDevice
from cellc_runtime.target import EMULATED

from ..backends.test_scalar import BLOCKED, LOOPS
from ..modes.law import bits
from ..ops.test_matrix import batch_of, every_op, fused
from ..samples.networks import NETWORKS, Sample
from .accesses import CheckedDevice
from .emulation import CPU, arrays_for, run_fresh, run_on, using
from .test_compiled import WAITING

Array = np.ndarray[Any, Any]

OPS = [p for p in every_op() if p.id not in BLOCKED]


@pytest.mark.parametrize("op", OPS)
def test_ops(op: Op) -> None:
    """Every sample, fused between other ops, gives the CPU's bits in any order of threads."""
    batch = batch_of(op)
    arrays = [np.asarray(True), *(a for case in batch for a in case.arrays)]
    want = compile_graph(fused(batch), CPU)(arrays)
    for seed in (0, 5):
        found = run_on(EmulatedDevice(seed=seed), fused(batch), arrays)
        for mine, theirs in zip(found, want, strict=True):
            assert bits(mine) == bits(theirs)


@pytest.mark.parametrize("op", OPS)
def test_accesses(op: Op) -> None:
    """No access outside of memory, none that is not aligned, no race."""
    batch = batch_of(op)
    device = CheckedDevice(seed=3)
    run_on(device, fused(batch), [np.asarray(True), *(a for case in batch for a in case.arrays)])
    accesses = device.accesses()
    assert len(accesses.records)
    assert not accesses.lost
    assert not accesses.faults()


@pytest.fixture
def gpu() -> Iterator[None]:
    """"GPU" is the emulated one."""
    with knobs.override(gpu="emulated"):
        yield
    ms.set_context(device_target="CPU")


@pytest.mark.usefixtures("gpu")
@pytest.mark.parametrize("mode", [ms.GRAPH_MODE, ms.PYNATIVE_MODE])
@pytest.mark.parametrize("name", NETWORKS)
def test_networks(name: str, mode: int) -> None:
    """Inference and a training step of the sample networks: the CPU's bits."""
    sample = NETWORKS[name]
    want = _results(sample, "CPU", ms.GRAPH_MODE)
    found = _results(sample, "GPU", mode)
    assert len(found) == len(want) > 2
    assert [bits(a) for a in found] == [bits(a) for a in want]


@pytest.mark.usefixtures("gpu")
def test_numerics_of_the_context() -> None:
    """Under `"fast"` a network's products and convolutions of float32 are those of TF32."""
    ms.set_seed(1)
    net = ms.nn.SequentialCell(ms.nn.Conv2d(4, 16, 3), ms.nn.Flatten(), ms.nn.Dense(16 * 36, 24))
    x = ms.Tensor(np.random.default_rng(0).normal(size=(3, 4, 6, 6)).astype(np.float32))
    found = {}
    for numerics, device in (("strict", "CPU"), ("strict", "GPU"), ("fast", "GPU")):
        ms.set_context(mode=ms.GRAPH_MODE, device_target=device, numerics=numerics)
        found[numerics, device] = net(x).asnumpy()
    ms.set_context(numerics="strict")
    strict, fast = found["strict", "GPU"], found["fast", "GPU"]
    assert bits(strict) == bits(found["strict", "CPU"]) != bits(fast)
    np.testing.assert_allclose(fast, strict, atol=2.0**-8 * np.abs(strict).max())


def _results(sample: Sample, device: str, mode: int) -> list[Array]:
    """Results, those of a training step, and the parameters behind it."""
    ms.set_context(mode=mode, device_target=device)
    ms.set_seed(1)
    out = sample.make().set_train(False)(*sample.input())
    ms.set_seed(1)
    step = sample.train_step(sample.make())
    loss = step(*sample.batch())
    tensors = [*_flat(out), *_flat(loss), *step.get_parameters()]
    return [t.asnumpy() for t in tensors]


def _flat(value: Any) -> list[Any]:
    return [t for v in value for t in _flat(v)] if isinstance(value, (tuple, list)) else [value]


def test_control_flow() -> None:
    """Loops whose ends are known when they run."""
    arrays = [np.arange(12, dtype=np.float32).reshape(4, 3), np.asarray(37)]
    want = compile_graph(parse_graph(LOOPS), CPU)(arrays)
    found = run_fresh(EmulatedDevice(), LOOPS, arrays)
    assert [bits(a) for a in found] == [bits(b) for b in want]


def test_parts() -> None:
    """What is launched between two waits is in a function of its own: the CPU's bits."""
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=(64, 32)).astype(np.float32), np.asarray(2)]
    want = compile_graph(parse_graph(WAITING), CPU)(arrays)
    with using(EmulatedDevice()) as device:
        program = compile_program(parse_graph(WAITING), next(iter(device.targets.values())))
        assert PARTS in program.image.symbols
    found = run_fresh(EmulatedDevice(), WAITING, arrays)
    assert [bits(a) for a in found] == [bits(b) for b in want]


COUNTED = """
graph counted(%x: float32[4,3] input) {
  %0: float32[3] = constant() {value=lit<float32[3]>[0.0e+00, 1.0e+00, 2.0e+00]}
  %1: float32[3], %2: float32[4,3] = scan(%0, %x) {carried=1, sequences=1, length=4, reverse=False, limited=False} [
    graph body(%c: float32[3] input, %r: float32[3] input, %i: int64[] input) {
      %0: float32[] = cast(%i) {dtype=dtype.float32}
      %1: float32[3] = mul(%r, %0) {}
      %2: float32[3] = add(%c, %1) {}
      return %2, %c
    }
  ]
  return %1, %2
}
"""  # noqa: E501


@pytest.mark.parametrize("reverse", [False, True])
def test_counters(reverse: bool) -> None:
    """The device counts trips, on each call anew."""
    text = COUNTED.replace("reverse=False", f"reverse={reverse}")
    x = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)
    want = compile_graph(parse_graph(text), CPU)([x])
    with using(EmulatedDevice()) as device:
        run = compile_graph(parse_graph(text), next(iter(device.targets.values())))
        for _ in range(2):
            assert [bits(a) for a in run([x])] == [bits(b) for b in want]


# --- what requests move ---------------------------------------------------------------------------

IDEAL = {
    "chain": """
graph chain(%x: float32[64,256] input, %y: float32[256] input) {
  %0: float32[64,256] = mul(%x, %y) {}
  %1: float32[64,256] = exp(%0) {}
  %2: float32[64,256] = add(%1, %x) {}
  return %2
}""",
    "halves": """
graph halves(%x: float16[64,256] input, %y: float16[64,256] input) {
  %0: float16[64,256] = mul(%x, %y) {}
  %1: float16[64,256] = tanh(%0) {}
  return %1
}""",
    "softmax": """
graph rows(%x: float32[32,512] input) {
  %0: float32[32,512] = softmax(%x) {axis=1}
  return %0
}""",
    "long rows": """
graph rows(%x: float32[2,65536] input) {
  %0: float32[2,65536] = softmax(%x) {axis=1}
  return %0
}""",
    "columns": """
graph columns(%x: float32[48,256] input) {
  %0: float32[256] = reduce_sum(%x) {axes=(0,), keepdims=False}
  return %0
}""",
}


@pytest.mark.parametrize("name", IDEAL)
def test_sectors(name: str) -> None:
    """Rows that begin at sectors: each request moves what its bytes need and nothing more."""
    rng = np.random.default_rng(0)
    arrays = arrays_for(IDEAL[name], lambda shape: rng.normal(size=shape))
    device = CheckedDevice()
    run_fresh(device, IDEAL[name], arrays)
    accesses = device.accesses()
    assert not accesses.lost
    assert not accesses.faults()
    moved, shared = accesses.global_traffic(), accesses.shared_traffic()
    assert moved.moved == moved.least > 0
    assert shared.moved == shared.least


def test_a_target_that_the_device_is_not() -> None:
    """Both are named."""
    program = compile_program(parse_graph(IDEAL["chain"]), EMULATED["emulated-sm_80"])
    with pytest.raises(ValueError, match=r"'chain' is compiled for emulated-sm_80 .* runs "
                                         r"emulated-sm_90a"):
        EmulatedDevice().check(program)


def test_each_reason_to_stop_is_told() -> None:
    texts = [p.read_text() for p in Path(emulator.__file__).parent.iterdir() if p.is_file()]
    stops = {int(n) for text in texts
             for n in re.findall(r"fail\([^\n]*launch, (\d+)\)", text)}
    assert len(stops) > 9 and stops <= set(emulated._ERRORS)


def test_memory_is_counted_and_limited() -> None:
    device = EmulatedDevice(limit=1 << 20)
    block = device.allocate(1 << 19)
    with pytest.raises(MemoryError, match=r"no memory for 1048576 bytes more: 524288 of 1048576"):
        device.allocate(1 << 20)
    assert device.statistics().allocated == 1 << 19
    del block
    assert device.statistics().allocated == 0
    assert device.statistics().peak_allocated == 1 << 19


def test_the_host_cannot_be_read_as_the_device() -> None:
    """Memory of an array is not the device's."""
    device = EmulatedDevice()
    array = np.zeros(4, np.float32)
    with pytest.raises(RuntimeError, match=r"16 bytes at .* are not in the memory"):
        device.read(array.ctypes.data, memoryview(bytearray(16)))
