"""Initial values of parameters under MindSpore's import path, `common.initializer`.

Names with a leading underscore are for initializers that users write.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from cellc_runtime.lazy import public_names

from ..tensors.initializer import *  # noqa: F403
from ..tensors.initializer import ALIASES, Initializer
from ..tensors.initializer import __all__ as __all__
from ..tensors.initializer import fans as _calculate_fan_in_and_fan_out
from ..tensors.initializer import gain_of as _calculate_gain  # noqa: F401  (for scripts)

__dir__ = public_names(__name__)
Array = np.ndarray[Any, Any]
_C = TypeVar("_C", bound=type[Initializer])
_INITIALIZER_ALIAS = ALIASES


def _calculate_correct_fan(shape: tuple[int, ...], mode: str) -> int:
    """The number of inputs or of outputs of an element of a weight."""
    modes = ("fan_in", "fan_out")
    if mode.lower() not in modes:
        raise ValueError(f"'mode' {mode} is not supported. It should be one of {modes}.")
    return _calculate_fan_in_and_fan_out(shape)[modes.index(mode.lower())]


def _calculate_in_and_out(arr: Array) -> tuple[int, int]:
    """Inputs and outputs of an element of a weight given as an array."""
    return _calculate_fan_in_and_fan_out(arr.shape)


def _assignment(arr: Array, num: Any) -> Array:
    """The array, filled with a number or the elements of another."""
    arr[...] = num
    return arr


def _register(*aliases: str) -> Callable[[_C], _C]:
    """A decorator of initializers: `initializer` finds the class by its name and the aliases."""
    def keep(cls: _C) -> _C:
        for name in (cls.__name__.lower(), *aliases):
            ALIASES.setdefault(name, cls)
        return cls

    return keep


def _init_random_normal(mean: float, sigma: float, shape: tuple[int, ...]) -> Array:
    """Normal numbers of numpy's global generator: float32."""
    if sigma < 0:
        raise ValueError("sigma < 0")
    return np.random.normal(mean, sigma, shape).astype(np.float32)


def _init_random_uniform(a: float, b: float, shape: tuple[int, ...]) -> Array:
    """Uniform numbers of [a, b) of numpy's global generator: float32."""
    return np.random.uniform(a, b, shape).astype(np.float32)
