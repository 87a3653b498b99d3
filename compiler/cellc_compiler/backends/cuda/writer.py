"""How GPU kernels are written: threads, warps and blocks, for a GPU and for the emulator.

A kernel's text is the same for both but for what only a GPU has: the number of a thread, shared
memory, shuffles and barriers. On a GPU these are intrinsics of LLVM; the emulator's are calls of
its functions (`emulator/fibers.ll`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from cellc_runtime.program import DEVICE_KERNEL
from cellc_runtime.target import Target

from ...build.abi import PLACEHOLDER
from ...ir.types import prod
from ..llvm.math.lanes import X
from ..llvm.text import Function as Function
from ..llvm.text import V, module, sizeof
from ..plain.writer import PlainFunction
from .code import WARP, KernelCode, is_checked, is_emulated

THREADS = 256  # Of a block, where nothing speaks for another number
WORK = "cellc.work"  # The block that a kernel begins with; a guard goes before it (`guards.py`)
ALL_LANES = V("i32", "-1")


class GpuFunction(PlainFunction):
    """A kernel being written.

    Args:
        target: an architecture, or its emulation.
        buffers: pointers it is given.
        threads: of a block.
    """

    def __init__(self, target: Target, buffers: int, threads: int = THREADS) -> None:
        self.emulated = is_emulated(target)
        self.buffers, self.threads, self.shared = buffers, threads, 0
        self.collective, self.checked, self._sites = False, is_checked(target), 0
        self._private: set[str] = {"%given", "%thread"}
        params = [("ptr", "given"), ("ptr", "thread")] if self.emulated else [
            ("ptr", f"b{i}") for i in range(buffers)]
        super().__init__(
            PLACEHOLDER if self.emulated else DEVICE_KERNEL, params, target,
            linkage="hidden" if self.emulated else "ptx_kernel",
            attributes="" if self.emulated else f'"nvvm.reqntid"="{threads}"',
            narrows=not self.emulated,
        )
        self.line(f"br label %{WORK}")
        self._open(WORK)
        if self.emulated:
            for i in range(buffers):
                at = self.gep(self.arg("given"), i, "ptr")
                self.line(f"%b{i} = load ptr, {at}")

    def pointer(self, number: int) -> V:
        """The address of a buffer."""
        return V("ptr", f"%b{number}")

    def finished(self, blocks: int, align: int = 1) -> KernelCode:
        """Return the kernel, to be launched with this number of blocks."""
        self.ret_()
        extra = "@cellc_shared = external addrspace(3) global [0 x i8], align 1024" \
            if self.shared and not self.emulated else ""
        return KernelCode(module([self], extra), blocks, self.threads, self.shared, self.collective,
                          align)

    # --- what only a GPU has --------------------------------------------------------------------

    def special(self, name: str, place: int) -> V:
        """A special register; the emulator keeps it at a place of the thread's record."""
        if self.emulated:
            return self.load("i32", self.gep(self.arg("thread"), place))
        return self.call(f"llvm.nvvm.read.ptx.sreg.{name}", "i32")

    def thread(self) -> V:
        """The number of the thread in its block (an i32)."""
        return self.special("tid.x", 0)

    def block(self) -> V:
        """The number of the block (an i32)."""
        return self.special("ctaid.x", 4)

    def global_thread(self) -> V:
        """The number of the thread among all (an i32 below 2^31)."""
        return self.block() * self.threads + self.thread()

    def shared_memory(self, nbytes: int) -> V:
        """So many bytes more of the block's shared memory, from a multiple of 16 on."""
        start, self.shared = self.shared, self.shared + -(-nbytes // 16) * 16
        if self.emulated:
            base = self.load("ptr", self.gep(self.arg("thread"), 8))
        else:
            base = self.emit("ptr", "addrspacecast ptr addrspace(3) @cellc_shared to ptr")
        return self.gep(base, start)

    def barrier(self) -> None:
        """Let the block's threads wait for one another; earlier writes are visible after it."""
        if self.emulated:
            self.collective = True
            self.call("cellc_emulated_barrier", "void", self.arg("thread"))
        else:
            self.call("llvm.nvvm.barrier.cta.sync.aligned.all", "void", V("i32", "0"))

    def warp_barrier(self) -> None:
        """The same for the threads of a warp."""
        if self.emulated:
            self.collective = True
            self.call("cellc_emulated_warp_barrier", "void", self.arg("thread"))
        else:
            self.call("llvm.nvvm.bar.warp.sync", "void", ALL_LANES)

    def exchange(self, value: V, lane: V) -> V:
        """The value (4 bytes) that another lane of the warp gives; all lanes take part."""
        bits = self.cast("bitcast", value, "i32")
        if self.emulated:
            self.collective = True
            got = self.call("cellc_emulated_exchange", "i32", self.arg("thread"), bits, lane)
        else:
            got = self.call("llvm.nvvm.shfl.sync.idx.i32", "i32", ALL_LANES, bits, lane,
                            V("i32", str(WARP - 1)))
        return self.cast("bitcast", got, value.ty)

    def from_lane(self, value: V, lane: V) -> V:
        """The value of any scalar type that a lane of the warp has."""
        size = sizeof(value.ty)
        if value.ty == "i1":
            return self.cast("trunc", self.exchange(self.cast("zext", value, "i32"), lane), "i1")
        if size == 4:
            return self.exchange(value, lane)
        if size < 4:
            wide = self.cast("zext", self.cast("bitcast", value, f"i{8 * size}"), "i32")
            narrow = self.cast("trunc", self.exchange(wide, lane), f"i{8 * size}")
            return self.cast("bitcast", narrow, value.ty)
        bits = self.cast("bitcast", value, "i64")
        low = self.exchange(self.cast("trunc", bits, "i32"), lane)
        high = self.exchange(self.cast("trunc", bits >> 32, "i32"), lane)
        joined = self.cast("zext", low, "i64") | self.cast("zext", high, "i64") << 32
        return self.cast("bitcast", joined, value.ty)

    # --- memory, as the emulator checks it -------------------------------------------------------

    def alloca(self, nbytes: int, align: int = 64) -> V:
        """Memory of a thread."""
        made = super().alloca(nbytes, align)
        self._private.add(made.ref)
        return made

    def gep(self, base: V, offset: V | int, ty: str = "i8") -> V:
        """See `Function.gep`."""
        made = super().gep(base, offset, ty)
        if self._is_private(base):
            self._private.add(made.ref)
        return made

    def load(self, ty: str, ptr: V, align: int | None = None, note: str = "") -> V:
        """See `Function.load`. The emulator takes any address: a checked one says which do not lie
        as a GPU wants them."""
        self._touch(ptr, sizeof(ty))
        return super().load(ty, ptr, 1 if self.emulated else align, note)

    def store(self, value: V, ptr: V, align: int | None = None, note: str = "") -> None:
        """See `Function.store`."""
        self._touch(ptr, sizeof(value.ty) | 1 << 16)
        super().store(value, ptr, 1 if self.emulated else align, note)

    def _is_private(self, pointer: V) -> bool:
        """Whether only this thread can see what a pointer points to, or nobody writes it."""
        return pointer.ref in self._private or pointer.ref.startswith("@")

    def _touch(self, pointer: V, what: int) -> None:
        if self.checked and not self._is_private(pointer):
            self._sites += 1
            self.call("cellc_emulated_touch", "void", self.arg("thread"), pointer,
                      self.i64(what | self._sites << 32))

    def atomic(self, op: str, value: V, ptr: V) -> None:
        """Change an integer of 4 or 8 bytes in the device's memory, whole: `add`, `sub`, `max`,
        `umax`, ... The order of threads is any, so the result must not depend on it. A checked
        kernel records no write, because atomic ones are no race."""
        self._touch(ptr, sizeof(value.ty))
        scope = "" if self.emulated else ' syncscope("device")'
        self.emit(value.ty, f"atomicrmw {op} {ptr}, {value}{scope} monotonic")

    # --- items ----------------------------------------------------------------------------------

    @contextmanager
    def item(self, *extents: int) -> Iterator[list[X]]:
        """A thread for each item: its numbers below the extents."""
        number = X(self, self.global_thread())
        with self.given(number.cmp("ult", prod(extents))):
            yield [X(self, self.cast("zext", v, "i64")) for v in self.split(number.v, extents)]

    def steps(
        self, first: X, end: X | int, step: int, body: Callable[[X, list[V]], Sequence[V] | None],
        carried: Sequence[V] = (),
    ) -> list[V]:
        """`for (i = first; i < end; i += step)` (signed) with values that are carried; their last
        ones."""
        def turn(held: list[V]) -> list[V]:
            at = X(self, held[0])
            out = body(at, held[1:]) or ()
            return [(at + step).v, *out]

        return self.while_([first.v, *carried], lambda c: X(self, c[0]).cmp("slt", end).v, turn)[1:]

    def finished_for(self, items: int) -> KernelCode:
        """Return the kernel, to be launched with a thread for each item."""
        return self.finished(-(-items // self.threads))

    def split(self, number: V, extents: Sequence[int]) -> list[V]:
        """A number below the product of extents, as one number below each; an i32 stays one."""
        out: list[V] = []
        for k, n in enumerate(reversed(extents)):
            by = self.const(number.ty, max(n, 1))
            last = k == len(extents) - 1
            out.append(number if last else number % by)
            number = number if last else number // by
        return out[::-1]


class ItemKernels:
    """The kernels of a rule of plain loops: one for each block of `items`, a thread for each item.

    Args:
        buffers: that all of them are given.
    """

    def __init__(self, target: Target, buffers: int) -> None:
        self.target, self.buffers = target, buffers
        self.kernels: list[KernelCode] = []

    def write(self, rule: Callable[[PlainFunction], None]) -> list[KernelCode]:
        """Return the kernels that a rule writes."""
        rule(_ItemFunction(self))
        return self.kernels


class _ItemFunction(GpuFunction):
    """Writes one kernel after the other: pointers have the same names in all."""

    def __init__(self, kernels: ItemKernels) -> None:
        super().__init__(kernels.target, kernels.buffers)
        self._kernels = kernels
        self._head = list(self.lines)

    @contextmanager
    def items(self, *extents: int) -> Iterator[list[X]]:
        """See `PlainFunction.items`."""
        with self.item(*extents) as at:
            yield at
        if prod(extents):
            self._kernels.kernels.append(self.finished_for(prod(extents)))
        self.lines, self.declares = list(self._head), set()
        self._allocas, self._block, self.collective = [], WORK, False
        self._places.clear()
