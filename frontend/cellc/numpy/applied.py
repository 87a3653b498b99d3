"""Functions of the user's, applied to parts of arrays.

In graph mode the construct compiler interprets these like the user's own code (see
`cellc.lang.trust`), so what they call may be anything `construct` accepts.

Source: the same names in `mindspore.numpy`.
"""

from __future__ import annotations

from typing import Any

from . import applying as _parts


def apply_along_axis(func1d: Any, axis: Any, arr: Any, *args: Any, **kwargs: Any) -> Any:
    """A function of vectors, for each vector along an axis."""
    rows, place = _parts.vectors(arr, axis)
    out = []
    for row in rows:
        out.append(func1d(row, *args, **kwargs))
    return _parts.assembled(out, arr, place)


def apply_over_axes(func: Any, a: Any, axes: Any) -> Any:
    """`func(a, axis)` for one axis after the other; axes it drops stay as length 1."""
    res = _parts.start(a)
    for axis in _parts.axes_of(a, axes):
        res = _parts.restored(func(res, axis), res, axis)
    return res


def piecewise(x: Any, condlist: Any, funclist: Any, *args: Any, **kw: Any) -> Any:
    """At each place the function (or number) of the last condition that holds."""
    t, conditions = _parts.pieces(x, condlist, funclist)
    values = []
    for piece in funclist:
        values.append(piece(t, *args, **kw) if callable(piece) else piece)
    return _parts.merged(t, conditions, values)


__all__ = ["apply_along_axis", "apply_over_axes", "piecewise"]
