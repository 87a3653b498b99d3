"""Matrix products."""

from __future__ import annotations

from cellc_runtime import dtypes
from cellc_runtime.target import Target

from ....ir.graph import Node
from ....ir.types import prod
from ....loops.order import CHAIN_BYTES, product_segment
from ....lower.plan import KernelPlan, operand, result
from ..kernels.chains import Dots, dots
from ..kernels.operands import Digit, Digits, Operand, Output, digits, fits
from ..kernels.plans import Tiled, step
from ..kernels.product import Product
from .table import Fusable, lowers, tiles
from .tensor_cores import ByTensorCores, tensor_core_plan
from .tensor_cores import product_of as tensor_core_product


def batch_digits(own: tuple[int, ...], out: tuple[int, ...], size: int) -> Digits:
    """Digits of an output's batch, as an operand with matrices of `size` elements follows them (not
    at all where it is broadcast)."""
    padded = (1,) * (len(out) - len(own)) + own
    return digits(*(
        Digit(n, 0 if d == 1 else prod(padded[i + 1:]) * size)
        for i, (n, d) in enumerate(zip(out, padded, strict=True))))


def product_of(node: Node) -> Product | None:
    """The product that a node computes; None if it is one of complex numbers, or adds nothing.

    Integers are summed modulo 2^32 or 2^64, in any order: the one of floats.
    """
    x, y, out = *node.operands, node.result
    ta, tb = node.attrs["transpose_a"], node.attrs["transpose_b"]
    (m, n), k = out.shape[-2:], x.shape[-2 if ta else -1]
    if out.dtype.is_complex or not k or not fits(v.type.size for v in (x, y, out)):
        return None
    left, right, batch = x.shape[:-2], y.shape[:-2], out.shape[:-2]
    if not ta and left == batch and prod(right) == 1:
        # Rows that all meet the same matrix.
        m, left, right, batch = m * prod(batch), (), (), ()
    a = Operand(x.dtype, batch_digits(left, batch, m * k), digits(Digit(m, 1 if ta else k)),
                digits(Digit(k, m if ta else 1)))
    b = Operand(y.dtype, batch_digits(right, batch, k * n), digits(Digit(n, k if tb else 1)),
                digits(Digit(k, 1 if tb else n)))
    store = Output(out.dtype, digits(Digit(prod(batch), m * n)), digits(Digit(m, n)),
                   digits(Digit(n, 1)))
    long = out.dtype.itemsize == 8
    sums = (dtypes.float64 if long else dtypes.float32) if out.dtype.is_float else (
        dtypes.int64 if long else dtypes.int32)
    return Product(m, n, k, prod(batch), a, b, store, sums, product_segment(n, k, sums.itemsize))


@lowers("matmul")
def matmul(node: Node, target: Target) -> KernelPlan | None:
    """Tensor cores, tiles, or rows of chains; complex numbers are left to plain loops."""
    if (plan := tensor_core_plan(node, target)) is not None:
        return plan
    product = product_of(node)
    if product is None:
        return None
    if is_row_of_chains(node, product):
        code = dots(Dots(product.batch, product.m, product.k, product.a, product.b,
                         node.result.dtype, product.sums), target)
        return KernelPlan((step(code, (operand(0), operand(1), result(0))),))
    return Tiled(product, operand(0), operand(1)).plan(target, [result(0)])


def is_row_of_chains(node: Node, product: Product) -> bool:
    """Whether an element is a reduction of products along k, not a chain (`loops/order.py`)."""
    along = not node.attrs["transpose_a"] or product.m == 1
    return product.n == 1 and along and product.k >= CHAIN_BYTES // product.sums.itemsize


@tiles("matmul")
def matmul_tiles(node: Node, target: Target) -> Fusable | None:
    """The product in tiles, by tensor cores or by chains."""
    p = tensor_core_product(node, target.fast)
    if p is not None:
        return ByTensorCores(p) if fits([p.elements]) else None
    product = product_of(node)
    if product is None or is_row_of_chains(node, product):
        return None
    return Tiled(product, operand(0), operand(1))
