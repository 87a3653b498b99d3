"""Diagonals and bands of matrices, mirrored borders, and columns put back into images.

Source: the same names in `mindspore.ops`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.declared import misuse
from ...core.dispatch import apply
from ...core.native import native
from ...tensors.promotion import cast_to
from ...tensors.tensor import Tensor, tensor_of
from ..arguments import Ints, choice, integer, is_int, need_known, positive, repeated, tensor
from ..operands import operands_of
from . import arith, grid, linalg, shapes, window

_ALIGN = ("LEFT_RIGHT", "RIGHT_LEFT", "LEFT_LEFT", "RIGHT_RIGHT")

# --- bands ----------------------------------------------------------------------------------------


def _known_ints(x: Any, what: str, name: str) -> Any:
    """An int or several from a number, a sequence or a Tensor of known elements."""
    if isinstance(x, Tensor):
        x = need_known(x, what).tolist()
    if isinstance(x, (list, tuple)):
        values = [integer(v, what, name) for v in x]
        return values[0] if len(values) == 1 else tuple(values)
    return integer(x, what, name)


def _band(k: Any, what: str) -> tuple[int, int]:
    """The lowest and the highest diagonal."""
    given = _known_ints(k, what, "k")
    low, high = (given, given) if is_int(given) else given if len(given) == 2 else (1, 0)
    if low > high:
        raise misuse(what, "'k' must be an int or two in ascending order", k)
    return low, high


def _places(rows: int, cols: int, low: int, high: int, align: str) -> tuple[Any, Any, int]:
    """For each element of a band, as rows of diagonals from the highest to the lowest: its place.

    Returns:
        Flat positions in (rows, cols) and whether there is one, both (diagonals, longest); the
        length of the longest.
    """
    length = {d: max(0, min(rows + min(d, 0), cols - max(d, 0))) for d in range(low, high + 1)}
    longest = max(length.values())
    at = np.zeros((high - low + 1, longest), np.int64)
    there = np.zeros(at.shape, bool)
    above, below = align.split("_")
    for i, d in enumerate(range(high, low - 1, -1)):
        side = above if d >= 0 else below
        first = longest - length[d] if side == "RIGHT" else 0
        j = np.arange(length[d])
        at[i, first : first + length[d]] = (j + max(0, -d)) * cols + j + max(0, d)
        there[i, first : first + length[d]] = True
    return at, there, longest


def _gather_or_pad(x: Tensor, at: Any, there: Any, padding: Any) -> Tensor:
    """Elements of the last axis at positions of any shape; `padding` where there is none."""
    index = tensor_of(np.ascontiguousarray(at, np.int64))
    found: Tensor = apply("gather", x, index, axis=x.ndim - 1)
    if bool(np.all(there)):
        return found
    fill = cast_to(padding, x.dtype) if isinstance(padding, Tensor) else padding
    return arith.where(tensor_of(np.asarray(there)), found, fill)


def _pad_value(value: Any, x: Tensor, what: str) -> Any:
    if isinstance(value, Tensor):
        if value.size != 1:
            raise misuse(what, f"'padding_value' must be one number, but has shape {value.shape}")
        return cast_to(shapes.reshape(value, ()), x.dtype)
    return value


def matrix_diag(
    x: Tensor, k: Any = 0, num_rows: Any = -1, num_cols: Any = -1, padding_value: Any = 0,
    align: str = "RIGHT_LEFT",
) -> Tensor:
    """Matrices with a band of diagonals given, `padding_value` elsewhere.

    Args:
        x: (..., n) for one diagonal, (..., diagonals, longest) from the highest to the lowest.
        k: the diagonal (0 the main one, above it positive), or the lowest and the highest.
        num_rows, num_cols: of the matrices; -1 means as few as the band needs (square if both).
        align: on which side shorter diagonals above and below the main one are filled up.
    """
    what = "matrix_diag"
    t = tensor(x, what, "x")
    low, high = _band(k, what)
    choice(align, _ALIGN, what, "align")
    several = high > low
    if t.ndim < 1 + several or (several and t.shape[-2] != high - low + 1):
        raise misuse(what, "'x' must have shape (..., "
                     f"{f'{high - low + 1}, ' if several else ''}length), but has shape {t.shape}")
    longest = t.shape[-1]
    least_rows, least_cols = longest - min(high, 0), longest + max(low, 0)
    rows, cols = _known_ints(num_rows, what, "num_rows"), _known_ints(num_cols, what, "num_cols")
    if rows == -1 and cols == -1:
        rows = cols = max(least_rows, least_cols)
    rows, cols = least_rows if rows == -1 else rows, least_cols if cols == -1 else cols
    at, there, fits = _places(rows, cols, low, high, align)
    if fits != longest:
        raise misuse(what, f"matrices of {rows} by {cols} do not have diagonals {low} to {high} of "
                     f"length {longest}")
    source, set_ = np.zeros(rows * cols, np.int64), np.zeros(rows * cols, bool)
    source[at[there]] = np.flatnonzero(there)
    set_[at[there]] = True
    flat = shapes.reshape(t, (*t.shape[: t.ndim - 1 - several], -1))
    return _gather_or_pad(flat, source.reshape(rows, cols), set_.reshape(rows, cols),
                          _pad_value(padding_value, t, what))


def _matrices(x: Any, what: str) -> Tensor:
    return operands_of(what, "x (..., m, n)", x)[0]


def _inside(low: int, high: int, x: Tensor, what: str) -> None:
    rows, cols = x.shape[-2:]
    if not (-rows < low and high < cols) and not low == high == 0:
        raise misuse(what, f"'k' must be between {1 - rows} and {cols - 1} for matrices of shape "
                     f"{(rows, cols)}", f"{low} to {high}")


def matrix_diag_part(
    x: Tensor, k: Any = 0, padding_value: Any = 0, align: str = "RIGHT_LEFT"
) -> Tensor:
    """A band of diagonals of matrices, as `matrix_diag` takes it.

    Args:
        x: (..., rows, columns).
        k: the diagonal, or the lowest and the highest.
        padding_value: what fills shorter diagonals up.
        align: on which side those above and below the main one are filled up.
    """
    what = "matrix_diag_part"
    t = _matrices(x, what)
    low, high = _band(k, what)
    _inside(low, high, t, what)
    rows, cols = t.shape[-2:]
    at, there, _ = _places(rows, cols, low, high, choice(align, _ALIGN, what, "align"))
    flat = shapes.reshape(t, (*t.shape[:-2], -1))
    if low == high:
        at, there = at[0], there[0]
    return _gather_or_pad(flat, at, there, _pad_value(padding_value, t, what))


def matrix_set_diag(x: Tensor, diagonal: Tensor, k: Any = 0, align: str = "RIGHT_LEFT") -> Tensor:
    """Matrices with a band of diagonals replaced.

    Args:
        x: (..., rows, columns).
        diagonal: the band, as `matrix_diag_part` gives it.
        k, align: as there.
    """
    what = "matrix_set_diag"
    t, band = _matrices(x, what), tensor(diagonal, what, "diagonal")
    low, high = _band(k, what)
    _inside(low, high, t, what)
    rows, cols = t.shape[-2:]
    at, there, longest = _places(rows, cols, low, high, choice(align, _ALIGN, what, "align"))
    several = (high - low + 1,) if high > low else ()
    if band.shape != (*t.shape[:-2], *several, longest):
        raise misuse(what, f"'diagonal' must have shape {(*t.shape[:-2], *several, longest)}, but "
                     f"has shape {band.shape}")
    source, set_ = np.zeros(rows * cols, np.int64), np.zeros(rows * cols, bool)
    source[at[there]] = np.flatnonzero(there)
    set_[at[there]] = True
    flat = shapes.reshape(cast_to(band, t.dtype), (*t.shape[:-2], -1))
    new: Tensor = apply("gather", flat, tensor_of(source.reshape(rows, cols)), axis=flat.ndim - 1)
    return arith.where(tensor_of(set_.reshape(rows, cols)), new, t)


# --- borders and columns --------------------------------------------------------------------------


def mirror_pad(input_x: Tensor, paddings: Tensor, mode: str) -> Tensor:
    """A tensor with mirrored borders.

    Args:
        paddings: (axes, 2) known ints: elements added before and after each axis.
        mode: `"REFLECT"`, which does not repeat the border itself, or `"SYMMETRIC"`, which does.
    """
    what = "mirror_pad"
    t = tensor(input_x, what, "input_x")
    choice(mode, ("REFLECT", "SYMMETRIC"), what, "mode")
    counts = need_known(operands_of(what, f"paddings int ({t.ndim}, 2)", paddings)[0], what)
    own = 1 if mode == "REFLECT" else 0
    for axis, (before, after) in enumerate(counts.tolist()):
        d = t.shape[axis]
        if min(before, after) < 0 or max(before, after) > d - own:
            raise misuse(what, f"'paddings' of axis {axis} must be between 0 and {d - own}",
                         f"{before} and {after}")
        if before or after:
            at = np.arange(-before, d + after)
            at = np.where(at < 0, -at - 1 + own, at)
            at = np.where(at >= d, 2 * d - 1 - own - at, at)
            t = apply("gather", t, tensor_of(at.astype(np.int64)), axis=axis)
    return t


def col2im(
    input_x: Tensor, output_size: Any, kernel_size: Any, dilation: Any, padding_value: Any,
    stride: Any,
) -> Tensor:
    """Columns (N, C, kH * kW, positions) summed into an image (N, C, H, W): `fold`'s other form.

    Args:
        output_size: H and W.
        kernel_size, dilation, padding_value, stride: of the windows, rows and columns.
    """
    what = "col2im"
    t = tensor(input_x, what, "input_x")
    size = _known_ints(output_size, what, "output_size")
    sizes = (size, size) if is_int(size) else size
    kernel = positive(kernel_size, 2, what, "kernel_size")
    gaps, steps = positive(dilation, 2, what, "dilation"), positive(stride, 2, what, "stride")
    pads = repeated(padding_value, 2, what, "padding_value")
    if t.ndim != 4 or len(sizes) != 2 or min(pads) < 0:
        raise misuse(what, "a tensor of 4 axes, 2 sizes and padding of at least 0 are needed",
                     f"{t.shape}, {sizes} and {pads}")
    counts = [(d + 2 * p - g * (k - 1) - 1) // s + 1
              for d, p, g, k, s in zip(sizes, pads, gaps, kernel, steps, strict=True)]
    taps, positions = kernel[0] * kernel[1], counts[0] * counts[1]
    if min(counts) < 1 or t.shape[2:] != (taps, positions):
        raise misuse(what, f"windows of {kernel} over {sizes} give columns of shape "
                     f"{(taps, positions)}, but 'input_x' has shape {t.shape}")
    columns = shapes.reshape(t, (t.shape[0], t.shape[1] * taps, positions))
    return window.fold(columns, sizes, kernel, gaps, pads, steps)


def padding(x: Tensor, pad_dim_size: int = 8) -> Tensor:
    """x with zeros after its last axis, whose length must be 1, up to `pad_dim_size`: (..., 1)
    gives (..., pad_dim_size)."""
    t = tensor(x, "padding", "x")
    size = integer(pad_dim_size, "padding", "pad_dim_size")
    if t.ndim < 2 or t.shape[-1] != 1 or size < 1:
        raise misuse("padding", "'x' must have shape (..., 1) and 2 axes or more and "
                     "'pad_dim_size' be positive", f"{t.shape} and {size}")
    return shapes.pad(t, (0, size - 1))


def bidense(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """input1 @ weight[o] @ input2 + bias[o] for each o: (..., a), (..., b) to (..., o).

    Args:
        weight: (o, a, b).
        bias: (o).
    """
    what = "bidense"
    x, y, w = operands_of(
        what, "input1 (..., a), input2 (..., b), weight (o, a, b)", input1, input2, weight)
    lead: Ints = x.shape[:-1]
    rows = shapes.reshape(x, (-1, x.shape[-1]))
    left = linalg.matmul(rows, shapes.reshape(shapes.swapaxes(w, 0, 1), (x.shape[-1], -1)))
    left = shapes.reshape(left, (rows.shape[0], w.shape[0], y.shape[-1]))
    right = shapes.reshape(y, (rows.shape[0], y.shape[-1], 1))
    out = shapes.reshape(linalg.matmul(left, right), (*lead, w.shape[0]))
    return out if bias is None else out + tensor(bias, what, "bias")


@native
def matrix_band_part(x: Tensor, lower: Any, upper: Any) -> Tensor:
    """A band around the diagonal, zeros elsewhere.

    Args:
        lower: diagonals kept below the main one; negative keeps all.
        upper: diagonals kept above the main one; negative keeps all.
    """
    t = tensor(x, "matrix_band_part", "x")
    low, high = (integer(v, "matrix_band_part", "a bound") for v in (lower, upper))
    out = t if low < 0 else grid.triu(t, -low)
    return out if high < 0 else grid.tril(out, high)
