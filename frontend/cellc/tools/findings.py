"""Which op made a NaN or an infinity: the rule of `cellc.watch_nans`.

An element is *made* by an op if none of what it follows from is of its kind:

- NaN, where no operand has one: at the same place for an elementwise op, anywhere for others.
- Infinity, where no operand has NaN or infinity, likewise, and no attribute is infinite. So the
  infinities of a mask, which `softmax` or `exp` takes away, may be written, given and passed on.

A NaN that comes from no op (an argument, a constant, a Parameter) is found at the first op that
lets it through; so is an infinity in a Parameter that is trained. Literals are never looked at.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from cellc_runtime.dtypes import typed
from cellc_runtime.records import dataclass

from .places import lines
from .taps import Array, Operand, Seen


@dataclass(frozen=True, slots=True)
class Finding:
    """The findings in a result.

    Attributes:
        what: "NaN" or "infinity".
        count: of how many elements; `first` is the position of the first.
        shape: of the result or of the operand that has it.
        source: the operand that it came in with; None if the op made it.
    """

    what: str
    count: int
    first: tuple[int, ...]
    array: Array
    source: Operand | None = None


def judge(seen: Seen) -> Finding | None:
    """The first thing wrong with an op's results, by the rule above."""
    for result in seen.results:
        if np.isfinite(result).all():
            continue
        found = _nan(seen, result) or _infinity(seen, result)
        if found is not None:
            return found
    return None


def _nan(seen: Seen, result: Array) -> Finding | None:
    is_nan = np.isnan(result)
    if not is_nan.any():
        return None
    made = is_nan & ~_inherited(seen, result, np.isnan)
    if made.any():
        return _finding("NaN", made, result)
    source = next(o for o in seen.operands if np.isnan(o.array).any())
    return _finding("NaN", np.isnan(source.array), source.array, source)


def _infinity(seen: Seen, result: Array) -> Finding | None:
    if any(_is_infinite(v) for v in seen.attrs.values()):
        return None
    is_infinite = np.isinf(result)
    made = is_infinite & ~_inherited(seen, result, lambda a: ~np.isfinite(a))
    if made.any():
        return _finding("infinity", made, result)
    for o in seen.operands:
        if o.parameter is not None and o.parameter.requires_grad and is_infinite.any() \
                and np.isinf(o.array).any():
            return _finding("infinity", np.isinf(o.array), o.array, o)
    return None


def _inherited(seen: Seen, result: Array, kind: Callable[[Array], Array]) -> Array:
    """Where an op did not make what its result has, because an operand has it."""
    known = np.zeros(result.shape, np.bool_)
    for operand in seen.operands:
        has = kind(operand.array)
        try:
            known |= has if seen.elementwise else has.any()
        except ValueError:  # it does not stretch to the result
            known |= has.any()
    return known


def _is_infinite(value: Any) -> bool:
    if isinstance(value, tuple):
        return any(map(_is_infinite, value))
    return isinstance(value, float) and math.isinf(value)


def _finding(what: str, where: Array, array: Array, source: Operand | None = None) -> Finding:
    first = np.unravel_index(int(np.argmax(where)), where.shape)
    return Finding(what, int(np.count_nonzero(where)), tuple(map(int, first)), array, source)


# --- in words ------------------------------------------------------------------------------------


def text(seen: Seen, found: Finding) -> str:
    """A finding as a message: what, where, from what."""
    span, scope = seen.spot.resolved()
    return "\n".join([_headline(seen, found), *lines(span, scope), *_operands(seen, found)])


def named(seen: Seen) -> str:
    """The op in words."""
    name = f"the Python function {seen.attrs['name']}" if seen.op == "host_call" else seen.op
    return f"{name}, in the gradient of {seen.origin}," if seen.origin else name


def _headline(seen: Seen, found: Finding) -> str:
    often = f" in its run {seen.run} of this call" if seen.run > 1 else ""
    which = _which(found)
    if found.source is None:
        return f"{named(seen)} made {found.what}{often}: {which}"
    parameter = found.source.parameter
    who = f"the Parameter {parameter.name}" if parameter is not None else (
        f"operand {found.source.place} of {seen.op}, an argument or a constant,")
    return f"{who} has {found.what}, which no op made: {which}"


def _which(found: Finding) -> str:
    kind = typed(found.array)
    if not found.first:
        return kind
    at = ", ".join(map(str, found.first))
    return f"{found.count} of {found.array.size} elements of {kind}, the first at [{at}]"


def _operands(seen: Seen, found: Finding) -> Sequence[str]:
    if not seen.operands or found.source is not None:
        return []
    return [f"  operand {o.place}: {typed(o.array)} {_range(o.array)}"
            + (f", the Parameter {o.parameter.name}" if o.parameter is not None else "")
            for o in seen.operands]


def _range(array: Array) -> str:
    """The range of the finite elements of an array, in words."""
    if np.iscomplexobj(array):
        array = np.abs(array)
    finite = array[np.isfinite(array)].astype(np.float64)
    if not finite.size:
        return "without finite elements" if array.size else "without elements"
    low, high = finite.min(), finite.max()
    rest = "" if finite.size == array.size else " and infinities"
    inside = f"all {low:.6g}" if low == high and finite.size > 1 else \
        f"{low:.6g}" if low == high else f"in [{low:.6g}, {high:.6g}]"
    return inside + rest
