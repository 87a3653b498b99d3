"""Primitive classes of sparse tensors, and of decompositions of matrices.

Source: the classes of the same names in `mindspore.ops`.
"""

from __future__ import annotations

from cellc_runtime.lazy import names_of

from . import functional_sparse as fs
from .primitives import make_primitives

PRIMITIVES = make_primitives(
    {
        "Coalesce": fs.coalesce, "SparseSlice": fs.sparse_slice,
        "SparseTensorDenseAdd": fs.sparse_dense_add, "SparseToDense": fs.sparse_to_dense,
    },
    {
        "SparseTensorDenseMatmul": (fs.sparse_dense_matmul,
                                    {"adjoint_st": False, "adjoint_dt": False}),
    },
)
"""The classes by name."""

__all__ = sorted(PRIMITIVES)
__getattr__ = names_of(__name__, PRIMITIVES)
