"""`jvp`, `jacfwd` and `jacrev` in both modes.

While a graph is traced the function becomes a region that autodiff transforms and that is
inlined; eagerly it is recorded, and the recording is transformed in the same way into one program.
Only where a recording holds Python (a `bprop`, hooks) it is walked row by row, and its backward
pass recorded again where forward mode needs its transpose.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from cellc_compiler.autodiff.forward import Derivative, jacobian_graph, tangent_graph
from cellc_compiler.ir.graph import Builder, Graph, Node, Value
from cellc_compiler.ir.types import differentiable, seedable

from .. import context
from ..calls.bprop import check_like
from ..calls.replay import replay
from ..compiled.entries import EntryTable
from ..compiled.inline import inline
from ..core import observers
from ..core.dispatch import active_tracer, apply, apply_one
from ..eager import backward
from ..eager.recorder import active_recordings, aliases, recording
from ..tensors.tensor import Grads, Tensor, Tensors, ir_type, tensor_of
from ..tracing.pytree import Box, Leaf, Structure, put_together, take_apart
from ..tracing.tracer import Tracer
from .gradient import (
    Inner,
    check_distinct,
    check_flags,
    check_function,
    inlined,
    zeros_of,
)


class Transformed:
    """A transformation of a user's function: compiled in graph mode, else run as it is.

    Args:
        fn: the user's function or Cell.
        evaluate: what it does, in the mode at hand.
    """

    def __init__(self, name: str, fn: Any, evaluate: Callable[..., Any]) -> None:
        self.fn = fn
        self.evaluate = evaluate
        self.table = EntryTable()
        self.inner = Inner(name, fn, evaluate)
        self.__name__ = self.inner.__name__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if active_tracer() is not None or active_recordings():
            return self.evaluate(*args, **kwargs)
        if observers.calls:
            return observers.calls[-1](self, args, kwargs, lambda: self._answer(args, kwargs))
        return self._answer(args, kwargs)

    def _answer(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if context.in_graph_mode():
            return self.table.call(self.inner, args, kwargs)
        return self.evaluate(*args, **kwargs)


# --- outputs -------------------------------------------------------------------------------------


class Outputs:
    """The results of a function, and the tensors among them that are differentiated.

    Attributes:
        structure, tensors: of all that it gave.
        seeds: numbers of the differentiated tensors.
        single: the differentiated part is one tensor, not a tuple.
    """

    def __init__(self, name: str, out: Any, has_aux: bool) -> None:
        self.structure, self.tensors = take_apart(out)
        first = self.structure
        if has_aux:
            if not isinstance(first, Box) or first.kind not in (tuple, list) or \
                    len(first.parts) < 2:
                raise ValueError(f"For '{name}' with has_aux, 'fn' must give more than one output, "
                                 "the first of which is differentiated.")
            first = first.parts[0]
        self.has_aux = has_aux
        self.single = isinstance(first, Leaf)
        parts = (first,) if self.single else first.parts if isinstance(first, Box) else ()
        if not parts or not all(isinstance(p, Leaf) and p.kind is None for p in parts) or (
            isinstance(first, Box) and first.kind not in (tuple, list)
        ):
            raise TypeError(f"For '{name}', 'fn' must give a Tensor or a tuple of Tensors.")
        self.seeds = [p.number for p in parts]
        for i in self.seeds:
            wanted = differentiable if name.startswith("jac") else seedable
            if not wanted(ir_type(self.tensors[i])):
                kind = "a floating-point output" if name.startswith("jac") else \
                    "an output of numbers"
                raise TypeError(f"For '{name}', only {kind} can be differentiated, but got "
                                f"{ir_type(self.tensors[i])}.")

    @property
    def seeded(self) -> list[Tensor]:
        """The differentiated tensors."""
        return [self.tensors[i] for i in self.seeds]

    def shaped(self, parts: Sequence[Any]) -> Any:
        """One value for each differentiated tensor, as the function gives those."""
        return parts[0] if self.single else tuple(parts)

    def value(self, tensors: Tensors) -> Any:
        """Return the differentiated value, of all the function's tensors."""
        return self.shaped([tensors[i] for i in self.seeds])

    def aux(self, tensors: Tensors) -> tuple[Any, ...]:
        """The other outputs, as one more result; nothing without `has_aux`."""
        if not self.has_aux:
            return ()
        rest = tuple(put_together(self.structure, tensors)[1:])
        return (rest[0] if len(rest) == 1 else rest,)


# --- eager ---------------------------------------------------------------------------------------


class Recorded:
    """An eager run of a function with the recording of it.

    Attributes:
        inputs: the tensors of the arguments, as the recording knows them.
        numbers: what the recording calls those that are differentiated.
    """

    def __init__(self, name: str, fn: Any, args: Sequence[Any], chosen: Sequence[int],
                 has_aux: bool) -> None:
        structure, leaves = take_apart(tuple(args))
        # The same tensor given twice has two gradients, so each argument gets its own identity.
        self.inputs = aliases(leaves)
        with recording() as self.recording:
            self.numbers = [self.recording.track(self.inputs[i]) for i in chosen]
            self.out = Outputs(name, fn(*put_together(structure, self.inputs)), has_aux)

    def pull(self, number: int, u: Tensor) -> list[Tensor | None]:
        """Cotangents of the inputs from that of one output."""
        return self.recording.gradients([self.out.seeded[number]], [u], self.numbers)


class Transposed:
    """The map from tangents of the inputs to those of the outputs; see `autodiff.forward`."""

    def __init__(self, run: Recorded) -> None:
        us = [zeros_of(t) for t in run.out.seeded]
        self.seeded = run.out.seeded
        with recording() as self.recording:
            self.numbers = [self.recording.track(u) for u in us]
            self.pulled = run.recording.gradients(run.out.seeded, us, run.numbers)

    def push(self, tangents: Grads) -> list[Tensor]:
        """Tangents of the outputs."""
        pairs = [(g, v) for g, v in zip(self.pulled, tangents, strict=True)
                 if g is not None and v is not None]
        found = self.recording.gradients([g for g, _ in pairs], [v for _, v in pairs], self.numbers)
        return [f if f is not None else zeros_of(t)
                for f, t in zip(found, self.seeded, strict=True)]


def _units(t: Tensor) -> Iterator[Tensor]:
    """Zeros but for a one, at each element in turn."""
    for i in range(t.size):
        hot = np.zeros(t.size, t.dtype.numpy)
        hot[i] = 1
        yield tensor_of(hot.reshape(t.shape))


def _stack(rows: Tensors, like: Tensor) -> Tensor:
    """Tensors along a new first axis."""
    if not rows:
        return tensor_of(np.zeros((0, *like.shape), like.dtype.numpy))
    return apply_one("stack", *rows, axis=0)


def _derive(
    run: Recorded, kind: str, given: Tensors,
    build: Callable[[Derivative, Sequence[Value]], list[Value]],
) -> tuple[list[int], list[Tensor]] | None:
    """Return the results of `build` on a recorded run; None where that holds Python code.

    Returns:
        Which of the differentiated outputs depend on the inputs (`build` knows of those only), and
        what it makes.
    """
    r, seeded = run.recording, run.out.seeded
    found = [(i, n) for i, t in enumerate(seeded) if (n := r.value_of(t)) is not None]
    if r.custom or r.hooked():
        return None
    if not found:
        return [], []

    def made(
        b: Builder, nodes: Sequence[Node], inputs: Sequence[Value], outputs: Sequence[Value],
        more: Sequence[Value],
    ) -> list[Value]:
        return build(Derivative(b, nodes, inputs, outputs), more)

    plan = backward.derived(kind, r, [n for _, n in found], given, run.numbers, made)
    if active_recordings():
        return [i for i, _ in found], replay(plan.graph, plan.operands(r, given))
    return [i for i, _ in found], plan.run(r, given)


def _eager_tangents(run: Recorded, tangents: Tensors) -> list[Tensor]:
    found = _derive(run, "jvp", tangents, lambda map_, given: map_.tangents(given))
    if found is None:
        return Transposed(run).push(tangents)
    moved = dict(zip(*found, strict=True))
    return [moved[i] if i in moved else zeros_of(t) for i, t in enumerate(run.out.seeded)]


def _eager_jacobians(run: Recorded, chosen: Sequence[int], forward: bool) -> list[Tensor]:
    """For each differentiated output, for each chosen input: the Jacobian."""
    found = _derive(run, "jacfwd" if forward else "jacrev", [],
                    lambda map_, _: map_.jacobians(forward))
    if found is None:
        return _by_rows(run, chosen, forward)
    rows = iter(found[1])
    out: list[Tensor] = []
    for i, t in enumerate(run.out.seeded):
        for k in chosen:
            shape = (*t.shape, *run.inputs[k].shape)
            out.append(next(rows) if i in found[0] else
                       tensor_of(np.zeros(shape, run.inputs[k].dtype.numpy)))
    return out


def _by_rows(run: Recorded, chosen: Sequence[int], forward: bool) -> list[Tensor]:
    """`_eager_jacobians`, each row (column) by a walk of its own."""
    sources, seeded = [run.inputs[i] for i in chosen], run.out.seeded
    out: list[Tensor] = []
    if not forward:
        for number, output in enumerate(seeded):
            rows = [run.pull(number, u) for u in _units(output)]
            for k, source in enumerate(sources):
                full = [g if (g := row[k]) is not None else zeros_of(source) for row in rows]
                out.append(apply("reshape", _stack(full, source),
                               shape=(*output.shape, *source.shape)))
        return out
    map_ = Transposed(run)
    by_input: list[list[Tensor]] = []
    for k, source in enumerate(sources):
        pushed = [map_.push([u if j == k else None for j in range(len(sources))])
                  for u in _units(source)]
        by_input.append([_transpose([p[i] for p in pushed], source, o)
                        for i, o in enumerate(seeded)])
    return [row[i] for i in range(len(seeded)) for row in by_input]


def _transpose(rows: Tensors, source: Tensor, output: Tensor) -> Tensor:
    perm = (*range(1, output.ndim + 1), 0)
    turned = apply("transpose", _stack(rows, output), perm=perm)
    return apply_one("reshape", turned, shape=(*output.shape, *source.shape))


# --- traced --------------------------------------------------------------------------------------


def _trace(
    tracer: Tracer, name: str, fn: Any, args: Sequence[Any], has_aux: bool,
    transform: Callable[[Graph, Outputs], Graph], more: Tensors = (),
) -> tuple[Outputs, list[Tensor], list[Tensor]]:
    """A function's graph, transformed and inlined.

    Args:
        more: tensors for the inputs that the transformation adds.

    Returns:
        The outputs, all tensors that the function gives, and what the transformation adds.
    """
    structure, leaves = take_apart(tuple(args))
    found: list[Outputs] = []

    def run(inputs: list[Tensor]) -> list[Tensor]:
        out = inline(tracer, fn, put_together(structure, inputs), {})
        found.append(Outputs(name, out, has_aux))
        return found[-1].tensors

    tensors, added = inlined(
        tracer, leaves, run, lambda graph, _: transform(graph, found[-1]), more)
    return found[-1], tensors, added


# --- jvp -----------------------------------------------------------------------------------------


def jvp(fn: Any, inputs: Any, v: Any, has_aux: bool = False) -> Any:
    """The outputs of `fn` and their derivatives along a direction.

    Args:
        fn: a Cell or function of tensors that gives a Tensor or a tuple of them.
        inputs: its arguments: a Tensor, or a tuple or list of them.
        v: the direction: tensors of the types of `inputs`.
        has_aux: only the first output is differentiated; the others are returned as a third
            result (as they are if there is one, else as a tuple).

    Raises:
        TypeError: something else than tensors, or element types that differ.
        ValueError: another number of tensors in `v` than in `inputs`, or other shapes.
    """
    check_function(fn)
    check_flags("The ", has_aux=has_aux)
    args, tangents = tensors_of("jvp", "inputs", inputs), tensors_of("jvp", "v", v)
    if len(args) != len(tangents):
        raise ValueError(f"For 'jvp', 'v' must hold as many tensors as 'inputs': {len(args)}, but "
                         f"got {len(tangents)}.")
    for i, (x, t) in enumerate(zip(args, tangents, strict=True)):
        check_like(f"For 'jvp', tensor {i} of 'v'", t, x, "the input", ".")
        if not seedable(ir_type(x)):
            raise TypeError(f"For 'jvp', the inputs must be tensors of numbers, but got "
                            f"{ir_type(x)}.")
    return _jvp(fn, has_aux)(args, tangents)


def tensors_of(
    what: str, name: str, value: Any, kinds: str = "a Tensor, or a tuple or list of Tensors"
) -> tuple[Tensor, ...]:
    """One or more tensors as a tuple. Raises TypeError: something else, not of these kinds."""
    many = tuple(value) if isinstance(value, (tuple, list)) else (value,)
    for t in many:
        if not isinstance(t, Tensor):
            raise TypeError(f"For '{what}', '{name}' must be {kinds}, but got {type(t).__name__}.")
    return many


@lru_cache(maxsize=64)
def _jvp(fn: Any, has_aux: bool) -> Transformed:
    def evaluate(args: tuple[Tensor, ...], tangents: tuple[Tensor, ...]) -> Any:
        chosen = list(range(len(args)))
        tracer = active_tracer()
        if tracer is not None:
            out, tensors, moved = _trace(
                tracer, "jvp", fn, args, has_aux,
                lambda graph, out: tangent_graph(graph, chosen, out.seeds), tangents)
        else:
            run = Recorded("jvp", fn, args, chosen, has_aux)
            out, tensors, moved = run.out, run.out.tensors, _eager_tangents(run, tangents)
        return (out.value(tensors), out.shaped(moved), *out.aux(tensors))

    return Transformed("jvp", fn, evaluate)


# --- Jacobians -----------------------------------------------------------------------------------


def jacrev(fn: Any, grad_position: Any = 0, has_aux: bool = False) -> Transformed:
    """The function that computes the Jacobian of `fn` in reverse mode, many rows at once.

    Args:
        fn: a Cell or function of tensors that gives a Tensor or a tuple of them.
        grad_position: of the argument to differentiate with respect to, or a tuple of them.
        has_aux: only the first output is differentiated; the others are returned too.

    Returns:
        A function that gives a Tensor of shape `(*shape of the output, *shape of the argument)`;
        a tuple of them for several outputs, of tuples for several arguments.
    """
    return _jacobian("jacrev", fn, grad_position, has_aux)


def jacfwd(fn: Any, grad_position: Any = 0, has_aux: bool = False) -> Transformed:
    """The function that computes the Jacobian of `fn` in forward mode, many columns at once.

    Better than `jacrev` where `fn` has more outputs than inputs; see there for the arguments.
    """
    return _jacobian("jacfwd", fn, grad_position, has_aux)


def _jacobian(name: str, fn: Any, grad_position: Any, has_aux: bool) -> Transformed:
    check_function(fn)
    positions = (grad_position,) if type(grad_position) is int else grad_position
    if not isinstance(positions, tuple) or not positions or not all(
        type(p) is int for p in positions
    ):
        raise TypeError(f"For '{name}', 'grad_position' must be int or a tuple of int, but got "
                        f"{grad_position!r}.")
    check_distinct(positions, f"For '{name}', ")
    check_flags("The ", has_aux=has_aux)

    def evaluate(*args: Any) -> Any:
        return _evaluate_jacobian(name, fn, positions, has_aux, args)

    return Transformed(name, fn, evaluate)


def _evaluate_jacobian(
    name: str, fn: Any, positions: tuple[int, ...], has_aux: bool, args: tuple[Any, ...]
) -> Any:
    forward = name == "jacfwd"
    chosen = _places(name, args, positions)
    tracer = active_tracer()
    if tracer is not None:
        out, tensors, flat = _trace(
            tracer, name, fn, args, has_aux,
            lambda graph, out: jacobian_graph(graph, chosen, out.seeds, forward))
    else:
        run = Recorded(name, fn, args, chosen, has_aux)
        out, tensors, flat = run.out, run.out.tensors, _eager_jacobians(run, chosen, forward)
    n = len(positions)
    rows = [flat[i * n:(i + 1) * n] for i in range(len(out.seeds))]
    found = out.shaped([row[0] if n == 1 else tuple(row) for row in rows])
    return (found, *out.aux(tensors)) if has_aux else found


def _places(name: str, args: tuple[Any, ...], positions: tuple[int, ...]) -> list[int]:
    """The numbers of the differentiated arguments among all tensors."""
    structure: Structure = take_apart(args)[0]
    assert isinstance(structure, Box)
    out: list[int] = []
    for p in positions:
        if p >= len(args):
            raise ValueError(f"For '{name}', the elements of grad_position must be less than the "
                             f"number of arguments, {len(args)}, but got {p}.")
        part = structure.parts[p]
        if not isinstance(part, Leaf) or part.kind is not None:
            raise TypeError(f"For '{name}', argument {p} must be a Tensor, but got "
                            f"{type(args[p]).__name__}.")
        if not differentiable(ir_type(args[p])):
            raise TypeError(f"For '{name}', argument {p} must be a floating-point Tensor, but got "
                            f"{ir_type(args[p])}.")
        out.append(part.number)
    return out
