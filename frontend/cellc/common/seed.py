"""Seeds and random generators under MindSpore's import path, `common.seed`."""

from __future__ import annotations

from collections import Counter

from ..tensors.seed import Generator, default_generator, get_seed, manual_seed, seed, set_seed

_calls: Counter[tuple[int | None, int, str]] = Counter()


def _get_graph_seed(op_seed: int | None, kernel_name: str) -> tuple[int, int]:
    """Seeds for a Primitive: the global one, and the operation's, another one in each call.

    Both are 0, which asks for the global generator, if neither is set.
    """
    own = op_seed or 0
    if own < 0:
        raise ValueError(f"For '{kernel_name}', the seed must not be negative, but got {own}.")
    if not get_seed() and not own:
        return 0, 0
    key = (get_seed(), own, kernel_name)
    _calls[key] += 1
    return get_seed() or 0, own + _calls[key] - 1


__all__ = ["Generator", "default_generator", "get_seed", "manual_seed", "seed", "set_seed"]
