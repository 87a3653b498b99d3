"""Sorts, scatters and running reductions by blocks: the CPU's bits, and nothing that a GPU would
not do; faults planted in them are found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from cellc_compiler import driver
from cellc_compiler.backends.cuda.build import variants
from cellc_compiler.backends.cuda.kernels import scan, sort
from cellc_compiler.backends.cuda.kernels import scatter as scattering
from cellc_compiler.backends.cuda.rules import scatter as rules
from cellc_compiler.backends.cuda.rules.table import RULES
from cellc_compiler.backends.cuda.writer import GpuFunction
from cellc_compiler.backends.llvm.math.lanes import X
from cellc_compiler.backends.llvm.text import V, sizeof
from cellc_compiler.backends.plain import running as plain_running
from cellc_compiler.build import objects, ptxas
from cellc_compiler.ir.text import parse_graph
from cellc_compiler.loops import order
from cellc_compiler.lower.instructions import Call, walk
from cellc_runtime.target import CUDA

from .block_programs import faults_of, make_small, running, scatter, scatter_lines, sorting

SORTS = [sorting("float32", 1, 300), sorting("float16", 3, 100, True), sorting("bfloat16", 2, 65),
         sorting("float64", 2, 277), sorting("int8", 1, 500, True), sorting("int64", 5, 3),
         sorting("uint32", 1, 1), sorting("bool", 2, 130, True), sorting("uint64", 3, 64)]
MODES = ("update", "add", "sub", "mul", "div", "max", "min")
SCATTERS = [g(dtype, mode) for g in (scatter, scatter_lines)
            for dtype in ("float32", "bfloat16", "int8", "int32", "uint64") for mode in MODES]
SCATTERS += [g("complex64", mode) for g in (scatter, scatter_lines) for mode in ("update", "add")]
SCATTERS += [scatter("bool", "update"), scatter("float32", "add", 300, 9, "uint8"),
             scatter("float32", "add", 17, 40)]
_WAYS = [f"exclusive={e}, reverse={r}" for e in (False, True) for r in (False, True)]
RUNS = [running(op, dtype, shape, way) for op in ("cumsum", "cumprod")
        for dtype, shape in (("float32", (1, 303, 1)), ("float16", (2, 100, 3)),
                             ("int8", (1, 70, 2))) for way in _WAYS]
RUNS += [running(op, dtype, shape) for op in ("cummax", "cummin")
         for dtype, shape in (("float32", (1, 303, 1)), ("int64", (2, 100, 3)),
                              ("uint8", (1, 70, 2)))]
RUNS += [running("logcumsumexp", "float32", (2, 100, 3)),
         running("logcumsumexp", "float16", (1, 33, 1)),
         running("linear_recurrence", "float32", (2, 100, 3), "reverse=True")]


@pytest.fixture
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    make_small(monkeypatch)


@pytest.mark.usefixtures("_small")
@pytest.mark.parametrize("text", [*SORTS, *SCATTERS, *RUNS])
def test_small_tiles(text: str) -> None:
    """Several tiles, chunks and runs."""
    assert not faults_of(text)


LARGE = [sorting("float32", 1, 3000), sorting("float64", 2, 2100, True), sorting("int16", 40, 17),
         running("cumsum", "float32", (1, 3001, 1), _WAYS[0]),
         running("cummax", "float32", (2, 1030, 3)), scatter("float16", "add", 1500, 9)]


@pytest.mark.parametrize("text", LARGE)
def test_as_they_are(text: str) -> None:
    assert not faults_of(text, 0)


def test_order_of_running_sums() -> None:
    """Runs follow from the extent; short lines are one."""
    assert [order.scan_run(n) for n in (1, 1023, 1024, 1 << 16, 1 << 20)] == [
        1, 1023, 128, 256, 1024]


@pytest.mark.skipif(ptxas.find() is None, reason="no ptxas")
@pytest.mark.parametrize("target", CUDA)
def test_assembled(target: str) -> None:
    """For each architecture, without spills."""
    texts = [sorting("float32", 1, 300000), sorting("int64", 2, 5000), sorting("int8", 9, 9),
             scatter("float32", "add", 3000), scatter("int32", "max"), scatter("uint64", "add"),
             scatter("bfloat16", "update"), scatter_lines("complex64", "add"),
             running("cumsum", "float32", (1, 5000, 3), _WAYS[0]),
             running("cummin", "float16", (1, 5000, 3)),
             running("logcumsumexp", "float32", (1, 50, 3))]
    codes: set[str] = set()
    for text in texts:
        lowered = driver.lower(
            driver.optimize(parse_graph(text), target=CUDA[target]), CUDA[target])
        for call in walk(lowered.instructions):
            if isinstance(call, Call):
                codes |= {c.text for c in variants(call.kernel.code)}
    for ptx in objects.compile_texts(sorted(codes), CUDA[target]):
        assert not ptxas.assemble(ptx.decode(), CUDA[target].cpu).spill_bytes


# --- faults ---------------------------------------------------------------------------------------

_NETWORK = sort._network
_DIAGONAL, _BEFORE, _SEGMENT = sort._diagonal, sort._before, scattering.ScatterByBlocks._segment
_BOUNDS, _PLACE, _EXCHANGE = scan._run_bounds, scattering.ScatterByBlocks.place, sort._exchange
_ENTRY = scattering.ScatterByBlocks._entry


def _network_without_barriers(f: Any, *args: Any) -> None:
    """Elsewhere what is left out might be read from anywhere."""
    f.barrier = lambda: None
    _NETWORK(f, *args)
    del f.barrier


def _no_warp_barrier(f: GpuFunction) -> None:
    f.collective = True


def _diagonal_off(f: GpuFunction, *args: Any) -> X:
    return _DIAGONAL(f, *args) + 1


def _one_early(f: GpuFunction, ty: str, room: V, own: X, first: X, end: X) -> X:
    return _BEFORE(f, ty, room, own, first, end - 1)


def _always_up(f: GpuFunction, low: V, high: V, ty: str, down: X) -> None:
    _EXCHANGE(f, low, high, ty, down ^ down)


def _not_atomic(f: GpuFunction, op: str, value: V, ptr: V) -> None:
    """Read, change, write."""
    old = X(f, f.load(value.ty, ptr))
    new = old + X(f, value) if op == "add" else old.call("smax", X(f, value))
    f.store(new.v, ptr)


def _other_atomic(f: GpuFunction, op: str, value: V, ptr: V) -> None:
    """The first update wins."""
    f.emit(value.ty, f"atomicrmw umin {ptr}, {value} monotonic")
    assert sizeof(value.ty) == 4


def _positions_left_out(self: Any, f: GpuFunction, number: X, s: X) -> X:
    """Updates of a place in the order that a network happens to leave."""
    entry = _ENTRY(self, f, number, s)
    return (entry & -(1 << 32)) | (X(f, f.i64(self.count - 1)) - s)


def _everyone(self: Any, f: GpuFunction, number: X, rank: X, column: X, place: X,
              entry: Callable[[X], X]) -> None:
    """Threads begin one entry further."""
    _SEGMENT(self, f, number, (rank + 1).cmp("slt", self.count).where(rank + 1, rank), column,
             place, entry)


def _outside_too(self: Any, f: GpuFunction, number: X, s: X, indices: V) -> tuple[X, X]:
    index, inside = _PLACE(self, f, number, s, indices)
    return index, inside | ~inside


def _one_further(s: scan.Scan, run: X) -> tuple[X, X]:
    begin, end = _BOUNDS(s, run)
    return begin, end + 1



def _keeps(self: Any, f: GpuFunction, held: Any, later: Any) -> Any:
    """Of equal extremes the first."""
    old, new = held[0], later[0]
    better = f.compare("lt", self.dtype, old, new)
    return [better.where(b, a) for a, b in zip(held, later, strict=True)]


# Two whole tiles and one pass: a place that nobody wrote is no position of an element.
_SORT, _SUM = sorting("float32", 1, 128), running("cumsum", "float32", (1, 303, 1), _WAYS[0])
FAULTS: dict[str, tuple[str, Any, str, Any]] = {
    "no barrier between steps of a network": (_SORT, sort, "_network", _network_without_barriers),
    "no barrier of a warp": (_SORT, GpuFunction, "warp_barrier", _no_warp_barrier),
    "pairs that all go up": (_SORT, sort, "_exchange", _always_up),
    "a diagonal off by one": (_SORT, sort, "_diagonal", _diagonal_off),
    "a place in the other run off by one": (_SORT, sort, "_before", _one_early),
    "sums that are not atomic": (scatter("int32", "add"), GpuFunction, "atomic", _not_atomic),
    "the first update wins": (scatter("float32", "update"), GpuFunction, "atomic", _other_atomic),
    "updates in another order": (scatter("float32", "add"), scattering.ScatterByBlocks, "_entry",
                                 _positions_left_out),
    "a segment that begins one further": (scatter("float32", "mul"), scattering.ScatterByBlocks,
                                          "_segment", _everyone),
    "updates outside of the axis": (scatter("int32", "add"), scattering.ScatterByBlocks, "place",
                                    _outside_too),
    "runs one too long": (_SUM, scan, "_run_bounds", _one_further),
    "the first of equal extremes": (running("cummax", "int64", (1, 303, 1)),
                                    plain_running._Extreme, "join", _keeps),
}


@pytest.mark.usefixtures("_small")
@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under one of a few orders of threads."""
    text, where, name, wrong = FAULTS[fault]
    assert not faults_of(text, 0)
    monkeypatch.setattr(where, name, wrong)
    assert any(faults_of(text, seed) for seed in range(4)), fault


def test_few_updates_are_a_threads() -> None:
    """Plain loops: a sort would take longer."""
    rule = RULES.find("scatter")
    assert rule is not None
    (node,) = parse_graph(scatter("float32", "add", rules.FEW)).nodes
    assert rule(node, CUDA["cuda-sm_90a"]) is None
