"""Products of open sizes of all element types, and sums along one: few programs serve all sizes,
and the bits are PyNative's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import Tensor, amp, nn, ops
from cellc_compiler.backends.cpu.kernels.gemm import arith, dot, widened

from .test_open_programs import Served, floats, labels
from .test_open_sizes import assert_same, eagerly, traces

pytestmark = pytest.mark.usefixtures("graph_mode")
Fn = Callable[..., Any]
Shapes = Sequence[tuple[int, ...]]

ROWS = (40, 33, 64, 7, 2, 130)
SIZES = [(40, 40, 24), (33, 33, 35), (64, 70, 300), (5, 300, 7), (100, 2, 3), (2, 64, 64)]
LONG = [*SIZES, (2, 1030, 24), (70, 600, 90), (2, 2, 2)]
LENGTHS = [(2, 40), (3, 33), (4, 64), (2, 7), (5, 2), (2, 130)]


def product(dtype: Any) -> Fn:
    return lambda x, y: ops.matmul(x.astype(dtype), y.astype(dtype)).astype(ms.float32)


def gradients(dtype: Any) -> Fn:
    def loss(x: Tensor, w: Tensor) -> Tensor:
        return ops.relu(product(dtype)(x, w)).sum()

    return ms.grad(loss, (0, 1))


def attention(dtype: Any) -> Fn:
    def run(x: Tensor) -> Tensor:
        x = x.astype(dtype)
        weights = ops.softmax(ops.matmul(x, x.swapaxes(1, 2)), -1)
        return ops.matmul(weights, x).astype(ms.float32)

    return run


def complex_product(dtype: Any, turned: bool = False) -> Fn:
    def run(x: Tensor, y: Tensor) -> Tensor:
        x, y = (a.astype(dtype) * (1 - 0.5j) + 0.25j for a in (x, y))
        return ops.matmul(x, y.swapaxes(0, 1) if turned else y)

    return run


def rows(k: int, columns: int) -> list[Shapes]:
    return [[(n, k), (k, columns)] for n in ROWS]


def depths(*shape: int) -> list[Shapes]:
    """What is added up has an open length."""
    return [[(*shape[:-1], k), (k, shape[-1])] for k in ROWS]


CASES: dict[str, tuple[Fn, list[Shapes], int]] = {  # (the last: how many programs serve all)
    **{f"rows, {t.name}": (product(t), rows(96, 48), 1)
       for t in (ms.float16, ms.bfloat16, ms.int8, ms.uint8, ms.int16)},
    **{f"gradients, {t.name}": (gradients(t), rows(96, 48), 1) for t in (ms.float16, ms.bfloat16)},
    **{f"all sizes, {t.name}": (product(t), [[(n, k), (k, m)] for n, k, m in SIZES], 1)
       for t in (ms.float16, ms.bfloat16, ms.int8)},
    **{f"attention, {t.name}": (attention(t), [[(b, s, 32)] for b, s in LENGTHS], 1)
       for t in (ms.float16, ms.bfloat16)},
    **{f"one column, {t.name}": (product(t), depths(24, 1), 2)
       for t in (ms.float16, ms.bfloat16, ms.float32, ms.float64)},
    **{f"all sizes, {t.name}": (complex_product(t), [[(n, k), (k, m)] for n, k, m in LONG], 1)
       for t in (ms.complex64, ms.complex128)},
    "all sizes, complex columns": (
        complex_product(ms.complex64, True), [[(n, k), (m, k)] for n, k, m in LONG], 1),
    "small weights": (lambda x, w: ops.matmul(x, w.astype(ms.float16).astype(ms.float32)),
                      rows(96, 48), 1),
    "a vector": (ops.mv, [[(24, k), (k,)] for k in ROWS], 2),
    "two vectors": (ops.matmul, [[(k,), (k,)] for k in ROWS], 2),
}


@pytest.mark.parametrize("name", CASES)
def test_few_programs(name: str) -> None:
    fn, calls, programs = CASES[name]
    compiled = ms.jit(lambda *x: fn(*x))
    for shapes in calls:
        given = [Tensor(floats(*shape) * 4) for shape in shapes]
        assert_same(compiled(*given), eagerly(fn, *given))
    assert sum(len(o.open) for o in traces(compiled.table)) == programs
    assert not any(o.refusals for o in traces(compiled.table))


def test_a_training_step_of_mixed_precision() -> None:
    def train() -> tuple[Any, list[Any]]:
        ms.set_seed(2)
        net = nn.SequentialCell(nn.Dense(32, 64), nn.ReLU(), nn.Dense(64, 10))
        net = amp.auto_mixed_precision(net, "O2")
        loss = nn.WithLossCell(net, nn.CrossEntropyLoss())
        step = nn.TrainOneStepCell(loss, nn.Momentum(net.trainable_params(), 0.1, 0.9))
        out = [step(Tensor(floats(n, 32)), Tensor(labels(n))) for n in ROWS]
        return step, [*out, *step.get_parameters()]

    step, compiled = train()
    (once,) = traces(step._entries)
    assert len(once.open) == 1 and not once.refusals
    ms.set_context(mode=ms.PYNATIVE_MODE)
    assert_same(compiled, train()[1])


# --- planted faults -------------------------------------------------------------------------------


def test_elements_that_are_not_widened_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = widened.minimum
    monkeypatch.setattr(widened, "minimum", lambda f, a, b: right(f, a, b) - 1)
    broken = Served(product(ms.float16), [floats(40, 88), floats(88, 48)], {0: (None, 88)})
    monkeypatch.setattr(widened, "minimum", right)
    assert not broken.same([floats(33, 88), floats(88, 48)])


def test_a_wrong_end_of_chains_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last elements of a row go to a chain too many."""
    monkeypatch.setattr(dot, "_accumulators", lambda arith: 1)
    broken = Served(ops.mv, [floats(24, 100), floats(100)], {0: (24, None), 1: (None,)})
    monkeypatch.undo()
    assert not np.any([broken.same([floats(24, k), floats(k)]) for k in (77, 131)])


def test_a_tail_of_halves_of_complex_elements_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mask of a vector counts numbers as elements."""
    monkeypatch.setattr(arith.Arith, "scalars", lambda self, f, count: (
        count * self.parts if isinstance(count, int) else count))
    fn = complex_product(ms.complex64)
    broken = Served(fn, [floats(20, 30), floats(30, 41)], {1: (30, None)})
    monkeypatch.undo()
    assert not broken.same([floats(20, 30), floats(30, 35)])


@pytest.mark.parametrize("shapes", [((None, 0), (0, None)), ((None, 2, 0), (0, 3))])
def test_products_over_no_elements(shapes: Sequence[Sequence[int | None]]) -> None:
    """Zeros of any size: one program, after that of the first size."""
    fn = ms.jit(ops.matmul)
    for n in (4, 5, 9, 300):
        a, b = (ops.ones(tuple(n if d is None else d for d in shape)) for shape in shapes)
        assert_same(fn(a, b), eagerly(ops.matmul, a, b))
    assert not any(o.refusals for o in traces(fn.table))
