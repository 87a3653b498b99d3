"""Functions of mathematics as layers. Source: the same names in `mindspore.nn.layer`."""

from __future__ import annotations

from typing import Any

import numpy as np

from cellc_runtime.dtypes import float16, float32, float64, int32

from ... import ops
from ...core.declared import BOOL, NUMBER, Axes, Flag, instance, misuse
from ...ops.arguments import tensor
from ...ops.operations import DivNoNan
from ...tensors.tensor import Tensor
from ..cell import Cell
from .base import Family, Layer


def _floats(what: str, *operands: Tensor) -> None:
    """Tensors of one type, float16 or float32."""
    for x in operands:
        if x.dtype not in (float16, float32):
            raise misuse(what, "the input must be float16 or float32", x.dtype, TypeError)
        if x.dtype != operands[0].dtype:
            raise misuse(what, "the inputs must have one type",
                         f"{operands[0].dtype} and {x.dtype}", TypeError)


class _OfGamma(Family):
    def construct(self, x: Tensor) -> Tensor:
        """float16 or float32 of any shape to that shape."""
        _floats(self.cls_name, x)
        return self._function(x)


class LGamma(_OfGamma, function=ops.lgamma):
    """log |gamma(x)|, elementwise; infinite at 0, -1, -2, ... For float16 and float32, of the shape
    of x."""


class DiGamma(_OfGamma, function=ops.digamma):
    """The derivative of log(gamma(x)), elementwise, of the shape of x. Floats only; NaN at negative
    ints."""


class _WithLGamma(Cell):
    def __init__(self) -> None:
        super().__init__()
        self.lgamma = LGamma()


class IGamma(_WithLGamma):
    """The lower regularized incomplete gamma function P(a, x), elementwise for a > 0 and x >= 0;
    NaN elsewhere. The operands are floats and broadcast."""

    def construct(self, a: Tensor, x: Tensor) -> Tensor:
        """Exponents a > 0 and bounds x >= 0, which broadcast."""
        _floats("IGamma", a, x)
        return ops.igamma(a, x)


class LBeta(_WithLGamma):
    """log B(x, y) = lgamma(x) + lgamma(y) - lgamma(x + y), elementwise for positive floats; NaN
    where an operand is not."""

    def construct(self, x: Tensor, y: Tensor) -> Tensor:
        """Tensors that broadcast. In float64, as the large terms cancel."""
        _floats("LBeta", x, y)
        a, b = ops.cast(x, float64), ops.cast(y, float64)
        return ops.cast(ops.lgamma(a) + ops.lgamma(b) - ops.lgamma(a + b), x.dtype)


class MatInverse(Cell):
    """The inverses of symmetric positive definite matrices (..., n, n), of the same shape. float16
    or float32, other types raise a TypeError."""

    def __init__(self) -> None:
        super().__init__()
        self.matmul = MatMul(transpose_x1=True)  # MindSpore's has and prints it

    def construct(self, a: Tensor) -> Tensor:
        """(..., n, n), float16 or float32."""
        _floats("MatInverse", a)
        return ops.inverse(a)


class MatDet(Cell):
    """The determinants of symmetric positive definite matrices: (..., n, n) to (...). float16 or
    float32, other types raise a TypeError."""

    def construct(self, a: Tensor) -> Tensor:
        """(..., n, n), float16 or float32, to (...)."""
        _floats("MatDet", a)
        return ops.det(a)


class MatMul(Layer):
    """The matrix product over the last two axes.

    Args:
        transpose_x1, transpose_x2: swap the last two axes first (vectors stay as they are).
    """

    transpose_x1: Flag = False
    transpose_x2: Flag = False

    def construct(self, x1: Tensor, x2: Tensor) -> Tensor:
        """Vectors, matrices or batches of them."""
        if self.transpose_x1 and x1.ndim > 1:
            x1 = ops.swapaxes(x1, -1, -2)
        if self.transpose_x2 and x2.ndim > 1:
            x2 = ops.swapaxes(x2, -1, -2)
        return ops.matmul(x1, x2)


class Moments(Cell):
    """Mean and variance over axes.

    Args:
        axis: an int or a tuple of ints; all axes if None or ().
        keep_dims: keep these axes, with length 1.
    """

    def __init__(self, axis: Any = None, keep_dims: bool | None = None) -> None:
        super().__init__()
        what = self.cls_name
        self.axis = () if axis is None else instance(int, tuple)(axis, what, "axis")
        self.keep_dims = BOOL(False if keep_dims is None else keep_dims, what, "keep_dims")

    def construct(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and (biased) variance; of float16, computed in float32."""
        _floats("Moments", x)
        axis = None if self.axis == () else self.axis
        wide = ops.cast(x, float32)
        apart = wide - ops.stop_gradient(ops.mean(wide, axis, True))
        mean = ops.mean(wide, axis, self.keep_dims)
        variance = ops.mean(ops.square(apart), axis, self.keep_dims)
        return ops.cast(mean, x.dtype), ops.cast(variance, x.dtype)


class Range(Cell):
    """A fixed range of numbers.

    Args:
        start, limit, delta: as in Python's range, numbers, delta not 0; (0, start, 1)
            if `limit` is None.
    """

    def __init__(self, start: Any, limit: Any = None, delta: Any = 1) -> None:
        super().__init__()
        if delta == 0:
            raise misuse("Range", "the 'delta' can not be zero")
        first, last = (0, start) if limit is None else (start, limit)
        for name, value in (("start", first), ("limit", last), ("delta", delta)):
            NUMBER(value, self.cls_name, name)
        numbers = np.arange(first, last, delta)
        is_float = numbers.dtype.kind == "f"
        self.result_tensor = Tensor(numbers, float32 if is_float else int32)

    def construct(self) -> Tensor:
        """The range, int32 or float32."""
        return self.result_tensor


class ReduceLogSumExp(Layer):
    """The logarithm of the sum of exponentials over axes.

    Args:
        axis: an int, or ints; () means all.
        keep_dims: keep these axes, with length 1.
    """

    axis: Axes
    keep_dims: Flag = False

    def construct(self, x: Tensor) -> Tensor:
        """float16 or float32, without overflow."""
        _floats("ReduceLogSumExp", x)
        axes = tuple(range(x.ndim)) if self.axis in ((), []) else self.axis
        return ops.logsumexp(x, axes, self.keep_dims)


class MatrixDiag(Cell):
    """Each vector of (..., n) as the diagonal of a matrix of (..., n, n) that is 0 elsewhere."""

    def construct(self, input_x: Tensor) -> Tensor:
        """(..., n) to (..., n, n)."""
        return ops.matrix_diag(input_x)


class MatrixDiagPart(Cell):
    """The main diagonal of each matrix, x[..., i, i]: (..., m, n) gives (..., min(m, n)), of the
    type of the input."""

    def construct(self, input_x: Tensor) -> Tensor:
        """(..., m, n) to (..., min(m, n))."""
        return ops.matrix_diag_part(input_x)


class MatrixSetDiag(Cell):
    """Matrices (..., m, n) whose main diagonals are replaced by vectors (..., min(m, n))."""

    def construct(self, input_x: Tensor, diagonal: Tensor) -> Tensor:
        """(..., m, n) and (..., min(m, n))."""
        return ops.matrix_set_diag(input_x, diagonal)


class CosineSimilarity(Cell):
    """Cosines of the angles between vectors; 0 where one has no length and `eps` is 0.

    `nn.CosineSimilarity` is the metric.

    Args:
        dim: the axis that vectors lie along.
        eps: the least product of two lengths.
    """

    def __init__(self, dim: int = 1, eps: float = 1e-8) -> None:
        super().__init__()
        self.dim, self.eps = dim, eps

    def construct(self, x1: Tensor, x2: Tensor) -> Tensor:
        """Vectors of one shape, or of shapes that are broadcast, to their shape without `dim`."""
        for name, x in (("x1", x1), ("x2", x2)):
            tensor(x, "CosineSimilarity", name)
        product, first, second = ((a * b).sum(self.dim) for a, b in ((x1, x2), (x1, x1), (x2, x2)))
        lengths = ops.maximum(first * second, self.eps * self.eps).sqrt()
        return DivNoNan()(product, lengths)
