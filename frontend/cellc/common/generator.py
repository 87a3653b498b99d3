"""Random generators under MindSpore's path, `common.generator`; they live in `common.seed`."""

from .seed import Generator, default_generator, manual_seed, seed

__all__ = ["Generator", "default_generator", "manual_seed", "seed"]
