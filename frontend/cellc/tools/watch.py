"""`watch_nans` and `watch_ranges`: what the tensors of a network hold while it runs.

Both see every op, forward and backward, in compiled code and in PyNative alike, and change no bit
of what is computed. Only in cellc.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from cellc_runtime.dtypes import bfloat16, finfo, float16, from_numpy
from cellc_runtime.errors import InNotebook, counted
from cellc_runtime.records import dataclass

from ..lang.errors import CellcError
from . import findings, taps
from .taps import Array, Seen

RAISE, WARN = "raise", "warn"


class NonFiniteError(CellcError, FloatingPointError, InNotebook):
    """A watched op made NaN or infinity, or let one through that came from outside.

    The text names the op, the Cell, the line of the source and the operands.
    """


class _Nans:
    """Looks for the op that made a NaN or an infinity; see `findings` for the rule."""

    def __init__(self, action: str) -> None:
        self.action = action
        self.told: set[Any] = set()

    def saw(self, seen: Seen) -> None:
        found = findings.judge(seen)
        if found is None:
            return
        if self.action == RAISE:
            raise NonFiniteError(findings.text(seen, found))
        if found.source is not None and self.told and found.source.parameter is None:
            return  # it follows from an error already reported
        key = seen.op, seen.origin, seen.spot.key
        if key not in self.told:
            self.told.add(key)
            logging.getLogger("cellc").warning("%s", findings.text(seen, found))


@contextmanager
def watch_nans(action: str = RAISE) -> Iterator[None]:
    """Within the block, an op that makes NaN or infinity is named: op, Cell, line, operands.

    It is looked for forward and backward, in compiled networks and in PyNative mode, in all
    threads. A value counts if the op's operands are finite; infinities that are written or given
    (the mask of an attention) may be passed on, a NaN may not. Programs compiled in the block are
    kept apart from others. Artifacts are not watched.

    Args:
        action: `"raise"` stops at the first; `"warn"` logs each place once and goes on.

    Raises:
        NonFiniteError: (in the block, a FloatingPointError) an op made NaN or infinity.
    """
    if action not in (RAISE, WARN):
        raise ValueError(f"watch_nans: 'action' must be 'raise' or 'warn', but got {action!r}")
    watch = _Nans(action)
    taps.add(watch)
    try:
        yield
    finally:
        taps.remove(watch)


_debug: list[_Nans] = []


def debug_nan(on: bool) -> None:
    """Apply `set_context(debug_nan=...)`: `watch_nans` until it is turned off."""
    if on and not _debug:
        _debug.append(_Nans(RAISE))
        taps.add(_debug[0])
    elif not on and _debug:
        taps.remove(_debug.pop())


# --- ranges --------------------------------------------------------------------------------------


FLOAT16, BFLOAT16 = finfo(float16.numpy), finfo(bfloat16.numpy)


@dataclass(slots=True)
class Range:
    """The results of one op, over all its runs.

    Attributes:
        op: its name; `origin` that of the op whose gradient it belongs to, or "".
        scope: the path of the Cell; `file` and `line` where in the source.
        dtype: of the result, by name.
        runs: how often it ran.
        elements: how many it gave; `finite` how many of them are finite, `nonzero` and not 0.
        least, most: the smallest and the largest finite one.
        largest, smallest: magnitudes: the largest, and the smallest that is not 0.
        overflows, underflows: how many would become infinite, or 0, in float16 and in bfloat16.
    """

    op: str
    origin: str
    scope: str
    file: str
    line: int
    dtype: str
    runs: int = 0
    elements: int = 0
    finite: int = 0
    nonzero: int = 0
    least: float = math.inf
    most: float = -math.inf
    largest: float = 0.0
    smallest: float = math.inf
    overflows: tuple[int, int] = (0, 0)
    underflows: tuple[int, int] = (0, 0)

    def take(self, array: Array) -> None:
        """Count one more result."""
        self.runs += 1
        self.elements += array.size
        values = np.abs(array) if np.iscomplexobj(array) else array
        values = values[np.isfinite(values)].astype(np.float64)
        if not values.size:
            return
        sizes = np.abs(values)
        above = sizes[sizes > 0]
        self.finite += values.size
        self.nonzero += above.size
        self.least = min(self.least, float(values.min()))
        self.most = max(self.most, float(values.max()))
        self.largest = max(self.largest, float(sizes.max()))
        if above.size:
            self.smallest = min(self.smallest, float(above.min()))
        over, under = zip(*(_outside(above, t) for t in (FLOAT16, BFLOAT16)), strict=True)
        self.overflows = _sum(self.overflows, over)
        self.underflows = _sum(self.underflows, under)

    def share(self, counts: tuple[int, int]) -> tuple[float, float]:
        """Counts as shares of all elements, in float16 and in bfloat16."""
        return counts[0] / max(self.elements, 1), counts[1] / max(self.elements, 1)


def _outside(sizes: Array, of: Any) -> tuple[int, int]:
    """How many magnitudes above 0 round to infinity, and how many to 0, in a type."""
    return (int(np.count_nonzero(sizes >= _top(of))),
            int(np.count_nonzero(sizes <= _bottom(of))))


def _top(of: Any) -> float:
    """The least number that rounds to infinity: half a step above the largest one."""
    return float(of.max) + 2.0 ** (int(of.maxexp) - 2 - int(of.nmant))


def _bottom(of: Any) -> float:
    """The largest number that rounds to 0: half of the smallest one."""
    return float(of.smallest_subnormal) / 2


def _sum(a: tuple[int, int], b: tuple[int, ...]) -> tuple[int, int]:
    return a[0] + b[0], a[1] + b[1]


class Ranges:
    """The result of `watch_ranges`; print it.

    Attributes:
        rows: the ranges, in the order in which the ops first ran.
    """

    def __init__(self) -> None:
        self._rows: dict[Any, Range] = {}

    @property
    def rows(self) -> list[Range]:
        """The ranges, in the order in which the ops first ran."""
        return list(self._rows.values())

    def saw(self, seen: Seen) -> None:
        """An op ran."""
        for i, array in enumerate(seen.results):
            key = seen.op, seen.origin, seen.spot.key, i, array.dtype
            row = self._rows.get(key)
            if row is None:
                span, scope = seen.spot.resolved()
                row = self._rows[key] = Range(seen.op, seen.origin, scope, span.file, span.line,
                                              from_numpy(array.dtype).name)
            row.take(array)

    def __str__(self) -> str:
        rows = self.rows
        if not rows:
            return "no tensor has been seen"
        outside = [r for r in rows if r.overflows[0] or r.underflows[0]]
        table = [_HEAD, *map(_cells, rows)]
        widths = [max(len(row[i]) for row in table) for i in range(len(_HEAD))]
        body = ["  ".join(c.ljust(w) if i < _WORDS else c.rjust(w) for i, (c, w)
                          in enumerate(zip(row, widths, strict=True))).rstrip() for row in table]
        return "\n".join([
            *body,
            f"{counted(len(rows), 'tensor')}; {len(outside)} of them have elements "
            "outside of float16 "
            f"(|x| >= {_top(FLOAT16):.0f} becomes infinite, |x| <= {_bottom(FLOAT16):.2g} "
            "becomes 0)",
        ])

    __repr__ = __str__


_HEAD = ("op", "cell", "line", "dtype", "runs", "min", "max", "smallest", "f16 over",
         "f16 under", "bf16 over", "bf16 under", "not finite")
_WORDS = 4


def _cells(r: Range) -> tuple[str, ...]:
    over, under = r.share(r.overflows), r.share(r.underflows)
    where = f"{r.file.rpartition('/')[2]}:{r.line}" if r.line else ""
    seen = bool(r.finite)
    return (
        f"{r.op} (gradient of {r.origin})" if r.origin else r.op, r.scope, where, r.dtype,
        str(r.runs), f"{r.least:.4g}" if seen else "", f"{r.most:.4g}" if seen else "",
        f"{r.smallest:.4g}" if r.nonzero else "", _percent(over[0]), _percent(under[0]),
        _percent(over[1]), _percent(under[1]), str(r.elements - r.finite or ""),
    )


def _percent(share: float) -> str:
    return "" if not share else "<0.01%" if share < 1e-4 else f"{100 * share:.4g}%"


@contextmanager
def watch_ranges() -> Iterator[Ranges]:
    """Within the block, the range of every tensor is noted, by op, Cell and line.

    For those who go to mixed precision: the table says of each tensor which share of its elements
    would overflow or vanish in float16 and in bfloat16. As `watch_nans`, it sees compiled networks
    and PyNative mode, forward and backward.

    Returns:
        (as the block's value) a `Ranges`: print it, or read its `rows`.
    """
    ranges = Ranges()
    taps.add(ranges)
    try:
        yield ranges
    finally:
        taps.remove(ranges)


__all__ = ["NonFiniteError", "Range", "Ranges", "watch_nans", "watch_ranges"]
