"""The functions and methods whose results are views, as users call them (`tensors/views.py`).

Which these are is MindSpore 2.10's choice for PyNative mode: `ops.flatten` copies, `Tensor.flatten`
does not. The library itself calls the functions of the families, whose results know nothing.
"""

from __future__ import annotations

from typing import Any

from ..tensors.views import viewing
from .functional import grid, joining, shapes

_FUNCTIONS = (
    shapes.reshape, shapes.ravel, shapes.squeeze, shapes.expand_dims, shapes.unsqueeze,
    shapes.transpose, shapes.permute,
    shapes.swapaxes, shapes.swapdims, shapes.moveaxis, shapes.t, shapes.broadcast_to,
    shapes.atleast_1d, shapes.atleast_2d,
    shapes.atleast_3d, joining.split, joining.chunk, joining.tensor_split, joining.hsplit,
    joining.vsplit, joining.dsplit, joining.unbind,
    joining.unstack, joining.narrow, joining.slice, joining.strided_slice, grid.diagonal,
)

VIEWS: dict[str, Any] = {
    **{f.__name__: viewing(f) for f in _FUNCTIONS},
    "view_as": viewing(shapes.view_as, shapes.reshape),
    "expand_as": viewing(shapes.expand_as, shapes.broadcast_to),
}
"""Functions of `ops` by name."""
VIEWS["movedim"] = VIEWS["moveaxis"]

METHODS = frozenset((
    "reshape", "view", "ravel", "flatten", "squeeze", "expand_dims", "unsqueeze", "transpose",
    "permute", "swapaxes", "swapdims", "moveaxis", "movedim", "t", "broadcast_to", "expand",
    "split", "chunk", "tensor_split", "hsplit", "vsplit", "dsplit", "unbind", "narrow", "diagonal",
))
"""Methods of Tensor whose results are views."""


def as_views(methods: dict[str, Any]) -> dict[str, Any]:
    """Methods and properties of Tensor by name; those that return views register them as views."""
    out = methods | {name: viewing(methods[name]) for name in METHODS}
    for name, by in (("view_as", "reshape"), ("reshape_as", "reshape"),
                     ("expand_as", "broadcast_to")):
        out[name] = viewing(methods[name], methods[by])
    for name in ("T", "mT"):
        given = methods[name]
        out[name] = property(viewing(given.fget), doc=given.__doc__)
    return out
