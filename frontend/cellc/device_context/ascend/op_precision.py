"""Which precision an Ascend device may compute in: checked; other devices keep the types given.

Source: `mindspore.device_context.ascend.op_precision`.
"""

from typing import Annotated

from ...core.declared import Flag, checks_arguments, one_of

_MODES = (
    "force_fp16", "allow_fp32_to_fp16", "allow_mix_precision", "must_keep_origin_dtype",
    "force_fp32", "allow_fp32_to_bf16", "allow_mix_precision_fp16", "allow_mix_precision_bf16",
)


@checks_arguments
def precision_mode(mode: Annotated[str, one_of(*_MODES)]) -> None:
    """The types that such a device may change float32 and float16 to."""


@checks_arguments
def op_precision_mode(path: str) -> None:
    """A file that names a precision for each op of such a device; it is not read here."""


@checks_arguments
def matmul_allow_hf32(value: Flag) -> None:
    """Permit HF32, a short float32, in products of matrices."""


@checks_arguments
def conv_allow_hf32(value: Flag) -> None:
    """Permit HF32, a short float32, in convolutions."""


__all__ = ["conv_allow_hf32", "matmul_allow_hf32", "op_precision_mode", "precision_mode"]
