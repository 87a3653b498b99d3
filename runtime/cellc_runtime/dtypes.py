"""Element types, by MindSpore's names and printed forms, each tied to its numpy type."""

from __future__ import annotations

from typing import Any

import numpy as np

from .records import dataclass, field

try:
    import ml_dtypes
    _bfloat16 = ml_dtypes.bfloat16
    _finfo: Any = ml_dtypes.finfo
except ImportError:  # running an artifact needs numpy alone; bfloat16 is then two opaque bytes
    _bfloat16, _finfo = "V2", np.finfo


Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True, eq=False)
class DType:
    """An element type. Instances are singletons: compare with `is` or `==`.

    Attributes:
        name: canonical lower-case name (`"float32"`), used in IR text and artifacts.
        printed: MindSpore's printed form (`"Float32"`).
        kind: one of `"bool" "int" "uint" "float" "complex"`.
        itemsize: bytes per element.
        numpy: the numpy dtype (little endian).
    """

    name: str
    printed: str
    kind: str
    itemsize: int
    numpy: np.dtype[Any] = field(repr=False)

    def __repr__(self) -> str:
        return f"mindspore.{self.name.removesuffix('_')}"

    def __str__(self) -> str:
        return self.printed

    def __reduce__(self) -> str:
        return self.name

    @property
    def is_float(self) -> bool:
        """Whether this is a real floating-point type."""
        return self.kind == "float"

    @property
    def is_integer(self) -> bool:
        """Whether this is a signed or unsigned integer type (bool excluded)."""
        return self.kind in ("int", "uint")

    @property
    def is_complex(self) -> bool:
        """Whether this is a complex type."""
        return self.kind == "complex"

    @property
    def is_inexact(self) -> bool:
        """Whether this is a real or complex floating-point type."""
        return self.kind in ("float", "complex")


def _make(name: str, printed: str, kind: str, np_type: Any) -> DType:
    dt: np.dtype[Any] = np.dtype(np_type)
    return DType(name, printed, kind, dt.itemsize, dt)


bool_ = _make("bool_", "Bool", "bool", np.bool_)
int8 = _make("int8", "Int8", "int", np.int8)
int16 = _make("int16", "Int16", "int", np.int16)
int32 = _make("int32", "Int32", "int", np.int32)
int64 = _make("int64", "Int64", "int", np.int64)
uint8 = _make("uint8", "UInt8", "uint", np.uint8)
uint16 = _make("uint16", "UInt16", "uint", np.uint16)
uint32 = _make("uint32", "UInt32", "uint", np.uint32)
uint64 = _make("uint64", "UInt64", "uint", np.uint64)
float16 = _make("float16", "Float16", "float", np.float16)
bfloat16 = _make("bfloat16", "BFloat16", "float", _bfloat16)
float32 = _make("float32", "Float32", "float", np.float32)
float64 = _make("float64", "Float64", "float", np.float64)
complex64 = _make("complex64", "Complex64", "complex", np.complex64)
complex128 = _make("complex128", "Complex128", "complex", np.complex128)

ALL: tuple[DType, ...] = (
    bool_, int8, int16, int32, int64, uint8, uint16, uint32, uint64,
    float16, bfloat16, float32, float64, complex64, complex128,
)
BY_NAME: dict[str, DType] = {d.name: d for d in ALL} | {"bool": bool_}
_BY_NUMPY: dict[np.dtype[Any], DType] = {d.numpy: d for d in ALL}
OWN: dict[int, DType] = {id(d.numpy): d for d in ALL}
"""By the identity of the numpy type that `DType.numpy` holds: the usual one, found fastest."""


def part_dtype(dtype: DType) -> DType:
    """The real dtype of the parts of a complex dtype; a real dtype is its own."""
    if dtype is complex64:
        return float32
    return float64 if dtype is complex128 else dtype


def finfo(dtype: Any) -> Any:
    """The limits of a numpy type of floats, bfloat16 included; of a complex one those of its parts.
    """
    return _finfo(np.zeros((), dtype).real.dtype)


def from_numpy(dtype: Any) -> DType:
    """The `DType` of a numpy dtype (any byte order).

    Raises:
        TypeError: no tensor has this element type.
    """
    own = OWN.get(id(dtype))
    if own is not None:
        return own
    dt: np.dtype[Any] = np.dtype(dtype)
    found = _BY_NUMPY.get(dt if dt.isnative else dt.newbyteorder("="))
    if found is None:
        names = ", ".join(d.name for d in ALL)
        raise TypeError(
            f"a tensor cannot hold elements of numpy type {dt}; expected one of {names}"
        )
    return found


def typed(array: Any) -> str:
    """The type of an array for people: `float32[2, 3]`."""
    try:
        name = from_numpy(array.dtype).name
    except TypeError:
        name = str(array.dtype)
    return f"{name}[{', '.join(map(str, array.shape))}]"


def by_name(name: str) -> DType:
    """The `DType` called `name` (`"float32"`, `"bool"`, ...). Raises ValueError if the name is
    unknown."""
    try:
        return BY_NAME[name]
    except KeyError:
        raise ValueError(f"unknown dtype {name!r}; expected one of {', '.join(BY_NAME)}") from None


def out_of_range(values: np.ndarray[Any, Any], to: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Which real values lie beyond the largest or smallest finite one of another type.

    NaN and infinity are out of the range of integers, and in that of floats.
    """
    out: np.ndarray[Any, Any]
    if to.kind in "iu":
        limits = np.iinfo(to)
        exact = values if values.dtype.kind in "biu" else values.astype(np.float64)
        above = exact > limits.max if exact is values else exact >= float(limits.max) + 1
        out = above | ~(exact >= limits.min)
        return out
    with np.errstate(over="ignore"):
        out = np.isfinite(values) & ~np.isfinite(values.astype(to))
    return out


def inexact(values: np.ndarray[Any, Any], to: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Which real values another type does not hold as they are."""
    out = out_of_range(values, to)
    kept = np.where(out, 0, values).astype(values.dtype)
    if values.dtype.kind in "biu" and to.kind not in "iu":
        # Compared as Python's integers: numpy would round the wider ones first.
        same = np.frompyfunc(lambda a, b: int(a) == int(b), 2, 1)(kept, kept.astype(to))
        out |= ~np.asarray(same, np.bool_)
        return out
    back = kept.astype(to).astype(values.dtype)
    out |= (back != kept) & ~((back != back) & (kept != kept))
    return out
