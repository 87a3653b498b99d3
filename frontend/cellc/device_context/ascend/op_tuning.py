"""How an Ascend device tunes its ops: checked; no other device has what they set.

Source: `mindspore.device_context.ascend.op_tuning`.
"""

from ...core import checks


def op_compile(value: bool) -> None:
    """Whether ops are compiled when they are met, rather than taken from a library.

    Source: `mindspore.device_context.ascend.op_tuning.op_compile`.
    """
    checks.boolean(value, "value", "op_compile")


def aoe_tune_mode(tune_mode: str) -> None:
    """Whether the tuner runs within the program (`"online"`) or on its graphs (`"offline"`).

    Source: `mindspore.device_context.ascend.op_tuning.aoe_tune_mode`.
    """
    checks.choice(tune_mode, ("online", "offline"), "tune_mode", "aoe_tune_mode")


def aoe_job_type(config: str) -> None:
    """What the tuner looks at: parts of a graph (`"1"`) or single ops (`"2"`).

    Source: `mindspore.device_context.ascend.op_tuning.aoe_job_type`.
    """
    checks.choice(config, ("1", "2"), "config", "aoe_job_type")


def aclnn_cache(enable_global_cache: bool = False, cache_queue_length: int = 10000) -> None:
    """How many prepared ops are kept.

    Args:
        enable_global_cache: one store for all threads.
        cache_queue_length: how many.

    Raises:
        ValueError: a negative number.

    Source: `mindspore.device_context.ascend.op_tuning.aclnn_cache`.
    """
    checks.boolean(enable_global_cache, "enable_global_cache", "aclnn_cache")
    checks.at_least(cache_queue_length, 0, "cache_queue_length", "aclnn_cache")


__all__ = ["aclnn_cache", "aoe_job_type", "aoe_tune_mode", "op_compile"]
