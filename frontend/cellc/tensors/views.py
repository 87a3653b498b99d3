"""Views: tensors whose elements are those of another one, their *root*.

Kernels read dense arrays, so a view has elements of its own. It knows its root and the functions
that it was made by; the root knows its views, by weak references. A change of one of them in place
calls `change`: the root gets the new elements at the places of the view, and every other view is
recomputed from the root. In both modes these are the same ops, so gradients pass through a change
as through any op (this is how `functionalize` of PyTorch treats views). Where nothing is recorded
or traced, parts of arrays are copied instead.

The *recipe* of a view, its selection from the root, is found when it is first needed: its functions
are called on an array of no meaning, where numpy's own views answer the ops. So strides and offsets
are numpy's, and a `reshape` that has to copy makes no view.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from functools import lru_cache, wraps
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np

from cellc_compiler.ir.dims import surely_equal
from cellc_runtime.dtypes import DType
from cellc_runtime.records import dataclass
from cellc_runtime.site import STATE

from ..core.dispatch import (
    Scope,
    active_tracer,
    apply,
    apply_one,
    assign,
    assign_part,
    like,
    tracing,
)
from ..storage import writes
from .tensor import Array, Tensor, Tensors, host_array, tensor_of

F = TypeVar("F", bound=Callable[..., Any])
Ints = tuple[int, ...]
Key = tuple[Any, ...]
"""How a view is made: the key of the view it is made of (None: of the root), function, arguments,
keyword arguments, and which of several results it is."""


class Written(NamedTuple):
    """The result of a program for a call that changes tensors of its arguments: its own result, and
    their new elements by their numbers."""

    result: Any
    new: dict[int, Tensor]


# --- the ops that give views ----------------------------------------------------------------------


class _Copied(Exception):
    """The result of a function has elements of its own."""


def _slices(start: Ints, stop: Ints, step: Ints | None) -> tuple[slice, ...]:
    steps = step or (1,) * len(start)
    return tuple([slice(a, None if z < 0 else z, s) if a >= 0 else slice(0, 0, s)
                  for a, z, s in zip(start, stop, steps, strict=True)])


def _sliced(a: Array, start: Ints, stop: Ints, step: Ints | None = None) -> Array:
    return a[_slices(start, stop, step)]


def _reshaped(a: Array, shape: Ints) -> Array:
    out = a.reshape(shape)
    if a.size and not np.may_share_memory(a, out):
        raise _Copied
    return out


def _split(a: Array, sizes: Ints, axis: int) -> list[Array]:
    return np.split(a, np.cumsum(sizes)[:-1], axis)


_ARRAYS: dict[str, Callable[..., Any]] = {
    "reshape": _reshaped,
    "transpose": lambda a, perm: a.transpose(perm),
    "slice": _sliced,
    "part": lambda a, shape, **cut: _reshaped(_sliced(a, **cut), shape),
    "split": _split,
    "broadcast_to": lambda a, shape: np.broadcast_to(a, shape),
    "diagonal": lambda a, offset=0: np.diagonal(a, offset, -2, -1),
}
"""The numpy function of each op whose result is a view."""


@dataclass(frozen=True, eq=False, slots=True)
class Step:
    """An op whose result is a view.

    Attributes:
        index: which result, of an op of several.
    """

    op: str
    attrs: dict[str, Any]
    index: int | None

    def read(self, whole: Tensor) -> Tensor:
        """The view of a tensor."""
        out = apply(self.op, whole, **self.attrs)
        return cast(Tensor, out if self.index is None else out[self.index])

    def write(self, whole: Tensor, part: Tensor) -> Tensor:
        """A tensor like `whole` whose view is `part`."""
        return _WRITES[self.op](whole, part, self)


def write_spans(x: Tensor, spans: Sequence[tuple[int, int, int]], update: Tensor) -> Tensor:
    """`x` with slices of all its axes, each (start, count, step), replaced."""
    if all(s == 1 and surely_equal(u, d)
           for u, d, (_, _, s) in zip(update.shape, x.shape, spans, strict=True)):
        return update
    if not update.size:
        return x
    back = tuple(i for i, (_, _, s) in enumerate(spans) if s < 0)
    if back:
        update = apply("flip", update, axes=back)
        spans = [(a + (n - 1) * s, n, -s) if s < 0 else (a, n, s) for a, n, s in spans]
    return apply_one("update_slice", x, update, start=tuple(a for a, _, _ in spans),
                     step=tuple(s for _, _, s in spans))


def _written_back(whole: Tensor, part: Tensor, step: Step) -> Tensor:
    """The elements of `part` under the shape of `whole`."""
    return apply_one("reshape", part, shape=whole.shape)


def _transposed_back(whole: Tensor, part: Tensor, step: Step) -> Tensor:
    perm = step.attrs["perm"]
    return apply_one("transpose", part, perm=tuple([perm.index(i) for i in range(len(perm))]))


def _slice_replaced(whole: Tensor, part: Tensor, step: Step) -> Tensor:
    cut = [s.indices(d) for s, d in zip(
        _slices(step.attrs["start"], step.attrs["stop"], step.attrs.get("step")), whole.shape,
        strict=True)]
    spans = [(a, len(range(a, z, s)), s) for a, z, s in cut]
    dims = tuple([n for _, n, _ in spans])
    if part.shape != dims:
        part = apply_one("reshape", part, shape=dims)
    return write_spans(whole, spans, part)


def _piece_replaced(whole: Tensor, part: Tensor, step: Step) -> Tensor:
    axis, index = step.attrs["axis"], cast(int, step.index)
    spans = [(0, d, 1) for d in whole.shape]
    spans[axis] = sum(step.attrs["sizes"][:index]), part.shape[axis], 1
    return write_spans(whole, spans, part)


def _diagonal_replaced(whole: Tensor, part: Tensor, step: Step) -> Tensor:
    return _replace_elements(whole, part, lambda numbers: _ARRAYS[step.op](numbers, **step.attrs))


def _replace_elements(whole: Tensor, part: Tensor, view: Callable[[Array], Array]) -> Tensor:
    """`whole` with a view replaced, by the row-major numbers of its elements."""
    numbers = view(np.arange(whole.size).reshape(whole.shape))
    flat = apply("scatter_nd", apply("reshape", whole, shape=(whole.size,)),
                 tensor_of(np.array(numbers).reshape(-1, 1)),
                 apply("reshape", part, shape=(part.size,)))
    return apply_one("reshape", flat, shape=whole.shape)


_WRITES: dict[str, Callable[[Tensor, Tensor, Step], Tensor]] = {
    "reshape": _written_back, "transpose": _transposed_back, "slice": _slice_replaced,
    "part": _slice_replaced, "split": _piece_replaced, "diagonal": _diagonal_replaced,
}

# --- recipes --------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, slots=True)
class Recipe:
    """The selection of a view from its root."""

    steps: tuple[Step, ...]  # the ops from the root to the view
    # shape, strides, offset: of the view in the memory of the root, in elements
    shape: Ints
    strides: Ints
    offset: int

    @property
    def overlaps(self) -> bool:
        """Whether several elements of the view are one of the root."""
        return _overlap(self.shape, self.strides)

    def read(self, root: Tensor) -> Tensor:
        """The view of a root, by ops."""
        for step in self.steps:
            root = step.read(root)
        return root

    def written(self, root: Tensor, part: Tensor) -> Tensor:
        """A root like this one whose view is `part`, by ops."""
        if not part.size:
            return root
        if any(step.op not in _WRITES for step in self.steps):
            return _replace_elements(root, part, self.window)
        wholes = [root]
        for step in self.steps[:-1]:
            wholes.append(step.read(wholes[-1]))
        for step, whole in zip(reversed(self.steps), reversed(wholes), strict=True):
            part = step.write(whole, part)
        return part

    def window(self, array: Array) -> Array:
        """The view of the array of a root: the same memory."""
        flat = array.reshape(-1)[self.offset:]
        return np.lib.stride_tricks.as_strided(
            flat, self.shape, [s * array.itemsize for s in self.strides])

    def is_contiguous(self) -> bool:
        """Whether the elements lie one after another in memory."""
        expected = 1
        for d, s in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if d == 0:
                return True
            if d != 1 and s != expected:
                return False
            expected *= d
        return True


def _apply_key(key: Key, array: Array) -> tuple[list[Step], Array]:
    """Return the effect of a key on the array of a root: the ops, and numpy's view.

    Raises:
        _Copied: it is a copy.
    """
    above, fn, args, kwargs, index = key
    steps, array = ([], array) if above is None else _apply_key(above, array)
    origin: dict[int, tuple[Tensor, Tensor, Step]] = {}

    def around(op: str, operands: Tensors, attrs: Any) -> Any:
        if op not in _ARRAYS or len(operands) != 1:
            raise _Copied
        out = _ARRAYS[op](operands[0]._host, **attrs)
        several = isinstance(out, list)
        made = tuple([tensor_of(a) for a in (out if several else [out])])
        for i, t in enumerate(made):
            origin[id(t)] = t, operands[0], Step(op, dict(attrs), i if several else None)
        return made if several else made[0]

    start = tensor_of(array)
    with tracing(None), like(Scope(None, None, None, around)):
        found = fn(start, *args, **dict(kwargs))
    part = found if index is None else found[index]
    own: list[Step] = []
    while part is not start:
        if id(part) not in origin:
            raise _Copied
        if not own:
            array = part._host
        _, part, step = origin[id(part)]
        own.append(step)
    return steps + own[::-1], array


@lru_cache(maxsize=4096)
def _recipe(shape: Ints, key: Key) -> Recipe | None:
    """The recipe of a view of a root of a shape; None if it is a copy."""
    memory = np.empty(int(np.prod(shape, dtype=np.int64)), np.bool_)  # never touched
    try:
        steps, view = _apply_key(key, memory.reshape(shape))
    except _Copied:
        return None
    offset = view.__array_interface__["data"][0] - memory.__array_interface__["data"][0]
    return Recipe(tuple(steps), view.shape, view.strides, offset if view.size else 0)


# --- views of a root ------------------------------------------------------------------------------


class View:
    """The data of a tensor that is a view.

    Attributes:
        root: whose elements it shares.
        key: how it is made.
        tracer: the trace that it was made in; None in PyNative mode.
    """

    __slots__ = ("key", "root", "tracer")

    def __init__(self, root: Tensor, key: Key, tracer: Any) -> None:
        self.root, self.key, self.tracer = root, key, tracer

    def recipe(self) -> Recipe | None:
        """Return its selection from the root; None if it is a copy."""
        return _recipe(self.root.shape, self.key)


def view_of(x: Tensor) -> View | None:
    """Return the view data of `x`, if it is one."""
    found: View | None = x.__dict__.get("_view")
    if found is not None and found.recipe() is None:
        del x.__dict__["_view"]  # it turned out to be a copy
        return None
    return found


def link(part: Tensor, x: Tensor, fn: Any, args: Any, kwargs: Any, index: int | None) -> None:
    """Let `part` be a view of `x`: `fn(x, *args, **kwargs)`, or one of several results."""
    above: View | None = x.__dict__.get("_view")
    root, key = (x, None) if above is None else (above.root, above.key)
    view = View(root, (key, fn, args, kwargs, index), active_tracer())
    if above is not None and view.recipe() is None:
        return  # a reshape of what does not lie in one piece
    part.__dict__["_view"] = view
    _tell(root.__dict__, part)
    if view.tracer is None and type(root) is not Tensor:
        of_parameters[id(root)] = root


def _tell(held: dict[str, Any], part: Tensor) -> None:
    """Let a root, by what it holds, know a view."""
    views = held.get("_views")
    if views is None:
        held["_views"] = [weakref.ref(part)]
        return
    views.append(weakref.ref(part))
    count = len(views)
    if count >= _MANY and not count & (count - 1):
        views[:] = [ref for ref in views if ref() is not None]


def _link_plain(part: Tensor, fn: Any, args: tuple[Any, ...]) -> bool:
    """`link` in the usual case, in a fraction of the time: of no view and no Parameter,
    eagerly, by ints and tuples of ints. Whether it was that."""
    x = args[0]
    if type(x) is not Tensor or part is x or active_tracer() is not None:
        return False
    rest, held, own = args[1:], x.__dict__, part.__dict__
    if "_view" in held or "_view" in own:
        return False
    for a in rest:
        if type(a) is not int and (type(a) is not tuple or not _INT.issuperset(map(type, a))):
            return False
    own["_view"] = View(x, (None, fn, rest, (), None), None)
    _tell(held, part)
    return True


_INT = {int}


_MANY = 16
of_parameters: weakref.WeakValueDictionary[int, Tensor] = weakref.WeakValueDictionary()
"""The Parameters that have or had views, by identity: programs write these unasked."""


def is_fixed(x: Tensor) -> bool:
    """Whether the sizes of a tensor are numbers."""
    return x._eager or all(type(d) is int for d in x.shape)


def _freeze(value: Any) -> Any:
    """An argument as a part of a key. Raises TypeError if it cannot be one: a tensor, whose
    elements decide, or a type, by which the elements are others."""
    if type(value) in (list, tuple):
        return tuple([_freeze(v) for v in value])
    if isinstance(value, (Tensor, DType)):
        raise TypeError
    hash(value)
    return value


def viewing(fn: F, by: Callable[..., Any] | None = None) -> F:
    """A function of the library whose result is a view of its first argument, as users call it: the
    result knows that. (Within the library nobody changes such results.)

    Args:
        by: gives the same of the first argument and the shape of the result.
    """
    @wraps(fn)
    def method(*args: Any, **kwargs: Any) -> Any:
        out = fn(*args, **kwargs)
        if type(out) is Tensor and not kwargs and by is None and _link_plain(out, fn, args):
            return out
        x = args[0] if args else next(iter(kwargs.values()))
        if out is x or not isinstance(x, Tensor):
            return out
        parts = out if type(out) in (tuple, list) else (out,)
        if not all(map(is_fixed, (x, *parts))):
            share(x, parts)
            return out
        if by is not None:
            link(out, x, by, (out.shape,), (), None)
            return out
        rest, named = args[1:], kwargs if args else dict(list(kwargs.items())[1:])
        try:
            given, options = _freeze(rest), tuple([(k, _freeze(v)) for k, v in named.items()])
        except TypeError:
            return out  # places that elements decide
        if type(out) in (tuple, list):
            for i, part in enumerate(out):
                if part is not x:
                    link(part, x, fn, given, options, i)
        elif "_view" not in out.__dict__:
            link(out, x, fn, given, options, None)
        return out

    return cast(F, method)


def share(x: Tensor, parts: Sequence[Tensor]) -> None:
    """Note that tensors share elements with `x`, where `x` or they have open sizes: their layout is
    not known, so in-place changes of them are refused (`followers`)."""
    root = _root_of(x)
    group = root.__dict__.setdefault("_shares", [weakref.ref(root)])
    for part in parts:
        if part is not x:
            part.__dict__["_shares"] = group
            group.append(weakref.ref(part))


def _root_of(x: Tensor) -> Tensor:
    view: View | None = x.__dict__.get("_view")
    return x if view is None else view.root


_SHARED = ("a tensor of which a size is left open shares elements with another one, and is changed "
           "in place: write to a copy, or leave no size open")


def followers(x: Tensor, also: Sequence[Tensor] = ()) -> list[Tensor]:
    """The tensors of open sizes that follow a change of `x` and `also`, in order: parts that are
    taken from these by ints and slices (`_taken_from`).

    Raises:
        TypeError: there are others, of which only the run knows whether they share elements.
    """
    group, tracer = _root_of(x).__dict__.get("_shares"), active_tracer()
    if group is None or tracer is None:  # (only a trace has open sizes)
        return []
    known = {id(t) for y in (x, *also) for t in (y, _root_of(y))}
    found: list[Tensor] = []
    for ref in group:
        other = ref()
        if other is None or id(other) in known:
            continue
        if hasattr(type(other), "ir_value") and not tracer.reaches(_value_of(other)):
            continue  # of a branch or trace that is complete
        source = other.__dict__.get("_taken_from", (_nothing, None))[0]()
        if source is None or not {id(source), id(_root_of(source))} & known:
            raise TypeError(_SHARED)
        found.append(other)
        known.add(id(other))
    return found


def _nothing() -> None:
    """Stand for a reference to a tensor that is gone."""


def hand_on(constant: Tensor, new: Tensor) -> None:
    """A tensor of the graph takes the place of a constant in this trace: it has its views now."""
    views = family(constant)[1]
    for view in views:
        view.__dict__["_view"].root = new
    if views:
        new.__dict__["_views"] = [weakref.ref(view) for view in views]


def perhaps(new: Tensor, *sources: Any) -> None:
    """A tensor of the graph stands for one of several, which only the run chooses: it may be a view
    of what they are views of.

    A change in place that would have to be passed on then is refused: `change`.
    """
    found = [v for s in sources if isinstance(s, Tensor) and (v := view_of(s)) is not None]
    tracer = active_tracer()
    if not found or tracer is None:
        return
    first = found[0]
    if len(found) == len(sources) and all(
            v.root is first.root and v.key == first.key for v in found):
        new.__dict__["_view"] = View(first.root, first.key, tracer)
        first.root.__dict__["_views"].append(weakref.ref(new))
        return
    roots = [v.root for v in found if v.root._eager or tracer.reaches(_value_of(v.root))]
    new.__dict__["_perhaps_of"] = [weakref.ref(root) for root in roots]
    for root in roots:
        root.__dict__.setdefault("_chosen", []).append(weakref.ref(new))


def _check_known(root: Tensor) -> None:
    """Raises:
        TypeError: only the run knows what this shares elements with.
    """
    if any(ref() is not None for ref in root.__dict__.get("_perhaps_of", ())):
        raise TypeError("a view that was chosen by a run-time condition, or carried through a "
                        "run-time loop, is changed in place: write to the tensor that it was taken "
                        "from, or to a copy")


def _let_go(root: Tensor) -> None:
    """Forget tensors that may be views of a changed root."""
    tracer = active_tracer()
    for ref in root.__dict__.pop("_chosen", ()):
        chosen = ref()
        if chosen is not None and tracer is not None:
            for tensor in (chosen, *family(chosen)[1]):
                tracer.let_go(tensor)


LINKS = frozenset({"_view", "_views", "_shares", "_perhaps_of", "_chosen", "_taken_from"})
"""Attributes that say with which tensors one shares elements; a copy shares them with none."""


def is_linked(x: Tensor) -> bool:
    """Whether `x` shares elements with other tensors, as far as is known without looking closer."""
    held = x.__dict__
    return "_view" in held or bool(held.get("_views")) or "_perhaps_of" in held \
        or "_chosen" in held


def family(x: Tensor) -> tuple[Tensor, list[Tensor]]:
    """The root of `x`, and all views of it that are in use in this mode."""
    view = view_of(x)
    root = x if view is None else view.root
    refs = root.__dict__.get("_views")
    if not refs:
        return root, []
    tracer = active_tracer()
    refs[:] = [ref for ref in refs if (part := ref()) is not None and _is_open(part, tracer)]
    found = [part for ref in refs if (part := ref()) is not None]
    return root, [t for t in found if t.__dict__["_view"].tracer is tracer]


def _is_open(part: Tensor, tracer: Any) -> bool:
    """Whether a view can still be read: it is not of a branch or loop that is complete."""
    view = view_of(part)
    if view is None:
        return False
    return view.tracer is not tracer or tracer is None or tracer.reaches(_value_of(part))


def _value_of(x: Any) -> Any:
    """The value of the graph that a tensor of it holds."""
    return x.ir_value


# --- changes in place -----------------------------------------------------------------------------


def become(x: Tensor, new: Tensor) -> None:
    """Make the object `x` alone hold the value of `new`."""
    if new is x:
        return
    tracer = active_tracer()
    if hasattr(type(x), "ir_value") and tracer is not None:
        value = tracer.lift(new)
        tracer.changing(x)  # type: ignore[arg-type]  # it is one of the graph
        x.__setattr__("ir_value", value)
    else:
        assign(x, new)


def change(x: Tensor, new: Tensor, also: Sequence[Tensor] = ()) -> None:
    """Make `x` hold the value of `new` (of its shape and type), and its root and the other views of
    that follow. The caller knows the tensors that are changed `also`, and their `followers`."""
    if not also and followers(x):
        raise TypeError(_SHARED)
    if not is_linked(x):
        become(x, new)
        return
    root, views = family(x)
    _check_known(root)
    if root is not x:
        recipe = _known(x)
        _check_apart(recipe.overlaps)
        become(root, recipe.written(root, new))
    else:
        become(root, new)
    for view in views:
        become(view, new if view is x else _recompute(view, root))
    _let_go(root)


def recipe_of(x: Tensor) -> Recipe | None:
    """Return the selection of `x` from its root, if it is a view."""
    view = view_of(x)
    return None if view is None else view.recipe()


def _recompute(view: Tensor, root: Tensor) -> Tensor:
    """Recompute a view."""
    return _known(view).read(root)


def _known(view: Tensor) -> Recipe:
    recipe = recipe_of(view)
    assert recipe is not None
    return recipe


def _overlap(shape: Ints, strides: Ints) -> bool:
    return any(d > 1 and s == 0 for d, s in zip(shape, strides, strict=True))


def _check_apart(overlap: bool) -> None:
    if overlap:
        raise ValueError("several elements of this view are one element of the tensor that it was "
                         "made of (by broadcast_to or expand): write to that tensor, or to a copy "
                         "of the view")


def overwrite(x: Tensor, where: tuple[slice, ...], array: Any) -> None:
    """Write a part of `x` and of all that share its elements as arrays, while `STATE.idle()`.

    Args:
        where: a slice for each axis.
        array: of the part's shape or without axes, and of the tensor's element type.
    """
    root, views = family(x)
    recipe = recipe_of(x)
    array_of_root = host_array(root)
    part = array_of_root if recipe is None else recipe.window(array_of_root)
    target = part[where]
    _check_apart(_overlap(target.shape, target.strides))
    assign_part(root, where, array, None if recipe is None else recipe.window)
    follow(root, views, target)


def follow(root: Tensor, views: Sequence[Tensor], written: Array | None = None) -> None:
    """Let views take the elements of their root as arrays: those that may have changed. `written`:
    the part of the root's array that has been written; None: any."""
    array = host_array(root)
    for view in views:
        window = _known(view).window(array)
        if written is None or np.may_share_memory(window, written):
            assign_part(view, (), window)


def check_arguments(tensors: Sequence[Tensor], changed: Sequence[int], read: Sequence[Tensor] = (),
                    names: Sequence[str] = ()) -> None:
    """Refuse arguments of a function whose parameters are tensors of their own in it, where a
    change of one would have to be seen in another.

    Args:
        changed: the numbers of those that it changes in place.
        read: tensors that it reads besides.
    """
    roots = [id(family(t)[0]) for t in tensors]
    others = {id(family(p)[0]) for p in read}

    def named(i: int) -> str:
        return f"argument '{names[i]}'" if names else f"tensor {i} of its arguments"

    for i in changed:
        other = next((j for j, r in enumerate(roots) if r == roots[i] and j != i), None)
        if other is not None:
            raise ValueError(
                f"the function changes the {named(i)} in place, which shares its elements with the "
                f"{named(other)}: pass a copy of one of them")
        if roots[i] in others:
            raise ValueError(
                f"the function changes the {named(i)} in place, which shares its elements with a "
                "Parameter or constant that the function reads: pass a copy, or change the "
                "Parameter")


def rewritten(x: Tensor) -> None:
    """The elements of `x` have been written by way of another tensor over the same memory: what
    shares elements with it follows."""
    writes.written((x,))
    if is_linked(x):
        root, views = family(x)
        if root is not x:
            become(root, _known(x).written(root, x))
        for view in views:
            if view is not x:
                become(view, _recompute(view, root))


def settle(parameters: Sequence[Tensor]) -> None:
    """Programs have written Parameters and other tensors: their views follow."""
    for root in parameters:
        views = family(root)[1]
        if not root.__dict__.get("_views"):
            of_parameters.pop(id(root), None)
        elif STATE.idle():
            follow(root, views)
        else:
            for view in views:
                become(view, _recompute(view, root))
