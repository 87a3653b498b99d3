"""Users' own kernels on a back end through LLVM: numba's code of them, rows in tasks.

Numba is loaded when such a kernel is compiled, not before, and may be absent.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from cellc_runtime.lazy import imported
from cellc_runtime.target import Target

from ...build.llvm_version import package_version
from ...hybrid.language import Source
from ...hybrid.native import native
from ...ir.graph import Node
from ...lower.kernel import Kernel
from ...lower.plan import KernelPlan, Step, operand, result, scratch

_CYCLES = 10.0  # Of an element, roughly
_MOST_TASKS = 64


class NumbaMissing(ImportError):
    """A kernel is to be compiled, and there is no numba."""


def user_kernel(node: Node, target: Target, most_tasks: int = _MOST_TASKS) -> KernelPlan:
    """Return the plan of a `custom_kernel`, with at most this number of tasks. Raises NumbaMissing
    if numba is not installed, or not one that it works with; KernelError if numba cannot type it.
    """
    kernel = native(Source(**node.attrs), tuple(v.type for v in node.operands))
    numba = _numba_code()
    tasks = max(1, min(kernel.rows, most_tasks))
    memory = {scratch(f"kernel{i}"): ty.nbytes for i, ty in enumerate(kernel.scratch)}
    *outputs, status = [result(i) for i in range(len(node.results))]
    told = status
    if tasks > 1:
        told = scratch("statuses")
    roles = (*map(operand, range(len(node.operands))), *outputs, *memory, told)
    cost = _CYCLES * sum(v.type.size for v in (*node.operands, *node.results))
    steps = [Step(Kernel(numba.kernel_text(kernel, target, tasks), tasks, len(roles), cost), roles)]
    if told is not status:
        memory[told] = tasks * numba.STATUS_INTS * 8
        text = numba.first_status(tasks, target)
        steps.append(Step(Kernel(text, 1, 2, 4.0 * tasks), (told, status)))
    return KernelPlan(tuple(steps), memory)


@cache
def _numba_code() -> Any:
    try:
        return imported(f"{__package__}.numba_code")
    except ImportError as error:
        found = package_version("numba")
        had = "numba is not installed" if found == "none" else f"{found} cannot be used ({error})"
        raise NumbaMissing(
            f"a function of ops.Custom with func_type 'hybrid' is compiled by numba, but {had}: "
            f"pip install 'cellc[numba]'"
        ) from None
