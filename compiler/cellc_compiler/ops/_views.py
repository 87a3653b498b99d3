"""Helpers of view-like ops: conditions on indices, selects of any dtype, run-time positions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cellc_runtime import dtypes
from cellc_runtime.dtypes import DType

from ..ir.dims import surely_at_least
from ..ir.graph import Builder, Graph, Value
from ..ir.op import INTS, Array, Op
from ..ir.types import TensorType
from ..loops import expr as E
from ..loops.expr import ComplexExpr, Expr, Reader
from ..loops.index import Index

Element = Expr | ComplexExpr


def widened(*arrays: Array) -> list[Array]:
    """Reference arithmetic of 16-bit floats is done in float32, as numpy has no bfloat16."""
    return [a.astype(np.float32) if a.dtype.itemsize == 2 and a.dtype.kind not in "iu" else a
            for a in arrays]


class Composite(Op):
    """Base of compositions: the result types are those of the expansion."""

    def infer(self, *types: TensorType, **attrs: Any) -> TensorType | tuple[TensorType, ...]:
        graph = Graph("infer")
        args = [graph.add_input(t, f"x{i}") for i, t in enumerate(types)]
        assert self.expand is not None
        out = self.expand(Builder(graph), *args, **attrs)
        return out.type if isinstance(out, Value) else tuple(v.type for v in out)


def between(i: Index, lo: int, hi: int) -> Expr | None:
    """lo <= i < hi; None where the bounds of the index say it always holds."""
    least, most = i.bounds
    parts: list[Expr] = []
    if not surely_at_least(least, lo):
        parts.append(E.index_value(i).ge(lo))
    if not surely_at_least(hi - 1, most):
        parts.append(E.index_value(i).lt(hi))
    return both(parts)


def both(parts: Sequence[Expr | None]) -> Expr | None:
    """The conjunction of conditions; None stands for true."""
    out: Expr | None = None
    for part in parts:
        if part is not None:
            out = part if out is None else out & part
    return out


def select(cond: Expr | None, a: Element, b: Element) -> Element:
    """cond ? a : b for real or complex elements."""
    if cond is None:
        return a
    if isinstance(a, ComplexExpr) and isinstance(b, ComplexExpr):
        return ComplexExpr(E.where(cond, a.re, b.re), E.where(cond, a.im, b.im))
    assert isinstance(a, Expr) and isinstance(b, Expr)
    return E.where(cond, a, b)


def updated(
    r: Reader, idx: Sequence[Index], own: Sequence[Index], conds: Sequence[Expr | None]
) -> Element:
    """The element `own` of operand 1 where all conditions hold, else element `idx` of operand 0."""
    cond = both(conds)
    if cond is None:
        return r.read(1, tuple(own))
    return select(cond, r.read(1, tuple(own), where=cond), r.read(0, tuple(idx)))


def fill(dtype: DType, x: float | int | bool = 0) -> Element:
    """A constant element of any dtype."""
    if dtype.is_complex:
        part = dtypes.float32 if dtype is dtypes.complex64 else dtypes.float64
        return ComplexExpr(E.const(x, part), E.const(0, part))
    return E.const(x, dtype)


def position(index: Expr, extent: int) -> tuple[Index, Expr]:
    """A run-time position along an axis: the clamped index, and whether it is inside.

    Negative positions count from the end.
    """
    i = E.cast(index, dtypes.int64)
    wrapped = E.where(i.lt(0), i + extent, i)
    return E.dynamic_index(wrapped, extent), wrapped.ge(0) & wrapped.lt(extent)


def read_position(r: Reader, k: int, idx: tuple[Index, ...], extent: int) -> tuple[Index, Expr]:
    """`position` of operand `k`'s element at `idx`."""
    return position(r.read(k, idx), extent)


def check_indices(name: str, t: TensorType) -> None:
    """Positions must be integers. Raises TypeError if they are not."""
    if t.dtype not in INTS:
        raise TypeError(f"{name} needs indices of an integer dtype, got {t}")


def crop(b: Builder, x: Value, axis: int, start: int, stop: int) -> Value:
    """x[..., start:stop, ...] along one axis."""
    dims = x.shape
    begin = tuple(start if k == axis else 0 for k in range(len(dims)))
    end = tuple(stop if k == axis else d for k, d in enumerate(dims))
    return b.slice(x, start=begin, stop=end)


def moved(b: Builder, x: Value, axis: int, by: int, value: float) -> Value:
    """x[i - by] along an axis, `value` where there is none."""
    low = tuple(by if k == axis else 0 for k in range(x.type.rank))
    return b.pad(x, low=low, high=tuple(-n for n in low), value=value)
