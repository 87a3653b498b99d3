"""Gradients that pass through one more computation before anybody gets them: sums over processes.

A Cell that trains on its part of a batch says so of its Parameters while it is recorded
(`Recording.reduce_by`). The reduction is a function of the gradients, run after the backward pass;
where that is compiled, the function is traced into the same program, so that sums start as soon as
their gradients are there and run in parallel to the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Protocol

from cellc_compiler.ir.graph import Value
from cellc_compiler.ir.types import TensorType
from cellc_runtime.records import dataclass

from ..core.dispatch import tracing
from ..tensors.tensor import Grads, Tensor, Tensors
from ..tracing.tracer import GraphTensor, Tracer


@dataclass(frozen=True, eq=False, slots=True)
class Reduction:
    """The reduction of some gradients of one backward pass."""

    places: Sequence[int]  # which of the gradients asked for they are
    key: Any  # all that `run` depends on, besides the types of gradients and state
    state: Tensors  # further tensors that it reads
    # (gradients, None where there is no path; state) -> a gradient for each
    run: Callable[[Grads, Tensors], Sequence[Tensor]]
    keep: Callable[[Tensors], object]  # gets these gradients


class Reducer(Protocol):
    """An object that reduces gradients of its tensors."""

    def reduction(
        self, chosen: Mapping[int, int], reads: Callable[[], Sequence[int]]
    ) -> Reduction:
        """Return the reduction of the gradients of some of its tensors.

        Args:
            chosen: which of its tensors, and which of the gradients asked for are theirs.
            reads: gives for each of all its tensors the number of the step that reads it first,
                the number of all steps where none does.
        """


def states_of(reductions: Sequence[Reduction]) -> Iterator[Tensor]:
    """Return the tensors they read besides gradients, in the order of the corresponding inputs."""
    return chain.from_iterable(r.state for r in reductions)


def traced(
    tracer: Tracer, reductions: Sequence[Reduction], grads: Sequence[Value | None]
) -> list[Value | None]:
    """Return the reductions as nodes at the end of a backward graph; their state becomes its next
    inputs."""
    given = [[tracer.input(TensorType(t.shape, t.dtype), f"state{i}.{k}")
              for k, t in enumerate(r.state)] for i, r in enumerate(reductions)]
    tensors = [None if g is None else GraphTensor(g) for g in grads]
    with tracing(tracer):
        found = _through(reductions, tensors, given)
        return [None if t is None else tracer.lift(t) for t in found]


def applied(reductions: Sequence[Reduction], grads: Grads) -> list[Tensor | None]:
    """The gradients reduced, op by op."""
    return kept(reductions, _through(reductions, grads, [r.state for r in reductions]))


def kept(reductions: Sequence[Reduction], grads: Grads) -> list[Tensor | None]:
    """Reduced gradients, that have been shown to those who keep them."""
    for r in reductions:
        r.keep([t for t in map(grads.__getitem__, r.places) if t is not None])
    return list(grads)


def _through(
    reductions: Sequence[Reduction], grads: Grads, states: Sequence[Tensors]
) -> list[Tensor | None]:
    out = list(grads)
    for r, state in zip(reductions, states, strict=True):
        for place, new in zip(r.places, r.run([out[p] for p in r.places], state), strict=True):
            out[place] = new
    return out
