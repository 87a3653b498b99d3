"""Faults planted in the kernels of attention are found: by an error, by accesses or by bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from cellc_compiler.backends import masks
from cellc_compiler.backends.cuda import attention as rules
from cellc_compiler.backends.cuda.kernels import attention as kernels
from cellc_compiler.backends.cuda.kernels import attention_mma as mma
from cellc_compiler.backends.cuda.kernels import loaders
from cellc_compiler.backends.cuda.nests import rows
from cellc_compiler.backends.cuda.tensor_cores import TensorCoreFunction
from cellc_compiler.backends.cuda.writer import GpuFunction
from cellc_compiler.backends.llvm.math.lanes import X
from cellc_compiler.backends.llvm.text import V
from cellc_compiler.ir.graph import Graph
from cellc_runtime.cuda.emulated import EmulatedDevice
from cellc_runtime.dtypes import bfloat16
from cellc_runtime.target import CHECKED

from .accesses import CheckedDevice
from .attention_programs import arrays, attention, separate
from .tiled import run_on, same

Array = np.ndarray[Any, Any]

TAILS = attention((33, 20), (45, 20), (45, 36))
CAUSAL = attention((300, 8), (300, 8), (300, 8), mask="causal")
HALVES = attention((33, 72), (150, 72), (150, 72), dtype=bfloat16)
LONG = attention((4, 8), (2100, 8), (2100, 8), dtype=bfloat16, mask="none")

_LOADER, _MULTIPLY = loaders.Loader.__init__, kernels._Product._multiply
_MULTIPLIED, _ADDED, _FOLDED = mma._MmaProduct.multiplied, mma._MmaProduct.added, rows.Warps.folded


def _no_barrier(f: GpuFunction) -> None:
    f.collective = True


def _sooner(*given: Any) -> int:
    """A query does not see itself."""
    return masks.keys_seen(*given) - 200


def _no_neutral(self: Any, f: Any, operand: Any, pointer: V, how: Any, ty: str, neutral: Any
                ) -> None:
    """What is behind the last key is read as if it were there."""
    _LOADER(self, f, operand, pointer, how, ty, None)


def _first_stage(self: Any, step: X, stage: X, sums: list[V]) -> list[V]:
    """The tile that is multiplied is always the first."""
    return _MULTIPLY(self, step, stage.const(0), sums)


def _stale_stage(self: Any, stage: X, k: X, total: list[V]) -> list[V]:
    """The tile of the ring before the present one."""
    return _MULTIPLIED(self, (stage + 2).op("urem", mma.STAGES), k, total)


def _own_maximum(self: Any, reduce: Any, values: list[V], chains: int) -> list[V]:
    """A lane takes the maximum of what it has itself."""
    return values if reduce.kind == "max" else _FOLDED(self, reduce, values, chains)


def _nothing(*args: Any) -> None:
    """Nothing."""


def _junk(self: Any) -> V:
    """Something stands behind a row."""
    return V("i16", "32640") if self.memory == "i16" else self.f.const(self.memory, float("inf"))


def _last_segment(self: Any, at: Any, total: list[V], sums: list[V]
                  ) -> tuple[list[V], list[V]]:
    """A segment takes the place of those before."""
    return _ADDED(self, at, total, [self.f.const("float", -0.0)] * len(sums))


def _same_line(line: X) -> X:
    """All rows of a tile are swizzled alike."""
    return line & 0


def _next_matrix(self: Any, at: V, flat: V) -> None:
    """The nest is that of the row behind."""
    self.at = at
    self.pointers.update((b, at) for b in self.beside)
    self.begin(self.f.add(flat, V("i32", "1")))


FAULTS: dict[str, tuple[Graph, Any, str, Callable[..., Any]]] = {
    "no barriers": (TAILS, GpuFunction, "barrier", _no_barrier),
    "no barriers, by tensor cores": (HALVES, GpuFunction, "barrier", _no_barrier),
    "a mask that hides too much": (CAUSAL, rules, "keys_seen", _sooner),
    "a tail that is read": (TAILS, loaders.Loader, "__init__", _no_neutral),
    "junk behind queries and weights": (TAILS, kernels.AttentionKernel, "behind", _junk),
    "junk behind those of tensor cores": (HALVES, mma.AttentionMmaKernel, "behind", _junk),
    "the wrong tile": (TAILS, kernels._Product, "_multiply", _first_stage),
    "the wrong stage of the ring": (HALVES, mma._MmaProduct, "multiplied", _stale_stage),
    "a maximum of one lane": (TAILS, rows.Warps, "folded", _own_maximum),
    "copies that nobody waits for": (HALVES, TensorCoreFunction, "wait_copies", _nothing),
    "a segment alone": (LONG, mma._MmaProduct, "added", _last_segment),
    "lines at the same bank": (HALVES, mma._MmaProduct, "_swizzle", staticmethod(_same_line)),
    "the row behind": (TAILS, kernels._BlockRows, "on_row", _next_matrix),
    "lanes that read what another has written": (TAILS, GpuFunction, "warp_barrier", _nothing),
}
_WANTED: dict[int, list[Array]] = {}


def _want(graph: Graph) -> list[Array]:
    """What separate kernels give."""
    if id(graph) not in _WANTED:
        with separate():
            _WANTED[id(graph)] = run_on(EmulatedDevice(), graph, arrays(graph))
    return _WANTED[id(graph)]


def _found(graph: Graph, seed: int) -> list[str]:
    """What tells of a fault."""
    large = graph in (CAUSAL, LONG)  # too many accesses to look at
    device = EmulatedDevice(seed=seed) if large else CheckedDevice(
        CHECKED["checked-sm_90a"], seed, capacity=1 << 21)
    try:
        got = run_on(device, graph, arrays(graph))
    except RuntimeError as error:
        return [str(error)]
    bits = [] if same(got, _want(graph)) else ["other bits"]
    if not isinstance(device, CheckedDevice):
        return bits
    accesses = device.accesses()
    assert not accesses.lost
    shared = accesses.shared_traffic()
    # Rows of odd lengths meet at a few banks.
    banks = ["banks"] if shared.moved > 1.02 * shared.least else []
    return bits + accesses.faults() + banks


@pytest.mark.parametrize("graph", [TAILS, CAUSAL, HALVES, LONG], ids=[
    "tails", "causal", "halves", "long"])
def test_right_kernels(graph: Graph) -> None:
    """Nothing is found where nothing is wrong."""
    assert not _found(graph, 0)


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under one of a few orders of threads."""
    graph, where, name, wrong = FAULTS[fault]
    _want(graph)
    monkeypatch.setattr(where, name, wrong)
    assert any(_found(graph, seed) for seed in range(3)), fault
