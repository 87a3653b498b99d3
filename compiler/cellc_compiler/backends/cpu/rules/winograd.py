"""The two transformations of images around Winograd's convolution."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cellc_runtime.lazy import lazy_module
from cellc_runtime.target import Target

from ....ir.graph import Node
from ....lower.plan import KernelPlan, Step, epilogue_operand, operand, result
from ....ops.winograd import Tiles, tiles_of
from .conv import tile_epilogue
from .table import lowers, with_epilogue

if TYPE_CHECKING:
    from ..kernels import winograd as kernels
    from ..nests.epilogue import Fused
else:  # kernel families load when one is generated
    kernels = lazy_module("cellc_compiler.backends.cpu.kernels.winograd")


@lowers("winograd_input")
def winograd_input(node: Node, target: Target) -> KernelPlan:
    """Patches of the image."""
    (x,), pads = node.operands, node.attrs["pads"]
    _, channels, h, w = x.shape
    kernel = kernels.input_kernel(
        tiles_of(x.type, pads), channels, (h, w), (pads[0], pads[2]), target)
    return KernelPlan((Step(kernel, (operand(0), result(0))),))


@lowers("winograd_output")
@with_epilogue("winograd_output")
def winograd_output(node: Node, target: Target, epilogue: Fused | None = None) -> KernelPlan:
    """The kernel; `epilogue` is applied to outputs before the store."""
    n, channels, h, w = node.result.shape
    tiles = Tiles(n, h, w)
    if epilogue is None:
        kernel = kernels.output_kernel(tiles, channels, target)
        return KernelPlan((Step(kernel, (operand(0), result(0))),))
    extra = len(epilogue.operands)
    kernel = kernels.output_kernel(
        tiles, channels, target, tile_epilogue(epilogue, target), extra
    )
    roles = (operand(0), result(0), result(0), *map(epilogue_operand, range(extra)))
    return KernelPlan((Step(kernel, roles),))
