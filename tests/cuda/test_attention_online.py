"""Online attention under fast numerics, under the emulator: near a float64 reference, forward and
gradient; masks; what is left to other kernels; memory; accesses; code without spills."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import ops
from cellc_compiler.backends.cuda import attention_formulas, attention_online
from cellc_compiler.backends.cuda.kernels import attention_online as online
from cellc_compiler.driver import Report, compile_program
from cellc_runtime import knobs
from cellc_runtime.cuda.emulated import EmulatedDevice
from cellc_runtime.dtypes import DType, bfloat16, float16, float32
from cellc_runtime.target import CHECKED, EMULATED

from .accesses import CheckedDevice
from .attention_programs import arrays, attention, causal, labels
from .online_programs import (
    SCALE,
    causal_loss,
    gradients,
    is_near,
    is_online,
    large_blocks,  # noqa: F401 (a fixture)
    plain_loss,
    random,
    run_fast,
    traced,
    weights_of,
    wide,
)
from .tiled import ARCHITECTURES, assembled, needs_ptxas, same

Array = np.ndarray[Any, Any]

pytestmark = pytest.mark.usefixtures("large_blocks")
SM80, SM90 = EMULATED["emulated-sm_80"], EMULATED["emulated-sm_90a"]
TYPES = [float32, float16, bfloat16]
SIZES = [(5, 7, 3, 4), (16, 64, 16, 16), (33, 130, 20, 36), (65, 33, 33, 130), (70, 64, 250, 8),
         (17, 70, 256, 256)]
"""Queries, keys, and the sizes of a query and of a value."""


def check(how: dict[str, Any], shapes: tuple[tuple[int, ...], ...], dtype: DType = float32,
          seed: int = 0, target: Any = SM90) -> None:
    """The kernel is near the reference."""
    graph = attention(*shapes, dtype=dtype, **how)
    given = arrays(graph, seed)
    assert is_online(graph, target)
    (found,) = run_fast(EmulatedDevice(target, seed), graph, given)
    turned = how.get("turned", (True, False))
    q, k, v = given[0], *(np.swapaxes(a, -1, -2) if t else a for a, t in zip(
        given[1:3], (not turned[0], turned[1]), strict=True))
    kind = how.get("mask", "given")
    hidden = causal(q.shape[-2], k.shape[-2]) if kind == "causal" else \
        given[3] if kind == "given" else None
    weights = weights_of(q, k, hidden, given[3] if kind == "added" else None)
    assert is_near(found, weights @ wide(v), dtype)


def plain(m: int, n: int, d: int, c: int) -> tuple[tuple[int, ...], ...]:
    """Shapes of two matrices of such sizes."""
    return (2, m, d), (2, n, d), (2, n, c)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("size", SIZES)
def test_forward(size: tuple[int, int, int, int], dtype: DType) -> None:
    """Tails in every axis; rows that see nothing are NaN, as those of separate ops."""
    check({}, plain(*size), dtype, 3)


@pytest.mark.parametrize("dtype", [float32, float16], ids=str)
@pytest.mark.parametrize("target", [SM80, SM90], ids=lambda t: t.name)
@pytest.mark.parametrize("mask", ["none", "causal"])
def test_long_keys(mask: str, target: Any, dtype: DType) -> None:
    """More keys than shared memory could hold scores of."""
    check({"mask": mask}, ((20, 8), (8200, 8), (8200, 8)), dtype, target=target)


@pytest.mark.parametrize("dtype", [float32, bfloat16], ids=str)
@pytest.mark.parametrize(("m", "n"), [(130, 130), (70, 200), (64, 64), (65, 129)])
def test_causal(m: int, n: int, dtype: DType) -> None:
    """The mask becomes a comparison, and tiles behind it are left out."""
    check({"mask": "causal"}, ((3, m, 16), (3, n, 16), (3, n, 16)), dtype)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_added_mask(dtype: DType) -> None:
    check({"mask": "added"}, ((2, 3, 40, 16), (2, 3, 50, 16), (2, 3, 50, 16)), dtype)


@pytest.mark.parametrize("dtype", [float32, bfloat16], ids=str)
@pytest.mark.parametrize("turned", [(False, False), (False, True), (True, True)])
def test_turned(turned: tuple[bool, bool], dtype: DType) -> None:
    """Keys and values that lie the other way."""
    n, d, c = 136, 24, 40
    check({"turned": turned}, ((2, 33, d), (2, n, d), (2, n, c)), dtype)


@pytest.mark.parametrize(("q", "k", "v"), [
    ((2, 3, 20, 8), (2, 1, 30, 8), (2, 3, 30, 8)), ((2, 3, 20, 8), (3, 30, 8), (30, 8)),
    ((1, 4, 20, 8), (3, 4, 30, 8), (3, 1, 30, 16)), ((5, 20, 8), (30, 8), (5, 30, 8))])
def test_batches(q: tuple[int, ...], k: tuple[int, ...], v: tuple[int, ...]) -> None:
    """Heads that share their keys or values."""
    check({}, (q, k, v), float16)


@pytest.mark.parametrize("dtype", [float32, float16], ids=str)
def test_pointers_that_are_not_aligned(dtype: DType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention_online, "aligned", lambda _, plain: plain)
    check({}, plain(33, 70, 24, 40), dtype)


@pytest.mark.parametrize("rows", online.ROWS)
def test_rows(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many rows a block has."""
    monkeypatch.setattr(online, "ROWS", (rows,))
    check_gradients(plain_loss, (1, 2, 70, 24), float16)


@pytest.mark.parametrize("dtype", [float32, float16], ids=str)
def test_one_row(dtype: DType, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a matrix, where kernels are made to take it."""
    monkeypatch.setattr(attention_online, "FEWEST_ROWS", 1)
    check({}, plain(1, 100, 16, 16), dtype)


def test_the_order_of_threads() -> None:
    """An element is the sum of one warp, in order: whatever runs first, bits are the same."""
    given = random((1, 2, 70, 24))
    graph = traced(ms.grad(causal_loss, (0, 1, 2)), given)
    first, second = (run_fast(EmulatedDevice(seed=seed), graph, given) for seed in (0, 5))
    assert same(first, second)


@pytest.mark.parametrize("dtype", [float32, float16], ids=str)
def test_infinities_and_nan(dtype: DType) -> None:
    """Rows as separate ops give them."""
    shape = 40, 16
    graph = attention(shape, shape, shape, dtype=dtype, mask="none")
    given = arrays(graph)
    given[0][3, 2], given[0][5, 0], given[0][7, 1] = np.nan, np.inf, -np.inf
    given[2][9, 4] = np.inf
    (found,) = run_fast(EmulatedDevice(), graph, given)
    with np.errstate(invalid="ignore"):
        want = weights_of(given[0], given[1]) @ wide(given[2])
    assert np.isnan(want[[3, 5, 7]]).all() and np.isinf(want[0, 4])
    assert np.array_equal(np.isnan(found), np.isnan(want))
    assert np.array_equal(np.isinf(wide(found)), np.isinf(want))


@pytest.mark.parametrize("fill", [-np.inf, -1e9])
def test_a_row_without_keys(fill: float) -> None:
    """Of a constant mask that hides all: NaN, or the mean of all values, as of separate ops."""
    graph = attention((100, 16), (90, 16), (90, 16), mask="causal", fill=fill)
    given, hidden = arrays(graph), causal(100, 90)
    assert is_online(graph, SM90)
    (found,) = run_fast(EmulatedDevice(), graph, given)
    want = weights_of(given[0], given[1], hidden, fill=fill) @ wide(given[2])
    assert is_near(found, want, float32)
    assert np.isnan(want[0]).all() == np.isinf(fill)


@pytest.mark.parametrize(("how", "externals", "seen"), [
    ({"mask": "causal"}, 0, 1), ({"mask": "given"}, 1, 300), ({"mask": "added"}, 1, 300),
    ({"mask": "causal", "beside": True}, 1, 300)])
def test_what_kernels_read_of_masks(how: dict[str, Any], externals: int, seen: int,
                                    monkeypatch: pytest.MonkeyPatch) -> None:
    """A triangle is not read at all."""
    found: list[attention_formulas.Formulas] = []

    def noted(*given: Any) -> attention_formulas.Formulas:
        found.append(attention_formulas.formulas_of(*given))
        return found[-1]

    monkeypatch.setattr(attention_online, "formulas_of", noted)
    is_online(attention(*plain(300, 300, 8, 8), **how), SM90)
    assert {(len(f.externals), f.seen) for f in found} == {(externals, seen)}


# --- gradients ----------------------------------------------------------------------------------


def check_gradients(loss: Any, shape: tuple[int, ...], dtype: DType, hidden: Array | None = None,
                    target: Any = SM90) -> None:
    """All three are near the reference, and nothing else is a product."""
    given = random(shape, dtype)
    graph = traced(ms.grad(loss, (0, 1, 2)), given)
    assert is_online(graph, target)
    found = run_fast(EmulatedDevice(target, 1), graph, given)
    weights = weights_of(given[0], given[1], hidden, fill=-1e300)
    for a, b in zip(found, gradients(*given, weights), strict=True):
        assert is_near(a, b, dtype)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("shape", [(1, 2, 45, 24), (2, 1, 64, 64), (1, 1, 130, 16), (1, 1, 33, 7)])
def test_gradients(shape: tuple[int, ...], dtype: DType) -> None:
    check_gradients(plain_loss, shape, dtype)


@pytest.mark.parametrize("dtype", [float32, bfloat16], ids=str)
@pytest.mark.parametrize("shape", [(2, 2, 45, 24), (1, 2, 150, 16), (1, 2, 64, 32)])
def test_causal_gradients(shape: tuple[int, ...], dtype: DType) -> None:
    """Queries that look at none of a block's keys are left out."""
    hidden = causal(shape[2], shape[2])
    check_gradients(causal_loss, shape, dtype, hidden)


@pytest.mark.parametrize("target", [SM80, SM90], ids=lambda t: t.name)
@pytest.mark.parametrize("dtype", [float32, float16], ids=str)
@pytest.mark.parametrize("size", [80, 128, 256])
def test_gradients_of_large_heads(size: int, dtype: DType, target: Any) -> None:
    """Beyond 128 the gradients of keys and values are a kernel each."""
    check_gradients(plain_loss, (1, 1, 40, size), dtype, target=target)


def linear_loss(q: Any, k: Any, v: Any, g: Any) -> Any:
    """Its gradient needs no result: both softmax and gradient are one cluster."""
    weights = ops.softmax(ops.matmul(q, k.swapaxes(-1, -2)) * SCALE, -1)
    return (ops.matmul(weights, v) * g).sum()


@pytest.mark.parametrize("with_value", [False, True])
@pytest.mark.parametrize("dtype", [float32, float16], ids=str)
def test_gradient_of_a_linear_loss(dtype: DType, with_value: bool) -> None:
    given = random((2, 2, 45, 24), dtype, 4)
    how = ms.value_and_grad if with_value else ms.grad
    graph = traced(how(linear_loss, (0, 1, 2)), given)
    assert is_online(graph, SM90)
    found = run_fast(EmulatedDevice(), graph, given)[with_value:]
    weights = weights_of(given[0], given[1])
    for a, b in zip(found, gradients(*given[:3], weights, given[3]), strict=True):
        assert is_near(a, b, dtype)


@pytest.mark.parametrize("wanted", [(0,), (1,), (2,), (0, 2), (1, 2)])
def test_some_gradients(wanted: tuple[int, ...]) -> None:
    given = random((1, 2, 45, 24))
    graph = traced(ms.grad(plain_loss, wanted), given)
    found = run_fast(EmulatedDevice(), graph, given)
    want = gradients(*given, weights_of(given[0], given[1]))
    assert is_online(graph, SM90)
    assert all(is_near(a, want[i], float32) for a, i in zip(found, wanted, strict=True))


def test_gradients_of_shared_heads() -> None:
    """Keys and values of fewer heads, an added mask, and values that lie the other way."""
    rng = np.random.default_rng(0)
    q, k, v, mask = (rng.standard_normal(s).astype(np.float32) for s in (
        (2, 4, 33, 16), (2, 1, 40, 16), (2, 1, 24, 40), (33, 40)))

    def loss(q: Any, k: Any, v: Any, mask: Any) -> Any:
        scores = ops.matmul(q, k.swapaxes(-1, -2)) * SCALE + mask
        out = ops.matmul(ops.softmax(scores, -1), v.swapaxes(-1, -2))
        return (out * out).sum()

    graph = traced(ms.grad(loss, (0, 1, 2)), (q, k, v, mask))
    assert is_online(graph, SM90)
    found = run_fast(EmulatedDevice(), graph, (q, k, v, mask))
    values = np.swapaxes(v, -1, -2)
    of_q, of_k, of_v = gradients(q, k, values, weights_of(q, k, added=mask))
    assert is_near(found[0], of_q, float32)
    assert is_near(found[1], of_k.sum(1, keepdims=True), float32)
    assert is_near(found[2], np.swapaxes(of_v.sum(1, keepdims=True), -1, -2), float32)


@pytest.mark.parametrize("dtype", [float32, float16], ids=str)
def test_gradients_of_weights_that_are_left_out(dtype: DType) -> None:
    """What stands behind the softmax: a choice by a mask, and a factor."""
    given, shape = random((1, 2, 45, 24), dtype), (1, 2, 45, 45)
    kept = np.random.default_rng(1).random(shape) < 0.7

    def loss(q: Any, k: Any, v: Any, kept: Any) -> Any:
        weights = ops.softmax(ops.matmul(q, k.swapaxes(-1, -2)) * SCALE, -1)
        weights = ops.where(kept, weights * 1.25, ops.zeros_like(weights))
        out = ops.matmul(weights, v)
        return (out * out).sum()

    graph = traced(ms.grad(loss, (0, 1, 2)), [*given, kept])
    assert is_online(graph, SM90)
    found = run_fast(EmulatedDevice(), graph, [*given, kept])
    q, k, v = map(wide, given)
    weights = weights_of(q, k)
    g = 2 * (left := weights * kept * 1.25) @ v
    dots = g @ np.swapaxes(v, -1, -2) * kept * 1.25
    of_scores = weights * (dots - (weights * dots).sum(-1, keepdims=True)) * SCALE
    want = of_scores @ k, np.swapaxes(of_scores, -1, -2) @ q, np.swapaxes(left, -1, -2) @ g
    assert all(is_near(a, b, dtype) for a, b in zip(found, want, strict=True))


def test_two_layers() -> None:
    """Each has its own; the mask that both share is not computed."""
    given = random((1, 2, 40, 16))

    def loss(q: Any, k: Any, v: Any) -> Any:
        for _ in range(2):
            q = q + ops.flash_attention_score(q, k, v, 2, input_layout="BNSD", sparse_mode=2,
                                              scalar_value=SCALE)
        return (q * q).sum()

    graph = traced(ms.grad(loss, (0, 1, 2)), given)
    assert is_online(graph, SM90)
    found = run_fast(EmulatedDevice(), graph, given)
    want = run_fast_separately(graph, given)
    for a, b in zip(found, want, strict=True):
        assert is_near(a, wide(b), float32)


def run_fast_separately(graph: Any, given: list[Array]) -> list[Array]:
    """The same by separate kernels."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(attention_online.OnlineFinder, "find", lambda self: {})
        return run_fast(EmulatedDevice(), graph, given)


# --- what is left to others, and memory -----------------------------------------------------------


def returned(q: Any, k: Any, v: Any) -> Any:
    """Weights that somebody wants."""
    weights = ops.softmax(ops.matmul(q, k.swapaxes(-1, -2)) * SCALE, -1)
    return ops.matmul(weights, v), weights


def twice(q: Any, k: Any, v: Any) -> Any:
    """A gradient of a gradient."""
    return sum(g.sum() for g in ms.grad(plain_loss, (0, 1, 2))(q, k, v))


def with_largest(q: Any, k: Any, v: Any) -> Any:
    """Like a gradient, but with the largest of a row where that has its sum."""
    weights = ops.softmax(ops.matmul(q, k.swapaxes(-1, -2)) * SCALE, -1)
    out = ops.matmul(weights, v)
    dots = ops.matmul(out, v.swapaxes(-1, -2))
    slope = weights * (dots - ops.amax(weights * dots, -1, True)) * SCALE
    return (ops.matmul(slope, k), ops.matmul(slope.swapaxes(-1, -2), q),
            ops.matmul(weights.swapaxes(-1, -2), out))


@pytest.mark.parametrize("function", [returned, ms.grad(twice), with_largest],
                         ids=["weights", "second", "largest"])
def test_what_is_left_to_other_kernels(function: Any) -> None:
    given = random((1, 2, 20, 8))
    graph = traced(function, given)
    assert not is_online(graph, SM90)
    found, want = run_fast(EmulatedDevice(), graph, given), run_fast_separately(graph, given)
    for a, b in zip(found, want, strict=True):
        assert is_near(a, wide(b), float32)


def test_as_users_ask_for_it() -> None:
    """A gradient on an emulated GPU under fast numerics, near that of separate ops in PyNative."""
    given, found = random((2, 2, 70, 16)), []
    try:
        for mode in (ms.GRAPH_MODE, ms.PYNATIVE_MODE):
            with knobs.override(gpu="emulated"):
                ms.set_context(mode=mode, device_target="GPU", numerics="fast")
                gradient = ms.grad(causal_loss, (0, 1, 2))
                call = ms.jit(gradient) if mode == ms.GRAPH_MODE else gradient
                found.append([g.asnumpy() for g in call(*map(ms.Tensor, given))])
    finally:
        ms.set_context(device_target="CPU", numerics="strict")
    assert all(is_near(a, wide(b), float32) for a, b in zip(*found, strict=True))
    assert not same(*found)


def test_strict_numerics_know_nothing_of_it() -> None:
    graph = traced(ms.grad(plain_loss, (0, 1, 2)), random((1, 2, 20, 8)))
    assert not any("online" in label for label in labels(graph, SM90))


@pytest.mark.parametrize("loss", [plain_loss, causal_loss])
def test_memory_is_linear(loss: Any) -> None:
    """Of a training step: neither weights nor scores are stored, nor a mask."""
    def arena(n: int, numerics: str) -> int:
        report = Report()
        given = [np.zeros((1, 2, n, 8), np.float32)] * 3
        compile_program(traced(ms.grad(loss, (0, 1, 2)), given), SM90, report=report,
                        use_cache=False, numerics=numerics)
        return report.arena_bytes

    assert arena(1024, "fast") < 2.1 * arena(512, "fast") < 512 * 512
    assert arena(512, "strict") > 4 * 512 * 512


# --- what requests move, and code ---------------------------------------------------------------


@pytest.mark.parametrize("dtype", [float32, bfloat16], ids=str)
def test_accesses(dtype: DType) -> None:
    """No bank is met twice, no thread races with another, few sectors are moved in vain."""
    graph = traced(ms.grad(plain_loss, (0, 1, 2)), given := random((1, 2, 64, 64), dtype))
    device = CheckedDevice(CHECKED["checked-sm_90a"], capacity=1 << 22)
    run_fast(device, graph, given)
    accesses = device.accesses()
    assert not accesses.lost and not accesses.faults()
    shared, moved = accesses.shared_traffic(), accesses.global_traffic()
    assert shared.moved == shared.least > 0
    # Four lanes store 16 bytes of a row of 16-bit floats: half a sector.
    assert moved.moved < (1.2 if dtype is float32 else 1.4) * moved.least


@pytest.mark.parametrize("dtype", [float32, float16], ids=str)
@pytest.mark.parametrize("loss", [plain_loss, causal_loss])
def test_races(loss: Any, dtype: DType) -> None:
    """With tails, and with less shared memory than two stages take."""
    graph = traced(ms.grad(loss, (0, 1, 2)), given := random((1, 2, 70, 20), dtype))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(attention_online, "aligned", lambda vectors, plain: vectors)
        patch.setattr(online, "most_shared", lambda _: (24 if dtype is float32 else 14) << 10)
        device = CheckedDevice(CHECKED["checked-sm_90a"], seed=2, capacity=1 << 22)
        found = run_fast(device, graph, given)
    assert not device.accesses().lost and not device.accesses().faults()
    hidden = causal(70, 70) if loss is causal_loss else None
    want = gradients(*given, weights_of(given[0], given[1], hidden, fill=-1e300))
    assert all(is_near(a, b, dtype) for a, b in zip(found, want, strict=True))


@needs_ptxas
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("dtype", [float32, float16], ids=str)
@pytest.mark.parametrize("size", [16, 33, 64, 128, 256])
def test_no_spills(size: int, dtype: DType, architecture: str) -> None:
    """Forward and gradient."""
    given = random((4, 2, 512, size), dtype)
    graph = traced(ms.grad(plain_loss, (0, 1, 2)), given)
    for cubin in assembled(graph, architecture, "fast"):
        assert not cubin.spill_bytes
