"""Slices whose bounds are integer tensors of the graph being compiled.

The length of `x[i:i + 3]` is static although `i` is not: both bounds are linear forms over the
values of the graph, and their difference is a number.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cellc_compiler.ir.graph import Literal, Value
from cellc_runtime.dtypes import int64
from cellc_runtime.records import dataclass

from ..core.dispatch import active_tracer, apply
from .promotion import cast_to, constant
from .tensor import Tensor, tensor_of


@dataclass(frozen=True, slots=True)
class Window:
    """A slice of static length that starts at a run-time position.

    Attributes:
        start: first position of the window that holds all its elements, an int64 scalar.
        width: length of that window.
        count: how many elements the slice has.
        step: between them; negative ones go downwards from the window's end.
    """

    start: Tensor
    width: int
    count: int
    step: int


@dataclass(frozen=True, slots=True)
class Loose:
    """A slice of a length known only at run time: its bounds (None, ints, int64 scalars)."""

    start: Any
    stop: Any
    step: int


@dataclass(frozen=True, slots=True)
class _Linear:
    """A sum of multiples of graph values, and a number."""

    terms: tuple[tuple[Value, int], ...]
    number: int


def _literal(value: Value) -> int | None:
    """The number a value is, if it is an integer constant."""
    node = value.node
    if node is None or node.op != "constant":
        return None
    held = node.attrs["value"]
    if not isinstance(held, Literal) or not value.dtype.is_integer or held.array.size != 1:
        return None
    return int(held.array.reshape(()))


def _form(value: Value) -> _Linear:
    """A value as a linear form over values that cannot be taken apart."""
    number = _literal(value)
    if number is not None:
        return _Linear((), number)
    node = value.node
    if node is not None:
        op, given = node.op, node.operands
        if op in ("cast", "reshape") and given[0].dtype.is_integer and value.type.size == 1:
            return _form(given[0])
        if op in ("add", "sub"):
            return _sum(_form(given[0]), _form(given[1]), 1 if op == "add" else -1)
        if op == "neg":
            return _sum(_Linear((), 0), _form(given[0]), -1)
        if op == "mul":
            a, b = _form(given[0]), _form(given[1])
            for x, y in ((a, b), (b, a)):
                if not y.terms:
                    return _sum(_Linear((), 0), x, y.number)
    return _Linear(((value, 1),), 0)


def _sum(a: _Linear, b: _Linear, times: int) -> _Linear:
    terms = dict(a.terms)
    for value, k in b.terms:
        terms[value] = terms.get(value, 0) + times * k
    return _Linear(tuple((v, k) for v, k in terms.items() if k), a.number + times * b.number)


def _bound_form(bound: Any) -> _Linear:
    if not isinstance(bound, Tensor):
        return _Linear((), int(bound))
    tracer = active_tracer()
    assert tracer is not None
    return _form(tracer.lift(bound))


def _scalar(bound: Any) -> Any:
    """A bound as None, an int, or an int64 scalar tensor.

    Raises:
        TypeError: it is no int, None or integer scalar.
    """
    if isinstance(bound, Tensor):
        if bound.size != 1 or not bound.dtype.is_integer:
            raise TypeError(
                "the bounds of a slice must be ints, None or integer scalars, but got a tensor "
                f"{bound._type}"
            )
        flat = bound if bound.ndim == 0 else apply("reshape", bound, shape=())
        return cast_to(flat, int64)
    if bound is not None and not hasattr(bound, "__index__"):
        raise TypeError(
            f"the bounds and the step of a slice must be ints or None, but got {bound!r}")
    return None if bound is None else int(bound)


def runtime_span(s: slice, d: int) -> Window | Loose:
    """A slice, of an axis of length d, with bounds that are not known.

    Raises:
        TypeError: a bound is no integer scalar, or the step is not known.
        ValueError: a step of 0; a window that is longer than the axis.
    """
    if isinstance(s.step, Tensor):
        raise TypeError("the step of a slice must be known when the graph is compiled")
    start, stop, step = _scalar(s.start), _scalar(s.stop), _scalar(s.step)
    step = 1 if step is None else step
    if step == 0:
        raise ValueError("the step of a slice cannot be 0")
    if start is None or stop is None:
        return Loose(start, stop, step)
    gap = _sum(_bound_form(s.stop), _bound_form(s.start), -1)
    if gap.terms:
        return Loose(start, stop, step)
    if gap.number * step < 0:
        return Loose(start, stop, step)  # empty, unless Python counts one bound from the end
    count = len(range(0, gap.number, step))
    # A window downwards holds (stop, start], one upwards [start, stop).
    first = start if step > 0 else _plus(stop, 1)
    width = abs(gap.number) if count else 0
    if width > d:
        raise ValueError(f"a slice of {width} elements does not fit an axis of length {d}")
    at = first if isinstance(first, Tensor) else constant(first, int64)
    return Window(_inside(at, width, d), width, count, step)


def _inside(start: Tensor, width: int, d: int) -> Tensor:
    """The start of a window counted from the front; the graph raises if it leaves the axis."""
    stop = apply("add", start, constant(width, int64))
    below = apply("lt", start, constant(0, int64))
    # Python counts both bounds from the end, or none: x[-2:0] is empty.
    outside = apply("logical_and", below, apply("ge", stop, constant(0, int64)))
    at: Tensor = apply("where", below, apply("add", start, constant(d, int64)), start)
    at = apply("where", outside, constant(-1, int64), at) if width else at
    tracer = active_tracer()
    if tracer is not None and width:
        parts = (f"a slice of {width} elements from ", None,
                 f" on is out of bounds for an axis of length {d}")
        tracer.check(at, "IndexError", parts, [start], low=0, high=d - width + 1)
    return at


def _plus(bound: Any, n: int) -> Any:
    return bound + n if isinstance(bound, int) else apply("add", bound, constant(n, int64))


def normalized(loose: Loose, d: int) -> tuple[Tensor, Tensor]:
    """Start and stop of a slice as Python counts them, as int64 scalars within the axis."""
    up = loose.step > 0
    low, high = (0, d) if up else (-1, d - 1)
    ends = (low, high) if up else (high, low)
    found = []
    for bound, end in zip((loose.start, loose.stop), ends, strict=True):
        if bound is None:
            found.append(constant(end, int64))
        elif isinstance(bound, int):
            at = bound + d if bound < 0 else bound
            found.append(constant(min(max(at, low), high), int64))
        else:
            wrapped = apply("add", bound, constant(d, int64))
            at = apply("where", apply("lt", bound, constant(0, int64)), wrapped, bound)
            at = apply("maximum", at, constant(low, int64))
            found.append(apply("minimum", at, constant(high, int64)))
    return found[0], found[1]


def numbers(d: int) -> Tensor:
    """0, 1, ..., d - 1."""
    return tensor_of(np.arange(d, dtype=np.int64))
