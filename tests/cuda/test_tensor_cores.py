"""Products by tensor cores on emulated GPUs: the emulator's order of sums to the bit, any shape,
any order of threads and copies; and code that ptxas takes without spills."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from itertools import product
from operator import attrgetter
from typing import Any

import numpy as np
import pytest

from cellc_compiler.backends.cuda.code import KernelCode
from cellc_compiler.backends.cuda.kernels import mma, wgmma
from cellc_compiler.backends.cuda.kernels.tensor_core_tiles import TensorCoreProduct, added_segments
from cellc_compiler.backends.cuda.machine import GpuMachine
from cellc_compiler.backends.cuda.rules import tensor_cores
from cellc_compiler.backends.cuda.tensor_cores import TensorCoreFunction
from cellc_compiler.build import ptxas
from cellc_compiler.build.emit import assembly
from cellc_compiler.driver import compile_program
from cellc_compiler.ir.graph import Graph
from cellc_runtime import dtypes as dt
from cellc_runtime.cuda.device import CudaDevice
from cellc_runtime.cuda.driver import Driver
from cellc_runtime.records import replace
from cellc_runtime.target import CHECKED, CUDA, Target

from .accesses import CheckedDevice
from .fake_driver import FakeDriver
from .tensor_core_programs import (
    BF16,
    F16,
    F32,
    SM80,
    SM90,
    chains,
    differing,
    matmul_graph,
    operands,
    oriented,
    run,
)

Shape = tuple[int, ...]
needs_ptxas = pytest.mark.skipif(ptxas.find() is None, reason="such a machine has no ptxas")
NAME = attrgetter("name")
TURNS = list(product((False, True), repeat=2))


def matrices(m: int, k: int, n: int, turns: tuple[bool, bool]) -> tuple[Shape, Shape]:
    """Shapes of the operands."""
    return (k, m) if turns[0] else (m, k), (n, k) if turns[1] else (k, n)


def check(x: Shape, y: Shape, turns: tuple[bool, bool], dtype: np.dtype[Any], target: Target,
          seed: int = 0) -> None:
    """The emulator's bits, near the exact product."""
    graph, arrays = matmul_graph(x, y, *turns, dtype), operands(x, y, dtype)
    out = run(graph, arrays, target, seed)
    assert differing(out, chains(graph, arrays)) == 0
    a, b = oriented(graph, arrays)
    bound = a.shape[-1] * 2.0**-23 * (np.abs(a) @ np.abs(b)) + np.abs(a @ b) * (
        2.0**-8 if dtype == BF16 else 2.0**-10) + 2.0**-24
    if dtype == F32:
        bound += 2.0**-10 * (np.abs(a) @ np.abs(b))
    assert (np.abs(out.astype(np.float64) - a @ b) <= bound).all()


def plan_codes(graph: Graph, target: Target) -> list[KernelCode]:
    """The kernels of a product."""
    plan = tensor_cores.tensor_core_plan(graph.nodes[0], target)
    assert plan is not None
    return [step.kernel.code for step in plan.steps]


# --- shapes -------------------------------------------------------------------------------------


@pytest.mark.parametrize("turns", TURNS)
@pytest.mark.parametrize("target", [SM80, SM90], ids=NAME)
@pytest.mark.parametrize(("m", "k", "n"), [
    (1, 1, 1), (1, 40, 3), (17, 16, 1), (33, 7, 65), (70, 90, 34), (128, 64, 128), (200, 136, 264),
    (31, 100, 140), (140, 100, 31), (8, 8, 8), (264, 520, 72)])
def test_bits(m: int, k: int, n: int, turns: tuple[bool, bool], target: Target) -> None:
    """Tails in every dimension; rows that are multiples of 8, 4, 2 and 1 elements."""
    check(*matrices(m, k, n, turns), turns, BF16 if turns[0] else F16, target)


@pytest.mark.parametrize("target", [SM80, SM90], ids=NAME)
@pytest.mark.parametrize(("x", "y", "turns"), [
    ((3, 40, 24), (24, 48), (False, False)), ((3, 24, 40), (24, 48), (True, False)),
    ((40, 24), (3, 24, 48), (False, False)), ((2, 1, 40, 24), (3, 48, 24), (False, True)),
    ((2, 3, 40, 24), (2, 3, 24, 48), (False, False)), ((1, 40, 24), (1, 24, 48), (False, False)),
    ((2, 1, 16, 5), (1, 3, 5, 7), (False, False))])
def test_batches(x: Shape, y: Shape, turns: tuple[bool, bool], target: Target) -> None:
    """Broadcast either way, or folded into rows."""
    check(x, y, turns, BF16, target)


@pytest.mark.parametrize("target", [SM80, SM90], ids=NAME)
@pytest.mark.parametrize(("m", "k", "n", "turns"), [
    (72, 4096, 24, (True, False)), (40, 3100, 56, (False, False)), (16, 2056, 8, (False, True)),
    (5, 2049, 3, (False, False))])
def test_long_sums_are_cut(m: int, k: int, n: int, turns: tuple[bool, bool], target: Target
                           ) -> None:
    """Few tiles and a long k: segments beside each other, the last one shorter, added in order."""
    x, y = matrices(m, k, n, turns)
    codes = plan_codes(matmul_graph(x, y, *turns, BF16), target)
    assert len(codes) == 2 and codes[0].blocks > 1
    check(x, y, turns, BF16, target)


def test_special_values() -> None:
    """Infinities, NaN, subnormal numbers and sums that overflow the type of the result."""
    values = np.array([np.inf, np.nan, 2.0**-24, 60000.0, -2.0**-15, 0.0, -0.0, 1.0], F16)
    x, y = np.ones((16, 32), F16), np.ones((32, 16), F16)
    for i, v in enumerate(values):
        x[i, i] = v
        x[8 + i] = v
    graph = matmul_graph(x.shape, y.shape, False, False, F16)
    with np.errstate(all="ignore"):
        want = chains(graph, [x, y])
    for target in (SM80, SM90):
        np.testing.assert_array_equal(run(graph, [x, y], target), want)


def test_what_is_not_for_tensor_cores() -> None:
    """Empty operands have no plan here; the graph has its result all the same."""
    graph = matmul_graph((3, 0), (0, 4), False, False, BF16)
    assert tensor_cores.tensor_core_plan(graph.nodes[0], SM90) is None
    out = run(graph, [np.zeros((3, 0), BF16), np.zeros((0, 4), BF16)], SM90)
    assert (out.astype(np.float32) == 0).all()


# --- kernels ------------------------------------------------------------------------------------


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("tile", [mma.LARGE, mma.SMALL, mma.FLAT, mma.TALL], ids=str)
def test_tiles_of_mma(tile: mma.MmaTile, whole: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each tile, and the kernel for pointers that are not aligned, gives the same bits."""
    monkeypatch.setattr(tensor_cores, "mma_kernel",
                        lambda p, target, epilogue=None: mma.mma_kernel(
                            p, target, whole, tile, epilogue))
    for turns in TURNS:
        check(*matrices(136, 72, 152, turns), turns, BF16, SM80)


@pytest.fixture
def few_units(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Three blocks do all tiles."""
    monkeypatch.setitem(wgmma.UNITS, "sm_90a", 3)
    yield


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("tile", wgmma.TILES, ids=str)
@pytest.mark.usefixtures("few_units")
def test_tiles_of_wgmma(tile: wgmma.WgmmaTile, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each tile, several of them in a block, whatever runs first."""
    monkeypatch.setattr(tensor_cores, "wgmma_kernel",
                        lambda p, target, epilogue=None: wgmma.wgmma_kernel(
                            p, target, tile, epilogue))
    for turns in TURNS:
        check(*matrices(456, 456, 264, turns), turns, BF16, SM90, seed)


@pytest.mark.parametrize("seed", range(1, 5))
def test_any_order_of_mma(seed: int) -> None:
    check((200, 200), (200, 136), (False, False), BF16, SM80, seed)


def test_which_kernel() -> None:
    """`wgmma` where there is one and rows are multiples of 16 bytes."""
    def maps(m: int, k: int, n: int, target: Target) -> int:
        x, y = matrices(m, k, n, (False, False))
        return len(plan_codes(matmul_graph(x, y, False, False, BF16), target)[0].maps)

    assert maps(64, 64, 64, SM90) == 3 and maps(1, 64, 64, SM90) == 3
    assert maps(64, 68, 64, SM90) == 0 and maps(64, 64, 68, SM90) == 0
    assert maps(64, 64, 64, SM80) == 0


def test_order_does_not_follow_from_the_kernel() -> None:
    """An architecture's kernels cut k alike: what follows from a shape is the same for both."""
    for m, k, n in ((128, 8192, 128), (4096, 8192, 4096), (128, 1000, 128), (64, 65536, 64)):
        p = TensorCoreProduct(m, n, k, (), (), (), False, False, dt.bfloat16)
        assert p.segment % 64 == 0 and p.segment * p.segments >= k > p.segment * (p.segments - 1)
        assert p.segments == 1 or p.segment >= 1024
    assert TensorCoreProduct(128, 128, 8192, (), (), (), False, False, dt.bfloat16).segments == 8
    assert TensorCoreProduct(4096, 4096, 8192, (), (), (), False, False, dt.bfloat16).segments == 1


@pytest.mark.parametrize("wrong", [
    {"box": (64, 257)}, {"box": (128, 64)}, {"strides": (136, 1 << 16)}, {"sizes": (0, 8, 1)}])
def test_a_map_that_cannot_be_made(wrong: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel is not launched, and the program says that it failed."""
    def kernel(p: TensorCoreProduct, target: Target, epilogue: None = None) -> KernelCode:
        code = wgmma.wgmma_kernel(p, target)
        assert code is not None
        return replace(code, maps=(replace(code.maps[0], **wrong), *code.maps[1:]))

    monkeypatch.setattr(tensor_cores, "wgmma_kernel", kernel)
    graph = matmul_graph((64, 64), (64, 64), False, False, BF16)
    with pytest.raises(RuntimeError, match="emulated took a launch"):
        run(graph, operands((64, 64), (64, 64), BF16), SM90)


# --- shared memory ------------------------------------------------------------------------------


@pytest.mark.parametrize("turns", TURNS)
@pytest.mark.parametrize(("name", "dtype"), [
    ("checked-sm_80", BF16), ("checked-sm_90a", BF16), ("checked-sm_80", F32)])
@pytest.mark.usefixtures("tf32")
def test_no_bank_conflicts_and_no_races(name: str, dtype: np.dtype[Any], turns: tuple[bool, bool]
                                        ) -> None:
    """Each access of shared memory takes as many turns as its bytes need; none races."""
    x, y = matrices(128, 96, 128, turns)
    graph, arrays = matmul_graph(x, y, *turns, dtype), operands(x, y, dtype)
    device = CheckedDevice(CHECKED[name], capacity=1 << 20)
    out = run(graph, arrays, CHECKED[name], device=device)
    assert differing(out, chains(graph, arrays)) == 0
    seen = device.accesses()
    traffic = seen.shared_traffic()
    assert traffic.requests > 100 and traffic.moved == traffic.least
    assert not seen.races()


# --- instructions -------------------------------------------------------------------------------


@pytest.mark.parametrize("turns", TURNS)
@pytest.mark.parametrize(("m", "k", "n"), [
    (1, 1, 2), (70, 90, 34), (200, 136, 264), (31, 100, 140), (140, 100, 31), (17, 33, 65)])
@pytest.mark.usefixtures("tf32")
def test_tf32(m: int, k: int, n: int, turns: tuple[bool, bool]) -> None:
    """Products of float32 whose operands are rounded to TF32."""
    check(*matrices(m, k, n, turns), turns, F32, SM80)


@pytest.fixture
def tf32(monkeypatch: pytest.MonkeyPatch) -> None:
    """Float32 may be rounded."""
    monkeypatch.setattr(GpuMachine, "plan", lambda machine, node: tensor_cores.tensor_core_plan(
        node, machine.gpu, fast=True))


@pytest.mark.parametrize("tile", [mma.LARGE, mma.SMALL, mma.FLAT, mma.TALL], ids=str)
@pytest.mark.usefixtures("tf32")
def test_tiles_of_tf32(tile: mma.MmaTile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensor_cores, "mma_kernel",
                        lambda p, target, epilogue=None: mma.mma_kernel(
                            p, target, True, tile, epilogue))
    for turns in TURNS:
        check(*matrices(136, 72, 152, turns), turns, F32, SM80)


@pytest.mark.parametrize("turns", TURNS)
@pytest.mark.parametrize(("m", "k", "n"), [(200, 136, 264), (70, 92, 36), (40, 3100, 56)])
@pytest.mark.usefixtures("tf32")
def test_tf32_of_wgmma(m: int, k: int, n: int, turns: tuple[bool, bool],
                       monkeypatch: pytest.MonkeyPatch) -> None:
    """Operands that do not lie along k are turned before."""
    monkeypatch.setattr(tensor_cores, "LEAST_TURNED", 1)
    x, y = matrices(m, k, n, turns)
    graph, arrays = matmul_graph(x, y, *turns, F32), operands(x, y, F32)
    plan = tensor_cores.tensor_core_plan(graph.nodes[0], SM90, fast=True)
    assert plan is not None
    maps = [step.kernel.code for step in plan.steps if step.kernel.code.maps]
    assert len(maps) == 1 and len(plan.steps) == 1 + turns[0] + (not turns[1]) + (k > 2048)
    for seed in range(2):
        out = run(graph, arrays, SM90, seed)
        assert differing(out, chains(graph, arrays, truncated=True)) == 0
    a, b = oriented(graph, arrays)
    assert (np.abs(out - a @ b) <= 2.0**-9 * (np.abs(a) @ np.abs(b))).all()


@pytest.mark.usefixtures("tf32")
def test_what_tf32_makes_of_special_values() -> None:
    x, y = np.ones((16, 16), np.float32), np.eye(16, dtype=np.float32)
    x[0, :8] = [np.inf, -np.inf, np.nan, 1 + 2.0**-11, 1 + 2.0**-12, 1e-40, 3.4e38, -0.0]
    x.view(np.uint32)[1, 0] = 0x7FFFFFFF
    graph = matmul_graph(x.shape, y.shape, False, False, F32)
    with np.errstate(all="ignore"):
        want = chains(graph, [x, y])
    np.testing.assert_array_equal(run(graph, [x, y], SM80), want)


def test_tf32_is_only_for_fast_numerics() -> None:
    graph = matmul_graph((64, 64), (64, 64), False, False, F32)
    assert tensor_cores.tensor_core_plan(graph.nodes[0], SM90) is None
    assert tensor_cores.tensor_core_plan(graph.nodes[0], SM90, fast=True) is not None


# --- code ---------------------------------------------------------------------------------------


def big(turns: tuple[bool, bool], k: int = 4096) -> TensorCoreProduct:
    return TensorCoreProduct(4096, 4096, k, (), (), (), *turns, dt.bfloat16)


def assembled(code: KernelCode, target: Target) -> ptxas.Cubin:
    """A kernel's cubin: without spills, stack, and what makes ptxas wait for each `wgmma`."""
    made = ptxas.assemble(assembly(code.text, target), target.cpu)
    assert (made.spill_bytes, made.stack, made.warnings) == (0, 0, ())
    return made


@needs_ptxas
@pytest.mark.parametrize("target", CUDA.values(), ids=NAME)
@pytest.mark.parametrize("turns", TURNS)
def test_mma_assembles(target: Target, turns: tuple[bool, bool]) -> None:
    for tile in (mma.LARGE, mma.SMALL, mma.FLAT, mma.TALL):
        code = mma.mma_kernel(big(turns), target, tile=tile)
        made = assembled(code, target)
        assembled(mma.mma_kernel(replace(big(turns), dtype=dt.float32), target, tile=tile), target)
        # Two blocks of the largest tile fit the registers of a unit.
        assert made.registers <= 128 and code.shared <= 64 << 10
        if tile in (mma.LARGE, mma.TALL) and turns[0] == turns[1]:
            assert code.otherwise is not None
            assembled(code.otherwise, target)


@needs_ptxas
@pytest.mark.parametrize("turns", TURNS)
def test_wgmma_assembles(turns: tuple[bool, bool]) -> None:
    target = CUDA["cuda-sm_90a"]
    for tile, dtype in product(wgmma.TILES, (dt.bfloat16, dt.float16)):
        code = wgmma.wgmma_kernel(replace(big(turns), dtype=dtype), target, tile)
        assert code is not None and code.shared <= 227 << 10
        made = assembled(code, target)
        assert made.registers <= 65536 // wgmma.THREADS // 8 * 8
        if turns == (False, True):
            wide = wgmma.wgmma_kernel(replace(big(turns), dtype=dt.float32), target, tile)
            assert wide is not None
            assembled(wide, target)
    assert (wgmma.PRODUCER_REGISTERS + 2 * wgmma.CONSUMER_REGISTERS) * 128 <= 168 * 384


@needs_ptxas
def test_sums_of_segments_assemble() -> None:
    for target in CUDA.values():
        p = TensorCoreProduct(128, 128, 8192, (), (), (), False, False, dt.float16)
        assembled(added_segments(p, target), target)
        codes = [mma.mma_kernel(p, target), wgmma.wgmma_kernel(p, target)]
        for code in codes:
            if code is not None:
                assembled(code, target)


@needs_ptxas
def test_what_ptxas_says_of_wgmma_is_seen() -> None:
    """Registers that nobody can count at entry make it ignore `setmaxnreg`, and say so."""
    target = CUDA["cuda-sm_90a"]
    f = TensorCoreFunction(target, 1, 384)
    f.set_registers(40, False)
    f.store(f.i32(1), f.pointer(0))
    made = ptxas.assemble(assembly(f.finished(1).text, target), target.cpu)
    assert any("setmaxnreg" in w for w in made.warnings)


@needs_ptxas
def test_what_a_gpu_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a stand-in of the driver: pointers, then maps of 128 bytes that it has made of them."""
    made: list[tuple[int, list[int], list[int], list[int]]] = []
    given: list[tuple[list[int], list[bytes]]] = []
    encode, launch = FakeDriver._cuTensorMapEncodeTiled, FakeDriver._cuLaunchKernel

    def encoded(fake: FakeDriver, out: int, dtype: int, rank: int, at: int, sizes: int,
                strides: int, box: int, steps: int, *options: int) -> None:
        encode(fake, out, dtype, rank, at, sizes, strides, box, steps, *options)
        made.append((at, list((ctypes.c_uint64 * 3).from_address(sizes)),
                     list((ctypes.c_uint64 * 2).from_address(strides)),
                     list((ctypes.c_uint32 * 3).from_address(box))))
        assert (dtype, rank, options) == (9, 3, (0, 3, 3, 0))

    def launched(fake: FakeDriver, *args: Any) -> None:
        places = (ctypes.c_void_p * 6).from_address(args[9])
        pointers = [ctypes.c_uint64.from_address(p or 0).value for p in places[:3]]
        given.append((pointers, [ctypes.string_at(p or 0, 128) for p in places[3:]]))
        launch(fake, *args)

    monkeypatch.setattr(FakeDriver, "_cuTensorMapEncodeTiled", encoded)
    monkeypatch.setattr(FakeDriver, "_cuLaunchKernel", launched)
    graph = matmul_graph((3, 40, 72), (40, 136), True, False, BF16)
    program = compile_program(graph, CUDA["cuda-sm_90a"])
    device = CudaDevice(Driver(FakeDriver(capability=(9, 0))))
    code = device.load(program, ())
    memory = [device.allocate(s.nbytes) for s in program.slots]
    slots = (ctypes.c_void_p * 3)(*(m.address for m in memory))
    assert code.launch(ctypes.addressof(slots), 0, 0) == 0
    device.wait()
    assert given == [([m.address for m in memory], [bytes([7]) * 128] * 3)]
    assert made == [(memory[0].address, [72, 40, 3], [144, 5760], [64, 64, 1]),
                    (memory[1].address, [136, 40, 1], [272, 10880], [64, 64, 1]),
                    (memory[2].address, [136, 72, 3], [272, 19584], [64, 64, 1])]


@pytest.mark.parametrize("k", [96, 4096])
def test_the_number_of_rows_decides_nothing(k: int) -> None:
    """A row has the same bits alone and beside others."""
    rng = np.random.default_rng(2)
    x, y = (rng.normal(size=s).astype(BF16) for s in ((130, k), (k, 24)))
    whole = run(matmul_graph(x.shape, y.shape, False, False, BF16), [x, y], SM90)
    for rows in (1, 7, 129):
        part = run(matmul_graph((rows, k), y.shape, False, False, BF16), [x[:rows], y], SM90)
        np.testing.assert_array_equal(part.view(np.uint16), whole[:rows].view(np.uint16))
