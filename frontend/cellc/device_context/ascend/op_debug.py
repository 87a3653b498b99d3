"""How an Ascend device looks for faults of ops: checked; no other device has what they set.

Source: `mindspore.device_context.ascend.op_debug`.
"""

from typing import Any

from ...core import checks


def execute_timeout(op_timeout: int) -> None:
    """After how many seconds such a device gives an op up; 0: never.

    Raises:
        ValueError: a negative number.

    Source: `mindspore.device_context.ascend.op_debug.execute_timeout`.
    """
    checks.at_least(op_timeout, 0, "op_timeout", "execute_timeout")


def debug_option(option_value: str) -> None:
    """What such a device checks while it computes: `"oom"`, accesses beyond an op's memory.

    Source: `mindspore.device_context.ascend.op_debug.debug_option`.
    """
    checks.choice(option_value, ("oom",), "option_value", "debug_option")


def aclinit_config(config: dict[str, Any]) -> None:
    """What such a device's library is started with.

    Source: `mindspore.device_context.ascend.op_debug.aclinit_config`.
    """
    checks.of_type(config, (dict,), "config", "aclinit_config")


__all__ = ["aclinit_config", "debug_option", "execute_timeout"]
