"""What functions of batches of matrices share: positions of axes, and back substitution."""

from __future__ import annotations

import math

from cellc_runtime.dtypes import int64

from ..core.dispatch import apply, scan
from ..tensors.tensor import Tensor
from . import functional_array as fa
from . import functional_math as m


def as_batch(x: Tensor) -> Tensor:
    """All leading axes as one."""
    return fa.reshape(x, (math.prod(x.shape[:-2]), *x.shape[-2:]))


def at(x: Tensor, i: Tensor, axis: int) -> Tensor:
    """Position i of an axis, the axis kept."""
    out: Tensor = apply("gather", x, fa.reshape(i, (1,)), axis=axis)
    return out


def positions(n: int) -> Tensor:
    """0 .. n - 1 along axis 1 of three."""
    out: Tensor = apply("iota", shape=(1, n, 1), axis=1, dtype=int64)
    return out


def _row(
    carried: list[Tensor], xs: list[Tensor], i: Tensor, captures: list[Tensor]
) -> tuple[list[Tensor], list[Tensor]]:
    """One row of the back substitution, the last first.

    Carried: right sides (B, n, k), solved from the last row up; captured: the upper triangle.
    """
    y, (rows, upper) = carried[0], captures
    row = m.sub(upper.shape[1] - 1, i)
    column = at(upper, row, 2)
    solved = m.div(at(y, row, 1), at(column, row, 1))
    rest = m.sub(y, m.where(m.lt(rows, row), m.mul(column, solved), 0.0))
    return [m.where(m.eq(rows, row), solved, rest)], []


def substitute(upper: Tensor, right: Tensor) -> Tensor:
    """x of upper @ x = right for (B, n, n), of which the upper triangle is read, and (B, n, k)."""
    n = upper.shape[1]
    (out,), _ = scan(("substitute",), [right], [], [positions(n), upper], n, _row)
    return out
