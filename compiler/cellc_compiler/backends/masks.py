"""Which keys a constant mask hides from the queries of an attention, whatever the scores are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from cellc_runtime.dtypes import Array as Array

from ..ir.graph import Value
from ..ir.op import lookup
from ..loops.expr import Expr
from ..loops.nest import Nest, children, walk
from ..ops.shape import Iota

_MOST_ELEMENTS = 1 << 26  # Of a mask that is looked at
_DEEPEST = 6  # Nodes between constants and a mask


def keys_seen(nest: Nest, source: Any, own: Mapping[Any, Value], m: int, n: int,
              memo: dict[Any, Any]) -> int:
    """The least s such that the query at position i looks at no key from i + s on; n at most.

    Args:
        nest: rows of scores; its last row variable is the query's position.
        source: the scores, as the nest's loads name them.
        own: what the nest's other values are.
        m, n: queries and keys of a matrix.
        memo: keeps what is found of a mask.
    """
    best = n
    for cond in _guards(nest, source):
        value = _mask(cond, nest, own, m, n)
        if value is not None:
            key = "keys seen", value, m, n
            if key not in memo:
                array = constant_of(value)
                memo[key] = n if array is None else last_seen(array.reshape(m, n).astype(bool))
            best = min(best, memo[key])
    return best


def last_seen(hidden: Array) -> int:
    """See `keys_seen`, of a mask (m, n)."""
    m, n = hidden.shape
    behind = np.where(hidden.all(1), 0, n - np.argmin(hidden[:, ::-1], axis=1))
    return int(max((behind - np.arange(m))[behind > 0], default=-m))


def _mask(cond: Expr, nest: Nest, own: Mapping[Any, Value], m: int, n: int) -> Value | None:
    """The value that a condition is, if it is a mask of queries and keys."""
    if cond.op != "load" or cond.args or cond.payload.part is not None or not nest.rows:
        return None
    offset, row = cond.payload.offset, nest.rows[-1]
    columns = {p.loops[0] for p in nest.phases if len(p.loops) == 1}
    terms = dict(offset.terms)
    mine = [v for v in columns if terms.get(v) == 1]
    value = own.get(cond.payload.buffer)
    if value is None or value.type.size != m * n or offset.const or row.extent != m \
            or len(mine) != 1 or terms != {mine[0]: 1, row: n}:
        return None
    return value


def constant_of(value: Value, depth: int = _DEEPEST) -> Array | None:
    """Return a value's elements if it follows from constants alone, by at most `depth` nodes."""
    node = value.node
    if node is None or value.type.size > _MOST_ELEMENTS:
        return None
    if node.is_constant:
        array: Array = node.attrs["value"].array
        return array
    op = lookup(node.op)
    if not depth or node.regions or op.effect or len(node.results) != 1 \
            or not (node.operands or node.op == Iota.name):
        return None
    operands = [a for v in node.operands if (a := constant_of(v, depth - 1)) is not None]
    if len(operands) < len(node.operands):
        return None
    return np.asarray(op.reference(*operands, **node.attrs))


def _guards(nest: Nest, source: Any) -> list[Expr]:
    """Conditions under which nothing of a nest follows from the element of `source` at its place:
    wherever it is loaded, a choice by the condition leaves it out."""
    found: dict[int, dict[int, Expr] | None] = {}  # None: does not follow from it at all
    for e in walk(list(nest.roots())):
        if e.op == "load" and e.payload.buffer is source:
            found[id(e)] = {}
            continue
        below = [found[id(a)] for a in children(e)]
        held = [b for b in below if b is not None]
        out = _common(held)
        if e.op == "select" and out is not None and below[0] is None and below[1] is None:
            out = {**out, id(e.args[0]): e.args[0]}
        found[id(e)] = out
    held = [b for r in nest.roots() if (b := found[id(r)]) is not None]
    return list((_common(held) or {}).values())


def _common(sets: list[dict[int, Expr]]) -> dict[int, Expr] | None:
    """Return the intersection; None if there are no sets."""
    if not sets:
        return None
    return {key: e for key, e in sets[0].items() if all(key in s for s in sets[1:])}
