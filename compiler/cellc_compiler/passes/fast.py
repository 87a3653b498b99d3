"""Rewrites that change rounding: the part of the pipeline that `numerics="fast"` adds.

They are right in real arithmetic and never in the default pipeline: a network compiled with them
differs from PyNative in the last digits.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from cellc_runtime.dtypes import Array
from cellc_runtime.records import dataclass

from ..ir.graph import Builder, Graph, Node, Value
from ..ir.op import lookup
from ..ops.elementwise import Add, Div, Mul, Sub
from .base import Pass, rewrite


def frozen_values(graph: Graph) -> set[Value]:
    """The values that depend on constants and on parameters the graph does not update."""
    frozen = set(graph.frozen_parameters())
    for node in graph.nodes:
        if node.is_constant or (
            node.operands and not node.regions and not lookup(node.op).effect
            and all(v in frozen for v in node.operands)
        ):
            frozen.update(node.results)
    return frozen


@dataclass(frozen=True, slots=True)
class _Chain:
    """A contraction followed by per-channel arithmetic: `(op, operand)` in order."""

    contraction: Node
    steps: tuple[tuple[str, Value], ...] = ()


class FoldScales(Pass):
    """A scale per channel after a convolution or product moves into its frozen weights.

    So a BatchNorm in eval mode costs one addition per element: `(conv(x, w) - m) * s + b` becomes
    `conv(x, w * s) + (b - m * s)`, and what is in brackets is computed once, ahead of the calls.
    Source: Jacob et al., "Quantization and Training of Neural Networks for Efficient
    Integer-Arithmetic-Only Inference", 2018, section 3.2.
    """

    name = "fold-scales"

    def run(self, graph: Graph) -> bool:
        return rewrite(graph, _FoldScales(graph).rule)


class _FoldScales:
    """The rewrite of one graph: chains are followed node by node and rebuilt at their end."""

    def __init__(self, graph: Graph) -> None:
        self.frozen = frozen_values(graph)
        self.users = graph.users()
        self.results = set(graph.results())
        self.chains: dict[Value, _Chain] = {}

    def rule(self, b: Builder, node: Node) -> Sequence[Value] | None:
        """Note a chain that the node begins or continues; rewrite it where it ends."""
        if len(node.results) != 1 or not node.result.dtype.is_float:
            return None
        if _weight_axes(node) is not None and node.operands[1] in self.frozen:
            self.chains[node.result] = _Chain(node)
            return None
        chain = self._longer(node)
        if chain is None:
            return None
        self.chains[node.result] = chain
        if self._goes_on(node.result) or not any(op in _SCALES for op, _ in chain.steps):
            return None
        return [_build(b, chain)]

    def _longer(self, node: Node) -> _Chain | None:
        """The chain that ends in this node."""
        if node.op not in _STEPS:
            return None
        x, c = node.operands
        if x not in self.chains and lookup(node.op).commutative:
            x, c = c, x
        chain = self.chains.get(x)
        if chain is None or c not in self.frozen or not self._only_reader(x):
            return None
        if node.result.type != x.type or not _per_channel(chain.contraction, c):
            return None
        return _Chain(chain.contraction, (*chain.steps, (node.op, c)))

    def _only_reader(self, x: Value) -> bool:
        return x not in self.results and len(self.users.get(x, [])) == 1

    def _goes_on(self, value: Value) -> bool:
        if not self._only_reader(value):
            return False
        (user,) = self.users[value]
        return self._longer(user) is not None


_SCALES = (Mul.name, Div.name)
_STEPS = (Add.name, Sub.name, *_SCALES)


def _build(b: Builder, chain: _Chain) -> Value:
    """The contraction with scaled weights, and one sum."""
    scale: Value | None = None
    shift: Value | None = None
    for op, c in chain.steps:
        if op == Add.name:
            shift = c if shift is None else b.add(shift, c)
        elif op == Sub.name:
            shift = b.neg(c) if shift is None else b.sub(shift, c)
        else:
            factor = c if op == Mul.name else b.div(b.scalar(1, c), c)
            scale = factor if scale is None else b.mul(scale, factor)
            shift = None if shift is None else b.mul(shift, factor)
    node = chain.contraction
    x, w = node.operands
    assert scale is not None
    shape = _weight_shape(node, scale.type.size) if scale.type.size > 1 else ()
    out: Value = b.emit(node.op, x, b.mul(w, b.reshape(scale, shape=shape)), **node.attrs)
    return out if shift is None else b.add(out, shift)


def _weight_axes(node: Node) -> tuple[int, int] | None:
    """The axes of the result and of the weights along which outputs lie; None for other ops."""
    rule = lookup(node.op).weight_axes
    return rule(node) if rule is not None else None


def _per_channel(contraction: Node, c: Value) -> bool:
    """Whether `c` broadcast to the result varies along its channels at most."""
    result, axes = contraction.result, _weight_axes(contraction)
    assert axes is not None
    axis = axes[0]
    offset = result.type.rank - c.type.rank
    return offset >= 0 and prod(c.shape) in (1, result.shape[axis]) and all(
        d == 1 or i + offset == axis for i, d in enumerate(c.shape)
    )


def _weight_shape(contraction: Node, channels: int) -> tuple[int, ...]:
    axes = _weight_axes(contraction)
    assert axes is not None
    return tuple(channels if i == axes[1] else 1 for i in range(contraction.operands[1].type.rank))


class Reassociate(Pass):
    """Constants meet: `(x * a) * b` is `x * (a * b)`, `(x + a) + b` is `x + (a + b)`, and a
    division by a constant is a product with its reciprocal."""

    name = "reassociate"

    def run(self, graph: Graph) -> bool:
        return rewrite(graph, _reassociate)


def _reassociate(b: Builder, node: Node) -> Sequence[Value] | None:
    if node.op not in _STEPS or not node.result.dtype.is_float:
        return None
    x, c = node.operands
    if _constant(c) is None and lookup(node.op).commutative:
        x, c = c, x
    value = _constant(c)
    if value is None or x.type != node.result.type:
        return None
    op = {Sub.name: Add.name, Div.name: Mul.name}.get(node.op, node.op)
    if node.op == Sub.name:
        value = -value
    elif node.op == Div.name:
        with np.errstate(all="ignore"):
            value = (1 / value.astype(np.float64)).astype(value.dtype)
    x, joined = _joined(op, x, value)
    if not np.isfinite(joined.astype(np.float64)).all() or (op == node.op and joined is value):
        return None
    return [b.emit(op, x, b.literal(joined))]


def _joined(op: str, x: Value, value: Array) -> tuple[Value, Array]:
    """`x op value`, where x is itself `y op constant`: y and the constant to use."""
    if x.node is None or x.node.op != op:
        return x, value
    inner, other = x.node.operands
    if _constant(other) is None:
        inner, other = other, inner
    first = _constant(other)
    if first is None or inner.type != x.type:
        return x, value
    with np.errstate(all="ignore"):
        joined = first + value if op == Add.name else first * value
    return inner, joined.astype(value.dtype)


def _constant(v: Value) -> Array | None:
    """The elements of a constant of one element, or None."""
    if v.node is None or not v.node.is_constant or v.type.size != 1:
        return None
    array: Array = v.node.attrs["value"].array
    return array
