"""Python values as flat tables, path by path, and the comparison of two of them to the bit."""

from __future__ import annotations

import hashlib
import random
from array import array
from collections import deque
from collections.abc import Iterator, Sequence
from enum import Enum
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np

from cellc_runtime.dtypes import finfo
from cellc_runtime.errors import counted

from ..core.module_names import elements, module_of, plain
from ..lang.values import MISSING
from ..tensors.tensor import OpenTensor, Tensor, host_arrays_of

Array = np.ndarray[Any, Any]

_PLAIN = (int, float, complex, bool, str, bytes, type(None), np.generic, Enum)
_BESIDE = frozenset(("_entries", "_prepared", "_serial", "_storage", "_host", "_hooks", "_grad_fn",
                     "__compiled__", "_is_own", "_eager_steps"))
"""Attributes of ours that say nothing of what a network computes: what was compiled, and such."""
_INNER = ("cellc.compiled", "cellc.core", "cellc.eager", "cellc.lang", "cellc.storage",
          "cellc.tracing", "cellc_compiler", "cellc_runtime")


class Table(dict[str, Any]):
    """The contents of each path: an array, a plain value, or a container's kind and names."""

    def types(self) -> dict[str, Any]:
        """Return the contents of each path but for elements and values."""
        return {path: (x.dtype, x.shape) if isinstance(x, np.ndarray) else
                x if isinstance(x, tuple) else type(x) for path, x in self.items()}


def table_of(value: Any, path: str, aliases: bool = True) -> Table:
    """A value as a table; arrays are copied, so it stays as it is.

    Args:
        value: tensors, numbers, containers and objects with attributes, nested.
        path: what the value is called.
        aliases: whether an object that was met before is just named; else its parts are given
            again, unless it is inside itself.
    """
    out = Table()
    seen: dict[int, str] = {}
    kept: list[Any] = []  # so that no identity comes twice

    def walk(x: Any, at: str) -> None:
        if isinstance(x, _PLAIN):
            out[at] = x
        elif isinstance(x, OpenTensor):
            out[at] = str(x.shape), x.dtype
        elif isinstance(x, Tensor):
            out[at] = host_arrays_of([x])[0].copy()
        elif isinstance(x, np.ndarray):
            out[at] = np.array(x)
        elif id(x) in seen:
            out[at] = ("again", seen[id(x)])
        else:
            seen[id(x)] = at
            kept.append(x)
            out[at], parts = parts_of(x)
            for name, part in parts:
                walk(part, at + name)
            if not aliases:
                del seen[id(x)]

    walk(value, path)
    return out


def parts_of(x: Any) -> tuple[Any, list[tuple[str, Any]]]:
    """A container's kind with what else tells it from others, and its parts by name."""
    kind = type(x).__qualname__
    parts: list[tuple[str, Any]] = []
    what: Any = None
    if isinstance(x, (dict, MappingProxyType)):
        parts = [(f"[{k!r}]", v) for k, v in elements(x)]
    elif isinstance(x, (set, frozenset)):
        what = tuple(sorted(map(repr, elements(x))))
    elif isinstance(x, (list, tuple, deque)):
        parts = [(f"[{i}]", v) for i, v in enumerate(elements(x))]
        what = len(parts)
    elif isinstance(x, (bytearray, array)):
        what = repr(x)
    elif isinstance(x, np.random.Generator):
        what = repr(x.bit_generator.state)
    elif isinstance(x, random.Random):
        what = hash(x.getstate())
    elif isinstance(x, partial):
        parts = [(".func", x.func), (".args", x.args), (".keywords", x.keywords)]
    for name, value in attributes(x):
        if name in ("_params", "_cells") and isinstance(value, dict):  # what a Cell registers
            parts += [(f".{n}", v) for n, v in value.items()]
        else:
            parts.append((f".{name}", value))
    return (kind, tuple(n for n, _ in parts) if what is None else what), parts


def attributes(x: Any) -> Iterator[tuple[str, Any]]:
    """The attributes of an object that a network may read or change."""
    if isinstance(x, type) or (callable(x) and not hasattr(type(x), "construct") and \
            module_of(type(x)) in ("builtins", "types")):
        return
    if module_of(type(x)).startswith(_INNER):
        return
    own = plain(x, "__dict__")
    if isinstance(own, dict):
        yield from ((n, v) for n, v in own.items() if n not in _BESIDE)
    for name in _slots(type(x)):
        value = plain(x, name, MISSING)
        if value is not MISSING and name not in _BESIDE:
            yield name, value


def _slots(kind: type) -> Iterator[str]:
    """The attributes of a class that have slots."""
    for base in kind.__mro__:
        slots = base.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if not name.startswith("__"):
                yield name


def same_bits(a: Array, b: Array) -> bool:
    """Equal types, shapes and bits; NaNs may differ in their payload, which no op can see."""
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    x, y = np.ascontiguousarray(a), np.ascontiguousarray(b)
    if x.tobytes() == y.tobytes():
        return True
    if not is_inexact(x):
        return False
    return _canonical(x).tobytes() == _canonical(y).tobytes()


def is_inexact(a: Array) -> bool:
    """Whether an array is of floats (bfloat16 included) or complex numbers."""
    return a.dtype.kind in "fc" or a.dtype.name == "bfloat16"


def _canonical(a: Array) -> Array:
    parts = a.reshape(-1).view(a.real.dtype) if a.dtype.kind == "c" else a
    return np.where(np.isnan(parts), np.asarray(np.nan, parts.dtype), parts)


def error_in_ulps(got: Array, ref: Array, terms: Array | None = None) -> float:
    """The largest difference in ulps of the largest finite element of the reference, among the
    elements that are finite in both.

    Args:
        got: a result; its type says what a ulp is.
        ref: what it should be.
        terms: what was summed for each element, in magnitude: its ulps count where it is larger.
    """
    wide, ref = widened(got), widened(ref)
    finite = np.isfinite(ref) & np.isfinite(wide)
    scale = float(np.max(np.abs(ref), initial=0.0, where=finite))
    unit: Any = max(scale, tiny(got.dtype))
    if terms is not None:
        unit = np.maximum(unit, np.where(np.isfinite(terms), np.abs(terms), 0).reshape(ref.shape))
    diff = np.abs(np.where(finite, wide, 0) - np.where(finite, ref, 0))
    return float(np.max(diff / (unit * eps(got.dtype)), initial=0.0))


def eps(dtype: np.dtype[Any]) -> float:
    """The distance from 1 to the next number of a float or complex type."""
    return float(finfo(dtype).eps)


def tiny(dtype: np.dtype[Any]) -> float:
    """The smallest normal number of a float or complex type."""
    return float(finfo(dtype).smallest_normal)


def largest_finite(dtype: np.dtype[Any]) -> float:
    """The largest finite number of a float or complex type."""
    return float(finfo(dtype).max)


def widened(a: Array) -> Array:
    """Numbers in float64, or complex128."""
    return a.astype(np.complex128 if a.dtype.kind == "c" else np.float64)


def difference(a: Any, b: Any, names: tuple[str, str]) -> str:
    """How the second entry of a table differs from the first; "" if it does not."""
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return _of_arrays(a, b, names)
    if type(a) is type(b) and not isinstance(a, np.ndarray) and _same_plain(a, b):
        return ""
    return f"{_short(a)} in {names[0]}, {_short(b)} {names[1]}"


def unlike_elements(a: Array, b: Array) -> Array:
    """Where arrays that have other bits differ."""
    unlike = np.asarray((a != b) & ~((a != a) & (b != b)))
    if not unlike.any():  # zeros of other signs
        unlike = np.asarray(np.signbit(a.real) != np.signbit(b.real))
    return unlike


def index_of(number: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The index of an element, of which the position in memory is given."""
    return tuple(int(k) for k in np.unravel_index(number, shape))


def bracketed(index: tuple[int, ...]) -> str:
    """An index as it is written after a tensor; "" for that of a scalar."""
    return f"[{', '.join(map(str, index))}]" if index else ""


def first_of(mask: Array) -> tuple[tuple[int, ...], str]:
    """The index of the first element for which a mask holds, and it in words."""
    where = index_of(int(np.argmax(mask)), mask.shape)
    return where, f" at {where}" if where else ""


def _of_arrays(a: Array, b: Array, names: tuple[str, str]) -> str:
    if same_bits(a, b):
        return ""
    if a.dtype != b.dtype or a.shape != b.shape:
        return (f"{a.dtype}{list(a.shape)} in {names[0]}, {b.dtype}{list(b.shape)} {names[1]}")
    unlike = unlike_elements(a, b)
    where, at = first_of(unlike)
    by = f"; by {_ulps_between(b, a):.4g} ulps at most" if is_inexact(a) else ""
    return (f"{int(unlike.sum())} of {a.size} elements differ{at}: {a[where]} in {names[0]}, "
            f"{b[where]} {names[1]}{by}")


def _ulps_between(a: Array, b: Array) -> float:
    """As `error_in_ulps`; infinite where an element that differs is not finite."""
    unlike = unlike_elements(a, b)
    return float("inf") if not finite(a[unlike]).all() or not finite(b[unlike]).all() else \
        error_in_ulps(a, b)


def _same_plain(a: Any, b: Any) -> bool:
    if isinstance(a, (float, complex)):
        return repr(a) == repr(b)  # -0.0 is another number than 0.0, a NaN the same
    return bool(a == b)


def _short(x: Any) -> str:
    if x is MISSING:
        return "nothing"
    if isinstance(x, np.ndarray):
        return f"a tensor {x.dtype}{list(x.shape)}"
    if isinstance(x, tuple) and len(x) == 2:
        kind, what = x
        if isinstance(what, int):
            return f"a {kind} ({counted(what, 'element')})"
        return f"a {kind} ({', '.join(map(str, what)) if isinstance(what, tuple) else what})"
    text = repr(x)
    return text if len(text) < 80 else text[:77] + "..."


def finite(a: Array) -> Array:
    """Where an array is finite: everywhere, if it is of integers or bools."""
    if not is_inexact(a):
        return np.ones(a.shape, np.bool_)
    return np.isfinite(a if a.dtype.kind != "V" and a.dtype.name != "bfloat16"
                       else a.astype(np.float32))


def finite_all(a: Array) -> bool:
    """Whether all elements are finite."""
    return not is_inexact(a) or bool(finite(a).all())


def kinds_of(arrays: Sequence[Array]) -> str:
    """Which values that are not finite arrays hold, and how many."""
    floats = [a for a in arrays if is_inexact(a)]
    bad = sum(int(np.sum(~finite(a))) for a in floats)
    nans = sum(int(np.sum(np.isnan(a))) for a in floats)
    what = "NaN" if nans == bad else "infinity" if not nans else "NaN and infinity"
    return f"{what} ({bad} of {sum(a.size for a in floats)} elements)"


def digest(a: Array) -> bytes:
    """An array's type and elements, in short."""
    head = f"{a.dtype.name}{a.shape}".encode()
    return hashlib.blake2b(head + np.ascontiguousarray(a).tobytes(), digest_size=16).digest()


def telling(a: Array) -> bool:
    """Whether an array tells something: numbers of the language are no tensors in PyNative."""
    return (a.ndim > 0 and a.dtype != np.uint64) or (is_inexact(a) and a.dtype != np.float64)
