"""Numbers of the graph: Python's bool, int and float where only the run knows the value.

`int(t)`, `t.item()`, a counter of a run-time loop or a number chosen by a run-time condition is a
number in PyNative: it has Python's arithmetic, does not decide the element type of a tensor it
meets, and is returned as a number. A `GraphNumber` is the same in a graph: int64 or float64 without
axes. Operations that Python does in doubles are done in doubles, so both modes give the same bits.
Ints are 64 bits wide; a division by zero ends the call with Python's exception.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from cellc_compiler.ir.graph import Value
from cellc_runtime import dtypes
from cellc_runtime.dtypes import DType

from ..core.dispatch import active_tracer, apply
from ..tensors.symbol import Described
from ..tensors.tensor import Tensor, elements_now, tensor_of
from .tracer import GraphTensor

Kind = type[bool] | type[int] | type[float]
DTYPES: dict[Kind, DType] = {bool: dtypes.bool_, int: dtypes.int64, float: dtypes.float64}
"""The element type that stands for each kind of number."""


class GraphNumber(GraphTensor):
    """A Python number known only at run time.

    Args:
        value: without axes, of the element type of `kind`.
        kind: bool, int or float.
    """

    __slots__ = ("_number",)
    _number: Kind

    def __init__(self, value: Value, kind: Kind) -> None:
        super().__init__(value)
        self._number = kind

    def __repr__(self) -> str:
        return f"<graph {self._number.__name__}>"

    __str__ = __repr__
    __hash__ = GraphTensor.__hash__

    # (The operators follow below: `_OPERATORS`.)

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self

    def __pow__(self, other: Any, modulus: Any = None) -> Any:
        if modulus is not None:
            raise TypeError("pow() with a modulus needs numbers known while compiling")
        return _power(self, other) if _plain(other) else GraphTensor.__pow__(self, other)

    def __rpow__(self, other: Any) -> Any:
        if isinstance(other, Tensor) and not _plain(other):
            return GraphTensor.__pow__(other, self)
        return _power(other, self) if _plain(other) else NotImplemented

    def __neg__(self) -> Any:
        return _unary("neg", self)

    def __pos__(self) -> Any:
        return as_kind(self, int) if self._number is bool else self

    def __abs__(self) -> Any:
        return _unary("abs", self)

    def __invert__(self) -> Any:
        if self._number is float:
            raise TypeError("bad operand type for unary ~: 'float'")
        return -1 - self

    def __round__(self, ndigits: int | None = None) -> Any:
        if self._number is not float:
            if ndigits is not None and ndigits < 0:
                raise TypeError("round() of an int known only at run time takes no digits")
            return +self
        if ndigits is not None:
            raise TypeError(
                "round() to decimal digits needs a number known while compiling: use ops.round"
            )
        return _made(apply("cast", apply("round", self), dtype=dtypes.int64), int)

    def __floor__(self) -> Any:
        return self._to_int("floor")

    def __ceil__(self) -> Any:
        return self._to_int("ceil")

    def __trunc__(self) -> Any:
        return as_kind(self, int)

    def _to_int(self, rounding: str) -> Any:
        if self._number is not float:
            return +self
        return _made(apply("cast", apply(rounding, self), dtype=dtypes.int64), int)


def kind_of(value: object) -> Kind | None:
    """The kind of a number, of Python or of the graph; None for anything else."""
    if isinstance(value, GraphNumber):
        return value._number
    for kind in (bool, int, float):
        if type(value) is kind:
            return kind
    if isinstance(value, int):  # a subclass (IntEnum, mutable)
        return int
    return float if isinstance(value, float) else None  # numpy's float64 is a float of Python's


class MutableInt(int):
    """An int that a graph takes at run time: an input, not a part of the signature."""


class MutableFloat(float):
    """A float that a graph takes at run time."""


class MutableBool(int):
    """A bool that a graph takes at run time (bool itself has no subclasses)."""

    def __repr__(self) -> str:
        return repr(bool(self))

    __str__ = __repr__


MUTABLE: dict[type, Kind] = {MutableInt: int, MutableFloat: float, MutableBool: bool}
"""The classes of numbers that are inputs of a graph."""


def input_of(tensor: Tensor, kind: Kind) -> Any:
    """A number that is an input of a graph again, from the tensor that stands for it."""
    made = next(m for m, its_kind in MUTABLE.items() if its_kind is kind)
    return made(0 if isinstance(tensor, Described) else tensor.item())


def as_input(value: Any) -> Tensor:
    """The tensor by which a mutable number enters a graph."""
    return _constant(value, DTYPES[MUTABLE[type(value)]])


def _plain(value: object) -> bool:
    return kind_of(value) is not None


def as_number(tensor: Tensor, kind: Kind) -> Any:
    """A tensor of one element as a number: of the graph, or, if its element is known, Python's."""
    if not isinstance(tensor, GraphTensor):
        return kind(elements_now(tensor).item())
    one = apply("reshape", tensor, shape=()) if tensor.shape else tensor
    if one.dtype is not DTYPES[kind]:
        one = apply("cast", one, dtype=DTYPES[kind]) if kind is not bool else \
            apply("ne", one, _constant(0, one.dtype))
    return GraphNumber(one.ir_value, kind)


def item_of(tensor: GraphTensor, kind: Kind | None = None) -> GraphNumber:
    """`tensor.item()`, `int(tensor)`, ...: the element as a number, without a gradient."""
    if kind is None:
        dtype = tensor.dtype
        kind = bool if dtype is dtypes.bool_ else int if dtype.is_integer else float
    if isinstance(tensor, GraphNumber):
        return as_kind(tensor, kind)
    made: GraphNumber = as_number(apply("stop_gradient", tensor), kind)
    return made


def as_kind(number: Any, kind: Kind) -> GraphNumber:
    """A number as one of another kind: `int(n)`, `float(n)`, `bool(n)`."""
    if isinstance(number, GraphNumber):
        return number if number._number is kind else as_number(number, kind)
    return _made(apply("reshape", _constant(number, DTYPES[kind]), shape=()), kind)


def stacked(value: Any, dtype: DType | None = None) -> Tensor:
    """The tensor of a list or tuple of numbers, some of which are the graph's. Raises TypeError if
    there is something else in it."""
    kinds = _kinds_in(value)
    if not kinds:
        raise TypeError("a list that holds computed tensors cannot become a Tensor: use ops.stack")
    own = dtypes.float32 if float in kinds else DTYPES[int if int in kinds else bool]

    def walk(part: Any) -> Tensor:
        if isinstance(part, (list, tuple)):
            made: Tensor = apply("stack", *map(walk, part), axis=0)
            return made
        number: Tensor = apply("cast", as_kind(part, kind_of(part) or int), dtype=dtype or own)
        return number

    return walk(value)


def _kinds_in(value: Any) -> set[Kind]:
    """The kinds of the numbers in a list or tuple; none if there is anything else in it."""
    if not isinstance(value, (list, tuple)):
        kind = kind_of(value)
        return set() if kind is None else {kind}
    parts = list(map(_kinds_in, value))
    return set().union(*parts) if all(parts) else set()


def _made(tensor: Any, kind: Kind) -> GraphNumber:
    return GraphNumber(tensor.ir_value, kind)


def _constant(value: Any, dtype: DType) -> Tensor:
    return tensor_of(np.asarray(value, dtype=dtype.numpy))


def _operand(value: Any, kind: Kind) -> Tensor:
    if isinstance(value, GraphNumber):
        return as_kind(value, kind)
    return _constant(value, DTYPES[kind])


def _common(x: Any, y: Any, least: Kind) -> Kind:
    kinds = (kind_of(x), kind_of(y), least)
    return float if float in kinds else int if int in kinds else bool


Method = Callable[[Any, Any], Any]


def _binary(op: str, x: Any, y: Any, method: Method) -> Any:
    """An arithmetic operator: Python's where both are numbers, else Tensor's `method`."""
    if not (_plain(x) and _plain(y)):
        return method(x, y) if isinstance(x, Tensor) else NotImplemented
    kind = _common(x, y, float if op == "div" else int)
    a, b = _operand(x, kind), _operand(y, kind)
    if op in _DIVISIONS:
        _refuse_zero(op, int if op == "div" and _common(x, y, int) is int else kind, y, b)
    if op == "floor_div" and kind is float:
        return _made(_floor_division(a, b), float)
    return _made(apply(op, a, b), kind)


_DIVISIONS: dict[str, Callable[[Any, Any], Any]] = {
    "div": operator.truediv, "floor_div": operator.floordiv, "mod": operator.mod,
}


@cache
def _zero_message(op: str, kind: Kind) -> str:
    """Return Python's message for such a division by zero (versions differ)."""
    try:
        _DIVISIONS[op](kind(1), kind(0))
    except ZeroDivisionError as e:
        return str(e)
    raise AssertionError(op)


def _refuse_zero(op: str, kind: Kind, given: Any, divisor: Tensor) -> None:
    """A division by zero ends the call, as Python's does."""
    text = _zero_message(op, kind)  # type: ignore[arg-type]  # classes are hashable
    if not isinstance(given, GraphNumber):
        if given == 0:
            raise ZeroDivisionError(text)
        return
    tracer = active_tracer()
    if tracer is not None:
        tracer.check(apply("ne", divisor, _constant(0, divisor.dtype)), "ZeroDivisionError",
                     [text], ())


def _floor_division(a: Tensor, b: Tensor) -> Any:
    """Python's `//` of floats: from the exact remainder, not from a rounded quotient."""
    quotient = apply("div", apply("sub", a, apply("mod", a, b)), b)
    down = apply("floor", quotient)
    short = apply("gt", apply("sub", quotient, down), _constant(0.5, dtypes.float64))
    return apply("where", short, apply("add", down, _constant(1, dtypes.float64)), down)


def _power(x: Any, y: Any) -> Any:
    """`x ** y` of numbers; an int to a negative power is a float."""
    kind = _common(x, y, int)
    if kind is int and isinstance(y, GraphNumber) and y._number is not bool:
        raise TypeError(
            "an int to the power of an int known only at run time is an int or a float, "
            "depending on the sign: make one of them a float"
        )
    if kind is int and y < 0:
        kind = float
    if isinstance(y, int) and 0 <= y <= 2 and isinstance(x, GraphNumber):
        one = _made(apply("add", _operand(x * 0, kind), _constant(1, DTYPES[kind])), kind)
        base = as_kind(x, kind)
        return (one, base, base * base)[y]
    return _made(apply("pow", _operand(x, kind), _operand(y, kind)), kind)


def power_of_ints(x: Any, y: GraphNumber) -> GraphNumber:
    """`x ** y` of ints, where `y` is known not to be negative."""
    return _made(apply("pow", _operand(x, int), _operand(y, int)), int)


def _bits(op: str, x: Any, y: Any, method: Method) -> Any:
    if not (_plain(x) and _plain(y)):
        return method(x, y) if isinstance(x, Tensor) else NotImplemented
    shift = op.startswith("shift")
    kind = _common(x, y, int if shift else bool)
    if kind is float:
        raise TypeError(f"unsupported operand types for a bit operation: "
                        f"{_name(x)} and {_name(y)}")
    a, b = _operand(x, kind), _operand(y, kind)
    if shift:
        return _made(apply(op, a, b), int)
    return _made(apply(f"logical_{op}" if kind is bool else f"bitwise_{op}", a, b), kind)


def _name(value: Any) -> str:
    kind = kind_of(value)
    return f"'{kind.__name__ if kind else type(value).__name__}'"


def _unary(op: str, x: GraphNumber) -> GraphNumber:
    kind = int if x._number is bool else x._number
    return _made(apply(op, _operand(x, kind)), kind)


def _comparison(op: str, x: Any, y: Any, method: Method) -> Any:
    if not (_plain(x) and _plain(y)):
        if not isinstance(y, Tensor) and op in ("eq", "ne"):
            return op == "ne"
        return method(x, y)
    kind = _common(x, y, bool)
    if kind is bool and op not in ("eq", "ne"):
        kind = int
    return _made(apply(op, _operand(x, kind), _operand(y, kind)), bool)


# --- operators: as Python's with numbers, as a number's with tensors ------------------------------

_OPERATORS: dict[Callable[[str, Any, Any, Method], Any], dict[str, str]] = {
    _binary: {"add": "add", "sub": "sub", "mul": "mul", "truediv": "div", "floordiv": "floor_div",
              "mod": "mod"},
    _bits: {"and": "and", "or": "or", "xor": "xor", "lshift": "shift_left",
            "rshift": "shift_right"},
    _comparison: {name: name for name in ("eq", "ne", "lt", "le", "gt", "ge")},
}
"""By what computes them, operators and their ops."""


def _operator(
    name: str, op: str, run: Callable[[str, Any, Any, Method], Any], swapped: bool = False
) -> Callable[[Any, Any], Any]:
    def method(self: GraphNumber, other: Any) -> Any:
        x, y = (other, self) if swapped else (self, other)
        # (Tensor gets some of its operators when `cellc.ops` is loaded.)
        return run(op, x, y, getattr(GraphTensor, name))

    method.__name__ = name
    return method


for _run, _ops in _OPERATORS.items():
    for _method, _op in _ops.items():
        setattr(GraphNumber, f"__{_method}__", _operator(f"__{_method}__", _op, _run))
        if _run is not _comparison:
            setattr(GraphNumber, f"__r{_method}__", _operator(f"__{_method}__", _op, _run, True))


# --- methods of tensors that give numbers ---------------------------------------------------------

LISTED = 4096  # Elements up to which a tensor of the graph becomes a list of numbers


def _item(self: GraphTensor) -> GraphNumber:
    """The only element as a number, without a gradient."""
    if self._type.size != 1:
        raise ValueError(
            f"The tensor should have only one element, but got {self._type.size}, "
            "more than one element is ambiguous."
        )
    return item_of(self)


def _tolist(self: GraphTensor) -> Any:
    """The elements as a nested list of numbers."""
    if self._type.size > LISTED:
        raise ValueError(
            f"tolist() of {self._type.size} elements while a graph is compiled: "
            f"at most {LISTED} become numbers"
        )
    if not self.shape:
        return item_of(self)
    return [self[i].tolist() for i in range(self.shape[0])]


# A number is a tensor of the graph, so the methods that make one are defined after it.
GraphTensor.item = _item  # type: ignore[method-assign, assignment]  # gives a GraphNumber, defined later
GraphTensor.tolist = _tolist  # type: ignore[method-assign, assignment]  # of GraphNumbers
