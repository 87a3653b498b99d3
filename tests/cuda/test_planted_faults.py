"""Faults planted in the kernels of nests are found: by an error, by an access, or by other bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cellc_compiler.backends.cuda import nests
from cellc_compiler.backends.cuda.nests import blocks, rows
from cellc_compiler.backends.cuda.writer import GpuFunction
from cellc_compiler.backends.llvm import reduction
from cellc_compiler.backends.llvm.math.lanes import X
from cellc_compiler.backends.llvm.text import V
from cellc_compiler.backends.plain.writer import PlainFunction
from cellc_compiler.driver import compile_program
from cellc_compiler.ir.text import parse_graph
from cellc_compiler.loops import build, order
from cellc_compiler.passes import split
from cellc_runtime.executable import Executable

from ..modes.law import bits
from .accesses import CheckedDevice
from .emulation import CPU, arrays_for, run_fresh

LONG = """
graph long(%x: float32[8,2048] input) {
  %0: float32[8,2048] = softmax(%x) {axis=1}
  return %0
}"""
ROWS = """
graph rows(%x: float32[9,100] input) {
  %0: float32[9,100] = softmax(%x) {axis=1}
  return %0
}"""
WIDE = """
graph wide(%x: float32[9,1500] input) {
  %0: float32[9,1500] = softmax(%x) {axis=1}
  return %0
}"""
HEAVY = "graph heavy(%x: float32[9,500] input) {\n  %0: float32[9,500] = tanh(%x) {}\n" + "".join(
    f"  %{i + 1}: float32[9,500] = {('mul', 'add')[i % 2]}(%{i}, %x) {{}}\n" for i in range(96)) + (
    "  %97: float32[9,500] = softmax(%96) {axis=1}\n  return %97\n}")
"""Rows that do not stay in registers, though they are short."""
EXTREMES = """
graph extremes(%x: bfloat16[3,1200] input, %y: float64[2,777] input) {
  %0: bfloat16[3,1200] = softmax(%x) {axis=1}
  %1: int64[2] = argmax(%y) {axis=1, keepdims=False}
  %2: float64[2] = reduce_min(%y) {axes=(1,), keepdims=False}
  return %0, %1, %2
}"""
IMAGES = """
graph images(%x: float32[16,2,7,19] input) {
  %0: float32[1,2,1,1] = reduce_sum(%x) {axes=(0, 2, 3), keepdims=True}
  %1: float32[16,2,7,19] = sub(%x, %0) {}
  %2: float32[16,2,7,19] = mul(%1, %1) {}
  %3: float32[1,2,1,1] = reduce_sum(%2) {axes=(0, 2, 3), keepdims=True}
  %4: float32[16,2,7,19] = div(%1, %3) {}
  return %4
}"""
"""Rows of several axes, of which the last is short."""
ODD = """
graph odd(%x: float32[9,103] input) {
  %0: float32[9,103] = exp(%x) {}
  return %0
}"""
CHAIN = """
graph chain(%x: float32[9,104] input, %y: float32[104] input) {
  %0: float32[9,104] = mul(%x, %y) {}
  %1: float32[9,104] = exp(%0) {}
  return %1
}"""
APART = """
graph apart(%x: float32[16,9] input, %y: float32[9,16] input) {
  %0: float32[9,16] = transpose(%x) {perm=(1, 0)}
  %1: float32[9,16] = add(%0, %y) {}
  return %1
}"""
BLOCKS = """
graph blocks(%x: float32[512,128] input, %g: float32[512,128] input) {
  %0: float32[512,128] = softmax(%x) {axis=1}
  %1: float32[512,128] = mul(%0, %g) {}
  %2: float32[128] = reduce_sum(%1) {axes=(0,), keepdims=False}
  return %0, %2
}"""


def _without_barrier(f: GpuFunction) -> None:
    f.collective = True


def _no_bound(f: Any, test: X) -> Any:
    return _GIVEN(f, test.const(True) if "ult" in f.lines[-1] else test)


_GIVEN, _FROM_LANE = PlainFunction.given, GpuFunction.from_lane
_STEPS, _SHARED, _PLACE = rows.Threads.steps, GpuFunction.shared_memory, nests.NestKernel.place
_ROOMS = blocks.Blocks._rooms
_SCRATCH, _FOLDED = rows.Warps.scratch_of, rows.Warps.folded


def _one_further(self: Any, extent: int) -> Any:
    """The guard of the last elements lets one more pass."""
    for found, guard in _STEPS(self, extent):
        yield found, guard if guard is None or not extent % self.stride else \
            self.lane_number().cmp("slt", extent % self.stride + 1)


def _one_less(self: Any, extent: int) -> Any:
    for found, guard in _STEPS(self, extent):
        yield found, guard if guard is None or not extent % self.stride else \
            self.lane_number().cmp("slt", extent % self.stride - 1)


def _wrong_lane(f: GpuFunction, value: V, lane: V) -> V:
    return _FROM_LANE(f, value, f.add(lane, V("i32", "1")))


def _some_lanes(f: GpuFunction, value: V, lane: V) -> V:
    """Only half of the warp exchanges."""
    held = f.var(X(f, value))
    with f.given(X(f, f.binary("and", f.thread(), V("i32", "31"))).cmp("slt", 16)):
        held.set(X(f, _FROM_LANE(f, value, lane)))
    return held.get().v


def _half_a_fold(self: Any, reduce: Any, values: list[V], chains: int) -> list[V]:
    return _FOLDED(self, reduce, values, chains // 2)


def _same_place(f: GpuFunction, nbytes: int) -> V:
    """All of shared memory begins at its beginning."""
    held, f.shared = f.shared, 0
    at = _SHARED(f, nbytes)
    f.shared = max(held, f.shared)
    return at


def _one_for_all(self: Any, buffer: Any) -> V:
    """Warps keep their rows in one place."""
    return self.f.shared_memory(-(-buffer.elements * 4 // 16) * 16 * 4)


def _one_room(self: Any) -> None:
    """Chunks lie in the same room, one after the other."""
    _ROOMS(self)
    self.room_bytes = 0


def _rows_twice(self: Any, variables: Any, number: V) -> None:
    """Two threads do the same row."""
    _PLACE(self, variables, self.f.binary("and", number, V("i32", "-2")))


def _other_halves(self: Any, reduce: Any, values: list[V], chains: int) -> list[V]:
    """Neighbours first."""
    f, half = self.f, 1
    while half < chains:
        theirs = [f.from_lane(v, f.binary("xor", self.lane, V("i32", str(half)))) for v in values]
        values = reduction.combine(f, reduce.kind, reduce.value.dtype, values, theirs)
        half *= 2
    return [f.from_lane(v, V("i32", "0")) for v in values]


def _four_lanes(nest: Any) -> int:
    return 4


def _always(*args: Any) -> bool:
    return True


def _not_at_all(*args: Any) -> None:
    """Nothing."""


FAULTS: dict[str, tuple[str, Any, str, Any]] = {
    "a barrier left out": (LONG, GpuFunction, "barrier", _without_barrier),
    "no bound of the threads": (ODD, PlainFunction, "given", _no_bound),
    "a mask one too wide": (ODD.replace("exp(%x) {}", "softmax(%x) {axis=1}"), rows.Threads,
                            "steps", _one_further),
    "a mask one too narrow": (ROWS, rows.Threads, "steps", _one_less),
    "a value of the wrong lane": (ROWS, GpuFunction, "from_lane", _wrong_lane),
    "an exchange by half of a warp": (ROWS, GpuFunction, "from_lane", _some_lanes),
    "a fold that leaves half out": (ROWS, rows.Warps, "folded", _half_a_fold),
    "shared memory given twice": (LONG, GpuFunction, "shared_memory", _same_place),
    "one scratch for all warps": (HEAVY, rows.Warps, "scratch_of", _one_for_all),
    "rows done twice": (ROWS, nests.NestKernel, "place", _rows_twice),
    "halves folded in another order": (WIDE, rows.Warps, "folded", _other_halves),
    "vectors that leave a rest": (ODD, nests, "vector_lanes", _four_lanes),
    "vectors where elements are apart": (APART, nests.NestKernel, "_is_vector", _always),
    "sums that begin anywhere": (BLOCKS, rows.Warps, "clear", _not_at_all),
    "one room for two chunks": (LONG, blocks.Blocks, "_rooms", _one_room),
    "chunks that are taken to be whole": (IMAGES, blocks.Slices, "is_whole", True),
}


@pytest.fixture(autouse=True)
def _short_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are long, and sums over rows cut into blocks, with fewer elements than else: what many
    do is seen with few."""
    for module in (split, build):
        monkeypatch.setattr(module, "BLOCKED_ELEMENTS", 1 << 14)
    monkeypatch.setattr(blocks, "_CHUNK_BYTES", 512)
    monkeypatch.setattr(order, "PART", 512)
    monkeypatch.setattr(order, "LONG_ROW", 2048)


def _found(text: str, seed: int) -> list[str]:
    """What tells of a fault."""
    rng = np.random.default_rng(1)
    arrays = arrays_for(text, lambda shape: rng.normal(size=shape))
    program = compile_program(parse_graph(text), CPU, use_cache=False)
    want = Executable(program).call(arrays)
    device = CheckedDevice(seed=seed)
    try:
        got = run_fresh(device, text, arrays)
    except RuntimeError as error:
        return [str(error)]
    accesses = device.accesses()
    assert not accesses.lost
    told = accesses.faults()
    told += ["other bits" for a, b in zip(got, want, strict=True) if bits(a) != bits(b)]
    return told


@pytest.mark.parametrize("text", [
    LONG, ROWS, WIDE, HEAVY, EXTREMES, IMAGES, ODD, CHAIN, APART, BLOCKS])
def test_right_kernels(text: str) -> None:
    """Nothing is found where nothing is wrong."""
    assert not _found(text, 0)
    assert not _found(text, 3)


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under one of a few orders of threads."""
    text, where, name, wrong = FAULTS[fault]
    assert not _found(text, 0)
    monkeypatch.setattr(where, name, wrong)
    assert any(_found(text, seed) for seed in range(4)), fault
