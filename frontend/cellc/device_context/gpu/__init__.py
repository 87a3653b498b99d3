"""The device GPU."""

from ... import devices
from . import op_precision, op_tuning
from .op_precision import conv_allow_tf32, matmul_allow_tf32
from .op_tuning import conv_dgrad_algo, conv_fprop_algo, conv_wgrad_algo


def device_count() -> int:
    """How many there are."""
    return devices.device_count("GPU")


def is_available() -> bool:
    """Whether this installation runs on it."""
    return devices.is_available("GPU")


__all__ = [
    "conv_allow_tf32", "conv_dgrad_algo", "conv_fprop_algo", "conv_wgrad_algo", "device_count",
    "is_available", "matmul_allow_tf32", "op_precision", "op_tuning",
]
