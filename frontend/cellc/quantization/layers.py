"""Layers that hold small weights."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cache
from typing import Any

import numpy as np

from cellc_compiler.loops.order import SMALL_COLUMNS
from cellc_runtime import dtypes
from cellc_runtime.dtypes import DType

from .. import ops
from ..core.declared import misuse
from ..core.dispatch import apply_one, precision
from ..nn.cell import Cell
from ..nn.cell.attributes import share_attributes
from ..nn.layer.transformer import MultiheadAttention
from ..ops.functional import arith, shapes
from ..ops.functional.indexing import check_index
from ..tensors.parameter import Parameter
from ..tensors.promotion import cast_to
from ..tensors.tensor import Tensor, tensor_of
from .weights import SmallWeight, paired, panels

A = apply_one


class _Small(Cell):
    """A matrix (n, k) in few bits, as Parameters that are not trained. It lies in panels of 64 rows
    (`weights.panels`), in which products read it.

    Attributes:
        kind, group: as those of `SmallWeight`.
        rows, columns: n and k.
        scales, zeros, order: None where there are none.
        width: rows of a panel.
    """

    width = SMALL_COLUMNS

    def _hold(self, prefix: str, weight: SmallWeight, like: _Small | None) -> None:
        """Hold a matrix, or that of a layer which has the same one."""
        self.kind, self.group = weight.kind, weight.group
        self.rows, self.columns = weight.values.shape
        if like is not None:
            for name in ("panels", "scales", "zeros", "order"):
                setattr(self, name, getattr(like, name))
            return
        values = paired(weight.values) if weight.kind == "int4" else weight.values
        arrays = {name: None if a is None else panels(a, self.width) for name, a in (
            ("panels", values), ("scales", weight.scales), ("zeros", weight.zeros))}
        for name, array in {**arrays, "order": weight.order}.items():
            held = None
            if array is not None:
                held = Parameter(tensor_of(np.ascontiguousarray(array)), prefix + name, False)
                held.is_small = True
            setattr(self, name, held)

    @property
    def small_bytes(self) -> int:
        """Bytes of the matrix in few bits."""
        return sum(p.nbytes for p in self.get_parameters(expand=False) if p.is_small)

    def parts(self) -> list[Tensor]:
        """The matrix as it is stored: panels, scales and zeros."""
        return [p for p in (self.panels, self.scales, self.zeros) if p is not None]

    @property
    def weight(self) -> Tensor:
        """The matrix in float32, computed at each reading."""
        wide = shapes.transpose(self._wide(*self.parts()), (0, 2, 1))
        wide = shapes.reshape(wide, (-1, self.columns))[:self.rows]
        return wide if self.order is None else A("gather", wide, _inverse(self.order), axis=1)

    def _wide(self, *parts: Tensor) -> Tensor:
        """The elements (a, k, b) in float32 of stored ones."""
        return A("dequantized", *parts, steps=self.columns, group=self.group)


class SmallDense(_Small):
    """activation(x @ weight.T + bias) by a weight in few bits; what `cellc.quantize` makes of a
    `Dense` or `Linear`.

    Args:
        weight: the matrix (out, in).
        bias: (out), or None.
        activation: a Cell or Primitive applied to the result, or None.
        prefix: what the names of its Parameters begin with.
        like: a layer with the same matrix, whose Parameters it shares.

    The product is computed in float32; the result has the type of x.
    """

    def __init__(
        self, weight: SmallWeight, bias: Parameter | None = None, activation: Any = None,
        prefix: str = "", like: _Small | None = None,
    ) -> None:
        super().__init__()
        self._hold(prefix, weight, like)
        self.bias = bias
        self.activation = activation

    def construct(self, x: Tensor) -> Tensor:
        """(..., in) to (..., out)."""
        if not x.dtype.is_float or x.dtype is dtypes.float64:
            raise misuse("SmallDense", "'x' must be of float32, float16 or bfloat16", x.dtype,
                         TypeError)
        if not x.ndim or x.shape[-1] != self.columns:
            raise misuse("SmallDense", f"the last axis of 'x' must be {self.columns}", x.shape)
        y = self.times(x, self.parts())
        if self.bias is not None:
            y = arith.add(y, cast_to(self.bias, x.dtype))
        return y if self.activation is None else self.activation(y)

    @property
    def form(self) -> Any:
        """Says with the types of the parts all that a product depends on."""
        return self.rows, self.group

    def times(self, x: Tensor, parts: Sequence[Tensor]) -> Tensor:
        """x @ weight.T, by the weight that such parts hold."""
        wide = cast_to(x, dtypes.float32)
        if self.order is not None:
            wide = A("gather", wide, self.order, axis=x.ndim - 1)
        y = A("dequantized_matmul", wide, *parts, columns=self.rows, group=self.group)
        return cast_to(y, x.dtype)

    def extend_repr(self) -> str:
        """Sizes and options."""
        text = f"input_channels={self.columns}, output_channels={self.rows}, kind={self.kind}"
        text += f", group={self.group}" * bool(self.group)
        return text + f", has_bias={self.bias is not None}"


class SmallEmbedding(_Small):
    """Rows of a table in few bits; what `cellc.quantize` makes of an `Embedding`.

    Args:
        weight: the table.
        dtype: element type of the result.
        prefix: what the names of its Parameters begin with.
        like: a layer with the same matrix, whose Parameters it shares.
    """

    def __init__(
        self, weight: SmallWeight, dtype: DType = dtypes.float32, prefix: str = "",
        like: _Small | None = None,
    ) -> None:
        super().__init__()
        self.dtype = dtype
        self._hold(prefix, weight, like)

    @property
    def embedding_table(self) -> Tensor:
        """The table in float32, computed at each reading."""
        return self.weight

    def construct(self, ids: Tensor) -> Tensor:
        """Indices of any shape to that shape with the axis of a row added."""
        check_index(ids, self.rows, "gather")
        at = cast_to(ids, dtypes.int64)
        at = shapes.reshape(A("where", A("lt", at, _int64(0)),
                              A("add", at, _int64(self.rows)), at), (-1, 1))
        wide = self._wide(*(_rows_of(part, at) for part in self.parts()))
        wide = shapes.reshape(wide, (*ids.shape, self.columns))
        return cast_to(wide, self.dtype)

    def extend_repr(self) -> str:
        """Sizes and options."""
        return f"vocab_size={self.rows}, embedding_size={self.columns}, kind={self.kind}"


class SmallKernel(_Small):
    """The weight of a convolution in few bits: each output channel is a row of a matrix.

    Args:
        weight: the matrix, that of `kernel_rows`.
        shape: of the weight of the layer.
        groups: of a transposed convolution, whose output channels are the second axis; 0: others.
        dtype: element type of the weight of the layer.
        prefix, like: as those of `SmallDense`.
    """

    width = 1

    def __init__(
        self, weight: SmallWeight, shape: tuple[int, ...], groups: int,
        dtype: DType = dtypes.float32, prefix: str = "", like: _Small | None = None,
    ) -> None:
        super().__init__()
        self.shape, self.groups, self.dtype = shape, groups, dtype
        self._hold(prefix, weight, like)

    def tensor(self) -> Tensor:
        """The weight as the layer reads it, also under `to_float`; computed in each call."""
        wide = self.weight
        if self.groups:
            parts = self.groups, self.rows // self.groups, self.shape[0] // self.groups, -1
            wide = shapes.transpose(shapes.reshape(wide, parts), (0, 2, 1, 3))
        return cast_to(shapes.reshape(wide, self.shape), precision() or self.dtype)

    def extend_repr(self) -> str:
        """Sizes and options."""
        return f"shape={self.shape}, kind={self.kind}" + f", group={self.group}" * bool(self.group)


def kernel_rows(array: Any, groups: int) -> Any:
    """The weight of a convolution as a matrix whose rows are output channels; `groups` as those of
    `SmallKernel`."""
    if groups:
        parts = array.reshape(groups, array.shape[0] // groups, array.shape[1], -1)
        array = parts.swapaxes(1, 2)
        return array.reshape(groups * array.shape[1], -1)
    return array.reshape(array.shape[0], -1)


class _Convolution:
    """The weight of a convolution is that of its `SmallKernel`."""

    kernel: SmallKernel

    @property
    def weight(self) -> Tensor:
        """The weight in the type of the layer, computed at each reading."""
        return self.kernel.tensor()


class SmallAttention(MultiheadAttention):
    """Attention whose projections of query, key and value are a `SmallDense` each; what
    `cellc.quantize` makes of a `MultiheadAttention`."""

    @property
    def in_proj_weight(self) -> Tensor:  # type: ignore[override]  # it is computed
        """The matrices in float32 one below the other, computed at each reading."""
        return A("concat", *(part.weight for part in (self.q_proj, self.k_proj, self.v_proj)),
                 axis=0)

    def _projected(self, query: Tensor, key: Tensor, value: Tensor) -> Any:
        found = [self.q_proj(query), self.k_proj(key), self.v_proj(value)]
        if self.in_proj_bias is None:
            return found
        return [arith.add(x, cast_to(b, x.dtype)) for x, b in
                zip(found, ops.chunk(self.in_proj_bias, 3, 0), strict=True)]


@cache
def small_class(kind: type[Cell], is_convolution: bool) -> type[Cell]:
    """The class of layers of a kind that hold their weights in few bits, such as `SmallLSTM`."""
    bases = (_Convolution, kind) if is_convolution else (kind,)
    return type(f"Small{kind.__name__}", bases, {
        "__module__": __name__, "__doc__": f"`{kind.__name__}` with weights in few bits."})


def small_copy(layer: Cell, kind: type[Cell], without: Collection[str], **cells: Cell) -> Any:
    """A layer that shares all with another one but its weights.

    Args:
        kind: the class of the new one.
        without: names of the Parameters that are weights.
        cells: the cells that hold the weights in few bits, by name.
    """
    new = kind.__new__(kind)
    Cell.__init__(new)
    share_attributes(layer, new, without)
    for name, cell in cells.items():
        new.insert_child_to_cell(name, cell)
    return new


def _rows_of(part: Tensor, at: Tensor) -> Tensor:
    """The rows (rows, m, 1), with the numbers `at`, (rows, 1), of a matrix in panels,
    (panels, m, 64)."""
    _, m, width = part.shape
    panel = A("floor_div", at, _int64(width))
    column = A("sub", at, A("mul", panel, _int64(width)))
    steps = A("iota", shape=(m,), axis=0, dtype=dtypes.int64)
    at = A("add", A("mul", A("add", A("mul", panel, _int64(m)), steps), _int64(width)), column)
    return shapes.reshape(A("gather", shapes.reshape(part, (-1,)), at, axis=0), (-1, m, 1))


def _int64(n: int) -> Tensor:
    return tensor_of(np.array(n, np.int64))


def _inverse(order: Tensor) -> Tensor:
    """The permutation that undoes one."""
    places = A("iota", shape=order.shape, axis=0, dtype=order.dtype)
    return A("scatter", places, order, places, axis=0)
