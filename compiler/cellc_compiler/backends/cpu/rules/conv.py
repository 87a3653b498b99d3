"""Convolutions of NCHW images and their adjoints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cellc_runtime.lazy import lazy_module
from cellc_runtime.target import Target

from ....ir.graph import Node
from ....ir.types import TensorType
from ....lower.plan import KernelPlan, Step, operand, result
from .plans import adopt
from .table import lowers, with_epilogue

if TYPE_CHECKING:
    from ...llvm.text import Function, V
    from ..kernels import scatter
    from ..kernels.conv import plans as families
    from ..kernels.conv import taps
    from ..kernels.gemm import product as gemm
    from ..nests.epilogue import Fused
else:  # kernel families load when one is generated
    families = lazy_module("cellc_compiler.backends.cpu.kernels.conv.plans")
    gemm = lazy_module("cellc_compiler.backends.cpu.kernels.gemm.product")
    scatter = lazy_module("cellc_compiler.backends.cpu.kernels.scatter")


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
        and not any(spec.pads) and spec.h * spec.w >= 16
    )


def _pointwise_plan(
    spec: families.ConvSpec, target: Target, fused: Fused | None
) -> KernelPlan:
    """out[image] = w @ x[image], over [oc, c] and [c, pixels]."""
    pixels = spec.h * spec.w

    def emit(f: Function, acc: V, row: V, col: V, lanes: int, mask: V | None) -> V:
        assert fused is not None
        channel = f.binary("urem", row, f.i64(spec.oc)) if spec.n > 1 else row
        flat = f.add(f.mul(row, f.i64(pixels)), col)
        return fused.emit(f, target, acc, flat, channel, lanes, mask)

    epilogue = None if fused is None else gemm.Epilogue(fused.key, emit, fused.buffers)
    return _product(spec, target, spec.oc, spec.c, epilogue=epilogue)


def _product(
    spec: families.ConvSpec, target: Target, m: int, k: int, **given: Any
) -> KernelPlan:
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
