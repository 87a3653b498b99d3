"""How an Ascend device tunes its ops: checked; no other device has what they set.

Source: `mindspore.device_context.ascend.op_tuning`.
"""

from typing import Annotated

from ...core.declared import Flag, NonNegative, checks_arguments, one_of


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


__all__ = ["aclnn_cache", "aoe_job_type", "aoe_tune_mode", "op_compile"]
