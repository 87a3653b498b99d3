"""The assignment of rows to columns with the smallest sum of costs.

By shortest augmenting paths, row by row (Jonker & Volgenant, 1987; Crouse, 2016), on the host: the
same routine in both modes. Source: `mindspore.scipy.optimize`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cellc_compiler.ir.types import TensorType
from cellc_runtime.dtypes import bool_, int64

from ...core.declared import misuse
from ...ops.arguments import tensor
from ...ops.functional.host import call_python
from ...tensors.tensor import Array, Tensor, tensor_of


def linear_sum_assignment(
    cost_matrix: Tensor, maximize: Any, dimension_limit: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Rows and columns of an assignment with the smallest (or largest) sum of costs.

    Args:
        cost_matrix: (m, n), ints, floats or bools.
        maximize: the largest sum instead.
        dimension_limit: a scalar int64: only this many columns count.

    Returns:
        The rows, ascending, and the column of each, int64 (k), k the smaller of m and n; -1 at the
        end where the limit leaves fewer.

    Raises:
        ValueError: no matrix; no assignment has finite costs (when it runs).
    """
    what = "linear_sum_assignment"
    cost = tensor(cost_matrix, what, "cost_matrix")
    if cost.ndim != 2 or cost.dtype.is_complex:
        raise misuse(what, f"'cost_matrix' must be a matrix of real numbers, but is {cost.dtype} "
                     f"of shape {cost.shape}")
    if not isinstance(maximize, bool) and not (
            isinstance(maximize, Tensor) and maximize.dtype is bool_ and maximize.size == 1):
        raise misuse(what, "'maximize' must be a bool", repr(maximize), TypeError)
    limit = tensor_of(np.array(1 << 62)) if dimension_limit is None else \
        tensor(dimension_limit, what, "dimension_limit")
    if limit.dtype is not int64 or limit.size != 1:
        raise misuse(what, f"'dimension_limit' must be a scalar int64 Tensor, but is {limit.dtype} "
                     f"of shape {limit.shape}", kind=TypeError)
    largest = maximize if isinstance(maximize, Tensor) else tensor_of(np.array(maximize))
    types = [TensorType((min(cost.shape),), int64)] * 2
    rows, columns = call_python(what, _assigned, (cost, largest, limit), False, types)
    return rows, columns


def _assigned(cost: Array, largest: Array, limit: Array) -> tuple[Array, Array]:
    """Rows and columns, with -1 at the end."""
    count = min(cost.shape)
    costs = cost.astype(np.float64)[:, : max(int(limit.item()), 0)]
    if largest.item():
        costs = -costs
    turned = costs.shape[0] > costs.shape[1]
    rows = np.arange(min(costs.shape))
    columns = _paths(costs.T if turned else costs)
    if turned:
        order = np.argsort(columns)
        rows, columns = columns[order], rows[order]
    out = np.full((2, count), -1, np.int64)
    out[:, : len(rows)] = rows, columns
    return out[0], out[1]


def _paths(cost: Array) -> Array:
    """The column of each row of a matrix with no more rows than columns."""
    rows, columns = cost.shape
    if np.isnan(cost).any() or (cost == -np.inf).any():
        raise ValueError("linear_sum_assignment: the costs hold NaN or an infinity that every "
                         "assignment would prefer")
    u, v = np.zeros(rows), np.zeros(columns)
    owner, column_of = np.full(columns, -1), np.full(rows, -1)
    for row in range(rows):
        shortest, came_from = np.full(columns, np.inf), np.full(columns, -1)
        seen_rows, seen = np.zeros(rows, bool), np.zeros(columns, bool)
        length, at, end = 0.0, row, -1
        while end < 0:
            seen_rows[at] = True
            through = length + cost[at] - u[at] - v
            better = ~seen & (through < shortest)
            shortest[better], came_from[better] = through[better], at
            open_ = np.where(seen, np.inf, shortest)
            # Of equal columns one that is free: the path ends there.
            best = open_.min()
            if not np.isfinite(best):
                raise ValueError("linear_sum_assignment: no assignment has finite costs")
            equal = np.flatnonzero(open_ == best)
            free = equal[owner[equal] < 0]
            j = int(free[0]) if len(free) else int(equal[0])
            length = best
            seen[j] = True
            if owner[j] < 0:
                end = j
            else:
                at = owner[j]
        u[row] += length
        others = seen_rows.copy()
        others[row] = False
        u[others] += length - shortest[column_of[others]]
        v[seen] -= length - shortest[seen]
        while True:
            at = came_from[end]
            owner[end] = at
            column_of[at], end = end, column_of[at]
            if at == row:
                break
    return column_of


__all__ = ["linear_sum_assignment"]
