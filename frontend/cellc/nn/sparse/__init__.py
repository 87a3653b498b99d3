"""Sparse matrices: `cellc.nn.sparse`."""

from .sparse import SparseTensorDenseMatmul, SparseToDense

__all__ = ["SparseTensorDenseMatmul", "SparseToDense"]
