"""Products and convolutions by Parameters that stay as they are: their weights are packed once.

The kernel of a product packs its weights in every call, which costs as much as the arithmetic of a
dozen rows. A Parameter that the same op has read several times and that nobody has written in
between becomes a bound parameter of a program of its own: what follows from it alone is computed
once, as in graph mode (`Executable.bind`), and it gives its array up to what is packed
(`storage/prepacked.py`). Reads of its elements get them; a write, a recording (a step of training
will write it) or other readers put an end to it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from cellc_compiler.ir.graph import Builder, Graph
from cellc_runtime.executable import Executable
from cellc_runtime.lazy import lazy_imports
from cellc_runtime.program import Program
from cellc_runtime.records import dataclass
from cellc_runtime.site import STATE

from ..core.dispatch import Attrs
from ..core.later import driver
from ..core.lru import LRU
from ..storage import Storage, storage_of, writes
from ..tensors.parameter import Parameter
from ..tensors.tensor import Tensor, Tensors, arrays_of
from .recorder import active_recordings, attrs_key

with lazy_imports(__name__):
    from ..storage import prepacked

OPS = {"matmul": 1, "dense": 1, "conv2d": 1}  # The ops whose kernels pack an operand, and which
_LEAST = {"matmul": 1 << 20, "dense": 1 << 20, "conv2d": 1 << 18}
"""Bytes of a weight from which on it is worth it: the way here takes ten microseconds, unless a
native site knows the call."""
_QUICK_CYCLES = 1e6  # A program of less work gets a place in the native site, which has few
_ROWS = range(1, 513)  # Rows of a product that are few enough for packing to count
_PATIENCE = 2  # Uses before one that packs for those that follow
_PROGRAMS = 256
_NEW: Any = object()
_KINDS = 8  # Kinds of calls (shapes of the other operand) that a Parameter is bound for at a time


@dataclass(slots=True)
class _Bound:
    """A kind of call by a Parameter."""

    version: int  # of the Parameter, since when `uses` are counted
    uses: int = 0
    executable: Executable | None = None
    # times it had been unpacked when the executable was bound, in this version of the weights
    unpacked: int = 0
    weights_version: int = -1


def suits(op: str, operands: Tensors) -> bool:
    """Whether packing what an op reads would be worth it if that were a Parameter."""
    w = operands[OPS[op]]._type
    if w.nbytes < _LEAST[op]:
        return False
    return op == "conv2d" or (w.rank == 2 and math.prod(operands[0].shape[:-1]) in _ROWS)


def concerns(op: str, operands: Tensors) -> bool:
    """Whether an op reads a Parameter that may be worth packing."""
    return type(operands[OPS[op]]) is Parameter and suits(op, operands)


def read_as_given(operands: Tensors) -> None:
    """An op reads these Parameters unpacked, so they would be needed besides their packed
    copies."""
    for t in operands:
        if type(t) is not Tensor and isinstance(t, Parameter) and t._type.nbytes >= 1 << 18:
            storage = storage_of(t)
            storage.read_plain = storage.version


def graph_of(op: str, operands: Tensors, attrs: Attrs, weight: int = -1) -> Graph:
    """The graph of one op; the operand number `weight` is its parameter."""
    graph = Graph(op)
    inputs = [graph.add_input(t._type, f"x{i}", "param" if i == weight else "input")
              for i, t in enumerate(operands)]
    out = Builder(graph).emit(op, *inputs, **attrs)
    graph.outputs = list(out) if isinstance(out, tuple) else [out]
    return graph


Learn = Callable[[str, Tensors, Mapping[str, Any], Executable, int, int], None]


class Prepacking:
    """Runs such ops by programs that are bound to Parameters.

    Args:
        learn: lets native sites answer calls like one, of a Parameter, in one version of the
            weights.
    """

    def __init__(self, learn: Learn) -> None:
        self._learn = learn
        self._programs: LRU[Any, Program | None] = LRU(_PROGRAMS)

    def repeated(self, op: str, operands: Tensors, attrs: Attrs) -> Any:
        """The array of the result of a call like one before, or None."""
        storage = operands[OPS[op]]._storage
        if storage is None or not storage.prepacked or active_recordings():
            return None
        x = operands[0]._data
        held = storage.prepacked.get((op, x.shape, x.dtype, len(operands), attrs_key(attrs)))
        if held is None or held.executable is None \
                or held.weights_version != writes.weights_version:
            return None
        out = held.executable.entry(x, *arrays_of(operands[2:]))
        self._offer(op, operands, attrs, held)
        return out

    def run(self, op: str, operands: Tensors, attrs: Attrs) -> Any:
        """The array of the result, or None to run the op the usual way."""
        p = operands[OPS[op]]
        storage = storage_of(p)
        if active_recordings() or storage.read_plain == storage.version:
            storage.prepacked = None
            return None
        x = operands[0]._data
        key = op, x.shape, x.dtype, len(operands), attrs_key(attrs)
        held = self._ready(p, storage, key, operands, attrs)
        if held is None:
            return None
        assert held.executable is not None
        out = held.executable.entry(x, *arrays_of(operands[2:]))
        self._offer(op, operands, attrs, held)
        return out

    def _offer(self, op: str, operands: Tensors, attrs: Attrs, held: _Bound) -> None:
        """Let the native site answer such calls."""
        executable = held.executable
        if executable is not None and executable.program.cost < _QUICK_CYCLES:
            writes.answered = True  # first: who begins to record now sees it, or is seen here
            if STATE.idle():
                self._learn(op, operands, attrs, executable, OPS[op], held.weights_version)

    def _ready(
        self, p: Tensor, storage: Storage, key: Any, operands: Tensors, attrs: Attrs
    ) -> _Bound | None:
        """Return a call's program, bound to the Parameter's present elements, if it is time for
        that."""
        weights_version, version, times = writes.weights_version, storage.version, storage.unpacked
        if storage.lent or p.init is not None or times >= prepacked.OFTEN:
            storage.prepacked = None
            return None
        table = storage.prepacked
        if table is None:
            table = storage.prepacked = {}
        held = table.get(key)
        if held is None or held.version != version:
            if held is not None:
                table.clear()
            held = table[key] = _Bound(version)
            while len(table) > _KINDS:
                del table[next(iter(table))]
        held.uses += 1
        executable = held.executable
        if executable is None:
            if held.uses <= _PATIENCE and not isinstance(storage.state, prepacked.Prepacked):
                return None
            program = self._program((*key, p._type), operands, attrs)
            if program is None:
                return None
            executable = Executable(program)
        elif held.unpacked == times:
            held.weights_version = weights_version
            return held
        executable.bind([prepacked.Weight(p)])
        # In this order: other threads may look.
        held.executable, held.unpacked = executable, times
        held.weights_version = weights_version
        return held

    def _program(self, key: Any, operands: Tensors, attrs: Attrs) -> Program | None:
        """The op with a Parameter for its weight; None where nothing follows from that alone, or
        what does would be needed beside it."""
        program = self._programs.get(key, _NEW)
        if program is _NEW:
            place = OPS[key[0]]
            program = driver.compile_program(graph_of(key[0], operands, attrs, place))
            if not program.unread or program.precomputed_bytes >= 2 * operands[place]._type.nbytes:
                program = None
            self._programs[key] = program
        return program
