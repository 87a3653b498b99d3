"""Singular value decompositions and pseudo-inverses, in both modes, with gradients."""

from __future__ import annotations

import re

import numpy as np
import pytest

import cellc as ms
from cellc import Tensor, ops

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("shape", [(4, 3), (2, 3, 4), (1, 1)])
def test_factors(shape: tuple[int, ...], full: bool) -> None:
    x = RNG.standard_normal(shape).astype(np.float32)
    s, u, v = (t.asnumpy() for t in ops.svd(Tensor(x), full))
    m, n = shape[-2:]
    k = min(m, n)
    assert u.shape[-2:] == (m, m if full else k) and v.shape[-2:] == (n, n if full else k)
    np.testing.assert_allclose(s, np.linalg.svd(x, compute_uv=False), rtol=1e-5, atol=1e-6)
    again = (u[..., :k] * s[..., None, :]) @ np.swapaxes(v[..., :k], -1, -2)
    np.testing.assert_allclose(again, x, rtol=1e-5, atol=2e-6)
    for q in (u, v):
        square = np.swapaxes(q, -1, -2) @ q
        np.testing.assert_allclose(square, np.broadcast_to(np.eye(q.shape[-1]), square.shape),
                                   atol=2e-6)


def test_matrices_without_full_rank_have_orthonormal_factors() -> None:
    s, u, v = (t.asnumpy() for t in ops.svd(Tensor(np.ones((3, 3), np.float32))))
    np.testing.assert_allclose(s, [3, 0, 0], atol=1e-5)
    np.testing.assert_allclose(u.T @ u, np.eye(3), atol=1e-6)
    np.testing.assert_allclose(v.T @ v, np.eye(3), atol=1e-6)


def test_values_alone_and_nothing_at_all() -> None:
    x = Tensor(RNG.standard_normal((4, 3)))
    s = ops.svd(x, compute_uv=False)
    assert (np.diff(s.asnumpy()) <= 0).all()
    s, u, v = ops.svd(ops.zeros((0, 3, 2)))
    assert (s.shape, u.shape, v.shape) == ((0, 2), (0, 3, 2), (0, 2, 2))
    assert x.svd()[1].shape == (4, 3)


def reach(x: Tensor, w: Tensor) -> Tensor:
    s, u, v = ops.svd(x)
    low_rank = ops.matmul(u[:, :1] * s[:1], v[:, :1].T)
    return ops.sum(low_rank * w)


def test_modes_agree_and_gradients_are_right() -> None:
    """Of the best approximation by rank 1, which does not depend on signs."""
    x, w = (RNG.standard_normal((4, 3)) for _ in range(2))
    given = Tensor(x), Tensor(w)
    eager, graph = ms.grad(reach)(*given), ms.jit(ms.grad(reach))(*given)
    assert eager.asnumpy().tobytes() == graph.asnumpy().tobytes()

    def value(y: np.ndarray) -> float:
        u, s, vt = np.linalg.svd(y)
        return float((s[0] * np.outer(u[:, 0], vt[0]) * w).sum())

    for at in np.ndindex(4, 3):
        step = np.zeros((4, 3))
        step[at] = 1e-6
        slope = (value(x + step) - value(x - step)) / 2e-6
        assert eager.asnumpy()[at] == pytest.approx(slope, rel=1e-5, abs=1e-7)


def test_pseudo_inverses() -> None:
    x = RNG.standard_normal((2, 4, 3)).astype(np.float32)
    np.testing.assert_allclose(ops.pinv(Tensor(x)).asnumpy(), np.linalg.pinv(x), atol=1e-5)
    flat = np.outer([1.0, 2, 3], [4.0, 5])
    np.testing.assert_allclose(ops.pinv(Tensor(flat)).asnumpy(), np.linalg.pinv(flat), atol=1e-12)
    limited = ops.pinv(Tensor(np.diag([1.0, 0.1])), atol=0.5).asnumpy()
    np.testing.assert_allclose(limited, np.diag([1.0, 0.0]), atol=1e-12)
    assert ops.pinv(ops.zeros((3, 0))).shape == (0, 3)


@pytest.mark.parametrize(("kind", "call", "text"), [
    (TypeError, lambda: ops.svd([[1.0]]), "For 'svd', 'input' must be a Tensor, but got list"),
    (TypeError, lambda: ops.svd(Tensor([[1]])),
     "For 'svd', 'input' must be float32 or float64, but got Int64"),
    (ValueError, lambda: ops.svd(Tensor([1.0])),
     "For 'svd', 'input' must have 2 axes or more, but has shape (1,)"),
    (TypeError, lambda: ops.svd(Tensor([[1.0]]), 1), "'full_matrices' must be a bool, but got int"),
    (ValueError, lambda: ops.pinv(Tensor([1.0])),
     "For 'pinv', 'x' must have 2 axes or more, but has shape (1,)"),
])
def test_bad_arguments(kind: type[Exception], text: str, call: object) -> None:
    with pytest.raises(kind, match=re.escape(text)):
        call()  # type: ignore[operator]
