"""`cellc_main` of a GPU's program: code for the host that launches kernels on a stream.

It does not wait for the device but where it must: where it branches on a value or calls the host.
The results of the device's functions are gathered, and tested once. A check is kernels that note
what they find (`kernels/checks.py`); main looks at that where it waits.

A main that never waits is one graph (`cellc_runtime.cuda.graphs`). Of one that does, what it
launches between two waits is a part, in a function of its own, which is taken down as a graph.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import ClassVar

from cellc_runtime.abi import (
    BY_HOST,
    CALLBACK_FAILED,
    CHECK_FAILED,
    DEVICE_FAILED,
    FIRST_CALLBACK,
    MOST_PARTS,
    PARTS,
    TABLE,
    Ext,
)
from cellc_runtime.records import dataclass
from cellc_runtime.target import Target

from ...ir.graph import Node
from ...lower.instructions import (
    Call,
    Callback,
    Check,
    Copy,
    For,
    If,
    Instruction,
    Loop,
    Place,
    places_of,
    walk,
)
from ...lower.kernel import Kernel
from ...lower.machine import where
from ...lower.memory import Buffer
from ..llvm.main import MAIN_PARAMS, PRECOMPUTE_PARAMS, FunctionWriter, Kernels, Params
from ..llvm.notation import table_slot
from ..llvm.text import Function, V
from .code import HOST, KernelCode
from .emulator import LAUNCH
from .kernels.checks import POINTERS, check_kernels
from .kernels.counter import index_kernel
from .tensor_maps import MAP_BYTES, encoded

I32 = "i32"
LEAST_IN_PART = 3  # Launches from which on a graph of them is worth it


class LaunchedKernels(Kernels):
    """The distinct kernels that a program launches, numbered, and what they are launched for."""

    def __init__(self) -> None:
        super().__init__()
        self.codes: dict[KernelCode, int] = {}
        self._uses: dict[KernelCode, dict[str, None]] = {}

    def used(self, code: KernelCode, what: str) -> None:
        """A kernel does this."""
        self._uses.setdefault(code, {})[what] = None

    def label(self, code: KernelCode) -> str:
        """Describe a kernel for errors: the label of its first launch, and the number of others."""
        first, *others = self._uses.get(code, {"": None})
        more = f", and {len(others)} more like it" if others else ""
        return first + more

    def number(self, code: KernelCode) -> int:
        """The number of a kernel."""
        return self.codes.setdefault(code, len(self.codes))

    def name_of(self, code: KernelCode) -> str:
        """The name of a kernel as a function."""
        self.number(code)
        return self.name(Kernel(code, code.blocks, 0, 0.0))


@dataclass(frozen=True, slots=True)
class Called:
    """The arguments of a callback."""

    sizes: Sequence[int]  # bytes at each pointer, operands first
    operands: int  # how many are operands
    asks: bool  # whether it may be put on the device's stream (`abi.BY_HOST`)


class LaunchWriter(FunctionWriter):
    """Writes a function that launches.

    Args:
        gpu: the target of the kernels.
        types: what callbacks are given, by their numbers.
    """

    kernels: LaunchedKernels
    tabulates = False
    declares: ClassVar[Sequence[str]] = (f"@{TABLE} = external hidden global [0 x ptr]",)

    def __init__(
        self, name: str, gpu: Target, kernels: LaunchedKernels,
        types: Mapping[int, Called], params: Params = MAIN_PARAMS,
    ) -> None:
        super().__init__(name, HOST, kernels, params)
        self.types, self.gpu = types, gpu
        self._steps: dict[int, KernelCode] = {}
        self._parts: list[list[Instruction]] = []
        self._waits, self._counted = False, 0

    def write(self, instructions: list[Instruction]) -> Function:
        """See `FunctionWriter`; of a function that waits, in parts."""
        self._waits = any(map(_waits, walk(instructions)))
        return super().write(instructions)

    def open(self, instructions: list[Instruction]) -> None:
        """Room for the pointers of a launch, and for the pointers to these."""
        f = self.f
        calls = [i for i in walk(instructions) if isinstance(i, Call)]
        most = 1 + max(map(_pointers, walk(instructions)), default=1)  # (a guard is the last)
        self.bufs, self.parameters = f.alloca(most * 8, 8), f.alloca(most * 8, 8)
        for k in range(most):
            f.store(f.gep(self.bufs, 8 * k), f.gep(self.parameters, 8 * k))
        maps = max((len(i.kernel.code.maps) for i in calls), default=0)
        if maps:
            self.maps = f.alloca(maps * MAP_BYTES, 64)
            self.given_with_maps = f.alloca((most + maps) * 8, 8)
        self.failed, self.host = f.alloca(4, 4), f.alloca(8, 8)
        f.store(V(I32, "0"), self.failed)
        self.stream = self.external(Ext.DEVICE_STREAM)
        if self._waits:
            self.graphs = self.external(Ext.DEVICE_PARTS)

    def external(self, ext: Ext) -> V:
        """An entry of the external table."""
        return self.f.load("ptr", V("ptr", table_slot(ext)))

    def note(self, code: V) -> None:
        """Remember what a function of the device returned."""
        f = self.f
        f.store(f.load(I32, self.failed) | code, self.failed)

    def finish(self) -> None:
        f = self.f
        bad = f.cmp("ne", f.load(I32, self.failed), V(I32, "0"))
        f.ret_(f.select(bad, V(I32, str(DEVICE_FAILED)), V(I32, "0")))
        if self._parts:
            other = type(self)(PARTS, self.gpu, self.kernels, self.types, PRECOMPUTE_PARAMS)
            self.helpers.append(other.write_parts(self._parts))
            self.calling_lines = len(self.helpers[-1].lines)

    # --- parts ----------------------------------------------------------------------------------

    def block(self, instructions: Sequence[Instruction]) -> None:
        """See `FunctionWriter`. In a counted loop addresses change with the trip: no part is the
        same twice."""
        if not self._waits or self._counted:
            super().block(instructions)
            return
        # Launches are the same with each call of the same addresses.
        for together, found in groupby(instructions, lambda i: not any(map(_waits, walk([i])))):
            group = list(found)
            if together and sum(map(_launches, group)) >= LEAST_IN_PART \
                    and len(self._parts) < MOST_PARTS:
                self.part(group)
            else:
                super().block(group)

    def part(self, instructions: list[Instruction]) -> None:
        """Launch the graph of a part, or what is in it."""
        f, number = self.f, len(self._parts)
        self._parts.append(instructions)
        graph = f.load("ptr", f.gep(self.graphs, number, "ptr"))

        def by_kernel() -> None:
            given = ", ".join(str(self.args[n]) for n in ("slots", "arena", "consts"))
            self.note(f.emit(I32, f"call i32 @{PARTS}({given}, i64 {number})"))

        def whole() -> None:
            function = self.external(Ext.DEVICE_GRAPH)
            self.note(f.emit(I32, f"call i32 {function.ref}({graph}, {self.stream})"))

        f.when(f.cmp("eq", graph, V("ptr", "null")), by_kernel, whole)

    def count(self, i: For) -> None:
        self._counted += 1
        super().count(i)
        self._counted -= 1

    def declaration(self, name: str) -> str:
        """Kernels are no functions of the host."""
        return ""

    # --- launches -------------------------------------------------------------------------------

    def call(self, i: Call) -> None:
        """A kernel, or its replacement where its pointers are not aligned as it needs."""
        code: KernelCode = i.kernel.code
        if code.otherwise is not None and any(_align(p) % code.align for p in i.places):
            code = code.otherwise
        self.kernels.used(code, i.label + _lines(i.nodes))
        self.launch_on(code, [self.word(w) for w in i.words()])

    def word(self, word: Place | int) -> V:
        """Return the kernel argument for a word of a call."""
        return V("i64", str(word)) if isinstance(word, int) else self.pointer(word)

    def launch_on(self, code: KernelCode, given: Sequence[V]) -> None:
        """A kernel with these pointers, and what checks have found if it heeds them."""
        guard = [self.external(Ext.DEVICE_FAULT)] if code.guarded else []
        for k, value in enumerate((*given, *guard)):
            self.f.store(value, self.f.gep(self.bufs, k, "ptr"))
        if code.maps:
            self.launch_with_maps(code, len(given))
        else:
            self.launch(code, None)

    def launch_with_maps(self, code: KernelCode, words: int) -> None:
        """Launch a kernel whose tensor maps follow its pointers, if all could be made."""
        f = self.f
        function, given = self.external(Ext.DEVICE_TENSOR_MAP), self.given_with_maps
        failed = V(I32, "0")
        for k in range(words):
            f.store(self.parameter(k), f.gep(given, 8 * k))
        for k, m in enumerate(code.maps):
            place = f.gep(self.maps, MAP_BYTES * k)
            pointer = f.load("ptr", f.gep(self.bufs, m.buffer, "ptr"))
            failed = failed | encoded(f, function, m, pointer, place)
            f.store(place, f.gep(given, 8 * (words + k)))
        if code.guarded:
            f.store(self.parameter(words), f.gep(given, 8 * (words + len(code.maps))))
        self.note(failed)
        f.when(f.cmp("eq", failed, V(I32, "0")), lambda: self.launch(code, given))

    def parameter(self, number: int) -> V:
        """Return the entry of a launch's pointer list: the address of the pointer."""
        return self.f.gep(self.bufs, 8 * number)

    def launch(self, code: KernelCode, given: V | None) -> None:
        """Launch through `cuLaunchKernel`; the handle follows the callbacks in the table."""
        f, number = self.f, self.kernels.number(code)
        at = FIRST_CALLBACK + len(self.types) + number
        handle = f.load("ptr", f.gep(V("ptr", f"@{TABLE}"), at, "ptr"))
        function = self.external(Ext.DEVICE_LAUNCH)
        sizes = ", ".join(f"i32 {n}" for n in (code.blocks, 1, 1, code.threads, 1, 1, code.shared))
        self.note(f.emit(I32, f"call i32 {function.ref}({handle}, {sizes}, {self.stream}, "
                              f"{given or self.parameters}, ptr null)"))

    def move(self, to: V, source: V, nbytes: V | int) -> None:
        """In the stream's order, whatever memory they are in."""
        count = nbytes if isinstance(nbytes, V) else self.f.i64(nbytes)
        function = self.external(Ext.DEVICE_COPY)
        self.note(self.f.emit(
            I32, f"call i32 {function.ref}({to}, {source}, {count}, {self.stream})"))

    def wait(self, failed: Callable[[], None] = lambda: None) -> None:
        """Until all is done; `failed` is done before the end where something went wrong, or a check
        has found something: what is read then means nothing."""
        function = self.external(Ext.DEVICE_WAIT)
        code = self.f.emit(I32, f"call i32 {function.ref}({self.stream})")
        self.note(code)
        self._go_on_if(self.f.load(I32, self.failed), DEVICE_FAILED, failed)
        self._go_on_if(self.f.load("i64", self.external(Ext.DEVICE_FAULT_SEEN)), CHECK_FAILED,
                       failed)

    def _go_on_if(self, bad: V, code: int, failed: Callable[[], None]) -> None:
        """Return a code unless a number is zero."""
        def stop() -> V:
            failed()
            return V(I32, str(code))

        self.f.return_unless(self.f.cmp("eq", bad, V(bad.ty, "0")), stop)

    # --- what the host reads and writes ---------------------------------------------------------

    def fetched(self, ty: str, place: Place) -> V:
        """A scalar of the device's memory."""
        self.move(self.host, self.pointer(place), 8 if ty == "i64" else 1)
        self.wait()
        return self.f.load(ty, self.host)

    def _flag(self, place: Place) -> V:
        return self.f.cmp("ne", self.fetched("i8", place), 0)

    def limit(self, i: For) -> V:
        assert i.limit is not None
        return self.fetched("i64", i.limit)

    def begin_index(self, i: For) -> None:
        """Where the trips are known, the device counts: what is launched is then the same on each
        call, whatever the host's memory holds when it is done."""
        if i.limit is None and _reads_index(i):
            first, step = (i.length, -1) if i.reverse else (-1, 1)
            self.launch_on(index_kernel(self.gpu, first, False), [self.pointer(i.index)])
            self._steps[i.number] = index_kernel(self.gpu, step, True)

    def put_index(self, step: V, i: For) -> None:
        """The copy reads the host's memory before it returns, so that may change at once."""
        if not _reads_index(i):
            return
        if i.limit is None:
            self.launch_on(self._steps[i.number], [self.pointer(i.index)])
            return
        self.f.store(step, self.host)
        self.move(self.pointer(i.index), self.host, 8)

    def allocated(self, nbytes: int) -> V:
        """Memory of the host."""
        function = self.external(Ext.MALLOC)
        return self.f.emit("ptr", f"call ptr {function.ref}(i64 {max(nbytes, 1)})")

    def freed(self, memory: V) -> None:
        """Give it back."""
        self.f.line(f"call void {self.external(Ext.FREE).ref}({memory})")

    def callback(self, i: Callback) -> None:
        """On the stream if it can be put there, else on copies in the host's memory."""
        f = self.f
        if not self.types[i.number].asks:
            self.by_host(i)
            return
        for k, place in enumerate(i.places):
            f.store(self.pointer(place), f.gep(self.bufs, k, "ptr"))
        f.store(self.stream, f.gep(self.bufs, len(i.places), "ptr"))
        entry = f.gep(V("ptr", f"@{TABLE}"), FIRST_CALLBACK + i.number, "ptr")
        code = f.emit(I32, f"call i32 {f.load('ptr', entry).ref}({self.bufs})")
        f.when(f.cmp("eq", code, V(I32, str(BY_HOST))), lambda: self.by_host(i))
        done = code & V(I32, str(~BY_HOST))
        f.return_unless(f.cmp("eq", done, V(I32, "0")), lambda: V(I32, str(CALLBACK_FAILED)))

    def by_host(self, i: Callback) -> None:
        """On copies in the host's memory."""
        f = self.f
        sizes, operands = self.types[i.number].sizes, self.types[i.number].operands
        starts = [sum(-(-n // 64) * 64 for n in sizes[:k]) for k in range(len(sizes) + 1)]
        memory = self.allocated(starts[-1])
        for k in range(operands):
            self.move(f.gep(memory, starts[k]), self.pointer(i.places[k]), sizes[k])
        self.wait(lambda: self.freed(memory))
        for k in range(len(sizes)):
            f.store(f.gep(memory, starts[k]), f.gep(self.bufs, k, "ptr"))
        f.store(V("ptr", "null"), f.gep(self.bufs, len(sizes), "ptr"))
        self.call_host(i, lambda: self.freed(memory))
        for k in range(operands, len(sizes)):
            self.move(self.pointer(i.places[k]), f.gep(memory, starts[k]), sizes[k])
        self.wait(lambda: self.freed(memory))
        self.freed(memory)

    def check(self, i: Check) -> None:
        """Launches; nobody waits for what they find."""
        checked, fault = self.pointer(i.checked), self.external(Ext.DEVICE_FAULT)
        given = [checked, self.pointer(i.shown), fault, self.external(Ext.DEVICE_FAULT_SEEN),
                 self.args["arena"], self.f.i64(i.number),
                 *(self.pointer(place) for place, _ in i.values)]
        *parts, note = check_kernels(i, self.gpu)
        for kernel in parts:
            self.kernels.used(kernel.code, "check")
            self.launch_on(kernel.code, [checked, fault])
        self.kernels.used(note.code, "check")
        self.launch_on(note.code, given)


def _waits(i: Instruction) -> bool:
    """Whether main waits for the device at an instruction."""
    return isinstance(i, (If, Loop, Callback)) or (isinstance(i, For) and i.limit is not None)


def _launches(i: Instruction) -> int:
    """How many launches and copies an instruction is, about."""
    if isinstance(i, For):
        return i.length * sum(map(_launches, i.body))
    return int(isinstance(i, (Call, Check, Copy)))


def _lines(nodes: Sequence[Node]) -> str:
    """Where nodes come from, as errors say it: a line or two."""
    lines = list(dict.fromkeys(filter(None, map(where, nodes))))
    return " and".join(lines[:2]) + (" and others" if len(lines) > 2 else "")


def _pointers(i: Instruction) -> int:
    """How many pointers a kernel or the host is given for an instruction."""
    if isinstance(i, Check):
        return POINTERS + len(i.values)
    return len(i.words()) if isinstance(i, Call) else len(places_of(i))


def _reads_index(i: For) -> bool:
    """Whether something in a loop reads its counter from memory."""
    return any(p.base == i.index.base for inner in walk(i.body) for p in places_of(inner))


class EmulatedWriter(LaunchWriter):
    """Launches through the emulator, which is part of the image."""

    declares: ClassVar[Sequence[str]] = (
        *LaunchWriter.declares,
        f"declare hidden i32 @{LAUNCH}(ptr, i64, i64, i64, i1, ptr, ptr)",
    )

    def declaration(self, name: str) -> str:
        return f"declare hidden void @{name}(ptr, ptr)"

    def parameter(self, number: int) -> V:
        return self.f.load("ptr", self.f.gep(self.bufs, 8 * number))

    def launch(self, code: KernelCode, given: V | None) -> None:
        name = self.kernels.name_of(code)
        meets = "true" if code.meets else "false"
        self.note(self.f.emit(I32, f"call i32 @{LAUNCH}(ptr @{name}, i64 {code.blocks}, i64 "
                                   f"{code.threads}, i64 {code.shared}, i1 {meets}, {self.stream}, "
                                   f"{given or self.bufs})"))


def _align(place: Place) -> int:
    """A number of bytes whose multiples the addresses of a place are, from a multiple of 256."""
    offset = place.offset
    if isinstance(place.base, Buffer):
        offset += place.base.offset
        if place.base.frame is not None:
            offset |= place.base.frame.nbytes | place.base.frame.whole.offset
    for _, step in place.steps:
        offset |= step
    return offset
