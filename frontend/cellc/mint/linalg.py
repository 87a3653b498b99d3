"""`mint.linalg`: inverses, QR and norms of matrices. Source: `mindspore.mint.linalg`."""

from __future__ import annotations

from typing import Any

from cellc_runtime.dtypes import DType
from cellc_runtime.lazy import public_names

from .. import ops
from ..core.declared import misuse
from ..ops.arguments import is_int, tensor
from ..ops.functional.matrix_norms import matrix_norms
from ..tensors.tensor import Tensor


def inv(input: Tensor) -> Tensor:
    """The inverses of square matrices (..., n, n)."""
    x = tensor(input, "inv")
    if x.ndim > 6:
        raise misuse("inv", f"'input' must have 2 to 6 axes, but has shape {x.shape}")
    return ops.inverse(x)


def qr(A: Tensor, mode: str = "reduced") -> tuple[Tensor, Tensor]:
    """Q with orthonormal columns and upper triangular R with Q @ R = A; see `ops.qr`."""
    return ops.qr(A, mode)


def vector_norm(
    x: Tensor, ord: Any = 2, dim: Any = None, keepdim: bool = False, *, dtype: DType | None = None
) -> Tensor:
    """The norm of all elements, or of those along axes. Source: `mint.linalg.vector_norm`.

    Args:
        ord: p of sum(abs(x)**p)**(1 / p); inf and -inf the largest and smallest size, 0 how many
            elements are not zero.
        dim: an axis or several; all elements if None.
        keepdim: keep reduced axes as size 1.
        dtype: element type to convert to first.
    """
    if not isinstance(ord, (bool, int, float)):
        raise misuse("vector_norm", "'ord' must be a bool, int or float", repr(ord))
    if dim is not None and not is_int(dim) and not isinstance(dim, (tuple, list)):
        raise misuse("vector_norm", "'dim' must be an int, tuple or list", repr(dim), TypeError)
    return ops.vector_norm(x, float(ord), dim, keepdim, dtype=dtype)


def matrix_norm(
    A: Tensor, ord: Any = "fro", dim: Any = (-2, -1), keepdim: bool = False, *,
    dtype: DType | None = None,
) -> Tensor:
    """The norms of matrices; see `ops.matrix_norm`."""
    return matrix_norms(A, ord, dim, keepdim, dtype, "dim")


def norm(
    A: Tensor, ord: Any = None, dim: Any = None, keepdim: bool = False, *,
    dtype: DType | None = None,
) -> Tensor:
    """The norm of vectors or matrices.

    Args:
        A: vectors along `dim`, or matrices over two axes.
        ord: see `vector_norm` and `matrix_norm`; the root of the sum of squares if None.
        dim: an axis: vectors; two: matrices; None: all elements, or with `ord` a vector or matrix.
        keepdim: keep reduced axes as size 1.
        dtype: element type to convert to first.
    """
    x = tensor(A, "norm", "A")
    if dim is None and ord is not None:
        if x.ndim not in (1, 2):
            raise misuse("norm",
                         f"'A' must have 1 or 2 axes where 'dim' is None, but has {x.shape}")
        dim = 0 if x.ndim == 1 else (0, 1)
    if dim is None or (ord is None and isinstance(dim, (tuple, list))):
        return vector_norm(x, 2, dim, keepdim, dtype=dtype)
    if is_int(dim) or (isinstance(dim, (tuple, list)) and len(dim) == 1):
        if isinstance(ord, str):
            raise misuse("norm", "'ord' must be a number for vectors", repr(ord), TypeError)
        return vector_norm(x, 2 if ord is None else ord, dim, keepdim, dtype=dtype)
    return matrix_norm(x, ord, dim, keepdim, dtype=dtype)


__all__ = ["inv", "matrix_norm", "norm", "qr", "vector_norm"]
__dir__ = public_names(__name__)
