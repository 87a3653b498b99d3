"""Metrics of classification: Accuracy, Precision, Recall, Fbeta, F1, top-k accuracy."""

from __future__ import annotations

from typing import Any

import numpy as np

from .metric import Array, Evaluated, Metric, one_hot, rearrange_inputs


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
        TypeError: another `eval_type`.
        ValueError: `update` got shapes that do not fit.
        RuntimeError: `eval` without `update`.

    Source: `mindspore.train.Accuracy`.
    """

    def clear(self) -> None:
        """Forget all inputs."""
        self._correct, self._total, self._classes = 0, 0, 0

    @rearrange_inputs
    def update(self, *inputs: Any) -> None:
        """Take predictions and labels into account."""
        y_pred, y = self._checked(inputs)
        if self._classes and y_pred.shape[1] != self._classes:
            raise ValueError(
                f"For 'Accuracy.update', the predictions have {y_pred.shape[1]} classes, those "
                f"before had {self._classes}."
            )
        self._classes = y_pred.shape[1]
        if self._type == "classification":
            correct = y_pred.argmax(axis=1) == y
        else:
            correct = (_rows(y_pred) == _rows(y)).all(axis=1)
        self._correct += int(correct.sum())
        self._total += correct.size

    def eval(self) -> float:
        """The accuracy.

        Raises:
            RuntimeError: nothing has been counted yet.
        """
        if self._total == 0:
            raise RuntimeError("For 'Accuracy.eval', there are no samples: call 'update' first.")
        return self._correct / self._total


class _PerClass(Evaluated):
    """Counts true positives, predicted and actual positives: of each class, or of each sample
    where there are several labels."""

    def clear(self) -> None:
        """Forget all inputs."""
        self._true: Array = np.empty(0)
        self._predicted: Array = np.empty(0)
        self._actual: Array = np.empty(0)

    @rearrange_inputs
    def update(self, *inputs: Any) -> None:
        """Take predictions and labels into account."""
        y_pred, y = self._checked(inputs)
        if self._type == "multilabel":
            pred, actual = _rows(y_pred).T, _rows(y).T
        else:
            classes = y_pred.shape[1]
            if y.size and (y.max() + 1 > classes or y.min() < 0):
                raise ValueError(
                    f"For '{self._name()}.update', labels must be below the number of classes "
                    f"{classes}, but the largest is {y.max()}."
                )
            pred = one_hot(y_pred.argmax(axis=1).reshape(-1), classes)
            actual = one_hot(y.reshape(-1), classes)
        sums = (pred * actual).sum(axis=0), pred.sum(axis=0), actual.sum(axis=0)
        if self._type == "multilabel":
            self._true, self._predicted, self._actual = (
                np.concatenate([old, new]) for old, new in zip(self._counts(), sums, strict=True)
            )
            return
        if self._true.size and self._true.size != sums[0].size:
            raise ValueError(
                f"For '{self._name()}.update', the predictions have {sums[0].size} classes, those "
                f"before had {self._true.size}."
            )
        old = self._counts() if self._true.size else (0, 0, 0)
        self._true, self._predicted, self._actual = (
            a + b for a, b in zip(old, sums, strict=True)
        )

    def _counts(self) -> tuple[Array, Array, Array]:
        return self._true, self._predicted, self._actual

    def _ratio(self, below: Array, average: bool) -> Any:
        if not self._true.size:
            raise RuntimeError(
                f"For '{self._name()}.eval', there are no samples: call 'update' first."
            )
        result = self._true / (below + np.finfo(np.float64).eps)
        if average:
            return result.mean()
        return result


class Precision(_PerClass):
    """True positives over all that were predicted positive, of each class.

    Args:
        eval_type: `"classification"`: (N, C) predictions against labels (N,) or one-hot (N, C);
            `"multilabel"`: zeros and ones, the result is one of each sample.

    Raises:
        TypeError: another `eval_type`.
        ValueError: `update` got shapes or labels that do not fit.
        RuntimeError: `eval` without `update`.

    Source: `mindspore.train.Precision`.
    """

    def eval(self, average: bool = False) -> Any:
        """The precision of each class, or their mean."""
        return self._ratio(self._predicted, average)


class Recall(_PerClass):
    """True positives over all actual positives, of each class.

    Args and errors are those of `Precision`.

    Source: `mindspore.train.Recall`.
    """

    def eval(self, average: bool = False) -> Any:
        """The recall of each class, or their mean."""
        return self._ratio(self._actual, average)


class Fbeta(Metric):
    """The weighted mean of precision and recall, of each class.

    Args:
        beta: weight of recall, above 0.

    Raises:
        ValueError: `beta` is not above 0, or `update` got shapes that do not fit.
        RuntimeError: `eval` without `update`.

    Source: `mindspore.train.Fbeta`.
    """

    def __init__(self, beta: float) -> None:
        if not beta > 0:
            raise ValueError(f"For '{self._name()}', 'beta' must be greater than 0, got {beta}.")
        self.beta = beta
        self._counter = _Counter("classification")
        self._counter.who = self._name()

    def clear(self) -> None:
        """Forget all inputs."""
        self._counter.clear()

    @rearrange_inputs
    def update(self, *inputs: Any) -> None:
        """Take predictions (N, C) and labels (N,) or one-hot (N, C) into account."""
        self._counter.update(*inputs)

    def eval(self, average: bool = False) -> Any:
        """The score of each class, or their mean.

        Raises:
            RuntimeError: nothing has been counted yet.
        """
        true, predicted, actual = self._counter._counts()
        if not true.size:
            raise RuntimeError(
                f"For '{self._name()}.eval', there are no samples: call 'update' first."
            )
        square = self.beta**2
        score = (1 + square) * true / (square * actual + predicted + np.finfo(np.float64).eps)
        return score.mean() if average else score


class _Counter(_PerClass):
    who = ""

    def _name(self) -> str:
        return self.who

    def eval(self) -> Any:
        """Not a metric of its own: the counts."""
        return self._counts()


class F1(Fbeta):
    """`Fbeta` with beta 1. Source: `mindspore.train.F1`."""

    def __init__(self) -> None:
        super().__init__(1.0)


class TopKCategoricalAccuracy(Metric):
    """The share of samples whose label is among the k largest predictions.

    Args:
        k: how many.

    Raises:
        TypeError: `k` is no int.
        ValueError: `k` is less than 1, or `update` got shapes that do not fit.
        RuntimeError: `eval` without `update`.

    Source: `mindspore.train.TopKCategoricalAccuracy`.
    """

    def __init__(self, k: int) -> None:
        if type(k) is not int:
            raise TypeError(f"For '{self._name()}', 'k' must be int, but got {type(k)}.")
        if k < 1:
            raise ValueError(f"For '{self._name()}', 'k' must be at least 1, but got {k}.")
        self.k = k
        self.clear()

    def clear(self) -> None:
        """Forget all inputs."""
        self._correct, self._total = 0, 0

    @rearrange_inputs
    def update(self, *inputs: Any) -> None:
        """Take predictions (N, C) and labels (N,) or one-hot (N, C) into account."""
        y_pred, y = self._take(inputs, 2, "predictions and labels")
        if y_pred.ndim == y.ndim and y_pred.shape == y.shape:
            y = y.argmax(axis=1)
        if y_pred.ndim != 2 or y.shape != y_pred.shape[:1]:
            raise ValueError(
                f"For '{self._name()}.update', predictions must be (N, C) and labels (N,) or "
                f"one-hot (N, C), but got {y_pred.shape} and {y.shape}."
            )
        largest = np.argsort(-y_pred, axis=1, kind="stable")[:, : self.k]
        self._correct += int((largest == y.reshape(-1, 1)).any(axis=1).sum())
        self._total += y.shape[0]

    def eval(self) -> float:
        """The accuracy.

        Raises:
            RuntimeError: nothing has been counted yet.
        """
        if self._total == 0:
            raise RuntimeError(
                f"For '{self._name()}.eval', there are no samples: call 'update' first."
            )
        return self._correct / self._total


class Top1CategoricalAccuracy(TopKCategoricalAccuracy):
    """`TopKCategoricalAccuracy` with k 1. Source: `mindspore.train.Top1CategoricalAccuracy`."""

    def __init__(self) -> None:
        super().__init__(1)


class Top5CategoricalAccuracy(TopKCategoricalAccuracy):
    """`TopKCategoricalAccuracy` with k 5. Source: `mindspore.train.Top5CategoricalAccuracy`."""

    def __init__(self) -> None:
        super().__init__(5)
