"""Convolutions and pools of NCHW images, and their adjoints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cellc_runtime.lazy import lazy_imports
from cellc_runtime.target import Target

from ....ir.dims import estimate
from ....ir.graph import Node
from ....ir.types import TensorType
from ....lower.plan import KernelPlan, Step, epilogue_operand, operand, result
from ....ops.winograd import Tiles, tiles_of
from .table import adopt, lowers, with_epilogue

if TYPE_CHECKING:
    from ...llvm.text import Function, V
    from ..kernels.conv import taps
    from ..nests.epilogue import Fused
with lazy_imports(__name__):  # kernel families load when one is generated
    from ..kernels import pool, scatter, winograd
    from ..kernels.conv import plans as families
    from ..kernels.gemm import product as gemm


def conv_spec(x: TensorType, w: TensorType, attrs: dict[str, Any]) -> families.ConvSpec:
    """The kernel family's description of `conv2d(x, w)`."""
    (n, c, h, width), (oc, _, kh, kw) = x.dims, w.dims
    return families.ConvSpec(n, c, h, width, oc, kh, kw, attrs["stride"], attrs["dilation"],
                             attrs["pads"], attrs["groups"], x.dtype)


def tile_epilogue(fused: Fused, target: Target) -> taps.Epilogue:
    """A fused expression as the convolution family takes it."""

    def emit(f: Function, acc: V, channel: V, at: V, lanes: int, mask: V | None) -> V:
        return fused.emit(f, target, acc, at, channel, lanes, mask)

    return emit


def is_pointwise(spec: families.ConvSpec) -> bool:
    """Whether a convolution is a matrix product over channels at each pixel.

    The chain over input channels is the same, so this is a choice of speed alone; a handful of
    pixels is better served by the convolution kernels.
    """
    return (
        (spec.kh, spec.kw) == (1, 1) and spec.stride == (1, 1) and spec.groups == 1
        and not any(spec.pads) and estimate(spec.h * spec.w) >= 16
    )


def _pointwise_plan(spec: families.ConvSpec, target: Target, fused: Fused | None) -> KernelPlan:
    """out[image] = w @ x[image], over [oc, c] and [c, pixels]."""
    pixels = spec.h * spec.w

    def emit(f: Function, acc: V, row: V, col: V, lanes: int, mask: V | None) -> V:
        assert fused is not None
        channel = row % spec.oc if spec.n != 1 else row
        flat = row * pixels + col
        return fused.emit(f, target, acc, flat, channel, lanes, mask)

    epilogue = None if fused is None else gemm.Epilogue(fused.key, emit, fused.buffers)
    return _product(spec, target, spec.oc, spec.c, epilogue=epilogue)


def _product(spec: families.ConvSpec, target: Target, m: int, k: int, **given: Any) -> KernelPlan:
    """The product of the weights, the same for all, and [k, pixels] of each image."""
    product = gemm.MatmulSpec(m=m, n=spec.h * spec.w, k=k, dtype=spec.dtype, batch=(spec.n,),
                              a_batch_strides=(0,), b_batch_strides=(1,), **given)
    return adopt(gemm.matmul_kernels(product, target),
                 {"a": operand(1), "b": operand(0), "out": result(0)})


@lowers("conv2d")
@with_epilogue("conv2d")
def conv2d(node: Node, target: Target, epilogue: Fused | None = None) -> KernelPlan:
    """Convolution kernels; `epilogue` is applied to accumulators before the store."""
    spec = conv_spec(node.operands[0].type, node.operands[1].type, node.attrs)
    if is_pointwise(spec):
        return _pointwise_plan(spec, target, epilogue)
    if epilogue is None:
        plan = families.conv_forward(spec, target)
    else:
        extra = len(epilogue.operands)
        plan = families.conv_forward(spec, target, tile_epilogue(epilogue, target), extra)
    return adopt(plan, {"x": operand(0), "w": operand(1), "out": result(0)})


@lowers("conv2d_backward_data")
def conv2d_backward_data(node: Node, target: Target) -> KernelPlan:
    """The adjoint in the image."""
    spec = conv_spec(node.result.type, node.operands[1].type, node.attrs)
    if is_pointwise(spec):
        # dx[image] = w.T @ dy[image], over [c, oc] and [oc, pixels]: the chain over output channels
        # that the convolution kernels have.
        return _product(spec, target, spec.c, spec.oc, trans_a=True)
    names = {"dy": operand(0), "w": operand(1), "out": result(0)}
    return adopt(families.conv_backward_data(spec, target), names)


@lowers("conv2d_backward_weight")
def conv2d_backward_weight(node: Node, target: Target) -> KernelPlan:
    """The adjoint in the weights."""
    x = node.operands[0]
    if x.shape[0] == 0:
        zeros = scatter.fill_kernel(node.result.type.nbytes, target)
        return KernelPlan((Step(zeros, (result(0),)),))
    spec = conv_spec(x.type, node.result.type, node.attrs)
    return adopt(families.conv_backward_weight(spec, target),
                 {"x": operand(0), "dy": operand(1), "out": result(0)})


# --- Winograd's transformations -------------------------------------------------------------------


@lowers("winograd_input")
def winograd_input(node: Node, target: Target) -> KernelPlan:
    """Patches of the image."""
    (x,), pads = node.operands, node.attrs["pads"]
    _, channels, h, w = x.shape
    kernel = winograd.input_kernel(
        tiles_of(x.type, pads), channels, (h, w), (pads[0], pads[2]), target)
    return KernelPlan((Step(kernel, (operand(0), result(0))),))


@lowers("winograd_output")
@with_epilogue("winograd_output")
def winograd_output(node: Node, target: Target, epilogue: Fused | None = None) -> KernelPlan:
    """The kernel; `epilogue` is applied to outputs before the store."""
    n, channels, h, w = node.result.shape
    tiles = Tiles(n, h, w)
    if epilogue is None:
        kernel = winograd.output_kernel(tiles, channels, target)
        return KernelPlan((Step(kernel, (operand(0), result(0))),))
    extra = len(epilogue.operands)
    kernel = winograd.output_kernel(tiles, channels, target, tile_epilogue(epilogue, target), extra)
    roles = (operand(0), result(0), result(0), *map(epilogue_operand, range(extra)))
    return KernelPlan((Step(kernel, roles),))


# --- maximum and average pools, sliding and adaptive, with their adjoints -------------------------


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
    """Return the divisor of an average; adaptive windows have no attributes for it."""
    return node.attrs.get("count_include_pad", True), node.attrs.get("divisor")


@lowers("max_pool2d")
@lowers("adaptive_max_pool2d")
def max_pool2d(node: Node, target: Target) -> KernelPlan:
    """Maxima, and their places if they are requested."""
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
