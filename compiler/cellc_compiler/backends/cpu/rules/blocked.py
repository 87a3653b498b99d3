"""Images with blocked channels: reorders, convolutions and maximum pools."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cellc_runtime.lazy import lazy_imports
from cellc_runtime.target import Target

from ....ir.graph import Node
from ....lower.plan import (
    KernelPlan,
    Role,
    Step,
    epilogue_operand,
    operand,
    packed,
    result,
    scratch,
)
from .table import lowers, with_epilogue

if TYPE_CHECKING:
    from ..nests.epilogue import BlockFused
with lazy_imports(__name__):  # kernel families load when one is generated
    from ..kernels import pool_axes
    from ..kernels.blocked import conv, pack, pack_small, pool, regroup, tile

Border = tuple[int, int, int, int]
NONE: Border = (0, 0, 0, 0)


@lowers("to_blocked")
@with_epilogue("to_blocked")
def to_blocked(node: Node, target: Target, epilogue: BlockFused | None = None) -> KernelPlan:
    """NCHW to blocks, or NHWC, with the border of an `epilogue`."""
    x = node.operands[0].type
    if node.attrs["last"]:
        border = epilogue.border if epilogue else NONE
        kernel = pack.rows_to_blocked_kernel(x.dims, node.attrs["block"], border, x.dtype, target)
    else:
        kernel = pack.to_blocked_kernel(x.dims, node.attrs["block"], x.dtype, target)
    return KernelPlan((Step(kernel, (operand(0), result(0))),))


@lowers("from_blocked")
def from_blocked(node: Node, target: Target) -> KernelPlan:
    """Blocks to NCHW, or NHWC."""
    out = node.result.type
    make = pack.rows_from_blocked_kernel if node.attrs["last"] else pack.from_blocked_kernel
    kernel = make(node.operands[0].type.dims, out.dims, node.attrs["origin"], out.dtype, target)
    return KernelPlan((Step(kernel, (operand(0), result(0))),))


def problem(node: Node, border: Border) -> tile.BlockConv:
    """The kernel family's description of a `conv2d_blocked`, or a `small_conv2d_blocked`."""
    x, a = node.operands[0].type.dims, node.attrs
    oc, ic, kh, kw = a.get("kernel", node.operands[1].type.dims)
    oh, ow = a["size"]
    return tile.BlockConv(
        n=x[0], c=ic * a["groups"], oc=oc, bi=x[4], bo=a["block"], ph=x[2],
        pw=x[3], oh=oh, ow=ow, kh=kh, kw=kw, stride=a["stride"], dilation=a["dilation"],
        origin=a["origin"], border=border, groups=a["groups"], dtype=node.result.dtype,
        spread=a["spread"])


@lowers("conv2d_blocked")
@with_epilogue("conv2d_blocked")
def conv2d_blocked(node: Node, target: Target, epilogue: BlockFused | None = None) -> KernelPlan:
    """Packing of the weights and the convolution; `epilogue` is applied to accumulators."""
    p = problem(node, epilogue.border if epilogue else NONE)
    chosen = tile.choose_tile(p, target)
    given, role = node.operands[1].dtype, packed("w")
    step = Step(pack.pack_kernel(p, chosen.ov, given, target), (operand(1), role))
    return KernelPlan((step, _convolved(p, chosen, target, role, epilogue)),
                      {role: conv.packed_bytes(p)}, conv.packing(p, chosen.ov, given, role))


@lowers("small_conv2d_blocked")
@with_epilogue("small_conv2d_blocked")
def small_conv2d_blocked(
    node: Node, target: Target, epilogue: BlockFused | None = None
) -> KernelPlan:
    """The same; weights of few bits are packed in each call, for the packed ones would take the
    memory that they save."""
    p = problem(node, epilogue.border if epilogue else NONE)
    chosen = tile.choose_tile(p, target)
    _, w, *scales = (v.dtype for v in node.operands)
    kernel = pack_small.pack_kernel(p, chosen.ov, w, tuple(scales), node.attrs["group"], target)
    role = scratch("w")
    step = Step(kernel, (*map(operand, range(1, len(node.operands))), role))
    return KernelPlan((step, _convolved(p, chosen, target, role, epilogue)),
                      {role: conv.packed_bytes(p)})


def _convolved(
    p: tile.BlockConv, chosen: tile.Tile, target: Target, weights: Role,
    epilogue: BlockFused | None,
) -> Step:
    """The convolution by packed weights."""
    operands = epilogue.operands if epilogue else ()
    emit = epilogue.emitter(target) if epilogue else None
    kernel = conv.block_kernel(p, chosen, target, emit, len(operands))
    extra = map(epilogue_operand, range(len(operands)))
    return Step(kernel, (operand(0), weights, result(0), *extra))


@lowers("max_pool2d_blocked")
@with_epilogue("max_pool2d_blocked")
def max_pool2d_blocked(
    node: Node, target: Target, epilogue: BlockFused | None = None
) -> KernelPlan:
    """One kernel; of an `epilogue` it takes the border."""
    a = node.attrs
    return _pool(node, target, epilogue, pool_axes.sliding_axes(a["inner"][2:], a), False)


@lowers("avg_pool2d_blocked")
@with_epilogue("avg_pool2d_blocked")
def avg_pool2d_blocked(
    node: Node, target: Target, epilogue: BlockFused | None = None
) -> KernelPlan:
    """As `max_pool2d_blocked`."""
    a = node.attrs
    windows = pool_axes.sliding_axes(a["inner"][2:], a, a["count_include_pad"])
    return _pool(node, target, epilogue, pool_axes.average_axes(windows, a["divisor"]), True)


def _pool(
    node: Node, target: Target, epilogue: BlockFused | None,
    windows: tuple[pool_axes.Sliding, pool_axes.Sliding], average: bool,
) -> KernelPlan:
    x, border = node.operands[0].type, epilogue.border if epilogue else NONE
    kernel = pool.pool_kernel(
        x.dims, windows, node.attrs["inner"][:2], border, x.dtype, target, average)
    return KernelPlan((Step(kernel, (operand(0), result(0))),))


@lowers("pixel_sum_blocked")
def pixel_sum_blocked(node: Node, target: Target) -> KernelPlan:
    """One kernel."""
    x, a = node.operands[0].type, node.attrs
    kernel = pool.pixel_sum_kernel(x.dims, a["size"], a["origin"], x.dtype, target)
    return KernelPlan((Step(kernel, (operand(0), result(0))),))


@lowers("regroup_blocked")
@with_epilogue("regroup_blocked")
def regroup_blocked(node: Node, target: Target, epilogue: BlockFused | None = None) -> KernelPlan:
    """One kernel; of an `epilogue` it takes the border."""
    a, count = node.attrs, len(node.operands)
    moved = regroup.Regroup(
        [v.type.dims for v in node.operands], a["channels"], a["origins"], node.result.type.dims,
        (a["start"], a["stop"]), epilogue.border if epilogue else NONE, node.result.dtype)
    kernel = regroup.regroup_kernel(moved, target)
    return KernelPlan((Step(kernel, (*map(operand, range(count)), result(0))),))
