"""Names that scripts take from MindSpore's module `train._utils`."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from .. import checking


def _make_directory(path: str, arg_name: str = "path") -> str:
    """Make a folder, and those that it is in, where they are not there; gives its real path.

    Raises:
        OSError: it cannot be made.
    """
    if not isinstance(path, str) or not path.strip():
        raise TypeError(f"The {arg_name!r} must be a string that is not empty, but got {path!r}.")
    found = os.path.realpath(path)
    os.makedirs(found, exist_ok=True)
    return found


def check_value_type(arg_name: str, arg_value: Any, valid_types: Any) -> None:
    """Refuse a value that is of none of some types."""
    many = list(valid_types) if isinstance(valid_types, Iterable) else [valid_types]
    checking.check_value_type(arg_name, arg_value, many)
