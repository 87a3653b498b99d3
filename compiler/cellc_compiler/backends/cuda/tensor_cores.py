"""How kernels with tensor cores are written: fragments, asynchronous copies, mbarriers, tensors.

Each method is one instruction (or a run of them) of PTX, or a call of the emulator's function that
stands for it. A place in shared memory is a 32-bit address on a GPU, and a pointer to the emulator;
`at` moves it. Source: PTX ISA 8.3, sections "Warp Level Matrix Instructions", "Asynchronous
Warpgroup Level Matrix Instructions", "Data Movement" and "Parallel Synchronization".
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from cellc_runtime.dtypes import DType, bfloat16, float16, float32
from cellc_runtime.records import dataclass
from cellc_runtime.target import Target

from ..llvm.text import V, element
from .code import KernelCode, TensorMap
from .writer import GpuFunction

I32, I64 = "i32", "i64"
SHARED = "ptr addrspace(3)"
PARAMETER = 'ptr byval([128 x i8]) align 64 "nvvm.grid_constant"'
SWIZZLE = 128
"""Bytes of a row of a tile in swizzled memory: 16 bytes number c of row r lie at c ^ r % 8."""
ATOM = 8 * SWIZZLE
"""Bytes of the rows after which the swizzle repeats; tiles begin at multiples of it."""


def kind_of(dtype: DType) -> str:
    """Return the instructions' name for a type of operands. Raises KeyError if tensor cores have no
    such operands."""
    return {float16: "f16", bfloat16: "bf16", float32: "tf32"}[dtype]


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Where a thread is in a ring of stages: the stage, and the parity of its phase."""

    stage: V
    parity: V


class TensorCoreFunction(GpuFunction):
    """A kernel with tensor cores.

    Args:
        target, buffers, threads: see `GpuFunction`.
        maps: of tensors that are copied whole boxes at a time; parameters after the buffers.
    """

    def __init__(
        self, target: Target, buffers: int, threads: int, maps: Sequence[TensorMap] = ()
    ) -> None:
        super().__init__(target, buffers, threads)
        self.maps = tuple(maps)
        self._operands: V | None = None
        for i in range(len(self.maps)):
            if self.emulated:
                at = self.gep(self.arg("given"), buffers + i, "ptr")
                self.line(f"%map{i} = load ptr, {at}")
            else:
                self.params = [*self.params, (PARAMETER, f"map{i}")]

    def finished(self, blocks: int, align: int = 1,
                 otherwise: KernelCode | None = None) -> KernelCode:
        """See `GpuFunction`; with the kernel for pointers that do not lie as wanted."""
        code = super().finished(blocks, align)
        return KernelCode(code.text, blocks, self.threads, self.shared, self.collective, align,
                          otherwise, self.maps)

    # --- how both are written -------------------------------------------------------------------

    def i32(self, value: int) -> V:
        """An i32 constant."""
        return V(I32, str(value), self)

    def asm(self, text: str, constraints: str, *args: V, ret: str = "void",
            effect: bool = True) -> V:
        """Inline PTX."""
        how = "sideeffect " if effect else ""
        given = ", ".join(map(str, args))
        memory = ",~{memory}" if effect else ""
        marks = (constraints + memory).strip(",")
        call = f'call {ret} asm {how}"{text}", "{marks}"({given})'
        if ret == "void":
            self.line(call)
            return V("void", "")
        return self.emit(ret, call)

    def emulate(self, name: str, *args: V) -> None:
        """Call a function of the emulator with this thread."""
        self.collective = True
        self.call(f"cellc_emulated_{name}", "void", self.arg("thread"), *args)

    def issue(self, name: str, text: str, constraints: str = "", *args: V) -> None:
        """An instruction: inline PTX, of as many operands as it has constraints, or the function of
        the emulator with all of them."""
        if self.emulated:
            self.emulate(name, *args)
        else:
            self.asm(text, constraints, *args[:len(constraints.split(",")) if constraints else 0])

    def unpacked(self, value: V, ty: str, count: int) -> list[V]:
        """The members of a structure of equal ones."""
        return [self.emit(ty, f"extractvalue {value}, {i}") for i in range(count)]

    def _given(self, words: Sequence[V]) -> V:
        """Operands in memory, where the emulator takes them from and puts results."""
        if self._operands is None:
            self._operands = self.alloca(3 * 8 + 4 * 128, 16)
        offset = 0
        for word in words:
            self.store(word, self.gep(self._operands, offset))
            offset += 8 if word.ty in (I64, "ptr") else 4
        return self._operands

    def _results(self, ty: str, offset: int, count: int) -> list[V]:
        assert self._operands is not None
        return [self.load(ty, self.gep(self._operands, offset + 4 * i)) for i in range(count)]

    # --- shared memory --------------------------------------------------------------------------

    def shared_place(self, nbytes: int) -> V:
        """See `shared_memory`, as a place."""
        generic = self.shared_memory(nbytes)
        if self.emulated:
            return generic
        own = self.emit(SHARED, f"addrspacecast {generic} to {SHARED}")
        return self.emit(I32, f"ptrtoint {own} to i32")

    def at(self, place: V, offset: V | int) -> V:
        """Return a place, moved by a number of bytes."""
        by = offset if isinstance(offset, V) else self.i32(offset)
        return self.gep(place, by) if self.emulated else place + by

    def address(self, place: V) -> V:
        """An address as descriptors hold it: an i32 from the beginning of shared memory, on a GPU
        from that of its window."""
        if not self.emulated:
            return place
        start = self.load("ptr", self.gep(self.arg("thread"), 8))
        far = self.emit(I64, f"ptrtoint {place} to i64") - self.emit(I64,
            f"ptrtoint {start} to i64")
        return self.cast("trunc", far, I32)

    def pointer_at(self, place: V) -> V:
        """A pointer, for loads and stores."""
        return place if self.emulated else self.emit(SHARED, f"inttoptr {place} to {SHARED}")

    def named_barrier(self, name: V, threads: int) -> None:
        """So many threads (whole warps) wait for one another at barrier 1 to 15 (an i32)."""
        self.issue("named_barrier", "bar.sync $0, $1;", "r,n", name, self.i32(threads))

    # --- fragments ------------------------------------------------------------------------------

    def ldmatrix(self, place: V, trans: bool = False) -> list[V]:
        """Four matrices of 8 x 8 elements of 16 bits, one register each; lane i gives the address
        of row i % 8 of matrix i / 8."""
        how = ".trans" if trans else ""
        if self.emulated:
            self._touch(place, 16)
            self.emulate(f"ldmatrix{how.replace('.', '_')}", self._given([place]))
            return self._results(I32, 8, 4)
        ret = _structure(I32, 4)
        return self.unpacked(self.asm(
            f"ldmatrix.sync.aligned.m8n8.x4{how}.shared.b16 {{$0,$1,$2,$3}}, [$4];",
            "=r,=r,=r,=r,r", place, ret=ret), I32, 4)

    def mma(self, kind: str, a: Sequence[V], b: Sequence[V], c: Sequence[V]) -> list[V]:
        """A B + C of 16 x 8 elements, k = 16 (`tf32`: 8): registers of A (4, i32), B (2, i32) and C
        (4, float)."""
        if self.emulated:
            self.emulate(f"mma_{kind}", self._given([*a, *b, *c]))
            return self._results("float", 24, 4)
        shape = "m16n8k8" if kind == "tf32" else "m16n8k16"
        text = (f"mma.sync.aligned.{shape}.row.col.f32.{kind}.{kind}.f32 "
                "{$0,$1,$2,$3}, {$4,$5,$6,$7}, {$8,$9}, {$10,$11,$12,$13};")
        return self.unpacked(self.asm(
            text, ",".join(["=f"] * 4 + ["r"] * 6 + ["f"] * 4), *a, *b, *c,
            ret=_structure("float", 4), effect=False), "float", 4)

    def tf32(self, bits: V) -> V:
        """A float32 (its bits, an i32) rounded to the 10 bits of fraction that TF32 keeps, halves
        away from zero."""
        if not self.emulated:
            return self.asm("cvt.rna.tf32.f32 $0, $1;", "=r,r", bits, ret=I32, effect=False)
        up = bits + (1 << 12) & -1 << 13
        number = self.cast("bitcast", bits, "float")
        return self.select(self.cmp("uno", number, number), bits, up)

    # --- asynchronous copies of a thread (sm_80) ------------------------------------------------

    def copy_async(self, to: V, source: V, nbytes: int, valid: V) -> None:
        """4, 8 or 16 bytes to shared memory: `valid` (an i32) of them, and zeros."""
        if self.emulated:
            self._touch(source, nbytes)
            self._touch(to, nbytes | 1 << 16)
            self.emulate("copy_async", to, source, self.i32(nbytes), valid)
            return
        how = "cg" if nbytes == 16 else "ca"
        self.asm(f"cp.async.{how}.shared.global [$0], [$1], {nbytes}, $2;", "r,l,r", to, source,
                 valid)

    def copy_inside(self, inside: V, source: V, place: V, nbytes: int) -> None:
        """Copy a number of bytes if they are inside of the matrix, else zeros."""
        if nbytes > 2:
            valid = self.select(inside, self.i32(nbytes), self.i32(0))
            self.copy_async(place, source, nbytes, valid)
            return
        value = self.load("i16", source)
        self.store(self.select(inside, value, V("i16", "0")), self.pointer_at(place))

    def commit_copies(self) -> None:
        """End a group of copies."""
        self.issue("commit_copies", "cp.async.commit_group;")

    def wait_copies(self, but: int) -> None:
        """Wait for the thread's groups of copies, except the last `but` ones."""
        self.issue("wait_copies", f"cp.async.wait_group {but};", "", self.i32(but))

    # --- mbarriers ------------------------------------------------------------------------------

    def mbarrier_init(self, barrier: V, arrivals: int) -> None:
        """Set one up for a number of arrivals a phase. Behind all of them: `fence_mbarriers`."""
        self.issue("mbarrier_init", "mbarrier.init.shared::cta.b64 [$0], $1;", "r,r", barrier,
                   self.i32(arrivals))

    def fence_mbarriers(self) -> None:
        """Make initialized barriers visible to asynchronous copies."""
        if not self.emulated:
            self.asm("fence.mbarrier_init.release.cluster;", "")
            self.fence_async()

    def fence_async(self) -> None:
        """Make this thread's writes to shared memory visible to asynchronous copies and products
        that begin later."""
        if not self.emulated:
            self.asm("fence.proxy.async.shared::cta;", "")

    def mbarrier_arrive(self, barrier: V, nbytes: int = 0) -> None:
        """Arrive; `nbytes` bytes are to be copied before the phase is over."""
        text, operands = (".expect_tx", ", $1") if nbytes else ("", "")
        self.issue("mbarrier_arrive", f"mbarrier.arrive{text}.shared::cta.b64 _, [$0]{operands};",
                   "r,r" if nbytes else "r", barrier, self.i32(nbytes))

    def mbarrier_wait(self, barrier: V, parity: V) -> None:
        """Until the phase of a parity (an i32) is over; a fresh one is past the parity 1."""
        if self.emulated:
            self.emulate("mbarrier_wait", barrier, parity)
            return
        text = ("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [$1], $2; "
                "selp.b32 $0, 1, 0, p; }")
        self.while_([], lambda _: self.cmp("eq", self.asm(text, "=r,r,r", barrier, parity, ret=I32),
                                           0), lambda _: [])

    # --- tensors (sm_90) ------------------------------------------------------------------------

    def map(self, number: int) -> V:
        """The address of a tensor map."""
        return V("ptr", f"%map{number}")

    def tensor_load(self, to: V, number: int, at: Sequence[V], barrier: V) -> None:
        """A box of a tensor, from three coordinates on (i32, innermost first); zeros outside of
        it. One thread asks for it; the mbarrier counts its bytes."""
        self.issue(
            "tensor_load",
            "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
            "[$0], [$1, {$2, $3, $4}], [$5];", "r,l,r,r,r,r", to, self.map(number), *at, barrier)

    def tensor_store(self, number: int, at: Sequence[V], source: V) -> None:
        """A box of shared memory to a tensor; what is outside of it is left out."""
        self.issue(
            "tensor_store",
            "cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [$0, {$1, $2, $3}], [$4];",
            "l,r,r,r,r", self.map(number), *at, source)

    def commit_stores(self) -> None:
        """End a group of stores."""
        self.issue("commit_stores", "cp.async.bulk.commit_group;")

    def wait_stores(self, but: int) -> None:
        """Wait until the sources of the thread's groups are read, except the last `but`."""
        self.issue("wait_stores", f"cp.async.bulk.wait_group.read {but};", "", self.i32(but))

    # --- products of warpgroups (sm_90a) --------------------------------------------------------

    def descriptor(self, place: V, leading: int, stride: int) -> V:
        """Of an operand in swizzled memory.

        Args:
            place: where it begins.
            leading: bytes from 64 rows to the next, where memory runs along the rows.
            stride: bytes from 8 rows (where it runs along the rows: from 8 of k) to the next.
        """
        low = self.cast("zext", self.address(place) >> 4 & 0x3FFF, I64)
        rest = (leading >> 4) << 16 | (stride >> 4) << 32 | 1 << 62
        return low | rest

    def wgmma(self, kind: str, a: V, b: V, total: Sequence[V], transposed: tuple[bool, bool]
              ) -> list[V]:
        """64 x n products of k = 16 (`tf32`: 8), added to accumulators (n / 2 floats a thread).
        Begins only; nothing may touch the accumulators or change the operands before
        `wait_products`. TF32 are the upper 19 bits of float32; the others are not looked at.

        Args:
            kind: of the operands.
            a, b: descriptors.
            total: the accumulators.
            transposed: whether memory runs along the rows of A, and along those of B; not for
                TF32.
        """
        n, count = 2 * len(total), len(total)
        if self.emulated:
            shape = n | transposed[0] << 16 | transposed[1] << 17
            self.emulate(f"wgmma_{kind}", self._given([a, b, self.i64(shape), *total]))
            return self._results("float", 24, count)
        outs = ",".join(f"${i}" for i in range(count))
        k, turns = (8, "") if kind == "tf32" else (16, f", {transposed[0]:d}, {transposed[1]:d}")
        text = (f"wgmma.mma_async.sync.aligned.m64n{n}k{k}.f32.{kind}.{kind} {{{outs}}}, "
                f"${count}, ${count + 1}, 1, 1, 1{turns};")
        marks = ",".join(["=f"] * count + ["l", "l"] + [str(i) for i in range(count)])
        return self.unpacked(self.asm(text, marks, a, b, *total, ret=_structure("float", count)),
                             "float", count)

    def fence_products(self) -> None:
        """Accumulators as they are now are seen by the products that follow."""
        self.issue("fence_products", "wgmma.fence.sync.aligned;")

    def commit_products(self) -> None:
        """End a group of products."""
        self.issue("commit_products", "wgmma.commit_group.sync.aligned;")

    def wait_products(self, but: int) -> None:
        """Wait for the groups of products, except the last `but` ones."""
        self.issue("wait_products", f"wgmma.wait_group.sync.aligned {but};", "", self.i32(but))

    def held(self, total: Sequence[V]) -> list[V]:
        """Accumulators as they are here: nothing that uses them is moved up beyond."""
        if self.emulated:
            return list(total)
        marks = ["=f"] * len(total) + [str(i) for i in range(len(total))]
        return self.unpacked(self.asm("", ",".join(marks), *total,
                                      ret=_structure("float", len(total))), "float", len(total))

    def set_registers(self, count: int, more: bool) -> None:
        """How many registers a thread of this warpgroup has from here on."""
        if not self.emulated:
            how = "inc" if more else "dec"
            self.asm(f"setmaxnreg.{how}.sync.aligned.u32 {count};", "")

    # --- rings of stages ------------------------------------------------------------------------

    def next_stage(self, now: Pipeline, stages: int) -> Pipeline:
        """Return the next stage; the parity changes where the ring starts over."""
        step = now.stage + 1
        wraps = self.cmp("eq", step, stages)
        stage = self.select(wraps, self.i32(0), step)
        flip = self.cast("zext", wraps, I32)
        return Pipeline(stage, now.parity ^ flip)

    def pair(self, a: V, b: V) -> V:
        """Two scalars as a vector."""
        ty = f"<2 x {element(a.ty)}>"
        return self.insert(self.insert(self.undef(ty), a, 0), b, 1)


def _structure(ty: str, count: int) -> str:
    return "{" + ", ".join(chain([ty] * count)) + "}"
