"""Tensors over memory of other libraries. Source: `mindspore.utils.dlpack`."""

from ..tensors.sharing import from_dlpack, to_dlpack

__all__ = ["from_dlpack", "to_dlpack"]
