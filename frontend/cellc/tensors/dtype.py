"""Element types under MindSpore's names, and conversions from and to Python and numpy types."""

from __future__ import annotations

import builtins
import enum
from types import NoneType
from typing import Any

import numpy as np

from cellc_runtime.dtypes import (
    ALL,
    BY_NAME,
    DType,
    bfloat16,
    bool_,
    complex64,
    complex128,
    float16,
    float32,
    float64,
    from_numpy,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)
from cellc_runtime.lazy import public_names

from ..core.declared import instance, misuse
from ..core.later import naming

Type = DType
"""The class of element types (MindSpore calls it `Type`)."""


class Category(Type):
    """A kind of types (`number`, `int_`, `tensor_type`, ...): it names a family, not a layout."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"mindspore.{_REPRS.get(self.name, self.name)}"


_REPRS = {"int_": "int", "float_": "float", "string": "string_", "tensor_type": "tensor",
          "qint4x2": "int4"}


def _category(name: str, printed: str, kind: str) -> Category:
    return Category(name, printed, kind, 0, np.dtype(np.void))


byte, short, intc, long, intp = int8, int16, int32, int64, int64
ubyte, ushort, uintc, uintp = uint8, uint16, uint32, uint64
half, single, double = float16, float32, float64
cfloat, cdouble = complex64, complex128
bool, int, float = bool_, int32, float32  # here, the builtins go by their full names

number = _category("number", "Number", "category")
int_ = _category("int_", "Int", "category")
uint = _category("uint", "UInt", "category")
float_ = _category("float_", "Float", "category")
string = _category("string", "String", "category")
list_ = _category("list_", "List", "category")
tuple_ = _category("tuple_", "Tuple", "category")
tensor_type = _category("tensor_type", "Tensor", "category")
type_none = _category("type_none", "None", "category")
float8_e4m3fn = _category("float8_e4m3fn", "Float8E4M3FN", "category")
float8_e5m2 = _category("float8_e5m2", "Float8E5M2", "category")
hifloat8 = _category("hifloat8", "HiFloat8", "category")
qint4x2 = _category("qint4x2", "Int4", "category")  # types of Ascend devices: no tensor has them


class TypeClass(type):
    """A class of MindSpore's types, whose instances here are objects of one class, `DType`."""

    _generic: DType  # what a call without a width gives
    _by_width: dict[builtins.int, DType]  # types by their number of bits

    def __call__(cls, nbits: builtins.int | None = None) -> Any:
        """The type itself."""
        if nbits is None:
            return cls._generic
        if nbits not in cls._by_width:
            raise ValueError(f"For {cls.__name__!r}, 'nbits' must be in {list(cls._by_width)}, but "
                             f"got {nbits!r}.")
        return cls._by_width[nbits]

    def __instancecheck__(cls, value: Any) -> builtins.bool:
        return isinstance(value, DType) and any(c is cls for c in _class_of(value).__mro__)


def _type_class(
    name: str, base: type, generic: DType, *types: DType, text: str = ""
) -> TypeClass:
    by_width = {8 * t.itemsize: t for t in types}
    made = TypeClass(name, (base,), {"_generic": generic, "_by_width": by_width, "__doc__": text})
    _CLASSES.update(dict.fromkeys((generic, *types), made))
    return made


def _class_of(dtype: DType) -> type:
    return _CLASSES.get(dtype, Type)


_CLASSES: dict[DType, type] = {}
Number = _type_class("Number", object, number, text="Any type of numbers.")
Int = _type_class("Int", Number, int_, int8, int16, int32, int64, text="""A signed integer type by
    its width; `int_` without one. Source: `mindspore.Int`.

    Args:
        nbits: 8, 16, 32 or 64.

    Raises:
        ValueError: another width.
    """)
UInt = _type_class("UInt", Number, uint, uint8, uint16, uint32, uint64)
Float = _type_class("Float", Number, float_, float16, float32, float64)
BFloat = _type_class("BFloat", Number, _category("bfloat", "BFloat", "category"), bfloat16)
Complex = _type_class(
    "Complex", Number, _category("complex", "Complex", "category"), complex64, complex128)
Bool = _type_class("Bool", Number, bool_)
String = _type_class("String", object, string)
List = _type_class("List", object, list_)
Tuple = _type_class("Tuple", object, tuple_)
TypeNone = _type_class("TypeNone", object, type_none)
_CLASSES.update({float8_e4m3fn: Float, float8_e5m2: Float, hifloat8: Float, qint4x2: Int})


class TensorType:
    """The type of a tensor, by that of its elements.

    Args:
        element: the element type; None: any.
    """

    def __init__(self, element: DType | None = None) -> None:
        instance(DType, NoneType, wanted="an element type or None")(
            element, "TensorType", "element")
        self._element = element

    def element_type(self) -> DType | None:
        """The element type."""
        return self._element

    def __eq__(self, other: object) -> builtins.bool:
        return isinstance(other, TensorType) and self._element is other._element

    def __hash__(self) -> builtins.int:
        return hash((TensorType, self._element))

    def __str__(self) -> str:
        return "Tensor" if self._element is None else f"Tensor[{self._element}]"

    def __repr__(self) -> str:
        return "mindspore.tensor" if self._element is None else (
            f"mindspore.tensor[{self._element!r}]")


number_type: tuple[DType, ...] = tuple(d for d in ALL if d is not bool_)
int_type: tuple[DType, ...] = (int8, int16, int32, int64)
uint_type: tuple[DType, ...] = (uint8, uint16, uint32, uint64)
float_type: tuple[DType, ...] = (float16, bfloat16, float32, float64)
all_types: tuple[DType, ...] = ALL

_PYTHON: dict[type, DType] = {
    builtins.bool: bool_, builtins.int: int64, builtins.float: float64, complex: complex128,
    str: string, list: list_,
    tuple: tuple_, type(None): type_none,
}


def dtype_to_nptype(type_: DType) -> type[np.generic]:
    """The numpy scalar type of an element type.

    Raises:
        KeyError: `type_` has no numpy type.
    """
    if type_ not in ALL:
        raise KeyError(type_)
    return type_.numpy.type


def dtype_to_pytype(type_: DType) -> type:
    """The Python type of an element of `type_`.

    Raises:
        KeyError: `type_` has no Python type.
    """
    if not isinstance(type_, DType):
        raise KeyError(type_)
    for python, dtype in _PYTHON.items():
        if dtype is type_:
            return python
    whole = builtins.int
    kinds = {"bool": builtins.bool, "int": whole, "uint": whole, "float": builtins.float,
             "complex": complex}
    return kinds[type_.kind]


def pytype_to_dtype(obj: Any) -> DType:
    """The element type of a Python type, numpy type or element type.

    Raises:
        NotImplementedError: there is none.
    """
    if isinstance(obj, DType):
        return obj
    if not isinstance(obj, (type, np.dtype)):
        raise misuse("pytype_to_dtype", "'obj' must be a Python type such as int or a numpy type",
                     repr(obj), TypeError)
    known = _PYTHON.get(obj) if isinstance(obj, type) else None
    if known is not None:
        return known
    try:
        return from_numpy(obj)
    except TypeError:
        raise NotImplementedError(f"Unsupported convert python type {obj} to an element type") \
            from None


def convert(dtype: Any, what: str = "astype") -> DType:
    """An element type from an element type, its name, or a Python or numpy type."""
    if isinstance(dtype, DType):
        found: DType | None = dtype if dtype in ALL else None
    elif isinstance(dtype, str):
        found = BY_NAME.get(dtype.lower()) or {"int": int64, "float": float32}.get(dtype.lower())
    elif dtype is builtins.float:
        found = float32
    else:
        found = _PYTHON.get(dtype) if isinstance(dtype, type) else None
        if found is None and isinstance(dtype, (type, np.dtype)):
            found = from_numpy(dtype)
    if found is None:
        raise TypeError(f"For '{what}', the dtype must be one of "
                        f"[{', '.join(d.name for d in ALL)}], but got {naming.described(dtype)}")
    return found


_WIDTHS = {f"INT{n}": n - 1 for n in range(1, 17)} | {f"UINT{n}": n + 99 for n in range(1, 17)}


class _Valued(enum.Enum):
    """Members whose number is requested by a call."""

    def value(self) -> builtins.int:
        """The number that stands for the width."""
        found: builtins.int = self._value_
        return found


QuantDtype = _Valued("QuantDtype", _WIDTHS)  # type: ignore[call-arg]  # a table of names
QuantDtype.__doc__ = (
    "Widths of quantised numbers, for arguments (no tensor has them). Source: "
    "`mindspore.QuantDtype`.")

__all__ = [
    "Int", "QuantDtype", "TensorType", "Type", "bfloat16", "bool", "bool_", "byte", "cdouble",
    "cfloat", "complex128", "complex64", "double", "dtype_to_nptype", "dtype_to_pytype", "float",
    "float16", "float32", "float64", "float8_e4m3fn", "float8_e5m2", "float_", "half", "hifloat8",
    "int", "int16", "int32", "int64", "int8", "int_", "intc", "intp", "list_", "long", "number",
    "pytype_to_dtype", "qint4x2", "short", "single", "string", "tensor_type", "tuple_", "type_none",
    "ubyte", "uint", "uint16", "uint32", "uint64", "uint8", "uintc", "uintp", "ushort",
]
__dir__ = public_names(__name__)
