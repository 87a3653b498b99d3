"""The CUDA back end as the driver sees it. Compiler modules load with the first compilation."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from cellc_runtime import device
from cellc_runtime.lazy import lazy_imports
from cellc_runtime.records import replace
from cellc_runtime.target import CHECKED, CUDA, EMULATED, Target

from ..base import Backend

if TYPE_CHECKING:
    from ...passes.base import Pass
with lazy_imports(__name__):  # a program found in the cache needs none of these
    from cellc_runtime.cuda import on_stream

    from ...build import llvm_version, ptxas, workers
    from ...passes import slices
    from . import build, machine

_MANY = 24
"""Nodes of a graph that will have kernels enough for more than one process that compiles them."""


class CudaBackend(Backend):
    """NVIDIA's GPUs, and their emulation in this process."""

    name = "cuda"
    targets = {**CUDA, **EMULATED, **CHECKED}

    def default_target(self) -> Target:
        return next(iter(device.gpu().targets.values()))

    def under(self, target: Target, numerics: str) -> Target:
        """With products of float32 in TF32 where `numerics` leaves rounding open."""
        return replace(target, fast=numerics == "fast")

    def version(self) -> str:
        sliced = " slices" if on_stream.engine() is not None else ""
        return f"{llvm_version.llvm_version()} ptxas {ptxas.version()}{sliced}"

    def passes(self, target: Target) -> tuple[Pass, ...]:
        return (slices.Slices(target.fast),) if on_stream.engine() is not None else ()

    def machine(self, target: Target) -> machine.GpuMachine:
        return _machine(target)

    def prepare(self, nodes: int) -> None:
        workers.prepare(1 if nodes < _MANY else 2)

    def build(self, target: Target) -> build.GpuBuild:
        return build.GpuBuild(target)


@cache
def _machine(target: Target) -> machine.GpuMachine:
    return machine.GpuMachine(target)
