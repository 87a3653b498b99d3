"""Functional updates at run-time positions: scatter, scatter_elements, scatter_nd.

Updates are applied in the order of the positions, so duplicates are deterministic and the same
for any number of threads. A negative position counts from the end; one outside the axis is
skipped (MindSpore 2.10 raises on CPU in some of these ops and skips in others).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from cellc_runtime import dtypes

from ..ir import attributes as attr
from ..ir.dims import is_symbolic
from ..ir.graph import Builder, Node, Value
from ..ir.op import ANY, Array, Op, Sample, Spec
from ..ir.types import TensorType, normalize_axis, prod, show_shape
from ._members import Grads, case, positioned_part, sharding
from ._views import Composite, check_indices
from .batching import scattered
from .elementwise import same_dtype
from .gather import check_lines, check_points, wrap

MODES = ("update", "add", "sub", "mul", "div", "max", "min")

_APPLY: dict[str, Callable[[Array, Array], Array]] = {
    "update": lambda a, u: u, "add": np.add, "sub": np.subtract, "mul": np.multiply,
    "div": np.true_divide, "max": np.maximum, "min": np.minimum,
}


def apply_one(mode: str, a: Array, u: Array) -> Array:
    """Reference of one update; integer division rounds toward zero, x/0 is 0."""
    if mode == "div" and np.issubdtype(np.asarray(a).dtype, np.integer):
        safe = np.where(u == 0, 1, u)
        q = np.abs(a) // np.abs(safe) * np.sign(a) * np.sign(safe)
        return np.where(u == 0, 0, q)
    return _APPLY[mode](a, u)


def check_mode(name: str, mode: str, x: TensorType, update: TensorType,
               indices: TensorType) -> None:
    """A known mode that fits the dtype; operands of one dtype.

    Raises:
        ValueError: unknown mode.
        TypeError: a dtype that the mode or the op does not take.
    """
    check_indices(name, indices)
    same_dtype(name, x, update)
    allowed = {"bool": ("update",), "complex": ("update", "add", "sub")}
    if mode not in allowed.get(x.dtype.kind, MODES):
        raise TypeError(f"{name} with mode {mode!r} does not take {x}")


def _row(b: Builder, numbers: Sequence[int], like: Value) -> Value:
    """Numbers, which may follow from open sizes, as one row of this element type."""
    if not any(map(is_symbolic, numbers)):
        return b.literal(np.array(numbers, like.dtype.numpy).reshape(1, -1))
    each = [b.reshape(b.scalar(n, like=like), shape=(1, 1)) for n in numbers]
    return b.concat(*each, axis=1) if len(each) > 1 else each[0]


class _Updates(Op):
    """Base of what updates elements at positions."""

    operands = ("input", "indices", "updates")
    dtypes = ANY
    part = positioned_part("axis")

    def terms(self, node: Node) -> int:
        return 1 + node.operands[2].type.size  # all of them may go to one element

    def as_sum(self, attrs: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Return the sum of the old values and all updates, where they are added or subtracted."""
        return {**attrs, "mode": "add"} if attrs["mode"] in ("add", "sub") else None


class _Lines(_Updates):
    """Base of what does so element by element along an axis."""

    attrs = {"axis": attr.axis(0), "mode": attr.choice(*MODES, default="update")}

    def reference(self, x: Array, indices: Array, updates: Array, *, axis: int, mode: str) -> Array:
        k = axis % x.ndim
        i, inside = wrap(indices, x.shape[k])
        out = x.copy()
        for at in np.ndindex(*i.shape):
            if inside[at]:
                place = (*at[:k], int(i[at]), *at[k + 1:])
                out[place] = apply_one(mode, out[place], updates[at])
        return out


class _Scatter(_Updates):
    """Base of the scatter ops: operands (input, indices, updates), attribute `mode`.

    The gradients are those of a unique winner: `update` gives the cotangent to the last
    update of an element, `max` and `min` share it evenly among those that attain the result.
    """

    tolerance = 16.0

    def gather(self, b: Builder, x: Value, indices: Value, attrs: dict[str, Any]) -> Value:
        """The elements of `x` at the positions: shape of the updates."""
        raise TypeError(f"{self.name} has no gather")

    def again(self, b: Builder, x: Value, indices: Value, updates: Value,
              attrs: dict[str, Any], mode: str) -> Value:
        """The same op on other tensors."""
        return b.emit(self.name, x, indices, updates, **{**attrs, "mode": mode})

    def gradient(self, b: Builder, node: Node, dys: Grads) -> Grads:
        x, _, updates = node.operands
        if 0 in x.type.shape:  # every position is outside: nothing to gather from
            return [dys[0], None, b.zeros_like(updates)]
        rule = getattr(self, f"_grad_{node.attrs['mode']}")
        dx, du = rule(b, node, dys[0])
        return [dx, None, du]

    def _grad_add(self, b: Builder, node: Node, dy: Value) -> tuple[Value, Value]:
        return dy, self.gather(b, dy, node.operands[1], node.attrs)

    def _grad_sub(self, b: Builder, node: Node, dy: Value) -> tuple[Value, Value]:
        return dy, b.neg(self.gather(b, dy, node.operands[1], node.attrs))

    def _grad_update(self, b: Builder, node: Node, dy: Value) -> tuple[Value, Value]:
        x, indices, updates = node.operands
        dx = self.again(b, dy, indices, b.zeros_like(updates), node.attrs, "update")
        order = b.reshape(b.iota(shape=(updates.type.size,), axis=0), shape=updates.shape)
        none = b.full(x.type.with_dtype(dtypes.int64), -1)
        last = self.gather(
            b, self.again(b, none, indices, order, node.attrs, "update"), indices, node.attrs)
        du = self.gather(b, dy, indices, node.attrs)
        return dx, b.where(b.eq(last, order), du, b.zeros_like(du))

    def _grad_mul(self, b: Builder, node: Node, dy: Value) -> tuple[Value, Value]:
        x, indices, updates = node.operands
        dx = self.again(b, dy, indices, updates, node.attrs, "mul")
        zero = b.eq(updates, b.zeros_like(updates))
        safe = b.where(zero, b.full(updates.type, 1), updates)
        others = b.div(self.gather(b, b.mul(dy, node.result), indices, node.attrs), safe)
        # A zero hides what the other factors were; exact where it is the element's only update.
        alone = self.gather(b, b.mul(dy, x), indices, node.attrs)
        return dx, b.where(zero, alone, others)

    def _grad_div(self, b: Builder, node: Node, dy: Value) -> tuple[Value, Value]:
        _, indices, updates = node.operands
        dx = self.again(b, dy, indices, updates, node.attrs, "div")
        down = self.gather(b, b.mul(dy, node.result), indices, node.attrs)
        return dx, b.neg(b.div(down, updates))

    def _grad_max(self, b: Builder, node: Node, dy: Value) -> tuple[Value, Value]:
        x, indices, updates = node.operands
        out = node.result
        own = b.cast(b.eq(x, out), dtype=x.dtype)
        won = b.cast(b.eq(updates, self.gather(b, out, indices, node.attrs)), dtype=x.dtype)
        count = self.again(b, own, indices, won, node.attrs, "add")
        # A result without a winner is a NaN; it gets no gradient either way.
        share = b.div(dy, b.maximum(count, b.full(count.type, 1)))
        return b.mul(own, share), b.mul(won, self.gather(b, share, indices, node.attrs))

    _grad_min = _grad_max


def _adds_to_zeros(node: Node) -> bool:
    """Whether a scatter only adds its updates, so that parts of the updates result in partial
    sums."""
    base = node.operands[0].node
    if base is not None and base.op == "broadcast_to":
        base = base.operands[0].node
    return (node.attrs["mode"] == "add" and base is not None and base.is_constant
            and not base.attrs["value"].array.any())


class Scatter(_Scatter):
    """Slices along an axis updated in order: out[.., indices[s], ..] op= updates[.., s, ..].

    `updates` has the shape input.shape[:axis] + indices.shape[batch_dims:] +
    input.shape[axis+1:]. The adjoint of `gather`. Source: `mindspore.ops.index_add`.

    Attributes:
        axis: the axis of `input` that is addressed.
        mode: one of update, add, sub, mul, div, max, min.
        batch_dims: leading axes that input and indices share.
    """

    name = "scatter"
    opaque = True
    attrs = {"axis": attr.axis(0), "mode": attr.choice(*MODES, default="update"),
             "batch_dims": attr.axis(0)}
    batch = scattered

    def factors(self, node: Node) -> sharding.Factors:
        """The axes beside the one that is written along, that one, and those of the positions
        where what they say is added to zeros."""
        x, i = (v.type for v in node.operands[:2])
        k, shared = normalize_axis(node.attrs["axis"], x.rank), node.attrs["batch_dims"]
        index = range(x.rank, x.rank + i.rank - shared)
        own = tuple((a,) for a in range(x.rank))
        summed = frozenset(index if _adds_to_zeros(node) else ())
        between = tuple((a,) if a in summed else () for a in index)
        return sharding.Factors(
            (*x.dims, *i.dims[shared:]),
            (own, (*own[:shared], *between), (*own[:k], *between, *own[k + 1 :])), (own,), summed)

    def infer(self, x: TensorType, indices: TensorType, updates: TensorType, *, axis: int,
              mode: str, batch_dims: int) -> TensorType:
        check_mode("scatter", mode, x, updates, indices)
        k = normalize_axis(axis, x.rank)
        want = (*x.shape[:k], *indices.shape[batch_dims:], *x.shape[k + 1:])
        if (x.rank == 0 or not 0 <= batch_dims <= min(k, indices.rank)
                or x.shape[:batch_dims] != indices.shape[:batch_dims] or updates.shape != want):
            raise ValueError(f"scatter along axis {k} of {x} with indices of shape "
                             f"{show_shape(indices.shape)} needs updates of shape "
                             f"{show_shape(want)}, got {show_shape(updates.shape)}")
        return x

    def gather(self, b: Builder, x: Value, indices: Value, attrs: dict[str, Any]) -> Value:
        return b.gather(x, indices, axis=attrs["axis"], batch_dims=attrs["batch_dims"])

    def reference(self, x: Array, indices: Array, updates: Array, *, axis: int, mode: str,
                  batch_dims: int) -> Array:
        k = axis % x.ndim
        i, inside = wrap(indices, x.shape[k])
        out = x.copy()
        middle = i.shape[batch_dims:]
        for batch in np.ndindex(*i.shape[:batch_dims]):
            for s in np.ndindex(*middle):
                if inside[batch + s]:
                    free = (slice(None),) * (k - batch_dims)
                    place = (*batch, *free, int(i[batch + s]))
                    out[place] = apply_one(mode, out[place], updates[(*batch, *free, *s)])
        return out

    def samples(self) -> Sequence[Sample]:
        i = np.array([3, 0, -1])
        out: list[Sample] = []
        for mode in ("update", "add", "max"):
            out.append(case((5, 3), i, (3, 3), axis=0, mode=mode))
        twice = np.array([[1, 1], [4, 9]], np.int32)
        return (*out, case((2, 5, 17), twice, (2, 2, 2, 17), axis=1, mode="add"),
                case((2, 5), twice, (2, 2), axis=1, mode="update", batch_dims=1),
                case((4, 70), np.array(2), (70,), axis=0, mode="sub"),
                case((4,), np.zeros((0,), np.int64), (0,), mode="add"))


class ScatterLines(_Lines, _Scatter):
    """`scatter_elements` where indices and updates have the input's size on the other axes.

    Attributes:
        axis: the axis the positions are along.
        mode: one of update, add, sub, mul, div, max, min.
    """

    name = "scatter_lines"
    opaque = True

    def factors(self, node: Node) -> sharding.Factors:
        return sharding.line_factors(node, node.attrs["axis"], _adds_to_zeros(node))

    def infer(self, x: TensorType, indices: TensorType, updates: TensorType, *, axis: int,
              mode: str) -> TensorType:
        check_mode("scatter_elements", mode, x, updates, indices)
        k = normalize_axis(axis, x.rank)
        want = (*x.shape[:k], *indices.shape[k: k + 1], *x.shape[k + 1:])
        if x.rank == 0 or not indices.shape == updates.shape == want:
            raise ValueError(f"scatter_elements along axis {k} of {x} needs indices and updates of "
                             f"one shape, got {show_shape(indices.shape)} and "
                             f"{show_shape(updates.shape)}")
        return x

    def gather(self, b: Builder, x: Value, indices: Value, attrs: dict[str, Any]) -> Value:
        return b.gather_elements(x, indices, dim=attrs["axis"])

    def samples(self) -> Sequence[Sample]:
        i = np.array([[0, 2, 1], [-1, 3, 0]])
        j = np.array([[0, 0, 7], [1, 1, 1]], np.int32)
        u = (2, 3)
        return (case((4, 3), i, u, axis=0, mode="min"), case((4, 3), i, u, axis=0, mode="update"),
                case((2, 5), j, u, axis=1, mode="add"), case((2, 5), j, u, axis=1, mode="update"))


class ScatterElements(_Lines, Composite):
    """out[i, index[i, j], k] op= updates[i, j, k] for axis 1, in row-major order of `index`.

    Source: `mindspore.ops.tensor_scatter_elements`.

    Attributes:
        axis: the axis the positions are along; elsewhere indices may be shorter than input.
        mode: one of update, add, sub, mul, div, max, min.
    """

    name = "scatter_elements"

    def expand(self, b: Builder, x: Value, indices: Value, updates: Value, *, axis: int,
               mode: str) -> Value:
        check_lines("scatter_elements", x.type, indices.type, axis)
        k = normalize_axis(axis, x.type.rank)
        part = tuple(d if a == k else n
                     for a, (n, d) in enumerate(zip(indices.shape, x.shape, strict=True)))
        attrs = {"axis": k, "mode": mode}
        if part == x.shape:
            return b.emit("scatter_lines", x, indices, updates, **attrs)
        start = (0,) * x.type.rank
        inner = b.emit("scatter_lines", b.slice(x, start=start, stop=part), indices, updates,
                       **attrs)
        return b.update_slice(x, inner, start=start)

    def samples(self) -> Sequence[Sample]:
        i = np.array([[0, 2, 1], [-1, 3, 0]])
        return (case((4, 5), i, (2, 3), axis=0, mode="add"),
                case((3, 4), i, (2, 3), axis=1, mode="update"),
                case((4,), np.array([1, 1]), (2,), axis=0, mode="sub"),
                case((4, 2), np.zeros((0, 2), np.int64), (0, 2), mode="add"))


class ScatterNd(_Updates, Composite):
    """Slices at points updated in order: indices (..., k) address the first k axes of input.

    `updates` has the shape indices.shape[:-1] + input.shape[k:].
    Source: `mindspore.ops.tensor_scatter_update` and its kin.

    Attributes:
        mode: one of update, add, sub, mul, div, max, min.
    """

    name = "scatter_nd"
    attrs = {"mode": attr.choice(*MODES, default="update")}

    def expand(self, b: Builder, x: Value, indices: Value, updates: Value, *, mode: str) -> Value:
        check_mode("scatter_nd", mode, x.type, updates.type, indices.type)
        k = check_points("scatter_nd", x.type, indices.type)
        want = (*indices.shape[:-1], *x.shape[k:])
        if updates.shape != want:
            raise ValueError(f"scatter_nd into {x.type} with indices of shape "
                             f"{show_shape(indices.shape)} needs updates of shape "
                             f"{show_shape(want)}, got {show_shape(updates.shape)}")
        count, inner = prod(indices.shape[:-1]), prod(x.shape[k:])
        rows = self._rows(b, b.reshape(indices, shape=(count, k)), x.shape[:k])
        flat = b.scatter(b.reshape(x, shape=(prod(x.shape[:k]), inner)), rows,
                         b.reshape(updates, shape=(count, inner)), axis=0, mode=mode)
        return b.reshape(flat, shape=x.shape)

    def _rows(self, b: Builder, points: Value, dims: tuple[int, ...]) -> Value:
        """Row-major numbers of the points; one beyond all rows, which scatter skips, if outside."""
        k = points.shape[1]
        i = b.cast(points, dtype=dtypes.int64)
        size = _row(b, dims, i)
        zero = b.scalar(0, like=i)
        i = b.where(b.lt(i, zero), b.add(i, size), i)
        outside = b.logical_or(b.lt(i, zero), b.ge(i, size))
        strides = [prod(dims[a + 1:]) for a in range(k)]
        terms = b.mul(i, _row(b, strides, i))
        far = b.full(terms.type, 1 << 48)
        return b.reduce_sum(b.where(outside, far, terms), axes=(1,))

    def reference(self, x: Array, indices: Array, updates: Array, *, mode: str) -> Array:
        k = indices.shape[-1]
        out = x.copy()
        for at in np.ndindex(*indices.shape[:-1]):
            pairs = [wrap(i, d) for i, d in zip(indices[at], x.shape[:k], strict=True)]
            if all(bool(inside) for _, inside in pairs):
                place = tuple(int(i) for i, _ in pairs)
                out[place] = apply_one(mode, out[place], updates[at])
        return out

    def samples(self) -> Sequence[Sample]:
        i = np.array([[0, 1], [2, -1], [1, 1]])
        return (case((3, 4), i, (3,), mode="add"), case((3, 4), i, (3,), mode="update"),
                case((3, 17), np.array([[1], [1], [7]]), (3, 17), mode="add"),
                case((3, 4), i, Spec((3,), 0.5, 2.0), mode="mul"),
                case((2, 3), np.zeros((0, 1), np.int64), (0, 3), mode="min"))
