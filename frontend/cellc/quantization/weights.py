"""A matrix in few bits: how floats are rounded to it, and how it lies in memory for products."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from cellc_compiler.loops.order import SMALL_COLUMNS
from cellc_runtime import dtypes
from cellc_runtime.records import dataclass

from ..core.declared import misuse

Array = np.ndarray[Any, Any]
Kind = Literal["bfloat16", "float16", "int8", "int4"]
KINDS = ("bfloat16", "float16", "int8", "int4")
_RANGES = {("int8", True): (-127, 127), ("int8", False): (-128, 127),
           ("int4", True): (1, 15), ("int4", False): (0, 15)}
"""The ints that are used, by kind and whether they lie symmetric about zero."""
MIDDLE = {"int8": 0, "int4": 8}  # The int that stands for zero where no zeros are stored


@dataclass(frozen=True, slots=True)
class SmallWeight:
    """A matrix (n, k) in few bits. An int q stands for `(q - zero) * scale`.

    Attributes:
        kind: `"bfloat16"`, `"float16"`, `"int8"` or `"int4"`.
        values: the elements, an array (n, k) of 16-bit floats, int8, or uint8 below 16.
        scales: (n, groups), float16 or float32; None for floats.
        zeros: (n, groups), int8, uint8 or float32; None: 0 for int8, 8 for int4.
        group: steps of k that share a scale, a multiple of 32; 0: a row has one.
        order: the column of the input that each step of k reads; None: its own.
    """

    kind: Kind
    values: Array
    scales: Array | None = None
    zeros: Array | None = None
    group: int = 0
    order: Array | None = None

    def widened(self) -> Array:
        """The matrix in float32, its columns in the order of the input's."""
        wide = self.values.astype(np.float32)
        if self.scales is not None:
            zeros = np.full_like(self.scales, MIDDLE[self.kind]) if self.zeros is None \
                else self.zeros
            scale, zero = (np.repeat(a.astype(np.float32), self.group or wide.shape[1], 1)
                           [:, :wide.shape[1]] for a in (self.scales, zeros))
            wide = (wide - zero) * scale
        if self.order is not None:
            out = np.empty_like(wide)
            out[:, self.order] = wide
            return out
        return wide


def small_weight(
    array: Array, kind: Kind, group: int = 0, symmetric: bool = True, what: str = "quantize",
    name: str = "weight",
) -> SmallWeight:
    """A matrix of floats rounded to few bits.

    Args:
        array: (n, k).
        group: steps of k that share a scale; the last group of a row may be shorter. 0: all.
        symmetric: whether ranges lie symmetric about zero, so that no zeros are stored.
        what, name: what the errors are of.

    Raises:
        ValueError: elements that are no finite numbers, or that `kind` cannot hold.
    """
    if not np.isfinite(array).all():
        place = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise misuse(what, f"{name!r} must be finite", f"{array[place]} at {list(place)}")
    if kind in ("bfloat16", "float16"):
        with np.errstate(over="ignore"):
            values = array.astype(getattr(dtypes, kind).numpy)
        if not np.isfinite(values).all():
            raise misuse(what, f"{name!r} must fit into {kind}", f"{np.abs(array).max()}")
        return SmallWeight(kind, values)
    n, k = array.shape
    size = min(group or k, k)  # (a longer group is the row)
    groups = -(-k // size)
    wide = np.zeros((n, groups * size))
    wide[:, :k] = array
    wide = wide.reshape(n, groups, size)
    low, high = _RANGES[kind, symmetric]
    most, least = wide.max(2), wide.min(2)
    if symmetric:
        spread, steps = np.maximum(most, -least), (high - low) / 2
    else:
        spread, steps = np.maximum(most, 0) - np.minimum(least, 0), high - low
    scales = _scales(spread / steps, np.maximum(most, -least))
    divisor = scales.astype(np.float64)
    zero = np.full(scales.shape, float(MIDDLE[kind])) if symmetric else np.clip(
        low - np.rint(np.minimum(least, 0) / divisor), low, high)
    element = np.uint8 if kind == "int4" else np.int8
    values = np.clip(np.rint(wide / divisor[..., None]) + zero[..., None], low, high)
    return SmallWeight(kind, values.astype(element).reshape(n, -1)[:, :k], scales,
                       None if symmetric else zero.astype(element), group if groups > 1 else 0)


def _scales(exact: Array, largest: Array) -> Array:
    """Scales in float16 where each is a normal number there, else in float32; 1 instead of 0. The
    largest weight of a scale stays a number of float32."""
    exact = np.where(exact == 0, 1.0, exact)
    limits = np.finfo(np.float16)
    fits = limits.tiny <= exact.min(initial=1) and exact.max(initial=1) <= limits.max
    if fits:
        return exact.astype(np.float16)
    found = exact.astype(np.float32)
    most, wide = np.finfo(np.float32).max, found.astype(np.float64)
    ints = np.maximum(np.rint(largest / wide), 1)
    return np.where(ints * wide > most, np.nextafter((most / ints).astype(np.float32),
                                                     np.float32(0)), found)


def panels(array: Array, width: int = SMALL_COLUMNS) -> Array:
    """A matrix (n, m) as panels of `width` rows, transposed: (panels, m, width), zeros after the
    last row."""
    n, m = array.shape
    count = -(-n // width)
    padded = np.zeros((count * width, m), array.dtype)
    padded[:n] = array
    return np.ascontiguousarray(padded.reshape(count, width, m).swapaxes(1, 2))


def paired(values: Array) -> Array:
    """Four-bit ints (n, k) two in a byte, that of the even column low: (n, ceil(k / 2))."""
    n, k = values.shape
    even = np.zeros((n, -(-k // 2) * 2), np.uint8)
    even[:, :k] = values
    out: Array = even[:, ::2] | even[:, 1::2] << 4
    return out
