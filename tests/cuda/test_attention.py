"""Attention as one kernel of a GPU, under the emulator: the bits of separate kernels, which are the
CPU's in float32; ideal accesses; what is left to separate kernels; code without spills."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import ops
from cellc.compiled.traced import trace
from cellc_compiler.backends import masks
from cellc_compiler.backends.cuda import attention as rules
from cellc_compiler.backends.cuda.kernels import attention as kernels
from cellc_compiler.backends.cuda.kernels import attention_mma
from cellc_compiler.ir.graph import Graph
from cellc_runtime import knobs
from cellc_runtime.cuda.emulated import EmulatedDevice
from cellc_runtime.dtypes import DType, bfloat16, float16, float32
from cellc_runtime.target import CHECKED, EMULATED

from .accesses import CheckedDevice
from .attention_programs import arrays, attention, is_one_kernel, labels, separate
from .tiled import ARCHITECTURES, assembled, needs_ptxas, run_cpu, run_on, same

SM80, SM90 = EMULATED["emulated-sm_80"], EMULATED["emulated-sm_90a"]
HALVES = [float16, bfloat16]
SIZES = [(5, 7, 3, 4), (16, 64, 16, 16), (33, 130, 20, 36), (40, 1100, 64, 64), (100, 33, 33, 130),
         (70, 64, 250, 8)]
"""Queries, keys, and the sizes of a query and of a value."""


def plain(m: int, n: int, d: int, c: int, **how: Any) -> Graph:
    """Two matrices of such sizes."""
    return attention((2, m, d), (2, n, d), (2, n, c), **how)


def check(graph: Graph, seed: int = 0, target: Any = SM90) -> None:
    """One kernel gives the bits of separate ones; in float32 the CPU's."""
    given = arrays(graph, seed)
    given[2].flat[1] = np.nan
    assert is_one_kernel(graph, target)
    found = run_on(EmulatedDevice(target, seed), graph, given)
    with separate():
        assert not is_one_kernel(graph, target)
        want = run_on(EmulatedDevice(target), graph, given)
    assert same(found, want)
    assert np.isnan(found[0].astype(np.float32)).any()
    if graph.inputs[0].dtype is float32:
        assert same(found, run_cpu(graph, given))


@pytest.mark.parametrize("size", SIZES)
def test_bits(size: tuple[int, int, int, int]) -> None:
    """Tails in every axis, rows that see nothing, several segments of k."""
    check(plain(*size), seed=3)


@pytest.mark.parametrize("target", [SM80, SM90], ids=lambda t: t.name)
@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("size", [*SIZES, (18, 2100, 48, 70)])
def test_halves(size: tuple[int, int, int, int], dtype: DType, target: Any) -> None:
    """Products by tensor cores: the bits of those that stand alone."""
    if size[1] > 1000 and target is SM80:
        pytest.skip("longer than what its shared memory holds")
    check(plain(*size, dtype=dtype), 1, target)


@pytest.mark.parametrize("dtype", [float32, bfloat16], ids=str)
@pytest.mark.parametrize("turned", [(False, False), (False, True), (True, True)])
def test_turned(turned: tuple[bool, bool], dtype: DType) -> None:
    """Keys and values that lie the other way."""
    check(plain(33, 136, 24, 40, turned=turned, dtype=dtype))


@pytest.mark.parametrize("dtype", [float32, float16], ids=str)
@pytest.mark.parametrize(("q", "k", "v"), [
    ((2, 3, 20, 8), (2, 1, 30, 8), (2, 3, 30, 8)), ((2, 3, 20, 8), (3, 30, 8), (30, 8)),
    ((20, 8), (30, 8), (30, 12)), ((1, 4, 20, 8), (3, 4, 30, 8), (3, 1, 30, 16)),
    ((5, 20, 8), (30, 8), (5, 30, 8))])
def test_batches(q: tuple[int, ...], k: tuple[int, ...], v: tuple[int, ...], dtype: DType) -> None:
    """Heads that share their keys or values."""
    check(attention(q, k, v, dtype=dtype))


@pytest.mark.parametrize("vectors", [True, False])
@pytest.mark.parametrize("rows", kernels.ROWS)
def test_rows(rows: int, vectors: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many rows a block does, and whether pointers are aligned."""
    monkeypatch.setattr(rules, "rows_of", lambda *_: rows)
    if not vectors:
        monkeypatch.setattr(rules, "aligned", lambda _, plain: plain)
    check(plain(*((70, 100, 16, 70) if vectors else (33, 45, 7, 9))))


@pytest.mark.parametrize("vectors", [True, False])
@pytest.mark.parametrize("rows", attention_mma.ROWS)
def test_rows_of_halves(rows: int, vectors: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "rows_of", lambda *_: rows)
    if not vectors:
        monkeypatch.setattr(rules, "aligned", lambda _, plain: plain)
    check(plain(*((140, 100, 40, 72) if vectors else (33, 45, 7, 9)), dtype=bfloat16))


# --- masks ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("m", "n", "dtype"), [
    (300, 300, float32), (300, 130, float32), (200, 600, bfloat16)])
def test_causal(m: int, n: int, dtype: DType) -> None:
    """Tiles that a constant mask hides are not computed; the bits are those of all."""
    graph = attention((m, 8), (n, 8), (n, 8), mask="causal", dtype=dtype)
    given = arrays(graph)
    target = CHECKED["checked-sm_90a"]
    found, counts = [], []
    for seen in (masks.keys_seen, lambda *_: n):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(rules, "keys_seen", seen)
            device = CheckedDevice(target)
            found.append(run_on(device, graph, given))
            counts.append(device.accesses().shared_traffic().requests)
    with separate():
        found.append(run_on(EmulatedDevice(), graph, given))
    assert same(found[0], found[1]) and same(found[0], found[2])
    assert counts[0] < counts[1]


@pytest.mark.parametrize(("rows", "seen"), [
    (["0111", "0011", "0001"], 1), (["0001", "0001", "0001"], 3), (["1111", "1111", "1101"], 1),
    (["1111", "1111", "1111"], -3), (["0000", "0001", "0000"], 4)])
def test_what_a_mask_hides(rows: list[str], seen: int) -> None:
    assert masks.last_seen(np.array([[c == "1" for c in row] for row in rows])) == seen


@pytest.mark.parametrize(("how", "seen"), [
    ({"mask": "causal"}, 1), ({"mask": "given"}, 300), ({"mask": "causal", "beside": True}, 300)])
def test_keys_that_are_seen(how: dict[str, Any], seen: int, monkeypatch: pytest.MonkeyPatch
                            ) -> None:
    """A key is hidden where a constant says so and nothing follows from its score."""
    found: list[int] = []

    def noted(*given: Any) -> int:
        found.append(masks.keys_seen(*given))
        return found[-1]

    monkeypatch.setattr(rules, "keys_seen", noted)
    assert is_one_kernel(plain(300, 300, 8, 8, **how), SM90)
    assert set(found) == {seen}


# --- gradients and neighbours -------------------------------------------------------------------


def loss(q: Any, k: Any, v: Any) -> Any:
    """Of causal attention."""
    out = ops.flash_attention_score(q, k, v, 2, input_layout="BNSD", sparse_mode=2,
                                    scalar_value=0.25)
    return (out * out).sum()


def test_gradients() -> None:
    """Forward and the gradient of the queries are one kernel each, to the CPU's bits."""
    rng = np.random.default_rng(0)
    given = [rng.standard_normal((2, 2, 45, 16)).astype(np.float32) for _ in range(3)]
    graph = trace(ms.grad(loss, (0, 1, 2)), tuple(map(ms.Tensor, given)), {}).graph
    found = [label for label in labels(graph, SM90) if label.count("matmul") == 2]
    assert len(found) == 2
    for seed in (0, 3):
        assert same(run_on(EmulatedDevice(seed=seed), graph, given), run_cpu(graph, given))
    device = CheckedDevice(seed=1)
    run_on(device, graph, given)
    assert not device.accesses().faults()


@pytest.mark.parametrize("mode", [ms.GRAPH_MODE, ms.PYNATIVE_MODE])
def test_both_modes(mode: int) -> None:
    """The public function on an emulated GPU: the CPU's bits in both modes."""
    rng = np.random.default_rng(0)
    given = [rng.standard_normal((2, n, 40, 16)).astype(np.float32) for n in (4, 2, 2)]

    def call(q: Any, k: Any, v: Any) -> Any:
        return ops.flash_attention_score(q, k, v, 4, input_layout="BNSD", sparse_mode=3)

    found = []
    try:
        for device in ("CPU", "GPU"):
            with knobs.override(gpu="emulated"):
                ms.set_context(mode=mode, device_target=device)
                tensors = [ms.Tensor(a) for a in given]
                out = ms.jit(call)(*tensors) if mode == ms.GRAPH_MODE else call(*tensors)
                found.append([out.asnumpy()])
    finally:
        ms.set_context(device_target="CPU")
    assert same(found[0], found[1])


@pytest.mark.parametrize("graph", [
    plain(1, 40, 8, 8), plain(40, 40, 8, 1), plain(40, 1, 8, 8), plain(40, 6000, 8, 8),
    plain(20, 8200, 8, 8, dtype=bfloat16), plain(20, 30, 400, 8),
    attention((3, 20, 8), (30, 8), (30, 8))], ids=[
    "one query", "one column", "one key", "long rows", "long rows of halves", "long queries",
    "dense layers"])
def test_what_is_left_to_separate_kernels(graph: Graph) -> None:
    given = arrays(graph)
    assert not is_one_kernel(graph, SM90)
    if graph.inputs[0].dtype is float32:
        assert same(run_on(EmulatedDevice(), graph, given), run_cpu(graph, given))


@pytest.mark.parametrize("dtype", [float32, bfloat16], ids=str)
def test_scores_need_not_fit_into_memory(dtype: DType) -> None:
    """More scores than any buffer's index may count."""
    q, k = (16, 16, 2048, 64), (16, 16, 2048, 64)
    assert labels(attention(q, k, k, dtype=dtype), SM90)[0].count("matmul") == 2


@pytest.mark.parametrize("size", [(0, 4, 4, 4), (4, 4, 0, 4), (4, 4, 4, 0)])
def test_empty(size: tuple[int, int, int, int]) -> None:
    graph = plain(*size)
    given = arrays(graph) if size[0] else [*arrays(plain(1, *size[1:]))[1:3]]
    if not size[0]:
        given = [np.zeros((2, 0, size[2]), np.float32), *given, np.zeros((0, 4), np.bool_)]
    assert same(run_on(EmulatedDevice(), graph, given), run_cpu(graph, given))


# --- what requests move, and code ---------------------------------------------------------------


@pytest.mark.parametrize("dtype", [float32, bfloat16], ids=str)
@pytest.mark.parametrize("size", [(64, 128, 64, 64), (32, 256, 64, 128)])
def test_accesses(size: tuple[int, int, int, int], dtype: DType) -> None:
    """No bank is met twice; of float32, every sector is moved once for each who asks for it."""
    graph = plain(*size, dtype=dtype, mask="none")
    device = CheckedDevice(CHECKED["checked-sm_90a"], capacity=1 << 21)
    run_on(device, graph, arrays(graph))
    accesses = device.accesses()
    assert not accesses.lost and not accesses.faults()
    shared, moved = accesses.shared_traffic(), accesses.global_traffic()
    assert shared.moved == shared.least > 0
    if dtype is float32:
        assert moved.moved == moved.least > 0


@pytest.mark.parametrize("dtype", [float32, bfloat16], ids=str)
@pytest.mark.parametrize("size", [(33, 70, 20, 36), (16, 1100, 16, 16)])
def test_races(size: tuple[int, int, int, int], dtype: DType) -> None:
    m, n, d, c = size
    device = CheckedDevice(CHECKED["checked-sm_90a"], seed=2, capacity=1 << 22)
    graph = attention((m, d), (n, d), (n, c), dtype=dtype)
    run_on(device, graph, arrays(graph))
    accesses = device.accesses()
    assert not accesses.lost and not accesses.faults()


@needs_ptxas
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("dtype", [float32, bfloat16], ids=str)
def test_no_spills(dtype: DType, architecture: str) -> None:
    for size in [(512, 512, 64, 64), (1000, 1001, 33, 50), (1024, 1024, 128, 128)]:
        for cubin in assembled(plain(*size, dtype=dtype), architecture):
            assert not cubin.spill_bytes and cubin.registers <= 128
