"""Losses of `mint.nn`.

Source: the layers of the same names in `mindspore.mint.nn`.
"""

from __future__ import annotations

from typing import Any

from ....nn.cell import Cell
from ....nn.layer.base import Functional, Layer
from ....nn.loss import loss
from ....nn.loss.loss import Reduction
from ....tensors.tensor import Tensor
from .. import functional


class _Loss(Functional):
    """A loss of an input and a target."""

    def construct(self, input: Tensor, target: Tensor) -> Any:
        """The loss, reduced."""
        return self._function(input, target, *self._values())


class MSELoss(_Loss, function=functional.mse_loss):
    """(input - target)**2.

    Args:
        reduction: `"mean"`, `"sum"` or `"none"`.
    """

    reduction: str = "mean"


class SmoothL1Loss(_Loss, function=functional.smooth_l1_loss):
    """0.5 d**2 / beta where |d| < beta, |d| - 0.5 beta elsewhere. Source: `mint.nn.SmoothL1Loss`.

    Args:
        reduction: `"mean"`, `"sum"` or `"none"`.
        beta: where the square ends, positive.
    """

    reduction: str = "mean"
    beta: float = 1.0


class KLDivLoss(_Loss, function=functional.kl_div):
    """The Kullback-Leibler divergence of log-probabilities from a target. `mint.nn.KLDivLoss`.

    Args:
        reduction: also `"batchmean"`, the sum over the number of rows.
        log_target: the target is log-probabilities too.
    """

    reduction: str = "mean"
    log_target: bool = False


class CosineEmbeddingLoss(Layer):
    """1 - cos where the target is 1, max(0, cos - margin) where it is -1.

    Args:
        margin: in [-1, 1].
        reduction: `"mean"`, `"sum"` or `"none"`.
    """

    margin: float = 0.0
    reduction: str = "mean"

    def construct(self, input1: Tensor, input2: Tensor, target: Tensor) -> Any:
        """The loss, reduced."""
        return functional.cosine_embedding_loss(input1, input2, target, self.margin, self.reduction)


class CrossEntropyLoss(_Loss, function=functional.cross_entropy):
    """The cross entropy of logits against classes or probabilities. `mint.nn.CrossEntropyLoss`.

    Args:
        weight: a weight for each class.
        ignore_index: a class that does not count.
        reduction: `"mean"`, `"sum"` or `"none"`.
        label_smoothing: how much of the target is spread over all classes, in [0, 1].
    """

    weight: Tensor | None = None
    ignore_index: int = -100
    reduction: str = "mean"
    label_smoothing: float = 0.0


class NLLLoss(_Loss, function=functional.nll_loss):
    """The negative log-likelihood of classes.

    Args:
        weight: a weight for each class.
        ignore_index: a class that does not count.
        reduction: `"mean"`, `"sum"` or `"none"`.
    """

    weight: Tensor | None = None
    ignore_index: int = -100
    reduction: str = "mean"


class BCELoss(Cell):
    """The binary cross entropy of probabilities.

    Args:
        weight: a factor of each loss.
        reduction: `"mean"`, `"sum"` or `"none"`.
    """

    def __init__(self, weight: Tensor | None = None, reduction: str = "mean") -> None:
        super().__init__()
        self.bce_loss = loss.BCELoss(weight, reduction)

    def construct(self, input: Tensor, target: Tensor) -> Any:
        """The loss, reduced."""
        return self.bce_loss(input, target)


class BCEWithLogitsLoss(_Loss, function=functional.binary_cross_entropy_with_logits):
    """The binary cross entropy of sigmoid(input).

    Args:
        weight: a factor of each loss.
        reduction: `"mean"`, `"sum"` or `"none"`.
        pos_weight: a factor of the part of the positive class.
    """

    weight: Tensor | None = None
    reduction: Reduction = "mean"
    pos_weight: Tensor | None = None
