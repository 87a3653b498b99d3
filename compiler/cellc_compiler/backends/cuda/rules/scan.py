"""Running reductions, in runs."""

from __future__ import annotations

from cellc_runtime.target import Target

from ....ir.graph import Node
from ....ir.types import normalize_axis, prod
from ....lower.plan import KernelPlan
from ..kernels.scan import Scan
from .table import lowers

_KINDS = {"cumsum": "sum", "cumprod": "prod", "cummax": "max", "cummin": "min",
          "logcumsumexp": "logsumexp", "linear_recurrence": "linear"}


def running(node: Node, target: Target) -> KernelPlan:
    """Running sums, products, extremes and their places, logarithms of sums of exponentials, and
    y[i] = factor[i] * y[i-1] + input[i]."""
    x, a = node.operands[0], node.attrs
    k = normalize_axis(a["axis"], len(x.shape))
    return Scan(_KINDS[node.op], prod(x.shape[:k]), x.shape[k], prod(x.shape[k + 1:]),
                a.get("exclusive", False), a.get("reverse", False), x.dtype).plan(target)


for _op in _KINDS:
    lowers(_op)(running)
