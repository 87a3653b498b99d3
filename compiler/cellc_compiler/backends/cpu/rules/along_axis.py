"""Ops that walk lines of a tensor in order: running reductions, sorts, scatters, long joins."""

from __future__ import annotations

from cellc_runtime.lazy import lazy_imports
from cellc_runtime.target import Target

from ....ir.graph import Node
from ....ir.types import normalize_axis, prod
from ....lower.plan import KernelPlan
from ...along_axis import RUNNING, Running, Scatter, running_form, scatter_form
from .table import lowers

with lazy_imports(__name__):  # kernel families load when one is generated
    from ..kernels import concat, cumulative, scatter, sort


def running(node: Node, target: Target) -> KernelPlan:
    """Running sums, products, extremes and their places, logarithms of sums of exponentials, and
    y[i] = factor[i] * y[i-1] + input[i]."""
    return cumulative.cumulative_kernels(Running(**running_form(node)), target)


for _op in RUNNING:
    lowers(_op)(running)


@lowers("sort_lines")
def sort_lines(node: Node, target: Target) -> KernelPlan:
    """The last axis in order, with positions."""
    ty = node.operands[0].type
    lines = prod(ty.dims[:-1])
    spec = sort.SortSpec(lines, ty.dims[-1], ty.dtype, node.attrs["descending"],
                         node.results[0].type.dims[-1])
    return sort.sort_kernels(spec, target)


@lowers("join_copy")
def join_copy(node: Node, target: Target) -> KernelPlan:
    """Copy parts, one after the other."""
    out = node.result.type
    k = normalize_axis(node.attrs["axis"], out.rank)
    runs = [prod(v.shape[k:]) for v in node.operands]
    return concat.concat_kernels(prod(out.dims[:k]), runs, out.dtype.itemsize, target)


@lowers("scatter")
@lowers("scatter_lines")
def scattered(node: Node, target: Target) -> KernelPlan:
    """Slices, or the elements of lines, to run-time positions."""
    return scatter.scatter_kernels(Scatter(**scatter_form(node)), target)
