"""Maximum and average pools, sliding and adaptive, with their adjoints."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cellc_runtime.lazy import lazy_module
from cellc_runtime.target import Target

from ....ir.graph import Node
from ....ir.types import TensorType
from ....lower.plan import KernelPlan, operand, result
from .plans import EMPTY, adopt, zeros_plan
from .table import lowers

if TYPE_CHECKING:
    from ..kernels import pool
else:  # kernel families load when one is generated
    pool = lazy_module("cellc_compiler.backends.cpu.kernels.pool")

_FORWARD = {"x": operand(0), "out": result(0), "indices": result(1)}
_MAX_BACKWARD = {"x": operand(0), "dy": operand(1), "out": result(0)}
_AVG_BACKWARD = {"dy": operand(0), "out": result(0)}


def _sliding(x: TensorType, node: Node) -> pool.PoolSpec:
    """The sliding windows of a node over images of type `x`."""
    (n, c, h, w), a = x.dims, node.attrs
    return pool.PoolSpec(n, c, h, w, a["kernel"], a["stride"], a.get("dilation", (1, 1)),
                         a["pads"], a["ceil_mode"], x.dtype)


def _adaptive(x: TensorType, node: Node) -> pool.AdaptiveSpec:
    """The adaptive windows of a node over images of type `x`."""
    n, c, h, w = x.dims
    rows, columns = node.attrs["output_size"]
    return pool.AdaptiveSpec(n, c, h, w, rows, columns, x.dtype)


@lowers("max_pool2d")
def max_pool2d(node: Node, target: Target) -> KernelPlan:
    """Maxima, and their places if they are asked for."""
    x = node.operands[0].type
    if x.size == 0:
        return EMPTY
    return adopt(pool.max_pool(_sliding(x, node), target, node.attrs["indices"]), _FORWARD)


@lowers("adaptive_max_pool2d")
def adaptive_max_pool2d(node: Node, target: Target) -> KernelPlan:
    """The same over adaptive windows."""
    x = node.operands[0].type
    if x.size == 0:
        return EMPTY
    spec = _adaptive(x, node)
    return adopt(pool.adaptive_max_pool(spec, target, node.attrs["indices"]), _FORWARD)


@lowers("max_pool2d_backward")
def max_pool2d_backward(node: Node, target: Target) -> KernelPlan:
    """Each cotangent to the place of its maximum."""
    x = node.operands[0].type
    if x.size == 0:
        return EMPTY
    return adopt(pool.max_pool_backward(_sliding(x, node), target), _MAX_BACKWARD)


@lowers("adaptive_max_pool2d_backward")
def adaptive_max_pool2d_backward(node: Node, target: Target) -> KernelPlan:
    """The same over adaptive windows."""
    x = node.operands[0].type
    if x.size == 0:
        return EMPTY
    return adopt(pool.adaptive_max_pool_backward(_adaptive(x, node), target), _MAX_BACKWARD)


@lowers("avg_pool2d")
def avg_pool2d(node: Node, target: Target) -> KernelPlan:
    """Averages."""
    x, a = node.operands[0].type, node.attrs
    if x.size == 0:
        return EMPTY
    return adopt(pool.avg_pool(_sliding(x, node), target, a["count_include_pad"], a["divisor"]),
                 _FORWARD)


@lowers("adaptive_avg_pool2d")
def adaptive_avg_pool2d(node: Node, target: Target) -> KernelPlan:
    """The same over adaptive windows."""
    x = node.operands[0].type
    if x.size == 0:
        return EMPTY
    return adopt(pool.adaptive_avg_pool(_adaptive(x, node), target), _FORWARD)


@lowers("avg_pool2d_backward")
def avg_pool2d_backward(node: Node, target: Target) -> KernelPlan:
    """Each cotangent spread over its window."""
    out, a = node.result.type, node.attrs
    if out.size == 0:
        return zeros_plan(out, target)
    return adopt(pool.avg_pool_backward(_sliding(out, node), target, a["count_include_pad"],
                                        a["divisor"]), _AVG_BACKWARD)


@lowers("adaptive_avg_pool2d_backward")
def adaptive_avg_pool2d_backward(node: Node, target: Target) -> KernelPlan:
    """The same over adaptive windows."""
    out = node.result.type
    if out.size == 0:
        return zeros_plan(out, target)
    return adopt(pool.adaptive_avg_pool_backward(_adaptive(out, node), target), _AVG_BACKWARD)
