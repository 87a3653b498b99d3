"""Where run-time values choose: bool masks and slices of unknown length, in a graph.

The selection has no static size, but the tensor that is written has. So the new value is spread
over the whole view, and each element takes it where the choice holds. Along a chosen axis a value
has one element for all, or as many as are chosen: then element number k goes to the k-th chosen
place, which a running count of the mask tells.
"""

from __future__ import annotations

import math

import numpy as np

from cellc_compiler.ir.types import broadcast_all
from cellc_runtime.dtypes import int64
from cellc_runtime.records import dataclass

from ..core.dispatch import active_tracer, apply, apply_one
from .index_plan import Ints, Loose, Plan, known_elements, normalized, numbers
from .promotion import cast_to, constant
from .tensor import Tensor, tensor_of


@dataclass(frozen=True, slots=True)
class Choice:
    """Some elements of one or more axes of the view."""

    axis: int  # the first of the axes
    mask: Tensor  # which elements, over these axes
    # the number of each element among the chosen, row-major and flat (int64; any number for the
    # others)
    order: Tensor
    adv: bool  # whether it counts as a position (a mask), or keeps its place (a slice)

    @property
    def size(self) -> int:
        """How many elements could be chosen."""
        return math.prod(self.mask.shape)


def reshaped(x: Tensor, shape: Ints) -> Tensor:
    """A tensor in a shape: itself if it has that."""
    # (Of the same rank: comparing shapes of other lengths would ask about open sizes too.)
    same = x.ndim == len(shape) and x.shape == shape
    return x if same else apply_one("reshape", x, shape=shape)


def _broadcast(x: Tensor, shape: Ints) -> Tensor:
    if x.shape == shape:
        return x
    return apply_one("broadcast_to", x, shape=shape)


def running_count(mask: Tensor) -> Tensor:
    """For each element of a mask, flat: how many true ones stand before it."""
    flat = cast_to(reshaped(mask, (math.prod(mask.shape),)), int64)
    return apply_one("sub", apply("cumsum", flat, axis=0), constant(1, int64))


def _of_slice(axis: int, loose: Loose, d: int) -> Choice:
    start, stop = normalized(loose, d)
    at, step = numbers(d), loose.step
    away = apply("sub", at, start) if step > 0 else apply("sub", start, at)
    inside = apply("logical_and", apply("ge", away, constant(0, int64)),
                   apply("lt" if step > 0 else "gt", at, stop))
    if abs(step) > 1:
        size = constant(abs(step), int64)
        on = apply("eq", apply("mod", away, size), constant(0, int64))
        inside, away = apply("logical_and", inside, on), apply("floor_div", away, size)
    return Choice(axis, inside, away, False)


def slices(plan: Plan, shape: Ints) -> list[tuple[int, Tensor]]:
    """The slices of unknown length: axis of the view, and a mask of what it takes."""
    return [(a, _of_slice(a, s, shape[a]).mask) for a, s in plan.loose.items()]


def choices(plan: Plan, shape: Ints) -> list[Choice]:
    """Return the run-time choices in a view of a shape, by axis."""
    found = [Choice(a, m, running_count(m), True) for a, m in plan.masks]
    found += [_of_slice(a, s, shape[a]) for a, s in plan.loose.items()]
    return sorted(found, key=lambda c: c.axis)


def _counts(value: Ints, made: list[Choice], shape: Ints, apart: bool) -> tuple[Ints, list[int]]:
    """The value's shape in full, with one axis for each choice in its place; those axes."""
    rank = len(shape) - sum(c.mask.ndim - 1 for c in made)
    if len(value) > rank:
        raise ValueError(f"a value of shape {value} cannot be written to a part of {rank} axes")
    dims = (1,) * (rank - len(value)) + value
    places, gone = [], 0
    for c in made:
        places.append(c.axis - gone)
        gone += c.mask.ndim - 1
    if apart:  # the mask's axis comes first
        p = next(p for p, c in zip(places, made, strict=True) if c.adv)
        dims = (*dims[1 : p + 1], dims[0], *dims[p + 1 :])
    return dims, places


def spread(value: Tensor, plan: Plan, shape: Ints) -> tuple[Tensor, Tensor]:
    """The value over the whole view, and which of its elements are chosen (broadcastable)."""
    made = choices(plan, shape)
    dims = value.shape
    while len(dims) > len(shape) and dims[0] == 1:
        dims = dims[1:]
    full, places = _counts(dims, made, shape, plan.apart)
    if plan.apart:
        p = next(p for p, c in zip(places, made, strict=True) if c.adv)
        padded = reshaped(value, (1,) * (len(full) - len(dims)) + dims)
        perm = (*range(1, p + 1), 0, *range(p + 1, len(full)))
        value = apply("transpose", padded, perm=perm)
    else:
        value = reshaped(value, full)
    return _placed(value, made, places, shape), _cover(made, len(shape))


def _cover(made: list[Choice], rank: int) -> Tensor:
    """The choices of all axes together."""
    cond: Tensor | None = None
    for c in made:
        own = reshaped(c.mask, (1,) * c.axis + c.mask.shape + (1,) * (rank - c.axis - c.mask.ndim))
        cond = own if cond is None else apply("logical_and", cond, own)
    assert cond is not None
    return cond


def _placed(value: Tensor, made: list[Choice], places: list[int], shape: Ints) -> Tensor:
    """Element k of each chosen axis put where choice number k stands."""
    want: list[int] = []  # the shape of the view, with each choice's axes as one
    axis = 0
    for c in made:
        want += [*shape[axis : c.axis], c.size]
        axis = c.axis + c.mask.ndim
    want += shape[axis:]
    for c, p in zip(made, places, strict=True):
        n = value.shape[p]
        if n > c.size:
            raise ValueError(
                f"a value of shape {value.shape} has {n} elements for an axis from which at most "
                f"{c.size} are chosen")
        if n != 1:
            _require_count(c, n)
        if n == 0:
            value = apply("broadcast_to", constant(0, value.dtype),
                          shape=(*value.shape[:p], 1, *value.shape[p + 1 :]))
        elif n > 1:
            at = apply("maximum", c.order, constant(0, int64))
            at = apply("minimum", at, constant(n - 1, int64))
            value = apply("gather", value, at, axis=p)
    try:
        fits = broadcast_all(value.shape, tuple(want)) == tuple(want)
    except ValueError:
        fits = False
    if not fits:
        raise ValueError(
            f"a value of shape {value.shape} cannot be written to a part of {tuple(want)}")
    return reshaped(_broadcast(value, tuple(want)), shape)


def _require_count(c: Choice, n: int) -> None:
    """Have the graph raise unless n elements are chosen."""
    tracer = active_tracer()
    assert tracer is not None
    tracer.check(
        _count(c.mask), "ValueError",
        (f"a value with {n} elements along an axis cannot be written to ", 0, " elements"),
        low=n, high=n + 1,
    )


def _count(mask: Tensor) -> Tensor:
    """How many elements of a mask are true, as one int64."""
    flat = cast_to(reshaped(mask, (math.prod(mask.shape),)), int64)
    return apply_one("reduce_sum", flat, axes=(0,), keepdims=True)


def first_positions(mask: Tensor, n: int) -> list[Tensor]:
    """The first n positions of a mask's true elements along each of its axes.

    One true element stands for all n, as a list of one position does.
    """
    size = math.prod(mask.shape)
    order = running_count(mask)
    flat = reshaped(mask, (size,))
    # Element k of `found` is where the k-th true element stands; the others go to a spare place.
    spot = apply("where", flat, apply("minimum", order, constant(n, int64)), constant(n, int64))
    found = apply("scatter", tensor_of(np.zeros(n + 1, np.int64)), spot, numbers(size), axis=0)
    found = apply("slice", found, start=(0,), stop=(n,))
    count = _count(mask)
    lone = apply("eq", count, constant(1, int64))
    tracer = active_tracer()
    assert tracer is not None
    tracer.check(
        apply("where", lone, constant(n, int64), count), "IndexError",
        ("a mask of ", 0, f" true elements cannot be combined with {n} positions"),
        low=n, high=n + 1,
    )
    found = apply("where", lone, apply("slice", found, start=(0,), stop=(1,)), found)
    return unraveled(found, mask.shape)


def all_positions(mask: Tensor) -> list[Tensor]:
    """All positions of a mask along each of its axes; outside of the tensor where it is false."""
    size = math.prod(mask.shape)
    flat = reshaped(mask, (size,))
    far = constant(-(1 << 40), int64)
    return [apply("where", flat, p, far) for p in unraveled(numbers(size), mask.shape)]


# --- as many as a run finds -----------------------------------------------------------------------


def traced(x: Tensor) -> bool:
    """Whether a graph is being traced that does not know the elements of `x`."""
    return active_tracer() is not None and known_elements(x) is None


def true_positions(mask: Tensor, name: str) -> tuple[Tensor, int]:
    """Row-major positions of a mask's true elements, and how many there are."""
    tracer = active_tracer()
    assert tracer is not None
    size = math.prod(mask.shape)
    flat = apply("reshape", mask, shape=(size,))
    count = apply("reduce_sum", apply("cast", flat, dtype=int64), axes=(0,), keepdims=False)
    found, measured = tracer.measure(count, name, size)
    return apply_one("true_positions", flat, measured, size=found), found


def found_size(count: Tensor, name: str) -> int:
    """A number of the graph as the size of a result: as many as the run finds."""
    tracer = active_tracer()
    assert tracer is not None
    return tracer.measure(cast_to(reshaped(count, ()), int64), name, None)[0]


def found_positions(mask: Tensor) -> list[Tensor]:
    """Positions of a mask's true elements along each of its axes, as many as the run finds."""
    return unraveled(true_positions(mask, "a bool index")[0], mask.shape)


def unraveled(flat: Tensor, shape: Ints) -> list[Tensor]:
    """Row-major numbers as positions along each axis."""
    out: list[Tensor] = []
    for axis, d in enumerate(shape):
        at = apply("floor_div", flat, constant(math.prod(shape[axis + 1 :]), int64))
        out.append(apply("mod", at, constant(max(d, 1), int64)))
    return out
