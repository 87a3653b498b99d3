"""The device CPU.

Source: `mindspore.device_context.cpu`, and its module `op_tuning`.
"""

from cellc_runtime.lazy import lazy_names

from .. import context, devices
from ..core.declared import Positive, checks_arguments

__path__: list[str] = []  # MindSpore has a package here: `old_paths` finds what is below
_BELOW = "op_tuning"
__getattr__ = lazy_names(__name__, {".": _BELOW})


def device_count() -> int:
    """How many there are."""
    return devices.device_count("CPU")


def is_available() -> bool:
    """Whether this installation runs on it."""
    return devices.is_available("CPU")


@checks_arguments
def threads_num(num: Positive) -> None:
    """How many threads compute."""
    context.set_context(runtime_num_threads=num)


__all__ = ["device_count", "is_available", "threads_num", *_BELOW.split()]
