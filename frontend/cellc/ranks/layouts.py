"""Which part of a tensor each rank has: MindSpore's layouts as boxes of indices.

A layout lays the ranks out as a matrix of devices and says which axes of that matrix cut which axis
of the tensor. Ranks that differ only along other axes have the same part; `opt_size` of them may
part its rows further. From the boxes of two layouts follows who needs what of whom.
Source: `mindspore.parallel`, "distributed checkpoints".
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from cellc_runtime.records import dataclass

from .groups import ranks_of

Array = np.ndarray[Any, Any]
Box = tuple[slice, ...]


@dataclass(frozen=True, slots=True)
class PartLayout:
    """The sharding of a tensor over ranks."""

    devices: tuple[int, ...]  # the matrix of devices, outermost axis first
    # for each axis of the tensor the axes of the matrix that cut it, counted from the last
    cuts: tuple[tuple[int, ...], ...]
    # how many of the ranks with one part cut its first axis once more; 0 or 1: none
    opt_size: int = 0
    # rows of each part along the first axis, where they differ; else empty
    split_rows: tuple[int, ...] = ()
    stages: tuple[int, ...] = (0,)  # the stages of a pipeline that have the tensor

    @property
    def count(self) -> int:
        """How many ranks there are in a stage."""
        return math.prod(self.devices)

    def parts(self) -> tuple[int, ...]:
        """Into how many parts each axis of the tensor is cut."""
        cut = [math.prod(self.devices[-1 - a] for a in axes) for axes in self.cuts]
        if cut and self.opt_size > 1:
            cut[0] *= self.opt_size
        return tuple(cut)

    def whole(self, part: Sequence[int]) -> tuple[int, ...]:
        """The shape of the tensor, from that of a part."""
        if self.split_rows:
            return (sum(self.split_rows), *part[1:])
        return tuple(n * c for n, c in zip(part, self.parts(), strict=True))

    def box(self, rank: int, shape: Sequence[int], name: str = "tensor") -> Box:
        """The part of a tensor that a rank (of a stage) has."""
        if len(shape) != len(self.cuts):
            raise ValueError(f"{name}: its layout is of {len(self.cuts)} axes, but it has the "
                             f"shape {tuple(shape)}.")
        at = self.coordinates(rank)
        out = []
        for i, (size, axes, count) in enumerate(zip(shape, self.cuts, self.parts(), strict=True)):
            place = _mixed([at[-1 - a] for a in axes], [self.devices[-1 - a] for a in axes])
            if i == 0 and self.opt_size > 1:
                place = place * self.opt_size + self._opt_place(at)
            if i == 0 and self.split_rows:
                ends = np.cumsum((0, *self.split_rows)).tolist()
                out.append(slice(ends[place], ends[place + 1]))
                continue
            if size % count:
                raise ValueError(
                    f"{name}: its axis {i} of {size} cannot be cut into {count} parts.")
            out.append(slice(place * size // count, (place + 1) * size // count))
        return tuple(out)

    def coordinates(self, rank: int) -> tuple[int, ...]:
        """Where a rank is in the matrix of devices."""
        return tuple(int(i) for i in np.unravel_index(rank % self.count, self.devices))

    def opt_step(self) -> int:
        """How far the ranks are apart that cut the first axis once more."""
        last = max((i for i in self._free() if self.devices[i] > 1), default=0)
        return math.prod(self.devices[last + 1 :])

    def _free(self) -> list[int]:
        """The axes of the matrix that cut no axis of the tensor, from the first."""
        used = {len(self.devices) - 1 - a for axes in self.cuts for a in axes}
        return [i for i in range(len(self.devices)) if i not in used]

    def _opt_place(self, at: Sequence[int]) -> int:
        """Which of the parts of the first axis, of the ranks that differ along unused axes."""
        free = self._free()
        return _mixed([at[i] for i in free], [self.devices[i] for i in free]) % self.opt_size


    def as_json(self) -> list[Any]:
        """Return the form that `from_json` reads."""
        return [list(self.devices), [list(c) for c in self.cuts], self.opt_size,
                list(self.split_rows)]


def from_json(given: Any) -> PartLayout:
    """A layout that `PartLayout.as_json` wrote."""
    devices, cuts, size, rows = given
    return PartLayout(tuple(map(int, devices)), tuple(tuple(map(int, c)) for c in cuts), int(size),
                      tuple(map(int, rows)))


def undivided(axes: int) -> PartLayout:
    """The layout of a tensor that is whole on each of any number of ranks."""
    return PartLayout((1,), ((),) * axes)


def layout_of(given: Any, what: str) -> PartLayout:
    """A layout from MindSpore's list.

    Args:
        given: device matrix, tensor map, shape of the part, field size, whether parts are equal,
            group of ranks that part the first axis further, whole shape. The entries after the
            tensor map may be left out.
        what: is named in errors.
    """
    try:
        group = given[5] if len(given) > 5 else ""
        size = len(ranks_of(group, what)) if group else 0
        return PartLayout(tuple(map(int, given[0])), tuple(map(_axes, given[1])), size)
    except (TypeError, IndexError, KeyError, ValueError) as e:
        raise ValueError(f"{what}: expected a layout [device_matrix, tensor_map, ...], got "
                         f"{given!r}.") from e


def _axes(entry: Any) -> tuple[int, ...]:
    many = entry if isinstance(entry, (list, tuple)) else (entry,)
    return tuple(int(a) for a in many if a != -1)


def _mixed(digits: Sequence[int], bases: Sequence[int]) -> int:
    out = 0
    for digit, base in zip(digits, bases, strict=True):
        out = out * base + digit
    return out


def sources(
    rank: int, have: PartLayout, want: PartLayout, shape: Sequence[int], name: str = "tensor",
    among: Collection[int] | None = None,
) -> dict[int, Box]:
    """The ranks of one layout that have what a rank of another wants, and their boxes.

    Of several with one box, that which is nearest to `rank` in the matrix of devices; one of
    `among` if any of them is.
    """
    mine, near = want.box(rank, shape, name), have.coordinates(rank)
    chosen: dict[Any, tuple[Any, int, Box]] = {}
    for other in range(have.count):
        box = have.box(other, shape, name)
        if _common(mine, box) is None:
            continue
        gone = among is not None and other not in among
        far = gone, sum(a != b for a, b in zip(have.coordinates(other), near, strict=True))
        key = tuple((s.start, s.stop) for s in box)
        if key not in chosen or (far, other) < chosen[key][:2]:
            chosen[key] = far, other, box
    return {other: box for _, other, box in chosen.values()}


def _common(a: Box, b: Box) -> Box | None:
    """Where two boxes overlap; None: nowhere."""
    out = tuple(slice(max(x.start, y.start), min(x.stop, y.stop))
                for x, y in zip(a, b, strict=True))
    return out if all(s.start < s.stop for s in out) else None


def _within(inner: Box, outer: Box) -> Box:
    """A box by indices of another one that it lies in."""
    return tuple(slice(i.start - o.start, i.stop - o.start)
                 for i, o in zip(inner, outer, strict=True))


def assembled(
    rank: int, have: PartLayout, want: PartLayout, parts: Mapping[int, Array], name: str
) -> Array:
    """Return a rank's part in one layout, from the parts of ranks in another.

    Args:
        rank: of the stage.
        parts: by rank of the stage; those that `sources` names.
    """
    first = next(iter(parts.values()))
    shape = have.whole(first.shape)
    mine = want.box(rank, shape, name)
    out = np.empty([s.stop - s.start for s in mine], first.dtype)
    for other, box in sources(rank, have, want, shape, name, parts).items():
        if other not in parts:
            raise ValueError(f"{name}: the part of rank {other} is missing; there are those of "
                             f"the ranks {sorted(parts)}.")
        part, wanted = parts[other], tuple(s.stop - s.start for s in box)
        if part.shape != wanted:
            raise ValueError(f"{name}: the part of rank {other} should have the shape {wanted}, "
                             f"but has {part.shape}.")
        both = _common(mine, box)
        assert both is not None, "sources overlap"
        out[_within(both, mine)] = part[_within(both, box)]
    return out
