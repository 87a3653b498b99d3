"""Optimizers with groups of options that may be changed between steps, with PyTorch's parameters.

They work with the schedulers of `experimental.optim.lr_scheduler`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cellc_runtime.lazy import names_of, public_names

from .adam import Adam, AdamW, FusedAdamW
from .sgd import SGD

__all__ = ["SGD", "Adam", "AdamW", "FusedAdamW"]
__dir__ = public_names(__name__)
if not TYPE_CHECKING:
    __getattr__ = names_of(__name__, {})
