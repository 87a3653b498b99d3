"""Recovery of clusters after a fault: on one device there is nothing to agree on.

Source: `mindspore.utils`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from ..core.absent import absent


class TFTCommValue:
    """Values of the environment variable MS_ENABLE_TFT."""

    ENABLE_MINDX = ["TTP:1", "UCE:1", "ARF:1", "TSP:1", "HCCE:1", "RSC:1"]
    NEED_MINDIO = ["TTP:1", "UCE:1", "ARF:1", "TSP:1", "HCCE:1"]
    DISABLE_WATCHDOG = ["ARF:1", "TSP:1", "HCCE:1"]


class RSCPluginHandle:
    """Whether a scheduler controls this training."""

    def check_enable(self) -> bool:
        """Whether MS_ENABLE_TFT asks for one."""
        asked = os.environ.get("MS_ENABLE_TFT", "")
        return any(value in asked for value in TFTCommValue.ENABLE_MINDX)

    def start(self) -> None:
        """Train as the scheduler says.

        Raises:
            RuntimeError: always: there is no scheduler for one device.
        """
        raise RuntimeError("Mindx unavailable, can not start training: cellc trains on one device, "
                           "which no scheduler controls.")

    def register_callback(self, func_map: Any) -> None:
        """Give the scheduler functions to call.

        Raises:
            RuntimeError: always: there is no scheduler for one device.
        """
        self.start()


class ExitByRequest:
    """Lets all processes end after the same step."""

    def exit_by_request(self, grad: Any, init_value: Any, exit_value: Any) -> Any:
        """`grad`: one process need not agree with others."""
        return grad


def _of_clusters(name: str, what: str) -> Callable[..., Any]:
    return absent(f"utils.{name}", f"{what} of a cluster, but cellc runs on one device.",
                  f"Not on one device: it {what} of a cluster.")


comm_exec_order_check = _of_clusters("comm_exec_order_check", "compares the messages")
runtime_execution_order_check = _of_clusters(
    "runtime_execution_order_check", "compares the order of ops")
get_sdc_detect_result = _of_clusters("get_sdc_detect_result", "tells silent faults")
sdc_detect_start = _of_clusters("sdc_detect_start", "looks for silent faults")
sdc_detect_stop = _of_clusters("sdc_detect_stop", "looks for silent faults")
stress_detect = _of_clusters("stress_detect", "puts stress on the devices")

__all__ = [
    "ExitByRequest", "RSCPluginHandle", "TFTCommValue", "comm_exec_order_check",
    "get_sdc_detect_result", "runtime_execution_order_check", "sdc_detect_start",
    "sdc_detect_stop", "stress_detect",
]
