"""How far two results lie apart: in units in the last place, element by element.

A *ulp* is the distance between two neighbouring numbers of an element type, so one limit serves
large and small elements alike. Two zeros are equal, infinities equal themselves alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from cellc_runtime.records import dataclass

from ..tensors.tensor import Tensor, host_arrays_of
from ..verification.values import bracketed, index_of, is_inexact, widened

Array = np.ndarray[Any, Any]

ULPS: Mapping[str, float] = {
    "float16": 2.0, "bfloat16": 2.0, "float32": 16.0, "float64": 64.0, "complex64": 16.0,
    "complex128": 64.0,
}
"""How many ulps apart `assert_close` lets elements be; those of other types must be equal."""

_UNSIGNED: Mapping[int, Any] = {2: np.uint16, 4: np.uint32, 8: np.uint64}
_FAR = float(2**63)  # The distance of what has none: NaN from a number, infinity from anything else


@dataclass(frozen=True, slots=True)
class _Limits:
    """How far apart elements may be: an element passes that keeps one of the two."""

    # units in the last place; None: those of `ULPS`, or none where `rtol` or `atol` is given
    ulps: float | None
    # rtol, atol: `|actual - desired| <= atol + rtol * |desired|`; None: not asked
    rtol: float | None
    atol: float | None
    equal_nan: bool
    check_dtype: bool

    def relative(self) -> str:
        """The other limits in words; "" if there are none."""
        asked = (("atol", self.atol), ("rtol", self.rtol))
        return ", ".join(f"{name} {v:g}" for name, v in asked if v is not None)

    def of(self, dtype: np.dtype[Any]) -> float:
        """The ulps for an element type."""
        if self.ulps is not None:
            return self.ulps
        return 0.0 if self.relative() else ULPS.get(dtype.name, 0.0)


def assert_close(
    actual: Any, desired: Any, *, ulps: float | None = None, rtol: float | None = None,
    atol: float | None = None, equal_nan: bool = True, check_dtype: bool = True,
) -> None:
    """Check that two results agree, element by element.

    An element is close if it is within `ulps` of the desired one, or within
    `atol + rtol * |desired|`. Without any of the three, floats may be a few ulps apart (float16 and
    bfloat16 2, float32 16, float64 64) and everything else must be equal.

    Args:
        actual, desired: Tensors, arrays or numbers of equal shapes, or nested lists, tuples and
            dicts of them. Python numbers, and lists of them beside a Tensor, take the element type
            of the other side.
        ulps: how many units in the last place apart elements may be; 0 asks for equality.
        rtol, atol: relative and absolute tolerance.
        equal_nan: whether NaN is close to NaN.
        check_dtype: whether element types must be the same.

    Raises:
        AssertionError: with the worst element, its index, both values and how many differ.

    Only in cellc.
    """
    for name, value in (("ulps", ulps), ("rtol", rtol), ("atol", atol)):
        if value is not None and not value >= 0:
            raise ValueError(f"For 'assert_close', '{name}' must not be negative, but got {value}.")
    limits = _Limits(ulps, rtol, atol, equal_nan, check_dtype)
    problems = list(_differences(actual, desired, limits))
    if problems:
        raise AssertionError("assert_close: " + "\n".join(problems))


def _differences(actual: Any, desired: Any, limits: _Limits, path: str = "") -> Iterator[str]:
    """Yield the differences between two structures, in words. `path`: of these parts in the whole:
    `[0]['logits']`."""
    if isinstance(desired, (list, tuple)) and isinstance(actual, (Tensor, np.ndarray)):
        desired = _weak(np.array(desired), _array(actual).dtype)
    at = f"at {path}: " if path else ""
    parts, wanted = _parts(actual), _parts(desired)
    if parts is None and wanted is None:
        problem = _of_leaves(actual, desired, limits)
        if problem:
            yield at + problem
    elif parts is None or wanted is None or \
            isinstance(actual, Mapping) != isinstance(desired, Mapping):
        yield f"{at}actual is a {type(actual).__name__}, desired a {type(desired).__name__}"
    elif len(parts) != len(wanted) and not isinstance(actual, Mapping):
        yield f"{at}actual has {len(parts)} parts, desired {len(wanted)}"
    else:
        for name, some, other in (("actual", parts, wanted), ("desired", wanted, parts)):
            only = [k for k in some if k not in other]
            if only:
                yield f"{at}only {name} has the keys {', '.join(map(repr, only))}"
        for k in wanted:
            if k in parts:
                yield from _differences(parts[k], wanted[k], limits, f"{path}[{k!r}]")


def _parts(value: Any) -> Mapping[Any, Any] | None:
    """The parts of a dict, list or tuple by key or position; None for a leaf."""
    if isinstance(value, (list, tuple)):
        return dict(enumerate(value))
    return value if isinstance(value, Mapping) else None


def _of_leaves(actual: Any, desired: Any, limits: _Limits) -> str:
    if not (_is_numeric(actual) and _is_numeric(desired)):
        same = type(actual) is type(desired) and bool(actual == desired)
        return "" if same else f"actual is {actual!r}, desired {desired!r}"
    a, d = _arrays_of_pair(actual, desired)
    if (limits.check_dtype and a.dtype != d.dtype) or a.shape != d.shape:
        return f"actual is {_type(a)}, desired {_type(d)}"
    return _of_arrays(a, d, limits)


def _is_numeric(value: Any) -> bool:
    return isinstance(value, (Tensor, np.ndarray, np.generic, bool, int, float, complex))


def _arrays_of_pair(actual: Any, desired: Any) -> tuple[Array, Array]:
    """Both as arrays; a Python number has the element type of what it is compared with."""
    a, d = (_array(x) for x in (actual, desired))
    plain = [isinstance(x, (int, float, complex)) and not isinstance(x, np.generic)
             for x in (actual, desired)]
    if plain == [False, True]:
        d = _weak(d, a.dtype)
    elif plain == [True, False]:
        a = _weak(a, d.dtype)
    return a, d


def _array(value: Any) -> Array:
    return np.asarray(host_arrays_of([value])[0] if isinstance(value, Tensor) else value)


def _weak(number: Array, dtype: np.dtype[Any]) -> Array:
    """Python numbers in an element type, if they fit there."""
    if number.dtype.kind == "c" and dtype.kind != "c":
        return number
    with np.errstate(all="ignore"):
        held = number.astype(dtype)
    whole = dtype.kind not in "iub" or number.dtype.kind in "iub" or bool((held == number).all())
    return held if whole else number


def _type(a: Array) -> str:
    return f"{a.dtype.name}[{','.join(map(str, a.shape))}]"


def _of_arrays(a: Array, d: Array, limits: _Limits) -> str:
    """Where `a` is too far from `d`, both of one shape, in words; "" if all elements are close."""
    wide = a.dtype if a.dtype == d.dtype else _common(a, d)
    p, q = a.astype(wide), d.astype(wide)
    ulps, x, y = ulps_apart(p, q), widened(p), widened(q)
    limit, relative = limits.of(wide), limits.relative()
    bad = ~(ulps <= limit)
    with np.errstate(all="ignore"):
        if relative:
            room = (limits.atol or 0.0) + (limits.rtol or 0.0) * np.abs(y)
            bad &= ~((np.abs(x - y) <= room) & np.isfinite(x) & np.isfinite(y))
        if wide.kind not in "iub":
            bad = np.where(np.isnan(x) & np.isnan(y), not limits.equal_nan, bad)
        if not bad.any():
            return ""
        worst = index_of(int(np.argmax(np.where(bad, ulps, -1.0))), a.shape)
        size = abs(complex(a[worst]) - complex(d[worst]))
    allowed = f" by more than {relative or f'{limit:g} ulps'}" if limit or relative else ""
    far = float(ulps[worst])
    apart = f", {far:.6g} ulps apart" if 0 < far < _FAR else ""
    much = f" ({size:.3g})" if np.isfinite(size) else ""
    return (f"{np.count_nonzero(bad)} of {a.size} elements of {_type(a)} differ{allowed}; the "
            f"worst, {bracketed(worst) or 'the only element'}: actual {a[worst]!s}, desired "
            f"{d[worst]!s}{apart}{much}")


def _common(a: Array, d: Array) -> np.dtype[Any]:
    """The element type that ulps are counted in: the coarser of two floats, else numpy's."""
    inexact = [x.dtype for x in (a, d) if is_inexact(x)]
    same = len(inexact) == 2 and inexact[0].kind == inexact[1].kind
    if same or len(inexact) == 1:
        return min(inexact, key=lambda t: t.itemsize)
    return np.result_type(a.dtype, d.dtype)


def ulps_apart(a: Array, d: Array) -> Array:
    """How many units in the last place each element lies from its partner: float64, same shape.

    Integers and bools are apart by their difference. NaN lies `2**63` from numbers and 0 from NaN,
    and so does infinity from everything but itself. Complex elements are as far apart as the
    farther of their parts.
    """
    if a.dtype.kind == "c":
        parts = [ulps_apart(getattr(a, p), getattr(d, p)) for p in ("real", "imag")]
        return np.asarray(np.maximum(*parts))
    if not is_inexact(a):
        return np.asarray(np.abs(a.astype(np.float64) - d.astype(np.float64))
                          + ((a != d) & (a.astype(np.float64) == d.astype(np.float64))))
    x, y = _order_floats(a), _order_floats(d)
    apart = np.where(x > y, x - y, y - x).astype(np.float64)
    wide = a.astype(np.float64), d.astype(np.float64)
    odd = ~(np.isfinite(wide[0]) & np.isfinite(wide[1]))
    same = (wide[0] == wide[1]) | (np.isnan(wide[0]) & np.isnan(wide[1]))
    return np.asarray(np.where(same, 0.0, np.where(odd, _FAR, apart)))


def _order_floats(a: Array) -> Array:
    """Floats as unsigned integers in the same order, neighbours next to each other."""
    bits = np.ascontiguousarray(a).reshape(a.shape).view(_UNSIGNED[a.dtype.itemsize])
    sign = np.asarray(1 << (8 * a.dtype.itemsize - 1), bits.dtype)
    magnitude = bits & (sign - 1).astype(bits.dtype)
    return np.asarray(np.where(bits & sign, sign - magnitude, sign + magnitude))
