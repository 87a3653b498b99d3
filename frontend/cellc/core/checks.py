"""Checks that functions of `ops` call by hand."""

from .declared import BOOL
from .declared import is_int as is_int


def boolean(value: object, name: str, what: str) -> bool:
    """`value`, which must be a bool."""
    checked: bool = BOOL(value, what, name)
    return checked
