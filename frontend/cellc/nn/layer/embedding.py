"""Embeddings: rows of a table by index. Source: `mindspore.nn`."""

from __future__ import annotations

from typing import Annotated, Any

from cellc_runtime.dtypes import DType, float32

from ... import ops
from ...core.declared import BOOL, INT, Flag, Int, Positive, PositiveNumber, misuse, one_of
from ...tensors.initializer import initializer
from ...tensors.parameter import Parameter
from ...tensors.tensor import Tensor
from ..cell import Cell
from .base import parameter, shown
from .ext import EmbeddingExt as EmbeddingExt


class Embedding(Cell):
    """Rows of a table (vocab_size, embedding_size).

    Args:
        vocab_size, embedding_size: rows and columns of the table.
        use_one_hot: look up by a product with one-hot vectors.
        embedding_table: initial table: a Tensor, initializer, its name or a number.
        dtype: element type of the table.
        padding_idx: a row that is zero at first.
    """

    def __init__(
        self, vocab_size: Int, embedding_size: Int, use_one_hot: Flag = False,
        embedding_table: Any = "normal", dtype: DType = float32, padding_idx: int | None = None,
    ) -> None:
        super().__init__()
        what = self.cls_name
        self.vocab_size = vocab_size
        self.embedding_size = embedding_size
        self.use_one_hot = use_one_hot
        self.dtype = dtype
        self.padding_idx = padding_idx
        table = initializer(embedding_table, [vocab_size, embedding_size], dtype)
        if padding_idx is not None:
            if not 0 <= INT(padding_idx, what, "padding_idx") < vocab_size:
                raise misuse("Embedding",
                             f"the 'padding_idx' must be in range of [0, {vocab_size})",
                             f"{padding_idx} with type 'int'")
            table = Tensor(table.init_data())
            table._data[padding_idx] = 0
        self.embedding_table = Parameter(table, name="embedding_table")

    def construct(self, ids: Tensor) -> Tensor:
        """Indices of any shape to that shape with the axis of a row added."""
        if self.use_one_hot:
            rows = ops.one_hot(ops.reshape(ids, (-1,)), self.vocab_size,
                               Tensor(1, self.dtype), Tensor(0, self.dtype))
            out = ops.matmul(rows, self.embedding_table)
            return ops.reshape(out, ids.shape + (self.embedding_size,))
        return ops.gather(self.embedding_table, ids, 0)

    def extend_repr(self) -> str:
        """Sizes, options and the table."""
        return shown(
            self, "vocab_size embedding_size use_one_hot embedding_table dtype padding_idx")


class EmbeddingLookup(Cell):
    """Rows of a table, scaled down to a norm.

    Args:
        vocab_size, embedding_size: rows and columns of the table.
        param_init: initial table: a Tensor, initializer, its name or a number.
        target, slice_mode, manual_shapes, sparse: accepted for compatibility.
        max_norm: rows of a larger euclidean norm are scaled down to it.
        dtype: element type of the table.
    """

    def __init__(
        self, vocab_size: Positive, embedding_size: Positive, param_init: Any = "normal",
        target: Annotated[str, one_of("CPU", "DEVICE")] = "CPU", slice_mode: str = "batch_slice",
        manual_shapes: Any = None, max_norm: PositiveNumber | None = None, sparse: Flag = True,
        dtype: DType = float32,
    ) -> None:
        super().__init__()
        self.vocab_size = vocab_size
        self.embedding_size = embedding_size
        self.max_norm = max_norm
        self.embedding_table = parameter(
            param_init, [vocab_size, embedding_size], dtype, "embedding_table")

    def construct(self, indices: Tensor) -> Tensor:
        """Indices of any shape to that shape with the axis of a row added."""
        out = ops.gather(self.embedding_table, indices, 0)
        if self.max_norm is not None:
            size = ops.sqrt(ops.sum(ops.square(out), -1, True))
            out = out * self.max_norm / ops.maximum(size, self.max_norm)
        return out


class MultiFieldEmbeddingLookup(EmbeddingLookup):
    """Rows of a table combined by field.

    Args:
        vocab_size, embedding_size: rows and columns of the table.
        field_size: number of fields.
        param_init: initial table: a Tensor, initializer, its name or a number.
        target, slice_mode, feature_num_list, sparse: accepted for compatibility (there is one
            device).
        max_norm: rows of a larger euclidean norm are scaled down to it.
        operator: `"SUM"`, `"MEAN"` (over the sum of the weights' sizes) or `"MAX"`.
        dtype: element type of the table.
    """

    def __init__(
        self, vocab_size: Int, embedding_size: int, field_size: Positive,
        param_init: Any = "normal", target: str = "CPU", slice_mode: str = "batch_slice",
        feature_num_list: Any = None, max_norm: float | None = None, sparse: bool = True,
        operator: Annotated[str, one_of("SUM", "MAX", "MEAN")] = "SUM", dtype: DType = float32,
    ) -> None:
        what = "MultiFieldEmbeddingLookup"
        self.field_size = field_size
        if not BOOL(sparse, what, "sparse") and target == "CPU":
            raise misuse(what, "'sparse' must be True when 'target' is \"CPU\"",
                         f"'sparse': False and 'target': {target}")
        self.operator = operator
        super().__init__(vocab_size, embedding_size, param_init, target, slice_mode, None,
                         max_norm, sparse, dtype)

    def construct(  # type: ignore[override]  # MindSpore's takes other inputs than its base
        self, input_indices: Tensor, input_values: Tensor, field_ids: Tensor
    ) -> Tensor:
        """Indices, weights and fields, (batch, length) each, to (batch, fields, embedding).

        Entries of weight zero are left out; an empty field is zero.
        """
        if input_indices.ndim != 2 or input_values.shape != input_indices.shape or \
                field_ids.shape != input_indices.shape:
            raise misuse("MultiFieldEmbeddingLookup",
                         "the inputs must have one shape (batch, length)",
                         f"{input_indices.shape}, {input_values.shape} and {field_ids.shape}")
        rows = super().construct(input_indices) * ops.expand_dims(input_values, 2)
        fields = ops.reshape(ops.arange(self.field_size), (1, self.field_size, 1))
        of_field = ops.logical_and(ops.expand_dims(field_ids, 1) == fields,
                                   ops.expand_dims(input_values, 1) != 0)
        if self.operator == "MAX":
            there = ops.expand_dims(of_field, 3)
            largest = ops.amax(ops.where(there, ops.expand_dims(rows, 1), float("-inf")), 2)
            return ops.where(ops.any(there, 2), largest, 0.0)
        weights = ops.cast(of_field, rows.dtype)
        out = ops.matmul(weights, rows)
        if self.operator == "MEAN":
            size = ops.sum(weights * ops.expand_dims(ops.abs(input_values), 1), 2, True)
            out = out / ops.where(size == 0, 1.0, size)
        return out
