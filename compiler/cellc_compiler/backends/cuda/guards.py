"""Kernels that heed checks: what writes a program's state does nothing once one has failed.

The host looks at a check only when it waits, and by then the rest of the program is launched, and
so may be the next steps. All of it runs, on whatever elements there are (no op reads or writes
outside of its operands, whatever a position is), but parameters and state stay as they were.
"""

from __future__ import annotations

from functools import cache

from cellc_runtime.records import replace
from cellc_runtime.target import Target

from ...lower.kernel import Kernel
from ..llvm.math.lanes import X
from .code import VECTOR_BYTES, KernelCode, aligned, is_emulated, kernel_of
from .writer import WORK, GpuFunction

_BEGIN = f"  br label %{WORK}\n"
_TEST = f"""\
  %cellc.fault = load i64, ptr %cellc.guard, align 8
  %cellc.good = icmp eq i64 %cellc.fault, 0
  br i1 %cellc.good, label %{WORK}, label %cellc.stop
cellc.stop:
  ret void
"""


def guarded(kernel: Kernel, target: Target) -> Kernel:
    """Return the kernel that does nothing after a failed check; the address of the checks' results
    follows all other parameters."""
    code: KernelCode = kernel.code
    if code.guarded:
        return kernel
    return replace(kernel, code=_guarded(code, kernel.buffers, is_emulated(target)))


def _guarded(code: KernelCode, buffers: int, emulated: bool) -> KernelCode:
    first, rest = code.text.split(_BEGIN, 1)
    if emulated:
        place = buffers + len(code.maps)
        test = (f"  %cellc.guard.at = getelementptr ptr, ptr %given, i64 {place}\n"
                f"  %cellc.guard = load ptr, ptr %cellc.guard.at, align 8\n{_TEST}")
    else:
        head, signature = first.rsplit("define ", 1)
        first = f"{head}define {signature.replace(') nounwind', ', ptr %cellc.guard) nounwind', 1)}"
        test = _TEST
    other = code.otherwise and _guarded(code.otherwise, buffers, emulated)
    return replace(code, text=first + test + rest, otherwise=other, guarded=True)


@cache
def copy_kernel(nbytes: int, target: Target) -> Kernel:
    """The kernel that copies its first buffer to its second unless a check has failed."""
    vectors, plain = (_copy(nbytes, size, target) for size in (VECTOR_BYTES, 1))
    return guarded(kernel_of(aligned(vectors, plain), 2), target)


def _copy(nbytes: int, size: int, target: Target) -> KernelCode:
    """Copy `size` bytes with each thread, or one of the remaining bytes."""
    f = GpuFunction(target, 2)
    whole = nbytes // size
    units = whole + nbytes % size
    number = X(f, f.cast("zext", f.global_thread(), "i64"))

    def move(ty: str, at: X, align: int) -> None:
        f.store(f.load(ty, f.gep(f.pointer(0), at.v), align), f.gep(f.pointer(1), at.v), align)

    with f.given(number.cmp("slt", whole)):
        move("<4 x i32>" if size == VECTOR_BYTES else "i8", number * size, size)
    if nbytes % size:
        with f.given(number.cmp("sge", whole)), f.given(number.cmp("slt", units)):
            move("i8", number + (whole * size - whole), 1)
    return f.finished_for(units)
