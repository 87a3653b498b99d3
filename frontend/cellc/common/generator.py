"""Random generators under MindSpore's import path, `common.generator`."""

from __future__ import annotations

from ..tensors.seed import Generator, default_generator, manual_seed, seed

__all__ = ["Generator", "default_generator", "manual_seed", "seed"]
