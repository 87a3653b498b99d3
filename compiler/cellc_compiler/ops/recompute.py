"""Recomputation: graphs whose inner values are not kept for gradients, order without data, and
where backward parts begin. What gradients of branches are made of."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cellc_runtime.dtypes import bool_

from ..ir.graph import Builder, Node, Value
from ..ir.op import ANY, Array, Op, Sample, Spec, register
from ..ir.types import TensorType
from ..loops.expr import Expr, Reader
from ..loops.index import Index
from . import _batch_axis
from .control import Control, check_inputs


@register
class Recompute(Control):
    """A graph that its gradient computes again from the operands, instead of reading what it left.

    Regions: the graph over the operands, which gives the results.

    Attributes:
        results: other gradients that read the results compute them again too.
    """

    name = "recompute"
    inlined = True
    operands = ("*operands",)
    attrs = {"results": False}

    def region_types(self, node: Node) -> tuple[TensorType, ...]:
        (body,) = node.regions
        check_inputs("recomputed graph", body, [v.type for v in node.operands])
        return tuple(v.type for v in body.outputs)


@register
class After(Op):
    """The first operand, once the others are known: what reads it is computed after them.

    Gradients pass to the first operand.
    """

    name = "after"
    may_alias = True
    batch_axis = _batch_axis.first
    operands = ("x", "*others")
    dtypes = ANY
    cost = "free"

    def infer(self, x: TensorType, *others: TensorType) -> TensorType:
        return x

    def reference(self, x: Array, *others: Array) -> Array:
        return x

    def value(self, r: Reader, idx: tuple[Index, ...]) -> Expr:
        return r.read(0, idx)

    def gradient(
        self, b: Builder, node: Node, dys: Sequence[Value | None]
    ) -> list[Value | None]:
        return [dys[0], *(None for _ in node.operands[1:])]

    def samples(self) -> Sequence[Sample]:
        return (Sample((Spec((3, 5)), Spec((2,)))), Sample((Spec((0, 4)),)),
                Sample((Spec(()), Spec((4, 3)), Spec((0,)))))


@register
class Given(Op):
    """The second operand if the first, one truth value, is true, else the third.

    Its gradient passes to one of the two, and nothing to the other (`autodiff/conditional.py`),
    where that of `where` passes zeros. Gradients of branches are made of it.
    """

    name = "given"
    operands = ("condition", "x", "y")
    dtypes = ANY

    def infer(self, condition: TensorType, x: TensorType, y: TensorType) -> TensorType:
        if condition.dtype is not bool_ or condition.shape != ():
            raise TypeError(f"the condition of given must be bool[], got {condition}")
        if x != y:
            raise TypeError(f"the values of given must have one type, got {x} and {y}")
        return x

    def expand(self, b: Builder, condition: Value, x: Value, y: Value) -> Value:
        out: Value = b.where(condition, x, y)
        return out

    def samples(self) -> Sequence[Sample]:
        yes, no = np.array(True), np.array(False)
        return (Sample((yes, Spec((3, 5)), Spec((3, 5)))), Sample((no, Spec((2,)), Spec((2,)))),
                Sample((no, Spec((0, 4)), Spec((0, 4)))), Sample((yes, Spec(()), Spec(()))))


@register
class Cotangent(Op):
    """The operand, a cotangent that a backward part starts from: what depends on it is backward.

    Each gradient that a graph computes has its own, so that the recomputation chosen for a budget
    (`passes/rematerialize.py`) can tell what runs before it from what runs after it.
    """

    name = "cotangent"
    unique = True
    operands = ("x",)
    dtypes = ANY
    cost = "free"

    def infer(self, x: TensorType) -> TensorType:
        return x

    def reference(self, x: Array) -> Array:
        return x

    def expand(self, b: Builder, x: Value) -> Value:
        return x

    def gradient(
        self, b: Builder, node: Node, dys: Sequence[Value | None]
    ) -> list[Value | None]:
        return [dys[0]]

    def samples(self) -> Sequence[Sample]:
        return (Sample((Spec((3, 5)),)), Sample((Spec((0, 4)),)))
