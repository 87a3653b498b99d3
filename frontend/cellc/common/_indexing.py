"""Reading and writing parts of tensors, with numpy's rules.

A key is brought to a plan: a basic part (one slice per axis) and, on the sliced tensor, the axes
that are addressed by integer tensors. Masks become positions where their elements are known;
where they are not (in a graph), writing one value through a mask is a `where`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from cellc_runtime.dtypes import bool_, int64

from ..core.dispatch import active_tracer, apply, assign
from ._promotion import cast_to, constant, is_scalar
from .parameter import Parameter
from .tensor import Array, Tensor

Ints = tuple[int, ...]
Span = tuple[int, int, int]
"""Start, count and step of the positions taken from one axis."""


@dataclass(slots=True)
class Plan:
    """What a key takes from a tensor.

    Attributes:
        spans: per axis of the tensor.
        dropped: axes (of the tensor) that an int takes away.
        added: axes of length 1 (of the result of the basic part) that None adds.
        advanced: axis of the basic part's result -> its positions.
        apart: whether the advanced axes are separated, so their result comes first.
    """

    spans: list[Span]
    dropped: list[int]
    added: list[int]
    advanced: dict[int, Tensor]
    apart: bool

    def basic_shape(self) -> Ints:
        """The shape of the basic part, before axes are dropped and added."""
        return tuple(count for _, count, _ in self.spans)

    def viewed_shape(self) -> Ints:
        """The shape of the basic part with axes dropped and added."""
        dims = [n for i, n in enumerate(self.basic_shape()) if i not in self.dropped]
        for a in self.added:
            dims.insert(a, 1)
        return tuple(dims)


def known_elements(x: Tensor) -> Array | None:
    """The elements of a tensor, or None where a graph being compiled does not know them."""
    if active_tracer() is not None and isinstance(x, Parameter):
        return None
    try:
        return x._data
    except TypeError:
        return None


# --- from a key to a plan -------------------------------------------------------------------------


def _is_int(k: Any) -> bool:
    return isinstance(k, (int, np.integer)) and not isinstance(k, (bool, np.bool_))


def _entry(k: Any) -> Any:
    """One entry of a key: int, slice, None, Ellipsis, or a Tensor of ints or bools.

    Raises:
        IndexError: it is something else, or the bool False.
    """
    if k is None or k is Ellipsis or isinstance(k, slice):
        return k
    if _is_int(k):
        return int(k)
    if isinstance(k, (bool, np.bool_)):
        if not k:
            raise IndexError("a tensor can be indexed by the bool True (a new axis), not by False")
        return None
    if isinstance(k, (list, tuple, range)):
        k = list(k)
        if any(isinstance(x, Tensor) and known_elements(x) is None for x in k):
            k = apply("stack", *(x if isinstance(x, Tensor) else constant(x, int64) for x in k),
                      axis=0)
        else:
            k = Tensor(k) if k else Tensor._from_array(np.empty(0, np.int64))
    if isinstance(k, np.ndarray):
        k = Tensor(k)
    if isinstance(k, Tensor) and k.dtype is bool_ and k.ndim == 0:
        return _entry(bool(k))
    if isinstance(k, Tensor) and (k.dtype.is_integer or k.dtype is bool_):
        return k
    got = k.dtype if isinstance(k, Tensor) else type(k).__name__
    raise IndexError(
        "only integers, slices (`:`), ellipsis (`...`), None, and integer or bool tensors, lists "
        f"and arrays are valid indices, but got {got}"
    )


def _entries(key: Any) -> list[Any]:
    # As in MindSpore (and numpy of old), a list that holds sequences or slices is a tuple of
    # indices.
    if isinstance(key, list) and any(isinstance(k, (list, tuple, slice)) for k in key):
        key = tuple(key)
    return [_entry(k) for k in (key if isinstance(key, tuple) else (key,))]


def _consumed(k: Any) -> int:
    """How many axes of the tensor an entry takes."""
    if k is None or k is Ellipsis:
        return 0
    return k.ndim if isinstance(k, Tensor) and k.dtype is bool_ else 1


def _full(entries: list[Any], rank: int) -> list[Any]:
    """Entries with the ellipsis written out as slices.

    Raises:
        IndexError: two ellipses, or too many indices.
    """
    used = sum(_consumed(k) for k in entries)
    if used > rank:
        raise IndexError(f"too many indices: the tensor has {rank} axes, but {used} were indexed")
    dots = [i for i, k in enumerate(entries) if k is Ellipsis]
    if len(dots) > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    at = dots[0] if dots else len(entries)
    rest = [slice(None)] * (rank - used)
    return entries[:at] + rest + entries[at + 1 :]


def _bound(v: Any) -> Any:
    return int(v) if isinstance(v, Tensor) else v


def _span(s: slice, d: int) -> Span:
    """Start, count, step of a slice of an axis of length d."""
    try:
        start, stop, step = slice(_bound(s.start), _bound(s.stop), _bound(s.step)).indices(d)
    except TypeError as e:
        raise TypeError(f"slice bounds must be ints or None, known when the graph is compiled: {e}"
                        ) from None
    return start, len(range(start, stop, step)), step


def _positions(mask: Tensor) -> list[Tensor]:
    elements = known_elements(mask)
    if elements is None:
        raise TypeError(
            "the shape of a tensor read through a bool mask depends on the mask's elements, which "
            "are not known while a graph is compiled; use ops.where or masked_fill"
        )
    return [Tensor._from_array(np.ascontiguousarray(p, np.int64)) for p in np.nonzero(elements)]


def _checked(index: Tensor, d: int, axis: int) -> Tensor:
    """Positions with known elements checked and made non-negative."""
    elements = known_elements(index)
    if elements is None:
        return index
    if elements.size and not (-d <= int(elements.min()) and int(elements.max()) < d):
        bad = elements[(elements < -d) | (elements >= d)].flat[0]
        raise IndexError(f"index {bad} is out of bounds for axis {axis} with size {d}")
    signed = elements.astype(np.int64)
    return Tensor._from_array(np.where(signed < 0, signed + d, signed))


def make_plan(shape: Ints, key: Any) -> Plan:
    """The plan of a key for a tensor of a shape.

    Raises:
        IndexError: the key does not fit the shape, or holds something that is no index.
        TypeError: slice bounds that are no ints.
    """
    entries = _full(_entries(key), len(shape))
    blend = any(isinstance(k, Tensor) for k in entries)
    plan = Plan([], [], [], {}, False)
    places: list[int] = []  # where, among the entries, the advanced ones stand
    axis = view = 0
    for place, k in enumerate(entries):
        if k is None:
            plan.added.append(view)
            view += 1
        elif isinstance(k, slice):
            plan.spans.append(_span(k, shape[axis]))
            axis, view = axis + 1, view + 1
        elif isinstance(k, int) and not blend:
            plan.spans.append(_one(k, shape[axis], axis))
            plan.dropped.append(axis)
            axis += 1
        else:
            places.append(place)
            for index in _advanced(k, shape, axis):
                plan.spans.append((0, shape[axis], 1))
                plan.advanced[view] = _checked(index, shape[axis], axis)
                axis, view = axis + 1, view + 1
    plan.apart = bool(places) and places[-1] - places[0] + 1 != len(places)
    return plan


def _one(k: int, d: int, axis: int) -> Span:
    if not -d <= k < d:
        raise IndexError(f"index {k} is out of bounds for axis {axis} with size {d}")
    return k % d, 1, 1


def _advanced(k: Any, shape: Ints, axis: int) -> list[Tensor]:
    """The integer tensors of one entry: itself, or the positions of a mask's true elements."""
    if isinstance(k, int):
        return [constant(_one(k, shape[axis], axis)[0], int64)]
    if k.dtype is not bool_:
        return [k]
    if k.shape != shape[axis : axis + k.ndim]:
        raise ValueError(
            f"the shape {k.shape} of a mask does not match the indexed shape "
            f"{shape[axis : axis + k.ndim]}"
        )
    return _positions(k)


# --- reading --------------------------------------------------------------------------------------


def _reshape(x: Tensor, shape: Ints) -> Tensor:
    if x.shape == shape:
        return x
    out: Tensor = apply("reshape", x, shape=shape)
    return out


def _transpose(x: Tensor, perm: list[int]) -> Tensor:
    if perm == list(range(len(perm))):
        return x
    out: Tensor = apply("transpose", x, perm=tuple(perm))
    return out


def _take_spans(x: Tensor, spans: list[Span]) -> Tensor:
    """The basic part: slices, with empty ones and whole ones short-cut."""
    if all(s == (0, d, 1) for s, d in zip(spans, x.shape, strict=True)):
        return x
    start = tuple(a for a, _, _ in spans)
    # For negative steps the stop may be -1 (past the first element), as slice.indices gives it.
    stop = tuple(a + n * s if s < 0 else a + (n - 1) * s + 1 if n else a for a, n, s in spans)
    stop = tuple(max(z, -1) for z in stop)
    step = tuple(s for _, _, s in spans)
    out: Tensor = apply("slice", x, start=start, stop=stop, step=step)
    return out


def _index_shape(plan: Plan) -> Ints:
    try:
        return np.broadcast_shapes(*(t.shape for t in plan.advanced.values()))
    except ValueError:
        shapes = ", ".join(str(t.shape) for t in plan.advanced.values())
        raise IndexError(f"indices of shapes {shapes} cannot be broadcast together") from None


def _stacked(plan: Plan, shape: Ints, front: Ints) -> Tensor:
    """The points (front..., k) the advanced axes address, all non-negative."""
    columns = []
    for axis, index in plan.advanced.items():
        index = cast_to(index, int64)
        if known_elements(index) is None:
            wrapped = apply("add", index, constant(shape[axis], int64))
            index = apply("where", apply("lt", index, constant(0, int64)), wrapped, index)
        columns.append(index if index.shape == front else
                       apply("broadcast_to", index, shape=front))
    out: Tensor = apply("stack", *columns, axis=len(front))
    return out


def _order(plan: Plan, rank: int) -> list[int]:
    """The advanced axes first, then the others."""
    axes = list(plan.advanced)
    return axes + [i for i in range(rank) if i not in plan.advanced]


def getitem(x: Tensor, key: Any) -> Tensor:
    """`x[key]`.

    Raises:
        IndexError: the key does not fit.
        TypeError: the shape of the result is not known while a graph is compiled.
    """
    if x.ndim == 0 and _is_int(key):
        raise TypeError("a tensor of no axes cannot be indexed by an int")
    plan = make_plan(x.shape, key)
    part = _reshape(_take_spans(x, plan.spans), plan.viewed_shape())
    return _gather(part, plan) if plan.advanced else part


def _gather(x: Tensor, plan: Plan) -> Tensor:
    front = _index_shape(plan)
    if len(plan.advanced) == 1:
        ((axis, index),) = plan.advanced.items()
        out: Tensor = apply("gather", x, index, axis=axis)
        return out
    found = apply("gather_nd", _transpose(x, _order(plan, x.ndim)), _stacked(plan, x.shape, front))
    if plan.apart:
        return found  # type: ignore[no-any-return]
    return _transpose(found, _back_in_place(plan, len(front), found.ndim))


def _back_in_place(plan: Plan, front: int, rank: int) -> list[int]:
    """The permutation that moves the leading `front` axes to where the advanced axes stood."""
    before = min(plan.advanced)
    return [*range(front, front + before), *range(front), *range(front + before, rank)]


# --- writing --------------------------------------------------------------------------------------


def _value(value: Any, x: Tensor) -> Tensor:
    """What is written, in the element type of the tensor.

    Raises:
        TypeError: it is no Tensor, number or list.
    """
    if isinstance(value, Tensor):
        return cast_to(value, x.dtype)
    if is_scalar(value):
        return constant(value, x.dtype)
    if isinstance(value, (list, tuple, np.ndarray)):
        return cast_to(Tensor(value), x.dtype)
    raise TypeError(
        f"only a Tensor, a number, a list or an array can be written into a tensor, got "
        f"{type(value).__name__}"
    )


def _fitted(value: Tensor, shape: Ints) -> Tensor:
    """`value` broadcast to the written part (leading axes of length 1 beyond it are dropped).

    Raises:
        ValueError: it does not fit.
    """
    if value.shape == shape:
        return value
    dims = value.shape
    while len(dims) > len(shape) and dims[0] == 1:
        dims = dims[1:]
    try:
        fits = np.broadcast_shapes(dims, shape) == shape
    except ValueError:
        fits = False
    if not fits:
        raise ValueError(f"a value of shape {value.shape} cannot be written to a part of {shape}")
    out: Tensor = apply("broadcast_to", _reshape(value, dims), shape=shape)
    return out


def setitem(x: Tensor, key: Any, value: Any) -> Tensor:
    """A tensor like `x` with `x[key]` replaced by `value` (broadcast, in the type of `x`).

    Raises:
        IndexError: the key does not fit.
        ValueError: the value does not fit the part.
        TypeError: the value is no tensor, number or list, or a mask's elements are not known.
    """
    new = _value(value, x)
    mask = _lone_mask(key, x)
    if mask is not None and math.prod(new.shape) == 1:
        cell = _reshape(new, ())
        out: Tensor = apply("where", mask, cell, x)
        return out
    plan = make_plan(x.shape, key)
    if not plan.advanced:
        return _write_spans(x, plan, _fitted(new, plan.viewed_shape()))
    whole = all(s == (0, d, 1) for s, d in zip(plan.spans, x.shape, strict=True))
    part = _reshape(_take_spans(x, plan.spans), plan.viewed_shape())
    part = _scatter(part, plan, new)
    return _reshape(part, x.shape) if whole else _write_spans(x, plan, part)


def _lone_mask(key: Any, x: Tensor) -> Tensor | None:
    """The mask, shaped to broadcast with `x`, if the key is one mask over leading axes."""
    if isinstance(key, (np.ndarray, list)):
        key = _entry(key)
    if not isinstance(key, Tensor) or key.dtype is not bool_ or key.shape != x.shape[: key.ndim]:
        return None
    return _reshape(key, key.shape + (1,) * (x.ndim - key.ndim))


def _write_spans(x: Tensor, plan: Plan, new: Tensor) -> Tensor:
    update = _reshape(new, plan.basic_shape())
    spans = plan.spans
    if update.shape == x.shape and all(s == 1 for _, _, s in spans):
        return update
    if not update.size:
        return x
    back = tuple(i for i, (_, _, s) in enumerate(spans) if s < 0)
    if back:
        update = apply("flip", update, axes=back)
        spans = [(a + (n - 1) * s, n, -s) if s < 0 else (a, n, s) for a, n, s in spans]
    out: Tensor = apply("update_slice", x, update, start=tuple(a for a, _, _ in spans),
                        step=tuple(s for _, _, s in spans))
    return out


def _scatter(x: Tensor, plan: Plan, new: Tensor) -> Tensor:
    front = _index_shape(plan)
    perm = _order(plan, x.ndim)
    rest = tuple(x.shape[i] for i in perm[len(plan.advanced):])
    shape = front + rest
    if plan.apart:
        update = _fitted(new, shape)
    else:
        place = _back_in_place(plan, len(front), len(shape))
        update = _fitted(new, tuple(shape[i] for i in place))
        update = _transpose(update, [place.index(i) for i in range(len(place))])
    written = apply("scatter_nd", _transpose(x, perm), _stacked(plan, x.shape, front), update)
    return _transpose(written, [perm.index(i) for i in range(len(perm))])


def become(x: Tensor, new: Tensor) -> Tensor:
    """Make the object `x` hold the value of `new` (of its shape and type); `x`.

    Raises:
        TypeError: `x` is a constant of the graph being compiled, which cannot change.
    """
    if active_tracer() is None or isinstance(x, Parameter):
        assign(x, new)  # type: ignore[arg-type]
    elif hasattr(type(x), "_value"):
        x.__setattr__("_value", new.__getattribute__("_value"))
    else:
        raise TypeError(
            "a tensor made outside of the graph cannot be changed inside of it; write to a copy "
            "made in the graph, or use ops.tensor_scatter_update"
        )
    return x


def write(x: Tensor, key: Any, value: Any) -> None:
    """`x[key] = value`: the object `x` holds the updated value afterwards."""
    become(x, setitem(x, key, value))
