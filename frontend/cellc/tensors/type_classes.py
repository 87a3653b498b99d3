"""The classes of MindSpore's types and the questions that scripts ask about them:
`mindspore._c_expression.typing`."""

from __future__ import annotations

from typing import Any

from cellc_runtime.lazy import no_attribute

from . import dtype as dtypes
from .dtype import (
    BFloat,
    Bool,
    Complex,
    Float,
    Int,
    List,
    Number,
    String,
    TensorType,
    Tuple,
    Type,
    TypeClass,
    TypeNone,
    UInt,
)

__all__ = [
    "BFloat", "Bool", "Complex", "Float", "Int", "List", "Number", "String", "TensorType", "Tuple",
    "Type", "TypeNone", "UInt", "is_subclass", "str_to_type", "type_id_to_type",
    "type_size_in_bytes", "type_to_type_id",
]
_IDS = {
    "type_none": 7, "number": 11, "string": 12, "list_": 13, "tuple_": 14, "tensor_type": 17,
    "bool_": 30, "int_": 31, "int8": 32, "int16": 33, "int32": 34, "int64": 35, "uint": 36,
    "uint8": 37, "uint16": 38, "uint32": 39, "uint64": 40, "float_": 41, "float16": 42,
    "float32": 43, "float64": 44, "bfloat16": 45, "float8_e4m3fn": 46, "float8_e5m2": 47,
    "hifloat8": 48, "complex64": 51, "complex128": 52, "qint4x2": 53,
}
"""MindSpore's number of each type."""
_TYPES: dict[str, Type] = {name: getattr(dtypes, name) for name in _IDS}


def is_subclass(type_: Any, of: Any) -> bool:
    """Whether a type is another one or of its family: `is_subclass(float32, number)`."""
    if isinstance(type_, TensorType):
        return of is dtypes.tensor_type or type_ == of
    family = next((c for c in _FAMILIES if c() is of), None)
    return type_ is of or (family is not None and isinstance(type_, family))


_FAMILIES: tuple[TypeClass, ...] = (Number, Int, UInt, Float, BFloat, Complex)


def str_to_type(name: str) -> Any:
    """A type by its name or as it is printed: "float32", "Float32", "Tensor[Float32]"."""
    if name.startswith("Tensor[") and name.endswith("]"):
        return TensorType(str_to_type(name[7:-1]))
    for found in _TYPES.values():
        if name in (str(found), repr(found).removeprefix("mindspore.")):
            return found
    raise RuntimeError(f"Unsupported type name: {name}!")


def type_size_in_bytes(type_: Type) -> int:
    """Bytes of an element; of a family of numbers 1, of other types 0."""
    return type_.itemsize or int(isinstance(type_, Number))


def type_to_type_id(type_: Type) -> int:
    """MindSpore's number of a type."""
    return _IDS[type_.name]


def type_id_to_type(number: int) -> Type:
    """The type with a number of MindSpore's."""
    return {_IDS[name]: found for name, found in _TYPES.items()}[number]


def __getattr__(name: str) -> Any:
    """Return `kFloat32` and its like: types as they are printed, after a k."""
    for found in _TYPES.values():
        if name == f"k{found}":
            return found
    raise no_attribute(__name__, name)
