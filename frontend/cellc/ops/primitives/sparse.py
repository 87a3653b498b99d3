"""Primitive classes of sparse tensors, and of decompositions of matrices.

Source: the classes of the same names in `mindspore.ops`.
"""

from __future__ import annotations

from cellc_runtime.lazy import names_of

from ..functional import decompositions, sparse
from .tables import make_primitives

PRIMITIVES = make_primitives(
    {
        "Geqrf": decompositions.geqrf, "LuSolve": decompositions.lu_solve,
        "MatrixExp": decompositions.matrix_exp,
        "MatrixLogarithm": decompositions.matrix_logarithm, "Orgqr": decompositions.orgqr,
        "Coalesce": sparse.coalesce, "SparseSlice": sparse.sparse_slice,
        "SparseTensorDenseAdd": sparse.sparse_dense_add, "SparseToDense": sparse.sparse_to_dense,
    },
    {
        "Eig": (decompositions.eig_primitive, {"compute_v": False}),
        "Lstsq": (decompositions.lstsq_fast, {"fast": True, "l2_regularizer": 0.0}),
        "LuUnpack": (decompositions.lu_unpack, {"unpack_data": True, "unpack_pivots": True}),
        "MatrixSolveLs": (decompositions.matrix_solve_ls, {"fast": True}),
        "NuclearNorm": (decompositions.nuclear_norm, {"dim": None, "keepdim": False}),
        "Ormqr": (decompositions.ormqr, {"left": True, "transpose": False}),
        "SparseTensorDenseMatmul": (sparse.sparse_dense_matmul,
                                    {"adjoint_st": False, "adjoint_dt": False}),
    },
)
"""The classes by name."""

__all__ = sorted(PRIMITIVES)
__getattr__ = names_of(__name__, PRIMITIVES)
