"""Which algorithms of cuDNN compute convolutions: checked; cellc has kernels of its own.

Source: `mindspore.device_context.gpu.op_tuning`.
"""

from ...core import checks

_FPROP = ("normal", "performance", "implicit_gemm", "precomp_gemm", "gemm", "direct", "fft",
                   "fft_tiling", "winograd", "winograd_nonfused")
_DGRAD = ("normal", "performance", "algo_0", "algo_1", "fft", "fft_tiling", "winograd",
                   "winograd_nonfused")
_WGRAD = ("normal", "performance", "algo_0", "algo_1", "fft", "algo_3", "fft_tiling",
                   "winograd_nonfused")


def conv_fprop_algo(mode: str) -> None:
    """Of a convolution: nothing to choose here.

    Raises:
        TypeError: another type.
        ValueError: another value.

    Source: `mindspore.device_context.gpu.op_tuning.conv_fprop_algo`.
    """
    checks.of_type(mode, (str,), "mode", "conv_fprop_algo")
    if mode not in _FPROP:
        raise ValueError(f"For 'conv_fprop_algo', 'mode' must be one of {_FPROP}, "
                         f"but got {mode!r}.")


def conv_dgrad_algo(mode: str) -> None:
    """Of a convolution's gradient by its input: nothing to choose here.

    Raises:
        TypeError: another type.
        ValueError: another value.

    Source: `mindspore.device_context.gpu.op_tuning.conv_dgrad_algo`.
    """
    checks.of_type(mode, (str,), "mode", "conv_dgrad_algo")
    if mode not in _DGRAD:
        raise ValueError(f"For 'conv_dgrad_algo', 'mode' must be one of {_DGRAD}, "
                         f"but got {mode!r}.")


def conv_wgrad_algo(mode: str) -> None:
    """Of a convolution's gradient by its weight: nothing to choose here.

    Raises:
        TypeError: another type.
        ValueError: another value.

    Source: `mindspore.device_context.gpu.op_tuning.conv_wgrad_algo`.
    """
    checks.of_type(mode, (str,), "mode", "conv_wgrad_algo")
    if mode not in _WGRAD:
        raise ValueError(f"For 'conv_wgrad_algo', 'mode' must be one of {_WGRAD}, "
                         f"but got {mode!r}.")


__all__ = ["conv_dgrad_algo", "conv_fprop_algo", "conv_wgrad_algo"]
