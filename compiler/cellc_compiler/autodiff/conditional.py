"""Conditional cotangents: contributions of branches that may not be taken, which the run decides.

A branch or loop gives cotangents to what it reads whether it ran or not. Where it did not, an eager
run knows no path, so what follows from such a cotangent must not be added anywhere (it would be
0 * w, which is not 0 for every w), and where nothing else arrives the gradient is zeros. The
*presence* of such a cotangent is a bool of the run that says whether anything was contributed to
it.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence

from cellc_runtime import dtypes

from ..ir.graph import Builder, Node, Value

Presence = dict[Value, Value]
"""The flags of conditional cotangents, by value. A cotangent whose value is not here is present."""
IsPresent = Value | bool
"""Whether a graph contributes to a cotangent: known beforehand, or a value of that graph."""


def is_present(
    value: Value, before: Value | None, after: Value | None, presence: Mapping[Value, Value]
) -> IsPresent:
    """Whether the cotangent of `value`, `before` at first and `after` at last, got anything."""
    if after is None or after is before:
        return False
    return presence.get(value, True)


def select_presence(b: Builder, pred: Value, yes: IsPresent, no: IsPresent) -> IsPresent:
    """The one of two answers known beforehand that a condition chooses."""
    if yes is True and no is True:
        return True
    if yes is False and no is False:
        return False
    out: Value = pred if yes is True else b.logical_not(pred)
    return out


def as_flag(b: Builder, answer: IsPresent) -> Value:
    """An answer as a value."""
    return b.literal(answer, dtypes.bool_) if isinstance(answer, bool) else answer


def differ(flags: Sequence[Value | None], dys: Sequence[Value | None]) -> bool:
    """Whether some of a node's cotangents may be present where others are not."""
    return len({f for f, dy in zip(flags, dys, strict=True) if dy is not None}) > 1


def present_results(
    b: Builder, node: Node, dys: Sequence[Value | None], presence: Mapping[Value, Value]
) -> tuple[list[Value | None], Value | None]:
    """The cotangents of a node's results, and the flag of their presence (None: present).

    Beside one that is present, those that nothing contributed to are zeros.
    """
    flags = [presence.get(r) for r, dy in zip(node.results, dys, strict=False) if dy is not None]
    known = list(dict.fromkeys(f for f in flags if f is not None))
    if not known:
        return list(dys), None
    if None not in flags:
        some = functools.reduce(b.logical_or, known)
        if len(known) == 1:
            return list(dys), some
    else:
        some = None
    given: list[Value | None] = [
        b.given(presence[r], dy, b.zeros_like(dy)) if dy is not None and r in presence else dy
        for r, dy in zip(node.results, dys, strict=False)
    ]
    return given, some


def guard_contributions(
    b: Builder, cotangents: dict[Value, Value], before: Mapping[Value, Value | None],
    some: Value | None, found: Mapping[Value, Value], presence: Presence,
) -> None:
    """After the rule of a node: undo what it must not have contributed, and note what is
    conditional.

    Args:
        before: of its operands, the cotangents before.
        some: whether its results had any cotangent (None: they had).
        found: flags of the contributions that are conditional in the node itself.
    """
    for v, old in before.items():
        new = cotangents.get(v)
        if new is None or new is old:
            continue
        mine = found.get(v)
        if some is not None:
            start = old if old is not None else \
                b.broadcast_to(b.literal(-0.0, v.dtype), shape=v.type.shape)
            cotangents[v] = b.given(some, new, start)
            mine = some if mine is None else b.logical_and(some, mine)
        if old is not None and v not in presence:
            continue
        if mine is None:
            presence.pop(v, None)
        else:
            presence[v] = b.logical_or(presence[v], mine) if v in presence else mine


def give(
    b: Builder, cotangents: dict[Value, Value], value: Value, grad: Value,
    presence: Presence, flag: Value | None = None,
) -> None:
    """Add a cotangent from outside of a region, present unless the flag says that it is not."""
    had = cotangents.get(value)
    cotangents[value] = grad if had is None else b.add(had, grad)
    if flag is None:
        presence.pop(value, None)
    elif had is None:
        presence[value] = flag
    elif value in presence:
        presence[value] = b.logical_or(presence[value], flag)


def zeros_if_absent(b: Builder, value: Value | None, flag: Value | None) -> Value | None:
    """A cotangent as a gradient: zeros where nothing contributed to it."""
    if value is None or flag is None:
        return value
    return b.given(flag, value, b.zeros_like(value))
