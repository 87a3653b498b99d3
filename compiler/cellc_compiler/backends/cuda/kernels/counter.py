"""The counter of a loop, kept on the device."""

from __future__ import annotations

from functools import cache

from cellc_runtime.target import Target

from ...llvm.math.lanes import X
from ..code import WARP, KernelCode
from ..writer import GpuFunction


@cache
def index_kernel(target: Target, value: int, adds: bool) -> KernelCode:
    """The kernel that sets an int64 to a value, or adds one to it."""
    f = GpuFunction(target, 1, WARP)
    with f.given(X(f, f.thread()).cmp("eq", 0)):
        new = f.i64(value)
        f.store(f.load("i64", f.pointer(0)) + new if adds else new, f.pointer(0))
    return f.finished(1)
