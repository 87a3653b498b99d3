"""Keys of a sort: unsigned numbers in the order that is wanted.

Floats take the usual sign trick, with -0 as +0 and NaN as the largest key; all bits are flipped for
a descending sort. The position distinguishes equal keys, so every machine gives one order.
"""

from __future__ import annotations

from cellc_runtime.dtypes import DType

from .math.lanes import X
from .text import Function, V


def sort_key(f: Function, raw: V, dtype: DType, descending: bool) -> V:
    """The key of an element, whose bits are an integer of its size.

    Args:
        dtype: a real dtype or bool.
        descending: largest first (a NaN is last all the same).
    """
    x, bits = X(f, raw), 8 * dtype.itemsize
    sign = 1 << (bits - 1)
    if dtype.kind == "float":
        return _float_key(x, bits, dtype, descending).v
    key = x ^ _signed(sign, bits) if dtype.kind == "int" else x
    return (~key if descending else key).v


def _float_key(raw: X, bits: int, dtype: DType, descending: bool) -> X:
    sign = _signed(1 << (bits - 1), bits)
    mantissa = {16: 10, 32: 23, 64: 52}[bits] if dtype.name != "bfloat16" else 7
    infinity = ((1 << (bits - 1 - mantissa)) - 1) << mantissa
    nan = (raw & ((1 << (bits - 1)) - 1)).cmp("ugt", infinity)
    raw = raw.cmp("eq", sign).where(0, raw)
    key = raw ^ (raw.op("ashr", bits - 1) | sign)
    return nan.where(-1, ~key if descending else key)


def _signed(value: int, bits: int) -> int:
    return value - (1 << bits) if value >= 1 << (bits - 1) else value
