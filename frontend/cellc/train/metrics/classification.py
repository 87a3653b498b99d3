"""Metrics of classification: Accuracy, Precision, Recall, Fbeta, F1, top-k accuracy."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

from ...core.declared import Positive, number
from .metric import Array, Evaluated, Mean, check_fit, one_hot, rearrange_inputs, updated


def _rows(values: Array) -> Array:
    """(N, C, d1, ...) as one row of classes for each prediction: (N * d1 * ..., C)."""
    return np.moveaxis(values, 1, -1).reshape(-1, values.shape[1])


class Accuracy(Evaluated):
    """The share of correct predictions.

    Args:
        eval_type: `"classification"`: the index of the largest of (N, C) predictions against
            labels (N,) or one-hot (N, C); `"multilabel"`: rows of zeros and ones, which count
            as correct when they are equal.

    Raises:
        RuntimeError: `eval` without `update`.
    """

    def clear(self) -> None:
        """Forget all inputs."""
        self._correct, self._total, self._classes = 0, 0, 0

    @rearrange_inputs
    def update(self, *inputs: Any) -> None:
        """Take predictions and labels into account."""
        y_pred, y = self._checked(inputs)
        if self._classes and y_pred.shape[1] != self._classes:
            raise ValueError(f"For 'Accuracy.update', the predictions have {y_pred.shape[1]} "
                             f"classes, those before had {self._classes}.")
        self._classes = y_pred.shape[1]
        if self._type == "classification":
            correct = y_pred.argmax(axis=1) == y
        else:
            correct = (_rows(y_pred) == _rows(y)).all(axis=1)
        self._correct += int(correct.sum())
        self._total += correct.size

    def eval(self) -> float:
        """The accuracy."""
        return self._correct / updated("Accuracy", self._total or None)


class _PerClass(Evaluated):
    """Counts true positives, predicted and actual positives: of each class, or of each sample
    where there are several labels."""

    def clear(self) -> None:
        """Forget all inputs."""
        self._sums: Array = np.empty((3, 0))  # true, predicted, actual positives

    @rearrange_inputs
    def update(self, *inputs: Any) -> None:
        """Take predictions and labels into account."""
        y_pred, y = self._checked(inputs)
        if self._type == "multilabel":
            pred, actual = _rows(y_pred).T, _rows(y).T
        else:
            classes = y_pred.shape[1]
            if y.size and (y.max() + 1 > classes or y.min() < 0):
                raise ValueError(f"For '{self._name()}.update', labels must be below the number of "
                                 f"classes {classes}, but the largest is {y.max()}.")
            pred = one_hot(y_pred.argmax(axis=1).reshape(-1), classes)
            actual = one_hot(y.reshape(-1), classes)
        sums = np.stack([(pred * actual).sum(axis=0), pred.sum(axis=0), actual.sum(axis=0)])
        if self._type == "multilabel":
            self._sums = np.concatenate([self._sums, sums], axis=1)
        elif self._sums.size and self._sums.shape != sums.shape:
            raise ValueError(f"For '{self._name()}.update', the predictions have {sums.shape[1]} "
                             f"classes, those before had {self._sums.shape[1]}.")
        else:
            self._sums = self._sums + sums if self._sums.size else sums

    def _ratio(self, below: Array, average: bool) -> Any:
        return self._given(self._sums[0] / (below + np.finfo(np.float64).eps), average)

    def _given(self, scores: Array, average: bool) -> Any:
        """The scores of the classes, or their mean."""
        updated(self._name(), scores.size or None)
        return scores.mean() if average else scores


class Precision(_PerClass):
    """True positives over all that were predicted positive, of each class.

    Args:
        eval_type: `"classification"`: (N, C) predictions against labels (N,) or one-hot (N, C);
            `"multilabel"`: zeros and ones, the result is one of each sample.

    Raises:
        RuntimeError: `eval` without `update`.
    """

    def eval(self, average: bool = False) -> Any:
        """The precision of each class, or their mean."""
        return self._ratio(self._sums[1], average)


class Recall(_PerClass):
    """True positives over all actual positives, of each class.

    Args and errors are those of `Precision`.
    """

    def eval(self, average: bool = False) -> Any:
        """The recall of each class, or their mean."""
        return self._ratio(self._sums[2], average)


Beta = Annotated[float, number(0, ends="(]", normal=lambda value: value, bools=True)]


class Fbeta(_PerClass):
    """The weighted mean of precision and recall, of each class.

    Predictions are (N, C), labels (N,) or one-hot (N, C).

    Args:
        beta: weight of recall, above 0.

    Raises:
        RuntimeError: `eval` without `update`.
    """

    beta: Beta

    def eval(self, average: bool = False) -> Any:
        """The score of each class, or their mean."""
        true, predicted, actual = self._sums
        square = self.beta**2
        score = (1 + square) * true / (square * actual + predicted + np.finfo(np.float64).eps)
        return self._given(score, average)


class F1(Fbeta):
    """`Fbeta` with beta 1."""

    def __init__(self) -> None:
        super().__init__(1.0)


class TopKCategoricalAccuracy(Mean):
    """The share of samples whose label is among the k largest predictions.

    Args:
        k: how many.

    Raises:
        RuntimeError: `eval` without `update`.
    """

    k: Positive

    @rearrange_inputs
    def update(self, *inputs: Any) -> None:
        """Take predictions (N, C) and labels (N,) or one-hot (N, C) into account."""
        y_pred, y = self._take(inputs, 2, "predictions and labels")
        if y_pred.ndim == y.ndim and y_pred.shape == y.shape:
            y = y.argmax(axis=1)
        check_fit(y_pred.ndim == 2 and y.shape == y_pred.shape[:1], self._name(), "predictions "
                  "must be (N, C) and labels (N,) or one-hot (N, C), but got", y_pred, y)
        largest = np.argsort(-y_pred, axis=1, kind="stable")[:, : self.k]
        self._sum += int((largest == y.reshape(-1, 1)).any(axis=1).sum())
        self._count += y.shape[0]


class Top1CategoricalAccuracy(TopKCategoricalAccuracy):
    """`TopKCategoricalAccuracy` with k 1."""

    def __init__(self) -> None:
        super().__init__(1)


class Top5CategoricalAccuracy(TopKCategoricalAccuracy):
    """`TopKCategoricalAccuracy` with k 5."""

    def __init__(self) -> None:
        super().__init__(5)
