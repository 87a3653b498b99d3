"""Calls of library functions that come to several ops, as one program.

`cross_entropy` of a small batch is six ops and a check; the work of each takes less time than
calling it. Where such a call is repeated again and again, a program of all its ops answers it. The
bits are those of the ops run one by one, by the law of two modes. While a gradient is recorded,
another program gives what every op gave, and the recording sees the ops.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from cellc_compiler.ir.graph import Builder, Graph, Value
from cellc_compiler.ir.op import lookup
from cellc_runtime.executable import Executable
from cellc_runtime.records import dataclass
from cellc_runtime.site import Taped

from ..core.later import driver
from ..tensors.tensor import Tensor, Tensors

if TYPE_CHECKING:
    from .recorder import Applied
    from .sites import Call

_SMALL = 1 << 16
"""Elements of the largest tensor: beyond it, calls cost little compared with the work."""


@dataclass(frozen=True, eq=False, slots=True)
class Composite:
    """The record of such a call for recordings."""

    # ops in order: the op, the places of its operands, that of its first result and how many
    # results it has (None: one, which is no tuple). Places count the operands of the call, then
    # `constants`, then what the program gives.
    steps: tuple[tuple[Applied, tuple[int, ...], int, int | None], ...]
    constants: tuple[Tensor, ...]

    def events(self, result: Any, operands: Tensors) -> Iterator[tuple[Any, ...]]:
        """The events of its ops, as a tape has them."""
        given = result if type(result) is tuple else (result,)
        pool = (*operands, *self.constants, *given)
        for info, reads, first, count in self.steps:
            made = pool[first] if count is None else pool[first : first + count]
            yield info, made, *[pool[i] for i in reads]


@dataclass(frozen=True, slots=True)
class Made:
    """The programs of such a call, and their record for recordings."""

    executable: Executable
    taped: Taped | None
    info: Composite


def small(calls: Sequence[Call]) -> bool:
    """Whether what these ops take and give is so small that calling them is what costs."""
    return all(t._data.size <= _SMALL for c in calls for t in (*c.operands, *c.results()))


def expressible(calls: Sequence[Call], args: Tensors, constant: Any) -> bool:
    """Whether all that these ops read are arguments, results of one another and constants."""
    known = {id(t) for t in args}
    for c in calls:
        op = lookup(c.info.op)
        if c.info.regions or (op.effect and c.info.op != "check"):
            return False
        if not all(id(t) in known or constant(t) for t in c.operands):
            return False
        known.update(id(t) for t in c.results())
    return True


def make(calls: Sequence[Call], args: Tensors, out: Any) -> Made | None:
    """The programs of a call; None where the interpreter has no native entries.

    Args:
        calls: `expressible`.
        args: the tensors it was given.
        out: what it gave: one of the results, or a tuple of several.
    """
    executable = _program(calls, args, out if type(out) is tuple else (out,))
    if executable is None:
        return None
    made = [t for c in calls for t in c.results()]
    known = {id(t) for t in (*args, *made)}
    constants = tuple({id(t): t for c in calls for t in c.operands if id(t) not in known}.values())
    taped = None
    if type(out) is not tuple:
        # While a gradient is recorded: what every op gave.
        every = _program(calls, args, made)
        place = next(i for i, t in enumerate(made) if t is out)
        if every is not None:
            taped = Taped(every, place if len(made) > 1 else -1)
    return Made(executable, taped, Composite(_steps(calls, [*args, *constants, *made]), constants))


def _program(calls: Sequence[Call], args: Tensors, wanted: Tensors) -> Executable | None:
    """All ops of a call as one program that gives these tensors."""
    graph = Graph("composite")
    b = Builder(graph)
    values: dict[int, Value] = {id(t): graph.add_input(t._type, f"x{i}")
                                for i, t in enumerate(args)}
    for c in calls:
        for t in c.operands:
            if id(t) not in values:
                values[id(t)] = b.literal(t._data, t.dtype)
        out = b.emit(c.info.op, *(values[id(t)] for t in c.operands), **c.info.attrs)
        results = out if isinstance(out, tuple) else (out,)
        values.update(zip(map(id, c.results()), results, strict=True))
    graph.outputs = [values[id(t)] for t in wanted]
    executable = Executable(driver.compile_program(graph))
    return None if executable.native is None else executable


def _steps(
    calls: Sequence[Call], pool: Tensors
) -> tuple[tuple[Applied, tuple[int, ...], int, int | None], ...]:
    places = {id(t): i for i, t in enumerate(pool)}
    out = []
    for c in calls:
        if c.results():  # (a check gives nothing)
            first = places[id(c.results()[0])]
            count = len(c.result) if type(c.result) is tuple else None
            out.append((c.info, tuple(places[id(t)] for t in c.operands), first, count))
    return tuple(out)
