"""How compiled networks raise: the user's exception classes, and tensors in messages."""

from __future__ import annotations

from typing import Any

import numpy as np

from cellc_runtime.executable import Errors

from ..common.tensor import Tensor

_OWN: dict[str, type[Exception]] = {}
"""The user's exception classes that networks of this process raise, by name."""


def name_class(cls: type[Exception]) -> str:
    """A name under which the class is found when a network raises it."""
    plain = f"{cls.__module__}.{cls.__qualname__}"
    name, n = plain, 1
    while _OWN.setdefault(name, cls) is not cls:
        n += 1
        name = f"{plain}#{n}"
    return name


def _shown(array: np.ndarray[Any, Any]) -> str:
    return str(Tensor._from_array(array))


ERRORS = Errors(_OWN, _shown)
"""For executables of this process."""
