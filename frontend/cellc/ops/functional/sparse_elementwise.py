"""Elementwise functions of sparse tensors: those of dense ones, applied to the values.

`coo_abs` is `abs` of the values of a `COOTensor`, `csr_abs` that of a `CSRTensor`. Places without a
value stay zero, whatever the function gives for zero.

Source: the functions of the same names in `mindspore.ops`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cellc_runtime.lazy import names_of

from ...tensors.tensor import Tensor
from ..sparse_tensors import COOTensor, CSRTensor, with_values
from . import activation, arith
from .generated import FUNCTIONS as MADE

_OF_VALUES: dict[str, Callable[[Any], Tensor]] = {
    "abs": arith.abs, "ceil": arith.ceil, "floor": arith.floor, "inv": arith.reciprocal,
    "isfinite": arith.isfinite,
    "isinf": arith.isinf, "isnan": arith.isnan, "neg": arith.neg, "relu": activation.relu,
    "relu6": activation.relu6,
    "round": arith.round, "softsign": activation.softsign, "sqrt": arith.sqrt,
    "square": arith.square,
    **{name: MADE[name] for name in (
        "acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "exp", "expm1", "log",
        "log1p", "sigmoid", "sin", "sinh", "tan", "tanh")},
}


def _coo(name: str, of_values: Callable[[Any], Tensor]) -> Callable[[COOTensor], COOTensor]:
    def function(x: COOTensor) -> COOTensor:
        _check(x, COOTensor, f"coo_{name}")
        return with_values(x, of_values(x.values))

    return function


def _csr(name: str, of_values: Callable[[Any], Tensor]) -> Callable[[CSRTensor], CSRTensor]:
    def function(x: CSRTensor) -> CSRTensor:
        _check(x, CSRTensor, f"csr_{name}")
        return with_values(x, of_values(x.values))

    return function


def _check(x: Any, kind: type, what: str) -> None:
    if not isinstance(x, kind):
        raise TypeError(f"Expects {kind.__name__} for {what}, but got {type(x).__name__}.")


def _name(name: str, function: Callable[..., Any], kind: type) -> Callable[..., Any]:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = (
        f"`ops.{name[4:]}` of the values of a `{kind.__name__}`; its places stay.\n\n"
        f"    Raises:\n        TypeError: no `{kind.__name__}`, or a type of values that "
        f"`ops.{name[4:]}` does not take.\n\n    Source: `mindspore.ops.{name}`.\n    ")
    return function


FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{f"coo_{n}": _name(f"coo_{n}", _coo(n, f), COOTensor) for n, f in _OF_VALUES.items()},
    **{f"csr_{n}": _name(f"csr_{n}", _csr(n, f), CSRTensor) for n, f in _OF_VALUES.items()},
}
__all__ = sorted(FUNCTIONS)
__getattr__ = names_of(__name__, FUNCTIONS)
