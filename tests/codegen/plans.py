"""Running kernel plans in tests, over buffers with unreadable pages around them."""

from __future__ import annotations

import ctypes
import mmap
import weakref
from collections.abc import Mapping
from typing import Any

import numpy as np
from llvmlite import binding as llvm

from cellc_compiler import backends, driver
from cellc_compiler.backends.cpu.kernels.vectors import Plan
from cellc_compiler.ir.graph import Graph, Node
from cellc_compiler.lower.instructions import Call
from cellc_compiler.lower.plan import KernelPlan, Role
from cellc_runtime.target import AVX2, AVX512, NEON, Target, host_targets

from .jit import compile_kernel, machine

Array = np.ndarray[Any, Any]
_LIBC = ctypes.CDLL(None, use_errno=True)
_PAGE = mmap.PAGESIZE


def guarded(source: Array, at_end: bool = True) -> Array:
    """A copy that ends right before (or starts right after) an unreadable page."""
    nbytes = max(source.nbytes, 1)
    pages = -(-nbytes // _PAGE)
    area = mmap.mmap(-1, (pages + 2) * _PAGE)
    base = ctypes.addressof(ctypes.c_char.from_buffer(area))
    for page in (base, base + (pages + 1) * _PAGE):
        if _LIBC.mprotect(ctypes.c_void_p(page), ctypes.c_size_t(_PAGE), 0) != 0:
            raise OSError(ctypes.get_errno(), "mprotect")
    offset = _PAGE + (pages * _PAGE - source.nbytes if at_end else 0)
    flat = np.frombuffer(area, np.uint8, source.nbytes, offset)
    out = flat.view(source.dtype).reshape(source.shape)
    out[...] = source
    weakref.finalize(flat, lambda keep: None, area)
    return out


def plan_of(node: Node, target: Target | None = None) -> KernelPlan:
    """The kernels of a node by the rule of the target's back end (default: this machine's)."""
    target = target or host_targets()[0]
    return backends.backend_of(target).machine(target).plan(node)


def run_plan(
    plan: Plan, target: Target, arrays: Mapping[str, Array] | Mapping[str | Role, Array],
    at_end: bool = True,
) -> None:
    """Run all steps on guarded copies; results are copied back. Scratch starts as NaN."""
    bufs: dict[str | Role, Array] = {k: guarded(a, at_end) for k, a in arrays.items()}
    for name, nbytes in plan.scratch.items():
        bufs[name] = guarded(np.full(nbytes, 0xFF, np.uint8), at_end)
    for kernel, roles in plan.steps:
        assert kernel.buffers == len(roles)
        assert kernel.ntasks >= 1 and kernel.cost > 0
        fn = compile_kernel(kernel, target)
        # Tasks are independent: run them last to first.
        for task in reversed(range(kernel.ntasks)):
            fn([bufs[r] for r in roles], task, task + 1)
    for k, a in arrays.items():
        a[...] = bufs[k]


def run_calls(graph: Graph, target: Target, inputs: list[Array]) -> list[Array]:
    """The outputs of an optimized graph of kernel calls alone, run one after the other.

    Every buffer ends before an unreadable page; scratch and results start as NaN.
    """
    low = driver.lower(graph, target)
    slots = [guarded(a) for a in inputs]
    outs = [guarded(np.full(v.shape, np.nan, v.dtype.numpy)) for v in graph.outputs]
    slots += outs
    scratch = {b: guarded(np.full(b.nbytes, 0xFF, np.uint8)) for b in low.buffers}
    assert not low.constants
    for call in low.instructions:
        assert isinstance(call, Call)
        kernel = compile_kernel(call.kernel, target)
        bufs = [slots[p.base] if isinstance(p.base, int) else scratch[p.base]  # type: ignore[index]
                for p in call.places]
        for task in reversed(range(call.kernel.ntasks)):
            kernel(bufs, task, task + 1)
    return outs


def x86_targets() -> list[Target]:
    """The x86 targets this machine runs."""
    return [t for t in host_targets() if t in (AVX512, AVX2)]


def emits(plan: Plan, target: Target) -> None:
    """Check that every step gives an object for `target`."""
    for kernel, _ in plan.steps:
        mod = llvm.parse_assembly(kernel.code)
        mod.verify()
        assert machine(target).emit_object(mod)[:4] == b"\x7fELF"


ALL_TARGETS = (AVX512, AVX2, NEON)
