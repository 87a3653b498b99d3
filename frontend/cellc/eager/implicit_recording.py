"""Runs that a gradient may follow: what `Cell.set_grad` is for, in PyNative mode.

With this option a Cell is recorded when it is called by itself. A gradient of that Cell for the
same arguments then continues from the recording and does not run `construct` again. It does so only
if nothing that is looked at has changed since: arguments and results (element by element),
Parameters, attributes of any Cell, options. A Cell whose recordings are not used stops making them
until a gradient of it is requested again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cellc_compiler.ir.types import seedable
from cellc_runtime.records import dataclass, field

from .. import context
from ..core import invalidation
from ..core.dispatch import active_tracer, scope
from ..core.module_names import plain
from ..tensors.tensor import Tensor, Tensors, alias_of, copy_of, elements_now
from ..tracing.pytree import Structure, put_together, take_apart
from .recorder import Recording, recording

_PATIENCE = 2  # Runs in a row that may be recorded for nothing
_NAME = "_remembered"


@dataclass(slots=True)
class Memory:
    """The memory of a Cell.

    Attributes:
        run: the last run, until a gradient has used it.
        unused: runs in a row that none has used.
    """

    run: Run | None = None
    unused: int = 0


@dataclass(slots=True)
class Run:
    """A recorded call.

    Attributes:
        structure, leaves: of the arguments; `before` are copies of the elements.
        numbers: what the recording calls the leaves that carry a gradient.
        weights: likewise of Parameters, by identity.
        out, results: structure and tensors of what it gave; `given` were given to the caller.
    """

    recording: Recording
    structure: Structure
    leaves: list[Tensor]
    numbers: Mapping[int, int]
    weights: dict[int, int]
    parameters: list[Any]
    out: Structure
    results: list[Tensor]
    given: list[Tensor] = field(default_factory=list)
    before: list[Any] = field(default_factory=list)
    state: Any = None

    def settle(self) -> None:
        """Note what must be the same when the run is used."""
        self.before = [copy_of(t) for t in (*self.leaves, *self.results)]
        self.state = _state(self.parameters)

    def serves(self, structure: Structure, leaves: Tensors) -> bool:
        """Whether a run with these arguments now would do the same."""
        return (
            structure == self.structure
            and all(a is b for a, b in zip(leaves, self.leaves, strict=True))
            and _state(self.parameters) == self.state
            and all(np.array_equal(_bits(t), _bits(old))
                    for t, old in zip((*self.leaves, *self.results), self.before, strict=True))
        )


def _bits(t: Tensor) -> Any:
    return np.ascontiguousarray(elements_now(t)).reshape(-1).view(np.uint8)


def _state(parameters: Sequence[Any]) -> Any:
    lent = any(p._is_lent for p in parameters)
    return (invalidation.count(), context.numerics(), scope(), None if lent else
            [(p._version, p.requires_grad) for p in parameters])


def call(cell: Any, run: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """`run(args, kwargs)`, the call of a Cell that is to be remembered."""
    memory: Memory | None = cell.__dict__.get(_NAME)
    if memory is None:
        memory = cell.__dict__[_NAME] = Memory()
    memory.run = None
    structure, leaves = take_apart((args, dict(kwargs)))
    if memory.unused >= _PATIENCE or any(t._hooks for t in leaves) or not leaves:
        return run(args, kwargs)
    memory.unused += 1
    own = [alias_of(t) for t in leaves]
    parameters = list(cell.get_parameters())
    with recording() as r:
        numbers = {i: r.track(t) for i, t in enumerate(own) if seedable(t._type)}
        weights = {id(p): r.track(p) for p in parameters if seedable(p._type)}
        out, results = take_apart(run(*put_together(structure, own)))
    given = [alias_of(t) for t in results]
    found = Run(r, structure, leaves, numbers, weights, parameters, out, results, given)
    found.settle()
    memory.run = found
    return put_together(out, given)


def wanted(cell: Any) -> bool:
    """Whether a call of a Cell is to be remembered (no recording, no graph is being made)."""
    return cell.requires_grad is True and active_tracer() is None


def take(fn: Any, structure: Structure, leaves: Tensors) -> Run | None:
    """The run of a Cell that a gradient can go on from; it serves once."""
    memory: Memory | None = plain(fn, "__dict__", {}).get(_NAME)
    if memory is None:
        return None
    memory.unused = 0
    run, memory.run = memory.run, None
    return run if run is not None and run.serves(structure, leaves) else None
