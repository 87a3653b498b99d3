"""Graphs of what blocks do together on a GPU: sorts, scatters, running reductions."""

from __future__ import annotations

from typing import Any

import numpy as np

from cellc_compiler.backends.cuda.kernels import sort
from cellc_compiler.driver import compile_program
from cellc_compiler.ir.text import parse_graph
from cellc_compiler.loops import order
from cellc_runtime.executable import Executable

from ..modes.law import bits
from .accesses import CheckedDevice
from .emulation import CPU, run_fresh

Array = np.ndarray[Any, Any]


def sorting(dtype: str, lines: int, n: int, descending: bool = False) -> str:
    """Lines sorted."""
    return (f"graph sort(%x: {dtype}[{lines},{n}] input) {{\n"
            f"  %0: {dtype}[{lines},{n}], %1: int32[{lines},{n}] = sort_lines(%x) "
            f"{{descending={descending}}}\n  return %0, %1\n}}")


def scatter(dtype: str, mode: str, count: int = 70, extent: int = 9, index: str = "int64") -> str:
    """Slices, with positions for each of two matrices."""
    return (f"graph scatter(%x: {dtype}[2,3,{extent},5] input, %i: {index}[2,{count}] input, "
            f"%u: {dtype}[2,3,{count},5] input) {{\n  %0: {dtype}[2,3,{extent},5] = "
            f'scatter(%x, %i, %u) {{axis=2, mode="{mode}", batch_dims=1}}\n  return %0\n}}')


def scatter_lines(dtype: str, mode: str, count: int = 70, extent: int = 9) -> str:
    """Elements of lines."""
    return (f"graph lines(%x: {dtype}[3,{extent},5] input, %i: int32[3,{count},5] input, "
            f"%u: {dtype}[3,{count},5] input) {{\n  %0: {dtype}[3,{extent},5] = "
            f'scatter_lines(%x, %i, %u) {{axis=1, mode="{mode}"}}\n  return %0\n}}')


def running(op: str, dtype: str, shape: tuple[int, int, int], attrs: str = "") -> str:
    """A running reduction along the middle."""
    ty = f"{dtype}[{','.join(map(str, shape))}]"
    place = ty.replace(dtype, "int32") if op in ("cummax", "cummin") else ""
    factors = f", %a: {ty} input" if op == "linear_recurrence" else ""
    return (f"graph run(%x: {ty} input{factors}) {{\n  %0: {ty}{place and f', %1: {place}'} = "
            f"{op}(%x{factors and ', %a'}) {{axis=1{attrs and f', {attrs}'}}}\n"
            f"  return %0{place and ', %1'}\n}}")


LONG = {
    "sort": sorting("float32", 1, 300_000), "sort down": sorting("float64", 3, 5000, True),
    "sort short": sorting("float16", 5000, 40),
    "cumsum": running("cumsum", "float32", (1, 70_000, 1), "exclusive=False, reverse=True"),
    "cummax": running("cummax", "float16", (3, 20_000, 2)),
    "cumprod": running("cumprod", "int32", (1, 5000, 7), "exclusive=True, reverse=False"),
    "logcumsumexp": running("logcumsumexp", "float32", (2, 500, 3)),
    **{f"scatter {mode} {dtype}": scatter(dtype, mode, 20_000, 3000)
       for mode in ("update", "add", "max") for dtype in ("float32", "bfloat16", "int64")},
    "scatter lines": scatter_lines("float32", "add", 5000, 700),
}
"""Graphs of lines as long as blocks are for, for a machine with a GPU."""


def arrays_of(text: str) -> list[Array]:
    """Arrays for a graph: ties, NaN and zeros of both signs; positions partly outside."""
    rng, found = np.random.default_rng(5), []
    for v in parse_graph(text).inputs:
        if v.name == "i":
            inside = found[0].shape[-2]
            given = rng.integers(-3, inside + 3, size=v.shape)
            found.append(given.astype(v.dtype.numpy))
            continue
        x = rng.integers(-20, 20, size=v.shape) / 4.0
        if v.dtype.is_float:
            x += rng.normal(size=v.shape) * (rng.random(v.shape) < 0.5)
            x[rng.random(v.shape) < 0.02] = -0.0
            x[rng.random(v.shape) < 0.005] = np.nan
        found.append((x > 0 if v.dtype.kind == "bool" else x).astype(v.dtype.numpy))
    return found


def faults_of(text: str, seed: int = 3) -> list[str]:
    """What tells of a fault: an error, an access, or other bits than the CPU's."""
    arrays = arrays_of(text)
    with np.errstate(all="ignore"):
        want = Executable(compile_program(parse_graph(text), CPU, use_cache=False)).call(arrays)
    device = CheckedDevice(seed=seed, capacity=1 << 22)
    try:
        got = run_fresh(device, text, arrays)
    except RuntimeError as error:
        return [str(error)]
    accesses = device.accesses()
    assert not accesses.lost
    told = accesses.faults()
    told += ["other bits" for a, b in zip(got, want, strict=True) if bits(a) != bits(b)]
    return told


def make_small(patch: Any) -> None:
    """Tiles and runs are short: what many elements do is seen with few."""
    patch.setattr(sort, "TILE", 64)
    patch.setattr(sort, "CHUNK", 32)
    patch.setattr(order, "_LONG_SCAN", 32)
    patch.setattr(order, "_SHORTEST_SCAN", 8)
