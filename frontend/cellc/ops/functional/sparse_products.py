"""Values at places of a matrix with dense tensors: elements beside them, products, types."""

from __future__ import annotations

from typing import Any

from cellc_runtime.dtypes import DType, int64

from ...core.declared import misuse
from ...tensors.promotion import cast_to, operands
from ...tensors.tensor import Tensor
from . import creation, shapes, sparse_places

Shape = tuple[int, ...]


def wider(a: DType, b: DType) -> DType:
    """The larger of two types of ints."""
    return a if a.numpy.itemsize >= b.numpy.itemsize else b


def like(factor: Any, values: Tensor) -> Any:
    """A factor in the type of values; a number as it is."""
    return cast_to(factor, values.dtype) if isinstance(factor, Tensor) else factor


def ones_like(values: Tensor) -> Tensor:
    """Ones beside values."""
    return creation.ones(values.shape, values.dtype)


def is_number(x: Any) -> bool:
    """Whether a factor is a number: then MindSpore gives the values alone."""
    return isinstance(x, (bool, int, float)) or (x.size == 1 and x.ndim <= 2)


def elements(dense: Tensor, numbers: Tensor, shape: Shape) -> Tensor:
    """The elements of a dense tensor, broadcast to a shape, at row-major numbers of two axes."""
    if dense.ndim > len(shape):
        raise ValueError(f"a dense tensor of shape {dense.shape} cannot broadcast to the sparse "
                         f"tensor, whose shape is {shape}")
    full = shapes.broadcast_to(dense, shape)
    return sparse_places.taken(shapes.reshape(full, (shape[0] * shape[1], *shape[2:])), numbers)


def product(
    rows: Tensor, columns: Tensor, values: Tensor, shape: Shape, dense: Tensor, what: str
) -> Tensor:
    """The product of a sparse matrix, by the places and values of its elements, and a dense one."""
    if len(shape) != 2 or dense.ndim != 2 or dense.shape[0] != shape[1]:
        raise misuse(what, f"a dense matrix of {shape[1]} rows is needed beside a sparse one of "
                     f"shape {shape}", f"shape {dense.shape}")
    v, d = operands(what, values, dense)
    terms = shapes.expand_dims(v, 1) * sparse_places.taken(d, cast_to(columns, int64))
    return sparse_places.summed(terms, cast_to(rows, int64), shape[0])
