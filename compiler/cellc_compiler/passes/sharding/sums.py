"""Sums of results that may be sums over ranks: what is added on each rank first.

Micro-batches give a weight one gradient each, and ranks that work on data have parts of them all.
Each rank adds its parts, so that what goes between ranks is one sum, not one for each micro-batch.

Each rank applies to its part the ops that follow a micro-batch's sum before it is added, where they
are linear and elementwise: a scale, a sign, another floating type. That defines the bits, as the
split itself does: they are those of a rank of data parallelism, which casts and scales its own
gradients before they are summed. The type in which ranks add must hold what was summed, so that no
sum between ranks is made in fewer bits than without this.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cellc_runtime.dtypes import DType, finfo

from ...ir.graph import Graph, Node, Value
from ...ir.sharding import Factors
from ...ops.cast import Cast
from ...ops.collective import LayOut
from ...ops.control import MicroResult
from ...ops.elementwise import Add, Div, Mul, Neg
from ...ops.shape import Reshape, Transpose

_ALIKE = frozenset((Reshape.name, Transpose.name, LayOut.name, MicroResult.name, Neg.name))
"""Ops of one operand that commute with sums."""
Summands = dict[Node, tuple[Sequence[Node], Sequence[Node]]]
"""By additions: for each operand the nodes between, from the addition on, and what makes it."""


def summands(graph: Graph, factors: Mapping[Node, Factors]) -> Summands:
    """The additions both operands of which are sums, or sums of such, that nothing else reads."""
    users, ends = graph.users(), set(graph.results())
    found: Summands = {}

    def way(v: Value) -> list[Node]:
        """From a value to what makes it; none: something else reads it, or that is no sum."""
        node = v.node
        if node is None or len(users.get(v, ())) != 1 or v in ends:
            return []
        splits = factors[node]
        if node in found or (splits.summed and splits.combine == "sum"):
            return [node]
        rest = next(filter(None, map(way, _linear_in(node))), [])
        return [node, *rest] if rest else []

    for node in graph.nodes:
        if node.op == Add.name and all(v.type == node.result.type for v in node.operands):
            first, second = map(way, node.operands)
            if first and second and all(
                    _holds(node.result.dtype, w[-1].result.dtype) for w in (first, second)):
                found[node] = first, second
    return found


def _linear_in(node: Node) -> list[Value]:
    """The operands of which sums become sums of the result, element by element."""
    if node.op in _ALIKE:
        return list(node.operands)
    if node.op == Cast.name:
        (x,) = node.operands
        return [x] if x.dtype.is_float and node.result.dtype.is_float else []
    if node.op in (Mul.name, Div.name) and node.result.dtype.is_inexact:
        x, y = node.operands
        scaled = ((x, y),) if node.op == Div.name else ((x, y), (y, x))
        return [v for v, by in scaled if by.type.size == 1 and v.type == node.result.type]
    return []


def _holds(wide: DType, narrow: DType) -> bool:
    """Whether a type has all numbers of another one."""
    if wide is narrow:
        return True
    if not (wide.is_float and narrow.is_float):
        return False
    most, least = finfo(wide.numpy), finfo(narrow.numpy)
    return bool(most.nmant >= least.nmant and most.maxexp >= least.maxexp
                and most.minexp <= least.minexp)
