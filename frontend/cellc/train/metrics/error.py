"""Metrics of distance: MAE, MSE, Loss, Perplexity, Dice, CosineSimilarity."""

from __future__ import annotations

import math
from typing import Annotated, Any

import numpy as np

from ...core.declared import Flag, Int, number, one_of
from .metric import Array, Kept, Mean, as_array, check_fit, rearrange_inputs, updated


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
    """The mean absolute error."""

    def _of(self, difference: Array) -> Any:
        return np.abs(difference).sum()


class MSE(_Error):
    """The mean squared error."""

    def _of(self, difference: Array) -> Any:
        return np.power(difference, 2).sum()


class Loss(Mean):
    """The mean of losses.

    Raises:
        RuntimeError: `eval` without `update`.
    """

    @rearrange_inputs
    def update(self, *inputs: Any) -> None:
        """Take a loss into account: a scalar, or the first of a vector."""
        (loss,) = self._take(inputs, 1, "the loss")
        if loss.ndim == 0:
            loss = loss.reshape(1)
        if loss.ndim != 1:
            raise ValueError("For 'Loss.update', the loss must have 0 or 1 dimensions, but has "
                             f"{loss.ndim}.")
        self._sum += float(loss[0])
        self._count += 1


class Perplexity(Mean):
    """exp of the mean negative log probability of the labels.

    Args:
        ignore_label: a label that does not count.

    Raises:
        RuntimeError: `update` got shapes that do not fit; `eval` without `update`.
    """

    ignore_label: Int | None = None

    @rearrange_inputs
    def update(self, *inputs: Any) -> None:
        """Take probabilities (..., C) and labels (...) into account."""
        probabilities, labels = self._take(inputs, 2, "probabilities and labels")
        if labels.size * probabilities.shape[-1] != probabilities.size:
            raise RuntimeError("For 'Perplexity.update', labels must have the shape of the "
                               f"probabilities without their last axis, but got {labels.shape} and "
                               f"{probabilities.shape}.")
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


Smooth = Annotated[float, number(0, ends="(]", normal=lambda value: value).always(ValueError)]


class Dice(Mean):
    """Twice the overlap of two sets over the sum of their sizes.

    Args:
        smooth: added below, so that it is never 0.

    Raises:
        RuntimeError: `eval` without `update`.
    """

    smooth: Smooth = 1e-5

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


class CosineSimilarity(Kept):
    """The similarities of the rows of a matrix.

    Args:
        similarity: `"cosine"`, or `"dot"` for dot products.
        reduction: `"none"`, or `"sum"` or `"mean"` over the last axis.
        zero_diagonal: whether the diagonal is set to 0.

    Raises:
        RuntimeError: `eval` without `update`.
    """

    similarity: Annotated[str, one_of("dot", "cosine", kind=str)] = "cosine"
    reduction: Annotated[str, one_of("none", "sum", "mean", kind=str)] = "none"
    zero_diagonal: Flag = True

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
