"""An Ascend device: none is here. Its settings are checked; no other device has what they set.

Source: `mindspore.device_context.ascend`, and its modules `op_debug`, `op_precision`, `op_tuning`.
"""

from __future__ import annotations

from typing import Annotated, Any

from cellc_runtime.lazy import lazy_names

from .. import devices
from ..core.declared import Flag, NonNegative, checks_arguments, one_of

__path__: list[str] = []  # MindSpore has a package here: `old_paths` finds what is below
_BELOW = "op_debug op_precision op_tuning"
__getattr__ = lazy_names(__name__, {".": _BELOW})
_MODES = (
    "force_fp16", "allow_fp32_to_fp16", "allow_mix_precision", "must_keep_origin_dtype",
    "force_fp32", "allow_fp32_to_bf16", "allow_mix_precision_fp16", "allow_mix_precision_bf16",
)


def device_count() -> int:
    """How many there are."""
    return devices.device_count("Ascend")


def is_available() -> bool:
    """Whether this installation runs on it."""
    return devices.is_available("Ascend")


# --- how it looks for faults of ops ---------------------------------------------------------------


@checks_arguments
def execute_timeout(op_timeout: NonNegative) -> None:
    """After how many seconds such a device gives an op up; 0: never."""


@checks_arguments
def debug_option(option_value: Annotated[str, one_of("oom")]) -> None:
    """Set the checks of such a device while it computes: `"oom"`, accesses beyond an op's memory.
    """


@checks_arguments
def aclinit_config(config: dict[str, Any]) -> None:
    """Set the configuration that such a device's library starts with."""


# --- which precision it may compute in; other devices keep the types given ------------------------


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


# --- how it tunes its ops -------------------------------------------------------------------------


@checks_arguments
def op_compile(value: Flag) -> None:
    """Whether ops are compiled when they are met, rather than taken from a library."""


@checks_arguments
def aoe_tune_mode(tune_mode: Annotated[str, one_of("online", "offline")]) -> None:
    """Whether the tuner runs within the program (`"online"`) or on its graphs (`"offline"`)."""


@checks_arguments
def aoe_job_type(config: Annotated[str, one_of("1", "2")]) -> None:
    """Set the tuner's unit: parts of a graph (`"1"`) or single ops (`"2"`)."""


@checks_arguments
def aclnn_cache(enable_global_cache: Flag = False, cache_queue_length: NonNegative = 10000) -> None:
    """How many prepared ops are kept.

    Args:
        enable_global_cache: one store for all threads.
        cache_queue_length: how many.
    """


__all__ = [
    "aclinit_config", "aclnn_cache", "aoe_job_type", "aoe_tune_mode", "conv_allow_hf32",
    "debug_option", "device_count", "execute_timeout", "is_available", "matmul_allow_hf32",
    "op_compile", "op_precision_mode", "precision_mode", *_BELOW.split(),
]
