"""Products by small weights: near the dequantised product, the same bits on every target, with any
number of rows; and these comparisons find planted faults."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc.quantization.layers import SmallDense
from cellc.quantization.weights import SmallWeight, paired, panels, small_weight
from cellc_compiler.backends.cpu.kernels.gemm import small
from cellc_compiler.driver import compile_program
from cellc_compiler.ir.graph import Builder, Graph
from cellc_compiler.ir.types import TensorType
from cellc_runtime import artifact, dtypes
from cellc_runtime.executable import Executable
from cellc_runtime.target import AVX2, Target, host_targets

Array = np.ndarray[Any, Any]
KINDS = [("bfloat16", 0, True), ("float16", 0, True), ("int8", 0, True), ("int8", 64, True),
         ("int8", 128, False), ("int4", 32, True), ("int4", 64, False), ("int4", 0, True)]
kinds = pytest.mark.parametrize("kind, group, symmetric", KINDS)
ARM_CC, ARM_QEMU = shutil.which("aarch64-linux-gnu-gcc"), shutil.which("qemu-aarch64")


def matrix(n: int, k: int, kind: str, group: int, symmetric: bool) -> SmallWeight:
    rng = np.random.default_rng(n + k)
    array = rng.standard_normal((n, k)) * rng.uniform(0.01, 2, (n, 1)) + 0.3
    return small_weight(array.astype(np.float32), kind, group, symmetric)  # type: ignore[arg-type]


def product(x: Array, w: SmallWeight, target: Target) -> Array:
    """x @ w.T by a kernel of its own."""
    values = paired(w.values) if w.kind == "int4" else w.values
    arrays = [x, *(panels(a) for a in (values, w.scales, w.zeros) if a is not None)]
    graph = Graph("g")
    ins = [graph.add_input(TensorType(a.shape, dtypes.from_numpy(a.dtype)), f"x{i}")
           for i, a in enumerate(arrays)]
    graph.outputs = [Builder(graph).dequantized_matmul(
        *ins, columns=len(w.values), group=w.group)]
    program = compile_program(graph, target, use_cache=False)
    out: Array = Executable(program).call(arrays)[0]
    return out


def is_near(got: Array, x: Array, w: SmallWeight) -> bool:
    """Within what a chain of fused multiply-adds in float32 loses."""
    wide = w.widened().astype(np.float64)
    steps = x.shape[-1] + 4
    most = steps * 2.0**-24 * (np.abs(x.astype(np.float64)) @ np.abs(wide).T)
    return bool((np.abs(got - x @ wide.T) <= most).all())


@kinds
@pytest.mark.parametrize("n, k", [(64, 96), (130, 33), (7, 900), (200, 391)])
def test_bits_and_errors(n: int, k: int, kind: str, group: int, symmetric: bool) -> None:
    w = matrix(n, k, kind, group, symmetric)
    x = np.random.default_rng(1).standard_normal((137, k)).astype(np.float32)
    whole = product(x, w, host_targets()[-1])
    assert is_near(whole, x, w)
    for target in host_targets():
        for rows in (1, 2, 3, 4, 5, 137):  # (a row has its bits whatever is computed beside it)
            assert product(x[:rows], w, target).tobytes() == whole[:rows].tobytes(), (target, rows)


def test_rounding_to_few_bits() -> None:
    """No weight is further away than half a step; in ranges of one sign, one step."""
    array = np.random.default_rng(0).standard_normal((5, 100)).astype(np.float32)
    for kind, group, symmetric in KINDS[2:]:
        w = small_weight(array, kind, group, symmetric)  # type: ignore[arg-type]
        assert w.scales is not None
        step = np.repeat(w.scales.astype(np.float64), w.group or 100, 1)[:, :100]
        assert (np.abs(w.widened() - array) <= step * (0.51 if symmetric else 1.01)).all()
    exact = small_weight(np.zeros((2, 3), np.float32), "int4")
    assert not exact.widened().any()
    tiny = small_weight(array * 1e-7, "int8")  # scales that float16 would round badly
    assert tiny.scales is not None and tiny.scales.dtype == np.float32
    np.testing.assert_allclose(tiny.widened(), array * 1e-7, atol=2e-9 * 4)
    for kind, group, symmetric in KINDS[2:]:  # the largest numbers stay numbers
        large = array.copy()
        large[0, 0], large[1, 1] = np.finfo(np.float32).max, np.finfo(np.float32).min
        large[2, 2:4] = large[0, 0], large[1, 1]
        wide = small_weight(large, kind, group, symmetric).widened()  # type: ignore[arg-type]
        assert np.isfinite(wide).all()
        np.testing.assert_allclose(wide[:3].astype(np.float64), large[:3], atol=4.6e37)  # a step


def test_a_group_that_is_longer_than_a_row_is_the_row() -> None:
    array = np.random.default_rng(0).standard_normal((5, 40)).astype(np.float32)
    for group in (64, 2**50):
        w, whole = (small_weight(array, "int8", size, False) for size in (group, 0))
        assert w.group == 0 and w.scales is not None and w.scales.shape == (5, 1)
        np.testing.assert_array_equal(w.widened(), whole.widened())


FAULTS = {
    "the scale of another column": ("_number", lambda old: lambda self, f, ptr, dtype: old(
        self, f, f.gep(ptr, -dtype.itemsize) if dtype.is_float else ptr, dtype)),
    "a scale rounded to fewer bits": ("_number", lambda old: lambda self, f, ptr, dtype: f.cast(
        "fpext", f.cast("fptrunc", f.mul(old(self, f, ptr, dtype), f.const(
            f"<{self.lanes} x float>", 1.001)), "half"), "float")),
    "the weights of the step before": ("_raw", lambda old: lambda self, f, ptr: old(
        self, f, f.gep(ptr, self.p.pitch))),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("rows", [1, 20])
def test_planted_faults_are_found(
    fault: str, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    w = matrix(130, 200, "int4", 32, True)
    x = np.random.default_rng(1).standard_normal((rows, 200)).astype(np.float32)
    assert is_near(product(x, w, AVX2), x, w)
    name, change = FAULTS[fault]
    monkeypatch.setattr(small._Writer, name, change(getattr(small._Writer, name)))
    assert not is_near(product(x, w, AVX2), x, w)


@pytest.mark.skipif(ARM_CC is None or ARM_QEMU is None, reason="no compiler or emulator of aarch64")
@kinds
def test_bits_on_aarch64(
    tmp_path: Path, kind: str, group: int, symmetric: bool
) -> None:
    """A library for NEON, called by a program in C, gives the bits of this machine."""
    rows, n, k = 9, 70, 420
    net = SmallDense(matrix(n, k, kind, group, symmetric)).set_train(False)
    x = np.random.default_rng(2).standard_normal((rows, k)).astype(np.float32)
    ms.compile_artifact(tmp_path / "libsmall.so", {
        f"rows{m}": (net, f"float32[{m},{k}]") for m in (1, rows)}, targets="aarch64-neon")
    (tmp_path / "main.c").write_text(_PROGRAM)
    sizes = [f"-D{name}={v}" for name, v in (("ROWS", rows), ("N", n), ("K", k))]
    subprocess.run([str(ARM_CC), *sizes, f"-I{tmp_path}", tmp_path / "main.c",
                    tmp_path / "libsmall.so", f"-Wl,-rpath,{tmp_path}", "-o", tmp_path / "main"],
                   check=True)
    done = subprocess.run([str(ARM_QEMU), "-L", "/usr/aarch64-linux-gnu", tmp_path / "main"],
                          input=x.tobytes(), capture_output=True, check=True)
    want = net(ms.Tensor(x)).asnumpy()
    assert done.stdout == want[:1].tobytes() + want.tobytes()


_PROGRAM = """
#include <stdio.h>
#include "small.h"
static float x[ROWS * K], y[ROWS * N];
int main(void) {
    cellc_error error;
    cellc_session *session;
    const cellc_library *net = small_library(CELLC_ABI, &error);
    if (fread(x, sizeof x, 1, stdin) != 1 || net->create(net, NULL, &session, &error)) return 1;
    for (int entry = 0; entry < 2; entry++) {
        int rows = entry ? ROWS : 1;
        cellc_tensor in = {x, rows * K * 4, CELLC_FLOAT32, 2, {rows, K}};
        cellc_tensor out = {y, rows * N * 4, CELLC_FLOAT32, 0, {0}};
        if (net->run(session, entry, &in, 1, &out, 1, &error)) return 2;
        fwrite(y, 4, rows * N, stdout);
    }
    return 0;
}
"""


@kinds
def test_open_sizes(tmp_path: Path, kind: str, group: int, symmetric: bool) -> None:
    """One program for any number of rows gives the bits of each."""
    net = SmallDense(matrix(70, 420, kind, group, symmetric)).set_train(False)
    path = tmp_path / "small.cellc"
    ms.compile_artifact(path, (net, "float32[N,420]"))
    loaded = artifact.load(path, trust_native_code=True)
    x = np.random.default_rng(3).standard_normal((300, 420)).astype(np.float32)
    whole = net(ms.Tensor(x)).asnumpy()
    for rows in (1, 2, 4, 5, 130, 300):
        assert loaded(x[:rows]).tobytes() == whole[:rows].tobytes()
