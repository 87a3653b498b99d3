"""Matrix products: the GEMM family."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cellc_runtime.dtypes import DType
from cellc_runtime.lazy import lazy_imports
from cellc_runtime.target import Target

from ....ir.dims import estimate
from ....ir.graph import Node
from ....ir.types import batch_strides, prod
from ....loops.order import always_one_segment, product_segment, segment_or_whole
from ....lower import precompute
from ....lower.plan import KernelPlan, operand, result
from .table import adopt, lowers, with_epilogue

if TYPE_CHECKING:
    from ...llvm.text import Function, V
    from ..nests.epilogue import Fused
with lazy_imports(__name__):  # kernel families load when one is generated
    from ...llvm import convert
    from ..kernels.gemm import product as gemm
    from ..kernels.gemm import small

_FETCHED_BYTES = 1 << 18  # A smaller operand of an epilogue is likely to be near


def _tile_epilogue(fused: Fused, n: int, target: Target) -> gemm.Epilogue:
    """A fused expression as the GEMM family takes it: rows count over the batch."""

    def emit(f: Function, acc: V, row: V, col: V, lanes: int, mask: V | None) -> V:
        flat = row * n + col
        out = fused.emit(f, target, acc, flat, col, lanes, mask)
        return convert.exact_to_memory(f, out, fused.roots[0].dtype)

    near = tuple(i for i, v in enumerate(fused.operands)
                 if v.type.nbytes == fused.source.type.nbytes
                 and estimate(v.type.nbytes) >= _FETCHED_BYTES
                 and fused.elementwise(v))
    return gemm.Epilogue(fused.key, emit, fused.buffers, fused.replaces, len(fused.roots) > 1, near)


def segment_of(n: int, k: int, dtype: DType) -> int:
    """k per segment of a product with n columns, by the element type; exact sums need none."""
    if dtype.is_integer:
        return 0
    itemsize = max(dtype.itemsize, 4)
    if always_one_segment(k, itemsize):
        return 0
    if type(n) is int and type(k) is int:
        return product_segment(n, k, itemsize)
    return segment_or_whole(n, k, itemsize)


def matmul_spec(node: Node, epilogue: gemm.Epilogue | None = None,
                stored: DType | None = None) -> gemm.MatmulSpec:
    """The product a matmul node computes, as the GEMM family takes it; an epilogue may store
    another type."""
    x, y, out = node.operands[0].shape, node.operands[1].shape, node.result.shape
    y = (*node.attrs.get("batch", y[:-2]), *y[-2:])
    ta, tb = node.attrs["transpose_a"], node.attrs["transpose_b"]
    k, dtype = x[-2] if ta else x[-1], node.operands[0].dtype
    return gemm.MatmulSpec(
        m=out[-2], n=out[-1], k=k, dtype=dtype,
        batch=out[:-2], a_batch_strides=batch_strides(x[:-2], out[:-2]),
        b_batch_strides=batch_strides(y[:-2], out[:-2]), trans_a=ta, trans_b=tb,
        out_dtype=stored, epilogue=epilogue, segment=segment_of(out[-1], k, dtype),
        b_constant=precompute.prepacks(node.operands[1]),
        b_pitch=y[-2] * y[-1] if "rows" in node.attrs else 0,
        stored=None if node.operands[1].dtype is dtype else node.operands[1].dtype,
    )


@lowers("matmul")
@lowers("matmul_prefix")
@with_epilogue("matmul")
def matmul(node: Node, target: Target, epilogue: Fused | None = None) -> KernelPlan:
    """The GEMM kernels; `epilogue` is applied to accumulators before the store."""
    n = node.result.shape[-1]
    spec = matmul_spec(node)
    if epilogue is not None:
        spec = matmul_spec(node, _tile_epilogue(epilogue, n, target), epilogue.roots[0].dtype)
    return adopt(gemm.matmul_kernels(spec, target),
                 {"a": operand(0), "b": operand(1), "out": result(0)})


@lowers("dequantized_matmul")
def dequantized_matmul(node: Node, target: Target) -> KernelPlan:
    """Weights of few bits, widened in registers or a panel at a time."""
    x, w, *scales = (v.type for v in node.operands)
    p = small.SmallProduct(prod(x.dims[:-1]), node.attrs["columns"], x.dims[-1],
                           node.attrs["group"], w.dtype, tuple(s.dtype for s in scales))
    names = {"x": operand(0), "w": operand(1), "out": result(0)}
    names |= {f"scale{i}": operand(2 + i) for i in range(len(scales))}
    return adopt(small.small_kernels(p, target), names)
