"""From an index key to a plan: what it takes from each axis of a tensor.

A key may mix ints, slices, None, Ellipsis, bools, and integer and bool tensors, lists and arrays,
with numpy's rules. The parts that the key's values leave open while a graph is compiled (a bool
mask, a slice with a run-time bound) are kept in the plan; `index_runtime` deals with them.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from cellc_compiler.ir.dims import Dim, Size, is_symbolic
from cellc_compiler.ir.graph import Literal, Value
from cellc_runtime.dtypes import bool_, int64
from cellc_runtime.errors import message_text, run_error
from cellc_runtime.records import dataclass, field

from ..core.dispatch import active_tracer, apply, apply_one, check_there, stays
from ..core.dispatch import checked as passed
from .parameter import Parameter
from .promotion import cast_to, constant
from .tensor import Array, Tensor, elements_now, ir_type, tensor_of

Ints = tuple[int, ...]
Span = tuple[int, int, int]  # Start, count and step of the positions taken from one axis


@dataclass(frozen=True, slots=True)
class Window:
    """A slice of static length that starts at a run-time position."""

    start: Tensor  # first position of the window that holds all its elements, an int64 scalar
    width: int  # length of that window
    count: int  # how many elements the slice has
    step: int  # between them; negative ones go downwards from the window's end


@dataclass(frozen=True, slots=True)
class Loose:
    """A slice of a length known only at run time: its bounds (None, ints, int64 scalars)."""

    start: Any
    stop: Any
    step: int


@dataclass(slots=True)
class Plan:
    """The selection of a key from a tensor.

    Axes of the *view* are those of the basic part after ints have dropped and None has added
    axes.

    Attributes:
        spans: per axis of the tensor.
        windows: axis of the tensor -> a slice whose start is known only at run time.
        dropped: axes of the tensor that an int takes away.
        added: axes of the view, of length 1, that None adds.
        advanced: axis of the view -> its positions.
        masks: bool tensors whose elements are not known, with the first axis of the view each
            stands on; such a mask takes as many axes as it has (a 0-d one stands on an added axis).
        loose: axis of the view -> a slice of a length known only at run time.
        apart: whether the advanced axes are separated, so their result comes first.
    """

    spans: list[Span] = field(default_factory=list)
    windows: dict[int, Window] = field(default_factory=dict)
    dropped: list[int] = field(default_factory=list)
    added: list[int] = field(default_factory=list)
    advanced: dict[int, Tensor] = field(default_factory=dict)
    masks: list[tuple[int, Tensor]] = field(default_factory=list)
    loose: dict[int, Loose] = field(default_factory=dict)
    apart: bool = False

    def basic_shape(self) -> Ints:
        """The shape of the basic part, before axes are dropped and added."""
        return tuple(
            self.windows[i].count if i in self.windows else count
            for i, (_, count, _) in enumerate(self.spans)
        )

    def viewed_shape(self) -> Ints:
        """The shape of the view."""
        dims = [n for i, n in enumerate(self.basic_shape()) if i not in self.dropped]
        for a in self.added:
            dims.insert(a, 1)
        return tuple(dims)

    @property
    def open(self) -> bool:
        """Whether how much the key takes depends on run-time values."""
        return bool(self.masks or self.loose)


@dataclass(frozen=True, slots=True)
class Flag:
    """A bool in a key: it adds an axis of length 1 (True) or 0 (False)."""

    on: bool
    python: bool


def known_elements(x: Tensor) -> Array | None:
    """The elements of a tensor, or None where a graph being compiled does not know them."""
    if active_tracer() is not None and isinstance(x, Parameter):
        return None
    try:
        return elements_now(x)
    except TypeError:
        return None


def check_range(index: Tensor, low: int, high: int, *parts: str | int) -> None:
    """Positions must be in [low, high): checked now if they are known, else when the graph runs.
    On a device they are checked there, and a wait tells of them.

    Args:
        parts: the message; 0 stands for the first position that is not.

    Raises:
        IndexError: one that is known is not, or none can be. In PyNative mode it is a RuntimeError
            too, like those of compiled code; MindSpore's kernels raise no other kind.
    """
    if not (index.dtype.is_integer or index.dtype is bool_):
        about = str(parts[0]).partition(" must ")[0] if parts else "positions"
        raise TypeError(f"{about} must be ints, but got {index.dtype}.")
    if stays(index):
        check_there(index, low, high, parts)
        return
    known = known_elements(index)
    tracer = active_tracer()
    if known is None:
        assert tracer is not None
        if type(low) is type(high) is int and low >= high and index.size:
            raise IndexError(message_text(parts, "others", (), str))
        tracer.check(index, "IndexError", parts, low=low, high=high)
        return
    if tracer is None:
        passed(index, low, high, parts)
    if known.size and not (low <= (found := _extremes(known))[0] and found[1] < high):
        bad = known[(known < low) | (known >= high)].flat[0]
        text = message_text(parts, bad, (), str)
        raise run_error("IndexError", text, "", 0) if tracer is None else IndexError(text)


# --- entries --------------------------------------------------------------------------------------


def is_index(k: Any) -> bool:
    """Whether an entry is an int (not a bool)."""
    return isinstance(k, (int, np.integer)) and not isinstance(k, (bool, np.bool_))


def _sequence(k: Any) -> Tensor:
    """The tensor of a list of ints, bools and tensors."""
    k = list(k)
    if not k:
        return tensor_of(np.empty(0, np.int64))
    if any(isinstance(x, Tensor) and known_elements(x) is None for x in k):
        parts = [x if isinstance(x, Tensor) else constant(x, int64) for x in k]
        return apply_one("stack", *parts, axis=0)
    return Tensor(k)


def entry(k: Any) -> Any:
    """One entry of a key: int, slice, None, Ellipsis, Flag, or a Tensor of ints or bools."""
    if k is None or k is Ellipsis or isinstance(k, slice):
        return k
    if is_index(k):
        return k if is_symbolic(k) else int(k)
    if isinstance(k, (bool, np.bool_)):
        return Flag(bool(k), True)
    given = k
    if isinstance(k, (list, tuple, range)):
        k = _sequence(k)
    if isinstance(k, np.ndarray):
        k = Tensor(k)
    if isinstance(k, Tensor) and k.dtype is bool_ and k.ndim == 0:
        known = known_elements(k)
        return k if known is None else Flag(bool(known), False)
    if isinstance(k, Tensor) and (k.dtype.is_integer or k.dtype is bool_):
        return k
    if hasattr(type(given), "__index__") and not isinstance(k, Tensor):
        return operator.index(given)  # an object of the user, as Python's own containers take it
    kind = TypeError if isinstance(given, (list, tuple)) else IndexError
    got = f"{k.dtype} elements" if isinstance(k, Tensor) else type(k).__name__
    raise kind("only integers, slices (`:`), ellipsis (`...`), None, and integer or bool tensors, "
               f"lists and arrays are valid indices, but got {got}")


def entries(key: Any) -> list[Any]:
    """The entries of a key, as `entry` gives them."""
    # As in MindSpore (and numpy of old), a list that holds sequences, slices or tensors is a
    # tuple of indices.
    if isinstance(key, list) and any(isinstance(k, (list, tuple, slice, Tensor)) for k in key):
        key = tuple(key)
    return [entry(k) for k in (key if isinstance(key, tuple) else (key,))]


def _consumed(k: Any) -> int:
    """How many axes of the tensor an entry takes."""
    if k is None or k is Ellipsis or isinstance(k, Flag):
        return 0
    return k.ndim if isinstance(k, Tensor) and k.dtype is bool_ else 1


def _full(found: list[Any], rank: int) -> list[Any]:
    """Entries with the ellipsis written out as slices."""
    used = sum(_consumed(k) for k in found)
    if used > rank:
        raise IndexError(f"too many indices: the tensor has {rank} axes, but {used} were indexed")
    dots = [i for i, k in enumerate(found) if k is Ellipsis]
    if len(dots) > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    at = dots[0] if dots else len(found)
    rest = [slice(None)] * (rank - used)
    return found[:at] + rest + found[at + 1 :]


# --- the plan -------------------------------------------------------------------------------------


class _Planner:
    """Goes through the entries of a key from left to right."""

    def __init__(self, shape: Ints, found: list[Any]) -> None:
        self.shape, self.plan = shape, Plan()
        self.entries = _full(found, len(shape))
        # Beside what has no static size, integer scalars are windows of one element.
        self.scalars = any(map(may_be_open, self.entries)) and not any(map(is_symbolic, shape)) \
            and all(_is_open(k) or _is_scalar(k) for k in self.entries if isinstance(k, Tensor)) \
            and sum(map(_is_open, self.entries)) < 2
        # Beside tensors, ints and bools are positions too, and count in where the result goes.
        self.blend = any(
            (isinstance(k, Tensor) and not _is_open(k) and not self.scalars)
            or (isinstance(k, Flag) and not k.on)
            for k in self.entries
        ) or sum(map(_is_open, self.entries)) > 1
        self.places: list[int] = []  # where, among the entries, the advanced ones stand
        self.axis = self.view = 0

    def run(self) -> Plan:
        for place, k in enumerate(self.entries):
            if k is None or (isinstance(k, Flag) and not self.blend):
                self.plan.added.append(self.view)
                self.view += 1
            elif isinstance(k, slice):
                self._slice(k)
            else:
                self.places.append(place)
                self._position(k)
        places = self.places
        joined = self.blend or bool(self.plan.masks)
        self.plan.apart = joined and places[-1] - places[0] + 1 != len(places)
        return self.plan

    def _slice(self, k: slice) -> None:
        d = self.shape[self.axis]
        found = runtime_span(k, d) if _has_open_bound(k) else None
        if isinstance(found, Window):
            self.plan.windows[self.axis] = found
        elif found is not None:
            self.plan.loose[self.view] = found
        self.plan.spans.append((0, d, 1) if found is not None else _span(k, d))
        self.axis, self.view = self.axis + 1, self.view + 1

    def _position(self, k: Any) -> None:
        if isinstance(k, int):
            span = _one(k, self.shape[self.axis], self.axis)
            if not self.blend:
                self.plan.spans.append(span)
                self.plan.dropped.append(self.axis)
                self.axis += 1
                return
            self._add(constant(span[0], int64))
        elif isinstance(k, Flag):
            self.plan.added.append(self.view)
            self.plan.advanced[self.view] = tensor_of(np.zeros(int(k.on), np.int64))
            self.view += 1
        elif k.dtype is not bool_ and self.scalars and not self.blend:
            self._scalar(k)
        elif k.dtype is not bool_:
            self._add(k)
        else:
            self._mask(k)

    def _scalar(self, index: Tensor) -> None:
        d = self.shape[self.axis]
        at = from_front(cast_to(checked(index, d, self.axis), int64), d)
        self.plan.windows[self.axis] = Window(at, 1, 1, 1)
        self.plan.spans.append((0, d, 1))
        self.plan.dropped.append(self.axis)
        self.axis += 1

    def _add(self, index: Tensor) -> None:
        d = self.shape[self.axis]
        self.plan.spans.append((0, d, 1))
        self.plan.advanced[self.view] = checked(index, d, self.axis)
        self.axis, self.view = self.axis + 1, self.view + 1

    def _mask(self, mask: Tensor) -> None:
        over = self.shape[self.axis : self.axis + mask.ndim]
        if mask.shape != over:
            raise ValueError(f"the shape {mask.shape} of a mask does not match the indexed shape "
                             f"{over}")
        elements = known_elements(mask)
        if elements is not None:
            for p in np.nonzero(elements):
                self._add(tensor_of(np.ascontiguousarray(p, np.int64)))
            return
        if mask.ndim == 0:
            self.plan.added.append(self.view)
            mask = apply("reshape", mask, shape=(1,))
            self.plan.masks.append((self.view, mask))
            self.view += 1
            return
        self.plan.spans += [(0, d, 1) for d in over]
        self.plan.masks.append((self.view, mask))
        self.axis, self.view = self.axis + mask.ndim, self.view + mask.ndim


def _is_open(k: Any) -> bool:
    """Whether an entry is a mask whose elements are not known."""
    return isinstance(k, Tensor) and k.dtype is bool_ and known_elements(k) is None


def _is_scalar(k: Tensor) -> bool:
    return k.ndim == 0 and k.dtype.is_integer


def may_be_open(k: Any) -> bool:
    """Whether an entry is a mask or slice that run-time values decide."""
    return _is_open(k) or (isinstance(k, slice) and _has_open_bound(k))


def _has_open_bound(s: slice) -> bool:
    return any(isinstance(v, Tensor) and known_elements(v) is None
               for v in (s.start, s.stop, s.step))


def _bound(v: Any) -> Any:
    return int(v) if isinstance(v, Tensor) else v


def _span(s: slice, d: int) -> Span:
    """Start, count, step of a slice of an axis of length d."""
    if is_symbolic(d) or any(is_symbolic(v) for v in (s.start, s.stop, s.step)):
        return _open_span(s, d)
    try:
        start, stop, step = slice(_bound(s.start), _bound(s.stop), _bound(s.step)).indices(d)
    except TypeError:
        bad = next(v for v in (s.start, s.stop, s.step)
                   if v is not None and not hasattr(type(v), "__index__"))
        raise TypeError("the bounds and the step of a slice must be ints or None, but got "
                        f"{bad!r}") from None
    return start, len(range(start, stop, step)), step


def _open_span(s: slice, d: int) -> Span:
    """`_span` in arithmetic that keeps symbolic sizes: what `slice.indices` does."""
    step = 1 if s.step is None else int(s.step)
    if step == 0:
        raise ValueError("slice step cannot be zero")
    first, last = (0, d) if step > 0 else (-1, d - 1)

    def clipped(v: Any, default: int) -> int:
        if v is None:
            return default
        v = _bound(v)
        v = v + d if v < 0 else v
        return first if v < first else last if v > last else v

    start = clipped(s.start, first if step > 0 else last)
    stop = clipped(s.stop, last if step > 0 else first)
    length = stop - start if step > 0 else start - stop
    # One question less: a length of at least 1 - |step| gives a count of at least 0 by itself.
    if length <= -abs(step):
        return start, 0, step
    return start, (length + abs(step) - 1) // abs(step), step


def checked(index: Tensor, d: int, axis: int) -> Tensor:
    """Positions checked; those with known elements made non-negative if the length is known."""
    elements = None if stays(index) else known_elements(index)
    if elements is not None and type(d) is int:
        if not elements.size:
            return index
        low, high = _extremes(elements)
        if low >= -d and high < d:
            if low >= 0 and active_tracer() is None:
                passed(index, -d, d, _out_of_bounds(d, axis))
            return index if low >= 0 else _wrapped(elements, d)
    check_range(index, -d, d, *_out_of_bounds(d, axis))
    return index


def _out_of_bounds(d: int, axis: int) -> tuple[str | int, ...]:
    """The message of a position that is not there."""
    return "index ", 0, f" is out of bounds for axis {axis} with size {d}"


def _extremes(elements: Array) -> tuple[int, int]:
    """The least and the greatest element; of a few elements Python finds them sooner."""
    if elements.size <= 32:
        few = elements.ravel().tolist()
        return min(few), max(few)
    return int(elements.min()), int(elements.max())


def _wrapped(elements: Array, d: int) -> Tensor:
    signed = elements.astype(np.int64)
    return tensor_of(np.where(signed < 0, signed + d, signed))


def _one(k: int, d: int, axis: int) -> Span:
    if not -d <= k < d:
        raise IndexError(f"index {k} is out of bounds for axis {axis} with size {d}")
    return k % d, 1, 1


def make_plan(shape: Ints, found: list[Any]) -> Plan:
    """The plan of a key's entries for a tensor of a shape."""
    return _Planner(shape, found).run()


# --- slices whose bounds are integer tensors of a graph -------------------------------------------
#
# The length of `x[i:i + 3]` is static although `i` is not: both bounds are polynomials of values of
# the graph, and their difference is a number.


_ARITHMETIC: dict[str, Callable[..., Size]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "neg": operator.neg}


def _form(value: Value) -> Size:
    """An integer of the graph as a polynomial of values that cannot be taken apart."""
    if value.node is not None and value.dtype.is_integer:
        op, given = value.node.op, value.node.operands
        held = value.node.attrs.get("value")
        if op == "constant" and isinstance(held, Literal) and held.array.size == 1:
            return int(held.array.reshape(()))
        if op in ("cast", "reshape") and given[0].dtype.is_integer and value.type.size == 1:
            return _form(given[0])
        if op in _ARITHMETIC:
            return _ARITHMETIC[op](*map(_form, given))
    return Dim.symbol(f"v{id(value)}")


def _bound_form(bound: Any) -> Size:
    if not isinstance(bound, Tensor):
        return int(bound)
    tracer = active_tracer()
    assert tracer is not None
    return _form(tracer.lift(bound))


def _scalar(bound: Any) -> Any:
    """A bound as None, an int, or an int64 scalar tensor."""
    if isinstance(bound, Tensor):
        if bound.size != 1 or not bound.dtype.is_integer:
            raise TypeError("the bounds of a slice must be ints, None or integer scalars, but got "
                            f"a tensor {ir_type(bound)}")
        flat = bound if bound.ndim == 0 else apply("reshape", bound, shape=())
        return cast_to(flat, int64)
    if bound is not None and not hasattr(type(bound), "__index__"):
        raise TypeError(
            f"the bounds and the step of a slice must be ints or None, but got {bound!r}")
    return None if bound is None else int(bound)


def runtime_span(s: slice, d: int) -> Window | Loose:
    """A slice, of an axis of length d, with bounds that are not known."""
    if isinstance(s.step, Tensor):
        raise TypeError("the step of a slice must be known when the graph is compiled")
    start, stop, step = _scalar(s.start), _scalar(s.stop), _scalar(s.step)
    step = 1 if step is None else step
    if step == 0:
        raise ValueError("the step of a slice cannot be 0")
    if start is None or stop is None:
        return Loose(start, stop, step)
    gap = _bound_form(s.stop) - _bound_form(s.start)
    if is_symbolic(gap) or gap * step < 0:
        return Loose(start, stop, step)  # or empty, unless Python counts one bound from the end
    count = len(range(0, gap, step))
    # A window downwards holds (stop, start], one upwards [start, stop).
    first = start if step > 0 else _plus(stop, 1)
    width = abs(gap) if count else 0
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
            at = apply("maximum", from_front(bound, d), constant(low, int64))
            found.append(apply("minimum", at, constant(high, int64)))
    return found[0], found[1]


def from_front(index: Tensor, d: int) -> Tensor:
    """Positions on an axis of length d, of which negative ones count from its end."""
    wrapped = apply("add", index, constant(d, int64))
    return apply_one("where", apply("lt", index, constant(0, int64)), wrapped, index)


def numbers(d: int) -> Tensor:
    """0, 1, ..., d - 1."""
    return tensor_of(np.arange(d, dtype=np.int64))
