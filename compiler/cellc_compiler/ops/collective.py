"""Collectives: what the ranks of a group compute together. Source: MPI 4.1, MindSpore's names.

A node is what one rank does; all ranks of its group run one like it, in the same order, with the
same attributes and types. `cellc_runtime.collectives` defines the arithmetic.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from cellc_runtime import collectives
from cellc_runtime.dtypes import DType
from cellc_runtime.world import Step

from ..ir import attributes as attr
from ..ir.graph import Builder, Node, Value
from ..ir.op import ANY, NUMBERS, REAL, Array, Op, Sample
from ..ir.types import TensorType
from . import _batch_axis, _identities
from ._members import Grads, case, define
from .batching import Flags, Results, Values, all_lifted, along, to_front
from .control import Same
from .elementwise import check_dtype


def _together(self: Any, b: Builder, node: Node, xs: Values, mapped: Flags, n: int) -> Results:
    """All examples in one collective, which treats every element alike."""
    return b.node(node.op, all_lifted(b, xs, mapped, n), node.attrs).results


def _in_rows(self: Any, b: Builder, node: Node, xs: Values, mapped: Flags, n: int) -> Results:
    """Batch all examples in one collective of rows: their axis follows the axis of rows."""
    (x,) = all_lifted(b, xs, mapped, n)
    (y,) = b.node(node.op, [to_front(b, x, 1)], node.attrs).results
    return [to_front(b, y, 1)]


_RANKS = attr.tuple_of(attr.size())
_REDUCTION = attr.choice(*collectives.REDUCTIONS, default="sum")


class _Exchange(Op):
    """Base of what ranks do together: the host does it, in the program's order."""

    effect = True
    collective = True
    may_fail = True
    dtypes = ANY

    def callback_name(self, node: Node) -> str:
        return collectives.callback_name(self.name, node.attrs)


class Collective(_Exchange):
    """Base of what a group of ranks does with a tensor of each.

    Attributes:
        ranks: the group, by the ranks' numbers among all; their order is that of parts and sums.
    """

    operands = ("x",)
    attrs = {"ranks": _RANKS}

    def infer(self, x: TensorType, ranks: tuple[int, ...], **attrs: Any) -> TensorType:
        if not ranks or len(set(ranks)) != len(ranks):
            raise ValueError(f"{self.name}: expected a group of different ranks, got {ranks}")
        root = attrs.get("root", ranks[0])
        if root not in ranks:
            raise ValueError(f"{self.name}: the rank {root} is not in the group {ranks}")
        return self.shaped(x, len(ranks), **attrs)

    def shaped(self, x: TensorType, count: int, **attrs: Any) -> TensorType:
        """Return the result's type for a number of ranks."""
        return x

    def reference(self, x: Array, ranks: tuple[int, ...], **attrs: Any) -> Array:
        text = collectives.described(self.name, x, attrs)
        done: Array = collectives.perform(self.name, Step(text, tuple(ranks)), x, **attrs)
        return done

    def samples(self) -> Sequence[Sample]:
        return (case((4, 3), ranks=(0,)), case((2,), ranks=(0,)))


def _cut(name: str, x: TensorType, axis: int, count: int) -> TensorType:
    if not 0 <= axis < len(x.shape) or x.shape[axis] % count:
        raise ValueError(f"{name}: axis {axis} of {x} is cut into {count} equal parts, one for "
                         "each rank of the group")
    return _axis(x, axis, x.shape[axis] // count)


def _axis(x: TensorType, axis: int, size: int) -> TensorType:
    return TensorType((*x.shape[:axis], size, *x.shape[axis + 1 :]), x.dtype)


class _Reducing(Collective):
    """Base of what adds up (or reduces otherwise) over the ranks.

    Attributes:
        reduction: `"sum"`, `"prod"`, `"min"` or `"max"`, in the order of the ranks.
    """

    dtypes = NUMBERS
    attrs = {"reduction": _REDUCTION, "ranks": _RANKS}

    def infer(self, x: TensorType, ranks: tuple[int, ...], **attrs: Any) -> TensorType:
        check_dtype(self, x)
        reduction = attrs["reduction"]
        if x.dtype.kind == "complex" and reduction in ("min", "max"):
            raise TypeError(f"{self.name}: complex numbers have no {reduction}")
        return super().infer(x, ranks, **attrs)


def _chosen(b: Builder, node: Node, dy: Value) -> Value:
    """The cotangent of operands that an extreme was chosen among, or that were multiplied."""
    x, y = node.operands[0], node.results[0]
    total = b.emit("all_reduce", dy, reduction="sum", ranks=node.attrs["ranks"])
    if node.attrs["reduction"] == "prod":
        return b.mul(total, b.div(y, x))
    return b.where(b.eq(x, y), total, b.zeros_like(x))


class AllReduce(_Reducing):
    """The sum (or another reduction) over the ranks, on each of them.

    The gradient of a sum adds up the cotangents of all ranks; an extreme's goes to all operands
    that are equal to it, a product's is y / x of it.
    """

    name = "all_reduce"
    batch = _together

    def gradient(self, b: Builder, node: Node, dys: Grads) -> Grads:
        if node.attrs["reduction"] == "sum":
            return [b.emit("all_reduce", dys[0], **node.attrs)]
        return [_chosen(b, node, dys[0])]


class ReduceScatter(_Reducing):
    """This rank's part, along the first axis, of the sum over the ranks."""

    name = "reduce_scatter"
    batch = _in_rows

    def shaped(self, x: TensorType, count: int, **attrs: Any) -> TensorType:
        return _cut(self.name, x, 0, count)

    def gradient(self, b: Builder, node: Node, dys: Grads) -> Grads:
        _sum_alone(node)
        return [b.emit("all_gather", dys[0], ranks=node.attrs["ranks"])]


_OF_LIBRARIES = tuple(t for t in REAL if t.name not in ("int16", "uint16"))
"""The types that libraries of devices add up."""


for _ordered in (AllReduce, ReduceScatter):
    define(_ordered, f"any_order_{_ordered.name}",
           f"""`{_ordered.name}` by a device's own library, which adds in an order of its own.

    The pass `slices` of `numerics="fast"` makes it; it has no public function.
    """, dtypes=_OF_LIBRARIES)


class ReduceTo(_Reducing):
    """The sum over the ranks, on the rank `root`; zeros on the others.

    Attributes:
        root: the rank that gets it.
    """

    name = "reduce_to"
    batch = _together
    attrs = {"reduction": _REDUCTION, "root": attr.size(), "ranks": _RANKS}

    def samples(self) -> Sequence[Sample]:
        return (case((4, 3), root=0, ranks=(0,)),)

    def gradient(self, b: Builder, node: Node, dys: Grads) -> Grads:
        _sum_alone(node)
        return [b.emit("broadcast_from", dys[0], **_rooted(node))]


def _sum_alone(node: Node) -> None:
    if node.attrs["reduction"] != "sum":
        raise TypeError(f"{node.op} has a gradient for sums alone, not for "
                        f"{node.attrs['reduction']!r}")


def _rooted(node: Node) -> dict[str, Any]:
    return {"root": node.attrs["root"], "ranks": node.attrs["ranks"]}


class AllGather(Collective):
    """The arrays of all ranks, along the first axis, on each of them."""

    name = "all_gather"
    batch = _in_rows

    def shaped(self, x: TensorType, count: int, **attrs: Any) -> TensorType:
        if not x.shape:
            raise ValueError(f"all_gather: expected a first axis, got {x}")
        return _axis(x, 0, x.shape[0] * count)

    def gradient(self, b: Builder, node: Node, dys: Grads) -> Grads:
        return [b.emit("reduce_scatter", dys[0], reduction="sum", ranks=node.attrs["ranks"])]


class _Rooted(Collective):
    """Base of what one rank gives or gets.

    Attributes:
        root: that rank.
    """

    attrs = {"root": attr.size(), "ranks": _RANKS}
    adjoint: ClassVar[str]

    def gradient(self, b: Builder, node: Node, dys: Grads) -> Grads:
        return [b.emit(self.adjoint, dys[0], **_rooted(node))]

    def samples(self) -> Sequence[Sample]:
        return (case((4, 3), root=0, ranks=(0,)), case((2,), root=0, ranks=(0,)))


define(_Rooted, "broadcast_from", "The array of the rank `root`, on each.", batch=_together,
       adjoint="reduce_to")


class GatherTo(_Rooted):
    """The arrays of all ranks, along the first axis, on the rank `root`; zeros on the others."""

    name = "gather_to"
    batch = _in_rows
    adjoint = "scatter_from"

    def shaped(self, x: TensorType, count: int, **attrs: Any) -> TensorType:
        if not x.shape:
            raise ValueError(f"gather_to: expected a first axis, got {x}")
        return _axis(x, 0, x.shape[0] * count)


class ScatterFrom(_Rooted):
    """This rank's part, along the first axis, of what the rank `root` gives."""

    name = "scatter_from"
    batch = _in_rows
    adjoint = "gather_to"

    def shaped(self, x: TensorType, count: int, **attrs: Any) -> TensorType:
        return _cut(self.name, x, 0, count)


class AllToAll(Collective):
    """`x` cut along one axis, a part for each rank; what comes is put together along another.

    Attributes:
        split_axis: along which it is cut.
        concat_axis: along which it is put together.
    """

    name = "all_to_all"
    batch = along("split_axis", "concat_axis")
    attrs = {"split_axis": attr.axis(), "concat_axis": attr.axis(), "ranks": _RANKS}

    def shaped(self, x: TensorType, count: int, **attrs: Any) -> TensorType:
        split, concat = attrs["split_axis"], attrs["concat_axis"]
        part = _cut(self.name, x, split, count)
        if not 0 <= concat < len(x.shape):
            raise ValueError(f"all_to_all: {x} has no axis {concat}")
        return _axis(part, concat, part.shape[concat] * count)

    def gradient(self, b: Builder, node: Node, dys: Grads) -> Grads:
        a = node.attrs
        return [b.emit(self.name, dys[0], split_axis=a["concat_axis"],
                       concat_axis=a["split_axis"], ranks=a["ranks"])]

    def samples(self) -> Sequence[Sample]:
        return (case((4, 3), split_axis=0, concat_axis=1, ranks=(0,)),)


class AllToAllV(Collective):
    """Consecutive rows of `x` for each rank; the rows of each, one after the other.

    Attributes:
        send_sizes: how many rows go to each rank.
        receive_sizes: how many come from each.
    """

    name = "all_to_all_v"
    batch = _in_rows
    attrs = {"send_sizes": attr.shape(), "receive_sizes": attr.shape(), "ranks": _RANKS}

    def shaped(self, x: TensorType, count: int, **attrs: Any) -> TensorType:
        send, receive = attrs["send_sizes"], attrs["receive_sizes"]
        if len(send) != count or len(receive) != count:
            raise ValueError(f"all_to_all_v: expected {count} sizes to send and to receive, one "
                             f"for each rank, got {send} and {receive}")
        if not x.shape or sum(send) != x.shape[0]:
            raise ValueError(f"all_to_all_v: {sum(send)} rows are to be sent, of {x}")
        return _axis(x, 0, sum(receive))

    def gradient(self, b: Builder, node: Node, dys: Grads) -> Grads:
        a = node.attrs
        return [b.emit(self.name, dys[0], send_sizes=a["receive_sizes"],
                       receive_sizes=a["send_sizes"], ranks=a["ranks"])]

    def samples(self) -> Sequence[Sample]:
        return (case((4, 3), send_sizes=(4,), receive_sizes=(4,), ranks=(0,)),)


class LayOut(Same):
    """The input itself, marked with its layout over the ranks. The pass that derives the graph of
    one rank reads these marks (`passes/sharding/`).

    Attributes:
        matrix: the ranks as an array: its sizes.
        layout: for each axis of the input the axes of that array that cut it, major first.
    """

    name = "lay_out"
    attrs = {"matrix": attr.tuple_of(attr.size(least=1)), "layout": attr.tuple_of(attr.axes())}
    may_alias = True
    simplify = _identities.operand
    batch_axis = _batch_axis.aligned

    def infer(self, x: TensorType, *, matrix: tuple[int, ...],
              layout: tuple[tuple[int, ...], ...]) -> TensorType:
        if any(not 0 <= a < len(matrix) for c in layout for a in c):
            raise ValueError(f"the layout {layout} is none over the ranks {matrix}")
        if len(layout) != x.rank:
            raise ValueError(f"a layout of {len(layout)} axes was given for {x}")
        for axis, (size, cut) in enumerate(zip(x.dims, layout, strict=True)):
            parts = math.prod(matrix[a] for a in cut)
            if size % parts:
                raise ValueError(f"axis {axis} of {x} cannot be divided into {parts} equal parts, "
                                 "one for each rank")
        return x

    def gradient(self, b: Builder, node: Node, dys: Grads) -> Grads:
        return [b.emit(self.name, dys[0], **node.attrs)]

    def samples(self) -> Sequence[Sample]:
        return (case((4, 3), matrix=(2,), layout=((0,), ())),)


class SendTo(_Exchange):
    """Give a tensor to a rank.

    Attributes:
        rank: to whom.
        tag: which of several messages between two ranks it is.
    """

    name = "send_to"
    operands = ("x",)
    attrs = {"rank": attr.size(), "tag": attr.size(0)}
    differentiable = False

    def infer(self, x: TensorType, **attrs: Any) -> tuple[TensorType, ...]:
        return ()

    def reference(self, x: Array, **attrs: Any) -> tuple[Array, ...]:
        collectives.perform(self.name, Step(collectives.described(self.name, x), ()), x, **attrs)
        return ()


class ReceiveFrom(_Exchange):
    """A tensor that a rank gives by `send_to`.

    Attributes:
        rank: from whom.
        dtype, shape: its type.
        tag: see `send_to`.
    """

    name = "receive_from"
    operands = ()
    attrs = {"rank": attr.size(), "dtype": attr.element_type(), "shape": attr.shape(),
             "tag": attr.size(0)}
    differentiable = False

    def infer(self, dtype: DType, shape: tuple[int, ...], **attrs: Any) -> TensorType:
        return TensorType(shape, dtype)

    def reference(self, dtype: DType, shape: tuple[int, ...], **attrs: Any) -> Array:
        out = np.empty(shape, dtype.numpy)
        step = Step(collectives.described(self.name, out), ())
        collectives.perform(self.name, step, out, **attrs)
        return out
