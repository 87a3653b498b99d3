"""Functions of float32 within compositions of 16-bit floats: as precise as their results need.

A composition computes in float32 and rounds once, to 16 bits. Where its definition calls one of
these, it does so in both modes and on every machine, alone and fused: what is computed follows
from the op and its type, never from what stands beside it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from cellc_runtime import dtypes

from ..ir import attributes as attr
from ..ir.graph import Builder, Node, Value
from ..ir.op import Array, Sample, Spec
from ..ir.types import TensorType
from ..loops import expr as E
from ..loops.expr import Expr
from . import _special as S
from ._members import Grads, case, define
from .elementwise import Elementwise, check_dtype

_Pull = Callable[[Builder, Value, Value, str], Value]
"""The derivative from the operand, the result and the type that is rounded to."""


class _Short(Elementwise):
    """Base of functions of one float32.

    Attributes:
        to: the type that the composition's result is rounded to, `"float16"` or `"bfloat16"`.
    """

    dtypes = (dtypes.float32,)
    attrs = {"to": attr.choice("float16", "bfloat16")}
    amp = "high"
    tolerance = 2.0**12

    def infer(self, x: TensorType, **attrs: Any) -> TensorType:
        check_dtype(self, x)
        return x

    def scalar(self, x: Expr, *, to: str) -> Expr:
        return E.call(f"{self.name}_{to}", x)

    def summed(self, *arrays: Array, to: str = "bfloat16", **attrs: Any) -> Array:
        """Where they vanish they do so within 2^-76, and for float16 within half of its least
        number: `limit` ulps of this."""
        return np.full(arrays[0].shape, 2.0**-64 if to == "bfloat16" else 2.0**-12)

    def limit(self, node: Node) -> float:
        """A quarter of half an ulp of float16, an eighth of half of one of bfloat16."""
        return self.tolerance if node.attrs["to"] == "bfloat16" else 2.0**10

    def samples(self) -> Sequence[Sample]:
        x = Spec((5, 9), -4, 4)
        return (case(x, to="float16"), case(x, to="bfloat16"), case((), to="float16"),
                case((0, 2), to="bfloat16"))


def _define(name: str, doc: str, known: Callable[[Array], Array], slope: _Pull) -> None:
    def reference(self: Any, x: Array, *, to: str) -> Array:
        return known(x)

    def gradient(self: Any, b: Builder, node: Node, dys: Grads) -> Grads:
        return [b.mul(dys[0], slope(b, node.operands[0], node.result, node.attrs["to"]))]

    define(_Short, name, doc, reference=reference, gradient=gradient)


def _one_minus(b: Builder, x: Value) -> Value:
    return b.sub(b.scalar(1, like=x), x)


def _twice(b: Builder, x: Value) -> Value:
    return b.add(x, x)


def _within(b: Builder, x: Value) -> Value:
    """x where a slope that has all but vanished is multiplied by it: the slope of 1e38 is 1e-28."""
    end = _settled(np.array(np.inf)).item()
    return b.minimum(b.maximum(x, b.scalar(-end, like=x)), b.scalar(end, like=x))


def _sigmoid_bend(b: Builder, x: Value, y: Value, to: str) -> Value:
    """s (1 - s) (1 - 2s)."""
    return b.mul(y, _one_minus(b, _twice(b, b.short_sigmoid(x, to=to))))


def _silu_bend(b: Builder, x: Value, y: Value, to: str) -> Value:
    """s (1 - s) (2 + x (1 - 2s))."""
    flat = _one_minus(b, _twice(b, b.short_sigmoid(x, to=to)))
    turn = b.add(b.scalar(2, like=x), b.mul(_within(b, x), flat))
    return b.mul(b.short_sigmoid_slope(x, to=to), turn)


def _mish_bend(b: Builder, x: Value, y: Value, to: str) -> Value:
    """q (1 - s - 2 t s), t the gate and q its slope."""
    s = b.short_sigmoid(x, to=to)
    return b.mul(y, b.sub(_one_minus(b, s), b.mul(_twice(b, b.short_mish_gate(x, to=to)), s)))


def _mish_turn(b: Builder, x: Value, y: Value, to: str) -> Value:
    """q (2 + x (1 - s - 2 t s)): see `_mish_bend`."""
    q = b.short_mish_slope(x, to=to)
    return b.add(_twice(b, q), b.mul(_within(b, x), _mish_bend(b, x, q, to)))


def _gelu_bend(b: Builder, x: Value, y: Value, to: str) -> Value:
    """(2 - x^2) times the density."""
    x = _within(b, x)
    return b.mul(b.sub(b.scalar(2, like=x), b.mul(x, x)), b.short_normal_pdf(x, to=to))


def _normal_pdf(x: Array) -> Array:
    return np.exp(-0.5 * x * x) * (1 / math.sqrt(2 * math.pi))


def _mish_gate(x: Array) -> Array:
    return np.tanh(S.softplus(x))


def _mish_slope(x: Array) -> Array:
    w = np.exp(-np.abs(x))  # (1 less the gate's square keeps nothing where that is near 1)
    rising = 4 * w * (1 + w) / (w * w + 2 * w + 2) ** 2
    return np.where(x < 0, rising, 4 * w * w * (1 + w) / (1 + 2 * w + 2 * w * w) ** 2)


def _silu_slope(x: Array) -> Array:
    x = _settled(x)
    return S.sigmoid(x) * (1 + x * S.sigmoid(-x))


def _gelu_slope(x: Array) -> Array:
    x = _settled(x)
    return 0.5 * S.erfc(-x / math.sqrt(2)) + x * _normal_pdf(x)


def _mish_derivative(x: Array) -> Array:
    x = _settled(x)
    return _mish_gate(x) + x * _mish_slope(x)


def _settled(x: Array) -> Array:
    """x for what changes no more beyond +-100, where an infinity would meet a 0."""
    return np.clip(x, -100, 100)


_define("short_exp", "e to the power of each element.", np.exp, lambda b, x, y, to: y)
_define("short_sigmoid", "1 / (1 + exp(-input)).", S.sigmoid,
        lambda b, x, y, to: b.short_sigmoid_slope(x, to=to))
_define("short_sigmoid_slope", "The derivative of sigmoid; 0 above 64 within 2^-92.",
        lambda x: S.sigmoid(x) * S.sigmoid(-x), _sigmoid_bend)
_define("short_silu_slope", "The derivative of x sigmoid(x).", _silu_slope, _silu_bend)
_define("short_softplus", "log(1 + exp(input)).", S.softplus,
        lambda b, x, y, to: b.short_sigmoid(x, to=to))
_define("short_normal_cdf", "The normal distribution function.",
        lambda x: 0.5 * S.erfc(-x / math.sqrt(2)),
        lambda b, x, y, to: b.short_normal_pdf(x, to=to))
_define("short_normal_pdf", "The density of the normal distribution.", _normal_pdf,
        lambda b, x, y, to: b.neg(b.mul(x, y)))
_define("short_gelu_slope", "The derivative of gelu (through erf).", _gelu_slope, _gelu_bend)
_define("short_mish_gate", "tanh(log(1 + exp(input))).", _mish_gate,
        lambda b, x, y, to: b.short_mish_slope(x, to=to))
_define("short_mish_slope", "The derivative of tanh(log(1 + exp(input))).", _mish_slope, _mish_bend)
_define("short_mish_derivative", "The derivative of x tanh(log(1 + exp(x))).",
        _mish_derivative, _mish_turn)
