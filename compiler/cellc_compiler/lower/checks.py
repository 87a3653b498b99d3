"""Run-time checks: their bounds, and where their messages find values."""

from __future__ import annotations

import numpy as np

from cellc_runtime import dtypes
from cellc_runtime.dtypes import DType
from cellc_runtime.program import Message, Shown

from ..ir.dims import Undecided, is_symbolic
from ..ir.graph import Node
from ..ir.op import lookup


def can_fail(node: Node) -> bool:
    """Whether the node, or one inside it, may end the call with an error."""
    inside = (n for r in node.regions for n in r.nodes)
    return lookup(node.op).may_fail or any(map(can_fail, inside))


def bounds(dtype: DType, low: int, high: int) -> tuple[int, int] | None:
    """The part of [low, high) that a type can hold; None if that is all it can hold."""
    if dtype is dtypes.bool_:
        return (low, high) if low > 0 or high < 2 else None
    if is_symbolic(low) or is_symbolic(high):
        if dtype.itemsize < 4:
            raise Undecided(f"whether {dtype} can hold {high} depends on sizes")
        return low, high
    info = np.iinfo(dtype.numpy)
    least, most = int(info.min), int(info.max)
    if low <= least and high > most:
        return None
    return max(low, least), min(high, most + 1)


def shown_bytes(node: Node) -> int:
    """Bytes of what the message of a check shows."""
    return 8 + sum(-(-v.type.nbytes // 8) * 8 for v in node.operands[1:])


def message(node: Node, place: int) -> Message:
    """The message of a check whose values lie at an offset of the arena."""
    values = [Shown(dtypes.int64, (), place)]
    at = place + 8
    for v in node.operands[1:]:
        values.append(Shown(v.dtype, v.type.dims, at))
        at += -(-v.type.nbytes // 8) * 8
    a = node.attrs
    return Message(a["error"], a["parts"], node.span.file, max(node.span.line, 0), a["detail"],
                   a["own"], tuple(values))
