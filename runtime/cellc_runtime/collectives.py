"""The arithmetic of collectives: sums in the order of the ranks, splits, concatenations.

A sum has one order, that of the ranks, whatever arrives first: each rank adds up one slice of all
(reduce-scatter by all-to-all), then all gather the slices. So n ranks give the bits of one process
that adds the same n parts one after the other.

A rank does its collectives one after the other. The world's channel runs a started collective
(`callback` of the phase "start") while the rank computes, and all others queue after it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from .dtypes import Array
from .records import dataclass
from .world import CollectiveError, Step, member, world

if TYPE_CHECKING:
    from .meeting import Bytes, Meeting, Phases


def _extreme(beats: Callable[[Array, Array], Array]) -> Callable[..., Any]:
    """The first where it beats the other or is NaN, else the other: of zeros of both signs the last
    one, as compiled code has it. (Numpy's own extremes choose as the processor does.)"""
    def chosen(one: Array, other: Array, out: Array) -> None:
        np.copyto(out, np.where(beats(one, other) | (one != one), one, other))

    return chosen


REDUCTIONS: Mapping[str, Callable[..., Any]] = {
    "sum": np.add, "prod": np.multiply, "min": _extreme(np.less), "max": _extreme(np.greater),
}
"""How two parts become one; NaN passes through all of them."""

_NOTHING: Bytes = np.empty(0, np.uint8)
SMALL = 1 << 14
"""Up to this number of bytes, ranks send everything to everyone: one round instead of two."""
_PIECE = 1 << 20
"""Bytes that are read of another rank's memory at a time, and added while they are in the cache."""


def _bytes(array: Array) -> Bytes:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def added(parts: Sequence[Array], reduction: str) -> Array:
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
    out = np.empty_like(x, order="C")
    all_reduce_into(step, x, out, reduction)
    return out


def all_reduce_into(step: Step, x: Array, out: Array, reduction: str) -> None:
    """The same, into memory without gaps, which may be that of `x`."""
    if _read(phases(all_reduce, step, x, out, reduction=reduction)):
        return
    if len(step.group) == 1:
        np.copyto(out, x)
    elif x.nbytes <= SMALL:
        np.copyto(out, added(_gathered(step, x), reduction))
    else:
        slices = np.array_split(np.ascontiguousarray(x).reshape(-1), len(step.group))
        world().all_gather(step, _bytes(added(_exchanged(step, slices), reduction)),
                           [_bytes(s) for s in np.array_split(out.reshape(-1), len(step.group))])


def reduce_scatter(step: Step, x: Array, reduction: str) -> Array:
    """This rank's part, along the first axis, of the sum over the ranks."""
    out = np.empty((x.shape[0] // len(step.group), *x.shape[1:]), x.dtype)
    reduce_scatter_into(step, x, out, reduction)
    return out


def reduce_scatter_into(step: Step, x: Array, out: Array, reduction: str) -> None:
    """The same, into memory without gaps."""
    if not _read(phases(reduce_scatter, step, x, out, reduction=reduction)):
        parts = np.split(np.ascontiguousarray(x), len(step.group))
        np.copyto(out, added(_exchanged(step, parts), reduction))


def reduce_to(step: Step, x: Array, reduction: str, root: int) -> Array:
    """The sum over the ranks on the rank `root`; zeros elsewhere."""
    total = all_reduce(step, x, reduction)
    return total if world().rank == root else np.zeros_like(total)


def all_gather(step: Step, x: Array) -> Array:
    """Concatenate the arrays of all ranks along the first axis."""
    out = np.empty((len(step.group) * x.shape[0], *x.shape[1:]), x.dtype)
    all_gather_into(step, x, out)
    return out


def all_gather_into(step: Step, x: Array, out: Array) -> None:
    """The same, into memory without gaps."""
    if not _read(phases(all_gather, step, x, out)):
        parts = np.split(out, len(step.group))
        world().all_gather(step, _bytes(x), [_bytes(p) for p in parts])


def broadcast_from(step: Step, x: Array, root: int) -> Array:
    """Return the array of the rank `root`."""
    member(step)
    out = np.array(x, order="C")
    world().broadcast(step, root, _bytes(out))
    return out


def gather_to(step: Step, x: Array, root: int) -> Array:
    """Gather the arrays of all ranks along the first axis on the rank `root`; zeros elsewhere."""
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
    """Send `send_sizes` consecutive rows to each rank; concatenate `receive_sizes` rows of each."""
    member(step)
    out = np.empty((sum(receive_sizes), *x.shape[1:]), x.dtype)
    world().all_to_all(step, *([_bytes(p) for p in np.split(a, np.cumsum(sizes)[:-1])]
                               for a, sizes in ((x, send_sizes), (out, receive_sizes))))
    return out


def _exchanged(step: Step, parts: Sequence[Array]) -> list[Array]:
    """The i-th part goes to the group's i-th rank; what each of them sends, in their order."""
    here = member(step)
    out = list(np.empty((len(step.group), *parts[here].shape), parts[here].dtype))
    world().all_to_all(step, [_bytes(p) for p in parts], [_bytes(o) for o in out])
    return out


def send_to(step: Step, x: Array, rank: int, tag: int) -> None:
    """Give a tensor to a rank."""
    world().send(step, other_rank(step, rank), tag, _bytes(x))


def receive_from(step: Step, out: Array, rank: int, tag: int) -> None:
    """Fill `out` with what a rank sends."""
    world().receive(step, other_rank(step, rank), tag, _bytes(out))


def barrier(step: Step) -> None:
    """All ranks of the group have come."""
    in_order(lambda: _gathered(step, np.zeros(1, np.uint8)), step.text)


def gathered_texts(step: Step, text: str) -> list[str]:
    """Return the texts of the ranks of the group, in their order."""
    own = np.frombuffer(text.encode(), np.uint8)
    sizes = [int(n) for n in np.concatenate(_gathered(step, np.array([own.size])))]
    parts = [np.empty(size, np.uint8) for size in sizes]
    world().all_gather(step, own, parts)
    return [part.tobytes().decode() for part in parts]


def other_rank(step: Step, rank: int) -> int:
    """A rank that this one gives a message to, or gets one from. Raises CollectiveError if there is
    no such rank, or it is this one."""
    here = world()
    if rank == here.rank or not 0 <= rank < here.size:
        raise CollectiveError(f"{step.text}: expected another rank of 0 to {here.size - 1}, got "
                              f"{rank}; this is rank {here.rank}")
    return rank


# --- by reading what others have ------------------------------------------------------------------


def phases(
    function: Callable[..., Array], step: Step, x: Array, out: Array, **attrs: Any
) -> Phases | None:
    """How ranks that read each other's memory do one of `KINDS` with something large, into `out`;
    None: they send messages. Raises CollectiveError if this rank is not in the group."""
    made = _BY_READING.get(function)
    member(step)
    if made is None or x.nbytes <= SMALL or not world().reads(step.group):
        return None
    return made(step, np.ascontiguousarray(x).reshape(-1), out.reshape(-1), **attrs)


def _read(by_reading: Phases | None) -> bool:
    """Run the pending operation, if there is one; whether there was one."""
    if by_reading is None:
        return False
    for meeting in by_reading:
        world().wait(meeting)
    return True


@contextmanager
def _met(step: Step, *own: Array) -> Iterator[Meeting]:
    meeting = world().meeting(step, [_bytes(o) for o in own])
    try:
        yield meeting
    finally:
        meeting.leave()


def _all_reduce(step: Step, x: Array, out: Array, reduction: str) -> Phases:
    """Each rank adds up one slice in the order of the ranks, then takes the other slices from
    those who have added them. Of its `x` others read none but their slices, so `out` may be `x`."""
    count, here = len(step.group), member(step)
    ends = [x.size * i // count for i in range(count + 1)]
    with _met(step, x, out) as meeting:
        yield meeting
        own = slice(ends[here], ends[here + 1])
        _add_read(meeting, step, x, own, out[own], reduction)
        meeting.again()
        yield meeting
        for place in range(count):
            if place != here:
                taken = out[ends[place] : ends[place + 1]]
                meeting.read(place, 1, ends[place] * x.itemsize, _bytes(taken))
        meeting.again()
        yield meeting


def _reduce_scatter(step: Step, x: Array, out: Array, reduction: str) -> Phases:
    with _met(step, x) as meeting:
        yield meeting
        start = member(step) * out.size
        _add_read(meeting, step, x, slice(start, start + out.size), out, reduction)
        meeting.again()
        yield meeting


def _all_gather(step: Step, x: Array, out: Array) -> Phases:
    with _met(step, x) as meeting:
        yield meeting
        here = member(step)
        for place, part in enumerate(np.split(out, len(step.group))):
            if place == here:
                np.copyto(part, x)
            else:
                meeting.read(place, 0, 0, _bytes(part))
        meeting.again()
        yield meeting


_BY_READING: Mapping[Callable[..., Array], Callable[..., Phases]] = {
    all_reduce: _all_reduce, reduce_scatter: _reduce_scatter, all_gather: _all_gather,
}


def _add_read(
    meeting: Meeting, step: Step, x: Array, own: slice, out: Array, reduction: str
) -> None:
    """Add up what all have in one slice, in the order of the ranks, a piece at a time; `out` may be
    that slice of `x`, which is this rank's."""
    add, most = REDUCTIONS[reduction], _PIECE // x.itemsize
    here, count = member(step), len(step.group)
    room = np.empty((2, most), x.dtype)

    def part(place: int, piece: slice) -> Array:
        if place == here:
            return x[piece]
        read = room[min(place, 1), : piece.stop - piece.start]
        meeting.read(place, 0, piece.start * x.itemsize, _bytes(read))
        return read

    for at in range(own.start, own.stop, most):
        piece = slice(at, min(at + most, own.stop))
        result = out[piece.start - own.start : piece.stop - own.start]
        # The sum of the first two would overwrite what this rank adds later.
        total = result if here < 2 else room[0, : result.size]
        with np.errstate(all="ignore"):  # as `added` does
            add(part(0, piece), part(1, piece), out=total)
            for place in range(2, count):
                add(total, part(place, piece), out=total if place < here else result)
                total = total if place < here else result


# --- in order -------------------------------------------------------------------------------------

KINDS: Mapping[str, Callable[..., Any]] = {
    f.__name__: f for f in (
        all_reduce, reduce_scatter, reduce_to, all_gather, broadcast_from, gather_to, scatter_from,
        all_to_all, all_to_all_v,
    )
} | {"any_order_all_reduce": all_reduce, "any_order_reduce_scatter": reduce_scatter}
"""Collectives with one operand and one result, by the names of the ops."""
IN_PLACE = frozenset({all_reduce.__name__})
"""Those of them whose result may be where their operand is."""
_INTO: Mapping[Callable[..., Array], Callable[..., None]] = {
    all_reduce: all_reduce_into, reduce_scatter: reduce_scatter_into, all_gather: all_gather_into,
}
"""Those that write into a given array."""
MESSAGES: Mapping[str, Callable[..., None]] = {"send_to": send_to, "receive_from": receive_from}
"""Messages from one rank to another."""


def in_order(work: Callable[[], Any], text: str) -> Any:
    """Do something after all collectives that were started, and wait for it. Raises CollectiveError
    if it or an earlier one failed."""
    channel = world().channel
    return work() if channel is None else channel.do(work, text)


def perform(kind: str, step: Step, x: Array, **attrs: Any) -> Any:
    """Do one of `KINDS`, or a message, after everything that was started. Raises CollectiveError if
    it cannot be done, or what was started has failed."""
    function = KINDS.get(kind) or MESSAGES[kind]
    return in_order(lambda: function(step, x, **attrs), step.text + step.place)


# --- callbacks of programs ------------------------------------------------------------------------

START, WAIT = "start", "wait"  # The phases of a collective that runs while its program computes
ASK = "ask"
"""The phase of one that a program on a device asks to put on its stream first (`abi.BY_HOST`)."""
_MARK = "collective "


def callback_name(kind: str, attrs: Mapping[str, Any]) -> str:
    """Return the name by which a program calls a collective: it holds all attributes."""
    return _MARK + json.dumps([kind, {k: v for k, v in attrs.items() if k != "dtype"}])


def phased(name: str, phase: str) -> str:
    """Return the name for `START`, `WAIT` or `ASK` of a collective, given its `callback_name`."""
    return f"{_MARK}{phase} {name[len(_MARK):]}"


def asks(name: str) -> bool:
    """Whether a program's callback is of the phase `ASK`."""
    return name.startswith(f"{_MARK}{ASK} ")


def is_collective(name: str) -> bool:
    """Whether a program's callback has a name of `callback_name` or `phased`."""
    return name.startswith(_MARK)


def callback(name: str, place: str = "") -> Callable[..., None]:
    """Return the function that a program's callback runs.

    Args:
        name: see `callback_name` and `phased`.
        place: where in the user's code it is, for messages.
    """
    phase, bracket, text = name[len(_MARK):].partition("[")
    if phase.strip() == WAIT:
        return _wait
    kind, attrs = json.loads(bracket + text)
    group = tuple(attrs.pop("ranks", ()))
    if kind in MESSAGES:
        return Message(kind, attrs["rank"], attrs["tag"], place)
    return Called(kind, group, attrs, place, phase.strip() == START)


class Called:
    """A collective that a program calls.

    Args:
        kind: one of `KINDS`.
        group: the ranks.
        attrs: what else the function is given.
        place: where in the user's code it is, for messages.
        starts: whether it runs while the program computes.
    """

    def __init__(
        self, kind: str, group: tuple[int, ...], attrs: Mapping[str, Any], place: str, starts: bool,
    ) -> None:
        self.kind, self.group, self.attrs, self.place = kind, group, attrs, place
        self._starts = starts
        self._step: tuple[Any, Step] | None = None

    def step(self, x: Array) -> Step:
        """Return the step that all ranks must reach; cached: a program's operands have one type."""
        kind = x.dtype, x.shape
        if self._step is None or self._step[0] != kind:
            made = Step(described(self.kind, x, self.attrs), self.group, self.place)
            self._step = kind, made
        return self._step[1]

    def __call__(self, x: Array, out: Array) -> None:
        step, function, channel = self.step(x), KINDS[self.kind], world().channel
        text = step.text + step.place

        def work() -> None:
            if function in _INTO:
                _INTO[function](step, x, out, **self.attrs)
            else:
                np.copyto(out, function(step, x, **self.attrs))

        if self._starts and channel is not None and not channel.inside:
            by_reading = phases(function, step, x, out, **self.attrs)
            channel.launch(out.ctypes.data, by_reading or work, text)
        else:
            in_order(work, text)


@dataclass(frozen=True, slots=True)
class Message:
    """A message that a program sends or receives."""

    kind: str  # one of `MESSAGES`
    rank: int  # to or from whom
    tag: int  # which of several it is
    place: str  # where in the user's code it is, for messages

    def step(self, x: Array) -> Step:
        """Return the step of this message."""
        return Step(described(self.kind, x), (), self.place)

    def __call__(self, x: Array) -> None:
        perform(self.kind, self.step(x), x, rank=self.rank, tag=self.tag)


def _wait(out: Array) -> None:
    """Wait until the collective that was started into `out` has finished."""
    channel = world().channel
    if channel is not None:
        channel.land(out.ctypes.data)


def drain() -> None:
    """A program has ended with an error: nothing uses its memory any more."""
    channel = world().channel
    if channel is not None:
        channel.drain()


def described(kind: str, x: Array, attrs: Mapping[str, Any] | None = None) -> str:
    """Return the text of a step; equal on all ranks that do the same."""
    given = "".join(f" {v}" for k, v in (attrs or {}).items() if not k.endswith("_sizes"))
    rows = "..." if kind == "all_to_all_v" else ",".join(map(str, x.shape))
    return f"{kind}{given} of {x.dtype}[{rows}]"
