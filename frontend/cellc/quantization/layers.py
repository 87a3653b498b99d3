"""Layers that hold small weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cellc_runtime import dtypes
from cellc_runtime.dtypes import DType

from .. import ops
from ..core.declared import misuse
from ..core.dispatch import apply_one
from ..nn.cell import Cell
from ..nn.layer.transformer import MultiheadAttention
from ..ops.functional import arith, shapes
from ..ops.functional.indexing import check_index
from ..tensors.parameter import Parameter
from ..tensors.promotion import cast_to
from ..tensors.tensor import Tensor, tensor_of
from .weights import MIDDLE, SmallWeight, paired, panels

A = apply_one


class _Small(Cell):
    """A matrix (n, k) in few bits, as Parameters that are not trained. It lies in panels of 64 rows
    (`weights.panels`), in which products read it.

    Attributes:
        kind, group: as those of `SmallWeight`.
        rows, columns: n and k.
        scales, zeros, order: None where there are none.
    """

    def _hold(self, prefix: str, weight: SmallWeight, like: _Small | None) -> None:
        """Hold a matrix, or that of a layer which has the same one."""
        self.kind, self.group = weight.kind, weight.group
        self.rows, self.columns = weight.values.shape
        if like is not None:
            for name in ("panels", "scales", "zeros", "order"):
                setattr(self, name, getattr(like, name))
            return
        values = paired(weight.values) if weight.kind == "int4" else weight.values
        arrays = {name: None if a is None else panels(a) for name, a in (
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

    @property
    def weight(self) -> Tensor:
        """The matrix in float32, computed at each reading."""
        wide = shapes.transpose(self._real(self.panels, self.scales, self.zeros), (0, 2, 1))
        wide = shapes.reshape(wide, (-1, self.columns))[:self.rows]
        return wide if self.order is None else A("gather", wide, _inverse(self.order), axis=1)

    def _real(self, values: Tensor, scales: Tensor | None, zeros: Tensor | None) -> Tensor:
        """The elements (a, k, b) that stored ones stand for, each operation rounded as
        `dequantized_matmul` has it."""
        wide = _unpaired(values, self.kind, self.columns)
        if scales is None:
            return wide
        scale, *zero = (_spread(s, self.group, self.columns) for s in (scales, zeros)
                        if s is not None)
        if not zero and self.kind == "int4":
            zero = [tensor_of(np.array(MIDDLE["int4"], np.float32))]
        return A("mul", A("sub", wide, *zero) if zero else wide, scale)


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
        wide = cast_to(x, dtypes.float32)
        if self.order is not None:
            wide = A("gather", wide, self.order, axis=x.ndim - 1)
        scales = [s for s in (self.scales, self.zeros) if s is not None]
        y = A("dequantized_matmul", wide, self.panels, *scales, columns=self.rows,
              group=self.group)
        y = cast_to(y, x.dtype)
        if self.bias is not None:
            y = arith.add(y, cast_to(self.bias, x.dtype))
        return y if self.activation is None else self.activation(y)

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
        scales, zeros = (part if part is None else _rows_of(part, at)
                         for part in (self.scales, self.zeros))
        wide = self._real(_rows_of(self.panels, at), scales, zeros)
        wide = shapes.reshape(wide, (*ids.shape, self.columns))
        return cast_to(wide, self.dtype)

    def extend_repr(self) -> str:
        """Sizes and options."""
        return f"vocab_size={self.rows}, embedding_size={self.columns}, kind={self.kind}"


class SmallAttention(MultiheadAttention):
    """Attention whose projections of query, key and value have weights in few bits; what
    `cellc.quantize` makes of a `MultiheadAttention`.

    Args:
        layer: whose other Parameters, settings and projection of the result this one shares.
        parts: a SmallDense without bias for query, key and value each.
    """

    def __init__(self, layer: MultiheadAttention, parts: Sequence[SmallDense]) -> None:
        Cell.__init__(self)
        for name in ("embed_dim", "num_heads", "head_dim", "kdim", "vdim", "dropout",
                     "add_zero_attn", "batch_first", "same_dims", "in_proj_bias", "bias_k",
                     "bias_v", "out_proj"):
            setattr(self, name, getattr(layer, name))
        self.q_proj, self.k_proj, self.v_proj = parts

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


def _unpaired(x: Tensor, kind: str, steps: int) -> Tensor:
    """The elements (a, steps, b) in float32 of stored ones, (a, pairs, b) if they are four bits."""
    if kind == "int4":
        low = A("bitwise_and", x, tensor_of(np.array(15, np.uint8)))
        high = A("shift_right", x, tensor_of(np.array(4, np.uint8)))
        x = A("stack", low, high, axis=2)
        x = shapes.reshape(x, (x.shape[0], -1, x.shape[-1]))[:, :steps]
    return cast_to(x, dtypes.float32)


def _spread(x: Tensor, group: int, steps: int) -> Tensor:
    """Scales or zeros (a, groups, b) in float32 for each step (a, steps, b)."""
    x = cast_to(x, dtypes.float32)
    return A("repeat", x, repeats=group, axis=1)[:, :steps] if group else x


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
