"""Scalar expressions: what one element of a result is.

An op of the fusable kind says what it computes at an index; the code generator evaluates the
expression for one element or for a vector of them. Each operation rounds to its own dtype, so
an expression gives the same bits wherever it is fused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from cellc_runtime import dtypes
from cellc_runtime.dtypes import DType
from cellc_runtime.records import dataclass

from ..ir.dims import is_symbolic
from .index import Dyn, Index, Var, leaves

if TYPE_CHECKING:
    from ..ir.types import TensorType


@dataclass(frozen=True, slots=True, eq=False)
class Expr:
    """A value of one element: an operation name, argument expressions and a dtype.

    Operators build expressions: both sides must have one dtype (Python numbers become
    constants of it). Comparisons give bool. Equality and hash are by identity.
    """

    op: str
    args: tuple[Expr, ...]
    dtype: DType
    payload: Any = None

    def _other(self, x: Expr | float | int | bool) -> Expr:
        if not isinstance(x, Expr):
            return const(x, self.dtype)
        if x.dtype is not self.dtype:
            raise TypeError(f"{self.dtype} and {x.dtype} in one scalar operation")
        return x

    def __add__(self, x: Expr | float) -> Expr:
        return call("add", self, self._other(x))

    def __radd__(self, x: float) -> Expr:
        return call("add", self._other(x), self)

    def __sub__(self, x: Expr | float) -> Expr:
        return call("sub", self, self._other(x))

    def __rsub__(self, x: float) -> Expr:
        return call("sub", self._other(x), self)

    def __mul__(self, x: Expr | float) -> Expr:
        return call("mul", self, self._other(x))

    __rmul__ = __mul__

    def __truediv__(self, x: Expr | float) -> Expr:
        return call("div", self, self._other(x))

    def __rtruediv__(self, x: float) -> Expr:
        return call("div", self._other(x), self)

    def __neg__(self) -> Expr:
        return call("neg", self)

    def lt(self, x: Expr | float) -> Expr:
        """self < x."""
        return compare("lt", self, self._other(x))

    def le(self, x: Expr | float) -> Expr:
        """self <= x."""
        return compare("le", self, self._other(x))

    def gt(self, x: Expr | float) -> Expr:
        """self > x."""
        return compare("gt", self, self._other(x))

    def ge(self, x: Expr | float) -> Expr:
        """self >= x."""
        return compare("ge", self, self._other(x))

    def eq(self, x: Expr | float) -> Expr:
        """self == x (false for NaN)."""
        return compare("eq", self, self._other(x))

    def ne(self, x: Expr | float) -> Expr:
        """self != x (true for NaN)."""
        return compare("ne", self, self._other(x))

    def __and__(self, x: Expr | bool) -> Expr:
        return call("and", self, self._other(x))

    def __or__(self, x: Expr | bool) -> Expr:
        return call("or", self, self._other(x))

    def __invert__(self) -> Expr:
        return call("not", self)

    def variables(self) -> Iterator[Var]:
        """Loop variables the expression depends on; a part that several read is walked once."""
        seen: set[int] = set()
        stack = [self]
        while stack:
            e = stack.pop()
            if id(e) in seen:
                continue
            seen.add(id(e))
            stack.extend(e.args)
            index = e.payload.offset if e.op == "load" else e.payload if e.op == "index" else None
            for leaf in () if index is None else leaves(index):
                if isinstance(leaf, Dyn):
                    stack.append(leaf.expr)
                else:
                    yield leaf


@dataclass(frozen=True, slots=True)
class Access:
    """Payload of a load: a buffer (opaque to expressions) at a linear element offset.

    A complex buffer is read as its real parts: `part` is 0 (real) or 1 (imaginary).
    """

    buffer: Any
    offset: Index
    part: int | None = None


def load(buffer: Any, offset: Index, dtype: DType, mask: Expr | None = None,
         part: int | None = None) -> Expr:
    """An element of a buffer; where `mask` is false no memory is read and the value is 0."""
    return Expr("load", (mask,) if mask is not None else (), dtype, Access(buffer, offset, part))


def const(x: float | int | bool | np.generic, dtype: DType) -> Expr:
    """A constant, rounded to `dtype`; a symbolic size is a number that is known when code runs."""
    if is_symbolic(x):
        at: Any = x
        return cast(index_value(Index((), at)), dtype)
    with np.errstate(over="ignore"):
        value = np.asarray(x).astype(dtype.numpy)
    if dtype.kind == "float":
        return Expr("const", (), dtype, float(value))
    return Expr("const", (), dtype, bool(value) if dtype.kind == "bool" else int(value))


def call(name: str, *args: Expr) -> Expr:
    """An arithmetic operation or function on arguments of one dtype, of that dtype.

    Names: add sub mul div neg abs and or xor not shl shr maximum minimum, and every function of
    `ops/transcendental.py` (exp, log, tanh, erf, pow, floor, ...). float16 and bfloat16 are
    computed in float32 and rounded after each operation.
    """
    return Expr(name, args, args[0].dtype)


def compare(pred: str, a: Expr, b: Expr) -> Expr:
    """lt le gt ge eq ne; ordered, but `ne` is true for NaN."""
    return Expr("cmp", (a, b), dtypes.bool_, pred)


def where(cond: Expr, a: Expr, b: Expr) -> Expr:
    """cond ? a : b."""
    return Expr("select", (cond, a, b), a.dtype)


def cast(e: Expr, dtype: DType) -> Expr:
    """Conversion between real dtypes (total rules: see `ops/cast.py`)."""
    return e if e.dtype is dtype else Expr("cast", (e,), dtype)


def bitcast(e: Expr, dtype: DType) -> Expr:
    """The same bits as another dtype of equal size."""
    return e if e.dtype is dtype else Expr("bitcast", (e,), dtype)


def index_value(i: Index | int) -> Expr:
    """An index as an int64 value."""
    idx = Index.of(i)
    if not idx.terms and not is_symbolic(idx.const):
        return const(idx.const, dtypes.int64)
    return Expr("index", (), dtypes.int64, idx)


def dynamic_index(e: Expr, extent: int) -> Index:
    """A run-time integer as an index, clamped to 0..extent-1 so that no access leaves a buffer."""
    e64 = cast(e, dtypes.int64)
    last = extent - 1 if is_symbolic(extent) else max(extent - 1, 0)
    clamped = call("minimum", call("maximum", e64, const(0, dtypes.int64)),
                   const(last, dtypes.int64))
    return Index.of(Dyn(clamped, 0, last))


@dataclass(slots=True)
class Reader:
    """The reader of operands for `Op.value` and `Reduction.value`."""

    types: tuple[TensorType, ...]  # operand types
    out: tuple[TensorType, ...]  # result type(s)
    attrs: dict[str, Any]  # the node's attributes
    # `read(k, idx, where=None)`: operand `k` at an index tuple of its rank. `where` (a bool
    # expression) promises that the value is used only where true: elsewhere the index may be out of
    # bounds, nothing is read, and the value is 0.
    read: Callable[..., Any]

    def broadcast(self, k: int, idx: tuple[Index, ...]) -> Any:
        """Operand `k` at the numpy-broadcast of a result index."""
        dims = self.types[k].dims
        tail = idx[len(idx) - len(dims):]
        own = tuple([Index.of(0) if d == 1 else i for d, i in zip(dims, tail, strict=True)])
        return self.read(k, own)


@dataclass(frozen=True, slots=True)
class ComplexExpr:
    """A complex element as its two real parts (fusable ops return it for complex results)."""

    re: Expr
    im: Expr


@dataclass(frozen=True, slots=True)
class Reduction:
    """A reduction over axes of an index space."""

    # sum prod max min any all argmax argmin. max/min propagate NaN; the first of equal extremes
    # wins in argmax/argmin (a NaN counts as the extreme, the first one wins).
    kind: str
    shape: tuple[int, ...]  # the full index space
    axes: tuple[int, ...]  # the reduced axes, sorted
    accumulate: DType  # dtype of the accumulator (float32 for float16 and bfloat16)
    # the element to reduce at a full index (default: operand 0)
    value: Callable[[Reader, tuple[Index, ...]], Expr]
