"""Control flow and markers: cond, while, scan, stop_gradient, print."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cellc_runtime import dtypes

from ..ir.graph import Builder, Graph, Node, Value
from ..ir.op import ANY, REQUIRED, Array, Op, Sample, Spec, register
from ..ir.types import TensorType
from ..loops.expr import Expr, Reader
from ..loops.index import Index
from . import _batch_axis, _identities
from .batching import pointwise


def check_inputs(what: str, region: Graph, types: Sequence[TensorType]) -> None:
    """Raise TypeError unless a region takes values of these types."""
    if [v.type for v in region.inputs] != list(types):
        want = ", ".join(str(t) for t in types)
        got = ", ".join(str(v.type) for v in region.inputs)
        raise TypeError(f"the {what} takes ({got}) but is given ({want})")


class Control(Op):
    """Base of ops with regions; types follow from the regions."""

    dtypes = ANY

    def result_types(self, node: Node) -> tuple[TensorType, ...]:
        self._check_count(node)
        return self.region_types(node)

    def region_types(self, node: Node) -> tuple[TensorType, ...]:
        """Result types from operands and regions.

        Raises:
            TypeError: regions and operands do not fit.
        """
        raise TypeError(f"{self.name} has no regions")


@register
class Cond(Control):
    """One of two graphs, chosen at run time by a bool scalar.

    Operands: pred bool[], then the inputs of both regions (`then`, `else`).
    """

    name = "cond"
    operands = ("pred", "*captures")

    def region_types(self, node: Node) -> tuple[TensorType, ...]:
        if node.operands[0].type != TensorType((), dtypes.bool_):
            raise TypeError(f"cond needs a bool[] predicate, got {node.operands[0].type}")
        then, other = node.regions
        for what, region in (("then branch", then), ("else branch", other)):
            check_inputs(what, region, [v.type for v in node.operands[1:]])
        types = tuple(v.type for v in then.outputs)
        if types != tuple(v.type for v in other.outputs):
            raise TypeError("the branches of cond give different types")
        return types


@register
class While(Control):
    """Repeat while a test holds.

    Operands: carried values, then captures. Regions: test (-> bool[]) and body (-> carried),
    both over all operands. Results: the final carried values.

    Attributes:
        carried: number of carried values.
    """

    name = "while"
    operands = ("*operands",)
    attrs = {"carried": REQUIRED}

    def region_types(self, node: Node) -> tuple[TensorType, ...]:
        test, body = node.regions
        types = [v.type for v in node.operands]
        check_inputs("loop test", test, types)
        check_inputs("loop body", body, types)
        if [v.type for v in test.outputs] != [TensorType((), dtypes.bool_)]:
            raise TypeError("a loop test must give one bool[]")
        carried = types[: node.attrs["carried"]]
        if [v.type for v in body.outputs] != carried:
            raise TypeError("a loop body must give the types it carries")
        return tuple(carried)


@register
class Scan(Control):
    """A loop of a known number of trips over the leading axis of sequences.

    Operands: carried, sequences of leading size `length`, the limit if there is one (int64[]),
    captures. The body takes carried, one
    row of each sequence, the step (int64[]), captures; it gives carried, then rows of outputs.
    Results: final carried, then outputs stacked along a new leading axis.

    Attributes:
        carried, sequences, length: counts.
        reverse: walk from the last row to the first (outputs keep their places).
        saved: the outputs include all that a gradient may read; none is added.
        limited: only so many trips are made as the limit says, if that is less than `length`.
            The others are the last rows; what is in those of the outputs is not defined.
        stepwise: the gradient adds contributions in the order of the unrolled loop, none
            summed over all steps after it.
    """

    name = "scan"
    operands = ("*operands",)
    attrs = {"carried": REQUIRED, "sequences": REQUIRED, "length": REQUIRED, "reverse": False,
             "saved": False, "limited": False, "stepwise": False}

    def region_types(self, node: Node) -> tuple[TensorType, ...]:
        (body,) = node.regions
        n, k = node.attrs["carried"], node.attrs["sequences"]
        length = node.attrs["length"]
        types = [v.type for v in node.operands]
        for t in types[n : n + k]:
            if not t.rank or t.shape[0] != length:
                raise TypeError(f"scan over {length} rows is given the sequence {t}")
        rows = [t.with_shape(t.shape[1:]) for t in types[n : n + k]]
        index = TensorType((), dtypes.int64)
        if node.attrs["limited"] and types[n + k : n + k + 1] != [index]:
            raise TypeError("the limit of a scan must be an int64[]")
        captures = types[n + k + bool(node.attrs["limited"]) :]
        check_inputs("scan body", body, [*types[:n], *rows, index, *captures])
        if [v.type for v in body.outputs[:n]] != types[:n]:
            raise TypeError("a scan body must give the types it carries")
        stacked = [v.type.with_shape((length, *v.type.shape)) for v in body.outputs[n:]]
        return (*types[:n], *stacked)


@register
class StopGradient(Op):
    """The input itself; no gradient passes. Source: `mindspore.ops.stop_gradient`."""

    name = "stop_gradient"
    may_alias = True
    simplify = _identities.operand
    batch_axis = _batch_axis.aligned
    dtypes = ANY
    cost = "free"
    batch = pointwise

    def infer(self, x: TensorType) -> TensorType:
        return x

    def reference(self, x: Array) -> Array:
        return x

    def value(self, r: Reader, idx: tuple[Index, ...]) -> Expr:
        return r.read(0, idx)

    def gradient(self, b: Builder, node: Node, dys: Sequence[Value | None]) -> list[None]:
        return [None]

    def samples(self) -> Sequence[Sample]:
        return (Sample((Spec((3, 5)),), grad=False),)


@register
class Print(Op):
    """Print tensors at run time, in program order (a host callback).

    Attributes:
        parts: the format: a string prints itself, None stands for the next operand, and so does
            a triple of strings (kind of number, style, specification).
    """

    name = "print"
    operands = ("*tensors",)
    attrs = {"parts": REQUIRED}
    dtypes = ANY
    effect = True
    differentiable = False

    def infer(self, *types: TensorType, parts: tuple[Any, ...]) -> tuple[TensorType, ...]:
        if sum(not isinstance(p, str) for p in parts) != len(types):
            raise TypeError("print needs one operand for each part that is no string")
        return ()

    def reference(self, *arrays: Array, parts: tuple[Any, ...]) -> tuple[Array, ...]:
        return ()


@register
class CustomGrad(Control):
    """A graph with a gradient of its own (a Cell's `bprop`).

    Regions: the forward graph over the operands; the gradient graph over operands, results and
    cotangents of the results, giving one cotangent for each operand.

    Attributes:
        none: the operands that get no cotangent at all (what the gradient graph gives for them
            is not read).
    """

    name = "custom_grad"
    inlined = True
    gradient_regions = 1
    operands = ("*operands",)
    attrs = {"none": ()}

    def region_types(self, node: Node) -> tuple[TensorType, ...]:
        forward, backward = node.regions
        types = [v.type for v in node.operands]
        results = [v.type for v in forward.outputs]
        check_inputs("custom forward graph", forward, types)
        check_inputs("custom gradient", backward, [*types, *results, *results])
        if [v.type for v in backward.outputs] != types:
            raise TypeError("a custom gradient must give one cotangent of each operand's type")
        return tuple(results)
