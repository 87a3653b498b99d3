"""What follows a product by tensor cores, done in the stores of its tiles: the bits of the ops
alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from cellc_compiler.backends.cuda import epilogues
from cellc_compiler.backends.cuda.kernels import mma, wgmma
from cellc_compiler.backends.cuda.kernels.wgmma import _WgmmaKernel
from cellc_compiler.backends.cuda.rules import tensor_cores
from cellc_compiler.backends.llvm.text import V
from cellc_compiler.driver import compile_program
from cellc_compiler.ir.graph import Builder, Graph, Value
from cellc_compiler.ir.types import TensorType
from cellc_runtime.cuda.emulated import EmulatedDevice
from cellc_runtime.dtypes import DType, bfloat16, float16, float32
from cellc_runtime.executable import Executable
from cellc_runtime.target import CHECKED, Target

from .accesses import CheckedDevice
from .emulation import using
from .tensor_core_programs import SM80, SM90
from .tiled import ARCHITECTURES, assembled, drawn, needs_ptxas, run_on, same

Array = np.ndarray[Any, Any]
Tail = Callable[[Builder, Value, list[Value]], list[Value]]


def bias(b: Builder, product: Value, given: list[Value]) -> list[Value]:
    """A bias, and an activation."""
    return [b.relu(b.add(product, given[0]))]


def residual(b: Builder, product: Value, given: list[Value]) -> list[Value]:
    """A bias, an activation and a residual."""
    return [b.add(b.tanh(b.add(product, given[0])), given[1])]


def widened(b: Builder, product: Value, given: list[Value]) -> list[Value]:
    """A cast to float32, and what it is squared."""
    wide = b.cast(product, dtype=float32)
    return [wide, b.mul(wide, wide)]


TAILS: dict[str, Tail] = {"bias": bias, "residual": residual, "widened": widened}


def graphs(m: int, k: int, n: int, dtype: DType, tail: Tail, whole: bool) -> Graph:
    """A product and what follows; if not `whole`, only what follows a product that is given."""
    graph = Graph("product")
    b = Builder(graph)
    shapes = [(n,), (m, n)]

    def add(shape: tuple[int, ...], name: str) -> Value:
        return graph.add_input(TensorType(shape, dtype), name)

    if whole:
        x, y = add((m, k), "x"), add((k, n), "y")
        product = b.matmul(x, y, transpose_a=False, transpose_b=False)
    else:
        product = add((m, n), "product")
    given = [add(s, f"z{i}") for i, s in enumerate(shapes)]
    graph.outputs = tail(b, product, given)
    return graph


@pytest.fixture(autouse=True)
def fused(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[object]]:
    """The epilogues that were fused."""
    found: list[object] = []
    emit = epilogues.EpiloguePattern.emit

    def noted(self: epilogues.EpiloguePattern, *args: Any) -> None:
        found.append(args)
        emit(self, *args)

    monkeypatch.setattr(epilogues.EpiloguePattern, "emit", noted)
    yield found


def check(m: int, k: int, n: int, tail: Tail, target: Target, dtype: DType = bfloat16,
          seed: int = 0) -> None:
    """The bits of the product alone, and of what follows alone."""
    arrays = drawn([(m, k), (k, n), (n,), (m, n)], dtype, seed)
    alone = Graph("alone")
    b = Builder(alone)
    x, y = (alone.add_input(TensorType(a.shape, dtype), name)
            for a, name in zip(arrays, "xy", strict=False))
    alone.outputs = [b.matmul(x, y, transpose_a=False, transpose_b=False)]
    product = run_on(EmulatedDevice(target, seed), alone, arrays[:2])
    want = run_on(EmulatedDevice(target), graphs(m, k, n, dtype, tail, False),
                  [*product, *arrays[2:]])
    assert same(run_on(EmulatedDevice(target, seed), graphs(m, k, n, dtype, tail, True), arrays),
                want)


@pytest.mark.parametrize("tail", TAILS)
@pytest.mark.parametrize("target", [SM80, SM90], ids=["sm_80", "sm_90a"])
@pytest.mark.parametrize(("m", "k", "n"), [
    (200, 72, 136), (7, 40, 24), (130, 90, 34), (140, 33, 31), (40, 3100, 56), (5, 2049, 3)])
def test_bits(m: int, k: int, n: int, target: Target, tail: str, fused: list[object]) -> None:
    """Whole vectors and odd rows, tails, segments of a long k."""
    check(m, k, n, TAILS[tail], target, float16 if m == 7 else bfloat16)
    assert len(fused) == 1


@pytest.mark.parametrize("tile", wgmma.TILES, ids=str)
@pytest.mark.parametrize("seed", range(2))
def test_tiles_of_wgmma(tile: wgmma.WgmmaTile, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Several tiles in a block, whatever runs first."""
    monkeypatch.setitem(wgmma.UNITS, "sm_90a", 3)
    kernel = wgmma.wgmma_kernel
    monkeypatch.setattr(tensor_cores, "wgmma_kernel", lambda p, target, epilogue=None: kernel(
        p, target, tile, epilogue))
    check(456, 72, 264, residual, SM90, seed=seed)


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("tile", [mma.LARGE, mma.SMALL, mma.FLAT, mma.TALL], ids=str)
def test_tiles_of_mma(tile: mma.MmaTile, whole: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = mma.mma_kernel
    monkeypatch.setattr(tensor_cores, "mma_kernel", lambda p, target, epilogue=None: kernel(
        p, target, whole, tile, epilogue))
    check(136, 72, 152, residual, SM80)


def test_fast_products_of_float32(fused: list[object]) -> None:
    """A bias behind TF32."""
    arrays = drawn([(100, 72), (72, 40), (40,), (100, 40)], float32)
    graph = graphs(100, 72, 40, float32, residual, True)
    exact = arrays[0].astype(np.float64) @ arrays[1]
    for target in (SM80, SM90):
        with using(EmulatedDevice(target)):
            program = compile_program(graph, target, use_cache=False, numerics="fast")
            found = np.asarray(Executable(program).call(arrays)[0].numpy())
        want = np.tanh(exact + arrays[2]) + arrays[3]
        bound = 2.0**-10 * (np.abs(arrays[0]).astype(np.float64) @ np.abs(arrays[1])) + 1e-6
        assert (np.abs(found - want) <= bound).all()
    assert len(fused) == 2


@pytest.mark.parametrize("name", ["checked-sm_80", "checked-sm_90a"])
@pytest.mark.parametrize(("m", "k", "n"), [(128, 96, 128), (70, 90, 34)])
def test_accesses(name: str, m: int, k: int, n: int) -> None:
    """No bank conflict, no race, nothing outside; whole vectors move no sector in vain."""
    arrays = drawn([(m, k), (k, n), (n,), (m, n)], bfloat16)
    device = CheckedDevice(CHECKED[name], capacity=1 << 20)
    run_on(device, graphs(m, k, n, bfloat16, residual, True), arrays)
    seen = device.accesses()
    assert not seen.lost and not seen.outside.any() and not seen.races()
    assert seen.shared_traffic().moved == seen.shared_traffic().least
    if m == 128:
        assert seen.global_traffic().moved == seen.global_traffic().least


@needs_ptxas
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("tail", TAILS)
def test_assembled(architecture: str, tail: str, fused: list[object]) -> None:
    """Nothing is spilled, and ptxas waits for no product."""
    for m, k, n in ((4096, 4096, 4096), (128, 1024, 1024), (512, 8192, 64), (300, 333, 35)):
        graph = graphs(m, k, n, bfloat16, TAILS[tail], True)
        for cubin in assembled(graph, architecture):
            assert (cubin.spill_bytes, cubin.stack, cubin.warnings) == (0, 0, ())
    assert len(fused) == 4


def one_row_below(before: Any, kernel: _WgmmaKernel, matrix: V, row: V, *rest: V) -> None:
    """The epilogue takes another row for its own."""
    before(kernel, matrix, kernel.f.add(row, kernel.f.i32(1)), *rest)


FAULTS: dict[str, tuple[Any, str, Callable[..., Any], Target]] = {
    "the wrong row": (_WgmmaKernel, "finish", one_row_below, SM90),
    "read before all have stored": (
        _WgmmaKernel, "meet", lambda before, kernel: None, SM90),
    "columns exchanged": (
        mma.MmaTiles, "_stage", lambda before, kernel, out, total: before(
            kernel, out, [*total[4:], *total[:4]]), SM80),
    "another swizzle": (
        mma.MmaTiles, "_place", lambda before, kernel, o, stage, line, element: before(
            kernel, o, stage, line, element if o.number < 2 else kernel.f.binary(
                "xor", element, kernel.f.i32(8))), SM80),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_found(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, name, how, target = FAULTS[fault]
    arrays = drawn([(130, 72), (72, 64), (64,), (130, 64)], bfloat16)
    graph = graphs(130, 72, 64, bfloat16, residual, True)
    want = run_on(EmulatedDevice(target), graph, arrays)
    before = getattr(owner, name)
    monkeypatch.setattr(owner, name, lambda self, *args: how(before, self, *args))
    found = [run_on(EmulatedDevice(target, seed), graph, arrays) for seed in range(3)]
    assert not all(same(f, want) for f in found)
