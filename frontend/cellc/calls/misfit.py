"""A layer of the library that fails on what it was given says so: that is looked at once it has
failed, so a call that does not costs nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from inspect import signature
from typing import Any, NoReturn

from ..core import naming
from ..core.module_names import module_of
from ..tensors.tensor import Tensor


def misfit(cell: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> TypeError | None:
    """The error of a layer that got something else for a Tensor; None if it did not.

    Args:
        cell: the layer, whose `construct` says by annotations what it takes.
        args, kwargs: what it was called with.
    """
    wanted = signature(cell.construct)
    try:
        given = wanted.bind(*args, **kwargs).arguments
    except TypeError:
        return None
    for name, value in given.items():
        if wanted.parameters[name].annotation in (Tensor, "Tensor") and \
                not isinstance(value, Tensor):
            return TypeError(f"For '{cell.cls_name}', '{name}' must be a Tensor, but got "
                             f"{type(value).__name__}.")
    return None


def raise_told(
    error: Exception, cell: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> NoReturn:
    """Raise an exception that left a layer, or what is to be said in its place; a Cell of the user
    fails as it does."""
    if module_of(type(cell).construct).startswith("cellc."):
        told = misfit(cell, args, kwargs) if isinstance(error, AttributeError) else None
        if told is not None:
            raise told from error
        naming.raise_told(error, cell.cls_name, cell.construct, args, kwargs)
    raise
