"""The receiver operating characteristic and the area under a curve. Source: `mindspore.train`."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

from ...core.declared import Int, checks_arguments, instance
from .metric import Array, Kept, check_fit, rearrange_inputs, updated


class ROC(Kept):
    """The ROC curve: false and true positive rates at all thresholds.

    Args:
        class_num: the number of classes; None for two.
        pos_label: which label is positive, of two classes; default 1.

    Raises:
        RuntimeError: `eval` without `update`.

    Reference: Fawcett, "An introduction to ROC analysis", 2006.
    """

    class_num: Int | None = None
    pos_label: Int | None = None

    def clear(self) -> None:
        """Forget all inputs."""
        self._scores: list[Array] = []
        self._labels: list[Array] = []
        self._classes = self.class_num or 1

    @rearrange_inputs
    def update(self, *inputs: Any) -> None:
        """Take scores (N,) or (N, C) and labels (N,) into account."""
        y_pred, y = self._take(inputs, 2, "scores and labels")
        if y_pred.shape == y.shape:
            self._classes = 1
            scores: Array = y_pred.reshape(-1)
        else:
            check_fit(
                y_pred.ndim == y.ndim + 1 and y_pred.shape[:1] + y_pred.shape[2:] == y.shape,
                "ROC", "scores must be (N, C, ...) with labels (N, ...), or of the labels' shape, "
                "but got", y_pred, y)
            if self.class_num is not None and self.class_num != y_pred.shape[1]:
                raise ValueError(f"For 'ROC.update', 'class_num' is {self.class_num}, but the "
                                 f"scores are of {y_pred.shape[1]} classes.")
            self._classes = y_pred.shape[1]
            scores = np.moveaxis(y_pred, 1, -1).reshape(-1, self._classes)
        self._scores.append(scores)
        self._labels.append(y.reshape(-1))

    def eval(self) -> tuple[Any, Any, Any]:
        """False positive rates, true positive rates and thresholds; of several classes, lists."""
        scores = np.concatenate(updated("ROC", self._scores or None))
        labels = np.concatenate(self._labels)
        if self._classes == 1:
            return roc_curve(scores, labels == (1 if self.pos_label is None else self.pos_label))
        curves = [roc_curve(scores[:, c], labels == c) for c in range(self._classes)]
        fpr, tpr, thresholds = (list(part) for part in zip(*curves, strict=True))
        return fpr, tpr, thresholds


Points = Annotated[Any, instance(np.ndarray, list)]


def roc_curve(scores: Array, positive: Array) -> tuple[Array, Array, Array]:
    """Rates and thresholds of one class, thresholds falling."""
    order = np.argsort(-scores, kind="stable")
    scores, positive = scores[order], positive[order]
    last = np.r_[np.nonzero(np.diff(scores))[0], scores.size - 1]
    true = np.cumsum(positive)[last]
    false = 1 + last - true
    if false[-1] <= 0 or true[-1] <= 0:
        what = "negative" if false[-1] <= 0 else "positive"
        raise ValueError(f"For 'ROC.eval', there is no {what} sample: the curve is not defined.")
    zero = np.zeros(1)
    thresholds = np.r_[scores[last][:1] + 1, scores[last]]
    return (np.r_[zero, false / false[-1]], np.r_[zero, true / true[-1]], thresholds)


@checks_arguments
def auc(x: Points, y: Points, reorder: bool = False) -> float:
    """The area under a curve, by trapezoids.

    Args:
        x, y: the points: arrays of one shape (N,), or lists of them (areas are not added then:
            they must be one curve).
        reorder: whether points are sorted by `x` first.
    """
    px, py = np.asarray(x), np.asarray(y)
    if px.ndim != 1 or px.shape != py.shape:
        raise ValueError(f"For 'auc', 'x' and 'y' must be (N,) alike, but got {px.shape} and "
                         f"{py.shape}.")
    if px.size < 2:
        raise ValueError(f"For 'auc', there must be at least two points, but got {px.size}.")
    if reorder:
        order = np.lexsort((py, px))
        px, py = px[order], py[order]
    steps = np.diff(px)
    if (steps < 0).any() and not (steps <= 0).all():
        raise ValueError(f"For 'auc', 'x' must rise or fall monotonously, but is {px}.")
    area = float(np.sum(steps * (py[1:] + py[:-1]) / 2))
    return -area if (steps < 0).any() else area
