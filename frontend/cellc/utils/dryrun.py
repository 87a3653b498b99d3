"""Which value a program goes on with where a simulated device would have none.

Source: `mindspore.utils.dryrun`.
"""

from __future__ import annotations

import os
from typing import Any

_LEVEL = "MS_SIMULATION_LEVEL"


def set_simulation() -> None:
    """Let `mock` return its given value; there is no simulated device, so all else is computed.

    Source: `mindspore.utils.dryrun.set_simulation`, which sets the same variable of the environment
    (`MS_SIMULATION_LEVEL`).
    """
    os.environ[_LEVEL] = "1"


def mock(mock_val: Any, *args: Any) -> Any:
    """`mock_val` where `set_simulation` was called, else what `args` mean.

    Args:
        mock_val: the value of a simulation.
        args: a value; or a function, with its arguments.
    """
    if os.environ.get(_LEVEL):
        return mock_val
    if len(args) == 1 and not callable(args[0]):
        return args[0]
    return args[0](*args[1:])


__all__ = ["mock", "set_simulation"]
