"""Activations as layers, and their names. Source: the same names in `mindspore.nn`."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

from cellc_runtime.dtypes import DType, float32

from ... import ops
from ...core.declared import (
    Flag,
    Int,
    NonNegative,
    Number,
    PlainNumber,
    Positive,
    Rule,
    is_int,
    misuse,
    one_of,
)
from ...tensors.parameter import Parameter
from ...tensors.tensor import Tensor
from ..cell import Cell
from .base import Layer, OfInput, OfInputX, OfX


def _is_axis(value: Any) -> bool:
    return is_int(value[0] if isinstance(value, tuple) and len(value) == 1 else value) or \
        (isinstance(value, tuple) and len(value) != 1)


Axis = Annotated[int, Rule(
    "an int or a tuple of one", _is_axis, lambda value: is_int(value) or len(value) == 1,
    lambda value: int(value) if is_int(value) else int(value[0]))]


# --- softmax and its kin -------------------------------------------------------------------------


class Softmax(OfInput, function=ops.softmax):
    """exp(x) over its sum along an axis."""

    axis: Axis = -1


class Softmin(OfX, function=ops.softmin):
    """exp(-x) / sum(exp(-x)) along `axis`, the last by default: positive numbers that add up to 1.
    Floats only."""

    axis: Axis = -1


class Softmax2d(Cell):
    """exp(x) / sum(exp(x)) over the channels of (N, C, H, W) or (C, H, W), for each pixel. The
    shape stays; other ranks raise a ValueError."""

    def construct(self, x: Tensor) -> Tensor:
        """The same shape."""
        if x.ndim not in (3, 4):
            raise misuse("Softmax2d", "the input must have 3 or 4 axes", x.ndim)
        return ops.softmax(x, -3)


class LogSoftmax(OfX, function=ops.log_softmax):
    """log(softmax(x)) along an axis, x - max - log(sum(exp(x - max))): of the shape of x. Floats
    only."""

    axis: Int = -1


class LogSoftmaxExt(Cell):
    """log(softmax(x)) along `dim`, the last axis if None: of the shape of x. PyTorch's name of the
    argument; floats only."""

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def construct(self, x: Tensor) -> Tensor:
        """The same shape."""
        return ops.log_softmax(x, self.dim)


# --- without parameters --------------------------------------------------------------------------


class ReLU(OfInput, function=ops.relu):
    """max(x, 0), elementwise: of the shape and type of x. NaN stays NaN; complex numbers are a
    TypeError."""


class ReLU6(OfX, function=ops.relu6):
    """min(max(x, 0), 6), elementwise: of the shape and type of x. Floats only, other types are a
    TypeError."""


class SiLU(OfX, function=ops.silu):
    """x * sigmoid(x), elementwise, also called swish: of the shape and type of x. Floats only,
    other types are a TypeError."""


class Tanh(OfX, function=ops.tanh):
    """tanh(x), elementwise: between -1 and 1, of the shape of x. Ints are computed in float32."""


class Tanhshrink(OfX, function=ops.tanhshrink):
    """x - tanh(x), elementwise: near 0 about x**3 / 3, of the shape of x. Ints are computed in
    float32."""


class Sigmoid(OfX, function=ops.sigmoid):
    """1 / (1 + exp(-x)), elementwise: between 0 and 1, of the shape of x. Ints are computed in
    float32."""


class LogSigmoid(OfInputX, function=ops.logsigmoid):
    """log(sigmoid(x)) = -log(1 + exp(-x)), without overflow: of the shape of x, for floats only."""


class Softsign(OfX, function=ops.softsign):
    """x / (1 + |x|), elementwise: between -1 and 1, of the shape and type of x. Floats only."""


class HSwish(OfInput, function=ops.hardswish):
    """x * relu6(x + 3) / 6: a piecewise approximation of x * sigmoid(x), of the shape of x."""


class HSigmoid(OfInput, function=ops.hardsigmoid):
    """relu6(x + 3) / 6: a piecewise linear sigmoid, 0 below -3 and 1 above 3, of the shape of x."""


class Mish(OfInputX, function=ops.mish):
    """x * tanh(log(1 + exp(x))), elementwise: smooth, and negative for some x below 0. Floats only;
    the result has the shape of x."""


class SeLU(OfInputX, function=ops.selu):
    """1.0507 x where x > 0, 1.0507 * 1.6733 (exp(x) - 1) elsewhere: the scaled exponential linear
    unit of Klambauer et al. (2017). Floats only; the result has the shape of x."""


class FastGelu(OfX, function=ops.fast_gelu):
    """x * sigmoid(1.702 x), an approximation of gelu by one exponential: of the shape of x, for
    floats only."""


# --- with constants ------------------------------------------------------------------------------


class GELU(Layer):
    """x times the normal distribution function of x.

    Args:
        approximate: by tanh, else exactly (erf).
    """

    approximate: Flag = True

    def construct(self, x: Tensor) -> Tensor:
        """The same shape."""
        return ops.gelu(x, "tanh" if self.approximate else "none")


class ELU(OfX, function=ops.elu):
    """x where x > 0, alpha (exp(x) - 1) elsewhere, elementwise: it goes to -alpha for x to
    -infinity. Floats only."""

    alpha: Number = 1.0


class CELU(OfX, function=ops.celu):
    """x where positive, alpha (exp(x / alpha) - 1) elsewhere."""

    alpha: Number = 1.0


class LeakyReLU(OfX, function=ops.leaky_relu):
    """x where x > 0, alpha x elsewhere, elementwise: of the shape of x. `alpha` is 0.2 by default.
    Ints are computed in float32."""

    alpha: Number = 0.2


class RReLU(OfX, function=ops.rrelu):
    """x where positive, x times a random slope elsewhere.

    Args:
        lower, upper: bounds of the slope.
    """

    lower: Number = 1 / 8
    upper: Number = 1 / 3

    def __post_init__(self) -> None:
        if self.lower > self.upper:
            raise misuse("RReLU", "'lower' must not exceed 'upper'",
                         f"{self.lower} and {self.upper}")


class Hardtanh(OfX, function=ops.hardtanh):
    """min(max(x, min_val), max_val), elementwise: x brought into [-1, 1] by default. Ints are
    computed in float32."""

    min_val: PlainNumber = -1.0
    max_val: PlainNumber = 1.0

    def __post_init__(self) -> None:
        if self.min_val >= self.max_val:
            raise misuse("Hardtanh", "'min_val' must be less than 'max_val'",
                         f"{self.min_val} and {self.max_val}")


class _Shrink(OfInput):
    """A function of one tensor and a number `lambd`."""

    lambd: Number = 0.5


class SoftShrink(_Shrink, function=ops.softshrink):
    """x - lambd above lambd, x + lambd below -lambd, 0 between (soft shrinkage); of the shape of
    x."""


class HShrink(_Shrink, function=ops.hardshrink):
    """x where |x| > lambd, 0 elsewhere (hard shrinkage), of the shape of x. `lambd` is 0.5 by
    default."""


class Threshold(OfInputX, function=ops.threshold):
    """x where above a threshold, a value elsewhere."""

    threshold: PlainNumber
    value: PlainNumber


class GLU(OfX, function=ops.glu):
    """a * sigmoid(b) for the halves a and b of x along an axis of even length. Source: `nn.GLU`."""

    axis: int = -1


class LRN(OfInputX, function=ops.lrn):
    """Local response normalisation across channels."""

    depth_radius: NonNegative = 5
    bias: Number = 1.0
    alpha: Number = 1.0
    beta: Number = 0.5
    norm_region: Annotated[str, one_of("ACROSS_CHANNELS")] = "ACROSS_CHANNELS"


# --- with a parameter ----------------------------------------------------------------------------


def _slopes(w: Any, count: int, dtype: DType, what: str) -> Tensor:
    if isinstance(w, (float, int)) and not isinstance(w, bool):
        return Tensor(np.full((count,), w), dtype)
    if not isinstance(w, (list, Tensor)):
        raise misuse(what, "the 'w' only supported float, list and Tensor", type(w).__name__,
                     TypeError)
    out = Tensor(w, dtype)
    if out.shape != (count,):
        raise misuse(what, f"the length of 'w' must be equal to the 'channel' {count}", out.shape)
    return out


class PReLU(Cell):
    """x where positive, a x elsewhere, with a learnt `a` (channel).

    Args:
        channel: number of slopes: 1, or one for each channel.
        w: their initial value: a float, list of floats or Tensor.
    """

    def __init__(self, channel: Positive = 1, w: Any = 0.25) -> None:
        super().__init__()
        self.channel = channel
        self.a = Parameter(_slopes(w, self.channel, float32, self.cls_name), name="a")

    def construct(self, x: Tensor) -> Tensor:
        """The same shape."""
        return ops.prelu(x, self.a)


class PReLUExt(Cell):
    """x where positive, weight x elsewhere."""

    def __init__(
        self, num_parameters: Positive = 1, init: float = 0.25, dtype: DType | None = None
    ) -> None:
        super().__init__()
        count = num_parameters
        self.weight = Parameter(
            _slopes(init, count, dtype or float32, self.cls_name), name="weight")

    def construct(self, input: Tensor) -> Tensor:
        """The same shape."""
        return ops.prelu(input, self.weight)


_activation: dict[str, type[Cell]] = {
    "softmin": Softmin, "softmax": Softmax, "softmax2d": Softmax2d, "logsoftmax": LogSoftmax,
    "logsoftmaxExt": LogSoftmaxExt, "relu": ReLU, "relu6": ReLU6, "rrelu": RReLU, "silu": SiLU,
    "tanh": Tanh, "tanhshrink": Tanhshrink, "hardtanh": Hardtanh, "gelu": GELU,
    "fast_gelu": FastGelu, "elu": ELU, "sigmoid": Sigmoid, "softsign": Softsign, "prelu": PReLU,
    "preluExt": PReLUExt, "leakyrelu": LeakyReLU, "hswish": HSwish, "hsigmoid": HSigmoid,
    "logsigmoid": LogSigmoid, "softshrink": SoftShrink, "hshrink": HShrink,
    "threshold": Threshold, "mish": Mish,
}


def get_activation(name: str | None, prim_name: str | None = None) -> Cell | None:
    """An activation layer by its name; None for None.

    Raises:
        KeyError: an unknown name.
    """
    if name is None:
        return None
    found = _activation.get(name)
    if found is None:
        before = f"For '{prim_name}', the" if prim_name else "The"
        raise KeyError(f"{before} 'name' must be in {list(_activation)}, but got {name}.")
    return found()
