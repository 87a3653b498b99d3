"""Calls of library functions that come to several ops, as one program.

`cross_entropy` of a small batch is six ops and a check; the work of each takes less time than
calling it. Where such a call is made again and again, a program of all its ops answers it. The bits
are those of the ops run one by one, by the law of two modes. While a gradient is recorded, another
program gives what every op gave, and the recording sees the ops.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from cellc_compiler.ir.graph import Builder, Graph, Value
from cellc_compiler.ir.op import lookup
from cellc_runtime.executable import Executable
from cellc_runtime.lazy import lazy_module
from cellc_runtime.records import dataclass
from cellc_runtime.site import Taped

from ..tensors.tensor import Tensor

if TYPE_CHECKING:
    from cellc_compiler import driver

    from .recorder import Applied
    from .sites import Call
else:
    driver = lazy_module("cellc_compiler.driver")

_SMALL = 1 << 16
"""Elements of the largest tensor: beyond it, calls cost little beside the work."""


@dataclass(frozen=True, eq=False, slots=True)
class Composite:
    """What a recording is told of such a call.

    Attributes:
        steps: ops in order: the op, the places of its operands, that of its first result and how
            many results it has (None: one, which is no tuple). Places count the operands of the
            call, then `constants`, then what the program gives.
    """

    steps: tuple[tuple[Applied, tuple[int, ...], int, int | None], ...]
    constants: tuple[Tensor, ...]

    def events(self, result: Any, operands: Sequence[Tensor]) -> Iterator[tuple[Any, ...]]:
        """The events of its ops, as a tape has them."""
        given = result if type(result) is tuple else (result,)
        pool = (*operands, *self.constants, *given)
        for info, reads, first, count in self.steps:
            made = pool[first] if count is None else pool[first : first + count]
            yield info, made, *[pool[i] for i in reads]


@dataclass(frozen=True, slots=True)
class Made:
    """The programs of such a call, and what its recordings are told."""

    executable: Executable
    taped: Taped | None
    info: Composite


def small(calls: Sequence[Call]) -> bool:
    """Whether what these ops take and give is so small that calling them is what costs."""
    return all(t._data.size <= _SMALL for c in calls for t in (*c.operands, *c.results()))


def expressible(calls: Sequence[Call], args: Sequence[Tensor], constant: Any) -> bool:
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


def make(calls: Sequence[Call], args: Sequence[Tensor], out: Any) -> Made | None:
    """The programs of a call; None where the interpreter has no native entries.

    Args:
        calls: `expressible`.
        args: the tensors it was given.
        out: what it gave: one of the results, or a tuple of several.
    """
    wanted = out if type(out) is tuple else (out,)
    graph, values = _graph(calls, args)
    graph.outputs = [values[id(t)] for t in wanted]
    executable = Executable(driver.compile_program(graph))
    if executable.native is None:
        return None
    made = [t for c in calls for t in c.results()]
    constants = _constants(calls, {id(t) for t in (*args, *made)})
    taped = _taped(calls, args, made, out) if type(out) is not tuple else None
    return Made(executable, taped, Composite(
        _steps(calls, [*args, *constants, *made]), tuple(constants)))


def _graph(
    calls: Sequence[Call], args: Sequence[Tensor]
) -> tuple[Graph, dict[int, Value]]:
    graph = Graph("composite")
    b = Builder(graph)
    values = {id(t): graph.add_input(t._type, f"x{i}") for i, t in enumerate(args)}
    for c in calls:
        for t in c.operands:
            if id(t) not in values:
                values[id(t)] = b.literal(t._data, t.dtype)
        out = b.emit(c.info.op, *(values[id(t)] for t in c.operands), **c.info.attrs)
        results = out if isinstance(out, tuple) else (out,)
        values.update(zip(map(id, c.results()), results, strict=True))
    return graph, values


def _taped(
    calls: Sequence[Call], args: Sequence[Tensor], made: Sequence[Tensor], out: Tensor
) -> Taped | None:
    graph, values = _graph(calls, args)
    graph.outputs = [values[id(t)] for t in made]
    executable = Executable(driver.compile_program(graph))
    if executable.native is None:
        return None
    place = next(i for i, t in enumerate(made) if t is out)
    return Taped(executable, place if len(made) > 1 else -1)


def _constants(calls: Sequence[Call], known: set[int]) -> list[Tensor]:
    found = {id(t): t for c in calls for t in c.operands if id(t) not in known}
    return list(found.values())


def _steps(
    calls: Sequence[Call], pool: Sequence[Tensor]
) -> tuple[tuple[Applied, tuple[int, ...], int, int | None], ...]:
    places = {id(t): i for i, t in enumerate(pool)}
    out = []
    for c in calls:
        if c.results():  # (a check gives nothing)
            first = places[id(c.results()[0])]
            count = len(c.result) if type(c.result) is tuple else None
            out.append((c.info, tuple(places[id(t)] for t in c.operands), first, count))
    return tuple(out)
