"""Losses of `mint.nn`.

Source: the layers of the same names in `mindspore.mint.nn`.
"""

from __future__ import annotations

from typing import Any

from ....core.declared import one_of
from ....nn.cell import Cell
from ....nn.loss import loss
from ....tensors.tensor import Tensor
from .. import functional


class _Loss(Cell):
    """A loss with a reduction.

    Args:
        reduction: `"mean"`, `"sum"` or `"none"`.
    """

    def __init__(self, reduction: str = "mean") -> None:
        super().__init__()
        self.reduction = reduction


class MSELoss(_Loss):
    """(input - target)**2. Source: `mindspore.mint.nn.MSELoss`."""

    def construct(self, input: Tensor, target: Tensor) -> Any:
        """The loss, reduced."""
        return functional.mse_loss(input, target, self.reduction)


class SmoothL1Loss(_Loss):
    """0.5 d**2 / beta where |d| < beta, |d| - 0.5 beta elsewhere. Source: `mint.nn.SmoothL1Loss`.

    Args:
        reduction: `"mean"`, `"sum"` or `"none"`.
        beta: where the square ends, positive.
    """

    def __init__(self, reduction: str = "mean", beta: float = 1.0) -> None:
        super().__init__(reduction)
        self.beta = beta

    def construct(self, input: Tensor, target: Tensor) -> Any:
        """The loss, reduced."""
        return functional.smooth_l1_loss(input, target, self.reduction, self.beta)


class KLDivLoss(_Loss):
    """The Kullback-Leibler divergence of log-probabilities from a target. `mint.nn.KLDivLoss`.

    Args:
        reduction: also `"batchmean"`, the sum over the number of rows.
        log_target: the target is log-probabilities too.
    """

    def __init__(self, reduction: str = "mean", log_target: bool = False) -> None:
        super().__init__(reduction)
        self.log_target = log_target

    def construct(self, input: Tensor, target: Tensor) -> Any:
        """The loss, reduced."""
        return functional.kl_div(input, target, self.reduction, self.log_target)


class CosineEmbeddingLoss(_Loss):
    """1 - cos where the target is 1, max(0, cos - margin) where it is -1.

    Args:
        margin: in [-1, 1].
        reduction: `"mean"`, `"sum"` or `"none"`.
    """

    def __init__(self, margin: float = 0.0, reduction: str = "mean") -> None:
        super().__init__(reduction)
        self.margin = margin

    def construct(self, input1: Tensor, input2: Tensor, target: Tensor) -> Any:
        """The loss, reduced."""
        return functional.cosine_embedding_loss(input1, input2, target, self.margin,
                                                self.reduction)


class CrossEntropyLoss(_Loss):
    """The cross entropy of logits against classes or probabilities. `mint.nn.CrossEntropyLoss`.

    Args:
        weight: a weight for each class.
        ignore_index: a class that does not count.
        reduction: `"mean"`, `"sum"` or `"none"`.
        label_smoothing: how much of the target is spread over all classes, in [0, 1].
    """

    def __init__(
        self, weight: Tensor | None = None, ignore_index: int = -100, reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(reduction)
        self.weight = weight
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing

    def construct(self, input: Tensor, target: Tensor) -> Any:
        """The loss, reduced."""
        return functional.cross_entropy(input, target, self.weight, self.ignore_index,
                                        self.reduction, self.label_smoothing)


class NLLLoss(_Loss):
    """The negative log-likelihood of classes. Source: `mindspore.mint.nn.NLLLoss`.

    Args:
        weight: a weight for each class.
        ignore_index: a class that does not count.
        reduction: `"mean"`, `"sum"` or `"none"`.
    """

    def __init__(
        self, weight: Tensor | None = None, ignore_index: int = -100, reduction: str = "mean"
    ) -> None:
        super().__init__(reduction)
        self.weight = weight
        self.ignore_index = ignore_index

    def construct(self, input: Tensor, target: Tensor) -> Any:
        """The loss, reduced."""
        return functional.nll_loss(input, target, self.weight, self.ignore_index, self.reduction)


class BCELoss(Cell):
    """The binary cross entropy of probabilities. Source: `mindspore.mint.nn.BCELoss`.

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


class BCEWithLogitsLoss(_Loss):
    """The binary cross entropy of sigmoid(input). Source: `mindspore.mint.nn.BCEWithLogitsLoss`.

    Args:
        weight: a factor of each loss.
        reduction: `"mean"`, `"sum"` or `"none"`.
        pos_weight: a factor of the part of the positive class.
    """

    def __init__(
        self, weight: Tensor | None = None, reduction: str = "mean",
        pos_weight: Tensor | None = None,
    ) -> None:
        super().__init__(one_of("mean", "sum", "none")(reduction, "BCEWithLogitsLoss", "reduction"))
        self.weight = weight
        self.pos_weight = pos_weight

    def construct(self, input: Tensor, target: Tensor) -> Any:
        """The loss, reduced."""
        return functional.binary_cross_entropy_with_logits(input, target, self.weight,
                                                           self.reduction, self.pos_weight)
