"""MindSpore's import path for mixed precision; its home is `cellc.amp`."""

from ..amp import (
    auto_mixed_precision,
    build_train_network,
    custom_mixed_precision,
    get_black_list,
    get_white_list,
)

__all__ = [
    "auto_mixed_precision", "build_train_network", "custom_mixed_precision", "get_black_list",
    "get_white_list",
]
