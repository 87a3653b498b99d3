"""Window functions of signal processing: Bartlett, Blackman, Hamming, Kaiser.

Source: the functions of the same names in `mindspore.ops`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cellc_runtime.dtypes import DType, float32

from ...core.declared import BOOL, misuse
from ...tensors.tensor import Tensor, tensor_of
from ..arguments import dtype_of, number, size


def _window(what: str, length: Any, periodic: Any, dtype: DType | None, shape: Any) -> Tensor:
    """The window of a numpy function of the length; a periodic one drops the last element."""
    n = size(length, what, "window_length")
    BOOL(periodic, what, "periodic")
    to = float32 if dtype is None else dtype_of(dtype, what)
    if not to.is_float:
        raise misuse(what, "'dtype' must be a float type", to, TypeError)
    values = shape(n + 1)[:-1] if periodic and n > 1 else shape(n)
    return tensor_of(np.ascontiguousarray(np.asarray(values).astype(to.numpy)))


def bartlett_window(window_length: Any, periodic: bool = True, *, dtype: DType | None = None
                    ) -> Tensor:
    """The Bartlett window of `window_length` numbers: a triangle, 1 - |2 n / (N - 1) - 1|, with N +
    1 for N if `periodic`."""
    return _window("bartlett_window", window_length, periodic, dtype, np.bartlett)


def blackman_window(window_length: Any, periodic: bool = True, *, dtype: DType | None = None
                    ) -> Tensor:
    """The Blackman window 0.42 - 0.5 cos(2 pi n / (N - 1)) + 0.08 cos(4 pi n / (N - 1)), with N + 1
    for N if `periodic`."""
    return _window("blackman_window", window_length, periodic, dtype, np.blackman)


def hamming_window(
    window_length: Any, periodic: bool = True, alpha: float = 0.54, beta: float = 0.46, *,
    dtype: DType | None = None,
) -> Tensor:
    """The Hamming window alpha - beta * cos(2 pi n / (N - 1)) of `window_length` numbers, with N +
    1 for N if `periodic`."""
    first, second = (number(v, "hamming_window", name)
                     for v, name in ((alpha, "alpha"), (beta, "beta")))

    def shape(n: int) -> Any:
        return np.ones(n) if n < 2 else first - second * np.cos(2 * np.pi * np.arange(n) / (n - 1))

    return _window("hamming_window", window_length, periodic, dtype, shape)


def kaiser_window(window_length: Any, periodic: bool = True, beta: float = 12.0, *,
                  dtype: DType | None = None) -> Tensor:
    """The Kaiser window i0(beta sqrt(1 - (2 n / (N - 1) - 1)**2)) / i0(beta), with N + 1 for N if
    `periodic`."""
    steepness = number(beta, "kaiser_window", "beta")
    return _window("kaiser_window", window_length, periodic, dtype,
                   lambda n: np.kaiser(n, steepness))
