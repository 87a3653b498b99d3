"""`vjp`: the outputs of a function, and a pullback that goes back through this very run.

While a graph is traced, the graph of the gradient is split where the cotangents come in: the first
part is computed with the outputs, the pullback appends the second. In graph mode these are two
programs, and the first gives what the second reads. In PyNative mode the function is recorded. Its
effects (assignments, draws, prints) happen once, however often the pullback is called.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from cellc_compiler.ir.graph import Graph
from cellc_runtime.records import dataclass, field

from .. import context
from ..calls.bprop import check_like
from ..calls.replay import replay
from ..compiled.entries import EntryTable
from ..core.dispatch import active_tracer
from ..core.later import autodiff
from ..eager.recorder import Recording, active_recordings, stand_for
from ..tensors.parameter import Parameter
from ..tensors.tensor import Tensor, Tensors, copy_of
from ..tracing.pytree import put_together, take_apart
from ..tracing.tracer import GraphTensor, Tracer
from .gradient import (
    Computed,
    GradFunction,
    Inner,
    Request,
    check_flags,
    check_function,
    checked_weights,
    hooked,
    leaves_at,
    make_request,
    recorded,
    shaped,
    share_hooks,
    traced_run,
)
from .jacobian import Outputs, Transformed, tensors_of

Found = tuple[Any, tuple[Any, ...], Callable[[Any], Computed]]
"""The differentiated outputs, the others, and what maps cotangents to gradients."""


def vjp(fn: Any, *inputs: Any, weights: Any = None, has_aux: bool = False) -> Any:
    """The outputs of `fn` and a function that takes cotangents back through it.

    Args:
        fn: a Cell or function of tensors that gives a Tensor or a tuple of them.
        inputs: its arguments.
        weights: Parameters to differentiate with respect to as well, or None.
        has_aux: only the first output is differentiated; the others are returned as a third
            result (as they are if there is one, else as a tuple).

    Returns:
        The outputs; a function that takes a cotangent for each of them and gives a tuple of the
        cotangents of the inputs, and with `weights` a pair of those and those of the weights. It
        goes by the values of this call: `fn` does not run again.

    Raises:
        ValueError: with has_aux, one output only.
    """
    check_function(fn)
    check_flags("The ", has_aux=has_aux)
    if not inputs:
        raise TypeError("For 'vjp', 'fn' must take at least one input, but none is given.")
    args = tensors_of("vjp", "inputs", inputs)
    listed = weights if isinstance(weights, Parameter) else checked_weights(weights)
    function = _cotangents(fn, listed, has_aux)
    if active_tracer() is None and (active_recordings() or not context.in_graph_mode()):
        value, aux, pull = _recorded(function.request, args)
    else:
        value, aux, pull = _split(function, args)
    return (value, Pullback(function, pull, value), *aux)


@lru_cache(maxsize=64)
def _cotangents(fn: Any, weights: Any, has_aux: bool) -> GradFunction:
    request = make_request(fn, 0, weights, has_aux, True)
    request.all_inputs, request.single, request.positions = True, False, None
    return GradFunction(request, False, drop_aux=True)


class Pullback:
    """The second result of `vjp`: maps cotangents of the outputs to those of the inputs."""

    def __init__(
        self, function: GradFunction, pull: Callable[[Tensors], Computed], value: Any
    ) -> None:
        self.function = function
        self.pull = pull
        self.value = value

    def __call__(self, *v: Any) -> Any:
        if len(v) == 1 and isinstance(v[0], (tuple, list)):
            v = tuple(v[0])
        outputs = self.value if isinstance(self.value, tuple) else (self.value,)
        given = tensors_of("vjp", "v", v)
        if len(given) != len(outputs):
            raise ValueError(f"For 'vjp', the function takes a cotangent for each output: "
                             f"{len(outputs)}, but got {len(given)}.")
        for i, (t, o) in enumerate(zip(given, outputs, strict=True)):
            check_like(f"For 'vjp', cotangent {i}", t, o, "the output", ".")
        return self.function.arranged(self.pull(given))


# --- recorded ------------------------------------------------------------------------------------


def _recorded(request: Request, args: tuple[Tensor, ...]) -> Found:
    """In PyNative mode."""
    positions = tuple(range(len(args)))
    structure, leaves = take_apart((args, {}))
    chosen, weights = leaves_at(structure, positions), request.weights or ()
    run = recorded(request, structure, leaves, chosen)
    r = run.recording
    out = Outputs("vjp", put_together(run.out, run.results), request.has_aux)
    seeds = [r.value_of(t) for t in out.seeded]
    numbers = [*(run.numbers[i] for i in chosen), *(run.weights[id(p)] for p in weights)]
    kept = _keep_inputs(r)
    given = [_copied(t) for t in out.tensors]

    def pull(cotangents: Tensors) -> Computed:
        for copy, source in kept:
            share_hooks(copy, source)
        grads = r.gradients_of(seeds, cotangents, numbers)
        return shaped(request, positions, args, leaves, chosen, grads, None)

    return out.value(given), out.aux(given), pull


def _keep_inputs(r: Recording) -> list[tuple[Tensor, Tensor]]:
    """Copy what a recording has read, as the program may change it before a pullback; the copies
    and their originals."""
    kept = []
    for number in list(r.inputs):
        source = r.tensors[number]
        if r.value_of(source) == number:
            copy = _copied(source)
            r.before_overwrite(source, copy)
            kept.append((copy, source))
    return kept


def _copied(source: Tensor) -> Tensor:
    """A copy of a tensor, which recordings take for the same value."""
    copy = copy_of(source)
    stand_for(copy, source)
    return copy


# --- split ---------------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class _Backward:
    """The part of a gradient's graph that needs cotangents.

    Attributes:
        fn: the function that is differentiated.
        graph: takes what the first part gave for it, then the cotangents.
        read: for each weight, whether the function reads it, so that the graph has its gradient.
        table: its programs.
    """

    fn: Any
    graph: Graph
    read: list[bool]
    table: EntryTable = field(default_factory=EntryTable)

    def run(self, *given: Tensor) -> tuple[Tensor, ...]:
        """The gradients, in the mode at hand."""
        tracer = active_tracer()
        if tracer is not None:
            return tuple(tracer.inline(self.graph, [tracer.lift(t) for t in given]))
        if active_recordings() or not context.in_graph_mode():
            return tuple(replay(self.graph, given))
        return tuple(self.table.call(Inner("vjp", self.fn, self.run), given, {}))


def _split(function: GradFunction, args: tuple[Tensor, ...]) -> Found:
    """In a graph, or in graph mode."""
    request, positions = function.request, tuple(range(len(args)))
    structure, leaves = take_apart((args, {}))
    chosen, weights = leaves_at(structure, positions), request.weights or ()
    tracer = active_tracer()
    if tracer is None:
        first = _first_part(request.fn, request.weights, request.has_aux)
        value, aux, held, back = first(*args)
    else:
        value, aux, held, back = _traced(tracer, request.fn, weights, request.has_aux, args)

    def pull(cotangents: Tensors) -> Computed:
        grads = iter(back.run(*held, *cotangents))
        full: list[Tensor | None] = [_through_hooks(leaves[i], next(grads)) for i in chosen]
        full += [hooked(p, next(grads)) if read else None
                 for p, read in zip(weights, back.read, strict=True)]
        return shaped(request, positions, args, leaves, chosen, full, None)

    return value, aux, pull


def _through_hooks(tensor: Tensor, grad: Tensor) -> Tensor:
    return grad if isinstance(tensor, GraphTensor) else hooked(tensor, grad)


@lru_cache(maxsize=64)
def _first_part(
    fn: Any, weights: tuple[Parameter, ...] | None, has_aux: bool
) -> Transformed:
    """The function that gives the outputs, what the pullback reads, and the pullback's graph."""
    def evaluate(*args: Tensor) -> Any:
        tracer = active_tracer()
        assert tracer is not None
        found = _traced(tracer, fn, weights or (), has_aux, args)
        if any(type(d) is not int for v in found[-1].graph.inputs for d in v.type.dims):
            raise TypeError("a pullback is compiled for known sizes")  # then it is
        return found

    return Transformed("vjp", fn, evaluate)


def _traced(
    tracer: Tracer, fn: Any, weights: tuple[Parameter, ...], has_aux: bool,
    args: tuple[Tensor, ...],
) -> Any:
    """See `_first_part`."""
    structure, leaves = take_apart((args, {}))
    chosen = leaves_at(structure, range(len(args)))
    second: list[Graph] = []

    def seeds(out: Any, tensors: Tensors) -> list[int]:
        return Outputs("vjp", put_together(out, tensors), has_aux).seeds

    def derive(graph: Graph, wanted: list[int], seeded: list[int]) -> Graph:
        whole = autodiff.gradient_graph(graph, wanted, seeded=seeded, sens=True)
        first, rest = autodiff.halves(whole, len(graph.outputs), len(seeded))
        second.append(rest)
        return first

    run = traced_run(tracer, fn, structure, leaves, chosen, weights, seeds, derive)
    out = Outputs("vjp", run.value, has_aux)
    back = _Backward(fn, second[0], run.read)
    return out.value(out.tensors), out.aux(out.tensors), tuple(run.found), back
