"""Convolutions by tensor cores on emulated GPUs: the order of sums to the bit, any cut."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest

from cellc_compiler.backends.cuda import epilogues
from cellc_compiler.backends.cuda.code import KernelCode
from cellc_compiler.backends.cuda.kernels import implicit, implicit_wgmma, mma
from cellc_compiler.backends.cuda.kernels.product import Product
from cellc_compiler.backends.cuda.rules import implicit as rules
from cellc_compiler.backends.cuda.rules.images import Geometry
from cellc_compiler.backends.cuda.tensor_cores import TensorCoreFunction
from cellc_compiler.driver import compile_program
from cellc_compiler.ir.graph import Graph
from cellc_compiler.lower.plan import operand
from cellc_runtime.cuda.emulated import EmulatedDevice
from cellc_runtime.dtypes import DType, bfloat16, float16, float32
from cellc_runtime.executable import Executable
from cellc_runtime.records import replace
from cellc_runtime.target import CHECKED, EMULATED, Target

from .accesses import CheckedDevice
from .emulation import using
from .tensor_core_programs import cut, tf32
from .test_convolutions import CASES as SMALL
from .test_convolutions import KINDS, ONES, Conv, graph_of
from .tiled import ARCHITECTURES, assembled, drawn, needs_ptxas, run_cpu, run_on, same

Array = np.ndarray[Any, Any]
SM80, SM90 = EMULATED["emulated-sm_80"], EMULATED["emulated-sm_90a"]
CASES = {
    **{name: SMALL[name] for name in (
        "plain", "border", "stride", "all at once", "pointwise", "pointwise stride",
        "dilation and groups", "large taps", "taps that miss", "dilation in the stride",
        "one row")},
    "many channels": Conv(2, 16, (8, 8), 160, (3, 3), pads=ONES),
    "pointwise, whole vectors": Conv(2, 24, (8, 8), 32, (1, 1)),
    "pointwise, halves of vectors": Conv(2, 24, (6, 6), 32, (1, 1)),
    "odd channels": Conv(2, 13, (7, 6), 19, (3, 2), pads=ONES),
    "groups of odd channels": Conv(2, 15, (7, 6), 33, (3, 3), (2, 1), ONES, groups=3),
    "segments": Conv(6, 12, (20, 20), 20, (3, 3), pads=ONES),
    "segments of few channels": Conv(5, 3, (20, 20), 20, (3, 3), pads=ONES),
}


def reference(kind: str, c: Conv, arrays: list[Array]) -> Array:
    """What the emulator promises: k goes by taps and channels (a weight's gradient: by images and
    places, cut in segments that are added in order), one fused multiply-add after the other."""
    dtype = arrays[0].dtype
    x, w = (tf32(a).astype(np.float64) if a.dtype == np.float32 else a.astype(np.float64)
            for a in arrays)
    how = {"forward": _forward, "data": _data, "weight": _weight}[kind]
    found: Array = how(c, x, w).astype(dtype)
    return found


def _taps(c: Conv) -> Iterator[tuple[int, int]]:
    return product(range(c.taps[0]), range(c.taps[1]))


def _padded(c: Conv, x: Array) -> Array:
    top, bottom, left, right = c.pads
    more = [s - 1 for s in c.stride]
    return np.pad(x, ((0, 0), (0, 0), (top, bottom + more[0]), (left, right + more[1])))


def _at(c: Conv, a: int, b: int) -> tuple[slice, slice]:
    """The pixels of a padded image that a tap meets."""
    rows, columns = (
        slice(t * d, t * d + (n - 1) * s + 1, s) for t, d, n, s in zip(
            (a, b), c.dilation, c.out, c.stride, strict=True))
    return rows, columns


def _forward(c: Conv, x: Array, w: Array) -> Array:
    padded, per, ic = _padded(c, x), c.oc // c.groups, c.c // c.groups
    out = np.zeros((c.n, c.oc, *c.out), np.float32)
    for g in range(c.groups):
        own = slice(g * per, (g + 1) * per)
        for (a, b), i in product(_taps(c), range(ic)):
            image = padded[:, g * ic + i][:, *_at(c, a, b)]
            out[:, own] = image[:, None] * w[own, i, a, b][:, None, None] + out[:, own]
    return out


def _data(c: Conv, dy: Array, w: Array) -> Array:
    per, ic = c.oc // c.groups, c.c // c.groups
    out = _padded(c, np.zeros((c.n, c.c, *c.size), np.float32))
    for g in range(c.groups):
        own = slice(g * ic, (g + 1) * ic)
        for (a, b), o in product(_taps(c), range(g * per, (g + 1) * per)):
            part = out[:, own][:, :, *_at(c, a, b)]
            part[...] = dy[:, o, None] * w[o, :, a, b][:, None, None] + part
    top, _, left, _ = c.pads
    return out[:, :, top:top + c.size[0], left:left + c.size[1]]


def _weight(c: Conv, x: Array, dy: Array) -> Array:
    padded, per, ic = _padded(c, x), c.oc // c.groups, c.c // c.groups
    out = np.zeros((c.oc, ic, *c.taps), np.float32)
    for g in range(c.groups):
        cotangent = dy[:, g * per:(g + 1) * per].transpose(1, 0, 2, 3).reshape(per, -1)
        columns = np.stack([
            padded[:, g * ic + i][:, *_at(c, a, b)].ravel()
            for i, (a, b) in product(range(ic), _taps(c))])
        total: Array | None = None
        cut = segment(c) or cotangent.shape[1]
        for first in range(0, cotangent.shape[1], cut):
            held = np.zeros((per, len(columns)), np.float32)
            for k in range(first, min(first + cut, cotangent.shape[1])):
                held = (cotangent[:, k, None] * columns[None, :, k] + held).astype(np.float32)
            total = held if total is None else total + held
        assert total is not None
        out[g * per:(g + 1) * per] = total.reshape(per, ic, *c.taps)
    return out


def segment(c: Conv, dtype: DType = bfloat16) -> int:
    """Steps of k of a segment of the weights' gradient."""
    g = Geometry(c.n, c.c, c.size, c.oc // c.groups, c.c // c.groups, c.taps, c.out, c.groups,
                 c.stride, c.dilation, c.pads)
    return rules.weight_implicit(g, dtype, operand(0), operand(1)).products[0].segment


def rows(kind: str, c: Conv) -> int:
    """Rows of the product: tensor cores take no few of them."""
    return (c.c if kind == "data" else c.oc) // c.groups


def check(kind: str, c: Conv, dtype: DType, target: Target = SM90, seed: int = 0,
          graph: Graph | None = None) -> None:
    """The emulator's bits."""
    made, shapes = graph_of(kind, c, dtype)
    arrays = drawn(shapes, dtype, seed)
    device = EmulatedDevice(target, seed)
    assert same(run_on(device, graph or made, arrays), [reference(kind, c, arrays)])


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("kind", KINDS)
def test_bits(kind: str, name: str) -> None:
    """Borders, strides, dilations, groups, channels that are no whole vectors."""
    c = CASES[name]
    if rows(kind, c) > 8:
        check(kind, c, float16, seed=2)
        check(kind, c, bfloat16, SM80)


def test_the_cases_meet_each_way() -> None:
    """Products of matrices, operands as they lie and repacked, segments, columns of zeros."""
    assert segment(CASES["segments"]) > 0 and segment(CASES["segments of few channels"]) > 0
    assert segment(CASES["border"]) == 0


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("tile", [mma.LARGE, mma.SMALL, mma.FLAT, mma.TALL], ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_tiles(
    kind: str, tile: mma.MmaTile, whole: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each tile, and the kernel for pointers that are not aligned, gives the same bits."""
    kernel = implicit_wgmma.implicit_kernel

    def made(p: Product, target: Target, epilogue: None = None) -> KernelCode:
        code = kernel(p, target, epilogue, tile)
        assert code.otherwise is not None
        return code if whole else code.otherwise

    monkeypatch.setattr(rules, "implicit_kernel", made)
    for name in ("many channels", "pointwise, halves of vectors", "groups of odd channels"):
        check(kind, CASES[name], bfloat16)


@pytest.mark.parametrize("tile", [implicit_wgmma.SQUARE, implicit_wgmma.LOW], ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_tiles_of_wgmma(
    kind: str, tile: mma.MmaTile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each tile, with operands along k and across it."""
    kernel = implicit_wgmma.implicit_kernel
    monkeypatch.setattr(rules, "implicit_kernel", lambda p, target, epilogue=None: kernel(
        p, target, epilogue, wide=tile))
    for name in ("many channels", "pointwise, halves of vectors", "groups of odd channels"):
        check(kind, CASES[name], float16)


@pytest.mark.parametrize("target", [SM80, SM90], ids=["sm_80", "sm_90a"])
@pytest.mark.parametrize("kind", KINDS)
def test_any_order_of_threads(kind: str, target: Target) -> None:
    for seed in range(1, 4):
        check(kind, CASES["many channels"], bfloat16, target, seed)


@pytest.mark.parametrize("name", ["border", "stride", "pointwise, halves of vectors",
                                  "groups of odd channels", "segments of few channels"])
@pytest.mark.parametrize("kind", KINDS)
def test_accesses(kind: str, name: str) -> None:
    """Nothing outside, no race, no bank conflict."""
    c = replace(CASES[name], n=2)
    graph, shapes = graph_of(kind, c, bfloat16)
    device = CheckedDevice(CHECKED["checked-sm_90a"], seed=5, capacity=1 << 22)
    run_on(device, graph, drawn(shapes, bfloat16))
    accesses = device.accesses()
    assert not accesses.lost and not accesses.outside.any() and not accesses.races()
    shared = accesses.shared_traffic()
    assert shared.moved == shared.least


def test_weights_that_are_infinite_meet_the_border() -> None:
    """What is outside is 0, and is multiplied; channels that fill vectors up are not."""
    c = CASES["odd channels"]
    graph, shapes = graph_of("forward", c, float16)
    x, w = drawn(shapes, float16)
    w[3, 2, 0, 0] = np.inf
    with np.errstate(all="ignore"):
        want = reference("forward", c, [x, w])
    assert np.isnan(want).any() and same(run_on(EmulatedDevice(SM90), graph, [x, w]), [want])


@pytest.mark.parametrize("name", ["border", "stride", "pointwise, whole vectors",
                                  "pointwise, halves of vectors", "segments of few channels"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("target", [SM80, SM90], ids=["sm_80", "sm_90a"])
def test_epilogues(
    target: Target, kind: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What follows is computed in the stores, on rounded elements: the bits of the ops alone."""
    fused: list[object] = []
    emit = epilogues.EpiloguePattern.emit

    def noted(self: epilogues.EpiloguePattern, *args: Any) -> None:
        fused.append(args)
        emit(self, *args)

    monkeypatch.setattr(epilogues.EpiloguePattern, "emit", noted)
    c = CASES[name]
    graph, shapes = graph_of(kind, c, bfloat16, relu=True)
    arrays = drawn(shapes, bfloat16)
    want = np.maximum(reference(kind, c, arrays), np.zeros((), arrays[0].dtype))
    assert same(run_on(EmulatedDevice(target), graph, arrays), [want])
    assert len(fused) == 1 or rows(kind, c) <= 8


# --- fast numerics --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [
    "border", "all at once", "pointwise, whole vectors", "odd channels", "groups of odd channels",
    "segments", "many channels"])
@pytest.mark.parametrize("kind", KINDS)
def test_fast_convolutions_of_float32(kind: str, name: str) -> None:
    """TF32: the emulator's bits, and near the exact sums; strict numerics have the CPU's bits."""
    c = CASES[name]
    graph, shapes = graph_of(kind, c, float32)
    arrays = drawn(shapes, float32)
    found = fast(graph, arrays, SM80)
    exact = reference(kind, c, [a.astype(np.float64) for a in arrays])
    size = reference(kind, c, [np.abs(a).astype(np.float64) for a in arrays])
    assert (np.abs(found - exact) <= size * 2.0**-10).all()
    assert same([found], run_cpu(graph, arrays)) == (rows(kind, c) <= 8)
    if rows(kind, c) > 8:
        assert same([found], [reference(kind, c, arrays)])
        # `wgmma` cuts what `mma.sync` rounds.
        assert same([fast(graph, arrays, SM90)], [found]) or same(
            [fast(graph, arrays, SM90)], [reference(kind, c, [cut(a) for a in arrays])])
    assert same(run_on(EmulatedDevice(SM80), graph, arrays), run_cpu(graph, arrays))


def fast(graph: Graph, arrays: list[Array], target: Target) -> Array:
    """What a graph gives under fast numerics."""
    with using(EmulatedDevice(target)):
        program = compile_program(graph, target, use_cache=False, numerics="fast")
        return np.asarray(Executable(program).call(arrays)[0].numpy())


# --- faults ---------------------------------------------------------------------------------------


def _stage_twisted(patch: pytest.MonkeyPatch) -> None:
    stage = mma.MmaTiles._stage
    patch.setattr(mma.MmaTiles, "_stage", lambda self, out, total: stage(
        self, out, [*total[2:], *total[:2]]))


def _distances(patch: pytest.MonkeyPatch) -> None:
    made = TensorCoreFunction.descriptor
    patch.setattr(TensorCoreFunction, "descriptor", lambda self, place, leading, stride: made(
        self, place, leading, 2 * stride))


def _fetched_into_the_stage_that_is_read(patch: pytest.MonkeyPatch) -> None:
    fetch = mma.MmaTiles.fetch
    patch.setattr(mma.MmaTiles, "fetch", lambda self, k, stage: fetch(self, k, self.next(stage)))


def _nothing(owner: Any, name: str) -> Callable[[pytest.MonkeyPatch], None]:
    return lambda patch: patch.setattr(owner, name, lambda self, *args: None)


FAULTS: dict[str, tuple[Callable[[pytest.MonkeyPatch], None], str, str]] = {
    "no border": (lambda patch: patch.setattr(implicit.Operand, "inside", lambda self, at: None),
                  "forward", "border"),
    "rows past the last": (lambda patch: patch.setattr(implicit, "extent", lambda of: 1 << 20),
                           "forward", "pointwise, halves of vectors"),
    "vectors where there are none": (lambda patch: patch.setattr(
        implicit, "_whole", lambda *_: True), "forward", "pointwise"),
    "barrier dropped": (_nothing(TensorCoreFunction, "barrier"), "data", "many channels"),
    "copies not waited for": (
        _nothing(TensorCoreFunction, "wait_copies"), "forward", "many channels"),
    "columns exchanged": (_stage_twisted, "forward", "border"),
    "stage filled while it is read": (
        _fetched_into_the_stage_that_is_read, "forward", "many channels"),
    "segments not counted": (lambda patch: patch.setattr(rules, "_segment", lambda *_: 64),
                             "weight", "many channels"),
}
WGMMA_FAULTS: dict[str, tuple[Callable[[pytest.MonkeyPatch], None], str, str]] = {
    "barrier dropped": FAULTS["barrier dropped"],
    "copies not waited for": FAULTS["copies not waited for"],
    "stage filled while it is read": FAULTS["stage filled while it is read"],
    "products not waited for": (
        _nothing(TensorCoreFunction, "wait_products"), "forward", "many channels"),
    "no fence before products": (
        _nothing(TensorCoreFunction, "fence_products"), "forward", "many channels"),
    "stride of descriptors": (_distances, "forward", "many channels"),
    "panels missing": (lambda patch: patch.setattr(
        implicit_wgmma, "_PANEL", 0), "weight", "many channels"),
}


@pytest.mark.parametrize(("fault", "name"), [
    *((fault, "sm_80") for fault in FAULTS), *((fault, "sm_90a") for fault in WGMMA_FAULTS)])
def test_faults_are_found(fault: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each fault gives wrong bits, an access outside, a race, or an error of the emulator's."""
    plant, kind, case = (FAULTS if name == "sm_80" else WGMMA_FAULTS)[fault]
    c = CASES[case]
    graph, shapes = graph_of(kind, c, bfloat16)
    arrays = drawn(shapes, bfloat16)
    want = [reference(kind, c, arrays)]
    target = EMULATED[f"emulated-{name}"]
    assert same(run_on(EmulatedDevice(target), graph, arrays), want)
    plant(monkeypatch)
    device = CheckedDevice(CHECKED[f"checked-{name}"], seed=1, capacity=1 << 22)
    try:
        found = not same(run_on(device, graph, arrays), want)
    except RuntimeError as error:
        assert "on the emulated GPU failed" in str(error)
        return
    assert found or device.accesses().outside.any() or device.accesses().races()


# --- code -----------------------------------------------------------------------------------------

ASSEMBLED = [
    Conv(32, 64, (56, 56), 64, (3, 3), pads=ONES),
    Conv(32, 256, (14, 14), 256, (3, 3), (2, 2), ONES),
    Conv(32, 256, (56, 56), 64, (1, 1)),
    Conv(32, 256, (14, 14), 64, (1, 1)),
    Conv(32, 3, (224, 224), 64, (7, 7), (2, 2), (3, 3, 3, 3)),
    Conv(32, 128, (28, 28), 128, (3, 3), pads=ONES, groups=4),
]


@needs_ptxas
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_assembled(architecture: str, kind: str) -> None:
    """Nothing is spilled, and ptxas waits for no product."""
    for c in ASSEMBLED:
        graph, _ = graph_of(kind, c, bfloat16, relu=True)
        for cubin in assembled(graph, architecture):
            assert (cubin.spill_bytes, cubin.stack, cubin.warnings) == (0, 0, ())
