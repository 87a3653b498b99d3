"""Accumulators of reductions: identity, combination, and the final fold over lanes."""

from __future__ import annotations

from collections.abc import Sequence

from cellc_runtime.dtypes import DType, float32

from ...loops.order import accumulators
from .text import Function, V, element, first_lanes, is_float, lanes_of, sizeof, vector

NOWHERE = (1 << 63) - 1  # The position of an accumulator that has seen nothing


def width(kind: str) -> int:
    """Values an accumulator consists of: the extreme and its position for argmax/argmin."""
    return 2 if kind.startswith("arg") else 1


def identity(f: Function, kind: str, ty: str, dtype: DType) -> list[V]:
    """The accumulator before the first element."""
    lanes = lanes_of(ty)
    if kind in ("sum", "any"):
        return [f.const(ty, 0)]
    if kind in ("prod", "all"):
        return [f.const(ty, 1)]
    start = f.const(ty, _lowest(dtype) if kind.endswith("max") else _highest(dtype))
    if width(kind) == 1:
        return [start]
    return [start, f.const(vector("i64", lanes), NOWHERE)]


def _lowest(dtype: DType) -> float | int:
    if dtype.kind == "float":
        return float("-inf")
    return -(1 << (8 * dtype.itemsize - 1)) if dtype.kind == "int" else 0


def _highest(dtype: DType) -> float | int:
    if dtype.kind == "float":
        return float("inf")
    if dtype.kind == "bool":
        return 1
    return (1 << (8 * dtype.itemsize - (1 if dtype.kind == "int" else 0))) - 1


def combine(f: Function, kind: str, dtype: DType, a: list[V], x: list[V]) -> list[V]:
    """The accumulator `a` with `x` taken in; `a` holds earlier elements."""
    simple = {"any": "or", "all": "and"}.get(kind)
    if simple:
        return [f.binary(simple, a[0], x[0])]
    if kind == "sum":
        return [f.binary("fadd" if is_float(a[0].ty) else "add", a[0], x[0])]
    if kind == "prod":
        return [f.binary("fmul" if is_float(a[0].ty) else "mul", a[0], x[0])]
    better = _better(f, kind, dtype, a[0], x[0])
    if width(kind) == 1:
        return [f.select(better, x[0], a[0])]
    # An earlier position wins among equals; a lane that has seen nothing takes anything.
    same = _equal(f, a[0], x[0]) & f.cmp("slt", x[1], a[1])
    unset = f.cmp("eq", a[1], f.const(a[1].ty, NOWHERE))
    take = (better | same | unset) & f.cmp("ne", x[1], f.const(x[1].ty, NOWHERE))
    return [f.select(take, x[0], a[0]), f.select(take, x[1], a[1])]


def _better(f: Function, kind: str, dtype: DType, a: V, x: V) -> V:
    """Whether x beats a: strictly more extreme, or the first NaN."""
    up = kind.endswith("max")
    if is_float(a.ty):
        beats = f.cmp("ogt" if up else "olt", x, a)
        first_nan = f.cmp("uno", x, x) & f.cmp("ord", a, a)
        return beats | first_nan
    if element(a.ty) == "i1" or dtype.kind in ("uint", "bool"):
        return f.cmp("ugt" if up else "ult", x, a)
    return f.cmp("sgt" if up else "slt", x, a)


def _equal(f: Function, a: V, x: V) -> V:
    if not is_float(a.ty):
        return f.cmp("eq", a, x)
    both_nan = f.cmp("uno", a, a) & f.cmp("uno", x, x)
    return f.cmp("oeq", a, x) | both_nan


def fold(f: Function, kind: str, dtype: DType, parts: Sequence[list[V]]) -> list[V]:
    """Fold the chains of a reduction by halves: accumulators, then the lanes of the last one."""
    parts = list(parts)
    while len(parts) > 1:
        half = len(parts) // 2
        parts = [combine(f, kind, dtype, a, b)
                 for a, b in zip(parts[:half], parts[half:], strict=True)]
    (acc,) = parts
    n = lanes_of(acc[0].ty)
    while n > 2:
        half = n // 2
        low = [f.shuffle(v, f.undef(v.ty), range(half)) for v in acc]
        high = [f.shuffle(v, f.undef(v.ty), range(half, n)) for v in acc]
        acc = combine(f, kind, dtype, low, high)
        n = half
    if n == 1:
        return acc
    first, second = ([f.extract(v, i) for v in acc] for i in (0, 1))
    return combine(f, kind, dtype, first, second)


def row_of_parts(
    f: Function, kind: str, dtype: DType, tables: Sequence[V], parts: int, start: list[V]
) -> list[V]:
    """The results of a row's parts, which lie in `tables` (a flag takes a byte), reduced as a row;
    `start` is the identity in vectors."""
    lanes = lanes_of(start[0].ty)
    size = sizeof(element(start[0].ty))
    accs = [start] * accumulators(size, parts, lanes)
    for i, first in enumerate(range(0, parts, lanes)):
        mask = first_lanes(parts - first, lanes) if parts - first < lanes else None
        old = accs[i % len(accs)]
        x = [_part_results(f, v.ty, f.gep(at, first * sizeof(element(v.ty))), mask)
             for v, at in zip(old, tables, strict=True)]
        new = combine(f, kind, dtype, old, x)
        accs[i % len(accs)] = new if mask is None else [
            f.select(mask, n, o) for n, o in zip(new, old, strict=True)]
    return fold(f, kind, dtype, accs)


def _part_results(f: Function, ty: str, at: V, mask: V | None) -> V:
    """A vector of results of parts. Flags are read as bytes: a vector of i1 in memory is packed
    bits, but each part has stored a byte."""
    if element(ty) != "i1":
        return f.masked_load(ty, at, mask)
    stored = f.masked_load(vector("i8", lanes_of(ty)), at, mask)
    return f.cmp("ne", stored, f.zero(stored.ty))


def total(f: Function, parts: Sequence[V]) -> V:
    """The sum of the lanes of accumulators, folded by halves."""
    return fold(f, "sum", float32, [[v] for v in parts])[0]
