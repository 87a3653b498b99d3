"""Matrix products."""

from __future__ import annotations

from cellc_runtime import dtypes
from cellc_runtime.dtypes import DType
from cellc_runtime.target import Target

from ....ir.graph import Node
from ....ir.types import batch_strides, prod
from ....loops.order import CHAIN_BYTES, product_segment
from ....lower.plan import KernelPlan, operand, result, scratch
from ..kernels.chains import Dots, dots
from ..kernels.complex_product import complex_kernel, real_parts, tile_for
from ..kernels.operands import Digit, Digits, Operand, Output, digits, fits
from ..kernels.plans import Tiled, step
from ..kernels.product import Product, keeps_in_memory, kept_bytes
from .table import Fusable, lowers, tiles
from .tensor_cores import ByTensorCores, tensor_core_plan
from .tensor_cores import product_of as tensor_core_product


def batch_digits(own: tuple[int, ...], out: tuple[int, ...], size: int) -> Digits:
    """Digits of an output's batch, as an operand with matrices of `size` elements follows them (not
    at all where it is broadcast)."""
    strides = batch_strides(own, out)
    return digits(*(Digit(n, s * size) for n, s in zip(out, strides, strict=True)))


def product_of(node: Node) -> Product | None:
    """The product that a node computes; None if it adds nothing, or is too large.

    Integers are summed modulo 2^32 or 2^64, in any order: the one of floats. `real_parts` gives the
    type of sums of complex numbers.
    """
    x, y, out = *node.operands, node.result
    ta, tb = node.attrs["transpose_a"], node.attrs["transpose_b"]
    (m, n), k = out.shape[-2:], x.shape[-2 if ta else -1]
    numbers = 2 if out.dtype.is_complex else 1
    if not k or not fits(numbers * v.type.size for v in (x, y, out)):
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
    sums = _sums_of(out.dtype)
    # (The CPU cuts k of complex numbers by the bytes of both parts.)
    segment = product_segment(n, k, numbers * sums.itemsize)
    return Product(m, n, k, prod(batch), a, b, store, sums, segment)


def _sums_of(dtype: DType) -> DType:
    """Return the type of sums; for complex numbers, of their parts."""
    if dtype.is_integer:
        return dtypes.int64 if dtype.itemsize == 8 else dtypes.int32
    wide = dtypes.part_dtype(dtype) if dtype.is_complex else dtype
    return dtypes.float64 if wide is dtypes.float64 else dtypes.float32


def _complex_plan(product: Product, target: Target) -> KernelPlan:
    """A product of complex matrices by tiles."""
    parts = real_parts(product, product.sums)
    tile = tile_for(parts)
    code = complex_kernel(parts, tile, target)
    if parts.segments == 1 or not keeps_in_memory(parts, tile, target, 2):
        return KernelPlan((step(code, (operand(0), operand(1), result(0))),))
    held = scratch("sums")
    return KernelPlan((step(code, (operand(0), operand(1), held, result(0))),),
                      {held: 2 * kept_bytes(parts, tile)})


@lowers("matmul")
def matmul(node: Node, target: Target) -> KernelPlan | None:
    """Tensor cores, tiles, or rows of chains."""
    if (plan := tensor_core_plan(node, target)) is not None:
        return plan
    product = product_of(node)
    if product is None:
        return None
    if node.result.dtype.is_complex:
        return _complex_plan(product, target)
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
    if product is None or node.result.dtype.is_complex or is_row_of_chains(node, product):
        return None
    return Tiled(product, operand(0), operand(1))
