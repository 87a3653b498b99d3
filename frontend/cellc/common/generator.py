"""Random generators under MindSpore's import path, `common.generator`."""

from __future__ import annotations

from ..compat import get_rng_state, initial_seed, set_rng_state
from ..tensors.seed import Generator, default_generator, manual_seed, seed

__all__ = [
    "Generator", "default_generator", "get_rng_state", "initial_seed", "manual_seed", "seed",
    "set_rng_state",
]
