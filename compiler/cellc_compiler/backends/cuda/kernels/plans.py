"""From a product to the kernels that compute it."""

from __future__ import annotations

from collections.abc import Sequence

from cellc_runtime.records import dataclass
from cellc_runtime.target import Target

from ....lower.plan import KernelPlan, Role, Step, scratch
from ..code import KernelCode, aligned, kernel_of
from .direct import direct, is_direct
from .parts import sum_of_parts
from .product import Epilogue, Product, ProductKernel, keeps_in_memory, kept_bytes
from .tiles import choose


def step(code: KernelCode, roles: Sequence[Role]) -> Step:
    """A kernel with its buffers."""
    return Step(kernel_of(code, len(roles)), tuple(roles))


@dataclass(frozen=True, slots=True)
class Tiled:
    """A product that is computed by tiles."""

    product: Product
    # a, b: its operands
    a: Role
    b: Role
    split: bool = False  # whether parts of k must be blocks of their own

    def plan(
        self, target: Target, out: Sequence[Role], epilogue: Epilogue | None = None
    ) -> KernelPlan:
        """The kernels.

        Args:
            out: its result; or the buffers of the epilogue, which is done instead of storing it.
        """
        p, size = self.product, self.product.sums.itemsize
        if is_direct(p):
            return KernelPlan((step(direct(p, target, epilogue), (self.a, self.b, *out)),))
        chosen = choose(p.m, p.n, p.k, p.batch, p.segments, size, target,
                        self.split and p.segments > 1,
                        lambda tile: keeps_in_memory(p, tile, target))
        tile, parts, held = chosen.tile, chosen.parts, scratch("sums")

        def code(vectors: bool) -> KernelCode:
            own = epilogue if parts == 1 else None
            return ProductKernel(p, tile, parts, target, vectors, own).code()

        def total(vectors: bool) -> KernelCode:
            return sum_of_parts(p, parts, target, vectors, epilogue)

        main = aligned(code(True), code(False))
        if p.segments == 1:
            return KernelPlan((step(main, (self.a, self.b, *out)),))
        if parts == 1:
            if not keeps_in_memory(p, tile, target):
                return KernelPlan((step(main, (self.a, self.b, *out)),))
            return KernelPlan((step(main, (self.a, self.b, held, *out)),),
                              {held: kept_bytes(p, tile)})
        adds = aligned(total(True), total(False))
        return KernelPlan((step(main, (self.a, self.b, held)), step(adds, (held, *out))),
                          {held: parts * p.batch * p.m * p.n * size})
