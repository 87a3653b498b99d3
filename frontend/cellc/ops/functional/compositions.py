"""Functions of the functional API that are short compositions of others, by family.

Source: the functions of the same names in `mindspore.ops`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from cellc_runtime.dtypes import float32, int32, int64

from ...core.declared import misuse
from ...core.dispatch import active_tracer, apply, apply_one
from ...tensors.index_runtime import found_size, traced
from ...tensors.promotion import cast_to, operands
from ...tensors.tensor import Tensor, tensor_of
from ...transforms.jacobian import jvp
from ..arguments import axis_of, boolean, choice, integer, need_known, number, ranked, tensor
from ..methods import overloaded
from . import arith, creation, fourier, indexing, joining, reductions, shapes, sorting, special

_BITS = {"float32": int32, "float64": int64}


def add_flags(fn: Any = None, **flags: Any) -> Any:
    """Mark a Cell or function with flags, which have no effect on functions.

    Args:
        fn: a Cell, whose `add_flags` is called, or a function; None gives a decorator.
        flags: by name.
    """
    if fn is not None and not callable(fn):
        raise misuse("add_flags", "'fn' must be a Cell or a function", type(fn).__name__, TypeError)

    def mark(target: Any) -> Any:
        if hasattr(target, "add_flags"):
            target.add_flags(**flags)
        else:
            target._func_graph_flags = {**getattr(target, "_func_graph_flags", {}), **flags}
        return target

    return mark if fn is None else mark(fn)


def core(fn: Any = None, **flags: Any) -> Any:
    """`add_flags` with the flag `core`."""
    return add_flags(fn, core=True, **flags)


def scalar_to_array(input_x: Any) -> Tensor:
    """A Python number as a float32 Tensor without axes, also of an int; `scalar_to_tensor` gives
    other types."""
    return creation.scalar_to_tensor(input_x)


def dyn_shape(input_x: Tensor) -> Tensor:
    """The shape as an int64 Tensor of one axis, where `ops.shape` gives a tuple of ints."""
    return tensor_of(np.array(tensor(input_x, "dyn_shape", "input_x").shape, np.int64))


def expand(input_x: Tensor, size: Any) -> Tensor:
    """`broadcast_to` of a size that may be a Tensor: axes of length 1 and new leading axes
    repeated, -1 keeps a length."""
    return shapes.broadcast_to(tensor(input_x, "expand", "input_x"), size)


def float_power_ext(input: Any, exponent: Any) -> Tensor:
    """input ** exponent in float64, elementwise, of real operands that broadcast: `float_power`
    without complex numbers, which raise a TypeError."""
    pair = (input, exponent)
    if not any(isinstance(v, Tensor) for v in pair):
        raise TypeError("For 'float_power_ext', one of 'input' and 'exponent' must be a Tensor.")
    if any(v.dtype.is_complex if isinstance(v, Tensor) else isinstance(v, complex) for v in pair):
        raise misuse("float_power_ext", "complex numbers are not supported", kind=TypeError)
    return special.float_power(input, exponent)


def soft_shrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """x - lambd where x > lambd, x + lambd where x < -lambd, else 0: elementwise, of the shape of
    the input. Floats only."""
    return apply_one("soft_shrink", tensor(input, "soft_shrink"),
                     lambd=float(number(lambd, "soft_shrink", "lambd")))


def tensor_muls(input: Tensor, other: Any) -> Tensor:
    """A Tensor times a number, elementwise: of the shape of the input, promoted to a float for a
    float."""
    return arith.mul(tensor(input, "tensor_muls"), other)


def move_to(input: Any, to: str = "CPU", blocking: bool = True) -> Tensor:
    """A copy on a device; see `Tensor.move_to`.

    Args:
        input: a Tensor, or a list or tuple of ints.
    """
    return overloaded.move_to(input if isinstance(input, Tensor) else Tensor(input), to, blocking)


def _make_in_place(name: str) -> Callable[..., Tensor]:
    """The method of Tensor that writes its result into the tensor, as a function."""
    def function(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        out: Tensor = getattr(tensor(input, name), name)(*args, **kwargs)
        return out

    function.__name__ = function.__qualname__ = name
    function.__doc__ = (
        f"Compute `Tensor.{name}` of `input` with the other arguments, write the result into "
        "`input`, and return `input` itself.")
    return function


zero_, tanh_, put_, uniform_, exponential_, bernoulli_ = map(
    _make_in_place, ("zero_", "tanh_", "put_", "uniform_", "exponential_", "bernoulli_"))
clamp_, erfinv_, normal_, random_ = map(_make_in_place, ("clamp_", "erfinv_", "normal_", "random_"))
inplace_sigmoid = _make_in_place("sigmoid_")


# --- numbers --------------------------------------------------------------------------------------


def nextafter(input: Tensor, other: Tensor) -> Tensor:
    """The next number that the type has, from `input` towards `other`.

    Args:
        input, other: float32 or float64 Tensors that broadcast.
    """
    x, y = operands("nextafter", tensor(input, "nextafter"), tensor(other, "nextafter", "other"))
    if x.dtype.name not in _BITS:
        raise misuse("nextafter", "float32 or float64 are needed", x.dtype, TypeError)
    kind = _BITS[x.dtype.name]
    x, y = shapes.broadcast_tensors(x, y)
    bits: Tensor = apply("bitcast", x, dtype=kind)
    away = (x < y) == (x > 0.0)  # the bits of a magnitude rise with it
    moved: Tensor = apply("bitcast", arith.where(away, bits + 1, bits - 1), dtype=x.dtype)
    least: Tensor = apply("bitcast", creation.full(x.shape, 1, dtype=kind), dtype=x.dtype)
    moved = arith.where(x == 0.0, arith.where(y > 0.0, least, -least), moved)
    none = arith.logical_or(arith.isnan(x), arith.isnan(y))
    return arith.where(none, x + y, arith.where(x == y, y, moved))


def i0(input: Tensor) -> Tensor:
    """The modified Bessel function of the first kind of order 0, elementwise: `bessel_i0` under its
    other name."""
    return apply_one("bessel_i0", tensor(input, "i0"))


# --- statistics and sets --------------------------------------------------------------------------


def nanmedian(input: Tensor, axis: int = -1, keepdims: bool = False) -> tuple[Tensor, Tensor]:
    """The lower median of the elements along an axis that are no NaNs, and its position (int64).

    Where all are NaN, NaN and the position 0.
    """
    x = tensor(input, "nanmedian")
    a = axis_of(axis, x.ndim, "nanmedian")
    if not x.ndim or not x.dtype.is_float:
        return sorting.median(x, axis, keepdims)
    missing = arith.isnan(x)
    order = cast_to(sorting.sort(arith.where(missing, math.inf, x), a)[1], int64)
    # A true infinity comes before the NaNs that look like one: those go last, in order.
    behind = indexing.gather_elements(cast_to(missing, int32), a, order)
    order = indexing.gather_elements(order, a, cast_to(sorting.sort(behind, a)[1], int64))
    count = arith.sub(x.shape[a], reductions.sum(cast_to(missing, int64), a, True))
    middle = arith.clamp((count - 1) // 2, 0, x.shape[a] - 1)
    place = indexing.gather_elements(order, a, middle)
    out = indexing.gather_elements(x, a, place), place
    return out if keepdims else (shapes.squeeze(out[0], a), shapes.squeeze(out[1], a))


def unique_with_pad(x: Tensor, pad_num: Any) -> tuple[Tensor, Tensor]:
    """Distinct elements by first occurrence, filled to the length of `x`; each element's position.

    Args:
        x: one axis.
        pad_num: what fills, a number.
    """
    what = "unique_with_pad"
    t = ranked(x, 1, 1, what, "x")
    n = t.shape[0]
    fill = pad_num if isinstance(pad_num, Tensor) else number(pad_num, what, "pad_num")
    places = creation.arange(n)
    same = shapes.reshape(t, (n, 1)) == shapes.reshape(t, (1, n))
    # The first place that holds the same; then how many firsts stand before it.
    first = reductions.amin(
        arith.where(same, shapes.reshape(places, (1, n)), n), 1) if n else places
    fresh = first == places
    rank = reductions.cumsum(cast_to(fresh, int64), 0) - 1
    index = indexing.gather(rank, first, 0) if n else places
    room = cast_to(creation.full((n + 1,), fill), t.dtype) if not isinstance(fill, Tensor) else \
        shapes.broadcast_to(cast_to(shapes.reshape(fill, (1,)), t.dtype), (n + 1,))
    at = arith.where(fresh, rank, n)
    filled = apply("scatter", room, at, t, axis=0) if n else room
    return joining.part(filled, 0, 0, n), cast_to(index, int64 if t.dtype is int64 else int32)


def segments(ids: Tensor, what: str) -> int:
    """How many segments ids name: one more than the last of them."""
    text = f"For '{what}', 'segment_ids' must ascend from 0 or more."
    if not traced(ids):
        known = need_known(ids, what)
        if known.size and (known[0] < 0 or (known[1:] < known[:-1]).any()):
            raise ValueError(f"{text[:-1]}, but are {known.tolist()}.")
        return int(known[-1]) + 1 if known.size else 0
    n, tracer = ids.shape[0], active_tracer()
    assert tracer is not None
    if n == 0:
        return 0
    steps = joining.part(ids, 0, 1, n) - joining.part(ids, 0, 0, n - 1)
    for never in (joining.part(ids, 0, 0, 1), *((steps,) if n > 1 else ())):
        tracer.check(never, "ValueError", (text,), low=0, high=1 << 62)
    return found_size(cast_to(joining.part(ids, 0, n - 1, n), int64) + 1, what)


def segment_mean(rows: Tensor, ids: Tensor, count: int) -> Tensor:
    """Means of rows by segments, 0 of those without rows."""
    total = indexing.unsorted_segment_sum(rows, ids, count)
    size = indexing.unsorted_segment_sum(creation.ones(ids.shape, rows.dtype), ids, count)
    share = shapes.reshape(arith.maximum(size, 1), (count,) + (1,) * (rows.ndim - 1))
    return cast_to(total / share, rows.dtype)


# --- signals --------------------------------------------------------------------------------------


def frames(x: Tensor, length: int, hop: int) -> Tensor:
    """The windows of `length` elements (batch, windows, length), `hop` elements apart."""
    count = 1 + (x.shape[-1] - length) // hop
    places = np.arange(length)[None] + hop * np.arange(count)[:, None]
    return apply_one("gather", x, tensor_of(places.astype(np.int64)), axis=1)


def stft(
    x: Tensor, n_fft: int, hop_length: int | None = None, win_length: int | None = None,
    window: Tensor | None = None, center: bool = True, pad_mode: str = "REFLECT",
    normalized: bool = False, onesided: bool | None = None, return_complex: bool | None = None,
) -> Tensor:
    """The short-time Fourier transform: `fft` of windows that overlap.

    Args:
        x: a signal, or a batch of them.
        n_fft: length of a transform.
        hop_length: from window to window; n_fft // 4 by default.
        win_length: of the window function; n_fft by default.
        window: the window function (win_length); ones by default.
        center: the signal is extended by n_fft // 2 on both sides, as `pad_mode` of `ops.pad` says.
        normalized: divide by sqrt(n_fft).
        onesided: n_fft // 2 + 1 frequencies, for real signals only (then the default).
        return_complex: complex results; else a last axis of 2 (the default for real signals).

    Returns:
        (batch, frequencies, windows), with a last axis of 2 if not complex.
    """
    what = "stft"
    signal, n = ranked(x, 1, 2, what, "x"), integer(n_fft, what, "n_fft")
    rows = shapes.expand_dims(signal, 0) if signal.ndim == 1 else signal
    if boolean(center, what, "center"):
        mode = choice(str(pad_mode).lower(), ("reflect", "constant", "replicate", "circular"),
                      what, "pad_mode")
        rows = shapes.pad(rows, (n // 2, n // 2), mode)
    hop = n // 4 if hop_length is None else integer(hop_length, what, "hop_length")
    size = n if win_length is None else integer(win_length, what, "win_length")
    if not (0 < n <= rows.shape[-1] and hop > 0 and 0 < size <= n):
        raise misuse(what, f"'n_fft' must be in [1, {rows.shape[-1]}], 'hop_length' above 0 and "
                     "'win_length' in [1, n_fft]", f"{n}, {hop} and {size}")
    taper = creation.ones((size,), float32) if window is None else tensor(window, what, "window")
    out = transformed(rows, taper, n, hop, size, normalized,
                      not signal.dtype.is_complex if onesided is None else onesided)
    shown = signal.dtype.is_complex if return_complex is None else return_complex
    out = out if shown else special.view_as_real(out)
    return shapes.squeeze(out, 0) if signal.ndim == 1 else out


def transformed(
    rows: Tensor, window: Tensor, n: int, hop: int, size: int, normalized: bool, onesided: bool
) -> Tensor:
    """Fourier transforms (batch, frequencies, windows) of windows of signals (batch, length)."""
    what = "stft"
    if window.shape != (size,):
        raise misuse(what, f"'window' must have shape ({size},), but has {window.shape}")
    if onesided and (rows.dtype.is_complex or window.dtype.is_complex):
        raise misuse(what, "'onesided' must be False for complex numbers")
    left = (n - size) // 2
    taper = shapes.pad(window, (left, n - size - left)) if size < n else window
    parts = frames(rows, n, hop) * taper
    norm = "ortho" if boolean(normalized, what, "normalized") else None
    out = fourier.rfft(parts, None, -1, norm) if onesided else fourier.fft(parts, None, -1, norm)
    return shapes.swapaxes(out, 1, 2)


def fft_with_size(
    x: Tensor, signal_ndim: int, inverse: bool, real: bool, norm: str = "backward",
    onesided: bool = True, signal_sizes: Any = (),
) -> Tensor:
    """Fourier transforms over the last 1 to 3 axes: `fftn`, `ifftn`, or `rfftn` and `irfftn`.

    Args:
        signal_ndim: how many axes.
        inverse: transform back.
        real: the signal is real.
        norm: as for `ops.fft`.
        onesided: of a real signal, half of the frequencies.
        signal_sizes: of the result of a real inverse; the last is 2 (n - 1) by default.
    """
    what = "FFTWithSize"
    t, k = tensor(x, what, "x"), integer(signal_ndim, what, "signal_ndim")
    if not 1 <= k <= min(3, t.ndim):
        raise misuse(what, f"'signal_ndim' must be in [1, {min(3, t.ndim)}]", k)
    choice(norm, ("backward", "forward", "ortho"), what, "norm")
    axes = tuple(range(-k, 0))
    if not real:
        return (fourier.ifftn if inverse else fourier.fftn)(t, None, axes, norm)
    if not inverse:
        return (fourier.rfftn if onesided else fourier.fftn)(t, None, axes, norm)
    sizes = tuple(signal_sizes) or None
    if onesided:
        return fourier.irfftn(t, sizes, axes, norm)
    return arith.real(fourier.ifftn(t, sizes, axes, norm))


# --- functions of functions -----------------------------------------------------------------------


def linearize(fn: Any, inputs: Any) -> tuple[Any, Callable[..., Any]]:
    """The outputs of a function, and a function that gives its derivative along a direction.

    Args:
        fn: a Cell or function of tensors that gives a Tensor or a tuple of them.
        inputs: a Tensor, or a tuple or list of them.

    Returns:
        `fn(*inputs)`, and `derivative(v)`, of a direction like `inputs`.
    """
    def given(values: Any) -> tuple[Any, ...]:
        return tuple(values) if isinstance(values, (tuple, list)) else (values,)

    def derivative(v: Any) -> Any:
        return jvp(fn, inputs, v)[1]

    return fn(*given(inputs)), derivative
