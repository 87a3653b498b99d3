"""Products by tensor cores."""

from __future__ import annotations

from collections.abc import Sequence

from cellc_runtime import dtypes
from cellc_runtime.records import dataclass, replace
from cellc_runtime.target import Target

from ....ir.graph import Node
from ....ir.types import batch_strides, prod
from ....lower.plan import KernelPlan, Role, operand, result, scratch
from ..kernels.mma import mma_kernel
from ..kernels.operands import fits
from ..kernels.plans import step
from ..kernels.product import Epilogue
from ..kernels.repack import Repacked, repack
from ..kernels.tensor_core_tiles import TensorCoreProduct, added_segments
from ..kernels.wgmma import ARCHITECTURE, wgmma_kernel

LEAST_TURNED = 1024  # Rows that meet B, or columns that meet A, from which on it pays to turn it
MOST = 1 << 31  # Indices of rows, columns and tiles are below it


@dataclass(frozen=True, slots=True)
class ByTensorCores:
    """A product of matrices by tensor cores, and where its operands are; `before` turns operands:
    what is turned, from where to where."""

    product: TensorCoreProduct
    a: Role = operand(0)
    b: Role = operand(1)
    before: tuple[tuple[Repacked, Role, Role], ...] = ()

    def plan(
        self, target: Target, out: Sequence[Role], epilogue: Epilogue | None = None
    ) -> KernelPlan:
        """See `Fusable`."""
        turned = self._turned(target)
        p, before, sizes = turned.product, turned.before, turned.sizes()
        own = epilogue if p.segments == 1 else None
        code = wgmma_kernel(p, target, epilogue=own) or mma_kernel(p, target, epilogue=own)
        steps = [step(repack(r, target), (source, to)) for r, source, to in before]
        if p.segments == 1:
            return KernelPlan((*steps, step(code, (turned.a, turned.b, *out))), sizes)
        sums = scratch("sums")
        sizes[sums] = 4 * p.segments * p.elements
        added = step(added_segments(p, target, epilogue), (sums, *out))
        return KernelPlan((*steps, step(code, (turned.a, turned.b, sums)), added), sizes)

    def sizes(self) -> dict[Role, int]:
        """Bytes of what is turned."""
        return {to: r.elements * r.dtype.itemsize for r, _, to in self.before}

    def _turned(self, target: Target) -> ByTensorCores:
        """Operands of float32 along k, as `wgmma` wants them, where that pays."""
        p = self.product
        if p.dtype is not dtypes.float32 or target.cpu != ARCHITECTURE or p.k % 4 or p.n % 4:
            return self
        if (p.trans_a and p.n < LEAST_TURNED) or (not p.trans_b and p.m < LEAST_TURNED):
            return self
        before, roles = [], [self.a, self.b]
        for i, (turns, rows, strides) in enumerate((
                (p.trans_a, p.m, p.a_strides), (not p.trans_b, p.n, p.b_strides))):
            if turns:
                what = Repacked(p.matrices(strides), 1, p.k, rows, p.k, p.dtype)
                before.append((what, roles[i], scratch(f"turned_{roles[i]}")))
                roles[i] = before[-1][2]
        if not fits(r.elements for r, _, _ in before):
            return self
        along_k = replace(p, trans_a=False, trans_b=True)
        return ByTensorCores(along_k, roles[0], roles[1], tuple(before))


def tensor_core_plan(node: Node, target: Target, fast: bool = False) -> KernelPlan | None:
    """The kernels of a `matmul` of 16-bit floats; None for other types, empty operands, and sizes
    beyond what their indices hold.

    Args:
        node: of op `matmul`.
        target: an architecture, or its emulation.
        fast: whether float32 may be rounded to TF32, where the target does not say so.
    """
    p = product_of(node, fast or target.fast)
    return None if p is None else ByTensorCores(p).plan(target, [result(0)])


def product_of(node: Node, fast: bool = False) -> TensorCoreProduct | None:
    """Return the product of a `matmul`, if it is for tensor cores."""
    x, y, out = node.operands[0].shape, node.operands[1].shape, node.result.shape
    trans_a, trans_b = node.attrs["transpose_a"], node.attrs["transpose_b"]
    k = x[-2] if trans_a else x[-1]
    dtype = node.result.dtype
    taken = (dtypes.float16, dtypes.bfloat16, *((dtypes.float32,) if fast else ()))
    if dtype not in taken or not k or not prod(out):
        return None
    if dtype is dtypes.float32 and out[-1] == 1:
        return None  # a row of chains reads memory as fast, and rounds nothing
    a_strides, b_strides = (batch_strides(s[:-2], out[:-2]) for s in (x, y))
    p = _folded(TensorCoreProduct(
        out[-2], out[-1], k, out[:-2], a_strides, b_strides, bool(trans_a), bool(trans_b), dtype))
    sizes = (p.m, p.n, p.k, p.segments * p.count * -(-p.m // 32) * -(-p.n // 32))
    return p if max(sizes) < MOST - 512 else None


def _folded(p: TensorCoreProduct) -> TensorCoreProduct:
    """Fold consecutive matrices that meet the same B into one of more rows."""
    if not p.batch or p.trans_a or any(p.b_strides) or not all(p.a_strides):
        return p
    return TensorCoreProduct(p.count * p.m, p.n, p.k, (), (), (), False, p.trans_b, p.dtype)
