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
