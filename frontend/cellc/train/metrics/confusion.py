"""Confusion matrices and the rates computed from them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import numpy as np

from ...core.declared import Flag, PlainNumber, Rule, integer, one_of
from .metric import Array, Kept, check_fit, rearrange_inputs, updated


class ConfusionMatrix(Kept):
    """How often each class was predicted for each class.

    Args:
        num_classes: the number of classes.
        normalize: `"no_norm"`: counts; `"target"`, `"prediction"`, `"all"`: shares of the row, of
            the column, of everything.
        threshold: from which a score counts as class 1, where predictions are scores of the
            labels' shape.
    """

    num_classes: Annotated[int, integer(1).always(TypeError)]
    normalize: Annotated[str, one_of("no_norm", "target", "prediction", "all", kind=str)] = \
        "no_norm"
    threshold: PlainNumber = 0.5

    def clear(self) -> None:
        """Forget all inputs."""
        self._matrix = np.zeros((self.num_classes, self.num_classes))
        self._updated = False

    @rearrange_inputs
    def update(self, *inputs: Any) -> None:
        """Take predictions (N, C, ...), or of the labels' shape, and labels (N, ...)."""
        y_pred, y = self._take(inputs, 2, "predictions and labels")
        check_fit(y_pred.ndim - y.ndim in (0, 1), "ConfusionMatrix", "predictions must have the "
                  "labels' dimensions, or one more for the classes, but got", y_pred, y)
        if y_pred.ndim == y.ndim + 1:
            y_pred = y_pred.argmax(axis=1)
        elif np.issubdtype(y_pred.dtype, np.floating):
            y_pred = y_pred >= self.threshold
        check_fit(y_pred.shape == y.shape, "ConfusionMatrix", "predictions and labels do not fit:",
                  y_pred, y)
        pairs = y.astype(np.int64).reshape(-1) * self.num_classes + \
            y_pred.astype(np.int64).reshape(-1)
        if pairs.size and (pairs.min() < 0 or max(y_pred.max(), y.max()) >= self.num_classes):
            raise ValueError("For 'ConfusionMatrix.update', classes must be from 0 to "
                             f"{self.num_classes - 1}, but the largest is "
                             f"{max(y_pred.max(), y.max())}.")
        counts = np.bincount(pairs, minlength=self.num_classes**2)
        self._matrix += counts.reshape(self.num_classes, self.num_classes)
        self._updated = True

    def eval(self) -> Array:
        """The matrix: rows are labels, columns predictions.

        Raises:
            RuntimeError: nothing has been counted yet.
        """
        updated("ConfusionMatrix", self._updated or None, False)
        matrix = self._matrix
        if self.normalize == "no_norm":
            return matrix
        axes: dict[str, Any] = {"target": 1, "prediction": 0, "all": None}
        with np.errstate(invalid="ignore", divide="ignore"):
            shares = matrix / matrix.sum(axis=axes[self.normalize], keepdims=True)
        return np.where(np.isnan(shares), 0.0, shares)


# --- rates ---------------------------------------------------------------------------------------

Rate = Callable[[Array, Array, Array, Array], Array]


def _divide(a: Array, b: Array) -> Array:
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(b != 0, a / b, np.nan)


def _share(part: int, rest: int) -> Rate:
    """One of the counts over it and another one."""
    return lambda *counts: _divide(counts[part], counts[part] + counts[rest])


_TP, _FP, _TN, _FN = range(4)
_tpr, _tnr, _ppv, _npv = _share(_TP, _FN), _share(_TN, _FP), _share(_TP, _FP), _share(_TN, _FN)


def _threshold(tp: Array, fp: Array, tn: Array, fn: Array) -> Array:
    tpr, tnr = _tpr(tp, fp, tn, fn), _tnr(tp, fp, tn, fn)
    return _divide(np.sqrt(tpr * (1 - tnr)) + tnr - 1, tpr + tnr - 1)


def _mcc(tp: Array, fp: Array, tn: Array, fn: Array) -> Array:
    below = np.sqrt((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn))
    return _divide(tp * tn - fp * fn, below)


_RATES: dict[str, tuple[Rate, tuple[str, ...]]] = {
    "sensitivity": (_tpr, ("recall", "hit_rate", "true_positive_rate", "tpr")),
    "specificity": (_tnr, ("selectivity", "true_negative_rate", "tnr")),
    "precision": (_ppv, ("positive_predictive_value", "ppv")),
    "negative_predictive_value": (_npv, ("npv",)),
    "miss_rate": (_share(_FN, _TP), ("false_negative_rate", "fnr")),
    "fall_out": (_share(_FP, _TN), ("false_positive_rate", "fpr")),
    "false_discovery_rate": (_share(_FP, _TP), ("fdr",)),
    "false_omission_rate": (_share(_FN, _TN), ("for",)),
    "prevalence_threshold": (_threshold, ("pt",)),
    "threat_score": (lambda tp, fp, tn, fn: _divide(tp, tp + fn + fp),
                     ("critical_success_index", "ts", "csi")),
    "accuracy": (lambda tp, fp, tn, fn: _divide(tp + tn, tp + fp + tn + fn), ("acc",)),
    "balanced_accuracy": (lambda *c: (_tpr(*c) + _tnr(*c)) / 2, ("ba",)),
    "f1_score": (lambda tp, fp, tn, fn: _divide(2 * tp, 2 * tp + fn + fp), ("f1",)),
    "matthews_correlation_coefficient": (_mcc, ("mcc",)),
    "fowlkes_mallows_index": (lambda *c: np.sqrt(_ppv(*c) * _tpr(*c)), ("fm",)),
    "informedness": (lambda *c: _tpr(*c) + _tnr(*c) - 1, ("bookmaker_informedness", "bm")),
    "markedness": (lambda *c: _ppv(*c) + _npv(*c) - 1, ("deltap", "mk")),
}
_BY_NAME = {n: rate for name, (rate, others) in _RATES.items() for n in (name, *others)}
_DECREASES = ("none", "mean", "sum", "mean_batch", "sum_batch", "mean_channel", "sum_channel")


def _plain(name: str) -> str:
    return name.strip().lower().replace(" ", "_")


class ConfusionMatrixMetric(Kept):
    """A rate of true and false positives and negatives, of one-hot predictions.

    Args:
        skip_channel: whether the first of several classes is left out.
        metric_name: which rate: "sensitivity", "specificity", "precision", "negative predictive
            value", "miss rate", "fall out", "false discovery rate", "false omission rate",
            "prevalence threshold", "threat score", "accuracy", "balanced accuracy", "f1 score",
            "matthews correlation coefficient", "fowlkes mallows index", "informedness",
            "markedness", or a usual abbreviation.
        calculation_method: whether the rate of each sample is computed and these are reduced;
            otherwise counts are added up first.
        decrease: how the rates of samples are reduced: "none", "mean", "sum", "mean_batch",
            "sum_batch", "mean_channel", "sum_channel". Rates that are not defined are left out.

    Raises:
        RuntimeError: `eval` without `update`.
    """

    skip_channel: Flag = True
    metric_name: Annotated[str, Rule(
        f"one of {', '.join(_RATES)}, or an abbreviation", lambda value: isinstance(value, str),
        lambda value: _plain(value) in _BY_NAME)] = "sensitivity"
    calculation_method: Flag = False
    decrease: Annotated[str, one_of(*_DECREASES, kind=str)] = "mean"

    def clear(self) -> None:
        """Forget all inputs."""
        self._rate = _BY_NAME[_plain(self.metric_name)]
        self._counts: Array | None = None
        self._sum: Array = np.zeros(1)
        self._number = 0

    @rearrange_inputs
    def update(self, *inputs: Any) -> None:
        """Take one-hot predictions and labels (N, C, ...) of one shape into account."""
        y_pred, y = self._take(inputs, 2, "predictions and labels")
        check_fit(y_pred.shape == y.shape and y.ndim >= 2, "ConfusionMatrixMetric", "predictions "
                  "and labels must be (N, C, ...) alike, but got", y_pred, y)
        if not np.isin(y, (0, 1)).all() or not np.isin(y_pred, (0, 1)).all():
            raise ValueError("For 'ConfusionMatrixMetric.update', predictions and labels must be "
                             "one-hot.")
        if self.skip_channel and y.shape[1] > 1:
            y_pred, y = y_pred[:, 1:], y[:, 1:]
        y_pred = y_pred.reshape(*y_pred.shape[:2], -1).astype(bool)
        y = y.reshape(*y.shape[:2], -1).astype(bool)
        counts = np.stack([
            (y_pred & y).sum(-1), (y_pred & ~y).sum(-1), (~y_pred & ~y).sum(-1),
            (~y_pred & y).sum(-1),
        ], axis=-1).astype(np.float64)  # (N, C, 4): true, false positives; true, false negatives
        if self.calculation_method:
            value, known = _reduce(self._rate(*np.moveaxis(counts, -1, 0)), self.decrease)
            self._sum = self._sum + value * known
            self._number = self._number + known
        else:
            total = counts.sum(axis=(0, 1))
            self._counts = total if self._counts is None else self._counts + total

    def eval(self) -> Any:
        """The rate over all classes, or (`calculation_method`) the reduced rates of samples."""
        if self.calculation_method:
            updated("ConfusionMatrixMetric", np.any(self._number) or None, False)
            return self._sum / self._number
        counts = updated("ConfusionMatrixMetric", self._counts, False)
        return self._rate(*counts.reshape(4, 1))


def _reduce(rates: Array, decrease: str) -> tuple[Array, Any]:
    """Rates (N, C), reduced over what is defined, and how many values that were."""
    known = ~np.isnan(rates)
    values = np.where(known, rates, 0.0)
    if decrease == "none":
        return values, known.astype(np.float64)
    axis = {"batch": 0, "channel": 1}.get(decrease.partition("_")[2])
    if decrease == "mean":  # of the means of samples
        values, count = _mean(values.sum(axis=1), known.sum(axis=1))
        return _mean(values.sum(), (count > 0).sum())
    count = known.sum(axis=axis)
    total = values.sum(axis=axis)
    if decrease.startswith("sum"):
        return total, np.ones_like(total)
    return _mean(total, count)


def _mean(total: Any, count: Any) -> tuple[Any, Any]:
    """Sums divided by counts (0 where the count is), and the counts."""
    return np.where(count > 0, total / np.maximum(count, 1), 0.0), count
