"""Dense, dropout, reshaping, padding and other basic layers.

Source: the same names in `mindspore.nn`.
"""

from __future__ import annotations

import math
from typing import Annotated, Any

from cellc_runtime.dtypes import DType, float32

from ... import ops
from ...core.declared import (
    Arguments,
    Axes,
    DropRate,
    Flag,
    Int,
    Positive,
    PositiveNumber,
    Rule,
    instance,
    is_int,
    misuse,
    number,
    one_of,
)
from ...ops.arguments import ranked
from ...ops.functional import window
from ...ops.primitive import Primitive
from ...tensors.initializer import HeUniform, Uniform
from ...tensors.parameter import Parameter
from ...tensors.tensor import Tensor
from ..cell import Cell
from .activation import get_activation
from .base import Family, Layer, OfInput, OfX, parameter


def _make_parameter(
    init: Any, default: Any, shape: tuple[int, ...], dtype: DType, name: str, what: str
) -> Parameter:
    """A parameter from an initial value, whose shape must fit if it is a Tensor; None: a default.
    """
    if isinstance(init, Tensor) and init.shape != shape:
        raise misuse(what, f"{name} init shape error: it must be {shape}", init.shape)
    return parameter(default if init is None else init, shape, dtype, name)


def activation_of(activation: Any, what: str) -> Any:
    """An activation from its name, a Cell or a Primitive."""
    if isinstance(activation, str):
        return get_activation(activation)
    if activation is not None and not isinstance(activation, (Cell, Primitive)):
        raise misuse(what, "the 'activation' must be str or Cell or Primitive",
                     type(activation).__name__, TypeError)
    return activation


class _Affine(Cell):
    """x @ weight.T + bias, with weight (out, in) and bias (out)."""

    def _make(
        self, inputs: int, outputs: int, weight_init: Any, bias_init: Any, has_bias: bool,
        dtype: DType,
    ) -> None:
        what = self.cls_name
        self.weight = _make_parameter(
            weight_init, HeUniform(math.sqrt(5)), (outputs, inputs), dtype, "weight", what)
        self.bias = _make_parameter(
            bias_init, Uniform(1 / math.sqrt(inputs)), (outputs,), dtype, "bias", what,
        ) if has_bias else None


class Dense(_Affine):
    """activation(x @ weight.T + bias).

    Args:
        in_channels, out_channels: length of the last axis of the input and the output.
        weight_init, bias_init: initial weight (out, in) and bias (out): a Tensor, initializer,
            its name or a number; uniform within 1 / sqrt(in) if None.
        has_bias: whether there is a bias.
        activation: a name, Cell or Primitive applied to the result, or None.
        dtype: element type of the parameters.
    """

    def __init__(
        self, in_channels: Positive, out_channels: Positive, weight_init: Any = None,
        bias_init: Any = None, has_bias: Flag = True, activation: Any = None,
        dtype: DType = float32,
    ) -> None:
        super().__init__()
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.has_bias = has_bias
        self._make(self.in_channels, self.out_channels, weight_init, bias_init, has_bias, dtype)
        self.activation = activation_of(activation, self.cls_name)
        self.activation_flag = self.activation is not None

    def construct(self, x: Tensor) -> Tensor:
        """(..., in_channels) to (..., out_channels)."""
        x = ops.dense(x, self.weight, self.bias)
        if self.activation_flag:
            x = self.activation(x)
        return x

    def extend_repr(self) -> str:
        """Sizes and options."""
        text = f"input_channels={self.in_channels}, output_channels={self.out_channels}"
        if self.has_bias:
            text += f", has_bias={self.has_bias}"
        if self.activation_flag:
            text += f", activation={self.activation}"
        return text


class Linear(_Affine):
    """x @ weight.T + bias.

    Args:
        in_features, out_features: length of the last axis of the input and the output.
        bias: whether there is a bias.
        weight_init, bias_init: as in `Dense`.
        dtype: element type of the parameters; float32 if None.
    """

    def __init__(
        self, in_features: Positive, out_features: Positive, bias: Flag = True,
        weight_init: Any = None, bias_init: Any = None, dtype: DType | None = None,
    ) -> None:
        super().__init__()
        self.in_features = in_features
        self.out_features = out_features
        self.has_bias = bias
        self._make(self.in_features, self.out_features, weight_init, bias_init, bias,
                   dtype or float32)

    def construct(self, x: Tensor) -> Tensor:
        """(..., in_features) to (..., out_features)."""
        return ops.dense(x, self.weight, self.bias)

    def extend_repr(self) -> str:
        """Sizes and options."""
        text = f"input_features={self.in_features}, output_features={self.out_features}"
        return f"{text}, has_bias=True" if self.has_bias else text


class BiDense(Cell):
    """x1 . W_k . x2 + bias_k for each output channel k.

    Args:
        in1_channels, in2_channels, out_channels: lengths of the last axes.
        weight_init, bias_init: initial weight (out, in1, in2) and bias (out), as in `Dense`.
        has_bias: whether there is a bias.
        dtype: element type of the parameters.
    """

    def __init__(
        self, in1_channels: Positive, in2_channels: Positive, out_channels: Positive,
        weight_init: Any = None, bias_init: Any = None, has_bias: Flag = True,
        dtype: DType = float32,
    ) -> None:
        super().__init__()
        self.in1_channels = in1_channels
        self.in2_channels = in2_channels
        self.out_channels = out_channels
        self.has_bias = has_bias
        shape = (self.out_channels, self.in1_channels, self.in2_channels)
        what, bound = self.cls_name, 1 / math.sqrt(self.in1_channels)
        self.weight = _make_parameter(weight_init, Uniform(bound), shape, dtype, "weight", what)
        self.bias = _make_parameter(
            bias_init, Uniform(bound), shape[:1], dtype, "bias", what) if has_bias else None

    def construct(self, input1: Tensor, input2: Tensor) -> Tensor:
        """(..., in1) and (..., in2) to (..., out)."""
        lead = input1.shape[:-1]
        a = ops.reshape(input1, (-1, self.in1_channels))
        b = ops.reshape(input2, (-1, self.in2_channels))
        # rows x (out, in1, in2): first over in1, then over in2.
        first = ops.matmul(ops.expand_dims(ops.expand_dims(a, 1), 2), self.weight)
        out = ops.sum(ops.squeeze(first, 2) * ops.expand_dims(b, 1), -1)
        if self.has_bias:
            out = out + self.bias
        return ops.reshape(out, lead + (self.out_channels,))

    def extend_repr(self) -> str:
        """Sizes and options."""
        text = (f"in1_channels={self.in1_channels}, in2_channels={self.in2_channels}, "
                f"output_channels={self.out_channels}")
        return f"{text}, has_bias=True" if self.has_bias else text


# --- dropout -------------------------------------------------------------------------------------


_KEPT = number(0, 1, ends="(]", whole=False)


class Dropout(Cell):
    """Elements zeroed at random while training, the others scaled.

    Args:
        keep_prob: probability that an element stays (used if `p` is None).
        p: probability that an element becomes zero, in [0, 1).
        dtype: accepted for compatibility.
    """

    def __init__(
        self, keep_prob: float = 0.5, p: DropRate | None = None, dtype: DType = float32
    ) -> None:
        super().__init__()
        if p is None:
            _KEPT(keep_prob, self.cls_name, "keep_prob")
        self.keep_prob = keep_prob
        self.p = p
        self.rate = 1.0 - keep_prob if p is None else p

    def construct(self, x: Tensor) -> Tensor:
        """The same shape."""
        if not self.training or self.rate == 0:
            return x
        return ops.dropout(x, self.rate)

    def extend_repr(self) -> str:
        """The probability as it was given."""
        return f"keep_prob={self.keep_prob}" if self.p is None else f"p={self.p}"


class DropoutExt(Layer):
    """Elements zeroed with probability `p` while training."""

    p: DropRate = 0.5
    inplace: bool = False

    def construct(self, input: Tensor) -> Tensor:
        """The same shape."""
        out = ops.dropout(input, self.p, self.training)
        return input.copy_(out) if self.inplace and self.training else out


class _ChannelDropout(Arguments, Family):
    """Whole channels zeroed with probability `p` while training.

    Args:
        p: in [0, 1].
    """

    p: Annotated[float, number(0, 1, whole=False)] = 0.5

    def construct(self, x: Tensor) -> Tensor:
        """The same shape."""
        return self._function(x, self.p, self.training)


class Dropout1d(_ChannelDropout, function=ops.dropout1d):
    """Whole channels of (N, C, L) zeroed with probability `p` while training, the others divided
    by 1 - p. The shape stays."""


class Dropout2d(_ChannelDropout, function=ops.dropout2d):
    """Whole channels of (N, C, H, W) zeroed with probability `p` while training, the others divided
    by 1 - p. The shape stays."""

    def extend_repr(self) -> str:
        """The probability that a channel stays, as MindSpore prints it."""
        return f"p={1.0 - self.p}"


class Dropout3d(_ChannelDropout, function=ops.dropout3d):
    """Whole channels of (N, C, D, H, W) zeroed with probability `p` while training, the others
    divided by 1 - p. The shape stays."""

    extend_repr = Dropout2d.extend_repr


# --- shapes --------------------------------------------------------------------------------------


class Flatten(Layer):
    """Join the axes from `start_dim` to `end_dim` in row-major order: (2, 3, 4) becomes (2, 12) by
    default."""

    start_dim: int = 1
    end_dim: int = -1

    def construct(self, x: Tensor) -> Tensor:
        """The same elements."""
        return ops.flatten(x, start_dim=self.start_dim, end_dim=self.end_dim)


class Unflatten(Cell):
    """One axis made several.

    Args:
        axis: which.
        unflattened_size: their lengths.
    """

    def __init__(self, axis: Int, unflattened_size: Annotated[Any, instance(tuple, list)]) -> None:
        super().__init__()
        self.axis = axis
        self.unflattened_size = tuple(unflattened_size)

    def construct(self, input_x: Tensor) -> Tensor:
        """The same elements."""
        ranked(input_x, 1, None, "Unflatten", "input_x")
        axis = self.axis % input_x.ndim
        shape = input_x.shape[:axis] + self.unflattened_size + input_x.shape[axis + 1 :]
        return ops.reshape(input_x, shape)


class Identity(Cell):
    """The input as it is, of any shape and type: for a place where a network needs some layer."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def construct(self, input: Any) -> Any:
        """The input."""
        return input


PadMode = Annotated[str, one_of("CONSTANT", "REFLECT", "SYMMETRIC")]


class Pad(Cell):
    """Elements added around each axis.

    Args:
        paddings: a pair (before, after) for each axis.
        mode: `"CONSTANT"` (zeros), `"REFLECT"` (mirrored without the edge) or `"SYMMETRIC"`
            (mirrored with it).
    """

    def __init__(self, paddings: Any, mode: PadMode = "CONSTANT") -> None:
        super().__init__()
        instance(tuple)(paddings, "Pad", "paddings")
        if any(not isinstance(p, (list, tuple)) or len(p) != 2 for p in paddings):
            raise misuse("Pad", "the shape of 'paddings' must be (n, 2)", paddings)
        self.paddings = paddings
        self.mode = mode

    def construct(self, x: Tensor) -> Tensor:
        """The padded tensor."""
        if self.mode == "CONSTANT":
            flat = [n for pair in self.paddings[::-1] for n in pair]
            return ops.pad(x, flat)
        skip = 1 if self.mode == "REFLECT" else 0
        for axis in range(len(self.paddings)):
            before, after = self.paddings[axis]
            size = x.shape[axis]
            if before > size - skip or after > size - skip:
                raise misuse("Pad",
                             f"{self.paddings[axis]} cannot be mirrored from {size} elements")
            parts = [x]
            if before > 0:
                parts.insert(0, ops.flip(ops.narrow(x, axis, skip, before), (axis,)))
            if after > 0:
                parts.append(ops.flip(ops.narrow(x, axis, size - skip - after, after), (axis,)))
            x = ops.concat(parts, axis)
        return x


class Upsample(OfX, function=ops.interpolate):
    """Images (N, C, ...) enlarged or reduced to `size`, or by `scale_factor`; `mode` says how
    pixels between are computed. See `ops.interpolate`."""

    size: Any = None
    scale_factor: Any = None
    mode: str = "nearest"
    align_corners: bool | None = None
    recompute_scale_factor: bool | None = None


class OneHot(Cell):
    """Each index becomes a vector of `depth` elements, `on_value` at the index and `off_value`
    elsewhere, along a new axis; only `off_value` for an index out of range."""

    def __init__(
        self, axis: int = -1, depth: int = 1, on_value: float = 1.0, off_value: float = 0.0,
        dtype: DType = float32,
    ) -> None:
        super().__init__()
        self.axis = axis
        self.depth = depth
        self.dtype = dtype
        self.on_value = Tensor(on_value, dtype)
        self.off_value = Tensor(off_value, dtype)

    def construct(self, indices: Tensor) -> Tensor:
        """The shape of `indices` with an axis of `depth` put in."""
        return ops.one_hot(indices, self.depth, self.on_value, self.off_value, self.axis)


class Roll(Cell):
    """Elements moved around along axes."""

    def __init__(self, shift: Axes, axis: Axes) -> None:
        super().__init__()
        counts = [1 if is_int(v) else len(v) for v in (shift, axis)]
        if counts[0] != counts[1]:
            raise misuse("Roll", "'shift' and 'axis' must have the same length",
                         f"{shift} and {axis}")
        self.shift = shift
        self.axis = axis

    def construct(self, input_x: Tensor) -> Tensor:
        """The same shape."""
        return ops.roll(input_x, self.shift, self.axis)


class Norm(Layer):
    """The euclidean norm over axes (all by default)."""

    axis: Any = ()
    keep_dims: Flag = False

    def construct(self, x: Tensor) -> Tensor:
        """sqrt of the sum of squares."""
        axis = None if self.axis == () else self.axis
        return ops.sqrt(ops.sum(ops.square(x), axis, self.keep_dims))

    def extend_repr(self) -> str:
        """The options."""
        return f"axis={self.axis}, keep_dims={self.keep_dims}"


class Tril(Cell):
    """Zeros above the diagonal number k of matrices (..., m, n): k = 0 is the main one, a larger k
    is further up."""

    def construct(self, x: Tensor, k: int = 0) -> Tensor:
        """Zero above the k-th diagonal."""
        return ops.tril(x, k)


class Triu(Cell):
    """Zeros below the diagonal number k of matrices (..., m, n): k = 0 is the main one, a larger k
    is further up."""

    def construct(self, x: Tensor, k: int = 0) -> Tensor:
        """Zero below the k-th diagonal."""
        return ops.triu(x, k)


class ClipByNorm(Layer):
    """Scaled so that the norm over `axis` is at most a bound."""

    axis: Axes | None = None

    def construct(self, x: Tensor, clip_norm: Any) -> Tensor:
        """The same shape."""
        size = ops.sqrt(ops.sum(ops.square(x), self.axis, True))
        out: Tensor = x * clip_norm / ops.maximum(size, clip_norm)
        return out


class L1Regularizer(Layer):
    """scale times the sum of absolute values."""

    scale: PositiveNumber

    def construct(self, weights: Tensor) -> Tensor:
        """A scalar."""
        return ops.sum(ops.abs(weights)) * self.scale


class PixelShuffle(OfInput, function=ops.pixel_shuffle):
    """(N, C r**2, H, W) to (N, C, H r, W r)."""

    upscale_factor: Positive


class PixelUnshuffle(OfInput, function=ops.pixel_unshuffle):
    """(N, C, H r, W r) to (N, C r**2, H, W)."""

    downscale_factor: Positive


class ChannelShuffle(OfX, function=ops.channel_shuffle):
    """Channels interleaved between groups."""

    groups: Positive


Patch = Annotated[Any, Rule(
    "(1, rows, columns, 1) with positive ints", lambda value: isinstance(value, (tuple, list)),
    lambda value: len(value) == 4 and value[0] == value[3] == 1 and all(
        is_int(v) and v > 0 for v in value), tuple)]


class Unfold(Layer):
    """The patches of images, as channels.

    Args:
        ksizes, strides, rates: (1, rows, columns, 1): size of a patch, steps from patch to patch,
            and from element to element of a patch.
        padding: `"valid"`, or `"same"`: zeros around, for ceil(H / stride) rows.
    """

    ksizes: Patch
    strides: Patch
    rates: Patch
    padding: Annotated[str, one_of("valid", "same", fold=str.lower)] = "valid"

    def construct(self, input_x: Tensor) -> Tensor:
        """(N, C, H, W) to (N, rows * columns * C, H', W'), the places of a patch slowest."""
        return window.image_patches(input_x, self.ksizes[1:3], self.strides[1:3], self.rates[1:3],
                                    self.padding)
