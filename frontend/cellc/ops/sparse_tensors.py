"""Sparse tensors: dense Tensors for the places and the values, and a shape that is known.

Each is a dataclass, so a graph takes it apart into Tensors as it does any other structure: it may
be an argument, a result and a value inside of `construct`.

Source: the same names in `mindspore` and `mindspore.common.sparse_tensor`.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

from cellc_runtime.dtypes import DType, int16, int32, int64

from ..core.declared import misuse
from ..core.native import names_itself
from ..tensors.index_plan import check_range, known_elements
from ..tensors.printing import tensor_repr
from ..tensors.promotion import cast_to
from ..tensors.tensor import Tensor
from .arguments import dtype_of, integer
from .functional import arith, indexing, joining, shapes, sparse_places, sparse_products

Shape = tuple[int, ...]
T = TypeVar("T", bound="_Fields")
M = TypeVar("M", bound="_Matrix")


# --- checks ---------------------------------------------------------------------------------------


def _tensor(x: Any, what: str, name: str) -> Tensor:
    if not isinstance(x, Tensor):
        raise misuse(what, f"'{name}' must be Tensor", type(x), TypeError)
    return x


def _places(x: Any, what: str, name: str, rank: int) -> Tensor:
    """Ints of a rank, which have no gradient."""
    t = _tensor(x, what, name)
    if t.dtype not in (int16, int32, int64):
        raise misuse(what, f"the type of '{name}' must be one of [int16, int32, int64]", t.dtype,
                     TypeError)
    if t.ndim != rank:
        raise misuse(what, f"'{name}' must be a {rank}-dimensional tensor",
                     f"a {t.ndim}-dimensional tensor")
    return t


def _shape(shape: Any, what: str) -> Shape:
    if not isinstance(shape, tuple):
        raise misuse(what, "'shape' must be tuple", type(shape), TypeError)
    found = tuple([integer(d, what, "shape") for d in shape])
    if min(found, default=1) < 1:
        raise misuse(what, "the element of 'shape' must be positive", found)
    return found


def _as_many(places: Tensor, values: Tensor, what: str) -> None:
    if values.ndim == 0 or places.shape[0] != values.shape[0]:
        raise misuse(what, "'indices' and 'values' must be equally many, but their shapes are "
                     f"{places.shape} and {values.shape}")


def _in_range(places: Tensor, size: int, what: str, which: str) -> None:
    check_range(places, 0, size, f"For '{what}', {which} must be in range [0, {size}), but got ", 0,
                ".")


def _parts(indices: Any, values: Any, shape: Any, what: str, rank: int
           ) -> tuple[Tensor, Tensor, Shape]:
    """Check the parts of a sparse tensor: as many places as values, and a shape."""
    places, new = _places(indices, what, "indices", rank), _tensor(values, what, "values")
    size = _shape(shape, what)
    _as_many(places, new, what)
    return places, new, size


def _same_shape(a: Any, b: Any, what: str) -> None:
    if not isinstance(b, (Tensor, COOTensor, CSRTensor)):
        raise TypeError(f"{type(a).__name__} {what} with {type(b)} is not supported.")
    if a.shape != b.shape:
        raise ValueError(f"To {what}, both tensors must have the same shape, but got {a.shape} and "
                         f"{b.shape}.")


# --- what all of them have ------------------------------------------------------------------------


def _show(t: Tensor) -> str:
    """A tensor inside of the text of a sparse one: as its `repr`, without commas."""
    array = known_elements(t)
    if array is None:
        return repr(t)
    head, _, rest = tensor_repr(array, t.dtype).partition("value=")
    return f"{head}value={rest.replace(',', '').lstrip(' ')}"


def _text(name: str, shape: Shape, dtype: DType, **parts: Tensor) -> str:
    shown = ", ".join(f"{key}={_show(t)}" for key, t in parts.items())
    return f"{name}(shape={list(shape)}, dtype={dtype!s}, {shown})"


@names_itself
@dataclass(init=False, repr=False, eq=False, frozen=True)
class _Fields:
    """Fields of a frozen dataclass, set without its checks, or those of another one."""

    # the fields that say where values stand; a gradient has the same
    PLACES: ClassVar = ("indptr", "indices")

    def _set(self, **parts: Any) -> None:
        for name, value in parts.items():
            object.__setattr__(self, name, value)

    @classmethod
    def _of(cls, **parts: Any) -> Self:
        """One of parts that are known to fit."""
        new = object.__new__(cls)
        new._set(**parts)
        return new

    def _copied(self, other: Any, kind: type[_Fields], name: str, *given: Any) -> bool:
        """Whether another one was given in place of fields; it is copied."""
        if other is None:
            return False
        if not isinstance(other, kind):
            raise TypeError(f"Expect input `{name}` to be a {kind.__name__}, but got {type(other)}")
        if any(g is not None for g in given):
            raise TypeError(f"If input `{name}` is provided, the other inputs must be `None`")
        self._set(**{f.name: getattr(other, f.name) for f in fields(other)})
        return True


@dataclass(init=False, repr=False, eq=False, frozen=True)
class _Matrix(_Fields):
    """The common part of tensors of values and a dense shape."""

    if TYPE_CHECKING:
        values: Tensor
        shape: Shape

        def _numbers(self) -> Tensor: ...

    def _with(self, values: Tensor) -> Self:
        """The same places with other values."""
        same = {f.name: getattr(self, f.name) for f in fields(self)}
        return self._of(**{**same, "values": values})

    @property
    def dtype(self) -> DType:
        """Element type of the values."""
        return self.values.dtype

    @property
    def size(self) -> int:
        """Number of values."""
        return int(self.values.size)

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return int(self.values.itemsize)

    @property
    def ndim(self) -> int:
        """Number of axes of the dense tensor."""
        return len(self.shape)

    def to_dense(self) -> Tensor:
        """The dense tensor; values of one place are added."""
        return sparse_places.dense(self._numbers(), self.values, self.shape)

    def abs(self) -> Self:
        """The absolute values, at the same places."""
        return self._with(arith.abs(self.values))

    def astype(self, dtype: Any) -> Self:
        """The values in another element type."""
        return self._with(cast_to(self.values, dtype_of(dtype, type(self).__name__)))

    def __neg__(self) -> Self:
        return self._with(arith.neg(self.values))


def made(kind: type[T], **parts: Any) -> T:
    """A sparse tensor of parts that are known to fit."""
    return kind._of(**parts)


def with_values(x: M, values: Tensor) -> M:
    """A sparse tensor with the same places and other values."""
    return x._with(values)


def place_numbers(x: COOTensor | CSRTensor) -> Tensor:
    """Where the elements stand, as row-major numbers, int64."""
    return x._numbers()


def row_numbers(x: CSRTensor) -> Tensor:
    """The rows of the elements, int64."""
    return x._rows()


# --- by coordinates -------------------------------------------------------------------------------


@dataclass(init=False, repr=False, eq=False, frozen=True)
class COOTensor(_Matrix):
    """A matrix by the coordinates and values of its elements; all others are zero.

    Coordinates may stand in any order, and more than once: `coalesce` adds the values of each. They
    are checked, in compiled code when it runs.

    Args:
        indices: rows and columns, ints (n, 2).
        values: (n).
        shape: the numbers of rows and columns.
        coo_tensor: another one, in place of these.

    Raises:
        IndexError: an index is negative, or not below its size.

    Examples:
        >>> x = ms.COOTensor(ms.Tensor([[0, 1], [1, 2]]), ms.Tensor([1.0, 2.0]), (3, 4))
        >>> x.to_dense()
    """

    indices: Tensor
    values: Tensor
    shape: Shape

    def __init__(
        self, indices: Any = None, values: Any = None, shape: Any = None, coo_tensor: Any = None
    ) -> None:
        if self._copied(coo_tensor, COOTensor, "coo_tensor", indices, values, shape):
            return
        what = "COOTensor"
        places, new, size = _parts(indices, values, shape, what, 2)
        if len(size) != 2 or places.shape[1] != 2:
            raise misuse(what, "the length of 'shape' and of each of 'indices' must be 2",
                         f"{size} and {places.shape}")
        if new.ndim != 1:
            raise misuse(what, "'values' must be a 1-dimensional tensor",
                         f"a {new.ndim}-dimensional tensor")
        for axis, name in enumerate(("rows", "columns")):
            _in_range(joining.part(places, 1, axis, axis + 1), size[axis], what, name)
        self._set(indices=indexing.stop_gradient(places), values=new, shape=size)

    def __repr__(self) -> str:
        return _text("COOTensor", self.shape, self.dtype, indices=self.indices, values=self.values)

    def _numbers(self) -> Tensor:
        return sparse_places.numbered(self.indices, self.shape)

    def to_tuple(self) -> tuple[Tensor, Tensor, Shape]:
        """The indices, the values and the shape."""
        return self.indices, self.values, self.shape

    def to_csr(self) -> CSRTensor:
        """The same by rows; elements of a row stay in their order."""
        rows = shapes.reshape(joining.part(self.indices, 1, 0, 1), (self.indices.shape[0],))
        rows, order = sparse_places.ordered(rows)
        columns = shapes.reshape(joining.part(self.indices, 1, 1, 2), (self.indices.shape[0],))
        return CSRTensor._of(
            indptr=sparse_places.ends_of(rows, self.shape[0], self.indices.dtype),
            indices=sparse_places.taken(columns, order),
            values=sparse_places.taken(self.values, order),
            shape=self.shape)

    def coalesce(self) -> COOTensor:
        """Each place once, in row-major order, with the sum of its values.

        Raises:
            TypeError: in a run-time branch or loop of a graph, which cannot change sizes.
        """
        return merged(self.shape, (self._numbers(),), (self.values,), self.indices.dtype,
                      "coalesce")

    def add(self, other: COOTensor, thresh: Tensor) -> COOTensor:
        """The sum of two tensors, without what is below `thresh`; see `ops.coo_add`."""
        return coo_sum(self, other, thresh)

    def __add__(self, other: Any) -> Any:
        _same_shape(self, other, "add")
        if isinstance(other, Tensor):
            return arith.add(self.to_dense(), other)
        return coo_sum(self, other, None)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        _same_shape(self, other, "subtract")
        if isinstance(other, Tensor):
            return arith.sub(self.to_dense(), other)
        return coo_sum(self, -other, None)

    def __rsub__(self, other: Any) -> Tensor:
        _same_shape(self, other, "subtract")
        return arith.sub(other, self.to_dense())

    def _beside(self, other: Any, what: str) -> Tensor:
        """The elements of a dense tensor at these places."""
        _same_shape(self, other, what)
        if not isinstance(other, Tensor):
            raise TypeError(f"COOTensor {what} with {type(other)} is not supported: give a Tensor.")
        return sparse_products.elements(other, self._numbers(), self.shape)

    def __mul__(self, other: Any) -> COOTensor:
        return self._with(arith.mul(self.values, self._beside(other, "multiply")))

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> COOTensor:
        return self._with(arith.true_divide(self.values, self._beside(other, "divide")))


def merged(
    shape: Shape, numbers: tuple[Tensor, ...], values: tuple[Tensor, ...], dtype: DType, what: str
) -> COOTensor:
    """Elements of several tensors of one shape, by row-major numbers, each place once."""
    found, sums = sparse_places.merged(joining.concat(numbers, 0), joining.concat(values, 0), what)
    return COOTensor._of(
        indices=sparse_places.places(found, shape, dtype), values=sums, shape=shape)


def coo_sum(a: Any, b: Any, thresh: Tensor | None) -> COOTensor:
    """The sum of two `COOTensor`; what is smaller than `thresh` in size is left out."""
    if not isinstance(a, COOTensor) or not isinstance(b, COOTensor):
        raise misuse("coo_add", "both inputs must be COOTensor", f"{type(a)} and {type(b)}",
                     TypeError)
    _same_shape(a, b, "add")
    out = merged(a.shape, (a._numbers(), b._numbers()), (a.values, b.values),
                 sparse_products.wider(a.indices.dtype, b.indices.dtype), "coo_add")
    if thresh is None:
        return out
    if _tensor(thresh, "coo_add", "thresh").ndim:
        raise misuse("coo_add", f"'thresh' must be a scalar, but has shape {thresh.shape}")
    kept = sparse_places.held(arith.abs(out.values) >= cast_to(thresh, arith.abs(out.values).dtype),
                              "coo_add")
    return COOTensor._of(indices=sparse_places.taken(out.indices, kept),
                         values=sparse_places.taken(out.values, kept),
                         shape=a.shape)


@dataclass(init=False, repr=False, eq=False, frozen=True)
class SparseTensor(COOTensor):
    """A `COOTensor` under its older name; warns that it is deprecated.

    Args:
        indices, values, shape: as of a `COOTensor`.

    Raises:
        IndexError: as a `COOTensor`.
    """

    def __init__(self, indices: Tensor, values: Tensor, shape: Shape) -> None:
        warnings.warn("'SparseTensor' is deprecated: use 'COOTensor'.", DeprecationWarning,
                      stacklevel=2)
        super().__init__(indices, values, shape)


# --- by rows --------------------------------------------------------------------------------------


@dataclass(init=False, repr=False, eq=False, frozen=True)
class CSRTensor(_Matrix):
    """A matrix (or tensor) by rows: where each starts, and columns and values of its elements.

    Args:
        indptr: row i has the elements indptr[i] to indptr[i + 1]: ints, the number of rows and one.
        indices: the column of each element, ints (n).
        values: (n), or (n, ...) for a shape with more axes.
        shape: the numbers of rows and columns, and the further axes of `values`.
        csr_tensor: another one, in place of these.

    Raises:
        IndexError: a column is negative or not below their number; `indptr` descends, does not
            start at 0, or does not end at the number of elements.

    Examples:
        >>> x = ms.CSRTensor(ms.Tensor([0, 1, 2]), ms.Tensor([0, 1]), ms.Tensor([1.0, 2.0]), (2, 4))
        >>> x.to_dense()
    """

    indptr: Tensor
    indices: Tensor
    values: Tensor
    shape: Shape

    def __init__(
        self, indptr: Any = None, indices: Any = None, values: Any = None, shape: Any = None,
        csr_tensor: Any = None,
    ) -> None:
        if self._copied(csr_tensor, CSRTensor, "csr_tensor", indptr, indices, values, shape):
            return
        what = "CSRTensor"
        ends, columns = _places(indptr, what, "indptr", 1), _places(indices, what, "indices", 1)
        new, size = _tensor(values, what, "values"), _shape(shape, what)
        _as_many(columns, new, what)
        if len(size) < 2 or new.shape[1:] != size[2:]:
            raise misuse(what, "'shape' must be the numbers of rows and columns and the further "
                         "axes of 'values'", f"{size} for {new.shape}")
        if ends.shape[0] != size[0] + 1:
            raise misuse(what, f"'indptr' must have length (1 + shape[0]), {size[0] + 1}, but got: "
                         f"{ends.shape[0]}")
        _in_range(columns, size[1], what, "columns")
        _check_ends(ends, columns.shape[0])
        self._set(indptr=indexing.stop_gradient(ends), indices=indexing.stop_gradient(columns),
                  values=new,
                  shape=size)

    def __repr__(self) -> str:
        return _text("CSRTensor", self.shape, self.dtype, indptr=self.indptr, indices=self.indices,
                     values=self.values)

    def _rows(self) -> Tensor:
        return sparse_places.rows_of(self.indptr, self.indices.shape[0])

    def _numbers(self) -> Tensor:
        return arith.mul(self._rows(), self.shape[1]) + cast_to(self.indices, int64)

    def to_tuple(self) -> tuple[Tensor, Tensor, Tensor, Shape]:
        """Where rows start, the columns, the values and the shape."""
        return self.indptr, self.indices, self.values, self.shape

    def to_coo(self) -> COOTensor:
        """The same by coordinates."""
        if self.ndim != 2:
            raise ValueError(f"Only a CSRTensor of 2 axes becomes a COOTensor, but this one has "
                             f"the shape {self.shape}.")
        rows = cast_to(self._rows(), self.indices.dtype)
        return COOTensor._of(indices=joining.stack((rows, self.indices), 1), values=self.values,
                             shape=self.shape)

    def mv(self, dense_vector: Tensor) -> Tensor:
        """The product (rows, 1) with a dense column (columns, 1)."""
        column = _tensor(dense_vector, "CSRTensor.mv", "dense_vector")
        if column.ndim != 2 or column.shape[1] != 1:
            raise misuse("CSRTensor.mv", f"'dense_vector' must have the shape ({self.shape[1]}, "
                         f"1), but has {column.shape}")
        return self._product(column, "CSRTensor.mv")

    def _product(self, dense: Tensor, what: str) -> Tensor:
        return sparse_products.product(
            self._rows(), self.indices, self.values, self.shape, dense, what)

    def mm(self, matrix: Any) -> Any:
        """The product with a dense matrix (a Tensor), or with a sparse one (a `CSRTensor`)."""
        if isinstance(matrix, CSRTensor):
            return csr_product(self, matrix)
        return self._product(_tensor(matrix, "CSRTensor.mm", "matrix"), "CSRTensor.mm")

    def sum(self, axis: int) -> Tensor:
        """The sums of rows, (rows, 1, ...)."""
        if integer(axis, "CSRTensor.sum", "axis") not in (1, 1 - self.ndim):
            raise misuse("CSRTensor.sum", f"'axis' must be 1 or {1 - self.ndim}", axis)
        return shapes.expand_dims(sparse_places.summed(self.values, self._rows(), self.shape[0]), 1)

    def add(self, b: CSRTensor, alpha: Tensor, beta: Tensor) -> CSRTensor:
        """alpha * self + beta * b; see `ops.csr_add`."""
        return csr_sum(self, b, alpha, beta)

    def __add__(self, other: Any) -> CSRTensor:
        return csr_sum(self, other, 1, 1)

    def __sub__(self, other: Any) -> CSRTensor:
        return csr_sum(self, other, 1, -1)

    def _beside(self, other: Any, what: str) -> Any:
        """A number as it is; the elements of a dense tensor, broadcast, at these places."""
        if isinstance(other, (bool, int, float)):
            return other
        return sparse_products.elements(_tensor(other, what, "other"), self._numbers(), self.shape)

    def __mul__(self, other: Any) -> Any:
        out = arith.mul(self.values, self._beside(other, "CSRTensor multiply"))
        return out if sparse_products.is_number(other) else self._with(out)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Any:
        out = arith.true_divide(self.values, self._beside(other, "CSRTensor divide"))
        return out if sparse_products.is_number(other) else self._with(out)


def _check_ends(indptr: Tensor, count: int) -> None:
    """`indptr` goes up from 0 to the number of elements."""
    last = indptr.shape[0] - 1
    what = "For 'CSRTensor', 'indptr' must start at 0, not descend, and end at the number of values"
    check_range(joining.part(indptr, 0, 0, 1), 0, 1, f"{what}, but starts at ", 0, ".")
    check_range(joining.part(indptr, 0, last, last + 1), count, count + 1,
                f"{what}, {count}, but ends at ", 0, ".")
    steps = joining.part(indptr, 0, 1, last + 1) - joining.part(indptr, 0, 0, last)
    check_range(steps, 0, 1 << 62, f"{what}, but has a step of ", 0, ".")


def csr_sum(a: Any, b: Any, alpha: Any, beta: Any) -> CSRTensor:
    """alpha * a + beta * b of two `CSRTensor`."""
    if not isinstance(a, CSRTensor) or not isinstance(b, CSRTensor):
        raise misuse("csr_add", "both inputs must be CSRTensor", f"{type(a)} and {type(b)}",
                     TypeError)
    _same_shape(a, b, "add")
    found, sums = sparse_places.merged(
        joining.concat((a._numbers(), b._numbers()), 0),
        joining.concat((arith.mul(a.values, sparse_products.like(alpha, a.values)),
                        arith.mul(b.values, sparse_products.like(beta, b.values))), 0), "csr_add")
    return _by_rows(found, sums, a.shape, sparse_products.wider(a.indices.dtype, b.indices.dtype))


def _by_rows(numbers: Tensor, values: Tensor, shape: Shape, dtype: DType) -> CSRTensor:
    """A `CSRTensor` of elements in row-major order."""
    places = sparse_places.places(numbers, shape[:2], dtype)
    rows, columns = (shapes.squeeze(joining.part(places, 1, i, i + 1), 1) for i in range(2))
    return CSRTensor._of(
        indptr=sparse_places.ends_of(rows, shape[0], dtype), indices=columns, values=values,
        shape=shape)


def csr_of_dense(x: Tensor) -> CSRTensor:
    """The elements of a matrix that are not zero, by rows; places are int32."""
    numbers, values = _nonzero(x, "dense_to_sparse_csr")
    return _by_rows(numbers, values, x.shape, int32)


def coo_of_dense(x: Tensor) -> COOTensor:
    """The elements of a matrix that are not zero, by coordinates; places are int32."""
    numbers, values = _nonzero(x, "dense_to_sparse_coo")
    return COOTensor._of(
        indices=sparse_places.places(numbers, x.shape, int32), values=values, shape=x.shape)


def _nonzero(x: Any, what: str) -> tuple[Tensor, Tensor]:
    t = _tensor(x, what, "tensor")
    if t.ndim != 2:
        raise misuse(what, f"'tensor' must be a matrix, but has shape {t.shape}")
    flat = shapes.reshape(t, (t.size,))
    numbers = sparse_places.held(flat != 0, what)
    return numbers, sparse_places.taken(flat, numbers)


def csr_transposed(x: CSRTensor) -> CSRTensor:
    """Rows as columns, in order."""
    rows, columns = x.shape
    numbers = arith.add(arith.mul(cast_to(x.indices, int64), rows), x._rows())
    numbers, order = sparse_places.ordered(numbers)
    return _by_rows(numbers, sparse_places.taken(x.values, order), (columns, rows), x.indices.dtype)


def csr_product(a: CSRTensor, b: CSRTensor) -> CSRTensor:
    """The product of two `CSRTensor` of 2 axes.

    It has an element where a row of the one and a column of the other share a place. It is worked
    out with the second matrix and the result dense.
    """
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0]:
        raise misuse("csr_mm", "the shapes (m, n) and (n, k) are needed",
                     f"{a.shape} and {b.shape}")
    shape, what = (a.shape[0], b.shape[1]), "csr_mm"
    rows = a._rows()
    out = sparse_products.product(rows, a.indices, a.values, a.shape, b.to_dense(), what)
    ones = [sparse_products.ones_like(t.values) for t in (a, b)]
    met = sparse_products.product(
        rows, a.indices, ones[0], a.shape, b._with(ones[1]).to_dense(), what)
    numbers = sparse_places.held(shapes.reshape(met > 0, (met.size,)), what)
    values = sparse_places.taken(shapes.reshape(out, (out.size,)), numbers)
    return _by_rows(numbers, values, shape, sparse_products.wider(a.indices.dtype, b.indices.dtype))


# --- by slices ------------------------------------------------------------------------------------


@dataclass(init=False, repr=False, eq=False, frozen=True)
class RowTensorInner(_Fields):
    """Slices of a tensor along its first axis.

    Args:
        indices: the positions of the slices, ints (n).
        values: (n, ...).
        shape: of the dense tensor.
        row_tensor: another one, in place of these.

    Raises:
        IndexError: a position is negative or not below the first size.
    """

    indices: Tensor
    values: Tensor
    dense_shape: Shape

    def __init__(
        self, indices: Any = None, values: Any = None, shape: Any = None, row_tensor: Any = None
    ) -> None:
        if self._copied(row_tensor, RowTensorInner, "row_tensor", indices, values, shape):
            return
        what = "RowTensor"
        places, new, size = _parts(indices, values, shape, what, 1)
        if not size or new.shape[1:] != size[1:]:
            raise misuse(what, "'values' must have the shape (n, *shape[1:])",
                         f"{new.shape} for 'shape' {size}")
        _in_range(places, size[0], what, "positions")
        self._set(indices=indexing.stop_gradient(places), values=new, dense_shape=size)

    def __repr__(self) -> str:
        return _text("RowTensor", self.dense_shape, self.values.dtype, indices=self.indices,
                     values=self.values)


@dataclass(init=False, repr=False, eq=False, frozen=True)
class RowTensor(RowTensorInner):
    """Slices of a tensor along its first axis; warns that it is deprecated.

    Args:
        indices: the positions of the slices, ints (n).
        values: (n, ...).
        shape: of the dense tensor.
        row_tensor: another one, in place of these.

    Raises:
        IndexError: as `RowTensorInner`.

    Examples:
        >>> ms.RowTensor(ms.Tensor([0]), ms.Tensor([[1.0, 2.0]]), (3, 2)).dense_shape
        (3, 2)
    """

    def __init__(
        self, indices: Any = None, values: Any = None, shape: Any = None, row_tensor: Any = None
    ) -> None:
        warnings.warn("'RowTensor' is deprecated and will be removed in a future version.",
                      DeprecationWarning, stacklevel=2)
        super().__init__(indices, values, shape, row_tensor)


__all__ = ["COOTensor", "CSRTensor", "RowTensor", "RowTensorInner", "SparseTensor"]
