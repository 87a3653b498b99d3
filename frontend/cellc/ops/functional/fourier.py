"""Discrete Fourier transforms: products with small matrices of roots of unity.

A transform of length p q is p transforms of length q between products with a p x p matrix and with
n roots (Cooley & Tukey, 1965), so it takes about n log n steps where n has small factors; a long
prime length goes through a convolution of a length that has (Bluestein, 1970). All of it is made
of other ops, which gives gradients and both modes.

Source: the same names in `mindspore.ops`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from cellc_runtime.dtypes import (
    DType,
    complex64,
    complex128,
    float16,
    float32,
    float64,
    int16,
    int32,
    int64,
)

from ...core.declared import misuse
from ...tensors.promotion import cast_to
from ...tensors.tensor import Tensor, tensor_of
from ..arguments import (
    axes_of,
    axis_of,
    choice,
    dtype_of,
    finite,
    ints,
    is_int,
    named,
    own_axis,
    size,
    tensor,
)
from . import arith, joining, linalg, shapes

Array = np.ndarray[Any, Any]
_REAL = (int16, int32, int64, float16, float32, float64)
_ALL = (*_REAL, complex64, complex128)
_NORMS = ("backward", "forward", "ortho")
_MATRIX = 32  # the longest transform that is one product, where a length has factors
_PRIME = 96  # the longest one of prime length


# --- one axis, without a scale --------------------------------------------------------------------


def _roots(powers: Array, n: int, dtype: DType) -> Tensor:
    """exp(-2 pi i k / n) of whole numbers k, rounded once; exact at quarters of the circle."""
    k = powers % n
    quarters = np.array([1, -1j, -1, 1j])[4 * k // n]
    values = np.where(4 * k % n == 0, quarters, np.exp(-2j * np.pi * k / n))
    return tensor_of(values.astype(dtype.numpy))


def _factor(n: int) -> int:
    """The largest divisor of n that one product serves; 1 if there is none."""
    return next((p for p in range(min(_MATRIX, n), 1, -1) if n % p == 0), 1)


def _forward(x: Tensor) -> Tensor:
    """The transform along the last axis of complex values."""
    n = x.shape[-1]
    if n == 1:
        return x
    p = _factor(n)
    if p == 1 and n > _PRIME:
        return _by_convolution(x)
    if p in (1, n):
        k = np.arange(n)
        return linalg.matmul(x, _roots(np.outer(k, k), n, x.dtype))
    q, lead = n // p, x.shape[:-1]
    k = np.arange(p)
    columns = shapes.reshape(x, (*lead, p, q))
    turned = linalg.matmul(_roots(np.outer(k, k), p, x.dtype), columns) * \
        _roots(np.outer(k, np.arange(q)), n, x.dtype)
    return shapes.reshape(shapes.swapaxes(_forward(turned), -1, -2), (*lead, n))


def _by_convolution(x: Tensor) -> Tensor:
    """A transform as a convolution with a chirp, of a length that is a power of two."""
    n = x.shape[-1]
    size = 1 << (2 * n - 2).bit_length()
    chirp = np.exp(-1j * np.pi * (np.arange(n) ** 2 % (2 * n)) / n)
    kernel = np.zeros(size, np.complex128)
    kernel[:n] = chirp.conj()
    kernel[size - n + 1:] = chirp.conj()[:0:-1]
    first, known = (tensor_of(v.astype(x.dtype.numpy)) for v in (chirp, np.fft.fft(kernel) / size))
    product = _forward(_resize(x * first, x.ndim - 1, size)) * known
    return joining.part(_backward(product), x.ndim - 1, 0, n) * first


def _backward(x: Tensor) -> Tensor:
    """The transform with conjugate roots."""
    return arith.conj(_forward(arith.conj(x)))


def _resize(x: Tensor, axis: int, n: int) -> Tensor:
    """An axis cut off or filled with zeros."""
    now = x.shape[axis]
    if n <= now:
        return x if n == now else joining.part(x, axis, 0, n)
    return shapes.pad(x, (0, 0) * (x.ndim - 1 - axis) + (0, n - now))


def _along(x: Tensor, axis: int, function: Callable[[Tensor], Tensor]) -> Tensor:
    """A function of the last axis, along another one."""
    if axis == x.ndim - 1:
        return function(x)
    return shapes.swapaxes(function(shapes.swapaxes(x, axis, -1)), axis, -1)


def _scale(x: Tensor, n: int, norm: str, inverse: bool) -> Tensor:
    if norm == "ortho":
        return x * (1.0 / math.sqrt(n))
    return x * (1.0 / n) if (norm == "backward") == inverse else x


def _once(x: Tensor, axis: int, n: int, norm: str, inverse: bool) -> Tensor:
    """A complex transform along an axis, resized first."""
    out = _along(_resize(x, axis, n), axis, _backward if inverse else _forward)
    return _scale(out, n, norm, inverse)


def _half(x: Tensor, axis: int, n: int, norm: str, inverse: bool) -> Tensor:
    """The first half of the transform of real values, whose other half is its conjugate."""
    return joining.part(_once(x, axis, n, norm, inverse), axis, 0, n // 2 + 1)


def _whole(x: Tensor, axis: int, n: int, norm: str, inverse: bool) -> Tensor:
    """The real values whose transform begins with x."""
    half = _resize(x, axis, n // 2 + 1)
    rest = shapes.flip(joining.part(half, axis, 1, (n + 1) // 2), (axis,))
    full = joining.concat((half, arith.conj(rest)), axis) if n > 2 else half
    return arith.real(_once(full, axis, n, norm, inverse))


# --- arguments ------------------------------------------------------------------------------------


def _check(input: Any, what: str, norm: Any, kinds: Sequence[DType] = _ALL) -> tuple[Tensor, str]:
    x = tensor(input, what)
    if x.dtype not in kinds:
        raise misuse(what, f"'input' must be one of {', '.join(map(str, kinds))}", x.dtype,
                     TypeError)
    x = cast_to(x, complex128 if x.dtype in (float64, complex128) else complex64)
    return x, choice("backward" if norm is None else norm, _NORMS, what, "norm")


def _length(n: Any, otherwise: int, what: str, name: str = "n") -> int:
    return size(otherwise if n is None else n, what, name, 1)


def _lengths(x: Tensor, s: Any, dim: Any, what: str, whole: bool = False) -> list[tuple[int, int]]:
    """Axes with the lengths of the result; `whole`: the last one is given by half of it."""
    sizes = None if s is None else ints(s, what, "s")
    if dim is None:
        axes = tuple(range(x.ndim))[0 if sizes is None else -len(sizes) or x.ndim:]
    else:
        axes = tuple(axis_of(d, x.ndim, what, "dim")
                     for d in ((dim,) if is_int(dim) else ints(dim, what, "dim")))
    if len(set(axes)) != len(axes) or (sizes is not None and len(sizes) != len(axes)):
        raise misuse(what, "'dim' must name different axes, one for each of 's'",
                     f"dim={dim} and s={s} for an input of shape {x.shape}")
    known = [x.shape[a] for a in axes]
    if whole and axes:
        known[-1] = 2 * (known[-1] - 1)
    found = known if sizes is None else sizes
    return [(a, _length(n, 0, what, "s")) for a, n in zip(axes, found, strict=True)]


# --- transforms of one axis -----------------------------------------------------------------------


_Step = Callable[[Tensor, int, int, str, bool], Tensor]


def _one(step: _Step, what: str, inverse: bool, input: Any, n: Any, dim: Any, norm: Any) -> Tensor:
    """`_once`, `_half` or `_whole` along an axis."""
    x, how = _check(input, what, norm, _REAL if step is _half else _ALL)
    axis = own_axis(dim, x.ndim, what, "dim")
    known = 2 * (x.shape[axis] - 1) if step is _whole else x.shape[axis]
    return step(x, axis, _length(n, known, what), how, inverse)


class _AlongOne(Protocol):
    def __call__(self, input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None
                 ) -> Tensor: ...


class _AlongSeveral(Protocol):
    def __call__(self, input: Tensor, s: Any = None, dim: Any = None, norm: str | None = None
                 ) -> Tensor: ...


def _along_one(name: str, step: _Step, inverse: bool, doc: str) -> _AlongOne:
    def function(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None
                 ) -> Tensor:
        return _one(step, name, inverse, input, n, dim, norm)

    return named(function, name, f"{doc}\n\n    Source: `mindspore.ops.{name}`.")


fft = _along_one("fft", _once, False,
    """The discrete Fourier transform along an axis: complex, of the input's shape.

    Args:
        input: integers, floats or complex numbers.
        n: cut the axis off, or fill it with zeros, to this length first.
        dim: the axis.
        norm: "backward" (also None): no scale here, 1 / n in the inverse; "forward": the other way
            round; "ortho": 1 / sqrt(n) in both.

    Raises:
        ValueError: `n` below 1; no such axis; another `norm`.""")
ifft = _along_one("ifft", _once, True, "The inverse of `fft`; arguments and errors are its own.")
rfft = _along_one("rfft", _half, False,
    """The first n // 2 + 1 values of the `fft` of real numbers (the others are their conjugates).

    Arguments and errors as for `fft`; complex inputs are a TypeError.""")
irfft = _along_one("irfft", _whole, True,
    """The inverse of `rfft`: n real values (2 * (length - 1) by default).

    Other arguments and errors as for `fft`.""")
hfft = _along_one("hfft", _whole, False,
    """The real `fft` of n values whose other half is the conjugate of what is given.

    n is 2 * (length - 1) by default; other arguments and errors as for `fft`.""")
ihfft = _along_one("ihfft", _half, True,
    """The inverse of `hfft`: n // 2 + 1 complex values of real ones.

    Arguments and errors as for `fft`; complex inputs are a TypeError.""")


# --- transforms of several axes -------------------------------------------------------------------

def _several(
    step: _Step, what: str, inverse: bool, input: Any, s: Any, dim: Any, norm: Any
) -> Tensor:
    """`_once` along axes; the last one to half of its transform at first, or from it at last."""
    x, how = _check(input, what, norm, _REAL if step is _half else _ALL)
    axes = _lengths(x, s, dim, what, step is _whole)
    steps: list[tuple[_Step, int, int]] = [(_once, *axis) for axis in axes]
    if step is not _once:
        if not axes:
            raise misuse(what, "at least one axis is needed",
                         f"dim={dim} for an input of shape {x.shape}")
        _, axis, n = steps.pop()
        steps.insert(0 if step is _half else len(steps), (step, axis, n))
    for along, axis, n in steps:
        x = along(x, axis, n, how, inverse)
    return x


def _along_several(
    name: str, step: _Step, inverse: bool, doc: str, axes: tuple[int, ...] | None = None
) -> _AlongSeveral:
    def function(input: Tensor, s: Any = None, dim: Any = axes, norm: str | None = None) -> Tensor:
        return _several(step, name, inverse, input, s, dim, norm)

    return named(function, name, f"{doc}\n\n    Source: `mindspore.ops.{name}`.")


fftn = _along_several("fftn", _once, False, """The discrete Fourier transform along several axes.

    Args:
        input: integers, floats or complex numbers.
        s: a length for each axis, which is cut off or filled with zeros first.
        dim: the axes; by default all of them, or the last `len(s)`.
        norm: as for `fft`, n the number of elements transformed.

    Raises:
        TypeError: no Tensor of those types; `s` or `dim` holds other things than ints.
        ValueError: a length below 1; no such axis, or one twice; lengths and axes do not fit;
            another `norm`.""")
ifftn = _along_several("ifftn", _once, True,
    """The inverse of `fftn`; arguments and errors are its own.""")
fft2 = _along_several("fft2", _once, False,
    """The discrete Fourier transform along two axes, the last ones by default: `fftn` with its
    arguments and errors.""", (-2, -1))
ifft2 = _along_several("ifft2", _once, True,
    """The inverse of `fft2`: complex values of the same shape, unless `s` has other lengths.
    Arguments and errors are those of `fftn`.""", (-2, -1))
rfftn = _along_several("rfftn", _half, False,
    """`rfft` along the last of several axes, `fft` along the others.

    Arguments and errors as for `fftn`; complex inputs are a TypeError.""")
rfft2 = _along_several("rfft2", _half, False,
    """`rfftn` along two axes, the last ones by default.""", (-2, -1))
irfftn = _along_several("irfftn", _whole, True,
    """The inverse of `rfftn`: real values; `s` holds their lengths. Errors as for `fftn`.""")
irfft2 = _along_several("irfft2", _whole, True,
    """The inverse of `rfft2`: real values; `s` holds their lengths. Arguments and errors are those
    of `fftn`.""", (-2, -1))
hfftn = _along_several("hfftn", _whole, False,
    """`hfft` along the last of several axes, `fft` along the others: real values.

    Arguments and errors as for `irfftn`.""")
hfft2 = _along_several("hfft2", _whole, False,
    """`hfftn` along two axes, the last ones by default.""", (-2, -1))
ihfftn = _along_several("ihfftn", _half, True,
    """The inverse of `hfftn`: complex values of real ones. Errors as for `rfftn`.""")
ihfft2 = _along_several("ihfft2", _half, True,
    """The inverse of `hfft2`: the complex half of a transform of real values. Arguments and errors
    are those of `rfftn`.""", (-2, -1))


# --- frequencies ----------------------------------------------------------------------------------


def _frequencies(numbers: Array, n: int, d: Any, dtype: Any, what: str) -> Tensor:
    kind = float32 if dtype is None else dtype_of(dtype, what)
    return tensor_of((numbers / (n * float(finite(d, what, "d")))).astype(kind.numpy))


def fftfreq(n: int, d: float = 1.0, dtype: DType | None = None) -> Tensor:
    """The frequencies of the values of an `fft` of length n: [0, 1, .., -2, -1] / (d n).

    Args:
        n: the length.
        d: the distance of two samples.
        dtype: element type; float32 if None.
    """
    count = _length(n, 0, "fftfreq")
    half = (count - 1) // 2 + 1
    numbers = np.concatenate([np.arange(half), np.arange(-(count // 2), 0)])
    return _frequencies(numbers, count, d, dtype, "fftfreq")


def rfftfreq(n: int, d: float = 1.0, dtype: DType | None = None) -> Tensor:
    """The frequencies of the values of an `rfft` of length n; arguments as for `fftfreq`."""
    count = _length(n, 0, "rfftfreq")
    return _frequencies(np.arange(count // 2 + 1), count, d, dtype, "rfftfreq")


def _shift(input: Any, dim: Any, what: str, back: bool) -> Tensor:
    x = tensor(input, what)
    axes = axes_of(dim, x.ndim, what, "dim")
    steps = [x.shape[a] // 2 for a in axes]
    return joining.roll(x, tuple(-n if back else n for n in steps), axes) if axes else x


def fftshift(input: Tensor, dim: Any = None) -> Tensor:
    """Frequency 0 in the middle: axes rolled by half their lengths.

    Args:
        dim: an axis, several, or None: all.
    """
    return _shift(input, dim, "fftshift", False)


def ifftshift(input: Tensor, dim: Any = None) -> Tensor:
    """The inverse of `fftshift`: the zero frequency moved from the middle of the axes `dim` (all if
    None) to their start."""
    return _shift(input, dim, "ifftshift", True)
