"""Users' own kernels on a back end through LLVM: one task, in numba's code of it.

Numba is loaded when such a kernel is compiled, not before, and may be absent.
"""

from __future__ import annotations

import importlib
from functools import cache
from typing import Any

from cellc_runtime.target import Target

from ...build.llvm_version import package_version
from ...hybrid.language import Source
from ...hybrid.native import native
from ...ir.graph import Node
from ...lower.kernel import Kernel
from ...lower.plan import KernelPlan, Step, operand, result, scratch

_CYCLES = 10.0
"""Of an element, roughly."""


class NumbaMissing(ImportError):
    """A kernel is to be compiled, and there is no numba."""


def user_kernel(node: Node, target: Target) -> KernelPlan:
    """The plan of a `custom_kernel`.

    Raises:
        NumbaMissing: numba is not installed, or not one that it works with.
        KernelError: numba cannot type it.
    """
    kernel = native(Source(**node.attrs), tuple(v.type for v in node.operands))
    code = _numba_code().kernel_text(kernel, target)
    own = [scratch(f"kernel{i}") for i in range(len(kernel.scratch))]
    *outputs, status = [result(i) for i in range(len(node.results))]
    roles = (*map(operand, range(len(node.operands))), *outputs, *own, status)
    cost = _CYCLES * sum(v.type.size for v in (*node.operands, *node.results))
    return KernelPlan((Step(Kernel(code, 1, len(roles), cost), roles),),
                      {role: ty.nbytes for role, ty in zip(own, kernel.scratch, strict=True)})


@cache
def _numba_code() -> Any:
    try:
        return importlib.import_module(f"{__package__}.numba_code")
    except ImportError as error:
        found = package_version("numba")
        had = "numba is not installed" if found == "none" else f"{found} cannot be used ({error})"
        raise NumbaMissing(
            f"a function of ops.Custom with func_type 'hybrid' is compiled by numba, but {had}: "
            f"pip install 'cellc[numba]'"
        ) from None
