"""Running reductions, in runs."""

from __future__ import annotations

from cellc_runtime.target import Target

from ....ir.graph import Node
from ....lower.plan import KernelPlan
from ...along_axis import RUNNING, running_form
from ..kernels.scan import Scan
from .table import lowers


def running(node: Node, target: Target) -> KernelPlan:
    """Running sums, products, extremes and their places, logarithms of sums of exponentials, and
    y[i] = factor[i] * y[i-1] + input[i]."""
    return Scan(**running_form(node)).plan(target)


for _op in RUNNING:
    lowers(_op)(running)
