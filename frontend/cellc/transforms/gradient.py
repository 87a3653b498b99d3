"""`grad`, `value_and_grad` and `GradOperation` in both modes.

In PyNative mode the function is recorded; while a graph is traced it becomes a region that
autodiff transforms and that is inlined; in graph mode the whole call is compiled.

Source: `mindspore.ops`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, ParamSpec, TypeVar, cast, overload

import numpy as np

from cellc_compiler.ir.graph import Graph, Value
from cellc_compiler.ir.types import seedable
from cellc_runtime.errors import counted
from cellc_runtime.lazy import lazy_imports
from cellc_runtime.records import dataclass, field, replace

from .. import context
from ..calls.bprop import check_like
from ..calls.hooks import through_hooks
from ..compiled.entries import EntryTable
from ..core import observers
from ..core.declared import Flag, instance
from ..core.dispatch import active_tracer
from ..core.later import autodiff
from ..core.module_names import function_name, plain
from ..core.native import names_itself
from ..eager import implicit_recording
from ..eager.recorder import active_recordings, aliases, recording, tensor_hooks
from ..tensors import views
from ..tensors.parameter import Parameter
from ..tensors.tensor import Grads, Tensor, Tensors, ir_type, tensor_of
from ..tracing.pytree import (
    Box,
    Structure,
    leaves_of,
    places_in,
    put_together,
    take_apart,
)
from ..tracing.tracer import GraphTensor, Tracer

with lazy_imports(__name__):
    from .. import lang

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(slots=True)
class Request:
    """The function to differentiate.

    Attributes:
        positions: positions of arguments, or None for no argument.
        single: `grad_position` was one int: the gradient comes without a tuple.
        weights: parameters, in order, or None; `one_weight` if a single one was given.
        has_aux: only the first output is differentiated.
        sens: the last argument is the cotangent of the output.
    """

    fn: Any
    positions: tuple[int, ...] | None
    single: bool
    weights: tuple[Parameter, ...] | None
    one_weight: bool = False
    has_aux: bool = False
    sens: bool = False
    all_inputs: bool = False
    hooked: dict[int, Tensor] = field(default_factory=dict)
    """In graph mode: the tensors among the arguments that have hooks, by number."""


@dataclass(slots=True)
class Computed:
    """Values and gradients, as tensors with their structures."""

    value: Any
    inputs: list[Any]
    weights: list[Tensor]
    positions: tuple[int, ...] = ()


def compute(request: Request, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Computed:
    """Values and gradients in the mode at hand (traced or eager)."""
    sens = None
    if request.sens:
        args, kwargs, sens = _without_sens(request, args, kwargs)
    positions = _positions(request, (*args, *kwargs.values()))
    tracer = active_tracer()
    if tracer is not None:
        out = _traced(tracer, request, positions, args, kwargs, sens)
    else:
        out = _eager(request, positions, args, kwargs, sens)
    out.positions = positions
    return out


def _without_sens(
    request: Request, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[tuple[Any, ...], Mapping[str, Any], Any]:
    """The arguments of the function, and the sensitivity: the last argument, or by name."""
    if "sens" in kwargs:
        return args, {k: v for k, v in kwargs.items() if k != "sens"}, kwargs["sens"]
    if not args or (len(args) == 1 and request.positions):
        raise TypeError("with sens_param the gradient function takes a sensitivity as its last "
                        "argument, but got none")
    return args[:-1], kwargs, args[-1]


def _positions(request: Request, args: Sequence[Any]) -> tuple[int, ...]:
    """Positions of the arguments with tensors, if any; those given by name follow the others."""
    if request.all_inputs:
        return tuple(i for i, a in enumerate(args) if take_apart(a)[1])
    positions = request.positions or () if args else ()
    for p in positions:
        if not 0 <= p < len(args):
            raise IndexError(f"grad_position {p} is out of range: the function was called with "
                             f"{counted(len(args), 'argument')}")
    return tuple(p for p in positions if take_apart(args[p])[1])


def leaves_at(structure: Structure, positions: Sequence[int]) -> list[int]:
    """The tensors of the differentiated arguments."""
    assert isinstance(structure, Box)
    given = [part for group in structure.parts for part in cast("Box", group).parts]
    return [leaf.number for p in positions for leaf in leaves_of(given[p])]


def seeds_of(structure: Structure, tensors: Tensors, request: Request, sens: Any) -> list[int]:
    """Which of the outputs are differentiated: none, where there are only Python's own numbers,
    which no argument changes."""
    first: list[int] = list(range(len(tensors)))
    if request.has_aux:
        if not isinstance(structure, Box) or len(structure.parts) < 2:
            raise ValueError("with has_aux the function must give more than one output: "
                             "(output, *auxiliary)")
        first = [leaf.number for leaf in leaves_of(structure.parts[0])]
    seeds = [i for i in first if seedable(ir_type(tensors[i]))]
    if first and not seeds:
        kinds = ", ".join(str(ir_type(t)) for t in tensors)
        raise TypeError(f"only an output of numbers can be differentiated, got {kinds}")
    if sens is not None:
        given = take_apart(sens)[1]
        if len(given) != len(seeds):
            raise ValueError(f"{len(seeds)} outputs need as many sensitivities, but got "
                             f"{len(given)}")
        for number, (t, i) in enumerate(zip(given, seeds, strict=True)):
            check_like(f"sensitivity {number}", t, tensors[i], "the output")
    return seeds


def _rebuild(args: Sequence[Any], positions: Sequence[int], grads: Iterator[Tensor]) -> list[Any]:
    """Gradients in the structures of the arguments; those of sparse ones stand at their places."""
    out = []
    for structure, leaves in [take_apart(args[p]) for p in positions]:
        given, kept = [next(grads) for _ in leaves], places_in(structure)
        out.append(put_together(structure, [
            leaf if i in kept else g for i, (leaf, g) in enumerate(zip(leaves, given, strict=True))
        ]))
    return out


# --- eager ---------------------------------------------------------------------------------------


def _eager(
    request: Request, positions: Sequence[int], args: tuple[Any, ...],
    kwargs: Mapping[str, Any], sens: Any,
) -> Computed:
    structure, leaves = take_apart((args, dict(kwargs)))
    chosen = leaves_at(structure, positions)
    run = None if active_recordings() else implicit_recording.take(request.fn, structure, leaves)
    if run is None:
        run = recorded(request, structure, leaves, chosen)
    seeds = seeds_of(run.out, run.results, request, sens)
    given = take_apart(sens)[1] if sens is not None else None
    numbers = [*(run.numbers.get(i) for i in chosen),
               *(run.weights.get(id(p)) for p in request.weights or ())]
    found = iter(run.recording.gradients(
        [run.results[i] for i in seeds], given, [n for n in numbers if n is not None], last=True))
    grads = [None if n is None else next(found) for n in numbers]
    value = put_together(run.out, run.given)
    return shaped(request, positions, (*args, *kwargs.values()), leaves, chosen, grads, value)


def shaped(
    request: Request, positions: Sequence[int], args: Sequence[Any], leaves: Tensors,
    chosen: Sequence[int], grads: Grads, value: Any,
) -> Computed:
    """Gradients of the chosen leaves, then of the weights, in the structures of the arguments;
    those that are None are zeros."""
    sources = [*(leaves[i] for i in chosen), *(request.weights or ())]
    full = iter([g if g is not None else zeros_of(t) for g, t in zip(grads, sources, strict=True)])
    return Computed(value, _rebuild(args, positions, full), list(full))


def recorded(
    request: Request, structure: Structure, leaves: Tensors, chosen: Sequence[int]
) -> implicit_recording.Run:
    """A run of the function that the gradient goes back through."""
    # The same tensor given twice has two gradients, so each argument gets its own identity.
    own = aliases(leaves)
    for t, o in zip(leaves, own, strict=True):
        share_hooks(o, t)
    with recording() as r:
        numbers = {i: r.track(own[i]) for i in chosen}
        weights = {id(p): r.track(p) for p in request.weights or ()}
        call_args, call_kwargs = put_together(structure, own)
        out, results = take_apart(request.fn(*call_args, **call_kwargs))
    written = [i for i, t in enumerate(own) if t._is_written]
    views.check_arguments(leaves, written)
    for i in written:
        views.rewritten(leaves[i])
    return implicit_recording.Run(r, structure, list(leaves), numbers, weights, [], out, results,
                                  results)


def share_hooks(other: Tensor, source: Tensor) -> None:
    """Let a tensor have the hooks of another one."""
    if source._hooks:
        other._hooks = source._hooks


def zeros_of(t: Tensor) -> Tensor:
    """Zeros of the type of a tensor."""
    return tensor_of(np.zeros(t.shape, t.dtype.numpy))


# --- traced --------------------------------------------------------------------------------------


@dataclass(slots=True)
class TracedRun:
    """A function that is traced for its gradient.

    Attributes:
        value: what it gives.
        found: what `derive` has added.
        read: for each weight, whether the function reads it.
    """

    value: Any
    found: list[Tensor]
    read: list[bool]


def traced_run(
    tracer: Tracer, fn: Any, structure: Structure, leaves: Tensors, chosen: Sequence[int],
    weights: Sequence[Parameter], seeds: Callable[[Structure, Tensors], list[int]],
    derive: Callable[[Graph, list[int], list[int]], Graph], more: Tensors = (),
) -> TracedRun:
    """Trace a function into the graph at hand, together with what follows from its graph.

    Args:
        seeds: which tensors of what it gives are differentiated.
        derive: (graph, positions of inputs to differentiate by, seeds) -> the graph, with more
            outputs.
        more: tensors for the inputs that `derive` adds.
    """
    before = [tracer.lift(p) for p in weights]
    shape: list[tuple[Structure, list[int]]] = []
    written: list[int] = []

    def run(inputs: list[Tensor]) -> list[Tensor]:
        call_args, call_kwargs = put_together(structure, inputs)
        given = [tracer.lift(t) for t in inputs]
        out, tensors = take_apart(lang.interpret_call(tracer, fn, call_args, call_kwargs))
        shape.append((out, seeds(out, tensors)))
        written[:] = [i for i, (t, value) in enumerate(zip(inputs, given, strict=True))
                      if tracer.lift(t) is not value]
        return [*tensors, *(inputs[i] for i in written)]

    read: set[Value] = set()

    def transform(graph: Graph, captures: Sequence[Value]) -> Graph:
        place = {v: len(leaves) + i for i, v in enumerate(captures)}
        read.update(place)
        wanted = [*chosen, *(place[v] for v in before if v in place)]
        return derive(graph, wanted, shape[-1][1])

    results, found = inlined(tracer, leaves, run, transform, more)
    views.check_arguments(leaves, written)
    for i, new in zip(written, results[len(results) - len(written):], strict=True):
        views.change(leaves[i], new)
    return TracedRun(put_together(shape[-1][0], results), found, [v in read for v in before])


def _traced(
    tracer: Tracer, request: Request, positions: Sequence[int], args: tuple[Any, ...],
    kwargs: Mapping[str, Any], sens: Any,
) -> Computed:
    structure, leaves = take_apart((args, dict(kwargs)))
    weights = request.weights or ()
    chosen = leaves_at(structure, positions)

    def derive(graph: Graph, wanted: list[int], seeds: list[int]) -> Graph:
        return autodiff.gradient_graph(graph, wanted, seeded=seeds, sens=sens is not None)

    run = traced_run(
        tracer, request.fn, structure, leaves, chosen, weights,
        lambda out, tensors: seeds_of(out, tensors, request, sens), derive,
        take_apart(sens)[1] if sens is not None else ())
    it = iter(run.found[len(chosen):])
    weight_grads: list[Tensor] = [
        hooked(p, next(it)) if read else tracer._zeros(tracer.lift(p).type)
        for p, read in zip(weights, run.read, strict=True)
    ]
    own = (hooked(request.hooked[i], g) if i in request.hooked else g
           for i, g in zip(chosen, run.found, strict=False))
    return Computed(run.value, _rebuild((*args, *kwargs.values()), positions, own), weight_grads)


def inlined(
    tracer: Tracer, leaves: Tensors, run: Callable[[list[Tensor]], list[Tensor]],
    transform: Callable[[Graph, Sequence[Value]], Graph], more: Tensors = (),
) -> tuple[list[Tensor], list[Tensor]]:
    """A function's graph, transformed and inlined.

    Args:
        leaves: the tensors of its arguments.
        run: calls it with the inputs of its graph.
        transform: the graph, with the values it reads from outside, to another one.
        more: tensors for the inputs that the transformation adds.

    Returns:
        The tensors that the function gives, and what the transformation adds.
    """
    values = [tracer.lift(t) for t in leaves]

    def within(inputs: list[Tensor]) -> Sequence[Tensor]:
        tracer.stands.update(zip((tracer.lift(t) for t in inputs), values, strict=True))
        return run(inputs)

    graph, captures, assigned = tracer.region(
        "grad", [v.type for v in values], within, [GraphTensor(v) for v in values])
    tracer.refuse_assigned(assigned)
    count = len(graph.outputs) - len(assigned)
    transformed = transform(graph, captures)
    operands = [*values, *captures, *(tracer.lift(t) for t in more)]
    results: list[Tensor] = list(tracer.splice(transformed, operands))
    graph.dissolve()
    for parameter, tensor in zip(assigned, results[count:], strict=False):
        tracer.assign(parameter, tensor)
    return results[:count], results[count + len(assigned):]


def hooked(tensor: Tensor, grad: Tensor) -> Tensor:
    """The gradient of an argument or parameter after the hooks of that, if it has any."""
    lang.note_read(tensor, "_hooks")
    return through_hooks(grad, tensor)


# --- public objects ----------------------------------------------------------------------------


@dataclass(eq=False)
class GradFunction:
    """The result of `grad` and `value_and_grad`: a function of the same arguments."""

    request: Request
    with_value: bool
    return_ids: bool = False
    flat: bool = False
    drop_aux: bool = False
    table: EntryTable = field(default_factory=EntryTable)
    hooked: dict[Any, GradFunction] = field(default_factory=dict)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if active_tracer() is None and context.in_graph_mode() and not active_recordings():
            function = self._with_hooks(args, kwargs) if tensor_hooks else self
            inner = Inner("grad", function.request.fn, function._compute)
            if observers.calls:
                return observers.calls[-1](
                    self, args, kwargs, lambda: function.table.call(inner, args, kwargs))
            return function.table.call(inner, args, kwargs)
        if observers.calls and active_tracer() is None and not active_recordings():
            return observers.calls[-1](
                self, args, kwargs, lambda: self._compute(*args, **kwargs))
        return self._compute(*args, **kwargs)

    def _with_hooks(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> GradFunction:
        """Return the function for a call with hooks on arguments: each set of hooks is compiled
        separately."""
        leaves = take_apart((args, dict(kwargs)))[1]
        hooked = {i: t for i, t in enumerate(leaves) if t._hooks}
        if not hooked:
            return self
        key = tuple((i, id(t), tuple(t._hooks or ())) for i, t in hooked.items())
        return self.hooked.setdefault(
            key, replace(self, request=replace(self.request, hooked=hooked), table=EntryTable()))

    def _compute(self, *args: Any, **kwargs: Any) -> Any:
        """The result, in the mode at hand."""
        computed = compute(self.request, args, kwargs)
        grads = self.arranged(computed)
        if self.with_value:
            return computed.value, grads
        if self.request.has_aux and not self.drop_aux:
            return grads, tuple(computed.value[1:])
        return grads

    def arranged(self, computed: Computed) -> Any:
        """The gradients, as the function gives them."""
        r = self.request
        inputs: Any = tuple(computed.inputs)
        single = r.positions is not None and len(computed.inputs) == 1
        if single:
            inputs = computed.inputs[0]
        weights: Any = tuple(computed.weights)
        if r.one_weight:
            weights = computed.weights[0]
        if self.return_ids:
            inputs, weights = self._with_ids(inputs, weights, computed.positions, single)
        has_inputs = r.positions is not None or r.all_inputs
        if r.weights is None:
            return inputs
        return (inputs, weights) if has_inputs else weights

    def _with_ids(
        self, inputs: Any, weights: Any, positions: tuple[int, ...], single: bool
    ) -> tuple[Any, Any]:
        r = self.request
        if r.positions is not None:
            inputs = ((positions[0], inputs) if single else
                      tuple(zip(positions, inputs, strict=True)))
        if r.weights is not None:
            weights = ((r.weights[0].name, weights) if r.one_weight else
                       tuple((p.name, w) for p, w in zip(r.weights, weights, strict=True)))
        return inputs, weights


class Inner:
    """The call of a transformation as something the construct compiler runs as it is."""

    def __init__(self, name: str, fn: Any, evaluate: Callable[..., Any]) -> None:
        self.transformed, self.evaluate = fn, evaluate
        self.__name__ = f"{name}_{function_name(fn)}"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.evaluate(*args, **kwargs)


def make_request(
    fn: Any, grad_position: Any, weights: Any, has_aux: bool, sens: bool = False
) -> Request:
    """Check the arguments of `grad` and its kin."""
    check_function(fn)
    if grad_position is None and weights is None:
        raise ValueError("`grad_position` and `weights` can not be None at the same time.")
    single, positions = _checked_positions(grad_position)
    if positions == () and weights is None:
        raise RuntimeError("'grad_position' must not be empty where there are no weights.")
    params, one = checked_weights(weights), isinstance(weights, Parameter)
    check_flags(has_aux=has_aux)
    return Request(fn, positions, single, params, one, has_aux, sens)


def _checked_positions(grad_position: Any) -> tuple[bool, tuple[int, ...] | None]:
    """Whether it is one, and all."""
    single = isinstance(grad_position, int) and not isinstance(grad_position, bool)
    positions = (grad_position,) if single else grad_position
    if positions is None:
        return single, None
    if not isinstance(positions, tuple) or not all(
        isinstance(p, int) and not isinstance(p, bool) for p in positions
    ):
        raise TypeError("'grad_position' must be None, a non-negative int or a tuple of them, but "
                        f"got {grad_position!r}.")
    check_distinct(positions)
    return single, positions


def check_distinct(positions: tuple[int, ...], before: str = "") -> None:
    """Refuse positions below 0, or one twice. `before`: what a message begins with."""
    if any(p < 0 for p in positions):
        raise ValueError(f"{before}'grad_position' must be >= 0, but got {min(positions)}.")
    if len(set(positions)) < len(positions):
        raise ValueError(f"{before}'grad_position' must not hold a position twice, but got "
                         f"{positions}.")


def checked_weights(weights: Any) -> tuple[Parameter, ...] | None:
    """Parameters, one or several, as a tuple; or None."""
    if weights is None:
        return None
    found = tuple(weights) if isinstance(weights, Iterable) and not isinstance(
        weights, (str, Mapping, Tensor)) else (weights,)
    if not all(isinstance(p, Parameter) for p in found):
        raise TypeError("'weights' must be a Parameter, or a tuple or list of Parameters.")
    return found


def check_function(fn: Any) -> None:
    """Refuse what cannot be differentiated. Raises TypeError."""
    if not callable(fn):
        raise TypeError(f"'fn' must be a Cell or a function, but got {type(fn).__name__}.")


def check_flags(before: str = "", **flags: Any) -> None:
    """Refuse flags that are no bools. `before`: the name in the message."""
    for name, value in flags.items():
        if not isinstance(value, bool):
            raise TypeError(f"{before}'{name}' must be bool, but got {type(value).__name__}.")


@overload
def grad(
    fn: Callable[P, Any], grad_position: int = 0, weights: None = None,
    has_aux: Literal[False] = False, return_ids: Literal[False] = False,
    sens_param: Literal[False] = False,
) -> Callable[P, Tensor]: ...


@overload
def grad(
    fn: Callable[P, Any], grad_position: None, weights: Sequence[Parameter],
    has_aux: Literal[False] = False, return_ids: Literal[False] = False,
    sens_param: Literal[False] = False,
) -> Callable[P, tuple[Tensor, ...]]: ...


@overload
def grad(
    fn: Callable[..., Any], grad_position: Any = 0, weights: Any = None, has_aux: bool = False,
    return_ids: bool = False, sens_param: bool = False,
) -> GradFunction: ...


def grad(
    fn: Any, grad_position: Any = 0, weights: Any = None, has_aux: bool = False,
    return_ids: bool = False, sens_param: bool = False,
) -> GradFunction:
    """The function that computes the gradient of `fn`.

    Args:
        fn: a Cell or function of tensors.
        grad_position: argument positions to differentiate with respect to (arguments by name follow
            the others): an int (the gradient
            comes alone), a tuple (a tuple comes, of those that are tensors; one alone comes as
            it is; without any, as without arguments, the gradient is `()`), or None (weights
            only).
        weights: Parameters to differentiate with respect to, or None.
        has_aux: only the first output is differentiated; the others are returned too.
        return_ids: return (position or name, gradient) pairs.
        sens_param: the gradient function takes the output's cotangent as its last argument, or by
            the name `sens`.

    Raises:
        ValueError, TypeError: arguments of a wrong kind, or nothing to differentiate.
    """
    request = make_request(fn, grad_position, weights, has_aux, sens_param)
    check_flags(return_ids=return_ids, sens_param=sens_param)
    return GradFunction(request, False, return_ids)


@overload
def value_and_grad(
    fn: Callable[P, R], grad_position: int = 0, weights: None = None, has_aux: bool = False,
    return_ids: Literal[False] = False, sens_param: Literal[False] = False,
) -> Callable[P, tuple[R, Tensor]]: ...


@overload
def value_and_grad(
    fn: Callable[P, R], grad_position: None, weights: Sequence[Parameter], has_aux: bool = False,
    return_ids: Literal[False] = False, sens_param: Literal[False] = False,
) -> Callable[P, tuple[R, tuple[Tensor, ...]]]: ...


@overload
def value_and_grad(
    fn: Callable[P, R], grad_position: Any = 0, weights: Any = None, has_aux: bool = False,
    return_ids: bool = False, sens_param: Literal[False] = False,
) -> Callable[P, tuple[R, Any]]: ...


@overload
def value_and_grad(
    fn: Callable[..., Any], grad_position: Any = 0, weights: Any = None, has_aux: bool = False,
    return_ids: bool = False, sens_param: bool = False,
) -> GradFunction: ...


def value_and_grad(
    fn: Any, grad_position: Any = 0, weights: Any = None, has_aux: bool = False,
    return_ids: bool = False, sens_param: bool = False,
) -> GradFunction:
    """The function that computes the outputs of `fn` and its gradient: called with the arguments of
    `fn`, it returns both. Arguments and errors are those of `grad`."""
    request = make_request(fn, grad_position, weights, has_aux, sens_param)
    check_flags(return_ids=return_ids, sens_param=sens_param)
    return GradFunction(request, True, return_ids)


def get_grad(gradients: Any, identifier: Any) -> Tensor:
    """The gradient of a position or Parameter from the result of `grad(..., return_ids=True)`.

    Raises:
        RuntimeError: it is not among them.
    """
    instance(int, Parameter)(identifier, "get_grad", "identifier")
    name = identifier.name if isinstance(identifier, Parameter) else identifier
    stack = [gradients]
    while stack:
        item = stack.pop()
        if isinstance(item, tuple):
            if len(item) == 2 and not isinstance(item[0], tuple) and item[0] == name:
                found: Tensor = item[1]
                return found
            stack.extend(x for x in item if isinstance(x, tuple))
    raise RuntimeError(f"Can not find the gradient for position or Parameter {name!r}.")


_NOTHING: Any = object()


@names_itself
class GradOperation:
    """Gradient functions in the older form.

    Args:
        get_all: gradients of all inputs, as a tuple (else of the first).
        get_by_list: gradients of the parameters given at the call, as a tuple.
        sens_param: the gradient function takes the sensitivity as its last argument.
    """

    def __init__(
        self, get_all: Flag = False, get_by_list: Flag = False, sens_param: Flag = False
    ) -> None:
        self.get_all, self.get_by_list, self.sens_param = get_all, get_by_list, sens_param

    def __call__(
        self, fn: Any = _NOTHING, weights: Any = None, grad_position: int = 0
    ) -> GradFunction:
        if fn is _NOTHING:
            raise TypeError("'GradOperation' requires a forward network or function as an input, "
                            "while the input is empty.")
        if not callable(fn):
            raise TypeError("For 'GradOperation', the first argument must be a 'Function' or "
                            f"'Cell', but got {type(fn).__name__}.")
        params = None
        if self.get_by_list:
            if weights is None:  # a function has none of its own
                weights = fn.trainable_params() if plain(fn, "trainable_params") else ()
            params = weights
        positions: Any = None if self.get_by_list and not self.get_all else grad_position
        request = make_request(fn, positions, params, False, self.sens_param)
        if self.get_all:
            request.all_inputs, request.single, request.positions = True, False, None
        return GradFunction(request, False)
