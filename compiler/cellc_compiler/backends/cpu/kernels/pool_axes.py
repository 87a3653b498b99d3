"""Which elements of an axis each window of a pool covers: from tables where sizes are known, from
formulas where they are known only when the code runs."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from cellc_runtime.records import dataclass, replace

from ....ir.dims import Undecided, is_symbolic, largest, smallest, surely_at_least
from ....ops.pool import Windows, adaptive_windows, sliding_windows, window_count
from ...llvm.text import Function, V, vector
from .vectors import lookup, maximum, minimum, table


@dataclass(frozen=True)
class Axis:
    """Windows along one axis."""

    size: int  # input elements
    # starts, ends: first element of each window and one past its last, both inside the input
    starts: tuple[int, ...]
    ends: tuple[int, ...]
    step: int  # distance of the elements of a window (dilation)
    # what each window adds to the divisor of an average, as a factor
    contributions: tuple[int, ...]

    @property
    def windows(self) -> int:
        """Number of windows."""
        return len(self.starts)

    @property
    def longest(self) -> int:
        """Most elements any window has."""
        return max(-(-(e - s) // self.step) for s, e in zip(self.starts, self.ends, strict=True))

    def tables(self, name: str) -> str:
        """Globals `<name>_LO`, `<name>_HI`, `<name>_COUNT`."""
        return (
            table(f"{name}_LO", self.starts)
            + table(f"{name}_HI", self.ends)
            + table(f"{name}_COUNT", self.contributions)
        )

    @property
    def inner(self) -> tuple[int, int, int, int]:
        """The first run of whole windows at equal distances: `(first, past the last, distance,
        first element of the first)`."""
        spans = [(e - s - 1) // self.step + 1 for s, e in zip(self.starts, self.ends, strict=True)]
        most = max(spans)
        first = end = spans.index(most)
        at = self.starts[first]
        stride = self.starts[first + 1] - at if first + 1 < self.windows else 0
        while end < self.windows and spans[end] == most and (
                self.starts[end] == at + (end - first) * stride):
            end += 1
        return first, end, stride, at

    @property
    def whole(self) -> bool:
        """Whether there is one window, which covers the axis."""
        return (self.starts, self.ends, self.step) == ((0,), (self.size,), 1)

    def bounds(self, f: Function, name: str, index: V) -> tuple[V, V]:
        """First and past-the-last element of a window, from the tables of this name."""
        return lookup(f, f"{name}_LO", index), lookup(f, f"{name}_HI", index)

    def count(self, f: Function, name: str, index: V) -> V:
        """The contribution of a window to the divisor."""
        return lookup(f, f"{name}_COUNT", index)

    def counts(self, f: Function, name: str, index: V, lanes: int) -> V:
        """The contributions of as many windows from one on, as i32, from the table of this name."""
        return lookup(f, name, index, vector("i32", lanes))

    def count_table(self, name: str, lanes: int) -> str:
        """That table. Lanes past the last window divide by 1, and their result is not stored."""
        return table(name, self.contributions + (1,) * lanes, "i32", 4)


class _Formula:
    """Base of windows that formulas give: there are no tables."""

    def tables(self, name: str) -> str:
        """There are none."""
        del name
        return ""

    def count_table(self, name: str, lanes: int) -> str:
        """There is none."""
        del name, lanes
        return ""

    given: int | None

    @abstractmethod
    def bounds(self, f: Function, name: str, index: V) -> tuple[V, V]:
        """First and past-the-last element of a window."""

    def count(self, f: Function, name: str, index: V) -> V:
        """The contribution of a window to the divisor."""
        if self.given is not None:
            return f.i64(self.given)
        first, end = self.bounds(f, name, index)
        return end - first

    def counts(self, f: Function, name: str, index: V, lanes: int) -> V:
        """The contributions of as many windows from one on, as i32."""
        out = f.undef(vector("i32", lanes))
        for k in range(lanes):
            one = self.count(f, name, index + k)
            out = f.insert(out, f.cast("trunc", one, "i32"), k)
        return out


@dataclass(frozen=True)
class OpenAxis(_Formula):
    """Windows along an axis whose size is known when the code runs; attributes as of `Axis`."""

    size: int
    windows: int
    kernel: int  # elements of a window; `stride` between windows; `before` and `after` the padding
    stride: int
    step: int
    before: int
    after: int
    include_pad: bool  # whether padding counts
    # whether the last window may reach beyond the padding, which counts nothing
    beyond: bool
    given: int | None = None  # the contribution to the divisor, if it is given
    whole: bool = False  # whether there is one window, which covers the axis

    @property
    def covers(self) -> bool:
        """Whether the first window covers the axis."""
        return self.step == 1 and self.kernel - self.before >= self.size

    @property
    def longest(self) -> int:
        """Most elements any window has."""
        return self.kernel

    @property
    def inner(self) -> tuple[int, int, int, int]:
        """As of `Axis`; the run is empty in images that hold no whole window."""
        first = -(-self.before // self.stride)
        end = (self.size + self.before - self.step * (self.kernel - 1) - 1) // self.stride + 1
        if not surely_at_least(end, first):
            first = smallest(first, self.windows)
            end = largest(end, first)
        return first, end, self.stride, first * self.stride - self.before

    def start(self, f: Function, index: V) -> V:
        """The first element of a window, which may lie in the padding."""
        return index * self.stride - self.before

    def bounds(self, f: Function, name: str, index: V) -> tuple[V, V]:
        """First and past-the-last element of a window."""
        del name
        start, step = self.start(f, index), f.i64(self.step)
        missing = maximum(f, f.i64(0) - start, 0)
        missing = missing + (self.step - 1)
        first = start + missing // step * step
        room = (f.i64(self.size - 1) - start) // step
        last = minimum(f, room, self.kernel - 1) * step
        return first, start + last + 1

    def count(self, f: Function, name: str, index: V) -> V:
        """The contribution of a window to the divisor (averages have no dilation)."""
        if self.given is None and self.include_pad:
            if not self.beyond:
                return f.i64(self.kernel)
            return minimum(f, f.i64(self.size + self.after) - self.start(f, index), self.kernel)
        return super().count(f, name, index)


@dataclass(frozen=True)
class OpenAdaptive(_Formula):
    """As `OpenAxis`, of an adaptive pool with this number of windows."""

    size: int
    windows: int
    given: int | None = None
    step = 1

    @property
    def whole(self) -> bool:
        """Whether there is one window, which covers the axis."""
        return self.windows == 1

    @property
    def longest(self) -> int:
        """Most elements any window has, about."""
        return -(-self.size // self.windows)

    def bounds(self, f: Function, name: str, index: V) -> tuple[V, V]:
        """First and past-the-last element of a window."""
        del name
        size, windows = f.i64(self.size), f.i64(self.windows)
        end = (index + 1) * size + (self.windows - 1)
        return (index * size // windows, end // windows)


Sliding = Axis | OpenAxis
AnyAxis = Sliding | OpenAdaptive
A = TypeVar("A", Sliding, AnyAxis)


def given_count(axis: A, count: int) -> A:
    """The same windows; each contributes `count` to the divisor."""
    if isinstance(axis, Axis):
        return replace(axis, contributions=(count,) * axis.windows)
    return replace(axis, given=count)


def average_axes(windows: tuple[A, A], divisor: int | None) -> tuple[A, A]:
    """Row and column windows whose counts multiply to the divisor; known to be `whole` where one
    window covers an image of open size, because its elements are added in another order."""
    rows, columns = windows
    opened = not (isinstance(rows, Axis) and isinstance(columns, Axis))
    if opened and rows.windows * columns.windows < 2:
        rows, columns = _single(rows), _single(columns)
    if divisor is None:
        return rows, columns
    return given_count(rows, divisor), given_count(columns, 1)


def _single(axis: A) -> A:
    """An axis that has one window."""
    if isinstance(axis, OpenAxis):
        return replace(axis, whole=axis.covers)
    return replace(axis, windows=1) if isinstance(axis, OpenAdaptive) else axis


def _known(size: int, windows: Windows, counts: Iterable[int], step: int = 1) -> Axis:
    """The windows that the op's definition lists."""
    return Axis(size, tuple(w[0] for w in windows), tuple(w[-1] + 1 for w in windows), step,
                tuple(counts))


def sliding_axis(
    size: int, kernel: int, stride: int, dilation: int, pads: tuple[int, int], ceil_mode: bool,
    include_pad: bool,
) -> Sliding:
    """Windows of a sliding pool. With `include_pad`, the padding counts for an average, but not
    what `ceil_mode` adds beyond it.

    Raises:
        Undecided: windows that only a known size decides.
    """
    if not is_symbolic(size):
        windows, counts = sliding_windows(size, kernel, stride, dilation, pads, ceil_mode)
        return _known(size, windows, counts if include_pad else map(len, windows), dilation)
    reach = dilation * (kernel - 1) + 1
    if any(p >= reach for p in pads) or (dilation > 1 and size < reach):
        raise Undecided("a window of a pool may lie in the padding")
    count = window_count(size, kernel, stride, dilation, pads, ceil_mode)
    return OpenAxis(size, count, kernel, stride, dilation, *pads, include_pad, ceil_mode)


def sliding_axes(
    size: Sequence[int], attrs: Mapping[str, Any], include_pad: bool = False
) -> tuple[Sliding, Sliding]:
    """Row and column windows of a sliding pool of these attributes over an image."""
    dilation, pads = attrs.get("dilation", (1, 1)), attrs["pads"]
    rows, columns = (
        sliding_axis(size[k], attrs["kernel"][k], attrs["stride"][k], dilation[k],
                     pads[2 * k:2 * k + 2], attrs["ceil_mode"], include_pad) for k in (0, 1))
    return rows, columns


def adaptive_axis(size: int, windows: int) -> AnyAxis:
    """Windows `floor(o * size / windows) .. ceil((o + 1) * size / windows)`."""
    if is_symbolic(size):
        return OpenAdaptive(size, windows)
    found = adaptive_windows(size, windows)
    return _known(size, found, map(len, found))
