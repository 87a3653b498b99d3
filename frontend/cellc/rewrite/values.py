"""Operands and targets of statements, as a caller of `rewrite` reads and writes them.

Source: `mindspore.rewrite`.
"""

from __future__ import annotations

import ast
import enum
from collections.abc import Sequence
from typing import Any

from ..core.declared import checks_arguments, instance
from ..core.native import names_itself


class ValueType(enum.Enum):
    """The kinds of a `ScopedValue`."""

    ConstantValue = 0
    TupleValue = 20
    ListValue = 21
    DictValue = 22
    NamingValue = 40
    CustomObjValue = 41
    UnsupportedValue = 50


_CONTAINERS = {ValueType.TupleValue: tuple, ValueType.ListValue: list}


@names_itself
class ScopedValue:
    """A constant, or the name of a variable, possibly an attribute of one (its scope).

    Args:
        arg_type: what it is.
        scope: of a name, "" or the part before the dot (`"self"`).
        value: the constant or the name.

    Raises:
        TypeError: `arg_type` is no ValueType, or `scope` no str.
    """

    @checks_arguments
    def __init__(self, arg_type: ValueType, scope: str = "", value: Any = None) -> None:
        self.type = arg_type
        self.scope = scope
        self.value = value

    @classmethod
    def create_variable_value(cls, value: Any) -> ScopedValue:
        """A constant, a container of such values, or an object that no source can name."""
        if value is None or isinstance(value, (int, float, str, bool)):
            return cls(ValueType.ConstantValue, "", value)
        for kind, container in _CONTAINERS.items():
            if isinstance(value, container):
                return cls(kind, "", container(map(cls.create_variable_value, value)))
        if isinstance(value, dict):
            return cls(ValueType.DictValue, "", {
                cls.create_variable_value(k): cls.create_variable_value(v)
                for k, v in value.items()})
        return cls(ValueType.CustomObjValue, "", value)

    @classmethod
    def create_naming_value(cls, name: str, scope: str = "") -> ScopedValue:
        """The name of a variable."""
        return cls(ValueType.NamingValue, scope, instance(str)(name, "ScopedValue", "name"))

    @staticmethod
    def create_name_values(
        names: Sequence[str], scopes: Sequence[str] | None = None
    ) -> list[ScopedValue]:
        """The names of variables."""
        for given, name in ((names, "names"), (scopes, "scopes")):
            if given is not None and not isinstance(given, (list, tuple)):
                raise TypeError(f"For 'ScopedValue', '{name}' must be a list or tuple of str, but "
                                f"got {type(given).__name__}.")
        if scopes is not None and len(names) != len(scopes):
            raise ValueError("Length of names should be equal to length of scopes, but got "
                             f"{len(names)} and {len(scopes)}.")
        return [ScopedValue.create_naming_value(n, s)
                for n, s in zip(names, scopes or [""] * len(names), strict=True)]

    def __str__(self) -> str:
        if self.type is ValueType.ConstantValue:
            return str(self.value)
        if self.type is ValueType.NamingValue:
            return f"{self.scope}.{self.value}" if self.scope else str(self.value)
        if self.type is ValueType.CustomObjValue:
            return f"CustomObj: {self.value}"
        return f"Illegal ValueType: {self.type}"

    __repr__ = __str__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ScopedValue) and (self.type, self.scope, self.value) == (
            other.type, other.scope, other.value)

    def __hash__(self) -> int:
        return hash((self.type, self.scope, str(self.value)))


def parsed(text: str) -> ast.expr:
    """The expression of a text."""
    try:
        return ast.parse(text, mode="eval").body
    except SyntaxError as e:
        raise ValueError(f"For 'rewrite', a name or an expression is needed, but got {text!r}: "
                         f"{e.msg}.") from None


def expression(value: ScopedValue | str) -> ast.expr:
    """A value as an expression of the source; a str is the name of a variable."""
    if isinstance(value, str):
        return parsed(value)
    if value.type is ValueType.ConstantValue:
        return ast.Constant(value.value)
    if value.type is ValueType.NamingValue:
        return parsed(str(value))
    if value.type in _CONTAINERS:
        parts = [expression(v) for v in value.value]
        return (ast.Tuple if value.type is ValueType.TupleValue else ast.List)(parts, ast.Load())
    if value.type is ValueType.DictValue:
        return ast.Dict([expression(k) for k in value.value],
                        [expression(v) for v in value.value.values()])
    raise TypeError(f"For 'rewrite', {value} cannot be written as source: make it an attribute of "
                    "the network, and name that.")


def scoped(node: ast.expr) -> ScopedValue:
    """An expression of the source as a value."""
    if isinstance(node, ast.Constant):
        return ScopedValue(ValueType.ConstantValue, "", node.value)
    if isinstance(node, ast.Name):
        return ScopedValue.create_naming_value(node.id)
    if isinstance(node, ast.Attribute):
        return ScopedValue.create_naming_value(node.attr, ast.unparse(node.value))
    if isinstance(node, (ast.Tuple, ast.List)):
        kind = ValueType.TupleValue if isinstance(node, ast.Tuple) else ValueType.ListValue
        return ScopedValue(kind, "", _CONTAINERS[kind](map(scoped, node.elts)))
    return ScopedValue(ValueType.UnsupportedValue, "", ast.unparse(node))
