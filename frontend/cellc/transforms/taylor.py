"""Derivatives of higher order along a curve: `ops.derivative` and `ops.jet`, by nested `jvp`."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import factorial
from typing import Any

import numpy as np

from cellc_compiler.ir.types import differentiable
from cellc_runtime import dtypes

from ..compiled.inline import call_here
from ..core.declared import POSITIVE
from ..core.dispatch import apply_one
from ..tensors.promotion import cast_to
from ..tensors.tensor import Tensor, Tensors, ir_type, tensor_of
from ..tracing.pytree import take_apart
from .jacobian import Outputs, Transformed, jvp, tensors_of


def derivative(fn: Any, primals: Any, order: int) -> Any:
    """The outputs of `fn`, and their derivative of an order where every input moves at speed 1.

    Args:
        fn: a Cell or function of tensors that gives a Tensor or a tuple of them.
        primals: its arguments: a Tensor, or a tuple of them; integers become float32.
        order: of the derivative, at least 1.
    """
    args = _inputs("derivative", "primals", primals)
    POSITIVE(order, "derivative", "order")
    series = tuple(_stack([_full(x, float(k == 0)) for k in range(order)]) for x in args)
    out, all_orders = _taylor(fn)(args, series)
    last = all_orders if isinstance(all_orders, tuple) else (all_orders,)
    rows = tuple(t[order - 1] for t in last)
    return out, rows if isinstance(all_orders, tuple) else rows[0]


def jet(fn: Any, primals: Any, series: Any) -> Any:
    """The outputs of `fn` and their derivatives along a curve.

    Args:
        fn: a Cell or function of tensors that gives a Tensor or a tuple of them.
        primals: its arguments, where the curve starts: a Tensor, or a tuple of them.
        series: for each, the derivatives of the curve, along a new first axis: of order 1 first.

    Returns:
        The outputs; for each, its derivatives, along a new first axis.
    """
    args, rows = _inputs("jet", "primals", primals), _inputs("jet", "series", series)
    if len(args) != len(rows):
        raise ValueError(f"For 'jet', 'series' must hold as many tensors as 'primals': "
                         f"{len(args)}, but got {len(rows)}.")
    for i, (x, s) in enumerate(zip(args, rows, strict=True)):
        if tuple(s.shape[1:]) != tuple(x.shape) or not s.ndim or len(s) != len(rows[0]) or \
                not len(s):
            raise ValueError(f"For 'jet', tensor {i} of 'series' must have the shape (orders, "
                             f"*{tuple(x.shape)}), but has {tuple(s.shape)}.")
    return _taylor(fn)(args, rows)


def _inputs(what: str, name: str, value: Any) -> tuple[Tensor, ...]:
    many = tensors_of(what, name, value, "a Tensor or a tuple of Tensors")
    return tuple(t if differentiable(ir_type(t)) else cast_to(t, dtypes.float32) for t in many)


def _full(like: Tensor, value: float) -> Tensor:
    return tensor_of(np.full(like.shape, value, like.dtype.numpy))


def _stack(rows: Tensors) -> Tensor:
    return apply_one("stack", *rows, axis=0)


@lru_cache(maxsize=64)
def _taylor(fn: Any) -> Transformed:
    def evaluate(args: tuple[Tensor, ...], series: tuple[Tensor, ...]) -> Any:
        first = Outputs("jet", call_here(fn, args), False)

        def at(t: Tensor) -> tuple[Tensor, ...]:
            given = [_on_curve(x, s, t) for x, s in zip(args, series, strict=True)]
            return tuple(take_apart(call_here(fn, given))[1])

        zero = tensor_of(np.zeros((), args[0].dtype.numpy))
        orders: list[tuple[Tensor, ...]] = []
        curve: Callable[[Tensor], Any] = at
        for _ in range(len(series[0])):
            curve = _slope(curve)
            orders.append(curve(zero))
        found = [_stack([o[i] for o in orders]) for i in range(len(first.seeds))]
        return first.value(first.tensors), first.shaped(found)

    return Transformed("jet", fn, evaluate)


def _on_curve(x: Tensor, series: Tensor, t: Tensor) -> Tensor:
    """x + s1 t + s2 t^2 / 2 + ..., by Horner's rule."""
    total: Any = series[len(series) - 1] / factorial(len(series))
    for k in range(len(series) - 1, 0, -1):
        total = series[k - 1] / factorial(k) + total * t
    out: Tensor = x + total * t
    return out


def _slope(f: Callable[[Tensor], Any]) -> Callable[[Tensor], Any]:
    def moved(t: Tensor) -> Any:
        return jvp(f, t, tensor_of(np.ones((), t.dtype.numpy)))[1]

    return moved
