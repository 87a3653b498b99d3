"""Cosine transforms of type 2, orthonormal, and their inverses.

Each is a Fourier transform of the same length with its elements in another order (Makhoul, 1980).

Source: `mindspore.scipy.fft`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from cellc_runtime.dtypes import (
    complex64,
    complex128,
    float16,
    float32,
    float64,
    int16,
    int32,
    int64,
)
from cellc_runtime.lazy import public_names

from .. import ops
from ..core.declared import misuse
from ..ops.arguments import axes_of, axis_of, integer, ints, tensor
from ..ops.functional import arith
from ..tensors.promotion import cast_to
from ..tensors.tensor import Tensor, tensor_of

_KINDS = {int16: float32, int32: float32, int64: float32, float16: float32, float32: float32,
          float64: float64, complex64: complex64, complex128: complex128}
_Transform = Callable[[Tensor], Tensor]


def _given(x: Any, type: Any, norm: Any, what: str) -> Tensor:
    """The input in the type of the result."""
    t = tensor(x, what, "x")
    if t.dtype not in _KINDS:
        raise misuse(what, f"'x' must be one of {', '.join(map(str, _KINDS))}", t.dtype, TypeError)
    if integer(type, what, "type") != 2:
        raise misuse(what, "only 'type' 2 is supported", type)
    if norm not in (None, "ortho"):
        raise misuse(what, "only 'norm' \"ortho\" is supported", repr(norm))
    return cast_to(t, _KINDS[t.dtype])


def _angles(n: int, kind: Any) -> tuple[Tensor, Tensor]:
    """Cosines and sines of k pi / 2 n, times the scale of an orthonormal transform."""
    angle = np.pi * np.arange(n) / (2 * n)
    scale = np.where(np.arange(n) == 0, np.sqrt(1 / n), np.sqrt(2 / n))
    return (tensor_of((np.cos(angle) * scale).astype(kind.numpy)),
            tensor_of((np.sin(angle) * scale).astype(kind.numpy)))


def _order(n: int) -> np.ndarray[Any, Any]:
    """Elements 0, 2, 4, .. and back ..., 5, 3, 1."""
    return np.concatenate([np.arange(0, n, 2), np.arange(1, n, 2)[::-1]])


def _cosine(x: Tensor) -> Tensor:
    """The transform along the last axis of real values."""
    n = x.shape[-1]
    spectrum = ops.fft(ops.gather(x, tensor_of(_order(n)), x.ndim - 1))
    cosine, sine = _angles(n, x.dtype)
    return ops.real(spectrum) * cosine + ops.imag(spectrum) * sine


def _inverse(y: Tensor) -> Tensor:
    """The inverse along the last axis of real values: the transposed transform."""
    n = y.shape[-1]
    cosine, sine = _angles(n, y.dtype)
    # The transposed Fourier transform of y (cos - i sin) is the transform itself; the real part.
    values = ops.real(ops.fft(arith.complex(y * cosine, -(y * sine))))
    back = np.argsort(_order(n))
    return ops.gather(values, tensor_of(back), y.ndim - 1)


def _of_parts(x: Tensor, transform: _Transform) -> Tensor:
    if not x.dtype.is_complex:
        return transform(x)
    return arith.complex(transform(ops.real(x)), transform(ops.imag(x)))


def _along(x: Tensor, axis: int, n: int, transform: _Transform) -> Tensor:
    """The transform along an axis, cut or filled with zeros to a length."""
    moved = ops.swapaxes(x, axis, -1)
    have = moved.shape[-1]
    if n < have:
        moved = ops.narrow(moved, moved.ndim - 1, 0, n)
    elif n > have:
        zeros = ops.zeros((*moved.shape[:-1], n - have), moved.dtype)
        moved = ops.concat((moved, zeros), moved.ndim - 1)
    return ops.swapaxes(_of_parts(moved, transform), axis, -1)


def _length(n: Any, otherwise: int, what: str, name: str) -> int:
    found = otherwise if n is None else integer(n, what, name)
    if found < 1:
        raise misuse(what, f"'{name}' must be at least 1", found)
    return found


def _one(
    what: str, transform: _Transform, x: Any, type: Any, n: Any, axis: Any, norm: Any
) -> Tensor:
    t = _given(x, type, norm, what)
    a = axis_of(axis, t.ndim, what)
    return _along(t, a, _length(n, t.shape[a], what, "n"), transform)


def _several(
    what: str, transform: _Transform, x: Any, type: Any, s: Any, axes: Any, norm: Any
) -> Tensor:
    t = _given(x, type, norm, what)
    lengths = None if s is None else ints(s, what, "s")
    if axes is None:
        count = t.ndim if lengths is None else len(lengths)
        axes = tuple(range(t.ndim - count, t.ndim)) if count <= t.ndim else tuple(range(count))
    chosen = axes_of(axes, t.ndim, what, "axes")
    if lengths is not None and len(lengths) != len(chosen):
        raise misuse(what, "'s' and 'axes' must be equally long", f"{s} and {axes}")
    for i, a in enumerate(chosen):
        n = _length(None if lengths is None else lengths[i], t.shape[a], what, "s")
        t = _along(t, a, n, transform)
    return t


def dct(
    x: Tensor, type: int = 2, n: int | None = None, axis: int = -1, norm: str | None = None
) -> Tensor:
    """The cosine transform along an axis.

    Args:
        x: int16, int32, int64 or float16, which give float32; float32, float64 or complex.
        type: 2.
        n: cut the axis to this length, or fill it with zeros.
        axis: along which.
        norm: "ortho", as None.
    """
    return _one("dct", _cosine, x, type, n, axis, norm)


def idct(
    x: Tensor, type: int = 2, n: int | None = None, axis: int = -1, norm: str | None = None
) -> Tensor:
    """The inverse cosine transform along an axis; arguments and errors as of `dct`."""
    return _one("idct", _inverse, x, type, n, axis, norm)


def dctn(
    x: Tensor, type: int = 2, s: Any = None, axes: Any = None, norm: str | None = None
) -> Tensor:
    """The cosine transform along several axes.

    Args:
        x: as of `dct`.
        type: 2.
        s: lengths to cut the axes to, or to fill them with zeros.
        axes: along which; by default the last ones, as many as `s` has, or all.
        norm: "ortho", as None.
    """
    return _several("dctn", _cosine, x, type, s, axes, norm)


def idctn(
    x: Tensor, type: int = 2, s: Any = None, axes: Any = None, norm: str | None = None
) -> Tensor:
    """The inverse cosine transform along several axes; arguments and errors as of `dctn`."""
    return _several("idctn", _inverse, x, type, s, axes, norm)


__all__ = ["dct", "dctn", "idct", "idctn"]
__dir__ = public_names(__name__)
