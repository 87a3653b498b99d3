"""Fourier transforms with numpy's names of arguments, `cellc.numpy.fft`, over `cellc.ops`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from ..ops.functional import fourier
from ..tensors.tensor import Tensor
from ._tensors import as_tensor


class Along(Protocol):
    """A transform along one axis."""

    def __call__(
        self, a: Any, n: int | None = None, axis: int = -1, norm: str | None = None
    ) -> Tensor: ...


class Over(Protocol):
    """A transform over several axes."""

    def __call__(
        self, a: Any, s: Any = None, axes: Any = None, norm: str | None = None
    ) -> Tensor: ...


class Shift(Protocol):
    """An exchange of halves."""

    def __call__(self, x: Any, axes: Any = None) -> Tensor: ...


def _named(function: Any, source: Callable[..., Any]) -> Any:
    name = source.__name__
    function.__name__ = function.__qualname__ = name
    function.__doc__ = (f"`ops.{name}` of a tensor, list or number, over the axes that numpy's "
                        f"arguments name. Source: `mindspore.numpy.fft.{name}`.")
    return function


def _along(source: Callable[..., Tensor]) -> Along:
    def transform(
        a: Any, n: int | None = None, axis: int = -1, norm: str | None = None
    ) -> Tensor:
        return source(as_tensor(a, source.__name__, "a"), n, axis, norm)

    named: Along = _named(transform, source)
    return named


def _over(source: Callable[..., Tensor], last: bool) -> Over:
    def transform(
        a: Any, s: Any = None, axes: Any = (-2, -1) if last else None, norm: str | None = None
    ) -> Tensor:
        return source(as_tensor(a, source.__name__, "a"), s, axes, norm)

    named: Over = _named(transform, source)
    return named


def _shift(source: Callable[..., Tensor]) -> Shift:
    def exchange(x: Any, axes: Any = None) -> Tensor:
        return source(as_tensor(x, source.__name__, "x"), axes)

    named: Shift = _named(exchange, source)
    return named


fft, ifft, rfft = _along(fourier.fft), _along(fourier.ifft), _along(fourier.rfft)
irfft, hfft, ihfft = _along(fourier.irfft), _along(fourier.hfft), _along(fourier.ihfft)
fft2, ifft2, rfft2 = _over(fourier.fft2, True), _over(fourier.ifft2, True), _over(
    fourier.rfft2, True)
irfft2, hfft2, ihfft2 = _over(fourier.irfft2, True), _over(fourier.hfft2, True), _over(
    fourier.ihfft2, True)
fftn, ifftn, rfftn = _over(fourier.fftn, False), _over(fourier.ifftn, False), _over(
    fourier.rfftn, False)
irfftn, hfftn, ihfftn = _over(fourier.irfftn, False), _over(fourier.hfftn, False), _over(
    fourier.ihfftn, False)
fftshift, ifftshift = _shift(fourier.fftshift), _shift(fourier.ifftshift)
fftfreq, rfftfreq = fourier.fftfreq, fourier.rfftfreq

__all__ = [
    "fft", "fft2", "fftfreq", "fftn", "fftshift", "hfft", "hfft2", "hfftn", "ifft", "ifft2",
    "ifftn", "ifftshift", "ihfft", "ihfft2", "ihfftn", "irfft", "irfft2", "irfftn", "rfft",
    "rfft2", "rfftfreq", "rfftn",
]
