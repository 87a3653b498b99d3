"""Run-time checks: their bounds, where their messages find values, the search for a bad element."""

from __future__ import annotations

import numpy as np

from cellc_runtime import dtypes
from cellc_runtime.dtypes import DType
from cellc_runtime.program import Message, Shown
from cellc_runtime.target import Target

from ..backends.cpu.llvm.text import Function, V
from ..ir.graph import Node

_BLOCK = 4
"""Vectors that one turn of the search looks at."""


def can_fail(node: Node) -> bool:
    """Whether the node, or one inside it, may end the call with an error."""
    inside = (n for r in node.regions for n in r.nodes)
    return node.op in ("check", "host_call") or any(map(can_fail, inside))


def bounds(dtype: DType, low: int, high: int) -> tuple[int, int] | None:
    """The part of [low, high) that a type can hold; None if that is all it can hold."""
    if dtype is dtypes.bool_:
        return (low, high) if low > 0 or high < 2 else None
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


def search_name(bits: int) -> str:
    """The name of the function that `search` writes."""
    return f"cellc_outside_{bits}"


def search(bits: int, target: Target) -> Function:
    """`i64 NAME(ptr p, i64 n, i64 low, i64 width)`: the first of `n` ints at which `p[i] - low`
    is not below `width` (unsigned), or n."""
    ty = f"i{bits}"
    params = [("ptr", "p"), ("i64", "n"), ("i64", "low"), ("i64", "width")]
    f = Function(search_name(bits), params, target, linkage="internal", ret="i64",
                 attributes="noinline")
    p, n = f.arg("p"), f.arg("n")
    low, width = (a if bits == 64 else f.cast("trunc", a, ty)
                  for a in (f.arg("low"), f.arg("width")))
    lanes = target.vector_bytes * 8 // bits
    vector = f"<{lanes} x {ty}>"
    lows, widths = f.splat(low, lanes), f.splat(width, lanes)
    step = lanes * _BLOCK

    def block(i: V, carried: list[V]) -> list[V]:
        seen = carried[0]
        for k in range(_BLOCK):
            at = f.gep(p, f.add(i, f.i64(k * lanes)), ty)
            x = f.sub(f.load(vector, at, align=bits // 8), lows)
            bad = f.cast("sext", f.cmp("uge", x, widths), ty)
            seen = f.binary("or", seen, bad)
        return [seen]

    whole = f.sub(n, f.binary("urem", n, f.i64(step)))
    (seen,) = f.loop(f.i64(0), whole, f.i64(step), [f.zero(vector)], block)
    reduce = f"llvm.vector.reduce.or.v{lanes}{ty}"
    f.declares.add(f"declare {ty} @{reduce}({vector})")
    any_bad = f.emit(ty, f"call {ty} @{reduce}({seen})")
    start = f.select(f.cmp("eq", any_bad, f.zero(ty)), whole, f.i64(0))
    (found,) = f.while_([start], lambda c: _good(f, p, c[0], n, ty, low, width),
                        lambda c: [f.add(c[0], f.i64(1))])
    f.ret_(found)
    return f


def _good(f: Function, p: V, i: V, n: V, ty: str, low: V, width: V) -> V:
    """Whether element i is there and allowed."""
    there = f.cmp("slt", i, n)
    (good,) = f.when(there, lambda: [f.cmp("ult", f.sub(f.load(ty, f.gep(p, i, ty)), low), width)],
                     lambda: [V("i1", "false")])
    return good
