"""Whether products may be in TF32: a permission that cellc takes under `numerics="fast"` only.

Source: `mindspore.device_context.gpu.op_precision`.
"""

from ...core import checks


def conv_allow_tf32(value: bool) -> None:
    """Permit TF32 in convolutions; not used by strict numerics.

    Source: `mindspore.device_context.gpu.op_precision.conv_allow_tf32`.
    """
    checks.of_type(value, (bool,), "value", "conv_allow_tf32")


def matmul_allow_tf32(value: bool) -> None:
    """Permit TF32 in products of matrices; not used by strict numerics.

    Source: `mindspore.device_context.gpu.op_precision.matmul_allow_tf32`.
    """
    checks.of_type(value, (bool,), "value", "matmul_allow_tf32")


__all__ = ["conv_allow_tf32", "matmul_allow_tf32"]
