"""Checks of arguments for users' own layers and primitives, as `mindspore._checkparam` has them.

Each gives its value, or raises an error that names the argument and what it is an argument of.
"""

from __future__ import annotations

import inspect
import math
import operator
from collections.abc import Callable
from functools import partial, wraps
from typing import Any

from .core.declared import is_int, is_number

EQ, NE, LT, LE, GT, GE, INC_NEITHER, INC_LEFT, INC_RIGHT, INC_BOTH, IN = range(1, 12)
"""How a value relates to a bound (to EQ ... GE one, to INC_... two, which belong to the range or
not; IN: to values it is one of)."""
_COMPARED: dict[int, tuple[str, Callable[[Any, Any], Any]]] = {
    EQ: ("= {}", operator.eq), NE: ("!= {}", operator.ne), LT: ("< {}", operator.lt),
    LE: ("<= {}", operator.le), GT: ("> {}", operator.gt), GE: (">= {}", operator.ge),
    IN: ("in {}", lambda value, many: value in many),
}
_RANGES = {INC_NEITHER: "()", INC_LEFT: "[)", INC_RIGHT: "(]", INC_BOTH: "[]"}


def _what(arg_name: str | None, prim_name: str | None) -> str:
    name = f"'{arg_name}'" if arg_name else "input value"
    return f"For '{prim_name}', the {name}" if prim_name else f"The {name}"


def _need(
    holds: Any, value: Any, wanted: str, got: Any, arg_name: str | None, prim_name: str | None,
    error: type[Exception] = ValueError,
) -> Any:
    """The value, if what is wanted of it holds."""
    if not holds:
        raise error(f"{_what(arg_name, prim_name)} must {wanted}, but got {got}.")
    return value


def check(
    arg_name: str, arg_value: Any, value_name: str, value: Any, rel: int = EQ,
    prim_name: str | None = None, excp_cls: type[Exception] = ValueError,
) -> Any:
    """`arg_value`, which must relate to `value`.

    Raises:
        ValueError: (or `excp_cls`) it does not.
    """
    text, holds = _COMPARED[rel]
    return _need(holds(arg_value, value), arg_value,
                 f"be {text.format(value_name)}, that is {value}", arg_value, arg_name, prim_name,
                 excp_cls)


def check_is_number(
    arg_value: Any, arg_type: type, arg_name: str | None = None, prim_name: str | None = None
) -> Any:
    """`arg_value`, which must be a finite number of a type, not a bool.

    Raises:
        ValueError: it is infinite or NaN.
    """
    _need(isinstance(arg_value, arg_type) and not isinstance(arg_value, bool), arg_value,
          f"be {arg_type.__name__}", f"{type(arg_value).__name__} {arg_value!r}", arg_name,
          prim_name, TypeError)
    return _need(not isinstance(arg_value, float) or math.isfinite(arg_value), arg_value,
                 "be a finite number", arg_value, arg_name, prim_name)


def _bounded(
    kind: type, rel: int, value: Any, arg_value: Any, arg_name: str | None = None,
    prim_name: str | None = None,
) -> Any:
    check_is_number(arg_value, kind, arg_name, prim_name)
    text, holds = _COMPARED[rel]
    return _need(holds(arg_value, value), arg_value,
                 f"be {kind.__name__} and must {text.format(value)}", f"'{arg_value}'", arg_name,
                 prim_name)


def check_int(
    arg_value: Any, value: Any, rel: int, arg_name: str | None = None, prim_name: str | None = None
) -> Any:
    """An int that relates to `value`."""
    return _bounded(int, rel, value, arg_value, arg_name, prim_name)


def check_float(
    arg_value: Any, value: Any, rel: int, arg_name: str | None = None, prim_name: str | None = None
) -> Any:
    """A float that relates to `value`."""
    return _bounded(float, rel, value, arg_value, arg_name, prim_name)


def check_equal_int(
    arg_value: Any, value: int, arg_name: str | None = None, prim_name: str | None = None
) -> Any:
    """An int that is `value`."""
    return _bounded(int, EQ, value, arg_value, arg_name, prim_name)


check_positive_int = partial(_bounded, int, GT, 0)
check_negative_int = partial(_bounded, int, LT, 0)
check_non_positive_int = partial(_bounded, int, LE, 0)
check_non_negative_int = partial(_bounded, int, GE, 0)
check_positive_float = partial(_bounded, float, GT, 0)
check_negative_float = partial(_bounded, float, LT, 0)
check_non_positive_float = partial(_bounded, float, LE, 0)
check_non_negative_float = partial(_bounded, float, GE, 0)


def check_is_int(arg_value: Any, arg_name: str | None = None, prim_name: str | None = None) -> Any:
    """An int, not a bool."""
    return check_is_number(arg_value, int, arg_name, prim_name)


def check_is_float(
    arg_value: Any, arg_name: str | None = None, prim_name: str | None = None
) -> Any:
    """A finite float."""
    return check_is_number(arg_value, float, arg_name, prim_name)


def check_number(arg_name: str, arg_value: Any, value: Any, rel: int, prim_name: str | None) -> Any:
    """`arg_value`, which must relate to `value`."""
    return check(arg_name, arg_value, str(value), value, rel, prim_name)


def check_number_range(
    arg_value: Any, lower_limit: Any, upper_limit: Any, rel: int, value_type: type,
    arg_name: str | None = None, prim_name: str | None = None,
) -> Any:
    """A number of a type between two bounds.

    Raises:
        ValueError: it is outside, infinite or NaN.
    """
    check_is_number(arg_value, value_type, arg_name, prim_name)
    ends = _RANGES[rel]
    above = arg_value >= lower_limit if ends[0] == "[" else arg_value > lower_limit
    below = arg_value <= upper_limit if ends[1] == "]" else arg_value < upper_limit
    return _need(above and below, arg_value,
                 f"be in range of {ends[0]}{lower_limit}, {upper_limit}{ends[1]}", arg_value,
                 arg_name, prim_name)


def check_int_range(
    arg_value: Any, lower_limit: int, upper_limit: int, rel: int, arg_name: str | None = None,
    prim_name: str | None = None,
) -> Any:
    """An int between two bounds."""
    return check_number_range(arg_value, lower_limit, upper_limit, rel, int, arg_name, prim_name)


def check_float_range(
    arg_value: Any, lower_limit: float, upper_limit: float, rel: int, arg_name: str | None = None,
    prim_name: str | None = None,
) -> Any:
    """A float between two bounds."""
    return check_number_range(arg_value, lower_limit, upper_limit, rel, float, arg_name, prim_name)


def check_bool(arg_value: Any, arg_name: str | None = None, prim_name: str | None = None) -> bool:
    """A bool."""
    _need(isinstance(arg_value, bool), arg_value, "be a bool", type(arg_value).__name__, arg_name,
          prim_name, TypeError)
    return bool(arg_value)


def check_string(
    arg_value: Any, valid_values: Any, arg_name: str | None = None, prim_name: str | None = None
) -> str:
    """A str that is one of some."""
    _need(isinstance(arg_value, str) and arg_value in valid_values, arg_value,
          f"be str and must be in {valid_values}", repr(arg_value), arg_name, prim_name)
    return str(arg_value)


def check_value_type(
    arg_name: str, arg_value: Any, valid_types: Any, prim_name: str | None = None
) -> Any:
    """`arg_value`, which must be of one of some types (a bool is no int)."""
    many = tuple(valid_types) if isinstance(valid_types, (list, tuple, set)) else (valid_types,)
    fits = isinstance(arg_value, many)
    if isinstance(arg_value, bool):
        fits = bool in many
    elif is_int(arg_value) or is_number(arg_value):
        fits = fits or (int in many and is_int(arg_value))
    return _need(fits, arg_value, f"be of {[t.__name__ for t in many]}", type(arg_value).__name__,
                 arg_name, prim_name, TypeError)


def check_isinstance(arg_name: str, arg_value: Any, classes: Any) -> Any:
    """`arg_value`, which must be of a class, or of one of some."""
    if not isinstance(arg_value, classes):
        raise ValueError(f"The parameter '{arg_name}' must be isinstance of {classes}, but got "
                         f"{type(arg_value)}.")
    return arg_value


def check_subclass(arg_name: str, type_: Any, template_types: Any, prim_name: str) -> None:
    """Raise unless a type is one of some, or derived from one."""
    many = template_types if isinstance(template_types, (list, tuple)) else [template_types]
    _need(any(type_ is t or (isinstance(type_, type) and isinstance(t, type)
                             and issubclass(type_, t)) for t in many),
          type_, f"be one of {list(many)}", type_, arg_name, prim_name, TypeError)


def args_type_check(*type_args: Any, **type_kwargs: Any) -> Callable[..., Any]:
    """A decorator that checks the types of a function's arguments, given in order or by name.

    Raises:
        TypeError: (when the function is called) an argument is of another type.
    """
    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        signature = inspect.signature(function)
        wanted = signature.bind_partial(*type_args, **type_kwargs).arguments

        @wraps(function)
        def checked(*args: Any, **kwargs: Any) -> Any:
            for name, value in signature.bind(*args, **kwargs).arguments.items():
                if name in wanted and value is not None and not isinstance(value, wanted[name]):
                    raise TypeError(f"The parameter '{name}' must be {wanted[name]}, but got "
                                    f"{type(value)}.")
            return function(*args, **kwargs)

        return checked

    return decorate
