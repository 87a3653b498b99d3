"""Products on emulated GPUs, and what they must be."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from cellc_compiler.backends.cuda.rules.tensor_cores import product_of
from cellc_compiler.driver import compile_program
from cellc_compiler.ir.graph import Builder, Graph
from cellc_compiler.ir.types import TensorType
from cellc_runtime import dtypes as dt
from cellc_runtime.cuda.emulated import EmulatedDevice
from cellc_runtime.executable import Executable
from cellc_runtime.target import EMULATED, Target

from .emulation import using

Array = np.ndarray[Any, Any]
SM80, SM90 = EMULATED["emulated-sm_80"], EMULATED["emulated-sm_90a"]
BF16, F16 = np.dtype(ml_dtypes.bfloat16), np.dtype(np.float16)
F32 = np.dtype(np.float32)
_DTYPES = {BF16: dt.bfloat16, F16: dt.float16, F32: dt.float32}


def matmul_graph(x: tuple[int, ...], y: tuple[int, ...], trans_a: bool, trans_b: bool,
                 dtype: np.dtype[Any]) -> Graph:
    """A graph of one product."""
    graph = Graph("product")
    builder = Builder(graph)
    a, b = (graph.add_input(TensorType(s, _DTYPES[dtype]), n) for s, n in ((x, "a"), (y, "b")))
    graph.outputs = [builder.matmul(a, b, transpose_a=trans_a, transpose_b=trans_b)]
    return graph


def operands(x: tuple[int, ...], y: tuple[int, ...], dtype: np.dtype[Any]) -> list[Array]:
    """Normal numbers."""
    rng = np.random.default_rng(len(x) + sum(x) + 7 * sum(y))
    return [rng.normal(size=s).astype(dtype) for s in (x, y)]


def run(graph: Graph, arrays: list[Array], target: Target, seed: int = 0,
        device: EmulatedDevice | None = None) -> Array:
    """What a graph gives on an emulated GPU, compiled anew."""
    with using(device or EmulatedDevice(target, seed)):
        executable = Executable(compile_program(graph, target, use_cache=False))
        return np.asarray(executable.call(arrays)[0].numpy())


def chains(graph: Graph, arrays: list[Array], truncated: bool = False) -> Array:
    """What the emulator promises: a segment of k is a chain of fused multiply-adds in float32 over
    k ascending, segments are added in order, and the sum is rounded once.

    A product of 16-bit floats is a float32, and the sum of two of these, rounded to float64 first,
    is rounded to float32 as it would be at once.

    Args:
        truncated: whether float32 is cut to TF32, as `wgmma` does, not rounded.
    """
    p = product_of(graph.nodes[0], fast=True)
    assert p is not None
    x, y = oriented(graph, [
        a if a.dtype != F32 else cut(a) if truncated else tf32(a) for a in arrays])
    total: Array | None = None
    for start in range(0, p.k, p.segment):
        held = np.zeros(graph.nodes[0].result.shape, np.float32)
        for k in range(start, min(start + p.segment, p.k)):
            held = (x[..., :, k : k + 1] * y[..., k : k + 1, :] + held).astype(np.float32)
        total = held if total is None else total + held
    assert total is not None
    return total.astype(arrays[0].dtype)


def tf32(x: Array) -> Array:
    """Rounded to 10 bits of fraction, halves away from zero."""
    up: Array = ((x.view(np.int32) + np.int32(1 << 12)) & np.int32(-1 << 13)).view(np.float32)
    return np.where(np.isnan(x), x, up)


def cut(x: Array) -> Array:
    """Ten bits of fraction of float32, the others dropped."""
    kept: Array = (x.view(np.int32) & np.int32(-1 << 13)).view(np.float32)
    return kept


def oriented(graph: Graph, arrays: list[Array]) -> list[Array]:
    """Both operands in float64, as `(m, k)` and `(k, n)`."""
    turns = [graph.nodes[0].attrs[f"transpose_{name}"] for name in "ab"]
    return [np.swapaxes(a, -1, -2).astype(np.float64) if turn else a.astype(np.float64)
            for a, turn in zip(arrays, turns, strict=True)]


def differing(a: Array, b: Array) -> int:
    """Elements whose bits differ."""
    bits = np.uint32 if a.dtype == F32 else np.uint16
    return int((a.view(bits) != b.view(bits)).sum())
