"""Names of `mindspore.nn.probability.distribution._utils`, for distributions that users write."""

from __future__ import annotations

from typing import Any

from cellc_runtime.dtypes import DType, float32

from ... import ops
from ...tensors.parameter import Parameter
from ...tensors.tensor import Tensor
from .parameters import known, need_positive, need_probability, need_tensor, parameter_type

check_greater_zero, check_prob, set_param_type = need_positive, need_probability, parameter_type
exp_generic, log_generic, log1p_generic = ops.exp, ops.log, ops.log1p
log_generic_with_check = log_generic


def cast_to_tensor(t: Any, hint_type: DType = float32) -> Tensor:
    """A parameter as a Tensor of a type; a Parameter stays itself.

    Raises:
        ValueError: it is None.
        TypeError: it is a bool, or no number, list, array or Tensor.
    """
    if t is None:
        raise ValueError("Input cannot be None in cast_to_tensor")
    if isinstance(t, bool):
        raise TypeError("Input cannot be Type Bool")
    if isinstance(t, Parameter):
        return t
    try:
        return ops.cast(t, hint_type) if isinstance(t, Tensor) else Tensor(t, hint_type)
    except (TypeError, ValueError):
        raise TypeError(f"Unable to convert input of type {type(t)} to a Tensor of type "
                        f"{hint_type}") from None


def check_greater_equal_zero(value: Tensor, name: str) -> None:
    """A parameter must not be below zero."""
    if not (known(value) >= 0).all():
        raise ValueError(f"{name} must be greater than or equal to zero.")


def check_greater(a: Tensor, b: Tensor, name_a: str, name_b: str) -> None:
    """Elements of `a` must be below those of `b`."""
    if not (known(a) < known(b)).all():
        raise ValueError(f"{name_a} must be less than {name_b}")


def check_sum_equal_one(probs: Tensor) -> None:
    """Probabilities of the last axis must have the sum 1, up to rounding."""
    if (abs(known(probs).sum(-1) - 1) > 1e-5).any():
        raise ValueError("Probabilities for each category should sum to one for Categorical "
                         "distribution.")


def check_rank(probs: Tensor) -> None:
    """Probabilities must have an axis."""
    if probs.ndim == 0:
        raise ValueError("probs for Categorical distribution must have rank >= 1.")


def clamp_probs(probs: Tensor) -> Tensor:
    """Probabilities that are away from 0 and 1 by the precision of the type."""
    eps = 1.0 / 2 ** {2: 10, 4: 23, 8: 52}[probs.dtype.itemsize]
    return ops.clip_by_value(probs, eps, 1 - eps)


def logits_to_probs(logits: Tensor, is_binary: bool = False) -> Tensor:
    """Probabilities of logits: of two outcomes, or of those of the last axis."""
    return ops.sigmoid(logits) if is_binary else ops.softmax(logits, -1)


def probs_to_logits(probs: Tensor, is_binary: bool = False) -> Tensor:
    """Logits of probabilities: of two outcomes, or of those of the last axis."""
    held = clamp_probs(probs)
    return ops.log(held) - ops.log1p(-held) if is_binary else ops.log(held)


def broadcast_to(x: Tensor, target: Tensor) -> Tensor:
    """`x` in the shape of another tensor; itself where it has that shape."""
    return x if tuple(x.shape) == tuple(target.shape) else ops.broadcast_to(x, target.shape)


def cast_type_for_device(dtype: DType) -> DType:
    """The element type that the device has for one: the same."""
    return dtype


class CheckTensor:
    """Checks that an operand is a Tensor, and gives it."""

    def __call__(self, x: Any, name: str) -> Tensor:
        return need_tensor(x, name)


class CheckTuple:
    """Checks that an operand is a tuple, and gives it."""

    def __call__(self, x: Any, name: str) -> tuple[Any, ...]:
        if not isinstance(x, tuple):
            raise TypeError(f"For {name}, input type must be a tuple.")
        return x


def raise_none_error(name: str) -> None:
    """A parameter is given neither here nor at the call."""
    raise TypeError(f"the type {name} must be subclass of Tensor. It can not be None since it is "
                    "not specified during initialization.")


def raise_broadcast_error(shape_a: Any, shape_b: Any) -> None:
    """Two shapes do not broadcast."""
    raise ValueError(f"Shape {shape_a} and {shape_b} is not broadcastable.")


def raise_not_impl_error(name: str) -> None:
    """A function of a bijector is missing."""
    raise ValueError(f"{name} function must be implemented for non-linear transformation")


def raise_not_implemented_util(func_name: str, obj: str, *args: Any, **kwargs: Any) -> None:
    """A distribution has no such function."""
    raise NotImplementedError(f"{func_name} is not implemented for {obj} distribution.")


def raise_type_error(name: str, cur_type: Any, required_type: Any) -> None:
    """A value is of another type."""
    raise TypeError(f"For {name} , the type must be or be subclass of {required_type}, but got "
                    f"{cur_type}")


def raise_not_defined(func_name: str, obj: str, *args: Any, **kwargs: Any) -> None:
    """A function of a distribution has no value."""
    raise ValueError(f"{func_name} is undefined for {obj} distribution.")


def check_distribution_name(name: str | None, expected_name: str) -> None:
    """A divergence is known to a distribution of one kind."""
    if name is None:
        raise ValueError("Input dist must be a constant which is not None.")
    if name != expected_name:
        raise ValueError(f"Expected dist input is {expected_name}, but got {name}.")
