"""How compiled networks raise: the user's exception classes, and tensors in messages."""

from __future__ import annotations

from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from cellc_runtime.executable import Errors

from ..tensors.tensor import tensor_of

_OWN: WeakValueDictionary[str, type[Exception]] = WeakValueDictionary()
"""The user's exception classes that networks of this process raise, by name. The function that
raises one holds it, so none goes before the last network that needs it."""


def name_class(cls: type[Exception]) -> str:
    """A name under which the class is found when a network raises it."""
    plain = f"{cls.__module__}.{cls.__qualname__}"
    name, n = plain, 1
    while _OWN.setdefault(name, cls) is not cls:
        n += 1
        name = f"{plain}#{n}"
    return name


def _shown(array: np.ndarray[Any, Any]) -> str:
    return str(tensor_of(array))


ERRORS = Errors(_OWN, _shown)  # For executables of this process
