"""Compositions of ops: both modes, numpy's results, gradients, errors."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import Tensor, ops

RNG = np.random.default_rng(5)
X = RNG.standard_normal((4, 6)).astype(np.float32)
IMAGE = RNG.standard_normal((2, 3, 5, 4)).astype(np.float32)
GRID = RNG.uniform(-1.3, 1.3, (2, 3, 3, 2)).astype(np.float32)
VOLUME = RNG.standard_normal((1, 2, 3, 4, 3)).astype(np.float32)
GRID3 = RNG.uniform(-1.2, 1.2, (1, 2, 2, 2, 3)).astype(np.float32)
LABELS = np.array([0, 5, 2, 2], np.int32)
HOLES = np.where(X > 1, np.nan, X).astype(np.float32)
BOXES = np.array([[0, 0, 5, 5], [2, 2, 8, 9], [1, 1, 2, 2]], np.float32)

CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...], Any]] = {
    "quantile": (lambda x: ops.quantile(x, 0.3, 1), (X,), np.quantile(X, 0.3, 1)),
    "quantiles": (lambda x: ops.quantile(x, [0.1, 0.75], 0, True), (X,),
                  np.quantile(X, [0.1, 0.75], 0, keepdims=True)),
    "quantile_all": (lambda x: ops.quantile(x, 0.5), (X,), np.quantile(X, 0.5)),
    "quantile_nan": (lambda x: ops.quantile(x, 0.5, 1), (HOLES,), np.quantile(HOLES, 0.5, 1)),
    "nanquantile": (lambda x: ops.nanquantile(x, 0.4, 1), (HOLES,),
                    np.nanquantile(HOLES, 0.4, 1)),
    "cov": (ops.cov, (X,), np.cov(X)),
    "cov_weights": (lambda x: ops.cov(x, fweights=Tensor([1, 2, 1, 3, 1, 1]),
                                      aweights=Tensor([0.5, 1.0, 2.0, 1.0, 0.1, 0.7])), (X,),
                    np.cov(X, fweights=[1, 2, 1, 3, 1, 1], aweights=[0.5, 1, 2, 1, 0.1, 0.7])),
    "histc": (lambda x: ops.histc(x, 5, -1.0, 1.0), (X,), np.histogram(X, 5, (-1, 1))[0]),
    "histc_all": (lambda x: ops.histc(x, 4), (X,), np.histogram(X, 4)[0]),
    "bucketize": (lambda x: ops.bucketize(x, [-1.0, 0.0, 1.0]), (X,), np.digitize(X, [-1, 0, 1])),
    "pdist": (lambda x: ops.pdist(x, 1.0), (X,),
              np.abs(X[[0, 0, 0, 1, 1, 2]] - X[[1, 2, 3, 2, 3, 3]]).sum(1)),
    "vecdot": (lambda x: ops.vecdot(x, x, axis=0), (X,), (X * X).sum(0)),
    "vector_norm": (lambda x: ops.vector_norm(x, 3, 1), (X,),
                    np.linalg.norm(X, 3, axis=1)),
    "matrix_power": (lambda x: ops.matrix_power(x, 3), (X[:, :4],),
                     np.linalg.matrix_power(X[:, :4], 3)),
    "matrix_band_part": (lambda x: ops.matrix_band_part(x, 1, 0), (X,),
                         np.tril(np.triu(X, -1))),
    "combinations": (lambda x: ops.combinations(x, 2), (X[0],),
                     X[0][np.stack(np.triu_indices(6, 1), 1)]),
    "channel_shuffle": (lambda x: ops.channel_shuffle(x, 3), (X.reshape(1, 6, 4),),
                        X.reshape(6, 4)[[0, 2, 4, 1, 3, 5]][None]),
    "adjoint": (ops.adjoint, (X,), X.T),
    "ldexp": (lambda x: ops.ldexp(x, Tensor([3])), (X,), X * 8),
    "truncate_div": (lambda x: ops.truncate_div(x, 3), (LABELS - 4,),
                     np.trunc((LABELS - 4) / 3)),
    "truncate_mod": (lambda x: ops.truncate_mod(x, 3), (LABELS - 4,), np.fmod(LABELS - 4, 3)),
    "intopk": (lambda x, y: ops.intopk(x, y, 2), (X, LABELS),
               [int((row > row[k]).sum()) < 2 for row, k in zip(X, LABELS, strict=True)]),
    "grid_sample": (ops.grid_sample, (IMAGE, GRID), None),
    "grid_sample_border": (lambda x, g: ops.grid_sample(x, g, "bilinear", "border", True),
                           (IMAGE, GRID), None),
    "grid_sample_reflection": (lambda x, g: ops.grid_sample(x, g, "nearest", "reflection"),
                               (IMAGE, GRID), None),
    "grid_sample_volume": (ops.grid_sample, (VOLUME, GRID3), None),
    "affine_identity": (
        lambda x: ops.grid_sample(x, ops.affine_grid(
            Tensor([[[1.0, 0, 0], [0, 1.0, 0]]] * 2), x.shape)), (IMAGE,), IMAGE),
    "space_to_batch": (lambda x: ops.batch_to_space_nd(ops.space_to_batch_nd(
        x, [2, 2], [[1, 0], [0, 0]]), [2, 2], [[1, 0], [0, 0]]), (IMAGE,), IMAGE),
    "iou": (lambda x: ops.iou(x, x), (BOXES,), None),
    "multi_margin_loss": (lambda x, y: ops.multi_margin_loss(x, y, 2), (X, LABELS), None),
    "renorm": (lambda x: ops.renorm(x, 2, 0, 1.0), (X,),
               X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1)),
}


@pytest.mark.parametrize("name", CASES)
def test_both_modes(name: str) -> None:
    function, given, expected = CASES[name]
    inputs = [Tensor(np.ascontiguousarray(a)) for a in given]
    eager = function(*inputs).asnumpy()
    if expected is not None:
        assert eager.shape == np.shape(expected)
        np.testing.assert_allclose(eager.astype(float), np.asarray(expected, float), rtol=2e-5,
                                   atol=2e-6)
    compiled = ms.jit(function)(*inputs).asnumpy()
    assert (compiled.dtype, compiled.tobytes()) == (eager.dtype, eager.tobytes())


@pytest.mark.parametrize("name", ["quantile", "cov", "pdist", "vector_norm", "grid_sample",
                                  "grid_sample_border", "multi_margin_loss", "renorm"])
def test_gradients(name: str) -> None:
    function, given, _ = CASES[name]
    inputs = [Tensor(np.ascontiguousarray(a)) for a in given]
    wide = [Tensor(a.astype(np.float64)) if a.dtype == np.float32 else Tensor(a) for a in given]

    def total(*xs: Tensor) -> Tensor:
        return ops.sum(function(*xs) * 1.5)

    dy = ms.grad(total)(*inputs)
    np.testing.assert_array_equal(ms.jit(ms.grad(total))(*inputs).asnumpy(), dy.asnumpy())
    step = np.zeros(given[0].shape)
    step.reshape(-1)[3::7] = 1e-6
    up, down = (total(wide[0] + Tensor(s * step), *wide[1:]).asnumpy() for s in (1, -1))
    slope = float(up - down) / 2e-6
    assert slope == pytest.approx(float((dy.asnumpy() * (step > 0)).sum()), rel=2e-3, abs=2e-4)


def test_grid_sample_reads_between_elements() -> None:
    x = Tensor(np.arange(4, dtype=np.float32).reshape(1, 1, 2, 2))
    grid = Tensor(np.array([[[[0.0, 0.0], [-1.0, -1.0], [2.0, 0.0]]]], np.float32))
    assert ops.grid_sample(x, grid).asnumpy().ravel().tolist() == [1.5, 0.0, 0.0]
    aligned = ops.grid_sample(x, grid, align_corners=True, padding_mode="border")
    assert aligned.asnumpy().ravel().tolist() == [1.5, 0.0, 2.0]


def test_gumbel_softmax() -> None:
    ms.set_seed(1)
    soft = ops.gumbel_softmax(Tensor(X), tau=0.5)
    np.testing.assert_allclose(soft.asnumpy().sum(1), 1, rtol=1e-5)
    hard = ops.gumbel_softmax(Tensor(X), hard=True).asnumpy()
    assert set(np.round(hard, 5).ravel().tolist()) == {0.0, 1.0}
    np.testing.assert_allclose(hard.sum(1), 1, rtol=1e-6)


@pytest.mark.parametrize(("call", "kind", "text"), [
    (lambda x: ops.quantile(x, 1.5), ValueError, "'q' must be in [0, 1], but got [1.5]"),
    (lambda x: ops.quantile(ops.cast(x, ms.int32), 0.5), TypeError,
     "For 'quantile', 'input' must be a Tensor of floats, but got Int32"),
    (lambda x: ops.channel_shuffle(x, 4), ValueError,
     "For 'channel_shuffle', channels of (4, 6) do not divide into 4 groups"),
    (lambda x: ops.grid_sample(x, x), ValueError,
     "For 'grid_sample', a grid of shape (4, 6) does not fit an input of shape (4, 6)"),
    (lambda x: ops.affine_grid(x, (1, 1, 2, 2)), ValueError,
     "For 'affine_grid', theta (4, 6) does not fit size (1, 1, 2, 2)"),
    (lambda x: ops.matrix_power(x, 2), ValueError,
     "square matrices and n >= 0 are needed, but got shape (4, 6) and n=2; negative powers need"),
    (lambda x: ops.histc(x, 0), ValueError,
     "For 'histc', 'bins' must be 1 or more, but got 0"),
    (lambda x: ops.gumbel_softmax(x, tau=0.0), ValueError, "'tau' must be above 0, but got 0.0"),
    (lambda x: ops.space_to_batch_nd(x, [4], [[0, 0]]), ValueError,
     "For 'space_to_batch_nd', (4, 6) does not divide into blocks (4,)"),
    (lambda x: ops.bartlett_window(-1), ValueError,
     "For 'bartlett_window', 'window_length' must not be negative, but got -1"),
    (lambda x: ops.multi_margin_loss(x, x), ValueError,
     "For 'multi_margin_loss', 'input' (n, c) and 'target' (n) are needed, but got (4, 6) and"),
    (lambda x: ops.is_nonzero(x), ValueError, "one element is needed, but got shape (4, 6)"),
    (lambda x: ops.iou(x, x), ValueError,
     "For 'iou', 'anchor_boxes' (n, 4) and 'gt_boxes' (k, 4) are needed, but got (4, 6) and"),
])
def test_errors(call: Callable[[Tensor], Any], kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=re.escape(text)):
        call(Tensor(X))


def test_primitives_and_methods() -> None:
    x = Tensor(X)
    for made, expected in (
        (ops.Bucketize([-1.0, 1.0])(x), ops.bucketize(x, [-1.0, 1.0], right=True)),
        (ops.Pdist()(x), ops.pdist(x)), (ops.Renorm(1, 0, 1.0)(x), ops.renorm(x, 1, 0, 1.0)),
        (x.quantile(0.5, 1), ops.quantile(x, 0.5, 1)), (x.cov(), ops.cov(x)),
        (x.histc(5, -1.0, 1.0), ops.histc(x, 5, -1.0, 1.0)),
        (ops.LowerBound()(Tensor([[1, 3, 5]]), Tensor([[3, 4]])), Tensor([[1, 2]], ms.int32)),
        (ops.UpperBound()(Tensor([[1, 3, 5]]), Tensor([[3, 4]])), Tensor([[2, 2]], ms.int32)),
        (ops.EuclideanNorm()(Tensor([3.0, 4.0]), 0), Tensor(5.0)),
    ):
        np.testing.assert_array_equal(made.asnumpy(), expected.asnumpy())


ROWS = np.array([2, 0, 3, 1], np.int32)


@pytest.mark.parametrize("fn", [
    lambda x, i, w: ops.matmul(w, x) + ops.gather(x, i, 0)[1:2],
    lambda x, i, w: ops.matmul(w, x) * ops.gather(x, i, 0)[0],
    lambda x, i, w: ops.matmul(w, x) + ops.gather(x, i, 0)[0, 2],
    lambda x, i, w: ops.matmul(w, x) + ops.gather(x.reshape(-1), i[:1] * 6, 0),
    lambda x, i, w: ops.conv2d(w.reshape(1, 4, 2, 2), w.reshape(4, 4, 1, 1))
    + ops.gather(x[:, :4], i, 0)[0].reshape(1, 4, 1, 1),
    lambda x, i, w: ops.relu(ops.conv2d(ops.relu(ops.conv2d(
        ops.ones((1, 16, 5, 5)), ops.ones((16, 16, 1, 1)))), ops.ones((16, 16, 1, 1)))
        + ops.gather(w, i, 0)[0].tile((4,)).reshape(1, 16, 1, 1)),
])
def test_what_is_added_to_a_product_lies_where_the_run_says(fn: Callable[..., Any]) -> None:
    """The tile stores of a product read an addend from a place that follows from its own."""
    given = Tensor(X), Tensor(ROWS), Tensor(X[:, :4])
    np.testing.assert_array_equal(ms.jit(fn)(*given).asnumpy(), fn(*given).asnumpy())


@pytest.mark.parametrize("mode", [ms.PYNATIVE_MODE, ms.GRAPH_MODE])
def test_places_outside_of_an_image_read_nothing(mode: int) -> None:
    """Not even where they are infinite or no numbers, or the image is at its border; MindSpore
    2.10 gives these values."""
    ms.set_context(mode=mode)
    image = np.ones((1, 1, 3, 3), np.float32)
    image[0, 0, 0, 0], image[0, 0, 2, 2] = np.inf, np.nan
    places = np.array([[[[5, 5], [np.inf, 0], [np.nan, 0], [0, 0]]]], np.float32)
    for kind, last in (("bilinear", np.nan), ("nearest", 1)):
        got = ops.grid_sample(ms.Tensor(image), ms.Tensor(places), kind, "zeros", True)
        np.testing.assert_array_equal(got.asnumpy().ravel(), [0, 0, 0, last])

    def total(x: Tensor) -> Tensor:
        return ops.grid_sample(x, ms.Tensor(places), "bilinear", "zeros", True).sum()

    got = ms.grad(total)(ms.Tensor(np.ones((1, 1, 3, 3), np.float32))).asnumpy()
    np.testing.assert_array_equal(got.ravel(), [0, 0, 0, 0, 1, 0, 0, 0, 0])
