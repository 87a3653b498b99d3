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
from ..verification.values import is_inexact, widened

Array = np.ndarray[Any, Any]

ULPS: Mapping[str, float] = {
    "float16": 2.0, "bfloat16": 2.0, "float32": 16.0, "float64": 64.0, "complex64": 16.0,
    "complex128": 64.0,
}
"""How many ulps apart `assert_close` lets elements be; those of other types must be equal."""

_UNSIGNED: Mapping[int, Any] = {2: np.uint16, 4: np.uint32, 8: np.uint64}
_FAR = float(2**63)
"""The distance of what has none: NaN from a number, infinity from anything else."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How far apart elements may be: an element passes that keeps one of the two.

    Attributes:
        ulps: units in the last place; None: those of `ULPS`, or none where `rtol` or `atol` is
            given.
        rtol, atol: `|actual - desired| <= atol + rtol * |desired|`; None: not asked.
    """

    ulps: float | None = None
    rtol: float | None = None
    atol: float | None = None
    equal_nan: bool = True
    check_dtype: bool = True

    def of(self, dtype: np.dtype[Any]) -> float:
        """The ulps for an element type."""
        if self.ulps is not None:
            return self.ulps
        return 0.0 if (self.rtol, self.atol) != (None, None) else ULPS.get(dtype.name, 0.0)


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
    limits = Limits(ulps, rtol, atol, equal_nan, check_dtype)
    problems = list(differences(actual, desired, limits, ("actual", "desired")))
    if problems:
        raise AssertionError("assert_close: " + "\n".join(problems))


def differences(
    actual: Any, desired: Any, limits: Limits, names: tuple[str, str], path: str = ""
) -> Iterator[str]:
    """Yield the differences between two structures, in words.

    Args:
        names: what the sides are called.
        path: of these parts in the whole: `[0]['logits']`.
    """
    if isinstance(desired, Mapping) or isinstance(actual, Mapping):
        yield from _of_dicts(actual, desired, limits, names, path)
    elif _is_sequence(desired) and isinstance(actual, (Tensor, np.ndarray)):
        yield from differences(actual, _weak(np.array(desired), _array(actual).dtype), limits,
                               names, path)
    elif _is_sequence(desired) or _is_sequence(actual):
        yield from _of_sequences(actual, desired, limits, names, path)
    else:
        problem = _of_leaves(actual, desired, limits, names)
        if problem:
            yield (f"at {path}: " if path else "") + problem


def _is_sequence(value: Any) -> bool:
    return isinstance(value, (list, tuple))


def _of_dicts(
    actual: Any, desired: Any, limits: Limits, names: tuple[str, str], path: str
) -> Iterator[str]:
    if not (isinstance(desired, Mapping) and isinstance(actual, Mapping)):
        yield _of_kinds(actual, desired, names, path)
        return
    for name, some, other in ((names[0], actual, desired), (names[1], desired, actual)):
        only = [k for k in some if k not in other]
        if only:
            yield f"{_at(path)}only {name} has the keys {', '.join(map(repr, only))}"
    for k in desired:
        if k in actual:
            yield from differences(actual[k], desired[k], limits, names, f"{path}[{k!r}]")


def _of_sequences(
    actual: Any, desired: Any, limits: Limits, names: tuple[str, str], path: str
) -> Iterator[str]:
    if not (_is_sequence(desired) and _is_sequence(actual)):
        yield _of_kinds(actual, desired, names, path)
    elif len(actual) != len(desired):
        yield f"{_at(path)}{names[0]} has {len(actual)} parts, {names[1]} {len(desired)}"
    else:
        for i, (a, d) in enumerate(zip(actual, desired, strict=True)):
            yield from differences(a, d, limits, names, f"{path}[{i}]")


def _at(path: str) -> str:
    return f"at {path}: " if path else ""


def _of_kinds(actual: Any, desired: Any, names: tuple[str, str], path: str) -> str:
    return (f"{_at(path)}{names[0]} is a {type(actual).__name__}, {names[1]} a "
            f"{type(desired).__name__}")


def _of_leaves(actual: Any, desired: Any, limits: Limits, names: tuple[str, str]) -> str:
    if not (_is_numeric(actual) and _is_numeric(desired)):
        same = type(actual) is type(desired) and bool(actual == desired)
        return "" if same else f"{names[0]} is {actual!r}, {names[1]} {desired!r}"
    a, d = arrays_of_pair(actual, desired)
    if limits.check_dtype and a.dtype != d.dtype:
        return f"{names[0]} is {_type(a)}, {names[1]} {_type(d)}"
    if a.shape != d.shape:
        return f"{names[0]} is {_type(a)}, {names[1]} {_type(d)}"
    found = measure(a, d, limits)
    return "" if found is None else found.text(names)


def _is_numeric(value: Any) -> bool:
    return isinstance(value, (Tensor, np.ndarray, np.generic, bool, int, float, complex))


def arrays_of_pair(actual: Any, desired: Any) -> tuple[Array, Array]:
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


@dataclass(frozen=True, slots=True)
class Difference:
    """Where two arrays lie apart.

    Attributes:
        count: elements that are too far apart, of `size`.
        index: of the worst.
        ulps: it is apart by; infinite where there is no distance (NaN against a number).
        limit: in ulps.
        form: the element type and shape.
    """

    count: int
    size: int
    index: tuple[int, ...]
    actual: Any
    desired: Any
    ulps: float
    limits: Limits
    limit: float
    form: str

    def text(self, names: tuple[str, str]) -> str:
        """In words."""
        allowed = "" if self.limit == 0 and not self._relative() else (
            f" by more than {self._relative() or f'{self.limit:g} ulps'}")
        where = f"[{', '.join(map(str, self.index))}]" if self.index else "the only element"
        apart = f", {self.ulps:.6g} ulps apart" if np.isfinite(self.ulps) and self.ulps else ""
        with np.errstate(all="ignore"):
            size = abs(complex(self.actual) - complex(self.desired))
        much = f" ({size:.3g})" if np.isfinite(size) else ""
        return (f"{self.count} of {self.size} elements of {self.form} differ{allowed}; the worst, "
                f"{where}: {names[0]} {self.actual!s}, {names[1]} {self.desired!s}{apart}{much}")

    def _relative(self) -> str:
        if self.limits.rtol is None and self.limits.atol is None:
            return ""
        asked = (("atol", self.limits.atol), ("rtol", self.limits.rtol))
        return ", ".join(f"{name} {v:g}" for name, v in asked if v is not None)


def measure(a: Array, d: Array, limits: Limits) -> Difference | None:
    """Where `a` is too far from `d`, both of one shape; None if all elements are close."""
    wide = a.dtype if a.dtype == d.dtype else _common(a, d)
    x, y = a.astype(wide), d.astype(wide)
    if not x.size:
        return None
    ulps = ulps_apart(x, y)
    limit = limits.of(wide)
    bad = ~(ulps <= limit)
    if limits.rtol is not None or limits.atol is not None:
        with np.errstate(all="ignore"):
            room = (limits.atol or 0.0) + (limits.rtol or 0.0) * np.abs(widened(y))
            near = np.abs(widened(x) - widened(y)) <= room
        bad &= ~(near & np.isfinite(widened(x)) & np.isfinite(widened(y)))
    if wide.kind not in "iub":
        neither = np.isnan(widened(x)) & np.isnan(widened(y))
        bad = (bad & ~neither) | (neither & (not limits.equal_nan))
    count = int(np.count_nonzero(bad))
    if not count:
        return None
    worst = int(np.argmax(np.where(bad, ulps, -1.0)))
    index = tuple(int(i) for i in np.unravel_index(worst, x.shape))
    far = float(ulps[index])
    return Difference(count, int(x.size), index, a[index], d[index],
                      float("inf") if far >= _FAR else far, limits, limit, _type(a))


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
    x, y = _ordered(a), _ordered(d)
    apart = np.where(x > y, x - y, y - x).astype(np.float64)
    wide = a.astype(np.float64), d.astype(np.float64)
    odd = ~(np.isfinite(wide[0]) & np.isfinite(wide[1]))
    same = (wide[0] == wide[1]) | (np.isnan(wide[0]) & np.isnan(wide[1]))
    return np.asarray(np.where(same, 0.0, np.where(odd, _FAR, apart)))


def _ordered(a: Array) -> Array:
    """Floats as unsigned integers in the same order, neighbours next to each other."""
    bits = np.ascontiguousarray(a).reshape(a.shape).view(_UNSIGNED[a.dtype.itemsize])
    sign = np.asarray(1 << (8 * a.dtype.itemsize - 1), bits.dtype)
    magnitude = bits & (sign - 1).astype(bits.dtype)
    return np.asarray(np.where(bits & sign, sign - magnitude, sign + magnitude))
