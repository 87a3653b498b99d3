"""Sparse matrices, given by the places and values of their elements."""

from __future__ import annotations

from typing import Any

from ... import ops
from ...core import checks
from ...tensors.tensor import Tensor
from ..cell import Cell


class SparseToDense(Cell):
    """A sparse tensor made dense. Source: `mindspore.nn.SparseToDense`."""

    def construct(self, sparse_tensor: Any) -> Tensor:
        """What has `indices` (n, axes), `values` (n) and a `shape`, such as a `COOTensor`.

        Values of one place are added.
        """
        return ops.scatter_nd(sparse_tensor.indices, sparse_tensor.values, sparse_tensor.shape)


class SparseTensorDenseMatmul(Cell):
    """The product of a sparse and a dense matrix. Source: `mindspore.nn.SparseTensorDenseMatmul`.

    Args:
        adjoint_st: transpose the sparse matrix first.
        adjoint_dt: transpose the dense matrix first.

    Raises:
        TypeError: no bools.
    """

    def __init__(self, adjoint_st: bool = False, adjoint_dt: bool = False) -> None:
        super().__init__()
        self.adjoint_st = checks.of_type(adjoint_st, (bool,), "adjoint_st", self.cls_name)
        self.adjoint_dt = checks.of_type(adjoint_dt, (bool,), "adjoint_dt", self.cls_name)

    def construct(
        self, indices: Tensor, values: Tensor, sparse_shape: Any, dense: Tensor
    ) -> Tensor:
        """Places (n, 2) and values (n) of a matrix of shape `sparse_shape`, and a matrix.

        Raises:
            TypeError: types other than these.
            ValueError: shapes that do not fit.
        """
        what = "SparseTensorDenseMatmul"
        if not indices.dtype.is_integer or values.dtype != dense.dtype:
            raise TypeError(
                f"For '{what}', 'indices' must be int32 or int64 and 'values' and 'dense' have one "
                f"type, but got {indices.dtype}, {values.dtype} and {dense.dtype}."
            )
        if indices.ndim != 2 or indices.shape[1] != 2 or values.shape != indices.shape[:1] or \
                len(sparse_shape) != 2 or dense.ndim != 2:
            raise ValueError(
                f"For '{what}', 'indices' (n, 2), 'values' (n), a 'sparse_shape' of 2 ints and a "
                f"'dense' matrix are needed, but got {indices.shape}, {values.shape}, "
                f"{sparse_shape} and {dense.shape}."
            )
        b = ops.swapaxes(dense, 0, 1) if self.adjoint_dt else dense
        at, to = (0, 1) if self.adjoint_st else (1, 0)
        if b.shape[0] != sparse_shape[at]:
            raise ValueError(
                f"For '{what}', a sparse matrix of shape {tuple(sparse_shape)} does not fit a "
                f"'dense' one of shape {dense.shape}."
            )
        rows = ops.gather(b, indices[:, at], 0) * ops.expand_dims(values, 1)
        out = ops.zeros((sparse_shape[to], b.shape[1]), b.dtype)
        return ops.index_add(out, indices[:, to], rows, 0)
