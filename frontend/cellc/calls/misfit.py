"""A layer of the library that fails on what it was given says so: that is looked at once it has
failed, so a call that does not costs nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from ..core import naming
from ..core.module_names import module_of


def raise_told(
    error: Exception, cell: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> NoReturn:
    """Raise an exception that left a layer, or what is to be said in its place; a Cell of the user
    fails as it does."""
    construct = type(cell).construct
    if module_of(construct).startswith("cellc."):
        inherited, text = f"{construct.__qualname__}()", str(error)
        if isinstance(error, TypeError) and text.startswith(inherited):  # Python names the base
            error.args = (f"{cell.cls_name}.construct()" + text.removeprefix(inherited),)
        naming.raise_told(error, cell.cls_name, cell.construct, args, kwargs)
    raise
