"""Strings that hold run-time values: built while compiling, formatted and printed by the run."""

from __future__ import annotations

import dataclasses
import re
import string
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

from ..core.module_names import is_exactly
from ..tensors.tensor import Tensor
from ..tracing.numbers import GraphNumber, item_of
from ..tracing.reads import in_class
from ..tracing.tracer import Tracer
from .trust import is_interpreted
from .values import Formatted, Text, holds, holds_runtime, is_runtime


def formatted(value: Any, spec: str, conversion: str = "") -> list[Any]:
    """The parts of `format(value, spec)`, or of `{value!r:spec}` in an f-string.

    Raises:
        TypeError: a tensor, or a string that holds one, has a format specification.
    """
    if not is_of_run(value):
        return [known(format(_CONVERSIONS[conversion](value), spec), value)]
    if isinstance(value, GraphNumber):
        if not spec:
            return [value]
        if conversion:
            raise TypeError("a number known only at run time takes no conversion before a format")
        return [Formatted(value, "{", spec)]
    if spec:
        raise TypeError(f"unsupported format string passed to {_type_name(value)}.__format__")
    if isinstance(value, Text):
        return ["'", *value.parts, "'"] if conversion in ("r", "a") else list(value.parts)
    return written(value, conversion in ("r", "a"))


_CONVERSIONS: dict[str, Callable[[Any], Any]] = {
    "": lambda v: v, "s": str, "r": repr, "a": ascii,
}


def _type_name(value: Any) -> str:
    return "Tensor" if is_runtime(value) else type(value).__name__


def format_text(pattern: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Text:
    """`pattern.format(...)` where some arguments are run-time values.

    Raises:
        TypeError: as `formatted`.
    """
    parts: list[Any] = []
    formatter = string.Formatter()
    automatic = 0
    for literal, name, spec, conversion in formatter.parse(pattern):
        parts.append(literal)
        if name is None:
            continue
        if not name or name[0] in ".[":
            name, automatic = f"{automatic}{name}", automatic + 1
        value, _ = formatter.get_field(name, args, kwargs)
        parts += formatted(value, (spec or "").format(*args, **kwargs), conversion or "")
    return Text(tuple(parts))


_PERCENT = re.compile(
    r"%(?:\((?P<key>[^)]*)\))?(?P<flags>[-#0 +]*\d*(?:\.\d+)?)(?P<kind>[a-zA-Z%])"
)
_INTS = frozenset("diouxXc")
_FLOATS = frozenset("eEfFgG")


def percent_text(pattern: str, values: Any) -> Text:
    """`pattern % values` where a value is known only at run time.

    Raises:
        TypeError: the pattern and the values do not fit.
    """
    given = list(values) if isinstance(values, tuple) else [values]
    parts: list[Any] = []
    at = 0
    for found in _PERCENT.finditer(pattern):
        parts.append(pattern[at : found.start()])
        at = found.end()
        kind = found["kind"]
        if kind == "%":
            parts.append("%")
            continue
        if found["key"] is not None:
            value = values[found["key"]]
        elif not given:
            raise TypeError("not enough arguments for format string")
        else:
            value = given.pop(0)
        parts += _percent(f"%{found['flags']}{kind}", kind, value)
    if given and not isinstance(values, dict):
        raise TypeError("not all arguments converted during string formatting")
    return Text((*parts, pattern[at:]))


def _percent(spec: str, kind: str, value: Any) -> list[Any]:
    """The parts of one conversion."""
    if not is_of_run(value):
        return [known(spec % (value,), value)]
    if kind in _INTS or kind in _FLOATS:
        if not is_runtime(value):
            raise TypeError(f"%{kind} format: a number is required, not {_type_name(value)}")
        if not isinstance(value, GraphNumber):
            value = item_of(value, int if kind in _INTS else float)
        return [Formatted(value, "%", spec)]
    if len(spec) > 2:
        raise TypeError(f"'{spec}' cannot format a value known only at run time: use '%{kind}'")
    return formatted(value, "", "" if kind == "s" else "r")


def join_text(separator: str, strings: Sequence[Any]) -> Text:
    """`separator.join(strings)` where some strings hold run-time values."""
    parts: list[Any] = []
    for i, value in enumerate(strings):
        if not isinstance(value, (str, Text)):
            raise TypeError(
                f"sequence item {i}: expected str instance, {_type_name(value)} found"
            )
        parts += [separator] * bool(i) + flat([value])
    return Text(tuple(parts))


def flat(parts: Sequence[Any]) -> list[Any]:
    """Parts with nested texts spread and containers of tensors written out."""
    out: list[Any] = []
    for part in parts:
        if isinstance(part, Text):
            out += part.parts
        else:
            out += written(part)
    return out


def written(value: Any, inside: bool = False) -> list[Any]:
    """A value as strings and run-time values, in the form Python prints it.

    Args:
        inside: it is an element of a container, so its `repr` is printed.
    """
    if isinstance(value, GraphNumber):
        return [value]
    if isinstance(value, Tensor):
        return [Formatted(value, "!r", "") if inside else value]
    if isinstance(value, Formatted):
        return [value]
    if isinstance(value, Text):
        return ["'", *value.parts, "'"]
    if is_exactly(value, (list, tuple)):
        left, right = ("[", "]") if isinstance(value, list) else ("(", ")")
        out: list[Any] = [left]
        for i, v in enumerate(value):
            out += [", "] * bool(i) + written(v, True)
        return [*out, ("," if right == ")" and len(value) == 1 else "") + right]
    if type(value) is dict:
        out = ["{"]
        for i, (k, v) in enumerate(value.items()):
            out += [", "] * bool(i) + [f"{k!r}: ", *written(v, True)]
        return [*out, "}"]
    fields = _fields(value)
    if fields is not None:
        kind = "namespace" if type(value) is SimpleNamespace else type(value).__qualname__
        out = [f"{kind}("]
        for i, (name, v) in enumerate(fields.items()):
            out += [f"{', ' * bool(i)}{name}=", *written(v, True)]
        return [*out, ")"]
    return [known(repr(value) if inside else str(value), value)]


def is_of_run(value: Any) -> bool:
    """Whether the text of a value has values of the run in it."""
    return holds(value, _has_values_of_run, 4)


def _has_values_of_run(value: Any) -> bool:
    return holds_runtime(value) or (
        type(value) is SimpleNamespace and any(map(holds_runtime, vars(value).values())))


def _fields(value: Any) -> dict[str, Any] | None:
    """The fields that generated code writes of an object, by name; None if other code writes it."""
    kind = type(value)
    if kind is SimpleNamespace:
        return {**vars(value)}
    params = kind.__dict__.get("__dataclass_params__")
    if params is None or not params.repr or is_interpreted(in_class(kind, "__repr__")) \
            or in_class(kind, "__str__") is not object.__str__:
        return None
    return {f.name: getattr(value, f.name) for f in dataclasses.fields(value) if f.repr}


_OF_GRAPH = re.compile("<graph (tensor |int>|float>|bool>)")


def known(text: str, value: Any) -> str:
    """The text that Python makes of a value.

    Raises:
        TypeError: there are values of the run in it.
    """
    if _OF_GRAPH.search(text):
        raise TypeError(f"the text of a {type(value).__name__} has values in it that are known "
                        "only at run time")
    return text


def shown(part: Any) -> tuple[Tensor | None, Any]:
    """The operand of a part of a text and its mark in the attributes of `print`."""
    if isinstance(part, Formatted):
        kind = part.value._number.__name__ if isinstance(part.value, GraphNumber) else ""
        return part.value, (kind, part.style, part.spec)
    if isinstance(part, GraphNumber):
        return part, (part._number.__name__, "{", "")
    return (part, None) if isinstance(part, Tensor) else (None, part)


def emit_print(tracer: Tracer, args: Sequence[Any], sep: str, end: str) -> None:
    """Print when the network runs."""
    parts: list[Any] = []
    for i, value in enumerate(args):
        parts += [sep] * bool(i) + flat([value])
    given = [shown(p) for p in joined([*parts, end])]
    tensors = [t for t, _ in given if t is not None]
    tracer.apply("print", tensors, {"parts": tuple(m for _, m in given)})


def joined(parts: Sequence[Any]) -> list[Any]:
    """Neighbouring strings as one."""
    out: list[Any] = []
    for part in parts:
        if isinstance(part, str) and out and isinstance(out[-1], str):
            out[-1] += part
        elif part != "" or not isinstance(part, str):
            out.append(part)
    return out
