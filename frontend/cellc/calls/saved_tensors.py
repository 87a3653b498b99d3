"""Hooks on what a gradient keeps: tensors are packed when they are kept, unpacked when read.

Within their scope each op that has a gradient becomes a function with a gradient of its own. The
rule itself shows which operands and results it reads; each such tensor goes through the pack hook
after the op, and the packed value through the unpack hook before the rule. Both modes do it here,
op by op, so they call the hooks alike.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from cellc_compiler.ir.graph import Builder, Graph, Node
from cellc_compiler.ir.types import TensorType, differentiable
from cellc_runtime.records import dataclass

from ..core import dispatch
from ..core.dispatch import Attrs
from ..core.later import autodiff
from ..core.module_names import function_name, plain
from ..core.native import names_itself
from ..eager.backward import closed, distinct
from ..eager.recorder import Applied, active_recordings, aliases, applied
from ..tensors.tensor import Tensor, Tensors, ir_type
from ..tracing.pytree import Structure, put_together, take_apart
from ..tracing.tracer import GraphTensor, call_here
from .bprop import with_gradient
from .replay import run_graph

Hook = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class SavedHooks:
    """A pair of hooks; `around` runs an op under them."""

    pack: Hook
    unpack: Hook

    def __post_init__(self) -> None:
        for name, hook in (("pack_hook", self.pack), ("unpack_hook", self.unpack)):
            if not callable(hook):
                raise TypeError(f"For 'saved_tensors_hooks', '{name}' must be a function, but got "
                                f"{type(hook).__name__}.")

    def around(self, op: str, operands: Tensors, attrs: Attrs) -> Any:
        """The results of an op, as `dispatch.apply` gives them."""
        with dispatch.saving(None):
            if not _kept_for_a_gradient(operands):
                return dispatch.apply(op, *operands, **attrs)
            rule = _rule(applied(op, attrs), tuple(ir_type(t) for t in operands),
                         tuple(map(is_constant, operands)))
            if rule is None:
                return dispatch.apply(op, *operands, **attrs)
            return _Saved(self, rule, op, operands, attrs).run()


def _kept_for_a_gradient(operands: Tensors) -> bool:
    tracer = dispatch.active_tracer()
    if tracer is not None:
        return any(r.graph.name == "grad" for r in tracer.regions)
    return any(r.value_of(t) is not None for r in active_recordings() for t in operands)


@dataclass(frozen=True, slots=True)
class _Rule:
    """The gradient of an op as a graph."""

    graph: Graph  # of the cotangents of its results and of what it reads
    reads: tuple[int, ...]  # what it reads: numbers of operands, then of results
    places: tuple[int | None, ...]  # for each operand, which output is its cotangent, or None


@lru_cache(maxsize=1024)
def _rule(info: Applied, types: tuple[TensorType, ...], constant: tuple[bool, ...]) -> _Rule | None:
    """None for an op without a gradient with respect to operands that are not constant."""
    if info.op == "stop_gradient":
        return None
    inner = Graph(info.op)
    operands = [inner.add_input(t, f"x{i}") for i, t in enumerate(types)]
    made = Builder(inner).emit(info.op, *operands, **dict(info.attrs))
    results = list(made) if isinstance(made, tuple) else [made]
    if not any(differentiable(v.type) for v in results):
        return None
    node: Node = results[0].node
    graph = Graph(f"{info.op}_grad")
    b = Builder(graph)
    cotangents: autodiff.Cotangents = {}
    for i, v in enumerate(results):
        dy = graph.add_input(v.type, f"dy{i}")
        if differentiable(v.type):
            autodiff.accumulate(b, cotangents, v, dy)
    wanted = [v for v, c in zip(operands, constant, strict=True) if not c]
    autodiff.reverse(b, [node], cotangents, wanted)
    outputs, places = distinct([cotangents.get(v) for v in operands])
    if not outputs:
        return None
    reads = closed(graph, [*operands, *results], outputs)
    return _Rule(graph, tuple(reads), tuple(places))


class _Saved:
    """One op under the hooks.

    The op and what the pack hook does are computed as usual, where outer gradients see them. Then
    a function with a gradient of its own hands the results through: its gradient is the op's,
    computed from what was packed.
    """

    def __init__(
        self, hooks: SavedHooks, rule: _Rule, op: str, operands: Tensors, attrs: Attrs
    ) -> None:
        self.hooks, self.rule = hooks, rule
        self.op, self.operands, self.attrs = op, list(operands), attrs
        self.packed: dict[int, tuple[Structure, int, int]] = {}
        """For each tensor kept: what was made of it, and which operands hold its tensors."""

    def run(self) -> Any:
        """The results."""
        out = dispatch.apply(self.op, *self.operands, **self.attrs)
        results = list(out) if isinstance(out, tuple) else [out]
        known = [*self.operands, *results]
        given = list(known)
        for n in sorted(self.rule.reads):
            if n >= len(self.operands) or not is_constant(known[n]):
                structure, tensors = take_apart(self._pack(known[n]))
                self.packed[n] = structure, len(given), len(tensors)
                given.extend(tensors)
        shown = with_gradient(given, lambda ts: ts[len(self.operands) : len(known)], self.backward)
        return tuple(shown) if isinstance(out, tuple) else shown[0]

    def _pack(self, tensor: Tensor) -> Any:
        mine = tensor if isinstance(tensor, GraphTensor) else aliases([tensor])[0]
        before = _state(mine)
        made = call_here(self.hooks.pack, (mine,))
        if _state(mine) != before:
            raise RuntimeError(f"the pack hook {_name(self.hooks.pack)} changed the tensor it was "
                               "given in place; return a new one instead")
        return made

    def backward(self, given: Tensors, results: Tensors, dys: Tensors) -> list[Tensor | None]:
        """Cotangents of the operands, from what the unpack hook gives."""
        known = list(given)
        for n, (structure, start, size) in self.packed.items():
            made = put_together(structure, list(given[start : start + size]))
            known[n] = self._unpacked(made, given[n])
        found = run_graph(self.rule.graph, [*dys, *(known[n] for n in self.rule.reads)])
        grads = [None if p is None else found[p] for p in self.rule.places]
        return [*grads, *[None] * (len(given) - len(grads))]

    def _unpacked(self, made: Any, like: Tensor) -> Tensor:
        with dispatch.saving(None):
            tensor = call_here(self.hooks.unpack, (made,))
        name = _name(self.hooks.unpack)
        if not isinstance(tensor, Tensor):
            raise TypeError(f"the unpack hook {name} must return a Tensor, but returned "
                            f"{type(tensor).__name__}")
        if tuple(tensor.shape) != tuple(like.shape):
            raise ValueError(f"the unpack hook {name} must return a Tensor of the shape that was "
                             f"packed, {tuple(like.shape)}, but returned {tuple(tensor.shape)}")
        if tensor.dtype != like.dtype:
            raise TypeError(f"the unpack hook {name} must return a Tensor of the dtype that was "
                            f"packed, {like.dtype}, but returned {tensor.dtype}")
        return tensor


def _state(tensor: Tensor) -> Any:
    return id(tensor.ir_value) if isinstance(tensor, GraphTensor) else tensor._version


def is_constant(tensor: Tensor) -> bool:
    """Whether a tensor stands for a number in the source."""
    if isinstance(tensor, GraphTensor):
        node = tensor.ir_value.node
        return node is not None and node.op == "constant"
    return tensor._literal


def _name(hook: Any) -> str:
    return function_name(hook)


@names_itself
class saved_tensors_hooks:
    """A context in which tensors kept for gradients pass through hooks.

    Each tensor that the gradient of an op reads goes to `pack_hook` once per op, after the op; when
    the gradient is computed `unpack_hook` gets the packed value. Of nested contexts the innermost
    counts. Ops of which no gradient is taken keep nothing. Within a compiled function both hooks
    are compiled too.

    Args:
        pack_hook: takes the tensor, gives anything made of tensors and Python values.
        unpack_hook: takes that, gives a Tensor of the shape and dtype that was packed.

    Raises:
        TypeError: one of them is no function; `unpack_hook` gives no Tensor, or another dtype.
        ValueError: `unpack_hook` gives another shape.
        RuntimeError: `pack_hook` changes its argument in place.

    Source: `mindspore.saved_tensors_hooks` (there PyNative only; here in both modes).
    """

    def __init__(self, pack_hook: Hook, unpack_hook: Hook) -> None:
        self.pack_hook, self.unpack_hook = pack_hook, unpack_hook
        self.hooks = SavedHooks(pack_hook, unpack_hook)
        self._open: list[Any] = []

    def __enter__(self) -> saved_tensors_hooks:
        scope = dispatch.saving(self.hooks.around)
        scope.__enter__()
        self._open.append(scope)
        return self

    def __exit__(self, *_: object) -> None:
        self._open.pop().__exit__(None, None, None)


def register_saved_tensors_hooks(pack_hook: Hook, unpack_hook: Hook) -> Callable[[Any], Any]:
    """A decorator: the function's body runs within `saved_tensors_hooks`.

    Args:
        pack_hook, unpack_hook: see `saved_tensors_hooks`.

    Raises:
        TypeError: one of them is no function.

    Source: `mindspore.register_saved_tensors_hooks` (there for compiled functions only; here in
    both modes).
    """
    hooks = SavedHooks(pack_hook, unpack_hook)

    def decorate(fn: Any) -> Any:
        if not callable(fn):
            raise TypeError(f"'register_saved_tensors_hooks' decorates a function, but got "
                            f"{type(fn).__name__}.")

        def saving(*args: Any, **kwargs: Any) -> Any:
            tracer = dispatch.active_tracer()
            return under(hooks, lambda: fn(*args, **kwargs) if tracer is None else
                         tracer.interpret(fn, args, kwargs))

        saving.__name__, saving.__doc__ = _name(fn), plain(fn, "__doc__")
        return saving

    return decorate


def under(hooks: SavedHooks | None, call: Callable[[], Any]) -> Any:
    """`call()` with these hooks on what its gradient keeps."""
    if hooks is None:
        return call()
    with dispatch.saving(hooks.around):
        return call()
