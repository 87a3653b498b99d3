"""Faults planted in the kernels of tensor cores: the emulator finds each, by an error or by wrong
bits, under some order of threads and copies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from cellc_compiler.backends.cuda.kernels import mma, wgmma
from cellc_compiler.backends.cuda.kernels.mma import _MmaKernel
from cellc_compiler.backends.cuda.kernels.wgmma import _WgmmaKernel
from cellc_compiler.backends.cuda.tensor_cores import Pipeline, TensorCoreFunction
from cellc_compiler.backends.llvm.text import V
from cellc_runtime.cuda.emulated import EmulatedDevice
from cellc_runtime.target import Target

from .tensor_core_programs import BF16, SM80, SM90, chains, differing, matmul_graph, operands, run

SEEDS = range(5)
Plant = Callable[[pytest.MonkeyPatch], None]


def without(owner: Any, name: str) -> Plant:
    """A method that writes nothing."""
    return lambda patch: patch.setattr(owner, name, lambda self, *args, **more: None)


def changed(owner: Any, name: str, how: Callable[..., Any]) -> Plant:
    """A method changed: `how(before, self, *args)`."""
    def plant(patch: pytest.MonkeyPatch) -> None:
        before = getattr(owner, name)
        patch.setattr(owner, name, lambda self, *args, **more: how(before, self, *args, **more))

    return plant


def one_lane_less(before: Any, f: TensorCoreFunction, *args: Any) -> Any:
    """The last lane of each warp does not take part."""
    last = f.cmp("ne", f.binary("and", f.thread(), f.i32(31)), f.i32(31))
    return f.when(last, lambda: before(f, *args), lambda: [f.i32(0)] * 4)


def swizzled_wrong(before: Any, kernel: _MmaKernel, o: Any, stage: V, line: V, element: V) -> V:
    """Copies do not swizzle."""
    own = kernel._swizzle
    try:
        kernel._swizzle = lambda o, line: kernel.f.i32(0)  # type: ignore[method-assign]
        return before(kernel, o, stage, line, element)  # type: ignore[no-any-return]
    finally:
        kernel._swizzle = own  # type: ignore[method-assign]


def fetched_into_the_stage_that_is_read(before: Any, kernel: _MmaKernel, k: V, stage: V) -> None:
    """The stage behind the one that is free."""
    before(kernel, k, kernel.next(stage))


MMA: dict[str, Plant] = {
    "barrier dropped": without(TensorCoreFunction, "barrier"),
    "wait dropped": without(TensorCoreFunction, "wait_copies"),
    "wait for one group too few": changed(
        TensorCoreFunction, "wait_copies",
        lambda before, f, but: before(f, but + 1 if but else 0)),
    "group not ended": changed(
        _MmaKernel, "fetch", lambda before, kernel, k, stage: [
            kernel.copy(o, k, stage) for o in kernel.operands]),
    "swizzle of copies missing": changed(_MmaKernel, "_place", swizzled_wrong),
    "fragments in another order": changed(
        TensorCoreFunction, "ldmatrix",
        lambda before, f, place, trans=False: [before(f, place, trans)[i] for i in (0, 2, 1, 3)]),
    "ldmatrix not transposed": changed(
        TensorCoreFunction, "ldmatrix", lambda before, f, place, trans=False: before(f, place)),
    "a lane outside of ldmatrix": changed(TensorCoreFunction, "ldmatrix", one_lane_less),
    "stage filled while it is read": changed(
        _MmaKernel, "fetch", fetched_into_the_stage_that_is_read),
    "columns of a fragment exchanged": changed(
        TensorCoreFunction, "mma",
        lambda before, f, kind, a, b, c: before(f, kind, a, [b[1], b[0]], c)),
    "no zeros behind the end of k": changed(
        TensorCoreFunction, "copy_async",
        lambda before, f, to, source, nbytes, valid: before(f, to, source, nbytes, f.i32(nbytes))),
}


def released_early(before: Any, kernel: _WgmmaKernel, stage: V, total: list[V]) -> list[V]:
    """A stage is given back as its products begin; the right time does nothing."""
    out: list[V] = before(kernel, stage, total)
    f = kernel.f
    f.when(f.cmp("eq", kernel.lane, f.i32(0)), lambda: f.mbarrier_arrive(kernel.empty(stage)))
    return out


def plant_early_release(patch: pytest.MonkeyPatch) -> None:
    changed(_WgmmaKernel, "multiplied", released_early)(patch)
    without(_WgmmaKernel, "release")(patch)


def wait_of(which: str) -> Callable[..., None]:
    """Only the producer (its threads), or only consumers, wait for mbarriers."""
    def how(before: Any, f: TensorCoreFunction, barrier: V, parity: V) -> None:
        test = "ult" if which == "producer" else "uge"
        f.when(f.cmp(test, f.thread(), f.i32(wgmma.GROUP_THREADS)),
               lambda: before(f, barrier, parity))

    return how


def descriptors(leading: int = 1, stride: int = 1) -> Plant:
    """Distances of descriptors multiplied."""
    return changed(TensorCoreFunction, "descriptor",
                   lambda before, f, place, lead, step: before(f, place, lead * leading,
                                                               step * stride))


def next_without_parity(before: Any, f: TensorCoreFunction, now: Pipeline, stages: int) -> Pipeline:
    """The parity stays."""
    return Pipeline(before(f, now, stages).stage, now.parity)


def flat_staging(before: Any, kernel: _WgmmaKernel, values: Sequence[V], place: V) -> None:
    """Columns of the result do not lie swizzled."""
    f = kernel.f
    own = f.binary
    patched = lambda op, a, b: a if op == "xor" else own(op, a, b)  # noqa: E731
    try:
        f.binary = patched  # type: ignore[method-assign]
        before(kernel, values, place)
    finally:
        f.binary = own  # type: ignore[method-assign]


def one_warp_fewer(before: Any, f: TensorCoreFunction, barrier: V, arrivals: int) -> None:
    """A stage is empty when all warps but one say so."""
    before(f, barrier, max(arrivals - 1, 1))


WGMMA: dict[str, Plant] = {
    "mbarriers not set up": without(TensorCoreFunction, "mbarrier_init"),
    "consumers do not wait for a full stage": changed(
        TensorCoreFunction, "mbarrier_wait", wait_of("producer")),
    "producer does not wait for an empty stage": changed(
        TensorCoreFunction, "mbarrier_wait", wait_of("consumers")),
    "stage released before its products are done": plant_early_release,
    "stage never released": without(_WgmmaKernel, "release"),
    "one warp fewer counted": changed(TensorCoreFunction, "mbarrier_init", one_warp_fewer),
    "bytes of a stage missing": changed(
        TensorCoreFunction, "mbarrier_arrive",
        lambda before, f, barrier, nbytes=0: before(f, barrier, nbytes - 128 if nbytes else 0)),
    "bytes of a stage not announced": changed(
        TensorCoreFunction, "mbarrier_arrive", lambda before, f, barrier, nbytes=0: before(
            f, barrier)),
    "parity never changes": changed(TensorCoreFunction, "next_stage", next_without_parity),
    "stride of descriptors": descriptors(stride=2),
    "leading distance of descriptors": descriptors(leading=2),
    "descriptors without swizzle": changed(
        TensorCoreFunction, "descriptor", lambda before, f, place, lead, step: f.binary(
            "and", before(f, place, lead, step), f.i64((1 << 62) - 1))),
    "operands not transposed": changed(
        TensorCoreFunction, "wgmma", lambda before, f, kind, a, b, total, transposed: before(
            f, kind, a, b, total, (False, False))),
    "no fence before products": without(TensorCoreFunction, "fence_products"),
    "group of products not ended": without(TensorCoreFunction, "commit_products"),
    "products not waited for": without(TensorCoreFunction, "wait_products"),
    "result not swizzled": changed(_WgmmaKernel, "stage_columns", flat_staging),
    "threads do not wait before a result is stored": without(_WgmmaKernel, "meet"),
    "stores not waited for": without(TensorCoreFunction, "wait_stores"),
    "a lane outside of a product": changed(
        TensorCoreFunction, "fence_products", lambda before, f: [f.when(f.cmp(
            "ne", f.binary("and", f.thread(), f.i32(31)), f.i32(31)), lambda: before(f)), None][1]),
}

CASES = {
    # The ring of stages goes round, k ends within a step, and several tiles lie beside each other.
    "mma": (MMA, SM80, ((96, 200), (200, 136), False, False)),
    # A block does several tiles; both operands run along their rows.
    "wgmma": (WGMMA, SM90, ((520, 264), (520, 136), True, False)),
}


def outcomes(target: Target, shapes: tuple[Any, ...]) -> list[str]:
    """What is wrong under each seed: "" if nothing."""
    graph, arrays = matmul_graph(*shapes, BF16), operands(*shapes[:2], BF16)
    want, device, out = chains(graph, arrays), EmulatedDevice(target), []
    for seed in SEEDS:
        device.set_state("seed", seed)
        try:
            bad = differing(run(graph, arrays, target, device=device), want)
            out.append(f"{bad} elements" if bad else "")
        except RuntimeError as error:
            assert "on the emulated GPU failed" in str(error)
            out.append(str(error))
    return out


@pytest.fixture(autouse=True)
def few_units(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks do several tiles."""
    monkeypatch.setitem(wgmma.UNITS, "sm_90a", 2)
    monkeypatch.setitem(mma.UNITS, "sm_80", 2)


@pytest.mark.parametrize("kernel", CASES)
def test_without_a_fault_nothing_is_found(kernel: str) -> None:
    _, target, shapes = CASES[kernel]
    assert outcomes(target, shapes) == [""] * len(SEEDS)


@pytest.mark.parametrize(("kernel", "fault"), [(k, f) for k in CASES for f in CASES[k][0]])
def test_faults_are_found(kernel: str, fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    faults, target, shapes = CASES[kernel]
    faults[fault](monkeypatch)
    assert any(outcomes(target, shapes))
