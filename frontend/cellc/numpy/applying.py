"""The parts of `applied` that are plain work on tensors."""

from __future__ import annotations

import math
from typing import Any

from cellc_runtime.dtypes import bool_

from ..core.declared import misuse
from ..ops.arguments import axis_of
from ..ops.functional import arith, joining, shapes
from ..tensors.promotion import cast_to
from ..tensors.tensor import Tensor
from ._tensors import as_tensor, together


def vectors(arr: Any, axis: Any) -> tuple[list[Tensor], int]:
    """The vectors along an axis, and the axis."""
    x = as_tensor(arr, "apply_along_axis", "arr")
    place = axis_of(axis, x.ndim, "numpy.apply_along_axis")
    n = x.shape[place]
    flat = shapes.reshape(shapes.moveaxis(x, place, -1), (math.prod(x.shape) // max(n, 1), n))
    return list(joining.unstack(flat)), place


def assembled(parts: list[Any], arr: Any, place: int) -> Tensor:
    """Results of vectors in the place of the vectors."""
    x = as_tensor(arr, "apply_along_axis", "arr")
    made = together([as_tensor(p, "apply_along_axis", "func1d") for p in parts])
    rest = x.shape[:place] + x.shape[place + 1 :]
    one = made[0].shape
    out = shapes.reshape(joining.stack(made), (*rest, *one))
    lead = len(rest)
    return shapes.moveaxis(out, tuple(range(lead, lead + len(one))),
                           tuple(range(place, place + len(one)))) if one else out


def start(x: Any) -> Tensor:
    """The array as a tensor."""
    return as_tensor(x, "apply_over_axes", "a")


def axes_of(x: Any, axes: Any) -> tuple[int, ...]:
    """Axes as positions."""
    rank = start(x).ndim
    given = (axes,) if isinstance(axes, int) else tuple(axes)
    return tuple(axis_of(v, rank, "numpy.apply_over_axes") for v in given)


def restored(res: Any, before: Tensor, axis: int) -> Tensor:
    """A result with the axis that the function dropped."""
    out = as_tensor(res, "apply_over_axes", "func")
    if out.ndim == before.ndim:
        return out
    if out.ndim != before.ndim - 1:
        raise misuse("numpy.apply_over_axes", "the function must keep the axes or drop one")
    return shapes.expand_dims(out, axis)


def pieces(x: Any, condlist: Any, funclist: Any) -> tuple[Tensor, list[Tensor]]:
    """The array and one condition for each function, the last for where none holds."""
    t = as_tensor(x, "piecewise")
    if isinstance(condlist, Tensor) and condlist.ndim > t.ndim:
        conditions = list(joining.unstack(condlist))
    elif isinstance(condlist, (list, tuple)) and condlist and not isinstance(condlist[0], bool):
        conditions = [as_tensor(c, "piecewise", "condlist") for c in condlist]
    else:
        conditions = [as_tensor(condlist, "piecewise", "condlist")]
    conditions = [cast_to(c, bool_) for c in conditions]
    if len(funclist) == len(conditions) + 1:
        held = conditions[0]
        for c in conditions[1:]:
            held = arith.logical_or(held, c)
        conditions.append(arith.logical_not(held))
    if len(funclist) != len(conditions):
        raise misuse("numpy.piecewise",
                     f"{len(funclist)} functions do not fit {len(conditions)} conditions")
    return t, conditions


def merged(x: Tensor, conditions: list[Tensor], values: list[Any]) -> Tensor:
    """At each place the value of the last condition that holds; 0 where none does."""
    made = together([as_tensor(v, "piecewise") for v in values])
    out = shapes.broadcast_to(cast_to(as_tensor(0, "piecewise"), made[0].dtype), x.shape)
    for condition, value in zip(conditions, made, strict=True):
        out = arith.where(condition, value, out)
    return out
