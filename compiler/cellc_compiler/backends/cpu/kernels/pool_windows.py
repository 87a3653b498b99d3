"""Which input elements each pooling window covers, as tables along each axis."""

from __future__ import annotations

from cellc_compiler.backends.llvm.text import Function, V
from cellc_runtime.dtypes import DType
from cellc_runtime.records import dataclass

from .vectors import lookup, memory_type, table


@dataclass(frozen=True)
class Axis:
    """Windows along one axis.

    Attributes:
        size: input elements.
        starts, ends: first element of each window and one past its last, both inside the input.
        step: distance of the elements of a window (dilation).
        counts: what the window contributes to the divisor of an average.
    """

    size: int
    starts: tuple[int, ...]
    ends: tuple[int, ...]
    step: int
    counts: tuple[int, ...]

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
            + table(f"{name}_COUNT", self.counts)
        )


def bounds(f: Function, name: str, index: V) -> tuple[V, V]:
    """First and past-the-last element of window `index` of axis `name`."""
    return lookup(f, f"{name}_LO", index), lookup(f, f"{name}_HI", index)


def sliding_axis(
    size: int, kernel: int, stride: int, dilation: int, before: int, after: int,
    ceil_mode: bool, include_pad: bool,
) -> Axis:
    """Windows of a sliding pool. With `include_pad`, the padding counts for an average, but not
    what `ceil_mode` adds beyond it.

    Raises:
        ValueError: no window fits, or one lies wholly in the padding.
    """
    reach = dilation * (kernel - 1) + 1
    room = size + before + after - reach
    if room < 0:
        raise ValueError(f"a pooling window of {reach} does not fit {size} + {before + after}")
    windows = (-(-room // stride) if ceil_mode else room // stride) + 1
    if ceil_mode and (windows - 1) * stride >= size + before:
        windows -= 1
    starts, ends, counts = [], [], []
    for o in range(windows):
        taps = [o * stride - before + k * dilation for k in range(kernel)]
        live = [t for t in taps if 0 <= t < size]
        if not live:
            raise ValueError(f"pooling window {o} lies wholly in the padding")
        starts.append(live[0])
        ends.append(live[-1] + 1)
        counts.append(sum(t < size + after for t in taps) if include_pad else len(live))
    return Axis(size, tuple(starts), tuple(ends), dilation, tuple(counts))


def adaptive_axis(size: int, windows: int) -> Axis:
    """Windows `floor(o * size / windows) .. ceil((o + 1) * size / windows)`."""
    starts = [o * size // windows for o in range(windows)]
    ends = [-(-(o + 1) * size // windows) for o in range(windows)]
    counts = [e - s for s, e in zip(starts, ends, strict=True)]
    return Axis(size, tuple(starts), tuple(ends), 1, tuple(counts))


@dataclass(frozen=True)
class PoolSpec:
    """Pooling of `x[n, c, h, w]` (1-d: `h = kernel[0] = 1`).

    Attributes:
        kernel, stride, dilation: (rows, columns).
        pads: elements added (top, bottom, left, right); they never win a maximum.
        ceil_mode: whether a window may start inside and end outside the padded input.

    Raises:
        ValueError: sizes that give no output, or a window wholly in the padding.
        TypeError: `dtype` is not a real floating-point type.
    """

    n: int
    c: int
    h: int
    w: int
    kernel: tuple[int, int]
    stride: tuple[int, int]
    dilation: tuple[int, int]
    pads: tuple[int, int, int, int]
    ceil_mode: bool
    dtype: DType

    def __post_init__(self) -> None:
        memory_type(self.dtype)
        self.axes(False)

    def axes(self, include_pad: bool) -> tuple[Axis, Axis]:
        """Row and column windows."""
        top, bottom, left, right = self.pads
        return (
            sliding_axis(self.h, self.kernel[0], self.stride[0], self.dilation[0], top, bottom,
                         self.ceil_mode, include_pad),
            sliding_axis(self.w, self.kernel[1], self.stride[1], self.dilation[1], left, right,
                         self.ceil_mode, include_pad),
        )

    @property
    def oh(self) -> int:
        """Output rows."""
        return self.axes(False)[0].windows

    @property
    def ow(self) -> int:
        """Output columns."""
        return self.axes(False)[1].windows


@dataclass(frozen=True)
class AdaptiveSpec:
    """Adaptive pooling of `x[n, c, h, w]` to `[n, c, oh, ow]`.

    Raises:
        ValueError: an empty input or output.
        TypeError: `dtype` is not a real floating-point type.
    """

    n: int
    c: int
    h: int
    w: int
    oh: int
    ow: int
    dtype: DType

    def __post_init__(self) -> None:
        memory_type(self.dtype)
        if min(self.n, self.c, self.h, self.w, self.oh, self.ow) < 1:
            raise ValueError(f"adaptive pooling of an empty input or to an empty output: {self}")

    def axes(self, include_pad: bool = False) -> tuple[Axis, Axis]:
        """Row and column windows (there is no padding to include)."""
        del include_pad
        return adaptive_axis(self.h, self.oh), adaptive_axis(self.w, self.ow)
