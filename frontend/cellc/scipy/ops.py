"""Objects that hold options of linear algebra and assignment, called as functions.

Source: `mindspore.scipy.ops`.
"""

from __future__ import annotations

from cellc_runtime.lazy import public_names

from ..ops.functional import decompositions
from ..tensors.tensor import Tensor
from . import linalg
from .optimize import linear_sum_assignment


class LinearSumAssignment:
    """Rows and columns of an assignment with the smallest sum of costs.

    Examples:
        >>> costs = ms.Tensor([[2.0, 3.0], [1.0, 5.0]], ms.float64)
        >>> rows, columns = LinearSumAssignment()(costs, ms.Tensor(2), False)
        >>> columns
        Tensor(shape=[2], dtype=Int64, value= [1, 0])
    """

    def __call__(
        self, cost_matrix: Tensor, dimension_limit: Tensor, maximize: bool
    ) -> tuple[Tensor, Tensor]:
        """The rows, ascending, and the column of each.

        Args:
            dimension_limit: a scalar int64: only this many columns count.
            maximize: the largest sum instead.
        """
        return linear_sum_assignment(cost_matrix, maximize, dimension_limit)


class SolveTriangular:
    """The solution of a triangular system of equations.

    Args:
        lower: the matrix is a lower triangle.
        unit_diagonal: its diagonal counts as ones.
        trans: `"T"` or `"C"` for its transpose or adjoint.
    """

    def __init__(
        self, lower: bool = False, unit_diagonal: bool = False, trans: str = "N"
    ) -> None:
        self.lower, self.unit_diagonal, self.trans = lower, unit_diagonal, trans

    def __call__(self, a: Tensor, b: Tensor) -> Tensor:
        """The x with `a @ x == b`."""
        return linalg.solve_triangular(a, b, trans=self.trans, lower=self.lower,
                                       unit_diagonal=self.unit_diagonal)


class Eig:
    """Eigenvalues and, if requested, eigenvectors of a square matrix.

    Args:
        compute_v: give the eigenvectors, too.
    """

    def __init__(self, compute_v: bool = True) -> None:
        self.compute_v = compute_v

    def __call__(self, a: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        """The eigenvalues, or a pair."""
        values, vectors = decompositions.eig(a)
        return (values, vectors) if self.compute_v else values


__all__ = ["Eig", "LinearSumAssignment", "SolveTriangular"]
__dir__ = public_names(__name__)
