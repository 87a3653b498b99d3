"""The library `onnx`, which comes with the extra `cellc[onnx]`, loaded when it is first used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cellc_runtime.lazy import lazy_module

if TYPE_CHECKING:
    import onnx
else:
    onnx = lazy_module("onnx")

__all__ = ["onnx"]
