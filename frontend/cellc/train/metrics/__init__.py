"""Metrics: `mindspore.train` and `get_metric_fn`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from cellc_runtime.lazy import names_of, public_names

from .bleu import BleuScore
from .classification import (
    F1,
    Accuracy,
    Fbeta,
    Precision,
    Recall,
    Top1CategoricalAccuracy,
    Top5CategoricalAccuracy,
    TopKCategoricalAccuracy,
)
from .confusion import ConfusionMatrix, ConfusionMatrixMetric
from .curve import ROC, auc
from .error import MAE, MSE, CosineSimilarity, Dice, Loss, Perplexity
from .metric import Metric, rearrange_inputs
from .occlusion import OcclusionSensitivity
from .surface import HausdorffDistance, MeanSurfaceDistance, RootMeanSquareDistance

_BY_NAME: dict[str, Callable[..., Any]] = {
    "F1": F1, "acc": Accuracy, "accuracy": Accuracy, "auc": auc, "bleu_score": BleuScore,
    "confusion_matrix": ConfusionMatrix, "confusion_matrix_metric": ConfusionMatrixMetric,
    "cosine_similarity": CosineSimilarity, "dice": Dice,
    "hausdorff_distance": HausdorffDistance, "loss": Loss, "mae": MAE,
    "mean_surface_distance": MeanSurfaceDistance, "mse": MSE,
    "occlusion_sensitivity": OcclusionSensitivity, "perplexity": Perplexity,
    "precision": Precision, "recall": Recall, "roc": ROC,
    "root_mean_square_distance": RootMeanSquareDistance,
    "top_1_accuracy": Top1CategoricalAccuracy, "top_5_accuracy": Top5CategoricalAccuracy,
    "topk": TopKCategoricalAccuracy,
}


def names() -> list[str]:
    """The names that `get_metric_fn` and `Model` know."""
    return sorted(_BY_NAME)


def get_metric_fn(name: str, *args: Any, **kwargs: Any) -> Any:
    """The metric of a name, made with these arguments.

    Raises:
        KeyError: there is none of this name.
    """
    if name not in _BY_NAME:
        raise KeyError(f"Unsupported metric {name!r}; there are {', '.join(names())}.")
    return _BY_NAME[name](*args, **kwargs)


def get_metrics(metrics: Any) -> dict[str, Any]:
    """The metrics of a dict, or of a set of their names, by name; none for None.

    Raises:
        KeyError: there is no metric of that name.
    """
    if metrics is None:
        return {}
    if isinstance(metrics, Mapping):
        for name, metric in metrics.items():
            if not isinstance(name, str) or not isinstance(metric, Metric):
                raise TypeError("For 'get_metrics', the dict 'metrics' must map names to metrics, "
                                f"but maps {type(name)} to {type(metric)}.")
        return dict(metrics)
    if isinstance(metrics, set):
        return {name: get_metric_fn(name) for name in sorted(metrics)}
    raise TypeError("For 'get_metrics', the argument 'metrics' must be None, dict or set, but got "
                    f"{metrics}")


__all__ = [
    "Accuracy", "BleuScore", "ConfusionMatrix", "ConfusionMatrixMetric", "CosineSimilarity", "Dice",
    "F1", "Fbeta", "HausdorffDistance", "Loss", "MAE", "MSE", "MeanSurfaceDistance", "Metric",
    "OcclusionSensitivity", "Perplexity", "Precision", "ROC", "Recall", "RootMeanSquareDistance",
    "Top1CategoricalAccuracy", "Top5CategoricalAccuracy", "TopKCategoricalAccuracy", "auc",
    "get_metric_fn", "get_metrics", "names", "rearrange_inputs",
]
__dir__ = public_names(__name__)
if not TYPE_CHECKING:
    __getattr__ = names_of(__name__, {})
