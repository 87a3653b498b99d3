"""Reading the structures that generated code and the runtime share, by the names of their fields.

Two instructions of the native entry's and the call sites' text are not LLVM's:

    %n = field %case.nargs, ptr %p          the value of a field of the structure at %p
    %at = place %context.free, ptr %p       its address

`%p[%i]` is the structure number %i behind %p. Types are those of `cellc_runtime.abi.STRUCTURES`, so
neither a number of a field nor its type stands in the text.
"""

from __future__ import annotations

import re

from cellc_runtime.abi import STRUCTURES

_USE = re.compile(
    r"^  (%[\w.]+) = (field|place) %(\w+)\.(\w+), ptr (%[\w.]+)(?:\[(%[\w.]+)\])?$", re.MULTILINE)


def declarations() -> str:
    """The types, `%context` and so on."""
    return "".join(
        f"%{name} = type {{ {', '.join(kind for _, kind in fields)} }}\n"
        for name, fields in STRUCTURES.items()
    )


def expand(code: str) -> str:
    """The text in LLVM's own instructions.

    Raises:
        KeyError: there is no such structure.
        ValueError: a structure has no such field.
    """
    return _USE.sub(_written, code)


def _written(use: re.Match[str]) -> str:
    result, how, name, field, base, number = use.groups()
    fields = STRUCTURES[name]
    index = [f for f, _ in fields].index(field)
    element = "i32 0" if number is None else f"i64 {number}"
    address = result if how == "place" else f"{result}.p"
    place = f"  {address} = getelementptr %{name}, ptr {base}, {element}, i32 {index}"
    if how == "place":
        return place
    return f"{place}\n  {result} = load {fields[index][1]}, ptr {address}"
