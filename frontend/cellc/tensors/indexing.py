"""Reading and writing parts of tensors, with numpy's rules.

A key is brought to a plan (`index_plan`): a basic part (one slice per axis) and, on the sliced
tensor, the axes that are addressed by integer tensors. Masks become positions where their
elements are known; where they are not (in a graph), writing through a mask selects.

Ints, slices, None and Ellipsis read a view (`views`). Integer tensors and masks read a copy, which
remembers its source: a write into it (`x[index][1] = v`) is a write into the same place of that
tensor, too. It keeps its own value when that tensor is written later.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable
from functools import lru_cache
from typing import Any, cast

import numpy as np

from cellc_compiler.ir.dims import is_symbolic, surely_equal
from cellc_compiler.ir.types import broadcast_all
from cellc_runtime.dtypes import bool_, int64
from cellc_runtime.site import STATE

from ..core.dispatch import active_tracer, apply, apply_one, assign_part, stays
from ..core.native import native_body
from . import index_runtime, views
from .index_plan import (
    Flag,
    Ints,
    Plan,
    Span,
    checked,
    entries,
    from_front,
    is_index,
    known_elements,
    make_plan,
    may_be_open,
)
from .index_runtime import reshaped
from .parameter import Parameter
from .promotion import cast_to, constant, is_scalar
from .tensor import Tensor, host_array
from .views import (
    change,
    family,
    followers,
    is_fixed,
    is_linked,
    link,
    overwrite,
    recipe_of,
    share,
    view_of,
    write_spans,
)

__all__ = ["become", "getitem", "involved", "is_open", "known_elements", "setitem", "taken",
           "update", "write", "write_update"]

# --- reading --------------------------------------------------------------------------------------


def _transpose(x: Tensor, perm: list[int]) -> Tensor:
    if perm == list(range(len(perm))):
        return x
    return apply_one("transpose", x, perm=tuple(perm))


def _whole(spans: list[Span], shape: Ints) -> bool:
    return all(surely_equal(a, 0) and surely_equal(n, d) and step == 1
               for (a, n, step), d in zip(spans, shape, strict=True))


def _take_spans(x: Tensor, spans: list[Span]) -> Tensor:
    """Slices of all axes, with empty ones and whole ones short-cut."""
    if _whole(spans, x.shape):
        return x
    return apply_one("slice", x, **_slice_attrs(spans))


def _slice_attrs(spans: list[Span]) -> dict[str, Ints]:
    start = tuple(a for a, _, _ in spans)
    # For negative steps the stop may be -1 (past the first element), as slice.indices gives it.
    stop = tuple(a + n * s if s < 0 else a + (n - 1) * s + 1 if is_symbolic(n) or n else a
                 for a, n, s in spans)
    stop = tuple(z if is_symbolic(z) else max(z, -1) for z in stop)
    return {"start": start, "stop": stop, "step": tuple(s for _, _, s in spans)}


def _hashable(key: Any) -> Any:
    """A key of ints, slices, None and Ellipsis in a form that can be hashed; else NotImplemented.

    (True and 1 are equal to a dict, so types are looked at first.)
    """
    kind = type(key)
    if kind is int or key is None or key is Ellipsis:
        return key
    if kind is slice:
        for bound in (key.start, key.stop, key.step):
            if bound is not None and type(bound) is not int:
                return NotImplemented
        return slice, key.start, key.stop, key.step
    if kind is tuple:
        # (A tuple within a tuple holds positions.)
        parts = tuple([NotImplemented if type(k) is tuple else _hashable(k) for k in key])
        return NotImplemented if NotImplemented in parts else (tuple, parts)
    return NotImplemented


def _is_basic(key: Any) -> bool:
    """Whether a key has ints, slices, None and Ellipsis alone; ints may be open sizes."""
    return all(
        k is None or k is Ellipsis or (isinstance(k, int) and type(k) is not bool)
        or (type(k) is slice and all(
            b is None or isinstance(b, int) for b in (k.start, k.stop, k.step)))
        for k in (key if type(key) is tuple else (key,)))


def _from_hashable(key: Any) -> Any:
    if type(key) is not tuple:
        return key
    return slice(*key[1:]) if key[0] is slice else tuple(_from_hashable(k) for k in key[1])


@lru_cache(maxsize=4096)
def _basic_plan(shape: Ints, key: Any) -> tuple[Plan, str, dict[str, Ints]]:
    """The plan of a key of ints, slices, None and Ellipsis, and the op that reads it ("": it is
    the whole tensor)."""
    plan = make_plan(shape, entries(_from_hashable(key)))
    viewed = plan.viewed_shape()
    if _whole(plan.spans, shape):
        return plan, "" if viewed == shape else "reshape", {"shape": viewed}
    cut = _slice_attrs(plan.spans)
    if viewed == plan.basic_shape():
        return plan, "slice", cut
    return plan, "part", {**cut, "shape": viewed}


def _known_plan(x: Tensor, key: Any) -> tuple[Plan, str, dict[str, Ints]] | None:
    """`_basic_plan`, where tensors run eagerly (a graph may have sizes that are not known)."""
    if active_tracer() is not None:
        return None
    short = key if type(key) is int else _hashable(key)
    return None if short is NotImplemented else _basic_plan(x._layout.shape, short)


def _starts(plan: Plan, rank: int) -> Tensor:
    zero = constant(0, int64)
    starts = [plan.windows[i].start if i in plan.windows else zero for i in range(rank)]
    return apply_one("stack", *starts, axis=0)


def _in_windows(plan: Plan, shape: Ints) -> list[Span]:
    """Return the windows' slices within the windows."""
    return [(0, d, 1) if i not in plan.windows else _stepped(plan, i) for i, d in enumerate(shape)]


def _stepped(plan: Plan, axis: int) -> Span:
    w = plan.windows[axis]
    return 0 if w.step > 0 else w.width - 1, w.count, w.step


def _take_windows(x: Tensor, plan: Plan) -> Tensor:
    """The windows alone, before their steps."""
    if not plan.windows:
        return x
    sizes = tuple(plan.windows[i].width if i in plan.windows else d for i, d in enumerate(x.shape))
    return apply_one("dynamic_slice", x, _starts(plan, x.ndim), sizes=sizes)


def _basic(x: Tensor, plan: Plan) -> Tensor:
    """The view: slices taken, axes dropped and added."""
    part = _take_spans(x, plan.spans)
    if plan.windows:
        part = _take_windows(part, plan)
        part = _take_spans(part, _in_windows(plan, part.shape))
    return reshaped(part, plan.viewed_shape())


def _index_shape(plan: Plan) -> Ints:
    try:
        return broadcast_all(*(t.shape for t in plan.advanced.values()))
    except ValueError:
        shapes = ", ".join(str(t.shape) for t in plan.advanced.values())
        raise IndexError(f"indices of shapes {shapes} cannot be broadcast together") from None


def _stacked(plan: Plan, shape: Ints, front: Ints) -> Tensor:
    """The points (front..., k) the advanced axes address, all non-negative."""
    columns = []
    for axis, index in plan.advanced.items():
        index = cast_to(index, int64)
        if stays(index) or known_elements(index) is None:
            index = from_front(index, shape[axis])
        columns.append(index if index.shape == front else apply("broadcast_to", index, shape=front))
    return apply_one("stack", *columns, axis=len(front))


def _order(plan: Plan, rank: int) -> list[int]:
    """The advanced axes first, then the others."""
    axes = list(plan.advanced)
    return axes + [i for i in range(rank) if i not in plan.advanced]


def _gather(x: Tensor, plan: Plan) -> Tensor:
    front = _index_shape(plan)
    if len(plan.advanced) == 1:
        ((axis, index),) = plan.advanced.items()
        return apply_one("gather", x, index, axis=axis)
    found: Tensor = apply(
        "gather_nd", _transpose(x, _order(plan, x.ndim)), _stacked(plan, x.shape, front))
    if plan.apart:
        return found
    return _transpose(found, _back_in_place(plan, len(front), found.ndim))


def _back_in_place(plan: Plan, front: int, rank: int) -> list[int]:
    """The permutation that moves the leading `front` axes to where the advanced axes stood."""
    before = min(plan.advanced)
    return [*range(front, front + before), *range(front), *range(front + before, rank)]


def _settle_masks(plan: Plan, write: bool) -> bool:
    """Turn masks together with other positions into positions; whether none is left.

    A mask meets positions in their last axis, so its number of true elements is that axis's
    length (or one). If that is 1, it may be any: a write then addresses all elements of the mask,
    the false ones outside of the tensor.
    """
    if plan.masks and (len(plan.masks) > 1 or plan.advanced):
        front = _index_shape(plan) if plan.advanced else (1,)
        n = front[-1] if front else 1
        lone = len(plan.masks) == 1 and n == 1 and write
        if n != 1 or lone:
            _place_masks(plan, lambda mask: index_runtime.all_positions(mask) if lone
                         else index_runtime.first_positions(mask, n))
    return not plan.masks


def _place_masks(plan: Plan, positions: Callable[[Tensor], list[Tensor]]) -> None:
    """Turn masks into positions along each of their axes."""
    for axis, mask in plan.masks:
        plan.advanced |= {axis + i: p for i, p in enumerate(positions(mask))}
    plan.masks = []
    plan.advanced = dict(sorted(plan.advanced.items()))


@native_body()
def taken(x: Tensor, key: Any) -> Tensor:
    """The elements `x[key]`, on their own."""
    if x.ndim == 0 and is_index(key):
        raise TypeError("a tensor of no axes cannot be indexed by an int")
    known = _known_plan(x, key)
    if known is not None:
        _, op, attrs = known
        part: Tensor = apply(op, x, **attrs) if op else x
        return part
    if type(key) is Tensor and key.dtype.is_integer and x.ndim:
        return apply_one("gather", x, checked(key, x.shape[0], 0), axis=0)
    found = entries(key)
    if any(isinstance(k, Flag) and k.python and not k.on for k in found):
        raise IndexError("a tensor can be indexed by the bool True (a new axis), not by False")
    plan = make_plan(x.shape, found)
    if not _settle_masks(plan, False):
        _place_masks(plan, index_runtime.found_positions)
    part = _basic(x, plan)
    for axis, mask in index_runtime.slices(plan, part.shape):
        part = _take_found(part, axis, mask, plan.loose[axis].step < 0)
    return _gather(part, plan) if plan.advanced else part


def _take_found(x: Tensor, axis: int, mask: Tensor, downwards: bool) -> Tensor:
    """The elements of an axis that a mask selects, as many as the run finds."""
    at, _ = index_runtime.true_positions(
        apply("flip", mask, axes=(0,)) if downwards else mask, "a slice")
    if downwards:
        at = apply("sub", constant(x.shape[axis] - 1, int64), at)
    return apply_one("gather", x, at, axis=axis)


def getitem(x: Tensor, key: Any) -> Tensor:
    """`x[key]`; it is a view of x, or remembers that it is a part of it."""
    part = taken(x, key)
    if part is x:
        return x
    short = key if type(key) is int else _hashable(key)
    if short is NotImplemented or not is_fixed(x):
        part.__dict__["_taken_from"] = weakref.ref(x), key
        if short is not NotImplemented or _is_basic(key):
            share(x, (part,))
    else:
        link(part, x, _taken_by, (short,), (), None)
    return part


def _taken_by(x: Tensor, short: Any) -> Tensor:
    return taken(x, _from_hashable(short))


# --- writing --------------------------------------------------------------------------------------


def _value(value: Any, x: Tensor) -> Tensor:
    """Return the value to write, in the element type of the tensor."""
    if isinstance(value, Tensor):
        return cast_to(value, x.dtype)
    if is_scalar(value):
        return constant(value, x.dtype)
    if isinstance(value, (list, tuple, np.ndarray)):
        return cast_to(_tensor_of_list(value), x.dtype)
    raise TypeError("only a Tensor, a number, a list or an array can be written into a tensor, got "
                    f"{type(value).__name__}")


def _tensor_of_list(value: Any) -> Tensor:
    """The tensor of a list, which may hold tensors of the graph."""
    if isinstance(value, (list, tuple)) and any(
            isinstance(v, Tensor) and known_elements(v) is None for v in value):
        likes = [v for v in value if isinstance(v, Tensor)]
        parts = [v if isinstance(v, Tensor) else constant(v, likes[0].dtype) for v in value]
        return apply_one("stack", *(cast_to(p, likes[0].dtype) for p in parts), axis=0)
    return Tensor(value)


def _fitted(value: Tensor, shape: Ints) -> Tensor:
    """`value` broadcast to the written part (leading axes of length 1 beyond it are dropped)."""
    if value.shape == shape:
        return value
    dims = value.shape
    while len(dims) > len(shape) and dims[0] == 1:
        dims = dims[1:]
    try:
        fits = broadcast_all(dims, shape) == shape
    except ValueError:
        fits = False
    if not fits:
        raise ValueError(f"a value of shape {value.shape} cannot be written to a part of {shape}")
    return apply_one("broadcast_to", reshaped(value, dims), shape=shape)


def setitem(x: Tensor, key: Any, value: Any) -> Tensor:
    """A tensor like `x` with `x[key]` replaced by `value` (broadcast, in the type of `x`)."""
    if x.ndim == 0 and is_index(key):
        raise TypeError("a tensor of no axes cannot be indexed by an int")
    new = _value(value, x)
    known = _known_plan(x, key)
    if known is not None:
        return _write_view(x, known[0], _fitted(new, known[0].viewed_shape()))
    mask = _lone_mask(key, x)
    if mask is not None and math.prod(new.shape) == 1:
        cell = reshaped(new, ())
        return apply_one("where", mask, cell, x)
    plan = make_plan(x.shape, entries(key))
    if not plan.advanced and not plan.open:
        return _write_view(x, plan, _fitted(new, plan.viewed_shape()))
    settled = _settle_masks(plan, True)
    part = _basic(x, plan)
    if not settled or plan.loose:
        if plan.advanced:
            raise TypeError("a run-time slice or mask of unknown length and integer tensors cannot "
                            "index a tensor together; write in two steps")
        full, chosen = index_runtime.spread(new, plan, part.shape)
        part = apply("where", chosen, full, part)
    else:
        part = _scatter(part, plan, new)
    return _write_view(x, plan, part)


def _lone_mask(key: Any, x: Tensor) -> Tensor | None:
    """The mask, shaped to broadcast with `x`, if the key is one mask over leading axes."""
    if isinstance(key, (np.ndarray, list)) and len(key):
        key = entries(key)[0] if len(entries(key)) == 1 else None
    if not isinstance(key, Tensor) or key.dtype is not bool_ or \
            key.shape != x.shape[: key.ndim]:
        return None
    return reshaped(key, key.shape + (1,) * (x.ndim - key.ndim))


def _write_view(x: Tensor, plan: Plan, view: Tensor) -> Tensor:
    """`x` with the plan's view replaced."""
    new = reshaped(view, plan.basic_shape())
    if not plan.windows:
        return write_spans(x, plan.spans, new)
    part = _take_spans(x, plan.spans)
    window = write_spans(_take_windows(part, plan), _in_windows(plan, part.shape), new)
    part = apply("dynamic_update_slice", part, window, _starts(plan, part.ndim))
    return write_spans(x, plan.spans, part)


def _scatter(x: Tensor, plan: Plan, new: Tensor) -> Tensor:
    front = _index_shape(plan)
    perm = _order(plan, x.ndim)
    rest = tuple(x.shape[i] for i in perm[len(plan.advanced):])
    shape = front + rest
    if plan.apart:
        update = _fitted(new, shape)
    else:
        place = _back_in_place(plan, len(front), len(shape))
        update = _fitted(new, tuple(shape[i] for i in place))
        update = _transpose(update, [place.index(i) for i in range(len(place))])
    written = apply("scatter_nd", _transpose(x, perm), _stacked(plan, x.shape, front), update)
    return _transpose(written, [perm.index(i) for i in range(len(perm))])


# --- augmented assignment -------------------------------------------------------------------------


def is_open(x: Tensor, key: Any) -> bool:
    """Whether how many elements `x[key]` has depends on run-time values."""
    try:
        found = entries(key)
        if not any(map(may_be_open, found)):
            return False
        plan = make_plan(x.shape, found)
        return plan.open and (bool(plan.loose) or not _settle_masks(plan, False))
    except (IndexError, TypeError, ValueError):
        return False  # reading it tells what is wrong


def update(x: Tensor, key: Any, operate: Callable[[Any, Any], Any], value: Any) -> Tensor:
    """A tensor like `x` after `x[key] op= value`, for a key that `is_open`.

    The operation is applied to the whole view; where the key chooses, its result is taken.
    """
    plan = make_plan(x.shape, entries(key))
    if plan.advanced or len(plan.masks) > 1:
        raise TypeError("a run-time mask of unknown length and integer tensors cannot index a "
                        "tensor together; write in two steps")
    part = _basic(x, plan)
    operand = Tensor(value) if isinstance(value, (list, tuple, np.ndarray)) else value
    if isinstance(operand, Tensor):
        operand, chosen = index_runtime.spread(operand, plan, part.shape)
    else:
        _, chosen = index_runtime.spread(constant(0, x.dtype), plan, part.shape)
    # Elements that are not chosen are computed too: on ones, so that no gradient there is NaN.
    safe = apply("where", chosen, part, constant(1, part.dtype))
    result = cast_to(operate(safe, operand), x.dtype)
    return _write_view(x, plan, apply("where", chosen, result, part))


# --- changing the object --------------------------------------------------------------------------


def become(x: Tensor, new: Tensor) -> Tensor:
    """Make the object `x`, and all that share its elements, hold the value of `new` (of its shape
    and type); `x`."""
    change(x, new)
    return x


def involved(x: Tensor) -> list[Tensor]:
    """The tensors that change with `x`, itself among them."""
    root, views = family(x)
    whole = _source(root)
    others = [] if whole is None else involved(whole[0])
    return [root, *views, *([] if x is root or any(v is x for v in views) else [x]), *others]


def _source(root: Tensor) -> tuple[Tensor, Any] | None:
    """The tensor that a copy was taken from, and the key."""
    ref, key = root.__dict__.get("_taken_from", (None, None))
    whole = None if ref is None else ref()
    return None if whole is None else (whole, key)


def write(x: Tensor, key: Any, value: Any) -> None:
    """`x[key] = value`: the object `x`, and all that share its elements, hold the updated value
    afterwards. So does the tensor that it was taken from."""
    if not _overwrite_part(x, key, value):
        _write(x, key, lambda t, k: setitem(t, k, value))


def _overwrite_part(x: Tensor, key: Any, value: Any) -> bool:
    """Write the part alone, where no thread traces, records or changes how ops run."""
    held = x._host
    if not STATE.idle() or type(x) not in (Tensor, Parameter) or held is None or not held.ndim:
        return False
    short = _hashable(key)
    if short is NotImplemented:
        return False
    linked = is_linked(x)
    if _source(family(x)[0] if linked else x) is not None:
        return False
    new = _value(value, x)
    where, viewed, basic = _basic_place(held.shape, short)
    array = host_array(new)
    if array.ndim:
        array = host_array(_fitted(new, viewed)).reshape(basic)
    if linked:
        overwrite(x, where, array)
    else:
        assign_part(x, where, array)
    return True


@lru_cache(maxsize=4096)
def _basic_place(shape: Ints, key: Any) -> tuple[tuple[slice, ...], Ints, Ints]:
    """Return the place that a key of ints, slices, None and Ellipsis writes: a slice for each axis,
    the written shape, and the same with an axis for each of the tensor's."""
    plan = _basic_plan(shape, key)[0]
    where = tuple([slice(a, a + n * s if a + n * s >= 0 else None, s) if n else slice(0, 0)
                   for a, n, s in plan.spans])
    return where, plan.viewed_shape(), plan.basic_shape()


def write_update(x: Tensor, key: Any, operate: Callable[[Any, Any], Any], value: Any) -> None:
    """`x[key] op= value` for a key that `is_open`; otherwise as `write`."""
    _write(x, key, lambda t, k: update(t, k, operate, value))


Changed = Callable[[Tensor, Any], Tensor]  # A tensor changed at a key, as a new tensor


def _write(x: Tensor, key: Any, changed: Changed) -> None:
    """Change `x` at a key, and what it was taken from. All is computed before any changes."""
    recipe = recipe_of(x)
    if recipe is not None and recipe.overlaps:  # of its elements, those at the key may not
        part = getitem(x, key)
        if part is not x and view_of(part) is not None:
            x, key = part, Ellipsis
    changes = _changes(x, lambda t: changed(t, key))
    also = [tensor for tensor, _ in changes]
    after = [part for tensor in also for part in followers(tensor, also)]
    for tensor, new in changes:
        change(tensor, new, also)
    for part in {id(part): part for part in after}.values():
        whole, place = cast(tuple[Tensor, Any], _source(part))
        views.become(part, taken(whole, place))


def _changes(x: Tensor, changed: Callable[[Tensor], Tensor]) -> list[tuple[Tensor, Tensor]]:
    """`x` and the tensor it was taken from, and so on, with what they become."""
    view, recipe = view_of(x), recipe_of(x)
    source = _source(x if view is None else view.root)
    if source is None:
        return [(x, changed(x))]
    whole, key = source

    def within(t: Tensor) -> Tensor:
        part = taken(t, key)
        new = changed(part) if recipe is None else \
            recipe.written(part, changed(recipe.read(part)))
        return setitem(t, key, new)

    return [(x, changed(x)), *_changes(whole, within)]
