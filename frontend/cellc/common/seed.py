"""Seeds and random generators under MindSpore's import path, `common.seed`."""

from __future__ import annotations

from ..tensors.seed import Generator, default_generator, get_seed, manual_seed, seed, set_seed

__all__ = ["Generator", "default_generator", "get_seed", "manual_seed", "seed", "set_seed"]
