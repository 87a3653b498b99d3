"""Strings that hold run-time tensors: formatting and printing."""

from __future__ import annotations

import string
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..common.tensor import Tensor
from .values import Text, is_runtime

if TYPE_CHECKING:
    from .interpreter import Interpreter


def format_text(pattern: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Text:
    """`pattern.format(...)` where some arguments are run-time tensors.

    Raises:
        TypeError: a tensor has a format specification.
    """
    parts: list[Any] = []
    automatic = 0
    for literal, name, spec, _ in string.Formatter().parse(pattern):
        parts.append(literal)
        if name is None:
            continue
        if name == "":
            name, automatic = str(automatic), automatic + 1
        value = args[int(name)] if name.isdigit() else kwargs[name]
        if spec and is_runtime(value):
            raise TypeError("a tensor in a format takes no format specification")
        parts.append(value if isinstance(value, (Tensor, Text)) else format(value, spec or ""))
    return Text(tuple(flat(parts)))


def flat(parts: Sequence[Any]) -> list[Any]:
    """Parts with nested texts spread and containers of tensors written out."""
    out: list[Any] = []
    for part in parts:
        if isinstance(part, Text):
            out += part.parts
        else:
            out += written(part)
    return out


def written(value: Any) -> list[Any]:
    """A value as strings and tensors, in the form Python prints it."""
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, Text):
        return ["'", *value.parts, "'"]
    if type(value) in (list, tuple):
        left, right = ("[", "]") if isinstance(value, list) else ("(", ")")
        out: list[Any] = [left]
        for i, v in enumerate(value):
            out += [", "] * bool(i) + ([repr(v)] if isinstance(v, str) else written(v))
        return [*out, ("," if right == ")" and len(value) == 1 else "") + right]
    if type(value) is dict:
        out = ["{"]
        for i, (k, v) in enumerate(value.items()):
            out += [", "] * bool(i) + [f"{k!r}: "]
            out += [repr(v)] if isinstance(v, str) else written(v)
        return [*out, "}"]
    return [str(value)]


def emit_print(vm: Interpreter, args: Sequence[Any], sep: str, end: str) -> None:
    """Print when the network runs."""
    parts: list[Any] = []
    for i, value in enumerate(args):
        parts += [sep] * bool(i) + flat([value])
    parts = joined([*parts, end])
    hook = getattr(vm.tracer, "print_", None)
    if hook is not None:
        hook(parts)
        return
    tensors = [p for p in parts if isinstance(p, Tensor)]
    marks = tuple(None if isinstance(p, Tensor) else p for p in parts)
    vm.tracer.apply("print", tensors, {"parts": marks})


def joined(parts: Sequence[Any]) -> list[Any]:
    """Neighbouring strings as one."""
    out: list[Any] = []
    for part in parts:
        if isinstance(part, str) and out and isinstance(out[-1], str):
            out[-1] += part
        elif part != "" or not isinstance(part, str):
            out.append(part)
    return out
