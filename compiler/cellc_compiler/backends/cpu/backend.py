"""The CPU back end as the driver sees it. Compiler modules load with the first compilation."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import TYPE_CHECKING

from cellc_runtime import dtypes
from cellc_runtime.lazy import lazy_imports
from cellc_runtime.platform import release_code, trim_memory
from cellc_runtime.target import AMX, AVX512, TARGETS, Target, host_target, tiles_usable

from ...ir.graph import Graph
from ..base import Backend, ShapePolymorphic

if TYPE_CHECKING:
    from ...passes.base import Pass
with lazy_imports(__name__):  # a program found in the cache needs none of these
    from ...build import llvm_version, workers
    from . import image, machine
    from .host import shape_polymorphic
    from .passes import inplace_concat, layout, open_padding, prefixes, small_kernels, winograd

_MANY = 24
"""Nodes of a graph that will have kernels enough for more than one process that compiles them."""


class CpuBackend(Backend):
    """x86-64 and aarch64 through LLVM text, on a pool of threads."""

    name = "cpu"
    targets = TARGETS

    def default_target(self) -> Target:
        return host_target()

    def target_of(self, graph: Graph, numerics: str) -> Target:
        """Tile registers only where `numerics` leaves the order of sums open and something is
        bfloat16."""
        target = host_target()
        if numerics == "fast" and target is AVX512 and tiles_usable() and any(
                v.dtype is dtypes.bfloat16 for n in graph.walk() for v in n.operands):
            return AMX
        return target

    def version(self) -> str:
        """LLVM's, and numba's for users' own kernels."""
        return f"{llvm_version.llvm_version()} {llvm_version.package_version('numba')}"

    def first_passes(self) -> tuple[Pass, ...]:
        return (small_kernels.SmallKernels(),)

    def passes(self, target: Target) -> tuple[Pass, ...]:
        return (layout.Layout(target), small_kernels.WidenKernels(), open_padding.OpenPadding(),
                inplace_concat.InPlaceConcat(), prefixes.Prefixes())

    def fast_passes(self) -> tuple[Pass, ...]:
        return (winograd.Winograd(),)

    def machine(self, target: Target) -> machine.CpuMachine:
        return _machine(target)

    def prepare(self, nodes: int) -> None:
        workers.prepare(1 if nodes < _MANY else 2)

    def ahead(self) -> AbstractContextManager[object]:
        if workers.compile_jobs() == 1:
            return nullcontext()
        workers.start(2)  # (before `image` loads, which takes as long as they take to start)
        return image.ahead(host_target())

    def build(self, target: Target) -> image.CpuBuild:
        return image.begun(target) or image.CpuBuild(target)

    def shape_polymorphic(self, graph: Graph, target: Target) -> ShapePolymorphic | None:
        return shape_polymorphic.emit(graph, target)

    def release(self) -> None:
        """LLVM's memory would add to the peak of the calls."""
        release_code("llvmlite")
        trim_memory()


@cache
def _machine(target: Target) -> machine.CpuMachine:
    return machine.CpuMachine(target)
