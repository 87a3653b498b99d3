"""Distances of the surfaces of two segmentations: Hausdorff, mean and root mean square."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

from ...core.declared import Flag, instance, number, one_of
from .metric import Array, Kept, as_array, check_fit, counted, rearrange_inputs, updated

Distance = Annotated[str, one_of("euclidean", "chessboard", "taxicab", kind=str)]
_BLOCK = 1 << 22  # Distances computed at once


class _Surface(Kept):
    """Takes two images and a label, and knows the edges of the label's area in both."""

    distance_metric: Distance

    def clear(self) -> None:
        """Forget the inputs."""
        self._edges: tuple[Array, Array] | None = None

    @rearrange_inputs
    def update(self, *inputs: Any) -> None:
        """Take a predicted image, the true one and the label whose area counts."""
        *images, label = counted(self._name(), inputs, 3, "predicted image, true image, label")
        y_pred, y = (as_array(x, self._name()) for x in images)
        instance(int, float, np.number)(label, f"{self._name()}.update", "label")
        check_fit(y_pred.size > 0 and y_pred.shape == y.shape, self._name(), "the images must have "
                  "one shape and not be empty, but got", y_pred, y)
        if label not in y_pred and label not in y:
            raise ValueError(f"For '{self._name()}.update', no image has the label {label}.")
        self._edges = _edge_points(y_pred == label), _edge_points(y == label)

    def _distances(self, swapped: bool = False) -> Array:
        """From each edge point of the prediction to the nearest true one (`swapped`: back)."""
        edges = updated(self._name(), self._edges, False)
        a, b = edges[::-1] if swapped else edges
        if not len(b):
            return np.full(len(a), np.inf)
        out = np.empty(len(a))
        step = max(1, _BLOCK // (len(b) * a.shape[1]))
        for start in range(0, len(a), step):
            gaps = np.abs(a[start : start + step, None].astype(np.float64) - b[None])
            if self.distance_metric == "euclidean":
                far = np.sqrt((gaps**2).sum(-1))
            else:
                far = gaps.max(-1) if self.distance_metric == "chessboard" else gaps.sum(-1)
            out[start : start + step] = far.min(axis=1)
        return out


def _edge_points(area: Array) -> Array:
    """Points of an area that have a neighbour (along an axis) outside it: (points, axes)."""
    inside = area.copy()
    padded = np.pad(area, 1)
    middle = (slice(1, -1),) * area.ndim
    for axis in range(area.ndim):
        for shift in (slice(0, -2), slice(2, None)):
            inside &= padded[middle[:axis] + (shift,) + middle[axis + 1 :]]
    return np.argwhere(area & ~inside)


class HausdorffDistance(_Surface):
    """The greatest distance of a surface point to the other surface.

    Args:
        distance_metric: `"euclidean"`, `"chessboard"` or `"taxicab"`.
        percentile: this percentile of the distances (0 to 100) instead of the greatest.
        directed: whether only distances from the prediction to the truth count.
        crop: accepted for compatibility: the result is the same without cropping.

    Raises:
        RuntimeError: `eval` without `update`.
    """

    distance_metric: Distance = "euclidean"
    percentile: Annotated[float, number(0, 100, normal=lambda value: value)] | None = None
    directed: Flag = False
    crop: Flag = True

    def eval(self) -> Any:
        """The distance; NaN where the area is in neither image's edge."""
        there = self._farthest(self._distances())
        return there if self.directed else max(there, self._farthest(self._distances(True)))

    def _farthest(self, distances: Array) -> Any:
        if not distances.size:
            return np.nan
        if self.percentile is None:
            return distances.max()
        return np.percentile(distances, self.percentile)


class MeanSurfaceDistance(_Surface):
    """The mean distance of surface points to the other surface.

    Args:
        symmetric: whether distances from the truth to the prediction count too.
        distance_metric: `"euclidean"`, `"chessboard"` or `"taxicab"`.

    Raises:
        RuntimeError: `eval` without `update`.
    """

    symmetric: Flag = False
    distance_metric: Distance = "euclidean"

    def _all(self) -> Array:
        there = self._distances()
        return np.concatenate([there, self._distances(True)]) if self.symmetric else there

    def eval(self) -> Any:
        """The mean distance; NaN where there is no surface."""
        distances = self._all()
        return distances.mean() if distances.size else np.nan


class RootMeanSquareDistance(MeanSurfaceDistance):
    """The root of the mean squared distance of surface points to the other surface.

    Args and errors are those of `MeanSurfaceDistance`.
    """

    def eval(self) -> Any:
        """The distance; NaN where there is no surface."""
        distances = self._all()
        return np.sqrt((distances**2).mean()) if distances.size else np.nan
