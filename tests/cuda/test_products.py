"""Matrix products of a GPU under the emulator: the CPU's bits, no race, no bank met twice."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from cellc_compiler.backends.cuda import epilogues, writer
from cellc_compiler.backends.cuda.kernels import chains, complex_product, loaders, product
from cellc_compiler.backends.cuda.kernels.tiles import DOUBLE, SINGLE, Choice, Tile, choose
from cellc_compiler.backends.cuda.rules import contraction
from cellc_compiler.backends.llvm.text import V
from cellc_compiler.ir.graph import Builder, Graph, Value
from cellc_compiler.ir.types import TensorType
from cellc_compiler.loops.order import product_segment
from cellc_runtime.cuda.emulated import EmulatedDevice
from cellc_runtime.dtypes import (
    DType,
    bfloat16,
    complex64,
    complex128,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint32,
)
from cellc_runtime.target import CUDA

from .accesses import CheckedDevice
from .tiled import ARCHITECTURES, assembled, cut, drawn, needs_ptxas, run_cpu, run_on, same

Shape = tuple[int, ...]
Shapes = list[Shape]
Behind = Callable[[Builder, Value, Callable[[Shape], Value]], list[Value]]
"""What is computed from a product; the last argument makes inputs."""

TRANSPOSES = [(False, False), (False, True), (True, False), (True, True)]


def matmul(
    a: Shape, b: Shape, turned: tuple[bool, bool] = (False, False), dtype: DType = float32,
    behind: Behind | None = None,
) -> tuple[Graph, Shapes]:
    """A product, of operands with transposed matrices where `turned` says so; and what inputs it
    has."""
    graph, shapes = Graph("product"), []
    builder = Builder(graph)

    def given(shape: Shape) -> Value:
        shapes.append(shape)
        return graph.add_input(TensorType(shape, dtype), f"x{len(shapes)}", "input")

    def own(shape: Shape, swap: bool) -> Shape:
        return (*shape[:-2], shape[-1], shape[-2]) if swap else shape

    x, y = (given(own(s, t)) for s, t in zip((a, b), turned, strict=True))
    out = builder.matmul(x, y, transpose_a=turned[0], transpose_b=turned[1])
    graph.outputs = [out] if behind is None else behind(builder, out, given)
    return graph, shapes


def check(graph: Graph, shapes: Shapes, dtype: DType, seed: int = 0) -> None:
    """The bits of the CPU."""
    arrays = drawn(shapes, dtype)
    assert same(run_on(EmulatedDevice(seed=seed), graph, arrays), run_cpu(graph, arrays))


SIZES = [(5, 7, 9), (128, 128, 32), (130, 70, 41), (1, 40, 300), (16, 128, 400), (4, 6, 1000),
         (200, 260, 900), (40, 1, 20), (3, 1, 8), (64, 3, 130)]


@pytest.mark.parametrize("turned", TRANSPOSES)
@pytest.mark.parametrize("size", SIZES)
def test_sizes(size: tuple[int, int, int], turned: tuple[bool, bool]) -> None:
    """Tails in rows, columns and k; several segments."""
    m, n, k = size
    check(*matmul((m, k), (k, n), turned), float32, seed=3)


@pytest.mark.parametrize("dtype", [float64])
@pytest.mark.parametrize("size", [(70, 66, 90), (8, 12, 800), (33, 20, 7)])
def test_dtypes(size: tuple[int, int, int], dtype: DType) -> None:
    m, n, k = size
    for turned in TRANSPOSES:
        check(*matmul((m, k), (k, n), turned, dtype), dtype)


INTEGERS = [int8, uint8, int16, int32, uint32, int64]


@pytest.mark.parametrize("dtype", INTEGERS, ids=lambda d: d.name)
@pytest.mark.parametrize("size", [(70, 66, 90), (9, 12, 800), (3, 20, 7), (2, 64, 40), (70, 1, 90),
                                  (2, 1, 65536)])
def test_integers(size: tuple[int, int, int], dtype: DType) -> None:
    """Any numbers, so sums pass every bound; segments, narrow products and one column, too; not by
    plain loops."""
    m, n, k = size
    for turned in TRANSPOSES if k < 1000 else TRANSPOSES[:1]:
        graph, shapes = matmul((m, k), (k, n), turned, dtype)
        assert contraction.matmul(graph.nodes[0], CUDA["cuda-sm_90a"]) is not None
        check(graph, shapes, dtype)


@pytest.mark.parametrize("dtype", [complex64, complex128], ids=lambda d: d.name)
@pytest.mark.parametrize(("a", "b"), [
    ((70, 90), (90, 66)), ((9, 800), (800, 12)), ((3, 7), (7, 20)), ((70, 90), (90, 1)),
    ((1, 300), (300, 1)), ((2, 1, 20, 37), (3, 37, 24)), ((4, 5, 40), (40, 33))])
def test_complex_numbers(a: Shape, b: Shape, dtype: DType) -> None:
    """Tails, segments and batches; not by plain loops."""
    for turned in TRANSPOSES:
        graph, shapes = matmul(a, b, turned, dtype)
        assert contraction.matmul(graph.nodes[0], CUDA["cuda-sm_90a"]) is not None
        check(graph, shapes, dtype)


def test_zeros_and_infinities_of_complex_numbers() -> None:
    """What is behind the last step changes no sign of a zero, and makes no NaN."""
    graph, _ = matmul((9, 5), (5, 6), dtype=complex64)
    for parts in (-1e-30, -1e-30j, complex(1e-30, -1e-30), complex(np.inf, 1)):
        arrays = np.full((9, 5), parts, np.complex64), np.full((5, 6), 1e-30, np.complex64)
        found, want = run_on(EmulatedDevice(), graph, arrays), run_cpu(graph, arrays)
        assert same([a.view(np.float32) for a in found], [a.view(np.float32) for a in want])


@pytest.mark.parametrize("dtype", [int8, int32, int64], ids=lambda d: d.name)
def test_epilogues_of_integers(dtype: DType) -> None:
    """What is computed behind a product sees its low bits."""
    def behind(f: Builder, y: Value, given: Callable[[Shape], Value]) -> list[Value]:
        return [f.maximum(f.add(y, f.broadcast_to(given(y.shape[-1:]), shape=y.shape)), y)]

    for a, b in [((33, 40), (40, 64)), ((20, 1000), (1000, 24)), ((2, 20), (20, 64))]:
        check(*matmul(a, b, dtype=dtype, behind=behind), dtype)


@pytest.mark.parametrize(("a", "b"), [
    ((3, 1, 20, 30), (4, 30, 24)), ((2, 1, 5, 6), (6, 7)), ((5, 6), (2, 3, 6, 8)),
    ((2, 3, 4, 500), (1, 3, 500, 8)), ((2, 1, 3, 1, 9), (4, 1, 9, 5)), ((5, 4, 20), (1, 20, 12)),
    ((9, 1, 400), (400, 16)), ((3, 2, 40), (40, 1)), ((7, 5, 500), (7, 500, 6)),
])
def test_batches(a: Shape, b: Shape) -> None:
    """Matrices of a batch, and those that are the same for a part of it."""
    check(*matmul(a, b), float32)


@pytest.mark.parametrize("vectors", [True, False])
@pytest.mark.parametrize(("tile", "dtype"), [*((t, float32) for t in SINGLE),
                                             *((t, float64) for t in DOUBLE)])
def test_cuts(tile: Tile, dtype: DType, vectors: bool) -> None:
    """Every tile, with segments side by side and in one block, gives the same bits."""
    for m, n, k in [(140, 136, 808), (30, 45, 797)]:
        segments = -(-k // product_segment(n, k, dtype.itemsize))
        assert segments > 2
        for parts in (1, segments):
            for turned in TRANSPOSES:
                with cut(Choice(tile, parts), vectors):
                    check(*matmul((m, k), (k, n), turned, dtype), dtype)


@pytest.mark.parametrize("dtype", [float32, float64])
@pytest.mark.parametrize(("a", "b", "turned"), [
    ((5, 40), (40, 1), (False, False)), ((3, 4, 400), (3, 400, 1), (False, True)),
    ((1, 200), (200, 1), (True, False)), ((1, 37), (37, 1), (True, True)),
    ((2, 65536), (65536, 1), (False, False)), ((1, 81920), (81920, 1), (False, True)),
    ((70, 1001), (1001, 1), (False, False)),
])
def test_one_column(a: Shape, b: Shape, turned: tuple[bool, bool], dtype: DType) -> None:
    """Rows of chains, in parts where they are long."""
    check(*matmul(a, b, turned, dtype), dtype)


def test_what_lies_behind_k_changes_nothing() -> None:
    """Not even the sign of a zero: a chain that has come to -0 stays there. Infinities and NaN stay
    in their rows and columns."""
    graph, _ = matmul((9, 5), (5, 6))
    tiny = np.full((9, 5), -1e-30, np.float32), np.full((5, 6), 1e-30, np.float32)
    (found,) = run_on(EmulatedDevice(), graph, tiny)
    assert np.signbit(found).all()
    assert same([found], run_cpu(graph, tiny))
    a, b = drawn([(9, 5), (5, 6)], float32)
    a[3, 4], b[0, 2] = np.inf, np.nan
    assert same(run_on(EmulatedDevice(), graph, [a, b]), run_cpu(graph, [a, b]))


# --- epilogues ------------------------------------------------------------------------------------


def _bias(f: Builder, y: Value, given: Callable[[Shape], Value]) -> list[Value]:
    return [f.relu(f.add(y, f.broadcast_to(given(y.shape[-1:]), shape=y.shape)))]


def _residual(f: Builder, y: Value, given: Callable[[Shape], Value]) -> list[Value]:
    return [f.add(f.tanh(y), given(y.shape))]


def _two(f: Builder, y: Value, given: Callable[[Shape], Value]) -> list[Value]:
    return [f.mul(y, y), f.gelu(y)]


def _column(f: Builder, y: Value, given: Callable[[Shape], Value]) -> list[Value]:
    return [f.mul(y, f.broadcast_to(given((y.shape[-2], 1)), shape=y.shape))]


BEHIND = {"bias and activation": _bias, "residual": _residual, "two results": _two,
          "by rows": _column}


@pytest.mark.parametrize("dtype", [float32, float64])
@pytest.mark.parametrize("name", BEHIND)
def test_epilogues(name: str, dtype: DType, monkeypatch: pytest.MonkeyPatch) -> None:
    """The nest behind a product is computed in its stores, however the product is cut."""
    fused: list[object] = []
    emit = epilogues.EpiloguePattern.emit

    def noted(self: epilogues.EpiloguePattern, *args: object) -> None:
        fused.append(args)
        emit(self, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(epilogues.EpiloguePattern, "emit", noted)
    sizes: list[tuple[Shape, Shape]] = [
        ((33, 40), (40, 64)), ((130, 41), (41, 67)), ((20, 1000), (1000, 24)),
        ((3, 9, 30), (30, 20)), ((300, 900), (900, 260))]
    for a, b in sizes:
        before = len(fused)
        check(*matmul(a, b, dtype=dtype, behind=BEHIND[name]), dtype)
        assert len(fused) == before + 1


@pytest.mark.parametrize("vectors", [True, False])
def test_epilogues_however_it_is_cut(vectors: bool) -> None:
    """Behind segments of one block, and behind parts."""
    for m, n, k in [(70, 136, 808), (30, 45, 797)]:
        for parts in (1, -(-k // product_segment(n, k, 4))):
            with cut(Choice(SINGLE[1], parts), vectors):
                check(*matmul((m, k), (k, n), behind=_bias), float32)


def test_a_product_that_others_read_is_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    """A result of the graph, or what two nests read, is in memory as before."""
    monkeypatch.setattr(epilogues.EpiloguePattern, "emit", None)

    def behind(f: Builder, y: Value, given: Callable[[Shape], Value]) -> list[Value]:
        return [y, f.relu(y)]

    check(*matmul((20, 30), (30, 24), behind=behind), float32)


# --- what a GPU would see -------------------------------------------------------------------------


@pytest.mark.parametrize("turned", TRANSPOSES)
@pytest.mark.parametrize(("tile", "dtype"), [*((t, float32) for t in SINGLE),
                                             *((t, float64) for t in DOUBLE)])
def test_accesses(tile: Tile, dtype: DType, turned: tuple[bool, bool]) -> None:
    """No race and nothing outside; whole sectors; banks are met once, but where a row of eight
    lanes is longer than a narrow tile."""
    graph, shapes = matmul((128, 32), (32, 128), turned, dtype)
    device = CheckedDevice(seed=2)
    with cut(Choice(tile, 1)):
        run_on(device, graph, drawn(shapes, dtype))
    accesses = device.accesses()
    assert not accesses.lost
    assert not accesses.outside.any()
    assert not accesses.races()
    moved, shared = accesses.global_traffic(), accesses.shared_traffic()
    assert moved.moved == moved.least > 0
    narrow = tile.rows < 32 and turned[0]
    assert shared.least <= shared.moved <= shared.least * (1.08 if narrow else 1)


@pytest.mark.parametrize("dtype", [float32, int8, int64, complex64], ids=lambda d: d.name)
@pytest.mark.parametrize("size", [(130, 70, 41), (3, 5, 1000), (1, 1, 65536), (6, 1, 100)])
def test_accesses_of_odd_sizes(size: tuple[int, int, int], dtype: DType) -> None:
    m, n, k = size
    if dtype.is_complex:
        k = min(k, 4096)  # tiles, not rows of chains: more accesses than there is room for
    device = CheckedDevice(seed=1, capacity=1 << 22)
    graph, shapes = matmul((m, k), (k, n), dtype=dtype)
    run_on(device, graph, drawn(shapes, dtype))
    accesses = device.accesses()
    assert not accesses.lost
    assert not accesses.outside.any()
    assert not accesses.races()


def _no_barrier(f: writer.GpuFunction) -> None:
    f.collective = True


FAULTS = {
    "no barrier": (writer.GpuFunction, "barrier", _no_barrier),
    "one tile is filled and multiplied": (
        product.ProductKernel, "_multiply", lambda self, sums, stage, *of: _MULTIPLY(
            self, sums, stage.const(0), *of)),
    "a row of the tile too far": (
        loaders.Loader, "_store", lambda self, values, shared: _STORE(
            self, values, self.f.gep(shared, 4, self.ty))),
    "k ends too early": (
        loaders.Loader, "load", lambda self, step, end: _LOAD(self, step, end - 1)),
    "segments are not put by": (product.ProductKernel, "_keep", lambda self, at, end, sums: sums),
    "sums are stored in other rows": (
        product.ProductKernel, "_end", lambda self, batch, i, j, sums: _END(
            self, batch, i + 8, j, sums)),
    "lanes are not folded": (chains._Lanes, "folded", lambda self, x: x),
}
_MULTIPLY, _END = product.ProductKernel._multiply, product.ProductKernel._end
_STORE, _LOAD = loaders.Loader._store, loaders.Loader.load


@pytest.mark.parametrize("name", FAULTS)
def test_planted_faults(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is found: by an error, an access, or other bits."""
    where, attribute, fault = FAULTS[name]
    monkeypatch.setattr(where, attribute, fault)
    found = False
    for m, n, k in [(40, 24, 804), (6, 1, 100)]:
        graph, shapes = matmul((m, k), (k, n))
        arrays = drawn(shapes, float32)
        device = CheckedDevice(seed=7)
        with cut(Choice(SINGLE[-1], 1)):
            try:
                results = run_on(device, graph, arrays)
            except RuntimeError:
                found = True
                continue
        accesses = device.accesses()
        found |= bool(accesses.races()) or bool(accesses.outside.any())
        found |= not same(results, run_cpu(graph, arrays))
    assert found


def _one_plane(self: complex_product._Planes, values: list[V], shared: V) -> None:
    for part in self.parts:
        part.store(values[: len(values) // 2], shared)


COMPLEX_FAULTS = {
    "parts share a tile": (complex_product._Planes, "store", _one_plane),
    "steps behind the last one count": (
        complex_product.ComplexKernel, "_multiply", lambda self, sums, stage, step, end:
        _COMPLEX_MULTIPLY(self, sums, stage, step, end + 8)),
    "imaginary parts are not stored": (
        complex_product.ComplexKernel, "_end", lambda self, batch, i, j, sums: _END(
            self, batch, i, j, sums[: len(sums) // 2])),
}
_COMPLEX_MULTIPLY = complex_product.ComplexKernel._multiply


@pytest.mark.parametrize("name", COMPLEX_FAULTS)
def test_planted_faults_of_complex_numbers(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is found by a race or by other bits; what stands behind k shows in zeros alone."""
    where, attribute, fault = COMPLEX_FAULTS[name]
    monkeypatch.setattr(where, attribute, fault)
    graph, _ = matmul((9, 5), (5, 6), dtype=complex64)
    found = False
    for real, imaginary in ((-1e-30, 1e-30), (-1e-30, -1e-30), (1e-30, 1e-30), (1e-30, -1e-30)):
        arrays = (np.full((9, 5), complex(real, imaginary), np.complex64),
                  np.full((5, 6), 1e-30, np.complex64))
        device = CheckedDevice(seed=7)
        results = run_on(device, graph, arrays)
        found |= bool(device.accesses().races())
        found |= not same([a.view(np.float32) for a in results],
                          [a.view(np.float32) for a in run_cpu(graph, arrays)])
    assert found


# --- how it is cut, and what the assembler says ---------------------------------------------------


def test_small_products_are_cut_finer() -> None:
    """Tiles and parts fill a device; one that is full takes the largest tile and no parts."""
    target = CUDA["cuda-sm_90a"]
    assert choose(4096, 4096, 4096, 1, 11, 4, target) == Choice(SINGLE[0], 1)
    few = choose(8, 4096, 4096, 1, 11, 4, target)
    assert few.tile.rows == 16
    assert few.parts == 11
    assert choose(256, 256, 256, 1, 1, 4, target).tile == SINGLE[-1]
    assert choose(32, 64, 16, 4096, 1, 4, target).parts == 1
    assert choose(64, 64, 10_000, 1, 9, 8, target, True).parts == 9
    # Many small ones: what blocks put by for whole tiles would be more than the parts are.
    assert choose(4, 4, 500, 100_000, 2, 4, target).parts == 2


ASSEMBLED = [(4096, 4096, 4096, float32), (4096, 4096, 256, float32), (513, 1023, 97, float32),
             (8, 4096, 4096, float32), (1024, 32, 512, float32), (256, 256, 256, float32),
             (1024, 1024, 1024, float64), (100, 100, 100, float64), (300, 300, 100, float16),
             (512, 1, 4096, bfloat16), (2, 1, 1 << 20, float32), (1024, 1024, 256, int8),
             (1024, 1024, 256, int32), (512, 512, 256, int64), (512, 1, 4096, int8),
             (1024, 1024, 256, float32),
             (512, 512, 250, complex64), (20, 300, 4000, complex64), (256, 256, 256, complex128)]


@needs_ptxas
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_assembled(architecture: str) -> None:
    """Nothing is spilled; with one segment two blocks of the largest tile share a
    multiprocessor, or nearly do."""
    for m, n, k, dtype in ASSEMBLED:
        for turned in TRANSPOSES if k < 1 << 20 else TRANSPOSES[:2]:
            for behind in (None, _bias) if n > 1 and dtype.kind != "complex" else (None,):
                graph, _ = matmul((m, k), (k, n), turned, dtype, behind)
                for cubin in assembled(graph, architecture):
                    assert (cubin.spill_bytes, cubin.stack, cubin.warnings) == (0, 0, ())
                    assert cubin.registers <= 168


@needs_ptxas
def test_the_loop_is_multiply_adds() -> None:
    """Of the instructions of the whole kernel of the largest tile, two thirds are the 512
    multiply-adds of eight steps."""
    graph, _ = matmul((4096, 256), (256, 4096))
    (cubin,) = assembled(graph, "sm_90a")
    assert cubin.instructions < 512 * 1.5
