"""Faults planted in the kernels of online attention are found: by an error, accesses or results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc_compiler.backends.cuda import attention_formulas as formulas
from cellc_compiler.backends.cuda.kernels import attention_backward as backward
from cellc_compiler.backends.cuda.kernels import attention_online as online
from cellc_compiler.backends.cuda.tensor_cores import TensorCoreFunction
from cellc_compiler.backends.cuda.writer import GpuFunction
from cellc_compiler.backends.llvm.math.lanes import X
from cellc_compiler.loops.expr import Expr, compare
from cellc_runtime.cuda.emulated import EmulatedDevice
from cellc_runtime.dtypes import DType, float16, float32
from cellc_runtime.target import CHECKED

from .accesses import CheckedDevice
from .attention_programs import attention, causal
from .online_programs import (
    Array,
    causal_loss,
    gradients,
    is_near,
    large_blocks,  # noqa: F401 (a fixture)
    plain_loss,
    random,
    run_fast,
    traced,
    weights_of,
)

pytestmark = pytest.mark.usefixtures("large_blocks")
SHAPE = 1, 2, 90, 20
"""More than a tile of keys and of queries, and a part of one."""
_WATCHED = ("no barriers", "copies that nobody waits for")
"""Faults that accesses show; others show in results."""
_INSIDE, _STATS, _FETCH = (online.OnlineKernel.inside, backward.BackwardKernel.stats,
                           online.OnlineKernel.fetch)


def _no_barrier(f: GpuFunction) -> None:
    f.collective = True


def _nothing(*args: Any) -> None:
    """Nothing."""


def _first_tile(self: Any, before: X, scores: list[X]) -> X:
    """The largest score is that of the first tile for ever."""
    own = scores[0]
    for x in scores:
        own = own.call("maxnum", x)
    own = self.over_row(own, lambda p, q: p.call("maxnum", q))
    return before.cmp("oeq", -np.inf).where(own, before)


def _not_rescaled(self: Any, before: X, base: X) -> X:
    """What was summed up to now stays as it is."""
    return base.const(1.0)


def _own_lane(self: Any, value: X, combine: Callable[[X, X], X]) -> X:
    """A lane knows of its own columns alone."""
    return value


def _tail_is_there(self: Any, index: X, count: int, value: X, other: float = 0.0) -> X:
    """Lines behind the last count, too."""
    return value


def _one_too_far(how: str, a: Expr, b: Expr) -> Expr:
    """A query looks at the key behind its own."""
    return compare({"ge": "gt", "lt": "le"}[how], a, b)


def _no_rows(self: Any, query: X) -> tuple[X, X, X]:
    """The sum over a row is taken for 0."""
    largest, scale, row = _STATS(self, query)
    return largest, scale, row * 0.0


def _row_beside(self: Any, query: X) -> tuple[X, X, X]:
    """What is kept of the row behind."""
    return _STATS(self, query + 1)


def _k_in_order(self: Any, weights: list[X], step: int) -> list[Any]:
    """TF32 operands in the order of columns."""
    words = [self.f.cast("bitcast", weights[4 * step + i].v, "i32") for i in range(4)]
    return list(self.rounded(words))


def _sees_less(hidden: Any) -> int:
    """Queries look at fewer keys than they do."""
    return -70


def _same_tile(self: Any, plane: Any, pointer: int, tile: Any, first: X, to: Any) -> None:
    """What passes by is always the first tile."""
    _FETCH(self, plane, pointer, tile, first if pointer != 2 else first.const(0), to)


FAULTS: dict[str, tuple[Any, DType, Any, str, Callable[..., Any]]] = {
    "no barriers": (plain_loss, float32, GpuFunction, "barrier", _no_barrier),
    "copies that nobody waits for": (
        plain_loss, float16, TensorCoreFunction, "wait_copies", _nothing),
    "a stale maximum": (plain_loss, float32, online.ForwardKernel, "largest", _first_tile),
    "no rescaling": (plain_loss, float32, online.ForwardKernel, "rescale", _not_rescaled),
    "a maximum and a sum of one lane": (
        plain_loss, float16, online.OnlineKernel, "over_row", _own_lane),
    "the tail of a tile": (plain_loss, float32, online.OnlineKernel, "inside", _tail_is_there),
    "the edge of a mask": (causal_loss, float32, formulas, "compare", _one_too_far),
    "tiles that are left out": (causal_loss, float16, formulas, "last_seen", _sees_less),
    "no sum over the row": (plain_loss, float16, backward.BackwardKernel, "stats", _no_rows),
    "the row behind": (plain_loss, float32, backward.BackwardKernel, "stats", _row_beside),
    "k in another order": (plain_loss, float32, online.OnlineKernel, "_left", _k_in_order),
    "the same values again": (plain_loss, float16, online.OnlineKernel, "fetch", _same_tile),
}


def _given(dtype: DType, grow: bool) -> list[Array]:
    """Arrays; scores that grow by 4 from one key to the next, if asked for."""
    given = random(SHAPE, dtype)
    if grow:
        given[0][..., 0], given[1][..., 0] = 16, np.arange(SHAPE[2])
    return given


def _found(loss: Any, dtype: DType, device: EmulatedDevice, grow: bool = False) -> list[str]:
    """What tells of a fault in a gradient."""
    given = _given(dtype, grow)
    if grow:  # almost all weight is one key's, so gradients are rounding
        graph = attention(*([SHAPE] * 3), dtype=dtype, mask="none")
        (out,) = run_fast(device, graph, given)
        want = weights_of(given[0], given[1]) @ given[2].astype(np.float64)
        return [] if is_near(out, want, dtype) else ["result"]
    graph = traced(ms.grad(loss, (0, 1, 2)), given)
    try:
        found = run_fast(device, graph, given)
    except RuntimeError as error:
        return [str(error)]
    hidden = causal(SHAPE[2], SHAPE[2]) if loss is causal_loss else None
    want = gradients(*given, weights_of(given[0], given[1], hidden, fill=-1e300))
    wrong = [f"result {i}" for i, (a, b) in enumerate(zip(found, want, strict=True))
             if not is_near(a, b, dtype)]
    if not isinstance(device, CheckedDevice):
        return wrong
    assert not device.accesses().lost
    return wrong + device.accesses().faults()


@pytest.mark.parametrize("dtype", [float32, float16], ids=str)
@pytest.mark.parametrize(("loss", "grow"), [
    (plain_loss, False), (causal_loss, False), (plain_loss, True)])
def test_right_kernels(loss: Any, grow: bool, dtype: DType) -> None:
    """Nothing is found where nothing is wrong."""
    assert not _found(loss, dtype, EmulatedDevice(), grow)


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under one of a few orders of threads."""
    loss, dtype, where, name, wrong = FAULTS[fault]
    monkeypatch.setattr(where, name, wrong)
    devices = [EmulatedDevice(seed=seed) for seed in range(2)]
    if fault in _WATCHED:
        devices = [CheckedDevice(CHECKED["checked-sm_90a"], seed, 1 << 22) for seed in range(2)]
    grow = fault == "a stale maximum"
    assert any(_found(loss, dtype, device, grow) for device in devices), fault
