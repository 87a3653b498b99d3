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


def _check(mode: object, allowed: tuple[str, ...], name: str) -> None:
    """See that a mode is one of those that MindSpore knows."""
    checks.of_type(mode, (str,), "mode", name)
    if mode not in allowed:
        raise ValueError(f"For '{name}', 'mode' must be one of {allowed}, but got {mode!r}.")


def conv_fprop_algo(mode: str) -> None:
    """Of a convolution: nothing to choose here.

    Source: `mindspore.device_context.gpu.op_tuning.conv_fprop_algo`.
    """
    _check(mode, _FPROP, "conv_fprop_algo")


def conv_dgrad_algo(mode: str) -> None:
    """Of a convolution's gradient by its input: nothing to choose here.

    Source: `mindspore.device_context.gpu.op_tuning.conv_dgrad_algo`.
    """
    _check(mode, _DGRAD, "conv_dgrad_algo")


def conv_wgrad_algo(mode: str) -> None:
    """Of a convolution's gradient by its weight: nothing to choose here.

    Source: `mindspore.device_context.gpu.op_tuning.conv_wgrad_algo`.
    """
    _check(mode, _WGRAD, "conv_wgrad_algo")


__all__ = ["conv_dgrad_algo", "conv_fprop_algo", "conv_wgrad_algo"]
