"""Mixed precision: `mindspore.amp`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cellc_runtime.lazy import names_of, public_names

from .loss_scale_manager import DynamicLossScaleManager, FixedLossScaleManager, LossScaleManager
from .loss_scaler import DynamicLossScaler, LossScaler, StaticLossScaler, all_finite
from .loss_scaler import _grad_scale_map as _grad_scale_map
from .loss_scaler import _grad_unscale_map as _grad_unscale_map
from .precision import auto_mixed_precision, custom_mixed_precision, get_black_list, get_white_list
from .train_network import build_train_network

__all__ = [
    "DynamicLossScaleManager", "DynamicLossScaler", "FixedLossScaleManager", "LossScaleManager",
    "LossScaler", "StaticLossScaler", "all_finite", "auto_mixed_precision", "build_train_network",
    "custom_mixed_precision", "get_black_list", "get_white_list",
]
__dir__ = public_names(__name__)
if not TYPE_CHECKING:
    __getattr__ = names_of(__name__, {})
