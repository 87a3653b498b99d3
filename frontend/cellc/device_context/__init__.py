"""Devices by kind. Source: `mindspore.device_context`."""

from . import ascend, cpu, gpu

__all__ = ["ascend", "cpu", "gpu"]
