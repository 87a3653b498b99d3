"""Fourier transforms with numpy's names of arguments, `cellc.numpy.fft`, over `cellc.ops`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from ..ops import functional_fourier as fo
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


fft, ifft, rfft = _along(fo.fft), _along(fo.ifft), _along(fo.rfft)
irfft, hfft, ihfft = _along(fo.irfft), _along(fo.hfft), _along(fo.ihfft)
fft2, ifft2, rfft2 = _over(fo.fft2, True), _over(fo.ifft2, True), _over(fo.rfft2, True)
irfft2, hfft2, ihfft2 = _over(fo.irfft2, True), _over(fo.hfft2, True), _over(fo.ihfft2, True)
fftn, ifftn, rfftn = _over(fo.fftn, False), _over(fo.ifftn, False), _over(fo.rfftn, False)
irfftn, hfftn, ihfftn = _over(fo.irfftn, False), _over(fo.hfftn, False), _over(fo.ihfftn, False)
fftshift, ifftshift = _shift(fo.fftshift), _shift(fo.ifftshift)
fftfreq, rfftfreq = fo.fftfreq, fo.rfftfreq

__all__ = [
    "fft", "fft2", "fftfreq", "fftn", "fftshift", "hfft", "hfft2", "hfftn", "ifft", "ifft2",
    "ifftn", "ifftshift", "ihfft", "ihfft2", "ihfftn", "irfft", "irfft2", "irfftn", "rfft",
    "rfft2", "rfftfreq", "rfftn",
]
