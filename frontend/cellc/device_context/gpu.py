"""The device GPU.

Source: `mindspore.device_context.gpu`, and its modules `op_precision` and `op_tuning`.
"""

from __future__ import annotations

from typing import Annotated

from cellc_runtime.lazy import lazy_names

from .. import devices
from ..core.declared import Flag, checks_arguments, one_of

__path__: list[str] = []  # MindSpore has a package here: `old_paths` finds what is below
_BELOW = "op_precision op_tuning"
__getattr__ = lazy_names(__name__, {".": _BELOW})
_Forward = Annotated[str, one_of(
    "normal", "performance", "implicit_gemm", "precomp_gemm", "gemm", "direct", "fft", "fft_tiling",
    "winograd", "winograd_nonfused", kind=str)]
_DataGradient = Annotated[str, one_of(
    "normal", "performance", "algo_0", "algo_1", "fft", "fft_tiling", "winograd",
    "winograd_nonfused", kind=str)]
_WeightGradient = Annotated[str, one_of(
    "normal", "performance", "algo_0", "algo_1", "fft", "algo_3", "fft_tiling",
    "winograd_nonfused", kind=str)]


def device_count() -> int:
    """How many there are."""
    return devices.device_count("GPU")


def is_available() -> bool:
    """Whether this installation runs on it."""
    return devices.is_available("GPU")


# --- TF32 in products: a permission that cellc takes under `numerics="fast"` only -----------------


@checks_arguments
def conv_allow_tf32(value: Flag) -> None:
    """Permit TF32 in convolutions; not used by strict numerics."""


@checks_arguments
def matmul_allow_tf32(value: Flag) -> None:
    """Permit TF32 in products of matrices; not used by strict numerics."""


# --- algorithms of cuDNN: checked; cellc has kernels of its own -----------------------------------


@checks_arguments
def conv_fprop_algo(mode: _Forward) -> None:
    """Of a convolution: nothing to choose here."""


@checks_arguments
def conv_dgrad_algo(mode: _DataGradient) -> None:
    """Of a convolution's gradient by its input: nothing to choose here."""


@checks_arguments
def conv_wgrad_algo(mode: _WeightGradient) -> None:
    """Of a convolution's gradient by its weight: nothing to choose here."""


__all__ = [
    "conv_allow_tf32", "conv_dgrad_algo", "conv_fprop_algo", "conv_wgrad_algo", "device_count",
    "is_available", "matmul_allow_tf32", *_BELOW.split(),
]
