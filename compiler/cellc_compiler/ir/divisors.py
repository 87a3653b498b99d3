"""Sizes divided by a divisor of theirs that is found when the code runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cellc_runtime.lazy import lazy_imports

from .dims import (
    Applied,
    Atom,
    Bounds,
    Dim,
    Monomial,
    Quotient,
    Size,
    SymbolInfo,
    applied,
    bounds,
    size_of,
    terms_of,
    without,
)

with lazy_imports(__name__):
    from cellc_runtime import open_sizes

    from . import size_functions


def divisor(x: Size, most: Size) -> Any:
    """The largest divisor of `x` that is at most `most`, 1 if there is none; asks nothing."""
    return applied("divisor", x, most)


def is_divisor(x: Size) -> bool:
    """Whether this is a `divisor`."""
    return type(x) is Dim and x.is_symbol and _by_divisor(x.terms[0][0][0])


def _by_divisor(atom: Atom) -> bool:
    return isinstance(atom, Applied) and atom.function == "divisor"


def is_divided(x: Size) -> bool:
    """Whether this is a size divided by a `divisor` of it."""
    if type(x) is not Dim or not x.is_symbol:
        return False
    atom = x.terms[0][0][0]
    return isinstance(atom, Quotient) and is_divisor(atom.divisor)


def even(poly: dict[Monomial, int]) -> dict[Monomial, int]:
    """The same terms, where a size divided by a `divisor` and that divisor give the size."""
    for m in list(poly):
        for atom in m if len(m) > 1 else ():
            if not isinstance(atom, Applied) or atom.function != "divisor":
                continue
            x = atom.args[0]
            quotient = Quotient(x, Dim((((atom,), 1),)))
            if any(hash(a) == hash(quotient) and a == quotient for a in m):
                rest = without(without(m, (atom,)) or (), (quotient,)) or ()
                whole = x * size_of({rest: poly.pop(m)})
                for monomial, c in terms_of(whole).items():
                    poly[monomial] = poly.get(monomial, 0) + c
                return even(poly)
    return poly


def grows_with_one_symbol(x: Size) -> bool:
    """Whether a bound of this size is one of its only symbol."""
    parts = [m for m in terms_of(x) if m]
    return len(parts) == 1 and len(parts[0]) == 1 and isinstance(parts[0][0], str)


def applied_bounds(atom: Applied, symbols: Mapping[str, SymbolInfo]) -> Bounds:
    """The least and the greatest value of a function of sizes, as `dims.bounds`."""
    if atom.function == "divisor":
        return 1, None
    if atom.function in open_sizes.WHOLE:
        return size_functions.whole_bounds(atom, symbols)
    each = [bounds(a, symbols) for a in atom.args[2 if atom.function == "choose" else 0 :]]
    lows, highs = [a for a, _ in each if a is not None], [z for _, z in each if z is not None]
    low: int = 0
    high: int | None = None  # (one known bound is enough on one side of a maximum or a minimum)
    if atom.function == "max":
        low = max([0, *lows])
    elif len(lows) == len(each):
        low = max(0, min(lows))
    if atom.function == "min":
        high = min(highs, default=None)
    elif len(highs) == len(each):
        high = max(highs)
    return low, high
