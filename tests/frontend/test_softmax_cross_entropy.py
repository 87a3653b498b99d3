"""On which axis SoftmaxCrossEntropyWithLogits has the classes: as observed on MindSpore 2.10."""

from __future__ import annotations

import numpy as np
import pytest

import cellc as ms
from cellc import Tensor, nn, ops

MODES = [ms.GRAPH_MODE, ms.PYNATIVE_MODE]
SHAPES = [(5, 4), (2, 4, 4), (2, 3, 4), (2, 3, 2, 4)]


def drawn(shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Logits of a shape, and class indices of their last axis."""
    rng = np.random.default_rng(7)
    return (rng.standard_normal(shape).astype(np.float32),
            rng.integers(0, shape[-1], shape[:-1]).astype(np.int32))


def rows(x: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The losses of classes on the last axis in float64, and their gradients."""
    wide = x.astype(np.float64)
    p = np.exp(wide) / np.exp(wide).sum(-1, keepdims=True)
    hot = np.eye(x.shape[-1])[labels]
    return -(hot * np.log(p)).sum(-1), p - hot


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("shape", SHAPES)
def test_the_mean_has_the_classes_on_the_last_axis(shape: tuple[int, ...], mode: int) -> None:
    ms.set_context(mode=mode)
    x, labels = drawn(shape)
    wanted, slope = rows(x, labels)
    layer = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
    value, gradient = ms.value_and_grad(layer)(Tensor(x), Tensor(labels))
    np.testing.assert_allclose(value.asnumpy(), wanted.mean(), rtol=1e-5)
    np.testing.assert_allclose(gradient.asnumpy(), slope / wanted.size, atol=1e-6)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_primitive(shape: tuple[int, ...]) -> None:
    x, labels = drawn(shape)
    wanted, slope = rows(x, labels)
    value = ops.SparseSoftmaxCrossEntropyWithLogits()(Tensor(x), Tensor(labels))
    gradient = ops.SparseSoftmaxCrossEntropyWithLogits(is_grad=True)(Tensor(x), Tensor(labels))
    np.testing.assert_allclose(value.asnumpy(), wanted.mean(), rtol=1e-5)
    np.testing.assert_allclose(gradient.asnumpy(), slope / wanted.size, atol=1e-6)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("sparse", "reduction"), [
    (True, "none"), (True, "sum"), (False, "none"), (False, "mean")])
def test_others_take_two_axes(sparse: bool, reduction: str, mode: int) -> None:
    ms.set_context(mode=mode)
    x, labels = drawn((2, 4, 4))
    layer = nn.SoftmaxCrossEntropyWithLogits(sparse=sparse, reduction=reduction)
    with pytest.raises(ValueError, match=r"'logits' must have 2 axes, but has shape \(2, 4, 4\)"):
        layer(Tensor(x), Tensor(labels if sparse else x))


@pytest.mark.parametrize(("labels", "text"), [
    ((6,), r"without their last axis, \(2, 3\), but got \(6,\)"),
    ((2, 4), r"without their last axis, \(2, 3\), but got \(2, 4\)"),
])
def test_labels_of_another_shape(labels: tuple[int, ...], text: str) -> None:
    x, _ = drawn((2, 3, 4))
    layer = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
    with pytest.raises(ValueError, match=text):
        layer(Tensor(x), Tensor(np.zeros(labels, np.int32)))


def test_one_axis_is_refused() -> None:
    with pytest.raises(ValueError, match=r"'logits' must have 2 axes or more, but has shape"):
        ops.SparseSoftmaxCrossEntropyWithLogits()(Tensor([1.0, 2.0]), Tensor(1, ms.int32))
