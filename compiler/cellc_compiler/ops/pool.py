"""Two-dimensional pooling of images (N, C, H, W), sliding and adaptive, with the adjoints.

One-dimensional pools have height 1; pools over the whole image are reductions. The first of
equal maxima wins (row by row), the first NaN of a window over everything. Averages of 16-bit
floats are computed in float32 and rounded once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from cellc_runtime import dtypes

from ..ir import attributes as attr
from ..ir.dims import is_symbolic, smallest
from ..ir.graph import Builder, Node, Value
from ..ir.op import FLOATS, Array, Op, Sample, Spec
from ..ir.types import TensorType, prod
from . import _batch_axis
from ._members import Grads, define, sharding
from ._views import widened
from .batching import merged

Pair = tuple[int, int]
Attrs = dict[str, Any]
Cases = tuple[tuple[tuple[int, ...], Attrs], ...]
Windows = list[list[int]]
"""Per window along an axis, the positions it covers (inside the image, ascending)."""

SLIDING = {"kernel": attr.pair(1), "stride": attr.pair(1, default=(1, 1)),
           "pads": attr.pads(attr.MOST_COUNTED), "ceil_mode": attr.flag(False)}


def sliding_windows(size: int, kernel: int, stride: int, dilation: int, pads: Pair,
             ceil_mode: bool) -> tuple[Windows, list[int]]:
    """Windows of a sliding pool, and how many of each one's taps lie in the padded image. Raises
    ValueError if no window fits, or one covers nothing but padding."""
    count = _covering(size, kernel, stride, dilation, pads, ceil_mode)
    windows, counts = [], []
    for start in range(-pads[0], count * stride - pads[0], stride):
        windows.append(list(_taps(start, size, kernel, dilation)))
        counts.append(min(kernel, -((start - size - pads[1]) // dilation)))
    return windows, counts


def _taps(start: int, size: int, kernel: int, dilation: int) -> range:
    """The positions inside the image that a window at `start` covers."""
    first = start + max(0, -(start // dilation)) * dilation
    return range(first, min(size, start + kernel * dilation), dilation)


def _covering(size: int, kernel: int, stride: int, dilation: int, pads: Pair,
              ceil_mode: bool) -> int:
    """How many windows there are. Raises ValueError if no window fits, or one covers nothing but
    padding."""
    count = window_count(size, kernel, stride, dilation, pads, ceil_mode)
    reach = dilation * (kernel - 1) + 1
    if is_symbolic(size) and max(pads) < reach and size >= reach:
        return count  # each window meets the image
    # Between the first and the last window only taps that are farther apart than the image miss it.
    starts: Sequence[int] = (-pads[0], (count - 1) * stride - pads[0])
    if dilation > size:
        starts = range(-pads[0], count * stride - pads[0], stride)
    if not all(_taps(start, size, kernel, dilation) for start in starts):
        raise ValueError(f"a window of a pool of kernel {kernel} over {size} elements padded by "
                         f"{pads[0]} and {pads[1]} covers nothing but padding")
    return count


def window_count(
    size: int, kernel: int, stride: int, dilation: int, pads: Pair, ceil_mode: bool
) -> int:
    """How many windows there are; `size` may be symbolic. Raises ValueError if no window fits, or
    there is nothing but padding."""
    reach = dilation * (kernel - 1) + 1
    room = size + sum(pads) - reach
    bare = sum(pads) >= reach and size < 1  # (else that there is room says that there is an image)
    if bare or room < 0 :
        raise ValueError(f"a pool of kernel {kernel}, stride {stride} and dilation {dilation} does "
                         f"not fit {size} elements padded by {pads[0]} and {pads[1]}")
    count = room // stride + 1
    if ceil_mode and is_symbolic(size):
        # No window begins after the image and the padding before it.
        inside = (size + pads[0] - 1) // stride
        more = -(-room // stride)
        never = stride <= reach - pads[1]
        return (more if never else smallest(more, inside)) + 1
    if ceil_mode and room % stride and count * stride < size + pads[0]:
        count += 1
    return count


def adaptive_windows(size: int, windows: int) -> Windows:
    """Windows floor(i * size / windows) .. ceil((i + 1) * size / windows) - 1. Raises ValueError if
    there is less than one window or nothing to pool."""
    if size < 1:
        raise ValueError(f"an adaptive pool from {size} to {windows} elements is not defined")
    return [list(range(i * size // windows, -(-(i + 1) * size // windows))) for i in range(windows)]


def _max_reference(x: Array, rows: Windows, columns: Windows) -> tuple[Array, Array]:
    """Maxima and their flat positions in the plane."""
    n, c, _, width = x.shape
    out = np.zeros((n, c, len(rows), len(columns)), x.dtype)
    at = np.zeros(out.shape, np.int64)
    for i, ys in enumerate(rows):
        for j, xs in enumerate(columns):
            flat = np.array([y * width + z for y in ys for z in xs], np.int64)
            plane = x.reshape(n, c, x.shape[2] * width)[:, :, flat]
            best = np.argmax(widened(plane)[0], -1)
            at[:, :, i, j] = flat[best]
            out[:, :, i, j] = np.take_along_axis(plane, best[..., None], -1)[..., 0]
    return out, at


def _max_backward_reference(x: Array, dy: Array, rows: Windows, columns: Windows) -> Array:
    at = _max_reference(x, rows, columns)[1]
    n, c, h, w = x.shape
    grad = widened(dy)[0]
    out = np.zeros((n, c, h * w), grad.dtype)
    for i, j in np.ndindex(n, c):
        np.add.at(out[i, j], at[i, j].ravel(), grad[i, j].ravel())
    return out.reshape(x.shape).astype(x.dtype)


def _avg_reference(x: Array, rows: Windows, columns: Windows, divisors: Array) -> Array:
    wide = widened(x)[0]
    sums = np.stack([wide[:, :, ys].sum(2) for ys in rows], 2)
    sums = np.stack([sums[:, :, :, xs].sum(3) for xs in columns], 3)
    return (sums / divisors).astype(x.dtype)


def _avg_backward_reference(dy: Array, size: Pair, rows: Windows, columns: Windows,
                            divisors: Array) -> Array:
    share = widened(dy)[0] / divisors
    out = np.zeros((*dy.shape[:2], *size), share.dtype)
    for i, ys in enumerate(rows):
        for j, xs in enumerate(columns):
            out[:, :, ys[0]: ys[-1] + 1, xs[0]: xs[-1] + 1] += share[:, :, i: i + 1, j: j + 1]
    return out.astype(dy.dtype)


def _check_image(name: str, x: TensorType) -> None:
    if x.dtype not in FLOATS:
        raise TypeError(f"{name} takes floating-point tensors, got {x}")
    if x.rank != 4:
        raise ValueError(f"{name} needs images (N, C, H, W), got {x}")


def image_size(x: TensorType) -> Pair:
    """Rows and columns of images (N, C, H, W)."""
    return x.dims[2], x.dims[3]


def _images(*cases: tuple[tuple[int, ...], Attrs], dy: Any = None) -> tuple[Sample, ...]:
    """Samples of the cases; `dy` gives the shape of a second operand."""
    out = []
    for shape, attrs in cases:
        x = Spec(shape, -4.0, 4.0)
        shapes = (x,) if dy is None else (x, Spec(dy(TensorType(shape, dtypes.float32), attrs)))
        out.append(Sample(shapes, attrs))
    return tuple(out)


class _Pool(Op):
    """Base: how windows follow from the attributes."""

    opaque = True
    batch = merged
    cases: Cases  # Shapes and attributes of samples
    sides: ClassVar[tuple[str, ...]] = ("image", "pooled")
    """The kinds of the operands and the result: images, or one element for each window."""

    def factors(self, node: Node) -> sharding.Factors:
        """Images and channels, and rows and columns, of which a part needs more than its own where
        windows overlap. (Positions of maxima are those in whole images.)"""
        lead = sharding.leading_factors(node, 2)
        if node.attrs.get("indices"):
            return lead
        slides = self._slides(node)
        axes = ((0,), (1,), *(() if s is None else (2 + k,) for k, s in enumerate(slides)))
        sizes = (*lead.sizes, *(0 if s is None else math.gcd(s.rows, s.positions) for s in slides))
        return sharding.Factors(
            sizes, (axes,) * len(node.operands), (axes,) * len(node.results),
            allowed=lambda parts: self._is_pool_of_parts(node, parts),
            windows={(i, 2 + k): self._window(s, side) for k, s in enumerate(slides)
                     for i, side in enumerate(self.sides[:-1]) if s is not None})

    def part(
        self, b: Builder, node: Node, operands: Sequence[Value], part: sharding.Part
    ) -> Value | Sequence[Value]:
        """The same of the rows that this rank needs, which are padded at the border of the image
        alone. An image is made for all rows that windows cover; this rank's are cut out of it."""
        if node.attrs.get("indices"):
            return b.node(node.op, operands, node.attrs).results
        attrs, slides = dict(node.attrs), self._slides(node)
        dims = part.type.dims
        start, stop = [0] * len(dims), list(dims)
        for axis in (2, 3):
            s = slides[axis - 2]
            if (0, axis) not in part.windows or s is None:
                continue
            first, size = part.result[axis]
            rows, positions = self._needed(s, first, first + size)
            attrs |= self._local(attrs, axis - 2, s, rows, positions)
            inside = max(rows[0], 0), min(rows[1], s.rows)
            if "size" in attrs:
                attrs["size"] = _put(attrs["size"], axis - 2, inside[1] - inside[0])
            if self.sides[-1] == "image":
                start[axis], stop[axis] = first - inside[0], first + size - inside[0]
        out: Value = b.emit(node.op, *operands, **attrs)
        return out if out.type.dims == dims else b.slice(out, start=tuple(start), stop=tuple(stop))

    def _is_pool_of_parts(self, node: Node, parts: Mapping[int, int]) -> bool:
        """Whether parts are pools, and compute elements as the whole does."""
        return True

    def _slides(self, node: Node) -> list[sharding.Sliding | None]:
        """How windows go over rows and over columns; None: those of a part are no such windows."""
        types = dict(zip(self.sides, (*(v.type for v in node.operands), node.results[0].type),
                         strict=True))
        return [self._slide(node.attrs, k, types["image"].dims[2 + k], types["pooled"].dims[2 + k])
                for k in range(2)]

    def _slide(self, attrs: Attrs, k: int, rows: int, positions: int) -> sharding.Sliding | None:
        """How windows go over rows (`k` = 0) or columns."""
        raise TypeError(f"{self.name} has no windows")

    def _local(
        self, attrs: Attrs, k: int, slides: sharding.Sliding, rows: Pair, positions: Pair
    ) -> Attrs:
        """The attributes that differ for some windows (`k`: see `_slide`), given the rows that they
        cover, of which some may lie outside of the image."""
        raise TypeError(f"{self.name} has no windows")

    def _window(self, slides: sharding.Sliding, side: str) -> sharding.Window:
        """Return the rows of an operand that a part of the result needs."""
        if self.sides[-1] == "pooled":
            return slides.covered_window()
        return slides.covering_window() if side == "pooled" else slides.around_window()

    def _needed(self, slides: sharding.Sliding, begin: int, end: int) -> tuple[Pair, Pair]:
        """The rows and the windows that the result needs from `begin` up to `end`."""
        if self.sides[-1] == "pooled":
            return slides.covered(begin, end), (begin, end)
        return slides.around(begin, end), slides.covering(begin, end)

    def windows(self, hw: Pair, attrs: Attrs) -> tuple[Windows, Windows]:
        """Row and column windows over an image of `hw`."""
        raise TypeError(f"{self.name} has no windows")

    def pooled(self, x: TensorType, attrs: Attrs) -> TensorType:
        """The type of the pooled images. Raises TypeError or ValueError if a dtype or shape does
        not fit."""
        _check_image(self.name, x)
        return x.with_shape((*x.shape[:2], *self.counts(image_size(x), attrs)))

    def counts(self, hw: Pair, attrs: Attrs) -> Pair:
        """Rows and columns of the pooled image."""
        rows, columns = self.windows(hw, attrs)
        return len(rows), len(columns)


def _put(sizes: Sequence[int], k: int, size: int) -> tuple[int, ...]:
    return (*sizes[:k], size, *sizes[k + 1 :])


class _Sliding(_Pool):

    def _slide(self, attrs: Attrs, k: int, rows: int, positions: int) -> sharding.Sliding:
        reach = attrs.get("dilation", (1, 1))[k] * (attrs["kernel"][k] - 1) + 1
        return sharding.Sliding(rows, positions, attrs["stride"][k], attrs["pads"][2 * k], reach)

    def _is_pool_of_parts(self, node: Node, parts: Mapping[int, int]) -> bool:
        # A window that `ceil_mode` adds is none if it is the only one.
        for k, s in enumerate(self._slides(node)):
            n, end = parts.get(2 + k, 1), node.result.type.dims[2 + k]
            if n > 1 and s is not None:
                (first, behind) = self._needed(s, end - end // n, end)[1]
                room = s.rows + node.attrs["pads"][2 * k + 1]
                if behind - first == 1 and s.covered(first, behind)[1] > room:
                    return False
        return True

    def _local(
        self, attrs: Attrs, k: int, slides: sharding.Sliding, rows: Pair, positions: Pair
    ) -> Attrs:
        # (What the last window reaches beyond the padding is no padding of `ceil_mode`.)
        pads = list(attrs["pads"])
        behind = min(max(rows[1] - slides.rows, 0), pads[2 * k + 1])
        pads[2 * k : 2 * k + 2] = max(-rows[0], 0), behind
        return {"pads": tuple(pads)}

    def counts(self, hw: Pair, attrs: Attrs) -> Pair:
        pads, dilation = attrs["pads"], attrs.get("dilation", (1, 1))
        # Sizes that are symbolic are not asked more than is needed.
        alone = dilation != (1, 1) or any(pads[k] >= attrs["kernel"][k // 2] for k in range(4))
        count = _covering if alone else window_count
        rows, columns = (
            count(hw[k], attrs["kernel"][k], attrs["stride"][k], dilation[k],
                  (pads[2 * k], pads[2 * k + 1]), attrs["ceil_mode"]) for k in range(2))
        return rows, columns

    def windows(self, hw: Pair, attrs: Attrs) -> tuple[Windows, Windows]:
        (top, bottom, left, right), dilation = attrs["pads"], attrs.get("dilation", (1, 1))
        sides = ((top, bottom), (left, right))
        rows, columns = (
            sliding_windows(hw[k], attrs["kernel"][k], attrs["stride"][k], dilation[k], sides[k],
                     attrs["ceil_mode"])[0] for k in range(2))
        return rows, columns


class _Adaptive(_Pool):

    def _slide(self, attrs: Attrs, k: int, rows: int, positions: int) -> sharding.Sliding | None:
        if rows % positions:
            return None
        return sharding.Sliding(rows, positions, rows // positions, 0, rows // positions)

    def _local(
        self, attrs: Attrs, k: int, slides: sharding.Sliding, rows: Pair, positions: Pair
    ) -> Attrs:
        return {"output_size": _put(attrs["output_size"], k, positions[1] - positions[0])}

    def counts(self, hw: Pair, attrs: Attrs) -> Pair:
        rows, columns = attrs["output_size"]
        if any(n < 1 for n in (*hw, rows, columns)):
            return super().counts(hw, attrs)  # the error
        return rows, columns

    def windows(self, hw: Pair, attrs: Attrs) -> tuple[Windows, Windows]:
        rows, columns = (adaptive_windows(hw[k], attrs["output_size"][k]) for k in range(2))
        return rows, columns


# --- maximum ---------------------------------------------------------------------------------


class _Max(_Pool):
    """Base of the maximum pools; with `indices`, a second int64 result: flat positions."""

    def infer(self, x: TensorType, *, indices: bool,
              **attrs: Any) -> TensorType | tuple[TensorType, ...]:
        out = self.pooled(x, attrs)
        return (out, out.with_dtype(dtypes.int64)) if indices else out

    def reference(self, x: Array, *, indices: bool, **attrs: Any) -> Any:
        out = _max_reference(x, *self.windows(x.shape[2:], attrs))
        return out if indices else out[0]

    def gradient(self, b: Builder, node: Node, dys: Grads) -> Grads:
        if dys[0] is None:
            return [None]
        attrs = {k: v for k, v in node.attrs.items() if k != "indices"}
        back: Value = b.emit(f"{self.name}_backward", node.operands[0], dys[0], **attrs)
        return [back]


class _MaxBackward(_Pool):
    """Base of the adjoints of the maximum pools: operands (input, dy)."""

    operands = ("input", "dy")
    sides = ("image", "pooled", "image")
    tolerance = 16.0
    forward: str

    def infer(self, x: TensorType, dy: TensorType, **attrs: Any) -> TensorType:
        want = self.pooled(x, attrs)
        if dy != want:
            raise ValueError(f"{self.name} of {x} needs dy {want}, got {dy}")
        return x

    def reference(self, x: Array, dy: Array, **attrs: Any) -> Array:
        return _max_backward_reference(x, dy, *self.windows(x.shape[2:], attrs))

    def summed(self, *arrays: Array, **attrs: Any) -> Array:
        """Gradients of a maximum of several windows are added."""
        return self.reference(arrays[0], np.abs(arrays[1]), **attrs)

    def gradient(self, b: Builder, node: Node, dys: Grads) -> Grads:
        x, dy = node.operands
        n, c = x.shape[:2]
        at = b.emit(self.forward, x, **{**node.attrs, "indices": True})[1]
        flat = b.reshape(at, shape=(n, c, dy.shape[2] * dy.shape[3]))
        planes = b.reshape(dys[0], shape=(n, c, x.shape[2] * x.shape[3]))
        picked = b.gather_elements(planes, flat, dim=2)
        return [None, b.reshape(picked, shape=dy.shape)]

    def samples(self) -> Sequence[Sample]:
        return _images(*self.cases, dy=lambda x, a: self.pooled(x, self.complete(a)).dims)


_OUTPUT_SIZE = {"output_size": attr.pair(1, attr.MOST_COUNTED)}
_MAX_CASES: Cases = (
    ((1, 2, 6, 7), {"kernel": (2, 2), "stride": (2, 2)}),
    ((2, 1, 7, 6), {"kernel": (3, 2), "stride": (2, 1), "pads": (1, 0, 1, 1)}),
    ((1, 1, 7, 9), {"kernel": (3, 3), "stride": (2, 2), "ceil_mode": True}),
    ((1, 1, 7, 9), {"kernel": (2, 3), "dilation": (3, 2)}),
    ((1, 1, 1, 1), {"kernel": (1, 1)}), ((0, 2, 4, 4), {"kernel": (2, 2)}),
)
_ADAPTIVE_CASES: Cases = (
    ((1, 2, 5, 7), {"output_size": (3, 2)}), ((2, 1, 4, 4), {"output_size": (1, 1)}),
    ((1, 1, 2, 3), {"output_size": (4, 3)}), ((0, 1, 2, 2), {"output_size": (1, 2)}),
)


class MaxPool2d(_Max, _Sliding):
    """Maxima of sliding windows. Source: `mindspore.ops.max_pool2d`.

    Attributes:
        kernel, stride, dilation: (rows, columns).
        pads: elements added at the top, bottom, left and right; they never win.
        ceil_mode: a last window may reach beyond the padded image.
        indices: also give the flat position of each maximum in its plane (int64).
    """

    name = "max_pool2d"
    batch_axis = _batch_axis.image
    attrs = {**SLIDING, "dilation": attr.pair(1, attr.MOST_COUNTED, default=(1, 1)),
             "indices": attr.flag(False)}

    def samples(self) -> Sequence[Sample]:
        saved = ((1, 2, 5, 20), {"kernel": (2, 2), "stride": (2, 2), "indices": True})
        return _images(*_MAX_CASES, saved)


define((_MaxBackward, _Sliding), "max_pool2d_backward",
       """The gradient of `max_pool2d` in its input: each dy goes to the maximum of its window.

    Attributes:
        kernel, stride, pads, dilation, ceil_mode: as in `max_pool2d`.
    """, forward="max_pool2d", cases=_MAX_CASES,
       attrs={**SLIDING, "dilation": attr.pair(1, attr.MOST_COUNTED, default=(1, 1))})


class AdaptiveMaxPool2d(_Max, _Adaptive):
    """Maxima of windows that divide the image evenly. Source: `mindspore.ops.adaptive_max_pool2d`.

    Attributes:
        output_size: rows and columns of the result.
        indices: also give the flat position of each maximum in its plane (int64).
    """

    name = "adaptive_max_pool2d"
    batch_axis = _batch_axis.image
    attrs = {**_OUTPUT_SIZE, "indices": attr.flag(False)}

    def samples(self) -> Sequence[Sample]:
        return _images(*_ADAPTIVE_CASES, ((1, 2, 5, 7), {"output_size": (2, 3), "indices": True}))


define((_MaxBackward, _Adaptive), "adaptive_max_pool2d_backward",
       """The gradient of `adaptive_max_pool2d` in its input.

    Attributes:
        output_size: rows and columns of dy.
    """, forward="adaptive_max_pool2d", attrs=_OUTPUT_SIZE, cases=_ADAPTIVE_CASES)


# --- average ---------------------------------------------------------------------------------


class _Average(_Pool):
    """Base of the average pools and their adjoints."""

    tolerance = 16.0
    sums = True

    def check_divisor(self, attrs: Attrs) -> None:
        """Raises ValueError for a divisor of 0."""
        if attrs.get("divisor") == 0:
            raise ValueError(f"{self.name}: the divisor must not be 0")

    def divisors(self, hw: Pair, attrs: Attrs) -> Array:
        """Return the divisor of each window's sum: (rows, columns)."""
        rows, columns = self.windows(hw, attrs)
        return np.outer([len(w) for w in rows], [len(w) for w in columns])


class _SlidingAverage(_Average, _Sliding):
    def divisors(self, hw: Pair, attrs: Attrs) -> Array:
        if attrs["divisor"] is not None:
            return np.array(attrs["divisor"])
        if not attrs["count_include_pad"]:
            return super().divisors(hw, attrs)
        top, bottom, left, right = attrs["pads"]
        counts = [sliding_windows(hw[k], attrs["kernel"][k], attrs["stride"][k], 1, side,
                           attrs["ceil_mode"])[1]
                  for k, side in enumerate(((top, bottom), (left, right)))]
        return np.outer(counts[0], counts[1])


class _AvgForward(_Average):
    """Base of the average pools."""

    batch_axis = _batch_axis.image

    def _is_pool_of_parts(self, node: Node, parts: Mapping[int, int]) -> bool:
        # A single window is summed as a reduction of its plane is, several are row by row.
        windows = prod(node.result.type.dims[2:])
        return super()._is_pool_of_parts(node, parts) and (
            windows == 1 or windows > parts.get(2, 1) * parts.get(3, 1))

    def infer(self, x: TensorType, **attrs: Any) -> TensorType:
        out = self.pooled(x, attrs)
        self.check_divisor(attrs)
        return out

    def reference(self, x: Array, **attrs: Any) -> Array:
        hw = x.shape[2:]
        return _avg_reference(x, *self.windows(hw, attrs), self.divisors(hw, attrs))

    def gradient(self, b: Builder, node: Node, dys: Grads) -> Grads:
        size = node.operands[0].shape[2:]
        return [b.emit(f"{self.name}_backward", dys[0], size=size, **node.attrs)]

    def samples(self) -> Sequence[Sample]:
        return tuple(Sample((Spec(shape),), attrs) for shape, attrs in self.cases)


class _AvgBackward(_Average):
    """Base of the adjoints of the average pools."""

    operands = ("dy",)
    sides = ("pooled", "image")
    forward: str

    def infer(self, dy: TensorType, *, size: Pair, **attrs: Any) -> TensorType:
        _check_image(self.name, dy)
        x = dy.with_shape((*dy.shape[:2], *size))
        want = self.pooled(x, attrs)
        if dy != want:
            raise ValueError(f"{self.name} to size {tuple(size)} needs dy {want}, got {dy}")
        self.check_divisor(attrs)
        return x

    def reference(self, dy: Array, *, size: Pair, **attrs: Any) -> Array:
        windows = self.windows(size, attrs)
        return _avg_backward_reference(dy, size, *windows, self.divisors(size, attrs))

    def gradient(self, b: Builder, node: Node, dys: Grads) -> Grads:
        attrs = {k: v for k, v in node.attrs.items() if k != "size"}
        return [b.emit(self.forward, dys[0], **attrs)]

    def samples(self) -> Sequence[Sample]:
        out = []
        for shape, given in self.cases:
            attrs = {**given, "size": shape[2:]}
            dy = self.pooled(TensorType(shape, dtypes.float32), self.complete(attrs))
            out.append(Sample((Spec(dy.dims),), attrs))
        return tuple(out)


AVERAGE = {**SLIDING, "count_include_pad": attr.flag(True), "divisor": attr.optional(attr.whole())}
_AVG_CASES: Cases = (
    ((1, 2, 6, 7), {"kernel": (2, 2), "stride": (2, 2)}),
    ((2, 1, 7, 6), {"kernel": (3, 2), "stride": (2, 1), "pads": (1, 0, 1, 1)}),
    ((1, 1, 7, 20), {"kernel": (3, 3), "stride": (2, 2), "pads": (1, 1, 1, 1),
                     "ceil_mode": True, "count_include_pad": False}),
    ((1, 1, 4, 4), {"kernel": (3, 3), "stride": (2, 2), "pads": (1, 1, 1, 1),
                    "ceil_mode": True}),
    ((1, 1, 5, 5), {"kernel": (3, 3), "divisor": 5}), ((1, 3, 4, 5), {"kernel": (4, 5)}),
    ((0, 1, 3, 3), {"kernel": (2, 2)}),
)
define((_AvgForward, _SlidingAverage), "avg_pool2d",
       """Means of sliding windows. Source: `mindspore.ops.avg_pool2d`.

    Attributes:
        kernel, stride: (rows, columns).
        pads: zeros added at the top, bottom, left and right.
        ceil_mode: a last window may reach beyond the padded image.
        count_include_pad: padding counts in the divisor (what ceil_mode adds does not).
        divisor: divide every sum by this instead.
    """, attrs=AVERAGE, cases=_AVG_CASES)
define((_AvgBackward, _SlidingAverage), "avg_pool2d_backward", """The adjoint of `avg_pool2d`.

    Attributes:
        size: rows and columns of the result.
        kernel, stride, pads, ceil_mode, count_include_pad, divisor: as in `avg_pool2d`.
    """, forward="avg_pool2d", attrs={"size": attr.pair(), **AVERAGE}, cases=_AVG_CASES)
define((_AvgBackward, _Adaptive), "adaptive_avg_pool2d_backward",
       """The adjoint of `adaptive_avg_pool2d`.

    Attributes:
        size: rows and columns of the result.
        output_size: rows and columns of dy.
    """, forward="adaptive_avg_pool2d", attrs={"size": attr.pair(), **_OUTPUT_SIZE},
       cases=_ADAPTIVE_CASES)


class AdaptiveAvgPool2d(_AvgForward, _Adaptive):
    """Means of windows that divide the image evenly. Source: `mindspore.ops.adaptive_avg_pool2d`.

    Attributes:
        output_size: rows and columns of the result.
    """

    name = "adaptive_avg_pool2d"
    attrs = _OUTPUT_SIZE
    cases = _ADAPTIVE_CASES
