"""Ops that walk along an axis, in the form in which kernels of all back ends take them."""

from __future__ import annotations

from typing import Any

from cellc_runtime.dtypes import DType
from cellc_runtime.records import dataclass

from ..ir.graph import Node
from ..ir.types import normalize_axis, prod
from ..loops.expr import Expr
from .llvm import reduction, scalar
from .llvm.text import Function, V

RUNNING = {"cumsum": "sum", "cumprod": "prod", "cummax": "max", "cummin": "min",
           "logcumsumexp": "logsumexp", "linear_recurrence": "linear"}
"""Kinds of running reductions, by op."""


@dataclass(frozen=True, slots=True)
class Running:
    """A running reduction of x[outer, n, inner] along n."""

    # sum, prod, max, min, logsumexp or linear (y[i] = a[i] * y[i-1] + x[i]); max and min give the
    # int32 position too (the last of equal extremes; the first NaN, which stays)
    kind: str
    outer: int
    n: int
    inner: int
    exclusive: bool  # element i is the reduction of those before it (sum and prod only)
    reverse: bool  # walk from the end
    dtype: DType  # a real dtype


def running_form(node: Node) -> dict[str, Any]:
    """The attributes of a node's `Running`."""
    x, attrs = node.operands[0], node.attrs
    k = normalize_axis(attrs["axis"], len(x.shape))
    return {"kind": RUNNING[node.op], "outer": prod(x.shape[:k]), "n": x.shape[k],
            "inner": prod(x.shape[k + 1:]), "exclusive": attrs.get("exclusive", False),
            "reverse": attrs.get("reverse", False), "dtype": x.dtype}


@dataclass(frozen=True, slots=True)
class Scatter:
    """A scatter: x is [batch, outer, extent, inner]."""

    batch: int  # matrices with positions of their own
    # outer, extent, inner: size before, along and after the addressed axis
    outer: int
    extent: int
    count: int  # positions along the axis
    inner: int
    per_element: bool  # indices are [batch, outer, count, inner]; else [batch, count]
    mode: str  # update, add, sub, mul, div, max or min
    dtype: DType  # element type of input and updates
    index_dtype: DType  # an integer type


def scatter_form(node: Node) -> dict[str, Any]:
    """The attributes of a node's `Scatter`."""
    x, indices, _ = (v.type for v in node.operands)
    k, batch = normalize_axis(node.attrs["axis"], x.rank), node.attrs.get("batch_dims", 0)
    lines = node.op == "scatter_lines"
    return {"batch": prod(x.dims[:batch]), "outer": prod(x.dims[batch:k]), "extent": x.dims[k],
            "count": indices.dims[k] if lines else prod(indices.dims[batch:]),
            "inner": prod(x.dims[k + 1:]), "per_element": lines, "mode": node.attrs["mode"],
            "dtype": x.dtype, "index_dtype": indices.dtype}


def updated(f: Function, mode: str, dtype: DType, old: V, update: V) -> V:
    """An element with an update taken in, in register types. Of equal ones (zeros of two signs) the
    old one stays, and of two NaN."""
    if mode in ("max", "min"):
        return reduction.combine(f, mode, dtype, [old], [update])[0]
    return scalar.compute(f, Expr(mode, (), dtype), [old, update])
