"""Index expressions: affine combinations of loop variables, with floor division and remainder.

Kept in canonical affine form, with bounds known for every atom, so that most divisions of a
reshape disappear and a lane's stride can be read off: a stride of 1 is a vector load, 0 a
broadcast, anything else a gather.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd
from typing import TYPE_CHECKING, Union

from cellc_runtime.records import dataclass

from ..ir.dims import estimate, is_symbolic, surely_at_least, surely_equal

if TYPE_CHECKING:
    from .expr import Expr


@dataclass(frozen=True, slots=True)
class Var:
    """A loop variable running over 0 .. extent-1."""

    name: str
    extent: int

    @property
    def bounds(self) -> tuple[int, int]:
        """Inclusive bounds."""
        last = self.extent - 1
        return 0, last if is_symbolic(last) else max(last, 0)


@dataclass(frozen=True, slots=True)
class Quot:
    """Floor of an index by a positive constant."""

    of: Index
    by: int

    @property
    def bounds(self) -> tuple[int, int]:
        """Inclusive bounds."""
        lo, hi = self.of.bounds
        return lo // self.by, hi // self.by


@dataclass(frozen=True, slots=True)
class Rem:
    """Remainder (of the floor division) of an index by a positive constant."""

    of: Index
    by: int

    @property
    def bounds(self) -> tuple[int, int]:
        """Inclusive bounds."""
        return 0, self.by - 1


@dataclass(frozen=True, slots=True)
class Dyn:
    """A run-time int64 value used as an index; bounds promised (clamped) by who makes it."""

    expr: Expr
    lo: int
    hi: int

    @property
    def bounds(self) -> tuple[int, int]:
        """Inclusive bounds."""
        return self.lo, self.hi


Atom = Union[Var, Quot, Rem, Dyn]


@dataclass(frozen=True, slots=True)
class Index:
    """sum(coefficient * atom) + const, canonical: no zero coefficients, atoms distinct."""

    terms: tuple[tuple[Atom, int], ...]
    const: int = 0

    @staticmethod
    def of(x: Index | Var | Dyn | int) -> Index:
        """Any of these as an `Index` (a variable of extent 1 is the constant 0)."""
        if isinstance(x, Index):
            return x
        if isinstance(x, int):
            return Index((), x)
        if isinstance(x, Var) and surely_at_least(1, x.extent):
            return Index((), 0)
        return Index(((x, 1),), 0)

    def __add__(self, other: Index | int) -> Index:
        if isinstance(other, int):
            return Index(self.terms, self.const + other)
        table = dict(self.terms)
        for atom, c in other.terms:
            table[atom] = table.get(atom, 0) + c
        terms = tuple([(a, c) for a, c in table.items() if c])
        return _rejoin(Index(terms, self.const + other.const))

    __radd__ = __add__

    def __neg__(self) -> Index:
        return self * -1

    def __sub__(self, other: Index | int) -> Index:
        return self + (-other)

    def __rsub__(self, other: int) -> Index:
        return -self + other

    def __mul__(self, k: int) -> Index:
        if k == 0:
            return Index((), 0)
        return Index(tuple([(a, c * k) for a, c in self.terms]), self.const * k)

    __rmul__ = __mul__

    @property
    def bounds(self) -> tuple[int, int]:
        """Inclusive bounds, from those of the atoms."""
        lo = hi = self.const
        for atom, c in self.terms:
            a, b = atom.bounds
            lo += c * (a if c > 0 else b)
            hi += c * (b if c > 0 else a)
        return lo, hi

    def split(self, by: int) -> tuple[Index, Index]:
        """(floor division, remainder) by a positive constant, simplified where bounds allow."""
        if _within(self.bounds, by):
            return Index((), 0), self
        q, const = _divided(self.const, by)
        whole = Index(tuple((a, c // by) for a, c in self.terms if c % by == 0), q)
        part = Index(tuple((a, c) for a, c in self.terms if c % by), const)
        lo, hi = part.bounds
        if _within((lo, hi), by):
            return whole, part
        if lo // by == hi // by:
            q = lo // by
            return whole + q, part - q * by
        if whole.terms or whole.const:
            q2, r2 = part.split(by)
            return whole + q2, r2
        return self._split_common(by)

    def _split_common(self, by: int) -> tuple[Index, Index]:
        """floor((g*x + r)/(g*d)) = floor(x/d) when 0 <= r < g: divide out a common factor."""
        for _, c in sorted(self.terms, key=lambda t: -estimate(abs(t[1]))):
            g = _common(c, by)
            if g == 1 or g == by:
                continue
            big = Index(tuple((a, k // g) for a, k in self.terms if k % g == 0), self.const // g)
            small = Index(tuple((a, k) for a, k in self.terms if k % g), self.const % g)
            if _within(small.bounds, g):
                q, r = big.split(by // g)
                return q, r * g + small
        return Index.of_atom(Quot(self, by)), Index.of_atom(Rem(self, by))

    @staticmethod
    def of_atom(atom: Atom) -> Index:
        """One atom."""
        return Index(((atom, 1),), 0)

    def __floordiv__(self, by: int) -> Index:
        return self.split(by)[0]

    def __mod__(self, by: int) -> Index:
        return self.split(by)[1]

    def coefficient(self, var: Var) -> int | None:
        """The stride along `var`; None if it appears inside a division or a run-time index."""
        stride = 0
        for atom, c in self.terms:
            if atom == var:
                stride = c
            elif type(atom) is not Var and var in set(variables(atom)):
                return None
        return stride


def _divided(const: int, by: int) -> tuple[int, int]:
    """How often `by` can be taken out of a constant, and what is left. Of sizes it is taken out
    whole or not at all: a rest of a rest would be simplified for ever."""
    if type(const) is int and type(by) is int:
        return const // by, const % by
    return (const // by, 0) if surely_equal(const % by, 0) else (0, const)


def _within(bounds: tuple[int, int], by: int) -> bool:
    """Whether an index of these bounds surely is in 0..by-1."""
    lo, hi = bounds
    return surely_at_least(lo, 0) and surely_at_least(by, hi + 1)


def _common(c: int, by: int) -> int:
    """A factor of both numbers: the greatest, if they are known."""
    if type(c) is int and type(by) is int:
        return gcd(c, by)
    return c if by % c == 0 else 1


def _rejoin(index: Index) -> Index:
    """c*d*(x // d) + c*(x % d) = c*x: what a reshape takes apart and another puts together."""
    rems = [(a, c) for a, c in index.terms if isinstance(a, Rem)]
    for rem, c in rems:
        quot = Quot(rem.of, rem.by)
        table = dict(index.terms)
        if table.get(quot) == c * rem.by:
            del table[quot], table[rem]
            return Index(tuple(table.items()), index.const) + rem.of * c
    return index


def substitute(index: Index, table: dict[Var, Index]) -> Index:
    """Replace loop variables by indices; run-time indices are left to the caller."""
    out = Index((), index.const)
    for atom, c in index.terms:
        if isinstance(atom, Var):
            out = out + table.get(atom, Index.of(atom)) * c
        elif isinstance(atom, Quot):
            out = out + (substitute(atom.of, table) // atom.by) * c
        elif isinstance(atom, Rem):
            out = out + (substitute(atom.of, table) % atom.by) * c
        else:
            out = out + Index.of(atom) * c
    return out


def leaves(index: Index) -> Iterator[Var | Dyn]:
    """The loop variables and run-time indices of an index, in order."""
    for atom, _ in index.terms:
        if isinstance(atom, (Var, Dyn)):
            yield atom
        else:
            yield from leaves(atom.of)


def variables(atom: Atom | Index) -> Iterator[Var]:
    """The loop variables an index or atom depends on."""
    if isinstance(atom, Var):
        yield atom
    elif isinstance(atom, (Quot, Rem)):
        yield from variables(atom.of)
    elif isinstance(atom, Dyn):
        yield from atom.expr.variables()
    else:
        for inner, _ in atom.terms:
            yield from variables(inner)


def ravel(idx: tuple[Index, ...], shape: tuple[int, ...]) -> Index:
    """The row-major linear offset of an index tuple."""
    out = Index((), 0)
    for i, d in zip(idx, shape, strict=True):
        out = out * d + i
    return out


def unravel(offset: Index, shape: tuple[int, ...]) -> tuple[Index, ...]:
    """The index tuple of a row-major linear offset."""
    out: list[Index] = []
    for d in reversed(shape[1:]):
        offset, r = offset.split(d) if d > 0 else (offset, Index((), 0))
        out.append(r)
    return (offset, *reversed(out)) if shape else ()
