"""Ops that walk lines of a tensor in order: running reductions, sorts, scatters, long joins."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cellc_runtime.lazy import lazy_module
from cellc_runtime.target import Target

from ....ir.graph import Node
from ....ir.types import normalize_axis, prod
from ....lower.plan import KernelPlan
from .table import lowers

if TYPE_CHECKING:
    from ..kernels import concat, cumulative, scatter, sort
else:  # kernel families load when one is generated
    cumulative, concat, scatter, sort = (
        lazy_module(f"cellc_compiler.backends.cpu.kernels.{name}")
        for name in ("cumulative", "concat", "scatter", "sort"))


_RUNNING = {"cumsum": "sum", "cumprod": "prod", "cummax": "max", "cummin": "min",
            "logcumsumexp": "logsumexp", "linear_recurrence": "linear"}


def running(node: Node, target: Target) -> KernelPlan:
    """Running sums, products, extremes and their places, logarithms of sums of exponentials, and
    y[i] = factor[i] * y[i-1] + input[i]."""
    dims, attrs = node.operands[0].shape, node.attrs
    k = normalize_axis(attrs["axis"], len(dims))
    return cumulative.cumulative_kernels(cumulative.CumulativeSpec(
        _RUNNING[node.op], prod(dims[:k]), dims[k], prod(dims[k + 1:]),
        attrs.get("exclusive", False), attrs.get("reverse", False),
        node.operands[0].dtype), target)


for _op in _RUNNING:
    lowers(_op)(running)


@lowers("sort_lines")
def sort_lines(node: Node, target: Target) -> KernelPlan:
    """The last axis in order, with positions."""
    ty = node.operands[0].type
    lines = prod(ty.dims[:-1])
    spec = sort.SortSpec(lines, ty.dims[-1], ty.dtype, node.attrs["descending"])
    return sort.sort_kernels(spec, target)


@lowers("join_copy")
def join_copy(node: Node, target: Target) -> KernelPlan:
    """Parts copied behind one another."""
    out = node.result.type
    k = normalize_axis(node.attrs["axis"], out.rank)
    runs = [prod(v.shape[k:]) for v in node.operands]
    return concat.concat_kernels(prod(out.dims[:k]), runs, out.dtype.itemsize, target)


@lowers("scatter")
@lowers("scatter_lines")
def scattered(node: Node, target: Target) -> KernelPlan:
    """Slices, or the elements of lines, to run-time positions."""
    x, indices, _ = (v.type for v in node.operands)
    k, batch = normalize_axis(node.attrs["axis"], x.rank), node.attrs.get("batch_dims", 0)
    lines = node.op == "scatter_lines"
    return scatter.scatter_kernels(scatter.ScatterSpec(
        batch=prod(x.dims[:batch]), outer=prod(x.dims[batch:k]), extent=x.dims[k],
        count=indices.dims[k] if lines else prod(indices.dims[batch:]),
        inner=prod(x.dims[k + 1:]), per_element=lines, mode=node.attrs["mode"],
        dtype=x.dtype, index_dtype=indices.dtype), target)
