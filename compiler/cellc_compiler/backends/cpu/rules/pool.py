"""Maximum and average pools, sliding and adaptive, with their adjoints."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cellc_runtime.lazy import lazy_module
from cellc_runtime.target import Target

from ....ir.graph import Node
from ....ir.types import TensorType
from ....lower.plan import KernelPlan, operand, result
from .plans import adopt
from .table import lowers

if TYPE_CHECKING:
    from ..kernels import pool
else:  # kernel families load when one is generated
    pool = lazy_module("cellc_compiler.backends.cpu.kernels.pool")

_FORWARD = {"x": operand(0), "out": result(0), "indices": result(1)}
_MAX_BACKWARD = {"x": operand(0), "dy": operand(1), "out": result(0)}
_AVG_BACKWARD = {"dy": operand(0), "out": result(0)}


def _windows(x: TensorType, node: Node) -> pool.PoolSpec | pool.AdaptiveSpec:
    """The windows of a node, sliding or adaptive, over images of type `x`."""
    (n, c, h, w), a = x.dims, node.attrs
    if "output_size" in a:
        rows, columns = a["output_size"]
        return pool.AdaptiveSpec(n, c, h, w, rows, columns, x.dtype)
    return pool.PoolSpec(n, c, h, w, a["kernel"], a["stride"], a.get("dilation", (1, 1)),
                         a["pads"], a["ceil_mode"], x.dtype)


def _divisor(node: Node) -> tuple[bool, int | None]:
    """What an average divides by; adaptive windows say nothing."""
    return node.attrs.get("count_include_pad", True), node.attrs.get("divisor")


@lowers("max_pool2d")
@lowers("adaptive_max_pool2d")
def max_pool2d(node: Node, target: Target) -> KernelPlan:
    """Maxima, and their places if they are asked for."""
    spec = _windows(node.operands[0].type, node)
    return adopt(pool.max_pool(spec, target, node.attrs["indices"]), _FORWARD)


@lowers("max_pool2d_backward")
@lowers("adaptive_max_pool2d_backward")
def max_pool2d_backward(node: Node, target: Target) -> KernelPlan:
    """Each cotangent to the place of its maximum."""
    spec = _windows(node.operands[0].type, node)
    return adopt(pool.max_pool_backward(spec, target), _MAX_BACKWARD)


@lowers("avg_pool2d")
@lowers("adaptive_avg_pool2d")
def avg_pool2d(node: Node, target: Target) -> KernelPlan:
    """Averages."""
    spec = _windows(node.operands[0].type, node)
    return adopt(pool.avg_pool(spec, target, *_divisor(node)), _FORWARD)


@lowers("avg_pool2d_backward")
@lowers("adaptive_avg_pool2d_backward")
def avg_pool2d_backward(node: Node, target: Target) -> KernelPlan:
    """Each cotangent spread over its window."""
    spec = _windows(node.result.type, node)
    return adopt(pool.avg_pool_backward(spec, target, *_divisor(node)), _AVG_BACKWARD)
