"""Hooks: Python functions that see, and may replace, what passes through Cells and gradients.

In PyNative mode a hook is called where it stands. A compiled graph calls it back (`callbacks`), in
the order of the program, so a hook is plain Python in both modes. Its results in graph mode must
have the types of its inputs, for the graph is compiled before it runs; its own gradient is taken by
recording it while it runs.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import compress, groupby
from typing import Any

import numpy as np

from cellc_compiler.ir.types import differentiable

from ..core.dispatch import active_tracer, apply, reader, reading
from ..core.invalidation import changed
from ..core.module_names import function_name, plain
from ..eager.recorder import active_recordings, recording, tensor_hooks
from ..tensors.parameter import Parameter
from ..tensors.tensor import Tensor, Tensors, alias_of, ir_type, tensor_of
from ..tracing.pytree import Structure, put_together, take_apart
from ..tracing.tracer import GraphTensor, Tracer, call_here
from . import precision
from .callbacks import host_call
from .saved_tensors import SavedHooks, under

Hook = Callable[..., Any]
Construct = Callable[[tuple[Any, ...], dict[str, Any]], Any]
Within = Callable[[tuple[Any, ...], Mapping[str, Any]], Any]
KINDS = ("forward_pre", "forward", "backward_pre", "backward")


def check_hook(hook: Any) -> None:
    """Refuse what cannot be called."""
    if not callable(hook):
        raise TypeError(f"Expected a callable hook function, but got {type(hook).__name__}.")


class Handle:
    """The result of registering a hook; `remove` takes the hook away (again: nothing)."""

    def __init__(self, table: dict[int, Any], key: int, owner: Any) -> None:
        self._table, self._owner = table, owner
        self.id = key  # the number of the hook among those of its Cell or Tensor

    def remove(self) -> None:
        """Take the hook away."""
        if self._table.pop(self.id, None) is not None:
            changed(self._owner, "_hooks")

    def __enter__(self) -> Handle:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


class CellHooks:
    """The hooks of a Cell, by kind and in order."""

    def __init__(self) -> None:
        self.tables: dict[str, OrderedDict[int, tuple[Hook, bool, bool]]] = {
            k: OrderedDict() for k in KINDS}
        self.count = 0
        self.saved: SavedHooks | None = None
        self.read: dict[Tensor | None, Hook] = {}
        """Replacements of Parameters where they are read; None stands for all others."""

    def add(
        self, owner: Any, kind: str, hook: Hook, prepend: bool = False, with_kwargs: bool = False,
        always_call: bool = False,
    ) -> Handle:
        """Register a hook; what removes it."""
        check_hook(hook)
        self.count += 1
        table = self.tables[kind]
        table[self.count] = hook, with_kwargs, always_call
        if prepend:
            table.move_to_end(self.count, last=False)
        changed(owner, "_hooks")
        return Handle(table, self.count, owner)

    def __len__(self) -> int:
        return sum(map(len, self.tables.values())) + (self.saved is not None) + len(self.read)

    def around(self, construct: Callable[[], Any]) -> Any:
        """`construct()` within the scope of the hooks on what it reads and what is kept."""
        if not self.read:
            return under(self.saved, construct)
        with reading(_Reader(self.read, reader())):
            return under(self.saved, construct)

    def of(self, kind: str) -> list[tuple[Hook, bool, bool]]:
        """The hooks of a kind now (one may be removed while they run)."""
        return list(self.tables[kind].values())


def hooks_of(cell: Any) -> CellHooks | None:
    """The hooks of a Cell, None if it has none."""
    found: CellHooks | None = cell.__dict__.get("_hooks")
    return found or None


class _Reader:
    """Gives ops what hooks make of Parameters; those of an inner Cell go before an outer one's."""

    def __init__(self, hooks: Mapping[Tensor | None, Hook],
                 outer: Callable[[Tensor], Tensor] | None) -> None:
        self.hooks, self.outer = hooks, outer

    def __call__(self, tensor: Tensor) -> Tensor:
        if not isinstance(tensor, Parameter):
            return tensor
        hook = self.hooks.get(tensor) or self.hooks.get(None)
        if hook is None:
            return tensor if self.outer is None else self.outer(tensor)
        with reading(None):
            made = call_here(hook, (tensor,))
            name = function_name(hook)
            what = f"the hook {name} on the Parameter {tensor.name}"
            if not isinstance(made, Tensor):
                raise TypeError(f"{what} must return a Tensor, but returned {type(made).__name__}")
            if tuple(made.shape) != tuple(tensor.shape):
                raise ValueError(f"{what} must keep its shape, {tuple(tensor.shape)}, but returned "
                                 f"{tuple(made.shape)}")
            if made.dtype != tensor.dtype:
                made = apply("cast", made, dtype=tensor.dtype)
        out: Tensor = made
        return out


# --- calls of Cells ------------------------------------------------------------------------------


def call_around(
    cell: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], construct: Construct,
    recomputed: Callable[[Within, tuple[Any, ...], dict[str, Any]], Any] | None,
) -> Any:
    """A call of a Cell in either mode: `construct(args, kwargs)` in the Cell's precision, computed
    again for gradients if the Cell is so marked, within the Cell's hooks.

    Args:
        recomputed: gives the result of a function of arguments that gradients compute again; None
            if the Cell is not marked.
    """
    hooks = hooks_of(cell)
    if hooks is None and recomputed is None:
        return precision.run(cell, args, kwargs, construct)

    def within(a: tuple[Any, ...], k: dict[str, Any]) -> Any:
        if recomputed is None:
            return precision.run(cell, a, k, construct)
        return recomputed(lambda a, k: precision.run(cell, a, k, construct), a, k)

    return within(args, dict(kwargs)) if hooks is None else \
        _call_hooked(cell, hooks, args, kwargs, within)


def _call_hooked(
    cell: Any, hooks: CellHooks, args: tuple[Any, ...], kwargs: Mapping[str, Any],
    construct: Construct,
) -> Any:
    kw = dict(kwargs)
    for hook, with_kwargs, _ in hooks.of("forward_pre"):
        args, kw = _pre(cell, hook, with_kwargs, args, kw)
    backward = _Backward.of(cell, hooks)
    if backward is not None:
        args = backward.enter(args)
    try:
        out = hooks.around(lambda: construct(args, kw))
    except Exception:
        if active_tracer() is None:
            _after_failure(cell, hooks, args, kw)
        raise
    for hook, with_kwargs, _ in hooks.of("forward"):
        out = _post(cell, hook, with_kwargs, args, kw, out)
    return out if backward is None else backward.leave(out)


def _after_failure(
    cell: Any, hooks: CellHooks, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    for hook, with_kwargs, always in hooks.of("forward"):
        if always:
            hook(cell, args, kwargs, None) if with_kwargs else hook(cell, args, None)


def _pre(
    cell: Any, hook: Hook, with_kwargs: bool, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    def run(given: Any) -> Any:
        a, k = given
        new = hook(cell, a, k) if with_kwargs else hook(cell, a)
        if new is None:
            return given
        if not with_kwargs:
            return new if isinstance(new, tuple) else (new,), k
        if not isinstance(new, tuple) or len(new) != 2 or not isinstance(new[1], dict):
            raise RuntimeError(
                "a forward pre hook with kwargs must return None or a tuple (args, kwargs), but "
                f"got {type(new).__name__}"
            )
        return new[0] if isinstance(new[0], tuple) else (new[0],), new[1]

    out: tuple[tuple[Any, ...], dict[str, Any]] = _in_mode(
        run, (args, kwargs), (args, kwargs), f"forward pre hook of {type(cell).__name__}"
    )
    return out


def _post(
    cell: Any, hook: Hook, with_kwargs: bool, args: tuple[Any, ...], kwargs: dict[str, Any],
    out: Any,
) -> Any:
    def run(given: Any) -> Any:
        a, k, o = given
        new = hook(cell, a, k, o) if with_kwargs else hook(cell, a, o)
        return o if new is None else new

    return _in_mode(run, (args, kwargs, out), out, f"forward hook of {type(cell).__name__}")


def _in_mode(run: Callable[[Any], Any], given: Any, like: Any, name: str) -> Any:
    """`run(given)`, now or when the graph runs; there it must give the structure of `like`."""
    if active_tracer() is None:
        return run(given)
    structure, leaves = take_apart(given)
    wanted, results = take_apart(like)
    tape = _Tape(run, structure, wanted, name)
    types = [ir_type(t) for t in results]
    floats = [i for i, t in enumerate(leaves) if differentiable(ir_type(t))]

    def rule(operands: Tensors, outs: Tensors, dys: Tensors) -> list[Tensor | None]:
        wanted_types = [ir_type(operands[i]) for i in floats]
        found = host_call(tape.backward, f"gradient of the {name}", dys, wanted_types)
        grads = dict(zip(floats, found, strict=True))
        return [grads.get(i) for i in range(len(operands))]

    out = host_call(tape.forward, name, leaves, types, rule)
    return put_together(wanted, out)


class _Linked:
    """A function that a graph calls, which goes by whether the graph calls another one as well.

    Args:
        call: takes whether it does, and tensors.
        followed: whether it does where no graph is.
    """

    def __init__(
        self, call: Callable[..., Any], other: Callable[..., Any],
        followed: Callable[[], bool] = lambda: False,
    ) -> None:
        self.call, self.other, self.followed = call, other, followed

    def __call__(self, *given: Tensor) -> Any:
        return self.call(self.followed(), *given)

    def linked(self, present: Sequence[Any]) -> Callable[..., Any]:
        """Return the function for a graph that holds these functions."""
        return partial(self.call, self.other in present)


class _Tape:
    """A hook that a graph calls, and its gradient: what it did forward is recorded for that."""

    def __init__(
        self, run: Callable[[Any], Any], structure: Structure, wanted: Structure, name: str
    ) -> None:
        self.run, self.structure, self.wanted, self.name = run, structure, wanted, name
        self.kept = _Stack()
        self.forward = _Linked(self._forward, self.backward)

    def results(self, given: Tensors) -> tuple[Tensor, ...]:
        """Return the hook's results for these tensors."""
        structure, tensors = take_apart(self.run(put_together(self.structure, list(given))))
        if structure != self.wanted:
            raise TypeError(
                f"the {self.name} gave another structure than it was given; in graph mode it may "
                "replace tensors by tensors of the same types only"
            )
        return tuple(tensors)

    def _forward(self, followed: bool, *given: Tensor) -> Any:
        if not followed:
            return self.results(given)
        with recording() as r:
            numbers = [r.track(t) for t in given if differentiable(ir_type(t))]
            out = self.results(given)
        self.kept.items.append((r, numbers, out))
        return out

    def backward(self, *dys: Tensor) -> Any:
        """The gradient of the last call that has not had one."""
        r, numbers, outs = self.kept.items.pop()
        chosen = [(o, dy) for o, dy in zip(outs, dys, strict=True)
                  if differentiable(ir_type(o)) and r.value_of(o) is not None]
        grads: list[Tensor | None] = [None] * len(numbers)
        if chosen:
            outputs, sens = zip(*chosen, strict=True)
            grads = r.gradients(outputs, sens, numbers)
        types = (ir_type(r.tensors[n]) for n in numbers)
        # Where there is no path, -0.0: it changes no sum.
        return tuple(g if g is not None else tensor_of(np.full(t.dims, -0.0, t.dtype.numpy))
                     for g, t in zip(grads, types, strict=True))


class _Stack(threading.local):
    """Data that forward calls left for backward calls, the last first."""

    def __init__(self) -> None:
        self.items: list[Any] = []


# --- gradients -----------------------------------------------------------------------------------


def replaced(hook: Hook, grad: Tensor, *args: Any) -> Tensor:
    """Return the hook's replacement of a gradient: the gradient itself where it returns None."""
    new = hook(*args)
    if isinstance(new, (tuple, list)) and len(new) == 1:
        new = new[0]
    if new is None:
        return grad
    if not isinstance(new, Tensor):
        raise TypeError(f"a hook on a gradient must return a Tensor or None, but got "
                        f"{type(new).__name__}")
    if ir_type(new) != ir_type(grad):
        raise TypeError(f"a hook on a gradient of type {ir_type(grad)} returned {ir_type(new)}")
    return new


def taps(values: Tensors, change: Callable[[Tensors], Tensors]) -> list[Tensor]:
    """The same tensors; the gradients that come back to them pass through `change`."""

    def rule(operands: Tensors, results: Tensors, dys: Tensors) -> Tensors:
        return change(dys)

    tracer = active_tracer()
    if tracer is not None:
        return tracer.custom_gradient(values, list, rule)
    following = [r for r in active_recordings()
                 if any(r.value_of(t) is not None for t in values)]
    if not following:
        return list(values)
    results = [alias_of(t) for t in values]
    for r in following:
        r.note_custom(values, results, rule)
    return results


def on_host(function: Callable[..., Tensors], name: str, grads: Tensors) -> Tensors:
    """`function(*grads)`, which gives gradients of the same types, now or when the graph runs."""
    if active_tracer() is None:
        return function(*grads)
    return host_call(function, name, grads, [ir_type(g) for g in grads])


class _Backward:
    """The backward hooks around one call of a Cell."""

    def __init__(self, cell: Any, before: list[Hook], after: list[Hook]) -> None:
        self.cell, self.before, self.after = cell, before, after
        self.pending = _Stack()
        self.followed = True
        self.inputs: list[bool] = []
        self.outputs: list[bool] = []
        self.at_outputs = _Linked(self._at_outputs, self.at_inputs, lambda: self.followed)

    @staticmethod
    def of(cell: Any, hooks: CellHooks) -> _Backward | None:
        """None if there are none, or no gradient is taken."""
        before = [h for h, *_ in hooks.of("backward_pre")]
        after = [h for h, *_ in hooks.of("backward")]
        if not (before or after) or (active_tracer() is None and not active_recordings()):
            return None
        return _Backward(cell, before, after)

    def enter(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arguments, whose gradients the hooks will see."""
        structure, leaves = take_apart(args)
        self.inputs = [differentiable(ir_type(t)) for t in leaves]
        chosen = list(compress(leaves, self.inputs))
        if active_tracer() is None:
            self.followed = any(
                r.value_of(t) is not None for r in active_recordings() for t in chosen
            )
        if not self.after or not chosen:
            self.followed = self.followed and bool(chosen)
            return args
        new = self._tapped(leaves, self.inputs, self.at_inputs, "backward hook")
        out: tuple[Any, ...] = put_together(structure, new)
        return out

    def leave(self, out: Any) -> Any:
        """The result, whose gradient the hooks will see first."""
        structure, leaves = take_apart(out)
        self.outputs = [differentiable(ir_type(t)) for t in leaves]
        if not any(self.outputs):
            return out
        new = self._tapped(leaves, self.outputs, self.at_outputs, "backward pre hook")
        return put_together(structure, new)

    def _tapped(
        self, leaves: Tensors, mask: Sequence[bool], hook: Callable[..., Any], what: str
    ) -> list[Tensor]:
        """Tensors, of which the gradients of those in the mask pass through a hook."""
        name = f"{what} of {type(self.cell).__name__}"
        fresh = iter(taps(list(compress(leaves, mask)), lambda dys: on_host(hook, name, dys)))
        return [next(fresh) if m else t for t, m in zip(leaves, mask, strict=True)]

    def run(self, hooks: Iterable[Hook], grads: tuple[Any, ...], *others: Any) -> tuple[Any, ...]:
        """Gradients after these hooks."""
        for hook in hooks:
            new = hook(self.cell, grads, *others)
            if new is None:
                continue
            many = tuple(new) if isinstance(new, (tuple, list)) else (new,)
            if len(many) != len(grads):
                raise TypeError(
                    f"The backward hook return value size is {len(many)} not equal to expect "
                    f"grad input size {len(grads)}"
                )
            grads = tuple(
                g if g is None else replaced(lambda new: new, g, m)
                for g, m in zip(grads, many, strict=True)
            )
        return grads


    def _at_outputs(self, followed: bool, *dys: Tensor) -> tuple[Any, ...]:
        """The gradients of the results: the pre hooks run, the others too where no gradient will
        reach the arguments."""
        grads = self.run(self.before, _spread(self.outputs, dys))
        if self.after:
            if followed:
                self.pending.items.append(grads)
            else:
                self.run(self.after, (None,) * len(self.inputs), grads)
        return tuple(g for g in grads if g is not None)

    def at_inputs(self, *dys: Tensor) -> tuple[Any, ...]:
        """The gradients of the arguments."""
        outputs = self.pending.items.pop() if self.pending.items else (None,) * len(self.outputs)
        grads = self.run(self.after, _spread(self.inputs, dys), outputs)
        return tuple(g for g in grads if g is not None)


def _spread(mask: Sequence[bool], grads: Tensors) -> tuple[Any, ...]:
    it = iter(grads)
    return tuple(next(it) if m else None for m in mask)


# --- hooks on tensors ----------------------------------------------------------------------------


def register_on_tensor(tensor: Tensor, hook: Hook) -> Any:
    """`Tensor.register_hook`; see there."""
    check_hook(hook)
    tracer = active_tracer()
    if tracer is not None:
        if not isinstance(tensor, GraphTensor):
            # Each call adds one more in PyNative mode, and it may hold values of that call.
            raise ValueError(
                f"register_hook() of a {type(tensor).__name__} that outlives the call is not "
                "available in a compiled function: each call would add one more hook. Register "
                "it once, outside (in __init__); or, for this call alone, register it for a "
                "tensor made of it (w = self.w * 1; w.register_hook(...))")
        _register_in_graph(tracer, tensor, hook)
        return tensor
    if tensor._hooks is None:
        tensor._hooks = {}
    if not tensor_hooks:
        tensor_hooks.append(through_hooks)
    table = tensor._hooks
    number = max(table, default=0) + 1
    table[number] = hook
    changed(tensor, "_hooks")
    return Handle(table, number, tensor)


def remove_from_tensor(tensor: Tensor, handle_id: int) -> None:
    """`Tensor.remove_hook`; see there."""
    if isinstance(handle_id, bool) or not isinstance(handle_id, int):
        raise TypeError("For 'remove_hook', 'handle_id' must be the int 'id' of what register_hook "
                        f"has returned, but got {type(handle_id).__name__}.")
    if isinstance(tensor, GraphTensor):
        raise RuntimeError("remove_hook() takes a hook away in PyNative mode; in a compiled "
                           "function, register the hook under a condition instead.")
    Handle(tensor._hooks or {}, handle_id, tensor).remove()


def _register_in_graph(tracer: Tracer, tensor: GraphTensor, hook: Hook) -> None:
    """All uses of the tensor in the graph at hand, earlier ones too, pass through a tap.

    A second tap stands before the first, so that hooks run in the order of registration.
    """
    hook, region = written(hook), tracer.regions[-1]
    known = tensor.__dict__.get("_tap")
    origin = known[1] if known is not None and known[0] is region else tensor.ir_value
    fresh = taps([GraphTensor(origin)], lambda dys: [run_gradient_hooks([hook], dys[0])])[0]
    assert isinstance(fresh, GraphTensor)
    tracer.move_to_definition(origin, fresh.ir_value)
    if origin is tensor.ir_value:
        tensor.ir_value = fresh.ir_value
        tensor.__dict__["_tap"] = region, origin


def run_gradient_hooks(hooks: Sequence[Hook], grad: Tensor) -> Tensor:
    """A gradient after hooks on it: those of Python on the host, compiled ones in the graph."""
    tracing = active_tracer() is not None
    for compiled, some in groupby(hooks, lambda hook: tracing and is_compiled(hook)):
        run = partial(_in_turn, list(some))
        grad = (run(grad) if compiled else on_host(run, "hook of a tensor", [grad]))[0]
    return grad


def _in_turn(hooks: Sequence[Hook], grad: Tensor) -> tuple[Tensor]:
    for hook in hooks:
        grad = replaced(hook, grad, grad)
    return (grad,)


def written(hook: Hook) -> Hook:
    """A hook as the program has it: the construct compiler wraps Python's functions."""
    inside = type(hook).__module__.startswith("cellc.lang.")
    found: Hook = plain(hook, "__wrapped__", hook) if inside else hook
    return found


def is_compiled(hook: Hook) -> bool:
    """Whether a function was defined inside the compiled function: Python cannot call it later."""
    return type(hook).__module__.startswith("cellc.lang.") and not hasattr(hook, "__wrapped__")


def through_hooks(grad: Tensor, tensor: Tensor) -> Tensor:
    """The gradient of a tensor after the hooks of that, if it has any."""
    return run_gradient_hooks(list(tensor._hooks.values()), grad) if tensor._hooks else grad
