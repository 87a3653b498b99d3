"""`cellc_main`: the function that calls a graph's kernels in order; `cellc_ahead`: what is done
once, when parameters are bound.

A `FunctionWriter` runs the tasks of a kernel, and the trips of a loop of tasks, one after the
other; a back end with threads overrides `run` and `tasks`.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any, ClassVar

from cellc_runtime.abi import CALLBACK_FAILED, FIRST_CALLBACK, TABLE
from cellc_runtime.target import Target

from ...build.emit import QUICK
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
    Tasks,
    walk,
)
from ...lower.kernel import Kernel
from ...lower.memory import Buffer
from . import call_table
from .text import Function, V, module

Params = tuple[tuple[str, str], ...]
MAIN_PARAMS: Params = (("ptr", "slots"), ("ptr", "arena"), ("ptr", "consts"))
PRECOMPUTE_PARAMS: Params = (*MAIN_PARAMS, ("i64", "part"))

QUICK_LINES = 400
"""From this number of lines on the function is compiled quickly: it calls kernels, and they take
long. So is one without branches: it is the same code at all levels, give or take a register."""


class Kernels:
    """The distinct kernels that a program calls, by name."""

    def __init__(self) -> None:
        self.named: dict[str, Kernel] = {}
        self.names: dict[Any, str] = {}

    def name(self, kernel: Kernel) -> str:
        """The name of a kernel: equal text, equal name."""
        name = self.names.get(kernel.code)
        if name is None:
            name = "k_" + hashlib.sha256(str(kernel.code).encode()).hexdigest()[:20]
            self.names[kernel.code] = name
            self.named[name] = kernel
        return name


def write_main(
    instructions: list[Instruction], precompute: list[list[Instruction]], writer: FunctionWriter,
    other: FunctionWriter,
) -> str:
    """The module of `cellc_main`, by `writer`, and of `cellc_ahead`, by `other`, if anything runs
    `ahead`: the code that fills each block of kept memory."""
    functions = [writer.write(instructions)]
    if precompute:
        other.helpers, other.parts = writer.helpers, writer.parts  # of one module
        functions.append(other.write_parts(precompute))
    declares = [writer.declaration(name) for name in writer.kernels.named]
    declares += writer.declares
    table = f"@{TABLE} = external hidden global [0 x ptr]"
    if table not in declares and any(isinstance(i, Callback) for i in walk(instructions)):
        declares.append(table)
    text = module([*functions, *writer.helpers], "\n".join(declares))
    lines = writer.calling_lines + sum(len(f.lines) for f in functions)
    straight = not any(" br " in line for f in (*functions, *writer.helpers) for line in f.lines)
    return QUICK + text if straight or lines > QUICK_LINES else text


class FunctionWriter:
    """Writes `NAME(slots, arena, consts)`, or a function of more parameters.

    Attributes:
        helpers: other functions of the module that it calls.
        calling_lines: of those of them that call kernels, too.
    """

    spare = 0  # Pointers more than its buffers that a kernel is given
    declares: ClassVar[Sequence[str]] = ()  # Of functions of the back end's own that it calls
    tabulates = True  # Whether long runs of calls become tables
    sizes_at: int | None = None  # See `reads_sizes`

    def __init__(
        self, name: str, target: Target, kernels: Kernels, params: Params = MAIN_PARAMS
    ) -> None:
        self.helpers: list[Function] = []
        self.f = Function(name, list(params), target, ret="i32")
        self.target = target
        self.kernels = kernels
        self.counters: dict[int, V] = {}
        self.parts = self.tables = self.calling_lines = 0
        self.args = {name: self.f.arg(name) for _, name in params}

    def reads_sizes(self, at: int | None) -> None:
        """Sizes are in a table, `at` bytes into the constants; None: all are known."""
        self.sizes_at = at
        if at is not None:
            self.f.read_size, self.tabulates = self.read_size, False

    def read_size(self, place: int) -> V:
        """Write the load of a size."""
        assert self.sizes_at is not None
        return self.f.load("i64", self.f.gep(self.args["consts"], self.sizes_at + 8 * place))

    def write(self, instructions: list[Instruction]) -> Function:
        """The function that runs these instructions."""
        self.open(instructions)
        self.block(instructions)
        self.finish()
        return self.f

    def finish(self) -> None:
        """The end: nothing was wrong."""
        self.f.ret_(V("i32", "0"))

    def declaration(self, name: str) -> str:
        """Of a kernel."""
        return f"declare hidden void @{name}(ptr, i64, i64)"

    def write_parts(self, parts: Sequence[list[Instruction]]) -> Function:
        """The function that runs the part whose number is the parameter `part`."""
        f = self.f
        self.open([i for part in parts for i in part])
        if self.tabulates and len(parts) >= call_table.LEAST and all(
                map(call_table.fits_table, chain(*parts))):
            self._table_of_parts(parts)
            return f
        for number, part in enumerate(parts):
            chosen = f.cmp("eq", f.arg("part"), number)
            f.when(chosen, functools.partial(self.block, part))
        self.finish()
        return f

    def _table_of_parts(self, parts: Sequence[list[Instruction]]) -> None:
        """All parts as one table, and where each begins."""
        f, table, starts = self.f, call_table.CallTable(self, f"{self.f.name}_calls"), [0]
        for part in parts:
            table.add(part)
            starts.append(len(table.rows))
        at = f.gep(f.constant_table(f"{f.name}_parts", "i64", starts), f.arg("part"), "i64")
        table.run(f.load("i64", at), f.load("i64", f.gep(at, 1, "i64")))
        f.ret_(V("i32", "0"))

    def open(self, instructions: list[Instruction]) -> None:
        """Make room for the pointers of a call."""
        most = max((len(i.words()) if isinstance(i, Call) else len(i.places)
                    for i in walk(instructions) if isinstance(i, (Call, Callback))), default=0)
        ahead = self.sizes_at is not None
        self.bufs = self.f.alloca(max(most + self.spare + ahead, 1) * 8)
        if self.sizes_at is not None:  # kernels find the table before their buffers
            self.f.store(self.f.gep(self.args["consts"], self.sizes_at), self.bufs)
            self.bufs = self.f.gep(self.bufs, 8)

    def block(self, instructions: Sequence[Instruction]) -> None:
        """Write instructions in order, long runs of calls as tables."""
        if not self.tabulates:
            self.straight(instructions)
            return
        for is_table, part in call_table.parts_of_block(instructions):
            if is_table:
                self.tables += 1
                table = call_table.CallTable(self, f"{self.f.name}_calls_{self.tables}")
                table.add(part)
                table.run(0, len(table.rows))
            else:
                self.straight(part)

    def straight(self, instructions: Sequence[Instruction]) -> None:
        """Write instructions in order."""
        for i in instructions:
            if isinstance(i, Call):
                self.call(i)
            elif isinstance(i, Copy):
                self.copy(i)
            elif isinstance(i, Callback):
                self.callback(i)
            elif isinstance(i, Check):
                self.check(i)
            elif isinstance(i, If):
                self.branch(i)
            elif isinstance(i, Loop):
                self.loop(i)
            elif isinstance(i, Tasks):
                self.tasks(i)
            else:
                self.count(i)

    def pointer(self, place: Place) -> V:
        """The address of a place."""
        f = self.f
        if isinstance(place.base, Buffer):
            frame, at = place.base.frame, place.base.offset + place.offset
            p = f.gep(self.args["arena"], at + frame.whole.offset if frame else at)
            if frame is not None:
                p = f.gep(p, self.counters[frame.number] * frame.nbytes)
        elif place.base == "const":
            p = f.gep(self.args["consts"], place.offset)
        else:
            assert isinstance(place.base, int)
            # Loaded where it is used: hundreds of pointers held from the start would all be
            # spilled, and LLVM's time grows with the square of what is alive.
            slot = f.load("ptr", f.gep(self.args["slots"], place.base, "ptr"))
            p = f.gep(slot, place.offset)
        for number, step in place.steps:
            p = f.gep(p, self.counters[number] * step)
        return p

    def fill(self, words: Sequence[Place | int]) -> None:
        """Store the pointers of a call (and the numbers of a table)."""
        f = self.f
        for k, word in enumerate(words):
            value = self.f.i64(word) if isinstance(word, int) else self.pointer(word)
            f.store(value, f.gep(self.bufs, k, "ptr"))

    def call(self, i: Call) -> None:
        """A kernel."""
        self.fill(i.words())
        self.run(i, self.kernels.name(i.kernel))

    def run(self, i: Call, name: str) -> None:
        """The tasks of a call, by the function `name`."""
        how = self.fork if self.forks(i.kernel) else self.invoke
        how(V("ptr", f"@{name}"), self.f.i64(i.kernel.ntasks))

    def forks(self, kernel: Kernel) -> bool:
        """Whether the tasks of a kernel are shared out."""
        return False

    def fork(self, function: V, tasks: V) -> None:
        """Share out the tasks of a kernel."""
        self.invoke(function, tasks)

    def invoke(self, function: V, tasks: V) -> None:
        """All tasks of a kernel, here."""
        self.f.line(f"call void {function.ref}({self.bufs}, i64 0, {tasks})")

    def copy(self, i: Copy) -> None:
        """Bytes."""
        self.move(self.pointer(i.to), self.pointer(i.source), i.nbytes)

    def move(self, to: V, source: V, nbytes: V | int) -> None:
        """memcpy."""
        count = nbytes if isinstance(nbytes, V) else self.f.i64(nbytes)
        self.f.declares.add("declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)")
        self.f.line(f"call void @llvm.memcpy.p0.p0.i64({to}, {source}, {count}, i1 false)")

    def callback(self, i: Callback) -> None:
        """A host callback. One that fails ends the program: what it was to give is not there."""
        self.fill(i.places)
        self.call_host(i, lambda: None)

    def call_host(self, i: Callback, failed: Callable[[], None]) -> None:
        """Call the host with the pointers that were filled in; `failed` is done before the end."""
        f = self.f
        entry = f.gep(V("ptr", f"@{TABLE}"), FIRST_CALLBACK + i.number, "ptr")
        fn = f.load("ptr", entry)
        rc = f.emit("i32", f"call i32 {fn.ref}({self.bufs})")

        def stop() -> V:
            failed()
            return V("i32", str(CALLBACK_FAILED))

        f.return_unless(f.cmp("eq", rc, 0), stop)

    def check(self, i: Check) -> None:
        """Return the number of a message, its values put aside, if an element is not allowed."""
        f, ty = self.f, f"i{i.bits}"
        at = self.pointer(i.checked)
        if i.count == 1:
            position = f.i64(0)
            low, width = f.const(ty, i.low), f.const(ty, i.high - i.low)
            good = f.cmp("ult", f.load(ty, at) - low, width)
        else:
            position = self.search(i, at)
            good = f.cmp("eq", position, i.count)

        def fail() -> V:
            element = f.load(ty, f.gep(at, position, ty))
            shown = self.pointer(i.shown)
            f.store(f.cast("sext" if i.signed else "zext", element, "i64"), shown)
            offset = 8
            for place, nbytes in i.values:
                self.move(f.gep(shown, offset), self.pointer(place), nbytes)
                offset += -(-nbytes // 8) * 8
            return V("i32", str(i.number))

        f.return_unless(good, fail)

    def search(self, i: Check, at: V) -> V:
        """The number of the first element that is not allowed, or how many there are."""
        f, ty = self.f, f"i{i.bits}"
        low, width = f.const(ty, i.low), f.const(ty, i.high - i.low)
        return first_outside(f, at, f.i64(i.count), low, width, f.i64(0))

    def _flag(self, place: Place) -> V:
        f = self.f
        return f.cmp("ne", f.load("i8", self.pointer(place)), 0)

    def branch(self, i: If) -> None:
        """if / else."""
        self.f.when(self._flag(i.pred), lambda: self.block(i.then), lambda: self.block(i.other))

    def loop(self, i: Loop) -> None:
        """while."""

        def test(_: list[V]) -> V:
            self.block(i.test)
            return self._flag(i.pred)

        def body(_: list[V]) -> list[V]:
            self.block(i.body)
            return []

        self.f.while_([], test, body)

    def count(self, i: For) -> None:
        """for."""
        f = self.f
        trips: V | int = i.length
        if i.limit is not None:  # never more than there are rows
            limit, length = self.limit(i), f.i64(i.length)
            trips = f.select(f.cmp("slt", limit, length), limit, length)
        self.begin_index(i)

        def body(iv: V, _: list[V]) -> list[V]:
            last = trips - 1 if isinstance(trips, V) else f.i64(trips - 1)
            step = last - iv if i.reverse else iv
            self.counters[i.number] = step
            self.put_index(step, i)
            self.block(i.body)
            return []

        f.loop(0, trips, 1, [], body)

    def limit(self, i: For) -> V:
        """The most trips that a loop may make, an i64."""
        assert i.limit is not None
        return self.f.load("i64", self.pointer(i.limit))

    def begin_index(self, i: For) -> None:
        """Prepare the counter of a loop before its first trip."""

    def put_index(self, step: V, i: For) -> None:
        """Store the counter of a loop, at the beginning of a trip."""
        self.f.store(step, self.pointer(i.index))

    def tasks(self, i: Tasks) -> None:
        """Trips in any order."""
        def trip(iv: V, _: list[V]) -> list[V]:
            self.counters[i.number] = iv
            self.block(i.body)
            return []

        self.f.loop(0, i.length, 1, [], trip)


def first_outside(f: Function, p: V, n: V, low: V, width: V, start: V) -> V:
    """The first i from `start` at which `p[i] - low` is not below `width` (unsigned), or n."""
    def good(c: list[V]) -> V:
        """Whether element i is there and allowed."""
        (found,) = f.when(f.cmp("slt", c[0], n), lambda: [f.cmp("ult",
            f.load(low.ty, f.gep(p, c[0], low.ty)) - low, width),], lambda: [V("i1", "false")])
        return found

    (found,) = f.while_([start], good, lambda c: [c[0] + 1])
    return found
