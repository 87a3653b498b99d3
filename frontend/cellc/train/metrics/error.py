"""Metrics of distance: MAE, MSE, Loss, Perplexity, Dice, CosineSimilarity."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..checks import check_fit, of_kind, updated
from .metric import Array, Mean, Metric, as_array, check_name, rearrange_inputs


class _Error(Mean):
    """The mean over samples (the length of the first axis) of an error."""

    @rearrange_inputs
    def update(self, *inputs: Any) -> None:
        """Take predictions and targets of one shape into account."""
        y_pred, y = self._take(inputs, 2, "predictions and targets")
        difference = y.reshape(y_pred.shape) - y_pred
        self._sum += float(self._of(difference))
        self._count += y.shape[0]

    def _of(self, difference: Array) -> Any:
        raise AssertionError("given by each metric")


class MAE(_Error):
    """The mean absolute error. Source: `mindspore.train.MAE`."""

    def _of(self, difference: Array) -> Any:
        return np.abs(difference).sum()


class MSE(_Error):
    """The mean squared error. Source: `mindspore.train.MSE`."""

    def _of(self, difference: Array) -> Any:
        return np.power(difference, 2).sum()


class Loss(Mean):
    """The mean of losses. Source: `mindspore.train.Loss`.

    Raises:
        ValueError: `update` got something else than one loss of one element.
        RuntimeError: `eval` without `update`.
    """

    @rearrange_inputs
    def update(self, *inputs: Any) -> None:
        """Take a loss into account: a scalar, or the first of a vector."""
        (loss,) = self._take(inputs, 1, "the loss")
        if loss.ndim == 0:
            loss = loss.reshape(1)
        if loss.ndim != 1:
            raise ValueError(
                f"For 'Loss.update', the loss must have 0 or 1 dimensions, but has {loss.ndim}."
            )
        self._sum += float(loss[0])
        self._count += 1


class Perplexity(Mean):
    """exp of the mean negative log probability of the labels.

    Args:
        ignore_label: a label that does not count.

    Raises:
        RuntimeError: `update` got shapes that do not fit; `eval` without `update`.

    Source: `mindspore.train.Perplexity`.
    """

    def __init__(self, ignore_label: int | None = None) -> None:
        if ignore_label is not None and type(ignore_label) is not int:
            raise TypeError(
                f"For 'Perplexity', 'ignore_label' must be None or int, got {type(ignore_label)}."
            )
        self.ignore_label = ignore_label
        super().__init__()

    @rearrange_inputs
    def update(self, *inputs: Any) -> None:
        """Take probabilities (..., C) and labels (...) into account."""
        probabilities, labels = self._take(inputs, 2, "probabilities and labels")
        if labels.size * probabilities.shape[-1] != probabilities.size:
            raise RuntimeError(
                "For 'Perplexity.update', labels must have the shape of the probabilities without "
                f"their last axis, but got {labels.shape} and {probabilities.shape}."
            )
        chosen = labels.reshape(-1).astype(np.int64)
        rows = probabilities.reshape(-1, probabilities.shape[-1])
        chances = rows[np.arange(chosen.size), chosen]
        count = chosen.size
        if self.ignore_label is not None:
            ignored = chosen == self.ignore_label
            chances = np.where(ignored, 1.0, chances)
            count -= int(ignored.sum())
        self._sum -= float(np.log(np.maximum(1e-10, chances)).sum())
        self._count += count

    def eval(self) -> float:
        """The perplexity."""
        return math.exp(super().eval())


class Dice(Mean):
    """Twice the overlap of two sets over the sum of their sizes.

    Args:
        smooth: added below, so that it is never 0.

    Raises:
        ValueError: `update` got different shapes.
        RuntimeError: `eval` without `update`.

    Source: `mindspore.train.Dice`.
    """

    def __init__(self, smooth: float = 1e-5) -> None:
        if isinstance(smooth, bool) or not isinstance(smooth, (int, float)) or smooth <= 0:
            raise ValueError(f"For 'Dice', 'smooth' must be greater than 0, but got {smooth}.")
        self.smooth = smooth
        super().__init__()

    @rearrange_inputs
    def update(self, *inputs: Any) -> None:
        """Take predictions and targets of one shape into account."""
        y_pred, y = self._take(inputs, 2, "predictions and targets")
        check_fit(y_pred.shape == y.shape, "Dice", "predictions and targets must have one shape, "
                  "but got", y_pred, y)
        overlap = np.dot(y_pred.flatten(), y.flatten())
        both = np.dot(y_pred.flatten(), y_pred.flatten()) + np.dot(y.flatten(), y.flatten())
        self._sum += 2 * float(overlap) / (float(both) + self.smooth)
        self._count += y.shape[0]


class CosineSimilarity(Metric):
    """The similarities of the rows of a matrix.

    Args:
        similarity: `"cosine"`, or `"dot"` for dot products.
        reduction: `"none"`, or `"sum"` or `"mean"` over the last axis.
        zero_diagonal: whether the diagonal is set to 0.

    Raises:
        RuntimeError: `eval` without `update`.

    Source: `mindspore.train.CosineSimilarity`.
    """

    def __init__(
        self, similarity: str = "cosine", reduction: str = "none", zero_diagonal: bool = True
    ) -> None:
        self.similarity = check_name(
            "CosineSimilarity", "similarity", similarity, ("dot", "cosine"))
        self.reduction = check_name(
            "CosineSimilarity", "reduction", reduction, ("none", "sum", "mean"))
        self.zero_diagonal = of_kind(zero_diagonal, bool, "For 'CosineSimilarity', 'zero_diagonal' "
                                     "must be bool, got {kind}.")
        self.clear()

    def clear(self) -> None:
        """Forget the input."""
        self._matrix: Array | None = None

    @rearrange_inputs
    def update(self, inputs: Any) -> None:
        """Take a matrix (rows, features)."""
        data = as_array(inputs, "CosineSimilarity")
        if self.similarity == "cosine":
            data = data / np.linalg.norm(data, ord=2, axis=1)[:, None]
        self._matrix = np.dot(data, data.T)

    def eval(self) -> Array:
        """The similarity of each two rows, reduced as asked."""
        matrix = updated("CosineSimilarity", self._matrix, False).copy()
        if self.zero_diagonal:
            np.fill_diagonal(matrix, 0)
        if self.reduction == "mean":
            return np.asarray(matrix.mean(axis=-1))
        return np.asarray(matrix.sum(axis=-1)) if self.reduction == "sum" else matrix
