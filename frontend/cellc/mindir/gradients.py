"""The gradients that a training graph of MindSpore spells out, as functions of their inputs.

Most are what reverse mode gives for the op itself; those of an op whose gradient follows from its
result take the result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.dispatch import apply_one
from ..ops.functional import activation, arith, indexing, loss, reductions
from ..ops.functional import shapes as shapes_of
from ..ops.primitives import find
from ..tensors.tensor import Tensor
from ..transforms.vjp import vjp
from .rules import rsqrt


def pulled(function: Callable[..., Any], dout: Any, *inputs: Tensor) -> tuple[Any, ...]:
    """The gradients for the inputs of a function, given that for its result."""
    back = vjp(function, *inputs)[1]
    found = back(arith.cast(dout, inputs[0].dtype) if isinstance(dout, Tensor) else dout)
    return tuple(found) if isinstance(found, (tuple, list)) else (found,)


def slope(function: Callable[..., Any], dout: Any, x: Tensor) -> Tensor:
    """The gradient for the only input of a function."""
    found: Tensor = pulled(function, dout, x)[0]
    return found


def _of_input(op: str) -> Callable[..., Tensor]:
    """The gradient comes first, the input of the op after it."""
    return lambda dout, x, *rest: slope(_primitive(op), dout, x)


def _of_result(factor: Callable[[Tensor], Tensor]) -> Callable[..., Tensor]:
    """The result of the op comes first, the gradient after it."""
    return lambda y, dout: arith.mul(dout, factor(y))


def _relu(dout: Tensor, y: Tensor) -> Tensor:
    return arith.where(arith.gt(y, 0), dout, arith.mul(dout, 0))


def _bias_add(dout: Tensor, data_format: str = "NCHW") -> Tensor:
    axis = dout.ndim - 1 if data_format == "NHWC" else 1
    return reductions.sum(dout, tuple(a for a in range(dout.ndim) if a != axis))


def _primitive(op: str, **attrs: Any) -> Callable[..., Any]:
    made: Callable[..., Any] = find(op)(**attrs)
    return made


def _max_pool(x: Tensor, out: Tensor, dout: Tensor, *, kernel_size: Any = 1, strides: Any = 1,
              pad_mode: str = "valid", data_format: str = "NCHW") -> Tensor:
    pool = _primitive("MaxPool", kernel_size=kernel_size, strides=strides, pad_mode=pad_mode,
                      data_format=data_format)
    return slope(pool, dout, x)


def _avg_pool(x: Tensor, out: Tensor, dout: Tensor, kernel_size: Any, strides: Any,
              pad_mode: str = "valid", data_format: str = "NCHW") -> Tensor:
    pool = _primitive("AvgPool", kernel_size=kernel_size, strides=strides, pad_mode=pad_mode,
                      data_format=data_format)
    return slope(pool, dout, x)


def _filter(dout: Tensor, x: Tensor, size: Any, *, out_channel: int, kernel_size: Any,
            mode: int = 1, pad_mode: str = "valid", pad: Any = 0, stride: Any = 1,
            dilation: Any = 1, group: int = 1, data_format: str = "NCHW") -> Tensor:
    conv = _primitive("Conv2D", out_channel=out_channel, kernel_size=kernel_size, mode=mode,
                      pad_mode=pad_mode.lower(), pad=pad, stride=_square(stride),
                      dilation=_square(dilation), group=group, data_format=data_format)
    weight = find("Zeros")()(tuple(size), x.dtype)
    return slope(lambda w: conv(x, w), dout, weight)


def _square(size: Any) -> Any:
    return tuple(size)[-2:] if isinstance(size, (tuple, list)) else size


def _batch_norm(dout: Tensor, x: Tensor, scale: Tensor, mean: Tensor, variance: Tensor,
                reserve: Tensor, is_training: bool = False, epsilon: float = 1e-5,
                data_format: str = "NCHW") -> tuple[Any, ...]:
    shape = tuple(-1 if a == 1 else 1 for a in range(x.ndim))
    axes = tuple(a for a in range(x.ndim) if a != 1)

    def norm(x: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
        var, center = reductions.var_mean(x, axes) if is_training else (variance, mean)
        wide = [shapes_of.reshape(t, shape) for t in (center, var, scale, bias)]
        unit = arith.mul(arith.sub(x, wide[0]), rsqrt(arith.add(wide[1], epsilon)))
        return arith.add(arith.mul(unit, wide[2]), wide[3])

    return pulled(norm, dout, x, scale, arith.mul(scale, 0))


def _layer_norm(x: Tensor, dout: Tensor, variance: Tensor, mean: Tensor, gamma: Tensor,
                begin_norm_axis: int = 1, begin_params_axis: int = 1) -> tuple[Any, ...]:
    norm = _primitive("LayerNorm", begin_norm_axis=begin_norm_axis,
                      begin_params_axis=begin_params_axis)
    return pulled(lambda x, g, b: norm(x, g, b)[0], dout, x, gamma, arith.mul(gamma, 0))


def _log_softmax(out: Tensor, dout: Tensor, axis: int = -1) -> Tensor:
    total = reductions.sum(dout, axis, True)
    return arith.sub(dout, arith.mul(apply_one("exp", out), total))


def _softmax(dout: Tensor, out: Tensor, dim: int = -1) -> Tensor:
    weighted = arith.mul(dout, out)
    return arith.sub(weighted, arith.mul(out, reductions.sum(weighted, dim, True)))


def _dropout(dout: Tensor, mask: Tensor, keep_prob: float = 0.5) -> Tensor:
    return arith.div(arith.mul(dout, arith.cast(mask, dout.dtype)), keep_prob)


def _extremum(function: Callable[..., Tensor]) -> Callable[..., Any]:
    def rule(x: Tensor, y: Tensor, dout: Tensor, grad_x: bool = True, grad_y: bool = True) -> Any:
        return pulled(function, dout, x, y)

    return rule


def _smooth_l1(x: Tensor, target: Tensor, dout: Tensor, beta: float = 1.0,
               reduction: str = "none") -> Tensor:
    return slope(lambda x: loss.smooth_l1_loss(x, target, beta, reduction), dout, x)


def _binary_cross_entropy(x: Tensor, y: Tensor, dout: Tensor, weight: Any = None,
                          reduction: str = "mean") -> Tensor:
    return slope(lambda x: loss.binary_cross_entropy(x, y, weight, reduction), dout, x)


def _gathered(x: Tensor, dim: int, index: Tensor, dout: Tensor) -> Tensor:
    return slope(lambda x: indexing.gather_elements(x, dim, index), dout, x)


def _strided(dout: Tensor, shape: Any, begin: Any, end: Any, strides: Any, *masks: int) -> Tensor:
    names = ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask")
    cut = _primitive("StridedSlice", **dict(zip(names, masks, strict=False)))
    zeros = find("Zeros")()(tuple(shape), dout.dtype)
    return slope(lambda x: cut(x, begin, end, strides), dout, zeros)


def _bilinear(dout: Tensor, image: Tensor, align_corners: bool = False,
              half_pixel_centers: bool = False) -> Tensor:
    resize = _primitive("ResizeBilinearV2", align_corners=align_corners,
                        half_pixel_centers=half_pixel_centers)
    return slope(lambda x: resize(x, dout.shape[2:]), dout, image)


def _unary(op: str) -> Callable[..., Tensor]:
    return lambda x, dout: slope(_primitive(op), dout, x)


GRADIENTS: dict[str, Callable[..., Any]] = {
    "ReluGrad": _relu, "ReLUGrad": _relu, "BiasAddGrad": _bias_add,
    **{f"{op}Grad": _of_input(op) for op in (
        "ReLU6", "GeLU", "HSwish", "HSigmoid", "Softplus", "Softsign", "Mish", "SeLU",
        "FastGeLU")},
    "SiLUGrad": lambda dout, x: slope(activation.silu, dout, x),
    "GeluGradExt": lambda dout, x, approximate="none": slope(
        lambda t: activation.gelu(t, approximate), dout, x),
    "SigmoidGrad": _of_result(lambda y: arith.mul(y, arith.sub(1, y))),
    "TanhGrad": _of_result(lambda y: arith.sub(1, arith.mul(y, y))),
    "SqrtGrad": lambda y, dout: arith.div(arith.mul(dout, 0.5), y),
    "RsqrtGrad": _of_result(lambda y: arith.mul(arith.mul(arith.mul(y, y), y), -0.5)),
    **dict.fromkeys(("ReciprocalGrad", "InvGrad"),
                    _of_result(lambda y: arith.neg(arith.mul(y, y)))),
    "EluGrad": lambda dout, y: arith.where(arith.gt(y, 0), dout, arith.mul(dout, arith.add(y, 1))),
    **{f"{op}Grad": _unary(op) for op in (
        "Asin", "Acos", "Atan", "Asinh", "Acosh", "Atanh")},
    "LogSoftmaxGrad": _log_softmax, "SoftmaxBackward": _softmax, "DropoutGrad": _dropout,
    "MaxPoolGrad": _max_pool, "AvgPoolGrad": _avg_pool, "Conv2DBackpropFilter": _filter,
    "BatchNormGrad": _batch_norm, "LayerNormGrad": _layer_norm,
    "MaximumGrad": _extremum(arith.maximum), "MinimumGrad": _extremum(arith.minimum),
    "SmoothL1LossGrad": _smooth_l1, "BinaryCrossEntropyGrad": _binary_cross_entropy,
    "GatherDGradV2": _gathered, "StridedSliceGrad": _strided, "ResizeBilinearGrad": _bilinear,
    "PReLUGrad": lambda dout, x, weight: pulled(activation.prelu, dout, x, weight),
}
