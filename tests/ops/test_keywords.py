"""Calls by keyword of what has two forms or a name of its own: the same value in both modes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import Tensor, mint, ops

X = np.array([[0.5, 2.0, 0.25], [1.5, -1.0, 3.0]], np.float32)
AT = np.array([[0, 1, 0], [1, 0, 1]])
ROW = np.array([1])
SAME: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "select a slice": (lambda x: x.select(index=0, dim=1), X[:, 0]),
    "select by a condition": (lambda x: x.select(y=-x, condition=x > 1), np.where(X > 1, X, -X)),
    "gather elements": (lambda x: x.gather(index=Tensor(AT), dim=0), np.take_along_axis(X, AT, 0)),
    "gather slices": (lambda x: x.gather(Tensor(ROW), axis=0), X[ROW]),
    "scatter_add along an axis": (
        lambda x: x.scatter_add(src=x, dim=0, index=Tensor(np.ones_like(AT))),
        np.stack([X[0], X[1] + X.sum(0)])),
    "scatter_add at points": (
        lambda x: x.scatter_add(updates=x[:1], indices=Tensor([[1]])), X + [[0], [1]] * X[0]),
    "matmul": (lambda x: x.matmul(tensor2=x.T), X @ X.T),
    "isclose": (lambda x: x.isclose(x2=x), np.ones_like(X, bool)),
    "take": (lambda x: x.take(index=Tensor([4, 0])), X.ravel()[[4, 0]]),
    "view": (lambda x: x.view(dtype=ms.int32), X.view(np.int32)),
    "diag": (lambda x: x[0].diag(diagonal=0), np.diag(X[0])),
    "unique": (lambda x: x.unique(), np.unique(X)),
    "unique with counts": (lambda x: x.unique(return_counts=True)[1], np.ones(6, np.int64)),
    "inv": (lambda x: ops.inv(x=x), 1 / X),
    "arcsin": (lambda x: mint.arcsin(x=x / 4), np.arcsin(X / 4)),
    "zeros": (lambda x: mint.zeros(size=(2, 1)), np.zeros((2, 1), np.float32)),
    "to": (lambda x: x.to(other=Tensor(AT), non_blocking=True), X.astype(np.int64)),
    "condition number": (lambda x: ops.cond(A=x[:, :2], p=1), np.linalg.cond(X[:, :2], 1)),
    "condition number by position": (lambda x: ops.cond(x[:, :2]), np.linalg.cond(X[:, :2])),
}


@pytest.mark.parametrize("name", SAME)
@pytest.mark.parametrize("mode", [ms.PYNATIVE_MODE, ms.GRAPH_MODE])
def test_value(name: str, mode: int) -> None:
    call, wanted = SAME[name]
    found = (ms.jit(call) if mode == ms.GRAPH_MODE else call)(Tensor(X))
    assert found.shape == np.shape(wanted)
    np.testing.assert_allclose(found.asnumpy(), wanted, rtol=1e-5)


@pytest.mark.parametrize(("call", "text"), [
    (lambda x: x.select(1), "none of its forms complete"),
    (lambda x: x.select(0, 1, condition=x > 0), "none of its forms complete"),
    (lambda x: x.scatter_add(dim=0, updates=x), "none of its forms complete"),
    (lambda x: x.gather(Tensor(AT), axs=0), "unexpected keyword argument 'axs'"),
    (lambda x: x.to(ms.int32, later=True), "unexpected keyword argument 'later'"),
])
def test_what_makes_no_form_is_an_error(call: Callable[[Any], Any], text: str) -> None:
    with pytest.raises(TypeError, match=text):
        call(Tensor(X))


def test_other_diagonals_are_refused() -> None:
    with pytest.raises(ValueError, match="should be '0', but got 1"):
        Tensor(X[0]).diag(diagonal=1)
