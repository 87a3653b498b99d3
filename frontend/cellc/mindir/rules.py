"""Primitives that `cellc.ops` has no class for: functions of their inputs in MindSpore's order."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from cellc_runtime.dtypes import DType

from ..core.dispatch import apply_one
from ..ops.functional import (
    activation,
    arith,
    creation,
    grid,
    indexing,
    joining,
    linalg,
    loss,
    reductions,
    shapes,
    sorting,
    window,
)
from ..ops.primitives import find
from ..tensors.promotion import fresh
from ..tensors.tensor import Tensor


def _scaled(function: Callable[..., Any]) -> Callable[..., Any]:
    """A sum or difference whose second operand has a factor."""
    def rule(input: Any, other: Any, alpha: Any = 1) -> Any:
        return function(input, other if alpha == 1 else arith.mul(other, alpha))

    return rule


def _on_numbers(function: Callable[[Any, Any], Any], on_tensors: Callable[[Any, Any], Any]
                ) -> Callable[..., Any]:
    """A function of two numbers, which the run may carry as tensors."""
    def rule(x: Any, y: Any) -> Any:
        tensors = isinstance(x, Tensor) or isinstance(y, Tensor)
        return on_tensors(x, y) if tensors else function(x, y)

    return rule


def _sum(input: Tensor, dim: Any, keepdim: bool, dtype: DType | None = None) -> Tensor:
    return reductions.sum(input, dim, keepdim, dtype=dtype)


def _mean(input: Tensor, dim: Any, keepdim: bool, dtype: DType | None = None) -> Tensor:
    return reductions.mean(input if dtype is None else arith.cast(input, dtype), dim, keepdim)


def _extremum(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda input: function(input)[0] if isinstance(function(input), tuple) \
        else function(input)


def _group_norm(input: Tensor, num_groups: int, weight: Any, bias: Any, eps: float = 1e-5
                ) -> tuple[Tensor, Tensor, Tensor]:
    grouped = shapes.reshape(input, (input.shape[0], num_groups, -1))
    var, center = reductions.var_mean(grouped, -1)
    scale = rsqrt(arith.add(var, eps))
    return activation.group_norm(input, num_groups, weight, bias, eps), center, scale


def _layer_norm(input: Tensor, normalized_shape: Any, weight: Any, bias: Any, eps: float = 1e-5
                ) -> tuple[Tensor, Tensor, Tensor]:
    axes = tuple(range(input.ndim - len(normalized_shape), input.ndim))
    var, center = reductions.var_mean(input, axes, 0, True)
    out = activation.layer_norm(input, tuple(normalized_shape), weight, bias, eps)
    return out, center, rsqrt(arith.add(var, eps))


def _lstm(input: Tensor, h: Tensor, c: Tensor, w: Tensor, *, has_bias: bool, **attrs: Any) -> Any:
    """A layer whose weights MindSpore writes for a CPU: the two biases are one sum."""
    rows = 4 * attrs["hidden_size"]
    one = rows * (attrs["input_size"] + attrs["hidden_size"] + 1)
    if has_bias and w.size == one and not attrs.get("proj_size"):
        w = joining.concat((shapes.reshape(w, (-1,)), creation.zeros((rows,), w.dtype)))
    return find("LSTM")(has_bias=has_bias, **attrs)(input, h, c, w)


def _narrowed(input: Tensor, dim: int, start: int, end: int, step: int) -> Tensor:
    axis = dim % input.ndim
    found: Tensor = input[(slice(None),) * axis + (slice(start, end, step),)]
    return found


def _selected(input: Tensor, dim: int, index: int) -> Tensor:
    found: Tensor = input[(slice(None),) * (dim % input.ndim) + (index,)]
    return found


def _swapped(input: Tensor, dim0: int, dim1: int) -> Tensor:
    axes = list(range(input.ndim))
    axes[dim0], axes[dim1] = axes[dim1], axes[dim0]
    return shapes.transpose(input, tuple(axes))


def _spread(function: Callable[..., Any]) -> Callable[..., Any]:
    def rule(input: Tensor, dim: Any = None, correction: int = 1, keepdim: bool = False) -> Any:
        return function(input, dim, correction, keepdim)

    return rule


def _convolution(input: Tensor, weight: Tensor, bias: Any, stride: Any = 1, padding: Any = 0,
                 dilation: Any = 1, groups: int = 1) -> Tensor:
    return window.conv2d(input, weight, bias, tuple(stride), "pad", tuple(padding),
                         tuple(dilation), groups)


def _max_axis(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda input, dim, keepdim=False: function(input, dim, keepdim)


_COMPARED = {"Eq": arith.eq, "Ne": arith.ne, "NotEqual": arith.ne, "Equal": arith.eq,
             "Less": arith.lt, "LessEqual": arith.le, "Greater": arith.gt,
             "GreaterEqual": arith.ge}
_NUMBERS: dict[str, tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]]] = {
    "Add": (operator.add, arith.add), "Sub": (operator.sub, arith.sub),
    "Mul": (operator.mul, arith.mul), "Div": (operator.truediv, arith.true_divide),
    "FloorDiv": (operator.floordiv, arith.floor_divide), "Mod": (operator.mod, arith.remainder),
    "Pow": (operator.pow, arith.pow), "Eq": (operator.eq, arith.eq), "Lt": (operator.lt, arith.lt),
    "Le": (operator.le, arith.le), "Gt": (operator.gt, arith.gt), "Ge": (operator.ge, arith.ge),
}

def rsqrt(x: Tensor) -> Tensor:
    """1 / sqrt(x)."""
    return apply_one("rsqrt", x)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    # arithmetic with a number
    "Muls": arith.mul, "Adds": _scaled(arith.add), "AddExt": _scaled(arith.add),
    "Subs": _scaled(arith.sub), "SubExt": _scaled(arith.sub), "AddScalar": _scaled(arith.add),
    "SubScalar": _scaled(arith.sub), "Divs": arith.true_divide,
    "FloorDivScalar": arith.floor_divide,
    "PowTensorScalar": arith.pow, "PowScalarTensor": arith.pow,
    **dict.fromkeys(("RemainderTensorTensor", "RemainderTensorScalar", "RemainderScalarTensor"),
                    arith.remainder),
    "DivMod": lambda input, other, rounding_mode=None: arith.div(
        input, other, rounding_mode=rounding_mode),
    "ClampScalar": arith.clamp, "ClampTensor": arith.clamp,
    **{f"{name}Scalar": function for name, function in _COMPARED.items()},
    **{f"Scalar{name}": _on_numbers(*both) for name, both in _NUMBERS.items()},
    "ScalarUsub": operator.neg, "TensorToScalar": lambda x: x, "ScalarBool": bool,
    # activations
    "LSTM": _lstm,
    "SiLU": activation.silu, "GeluExt": activation.gelu, "SoftplusExt": activation.softplus,
    "LeakyReLUExt": activation.leaky_relu, "EluExt": activation.elu,
    "LogSoftmaxExt": lambda input, dim=-1, dtype=None: activation.log_softmax(
        input if dtype is None else arith.cast(input, dtype), dim),
    "Hardtanh": activation.hardtanh,
    # reductions
    "SumExt": _sum, "MeanExt": _mean, "ProdExt": reductions.prod, "Max": _extremum(reductions.max),
    "Min": _extremum(reductions.min), "ArgMaxExt": reductions.argmax,
    "ArgMinExt": reductions.argmin, "MaxDim": _max_axis(reductions.max),
    "MinDim": _max_axis(reductions.min), "Var": _spread(reductions.var),
    "Std": _spread(reductions.std), "VarMean": _spread(reductions.var_mean),
    "StdMean": _spread(reductions.std_mean), "CumsumExt": reductions.cumsum,
    # products
    "MatMulExt": linalg.matmul, "BatchMatMulExt": linalg.bmm, "Mm": linalg.mm, "Dot": linalg.dot,
    "Outer": linalg.outer,
    "Addmm": lambda input, mat1, mat2, beta=1, alpha=1: linalg.addmm(
        input, mat1, mat2, beta=beta, alpha=alpha),
    "Baddbmm": linalg.baddbmm, "Conv2DExt": _convolution,
    # normalizations
    "GroupNorm": _group_norm, "LayerNormExt": _layer_norm,
    # structure and elements
    "TensorMove": fresh, "Copy": fresh, "ExpandDimsView": shapes.expand_dims,
    "TransposeExtView": _swapped, "TransposeExt": _swapped, "BroadcastToView": shapes.broadcast_to,
    "SelectExtView": _selected, "SelectExt": _selected, "SliceExt": _narrowed,
    "SliceExtView": _narrowed, "StackExt": joining.stack, "ChunkView": joining.chunk,
    "Chunk": joining.chunk, "SplitTensor": joining.split, "SplitTensorView": joining.split,
    "SplitWithSize": joining.split, "SplitWithSizeView": joining.split,
    "FlattenExt": lambda input, start_dim=0, end_dim=-1: shapes.flatten(
        input, start_dim=start_dim, end_dim=end_dim),
    "Narrow": joining.narrow, "NarrowView": joining.narrow, "IndexSelect": indexing.index_select,
    "OneHotExt": grid.one_hot, "TopkExt": sorting.topk,
    "ZerosLikeExt": lambda input, dtype=None: creation.zeros_like(input, dtype=dtype),
    "OnesLikeExt": lambda input, dtype=None: creation.ones_like(input, dtype=dtype),
    # losses
    "MSELossExt": loss.mse_loss, "L1LossExt": loss.l1_loss,
}
