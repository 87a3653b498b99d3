"""A GPU kernel for a build: its text, and its launch."""

from __future__ import annotations

from cellc_runtime.dtypes import DType
from cellc_runtime.records import dataclass, replace
from cellc_runtime.target import CHECKED, EMULATED, Target, machine_target

from ...lower.kernel import Kernel

WARP = 32
VECTOR_BYTES = 16  # The most bytes that a thread reads or writes at once

HOST = machine_target()  # The target of `cellc_main`, and of the emulator's kernels


@dataclass(frozen=True, slots=True)
class TensorMap:
    """A tensor of three axes whose boxes are copied between global and shared memory, swizzled by
    128 bytes. `cellc_main` makes it before a launch."""

    buffer: int  # which of the kernel's pointers it begins at (a multiple of 16)
    dtype: DType  # of its elements
    sizes: tuple[int, int, int]  # of its axes, innermost first
    strides: tuple[int, int]  # bytes of a step along the second and third axis, multiples of 16
    box: tuple[int, int]  # of the first two axes; of the third it is one


@dataclass(frozen=True, slots=True)
class KernelCode:
    """One kernel."""

    text: str  # a module whose one entry is `KERNEL`
    # blocks, threads: of a launch
    blocks: int
    threads: int
    shared: int = 0  # bytes of shared memory of a block
    meets: bool = False  # whether threads of a block wait for one another
    # bytes; what its pointers must be multiples of. Where they are not, `otherwise` runs.
    align: int = 1
    otherwise: KernelCode | None = None
    maps: tuple[TensorMap, ...] = ()  # parameters after the pointers
    # whether the last parameter is the address of the checks' results: after one that failed the
    # kernel does nothing
    guarded: bool = False

    def __str__(self) -> str:
        head = f"; {self.blocks} blocks of {self.threads} threads, {self.shared} bytes shared\n"
        return head + "".join(f"; {m}\n" for m in self.maps) + self.text


def aligned(vectors: KernelCode, plain: KernelCode) -> KernelCode:
    """A kernel that reads vectors, and the one for pointers that are no multiples of them."""
    if vectors == plain:
        return plain
    return replace(vectors, align=VECTOR_BYTES, otherwise=plain)


def kernel_of(code: KernelCode, buffers: int) -> Kernel:
    """A kernel as lowering knows it: its blocks are its tasks."""
    return Kernel(code, code.blocks, buffers, float(code.blocks * code.threads))


def is_emulated(target: Target) -> bool:
    """Whether kernels for a target are run by the emulator."""
    return target.name in EMULATED or is_checked(target)


def is_checked(target: Target) -> bool:
    """Whether the emulator records every access of memory."""
    return target.name in CHECKED
