"""How the operands of an elementwise op lie over its result, whatever the sizes.

A *shape-polymorphic* program serves every call whose operands lie over the result in the same ways:
its sizes (rows and columns) come with each call. Native code
(`backends/cpu/host/broadcast_sizes.py`) decides the same.
"""

from __future__ import annotations

from collections.abc import Sequence

WHOLE, ONE, ROW, COLUMN = range(4)
"""The elements of the result in their order; one element for all; the same row for each row; one
element for each row."""
WAYS = (WHOLE, ONE, ROW, COLUMN)
LIMIT = 1 << 22
"""Results of so many elements have programs of their own: larger ones are written past the
caches."""

Shape = tuple[int, ...]


def ways(shapes: Sequence[Shape]) -> tuple[int, ...] | None:
    """The way of each operand over the broadcast result; None if a sized program cannot say it.

    One of the operands has to be the result's shape, and all rows have to be cut alike.
    """
    most = max(map(len, shapes), default=0)
    for lead in shapes:
        if len(lead) == most:
            found = _over(lead, shapes)
            if found is not None:
                return found
    return None


def measure(given: Sequence[int], shapes: Sequence[Shape]) -> tuple[Shape, int, int] | None:
    """The shape of the result, its rows and columns; None if these are not the ways."""
    whole = [s for s, way in zip(shapes, given, strict=True) if way == WHOLE]
    if not whole:
        return None
    lead = max(whole, key=len)  # the first of the longest
    columns = -1
    for shape, way in zip(shapes, given, strict=True):
        count, turned = _walk(lead, shape, way in (WHOLE, ROW))
        if count < 0 or (turned and way in (WHOLE, ONE)):
            return None
        if way in (ROW, COLUMN):
            if columns not in (-1, count):
                return None
            columns = count
    total = 1
    for d in lead:
        total *= d
    if columns < 0:
        return lead, 1, total
    return lead, total // columns if columns else 0, columns


def _over(lead: Shape, shapes: Sequence[Shape]) -> tuple[int, ...] | None:
    found = []
    for shape in shapes:
        row, column = _walk(lead, shape, True), _walk(lead, shape, False)
        if row[0] >= 0 and not row[1]:
            found.append(WHOLE)
        elif column[0] >= 0 and not column[1]:
            found.append(ONE)
        elif row[0] >= 0:
            found.append(ROW)
        elif column[0] >= 0:
            found.append(COLUMN)
        else:
            return None
    return tuple(found) if measure(found, shapes) is not None else None


def _walk(lead: Shape, shape: Shape, by_row: bool) -> tuple[int, bool]:
    """From the last axis to the first: axes of equal size, then of size 1 (by row), or the other
    way round.

    Returns:
        How many elements the axes before the turn have, -1 if the shape does not fit; whether
        there was a turn.
    """
    off = len(lead) - len(shape)
    if off < 0:
        return -1, False
    count, turned = 1, False
    for i in range(len(lead) - 1, -1, -1):
        d = shape[i - off] if i >= off else 1
        equal, single = d == lead[i], d == 1
        before, after = (equal, single) if by_row else (single, equal)
        if not turned and before:
            count *= lead[i]
        elif after:
            turned = True
        else:
            return -1, False
    return count, turned
