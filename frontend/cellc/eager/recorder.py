"""Recording of an eager run, so that the one autodiff pass can differentiate it.

A recording is a graph that grows with every eager op on a tracked tensor, plus the tensors that
were computed. Its gradient is the same reverse-mode pass that compiled graphs use; the backward
nodes are run eagerly, op by op, where recordings further out see them (so gradients nest).
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

from cellc_compiler.ir.graph import Builder, Graph, Node, Value
from cellc_compiler.ir.op import lookup
from cellc_compiler.ir.types import seedable
from cellc_runtime.lazy import lazy_imports
from cellc_runtime.records import dataclass
from cellc_runtime.site import STATE

from ..core import watching
from ..core.dispatch import Attrs, apply, run_scan
from ..core.later import autodiff, conditional, micro_batches
from ..core.lru import LRU
from ..storage import writes
from ..tensors.tensor import Grads, Tensor, Tensors, alias_of, tensor_of
from . import backward
from .composites import Composite

with lazy_imports(__name__):  # what trains on several processes asks
    from . import reductions

CustomRule = Callable[[Tensors, Tensors, Tensors], Sequence[Any]]
"""(operands, results, cotangents) -> one cotangent (or None) for each operand."""


@dataclass(frozen=True, slots=True)
class Sums:
    """A rule that continues with the cotangents gathered so far."""

    # (operands, cotangents of the results or None, those so far of the operands or None, whether
    # each operand's is requested) -> what they become (None: they stay)
    rule: Callable[
        [Tensors, Grads, Grads, Sequence[bool]],
        Grads,
    ]


tensor_hooks: list[Callable[[Tensor, Tensor], Tensor]] = []
"""Functions that pass the gradient of a tensor through its hooks, once any tensor has some."""


class _Active(threading.local):
    def __init__(self) -> None:
        self.stack: list[Recording] = []


_active = _Active()


@dataclass(frozen=True, eq=False, slots=True)
class Applied:
    """An op with its attributes; one object for all equal ones that are in use."""

    op: str
    attrs: Attrs  # complete
    number: int  # of this object and no other ever, for keys
    regions: tuple[Graph, ...] = ()  # nested graphs


_applied: LRU[Any, Applied] = LRU(2048)
_numbers = itertools.count()


def applied(op: str, attrs: Attrs, regions: tuple[Graph, ...] = ()) -> Applied:
    """The one object of an op, its attributes and its nested graphs (those very objects)."""
    full = lookup(op).complete(attrs)
    key = op, attrs_key(full), regions
    found = _applied.get(key)
    if found is None:
        found = _applied.setdefault(key, Applied(op, full, next(_numbers), regions))
    return found


def attrs_key(attrs: Attrs) -> tuple[Any, ...]:
    """Attributes as a key: 0.0 and -0.0 are equal but not the same, nor are 1, 1.0 and True."""
    if not attrs:
        return ()
    return tuple([(k, v, _exactly(v)) for k, v in attrs.items()])


def _exactly(value: Any) -> Any:
    if type(value) is float:
        return repr(value)
    return tuple([_exactly(v) for v in value]) if type(value) is tuple else type(value)


@dataclass(eq=False, slots=True)
class Step:
    """An op of a recording: numbers of its operands and results.

    One without `applied` is known by its rule alone; where both are given, the rule serves
    gradients that run op by op.
    """

    applied: Applied | None
    operands: list[int]
    results: list[int]
    rule: CustomRule | Sums | None = None

    def node(self, values: Sequence[Value] | Mapping[int, Value]) -> Node:
        """The op as a node with these results; values are given by number."""
        info = self.applied
        node = Node(info.op if info else "custom_grad", [values[i] for i in self.operands],
                    dict(info.attrs) if info else {}, regions=info.regions if info else ())
        node.results = tuple(values[i] for i in self.results)
        for index, value in enumerate(node.results):
            value.node, value.index = node, index
        return node


@dataclass(frozen=True, slots=True)
class Mark:
    """A place in a recording: how much there was, and what tensors stood for."""

    steps: int
    tensors: int
    inputs: int
    numbers: dict[int, tuple[Tensor, int]]


def _ops(tape: list[tuple[Any, ...]]) -> Iterable[tuple[Any, ...]]:
    """The events of a tape, those of composites op by op."""
    if not any(type(event[0]) is Composite for event in tape):
        return tape
    out: list[tuple[Any, ...]] = []
    for event in tape:
        if type(event[0]) is Composite:
            out += event[0].events(event[1], event[2:])
        else:
            out.append(event)
    return out


class Recording:
    """The ops applied to tracked tensors while it is active.

    Values are numbered as they appear. `tape` holds the ops not looked at yet, as
    `(applied, result or tuple of results, *operands)`; native sites append to it.
    """

    def __init__(self) -> None:
        self.tape: list[tuple[Any, ...]] = []
        self.steps: list[Step] = []
        self.inputs: list[int] = []
        self.tensors: list[Tensor] = []
        self._numbers: dict[int, tuple[Tensor, int]] = {}
        self.custom = False
        self._reducers: list[tuple[reductions.Reducer, list[int | None]]] = []

    def track(self, tensor: Tensor) -> int:
        """Start to follow a tensor as an input of the recording."""
        number = self._bind(tensor)
        self.inputs.append(number)
        return number

    def _bind(self, tensor: Tensor) -> int:
        number = len(self.tensors)
        self.tensors.append(tensor)
        self._numbers[id(tensor)] = tensor, number
        return number

    def value_of(self, tensor: Tensor) -> int | None:
        """The number of the value a tensor stands for, if it is followed."""
        self.absorb()
        found = self._numbers.get(id(tensor))
        return found[1] if found is not None else None

    def also(self, tensor: Tensor, number: int) -> None:
        """Another tensor stands for the same value."""
        self._numbers[id(tensor)] = tensor, number

    def note(self, info: Applied, operands: Tensors, result: Any) -> None:
        """Record an op, of one result or a tuple of them."""
        self.tape.append((info, result, *operands))

    def absorb(self) -> None:
        """Number the values of the ops on the tape; those on nothing followed are dropped."""
        if not self.tape:
            return
        tape = self.tape[:]
        del self.tape[: len(tape)]  # in place: native sites hold the list
        numbers, tensors, steps = self._numbers, self.tensors, self.steps
        for info, result, *operands in _ops(tape):
            if info is None or (type(result) is tuple and not result):
                continue  # the call of a compiled Cell, which no recording follows, or a check
            found = [numbers.get(id(t)) for t in operands]
            if not any(found):
                continue
            used = [f[1] if f is not None else self._number(t)
                    for f, t in zip(found, operands, strict=True)]
            first = len(tensors)
            for t in result if type(result) is tuple else (result,):
                numbers[id(t)] = t, len(tensors)
                tensors.append(t)
            steps.append(Step(info, used, list(range(first, len(tensors)))))

    def _number(self, tensor: Tensor) -> int:
        found = self._numbers.get(id(tensor))
        return found[1] if found is not None else self.track(tensor)

    def note_custom(self, operands: Tensors, results: Tensors, rule: CustomRule) -> None:
        """Record a computation with a gradient rule of its own."""
        self.note_sums([self.number(t) for t in operands], results, rule)

    def mark(self) -> Mark:
        """Where the recording is now, for `forget`."""
        self.absorb()
        return Mark(len(self.steps), len(self.tensors), len(self.inputs), dict(self._numbers))

    def computed_since(self, mark: Mark) -> list[Tensor]:
        """The tensors computed since a mark."""
        self.absorb()
        return [self.tensors[n] for s in self.steps[mark.steps:] for n in s.results]

    def number(self, tensor: Tensor) -> int:
        """The number of the value a tensor stands for, followed from now on."""
        self.absorb()
        return self._number(tensor)

    def forget(self, mark: Mark) -> dict[int, list[Tensor]]:
        """Drop what was recorded since a mark.

        Returns:
            The values from before the mark that it read, with the tensors that stood for them
            then.
        """
        self.absorb()
        reads: dict[int, list[Tensor]] = {
            n: [] for s in self.steps[mark.steps:] for n in s.operands if n < mark.tensors}
        for tensor, n in mark.numbers.values():
            if n in reads:
                reads[n].append(tensor)
        for key, (_, n) in list(self._numbers.items()):
            if n >= mark.tensors:
                del self._numbers[key]
        del self.steps[mark.steps:], self.tensors[mark.tensors:], self.inputs[mark.inputs:]
        return {n: many or [self.tensors[n]] for n, many in reads.items()}

    def note_sums(self, operands: Iterable[int], results: Tensors, rule: CustomRule | Sums) -> None:
        """Record a computation on values by number, with a rule of its own."""
        self.absorb()
        self.steps.append(Step(None, list(operands), [self._bind(t) for t in results], rule))
        self.custom = True

    def note_again(
        self, info: Applied, operands: Iterable[int], results: Mapping[int, Tensors], rule: Sums
    ) -> None:
        """Record a stretch as one op.

        Args:
            results: the tensors that stand for each of its results.
            rule: its gradient where the recording is not differentiated as a whole.
        """
        self.absorb()
        numbers: list[int] = []
        for many in results.values():
            numbers.append(self._bind(many[0]))
            for t in many[1:]:
                self.also(t, numbers[-1])
        self.steps.append(Step(info, list(operands), numbers, rule))

    def size(self) -> int:
        """The number of ops, those of stretches among them."""
        return sum(1 if s.applied is None else
                   1 + sum(len(g.nodes) for g in s.applied.regions) for s in self.steps)

    def before_overwrite(self, tensor: Tensor, kept: Tensor) -> None:
        """The buffer of a tensor that is followed is about to change: `kept` has its elements, and
        stands for what it stood for, in every recording (one may differentiate another)."""
        number = self._numbers.pop(id(tensor))[1]
        self.tensors[number] = kept
        self.also(kept, number)

    def rebind(self, tensor: Tensor, source: Tensor) -> None:
        """`tensor` now stands for what `source` was computed as."""
        number = self.value_of(source)
        if number is None:
            self._numbers.pop(id(tensor), None)
        else:
            self.also(tensor, number)

    def graph(self) -> tuple[list[Node], list[Value], dict[Node, CustomRule | Sums]]:
        """The steps as nodes, the value of each number, and the rules of custom nodes."""
        values = [Value(t._type) for t in self.tensors]
        nodes: list[Node] = []
        custom: dict[Node, CustomRule | Sums] = {}
        for step in self.steps:
            node = step.node(values)
            if step.rule is not None:
                custom[node] = step.rule
            if watching.active and step.results:
                watching.active[-1].placed(node, self.tensors[step.results[0]])
            nodes.append(node)
        return nodes, values, custom

    # --- gradients ------------------------------------------------------------------------------

    def reduce_by(self, reducer: reductions.Reducer, tensors: Tensors) -> None:
        """Gradients of these tensors, where they are requested, go through a reducer (once,
        however often this is said)."""
        if all(known is not reducer for known, _ in self._reducers):
            self._reducers.append((reducer, [self.value_of(t) for t in tensors]))

    def _reductions(self, wanted: Sequence[int], last: bool) -> list[reductions.Reduction]:
        """Return the reductions of the requested gradients.

        Raises:
            RuntimeError: they keep what they reduce, but this is not the one pass of a recording,
                or is differentiated itself.
        """
        out = []
        places = {n: place for place, n in enumerate(wanted)}
        for reducer, numbers in self._reducers:
            chosen = {i: places[n] for i, n in enumerate(numbers) if n in places}
            if not chosen:
                continue
            if not last or _active.stack:
                raise RuntimeError(
                    f"gradients of the Parameters of a {type(reducer).__name__} are summed over "
                    "processes and added up, once for each run of it: ask for them by 'grad' or "
                    "'value_and_grad', outside of other gradients and of recompute()")
            out.append(reducer.reduction(chosen, partial(self._first_reads, numbers)))
        return out

    def _first_reads(self, numbers: Sequence[int | None]) -> list[int]:
        first: dict[int, int] = {}
        for i, step in enumerate(self.steps):
            for n in step.operands:
                first.setdefault(n, i)
        return [len(self.steps) if n is None else first.get(n, len(self.steps)) for n in numbers]

    def hooked(self) -> dict[int, Tensor]:
        """The tensors with hooks, by number."""
        if not tensor_hooks:
            return {}
        return {n: t for t, n in self._numbers.values() if t._hooks}

    def gradients(
        self, outputs: Tensors, sens: Tensors | None, wanted: Sequence[int], last: bool = False
    ) -> list[Tensor | None]:
        """Cotangents of the wanted values.

        Args:
            outputs: what is differentiated; one that is not followed counts for nothing.
            sens: their cotangents; ones if None.
            last: nobody needs the recording any more: what it holds may go as the pass does.
        """
        return self.gradients_of([self.value_of(out) for out in outputs], sens, wanted, last)

    def gradients_of(
        self, seeds: Sequence[int | None], sens: Tensors | None, wanted: Sequence[int],
        last: bool = False,
    ) -> list[Tensor | None]:
        """`gradients` of values by number; None counts for nothing."""
        self.absorb()
        hooked = self.hooked()
        passing = self._reductions(wanted, last) if self._reducers else []
        if not _active.stack and not self.custom and not hooked and not watching.active:
            found = backward.run(self, seeds, sens, wanted, last, passing)
            if found is not None:
                return reductions.kept(passing, found) if passing else found
        nodes, values, custom = self.graph()
        walk = _BackwardWalk(nodes, custom, dict(zip(values, self.tensors, strict=True)),
                             {values[n]: t for n, t in hooked.items()})
        for i, number in enumerate(seeds):
            if number is not None and seedable(values[number].type):
                seed = sens[i] if sens is not None else ones_like(self.tensors[number])
                cotangent = walk.constant(seed)
                autodiff.accumulate(walk.builder, walk.cotangents, values[number], cotangent)
        if last:
            self.release()
        grads = walk.run([values[i] for i in wanted])
        return reductions.applied(passing, grads) if passing else grads

    def release(self) -> None:
        """Let go of all that was recorded."""
        self._numbers.clear()
        self.tensors.clear()
        self.steps.clear()
        self.inputs.clear()


def ones_like(t: Tensor) -> Tensor:
    """Ones of the type of a tensor."""
    return tensor_of(np.ones(t.shape, t._type.dtype.numpy))


class _BackwardWalk:
    """Builds backward nodes and runs them eagerly, a stretch between custom rules at a time."""

    def __init__(
        self, nodes: Sequence[Node], custom: Mapping[Node, CustomRule | Sums],
        env: dict[Value, Tensor], hooked: Mapping[Value, Tensor],
    ) -> None:
        self.nodes = nodes
        self.hooked = hooked
        self.custom = custom
        self.graph = Graph("backward")
        self.builder = Builder(self.graph)
        self.cotangents: autodiff.Cotangents = {}
        self.presence: dict[Value, Value] = {}
        self.env = env
        self.done = 0

    def constant(self, tensor: Tensor) -> Value:
        """A tensor as a value of the backward graph."""
        value = self.graph.add_input(tensor._type, f"c{len(self.graph.inputs)}")
        self.env[value] = tensor
        return value

    def run(self, wanted: Sequence[Value]) -> list[Tensor | None]:
        """Walk the recording backwards."""
        nodes = self.nodes
        stretch: list[Node] = []
        active = autodiff.reached(nodes, wanted)
        for node in micro_batches.backward_order(nodes):
            seen = [r for r in node.results if r in self.hooked] if self.hooked else ()
            if seen:  # all that reads them has been walked over
                self._stretch(stretch, wanted, active)
                stretch = []
                self._call_hooks(seen)
            if node in self.custom:
                self._stretch(stretch, wanted, active)
                stretch = []
                self._custom(node, active)
            else:
                stretch.append(node)
        self._stretch(stretch, wanted, active)
        self._call_hooks([v for v in dict.fromkeys(wanted) if v.node is None])
        grads = [conditional.zeros_if_absent(
                     self.builder, self.cotangents.get(v), self.presence.get(v))
                 for v in wanted]
        self._finish([v for v in grads if v is not None])
        return [self._tensor(v) for v in grads]

    def _call_hooks(self, values: Iterable[Value]) -> None:
        """Pass the gradients of tensors through their hooks."""
        for v in values:
            tensor, grad = self.hooked.get(v), self.cotangents.get(v)
            if tensor is None or grad is None:
                continue
            self._execute()
            self.cotangents[v] = self.constant(tensor_hooks[0](self.env[grad], tensor))

    def _stretch(
        self, backwards: Sequence[Node], wanted: Sequence[Value], active: set[Value]
    ) -> None:
        if backwards:
            nodes = list(reversed(backwards))
            autodiff.reverse(self.builder, nodes, self.cotangents, list(active), self.presence)

    def _custom(self, node: Node, active: set[Value]) -> None:
        dys = [self.cotangents.get(r) for r in node.results]
        if all(dy is None for dy in dys) or not any(v in active for v in node.operands):
            return
        self._execute()
        rule = self.custom[node]
        if isinstance(rule, Sums):
            self._sums(node, rule, dys, active)
            return
        given = [
            self.env[dy] if dy is not None else self._zeros(r)
            for dy, r in zip(dys, node.results, strict=True)
        ]
        operands = [self.env[v] for v in node.operands]
        results = [self.env[r] for r in node.results]
        grads = rule(operands, results, given)
        for operand, grad in zip(node.operands, grads, strict=True):
            if operand in active and grad is not None and seedable(operand.type):
                autodiff.accumulate(self.builder, self.cotangents, operand, self.constant(grad))

    def _sums(
        self, node: Node, rule: Sums, dys: Sequence[Value | None], active: set[Value]
    ) -> None:
        so_far = [self.cotangents.get(v) for v in node.operands]
        new = rule.rule([self.env[v] for v in node.operands], [self._tensor(v) for v in dys],
                        [self._tensor(v) for v in so_far], [v in active for v in node.operands])
        for operand, grad in zip(node.operands, new, strict=True):
            if grad is not None:
                self.cotangents[operand] = self.constant(grad)

    def _zeros(self, value: Value) -> Tensor:
        zeros = self.builder.zeros_like(value)
        self._execute()
        return self.env[zeros]

    def _tensor(self, value: Value | None) -> Tensor | None:
        return self.env[value] if value is not None else None

    def _execute(self) -> None:
        """Run the backward nodes built so far."""
        for node in self.graph.nodes[self.done :]:
            self._run(node)
        self.done = len(self.graph.nodes)

    def _finish(self, wanted: Sequence[Value]) -> None:
        """Run the remaining nodes that these values need; each tensor is freed after its last
        use."""
        needed = set(wanted)
        left: list[Node] = []
        for node in reversed(self.graph.nodes[self.done :]):
            if lookup(node.op).effect or any(r in needed for r in node.results):
                needed.update(node.operands)
                left.append(node)
        last = {v: node for node in left[::-1] for v in node.operands}
        kept = set(wanted)
        self.env = {v: t for v, t in self.env.items() if v in needed}
        for node in left[::-1]:
            self._run(node)
            for v in (*node.operands, *node.results):
                if v not in kept and last.get(v, node) is node:
                    self.env.pop(v, None)

    def _run(self, node: Node) -> None:
        if not watching.active:
            self._run_now(node)
            return
        with watching.active[-1].at(node):
            self._run_now(node)

    def _run_now(self, node: Node) -> None:
        if node.op == "constant":
            self.env[node.result] = tensor_of(node.attrs["value"].array.copy())
            return
        operands = [self.env[v] for v in node.operands]
        if node.op == "scan":
            results = run_scan(operands, node.attrs, node.regions[0])
            self.env.update(zip(node.results, results, strict=True))
            return
        out = apply(node.op, *operands, **node.attrs)
        for r, t in zip(node.results, out if isinstance(out, tuple) else (out,), strict=True):
            self.env[r] = t


def active_recordings() -> list[Recording]:
    """The recordings of this thread, outermost first."""
    return _active.stack


def note_custom(operands: Tensors, results: Tensors, rule: CustomRule) -> None:
    """Record a computation with a gradient rule of its own where an operand is followed."""
    for r in _active.stack:
        if any(r.value_of(t) is not None for t in operands):
            r.note_custom(operands, results, rule)


def stand_for(tensor: Tensor, source: Tensor) -> None:
    """Recordings take a tensor for the value that another one stands for."""
    for r in _active.stack:
        number = r.value_of(source)
        if number is not None:
            r.also(tensor, number)


def aliases(tensors: Tensors) -> list[Tensor]:
    """Other tensors of the same elements, which recordings take for the same values."""
    out = [alias_of(t) for t in tensors]
    if _active.stack:
        for t, source in zip(out, tensors, strict=True):
            stand_for(t, source)
    return out


class recording:
    """Record eager ops within the block. (A class costs half of what a generator would.)"""

    __slots__ = ("_lent", "_recording")

    def __enter__(self) -> Recording:
        r = self._recording = Recording()
        _active.stack.append(r)
        STATE.begin()
        writes.recorded()
        self._lent = STATE.alone()
        if self._lent:
            STATE.lend(r.tape)
        return r

    def __exit__(self, *_: object) -> None:
        if self._lent:
            STATE.lend(None)
        STATE.end()
        _active.stack.remove(self._recording)


@contextmanager
def paused() -> Iterator[None]:
    """Within the block nothing is recorded (the body of a custom gradient)."""
    saved = _active.stack
    _active.stack = []
    STATE.begin()
    try:
        yield
    finally:
        STATE.end()
        _active.stack = saved
