"""Which losses have a gradient with respect to their labels: as observed on MindSpore 2.10."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import Tensor, mint, nn, ops

LOGITS, LABELS = Tensor([[0.5, 1.5]]), Tensor([[0.25, 0.75]])
NONE = [[0.0, 0.0]]


@pytest.mark.parametrize(("loss", "of_logits", "of_labels"), [
    (nn.SoftmaxCrossEntropyWithLogits(), [[0.01894, -0.01894]], NONE),
    (lambda x, y: ops.SoftmaxCrossEntropyWithLogits()(x, y)[0], [[0.01894, -0.01894]], NONE),
    (ops.cross_entropy, [[0.01894, -0.01894]], [[1.31326, 0.31326]]),
    (nn.KLDivLoss(), [[-0.125, -0.375]], NONE),
    (mint.nn.functional.kl_div, [[-0.125, -0.375]], [[-0.44315, -0.39384]]),  # as PyTorch's
    (ops.SigmoidCrossEntropyWithLogits(), [[0.37246, 0.06757]], NONE),
    (nn.BCEWithLogitsLoss(), [[0.18623, 0.03379]], [[-0.25, -0.75]]),
])
def test_gradients(loss: Any, of_logits: list[Any], of_labels: list[Any]) -> None:
    found = ms.grad(loss, (0, 1))(LOGITS, LABELS)
    for got, wanted in zip(found, (of_logits, of_labels), strict=True):
        np.testing.assert_allclose(got.asnumpy(), wanted, atol=2e-5)


@pytest.mark.parametrize("mode", [ms.PYNATIVE_MODE, ms.GRAPH_MODE])
def test_labels_that_do_not_sum_to_one(mode: int) -> None:
    ms.set_context(mode=mode)
    loss = nn.SoftmaxCrossEntropyWithLogits(reduction="sum")
    x, both = Tensor([[1.0, 1.0, -1e4]]), Tensor([[1.0, 1.0, 0.0]])
    value, gradient = ms.value_and_grad(loss)(x, both)
    np.testing.assert_allclose(value.asnumpy(), 2 * np.log(2), rtol=1e-6)
    np.testing.assert_allclose(gradient.asnumpy(), [[-0.5, -0.5, 0.0]], atol=1e-6)
    with pytest.raises(ValueError, match="must have the shape of the logits"):
        loss(x, both[:, :2])
