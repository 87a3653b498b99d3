"""Users' own kernels: numba's code of them, a task for each thread."""

from __future__ import annotations

from cellc_runtime.records import replace
from cellc_runtime.target import Target

from ....build.abi import PLACEHOLDER
from ....ir.graph import Node
from ....lower.kernel import Kernel
from ....lower.plan import KernelPlan, Step
from ...llvm.math.lanes import X
from ...llvm.user_kernels import user_kernel
from ..writer import GpuFunction
from .table import lowers

_TASKS = "cellc_tasks"
_MOST_TASKS = 4096
_THREADS = 64  # Of a block: a task takes long, and there are few


@lowers("custom_kernel")
def custom_kernel(node: Node, target: Target) -> KernelPlan:
    """The plan of the CPU, with as many tasks as there are rows."""
    plan = user_kernel(node, target, _MOST_TASKS)
    return replace(plan, steps=tuple(
        Step(_by_threads(s.kernel, len(s.roles), target), s.roles) for s in plan.steps))


def _by_threads(kernel: Kernel, buffers: int, target: Target) -> Kernel:
    """A kernel of tasks as one of threads."""
    f = GpuFunction(target, buffers, _THREADS)
    number = X(f, f.cast("zext", f.global_thread(), "i64"))
    with f.given(number.cmp("slt", kernel.ntasks)):
        if f.emulated:
            table = f.arg("given")
        else:
            table = f.alloca(8 * buffers, 8)
            for i in range(buffers):
                f.store(f.pointer(i), f.gep(table, i, "ptr"))
        f.line(f"call void @{_TASKS}({table}, {number.v}, {(number + 1).v})")
    code = f.finished(-(-kernel.ntasks // _THREADS))
    tasks = kernel.code.replace(f"define hidden void @{PLACEHOLDER}(",
                                f"define internal void @{_TASKS}(")
    declared = set(tasks.splitlines())
    own = "\n".join(line for line in code.text.splitlines()
                    if not (line.startswith("declare") and line in declared))
    whole = replace(code, text=f"{tasks}\n{own}")
    return Kernel(whole, code.blocks, buffers, kernel.cost)
