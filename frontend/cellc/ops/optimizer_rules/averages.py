"""Running averages, rounded in two ways: MindSpore's kernels use one or the other."""

from __future__ import annotations

from typing import Any

Decay = tuple[Any, Any]
"""How much an average keeps of its old value, and how much it takes of the new one."""


def weighted(old: Any, new: Any, decay: Decay) -> Any:
    """b old + (1 - b) new."""
    return old * decay[0] + new * decay[1]


def blend(old: Any, new: Any, decay: Decay) -> Any:
    """old + (1 - b) (new - old)."""
    return old + (new - old) * decay[1]
