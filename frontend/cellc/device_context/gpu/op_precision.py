"""Whether products may be in TF32: a permission that cellc takes under `numerics="fast"` only.

Source: `mindspore.device_context.gpu.op_precision`.
"""

from ...core.declared import Flag, checks_arguments


@checks_arguments
def conv_allow_tf32(value: Flag) -> None:
    """Permit TF32 in convolutions; not used by strict numerics."""


@checks_arguments
def matmul_allow_tf32(value: Flag) -> None:
    """Permit TF32 in products of matrices; not used by strict numerics."""


__all__ = ["conv_allow_tf32", "matmul_allow_tf32"]
