"""Conversions between every pair of real dtypes, to the bit, for all lane counts and targets."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from cellc_compiler.backends.llvm.convert import (
    convert,
    load_as,
    memory_type,
    register_type,
    round_to,
    store_as,
)
from cellc_compiler.backends.llvm.text import Function, V, module
from cellc_compiler.build.abi import PLACEHOLDER
from cellc_runtime import dtypes
from cellc_runtime.dtypes import DType
from cellc_runtime.target import TARGETS, Target, host_target

from .jit import assembly, compile_text

Array = np.ndarray[Any, Any]
REAL = [d for d in dtypes.ALL if not d.is_complex]
COUNT = 1536


def cast_text(src: DType, dst: DType, lanes: int, target: Target) -> str:
    """A module whose tasks each convert `lanes` elements."""
    f = Function(PLACEHOLDER, [("ptr", "bufs"), ("i64", "lo"), ("i64", "hi")], target)
    a, b = (f.load("ptr", f.gep(f.arg("bufs"), 8 * i)) for i in range(2))

    def body(iv: V, _: list[V]) -> None:
        at = f.mul(iv, f.i64(lanes))
        v = load_as(f, src, f.gep(a, at, memory_type(src)), lanes)
        store_as(f, convert(f, v, src, dst), dst, f.gep(b, at, memory_type(dst)))

    f.loop(f.arg("lo"), f.arg("hi"), 1, [], body)
    f.ret_()
    return module([f])


def samples(d: DType) -> Array:
    """Values of all magnitudes, with extremes, ties and specials."""
    rng = np.random.default_rng(1)
    if d.kind == "bool":
        return rng.integers(0, 2, COUNT).astype(bool)
    if not d.is_float:
        info = np.iinfo(d.numpy)
        x = rng.integers(0, 2**64 - 1, COUNT, dtype=np.uint64, endpoint=True)
        x = (x >> rng.integers(0, 64, COUNT).astype(np.uint64)).astype(d.numpy)
        x[:4] = 0, 1, info.max, info.min
        return x
    wide = rng.standard_normal(COUNT) * 2.0 ** rng.integers(-30, 70, COUNT)
    wide[COUNT // 2:] = rng.standard_normal(COUNT // 2) * 200
    edges = [np.nan, np.inf, -np.inf, 0, -0.0, 2.0**31, -(2.0**31), 2.0**63, -(2.0**63), 2.0**64,
             -1, -1.5, 0.5, -0.5, 65504, 65519.999, 65520, 1 + 2.0**-11, 1 + 2.0**-11 + 2.0**-40,
             1 + 3 * 2.0**-11, 2.0**-25, 2.0**-25 + 2.0**-60, 2.0**-24, 3e38, 1e300, 1e-300,
             1 + 2.0**-8, 1 + 3 * 2.0**-8]
    wide[:len(edges)] = edges
    with np.errstate(over="ignore"):
        return wide.astype(d.numpy)


def float_to_integer(x: Array, dst: DType) -> Array:
    """The documented rule: truncation through int32 or int64, minimum where it does not fit."""
    def signed(v: Array, bits: int) -> Array:
        whole = np.trunc(v)
        fits = np.abs(whole) < 2.0 ** (bits - 1)
        return np.where(fits, np.where(fits, whole, 0).astype(np.int64), -(2 ** (bits - 1)))

    wide = x.astype(np.float64)
    if dst is dtypes.uint64:
        big = wide >= 2.0**63
        low = signed(np.where(big, wide - 2.0**63, wide), 64).astype(np.uint64)
        return low ^ np.where(big, np.uint64(2**63), np.uint64(0))
    bits = 32 if dst.itemsize < 4 or dst is dtypes.int32 else 64
    return signed(wide, bits).astype(dst.numpy)


def reference(x: Array, src: DType, dst: DType) -> Array:
    """The conversion in numpy."""
    with np.errstate(all="ignore"):
        if src.is_float and dst.is_integer:
            return float_to_integer(x, dst)
        return x.astype(dst.numpy)


def assert_same_bits(got: Array, want: Array) -> None:
    """Equal bits, any NaN equal to any NaN."""
    kind = f"u{got.itemsize}"
    with np.errstate(all="ignore"):
        nan = (got != got) & (want != want)
    np.testing.assert_array_equal(np.where(nan, 0, got.view(kind)),
                                  np.where(nan, 0, want.view(kind)))


@pytest.mark.parametrize("dst", REAL, ids=repr)
@pytest.mark.parametrize("src", REAL, ids=repr)
def test_every_pair(src: DType, dst: DType) -> None:
    x = samples(src)
    want = reference(x, src, dst)
    for lanes in (1, 3, 16, 64):
        got = np.zeros(COUNT, dst.numpy)
        compile_text(cast_text(src, dst, lanes, host_target()))([x, got], 0, COUNT // lanes)
        assert_same_bits(got, want)


@pytest.mark.parametrize("dtype", [dtypes.float16, dtypes.bfloat16], ids=repr)
def test_all_16_bit_floats_survive_a_round_trip(dtype: DType) -> None:
    x = np.arange(2**16, dtype=np.uint16).view(dtype.numpy)
    for via in (dtypes.float32, dtypes.float64):
        wide, back = np.zeros(2**16, via.numpy), np.zeros(2**16, dtype.numpy)
        compile_text(cast_text(dtype, via, 16, host_target()))([x, wide], 0, 2**12)
        compile_text(cast_text(via, dtype, 16, host_target()))([wide, back], 0, 2**12)
        assert_same_bits(back, x)


@pytest.mark.parametrize("target", list(TARGETS.values()), ids=lambda t: t.name)
def test_no_library_calls(target: Target) -> None:
    for src in REAL:
        for dst in REAL:
            text = assembly(cast_text(src, dst, target.lanes(4), target), target)
            assert not re.search(r"^\s+(call|bl|callq)\s", text, re.M), (src, dst)


@pytest.mark.parametrize(("target", "instruction"), [
    ("x86_64-avx512", r"vcvtps2ph.*%zmm"), ("x86_64-avx2", r"vcvtps2ph.*%ymm"),
    ("aarch64-neon", r"fcvtn\s+v\d+.4h")])
def test_float16_is_converted_by_vector_instructions(target: str, instruction: str) -> None:
    t = TARGETS[target]
    assert re.search(instruction, assembly(
        cast_text(dtypes.float32, dtypes.float16, t.lanes(4), t), t))


@pytest.mark.parametrize("dtype", REAL, ids=repr)
def test_masked_lanes_touch_no_memory(dtype: DType) -> None:
    f = Function(PLACEHOLDER, [("ptr", "bufs"), ("i64", "lo"), ("i64", "hi")], host_target())
    a, b = (f.load("ptr", f.gep(f.arg("bufs"), 8 * i)) for i in range(2))
    mask = f.tail_mask(f.i64(5), 8)
    store_as(f, load_as(f, dtype, a, 8, mask), dtype, b, mask)
    f.ret_()
    x, out = samples(dtype)[:8].copy(), np.ones(8, dtype.numpy)
    compile_text(module([f]))([x, out], 0, 1)
    assert_same_bits(out, np.concatenate([x[:5], np.ones(3, dtype.numpy)]))


def test_types_of_a_dtype() -> None:
    assert (memory_type(dtypes.bool_), register_type(dtypes.bool_)) == ("i8", "i1")
    assert (memory_type(dtypes.bfloat16), register_type(dtypes.bfloat16)) == ("i16", "float")
    assert (memory_type(dtypes.float16), register_type(dtypes.float16)) == ("half", "float")
    assert register_type(dtypes.uint8) == memory_type(dtypes.int8) == "i8"
    with pytest.raises(TypeError, match="no scalar memory type"):
        memory_type(dtypes.complex64)


@pytest.mark.parametrize("dtype", [dtypes.float16, dtypes.bfloat16], ids=repr)
def test_round_to_is_a_store_and_a_load(dtype: DType) -> None:
    f = Function(PLACEHOLDER, [("ptr", "bufs"), ("i64", "lo"), ("i64", "hi")], host_target())
    a, b = (f.load("ptr", f.gep(f.arg("bufs"), 8 * i)) for i in range(2))
    f.store(round_to(f, f.load("<16 x float>", a), dtype), b)
    f.ret_()
    x, out = samples(dtypes.float32)[8:24].copy(), np.zeros(16, np.float32)
    compile_text(module([f]))([x, out], 0, 1)
    with np.errstate(over="ignore"):
        assert_same_bits(out, x.astype(dtype.numpy).astype(np.float32))
