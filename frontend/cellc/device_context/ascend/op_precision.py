"""Which precision an Ascend device may compute in: checked; other devices keep the types given.

Source: `mindspore.device_context.ascend.op_precision`.
"""

from ...core import checks

_MODES = (
    "force_fp16", "allow_fp32_to_fp16", "allow_mix_precision", "must_keep_origin_dtype",
    "force_fp32", "allow_fp32_to_bf16", "allow_mix_precision_fp16", "allow_mix_precision_bf16",
)


def precision_mode(mode: str) -> None:
    """The types that such a device may change float32 and float16 to.

    Source: `mindspore.device_context.ascend.op_precision.precision_mode`.
    """
    checks.choice(mode, _MODES, "mode", "precision_mode")


def op_precision_mode(path: str) -> None:
    """A file that names a precision for each op of such a device; it is not read here.

    Source: `mindspore.device_context.ascend.op_precision.op_precision_mode`.
    """
    checks.of_type(path, (str,), "path", "op_precision_mode")


def matmul_allow_hf32(value: bool) -> None:
    """Permit HF32, a short float32, in products of matrices.

    Source: `mindspore.device_context.ascend.op_precision.matmul_allow_hf32`.
    """
    checks.boolean(value, "value", "matmul_allow_hf32")


def conv_allow_hf32(value: bool) -> None:
    """Permit HF32, a short float32, in convolutions.

    Source: `mindspore.device_context.ascend.op_precision.conv_allow_hf32`.
    """
    checks.boolean(value, "value", "conv_allow_hf32")


__all__ = ["conv_allow_hf32", "matmul_allow_hf32", "op_precision_mode", "precision_mode"]
