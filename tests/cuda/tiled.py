"""Graphs on the emulated GPU, and products cut as a test says."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from cellc_compiler.backends.cuda.kernels import plans
from cellc_compiler.backends.cuda.kernels.tiles import Choice
from cellc_compiler.build import ptxas
from cellc_compiler.driver import compile_graph, compile_program
from cellc_compiler.ir.graph import Graph
from cellc_runtime.cuda.emulated import EmulatedDevice
from cellc_runtime.dtypes import DType
from cellc_runtime.executable import Executable
from cellc_runtime.target import CUDA

from .emulation import CPU, using

Array = np.ndarray[Any, Any]

ARCHITECTURES = ["sm_80", "sm_90a", "sm_100a"]
needs_ptxas = pytest.mark.skipif(ptxas.find() is None, reason="such a machine has no ptxas")


def run_on(device: EmulatedDevice, graph: Graph, arrays: Sequence[Array],
           numerics: str = "strict") -> list[Array]:
    """What a graph gives on an emulated GPU; nothing of it is from a cache of programs."""
    (target,) = device.targets.values()
    with using(device):
        executable = Executable(compile_program(graph, target, use_cache=False, numerics=numerics))
        return [np.asarray(a.numpy()) for a in executable.call(list(arrays))]


def run_cpu(graph: Graph, arrays: Sequence[Array]) -> list[Array]:
    """What it gives on this machine."""
    return [np.asarray(a) for a in compile_graph(graph, CPU)(arrays)]


def drawn(shapes: Sequence[tuple[int, ...]], dtype: DType, seed: int = 0) -> list[Array]:
    """Random arrays."""
    rng = np.random.default_rng(seed)
    if dtype.is_integer:
        bounds = np.iinfo(dtype.numpy)
        return [rng.integers(bounds.min, bounds.max, s, dtype.numpy, endpoint=True) for s in shapes]
    if dtype.is_complex:
        return [(rng.standard_normal(s) + 1j * rng.standard_normal(s)).astype(dtype.numpy)
                for s in shapes]
    return [rng.standard_normal(s).astype(np.float32).astype(dtype.numpy) for s in shapes]


def same(found: Sequence[Array], want: Sequence[Array]) -> bool:
    """Whether all bits are equal; every NaN is alike."""
    def bits(a: Array) -> bytes:
        is_float = a.dtype.kind == "f" or a.dtype == ml_dtypes.bfloat16
        return np.where(np.isnan(a), np.asarray(np.nan, a.dtype), a).tobytes() \
            if is_float else a.tobytes()

    return [bits(np.ascontiguousarray(a)) for a in found] == [
        bits(np.ascontiguousarray(b)) for b in want]


@contextmanager
def cut(choice: Choice, vectors: bool = True) -> Iterator[None]:
    """Products are cut so.

    Args:
        vectors: whether pointers are multiples of 16.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plans, "choose", lambda *_: choice)
        if not vectors:
            patch.setattr(plans, "aligned", lambda _, plain: plain)
        yield


def assembled(graph: Graph, architecture: str, numerics: str = "strict") -> list[ptxas.Cubin]:
    """The kernels of a graph as they are built."""
    made: list[ptxas.Cubin] = []
    assemble = ptxas.assemble

    def noted(ptx: str, of: str) -> ptxas.Cubin:
        made.append(assemble(ptx, of))
        return made[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ptxas, "assemble", noted)
        program = compile_program(graph, CUDA[f"cuda-{architecture}"], use_cache=False,
                                  numerics=numerics)
    kept = {kernel.code for kernel in program.kernels}
    return [cubin for cubin in made if cubin.code in kept]
