"""The library `onnx`, which comes with the extra `cellc[onnx]`, loaded when it is first used."""

from __future__ import annotations

from cellc_runtime.lazy import lazy_imports

with lazy_imports(__name__):
    import onnx

__all__ = ["onnx"]
