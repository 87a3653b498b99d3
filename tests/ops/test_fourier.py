"""Discrete Fourier transforms against numpy, in both modes, with gradients and odd input."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import Tensor, ops

RNG = np.random.default_rng(0)
REAL = RNG.standard_normal((3, 6, 10)).astype(np.float32)
AXIS = {"dim": "axis", "n": "n", "norm": "norm"}
AXES = {"dim": "axes", "s": "s", "norm": "norm"}


def close(found: Tensor, wanted: np.ndarray[Any, Any]) -> None:
    got = found.asnumpy()
    assert got.shape == wanted.shape
    assert (got.dtype.kind == "c") == (wanted.dtype.kind == "c")
    np.testing.assert_allclose(got, wanted, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("n", [1, 5, 40, 101])  # direct, by factors, by a convolution
def test_lengths(n: int) -> None:
    x = RNG.standard_normal((2, n)) + 1j * RNG.standard_normal((2, n))
    close(ops.fft(Tensor(x)), np.fft.fft(x))
    close(ops.ifft(ops.fft(Tensor(x.astype(np.complex64)))), x.astype(np.complex64))


@pytest.mark.parametrize(("name", "options"), [
    ("fft", {"n": 4, "dim": 1, "norm": "forward"}), ("ifft", {"n": 12, "norm": "ortho"}),
    ("rfft", {"dim": 0, "norm": "ortho"}), ("irfft", {"n": 9}), ("irfft", {"dim": 1}),
    ("hfft", {"norm": "forward"}), ("ihfft", {"n": 7, "dim": 1}),
])
def test_one_axis(name: str, options: dict[str, Any]) -> None:
    wanted = getattr(np.fft, name)(REAL, **{AXIS[k]: v for k, v in options.items()})
    close(getattr(ops, name)(Tensor(REAL), **options), wanted)


@pytest.mark.parametrize(("name", "options"), [
    ("fft2", {}), ("ifft2", {"s": (4, 4), "dim": (0, 2)}), ("fftn", {"s": (4, 5), "dim": (1, 2)}),
    ("ifftn", {"norm": "ortho"}), ("rfft2", {"dim": (0, 1)}), ("irfft2", {"s": (4, 7)}),
    ("rfftn", {}), ("irfftn", {"dim": (0, 2)}),
])
def test_several_axes(name: str, options: dict[str, Any]) -> None:
    wanted = getattr(np.fft, name)(REAL, **{AXES[k]: v for k, v in options.items()})
    close(getattr(ops, name)(Tensor(REAL), **options), wanted)


def test_hermitian_transforms_of_two_axes_undo_one_another() -> None:
    there = ops.ihfft2(Tensor(REAL))
    assert there.shape == (3, 6, 6)
    close(ops.hfft2(there), REAL)
    close(ops.hfftn(ops.ihfftn(Tensor(REAL)), REAL.shape), REAL)


def test_types_of_results() -> None:
    for given, result in ((ms.int32, ms.complex64), (ms.float16, ms.complex64),
                          (ms.float64, ms.complex128)):
        assert ops.fft(Tensor([1, 2, 3], given)).dtype is result
    assert ops.irfft(Tensor([1, 2, 3], ms.float64)).dtype is ms.float64


def test_frequencies() -> None:
    assert ops.fftfreq(5).asnumpy().tolist() == np.fft.fftfreq(5).astype(np.float32).tolist()
    close(ops.fftfreq(4, 0.5, ms.float64), np.fft.fftfreq(4, 0.5))
    close(ops.rfftfreq(6, 2.0), np.fft.rfftfreq(6, 2.0))
    x = np.arange(15).reshape(3, 5)
    assert (ops.fftshift(Tensor(x)).asnumpy() == np.fft.fftshift(x)).all()
    assert (ops.fftshift(Tensor(x), 1).asnumpy() == np.fft.fftshift(x, 1)).all()
    assert (ops.ifftshift(Tensor(x), (0, 1)).asnumpy() == np.fft.ifftshift(x)).all()


def power(x: Tensor) -> Tensor:
    half = ops.rfft(x, 12)
    return ops.sum(ops.square(ops.real(half)) + ops.square(ops.imag(half)))


def test_modes_agree_and_gradients_are_right() -> None:
    x = Tensor(REAL[0, 0])
    eager, graph = ms.value_and_grad(power)(x), ms.jit(ms.value_and_grad(power))(x)
    assert [t.asnumpy().tobytes() for t in eager] == [t.asnumpy().tobytes() for t in graph]
    step, slope = 1e-3, eager[1].asnumpy()
    for i in range(10):
        moved = REAL[0, 0].astype(np.float64)
        moved[i] += step
        there = (abs(np.fft.rfft(moved, 12)) ** 2).sum()
        moved[i] -= 2 * step
        back = (abs(np.fft.rfft(moved, 12)) ** 2).sum()
        assert slope[i] == pytest.approx((there - back) / (2 * step), rel=1e-3, abs=1e-3)


@pytest.mark.parametrize(("kind", "call", "text"), [
    (TypeError, lambda: ops.fft([1, 2]), "For 'fft', 'input' must be a Tensor, but got list"),
    (TypeError, lambda: ops.fft(Tensor([True])),
     "'input' must be one of Int16, Int32, Int64, Float16, Float32, Float64, Complex64"),
    (TypeError, lambda: ops.rfft(Tensor([1j])),
     "'input' must be one of Int16, Int32, Int64, Float16, Float32, Float64, but got Complex128"),
    (TypeError, lambda: ops.fft(Tensor([1.0]), 1.5), "'n' must be an int, but got float"),
    (ValueError, lambda: ops.fft(Tensor([1.0]), 0), "For 'fft', 'n' must be 1 or more, but got 0"),
    (ValueError, lambda: ops.irfft(Tensor([1.0])), "For 'irfft', 'n' must be 1 or more, but got 0"),
    (ValueError, lambda: ops.fft(Tensor([1.0]), dim=1), "'dim' must be in [-1, 1), but got 1"),
    (ValueError, lambda: ops.fft(Tensor([1.0]), norm="none"),
     "For 'fft', the 'norm' must be one of ['backward', 'forward', 'ortho'], but got 'none'"),
    (ValueError, lambda: ops.fft2(Tensor(REAL), dim=(1, 1)),
     "'dim' must name different axes, one for each of 's', but got dim=(1, 1) and s=None for an"),
    (ValueError, lambda: ops.fftn(Tensor(REAL), (2, 2), (0,)),
     "'dim' must name different axes, one for each of 's', but got dim=(0,) and s=(2, 2) for an"),
    (ValueError, lambda: ops.rfftn(Tensor(1.0)),
     "For 'rfftn', at least one axis is needed, but got dim=None for an input of shape ()"),
    (ValueError, lambda: ops.fftfreq(0), "For 'fftfreq', 'n' must be 1 or more, but got 0"),
])
def test_bad_arguments(kind: type[Exception], text: str, call: Any) -> None:
    with pytest.raises(kind, match=re.escape(text)):
        call()
