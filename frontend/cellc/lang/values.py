"""Values of the interpreter besides ordinary objects, and the merging of two possible values.

A value known at compile time is an ordinary Python object; a run-time value is a GraphTensor or
a Parameter. Where two paths meet, a `Merger` decides for each part of a value whether it is the
same on both, or becomes a result of the `cond`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from cellc_compiler.ir.dims import Dim, is_symbolic
from cellc_compiler.ir.types import TensorType
from cellc_runtime import dtypes
from cellc_runtime.dtypes import DType
from cellc_runtime.records import dataclass, field

from ..calls.pieces import OBJECT, held
from ..core.dispatch import apply
from ..core.module_names import contained, is_exactly
from ..tensors.tensor import Tensor, ir_type, tensor_of
from ..tensors.views import perhaps
from ..tracing.numbers import DTYPES, GraphNumber, Kind, as_number, kind_of
from ..tracing.pytree import Box, Known, ObjectKind, RunObject, parts_of, put_together
from ..tracing.reads import own_attributes
from ..tracing.tracer import GraphTensor, is_variable
from .errors import Cascade


class _Missing:
    __slots__ = ()

    def __repr__(self) -> str:
        return "<missing>"


MISSING: Any = _Missing()
"""No value: a variable that is not bound, or the result of a path not taken."""


@dataclass(frozen=True, slots=True)
class Poison:
    """The value of a variable without a single meaning; reading it is the error described here."""

    code: str | None  # None: the error was already reported
    error: type[Exception]
    message: str
    notes: tuple[str, ...] = ()
    hint: str = ""
    site: Hashable = None  # see `CompileError`


def lost() -> Poison:
    """The value of something that failed."""
    return Poison(None, Cascade, "")


@dataclass(frozen=True, slots=True)
class Formatted:
    """A run-time value in a text that is not just printed."""

    value: Tensor
    style: str  # "{" for `format(value, spec)`, "%" for `spec % value`, "!r" for its `repr`
    spec: str


@dataclass(frozen=True, slots=True)
class Text:
    """A string that holds run-time values: strings, tensors and `Formatted` in order."""

    parts: tuple[Any, ...]

    def __add__(self, other: Any) -> Any:
        if isinstance(other, (str, Text)):
            return Text((*self.parts, *(other.parts if isinstance(other, Text) else (other,))))
        return NotImplemented

    def __radd__(self, other: Any) -> Any:
        return Text((other, *self.parts)) if isinstance(other, str) else NotImplemented

    def __mul__(self, count: Any) -> Any:
        return Text(self.parts * count) if isinstance(count, int) else NotImplemented

    __rmul__ = __mul__


@dataclass(frozen=True, slots=True)
class Position:
    """How many elements an iterator has given; -1: it is over."""

    taken: int


@dataclass(frozen=True, slots=True)
class RuntimeRange:
    """A range with bounds known only at run time; the step is known."""

    start: Any
    stop: Any
    step: int


def is_runtime(value: object) -> bool:
    """Whether a value is a tensor whose elements are not known."""
    return isinstance(value, GraphTensor) or is_variable(value)


def holds_runtime(value: object, depth: int = 4) -> bool:
    """Whether a value is, or is a container of, run-time tensors."""
    if isinstance(value, (GraphTensor, Text, Formatted, RunObject)) or is_variable(value):
        return True
    if depth and isinstance(value, (tuple, list, set, frozenset, dict)):
        return any(holds_runtime(v, depth - 1) for v in contained(value))
    if depth and is_dataclass(value):
        return any(holds_runtime(v, depth - 1) for v in parts_of(value).values())
    return isinstance(value, slice) and any(
        is_runtime(v) for v in (value.start, value.stop, value.step)
    )


def holds(
    value: object, test: Callable[[Any], bool], depth: int = 3,
    boxes: tuple[type, ...] = (tuple, list),
) -> bool:
    """Whether a test is true of a value, or of what a list or tuple (`boxes`) holds."""
    return test(value) or (depth > 0 and isinstance(value, boxes) and any(
        holds(v, test, depth - 1, boxes) for v in contained(value)))


def is_number(value: object) -> bool:
    """Whether a value is a Python or numpy scalar."""
    return isinstance(value, (bool, int, float, complex, np.generic))


def scalar(value: Any, dtype: DType | None = None) -> Tensor:
    """A number as a rank-0 tensor: bool, int64 or float64 unless `dtype` says otherwise."""
    chosen = dtype or number_dtype(value)
    if is_symbolic(value):
        made: Tensor = apply("size_number", value=value, dtype=chosen)
        return made
    return tensor_of(np.asarray(value, dtype=chosen.numpy))


def number_dtype(value: Any) -> DType:
    """The element type that stands for a number in a graph."""
    if isinstance(value, np.generic):
        return dtypes.from_numpy(value.dtype)
    kind = kind_of(value)
    return dtypes.complex128 if kind is None else DTYPES[kind]


def like(result: Any, *values: Any) -> Any:
    """A tensor of the graph as the kind of value it stands for: a number where each of `values`
    is a number (or has no say)."""
    kinds = {kind_of(v) for v in values if v is not MISSING}
    if len(kinds) != 1 or None in kinds or type(result) is not GraphTensor:
        return result
    (kind,) = kinds
    assert kind is not None
    return as_number(result, kind) if result.dtype is DTYPES[kind] else result


def zeros(ty: TensorType) -> Tensor:
    """A placeholder of a type."""
    one = scalar(0, ty.dtype)
    return apply("broadcast_to", one, shape=ty.shape) if ty.shape else one


_ARTICLES: dict[Kind, str] = {bool: "a bool", int: "an int", float: "a float"}


def describe(value: Any) -> str:
    """A value's type, for messages."""
    if isinstance(value, GraphNumber):
        return f"{_ARTICLES[value._number]} computed at run time"
    if isinstance(value, Tensor):
        return f"Tensor {ir_type(value)}"
    if type(value) is RunObject:
        return f"a {value.kind.cls.__name__} that only the run knows"
    if value is None or isinstance(value, (bool, int, float, str)):
        text = repr(value)
        return text if len(text) < 30 else type(value).__name__
    if isinstance(value, (tuple, list)):
        inner = ", ".join(describe(v) for v in value[:4]) + (", ..." if len(value) > 4 else "")
        return f"{type(value).__name__} ({inner})"
    return f"a {type(value).__name__}"


def same_constant(a: Any, b: Any) -> bool:
    """Whether two compile-time values are interchangeable."""
    if a is b:
        return True
    if type(a) is not type(b) or isinstance(a, Tensor):
        return False
    if isinstance(a, float):
        same_sign = math.copysign(1, a) == math.copysign(1, b)
        return (a == b and same_sign) or (math.isnan(a) and math.isnan(b))
    if isinstance(a, (bool, int, complex, str, bytes, type(None), range, slice, DType,
                      Position)):
        return bool(a == b)
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and np.array_equal(a, b)
    return False


class MergeError(Exception):
    """Two values that cannot become one."""

    def __init__(self, reason: str, hint: str = "", fixed: bool = False) -> None:
        super().__init__(reason)
        self.fixed = fixed  # they are of different types, which is an error whichever path is taken
        # what to do about it
        self.hint = hint or "give both the same shape and dtype (zeros_like, astype, reshape)"


Build = Callable[[Sequence[Tensor]], Any]


def always(value: Any) -> Build:
    """Give a value whatever the results are."""
    return lambda _: value


@dataclass(frozen=True, slots=True)
class Later:
    """A tensor that is made where a path is closed."""

    make: Callable[[], Tensor]


@dataclass(slots=True)
class Merger:
    """Collects the tensors two paths must both give so that a value has one meaning after them."""

    # makes an object of the run of a value, where a path is closed; None: it cannot
    hold: Callable[[Any], RunObject] | None = None
    # for each result its type and what the two paths put there (a tensor, a number, or MISSING for
    # a placeholder)
    pairs: list[tuple[TensorType, Any, Any]] = field(default_factory=list)

    def merge(self, a: Any, b: Any) -> Build:
        """How to build the common value from the results.

        Raises:
            MergeError: the values differ in a way tensors cannot express.
        """
        if same_constant(a, b):
            return always(a)
        if _tensor_like(a) and _tensor_like(b):
            return self._leaf(a, b)
        if a is MISSING or b is MISSING:
            return self._placeholder(b if a is MISSING else a, a is MISSING)
        if self._are_objects(a, b):
            return self._objects(a, b)
        if type(a) is type(b) and isinstance(a, (tuple, list)):
            if len(a) != len(b):
                raise MergeError(f"a {type(a).__name__} of {len(a)} and one of {len(b)} elements")
            return _sequence(type(a), [self.merge(x, y) for x, y in zip(a, b, strict=True)])
        if type(a) is type(b) is dict:
            if list(a) != list(b):
                raise MergeError(f"dicts with the keys {list(a)} and {list(b)}")
            return _mapping({k: self.merge(a[k], b[k]) for k in a})
        if type(a) is type(b) and is_dataclass(a):
            own, other = parts_of(a), parts_of(b)
            if list(own) == list(other):
                return _record(type(a), {k: self.merge(own[k], other[k]) for k in own})
        if isinstance(a, Text) and isinstance(b, Text):
            raise MergeError("strings that hold tensors")
        raise MergeError(f"{describe(a)} and {describe(b)}", _merge_hint(a, b))

    def _leaf(self, a: Any, b: Any) -> Build:
        index = len(self.pairs)
        self.pairs.append((join_types(a, b), a, b))
        return _standing_for(index, a, b)

    def _are_objects(self, a: Any, b: Any) -> bool:
        """Whether two values have an object of the run in common."""
        return self.hold is not None and not (_is_tensor(a) or _is_tensor(b)) and (
            type(a) is RunObject or type(b) is RunObject
            or (is_exactly(a, (str, Text)) and is_exactly(b, (str, Text))))

    def _objects(self, a: Any, b: Any) -> Build:
        """An object of the run; where the paths have no type in common, one of any type."""
        index = len(self.pairs)
        known = [v.kind.cls if type(v) is RunObject
                 else str if is_exactly(v, (str, Text)) else object for v in (a, b)]
        kind = ObjectKind(known[0] if known[0] is known[1] else object, held)
        self.pairs.append((OBJECT, self._handle(a), self._handle(b)))
        return lambda results: kind.of(results[index])

    def _handle(self, value: Any) -> Any:
        """The place of an object of the run; that of another value is made with its path."""
        hold = self.hold
        assert hold is not None
        return value.handle if type(value) is RunObject else Later(lambda: hold(value).handle)

    def _placeholder(self, value: Any, first: bool) -> Build:
        """A value only one path has: the other gives zeros for its tensors."""
        held = value.handle if type(value) is RunObject else value
        if isinstance(held, Tensor):
            index = len(self.pairs)
            pair = (MISSING, held) if first else (held, MISSING)
            self.pairs.append((ir_type(held), *pair))
            return _standing_for(index, value) if held is value else \
                lambda results: value.kind.of(results[index])
        return _rebuilt(value, lambda v: self._placeholder(v, first))


def _standing_for(index: int, *values: Any) -> Build:
    """The result that stands for one of several values."""
    def build(results: Sequence[Tensor]) -> Any:
        made = like(results[index], *values)
        perhaps(made, *values, *([None] if len(values) == 1 else []))
        return made

    return build


def _merge_hint(a: Any, b: Any) -> str:
    if a is None or b is None:
        return "give a tensor on both paths, for example ops.zeros_like(x)"
    if callable(a) and callable(b):
        return "call each in its own branch: f(x) if c else g(x)"
    return "only tensors and numbers can be chosen at run time"


def _is_tensor(value: Any) -> bool:
    """Whether a value is a tensor in the program too, not a number of the graph."""
    return isinstance(value, Tensor) and not isinstance(value, GraphNumber)


def _tensor_like(value: Any) -> bool:
    return isinstance(value, Tensor) or is_number(value)


def _sequence(cls: type, parts: list[Build]) -> Build:
    def build(results: Sequence[Tensor]) -> Any:
        values = [p(results) for p in parts]
        return cls(*values) if hasattr(cls, "_fields") else cls(values)

    return build


def _mapping(parts: dict[Any, Build]) -> Build:
    return lambda results: {k: p(results) for k, p in parts.items()}


def _record(kind: type, parts: dict[str, Build]) -> Build:
    """An object of a dataclass, its fields set."""
    return lambda results: put_together(
        Box(kind, tuple(parts), tuple(Known(p(results)) for p in parts.values())), ())


def _rebuilt(value: Any, part: Callable[[Any], Build]) -> Build:
    """A value again, each of its parts built as `part` says."""
    if isinstance(value, (tuple, list)):
        return _sequence(type(value), [part(v) for v in value])
    if type(value) is dict:
        return _mapping({k: part(v) for k, v in value.items()})
    if found := parts_of(value):
        return _record(type(value), {k: part(v) for k, v in found.items()})
    return always(value)


_RANK = {"b": 0, "i": 1, "u": 1, "f": 2, "V": 2, "c": 3}


def fits(number: Any, dtype: DType) -> bool:
    """Whether a number takes the element type without changing its kind."""
    want = _RANK.get(dtype.numpy.kind, 2)
    have = _RANK[number_dtype(number).numpy.kind]
    return have == want if 0 in (have, want) else have <= want


def join_types(a: Any, b: Any) -> TensorType:
    """The type of a result that is `a` on one path and `b` on the other.

    Raises:
        MergeError: they have none in common.
    """
    if _is_tensor(a) and _is_tensor(b):
        if ir_type(a) != ir_type(b):
            raise MergeError(f"{describe(a)} and {describe(b)}", fixed=a.dtype != b.dtype)
        common: TensorType = ir_type(a)
        return common
    for tensor, number in ((a, b), (b, a)):
        if kind_of(tensor) is None and isinstance(tensor, Tensor):
            if tensor.shape == () and fits(number, tensor.dtype):
                return ir_type(tensor)
            raise MergeError(f"{describe(a)} and {describe(b)}", fixed=True)
    if number_dtype(a) != number_dtype(b):
        raise MergeError(f"{describe(a)} and {describe(b)}",
                         "give both the same type of number, for example 0.0 instead of 0", True)
    return TensorType((), number_dtype(a))


def as_tensor(value: Any, ty: TensorType) -> Tensor:
    """A tensor, number or MISSING as a tensor of type `ty`."""
    if value is MISSING:
        return zeros(ty)
    if isinstance(value, Later):
        return value.make()
    if not isinstance(value, Tensor):
        return scalar(value, ty.dtype)
    if isinstance(value, GraphNumber) and value.dtype is not ty.dtype:
        out: Tensor = apply("cast", value, dtype=ty.dtype)
        return out
    return value


def flatten(value: Any, leaves: list[Any], numbers: bool) -> Build:
    """Append the tensors of a value (and its numbers, if asked) to `leaves`; how to rebuild it."""
    if isinstance(value, Tensor) or (numbers and is_number(value)):
        index = len(leaves)
        leaves.append(value)
        return lambda results: results[index]
    if type(value) is RunObject:
        place = len(leaves)
        leaves.append(value.handle)
        return lambda results: value.kind.of(results[place])
    return _rebuilt(value, lambda v: flatten(v, leaves, numbers))


def restored(results: Sequence[Tensor], kinds: Sequence[Kind | None]) -> list[Any]:
    """Tensors of the graph as numbers of the kinds that are given."""
    return [t if k is None else as_number(t, k) for t, k in zip(results, kinds, strict=True)]


def skeleton(value: Any, numbers: bool) -> Any:
    """A value with its leaves taken out, for comparing structures."""
    if isinstance(value, Tensor) or (numbers and is_number(value)):
        return MISSING
    if type(value) is RunObject:
        return [RunObject, value.kind.cls]
    if isinstance(value, (tuple, list)):
        return [type(value), *(skeleton(v, numbers) for v in value)]
    if type(value) is dict:
        return {k: skeleton(v, numbers) for k, v in value.items()}
    if found := parts_of(value):
        return [type(value), *(skeleton(v, numbers) for v in found.values())]
    return value


def same_structure(a: Any, b: Any) -> bool:
    """Whether two skeletons are equal (compile-time parts compared as constants)."""
    if type(a) is type(b) is list:
        return len(a) == len(b) and all(same_structure(x, y) for x, y in zip(a, b, strict=True))
    if type(a) is type(b) is dict:
        return list(a) == list(b) and all(same_structure(a[k], b[k]) for k in a)
    return same_constant(a, b)


def with_parts(value: Any, change: Callable[[Any], Any]) -> Any:
    """A list, tuple or dict with each part changed; the very object where no part is another."""
    if not is_exactly(value, (list, tuple, dict)):
        return value
    inside = value.values() if isinstance(value, dict) else value
    parts = [change(v) for v in inside]
    if all(a is b for a, b in zip(inside, parts, strict=True)):
        return value
    return dict(zip(value, parts, strict=True)) if isinstance(value, dict) else type(value)(parts)


def as_known(value: Any, depth: int = 4) -> Any:
    """A value for Python's own code that hashes or shows it: an open size becomes the number that
    it is in this call, and is asked for."""
    if is_symbolic(value):
        return int(value) if type(value) is Dim else float(value)
    if not depth:
        return value
    if isinstance(value, tuple) and hasattr(type(value), "_fields"):
        return tuple.__new__(type(value), [as_known(v, depth - 1) for v in value])
    return with_parts(value, lambda v: as_known(v, depth - 1))


def held_in(box: list[Any] | tuple[Any, ...]) -> list[Any]:
    """The elements of a list or tuple without a call of its class's own methods."""
    own: Any = list if isinstance(box, list) else tuple
    return [*own.__iter__(box)]


def refuse_open(value: Any) -> None:
    """Refuse an object that holds an open size, where Python runs a method of its class."""
    parts = [*(own_attributes(value) or {}).values()]
    if is_dataclass(value) and not isinstance(value, type):  # (it may have slots)
        parts += [getattr(value, f.name, None) for f in fields(value)]
    if any(map(is_symbolic, [*parts, *(value if isinstance(value, tuple) else ())])):
        raise TypeError(f"an attribute of {type(value).__name__} is a size that is known only at "
                        "run time")


def as_key(value: Any) -> Any:
    """A value that Python hashes, see `as_known`; a text with values of the run has no hash."""
    if isinstance(value, Text):
        raise TypeError("a text with values known only at run time cannot be a key")
    return as_known(value)


def in_text(value: Any, depth: int = 4) -> Any:
    """A value as a string shows it: a size that is left open is a number of the graph."""
    if type(value) is Dim:
        return as_number(scalar(value), int)
    if is_symbolic(value):
        return as_known(value)
    if isinstance(value, tuple) and hasattr(type(value), "_fields"):
        return as_known(value)
    return with_parts(value, lambda v: in_text(v, depth - 1)) if depth else value


def any_runtime(values: Iterable[object]) -> bool:
    """Whether one of the values holds a run-time tensor."""
    return any(holds_runtime(v) for v in values)
