"""The parts of ops' definitions: cotangents, short samples, members that many share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from cellc_runtime.lazy import lazy_imports

from ..ir.graph import Builder, Node, Value
from ..ir.op import Array, Op, Sample, Spec
from ..ir.types import normalize_axis

with lazy_imports(__name__):  # programs of several ranks ask
    from ..ir import sharding as sharding

Grads = Sequence[Any]
"""Cotangents, of the results or of the operands (None: none); that of an only result is there."""


def case(*operands: tuple[int, ...] | Spec | Array, grad: bool = True, **attrs: Any) -> Sample:
    """A sample of these attributes; a shape stands for an operand of the usual elements."""
    given = tuple(Spec(x) if isinstance(x, tuple) else x for x in operands)
    return Sample(given, attrs, grad)


def same_as(function: Callable[..., Any]) -> Callable[..., Any]:
    """The method `reference` of an op that is a function of numpy's, or of `_special`."""

    def reference(self: Any, *arrays: Array) -> Any:
        return function(*arrays)

    return reference


def no_gradient(self: Any, b: Builder, node: Node, dys: Grads) -> Grads:
    """The method `gradient` of an op that is constant piece by piece, or has no operands."""
    return [None] * len(node.operands)


def positioned_part(axis: str) -> Callable[..., Value]:
    """The method `part` of an op that reads or writes by positions along its attribute `axis`."""

    def part(self: Any, b: Builder, node: Node, operands: Sequence[Value],
             part: sharding.Part) -> Value:
        along = normalize_axis(node.attrs[axis], node.operands[0].type.rank)
        return sharding.positioned_part(b, node, operands, part, along)

    return part


def define(
    base: type[Op] | tuple[type[Op], ...], name: str, doc: str,
    numpy: Callable[..., Any] | None = None,
    pull: Callable[[Builder, Any, Value, Value], Any] | None = None, **facts: Any,
) -> None:
    """Make an op that is a few facts about its family: a class like any other.

    Args:
        base: the family, or several.
        name, doc: of the op.
        numpy: the function that its reference is; see `same_as`.
        pull: `pull(b, dy, x, y)`: the cotangent of the only operand x from that of the result y.
        facts: further members.
    """
    bases = base if isinstance(base, tuple) else (base,)
    members = {"__doc__": doc, "__module__": bases[0].__module__, "name": name, **facts}
    if numpy is not None:
        members["reference"] = same_as(numpy)
    if pull is not None:

        def gradient(self: Any, b: Builder, node: Node, dys: Grads) -> Grads:
            return [pull(b, dys[0], node.operands[0], node.result)]

        members["gradient"] = gradient
    type(name.title().replace("_", ""), bases, members)
