"""What collectives compute: sums over ranks in the order of the ranks, parts cut and put together.

A sum has one order, that of the ranks, whatever arrives first: each rank adds up one slice of all
(reduce-scatter by all-to-all), then all gather the slices. So n ranks give the bits of one process
that adds the same n parts one after the other.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from .world import Bytes, CollectiveError, Step, member, world

Array = np.ndarray[Any, Any]

REDUCTIONS: Mapping[str, Callable[..., Any]] = {
    "sum": np.add, "prod": np.multiply, "min": np.minimum, "max": np.maximum,
}
"""How two parts become one; NaN passes through all of them."""

_NOTHING: Bytes = np.empty(0, np.uint8)
_SMALL = 1 << 14
"""Up to so many bytes everything is sent to everyone: one round instead of two."""


def _bytes(array: Array) -> Bytes:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _added(parts: Sequence[Array], reduction: str) -> Array:
    """One part after the other, in the order of the ranks."""
    total = np.array(parts[0])
    with np.errstate(all="ignore"):  # as compiled code does, and each op of PyNative
        for part in parts[1:]:
            REDUCTIONS[reduction](total, part, out=total)
    return total


def _gathered(step: Step, x: Array) -> list[Array]:
    parts = [np.empty_like(x, order="C") for _ in step.group]
    world().all_gather(step, _bytes(x), [_bytes(p) for p in parts])
    return parts


def all_reduce(step: Step, x: Array, reduction: str) -> Array:
    """The sum (or another reduction) over the ranks, on each."""
    member(step)
    n = len(step.group)
    if n == 1:
        return np.array(x)
    if x.nbytes <= _SMALL:
        return _added(_gathered(step, x), reduction)
    flat = np.ascontiguousarray(x).reshape(-1)
    slices = np.array_split(flat, n)
    mine = _exchanged(step, slices)
    out = np.empty_like(flat)
    world().all_gather(step, _bytes(_added(mine, reduction)),
                       [_bytes(s) for s in np.array_split(out, n)])
    return out.reshape(x.shape)


def reduce_scatter(step: Step, x: Array, reduction: str) -> Array:
    """This rank's part, along the first axis, of the sum over the ranks."""
    return _added(_exchanged(step, np.split(np.ascontiguousarray(x), len(step.group))), reduction)


def reduce_to(step: Step, x: Array, reduction: str, root: int) -> Array:
    """The sum over the ranks on the rank `root`; zeros elsewhere."""
    total = all_reduce(step, x, reduction)
    return total if world().rank == root else np.zeros_like(total)


def all_gather(step: Step, x: Array) -> Array:
    """What all ranks give, along the first axis."""
    member(step)
    n = len(step.group)
    out = np.empty((n * x.shape[0], *x.shape[1:]), x.dtype)
    world().all_gather(step, _bytes(x), [_bytes(p) for p in np.split(out, n)])
    return out


def broadcast_from(step: Step, x: Array, root: int) -> Array:
    """What the rank `root` gives."""
    member(step)
    out = np.array(x, order="C")
    world().broadcast(step, root, _bytes(out))
    return out


def gather_to(step: Step, x: Array, root: int) -> Array:
    """What all ranks give, along the first axis, on the rank `root`; zeros elsewhere."""
    n, here, place = len(step.group), member(step), step.group.index(root)
    out = np.zeros((n * x.shape[0], *x.shape[1:]), x.dtype)
    world().all_to_all(step, [_bytes(x) if i == place else _NOTHING for i in range(n)],
                       [_bytes(p) if here == place else _NOTHING for p in np.split(out, n)])
    return out


def scatter_from(step: Step, x: Array, root: int) -> Array:
    """This rank's part, along the first axis, of what the rank `root` gives."""
    n, here, place = len(step.group), member(step), step.group.index(root)
    parts = np.split(np.ascontiguousarray(x), n)
    out = np.empty_like(parts[0])
    world().all_to_all(step, [_bytes(p) if here == place else _NOTHING for p in parts],
                       [_bytes(out) if i == place else _NOTHING for i in range(n)])
    return out


def all_to_all(step: Step, x: Array, split_axis: int, concat_axis: int) -> Array:
    """`x` cut along one axis, a part for each rank; what comes is put together along another."""
    parts = [np.ascontiguousarray(p) for p in np.split(x, len(step.group), split_axis)]
    return np.concatenate(_exchanged(step, parts), concat_axis)


def all_to_all_v(
    step: Step, x: Array, send_sizes: Sequence[int], receive_sizes: Sequence[int]
) -> Array:
    """Consecutive rows of `x` for each rank, so many; so many rows of each, one after the other."""
    member(step)
    out = np.empty((sum(receive_sizes), *x.shape[1:]), x.dtype)
    world().all_to_all(step, *([_bytes(p) for p in np.split(a, np.cumsum(sizes)[:-1])]
                               for a, sizes in ((x, send_sizes), (out, receive_sizes))))
    return out


def _exchanged(step: Step, parts: Sequence[Array]) -> list[Array]:
    """The i-th part goes to the group's i-th rank; what each of them sends, in their order."""
    here = member(step)
    out = [np.empty_like(parts[here]) for _ in step.group]
    world().all_to_all(step, [_bytes(p) for p in parts], [_bytes(o) for o in out])
    return out


def send_to(step: Step, x: Array, rank: int, tag: int) -> None:
    """Give a tensor to a rank."""
    world().send(step, _other(step, rank), tag, _bytes(x))


def receive_from(step: Step, out: Array, rank: int, tag: int) -> None:
    """Fill `out` with what a rank sends."""
    world().receive(step, _other(step, rank), tag, _bytes(out))


def barrier(step: Step) -> None:
    """All ranks of the group have come."""
    _gathered(step, np.zeros(1, np.uint8))


def _other(step: Step, rank: int) -> int:
    here = world()
    if rank == here.rank or not 0 <= rank < here.size:
        raise CollectiveError(f"{step.text}: expected another rank of 0 to {here.size - 1}, got "
                              f"{rank}; this is rank {here.rank}")
    return rank


# --- behind programs ------------------------------------------------------------------------------

KINDS: Mapping[str, Callable[..., Any]] = {
    f.__name__: f for f in (
        all_reduce, reduce_scatter, reduce_to, all_gather, broadcast_from, gather_to, scatter_from,
        all_to_all, all_to_all_v,
    )
}
"""What has one operand and one result, by the names of the ops."""
_MARK = "collective "


def callback_name(kind: str, attrs: Mapping[str, Any]) -> str:
    """What a program calls a collective by: all that it is."""
    return _MARK + json.dumps([kind, {k: v for k, v in attrs.items() if k != "dtype"}])


def is_collective(name: str) -> bool:
    """Whether a program's callback has a name of `callback_name`."""
    return name.startswith(_MARK)


def callback(name: str, place: str = "") -> Callable[..., None]:
    """The function behind a program's callback.

    Args:
        name: see `callback_name`.
        place: where in the user's code it is, for messages.
    """
    kind, attrs = json.loads(name[len(_MARK):])
    group = tuple(attrs.pop("ranks", ()))
    if kind in ("send_to", "receive_from"):
        message = send_to if kind == "send_to" else receive_from
        return lambda x: message(
            Step(described(kind, x), (), place), x, attrs["rank"], attrs["tag"])
    function = KINDS[kind]

    def call(x: Array, out: Array) -> None:
        np.copyto(out, function(Step(described(kind, x, attrs), group, place), x, **attrs))

    return call


def described(kind: str, x: Array, attrs: Mapping[str, Any] | None = None) -> str:
    """What a step is called; equal on all ranks that do the same."""
    given = "".join(f" {v}" for k, v in (attrs or {}).items() if not k.endswith("_sizes"))
    rows = "..." if kind == "all_to_all_v" else ",".join(map(str, x.shape))
    return f"{kind}{given} of {x.dtype}[{rows}]"
