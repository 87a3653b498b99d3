"""Small helpers under MindSpore's paths: `utils.dlpack`."""

from . import dlpack

__all__ = ["dlpack"]
