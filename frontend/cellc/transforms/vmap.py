"""`vmap`: a function of one example as a function of many, in both modes.

The function is traced with the type of one example, and the graph is batched
(`autodiff.batching`). In PyNative mode too it is compiled, as MindSpore does it; under a recording
the batched graph is replayed op by op, so that gradients pass through it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from cellc_compiler.autodiff.batching import BatchingError, batch_graph, example_type
from cellc_compiler.ir.graph import Graph, Value

from .. import context
from ..calls.replay import replay
from ..compiled.entries import EntryTable
from ..compiled.inline import inline
from ..core import observers
from ..core.dispatch import active_tracer, apply, apply_one, assign
from ..eager.recorder import active_recordings
from ..tensors import views
from ..tensors.tensor import Tensor, Tensors, ir_type
from ..tracing.pytree import Box, Known, Leaf, Structure, put_together, take_apart
from ..tracing.tracer import GraphTensor, Tracer, named
from .gradient import Inner

Axes = Any


def vmap(fn: Any, in_axes: Axes = 0, out_axes: Axes = 0) -> Vectorized:
    """`fn`, which is written for one example, as a function of many.

    Args:
        fn: a Cell or function of tensors, or a CellList (or a list) of Cells of one structure,
            each of which gets its example (model ensembling).
        in_axes: the axis of examples of each argument: an int for all, or a tuple or list with
            an int, None (the same for all examples) or a nested tuple for each.
        out_axes: the axis of examples of each output, likewise. An output that is the same for
            all examples is repeated, or stays as it is with None.

    Raises:
        RuntimeError: axes that fit neither arguments nor outputs, or all None; sizes that
            differ. (At the call where only that can tell.)

    A random draw in `fn` is the same for all examples. A branch whose condition differs from
    example to example runs both ways.
    """
    cells = _cells(fn)
    if cells is None and not callable(fn):
        raise RuntimeError(f"For 'vmap', 'fn' must be a function, a Cell or a CellList, but got "
                           f"{type(fn).__name__}.")
    for name, axes in (("in_axes", in_axes), ("out_axes", out_axes)):
        if all(a is None for a in _flat_axes(name, axes)) and cells is None:
            raise RuntimeError(f"For 'vmap', '{name}' cannot be all None while 'fn' is not a "
                               f"CellList, but got {axes}.")
    return Vectorized(fn, in_axes, out_axes)


def _cells(fn: Any) -> list[Any] | None:
    """The Cells of an ensemble."""
    listed = fn if isinstance(fn, (list, tuple)) else \
        list(fn) if type(fn).__name__ == "CellList" else None
    if listed is None:
        return None
    if len(listed) < 2:
        raise RuntimeError(f"For 'vmap' of a CellList, it must hold more than one Cell, but holds "
                           f"{len(listed)}.")
    forms = [(type(c), [(p.shape, p.dtype) for p in c.get_parameters()]) for c in listed]
    if any(f != forms[0] for f in forms):
        raise RuntimeError("For 'vmap' of a CellList, its Cells must have one structure: the same "
                           "class, and Parameters of the same shapes and dtypes in the same order.")
    return list(listed)


def _flat_axes(name: str, axes: Axes) -> list[int | None]:
    if isinstance(axes, (tuple, list)):
        return [a for part in axes for a in _flat_axes(name, part)]
    if axes is not None and type(axes) is not int:
        raise RuntimeError(f"For 'vmap', '{name}' must hold ints and None only, but got {axes!r}.")
    return [axes]


class Vectorized:
    """The result of `vmap`: a function of the same arguments, each with an axis of examples."""

    def __init__(self, fn: Any, in_axes: Axes, out_axes: Axes) -> None:
        self.fn, self.in_axes, self.out_axes = fn, in_axes, out_axes
        # whether the function changes Python objects or calls Python, which no replay does
        self.calls_python = False
        self.table = EntryTable()
        self.inner = Inner("vmap", fn, self.evaluate)
        self.__name__ = self.inner.__name__

    def __call__(self, *args: Any) -> Any:
        if active_tracer() is not None or active_recordings():
            return self.evaluate(*args)
        if context.op_by_op():
            try:
                return self.evaluate(*args)
            except TypeError:
                if not self.calls_python:
                    raise
                return self.table.call(self.inner, args, {})
        if observers.calls:
            return observers.calls[-1](
                self, args, {}, lambda: self.table.call(self.inner, args, {}))
        return self.table.call(self.inner, args, {})

    def evaluate(self, *args: Any) -> Any:
        """Compute in the mode at hand."""
        if not args:
            raise TypeError("the function that 'vmap' gives takes at least one argument")
        cells = _cells(self.fn)
        structure, leaves = take_apart(tuple(args))
        axes = _per_leaf("in_axes", self.in_axes, structure, "argument")
        count = _count(leaves, axes, cells)
        given = [t if a is None else _to_front(t, a) for t, a in zip(leaves, axes, strict=True)]
        fn = self.fn if cells is None else cells[0]
        shared = Batch(fn, structure, given, [a is not None for a in axes], count, cells or [])
        try:
            tensors, flags = shared.run(active_tracer())
        finally:
            self.calls_python |= shared.calls_python
        n = len(tensors) - len(shared.written)
        for i, t, m in zip(shared.written, tensors[n:], flags[n:], strict=True):
            _write(leaves[i], t, m, axes[i], count)
        return self._placed(shared.out, tensors[:n], flags[:n], count)

    def _placed(self, out: Structure, tensors: Tensors, flags: Sequence[bool], count: int) -> Any:
        """The outputs with their axes of examples where they are wanted."""
        many = isinstance(out, Box) and out.kind in (tuple, list)
        wanted = self.out_axes
        if not many and isinstance(wanted, (tuple, list)):
            if len(wanted) != 1:
                raise RuntimeError(f"For 'vmap', the size of 'out_axes' must be the number of "
                                   f"outputs, 1, but got {len(wanted)}.")
            wanted = wanted[0]
        axes = _per_leaf("out_axes", wanted, out, "output")
        moved: list[Tensor] = []
        for t, mapped, axis in zip(tensors, flags, axes, strict=True):
            if axis is None and mapped:
                raise RuntimeError("For 'vmap', an output that differs from example to example "
                                   "needs an axis in 'out_axes', but got None.")
            if axis is None:
                moved.append(t)
                continue
            moved.append(_from_front(_whole(t, mapped, count), axis))
        return put_together(out, moved)


def _whole(t: Tensor, mapped: bool, count: int) -> Tensor:
    """The value of all examples, which are alike unless it is `mapped`."""
    return t if mapped else apply("broadcast_to", t, shape=(count, *t.shape))


def _write(argument: Tensor, t: Tensor, mapped: bool, axis: int | None, count: int) -> None:
    """Let an argument hold what the function has written to its examples."""
    if axis is not None:
        t = _from_front(_whole(t, mapped, count), axis)
    elif mapped:
        raise RuntimeError("For 'vmap', the function writes values that differ from example to "
                           "example to an argument that all examples share.")
    views.change(argument, t)


def _per_leaf(name: str, axes: Axes, structure: Structure, what: str) -> list[int | None]:
    """The axis of each tensor of a structure."""
    found: list[int | None] = []

    def walk(axes: Axes, part: Structure, top: bool = False) -> None:
        if isinstance(axes, (tuple, list)):
            parts = part.parts if isinstance(part, Box) else ()
            if not isinstance(part, Box) or len(axes) != len(parts):
                size = len(parts) if isinstance(part, Box) else 1
                raise RuntimeError(f"For 'vmap', where '{name}' is a tuple or list, its size must "
                                   f"be the number of {what}s, {size}, but got {len(axes)}.")
            for a, p in zip(axes, parts, strict=True):
                walk(a, p)
        elif isinstance(part, Box):
            for p in part.parts:
                walk(axes, p)
        elif isinstance(part, Leaf):
            found.append(axes)
        elif axes is not None and isinstance(part, Known) and what == "argument":
            raise RuntimeError(f"For 'vmap', an {what} with the axis {axes} must be a Tensor, but "
                               f"got {part.value!r}: give it None in '{name}'.")

    walk(axes, structure)
    return found


def _count(leaves: Tensors, axes: Sequence[int | None], cells: Any) -> int:
    """The number of examples."""
    sizes = [len(cells)] if cells else []
    for t, a in zip(leaves, axes, strict=True):
        if a is None:
            continue
        if not -t.ndim <= a < t.ndim:
            raise RuntimeError(f"For 'vmap', the axis {a} in 'in_axes' is out of bounds for a "
                               f"tensor of {t.ndim} dimensions.")
        sizes.append(t.shape[a])
    if not sizes:
        raise RuntimeError("For 'vmap', at least one argument must have an axis of examples.")
    if any(s != sizes[0] for s in sizes):
        raise RuntimeError(f"For 'vmap', the sizes of all axes of examples must be equal, but got "
                           f"{sizes}.")
    return sizes[0]


def _to_front(t: Tensor, axis: int) -> Tensor:
    k = axis % t.ndim
    perm = (k, *(a for a in range(t.ndim) if a != k))
    return apply_one("transpose", t, perm=perm) if k else t


def _from_front(t: Tensor, axis: int) -> Tensor:
    if not -t.ndim <= axis < t.ndim:
        raise RuntimeError(f"For 'vmap', the axis {axis} in 'out_axes' is out of bounds for an "
                           f"output of {t.ndim} dimensions.")
    k = axis % t.ndim
    perm = (*range(1, k + 1), 0, *range(k + 1, t.ndim))
    return apply_one("transpose", t, perm=perm) if k else t


class Batch:
    """One call: a function traced for one example and batched.

    Args:
        fn: the function, or the first Cell of an ensemble.
        structure, given: of the arguments, their axes of examples at the front.
        mapped: which of them have one.
        count: the number of examples.
        cells: of an ensemble.
    """

    def __init__(
        self, fn: Any, structure: Structure, given: Tensors, mapped: Sequence[bool],
        count: int, cells: Sequence[Any],
    ) -> None:
        self.fn, self.structure, self.count = fn, structure, count
        self.own = list(cells[0].get_parameters()) if cells else []
        stacks = [apply("stack", *each, axis=0)
                  for each in zip(*(list(c.get_parameters()) for c in cells), strict=True)]
        self.by_cell = [list(c.get_parameters()) for c in cells]
        self.given = [*given, *stacks]
        self.mapped = [*mapped, *[True] * len(stacks)]
        self.arguments = len(given)
        self.out: Structure = Known(None)  # the structure of the outputs
        # the numbers of the arguments that the function writes, whose new values follow the outputs
        self.written: list[int] = []
        self.calls_python = False

    def _types(self) -> list[Any]:
        return [example_type(ir_type(t)) if m else ir_type(t)
                for t, m in zip(self.given, self.mapped, strict=True)]

    def _call(self, tracer: Tracer, inputs: list[Tensor]) -> list[Tensor]:
        region = tracer.regions[-1]
        for p, t in zip(self.own, inputs[self.arguments:], strict=True):
            region.env[p] = tracer.lift(t)
        own = inputs[: self.arguments]
        before = [tracer.lift(t) for t in own]
        out = inline(tracer, self.fn, put_together(self.structure, own), {})
        self.out, tensors = take_apart(self._with_numbers(out))
        self.written = [i for i, (t, value) in enumerate(zip(own, before, strict=True))
                        if tracer.lift(t) is not value]
        return [*tensors, *(own[i] for i in self.written)]

    def _with_numbers(self, out: Any) -> Any:
        """The outputs, Python numbers as tensors."""
        if isinstance(out, (tuple, list)):
            return type(out)(self._with_numbers(x) for x in out)
        if isinstance(out, (bool, int, float)):
            return Tensor(out)
        if not isinstance(out, (Tensor, dict)):
            raise RuntimeError(f"For 'vmap', 'fn' must give Tensors or numbers, but gave "
                               f"{type(out).__name__}.")
        return out

    def _batched(self, graph: Graph, extra: int) -> tuple[Graph, list[bool]]:
        try:
            return batch_graph(graph, [*self.mapped, *[False] * extra], self.count)
        except BatchingError as e:
            place = f" ({e.node.span})" if e.node.span.line else ""
            raise RuntimeError(f"For 'vmap': {e}{place}") from None

    def _finish(
        self, results: Tensors, flags: Sequence[bool], assigned: Sequence[Tensor],
        write: Callable[[Tensor, Tensor], None],
    ) -> tuple[list[Tensor], list[bool]]:
        """Assign what the function assigned; the outputs, and which are mapped."""
        count = len(results) - len(assigned)
        for p, t, m in zip(assigned, results[count:], flags[count:], strict=True):
            if p in self.own:
                whole = _whole(t, m, self.count)
                for i, cell in enumerate(self.by_cell):
                    row = apply("slice", whole, start=(i, *(0,) * (whole.ndim - 1)),
                                stop=(i + 1, *whole.shape[1:]), step=None)
                    write(cell[self.own.index(p)], apply("reshape", row, shape=p.shape))
            elif m:
                raise RuntimeError("For 'vmap', the function assigns values that differ from "
                                   f"example to example to {named(p)}, which all examples share.")
            else:
                write(p, t)
        return list(results[:count]), list(flags[:count])

    def run(self, tracer: Tracer | None) -> tuple[list[Tensor], list[bool]]:
        """The outputs as values of the graph being traced, or computed op by op, as recordings want
        it; and which are mapped."""
        here = _Following("vmap") if tracer is None else tracer
        values = [] if tracer is None else [tracer.lift(t) for t in self.given]
        before = len(here.functions)
        graph, captures, assigned = here.region(
            "vmap", self._types(), lambda inputs: self._call(here, inputs))
        self.calls_python = len(here.functions) > before
        if tracer is None and here.functions:
            raise TypeError("the gradient of a 'vmap' whose function calls Python at run time "
                            "(py_func, hooks) can be computed in graph mode only: "
                            "ms.set_context(mode=ms.GRAPH_MODE)")
        many, flags = self._batched(graph, len(captures))
        if tracer is None:
            outside = {v: p for p, v in here.parameters.items()}
            results = replay(many, [*self.given, *(outside[v] for v in captures)])
            return self._finish(results, flags, assigned, assign)
        results = list(tracer.inline(many, [*values, *captures]))
        return self._finish(results, flags, assigned, tracer.assign)


class _Following(Tracer):
    """A tracer for which every tensor from outside is an input, so that recordings see it."""

    def lift(self, tensor: Tensor, level: int = -1) -> Value:
        """The IR value of a tensor in the region at `level`."""
        if isinstance(tensor, GraphTensor):
            return super().lift(tensor, level)
        return self._read(tensor, level % len(self.regions))
