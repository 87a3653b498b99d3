"""How an Ascend device looks for faults of ops: checked; no other device has what they set.

Source: `mindspore.device_context.ascend.op_debug`.
"""

from __future__ import annotations

from typing import Annotated, Any

from ...core.declared import NonNegative, checks_arguments, one_of


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


__all__ = ["aclinit_config", "debug_option", "execute_timeout"]
