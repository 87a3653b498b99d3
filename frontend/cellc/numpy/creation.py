"""Arrays made from numbers: filled, counted, spaced, drawn, windows, grids and index sets.

Source: the same names in `mindspore.numpy`.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from cellc_compiler.ir.dims import is_symbolic
from cellc_runtime.dtypes import DType, float32, int32

from ..core.declared import misuse
from ..core.dispatch import apply
from ..ops.arguments import Ints, axis_of, integer, shape_of
from ..ops.functional import arith, creation, draws, grid, joining, shapes
from ..tensors.promotion import cast_to, inexact
from ..tensors.tensor import Tensor
from ._tensors import as_tensor, finished, from_array, repeated, rows, to_dtype

_range = builtins.range


def array(obj: Any, dtype: Any = None, copy: bool = True, ndmin: int = 0) -> Tensor:
    """A tensor of a number, a list or a tensor, with at least `ndmin` axes."""
    x = finished(as_tensor(obj, "array", "obj"), dtype, "array")
    if ndmin > x.ndim:
        return shapes.reshape(x, (1,) * (ndmin - x.ndim) + x.shape)
    return x.copy() if copy and x is obj else x


def asfarray(a: Any, dtype: Any = float32) -> Tensor:
    """A tensor of floats; float32 for None and types that are no float."""
    to = float32 if dtype is None else to_dtype(dtype, "asfarray")
    return cast_to(as_tensor(a, "asfarray", "a"), to if to.is_float else float32)


def copy(a: Any) -> Tensor:
    """A tensor of the same elements."""
    out: Tensor = as_tensor(a, "copy", "a").copy()
    return out


def _shape(shape: Any, what: str) -> Ints:
    return shape_of(shape, f"numpy.{what}")


def ones(shape: Any, dtype: Any = float32) -> Tensor:
    """A tensor of ones."""
    return creation.ones(_shape(shape, "ones"), to_dtype(dtype, "ones"))


def full(shape: Any, fill_value: Any, dtype: Any = None) -> Tensor:
    """A tensor filled with a number or a broadcast array."""
    x = finished(as_tensor(fill_value, "full", "fill_value"), dtype, "full")
    return shapes.broadcast_to(x, _shape(shape, "full"))


def _like(a: Any, value: Any, dtype: Any, shape: Any, what: str) -> Tensor:
    x = as_tensor(a, what, "a")
    to = x.dtype if dtype is None else to_dtype(dtype, what)
    dims = x.shape if shape is None else _shape(shape, what)
    return full(dims, value, to)


def arange(start: Any, stop: Any = None, step: Any = None, dtype: Any = None) -> Tensor:
    """start, start + step, ... before stop: int32 of ints, float32 of floats."""
    if stop is None:
        start, stop = 0, start
    step = 1 if step is None else step
    given = (start, stop, step)
    if dtype is not None:
        to = to_dtype(dtype, "arange")
    else:
        whole = builtins.all(isinstance(v, (int, np.integer)) or is_symbolic(v) for v in given)
        to = int32 if whole else float32
    if not is_symbolic(start) and not is_symbolic(stop) and step and (stop - start) / step < 0:
        return creation.zeros((0,), to)
    return creation.arange(start, stop, step, dtype=to)


def linspace(
    start: Any, stop: Any, num: int = 50, endpoint: bool = True, retstep: bool = False,
    dtype: Any = None, axis: int = 0,
) -> Any:
    """`num` evenly spaced numbers from start to stop, in float32 unless `dtype` says otherwise.

    Args:
        endpoint: whether stop is the last number.
        retstep: also return the distance of neighbours.
        axis: where the new axis goes if start and stop are arrays.
    """
    n = integer(num, "numpy.linspace", "num")
    if n < 0:
        raise misuse("numpy.linspace", "'num' must not be negative", n)
    parts = builtins.max(n - 1 if endpoint else n, 1)
    if isinstance(start, (int, float)) and isinstance(stop, (int, float)):
        grid = from_array(np.linspace(start, stop, n, endpoint), float32)
        step: Tensor = from_array(np.float64(stop - start) / parts, float32)
        out = grid
    else:
        a, z = (inexact(as_tensor(v, "linspace")) for v in (start, stop))
        step = (z - a) / float(parts)
        a, step = shapes.broadcast_tensors(a, step)
        place = axis_of(axis, a.ndim + 1, "numpy.linspace")
        counts = shapes.reshape(creation.arange(n, dtype=float32), (-1,) + (1,) * (a.ndim - place))
        out = shapes.expand_dims(a, place) + counts * shapes.expand_dims(step, place)
    out = finished(out, dtype, "linspace")
    return (out, step) if retstep else out


def logspace(
    start: Any, stop: Any, num: int = 50, endpoint: bool = True, base: Any = 10.0,
    dtype: Any = None, axis: int = 0,
) -> Tensor:
    """base to the power of evenly spaced numbers."""
    powers = linspace(start, stop, num, endpoint, axis=axis)
    return finished(arith.pow(as_tensor(float(base), "logspace"), powers), dtype, "logspace")


def geomspace(
    start: Any, stop: Any, num: int = 50, endpoint: bool = True, dtype: Any = None, axis: int = 0
) -> Tensor:
    """Numbers of even ratio from start to stop."""
    n = integer(num, "numpy.geomspace", "num")
    if isinstance(start, (int, float)) and isinstance(stop, (int, float)):
        return finished(from_array(np.geomspace(start, stop, n, endpoint), float32), dtype,
                        "geomspace")
    a, z = (inexact(as_tensor(v, "geomspace")) for v in (start, stop))
    logs = linspace(creation.zeros_like(a), apply("log", z / a), n, endpoint, axis=axis)
    place = axis_of(axis, logs.ndim, "numpy.geomspace")
    return finished(shapes.expand_dims(a, place) * apply("exp", logs), dtype, "geomspace")


def eye(N: int, M: int | None = None, k: int = 0, dtype: Any = float32) -> Tensor:
    """Ones on the k-th diagonal of an N by M matrix."""
    to = to_dtype(dtype, "eye")
    if k == 0:
        return creation.eye(N, M, to)
    return from_array(np.eye(N, M, k), to)


# --- windows --------------------------------------------------------------------------------------


def _window(values: Callable[[int], Any], M: int) -> Tensor:
    return from_array(values(integer(M, f"numpy.{values.__name__}", "M")), float32)


# --- grids and sets of indices --------------------------------------------------------------------


def meshgrid(*xi: Any, sparse: bool = False, indexing: str = "xy") -> tuple[Tensor, ...]:
    """Coordinates of a grid over vectors.

    Args:
        sparse: leave axes of length 1 where nothing varies.
        indexing: `"xy"` (the first vector along columns) or `"ij"`.
    """
    xs = [shapes.ravel(as_tensor(x, "meshgrid")) for x in xi]
    if indexing not in ("xy", "ij"):
        raise misuse("numpy.meshgrid", "'indexing' must be 'xy' or 'ij'", repr(indexing))
    lines, shape = grid.grid_lines(xs, indexing)
    return lines if sparse else tuple(repeated(x, shape) for x in lines)


class _Grid:
    """`mgrid[...]` and `ogrid[...]`: coordinates written as slices."""

    def __init__(self, dense: bool) -> None:
        self.dense = dense

    def __getitem__(self, keys: Any) -> Any:
        """One vector for each slice; a step like `5j` is a number of points."""
        single = not isinstance(keys, tuple)
        vectors = [_make_spaced(k) for k in ((keys,) if single else keys)]
        if single:
            return vectors[0]
        whole = builtins.all(v.dtype is int32 for v in vectors)
        vectors = [v if whole else cast_to(v, float32) for v in vectors]
        made = meshgrid(*vectors, sparse=not self.dense, indexing="ij")
        return joining.stack(list(made)) if self.dense else made


def _make_spaced(key: slice) -> Tensor:
    if not isinstance(key, slice) or key.stop is None:
        raise TypeError(f"'numpy.mgrid' and 'ogrid' are indexed by slices, but got {key!r}.")
    start = 0 if key.start is None else key.start
    if isinstance(key.step, complex):
        points: Tensor = linspace(start, key.stop, int(abs(key.step)))
        return points
    return arange(start, key.stop, key.step)


mgrid = _Grid(dense=True)
ogrid = _Grid(dense=False)


def indices(dimensions: Any, dtype: Any = int32, sparse: bool = False) -> list[Tensor]:
    """Coordinates of each place of a shape, along each axis."""
    to = to_dtype(dtype, "indices")
    vectors = [arange(d, dtype=to) for d in _shape(dimensions, "indices")]
    made = meshgrid(*vectors, sparse=sparse, indexing="ij")
    return list(made)


def ix_(*args: Any) -> tuple[Tensor, ...]:
    """Vectors shaped to index a sub-grid."""
    for x in args:
        if not isinstance(x, Tensor):
            raise misuse("numpy.ix_", "arguments must be Tensors", type(x).__name__, TypeError)
        if x.ndim != 1:
            raise misuse("numpy.ix_", "arguments must be vectors", x.shape)
    return meshgrid(*args, sparse=True, indexing="ij")


def _pairs(found: Any) -> tuple[Tensor, ...]:
    return tuple(from_array(a, int32) for a in found)


def tril_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Tensor, ...]:
    """Rows and columns of a lower triangle."""
    return _pairs(np.tril_indices(n, k, m))


def triu_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Tensor, ...]:
    """Rows and columns of an upper triangle."""
    return _pairs(np.triu_indices(n, k, m))


def _matrix_sizes(arr: Any, what: str) -> Ints:
    x = as_tensor(arr, what, "arr")
    if x.ndim != 2:
        raise ValueError(f"For 'numpy.{what}', 'arr' must be a matrix, but got shape {x.shape}.")
    return x.shape


def tril_indices_from(arr: Any, k: int = 0) -> tuple[Tensor, ...]:
    """`tril_indices` for a matrix."""
    rows, columns = _matrix_sizes(arr, "tril_indices_from")
    return tril_indices(rows, k, columns)


def triu_indices_from(arr: Any, k: int = 0) -> tuple[Tensor, ...]:
    """`triu_indices` for a matrix."""
    rows, columns = _matrix_sizes(arr, "triu_indices_from")
    return triu_indices(rows, k, columns)


def vander(x: Any, N: int | None = None, increasing: bool = False) -> Tensor:
    """Columns of powers of x, falling unless `increasing`."""
    v = as_tensor(x, "vander")
    if v.ndim != 1:
        raise misuse("numpy.vander", "'x' must be a vector", f"shape {v.shape}")
    count = v.shape[0] if N is None else integer(N, "numpy.vander", "N")
    order = _range(count) if increasing else _range(count - 1, -1, -1)
    columns: list[Tensor] = []
    power = creation.ones_like(v)
    for _ in _range(count):
        columns.append(power)
        power = power * v
    return joining.stack([columns[i] for i in order], 1)


# --- random ---------------------------------------------------------------------------------------


def _sizes(shape: tuple[Any, ...], what: str) -> Ints:
    return _shape(shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape,
                  what)


def _drawn_as(dtype: Any, what: str) -> DType:
    to = to_dtype(dtype, what)
    if not to.is_float:
        raise ValueError(f"For 'numpy.{what}', 'dtype' must be a float type, but got {to}.")
    return to


def randint(minval: int, maxval: int | None = None, shape: Any = None, dtype: Any = int32
            ) -> Tensor:
    """Uniform ints in [minval, maxval), or [0, minval) without maxval."""
    low, high = (0, minval) if maxval is None else (minval, maxval)
    to = to_dtype(dtype, "randint")
    if not to.is_integer:
        raise misuse("numpy.randint", "'dtype' must be an integer type", to)
    return draws.randint(low, high, () if shape is None else _shape(shape, "randint"), dtype=to)


# --- padding --------------------------------------------------------------------------------------


def pad(
    arr: Any, pad_width: Any, mode: Any = "constant", stat_length: Any = None,
    constant_values: Any = 0, end_values: Any = 0, reflect_type: str = "even",
) -> Tensor:
    """Elements added at the ends of axes.

    Args:
        pad_width: an int, (before, after), or one such pair for each axis.
        mode: "constant", "edge", "empty", "linear_ramp", "maximum", "mean", "minimum", "reflect",
            "symmetric" or "wrap".
        stat_length: how many elements at each end the statistics read (all if None).
        constant_values: the numbers of "constant", given as `pad_width` is.
        end_values: the last numbers of "linear_ramp".
        reflect_type: "even", or "odd" for twice the edge minus the mirrored elements.
    """
    x = as_tensor(arr, "pad", "arr")
    widths = _per_axis(pad_width, x.ndim, "pad_width")
    if builtins.any(w < 0 for pair in widths for w in pair):
        raise misuse("numpy.pad", "'pad_width' must not be negative", pad_width)
    fills = _per_axis(constant_values if mode == "constant" else end_values, x.ndim, "values")
    lengths = [(None, None)] * x.ndim if stat_length is None else \
        _per_axis(stat_length, x.ndim, "stat_length")
    for axis, (before, after) in enumerate(widths):
        if mode in ("edge", "reflect", "symmetric", "wrap"):
            x = _mirror(x, axis, before, after, mode, reflect_type)
        else:
            ends = [_end(x, axis, n, i, mode, fills[axis][i], lengths[axis][i])
                    for i, n in enumerate((before, after))]
            x = joining.concat([ends[0], x, ends[1]], axis) if before or after else x
    return x


def _per_axis(given: Any, rank: int, name: str) -> list[Any]:
    """One pair for each axis of what may be a number, a pair, or pairs."""
    if isinstance(given, Tensor):
        given = given.tolist()
    if not isinstance(given, (list, tuple)):
        return [(given, given)] * rank
    pairs = [tuple(p) if isinstance(p, (list, tuple)) else p for p in given]
    if not isinstance(pairs[0], tuple):
        pairs = [tuple(pairs)]
    pairs = [p * 2 if len(p) == 1 else p for p in pairs] * (rank if len(pairs) == 1 else 1)
    if len(pairs) != rank or builtins.any(len(p) != 2 for p in pairs):
        raise misuse("numpy.pad", f"'{name}' must be a number, a pair, or {rank} pairs", given)
    return pairs


def _mirror(x: Tensor, axis: int, before: int, after: int, mode: str, kind: str) -> Tensor:
    n = x.shape[axis]
    where = np.pad(np.arange(n), (before, after), mode)  # type: ignore[call-overload]  # checked
    out: Tensor = apply("gather", x, from_array(where, int32), axis=axis)
    if kind == "even" or mode not in ("reflect", "symmetric"):
        return out
    if builtins.max(before, after) > n - (mode == "reflect"):
        raise misuse("numpy.pad", "an odd reflection must not be longer than the axis")
    first, last = joining.part(x, axis, 0, 1), joining.part(x, axis, n - 1, n)
    head = first * 2 - joining.part(out, axis, 0, before)
    tail = last * 2 - joining.part(out, axis, before + n, before + n + after)
    return joining.concat([head, x, tail], axis)


def _end(x: Tensor, axis: int, count: int, side: int, mode: Any, value: Any, length: Any) -> Tensor:
    """Return the padding at one end (side 0 or 1) of an axis."""
    n = x.shape[axis]
    shape = tuple(count if i == axis else d for i, d in enumerate(x.shape))
    if mode in ("constant", "empty"):
        return creation.full(shape, value if mode == "constant" else 0, dtype=x.dtype)
    if mode == "linear_ramp":
        edge = joining.part(x, axis, n - 1 if side else 0, n if side else 1)
        ticks = np.arange(count) if side == 0 else np.arange(1, count + 1)
        places = tuple(-1 if i == axis else 1 for i in _range(x.ndim))
        steps = shapes.reshape(from_array(ticks / builtins.max(count, 1), float32), places)
        start = inexact(edge)
        ramp = arith.mul(1.0 - steps, value) + start * steps if not side else start + \
            (float(value) - start) * steps
        return cast_to(ramp, x.dtype)
    take = n if length is None else builtins.min(int(length), n)
    span = joining.part(x, axis, n - take, n) if side else joining.part(x, axis, 0, take)
    statistic = _STATISTICS.get(mode)
    if statistic is None:
        raise misuse("numpy.pad", f"'mode' {mode!r} is not known")
    return shapes.broadcast_to(statistic(span, axis), shape)


def _mean(x: Tensor, axis: int) -> Tensor:
    total = apply("reduce_mean", inexact(x), axes=(axis,), keepdims=True)
    return cast_to(total if x.dtype.is_inexact else arith.round(total), x.dtype)


_STATISTICS = {
    "maximum": lambda x, a: apply("reduce_max", x, axes=(a,), keepdims=True),
    "minimum": lambda x, a: apply("reduce_min", x, axes=(a,), keepdims=True),
    "mean": _mean,
}

pi, inf, nan = math.pi, math.inf, math.nan
PINF, NINF = math.inf, -math.inf


ROWS = rows({
    "asarray": ("A tensor of a number, a list or a tensor.",
        lambda a, dtype=None: finished(as_tensor(a, "asarray", "a"), dtype, "asarray")),
    "bartlett": ("The Bartlett window (a triangle).", lambda M: _window(np.bartlett, M)),
    "blackman": ("The Blackman window.", lambda M: _window(np.blackman, M)),
    "diag_indices": ("Positions of the main diagonal.",
        lambda n, ndim=2: (arange(integer(n, "numpy.diag_indices", "n")),) * ndim),
    "empty": ("A tensor whose elements do not matter (zeros).", lambda shape, dtype=float32:
        creation.zeros(_shape(shape, "empty"), to_dtype(dtype, "empty"))),
    "empty_like": ("The shape and type of `prototype`, zeros.",
        lambda prototype, dtype=None, shape=None: _like(prototype, 0, dtype, shape, "empty_like")),
    "full_like": ("A number in the shape and type of `a`.",
        lambda a, fill_value, dtype=None, shape=None:
        _like(a, fill_value, dtype, shape, "full_like")),
    "hamming": ("The Hamming window.", lambda M: _window(np.hamming, M)),
    "hanning": ("The Hann window.", lambda M: _window(np.hanning, M)),
    "identity": ("The n by n matrix of ones on the diagonal.",
        lambda n, dtype=float32: eye(n, n, 0, dtype)),
    "ones_like": ("Ones in the shape and type of `a`.",
        lambda a, dtype=None, shape=None: _like(a, 1, dtype, shape, "ones_like")),
    "rand": ("Uniform numbers in [0, 1).", lambda *shape, dtype=float32:
        draws.rand(_sizes(shape, "rand"), dtype=_drawn_as(dtype, "rand"))),
    "randn": ("Standard normal numbers.", lambda *shape, dtype=float32:
        draws.randn(_sizes(shape, "randn"), dtype=_drawn_as(dtype, "randn"))),
    "tri": ("Ones at and below the k-th diagonal.", lambda N, M=None, k=0, dtype=float32:
        grid.tril(ones((N, N if M is None else M), dtype), k)),
    "zeros": ("A tensor of zeros.", lambda shape, dtype=float32:
        creation.zeros(_shape(shape, "zeros"), to_dtype(dtype, "zeros"))),
    "zeros_like": ("Zeros in the shape and type of `a`.",
        lambda a, dtype=None, shape=None: _like(a, 0, dtype, shape, "zeros_like")),
})
"""Functions of one call, by name."""
globals().update(ROWS)

__all__ = [
    "NINF", "PINF", "arange", "array", "asfarray", "copy", "eye", "full", "geomspace", "indices",
    "inf", "ix_", "linspace", "logspace", "meshgrid", "mgrid", "nan", "ogrid", "ones", "pad", "pi",
    "randint", "tril_indices", "tril_indices_from", "triu_indices", "triu_indices_from", "vander",
]
__all__ += sorted(ROWS)
