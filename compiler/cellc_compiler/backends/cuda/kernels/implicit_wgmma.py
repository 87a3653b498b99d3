"""Convolutions by `wgmma` (sm_90a): the copies of `implicit.py`, the products of warpgroups.

All threads copy, by `cp.async`, and both warpgroups multiply. A stage is 64 of k (32 of TF32). Its
rows of 128 bytes lie as descriptors want them: swizzled, along k, or, where memory runs across k,
64 of the operand's rows to a panel. Each step waits for its copies and for the products before it,
so a stage is free when all threads have met; a unit has room for two blocks, which hide each
other's waiting.
"""

from __future__ import annotations

from cellc_runtime.target import Target

from ...llvm.text import V
from ..code import WARP, KernelCode
from ..tensor_cores import ATOM, SWIZZLE, kind_of
from .implicit import ImplicitKernel, copies
from .mma import MmaTile, TileOperand, tile_of
from .product import Epilogue, Product
from .wgmma import ARCHITECTURE, K_STEP

SQUARE = MmaTile(128, 128, 8, 1)
LOW = MmaTile(64, 128, 4, 2)
_LINE = SWIZZLE // 2  # Elements of a row of a panel
_PANEL = K_STEP * SWIZZLE  # Bytes of a panel, or of 64 rows along k


def wgmma_tile_of(p: Product, target: Target) -> MmaTile | None:
    """The tile for a shape; None where `mma.sync` is for it, as for TF32 that does not lie along
    k."""
    if target.cpu != ARCHITECTURE or min(p.m, p.n) <= WARP:
        return None
    if p.a.dtype.itemsize == 4 and not (copies(p.a).along_k and copies(p.b).along_k):
        return None
    return LOW if p.m <= LOW.rows else SQUARE


def implicit_kernel(p: Product, target: Target, epilogue: Epilogue | None = None,
                    tile: MmaTile | None = None, wide: MmaTile | None = None) -> KernelCode:
    """The kernel of a product, by `wgmma` or `mma.sync`; see `ImplicitKernel`. Its variant for
    pointers that are no multiples of 16 follows it.

    Args:
        tile, wide: of `mma.sync` and of `wgmma`, if not the table's.
    """
    low = tile or tile_of(p.m, p.n, p.segments * p.batch, target)
    plain = ImplicitKernel(p, target, low, False, epilogue).kernel()
    wide = wide or (wgmma_tile_of(p, target) if tile is None else None)
    if wide is None:
        return ImplicitKernel(p, target, low, True, epilogue).kernel(plain)
    return ImplicitWgmmaKernel(p, target, wide, epilogue).kernel(plain)


class ImplicitWgmmaKernel(ImplicitKernel):
    """Writes the kernel."""

    step_bytes, stages = SWIZZLE, 3

    def __init__(self, p: Product, target: Target, tile: MmaTile, epilogue: Epilogue | None
                 ) -> None:
        super().__init__(p, target, tile, True, epilogue)
        self.f.attributes += ' "nvvm.minctasm"="2"'

    def meet(self) -> None:
        self.f.fence_async()
        super().meet()

    def step(self, k: V, now: V, free: V, total: list[V]) -> list[V]:
        total = self.multiplied(now, total)
        self.fetch(k, free)
        self.f.wait_products(0)
        return total

    def products(self) -> list[V]:
        return self.f.held(super().products())

    def multiplied(self, stage: V, total: list[V]) -> list[V]:
        """Begin the products of a stage: one group."""
        f, (a, b) = self.f, self.operands
        start = f.at(self.shared, stage)
        transposed = (not a.along_k, not b.along_k)
        leading = [_PANEL if t else 16 for t in transposed]
        # A warpgroup has 64 rows, and columns, of its own.
        down, across = ((edge >> 6) * _PANEL for edge in (self.top, self.left))
        left = f.descriptor(f.at(start, down), leading[0], ATOM)
        right = f.descriptor(f.at(f.at(start, a.nbytes), across), leading[1], ATOM)
        f.fence_products()
        for k in range(0, SWIZZLE, 32):
            a_on, b_on = (k // 2 * SWIZZLE // 16 if t else k // 16 for t in transposed)
            total = f.wgmma(kind_of(self.dtype), left + a_on, right + b_on, total, transposed)
        f.commit_products()
        return total

    def _place(self, o: TileOperand, stage: V, line: V, element: V) -> V:
        if o.along_k or o.length <= _LINE:
            return super()._place(o, stage, line, element)
        f = self.f
        panel = element // _LINE * _PANEL
        own = element % _LINE
        chunk = own // o.chunk ^ self._swizzle(o, line)
        within = own % o.chunk * o.size
        far = line * SWIZZLE + chunk * 16 + within
        return f.at(self.shared, stage + o.base + (panel + far))

    def _swizzle(self, o: TileOperand, line: V) -> V:
        """As `wgmma` has it, in the tiles of the operands."""
        if o.number == 2:
            return super()._swizzle(o, line)
        return line & 7
