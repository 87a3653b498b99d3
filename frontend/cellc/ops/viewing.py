"""The functions and methods whose results are views, as users call them (`tensors/views.py`).

Which these are is MindSpore 2.10's choice for PyNative mode: `ops.flatten` copies, `Tensor.flatten`
does not. The library itself calls the functions of the families, whose results know nothing.
"""

from __future__ import annotations

from typing import Any

from ..tensors.views import viewing
from .families import fa, fg, fj

_FUNCTIONS = (
    fa.reshape, fa.ravel, fa.squeeze, fa.expand_dims, fa.unsqueeze, fa.transpose, fa.permute,
    fa.swapaxes, fa.swapdims, fa.moveaxis, fa.t, fa.broadcast_to, fa.atleast_1d, fa.atleast_2d,
    fa.atleast_3d, fj.split, fj.chunk, fj.tensor_split, fj.hsplit, fj.vsplit, fj.dsplit, fj.unbind,
    fj.unstack, fj.narrow, fj.slice, fj.strided_slice, fg.diagonal,
)

VIEWS: dict[str, Any] = {
    **{f.__name__: viewing(f) for f in _FUNCTIONS},
    "view_as": viewing(fa.view_as, fa.reshape), "expand_as": viewing(fa.expand_as, fa.broadcast_to),
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
    """Methods and properties of Tensor by name, those that give views so that the views know it."""
    out = methods | {name: viewing(methods[name]) for name in METHODS}
    for name, by in (("view_as", "reshape"), ("reshape_as", "reshape"),
                     ("expand_as", "broadcast_to")):
        out[name] = viewing(methods[name], methods[by])
    for name in ("T", "mT"):
        given = methods[name]
        out[name] = property(viewing(given.fget), doc=given.__doc__)
    return out
