"""Shape ops: constants and views (reshape, transpose, broadcast, slice, concat, pad, ...).

A view is a map of indices; it costs nothing when it fuses into its reader.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..ir.graph import Builder, Literal, Node, Value
from ..ir.op import ANY, REQUIRED, Array, Op, Sample, Spec, register
from ..ir.types import Shape, TensorType, broadcast_shapes
from ..loops.expr import Expr, Reader
from ..loops.index import Index, ravel, unravel


@register
class Constant(Op):
    """A literal array. Attribute `value` is a `Literal`."""

    name = "constant"
    operands = ()
    attrs = {"value": REQUIRED}
    dtypes = ANY
    cost = "free"

    def infer(self, *, value: Literal) -> TensorType:
        return value.type

    def reference(self, *, value: Literal) -> Array:
        return value.array

    def gradient(self, b: Builder, node: Node, dys: Sequence[Value | None]) -> list[Value]:
        return []


@register
class Reshape(Op):
    """The same elements in row-major order under another shape. Source: `mindspore.ops.reshape`.

    Attributes:
        shape: result shape, all non-negative (the frontend resolves -1).
    """

    name = "reshape"
    attrs = {"shape": REQUIRED}
    dtypes = ANY
    cost = "free"

    def infer(self, x: TensorType, *, shape: Shape) -> TensorType:
        out = x.with_shape(shape)
        if out.size != x.size:
            raise ValueError(
                f"cannot reshape {x} of {x.size} elements to {tuple(shape)} of {out.size}"
            )
        return out

    def reference(self, x: Array, *, shape: tuple[int, ...]) -> Array:
        return np.reshape(x, shape)

    def gradient(self, b: Builder, node: Node, dys: Sequence[Value | None]) -> list[Value]:
        return [b.reshape(dys[0], shape=node.operands[0].type.shape)]

    def value(self, r: Reader, idx: tuple[Index, ...]) -> Expr:
        return r.read(0, unravel(ravel(idx, r.out[0].dims), r.types[0].dims))

    def samples(self) -> Sequence[Sample]:
        return (Sample((Spec((4, 6)),), {"shape": (3, 8)}), Sample((Spec((5,)),), {"shape": (1, 5)}),
                Sample((Spec(()),), {"shape": (1, 1)}), Sample((Spec((0, 3)),), {"shape": (3, 0)}))


@register
class BroadcastTo(Op):
    """Repeat along axes of size 1 and new leading axes. Source: `mindspore.ops.broadcast_to`.

    Attributes:
        shape: result shape.
    """

    name = "broadcast_to"
    attrs = {"shape": REQUIRED}
    dtypes = ANY
    cost = "free"

    def infer(self, x: TensorType, *, shape: Shape) -> TensorType:
        if broadcast_shapes(x.shape, tuple(shape), "broadcast_to") != tuple(shape):
            raise ValueError(f"cannot broadcast {x} to {tuple(shape)}")
        return x.with_shape(shape)

    def reference(self, x: Array, *, shape: tuple[int, ...]) -> Array:
        return np.broadcast_to(x, shape)

    def gradient(self, b: Builder, node: Node, dys: Sequence[Value | None]) -> list[Value]:
        from .elementwise import unbroadcast

        dy = dys[0]
        assert dy is not None
        return [unbroadcast(b, dy, node.operands[0].type)]

    def value(self, r: Reader, idx: tuple[Index, ...]) -> Expr:
        return r.broadcast(0, idx)

    def samples(self) -> Sequence[Sample]:
        return (Sample((Spec((4, 1)),), {"shape": (3, 4, 5)}), Sample((Spec(()),), {"shape": (7,)}))


@register
class Transpose(Op):
    """Axes permuted. Source: `mindspore.ops.transpose`.

    Attributes:
        perm: axis `i` of the result is axis `perm[i]` of the input.
    """

    name = "transpose"
    attrs = {"perm": REQUIRED}
    dtypes = ANY
    cost = "free"

    def infer(self, x: TensorType, *, perm: tuple[int, ...]) -> TensorType:
        if sorted(perm) != list(range(x.rank)):
            raise ValueError(f"perm {tuple(perm)} is no permutation of the {x.rank} axes of {x}")
        return x.with_shape(x.shape[p] for p in perm)

    def reference(self, x: Array, *, perm: tuple[int, ...]) -> Array:
        return np.transpose(x, perm)

    def gradient(self, b: Builder, node: Node, dys: Sequence[Value | None]) -> list[Value]:
        perm = node.attrs["perm"]
        return [b.transpose(dys[0], perm=tuple(perm.index(i) for i in range(len(perm))))]

    def value(self, r: Reader, idx: tuple[Index, ...]) -> Expr:
        perm = r.attrs["perm"]
        return r.read(0, tuple(idx[perm.index(i)] for i in range(len(perm))))

    def samples(self) -> Sequence[Sample]:
        return (Sample((Spec((3, 4, 5)),), {"perm": (2, 0, 1)}),
                Sample((Spec((17, 33)),), {"perm": (1, 0)}))
