"""Batching rules that ops share: how an op treats many examples at once.

A rule is a method `batch(b, node, xs, mapped, n)` of an op: `node` is the op on one example,
`xs` its operands, of which those with `mapped` hold `n` examples along a new first axis. It gives
the results with the examples along their first axis, or None if it knows no way (the op is then
applied to one example after the other).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..ir.graph import Builder, Node, Value

Values = Sequence[Value]
Flags = Sequence[bool]
Results = Values | None
Rule = Callable[[Any, Builder, Node, Values, Flags, int], Results]


def lifted(b: Builder, x: Value, mapped: bool, n: int) -> Value:
    """A value with a first axis of examples, repeated if need be."""
    if mapped:
        return x
    return b.broadcast_to(x, shape=(n, *x.shape))


def all_lifted(b: Builder, xs: Values, mapped: Flags, n: int) -> list[Value]:
    """`lifted` for each."""
    return [lifted(b, x, m, n) for x, m in zip(xs, mapped, strict=True)]


def aligned(b: Builder, x: Value, mapped: bool, rank: int) -> Value:
    """A value reshaped to `rank` axes per example, so that the batch axis does not broadcast."""
    gap = rank - (x.type.rank - 1)
    if not mapped or not gap:
        return x
    return b.reshape(x, shape=(x.shape[0], *(1,) * gap, *x.shape[1:]))


def pointwise(self: Any, b: Builder, node: Node, xs: Values, mapped: Flags, n: int) -> Results:
    """Operands broadcast, or the op works on the last axes alone."""
    rank = max(v.type.rank for v in node.operands)
    given = [aligned(b, x, m, rank) for x, m in zip(xs, mapped, strict=True)]
    return b.node(node.op, given, node.attrs).results


def _shift(axes: Any, rank: int) -> Any:
    if axes is None:
        return tuple(range(1, rank + 1))
    if isinstance(axes, tuple):
        return tuple(a % rank + 1 for a in axes) if rank else ()  # a scalar takes those of one
    return axes % rank + 1


def along(*names: str) -> Rule:
    """Attributes that name axes of the first operand move by one."""

    def rule(self: Any, b: Builder, node: Node, xs: Values, mapped: Flags, n: int) -> Results:
        rank = node.operands[0].type.rank
        if not rank and any(isinstance(node.attrs[k], int) for k in names):
            return None  # axis 0 of a scalar
        attrs = {**node.attrs, **{k: _shift(node.attrs[k], rank) for k in names}}
        return b.node(node.op, all_lifted(b, xs, mapped, n), attrs).results

    return rule


WHOLE: Any = object()  # Stands for the number of examples in `prefixed`


def prefixed(**first: Any) -> Rule:
    """Attributes with an entry for each axis get one for the axis of examples."""

    def rule(self: Any, b: Builder, node: Node, xs: Values, mapped: Flags, n: int) -> Results:
        attrs = dict(node.attrs)
        for name, value in first.items():
            if attrs[name] is not None:
                attrs[name] = (n if value is WHOLE else value, *attrs[name])
        return b.node(node.op, all_lifted(b, xs, mapped, n), attrs).results

    return rule


def merged(self: Any, b: Builder, node: Node, xs: Values, mapped: Flags, n: int) -> Results:
    """The first axis of every operand and result is a batch already: examples join it."""
    flat = [b.reshape(x, shape=(n * x.shape[1], *x.shape[2:]))
            for x in all_lifted(b, xs, mapped, n)]
    results = b.node(node.op, flat, node.attrs).results
    return [b.reshape(r, shape=(n, *one.shape))
            for r, one in zip(results, node.results, strict=True)]


def to_front(b: Builder, x: Value, axis: int) -> Value:
    """An axis moved to the front."""
    if not axis:
        return x
    rest = [a for a in range(x.type.rank) if a != axis]
    return b.transpose(x, perm=(axis, *rest))


def from_front(b: Builder, x: Value, axis: int) -> Value:
    """The first axis moved to `axis`."""
    if not axis:
        return x
    perm = [*range(1, axis + 1), 0, *range(axis + 1, x.type.rank)]
    return b.transpose(x, perm=tuple(perm))


def joined(b: Builder, x: Value, axis: int) -> Value:
    """Examples joined to `axis` of each example, as its outer part."""
    moved = from_front(b, x, axis)
    shape = (*moved.shape[:axis], moved.shape[axis] * moved.shape[axis + 1],
             *moved.shape[axis + 2:])
    return b.reshape(moved, shape=shape)


def parted(b: Builder, x: Value, axis: int, n: int) -> Value:
    """The inverse of `joined`."""
    shape = (*x.shape[:axis], n, x.shape[axis] // n, *x.shape[axis + 1:])
    return to_front(b, b.reshape(x, shape=shape), axis)


# --- gather and scatter --------------------------------------------------------------------------


def gathered(self: Any, b: Builder, node: Node, xs: Values, mapped: Flags, n: int) -> Results:
    """`gather`: one table for all examples where they share it, else one each."""
    (x, indices), attrs = xs, node.attrs
    axis, shared = attrs["axis"] % node.operands[0].type.rank, attrs["batch_dims"]
    if not mapped[0] and not shared:
        out = b.gather(x, indices, axis=axis)
        return [to_front(b, out, axis)]
    if not mapped[1] and not shared:
        return [b.gather(x, indices, axis=axis + 1)]
    x, indices = all_lifted(b, xs, mapped, n)
    return [b.gather(x, indices, axis=axis + 1, batch_dims=shared + 1)]


def scattered(self: Any, b: Builder, node: Node, xs: Values, mapped: Flags, n: int) -> Results:
    """`scatter`: the axis of examples is one more that operands share."""
    axis = node.attrs["axis"] % node.operands[0].type.rank
    attrs = {**node.attrs, "axis": axis + 1, "batch_dims": node.attrs["batch_dims"] + 1}
    return b.node("scatter", all_lifted(b, xs, mapped, n), attrs).results


def pointed(self: Any, b: Builder, node: Node, xs: Values, mapped: Flags, n: int) -> Results:
    """`gather_nd`: each point also names its example."""
    x, points = all_lifted(b, xs, mapped, n)
    number = b.iota(shape=(*points.shape[:-1], 1), axis=0, dtype=points.dtype)
    return [b.gather_nd(x, b.concat(number, points, axis=points.type.rank - 1))]


def window(self: Any, b: Builder, node: Node, xs: Values, mapped: Flags, n: int) -> Results:
    """A slice or its assignment at a place that all examples share."""
    *data, starts = xs
    if mapped[-1]:
        return None
    attrs = dict(node.attrs)
    if "sizes" in attrs:
        attrs["sizes"] = (n, *attrs["sizes"])
    zero = b.broadcast_to(b.literal(0, starts.dtype), shape=(1,))
    from_zero = b.concat(zero, starts, axis=0)
    return b.node(node.op, [*all_lifted(b, data, mapped[:-1], n), from_zero], attrs).results


# --- shapes --------------------------------------------------------------------------------------


def broadcasted(self: Any, b: Builder, node: Node, xs: Values, mapped: Flags, n: int) -> Results:
    """`broadcast_to`."""
    shape = node.attrs["shape"]
    return [b.broadcast_to(aligned(b, xs[0], True, len(shape)), shape=(n, *shape))]


def turned(self: Any, b: Builder, node: Node, xs: Values, mapped: Flags, n: int) -> Results:
    """`transpose`."""
    return [b.transpose(xs[0], perm=(0, *(p + 1 for p in node.attrs["perm"])))]


def hot(self: Any, b: Builder, node: Node, xs: Values, mapped: Flags, n: int) -> Results:
    """`one_hot`, whose new axis may be the last one whatever the rank."""
    axis = node.attrs["axis"]
    attrs = {**node.attrs, "axis": axis if axis < 0 else axis + 1}
    return b.node(node.op, xs, attrs).results


# --- convolutions --------------------------------------------------------------------------------


def convolved(self: Any, b: Builder, node: Node, xs: Values, mapped: Flags, n: int) -> Results:
    """A convolution or the gradient of its input: examples join the batch where they share the
    weight, else they are groups of channels."""
    x, w = xs
    if not mapped[1]:
        flat = b.reshape(x, shape=(n * x.shape[1], *x.shape[2:]))
        out = b.node(node.op, [flat, w], node.attrs).result
        return [b.reshape(out, shape=(n, *node.result.shape))]
    channels = joined(b, lifted(b, x, mapped[0], n), 1)
    attrs = {**node.attrs, "groups": node.attrs["groups"] * n}
    out = b.node(node.op, [channels, joined(b, w, 0)], attrs).result
    return [parted(b, out, 1, n)]


def weighed(self: Any, b: Builder, node: Node, xs: Values, mapped: Flags, n: int) -> Results:
    """The gradient of a convolution's weight: examples are groups of channels."""
    channels = [joined(b, x, 1) for x in all_lifted(b, xs, mapped, n)]
    attrs = {**node.attrs, "groups": node.attrs["groups"] * n}
    return [parted(b, b.node(node.op, channels, attrs).result, 0, n)]
