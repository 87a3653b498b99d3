"""Making and taking apart complex tensors. Arithmetic on them is in the elementwise ops.

Cotangents of complex values are dL/dRe + i dL/dIm.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cellc_runtime import dtypes as dt
from cellc_runtime.dtypes import DType

from ..ir.graph import Builder, Node
from ..ir.op import COMPLEX, Array, Sample, Spec, register
from ..loops.expr import ComplexExpr, Expr
from . import _complex as C
from .elementwise import Binary, Grads, Unary, both


@register
class MakeComplex(Binary):
    """input + i other of two float tensors, broadcast. Source: `mindspore.ops.Complex`."""

    name = "make_complex"
    cost = "cheap"
    dtypes = (dt.float32, dt.float64)
    primitive = "Complex"

    def result_dtype(self, dtype: DType) -> DType:
        return dt.complex64 if dtype is dt.float32 else dt.complex128

    def scalar(self, a: Expr, b: Expr) -> ComplexExpr:
        return ComplexExpr(a, b)

    def reference(self, a: Array, b: Array) -> Array:
        a, b = np.broadcast_arrays(a, b)
        out = np.empty(a.shape, np.complex64 if a.dtype == np.float32 else np.complex128)
        out.real, out.imag = a, b  # a + 1j * b would make NaN of an infinite part
        return out

    def gradient(self, b: Builder, node: Node, dys: Grads) -> Grads:
        return both(b, node, b.real(dys[0]), b.imag(dys[0]))


class _Part(Unary):
    """Base: a real tensor from a complex one."""

    dtypes = COMPLEX

    def result_dtype(self, dtype: DType) -> DType:
        return C.part_dtype(dtype)


@register
class Real(_Part):
    """The real part. Source: `mindspore.ops.real`."""

    name = "real"
    cost = "cheap"
    primitive = "Real"

    def scalar(self, x: ComplexExpr) -> Expr:
        return x.re

    def reference(self, x: Array) -> Array:
        return np.real(x)

    def gradient(self, b: Builder, node: Node, dys: Grads) -> Grads:
        return [b.make_complex(dys[0], b.scalar(0, like=node.result))]


@register
class Imag(_Part):
    """The imaginary part. Source: `mindspore.ops.imag`."""

    name = "imag"
    cost = "cheap"
    primitive = "Imag"

    def scalar(self, x: ComplexExpr) -> Expr:
        return x.im

    def reference(self, x: Array) -> Array:
        return np.imag(x)

    def gradient(self, b: Builder, node: Node, dys: Grads) -> Grads:
        return [b.make_complex(b.scalar(0, like=node.result), dys[0])]


@register
class Conj(Unary):
    """The complex conjugate. Source: `mindspore.ops.conj`."""

    name = "conj"
    cost = "cheap"
    dtypes = COMPLEX
    primitive = "Conj"

    def scalar(self, x: ComplexExpr) -> ComplexExpr:
        return ComplexExpr(x.re, -x.im)

    def reference(self, x: Array) -> Array:
        return np.conj(x)

    def gradient(self, b: Builder, node: Node, dys: Grads) -> Grads:
        return [b.conj(dys[0])]


@register
class Angle(_Part):
    """The argument, radians in [-pi, pi]. Source: `mindspore.ops.angle`.

    The cotangent at 0 is NaN.
    """

    name = "angle"
    primitive = "Angle"

    def scalar(self, x: ComplexExpr) -> Expr:
        return C.argument(x)

    def reference(self, x: Array) -> Array:
        return np.arctan2(x.imag, x.real)

    def gradient(self, b: Builder, node: Node, dys: Grads) -> Grads:
        re, im = b.real(node.operands[0]), b.imag(node.operands[0])
        scale = b.div(dys[0], b.add(b.mul(re, re), b.mul(im, im)))
        return [b.make_complex(b.neg(b.mul(scale, im)), b.mul(scale, re))]

    def samples(self) -> Sequence[Sample]:
        return (Sample((Spec((3, 5), 0.5, 2),)), Sample((Spec((9,), 0.5, 2),)),
                Sample((Spec((0,)),)))
