"""A layer of the library that fails on what is no Tensor says so: what it was given is looked at
once it has failed, so a call that does not costs nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from inspect import signature
from typing import Any

from ..tensors.tensor import Tensor


def misfit(cell: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> TypeError | None:
    """The error of a layer of the library that got something else for a Tensor; None if it did not.

    Args:
        cell: the layer, whose `construct` says by annotations what it takes.
        args, kwargs: what it was called with.
    """
    construct = type(cell).construct
    if not construct.__module__.startswith("cellc."):
        return None
    wanted = signature(construct)
    for name, value in wanted.bind(cell, *args, **kwargs).arguments.items():
        if wanted.parameters[name].annotation in (Tensor, "Tensor") and \
                not isinstance(value, Tensor):
            return TypeError(f"For '{cell.cls_name}', '{name}' must be a Tensor, but got "
                             f"{type(value).__name__}.")
    return None
