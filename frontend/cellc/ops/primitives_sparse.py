"""Primitive classes of sparse tensors, and of decompositions of matrices.

Source: the classes of the same names in `mindspore.ops`.
"""

from __future__ import annotations

from cellc_runtime.lazy import names_of

from . import functional_decompositions as fd
from . import functional_sparse as fs
from .primitives import make_primitives

PRIMITIVES = make_primitives(
    {
        "Geqrf": fd.geqrf, "LuSolve": fd.lu_solve, "MatrixExp": fd.matrix_exp,
        "MatrixLogarithm": fd.matrix_logarithm, "Orgqr": fd.orgqr,
        "Coalesce": fs.coalesce, "SparseSlice": fs.sparse_slice,
        "SparseTensorDenseAdd": fs.sparse_dense_add, "SparseToDense": fs.sparse_to_dense,
    },
    {
        "Eig": (fd.eig_primitive, {"compute_v": False}),
        "Lstsq": (fd.lstsq_fast, {"fast": True, "l2_regularizer": 0.0}),
        "LuUnpack": (fd.lu_unpack, {"unpack_data": True, "unpack_pivots": True}),
        "MatrixSolveLs": (fd.matrix_solve_ls, {"fast": True}),
        "NuclearNorm": (fd.nuclear_norm, {"dim": None, "keepdim": False}),
        "Ormqr": (fd.ormqr, {"left": True, "transpose": False}),
        "SparseTensorDenseMatmul": (fs.sparse_dense_matmul,
                                    {"adjoint_st": False, "adjoint_dt": False}),
    },
)
"""The classes by name."""

__all__ = sorted(PRIMITIVES)
__getattr__ = names_of(__name__, PRIMITIVES)
