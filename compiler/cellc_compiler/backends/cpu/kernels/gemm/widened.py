"""Products of narrow elements whose rows or whose k are open: operands are widened first.

Elements are exact in the accumulator's type, so an element of the product is the same chain.
"""

from __future__ import annotations

from collections.abc import Mapping

from cellc_runtime import dtypes
from cellc_runtime.dtypes import DType
from cellc_runtime.target import Target

from .....lower.kernel import Kernel
from .....lower.plan import Role, packed
from ....llvm.text import Function, V
from ..vectors import Plan, minimum, task_kernel
from .arith import Arith

_VECTORS = 64  # That one unit of work widens


def widened(inner: Plan, elements: Mapping[str, int], arith: Arith, target: Target) -> Plan:
    """The kernels of a product of wide operands, after those that widen them.

    Args:
        elements: how many an operand has, of those that are widened, by role.
        arith: that of the narrow operands.
    """
    made, names = Plan(), dict[str | Role, str]()
    for side, count in elements.items():
        names[side], names[packed(side)] = f"{side}_wide", f"{side}_wide_packed"
        made.scratch[names[side]] = count * arith.acc_size
        made.add(_kernel(arith, count, target), side, names[side])
    made.scratch.update({names.get(role, role): n for role, n in inner.scratch.items()})
    made.packing.update({role: x for role, x in inner.packing.items() if role not in names})
    for kernel, roles in inner.steps:
        made.add(kernel, *(names.get(role, role) for role in roles))
    return made


def wide_type(arith: Arith) -> DType:
    """The element type that accumulators have."""
    if arith.acc == "float":
        return dtypes.float32
    return dtypes.by_name(f"{arith.dtype.kind}{8 * arith.acc_size}")


def _kernel(arith: Arith, count: int, target: Target) -> Kernel:
    """Kernel over (narrow, wide): as many elements."""
    lanes, size, out = arith.lanes, arith.dtype.itemsize, arith.acc_size
    block = _VECTORS * lanes

    def body(f: Function, bufs: list[V], unit: V) -> None:
        start = unit * block
        end = minimum(f, f.i64(count), start + block)

        def step(at: V, _: list[V]) -> list[V]:
            left = end - at
            (v,) = arith.load(f, f.gep(bufs[0], at * size), lanes, left)
            f.masked_store(v, f.gep(bufs[1], at * out), f.tail_mask(left, lanes))
            return []

        f.loop(start, end, lanes, [], step)

    return task_kernel(target, 2, -(-count // block), 2.0 * _VECTORS, body)
