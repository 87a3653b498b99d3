"""From a product to the kernels that compute it."""

from __future__ import annotations

from collections.abc import Sequence

from cellc_runtime.records import replace
from cellc_runtime.target import Target

from ....lower.kernel import Kernel
from ....lower.plan import KernelPlan, Role, Step, scratch
from ..code import KernelCode
from .parts import sum_of_parts
from .product import Finish, Product, ProductKernel, kept_bytes
from .tiles import VECTOR_BYTES, Tile, choose


def aligned(vectors: KernelCode, plain: KernelCode) -> KernelCode:
    """A kernel that reads vectors, and the one for pointers that are no multiples of 16."""
    if vectors == plain:
        return plain
    return replace(vectors, align=VECTOR_BYTES, otherwise=plain)


def step(code: KernelCode, roles: Sequence[Role]) -> Step:
    """A kernel with its buffers: its blocks are its tasks."""
    kernel = Kernel(code, code.blocks, len(roles), float(code.blocks * code.threads))
    return Step(kernel, tuple(roles))


def product_plan(
    product: Product, target: Target, a: Role, b: Role, out: Role, finish: Finish | None = None,
    extra: Sequence[Role] = (), split: bool = False,
) -> KernelPlan:
    """The kernels of a product.

    Args:
        a, b, out: its buffers.
        finish: what is done with sums before they are stored, on the buffers `extra`.
        split: whether parts of k must be blocks of their own.
    """
    p, size = product, product.sums.itemsize
    chosen = choose(p.m, p.n, p.k, p.batch, p.segments, size, target, split and p.segments > 1)
    if chosen.parts > 1:
        return _in_parts(product, target, chosen.tile, chosen.parts, (a, b, out), finish, extra)

    def code(vectors: bool) -> KernelCode:
        return ProductKernel(p, chosen.tile, 1, target, vectors, finish, len(extra)).code()

    kept = scratch("sums")
    roles = [a, b, out, *([kept] if p.segments > 1 else []), *extra]
    # What is written is last.
    main = step(aligned(code(True), code(False)), roles)
    return KernelPlan((main,), {kept: kept_bytes(p, chosen.tile)} if p.segments > 1 else {})


def _in_parts(
    p: Product, target: Target, tile: Tile, parts: int, roles: tuple[Role, Role, Role],
    finish: Finish | None, extra: Sequence[Role],
) -> KernelPlan:
    """Parts of k side by side, and what adds them."""
    a, b, out = roles
    held = scratch("parts")

    def code(vectors: bool) -> KernelCode:
        return ProductKernel(p, tile, parts, target, vectors).code()

    def total(vectors: bool) -> KernelCode:
        return sum_of_parts(p, parts, target, vectors, finish, len(extra))

    steps = (step(aligned(code(True), code(False)), (a, b, held)),
             step(aligned(total(True), total(False)), (held, out, *extra)))
    return KernelPlan(steps, {held: parts * p.batch * p.m * p.n * p.sums.itemsize})
