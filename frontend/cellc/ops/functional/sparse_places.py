"""Places of the elements of sparse tensors: rows and their ends, order, places that occur twice.

All of it is arithmetic on int tensors by ops that exist, so it is the same in both modes.
"""

from __future__ import annotations

import math

import numpy as np

from cellc_runtime.dtypes import DType, int64

from ...core.dispatch import apply, apply_one
from ...tensors.index_runtime import traced, true_positions, unraveled
from ...tensors.promotion import cast_to
from ...tensors.tensor import Tensor, tensor_of
from ..arguments import need_known
from . import creation, joining, reductions, shapes

Ints = tuple[int, ...]


def held(mask: Tensor, what: str) -> Tensor:
    """Row-major positions of a mask's true elements, int64 (n)."""
    if traced(mask):
        return true_positions(mask, what)[0]
    return tensor_of(np.flatnonzero(need_known(mask, what)).astype(np.int64))


def taken(x: Tensor, positions: Tensor) -> Tensor:
    """Rows of a tensor."""
    return apply_one("gather", x, positions, axis=0)


def summed(x: Tensor, places: Tensor, count: int) -> Tensor:
    """Rows of a tensor added up by their places: (count, ...). Places are in range."""
    start = creation.zeros((count, *x.shape[1:]), x.dtype)
    return apply_one("scatter", start, places, x, axis=0, mode="add")


def rows_of(indptr: Tensor, count: int) -> Tensor:
    """The row of each of `count` elements, int64, from where rows end.

    An element's row is the number of rows that end at it or before.
    """
    ends = cast_to(joining.part(indptr, 0, 1, indptr.shape[0]), int64)
    ended = summed(creation.ones(ends.shape, int64), ends, count + 1)
    return joining.part(apply_one("cumsum", ended, axis=0), 0, 0, count)


def ends_of(rows: Tensor, count: int, dtype: DType) -> Tensor:
    """Where the rows of ordered elements start, and the end of the last: (count + 1)."""
    lengths = summed(creation.ones(rows.shape, int64), cast_to(rows, int64), count)
    ends = apply_one("cumsum", lengths, axis=0)
    return cast_to(joining.concat((creation.zeros((1,), int64), ends), 0), dtype)


def numbered(indices: Tensor, shape: Ints) -> Tensor:
    """Places (n, axes) as row-major numbers, int64 (n)."""
    steps = tensor_of(np.array([math.prod(shape[a + 1:]) for a in range(len(shape))], np.int64))
    return reductions.sum(cast_to(indices, int64) * steps, 1, dtype=int64)


def places(numbers: Tensor, shape: Ints, dtype: DType) -> Tensor:
    """Row-major numbers as places (n, axes)."""
    return cast_to(joining.stack(unraveled(numbers, shape), 1), dtype)


def ordered(numbers: Tensor) -> tuple[Tensor, Tensor]:
    """Numbers in ascending order, and where each was; equal ones stay in their order."""
    found, order = apply("sort", numbers, axis=0, descending=False)
    return found, cast_to(order, int64)


def merged(numbers: Tensor, values: Tensor, what: str) -> tuple[Tensor, Tensor]:
    """Distinct numbers in ascending order, and the sums of the values (n, ...) of each."""
    found, order = ordered(numbers)
    count = numbers.shape[0]
    before = joining.part(
        joining.concat((creation.full((1,), -1, dtype=int64), found), 0), 0, 0, count)
    fresh = found != before
    first = held(fresh, what)
    run = apply_one("cumsum", cast_to(fresh, int64), axis=0) - 1
    return taken(found, first), summed(taken(values, order), run, first.shape[0])


def dense(numbers: Tensor, values: Tensor, shape: Ints) -> Tensor:
    """A tensor of zeros with values (n, ...) added at row-major numbers of its first axes."""
    rest = values.shape[1:]
    lead = shape[: len(shape) - len(rest)]
    flat = summed(values, numbers, math.prod(lead))
    return shapes.reshape(flat, shape)
