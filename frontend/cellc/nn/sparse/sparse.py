"""Sparse matrices, given by the places and values of their elements. Source: `mindspore.nn`."""

from __future__ import annotations

from typing import Any

from ... import ops
from ...core.declared import Flag
from ...tensors.tensor import Tensor
from ..cell import Cell


class SparseToDense(Cell):
    """A dense Tensor of a `COOTensor`: zeros of its shape with the values at its indices."""

    def construct(self, sparse_tensor: Any) -> Tensor:
        """Return the dense form of a `COOTensor` or its like, with `indices` (n, axes), `values`
        (n) and `shape`.

        Values of one place are added.
        """
        return ops.scatter_nd(sparse_tensor.indices, sparse_tensor.values, sparse_tensor.shape)


class SparseTensorDenseMatmul(Cell):
    """The product of a sparse and a dense matrix.

    Args:
        adjoint_st: transpose the sparse matrix first.
        adjoint_dt: transpose the dense matrix first.
    """

    def __init__(self, adjoint_st: Flag = False, adjoint_dt: Flag = False) -> None:
        super().__init__()
        self.adjoint_st = adjoint_st
        self.adjoint_dt = adjoint_dt
        self.sparse_dense_matmul = ops.SparseTensorDenseMatmul(adjoint_st, adjoint_dt)

    def construct(
        self, indices: Tensor, values: Tensor, sparse_shape: Any, dense: Tensor
    ) -> Tensor:
        """Places (n, 2) and values (n) of a matrix of shape `sparse_shape`, and a matrix.

        Raises:
            IndexError: a place out of range.
        """
        out: Tensor = self.sparse_dense_matmul(indices, values, sparse_shape, dense)
        return out
