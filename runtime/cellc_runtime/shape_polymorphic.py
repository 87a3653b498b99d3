"""How the operands of an elementwise op are broadcast to its result, whatever the sizes.

A *shape-polymorphic* program serves every call whose operands are broadcast in the same ways: its
sizes (rows and columns) come with each call. Native code
(`backends/cpu/host/broadcast_sizes.ll`) decides the same.
"""

from __future__ import annotations

from collections.abc import Sequence

WHOLE, ONE, ROW, COLUMN = range(4)
"""The elements of the result in their order; one element for all; the same row for each row; one
element for each row."""
BROADCASTS = (WHOLE, ONE, ROW, COLUMN)
LIMIT = 1 << 22
"""Results with more elements have programs of their own, which write past the caches."""

Shape = tuple[int, ...]


def broadcasts(shapes: Sequence[Shape]) -> tuple[int, ...] | None:
    """How each operand is broadcast to the result; None if a shape-polymorphic program cannot do
    it.

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
    """The shape of the result, its rows and columns; None if they are broadcast otherwise."""
    whole = [s for s, broadcast in zip(shapes, given, strict=True) if broadcast == WHOLE]
    if not whole:
        return None
    lead = max(whole, key=len)  # the first of the longest
    columns = -1
    for shape, broadcast in zip(shapes, given, strict=True):
        count, changed = _walk(lead, shape, broadcast in (WHOLE, ROW))
        if count < 0 or (changed and broadcast in (WHOLE, ONE)):
            return None
        if broadcast in (ROW, COLUMN):
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
        How many elements the axes before the change have, -1 if the shape does not fit; whether
        there was a change.
    """
    off = len(lead) - len(shape)
    if off < 0:
        return -1, False
    count, changed = 1, False
    for i in range(len(lead) - 1, -1, -1):
        d = shape[i - off] if i >= off else 1
        equal, single = d == lead[i], d == 1
        before, after = (equal, single) if by_row else (single, equal)
        if not changed and before:
            count *= lead[i]
        elif after:
            changed = True
        else:
            return -1, False
    return count, changed
