"""Distinct elements in order, as `mint` and `Tensor.unique` have them.

`ops.unique` gives them by first occurrence. Source: `mindspore.mint`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cellc_runtime.dtypes import int64

from ...tensors.promotion import cast_to
from ...tensors.tensor import Tensor, tensor_of
from ..arguments import axis_of, boolean, need_known, tensor
from . import creation, indexing, shapes, sorting


def unique(
    input: Tensor, sorted: bool = True, return_inverse: bool = False,
    return_counts: bool = False, dim: int | None = None,
) -> Any:
    """The distinct elements in ascending order, or the distinct slices along an axis.

    Args:
        sorted: they are in ascending order either way.
        return_inverse: return also the place of each element among them, int64.
        return_counts: return also how often each occurs, int64.
        dim: the axis of the slices; all elements if None.
    """
    x = tensor(input, "unique")
    for value, name in ((sorted, "sorted"), (return_inverse, "return_inverse"),
                        (return_counts, "return_counts")):
        boolean(value, "unique", name)
    if dim is not None:
        return _unique_slices(x, axis_of(dim, x.ndim, "unique", "dim"), return_inverse,
                              return_counts)
    flat = shapes.reshape(x, (x.size,))
    ordered, at = sorting.sort(flat)
    if not return_inverse and not return_counts:
        return sorting.unique_consecutive(ordered)
    values, runs, counts = sorting.unique_consecutive(ordered, True, True)
    out = [values]
    if return_inverse:
        places = indexing.tensor_scatter_elements(
            creation.zeros((x.size,), int64), cast_to(at, int64), cast_to(runs, int64))
        out.append(shapes.reshape(places, x.shape))
    if return_counts:
        out.append(cast_to(counts, int64))
    return tuple(out)


def _unique_slices(x: Tensor, axis: int, inverse: bool, counts: bool) -> Any:
    known = need_known(x, "unique")
    values, places, times = np.unique(known, return_inverse=True, return_counts=True, axis=axis)
    out = [tensor_of(np.ascontiguousarray(values))]
    if inverse:
        out.append(tensor_of(places.reshape(-1).astype(np.int64)))
    if counts:
        out.append(tensor_of(times.astype(np.int64)))
    return tuple(out) if len(out) > 1 else out[0]
