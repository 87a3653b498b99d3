"""Products of ints are exact for every weight: in floats where the sums fit, else in ints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")
from .test_models import N, loaded, model, outputs_of, value

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(11)


def ints(dtype: type, *shape: int, least: int | None = None, most: int | None = None) -> Array:
    info = np.iinfo(dtype)
    low, high = info.min if least is None else least, info.max if most is None else most
    return RNG.integers(low, high + 1, shape).astype(dtype)


def extreme(dtype: type, *shape: int) -> Array:
    """All the largest number, with one other."""
    w = np.full(shape, np.iinfo(dtype).max, dtype)
    w[(0,) * len(shape)] = np.iinfo(dtype).min
    return w


ZEROS = np.array([0, 255, 128, 7, 250], np.uint8)
MATRICES: dict[str, tuple[Array, Array | None]] = {
    "few steps": (ints(np.uint8, 6, 5), np.array(130, np.uint8)),
    "small ints": (ints(np.uint8, 700, 5, least=100, most=150), np.array(125, np.uint8)),
    "columns with zeros of their own": (ints(np.uint8, 200, 5), ZEROS),
    "without zeros": (ints(np.uint8, 300, 5, most=200), None),
    "signed": (ints(np.int8, 300, 70), np.array(-3, np.int8)),
    "sums that floats do not hold": (extreme(np.uint8, 3000, 5), np.array(0, np.uint8)),
    "the largest that they hold": (extreme(np.uint8, 258, 5), np.array(0, np.uint8)),
    "no columns": (ints(np.int8, 4, 0), None),
}


@pytest.mark.parametrize("is_stored", [True, False], ids=["stored", "given"])
@pytest.mark.parametrize("name", MATRICES)
def test_a_matrix_product(name: str, is_stored: bool, tmp_path: Path) -> None:
    w, zero = MATRICES[name]
    a, a_zero = extreme(np.uint8, 3, w.shape[0]), np.array(1, np.uint8)
    a[1:] = ints(np.uint8, 2, w.shape[0])
    fixed: dict[str, Array] = {"az": a_zero}
    if zero is not None:
        fixed["wz"] = zero
    calls = {"a": a} if is_stored else {"a": a, "w": w}
    if is_stored:
        fixed["w"] = w
    codes = {np.dtype(np.uint8): 2, np.dtype(np.int8): 3}
    proto = model([N("MatMulInteger", ["a", "w", "az", *(["wz"] if zero is not None else [])],
                     ["y"])],
                  [value(n, v.shape, codes[v.dtype]) for n, v in calls.items()], ["y"], fixed)
    wide = w.astype(np.int64) - (0 if zero is None else zero.astype(np.int64))
    (found,) = outputs_of(loaded(proto, tmp_path), *calls.values())
    assert found.dtype == np.int32
    np.testing.assert_array_equal(found, (a.astype(np.int64) - 1) @ wide)


IMAGES: dict[str, tuple[Array, Array | None]] = {
    "small ints": (ints(np.uint8, 4, 40, 3, 3, least=110, most=140), np.array(127, np.uint8)),
    "channels with zeros of their own": (ints(np.uint8, 5, 3, 3, 3), ZEROS),
    "differences of 9 bits": (ints(np.uint8, 4, 8, 3, 3), np.array(0, np.uint8)),
    "signed": (ints(np.int8, 4, 40, 3, 3), None),
    "sums that floats do not hold": (extreme(np.uint8, 2, 300, 3, 3), np.array(0, np.uint8)),
}


@pytest.mark.parametrize("name", IMAGES)
def test_a_convolution(name: str, tmp_path: Path) -> None:
    w, zero = IMAGES[name]
    x = ints(np.uint8, 1, w.shape[1], 4, 5)
    x[0, :, 1, 1] = 255
    fixed = {"w": w, "xz": np.array(2, np.uint8)} | ({} if zero is None else {"wz": zero})
    proto = model([N("ConvInteger", ["x", "w", "xz", *(["wz"] if zero is not None else [])],
                     ["y"])], [value("x", x.shape, 2)], ["y"], fixed)
    wide = w.astype(np.int64) - (
        0 if zero is None else zero.astype(np.int64).reshape(-1, *(1, 1, 1)[:3 * zero.ndim]))
    parts = np.lib.stride_tricks.sliding_window_view(x.astype(np.int64) - 2, (3, 3), (2, 3))
    (found,) = outputs_of(loaded(proto, tmp_path), x)
    np.testing.assert_array_equal(found, np.einsum("nchwij,ocij->nohw", parts, wide))
