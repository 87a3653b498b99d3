"""The device GPU."""

from ... import devices


def device_count() -> int:
    """How many there are."""
    return devices.device_count("GPU")


def is_available() -> bool:
    """Whether this installation runs on it."""
    return devices.is_available("GPU")


__all__ = ["device_count", "is_available"]
