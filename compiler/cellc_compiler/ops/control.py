"""Control flow, markers and effects: cond, while, scan, stop_gradient, print, check, host_call.

`check` is the one op that can end a call with an error. Code for it returns from `cellc_main` at
once with the number of a message, so no later effect in program order is seen, no update is written
and no result is returned.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from cellc_runtime import dtypes
from cellc_runtime.dtypes import DType, bool_
from cellc_runtime.errors import RUN_ERRORS, message_text, run_error
from cellc_runtime.lazy import hashlib

from ..ir import attributes as attr
from ..ir.graph import Builder, Graph, Node, Value
from ..ir.op import ANY, Array, Cost, Op, Sample
from ..ir.types import TensorType
from ..loops.expr import Expr, Reader
from ..loops.index import Index
from . import _batch_axis, _identities
from ._members import Grads, case, no_gradient, sharding
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
        """Result types from operands and regions. Raises TypeError if the regions and operands do
        not fit."""
        raise TypeError(f"{self.name} has no regions")


def _always(self: Any, node: Node) -> bool:
    return True


class Cond(Control):
    """One of two graphs, chosen at run time by a bool scalar.

    Operands: pred bool[], then the inputs of both regions (`then`, `else`).
    """

    name = "cond"
    operands = ("pred", "*captures")
    unrolled = _always

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

    def captures(self, node: Node) -> int:
        return len(node.operands) - 1


class While(Control):
    """Repeat while a test holds.

    Operands: carried values, then captures. Regions: test (-> bool[]) and body (-> carried),
    both over all operands. Results: the final carried values.

    Attributes:
        carried: number of carried values.
    """

    name = "while"
    operands = ("*operands",)
    attrs = {"carried": attr.size()}
    unrolled = _always

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

    def captures(self, node: Node) -> int:
        return len(node.operands) - int(node.attrs["carried"])


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
        limited: the loop makes at most the limit's number of trips, if that is less than `length`.
            The others are the last rows; what is in those of the outputs is not defined.
        stepwise: the gradient adds contributions in the order of the unrolled loop, none
            summed over all steps after it.
    """

    name = "scan"
    operands = ("*operands",)
    attrs = {"carried": attr.size(), "sequences": attr.size(), "length": attr.size(),
             "reverse": attr.flag(False),
             "saved": attr.flag(False), "limited": attr.flag(False), "stepwise": attr.flag(False)}

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

    def captures(self, node: Node) -> int:
        own = node.attrs["carried"] + node.attrs["sequences"] + node.attrs["limited"]
        return len(node.operands) - int(own)

    def unrolled(self, node: Node) -> bool:
        return bool(node.attrs["stepwise"])


def _element(self: Any, r: Reader, idx: tuple[Index, ...]) -> Expr:
    return r.read(0, idx)


class Same(Op):
    """Base of ops that give their first operand."""

    dtypes = ANY
    cost: ClassVar[Cost] = "free"
    value: Callable[..., Any] | None = _element

    def infer(self, x: TensorType, *others: TensorType) -> TensorType:
        return x

    def reference(self, x: Array, *others: Array, **attrs: Any) -> Array:
        return x

    def gradient(self, b: Builder, node: Node, dys: Grads) -> Grads:
        return [dys[0], *(None for _ in node.operands[1:])]


class StopGradient(Same):
    """The input itself; no gradient passes. Source: `mindspore.ops.stop_gradient`."""

    name = "stop_gradient"
    may_alias = True
    simplify = _identities.operand
    batch_axis = _batch_axis.aligned
    batch = pointwise
    gradient = no_gradient

    def samples(self) -> Sequence[Sample]:
        return (case((3, 5), grad=False),)


class Print(Op):
    """Print tensors at run time, in program order (a host callback).

    Attributes:
        parts: the format: a string prints itself, None stands for the next operand, and so does
            a triple of strings (kind of number, style, specification).
    """

    name = "print"
    operands = ("*tensors",)
    attrs = {"parts": attr.tuple_of(attr.any_of(str, tuple, None))}
    dtypes = ANY
    effect = True
    differentiable = False

    def callback_name(self, node: Node) -> str:
        return "print " + hashlib.sha256(repr(node.attrs["parts"]).encode()).hexdigest()[:16]

    def infer(self, *types: TensorType, parts: tuple[Any, ...]) -> tuple[TensorType, ...]:
        if sum(not isinstance(p, str) for p in parts) != len(types):
            raise TypeError("print needs one operand for each part that is no string")
        return ()

    def reference(self, *arrays: Array, parts: tuple[Any, ...]) -> tuple[Array, ...]:
        return ()


class CustomGrad(Control):
    """A graph with a gradient of its own (a Cell's `bprop`).

    Regions: the forward graph over the operands; the gradient graph over operands, results and
    cotangents of the results, giving one cotangent for each operand.

    Attributes:
        none: the operands that get no cotangent at all (what the gradient graph gives for them
            is not read).
        rule: whose gradient it is, as messages name it; "" for one of the library.
        differs: whether the user declares that it is not the derivative.
    """

    name = "custom_grad"
    inlined = True
    gradient_regions = 1
    operands = ("*operands",)
    attrs = {"none": attr.tuple_of(attr.size(), None, ()), "rule": attr.text(""),
             "differs": attr.flag(False)}

    def region_types(self, node: Node) -> tuple[TensorType, ...]:
        forward, backward = node.regions
        types = [v.type for v in node.operands]
        results = [v.type for v in forward.outputs]
        check_inputs("custom forward graph", forward, types)
        check_inputs("custom gradient", backward, [*types, *results, *results])
        if [v.type for v in backward.outputs] != types:
            raise TypeError("a custom gradient must give one cotangent of each operand's type")
        return tuple(results)


# --- errors and Python functions ------------------------------------------------------------------


class Check(Op):
    """Raise unless every element of the first operand is in [low, high).

    A condition is a bool operand with low 1 and high 2. Further operands are what the message
    shows.

    Attributes:
        low: the least element allowed; `high` the first one above those allowed.
        error: the kind of error, the name of a builtin exception.
        parts: the message: a string stands for itself, None for the next further operand, 0 for
            the first element that is not allowed.
        own: the qualified name of the user's exception class, or "".
        detail: the place in the user's source, for people.
    """

    name = "check"
    may_fail = True
    batch_axis = _batch_axis.none
    operands = ("checked", "*shown")
    attrs = {"low": attr.whole(default=1), "high": attr.whole(default=2),
             "error": attr.choice(*RUN_ERRORS),
             "parts": attr.tuple_of(attr.any_of(str, int, None)), "own": attr.text(""),
             "detail": attr.text("")}
    effect = True
    differentiable = False

    def infer(
        self, checked: TensorType, *shown: TensorType, low: int, high: int, error: str,
        parts: tuple[Any, ...], own: str, detail: str,
    ) -> tuple[TensorType, ...]:
        if not checked.dtype.is_integer and checked.dtype is not dtypes.bool_:
            raise TypeError(f"check needs ints or bools, got {checked}")
        if sum(p is None for p in parts) != len(shown):
            raise TypeError("check needs one further operand for each None of its parts")
        return ()

    def reference(
        self, checked: Array, *shown: Array, low: int, high: int, error: str,
        parts: tuple[Any, ...], own: str, detail: str,
    ) -> tuple[Array, ...]:
        flat = np.asarray(checked).reshape(-1)
        bad = flat[(flat < low) | (flat >= high)]
        if bad.size:
            text = message_text(parts, bad[0], shown, str)
            raise run_error(error, text, "", 0, detail)
        return ()


class HostCall(Op):
    """Call a Python function at run time, in program order.

    The function is not part of the graph: it is known to who traced it, by number.

    Attributes:
        number: of the function.
        name: of the function, for messages.
        results: (dtype, shape) of each result.
    """

    name = "host_call"
    may_fail = True
    operands = ("*tensors",)
    attrs = {"number": attr.size(), "name": attr.text(),
             "results": attr.tuple_of(attr.tuple_of(attr.any_of(DType, tuple), 2))}
    dtypes = ANY
    effect = True
    differentiable = False

    def callback_name(self, node: Node) -> str:
        return f"call {node.attrs['number']} ({node.attrs['name']})"

    def why_no_gradient(self, node: Node) -> str:
        name = node.attrs["name"]
        if not name.startswith("the attribute "):
            return f"the gradient of the Python function {name}() is not known: give it a bprop"
        return (f"the gradient of {name} is not known where it is read, at {node.span}: it was set "
                "within a graph of its own (a branch, a loop, a function that is differentiated); "
                "return the value from there instead")

    def infer(
        self, *types: TensorType, number: int, name: str,
        results: tuple[tuple[DType, tuple[int, ...]], ...],
    ) -> tuple[TensorType, ...]:
        return tuple(TensorType(shape, dtype) for dtype, shape in results)

    def reference(self, *arrays: Array, number: int, name: str, results: Any) -> Any:
        raise TypeError(f"the Python function {name}() is not part of the graph")


# --- recomputation, order without data, where backward parts begin: what gradients are made of ----


class Recompute(Control):
    """A graph that its gradient computes again from the operands, instead of reading what it left.

    Regions: the graph over the operands, which gives the results.

    Attributes:
        results: other gradients that read the results compute them again too.
    """

    name = "recompute"
    inlined = True
    unrolled = _always
    operands = ("*operands",)
    attrs = {"results": attr.flag(False)}

    def region_types(self, node: Node) -> tuple[TensorType, ...]:
        (body,) = node.regions
        check_inputs("recomputed graph", body, [v.type for v in node.operands])
        return tuple(v.type for v in body.outputs)


class After(Same):
    """The first operand, once the others are known: what reads it is computed after them.

    Gradients pass to the first operand.
    """

    name = "after"
    may_alias = True
    batch_axis = _batch_axis.first
    operands = ("x", "*others")

    def samples(self) -> Sequence[Sample]:
        return (case((3, 5), (2,)), case((0, 4)), case((), (4, 3), (0,)))


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
        return b.where(condition, x, y)

    def samples(self) -> Sequence[Sample]:
        yes, no = (np.array(True), np.array(False))
        return (case(yes, (3, 5), (3, 5)), case(no, (2,), (2,)), case(no, (0, 4), (0, 4)),
                case(yes, (), ()))


class Alias(Op):
    """The first operand, which is another one where a flag says so.

    Operands: the value, then pairs of a bool[] and another value; at most one of the bools is true,
    and then both values are the same. The gradient passes to that other value
    (`autodiff/aliases.py`), which the first operand is a name of.
    """

    name = "alias"
    operands = ("x", "*pairs")
    dtypes = ANY

    def infer(self, x: TensorType, *pairs: TensorType) -> TensorType:
        if len(pairs) % 2 or any(f != TensorType((), bool_) for f in pairs[::2]):
            raise TypeError("an alias needs pairs of a bool[] and a value")
        for other in pairs[1::2]:
            if other != x:
                raise TypeError(f"the values of an alias must have one type, got {x} and {other}")
        return x

    def expand(self, b: Builder, x: Value, *pairs: Value) -> Value:
        return x

    def samples(self) -> Sequence[Sample]:
        no = np.array(False)
        return (case((3, 5), no, (3, 5)), case((2,)), case((0, 4), no, (0, 4)), case((), no, ()))


class MicroResult(Same):
    """The operand, what a network gives for a micro-batch.

    Gradients of micro-batches are added in their order (`passes/stages/micro_batches.py`).

    Attributes:
        index: which micro-batch, counted from 0.
    """

    name = "micro_result"
    attrs = {"index": attr.size()}
    may_alias = True
    simplify = _identities.operand
    batch_axis = _batch_axis.aligned
    batch = pointwise

    def infer(self, x: TensorType, **attrs: Any) -> TensorType:
        return x

    def samples(self) -> Sequence[Sample]:
        return (case((3, 5), index=1), case((), index=0))


class Cotangent(Same):
    """The operand, a cotangent that a backward part starts from: what depends on it is backward.

    Each gradient that a graph computes has its own, so that the recomputation chosen for a budget
    (`passes/rematerialize.py`) can tell what runs before it from what runs after it.
    """

    name = "cotangent"
    unique = True
    operands = ("x",)
    value = None

    def factors(self, node: Node) -> sharding.Factors:
        return sharding.aligned_factors(node)

    def expand(self, b: Builder, x: Value) -> Value:
        return x

    def samples(self) -> Sequence[Sample]:
        return (case((3, 5)), case((0, 4)))
