"""CTCLoss: against all readings one by one, and against MindSpore."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import nn, ops

from . import program_ctc

CASES = [[blank, reduction, False, form] for blank in (0, 4)
         for reduction in ("mean", "sum", "none") for form in ("all", "one")]
MODES = [ms.GRAPH_MODE, ms.PYNATIVE_MODE]


def _by_enumeration(log_probs: Any, target: list[int], blank: int) -> float:
    """Minus the log of the sum over all readings that give the target."""
    total = 0.0
    steps, classes = log_probs.shape
    for path in itertools.product(range(classes), repeat=steps):
        read = [c for i, c in enumerate(path) if (i == 0 or c != path[i - 1]) and c != blank]
        if read == target:
            total += np.exp(sum(log_probs[t, c] for t, c in enumerate(path)))
    return float(-np.log(total)) if total else float("inf")


def _logs(steps: int, batch: int, classes: int) -> Any:
    x = np.random.RandomState(5).randn(steps, batch, classes).astype(np.float32)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("blank", [0, 2])
def test_loss_is_that_of_all_readings(mode: int, blank: int) -> None:
    ms.set_context(mode=mode)
    logs = _logs(5, 4, 3)
    classes = [c for c in range(3) if c != blank]
    targets = [[classes[0], classes[1]], [classes[0], classes[0]], [classes[1]], []]
    reach = [5, 4, 3, 2]
    padded = np.array([t + [classes[0]] * (2 - len(t)) for t in targets], np.int32)
    want = [_by_enumeration(logs[:n, i], t, blank)
            for i, (t, n) in enumerate(zip(targets, reach, strict=True))]
    sizes = [len(t) for t in targets]
    loss = nn.CTCLoss(blank, "none")
    got = loss(ms.Tensor(logs), ms.Tensor(padded), tuple(reach), tuple(sizes))
    np.testing.assert_allclose(got.asnumpy(), want, rtol=1e-5)
    joined = np.array([c for t in targets for c in t], np.int64)
    again = loss(ms.Tensor(logs), ms.Tensor(joined), ms.Tensor(reach), ms.Tensor(sizes))
    np.testing.assert_allclose(again.asnumpy(), want, rtol=1e-5)


@pytest.mark.parametrize("mode", MODES)
def test_one_sequence_needs_no_axis_of_the_batch(mode: int) -> None:
    ms.set_context(mode=mode)
    logs = _logs(4, 1, 3)[:, 0]
    got = nn.CTCLoss(0, "sum")(ms.Tensor(logs), ms.Tensor([1, 2], ms.int32), (4,), (2,))
    assert got.shape == ()
    np.testing.assert_allclose(float(got), _by_enumeration(logs, [1, 2], 0), rtol=1e-5)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("zero", [False, True])
def test_a_target_that_does_not_fit(mode: int, zero: bool) -> None:
    ms.set_context(mode=mode)
    loss = nn.CTCLoss(0, "none", zero)
    target = ms.Tensor([[1, 1], [1, 2]], ms.int32)

    def total(x: Any) -> Any:
        return ops.sum(loss(x, target, (2, 3), (2, 2)))

    x = ms.Tensor(_logs(3, 2, 3))
    value = loss(x, target, (2, 3), (2, 2)).asnumpy()
    assert value[0] == (0.0 if zero else np.inf)
    assert np.isfinite(value[1])
    gradient = ms.grad(total)(x).asnumpy()
    assert np.all(gradient[:, 0] == 0.0)
    assert np.any(gradient[:, 1] != 0.0)


@pytest.mark.parametrize("case", [CASES[i] for i in (0, 3, 4, 11)], ids=str)
def test_both_modes_give_the_same_bits(case: Any) -> None:
    ms.set_context(mode=ms.PYNATIVE_MODE)
    eager = program_ctc.run(ms, nn, *case)
    ms.set_context(mode=ms.GRAPH_MODE)
    assert program_ctc.run(ms, nn, *case) == eager


def test_losses_and_gradients_are_mindspores(oracle: Any) -> None:
    for case, want in zip(CASES, oracle(program_ctc, CASES), strict=True):
        for got, wanted in zip(program_ctc.run(ms, nn, *case), want, strict=True):
            np.testing.assert_allclose(got, wanted, rtol=5e-6, atol=1e-6, err_msg=str(case))


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda x, t: nn.CTCLoss("a"), TypeError),
        (lambda x, t: nn.CTCLoss(reduction="a"), ValueError),
        (lambda x, t: nn.CTCLoss(zero_infinity=1), TypeError),
        (lambda x, t: nn.CTCLoss(3)(x, t, (4, 4), (2, 2)), ValueError),
        (lambda x, t: nn.CTCLoss()(x[0, 0], t, (4, 4), (2, 2)), ValueError),
        (lambda x, t: nn.CTCLoss()(x, t, (4,), (2, 2)), ValueError),
        (lambda x, t: nn.CTCLoss()(x, t, (4, 4), (2.0, 2)), TypeError),
        (lambda x, t: nn.CTCLoss()(x, t[:1], (4, 4), (2, 2)), ValueError),
    ],
)
def test_wrong_arguments(make: Any, error: type[Exception]) -> None:
    ms.set_context(mode=ms.PYNATIVE_MODE)
    with pytest.raises(error, match="For 'CTCLoss', "):
        make(ms.Tensor(_logs(4, 2, 3)), ms.Tensor([[1, 2], [2, 1]], ms.int32))


@pytest.mark.parametrize("mode", MODES)
def test_blanks_after_the_labels_are_padding(mode: int) -> None:
    """The values are those of MindSpore 2.10 on a CPU."""
    ms.set_context(mode=mode)
    scores = ms.Tensor(np.random.default_rng(0).standard_normal((7, 2, 4)).astype(np.float32))

    def losses(rows: list[list[int]]) -> Any:
        places = ms.Tensor([[r, i] for r, row in enumerate(rows) for i in range(len(row))])
        values = ms.Tensor([v for row in rows for v in row], ms.int32)
        reach = ms.Tensor([7, 7], ms.int32)
        return ms.jit(lambda x, v, n: ops.CTCLoss()(x, places, v, n)[0])(
            scores, values, reach).asnumpy()

    for rows in ([[0, 1], [2]], [[0, 1, 3, 3], [2, 3]], [[0, 1, 3], [2, 5]]):
        np.testing.assert_allclose(losses(rows), [4.7544413, 5.713857], rtol=1e-6)
    assert np.isfinite(losses([[0], [1, *[3] * 9]])).all()
    with pytest.raises(IndexError, match="no label may follow a blank"):
        losses([[0, 3, 1], [2]])
