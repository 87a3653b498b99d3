"""Conversions of element type; making and taking apart complex tensors.

Arithmetic on complex tensors is in the elementwise ops. Cotangents of complex values are
dL/dRe + i dL/dIm.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cellc_runtime import dtypes as dt
from cellc_runtime.dtypes import DType, part_dtype

from ..ir import attributes as attr
from ..ir.graph import Builder, Node
from ..ir.op import ANY, COMPLEX, FLOATS, INTS, Array, Op, Sample, Spec
from ..ir.types import TensorType
from ..loops import expr as E
from ..loops.expr import ComplexExpr, Expr, Reader
from ..loops.index import Index
from . import _batch_axis, _identities
from . import _complex as C
from ._complex import Element
from ._members import Grads, case, define, no_gradient
from .batching import pointwise
from .elementwise import Binary, Unary, both, check_dtype


def convert(x: Element, dtype: DType) -> Element:
    """An element as another dtype; complex to real keeps the real part."""
    part = part_dtype(dtype)
    if not isinstance(x, ComplexExpr):
        real = E.cast(x, part)
        return ComplexExpr(real, E.const(0, part)) if dtype.is_complex else real
    if dtype.is_complex:
        return ComplexExpr(E.cast(x.re, part), E.cast(x.im, part))
    if dtype is dt.bool_:
        return x.re.ne(0) | x.im.ne(0)
    return E.cast(x.re, dtype)


class Cast(Op):
    """The same values as another element type. Source: `mindspore.ops.cast`.

    Attributes:
        dtype: the new element type.

    Floats round to nearest even; to an integer they truncate; integers wrap; to bool is != 0
    (NaN is true); complex to real keeps the real part. An out-of-range float to an integer gives
    what `backends.llvm.convert` documents.
    """

    name = "cast"
    simplify = _identities.same_type
    batch_axis = _batch_axis.aligned
    cost = "cheap"
    exact = True
    attrs = {"dtype": attr.element_type()}
    dtypes = ANY
    batch = pointwise
    elementwise = True

    def infer(self, x: TensorType, *, dtype: DType) -> TensorType:
        return x.with_dtype(dtype)

    def value(self, r: Reader, idx: tuple[Index, ...]) -> Element:
        return convert(r.read(0, idx), r.attrs["dtype"])

    def reference(self, x: Array, *, dtype: DType) -> Array:
        if np.iscomplexobj(x) and not dtype.is_complex:
            return (x != 0) if dtype is dt.bool_ else x.real.astype(dtype.numpy)
        if dtype is dt.uint32 and x.dtype.kind in "fV":  # numpy's vectors have bits of their own
            x = x.astype(np.int64)
        return x.astype(dtype.numpy)

    def gradient(self, b: Builder, node: Node, dys: Grads) -> Grads:
        source = node.operands[0].dtype
        target = node.attrs["dtype"]
        if not (source.is_inexact and target.is_inexact) and not (
            source.is_integer and (target.is_inexact or target.is_integer)
        ):  # (rounding has no gradient; that of integers is an integer)
            return [None]
        return [b.cast(dys[0], dtype=source)]

    def samples(self) -> Sequence[Sample]:
        x = Spec((3, 23), 0, 100)
        # A narrowing conversion rounds, which finite differences would see.
        smooth = (dt.float64, dt.complex128)
        every = tuple(Sample((x,), {"dtype": d}, grad=d in smooth) for d in ANY)
        return (*every, Sample((Spec((0,)),), {"dtype": dt.int8}, grad=False))


class Bitcast(Op):
    """The same bits as another element type of the same size. Source: `mindspore.ops.bitcast`.

    Attributes:
        dtype: the new element type, real, of equal item size (else TypeError).
    """

    name = "bitcast"
    attrs = {"dtype": attr.element_type()}
    dtypes = FLOATS + INTS
    differentiable = False
    batch = pointwise
    elementwise = True
    gradient = no_gradient

    def infer(self, x: TensorType, *, dtype: DType) -> TensorType:
        check_dtype(self, x)
        if dtype not in self.dtypes or dtype.itemsize != x.dtype.itemsize:
            raise TypeError(f"cannot view the bits of {x} as {dtype.name}")
        return x.with_dtype(dtype)

    def value(self, r: Reader, idx: tuple[Index, ...]) -> Expr:
        return E.bitcast(r.read(0, idx), r.attrs["dtype"])

    def reference(self, x: Array, *, dtype: DType) -> Array:
        size = dtype.itemsize
        if x.dtype.itemsize != size:  # a float held in float64 by the precise interpreter
            narrow: Any = np.float32 if size == 4 else np.float16
            x = x.astype(narrow)
        return np.ascontiguousarray(x).view(dtype.numpy).reshape(x.shape)

    def samples(self) -> Sequence[Sample]:
        return (case(Spec((4, 9), dtype=dt.float32), dtype=dt.int32, grad=False),
                case(Spec((5,), dtype=dt.int64), dtype=dt.float64, grad=False),
                case(Spec((7,), dtype=dt.uint16), dtype=dt.float16, grad=False))


# --- complex numbers ------------------------------------------------------------------------------


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
        return part_dtype(dtype)


define(_Part, "real", "The real part. Source: `mindspore.ops.real`.", np.real,
       lambda b, dy, x, y: b.make_complex(dy, b.scalar(0, like=y)),
       scalar=lambda self, x: x.re, primitive="Real", cost="cheap")


define(_Part, "imag", "The imaginary part. Source: `mindspore.ops.imag`.", np.imag,
       lambda b, dy, x, y: b.make_complex(b.scalar(0, like=y), dy),
       scalar=lambda self, x: x.im, primitive="Imag", cost="cheap")


define(Unary, "conj", "The complex conjugate. Source: `mindspore.ops.conj`.", np.conj,
       lambda b, dy, x, y: b.conj(dy), scalar=lambda self, x: ComplexExpr(x.re, -x.im),
       primitive="Conj", cost="cheap", dtypes=COMPLEX, __module__=__name__)


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
        return (case(Spec((3, 5), 0.5, 2)), case(Spec((9,), 0.5, 2)), case((0,)))
