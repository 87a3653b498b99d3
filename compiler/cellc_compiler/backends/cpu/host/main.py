"""`cellc_main` with the pool: tasks of dear kernels and of loops go to its threads."""

from __future__ import annotations

from typing import ClassVar

from cellc_runtime.target import Target

from ....ir.dims import is_symbolic
from ....lower.instructions import Call, Check, Tasks
from ....lower.kernel import Kernel
from ...llvm.main import MAIN_PARAMS, FunctionWriter, Kernels, Params
from ...llvm.text import Function, V
from . import checks

PARALLEL_CYCLES = 25_000.0
"""Kernels of less work run on the calling thread: a fork and join costs about 2000 cycles."""


def is_parallel(kernel: Kernel) -> bool:
    """Whether a kernel's tasks go to the thread pool."""
    return kernel.ntasks > 1 and kernel.cost > PARALLEL_CYCLES


class PoolWriter(FunctionWriter):
    """Writes a function that shares out tasks."""

    declares: ClassVar = ("declare hidden void @cellc_parallel_for(ptr, ptr, i64, i64)",)

    def __init__(
        self, name: str, target: Target, kernels: Kernels, params: Params = MAIN_PARAMS
    ) -> None:
        super().__init__(name, target, kernels, params)
        self.in_task = False  # whether what is written is part of a task already

    def forks(self, kernel: Kernel) -> bool:
        """Whether a kernel is worth a fork, and the code is not part of a task already."""
        return is_parallel(kernel) and not self.in_task

    def run(self, i: Call, name: str) -> None:
        """The tasks of a call; whether they are shared out may follow from sizes."""
        f, kernel, function = self.f, i.kernel, V("ptr", f"@{name}")
        if self.in_task or not (is_symbolic(kernel.ntasks) or is_symbolic(kernel.cost)):
            super().run(i, name)
            return
        tasks, cost = f.i64(kernel.ntasks), kernel.cost
        cycles = f.size(cost) if is_symbolic(cost) else f.i64(int(cost))
        many = f.cmp("sgt", tasks, 1) & f.cmp("sgt", cycles, int(PARALLEL_CYCLES))
        f.when(many, lambda: self.fork(function, tasks), lambda: self.invoke(function, tasks))

    def fork(self, function: V, tasks: V) -> None:
        """The tasks of a kernel, through the pool."""
        self.f.line(f"call void @cellc_parallel_for({function}, {self.bufs}, {tasks}, i64 1)")

    def search(self, i: Check, at: V) -> V:
        """By a function that looks at many elements at once."""
        name = checks.search_name(i.bits)
        if all(h.name != name for h in self.helpers):
            self.helpers.append(checks.search(i.bits, self.target))
        f = self.f
        return f.emit("i64", f"call i64 @{name}({at}, {f.i64(i.count)}, {f.i64(i.low)}, "
                             f"{f.i64(i.high - i.low)})")

    def tasks(self, i: Tasks) -> None:
        """Trips shared out by the pool: a function of its own that does a range of them.

        It finds the arguments of this one, and the counters of the loops around, in a record.
        """
        outer, saved = self.f, (self.bufs, self.counters, self.args)
        kept = [*self.args.values(), *self.counters.values()]
        record = outer.alloca(8 * len(kept), 8)
        for k, v in enumerate(kept):
            outer.store(v, outer.gep(record, 8 * k))
        name = f"cellc_part_{self.parts}"
        self.parts += 1
        f = Function(name, [("ptr", "record"), ("i64", "lo"), ("i64", "hi")], self.target,
                     linkage="internal")
        self.f, self.in_task = f, True
        f.read_size = outer.read_size
        found = [f.load(v.ty, f.gep(f.arg("record"), 8 * k)) for k, v in enumerate(kept)]
        self.args = dict(zip(self.args, found, strict=False))
        self.counters = dict(zip(self.counters, found[len(self.args) :], strict=True))
        self.open(i.body)

        def trip(iv: V, _: list[V]) -> list[V]:
            self.counters[i.number] = iv
            self.block(i.body)
            return []

        f.loop(f.arg("lo"), f.arg("hi"), 1, [], trip)
        f.ret_()
        self.helpers.append(f)
        self.f, self.in_task = outer, False
        self.bufs, self.counters, self.args = saved
        length = outer.i64(i.length)
        outer.line(f"call void @cellc_parallel_for(ptr @{name}, {record}, {length}, i64 1)")
