"""What MindSpore offers as experimental: `cellc.experimental`."""

from . import optim

__all__ = ["optim"]
