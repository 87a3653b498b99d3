"""Which algorithms of cuDNN compute convolutions: checked; cellc has kernels of its own.

Source: `mindspore.device_context.gpu.op_tuning`.
"""

from typing import Annotated

from ...core.declared import checks_arguments, one_of

_Forward = Annotated[str, one_of(
    "normal", "performance", "implicit_gemm", "precomp_gemm", "gemm", "direct", "fft", "fft_tiling",
    "winograd", "winograd_nonfused", kind=str)]
_DataGradient = Annotated[str, one_of(
    "normal", "performance", "algo_0", "algo_1", "fft", "fft_tiling", "winograd",
    "winograd_nonfused", kind=str)]
_WeightGradient = Annotated[str, one_of(
    "normal", "performance", "algo_0", "algo_1", "fft", "algo_3", "fft_tiling",
    "winograd_nonfused", kind=str)]


@checks_arguments
def conv_fprop_algo(mode: _Forward) -> None:
    """Of a convolution: nothing to choose here."""


@checks_arguments
def conv_dgrad_algo(mode: _DataGradient) -> None:
    """Of a convolution's gradient by its input: nothing to choose here."""


@checks_arguments
def conv_wgrad_algo(mode: _WeightGradient) -> None:
    """Of a convolution's gradient by its weight: nothing to choose here."""


__all__ = ["conv_dgrad_algo", "conv_fprop_algo", "conv_wgrad_algo"]
