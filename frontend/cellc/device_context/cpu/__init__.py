"""The device CPU."""

from ... import devices
from . import op_tuning
from .op_tuning import threads_num


def device_count() -> int:
    """How many there are."""
    return devices.device_count("CPU")


def is_available() -> bool:
    """Whether this installation runs on it."""
    return devices.is_available("CPU")


__all__ = ["device_count", "is_available", "op_tuning", "threads_num"]
