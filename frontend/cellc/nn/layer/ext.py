"""Layers with PyTorch's parameters, besides those with MindSpore's: `nn.AvgPool2dExt`.

`mint.nn` offers them under plain names (`mint.nn.AvgPool2d`).
"""

from __future__ import annotations

from typing import Any

from cellc_runtime.dtypes import DType, float32

from ... import ops
from ...core.declared import INT, Arguments, Flag, Int, Number, misuse
from ...ops.functional import window
from ...tensors.initializer import Normal, initializer
from ...tensors.parameter import Parameter
from ...tensors.tensor import Tensor
from ..cell import Cell
from .base import Family, Layer, shown
from .basic import Upsample


class _AvgPoolExt(Arguments, Family):
    """The mean of each window."""

    kernel_size: Any
    stride: Any = None
    padding: Any = 0
    ceil_mode: bool = False
    count_include_pad: bool = True

    def options(self) -> tuple[Any, Any, Any, bool, bool]:
        """The arguments of the functions after the input."""
        step = self.kernel_size if self.stride is None else self.stride
        return self.kernel_size, step, self.padding, self.ceil_mode, self.count_include_pad


class AvgPool1dExt(_AvgPoolExt):
    """The mean of each window of (N, C, L) or (C, L).

    Args:
        kernel_size, stride, padding: ints; the stride is the kernel if None.
        ceil_mode: a last window may reach beyond the end.
        count_include_pad: padding counts as elements.
    """

    def construct(self, input: Tensor) -> Tensor:
        """The means."""
        return ops.avg_pool1d(input, *self.options())


class AvgPool2dExt(_AvgPoolExt, function=ops.avg_pool2d):
    """The mean of each window of (N, C, H, W) or (C, H, W).

    Args:
        kernel_size, stride, padding: rows and columns; the stride is the kernel if None.
        ceil_mode: a last window may reach beyond the image.
        count_include_pad: padding counts as elements.
        divisor_override: divide every sum by this.
    """

    def __init__(
        self, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
        count_include_pad: bool = True, divisor_override: int | None = None,
    ) -> None:
        super().__init__(kernel_size, stride, padding, ceil_mode, count_include_pad)
        self.divisor_override = divisor_override

    def construct(self, input: Tensor) -> Tensor:
        """The means."""
        return self._function(input, *self.options(), self.divisor_override or 0)


class AvgPool3dExt(AvgPool2dExt, function=ops.avg_pool3d):
    """The mean of each window of (N, C, D, H, W) or (C, D, H, W). Source: `nn.AvgPool3dExt`.

    Args:
        As in `AvgPool2dExt`, with three axes.
    """


class MaxPool2dExt(Layer):
    """The largest element of each window of (N, C, H, W) or (C, H, W). `nn.MaxPool2dExt`.

    Args:
        kernel_size, stride, padding, dilation: rows and columns; the stride is the kernel if None.
        return_indices: return also the position of each in its plane, int64.
        ceil_mode: a last window may reach beyond the image.
    """

    kernel_size: Any = 1
    stride: Any = None
    padding: Any = 0
    dilation: Any = 1
    return_indices: bool = False
    ceil_mode: bool = False

    def __post_init__(self) -> None:
        if self.stride is None:
            self.stride = self.kernel_size

    def construct(self, input: Tensor) -> Any:
        """The maxima, with `return_indices` a pair."""
        return ops.max_pool2d(input, self.kernel_size, self.stride, self.padding, self.dilation,
                              self.return_indices, self.ceil_mode)


class Dropout2dExt(Layer):
    """Channels of (N, C, H, W) zeroed with probability `p` while training. `nn.Dropout2dExt`.

    Args:
        p: in [0, 1].
        inplace: write the result into the input.
    """

    p: float = 0.5
    inplace: bool = False

    def construct(self, x: Tensor) -> Tensor:
        """The same shape."""
        out = ops.dropout2d(x, self.p, self.training)
        return x.copy_(out) if self.inplace and self.training else out


class EmbeddingExt(Cell):
    """Rows of a table (num_embeddings, embedding_dim).

    Args:
        num_embeddings, embedding_dim: rows and columns of the table.
        padding_idx: a row that is zero at first and gets no gradient.
        max_norm: rows that are read are first scaled to at most this norm, of order `norm_type`.
        scale_grad_by_freq: divide a row's gradient by how often it was read.
        sparse: False.
        _weight: the initial table: a Tensor, initializer, its name or a number; standard normal
            numbers if None.
        _freeze: the table is not trained.
        dtype: element type of the table; float32 if None.
    """

    def __init__(
        self, num_embeddings: Int, embedding_dim: Int, padding_idx: int | None = None,
        max_norm: Number | None = None, norm_type: Number = 2.0, scale_grad_by_freq: Flag = False,
        sparse: Flag = False, _weight: Any = None, _freeze: bool = False,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        what = self.cls_name
        if sparse:
            raise misuse("Embedding", "'sparse' must be False: gradients are dense")
        self.sparse = sparse
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.dtype = float32 if dtype is None else dtype
        self.padding_idx = _row_of(padding_idx, num_embeddings, what)
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        table = initializer(Normal(1.0) if _weight is None else _weight,
                            (num_embeddings, embedding_dim), self.dtype)
        if _weight is None and padding_idx is not None:
            rows = table.init_data().asnumpy().copy()
            rows[padding_idx] = 0
            table = Tensor(rows, self.dtype)
        self.weight = Parameter(table, name="weight", requires_grad=not _freeze)

    def construct(self, input: Tensor) -> Tensor:
        """Indices of any shape to that shape and an axis of `embedding_dim`."""
        return ops.embedding(input, self.weight, self.padding_idx, self.max_norm, self.norm_type,
                             self.scale_grad_by_freq)

    def extend_repr(self) -> str:
        """Sizes and options."""
        return shown(self, "num_embeddings embedding_dim padding_idx max_norm norm_type "
                     "scale_grad_by_freq dtype")


def _row_of(padding_idx: Any, count: int, what: str) -> int | None:
    """A row of the table, or None."""
    if padding_idx is None:
        return None
    row: int = INT(padding_idx, what, "padding_idx")
    if not -count <= row < count:
        raise misuse(what, f"the 'padding_idx' must be in [{-count}, {count})", row)
    return row


class SoftmaxExt(Layer):
    """exp(x) / the sum of exp(x) along `dim`.

    Args:
        dim: the axis; if None 0 for up to one or three axes, else 1.
    """

    dim: int | None = None

    def construct(self, input: Tensor) -> Tensor:
        """The same shape."""
        dim = self.dim
        if dim is None:
            dim = 0 if input.ndim in (0, 1, 3) else 1
        return ops.softmax(input, dim)


class UnfoldExt(Layer):
    """The windows of (N, C, H, W) or (C, H, W) as columns. Source: `mindspore.mint.nn.Unfold`.

    Args:
        kernel_size, dilation, padding, stride: rows and columns.
    """

    kernel_size: Any
    dilation: Any = 1
    padding: Any = 0
    stride: Any = 1

    def construct(self, input: Tensor) -> Tensor:
        """(N, C kH kW, positions), without N where the input has none."""
        x = ops.unsqueeze(input, 0) if input.ndim == 3 else input
        out = ops.unfold(x, self.kernel_size, self.dilation, self.padding, self.stride)
        return ops.squeeze(out, 0) if input.ndim == 3 else out


class UpsampleExt(Upsample):
    """Images enlarged or reduced; see `mint.nn.functional.interpolate`.

    Source: `mindspore.mint.nn.Upsample`.

    Args:
        size, scale_factor, mode, align_corners, recompute_scale_factor: as in
            `mint.nn.functional.interpolate`.
    """

    def construct(self, input: Tensor) -> Tensor:
        """(N, C, ...) to (N, C, *size)."""
        return window.interpolate_ext(input, self.size, self.scale_factor, self.mode,
                                      self.align_corners, self.recompute_scale_factor)
