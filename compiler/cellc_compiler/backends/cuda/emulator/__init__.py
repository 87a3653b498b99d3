"""The emulator of a GPU, as LLVM text: what stands for a GPU's instructions, and for its driver.

`fibers.ll` runs threads and lets them meet, `async_copies.ll` has asynchronous copies, mbarriers
and tensor maps, `tensor_cores.ll` groups of products, `tensor_cores.py` the products.
`docs/cuda.md` lists the things that it cannot show. Errors are numbers; what they mean is in
`cellc_runtime.cuda.emulated`.
"""

from __future__ import annotations

from functools import cache

from cellc_runtime.abi import EMULATOR_STRUCTURES
from cellc_runtime.target import Target

from ...llvm.notation import TABLE_DECLARATION, declarations, expand
from . import async_copies, tensor_cores
from .fibers import LAUNCH as LAUNCH
from .fibers import fibers_code


@cache
def emulator_text(target: Target) -> str:
    """The module of the emulator for a processor."""
    structures = {**EMULATOR_STRUCTURES, **async_copies.STRUCTURES, **tensor_cores.STRUCTURES}
    code = [fibers_code(target, tensor_cores.PRODUCTS_END), async_copies.copies_code(),
            tensor_cores.groups_code(), tensor_cores.entries()]
    return "\n".join([TABLE_DECLARATION + declarations(structures),
                      expand("\n".join(code), structures),
                      tensor_cores.operations(structures)])
