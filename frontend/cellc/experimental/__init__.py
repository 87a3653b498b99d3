"""MindSpore's experimental part: `cellc.experimental`."""

from . import optim

__all__ = ["optim"]
