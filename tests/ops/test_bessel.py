"""Bessel functions against integrals: float64 to a few units in the last place, float32 rounded."""

from __future__ import annotations

import numpy as np
import pytest

import cellc as ms
from cellc import Tensor, ops
from cellc_compiler.ops import _bessel as reference

NAMES = ("i0", "i0e", "i1", "i1e", "j0", "j1", "k0", "k0e", "k1", "k1e", "y0", "y1")
ULPS = 24
"""Of the envelope, times 1 + x: sums of cosines of x sin(t) are no more exact."""


def places(name: str) -> np.ndarray:
    """Points on both sides of where polynomials meet, and down to small ones."""
    x = np.concatenate([np.linspace(0.01, 30, 1500), 10.0 ** np.arange(-6, -1), [2, 8],
                        np.nextafter([2, 8], 9)])
    return np.concatenate([x, -x]) if name[0] in "ij" else x


@pytest.mark.parametrize("name", NAMES)
def test_against_integrals(name: str) -> None:
    x = places(name)
    want = getattr(reference, name)(x)
    got = getattr(ops, f"bessel_{name}")(Tensor(x)).asnumpy()
    size = np.abs(want)
    envelope = np.maximum(size, np.sqrt(2 / np.pi / np.maximum(np.abs(x), 1))) \
        if name[0] in "jy" else np.maximum(size, np.minimum(size.max(), 0.1))
    assert (np.abs(got - want) / (envelope * (1 + np.abs(x)) * 2.0**-52)).max() < ULPS


@pytest.mark.parametrize("name", NAMES)
def test_float32_is_rounded(name: str) -> None:
    x = places(name).astype(np.float32)
    wide = getattr(ops, f"bessel_{name}")(Tensor(x.astype(np.float64))).asnumpy()
    got = getattr(ops, f"bessel_{name}")(Tensor(x))
    np.testing.assert_array_equal(got.asnumpy(), wide.astype(np.float32))
    graph = ms.jit(getattr(ops, f"bessel_{name}"))(Tensor(x))
    np.testing.assert_array_equal(got.asnumpy(), graph.asnumpy())


def test_ends() -> None:
    x = Tensor([0.0, np.inf, -1.0, np.nan])
    for name, want in {"k0": [np.inf, 0, np.nan, np.nan], "y1": [-np.inf, 0, np.nan, np.nan],
                       "i1e": [0, 0, -0.20791042, np.nan], "j0": [1, 0, 0.7651977, np.nan]}.items():
        np.testing.assert_allclose(getattr(ops, f"bessel_{name}")(x).asnumpy(), want, rtol=1e-6)
