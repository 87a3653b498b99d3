"""A `cellc_main` that records when each kernel ran, and each task of a parallel one on its thread.

Records follow the temporaries in the arena: a header with their number, then one of five 64-bit
integers each: call, task (-1: the whole call), start and end in ticks of the processor's clock, and
an address on the stack of the thread that ran it, which identifies the thread.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from cellc_runtime.abi import MAIN
from cellc_runtime.target import Target

from ....ir.dims import is_symbolic
from ....lower.instructions import Call, Callback, Copy, For, If, Instruction, Loop, Tasks
from ....lower.memory import ALIGN
from ...base import RECORD_BYTES
from ...llvm.main import Kernels
from ...llvm.text import Function, V
from .main import PoolWriter, is_parallel

MOST = 1 << 18  # Records kept of one call; what comes after them is counted only
_TRIPS = 64  # Trips assumed of a loop whose number is not known

_FIELDS = ("number", "task", "start", "end")


class ProfilingWriter(PoolWriter):
    """Writes a `cellc_main` that records.

    Args:
        arena: bytes of temporaries; records follow them.
        target: what the code is for.
        kernels: see `write_main`.
    """

    spare = 1
    tabulates = False

    def __init__(
        self, instructions: Sequence[Instruction], arena: int, target: Target, kernels: Kernels
    ) -> None:
        super().__init__(MAIN, target, kernels)
        self.calls: list[Call | Copy | Callback] = []  # what call numbers in the records mean
        count = _records(instructions)
        self.capacity = MOST if is_symbolic(count) else min(count, MOST)
        # offset of the records in the arena; `arena` the bytes of both
        self.start = -(-arena // ALIGN) * ALIGN
        self.arena = self.start + RECORD_BYTES * (self.capacity + 1)

    def write(self, instructions: list[Instruction]) -> Function:
        """The function that runs and records these instructions."""
        self.f.store(V("i64", "0"), self.records())
        self.helpers.append(self._recorder())
        return super().write(instructions)

    def records(self) -> V:
        """Where the records are."""
        return self.f.gep(self.args["arena"], self.start)

    def run(self, i: Call, name: str) -> None:
        """The tasks of a call, each recorded where the pool runs them."""
        number = len(self.calls)
        if self.forks(i.kernel):
            self.f.store(self.records(), self.f.gep(self.bufs, len(i.words()), "ptr"))
            name = self._task(number, name, len(i.words()))
        with self._recorded(i):
            super().run(i, name)

    def copy(self, i: Copy) -> None:
        """memcpy, recorded."""
        with self._recorded(i):
            super().copy(i)

    def callback(self, i: Callback) -> None:
        """A host callback, recorded."""
        with self._recorded(i):
            super().callback(i)

    @contextmanager
    def _recorded(self, i: Call | Copy | Callback) -> Iterator[None]:
        """Record the code written within as the whole of an instruction."""
        number = V("i64", str(len(self.calls)))
        self.calls.append(i)
        start = _now(self.f, self.target)
        yield
        self._record(self.f, self.records(), number, V("i64", "-1"), start)

    def _task(self, number: int, kernel: str, buffers: int) -> str:
        """A kernel of the same tasks that records them."""
        name = f"cellc_task_{number}"
        f = Function(name, [("ptr", "bufs"), ("i64", "lo"), ("i64", "hi")], self.target,
                     linkage="internal")
        start = _now(f, self.target)
        f.line(f"call void @{kernel}({f.arg('bufs')}, {f.arg('lo')}, {f.arg('hi')})")
        records = f.load("ptr", f.gep(f.arg("bufs"), buffers, "ptr"))
        self._record(f, records, V("i64", str(number)), f.arg("lo"), start)
        f.ret_()
        self.helpers.append(f)
        return name

    def _record(self, f: Function, records: V, number: V, task: V, start: V) -> None:
        end = _now(f, self.target)
        f.line(f"call void @cellc_record({records}, {number}, {task}, {start}, {end})")

    def _recorder(self) -> Function:
        params = [("ptr", "records"), *(("i64", name) for name in _FIELDS)]
        f = Function("cellc_record", params, self.target, linkage="internal", attributes="noinline")
        mark = f.alloca(8, 8)
        place = f.emit("i64", f"atomicrmw add {f.arg('records')}, i64 1 monotonic")

        def keep() -> None:
            at = f.gep(f.arg("records"), (place + 1) * RECORD_BYTES)
            for k, name in enumerate(_FIELDS):
                f.store(f.arg(name), f.gep(at, 8 * k))
            f.store(f.cast("ptrtoint", mark, "i64"), f.gep(at, 8 * len(_FIELDS)))

        f.when(f.cmp("ult", place, self.capacity), keep)
        f.ret_()
        return f


def _now(f: Function, target: Target) -> V:
    """The processor's clock: constant rate, readable in user mode, the same on all processors."""
    name = "readcyclecounter" if target.triple.startswith("x86_64") else "readsteadycounter"
    f.declares.add(f"declare i64 @llvm.{name}()")
    return f.emit("i64", f"call i64 @llvm.{name}()")


def _records(instructions: Sequence[Instruction]) -> int:
    count = 0
    for i in instructions:
        if isinstance(i, Call):
            count += 1 + (i.kernel.ntasks if is_parallel(i.kernel) else 0)
        elif isinstance(i, If):
            count += _records(i.then) + _records(i.other)
        elif isinstance(i, (For, Tasks)):
            count += i.length * _records(i.body)
        elif isinstance(i, Loop):
            count += _TRIPS * (_records(i.test) + _records(i.body))
        else:
            count += 1
    return count
