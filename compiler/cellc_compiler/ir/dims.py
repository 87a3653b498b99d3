"""Symbolic dimensions: polynomials over named symbols, with a decision procedure for tracing.

A `Dim` behaves as an int whose value is not known yet. Arithmetic stays symbolic and canonical,
so equality of equal sizes is structural. A *question* (`==`, `<`, truth, `int()`) is answered

1. from the expressions alone, where the bounds of the symbols and what is known decide it;
2. else, while a network is traced, from the sizes of the call that is traced (`Shapes.hints`),
   and the answer is written down as a `Guard`: what is compiled serves the sizes that satisfy it;
3. else not at all: `Undecided`.

So library code that was written for ints serves symbols too and stays right: the worst that can
happen is a guard that makes what is compiled serve one size only. Code that is generated for all
sizes (`Facts.general`) does not ask whether two sizes happen to be equal: unless they always are,
they are treated as different. Source of the idea of sizes that are backed by hints and guarded by
what was asked: the symbolic shapes of PyTorch 2 (Ansel et al., ASPLOS 2024).
"""

from __future__ import annotations

import math
import operator
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from numbers import Integral
from typing import Any, Protocol, TypeVar, Union

from cellc_runtime.lazy import lazy_imports
from cellc_runtime.records import dataclass

with lazy_imports(__name__):
    from cellc_runtime import open_sizes

    from . import divisors, size_functions

# An atom is a symbol or a floor division; a monomial a sorted tuple of atoms; a polynomial maps
# monomials to integer coefficients.
Atom = Union[str, "Quotient", "Applied"]
Monomial = tuple[Atom, ...]
Size = Union[int, "Dim"]
Bounds = tuple[int | None, int | None]
Met = tuple[str, int]
"""Where a trace asks for a size: a place in the source, and how often it has asked there before."""
T = TypeVar("T")
MOST_TERMS, MOST_FACTORS = 1 << 10, 1 << 6  # Of the expression of a size: terms, factors of a term
MOST_BITS = 256  # Of a number in the expression of a size
_MOST_POWER = 8  # The highest power of a size that is an expression; a higher one fixes the size


class Undecided(ValueError):
    """A question about a symbolic size that has no answer for all sizes."""


@dataclass(frozen=True, slots=True)
class Quotient:
    """`numerator // divisor`, rounded down, where it does not come out even."""

    numerator: Size
    divisor: Size

    def __str__(self) -> str:
        return f"{_grouped(self.numerator)}//{_grouped(self.divisor)}"


@dataclass(frozen=True, slots=True)
class Applied:
    """One of the runtime's `FUNCTIONS`: of sizes that are not negative, or a `Ratio` made whole."""

    function: str
    args: tuple[Any, ...]

    def __str__(self) -> str:
        return f"{self.function}({', '.join(map(str, self.args))})"


def applied(function: str, *args: Any) -> Any:
    if not any(map(is_symbolic, args)):
        return open_sizes.FUNCTIONS[function](*args)
    return Dim((((Applied(function, args),), 1),))


def smallest(*sizes: Size) -> Any:
    """The smallest of sizes; asks nothing."""
    return applied("min", *sizes)


def largest(*sizes: Size) -> Any:
    """The largest of sizes; asks nothing."""
    return applied("max", *sizes)


def choose(x: Size, least: Size, a: Size, b: Size) -> Any:
    """`a` if `x >= least`, else `b`; asks nothing."""
    return applied("choose", x, least, a, b)


def _grouped(x: Size) -> str:
    compound = not x.is_symbol if isinstance(x, Dim) else x < 0
    return f"({x})" if compound else str(x)


def _order(atom: Atom) -> str:
    return atom if isinstance(atom, str) else f"({atom})"


def _bitwise(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda self, other: function(other, int(self))


class Dim:
    """A symbolic size. Build one with `Dim.symbol`; combine with `+ - * // %`."""

    __slots__ = ("_hash", "_text", "terms")
    terms: tuple[tuple[Monomial, int], ...]

    def __init__(self, terms: tuple[tuple[Monomial, int], ...]) -> None:
        self.terms = terms
        self._hash, self._text = hash(terms), ""

    # To `isinstance(x, int)` a Dim is an int; only C code can tell, and asks for `__index__`.
    __class__ = property(lambda self: int)

    @staticmethod
    def symbol(name: str) -> Dim:
        """The dimension called `name` (an identifier)."""
        return Dim((((name,), 1),))

    @property
    def is_symbol(self) -> bool:
        """Whether this is a symbol alone."""
        return len(self.terms) == 1 and self.terms[0][1] == 1 and len(self.terms[0][0]) == 1

    # --- arithmetic -----------------------------------------------------------------------------

    def __add__(self, other: Any) -> Any:
        if type(other) is float or type(other) is Ratio:
            return Ratio("+", self, other)
        if not _is_size(other):
            return NotImplemented
        poly = terms_of(self)
        for m, c in terms_of(other).items():
            poly[m] = poly.get(m, 0) + c
        return size_of(poly)

    __radd__ = __add__

    def __neg__(self) -> Any:
        return size_of({m: -c for m, c in self.terms})

    def __pos__(self) -> Dim:
        return self

    def __sub__(self, other: Any) -> Any:
        if type(other) is float or type(other) is Ratio:
            return Ratio("-", self, other)
        return self + (-other) if _is_size(other) else NotImplemented

    def __rsub__(self, other: Any) -> Any:
        if type(other) is float:
            return Ratio("-", other, self)
        return -self + other if _is_size(other) else NotImplemented

    def __mul__(self, other: Any) -> Any:
        if type(other) is float or type(other) is Ratio:
            return Ratio("*", self, other)
        if not _is_size(other):
            return NotImplemented
        poly: dict[Monomial, int] = {}
        right = terms_of(other)
        if len(self.terms) * len(right) > MOST_TERMS:
            raise ValueError(TOO_LARGE)
        for m1, c1 in self.terms:
            for m2, c2 in right.items():
                m = tuple(sorted(m1 + m2, key=_order)) if m1 and m2 else m1 + m2
                poly[m] = poly.get(m, 0) + c1 * c2
        return size_of(divisors.even(poly))

    __rmul__ = __mul__

    def __floordiv__(self, divisor: Any) -> Any:
        return divide(self, divisor) if _is_size(divisor) else NotImplemented

    def __rfloordiv__(self, number: Any) -> Any:
        return divide(number, self) if _is_size(number) else NotImplemented

    def __mod__(self, divisor: Any) -> Any:
        return self - divide(self, divisor) * divisor if _is_size(divisor) else NotImplemented

    def __rmod__(self, number: Any) -> Any:
        if not _is_size(number):
            return NotImplemented
        return number - divide(number, self) * self

    def __divmod__(self, divisor: Any) -> tuple[Any, Any]:
        return self // divisor, self % divisor

    def __truediv__(self, other: Any) -> Any:
        if type(other) is Dim:
            return other.__rtruediv__(self)
        return Ratio("/", self, other) if _is_number(other) else NotImplemented

    def __rtruediv__(self, other: Any) -> Any:
        if not _is_number(other):
            return NotImplemented
        if self == 0:
            raise ZeroDivisionError("division by zero")
        return Ratio("/", other, self)

    def __pow__(self, power: Any) -> Any:
        if not _is_number(power):
            return NotImplemented
        if type(power) in (float, Ratio) or (type(power) is int and power < 0):
            return Ratio("**", self, power)  # a float, in Python too
        power = int(power)
        return math.prod([self] * power) if power <= _MOST_POWER else int(self) ** power

    def __abs__(self) -> Any:
        return self if self >= 0 else -self

    __and__ = __rand__ = _bitwise(operator.and_)
    __or__ = __ror__ = _bitwise(operator.or_)
    __xor__ = __rxor__ = _bitwise(operator.xor)
    __rlshift__, __rrshift__ = map(_bitwise, (operator.lshift, operator.rshift))

    def __rpow__(self, base: Any) -> Any:
        return Ratio("**", base, self) if type(base) is float and base > 0 else base ** int(self)

    def __lshift__(self, count: Any) -> Any:
        return self * (1 << int(count))

    def __rshift__(self, count: Any) -> Any:
        return divide(self, 1 << int(count))

    def __invert__(self) -> Any:
        return -self - 1

    def bit_length(self) -> int:
        """As of int; fixes the size."""
        return int(self).bit_length()

    # --- questions ------------------------------------------------------------------------------

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if type(other) is Dim and self.terms == other.terms:
            return True
        if _is_size(other):
            return _ask("==", self - other)
        return float(self) == other if type(other) is float else NotImplemented

    def __ne__(self, other: object) -> bool:
        same = self.__eq__(other)
        return same if same is NotImplemented else not same

    def __lt__(self, other: Any) -> bool:
        return self._compare(other, lambda: other - self - 1, lambda x: x < other)

    def __le__(self, other: Any) -> bool:
        return self._compare(other, lambda: other - self, lambda x: x <= other)

    def __gt__(self, other: Any) -> bool:
        return self._compare(other, lambda: self - other - 1, lambda x: x > other)

    def __ge__(self, other: Any) -> bool:
        return self._compare(other, lambda: self - other, lambda x: x >= other)

    def _compare(
        self, other: Any, difference: Callable[[], Size], plain: Callable[[int], bool]
    ) -> bool:
        if _is_size(other):
            return _ask(">=", difference())
        if isinstance(other, float) and math.isinf(other):
            return plain(0)
        return plain(int(self)) if isinstance(other, (int, float)) else NotImplemented

    def __bool__(self) -> bool:
        return not _ask("==", self)

    def __index__(self) -> int:
        return fixed(self)

    __int__ = __index__
    __trunc__ = __index__

    def __float__(self) -> float:
        return float(fixed(self))

    def __round__(self, digits: int | None = None) -> Dim:
        return self

    __floor__ = __ceil__ = __pos__

    def __str__(self) -> str:
        text = self._text  # (terms are in the order of their texts, so it is often asked for)
        for m, c in () if text else self.terms:
            names = "*".join(_order(a) for a in m)
            part = str(abs(c)) if not m else names if abs(c) == 1 else f"{abs(c)}*{names}"
            text += ("-" if c < 0 else "+" if text else "") + part
        self._text = text
        return text

    __repr__ = __str__

    def __format__(self, spec: str) -> str:
        return format(str(self), spec)

    def __deepcopy__(self, memo: Any = None) -> Dim:
        return self

    __copy__ = __deepcopy__

    def __reduce__(self) -> Any:
        return Dim, (self.terms,)


def _is_size(x: object) -> bool:
    return type(x) is int or type(x) is Dim or isinstance(x, Integral)


def _is_number(x: object) -> bool:
    return type(x) in (int, float, Dim, Ratio)


def terms_of(x: Size) -> dict[Monomial, int]:
    if type(x) is Dim:
        return dict(x.terms)
    n = int(x)
    return {(): n} if n else {}


def size_of(poly: dict[Monomial, int]) -> Size:
    kept = {m: c for m, c in poly.items() if c}
    if not kept:
        return 0
    if set(kept) == {()}:
        return kept[()]
    if len(kept) > MOST_TERMS or max(map(len, kept)) > MOST_FACTORS or any(
            c.bit_length() > MOST_BITS for c in kept.values()):
        raise ValueError(TOO_LARGE)
    return Dim(tuple(kept.items()) if len(kept) == 1 else tuple(sorted(
        kept.items(), key=lambda t: (-len(t[0]), [_order(a) for a in t[0]]))))


TOO_LARGE = (f"the expression of a size must have at most {MOST_TERMS} terms, {MOST_FACTORS} "
              f"factors in a term and {MOST_BITS} bits in a number")


def is_symbolic(x: object) -> bool:
    """Whether `x` is a `Dim`, or a number worked out from one."""
    return type(x) is Dim or type(x) is Ratio


def surely_equal(a: Size, b: Size) -> bool:
    """Whether two sizes are known to be equal; adds no guard."""
    if type(a) is Dim and type(b) is Dim and a.terms == b.terms:
        return True
    shapes = _state.shapes
    if shapes is not None and shapes.equal:
        a, b = substitute(a, shapes.equal), substitute(b, shapes.equal)
    difference = a - b
    return type(difference) is not Dim and difference == 0


def surely_at_least(a: Size, b: Size) -> bool:
    """Whether `a >= b` is known; adds no guard."""
    if type(a) is not Dim and type(b) is not Dim:
        return a >= b
    difference, shapes = a - b, _state.shapes
    if type(difference) is not Dim:
        return difference >= 0
    if shapes is None:
        low, _ = bounds(difference, {})
        return low is not None and low >= 0
    known = substitute(difference, shapes.equal)
    return shapes.decide(">=", known) is True if type(known) is Dim else known >= 0


def divide(x: Size, divisor: Size) -> Size:
    """`x // divisor`; terms that come out even leave the floor division. Raises ZeroDivisionError
    if the divisor is 0."""
    if type(divisor) is not Dim:
        if not divisor:
            raise ZeroDivisionError("integer division or modulo by zero")
        if type(x) is not Dim:
            return x // divisor
        even = {m: c // divisor for m, c in x.terms if not m or c % divisor == 0}
        rest = {m: c if m else c % divisor for m, c in x.terms if c % divisor}
        if set(rest) <= {()}:
            return size_of(even)
        odd: Size = _floor(size_of(rest), divisor)
        return odd + size_of(even)
    if type(x) is not Dim and x == 0:
        return 0
    if len(divisor.terms) == 1:
        ((by, factor),) = divisor.terms
        parts = [(without(m, by), c) for m, c in terms_of(x).items()]
        if all(m is not None and c % factor == 0 for m, c in parts):
            return size_of({m: c // factor for m, c in parts if m is not None})
    return Dim((((Quotient(x, divisor),), 1),))


def _floor(x: Any, divisor: Any) -> Size:
    """`x // divisor` in a normal form, so that equal sizes are seen to be equal: the first factor
    is positive, and a quotient of a quotient is one."""
    if divisor > 1:
        (first, factor), *more = x.terms
        if factor < 0:
            return -divide(divisor - 1 - x, divisor)
        atom = first[0]
        if factor == 1 and len(first) == 1 and isinstance(atom, Quotient) and all(
                not m for m, _ in more) and type(atom.divisor) is int and atom.divisor > 0:
            shift = more[0][1] if more else 0
            return divide(atom.numerator + shift * atom.divisor, divisor * atom.divisor)
    return Dim((((Quotient(x, divisor),), 1),))


def without(monomial: Monomial, factor: Monomial) -> Monomial | None:
    """A monomial divided by another, if it contains it."""
    rest = list(monomial)
    for atom in factor:
        if atom not in rest:
            return None
        rest.remove(atom)
    return tuple(rest)


class Ratio:
    """A Python number that is worked out from sizes when they are known, as `1 / x.shape[0]`."""

    __slots__ = ("args", "op")
    __class__ = property(lambda self: float)

    def __init__(self, op: str, *args: Any) -> None:
        self.op = op
        self.args = args

    def _with(op: str, swapped: bool = False) -> Any:  # type: ignore[misc]  # no method: it makes them
        def apply(self: Ratio, other: Any) -> Any:
            if not _is_number(other):
                return NotImplemented
            return Ratio(op, other, self) if swapped else Ratio(op, self, other)

        return apply

    __add__, __radd__ = _with("+"), _with("+", True)
    __sub__, __rsub__ = _with("-"), _with("-", True)
    __mul__, __rmul__ = _with("*"), _with("*", True)
    __truediv__, __rtruediv__ = _with("/"), _with("/", True)
    __pow__, __rpow__ = _with("**"), _with("**", True)

    def __neg__(self) -> Ratio:
        return Ratio("*", -1.0, self)

    def __float__(self) -> float:
        return float(evaluate_number(self, {s: fixed(Dim.symbol(s)) for s in symbols_of(self)}))

    def __int__(self) -> int:
        return int(float(self))

    def __floor__(self) -> Any:
        return size_functions.whole("floor", self)

    def __ceil__(self) -> Any:
        return size_functions.whole("ceil", self)

    def __trunc__(self) -> Any:
        return size_functions.whole("trunc", self)

    def __round__(self, digits: int | None = None) -> Any:
        whole = digits is None
        return size_functions.whole("round", self) if whole else round(float(self), digits)

    def __bool__(self) -> bool:
        return bool(float(self))

    def __eq__(self, other: object) -> bool:
        if type(other) is Ratio and (self.op, self.args) == (other.op, other.args):
            return True
        return size_functions.compare(self, other, operator.eq)

    def __lt__(self, other: Any) -> bool:
        return size_functions.compare(self, other, operator.lt)

    def __le__(self, other: Any) -> bool:
        return size_functions.compare(self, other, operator.le)

    def __gt__(self, other: Any) -> bool:
        return size_functions.compare(self, other, operator.gt)

    def __ge__(self, other: Any) -> bool:
        return size_functions.compare(self, other, operator.ge)

    def __hash__(self) -> int:
        return hash((self.op, self.args))

    def __str__(self) -> str:
        if self.op.isalnum():
            return f"{self.op}({', '.join(map(str, self.args))})"
        a, b = (f"({x})" if is_symbolic(x) or (type(x) in (int, float) and x < 0) else repr(x)
                for x in self.args)
        return f"{a} {self.op} {b}"

    __repr__ = __str__


Sizes = Mapping[str, int]


def evaluate(x: Any, sizes: Sizes) -> int:
    """The size for given values of the symbols."""
    if type(x) is not Dim:
        return int(x)
    total = 0
    for monomial, c in x.terms:
        for atom in monomial:
            if isinstance(atom, str):
                c *= sizes[atom]
            elif isinstance(atom, Applied):
                args = [evaluate_number(a, sizes) for a in atom.args]
                c *= open_sizes.FUNCTIONS[atom.function](*args)
            else:
                c *= evaluate(atom.numerator, sizes) // evaluate(atom.divisor, sizes)
        total += c
    return total


OPS: dict[str, Callable[..., Any]] = {
    "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b,
    "/": lambda a, b: a / b, "**": lambda a, b: _power(a, b), "//": lambda a, b: a // b,
}


def compute(op: str, *args: Any) -> Any:
    """A number or size from others, by one of `OPS` or of the runtime's functions of floats."""
    if op in OPS:
        return OPS[op](*args)
    return Ratio(op, *args) if any(map(is_symbolic, args)) else open_sizes.FLOATS[op](*args)


def _power(a: Any, b: Any) -> Any:
    """`a ** b`; a ValueError if the result would have too many bits to be a size."""
    if type(a) is int and type(b) is int and abs(a) > 1 and a.bit_length() * b > 2 * MOST_BITS:
        raise ValueError(TOO_LARGE)
    return a**b


def evaluate_number(x: Any, sizes: Sizes) -> Any:
    """A number or size for given values of the symbols."""
    if type(x) is Ratio:
        return compute(x.op, *[evaluate_number(v, sizes) for v in x.args])
    return evaluate(x, sizes) if type(x) is Dim else x


def symbols_of(x: Any) -> set[str]:
    """The symbols in a size, number, or tuple of them."""
    if type(x) is Dim:
        return {s for m, _ in x.terms for a in m for s in (
            {a} if isinstance(a, str) else symbols_of(a.args) if isinstance(a, Applied)
            else symbols_of(a.numerator) | symbols_of(a.divisor))}
    if type(x) is Ratio:
        return {s for a in x.args for s in symbols_of(a)}
    return {s for v in x for s in symbols_of(v)} if type(x) is tuple else set()


def substitute(x: Size, table: Mapping[str, Size]) -> Size:
    """A size with symbols replaced by other sizes."""
    total: Size = 0
    for monomial, c in terms_of(x).items():
        part: Size = c
        for atom in monomial:
            if isinstance(atom, str):
                part = part * table.get(atom, Dim.symbol(atom))
            elif isinstance(atom, Applied):
                part = part * applied(
                    atom.function, *(substitute_number(a, table) for a in atom.args))
            else:
                part = part * divide(
                    substitute(atom.numerator, table), substitute(atom.divisor, table))
        total = total + part
    return total


def substitute_number(x: Any, table: Mapping[str, Size]) -> Any:
    """A number or size with symbols replaced by sizes; worked out where none is left."""
    if type(x) is Ratio:
        args = [substitute_number(v, table) for v in x.args]
        return Ratio(x.op, *args) if any(map(is_symbolic, args)) else compute(x.op, *args)
    return substitute(x, table) if type(x) is Dim else x


# --- deciding -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SymbolInfo:
    """The known facts about a symbol."""

    # low, high: bounds of its value (high None: none)
    low: int = 1
    high: int | None = None
    origin: str = ""  # where it comes from, for messages: "axis 0 of x"
    # whether its hint is a stand-in for any size, which no message should show
    stand_in: bool = False
    limit: Size | None = None  # a size that it is at most


def bounds(x: Size, symbols: Mapping[str, SymbolInfo]) -> Bounds:
    """The least and the greatest value that a size can have, as far as that is easy to see."""
    low, high = _bounds(x, symbols)
    relaxed = _relaxed(x) if type(x) is Dim else None
    if relaxed is None or (low is not None and high is not None and not low < 0 < high):
        return low, high
    by, y, least, most = relaxed
    a, z = bounds(y, symbols)
    lows = [v for v in (low, None if a is None else -(-(a + least) // by)) if v is not None]
    highs = [v for v in (high, None if z is None else (z + most) // by) if v is not None]
    return max(lows, default=None), min(highs, default=None)


def _relaxed(x: Dim) -> tuple[int, Size, int, int] | None:
    """`by * x` as another size and what is between `least` and `most`: `d * (n // d)` is `n` less a
    remainder. None where no quotient is a term."""
    quotients = [(m[0], c) for m, c in x.terms
                 if len(m) == 1 and isinstance(m[0], Quotient)
                 and type(m[0].divisor) is int and m[0].divisor > 0]
    if not quotients:
        return None
    by = math.lcm(*(q.divisor // math.gcd(c, q.divisor) for q, c in quotients))
    y, least, most = by * x, 0, 0
    for q, c in quotients:
        times, rest = by * c // q.divisor, q.divisor - 1
        y = y - by * c * Dim((((q,), 1),)) + times * q.numerator
        least, most = least - max(times, 0) * rest, most - min(times, 0) * rest
    return by, y, least, most


def _bounds(x: Size, symbols: Mapping[str, SymbolInfo]) -> Bounds:
    """The same, by the terms alone."""
    low: int | None = 0
    high: int | None = 0
    for monomial, c in terms_of(x).items():
        a, z = _product(monomial, symbols)
        a, z = (c * a if a is not None else None, c * z if z is not None else None)
        if c < 0:
            a, z = z, a
        low = None if low is None or a is None else low + a
        high = None if high is None or z is None else high + z
    return low, high


def _product(monomial: Monomial, symbols: Mapping[str, SymbolInfo]) -> Bounds:
    low: int | None = 1
    high: int | None = 1
    for atom in monomial:
        a, z = _atom(atom, symbols)
        if low is None or a is None or low < 0 or a < 0:
            return None, None
        low *= a
        high = None if high is None or z is None else high * z
    return low, high


def _atom(atom: Atom, symbols: Mapping[str, SymbolInfo]) -> Bounds:
    if isinstance(atom, str):
        info = symbols.get(atom, SymbolInfo(0))
        return info.low, info.high
    if isinstance(atom, Applied):
        return divisors.applied_bounds(atom, symbols)
    low, high = bounds(atom.numerator, symbols)
    if divisors.is_divisor(atom.divisor) and low is not None and low > 0:
        return 1, high
    by_low, by_high = bounds(atom.divisor, symbols)
    if by_low is None or by_low <= 0 or low is None or low < 0:
        if by_low is not None and by_low == by_high and by_low > 0:
            return (None if low is None else low // by_low,
                    None if high is None else high // by_low)
        return None, None
    return (0 if by_high is None else low // by_high, None if high is None else high // by_low)


class Facts(Protocol):
    """The facts about sizes that questions are answered from (`ir/shapes.py`)."""

    hints: dict[str, int]
    general: bool
    equal: dict[str, Size]
    table: dict[Dim | Ratio, int]

    def ask(self, relation: str, x: Size) -> bool:
        """Whether `x == 0` or `x >= 0`: decided, or assumed as it is for the hints."""

    def decide(self, relation: str, x: Dim) -> bool | None:
        """The same, if that is known."""

    def bounds(self, x: Size) -> tuple[int | None, int | None]:
        """The least and the greatest value of a size, if they are known."""


class _State(threading.local):
    shapes: Facts | None = None


_state = _State()


@contextmanager
def deciding(shapes: Facts | None) -> Iterator[None]:
    """Within the block, questions of this thread about sizes are answered by `shapes`."""
    saved = _state.shapes
    _state.shapes = shapes
    try:
        yield
    finally:
        _state.shapes = saved


@contextmanager
def exactly() -> Iterator[None]:
    """Within the block, code for all sizes assumes whether two sizes are equal, as a trace does."""
    shapes = _state.shapes
    saved = shapes is not None and shapes.general
    if shapes is not None:
        shapes.general = False
    try:
        yield
    finally:
        if shapes is not None:
            shapes.general = saved


def active_facts() -> Facts | None:
    """The facts that answer questions of this thread."""
    return _state.shapes


def _ask(relation: str, x: Size) -> bool:
    shapes = _state.shapes
    if shapes is not None:
        return shapes.ask(relation, x)
    if type(x) is not Dim:
        return x == 0 if relation == "==" else x >= 0
    if relation == "==":
        return False  # not the same for all sizes
    low, high = bounds(x, {})
    if low is not None and low >= 0:
        return True
    if high is not None and high < 0:
        return False
    raise Undecided(f"whether {x} is at least 0 depends on sizes that are not known")


def fixed(x: Size) -> int:
    """`x` as an int; while tracing this assumes that it is what it is for the hints. Raises
    Undecided if no trace is active."""
    if type(x) is not Dim:
        return int(x)
    shapes = _state.shapes
    if shapes is None or shapes.general:
        raise Undecided(f"the size {x} is not known while compiling")
    plain = substitute(x, shapes.equal)
    if not isinstance(plain, Dim):
        return plain
    value = evaluate(plain, shapes.hints)
    if not shapes.ask("==", plain - value):
        raise Undecided(f"the size {x} is not {value}")
    return value


def estimate(x: T) -> T:
    """A number near a size or what is worked out from one, for costs: nothing is assumed."""
    shapes = _state.shapes
    if not is_symbolic(x) or shapes is None:
        return x
    found: T = evaluate_number(x, shapes.hints)
    return found


def most(x: Size) -> int:
    """The greatest value of a size. Raises Undecided if none is known."""
    if type(x) is not Dim:
        return int(x)
    shapes = _state.shapes
    high = None if shapes is None else shapes.bounds(x)[1]
    if high is None:
        raise Undecided(f"no greatest value of the size {x} is known")
    return high


def place_in_table(x: Dim | Ratio) -> int:
    """The place of a size, or of a number that follows from sizes, in the table that code for all
    sizes reads. Raises Undecided if no such code is generated."""
    shapes = _state.shapes
    if shapes is None or not shapes.general:
        raise Undecided(f"the size {x} is not known while compiling")
    return shapes.table.setdefault(x, len(shapes.table))
