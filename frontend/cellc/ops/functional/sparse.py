"""Functions of sparse tensors: what is not elementwise.

Source: the functions of the same names in `mindspore.ops`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

from cellc_runtime.dtypes import DType, float32, float64, int16, int32, int64

from ...core.declared import misuse
from ...core.dispatch import apply_one
from ...tensors.index_plan import check_range
from ...tensors.promotion import cast_to
from ...tensors.tensor import Tensor
from ..arguments import axis_of, boolean, int_tensor, integer, need_known, ranked, size, tensor
from ..operands import operands_of
from ..primitive import Primitive
from ..sparse_tensors import (
    COOTensor,
    CSRTensor,
    RowTensorInner,
    coo_of_dense,
    coo_sum,
    csr_of_dense,
    csr_product,
    csr_sum,
    csr_transposed,
    made,
    place_numbers,
    row_numbers,
    with_values,
)
from . import (
    arith,
    compositions,
    creation,
    indexing,
    joining,
    reductions,
    shapes,
    sparse_places,
    sparse_products,
)

Shape = tuple[int, ...]


def _coo(x: Any, what: str) -> COOTensor:
    if not isinstance(x, COOTensor):
        raise misuse(what, "a COOTensor is needed", type(x).__name__, TypeError)
    return x


def _csr(x: Any, what: str) -> CSRTensor:
    if not isinstance(x, CSRTensor):
        raise misuse(what, "a CSRTensor is needed", type(x).__name__, TypeError)
    return x


# --- from one form to another ---------------------------------------------------------------------


def csr_to_coo(tensor: CSRTensor) -> COOTensor:
    """A `COOTensor` with the elements of a `CSRTensor`: each by its row and column instead of by
    the starts of rows."""
    return _csr(tensor, "csr_to_coo").to_coo()


def csr_to_dense(csr_tensor: CSRTensor) -> Tensor:
    """The dense Tensor (m, n) of a `CSRTensor`, with 0 where it has no element; values of one place
    are added."""
    return _csr(csr_tensor, "csr_to_dense").to_dense()


def dense_to_sparse_coo(tensor: Tensor) -> COOTensor:
    """The elements of a matrix that are not zero, by coordinates (int32).

    Raises:
        TypeError: no Tensor; in a run-time branch or loop of a graph.
    """
    return coo_of_dense(tensor)


def dense_to_sparse_csr(tensor: Tensor) -> CSRTensor:
    """The elements of a matrix that are not zero, by rows (int32).

    Raises:
        TypeError: no Tensor; in a run-time branch or loop of a graph.
    """
    return csr_of_dense(tensor)


# --- by coordinates -------------------------------------------------------------------------------


def coo_add(x1: COOTensor, x2: COOTensor, thresh: Tensor) -> COOTensor:
    """The sum of two sparse matrices, each place once, in row-major order.

    Args:
        thresh: a scalar; sums smaller than this in size are left out.

    Raises:
        TypeError: no `COOTensor`; `thresh` is no Tensor; in a run-time branch or loop of a graph.
    """
    return coo_sum(x1, x2, tensor(thresh, "coo_add", "thresh"))


def coo_concat(sp_input: Sequence[COOTensor], concat_dim: int = 0) -> COOTensor:
    """Sparse matrices beside each other, in row-major order.

    Args:
        concat_dim: 0: one below the other, 1: one to the right of the other.
    """
    what = "coo_concat"
    if not isinstance(sp_input, (list, tuple)):
        raise misuse(what, "'sp_input' must be a list or tuple of COOTensor",
                     type(sp_input).__name__, TypeError)
    parts = [_coo(x, what) for x in sp_input]
    if len(parts) < 2:
        raise misuse(what, "at least two COOTensor are needed", len(parts))
    axis = axis_of(concat_dim, 2, what, "concat_dim")
    if len({p.shape[1 - axis] for p in parts}) > 1:
        raise misuse(what, f"shapes may differ along axis {axis} only", [p.shape for p in parts])
    size = sum(p.shape[axis] for p in parts)
    shape = (size, parts[0].shape[1]) if axis == 0 else (parts[0].shape[0], size)
    numbers, before = [], 0
    for p in parts:
        shift = before * (shape[1] if axis == 0 else 1)
        numbers.append(arith.add(sparse_places.numbered(p.indices, shape), shift))
        before += p.shape[axis]
    found, order = sparse_places.ordered(joining.concat(numbers, 0))
    return made(COOTensor, indices=sparse_places.places(found, shape, parts[0].indices.dtype),
                         values=sparse_places.taken(
                             joining.concat([p.values for p in parts], 0), order),
                         shape=shape)


# --- by rows --------------------------------------------------------------------------------------


def csr_mul(x: CSRTensor, y: Any) -> Any:
    """x * y at the places of x.

    Args:
        y: a Tensor that broadcasts to x; or a number (or Tensor of one element), which gives the
            values alone.
    """
    return _csr(x, "csr_mul") * y


def csr_div(x: CSRTensor, y: Any) -> Any:
    """x / y at the places where x has elements, a `CSRTensor`; elsewhere y does not count. y is
    dense or a number, as in `csr_mul`."""
    return _csr(x, "csr_div") / y


def csr_mv(csr_tensor: CSRTensor, dense: Tensor) -> Tensor:
    """The matrix multiplication of a `CSRTensor` (m, n) and a dense column (n, 1): a dense column
    (m, 1)."""
    return _csr(csr_tensor, "csr_mv").mv(dense)


def csr_mm(
    a: CSRTensor, b: Any, trans_a: bool = False, trans_b: bool = False, adjoint_a: bool = False,
    adjoint_b: bool = False,
) -> Any:
    """The product of two sparse matrices, sparse; or of a sparse and a dense one, dense.

    Args:
        trans_a, trans_b: transpose a, b first.
        adjoint_a, adjoint_b: transpose them and conjugate their values.

    Raises:
        TypeError: other arguments; with both sparse, in a run-time branch or loop of a graph.
    """
    what = "csr_mm"
    for name, flag in (("trans_a", trans_a), ("trans_b", trans_b), ("adjoint_a", adjoint_a),
                       ("adjoint_b", adjoint_b)):
        boolean(flag, what, name)
    left = _transpose(_csr(a, what), trans_a, adjoint_a)
    if isinstance(b, Tensor):
        right = shapes.swapaxes(b, -1, -2) if trans_b or adjoint_b else b
        return left.mm(arith.conj(right) if adjoint_b else right)
    return csr_product(left, _transpose(_csr(b, what), trans_b, adjoint_b))


def _transpose(x: CSRTensor, transpose: bool, adjoint: bool) -> CSRTensor:
    turned = csr_transposed(x) if transpose or adjoint else x
    return with_values(turned, arith.conj(turned.values)) if adjoint else turned


def csr_reduce_sum(csr_tensor: CSRTensor, axis: int) -> Tensor:
    """The sums of the rows of a `CSRTensor` (m, n), a dense Tensor (m, 1); missing elements are 0.

    Args:
        axis: 1, that of columns.
    """
    return _csr(csr_tensor, "csr_reduce_sum").sum(axis)


def csr_softmax(logits: CSRTensor, dtype: DType) -> CSRTensor:
    """The softmax of each row, over the elements that it has.

    Args:
        dtype: element type of the result, float32 or float64.
    """
    x = _csr(logits, "csr_softmax")
    if dtype not in (float32, float64) or x.ndim != 2:
        raise misuse("csr_softmax", "a matrix and a 'dtype' of float32 or float64 are needed",
                     f"shape {x.shape} and {dtype}", TypeError)
    rows, values = row_numbers(x), cast_to(x.values, dtype)
    top = indexing.stop_gradient(indexing.unsorted_segment_max(values, rows, x.shape[0]))
    raised = apply_one("exp", values - sparse_places.taken(top, rows))
    total = sparse_places.summed(raised, rows, x.shape[0])
    return with_values(x, raised / sparse_places.taken(total, rows))


def csr_add(a: CSRTensor, b: CSRTensor, alpha: Tensor, beta: Tensor) -> CSRTensor:
    """alpha * a + beta * b, with an element where either has one.

    Args:
        alpha, beta: scalars.

    Raises:
        TypeError: other arguments; in a run-time branch or loop of a graph.
    """
    return csr_sum(a, b, tensor(alpha, "csr_add", "alpha"), tensor(beta, "csr_add", "beta"))


# --- from places, values and shapes ---------------------------------------------------------------


def _static(shape: Any, what: str, name: str) -> Shape:
    """A shape given as a tuple, or as a Tensor whose elements are known."""
    found = need_known(shape, what).tolist() if isinstance(shape, Tensor) else shape
    if not isinstance(found, (tuple, list)):
        raise misuse(what, f"'{name}' must be a tuple of ints or a Tensor", type(shape).__name__,
                     TypeError)
    return tuple([integer(d, what, name) for d in found])


def _points(indices: Any, values: Any, shape: Shape, what: str) -> tuple[Tensor, Tensor]:
    """Places (n, axes) and values (n) that fit a shape."""
    i, v = operands_of(what, f"indices (n, {len(shape)}), values (n)", indices, values)
    if i.dtype not in (int16, int32, int64):
        raise misuse(what, "'indices' must be int32 or int64", i.dtype, TypeError)
    for axis, d in enumerate(shape):
        check_range(joining.part(i, 1, axis, axis + 1), 0, d,
                    f"For '{what}', indices of axis {axis} "
                    f"must be in range [0, {d}), but got ", 0, ".")
    return i, v


def _one_type(values: Tensor, dense: Tensor, what: str) -> None:
    if values.dtype is not dense.dtype:
        raise misuse(what, "the sparse and the dense tensor must have one type",
                     f"{values.dtype} and {dense.dtype}", TypeError)


def sparse_to_dense(indices: Tensor, values: Tensor, sparse_shape: Any) -> Tensor:
    """A dense tensor from places (n, axes) and values (n); the last of one place counts."""
    shape = _static(sparse_shape, "SparseToDense", "sparse_shape")
    i, v = _points(indices, values, shape, "SparseToDense")
    return indexing.tensor_scatter_update(creation.zeros(shape, v.dtype), i, v)


def sparse_dense_add(
    x1_indices: Tensor, x1_values: Tensor, x1_shape: Any, x2: Tensor
) -> Tensor:
    """A dense tensor with values (n) added at places (n, axes)."""
    what = "SparseTensorDenseAdd"
    shape, dense = _static(x1_shape, what, "x1_shape"), tensor(x2, what, "x2")
    i, v = _points(x1_indices, x1_values, shape, what)
    _one_type(v, dense, what)
    if dense.shape != shape:
        raise misuse(what, f"'x2' must have shape {shape}, but has {dense.shape}")
    return indexing.tensor_scatter_add(dense, i, v)


def sparse_dense_matmul(
    indices: Tensor, values: Tensor, sparse_shape: Any, dense: Tensor, adjoint_st: bool = False,
    adjoint_dt: bool = False,
) -> Tensor:
    """The product of a sparse matrix, by places (n, 2) and values (n), and a dense one.

    Args:
        adjoint_st, adjoint_dt: transpose the sparse, the dense one first.
    """
    what = "SparseTensorDenseMatmul"
    turn, other = boolean(adjoint_st, what, "adjoint_st"), boolean(adjoint_dt, what, "adjoint_dt")
    shape, right = _static(sparse_shape, what, "sparse_shape"), tensor(dense, what, "dense")
    i, v = _points(indices, values, shape, what)
    _one_type(v, right, what)
    if right.ndim != 2 or len(shape) != 2:
        raise misuse(what, "two matrices are needed", f"the shapes {shape} and {right.shape}")
    rows, columns = (
        shapes.squeeze(joining.part(i, 1, k, k + 1), 1) for k in ((1, 0) if turn else (0, 1)))
    left = arith.conj(v) if turn else v
    return sparse_products.product(rows, columns, left, shape[::-1] if turn else shape,
                                   arith.conj(shapes.swapaxes(right, 0, 1)) if other else right,
                                   what)


def _place_rows(x: Any, what: str, name: str, rank: int) -> Tensor:
    t = tensor(x, what, name)
    if t.dtype is not int64:
        raise misuse(what, f"'{name}' must be int64", t.dtype, TypeError)
    if t.ndim != rank:
        raise misuse(what, f"'{name}' must have {rank} axes, but has shape {t.shape}")
    return t


def coalesce(
    x_indices: Tensor, x_values: Tensor, x_shape: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Each place of a sparse tensor once, in row-major order, with the sum of its values.

    Args:
        x_indices: int64 (axes, n).
        x_values: (n).
        x_shape: the shape, int64 (axes).

    Returns:
        The places (axes, k), the values (k) and the shape.

    Raises:
        TypeError: places or shape of another type; in a run-time branch or loop of a graph.
        IndexError: a place out of range.
    """
    what = "Coalesce"
    places, values, shape = operands_of(
        what, "x_indices (axes, n), x_values (n), x_shape (axes)",
        _place_rows(x_indices, what, "x_indices", 2), x_values,
        _place_rows(x_shape, what, "x_shape", 1))
    check_range(shapes.reshape(places, (places.size,)), 0, 1 << 62,
                f"For '{what}', indices must not be negative, but got ", 0, ".")
    room = shapes.expand_dims(shape, 1) - places
    check_range(shapes.reshape(room, (room.size,)), 1, 1 << 62,
                f"For '{what}', indices must be below 'x_shape', but one is too large: 'x_shape' "
                "less the index is ", 0, ".")
    sizes = [shapes.squeeze(joining.part(shape, 0, k, k + 1), 0) for k in range(shape.shape[0])]
    rows = [shapes.squeeze(joining.part(places, 0, k, k + 1), 0) for k in range(shape.shape[0])]
    numbers = rows[0]
    for row, extent in zip(rows[1:], sizes[1:], strict=True):
        numbers = arith.add(arith.mul(numbers, extent), row)
    found, sums = sparse_places.merged(numbers, values, what)
    out: list[Tensor] = []
    for extent in sizes[:0:-1]:
        out.append(arith.remainder(found, extent))
        found = arith.floor_divide(found, extent)
    return joining.stack([found, *out[::-1]], 0), sums, shape


def sparse_slice(
    indices: Tensor, values: Tensor, shape: Tensor, start: Tensor, size: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The part of a sparse tensor that begins at `start` and has at most the sizes `size`.

    Args:
        indices: int64 (n, axes).
        values: (n).
        shape, start, size: int64 (axes).

    Returns:
        The places (k, axes) in the part, the values (k) and the shape of the part.
    """
    what = "SparseSlice"
    i, v, whole, first, most = operands_of(
        what, "indices (n, axes), values (n), shape (axes), start (axes), size (axes)",
        _place_rows(indices, what, "indices", 2), values, *(
            _place_rows(t, what, n, 1)
            for t, n in ((shape, "shape"), (start, "start"), (size, "size"))))
    room = arith.maximum(arith.minimum(most, whole - first), 0)
    moved = i - first
    kept = sparse_places.held(reductions.all(arith.logical_and(moved >= 0, moved < room), 1), what)
    return sparse_places.taken(moved, kept), sparse_places.taken(v, kept), room


def sparse_segment_mean(x: Tensor, indices: Tensor, segment_ids: Tensor) -> Tensor:
    """The means of rows of x, by segments; zeros for a segment without rows.

    Args:
        x: (n, ...), floats.
        indices: the rows, int32 or int64 (k).
        segment_ids: the segment of each, of the same type (k), ascending from 0. In a graph they
            must be known when it is compiled: they decide the size of the result.

    Raises:
        IndexError: a row out of range.
    """
    what = "sparse_segment_mean"
    rows, i, ids = operands_of(
        what, "x float (m, ...), indices index (n), segment_ids index (n)", x, indices, segment_ids)
    if ids.dtype is not i.dtype:
        raise misuse(what, "'indices' and 'segment_ids' must have one type",
                     f"{i.dtype} and {ids.dtype}", TypeError)
    count = compositions.segments(ids, what)
    check_range(i, 0, rows.shape[0], f"For '{what}', 'indices' must be in range [0, "
                f"{rows.shape[0]}), but got ", 0, ".")
    places = cast_to(ids, int64)
    total = sparse_places.summed(sparse_places.taken(rows, i), places, count)
    many = arith.maximum(sparse_places.summed(creation.ones(i.shape, rows.dtype), places, count), 1)
    return total / shapes.reshape(many, (count,) + (1,) * (rows.ndim - 1))


# --- primitives that are functions ----------------------------------------------------------------


def _instance(name: str, function: Callable[..., Any]) -> Primitive:
    """The one Primitive of a name, which is called as a function."""
    cls = type(name, (Primitive,), {"function": staticmethod(function), "__module__": __name__,
                                    "__doc__": function.__doc__})
    made: Primitive = cls()
    return made


def _part(kind: type, field: str) -> Callable[[Any], Any]:
    def get(x: Any) -> Any:
        if not isinstance(x, kind):
            raise TypeError(f"a {kind.__name__} is needed, but got {type(x).__name__}.")
        return getattr(x, field)

    get.__doc__ = (f"The `{field}` of a `{kind.__name__}`, as its attribute of this name gives it. "
                   "Anything else raises a TypeError.")
    return get


def _coo2csr(row_indices: Tensor, height: int) -> Tensor:
    """Where the elements of each of `height` rows start, and where the last ends: (height + 1,),
    from the rows (n,) of elements in row-major order."""
    rows = ranked(int_tensor(row_indices, "coo2csr", "row_indices"), 1, 1, "coo2csr", "row_indices")
    count = size(height, "coo2csr", "height")
    check_range(rows, 0, count, f"For 'coo2csr', rows must be in range [0, {count}), but got ", 0,
                ".")
    return sparse_places.ends_of(rows, count, rows.dtype)


def _csr2coo(indptr: Tensor, nnz: int) -> Tensor:
    """The row of each of `nnz` elements, (nnz,), from the starts of the rows (rows + 1,): the
    inverse of `coo2csr`."""
    ends = ranked(int_tensor(indptr, "csr2coo", "indptr"), 1, 1, "csr2coo", "indptr")
    count = size(nnz, "csr2coo", "nnz")
    check_range(ends, 0, count + 1, f"For 'csr2coo', 'indptr' must be in range [0, {count}], but "
                "got ", 0, ".")
    return cast_to(sparse_places.rows_of(ends, count), ends.dtype)


def _csr_gather(indptr: Tensor, indices: Tensor, dense: Tensor, sparse_shape: Shape) -> Tensor:
    """The elements of a dense Tensor at the places of a `CSRTensor`, given by the starts of its
    rows and its columns."""
    zeros = creation.zeros((indices.shape[0], *sparse_shape[2:]), dense.dtype)
    places = CSRTensor(indptr, indices, zeros, sparse_shape)
    return sparse_products.elements(dense, place_numbers(places), sparse_shape)


def _make_coo(indices: Tensor, values: Tensor, dense_shape: Shape) -> COOTensor:
    """A `COOTensor` of `indices` (n, rank), `values` (n,) and the shape of the dense tensor, which
    must hold the places."""
    return COOTensor(indices, values, dense_shape)


def _make_csr(indptr: Tensor, indices: Tensor, values: Tensor, dense_shape: Shape) -> CSRTensor:
    """A `CSRTensor` of the starts of rows `indptr` (rows + 1,), columns `indices` (n,), `values`
    (n, ...) and the shape of the dense tensor."""
    return CSRTensor(indptr, indices, values, dense_shape)


def _make_row(indices: Tensor, values: Tensor, dense_shape: Shape) -> RowTensorInner:
    """A `RowTensorInner` of the numbers of rows `indices` (n,), these rows as `values` (n, ...),
    and the shape of the dense tensor."""
    return RowTensorInner(indices, values, dense_shape)


def _row_add(x: RowTensorInner, y: RowTensorInner) -> RowTensorInner:
    """The sum of two row tensors of one shape: the rows of both, one after the other; a row that
    both have is there twice."""
    if not isinstance(x, RowTensorInner) or not isinstance(y, RowTensorInner) or \
            x.dense_shape != y.dense_shape:
        raise TypeError(f"two RowTensor of one shape are needed, but got {x} and {y}.")
    return made(
        RowTensorInner,
        indices=joining.concat((x.indices, y.indices), 0),
        values=joining.concat((x.values, y.values), 0),
        dense_shape=x.dense_shape)


coo2csr = _instance("COO2CSR", _coo2csr)
csr2coo = _instance("CSR2COO", _csr2coo)
csr_gather = _instance("CSRGather", _csr_gather)
make_coo_tensor = _instance("MakeCOOTensor", _make_coo)
make_csr_tensor = _instance("MakeCSRTensor", _make_csr)
make_row_tensor_inner = _instance("MakeRowTensor", _make_row)
coo_tensor_get_indices = _instance("COOTensorGetIndices", _part(COOTensor, "indices"))
coo_tensor_get_values = _instance("COOTensorGetValues", _part(COOTensor, "values"))
coo_tensor_get_dense_shape = _instance("COOTensorGetDenseShape", _part(COOTensor, "shape"))
csr_tensor_get_indptr = _instance("CSRTensorGetIndptr", _part(CSRTensor, "indptr"))
csr_tensor_get_indices = _instance("CSRTensorGetIndices", _part(CSRTensor, "indices"))
csr_tensor_get_values = _instance("CSRTensorGetValues", _part(CSRTensor, "values"))
csr_tensor_get_dense_shape = _instance("CSRTensorGetDenseShape", _part(CSRTensor, "shape"))
row_tensor_get_indices = _instance("RowTensorGetIndices", _part(RowTensorInner, "indices"))
row_tensor_get_values = _instance("RowTensorGetValues", _part(RowTensorInner, "values"))
row_tensor_get_dense_shape = _instance("RowTensorGetDenseShape",
                                       _part(RowTensorInner, "dense_shape"))
row_tensor_add = _instance("RowTensorAdd", _row_add)


def make_sparse_tensor(indices: Tensor, values: Tensor, dense_shape: Shape) -> COOTensor:
    """A `COOTensor` of `indices` (n, rank), `values` (n,) and the shape: an older name, which warns
    that it is deprecated."""
    warnings.warn("'make_sparse_tensor' is deprecated: use 'COOTensor'.", DeprecationWarning,
                  stacklevel=2)
    return _make_coo(indices, values, dense_shape)


def make_row_tensor(indices: Tensor, values: Tensor, dense_shape: Shape) -> RowTensorInner:
    """A row tensor of the numbers of rows `indices` (n,), the rows `values` (n, ...) and the shape:
    an older name, which warns that it is deprecated."""
    warnings.warn("'make_row_tensor' is deprecated and will be removed in a future version.",
                  DeprecationWarning, stacklevel=2)
    return _make_row(indices, values, dense_shape)
